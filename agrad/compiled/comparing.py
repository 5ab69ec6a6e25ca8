"""Compare a replay with the function itself: arrays bit for bit or up to rounding, results and writes one by one.

The program itself shows what counts as rounding: how far its outputs move when its inputs move by one unit in the last
place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from agrad import tree
from agrad.compiled.cached import CachedProgram
from agrad.compiled.guards import is_plain
from agrad.core.backend import Backend, backend_of
from agrad.core.once import once
from agrad.core.tensor import Tensor
from agrad.program.program import Body, Given, Leaf, Number, Program, Ref, same

#: How far results may be apart, relative to the largest: for the coarser dtypes, and for all others.
COARSE, FINE = {"float16": 1e-2, "float32": 1e-4, "complex64": 1e-4}, 1e-9

#: And for written values, in units in the last place of the largest number written: where terms cancel, as in the
#: gradient of a bias before a batch norm, only their rounding is left.
CANCELLED = 64


#: The factor by which results may differ more than that.
TIMES = 10


class ReplayResults:
    """The results of a replay, and how far they move when the inputs change by one unit in the last place.

    Attributes
    ----------
    cached : CachedProgram
        What was replayed.
    outs : sequence
        What it gave.

    Parameters
    ----------
    cached : CachedProgram
        The program.
    values : list
        Its inputs.
    outs : sequence
        Its results for them.
    """

    def __init__(self, cached: CachedProgram, values: list[Any], outs: Sequence[Any]) -> None:
        self.cached: CachedProgram = cached
        self.outs: Sequence[Any] = outs
        self._values = values

    @once
    def moved(self) -> list[tuple[Sequence[Any], Sequence[Any]]]:
        """Its results, on the same path, for its inputs and for others: all of them larger, or every other element smaller."""
        keys = {at for at, _ in self.cached.keys}
        found = []
        for alternating in (False, True):
            nudged = [
                value if at in keys else _nudged(self.cached.backend, value, alternating=alternating)
                for at, value in enumerate(self._values)
            ]
            try:
                found.append((self._plain(self._values), self._plain(nudged)))
            except Exception:  # noqa: BLE001, S112 (for these inputs it has no answer, and allows nothing)
                continue
        return found

    def _plain(self, values: list[Any]) -> Sequence[Any]:
        """Run the program without checking the values by which Python branched."""
        with self.cached.backend.quiet():
            return self.cached.program.run(self.cached.backend, values, **{**self.cached.options, "executor": None})

    def allow(self, at: int, apart: float) -> bool:
        """Return whether an output that differs this much from the function's differs only by rounding."""
        backend = self.cached.backend
        if backend.is_lazy:
            return False
        pairs = ([backend.as_array(outs[at]) for outs in each] for each in self.moved)
        return any(apart <= TIMES * _apart(backend, *pair) for pair in pairs)


def _nudged(backend: Backend, value: Any, *, alternating: bool) -> Any:
    """Return an array of inexact numbers with each changed by a unit in the last place; anything else unchanged."""
    if backend_of(value) is not backend or backend.kind(value.dtype) not in ("float", "complex"):
        return value
    xp = backend.xp
    eps = float(backend.namespace().finfo(value.dtype).eps)
    change = xp.multiply(value, eps)
    if alternating and value.ndim:
        where = backend.creation(backend.device_of(value))
        counted = xp.reshape(xp.arange(math.prod(value.shape), **where), tuple(value.shape))
        change = xp.where(xp.equal(xp.remainder(counted, 2), 0), change, xp.negative(change))
    return xp.add(value, change) if not alternating or value.ndim else xp.subtract(value, change)


def _apart(backend: Backend, first: Any, second: Any) -> float:
    """Return the largest difference between two arrays of one shape; for exact numbers, how many differ."""
    xp = backend.xp
    if not math.prod(first.shape):
        return 0.0
    differ = xp.not_equal(first, second)
    if backend.kind(first.dtype) not in ("float", "complex"):
        return float(backend.item(xp.sum(differ)))
    if backend.truth(xp.any(xp.not_equal(xp.isnan(first), xp.isnan(second)))):
        return math.inf
    distance = xp.abs(xp.subtract(first, second))
    return float(
        backend.item(
            xp.max(xp.where(xp.logical_and(differ, xp.equal(first, first)), distance, xp.zeros_like(distance)))
        )
    )


