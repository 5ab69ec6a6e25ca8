"""Products of vectors and matrices with NumPy's semantics, norms, distances, Vandermonde matrices."""

from __future__ import annotations

from typing import Any

from agrad.core.errors import called
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor, check_number
from agrad.ops import linalg
from agrad.ops.creation import arange, asarray
from agrad.ops.data_type import astype
from agrad.ops.elementwise import multiply, pow
from agrad.ops.extra.common import Axis, checked_axes
from agrad.ops.manipulation import expand_dims, flip, permute_dims, reshape

__all__ = ["cdist", "dot", "inner", "kron", "norm", "outer", "vander"]


def dot(x1: Any, x2: Any, /) -> Tensor:
    """Product as NumPy's ``dot`` has it.

    x1, x2: Any shapes.
    Returns: For two vectors the sum of products, for matrices the matrix product, with a scalar the elementwise
        product, otherwise the sum over the last axis of `x1` and the last but one of `x2` (the only one of a vector).
    As ``numpy.dot``: nothing is conjugated, and leading axes do not broadcast as those of `agrad.matmul` do.

    >>> ag.extra.dot(ag.tensor([1.0, 2.0]), [3.0, 4.0])
    tensor(11.)
    """
    x1, x2 = as_operands(x1, x2)
    if not x1.ndim or not x2.ndim:
        return multiply(x1, x2)
    if x2.ndim == 1 or (x1.ndim <= 2 and x2.ndim == 2):
        return linalg.matmul(x1, x2)
    return linalg.tensordot(x1, x2, axes=((x1.ndim - 1,), (x2.ndim - 2,)))


def inner(x1: Any, x2: Any, /) -> Tensor:
    """Sums of products over the last axes.

    x1, x2: With last axes of one length, or scalars.
    Returns: The other axes of `x1`, then those of `x2`.
    As ``numpy.inner``: nothing is conjugated.

    >>> ag.extra.inner(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), [1.0, 1.0])
    tensor([3., 7.])
    """
    x1, x2 = as_operands(x1, x2)
    if not x1.ndim or not x2.ndim:
        return multiply(x1, x2)
    return linalg.tensordot(x1, x2, axes=((x1.ndim - 1,), (x2.ndim - 1,)))


def outer(x1: Any, x2: Any, /) -> Tensor:
    """The products of all pairs of elements of two operands, which are flattened.

    x1, x2: Any shapes, of n and m elements.
    Returns: A matrix of n rows and m columns.
    As ``numpy.outer``. The standard's `agrad.outer` takes vectors only.

    >>> ag.extra.outer(ag.tensor([[1.0], [2.0]]), [3.0, 4.0])
    tensor([[3., 4.],
            [6., 8.]])
    """
    x1, x2 = as_operands(x1, x2)
    return linalg.outer(reshape(x1, (-1,)), reshape(x2, (-1,)))


def kron(x1: Any, x2: Any, /) -> Tensor:
    """Kronecker product: a copy of the second operand for each element of the first, multiplied by that element.

    x1, x2: Any shapes; the one with fewer axes is prepended axes of length 1.
    Returns: An array whose lengths are the products of both lengths along each axis. As ``numpy.kron``. Bilinear.

    >>> ag.extra.kron(ag.tensor([1, 10]), [1, 2])
    tensor([ 1,  2, 10, 20])
    """
    x1, x2 = as_operands(x1, x2)
    rank = max(x1.ndim, x2.ndim)
    first, second = ((1,) * (rank - x.ndim) + x.shape for x in (x1, x2))
    left, right = tuple(k for n in first for k in (n, 1)), tuple(k for n in second for k in (1, n))
    product = reshape(x1, left) * reshape(x2, right)
    return reshape(product, tuple(n * m for n, m in zip(first, second, strict=True)))


