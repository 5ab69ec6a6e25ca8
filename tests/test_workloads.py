"""The programs of the benchmarks: gradients written out in NumPy judge agrad's, on sizes small enough for a test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import agrad as ag

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    spec = importlib.util.spec_from_file_location(
        "benchmarks_programs", BENCHMARKS / "programs.py"
    )  # tests have a `programs`
    programs = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(programs)
    import workloads as w
    from measuring import check
finally:
    del sys.path[0]

PROGRAMS = {
    "chain": lambda: w.Chain(40, dtype="float32"),
    "chain of numbers": lambda: w.Chain(40, (), dtype="float32"),
    "leaves": lambda: w.Leaves(5),
    "perceptron": lambda: w.Mlp(8, (12, 7, 6, 5)),
    "perceptron in plain operations": lambda: w.PlainMlp(8, (12, 7, 6, 5)),
    "descent by the optimizer": lambda: w.Descent(w.Mlp(8, (12, 7, 6, 5))),
    "descent written out": lambda: w.Descent(w.PlainMlp(8, (12, 7, 6, 5)), optimizer=False),
    "elementwise": lambda: w.Elementwise(50),
    "logistic regression": lambda: w.Logistic(60, 5),
    "least squares": lambda: w.LeastSquares(60, 5),
    "recurrent": lambda: w.Rnn(6, batch=3, width=4, hidden=5),
    "long short-term memory": lambda: w.Lstm(6, batch=3, width=4, hidden=5),
    "transformer": lambda: w.Transformer(batch=2, length=5, width=8, heads=2),
    "convolutions": lambda: w.Cnn(batch=3, size=8, channels=(2, 6)),
    "Hessian-vector product": lambda: w.HessianProduct(20),
    "Hessian": lambda: w.Hessian(20),
    "Jacobian": lambda: w.Jacobian(20),
    "Runge-Kutta": lambda: w.RungeKutta(6),
    "Kalman filter": lambda: w.Kalman(5),
}


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_gradients_are_those_by_hand(make):
    steps = make().step("agrad", ag), make().step("NumPy", None)
    for _ in range(2):  # a second step starts from what the first has left
        found, expected = (step() for step in steps)
        check("agrad", [g.detach().numpy() for g in found], expected)


#: Those whose gradients are also written as loops.
LOOPS = ("chain", "chain of numbers", "elementwise", "logistic regression", "Hessian-vector product", "Hessian")
LOOPS += ("Jacobian", "recurrent", "Runge-Kutta", "Kalman filter")


@pytest.mark.parametrize("name", LOOPS)
def test_loops_for_numba_give_the_gradients_by_hand(name):
    numba = SimpleNamespace(njit=lambda function, **_: function)  # Python runs the same loops
    make = PROGRAMS[name]
    found = make().step("numba", numba)()
    check("HIPS", found, make().step("NumPy", None)())  # float64 for what Python computes of numbers


def sampled(monkeypatch, samples):
    """Compare sides whose processes take the seconds, and give the gradient, of `samples`, or raise."""

    def sample(self, form, save=None):
        self.loop = True
        if isinstance(samples[form], Exception):
            raise samples[form]
        seconds, gradient = samples[form]
        if save is not None:
            np.savez(save, np.asarray(gradient))
        return seconds

    monkeypatch.setattr(programs.Comparison, "sample", sample)
    found = programs.Comparison("chain", ("native", "hand", "jax"), {})
    found.run(2)
    return found


@pytest.mark.parametrize(("seconds", "form"), [(1.0, "jax-unrolled"), (3.0, "jax")])
def test_jax_takes_the_quicker_form_of_a_loop(monkeypatch, seconds, form):
    samples = {"native": (1.0, 5.0), "hand": (4.0, 5.0), "jax": (2.0, 5.0), "jax-unrolled": (seconds, 5.0)}
    found = sampled(monkeypatch, samples)
    assert (found.forms["jax"], found.failures) == (form, {})
    assert found.seconds["jax"] == [min(2.0, seconds)] * 2


def test_a_side_with_a_wrong_gradient_is_not_timed(monkeypatch):
    ended = TimeoutError("not done within 60 s of CPU time")
    samples = {"native": (1.0, 5.0), "hand": (4.0, 5.0), "jax": (2.0, 5.1), "jax-unrolled": ended}
    found = sampled(monkeypatch, samples)
    assert found.seconds == {"native": [1.0] * 2, "hand": [4.0] * 2, "jax": []}
    assert found.failures["jax"].startswith("WRONG: ")
    assert found.failures["jax-unrolled"] == "not done within 60 s of CPU time"
    assert "| - (goal 0.3) |" in found.line()