def differences(
    cached: CachedProgram,
    answers: ReplayResults,
    arguments: Sequence[Any],
    returned: Any,
    targets: Sequence[Tensor],
    *,
    exact: bool,
) -> Iterator[str]:
    """Return how a replay differs from a call of the function, as words: where, and by how much.

    Parameters
    ----------
    cached : CachedProgram
        What was replayed.
    answers : ReplayResults
        What it gave.
    arguments : sequence
        Its arguments, flattened.
    returned : object
        The function's result.
    targets : sequence of Tensor
        The tensors that the function wrote to, in the order of the program's writes.
    exact : bool
        Compare arrays to the bit.
    """
    outs, results = answers.outs, cached.program.results
    assert results is not None
    leaves, structure = tree.flatten(returned)
    if structure != results.treedef:
        yield f"the structure of its result, {structure}"
        return
    for path, (leaf, at), now in zip(structure.paths(), cached.leaves, leaves, strict=True):
        where = f"its result{f' at {path}' if path else ''}"
        if isinstance(leaf, Leaf | Number):
            yield from _differing(answers, now._raw if isinstance(now, Tensor) else now, at, where, exact)
        elif isinstance(leaf, Given):
            if not _is_argument(cached.backend, now, arguments[leaf.place]):
                yield f"{where}: which argument, or whether it is one"
        elif not _are_equal(now, leaf):
            yield f"{where} ({now!r}, and {leaf!r} in the capture)"
    written = [outs[at] for _, _, at in cached.placed_writes if at >= 0]
    for (write, _, at), target in zip(cached.placed_writes, targets, strict=True):
        now = target if write.what == "data" else target.grad
        if (now is None) != (write.number is None):
            yield f"whether {write.target} has a gradient"
        if at >= 0:
            assert now is not None
            beside = () if exact or cached.backend.is_lazy else written
            yield from _differing(
                answers, now._raw, at, f"the value it writes to {write.target}.{write.what}", exact, beside
            )


def other_program(first: CachedProgram, second: CachedProgram, arguments: Sequence[Any]) -> str:
    """Return how two programs of one call differ, as words: "" if they do the same, however they number values."""
    sides = (_done(cached.program, _inputs(cached, arguments)) for cached in (first, second))
    done = itertools.zip_longest(*sides, fillvalue=("how many steps it takes", None))
    return next((words for (words, one), (_, other) in done if one != other), "")


def _inputs(cached: CachedProgram, arguments: Sequence[Any]) -> dict[int, Any]:
    """Return the current meaning of the inputs: which argument, which draw, or which outer array."""
    assert cached.program.arguments is not None
    found: dict[int, Any] = dict(zip(cached.program.inputs, map(id, cached.gather(arguments)), strict=True))
    found |= {number: ("draw", at) for at, number in enumerate(cached.program.keys)}
    leaves = enumerate(cached.program.arguments.leaves)
    return found | {leaf.number: ("argument", at) for at, leaf in leaves if isinstance(leaf, Leaf | Number)}


