"""Namespaces: agrad's functions bound to a backend, as returned by the standard's ``__array_namespace__``.

A bound namespace has the same functions as ``agrad``; only its creation functions default to its backend, and its
dtypes are the backend's own. There is one object per backend; it pickles by name.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from agrad import dtypes
from agrad.core.backend import Backend, Device, backend_of, functions_of
from agrad.core.facts import WITHOUT_OP
from agrad.core.once import shared
from agrad.core.op import OPS
from agrad.core.tensor import Tensor
from agrad.ops import (
    constants,
    creation,
    data_type,
    decompositions,
    eigenvalues,
    elementwise,
    extra,
    fft,
    linalg,
    manipulation,
    searching,
    set_functions,
    solving,
    special,
    statistical,
    utility,
)
from agrad.plugin import manager

#: The version of the standard.
API_VERSION = "2025.12"

#: The chapters of the main namespace; each declares its own members.
_CHAPTERS = (creation, data_type, elementwise, manipulation, searching, set_functions, statistical, utility)

#: Those of sub-namespaces, by name; a sub-namespace without a chapter consists of ops only.
SUBNAMESPACES: dict[str, tuple[ModuleType, ...]] = {
    "extra": (extra,),
    "fft": (fft,),
    "linalg": (linalg, decompositions, eigenvalues, solving),
    "nn": (),
    "special": (special,),
}

#: PyTorch's functions in these chapters: code written to the standard does not need them.
_PYTORCH = {"DoubleTensor", "FloatTensor", "as_tensor", "from_numpy", "is_floating_point", "is_tensor", "tensor"}


def public_functions() -> dict[str, Any]:
    """Return every function of the main namespace by name."""
    chapters = {
        name: getattr(chapter, name) for chapter in _CHAPTERS for name in chapter.__all__ if name not in _PYTORCH
    }
    return chapters | {"matmul": linalg.matmul, "tensordot": linalg.tensordot, "vecdot": linalg.vecdot}


class Info:
    """The capabilities of a namespace, as in the standard's ``__array_namespace_info__`` (array API 2025.12, Inspection).

    Examples
    --------
    >>> import agrad as ag
    >>> info = ag.namespace("numpy").__array_namespace_info__()
    >>> info.devices()
    ('numpy',)
    >>> sorted(info.dtypes(kind="real floating"))
    ['float32', 'float64']
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def _library(self) -> Any:
        """The array library's own inspection object; None if it has none."""
        found = getattr(self._backend.namespace(), "__array_namespace_info__", None)
        return None if found is None else found()

    def capabilities(self) -> dict[str, Any]:
        """Return the supported features: "boolean indexing", "data-dependent shapes", "max dimensions".

        Returns
        -------
        dict
            Two booleans, and the largest number of axes (None if there is no limit).
        """
        library = self._library()
        return {
            "boolean indexing": not self._backend.cannot("boolean indexing"),
            "data-dependent shapes": not self._backend.cannot("data-dependent shapes"),
            "max dimensions": library.capabilities().get("max dimensions") if library else None,
        }

    def default_device(self) -> Any:
        """Return the device of creation functions that are called without one."""
        return Device(self._backend.default_device())

    def devices(self) -> tuple[Any, ...]:
        """Return the devices that ``device=`` takes, as a tuple."""
        return tuple(map(Device, self._backend.devices()))

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Return the default dtypes: "real floating", "complex floating", "integral", "indexing".

        Parameters
        ----------
        device : str, optional
            Of this namespace. Default: its default one.

        Returns
        -------
        dict
            The backend's own dtypes, except those that its library lacks. `set_default_dtype` changes the first two;
            they are in single precision if the device has no double precision.
        """
        _, full = self._whole(device)
        kinds = {"real floating": "float", "complex floating": "complex", "integral": "int", "indexing": "int"}
        return self._existing({name: self._backend.default_name(kind, full) for name, kind in kinds.items()})

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Any]:
        """Return the supported dtypes of the standard, by name.

        Parameters
        ----------
        device : str, optional
            Of this namespace. Default: its default one.
        kind : str or tuple of str, optional
            A kind as `isdtype` knows them, or several. Default: all.

        Returns
        -------
        dict
            The backend's own dtypes by the standard's names.

        Raises
        ------
        ValueError
            If the kind is unknown, or the device is another backend's.
        """
        native = self._native(device)
        library = self._library()
        names = dtypes.NAMES if library is None else tuple(library.dtypes(device=native))
        return self._existing({n: n for n in dtypes.NAMES if n in names and _is_of(n, kind)})

    def _existing(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Return the backend's dtypes with these names, except those that it lacks."""
        found = {}
        for key, name in names.items():
            with contextlib.suppress(TypeError):  # which raises that there is none
                found[key] = self._backend.dtype(name)
        return found

    def _native(self, device: Any) -> Any:
        """The library's form of a device of this namespace."""
        backend, full = self._whole(device)
        return backend.native_device(full)

    def _whole(self, device: Any) -> tuple[Backend, str]:
        """The backend, and the full name of a device of this namespace."""
        backend, full = (self._backend, self.default_device()) if device is None else manager.device_of(device)
        if backend is not self._backend:
            raise ValueError(f"{device!r} is no device of {self._backend.name}: {', '.join(self._backend.devices())}")
        return backend, full


