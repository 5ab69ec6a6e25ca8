"""How native code is made: what that is predicted to take, stretches that repeat themselves, and code that is kept on disk."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.program.passes import fewer

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad_numpy.executor import turned
from agrad_numpy.native import jit, lowering, repeating
from agrad_numpy.native.expanding import exactly, expanded
from agrad_numpy.native.running import NativeCode

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

NUMPY = ag.backends.get("numpy")


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
        assert unlike - alike == pytest.approx(2 * lowering.SECONDS["tiny"])

    def test_loops_cost_what_one_call_does(self):
        times = [lowering.predicted_seconds(program_of(rows, np.ones((n, 40)))) for n in (10, 1000)]
        assert times[0] == times[1] < 0.1

    def test_products_are_written_out_where_bits_may_differ(self):
        program = program_of(lambda a, b: a @ b, np.ones((20, 20)), np.ones((20, 20)))
        exact, loose = (lowering.predicted_seconds(program, exact=exact) for exact in (True, False))
        assert loose - exact == pytest.approx(lowering.SECONDS["product"] - lowering.SECONDS["loop"])


def filter_(moves, seen):
    """Return a likelihood by a loop of Python's, of small matrices."""
    x, p, total = ag.zeros(3, dtype=ag.float64), ag.eye(3, dtype=ag.float64), 0.0
    for t in range(seen.shape[0]):
        x, p = moves @ x, moves @ p @ moves.T + 0.1 * ag.eye(3, dtype=ag.float64)
        error, s = seen[t] - x, p + ag.eye(3, dtype=ag.float64)
        total = total + ag.sum(error * ag.linalg.solve(s, error)) + ag.sum(ag.log(ag.linalg.diagonal(s)))
        gain = ag.linalg.solve(s, p).T
        x, p = x + gain @ error, p - gain @ p
    return total


def recurrence(w, inputs):
    state, kept = ag.zeros((5, 8), dtype=w.dtype), []
    for t in range(inputs.shape[0]):
        state = ag.tanh(state @ w + inputs[t])
        kept.append(state)
    return ag.mean(ag.stack(kept) ** 2) + ag.sum(state[:, ::-1] * inputs[0, 0])


def places(x, at):
    total = ag.zeros(4, dtype=x.dtype)
    for _ in range(30):
        at = (at + 1) % 20
        total = total + ag.take(x, at) * ag.log(ag.sum(total) + 2.0)
    return ag.sum(total)


def layers(w, x, labels):
    total = 0.0
    for _ in range(30):
        x = ag.tanh(ag.nn.functional.linear(x, w))
        total = total + ag.nn.functional.cross_entropy(x, labels)
    return total


RNG = np.random.default_rng(0)
REPEATING = {
    "filter": (filter_, 0.5 * np.eye(3) + 0.1, RNG.standard_normal((30, 3))),
    "recurrence": (recurrence, 0.3 * RNG.standard_normal((8, 8)), RNG.standard_normal((30, 5, 8))),
    "places": (places, RNG.random(20), np.array([0, 3, 18, 19])),
    "layers": (layers, RNG.standard_normal((8, 8)), RNG.standard_normal((5, 8)), RNG.integers(0, 8, 5)),
    "chain": (lambda x: ag.sum(chain(x, 100)), np.ones(4)),
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", REPEATING)
def test_what_is_alike_is_lowered_as_if_it_were_not(monkeypatch, name, own):
    function, *args = REPEATING[name]
    program = program_of(ag.func.value_and_grad(function), *args)
    program = fewer(program, True, {})
    program = expanded(turned(program)) if own else exactly(program)
    made = NativeCode(program, NUMPY, args, own=own)
    followed = made.low.tried.followed

    class Apart(repeating.Stretches):
        def __init__(self, *given):
            super().__init__(*given)
            for stretch in self.all:
                stretch.like = None

    monkeypatch.setattr(lowering, "Stretches", Apart)
    apart = NativeCode(program, NUMPY, args, own=own)
    assert not apart.low.tried.followed
    # Of layers whose products are written out, only the backward stretches are followed.
    assert len(followed) > len(program.steps) // (4 if (name, own) == ("layers", True) else 3)
    assert made.text == apart.text
    assert made.low.where(made.outputs[0]) == apart.low.where(apart.outputs[0])
    assert (made._schedule._args == apart._schedule._args).all()
    assert made.kernels < len(program.steps) // 8


def test_a_stack_of_many_rows_is_one_loop():
    texts = []
    for count in (5, 50):
        rows = [np.full((2, 20), float(k)) for k in range(count)]
        made = NativeCode(program_of(lambda *rows: ag.stack(rows), *rows), NUMPY, rows, own=False)
        (found,) = made.call(*rows)
        assert found.tobytes() == np.stack(rows).tobytes()
        texts.append(made.text)
    assert len(texts[0]) == len(texts[1]) - 1  # the number of rows
