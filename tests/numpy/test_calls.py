"""Calls of NumPy's functions on tensors: values, shapes and dtypes are NumPy's, derivatives those of differences."""

from __future__ import annotations

import numpy  # noqa: ICN001 (the calls say `np`)
import pytest
from numpy_calls import CALLS, CONSTANTS, CREATIONS, OPERANDS, OWN_CALLS, STEPS, calls

import agrad as ag
import agrad.numpy as anp

ROWS = calls(CALLS)
CASES = [call for _, call in ROWS]
OWN_CASES = [call for _, call in calls(OWN_CALLS)]


def run(call, np, operands):
    return eval(call, {"np": np, "numpy": numpy, "done": done, "CONST": numpy.array([0.5, 1.0, 3.0, 3.5])} | operands)


def done(function, target, *args, **kwargs):
    """Return what a function has changed."""
    function(target, *args, **kwargs)
    return target


def on(backend, array):
    return ag.asarray(array, device=backend) if backend != "numpy" else ag.asarray(array)


def used(call):
    import re

    return [name for name in OPERANDS if re.search(rf"(?<![\w.]){name}(?![\w(=\"])", call)]


def value(tensor):
    return tensor.detach().to_device("numpy").numpy()


def check(call, np, backend, dtypes=True):
    rng = numpy.random.default_rng(1)
    plain = CONSTANTS | OPERANDS
    with numpy.errstate(all="ignore"):
        expected = run(call, numpy, plain)
    names = used(call)
    leaves = {name: on(backend, OPERANDS[name]).requires_grad_() for name in names}
    constants = {name: on(backend, array) if np is not numpy else array for name, array in CONSTANTS.items()}
    with ag.use_backend(backend):
        found = run(call, np, constants | OPERANDS | leaves)
    assert isinstance(found, ag.Tensor), type(found)
    assert found.shape == numpy.shape(expected)
    if dtypes:
        assert found._spec.backend.dtype_name(found.dtype) == expected.dtype.name
    exact = expected.dtype in (numpy.float64, numpy.complex128)
    numpy.testing.assert_allclose(value(found), expected, rtol=1e-9 if exact else 1e-5, atol=1e-12 if exact else 1e-5)
    if not exact or not names:
        return
    assert found.requires_grad, "no gradient"
    with numpy.errstate(all="ignore"):
        weight = rng.normal(size=found.shape) + (1j * rng.normal(size=found.shape) if found.is_complex() else 0)
        weight = numpy.where(numpy.isnan(expected), 0, weight)
    total = ag.real(ag.sum(ag.where(ag.isnan(found), 0.0, found) * on(backend, numpy.conj(weight))))
    grads = ag.autograd.grad(total, list(leaves.values()), allow_unused=True)
    for name, grad in zip(leaves, grads, strict=True):
        array = OPERANDS[name]
        step = rng.normal(size=array.shape) + (1j * rng.normal(size=array.shape) if array.dtype.kind == "c" else 0)
        eps = 1e-6

        def at(t, name=name, array=array, step=step):
            with numpy.errstate(all="ignore"):
                moved = run(call, numpy, plain | {name: array + t * step})
            return float(numpy.nansum((moved * numpy.conj(weight)).real))

        slope = (at(eps) - at(-eps)) / (2 * eps)
        ours = 0.0 if grad is None else float(numpy.nansum((value(grad) * numpy.conj(step)).real))
        if name == "n":
            ours = float(numpy.nansum(numpy.where(numpy.isnan(array), 0, value(grad)) * step))
        assert ours == pytest.approx(slope, rel=2e-6, abs=2e-7), name


@pytest.mark.parametrize("call", CASES)
def test_numpys_functions_take_tensors(call):
    check(call, numpy, "numpy")


@pytest.mark.parametrize("call", CASES + OWN_CASES)
def test_the_module_has_them(call):
    check(call, anp, "numpy")


#: Two calls of each name: the others differ in what is done before anything is computed.
FEW = [call for i, (name, call) in enumerate(ROWS) if i < 2 or ROWS[i - 2][0] != name]


@pytest.mark.parametrize("call", FEW + OWN_CASES)
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


def check_steps(call, np, backend):
    with numpy.errstate(all="ignore"):
        expected = numpy.asarray(run(call, numpy, CONSTANTS | OPERANDS))
        operands = {name: on(backend, array) for name, array in (CONSTANTS | OPERANDS).items()}
        for name in used(call):
            operands[name].requires_grad_()
        with ag.use_backend(backend):
            found = run(call, np, operands)
    assert isinstance(found, ag.Tensor), type(found)
    if found.size is not None:  # known before it is computed
        assert found.shape == expected.shape
    assert found._spec.backend.dtype_name(found.dtype) == expected.dtype.name
    numpy.testing.assert_allclose(value(found), expected, rtol=1e-6 if expected.dtype.itemsize < 8 else 1e-12)


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
