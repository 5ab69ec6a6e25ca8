"""Python numbers, raw arrays and operands of unlike dtypes: what the result is, and what each gradient is."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent

BINARY = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "pow": operator.pow,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
}


def name(dtype):
    return str(dtype).rpartition(".")[2]


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        ("float32", 2, "float32"),
        ("float32", 2.0, "float32"),
        ("float32", True, "float32"),
        ("float32", 2j, "complex64"),
        ("float64", 2, "float64"),
        ("float64", 2j, "complex128"),
        ("complex64", 2, "complex64"),
        ("complex64", 2.0, "complex64"),
        ("complex64", 2j, "complex64"),
        ("complex128", 2.0, "complex128"),
    ],
)
@pytest.mark.parametrize("op", list(BINARY))
def test_a_python_number_does_not_widen(op, dtype, number, expected, backend):
    if op in ("floor_divide", "remainder") and (isinstance(number, complex) or "complex" in dtype):
        pytest.skip("not defined for complex numbers")
    x = ag.asarray([1.5, 2.5], dtype=dtype, device=backend, requires_grad=True)
    function = getattr(ag, op)
    reference = np.array([1.5, 2.5], dtype=dtype)
    number_as_array = np.array(number, dtype=expected)
    for result, wanted in (
        (BINARY[op](x, number), BINARY[op](reference.astype(expected), number_as_array)),
        (BINARY[op](number, x), BINARY[op](number_as_array, reference.astype(expected))),
        (function(x, number), BINARY[op](reference.astype(expected), number_as_array)),
        (function(number, x), BINARY[op](number_as_array, reference.astype(expected))),
    ):
        assert name(result.dtype) == expected
        np.testing.assert_allclose(host(result), wanted, rtol=1e-6)
        (g,) = ag.autograd.grad(result, x, ag.ones_like(result.detach()))
        assert g.dtype == x.dtype
        assert g.shape == x.shape


def test_integer_tensors_and_numbers(backend):
    i = ag.asarray([1, 2], device=backend)
    assert name((i * 2).dtype) == "int64"
    assert name((2 - i).dtype) == "int64"
    assert not (i * 2).requires_grad
    # the standard leaves integers with floats undefined; with a Python float NumPy gives the default dtype
    j = ag.asarray([1, 2])
    assert name((j * 2.5).dtype) == "float64"
    x = ag.asarray([0.5, 1.5], requires_grad=True)
    (g,) = ag.autograd.grad(j * x, x, ag.ones_like(x.detach()))
    assert g.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("first", "second"), [("float32", "float64"), ("float64", "float32")])
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "pow"])
def test_each_gradient_has_the_dtype_of_its_operand(op, first, second, backend):
    x = ag.asarray([1.5, 2.5], dtype=first, device=backend, requires_grad=True)
    y = ag.asarray([0.5, 1.25], dtype=second, device=backend, requires_grad=True)
    result = BINARY[op](x, y)
    assert name(result.dtype) == "float64"
    result.sum().backward()
    assert x.grad.dtype == x.dtype
    assert y.grad.dtype == y.dtype


def test_one_leaf_used_in_two_precisions(backend):
    x = ag.asarray([1.5, 2.5], dtype="float32", device=backend, requires_grad=True)
    y = ag.asarray([3.0, 4.0], dtype="float64", device=backend)
    ((x * x).sum() + (x * y).sum()).backward()
    assert x.grad.dtype == x.dtype
    assert x.grad.tolist() == [6.0, 9.0]


@pytest.mark.parametrize("op", [*BINARY, "matmul", "atan2", "maximum", "hypot"])
def test_raw_arrays_mix_with_tensors(op, backend):
    values, others = [1.5, 2.5], [0.5, 1.25]
    x, y = (ag.asarray(v, device=backend, requires_grad=True) for v in (values, others))
    function = getattr(ag, op)
    wanted = ag.autograd.grad(function(x, y).sum(), (x, y))
    for first, second, leaf, expected in (
        (x, y.detach()._raw, x, wanted[0]),
        (x.detach()._raw, y, y, wanted[1]),
    ):
        (got,) = ag.autograd.grad(function(first, second).sum(), leaf)
        assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("op", list(BINARY))
def test_a_numpy_array_before_the_operator(op):
    array = np.array([1.5, 2.5])
    x = ag.asarray([0.5, 1.25], requires_grad=True)
    result = BINARY[op](array, x)
    assert isinstance(result, ag.Tensor)
    np.testing.assert_allclose(host(result), BINARY[op](array, np.array([0.5, 1.25])))
    assert result.requires_grad


# function of a number and of integers, its derivative by the number: worked out in double precision
BESIDE_INTEGERS = {
    "divide": (lambda x, n: x / n, lambda x, n: 1 / n),
    "divided": (lambda x, n: n / x, lambda x, n: -n / x**2),
    "pow": (lambda x, n: x**n, lambda x, n: np.where(n == 0, 0.0, n * x ** (n - 1))),
    "remainder": (lambda x, n: n % x, lambda x, n: -np.floor(n / x)),
    "hypot": (ag.hypot, lambda x, n: x / np.hypot(x, n)),
    "atan2": (ag.atan2, lambda x, n: n / (x**2 + n**2)),
    "atan2 by x": (lambda x, n: ag.atan2(n, x), lambda x, n: -n / (x**2 + n**2)),
    "xlogy": (ag.special.xlogy, lambda x, n: np.log(n)),
    "xlog1py": (ag.special.xlog1py, lambda x, n: np.log1p(n)),
    "rel_entr": (lambda x, n: ag.special.rel_entr(n, x), lambda x, n: -n / x),
    "boxcox": (lambda x, n: ag.special.boxcox(x, n), lambda x, n: x ** (n - 1)),
    "inv_boxcox": (lambda x, n: ag.special.inv_boxcox(x, n), lambda x, n: (1 + n * x) ** (1 / n - 1)),
}


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "bool"])
@pytest.mark.parametrize("case", BESIDE_INTEGERS)
def test_derivatives_beside_integers(case, dtype):
    """Nothing wraps around, and nothing is rounded to the half precision that NumPy gives small integers."""
    function, derivative = BESIDE_INTEGERS[case]
    whole = {"uint8": [1, 2, 17, 130, 255], "int8": [1, 2, 17, 100, 127], "int32": [1, 2, 17, 46341, 10**5]}
    n = np.array(whole.get(dtype, [True] * 5), dtype=dtype)
    if case in ("pow", "boxcox"):
        n = np.minimum(n, np.array(5).astype(dtype))
        n[0] = 0
    if dtype == "bool" and case == "remainder":
        pytest.skip("NumPy has no remainder of truth values by numbers")
    x = np.array([0.5, 0.25, 1.5, 2.0, 0.75])
    expected = derivative(x, n.astype(np.float64))
    leaf = ag.asarray(x, requires_grad=True)
    for create_graph in (False, True):
        (got,) = ag.autograd.grad(function(leaf, ag.asarray(n)).sum(), leaf, create_graph=create_graph)
        np.testing.assert_allclose(host(got), expected, rtol=1e-12)
    with level() as at:
        dual = with_tangent(ag.asarray(x), ag.ones(x.shape), at)
        np.testing.assert_allclose(host(tangent_of(function(dual, ag.asarray(n)), at)), expected, rtol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "dask"])
def test_floating_bounds_of_integers_are_not_rounded(backend):
    x = ag.asarray([-2, 1, 3], device=backend)
    assert ag.clip(x, 0.5, 2.5).tolist() == [0.5, 1.0, 2.5]
    low = ag.asarray(0.5, device=backend, requires_grad=True)
    result = ag.clip(x, low)
    assert result.tolist() == [0.5, 1.0, 3.0]
    (gradient,) = ag.autograd.grad(result.sum(), low)
    assert gradient.item() == 1.0


# -- numbers that are equal but not the same --------------------------------------------------------------------------


def test_signed_zeros_are_kept_apart(backend):
    x = ag.asarray([1.0], device=backend)
    for _ in range(3):
        with np.errstate(divide="ignore"):
            assert (x / 0.0).tolist() == [math.inf]
            assert (x / -0.0).tolist() == [-math.inf]
        assert math.copysign(1.0, (x * -0.0).item()) == -1.0
        assert math.copysign(1.0, (x * 0.0).item()) == 1.0


def test_equal_numbers_of_unlike_type_are_kept_apart(backend):
    x = ag.asarray([3.0], dtype="float32", device=backend)
    i = ag.asarray([3], device=backend)
    for _ in range(3):
        for number in (1, 1.0, True):
            assert name((x * number).dtype) == "float32"
        assert name((x * (1 + 0j)).dtype) == "complex64"
        assert name((i * 1).dtype) == "int64"


def test_nan_as_a_number(backend):
    x = ag.asarray([1.0, 2.0], device=backend, requires_grad=True)
    for _ in range(3):
        y = x * math.nan
        assert all(math.isnan(v) for v in y.tolist())
    y.sum().backward()
    assert all(math.isnan(v) for v in x.grad.tolist())


def test_many_numbers(backend):
    x = ag.asarray([2.0], device=backend, requires_grad=True)
    for i in range(600):
        number = i / 7
        assert (x * number).tolist() == [2.0 * number]
        assert (x + i).tolist() == [2.0 + i]


def test_a_large_integer_keeps_its_value(backend):
    x = ag.asarray([0.0], device=backend, requires_grad=True)
    assert (x + 2**60).item() == float(2**60)
    i = ag.asarray([0], device=backend)
    assert (i + (2**60 + 1)).item() == 2**60 + 1


def test_a_number_is_no_operand_of_a_matrix_product(backend):
    x = ag.asarray([1.0, 2.0], device=backend, requires_grad=True)
    with pytest.raises((TypeError, ValueError)):
        x @ 2.0


@pytest.mark.parametrize("other", [None, "a", ["a", "b"], {}, object()])
def test_what_is_no_operand(other, backend):
    x = ag.asarray([1.0, 2.0], device=backend, requires_grad=True)
    with pytest.raises(TypeError):
        x + other
    with pytest.raises(TypeError):
        other - x
    with pytest.raises(TypeError):
        ag.multiply(x, other)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_division_by_an_integer_tensor(dtype):
    """The partial by the dividend is 1 / divisor, which in integers would be 0."""
    x = ag.tensor([3.0, 5.0], requires_grad=True)
    (x / ag.tensor([2, 4], dtype=dtype)).sum().backward()
    assert x.grad.tolist() == [0.5, 0.25]
