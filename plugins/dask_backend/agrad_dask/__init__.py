"""Dask as a backend of agrad: found through the entry point group ``agrad``. Dask loads when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pluggy

__version__ = "0.1.0"

#: Public names and the module each stands in: imported when first asked for, since importing them imports Dask.
_WHERE = {
    "ChunkWarning": "sources",
    "DaskBackend": "backend",
    "from_npy": "sources",
    "from_npy_stack": "sources",
    "from_zarr": "sources",
    "value_and_grad": "lowering",
}

hookimpl = pluggy.HookimplMarker("agrad")


@hookimpl
def agrad_backends() -> dict[str, str]:
    """Return the one backend of this plugin, by its path."""
    return {"dask": "agrad_dask.backend:DaskBackend"}


@hookimpl
def agrad_harness(backend: str) -> str | None:
    """Return how the conformance kit tests that backend."""
    return "agrad_dask.harness:DaskHarness" if backend == "dask" else None


@hookimpl
def agrad_backend_of(array_type: type) -> str | None:
    """Claim Dask's arrays, those of the expression system included, without importing Dask."""
    dask = any(t.__name__ == "Array" and t.__module__.startswith("dask.array") for t in array_type.__mro__)
    return "dask" if dask else None


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
