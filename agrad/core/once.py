"""Objects made at their first use: whichever threads come first, all of them get the same object."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")


def lock(*, waited_for: bool = False, undo: Callable[[], None] | None = None) -> threading._RLock:
    """Make a lock that is free in a forked child, whichever thread held it: that thread does not exist there.

    The thread that holds it may acquire it again: an interpreter may run any finalizer at any time.

    Parameters
    ----------
    waited_for : bool, optional
        A fork waits until no other thread holds it, because what it guards must not be left half done. Only for a lock
        that is held briefly, while nobody waits for anything.
    undo : callable, optional
        Called in a child to undo what another thread may have left half done.
    """
    made: Any = threading.RLock()

    def in_child() -> None:
        if undo is not None and not made._is_owned():
            undo()
        made._at_fork_reinit()

    if waited_for or undo is not None:  # Python keeps fork callbacks for ever, and such locks are few
        if hasattr(os, "register_at_fork"):  # not on every platform
            if waited_for:
                os.register_at_fork(before=made.acquire, after_in_parent=made.release)
            os.register_at_fork(after_in_child=in_child)
    else:
        key = id(made)
        _FREED[key] = weakref.ref(made, functools.partial(_FREED.pop, key))
    return made  # type: ignore[no-any-return]


#: By ``id``, weakly, the other locks, which live as long as what they guard.
_FREED: dict[int, weakref.ref[Any]] = {}


def _free_in_child() -> None:
    for kept in tuple(_FREED.values()):
        if (made := kept()) is not None:
            made._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_in_child)


#: Held while a unique object is made, such as code compiled into a function that others may be calling. An object left half
#: made, by an exception or in a forked child, is made again.
FIRST_USE = lock()


class once(functools.cached_property[T]):  # noqa: N801, TID251 (a decorator, like its base; not its lock)
    """A cached property whose value is one object for all threads.

    Two threads may both compute it; both get the value stored first (`dict.setdefault` is atomic), which
    `functools.cached_property` does not promise. It holds no lock, unlike `functools.cached_property` in Python 3.11, where a
    forked child would wait for ever.
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
    """Cache the result of a function by its arguments, as `functools.cache` does; one object for all threads."""
    known: dict[tuple[Any, ...], T] = {}

    @functools.wraps(function)
    def get(*args: Any) -> T:
        found = known.get(args)
        return known.setdefault(args, function(*args)) if found is None else found

    return get
