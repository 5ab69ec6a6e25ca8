"""Make one task of what happens to the blocks of one place, layer after layer, before there are tasks at all.

Dask's graph of an array expression is a stack of layers, and most layers of a loss and its gradient are *even*: each of
their blocks is made of the blocks that stand at its place, and of arrays in one block. All places of such layers are
alike, so what happens at one of them is worked out once (a `Program`), and every task runs that: another layer costs
nothing per chunk. A *run* is what hangs together of even layers between two points where chunks meet. Neighbouring small
chunks share a task, and with them the sums that need no others. All other layers are left to Dask.
"""

from __future__ import annotations

import itertools
import math
import operator
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dask._task_spec import DataNode, GraphNode, List, Task, TaskRef, convert_legacy_graph, parse_input
from dask.array.optimization import GETTERS, optimize
from dask.blockwise import Blockwise, blockwise_token
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from agrad_dask.fusing import GROUP_BYTES, GROUPS, TASKS, Do, Pattern, depth_first, direct, program_of
from agrad_dask.staging import name_of

Grid = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Part:
    """A layer.

    Attributes
    ----------
    name : str
        The layer's.
    layer : Layer
        Of Dask.
    nodes : dict or None
        Its tasks; None for a `Blockwise` layer, whose tasks are not made.
    below : set of str
        The names of what it is made of.
    beside : tuple of str or None
        Those of them that stand at the same place, the rest being in one block; None if it is not even.
    single : tuple of keys
        Of what is in one block, if it is even.
    generation : int
        How often chunks have met before it; -1 if it is made of no chunks.
    wanted : collection of keys
        The blocks that are needed.
    run : int
        The number of the run it belongs to, if it is even.
    """

    name: str
    layer: Any
    nodes: dict[Any, GraphNode] | None
    below: set[str]
    beside: tuple[str, ...] | None = None
    single: tuple[Any, ...] = ()
    generation: int = -1
    wanted: Any = ()
    run: int = 0


class Layers:
    """The layers of a graph, each looked at once.

    Attributes
    ----------
    grid : dict
        By the names of blocks: how many there are along each axis.
    """

    def __init__(self, written: HighLevelGraph) -> None:
        self.written = written
        self.grid: dict[str, Grid] = {}
        self._parts: dict[str, Part] = {}
        self._of: dict[str, Part] = {}
        self._numbers: dict[str, dict[Any, int]] = {}
        self._keys: dict[str, list[Any]] = {}

    def keys(self, name: str) -> list[Any]:
        """Return the keys of all blocks of a name, place by place."""
        if name not in self._keys:
            self._keys[name] = [(name, *at) for at in itertools.product(*map(range, self.grid[name]))]
        return self._keys[name]

    def numbers(self, name: str) -> dict[Any, int]:
        """Return the number of the place of each block of a name."""
        if name not in self._numbers:
            self._numbers[name] = {key: i for i, key in enumerate(self.keys(name))}
        return self._numbers[name]

    def extent(self, name: str) -> Grid:
        """Return how many blocks there are along the axes that have several."""
        return tuple(n for n in self.grid.get(name, ()) if n > 1)

    def __contains__(self, key: Any) -> bool:
        """Return whether a key is of a block of a layer that was looked at."""
        name = key[0] if type(key) is tuple and key else key
        part = self._of.get(name)
        if part is None:
            return False
        return key in (self.numbers(name) if part.nodes is None else part.nodes)

    def part(self, name: str) -> Part:
        """Return what is known of a layer; those it depends on have been asked for before."""
        if name not in self._parts:
            layer = self.written.layers[name]
            part = self._parts[name] = self._blockwise(layer) if isinstance(layer, Blockwise) else self._other(layer)
            part.name = name
            self._of.update(dict.fromkeys(names_of(part), part))
        return self._parts[name]

    def _blockwise(self, layer: Blockwise) -> Part:
        part = Part("", layer, None, {arg for arg, _ in _arrays(layer)})
        self.grid[layer.output] = tuple(layer.dims[i] for i in layer.output_indices)
        self.grid.update((arg, tuple(layer.numblocks[arg])) for arg, _ in _arrays(layer))
        part.beside = _beside(layer)
        keys = [arg.key for arg, _ in layer.indices if isinstance(arg, TaskRef)]
        keys += [(arg, *(0,) * len(ind)) for arg, ind in _arrays(layer) if arg not in (part.beside or ())]
        part.below.update(map(name_of, keys))
        part.single = tuple(keys)
        return part

    def _other(self, layer: Any) -> Part:
        nodes = self._tasks(getattr(layer, "mapping", layer))
        part = Part("", layer, nodes, set())
        grid = _grid(nodes)
        if grid is not None:
            name = next(iter(nodes))[0]
            self.grid[name] = grid
            self._examine(name, part)
            if any(self._reads(other) for other in part.beside or ()) and _gets(next(iter(nodes.values()))):
                part.beside, part.single = None, ()  # Dask reads no more than is taken
        if part.beside is None:
            part.below = {name_of(d) for node in nodes.values() for d in node.dependencies}
        else:
            part.below = {*part.beside, *map(name_of, part.single)}
        return part

    def _reads(self, name: str) -> bool:
        """Return whether blocks are read from somewhere."""
        part = self._of.get(name)
        return part is not None and part.nodes is None and bool(part.layer.io_deps)

    def _tasks(self, given: Mapping[Any, Any]) -> dict[Any, GraphNode]:
        rest, made = {}, dict[Any, GraphNode]()
        for key, task in given.items():
            if isinstance(task, GraphNode):
                made[key] = task
            elif (
                type(task) is tuple
                and len(task) == 2
                and type(task[1]) is list
                and all(type(d) is tuple and type(d[0]) is str and d in self for d in task[1])
            ):  # how Dask writes sums; it would make a task of the list too
                made[key] = Task(key, _listed, task[0], *map(TaskRef, task[1]))
            else:
                rest[key] = task
        return made | convert_legacy_graph(rest, _Either(given, self)) if rest else made

    def _examine(self, name: str, part: Part) -> None:
        """Find what tasks need at their own place, if they need nothing else but arrays in one block."""
        nodes, extent = part.nodes or {}, self.extent(name)
        if not extent:
            return
        beside: dict[str, list[Any]] = {}
        single: dict[Any, None] = {}
        for i, key in enumerate(self.keys(name)):
            node = nodes[key]
            if not isinstance(node, Task):
                return
            for d in node.dependencies:
                other = d[0] if type(d) is tuple else d
                if (other in beside and beside[other][i] == d) or d in single:
                    continue
                if not self.extent(other) and (other in self.grid or type(d) is not tuple):
                    single[d] = None
                elif other != name and self.extent(other) == extent and self.keys(other)[i] == d:
                    beside[other] = self.keys(other)
                else:
                    return
        part.beside, part.single = tuple(beside), tuple(single)


