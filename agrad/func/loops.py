"""The loop of `scan` as one step of a program: the operation ``func.scan``, whose body is a program.

Its derivatives and its rule under `vmap` are loops with other bodies, which are captured from the shapes of the first
one: each is created at first use, and stored with the body.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from agrad.compiled.comparing import equal_in_bits
from agrad.compiled.instrumentation import CURRENT
from agrad.compiled.purity import LoopBodyTracker, PassTracker
from agrad.compiled.tracing import Tracer
from agrad.core import mode
from agrad.core.backend import Backend, backend_of
from agrad.core.declare import custom
from agrad.core.op import OPS, Op
from agrad.core.operands import from_raw
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.func.grad import jvp, vjp
from agrad.func.vmap import vmap
from agrad.ops.batch_rules import BatchedCall
from agrad.ops.searching import where
from agrad.program.blank_recording import BlankRecorder, ShapeDtype, blank_tensor
from agrad.program.capture import recorded_run
from agrad.program.inference import WRITTEN
from agrad.program.outlines import Outline
from agrad.program.program import DETACH, LOOP, UNWIND, Body, Program, Step, refs_in, spec_of_value
from agrad.program.recording import CaptureError, Recorder

# -- what has a derivative ----------------------------------------------------------------------------------------------


def derived(make: Callable[..., Any]) -> Callable[..., Any]:
    """Create a derived body once, outside all active transforms."""

    @functools.wraps(make)
    def found(body: Body, *key: Any) -> Any:
        known = body.derived.get((make, *key))
        if known is None:
            known = body.derived.setdefault((make, *key), contextvars.Context().run(make, body, *key))
        return known

    return found


@derived
def ways_of(body: Body) -> tuple[frozenset[int], ...]:
    """Return, for each result of one call, the inputs of the body that it has a derivative by.

    These are the ways of the graph that the calls of a plain loop record: a detached value leads nowhere.
    """
    program = body.program
    ways = {n: frozenset((k,)) for k, n in enumerate(program.inputs) if is_inexact(_spec(program, n))}
    for step in program.steps:
        if step.op in (LOOP, UNWIND):
            found = _ways_through(step.args[1], [ways.get(ref.number, _NOWHERE) for ref in step.args[0]])
        else:
            found = [_NOWHERE.union(*(ways.get(n, _NOWHERE) for n in _differentiated(step)))] * len(step.outs)
        pairs = zip(step.outs, found, strict=False)  # a token is no result of a call
        ways |= {n: way for n, way in pairs if n is not None and is_inexact(_spec(program, n))}
    numbers = (*program.outputs, *(program.inputs[k] for k in body.kept))
    return tuple(ways.get(n, _NOWHERE) for n in numbers)


_NOWHERE: frozenset[int] = frozenset()


def _spec(program: Program, number: int) -> ShapeDtype:
    return ShapeDtype(*program.shapes[number])


def _differentiated(step: Step) -> Iterator[int]:
    """Yield the numbers of the values that the results of a step may have a derivative by."""
    op = OPS.get(step.op)
    if step.op == DETACH or (op is not None and op.rule.kind == "none" and not op.rule.adjoint_of):
        return
    apart = () if op is None else op.rule.index
    names = [] if op is None else [argument.name for argument in op.arguments]
    for name, part in (*itertools.zip_longest(names[: len(step.args)], step.args), *step.kwargs.items()):
        if name not in apart:
            yield from (ref.number for ref in refs_in(part))


def _ways_through(body: Body, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Return what the results of a whole loop have a derivative by, from the same of its operands."""
    alone = [tuple(k == i for k in range(len(given))) for i in range(len(given))]
    moving = [followed(needs, body) for needs in alone]
    return [
        _NOWHERE.union(*(way for way, moves in zip(given, moving, strict=True) if moves[j]))
        for j in range(len(moving[0]))
    ]


@derived
def _paths(body: Body, needs: tuple[bool, ...]) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    """Return which inputs need a gradient in any call, if these operands do; which carried values before any or after the last."""
    ways, c = ways_of(body), body.carried
    fixed = frozenset(k for k, need in enumerate(needs) if need and k >= c)
    first = frozenset(k for k, need in enumerate(needs) if need and k < c)

    def step(moving: frozenset[int]) -> frozenset[int]:
        return frozenset(k for k in range(c) if not ways[k].isdisjoint(moving | fixed))

    before, last = _repeated(first, step, body.length)
    return before | fixed, before | last, last


