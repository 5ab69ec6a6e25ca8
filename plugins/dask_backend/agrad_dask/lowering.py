"""One task per chunk: a loss that adds up over rows runs whole, forward and backward, inside every chunk of the data.

Recorded on Dask tensors, such a loss gives ten to thirty tasks per chunk, which are built, optimised and fused anew at
every step. Here the loss is captured once for each number of rows that its runs have (`programs`, `losses`), and its
program runs on the rows of every chunk; only its value and the gradients leave the task, and a tree of tasks adds them:
a `Fold` of the data, like any sum over chunks. `runs` determines these tasks once, and they are remembered with the
data (`TaskPlan`); per call only the parameters (`CallContext`) are new. They are one node of the graph, which every task refers
to.

May import Dask; imported when `agrad_dask.value_and_grad` is first used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import math
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from dask.highlevelgraph import HighLevelGraph

import agrad as ag
from agrad import Tensor, func, random, tree
from agrad.plugin.backend import array_of, backend_of, called, inexact_only, internal, uncollected
from agrad.plugin.programs import (
    Argnums,
    CompileWarning,
    bare_all,
    givers,
    is_raw,
    is_transformed,
    spec_of_value,
)
from agrad_dask import additive, computing, indexing, runs
from agrad_dask.fusing import Adder, Fold, Folded, group_size
from agrad_dask.losses import NOTHING, AuxValues, BoundLoss, ChunkPrograms, Loss, captured, filled
from agrad_dask.programs import BlockProgram, PerShape

#: In a task, neighbours of at most this total size, in bytes, share one run of the loss: each run costs some tenths of
#: a millisecond, however few rows it has.
RUN_BYTES = 2**21
#: The same if a program runs, which costs some hundredths.
PROGRAM_BYTES = 2**17
#: The work of a task is cached for chunks of at most this total size. Planning it takes some 20 us a chunk.
KEPT_BYTES = 2**21

internal(__file__)


# -- in the tasks -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CallContext:
    """The data shared by all tasks of one call.

    Attributes
    ----------
    loss : BoundLoss or None
        The function itself; None in another process, where nothing needs it.
    about : str
        Which function it is.
    caller : str
        The name of the user's call.
    kinds : dict of int to BlockProgram
        By the number of rows, the program for such chunks. Any others call the function.
    parameters : int
        The number of chunks.
    key : tuple of int
        The key from which every chunk derives its own random numbers.
    ends : sequence of float
        The first row of each chunk, and the end of the last one; nan if sizes are unknown.
    check : frozenset of int
        The chunks in which to check that the loss adds up.
    call : int
        The number of calls so far.
    anomaly : bool
        Whether to look for NaN in backward, as at the call.
    sent : bool
        Whether other processes need the function.
    most : int
        The largest number of rows of a run; 0: a run has a whole chunk.
    """

    loss: BoundLoss | None
    about: str
    caller: str
    reduce: str
    has_aux: bool
    kinds: dict[int, BlockProgram]
    parameters: int
    key: tuple[int, int]
    dtype: str
    ends: Sequence[float]
    check: frozenset[int]
    call: int
    anomaly: bool
    sent: bool
    most: int

    def check_additive(self, sample: list[Any], source: random.Generator) -> None:
        """Refuse a loss that does not add up over some rows."""
        assert self.loss is not None
        additive.check(self.loss.value, self.loss.parameters, sample, self.reduce, self.call, source)

    def where(self, chunks: range) -> str:
        """Return the note for an error in some neighbouring chunks."""
        start, stop = self.ends[chunks.start], self.ends[chunks.stop]
        rows = "" if math.isnan(stop) else f" (rows {start} to {stop - 1})"
        which = f"chunk {chunks.stop}" if len(chunks) == 1 else f"chunks {chunks.start + 1} to {chunks.stop}"
        return (
            f"{computing.CHUNK_NOTE} {which} of {len(self.ends) - 1}{rows} of {self.about}, which agrad_dask.{self.caller}"
            " runs once per chunk."
        )

    def __repr__(self) -> str:  # shown by distributed if it cannot be pickled, usually because of the loss
        return f"<CallContext: {self.about} and its arguments>"

    def __reduce__(self) -> Any:
        values = [getattr(self, each.name) for each in fields(self)]
        return CallContext, (values[0] if self.sent else None, *values[1:])

    def __dask_tokenize__(self) -> str:
        return str(id(self))


def joined(blocks: list[Any]) -> Any:
    """Join the rows of neighbouring chunks."""
    return blocks[0] if len(blocks) == 1 else array_of(ag.concat([ag.asarray(block) for block in blocks]))


class ChunkGenerator(random.Generator):
    """The random numbers of consecutive chunks: each chunk has its own, whenever and wherever it runs."""

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


class Contribution(NamedTuple):
    """The contribution of some rows.

    Attributes
    ----------
    rows : int
        Their number.
    found : list of array
        Value and gradients: sums or means over them.
    aux : list
        The auxiliary values of every run: themselves, or `AuxValues`.
    samples : list of (range, list of array)
        Rows on which to check that the loss adds up.
    """

    rows: int
    found: list[Any]
    aux: list[Any]
    samples: list[Any]


class GradientSum:
    """Sums value and gradients over consecutive rows; means are weighted by rows, in units of a number of rows."""

    def __init__(self, reduce: str, unit: int = 0) -> None:
        self.mean, self.unit, self.rows = reduce == "mean", unit, 0
        self.found: list[Any] = []

    def add(self, rows: int, found: Sequence[Any]) -> None:
        """Add the contribution of some rows; the first ones are the unit if there is none."""
        self.unit = self.unit or rows
        self.rows += rows
        if self.mean and rows != self.unit:
            found = [each * (rows / self.unit) for each in found]
        if not self.found:  # copies: they are written to, and may belong to other code
            self.found = [found[0], *(backend_of(g).asarray(g, copy=True) for g in found[1:])]
            return
        self.found[0] = self.found[0] + found[0]
        for i, g in enumerate(found[1:], 1):
            self.found[i] += g

    def part(self, aux: list[Any], samples: list[Any]) -> Contribution | None:
        """Return the sums, or means; None if there were no rows."""
        if not self.rows:
            return None
        weight = self.rows / self.unit if self.mean else 1.0
        return Contribution(
            self.rows, self.found if weight == 1.0 else [each / weight for each in self.found], aux, samples
        )


class Total:
    """Runs the loss on the chunks of one task and sums its results."""

    def __init__(self, step: CallContext, first: int) -> None:
        self.step, self.sum, self.source = step, GradientSum(step.reduce), ChunkGenerator(step.key)
        #: Which chunk is next.
        self.next = first
        self.aux: list[Any] = []
        self.samples: list[Any] = []

    def add(self, chunks: range, *given: list[Any]) -> None:
        """Run the loss on some chunks together, or on piece after piece of one."""
        blocks = [b if type(b) is np.ndarray else array_of(ag.asarray(b)) for b in map(joined, given)]
        rows, most = len(blocks[0]), self.step.most
        self.source.begin(chunks.start)
        if most and rows > most and all(len(block) == rows for block in blocks):
            for start in range(0, rows, most):
                self.add_run([block[start : start + most] for block in blocks])
        else:
            self.add_run(blocks)
        if chunks.start in self.step.check and rows and not self.source.counter:
            sample = additive.sampled(blocks, most)
            if self.step.loss is None:  # in another process: the caller's own one checks it
                self.samples.append((chunks, sample))
            else:
                self.step.check_additive(sample, self.source)
        self.next = chunks.stop

    def result(self) -> Contribution | None:
        """Return the result of the task; None if its chunks have no rows."""
        return self.sum.part(self.aux, self.samples)

    def add_run(self, blocks: list[Any]) -> None:
        """Run the loss on some rows, forward and backward."""
        step, rows = self.step, len(blocks[0])
        kind = step.kinds.get(rows)
        if kind is not None and kind.fits(blocks):
            found, aux = kind.run(blocks, self.source), None
            if step.has_aux:
                count = 1 + step.parameters
                found, aux = found[:count], AuxValues(rows, found[count:])
        elif any(len(block) != rows for block in blocks):
            raise ValueError(f"the arrays have different numbers of rows here: {[len(b) for b in blocks]}")
        elif not rows:
            return
        elif step.loss is None:
            which = [f"{block.dtype}{list(block.shape)}" for block in blocks]
            raise TypeError(
                f"a chunk is {', '.join(which)}, which is not what the Dask arrays say of themselves: pass dtype= and meta="
                " where they are made"
            )
        else:
            made, aux = step.loss.loss.run(*step.loss.arguments(blocks))
            found = [array_of(t) for t in made]
        self.sum.add(rows, found)
        if step.has_aux:
            self.aux.append(aux)


class Chunks(Adder):
    """Runs the loss on chunks, and sums their contributions, always in the same order.

    Parameters
    ----------
    step : key
        Of the `CallContext`.
    several : int
        How many neighbours share a run of the loss.
    """

    def __init__(self, step: Any, several: int) -> None:
        self.shared, self.several = (step,), several

    @contextlib.contextmanager
    def begin(self, numbers: range, step: CallContext) -> Iterator[Total]:
        if ag.get_default_dtype() != step.dtype:  # another process, which computes for this one
            ag.set_default_dtype(step.dtype)
        total = Total(step, numbers.start)
        looking = ag.autograd.detect_anomaly() if step.anomaly else contextlib.nullcontext()
        with ag.enable_grad(), random.using(total.source), looking:
            try:
                yield total
            except Exception as error:
                error.add_note(step.where(range(total.next, min(total.next + self.several, numbers.stop))))
                raise

    def combine(self, parts: Sequence[Contribution | None], step: CallContext) -> Contribution | None:
        some = [part for part in parts if part is not None]
        total = GradientSum(step.reduce, sum(part.rows for part in some))
        for part in some:
            total.add(part.rows, part.found)
        return total.part([x for part in some for x in part.aux], [x for part in some for x in part.samples])


# -- the plan ---------------------------------------------------------------------------------------------------------


class TaskPlan(NamedTuple):
    """The tasks that a call consists of: they depend on the data, and on how small chunks are joined.

    Attributes
    ----------
    tasks : dict
        All arguments except the step.
    step : key
        Where that is.
    last : key
        The result, in a tuple.
    ends : list of float
        The first row of each chunk, and the end of the last one; nan if sizes are unknown.
    kinds : list of int
        The numbers of rows that runs of the loss have, the most frequent first; empty if sizes are unknown.
    checked : tuple of int
        The chunks in which to check that a loss adds up.
    """

    tasks: dict[Any, Any]
    step: Any
    last: Any
    ends: list[float]
    kinds: list[int]
    checked: tuple[int, ...]


def plan_of(arrays: Sequence[Any], join: float) -> TaskPlan:
    """Return the plan for data arrays, created once and kept with the first of them.

    Parameters
    ----------
    join : float
        The total size of neighbours that share a run of the loss; 0: none do.
    """
    names = tuple(array.name for array in arrays)
    kept = indexing.plans_of(arrays[0])
    plans = kept.get(names)
    if plans is None:
        kept.clear()
        plans = kept[names] = {}
    if join not in plans:
        with uncollected():
            plans[join] = make_plan(aligned(arrays), join)
    return plans[join]  # type: ignore[no-any-return]


def aligned(arrays: Sequence[Any]) -> list[Any]:
    """Cut all arrays at the same rows, those of the largest, and along no other axis.

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
            "every Dask array among the arguments is cut by rows, so they must be equally long; got the"
            f" shapes {', '.join(str(a.shape) for a in arrays)}.\n  What belongs to all rows (weights, a mean) is given"
            f" as a NumPy array or tensor.{called()}"
        )
    largest = rows[max(range(len(whole)), key=lambda i: whole[i].nbytes)]
    return [a if along == largest else a.rechunk({0: largest}) for a, along in zip(whole, rows, strict=True)]


