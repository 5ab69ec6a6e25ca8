"""Keys of every kind, drawn by hypothesis: ``x[key]`` and ``x[key] = value`` against NumPy and plain scatters by NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agrad as ag


def drawn(examples):
    """Settings of a test that draws keys; the fixture of a backend is the same for all of them."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


# -- what is drawn ----------------------------------------------------------------------------------------------------


@st.composite
def basic(draw, shape, *, new_axes=True, every_axis=False):
    """A key of integers, slices of either direction, an ellipsis and new axes."""
    parts = []
    named = len(shape) if every_axis else draw(st.integers(0, len(shape)))
    hidden = draw(st.integers(0, named))  # where the ellipsis stands, with the axes that the key does not name
    for axis in (*range(hidden), *range(len(shape) - named + hidden, len(shape))):
        n = shape[axis]
        parts.append(draw(st.integers(-n, n - 1)) if n and draw(st.booleans()) else draw(st.slices(n)))
    if named < len(shape) or draw(st.booleans()):
        parts.insert(hidden, Ellipsis)
    if new_axes:
        for _ in range(draw(st.integers(0, 2))):
            parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts)


@st.composite
def arrays_of(draw, shape, *, mixed=True):
    """A key with integer arrays of shapes that broadcast; `mixed`, with slices, new axes and an ellipsis among them."""
    lengths = tuple(draw(st.lists(st.integers(0 if mixed else 1, 3), min_size=1, max_size=2)))
    parts, some = [], False
    for i, n in enumerate(shape):
        kinds = ["array", "integer", *(["slice"] if mixed else [])]
        kind = "array" if i + 1 == len(shape) and not some else draw(st.sampled_from(kinds))
        if kind == "array":
            some = True
            own = lengths if draw(st.booleans()) else tuple(draw(st.sampled_from([1, k])) if k else 0 for k in lengths)
            places = draw(st.lists(st.integers(-n, n - 1), min_size=int(np.prod(own)), max_size=int(np.prod(own))))
            parts.append(np.array(places, dtype=np.int64).reshape(own))
        else:
            parts.append(draw(st.integers(-n, n - 1)) if kind == "integer" else draw(st.slices(n)))
    if mixed and draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), draw(st.sampled_from([None, Ellipsis])))
    return tuple(parts)


@st.composite
def masks_of(draw, shape, *, mixed=True):
    """A key with a mask: of all axes, or of some of them with integers and slices for the others."""
    first = draw(st.integers(0, len(shape) - 1)) if mixed else 0
    last = draw(st.integers(first + 1, len(shape))) if mixed else len(shape)
    size = int(np.prod(shape[first:last]))
    mask = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool)
    mask = mask.reshape(shape[first:last])
    if not mixed:
        return mask
    before = draw(basic(shape[:first], new_axes=False, every_axis=True)) if first else ()
    return (*(p for p in before if p is not Ellipsis), mask)


def any_key(shape):
    """A key of any kind for a shape."""
    kinds = [basic(shape)]
    if shape and 0 not in shape:
        kinds += [arrays_of(shape), masks_of(shape), arrays_of(shape, mixed=False), masks_of(shape, mixed=False)]
    return st.one_of(kinds)


def standard_key(shape):
    """A key that the standard has: no arrays beside slices, masks alone."""
    kinds = [basic(shape)]
    if shape and 0 not in shape:
        kinds += [arrays_of(shape, mixed=False), masks_of(shape, mixed=False)]
    return st.one_of(kinds)


SHAPES = st.lists(st.integers(0, 4), min_size=0, max_size=3).map(tuple)


def keyed(keys, shapes=SHAPES):
    """A shape and a key for it."""
    return shapes.flatmap(lambda shape: st.tuples(st.just(shape), keys(shape)))


