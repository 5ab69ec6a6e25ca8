"""Memory for large arrays in few sizes: that of one chunk can be used for another of almost its shape.

A slice of a chunk is a little smaller than the chunk. The allocator cannot put a chunk where a slice was; with such
sizes in turn, a process held 30 MiB of its 240 that nothing could use. Arrays made here are larger than needed, by a thirty-second
at most, so that both have the same size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: Smaller arrays, in bytes, are as large as needed.
ROUNDED_FROM = 2**20
#: By how many bits a size is known.
BITS = 5


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array in C order, not initialised."""
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < ROUNDED_FROM:
        return np.empty(shape, dtype)
    unit = 1 << (nbytes.bit_length() - 1 - BITS)
    return np.empty(-(-nbytes // unit) * unit, np.uint8)[:nbytes].view(dtype).reshape(shape)


def empty_like(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an array with another shape, not initialised, of the same library and in the same order."""
    return empty(shape, x.dtype) if type(x) is np.ndarray and is_in_order(x) else np.empty_like(x, shape=shape)


def is_in_order(x: Any) -> bool:
    """Return whether NumPy's functions would make arrays in C order of an array."""
    strides = [abs(stride) for n, stride in zip(x.shape, x.strides, strict=True) if n > 1 and stride]
    return strides == sorted(strides, reverse=True)
