"""Chunks on Dask: gradients have their operands', and nothing on the way is larger than the mathematics asks for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

import agrad as ag
import agrad.nn.functional as F
import agrad.numpy as anp
from agrad.core.op import OPS
from agrad.testing.calls import SampleCall
from agrad.testing.samples import SAMPLES

da = pytest.importorskip("dask.array")
import dask  # noqa: E402 (skipped where it is not installed)
from dask.callbacks import Callback  # noqa: E402 (as above)

pytestmark = [
    pytest.mark.usefixtures("dask_backend"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # of NumPy at singular points, within tasks
]

#: Index arrays of these are known, as most users': lazy ones may have to be computed.
WITH_INDICES = {"getitem", "repeat", "scatter_add", "setitem", "take"}

ALL = -1


class Whole(NamedTuple):
    """How many axes an op needs in one chunk, why, and how many axes more than operands and results it works with."""

    axes: int
    reason: str
    more: int = 0


_MATRIX = "a matrix is decomposed or solved by LAPACK, which has it whole"
_FOURIER = "every frequency needs the whole axis"

#: Other ops, and their gradients, work chunk by chunk.
WHOLE = {
    **{f"fft.{name}": Whole(1, _FOURIER) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{name}": Whole(ALL, _FOURIER) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "linalg.cross": Whole(1, "the axis has three places"),
    **{f"scipy.sparse_{name}": Whole(1, "a matrix in one piece") for name in ("matmul", "sampled", "solve")},
    "scipy.sparse_added": Whole(
        2, "entries are added to all rows joined; a SparseTensor takes another way to lazy arrays"
    ),
    **{
        f"linalg.{name}": Whole(2, _MATRIX)
        for name in (
            *("cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_power"),
            *("pinv", "qr", "slogdet", "solve", "svd", "svdvals"),
        )
    },
    **{
        f"scipy.{name}": Whole(2, _MATRIX)
        for name in ("lstsq", "lu", "solve_banded", "solve_sylvester", "solve_triangular")
    },
    **{
        f"scipy.{name}": Whole(4, "its derivative is that of a function of a matrix twice as large")
        for name in ("expm", "expm_frechet", "logm", "sqrtm")
    },
    **{f"scipy.{name}": Whole(1, "a filter goes along the whole axis") for name in ("all_pole", "fir")},
    "linalg.adjugate": Whole(3, "the derivative of a product of singular values by each of them, for every matrix", 1),
    "sort": Whole(1, "any element may go anywhere along the axis"),
    **{
        name: Whole(1, "any element may be asked for anywhere along the axis")
        for name in ("take_along_axis", "extra.scatter_along")
    },
    **{
        f"extra.{name}": Whole(2, "a block holds whole windows, and is as long as one along the axis")
        for name in ("windows", "overlap_add")
    },
    "nn.cross_entropy": Whole(1, "the classes of a row are compared with its label"),
    "nn.nll_loss": Whole(1, "the classes of a row are compared with its label"),
    **{
        f"nn.{name}": Whole(2, "the windows of an image, beside one another, are a matrix that is multiplied")
        for name in ("conv2d", "conv2d_input", "conv2d_weight")
    },
    "nn.avg_pool2d_adjoint": Whole(2, "an image goes into one block of the result, whose size alone is known"),
}


class Largest(Callback):
    """The largest floating-point array that a task gave, in elements that take memory (one repeated takes one)."""

    def __init__(self):
        self.size, self.key, self.shape = 0, None, None

    def _posttask(self, key, result, dsk, state, worker):
        name = key[0] if isinstance(key, tuple) else key
        if name.startswith(("array-original", "finalize")):  # the data, and the values put together
            return
        for array in result if isinstance(result, tuple | list) else [result]:
            if isinstance(array, np.ndarray) and array.dtype.kind in "fc":
                size = math.prod(n for n, stride in zip(array.shape, array.strides, strict=True) if stride)
                if size > self.size:
                    self.size, self.key, self.shape = size, key, array.shape


def check(results, leaves, limit):
    """Run tensors and their gradients, one task after another and none fused; look at every block."""
    ones = [ag.asarray(da.map_blocks(np.ones_like, r._raw)) for r in results]
    recorded = ag.autograd.grad(results, leaves, ones, create_graph=True)
    gradients = ag.autograd.grad(results, leaves, ones)
    for gradient, again, leaf in zip(gradients, recorded, leaves, strict=True):
        assert gradient._raw.chunks == again._raw.chunks == leaf._raw.chunks
    seen = Largest()
    with seen:
        dask.compute(*(t._raw for t in (*results, *gradients)), optimize_graph=False)
    assert seen.size <= limit, f"a block of {seen.shape} by {seen.key}, for at most {limit} elements"


def _length(op, number):
    """The length of the chunks to try a sample in, None for those that say nothing new."""
    if OPS[op].rule.kind != "elementwise":
        return 1 + number % 2
    return 2 if number == 0 or not op.startswith("special.") else None


SMALL = [
    pytest.param(sample, _length(op, i), id=f"{i}-{sample}", marks=[pytest.mark.long] * (i % 3 > 0))
    for op, samples in SAMPLES.items()
    for i, sample in enumerate(samples)
    if op != "to_device" and _length(op, i)
]


@pytest.mark.parametrize(("sample", "length"), SMALL)
def test_chunks_of_samples(sample, length):
    call = SampleCall(sample)

    def make(array, requires_grad=False):
        if array.dtype.kind not in "fc" and sample.op in WITH_INDICES:
            return ag.asarray(array, device="dask")
        chunks = length if array.ndim else ()
        return ag.asarray(da.from_array(array, chunks=chunks), requires_grad=requires_grad)

    # new axes get chunks of moderate size; here of one element
    with dask.config.set({"array.chunk-size": 8} if length == 1 else {}):
        leaves = [make(a, True) for a in call.arrays]
        results = call.tensors(leaves, make)
        if not results:
            return
        shapes = [t.shape for t in (*leaves, *results)]
        rank = max(map(len, shapes))
        if any(0 in shape for shape in shapes):
            limit = math.inf  # a sum over nothing may be larger than what is summed
        else:
            op = WHOLE.get(sample.op, Whole(0, ""))
            whole, rank = rank if op.axes == ALL else op.axes, rank + op.more
            asked = [sample.kwargs.get("n"), *(sample.kwargs.get("s") or ())]  # the lengths that a transform pads to
            sizes = sorted([n for shape in shapes for n in shape] + [n or 0 for n in asked], reverse=True)
            limit = math.prod(sizes[:whole]) * length ** max(0, rank - whole)
        check(results, leaves, limit)


# -- at the sizes of real programs ------------------------------------------------------------------------------------

LENGTH, WIDTH = 20, 6


def _labels(n):
    return ag.asarray(da.from_array(np.arange(n) % WIDTH, chunks=LENGTH))


def _assigned(x):
    y = x * 1.0
    y[3:-3:2] = y[0]
    return y


def _shuffled(n):
    return np.random.default_rng(0).permutation(n)


#: Functions of an array in `blocks` chunks of (20, 6) along its rows, that work in a number of tasks that grows with it.
PROGRAMS = {
    "elementwise": lambda x: ag.where(x > 0, ag.exp(x), 0.1 * x),
    "row": lambda x: x * x[0] + x[-1],
    "sum": lambda x: ag.sum(x, axis=0),
    "mean": lambda x: ag.mean(x),
    "var": lambda x: ag.var(x, axis=0),
    "max": lambda x: ag.max(x, axis=0),
    "prod": lambda x: ag.prod(ag.tanh(x) + 2.0, axis=1),
    "cumulative_sum": lambda x: ag.cumulative_sum(x, axis=0),
    "flip": lambda x: ag.flip(x, axis=0),
    "roll": lambda x: ag.roll(x, 7, axis=0),
    "concat": lambda x: ag.concat([x, x[:5]], axis=0),
    "stack": lambda x: ag.stack([x, x * 2.0]),
    "tile": lambda x: ag.tile(x, (2, 1)),
    "repeat": lambda x: ag.repeat(x, 3, axis=0),
    "diff": lambda x: ag.diff(x, axis=0),
    "gram": lambda x: x.mT @ x,
    "linear": lambda x: x @ ag.asarray(da.ones((WIDTH, 3), chunks=-1)),
    "tensordot": lambda x: ag.tensordot(x, x, axes=((0,), (0,))),
    "reshape": lambda x: ag.reshape(x, (-1, 2, 3)),
    "transposed": lambda x: ag.reshape(x.mT, (2, 3, -1)),
    "slice": lambda x: x[3:-3],
    "strides": lambda x: x[::3],
    "long strides": lambda x: x[5 :: 3 * LENGTH],
    "backwards": lambda x: x[::-2],
    "mask": lambda x: x[np.arange(x.shape[0]) % 3 == 0],
    "sorted rows": lambda x: x[np.arange(0, x.shape[0], 2)],
    "places": lambda x: x[np.arange(x.shape[0]), np.arange(x.shape[0]) % WIDTH],
    "assignment": _assigned,
    "pad": lambda x: ag.extra.pad(x, ((2, 3), (0, 0))),
    "nanmean": lambda x: ag.extra.nanmean(x, axis=0),
    "einsum": lambda x: ag.extra.einsum("ij,ik->jk", x, x),
    "trapezoid": lambda x: ag.extra.trapezoid(x, axis=0),
    "special": lambda x: ag.special.erf(x) + ag.special.expit(x),
    "softmax": lambda x: F.softmax(x, 1),
    "log_softmax over rows": lambda x: F.log_softmax(x, 0),
    "gelu": lambda x: F.gelu(x),
    "layer_norm": lambda x: F.layer_norm(x, (WIDTH,)),
    "cross_entropy": lambda x: F.cross_entropy(x, _labels(x.shape[0])),
    "mse_loss": lambda x: F.mse_loss(x, ag.zeros_like(x)),
    "chosen by label": lambda x: ag.take_along_axis(x, _labels(x.shape[0])[:, None], axis=1),
    "embedding": lambda x: F.embedding(_shuffled(x.shape[0])[:LENGTH], x),
    "vector_norm": lambda x: ag.linalg.vector_norm(x, axis=0),
    "fft": lambda x: ag.real(ag.fft.fft(x, axis=1)),
    "sort": lambda x: ag.sort(x, axis=1),
    "windows": lambda x: ag.sum(anp.lib.stride_tricks.sliding_window_view(x, 3, 0) ** 2, axis=-1),
}


def _grown(program, blocks):
    x = ag.asarray(da.from_array(np.random.default_rng(1).normal(size=(blocks * LENGTH, WIDTH)), chunks=(LENGTH, -1)))
    x.requires_grad_()
    result = program(x)
    (gradient,) = ag.autograd.grad(ag.sum(result), x, retain_graph=True)
    return x, result, gradient


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_are_lazy_and_linear(program, never_computes, dask_backend):
    """Neither the result nor the gradient computes; twice the chunks make at most about twice the tasks."""
    counts = []
    for blocks in (16, 32, 64):
        x, result, gradient = _grown(program, blocks)
        assert gradient._raw.chunks == x._raw.chunks
        counts.append(len(dict(dask.base.collections_to_expr((result._raw, gradient._raw)).__dask_graph__())))
    assert counts[2] - counts[1] <= 2.3 * (counts[1] - counts[0]) + 8, counts
    with dask.config.set(scheduler="synchronous"):
        x, result, _ = _grown(program, 16)
        check([result], [x], 3 * LENGTH * WIDTH)


def test_steps_of_a_stencil_by_rolling_keep_the_chunks():
    """Every step makes as many tasks as the one before, forward and back; with Dask's own roll they multiply."""
    values = np.random.default_rng(2).normal(size=(12, 9))

    def step(u):
        return u + 0.2 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, (1, 2), (0, 1)) + np.roll(u, -2) - 4 * u)

    counts, at = [], values
    for steps in range(1, 4):
        x = u = ag.asarray(da.from_array(values, chunks=(4, 5)), requires_grad=True)
        for _ in range(steps):
            u = step(u)
        assert u._raw.chunks == x._raw.chunks
        (gradient,) = ag.autograd.grad(ag.sum(u**2) / 2, x)
        assert gradient._raw.chunks == x._raw.chunks
        counts.append(len(dict(gradient._raw.__dask_graph__())))
        at = step(at)
    assert np.ptp(np.diff(counts)) <= 0.1 * counts[0], counts
    np.testing.assert_allclose(u.detach().numpy(), at, rtol=1e-12)
    direction = np.random.default_rng(3).normal(size=values.shape)
    moved = direction
    for _ in range(3):
        moved = step(moved)  # the steps are linear: their tangent is themselves
    np.testing.assert_allclose(np.vdot(gradient.numpy(), direction), np.vdot(at, moved), rtol=1e-10)


