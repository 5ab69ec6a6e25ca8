"""Passes: turn a program into one that does less work, and gives the same bits.

Each takes a program and returns one. No pass changes a bit of a result: not the sign of a zero, a NaN, an infinity, or
a dtype. No pass lets a result share memory with an input, a constant or another result where it did not before.
Operations that depend on the memory layout of an array (sums, matrix products) still get an array with the same layout:
elementwise operations it is made from keep their order, too.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from agrad.core.backend import Backend, backend_of
from agrad.core.once import once
from agrad.core.op import OPS, facts_of
from agrad.ops.batch_rules import pointwise, rule_of
from agrad.plugin.manager import executor_named
from agrad.program.executing import (
    CHOSEN_FOR,
    AutomaticRun,
    ExecutorRun,
    chooses_native,
    unpacking_kept,
    without_warnings,
)
from agrad.program.loop_passes import hoisted, running, trimmed
from agrad.program.program import DETACH, DRAW, STOP, DType, Program, Ref, Shaped, Step, attached, is_number
from agrad.program.unrolling import unrolled

#: Kinds of dtype by their names without digits.
REAL = frozenset({"float", "int", "uint"})

#: Larger constants are not computed from others.
FOLDED_SIZE = 64


def optimized(program: Program) -> Program:
    """Return a program that gives the same bits with fewer steps.

    Parameters
    ----------
    program : Program
        Any.

    Returns
    -------
    Program
        With the same inputs, outputs, arguments and writes. Steps keep their lines and regions.
    """
    return functools.reduce(lambda made, run: run(made), PASSES, program)


@attached
class RunMethods:
    """Runs programs on raw arrays."""

    def runner(
        self: Any,
        backend: Backend,
        *,
        executor: Any = None,
        kept: int = 0,
        taken: tuple[int, ...] = (),
        **options: Any,
    ) -> Callable[..., tuple[Any, ...]]:
        """Return the function that runs the program on raw arrays of a backend with given options, created at first use.

        An executor, by its name or itself, is asked before the backend. One that `keeps` returns the last `kept` outputs as one
        `KeptValues`. `taken`: such a `KeptValues` is passed in place of the first inputs, which are the values at these positions
        in it, the same in all calls of this program.
        """
        runs: dict[Any, Any] = self.__dict__.setdefault("_runs", {})
        key = backend, executor, kept, bool(taken), *options.items()
        found = runs.get(key)
        if found is None:
            chosen = None if executor is None else executor_named(executor)
            if chosen is None or backend.name not in chosen.backends:
                if taken:
                    found = unpacking_kept(self.runner(backend, **options), taken)
                else:
                    found = _by_backend(self, backend, options)
            else:
                program = functools.partial(fewer, self, getattr(chosen, "loops", False), options)
                fallback = functools.partial(self.runner, backend, taken=taken, **options)
                kept = kept if getattr(chosen, "keeps", False) else 0
                found = ExecutorRun(chosen, program, backend, options, fallback, kept=kept, taken=taken)
            found = runs.setdefault(key, found)
        return found  # type: ignore[no-any-return]

    def chosen(
        self: Any,
        backend: Backend,
        *,
        executor: Any = None,
        quiet: bool = False,
        kept: int = 0,
        taken: tuple[int, ...] = (),
        **options: Any,
    ) -> Callable[..., tuple[Any, ...]]:
        """Return the same; if no executor is named, one that agrad may choose takes over from the second call on.

        `quiet`: suppress floating-point warnings.
        """
        run = self.runner(backend, executor=executor, kept=kept, taken=taken, **options)
        if executor is not None or backend.name not in CHOSEN_FOR or not chooses_native():
            return without_warnings(run, backend) if quiet else run
        runs: dict[Any, Any] = self.__dict__["_runs"]
        key = backend, AutomaticRun, quiet, kept, bool(taken), *options.items()
        if key not in runs:
            program = functools.partial(fewer, self, options=options)
            runs.setdefault(key, AutomaticRun(program, backend, options, run, quiet=quiet, kept=kept, taken=taken))
        return runs[key]  # type: ignore[no-any-return]


def fewer(program: Program, loops: bool, options: Mapping[str, Any]) -> Program:
    """Return a program for raw arrays with as few steps as possible; without loops for code that does not know them."""
    plain = program.without_detach()
    return running(optimized(plain if loops else unrolled(plain)), options)


def _by_backend(program: Program, backend: Backend, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function that runs a program without an executor."""
    loops = type(backend).compile is Backend.compile or backend._runs_loops
    less = fewer(program, loops, options)
    return backend.compile(less, **options) or less.function(backend)


