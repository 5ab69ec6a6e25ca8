"""Write the chunks of an array to a store, each in the task that computes it.

May import Dask; is imported when something is first written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from dask.array.core import ArraySliceDep
from dask.base import tokenize


def written(array: Any, target: Any) -> Any:
    """Return an array which, when computed, writes another to a target; its blocks have one element.

    Parameters
    ----------
    array : dask.array.Array
        What to write.
    target : zarr.Array
        The target. Chunks that do not end at chunk boundaries of the target are merged first: no two tasks write to the
        same one.
    """
    stored = getattr(target, "shards", None) or target.chunks
    if any(n % own for along, own in zip(array.chunks, stored, strict=True) for n in along[:-1]):
        array = array.rechunk(stored)
    return array.map_blocks(
        write_block,
        target,
        ArraySliceDep(array.chunks),
        chunks=tuple((1,) * n for n in array.numblocks),
        dtype=bool,
        meta=np.empty((0,) * array.ndim, bool),
        name=f"write-{tokenize(array.name, target)}",
    )


class NullTarget(NamedTuple):
    """A target for planning only."""

    chunks: tuple[int, ...]


def write_block(block: Any, target: Any, place: tuple[slice, ...]) -> Any:
    """Write a block at its position."""
    target[place] = block.get() if hasattr(block, "get") else block
    return np.ones((1,) * block.ndim, bool)
