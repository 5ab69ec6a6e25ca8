"""Namespaces: agrad's functions bound to a backend, as the standard's ``__array_namespace__`` gives them.

A bound namespace has the same functions as ``agrad``; only its creation functions default to its backend, and its
dtypes are the backend's own. There is one object per backend; it pickles by name.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType, SimpleNamespace
from typing import Any

from agrad import dtypes
from agrad.core.op import OPS
from agrad.ops import (
    creation,
    data_type,
    elementwise,
    extra,
    fft,
    linalg,
    manipulation,
    searching,
    special,
    statistical,
)
from agrad.plugin import manager
from agrad.plugin.backend import Backend

#: The version of the standard.
API_VERSION = "2025.12"

CONSTANTS: dict[str, Any] = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}

#: Functions that make tensors from no operand: bound namespaces give them their own backend as ``device``.
CREATION = (
    "arange",
    "asarray",
    "empty",
    "eye",
    "fftfreq",
    "from_dlpack",
    "full",
    "linspace",
    "ones",
    "rfftfreq",
    "zeros",
)

#: Sub-namespaces by name; those without a module of functions have ops alone.
SUBNAMESPACES: dict[str, ModuleType | None] = {
    "extra": extra,
    "fft": fft,
    "linalg": linalg,
    "nn": None,
    "special": special,
}

_CHAPTERS = (creation, data_type, elementwise, linalg, manipulation, searching, statistical)


def public_functions() -> dict[str, Any]:
    """Give every function of the main namespace by name."""
    found: dict[str, Any] = {}
    for chapter in _CHAPTERS:
        for name, value in vars(chapter).items():
            local = getattr(value, "__module__", None) == chapter.__name__
            if local and callable(value) and not name.startswith("_") and name in _MAIN:
                found[name] = value
    return found


_MAIN = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "bitwise_and",
        "bitwise_invert",
        "bitwise_left_shift",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "ceil",
        "clip",
        "conj",
        "copysign",
        "cos",
        "cosh",
        "divide",
        "equal",
        "exp",
        "expm1",
        "floor",
        "floor_divide",
        "greater",
        "greater_equal",
        "hypot",
        "imag",
        "isfinite",
        "isinf",
        "isnan",
        "less",
        "less_equal",
        "log",
        "log10",
        "log1p",
        "log2",
        "logaddexp",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "maximum",
        "minimum",
        "multiply",
        "negative",
        "nextafter",
        "not_equal",
        "positive",
        "pow",
        "real",
        "reciprocal",
        "remainder",
        "round",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "subtract",
        "tan",
        "tanh",
        "trunc",
        "arange",
        "asarray",
        "empty",
        "empty_like",
        "eye",
        "from_dlpack",
        "full",
        "full_like",
        "linspace",
        "meshgrid",
        "ones",
        "ones_like",
        "tril",
        "triu",
        "zeros",
        "zeros_like",
        "astype",
        "can_cast",
        "finfo",
        "iinfo",
        "isdtype",
        "result_type",
        "broadcast_arrays",
        "broadcast_like",
        "broadcast_shapes",
        "broadcast_to",
        "concat",
        "expand_dims",
        "flip",
        "moveaxis",
        "permute_dims",
        "repeat",
        "reshape",
        "roll",
        "squeeze",
        "stack",
        "tile",
        "unstack",
        "matmul",
        "matrix_transpose",
        "tensordot",
        "vecdot",
        "argmax",
        "argmin",
        "argsort",
        "count_nonzero",
        "getitem",
        "nonzero",
        "scatter_add",
        "searchsorted",
        "setitem",
        "sort",
        "take",
        "take_along_axis",
        "where",
        "all",
        "any",
        "cumulative_prod",
        "cumulative_sum",
        "max",
        "mean",
        "min",
        "prod",
        "std",
        "sum",
        "var",
        "to_device",
    ]
)


class Namespace(ModuleType):
    """agrad's functions, with creation functions on one backend.

    Examples
    --------
    >>> import agrad as ag
    >>> xp = ag.namespace("numpy")
    >>> xp.sum(xp.ones((3,), requires_grad=True)).backward()
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(f"agrad.backends.{backend.name}", self.__doc__)
        self._backend = backend
        self.__array_api_version__ = API_VERSION
        vars(self)["__getattr__"] = self._missing
        vars(self).update(CONSTANTS)
        vars(self).update(public_functions())
        for name in CREATION:
            if name in vars(self):
                setattr(self, name, self._bind(vars(self)[name]))
        for name, chapter in SUBNAMESPACES.items():
            setattr(self, name, _Chapter(self, name, chapter))

    def _bind(self, function: Any) -> Any:
        device = self._backend.default_device()

        @functools.wraps(function)
        def bound(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("device") is None and not (function is creation.asarray and _has_home(args)):
                kwargs["device"] = device
            return function(*args, **kwargs)

        return bound

    def _missing(self, name: str) -> Any:
        """Give the backend's dtypes and the user's own ops; a module's ``__getattr__``, so that the rest stays fast."""
        if name in dtypes.NAMES:
            native = self._backend.dtype(name)
            setattr(self, name, native)
            return native
        if name in OPS and "." not in name:
            return OPS[name].entry
        message = f"namespace {self.__name__!r} has no attribute {name!r}"
        raise AttributeError(message)

    def __array_namespace_info__(self) -> Any:
        """Give the standard's inspection object."""
        backend = self._backend
        return SimpleNamespace(
            capabilities=lambda: {**backend.capabilities, "max dimensions": None},
            default_device=backend.default_device,
            devices=backend.devices,
            default_dtypes=lambda *, device=None: {
                "real floating": backend.dtype(manager.get_default_dtype()),
                "complex floating": backend.dtype("complex128"),
                "integral": backend.dtype("int64"),
                "indexing": backend.dtype("int64"),
            },
            dtypes=lambda *, device=None, kind=None: {
                n: backend.dtype(n) for n in dtypes.NAMES if kind is None or data_type.isdtype(n, kind)
            },
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return manager.namespace, (self._backend.name,)

    def __repr__(self) -> str:
        return f"<namespace {self.__name__!r}>"


def _has_home(args: tuple[Any, ...]) -> bool:
    """Tell whether what is given to asarray is on a backend already."""
    from agrad.core.spec import backend_of  # noqa: PLC0415
    from agrad.core.tensor import Tensor  # noqa: PLC0415

    if not args or isinstance(args[0], bool | int | float | complex | list | tuple | str):
        return False
    return isinstance(args[0], Tensor) or backend_of(args[0]) is not None


class _Chapter:
    """A sub-namespace, as ``xp.linalg``: the public functions of its module, then every op whose name begins with it."""

    def __init__(self, parent: Namespace, name: str, module: ModuleType | None) -> None:
        self._name = name
        for public in module.__all__ if module is not None else ():
            function = getattr(module, public)
            setattr(self, public, parent._bind(function) if public in CREATION else function)

    def __getattr__(self, name: str) -> Any:
        op = OPS.get(f"{self._name}.{name}")
        if op is None:
            message = f"namespace {self._name!r} has no attribute {name!r}"
            raise AttributeError(message)
        setattr(self, name, op.entry)
        return op.entry


@functools.cache
def bound(backend: Backend) -> Namespace:
    """Give the namespace of a backend."""
    return Namespace(backend)


def namespace(name: str | None = None, *, api_version: str | None = None) -> Namespace:
    """Give agrad's functions bound to a backend.

    Parameters
    ----------
    name : str, optional
        The backend. Default: the one creation functions use.
    api_version : str, optional
        The version of the standard wanted.

    Raises
    ------
    BackendError
        If the backend is unknown or unusable here.
    ValueError
        If the version is not known.
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", API_VERSION):
        message = f"unknown version of the array API standard: {api_version!r}; this is {API_VERSION}"
        raise ValueError(message)
    return bound(manager.default_backend() if name is None else manager.usable(name))