# -- the passes -------------------------------------------------------------------------------------------------------


def dead_dropped(program: Program) -> Program:
    """Drop the steps and constants that no output needs."""
    return program.needed()


def folded(program: Program) -> Program:
    """Run the steps whose operands are constants, if the results are small: these become constants."""

    def rule(walk: Walk, step: Step) -> bool | None:
        constants = walk.constants
        if any(type(a) is Ref and a.number not in constants for a in step.args) or step.op in (DRAW, DETACH):
            return None
        refs = step.refs
        if not refs or any(ref not in constants for ref in refs):
            return None
        sizes = [math.prod(walk.shapes[number].shape) for number in step.made]
        if max(sizes) > (1 if facts_of(step.op).is_view else FOLDED_SIZE) or any(map(walk.reaches, step.made)):
            return None
        results = walk.run(step)
        for number, value in zip(step.outs, results, strict=True):
            if number is not None:
                walk.constants[number] = value
        return True

    return rewritten(program, rule)


def scalars(program: Program) -> Program:
    """Let operations broadcast operands that were broadcast for them, above all arrays of one value.

    If all operands are such arrays, the operation runs on the values and its result is broadcast.
    """

    def rule(walk: Walk, step: Step) -> Step | None:
        if step.kwargs or not facts_of(step.op).broadcasts_exactly:
            return None
        made = step.made[0]
        shape, args = walk.shapes[made].shape, list(step.args)
        dtypes = {walk.shapes[a.number].dtype for a in args[step.op == "where" :] if type(a) is Ref}
        if not shape or len(dtypes) > 1:  # libraries promote arrays without axes in different ways
            return None
        if any(type(a) is not Ref and not is_number(a) for a in args):
            return None
        points = [walk.point(a) if type(a) is Ref else a for a in args]
        if all(p is not None for p in points) and not walk.reaches(made) and not walk.is_ordered(made):
            dtype = walk.shapes[made].dtype
            args = [walk.made_point(p) for p in points]
            number = walk.insert(Step(step.op, tuple(args), {}, (0,), False, step.line, step.region), Shaped((), dtype))
            return Step("broadcast_to", (Ref(number), shape), {}, step.outs, False, step.line, step.region)
        for i, part in enumerate(step.args):
            small = points[i] if points[i] is not None or type(part) is not Ref else walk.unbroadcast(part)
            if (
                small is None
                or type(part) is not Ref
                or (points[i] is not None and not walk.may_leave(step, part.number))
            ):
                continue
            others = [walk.shapes[a.number].shape for j, a in enumerate(args) if j != i and type(a) is Ref]
            if broadcast([walk.shapes[small.number].shape if type(small) is Ref else (), *others]) == shape:
                args[i] = walk.made_point(small)
        if all(a is b for a, b in zip(args, step.args, strict=True)):
            return None
        return Step(step.op, tuple(args), {}, step.outs, False, step.line, step.region)

    return rewritten(program, rule)


def identities_dropped(program: Program) -> Program:
    """Drop steps that return their operand: copies, products with 1, first powers, choices known beforehand, moves there and back."""

    def rule(walk: Walk, step: Step) -> Ref | None:
        find = IDENTITIES.get(step.op)
        found = None if find is None else find(walk, step)
        if type(found) is not Ref or walk.shapes[found.number] != walk.shapes[step.made[0]]:
            return None
        return found

    return rewritten(program, rule)


