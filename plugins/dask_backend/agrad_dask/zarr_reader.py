"""A zarr array whose chunks are returned as they were decoded.

To read a selection, zarr decodes every chunk of the store and copies it into an array of the selection's shape. If the
selection is one chunk, as usual here, this copy is superfluous: it takes longer than reading an uncompressed chunk from
the page cache. The destination here takes over such a chunk instead.

May import zarr; is imported when `agrad_dask.from_zarr` is first called.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from zarr.buffer import cpu, default_buffer_prototype


class ZarrArray:
    """The object that Dask slices in place of a zarr array; blocks may be read-only, like those of memory-mapped files."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        plain = len(parts) == self.ndim and all(isinstance(part, slice) and part.step in (None, 1) for part in parts)
        if not plain or default_buffer_prototype().nd_buffer is not cpu.NDBuffer:  # zarr's own buffers are on a GPU
            return self.array[key]
        shape = tuple(len(range(*part.indices(n))) for part, n in zip(parts, self.shape, strict=True))
        return self.array.get_basic_selection(parts, out=Destination(shape, self.dtype))

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self.array


class Destination(cpu.NDBuffer):
    """The destination for zarr's decoded data: a chunk of the right shape becomes its memory, others are copied into it."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(np.broadcast_to(np.empty((), dtype), shape))  # the shape, before there is memory
        self.filled = False

    def __setitem__(self, key: Any, value: Any) -> None:
        chunk = value.as_numpy_array() if isinstance(value, cpu.NDBuffer) else None
        if chunk is not None and (chunk.shape, chunk.dtype) == (self.shape, self.dtype):
            self._data = chunk.view()
            self._data.flags.writeable = False  # the memory may be the store's
        else:
            if not self.filled:
                self._data = np.empty(self.shape, self.dtype)
            super().__setitem__(key, value)
        self.filled = True
