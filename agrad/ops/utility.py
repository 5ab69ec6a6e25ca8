"""Utility functions of the standard other than `all` and `any`, which are in the chapter of reductions."""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.cotangents import beside
from agrad.core.declare import linear
from agrad.core.entry import instead
from agrad.core.tensor import Tensor
from agrad.ops.batch_rules import along
from agrad.ops.docs import complete
from agrad.ops.manipulation import concat

__all__ = ["diff"]


def _diff_kernel(xp: Any, x: Any, /, *, axis: int = -1, n: int = 1) -> Any:
    lead = (slice(None),) * (axis % x.ndim)
    for _ in range(n):
        x = x[(*lead, slice(1, None), ...)] - x[(*lead, slice(None, -1), ...)]
    return x


def _diff_adjoint(xp: Any, g: Any, x_spec: Any, axis: int, n: int) -> Any:
    """(-1)^n times the differences of the cotangent with n zeros before and after."""
    axis = axis % len(x_spec.shape)
    n = min(n, x_spec.shape[axis])
    if not n:
        return g
    zeros = xp.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), dtype=g.dtype, **beside(g))
    made = xp.diff(xp.concat([zeros, g, zeros], axis=axis), axis=axis, n=n)
    return -made if n % 2 else made


@linear(name="diff", x=_diff_adjoint, kernel=_diff_kernel, batch=along)
def _diff(x: Any, /, *, axis: int = -1, n: int = 1) -> Tensor:
    """The differences of neighbours along an axis, `n` times over."""


def diff(
    x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None, dim: int | None = None
) -> Tensor:
    """The differences of neighbours along an axis, `n` times over.

    x: At least one axis, and a numeric dtype.
    axis : int, optional
        Along which.
    n : int, optional
        How many times; each makes the axis shorter by 1, until it is empty. 0 returns `x`.
    prepend, append : Tensor, optional
        Put before and after `x` along the axis first; operands with derivatives of their own. They have the rank of
        `x`, and its shape except along that axis.
    dim : int, optional
        PyTorch's name for `axis`.
    Returns: ``x[..., 1:] - x[..., :-1]`` for ``n=1`` and the last axis.
    ValueError: If `n` is negative or `x` has no axis.
    Linear; the adjoint is minus the difference of the cotangent with zeros at both ends.

    Source: array API 2025.12, Utility Functions.

    >>> x = ag.tensor([1.0, 4.0, 9.0], requires_grad=True)
    >>> y = ag.diff(x)
    >>> y.detach()
    tensor([3., 5.])
    >>> (y * ag.tensor([1.0, 10.0])).sum().backward()
    >>> x.grad
    tensor([-1., -9., 10.])
    """
    if dim is not None:
        axis = instead("diff", "axis", axis, -1, "dim", dim)
    if n < 0:
        raise ValueError(f"diff() takes n of 0 or more, not {n}")
    rank = getattr(x, "ndim", None)
    if rank is None:
        raise errors.not_an_operand("diff", "x", x)
    if not rank:
        raise ValueError("diff() takes a tensor of at least one axis, not a 0-d one")
    parts = [part for part in (prepend, x, append) if part is not None]
    return _diff(concat(parts, axis=axis) if len(parts) > 1 and n else x, axis=axis, n=n)


complete(globals(), {}, source="Source: array API 2025.12, utility functions.")
