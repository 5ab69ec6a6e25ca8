"""agrad: define-by-run automatic differentiation for any array library.

It works the way PyTorch's autograd does, and computes with the Python array API standard; array libraries are plugins.
``agrad.backends()`` lists the installed ones.

Names here without an underscore are public. Chapters list theirs in ``__all__``.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING

from agrad.core.declare import *
from agrad.core.declare import MADE as _MADE
from agrad.core.describe import rules as rules
from agrad.core.errors import *
from agrad.core.function import Function as Function
from agrad.core.mode import *
from agrad.core.names import MissingName as _MissingName
from agrad.core.op import OPS as _OPS
from agrad.core.tensor import Tensor as Tensor
from agrad.dtypes import *
from agrad.ops import methods as _methods  # noqa: F401 (puts them on Tensor)
from agrad.ops import torch_methods as _torch_methods  # noqa: F401 (as `methods`)
from agrad.ops.constants import *
from agrad.ops.creation import *
from agrad.ops.data_type import *
from agrad.ops.elementwise import *
from agrad.ops.manipulation import *
from agrad.ops.namespace import API_VERSION as _API_VERSION
from agrad.ops.namespace import namespace as namespace
from agrad.ops.searching import *
from agrad.ops.set_functions import *
from agrad.ops.statistical import *
from agrad.ops.utility import *

from agrad.ops.extra import (  # isort: skip
    allclose as allclose, cat as cat, chunk as chunk, cumprod as cumprod, cumsum as cumsum, diag as diag, dot as dot,
    einsum as einsum, flatten as flatten, gather as gather, hstack as hstack, index_select as index_select,
    isclose as isclose, kron as kron, lerp as lerp, log_softmax as log_softmax, logcumsumexp as logcumsumexp,
    masked_fill as masked_fill, masked_select as masked_select, median as median, nanmean as nanmean, nansum as nansum,
    norm as norm, quantile as quantile, ravel as ravel, relu as relu, sigmoid as sigmoid, softmax as softmax,
    swapaxes as swapaxes, topk as topk, vstack as vstack,
)  # fmt: skip
from agrad.ops.linalg import matmul as matmul, outer as outer, tensordot as tensordot, vecdot as vecdot  # isort: skip
from agrad.core.backend import CONTRACT as CONTRACT, Backend as Backend, Device as Device  # isort: skip
from agrad.plugin.manager import (  # isort: skip
    default_backend as default_backend, register as register, set_default_backend as set_default_backend,
    use_backend as use_backend,
)  # fmt: skip

# These use the names above.
from agrad import autograd as autograd, backends as backends, extra as extra, fft as fft, func as func  # isort: skip
from agrad import linalg as linalg, nn as nn, optim as optim, random as random, special as special  # isort: skip
from agrad import tree as tree, utils as utils, view as view  # isort: skip
from agrad.autograd.backward import backward as backward  # isort: skip
from agrad.func.toplevel import *  # isort: skip
from agrad.lazy import *  # isort: skip
from agrad.random import (  # isort: skip
    manual_seed as manual_seed, permutation as permutation, rand as rand, rand_like as rand_like, randint as randint,
    randn as randn, randn_like as randn_like, randperm as randperm,
)  # fmt: skip
from agrad.serialization import *  # isort: skip
from agrad.view import profile as profile  # isort: skip
from agrad.view import tracebacks as _tracebacks  # isort: skip

if TYPE_CHECKING:
    from typing import Any

_tracebacks.install()

__version__ = "0.1.0"
__array_api_version__ = _API_VERSION


def __array_namespace_info__() -> Any:  # noqa: N807 (the standard's name)
    """Return the standard's inspection object, for the default backend."""
    return namespace().__array_namespace_info__()


if TYPE_CHECKING:
    from agrad import numpy as numpy
    from agrad import scipy as scipy
    from agrad import sparse as sparse
    from agrad.torch_names import *  # a stub, written by docs/make_methods.py
else:  # type checkers read the imports, and should report missing names
    #: Names that are here as well, but not public; and `numpy`, which is public: a star import would hide NumPy.
    _OTHERS = {
        "TYPE_CHECKING",
        "annotations",
        "core",
        "dtypes",
        "lazy",
        "numpy",
        "ops",
        "plugin",
        "serialization",
        "testing",
    }

    __all__ = [name for name in globals() if name[0] != "_" and name not in _OTHERS]
    __all__ += ["__array_api_version__", "__version__"]

    #: Modules that load when they are first used.
    _WAITING = {"compat", "distributions", "einops", "scipy", "sparse", "torch_functions", "xarray"}

    def __getattr__(name: str) -> Any:
        if name in _WAITING:
            return _importlib.import_module(f"agrad.{name}")
        if name in _OPS:  # one that the user has declared
            return _OPS[name].entry
        from agrad.torch_functions import NAMES, named  # noqa: PLC0415 (most programs use none of them)

        if name not in NAMES:
            raise _MissingName("agrad", name)
        found = globals()[name] = named(name)
        _MADE[name] = globals()
        return found

    def __dir__() -> list[str]:
        from agrad.torch_functions import NAMES  # noqa: PLC0415 (as above)

        return sorted({*__all__, *NAMES})  # a star leaves these out: `float` and `int` would hide Python's
