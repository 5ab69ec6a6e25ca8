"""One task per chunk: a loss that adds up over rows runs whole, forward and backward, inside every chunk of the data.

Recorded on Dask tensors, such a loss gives ten to thirty tasks per chunk, which are built, optimised and fused anew at
every step. Here the loss is captured once for each number of rows that a chunk has (`Kind`), on rows that are made up, and its
program runs on the rows of every chunk; only its value and the gradients leave the task, and a tree of tasks adds them up.
What depends on the data alone (how it is read, which chunks share a task) is worked out once and remembered with the data
(`Grouping`); per call only the parameters (`Step`) are new. They are one node of the graph, which every task refers to.

May import Dask; is imported when `agrad_dask.value_and_grad` is first asked for.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import math
import pickle
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import dask
import numpy as np
from dask._task_spec import DataNode, Task, TaskRef, convert_legacy_graph
from dask.base import get_scheduler

import agrad as ag
from agrad import func, random, tree
from agrad.autograd.backward import cotangent_for
from agrad.core import engine, errors, mode
from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.operands import from_raw
from agrad.core.tensor import Tensor
from agrad.func.arguments import Argnums, bare_all, check_argnums, give_all, givers, is_raw, name_of, split_aux
from agrad.func.compiling import Compiled, CompileWarning, Kept
from agrad.func.program import Leaf, Number, Program
from agrad.func.recording import CaptureError
from agrad_dask import additive, computing
from agrad_dask.fusing import GROUP_BYTES, GROUPS, TASKS, depth_first, direct, last_uses, uncollected

#: In a task, neighbours of at most this many bytes together share one run of the loss: each run costs some tenths of a
#: millisecond, however few rows it has.
RUN_BYTES = 2**21
#: The same where a program runs, which costs some hundredths.
PROGRAM_BYTES = 2**17
#: Runs of a program have rows of at most about so many bytes, so that what they make stays in the processor's caches,
PIECE_BYTES = 2**21
#: or of so many times the bytes that the program makes whatever the number of rows.
FIXED = 4
#: For how many numbers of rows at most the loss is captured.
KINDS = 16
#: How programs run in tasks: to the same bits at the first run and later ones, on the thread of the task.
HOW = {"exact": True, "threads": 1}
#: How many partial sums one task adds up.
FAN_IN = 8

errors.INTERNAL_FILES.add(__file__)


# -- what the tasks are made of ---------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """The rows that one run of the loss sees: a chunk of the data, or some neighbours if they are small.

    Attributes
    ----------
    number, last : int
        Which chunks of the data.
    blocks : tuple
        The keys of the blocks, for each data array a tuple of as many.
    start, stop : float
        The rows; nan where sizes are unknown.
    """

    number: int
    last: int
    blocks: tuple[tuple[Any, ...], ...]
    start: float
    stop: float

    def wanted(self) -> Iterable[Any]:
        """Return the keys of all blocks."""
        return itertools.chain.from_iterable(self.blocks)


class Do(NamedTuple):
    """One thing that a task does.

    Attributes
    ----------
    task : GraphNode, Program or None
        A task of the data's own; None for the loss.
    key : key
        Of its value.
    needs : tuple of keys
        What it is given.
    chunk : Chunk
        For which chunk.
    done : tuple of keys
        Of values that are no longer needed then.
    """

    task: Any
    key: Any
    needs: tuple[Any, ...]
    chunk: Chunk
    done: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Group:
    """Neighbouring chunks that share a task.

    Attributes
    ----------
    chunks : list of Chunk
        In order.
    nodes : dict
        The data's own tasks that no other group needs.
    needs : tuple of keys
        Tasks that other groups need too: they stay tasks of their own.
    """

    chunks: list[Chunk]
    nodes: dict[Any, Any]
    needs: tuple[Any, ...]

    @functools.cached_property
    def steps(self) -> list[Do]:
        """What the task does, in order: worked out where it first runs, not where the plan is made."""
        order: list[tuple[Any, Any, tuple[Any, ...], Chunk]] = []
        left = set(self.nodes)
        for chunk in self.chunks:
            own = depth_first(self.nodes, [key for key in chunk.wanted() if key in left], left)
            order += [(direct(node), node.key, tuple(node.dependencies), chunk) for node in own]
            order.append((None, None, tuple(chunk.wanted()), chunk))
            left.difference_update(node.key for node in own)
        gone = last_uses(keys for _, _, keys, _ in order)
        return [
            Do(*what, tuple(key for key in keys if key in self.nodes)) for what, keys in zip(order, gone, strict=True)
        ]

    def __reduce__(self) -> Any:
        return Group, (self.chunks, self.nodes, self.needs)

    def __dask_tokenize__(self) -> str:
        return str(id(self))  # its task has a key of its own: no look at the contents is worth while


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which chunks share a task: it depends on the data, and on how small chunks are joined.

    Attributes
    ----------
    groups : list of Group
        What tasks do.
    shared : dict
        Tasks that several groups need.
    chunks : int
        How many there are.
    kinds : list of int
        The numbers of rows that runs of the loss have, the most frequent first; none where sizes are unknown.
    checked : tuple of int
        In which chunks to check that a loss adds up.
    """

    groups: list[Group]
    shared: dict[Any, Any]
    chunks: int
    kinds: list[int]
    checked: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Kind:
    """What runs on chunks of some number of rows: the program of a loss, forward and backward.

    Attributes
    ----------
    program : Program
        Gives value, gradients and auxiliary values.
    blocks : tuple of (shape, dtype)
        What the rows of each data array have to be.
    given : list
        The inputs of the program; None in place of rows and keys.
    rows : tuple of (int, int)
        Which input is which data array.
    keys : tuple of int
        Which inputs are keys of draws.
    outs : tuple of int
        Which outputs are value, gradients, and what is computed of the auxiliary values.
    """

    program: Program
    blocks: tuple[tuple[tuple[int, ...], Any], ...]
    given: list[Any]
    rows: tuple[tuple[int, int], ...]
    keys: tuple[int, ...]
    outs: tuple[int, ...]

    def fits(self, blocks: Sequence[Any]) -> bool:
        """Return whether rows are what the program was captured for."""
        for block, (shape, dtype) in zip(blocks, self.blocks, strict=True):
            if block.shape != shape or block.dtype != dtype:
                return False
        return True

    def run(self, blocks: Sequence[Any], source: random.Generator) -> list[Any]:
        """Return value, gradients and auxiliary values for some rows."""
        values = self.given.copy()
        for at, which in self.rows:
            values[at] = blocks[which]
        for at in self.keys:
            values[at] = source.key()
        backend = backend_of(blocks[0])
        assert backend is not None
        with backend.quiet():
            outs = self.program.run(backend, values, **HOW)
        return [backend.as_array(outs[at]) for at in self.outs]

    def __reduce__(self) -> Any:
        none: dict[str, Any] = {"arguments": None, "results": None, "outside": {}, "sources": {}, "names": {}}
        text = pickle.dumps(self.program.replaced(**none))  # without what runs it here, or is the caller's own
        return kind_of, (text, self.blocks, self.given, self.rows, self.keys, self.outs)


