"""How the conformance kit tests the Dask backend."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import dask
import dask.array as da
import numpy as np

from agrad.plugin.backend import Backend
from agrad.testing import Harness


class DaskHarness(Harness):
    """Arrays in several chunks, and a scheduler that refuses to compute."""

    def specimen(self, backend: Backend, buffer: Any, device: str) -> Any:
        host = np.asarray(buffer)
        return da.from_array(host, chunks=2 if host.ndim else ())

    def computing_nothing(self) -> AbstractContextManager[Any]:
        def scheduler(dsk: Any, keys: Any, **kwargs: Any) -> Any:
            message = "Dask was made to compute"
            raise AssertionError(message)

        made: AbstractContextManager[Any] = dask.config.set(scheduler=scheduler)
        return made
