"""Have glibc take memory from one heap, once, when this is imported.

By default a thread has its own heap, up to eight per core, and memory freed in one cannot be used by another. Chunks
are decoded on zarr's threads, used on Dask's and written on zarr's again, so a process held half as much again as its
arrays; with one heap it is a twentieth. Threads seldom wait for it: Python's own objects do not come from there, and a
chunk takes long to compute. If the user sets MALLOC_ARENA_MAX, nothing is changed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

#: The number of the option in `mallopt` (malloc.h).
M_ARENA_MAX = -8
#: Free memory is returned to the system when so many bytes of results are held, and whenever they have grown by as many,
EVERY = 64 * 2**20
#: or by this fraction of them if that is more: each time, tasks touch new pages of what they work in.
FRACTION = 8


def use_one() -> bool:
    """Set it; return whether it was set."""
    if "MALLOC_ARENA_MAX" in os.environ:
        return False
    with suppress(OSError, ValueError, AttributeError, TypeError):  # another system, another C library
        if (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
    return False


class Trimming:
    """Return free memory to the system while a pass makes results that are held.

    A result often lies where a larger array was: a chunk where one with its border was. The rest of it is free and too
    small for the next one. Between 949 MiB of such results, 430 MiB of the process were of no use.

    Parameters
    ----------
    targets : iterable of keys
        The results.
    """

    def __init__(self, targets: Iterable[Any]) -> None:
        self.targets = frozenset(targets)
        self.held = self.trimmed = 0

    def finished(self, key: Any, value: Any, *_: Any) -> None:
        """Note a result; Dask calls this after each task (``posttask`` of its callbacks)."""
        if key not in self.targets:
            return
        self.held += getattr(value, "nbytes", 0)
        if self.held - self.trimmed >= max(EVERY, self.held // FRACTION):
            self.trimmed = self.held
            trim()


def trim() -> None:
    """Return free memory to the system, where the C library can."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


use_one()
