"""Kernels of `agrad.scipy` for the Dask backend: the blocks' library's, over stacks of matrices in one chunk each.

Triangular equations with one matrix in several chunks are solved chunk by chunk. A sparse matrix is in one chunk; the
other factor may be cut along its columns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from agrad_dask.kernels import matched
from agrad_dask.special_kernels import on_block

#: By the op's name: the axes of its operands and results.
SIGNATURES = {
    "scipy.all_pole": "(p),(t)->(t)",
    "scipy.expm": "(i,i)->(i,i)",
    "scipy.expm_frechet": "(i,i),(i,i)->(i,i)",
    "scipy.fir": "(p),(t)->(t)",
    "scipy.logm": "(i,i)->(i,i)",
    "scipy.lu": "(i,j)->(i,i),(i,k),(k,j)",
    "scipy.solve_banded": "(d,i),(i,k)->(i,k)",
    "scipy.solve_sylvester": "(i,i),(j,j),(i,j)->(i,j)",
    "scipy.solve_triangular": "(i,i),(i,k)->(i,k)",
    "scipy.sqrtm": "(i,i)->(i,i)",
}


def kernel(op: str) -> Callable[..., Any] | None:
    """Return the kernel of an operation, None if it has none."""
    if op in _SPARSE:
        return _SPARSE[op]
    if op not in SIGNATURES:
        return None
    stacked = functools.partial(_stacked, op, SIGNATURES[op])
    return functools.partial(_solve_triangular, stacked) if op == "scipy.solve_triangular" else stacked


def _stacked(op: str, signature: str, *arrays: Any, **parameters: Any) -> Any:
    arrays = matched(signature, *map(da.asarray, arrays))
    dtype = np.result_type(*(a.dtype for a in arrays))
    several = op == "scipy.lu"
    dtypes = [np.empty(0, dtype).real.dtype, dtype, dtype] if several else [dtype]
    metas = tuple(np.empty_like(arrays[0]._meta, each, shape=(0,)) for each in dtypes)
    return da.apply_gufunc(
        functools.partial(_block, op, parameters),
        signature,
        *arrays,
        meta=metas,
        output_sizes={"k": min(arrays[0].shape[-2:])} if several else None,
        allow_rechunk=all(a.size for a in arrays),
    )


def _block(op: str, parameters: dict[str, Any], *blocks: Any) -> Any:
    found = on_block(op, *blocks, **parameters)
    if not isinstance(found, tuple) and found.dtype.kind == "c" and all(b.dtype.kind != "c" for b in blocks):
        message = (
            f"{op} of this real matrix is complex, which lazy values do not tell before: pass a complex one, a + 0j"
        )
        raise TypeError(message)
    return found


def _solve_triangular(
    stacked: Callable[..., Any], a: Any, b: Any, /, *, lower: bool, unit_diagonal: bool = False
) -> Any:
    if a.ndim == 2 and b.ndim == 2 and a.numblocks[0] > 1 and not unit_diagonal and isinstance(a._meta, np.ndarray):
        rows = a.chunks[0]
        return da.linalg.solve_triangular(a.rechunk((rows, rows)), b.rechunk({0: rows}), lower=lower)
    return stacked(a, b, lower=lower, unit_diagonal=unit_diagonal)


# -- sparse matrices --------------------------------------------------------------------------------------------------


def _whole(*arrays: Any) -> list[Any]:
    """Return arrays with their first axis in one chunk."""
    return [a.rechunk({0: -1}) for a in map(da.asarray, arrays)]


def _by_columns(op: str, values: Any, x: Any, indptr: Any, indices: Any, high: Any, **parameters: Any) -> Any:
    """Run a kernel that returns `high` rows on each chunk of columns."""
    values, x, indptr, indices = _whole(values, x, indptr, indices)
    dtype = np.result_type(values, x)
    rest = "k" * (x.ndim - 1)
    return da.blockwise(
        functools.partial(on_block, op, **parameters),
        f"i{rest}",
        values,
        "e",
        x,
        f"j{rest}",
        indptr,
        "p",
        indices,
        "e",
        new_axes={"i": high},
        concatenate=True,
        align_arrays=False,
        meta=np.empty_like(x._meta, dtype, shape=(0,) * x.ndim),
    )


def _sparse_matmul(values: Any, x: Any, indptr: Any, indices: Any, /, *, columns: int, transposed: bool = False) -> Any:
    high = columns if transposed else indptr.shape[0] - 1
    parameters = {"columns": columns, "transposed": transposed}
    return _by_columns("scipy.sparse_matmul", values, x, indptr, indices, high, **parameters)


def _sparse_solve(values: Any, b: Any, indptr: Any, indices: Any, /, *, transposed: bool = False) -> Any:
    return _by_columns("scipy.sparse_solve", values, b, indptr, indices, b.shape[0], transposed=transposed)


def _sparse_sampled(left: Any, right: Any, indptr: Any, indices: Any, /) -> Any:
    """Sum the results of chunks of columns."""
    left, right, indptr, indices = _whole(left, right, indptr, indices)
    if left.ndim == 1:
        left, right = left[:, None], right[:, None]
    right = right.rechunk({1: left.chunks[1]})
    parts = da.blockwise(
        _sampled_block,
        "ek",
        left,
        "ik",
        right,
        "jk",
        indptr,
        "p",
        indices,
        "e",
        adjust_chunks={"k": 1},
        concatenate=True,
        align_arrays=False,
        meta=np.empty_like(left._meta, np.result_type(left, right), shape=(0, 0)),
    )
    return parts[:, 0] if parts.shape[1] == 1 else parts.sum(axis=1)


def _sampled_block(left: Any, right: Any, indptr: Any, indices: Any) -> Any:
    return on_block("scipy.sparse_sampled", left, right, indptr, indices)[:, None]


#: Kernels of sparse matrices.
_SPARSE: dict[str, Callable[..., Any]] = {
    "scipy.sparse_matmul": _sparse_matmul,
    "scipy.sparse_sampled": _sparse_sampled,
    "scipy.sparse_solve": _sparse_solve,
}
