"""Divide a graph of tasks into passes. Nothing here computes values.

A *barrier* is a value that depends on many chunks and is combined, in one task, with something that needs few of the
same chunks: the mean in ``x - mean(x)``. In one pass every chunk waits in memory for it. If it is computed in an
earlier pass, each chunk can be read again, used and dropped. `stages` finds the barriers; `task_memory` computes what the
tasks of a pass hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from dask._task_spec import DataNode, GraphNode

#: A barrier depends on at least this many chunks, and on this many times as many as the value that it meets.
CHUNKS = 8
TIMES = 4
#: How often a graph is traversed to find them: values that are not barriers make others of those that follow. More
#: traversals would only save an unnecessary pass.
WALKS = 12

Graph = Mapping[Any, GraphNode]
Size = Callable[[Any], int]


def name_of(key: Any) -> str:
    """Return the name of the array that a key is a block of."""
    return str(key[0] if isinstance(key, tuple) and key else key)


def culled(graph: Graph, targets: Iterable[Any]) -> dict[Any, GraphNode]:
    """Return the part of a graph that the targets need."""
    found: dict[Any, GraphNode] = {}
    stack = list(targets)
    while stack:
        key = stack.pop()
        node = graph.get(key)
        if node is not None and key not in found:
            found[key] = node
            stack.extend(node.dependencies)
    return found


def sorted_keys(graph: Graph, users: Mapping[Any, list[Any]]) -> list[Any]:
    """Return the keys, each after its dependencies."""
    waiting = {key: sum(d in graph for d in node.dependencies) for key, node in graph.items()}
    done = [key for key, count in waiting.items() if not count]
    for key in done:  # grows
        for user in users[key]:
            waiting[user] -= 1
            if not waiting[user]:
                done.append(user)
    return done


def users_of(graph: Graph) -> dict[Any, list[Any]]:
    """Return the tasks that depend on each key."""
    users: dict[Any, list[Any]] = defaultdict(list)
    for key, node in graph.items():
        for dependency in node.dependencies:
            users[dependency].append(key)
    return users


# -- stages -----------------------------------------------------------------------------------------------------------


def stages(graph: Graph, targets: Iterable[Any], size: Size, times: int = TIMES) -> list[list[Any]]:
    """Return the keys to compute in each pass: barriers as early as possible, the rest where that reads the fewest chunks.

    Parameters
    ----------
    graph : mapping
        Tasks by key, after Dask's optimisation.
    targets : iterable
        The wanted keys; the lists together hold all of them.
    size : callable
        Returns the size of a key's value.
    times : int, optional
        See `TIMES`.

    Returns
    -------
    list of list
        Per pass the targets and the barriers to compute.
    """
    targets = list(targets)
    if len(graph) <= 2 * CHUNKS:
        return [targets]
    users = users_of(graph)
    keys = sorted_keys(graph, users)
    sources = _sources(graph, keys)
    if len(sources) < CHUNKS:
        return [targets]
    refused: set[str] = set()
    for _ in range(WALKS):
        level, chunks, barriers, waiting = _levels(graph, keys, users, sources, times, refused)
        # a barrier must be much smaller than the data that would wait for it, or nothing is gained
        bytes_of: Counter[str] = Counter()
        for barrier in barriers:
            bytes_of[name_of(barrier)] += size(barrier)
        useless = {
            name
            for name, partners in waiting.items()
            if TIMES * bytes_of[name] > sum(size(p) for p in partners if not isinstance(graph.get(p), DataNode))
        }
        if not useless:
            break
        refused |= useless
    passes: dict[int, dict[Any, None]] = defaultdict(dict)
    read: dict[int, int] = defaultdict(int)
    for key in barriers:
        passes[level[key]][key] = None
        read[level[key]] |= chunks[key]
    # from the last on: a value that may wait joins a later pass that reads the same chunks anyway
    for key in sorted(targets, key=lambda key: -level.get(key, 0)):
        if key not in barriers:
            later = [at for at in range(level.get(key, 0), max(level.values(), default=0) + 1) if at in read]
            at = min(later, key=lambda at: (chunks.get(key, 0) & ~read[at]).bit_count(), default=level.get(key, 0))
            passes[at][key] = None
            read[at] |= chunks.get(key, 0)
    return [list(passes[at]) for at in sorted(passes)]


def _sources(graph: Graph, keys: list[Any]) -> dict[Any, int]:
    """Number the chunks: keys that depend on no others, of arrays in several blocks.

    A task that only takes its part of a shared object, such as a store, is a chunk too; a parameter or a constant is
    not, nor is a part of one.
    """
    shared: set[Any] = set()
    found: dict[Any, int] = {}
    blocks = Counter(map(name_of, keys))
    for key in keys:
        below = [d for d in graph[key].dependencies if d in graph]
        if shared.issuperset(below):
            if blocks[name_of(key)] < CHUNKS or any(type(d) is tuple for d in below):  # a block, and no store
                shared.add(key)
            else:
                found[key] = 1 << len(found)
    return found


def _levels(
    graph: Graph,
    keys: list[Any],
    users: Mapping[Any, list[Any]],
    sources: Mapping[Any, int],
    times: int,
    refused: set[str],
) -> tuple[dict[Any, int], dict[Any, int], dict[Any, None], dict[str, set[Any]]]:
    """Traverse the graph once: the pass each key can be computed in, its chunks, the barriers, and by name the values that meet them.

    A consumed barrier counts as data: its consumers are one pass later, and depend on none of its chunks.
    """
    chunks: dict[Any, int] = {}
    counts: dict[Any, int] = {}
    level: dict[Any, int] = {}
    barriers: dict[Any, None] = {}
    waiting: dict[str, set[Any]] = defaultdict(set)
    narrowest: dict[Any, Any] = {}
    for key in keys:
        dependencies = [d for d in graph[key].dependencies if d in chunks]
        mask, at, few, many = sources.get(key, 0), 0, 0, 0
        for d in dependencies:
            count = counts[d]
            if count:
                many = max(many, count)
                few = min(few or count, count)
            at = max(at, level[d])
        if many < CHUNKS or many < times * few:
            for d in dependencies:
                mask |= chunks[d]
        else:
            alike: dict[int, list[Any]] = defaultdict(list)
            for d in dependencies:
                alike[chunks[d]].append(d)
            for mine, some in alike.items():
                count, meets, names = mine.bit_count(), list[Any](), set[str]()
                if count >= CHUNKS and count >= times * few:
                    few_of = (m for m in alike if m & mine and times * m.bit_count() <= count)
                    meets = [d for m in few_of for d in alike[m]]
                for d in some:
                    barrier = _narrowest(d, graph, users, chunks, narrowest) if meets else None
                    if meets and name_of(barrier) not in refused:
                        barriers[barrier] = None
                        names.add(name_of(barrier))
                        at = max(at, level[d] + 1)
                    else:
                        mask |= mine
                for name in names:
                    waiting[name].update(meets)
        chunks[key], counts[key], level[key] = mask, mask.bit_count(), at
    return level, chunks, barriers, waiting


def _narrowest(
    key: Any, graph: Graph, users: Mapping[Any, list[Any]], chunks: Mapping[Any, int], known: dict[Any, Any]
) -> Any:
    """Go back from a barrier to the value it was broadcast from: the nearest value with the same chunks that several use.

    Parameters
    ----------
    known : dict
        The results so far.
    """
    if key not in known:
        at, known[key] = key, key
        while True:
            same = [d for d in graph[at].dependencies if chunks.get(d)]
            if len(same) != 1 or chunks[same[0]] != chunks[key]:
                break
            at = same[0]
            if len(users[at]) > 1:
                known[key] = at
                break
    return known[key]


# -- memory -----------------------------------------------------------------------------------------------------------


class Peak(NamedTuple):
    """The most that a pass holds.

    Attributes
    ----------
    nbytes : int
        Bytes of values held and created at that time.
    task : key
        The task during which the most memory was used.
    largest : int
        The bytes of its own.
    """

    nbytes: int
    task: Any
    largest: int
