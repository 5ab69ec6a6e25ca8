"""NumPy as a backend of agrad, found through the entry point group ``agrad``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pluggy

from agrad.plugin.backend import MissingName

if TYPE_CHECKING:
    from agrad_numpy.backend import NumpyBackend as NumpyBackend

__version__ = "0.1.0"

__all__ = ["NumpyBackend"]

hookimpl = pluggy.HookimplMarker("agrad")


@hookimpl
def agrad_backends() -> dict[str, str]:
    """Return the single backend of this plugin, by its path."""
    return {"numpy": "agrad_numpy.backend:NumpyBackend"}


@hookimpl
def agrad_executors() -> dict[str, str]:
    """Return the native executor, by its path."""
    return {"native": "agrad_numpy.native:NativeExecutor"}


@hookimpl(trylast=True)  # it claims subclasses, which may belong to other plugins
def agrad_backend_of(array_type: type) -> str | None:
    """Claim NumPy's arrays and scalars, without importing NumPy; but not its matrices, whose ``*`` has another meaning."""
    names = {t.__name__ for t in array_type.__mro__ if t.__module__ == "numpy"}
    return "numpy" if names & _NAMES and "matrix" not in names else None


_NAMES = frozenset({"ndarray", "generic"})


if not TYPE_CHECKING:  # type checkers read the import above, and should report missing names

    def __getattr__(name: str) -> object:
        if name != "NumpyBackend":
            raise MissingName(__name__, name)
        return import_module(f"{__name__}.backend").NumpyBackend

    def __dir__() -> list[str]:  # with the hooks, which pluggy finds by it
        return [*__all__, *(name for name in globals() if name.startswith("agrad_"))]
