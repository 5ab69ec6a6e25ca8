"""cubed's arrays as a backend of agrad, found through the entry point group "agrad". cubed is loaded at first use."""

from __future__ import annotations

import pluggy

__version__ = "0.1.0"

hookimpl = pluggy.HookimplMarker("agrad")


@hookimpl
def agrad_backends():
    return {"cubed": "agrad_cubed.backend:CubedBackend"}


@hookimpl
def agrad_backend_of(array_type):
    return "cubed" if array_type.__name__ == "Array" and array_type.__module__.startswith("cubed.") else None


@hookimpl
def agrad_harness(backend):
    return "agrad_cubed.harness:CubedHarness" if backend == "cubed" else None
