"""How the conformance kit of agrad tests the backend."""

from __future__ import annotations

import contextlib

import cubed
import cubed.array_api as xp
import numpy as np

from agrad.testing import Harness


class CubedHarness(Harness):
    """Arrays in several chunks, and an executor that refuses to compute."""

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
