"""Calls as text, checked: values, shapes and dtypes are NumPy's, derivatives those of differences."""

from __future__ import annotations

import re

import numpy  # noqa: ICN001 (the calls say `np`)
import pytest
from numpy_calls import CONSTANTS, OPERANDS

import agrad as ag


def run(call, np, operands):
    return eval(call, {"np": np, "numpy": numpy, "done": done, "CONST": numpy.array([0.5, 1.0, 3.0, 3.5])} | operands)


def done(function, target, *args, **kwargs):
    """Return what a function has changed."""
    function(target, *args, **kwargs)
    return target


def on(backend, array):
    return ag.asarray(array, device=backend) if backend != "numpy" else ag.asarray(array)


def used(call):
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
