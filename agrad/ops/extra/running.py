"""Running reductions: sums, products, extrema, sums of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from agrad.core.backend import backend_of
from agrad.core.declare import custom, linear
from agrad.core.entry import instead
from agrad.core.errors import UnsupportedOp, called
from agrad.core.facts import Facts
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.ops.batch_rules import BatchedCall, place, running
from agrad.ops.extra.common import along, checked_axis
from agrad.ops.manipulation import reshape
from agrad.ops.statistical import cumulative_prod, cumulative_sum

__all__ = ["cumprod", "cumsum", "cumulative_max", "cumulative_min", "logcumsumexp"]

# -- running ----------------------------------------------------------------------------------------------------------


def _running(name: str, x: Any, axis: int | None, dtype: Any) -> tuple[Tensor, int]:
    x = as_operand(x)
    if axis is None:
        return reshape(x, (-1,)), 0
    return x, checked_axis(name, axis, x.ndim)


def cumsum(x: Any, /, axis: int | None = None, *, dim: int | None = None, dtype: Any = None) -> Tensor:
    """Running sum along an axis: NumPy's and PyTorch's name of `agrad.cumulative_sum`.

    x: Any shape.
    axis : int, optional
        The axis; by default `x` is flattened.
    dim : int, optional
        PyTorch's name of `axis`.
    dtype : dtype, optional
        The dtype of the result.
    Returns: The running sums.
    As ``numpy.cumsum``. Linear.

    >>> ag.extra.cumsum(ag.tensor([[1, 2], [3, 4]]))
    tensor([ 1,  3,  6, 10])
    """
    x, at = _running("cumsum", x, axis if dim is None else instead("cumsum", "axis", axis, None, "dim", dim), dtype)
    return cumulative_sum(x, axis=at, dtype=dtype)


def cumprod(x: Any, /, axis: int | None = None, *, dim: int | None = None, dtype: Any = None) -> Tensor:
    """Running product along an axis: NumPy's and PyTorch's name of `agrad.cumulative_prod`.

    x, axis, dim, dtype: As for `cumsum`.
    Returns: The running products.
    As ``numpy.cumprod``; the gradient is exact at zeros.

    >>> ag.extra.cumprod(ag.tensor([1, 2, 3]))
    tensor([1, 2, 6])
    """
    x, at = _running("cumprod", x, axis if dim is None else instead("cumprod", "axis", axis, None, "dim", dim), dtype)
    return cumulative_prod(x, axis=at, dtype=dtype)


def _axis_of(axis: int | None, x: Any) -> int:
    """The axis counted from the front; a 1-d operand need not name it."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"axis must be named for an operand of {x.ndim} axes{called()}")
        return 0
    return axis % int(x.ndim)


def _strides(x: Any, axis: int) -> Iterator[tuple[Any, Any, Any]]:
    """Return the steps of a running combination (Hillis and Steele): the keys of the updated elements, of the others, and of their partners.

    After the step of stride s each element has been combined with the 2 s - 1 before it.
    """
    n, stride = x.shape[axis], 1
    if n != n:  # noqa: PLR0124 (nan: unknown to a lazy backend)
        owner = x._spec.backend if isinstance(x, Tensor) else backend_of(x)
        reason = "the length of the axis is not known before it is computed"
        raise UnsupportedOp("a running combination", owner.name if owner else "lazy", reason)
    while stride < n:
        yield along(axis, slice(0, stride)), along(axis, slice(stride, None)), along(axis, slice(None, -stride))
        stride *= 2


