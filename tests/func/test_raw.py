"""Raw in, raw out: in which form every transform gives its results, alone and within every other; no gradient is cut.

Expected values are finite differences or derivatives by hand, in NumPy.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import optimize

import agrad as ag
from agrad.autograd import forward_ad
from agrad.func import (
    deriv,
    elementwise_grad,
    grad,
    grad_and_value,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
    vmap,
)
from agrad.plugin.hookspecs import hookimpl

X = np.array([0.5, -1.25])
V = np.array([2.0, 3.0])


def sines(x):
    """A scalar function; its gradient is cos(x) * s + sin(x), with the sum s of the elements."""
    return ag.sum(ag.sin(x)) * ag.sum(x)


def types(found):
    return ag.tree.map(type, found)


def numbers(found):
    return np.asarray(found.detach().numpy() if isinstance(found, ag.Tensor) else found)


SLOPE = np.cos(X) * X.sum() + np.sin(X).sum()
BEND = np.diag(-np.sin(X) * X.sum()) + np.cos(X)[:, None] + np.cos(X)[None, :]
VALUE = np.sin(X).sum() * X.sum()

# -- one transform ------------------------------------------------------------------------------------------------------

#: By name: a transform as a function of one array, and what it gives.
ALONE = {
    "grad": (lambda x: grad(sines)(x), SLOPE),
    "value": (lambda x: value_and_grad(sines)(x)[0], VALUE),
    "gradient": (lambda x: value_and_grad(sines)(x)[1], SLOPE),
    "grad_and_value": (lambda x: grad_and_value(sines)(x)[0], SLOPE),
    "vjp, output": (lambda x: vjp(sines, x)[0], VALUE),
    "vjp": (lambda x: vjp(sines, x)[1](1.0)[0], SLOPE),
    "jvp, output": (lambda x: jvp(sines, (x,), (V,))[0], VALUE),
    "jvp": (lambda x: jvp(sines, (x,), (V,))[1], SLOPE @ V),
    "jacrev": (lambda x: jacrev(sines)(x), SLOPE),
    "jacfwd": (lambda x: jacfwd(sines)(x), SLOPE),
    "jacobian": (lambda x: jacobian(ag.sin)(x), np.diag(np.cos(X))),
    "hessian": (lambda x: hessian(sines)(x), BEND),
    "hvp": (lambda x: hvp(sines, (x,), (V,)), BEND @ V),
    "elementwise_grad": (lambda x: elementwise_grad(sines)(x), SLOPE),
    "elementwise_grad of a vector": (lambda x: elementwise_grad(ag.sin)(x), np.cos(X)),
    "deriv": (lambda x: deriv(sines)(x), SLOPE @ np.ones(2)),
    "linearize, output": (lambda x: linearize(sines, x)[0], VALUE),
    "linearize": (lambda x: linearize(sines, x)[1](V), SLOPE @ V),
    "vmap": (lambda x: vmap(lambda row: row * row)(x), X * X),
    "vmap in chunks": (lambda x: vmap(lambda row: row * row, chunk_size=1)(x), X * X),
}


@pytest.mark.parametrize("name", ALONE)
def test_of_an_array_an_array_and_of_a_tensor_a_tensor(name):
    transform, expected = ALONE[name]
    found = transform(X)
    assert type(found) is (np.ndarray if expected.shape else np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if name not in ("jvp", "hvp", "linearize"):  # their vectors are raw
        found = transform(ag.asarray(X))
        assert type(found) is ag.Tensor
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ALONE)
def test_of_a_tensor_that_requires_grad_the_history_goes_on(name):
    transform, expected = ALONE[name]
    leaf = ag.asarray(X, requires_grad=True)
    found = transform(leaf)
    assert type(found) is ag.Tensor
    assert found.requires_grad
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ALONE)
def test_results_are_the_callers_own(name):
    x = X.copy()
    found = ALONE[name][0](x)
    if type(found) is np.ndarray:
        assert found.flags.writeable
        assert not np.shares_memory(found, x)
        found[...] = math.nan
        np.testing.assert_array_equal(x, X)
        np.testing.assert_allclose(ALONE[name][0](x), ALONE[name][1], rtol=1e-12)


def test_what_is_given_shares_no_memory_with_what_is_kept():
    """Values that a pullback saved, cotangents, constants, a tensor of the user's."""
    x = X.copy()
    value, pull = vjp(ag.exp, x)
    value[...] = 0.0
    np.testing.assert_allclose(pull(np.ones(2))[0], np.exp(X))
    same, pull = vjp(lambda x: x, x)
    same[...] = 7.0
    np.testing.assert_array_equal(x, X)
    cotangent = V.copy()
    pull(cotangent)[0][...] = 7.0
    np.testing.assert_array_equal(cotangent, V)
    grad(ag.sum)(x)[...] = 7.0  # ones, which all gradients of a sum may share
    np.testing.assert_array_equal(grad(ag.sum)(x), [1.0, 1.0])
    kept, hooked = ag.asarray(V), []
    _, aux = grad(lambda x: (ag.sum(x), kept), has_aux=True)(x)
    aux[...] = 7.0
    vmap(lambda x: kept, out_dims=None)(x)[...] = 7.0
    vmap(lambda x: kept)(x)[...] = 7.0
    jvp(lambda x: (x, kept), (x,), (V,), has_aux=True)[2][...] = 7.0
    assert kept.tolist() == V.tolist()

    def watched(x):
        x.register_hook(hooked.append)
        return ag.sum(x * x)

    grad(watched)(x)[...] = 7.0
    assert hooked[0].tolist() == (2 * X).tolist()