def merged(program: Program) -> Program:
    """Compute a repeated value once: not across recomputations, and not for draws from different keys."""
    seen: dict[Any, tuple[int, Step]] = {}

    def rule(walk: Walk, step: Step) -> bool | None:
        if step.op.startswith("empty"):
            return None
        key = (step.op, key_of(step.args), key_of(tuple(step.kwargs.items())), step.region, len(step.outs))
        at, first = seen.setdefault(key, (len(walk.steps), step))
        if first is step:
            return None
        pairs = [(a, b) for a, b in zip(step.outs, first.outs, strict=True) if a is not None]
        if any(b is not None and not walk.may_merge(a, b) for a, b in pairs):
            return None
        outs = tuple(a if b is None else b for a, b in zip(step.outs, first.outs, strict=True))
        if outs != first.outs:
            first = Step(first.op, first.args, first.kwargs, outs, first.several, first.line, first.region)
            seen[key] = at, first
            walk.steps[at] = first
        for a, b in pairs:
            if b is not None:
                walk.replace(a, b)
        return True

    return rewritten(program, rule, constants=True)


#: In the order they run.
PASSES: tuple[Callable[[Program], Program], ...] = (
    dead_dropped,
    trimmed,
    hoisted,
    folded,
    scalars,
    folded,
    identities_dropped,
    merged,
    dead_dropped,
)


# -- what gives its operand -------------------------------------------------------------------------------------------


def _first(_: Walk, step: Step) -> Any:
    return step.args[0]


def _same_dtype(_: Walk, step: Step) -> Any:
    return step.args[0] if len(step.args) > 1 and type(step.args[1]) is DType else None


def _neutral(value: float, *, left: bool, kinds: frozenset[str]) -> Callable[[Walk, Step], Any]:
    """Return the function that finds the operand next to a neutral one, on the right or also on the left, for some kinds of dtype."""

    def find(walk: Walk, step: Step) -> Any:
        a, b = step.args
        if kind_of(walk.shapes[step.made[0]].dtype) not in kinds:
            return None
        if walk.is_all(b, value):
            return a
        return b if left and walk.is_all(a, value) else None

    return find


def _chosen(walk: Walk, step: Step) -> Any:
    condition, a, b = step.args
    return a if walk.is_all(condition, True) else b if walk.is_all(condition, False) else None


def _both(walk: Walk, step: Step) -> Any:
    a, b = step.args
    return b if walk.is_all(a, True) else a if walk.is_all(b, True) else None


def _back(walk: Walk, step: Step) -> Any:
    before = walk.makers.get(step.args[0].number)
    if before is None or before.op != step.op:
        return None
    if step.op == "permute_dims":
        axes, first = _axes(step), _axes(before)
        if axes is None or first is None or [first[i] for i in axes] != list(range(len(axes))):
            return None
    return before.args[0]


def _axes(step: Step) -> Any:
    axes = step.args[1] if len(step.args) > 1 else step.kwargs.get("axes")
    return axes if isinstance(axes, tuple | list) and all(type(i) is int and i >= 0 for i in axes) else None


def _detached(walk: Walk, step: Step) -> Any:
    before = walk.makers.get(step.args[0].number)
    return step.args[0] if before is not None and before.op == DETACH else None


#: By operation, the function that finds the operand that a step returns. Complex products with 1 do not preserve every
#: zero and infinity.
IDENTITIES: dict[str, Callable[[Walk, Step], Any]] = {
    "positive": _first,
    "astype": _same_dtype,
    "multiply": _neutral(1, left=True, kinds=REAL),
    "divide": _neutral(1, left=False, kinds=frozenset({"float"})),
    "pow": _neutral(1, left=False, kinds=REAL),
    "subtract": _neutral(0, left=False, kinds=REAL),  # x - 0.0, unlike x + 0.0, keeps -0.0
    "bitwise_and": _both,
    "where": _chosen,
    "reshape": _first,
    "broadcast_to": _first,
    "broadcast_like": _first,
    "matrix_transpose": _back,
    "permute_dims": _back,
    DETACH: _detached,
}


# -- what fills an array with one value -------------------------------------------------------------------------------


def _filled(walk: Walk, step: Step) -> Any:
    if len(step.args) < 2 or not is_number(step.args[1]):
        return None
    return FillValue(step.args[1], walk.shapes[step.made[0]].dtype)


def _spread(walk: Walk, step: Step) -> Any:
    return walk.point(step.args[0]) if type(step.args[0]) is Ref else None