@st.composite
def with_value(draw, keys, shapes=SHAPES):
    """A shape, a key and the shape of a value that broadcasts to the place."""
    shape, key = draw(keyed(keys, shapes))
    place = np.empty(shape)[key].shape
    narrow = draw(st.lists(st.booleans(), min_size=len(place), max_size=len(place)))
    value = tuple(1 if one else n for n, one in zip(place, narrow, strict=True))
    return shape, key, value[draw(st.integers(0, len(value))) :]


# -- what is checked --------------------------------------------------------------------------------------------------


def numbers(shape, start=0.0):
    return np.sin(start + np.arange(1.0, 1.0 + int(np.prod(shape)))).reshape(shape)


def on(backend, key):
    """A key with its arrays on a backend; every other one stays raw."""
    if isinstance(key, tuple):
        return tuple(on(backend, part) for part in key)
    return ag.asarray(key, device=backend) if isinstance(key, np.ndarray) else key


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor.detach()._raw))


def check_read(case, backend):
    shape, key = case
    x = numbers(shape)
    expected = np.asarray(x[key])
    leaf = ag.asarray(x, device=backend, requires_grad=True)
    found = leaf[on(backend, key)]
    np.testing.assert_array_equal(host(found), expected, strict=True)
    g = numbers(expected.shape, 7.0)
    scattered = np.zeros(shape)
    np.add.at(scattered, key, g)
    (got,) = ag.grad(found, leaf, ag.asarray(g, device=backend))
    np.testing.assert_allclose(host(got), scattered, rtol=1e-14, atol=1e-14, strict=True)


def narrowed(g, shape):
    """The sum of `g` over the axes along which `shape` was broadcast to its shape."""
    total = np.zeros((1, *shape))
    places = np.indices(g.shape)[g.ndim - len(shape) :]
    np.add.at(total, (np.zeros(g.shape, dtype=int), *(p % max(n, 1) for p, n in zip(places, shape, strict=True))), g)
    return total[0]


def check_write(case, backend):
    shape, key, value_shape = case
    x, value, g = numbers(shape), numbers(value_shape, 3.0), numbers(shape, 7.0)
    expected = x.copy()
    expected[key] = value
    leaf = ag.asarray(x, device=backend, requires_grad=True)
    given_value = ag.asarray(value, device=backend, requires_grad=True)
    target = leaf * 1.0
    target[on(backend, key)] = given_value
    np.testing.assert_array_equal(host(target), expected, strict=True)
    np.testing.assert_array_equal(host(leaf), x, strict=True)
    rest = g.copy()
    rest[key] = 0.0
    # of places written several times the last writer counts
    place = x[key].shape
    writers = np.full(shape, -1)
    writers[key] = np.arange(int(np.prod(place))).reshape(place)
    counts = writers[key] == np.arange(int(np.prod(place))).reshape(place)
    by_value = narrowed(np.where(counts, g[key], 0.0), value_shape)
    got = ag.grad(target, (leaf, given_value), ag.asarray(g, device=backend))
    np.testing.assert_allclose(host(got[0]), rest, rtol=1e-14, atol=1e-14, strict=True)
    np.testing.assert_allclose(host(got[1]), by_value, rtol=1e-14, atol=1e-14, strict=True)


@drawn(200)
@given(case=keyed(any_key))
def test_reading_on_numpy(case, numpy_backend):
    check_read(case, numpy_backend)


@drawn(200)
@given(case=with_value(any_key))
def test_writing_on_numpy(case, numpy_backend):
    check_write(case, numpy_backend)


@drawn(100)
@given(case=keyed(standard_key))
def test_reading_on_strict(case, strict_backend):
    check_read(case, strict_backend)


@drawn(60)
@given(case=with_value(lambda shape: basic(shape, new_axes=False)))
def test_writing_on_strict(case, strict_backend):
    check_write(case, strict_backend)


@drawn(25)
@given(case=keyed(any_key))
def test_reading_on_dask(case, dask_backend):
    check_read(case, dask_backend)


@drawn(25)
@given(case=with_value(any_key))
def test_writing_on_dask(case, dask_backend):
    check_write(case, dask_backend)
