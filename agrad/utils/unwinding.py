"""A sequence of steps that follows a schedule of checkpoints, as one step of a program, and its derivative as another one.

``func.unwind(operands, body)`` runs the program of one step n times, and keeps what the schedule says; ``func.rewind`` follows
the schedule backward. What is kept is no value of the program, so that it can be released on the way: a *token*, a small array
without meaning, stands for it between the two, and dies with it. Where a token is not known, because it was used before or
copied, the steps run forward again from the first state. Second derivatives and forward mode are those of the plain loop.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agrad.compiled.instrumentation import CURRENT
from agrad.core import mode
from agrad.core.backend import Backend, backend_of
from agrad.core.declare import custom
from agrad.core.op import OPS
from agrad.core.operands import from_raw
from agrad.core.tensor import Tensor
from agrad.func.grad import vjp
from agrad.func.loops import (
    along,
    batched,
    batched_of,
    body_of,
    by_operands,
    call,
    derived,
    followed,
    is_inexact,
    led,
    library_of,
    moving_in,
    needs_of,
    specs_of,
    traced,
)
from agrad.ops.batch_rules import BatchedCall
from agrad.ops.creation import arange
from agrad.ops.data_type import astype
from agrad.ops.methods import BINARY
from agrad.ops.searching import where
from agrad.program.blank_recording import BlankRecorder, ShapeDtype, blank_tensor
from agrad.program.capture import recorded_run
from agrad.program.inference import WRITTEN
from agrad.program.outlines import Outline
from agrad.program.program import LOOP, REWIND, UNWIND, Body, Program
from agrad.program.recording import CaptureError, bases_of
from agrad.utils.following import Actions, Follower


class SequenceSchedule(NamedTuple):
    """What the body of a sequence follows.

    Attributes
    ----------
    actions : Actions
        The schedule.
    directory : str or None
        Of its files.
    needs : tuple of bool
        Which operands need a gradient: the derivative computes the cotangents of these.
    sizes : tuple of int
        The lengths of the batches that `vmap` has made of the sequence, outermost first.
    """

    actions: Actions
    directory: str | None
    needs: tuple[bool, ...]
    sizes: tuple[int, ...] = ()


# -- the programs of one step -------------------------------------------------------------------------------------------


class StepPrograms(NamedTuple):
    """The programs of a step of a sequence.

    Attributes
    ----------
    ahead : Program
        Returns the next state, and further values that the derivative needs.
    back : Program
        Takes some inputs of the step, those values, and cotangents of the next state; returns cotangents.
    taken : tuple of int
        These inputs.
    carried, rest : tuple of int
        The parts of the state, and the constants, whose cotangents it computes.
    """

    ahead: Program
    back: Program
    taken: tuple[int, ...]
    carried: tuple[int, ...]
    rest: tuple[int, ...]


@derived
def programs_of(body: Body, dropped: bool) -> StepPrograms:
    """Return the programs of a step; `dropped`: its cotangents come from an operation that drops elements."""
    program, c = body.program, body.carried
    specs = specs_of(body)
    have = tuple(map(is_inexact, specs[:c]))
    moving = [i for i in moving_in(body, have, body.schedule.needs) if not c <= i < c + body.rows]
    carried = tuple(k for k in moving if k < c)
    recorder = BlankRecorder()
    given = [blank_tensor(spec) for spec in specs]
    cotangents = [blank_tensor(specs[k]) for k in carried]
    numbers = [recorder.input(t._raw) for t in (*given, *cotangents)]
    for t in (*given, *cotangents):
        recorder.meet(t)
    nexts: list[Tensor] = []

    def both() -> tuple[int, list[Tensor]]:
        def value(*parts: Tensor) -> tuple[Tensor, ...]:
            full = list(given)
            for place, part in zip(moving, parts, strict=True):
                full[place] = part
            nexts.extend(call(program, full))
            return tuple(where(True, nexts[k], 0) if dropped else nexts[k] for k in carried)

        _, pull = vjp(value, *(given[k] for k in moving))
        return len(recorder.steps), list(pull(tuple(cotangents)))

    try:
        mark, found = recorded_run(recorder, both, (), {})
        outs, grads = ([recorder.input(t._raw) for t in tensors] for tensors in (nexts, found))
    finally:
        recorder.put_back()
    back = Program(
        (), tuple(recorder.steps[mark:]), tuple(grads), recorder.shapes, recorder.constants, device=recorder.device
    ).needed()
    own = {n for step in back.steps for n in step.made} | {*back.constants, *numbers[len(given) :]}
    used = dict.fromkeys([n for step in back.steps for n in step.refs] + grads)
    taken = [i for i, n in enumerate(numbers[: len(given)]) if n in used]
    more = [n for n in used if n not in own and n not in numbers]
    return StepPrograms(
        recorder.program(numbers[: len(given)], [*outs, *more]),
        back.replaced(inputs=(*(numbers[i] for i in taken), *more, *numbers[len(given) :])),
        tuple(taken),
        carried,
        tuple(k - c - body.rows for k in moving if k >= c),
    )


@derived
def plainly(body: Body, dropped: bool) -> Body:
    """Return the derivative of a sequence as a body that runs once: by the plain loop, which keeps all states."""
    parts, c = programs_of(body, dropped), body.carried
    specs = [
        ShapeDtype((body.length, *spec.shape), spec.dtype) if c <= i < c + body.rows else spec
        for i, spec in enumerate(specs_of(body))
    ]
    moving = [*parts.carried, *(c + body.rows + k for k in parts.rest)]

    def back(_: list[Tensor], __: list[Tensor], given: list[Tensor]) -> Any:
        known, cotangents = given[: len(specs)], given[len(specs) :]

        def value(*some: Tensor) -> Any:
            full = list(known)
            for place, part in zip(moving, some, strict=True):
                full[place] = part
            outs = OPS[LOOP].entry(full, body)
            return tuple(where(True, outs[k], 0) if dropped else outs[k] for k in parts.carried)

        _, pull = vjp(value, *(known[k] for k in moving))
        return [], list(pull(tuple(cotangents)))

    made = traced(back, [], [], [*specs, *(specs[k] for k in parts.carried)], length=1)
    made.check_whole()
    return made.body


# -- following the schedule ---------------------------------------------------------------------------------------------

#: In place of the first state, which every operation on the sequence is given.
_FIRST = object()


class _StepGraph(NamedTuple):
    """What the derivative of a step needs: the state before it, and further values, in their kept form."""

    state: Any
    more: list[Any]


class SequenceRun(Follower):
    """A run of a sequence on arrays. It holds no memory of its operands, which may be reused after an operation.

    Parameters
    ----------
    operands : sequence of array
        The first state, the rows and the constants.
    body : Body
        With a schedule.
    dropped : bool
        As for `programs_of`.
    """

    def __init__(self, operands: Sequence[Any], body: Body, *, dropped: bool) -> None:
        super().__init__([], body.schedule.actions, body.schedule.directory)
        backend = backend_of(operands[0])
        assert backend is not None
        self.backend: Backend = backend
        self.body: Body = body
        self.parts: StepPrograms = programs_of(body, dropped)
        device = backend.device_of(operands[0])

        def runner(program: Program) -> Callable[..., Sequence[Any]]:
            return program.on(device).chosen(backend, **body.options)

        self._plain, self._ahead, self._behind = map(runner, (body.program, self.parts.ahead, self.parts.back))
        self.take(operands)
        self._state = self._first

    def take(self, operands: Sequence[Any]) -> None:
        """Take the operands of the present operation."""
        self._first, self._rows, self._rest = self.body.split(operands)
        self._owners = {id(_owner(array)) for array in operands}

    def apart(self, array: Any) -> Any:
        """Return an array that shares no memory with an operand."""
        array = self.backend.as_array(array)
        return self.backend.xp.asarray(array, copy=True) if id(_owner(array)) in self._owners else array

    def _inputs(self, state: Sequence[Any], i: int) -> list[Any]:
        return [*state, *(row[i, ...] for row in self._rows), *self._rest]

    def _call(self, i: int, *, keep: bool, to_disk: bool) -> _StepGraph | None:
        state, self._state = self._state, []
        given = self._inputs(state, i)
        kept = None
        if keep:
            wanted = [k for k in self.parts.taken if k < self.body.carried]
            kept = self._kept(state if state is self._first else [state[k] for k in wanted], to_disk=to_disk)
        del state
        made = [self.apart(one) for one in (self._ahead if keep else self._plain)(*given)]
        self._state, self._at = made[: self.body.carried], i + 1
        return _StepGraph(kept, self._kept(made[self.body.carried :], to_disk=to_disk)) if keep else None

    def _kept(self, state: list[Any], *, to_disk: bool) -> Any:
        if state is self._first:
            return _FIRST
        return [self._disk.pack_hook(from_raw(one)) for one in state] if to_disk else list(state)

    def _taken(self, kept: Any) -> list[Any]:
        if kept is _FIRST:
            return self._first
        disk = self._disk
        return [one if backend_of(one) is self.backend else disk.unpack_hook(one)._raw for one in kept]

    def back(self, cotangents: Sequence[Any]) -> list[Any]:
        """Follow the schedule to its end; return the cotangents of the first state and of the constants."""
        self._sums: list[Any] = [None] * len(self.parts.rest)
        return [*map(self.apart, self._back(cotangents)), *map(self.apart, self._sums)]

    def _over(self, i: int, graph: _StepGraph, *, keep: bool) -> None:
        state, taken = self._taken(graph.state), self.parts.taken
        if graph.state is _FIRST:
            state = [state[k] for k in taken if k < self.body.carried]
        given = self._inputs([None] * self.body.carried, i)
        values = [*state, *(given[k] for k in taken if k >= self.body.carried), *self._taken(graph.more)]
        count = len(self.parts.carried)
        found = list(map(self.backend.as_array, self._behind(*values, *self._cotangents)))
        self._cotangents = found[:count]
        total = self.backend.xp.add
        self._sums = [
            one if other is None else total(other, one) for other, one in zip(self._sums, found[count:], strict=True)
        ]


def _owner(array: Any) -> Any:
    """Return what owns the memory of an array, as far as its library says."""
    owner = array
    for base in bases_of(array):
        owner = base
    return owner


#: Runs that have gone forward, by the identity of their token: a weak reference to it, and the run.
_RUNS: dict[int, tuple[Any, SequenceRun]] = {}


def _noted(token: Any, run: SequenceRun) -> None:
    """Keep a run while its token lives."""
    try:
        _RUNS[id(token)] = weakref.ref(token, functools.partial(_RUNS.pop, id(token))), run
    except TypeError:  # without weak references nothing is kept
        run.let_go()


def _known(token: Any) -> SequenceRun | None:
    """Return the run of a token, once."""
    reference, run = _RUNS.pop(id(token), (None, None))
    return run if reference is not None and reference() is token else None


def _alone(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that records nothing; a schedule is a constant, so a compiled function need not see what it does."""
    before, tracker = mode.get_mode(), CURRENT.tracker
    try:
        mode.push(grad=False, levels=(), saved=(), recorder=None)
        CURRENT.tracker = None
        return function(*args)
    finally:
        CURRENT.tracker = tracker
        mode.set_mode(before)


