"""SciPy's names over agrad: ``from agrad.scipy import special`` in code written for SciPy or HIPS autograd.

Functions have SciPy's signatures, take tensors and arrays of every backend, and give tensors. Each module is imported when it
is first asked for.

Examples
--------
>>> import agrad as ag
>>> from agrad.scipy import special
>>> special.jn(2, ag.asarray([0.0, 1.0]))
tensor([0.0000, 0.1149])
"""

from __future__ import annotations

import importlib
from typing import Any

#: The modules, by SciPy's names.
_ROOMS = ("integrate", "interpolate", "linalg", "optimize", "signal", "special", "stats")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; there are {', '.join(_ROOMS)}")


def __dir__() -> list[str]:
    return list(_ROOMS)
