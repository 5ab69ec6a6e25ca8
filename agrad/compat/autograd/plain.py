"""Raw in, raw out, for NumPy's and SciPy's functions: of plain arrays, plain arrays come back, as in HIPS autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agrad.core import mode
from agrad.program.arguments import bare_all, is_raw


class Plain:
    """A function, or an object that is indexed, that gives what the array library would give, where none of its arguments is a tensor.

    Within a recording it gives tensors: what is made there belongs to the program.

    Parameters
    ----------
    function : callable or object
        What is called or indexed.
    """

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return _given(self._function(*args, **kwargs), *args, *kwargs.values())

    def __getitem__(self, key: Any) -> Any:
        return _given(self._function[key], key)

    def __getattr__(self, name: str) -> Any:
        return plain(getattr(self._function, name))

    def __repr__(self) -> str:
        return repr(self._function)


def _given(found: Any, *operands: Any) -> Any:
    # The number stands for the array that a function that makes one is not given.
    return bare_all(found) if is_raw(0, *operands) and mode.recorder() is None else found


@functools.cache
def _plain(function: Any) -> Plain:
    return Plain(function)


def plain(value: Any) -> Any:
    """Return a function, or an object that is indexed, as `Plain`; a class, a module or a number as it is."""
    if isinstance(value, type) or not (callable(value) or hasattr(value, "__getitem__")):
        return value
    return _plain(value)


def names_of(source: Any) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a module that has the names of another, or of an object, as `plain`."""
    return lambda name: plain(getattr(source, name)), lambda: dir(source)