def _done(program: Program, inputs: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    """Return the actions of a program, in order, with words for them: by plain values, which are equal if the actions are."""
    places: dict[int, int] = {}

    def place(number: int) -> Any:
        """Return which input a value is, a constant's value, or which of all other values it is, in the order of use."""
        if number in inputs:
            return inputs[number]
        constant = program.constants.get(number)
        if constant is None:
            return places.setdefault(number, len(places))
        backend = backend_of(constant)
        assert backend is not None
        return (*program.shapes[number], memoryview(backend.to_host(constant)).tobytes())

    def plain(part: Any) -> Any:
        kind = type(part)
        if kind is Ref:
            return Ref, place(part.number)
        if kind is tuple or kind is list:
            return kind, [plain(inner) for inner in part]
        if kind is slice:
            return kind, plain([part.start, part.stop, part.step])
        if kind is Body:
            about = part.carried, part.rows, part.length, part.reverse, part.kept
            return kind, about, [done for _, done in _done(part.program, {})]
        return kind, repr(part) if isinstance(part, float | complex) else part

    for at, step in enumerate(program.steps):
        done = step.op, plain(step.args), [(name, plain(value)) for name, value in step.kwargs.items()]
        yield f"step {at + 1}, {step.op} ({step.line})", (done, [n if n is None else place(n) for n in step.outs])
    yield "which values it returns", [place(number) for number in program.outputs]
    if program.results is not None:
        yield "the structure of its result", str(program.results.treedef)
        for leaf in program.results.leaves:
            known = isinstance(leaf, Leaf | Number)
            yield "what it returns", place(leaf.number) if known else plain(leaf)


def _is_argument(backend: Backend, now: Any, argument: Any) -> bool:
    """Return whether a result is an argument: the same tensor, or a raw array, for which a copy is as good."""
    if now is argument:
        return True
    if isinstance(now, Tensor) and isinstance(argument, Tensor):
        return False
    first, second = (each._raw if isinstance(each, Tensor) else each for each in (now, argument))
    return backend_of(first) is backend and equal_in_bits(backend, backend.as_array(first), backend.as_array(second))


def _are_equal(now: Any, leaf: Any) -> bool:
    """Return whether a result that no array holds is that of the capture, or equivalent."""
    if now is leaf or (is_plain(leaf) and same(now, leaf)):
        return True
    kind = type(leaf)
    if type(now) is not kind or not isinstance(now, Hashable) or kind.__hash__ is object.__hash__:  # type: ignore[comparison-overlap]
        return False
    return repr(now) == repr(leaf) if isinstance(leaf, float | complex) else bool(now == leaf)


def _differing(
    answers: ReplayResults, eager: Any, at: int, what: str, exact: bool, beside: Sequence[Any] = ()
) -> Iterator[str]:
    """Return that an output differs from the function's, and by how much, if it does."""
    backend, replayed = answers.cached.backend, answers.outs[at]
    if isinstance(eager, int | float | complex) and not hasattr(eager, "dtype"):
        number = backend.item(replayed)
        if same(eager, number) or (type(eager) is type(number) and abs(eager - number) <= FINE * max(1.0, abs(eager))):
            return
        if type(eager) is type(number) and answers.allow(at, abs(eager - number)):
            return
        yield f"{what}: {number!r}, and {eager!r} without compiling"
        return
    equal = equal_in_bits if exact else equal_to_rounding
    first, second = backend.as_array(eager), backend.as_array(replayed)
    if equal(backend, first, second):
        return
    if tuple(first.shape) != tuple(second.shape) or first.dtype != second.dtype:
        yield f"{what}: {_shaped(backend, second)}, and {_shaped(backend, first)} without compiling"
        return
    if beside and is_rounding(backend, first, second, beside):
        return
    with backend.quiet():
        apart = _apart(backend, first, second)
        if exact or not answers.allow(at, apart):
            yield f"{what}, {_words(backend, first, apart)}"


def _shaped(backend: Backend, array: Any) -> str:
    return f"{backend.dtype_name(array.dtype)} of shape {tuple(array.shape)}"


def _words(backend: Backend, array: Any, apart: float) -> str:
    """Return the words for the distance between two arrays."""
    if backend.kind(array.dtype) not in ("float", "complex"):
        return f"in {apart:.0f} of {math.prod(array.shape)} elements"
    xp = backend.xp
    finite = xp.where(xp.isfinite(array), xp.abs(array), xp.zeros_like(xp.abs(array)))
    return f"by up to {apart:.2g} where the largest is {float(backend.item(xp.max(finite))):.2g}"


def equal_in_bits(backend: Backend, first: Any, second: Any) -> bool:
    """Return whether two arrays are equal; NaN is equal to NaN."""
    if tuple(first.shape) != tuple(second.shape) or first.dtype != second.dtype:
        return False
    xp = backend.xp
    equal = xp.equal(first, second)
    if backend.kind(first.dtype) in ("float", "complex"):
        equal = xp.logical_or(equal, xp.logical_and(xp.isnan(first), xp.isnan(second)))
    return bool(backend.truth(xp.all(equal)))


def equal_to_rounding(backend: Backend, first: Any, second: Any) -> bool:
    """Return whether two arrays are equal, except for the rounding of sums in another order."""
    if tuple(first.shape) != tuple(second.shape) or first.dtype != second.dtype:
        return False
    with backend.quiet():
        return _nearly_equal(backend, first, second)


def is_rounding(backend: Backend, first: Any, second: Any, beside: Sequence[Any]) -> bool:
    """Return whether two arrays differ by no more than the rounding of the largest of some others."""
    if tuple(first.shape) != tuple(second.shape) or backend.kind(first.dtype) not in ("float", "complex"):
        return False
    xp = backend.xp
    with backend.quiet():
        largest = max(
            float(backend.item(xp.max(xp.abs(each))))
            for each in beside
            if math.prod(each.shape) and backend.kind(each.dtype) in ("float", "complex")
        )
        apart = CANCELLED * float(backend.namespace().finfo(first.dtype).eps) * largest
        return math.isfinite(apart) and bool(
            backend.truth(xp.all(xp.less_equal(xp.abs(xp.subtract(first, second)), apart)))
        )


def _nearly_equal(backend: Backend, first: Any, second: Any) -> bool:
    xp = backend.xp
    equal = xp.equal(first, second)
    if backend.kind(first.dtype) in ("float", "complex"):
        relative = COARSE.get(backend.dtype_name(first.dtype), FINE)
        finite = xp.abs(xp.where(xp.isfinite(first), first, xp.zeros_like(first)))
        bound = xp.multiply(xp.max(finite), relative) if math.prod(first.shape) else 0
        near = xp.less_equal(xp.abs(xp.subtract(first, second)), bound)  # operators would run on the present device
        both = xp.logical_and(xp.isnan(first), xp.isnan(second))
        equal = xp.logical_or(xp.logical_or(equal, near), both)
    return bool(backend.truth(xp.all(equal)))
