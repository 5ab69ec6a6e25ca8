"""Sparse matrices in chunks of rows: Dask arrays whose blocks are compressed rows, of SciPy's or of the library of the chunks.

Rows are cut where what they belong to is cut. A block is made of its own entries, so it needs no more chunks than they do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from agrad.plugin.backend import backend_of


def rows_of_matrix(values: Any, pattern: Any, rows: Sequence[Any], proof: tuple[Any, Any, str] | None) -> Any:
    """Return a sparse matrix as a Dask array in chunks of rows.

    Parameters
    ----------
    values : array
        The stored values in the order of the pattern.
    pattern : scipy.sparse.csr_array
        Of truth values.
    rows : sequence of array
        What the rows are of: a row for each element.
    proof : tuple of array, array and str, or None
        The product of the matrix and a vector, this vector, and what to raise where they do not agree.
    """
    sizes = [size for array in rows for size in _rows(array)]
    ends = np.cumsum([0, *sizes])
    starts = [int(pattern.indptr[end]) for end in ends]
    values = da.asarray(values).rechunk((tuple(np.diff(starts).tolist()),))
    name = f"sparse-rows-{tokenize(values.name, pattern.indices, pattern.indptr, ends.tolist(), proof is None)}"
    arrays = [values]
    if proof is not None:
        product, along, wrong = proof
        arrays.append(da.asarray(product).rechunk((tuple(sizes),)))
    layer: dict[Any, Any] = {}
    for i, (first, last) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        more = () if proof is None else ((arrays[1].name, i), along, wrong, first)
        layer[name, i, 0] = (_block, (values.name, i), pattern[first:last], *more)
    graph = HighLevelGraph.from_collections(name, layer, dependencies=arrays)
    meta = _block(values._meta[:0], pattern[:0, :0])
    return da.Array(graph, name, chunks=(tuple(sizes), (pattern.shape[1],)), meta=meta)


def _rows(array: Any) -> list[int]:
    """Return how many elements each chunk along the first axis has: these lie together."""
    if not array.shape:
        return [1]
    each = math.prod(array.shape[1:])
    return [size * each for size in (array.chunks[0] if hasattr(array, "chunks") else array.shape[:1])]


def _block(values: Any, pattern: Any, product: Any = None, along: Any = None, wrong: str = "", first: int = 0) -> Any:
    """Return rows of the matrix; raise if their product with a vector is another one."""
    owner = backend_of(values)
    if owner is not None and owner._csr is not None:
        made: Any = owner._csr(values, pattern, (), {})
    else:
        values = np.asarray(values)
        data = values.astype(np.result_type(values, np.float32))  # SciPy has no halves
        made = type(pattern)((data, pattern.indices.copy(), pattern.indptr.copy()), shape=pattern.shape)
    if product is not None:
        _compare(values, pattern, product, along, wrong, first)
    return made


def _compare(values: Any, pattern: Any, product: Any, along: Any, wrong: str, first: int) -> None:
    values, product = (np.asarray(part.get() if hasattr(part, "get") else part) for part in (values, product))
    eps = float(np.finfo(product.dtype).eps)
    matrix = type(pattern)((values.astype(np.float64), pattern.indices, pattern.indptr), shape=pattern.shape)
    scale, away = abs(matrix) @ along, abs(matrix @ along - product)
    least = 1000 * eps * scale.max(initial=0.0)  # so much may be what rounding left of a 0
    apart = np.flatnonzero((away > eps**0.5 * np.maximum(scale, abs(product))) & (away > least))
    if len(apart):
        raise ValueError(f"{wrong}, as in row {first + int(apart[0])}")
