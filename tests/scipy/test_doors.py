"""SciPy's own functions, handed tensors whose gradient is followed, say which of agrad's to call; its ufuncs are differentiated."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.special
import scipy.stats

import agrad as ag
import agrad.scipy

V = np.asarray([0.2, 0.3, 0.5])
M = np.eye(3)
CALLS = {
    "linalg.block_diag": lambda f, v, m: f(m, m),
    "linalg.cho_factor": lambda f, v, m: f(m),
    "linalg.cho_solve": lambda f, v, m: f((m, True), v),
    "linalg.eigh": lambda f, v, m: f(m, eigvals_only=True),
    "linalg.expm": lambda f, v, m: f(m),
    "linalg.logm": lambda f, v, m: f(m),
    "linalg.lstsq": lambda f, v, m: f(m, v),
    "linalg.lu": lambda f, v, m: f(m),
    "linalg.norm": lambda f, v, m: f(m),
    "linalg.qr": lambda f, v, m: f(m),
    "linalg.solve": lambda f, v, m: f(m, v),
    "linalg.solve_sylvester": lambda f, v, m: f(m, m, m),
    "linalg.solve_triangular": lambda f, v, m: f(m, v),
    "linalg.sqrtm": lambda f, v, m: f(m),
    "linalg.toeplitz": lambda f, v, m: f(v),
    "integrate.simpson": lambda f, v, m: f(v),
    "integrate.odeint": lambda f, v, m: f(lambda y, t: -y, v, [0.0, 1.0]),
    "integrate.solve_ivp": lambda f, v, m: f(lambda t, y: -y, (0.0, 1.0), v),
    "interpolate.CubicSpline": lambda f, v, m: f([0.0, 1.0, 2.0], v),
    "interpolate.PchipInterpolator": lambda f, v, m: f([0.0, 1.0, 2.0], v),
    "interpolate.RegularGridInterpolator": lambda f, v, m: f(([0.0, 1.0, 2.0],), v),
    "interpolate.interp1d": lambda f, v, m: f([0.0, 1.0, 2.0], v),
    "interpolate.make_interp_spline": lambda f, v, m: f([0.0, 1.0, 2.0], v, 1),
    "optimize.minimize": lambda f, v, m: f(lambda x: (x**2).sum(), v),
    "optimize.least_squares": lambda f, v, m: f(lambda x: x - 1, v),
    "optimize.root": lambda f, v, m: f(lambda x: x - 1, v),
    "signal.convolve": lambda f, v, m: f(v, v),
    "signal.convolve2d": lambda f, v, m: f(m, m),
    "signal.detrend": lambda f, v, m: f(v),
    "signal.hilbert": lambda f, v, m: f(v),
    "signal.fftconvolve": lambda f, v, m: f(v, v),
    "signal.lfilter": lambda f, v, m: f([1.0], [1.0, 0.5], v),
    "special.logsumexp": lambda f, v, m: f(v),
    "stats.dirichlet.pdf": lambda f, v, m: f(v, v),
    "stats.multivariate_normal.logpdf": lambda f, v, m: f(v, np.zeros(3), np.eye(3)),
    "stats.norm.logpdf": lambda f, v, m: f(v),
    "stats.nbinom.pmf": lambda f, v, m: f([1, 2, 3], 2.0, v),
    "stats.poisson.pmf": lambda f, v, m: f([1, 2, 3], v),
}


def of(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


@pytest.mark.parametrize("name", CALLS)
def test_scipys_functions_name_agrads(name):
    v, m = ag.tensor(V, requires_grad=True), ag.tensor(M, requires_grad=True)
    with pytest.raises(RuntimeError, match=rf"use agrad\.scipy\.{name}\.") as caught:
        CALLS[name](of(scipy, name), v, m)
    assert "called at" in str(caught.value)
    assert "test_doors.py:" in str(caught.value)
    CALLS[name](of(agrad.scipy, name), v, m)


def test_a_frozen_distribution_names_it_too():
    with pytest.raises(RuntimeError, match=r"use agrad\.scipy\.stats\.gamma\.cdf"):
        scipy.stats.gamma(2.0).cdf(ag.tensor(V, requires_grad=True))


def test_other_calls_name_nothing_of_scipys():
    v = ag.tensor(V, requires_grad=True)
    for call in (lambda: np.asarray(v), lambda: scipy.linalg.hadamard(v)):
        with pytest.raises(Exception) as caught:
            call()
        assert "agrad.scipy" not in str(caught.value)


def test_a_module_is_not_numpys_by_the_beginning_of_its_name():
    inner, outer = {"__name__": "numpy_tools", "np": np}, {"__name__": "pandas.core.apply"}
    exec("def convert(x): return np.asarray(x)", inner)
    exec("def apply(x): return convert(x)", outer)
    outer["convert"] = inner["convert"]
    with pytest.raises(RuntimeError) as caught:  # numpy_tools made the array, and not pandas
        outer["apply"](ag.tensor(V, requires_grad=True))
    assert "pandas" not in str(caught.value)


def test_ufuncs_of_scipy_are_differentiated():
    v = ag.tensor(V, requires_grad=True)
    (g,) = ag.grad(scipy.special.gammaln(v).sum(), v)
    np.testing.assert_allclose(g.numpy(), scipy.special.psi(V))


def test_every_name_of_a_module_is_there():
    for chapter in dir(agrad.scipy):
        room = importlib.import_module(f"agrad.scipy.{chapter}")
        assert room.__all__
        assert all(hasattr(room, name) for name in room.__all__)
