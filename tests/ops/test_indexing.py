"""``x[key]`` and ``x[key] = value``: values, gradients and tangents, for every kind of key.

The reference numbers the elements, indexes the numbers with NumPy and follows each number by itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent

RNG = np.random.default_rng(5)


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


def numbers(shape):
    return np.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape)


# -- the reference ----------------------------------------------------------------------------------------------------


def places_of(shape, key):
    return np.arange(int(np.prod(shape))).reshape(shape)[key]


def gathered_back(shape, key, g):
    """The gradient of x[key]: each element of g at the place its value came from."""
    total = np.zeros(int(np.prod(shape)))
    for place, part in zip(places_of(shape, key).ravel(), g.ravel(), strict=True):
        total[place] += part
    return total.reshape(shape)


def assigned(x, key, value, g):
    """The value of x after x[key] = value, and the gradients by x and by value."""
    places = places_of(x.shape, key)
    leading = tuple(n for n in value.shape[: max(0, value.ndim - places.ndim)])
    assert all(n == 1 for n in leading)
    sources = np.broadcast_to(np.arange(value.size).reshape(value.shape[len(leading) :]), places.shape)
    last = dict(zip(places.ravel().tolist(), sources.ravel().tolist(), strict=True))  # a later entry replaces
    made, by_x, by_value = x.ravel().copy(), g.ravel().copy(), np.zeros(value.size)
    for place, source in last.items():
        made[place] = value.ravel()[source]
        by_value[source] += by_x[place]
        by_x[place] = 0.0
    return made.reshape(x.shape), by_x.reshape(x.shape), by_value.reshape(value.shape)


# -- checks -----------------------------------------------------------------------------------------------------------


def check_getitem(x, key, backend, convert=lambda key, backend: key):
    expected = np.asarray(x[key])
    g, t = RNG.normal(size=expected.shape), RNG.normal(size=x.shape)
    leaf = ag.asarray(x, device=backend, requires_grad=True)
    result = leaf[convert(key, backend)]
    np.testing.assert_array_equal(host(result), expected, strict=True)
    wanted = gathered_back(x.shape, key, g)
    for create_graph in (True, False):
        (got,) = ag.autograd.grad(
            result, leaf, ag.asarray(g, device=backend), retain_graph=True, create_graph=create_graph
        )
        np.testing.assert_allclose(host(got), wanted, rtol=1e-14, atol=1e-14, strict=True)
    with level() as at:
        dual = with_tangent(ag.asarray(x, device=backend), ag.asarray(t, device=backend), at)
        pushed = tangent_of(dual[convert(key, backend)], at)
    np.testing.assert_array_equal(host(pushed), np.asarray(t[key]), strict=True)


def check_setitem(x, key, value, backend, convert=lambda key, backend: key):
    g = RNG.normal(size=x.shape)
    made, by_x, by_value = assigned(x, key, value, g)
    leaf = ag.asarray(x, device=backend, requires_grad=True)
    given_value = ag.asarray(value, device=backend, requires_grad=True)
    target = leaf * 1.0
    target[convert(key, backend)] = given_value
    np.testing.assert_array_equal(host(target), made, strict=True)
    np.testing.assert_array_equal(host(leaf), x)
    cotangent = ag.asarray(g, device=backend)
    for create_graph in (True, False):
        got = ag.autograd.grad(target, (leaf, given_value), cotangent, retain_graph=True, create_graph=create_graph)
        np.testing.assert_allclose(host(got[0]), by_x, rtol=1e-14, atol=1e-14, strict=True)
        np.testing.assert_allclose(host(got[1]), by_value, rtol=1e-14, atol=1e-14, strict=True)
    tangents = RNG.normal(size=x.shape), RNG.normal(size=value.shape)
    with level() as at:
        dual, other = (
            with_tangent(ag.asarray(v, device=backend), ag.asarray(t, device=backend), at)
            for v, t in zip((x, value), tangents, strict=True)
        )
        dual[convert(key, backend)] = other
        pushed = tangent_of(dual, at)
    np.testing.assert_array_equal(host(pushed), assigned(tangents[0], key, tangents[1], g)[0], strict=True)


def as_tensors(key, backend):
    """The same key, its arrays as tensors."""
    if isinstance(key, tuple):
        return tuple(as_tensors(part, backend) for part in key)
    return ag.asarray(key, device=backend) if isinstance(key, np.ndarray) else key


def as_raw(key, backend):
    """The same key, its arrays as the backend's own."""
    if isinstance(key, tuple):
        return tuple(as_raw(part, backend) for part in key)
    return ag.asarray(key, device=backend)._raw if isinstance(key, np.ndarray) else key