def _is_of(name: str, kind: str | tuple[str, ...] | None) -> bool:
    return kind is None or data_type.isdtype(name, kind)


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
        vars(self).update({name: getattr(constants, name) for name in constants.__all__})
        for name, function in public_functions().items():
            setattr(self, name, self._own(name, function))
        for name in ("std", "var"):
            setattr(self, name, _with_ddof(vars(self)[name]))
        for name in ("all", "any"):
            setattr(self, name, _with_out(vars(self)[name]))
        for name, chapters in SUBNAMESPACES.items():
            setattr(self, name, _Chapter(self, name, chapters))

    def _own(self, name: str, function: Any) -> Any:
        """Return a function bound to this namespace: where no operand determines the backend or the dtypes, this one does."""
        known = WITHOUT_OP.get(name)
        if known is None:
            return function
        creates = known.facts.creates in ("here", "from data")
        return self._bind(function) if creates else self._bind_query(function) if known.facts.asks_backend else function

    def _bind(self, function: Any) -> Any:
        device = self._backend.default_device()

        @functools.wraps(function)
        def bound(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("device") is None and not (function is creation.asarray and self._is_at_home(args)):
                kwargs["device"] = device
            return function(*args, **kwargs)

        return bound

    def _is_at_home(self, args: tuple[Any, ...]) -> bool:
        """Return whether the argument of asarray stays on its device: a tensor, or an array of this backend."""
        if not args or isinstance(args[0], bool | int | float | complex | list | tuple | str):
            return False
        return isinstance(args[0], Tensor) or backend_of(args[0]) is self._backend

    def _bind_query(self, function: Any) -> Any:
        @functools.wraps(function)
        def bound(*args: Any) -> Any:
            with manager.use_backend(self._backend.name):
                return function(*args)

        return bound

    def _missing(self, name: str) -> Any:
        """Return the backend's dtypes and the user's own ops; a module's ``__getattr__``, so that the rest stays fast."""
        if name in dtypes.NAMES:
            native = self._backend.dtype(name)
            setattr(self, name, native)
            return native
        if name in OPS and "." not in name:
            return OPS[name].entry
        if any(op.startswith(f"{name}.") for op in OPS):  # for attributes of users
            return _Chapter(self, name, ())
        function = _numpys(name)
        if function is not None:
            setattr(self, name, function)
            return function
        raise AttributeError(f"namespace {self.__name__!r} has no attribute {name!r}")

    def __array_namespace_info__(self) -> Info:
        """Return the standard's inspection object."""
        return Info(self._backend)

    def __reduce__(self) -> tuple[Any, ...]:
        return manager.namespace, (self._backend.name,)

    def __repr__(self) -> str:
        return f"<namespace {self.__name__!r}>"


def _numpys(name: str) -> Any:
    """Return a function of NumPy on operands that the standard lacks; None for any other name."""
    if name.startswith("_"):
        return None
    from agrad.numpy.table import DIFFERENTIATED, STEP, NumpyModule, table  # noqa: PLC0415 (its files use all chapters)

    entry = table().get(name)
    if entry is None:
        return NumpyModule(name) if name == "lib" else None
    return entry.function if entry.status in (DIFFERENTIATED, STEP) else None


def _with_ddof(function: Any) -> Any:
    """A variance or deviation that takes NumPy's name of ``correction`` too."""

    @functools.wraps(function)
    def bound(x: Any, /, *, ddof: float | None = None, **options: Any) -> Any:
        return function(x, **options) if ddof is None else function(x, correction=ddof, **options)

    return bound


def _with_out(function: Any) -> Any:
    """Return a function that accepts NumPy's ``out=None``, which NumPy passes on to a library's methods."""

    @functools.wraps(function)
    def bound(x: Any, /, *, out: None = None, **options: Any) -> Any:
        return function(x, **options) if out is None else function(x, out=out, **options)

    return bound


class _Chapter:
    """A sub-namespace, as ``xp.linalg``: the public functions of its chapters, then every op whose name begins with the same prefix."""

    def __init__(self, parent: Namespace, name: str, chapters: tuple[ModuleType, ...]) -> None:
        self._name = name
        for chapter in chapters:
            for public in chapter.__all__:
                function = getattr(chapter, public)
                setattr(self, public, parent._own(f"{name}.{public}", function))

    def __getattr__(self, name: str) -> Any:
        op = OPS.get(f"{self._name}.{name}")
        if op is None:
            raise AttributeError(f"namespace {self._name!r} has no attribute {name!r}")
        setattr(self, name, op.entry)
        return op.entry


@shared
def bound(backend: Backend) -> Namespace:
    """Return the namespace of a backend."""
    return Namespace(backend)


functions_of.define(bound)


def namespace(name: str | None = None, *, api_version: str | None = None) -> Namespace:
    """Return agrad's functions bound to a backend.

    Parameters
    ----------
    name : str, optional
        The backend. Default: the one creation functions use.
    api_version : str, optional
        The desired version of the standard.

    Returns
    -------
    Namespace
        The same object at every call for a backend.

    Raises
    ------
    BackendError
        If the backend is unknown or unusable here.
    ValueError
        If the version is not known.

    Examples
    --------
    >>> import agrad as ag
    >>> xp = ag.namespace("numpy")
    >>> xp.ones(2)
    tensor([1., 1.])
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", API_VERSION):
        raise ValueError(f"unknown version of the array API standard: {api_version!r}; this is {API_VERSION}")
    return bound(manager.default_backend() if name is None else manager.usable(name))
