"""``numpy.linalg``: linear algebra."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from agrad.core import errors
from agrad.core.names import MissingName
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.numpy.common import (
    NO_VALUE,
    axes_of,
    axis_of,
    common,
    floating,
    floatings,
    given,
    into,
    native,
    plain_axis,
    refused,
    static,
)  # fmt: skip
from agrad.numpy.products import outer as outer_product
from agrad.numpy.products import tensordot as product_over
from agrad.numpy.table import STEP, names_in, public
from agrad.ops import decompositions, eigenvalues, elementwise, manipulation, solving, statistical
from agrad.ops import linalg as ops
from agrad.ops.data_type import astype, finfo
from agrad.plugin import manager


class LstsqResult(NamedTuple):
    """The results of `lstsq`."""

    x: Tensor
    residuals: Tensor
    rank: Any
    s: Tensor


@public()
def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    return decompositions.cholesky(floating(a), upper=upper)


@public()
def qr(a: Any, mode: str = "reduced") -> Any:
    x = floating(a)
    if mode == "r":
        return decompositions.qr(x)[1]
    if mode not in ("reduced", "complete"):
        raise refused(f"numpy.linalg.qr with mode={mode!r}", "use 'reduced', 'complete' or 'r'")
    return decompositions.qr(x, mode=mode)


@public()
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = _triangle(a, "L") if hermitian else floating(a)
    if not compute_uv:
        return decompositions.svdvals(x)
    return decompositions.svd(x, full_matrices=full_matrices)


@public()
def svdvals(x: Any, /) -> Tensor:
    return decompositions.svdvals(floating(x))


def _triangle(a: Any, uplo: str) -> Tensor:
    """Return the Hermitian matrix of the triangle that is read; the diagonal is real."""
    x = floating(a)
    if uplo.upper() not in ("L", "U"):
        raise ValueError(f"UPLO argument must be 'L' or 'U'{errors.called()}")
    half = manipulation.tril(x, k=-1) if uplo.upper() == "L" else manipulation.triu(x, k=1)
    turned = ops.matrix_transpose(half)
    middle = manipulation.tril(manipulation.triu(x))
    if x._spec.is_complex:
        turned, middle = elementwise.conj(turned), astype(elementwise.real(middle), x.dtype)
    return half + turned + middle


@public()
def eigh(a: Any, UPLO: str = "L") -> Any:
    """The gradient goes to one triangle, because only that is read."""
    return eigenvalues.eigh(_triangle(a, UPLO))


@public()
def eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    """The gradient goes to one triangle, because only that is read."""
    return eigenvalues.eigvalsh(_triangle(a, UPLO))


@public()
def eig(a: Any) -> Any:
    return eigenvalues.eig(floating(a))


@public()
def eigvals(a: Any) -> Tensor:
    return eigenvalues.eigvals(floating(a))


@public()
def det(a: Any) -> Tensor:
    return solving.det(floating(a))


@public()
def slogdet(a: Any) -> Any:
    return solving.slogdet(floating(a))


@public()
def inv(a: Any) -> Tensor:
    return solving.inv(floating(a))


@public()
def solve(a: Any, b: Any) -> Tensor:
    return solving.solve(*common(*floatings(a, b)))


@public()
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NO_VALUE) -> Tensor:
    x = _triangle(a, "L") if hermitian else floating(a)
    if rcond is not None and given(rtol):
        raise ValueError(f"`rtol` and `rcond` can't be both set.{errors.called()}")
    cut = rcond
    if rcond is None:
        cut = rtol if given(rtol) and rtol is not None else 1e-15
        if given(rtol) and rtol is None:
            cut = max(x.shape[-2:]) * finfo(x.dtype).eps
    if isinstance(cut, int | float):
        cut = float(cut)
    return solving.pinv(x, rtol=cut)


@public()
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Differentiable where the rank is that of the smaller side or steps are not crossed."""
    x, y = common(*floatings(a, b))
    m, n = x.shape
    cut = (
        finfo(x.dtype).eps * max(m, n)
        if rcond is None
        else max(float(rcond), 0.0 if rcond >= 0 else finfo(x.dtype).eps)
    )
    column = y.ndim == 1
    values = decompositions.svdvals(x)
    rank = astype(
        statistical.sum(astype(values > cut * values[0], "int64")) if min(m, n) else as_operand(0, x), "int32"
    )
    found = ops.matmul(solving.pinv(x, rtol=cut), y)
    whole = bool(rank == n)
    if m > n and whole:
        gap = y - ops.matmul(x, found)
        squares = elementwise.square(elementwise.abs(gap) if gap._spec.is_complex else gap)
        residuals = statistical.sum(squares, axis=0)
        residuals = manipulation.reshape(residuals, (1,)) if column else residuals
    else:
        residuals = manipulation.reshape(values[:0], (0,))
    return LstsqResult(found, residuals, rank, values)


@public()
def matrix_power(a: Any, n: int) -> Tensor:
    return solving.matrix_power(floating(a) if n < 0 else as_operand(a), n)


@public(status=STEP)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    x = as_operand(A)
    if x.ndim < 2:
        return astype(statistical.any(x != 0), "int64")
    x = _triangle(x, "L") if hermitian else x
    if tol is None:
        return solving.matrix_rank(floating(x), rtol=rtol)
    if rtol is not None:
        raise ValueError(f"`tol` and `rtol` can't be both set.{errors.called()}")
    values = decompositions.svdvals(floating(x))
    return statistical.sum(astype(values > manipulation.expand_dims(as_operand(tol, x), axis=-1), "int64"), axis=-1)