BASIC = [
    ((3, 4), (1, 2)),
    ((3, 4), (-1, slice(None))),
    ((3, 4), (slice(None), -2)),
    ((3, 4), (slice(2, None, -1), slice(1, 3))),
    ((3, 4), (slice(None, None, 2), slice(None, None, -3))),
    ((3, 4), (Ellipsis, None, 0)),
    ((2, 3, 2), (0, Ellipsis, slice(None, None, -1))),
    ((2, 3), (None, slice(None), None, 1)),
    ((4,), slice(3, 3)),
    ((), ()),
    ((), (None, Ellipsis)),
    ((0, 2), (slice(None), 1)),
]
MASKS = [
    ((4,), np.array([True, False, True, True])),
    ((2, 3), np.array([[True, False, True], [False, False, True]])),
    ((2, 2), np.zeros((2, 2), dtype=bool)),
]
ARRAYS = [
    ((4, 3), (np.array([0, 3, 0]), np.array([1, 2, 1]))),
    ((4, 3), (np.array([[0, 3], [1, -1]]), np.array([1, -3]))),
    ((4, 3), (np.array([0, 3, 0]), 1)),
]
MIXED = [
    ((4,), slice(10, -10, -2)),
    ((4,), np.array([0, 3, 0, -1])),
    ((4, 3), np.array([[0, 3], [0, 0]])),
    ((4, 3), (slice(None), np.array([2, 0, 2]))),
    ((4, 3), (slice(None, None, -1), np.array([[2, 0], [2, 2]]))),
    ((4, 3), (np.array([True, False, True, True]), np.array([0, 2, 0]))),
    ((4, 3), (np.array([True, False, True, True]), slice(1, None))),
    ((4, 3), (np.array([1, 1]), None, slice(None, 2))),
    ((2, 3, 2), (np.array([0, 1, 0]), slice(None), np.array([1, 0, 1]))),
    ((2, 3, 2), (Ellipsis, np.array([1, 1]), 0)),
    ((2, 3, 2), (0, slice(None), np.array([1, 1]))),
    ((3,), np.array(2)),
    ((3,), np.zeros((0,), dtype=np.int64)),
]


@pytest.mark.parametrize("convert", [as_tensors, as_raw])
@pytest.mark.parametrize(("shape", "key"), BASIC + MASKS + ARRAYS)
def test_getitem(shape, key, convert, backend):
    check_getitem(numbers(shape), key, backend, convert)


@pytest.mark.parametrize("convert", [as_tensors, as_raw])
@pytest.mark.parametrize(("shape", "key"), MIXED)
def test_getitem_beyond_the_standard(shape, key, convert):
    check_getitem(numbers(shape), key, "numpy", convert)


def parts_of(key):
    return key if isinstance(key, tuple) else (key,)


@pytest.mark.parametrize(("shape", "key"), [(s, key) for s, key in BASIC if all(p is not None for p in parts_of(key))])
def test_setitem(shape, key, backend):
    place = numbers(shape)[key].shape
    check_setitem(numbers(shape), key, RNG.normal(size=place), backend)
    check_setitem(numbers(shape), key, RNG.normal(size=()), backend)
    if place:
        check_setitem(numbers(shape), key, RNG.normal(size=(1, *place[1:])), backend)
        check_setitem(numbers(shape), key, RNG.normal(size=place[1:]), backend)


