"""The table of NumPy's public functions: each name, its status, and its implementation.

Four entry points lead here: ``np.sum(tensor)`` (``__array_function__`` and ``__array_ufunc__``), ``import agrad.numpy as np``,
ndarray's methods on tensors, and the namespaces bound to a backend. The chapters fill the table when the first name is
requested; NumPy itself is not imported.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from agrad.ops.docs import referring

F = TypeVar("F", bound=Callable[..., Any])

#: The status of a function with respect to derivatives.
DIFFERENTIATED = "differentiated"
STEP = "piecewise constant"
CREATION = "creation"
EFFECT = "done to files and settings"
REFUSED = "refused"
LIBRARY = "the array library's own"

#: The files that fill the table, one per chapter of NumPy's reference.
CHAPTERS = (
    "ufuncs", "elements", "reductions", "shaping", "joining", "searching", "making", "products", "numerics", "linalg",
    "fft", "calling", "queries", "refusals",
)  # fmt: skip

#: Chapters whose functions belong to the NumPy module of that name.
ROOMS = ("fft", "linalg")


class NumpyName(NamedTuple):
    """One NumPy name."""

    name: str
    status: str
    function: Any


_entries: dict[str, NumpyName] = {}


def public(*names: str, status: str = DIFFERENTIATED) -> Callable[[F], F]:
    """Enter a function into the table, under its own name or the given ones.

    Parameters
    ----------
    *names : str
        NumPy's names, without the module that the chapter corresponds to. Default: the function's own.
    status : str, optional
        Its status with respect to derivatives.
    """

    def entered(function: F) -> F:
        chapter = function.__module__.rpartition(".")[2]
        room = f"{chapter}." if chapter in ROOMS else ""
        for name in names or (function.__name__,):
            enter(f"{room}{name}", function, status)
        first = f"numpy.{room}{(names or (function.__name__,))[0]}"
        text = f"As ``{first}``." if function.__doc__ is None else f"As ``{first}``. {function.__doc__}"
        referring(function, text, first)
        return function

    return entered


def enter(name: str, function: Any, status: str) -> None:
    """Enter an object that is not a Python function into the table."""
    _entries[name] = NumpyName(name, status, function)


@functools.cache
def table() -> dict[str, NumpyName]:
    """Return the whole table, by NumPy's names without the leading ``numpy.``."""
    for chapter in CHAPTERS:
        importlib.import_module(f"agrad.numpy.{chapter}")
    return _entries


def names_in(room: str) -> list[str]:
    """Return the names in one of NumPy's modules, as ``linalg``."""
    return [name.removeprefix(f"{room}.") for name in table() if name.startswith(f"{room}.")]


def name_of(function: Any) -> str:
    """Return the table's name of a NumPy function, from its module and its own name."""
    room = function.__module__.removeprefix("numpy").lstrip(".")
    name: str = function.__name__
    return f"{room}.{name}" if room else name


class NumpyModule:
    """A NumPy module of which the table has only a few names, as ``lib.stride_tricks``.

    Parameters
    ----------
    name : str
        Its name, without the leading ``numpy.``.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        full = f"{self._name}.{name}"
        if full in table():
            return table()[full].function
        if any(known.startswith(f"{full}.") for known in table()):
            return NumpyModule(full)
        raise AttributeError(f"module 'numpy.{self._name}' has no attribute {name!r} for tensors")
