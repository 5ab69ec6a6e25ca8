"""`where` and masked writes keep what is infinite or undefined in the branch not taken out of the gradient.

Expected values are derivatives of the branch that was taken, and 0 elsewhere, by hand.
"""

import numpy as np
import pytest

import agrad as ag

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
pytestmark = [BACKENDS, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

X = np.array([-1.0, 0.0, 4.0, 9.0])


def leaf(backend, values=X, dtype="float64"):
    return ag.asarray(np.asarray(values, dtype), device=backend, requires_grad=True)


def both_orders(y, x):
    """The gradient of the sum, and the gradient of the sum of that."""
    (first,) = ag.grad(ag.sum(y), x, create_graph=True)
    if not first.requires_grad:
        return np.asarray(first.detach().numpy()), None
    (second,) = ag.grad(ag.sum(first), x)
    return np.asarray(first.detach().numpy()), np.asarray(second.numpy())


TAKEN = {  # the function, its first and its second derivative, for the positive entries
    "sqrt": (lambda x: ag.sqrt(x), lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5),
    "log": (lambda x: ag.log(x), lambda x: 1 / x, lambda x: -1 / x**2),
    "reciprocal": (lambda x: ag.reciprocal(x), lambda x: -1 / x**2, lambda x: 2 / x**3),
    "divide": (lambda x: 2.0 / x, lambda x: -2 / x**2, lambda x: 4 / x**3),
    "pow": (lambda x: x**0.5, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5),
    "x log x": (lambda x: x * ag.log(x), lambda x: np.log(x) + 1, lambda x: 1 / x),
    "chain": (lambda x: ag.exp(ag.log(x) * 0.5), lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5),
    "through shapes": (
        lambda x: ag.reshape(ag.flip(ag.flip(ag.reshape(ag.sqrt(x), (2, 2)))), (4,)),
        lambda x: 0.5 / np.sqrt(x),
        lambda x: -0.25 * x**-1.5,
    ),
    "atan2": (lambda x: ag.atan2(ag.sqrt(x), 1.0 + 0 * x), None, None),
}


def expected(f, values=X):
    result = np.zeros_like(values)
    result[values > 0] = f(values[values > 0])
    return result


@pytest.mark.parametrize("name", [n for n, (_, d, _) in TAKEN.items() if d is not None])
def test_where_gives_zero_in_first_and_second_order(backend, name):
    f, d, dd = TAKEN[name]
    x = leaf(backend)
    first, second = both_orders(ag.where(x > 0, f(x), 0.0), x)
    np.testing.assert_allclose(first, expected(d), rtol=1e-12)
    np.testing.assert_allclose(second, expected(dd), rtol=1e-12)


@pytest.mark.parametrize("name", list(TAKEN))
def test_the_other_operand_may_be_the_one_dropped(backend, name):
    f, _, _ = TAKEN[name]
    x = leaf(backend)
    first, second = both_orders(ag.where(x <= 0, 3.0 * x, f(x)), x)
    assert np.all(np.isfinite(first))
    assert np.all(np.isfinite(second))
    np.testing.assert_allclose(first[:2], 3.0)


def test_masked_write(backend):
    x = leaf(backend)
    y = ag.sqrt(x)
    y[x <= 0] = 0.0
    first, second = both_orders(y, x)
    np.testing.assert_allclose(first, expected(lambda v: 0.5 / np.sqrt(v)))
    np.testing.assert_allclose(second, expected(lambda v: -0.25 * v**-1.5))


def test_write_at_a_slice(backend):
    x = leaf(backend, [0.0, 4.0])
    y = ag.log(x)
    y[:1] = 1.0
    first, second = both_orders(y, x)
    np.testing.assert_allclose(first, [0.0, 0.25])
    np.testing.assert_allclose(second, [0.0, -0.0625])


def test_a_cotangent_that_merely_is_zero_keeps_its_derivative(backend):
    """At x = 0 the cotangent of exp(x) - 1 under a square is 0, but its derivative is not: (exp(x) - 1)**2 has second
    derivative 2 there.
    """
    x = leaf(backend, [0.0, 1.0])
    y = ag.where(x > -1, ag.exp(x) - 1.0, 0.0)
    _, second = both_orders(y * y, x)
    v = np.array([0.0, 1.0])
    np.testing.assert_allclose(second, 4 * np.exp(2 * v) - 2 * np.exp(v))


def test_an_infinite_derivative_of_the_branch_taken_stays(backend):
    x = leaf(backend, [0.0, 4.0])
    (first,) = ag.grad(ag.sum(ag.where(x >= 0, ag.sqrt(x), 0.0)), x)
    np.testing.assert_allclose(first.numpy(), [np.inf, 0.25])


def test_nan_of_the_data_is_not_hidden_where_it_was_taken(backend):
    x = leaf(backend, [np.nan, 4.0])
    (first,) = ag.grad(ag.sum(ag.where(x != 0, x * x, 0.0)), x)
    assert np.isnan(first.numpy()[0])
    assert first.numpy()[1] == 8.0


def test_without_where_the_gradient_is_what_it_was(backend):
    x = leaf(backend, [0.0, 4.0])
    weights = ag.asarray(np.array([0.0, 1.0]), device=backend)
    (first,) = ag.grad(ag.sum(ag.sqrt(x) * weights), x)
    np.testing.assert_allclose(first.numpy(), [np.nan, 0.25])


def test_complex(backend):
    x = leaf(backend, [0.0, 4.0j], "complex128")
    (first,) = ag.grad(ag.sum(ag.abs(ag.where(ag.abs(x) > 0, ag.log(x), 0.0 * x)) ** 2), x)
    z = 4.0j
    np.testing.assert_allclose(first.numpy(), [0.0, 2 * np.log(z) * np.conj(1 / z)], rtol=1e-12)


def test_broadcast_operand(backend):
    """A scalar behind both branches: only the elements taken count."""
    x = leaf(backend, [4.0])
    offsets = ag.asarray(np.array([-4.0, 0.0, 5.0]), device=backend)
    inner = x + offsets
    (first,) = ag.grad(ag.sum(ag.where(inner > 0, ag.sqrt(inner), 0.0)), x)
    np.testing.assert_allclose(first.numpy(), [0.5 / np.sqrt(4) + 0.5 / np.sqrt(9)])


def test_two_consumers(backend):
    x = leaf(backend, [0.0, 4.0])
    root = ag.sqrt(x + 1.0)
    y = ag.where(x > 0, ag.log(x), 0.0) + root
    first, _ = both_orders(y, x)
    v = np.array([0.0, 4.0])
    np.testing.assert_allclose(first, np.array([0.0, 0.25]) + 0.5 / np.sqrt(v + 1))


def test_a_fused_op_and_hooks_on_the_way(backend):
    x = leaf(backend, [[-1.0, 0.0, 4.0]])
    seen = []
    logits = ag.log(x)
    y = ag.where(x > 0, logits, 0.0)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(inputs)))
    y.register_hook(lambda g: 2 * g)
    (first,) = ag.grad(ag.sum(y), x)
    np.testing.assert_allclose(first.numpy(), [[0.0, 0.0, 0.5]])
    assert seen == [2]


def test_backward_fills_the_same_gradient(backend):
    x = leaf(backend)
    ag.sum(ag.where(x > 0, ag.sqrt(x), 0.0)).backward()
    np.testing.assert_allclose(x.grad.numpy(), expected(lambda v: 0.5 / np.sqrt(v)))