def _gets(node: GraphNode) -> bool:
    return isinstance(node, Task) and node.func in GETTERS


class _Either(NamedTuple):
    """Two collections of keys."""

    one: Container[Any]
    other: Container[Any]

    def __contains__(self, key: Any) -> bool:
        return key in self.one or key in self.other


def _listed(function: Callable[..., Any], *values: Any) -> Any:
    return function(list(values))


def names_of(part: Part) -> list[str]:
    """Return the names of the blocks of a layer: one, as a rule; its own if a cluster keeps all of them."""
    return [part.layer.output] if part.nodes is None else list(dict.fromkeys(map(name_of, part.nodes))) or [part.name]


class Survey:
    """The layers that some keys need, in order; which hang together, and which blocks of them are needed.

    Parameters
    ----------
    layers : Layers
        What the keys are made by.
    targets : collection of keys
        Whose values are wanted.
    known : mapping
        Values computed before, by key.
    kept : bool
        A cluster keeps them: nothing here makes them.
    """

    def __init__(
        self, layers: Layers, targets: Collection[Any], known: Mapping[Any, Any], *, kept: bool = False
    ) -> None:
        self.layers, self.targets = layers, targets
        #: In order, and by the names of blocks.
        self.parts: list[Part] = []
        self.part: dict[str, Part] = {}
        #: Even layers that hang together, by number.
        self.runs: dict[int, list[Part]] = {}
        given = defaultdict[str, dict[Any, Any]](dict)
        for key, value in known.items():
            given[name_of(key)][key] = DataNode(key, value)
        for name in _needed(layers.written, map(name_of, targets)):
            part = replace(layers.part(name), wanted=set())
            names = names_of(part)
            for each in given.keys() & set(names):
                made = part.layer if part.nodes is None else part.nodes
                part.nodes = given[each] if len(given[each]) == len(made) else dict(made) | given[each]
                if kept:
                    part.nodes = {key: node for key, node in part.nodes.items() if key not in given[each]}
                part.below = {name_of(d) for node in part.nodes.values() for d in node.dependencies}
                part.beside = None
            self.part.update(dict.fromkeys(names, part))
            self.parts.append(part)
            self._place(part)
        self._want()

    def _place(self, part: Part) -> None:
        """Say in which generation a layer is, and with which others it hangs together."""
        below = [self.part[d] for d in part.below if d in self.part and self.part[d] is not part]
        if part.beside is None:
            part.generation = max((other.generation for other in below), default=-1)
            return
        part.generation = max((other.generation + (other.beside is None) for other in below), default=0)
        part.run = len(self.parts)
        self.runs[part.run] = [part]
        for other in below:
            if other.beside is not None and other.generation == part.generation and other.run != part.run:
                small, large = sorted((part.run, other.run), key=lambda run: len(self.runs[run]))
                for each in self.runs[small]:
                    each.run = large
                self.runs[large] += self.runs.pop(small)

    # -- blocks --------------------------------------------------------------------------------------------------------

    def _want(self) -> None:
        """Find the blocks that are needed, going back from the targets."""
        for key in self.targets:
            self.part[name_of(key)].wanted.add(key)
        for part in reversed(self.parts):
            if not part.wanted:
                continue
            if part.beside is None:
                for d in set().union(*self.reached(part).values()):
                    self._ask(part, name_of(d), (d,))
                continue
            numbers = self.layers.numbers(names_of(part)[0])
            whole = len(part.wanted) == len(numbers)
            for name in part.beside:
                keys = self.layers.keys(name)
                self._ask(part, name, self.layers.numbers(name) if whole else [keys[numbers[k]] for k in part.wanted])
            for d in part.single:
                self._ask(part, name_of(d), (d,))

    def _ask(self, user: Part, name: str, keys: Collection[Any]) -> None:
        part = self.part.get(name)
        if part is None or part is user or type(part.wanted) is dict:  # all are needed anyway
            return
        if part.beside is not None and type(keys) is dict:
            part.wanted = keys
        else:
            part.wanted.update(keys)

    def reached(self, part: Part) -> Mapping[Any, Collection[Any]]:
        """Return what the needed blocks of a part depend on, by key, those that it needs of itself included."""
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


