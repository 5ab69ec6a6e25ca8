"""How native code is made: what that is predicted to take, stretches that repeat themselves, and code that is kept on disk."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad_numpy.native import jit, lowering

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)


def chain(x, count):
    for _ in range(count):
        x = ag.sin(x) * 0.5 + x
    return x


def rows(x):
    return ag.func.scan(lambda carry, row: (ag.tanh(carry * row), carry), x[0], x)[0]


def program_of(f, *args):
    return ag.func.capture(f)(*args)


class TestPredictedSeconds:
    def test_what_repeats_costs_little(self):
        x = np.ones(4)
        short, long = (lowering.predicted_seconds(program_of(lambda x, n=n: chain(x, n), x)) for n in (100, 200))
        assert long - short == pytest.approx(300 * lowering.SECONDS["step"])

    def test_distinct_steps_cost_more(self):
        def one(x):
            return ag.sin(ag.sin(ag.sin(x)))

        def other(x):
            return ag.cos(ag.tanh(ag.sin(x)))

        alike, unlike = (lowering.predicted_seconds(program_of(f, np.ones(4))) for f in (one, other))
        assert unlike - alike == pytest.approx(lowering.SECONDS["tiny"])

    def test_loops_cost_what_one_call_does(self):
        times = [lowering.predicted_seconds(program_of(rows, np.ones((n, 40)))) for n in (10, 1000)]
        assert times[0] == times[1] < 0.1

    def test_products_are_written_out_where_bits_may_differ(self):
        program = program_of(lambda a, b: a @ b, np.ones((20, 20)), np.ones((20, 20)))
        exact, loose = (lowering.predicted_seconds(program, exact=exact) for exact in (True, False))
        assert loose - exact == pytest.approx(lowering.SECONDS["product"] - lowering.SECONDS["loop"])
