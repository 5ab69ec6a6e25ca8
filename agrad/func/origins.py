"""Where a function finds what it uses beside its arguments: closure cells, globals, attributes, members of containers.

An `Origin` is such a way, from a root on. Followed again at a later call it leads to what is there then.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agrad.core.backend import BACKENDS, PYTHONS_OWN
from agrad.core.tensor import Tensor

#: How many objects are looked at before a search gives up.
ENOUGH = 200_000

#: One step of a way: how ("cell", "global", "attribute", "item"), and which.
Way = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Origin:
    """A way from a root to a value.

    Attributes
    ----------
    root : object
        Where it begins: the function, or one of its arguments.
    way : tuple of (str, object)
        Each step: "cell" (a closure's, by number), "global" (by name), "attribute" (by name), "item" (by key).
    """

    root: Any
    way: Way

    def find(self) -> Any:
        """Return what is there now.

        Raises
        ------
        LookupError
            If the way leads nowhere any more.
        """
        found = self.root
        try:
            for kind, key in self.way:
                found = FOLLOW[kind](found, key)
        except (AttributeError, KeyError, IndexError, ValueError, TypeError) as error:
            raise LookupError(f"{self} is not there any more") from error
        return found

    def __str__(self) -> str:
        text = ""
        for kind, key in self.way:
            if kind == "cell":
                text = key[1]
            elif kind == "global":
                text = str(key)
            elif kind == "attribute":
                text = f"{text}.{key}" if text else str(key)
            else:
                # an optimizer's state has tensors as its keys: their values would fill the screen
                shown = f"tensor of shape {key.shape}" if isinstance(key, Tensor) else repr(key)
                text = f"{text}[{shown}]" if text else shown
        return text


@dataclass(frozen=True)
class Argument:
    """What is found among the arguments.

    Attributes
    ----------
    place : int
        Among their leaves.
    """

    place: int

    def __str__(self) -> str:
        return f"argument {self.place}"


def target_of(place: Origin | Argument, leaves: Sequence[Any]) -> Any:
    """Return what is at a place now, for a call with these leaves of arguments."""
    return leaves[place.place] if isinstance(place, Argument) else place.find()


#: How each kind of step is taken.
FOLLOW: Mapping[str, Callable[[Any, Any], Any]] = {
    "cell": lambda function, key: function.__closure__[key[0]].cell_contents,
    "global": lambda function, name: function.__globals__[name],
    "attribute": getattr,
    "item": lambda container, key: container[key],
}


class Found:
    """A value that a search has come to.

    Attributes
    ----------
    value : object
        The value.
    before : Found or None
        What leads to it; None for a root.
    step : tuple of (str, object)
        How.
    """

    __slots__ = ("before", "step", "value")

    def __init__(self, value: Any, before: Found | None = None, step: tuple[str, Any] = ("", None)) -> None:
        self.value, self.before, self.step = value, before, step

    def chain(self) -> list[Found]:
        """Return the way from the root, which it leaves out, to here."""
        found: list[Found] = []
        at = self
        while at.before is not None:
            found.append(at)
            at = at.before
        return found[::-1]

    @property
    def origin(self) -> Origin:
        """The way to it."""
        chain = self.chain()
        root = chain[0].before.value if chain and chain[0].before else self.value
        return Origin(root, tuple(at.step for at in chain))


def search(
    roots: Sequence[Any], wanted: Callable[[Any], bool], *, skip: Callable[[Any], bool] = lambda _: False
) -> Iterator[Found]:
    """Return what functions and objects lead to, nearest first.

    Parameters
    ----------
    roots : sequence
        Where to begin.
    wanted : callable
        Whether to give a value.
    skip : callable, optional
        Whether not to look into a value.
    """
    seen: set[int] = set()
    queue = deque(map(Found, roots))
    kept: list[Found] = []  # so that no id is given again
    while queue and len(seen) < ENOUGH:
        at = queue.popleft()
        value = at.value
        if wanted(value):
            yield at
        if type(value) in PYTHONS_OWN and not isinstance(value, list | tuple):
            continue
        if id(value) in seen or skip(value):
            continue
        seen.add(id(value))
        kept.append(at)
        queue.extend(Found(inside, at, step) for step, inside in members(value))


def members(value: Any) -> Iterator[tuple[tuple[str, Any], Any]]:
    """Return what an object leads to in one step, with the step."""
    if isinstance(value, types.FunctionType):
        for i, name in enumerate(value.__code__.co_freevars):
            try:
                yield ("cell", (i, name)), value.__closure__[i].cell_contents  # type: ignore[index]
            except ValueError:  # not filled yet
                continue
        for name in sorted(globals_of(value.__code__)):
            if name in value.__globals__:
                yield ("global", name), value.__globals__[name]
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(value, name):
                yield ("attribute", name), getattr(value, name)
        yield from ((("attribute", name), inside) for name, inside in vars(value).items())
    elif isinstance(value, types.MethodType):
        yield ("attribute", "__func__"), value.__func__
        yield ("attribute", "__self__"), value.__self__
    elif isinstance(value, functools.partial):
        for name in ("func", "args", "keywords"):
            yield ("attribute", name), getattr(value, name)
    elif isinstance(value, dict):
        yield from ((("item", key), inside) for key, inside in list(value.items()))
    elif isinstance(value, list | tuple):
        if len(value) > ENOUGH:
            return
        yield from ((("item", i), inside) for i, inside in enumerate(value))
    elif isinstance(value, Tensor):
        if value.is_leaf and value.grad is not None:
            yield ("attribute", "grad"), value.grad
    elif isinstance(value, types.ModuleType):  # a module of parameters; what else it has, functions name themselves
        for name, inside in list(vars(value).items()):
            if isinstance(inside, Tensor) or type(inside) in BACKENDS:
                yield ("attribute", name), inside
    elif type(value) in BACKENDS or isinstance(value, type | types.CodeType):
        return
    else:
        for name, inside in list(getattr(value, "__dict__", {}).items()):
            yield ("attribute", name), inside
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    yield ("attribute", name), getattr(value, name)
        call = next((vars(kind)["__call__"] for kind in type(value).__mro__ if "__call__" in vars(kind)), None)
        if isinstance(call, types.FunctionType):
            yield ("attribute", "__call__"), types.MethodType(call, value)


@functools.cache
def globals_of(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function may look up in its module, those of functions in it included."""
    inside = (globals_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(code.co_names).union(*inside)
