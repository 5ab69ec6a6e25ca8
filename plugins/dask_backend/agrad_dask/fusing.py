"""Several tasks as one, in an order computed once: depth first, releasing each value after its last use.

A task that Dask fused costs as much again as the scheduler takes for it, because Dask orders the tasks in it every time
it runs. A `LayerRun` is the shared work of similar tasks; a `Fold` sums the results of all places, in these tasks and in a
tree of others.
"""

from __future__ import annotations

import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.highlevelgraph import Layer

from agrad.plugin.backend import once
from agrad_dask.making import NOTHING, makes
from agrad_dask.staging import Graph

#: Neighbouring chunks share a task while they have at most this many bytes together; the task reads them in turn.
GROUP_BYTES = 2**24
#: Tasks are made smaller than that if fewer than about this many would remain to distribute.
GROUPS = 32
#: Tasks are made larger if there would be more than about this many: Dask's scheduler takes 50 to 100 us for each.
TASKS = 100_000
#: How many partial sums one task adds: a power of two, see `Fold`.
FAN_IN = 8

#: The key, together with the number of a fold, under which a task holds its adder.
TOTAL = "total"

#: The number of blocks along each axis.
Grid = tuple[int, ...]
#: The action, the key under which its value is held, and the keys of its operands.
Do = tuple[Any, Any, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class TaskList:
    """Steps that run one after another.

    Attributes
    ----------
    given : tuple of (key, key, int or None)
        The outer inputs of the steps: their key in the steps, the key under which they are passed in, and the number of
        the result to use.
    steps : tuple of (task, key, tuple of keys, tuple of keys)
        Each step, and the keys that are not needed after it.
    results : tuple of keys
        The outputs: the value, or a tuple of none or several.
    """

    given: tuple[tuple[Any, Any, int | None], ...]
    steps: tuple[tuple[Any, Any, tuple[Any, ...], tuple[Any, ...]], ...]
    results: tuple[Any, ...]

    def __call__(self, values: Mapping[Any, Any]) -> Any:
        return self.run({key: values[outer] if i is None else values[outer][i] for key, outer, i in self.given})

    def run(self, held: dict[Any, Any]) -> Any:
        """Run with the inputs under the keys of the steps; delete values there as soon as they are not needed."""
        for task, key, needs, done in self.steps:
            if key is None:  # it makes several values, or none
                held.update(task(held))
            elif isinstance(task, GraphNode):
                held[key] = task({need: held[need] for need in needs})
            else:
                held[key] = task(held)
            for other in done:
                del held[other]
        return held[self.results[0]] if len(self.results) == 1 else tuple(held[key] for key in self.results)


class TaskCall:
    """A task equivalent to Dask's, with half the overhead: it only looks up its operands."""

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
class PatternInstance:
    """A task list that runs in the same way at many places, at one of them.

    Attributes
    ----------
    number : int
        Of the place.
    names : tuple of (name, key)
        For each input of this place, its key in the list.
    own : dict
        The inputs that only this place has, by name.
    keys : tuple
        Of its results.
    """

    task_list: TaskList
    number: int
    names: tuple[tuple[Any, Any], ...]
    own: dict[Any, Any]
    keys: tuple[Any, ...]

    def __call__(self, values: Mapping[Any, Any]) -> dict[Any, Any]:
        made = self.task_list.run({name: values[key] for name, key in self.names} | self.own)
        return dict(zip(self.keys, made if len(self.keys) > 1 else (made,), strict=True))


class Pattern(NamedTuple):
    """A task list that runs in the same way at many places.

    Attributes
    ----------
    blocks : sequence of (name, callable)
        For each input, its key in the list, and the function that returns its key at a place, by number.
    shared : tuple of (name, key)
        The same for the inputs shared by all places.
    own : mapping of name to callable
        The inputs that only one place has, by its number.
    results : sequence of callable
        Functions that return the keys of the results.
    """

    task_list: TaskList
    blocks: Sequence[tuple[Any, Callable[[int], Any]]]
    shared: tuple[tuple[Any, Any], ...]
    own: Mapping[Any, Callable[[int], Any]]
    results: Sequence[Callable[[int], Any]]

    def __call__(self, i: int) -> Do:
        """Return the work at a place."""
        names = (*((name, key(i)) for name, key in self.blocks), *self.shared)
        own = {name: value(i) for name, value in self.own.items()}
        place = PatternInstance(self.task_list, i, names, own, tuple(key(i) for key in self.results))
        return place, None, tuple(key for _, key in names)


def aligned(value: Any) -> Any:
    """Return the copy of received arrays in aligned memory: see `computing._OnWorker`."""
    if isinstance(value, np.ndarray) and not value.flags.aligned:
        return value.copy(order="K")
    if type(value) is tuple:  # the results of a task with several
        return tuple(map(aligned, value))
    if isinstance(value, DataNode):
        return DataNode(value.key, aligned(value.value))
    if isinstance(value, TaskList):
        return replace(value, steps=tuple((aligned(task), *rest) for task, *rest in value.steps))
    if type(value) is dict:  # the tasks in a fused one, data among them
        return {k: aligned(v) if isinstance(v, DataNode) else v for k, v in value.items()}
    return value


def task_list_of(
    steps: Sequence[Do],
    results: tuple[Any, ...],
    places: Mapping[Any, tuple[Any, int | None]],
) -> TaskList:
    """Return the list of some steps, in this order.

    Parameters
    ----------
    results : tuple of keys
        The values that others need.
    places : mapping
        For outer inputs that are passed in under another key: that key, and the number of the result to use.
    """
    made: set[Any] = set()
    given: dict[Any, tuple[Any, Any, int | None]] = {}
    last: dict[Any, int] = {}
    for at, (task, key, needs) in enumerate(steps):
        for need in needs:
            last[need] = at
            if need not in made and need not in given:
                given[need] = (need, *places.get(need, (need, None)))
        made.update(getattr(task, "keys", ()) if key is None else (key,))
    done: list[list[Any]] = [[] for _ in steps]
    for key in last.keys() - set(results):
        done[last[key]].append(key)
    both = zip(steps, done, strict=True)
    return TaskList(tuple(given.values()), tuple((*step, tuple(keys)) for step, keys in both), results)


def depth_first(graph: Graph, wanted: Iterable[Any], members: Collection[Any]) -> list[Do]:
    """Return the needed work of some tasks, depth first: each soon after its operands."""
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


def direct(node: GraphNode) -> GraphNode | TaskList | TaskCall:
    """Return an equivalent of a task: a call, and for one that Dask fused a task list, ordered once."""
    if type(node) is not Task:
        return node
    if not node.has_subgraph():
        nested = [a for a in node.args if type(a) not in (TaskRef, DataNode)] + list(node.kwargs.values())
        return node if any(isinstance(a, GraphNode | TaskRef) for a in nested) else TaskCall(node)
    inner, result, names, *refs = node.args
    outer: dict[Any, tuple[Any, None]] = {}
    data: dict[Any, GraphNode] = {}
    for name, ref in zip(names, refs, strict=True):
        if isinstance(ref, TaskRef):
            outer[name] = ref.key, None
        elif getattr(ref, "dependencies", None):
            return node
        else:  # data that Dask has put in place of a key
            data[name] = DataNode(name, ref({}) if isinstance(ref, GraphNode) else ref)
    graph = inner | data
    return task_list_of(depth_first(graph, (result,), graph), (result,), outer)


# -- tasks that are alike -----------------------------------------------------------------------------------------------


def group_size(count: int, nbytes: float) -> int:
    """Return how many places, with blocks of a given size, share a task: a power of two, see `Fold`."""
    size = 1
    while count > size * TASKS or (2 * size * nbytes <= GROUP_BYTES and count > (2 * size) * (GROUPS - 1)):
        size *= 2
    return size


def keys_of(name: str, grid: Grid) -> Callable[[int], Any]:
    """Return the function that computes the key of the block at a place, so that none is stored."""
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


class Adder(ABC):
    """Sums the results of places, in every task from zero; then other tasks add these sums.

    Attributes
    ----------
    shared : tuple of keys
        The keys of its further inputs.
    several : int
        How many neighbours are added at once.
    """

    shared: tuple[Any, ...] = ()
    several = 1

    @abstractmethod
    def begin(self, numbers: range, *shared: Any) -> AbstractContextManager[Any]:
        """Return the sum of some places: ``add(numbers, blocks, ...)`` takes some neighbours, with a list for each source."""

    @abstractmethod
    def combine(self, parts: Sequence[Any], *shared: Any) -> Any:
        """Return the sum of the results of tasks, in their order."""

    def finish(self, part: Any) -> Any:
        """Return the result, given the sum of all."""
        return part


class Folded(NamedTuple):
    """One block: the result of an `Adder` for all blocks of some arrays that are cut in the same way.

    Tasks have 2, 4, 8... places, and add 8 such sums. So an adder that adds pairs, and pairs of pairs, gives the same
    bits however many places share a task.

    Attributes
    ----------
    key : tuple
        Of the block.
    sources : sequence of (str, tuple of int)
        The names of these arrays, and the number of blocks along each axis.
    nbytes : float
        The size of the summands at a place, if no layer of blocks declares it.
    kept : bool
        The tasks' work is kept once it has been computed.
    """

    key: tuple[Any, ...]
    sources: Sequence[tuple[str, Grid]]
    adder: Adder
    nbytes: float = 0.0
    kept: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(dict(self.sources))


class Fold(Layer):
    """A Dask layer with one block."""

    def __init__(self, folded: Folded) -> None:
        super().__init__()
        self.folded, self.key, self.output = folded, folded.key, folded.key[0]

    @once
    def tasks(self) -> dict[Any, GraphNode]:
        """The tasks, if the blocks are computed by others."""
        run = LayerRun(f"{self.output}_.", math.prod(self.folded.sources[0][1]), FAN_IN, folds=(self.folded,))
        return run.tasks() | {self.key: taken(self.key, *run.handed[self.key])}

    def __getitem__(self, key: Any) -> GraphNode:
        return self.tasks[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def is_materialized(self) -> bool:
        return "tasks" in self.__dict__

    def get_output_keys(self) -> set[Any]:
        return {self.key}


class Add(NamedTuple):
    """The part of a task that belongs to a fold, once the blocks of some neighbours exist."""

    fold: int
    numbers: range
    blocks: tuple[tuple[Any, ...], ...]

    def __call__(self, values: Mapping[Any, Any]) -> dict[Any, Any]:
        values[TOTAL, self.fold].add(self.numbers, *([values[key] for key in keys] for keys in self.blocks))
        return {}


class LayerRun:
    """The work at similar places, some neighbours per task.

    Parameters
    ----------
    name : str
        Of the tasks.
    count, size : int
        How many places there are, and how many share a task.
    pattern : Pattern, optional
        The functions that compute blocks at each place.
    leaving : sequence of callable
        The functions that return the keys of blocks that others need.
    folds : sequence of Folded
        The folds of these blocks, and of blocks computed elsewhere.
    handed : dict, optional
        Receives the keys that are one of several results of a task: the task's key, and the number.

    Attributes
    ----------
    owned : dict of int to dict
        By the first place of a task: the Dask tasks that run within it.
    """

    def __init__(
        self,
        name: str,
        count: int,
        size: int,
        pattern: Pattern | None = None,
        leaving: Sequence[Callable[[int], Any]] = (),
        folds: Sequence[Folded] = (),
        handed: dict[Any, tuple[Any, int]] | None = None,
    ) -> None:
        self.name, self.count, self.size, self.pattern = name, count, size, pattern
        self.leaving, self.folds = leaving, folds
        self.owned: dict[int, dict[Any, GraphNode]] = {}
        self.handed = {} if handed is None else handed
        made = pattern.task_list.results if pattern else ()
        outer = {name: grid for fold in folds for name, grid in fold.sources if name not in made}
        self.sources = [[keys_of(*each) for each in fold.sources] for fold in folds]
        #: The functions that return the keys of the inputs at a place, and the keys of the inputs at all places.
        self.blocks = [key for _, key in (pattern.blocks if pattern else ())] + [
            keys_of(*each) for each in outer.items()
        ]
        self.shared = [key for _, key in (pattern.shared if pattern else ())]
        self.own = tuple(dict.fromkeys(key for fold in folds for key in fold.adder.shared))

    @property
    def groups(self) -> list[range]:
        """The places of each task."""
        return [range(i, min(i + self.size, self.count)) for i in range(0, self.count, self.size)]

    def needs(self, places: Iterable[int]) -> list[Any]:
        """Return the keys of the blocks that are passed in at some places."""
        return [key(i) for i in places for key in self.blocks]

    def results(self, places: range) -> tuple[Any, ...]:
        """Return the keys of the blocks that leave a task."""
        return tuple(key(i) for key in self.leaving for i in places)

    def outer(self, places: range) -> tuple[Any, ...]:
        """Return the keys of the tasks whose results a task receives."""
        own = self.owned.get(places.start, {})
        inner = (d for node in own.values() for d in node.dependencies)
        needs = (key for key in (*self.needs(places), *inner, *self.shared, *self.own) if key not in own)
        return tuple(dict.fromkeys(self.handed[key][0] if key in self.handed else key for key in needs))

    def task_list(self, places: range) -> TaskList:
        """Return the work of a task."""
        own, steps = dict(self.owned.get(places.start, {})), list[Do]()
        for i in places:
            mine = depth_first(own, [key for key in self.needs((i,)) if key in own], own)
            for _, key, _ in mine:
                del own[key]
            steps += mine if self.pattern is None else [*mine, self.pattern(i)]
            for j, fold in enumerate(self.folds):
                before = (i - places.start) % fold.adder.several
                if before + 1 == fold.adder.several or i == places[-1]:
                    some = range(i - before, i + 1)
                    blocks = tuple(tuple(map(key, some)) for key in self.sources[j])
                    steps.append((Add(j, some, blocks), None, ((TOTAL, j), *itertools.chain.from_iterable(blocks))))
        return task_list_of(steps, self.results(places), self.handed)

    def tasks(self) -> dict[Any, GraphNode]:
        """Return the tasks."""
        made, keys = dict[Any, GraphNode](), list[Any]()
        adders = tuple(fold.adder for fold in self.folds)
        kept = any(fold.kept for fold in self.folds)
        for at, places in enumerate(self.groups):
            results, outer = self.results(places), self.outer(places)
            key = (self.name, at) if adders or len(results) > 1 else results[0]
            if key not in results:
                self.handed.update((each, (key, j)) for j, each in enumerate(results))
            made[key] = Task(key, run_group, adders, LazyTaskList(self, places, kept), outer, *map(TaskRef, outer))
            if adders and results:  # adders of sums should not hold the neighbouring blocks until they have enough
                key = (f"{self.name}_sums", at)
                made[key] = Task(key, sums_of, TaskRef((self.name, at)))
            keys.append(key)
        for depth in itertools.count() if adders else ():
            last = len(keys) <= FAN_IN
            parts = [keys[i : i + FAN_IN] for i in range(0, len(keys), FAN_IN)]
            keys = [(f"{self.name}_.{depth}", i) for i in range(len(parts))]
            for key, part in zip(keys, parts, strict=True):
                made[key] = Task(key, combined, adders, last, self.own, *map(TaskRef, (*self.own, *part)))
            if last:
                self.handed.update((fold.key, (key, j)) for j, fold in enumerate(self.folds))
                break
        return made


class LazyTaskList:
    """The work of a task: a task list that is assembled where it first runs, or where it is sent from."""

    __slots__ = "kept", "places", "run", "task_list"

    def __init__(self, run: LayerRun | None, places: range, kept: bool, task_list: TaskList | None = None) -> None:
        self.run, self.places, self.kept, self.task_list = run, places, kept, task_list

    def made(self) -> TaskList:
        """Return the task list."""
        if self.task_list is not None:
            return self.task_list
        assert self.run is not None
        task_list = self.run.task_list(self.places)
        if self.kept:
            self.task_list = task_list
        return task_list

    def __reduce__(self) -> Any:
        return _sent, (self.places, self.kept, self.made())

    def __dask_tokenize__(self) -> str:
        return str(id(self))  # its task has its own key: a cluster's client would otherwise search all contents


def _sent(places: range, kept: bool, task_list: TaskList) -> LazyTaskList:
    return LazyTaskList(None, places, kept, aligned(task_list))


def run_group(adders: tuple[Adder, ...], group: LazyTaskList, keys: tuple[Any, ...], *values: Any) -> Any:
    """Run a task of a run, with the inputs from others; return its results and, last, the sum of each adder."""
    given, task_list = dict(zip(keys, values, strict=True)), group.made()
    if not adders:
        return task_list(given)
    with ExitStack() as stack:
        begun = [adder.begin(group.places, *(given[key] for key in adder.shared)) for adder in adders]
        totals = [stack.enter_context(each) for each in begun]
        found = task_list(given | {(TOTAL, j): total for j, total in enumerate(totals)})
    blocks = (found,) if len(task_list.results) == 1 else found
    return (*blocks, tuple(total.result() for total in totals))


@makes(NOTHING)
def sums_of(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sums of a task's adders, without the blocks next to them."""
    return value[-1:]


def combined(adders: tuple[Adder, ...], last: bool, keys: tuple[Any, ...], *values: Any) -> tuple[Any, ...]:
    """Add the sums of some tasks, for each adder; the last task returns the results, others the input of the next."""
    given, parts = dict(zip(keys, values, strict=False)), [value[-1] for value in values[len(keys) :]]
    found = tuple(
        adder.combine([part[j] for part in parts], *(given[key] for key in adder.shared))
        for j, adder in enumerate(adders)
    )
    return tuple(adder.finish(each) for adder, each in zip(adders, found, strict=True)) if last else (found,)


def taken(key: Any, task: Any, which: int) -> Task:
    """Return the task that takes one of the results of another."""
    return Task(key, operator.getitem, TaskRef(task), which)


def alone(node: GraphNode, key: Any, handed: Mapping[Any, tuple[Any, int]]) -> Task:
    """Return a Dask task that receives some of several results of others."""
    task_list = task_list_of([(node, key, tuple(node.dependencies))], (key,), handed)
    outer = tuple(dict.fromkeys(each for _, each, _ in task_list.given))
    return Task(key, run_group, (), LazyTaskList(None, range(1), True, task_list), outer, *map(TaskRef, outer))
