"""``autograd.scipy``: the modules of `agrad.scipy`, with functions that return plain arrays for plain arrays."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = ("integrate", "linalg", "signal", "special", "stats")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; there are {', '.join(_ROOMS)}")


def __dir__() -> list[str]:
    return list(_ROOMS)
