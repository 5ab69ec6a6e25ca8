"""Where a function finds the values it uses beside its arguments: closure cells, globals, attributes, members of containers.

An `AccessPath` is a path to such a value, from a root. Followed again at a later call, it leads to the current value.
"""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agrad.core.backend import BACKENDS, PYTHONS_OWN
from agrad.core.errors import PACKAGE, called
from agrad.core.tensor import Tensor
from agrad.core.tree import TreeDef

#: The number of objects that a search looks at before it gives up.
ENOUGH = 200_000

#: Containers with more entries are data, whose members are not state.
ENTRIES = 64

#: Longer names of paths are cut in the middle.
LONGEST = 200


class FunctionalState(NamedTuple):
    """The tensors that modules hold for a running call of `functional_call`.

    Attributes
    ----------
    values, held : mapping of str to Tensor
        By name: for the call, and the module's own.
    places : mapping of str to (dict, str)
        Where the modules hold them: the table, and the name in it.
    restoring : iterator
        Restores the modules' own tensors when run.
    """

    values: Mapping[str, Tensor]
    held: Mapping[str, Tensor]
    places: Mapping[str, tuple[dict[str, Any], str]]
    restoring: Iterator[None]


#: By ``id``, outermost first.
FUNCTIONAL_STATE: dict[int, FunctionalState] = {}

#: One step of a path: its kind, and its key.
Way = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class AccessPath:
    """A path from a root to a value.

    Attributes
    ----------
    root : object
        The root: the function, or one of its arguments.
    way : tuple of (str, object)
        Each step: "cell" (a closure's, by number), "global" (by name), "attribute" (by name), "item" (by key), "member" (of
        a class, by name), "hook" (of a tensor, by kind and key), "content" (a cell's, with its name), "called" (a weak
        reference) or "cached" (by the arguments of a cached function).
    """

    root: Any
    way: Way

    def find(self) -> Any:
        """Return the current value at the end of the path.

        Raises
        ------
        LookupError
            If the path no longer leads to a value.
        """
        found = self.root
        try:
            for kind, key in self.way:
                found = FOLLOW[kind](found, key)
        except (AttributeError, LookupError, ValueError, TypeError, StopIteration) as error:
            raise LookupError(f"{self} no longer exists") from error
        return found

    def __str__(self) -> str:
        return functools.reduce(one_further, self.way, "")