# -- the operations -----------------------------------------------------------------------------------------------------


def _unwind_kernel(_xp: Any, operands: Sequence[Any], body: Body) -> list[Any]:
    """Run the steps; return the last state, and the token of what is kept."""
    run = _alone(functools.partial(SequenceRun, dropped=False), operands, body)
    xp, backend = run.backend.xp, run.backend
    last = [xp.asarray(one, copy=True) for one in _alone(run.forward)]
    token = xp.zeros(
        (*body.schedule.sizes, 1), dtype=backend.dtype("bool"), **backend.creation(backend.device_of(operands[0]))
    )
    run.take([])  # the graph has the operands, and gives them back
    _noted(token, run)
    return [*last, token]


def _rewind_kernel(_xp: Any, operands: Sequence[Any], body: Body, dropped: bool) -> list[Any]:
    """Go back over the steps; return the cotangents of the state and of the constants, as far as they are computed."""
    count = len(body.program.inputs)
    given, cotangents = operands[:count], operands[count + 1 :]
    run = _known(operands[count])
    if run is None or dropped or run.body.schedule.needs != body.schedule.needs:
        if run is not None:
            run.let_go()
        run = _alone(functools.partial(SequenceRun, dropped=dropped), given, body)
        _alone(run.forward)
    run.take(given)
    return _alone(run.back, cotangents)  # type: ignore[no-any-return]