def _doubling(xp: Any, x: Any, axis: int, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine each element with all before it."""
    for head, tail, body in _strides(x, axis):
        x = xp.concat([x[head], combine(x[tail], x[body])], axis=axis)
    return x


def _held_kernel(xp: Any, x: Any, mask: Any, /, *, axis: int) -> Any:
    axis %= x.ndim
    for head, tail, body in _strides(x, axis):
        x = xp.concat([x[head], xp.where(mask[tail], x[tail], x[body])], axis=axis)
        mask = xp.concat([mask[head], mask[tail] | mask[body]], axis=axis)
    return x


def _gathered_kernel(xp: Any, x: Any, mask: Any, /, *, axis: int) -> Any:
    """Return running sums from the far end, restarted after each true element of a mask."""
    axis %= x.ndim
    if not x.shape[axis]:
        return x
    x, ends = xp.flip(x, axis=axis), xp.flip(mask, axis=axis)
    begins = xp.concat([xp.ones_like(ends[along(axis, slice(0, 1))]), ends[along(axis, slice(None, -1))]], axis=axis)
    for head, tail, body in _strides(x, axis):
        x = xp.concat([x[head], xp.where(begins[tail], x[tail], x[tail] + x[body])], axis=axis)
        begins = xp.concat([begins[head], begins[tail] | begins[body]], axis=axis)
    return xp.flip(xp.where(ends, x, xp.zeros_like(x)), axis=axis)


def _along_batch(b: BatchedCall, x: Any, mask: Any, /, *, axis: int = -1) -> Any:
    """Two arrays of one shape and an axis."""
    return b.kernel(b.data(x), b.data(mask), axis=place(axis, x.ndim))


@linear(
    name="extra.held",
    index=("mask",),
    x=lambda xp, g, mask, axis: xp.extra.gathered(g, mask, axis=axis),
    kernel=_held_kernel,
    batch=_along_batch,
)
def held(x: Any, mask: Any, /, *, axis: int) -> Tensor:
    """Return each element replaced by the one at the latest true element of a mask, up to and including its own position.

    x: Any shape.
    mask: Of the same shape, boolean; true at the beginning of the axis.
    axis : int
        The axis.
    Returns: Of the shape of `x`.
    """


@linear(
    name="extra.gathered",
    index=("mask",),
    x=lambda xp, g, mask, axis: xp.extra.held(g, mask, axis=axis),
    kernel=_gathered_kernel,
    batch=_along_batch,
)
def gathered(x: Any, mask: Any, /, *, axis: int) -> Tensor:
    """Return, at each true element of a mask, the sum up to the next one, 0 elsewhere: the adjoint of `held`.

    x, mask, axis: As for `held`.
    Returns: Of the shape of `x`.
    """


def _records(x: Any, ans: Any) -> Any:
    """Return where the running extremum changes; of equal elements, at the latest."""
    return (x == ans) | (x != x)  # noqa: PLR0124 (NaN counts as an extremum)


def _running_extremum(better: str) -> dict[str, Any]:
    """Return the rule and kernel of cumulative_max and cumulative_min."""

    def kernel(xp: Any, x: Any, /, *, axis: int | None = None) -> Any:
        return _doubling(xp, x, _axis_of(axis, x), getattr(xp, better))

    def vjp(xp: Any, g: Any, x: Any, ans: Any, axis: int | None) -> Any:
        return xp.extra.gathered(g, _records(x, ans), axis=_axis_of(axis, x))

    def jvp(xp: Any, t_x: Any, x: Any, ans: Any, axis: int | None) -> Any:
        return xp.extra.held(t_x, _records(x, ans), axis=_axis_of(axis, x))

    return {"vjp": {"x": vjp}, "jvp": jvp, "kernel": kernel}


@custom(
    name="extra.cumulative_max",
    **_running_extremum("maximum"),
    batch=running,
    least_axes=1,
    facts=Facts(sparsity="running"),
)
def cumulative_max(x: Any, /, *, axis: int | None = None) -> Tensor:
    """Running maximum along an axis.

    x: Real, at least one axis.
    axis : int, optional
        The axis, which a 1-d operand need not name.
    Returns: The largest elements so far. Once an element is NaN, so are all that follow.
    ValueError: If `x` has several axes and none is named.
    The values of ``torch.cummax`` (whose indices are not given) and of ``numpy.maximum.accumulate``. The gradient goes
    to the element picked, the latest of equal ones, as in PyTorch.

    >>> x = ag.tensor([1.0, 3.0, 2.0], requires_grad=True)
    >>> ag.extra.cumulative_max(x).sum().backward()
    >>> x.grad
    tensor([1., 2., 0.])
    """


@custom(
    name="extra.cumulative_min",
    **_running_extremum("minimum"),
    batch=running,
    least_axes=1,
    facts=Facts(sparsity="running"),
)
def cumulative_min(x: Any, /, *, axis: int | None = None) -> Tensor:
    """Running minimum along an axis.

    x, axis: As for `cumulative_max`.
    Returns: The smallest elements so far. Once an element is NaN, so are all that follow.
    ValueError: If `x` has several axes and none is named. The values of ``torch.cummin`` and of
    ``numpy.minimum.accumulate``. The gradient goes to the element picked, the latest of equal ones, as in PyTorch.

    >>> ag.extra.cumulative_min(ag.tensor([2.0, 3.0, 1.0]))
    tensor([2., 2., 1.])
    """


def _recurrence(xp: Any, x: Any, factor: Any, axis: int) -> Any:
    """y[i] = factor[i] y[i - 1] + x[i] along an axis; the first factor is not used."""
    for head, tail, body in _strides(x, axis):
        x = xp.concat([x[head], x[tail] + factor[tail] * x[body]], axis=axis)
        factor = xp.concat([factor[head], factor[tail] * factor[body]], axis=axis)
    return x


def _share(xp: Any, x: Any, ans: Any) -> Any:
    """exp(x - ans), and 0 for -inf."""
    nothing = x == -math.inf
    zero = xp.zeros_like(x)
    share = xp.exp(xp.where(nothing, zero, x) - xp.where(nothing, zero, ans))
    return xp.where(nothing, zero, share)


def _decay(xp: Any, ans: Any, axis: int) -> Any:
    """exp(ans[i - 1] - ans[i]), at most 1; 1 for the first, and where both are -inf."""
    before = xp.concat([ans[along(axis, slice(0, 1))], ans[along(axis, slice(None, -1))]], axis=axis)
    same, zero = before == ans, xp.zeros_like(ans)
    return xp.exp(xp.where(same, zero, before) - xp.where(same, zero, ans))


def _logcumsumexp_vjp(xp: Any, g: Any, x: Any, ans: Any, axis: int | None) -> Any:
    at = _axis_of(axis, x)
    if not x.shape[at]:
        return g
    # sum over j >= i of g[j] exp(x[i] - ans[j]) = exp(x[i] - ans[i]) c[i], c[i] = g[i] + exp(ans[i] - ans[i + 1]) c[i+1]
    factor = xp.roll(xp.flip(_decay(xp, ans, at), axis=at), 1, axis=at)
    total = _recurrence(xp, xp.flip(g, axis=at), factor, at)
    return _share(xp, x, ans) * xp.flip(total, axis=at)


def _logcumsumexp_jvp(xp: Any, t_x: Any, x: Any, ans: Any, axis: int | None) -> Any:
    at = _axis_of(axis, x)
    return _recurrence(xp, t_x * _share(xp, x, ans), _decay(xp, ans, at), at) if x.shape[at] else t_x


@custom(
    name="extra.logcumsumexp",
    vjp={"x": _logcumsumexp_vjp},
    jvp=_logcumsumexp_jvp,
    kernel=lambda xp, x, /, *, axis=None: _doubling(xp, x, _axis_of(axis, x), xp.logaddexp),
    source="the derivative as a recurrence with factors of at most 1; Hillis and Steele: Data parallel algorithms (1986)",
    batch=running,
    least_axes=1,
    facts=Facts(needs=("zero-size reductions",), sparsity="running"),
)
def logcumsumexp(x: Any, /, *, axis: int | None = None) -> Tensor:
    """Logarithm of the running sum of exponentials along an axis, without overflow.

    x: Real, at least one axis.
    axis : int, optional
        The axis, which a 1-d operand need not name.
    Returns: ``log(cumulative_sum(exp(x)))``.
    ValueError: If `x` has several axes and none is named.
    As ``torch.logcumsumexp``. Elements of -inf, which do not count, get the gradient 0, also where all are -inf (NaN in
    PyTorch).

    >>> ag.extra.logcumsumexp(ag.tensor([1000.0, 1000.0]))
    tensor([1000.0000, 1000.6931])
    """
