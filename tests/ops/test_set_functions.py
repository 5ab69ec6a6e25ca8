"""Set functions and `diff`: values by hand and by NumPy, and where gradients go."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag

RNG = np.random.default_rng(3)
REPEATED = [[2.0, -1.0, 2.0], [0.0, -1.0, 2.0]]


@pytest.fixture(params=["numpy", "strict", "dask"])
def backend(request):
    return request.getfixturevalue(f"{request.param}_backend")


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float32", "float64", "complex64", "bool"])
def test_unique_all(dtype, make, value):
    array = np.array([[2, 1, 2], [0, 1, 2]]).astype(dtype)
    found = ag.unique_all(make(array))
    expected = np.unique_all(array)
    for name in ("values", "indices", "inverse_indices", "counts"):
        np.testing.assert_array_equal(value(getattr(found, name)), getattr(expected, name))
    assert value(found.values).dtype == array.dtype
    assert all(ag.isdtype(part.dtype, ag.int64) for part in found[1:])
    assert type(found).__name__ == "UniqueAllResult"


def test_the_others_are_parts_of_unique_all(make, value):
    x = make(REPEATED)
    found = ag.unique_all(x)
    values, counts = ag.unique_counts(x)
    same, inverse = ag.unique_inverse(x)
    for part in (values, same, ag.unique_values(x)):
        np.testing.assert_array_equal(value(part), value(found.values))
    np.testing.assert_array_equal(value(counts), value(found.counts))
    np.testing.assert_array_equal(value(inverse), value(found.inverse_indices))
    assert ag.unique_counts(x)._fields == ("values", "counts")
    assert ag.unique_inverse(x)._fields == ("values", "inverse_indices")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ag.unique_all(x).values,
        lambda x: ag.unique_counts(x).values,
        lambda x: ag.unique_inverse(x).values,
        ag.unique_values,
    ],
)
def test_the_gradient_goes_to_first_occurrences(function, make, close):
    x = make(REPEATED, requires_grad=True)
    values = function(x)  # -1, 0 and 2
    ag.exp(values).sum().backward()
    close(x.grad, np.array([[np.exp(2.0), np.exp(-1.0), 0.0], [1.0, 0.0, 0.0]]))


def test_the_second_derivative_of_unique_values(make, close):
    x = make([2.0, 1.0, 2.0], requires_grad=True)
    (first,) = ag.grad((ag.unique_values(x) ** 3).sum(), x, create_graph=True)
    close(first, np.array([12.0, 3.0, 0.0]))
    first.sum().backward()
    close(x.grad, np.array([12.0, 6.0, 0.0]))


def test_integers_of_unique_all_have_no_gradient(make):
    found = ag.unique_all(make(REPEATED, requires_grad=True))
    assert found.values.requires_grad
    assert not any(part.requires_grad for part in found[1:])


def test_unique_of_a_number_and_of_nothing(make):
    x = make(3.0, requires_grad=True)
    found = ag.unique_all(x)
    assert (found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist()) == ([3.0], [0], 0)
    (found.values * 5.0).sum().backward()
    assert x.grad.tolist() == 5.0
    assert ag.unique_values(make([])).tolist() == []


def test_nans_are_distinct(make, value, backend):
    if backend == "dask":
        pytest.skip("dask.array.unique cannot count them, and raises")
    found = ag.unique_all(make([np.nan, 1.0, np.nan]))
    np.testing.assert_array_equal(value(found.values), [1.0, np.nan, np.nan])
    np.testing.assert_array_equal(value(found.counts), [1, 1, 1])


def test_isin(make, value):
    x = make([[1, 2, 3], [4, 5, 1]])
    np.testing.assert_array_equal(value(ag.isin(x, make([1, 5]))), [[True, False, False], [False, True, True]])
    np.testing.assert_array_equal(
        value(ag.isin(x, make([1, 5]), invert=True)), [[False, True, True], [True, False, False]]
    )
    np.testing.assert_array_equal(value(ag.isin(x, 4)), [[False, False, False], [True, False, False]])
    assert value(ag.isin(4, x)).tolist() is True


def test_isin_of_floating_numbers(numpy_backend):  # array-api-strict takes integers only
    found = ag.isin(ag.tensor([0.0, np.nan], requires_grad=True), ag.tensor([-0.0, np.nan]))
    assert found.tolist() == [True, False]
    assert not found.requires_grad


# -- diff -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis", "n", "before", "after"),
    [
        ((5,), -1, 1, None, None),
        ((2, 4), 0, 1, None, None),
        ((3, 4), 1, 2, None, None),
        ((3, 4), 0, 1, (1, 4), None),
        ((3, 4), -1, 2, None, (3, 2)),
        ((3, 4), -1, 3, (3, 1), (3, 2)),
        ((2, 3), 1, 0, None, None),
        ((2, 3), 1, 7, None, None),
        ((2, 1, 3), 1, 1, None, (2, 1, 3)),
    ],
)
def test_diff(shape, axis, n, before, after, make, close):
    arrays = [None if s is None else RNG.normal(size=s) for s in (shape, before, after)]
    tensors = [None if a is None else make(a, requires_grad=True) for a in arrays]
    prepend, append = (
        {} if a is None else {name: a} for name, a in zip(("prepend", "append"), arrays[1:], strict=True)
    )
    found = ag.diff(tensors[0], axis=axis, n=n, prepend=tensors[1], append=tensors[2])
    expected = np.diff(arrays[0], axis=axis, n=n, **prepend, **append)
    close(found, expected, rtol=1e-12, atol=1e-14)
    g = RNG.normal(size=expected.shape)
    leaves = [t for t in tensors if t is not None]
    for i, (got, array) in enumerate(
        zip(ag.grad(found, leaves, make(g)), (a for a in arrays if a is not None), strict=True)
    ):
        wanted = np.zeros(array.shape)  # linear: <g, diff(e)> for every unit vector e
        for place in np.ndindex(array.shape):
            units = [None if a is None else np.zeros(a.shape) for a in arrays]
            [u for u in units if u is not None][i][place] = 1.0
            options = {k: u for k, u in zip(("prepend", "append"), units[1:], strict=True) if u is not None}
            wanted[place] = np.sum(g * np.diff(units[0], axis=axis, n=n, **options))
        close(got, wanted, rtol=1e-12, atol=1e-14)


def test_diff_refuses(make):
    with pytest.raises(ValueError, match="n of 0 or more"):
        ag.diff(make([1.0, 2.0]), n=-1)
    with pytest.raises(ValueError, match="at least one axis"):
        ag.diff(make(1.0))


def test_diff_of_integers(make, value):
    found = value(ag.diff(make([5, 3, 9], dtype="int32"), prepend=make([1], dtype="int32")))
    np.testing.assert_array_equal(found, np.array([4, -2, 6], dtype=np.int32), strict=True)