@pytest.mark.parametrize("duplicates", [False, True])
def test_gradient_of_a_table(duplicates):
    """Of rows in any order, and of the same row many times: as many tasks as chunks, and sums where they meet."""
    rng = np.random.default_rng(3)
    places = rng.integers(0, 3 if duplicates else 90, size=200)
    table = ag.asarray(da.from_array(rng.normal(size=(90, 4)), chunks=(10, 2)), requires_grad=True)
    weights = rng.normal(size=(200, 4))
    (gradient,) = ag.autograd.grad(ag.sum(table[places] * ag.asarray(da.from_array(weights, chunks=(20, 4)))), table)
    expected = np.zeros((90, 4))
    np.add.at(expected, places, weights)
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-12)
    assert gradient._raw.chunks == table._raw.chunks
    layer = next(v for k, v in gradient._raw.dask.layers.items() if k.startswith("agrad-scatter-add"))
    assert len(layer) <= 2 * 2 * (9 + 20)


def test_gradient_of_strides_longer_than_chunks():
    x = ag.asarray(da.from_array(np.arange(40.0), chunks=3), requires_grad=True)
    for key in (slice(2, None, 11), slice(None, None, -7), slice(4, 30, 3), 17, slice(5, 6)):
        (gradient,) = ag.autograd.grad(ag.sum(x[key] ** 2), x)
        expected = np.zeros(40)
        expected[key] = 2 * np.arange(40.0)[key]
        np.testing.assert_array_equal(gradient.numpy(), expected)