def make_plan(arrays: Sequence[Any], join: float) -> TaskPlan:
    """Create the tasks: each assembles the rows of some chunks and runs the loss on them; a tree of others sums."""
    ends = [0, *itertools.accumulate(arrays[0].chunks[0])]
    count = len(ends) - 1
    nbytes = max(arrays[0].chunks[0]) * sum(a.dtype.itemsize * math.prod(a.shape[1:]) for a in arrays)
    nbytes = math.inf if math.isnan(nbytes) else max(1, nbytes)
    size, several = group_size(count, nbytes), max(1, int(join / nbytes))
    unique = uuid.uuid4().hex
    step, name = f"step-{unique}", f"value_and_grad-{unique}"
    sources = [(a.name, a.numblocks) for a in arrays]
    fold = Fold(Folded((name,), sources, Chunks(step, several), nbytes, kept=nbytes <= KEPT_BYTES))
    graph = HighLevelGraph.from_collections(name, fold, dependencies=arrays)
    tasks, handed = runs.Runs(graph, [fold.key], 1).tasks()
    groups = (range(i, min(i + size, count)) for i in range(0, count, size))
    every = [group[i : i + several] for group in groups for i in range(0, len(group), several)]
    rows = [ends[run.stop] - ends[run.start] for run in every]
    kinds = [int(each) for each, _ in Counter(rows).most_common() if each > 0]
    checked = tuple(every[i].start for i in additive.chosen(rows))
    return TaskPlan(tasks, step, handed[fold.key][0], ends, kinds, checked)


