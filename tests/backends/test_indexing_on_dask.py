"""Indexing of Dask arrays by keys of all kinds, and its adjoint, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import agrad as ag

da = pytest.importorskip("dask.array")

N = np.array
SHAPE = (4, 5, 6)
KEYS = {
    "int": 1,
    "negative int": (..., -1),
    "slice": slice(1, 3),
    "steps": (slice(None, None, 2), slice(4, None, -2), slice(1, 6, 4)),
    "backwards": slice(None, None, -1),
    "beyond the end": (slice(2, 100), slice(-100, 2)),
    "empty slice": slice(3, 3),
    "nothing": (),
    "ellipsis": (0, ..., 2),
    "new axes": (None, 1, None, ..., None, slice(2, 4)),
    "all ints": (1, 2, 3),
    "1-d": N([3, 0, 0]),
    "negative": N([-1, -4]),
    "1-d, last axis": (..., N([5, 0, 5, -1])),
    "2-d": N([[0, 3], [3, 3]]),
    "2-d, middle axis": (slice(None), N([[4, 1, 1], [0, 4, 2]])),
    "0-d": (slice(None), N(2)),
    "no places": N([], dtype=np.int64),
    "two": (N([0, 3, 0]), N([1, 1, 1])),
    "two, apart": (N([0, 3]), slice(None), N([1, 5])),
    "two, apart, none between": (slice(None), N([0, 3]), ..., N([1, 5])),
    "two, broadcast": (N([[0], [3]]), N([1, 4, 4])),
    "two, last": (slice(1, 3), N([0, 3]), N([1, 5])),
    "three": (N([0, 3]), N([0, 4]), N([0, 5])),
    "int and 1-d": (slice(None), 0, N([1, 1])),
    "int and 1-d, apart": (0, slice(None), N([1, 1, 2])),
    "1-d and slices": (slice(3, 0, -2), N([1, 1, 2]), slice(0, 4)),
    "1-d and new axis": (None, N([1, 1, 2])),
    "rows by mask": N([True, False, True, True]),
    "columns by mask": (..., N([True, False, True, True, False, False])),
    "mask over two axes": np.arange(20).reshape(4, 5) % 3 == 0,
    "mask over two, later": (slice(None), np.arange(30).reshape(5, 6) % 4 == 1),
    "mask over all": np.arange(120).reshape(SHAPE) % 7 == 2,
    "mask of none": np.zeros(4, bool),
    "mask and int": (N([True, False, True, True]), 2),
    "mask and int, apart": (1, slice(None), N([True, False, True, True, False, False])),
    "mask and 1-d": (N([True, False, True, True]), N([0, 4, 4])),
    "true": True,
    "false": False,
}
CHUNKS = {"one chunk": SHAPE, "even": (2, 5, 3), "odd": ((1, 3), (2, 2, 1), (4, 2))}


def lazy(part):
    """The arrays of a key as Dask arrays that are no mere copies of data in memory."""
    if isinstance(part, tuple):
        return tuple(map(lazy, part))
    if isinstance(part, np.ndarray):
        chunks = math.ceil(part.shape[0] / 2) if part.ndim and part.size else -1
        return ag.asarray(da.from_array(part, chunks=(chunks, *(-1,) * (part.ndim - 1)) if part.ndim else ()))
    return part


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "lazy"])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_like_numpy(key, known, chunks, dask_backend, value):
    array = np.random.default_rng(0).normal(size=SHAPE)
    expected = array[key]
    x = ag.asarray(da.from_array(array, chunks=chunks), requires_grad=True)
    y = x[key if known else lazy(key)]
    if not any(map(math.isnan, y.shape)):
        assert y.shape == expected.shape
    np.testing.assert_array_equal(value(y), expected)

    weights = np.random.default_rng(1).normal(size=expected.shape)
    if any(map(math.isnan, y.shape)):  # a mask whose number of rows is unknown: weigh by the values themselves
        (y * y).sum().backward()
        weights = 2 * expected
    else:
        (y * ag.asarray(da.from_array(weights, chunks=2 if weights.ndim else ()))).sum().backward()
    wanted = np.zeros(SHAPE)
    np.add.at(wanted, key, weights)
    np.testing.assert_allclose(value(x.grad), wanted, rtol=1e-14)
    assert x.grad._raw.chunks == x._raw.chunks


@pytest.mark.parametrize("known", [True, False], ids=["known", "lazy"])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_assignment_like_numpy(key, known, dask_backend, value):
    array = np.random.default_rng(0).normal(size=SHAPE)
    new = np.random.default_rng(1).normal(size=array[key].shape)
    expected = array.copy()
    expected[key] = new
    x = ag.asarray(da.from_array(array, chunks=(2, 3, 4)))
    x[key if known else lazy(key)] = ag.asarray(da.from_array(new, chunks=2 if new.ndim else ()))
    np.testing.assert_array_equal(value(x), expected)

    expected[key] = 7.0
    x[key if known else lazy(key)] = 7.0
    np.testing.assert_array_equal(value(x), expected)


@pytest.mark.parametrize("key", [N([0, 4]), N([-5, 0]), (N([0, 1]), N([0, 6]))], ids=["after", "before", "two"])
def test_out_of_bounds(key, dask_backend):
    x = ag.asarray(da.from_array(np.zeros((4, 6)), chunks=2))
    with pytest.raises(IndexError, match=r"index (4|-5|6) is out of bounds for an axis of size (4|6)"):
        x[key]
    with pytest.raises(IndexError, match="out of bounds"):
        x[lazy(key)].tolist()


@pytest.mark.parametrize("key", [slice(0, 2), slice(0, 0), N([0, 1])], ids=["slice", "empty", "places"])
def test_assignment_of_a_wrong_shape(key, dask_backend):
    x = ag.asarray(da.zeros((4, 3), chunks=2))
    for shape in ((5, 3), (2, 1, 3), (0, 4)):
        with pytest.raises(ValueError, match=r"mismatch|broadcast"):
            x[key] = ag.asarray(da.zeros(shape))


def test_too_many(dask_backend):
    x = ag.asarray(da.zeros((2, 2)))
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        x[0, 0, 0]


def test_one_lazy_array_stays_lazy(never_computes):
    x = ag.asarray(da.ones((8, 3), chunks=(2, 3)), requires_grad=True)
    for index in (x[:, 0].detach() > 2, ag.argmax(x.detach(), axis=0)):
        (x[index] * 2.0).sum().backward()
    assert x.grad._raw.chunks == ((2, 2, 2, 2), (3,))


def test_what_was_computed_for_a_key_is_not_computed_again(dask_backend):
    import dask

    calls = []

    def counted(block):
        calls.append(1)
        return block

    x = ag.asarray(da.ones((4, 4), chunks=2), requires_grad=True)
    i = da.arange(4, chunks=2).map_blocks(counted, dtype=np.int64, meta=np.empty(0, np.int64))
    y = x[i, i]  # two at once: their values are needed
    assert len(calls) == 2
    y.sum().backward()
    dask.compute(x.grad._raw)
    assert len(calls) == 2


def test_embedding_table_is_not_copied_per_token(dask_backend):
    """The gradient of a table by many indices: the work grows with blocks, and no block is larger than the table's."""
    table = ag.asarray(da.zeros((1000, 8), chunks=(250, 8)), requires_grad=True)
    tokens = np.random.default_rng(0).integers(0, 1000, size=5000)
    table[ag.asarray(da.from_array(tokens, chunks=1000))].sum().backward()
    np.testing.assert_array_equal(
        table.grad._raw.compute(), np.repeat(np.bincount(tokens, minlength=1000)[:, None], 8, axis=1).astype(float)
    )
    assert table.grad._raw.chunks == ((250,) * 4, (8,))
    largest = max(map(np.size, (block for block in _blocks(table.grad._raw))))
    assert largest <= 1000 * 8