def _unwind_outlines(_operands: Sequence[Outline], body: Body) -> list[Outline]:
    shapes = [body.program.shapes[n] for n in body.program.outputs]
    return [*(Outline(*shaped) for shaped in shapes), Outline((*body.schedule.sizes, 1), "bool")]


def _rewind_outlines(operands: Sequence[Outline], body: Body, dropped: bool) -> list[Outline]:
    parts = programs_of(body, dropped)
    _, _, rest = body.split(operands[: len(body.program.inputs)])
    return [*(operands[k] for k in parts.carried), *(rest[k] for k in parts.rest)]


WRITTEN[UNWIND], WRITTEN[REWIND] = _unwind_outlines, _rewind_outlines


def _unwind_by_operands(
    xp: Any,
    g: Sequence[Any],
    ans: Sequence[Any],
    operands: Sequence[Any],
    body: Body,
    needs: tuple[bool, ...],
    masked: bool,
) -> list[Any]:
    """Follow the schedule backward; if that is differentiated, the plain loop."""
    g = g[: body.carried]
    if isinstance(operands[0], Tensor) and mode.is_grad_enabled():
        return by_operands(xp, g, ans, operands, body, needs, masked)
    made: list[Any] = [None] * len(operands)
    wanted = led(tuple(part is not None for part in g), needs, body)
    if not any(wanted):
        return made
    if any(need and not had for need, had in zip(wanted, body.schedule.needs, strict=True)):
        body = _needing(body, needs)
    parts = programs_of(body, masked)
    cotangents = [xp.zeros_like(operands[k]) if g[k] is None else g[k] for k in parts.carried]
    found = xp.func.rewind([*operands, ans[-1], *cotangents], body, masked)
    places = (*parts.carried, *(body.carried + body.rows + k for k in parts.rest))
    for place, one in zip(places, found, strict=True):
        made[place] = one if wanted[place] else None
    return made


