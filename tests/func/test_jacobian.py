"""jacrev, jacfwd and hessian against derivatives by hand and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.func import grad, hessian, jacfwd, jacrev, vmap

BOTH = pytest.mark.parametrize("jacobian", [jacrev, jacfwd])


def differences(f, x, eps=1e-6):
    """The Jacobian of a function of an array, by central differences."""
    columns = []
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        columns.append((f(x + step) - f(x - step)) / (2 * eps))
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *x.shape)


@BOTH
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 2)])
@pytest.mark.parametrize("chunk_size", [None, 1, 4])
def test_against_finite_differences(jacobian, shape, chunk_size, backend, value):
    xp = ag.namespace(backend)
    x = np.random.default_rng(1).uniform(0.5, 1.5, shape)

    def f(xp, x):
        return xp.stack([xp.sin(x) * xp.sum(x), x / (1 + x * x)])

    found = jacobian(lambda x: f(xp, x), chunk_size=chunk_size)(ag.asarray(x, device=backend))
    np.testing.assert_allclose(value(found), differences(lambda x: f(np, x), x), rtol=1e-7, atol=1e-8)


@BOTH
def test_structure(jacobian, close):
    a, b = ag.tensor([1.0, 2.0]), {"c": ag.tensor(3.0), "d": ag.tensor([[4.0]])}
    f = lambda a, b: {"p": a * b["c"], "q": (b["d"] ** 2, a.sum())}
    by_a = jacobian(f)(a, b)
    close(by_a["p"], [[3.0, 0.0], [0.0, 3.0]])
    close(by_a["q"][0], [[[0.0, 0.0]]])
    close(by_a["q"][1], [1.0, 1.0])
    by_both = jacobian(f, (0, 1))(a, b)
    close(by_both["p"][1]["c"], [1.0, 2.0])
    assert by_both["p"][1]["d"].shape == (2, 1, 1)
    close(by_both["q"][0][1]["d"], [[[[8.0]]]])
    only, aux = jacobian(lambda x: (x * x, {"x": x}), has_aux=True)(a)
    close(only, [[2.0, 0.0], [0.0, 4.0]])
    close(aux["x"], [1.0, 2.0])
    assert not aux["x"].requires_grad


@BOTH
def test_no_dependence_and_no_elements(jacobian, close):
    close(jacobian(lambda x: ag.ones(3))(ag.tensor([1.0, 2.0])), np.zeros((3, 2)))
    assert jacobian(lambda x: x * x)(ag.zeros((0,))).shape == (0, 0)
    assert jacobian(lambda x: ag.concat([x, ag.ones(2)]))(ag.zeros((0,))).shape == (2, 0)


@BOTH
def test_holomorphic(jacobian, value):
    z = np.array([1 + 2j, 0.5 - 1j])
    f = lambda z: z * z * ag.sum(z)
    expected = np.diag(2 * z * z.sum()) + (z * z)[:, None]
    np.testing.assert_allclose(value(jacobian(f, holomorphic=True)(ag.asarray(z))), expected)
    np.testing.assert_allclose(value(jacobian(f, holomorphic=True, chunk_size=1)(ag.asarray(z))), expected)
    name = jacobian.__name__
    with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real but received complex tensor"):
        jacobian(f)(ag.asarray(z))
    with pytest.raises(
        RuntimeError, match=r"(?s)holomorphic=True, expected all inputs to be complex.*computed by agrad.jacfwd"
    ):
        jacobian(f, holomorphic=True)(ag.tensor([1.0]))


def test_complex_results_of_real_arguments(value):
    t, w = np.array([0.3, -0.4]), np.array([1.0, 2.0, 3.0])
    f = lambda t: ag.exp(1j * t[0] * t[1] * ag.asarray(w))
    expected = (1j * w * np.exp(1j * w * t[0] * t[1]))[:, None] * t[::-1]
    np.testing.assert_allclose(value(jacfwd(f)(ag.asarray(t))), expected)
    np.testing.assert_allclose(value(jacfwd(f, chunk_size=1)(ag.asarray(t))), expected)
    message = "jacrev: Expected all outputs to be real but received complex tensor(?s:.*)Its arguments are real: use agrad.jacfwd"
    with pytest.raises(RuntimeError, match=message):
        jacrev(f)(ag.asarray(t))


@BOTH
def test_errors(jacobian):
    with pytest.raises(ValueError, match="`chunk_size` should be greater than 0"):
        jacobian(lambda x: x, chunk_size=0)
    with pytest.raises(TypeError, match="got unsupported type <class 'float'>"):
        jacobian(lambda x: 3.0)(ag.tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="Got argnum=4, but only 1 positional inputs"):
        jacobian(lambda x: x, 4)(ag.tensor(1.0))


# -- second order -------------------------------------------------------------------------------------------------------


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def rosenbrock_hessian(x):
    n = len(x)
    h = np.zeros((n, n))
    for i in range(n - 1):
        h[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        h[i + 1, i + 1] += 200
        h[i, i + 1] = h[i + 1, i] = -400 * x[i]
    return h


@pytest.mark.parametrize(
    "second",
    [
        hessian,
        lambda f: hessian(f, chunk_size=3),
        lambda f: jacfwd(jacrev(f)),
        lambda f: jacrev(jacfwd(f)),
        lambda f: jacfwd(jacfwd(f)),
        lambda f: jacfwd(grad(f)),
        lambda f: jacrev(grad(f)),
    ],
)
def test_hessian_in_every_way(second, close):
    x = np.random.default_rng(0).normal(size=5)
    close(second(rosenbrock)(ag.asarray(x)), rosenbrock_hessian(x), rtol=1e-11, atol=1e-10)


def test_hessian_of_a_vector_function(close):
    found = hessian(lambda x: x**3 * x[0])(ag.tensor([1.0, 2.0]))
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0] = 12.0  # x0^4
    expected[1] = [[0.0, 12.0], [12.0, 12.0]]  # x1^3 x0
    close(found, expected)


def test_third_derivatives(close):
    found = jacrev(hessian(lambda x: (x**4).sum()))(ag.tensor([1.0, 2.0]))
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0], expected[1, 1, 1] = 24.0, 48.0
    close(found, expected)


def test_hessian_by_several_arguments(close):
    h = hessian(lambda a, b: (a * a).sum() * b, (0, 1))(ag.tensor([1.0, 2.0]), ag.tensor(3.0))
    close(h[0][0], [[6.0, 0.0], [0.0, 6.0]])
    close(h[0][1], [2.0, 4.0])
    close(h[1][0], [2.0, 4.0])
    close(h[1][1], 0.0)
    h, aux = hessian(lambda x: ((x**3).sum(), x), has_aux=True)(ag.tensor([1.0]))
    close(h, [[6.0]])
    close(aux, [1.0])


def test_jacobians_of_a_batch(close):
    x = np.random.default_rng(0).normal(size=(3, 4))
    expected = np.stack([rosenbrock_hessian(row) for row in x])
    close(vmap(hessian(rosenbrock))(ag.asarray(x)), expected, rtol=1e-11, atol=1e-10)
    close(vmap(jacfwd(jacrev(rosenbrock)))(ag.asarray(x)), expected, rtol=1e-11, atol=1e-10)


def test_the_tape_outside_sees_through(close):
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    w = ag.tensor(2.0, requires_grad=True)
    for jacobian in (jacrev, jacfwd):
        x.grad = w.grad = None
        (jacobian(lambda x: w * x**3)(x) ** 2).sum().backward()  # 9 w^2 (1 + 2^4)
        close(x.grad, 36.0 * 4.0 * np.array([1.0, 8.0]))
        close(w.grad, 18.0 * 2.0 * 17.0)
    assert not jacrev(lambda x: x**3)(ag.tensor([1.0, 2.0])).requires_grad


def _differences(function, x):
    step, rows = 1e-6, []
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = step
        rows.append((function(x + e) - function(x - e)) / (2 * step))
    return np.moveaxis(np.stack(rows), 0, -1).reshape(*np.shape(rows[0]), *x.shape)


def _normalised(x):
    c = x - x.mean((1, 2), keepdims=True)
    return c / np.sqrt((c * c).mean((1, 2), keepdims=True) + 1e-5)


TARGETS = np.array([[0, 2], [1, 1]])
F = ag.nn.functional
FUSED = {
    "layer_norm": (lambda x: F.layer_norm(x, (3, 2)), _normalised),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, ag.asarray(TARGETS), reduction="none"),
        lambda x: np.log(np.exp(x).sum(1)) - np.take_along_axis(x, TARGETS[:, None], 1)[:, 0],
    ),
    "mean of cross_entropy": (
        lambda x: F.cross_entropy(x, ag.asarray(TARGETS)) * x[0, 0],
        lambda x: (np.log(np.exp(x).sum(1)) - np.take_along_axis(x, TARGETS[:, None], 1)[:, 0]).mean() * x[0, 0],
    ),
    "one row": (
        lambda x: F.cross_entropy(x[0, :, 0], ag.asarray(2)) * x[0, 0],
        lambda x: (np.log(np.exp(x[0, :, 0]).sum()) - x[0, 2, 0]) * x[0, 0],
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_residuals_of_a_librarys_own_kernel_serve_a_batch_of_cotangents(name, close):
    ours, by_hand = FUSED[name]
    x = np.random.default_rng(0).normal(size=(2, 3, 2))
    for jacobian in (jacrev, jacfwd):
        close(jacobian(ours)(ag.asarray(x)), _differences(by_hand, x), rtol=1e-7, atol=1e-8)