def _neither(walk: Walk, step: Step) -> Any:
    is_truth = walk.shapes[step.made[0]].dtype == "bool"
    return FillValue(False, "bool") if is_truth and any(walk.is_all(a, False) for a in step.args) else None


def _to_the_0(walk: Walk, step: Step) -> Any:
    dtype = walk.shapes[step.made[0]].dtype
    return FillValue(1, dtype) if kind_of(dtype) in REAL and walk.is_all(step.args[1], 0) else None  # also for NaN


#: By operation, the function that finds the single value that may fill its result; in addition to operations declared
#: to fill arrays.
POINTS: dict[str, Callable[[Walk, Step], Any]] = {
    "full": _filled,
    "full_like": _filled,
    "broadcast_to": _spread,
    "broadcast_like": _spread,
    "bitwise_and": _neither,
    "pow": _to_the_0,
}


# -- how a pass goes over a program -----------------------------------------------------------------------------------


class FillValue:
    """One value that fills an array, before any step has it.

    Attributes
    ----------
    value : number
        As a Python number.
    dtype : str
        By the standard's name.
    """

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: str) -> None:
        self.value: Any = value
        self.dtype: str = dtype


def rewritten(
    program: Program, rule: Callable[[Walk, Step], Step | Ref | bool | None], *, constants: bool = False
) -> Program:
    """Return a program with a rule applied to each step.

    The rule keeps the step (None), changes it (another step), removes it (True), or names an existing value that
    replaces its result from then on (a `Ref`), unless the sharing of memory would be visible. If asked, equal constants
    without axes are merged.
    """
    walk = Walk(program)
    if constants:
        walk.merge_constants()
    for original in program.steps:
        step = original
        if walk.same and not walk.same.keys().isdisjoint(step.refs):
            step = step.taking(walk.same)
        if step.op == STOP:
            walk.append(step)
            continue
        if step.op == "add_into":  # a new sum: the backend decides where it is written
            step = Step("add", step.args[:2], {}, step.outs, False, step.line, step.region)
        found = rule(walk, step)
        if found is True:
            continue
        if type(found) is Ref:
            if walk.may_stand(step, found.number):
                walk.replace(step.made[0], found.number)
                continue
        elif type(found) is Step:
            step = found
        walk.append(step)
    outputs = tuple(walk.same[n].number if n in walk.same else n for n in program.outputs)
    return program.replaced(steps=tuple(walk.steps), outputs=outputs, shapes=walk.shapes, constants=walk.constants)


