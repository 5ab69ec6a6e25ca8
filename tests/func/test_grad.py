"""grad, value_and_grad, vjp, jvp, linearize and hvp: derivatives by hand, by finite differences, and nested."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.func import grad, grad_and_value, hvp, jvp, linearize, value_and_grad, vjp, vmap


def tensor(*values, **options):
    return ag.tensor(values[0] if len(values) == 1 else list(values), **options)


def differences(f, x, eps=1e-6):
    """The gradient of a scalar function of an array, by central differences."""
    x = np.asarray(x, dtype=float)
    found = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        found[i] = (f(x + step) - f(x - step)) / (2 * eps)
    return found


# -- first order --------------------------------------------------------------------------------------------------------


def test_gradient_by_hand(close):
    close(grad(lambda x: (x**3).sum())(tensor(1.0, 2.0)), [3.0, 12.0])


def test_leaves_everything_alone():
    x, w = tensor(2.0, requires_grad=True), tensor(3.0, requires_grad=True)
    plain = tensor(2.0)
    grad(lambda x: x * w)(x)
    assert not grad(lambda x: x * x)(plain).requires_grad
    assert x.grad is None
    assert w.grad is None
    assert not plain.requires_grad


def test_arrays_and_numbers_are_taken(close):
    close(grad(lambda x: (x * x).sum())(np.array([1.0, 2.0])), [2.0, 4.0])
    close(grad(lambda x: x * x)(3.0), 6.0)


@pytest.mark.parametrize(("argnums", "expected"), [(0, 3.0), (1, 2.0), (-1, 2.0), ((0, 1), (3.0, 2.0)), ((1,), (2.0,))])
def test_argnums(argnums, expected):
    found = grad(lambda a, b: a * b, argnums)(tensor(2.0), tensor(3.0))
    assert (tuple(g.item() for g in found) if isinstance(found, tuple) else found.item()) == expected


@dataclass
class Point:
    x: ag.Tensor
    y: ag.Tensor


def test_containers(close):
    p = {
        "w": tensor(2.0, 3.0),
        "rest": [tensor(5.0), (tensor(7.0),)],
        "none": None,
        "point": Point(tensor(1.0), tensor(4.0)),
    }
    found = grad(lambda p: (p["w"] ** 2).sum() * p["rest"][0] + 3 * p["rest"][1][0] + p["point"].x * p["point"].y)(p)
    assert list(found) == ["w", "rest", "none", "point"]
    close(found["w"], [20.0, 30.0])
    close(found["rest"][0], 13.0)
    close(found["rest"][1][0], 3.0)
    assert isinstance(found["point"], Point)
    close(found["point"].x, 4.0)
    close(found["point"].y, 1.0)


def test_value_and_aux():
    def f(x):
        return x * x, {"double": 2 * x, "name": "f"}

    value, g = value_and_grad(lambda x: x * x)(tensor(3.0))
    assert (value.item(), g.item()) == (9.0, 6.0)
    g, value = grad_and_value(lambda x: x * x)(tensor(3.0))
    assert (value.item(), g.item()) == (9.0, 6.0)
    g, aux = grad(f, has_aux=True)(tensor(3.0))
    assert (g.item(), aux["double"].item(), aux["name"]) == (6.0, 6.0, "f")
    (value, aux), g = value_and_grad(f, has_aux=True)(tensor(3.0))
    assert (value.item(), aux["double"].item(), g.item()) == (9.0, 6.0, 6.0)
    g, (value, aux) = grad_and_value(f, has_aux=True)(tensor(3.0))
    assert (value.item(), g.item()) == (9.0, 6.0)
    assert not any(t.requires_grad for t in (value, aux["double"], g))


def test_keyword_arguments_are_handed_on():
    assert grad(lambda x, *, scale: scale * x * x)(tensor(3.0), scale=2.0).item() == 12.0


def test_an_argument_without_effect_has_the_gradient_zero(close):
    a, b = grad(lambda x, y: x.sum(), (0, 1))(tensor(1.0, 2.0), tensor(3.0, 4.0))
    close(a, [1.0, 1.0])
    close(b, [0.0, 0.0])
    close(grad(lambda x: tensor(1.0))(tensor(2.0)), 0.0)


@settings(max_examples=25, deadline=None)
@given(shape=st.lists(st.integers(1, 3), min_size=0, max_size=3), seed=st.integers(0, 1000))
def test_against_finite_differences_on_any_shape(shape, seed):
    x = np.random.default_rng(seed).uniform(0.5, 2.0, shape)
    found = grad(lambda x: (ag.sin(x) * ag.sum(x) / ag.exp(x)).sum())(ag.asarray(x))
    expected = differences(lambda x: (np.sin(x) * np.sum(x) / np.exp(x)).sum(), x)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


# -- nested, and what is held fixed ---------------------------------------------------------------------------------------


def test_any_depth():
    f, value = (lambda x: x**5), 2.0
    for expected in (80.0, 160.0, 240.0, 240.0, 120.0):
        f = grad(f)
        assert f(tensor(value)).item() == pytest.approx(expected)


def test_perturbations_are_not_confused():
    # d/dx [x * d/dy (x + y)] = 1, not 2
    assert grad(lambda x: x * grad(lambda y: x + y)(tensor(1.0)))(tensor(1.0)).item() == 1.0
    assert (
        jvp(lambda x: x * jvp(lambda y: x + y, (tensor(1.0),), (tensor(1.0),))[1], (tensor(1.0),), (tensor(1.0),))[
            1
        ].item()
        == 1.0
    )
    # forward outside, reverse inside, and the other way round
    f = lambda x: x * grad(lambda y: x * y * y)(x)
    assert jvp(f, (tensor(2.0),), (tensor(1.0),))[1].item() == 24.0
    h = lambda x: x * jvp(lambda y: x * y * y, (x,), (tensor(1.0),))[1]
    assert grad(h)(tensor(2.0)).item() == 24.0


def test_the_same_tensor_inside_and_outside_counts_as_constant_outside():
    x = tensor(3.0, requires_grad=True)
    assert grad(lambda y: x * y)(x).item() == 3.0


@pytest.mark.parametrize(
    "second",
    [
        lambda f: grad(grad(f)),
        lambda f: lambda x: jvp(grad(f), (x,), (tensor(1.0),))[1],
        lambda f: grad(lambda x: jvp(f, (x,), (tensor(1.0),))[1]),
        lambda f: lambda x: jvp(lambda x: jvp(f, (x,), (tensor(1.0),))[1], (x,), (tensor(1.0),))[1],
        lambda f: lambda x: vjp(grad(f), x)[1](tensor(1.0))[0],
        lambda f: lambda x: linearize(grad(f), x)[1](tensor(1.0)),
        lambda f: grad(lambda x: linearize(f, x)[1](tensor(1.0))),
        lambda f: lambda x: hvp(f, (x,), (tensor(1.0),)),
        lambda f: lambda x: vmap(grad(grad(f)))(ag.reshape(x, (1,)))[0],
    ],
)
def test_second_derivatives_by_every_pair_of_modes(second):
    f = lambda x: ag.sin(x) * x
    found = second(f)(tensor(0.7)).item()
    assert found == pytest.approx(2 * np.cos(0.7) - 0.7 * np.sin(0.7), rel=1e-12)


def test_the_result_belongs_to_the_tape_outside(close):
    w = tensor(3.0, requires_grad=True)
    g = grad(lambda x: w * x * x)(tensor(2.0))
    g.backward()  # d/dw (2 w x)
    assert w.grad.item() == 4.0
    x = tensor(2.0, requires_grad=True)
    grad(lambda x: x**3)(x).backward()
    assert x.grad.item() == 12.0
    value, _ = value_and_grad(lambda x: w * x)(tensor(5.0))
    assert ag.autograd.grad(value, w)[0].item() == 5.0


def test_grad_mode():
    w = tensor(3.0, requires_grad=True)
    with ag.no_grad():
        g = grad(lambda x: w * x * x)(tensor(2.0))
    assert g.item() == 12.0
    assert not g.requires_grad

    def f(x):
        with ag.no_grad():
            constant = x * x
        return constant * x

    assert grad(f)(tensor(3.0)).item() == 9.0


def test_autograd_grad_works_inside():
    def f(x):
        y = ag.tensor(2.0, requires_grad=True)
        (g,) = ag.autograd.grad(x * y**2, y, create_graph=True)
        return g * x

    assert grad(f)(tensor(3.0)).item() == 24.0  # f = 4 x^2


def test_backward_inside_is_refused():
    def f(x):
        (x * x).backward()
        return x

    with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
        grad(f)(tensor(1.0))
    with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
        vmap(f)(tensor(1.0, 2.0))
    tensor(1.0, requires_grad=True).sum().backward()  # and is fine afterwards


# -- products -------------------------------------------------------------------------------------------------------------


def test_vjp(close):
    (y, z), pull = vjp(lambda a, b: (a * b, a.sum()), tensor(1.0, 2.0), tensor(3.0, 4.0))
    close(y, [3.0, 8.0])
    close(z, 3.0)
    for _ in range(2):  # as often as one likes
        by_a, by_b = pull((tensor(1.0, 10.0), tensor(100.0)))
        close(by_a, [103.0, 140.0])
        close(by_b, [1.0, 20.0])
    _, pull, aux = vjp(lambda x: (x * x, "aux"), tensor(3.0), has_aux=True)
    assert aux == "aux"
    assert pull(tensor(1.0))[0].item() == 6.0
    assert pull(np.asarray(2.0))[0].item() == pull(2.0)[0].item() == 12.0  # arrays and numbers, as everywhere


def test_vjp_of_a_vjp():
    _, pull = vjp(lambda x: x**3, tensor(2.0))
    assert grad(lambda g: pull(g)[0])(tensor(1.0)).item() == 12.0  # it is linear in its cotangent


def test_jvp(close):
    y, t = jvp(
        lambda a, b: {"p": a * b, "c": ag.ones(2)},
        (tensor(1.0, 2.0), tensor(3.0, 4.0)),
        (tensor(1.0, 0.0), tensor(0.0, 1.0)),
    )
    close(y["p"], [3.0, 8.0])
    close(t["p"], [3.0, 2.0])
    close(t["c"], [0.0, 0.0])
    y, t, aux = jvp(lambda x: (x * x, x), (tensor(3.0),), (tensor(1.0),), has_aux=True)
    assert (y.item(), t.item(), aux.item()) == (9.0, 6.0, 3.0)
    assert repr(aux) == "tensor(3.)"  # no tangent is left behind


@pytest.mark.parametrize(
    "product",
    [
        lambda f, x, v: jvp(grad(f), (x,), (v,))[1],
        lambda f, x, v: jvp(lambda x: vjp(f, x)[1](tensor(1.0))[0], (x,), (v,))[1],
        lambda f, x, v: jvp(lambda c: grad(lambda x: f(x * c))(x), (tensor(1.0),), (v[0],))[1],
        lambda f, x, v: jvp(lambda x: linearize(f, x)[1](x), (x,), (v,))[1],
        lambda f, x, v: jvp(lambda x: hvp(f, (x,), (x,)), (x,), (v,))[1],
        lambda f, x, v: vjp(lambda v: jvp(grad(f), (x,), (v,))[1], v)[1](v)[0],
    ],
    ids=["grad", "vjp", "closure", "linearize", "hvp", "twice"],
)
def test_derivatives_in_a_jvp_are_differentiated_by_its_tangent(product, close):
    f, x, v = lambda x: ag.prod(ag.sin(x)) + (x**3).sum(), tensor(0.4, 1.3), tensor(0.7, -0.2)
    total = lambda v: (product(f, x, tensor(v)) ** 2).sum()
    expected = differences(lambda v: total(v).numpy(), v.numpy())
    found = grad(lambda v: (product(f, x, v) ** 2).sum())(v)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert not product(f, x, v).requires_grad
    leaf = v.clone().requires_grad_()
    assert product(f, x, leaf).requires_grad


def test_linearize_runs_the_function_once(close):
    calls = []

    def f(a, b):
        calls.append(1)
        return ag.sin(a) * b, a.sum()

    a, b = tensor(0.5, 1.0), tensor(2.0, 3.0)
    (y, _), push = linearize(f, a, b)
    close(y, np.sin([0.5, 1.0]) * [2.0, 3.0])
    for ta, tb in (([1.0, 0.0], [0.0, 1.0]), ([0.3, 0.4], [0.5, 0.6])):
        ty, tz = push(tensor(ta), tensor(tb))
        close(ty, np.cos([0.5, 1.0]) * ta * np.array([2.0, 3.0]) + np.sin([0.5, 1.0]) * tb)
        close(tz, sum(ta))
    assert len(calls) == 1
    assert not ty.requires_grad


def test_hvp(close):
    f = lambda x: (x**4).sum() + x[0] * x[1]
    close(hvp(f, (tensor(1.0, 2.0),), (tensor(1.0, 10.0),)), [12.0 + 10.0, 480.0 + 1.0])
    a, b = hvp(lambda a, b: a * a * b, (tensor(2.0), tensor(3.0)), (tensor(1.0), tensor(1.0)))
    assert (a.item(), b.item()) == (10.0, 4.0)
    product, aux = hvp(lambda x: (x**3, x), (tensor(2.0),), (tensor(1.0),), has_aux=True)
    assert (product.item(), aux.item()) == (12.0, 2.0)
    assert hvp(lambda x: 3 * x, (tensor(2.0),), (tensor(1.0),)).item() == 0.0
    w = tensor(2.0, requires_grad=True)
    hvp(lambda x: w * x**3, (tensor(2.0),), (tensor(1.0),)).backward()
    assert w.grad.item() == 12.0


# -- complex --------------------------------------------------------------------------------------------------------------


def test_complex_gradients_are_those_of_backward():
    z = ag.tensor(1 + 2j)
    assert grad(lambda z: ag.abs(z) ** 2)(z).item() == pytest.approx(2 + 4j)


def test_holomorphic():
    z = ag.tensor(1 + 2j)
    assert grad(lambda z: z * z * z, holomorphic=True)(z).item() == pytest.approx(3 * (1 + 2j) ** 2)
    assert grad(grad(lambda z: z * z * z, holomorphic=True), holomorphic=True)(z).item() == pytest.approx(6 * (1 + 2j))
    assert jvp(lambda z: z * z * z, (z,), (ag.tensor(1 + 0j),))[1].item() == pytest.approx(3 * (1 + 2j) ** 2)
    _, push = linearize(lambda z: z * z * z, z)
    assert push(ag.tensor(1j)).item() == pytest.approx(3j * (1 + 2j) ** 2)
    with pytest.raises(RuntimeError, match="expected all inputs to be complex"):
        grad(lambda z: z * z, holomorphic=True)(tensor(1.0))


# -- errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: grad(lambda x: x * 2)(x),
            RuntimeError,
            "Expected f(*args) to return a scalar Tensor, got tensor with 1 dims. Maybe you wanted to use the vjp or jacrev APIs instead?",
        ),
        (lambda x: grad(lambda x: 3.0)(x), TypeError, "Expected f(*args) to return a Tensor, got <class 'float'>"),
        (lambda x: grad(lambda x: (x.sum(), x))(x), TypeError, "Expected f(*args) to return a Tensor"),
        (lambda x: grad(lambda x: x.sum(), 3)(x), RuntimeError, "Got argnum=3, but only 1 positional inputs"),
        (lambda x: grad(lambda x: x.sum(), ())(x), RuntimeError, "argnums must be non-empty"),
        (
            lambda x: grad(lambda x: x.sum(), "a")(x),
            TypeError,
            "argnums must be int or Tuple[int, ...], got: <class 'str'>",
        ),
        (lambda x: grad(lambda x, y: x.sum(), (0, -2))(x, x), RuntimeError, "argnums elements must be unique"),
        (lambda x: grad(lambda x: x.sum())(tensor(1, 2)), RuntimeError, "can require gradients"),
        (lambda x: grad(lambda x: x)("text"), TypeError, "Thing passed to transform API must be Tensor"),
        (
            lambda x: grad(lambda x: x.sum() * 1j)(x),
            RuntimeError,
            "grad can be implicitly created only for real scalar outputs",
        ),
        (
            lambda x: grad(lambda x: x.sum(), has_aux=True)(x),
            RuntimeError,
            "output of function f should be a tuple: (output, aux) if has_aux is True",
        ),
        (
            lambda x: vjp(lambda x: (x, x * 2), x)[1](x),
            RuntimeError,
            "Expected pytree structure of cotangents to be the same as pytree structure of outputs",
        ),
        (
            lambda x: vjp(lambda x: x * 2, x)[1](ag.ones(3)),
            RuntimeError,
            "Mismatch in shape: grad_output[0] has a shape of (3,)",
        ),
        (
            lambda x: vjp(lambda x: 3.0, x),
            TypeError,
            "expected f(*primals) to return only tensors, got unsupported type <class 'float'>",
        ),
        (lambda x: jvp(lambda x: x, x, x), TypeError, "Expected primals to be a tuple"),
        (
            lambda x: jvp(lambda x: x, (x,), (x, x)),
            RuntimeError,
            "Expected primals and tangents to have the same python structure",
        ),
        (
            lambda x: jvp(lambda x: x, (x,), (ag.ones(3),)),
            RuntimeError,
            "Trying to set a forward gradient that has a different size than that of the original Tensor",
        ),
        (lambda x: jvp(lambda: x, (), ()), RuntimeError, "Expected primals to contain at least one Tensor"),
        (
            lambda x: jvp(lambda x: ag.ones(2), (x,), (x,), strict=True),
            RuntimeError,
            "The output of f is independent of the inputs",
        ),
        (
            lambda x: jvp(lambda x: x, (tensor(1, 2),), (x,)),
            ValueError,
            "Expected primal to be floating point or complex",
        ),
        (lambda x: linearize(lambda x: x * 2, x)[1](x, x), RuntimeError, "to have the same argspec as the primals"),
        (
            lambda x: linearize(lambda x: x * 2, x)[1](ag.ones(3)),
            RuntimeError,
            "tangent:0 with shape (3,) in flattened pytree doesn't match the shape (2,)",
        ),
        (lambda x: hvp(lambda x: x * 2, (x,), (x,)), RuntimeError, "to return a scalar Tensor"),
        (lambda x: hvp(lambda x: x.sum(), (x,), (ag.ones(3),)), RuntimeError, "tangent 0 has shape (3,)"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as raised:
        call(tensor(1.0, 2.0))
    assert message in str(raised.value)


def test_works_on_every_backend(xp, make, close):
    f = lambda x: xp.sum(xp.sin(x) * x)
    x = np.array([0.5, 1.0])
    close(grad(f)(make(x)), np.cos(x) * x + np.sin(x))
    close(hvp(f, (make(x),), (make([1.0, 1.0]),)), 2 * np.cos(x) - np.sin(x) * x)
    close(linearize(xp.sin, make(x))[1](make([1.0, 2.0])), np.cos(x) * [1.0, 2.0])


def test_conventions_for_complex_numbers_beside_other_libraries():
    """The table of docs/complex.md."""
    jax, hips = pytest.importorskip("jax"), pytest.importorskip("autograd")
    jnp, anp, z = jax.numpy, importlib.import_module("autograd.numpy"), 1 + 2j
    cube, loss = lambda z: z**3, lambda xp: lambda z: xp.abs(z) ** 2
    real = lambda xp: lambda x: xp.real((x * (1 + 2j)) ** 2)
    t = ag.tensor(z)
    table = [
        (grad(loss(ag))(t), [jax.grad(loss(jnp))(z), hips.grad(loss(anp))(z)], 2 + 4j),
        (grad(ag.imag)(t), [jax.grad(jnp.imag)(z), hips.grad(anp.imag)(z)], 1j),
        (
            vjp(cube, t)[1](ag.tensor(1 + 0j)),
            [jax.vjp(cube, z)[1](1 + 0j)[0], hips.make_vjp(cube)(z)[0](1 + 0j)],
            -9 - 12j,
        ),
        (grad(ag.abs)(ag.tensor(0j)), [jax.grad(jnp.abs)(0j), hips.grad(anp.abs)(0j)], 0j),
        (grad(real(ag))(ag.tensor(3.0)), [jax.grad(real(jnp))(3.0), hips.grad(real(anp))(3.0)], -18.0),
    ]
    for ours, theirs, value in table:
        assert complex(ours[0] if isinstance(ours, tuple) else ours) == pytest.approx(value)
        assert [complex(v).conjugate() for v in theirs] == [pytest.approx(value, rel=1e-5)] * 2
    derivative = -9 + 12j
    assert complex(grad(cube, holomorphic=True)(t)) == complex(jvp(cube, (t,), (ag.tensor(1 + 0j),))[1]) == derivative
    assert complex(jax.grad(cube, holomorphic=True)(z)) == pytest.approx(derivative)
    assert complex(hips.holomorphic_grad(cube)(z)) == pytest.approx(derivative)
    assert complex(jax.jvp(cube, (z,), (1 + 0j,))[1]) == pytest.approx(derivative)


# -- of elements, along ones --------------------------------------------------------------------------------------------


def test_elementwise_grad_is_the_derivative_at_every_element():
    x = np.array([[0.5, 1.5], [-0.25, 2.0]])
    first = ag.elementwise_grad(lambda x: x**3 + ag.sin(x))
    np.testing.assert_allclose(first(x), 3 * x**2 + np.cos(x))
    np.testing.assert_allclose(ag.elementwise_grad(first)(x), 6 * x - np.sin(x))
    by_both = ag.elementwise_grad(lambda a, b: a * b, argnums=(0, 1))(x, 3.0)
    np.testing.assert_allclose(by_both[0], np.full((2, 2), 3.0))
    assert by_both[1] == x.sum()  # what is broadcast is summed
    g, aux = ag.elementwise_grad(lambda x: (x * x, "kept"), has_aux=True)(x)
    assert aux == "kept"
    np.testing.assert_allclose(g, 2 * x)
    z = np.array([1 + 2j, 3j])
    np.testing.assert_allclose(ag.elementwise_grad(lambda z: z**2, holomorphic=True)(z), 2 * z)
    with pytest.raises(RuntimeError, match="complex"):
        ag.elementwise_grad(lambda z: z**2)(z)
    with pytest.raises(TypeError, match="return a Tensor"):
        ag.elementwise_grad(lambda x: (x, x))(x)


def test_deriv_is_the_derivative_along_ones():
    turn = lambda t, radius: ag.stack([radius * ag.cos(t), radius * ag.sin(t)])
    np.testing.assert_allclose(ag.deriv(turn)(0.3, 2.0), [-2 * np.sin(0.3), 2 * np.cos(0.3)])
    np.testing.assert_allclose(ag.deriv(turn, 1)(0.3, 2.0), [np.cos(0.3), np.sin(0.3)])
    np.testing.assert_allclose(ag.deriv(lambda a, b: a * b, (0, 1))(3.0, 5.0), 8.0)
    np.testing.assert_allclose(ag.deriv(ag.deriv(ag.deriv(ag.sin)))(0.3), -np.cos(0.3))
    np.testing.assert_allclose(ag.grad(ag.deriv(ag.sin))(0.3), -np.sin(0.3))
    assert isinstance(ag.deriv(ag.sin)(ag.tensor(0.3)), ag.Tensor)
    assert ag.deriv(lambda p: {"y": p["w"] * p["b"]})({"w": 2.0, "b": 5.0}) == {"y": 7.0}
    with pytest.raises(RuntimeError, match="argnum=2"):
        ag.deriv(turn, 2)(0.3, 2.0)
    with pytest.raises(ValueError, match="floating point"):
        ag.deriv(ag.sin)(1)


# -- functions that write to their arguments ---------------------------------------------------------------------------


def doubling(w):
    w *= 2.0
    return ag.sum(w**2)


def putting(w):
    w[0] = 5.0
    return ag.sum(w**3)


@pytest.mark.parametrize("transform", [ag.grad, ag.value_and_grad, ag.jacobian, lambda f: lambda x: vjp(f, x)])
@pytest.mark.parametrize("f", [doubling, putting])
def test_writing_to_an_argument_says_what_to_write(f, transform):
    with pytest.raises(RuntimeError, match="w is an argument of the function") as caught:
        transform(f)(np.ones(3))
    assert "w = w.copy() first" in str(caught.value)
    assert "no_grad" not in str(caught.value)
    np.testing.assert_allclose(
        ag.grad(lambda w: f(w.copy()))(np.ones(3)), [8.0] * 3 if f is doubling else [0.0, 3.0, 3.0]
    )


@pytest.mark.parametrize(("f", "second"), [(doubling, [8.0, 8.0, 8.0]), (putting, [0.0, 6.0, 6.0])])
def test_writing_to_an_argument_that_has_a_history(f, second):
    inner = lambda w: ag.sum(ag.grad(f)(w))
    np.testing.assert_allclose(ag.grad(inner)(np.ones(3)), second)
    np.testing.assert_allclose(ag.grad(lambda p: inner(p["w"]))({"w": np.ones(3)})["w"], second)
    np.testing.assert_allclose(ag.hessian(f)(np.ones(3)), np.diag(second))
    x = ag.ones(3, requires_grad=True)
    np.testing.assert_allclose(ag.grad(f)(x).detach().numpy(), [8.0] * 3 if f is doubling else [0.0, 3.0, 3.0])
    y = x * 1.0
    gradient = ag.grad(f)(y)
    assert y.tolist() == [1.0, 1.0, 1.0]
    assert ag.autograd.grad(ag.sum(gradient), x)[0].tolist() == second


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "grad_and_value"])
def test_errors_name_what_was_called_and_what_to_write(name):
    transform = getattr(ag.func, name)
    for f, written in ((lambda x: x * 2, "elementwise_grad(f)"), (lambda x: x[:1, None], "ag.sum(y), or y[0, 0]")):
        with pytest.raises(RuntimeError, match="Expected f") as caught:
            transform(f)(tensor(1.0, 2.0))
        assert str(caught.value).startswith(f"{name}(f)(*args): ")
        assert written in str(caught.value)
    with pytest.raises(
        TypeError, match=rf"^{name}\(f\).*got <class 'float'>\n  It is computed from none of the arguments"
    ):
        transform(lambda x: float(x.detach().sum()))(tensor(1.0))
    with pytest.raises(RuntimeError, match=f"^{name}: with holomorphic=True, expected all inputs"):
        transform(lambda x: x, holomorphic=True)(tensor(1.0))
    with pytest.raises(TypeError, match="argnums must be int"):
        transform(lambda x: x, "a")


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (2, "This one is int64; write 2.0."),
        (
            {"a": 1.0, "n": 2},
            "That at ['n'] is int64; write 2.0. Keep what has no derivative in an argument of its own",
        ),
        ({"a": [1.0, ag.tensor([1, 2])]}, "That at ['a'][1] is int64; convert it first"),
        ({"a": 1.0, "name": "text"}, "got <class 'str'> at ['name']\n  Keep what has no derivative"),
        ([1.0, (2.0, object())], "got <class 'object'> at [1][1]\n  Keep what has no derivative"),
    ],
)
def test_errors_name_the_entry_that_has_no_derivative(argument, words):
    for transform in (grad, ag.func.jacrev):
        with pytest.raises((RuntimeError, TypeError), match=re.escape(words)):
            transform(lambda p: 1.0)(argument)
    with pytest.raises((RuntimeError, TypeError), match=re.escape(words)):
        vjp(lambda p: p, argument)


def test_errors_name_the_argument_among_several():
    with pytest.raises(RuntimeError, match=re.escape("That at [1] is int64; write 3.0.")):
        grad(lambda x, n: x * n, (0, 1))(1.0, 3)