def kind_of(text: bytes, *rest: Any) -> Kind:
    """Return what was sent to another process."""
    return Kind(program_of(text), *rest)


@functools.lru_cache(maxsize=64)
def program_of(text: bytes) -> Program:
    """Return a program that was sent to this process, the same one at every call: it keeps what runs it."""
    return pickle.loads(text)  # type: ignore[no-any-return]  # noqa: S301 (as all that Dask sends)


@dataclass(frozen=True, eq=False)
class Step:
    """What all tasks of one call share.

    Attributes
    ----------
    loss : Rows or None
        The function itself; None in another process, where nothing needs it.
    about : str
        Which function it is.
    kinds : dict of int to Kind
        By the number of rows what runs on such chunks. Any others call the function.
    parameters : int
        How many there are.
    key : tuple of int
        From which every chunk gets random numbers of its own.
    check : frozenset of int
        In which chunks to check that the loss adds up.
    call : int
        How many calls there have been.
    anomaly : bool
        Whether to look for NaN on the way back, as where the call stands.
    sent : bool
        Whether other processes need the function.
    most : int
        How many rows a run has at most; 0: a run has a whole chunk.
    """

    loss: Rows | None
    about: str
    reduce: str
    has_aux: bool
    kinds: dict[int, Kind]
    parameters: int
    key: tuple[int, int]
    dtype: str
    chunks: int
    check: frozenset[int]
    call: int
    anomaly: bool
    sent: bool
    most: int

    def check_additive(self, sample: list[Any], source: random.Generator) -> None:
        """Refuse a loss that does not add up over some rows."""
        assert self.loss is not None
        additive.check(self.loss.value, self.loss.parameters, sample, self.reduce, self.call, source)

    def __repr__(self) -> str:  # what distributed shows where it cannot be pickled, as a rule because of the loss
        return f"<Step: {self.about} and its arguments>"

    def __reduce__(self) -> Any:
        values = [getattr(self, each.name) for each in fields(self)]
        return Step, (values[0] if self.sent else None, *values[1:])

    def __dask_tokenize__(self) -> str:
        return str(id(self))


class ChunkGenerator(random.Generator):
    """The random numbers of one chunk after another: each has its own, whenever and wherever it runs."""

    def __init__(self, key: tuple[int, int]) -> None:
        super().__init__(0)
        self.of, self.number = key, 0

    def begin(self, number: int) -> None:
        """Go on to a chunk."""
        self.number, self.counter = number, 0

    def key(self) -> tuple[int, int]:
        if not self.counter:
            digest = hashlib.blake2b(repr((*self.of, self.number)).encode(), digest_size=8).digest()
            self.seed = int.from_bytes(digest, "little")
        return super().key()


class Part(NamedTuple):
    """What some rows contribute.

    Attributes
    ----------
    rows : int
        Their number.
    value, gradients : array, list of array
        Sums or means over them.
    aux : list
        What the loss gives beside, of every run: as it is, or `Filled`.
    samples : list of (Chunk, list of array)
        Rows on which to check that the loss adds up.
    """

    rows: int
    value: Any
    gradients: list[Any]
    aux: list[Any]
    samples: list[Any]


class Filled(NamedTuple):
    """What a program computes of auxiliary values: for chunks of so many rows, and which values."""

    rows: int
    values: list[Any]


