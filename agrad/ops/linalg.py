"""Linear algebra functions of the standard: products, diagonals, norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agrad.core.cotangents import beside, promote, unbroadcast
from agrad.core.declare import custom, linear, multilinear
from agrad.core.facts import Facts
from agrad.core.tensor import check_number
from agrad.ops import elementwise, statistical
from agrad.ops.batch_rules import BatchedCall, matrices, place, places, reduced
from agrad.ops.decompositions import svdvals
from agrad.ops.docs import complete
from agrad.ops.manipulation import expand_dims, matrix_transpose
from agrad.ops.matrices import adjoint, conj, mm, real

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_transpose", "outer", "tensordot", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip

# -- products ---------------------------------------------------------------------------------------------------------


def _matmul_by_first(xp: Any, g: Any, x2: Any, x1_spec: Any, ans_spec: Any) -> Any:
    """Return g x2^H, with the axes inserted that vectors lack."""
    if ans_spec.is_float and x2.ndim == 2 and len(x1_spec.shape) > 1:
        return xp.matmul(g, xp.matrix_transpose(x2))
    if x2.ndim == 1:
        a, b = promote(xp, g, conj(xp, x2))
        return xp.multiply(a if len(x1_spec.shape) == 1 else a[..., None], b)
    if len(x1_spec.shape) == 1:
        return mm(xp, g[..., None, :], adjoint(xp, x2))[..., 0, :]
    return mm(xp, g, adjoint(xp, x2))


def _matmul_by_second(xp: Any, g: Any, x1: Any, x2_spec: Any, ans_spec: Any) -> Any:
    """Return x1^H g, with the axes inserted that vectors lack."""
    if ans_spec.is_float and x1.ndim == 2 and len(x2_spec.shape) == 2:
        return xp.matmul(xp.matrix_transpose(x1), g)
    if x1.ndim == 1:
        a, b = promote(xp, g, conj(xp, x1))
        return xp.multiply(a, b) if len(x2_spec.shape) == 1 else xp.multiply(b[:, None], a[..., None, :])
    if len(x2_spec.shape) == 1:
        product = mm(xp, adjoint(xp, x1), g[..., None])[..., 0]
        return product if product.ndim == 1 else xp.sum(product, axis=tuple(range(product.ndim - 1)))
    return mm(xp, adjoint(xp, x1), g)


def _matmul_batch(b: BatchedCall, x1: Any, x2: Any, /) -> Any:
    if not x1.ndim or not x2.ndim:
        raise ValueError(f"matmul takes arrays of at least one axis, not of shapes {x1.shape} and {x2.shape}")
    if x1.shape[-1] != x2.shape[0 if x2.ndim == 1 else -2]:
        raise ValueError(f"matmul: shapes {x1.shape} and {x2.shape} do not match")
    xp, first, second = b.xp, b.has(x1), b.has(x2)
    if first and not second and x2.ndim <= 2:
        return _rows_times(b, x1.data, x2)
    if second and not first and x2.ndim == 1 and x1.ndim <= 2:  # A v for each v: the rows V times A^T
        return xp.matmul(x2.data, x1 if x1.ndim == 1 else xp.permute_dims(x1, (1, 0)))
    a = _as_matrix(b, x1, row=True)
    c = _as_matrix(b, x2, row=False)
    rank = max(x1.ndim, x2.ndim, 2)
    a = b.raised(a, rank) if first else a
    c = b.raised(c, rank) if second else c
    # one product per element is not a contraction: an outer product is faster elementwise
    product = xp.multiply(a, c) if a.shape[-1] == 1 and not _promotes(a, c) else xp.matmul(a, c)
    if x1.ndim == 1:
        product = xp.squeeze(product, axis=-2)
    return xp.squeeze(product, axis=-1) if x2.ndim == 1 else product


def _promotes(a: Any, c: Any) -> bool:
    return bool(a.dtype != c.dtype)


def _rows_times(b: BatchedCall, rows: Any, matrix: Any) -> Any:
    """Multiply all rows of a batch by one matrix: a single product."""
    if rows.ndim <= 2 or matrix.ndim == 1:
        return b.xp.matmul(rows, matrix)
    lead = rows.shape[:-1]
    product = b.xp.matmul(b.xp.reshape(rows, (math.prod(lead), rows.shape[-1])), matrix)
    return b.xp.reshape(product, (*lead, matrix.shape[-1]))


def _as_matrix(b: BatchedCall, x: Any, *, row: bool) -> Any:
    """Return the inner array of a matrix or stack; a vector becomes a row or a column."""
    data = x.data if b.has(x) else x
    if x.ndim > 1:
        return data
    return b.xp.expand_dims(data, axis=-2 if row else -1)


def _with_sparse(x1: Any, x2: Any) -> Any:
    """Multiply by a sparse matrix; Python passes other operands to their own operators."""
    from agrad.ops import sparse  # noqa: PLC0415 (most programs have none)

    return sparse.matmul(x1, x2) if sparse.is_sparse(x1) or sparse.is_sparse(x2) else NotImplemented


@multilinear(
    x1=_matmul_by_first,
    x2=_matmul_by_second,
    batch=_matmul_batch,
    others=_with_sparse,
    contracts=lambda specs: ((-1,), (-2 if len(specs[1].shape) > 1 else -1,)),
    memory="fresh",
    facts=Facts(symbol="@", numpy="matmul", direct=True, needs=("zero-size reductions",), sparsity="matmul"),
)
def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The matrix product over the last two axes; the others are broadcast.

    x1, x2:
        Numeric, shapes (..., M, K) and (..., K, N), or (K,): a vector stands for one row (`x1`) or one column (`x2`),
        which the result lacks.
    Returns: Shape (..., M, N), (..., N), (..., M) or ().
    ValueError: The backend's own error, if an operand has no axis or the shapes do not fit.
    Derivative: ``g x2^H`` and ``x1^H g``.
    Source: array API 2025.12, linear algebra functions.

    >>> a = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> b = ag.tensor([10.0, 1.0])
    >>> y = ag.matmul(a, b)
    >>> y.detach()
    tensor([12., 34.])
    >>> ag.grad(y.sum(), a)[0]
    tensor([[10.,  1.],
            [10.,  1.]])
    """


