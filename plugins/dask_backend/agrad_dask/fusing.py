"""Several tasks as one, whose order is worked out once: depth first, and each value is let go after its last use.

A task that Dask fused costs as much again as the scheduler takes for it, because Dask puts the tasks in it in order every
time it runs. Plain data: nothing here computes but `Program`.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dask._task_spec import DataNode, GraphNode, Task, TaskRef

from agrad_dask.staging import Graph

#: Neighbouring chunks share a task while they have at most this many bytes together; the task reads them in turn.
GROUP_BYTES = 2**24
#: Tasks are made smaller than that where there would be fewer than about this many to share out.
GROUPS = 32
#: Tasks are made larger where there would be more than about this many: Dask's scheduler takes 50 to 100 us for each.
TASKS = 100_000


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
    """Tasks that run one after another.

    Attributes
    ----------
    given : tuple of (key, key, int or None)
        What the tasks need from outside: under which key they know it, under which it is handed in, and which of
        several results it is.
    steps : tuple of (task, key, tuple of keys, tuple of keys)
        Each task, call or program, the key of its value, what it needs, and what nobody needs after it.
    results : tuple of keys
        What is handed out: the value, or a tuple if there are several.
    """

    given: tuple[tuple[Any, Any, int | None], ...]
    steps: tuple[tuple[Any, Any, tuple[Any, ...], tuple[Any, ...]], ...]
    results: tuple[Any, ...]

    def __call__(self, values: Mapping[Any, Any]) -> Any:
        held = {key: values[outer] if i is None else values[outer][i] for key, outer, i in self.given}
        for task, key, needs, done in self.steps:
            held[key] = task(held) if type(task) is Call else task({need: held[need] for need in needs})
            for other in done:
                del held[other]
        return held[self.results[0]] if len(self.results) == 1 else tuple(held[key] for key in self.results)

    def task(self, key: Any) -> Task:
        """Return the task that runs it."""
        outer = tuple(dict.fromkeys(outer for _, outer, _ in self.given))
        return Task(key, _run, self, outer, *map(TaskRef, outer))


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


def _run(program: Program, keys: tuple[Any, ...], *values: Any) -> Any:
    return program(dict(zip(keys, values, strict=True)))


def program_of(
    graph: Graph,
    members: Collection[Any],
    results: tuple[Any, ...],
    places: Mapping[Any, tuple[Any, int | None]],
) -> Program:
    """Return the program of some tasks of a graph.

    Parameters
    ----------
    members : collection of keys
        Of the tasks.
    results : tuple of keys
        Whose values others need.
    places : mapping
        Where what they need from outside is handed in under another key: that key, and which of several results it is.
    """
    order = depth_first(graph, results, members)
    given: dict[Any, tuple[Any, Any, int | None]] = {}
    for node in order:
        for key in node.dependencies:
            if key not in members:
                given[key] = (key, *places.get(key, (key, None)))
    needs = [tuple(node.dependencies) for node in order]
    steps = tuple(
        (direct(node), node.key, keys, tuple(key for key in gone if key not in results))
        for node, keys, gone in zip(order, needs, last_uses(needs), strict=True)
    )
    return Program(tuple(given.values()), steps, results)


def last_uses(needs: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """Return for each step, by what each needs, the keys that none after it needs."""
    steps = [list(keys) for keys in needs]
    last = {key: at for at, keys in enumerate(steps) for key in keys}
    return [[key for key in dict.fromkeys(keys) if last[key] == at] for at, keys in enumerate(steps)]


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
    return program_of(graph, graph, (result,), outer)


def depth_first(graph: Graph, wanted: Iterable[Any], members: Collection[Any]) -> list[GraphNode]:
    """Return the needed tasks among members, depth first: each soon after what it depends on."""
    found: dict[Any, GraphNode] = {}
    stack = list(wanted)[::-1]
    while stack:
        key = stack[-1]
        waiting = [] if key in found else [d for d in graph[key].dependencies if d in members and d not in found]
        stack.extend(waiting)
        if not waiting:
            found[stack.pop()] = graph[key]
    return list(found.values())
