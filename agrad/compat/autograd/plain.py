"""Raw in, raw out, for NumPy's and SciPy's functions: plain arrays give plain arrays, as in HIPS autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import EllipsisType, NoneType
from typing import Any, Final

from agrad import dtypes
from agrad.core import mode
from agrad.plugin import manager
from agrad.program.arguments import NUMBERS, bare_all, is_raw

# looked up once
get_mode: Final = mode.get_mode
transforming: Final = mode.transforming.get
choice: Final = manager.choice


class PlainFunction:
    """A function, or an object that is indexed, that returns what the array library would if none of its arguments is a tensor.

    Within a recording it returns tensors: its results belong to the program.

    Parameters
    ----------
    function : callable or object
        The object to call or index.
    own : callable or object, optional
        NumPy's own, which is used if only NumPy arrays are involved.
    """

    def __init__(self, function: Any, own: Any = None) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._own = own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self._own is not None and _is_numpys(args) and (not kwargs or _is_numpys(kwargs.values())):
            return self._own(*args, **kwargs)
        return _given(self._function(*args, **kwargs), *args, *kwargs.values())

    def __getitem__(self, key: Any) -> Any:
        if self._own is not None and _is_numpys((key,)):
            return self._own[key]
        return _given(self._function[key], key)

    def __getattr__(self, name: str) -> Any:
        return plain(getattr(self._function, name), getattr(self._own, name, None))

    def __repr__(self) -> str:
        return repr(self._function)


def _given(found: Any, *operands: Any) -> Any:
    # The number replaces the missing array argument of a creation function.
    return bare_all(found) if is_raw(0, *operands) and mode.recorder() is None else found


# -- NumPy's own --------------------------------------------------------------------------------------------------------


def _is_numpys(values: Iterable[Any]) -> bool:
    """Return whether a call only concerns NumPy: its arguments are NumPy's or Python's, and no mode is active.

    NumPy's functions cost a fraction of the detour through tensors.
    """
    if get_mode() is not None or transforming() is not None:
        return False
    if dtypes.get_default_dtype() is not dtypes.float64 or not _makes_numpys(choice()):
        return False
    array, numbers, options = _kinds()
    for x in values:
        kind = type(x)
        if kind is array:
            if x.dtype.hasobject:  # which may hold tensors
                return False
        elif kind is list or kind is tuple:
            if not _is_of_numbers(x, array, numbers, 8):
                return False
        elif kind not in numbers and kind not in options:
            return False
    return True


def _is_of_numbers(values: Iterable[Any], array: type, numbers: frozenset[Any], depth: int) -> bool:
    """Return whether a list holds numbers and arrays of them, or such lists: None and strings make arrays of objects."""
    for x in values:
        kind = type(x)
        if kind is array:
            if x.dtype.hasobject:
                return False
        elif kind is list or kind is tuple:
            if not depth or not _is_of_numbers(x, array, numbers, depth - 1):
                return False
        elif kind not in numbers:
            return False
    return True


@functools.cache
def _kinds() -> tuple[type, frozenset[Any], frozenset[Any]]:
    """Return the class of NumPy's arrays, the classes of their elements and of values in lists with them, and those of options."""
    numpy = manager.usable("numpy").module("numpy")
    numbers = [kind for kind in numpy.ScalarType if issubclass(kind, NUMBERS | numpy.number | numpy.bool_)]
    of_dtypes = [type(numpy.dtype(kind)) for kind in numbers]
    return numpy.ndarray, frozenset([*numbers, slice, EllipsisType]), frozenset([*of_dtypes, NoneType, str, type])


@functools.lru_cache(maxsize=16)
def _makes_numpys(_: Any) -> bool:
    """Return whether creation functions create NumPy arrays, for the current choice of the backend."""
    return manager.default_backend() is manager.usable("numpy")


# -- wrapping -----------------------------------------------------------------------------------------------------------


@functools.cache
def _plain(function: Any, own: Any) -> PlainFunction:
    return PlainFunction(function, own)


def plain(value: Any, own: Any = None) -> Any:
    """Return a function, or an object that is indexed, as `PlainFunction`; a class, a module or a number unchanged."""
    if isinstance(value, type) or not (callable(value) or hasattr(value, "__getitem__")):
        return value
    return _plain(value, own)


def names_of(
    source: Any, own: Any = None, differing: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a module that has the names of another module or object, as `plain`.

    `own` is the NumPy module with functions of these names, which behave the same except for those in `differing`.
    """
    known: dict[str, PlainFunction] = {}

    def find(name: str) -> Any:
        found = known.get(name)
        if found is None:
            found = plain(getattr(source, name), None if name in differing else getattr(own, name, None))
            if isinstance(found, PlainFunction):  # an error class may differ between backends
                known[name] = found
        return found

    return find, lambda: dir(source)
