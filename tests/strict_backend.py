"""array-api-strict as a backend of the tests: it has nothing beyond the standard, and two devices that do not mix.

Every default of the contract is at work here, and any step outside the standard in agrad's rules raises.
"""

from __future__ import annotations

import array_api_strict
import numpy as np

import agrad as ag
from agrad.plugin.hookspecs import hookimpl


class StrictBackend(ag.Backend):
    """The standard's own reference library."""

    name = "strict"

    def namespace(self):
        return array_api_strict

    def native_devices(self):
        return {
            "strict": array_api_strict.Device("CPU_DEVICE"),
            "strict:device1": array_api_strict.Device("device1"),
        }

    def to_host(self, array):
        return np.asarray(array.to_device(self.native_device("strict")))

    def from_host(self, buffer, device):
        return array_api_strict.asarray(np.array(buffer), device=self.native_device(device))

    def quiet(self):
        return np.errstate(all="ignore")


class StrictPlugin:
    backend = StrictBackend()

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "strict" if array_type.__module__ == "array_api_strict._array_object" else None