@pytest.mark.parametrize(
    "number",
    [3.0, np.float64(3.0), np.float32(3.0), np.array(3.0), np.array(3.0, np.float32), 1 + 2j, np.complex64(1 + 2j)],
    ids=repr,
)
def test_numbers_come_back_as_scalars_of_numpy(number):
    kind = np.asarray(number).dtype
    square = lambda x: ag.real(x * ag.conj(x))
    value, g = value_and_grad(square)(number)
    assert type(value) is np.zeros((), kind).real[()].__class__
    if type(number) is np.ndarray:
        assert type(g) is np.ndarray
        assert g.dtype == kind
    else:
        assert type(g) is kind.type
    np.testing.assert_allclose(value, abs(np.asarray(number)) ** 2)
    np.testing.assert_allclose(g, 2 * np.asarray(number))
    assert type(vjp(square, number)[1](value)[0]) is type(g)
    assert type(jacrev(square)(number)) is type(g) if not np.iscomplexobj(number) else True


def test_the_default_dtype_is_that_of_numbers(single):
    assert type(grad(lambda x: x * x)(3.0)) is np.float32
    assert type(grad(lambda x: x * x)(np.float64(3.0))) in (np.float32, np.float64)


@pytest.fixture
def single():
    before = ag.get_default_dtype()
    ag.set_default_dtype(ag.float32)
    yield
    ag.set_default_dtype(before)


# -- several arguments --------------------------------------------------------------------------------------------------


def products(a, b, scale=1.0):
    return ag.sum(a * b) * scale


T = ag.asarray(V)


def test_a_gradient_follows_its_own_argument():
    by_a, by_b = grad(products, (0, 1))(X, T)
    assert (type(by_a), type(by_b)) == (np.ndarray, ag.Tensor)
    by_b, by_a = grad(products, (1, 0))(T, X)
    assert (type(by_a), type(by_b)) == (ag.Tensor, np.ndarray)
    assert type(grad(products)(X, T)) is np.ndarray
    assert type(grad(products)(X, V, scale=ag.tensor(2.0))) is np.ndarray
    _, pull = vjp(products, X, T)
    assert types(pull(1.0)) == (np.ndarray, ag.Tensor)
    assert types(pull(ag.tensor(1.0))) == (ag.Tensor, ag.Tensor), "a cotangent is an argument too"
    assert types(hvp(products, (X, T), (X, X))) == (np.ndarray, ag.Tensor)
    assert types(hvp(products, (X, T), (X, T))) == (ag.Tensor, ag.Tensor)
    for jacobian_of in (jacrev, jacfwd):
        assert types(jacobian_of(products, (0, 1))(X, T)) == (np.ndarray, ag.Tensor)
    assert types(hessian(products, (0, 1))(X, T)) == ((np.ndarray, ag.Tensor), (ag.Tensor, ag.Tensor))