def _arrays(layer: Blockwise) -> list[tuple[str, tuple[str, ...]]]:
    """Return the arrays that blocks are taken of, with their labels."""
    return [(arg, ind) for arg, ind in layer.indices if ind is not None and arg not in layer.io_deps]


def _beside(layer: Blockwise) -> tuple[str, ...] | None:
    """Return what a layer needs at the place of its block, if it needs nothing else but arrays in one block."""
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


# -- runs -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Run:
    """Even layers that hang together.

    Attributes
    ----------
    parts : list of Part
        In order.
    size : int
        How many places share a task.
    count : int
        How many places there are.
    sums : list of Part
        Layers of whose blocks each is made of blocks of one group.
    group : dict
        The group of each block of those, and after which place it can be made.
    """

    parts: list[Part]
    count: int
    size: int
    sums: list[Part] = field(default_factory=list)
    group: dict[Any, tuple[int, int]] = field(default_factory=dict)


class Runs:
    """The runs of a survey that are worth while.

    Parameters
    ----------
    chunks : int
        So many tasks shall be able to run at a time.
    alone : collection of str
        The names of layers that may be a run by themselves; any other is left to Dask.
    """

    def __init__(self, survey: Survey, chunks: int, alone: Collection[str] = ()) -> None:
        self.survey = survey
        self.of: dict[str, Run] = {}
        self.runs: list[Run] = []
        nbytes: dict[Grid, float] = defaultdict(float)
        for part in survey.parts:
            if part.run:
                extent = survey.layers.extent(_output(part))
                nbytes[extent] = max(nbytes[extent], _block_bytes(part.layer))
        for parts in survey.runs.values():
            extent = survey.layers.extent(_output(parts[0]))
            count = math.prod(extent)
            size = group_size(count, nbytes[extent])
            members = [part for part in parts if part.wanted]
            if (
                (len(members) > 1 or _output(parts[0]) in alone)
                and count // size >= chunks
                and all(len(part.wanted) == count for part in members)
            ):
                run = Run(members, count, size)
                self.runs.append(run)
                self.of.update((_output(part), run) for part in members)
        position = {id(part): i for i, part in enumerate(survey.parts)}
        for run in self.runs:
            run.parts.sort(key=lambda part: position[id(part)])
        self.sums: dict[str, Run] = {}
        for part in survey.parts:
            self._sum(part)

    def _sum(self, part: Part) -> None:
        """Let a layer be part of a run if each of its blocks is made in one group of that, and of what all share."""
        if part.beside is not None or part.nodes is None or not part.wanted or part.generation < 0:
            return
        owners: dict[int, Run] = {}
        for d in part.below:
            run = self.of.get(d) or self.sums.get(d)
            if run is not None:
                owners[id(run)] = run
            elif d in self.survey.part and self.survey.part[d].generation >= 0:
                return
        if len(owners) != 1:
            return
        (owner,) = owners.values()
        if owner.size == 1 or part.generation != owner.parts[0].generation:
            return
        made: dict[Any, tuple[int, int]] = {}
        for key in part.wanted:
            node = part.nodes[key]
            if not isinstance(node, Task):
                return
            at = [self._at(owner, d) for d in node.dependencies]
            at = [each for each in at if each is not None]
            if not at or len({group for group, _ in at}) > 1 or name_of(key) != part.name:
                return
            made[key] = max(at)
        owner.group.update(made)
        owner.sums.append(part)
        self.sums[part.name] = owner

    def _at(self, run: Run, key: Any) -> tuple[int, int] | None:
        """Return in which group, and after which place, a block is made; None for what all share."""
        name = name_of(key)
        if self.of.get(name) is run:
            place = self.survey.layers.numbers(name)[key]
            return place // run.size, place
        return run.group.get(key)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def results(self, run: Run) -> list[str]:
        """Return the names of the blocks that others need, or that are wanted."""
        used = self._used(run).union(map(name_of, self.survey.targets))
        return [name for name in map(_output, (*run.parts, *run.sums)) if name in used]

    def _used(self, run: Run) -> set[str]:
        """Return the names of the blocks that layers outside of a run need."""
        own = {id(part) for part in (*run.parts, *run.sums)}
        return {name for part in self.survey.parts if part.wanted and id(part) not in own for name in part.below}

    def graph(self) -> dict[Any, GraphNode]:
        """Return the tasks."""
        made, places = self.tasks(self.survey.targets)
        for key in places.keys() & set(self.survey.targets):
            task, i = places[key]
            made[key] = Task(key, operator.getitem, TaskRef(task), i)
        return made

    def tasks(self, wanted: Iterable[Any]) -> tuple[dict[Any, GraphNode], dict[Any, tuple[Any, int]]]:
        """Return the tasks that make some blocks; and by which task each block is made that is one result of several."""
        made: dict[Any, GraphNode] = {}
        places: dict[Any, tuple[Any, int]] = {}
        needed = set(wanted)
        mark = uuid.uuid4().hex
        for number, run in enumerate(sorted(self.runs, key=lambda run: run.parts[0].generation)):
            for at, (steps, results) in enumerate(self._groups(run)):
                key = results[0] if len(results) == 1 else (f"agrad-run-{number}-{mark}", at)
                group = program_of(steps, results, places)
                made[key] = group.task(key)
                needed.update(group.outer)
                if len(results) > 1:
                    places.update((k, (key, i)) for i, k in enumerate(results))
        for key, node in self._rest(needed - made.keys() - places.keys()).items():
            made[key] = node
            if not places.keys().isdisjoint(node.dependencies):
                made[key] = program_of([(node, key, tuple(node.dependencies))], (key,), places).task(key)
        return made, places

    def taken(self, names: Collection[str]) -> list[Pattern]:
        """Return for each run of some arrays what it does at every place; no task does it then.

        A run whose blocks others need too is not among them.
        """
        found = []
        for run in self.runs.copy():
            own = {_output(part) for part in run.parts}
            if own.intersection(names) and own.isdisjoint(self._used(run)) and not run.sums:
                self.runs.remove(run)
                found.append(self.pattern(run, own.intersection(names)))
        return found

    def outline(self) -> tuple[dict[Any, GraphNode], dict[Any, list[Any]]]:
        """Return what depends on what, for planning: nothing that could be run.

        Returns
        -------
        graph : dict
            Tasks. What a group of a run makes of one array is one task, under the key of its first block: in which pass
            each is made is not decided yet.
        blocks : dict
            All keys of those, by the first one.
        """
        survey, layers, graph = self.survey, self.survey.layers, dict[Any, GraphNode]()
        blocks: dict[Any, list[Any]] = {}
        first: dict[Any, Any] = {}
        for run in sorted(self.runs, key=lambda run: run.parts[0].generation):
            below = {_output(part): part.below for part in (*run.parts, *run.sums)}
            sources = [_output(part) for part in run.parts if not part.beside]
            for name in dict.fromkeys([*sources, *self.results(run)]):
                if name in self.of:
                    keys = layers.keys(name)
                    made = [keys[i : i + run.size] for i in range(0, run.count, run.size)]
                else:
                    made = [[] for _ in range(0, run.count, run.size)]
                    for key in survey.part[name].wanted:
                        made[run.group[key][0]].append(key)
                outer = _reached(name, below, sources)
                for at, keys in enumerate(made):
                    needs: dict[Any, None] = {}
                    for d in outer:
                        some = layers.keys(d) if d in layers.grid else [d]
                        if layers.extent(d):
                            some = some[at * run.size : (at + 1) * run.size]
                        needs.update(dict.fromkeys(first.get(key, key) for key in some))
                    if keys:
                        blocks[keys[0]] = keys
                        first.update(dict.fromkeys(keys, keys[0]))
                        graph[keys[0]] = Task(keys[0], None, *map(TaskRef, needs))
        for part in self._others():
            for key, found in survey.reached(part).items():
                node = None if part.nodes is None else part.nodes[key]
                outline = Task(key, None, *(TaskRef(first.get(d, d)) for d in found))
                graph[key] = node if isinstance(node, DataNode) else outline
        return graph, blocks

    def _others(self) -> list[Part]:
        """Return the layers that are in no run."""
        return [
            part
            for part in self.survey.parts
            if part.wanted and not (part.name in self.sums or (part.run and _output(part) in self.of))
        ]

    def _rest(self, keys: Collection[Any]) -> dict[Any, GraphNode]:
        """Return the tasks of all other layers, as Dask makes and fuses them; none of what a cluster keeps."""
        nodes = {key: self.survey.part[name_of(key)].nodes for key in keys}
        keys = [key for key, made in nodes.items() if made is None or key in made]
        if not keys:
            return {}
        layers: dict[str, Any] = {}
        for part in self._others():
            said = part.layer.annotations
            layers[part.name] = part.layer if part.nodes is None else MaterializedLayer(part.nodes, annotations=said)
        for part in self.survey.parts:  # Dask looks them up
            layers.setdefault(part.name, MaterializedLayer({}))
        graph = HighLevelGraph(
            layers, {name: self.survey.layers.written.dependencies[name] & layers.keys() for name in layers}
        )
        return convert_legacy_graph(optimize(graph, keys))

    def _groups(self, run: Run) -> Iterable[tuple[list[Do], tuple[Any, ...]]]:
        """Return what each group of a run does, and the keys of what others need of it."""
        results = self.results(run)
        kept = [name for name in results if name in self.of]
        pattern = self.pattern(run, {*kept, *(name for part in run.sums for name in part.below)})
        sums: list[list[Do]] = [[] for _ in range(run.count)]
        left: list[list[Any]] = [[] for _ in range(0, run.count, run.size)]
        for part in run.sums:
            for key in part.wanted:
                group, place = run.group[key]
                node = part.nodes[key]  # type: ignore[index]
                sums[place].append((direct(node), key, tuple(node.dependencies)))
                if part.name in results:
                    left[group].append(key)
        for group, keys in enumerate(left):
            numbers = range(group * run.size, min((group + 1) * run.size, run.count))
            steps = [step for i in numbers for step in (pattern(i), *sums[i])]
            blocks = [self.survey.layers.keys(name)[i] for name in kept for i in numbers]
            yield steps, (*blocks, *keys)

    def pattern(self, run: Run, wanted: Collection[str]) -> Pattern:
        """Return what a run does at each of its places, to make the wanted ones of its blocks."""
        survey, tasks, own = self.survey, dict[Any, Task](), dict[Any, Callable[[int], Any]]()
        for part in run.parts:
            tasks[_output(part)] = _template(survey, part, own)
        leaving = tuple(name for name in tasks if name in wanted)
        program = program_of(depth_first(tasks, leaving, tasks), leaving, {})
        beside = {name for part in run.parts for name in part.beside or ()}
        given = {key for key, _, _ in program.given} - own.keys()
        for name in beside & given:  # data in memory goes with the task
            nodes = survey.part[name].nodes
            if nodes is not None and all(isinstance(nodes.get(key), DataNode) for key in survey.layers.keys(name)):
                own[name] = _values([nodes[key] for key in survey.layers.keys(name)])
        blocks = [(name, keys_of(name, survey.layers.grid[name])) for name in given & beside - own.keys()]
        shared = tuple((key, key) for key in given - beside)
        return Pattern(program, blocks, shared, own, [keys_of(name, survey.layers.grid[name]) for name in leaving])


