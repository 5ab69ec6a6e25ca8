"""Jacobians and Hessians as machine code on the diagonals that they have: the bits of the matrices, of every number."""

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


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def neighbours(x):
    return ((x[3:] - x[:-3]) ** 2 * x[1:-2] / 3).sum() + (x**3).sum()


def wave(x):
    return ag.concat([x[:1], 2 * x[1:-1] - x[:-2] * x[2:], -x[-1:]])


def bent(x):
    return ag.where(x > 0, x * x, -x) + x.sum()


CASES = {
    "rosenbrock": ag.func.hessian(rosenbrock),
    "neighbours": ag.func.hessian(neighbours),
    "wave": ag.func.jacrev(wave),
    "forward": ag.func.jacfwd(wave),
    "bent": ag.func.jacrev(bent),
    "elementwise": ag.func.jacfwd(lambda x: 3 * x / (x + 2)),
}


def native(function, *args, **options):
    program = optimized(ag.func.capture(function)(*args).without_detach())
    return NativeExecutor().build(program, NUMPY, list(args), **options)


def eagerly(function, *args):
    with NUMPY.quiet():
        return np.asarray(function(*map(ag.asarray, args)).detach())


def same_bits(found, wanted):
    assert (found.dtype, found.shape, found.strides) == (wanted.dtype, wanted.shape, wanted.strides)
    np.testing.assert_array_equal(found, wanted)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def of_each_kind(n, dtype):
    """Numbers with those among them that make a zero something else."""
    x = np.random.default_rng(n).standard_normal(n).astype(dtype)
    yield x
    for at, value in ((0, np.inf), (n - 1, np.nan), (n // 2, -np.inf), (1, -0.0)):
        other = x.copy()
        other[at] = value
        yield other
    yield np.full_like(x, -0.0)
    yield x[::-1]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [7, 50])
@pytest.mark.parametrize("name", CASES)
def test_bits_of_the_matrix(name, n, dtype, exact):
    function = CASES[name]
    values = [*of_each_kind(n, dtype)]
    run = native(function, values[0], exact=exact)
    for x in values:
        (found,) = run(x)
        wanted = eagerly(function, x)
        if exact:
            same_bits(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype == "float32" else 1e-11, atol=1e-4)


def test_no_work_of_a_matrix_is_left():
    run = native(CASES["rosenbrock"], np.ones(50))
    (made,) = run._natives.values()
    assert not made.python
    assert made.low.workspace < 50 * 50 * 8  # no matrix among what it works on
    (x,) = (np.random.default_rng(1).standard_normal(50),)
    wanted = np.zeros((50, 50))
    at = np.arange(49)
    wanted[at, at] = 2 - 400 * (x[1:] - 3 * x[:-1] ** 2)
    wanted[at + 1, at + 1] += 200
    wanted[at, at + 1] = wanted[at + 1, at] = -400 * x[:-1]
    np.testing.assert_allclose(run(x)[0], wanted, rtol=1e-12)


@pytest.mark.parametrize("mode", [ag.func.jacrev, ag.func.jacfwd])
def test_a_layer_is_no_product(mode):
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((40, 40)) / 7, rng.standard_normal(40)
    function = mode(lambda x, w: ag.tanh(w @ x))
    run = native(function, x, w)
    (made,) = run._natives.values()
    products = [step for step in made.low.steps if step.op == "matmul"]
    assert [made.low.shapes[step.made[0]].shape for step in products] == [(40,)]
    y = np.tanh(w @ x)
    np.testing.assert_allclose(run(x, w)[0], (1 - y * y)[:, None] * w, rtol=1e-12, atol=1e-15)
    for value in (np.inf, np.nan, -np.inf, 0.0):
        other = w.copy()
        other[3, 5] = value
        np.testing.assert_allclose(run(x, other)[0], eagerly(function, x, other), rtol=1e-12, atol=1e-15)
        broken = x.copy()
        broken[7] = value
        np.testing.assert_allclose(run(broken, w)[0], eagerly(function, broken, w), rtol=1e-12, atol=1e-15)


def test_a_product_by_a_diagonal_that_is_not_finite():
    """The zeros beside it, times what is infinite, are NaN in the matrix, and so is all that they are multiplied by."""
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((40, 40)) / 7, rng.standard_normal(40)
    function = ag.func.jacrev(lambda x, w: 1 / (w @ x))
    run = native(function, x, w)
    np.testing.assert_allclose(run(x, w)[0], -w / ((w @ x) ** 2)[:, None], rtol=1e-12)
    w[3] = 0.0
    assert np.isnan(eagerly(function, x, w)).all()
    assert np.isnan(run(x, w)[0]).all()


def test_a_matrix_that_steps_take_too():
    def function(x):
        jacobian = ag.func.jacrev(lambda x: ag.sin(x) * x)(x)
        return jacobian @ jacobian + jacobian, ag.sum(jacobian, axis=1)

    x = np.random.default_rng(0).standard_normal(30)
    run = native(function, x, exact=True)
    for one, other in zip(run(x), function(ag.asarray(x)), strict=True):
        same_bits(one, np.asarray(other.detach()))


def test_other_identity_matrices():
    def function(x):
        above, wide = ag.eye(20, k=2), ag.eye(20, 12)
        return above * x - 1, wide[:, 2:] / x[:10], ag.eye(20)[4:9, 3:] * x[3:], above * x[:, None]

    x = np.random.default_rng(0).standard_normal(20)
    run = native(function, x, exact=True)
    for values in of_each_kind(20, "float64"):
        with NUMPY.quiet():
            wanted = function(ag.asarray(values))
        for one, other in zip(run(values), wanted, strict=True):
            same_bits(one, np.asarray(other.detach()))
