"""NumPy as a backend of agrad: found through the entry point group ``agrad``."""

from __future__ import annotations

import pluggy

from agrad_numpy.backend import NumpyBackend

__version__ = "0.1.0"

hookimpl = pluggy.HookimplMarker("agrad")
_backend = NumpyBackend()


@hookimpl
def agrad_backends() -> list[NumpyBackend]:
    """Give the one backend of this plugin."""
    return [_backend]


@hookimpl
def agrad_backend_of(array_type: type) -> str | None:
    """Claim NumPy's arrays and scalars, without importing NumPy."""
    if array_type.__module__ == "numpy" and array_type.__name__ in _NAMES:
        return "numpy"
    return "numpy" if any(t.__module__ == "numpy" and t.__name__ in _NAMES for t in array_type.__mro__) else None


_NAMES = frozenset({"ndarray", "generic"})
