"""Operators between a tensor and a list or tuple: NumPy's, where Python has no meaning of its own for them."""

from __future__ import annotations

import dataclasses
import operator

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp
from agrad.core.entry import make_operator
from agrad.core.op import OPS

X = np.array([3.0, 1.0, 2.0])
NAMES = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lt", "le", "gt", "ge", "eq", "ne"]
LISTS = [
    [3, 4, 2],
    (1, 2, 3),
    [1.5, 1, 2],
    [[1], [2], [1]],
    [(1, 2, 3), [4, 5, 6], (7, 8, 9)],
    [True, True, True],
    [2.0],
]


@pytest.mark.parametrize("reflected", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_values_and_dtypes_are_numpys(name, reflected):
    function = getattr(operator, name)
    for other in LISTS:
        if name == "matmul" and np.shape(other) not in ((3,), (3, 3)):
            continue
        expected = function(other, X) if reflected else function(X, other)
        t = ag.asarray(X)
        found = function(other, t) if reflected else function(t, other)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("dtype", ["bool", "int64", "complex128"])
def test_other_dtypes(dtype):
    x = X.astype(dtype)
    for other in ([1, 2, 3], [1j, 2, 3], [0.5, 1, 2], [True, False, True]):
        expected, found = x * other, ag.asarray(x) * other
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected)
    assert (ag.asarray(x) & [1, 2, 3] if dtype == "int64" else ag.asarray([3, 1, 2]) & [1, 2, 3]).tolist() == [1, 0, 2]


def test_numbers_in_lists_follow_the_tensor_as_one_number_does():
    x = ag.asarray(X, dtype="float32")
    assert (x * [1.0, 2, 3]).dtype == (x * 2.0).dtype == np.float32
    assert (x * [1j, 2, 3]).dtype == (x * 1j).dtype == np.complex64
    assert (ag.asarray([1, 2], dtype="uint8") * [3, 4]).dtype == np.uint8


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * [1.0, 2, 3],
        lambda x: [1, 2, 3] - x,
        lambda x: (1.0, 2.0, 3.0) @ x,
        lambda x: x * [x[1], 2.0, x[0] * x[2]],
        lambda x: [[x[0], 1], [2, x[1]]] @ x[:2],
        lambda x: x ** (2, 3, 1),
    ],
)
def test_gradients(f):
    weights = np.cos(np.arange(3.0))
    found = ag.grad(lambda x: ag.sum(f(x) * weights[: len(f(x))] if f(x).ndim else f(x)))(X)
    plain = lambda x: np.sum(np.asarray(f(x)) * weights[: len(f(x))]) if np.ndim(f(x)) else f(x)
    expected = [(plain(X + 1e-6 * e) - plain(X - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(ag.func.jvp(f, (X,), (np.ones(3),))[0], plain_value(f), rtol=1e-15)


def plain_value(f):
    return np.asarray(f(X))


def test_where_of_a_comparison_has_its_gradient():
    for places in ([3, 0, 2], (3, 0, 2)):
        assert ag.grad(lambda x, p=places: ag.sum(ag.where(x == p, x**2, 0.0)))(X).tolist() == [6.0, 0.0, 4.0]
        assert ag.grad(lambda x, p=places: ag.sum(ag.where(p != x, x**2, 0.0)))(X).tolist() == [0.0, 2.0, 0.0]


def test_in_batches_on_dask_and_in_programs():
    rows = ag.asarray(np.arange(6.0).reshape(2, 3))
    expected = (np.arange(6.0).reshape(2, 3) * [1, 2, 3]).tolist()
    assert ag.func.vmap(lambda row: row * [1, 2, 3])(rows).tolist() == expected
    lazy = rows.to_device("dask") * [1, 2, 3]
    assert lazy.device == "dask"
    assert lazy.tolist() == expected
    factors = [1.0, 2.0, 3.0]
    compiled = ag.compile(lambda x: x * factors)
    for _ in range(3):
        assert compiled(ag.asarray(X)).tolist() == [3.0, 2.0, 6.0]
    factors[0] = 2.0
    assert compiled(ag.asarray(X)).tolist() == [6.0, 2.0, 6.0]


def test_in_place():
    x = ag.asarray(X)
    x -= [1, 1, 1]
    x *= (2.0, 2.0, 2.0)
    assert x.tolist() == [4.0, 0.0, 2.0]


def test_shapes_that_do_not_broadcast_are_an_error():
    for f in (operator.mul, operator.eq):
        with pytest.raises(ValueError, match="broadcast"):
            f(ag.asarray(X), [1, 2])


def test_what_python_has_a_meaning_for_stays():
    rows = [0.0]
    rows += ag.asarray(X)
    assert type(rows) is list
    assert [float(x) for x in rows] == [0.0, 3.0, 1.0, 2.0]
    assert [0] * ag.asarray(3) == ag.asarray(3) * [0] == [0, 0, 0]


def test_a_list_is_extended_by_the_first_tensor_of_all():
    unused = make_operator(OPS["add"], "__radd__", reflected=True)  # which is compiled when it is first called
    fresh = type("Fresh", (ag.Tensor,), {"__radd__": unused})
    rows = [0.0]
    rows += fresh([1.0, 2.0])
    assert type(rows) is list
    members = [0.0, 1.0]
    assert (members + fresh([1.0, 2.0])).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("other", [None, "abc", ["a", "b", "c"], [None, 1, 2], [1, [2, 3], 4], {1: 2}, object()])
def test_what_holds_no_numbers_is_as_before(other):
    x = ag.asarray(X)
    assert (x == other) is False
    assert (x != other) is True
    for f in (operator.add, operator.sub, operator.lt):
        with pytest.raises(TypeError):
            f(x, other)


def test_identity_comes_first():
    x, y = ag.asarray(X), ag.asarray(X + 1)
    one = dataclasses.make_dataclass("One", ["held"])
    assert x in [x, y]
    assert [x, y].index(x) == 0
    assert {x: 1, y: 2}[x] == 1
    assert (x, 1) == (x, 1)
    assert one(x) == one(x)


@pytest.mark.parametrize("name", ["concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"])
def test_the_rows_of_an_array_are_joined_as_numpy_joins_them(name):
    x = np.arange(12.0).reshape(2, 3, 2)
    for given in (x, ag.asarray(x), tuple(x), [*map(ag.asarray, x)]):
        np.testing.assert_array_equal(getattr(anp, name)(given), getattr(np, name)(x))
