"""``autograd.numpy``: the names of `agrad.numpy`, and the few that HIPS autograd adds to NumPy's.

For plain arrays its functions return plain arrays, creation functions those of the current backend; for tensors they
return tensors. If no tensor is involved, NumPy's own functions run. ``autograd.numpy.random`` is ``numpy.random``
itself, because the results of programs depend on its numbers.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

import agrad.numpy as _names
from agrad.compat.autograd.numpy import numpy_wrapper as _wrapper
from agrad.compat.autograd.plain import PlainFunction as _Plain
from agrad.compat.autograd.plain import plain as _plain
from agrad.numpy.table import EFFECT as _EFFECT
from agrad.numpy.table import REFUSED as _REFUSED
from agrad.numpy.table import table as _table
from agrad.plugin import manager as _manager

_OWN = ("__version__", "numpy_version", *_wrapper.__all__)
_ROOMS = ("fft", "linalg")
#: NumPy's own objects: some code tests whether a number ``is np.nan``.
_NUMBERS = ("e", "euler_gamma", "inf", "nan", "pi")

random: Any = _manager.usable("numpy").namespace().random
for _name, _module in [*sys.modules.items()]:  # itself and its submodules, which import statements look for here
    if _name == random.__name__ or _name.startswith(f"{random.__name__}."):
        sys.modules[f"{__name__}.random{_name.removeprefix(random.__name__)}"] = _module


def __getattr__(name: str) -> Any:
    if name in ("__version__", "numpy_version"):  # of the underlying library, as in autograd
        return _manager.default_backend().availability()[1]
    if name in _NUMBERS:
        return getattr(_manager.usable("numpy").namespace(), name)
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    library = _manager.usable("numpy").module("numpy")  # NumPy itself: the standard's functions have other keywords
    if name in _wrapper.__all__:
        own = functools.partial(_wrapper.chosen, library.where) if name == "where" else None
        found = _plain(getattr(_wrapper, name), own)
    else:
        entry = _table().get(name)
        own = None if entry is None or entry.status in (_EFFECT, _REFUSED) else getattr(library, name, None)
        found = _plain(getattr(_names, name), own)
    if isinstance(found, _Plain):  # a dtype may differ between backends
        globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*dir(_names), *_OWN})
