"""Have glibc take memory from one heap, once, when this is imported.

By default a thread has its own heap, up to eight per core, and memory freed in one cannot be used by another. Chunks
are decoded on zarr's threads, used on Dask's and written on zarr's again, so a process held half as much again as its
arrays; with one heap it is a twentieth. Threads seldom wait for it: Python's own objects do not come from there, and a
chunk takes long to compute. If the user sets MALLOC_ARENA_MAX, nothing is changed.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

#: The number of the option in `mallopt` (malloc.h).
M_ARENA_MAX = -8


def use_one() -> bool:
    """Set it; return whether it was set."""
    if "MALLOC_ARENA_MAX" in os.environ:
        return False
    with suppress(OSError, ValueError, AttributeError, TypeError):  # another system, another C library
        if (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
    return False


use_one()