def test_values_follow_all_arguments():
    def f(a, b, scale=1.0):
        return products(a, b, scale), {"tensor": ag.sum(a), "array": V, "number": 3, "text": "kept", "nothing": None}

    raw = {"tensor": np.float64, "array": np.ndarray, "number": int, "text": str, "nothing": None}
    lifted = raw | {"tensor": ag.Tensor}
    for args, kwargs, kind, aux in (
        ((X, V), {}, np.float64, raw),
        ((X, V), {"scale": 2.0}, np.float64, raw),
        ((X, V), {"scale": ag.tensor(2.0)}, ag.Tensor, lifted),
        ((X, T), {}, ag.Tensor, lifted),
        ((T, X), {}, ag.Tensor, lifted),
    ):
        (value, extra), _ = value_and_grad(f, has_aux=True)(*args, **kwargs)
        assert (type(value), types(extra)) == (kind, aux)
        assert extra["array"] is V
        for found in (grad(f, has_aux=True)(*args, **kwargs)[1], jacrev(f, has_aux=True)(*args, **kwargs)[1]):
            assert types(found) == aux
        for found in (jacfwd(f, has_aux=True)(*args, **kwargs)[1], hessian(f, has_aux=True)(*args, **kwargs)[1]):
            assert types(found) == aux
        if not kwargs:
            assert types(vjp(f, *args, has_aux=True)[2]) == aux
            assert types(jvp(f, args, args, has_aux=True)[2]) == aux
            assert types(hvp(f, args, args, has_aux=True)[1]) == aux
            assert types(jvp(f, args, args, has_aux=True)[:2]) == (kind, kind)
            value, push = linearize(products, *args)
            assert (type(value), type(push(*args))) == (kind, kind)
            assert type(push(T, T)) is ag.Tensor
            assert type(vmap(lambda a, b: a * b)(*args)) is (np.ndarray if kind is np.float64 else ag.Tensor)


def test_other_arguments_than_arrays_and_numbers_do_not_count():
    model = ag.nn.Linear(2, 1)

    def f(x, function, name, flags):
        return ag.sum(function(x))

    assert type(value_and_grad(f)(X, ag.sin, "sine", None)[0]) is np.float64
    assert type(value_and_grad(f)(T, ag.sin, "sine", [])[0]) is ag.Tensor
    value, g = value_and_grad(lambda x, model: ag.sum(x))(X, model)
    assert (type(value), type(g)) == (np.float64, np.ndarray)


@dataclass
class Point:
    x: object
    y: object


@pytest.mark.parametrize(
    "make", [list, tuple, lambda pair: dict(zip("ab", pair, strict=True)), lambda pair: Point(*pair)]
)
def test_a_container_that_mixes_both_gives_tensors(make):
    def f(p, other):
        first, second = ag.tree.flatten(p)[0]
        return ag.sum(first * second) * other

    for pair, kinds in (
        ((X, V), [np.ndarray, np.ndarray]),
        ((X, 2.0), [np.ndarray, np.float64]),
        ((X, T), [ag.Tensor, ag.Tensor]),
        ((2.0, T), [ag.Tensor, ag.Tensor]),
        ((T, T), [ag.Tensor, ag.Tensor]),
    ):
        p, other = make(pair), 3.0
        for found in (
            grad(f)(p, other),
            grad(f, (1, 0))(p, other)[1],
            vjp(f, p, other)[1](1.0)[0],
            jacrev(f)(p, other),
        ):
            assert list(map(type, ag.tree.flatten(found)[0])) == kinds
            assert type(found) is type(p)
        if ag.Tensor not in kinds:
            assert type(value_and_grad(f)(p, other)[0]) in (np.float64, np.ndarray)


