"""SciPy's solvers take agrad's derivatives as they are, and do with them what they do with derivatives by hand."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import agrad.numpy as anp

sys.path.insert(0, str(Path(__file__).parent))

import solvers

#: How far results may differ where a tolerance ends the search, not the machine's precision.
LOOSE = {"minimize TNC, jac": 1e-5, "minimize CG, jac": 1e-8, "solve_ivp BDF, jac": 1e-7}


@pytest.mark.parametrize("name", solvers.SOLVERS)
def test_solvers_find_the_same_with_as_many_evaluations(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's, of what it could not improve
        hand, ours = solvers.SOLVERS[name](solvers.HAND), solvers.SOLVERS[name](solvers.AGRAD)
    assert type(ours.x) is np.ndarray
    np.testing.assert_allclose(ours.x, hand.x, atol=LOOSE.get(name, 1e-10))
    for one, other in zip(solvers.counts(ours), solvers.counts(hand), strict=True):
        # derivatives that differ in the last bit may end a search a step earlier
        assert one == other or abs(one - other) <= 1 + other // 20


@pytest.mark.parametrize("name", solvers.WITHOUT)
def test_solvers_without_derivatives_take_functions_that_give_tensors(name):
    def of_tensors(x):
        x = anp.asarray(x)
        return anp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    plain, ours = solvers.WITHOUT[name](solvers.rosenbrock), solvers.WITHOUT[name](of_tensors)
    np.testing.assert_allclose(ours.x, plain.x, atol=1e-6)


def test_the_derivatives_by_hand_are_right():
    """By central differences, as all that is compared with them depends on it."""
    x, p = np.array([0.5, -0.3, 1.2]), np.array([1.5, 0.7])
    pairs = [
        (solvers.rosenbrock, solvers.HAND.rosenbrock, x),
        (solvers.valley, solvers.HAND.valley, x),
        (solvers.HAND.valley, solvers.HAND.valley_hessian, x),
        (solvers.misfit, solvers.HAND.misfit, p),
        (solvers.curves, solvers.HAND.curves, p),
        (lambda y: solvers.oscillator(0, y), lambda y: solvers.HAND.oscillator(0, y), p),
    ]
    for f, derivative, at in pairs:
        columns = [(f(at + h) - f(at - h)) / 2e-6 for h in 1e-6 * np.eye(at.size)]
        np.testing.assert_allclose(derivative(at), np.stack(columns, axis=-1), rtol=1e-6, atol=1e-6)


def test_the_page_has_a_line_per_solver():
    page = (Path(__file__).parents[2] / "docs" / "from_autograd.md").read_text(encoding="utf-8")
    assert re.findall(r"\n\| `([^`]*)` \| [\d, ]+ \| [\d, ]+ \| .* \|", page) == list(solvers.SOLVERS)