# -- the call ---------------------------------------------------------------------------------------------------------


def data_of(leaf: Any) -> Any:
    """Return the Dask array that a leaf is, None for any other leaf."""
    raw = array_of(leaf) if isinstance(leaf, Tensor) else leaf
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
    leave the chunk. Neighbouring chunks of at most 128 KiB in total share a run; larger chunks take a run for each 2
    MiB or so, or for each 64 MiB that the loss allocates for its rows, unless the parameters are not small compared to
    that.

    Parameters
    ----------
    loss : callable
        Takes parameters and rows of data, returns a 0-d tensor: an ordinary function of agrad on tensors in memory.
        It must add up over rows, see `reduce`. With `has_aux`, returns a pair of that and auxiliary values.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to; negative numbers count from the end.
    has_aux : bool, optional
        The loss returns ``(value, aux)``.
    reduce : {"mean", "sum"}, optional
        How the loss of all rows follows from those of the chunks: it is their mean, weighted by their rows, or their
        sum. A term that does not depend on rows, such as a penalty on the parameters, counts once under "mean" and once
        per chunk under "sum" (so the check refuses it there).
    after : callable, optional
        A function of the reduced loss, from a 0-d tensor to one: `agrad.sqrt` makes the mean square a root mean square,
        still in one pass. The gradients are those of its result.
    check : bool, optional
        Check on some rows of three chunks that the loss adds up, at the parameters of the first call and at others near
        them, and on rows of one chunk at the second, fourth, eighth call and so on. A loss that draws random numbers is
        not checked. Without the check chunks do not share runs, so a loss that needs whole chunks gets them; with
        `has_aux` every run has exactly one chunk, whatever its size.
    capture : bool, optional
        Call the loss in this process, once for each number of rows that runs have, on tensors without elements, and run
        the resulting program in the chunks. False: call the loss itself in every chunk, as is also done if no program
        can hold it; then neighbours of at most 2 MiB in total share a run.

    Returns
    -------
    callable
        Takes the arguments of `loss` and returns ``(value, gradient)``, with `has_aux` ``((value, [aux, ...]),
        gradient)`` with one entry per chunk that has rows. Everything is computed, and in memory: as arrays and scalars
        if the arguments are arrays and scalars, by the rule of the transforms in agrad.func, otherwise as tensors
        without a history.

        Every Dask array among its arguments (tensor or raw, also inside containers and keyword arguments) is data: the
        loss gets its rows, chunk by chunk, as tensors. Those of one call have the same length; they are cut at the
        chunks of the largest. Other arguments are passed to every chunk unchanged: NumPy arrays, tensors, containers.

    Raises
    ------
    ValueError
        If `reduce` is unknown. When called: if no argument is a Dask array, if their rows differ, if they have none, or
        if the loss does not add up over rows as far as the check can see.
    TypeError
        When called: if a parameter is a Dask array, or the loss does not return a tensor.
    CompileError
        When called: if the loss depends on Python state that no guard sees; see below.
    RuntimeError
        When called: if the loss is not a real scalar, or a parameter has no derivative; under
        `agrad.autograd.detect_anomaly` if a backward pass produces NaN.

    Notes
    -----
    Batch normalisation or a softmax over the rows need all rows at once and cannot run this way; apply them to Dask
    tensors, then call ``backward()``. A function of one mean or sum can, with that function as `after`: a root mean
    square.

    The value does not depend on the scheduler or on which chunk is ready first: sums are formed in one order, and random
    numbers (dropout) follow from `agrad.manual_seed`, the number of calls and the number of the chunk. An error names
    the chunk.

    A program has the semantics of the loss, by the rules of `agrad.compile`: tensors and plain values that the loss
    reads from closures, globals and attributes are looked up at every call. The second, fourth, eighth call and so on
    capture the loss again, which must give the same program. None of this reads data, except the few rows of the check,
    which the calling process computes. Workers of a cluster need none of the caller's modules. The loss itself runs in
    every chunk if no program can hold it (it branches on a value or requests one, creates shapes that depend on values,
    writes to outer tensors, or fails), which a `CompileWarning` reports once; if chunks have unknown sizes; for numbers
    of rows beyond the 16 most frequent; and under `agrad.autograd.detect_anomaly`. Its effects on outer objects then
    happen in the task, and on a cluster in another process.

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
    lowered = LoweredLoss.of(Loss(loss, argnums, reduce, has_aux), check=check, capture=capture, after=after)

    @functools.wraps(loss)
    def both(*args: Any, **kwargs: Any) -> Any:
        return lowered(args, kwargs)

    return both