def test_results_in_containers():
    found = vmap(lambda a: {"square": a * a, "pair": (a, 2 * a)})(X)
    assert types(found) == {"square": np.ndarray, "pair": (np.ndarray, np.ndarray)}
    value, pull = vjp(lambda a: {"square": a * a, "pair": (a, 2 * a)}, X)
    assert types(value) == {"square": np.ndarray, "pair": (np.ndarray, np.ndarray)}
    assert types(pull(value)) == (np.ndarray,)
    tensors = ag.tree.map(ag.asarray, value)
    assert types(pull(tensors)) == (ag.Tensor,)
    assert types(pull({**tensors, "square": X})) == (ag.Tensor,), "cotangents that mix both"


def test_no_argument_at_all_gives_tensors():
    assert type(vjp(lambda: T)[0]) is ag.Tensor


# -- nothing is cut -----------------------------------------------------------------------------------------------------


def differences(f, x, step=1e-5):
    """The derivative of a function of a number that gives an array, by central differences."""
    return (np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * step)


#: Transforms of the function f(u) = u * sin(w * u), by another number w: by name what each gives of u, a scalar.
INNER = {
    "grad": lambda f, u: grad(f)(u),
    "value_and_grad": lambda f, u: value_and_grad(f)(u)[0],
    "grad_and_value": lambda f, u: grad_and_value(f)(u)[0],
    "grad with aux": lambda f, u: grad(lambda u: (f(u), f(u)), has_aux=True)(u)[1],
    "vjp": lambda f, u: vjp(f, u)[1](1.0)[0],
    "vjp, output": lambda f, u: vjp(f, u)[0],
    "vjp, aux": lambda f, u: vjp(lambda u: (u * u, f(u)), u, has_aux=True)[2],
    "jvp": lambda f, u: jvp(f, (u,), (1.0,))[1],
    "jvp, aux": lambda f, u: jvp(lambda u: (u * u, f(u)), (u,), (1.0,), has_aux=True)[2],
    "jacrev": lambda f, u: jacrev(f)(u),
    "jacfwd": lambda f, u: jacfwd(f)(u),
    "hessian": lambda f, u: hessian(f)(u),
    "hvp": lambda f, u: hvp(f, (u,), (1.0,)),
    "linearize": lambda f, u: linearize(f, u)[1](1.0),
    "linearize, output": lambda f, u: linearize(f, u)[0],
    "vmap": lambda f, u: ag.sum(vmap(f)(ag.stack([ag.asarray(u)] * 2))) / 2,
}


def inner_value(name, w, u):
    """Return the same by hand."""
    if name in ("value_and_grad", "grad with aux", "vjp, output", "vjp, aux", "jvp, aux", "linearize, output", "vmap"):
        return u * math.sin(w * u)
    if name in ("hessian", "hvp"):
        return 2 * w * math.cos(w * u) - u * w * w * math.sin(w * u)
    return math.sin(w * u) + w * u * math.cos(w * u)


#: Transforms of a scalar function h by its number, each as (value or derivative of h, how often differentiated).
OUTER = {
    "grad": (lambda h, w: grad(h)(w), 1),
    "value_and_grad": (lambda h, w: value_and_grad(h)(w)[1], 1),
    "value": (lambda h, w: value_and_grad(h)(w)[0], 0),
    "aux": (lambda h, w: grad(lambda w: (w * w, h(w)), has_aux=True)(w)[1], 0),
    "vjp": (lambda h, w: vjp(h, w)[1](1.0)[0], 1),
    "jvp": (lambda h, w: jvp(h, (w,), (1.0,))[1], 1),
    "jvp, aux": (lambda h, w: jvp(lambda w: (w * w, h(w)), (w,), (1.0,), has_aux=True)[2], 0),
    "jacrev": (lambda h, w: jacrev(h)(w), 1),
    "jacfwd": (lambda h, w: jacfwd(h)(w), 1),
    "hessian": (lambda h, w: hessian(h)(w), 2),
    "hvp": (lambda h, w: hvp(h, (w,), (1.0,)), 2),
    "linearize": (lambda h, w: linearize(h, w)[1](1.0), 1),
    "vmap": (lambda h, w: vmap(h)(ag.stack([ag.asarray(w)]) if isinstance(w, ag.Tensor) else np.array([w]))[0], 0),
}