class Walk:
    """A program during a pass: the part built so far, and the facts known about its values.

    Attributes
    ----------
    steps : list of Step
        Of the new program.
    shapes, constants : dict
        Of the new program.
    same : dict of int to Ref
        The replacements of removed values.
    makers : dict of int to Step
        By the number of a value, the step of the new program that makes it.
    """

    def __init__(self, program: Program) -> None:
        self.steps: list[Step] = []
        self.shapes: dict[int, Any] = dict(program.shapes)
        self.constants: dict[int, Any] = dict(program.constants)
        self.same: dict[int, Ref] = {}
        self.makers: dict[int, Step] = {}
        self._program = program
        self._next = program.next_number()
        self._filled: dict[tuple[str, str], int] = {}
        self._points: dict[int, Ref | FillValue] = {}

    def append(self, step: Step) -> None:
        """Add a step."""
        self.steps.append(step)
        for number in step.outs:
            if number is not None:
                self.makers[number] = step
        if (point := self._point_of(step)) is not None:
            self._points[step.made[0]] = point

    def insert(self, step: Step, about: Shaped) -> int:
        """Add a step with one new value; return its number."""
        number = self._next
        self._next += 1
        self.shapes[number] = about
        self.append(Step(step.op, step.args, step.kwargs, (number,), False, step.line, step.region))
        return number

    def replace(self, number: int, other: int) -> None:
        """Let an existing value replace another one."""
        self.same[number] = Ref(other)
        here, there = self._root(number), self._root(other)
        if here != there:
            self._groups[here] = there
            self._seen[there] += self._seen.pop(here, 0)
            if here in self._given:
                self._given.add(there)

    def run(self, step: Step) -> list[Any]:
        """Return the results of a step whose operands are constants, computed by the kernels of their backend."""
        owner = backend_of(self.constants[step.refs[0]])
        assert owner is not None
        used = {number: self.constants[number] for number in step.refs}
        shapes = {number: self.shapes[number] for number in (*step.refs, *step.made)}
        part = Program((), (step,), tuple(step.made), shapes, used, device=owner.device_of(used[step.refs[0]]))
        assert part.device is not None
        with owner.quiet(), owner._on(part.device):
            made = iter(part.function(owner)())
        return [None if number is None else owner.as_array(next(made)) for number in step.outs]

    # -- values -------------------------------------------------------------------------------------------------------

    def point(self, ref: Ref) -> Ref | FillValue | None:
        """Return the one value that fills an array: a value without axes, or one that can become such a value."""
        about = self.shapes.get(ref.number)  # the keys of draws have none
        return ref if about is not None and about.shape == () else self._points.get(ref.number)

    def _point_of(self, step: Step) -> Ref | FillValue | None:
        """Return the one value that fills the result of a step."""
        fills = facts_of(step.op).fills
        if fills is not None:
            return FillValue(fills, self.shapes[step.made[0]].dtype)
        find = POINTS.get(step.op)
        return None if find is None else find(self, step)

    def made_point(self, point: Any) -> Any:
        """Return a value, adding a step that makes it if there is none."""
        if type(point) is not FillValue:
            return point
        key = repr(point.value), point.dtype
        number = self._filled.get(key)
        if number is None:
            step = Step("full", ((), point.value), {"dtype": DType(point.dtype)}, (0,))
            number = self._filled[key] = self.insert(step, Shaped((), point.dtype))
        return Ref(number)

    def unbroadcast(self, ref: Ref) -> Ref | None:
        """Return the value that was broadcast to an array."""
        maker = self.makers.get(ref.number)
        broadcasts = maker is not None and maker.op in ("broadcast_to", "broadcast_like")
        return maker.args[0] if maker is not None and broadcasts and type(maker.args[0]) is Ref else None

    def is_all(self, part: Any, value: float) -> bool:
        """Return whether an argument equals a value at every element; for zeros, including the sign."""
        if type(part) is Ref:
            point = self.point(part)
            if type(point) is Ref:
                maker = self.makers.get(point.number)
                if point.number in self.constants:
                    part = item(self.constants[point.number])
                elif maker is not None and maker.op == "full" and maker.args[0] == ():
                    part = maker.args[1]
            elif type(point) is FillValue:
                part = point.value
        if not is_number(part) or type(part) is complex or (type(value) is bool) is not (type(part) is bool):
            return False
        return bool(part == value and math.copysign(1, part) == math.copysign(1, value))

    def merge_constants(self) -> None:
        """Merge constants without axes that have the same bits."""
        first: dict[tuple[str, str], int] = {}
        for number, value in tuple(self.constants.items()):
            if self.shapes[number].shape != () or self.reaches(number):
                continue
            one = item(value)
            if one != one:  # a NaN says too little of its bits  # noqa: PLR0124
                continue
            other = first.setdefault((repr(one), self.shapes[number].dtype), number)
            if other != number:
                self.same[number] = Ref(other)

    # -- memory -------------------------------------------------------------------------------------------------------

    @once
    def _groups(self) -> dict[int, int]:
        """For each value that may share memory, by number, a representative that it may share it with."""
        groups: dict[int, int] = {}
        for step in self._program.steps:
            if is_fresh(step):
                continue
            members = [*step.made, *step.refs]
            for other in members[1:]:
                a, b = find(groups, members[0]), find(groups, other)
                if a != b:
                    groups[a] = b
        return groups

    @once
    def _seen(self) -> defaultdict[int, int]:
        """How many results, inputs and constants may use the memory of a group."""
        seen: defaultdict[int, int] = defaultdict(int)
        for number in self._program.outputs:
            seen[find(self._groups, number)] += 1
        return seen

    @once
    def _given(self) -> set[int]:
        """The groups of inputs and constants."""
        return {find(self._groups, number) for number in (*self._program.inputs, *self._program.constants)}

    def _root(self, number: int) -> int:
        return find(self._groups, number)

    def reaches(self, number: int) -> bool:
        """Return whether a result may use the memory of a value."""
        return self._seen.get(self._root(number), 0) > 0

    def may_stand(self, step: Step, other: int) -> bool:
        """Return whether a value may replace the result of a step on it: the sharing of memory is not visible."""
        number = step.made[0]
        alike = self._is_dense(other) and all(self.may_leave(step, r) for r in step.refs if r != other)
        if not facts_of(step.op).is_view and self.is_ordered(number) and not alike:
            return False
        if not self.reaches(number):
            return True
        return not self.reaches(other) and self._root(other) not in self._given

    def may_merge(self, number: int, other: int) -> bool:
        """Return whether two equal values may be merged."""
        here, there = self._root(number), self._root(other)
        return here == there or not (self.reaches(number) and self.reaches(other))

    # -- order --------------------------------------------------------------------------------------------------------
    #
    # An elementwise operation lays its result out as its operands are: of two axes the one along which an operand has the
    # larger strides comes first, and where operands disagree, or say nothing, the order is C's. An operand *votes* if it
    # has two axes to compare: numbers, vectors and what is broadcast from them do not.

    def votes(self, number: int) -> bool:
        """Return whether a value may affect the memory order of elementwise results."""
        ref: Ref | None = Ref(number)
        while ref is not None and _axes_of(self.shapes[ref.number]) > 1:
            ref = self.unbroadcast(ref)
            if ref is None:
                return True
        return False

    @once
    def _lying_in_c(self) -> set[int]:
        """The values that are in C order whatever the inputs are, and whatever happens to arrays of one value."""
        found: set[int] = set()
        shapes = self._program.shapes
        points = {number for number, about in shapes.items() if about.shape == ()}
        others: set[int] = set()  # arrays of one value that may be in another order
        for step in self._program.steps:
            refs = [r for r in step.refs if r in shapes]
            if is_like(step):
                points.update(step.made)
                others.update(step.made if refs[0] not in found else ())
            elif facts_of(step.op).fills is not None or step.op == "full":
                points.update(step.made)
            elif step.op in ("broadcast_to", "broadcast_like"):
                points.update(step.made if refs and refs[0] in points else ())
            elif is_elementwise(step):
                values = [r for r in refs if r not in points]
                shape = shapes[step.made[0]].shape
                if not values:
                    points.update(step.made)
                    others.update(step.made if not others.isdisjoint(refs) else ())
                elif any(r in found and shapes[r].shape == shape for r in values) or (
                    all(_axes_of(shapes[r]) < 2 for r in values) and others.isdisjoint(refs)
                ):
                    found.update(step.made)
            else:
                product = step.op == "matmul" and all(len(shapes[r].shape) == 2 for r in refs)
                kept = facts_of(step.op).in_order and refs[0] in found
                found.update(step.made if product or kept else ())
        return found

    @once
    def _order(self) -> dict[int, Any]:
        """For each elementwise result, by number, the votes that determined its layout: equal votes, equal orders.

        An array created *like* another one that has no order of its own, such as a broadcast array, need not be laid
        out by its votes.
        """
        order: dict[int, Any] = {}
        shapes = self._program.shapes
        for step in self._program.steps:
            if not is_elementwise(step):
                continue
            shape = shapes[step.made[0]].shape
            votes = {
                (order.get(r, r), shapes[r].shape == shape or shapes[r].shape)
                for r in step.refs
                if r in shapes and _axes_of(shapes[r]) > 1
            }
            # a value that was laid out by some votes has their order, and more
            made = [vote for vote, whole in votes if whole is True and type(vote) is frozenset]
            least = next((vote for vote in made if votes <= {(vote, True), (("like", vote), True), *vote}), None)
            found = frozenset(votes) if least is None else least
            order[step.made[0]] = ("like", found) if is_like(step) and least is None else found
        return order

    @once
    def _ordered(self) -> set[int]:
        """The values whose position in memory may affect the last bits of others, for example where they are summed."""
        ordered: set[int] = set()
        wanted = set(self._program.outputs)  # the values of which more than the layout is used
        shapes = self._program.shapes
        for step in reversed(self._program.steps):
            is_wanted, is_seen = not wanted.isdisjoint(step.made), not ordered.isdisjoint(step.made)
            if is_wanted and not is_like(step):
                wanted.update(step.refs)
            if not is_elementwise(step):
                if is_seen or (is_wanted and is_fresh(step)):
                    ordered.update(step.refs)
            elif is_seen:
                shape = shapes[step.made[0]].shape
                decided = [r for r in step.refs if r in self._lying_in_c and shapes[r].shape == shape]
                voting = (r for r in step.refs if r in shapes and _axes_of(shapes[r]) > 1)
                ordered.update(r for r in voting if all(d == r for d in decided))
        return ordered

    def is_ordered(self, number: int) -> bool:
        """Return whether the memory positions of a value's elements may matter."""
        return number in self._ordered

    def may_leave(self, step: Step, number: int) -> bool:
        """Return whether an elementwise step has the same layout without an operand, or the difference is not visible."""
        if not self.is_ordered(step.made[0]) or not self.votes(number):
            return True
        shape, order = self.shapes[step.made[0]].shape, self._order.get(number)
        others = [r for r in step.refs if r != number and r in self.shapes and self.shapes[r].shape == shape]
        order = order[1] if type(order) is tuple else order
        if order is not None and any(self._order.get(r) == order and r in self._ordered for r in others):
            return True
        return any(r in self._lying_in_c for r in others)

    def _is_dense(self, number: int) -> bool:
        """Return whether a value has the same memory layout as its copy would."""
        maker = self.makers.get(number)
        if maker is None:
            return False
        return is_elementwise(maker) or maker.op == "matmul" or (is_fresh(maker) and facts_of(maker.op).in_order)


