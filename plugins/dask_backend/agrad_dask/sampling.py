"""Sampling from a key: every block draws from its own stretch of one counter-based stream.

The same key, shape and chunks give the same numbers, whenever and wherever a block is computed. The first block draws
the same numbers as the NumPy backend, so small arrays hold the same numbers on both.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks

from agrad_dask.indexing import from_host

_WORD = 2**64 - 1


def sample(kind: str, shape: tuple[int, ...], key: tuple[int, int], dtype: Any, parameters: dict[str, Any]) -> Any:
    """Sample; arguments as for ``Backend.random``."""
    dtype = np.dtype(dtype)
    if kind == "permutation":
        return from_host(_source(key, 0).permutation(parameters["n"]).astype(dtype))
    chunks = normalize_chunks(parameters.get("chunks", "auto"), shape, dtype=dtype)
    if not shape:
        return from_host(_draw(kind, (), key, 0, dtype, parameters))
    return da.map_blocks(
        _block,
        token=f"agrad-sample-{kind}",
        chunks=chunks,
        dtype=dtype,
        meta=np.empty((0,) * len(shape), dtype),
        kind=kind,
        layout=chunks,
        key=key,
        dtype_name=dtype.name,
        parameters=parameters,
    )


def _block(
    kind: str, layout: Any, key: tuple[int, int], dtype_name: str, parameters: dict[str, Any], block_id: Any = None
) -> Any:
    shape = tuple(along[i] for along, i in zip(layout, block_id, strict=True))
    number = int(np.ravel_multi_index(block_id, tuple(map(len, layout))))
    return _draw(kind, shape, key, number, np.dtype(dtype_name), parameters)


def _source(key: tuple[int, int], number: int) -> np.random.Generator:
    seed, counter = key
    return np.random.Generator(np.random.Philox(key=[seed & _WORD, counter & _WORD], counter=[0, 0, 0, number]))


def _draw(kind: str, shape: Any, key: tuple[int, int], number: int, dtype: Any, parameters: dict[str, Any]) -> Any:
    source = _source(key, number)
    if kind == "integers":
        return np.asarray(source.integers(parameters["low"], parameters["high"], size=shape)).astype(dtype)
    draw = source.random if kind == "uniform" else source.standard_normal
    if dtype in (np.float32, np.float64):
        return np.asarray(draw(shape, dtype=dtype.type))
    return np.asarray(draw(shape)).astype(dtype)