def _blocks(array):
    seen = []
    import dask

    def note(key, result, dsk, state, worker):
        if isinstance(result, np.ndarray):
            seen.append(result)

    from dask.callbacks import Callback

    with Callback(posttask=note):
        dask.compute(array, optimize_graph=False)
    return seen


def test_known_values_for_a_lazy_mask(dask_backend, value):
    """`scatter_add` of rows whose number is known, at places that are not."""
    mask = ag.asarray(da.from_array(N([True, False, True, True, False]), chunks=2))
    spec = ag.asarray(da.zeros((5, 2), chunks=(2, 1)))._spec
    rows = np.arange(6.0).reshape(3, 2)
    made = ag.scatter_add(spec, mask, ag.asarray(da.from_array(rows, chunks=2)))
    np.testing.assert_array_equal(value(made), [[0, 1], [0, 0], [2, 3], [4, 5], [0, 0]])


def test_rearranged_rows_of_a_lazy_mask_are_refused(dask_backend):
    x = ag.asarray(da.ones(6, chunks=2), requires_grad=True)
    y = x[ag.asarray(da.from_array(N([True] * 3 + [False] * 3), chunks=2))]
    with pytest.raises(ag.UnsupportedOp, match="no longer match those of the mask"):
        y.backward(ag.asarray(da.concatenate([y._raw, y._raw])[:]))


def test_rows_of_other_blocks_than_the_masks_are_an_error_not_a_wrong_gradient(dask_backend):
    x = ag.asarray(da.ones(4, chunks=2), requires_grad=True)
    y = x[ag.asarray(da.from_array(N([True, True, False, False]), chunks=2))]  # two rows, then none
    g = da.from_array(N([10.0, 20.0]), chunks=1)
    y.backward(ag.asarray(g[g > 0]))  # one row, then one
    with pytest.raises(ValueError, match=r"1 rows of a cotangent for a block of a mask that chose (2|0)"):
        x.grad.tolist()
