"""Convolution and pooling on Dask: one task per block of whole images, with the values that PyTorch gives."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import agrad as ag
import agrad.nn.functional as F
from agrad.plugin import manager

da = pytest.importorskip("dask.array")
import dask  # noqa: E402 (skipped where it is not installed)
from dask.array.utils import assert_eq  # noqa: E402 (as above)

pytestmark = pytest.mark.usefixtures("dask_backend")

#: Seven images of four channels, the height and width of each in one chunk.
SHAPE, UNEVEN = (7, 4, 9, 8), ((3, 1, 3), (4,), (9,), (8,))

CONVOLUTIONS = [
    {},
    {"stride": 2},
    {"padding": (2, 1), "stride": (3, 2)},  # some rows and columns are in no window
    {"dilation": (2, 3), "padding": 2},
    {"groups": 2, "padding": (0, 1)},
    {"groups": 4, "stride": (1, 2)},
    {"padding": "same", "dilation": 2},  # the window is 3 by 2: more padding on the right
]

POOLS = [
    ("avg_pool2d", (2,), {}),
    ("avg_pool2d", ((3, 2),), {"stride": (2, 3), "padding": 1}),
    ("avg_pool2d", (3,), {"stride": 1, "padding": 1, "count_include_pad": False}),
    ("max_pool2d", (2,), {}),
    ("max_pool2d", ((3, 2),), {"stride": (2, 3), "padding": 1}),
    ("max_pool2d", (3,), {"stride": 2, "dilation": 2, "padding": 1}),
]

#: Chunks of a few small images, and whether one has room for a whole image.
FEW = (4, 4, 4, 6)
CUTS = {
    "channels": ((4, 1, 4, 6), True),
    "images": ((4, 4, 2, 3), True),
    "single images": ((1, 1, 4, 3), False),
    "everything": ((1, 1, 3, 2), False),
}


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def chunked(array, chunks):
    return ag.asarray(da.from_array(array, chunks=chunks), requires_grad=True)


def weights(groups=1, **_):
    return random(8, 4 // groups, 3, 2, seed=1), random(8, seed=2)


def convolution(parameters):
    return lambda lib, *leaves: lib.nn.functional.conv2d(*leaves, **parameters)


def pool(name, window, parameters):
    return lambda lib, x: getattr(lib.nn.functional, name)(x, *window, **parameters)


#: One of each, and the arrays that it takes beside the images.
FUNCTIONS = {
    "conv2d": (convolution({"stride": 2, "padding": 1}), weights()),
    "avg_pool2d": (pool(*POOLS[1]), ()),
    "max_pool2d": (pool(*POOLS[4]), ()),
}


def results(lib, function, leaves):
    """Give the value of a function, the gradients of the sum of its squares, and those of the sum of their squares."""
    y = function(lib, *leaves)
    first = lib.autograd.grad((y * y).sum(), leaves, create_graph=True)
    second = lib.autograd.grad(sum((g * g).sum() for g in first), leaves)
    return y, *first, *second


def of_torch(function, arrays):
    torch = pytest.importorskip("torch")
    return [t.detach().numpy() for t in results(torch, function, [torch.tensor(a, requires_grad=True) for a in arrays])]


def check(function, leaves, arrays):
    """Compare with PyTorch; every block has the size and dtype that it was said to have."""
    found = results(ag, function, leaves)
    for tensor, expected in zip(found, of_torch(function, arrays), strict=True):
        assert_eq(tensor._raw, expected, rtol=1e-9, atol=1e-9)
    for i, leaf in enumerate(leaves):
        assert found[1 + i]._raw.chunks == found[1 + len(leaves) + i]._raw.chunks == leaf._raw.chunks
    return found


def graph(*tensors):
    """Give the tasks of tensors as they are run, fused or not."""
    return dict(dask.base.collections_to_expr(tuple(t._raw for t in tensors)).__dask_graph__())


def tasks(*tensors, op):
    """Count the tasks that run an op on a block."""
    return sum(name_of(key).startswith(f"agrad-{op}-") for key in dict(tensors[0]._raw.dask))


def name_of(key):
    return key[0] if isinstance(key, tuple) else key


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", CONVOLUTIONS, ids=str)
def test_convolutions_are_pytorchs(parameters):
    arrays = random(*SHAPE), *weights(**parameters)
    leaves = [chunked(a, chunks) for a, chunks in zip(arrays, (UNEVEN, (3, 1, 2, 1), 5), strict=True)]
    y, *_ = check(convolution(parameters), leaves, arrays)
    assert y._raw.chunks == ((3, 1, 3), *((n,) for n in y.shape[1:]))
    assert tasks(y, op="conv2d") == 3


@pytest.mark.parametrize(("name", "window", "parameters"), POOLS, ids=str)
def test_pools_are_pytorchs(name, window, parameters):
    array = random(*SHAPE)
    y, *_ = check(pool(name, window, parameters), [chunked(array, (*UNEVEN[:1], 2, -1, -1))], [array])
    assert y._raw.chunks == ((3, 1, 3), (2, 2), *((n,) for n in y.shape[2:]))
    assert tasks(y, op=name) == 6


def test_the_largest_element_is_the_first_of_several():
    array = np.round(random(4, 1, 6, 6))
    array[0, 0, 1, 1] = math.inf
    check(pool("max_pool2d", (3,), {"stride": 1}), [chunked(array.clip(-1, 1), (3, 1, 6, 6))], [array.clip(-1, 1)])


def test_weights_in_memory():
    arrays = random(*SHAPE), *weights()
    x, w, b = chunked(arrays[0], UNEVEN), *(ag.asarray(a, requires_grad=True) for a in arrays[1:])
    y = F.conv2d(x, w, b)
    gradients = ag.autograd.grad(ag.sum(y * y), (x, w, b))
    expected = of_torch(convolution({}), arrays)
    for tensor, value in zip((y, *gradients), expected, strict=False):
        np.testing.assert_allclose(tensor.detach().numpy(), value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_images_that_were_cut(cut, name):
    """They are put together in blocks no larger than before; where a single one is larger they stay as they are."""
    chunks, room = CUTS[cut]
    function, more = FUNCTIONS[name]
    arrays = random(*FEW), *more
    x, *_ = leaves = [chunked(a, c) for a, c in zip(arrays, (chunks, -1, -1), strict=False)]
    y = function(ag, *leaves)
    assert (tasks(y, op=name) > 0) is room
    # what stays cut works as it does for any array: tests of samples see to its gradients
    found = y, *(ag.autograd.grad(ag.sum(y * y), leaves) if room else ())
    for tensor, expected in zip(found, of_torch(function, arrays), strict=False):
        assert_eq(tensor._raw, expected, rtol=1e-9, atol=1e-9)
    for gradient, leaf in zip(found[1:], leaves, strict=False):
        assert gradient._raw.chunks == leaf._raw.chunks
    if room:
        largest = math.prod(map(max, x._raw.chunks))
        for key, block in zip(keys := _put_together(y), dask.get(dict(y._raw.dask), keys), strict=True):
            assert block.size <= largest, key


def _put_together(tensor):
    """The blocks of rechunked images."""
    return [key for key in dict(tensor._raw.dask) if name_of(key).startswith("rechunk-merge-")]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("chunks", [UNEVEN, (3, 2, 5, 4)])
def test_batches_of_unknown_size(name, chunks):
    function, more = FUNCTIONS[name]
    array = random(*SHAPE)
    kept = array[:, 0, 0, 0] > 0.2
    assert not kept[3]  # a block without images
    x, *w = chunked(array, chunks), *(chunked(a, -1) for a in more)
    mask = da.from_array(array, chunks=chunks)[:, 0, 0, 0] > 0.2
    y = function(ag, x[ag.asarray(mask)], *w)
    assert math.isnan(y.shape[0])
    gradients = ag.autograd.grad(ag.sum(y * y), (x, *w))
    expected = of_torch(lambda lib, x, *w: function(lib, x[kept], *w), [array, *more])
    for tensor, value in zip((y, *gradients), expected, strict=False):
        np.testing.assert_allclose(tensor.detach().numpy(), value, rtol=1e-9, atol=1e-9)
    assert gradients[0]._raw.chunks == x._raw.chunks


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_images(name):
    function, more = FUNCTIONS[name]
    leaves = [chunked(a, -1) for a in (np.ones((0, 4, 9, 8)), *more)]
    y, *gradients = results(ag, function, leaves)
    assert_eq(y._raw, np.zeros((0, *y.shape[1:])))
    for gradient, leaf in zip(gradients, (*leaves, *leaves), strict=True):
        assert_eq(gradient._raw, np.zeros(leaf.shape))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_dtypes(dtype):
    xp = manager.get("dask").xp
    x, w = np.arange(48).reshape(3, 1, 4, 4).astype(dtype), np.ones((1, 1, 4, 4), dtype)
    images, filters = da.from_array(x, chunks=(2, 1, 4, 4)), da.from_array(w)
    sums = x.sum((1, 2, 3), dtype=dtype)[:, None, None, None]
    plain = (1, 1), ((0, 0), (0, 0)), (1, 1), 1
    y = xp.nn.conv2d(images, filters)
    assert_eq(y, sums)
    assert_eq(xp.nn.conv2d_weight(images, xp.ones_like(y), (4, 4), *plain), x.sum(0, dtype=dtype)[None])
    assert_eq(xp.nn.conv2d_input(xp.ones_like(y), filters, (4, 4), *plain), np.ones_like(x))
    means = xp.nn.avg_pool2d(images, (4, 4), (4, 4), ((0, 0), (0, 0)), True)
    assert_eq(means, sums / (16.0 if dtype == "int32" else np.asarray(16, dtype)))


def test_the_gradient_of_weights_is_rounded_once():
    """The sum of 2048, 1 and 1 is 2048 where every sum is rounded to float16."""
    x = ag.asarray(da.from_array(np.asarray([2048, 1, 1], "float16").reshape(3, 1, 1, 1), chunks=1))
    w = ag.asarray(np.ones((2, 1, 1, 1), "float16"), device="dask", requires_grad=True)
    (gradient,) = ag.autograd.grad(ag.sum(F.conv2d(x, w)), w)
    assert gradient.dtype == "float16"
    assert ag.reshape(gradient, (-1,)).tolist() == [2050, 2050]


# -- tasks ------------------------------------------------------------------------------------------------------------

PROGRAMS = {
    "avg_pool2d": lambda x: F.avg_pool2d(x, 6),
    "max_pool2d": lambda x: F.max_pool2d(x, 6),
    "conv2d": lambda x: F.conv2d(x, ag.asarray(da.ones((2, 1, 5, 5))), ag.asarray(da.ones(2)), padding=2),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("blocks", [2, 8])
def test_a_few_tasks_per_chunk(program, blocks, never_computes):
    x = ag.asarray(da.ones((2 * blocks, 1, 24, 24), chunks=(2, 1, 24, 24)), requires_grad=True)
    w = ag.asarray(da.ones((1, 1, 5, 5)), requires_grad=True)
    y = PROGRAMS[program](F.conv2d(x, w, padding=2))
    ag.sum(y * y).backward()
    for tensors in ((y,), (x.grad,), (w.grad,), (y, x.grad, w.grad)):
        assert len(graph(*tensors)) <= 12 * blocks


def test_blocks_run_anywhere():
    x, w = chunked(random(*SHAPE), UNEVEN), chunked(weights()[0], -1)
    y = F.max_pool2d(F.conv2d(x, w), 2) + F.avg_pool2d(F.conv2d(x, w), 2)
    gradients = ag.autograd.grad(ag.sum(y * y), (x, w))
    for tensor in (y, *gradients):
        again = pickle.loads(pickle.dumps(tensor._raw))
        np.testing.assert_array_equal(again.compute(), tensor.detach().numpy())