@derived
def _needing(body: Body, needs: tuple[bool, ...]) -> Body:
    """Return the body for a derivative by other operands than the capture knew; what is kept does not suffice for it."""
    return body.doing(body.program, schedule=body.schedule._replace(needs=needs))


def _batched_sequence(b: BatchedCall, operands: Sequence[Any], body: Body) -> tuple[list[Any], Body]:
    """Return operands and body of the sequences of all examples at once: all that has a derivative has the batch."""
    carried, rows, rest = body.split(operands)
    kinds = specs_of(body)[body.carried + body.rows :]
    have = [b.has(x) or is_inexact(spec) for x, spec in zip(rest, kinds, strict=True)]
    plain = batched_of(body, (*map(b.has, rows), *have), b.size)
    schedule = body.schedule._replace(sizes=(b.size, *body.schedule.sizes))
    inside = plain.derived.setdefault("scheduled", plain.doing(plain.program, schedule=schedule))
    given = [b.data(x) for x in carried]
    given += [b.xp.moveaxis(x.data, 0, 1) if b.has(x) else x for x in rows]
    return [*given, *(b.data(x) if has else x for x, has in zip(rest, have, strict=True))], inside


def _unwind_batch(b: BatchedCall, operands: Sequence[Any], body: Body) -> list[Any]:
    return list(b.kernel(*_batched_sequence(b, operands, body)))


def _rewind_batch(b: BatchedCall, operands: Sequence[Any], body: Body, dropped: bool) -> list[Any]:
    """Go back over the sequences of all examples at once; where only cotangents have the batch, over a plain loop."""
    count = len(body.program.inputs)
    given, token, cotangents = operands[:count], operands[count], operands[count + 1 :]
    if not b.has(token):
        found = batched(b, [*given, *cotangents], plainly(body, dropped))
        return [x[:, 0, ...] for x in found]
    operands, inside = _batched_sequence(b, given, body)
    return list(b.kernel([*operands, token.data, *map(b.data, cotangents)], inside, dropped))


def _without_token(values: Sequence[Any], body: Body) -> list[Any]:
    count = len(body.program.inputs)
    return [*values[:count], *values[count + 1 :]]


def _rewind_by_operands(
    xp: Any,
    g: Sequence[Any],
    operands: Sequence[Any],
    body: Body,
    needs: tuple[bool, ...],
    dropped: bool,
    masked: bool,
) -> list[Any]:
    """Differentiate the derivative of the plain loop."""
    stacked = [None if part is None else xp.expand_dims(part, axis=0) for part in g]
    inner, plain = plainly(body, dropped), _without_token(operands, body)
    made = by_operands(xp, stacked, [], plain, inner, tuple(_without_token(needs, body)), masked)
    count = len(body.program.inputs)
    return [*made[:count], None, *made[count:]]


def _rewind_along(
    xp: Any, ans: Sequence[Any], operands: Sequence[Any], t_operands: Sequence[Any], body: Body, dropped: bool
) -> list[Any]:
    found = along(xp, ans, _without_token(operands, body), _without_token(t_operands, body), plainly(body, dropped))
    return [None if t is None else xp.reshape(t, t.shape[1:]) for t in found]


@custom(
    name=UNWIND,
    sequence="operands",
    outputs=0,
    vjp={"operands": _unwind_by_operands},
    jvp=along,
    kernel=_unwind_kernel,
    batch=_unwind_batch,
    follows=lambda needs, body: (*followed(needs, body), False),
    memory="fresh",
)
def unwind(operands: list[Any], body: Body, /) -> Any:
    """The state after a sequence of steps, then the token of what its schedule keeps."""


