"""Linear algebra: the standard's ``linalg`` extension."""

from __future__ import annotations

import functools as _functools
from typing import TYPE_CHECKING
from typing import Any as _Any

from agrad.core import names as _names
from agrad.core.errors import called as _called
from agrad.core.operands import as_operand as _as_operand
from agrad.core.tensor import Tensor as _Tensor
from agrad.ops import linalg as _linalg
from agrad.ops.decompositions import *  # noqa: F403 (its __all__)
from agrad.ops.eigenvalues import *  # noqa: F403 (its __all__)
from agrad.ops.linalg import *  # noqa: F403 (its __all__)
from agrad.ops.solving import *  # noqa: F403 (its __all__)


def norm(A: _Any, ord: _Any = None, dim: _Any = None, keepdim: bool = False, *, dtype: _Any = None) -> _Tensor:
    """Return the norm of vectors or matrices: PyTorch's signature of `vector_norm` and `matrix_norm`.

    Parameters
    ----------
    A : Tensor or array
        Floating-point, real or complex.
    ord : number, {"fro", "nuc"} or None, optional
        The order of the norm; for matrices as in `matrix_norm`. None is 2 for vectors, and for matrices the root of the
        sum of squares.
    dim : int or tuple of two int, optional
        The axis of the vectors, or those of the matrices. Default: with an order, `A` is one vector or matrix; without one,
        all elements are one vector.
    keepdim : bool, optional
        Keep these axes, with length 1.
    dtype : dtype, optional
        Convert to this dtype first.

    Returns
    -------
    Tensor
        Real.

    Raises
    ------
    RuntimeError
        If there is an order and no `dim`, and `A` has neither one nor two axes.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> ag.linalg.norm(x), ag.linalg.norm(x, 2), ag.linalg.norm(x, dim=1)
    (tensor(5.), tensor(4.), tensor([3., 4.]))
    """
    x = _as_operand(A)
    if dtype is not None:
        x = x.to(dtype)
    if dim is None and ord is not None:
        if x.ndim not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got"
                f" {x.ndim}D.{_called()}"
            )
        dim = tuple(range(x.ndim))
    axes = tuple(dim) if isinstance(dim, tuple | list) else None if dim is None else (dim,)
    if ord is None or axes is None or len(axes) == 1:
        return _linalg.vector_norm(x, axis=axes, keepdims=keepdim, ord=2 if ord is None else ord)
    made = _linalg.matrix_norm(x.movedim(axes, (-2, -1)), keepdims=keepdim, ord=ord)
    return made.movedim((-2, -1), axes) if keepdim else made


def multi_dot(tensors: _Any) -> _Tensor:
    """Return the product of matrices, from the left to the right.

    Parameters
    ----------
    tensors : sequence of Tensor
        The factors; the first and the last may be vectors.

    Returns
    -------
    Tensor
        The product. PyTorch chooses the parentheses that make the products small: write these out where it matters.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.linalg.multi_dot([ag.ones(1, 2), ag.ones(2, 3), ag.ones(3, 1)])
    tensor([[6.]])
    """
    product: _Tensor = _functools.reduce(_linalg.matmul, tensors)
    return product


if not TYPE_CHECKING:
    from agrad.ops.namespace import SUBNAMESPACES as _SUBNAMESPACES

    __all__ = [*(name for chapter in _SUBNAMESPACES["linalg"] for name in chapter.__all__), "multi_dot", "norm"]  # noqa: PLE0604 (strings)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
