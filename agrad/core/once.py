"""What is made at its first use: whichever threads come first, all of them get the same object."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

#: Held while something is made that exists once, as code compiled into a function that others may be calling. An
#: interpreter may run any finalizer at any time, so the lock can be taken again by the thread that has it.
FIRST_USE = threading.RLock()


class once(functools.cached_property[T]):  # noqa: N801 (a decorator, like its base)
    """A cached property whose value is one object for all threads.

    Two threads may both compute it; what the first has stored is what both get (`dict.setdefault` is atomic), which
    `functools.cached_property` does not promise.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> once[T] | T:
        if instance is None:
            return self
        assert self.attrname is not None
        found: T = instance.__dict__.setdefault(self.attrname, self.func(instance))
        return found


def shared(function: Callable[..., T]) -> Callable[..., T]:
    """Keep what a function gives, by its arguments, as `functools.cache` does; one object for all threads."""
    known: dict[tuple[Any, ...], T] = {}

    @functools.wraps(function)
    def get(*args: Any) -> T:
        found = known.get(args)
        return known.setdefault(args, function(*args)) if found is None else found

    return get
