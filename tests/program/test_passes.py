"""Passes over programs: the same bits from fewer steps, and no memory shared that was not shared before."""

from __future__ import annotations

import math
from dataclasses import replace

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.core.backend import backend_of
from agrad.core.errors import UnsupportedOp
from agrad.program import passes
from agrad.program.passes import PASSES, optimized
from agrad.program.program import Program, Ref, Shaped, Step
from agrad.testing.calls import SampleCall
from agrad.testing.samples import SAMPLES

NUMPY = backend_of(np.ones(1))
F = ag.nn.functional


def capture(f, *args) -> Program:
    return ag.func.capture(f)(*args)


def run(program: Program, values):
    """Run on arrays, with keys where the program draws."""
    keys = iter(range(100))
    given = [(7, next(keys)) if number in program.keys else next(values) for number in program.inputs]
    with np.errstate(all="ignore"):
        return [np.asarray(out) for out in program.without_detach().function(NUMPY)(*given)], given


def same_bits(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    np.testing.assert_array_equal(a, b)  # NaN equals NaN
    if a.dtype.kind in "fc":
        for part in ("real", "imag"):
            x, y = getattr(a, part), getattr(b, part)
            np.testing.assert_array_equal(np.signbit(x)[~np.isnan(x)], np.signbit(y)[~np.isnan(y)])


def sharing(outs, values):
    """Return which pairs of results, or of a result and an input, share memory."""
    every = [*outs, *(v for v in values if isinstance(v, np.ndarray))]
    return {
        (i, j) for i in range(len(outs)) for j in range(i + 1, len(every)) if np.may_share_memory(every[i], every[j])
    }


def check(program: Program, *values):
    """Compare every pass alone, and all of them, with the program as it is."""
    wanted, given = run(program, iter(values))
    for change in (*dict.fromkeys(PASSES), optimized, lambda p: optimized(p.without_detach())):
        changed = change(program)
        assert changed.inputs == program.inputs
        assert len(changed.outputs) == len(program.outputs)
        found, again = run(changed, iter(values))
        for a, b in zip(found, wanted, strict=True):
            same_bits(a, b)
        assert sharing(found, again) <= sharing(wanted, given)
    return optimized(program.without_detach())


RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def given_values(program: Program):
    """Return values for a program's inputs, drawn anew, beside its arguments those from outside."""
    made = []
    for number in program.inputs:
        if number in program.keys:
            continue
        about = program.shapes[number]
        if about.dtype.startswith("int"):
            made.append(RNG.integers(0, 3, about.shape).astype(about.dtype))
        else:
            made.append(RNG.standard_normal(about.shape).astype(about.dtype))
    return made


def mse(w, b, x, y):
    return ag.mean((ag.tanh(x @ w + b) - y) ** 2)


def classes(w1, b1, w2, b2, x):
    return F.cross_entropy(F.relu(x @ w1 + b1) @ w2 + b2, ag.arange(4) % 3)


def block(x, g, b, q, k, v, w):
    h = F.layer_norm(x, (8,), g, b)
    weights = F.softmax((h @ q) @ ag.matrix_transpose(h @ k) / math.sqrt(8), -1)
    h = x + weights @ (h @ v)
    return ag.sum(F.gelu(h @ w) ** 2)


def rnn(w, u, b, xs):
    h = ag.zeros((3, 4), dtype=ag.float32)
    for t in range(6):
        h = ag.tanh(xs[t] @ w + h @ u + b)
    return ag.sum(h * h)


def powers(x):
    return ag.sum(x**2 + x**3 * 0.5 - ag.sqrt(ag.abs(x) + 1) ** 1 + x**0)


def pieces(x):
    y = ag.where(x > 0, x, 0.1 * x) + ag.where(x != 0, 1 / x, 0.0)
    return ag.sum(ag.stack([y[1:], y[:-1]], axis=0) * 1.0 - ag.reshape(y[:-1], (1, -1)))


def second(f):
    return ag.func.grad(lambda x: ag.sum(ag.func.grad(f)(x) ** 2))


def dropped(x):
    return ag.sum(F.dropout(x, 0.5) * F.dropout(x, 0.5))


GRAD = ag.func.value_and_grad
CASES = {
    "mse": (GRAD(lambda p, x, y: mse(*p, x, y)), (normal(5, 3), normal(3)), normal(4, 5), normal(4, 3)),
    "classes": (GRAD(lambda p, x: classes(*p, x)), (normal(5, 6), normal(6), normal(6, 3), normal(3)), normal(4, 5)),
    "transformer block": (GRAD(lambda p: block(*p)), (normal(5, 8), *map(normal, (8, 8)), *[normal(8, 8)] * 4)),
    "rnn": (GRAD(lambda p, xs: rnn(*p, xs)), (normal(2, 4), normal(4, 4), normal(4)), normal(6, 3, 2)),
    "powers": (GRAD(powers), normal(3, 4)),
    "powers twice": (second(powers), ag.tensor(normal(3, 4))),
    "pieces": (GRAD(pieces), normal(7)),
    "pieces twice": (second(pieces), ag.tensor(normal(7))),
    "vmap of grad": (ag.func.vmap(ag.func.grad(powers)), normal(3, 4)),
    "hvp": (lambda x, v: ag.func.hvp(lambda x: ag.sum(x[1:] ** 2 * x[:-1]), (x,), (v,)), normal(5), normal(5)),
    "draws": (GRAD(dropped), normal(4, 5)),
    "linalg": (GRAD(lambda a, b: ag.sum(ag.linalg.solve(a @ a.mT + 3, b))), normal(3, 3), normal(3, 2)),
    "complex": (lambda x: (x * 1, x / 1, ag.real(x) * 1.0, +x, x**1), normal(4).astype(np.complex64)),
    "integers": (lambda x: (x * 1, x - 0, x**1, x // 1, x + 0), np.arange(5)),
    "copies": (lambda x: (+x, x * 1, ag.astype(x, ag.float32), x - 0.0, x + 0.0, x / 1, x**1, x.mT.mT), normal(3, 4)),
    "one as two results": (lambda x: (ag.sin(x), ag.sin(x), +ag.sin(x), ag.zeros_like(x), ag.zeros_like(x)), normal(4)),
    "views": (lambda x: (ag.reshape(+x, (12,)), ag.reshape(x, (3, 4)), ag.broadcast_to(x, (3, 4))), normal(3, 4)),
}


@pytest.mark.parametrize("case", CASES)
def test_every_pass_keeps_every_bit(case):
    function, *args = CASES[case]
    program = capture(function, *args)
    check(program, *given_values(program))


CAPTURED: dict = {}
SPECIAL = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.5, 1e30, 1e-40])


@settings(max_examples=15, deadline=None)
@given(arrays.arrays(np.float32, (7,), elements=SPECIAL))
@pytest.mark.parametrize("case", ["pieces", "pieces twice", "copies", "powers", "powers twice"])
def test_zeros_with_signs_and_what_is_not_finite(case, x):
    function, first = CASES[case][0], np.ones((7,) if case.startswith("pieces") else (1, 7), np.float32)
    key = case, first.shape
    if key not in CAPTURED:
        CAPTURED[key] = capture(function, ag.tensor(first))
    check(CAPTURED[key], x.reshape(first.shape))


@pytest.mark.parametrize("layout", [lambda x: x.T, lambda x: x[::-1], lambda x: np.repeat(x, 2, 1)[:, ::2]])
def test_sums_of_what_lies_elsewhere_in_memory(layout):
    x = layout(normal(70, 70))
    program = capture(lambda x: (ag.sum(+x), ag.sum(+x, axis=0), ag.sum(x * 1 + 1), (x * 1) @ (x**1)), normal(70, 70))
    check(program, x)


def steps_of(program):
    return [step.op for step in program.steps]


@pytest.mark.shows("passes")
def test_the_derivative_of_a_square_is_a_product():
    program = capture(ag.func.grad(lambda x: ag.sum(x**2)), normal(5))
    assert steps_of(optimized(program.without_detach())) == ["multiply"]


@pytest.mark.shows("passes")
def test_what_follows_from_constants_is_computed_once():
    program = capture(ag.func.grad(lambda x: ag.mean(ag.sin(x) / 2)), normal(5))
    made = optimized(program.without_detach())
    assert steps_of(made) == ["cos", "multiply"]
    assert [float(c) for c in made.constants.values()] == [np.float32(1 / 5) * np.float32(0.5)]


@pytest.mark.shows("passes")
def test_computed_once_where_written_twice():
    made = optimized(capture(lambda x: ag.sum(ag.sin(x) * ag.sin(x)), normal(5)))
    assert steps_of(made) == ["sin", "multiply", "sum"]


@pytest.mark.shows("passes")
def test_draws_and_recomputations_stay():
    made = optimized(capture(lambda x: x * ag.randn(5) * ag.randn(5), normal(5)))
    assert steps_of(made).count("random") == 2
    program = capture(lambda x: ag.sum(ag.sin(x) + ag.sin(x) + ag.sin(x)), normal(5))
    regions = iter((0, 1, 1))
    steps = [replace(step, region=next(regions)) if step.op == "sin" else step for step in program.steps]
    assert steps_of(optimized(program.replaced(steps=tuple(steps)))).count("sin") == 2


def test_one_and_true_and_zeros_with_signs_are_not_the_same():
    program = capture(lambda x: (ag.sum(x * 0.0), ag.sum(x * -0.0), ag.sum(x + 0.0), ag.sum(x + -0.0)), normal(5))
    check(program, np.array([-1.0, 0.0, -0.0, 2.0, 3.0], np.float32))
    assert passes.key_of((1,)) != passes.key_of((True,)) != passes.key_of((1.0,))
    assert passes.key_of(0.0) != passes.key_of(-0.0)


@pytest.mark.shows("passes")
def test_residuals_are_asked_for_together():
    shapes = {0: Shaped((2, 3), "float32"), 1: Shaped((2, 3), "float32"), 2: Shaped((2, 1), "float32")}
    shapes |= {3: shapes[1], 4: shapes[2]}
    layer = lambda *outs: Step("nn.layer_norm", (Ref(0), None, None, 1, 1e-5), {}, outs, True)
    program = Program((0,), (layer(1, None, None), layer(3, 4, None)), (1, 4), shapes)
    made = check(program, normal(2, 3))
    assert [step.outs for step in made.steps] == [(1, 4, None)]


def test_lines_and_regions_are_kept():
    program = capture(CASES["mse"][0], *CASES["mse"][1:])
    program = program.replaced(steps=tuple(replace(step, region=i) for i, step in enumerate(program.steps)))
    before = {number: (step.line, step.region) for step in program.steps for number in step.made}
    for step in optimized(program).steps:
        assert all(before[number] == (step.line, step.region) for number in step.made if number in before)


@pytest.mark.shows("passes")
def test_a_program_of_many_steps():
    steps = tuple(Step("multiply", (Ref(i), 1.5 if i % 2 else 1.0), {}, (i + 1,)) for i in range(20_000))
    program = Program((0,), steps, (20_000,), dict.fromkeys(range(20_001), Shaped((3,), "float64")))
    assert len(optimized(program).steps) == 10_000


@pytest.mark.parametrize("op", SAMPLES)
def test_results_lie_where_they_are_said_to(op):
    for sample in SAMPLES[op]:
        call, others = SampleCall(sample), []
        try:
            results = call.raw(call.arrays, lambda array, others=others: others.append(array) or array)
        except (ImportError, UnsupportedOp):
            continue
        taken = [a for a in (*call.arrays, *others) if isinstance(a, np.ndarray)]
        shared = any(np.may_share_memory(result, a) for i, result in enumerate(results) for a in (*taken, *results[:i]))
        assert not (shared and passes.is_fresh(Step(op, (), sample.kwargs, (0,)))), str(sample)


def test_what_may_give_its_operand_counts_so():
    @ag.elementwise(name="tests.passed", x=lambda xp, x: 1.0, kernel=lambda xp, x: x)
    def passed(x, /):
        """Return x."""

    x = normal(4, 3)
    for f in (lambda x: passed(x) * 1.0, lambda x: ag.astype(x, x.dtype, copy=False) * 1.0):
        program = capture(f, x)
        (out,) = check(program, x).function(NUMPY)(x)
        assert not np.may_share_memory(out, x)
    rows = normal(4, 6)[:, ::2].T  # its sum, added up in another order, has other bits
    check(capture(lambda x: ag.sum(ag.astype(x, x.dtype, copy=False) * 1.0), rows), rows)
    assert not passes.is_elementwise(Step("tests.passed", (Ref(0),), {}, (1,)))
    assert passes.is_elementwise(Step("astype", (Ref(0),), {}, (1,)))


@pytest.mark.shows("passes")
@pytest.mark.parametrize(("memory", "steps"), [("fresh", 1), ("may share", 2), ("lent", 2)])
def test_copies_of_what_a_users_op_gives_anew_are_left_out(memory, steps):
    name = f"tests.{memory.replace(' ', '_')}"

    @ag.elementwise(name=name, x=lambda xp, x: 3.0, kernel=lambda xp, x: x * 3.0, memory=memory)
    def thrice(x, /):
        """Return 3 x."""

    x = normal(4, 3)
    program = capture(lambda x: ag.astype(thrice(x), x.dtype), x)
    assert len(passes.optimized(program).steps) == steps
    check(program, x)


LAYOUTS = {
    "c": np.ascontiguousarray,
    "f": np.asfortranarray,
    "turned": lambda x: x[::-1, ::-1],
    "sparse": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
}

#: What is filled with one value, or broadcast, beside arrays that lie in another order, and then added up.
FILLED = {
    "chosen": lambda x, y: ag.where(
        x > 0, ag.broadcast_to(ag.sum(y, axis=1, keepdims=True), x.shape), ag.zeros(x.shape)
    ),
    "beside ones": lambda x, y: x * ag.ones(x.shape) + y,
    "far from the sum": lambda x, y: ag.exp(ag.sin(ag.where(x > 0, y, ag.zeros(x.shape)) * y)),
    "like another": lambda x, y: ag.where(x > 0, x, ag.zeros_like(y)) - ag.full_like(y, 0.5),
    "like what is broadcast": lambda x, y: ag.ones_like(ag.broadcast_to(x[:1], x.shape)) * ag.mean(y) + y[:, :1],
    "of one value": lambda x, y: -ag.broadcast_to(ag.mean(x), x.shape) * y,
    "neutral": lambda x, y: (ag.ones_like(x) * y) * 1.0 + ag.zeros(x.shape),
}


@pytest.mark.parametrize("of_y", LAYOUTS)
@pytest.mark.parametrize("of_x", LAYOUTS)
@pytest.mark.parametrize("case", FILLED)
def test_arrays_of_one_value_keep_the_order_of_sums(case, of_x, of_y):
    x, y = LAYOUTS[of_x](normal(17, 23, dtype=np.float64)), LAYOUTS[of_y](normal(17, 23, dtype=np.float64))

    def sums(x, y):
        made = FILLED[case](x, y)
        return ag.sum(made), ag.sum(made, axis=0), ag.sum(made, axis=1), made @ made.mT

    check(capture(sums, x, y), x, y)


def test_derivatives_under_vmap_are_exact():
    """A likelihood with bounds, its gradient and Hessian per column, and a step of Newton's method."""

    def loss(t, x):
        z = 1 + t[1] * (x - t[0])
        logs = ag.log(ag.where(z > 0, z, 1.0))
        return ag.sum(ag.where(z > 0, logs * (1 + 1 / t[1]) + ag.exp(-logs / t[1]), 0.0)) + ag.sum(t**2)

    def newton(x):
        t = ag.stack([ag.mean(x, axis=0), 0.1 + 0 * x[0]], axis=1)
        for _ in range(3):
            g = ag.vmap(ag.grad(loss), in_dims=(0, 1))(t, x)
            h = ag.vmap(ag.hessian(loss), in_dims=(0, 1))(t, x) + 5 * ag.eye(2)
            t = t - ag.linalg.solve(h, g[:, :, None])[:, :, 0] / 8
        return t

    x = RNG.uniform(2, 4, size=(20, 30))
    wanted = newton(ag.asarray(x)).numpy()
    run = ag.func.capture(newton)(x).runner(NUMPY, exact=True)
    for _ in range(3):
        same_bits(run(x)[0], wanted)
