"""Kernels of the Dask backend for sliding windows: each block makes the windows that begin in it, with a border from the next.

Composed of shifted arrays, like agrad's kernels for any backend, a window of 365 days makes as many slices of each
chunk.
"""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np
from dask.array.lib.stride_tricks import sliding_window_view
from dask.array.overlap import ensure_minimum_chunksize

from agrad.plugin.backend import OPS, backend_of
from agrad_dask.making import NOTHING, RESULT, makes
from agrad_numpy.kernels import in_single

_FULL = slice(None)

#: The size that a block of windows may have even if the blocks of the operand are smaller.
_ROOM = 2**22


def _composed(op: str, x: Any, *args: Any, **kwargs: Any) -> Any:
    kernel = OPS[op].kernel  # agrad's own, on Dask's functions
    assert kernel is not None
    return kernel(backend_of(x).xp, x, *args, **kwargs)


def windows(x: Any, /, size: int, *, axis: int) -> Any:
    """Return the windows as views of blocks, which are no larger than the operand's if cutting allows it.

    The other axes are cut first, then this one, into blocks no shorter than a window.
    """
    axis %= x.ndim
    if size < 2 or not x.size > 0:  # nothing overlaps, or no elements, or unknown sizes (nan)
        return _composed("extra.windows", x, size, axis=axis)
    chunks: dict[int, Any] = {axis: ensure_minimum_chunksize(size, x.chunks[axis])}
    room = max(math.prod(map(max, x.chunks)), _ROOM // x.dtype.itemsize)
    over = math.prod(map(max, x.chunks)) // max(x.chunks[axis]) * max(chunks[axis]) * size / room
    for a in sorted(set(range(x.ndim)) - {axis}, key=lambda a: -max(x.chunks[a])):
        parts = min(math.ceil(over), max(x.chunks[a]))
        if parts > 1:
            chunks[a] = tuple(n for along in x.chunks[a] for n in _cut(along, parts))
            over /= parts
    if over > 1:
        cuts = [_cut(along, max(1, min(math.ceil(over), along // size))) for along in chunks[axis]]
        chunks[axis] = tuple(n for cut in cuts for n in cut)
    return sliding_window_view(x.rechunk(chunks), size, axis, automatic_rechunk=False)


def _cut(length: int, parts: int) -> tuple[int, ...]:
    """Split a chunk into a number of parts, or as many as it has elements, of nearly equal lengths."""
    ends = np.linspace(0, length, min(parts, length) + 1).astype(int)
    return tuple(np.diff(ends).tolist())


def overlap_add(x: Any, /, *, axis: int) -> Any:
    """Sum within each block, then add the ends of the sums to the following blocks."""
    axis %= x.ndim - 1
    border = x.shape[-1] - 1
    if border < 1 or not x.size > 0:
        return _composed("extra.overlap_add", x, axis=axis)
    along = x.chunks[axis]
    if len(along) > 2 and min(along[1:-1]) < border:
        along = ensure_minimum_chunksize(border, along) if sum(along) >= border else (sum(along),)
    x = x.rechunk({axis: along, x.ndim - 1: -1})
    labels = tuple(range(x.ndim - 1))
    sums = da.blockwise(
        _add_block,
        labels,
        *(x, (*labels, x.ndim - 1)),
        adjust_chunks={axis: tuple(n + border for n in along)},
        concatenate=True,
        token="agrad-overlap-add",  # noqa: S106 (what the tasks are called)
        dtype=x.dtype,
        meta=np.empty_like(x._meta, shape=(0,) * (x.ndim - 1)),
        axis=axis,
    )
    if len(along) == 1:
        return sums
    before = (_FULL,) * axis
    body = sums.blocks[(*before, slice(None, -1))]
    heads = _part(body, axis, slice(None, -border), along[:-1])
    tails = _part(body, axis, slice(-border, None), (border,) * (len(along) - 1))
    heads = da.concatenate([heads, sums.blocks[(*before, slice(-1, None))]], axis=axis)
    joined = da.blockwise(
        _add_front,
        labels,
        *(heads.blocks[(*before, slice(1, None))], labels),
        *(tails, labels),
        adjust_chunks={axis: heads.chunks[axis][1:]},
        align_arrays=False,
        token="agrad-overlap-join",  # noqa: S106 (what the tasks are called)
        dtype=x.dtype,
        meta=sums._meta,
        axis=axis,
    )
    return da.concatenate([heads.blocks[(*before, slice(0, 1))], joined], axis=axis)


def _part(x: Any, axis: int, part: slice, along: tuple[int, ...]) -> Any:
    """Return a part of every block."""
    key = (_FULL,) * axis + (part,)
    chunks = (*x.chunks[:axis], along, *x.chunks[axis + 1 :])
    return x.map_blocks(_at, key, chunks=chunks, dtype=x.dtype, meta=x._meta)


@makes(NOTHING)
def _at(block: Any, key: tuple[Any, ...]) -> Any:
    return block[key]


@makes(RESULT)
def _add_block(block: Any, axis: int) -> Any:
    """Add the windows of a block one position after another: no more memory than the result."""
    count, size = block.shape[axis], block.shape[-1]
    shape = (*block.shape[:axis], count + size - 1, *block.shape[axis + 1 : -1])
    made = np.zeros_like(block, shape=shape)
    for i in range(size):
        made[(_FULL,) * axis + (slice(i, i + count),)] += block[..., i]
    return made


@makes(RESULT)
def _add_front(block: Any, front: Any, axis: int) -> Any:
    made = block.copy()
    made[(_FULL,) * axis + (slice(front.shape[axis]),)] += front
    return made


WINDOW_KERNELS = {"extra.windows": windows, "extra.overlap_add": in_single(overlap_add)}