@pytest.mark.parametrize("convert", [as_tensors, as_raw])
@pytest.mark.parametrize(("shape", "key"), BASIC + MASKS + ARRAYS + MIXED)
def test_setitem_beyond_the_standard(shape, key, convert):
    place = numbers(shape)[key].shape
    check_setitem(numbers(shape), key, RNG.normal(size=place), "numpy", convert)
    check_setitem(numbers(shape), key, RNG.normal(size=()), "numpy", convert)
    if place and not any(getattr(part, "dtype", None) == np.bool_ for part in parts_of(key)):
        check_setitem(numbers(shape), key, RNG.normal(size=(1, 1, *place)), "numpy", convert)


@pytest.mark.parametrize(("shape", "key"), MASKS)
def test_setitem_of_a_scalar_at_a_mask(shape, key, backend):
    check_setitem(numbers(shape), key, np.array(2.5), backend, as_tensors)


@st.composite
def keyed(draw):
    """A shape and a key for it, of any kind."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    length = draw(st.integers(1, 3))
    arrays = draw(st.booleans())
    parts = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["int", "slice", "array", "full"] if arrays else ["int", "slice", "full"]))
        if kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "array":
            parts.append(np.array(draw(st.lists(st.integers(-n, n - 1), min_size=length, max_size=length))))
        else:
            parts.append(draw(st.slices(n)) if kind == "slice" else slice(None))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), None)
    if draw(st.booleans()):
        parts.append(Ellipsis)
    return shape, tuple(parts)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(keyed())
def test_any_key(case):
    shape, key = case
    check_getitem(numbers(shape), key, "numpy", as_tensors)
    check_setitem(numbers(shape), key, RNG.normal(size=numbers(shape)[key].shape), "numpy", as_tensors)


# -- keys of other types ----------------------------------------------------------------------------------------------


def test_keys_of_other_types(backend):
    x = ag.asarray(numbers((3, 2)), device=backend, requires_grad=True)
    one = ag.asarray(1, device=backend)
    assert x[one, one].item() == 4.0
    assert x[one : ag.asarray(3), ...].tolist() == [[3.0, 4.0], [5.0, 6.0]]
    assert x[np.int64(1) :, ...].tolist() == [[3.0, 4.0], [5.0, 6.0]]
    assert x[x > 4.0].tolist() == [5.0, 6.0]


def test_lists_and_numpy_integers_as_keys():
    x = ag.asarray(numbers((3, 2)), requires_grad=True)
    assert x[np.int64(1)].tolist() == [3.0, 4.0]
    assert x[np.array([[True, False], [False, True], [True, True]])].tolist() == [1.0, 4.0, 5.0, 6.0]
    y = x[[2, 0, 2]]
    assert y.tolist() == [[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
    assert x[[True, False, True]].tolist() == [[1.0, 2.0], [5.0, 6.0]]
    assert x[:, [1, 1]].tolist() == [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]


def test_a_mask_is_as_wide_as_its_axis():
    x = ag.asarray(numbers((3,)), requires_grad=True)
    with pytest.raises(IndexError):
        x[ag.asarray([True, False])]


@pytest.mark.parametrize("key", [3, -4, (0, 1), 1.5, "a", (slice(None), slice(None))])
def test_a_key_that_does_not_fit(key, backend):
    x = ag.asarray(numbers((3,)), device=backend, requires_grad=True)
    with pytest.raises((IndexError, TypeError)):
        x[key]


# -- assignment -------------------------------------------------------------------------------------------------------


def test_assignment_of_a_python_number(backend):
    x = ag.asarray([1.0, 2.0, 3.0], device=backend, requires_grad=True)
    y = x * 2
    y[1] = 7
    assert y.tolist() == [2.0, 7.0, 6.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 2.0]


def test_assignment_into_a_tensor_without_history_records(backend):
    v = ag.asarray([5.0, 6.0], device=backend, requires_grad=True)
    buffer = ag.zeros((4,), device=backend)
    buffer[1:3] = v
    buffer[0] = buffer[1] * 3
    assert buffer.tolist() == [15.0, 5.0, 6.0, 0.0]
    (buffer * ag.asarray([1.0, 10.0, 100.0, 1000.0], device=backend)).sum().backward()
    assert v.grad.tolist() == [13.0, 100.0]


def test_assignment_leaves_what_others_hold(backend):
    array = np.array([1.0, 2.0])
    x = ag.asarray(array)
    alias = x
    y = x * 1
    y[0] = 9.0
    kept = y
    squared = y * y
    y[1] = 8.0
    assert kept is y
    assert squared.tolist() == [81.0, 4.0]
    alias[0] = 5.0
    assert x.tolist() == [5.0, 2.0]
    assert array.tolist() == [1.0, 2.0]


def test_saved_values_are_those_of_the_call():
    x = ag.asarray([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y * y
    y[0] = 100.0
    (z.sum() + y.sum()).backward()
    assert x.grad.tolist() == [2.0, 5.0]


def test_augmented_assignment_at_a_key():
    x = ag.asarray([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    mask = ag.asarray([True, False, True])
    y[mask] *= 10
    y[1:] += x[:2]
    assert y.tolist() == [10.0, 5.0, 92.0]
    y.sum().backward()
    assert x.grad.tolist() == [21.0, 5.0, 60.0]


def test_assignment_casts_within_kinds_only(backend):
    v = ag.asarray([1.5], device=backend, dtype="float32", requires_grad=True)
    x = ag.zeros((2,), device=backend)
    x[:1] = v
    x.sum().backward()
    assert v.grad.dtype == v.dtype
    assert v.grad.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="result type"):
        x[0] = ag.asarray(1j, device=backend)
    whole = ag.zeros((2,), device=backend, dtype="int64")
    with pytest.raises(RuntimeError, match="result type"):
        whole[0] = ag.asarray(1.5, device=backend)


def test_the_last_of_several_values_for_one_place_counts():
    x = ag.asarray([1.0, 2.0], requires_grad=True)
    v = ag.asarray([5.0, 6.0, 7.0], requires_grad=True)
    y = x * 1
    y[[0, 0, 1]] = v
    assert y.tolist() == [6.0, 7.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert v.grad.tolist() == [0.0, 1.0, 1.0]


# -- scatter_add ------------------------------------------------------------------------------------------------------


def test_scatter_add_keeps_places_apart(backend):
    """An infinite or NaN value, or one of another magnitude, touches its own place only."""
    spec = ag.zeros((5,), device=backend)._spec
    key = ag.asarray([1, 3, 1, 4, 4, 4], device=backend)
    values = ag.asarray([1e30, 1.0, -1e30, np.inf, 1.0, 2.0], device=backend)
    got = ag.scatter_add(spec, (key,), values)
    assert got.tolist() == [0.0, 0.0, 0.0, 1.0, np.inf]
    values = ag.asarray([np.nan, 1e-30, 1.0, 2.0, 3.0, 4.0], device=backend)
    got = ag.scatter_add(spec, (key,), values).tolist()
    assert np.isnan(got[1])
    assert got[0] == 0.0
    assert got[2:] == [0.0, 1e-30, 9.0]


def test_scatter_add_of_many(backend):
    count = 257
    places = RNG.integers(0, 7, size=count)
    values = RNG.normal(size=count)
    spec = ag.zeros((7,), device=backend)._spec
    got = ag.scatter_add(spec, (ag.asarray(places, device=backend),), ag.asarray(values, device=backend))
    np.testing.assert_allclose(host(got), np.bincount(places, weights=values, minlength=7), rtol=1e-13)
