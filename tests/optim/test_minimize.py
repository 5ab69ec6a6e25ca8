"""minimize: SciPy's methods on containers of parameters; the minima are known."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import optimize

import agrad as ag
from agrad.compiled import adaptive
from agrad.optim import minimizing
from agrad.optim.minimizing import MATRICES, PRODUCTS, VALUES
from agrad.program.executing import may_choose_native

TARGET = np.array([[1.0, -2.0], [0.5, 3.0]])
METHODS = ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"]
METHODS += ["dogleg", "trust-exact", "Nelder-Mead", "Powell", "COBYLA", "COBYQA"]


def loss(p):
    """Strictly convex, with its minimum at w = TARGET, b = -1."""
    w, (b,) = p["w"], p["b"]
    return ag.sum((w - TARGET) ** 2) + (b + 1) ** 2 + ag.sum((w - TARGET) ** 4)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_minimum(method):
    start = {"w": np.zeros((2, 2)), "b": (0.5,)}
    more = {"options": {"maxiter": 5000}} if method.lower() in VALUES else {}
    found = ag.optim.minimize(loss, start, method=method, **more)
    assert found.success
    np.testing.assert_allclose(found.params["w"], TARGET, atol=2e-3)
    np.testing.assert_allclose(found.params["b"][0], -1.0, atol=2e-3)
    assert type(found.params["w"]) is np.ndarray
    assert type(found.params["b"][0]) is np.float64
    assert found.x.shape == (5,)
    assert (start["w"] == 0).all()
    assert ("njev" in found and found.njev > 0) == (method.lower() not in (*VALUES, "tnc"))


def test_methods_are_scipys():
    assert {m.lower() for m in METHODS} >= {*VALUES, *PRODUCTS, *MATRICES}
    by_hand = optimize.minimize(lambda x: np.sum((x - 3) ** 2), np.zeros(2), jac=lambda x: 2 * (x - 3), method="BFGS")
    found = ag.optim.minimize(lambda x: ag.sum((x - 3) ** 2), np.zeros(2), method="BFGS")
    np.testing.assert_allclose(found.params, by_hand.x)
    assert (found.nfev, found.njev, found.nit) == (by_hand.nfev, by_hand.njev, by_hand.nit)


@dataclass
class Model:
    slope: object
    shift: object


def test_parameters_keep_their_form():
    start = Model(ag.asarray([0.0], dtype=ag.float32, requires_grad=True), 0.0)
    found = ag.optim.minimize(lambda m: ag.sum((m.slope - 2.0) ** 2) + (m.shift - 1.0) ** 2, start)
    assert isinstance(found.params, Model)
    assert isinstance(found.params.slope, ag.Tensor)
    assert found.params.slope.dtype == ag.float32
    np.testing.assert_allclose(found.params.slope.tolist(), [2.0], rtol=1e-5)
    assert type(found.params.shift) is np.float64
    assert start.slope.grad is None
    assert start.slope.tolist() == [0.0]


def test_a_number_and_arguments_beside_it():
    found = ag.optim.minimize(lambda x, at, power: (x - at) ** power, 0.0, args=(3.0, 2))
    np.testing.assert_allclose(found.params, 3.0, rtol=1e-6)


def test_bounds_by_number_and_by_container():
    f = lambda p: ag.sum((p["a"] - 5.0) ** 2) + (p["b"] + 5.0) ** 2
    start = {"a": np.zeros(2), "b": 0.0}
    found = ag.optim.minimize(f, start, bounds=(-1.0, 2.0)).params
    np.testing.assert_allclose([*found["a"], found["b"]], [2.0, 2.0, -1.0])
    limits = {"a": -np.inf, "b": 0.5}, {"a": np.array([1.0, np.inf]), "b": np.inf}
    found = ag.optim.minimize(f, start, bounds=limits).params
    np.testing.assert_allclose([*found["a"], found["b"]], [1.0, 5.0, 0.5], rtol=1e-6)
    with pytest.raises(ValueError, match="'b'"):
        ag.optim.minimize(f, start, bounds=({"a": 0.0}, 1.0))


def test_options_are_scipys():
    f = lambda p: ag.sum((p - 5.0) ** 2)
    assert ag.optim.minimize(f, np.zeros(2), tol=1.0, options={"maxiter": 1}).nit == 1
    on_line = {"type": "eq", "fun": lambda x: x[0] + x[1] - 2.0}
    found = ag.optim.minimize(f, np.zeros(2), method="SLSQP", constraints=on_line)
    np.testing.assert_allclose(found.params, [1.0, 1.0], rtol=1e-6)
    with pytest.raises(TypeError, match="makes jac itself"):
        ag.optim.minimize(f, np.zeros(2), jac=lambda x: x)
    with pytest.raises(ValueError, match="solver"):
        ag.optim.minimize(f, np.zeros(2), method="downhill")


@pytest.mark.parametrize("method", ["BFGS", "Nelder-Mead", "trust-constr", "SLSQP", "TNC"])
def test_progress_is_told_after_every_iteration(method):
    seen = []
    f = lambda p: ag.sum((p["x"] - TARGET) ** 2)
    found = ag.optim.minimize(
        f, {"x": np.zeros((2, 2))}, method=method, progress=lambda i, value, p: seen.append((i, value, p["x"]))
    )
    assert [i for i, _, _ in seen] == list(range(1, len(seen) + 1))
    assert seen
    for _, value, x in seen:
        np.testing.assert_allclose(value, ((x - TARGET) ** 2).sum(), rtol=1e-12)
    np.testing.assert_allclose(seen[-1][1], found.fun, atol=1e-3)


def test_progress_may_end_it():
    def told(i, value, p):
        if i == 2:
            raise StopIteration

    assert ag.optim.minimize(lambda x: ag.sum(x**4), np.ones(3), method="BFGS", progress=told).nit == 2


def test_progress_on_the_terminal(capsys):
    ag.optim.minimize(lambda x: ag.sum((x - 1) ** 2) + 3.0, np.zeros(2), progress=True)
    out, err = capsys.readouterr()
    assert not out
    assert err.endswith("\n")
    assert "3" in err.split("\r")[-1]


def test_on_dask_value_and_gradient_are_computed_in_one_pass():
    dask = pytest.importorskip("dask.array")
    data = dask.from_array(np.arange(12.0), chunks=4)
    runs = []
    noted = data.map_blocks(lambda block: runs.append(1) or block, dtype=float, meta=np.empty(0))
    found = ag.optim.minimize(lambda p: ag.mean((ag.asarray(noted) - p["m"]) ** 2), {"m": 0.0}, method="BFGS")
    np.testing.assert_allclose(found.params["m"], 5.5)
    assert len(runs) <= 3 * found.nfev + 3  # one of each chunk per evaluation
    lazy = ag.asarray([0.0, 1.0], device="dask")
    back = ag.optim.minimize(lambda p: ag.sum((p - 2.0) ** 2), lazy).params
    assert back.device == "dask"
    np.testing.assert_allclose(back.numpy(), [2.0, 2.0], rtol=1e-6)


def test_what_is_wrong_is_said(monkeypatch):
    with pytest.raises(TypeError, match="real floating-point"):
        ag.optim.minimize(lambda x: ag.sum(x), np.zeros(2, dtype=int))
    with pytest.raises(TypeError, match="real floating-point"):
        ag.optim.minimize(lambda x: ag.sum(ag.abs(x)), np.zeros(2, dtype=complex))
    with pytest.raises(TypeError, match="real floating-point"):
        ag.optim.minimize(lambda x: 0.0, {})
    with pytest.raises(RuntimeError, match="scalar"):
        ag.optim.minimize(lambda x: x, np.zeros(2))
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ag.BackendError, match="pip install scipy"):
        ag.optim.minimize(lambda x: ag.sum(x), np.zeros(2))


class Noted(adaptive.AdaptiveFunction):
    """Notes what was made."""

    made: ClassVar[list] = []

    def __init__(self, function):
        super().__init__(function)
        self.made.append(self)


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(Noted, "made", [])
    monkeypatch.setattr(minimizing, "AdaptiveFunction", Noted)
    return Noted.made


@pytest.mark.parametrize("executor", [None, "native"])
@pytest.mark.parametrize("method", ["BFGS", "Newton-CG", "trust-exact", "Nelder-Mead"])
def test_what_is_called_often_becomes_a_program(method, executor, made, monkeypatch):
    """With the same bits, and as machine code where that is chosen, for a block or by the number of calls."""
    if executor and not may_choose_native():
        pytest.skip("there is no native executor here")

    def f(p):
        return ag.sum((p["x"] - TARGET) ** 2 * (1.5 + ag.sin(p["x"]))) + ag.exp(-p["b"])

    start = {"x": np.full((2, 2), 0.3), "b": 0.5}
    options = {"options": {"maxiter": 40}}
    monkeypatch.setattr(adaptive, "CALLS_BEFORE_CAPTURE", 10**9)
    wanted = ag.optim.minimize(f, start, method=method, **options)
    assert not any(adaptive._cached_programs for adaptive in made)
    made.clear()
    monkeypatch.setattr(adaptive, "CALLS_BEFORE_CAPTURE", 3)
    with ag.func.use_executor(executor) if executor else contextlib.nullcontext():
        found = ag.optim.minimize(f, start, method=method, **options)
    assert found.x.tobytes() == wanted.x.tobytes()
    assert found.nfev == wanted.nfev
    kept = [kept for adaptive in made for kept in adaptive._cached_programs]
    assert kept
    assert all(one.options["executor"] == executor for one in kept)
    if executor:
        made.clear()
        monkeypatch.setattr(adaptive, "CALLS_BEFORE_C", 8)
        counted = ag.optim.minimize(f, start, method=method, **options)
        assert counted.x.tobytes() == wanted.x.tobytes()
        assert any(
            one.options["executor"] == "native" and one.calls for adaptive in made for one in adaptive._cached_programs
        )


def test_a_function_that_does_more_is_called_each_time(made, monkeypatch):
    monkeypatch.setattr(adaptive, "CALLS_BEFORE_CAPTURE", 3)
    seen = []

    def f(x):
        seen.append(float(x[0].detach()))
        return ag.sum(x**4 + (x - 1.0) ** 2)

    found = ag.optim.minimize(f, np.full(3, 2.0), method="BFGS")
    assert len(seen) == found.nfev > 5
    assert not any(adaptive._cached_programs for adaptive in made)