U, W = 0.7, 1.3


def expected(inner, outer, u=U):
    value = lambda w: inner_value(inner, w, u)
    order = OUTER[outer][1]
    if order == 2:
        return (value(W + 1e-4) - 2 * value(W) + value(W - 1e-4)) / 1e-8
    return differences(value, W) if order else value(W)


@pytest.mark.parametrize(("inner", "outer"), [*itertools.product(INNER, OUTER)])
def test_every_transform_within_every_other(inner, outer):
    """The inner one is given a raw number, a tensor, an argument of the outer one; the outer one numbers and tensors."""
    transform, _ = OUTER[outer]

    def h(u):
        def of(w):
            found = INNER[inner](lambda v: v * ag.sin(w * v), u)
            assert type(found) is ag.Tensor, "within a transform"
            return found

        return of

    wanted = expected(inner, outer)
    for u in (U, np.float64(U), np.array(U), ag.tensor(U)):
        for w, kind in ((W, np.float64), (np.array(W), None), (ag.tensor(W), ag.Tensor)):
            found = transform(h(u), w)
            assert kind is None or type(found) is kind, (type(u), type(w))
            assert isinstance(found, ag.Tensor) == isinstance(w, ag.Tensor)
            assert float(found) == pytest.approx(wanted, rel=1e-5, abs=1e-5)

    def both(w):
        """The inner function is of the outer argument twice: d/dw of the whole."""
        return INNER[inner](lambda v: v * ag.sin(w * v), w * U)

    if OUTER[outer][1] < 2:
        value = lambda w: inner_value(inner, w, w * U)
        wanted = differences(value, W) if OUTER[outer][1] else value(W)
        assert float(transform(both, W)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("inner", INNER)
def test_over_a_closure_that_requires_a_gradient(inner):
    """In a plain recorded graph; under no_grad and inference_mode there is nothing to be cut."""
    w = ag.tensor(W, requires_grad=True)
    f = lambda v: v * ag.sin(w * v)
    for u in (U, np.array(U), ag.tensor(U)):
        found = INNER[inner](f, u)
        assert type(found) is ag.Tensor
        (slope,) = ag.autograd.grad(found * 1.0, w)
        assert slope.item() == pytest.approx(expected(inner, "grad"), rel=1e-6)
        for mode in (ag.no_grad, ag.inference_mode):
            with mode():
                found = INNER[inner](f, u)
            assert float(found) == pytest.approx(inner_value(inner, W, U), rel=1e-12)
            if inner != "vmap":
                assert (type(found) is ag.Tensor) == isinstance(u, ag.Tensor)
    with ag.no_grad():
        assert type(grad(lambda x: ag.sum(ag.sin(x) * w))(X)) is np.ndarray
    assert w.grad is None


@pytest.mark.parametrize("inner", INNER)
def test_within_a_level_of_forward_mode(inner):
    """Within `dual_level` too: over a closure that is dual, and where nothing is, results are tensors."""
    with forward_ad.dual_level():
        w = forward_ad.make_dual(ag.tensor(W), ag.tensor(1.0))
        for u in (U, ag.tensor(U)):
            found = INNER[inner](lambda v: v * ag.sin(w * v), u)
            assert type(found) is ag.Tensor
            primal, tangent = forward_ad.unpack_dual(found)
            assert primal.item() == pytest.approx(inner_value(inner, W, U), rel=1e-12)
            assert tangent.item() == pytest.approx(expected(inner, "grad"), rel=1e-6)
        assert type(INNER[inner](lambda v: v * ag.sin(W * v), U)) is ag.Tensor
    found = INNER[inner](lambda v: v * ag.sin(W * v), U)
    assert type(found) is (ag.Tensor if inner == "vmap" else np.float64)


@pytest.mark.parametrize("inner", INNER)
def test_in_a_recorded_graph(inner):
    """Of a result of the user's own graph, transforms give results of that graph."""
    leaf = ag.tensor(U, requires_grad=True)
    found = INNER[inner](lambda v: v * ag.sin(W * v), leaf * 1.0)
    (slope,) = ag.autograd.grad(found * 1.0, leaf)
    value = lambda u: inner_value(inner, W, u)
    assert slope.item() == pytest.approx(float(differences(value, U)), rel=1e-6)


@pytest.mark.parametrize("outer", OUTER)
def test_a_result_that_depends_on_nothing_is_a_tensor_within(outer):
    """So that what a function returns is a tensor whether it depends on its arguments or not."""
    transform, order = OUTER[outer]
    found = transform(lambda w: grad(lambda v: v * v)(3.0) + 0 * w, W)
    assert float(found) == (0.0 if order else 6.0)
    found = transform(lambda w: ag.sum(vmap(lambda v: v * v)(X)), W)
    assert float(found) == pytest.approx(0.0 if order else np.sum(X * X))


def test_three_deep_per_example():
    """vmap(grad(jvp)): arrays throughout, but for the one that counts outside."""
    rows = np.array([[0.3, 0.4], [1.0, -2.0], [0.0, 0.5]])

    def along(row):
        return jvp(lambda r: ag.sum(ag.sin(r)), (row,), (V,))[1]  # cos(r) @ V

    found = vmap(grad(along))(rows)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, -np.sin(rows) * V)
    found = jacfwd(lambda rows: vmap(grad(along))(rows))(ag.asarray(rows))
    assert type(found) is ag.Tensor
    wanted = np.zeros((3, 2, 3, 2))
    for i, j in np.ndindex(3, 2):
        wanted[i, j, i, j] = -np.cos(rows[i, j]) * V[j]
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