def test_sorting_merges_the_chunks_of_its_axis_alone():
    x = ag.asarray(da.from_array(np.random.default_rng(4).normal(size=(6, 8)), chunks=2), requires_grad=True)
    check([ag.sort(x, axis=0)], [x], 6 * 2)
    check([ag.sort(x, axis=1)], [x], 2 * 8)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x @ w,
        lambda x, w: x @ w[:, 0],
        lambda x, w: ag.nn.functional.linear(x, w.T),
        lambda x, w: ag.tensordot(x, w, axes=1),
        lambda x, w: ag.tensordot(w, x, axes=(0, 1)),
        lambda x, w: ag.vecdot(x, w[:, 0][None]),
        lambda x, w: ag.vecdot(x.T, w[:, :1], axis=0),
        lambda x, w: ag.einsum("ij,jk->ik", x, w),
    ],
    ids=["matmul", "matvec", "linear", "tensordot", "tensordot pair", "vecdot", "vecdot axis", "einsum"],
)
@pytest.mark.parametrize("cut", [60, 20])
def test_a_contracted_axis_in_pieces_gives_gradients_in_pieces(function, cut):
    rng = np.random.default_rng(0)
    data, weights = rng.normal(size=(40, 60)), rng.normal(size=(60, 3))
    x = ag.asarray(da.from_array(data, chunks=(10, 6)), requires_grad=True)
    w = ag.asarray(da.from_array(weights, chunks=(cut, 3)))
    y = function(x, w)
    found = ag.autograd.grad(ag.sum(y * y), x)[0]
    assert found._raw.chunks == x._raw.chunks
    sizes = {
        math.prod(map(max, layer.collection_annotations["chunks"]))
        for layer in found._raw.dask.layers.values()
        if "chunks" in (layer.collection_annotations or {})
    }
    assert max(sizes - {180}) <= 60, "nothing but the 60 x 3 weights themselves is larger than a chunk of x"
    step = rng.normal(size=data.shape)
    ys = [np.asarray(function(ag.asarray(data + h * step), ag.asarray(weights)).numpy()) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(
        np.sum(found.numpy() * step), (np.sum(ys[0] ** 2) - np.sum(ys[1] ** 2)) / 2e-6, rtol=1e-6
    )
