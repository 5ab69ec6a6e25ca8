"""NumPy as a backend of agrad: found through the entry point group ``agrad``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pluggy

__version__ = "0.1.0"

hookimpl = pluggy.HookimplMarker("agrad")


@hookimpl
def agrad_backends() -> dict[str, str]:
    """Return the one backend of this plugin, by its path."""
    return {"numpy": "agrad_numpy.backend:NumpyBackend"}


@hookimpl
def agrad_backend_of(array_type: type) -> str | None:
    """Claim NumPy's arrays and scalars, without importing NumPy; not its matrices, whose ``*`` means another thing."""
    names = {t.__name__ for t in array_type.__mro__ if t.__module__ == "numpy"}
    return "numpy" if names & _NAMES and "matrix" not in names else None


_NAMES = frozenset({"ndarray", "generic"})


def __getattr__(name: str) -> Any:
    if name != "NumpyBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.backend").NumpyBackend