def _axes_of(about: Shaped) -> int:
    """Return how many axes of an array have more than one element."""
    return sum(n > 1 for n in about.shape)


def find(groups: dict[int, int], number: int) -> int:
    """Return the number that stands for a group."""
    while number in groups:
        above = groups[number]
        if above in groups:
            groups[number] = groups[above]
        number = above
    return number


def is_elementwise(step: Step) -> bool:
    """Return whether a step makes a new array element by element."""
    return _is_elementwise(step.op) and _copies(step)


def is_like(step: Step) -> bool:
    """Return whether a step makes an array laid out as its operand is, without a look at its elements."""
    return _is_like(step.op)


def is_fresh(step: Step) -> bool:
    """Return whether a step's result has its own memory."""
    return _is_fresh(step.op) and _copies(step)


@functools.cache
def is_foreign(op: str) -> bool:
    """Return whether an operation is not agrad's own: its kernel may return an operand at one call and a new array at the next."""
    return op in OPS and OPS[op].rule.guarded


@functools.cache
def _is_like(op: str) -> bool:
    return facts_of(op).creates == "like"


def _copies(step: Step) -> bool:
    return not step.kwargs or step.kwargs.get("copy", True) is True


@functools.cache
def _is_elementwise(op: str) -> bool:
    known = OPS.get(op)
    if known is None:
        return facts_of(op).creates == "like"
    return _is_fresh(op) and not is_foreign(op) and rule_of(known) is pointwise


@functools.cache
def _is_fresh(op: str) -> bool:
    return facts_of(op).memory == "fresh"


def kind_of(dtype: str) -> str:
    """Return the part of a dtype's name before its digits."""
    return dtype.rstrip("0123456789")


def key_of(part: Any) -> Any:
    """Return an argument as a lookup key, which distinguishes 1, 1.0 and True, and 0.0 and -0.0."""
    kind = type(part)
    if kind is Ref:
        return part.number  # a literal is a tuple; the garbage collector does not track plain tuples of numbers
    if kind is tuple or kind is list:
        return kind, tuple(map(key_of, part))
    if kind is slice:
        return kind, key_of(part.start), key_of(part.stop), key_of(part.step)
    if kind is float or kind is complex:
        return kind, repr(part)
    return kind, part


def broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape that shapes broadcast to."""
    made: list[int] = [1] * max(map(len, shapes))
    for shape in shapes:
        for i, n in enumerate(reversed(shape), 1):
            if made[-i] == 1:
                made[-i] = n
            elif n not in (1, made[-i]):
                return None
    return tuple(made)


def item(array: Any) -> Any:
    """Return the one number of a constant."""
    owner = backend_of(array)
    assert owner is not None
    return owner.item(array)