def test_a_pullback_used_elsewhere_than_it_was_made():
    """What counts is where its results are given out."""
    value, pull = vjp(ag.sin, X)
    seen = []
    grad(lambda s: seen.append((value, pull(V))) or s)(1.0)
    assert type(seen[0][0]) is np.ndarray
    assert types(seen[0][1]) == (ag.Tensor,)
    assert types(pull(V)) == (np.ndarray,)
    slope = grad(lambda s: ag.sum(pull(s * V)[0]))(2.0)
    assert float(slope.detach()) == pytest.approx(np.cos(X) @ V)
    kept = []
    grad(lambda s: kept.append(vjp(ag.sin, X)) or s)(1.0)
    value, pull = kept[0]
    assert type(value) is ag.Tensor
    assert types(pull(V)) == (np.ndarray,)


def test_after_an_error_inside_results_are_raw_again():
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: vmap(lambda row: 1 / 0)(x))(X)
    assert type(grad(sines)(X)) is np.ndarray


def test_a_checkpoint_runs_the_same_again():
    """What a transform inside gives when the function runs again is what it gave first."""
    seen = []

    def f(x):
        found = vmap(lambda v: v * v)(V)
        seen.append(type(found))
        return ag.sum(ag.sin(x) * found)

    for run in (lambda: grad(lambda x: ag.utils.checkpoint.checkpoint(f, x))(X), lambda: _plain(f)):
        seen.clear()
        np.testing.assert_allclose(run(), np.cos(X) * V * V)
        assert len(seen) == 2
        assert seen[0] is seen[1]


def _plain(f):
    leaf = ag.asarray(X, requires_grad=True)
    ag.utils.checkpoint.checkpoint(f, leaf).backward()
    return leaf.grad.numpy()


# -- who takes them -----------------------------------------------------------------------------------------------------


def rosenbrock(x):
    return ag.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "TNC", "SLSQP", "trust-ncg", "Newton-CG"])
def test_minimisers_of_scipy_take_them(method):
    hessp = {"hessp": lambda x, v: hvp(rosenbrock, (x,), (v,))} if method in ("trust-ncg", "Newton-CG") else {}
    found = optimize.minimize(value_and_grad(rosenbrock), np.zeros(3), jac=True, method=method, **hessp)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-2)