def vander(x: Any, /, n: int | None = None, *, increasing: bool = False) -> Tensor:
    """Vandermonde matrix: a row of powers for each element.

    x: A vector.
    n : int, optional
        The number of columns. Default: the number of rows.
    increasing : bool, optional
        Whether the powers rise from the left.
    Returns: A matrix.
    ValueError: If `x` is not a vector, or `n` is negative.
    As ``numpy.vander``. The derivative of the power 0 is 0, also at 0.

    >>> ag.extra.vander(ag.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    x = as_operand(x)
    n = x.shape[0] if n is None and x.ndim == 1 else n
    if x.ndim != 1 or n is None or n < 0:
        raise ValueError(f"vander() takes a vector and n >= 0, not an operand of shape {x.shape} and n={n}{called()}")
    powers = astype(arange(n, device=x.device), x.dtype)
    found = pow(expand_dims(x, axis=1), powers)
    return found if increasing else flip(found, axis=1)


def norm(
    x: Any,
    /,
    ord: float | str | None = None,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    p: float | str | None = None,
    dim: Axis = None,
    keepdim: bool = False,
) -> Tensor:
    """Norm of vectors or matrices.

    x: Any shape.
    ord : number, inf, -inf, "fro" or "nuc", optional
        The order of the norm. Default: the Euclidean norm, also for a matrix (of all its elements).
    axis: One axis for vectors, two for matrices. By default `x` is one vector or matrix; without `ord` it may have any
        number of axes.
    p, dim, keepdim : optional
        PyTorch's: as for the method ``x.norm(p, dim, keepdim)``, which takes all elements as one vector where there is no `dim`.
    Returns: Real.
    ValueError: If the number of axes is neither one nor two.
    As ``numpy.linalg.norm``, by ``agrad.linalg.vector_norm`` and ``agrad.linalg.matrix_norm``, which state the
    conventions at 0 and at ties.

    >>> ag.extra.norm(ag.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    x = as_operand(x)
    x = x if x._spec.inexact else astype(x, asarray(0.0).dtype)
    if p is not None or dim is not None or keepdim:
        if axis is not None or (ord is not None and p is not None) or keepdims:
            raise TypeError(f"norm() takes p, dim and keepdim, or ord, axis and keepdims{called()}")
        p = ord if p is None else p
        found: Tensor = x.norm("fro" if p is None else p, dim, keepdim)
        return found
    check_number("norm", "ord", ord)
    if axis is None and (ord is None or (ord == "fro" and x.ndim == 2) or (ord == 2 and x.ndim == 1)):
        return linalg.vector_norm(x, axis=None, keepdims=keepdims)
    axes = checked_axes("norm", axis, x.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"norm(): invalid norm order {ord!r} for vectors{called()}")
        return linalg.vector_norm(x, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"norm(): improper number of dimensions to norm: {len(axes)}{called()}")
    if ord is None:
        return linalg.vector_norm(x, axis=axes, keepdims=keepdims)
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    found = linalg.matrix_norm(permute_dims(x, rest + axes), ord=ord)
    return reshape(found, tuple(1 if i in axes else n for i, n in enumerate(x.shape))) if keepdims else found


def cdist(x1: Any, x2: Any, /, *, p: float = 2.0) -> Tensor:
    """Distances between all pairs of rows.

    x1: Shape (..., n, k).
    x2: Shape (..., m, k); leading axes broadcast.
    p : float, optional
        The order of the norm, from 0 to inf.
    Returns: Shape (..., n, m).
    RuntimeError: If an operand has fewer than two axes, or their last axes differ.
    As ``torch.cdist``, from the differences of all pairs (n * m * k numbers), which keeps small distances exact. The
    gradient at distance 0 is 0.

    >>> ag.extra.cdist(ag.tensor([[0.0, 0.0]]), ag.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    x1, x2 = as_operands(x1, x2)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist(): X1 and X2 must have the same number of columns and at least two axes. X1: {x1.shape} X2: "
            f"{x2.shape}{called()}"
        )
    return linalg.vector_norm(expand_dims(x1, axis=-2) - expand_dims(x2, axis=-3), axis=-1, ord=p)
