"""NumPy as a backend of agrad: found through the entry point group ``agrad``."""

from __future__ import annotations

import pluggy

from agrad_numpy.backend import NumpyBackend

__version__ = "0.1.0"

hookimpl = pluggy.HookimplMarker("agrad")
_backend = NumpyBackend()


@hookimpl
def agrad_backends() -> list[NumpyBackend]:
    """Return the one backend of this plugin."""
    return [_backend]


@hookimpl
def agrad_backend_of(array_type: type) -> str | None:
    """Claim NumPy's arrays and scalars, without importing NumPy; not its matrices, whose ``*`` means another thing."""
    names = {t.__name__ for t in array_type.__mro__ if t.__module__ == "numpy"}
    return "numpy" if names & _NAMES and "matrix" not in names else None


_NAMES = frozenset({"ndarray", "generic"})
