"""Dask as a backend of agrad, found through the entry point group ``agrad``. Dask is loaded at first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pluggy

from agrad.plugin.backend import MissingName
from agrad_dask import arenas  # noqa: F401 (before there are threads, on a cluster's workers too)

if TYPE_CHECKING:
    from agrad_dask.backend import DaskBackend as DaskBackend
    from agrad_dask.blocks import map_blocks as map_blocks
    from agrad_dask.blocks import map_overlap as map_overlap
    from agrad_dask.computing import steps as steps
    from agrad_dask.gufuncs import apply_gufunc as apply_gufunc
    from agrad_dask.lowering import value_and_grad as value_and_grad
    from agrad_dask.second_order import fisher as fisher
    from agrad_dask.second_order import gauss_newton as gauss_newton
    from agrad_dask.second_order import hessian as hessian
    from agrad_dask.second_order import hvp as hvp
    from agrad_dask.sources import from_npy as from_npy
    from agrad_dask.sources import from_npy_stack as from_npy_stack
    from agrad_dask.sources import from_xarray as from_xarray
    from agrad_dask.sources import from_zarr as from_zarr
    from agrad_dask.workers import ChunkWarning as ChunkWarning

__version__ = "0.1.0"

#: Public names and their modules: imported at first use, because importing them imports Dask.
_WHERE = {
    "ChunkWarning": "workers",
    "DaskBackend": "backend",
    "apply_gufunc": "gufuncs",
    "fisher": "second_order",
    "from_npy": "sources",
    "from_npy_stack": "sources",
    "from_xarray": "sources",
    "from_zarr": "sources",
    "gauss_newton": "second_order",
    "hessian": "second_order",
    "hvp": "second_order",
    "map_blocks": "blocks",
    "map_overlap": "blocks",
    "steps": "computing",
    "value_and_grad": "lowering",
}

__all__ = [
    "ChunkWarning",
    "DaskBackend",
    "apply_gufunc",
    "fisher",
    "from_npy",
    "from_npy_stack",
    "from_xarray",
    "from_zarr",
    "gauss_newton",
    "hessian",
    "hvp",
    "map_blocks",
    "map_overlap",
    "steps",
    "value_and_grad",
]

hookimpl = pluggy.HookimplMarker("agrad")


@hookimpl
def agrad_backends() -> dict[str, str]:
    """Return the single backend of this plugin, by its path."""
    return {"dask": "agrad_dask.backend:DaskBackend"}


@hookimpl
def agrad_harness(backend: str) -> str | None:
    """Return how the conformance kit tests that backend."""
    return "agrad_dask.harness:DaskHarness" if backend == "dask" else None


@hookimpl
def agrad_backend_of(array_type: type) -> str | None:
    """Claim Dask's arrays, including those of the expression system, without importing Dask."""
    dask = any(t.__name__ == "Array" and t.__module__.startswith("dask.array") for t in array_type.__mro__)
    return "dask" if dask else None


if not TYPE_CHECKING:  # type checkers read the imports above, and should report missing names

    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise MissingName(__name__, name)
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)

    def __dir__() -> list[str]:  # with the hooks, which pluggy finds by it
        return [*__all__, *(name for name in globals() if name.startswith("agrad_"))]
