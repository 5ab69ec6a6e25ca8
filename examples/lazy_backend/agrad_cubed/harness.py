"""How the conformance kit of agrad tests the backend."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import cubed
import cubed.array_api as xp
import numpy as np
from cubed.core.plan import CONTEXT_ID

from agrad.testing import Harness

#: A folder whose files are in memory, on Linux.
TMPFS = Path("/dev/shm")

# The kit runs thousands of plans, each with a few numbers. Threads use an event loop for each plan, zarr-python another
# thread for each step of a file: together twice the time of everything else. tensorstore does not, but waits for the
# disk at each write.
cubed.config.set({"spec.executor_name": "single-threaded", "storage_name": "tensorstore"})
if TMPFS.is_dir() and shutil.disk_usage(TMPFS).free > 1e9:
    cubed.config.set({"spec.work_dir": str(TMPFS)})


class CubedHarness(Harness):
    """Arrays in several chunks, and an executor that refuses to compute."""

    def __init__(self):
        # Each test has a harness: delete the files of earlier ones
        shutil.rmtree(TMPFS / CONTEXT_ID, ignore_errors=True)

    def specimen(self, backend, buffer, device):
        host = np.asarray(buffer)
        return xp.asarray(host, chunks=(2,) * host.ndim) if host.size else backend.from_host(host, device)

    @contextlib.contextmanager
    def computing_nothing(self):
        try:
            with cubed.raise_if_computes():
                yield
        except RuntimeError as error:
            if "'compute' was called" not in str(error):
                raise
            raise AssertionError("cubed was made to compute") from error