def _template(survey: Survey, part: Part, own: dict[Any, Callable[[int], Any]]) -> Task:
    """Return the task of an even layer, with the names of arrays in the place of keys, at any place.

    Parameters
    ----------
    own : dict
        Is told what every place has of its own: by which key the task knows it, and a function of the place's number.
    """
    name = _output(part)
    beside = part.beside or ()
    if part.nodes is not None:
        nodes, key_at = part.nodes, keys_of(name, survey.layers.grid[name])
        needs = (*beside, *part.single)
        own[name, "task"] = lambda i: nodes[key_at(i)]
        return Task(name, _placed, TaskRef((name, "task")), needs, *map(TaskRef, needs))
    layer = part.layer
    inner = {label for _, ind in layer.indices if ind is not None for label in ind} - set(layer.output_indices)
    changes: dict[Any, Any] = {}
    for i, (arg, ind) in enumerate(layer.indices):
        token = blockwise_token(i)
        if ind is None:
            changes[token] = arg if isinstance(arg, GraphNode | TaskRef) else DataNode(None, arg)
        elif arg in layer.io_deps:
            changes[token] = TaskRef((name, token))
            own[name, token] = _reader(layer, arg, ind, keys_of(name, survey.layers.grid[name]))
        else:
            block: Any = TaskRef(arg if arg in beside else (arg, *(0,) * len(ind)))
            if layer.concatenate is not True:  # to put one block together is to take it as it is
                for _ in filter(inner.__contains__, ind):
                    block = List(block)
            changes[token] = block
    return layer.task.substitute(changes, key=name)


