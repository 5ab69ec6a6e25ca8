"""Have glibc take memory from one heap, once, when this is imported.

A thread has a heap of its own by default, up to eight per core, and what one of them has freed no other uses. Chunks are decoded on
zarr's threads, used on Dask's and written on zarr's again, so a process held half as much again as its arrays; with one
heap it is a twentieth. Threads seldom wait for it: Python's own objects do not come from there, and a chunk takes long to compute.
Who sets MALLOC_ARENA_MAX is left with that.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

#: The number by which `mallopt` knows it (malloc.h).
M_ARENA_MAX = -8


def use_one() -> bool:
    """Set it; tell whether that was done."""
    if "MALLOC_ARENA_MAX" in os.environ:
        return False
    with suppress(OSError, ValueError, AttributeError, TypeError):  # another system, another C library
        if (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
    return False


use_one()
