"""NumPy's names for agrad: ``import agrad.numpy as np`` in code written for NumPy or HIPS autograd.

Functions have NumPy's signatures and return tensors. Functions that create arrays use the current backend
(`agrad.use_backend`, `agrad.set_default_backend`); all others follow their operands. Dtypes are the current backend's own.
Nothing is imported before it is used, and no array library is ever imported by name.

Examples
--------
>>> from agrad import grad
>>> import agrad.numpy as np
>>> def loss(w):
...     return np.sum(np.array([w[0] ** 2, np.sin(w[1])]))
>>> grad(loss)(np.array([1.0, 0.0]))
tensor([2., 1.])
"""

from __future__ import annotations

import builtins as _builtins
import importlib
import math
from typing import TYPE_CHECKING, Any

from agrad import dtypes as _dtypes
from agrad.core.names import MissingName as _MissingName

if TYPE_CHECKING:
    from agrad.numpy.names import *  # a stub, written by docs/make_numpy_names.py

e: float = math.e
euler_gamma: float = 0.5772156649015329
inf: float = math.inf
nan: float = math.nan
newaxis: None = None
pi: float = math.pi
#: ``bool`` is one of this module's names.
False_: _builtins.bool = False
True_: _builtins.bool = True

#: Public files, named after NumPy's modules.
_ROOMS = ("fft", "linalg", "random")

#: NumPy's aliases of dtypes.
_DTYPES = {
    **{name: name for name in _dtypes.NAMES},
    "float16": "float16",
    "half": "float16",
    "single": "float32",
    "double": "float64",
    "csingle": "complex64",
    "cdouble": "complex128",
    "bool_": "bool",
    "byte": "int8",
    "short": "int16",
    "intc": "int32",
    "int_": "int64",
    "intp": "int64",
    "long": "int64",
    "longlong": "int64",
    "ubyte": "uint8",
    "ushort": "uint16",
    "uintc": "uint32",
    "uint": "uint64",
    "uintp": "uint64",
    "ulong": "uint64",
    "ulonglong": "uint64",
}


if not TYPE_CHECKING:  # type checkers read the imports above, and should report missing names

    def __getattr__(name: str) -> Any:
        if name in _ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        if name == "__all__":
            return __dir__()
        if name.startswith("__"):
            raise _MissingName(__name__, name)
        if name in _DTYPES:  # another backend has others
            from agrad.plugin.manager import default_backend  # noqa: PLC0415 (plugins load at the first use)

            return getattr(default_backend().namespace(), _DTYPES[name])
        from agrad.numpy.table import LIBRARY, NumpyModule, table  # noqa: PLC0415 (all chapters)

        if name == "lib":
            return NumpyModule(name)
        entry = table().get(name)
        if entry is None:
            raise _MissingName(__name__, name)
        if entry.status == LIBRARY:  # another backend has others
            return entry.function.find()
        globals()[name] = entry.function
        return entry.function

    def __dir__() -> list[str]:
        from agrad.numpy.table import table  # noqa: PLC0415 (all chapters)

        own = ["False_", "True_", "e", "euler_gamma", "inf", "nan", "newaxis", "pi"]
        return sorted({*own, *_ROOMS, *_DTYPES, *(name for name in table() if "." not in name)})