def test_solvers_of_scipy_take_them():
    curve = lambda x: ag.stack([x[0] ** 2 + x[1] ** 2 - 4.0, x[0] - x[1]])
    values = lambda x: vjp(curve, x)[0]
    found = optimize.root(values, np.array([1.0, 2.0]), jac=jacobian(curve))
    np.testing.assert_allclose(found.x, math.sqrt(2))
    found = optimize.least_squares(values, np.array([1.0, 2.0]), jac=jacfwd(curve))
    np.testing.assert_allclose(found.x, math.sqrt(2))
    found = optimize.newton(lambda x: float(x**3 - 8), 3.0, fprime=grad(lambda x: x**3 - 8))
    assert found == pytest.approx(2.0)


def test_gradients_can_be_written_to():
    """As programs for NumPy do."""
    w = np.array([3.0, 4.0])
    g = grad(lambda w: ag.sum(w * w))(w)
    g /= np.linalg.norm(g)
    w -= 0.5 * g
    np.testing.assert_allclose(w, [2.7, 3.6])


# -- other libraries ----------------------------------------------------------------------------------------------------


def test_lazy_arrays_stay_lazy(dask_backend):
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")

    def refuse(*_, **__):
        raise AssertionError("a value is computed")

    x = da.from_array(X, chunks=1)
    with dask.config.set(scheduler=refuse):
        value, g = value_and_grad(sines)(x)
        rows = vmap(lambda v: v * v)(x)
        assert type(value_and_grad(sines)(ag.asarray(x))[0]) is ag.Tensor
    assert all(isinstance(found, da.Array) for found in (value, g, rows))
    np.testing.assert_allclose(g.compute(), SLOPE)
    np.testing.assert_allclose(value.compute(), VALUE)
    np.testing.assert_allclose(rows.compute(), X * X)
    assert ag.asarray(x).device == dask_backend


def test_arrays_of_another_library(strict_backend):
    """A library without scalars gives 0-d arrays; results are the caller's own."""
    strict = pytest.importorskip("array_api_strict")
    x = strict.asarray(X)
    kind = type(x)
    value, g = value_and_grad(sines)(x)
    assert (type(value), type(g)) == (kind, kind)
    np.testing.assert_allclose(np.asarray(g), SLOPE)
    np.testing.assert_allclose(np.asarray(value), VALUE)
    g[0] = math.nan
    assert np.isnan(np.asarray(g)).tolist() == [True, False]
    ones = grad(ag.sum)(x)
    ones[0] = math.nan
    np.testing.assert_array_equal(np.asarray(grad(ag.sum)(x)), [1.0, 1.0])
    with ag.use_backend(strict_backend):
        assert type(grad(lambda x: x * x)(3.0)) is kind
    assert type(vmap(lambda v: v * v)(x)) is kind


def test_constants_that_hold_themselves_and_tensors_deep_in_them():
    constants = {"k": 2.0, "all": [{"x": "text"}, {"x": None}]}
    constants["self"] = constants
    assert isinstance(ag.value_and_grad(lambda x, c: x * c["k"])(2.0, constants)[0], np.float64)
    constants["all"].append({"x": ag.asarray(3.0)})
    value, gradient = ag.value_and_grad(lambda x, c: x * c["k"])(2.0, constants)
    assert isinstance(value, ag.Tensor)
    assert isinstance(gradient, np.float64)
    assert (value.item(), gradient) == (4.0, 2.0)


def test_a_constant_of_a_library_whose_backend_does_not_load(registered):
    class Foreign:
        pass

    class Plugin:
        @hookimpl
        def agrad_backends(self):
            return {"unloadable": "agrad_no_such_module.backend:Backend"}

        @hookimpl
        def agrad_backend_of(self, array_type):
            return "unloadable" if array_type is Foreign else None

    registered(Plugin())
    assert ag.value_and_grad(lambda c, x: x * x, argnums=1)(Foreign(), 2.0) == (4.0, 4.0)
    np.testing.assert_array_equal(ag.vmap(lambda c, x: x * x, in_dims=(None, 0))(Foreign(), np.ones(2)), np.ones(2))