def _contraction(axes: Any, rank1: int, rank2: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the contracted axes of both operands of tensordot, not negative."""
    if isinstance(axes, int):
        return tuple(range(rank1 - axes, rank1)), tuple(range(axes))
    first, second = ((a,) if isinstance(a, int) else a for a in axes)
    return tuple(a % rank1 for a in first), tuple(a % rank2 for a in second)


def _tensordot_adjoint(xp: Any, g: Any, other: Any, spec: Any, axes: Any, *, first: bool) -> Any:
    """Contract g with the other operand over its free axes, and restore the order of the axes."""
    rank, rank_other = len(spec.shape), other.ndim
    pair = _contraction(axes, rank, rank_other) if first else _contraction(axes, rank_other, rank)[::-1]
    mine, theirs = pair
    free_mine = tuple(i for i in range(rank) if i not in mine)
    free_theirs = tuple(i for i in range(rank_other) if i not in theirs)
    g_axes = tuple(range(len(free_mine), g.ndim)) if first else tuple(range(len(free_theirs)))
    result = xp.tensordot(*promote(xp, g, conj(xp, other)), axes=(g_axes, free_theirs))
    # the result has my free axes, then theirs that were contracted, in rising order
    rising = sorted(range(len(theirs)), key=lambda i: theirs[i])
    place = {axis: i for i, axis in enumerate(free_mine)}
    place |= {mine[i]: len(free_mine) + k for k, i in enumerate(rising)}
    return xp.permute_dims(result, tuple(place[i] for i in range(rank)))


def _tensordot_batch(b: BatchedCall, x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        first, second = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    else:
        first, second = (tuple(i - 1 for i in places(part, x.ndim)) for part, x in zip(axes, (x1, x2), strict=True))
    free1 = [i for i in range(x1.ndim) if i not in first]
    free2 = [i for i in range(x2.ndim) if i not in second]
    xp = b.xp
    if b.has(x1) and not b.has(x2):
        return xp.tensordot(x1.data, x2, axes=(tuple(i + 1 for i in first), second))
    if not b.has(x1):
        return xp.moveaxis(xp.tensordot(x1, x2.data, axes=(first, tuple(i + 1 for i in second))), len(free1), 0)
    if [x1.shape[i] for i in first] != [x2.shape[i] for i in second]:
        raise ValueError(f"tensordot: shapes {x1.shape} and {x2.shape} do not match along {first} and {second}")
    shape = (*(x1.shape[i] for i in free1), *(x2.shape[i] for i in free2))
    many = math.prod(x1.shape[i] for i in first)
    a = xp.permute_dims(x1.data, (0, *(i + 1 for i in (*free1, *first))))
    c = xp.permute_dims(x2.data, (0, *(i + 1 for i in (*second, *free2))))
    a = xp.reshape(a, (b.size, math.prod(x1.shape[i] for i in free1), many))
    c = xp.reshape(c, (b.size, many, math.prod(x2.shape[i] for i in free2)))
    return xp.reshape(xp.matmul(a, c), (b.size, *shape))


def _tensordot_contracts(_: Any, axes: Any) -> tuple[tuple[int, ...], ...]:
    if isinstance(axes, int):
        return tuple(range(-axes, 0)), tuple(range(axes))
    return tuple((one,) if isinstance(one, int) else tuple(one) for one in axes)


def _tensordot_by_matmul(xp: Any, x1: Any, x2: Any, /, axes: Any = 2) -> Any:
    """Merge the free axes of both operands into one axis each, multiply, and split them again."""
    first, second = _contraction(axes, x1.ndim, x2.ndim)
    free1 = tuple(i for i in range(x1.ndim) if i not in first)
    free2 = tuple(i for i in range(x2.ndim) if i not in second)
    shape = (*(x1.shape[i] for i in free1), *(x2.shape[i] for i in free2))
    inner = math.prod(x1.shape[i] for i in first)
    rows = xp.reshape(xp.permute_dims(x1, (*free1, *first)), (math.prod(shape[: len(free1)]), inner))
    columns = xp.reshape(xp.permute_dims(x2, (*second, *free2)), (inner, math.prod(shape[len(free1) :])))
    return xp.reshape(xp.matmul(rows, columns), shape)


@multilinear(
    x1=lambda xp, g, x2, x1_spec, axes: _tensordot_adjoint(xp, g, x2, x1_spec, axes, first=True),
    x2=lambda xp, g, x1, x2_spec, axes: _tensordot_adjoint(xp, g, x1, x2_spec, axes, first=False),
    batch=_tensordot_batch,
    contracts=_tensordot_contracts,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",), sparsity=_tensordot_by_matmul),
)
def tensordot(
    x1: Any,
    x2: Any,
    /,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
    *,
    dims: int | tuple[Sequence[int], Sequence[int]] | None = None,
) -> Tensor:
    """Sum products over pairs of axes.

    x1, x2: Numeric.
    axes : int or tuple of two sequences of int, optional
        How many of the last axes of `x1` are contracted with the first of `x2`, or which axes of `x1` with which of
        `x2`. Contracted axes have equal lengths.
    Returns: The remaining axes of `x1`, then those of `x2`.
    ValueError: The backend's own error, if axes that meet differ in length.
    Derivative: the cotangent contracted with the conjugate of the other operand over that one's remaining axes.
    Source: array API 2025.12, linear algebra functions.

    >>> a = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> b = ag.tensor([[1.0, 0.0], [2.0, 1.0]])
    >>> y = ag.tensordot(a, b)
    >>> y.detach()
    tensor(11.)
    >>> ag.grad(y, a)[0]
    tensor([[1., 0.],
            [2., 1.]])
    """


def _vecdot_adjoint(xp: Any, g: Any, other: Any, spec: Any, axis: int) -> Any:
    """Return g times the other operand. An axis is counted in each operand separately, before the shorter is broadcast."""
    product = xp.multiply(*promote(xp, g[..., None], xp.moveaxis(other, axis, -1)))
    shape = list(spec.shape)
    shape.append(shape.pop(axis))
    return xp.moveaxis(unbroadcast(xp, product, tuple(shape)), -1, axis)


def _vecdot_batch(b: BatchedCall, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    # each operand's own axis last; then align the ranks of the rest
    first, second = (_last(b, x, axis) for x in (x1, x2))
    rank = max(x1.ndim, x2.ndim)
    return b.kernel(b.raised(first, rank) if b.has(x1) else first, b.raised(second, rank) if b.has(x2) else second)


def _last(b: BatchedCall, x: Any, axis: int) -> Any:
    at = place(axis, x.ndim)
    if b.has(x):
        return x.data if at == x.ndim else b.xp.moveaxis(x.data, at, -1)
    return x if at == x.ndim else b.xp.moveaxis(x, at - 1, -1)


@multilinear(
    x1=lambda xp, g, x2, x1_spec, axis: _vecdot_adjoint(xp, conj(xp, g), x2, x1_spec, axis),
    x2=lambda xp, g, x1, x2_spec, axis: _vecdot_adjoint(xp, g, x1, x2_spec, axis),
    batch=_vecdot_batch,
    contracts=lambda _, axis: ((axis,), (axis,)),
    memory="fresh",
    facts=Facts(
        numpy="vecdot",
        needs=("zero-size reductions",),
        sparsity=lambda xp, x1, x2, /, *, axis=-1: xp.sum(xp.multiply(x1, x2), axis=axis),
    ),
)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The dot product of vectors along an axis; `x1` is conjugated.

    x1, x2: Numeric, of equal length along the axis; the other axes are broadcast.
    Returns: The broadcast shape without the axis.
    ValueError: The backend's own error, if the vectors differ in length.
    Derivative: ``conj(g) x2`` and ``g x1``.
    Source: array API 2025.12, linear algebra functions.

    >>> a = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> y = ag.vecdot(a, ag.tensor([3.0, 4.0]))
    >>> y.detach()
    tensor(11.)
    >>> ag.grad(y, a)[0]
    tensor([3., 4.])
    """


def _two_vectors(x1: tuple[int, ...], x2: tuple[int, ...]) -> None:
    for name, shape in (("self", x1), ("vec2", x2)):
        if len(shape) != 1:
            raise ValueError(
                f"outer: Expected 1-D argument {name}, but got {len(shape)}-D\n  agrad.numpy.outer takes arrays of any rank as"
                " vectors of their elements, as NumPy's does."
            )


def _outer_batch(b: BatchedCall, x1: Any, x2: Any, /) -> Any:
    xp = b.xp
    a = xp.expand_dims(x1.data if b.has(x1) else x1, axis=-1)
    return xp.multiply(a, xp.expand_dims(x2.data if b.has(x2) else x2, axis=-2))


@multilinear(
    name="linalg.outer",
    x1=lambda xp, g, x2: mm(xp, g, conj(xp, x2)),
    x2=lambda xp, g, x1: mm(xp, xp.matrix_transpose(g), conj(xp, x1)),
    batch=_outer_batch,
    shapes=_two_vectors,
    memory="fresh",
    facts=Facts(
        needs=("zero-size reductions",), sparsity=lambda xp, x1, x2, /: xp.multiply(xp.expand_dims(x1, axis=1), x2)
    ),
)
def outer(x1: Any, x2: Any, /) -> Tensor:
    """The products of all pairs of elements of two vectors.

    x1, x2: Numeric, shapes (N,) and (M,).
    Returns: Shape (N, M). Nothing is conjugated.
    ValueError: If an operand is not a vector; `agrad.numpy.outer` flattens operands.
    Derivative: ``g conj(x2)`` and ``g^T conj(x1)``.

    >>> a = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> y = ag.linalg.outer(a, ag.tensor([10.0, 1.0]))
    >>> y.detach()
    tensor([[10.,  1.],
            [20.,  2.]])
    >>> ag.grad(y.sum(), a)[0]
    tensor([11., 11.])
    """


def _cross_adjoint(xp: Any, g: Any, other: Any, spec: Any, axis: int, *, first: bool) -> Any:
    """Return other x g, or g x other, with the vectors along the last axis while the rest is un-broadcast."""
    if axis < 0:
        a, b = promote(xp, conj(xp, other), g)
        return xp.linalg.cross(a, b, axis=axis) if first else xp.linalg.cross(b, a, axis=axis)
    a, b = promote(xp, conj(xp, xp.moveaxis(other, axis, -1)), xp.moveaxis(g, axis, -1))
    product = xp.linalg.cross(a, b) if first else xp.linalg.cross(b, a)
    shape = list(spec.shape)
    shape.append(shape.pop(axis))
    return xp.moveaxis(unbroadcast(xp, product, tuple(shape)), -1, axis)


def _of_length_three(x1: tuple[int, ...], x2: tuple[int, ...], *, axis: int = -1) -> None:
    lengths = [shape[axis] for shape in (x1, x2) if -len(shape) <= axis < len(shape)]
    if len(lengths) == 2 and not any(map(math.isnan, lengths)) and lengths != [3, 3]:
        raise ValueError(
            f"linalg.cross: inputs dimension {axis} must have length 3. Got {lengths[0]} and {lengths[1]}\n  agrad.numpy.cross"
            " takes vectors of length 2, too, as of a third component that is 0."
        )


def _cross_batch(b: BatchedCall, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    rank = max(x1.ndim, x2.ndim)
    axis = place(axis, rank) - rank - 1
    a, c = b.data(x1, rank), b.data(x2, rank)
    return b.kernel(*_broadcast(b, a, c), axis=axis)


def _broadcast(b: BatchedCall, a: Any, c: Any) -> tuple[Any, Any]:
    """Broadcast two arrays with each other (some libraries' functions do not)."""
    shape = tuple(m if n == 1 else n for n, m in zip(a.shape, c.shape, strict=True))
    return b.xp.broadcast_to(a, shape), b.xp.broadcast_to(c, shape)


@multilinear(
    name="linalg.cross",
    x1=lambda xp, g, x2, x1_spec, axis: _cross_adjoint(xp, g, x2, x1_spec, axis, first=True),
    x2=lambda xp, g, x1, x2_spec, axis: _cross_adjoint(xp, g, x1, x2_spec, axis, first=False),
    batch=_cross_batch,
    shapes=_of_length_three,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",), sparsity="along"),
)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of length 3 along an axis.

    x1, x2: Numeric, of length 3 along the axis; the other axes are broadcast.
    Returns: The broadcast shape. Nothing is conjugated.
    ValueError: If the axis is not of length 3.
    Derivative: ``cross(conj(x2), g)`` and ``cross(g, conj(x1))``.

    >>> a = ag.tensor([1.0, 0.0, 0.0], requires_grad=True)
    >>> y = ag.linalg.cross(a, ag.tensor([0.0, 1.0, 0.0]))
    >>> y.detach()
    tensor([0., 0., 1.])
    >>> ag.grad(y.sum(), a)[0]
    tensor([ 1.,  0., -1.])
    """


# -- diagonals --------------------------------------------------------------------------------------------------------


def _put_on_diagonal(xp: Any, g: Any, x_spec: Any, offset: int) -> Any:
    """Return zeros with `g` on a diagonal: in every row, of which only that position is kept."""
    size, columns = g.shape[-1], x_spec.shape[-1]
    before = max(0, offset)

    def zeros(count: int) -> Any:
        return xp.zeros((*g.shape[:-1], count), dtype=g.dtype, **beside(g))

    row = (
        g
        if size == columns
        else xp.concat([zeros(min(before, columns)), g, zeros(max(0, columns - size - before))], axis=-1)
    )
    return xp.triu(xp.tril(xp.broadcast_like(row[..., None, :], x_spec), k=offset), k=offset)


@linear(
    memory="view",
    name="linalg.diagonal",
    x=_put_on_diagonal,
    batch=matrices,
    facts=Facts(needs=("zero-size reductions",), sparsity="moves"),
)
def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """A diagonal of matrices.

    x: Shape (..., M, N).
    Returns: Shape (..., K), K the length of the diagonal.
    Derivative: the cotangent on that diagonal, zeros elsewhere.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = ag.linalg.diagonal(x)
    >>> y.detach()
    tensor([1., 4.])
    >>> ag.grad(y[1], x)[0]
    tensor([[0., 0.],
            [0., 1.]])
    """


def _trace_adjoint(xp: Any, g: Any, x_spec: Any, offset: int) -> Any:
    *lead, m, n = x_spec.shape
    size = max(0, min(m, n - offset) if offset >= 0 else min(m + offset, n))
    return _put_on_diagonal(xp, xp.broadcast_to(g[..., None], (*lead, size)), x_spec, offset)


@linear(
    name="linalg.trace",
    x=_trace_adjoint,
    batch=matrices,
    memory="fresh",
    facts=Facts(
        needs=("zero-size reductions",),
        sparsity=lambda xp, x, /, *, offset=0, dtype=None: xp.sum(xp.linalg.diagonal(x, offset=offset), axis=-1),
    ),
)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal of matrices.

    x: Numeric, shape (..., M, N).
    dtype : DType, backend's dtype or str, optional
        Dtype of the sum and of the result. Default: that of `x`, the backend's default integer dtype for smaller
        integers.
    Returns: Shape (...).
    Derivative: the cotangent at every position of that diagonal, zeros elsewhere.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = ag.linalg.trace(x)
    >>> y.detach()
    tensor(5.)
    >>> ag.grad(y, x)[0]
    tensor([[1., 0.],
            [0., 1.]])
    """


# -- norms ------------------------------------------------------------------------------------------------------------

Axis = int | tuple[int, ...] | None


def _norm_gradient(xp: Any, x: Any, ans: Any, axis: Axis, ord: float) -> Any:
    """Return the gradient of each norm with respect to its elements; 0 where there is none: at 0, and for ord <= 1 at zero elements."""
    if ord == 0:
        return xp.zeros_like(x)
    if ord == 1:
        return xp.sign(x)
    size = xp.abs(x)
    if math.isinf(ord):
        ties = xp.astype(size == ans, ans.dtype)
        return xp.sign(x) * (ties / xp.sum(ties, axis=axis, keepdims=True))
    none = (ans == 0) | (x == 0)
    size = xp.where(none, xp.ones_like(size), size)
    return xp.where(none, xp.zeros_like(x), xp.sign(x) * (size / _not_zero(xp, ans)) ** (ord - 1))


def _not_zero(xp: Any, a: Any) -> Any:
    """Return `x` with 1 in place of 0."""
    return xp.where(a == 0, xp.ones_like(a), a)


def _norm_vjp(xp: Any, g: Any, x: Any, ans: Any, x_spec: Any, axis: Axis, keepdims: bool, ord: float) -> Any:
    g, ans = (statistical.unreduce(xp, a, x_spec, axis, keepdims) for a in (g, ans))
    if ord == 2:
        return x * (g / _not_zero(xp, ans))
    return g * _norm_gradient(xp, x, ans, axis, ord)


def _norm_jvp(xp: Any, t_x: Any, x: Any, ans: Any, x_spec: Any, axis: Axis, keepdims: bool, ord: float) -> Any:
    if ord == 2:
        return xp.sum(real(xp, conj(xp, x) * t_x), axis=axis, keepdims=keepdims) / _not_zero(xp, ans)
    ans = statistical.unreduce(xp, ans, x_spec, axis, keepdims)
    gradient = _norm_gradient(xp, x, ans, axis, ord)
    return xp.sum(real(xp, conj(xp, gradient) * t_x), axis=axis, keepdims=keepdims)


@custom(
    name="linalg.vector_norm",
    vjp={"x": _norm_vjp},
    jvp=_norm_jvp,
    batch=reduced,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",), sparsity="reduces"),
)
def vector_norm(
    x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The norm of vectors, or of all elements as one vector.

    x: Floating-point, real or complex.
    axis : int or tuple of int, optional
        The axes of the vectors. Default: all.
    keepdims: Keep these axes, with length 1.
    ord : int or float, optional
        ``sum(abs(x)**ord)**(1/ord)``; ``inf`` and ``-inf``: the largest and smallest magnitude; 0: the number of
        nonzero elements.
    Returns: Real, of the precision of `x`, without the reduced axes.
    Derivative: ``sign(x) (abs(x) / norm)**(ord - 1)``. Where it does not exist it is 0, as in PyTorch: where the norm
    is 0, and (ord <= 1) at elements that are 0. ``inf`` and ``-inf`` split it evenly among ties; for ord=0 it is 0.

    >>> x = ag.tensor([3.0, -4.0], requires_grad=True)
    >>> ag.linalg.vector_norm(x).detach(), ag.grad(ag.linalg.vector_norm(x), x)[0]
    (tensor(5.), tensor([ 0.6000, -0.8000]))
    """


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """The norm of matrices.

    x: Floating-point, real or complex, shape (..., M, N).
    keepdims: Keep the last two axes, with length 1.
    ord : {"fro", "nuc", 1, 2, inf, -1, -2, -inf, None}, optional
        The root of the sum of squares ("fro", None); the sum of the singular values ("nuc"); the largest (smallest, if
        negative) column sum of magnitudes (1), singular value (2) or row sum of magnitudes (inf).
    Returns: Real, of the precision of `x`, shape (...).
    ValueError: If `ord` is none of these.
    Derivative: that of the functions it consists of, `vector_norm`, `svdvals`, `abs`, `max` and `min`. So it is 0 for
    "fro" at 0, split evenly among equal column sums, row sums or singular values, and for 2, -2 and "nuc" at a zero
    singular value one of several subgradients.

    >>> x = ag.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    >>> y = ag.linalg.matrix_norm(x)
    >>> y.detach()
    tensor(5.)
    >>> ag.grad(y, x)[0]
    tensor([[0.2000, 0.4000],
            [0.4000, 0.8000]])
    """
    check_number("linalg.matrix_norm", "ord", ord)
    if ord is None or ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc":
        norm = statistical.sum(svdvals(x), axis=-1)
    elif ord in (2, -2):
        norm = (statistical.max if ord == 2 else statistical.min)(svdvals(x), axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = statistical.sum(elementwise.abs(x), axis=-2 if ord in (1, -1) else -1)
        norm = (statistical.max if ord in (1, math.inf) else statistical.min)(sums, axis=-1)
    else:
        message = f"linalg.matrix_norm: Order {ord} not supported."
        raise ValueError(f"{message}\n  It is one of 'fro', 'nuc', 1, -1, 2, -2, inf and -inf.")
    return expand_dims(expand_dims(norm, -1), -1) if keepdims else norm


complete(
    globals(),
    {
        "axis": "int, optional\n    The axis of the vectors, from -N to -1, N the smaller rank.",
        "keepdims": "bool, optional",
        "offset": "int, optional\n    Which diagonal: above the main one if positive, below if negative.",
        "x": "Tensor or array",
        "x1": "Tensor or array",
        "x2": "Tensor or array",
    },
    source="Source: array API 2025.12, linear algebra.",
)
