"""CuPy as a backend of agrad: found through the entry point group ``agrad``. CuPy loads when it is first used."""

from __future__ import annotations

import pluggy

from agrad_cupy.backend import CupyBackend

__version__ = "0.1.0"

hookimpl = pluggy.HookimplMarker("agrad")
_backend = CupyBackend()


@hookimpl
def agrad_backends() -> list[CupyBackend]:
    """Give the one backend of this plugin."""
    return [_backend]


@hookimpl
def agrad_backend_of(array_type: type) -> str | None:
    """Claim CuPy's arrays, without importing CuPy."""
    cupy = any(t.__name__ == "ndarray" and t.__module__.partition(".")[0] == "cupy" for t in array_type.__mro__)
    return "cupy" if cupy else None
