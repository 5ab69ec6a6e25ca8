"""``autograd.numpy``: the names of `agrad.numpy`, and the few that HIPS autograd adds to NumPy's.

What makes arrays makes tensors, on the current backend.
"""

from __future__ import annotations

from typing import Any

import agrad.numpy as _names
from agrad.compat.autograd.numpy.numpy_wrapper import make_diagonal as make_diagonal
from agrad.compat.autograd.numpy.numpy_wrapper import where as where
from agrad.plugin import manager as _manager

_OWN = ("__version__", "make_diagonal", "numpy_version", "where")


def __getattr__(name: str) -> Any:
    if name in ("__version__", "numpy_version"):  # of the library beneath, as there
        return _manager.default_backend().availability()[1]
    return getattr(_names, name)


def __dir__() -> list[str]:
    return sorted({*dir(_names), *_OWN})
