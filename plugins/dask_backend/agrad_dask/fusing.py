"""Several tasks as one, whose order is worked out once: depth first, and each value is let go after its last use.

A task that Dask fused costs as much again as the scheduler takes for it, because Dask puts the tasks in it in order every
time it runs. Plain data: nothing here computes but `Program`.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef

from agrad_dask.staging import Graph

#: Neighbouring chunks share a task while they have at most this many bytes together; the task reads them in turn.
GROUP_BYTES = 2**24
#: Tasks are made smaller than that where there would be fewer than about this many to share out.
GROUPS = 32
#: Tasks are made larger where there would be more than about this many: Dask's scheduler takes 50 to 100 us for each.
TASKS = 100_000

#: What is done, under which key its value is held, and the keys of what it needs.
Do = tuple[Any, Any, tuple[Any, ...]]


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Make many objects that stay without looking for garbage among them, which takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Steps that run one after another.

    Attributes
    ----------
    given : tuple of (key, key, int or None)
        What the steps need from outside: under which key they know it, under which it is handed in, and which of
        several results it is.
    steps : tuple of (task, key, tuple of keys, tuple of keys)
        Each step, and what nobody needs after it.
    results : tuple of keys
        What is handed out: the value, or a tuple if there are several.
    """

    given: tuple[tuple[Any, Any, int | None], ...]
    steps: tuple[tuple[Any, Any, tuple[Any, ...], tuple[Any, ...]], ...]
    results: tuple[Any, ...]

    def __call__(self, values: Mapping[Any, Any]) -> Any:
        return self.run({key: values[outer] if i is None else values[outer][i] for key, outer, i in self.given})

    def run(self, held: dict[Any, Any]) -> Any:
        """Run with what is given under the keys of the steps; whatever nobody needs any more is deleted there."""
        for task, key, needs, done in self.steps:
            if type(task) is Place:
                held.update(task(held))
            elif isinstance(task, GraphNode):
                held[key] = task({need: held[need] for need in needs})
            else:
                held[key] = task(held)
            for other in done:
                del held[other]
        return held[self.results[0]] if len(self.results) == 1 else tuple(held[key] for key in self.results)

    def __dask_tokenize__(self) -> str:
        return str(id(self))  # its task has a key of its own: a cluster's client would look through all contents

    @property
    def outer(self) -> tuple[Any, ...]:
        """The keys of the tasks that hand something in."""
        return tuple(dict.fromkeys(outer for _, outer, _ in self.given))

    def task(self, key: Any) -> Task:
        """Return the task that runs it."""
        return Task(key, _run, self, self.outer, *map(TaskRef, self.outer))


def _run(program: Program, keys: tuple[Any, ...], *values: Any) -> Any:
    return program(dict(zip(keys, values, strict=True)))


