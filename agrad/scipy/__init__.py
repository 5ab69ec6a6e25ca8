"""SciPy's names over agrad: ``from agrad.scipy import special`` in code written for SciPy or HIPS autograd.

Functions have SciPy's signatures, take tensors and arrays of every backend, and return tensors. Each module is imported
at first use.

Examples
--------
>>> import agrad as ag
>>> from agrad.scipy import special
>>> special.jn(2, ag.asarray([0.0, 1.0]))
tensor([0.0000, 0.1149])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from agrad.core.names import MissingName as _MissingName

if TYPE_CHECKING:
    from agrad.scipy import integrate as integrate
    from agrad.scipy import interpolate as interpolate
    from agrad.scipy import linalg as linalg
    from agrad.scipy import optimize as optimize
    from agrad.scipy import signal as signal
    from agrad.scipy import sparse as sparse
    from agrad.scipy import special as special
    from agrad.scipy import stats as stats

#: The modules, by SciPy's names.
__all__ = ["integrate", "interpolate", "linalg", "optimize", "signal", "sparse", "special", "stats"]


if not TYPE_CHECKING:  # type checkers read the imports above, and should report missing names

    def __getattr__(name: str) -> object:
        if name in __all__:
            return importlib.import_module(f"{__name__}.{name}")
        raise _MissingName(__name__, name)

    def __dir__() -> list[str]:
        return __all__
