"""Ops of sparse matrices: products, their adjoints by the stored entries, and solutions of equations.

A matrix consists of its stored entries, `values`, and their positions, as in SciPy's ``csr_array``: those of row i are
at ``indptr[i]`` to ``indptr[i + 1]``, in the columns ``indices``. The pattern is constant. `agrad.sparse` exposes these
ops as operations on matrices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core.backend import backend_of
from agrad.core.cotangents import beside, promote
from agrad.core.declare import custom
from agrad.ops.batch_rules import BatchedCall
from agrad.ops.matrices import conj

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = ["sparse_added", "sparse_matmul", "sparse_sampled", "sparse_solve"]


def rows_of(xp: Any, indptr: Any, indices: Any, like: Any = None) -> Any:
    """Return the row of each stored entry; `like`: an array on the device, for rules, which may get tensors beside arrays."""
    numbers = xp.astype(xp.arange(indices.shape[0], **beside(indptr if like is None else like)), indptr.dtype)
    return xp.searchsorted(indptr, numbers, side="right") - 1


def _scattered(xp: Any, shape: tuple[int, ...], places: Any, values: Any) -> Any:
    """Return zeros of a shape to which values are added at places along the first axis."""
    empty = xp.zeros(shape, dtype=values.dtype, **beside(values))
    spec = getattr(empty, "_spec", None) or backend_of(empty).spec(empty)  # type: ignore[union-attr]
    return xp.scatter_add(spec, places, values)


def _column(x: Any, like: Any) -> Any:
    """Return a vector over the stored entries in a shape that multiplies rows."""
    return x if like.ndim == 1 else x[:, None]


# -- batches ----------------------------------------------------------------------------------------------------------


def _of_one_pattern(b: BatchedCall, indptr: Any, indices: Any) -> None:
    if b.has(indptr) or b.has(indices):
        raise b.fail("the pattern of a sparse matrix is the same for the whole batch: map over its values alone")


def _blocks(b: BatchedCall, indptr: Any, indices: Any, columns: int) -> tuple[Any, Any]:
    """Return the positions of the entries of a batch of matrices with one pattern, as blocks on the diagonal of one matrix."""
    xp, nnz = b.xp, indices.shape[0]
    number = xp.arange(b.size, dtype=xp.int64, **beside(indptr))[:, None]
    ends = xp.astype(indptr, xp.int64)[1:] + nnz * number
    starts = xp.zeros((1,), dtype=xp.int64, **beside(indptr))
    return xp.concat([starts, xp.reshape(ends, (-1,))]), xp.reshape(
        xp.astype(indices, xp.int64) + columns * number, (-1,)
    )


def _joined(b: BatchedCall, x: Any) -> Any:
    """Return the right operand, or right side, for the rows of a matrix of blocks."""
    data = b.data(x)
    return b.xp.reshape(data, (b.size * x.shape[0], *x.shape[1:]))


def _side_by_side(b: BatchedCall, x: Any) -> Any:
    """Return vectors or matrices of a batch as the columns of one."""
    return b.xp.reshape(b.xp.moveaxis(b.data(x), 0, -1), (x.shape[0], -1))


def _apart(b: BatchedCall, made: Any, x: Any) -> Any:
    return b.xp.moveaxis(b.xp.reshape(made, (made.shape[0], *x.shape[1:], b.size)), -1, 0)


def _matmul_batch(
    b: BatchedCall, values: Any, x: Any, indptr: Any, indices: Any, /, *, columns: int, transposed: bool
) -> Any:
    _of_one_pattern(b, indptr, indices)
    if not b.has(values):
        made = b.kernel(values, _side_by_side(b, x), indptr, indices, columns=columns, transposed=transposed)
        return _apart(b, made, x)
    starts, places = _blocks(b, indptr, indices, columns)
    made = b.kernel(_joined(b, values), _joined(b, x), starts, places, columns=b.size * columns, transposed=transposed)
    return b.xp.reshape(made, (b.size, -1, *x.shape[1:]))


def _sampled_batch(b: BatchedCall, left: Any, right: Any, indptr: Any, indices: Any, /) -> Any:
    _of_one_pattern(b, indptr, indices)
    starts, places = _blocks(b, indptr, indices, right.shape[0])
    return b.xp.reshape(b.kernel(_joined(b, left), _joined(b, right), starts, places), (b.size, -1))


def _solve_batch(b: BatchedCall, values: Any, x: Any, indptr: Any, indices: Any, /, *, transposed: bool) -> Any:
    _of_one_pattern(b, indptr, indices)
    if not b.has(values):
        return _apart(b, b.kernel(values, _side_by_side(b, x), indptr, indices, transposed=transposed), x)
    starts, places = _blocks(b, indptr, indices, x.shape[0])
    made = b.kernel(_joined(b, values), _joined(b, x), starts, places, transposed=transposed)
    return b.xp.reshape(made, (b.size, *x.shape))


# -- products ---------------------------------------------------------------------------------------------------------


def _matmul_kernel(
    xp: Any, values: Any, x: Any, indptr: Any, indices: Any, /, *, columns: int, transposed: bool
) -> Any:
    rows = rows_of(xp, indptr, indices)
    of, to = (rows, indices) if transposed else (indices, rows)
    taken = xp.take(x, of, axis=0)
    terms = xp.multiply(*promote(xp, _column(values, taken), taken))
    shape = (columns if transposed else indptr.shape[0] - 1, *x.shape[1:])
    return _scattered(xp, shape, to, terms)


def _matmul_by_values(xp: Any, g: Any, x: Any, indptr: Any, indices: Any, transposed: bool) -> Any:
    left, right = (conj(xp, x), g) if transposed else (g, conj(xp, x))
    return xp.scipy.sparse_sampled(left, right, indptr, indices)


def _matmul_jvp(
    xp: Any, t_values: Any, t_x: Any, values: Any, x: Any, indptr: Any, indices: Any, columns: int, transposed: bool
) -> Any:
    parts = [(t_values, x), (values, t_x)]
    made = [
        xp.scipy.sparse_matmul(a, c, indptr, indices, columns=columns, transposed=transposed)
        for a, c in parts
        if a is not None and c is not None
    ]
    return made[0] if len(made) == 1 else made[0] + made[1]


@custom(
    name="scipy.sparse_matmul",
    index=("indptr", "indices"),
    vjp={
        "values": _matmul_by_values,
        "x": lambda xp, g, values, indptr, indices, columns, transposed: xp.scipy.sparse_matmul(
            conj(xp, values), g, indptr, indices, columns=columns, transposed=not transposed
        ),
    },
    jvp=_matmul_jvp,
    kernel=_matmul_kernel,
    batch=_matmul_batch,
    memory="fresh",
)
def sparse_matmul(
    values: Any, x: Any, indptr: Any, indices: Any, /, *, columns: int, transposed: bool = False
) -> Tensor:
    """The product of a sparse matrix with `columns` columns, or its transpose, and `x`, a vector or a matrix."""


def _sampled_kernel(xp: Any, left: Any, right: Any, indptr: Any, indices: Any, /) -> Any:
    first = xp.take(left, rows_of(xp, indptr, indices), axis=0)
    terms = xp.multiply(*promote(xp, first, xp.take(right, indices, axis=0)))
    return terms if terms.ndim == 1 else xp.sum(terms, axis=1, dtype=terms.dtype)


def _sampled_jvp(xp: Any, t_left: Any, t_right: Any, left: Any, right: Any, indptr: Any, indices: Any) -> Any:
    parts = [(t_left, right), (left, t_right)]
    made = [xp.scipy.sparse_sampled(a, c, indptr, indices) for a, c in parts if a is not None and c is not None]
    return made[0] if len(made) == 1 else made[0] + made[1]


@custom(
    name="scipy.sparse_sampled",
    index=("indptr", "indices"),
    vjp={
        "left": lambda xp, g, right, indptr, indices, right_spec: xp.scipy.sparse_matmul(
            g, conj(xp, right), indptr, indices, columns=right_spec.shape[0], transposed=False
        ),
        "right": lambda xp, g, left, indptr, indices, right_spec: xp.scipy.sparse_matmul(
            g, conj(xp, left), indptr, indices, columns=right_spec.shape[0], transposed=True
        ),
    },
    jvp=_sampled_jvp,
    kernel=_sampled_kernel,
    batch=_sampled_batch,
    memory="fresh",
)
def sparse_sampled(left: Any, right: Any, indptr: Any, indices: Any, /) -> Tensor:
    """The stored entries of ``left @ right.T``; for vectors, of their outer product."""


# -- sums -----------------------------------------------------------------------------------------------------------------


def _added_kernel(xp: Any, values: Any, x: Any, indptr: Any, indices: Any, /) -> Any:
    made = _scattered(xp, (x.shape[0] * x.shape[1],), _in_one_row(xp, indptr, indices, x), values)
    return xp.add(xp.reshape(made, x.shape), x)


def _in_one_row(xp: Any, indptr: Any, indices: Any, x: Any) -> Any:
    """Return where the stored entries lie in a dense matrix, row by row."""
    return rows_of(xp, indptr, indices, x) * x.shape[1] + indices


def _added_jvp(xp: Any, t_values: Any, t_x: Any, x: Any, indptr: Any, indices: Any) -> Any:
    if t_values is None:
        return t_x
    return xp.scipy.sparse_added(t_values, xp.zeros_like(x) if t_x is None else t_x, indptr, indices)


@custom(
    name="scipy.sparse_added",
    index=("indptr", "indices"),
    vjp={
        "values": lambda xp, g, indptr, indices: xp.take(
            xp.reshape(g, (-1,)), _in_one_row(xp, indptr, indices, g), axis=0
        ),
        "x": lambda xp, g: g,
    },
    jvp=_added_jvp,
    kernel=_added_kernel,
    memory="fresh",
)
def sparse_added(values: Any, x: Any, indptr: Any, indices: Any, /) -> Tensor:
    """The sum of a sparse matrix and `x`, a dense one of its shape and dtype."""


# -- equations ----------------------------------------------------------------------------------------------------------


def _solve_back(xp: Any, g: Any, values: Any, indptr: Any, indices: Any, transposed: bool) -> Any:
    """Return the cotangent of the right side: solved with the same factors."""
    return conj(xp, xp.scipy.sparse_solve(values, conj(xp, g), indptr, indices, transposed=not transposed))


def _solve_by_values(xp: Any, g: Any, ans: Any, values: Any, indptr: Any, indices: Any, transposed: bool) -> Any:
    back, found = -_solve_back(xp, g, values, indptr, indices, transposed), conj(xp, ans)
    left, right = (found, back) if transposed else (back, found)
    return xp.scipy.sparse_sampled(left, right, indptr, indices)


def _solve_jvp(
    xp: Any, t_values: Any, t_b: Any, ans: Any, values: Any, indptr: Any, indices: Any, transposed: bool
) -> Any:
    change = t_b
    if t_values is not None:
        n = indptr.shape[0] - 1
        moved = xp.scipy.sparse_matmul(t_values, ans, indptr, indices, columns=n, transposed=transposed)
        change = -moved if change is None else change - moved
    return xp.scipy.sparse_solve(values, change, indptr, indices, transposed=transposed)


@custom(
    name="scipy.sparse_solve",
    index=("indptr", "indices"),
    vjp={
        "values": _solve_by_values,
        "b": _solve_back,
    },
    jvp=_solve_jvp,
    source="Giles, An extended collection of matrix derivative results, 2008, section 2.3.1, for the stored entries",
    batch=_solve_batch,
    memory="fresh",
)
def sparse_solve(values: Any, b: Any, indptr: Any, indices: Any, /, *, transposed: bool = False) -> Tensor:
    """The solution `x` of equations with a sparse matrix, or its transpose, and right sides `b`, a vector or a matrix."""