class Call:
    """A task that does what Dask's does, with half of what that takes beside the work: it looks its operands up, no more."""

    __slots__ = "args", "function", "key", "kwargs"

    def __init__(self, task: Task) -> None:
        self.key, self.function, self.kwargs = task.key, task.func, task.kwargs
        self.args = tuple(
            (True, a.key) if type(a) is TaskRef else (False, a.value if isinstance(a, DataNode) else a)
            for a in task.args
        )

    def __call__(self, values: Mapping[Any, Any]) -> Any:
        return self.function(*[values[a] if given else a for given, a in self.args], **self.kwargs)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A program that runs at many places alike, at one of them.

    Attributes
    ----------
    number : int
        Of the place.
    names : tuple of (name, key)
        As what the program knows each value that it is given there.
    own : dict
        What it is given there alone, by name.
    keys : tuple
        Of its results.
    """

    program: Program
    number: int
    names: tuple[tuple[Any, Any], ...]
    own: dict[Any, Any]
    keys: tuple[Any, ...]

    def __call__(self, values: Mapping[Any, Any]) -> dict[Any, Any]:
        made = self.program.run({name: values[key] for name, key in self.names} | self.own)
        return dict(zip(self.keys, made if len(self.keys) > 1 else (made,), strict=True))

    def __reduce__(self) -> Any:
        return _place, (self.program, self.number, self.names, self.own, self.keys)


class Pattern(NamedTuple):
    """A program that runs at many places alike.

    Attributes
    ----------
    blocks : sequence of (name, callable)
        As what the program knows each value that it is given, and what gives its key by the number of a place.
    shared : tuple of (name, key)
        The same for what all places are given.
    own : mapping of name to callable
        What is given at one place alone, by its number.
    results : sequence of callable
        What gives the keys of the results.
    """

    program: Program
    blocks: Sequence[tuple[Any, Callable[[int], Any]]]
    shared: tuple[tuple[Any, Any], ...]
    own: Mapping[Any, Callable[[int], Any]]
    results: Sequence[Callable[[int], Any]]

    def __call__(self, i: int) -> Do:
        """Return what is done at a place."""
        names = (*((name, key(i)) for name, key in self.blocks), *self.shared)
        own = {name: value(i) for name, value in self.own.items()}
        place = Place(self.program, i, names, own, tuple(key(i) for key in self.results))
        return place, None, tuple(key for _, key in names)

    def needs(self, i: int) -> list[Any]:
        """Return the keys of what is handed in at a place."""
        return [key(i) for _, key in self.blocks] + [key for _, key in self.shared]


def _place(program: Program, number: int, names: tuple[tuple[Any, Any], ...], own: dict[Any, Any], keys: Any) -> Place:
    """Return a place that was sent."""
    return Place(program, number, names, {name: aligned(value) for name, value in own.items()}, keys)


def aligned(value: Any) -> Any:
    """Return what was sent with its items where a processor likes them: see `computing._OnWorker`."""
    if isinstance(value, np.ndarray) and not value.flags.aligned:
        return value.copy(order="K")
    if type(value) is tuple:  # what a task of several results gives
        return tuple(map(aligned, value))
    if type(value) is dict:  # the tasks in a fused one, data among them
        return {k: DataNode(k, aligned(v.value)) if isinstance(v, DataNode) else v for k, v in value.items()}
    return value


def program_of(
    steps: Sequence[Do],
    results: tuple[Any, ...],
    places: Mapping[Any, tuple[Any, int | None]],
) -> Program:
    """Return the program of some steps, in this order.

    Parameters
    ----------
    results : tuple of keys
        Whose values others need.
    places : mapping
        Where what they need from outside is handed in under another key: that key, and which of several results it is.
    """
    made: set[Any] = set()
    given: dict[Any, tuple[Any, Any, int | None]] = {}
    last: dict[Any, int] = {}
    for at, (task, key, needs) in enumerate(steps):
        for need in needs:
            last[need] = at
            if need not in made and need not in given:
                given[need] = (need, *places.get(need, (need, None)))
        made.update(task.keys if type(task) is Place else (key,))
    done: list[list[Any]] = [[] for _ in steps]
    for key in last.keys() - set(results):
        done[last[key]].append(key)
    both = zip(steps, done, strict=True)
    return Program(tuple(given.values()), tuple((*step, tuple(keys)) for step, keys in both), results)


def depth_first(graph: Graph, wanted: Iterable[Any], members: Collection[Any]) -> list[Do]:
    """Return what the needed tasks among members do, depth first: each soon after what it depends on."""
    found: dict[Any, Do] = {}
    stack = list(wanted)[::-1]
    while stack:
        key = stack[-1]
        needs = tuple(graph[key].dependencies)
        waiting = [] if key in found else [d for d in needs if d in members and d not in found]
        stack.extend(waiting)
        if not waiting and stack.pop() not in found:
            found[key] = direct(graph[key]), graph[key].key, needs
    return list(found.values())


def direct(node: GraphNode) -> GraphNode | Program | Call:
    """Return what does the same as a task: a call, and for one that Dask fused a program, put in order once."""
    if type(node) is not Task:
        return node
    if not node.has_subgraph():
        nested = [a for a in node.args if type(a) not in (TaskRef, DataNode)] + list(node.kwargs.values())
        return node if any(isinstance(a, GraphNode | TaskRef) for a in nested) else Call(node)
    inner, result, names, *refs = node.args
    outer: dict[Any, tuple[Any, None]] = {}
    data: dict[Any, GraphNode] = {}
    for name, ref in zip(names, refs, strict=True):
        if isinstance(ref, TaskRef):
            outer[name] = ref.key, None
        elif getattr(ref, "dependencies", None):
            return node
        else:  # data that Dask has put in the place of a key
            data[name] = DataNode(name, ref({}) if isinstance(ref, GraphNode) else ref)
    graph = inner | data
    return program_of(depth_first(graph, (result,), graph), (result,), outer)