def _reader(layer: Blockwise, arg: str, ind: tuple[str, ...], key_at: Callable[[int], Any]) -> Callable[[int], Any]:
    """Return the function that gives what a layer is told about the block of a place."""
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


def _values(nodes: list[Any]) -> Callable[[int], Any]:
    return lambda i: nodes[i].value


def _placed(node: GraphNode, names: tuple[Any, ...], *values: Any) -> Any:
    """Run a task of a place: it knows blocks by their keys."""
    given = dict(zip(names, values, strict=True))
    return node({d: given[d] if d in given else given[name_of(d)] for d in node.dependencies})


def _reached(name: str, below: Mapping[str, Collection[str]], stops: Collection[str]) -> list[str]:
    """Return what a name is made of in the end: what nothing is said of, and where to stop."""
    seen = [name]
    ends: dict[str, None] = {}
    for other in seen:  # grows
        for d in below[other]:
            if d not in below or d in stops:
                ends[d] = None
            elif d not in seen:
                seen.append(d)
    return list(ends)


def group_size(count: int, nbytes: float) -> int:
    """Return how many of so many places, with blocks of so many bytes, share a task: a power of two, as Dask's sums go."""
    size = 1
    while count > size * TASKS or (2 * size * nbytes <= GROUP_BYTES and count >= 2 * size * GROUPS):
        size *= 2
    return size


