"""Fuse what happens to one chunk into one task.

A task costs the scheduler a fifth of a millisecond, and one that Dask fused as much again, because Dask puts the tasks in
it in order every time it runs. Recorded forward and backward, a loss has ten to thirty of them per chunk. Here those that
work on one chunk, between two points where chunks meet, become one task (a `Program`), whose order is worked out once:
depth first, and each value is let go after its last use. Plain data: nothing here computes but `Program`.
"""

from __future__ import annotations

import operator
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dask._task_spec import DataNode, GraphNode, Task, TaskRef

from agrad_dask.staging import Graph, name_of, sorted_keys, users_of


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Tasks that run one after another.

    Attributes
    ----------
    given : tuple of (key, key, int or None)
        What the tasks need from outside: under which key they know it, under which it is handed in, and which of
        several results it is.
    steps : tuple of (task, key, tuple of keys, tuple of keys)
        Each task or program, the key of its value, what it needs, and what nobody needs after it.
    results : tuple of keys
        What is handed out: the value, or a tuple if there are several.
    """

    given: tuple[tuple[Any, Any, int | None], ...]
    steps: tuple[tuple[Any, Any, tuple[Any, ...], tuple[Any, ...]], ...]
    results: tuple[Any, ...]

    def __call__(self, values: Mapping[Any, Any]) -> Any:
        held = {key: values[outer] if i is None else values[outer][i] for key, outer, i in self.given}
        for task, key, needs, done in self.steps:
            held[key] = task({need: held[need] for need in needs})
            for other in done:
                del held[other]
        return held[self.results[0]] if len(self.results) == 1 else tuple(held[key] for key in self.results)

    def task(self, key: Any) -> Task:
        """Return the task that runs it."""
        outer = tuple(dict.fromkeys(outer for _, outer, _ in self.given))
        return Task(key, _run, self, outer, *map(TaskRef, outer))


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


def direct(node: GraphNode) -> GraphNode | Program:
    """Return a task unchanged, and one that Dask fused as a program of its tasks, put in order once."""
    if not isinstance(node, Task) or not node.has_subgraph():
        return node
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


# -- which tasks ------------------------------------------------------------------------------------------------------


def fused(graph: Graph, targets: Iterable[Any], chunks: int) -> Graph:
    """Make one task of what happens to one chunk.

    Parameters
    ----------
    graph : mapping
        Tasks by key, none that the targets do not need.
    targets : iterable
        The keys whose values are wanted.
    chunks : int
        The graph stays as it is where fewer tasks would result: so many shall be able to run at a time.
    """
    users = users_of(graph)
    keys = sorted_keys(graph, users)
    groups = _groups(graph, keys)
    if len(groups) < chunks:
        return graph
    wanted = set(targets)
    made: dict[Any, GraphNode] = {}
    places: dict[Any, tuple[Any, int]] = {}
    name = f"agrad-chunk-{uuid.uuid4().hex}"
    inside: dict[Any, int] = {}
    results: list[tuple[Any, ...]] = []
    for number, members in enumerate(groups):
        inside.update(dict.fromkeys(members, number))
        found = tuple(key for key in members if key in wanted or any(u not in members for u in users[key]))
        results.append(found)
        if len(found) > 1:
            places.update((key, ((name, number), i)) for i, key in enumerate(found))
    for number, (members, found) in enumerate(zip(groups, results, strict=True)):
        key = found[0] if len(found) == 1 else (name, number)
        made[key] = program_of(graph, members, found, places).task(key)
    for key, node in graph.items():
        if key in inside:
            continue
        rewritten = not isinstance(node, DataNode) and (
            not places.keys().isdisjoint(node.dependencies) or direct(node) is not node
        )
        made[key] = program_of(graph, {key}, (key,), places).task(key) if rewritten else node
    for key in wanted & places.keys():
        task, i = places[key]
        made[key] = Task(key, operator.getitem, TaskRef(task), i)
    return made


def _groups(graph: Graph, keys: list[Any]) -> list[dict[Any, None]]:
    """Find the tasks that belong to one chunk and hang together.

    A key belongs to the chunk that all of what it depends on belongs to, and what is read or made from nothing to the
    chunk of its own place. Where chunks meet, a new generation begins: what depends on that belongs to its own place
    again, or to the chunk of the rest, in that generation. So no group depends on anything that depends on it.
    """
    blocks = Counter(map(name_of, keys))
    chunk: dict[Any, Any] = {}  # nothing: needed by all; None: of several chunks
    generation: dict[Any, int] = {}
    group: dict[Any, dict[Any, None]] = {}
    for key in keys:
        node = graph[key]
        below = [d for d in node.dependencies if d in generation]
        several = [generation[d] + 1 for d in below if chunk[d] is None]
        at = max([generation[d] for d in below if chunk[d] is not None] + several, default=0)
        own = {chunk[d] for d in below if chunk[d] is not None}
        if len(own) > 1:
            chunk[key], generation[key] = None, at
            continue
        if own:
            (chunk[key],) = own
        elif isinstance(key, tuple) and blocks[name_of(key)] > 1:
            chunk[key] = _place(key)
        elif below:
            chunk[key], at = None, at - 1
        else:
            continue
        generation[key] = at
        if isinstance(node, DataNode):
            continue
        mine = {key: None}
        for d in node.dependencies:
            other = group.get(d)
            if other is not None and other is not mine and (chunk[d], generation[d]) == (chunk[key], at):
                if len(other) > len(mine):
                    other, mine = mine, other
                mine.update(other)
                group.update(dict.fromkeys(other, mine))
        group[key] = mine
    found = {id(members): members for members in group.values()}
    position = {key: i for i, key in enumerate(keys)}
    return [dict.fromkeys(sorted(members, key=position.__getitem__)) for members in found.values() if len(members) > 1]


def _place(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the place of a block, the same for ``X`` in row blocks and for the ``y`` beside it."""
    place = key[1:]
    while place and place[-1] == 0:
        place = place[:-1]
    return place