@derived
def _paths_back(body: Body, have: tuple[bool, ...]) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    """Return the same for cotangents, if these results have some: inputs, carried values, those carried into the first call."""
    ways, c = ways_of(body), body.carried
    fixed = frozenset(i for i, has in enumerate(have) if has and i >= c)
    last = frozenset(i for i, has in enumerate(have) if has and i < c)

    def inputs(results: frozenset[int]) -> frozenset[int]:
        return _NOWHERE.union(*(ways[i] for i in results))

    after, first = _repeated(last, lambda moving: frozenset(k for k in inputs(moving | fixed) if k < c), body.length)
    return inputs(after | fixed), after | first, first


def _repeated(
    state: frozenset[int], step: Callable[[frozenset[int]], frozenset[int]], n: int
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the union of the states before each of n steps, and the state after the last one."""
    met: dict[frozenset[int], int] = {}
    while len(met) < n and state not in met:
        met[state] = len(met)
        state = step(state)
    if state in met:  # from here on they repeat
        start = met[state]
        state = [*met][start + (n - start) % (len(met) - start)]
    return _NOWHERE.union(*met), state


def followed(needs: tuple[bool, ...], body: Body) -> tuple[bool, ...]:
    """Return which results of a loop need a gradient, if these operands do."""
    ever, _, last = _paths(body, needs)
    ways = ways_of(body)
    return tuple(i in last if i < body.carried else not way.isdisjoint(ever) for i, way in enumerate(ways))


def led(have: tuple[bool, ...], needs: tuple[bool, ...], body: Body) -> tuple[bool, ...]:
    """Return which operands of a loop get cotangents, of those that need them, if these results have some."""
    ever, _, first = _paths_back(body, have)
    return tuple(need and k in (first if k < body.carried else ever) for k, need in enumerate(needs))


def moving_in(body: Body, have: tuple[bool, ...], needs: tuple[bool, ...]) -> list[int]:
    """Return the inputs of a call whose cotangents the derivative of the loop computes."""
    carried = _paths_back(body, have)[1] & _paths(body, needs)[1]
    wanted = led(have, needs, body)
    return [k for k in range(len(needs)) if (k in carried if k < body.carried else wanted[k])]


# -- the operation ------------------------------------------------------------------------------------------------------


def _kernel(_xp: Any, operands: Sequence[Any], body: Body) -> list[Any]:
    """Run the body once per row, on arrays: its program is compiled once, and no result shares an operand's memory."""
    backend = backend_of(operands[0])
    assert backend is not None
    xp = backend.xp
    program = body.program.on(backend.device_of(operands[0]))
    run = program.runner(backend, **body.options)
    carried, rows, rest = body.split(operands)
    found: list[list[Any]] = [[] for _ in (*body.program.outputs[body.carried :], *body.kept)]
    for i in reversed(range(body.length)) if body.reverse else range(body.length):
        made = list(map(backend.as_array, run(*carried, *(row[i, ...] for row in rows), *rest)))
        made += [carried[k] for k in body.kept]
        carried = made[: body.carried]
        for column, one in zip(found, made[body.carried :], strict=True):
            column.append(one)
    if body.reverse:
        found = [column[::-1] for column in found]
    return [*(xp.asarray(one, copy=True) for one in carried), *map(xp.stack, found)]  # none shares an operand's memory


def _outlines(_operands: Sequence[Outline], body: Body) -> list[Outline]:
    """Return the outlines of the results, without running the body."""
    shapes = [body.program.shapes[n] for n in body.program.outputs]
    shapes += [body.program.shapes[body.program.inputs[k]] for k in body.kept]
    stacked = [Outline((body.length, *shaped.shape), shaped.dtype) for shaped in shapes[body.carried :]]
    return [*(Outline(shaped.shape, shaped.dtype) for shaped in shapes[: body.carried]), *stacked]


WRITTEN[LOOP] = _outlines


def by_operands(
    xp: Any,
    g: Sequence[Any],
    ans: Sequence[Any],
    operands: Sequence[Any],
    body: Body,
    needs: tuple[bool, ...],
    masked: bool,
) -> list[Any]:
    """Return the cotangents of the operands: a loop in the other direction; None for those that no cotangent leads to."""
    have = tuple(part is not None for part in g)
    made: list[Any] = [None] * len(operands)
    wanted = led(have, needs, body)
    if not any(wanted):
        return made
    back = backward_of(body, have, needs, masked)
    carried, rows, rest = body.split(operands)
    before = dict(zip(body.kept, ans[len(ans) - len(body.kept) :], strict=True))
    if not before.keys() >= {*back.states}:  # the carried values are computed again
        again = xp.func.scan(list(operands), body.keeping(back.states))
        before = dict(zip(back.states, again[len(again) - len(back.states) :], strict=True))
    zeros = [(xp.zeros_like(carried[k]) if g[k] is None else g[k]) for k in back.carried]
    zeros += [xp.zeros_like(rest[k]) for k in back.rest]
    given = [before[k] for k in back.states] + [rows[k] for k in back.rows]
    given += [part for part in g[body.carried :] if part is not None]
    found = iter(xp.func.scan([*zeros, *given, *(rest[k] for k in back.used)], back.body))
    places = [*back.carried, *(body.carried + body.rows + k for k in back.rest)]
    for place, one in zip((*places, *(body.carried + k for k in back.moving_rows)), found, strict=True):
        made[place] = one if wanted[place] else None
    return made


def along(xp: Any, ans: Sequence[Any], operands: Sequence[Any], t_operands: Sequence[Any], body: Body) -> list[Any]:
    """Return the tangents of the results: a loop that carries values and tangents along."""
    ahead = forward_of(body, tuple(t is not None for t in t_operands))
    carried, rows, rest = body.split(operands)
    t_carried, t_rows, t_rest = body.split(t_operands)
    given = [*carried, *(xp.zeros_like(carried[k]) if t_carried[k] is None else t_carried[k] for k in ahead.carried)]
    given += [*rows, *(t for t in t_rows if t is not None), *rest, *(t for t in t_rest if t is not None)]
    found = xp.func.scan(given, ahead.body)[body.carried :]
    made: list[Any] = [None] * len(ans)
    moving = followed(tuple(t is not None for t in t_operands), body)
    for place, tangent in zip(ahead.results, found, strict=True):
        made[place] = tangent if moving[place] else None
    return made


def batched(b: BatchedCall, operands: Sequence[Any], body: Body) -> list[Any]:
    """Run the loop of all examples at once; all carried values have the batch."""
    carried, rows, rest = body.split(operands)
    inside = batched_of(body, (*map(b.has, rows), *map(b.has, rest)), b.size)
    given = [b.data(x) for x in carried]
    given += [b.xp.moveaxis(x.data, 0, 1) if b.has(x) else x for x in rows]
    given += [x.data if b.has(x) else x for x in rest]
    found = b.xp.func.scan(given, inside)
    return [*found[: body.carried], *(b.xp.moveaxis(x, 1, 0) for x in found[body.carried :])]


@custom(
    name=LOOP,
    sequence="operands",
    outputs=0,
    vjp={"operands": by_operands},
    jvp=along,
    kernel=_kernel,
    batch=batched,
    follows=followed,
    memory="fresh",
)
def loop(operands: list[Any], body: Body, /) -> Any:
    """The carried values after a loop, then the results of its calls, stacked, then the values carried into each call."""


# -- bodies of derivatives ----------------------------------------------------------------------------------------------


class BackwardLoop(NamedTuple):
    """The loop of a derivative.

    Attributes
    ----------
    body : Body
        The program. It carries cotangents of `carried`, and sums of those of `rest`; its results are those of
        `moving_rows`.
    carried, rest, moving_rows : tuple of int
        Which carried values, constants and rows have a derivative.
    states, rows, used : tuple of int
        The carried values, rows and constants of the first loop that it takes.
    """

    body: Body
    carried: tuple[int, ...]
    rest: tuple[int, ...]
    moving_rows: tuple[int, ...]
    states: tuple[int, ...]
    rows: tuple[int, ...]
    used: tuple[int, ...]


class ForwardLoop(NamedTuple):
    """The loop of tangents: which carried values, and which results, have some."""

    body: Body
    carried: tuple[int, ...]
    results: tuple[int, ...]


def call(program: Program, given: Sequence[Tensor]) -> list[Tensor]:
    """Run a body's program on tensors, and record it."""
    return program.on_tensors(given[0]._spec.backend, list(given))


@derived
def backward_of(body: Body, have: tuple[bool, ...], needs: tuple[bool, ...], masked: bool = False) -> BackwardLoop:
    """Return the loop of the cotangents of these operands, if only these results have some.

    `masked`: they come from an operation that drops elements.
    """
    program, c = body.program, body.carried
    moving = moving_in(body, have, needs)
    kinds = [*out_specs(body)]
    wanted = [i for i, kind in enumerate(kinds) if (i in moving if i < c else have[i] and is_inexact(kind))]
    carried = tuple(k for k in moving if k < c)
    rows = tuple(k - c for k in moving if c <= k < c + body.rows)
    rest = tuple(k - c - body.rows for k in moving if k >= c + body.rows)

    def back(cotangents: list[Tensor], given: list[Tensor], constants: list[Tensor]) -> Any:
        known = [*given[: c + body.rows], *constants]

        def value(*parts: Tensor) -> tuple[Tensor, ...]:
            full = list(known)
            for place, part in zip(moving, parts, strict=True):
                full[place] = part
            outs = [*call(program, full), *(full[k] for k in body.kept)]
            return tuple(where(True, outs[i], 0) if masked else outs[i] for i in wanted)

        _, pull = vjp(value, *(known[k] for k in moving))
        found = dict(zip(moving, pull((*cotangents[: len(carried)], *given[c + body.rows :])), strict=True))
        sums = [total + found[c + body.rows + k] for total, k in zip(cotangents[len(carried) :], rest, strict=True)]
        return [*(found[k] for k in carried), *sums], [found[c + k] for k in rows]

    ahead, first, constants = body.split(specs_of(body))
    made = traced(
        back,
        [*(ahead[k] for k in carried), *(constants[k] for k in rest)],
        [*ahead, *first, *(kinds[i] for i in wanted if i >= c)],
        constants,
        length=body.length,
        reverse=not body.reverse,
    )
    made.check_whole()
    n, used = len(carried) + len(rest), made.used
    taken = [i for i in range(c + body.rows) if used[n + i]]
    cotangents = range(c + body.rows, made.body.rows)
    kept = [*range(n), *(n + i for i in (*taken, *cotangents))]
    beyond = [k for k in range(len(constants)) if used[n + made.body.rows + k]]
    kept += [n + made.body.rows + k for k in beyond]
    return BackwardLoop(
        made.body.taking(kept, len(taken) + len(cotangents)),
        carried,
        rest,
        rows,
        tuple(i for i in taken if i < c),
        tuple(i - c for i in taken if i >= c),
        tuple(beyond),
    )


@derived
def forward_of(body: Body, have: tuple[bool, ...]) -> ForwardLoop:
    """Return the loop of the tangents if only these rows and constants have some."""
    program, c = body.program, body.carried
    ever, results = _paths(body, have)[1], followed(have, body)
    moving = [i for i, has in enumerate(have) if (i in ever if i < c else has)]
    wanted = [i for i, moves in enumerate(results) if (i in ever if i < c else moves)]
    carried = [k for k in moving if k < c]
    rows = [k - c for k in moving if c <= k < c + body.rows]
    rest = [k - c - body.rows for k in moving if k >= c + body.rows]

    def ahead(values: list[Tensor], given: list[Tensor], constants: list[Tensor]) -> Any:
        known = [*values[:c], *given[: body.rows], *constants[: len(constants) - len(rest)]]
        tangents = [*values[c:], *given[body.rows :], *constants[len(constants) - len(rest) :]]

        def value(*parts: Tensor) -> tuple[Tensor, ...]:
            full = list(known)
            for place, part in zip(moving, parts, strict=True):
                full[place] = part
            outs = [*call(program, full), *(full[k] for k in body.kept)]
            return tuple(outs[i] for i in wanted)

        found = dict(zip(wanted, jvp(value, tuple(known[k] for k in moving), tuple(tangents))[1], strict=True))
        return [*call(program, known)[:c], *(found[k] for k in carried)], [found[i] for i in wanted if i >= c]

    values, first, constants = body.split(specs_of(body))
    made = traced(
        ahead,
        [*values, *(values[k] for k in carried)],
        [*first, *(first[k] for k in rows)],
        [*constants, *(constants[k] for k in rest)],
        length=body.length,
        reverse=body.reverse,
    )
    made.check_whole()
    return ForwardLoop(made.body, tuple(carried), tuple(wanted))


@derived
def batched_of(body: Body, have: tuple[bool, ...], size: int) -> Body:
    """Return the body for a batch of examples if these rows and constants have the batch as their first axis."""
    mask = (*(True for _ in range(body.carried)), *have)

    def batch(carried: list[Tensor], rows: list[Tensor], constants: list[Tensor]) -> Any:
        each = vmap(lambda *given: tuple(call(body.program, given)), tuple(0 if has else None for has in mask))
        found = each(*carried, *rows, *constants)
        return list(found[: body.carried]), list(found[body.carried :])

    specs = [
        ShapeDtype((size, *spec.shape), spec.dtype) if has else spec
        for spec, has in zip(specs_of(body), mask, strict=True)
    ]
    made = traced(batch, *body.split(specs), length=body.length, reverse=body.reverse)
    made.check_whole()
    return made.body.keeping(body.kept)


def specs_of(body: Body) -> list[ShapeDtype]:
    """Return the specs of a body's inputs."""
    return [ShapeDtype(*body.program.shapes[n]) for n in body.program.inputs]


def out_specs(body: Body) -> list[ShapeDtype]:
    """Return the specs of the results of one call, including the values carried into it."""
    given = specs_of(body)
    return [*(ShapeDtype(*body.program.shapes[n]) for n in body.program.outputs), *(given[k] for k in body.kept)]


def is_inexact(spec: ShapeDtype) -> bool:
    """Return whether a spec describes differentiable values."""
    return spec.dtype.is_floating_point or spec.dtype.is_complex


# -- capturing a body ---------------------------------------------------------------------------------------------------


class BodyRecorder(BlankRecorder):
    """Records one call of a loop, within another recording.

    Parameters
    ----------
    around : Recorder
        The outer recorder: it records the conditions under which the program holds, and knows the floats that the
        program computes.
    """

    def __init__(self, around: Recorder) -> None:
        super().__init__()
        self._around = around

    def guard(self, get: Callable[[], Any], name: str) -> None:
        self._around.guard(get, name)

    def traced_of(self, value: Any) -> Any:
        return self._around.traced_of(value)

    def step_argument(self, inner: Backend, op: str, part: Any) -> Any:
        return super().step_argument(
            inner, op, part if self.traced_of(part) is None else self._around.step_argument(inner, op, part)
        )

    def operand(self, op: Op, value: Any, array: Any) -> None:
        live, owner = self.traced_of(value), backend_of(array)
        if live is None:
            super().operand(op, value, array)
            return
        if owner is None:  # it stays a Python number
            live.tracer.condition(live)
            return
        live.used = True
        self.input(live.array)
        made = self.kernels_of(owner).astype(live.array, array.dtype)
        self.remember(array, self.number_in_use(made))
        self.kept_alive.append(array)


class TracedBody(NamedTuple):
    """A body, the outer tensors and arrays that are its last constants, and which of its inputs it uses."""

    body: Body
    outside: list[Any]
    used: list[bool]

    def check_whole(self) -> None:
        """Refuse a body made by agrad's own code that uses any outer value."""
        assert not self.outside


def traced(
    function: Callable[[list[Tensor], list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]],
    carried: Sequence[ShapeDtype | Spec],
    rows: Sequence[ShapeDtype | Spec],
    constants: Sequence[ShapeDtype | Spec],
    *,
    length: int,
    reverse: bool = False,
) -> TracedBody:
    """Capture what a function does in one call of a loop, from the shapes of its arguments.

    Raises
    ------
    CaptureError
        If no body can hold it: it draws random numbers, writes, registers hooks, or keeps values that it creates.
    """
    around = mode.recorder()
    recorder = BlankRecorder() if around is None else BodyRecorder(around)
    given = [[blank_tensor(spec) for spec in specs] for specs in (carried, rows, constants)]
    numbers = [recorder.input(t._raw) for tensors in given for t in tensors]
    for tensors in given:
        for t in tensors:
            recorder.meet(t)
    before = mode.get_mode()
    try:
        mode.push(levels=())  # tangents of outer values go through the loop as a whole
        nexts, results = recorded_run(recorder, function, tuple(map(list, given)), {})
        outputs = [recorder.input(t._raw) for t in (*nexts, *results)]
        met = [tensor for tensor, _, _ in recorder.met.values()]
        del nexts, results
        apart = recorder.draws or recorder.seeds or recorder.functions or recorder.hooked or recorder.extra_outputs
        # Otherwise it would have refused the value that keeps an array
        is_seen = isinstance(CURRENT.tracker, LoopBodyTracker)
        if apart or recorder.has_moved or (not is_seen and recorder.escaped({*outputs, *numbers}) is not None):
            raise CaptureError(
                "scan: a call draws random numbers, writes to values it did not create, or keeps values it creates"
            )
    finally:
        mode.set_mode(before)
        recorder.put_back()
    program = recorder.program(numbers, outputs)
    used = {number for step in program.steps for number in step.refs} | {*outputs}
    tensors_of = {id(tensor._raw): tensor for tensor in met}
    others = [(n, array) for n, array in recorder.inputs.values() if n in used and n not in numbers]
    program = program.replaced(inputs=(*numbers, *(n for n, _ in others)))
    body = Body(program, len(carried), len(rows), length, reverse=reverse)
    outside = [tensors_of.get(id(array), array) for _, array in others]
    return TracedBody(body, outside, [n in used for n in program.inputs])


def as_step(
    function: Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]],
    carried: Sequence[Tensor],
    rows: Sequence[Tensor],
    length: int,
) -> tuple[list[Tensor], list[Tensor]] | None:
    """Run a loop as one step of the program that is being recorded; return None if it must be unrolled.

    It must be unrolled if a call does something that no body can hold, or if two calls differ in more than their
    arguments.
    """
    try:
        body, operands = body_of(function, carried, rows, length)
        have, needs = (True,) * len(body.program.outputs), needs_of(operands)
        if any(led(have, needs, body)):
            body = body.keeping(backward_of(body, have, needs).states)
    except Exception:  # noqa: BLE001 (the plain loop reports what is wrong)
        return None
    found = list(OPS[LOOP].entry(operands, body))
    return found[: body.carried], found[body.carried : len(found) - len(body.kept)]