@custom(
    name=REWIND,
    sequence="operands",
    outputs=0,
    vjp={"operands": _rewind_by_operands},
    jvp=_rewind_along,
    kernel=_rewind_kernel,
    batch=_rewind_batch,
    memory="fresh",
)
def rewind(operands: list[Any], body: Body, dropped: bool, /) -> Any:
    """The cotangents of the operands of a sequence, from the token, and cotangents of the last state: `operands` are all of these."""


# -- in a recording -----------------------------------------------------------------------------------------------------


class StepNumber:
    """The number of a step in a program of all steps: Python's sums and products with numbers and tensors, and nothing else.

    As for Python's numbers, a result with a tensor has the tensor's dtype.
    """

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def by(self, name: str, other: Any, *, reflected: bool) -> Any:
        """Return the result of an operator."""
        value, inexact = self.value, self.value._spec.inexact
        divides = name == "truediv"
        if isinstance(other, Tensor):
            integers = other._spec.backend.kind(other.dtype) == "int" and not inexact and not divides
            if not other._spec.inexact and not integers:
                self.refuse()
            value, part = astype(value, other.dtype), other
        elif type(other) in (int, float, StepNumber):
            part = other.value if isinstance(other, StepNumber) else other
            if not inexact and (divides or type(other) is float or getattr(part, "_spec", value._spec).inexact):
                value = astype(value, value._spec.backend.dtype("float64"))
        else:
            return NotImplemented
        made = OPS[BINARY[name]].entry(*((part, value) if reflected else (value, part)))
        return made if isinstance(other, Tensor) else StepNumber(made)

    def refuse(self, *_: Any) -> Any:
        """Refuse any other use, where the uses of a plain integer would not be seen."""
        raise CaptureError(
            "the number of the step is used in another way than in sums and products: carry a counter in the state, as"
            " ag.asarray(0) and count + 1"
        )


def _operators() -> None:
    def method(name: str, *, reflected: bool) -> Callable[..., Any]:
        return lambda self, other: self.by(name, other, reflected=reflected)

    for name in ("add", "sub", "mul", "truediv"):
        setattr(StepNumber, f"__{name}__", method(name, reflected=False))
        setattr(StepNumber, f"__r{name}__", method(name, reflected=True))
    for name in (
        *(
            "lt",
            "le",
            "gt",
            "ge",
            "eq",
            "ne",
            "bool",
            "hash",
            "float",
            "int",
            "index",
            "complex",
            "repr",
            "str",
            "format",
        ),
        *(
            "round",
            "trunc",
            "floor",
            "ceil",
            "abs",
            "neg",
            "pos",
            "invert",
            "pow",
            "rpow",
            "divmod",
            "rdivmod",
            "array",
        ),
        *(f"{r}{name}" for r in ("", "r") for name in ("floordiv", "mod", "and", "or", "xor", "lshift", "rshift")),
        *("getattr", "iter", "len", "getitem"),
    ):
        setattr(StepNumber, f"__{name}__", StepNumber.refuse)


_operators()


def as_step(
    step: Callable[[list[Tensor], Any], list[Tensor]], state: Sequence[Tensor], actions: Actions, directory: str | None
) -> list[Tensor]:
    """Run a sequence as one step of the program that is being recorded.

    Parameters
    ----------
    step : callable
        Takes the leaves of a state and the number of a step, returns the leaves of the next state.
    state : sequence of Tensor
        The leaves of the first one.
    actions, directory
        As for `SequenceSchedule`.

    Raises
    ------
    CaptureError
        If no program can hold the step, or arrays are lazy: a schedule needs values. Other errors are the step's.
    """
    backend = library_of(state[0]) if state else None
    if backend is None or backend.is_lazy:
        raise CaptureError("there is no array, or arrays are lazy")
    numbers = arange(actions.n, dtype=backend.dtype("int64"), device=state[0].device)
    body, operands = body_of(lambda carry, row: (step(carry, StepNumber(row[0])), []), state, [numbers], actions.n)
    count = body.carried
    used = {ref for one in body.program.steps for ref in one.refs} | {*body.program.outputs}
    if body.program.inputs[count] not in used:
        body = body.taking([k for k in range(len(body.program.inputs)) if k != count], 0)
        del operands[count]
    scheduled = body.doing(body.program, schedule=SequenceSchedule(actions, directory, needs_of(operands)))
    have = tuple(map(is_inexact, specs_of(body)[:count]))
    moves = mode.is_grad_enabled() and any(led(have, scheduled.schedule.needs, body))
    return list(OPS[UNWIND if moves else LOOP].entry(operands, scheduled))[:count]
