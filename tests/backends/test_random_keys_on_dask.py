"""Random keys on Dask arrays in chunks of all kinds give NumPy's elements and gradients, reading and writing."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import agrad as ag

da = pytest.importorskip("dask.array")

N = np.array


def drawn_chunks(draw, n):
    """Cut an axis, sometimes with chunks that have no elements, as a mask leaves behind."""
    parts = []
    while sum(parts) < n:
        parts.append(0 if draw.random() < 0.1 else draw.randint(1, n - sum(parts)))
    return tuple(parts) or (0,)


class Lazy:
    """An index array as a Dask array that is no mere copy of data in memory."""

    def __init__(self, array, chunks):
        self.array, self.chunks = array, chunks

    def __repr__(self):
        return f"Lazy({self.array!r}, {self.chunks})"


def drawn_array(draw, values, shape, dtype):
    array = np.asarray(values, dtype).reshape(shape)
    return array if draw.random() < 0.5 else Lazy(array, tuple(drawn_chunks(draw, n) for n in shape))


def drawn_slice(draw, n):
    start, stop = (None if draw.random() < 0.3 else draw.randint(-n - 4, n + 4) for _ in "ab")
    return slice(start, stop, draw.choice([None, 1, 2, 3, 5, 100, -1, -1, -2, -3, -5, -100]))


def drawn_key(draw, shape):
    """A key of integers, slices, None, Ellipsis, truth values, masks and integer arrays."""
    parts = []
    axis, rank = 0, len(shape)
    arrays = draw.random() < 0.5
    places = draw.choice([(1,), (2,), (3,), (2, 2), (0,), (3, 1)])
    while draw.random() < 0.92:
        kind = draw.random()
        n = shape[axis] if axis < rank else 0
        if kind < 0.1:
            parts.append(None)
        elif kind < 0.2:
            if Ellipsis not in [part for part in parts if part is Ellipsis]:
                parts.append(Ellipsis)
                axis += draw.randint(0, rank - axis)
        elif kind < 0.24:
            parts += [draw.random() < 0.5] if arrays else []
        elif axis == rank:
            break
        elif kind < 0.42 and n:
            parts.append(draw.choice([int, np.int64])(draw.randint(-n, n - 1)))
            axis += 1
        elif kind < 0.72 or not arrays:
            parts.append(drawn_slice(draw, n))
            axis += 1
        elif kind < 0.87:
            over = shape[axis : axis + draw.randint(1, rank - axis)]
            parts.append(drawn_array(draw, [draw.random() < 0.5 for _ in range(math.prod(over))], over, bool))
            axis += len(over)
        else:
            along = places if n else (0,)
            values = [draw.randint(-n, n - 1) for _ in range(math.prod(along))]
            parts.append(drawn_array(draw, values, along, draw.choice([np.int64, np.int8])))
            axis += 1
    return tuple(parts)


def plain(key):
    return tuple(part.array if isinstance(part, Lazy) else part for part in key)


def on_dask(key):
    return tuple(
        ag.asarray(da.from_array(part.array, chunks=part.chunks)) if isinstance(part, Lazy) else part for part in key
    )


def drawn(seed):
    """An array, its chunks, and a key that NumPy takes."""
    draw = random.Random(seed)
    while True:
        shape = tuple(draw.choice([1, 2, 3, 4, 5, 6]) if draw.random() > 0.06 else 0 for _ in range(draw.randint(0, 4)))
        key = drawn_key(draw, shape)
        array = np.arange(1.0, math.prod(shape) + 1).reshape(shape)
        try:
            array[plain(key)]
        except IndexError:  # index arrays that do not go together
            continue
        return draw, array, tuple(drawn_chunks(draw, n) for n in shape), key


def dask_of(array, chunks):
    return da.from_array(array, chunks=chunks) if array.ndim else da.from_array(array)


def check_reading(array, chunks, key, value):
    wanted = np.asarray(array[plain(key)])
    x = ag.asarray(dask_of(array, chunks), requires_grad=True)
    y = x[on_dask(key)]
    got = value(y)
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)
    (y * y).sum().backward()
    gradient = np.zeros_like(array)
    np.add.at(gradient, plain(key), 2 * wanted)
    np.testing.assert_array_equal(value(x.grad), gradient)


def check_writing(array, chunks, key, draw, value):
    places = np.asarray(array[plain(key)]).shape
    shape = tuple(1 if draw.random() < 0.15 else n for n in places)
    shape = shape[draw.randint(0, len(shape)) :] if draw.random() < 0.2 else shape
    rng = np.random.default_rng(0)
    new, weights = rng.normal(size=shape), rng.normal(size=array.shape)
    wanted = array.copy()
    wanted[plain(key)] = new
    old = ag.asarray(dask_of(array, chunks), requires_grad=True)
    put = ag.asarray(dask_of(new, tuple(drawn_chunks(draw, n) for n in shape)), requires_grad=True)
    x = old * 1.0
    x[on_dask(key)] = put
    np.testing.assert_array_equal(value(x), wanted)

    (x * ag.asarray(dask_of(weights, chunks))).sum().backward()
    by_old = weights.copy()
    by_old[plain(key)] = 0
    np.testing.assert_allclose(value(old.grad), by_old)
    from_entry = np.full(array.shape, -1)  # which entry of the value each place holds; of several the last
    from_entry[plain(key)] = np.broadcast_to(np.arange(new.size).reshape(shape), places)
    by_new = np.zeros(new.size)
    np.add.at(by_new, from_entry[from_entry >= 0], weights[from_entry >= 0])
    np.testing.assert_allclose(value(put.grad), by_new.reshape(shape), atol=1e-14)


@pytest.mark.parametrize("seed", range(120))
def test_like_numpy(seed, dask_backend, value):
    draw, array, chunks, key = drawn(seed)
    check_reading(array, chunks, key, value)
    check_writing(array, chunks, key, draw, value)


NAMED = {
    "integer and a slice that runs backwards": ((3, 4), ((2, 1), (3, 1)), (0, slice(None, None, -1))),
    "backwards from before the first": ((3,), ((2, 1),), (slice(-4, None, -1),)),
    "backwards from before the first, in steps": ((6,), ((6,),), (slice(-7, None, -5),)),
    "backwards from before the first, short chunks": (
        (6, 2, 5),
        ((4, 2), (1, 1), (2, 1, 2)),
        (slice(-4, None, -2), 1, slice(0, 3, 3)),
    ),
    "a slice that ends behind its last place": ((4,), ((2, 2),), (slice(0, 3, 3),)),
    "a mask without elements": ((3, 0, 2, 0), ((2, 1), (0,), (2,), (0,)), (np.zeros((3, 0, 2, 0), bool),)),
    "a mask without elements, an integer after it": ((5, 0, 6), (5, 0, 3), (np.zeros((5, 0), bool), -5)),
    "a lazy place, and nothing left": (
        (7, 3, 5, 0),
        ((2, 2, 2, 1), (3,), (2, 1, 2), (0,)),
        (..., None, Lazy(N(-2), ()), slice(-2, 1, -1)),
    ),
    "a mask that takes nothing, and places": ((1, 5), (1, 5), (N([False]), None, N([[-1], [-1], [-5]]))),
    "one element beside a chunk without any": ((1, 2), ((0, 1), (2,)), (0, slice(None, None, -1))),
}


@pytest.mark.parametrize(("shape", "chunks", "key"), NAMED.values(), ids=NAMED)
def test_like_numpy_named(shape, chunks, key, dask_backend, value):
    array = np.arange(1.0, math.prod(shape) + 1).reshape(shape)
    check_reading(array, chunks, key, value)
    check_writing(array, chunks, key, random.Random(0), value)


@pytest.mark.parametrize("mask", [np.ones(3, bool), np.zeros(3, bool), np.ones((4, 4), bool), np.ones((1, 5), bool)])
@pytest.mark.parametrize("known", [True, False], ids=["known", "lazy"])
def test_a_mask_of_another_shape_is_refused(mask, known, dask_backend):
    x = ag.asarray(da.ones((4, 5), chunks=2))
    mask = ag.asarray(da.from_array(mask, chunks=-1)) if not known else mask
    with pytest.raises(IndexError, match=r"shape of the mask .* does not match the shape of the indexed tensor"):
        x[mask]
    with pytest.raises(IndexError, match=r"shape of the mask .* does not match the shape of the indexed tensor"):
        x[mask] = 1.0


def test_chunks_without_elements_are_left_out(dask_backend, value):
    """Dask repeats the element of an axis of length 1 that has such chunks beside it."""
    x = ag.asarray(da.from_array(N([2.0]), chunks=((0, 1, 0),)), requires_grad=True)
    y = x * 3.0
    np.testing.assert_array_equal(value(y), [6.0])
    y.sum().backward()
    np.testing.assert_array_equal(value(x.grad), [3.0])
    raw = da.from_array(N([2.0]), chunks=((0, 1),))
    np.testing.assert_array_equal(value(ag.asarray(da.from_array(N([1.0, 2.0]))) * raw), [2.0, 4.0])
