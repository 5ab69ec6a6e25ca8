"""Ports: functions that a file declares and calls, and methods, that a file above it defines, because of what they call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Generic, ParamSpec, TypeVar

M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")


class Port(Generic[P, R]):
    """A function that is declared here and defined in a file that ranks above, by its `define`.

    The declaration has the signature and the documentation, and no body. Which file defines which port stands in
    ``PORTS`` of tests/test_house.py.

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
        """Say which function it is."""
        self._defined = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._defined(*args, **kwargs)


def attaching_to(target: type) -> Callable[[type[M]], type[M]]:
    """Return a decorator that puts the members of a class on `target`: methods whose file ranks above that one's."""

    def attached(methods: type[M]) -> type[M]:
        for name, member in vars(methods).items():
            if isinstance(member, FunctionType | property) and not name.startswith("__annotate"):  # Python's own
                if isinstance(member, FunctionType) and member.__name__ == name:
                    member.__qualname__ = f"{target.__name__}.{name}"  # Python names it in messages
                setattr(target, name, member)
        return methods

    return attached
