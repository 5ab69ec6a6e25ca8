"""Combine the work on the blocks at one place, layer after layer, into one task, before any tasks exist.

Dask's graph of an array expression is a stack of layers, and most layers of a loss and its gradient are *even*: each of
their blocks is computed from the blocks at its place, and from arrays in one block. All places of such layers are
alike, so the work at one of them is planned once (a `TaskList`), and every task runs that: another layer costs nothing
per chunk. A *run* consists of connected even layers between two points where chunks meet, and of the folds at its end,
which sum the results of all places. Neighbouring small chunks share a task. All other layers are left to Dask.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dask._task_spec import DataNode, GraphNode, List, Task, TaskRef, convert_legacy_graph, parse_input
from dask.array.optimization import GETTERS, optimize
from dask.blockwise import Blockwise, blockwise_token
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from agrad_dask.fusing import (
    Fold,
    Grid,
    LayerRun,
    Pattern,
    alone,
    depth_first,
    group_size,
    keys_of,
    taken,
    task_list_of,
)
from agrad_dask.staging import name_of
from agrad_dask.tiling import tiled

#: The smallest number of pieces of a run when deciding in which pass values are computed.
PIECES = 64


@dataclass(slots=True, eq=False)
class Layer:
    """A layer.

    Attributes
    ----------
    nodes : dict or None
        Its tasks; None for a `Blockwise` layer and a `Fold`, whose tasks are not created.
    below : set of str
        The names of the layers it depends on.
    beside : tuple of str or None
        Those of them that are at the same place, the rest being in one block; None if it is not even.
    single : tuple of keys
        The keys in one block, if it is even.
    names : tuple of str
        The names of its blocks: usually one.
    generation : int
        How often chunks have met before it; -1 if it depends on no chunks.
    whole : bool
        All blocks are needed,
    wanted : set of keys
        or these.
    run : int
        The number of its run, if it is even.
    """

    layer: Any
    nodes: dict[Any, GraphNode] | None
    below: set[str]
    beside: tuple[str, ...] | None = None
    single: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    generation: int = -1
    whole: bool = False
    wanted: set[Any] = field(default_factory=set)
    run: int = 0

    @property
    def name(self) -> str:
        """The name of its blocks, if it is even."""
        return self.names[0]

    @property
    def is_fold(self) -> bool:
        """Whether it is summed at the end of a run."""
        return self.beside is not None and isinstance(self.layer, Fold)

    @property
    def is_needed(self) -> bool:
        """Whether any of its blocks is wanted."""
        return self.whole or bool(self.wanted)


class Runs:
    """The layers that some blocks need, and the runs among them that are worth while.

    Parameters
    ----------
    written : HighLevelGraph
        All layers.
    targets : collection of keys
        The wanted values.
    chunks : int
        The desired number of concurrent tasks.
    known : mapping, optional
        Values computed before, by key.
    kept : bool, optional
        Values kept by a cluster: nothing here computes them.
    """

    def __init__(
        self,
        written: HighLevelGraph,
        targets: Collection[Any],
        chunks: int,
        known: Mapping[Any, Any] | None = None,
        *,
        kept: bool = False,
    ) -> None:
        self.written, self.targets = written, targets
        #: By the names of blocks: how many there are along each axis, and the layer that computes them.
        self.grid: dict[str, Grid] = {}
        self.part: dict[str, Layer] = {}
        #: By the names of layers, in order.
        self.parts: dict[str, Layer] = {}
        given = defaultdict[str, dict[Any, GraphNode]](dict)
        for key, value in (known or {}).items():
            given[name_of(key)][key] = DataNode(key, value)
        joined: dict[int, list[Layer]] = {}
        for name in _needed(written, map(name_of, targets)):
            part = self.parts[name] = self._look(name, written.layers[name])
            for each in given.keys() & set(part.names):
                self._give(part, given[each], kept=kept)
            self.part.update(dict.fromkeys(part.names, part))
            self._join(part, joined)
        self._want()
        #: The layers of each run, in order, its number of places and how many share a task; by number, and by name of
        #: blocks.
        self.runs: dict[int, tuple[list[Layer], int, int]] = {}
        self.of: dict[str, int] = {}
        self._choose(joined, chunks)
        #: The other layers.
        self.others = {name: part for name, part in self.parts.items() if part.is_needed and part.name not in self.of}
        self._piece: dict[str, int] = {}

    # -- layers --------------------------------------------------------------------------------------------------------

    def key(self, name: str) -> Callable[[int], Any]:
        """Return the function that computes the key of the block with a name at a place."""
        return keys_of(name, self.grid[name])

    def place(self, key: Any) -> int:
        """Return the number of the place of a block."""
        found = 0
        for i, n in zip(key[1:], self.grid[key[0]], strict=True):
            found = found * n + i
        return found

    def extent(self, name: str) -> Grid:
        """Return how many blocks there are along the axes that have several."""
        return tuple(n for n in self.grid.get(name, ()) if n > 1)

    def _look(self, name: str, layer: Any) -> Layer:
        """Return the facts about a layer; the layers it depends on have been processed."""
        if isinstance(layer, Fold):
            self.grid |= {layer.output: (1,) * (len(layer.key) - 1)} | dict(layer.folded.sources)
            return Layer(layer, None, set(layer.folded.names), layer.folded.names, (), (layer.output,))
        if isinstance(layer, Blockwise):
            arrays = [(arg, ind) for arg, ind in layer.indices if ind is not None and arg not in layer.io_deps]
            self.grid[layer.output] = tuple(layer.dims[i] for i in layer.output_indices)
            self.grid.update((arg, tuple(layer.numblocks[arg])) for arg, _ in arrays)
            beside = _beside(layer)
            single = [arg.key for arg, _ in layer.indices if isinstance(arg, TaskRef)]
            single += [(arg, *(0,) * len(ind)) for arg, ind in arrays if arg not in (beside or ())]
            below = {arg for arg, _ in arrays}.union(map(name_of, single))
            return Layer(layer, None, below, beside, tuple(single), (layer.output,))
        nodes = self._tasks(getattr(layer, "mapping", layer))
        part = Layer(layer, nodes, set(), names=tuple(dict.fromkeys(map(name_of, nodes))) or (name,))
        grid = _grid(nodes)
        if grid is not None:
            self.grid[part.name] = grid
            part.beside, part.single = self._examined(part.name, nodes)
            if _gets(next(iter(nodes.values()))) and any(map(self._reads, part.beside or ())):
                part.beside, part.single = None, ()  # Dask only reads what is taken
        if part.beside is None:
            part.below = {name_of(d) for node in nodes.values() for d in node.dependencies}
        else:
            part.below = {*part.beside, *map(name_of, part.single)}
        return part

    def _reads(self, name: str) -> bool:
        """Return whether blocks are read from somewhere."""
        part = self.part.get(name)
        return part is not None and part.nodes is None and bool(getattr(part.layer, "io_deps", None))

    def _tasks(self, given: Mapping[Any, Any]) -> dict[Any, GraphNode]:
        rest = {key: task for key, task in given.items() if not isinstance(task, GraphNode)}
        made = {key: task for key, task in given.items() if isinstance(task, GraphNode)}
        names = self.part.keys() | set(map(name_of, given))
        return made | convert_legacy_graph(rest, _KeysOf(names)) if rest else made

    def _examined(self, name: str, nodes: Mapping[Any, GraphNode]) -> tuple[tuple[str, ...] | None, tuple[Any, ...]]:
        """Return the operands of tasks at their own place, and those in one block; None if they need anything else."""
        extent = self.extent(name)
        beside: dict[str, None] = {}
        single: dict[Any, None] = {}
        for i, key in enumerate(map(self.key(name), range(math.prod(extent)))):
            if not extent or not isinstance(nodes[key], Task):
                return None, ()
            for d in nodes[key].dependencies:
                other = d[0] if type(d) is tuple else d
                if d in single or (not self.extent(other) and (other in self.grid or type(d) is not tuple)):
                    single[d] = None
                elif other != name and self.extent(other) == extent and self.place(d) == i:
                    beside[other] = None
                else:
                    return None, ()
        return tuple(beside), tuple(single)

    def _give(self, part: Layer, made: dict[Any, GraphNode], *, kept: bool) -> None:
        """Replace tasks by values."""
        if part.nodes is not None or len(made) < math.prod(self.grid[part.name]):
            made = dict(part.layer if part.nodes is None else part.nodes) | made
        part.nodes = {key: node for key, node in made.items() if not (kept and isinstance(node, DataNode))}
        part.below = {name_of(d) for node in part.nodes.values() for d in node.dependencies}
        part.beside = None

    def _join(self, part: Layer, joined: dict[int, list[Layer]]) -> None:
        """Determine the generation of a layer, and the layers it is connected with."""
        below = [self.part[d] for d in part.below if d in self.part and self.part[d] is not part]
        if part.beside is None:
            part.generation = max((other.generation for other in below), default=-1)
            return
        part.generation = max(
            (other.generation + (other.beside is None or other.is_fold) for other in below), default=0
        )
        part.run = len(self.parts)
        joined[part.run] = [part]
        for other in below:
            if other.run not in (0, part.run) and not other.is_fold and other.generation == part.generation:
                small, large = sorted((part.run, other.run), key=lambda run: len(joined[run]))
                for each in joined[small]:
                    each.run = large
                joined[large] += joined.pop(small)

    def _want(self) -> None:
        """Find the blocks that are needed, going back from the targets."""
        for key in self.targets:
            self.part[name_of(key)].wanted.add(key)
        for part in reversed(self.parts.values()):
            if not part.is_needed:
                continue
            if part.beside is None:
                for d in set().union(*self.reached(part).values()):
                    self._ask(part, name_of(d), (d,))
                continue
            part.whole |= len(part.wanted) == math.prod(self.grid[part.name])
            for name in part.beside:
                self._ask(part, name, None if part.whole else map(self.key(name), map(self.place, part.wanted)))
            for d in part.single:
                self._ask(part, name_of(d), (d,))

    def _ask(self, user: Layer, name: str, keys: Iterable[Any] | None) -> None:
        """Record that a layer needs some blocks with a name, or all."""
        part = self.part.get(name)
        if part is None or part is user:
            return
        if keys is None and part.beside is not None:
            part.whole = True
        elif keys is None:
            part.wanted.update(map(self.key(name), range(math.prod(self.grid[name]))))
        elif not part.whole:
            part.wanted.update(keys)

    def reached(self, part: Layer) -> Mapping[Any, Collection[Any]]:
        """Return the dependencies of the needed blocks of a layer, by key, including those within the layer."""
        if part.nodes is None:
            found: Mapping[Any, Collection[Any]] = part.layer.cull(set(part.wanted), ())[1]
            return found
        needs: dict[Any, Collection[Any]] = {}
        stack = list(part.wanted)
        for key in stack:  # grows
            if key in part.nodes and key not in needs:
                needs[key] = part.nodes[key].dependencies
                stack.extend(needs[key])
        return needs

    def _choose(self, joined: Mapping[int, list[Layer]], chunks: int) -> None:
        """Choose the runs that give enough tasks, and fewer than Dask would create."""
        places = {
            run: self.extent((parts[0].beside if parts[0].is_fold else parts[0].names)[0])
            for run, parts in joined.items()
        }
        nbytes: dict[Grid, float] = defaultdict(float)
        for run, parts in joined.items():
            nbytes[places[run]] = max(nbytes[places[run]], *(block_bytes(part.layer) for part in parts))
        for run, extent in places.items():
            members = [part for part in self.parts.values() if part.run == run and part.is_needed]
            count = math.prod(extent)
            size = group_size(count, nbytes[extent])
            several = len(members) > 1 or any(part.is_fold for part in members)
            if several and count // size >= chunks and all(part.whole for part in members):
                self.runs[run] = members, count, size
                self.of.update((part.name, run) for part in members)

    def _ordered(self) -> list[tuple[list[Layer], int, int]]:
        """Return the runs, each after those it depends on."""
        return sorted(self.runs.values(), key=lambda run: run[0][0].generation)

    def _leaving(self, parts: list[Layer]) -> list[str]:
        """Return the names of the blocks of a run that others need, or that are wanted."""
        used = set(map(name_of, self.targets)).union(
            *(p.below for p in self.parts.values() if p.is_needed and p not in parts)
        )
        return [part.name for part in parts if part.name in used and not part.is_fold]

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def graph(self) -> dict[Any, GraphNode]:
        """Return the tasks that compute the targets."""
        made, handed = self.tasks()
        return made | {key: taken(key, *handed[key]) for key in handed.keys() & set(self.targets)}

    def tasks(self) -> tuple[dict[Any, GraphNode], dict[Any, tuple[Any, int]]]:
        """Return the tasks; and for each block that is one of several results, the task that computes it."""
        made: dict[Any, GraphNode] = {}
        handed: dict[Any, tuple[Any, int]] = {}
        mark, runs = self._mark(), list[LayerRun]()
        for number, (parts, count, size) in enumerate(self._ordered()):
            leaving, folds = self._leaving(parts), [part.layer.folded for part in parts if part.is_fold]
            pattern = self.pattern(parts, {*leaving, *(name for fold in folds for name in fold.names)})
            runs.append(
                LayerRun(
                    f"agrad-run-{number}-{mark}", count, size, pattern, list(map(self.key, leaving)), folds, handed
                )
            )
        users = [run.needs(places) for run in runs for places in run.groups]
        users.append([*self.targets, *(key for run in runs for key in run.shared)])
        rest = self._rest({key for keys in users for key in keys if name_of(key) not in self.of})
        owned = owned_by(rest, users)
        at = 0
        for run in runs:
            for number, places in enumerate(run.groups, at):
                run.owned[places.start] = {key: rest.pop(key) for key in owned.get(number, ())}
            at += len(run.groups)
            made |= run.tasks()
        for key, node in rest.items():
            made[key] = node if handed.keys().isdisjoint(node.dependencies) else alone(node, key, handed)
        return made, handed

    def _mark(self) -> str:
        """Return what tells this plan from others, the same in whatever order values are asked for: Dask's order goes by names."""
        said = sorted(self.parts), len(self.targets), min(map(str, self.targets), default="")
        return hashlib.blake2b(repr(said).encode(), digest_size=16).hexdigest()

    def _rest(self, keys: Collection[Any]) -> dict[Any, GraphNode]:
        """Return the tasks of all other layers, as Dask creates and fuses them; none for values kept by a cluster."""
        nodes = {key: self.part[name_of(key)].nodes for key in keys}
        keys = [key for key, made in nodes.items() if made is None or key in made]
        if not keys:
            return {}
        layers: dict[str, Any] = {name: MaterializedLayer({}) for name in self.parts}  # Dask looks them up
        for name, part in self.others.items():
            said = part.layer.annotations
            layers[name] = part.layer if part.nodes is None else MaterializedLayer(part.nodes, annotations=said)
        graph = HighLevelGraph(layers, {name: self.written.dependencies[name] & layers.keys() for name in layers})
        return convert_legacy_graph(optimize(graph, keys))

    def pattern(self, parts: list[Layer], wanted: Collection[str]) -> Pattern | None:
        """Return the work of even layers at each of their places, to compute the wanted ones of their blocks."""
        own = dict[Any, Callable[[int], Any]]()
        tasks = {part.name: self._template(part, own) for part in parts if not part.is_fold}
        if not tasks:
            return None
        leaving = tuple(name for name in tasks if name in wanted)
        cut = {part.name: (part.layer.collection_annotations or {}).get("chunks") for part in parts if not part.is_fold}
        # sums first: what they are of need not wait for the rest
        folded = {name for part in parts if part.is_fold for name in part.beside or ()}
        wanted_first = sorted(leaving, key=lambda name: name not in folded)
        steps = tiled(depth_first(tasks, wanted_first, tasks), leaving, cut.get)
        task_list = task_list_of(steps, leaving, {})
        beside = {name for part in parts for name in part.beside or ()}
        given = {key for key, _, _ in task_list.given} - own.keys()
        blocks = [(name, self.key(name)) for name in given & beside]
        return Pattern(
            task_list, blocks, tuple((key, key) for key in given - beside), own, list(map(self.key, leaving))
        )

    def _template(self, part: Layer, own: dict[Any, Callable[[int], Any]]) -> Task:
        """Return the task of an even layer, with the names of arrays in place of keys, at any place.

        Parameters
        ----------
        own : dict
            Receives the values that differ between places: the task's key for each, and a function of the place's
            number.
        """
        name, beside, key_at = part.name, part.beside or (), self.key(part.name)
        if part.nodes is not None:
            nodes, needs = part.nodes, (*beside, *part.single)
            own[name, "task"] = lambda i: nodes[key_at(i)]
            return Task(name, _placed, TaskRef((name, "task")), needs, *map(TaskRef, needs))
        layer = part.layer
        changes: dict[Any, Any] = {}
        for i, (arg, ind) in enumerate(layer.indices):
            token = blockwise_token(i)
            if ind is None:
                changes[token] = arg if isinstance(arg, GraphNode | TaskRef) else DataNode(None, arg)
            elif arg in layer.io_deps:
                changes[token] = TaskRef((name, token))
                own[name, token] = _reader(layer, arg, ind, key_at)
            else:
                block: Any = TaskRef(arg if arg in beside else (arg, *(0,) * len(ind)))
                if layer.concatenate is not True:  # assembling one block is taking it itself
                    for _ in set(ind).difference(layer.output_indices):
                        block = List(block)
                changes[token] = block
        return layer.task.substitute(changes, key=name)  # type: ignore[no-any-return]

    # -- an outline ----------------------------------------------------------------------------------------------------

    def outline(self) -> dict[Any, GraphNode]:
        """Return the dependencies, for planning: nothing that could be run.

        The blocks of one array that a run computes at some neighbouring places are one task, under the key of the first
        block: the pass of each is not decided yet. There are few of these, or one for each future task if other layers
        need blocks of the run or compute some for it.
        """
        graph = dict[Any, GraphNode]()
        outside = {name for part in self.others.values() for name in part.below}
        for parts, count, size in self._ordered():
            below = {part.name: part.below for part in parts if not part.is_fold}
            given = {name for part in parts for name in part.beside or ()}
            coarse = given <= self.of.keys() and outside.isdisjoint(below)
            piece = size * max(1, count // (size * PIECES)) if coarse else size
            sources = [part.name for part in parts if not part.beside]
            folded = [name for part in parts if part.is_fold for name in part.beside or () if name in below]
            for name in dict.fromkeys([*sources, *self._leaving(parts), *folded]):
                self._piece[name] = piece
                outer = _reached(name, below, sources)
                for start in range(0, count, piece):
                    needs = [key for d in outer for key in self._heads(d, range(start, min(start + piece, count)))]
                    key = self.key(name)(start)
                    graph[key] = Task(key, None, *map(TaskRef, dict.fromkeys(needs)))
            for part in parts:
                if part.is_fold:
                    needs = [key for d in part.beside or () for key in self._heads(d, range(count))]
                    graph[part.layer.key] = Task(part.layer.key, None, *map(TaskRef, needs))
        for part in self.others.values():
            for key, found in self.reached(part).items():
                node = None if part.nodes is None else part.nodes[key]
                outline = Task(key, None, *(TaskRef(self.head(d)) for d in found))
                graph[key] = node if isinstance(node, DataNode) else outline
        return graph

    def head(self, key: Any) -> Any:
        """Return the key in an outline that a block belongs to."""
        piece = self._piece.get(name_of(key), 1)
        if piece == 1:
            return key
        place = self.place(key)
        return self.key(key[0])(place - place % piece)

    def blocks(self, head: Any) -> list[Any]:
        """Return the keys of the blocks that belong to a key in an outline."""
        piece = self._piece.get(name_of(head), 1)
        if piece == 1:
            return [head]
        place, count = self.place(head), math.prod(self.grid[head[0]])
        return list(map(self.key(head[0]), range(place, min(place + piece, count))))

    def _heads(self, name: str, places: range) -> list[Any]:
        """Return the keys in an outline of an array's blocks at some places."""
        if not self.extent(name):
            return [self.key(name)(0) if name in self.grid else name]
        piece = self._piece.get(name, 1)
        return list(map(self.key(name), range(places.start - places.start % piece, places.stop, piece)))


class _KeysOf(NamedTuple):
    """The keys of blocks with some names, by which Dask distinguishes them from other tuples."""

    names: Container[str]

    def __contains__(self, key: Any) -> bool:
        name = key[0] if type(key) is tuple and key else key
        return type(name) is str and name in self.names


def _needed(written: HighLevelGraph, names: Iterable[str]) -> list[str]:
    """Return the layers that are needed, each after those it depends on."""
    found: dict[str, None] = {}
    stack = list(dict.fromkeys(names))
    while stack:
        name = stack[-1]
        waiting = [] if name in found else [d for d in written.dependencies[name] if d not in found]
        stack.extend(waiting)
        if not waiting:
            found[stack.pop()] = None
    return list(found)


def _beside(layer: Blockwise) -> tuple[str, ...] | None:
    """Return the operands of a layer at the place of its block, if it needs nothing else but arrays in one block."""
    several = [label for label in layer.output_indices if layer.dims[label] > 1]
    inner = {label for _, ind in layer.indices if ind is not None for label in ind} - set(layer.output_indices)
    if not several or layer.output_blocks is not None or any(layer.dims[label] > 1 for label in inner):
        return None
    beside: dict[str, None] = {}
    for arg, ind in layer.indices:
        if ind is None:
            continue
        own = [label for label, n in zip(ind, layer.numblocks[arg], strict=True) if n > 1]
        if own and own != several:
            return None
        if arg in layer.io_deps:
            if layer.io_deps[arg].produces_keys or layer.io_deps[arg].produces_tasks or inner.intersection(ind):
                return None
        elif own:
            beside[arg] = None
    return tuple(beside)


def _grid(keys: Iterable[Any]) -> Grid | None:
    """Return how many blocks there are along each axis, None where keys are not those of one array."""
    keys = list(keys)
    if not all(type(key) is tuple for key in keys) or len(set(map(len, keys))) != 1:
        return None
    names, *places = map(set, zip(*keys, strict=True))
    if len(names) > 1 or not all(type(i) is int for along in places for i in along):
        return None
    grid = tuple(max(along) + 1 for along in places)
    return grid if math.prod(grid) == len(keys) else None


def _gets(node: GraphNode) -> bool:
    return isinstance(node, Task) and node.func in GETTERS


def owned_by(graph: Mapping[Any, GraphNode], users: Sequence[Iterable[Any]]) -> dict[int, set[Any]]:
    """Return for each of several users but the last, by the keys it needs, the tasks that no other user needs, if any."""
    owner: dict[Any, int] = {}
    for number, keys in enumerate(users):
        stack = [key for key in keys if key in graph]
        while stack:
            key = stack.pop()
            if owner.get(key) not in (number, -1):
                owner[key] = -1 if key in owner else number
                stack += [d for d in graph[key].dependencies if d in graph]
    found: dict[int, set[Any]] = {}
    for key, number in owner.items():
        if 0 <= number < len(users) - 1:
            found.setdefault(number, set()).add(key)
    return found


def _reader(layer: Blockwise, arg: str, ind: tuple[str, ...], key_at: Callable[[int], Any]) -> Callable[[int], Any]:
    """Return the function that returns a layer's information about the block at a place."""
    said = layer.io_deps[arg]
    axes = [
        layer.output_indices.index(label) + 1 if n > 1 else None
        for label, n in zip(ind, layer.numblocks[arg], strict=True)
    ]

    def read(i: int) -> Any:
        key = key_at(i)
        at = tuple(0 if axis is None else key[axis] for axis in axes)
        value = parse_input(said.get(at, at))
        return value() if isinstance(value, GraphNode) else value

    return read


def _placed(node: GraphNode, names: tuple[Any, ...], *values: Any) -> Any:
    """Run a task of a place, which knows blocks by their keys."""
    given = dict(zip(names, values, strict=True))
    return node({d: given[d] if d in given else given[name_of(d)] for d in node.dependencies})


def _reached(name: str, below: Mapping[str, Collection[str]], stops: Collection[str]) -> list[str]:
    """Return the final origin of a name: one without an alias, or one to stop at."""
    seen = [name]
    ends: dict[str, None] = {}
    for other in seen:  # grows
        for d in below[other]:
            if d not in below or d in stops:
                ends[d] = None
            elif d not in seen:
                seen.append(d)
    return list(ends)


def key_of(written: HighLevelGraph, name: str, place: int) -> Any:
    """Return the key of the block of an even layer at a place."""
    layer = written.layers.get(name)
    if not isinstance(layer, Blockwise):
        return name
    return keys_of(name, tuple(layer.dims[label] for label in layer.output_indices))(place)


def block_bytes(layer: Any) -> float:
    """Return the size of the largest block of a layer, 0 if it is not declared and infinity if it is unknown."""
    if isinstance(layer, Fold):
        return layer.folded.nbytes
    said = layer.collection_annotations or {}
    if "chunks" not in said:
        return 0.0
    found = said["dtype"].itemsize * math.prod(max(along, default=0) for along in said["chunks"])
    return math.inf if math.isnan(found) else float(found)