def needs_of(operands: Sequence[Tensor]) -> tuple[bool, ...]:
    """Return which operands of a loop its derivatives will be by; a program that is captured alone may be differentiated by all."""
    needs = tuple(t.requires_grad for t in operands)
    known = isinstance(mode.recorder(), Tracer) and any(needs)
    return needs if known else tuple(t._spec.inexact for t in operands)


def body_of(
    function: Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]],
    carried: Sequence[Tensor],
    rows: Sequence[Tensor],
    length: int,
) -> tuple[Body, list[Tensor]]:
    """Capture the body of a loop of the program that is being recorded; return it with the loop's operands.

    Two calls are captured, which must be the same. A compiled function sees everything that Python does, so one is enough.

    Raises
    ------
    CaptureError
        If a call does something that no body can hold, or two calls differ in more than their arguments. Other errors are the function's.
    """
    ahead, row = [_about(t, t.shape) for t in carried], [_about(t, t.shape[1:]) for t in rows]

    def once() -> TracedBody:
        return traced(lambda carry, row, _: function(carry, row), ahead, row, [], length=length)

    around, tracker = mode.recorder(), CURRENT.tracker
    if isinstance(around, Tracer) and (around.failure is not None or (around.observes_numbers and tracker is None)):
        raise CaptureError("a loop in a call that no program holds")
    if isinstance(tracker, PassTracker):  # a hook reads no outer tensor: it would not see tensors inside a loop
        raise CaptureError("a loop in a hook")
    if tracker is not None:
        first = LoopBodyTracker(tracker).run("what a loop calls", once)
    else:
        first = once()
        if not is_same(first, once()):
            raise CaptureError("two calls of a loop do not do the same")
    body = first.body
    if out_specs(body)[: body.carried] != specs_of(body)[: body.carried]:
        raise CaptureError("a call of a loop changes the shape or the dtype of a value that it carries")
    outside = [value if isinstance(value, Tensor) else from_raw(value) for value in first.outside]
    operands = [*carried, *rows, *outside]
    if not operands or len({id(backend) for backend in map(library_of, operands)}) > 1:
        raise CaptureError("a loop without operands, or with operands of several backends")
    return body, operands


def _about(tensor: Tensor, shape: tuple[int, ...]) -> ShapeDtype | Spec:
    """Return what an array without elements is made from, in place of a tensor or a row of one."""
    backend, dtype = library_of(tensor), tensor.dtype
    return (
        ShapeDtype(shape, dtype) if backend.is_lazy else Spec(backend, shape, backend.dtype(dtype), tensor._spec.device)
    )


def library_of(tensor: Tensor) -> Backend:
    """Return the backend of a tensor's array, below all batches."""
    backend = tensor._spec.backend
    return getattr(backend, "base", backend)


def is_same(first: TracedBody, second: TracedBody) -> bool:
    """Return whether two calls did the same."""
    one, other = first.body.program, second.body.program
    if str(one) != str(other) or [*map(id, first.outside)] != [*map(id, second.outside)]:
        return False
    pairs = [(one.constants[n], other.constants[n]) for n in one.constants]
    return all(equal_in_bits(spec_of_value(a).backend, a, b) for a, b in pairs)
