"""Passes over loops: less is carried, taken and given, what does not vary is done once, and the bits are those of before."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.func import scan
from agrad.program.loop_passes import hoisted, trimmed
from agrad.program.passes import optimized

capture = ag.func.capture

ROWS = np.random.default_rng(0).normal(size=(5, 3)) / 2
INIT = np.array([0.3, -0.2, 0.8])
W = np.random.default_rng(1).normal(size=(3, 3)) / 2
HELD = ag.tensor([0.5, 1.0, -1.0])


def bits(program, *args):
    backend = ag.namespace("numpy")._backend
    return [np.asarray(out) for out in program.function(backend)(*args)]


def loop(program):
    (step,) = [step for step in program.steps if step.op == "func.scan"]
    return step


def same_bits(program, *args):
    """Return the program after all passes, which gives what it gave."""
    for fewer in (trimmed(program), hoisted(program), optimized(program)):
        for one, other in zip(bits(fewer, *args), bits(program, *args), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
    return fewer


@pytest.mark.shows("passes")
def test_what_does_not_vary_is_done_before():
    def f(c, xs, w):
        def step(c, x):
            return ag.tanh(ag.exp(w).mT @ c + x) * ag.sum(w) + ag.ones(3), ag.cos(w) * c[0]

        return scan(step, c, xs)

    program = capture(f)(INIT, ROWS, W)
    fewer = same_bits(program, INIT, ROWS, W)
    ops = [step.op for step in fewer.steps]
    assert ops.index("func.scan") == len(ops) - 1
    assert {"exp", "matrix_transpose", "sum", "cos"} <= {*ops}
    inside = [step.op for step in loop(fewer).args[1].program.steps]
    assert "exp" not in inside
    assert "ones" not in inside
    assert {"matmul", "add", "tanh", "multiply"} <= {*inside}


@pytest.mark.shows("passes")
def test_what_nobody_needs_is_left_out():
    def f(c, xs, w):
        def step(c, x):
            first, second, third = c
            return (first + x, second * ag.sin(third), third @ w), (first * x, ag.sum(third))

        (first, _, _), (ys, _) = scan(step, (c, c, c), xs)
        return first, ys

    program = capture(f)(INIT, ROWS, W)
    assert len(loop(program).args[0]) == 5
    fewer = same_bits(program, INIT, ROWS, W)
    step = loop(fewer)
    assert (len(step.args[0]), step.args[1].carried, len(step.outs)) == (2, 1, 2)
    assert [each.op for each in step.args[1].program.steps] == ["add", "multiply"]


def test_what_is_carried_for_what_is_needed_stays():
    def f(c, xs):
        return scan(lambda c, x: ((c[1], c[2] + x, c[0]), None), (c, 2 * c, 3 * c), xs)[0][0]

    fewer = same_bits(capture(f)(INIT, ROWS), INIT, ROWS)
    assert loop(fewer).args[1].carried == 3


def test_gradients_carry_what_they_need():
    def f(c, xs, w):
        return ag.sum(scan(lambda c, x: (ag.tanh(w @ c + x), None), c, xs)[0])

    program = capture(ag.func.value_and_grad(f, (0, 1, 2)))(INIT, ROWS, W)
    fewer = same_bits(program, INIT, ROWS, W)
    first, second = [step for step in fewer.steps if step.op == "func.scan"]
    assert len(first.outs) == 2  # what is carried, and what was carried into each call
    assert len(second.args[1].program.steps) < len(program.steps) + 20


@pytest.mark.parametrize("carries", [False, True])
def test_a_loop_that_does_nothing_is_still_one(carries):
    def f(c, xs):
        made = scan(lambda c, x: (c, ag.ones(2)), c if carries else None, xs)
        return made[1]

    same_bits(capture(f)(INIT, ROWS), INIT, ROWS)
    np.testing.assert_array_equal(capture(f)(INIT, ROWS)(INIT, ROWS), np.ones((5, 2)))


@pytest.mark.shows("passes")
def test_loops_in_each_other():
    def f(c, xs, w):
        def outer(c, x):
            def inner(d, y):
                return ag.sin(d @ ag.exp(w)) + ag.cos(x) * HELD, (d, y)

            d, (ds, _) = scan(inner, c, ag.stack([x, ag.exp(HELD)]))
            return d, ds[0]

        return scan(outer, c, xs)

    program = capture(f)(INIT, ROWS, W)
    fewer = same_bits(program.replaced(outside={}), INIT, ROWS, W, HELD.numpy())
    assert {"exp"} <= {step.op for step in fewer.steps}
    outer = loop(fewer).args[1].program
    assert "cos" in {step.op for step in outer.steps}
    assert {step.op for step in loop(outer).args[1].program.steps} <= {"matmul", "sin", "add", "multiply"}


def test_constants_of_a_body_go_with_what_is_made_of_them():
    table = ag.asarray([1.0, 2.0, 3.0])

    def f(c, xs):
        return scan(lambda c, x: (c * ag.exp(ag.asarray([1.0, 2.0, 3.0])) + x, c), c, xs)

    same_bits(capture(f)(INIT, ROWS), INIT, ROWS)
    assert table.shape == (3,)


def test_a_step_without_history_is_hoisted_too():
    def f(c, xs, w):
        return scan(lambda c, x: (c + ag.sum(w.detach() * 2) + x, None), c, xs)[0]

    program = capture(f)(INIT, ROWS, W)
    wanted = f(*map(ag.asarray, (INIT, ROWS, W))).numpy()
    np.testing.assert_array_equal(program(INIT, ROWS, W), wanted)
    for options in ({}, {"exact": True}, {"threads": 1}, {"keep": False}):
        np.testing.assert_array_equal(
            program.runner(ag.namespace("numpy")._backend, **options)(INIT, ROWS, W)[0], wanted
        )


def test_options_reach_the_bodies():
    def f(c, xs, w):
        return scan(lambda c, x: (ag.sin(c @ w) + x, None), c, xs)[0]

    rng = np.random.default_rng(4)
    args = rng.normal(size=(64, 3)), rng.normal(size=(3, 64, 3)), W
    program = capture(f)(*args)
    exact = program.runner(ag.namespace("numpy")._backend, exact=True)(*args)[0]
    np.testing.assert_array_equal(exact, f(*map(ag.asarray, args)).numpy())
    assert loop(program).args[1].options == {"exact": True}