@dataclass(eq=False)
class LoweredLoss:
    """The options of `value_and_grad`, or of another function of a loss over rows, and the state kept between its calls.

    Attributes
    ----------
    programs : PerShape
        The programs that run on the rows.
    calls : int
        The number of calls so far.
    told : bool
        Whether the user has been told that the loss runs uncompiled.
    """

    loss: Loss
    programs: PerShape
    after: Callable[[Tensor], Tensor] | None
    check: bool
    capture: bool
    calls: int = 0
    told: bool = False

    @classmethod
    def of(
        cls, loss: Loss, *, check: bool, capture: bool, after: Callable[[Tensor], Tensor] | None = None
    ) -> LoweredLoss:
        """Return it for a loss that has not been called."""
        if loss.reduce not in ("mean", "sum"):
            raise ValueError(f'reduce is "mean" or "sum", got {loss.reduce!r}{called()}')
        run_rows = type(loss).run

        def run(*args: Any, **kwargs: Any) -> Any:  # captures search what this leads to for state, but not classes
            return run_rows(loss, args, kwargs)

        return cls(loss, PerShape(functools.wraps(loss.function)(run)), after, check, capture)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute in one pass the result of the user's call."""
        call = parse(self, args, kwargs)
        programs, planned = NOTHING, None
        if self.capture and not ag.autograd.is_anomaly_check_nan_enabled():
            planned = plan(self, call, PROGRAM_BYTES)
            programs = capture(self, call, planned)
        if planned is None or not programs.kinds:
            planned = plan(self, call, RUN_BYTES)
        part = run(self, call, planned, programs)
        if programs.reason and not self.told:
            self.told = True
            what = f"runs {call.rows.loss} uncompiled in every chunk, not as a program: {programs.reason}"
            warnings.warn(f"agrad_dask.{self.loss.caller} {what}", CompileWarning, stacklevel=3)
        return collect(self, call, programs, part)


