"""Ports: functions and methods declared in one file and defined in a higher one, because of what they call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Generic, ParamSpec, TypeVar

M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")


class Port(Generic[P, R]):
    """A function declared here and defined by a file in a higher layer, with `define`.

    The declaration has the signature and the documentation, and no body. ``PORTS`` in tests/test_house.py lists which file
    defines which port.

    Examples
    --------
    >>> @Port
    ... def area(radius: float) -> float:
    ...     '''Return the area of a square around a circle.'''
    >>> def area_of_square(radius):
    ...     return (2 * radius) ** 2
    >>> area.define(area_of_square)
    >>> area(1.5)
    9.0
    """

    _defined: Callable[P, R]

    def __init__(self, declared: Callable[P, R]) -> None:
        functools.update_wrapper(self, declared)

    def define(self, function: Callable[P, R]) -> None:
        """Set the function that the port calls."""
        self._defined = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._defined(*args, **kwargs)


def attaching_to(target: type) -> Callable[[type[M]], type[M]]:
    """Return a decorator that adds the members of a class to `target`: methods of a file in a higher layer."""

    def attached(methods: type[M]) -> type[M]:
        for name, member in vars(methods).items():
            if isinstance(member, FunctionType | property) and not name.startswith("__annotate"):  # added by Python
                if isinstance(member, FunctionType) and member.__name__ == name:
                    member.__qualname__ = f"{target.__name__}.{name}"  # Python names it in messages
                setattr(target, name, member)
        return methods

    return attached