# -- the loss ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Loss:
    """The caller's function, and how it is differentiated.

    Attributes
    ----------
    function : callable
        The caller's.
    chosen : tuple of int
        By which arguments.
    """

    function: Callable[..., Any]
    chosen: tuple[int, ...]
    reduce: str
    has_aux: bool

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Tensor], Any]:
        """Return value and gradients, in a list, and what the function gives beside."""
        leaves, structure = tree.flatten((args, kwargs))
        parameters = []
        for place in self.places(structure):
            leaves[place] = ag.asarray(leaves[place]).detach().requires_grad_()
            parameters.append(leaves[place])
        args, kwargs = tree.unflatten(structure, leaves)
        value, aux = self.value(args, kwargs)
        found: dict[Any, Any] = {}
        if value._node is not None:
            roots = [(value._node, cotangent_for(0, value._node, None))]
            targets = {t._node for t in parameters}
            found = engine.run(roots, retain_graph=False, create_graph=False, targets=targets, accumulate=False)
        gradients = [found.get(t._node) for t in parameters]
        made = [ag.zeros_like(t) if g is None else from_raw(g) for t, g in zip(parameters, gradients, strict=True)]
        aux = tree.map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, aux)
        return [t.detach() for t in (value, *made)], aux

    def value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        """Return the value, checked, and what the function gives beside."""
        value, aux = self.function(*args, **kwargs), None
        if self.has_aux:
            value, aux = split_aux(value, "value_and_grad(loss)(*args)")
        if not isinstance(value, Tensor):
            raise TypeError(f"the loss must return a 0-d tensor, not {type(value).__name__}")
        if value.ndim:
            raise RuntimeError(
                f"the loss must return a scalar, got a tensor of shape {value.shape}: reduce it, for instance with"
                f" .{self.reduce}()"
            )
        if value.is_complex():
            raise RuntimeError(f"the loss must return a real scalar, got {value.dtype}")
        return value, aux

    def places(self, structure: tree.TreeDef) -> list[int]:
        """Return where the parameters stand among the leaves of all arguments."""
        starts = [0, *itertools.accumulate(child.num_leaves for child in structure.children[0].children)]
        return [place for k in self.chosen for place in range(starts[k], starts[k + 1])]

    def __str__(self) -> str:
        code = getattr(self.function, "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return f"the loss {name_of(self.function)}{where}"


@dataclass(frozen=True, eq=False)
class Rows:
    """A loss and its arguments except the data.

    Attributes
    ----------
    leaves : list
        Of the arguments: raw parameters, None in place of data, the rest as given.
    places : list of int
        Where the parameters stand among the leaves.
    data : tuple of int
        Where the data stands.
    """

    loss: Loss
    leaves: list[Any]
    structure: tree.TreeDef
    places: list[int]
    data: tuple[int, ...]

    def arguments(self, blocks: Iterable[Any], parameters: Iterable[Any] = ()) -> Any:
        """Return the arguments for some rows, at other parameters if given."""
        leaves = self.leaves.copy()
        for place, parameter in zip(self.places, parameters, strict=False):
            leaves[place] = parameter
        for place, block in zip(self.data, blocks, strict=True):
            leaves[place] = ag.asarray(block)
        return tree.unflatten(self.structure, leaves)

    def value(self, blocks: Iterable[Any], parameters: Iterable[Tensor]) -> Tensor:
        """Return the value for some rows at some parameters."""
        return self.loss.value(*self.arguments(blocks, parameters))[0]

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters, anew."""
        return [ag.asarray(self.leaves[place]).detach().requires_grad_() for place in self.places]


# -- in the tasks -----------------------------------------------------------------------------------------------------


def run_group(step: Step, group: Group, *shared: Any) -> Part | None:
    """Read chunks and run the loss on each; None if they have no rows."""
    if ag.get_default_dtype() != step.dtype:  # another process, which computes for this one
        ag.set_default_dtype(step.dtype)
    values = dict(zip(group.needs, shared, strict=True))
    total = Total(step)
    chunk = group.chunks[0]
    looking = ag.autograd.detect_anomaly() if step.anomaly else contextlib.nullcontext()
    with ag.enable_grad(), random.using(total.source), looking:
        try:
            for task, key, needs, chunk, done in group.steps:
                if task is None:
                    total.add(chunk, [joined(values, keys) for keys in chunk.blocks])
                else:
                    values[key] = task({need: values[need] for need in needs} if needs else {})
                for other in done:
                    del values[other]
        except Exception as error:
            error.add_note(_where(step, chunk))
            raise
    return total.part()


def joined(values: dict[Any, Any], keys: tuple[Any, ...]) -> Any:
    """Put the rows of neighbouring chunks together."""
    return values[keys[0]] if len(keys) == 1 else ag.concat([ag.asarray(values[key]) for key in keys])._raw


def _where(step: Step, chunk: Chunk) -> str:
    rows = "" if math.isnan(chunk.start) else f" (rows {chunk.start} to {chunk.stop - 1})"
    which = f"chunk {chunk.number + 1}"
    if chunk.last > chunk.number:
        which = f"chunks {chunk.number + 1} to {chunk.last + 1}"
    return (
        f"Raised in {which} of {step.chunks}{rows} of {step.about}, which agrad_dask.value_and_grad runs once"
        " per chunk."
    )


class Total:
    """Runs the loss on the chunks of one task and adds up what they give; means by rows, in units of the first's."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.source = ChunkGenerator(step.key)
        self.rows = self.unit = 0
        self.value: Any = None
        self.gradients: list[Any] = []
        self.aux: list[Any] = []
        self.samples: list[Any] = []

    def add(self, chunk: Chunk, blocks: list[Any]) -> None:
        """Run the loss on a chunk, or on piece after piece of it."""
        blocks = [b if type(b) is np.ndarray else ag.asarray(b)._raw for b in blocks]
        rows, most = len(blocks[0]), self.step.most
        self.source.begin(chunk.number)
        if most and rows > most and all(len(block) == rows for block in blocks):
            for start in range(0, rows, most):
                self.add_run([block[start : start + most] for block in blocks])
        else:
            self.add_run(blocks)
        if chunk.number in self.step.check and rows and not self.source.counter:
            sample = additive.sampled(blocks)
            if self.step.loss is None:  # in another process: the caller's own one checks it
                self.samples.append((chunk, sample))
            else:
                self.step.check_additive(sample, self.source)

    def add_run(self, blocks: list[Any]) -> None:
        """Run the loss on some rows, forward and backward."""
        step, rows = self.step, len(blocks[0])
        kind = step.kinds.get(rows)
        if kind is not None and kind.fits(blocks):
            found, aux = kind.run(blocks, self.source), None
            if step.has_aux:
                count = 1 + step.parameters
                found, aux = found[:count], Filled(rows, found[count:])
        elif any(len(block) != rows for block in blocks):
            raise ValueError(f"the arrays have different numbers of rows here: {[len(b) for b in blocks]}")
        elif rows:
            found, aux = self.as_it_is(blocks)
        else:
            return
        self.unit = self.unit or rows
        if rows != self.unit and step.reduce == "mean":
            found = [part * (rows / self.unit) for part in found]
        self.rows += rows
        if step.has_aux:
            self.aux.append(aux)
        if self.value is None:  # copies: they are written to, and a rule may give what others hold
            self.value = found[0]
            self.gradients = [backend_of(g).asarray(g, copy=True) for g in found[1:]]
            return
        self.value = self.value + found[0]
        for i, g in enumerate(found[1:]):
            self.gradients[i] += g

    def as_it_is(self, blocks: list[Any]) -> tuple[list[Any], Any]:
        """Call the caller's function; return value and gradients, and what it gives beside."""
        loss = self.step.loss
        if loss is None:
            found = [f"{block.dtype}{list(block.shape)}" for block in blocks]
            raise TypeError(
                f"a chunk is {', '.join(found)}, which is not what the Dask arrays say of themselves: pass dtype= and meta="
                " where they are made"
            )
        made, aux = loss.loss.run(*loss.arguments(blocks))
        return [t._raw for t in made], aux

    def part(self) -> Part | None:
        """Return the sums, or means."""
        if not self.rows:
            return None
        weight = self.rows / self.unit if self.step.reduce == "mean" else 1.0
        value, gradients = self.value, self.gradients
        if weight != 1.0:
            value, gradients = value / weight, [g / weight for g in gradients]
        return Part(self.rows, value, gradients, self.aux, self.samples)


def combine(reduce: str, *parts: Part | None) -> Part | None:
    """Add up what groups contribute, always in the same order."""
    some = [part for part in parts if part is not None]
    if not some:
        return None
    rows = sum(part.rows for part in some)
    shares = [part.rows / rows if reduce == "mean" else 1.0 for part in some]

    def total(values: Sequence[Any]) -> Any:
        result = values[0] * shares[0]  # a new array: what a task was given may be somebody else's
        for share, value in zip(shares[1:], values[1:], strict=True):
            result += value * share
        return result

    gradients = [total(found) for found in zip(*(part.gradients for part in some), strict=True)]
    aux, samples = [x for part in some for x in part.aux], [x for part in some for x in part.samples]
    return Part(rows, total([part.value for part in some]), gradients, aux, samples)


# -- the plan ---------------------------------------------------------------------------------------------------------


def grouping_of(arrays: Sequence[Any], join: float) -> Grouping:
    """Return the plan for data arrays, made once and kept with the first of them.

    Parameters
    ----------
    join : float
        Neighbours of so many bytes together share a run of the loss; 0: none do.
    """
    names = tuple(array.name for array in arrays)
    kept = getattr(arrays[0], "_agrad_groupings", None)
    if kept is None or kept[0] != names:
        kept = arrays[0]._agrad_groupings = names, {}
    if join not in kept[1]:
        with uncollected():
            kept[1][join] = make_grouping(aligned(arrays), join)
    return kept[1][join]  # type: ignore[no-any-return]


def aligned(arrays: Sequence[Any]) -> list[Any]:
    """Cut all arrays by the same rows, those of the largest, and nothing else.

    Raises
    ------
    ValueError
        If an array has no rows to cut by, or they differ in length.
    """
    for array in arrays:
        if not array.ndim:
            raise ValueError(f"a 0-d Dask array has no rows; compute it first, as float(x) or ag.compute(x){called()}")
    whole = [array.rechunk(dict.fromkeys(range(1, array.ndim), -1)) if array.ndim > 1 else array for array in arrays]
    rows = [array.chunks[0] for array in whole]
    known = [not any(map(math.isnan, along)) for along in rows]
    if not all(known):
        if any(known) or len({len(along) for along in rows}) > 1:
            raise ValueError(
                "arrays with chunks of unknown sizes must all have been cut in the same way (X[mask], y[mask]);"
                f" compute_chunk_sizes() makes sizes known{called()}"
            )
        return whole
    lengths = [sum(along) for along in rows]
    if len(set(lengths)) > 1:
        raise ValueError(
            "value_and_grad cuts every Dask array among the arguments by rows, so they must be equally long; got the"
            f" shapes {', '.join(str(a.shape) for a in arrays)}.\n  What belongs to all rows (weights, a mean) is given"
            f" as a NumPy array or tensor.{called()}"
        )
    largest = rows[max(range(len(whole)), key=lambda i: whole[i].nbytes)]
    return [a if along == largest else a.rechunk({0: largest}) for a, along in zip(whole, rows, strict=True)]


def make_grouping(arrays: Sequence[Any], join: float) -> Grouping:
    """Share the chunks, and the tasks that compute them, out to groups."""
    graph = convert_legacy_graph(dict(dask.optimize(*arrays)[0].__dask_graph__()))
    sizes = arrays[0].chunks[0]
    ends = [0, *itertools.accumulate(sizes)]
    chunks = [
        Chunk(i, i, tuple(((a.name, i, *(0,) * (a.ndim - 1)),) for a in arrays), ends[i], ends[i + 1])
        for i in range(len(sizes))
    ]
    row = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays)
    grouped = [_joined(members, row, join) for members in _grouped(chunks, row)]
    groups = _owned(graph, grouped)
    inside = {key for group in groups for key in group.nodes}
    shared = _reached(graph, (key for group in groups for key in group.needs), inside)
    runs = [chunk for members in grouped for chunk in members]
    counts = Counter(chunk.stop - chunk.start for chunk in runs)
    kinds = [int(rows) for rows, _ in counts.most_common() if rows > 0]
    return Grouping(
        groups,
        shared,
        len(chunks),
        kinds,
        tuple(runs[i].number for i in additive.chosen([run.stop - run.start for run in runs])),
    )