@public()
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = floating(x)
    axis = plain_axis(axis)
    if ord is None and axis is None:
        found = ops.vector_norm(manipulation.reshape(x, (-1,)))
        return manipulation.reshape(found, (1,) * x.ndim) if keepdims else found
    if axis is None:
        axis = (0,) if x.ndim == 1 else (-2, -1)
        if x.ndim not in (1, 2):
            raise ValueError(f"Improper number of dimensions to norm.{errors.called()}")
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors{errors.called()}")
        return ops.vector_norm(x, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"Improper number of dimensions to norm.{errors.called()}")
    places = tuple(axis) if isinstance(axis, tuple) else axes
    moved = manipulation.moveaxis(x, places, (-2, -1))
    found = ops.matrix_norm(moved, ord="fro" if ord is None else ord)
    if not keepdims:
        return found
    return manipulation.reshape(found, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


@public()
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    return ops.matrix_norm(floating(x), keepdims=keepdims, ord=ord)


@public()
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    return ops.vector_norm(floating(x), axis=plain_axis(axis), keepdims=keepdims, ord=ord)


@public()
def cond(x: Any, p: Any = None) -> Tensor:
    x = floating(x)
    if p in (None, 2, -2):
        values = decompositions.svdvals(x)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return ops.matrix_norm(x, ord=p) * ops.matrix_norm(solving.inv(x), ord=p)


@public()
def multi_dot(arrays: Any, *, out: Any = None) -> Tensor:
    """Multiplied in the order that takes the fewest operations."""
    parts = list(common(*arrays))
    if len(parts) < 2:
        raise ValueError(f"Expecting at least two arrays.{errors.called()}")
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    if first:
        parts[0] = manipulation.expand_dims(parts[0], axis=0)
    if last:
        parts[-1] = manipulation.expand_dims(parts[-1], axis=1)
    sizes = [p.shape[0] for p in parts] + [parts[-1].shape[1]]
    found = _chain(parts, _split_points(sizes), 0, len(parts) - 1)
    shape = found.shape[1 if first else 0 : 1 if last else 2]
    return into(out, manipulation.reshape(found, shape))


def _split_points(sizes: list[int]) -> list[list[int]]:
    """Return where to split each stretch of a matrix chain: Cormen et al., Introduction to Algorithms, chapter 15.2."""
    n = len(sizes) - 1
    cost = [[0.0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best = min((cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))
            cost[i][j], split[i][j] = best
    return split


def _chain(parts: list[Tensor], split: list[list[int]], i: int, j: int) -> Tensor:
    if i == j:
        return parts[i]
    k = split[i][j]
    return ops.matmul(_chain(parts, split, i, k), _chain(parts, split, k + 1, j))


@public()
def tensorinv(a: Any, ind: int = 2) -> Tensor:
    x = floating(a)
    if ind <= 0:
        raise ValueError(f"Invalid ind argument.{errors.called()}")
    shape = x.shape[ind:] + x.shape[:ind]
    rows = math.prod(x.shape[ind:])
    return manipulation.reshape(solving.inv(manipulation.reshape(x, (-1, rows))), shape)


@public()
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    x, y = common(*floatings(a, b))
    if axes is not None:
        places = [axis_of(i, x.ndim) for i in static(axes)]
        x = manipulation.permute_dims(x, tuple(i for i in range(x.ndim) if i not in places) + tuple(places))
    shape = x.shape[-(x.ndim - y.ndim) :] if x.ndim > y.ndim else ()
    n = math.prod(shape)
    found = solving.solve(manipulation.reshape(x, (-1, n)), manipulation.reshape(y, (-1,)))
    return manipulation.reshape(found, shape)


# -- also in the main namespace; here with the standard's signatures ---------------------------------------------------


@public()
def matmul(x1: Any, x2: Any, /) -> Tensor:
    return ops.matmul(*common(x1, x2))


@public()
def matrix_transpose(x: Any, /) -> Tensor:
    return ops.matrix_transpose(as_operand(x))


@public()
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    return product_over(x1, x2, axes)


@public()
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    x, y = common(x1, x2)
    return ops.vecdot(manipulation.moveaxis(x, axis, -1), manipulation.moveaxis(y, axis, -1))


@public()
def outer(x1: Any, x2: Any, /) -> Tensor:
    x, y = common(x1, x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are {x.ndim}- and {y.ndim}-dimensional.{errors.called()}"
        )
    return outer_product(x, y)


@public()
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    x, y = common(x1, x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {x.shape[axis]} and"
            f" {y.shape[axis]} dimensional instead.{errors.called()}"
        )
    return ops.cross(x, y, axis=axis - x.ndim if axis >= 0 and x.ndim == y.ndim else axis)


@public()
def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    return ops.diagonal(as_operand(x), offset=offset)


@public()
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    from agrad.numpy.shaping import trace as of_axes  # noqa: PLC0415 (the same name as this function)

    return of_axes(x, offset, -2, -1, native(dtype))


if TYPE_CHECKING:
    LinAlgError: type[Exception]

if not TYPE_CHECKING:  # type checkers should report missing names

    def __getattr__(name: str) -> Any:
        if name == "LinAlgError":  # the exception that the array library raises
            for backend in (manager.default_backend(), manager.usable("numpy")):
                found = getattr(getattr(backend.namespace(), "linalg", None), name, None)
                if found is not None:
                    return found
        if name == "__all__":
            return __dir__()
        raise MissingName(__name__, name)

    def __dir__() -> list[str]:
        return [*names_in("linalg"), "LinAlgError"]
