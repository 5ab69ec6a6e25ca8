"""One task per chunk: a loss that adds up over rows runs whole, forward and backward, inside every chunk of the data.

Recorded on Dask tensors, such a loss gives ten to thirty tasks per chunk, which are built, optimised and fused anew at
every step. Here the rows of a chunk are computed, the loss runs on them as it would in memory, on a tape of its own, and only its
value and the gradients leave the task; a tree of tasks adds them up. What depends on the data alone (how it is read,
which chunks share a task) is worked out once and remembered with the data (`Grouping`); per call only the parameters
(`Step`) are new. They are one node of the graph, which every task refers to.

May import Dask; is imported when `agrad_dask.value_and_grad` is first asked for.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
from agrad.core.node import ancestors
from agrad.core.tensor import Tensor
from agrad.func.arguments import Argnums, bare_all, check_argnums, give_all, givers, is_raw, name_of, split_aux
from agrad_dask import computing
from agrad_dask.fusing import depth_first, direct, last_uses

#: Neighbouring chunks share a task while they have at most this many bytes together; the task reads them in turn.
GROUP_BYTES = 2**24
#: In a task, neighbours of at most this many bytes together share one run of the loss: each run costs some tenths of a
#: millisecond, however few rows it has.
RUN_BYTES = 2**21
#: Tasks are made smaller than `GROUP_BYTES` where there would be fewer than about this many to share out.
GROUPS = 64
#: How many partial sums one task adds up.
FAN_IN = 8
#: How many rows of a chunk the check that a loss adds up looks at.
CHECKED_ROWS = 48
#: At how many points near the first parameters it looks: at the start of a model, often zeros, many losses add up by chance.
NEARBY = 3
#: How far away these points are, in multiples of each parameter (of 1 where it is 0). The nearer ones are tried if the loss
#: is not finite farther away.
STEPS = 0.5, 2.0**-5, 2.0**-10
#: A loss fails the check if the sum of its parts is off by more than this many times its rounding error.
NOISE = 16

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
    steps : list of Do
        What the task does, in order.
    needs : tuple of keys
        Tasks that other groups need too: they stay tasks of their own.
    """

    steps: list[Do]
    needs: tuple[Any, ...]

    def __dask_tokenize__(self) -> str:
        return str(id(self))  # its task has a key of its own: no look at the contents is worth while


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which chunks share a task: it depends on the data, and on whether small chunks may be joined.

    Attributes
    ----------
    made_of : tuple
        Whether small chunks may be joined, and the names of the arrays.
    checked : tuple of int
        In which chunks to check that a loss adds up.
    """

    made_of: tuple[bool, tuple[str, ...]]
    groups: list[Group]
    shared: dict[Any, Any]
    chunks: int
    checked: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Step:
    """What all tasks of one call share: the loss, and all its arguments except the data.

    Attributes
    ----------
    leaves : list
        Of the arguments: raw parameters, None in place of data, the rest as given.
    places : tuple of int
        Where the parameters stand among the leaves.
    data : tuple of int
        Where the data stands.
    flat : bool
        The leaves are the arguments: nothing stands in a container.
    key : tuple of int
        From which every chunk gets random numbers of its own.
    check : frozenset of int
        In which chunks to check that the loss adds up.
    call : int
        How many calls there have been.
    anomaly : bool
        Whether to look for NaN on the way back, as where the call stands.
    """

    loss: Callable[..., Any]
    reduce: str
    has_aux: bool
    leaves: list[Any]
    structure: tree.TreeDef
    places: tuple[int, ...]
    data: tuple[int, ...]
    flat: bool
    key: tuple[int, int]
    dtype: str
    chunks: int
    check: frozenset[int]
    call: int
    anomaly: bool

    def __repr__(self) -> str:  # what distributed shows where it cannot be pickled, as a rule because of the loss
        return f"<Step: {_described(self.loss)} and its arguments>"

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
        digest = hashlib.blake2b(repr((*self.of, self.number)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little"), super().key()[1]


class Part(NamedTuple):
    """What some rows contribute: their number, the value and gradients (sums or means over them), auxiliary values."""

    rows: int
    value: Any
    gradients: list[Any]
    aux: list[Any]


# -- in the tasks -----------------------------------------------------------------------------------------------------


def run_group(step: Step, group: Group, *shared: Any) -> Part | None:
    """Read chunks and run the loss on each; None if they have no rows."""
    if ag.get_default_dtype() != step.dtype:  # another process, which computes for this one
        ag.set_default_dtype(step.dtype)
    values = dict(zip(group.needs, shared, strict=True))
    total = Total(step)
    chunk = group.steps[0].chunk
    looking = ag.autograd.detect_anomaly() if step.anomaly else contextlib.nullcontext()
    with ag.enable_grad(), random.using(total.source), looking:
        try:
            for task, key, needs, chunk, done in group.steps:
                if task is None:
                    total.add(chunk, [joined([values[key] for key in keys]) for keys in chunk.blocks])
                else:
                    values[key] = task({need: values[need] for need in needs})
                for other in done:
                    del values[other]
        except Exception as error:
            error.add_note(_where(step, chunk))
            raise
    return total.part()


def joined(blocks: list[Any]) -> Any:
    """Put the rows of neighbouring chunks together."""
    return blocks[0] if len(blocks) == 1 else ag.concat([ag.asarray(block) for block in blocks])._raw


def _where(step: Step, chunk: Chunk) -> str:
    rows = "" if math.isnan(chunk.start) else f" (rows {chunk.start} to {chunk.stop - 1})"
    which = f"chunk {chunk.number + 1}"
    if chunk.last > chunk.number:
        which = f"chunks {chunk.number + 1} to {chunk.last + 1}"
    return (
        f"Raised in {which} of {step.chunks}{rows} of {_described(step.loss)}, which agrad_dask.value_and_grad runs once"
        " per chunk."
    )


def _described(loss: Callable[..., Any]) -> str:
    code = getattr(loss, "__code__", None)
    return f"the loss {name_of(loss)}" + (f" ({code.co_filename}:{code.co_firstlineno})" if code else "")


class Total:
    """Runs the loss on the chunks of one task and adds up what they give; means by rows, in units of the first's."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.source = ChunkGenerator(step.key)
        leaves = list(step.leaves)
        self.parameters = [ag.asarray(leaves[place]).detach().requires_grad_() for place in step.places]
        for place, value in zip(step.places, self.parameters, strict=True):
            leaves[place] = value
        self.targets: dict[Any, int] = {t._node: i for i, t in enumerate(self.parameters)}
        self.leaves = leaves
        self.rows = self.unit = 0
        self.value: Any = None
        self.gradients: list[Any] = [None] * len(self.parameters)
        self.aux: list[Any] = []

    def run(self, blocks: Iterable[Any], parameters: Iterable[Tensor] = ()) -> tuple[Tensor, Any]:
        """Run the loss on blocks, at other parameters if given; return its value and the auxiliary one."""
        step = self.step
        leaves = self.leaves.copy()
        for place, parameter in zip(step.places, parameters, strict=False):
            leaves[place] = parameter
        for place, block in zip(step.data, blocks, strict=True):
            leaves[place] = ag.asarray(block)
        if step.flat:
            value = step.loss(*leaves)
        else:
            args, kwargs = tree.unflatten(step.structure, leaves)
            value = step.loss(*args, **kwargs)
        value, aux = split_aux(value, "value_and_grad(loss)(*args)") if step.has_aux else (value, None)
        if not isinstance(value, Tensor):
            raise TypeError(f"the loss must return a 0-d tensor, not {type(value).__name__}")
        if value.ndim:
            raise RuntimeError(
                f"the loss must return a scalar, got a tensor of shape {value.shape}: reduce it, for instance with"
                f" .{step.reduce}()"
            )
        if value.is_complex():
            raise RuntimeError(f"the loss must return a real scalar, got {value.dtype}")
        return value, aux

    def add(self, chunk: Chunk, blocks: list[Any]) -> None:
        """Run the loss on a chunk, forward and backward."""
        rows = len(blocks[0])
        for block in blocks:
            if len(block) != rows:
                raise ValueError(f"the arrays have different numbers of rows here: {[len(b) for b in blocks]}")
        if not rows:
            return
        step = self.step
        self.source.begin(chunk.number)
        value, aux = self.run(blocks)
        if chunk.number in step.check and not self.source.counter:
            check_additive(self, blocks, value)
        self.unit = self.unit or rows
        share = rows / self.unit if step.reduce == "mean" else 1.0
        root = value._node
        if root is not None:
            seed = cotangent_for(0, root, None if share == 1.0 else ag.full_like(value.detach(), share))
            found = engine.run(
                [(root, seed)], retain_graph=False, create_graph=False, targets=self.targets, accumulate=False
            )
            for node, g in found.items():
                self.accumulate(self.targets[node], g._raw if isinstance(g, Tensor) else g)
        raw = value._raw * share
        self.value = raw if self.value is None else self.value + raw
        self.rows += rows
        if step.has_aux:
            self.aux.append(tree.map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, aux))

    def accumulate(self, i: int, g: Any) -> None:
        """Add to the gradient by a parameter."""
        spec, kept = self.parameters[i]._spec, self.gradients[i]
        if kept is None:  # a copy: it is written to, and a rule may give a view of the chunk or what others hold
            self.gradients[i] = spec.backend.asarray(g, copy=True)
        else:
            self.gradients[i] = spec.xp.add_into(kept, g, kept)

    def part(self) -> Part | None:
        """Return the sums, or means."""
        if not self.rows:
            return None
        for i, t in enumerate(self.parameters):
            if self.gradients[i] is None:  # the loss does not depend on it
                self.gradients[i] = t._spec.backend.functions.zeros_like(t.detach())._raw
        weight = self.rows / self.unit if self.step.reduce == "mean" else 1.0
        if weight == 1.0:
            return Part(self.rows, self.value, self.gradients, self.aux)
        return Part(self.rows, self.value / weight, [g / weight for g in self.gradients], self.aux)


