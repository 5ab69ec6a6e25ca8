"""The programs of the benchmarks: gradients written out in NumPy judge agrad's, on sizes small enough for a test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import agrad as ag

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
try:
    import workloads as w
    from measuring import check
finally:
    del sys.path[0]

PROGRAMS = {
    "chain": lambda: w.Chain(40, dtype="float32"),
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