def _grouped(chunks: list[Chunk], row: float) -> list[list[Chunk]]:
    """Share chunks out to tasks; how does not depend on the machine, so neither do the last bits of a sum."""
    if math.isnan(chunks[-1].stop):
        several = -(-len(chunks) // TASKS)
        return [chunks[i : i + several] for i in range(0, len(chunks), several)]
    whole = chunks[-1].stop * row
    return _neighbours(chunks, row, max(min(GROUP_BYTES, whole / GROUPS), whole / TASKS))


def _joined(chunks: list[Chunk], row: float, limit: float) -> list[Chunk]:
    """Join the small chunks of a task."""
    if not limit or math.isnan(chunks[-1].stop):
        return chunks
    several = _neighbours(chunks, row, limit)
    return [
        some[0]
        if len(some) == 1
        else Chunk(
            *(some[0].number, some[-1].last),
            tuple(tuple(itertools.chain.from_iterable(keys)) for keys in zip(*(c.blocks for c in some), strict=True)),
            *(some[0].start, some[-1].stop),
        )
        for some in several
    ]


def _neighbours(chunks: list[Chunk], row: float, limit: float) -> list[list[Chunk]]:
    """Put neighbouring chunks together that begin within the same stretch of this many bytes."""
    within = max(1, limit)
    return [list(some) for _, some in itertools.groupby(chunks, lambda chunk: int(chunk.start * row / within))]


def _owned(graph: dict[Any, Any], grouped: list[list[Chunk]]) -> list[Group]:
    """Return the groups, each with the tasks that no other needs."""
    owner: dict[Any, int] = {}
    several = -1
    for number, members in enumerate(grouped):
        stack = [key for chunk in members for key in chunk.wanted()]
        while stack:
            key = stack.pop()
            found = owner.get(key)
            if found is None and key in graph:
                owner[key] = number
            elif found in (None, number, several):
                continue
            else:
                owner[key] = several
            stack.extend(graph[key].dependencies)
    nodes: list[dict[Any, Any]] = [{} for _ in grouped]
    for key, number in owner.items():
        if number != several:
            nodes[number][key] = graph[key]
    groups = []
    for members, mine in zip(grouped, nodes, strict=True):
        wanted = itertools.chain.from_iterable(chunk.wanted() for chunk in members)
        below = itertools.chain.from_iterable(node.dependencies for node in mine.values())
        needs = tuple(dict.fromkeys(key for key in itertools.chain(wanted, below) if key not in mine))
        groups.append(Group(members, mine, needs))
    return groups


def _reached(graph: dict[Any, Any], keys: Iterable[Any], inside: set[Any]) -> dict[Any, Any]:
    """Return the tasks outside groups that are needed; a key that is in no graph is a result kept by a cluster."""
    found: dict[Any, Any] = {}
    stack = list(keys)
    while stack:
        key = stack.pop()
        if key in graph and key not in found and key not in inside:
            found[key] = graph[key]
            stack.extend(graph[key].dependencies)
    return found


# -- capture ----------------------------------------------------------------------------------------------------------


class Captured(NamedTuple):
    """What runs in the chunks of one call.

    Attributes
    ----------
    kept : dict of int to Kept
        By numbers of rows, with their guards.
    kinds : dict of int to Kind
        The same, for tasks.
    most : int
        How many rows a run has at most; 0: a run has a whole chunk.
    reason : str
        Why the function itself runs on the rest; "" if there is none.
    whole : bool
        All numbers of rows are there.
    """

    kept: dict[int, Kept]
    kinds: dict[int, Kind]
    most: int
    reason: str
    whole: bool


#: Where nothing is captured.
NOTHING = Captured({}, {}, 0, "", whole=False)


def captured(
    programs: Compiled, loss: Rows, arrays: Sequence[Any], plan: Grouping, *, split: bool, compare: bool
) -> Captured:
    """Capture the loss for all numbers of rows that runs have, or find what was captured.

    Parameters
    ----------
    programs : Compiled
        Of `Loss.run`.
    arrays : sequence of dask.array.Array
        The data.
    split : bool
        A run may have some rows of a chunk: what they make stays in the processor's caches. Fewer of them than make up
        for what the program does whatever their number (with the parameters, as a rule) are none the better.
    compare : bool
        Call the function on rows that are made up, and check that a program gives the same: it may depend on something
        that no guard sees.
    """
    row = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays)
    most = max(1, PIECE_BYTES // max(1, row)) if split else 0
    found = _captured_pieces(programs, loss, arrays, plan, most)
    if most and found.kinds:
        fixed = max(
            sum(about.nbytes for about in kind.program.shapes.values() if rows not in about.shape)
            for rows, kind in found.kinds.items()
        )
        if FIXED * fixed > most * row:
            found = _captured_pieces(programs, loss, arrays, plan, FIXED * fixed // row)
    if compare and found.kept:
        rows = min(found.kept)
        programs.compare(found.kept[rows], *loss.arguments(imagined(array, rows) for array in arrays))
    return found


def _captured_pieces(programs: Compiled, loss: Rows, arrays: Sequence[Any], plan: Grouping, most: int) -> Captured:
    """Do that for pieces of chunks of at most so many rows."""
    pieces = [(most, rows % most) if 0 < most < rows else (rows,) for rows in plan.kinds]
    every = [rows for rows in dict.fromkeys(itertools.chain.from_iterable(pieces)) if rows]
    kept: dict[int, Kept] = {}
    kinds: dict[int, Kind] = {}
    reason = f"its chunks have {len(every)} different numbers of rows" if len(every) > KINDS else ""
    for rows in every[:KINDS]:
        args, kwargs = loss.arguments(imagined(array, rows, plain=True) for array in arrays)
        try:
            found = programs.find(args, kwargs)
            if found is None:
                made_up = loss.arguments(imagined(array, rows) for array in arrays)
                found = programs.record(*made_up)
        except CaptureError as error:
            reason = str(error).removeprefix("capture: ")
            continue
        kept[rows] = found
        given = found.gather(tree.flatten((args, kwargs))[0])
        places = [(at, loss.data.index(place)) for at, place in found.from_arguments if place in loss.data]
        for at, _ in places:
            given[at] = None
        kinds[rows] = Kind(
            found.program,
            tuple(((rows, *array.shape[1:]), array.dtype) for array in arrays),
            given,
            tuple(places),
            tuple(at for at, _ in found.keys),
            tuple(at for _, at in found.leaves if at >= 0),
        )
    return Captured(kept, kinds, most if kinds else 0, reason, whole=bool(every) and len(kinds) == len(every))


def imagined(array: Any, rows: int, *, plain: bool = False) -> Any:
    """Return made-up rows of a Dask array: numbers between 0 and 1, False, zeros; `plain`: all alike, without memory."""
    shape = rows, *array.shape[1:]
    if array.dtype.kind not in "fc":
        made = np.broadcast_to(np.zeros((), array.dtype), shape)
    elif plain:
        made = np.broadcast_to(np.ones((), array.dtype), shape)
    else:
        made = np.resize(np.random.default_rng(0).uniform(size=min(4099, math.prod(shape))).astype(array.dtype), shape)
    backend = backend_of(array._meta)
    return made if backend is None else backend.asarray(made if plain else np.array(made))


def filled(aux: Any, kept: dict[int, Kept], parameters: int) -> Any:
    """Return auxiliary values as the loss gave them, of those that a program has computed."""
    if not isinstance(aux, Filled):
        return aux
    results = kept[aux.rows].program.results
    assert results is not None
    values = iter(aux.values)
    leaves: list[Any] = [None] * (1 + parameters)
    for leaf in results.leaves[1 + parameters :]:
        if isinstance(leaf, Number):
            leaves.append(float(next(values)))
        elif isinstance(leaf, Leaf):
            leaves.append(next(values) if leaf.raw else ag.asarray(next(values)))
        else:
            leaves.append(leaf)
    return tree.unflatten(results.treedef, leaves)[1]


# -- the call ---------------------------------------------------------------------------------------------------------


def compute(step: Step, plan: Grouping, array: Any) -> Part | None:
    """Run all groups and add up what they give, by the scheduler that Dask would use."""
    schedule = get_scheduler(collections=[array])
    owner = getattr(schedule, "__self__", None)
    client: Any = owner if hasattr(owner, "scatter") else None
    sent = None if client is None else client.scatter(step, hash=False)  # once; its tasks refer to it
    with uncollected():
        tasks, level = _tasks(step, plan, None if sent is None else sent.key)
    progress = dask.config.get("agrad.progress", False)
    found: list[Part | None]
    if client is None:
        with computing.bar(len(tasks)) if progress else contextlib.nullcontext():
            found = schedule(tasks, level)
    else:
        with computing.seceded():
            made = client.get(tasks, level, sync=False, retries=dask.config.get("agrad.retries", 0) or None)
            if progress:
                computing.show(made)
            found = client.gather(made)
    return found[0]


def _tasks(step: Step, plan: Grouping, place: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Return the tasks of a call, and the key of the last; `place` is where the step is, None if that is one of them."""
    unique = uuid.uuid4().hex
    tasks = dict(plan.shared)
    if place is None:
        place = f"step-{unique}"
        tasks[place] = DataNode(place, step)
    level: list[Any] = []
    ref = TaskRef(place)
    for i, group in enumerate(plan.groups):
        key = (f"value_and_grad-{unique}", i)
        tasks[key] = Task(key, run_group, ref, group, *map(TaskRef, group.needs))
        level.append(key)
    add = functools.partial(combine, step.reduce)
    height = 0
    while not height or len(level) > 1:
        several = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [(f"add-{unique}", height, i) for i in range(len(several))]
        tasks.update((key, Task(key, add, *map(TaskRef, part))) for key, part in zip(level, several, strict=True))
        height += 1
    return tasks, level


def data_of(leaf: Any) -> Any:
    """Return the Dask array that a leaf is, None for any other leaf."""
    raw = leaf._raw if isinstance(leaf, Tensor) else leaf
    backend = backend_of(raw)
    return raw if backend is not None and backend.name == "dask" else None


def value_and_grad(
    loss: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    reduce: str = "mean",
    after: Callable[[Tensor], Tensor] | None = None,
    check: bool = True,
    capture: bool = True,
) -> Callable[..., Any]:
    """Return the function that computes value and gradient of a loss over the rows of Dask arrays, in one pass.

    The loss is captured, forward and backward, and its program runs once per chunk, in memory; only value and gradients
    leave the chunk. Neighbouring chunks of together at most 128 KiB share a run; larger chunks take a run for each 2 MiB
    or so, unless the parameters are not small beside that.

    Parameters
    ----------
    loss : callable
        Takes parameters and rows of data, returns a 0-d tensor: an ordinary function of agrad on tensors in memory.
        It must add up over rows, see `reduce`. With `has_aux`, returns a pair of that and auxiliary values.
    argnums : int or tuple of int, optional
        By which arguments; negative ones count from the end.
    has_aux : bool, optional
        The loss returns ``(value, aux)``.
    reduce : {"mean", "sum"}, optional
        How the loss of all rows follows from those of the chunks: it is their mean, weighted by their rows, or their
        sum. What does not depend on rows, such as a penalty on the parameters, counts once under "mean" and once per
        chunk under "sum" (so the check refuses it there).
    after : callable, optional
        A function of the reduced loss, from a 0-d tensor to one: `agrad.sqrt` makes the mean square a root mean square,
        still in one pass. The gradients are those of its result.
    check : bool, optional
        Check on some rows of three chunks that the loss adds up so, at the parameters of the first call and at others
        near them, and on those of one chunk at the second, fourth, eighth call and so on. A loss that draws random
        numbers is not checked. Without the check, and with `has_aux`, every run of the loss sees exactly one chunk,
        however small.

    capture : bool, optional
        Call the loss here, once for each number of rows that runs have, on rows that are made up (numbers between 0 and
        1, zeros for integers), and run the program of what it does in the chunks. False: call the loss itself in every
        chunk, as also where no program can hold it; then neighbours of together at most 2 MiB share a run.

    Returns
    -------
    callable
        Takes the arguments of `loss` and gives ``(value, gradient)``, with `has_aux` ``((value, [aux, ...]),
        gradient)`` with one entry per chunk that has rows. All of it is computed, and in memory: as arrays and scalars
        where arguments are such, by the rule of the transforms in agrad.func, else as tensors without a history.

        Every Dask array among its arguments (tensor or raw, also inside containers and keyword arguments) is data: the
        loss gets its rows, chunk by chunk, as tensors. Those of one call have the same length; they are cut at the
        chunks of the largest. Other arguments are given to every chunk as they are: NumPy arrays, tensors, containers.

    Raises
    ------
    ValueError
        If `reduce` is unknown. When called: if no argument is a Dask array, if their rows differ, if they have none, or
        if the loss does not add up over rows as far as the check can see.
    TypeError
        When called: if a parameter is a Dask array, or the loss returns something else than a tensor.
    CompileError
        When called: if the loss depends on Python state that nothing sees; see below.
    RuntimeError
        When called: if the loss is no real scalar, or a parameter has no derivative; under
        `agrad.autograd.detect_anomaly` if a backward pass makes NaN.

    Notes
    -----
    Batch normalisation or a softmax over the rows need all rows at once and cannot run so; call them on Dask tensors,
    then ``backward()``. A function of one mean or sum can, with that function as `after`: a root mean square.

    The value does not depend on the scheduler or on which chunk is ready first: sums are formed in one order, and random
    numbers (dropout) follow from `agrad.manual_seed`, the number of calls and the number of the chunk. An error names
    the chunk.

    A program means what the loss means, by the rules of `agrad.compile`: tensors and plain values that the loss reads
    from closures, globals and attributes are looked up at every call. The second, fourth, eighth call and so on
    compare it with the loss itself, on rows that are made up. Workers of a cluster need no module of the caller's. The
    loss itself runs in every chunk where no program can hold it (it chooses its way by a value, makes shapes that
    depend on values, writes to tensors around it, or fails on made-up rows), which a `CompileWarning` tells once; where
    chunks have unknown sizes; for numbers of rows beyond the 16 most frequent; and under
    `agrad.autograd.detect_anomaly`. What it does to objects around it then happens in the task, and on a cluster in another
    process.

    How the data is read is worked out at the first call with the same arrays and remembered with them: call it with the
    same array objects rather than with new expressions. ``dask.config.set({"agrad.progress": True})`` shows how far it is.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> import dask.array as da
    >>> def loss(w, X, y):
    ...     return ag.mean((X @ w - y) ** 2)
    >>> X = da.ones((1000, 2), chunks=(100, 2))
    >>> step = agrad_dask.value_and_grad(loss, reduce="mean")
    >>> value, gradient = step(ag.asarray([1.0, 2.0]), X, da.zeros(1000, chunks=100))
    >>> round(value.item(), 9), [round(g, 9) for g in gradient.tolist()]
    (9.0, [6.0, 6.0])
    """
    if reduce not in ("mean", "sum"):
        raise ValueError(f'reduce is "mean" or "sum", got {reduce!r}{called()}')
    calls, told = 0, False

    @functools.cache
    def made_for(chosen: tuple[int, ...]) -> tuple[Loss, Compiled]:
        differentiated = Loss(loss, chosen, reduce, has_aux)

        def run(*args: Any, **kwargs: Any) -> Any:  # captures look for state in what this leads to: not in classes
            return Loss.run(differentiated, args, kwargs)

        return differentiated, Compiled(functools.wraps(loss)(run), check=False, explain=False, **HOW)

    @functools.wraps(loss)
    def both(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls, told
        leaves, structure = tree.flatten((args, kwargs))
        chosen = check_argnums(argnums, len(args))
        differentiated, programs = made_for(chosen)
        places = differentiated.places(structure)
        data = tuple(i for i, leaf in enumerate(leaves) if data_of(leaf) is not None)
        raw = is_raw(*leaves)
        gives = givers([leaves[place] for place in places], [structure.children[0].children[k] for k in chosen])
        for leaf in leaves:
            _check_constant(leaf)
        for place in places:
            leaves[place] = _parameter(leaves[place])
        if not data:
            raise ValueError(
                f"no argument is a Dask array; in memory, agrad.func.value_and_grad does the same{called()}"
            )
        arrays = [data_of(leaves[place]) for place in data]
        for place in data:
            leaves[place] = None
        rows = Rows(differentiated, leaves, structure, places, data)
        key = random.default_generator.key()
        anomaly = ag.autograd.is_anomaly_check_nan_enabled()
        join = check and not has_aux
        runs = NOTHING
        if capture and not anomaly:
            plan = grouping_of(arrays, PROGRAM_BYTES * join)
            if not any(math.isnan(n) for array in arrays for n in array.shape[1:]):
                compare = calls > 0 and not calls & (calls + 1)
                runs = Context().run(_captured, programs, rows, arrays, plan, key, join, compare)
        if not runs.kinds:
            plan = grouping_of(arrays, RUN_BYTES * join)
        step = Step(
            rows,
            str(differentiated),
            reduce,
            has_aux,
            runs.kinds,
            parameters=len(places),
            key=key,
            dtype=ag.get_default_dtype().name,
            chunks=plan.chunks,
            check=frozenset(additive.due(plan.checked, calls) if check else ()),
            call=calls,
            anomaly=anomaly,
            sent=not runs.whole,
            most=runs.most,
        )
        try:
            found = compute(step, plan, arrays[0])
            if found is None:
                raise ValueError(f"the data has no rows{called()}")
            for chunk, sample in found.samples:
                Context().run(_check, step, chunk, sample)
        except Exception as error:
            _note_uncut(error, arrays[0].shape[0], (leaf for i, leaf in enumerate(leaves) if i not in (*places, *data)))
            raise
        calls += 1
        if runs.reason and not told:
            told = True
            warnings.warn(
                f"agrad_dask.value_and_grad runs {differentiated} as it is in every chunk, not as a program: {runs.reason}",
                CompileWarning,
                stacklevel=2,
            )
        made = [ag.asarray(g) for g in found.gradients]
        value = ag.asarray(found.value)
        if after is not None:  # by the chain rule: one number, applied where the gradients are few
            value, slope = func.value_and_grad(after)(value)
            made = [g * ag.astype(slope, g.dtype) for g in made]
        each = iter(give_all(gives, made))
        counts = [child.num_leaves for child in structure.children[0].children]
        gradients = [
            tree.unflatten(structure.children[0].children[k], itertools.islice(each, counts[k])) for k in chosen
        ]
        returned = (value, [filled(aux, runs.kept, len(places)) for aux in found.aux]) if has_aux else value
        return bare_all(returned) if raw else returned, gradients[0] if isinstance(argnums, int) else tuple(gradients)

    return both


def _captured(
    programs: Compiled,
    loss: Rows,
    arrays: list[Any],
    plan: Grouping,
    key: tuple[int, int],
    split: bool,
    compare: bool,
) -> Captured:
    """Call `captured` as tasks run."""
    with np.errstate(all="ignore"), random.using(ChunkGenerator(key)):
        return captured(programs, loss, arrays, plan, split=split, compare=compare)


def _check(step: Step, chunk: Chunk, sample: list[Any]) -> None:
    """Call `Step.check_additive` for rows that came from another process."""
    source = ChunkGenerator(step.key)
    with random.using(source):
        try:
            step.check_additive(sample, source)
        except Exception as error:
            error.add_note(_where(step, chunk))
            raise


def _note_uncut(error: Exception, rows: float, others: Iterable[Any]) -> None:
    """Say which arguments have as many rows as the data and went to every chunk whole."""
    for leaf in others:
        shape = getattr(leaf, "shape", ())
        if shape and shape[0] == rows:
            error.add_note(
                f"An argument of shape {tuple(shape)} has as many rows as the data, and is no Dask array: every chunk got all of"
                " it. Only Dask arrays are cut by rows: pass dask.array.from_array(y, chunks=...), with the data's chunks."
            )


def _check_constant(leaf: Any) -> None:
    """Refuse an argument by which a transform outside differentiates: what comes back has no history."""
    if isinstance(leaf, Tensor) and leaf._is_followed() and (mode.transforming.get() or leaf._tangents):
        raise RuntimeError(
            "agrad_dask.value_and_grad cannot be differentiated: its value and gradient have no history. Detach the"
            f" argument, x.detach(), or call the loss itself on Dask tensors, which records it.{called()}"
        )


def _parameter(leaf: Any) -> Any:
    """Return a parameter as a raw array in memory."""
    if data_of(leaf) is not None:
        raise TypeError(
            "a parameter is a Dask array; parameters are in memory, only data is in chunks. Compute it, for instance"
            f' with x.to_device("numpy"){called()}'
        )
    tensor = leaf if isinstance(leaf, Tensor) else ag.asarray(leaf)
    if not tensor._spec.inexact:
        raise errors.inexact_only(tensor.dtype)
    return tensor.detach()._raw
