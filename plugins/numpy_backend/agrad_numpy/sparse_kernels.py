"""Kernels of sparse matrices: SciPy's products, and its SuperLU, whose factors are reused for the derivatives of a solution."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from scipy.sparse import _sparsetools as tools  # called by its arrays, without creating any
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

#: The number of elements gathered at a time, so that they stay in the cache.
_ROOM = 1 << 16

#: Index arrays that were validated as a pattern, by identity: the arrays, weakly, and the number of columns.
_CHECKED: dict[tuple[int, int], tuple[Any, Any, int]] = {}


def _check(indptr: Any, indices: Any, nnz: int, columns: int) -> None:
    """Refuse invalid patterns: compiled code would read beyond the arrays."""
    key = id(indptr), id(indices)
    seen = _CHECKED.get(key)
    if seen is not None and seen[0]() is indptr and seen[1]() is indices and seen[2] <= columns and len(indices) == nnz:
        return
    if len(indices) != nnz:
        message = f"a sparse matrix has {len(indices)} entries, and {nnz} values"
        raise ValueError(message)
    runs = len(indptr) > 0 and indptr[0] == 0 and indptr[-1] == nnz and bool(np.all(indptr[1:] >= indptr[:-1]))
    if not runs or (nnz and not 0 <= indices.min() <= indices.max() < columns):
        message = (
            "these indices are no pattern of a sparse matrix: rows end before they begin, or a column is not there"
        )
        raise ValueError(message)

    def gone(_: Any) -> None:
        _CHECKED.pop(key, None)

    _CHECKED[key] = weakref.ref(indptr, gone), weakref.ref(indices, gone), columns


def _wide(values: Any) -> Any:
    """Return numbers in a precision that SciPy's sparse matrices have."""
    return values.astype(np.float32) if values.dtype == np.float16 else values


def matmul(values: Any, x: Any, indptr: Any, indices: Any, /, *, columns: int, transposed: bool = False) -> Any:
    """Multiply row by row, or column by column of the transposed matrix."""
    _check(indptr, indices, len(values), columns)
    rows, dtype = len(indptr) - 1, np.result_type(values, x)
    high, wide = (columns, rows) if transposed else (rows, columns)
    if len(x) != wide:
        message = f"a matrix of {wide} columns times an array of {len(x)} rows"
        raise ValueError(message)
    values, x, whole = _wide(values), _wide(x), (high, *x.shape[1:])
    made = np.zeros(whole, np.result_type(values, x))
    if made.dtype == bool:
        return matmul(values.astype(int), x.astype(int), indptr, indices, columns=columns, transposed=transposed) > 0
    kind = "csc" if transposed else "csr"
    if x.ndim == 1 or x.shape[1] == 1:
        getattr(tools, f"{kind}_matvec")(high, wide, indptr, indices, values, x.ravel(), made.ravel())
    else:
        each = getattr(tools, f"{kind}_matvecs")
        each(high, wide, x.shape[1], indptr, indices, values, x.ravel(), made.ravel())
    return made if made.dtype == dtype else made.astype(dtype)


def added(values: Any, x: Any, indptr: Any, indices: Any, /) -> Any:
    """Add to a copy: the zeros between the entries are not written."""
    rows, columns = x.shape
    if len(indptr) != rows + 1:
        message = f"a matrix of {len(indptr) - 1} rows plus an array of {rows}"
        raise ValueError(message)
    _check(indptr, indices, len(values), columns)
    dtype = np.result_type(values, x)
    made = np.array(x, np.result_type(_wide(values[:0]), dtype), order="C")
    tools.csr_todense(rows, columns, indptr, indices, values.astype(made.dtype, copy=False), made)
    return made.astype(dtype, copy=False)


def sampled(left: Any, right: Any, indptr: Any, indices: Any, /) -> Any:
    """Gather rows for some entries at a time: all together they would be as large as the number of entries times that of columns."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    if left.ndim == 1:
        return left[rows] * right[indices]
    made = np.empty(len(indices), np.result_type(left, right))
    step = max(1, _ROOM // max(1, left.shape[1]))
    for first in range(0, len(indices), step):
        part = slice(first, first + step)
        np.einsum("ek,ek->e", left[rows[part]], right[indices[part]], out=made[part])
    return made


class _Factor:
    """Factors of a matrix, kept as long as the array of its entries: if a node saved that, until it runs backward.

    Attributes
    ----------
    values : array
        A copy of the entries, because their array may be written to.
    indptr, indices : array
        Where these lie.
    lu : SuperLU
        Factors of the transposed matrix, whose columns are the matrix's rows.
    """

    __slots__ = ("array", "indices", "indptr", "lu", "values")

    def __init__(self, values: Any, indptr: Any, indices: Any) -> None:
        number = id(values)
        self.array = weakref.ref(values, lambda _: _FACTORS.pop(number, None))
        self.values, self.indptr, self.indices = values.copy(), indptr, indices
        n = len(indptr) - 1
        _check(indptr, indices, len(values), n)
        dtype = np.result_type(_wide(values), np.float32)
        matrix = csc_array((values.astype(dtype), indices, indptr), shape=(n, n))
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # SciPy sorts in place
        try:
            self.lu = splu(matrix)
        except RuntimeError as error:
            if "singular" not in str(error):
                raise
            message = "Singular matrix: its factors have a zero on the diagonal"
            raise np.linalg.LinAlgError(message) from None

    def is_of(self, values: Any, indptr: Any, indices: Any) -> bool:
        """Return whether it belongs to this matrix in its current state."""
        same = self.array() is values and self.indptr is indptr and self.indices is indices
        return same and np.array_equal(self.values, values, equal_nan=True)


#: By the identity of the arrays of entries.
_FACTORS: dict[int, _Factor] = {}


def solve(values: Any, b: Any, indptr: Any, indices: Any, /, *, transposed: bool = False) -> Any:
    """Solve by existing factors, or by new ones."""
    dtype = np.result_type(values, b)
    if not b.size:
        return np.zeros(b.shape, dtype)
    factor = _FACTORS.get(id(values))
    if factor is None or not factor.is_of(values, indptr, indices):
        factor = _FACTORS[id(values)] = _Factor(values, indptr, indices)
    lu, way = factor.lu, "N" if transposed else "T"
    kind = lu.L.dtype
    if np.iscomplexobj(b) and kind.kind != "c":
        parts = (lu.solve(np.ascontiguousarray(part, kind), way) for part in (b.real, b.imag))
        made = next(parts) + 1j * next(parts)
    else:
        made = lu.solve(np.ascontiguousarray(b, kind), way)
    return made.astype(dtype, copy=False)
