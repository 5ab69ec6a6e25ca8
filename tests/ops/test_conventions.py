"""Derivatives at kinks, ties and singular points. The numbers are PyTorch's, measured with 2.13; exceptions say so."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent

inf, nan = float("inf"), float("nan")


def same(got, expected):
    got = np.asarray(got._spec.backend.to_host(got._raw))
    np.testing.assert_allclose(got, np.asarray(expected, dtype=got.dtype), rtol=1e-13, atol=0, equal_nan=True)


def gradients(function, operands, backend, *, create_graph=False):
    """Give the gradients of the sum of function(*operands)."""
    leaves = [ag.asarray(v, device=backend, requires_grad=True) for v in operands]
    with np.errstate(all="ignore"):
        result = function(*leaves)
    ones = ag.asarray(np.ones(result.shape), device=backend)
    return leaves, ag.autograd.grad(result, leaves, ag.astype(ones, result.dtype), create_graph=create_graph)


def check(function, operands, expected, backend, *, pointwise=True):
    """Compare gradients, recorded or not; where element goes to element, also the pushed tangents."""
    for create_graph in (False, True):
        _, found = gradients(function, operands, backend, create_graph=create_graph)
        for got, wanted in zip(found, expected, strict=True):
            same(got.detach(), wanted)
    for i, wanted in enumerate(expected if pointwise else ()):
        with level() as at, np.errstate(all="ignore"):
            arrays = [ag.asarray(v, device=backend) for v in operands]
            arrays[i] = with_tangent(arrays[i], ag.ones_like(arrays[i]), at)
            pushed = tangent_of(function(*arrays), at)
        same(pushed, wanted)


UNARY = [
    ("abs", [-1.0, 0.0, -0.0, 2.0], [-1.0, 0.0, 0.0, 1.0]),
    ("sign", [-1.0, 0.0, 2.0], [0.0, 0.0, 0.0]),
    ("floor", [1.0, 1.5], [0.0, 0.0]),
    ("ceil", [1.0, 1.5], [0.0, 0.0]),
    ("round", [0.5, 1.2], [0.0, 0.0]),
    ("trunc", [0.5, 1.0], [0.0, 0.0]),
    ("sqrt", [0.0, 4.0, -1.0], [inf, 0.25, nan]),
    ("log", [0.0, -1.0], [inf, -1.0]),
    ("log2", [0.0], [inf]),
    ("log10", [0.0], [inf]),
    ("log1p", [-1.0, -2.0], [inf, -1.0]),
    ("reciprocal", [0.0, -0.0], [-inf, -inf]),
    ("asin", [1.0, -1.0, 2.0], [inf, inf, nan]),
    ("acos", [1.0, -1.0], [-inf, -inf]),
    ("acosh", [1.0, 0.5], [inf, nan]),
    ("atanh", [1.0, -1.0, 2.0], [inf, inf, -1 / 3]),
    ("square", [0.0], [0.0]),
    ("exp", [-inf, inf], [0.0, inf]),
    ("tanh", [inf, -inf], [0.0, 0.0]),
]


@pytest.mark.parametrize(("name", "at", "expected"), UNARY, ids=[row[0] for row in UNARY])
def test_unary(name, at, expected, backend):
    check(getattr(ag, name), [at], [expected], backend)


BINARY = [
    ("divide", [1.0, 0.0, 2.0], [0.0, 0.0, -0.0], [inf, inf, -inf], [-inf, nan, -inf]),
    ("maximum", [1.0, 2.0, 3.0, inf, 0.0], [1.0, 3.0, 2.0, inf, -0.0], [0.5, 0, 1, 0.5, 0.5], [0.5, 1, 0, 0.5, 0.5]),
    ("maximum", [nan, 1.0, nan], [1.0, nan, nan], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
    ("minimum", [1.0, 2.0, 3.0, -inf], [1.0, 3.0, 2.0, -inf], [0.5, 1, 0, 0.5], [0.5, 0, 1, 0.5]),
    ("minimum", [nan, 1.0, nan], [1.0, nan, nan], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
    ("atan2", [0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]),
    ("logaddexp", [-inf, 0.0, inf, 1000.0, -inf], [-inf, 0, 0, 0, 1], [nan, 0.5, 1, 1, 0], [nan, 0.5, 0, 0, 1]),
    ("remainder", [5.0, -5.0, 5.0, -5.0], [3.0, 3.0, -3.0, -3.0], [1, 1, 1, 1], [-1, 2, 2, -1]),
    ("copysign", [0.0, -0.0, 2.0, -2.0, 2.0], [1.0, -1.0, -1.0, -1.0, 0.0], [0, 0, -1, 1, 1], [0, 0, 0, 0, 0]),
    ("nextafter", [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]),
    # PyTorch refuses to differentiate floor_divide, and gives NaN for hypot at the origin: here both are 0
    ("floor_divide", [5.0, 6.0], [3.0, 3.0], [0.0, 0.0], [0.0, 0.0]),
    ("hypot", [0.0, 3.0], [0.0, 4.0], [0.0, 0.6], [0.0, 0.8]),
]


@pytest.mark.parametrize(
    ("name", "x1", "x2", "by_x1", "by_x2"), BINARY, ids=[f"{i}-{r[0]}" for i, r in enumerate(BINARY)]
)
def test_binary(name, x1, x2, by_x1, by_x2, backend):
    check(getattr(ag, name), [x1, x2], [by_x1, by_x2], backend)


POW = [  # base, exponent, by base, by exponent
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 1.0, 0.0),
    (0.0, 2.0, 0.0, 0.0),
    (0.0, 0.5, inf, 0.0),
    (0.0, -1.0, -inf, -inf),
    (0.0, 3.0, 0.0, 0.0),
    (0.0, 1.5, 0.0, 0.0),
    (-1.0, 2.0, -2.0, nan),
    (-2.0, 3.0, 12.0, nan),
    (-1.0, 0.5, nan, nan),
    (2.0, 0.0, 0.0, 0.6931471805599453),
    (inf, 2.0, inf, inf),
]


@pytest.mark.parametrize(("x1", "x2", "by_x1", "by_x2"), POW)
def test_pow(x1, x2, by_x1, by_x2, backend):
    check(ag.pow, [[x1], [x2]], [[by_x1], [by_x2]], backend)
    check(lambda x: x**x2, [[x1]], [[by_x1]], backend)
    check(lambda y: x1**y, [[x2]], [[by_x2]], backend)
    check(ag.pow, [x1, x2], [by_x1, by_x2], backend)


def test_complex_pow_at_zero(backend):
    check(ag.pow, [[0j, 0j], [0j, 2 + 0j]], [[0j, 0j], [0j, 0j]], backend)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (ag.sqrt, [-inf, -0.03125]),
        (ag.abs, [0.0, 0.0]),
        (lambda x: x**2, [2.0, 2.0]),
        (lambda x: x**3, [0.0, 24.0]),
        (lambda x: x**1.5, [inf, 0.375]),
        (lambda x: x**1, [0.0, 0.0]),
        (lambda x: x**0, [0.0, 0.0]),
    ],
)
def test_second_derivative_at_zero(function, expected, backend):
    (leaf,), (first,) = gradients(function, [[0.0, 4.0]], backend, create_graph=True)
    (second,) = ag.autograd.grad(first, leaf, ag.ones_like(first), materialize_grads=True)
    same(second, expected)


EXTREMA = [
    (ag.max, [1.0, 3.0, 3.0, 2.0], {}, [0.0, 0.5, 0.5, 0.0]),
    (ag.min, [1.0, 1.0, 1.0, 2.0], {}, [1 / 3, 1 / 3, 1 / 3, 0.0]),
    (ag.max, [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], {"axis": 1}, [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]]),
    (ag.min, [[1.0, 3.0], [1.0, 2.0]], {"axis": 0, "keepdims": True}, [[0.5, 0], [0.5, 1]]),
    (ag.max, [1.0, nan, nan], {}, [0.0, 0.5, 0.5]),
    (ag.max, [0.0, -0.0, -inf], {}, [0.5, 0.5, 0.0]),
]


@pytest.mark.parametrize(("function", "at", "kwargs", "expected"), EXTREMA)
def test_extrema_share_evenly(function, at, kwargs, expected, backend):
    check(lambda x: function(x, **kwargs), [at], [expected], backend, pointwise=False)


CLIP = [  # x, min, max, by x, by min, by max
    (-2.0, -1.0, 1.0, 0, 1, 0),
    (-1.0, -1.0, 1.0, 0, 1, 0),
    (0.0, -1.0, 1.0, 1, 0, 0),
    (1.0, -1.0, 1.0, 0, 0, 1),
    (2.0, -1.0, 1.0, 0, 0, 1),
    (0.0, 0.0, 0.0, 0, 1, 0),  # PyTorch: to none of the three, if the bounds are tensors too
    (0.5, 0.5, 0.5, 0, 1, 0),
    (2.0, 0.0, 0.0, 0, 0, 1),
    (-2.0, 0.0, 0.0, 0, 1, 0),  # PyTorch: to none of the three
    (nan, 0.0, 1.0, 0, 0, 0),
]


def test_clip(backend):
    x, low, high, *expected = map(list, zip(*CLIP, strict=True))
    check(ag.clip, [x, low, high], expected, backend)
    for row in CLIP:
        check(lambda x: ag.clip(x, row[1], row[2]), [[row[0]]], [[row[3]]], backend)  # noqa: B023


def test_clip_with_bounds_that_cross():
    x, low, high = [0.0, 3.0, -3.0], [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]
    same(ag.clip(*map(ag.asarray, (x, low, high))), [-1.0, -1.0, -1.0])
    check(ag.clip, [x, low, high], [[0, 0, 0], [0, 0, 0], [1, 1, 1]], "numpy")


@pytest.mark.parametrize("place", [1, 2])
def test_clip_with_one_bound(place, backend):
    x, bound = [0.0, 1.0, -1.0, nan], [0.0, 0.0, 0.0, 0.0]
    by_x, by_bound = ([0, 1, 0, 0], [1, 0, 1, 0]) if place == 1 else ([0, 0, 1, 0], [1, 1, 0, 0])
    name = {1: "min", 2: "max"}[place]
    check(lambda x, b: ag.clip(x, **{name: b}), [x, bound], [by_x, by_bound], backend)
    check(lambda x, b: ag.clip(x, *([None] * (place - 1)), b), [x, bound], [by_x, by_bound], backend)
    check(lambda x: ag.clip(x, **{name: 0.0}), [x], [by_x], backend)


@pytest.mark.parametrize("scale", [1e-170, 1e-30, 1.0, 1e30, 1e170])
def test_atan2_where_squares_leave_the_range(scale, backend):
    check(ag.atan2, [[3.0 * scale], [4.0 * scale]], [[0.16 / scale], [-0.12 / scale]], backend)


def test_three_spellings_of_relu_at_zero(backend):
    check(lambda x: ag.maximum(x, 0.0), [[0.0]], [[0.5]], backend)
    check(lambda x: ag.clip(x, min=0.0), [[0.0]], [[0.0]], backend)
    check(lambda x: ag.nn.functional.relu(x), [[0.0]], [[0.0]], backend)


# from PyTorch 2.15: x.clamp(**bounds).sum().backward() at these places
CLAMP = [
    ({"min": 0.0}, [0, 0, 1, 1, 1]),
    ({"max": 1.0}, [1, 1, 1, 0, 0]),
    ({"min": 0.0, "max": 1.0}, [0, 0, 1, 0, 0]),
    ({"min": 0.5, "max": 0.5}, [0, 0, 0, 0, 0]),
]


@pytest.mark.parametrize(("bounds", "expected"), CLAMP)
def test_clamp_at_its_bounds_is_pytorchs(bounds, expected, backend):
    check(lambda x: x.clamp(**bounds), [[-1.0, 0.0, 0.5, 1.0, 2.0]], [expected], backend)


def test_products_with_zeros(backend):
    check(ag.prod, [[0.0, 2.0, 3.0]], [[6.0, 0.0, 0.0]], backend, pointwise=False)
    check(ag.prod, [[0.0, 0.0, 3.0]], [[0.0, 0.0, 0.0]], backend, pointwise=False)
    check(ag.cumulative_prod, [[2.0, 0.0, 3.0, 0.0, 5.0]], [[1.0, 8.0, 0.0, 0.0, 0.0]], backend, pointwise=False)
    (leaf,), (first,) = gradients(ag.prod, [[0.0, 0.0, 3.0]], backend, create_graph=True)
    same(ag.autograd.grad(first, leaf, ag.ones_like(first))[0], [3.0, 3.0, 0.0])
    (leaf,), (first,) = gradients(ag.cumulative_prod, [[2.0, 0.0, 3.0, 0.0]], backend, create_graph=True)
    same(first.detach(), [1.0, 8.0, 0.0, 0.0])
    same(ag.autograd.grad(first, leaf, ag.ones_like(first))[0], [4.0, 12.0, 2.0, 6.0])


def test_spread_of_little(backend):
    check(ag.std, [[2.0, 2.0, 2.0]], [[0.0, 0.0, 0.0]], backend, pointwise=False)
    check(ag.var, [[2.0]], [[0.0]], backend, pointwise=False)
    for function in (ag.var, ag.std):
        leaf = ag.asarray([2.0], device=backend, requires_grad=True)
        with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="Degrees of freedom"):
            result = function(leaf, correction=1)
        same(ag.autograd.grad(result, leaf)[0], [nan])


def test_the_unselected_branch_of_where_does_not_leak(backend):
    def root(x):
        return ag.where(x > 0, ag.sqrt(x), 0.0)

    def saturating(x):
        return ag.where(x < 1, ag.exp(x), x)

    _, (got,) = gradients(root, [[0.0, 4.0]], backend)
    same(got, [0.0, 0.25])
    _, (got,) = gradients(saturating, [[1000.0, 0.0]], backend)
    same(got, [1.0, 1.0])


def test_sort_goes_back_along_the_stable_permutation(backend):
    weights = ag.asarray([1.0, 2.0, 3.0, 4.0], device=backend)
    _, (got,) = gradients(lambda x: ag.sort(x) * weights, [[2.0, 1.0, 2.0, 1.0]], backend)
    same(got, [3.0, 1.0, 4.0, 2.0])
    _, (got,) = gradients(lambda x: ag.sort(x, descending=True) * weights, [[2.0, 1.0, 2.0, 1.0]], backend)
    same(got, [1.0, 3.0, 2.0, 4.0])


def test_complex(backend):
    z = [1 + 2j, -3 + 4j, 0j]
    _, (got,) = gradients(lambda z: ag.abs(z) ** 2, [z], backend)
    same(got, [2 + 4j, -6 + 8j, 0j])
    _, (got,) = gradients(ag.abs, [z], backend)
    same(got, [(1 + 2j) / 5**0.5, (-3 + 4j) / 5, 0j])
    _, (got,) = gradients(ag.real, [z], backend)
    same(got, [1 + 0j, 1 + 0j, 1 + 0j])
    _, (got,) = gradients(ag.imag, [z], backend)
    same(got, [1j, 1j, 1j])
    _, (got,) = gradients(ag.conj, [z], backend)
    same(got, [1 + 0j, 1 + 0j, 1 + 0j])
    _, (got,) = gradients(ag.square, [z], backend)  # holomorphic: the conjugate of the derivative
    same(got, [2 - 4j, -6 - 8j, 0j])
    _, (got,) = gradients(ag.sign, [[0j, 3 + 4j]], backend)
    same(got, [0j, 0.128 - 0.096j])


def test_a_real_operand_of_a_complex_result_gets_a_real_gradient(backend):
    x = ag.asarray([1.0, 2.0], device=backend, requires_grad=True)
    y = x * ag.asarray([3 + 4j, 1j], device=backend)
    (got,) = ag.autograd.grad(y, x, ag.asarray([1 + 1j, 2j], device=backend))
    assert got.dtype == x.dtype
    same(got, [7.0, 2.0])


def test_what_is_infinite_behind_a_lost_operand_stays_there(backend):
    """Choosing is no multiplication by 0."""
    x = [-1.0, 4.0]
    for choose in (
        lambda x: ag.maximum(x, 0.0),
        lambda x: ag.maximum(0.0, x),
        lambda x: ag.clip(x, min=0.0),
        lambda x: ag.clip(x, 0.0, 9.0),
        lambda x: -ag.minimum(-x, 0.0),
        lambda x: ag.where(x > 0, x, 0.0),
    ):
        check(lambda x: ag.sqrt(choose(x)), [x], [[0.0, 0.25]], backend, pointwise=False)  # noqa: B023


def test_complex_to_real_drops_the_imaginary_part():
    z = ag.asarray([1 + 2j, 3j], requires_grad=True)
    with pytest.warns(np.exceptions.ComplexWarning):
        x = ag.astype(z, "float64")
    assert x.tolist() == [1.0, 0.0]
    x.backward(ag.asarray([5.0, 7.0]))
    assert z.grad.tolist() == [5 + 0j, 7 + 0j]


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max"])
def test_what_has_no_axes_is_reduced_along_one_where_the_library_does(name, axis):
    x = ag.asarray([3.0], requires_grad=True)
    y = getattr(ag, name)(ag.sum(x * x), axis=axis)  # NumPy's scalars know axes that its 0-d arrays refuse
    assert y.item() == 9.0
    y.backward()
    assert x.grad.item() == 6.0


# -- methods with PyTorch's numbers, where functions have NumPy's ---------------------------------------------------------


def test_the_median_of_an_even_count_is_the_lower_one(backend):
    x = ag.asarray([[4.0, 1.0, 3.0, 2.0], [8.0, 6.0, 7.0, 5.0]], device=backend)
    same(x.median(), 4.0)
    same(x.median(1).values, [2.0, 6.0])
    same(x.median(0, keepdim=True).values, [[4.0, 1.0, 3.0, 2.0]])
    same(ag.median(x), 4.5)
    same(ag.asarray([1.0, nan, 3.0], device=backend).median(), nan)
    check(lambda x: x.median(), [[4.0, 1.0, 3.0, 2.0]], [[0.0, 0.0, 0.0, 1.0]], backend, pointwise=False)


@pytest.mark.parametrize("mask", [[1.0, 0.0, 1.0], [1, 0, 1]])
def test_masked_fill_takes_masks_alone(mask, backend):
    x, mask = ag.asarray([1.0, 2.0, 3.0], device=backend), ag.asarray(mask, device=backend)
    for fill in (x.masked_fill, x.masked_fill_):
        with pytest.raises(TypeError, match="masked_fill_ only supports boolean masks, but got mask with dtype"):
            fill(mask, 9.0)
    same(x, [1.0, 2.0, 3.0])
    same(x.masked_fill_(mask.bool(), 9.0), [9.0, 2.0, 9.0])
