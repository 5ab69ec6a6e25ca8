"""Losses of classes as machine code with the bits of their kernels: whatever the targets are, and however logits lie."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad.plugin.programs import optimized
from agrad_numpy.native import NativeExecutor, jit

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

NUMPY = ag.backends.get("numpy")


def results(function, *args):
    with NUMPY.quiet():
        return [np.asarray(part.detach()) for part in function(*map(ag.asarray, args))]


def both(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        np.testing.assert_array_equal(one, other)
        assert (np.signbit(one) == np.signbit(other))[~np.isnan(other)].all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("rows", "classes"), [(8, 10), (1, 1), (3, 5), (200, 150), (17, 2)])
def test_cross_entropy(rows, classes, reduction, index, dtype):
    def function(x, t):
        def loss(x):
            y = ag.nn.functional.cross_entropy(x * 1.5, t, reduction=reduction)
            return ag.sum(y * y), y

        gradient, y = ag.func.grad(loss, has_aux=True)(x)
        return y, gradient

    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, classes)).astype(dtype)
    t = rng.integers(0, classes, rows).astype(index)
    program = optimized(ag.func.capture(function)(x, t).without_detach())
    run = NativeExecutor().build(program, NUMPY, [x, t], exact=True)
    (made,) = run._natives.values()
    assert not made.python, [made.low.steps[group.steps[0]] for _, group in made.python]
    extreme = x.copy()
    extreme[0, 0], extreme[-1, -1] = np.inf, np.nan
    ignored, beyond = t.copy(), t.copy()
    ignored[rows // 2], beyond[0] = -100, classes
    for logits in (x, x * 60, np.asfortranarray(x), x[::-1], extreme, np.zeros_like(x), np.full_like(x, -0.0)):
        both(run(logits, t), results(function, logits, t))
    for _ in range(2):
        both(run(x, ignored), results(function, x, ignored))
        with pytest.raises(IndexError, match="out of bounds"):
            run(x, beyond)
        both(run(x, t), results(function, x, t))
    run = NativeExecutor().build(program, NUMPY, [x, ignored], exact=True)  # the first call is the exception
    both(run(x, ignored), results(function, x, ignored))
    both(run(x, t), results(function, x, t))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", ["int64", "complex128"])
def test_scores_that_are_no_real_floats_stay_with_their_kernel(dtype, reduction):
    def function(x, t):
        return (ag.nn.functional.nll_loss(x, t, reduction=reduction),)

    x, t = np.asarray([[1, 2], [3, 4]]).astype(dtype), np.asarray([0, 1])
    run = NativeExecutor().build(optimized(ag.func.capture(function)(x, t)), NUMPY, [x, t])
    expected = {"mean": -2.5, "sum": -5, "none": [-1, -4]}[reduction]
    for _ in range(2):
        (found,) = run(x, t)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == results(function, x, t)[0].dtype
