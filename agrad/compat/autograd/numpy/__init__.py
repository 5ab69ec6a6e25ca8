"""``autograd.numpy``: the names of `agrad.numpy`, and the few that HIPS autograd adds to NumPy's.

Of plain arrays its functions give plain arrays, of the current backend where they make them; of tensors they give tensors.
"""

from __future__ import annotations

import importlib
from typing import Any

import agrad.numpy as _names
from agrad.compat.autograd.numpy import numpy_wrapper as _wrapper
from agrad.compat.autograd.plain import plain as _plain
from agrad.plugin import manager as _manager

_OWN = ("__version__", "numpy_version", *_wrapper.__all__)
_ROOMS = ("fft", "linalg", "random")
#: NumPy's very objects: code asks whether a number ``is np.nan``.
_NUMBERS = ("e", "euler_gamma", "inf", "nan", "pi")


def __getattr__(name: str) -> Any:
    if name in ("__version__", "numpy_version"):  # of the library beneath, as there
        return _manager.default_backend().availability()[1]
    if name in _NUMBERS:
        return getattr(_manager.usable("numpy").namespace(), name)
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    return _plain(getattr(_wrapper if name in _wrapper.__all__ else _names, name))


def __dir__() -> list[str]:
    return sorted({*dir(_names), *_OWN})