def keys_of(name: str, grid: Grid) -> Callable[[int], Any]:
    """Return the function that gives the key of the block at a place: nothing is held for each."""
    several = [axis for axis, n in enumerate(grid) if n > 1]
    if len(several) == 1:
        before, after = (name, *(0,) * several[0]), (0,) * (len(grid) - several[0] - 1)
        return lambda i: (*before, i, *after)

    def key(i: int) -> Any:
        at = []
        for n in reversed(grid):
            i, along = divmod(i, n)
            at.append(along)
        return (name, *reversed(at))

    return key


def key_of(written: HighLevelGraph, name: str, place: int) -> Any:
    """Return the key of the block of an even layer at a place."""
    layer = written.layers.get(name)
    if not isinstance(layer, Blockwise):
        return name
    return keys_of(name, tuple(layer.dims[label] for label in layer.output_indices))(place)


def _output(part: Part) -> str:
    """Return the name of the blocks of an even layer."""
    return str(part.layer.output) if part.nodes is None else name_of(next(iter(part.nodes)))


def _block_bytes(layer: Any) -> float:
    """Return the bytes of the largest block of a layer, 0 where nothing is said and infinity where it is unknown."""
    said = layer.collection_annotations or {}
    if "chunks" not in said:
        return 0.0
    found = said["dtype"].itemsize * math.prod(max(along, default=0) for along in said["chunks"])
    return math.inf if math.isnan(found) else float(found)