Losses = Callable[[Sequence[Tensor], Sequence[Tensor]], list[float]]


def check_additive(total: Total, blocks: Sequence[Any], value: Tensor) -> None:
    """Refuse a loss whose value on some rows does not follow from its values on two parts of them.

    Such are a standard deviation, a maximum, a root mean square, batch normalisation, a softmax over the rows, and a
    mean where a sum was announced. The rows come from all over the chunk, which may be sorted, and the parameters are
    also moved: at zeros the rows of many models are all alike. What draws random numbers cannot be compared.

    Parameters
    ----------
    total : Total
        Has run the loss on the chunk.
    blocks : sequence of array
        The chunk.
    value : Tensor
        What the loss gave, with its history.
    """
    count = min(len(blocks[0]), CHECKED_ROWS)
    if count < 2:
        return
    cut = max(1, count // 3)
    some = [ag.asarray(block[:: len(block) // count][:count]) for block in blocks]

    def losses(parameters: Sequence[Tensor], rows: Sequence[Tensor]) -> list[float]:
        parts = slice(0, count), slice(0, cut), slice(cut, count)
        return [float(total.run([whole[part] for whole in rows], parameters)[0]) for part in parts]

    rng = np.random.default_rng(total.step.call)
    small = 0.3 * math.sqrt(ag.finfo(value.dtype).eps) if value._spec.inexact else 0.0
    given = total.parameters
    with ag.no_grad():
        try:
            places = [(given, losses(given, some))]
        except Exception as error:
            error.add_note(
                f"Raised by the check that the loss adds up over rows, which runs it on {count}, {cut} and"
                f" {count - cut} rows. A loss that takes whole chunks only: value_and_grad(..., check=False)."
            )
            raise
        for _ in range(1 if total.step.call else NEARBY):
            places += _nearby(losses, given, some, rng)

    def fits(reduce: str, found: Sequence[float]) -> bool:
        return abs(found[0] - _combined(reduce, cut / count, found)) <= small * sum(map(abs, found))

    reduce, other = total.step.reduce, "mean" if total.step.reduce == "sum" else "sum"
    for parameters, found in places:
        if fits(reduce, found) or not all(map(math.isfinite, found)):
            continue
        combined = _combined(reduce, cut / count, found)
        if abs(found[0] - combined) <= NOISE * _noise(losses, found, value, parameters, some) or total.source.counter:
            continue
        if all(fits(other, each) for _, each in places):
            fix = f'It is the {other}: pass reduce="{other}".'
        else:
            fix = (
                "What needs all rows at once (a standard deviation or maximum over the rows, batch normalisation, a"
                " softmax over the rows) cannot run chunk by chunk: call the loss on Dask tensors, then backward(). A"
                " function of one mean or sum can: of a root mean square, reduce the mean square and pass"
                " after=agrad.sqrt."
            )
        where = "" if parameters is given else ", near the parameters given if not at these themselves"
        raise ValueError(
            f"the loss of all rows is not the {reduce} of the losses of their parts: {count} rows give {found[0]:.9g},"
            f" parts of {cut} and {count - cut} rows together {combined:.9g}{where}.\n  {fix}"
        )


def _combined(reduce: str, share: float, found: Sequence[float]) -> float:
    """What two parts give together; the first has this share of the rows."""
    _, first, second = found
    return first + second if reduce == "sum" else share * first + (1 - share) * second


def _tried(losses: Losses, parameters: Sequence[Tensor], rows: Sequence[Tensor]) -> list[float] | None:
    """Run the loss at parameters that the caller did not give; None where it is not defined."""
    with np.errstate(all="ignore"):
        try:
            found = losses(parameters, rows)
        except Exception:  # noqa: BLE001 (whatever it is, it is no fault of the parameters given)
            return None
    return found if all(map(math.isfinite, found)) else None


def _nearby(
    losses: Losses, given: Sequence[Tensor], rows: Sequence[Tensor], rng: np.random.Generator
) -> list[tuple[Sequence[Tensor], list[float]]]:
    """Return parameters near those given, and the losses there; none where it is defined at none that was tried."""
    for far, low in itertools.product(STEPS, (-1, 0, None)):
        parameters = [_moved(t, far, rng, low=low) for t in given]
        found = _tried(losses, parameters, rows)
        if found is not None:
            return [(parameters, found)]
    return []


def _moved(t: Tensor, far: float, rng: np.random.Generator, *, low: int | None = -1) -> Tensor:
    """Move the elements of a tensor at random, by at most so many times their size; zeros by that of the others, or 1.

    Parameters
    ----------
    low : {-1, 0, None}
        In both directions, upwards, or downwards.
    """
    if not t._spec.inexact:
        return t
    by = far * rng.uniform(*((-1, 0) if low is None else (low, 1)), t.shape)
    if t.is_complex():
        by = by * np.exp(2j * math.pi * rng.uniform(size=t.shape))
    size = ag.abs(t)
    others = int(ag.count_nonzero(t))
    size = ag.where(size == 0, float(ag.sum(size)) / others if others else 1.0, size)
    return t + ag.asarray(by, dtype=t.dtype, device=t.device) * size


def _noise(
    losses: Losses, found: list[float], value: Tensor, parameters: Sequence[Tensor], rows: Sequence[Tensor]
) -> float:
    """Return the rounding error of losses: how far they move in double precision, and with other last digits.

    The last digits are those of the coarsest dtype among inputs and intermediate values.
    """
    specs = [t._spec for t in (value, *parameters, *rows)]
    specs += itertools.chain.from_iterable(node.out_specs for node in ancestors([value._node] if value._node else []))
    last = 8 * max(ag.finfo(spec.dtype).eps for spec in specs if spec.inexact)
    rng = np.random.default_rng(0)
    changes: list[Callable[[Tensor], Tensor]] = [lambda t: t, _double, *[lambda t: _moved(t, last, rng)] * 4]
    with ag.no_grad():
        again = [_tried(losses, list(map(change, parameters)), list(map(change, rows))) for change in changes]
    return max((abs(x - y) for other in again if other for x, y in zip(found, other, strict=True)), default=0.0)


def _double(t: Tensor) -> Tensor:
    return t if not t._spec.inexact else ag.astype(t, "complex128" if t.is_complex() else "float64")


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
    aux = list(itertools.chain.from_iterable(part.aux for part in some))
    return Part(rows, total([part.value for part in some]), gradients, aux)


# -- the plan ---------------------------------------------------------------------------------------------------------


def grouping_of(arrays: Sequence[Any], *, join: bool) -> Grouping:
    """Return the plan for data arrays, made once and kept with the first of them."""
    made_of = join, tuple(array.name for array in arrays)
    kept: Grouping | None = getattr(arrays[0], "_agrad_grouping", None)
    if kept is None or kept.made_of != made_of:
        kept = make_grouping(made_of, aligned(arrays))
        arrays[0]._agrad_grouping = kept
    return kept


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


def make_grouping(made_of: tuple[bool, tuple[str, ...]], arrays: Sequence[Any]) -> Grouping:
    """Share the chunks, and the tasks that compute them, out to groups."""
    graph = convert_legacy_graph(dict(dask.optimize(*arrays)[0].__dask_graph__()))
    sizes = arrays[0].chunks[0]
    ends = [0, *itertools.accumulate(sizes)]
    chunks = [
        Chunk(i, i, tuple(((a.name, i, *(0,) * (a.ndim - 1)),) for a in arrays), ends[i], ends[i + 1])
        for i in range(len(sizes))
    ]
    row = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays)
    grouped = _grouped(chunks, row)
    if made_of[0]:
        grouped = [_joined(members, row) for members in grouped]
    private = _private(graph, grouped)
    groups = [_scheduled(graph, members, mine) for members, mine in zip(grouped, private, strict=True)]
    inside = set().union(*private)
    shared = _reached(graph, (k for g in groups for k in g.needs), inside)
    return Grouping(made_of, groups, shared, len(chunks), _checked([chunk for members in grouped for chunk in members]))


def _checked(chunks: list[Chunk]) -> tuple[int, ...]:
    """Choose three of the chunks with enough rows (or of the longest): the first, the middle one and the last.

    Those of unknown sizes may have none: then some more.
    """
    if math.isnan(chunks[-1].stop):
        return tuple(sorted({0, len(chunks) - 1, *(2**i for i in range((len(chunks) - 1).bit_length()))}))
    rows = [min(chunk.stop - chunk.start, CHECKED_ROWS) for chunk in chunks]
    enough = [chunk.number for chunk, n in zip(chunks, rows, strict=True) if n == max(rows)]
    return tuple(dict.fromkeys(enough[i] for i in (0, len(enough) // 2, -1)))


def _grouped(chunks: list[Chunk], row: float) -> list[list[Chunk]]:
    """Share chunks out to tasks; how does not depend on the machine, so neither do the last bits of a sum."""
    if math.isnan(chunks[-1].stop):
        return [[chunk] for chunk in chunks]
    return _neighbours(chunks, row, min(GROUP_BYTES, chunks[-1].stop * row / GROUPS))


def _joined(chunks: list[Chunk], row: float) -> list[Chunk]:
    """Join the small chunks of a task."""
    if math.isnan(chunks[-1].stop):
        return chunks
    several = _neighbours(chunks, row, RUN_BYTES)
    return [
        Chunk(
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


def _private(graph: dict[Any, Any], grouped: list[list[Chunk]]) -> list[set[Any]]:
    """Return for each group the tasks that no other needs."""
    owner: dict[Any, int] = {}
    several = -1
    for number, members in enumerate(grouped):
        stack = [key for chunk in members for key in chunk.wanted()]
        while stack:
            key = stack.pop()
            found = owner.get(key, number)
            if key not in graph or found == several or (found == number and key in owner):
                continue
            owner[key] = number if found == number else several
            stack.extend(graph[key].dependencies)
    private: list[set[Any]] = [set() for _ in grouped]
    for key, number in owner.items():
        if number != several:
            private[number].add(key)
    return private


def _scheduled(graph: dict[Any, Any], members: list[Chunk], mine: set[Any]) -> Group:
    """Put a group's tasks and chunks in order, and note after which step each value is no longer needed."""
    order: list[tuple[Any, Any, tuple[Any, ...], Chunk]] = []
    left = set(mine)
    for chunk in members:
        own = depth_first(graph, [key for key in chunk.wanted() if key in left], left)
        order += [(direct(node), node.key, tuple(node.dependencies), chunk) for node in own]
        order.append((None, None, tuple(chunk.wanted()), chunk))
        left.difference_update(node.key for node in own)
    needs = [keys for _, _, keys, _ in order]
    steps = [
        Do(*what, tuple(key for key in gone if key in mine)) for what, gone in zip(order, last_uses(needs), strict=True)
    ]
    return Group(steps, tuple(dict.fromkeys(key for keys in needs for key in keys if key not in mine)))


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


# -- the call ---------------------------------------------------------------------------------------------------------


def compute(step: Step, plan: Grouping, array: Any) -> Part | None:
    """Run all groups and add up what they give, by the scheduler that Dask would use."""
    schedule = get_scheduler(collections=[array])
    unique = uuid.uuid4().hex
    tasks = dict(plan.shared)
    owner = getattr(schedule, "__self__", None)
    client: Any = owner if hasattr(owner, "scatter") else None
    if client is not None:  # sent once; its tasks refer to it
        sent = client.scatter(step, hash=False)
        place = sent.key
    else:
        place = f"step-{unique}"
        tasks[place] = DataNode(place, step)
    level: list[Any] = []
    for i, group in enumerate(plan.groups):
        key = (f"value_and_grad-{unique}", i)
        tasks[key] = Task(key, run_group, TaskRef(place), group, *map(TaskRef, group.needs))
        level.append(key)
    add = functools.partial(combine, step.reduce)
    for height in itertools.count():
        several = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = []
        for i, members in enumerate(several):
            key = (f"add-{unique}", height, i)
            tasks[key] = Task(key, add, *map(TaskRef, members))
            level.append(key)
        if len(level) == 1:
            break
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


def _due(checked: tuple[int, ...], calls: int) -> tuple[int, ...]:
    """Return the chunks to check after so many calls: all at first, one at the second, fourth, eighth call..."""
    if not calls:
        return checked
    return (checked[calls.bit_length() % len(checked)],) if not calls & (calls + 1) else ()


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
) -> Callable[..., Any]:
    """Return the function that computes value and gradient of a loss over the rows of Dask arrays, in one pass.

    The loss runs once per chunk, in memory, forward and backward; only its value and the gradients leave the chunk.
    Neighbouring chunks of together at most 2 MiB share a run.

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
    RuntimeError
        When called: if the loss is no real scalar, or a parameter has no derivative; under
        `agrad.autograd.detect_anomaly` if a backward pass makes NaN.

    Notes
    -----
    Batch normalisation or a softmax over the rows need all rows at once and cannot run so; call them on Dask tensors,
    then ``backward()``. A function of one mean or sum can, with that function as `after`: a root mean square.

    The value does not depend on the scheduler or on which chunk is ready first: sums are formed in one order, and random
    numbers (dropout) follow from `agrad.manual_seed`, the number of calls and the number of the chunk. An error names
    the chunk. What the loss does to objects around it (running statistics of a module, lists) happens in the task, and
    on a cluster in another process.

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
    calls = 0

    @functools.wraps(loss)
    def both(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        leaves, structure = tree.flatten((args, kwargs))
        counts = [child.num_leaves for child in structure.children[0].children]
        starts = [0, *itertools.accumulate(counts)]
        chosen = check_argnums(argnums, len(args))
        places = tuple(place for k in chosen for place in range(starts[k], starts[k + 1]))
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
        plan = grouping_of(arrays, join=check and not has_aux)
        for place in data:
            leaves[place] = None
        step = Step(
            *(loss, reduce, has_aux, leaves, structure, places, data),
            flat=not kwargs and all(child.kind is None for child in structure.children[0].children),
            key=random.default_generator.key(),
            dtype=ag.get_default_dtype().name,
            chunks=plan.chunks,
            check=frozenset(_due(plan.checked, calls) if check else ()),
            call=calls,
            anomaly=ag.autograd.is_anomaly_check_nan_enabled(),
        )
        try:
            found = compute(step, plan, arrays[0])
        except Exception as error:
            _note_uncut(error, arrays[0].shape[0], (leaf for i, leaf in enumerate(leaves) if i not in (*places, *data)))
            raise
        if found is None:
            raise ValueError(f"the data has no rows{called()}")
        calls += 1
        made = [ag.asarray(g) for g in found.gradients]
        value = ag.asarray(found.value)
        if after is not None:  # by the chain rule: one number, applied where the gradients are few
            value, slope = func.value_and_grad(after)(value)
            made = [g * ag.astype(slope, g.dtype) for g in made]
        each = iter(give_all(gives, made))
        gradients = [
            tree.unflatten(structure.children[0].children[k], itertools.islice(each, counts[k])) for k in chosen
        ]
        returned = (value, found.aux) if has_aux else value
        return bare_all(returned) if raw else returned, gradients[0] if isinstance(argnums, int) else tuple(gradients)

    return both


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