class ParsedCall(NamedTuple):
    """A call, with its arguments sorted.

    Attributes
    ----------
    rows : BoundLoss
        The loss and its arguments except the data.
    arrays : list of dask.array.Array
        The data.
    raw : bool
        All arrays are such: so are results.
    gives : list
        The form of the derivatives with respect to each parameter.
    bare : bool
        All parameters are arrays or numbers.
    """

    rows: BoundLoss
    arrays: list[Any]
    raw: bool
    gives: Any
    bare: bool


def parse(asked: LoweredLoss, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ParsedCall:
    """Sort the arguments into parameters, data and constants."""
    leaves, structure = tree.flatten((args, kwargs))
    loss = asked.loss
    places = loss.places(structure)
    data = tuple(i for i, leaf in enumerate(leaves) if data_of(leaf) is not None)
    raw = is_raw(*leaves)
    parameters = [leaves[place] for place in places]
    gives, bare = givers(parameters, loss.parameters(structure)), is_raw(*parameters)
    for leaf in leaves:
        _check_constant(leaf, loss.caller)
    for place in places:
        leaves[place] = _parameter(leaves[place])
    if not data:
        labelled = any(type(leaf).__module__.startswith("xarray.") for leaf in leaves)
        instead = (
            "give a DataArray as agrad_dask.from_xarray(a)"
            if labelled
            else f"in memory, {loss.in_memory} does the same"
        )
        raise ValueError(f"no argument is a Dask array; {instead}{called()}")
    arrays = [data_of(leaves[place]) for place in data]
    for place in data:
        leaves[place] = None
    return ParsedCall(BoundLoss(loss, leaves, structure, places, data), arrays, raw, gives, bare)


def plan(asked: LoweredLoss, call: ParsedCall, join: float) -> TaskPlan:
    """Return the tasks for the data; small neighbours share a run, unless the caller looks at chunks."""
    return plan_of(call.arrays, join if asked.check and not asked.loss.has_aux else 0)


def capture(asked: LoweredLoss, call: ParsedCall, planned: TaskPlan) -> ChunkPrograms:
    """Return the programs of the loss for the numbers of rows that runs have; none if shapes are unknown."""
    if any(math.isnan(n) for array in call.arrays for n in array.shape[1:]):
        return NOTHING
    return captured(asked.programs, call.rows, call.arrays, planned.kinds, split=not asked.loss.has_aux)


def run(asked: LoweredLoss, call: ParsedCall, planned: TaskPlan, programs: ChunkPrograms) -> Contribution:
    """Run the loss in every chunk; return the total contribution."""
    rows, arrays = call.rows, call.arrays
    step = CallContext(
        rows,
        str(rows.loss),
        rows.loss.caller,
        rows.loss.reduce,
        rows.loss.has_aux,
        programs.kinds,
        parameters=len(rows.places),
        key=random.default_generator.key(),
        dtype=ag.get_default_dtype().name,
        ends=planned.ends,
        check=frozenset(additive.due(planned.checked, asked.calls) if asked.check else ()),
        call=asked.calls,
        anomaly=ag.autograd.is_anomaly_check_nan_enabled(),
        sent=not programs.whole,
        most=programs.most,
    )
    try:
        what = f"{rows.loss}, which agrad_dask.{rows.loss.caller} runs once per chunk"
        most = max(stop - start for start, stop in itertools.pairwise(planned.ends))
        nbytes = sum(a.dtype.itemsize * most * math.prod(a.shape[1:]) for a in arrays)
        given = {planned.step: step}
        (found,) = computing.run(arrays, planned.tasks, planned.last, given, what, nbytes)
        if found is None:
            raise ValueError(f"the data has no rows{called()}")
        for chunks, sample in found.samples:
            Context().run(_check, step, chunks, sample)
    except Exception as error:
        told = {*rows.places, *rows.data}
        _note_uncut(error, arrays[0].shape[0], (leaf for i, leaf in enumerate(rows.leaves) if i not in told))
        raise
    asked.calls += 1
    return found  # type: ignore[no-any-return]


def collect(asked: LoweredLoss, call: ParsedCall, programs: ChunkPrograms, part: Contribution) -> Any:
    """Return value and gradients, or other requested results, in the form for the caller."""
    rows, loss = call.rows, call.rows.loss
    made = [ag.asarray(g) for g in part.found[1:]]
    value = ag.asarray(part.found[0])
    if asked.after is not None:  # by the chain rule: one number, applied after the reduction
        value, slope = func.value_and_grad(asked.after)(value)
        made = [g * ag.astype(slope, g.dtype) for g in made]
    returned: Any = value
    if loss.has_aux:
        returned = value, [filled(aux, programs.kinds, len(rows.places)) for aux in part.aux]
    found = loss.given(made, rows.structure, call.gives, raw=call.bare)
    return (bare_all(returned) if call.raw else returned, found) if loss.gives_value else found


def _check(step: CallContext, chunks: range, sample: list[Any]) -> None:
    """Call `CallContext.check_additive` for rows that came from another process."""
    source = ChunkGenerator(step.key)
    with random.using(source):
        try:
            step.check_additive(sample, source)
        except Exception as error:
            error.add_note(step.where(chunks))
            raise


def _note_uncut(error: Exception, rows: float, others: Iterable[Any]) -> None:
    """Name the arguments that have as many rows as the data and went to every chunk whole."""
    for leaf in others:
        shape = getattr(leaf, "shape", ())
        if shape and shape[0] == rows:
            error.add_note(
                f"An argument of shape {tuple(shape)} has as many rows as the data, and is no Dask array: every chunk got all of"
                " it. Only Dask arrays are cut by rows: pass dask.array.from_array(y, chunks=...), with the data's chunks."
            )


def _check_constant(leaf: Any, caller: str) -> None:
    """Refuse an argument that an outer transform differentiates with respect to: the results have no history."""
    if isinstance(leaf, Tensor) and is_transformed(leaf):
        raise RuntimeError(
            f"agrad_dask.{caller} cannot be differentiated: what it returns has no history. Detach the argument,"
            f" x.detach(), or call the loss itself on Dask tensors, which records it.{called()}"
        )


def _parameter(leaf: Any) -> Any:
    """Return a parameter as a raw array in memory."""
    if data_of(leaf) is not None:
        raise TypeError(
            "a parameter is a Dask array; parameters are in memory, only data is in chunks. Compute it, for instance"
            f' with x.to_device("numpy"){called()}'
        )
    tensor = leaf if isinstance(leaf, Tensor) else ag.asarray(leaf)
    if not spec_of_value(tensor).inexact:
        raise inexact_only(tensor.dtype)
    return array_of(tensor.detach())