def one_further(text: str, step: tuple[str, Any]) -> str:
    """Return how Python spells a path that goes one step further than `text`."""
    kind, key = step
    if kind == "cell":
        return str(key[1])
    if kind in ("global", "content"):
        return str(key)
    if kind in ("called", "cached"):
        return f"{text}()"
    if kind in ("attribute", "member"):
        text = f"{text}.{key}" if text else str(key)
    elif kind == "hook":
        text = f"a hook on {text}"
    else:
        # the keys of an optimizer's state are tensors, whose values would fill the screen
        shown = (
            f"tensor of shape {key.shape}"
            if isinstance(key, Tensor)
            else repr(key)
            if _is_text(key)
            else f"a {type(key).__name__}"
        )
        text = f"{text}[{shown}]" if text else str(key) if isinstance(key, str) else shown
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}...{text[-LONGEST // 2 + 3 :]}"


def _is_text(key: Any) -> bool:
    """Return whether Python itself, and not the user's code, creates the text of a key."""
    return type(key).__module__ == "builtins" and (type(key) is not tuple or all(map(_is_text, key)))


@dataclass(frozen=True)
class Argument:
    """An object found among the arguments.

    Attributes
    ----------
    place : int
        Among their leaves.
    """

    place: int

    def __str__(self) -> str:
        return f"argument {self.place}"


def target_of(place: AccessPath | Argument, leaves: Sequence[Any]) -> Any:
    """Return the current value at a place, for a call with these leaves of arguments."""
    return leaves[place.place] if isinstance(place, Argument) else place.find()


#: How to take each kind of step.
FOLLOW: Mapping[str, Callable[[Any, Any], Any]] = {
    "cell": lambda function, key: function.__closure__[key[0]].cell_contents,
    "global": lambda function, name: function.__globals__[name],
    "attribute": getattr,
    "item": lambda container, key: container[key],
    "member": lambda kind, name: next(vars(each)[name] for each in kind.__mro__ if name in vars(each)),
    "hook": lambda tensor, key: getattr(tensor._node.hooks, key[0])[key[1]],
    "content": lambda cell, _: cell.cell_contents,
    "called": lambda reference, _: reference(),
    "cached": lambda function, key: function(*key[0], **dict(key[1])),
}


class Found:
    """A value that a search has reached.

    Attributes
    ----------
    value : object
        The value.
    before : Found or None
        The value that leads to it; None for a root.
    step : tuple of (str, object)
        How.
    """

    __slots__ = ("before", "step", "value")

    def __init__(self, value: Any, before: Found | None = None, step: tuple[str, Any] = ("", None)) -> None:
        self.value: Any = value
        self.before: Found | None = before
        self.step: tuple[str, Any] = step

    def chain(self) -> list[Found]:
        """Return the path from the root (exclusive) to this value."""
        found: list[Found] = []
        at = self
        while at.before is not None:
            found.append(at)
            at = at.before
        return found[::-1]

    @property
    def origin(self) -> AccessPath:
        """The path to it."""
        chain = self.chain()
        root = chain[0].before.value if chain and chain[0].before else self.value
        return AccessPath(root, tuple(at.step for at in chain))


def search(
    roots: Sequence[Any], wanted: Callable[[Any], bool], *, skip: Callable[[Any], bool] = lambda _: False
) -> Iterator[Found]:
    """Return the values that functions and objects lead to, nearest first.

    Parameters
    ----------
    roots : sequence
        Where to begin.
    wanted : callable
        Whether to return a value.
    skip : callable, optional
        Whether not to look into a value.
    """
    found = walk(map(Found, roots), set(), lambda at: None if skip(at.value) else steps_from(at))
    return (at for at in found if wanted(at.value))


def walk(starts: Iterable[Found], seen: set[int], look: Callable[[Found], Iterable[Found] | None]) -> Iterator[Found]:
    """Return the values reached from some starting points, nearest first.

    Parameters
    ----------
    starts : iterable of Found
        Where to begin.
    seen : set of int
        The ``id`` of values already visited, to which this search adds.
    look : callable
        Returns the values that a value leads to; None to skip it.
    """
    queue = deque(starts)
    kept: list[Found] = []  # so that no id is reused
    while queue and len(seen) < ENOUGH:
        at = queue.popleft()
        yield at
        if is_alone(at.value) or id(at.value) in seen:
            continue
        found = look(at)
        if found is not None:
            seen.add(id(at.value))
            kept.append(at)
            queue.extend(found)


def steps_from(at: Found, *, alone: bool = True) -> Iterator[Found]:
    """Return the values that a value leads to in one step; `alone`: including those that lead nowhere."""
    steps = members(at.value, is_root=at.before is None)
    return (Found(value, at, step) for step, value in steps if alone or not is_alone(value))


def is_alone(value: Any) -> bool:
    """Return whether a value leads nowhere, as a number."""
    return type(value) in PYTHONS_OWN and not isinstance(value, list | tuple)


def is_large(value: Any) -> bool:
    """Return whether a value is data, whose members are not state."""
    return isinstance(value, list | tuple | dict) and len(value) > ENTRIES


class Reach:
    """The values that functions and objects lead to; each value is visited once, as far as requested.

    A model and the values it uses are near. Data, such as a table that the function has a name for, are searched only
    where they were read, or if something is missing.

    Parameters
    ----------
    roots : sequence
        Where to begin.
    is_data : callable, optional
        Which values count as data. Default: containers of many entries.
    """

    def __init__(self, roots: Sequence[Any], is_data: Callable[[Any], bool] = is_large) -> None:
        self._data: list[Found] = []
        self._seen: set[int] = set()

        def look(at: Found) -> Iterator[Found] | None:
            if not is_data(at.value):
                return steps_from(at)
            self._data.append(at)
            return None

        self._near: list[Found] = []
        self._more = walk(map(Found, roots), self._seen, look)

    @property
    def near(self) -> list[Found]:
        """The values that they lead to without going through data, nearest first."""
        self._near += self._more
        return self._near

    @property
    def data(self) -> list[Found]:
        """The data that they lead to."""
        self._near += self._more
        return self._data

    def __iter__(self) -> Iterator[Found]:
        """Return all values, nearest first; if some are still missing, also those in all data."""
        yield from self._near
        for found in self._more:
            self._near.append(found)
            yield found
        yield from walk(self._data, {*self._seen}, functools.partial(steps_from, alone=False))

    def looked_at(self) -> Iterator[Found]:
        """Return the near values."""
        return iter(self.near)


def refuse_captured(root: Any, target: Tensor, what: str, mapped: bool) -> None:
    """Raise if a function that is being transformed writes a value of the transform to an outer tensor.

    Parameters
    ----------
    root : object
        The function, or its owner: an outer tensor is one that it leads to.
    target : Tensor
        The tensor to be written to.
    what : str
        The spelling of the write, for messages.
    mapped : bool
        Whether the value belongs to a batch and the tensor does not.

    Raises
    ------
    RuntimeError
        If `root` leads to `target`, other than through a module that only holds it for a call of `functional_call`.
    """
    lent = {
        id(places[name][0])
        for values, held, places, _ in list(FUNCTIONAL_STATE.values())
        for name, value in values.items()
        if value is target and held[name] is not target
    }

    def skip(value: Any) -> bool:
        if isinstance(value, types.ModuleType):  # long tables, and other data that programs do not write to
            return is_library(getattr(value, "__file__", None) or value.__name__)
        return isinstance(value, TreeDef) or id(getattr(value, "__dict__", None)) in lent

    found = next(search([root], lambda value: value is target, skip=skip), None)
    if found is None:
        return
    if mapped:
        raise RuntimeError(
            "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in"
            " extra_args that has more elements than `self`. This happened due to `other` being vmapped over but `self` not"
            f" being vmapped over in a vmap.\n  {what} would leave a value of the batch in a tensor from outside,"
            f" {found.origin}. Work on a copy made inside (t = t.clone()) and return it, or give the tensor as a mapped"
            " argument. BatchNorm in training mode writes to its running statistics: call eval(), build it with"
            " track_running_stats=False, use GroupNorm, or give functional_call() copies of the buffers that are made inside."
            f"{called()}"
        )
    raise RuntimeError(
        f"During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation ({what})"
        " that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to"
        f" explicitly accept the mutated Tensor(s) as inputs.\n  {found.origin} is from outside, and would get a value with"
        " the history of this transform. Work on a copy made inside (t = t.clone()) and return it (has_aux=True), or write"
        f" the value without its history, under no_grad().{called()}"
    )


def members(value: Any, *, is_root: bool = False) -> Iterator[tuple[tuple[str, Any], Any]]:
    """Return the values that an object leads to in one step, with the step.

    For functions and classes of installed packages, including agrad, only closures are searched: everything else they
    use is their own, and assumed to be constant.
    """
    if isinstance(value, types.FunctionType):
        for i, name in enumerate(value.__code__.co_freevars):
            try:
                yield ("cell", (i, name)), value.__closure__[i].cell_contents  # type: ignore[index]
            except ValueError:  # not filled yet
                continue
        if is_library(value.__code__.co_filename) and not is_root:
            return
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
    elif isinstance(value, staticmethod | classmethod):
        yield ("attribute", "__func__"), value.__func__
    elif isinstance(value, property):
        yield ("attribute", "fget"), value.fget
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
        hooks = None if value._node is None else value._node.hooks
        for table in () if hooks is None else ("tensor", "pre", "post", "accumulated"):
            yield from ((("hook", (table, key)), hook) for key, hook in list(getattr(hooks, table).items()))
    elif isinstance(value, types.ModuleType):
        own = not is_library(getattr(value, "__file__", None) or value.__name__)
        for name, inside in list(vars(value).items()):
            if isinstance(inside, Tensor) or type(inside) in BACKENDS or (own and not name.startswith("__")):
                yield ("attribute", name), inside
    elif isinstance(value, type):
        seen: set[str] = set()  # members of a class hide those of its bases
        for kind in value.__mro__:
            for name, inside in list(vars(kind).items()):
                if name not in seen and is_own(kind) and (name[:2] != "__" or isinstance(inside, types.FunctionType)):
                    yield ("member", name), inside
            seen.update(vars(kind))
    elif type(value) in BACKENDS or isinstance(value, types.CodeType):
        return
    else:
        names = getattr(type(value), "_leads_to", None)  # its other members are its own
        if names is not None:
            yield from ((("attribute", name), getattr(value, name)) for name in names)
            return
        for name, inside in list(getattr(value, "__dict__", {}).items()):
            yield ("attribute", name), inside
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    yield ("attribute", name), getattr(value, name)
        if any(map(is_own, type(value).__mro__)):
            yield ("attribute", "__class__"), type(value)


@functools.cache
def packages() -> tuple[str, ...]:
    """Return the prefixes of the files of installed packages, including Python and agrad."""
    paths = sysconfig.get_paths()
    places = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    # An environment may use the system's packages, or the user's (``pip install --user``).
    places |= {*site.getsitepackages(), site.getusersitepackages()}
    places -= {sys.prefix, sys.exec_prefix, sys.base_prefix}  # Windows has these among them: programs may lie there
    installed = (os.path.join(place, "") for place in sorted(places))
    return (*installed, PACKAGE, "<frozen", "<agrad")  # agrad generates the last one


@functools.cache
def is_library(file: str) -> bool:
    """Return whether a file of code belongs to an installed package."""
    return file.startswith(packages())


def is_own(kind: type) -> bool:
    """Return whether a class does not belong to an installed package."""
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return kind.__module__ == "__main__" or (file is not None and not is_library(file))


@functools.cache
def globals_of(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function may look up in its module, including those of nested functions."""
    inside = (globals_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(code.co_names).union(*inside)
