"""Calls of NumPy's functions on tensors: values, shapes and dtypes are NumPy's, derivatives those of differences."""

from __future__ import annotations

import numpy  # noqa: ICN001 (the calls say `np`)
import pytest
from numpy_calls import CALLS, CREATIONS, OWN_CALLS, STEPS, calls
from numpy_checks import check, check_steps

import agrad as ag
import agrad.numpy as anp

ROWS = calls(CALLS)
CASES = [call for _, call in ROWS]
OWN_CASES = [call for _, call in calls(OWN_CALLS)]


@pytest.mark.parametrize("call", CASES)
def test_numpys_functions_take_tensors(call):
    check(call, numpy, "numpy")


@pytest.mark.parametrize("call", CASES + OWN_CASES)
def test_the_module_has_them(call):
    check(call, anp, "numpy")


#: Two calls of each name: the others differ in what is done before anything is computed.
FEW = [call for i, (name, call) in enumerate(ROWS) if i < 2 or ROWS[i - 2][0] != name]

#: On Dask, where each takes long, the second ones are left to `nox -s everything -- long`.
FIRST = {call for i, (name, call) in enumerate(ROWS) if not i or ROWS[i - 1][0] != name}
ON_DASK = [call if call in FIRST else pytest.param(call, marks=pytest.mark.long) for call in FEW]


@pytest.mark.parametrize("call", ON_DASK + OWN_CASES)
def test_on_dask(call):
    check(call, anp, "dask")


#: What array-api-strict does not do, by a part of the call: the error and its words.
STRICT_LACKS = {
    "i0(": (ag.UnsupportedOp, "i0"),  # the standard has no Bessel functions
    "kaiser(": (ag.UnsupportedOp, "i0"),
    "np.intersect1d(x, np.conc": (TypeError, "Only integer dtypes are allowed in isin"),
    "np.setdiff1d(": (TypeError, "Only integer dtypes are allowed in isin"),
    "np.setxor1d(v, np.conc": (TypeError, "Only integer dtypes are allowed in isin"),
    "CONST, bins=3, weights=v": (ag.BackendError, "same device"),  # an array of NumPy's beside its tensors
    "CONST, [0.0, 1.0, 4.0], weights=v": (ag.BackendError, "same device"),
    "np.histogram2d(CONST, CONST, bins=(2, 3), weights": (ag.BackendError, "same device"),
    "np.histogramdd([CONST, CONST], bins=2, weights": (ag.BackendError, "same device"),
}


@pytest.mark.parametrize("call", FEW + OWN_CASES)
def test_on_strict(call, strict_backend):
    lacks = next((lack for part, lack in STRICT_LACKS.items() if part in call), None)
    if lacks is None:
        check(call, anp, strict_backend)
        return
    error, words = lacks
    with pytest.raises(error, match=words):
        check(call, anp, strict_backend)


@pytest.mark.parametrize("call", [call for _, call in calls(STEPS)])
@pytest.mark.parametrize("np", [numpy, anp], ids=["numpy", "module"])
def test_what_has_no_derivative(call, np):
    check_steps(call, np, "numpy")


@pytest.mark.parametrize("call", [call for _, call in calls(STEPS)])
def test_what_has_no_derivative_on_dask(call):
    check_steps(call, anp, "dask")


@pytest.mark.parametrize("call", [call for _, call in calls(CREATIONS)])
@pytest.mark.parametrize("backend", ["numpy", "dask"])
def test_what_makes_arrays(call, backend):
    check_steps(call, anp, backend)
