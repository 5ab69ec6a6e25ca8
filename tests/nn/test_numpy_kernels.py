"""Kernels of the NumPy backend that choose between several ways: each way against the definition, loop by loop."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import signal, special

import agrad as ag
from agrad_numpy import image_kernels, kernels, nn_kernels, special_kernels

F = ag.nn.functional
RNG = np.random.default_rng(11)

#: Shapes of images and filters; stride, padding, dilation, groups.
CONVOLUTIONS = {
    "depthwise": ((3, 5, 7, 6), (5, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 5),
    "depthwise, no padding": ((2, 4, 6, 5), (4, 1, 3, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), 4),
    "stride 2": ((3, 4, 9, 8), (4, 1, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 4),
    "stride 2 and 3": ((2, 3, 10, 11), (3, 1, 4, 5), (2, 3), ((2, 1), (0, 3)), (1, 1), 3),
    "stride over the window": ((2, 3, 9, 9), (3, 1, 2, 2), (4, 3), ((0, 1), (1, 0)), (1, 1), 3),
    "dilation": ((2, 3, 9, 10), (3, 1, 3, 3), (1, 1), ((2, 2), (1, 3)), (2, 3), 3),
    "stride and dilation": ((2, 3, 11, 12), (3, 1, 3, 2), (2, 3), ((1, 2), (0, 1)), (3, 2), 3),
    "stride and dilation of one divisor": ((2, 2, 13, 14), (2, 1, 3, 3), (4, 2), ((1, 1), (2, 2)), (2, 4), 2),
    "padding over the window": ((2, 3, 2, 3), (3, 1, 2, 3), (1, 2), ((4, 5), (6, 4)), (1, 1), 3),
    "more filters than channels": ((2, 3, 6, 5), (9, 1, 3, 3), (1, 2), ((1, 1), (1, 1)), (1, 1), 3),
    "two channels a group": ((3, 6, 5, 5), (6, 2, 3, 2), (2, 1), ((1, 0), (0, 1)), (1, 1), 3),
    "one channel": ((4, 1, 6, 6), (2, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "one row": ((3, 4, 1, 9), (4, 1, 1, 3), (1, 1), ((0, 0), (1, 1)), (1, 1), 4),
    "window of one": ((2, 3, 4, 5), (3, 1, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 3),
    "window of one, stride 2": ((2, 3, 4, 5), (3, 1, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 3),
    "no image": ((0, 3, 4, 5), (3, 1, 2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), 3),
    "dense": ((3, 4, 7, 6), (5, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "dense, stride 2": ((3, 4, 7, 6), (6, 2, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 2),
    "dense, window of one": ((3, 4, 5, 6), (6, 4, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "dense, window of one, no image": ((0, 4, 5, 6), (6, 4, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "dense, of one place": ((3, 4, 1, 1), (6, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "dense, no image": ((0, 4, 5, 6), (6, 4, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
}


def padded(x, padding):
    return np.pad(x, ((0, 0), (0, 0), *padding))


def spread(w, dilation):
    """A filter with zeros between its taps."""
    made = np.zeros([d * (k - 1) + 1 for d, k in zip(dilation, w.shape, strict=True)])
    made[:: dilation[0], :: dilation[1]] = w
    return made


def conv2d(x, w, b, stride, padding, dilation, groups):
    """Sums of SciPy's correlations."""
    out, per_group = w.shape[:2]
    x = padded(x, padding)
    images = []
    for image in x:
        channels = []
        for o in range(out):
            first = o // (out // groups) * per_group
            parts = [
                signal.correlate2d(image[first + c], spread(w[o, c], dilation), mode="valid") for c in range(per_group)
            ]
            channels.append(sum(parts)[:: stride[0], :: stride[1]] + b[o])
        images.append(channels)
    return np.asarray(images)


def taps(x, w, g, stride, padding, dilation, groups):
    """Each product of the convolution once: (image, filter, channel, tap, place in the padded image, place in g)."""
    out, per_group, kh, kw = w.shape
    for o, c, i, j in np.ndindex(out, per_group, kh, kw):
        channel = o // (out // groups) * per_group + c
        for p, q in np.ndindex(*g.shape[2:]):
            place = (slice(None), channel, p * stride[0] + i * dilation[0], q * stride[1] + j * dilation[1])
            yield (o, c, i, j), place, (slice(None), o, p, q)


def adjoints(x, w, g, stride, padding, dilation, groups):
    """The adjoints in the input and in the filters, product by product."""
    images = padded(x, padding)
    by_input, by_weight = np.zeros(images.shape), np.zeros(w.shape)
    with np.errstate(invalid="ignore"):
        for tap, place, at in taps(x, w, g, stride, padding, dilation, groups):
            by_input[place] += w[tap] * g[at]
            by_weight[tap] += (images[place] * g[at]).sum()
    (top, _), (left, _) = padding
    return by_input[:, :, top : top + x.shape[2], left : left + x.shape[3]], by_weight


WAYS = [
    "as chosen",
    "rows one by one",
    "in small blocks",
    "rows one by one, in small blocks",
    "two images at a time",
    "two images at a time, side by side",
    "image by image",
    "adjoints by sums",
    "adjoints by columns",
]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Choose how convolutions of few channels go, and how much they do at a time."""
    if "one by one" in request.param:
        monkeypatch.setattr(image_kernels, "LONG", 0)
    if "small" in request.param:
        monkeypatch.setattr(image_kernels, "PLANE_BYTES", 2000)
        monkeypatch.setattr(image_kernels, "WINDOW_BYTES", 2000)
    if "two" in request.param:
        monkeypatch.setattr(image_kernels._Windows, "images_at_a_time", lambda self, itemsize: 2)
    if "side by side" in request.param:
        monkeypatch.setattr(image_kernels, "FEW_PLACES", 1000)
    if "image by image" in request.param:
        monkeypatch.setattr(image_kernels, "FEW_PLACES", 0)
    if "adjoints" in request.param:
        monkeypatch.setattr(image_kernels, "FEW_PLACES", 0)
        monkeypatch.setattr(image_kernels, "WIDER", 0 if "sums" in request.param else 100)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution_and_its_adjoints(case):
    shape, filters, *how = CONVOLUTIONS[case]
    x, w, b = (RNG.normal(size=s) for s in (shape, filters, filters[:1]))
    y = image_kernels._conv2d(x, w, b, *how)
    if len(x):
        np.testing.assert_allclose(y, conv2d(x, w, b, *how), rtol=1e-12, atol=1e-12)
    g = RNG.normal(size=y.shape)
    by_input, by_weight = adjoints(x, w, g, *how)
    found = image_kernels._conv2d_input(g, w, shape[2:], *how)
    assert found.shape == x.shape
    assert not np.shares_memory(found, g)
    np.testing.assert_allclose(found, by_input, rtol=1e-12, atol=1e-12)
    found = image_kernels._conv2d_weight(x, g, filters[2:], *how)
    assert found.shape == w.shape
    np.testing.assert_allclose(found, by_weight, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtypes", [("f4", "f4", "f4"), ("f4", "f8", "f8"), ("f8", "f4", "f8"), ("f2", "f2", "f2")])
@pytest.mark.parametrize("case", ["stride 2", "depthwise", "dense"])
def test_dtypes_of_convolution(case, dtypes):
    shape, filters, *how = CONVOLUTIONS[case]
    one, other, result = dtypes
    x, w = RNG.normal(size=shape).astype(one), RNG.normal(size=filters).astype(other)
    y = image_kernels._conv2d(x, w, None, *how)
    assert y.dtype == result
    tolerance = {"f2": 3e-2, "f4": 1e-5}.get(min(one, other), 1e-12)
    np.testing.assert_allclose(y, conv2d(x.astype("f8"), w, np.zeros(len(w)), *how), rtol=tolerance, atol=tolerance)
    g = RNG.normal(size=y.shape).astype(one)
    by_input, by_weight = adjoints(x.astype("f8"), w.astype("f8"), g.astype("f8"), *how)
    assert image_kernels._conv2d_input(g, w, shape[2:], *how).dtype == result
    np.testing.assert_allclose(
        image_kernels._conv2d_input(g, w, shape[2:], *how), by_input, rtol=tolerance, atol=4 * tolerance
    )
    np.testing.assert_allclose(
        image_kernels._conv2d_weight(x, g, filters[2:], *how), by_weight, rtol=tolerance, atol=20 * tolerance
    )


@pytest.mark.parametrize("case", ["depthwise, no padding", "dilation", "dense", "dense, stride 2"])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("places", [0, image_kernels.FEW_PLACES, 1000])
@np.errstate(invalid="ignore")  # the engine is quiet, too; whether NumPy warns depends on its version
def test_what_is_not_finite_stays_where_it_belongs(case, bad, places, monkeypatch):
    """An infinity meets the products it has a part in, and no zeros that stand between the images."""
    monkeypatch.setattr(image_kernels, "FEW_PLACES", places)
    shape, filters, *how = CONVOLUTIONS[case]
    x, w = RNG.normal(size=shape), RNG.normal(size=filters)
    y = image_kernels._conv2d(x, w, None, *how)
    g = RNG.normal(size=y.shape)
    x[0, 0, 0, -1] = bad
    _, by_weight = adjoints(x, w, g, *how)
    np.testing.assert_allclose(image_kernels._conv2d_weight(x, g, filters[2:], *how), by_weight, rtol=1e-9)
    x[0, 0, 0, -1] = 0
    w[0, 0, 0, 0] = bad
    by_input, _ = adjoints(x, w, g, *how)
    np.testing.assert_allclose(image_kernels._conv2d_input(g, w, shape[2:], *how), by_input, rtol=1e-9)


def test_images_that_are_views():
    x = np.broadcast_to(RNG.normal(size=(1, 1, 6, 1)), (2, 4, 6, 5))
    w, g = RNG.normal(size=(4, 1, 3, 3)), np.broadcast_to(RNG.normal(size=(1, 1, 1, 3)), (2, 4, 4, 3))
    how = ((1, 1), ((0, 0), (0, 0)), (1, 1), 4)
    np.testing.assert_allclose(
        image_kernels._conv2d(x, w, None, *how), conv2d(x, w, np.zeros(4), *how), rtol=1e-9, atol=1e-12
    )
    by_input, by_weight = adjoints(x, w, g, *how)
    np.testing.assert_allclose(image_kernels._conv2d_input(g, w, (6, 5), *how), by_input, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(image_kernels._conv2d_weight(x, g, (3, 3), *how), by_weight, rtol=1e-9, atol=1e-12)


def test_groups_that_do_not_divide_are_refused():
    with pytest.raises((ValueError, RuntimeError), match="groups"):
        F.conv2d(ag.zeros((1, 5, 4, 4)), ag.zeros((4, 1, 3, 3)), groups=4)
    with pytest.raises((ValueError, RuntimeError), match="groups"):
        F.conv2d(ag.zeros((1, 4, 4, 4)), ag.zeros((6, 1, 3, 3)), groups=4)


def normal_slope(x):
    return special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1.5e-6), ("f8", 4e-15), ("f2", 1e-3)])
@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_gelu_against_scipy(dtype, tolerance, size):
    x = (np.linspace(-6, 6, size) if size > 1 else np.asarray([0.3])).astype(dtype)
    exact = x.astype("f8")
    for kernel, formula in (
        (nn_kernels._gelu, exact * special.ndtr(exact)),
        (nn_kernels._normal_cdf, special.ndtr(exact)),
        (nn_kernels._gelu_slope, normal_slope(exact)),
    ):
        y = kernel(x)
        assert y.dtype == dtype
        np.testing.assert_allclose(y, formula, rtol=30 * tolerance, atol=tolerance / 8)  # relative in the tail, too
        near = np.abs(exact) < 1
        np.testing.assert_allclose(y[near], formula[near], rtol=tolerance, atol=tolerance / 8)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_gelu_of_extreme_values(dtype):
    x = np.asarray([1e30, -1e30, np.inf, 0.0, -0.0, 50.0, -50.0], dtype)
    assert nn_kernels._gelu(x).tolist() == [x[0], 0.0, np.inf, 0.0, 0.0, 50.0, 0.0]
    assert nn_kernels._gelu_slope(x).tolist() == [1.0, 0.0, 1.0, 0.5, 0.5, 1.0, 0.0]
    assert nn_kernels._normal_cdf(x).tolist() == [1.0, 0.0, 1.0, 0.5, 0.5, 1.0, 0.0]
    assert np.isnan(nn_kernels._gelu(np.asarray([np.nan, 1.0], dtype))).tolist() == [True, False]
    assert nn_kernels._gelu(np.empty((0, 3), dtype)).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_silu_and_its_slope(dtype):
    x = np.linspace(-90, 90, 50_001).astype(dtype)
    exact = x.astype("f8")
    s = special.expit(exact)
    tolerance = {"f4": 1e-5, "f8": 1e-13}[dtype]
    np.testing.assert_allclose(nn_kernels._silu(x), exact * s, rtol=tolerance, atol=1e-30)
    np.testing.assert_allclose(nn_kernels._silu_slope(x), s * (1 + exact * (1 - s)), rtol=tolerance, atol=tolerance / 8)


INDICES = {
    "few, often": RNG.integers(0, 3, 200),
    "many, seldom": RNG.integers(0, 500, 200),
    "one often, others seldom": np.where(RNG.random(300) < 0.5, 7, RNG.integers(0, 400, 300)),
    "all different": RNG.permutation(400)[:50],
    "all the same": np.full(100, 5),
    "none": np.zeros(0, np.int64),
    "two axes": RNG.integers(0, 400, (6, 9)),
    "small integers": RNG.integers(0, 200, 90).astype(np.uint8),
    "large table": RNG.integers(0, 70_000, 90),
}


@pytest.mark.parametrize("width", [1, 5, 0])
@pytest.mark.parametrize("case", INDICES)
def test_embedding_adds_up_rows(case, width):
    indices = INDICES[case]
    shape = (70_000 if case == "large table" else 500, width)
    g = RNG.normal(size=(*indices.shape, width))
    expected = np.zeros(shape)
    np.add.at(expected, indices, g)
    found = nn_kernels._embedding_adjoint(g, indices, SimpleNamespace(shape=shape))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("rows", "length"), list(itertools.product((1, 3, 700), (1, 7, 600))))
def test_layer_norm_in_blocks(rows, length):
    x, w, b, g = (RNG.normal(size=s) for s in ((rows, length), length, length, (rows, length)))
    size = np.getbufsize()
    y, mean, scale = nn_kernels._layer_norm(x, w, b, 1, 1e-5)
    by_input = nn_kernels._layer_norm_input(g, x, w, mean, scale, 1)
    by_weight = nn_kernels._layer_norm_weight(g, x, mean, scale, 1)
    assert np.getbufsize() == size
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    h = g * w
    slope = h - h.mean(1, keepdims=True) - normal * (h * normal).mean(1, keepdims=True)
    np.testing.assert_allclose(y, normal * w + b, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_input, slope / np.sqrt(x.var(1, keepdims=True) + 1e-5), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(by_weight, (g * normal).sum(0), rtol=1e-9, atol=1e-10)


def batch_norm(x, w, b, g, eps):
    """The result, mean, variance and scale, and the cotangents of x, w and b."""
    axes, each = (0, *range(2, x.ndim)), (1, -1, *(1,) * (x.ndim - 2))
    mean, variance = x.mean(axes), x.var(axes)
    scale = 1 / np.sqrt(variance + eps)
    normal = (x - mean.reshape(each)) * scale.reshape(each)
    h = g * w.reshape(each)
    slope = h - h.mean(axes, keepdims=True) - normal * (h * normal).mean(axes, keepdims=True)
    gradients = slope * scale.reshape(each), (g * normal).sum(axes), g.sum(axes)
    return (normal * w.reshape(each) + b.reshape(each), mean, variance, scale), gradients


@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1e-5), ("f8", 1e-12), ("f2", 1e-2)])
@pytest.mark.parametrize("block", [1, 200, 2**17])
@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 1, 1), (5, 2, 2), (3, 2, 3, 5), (3, 4, 9, 9), (2, 2, 100)])
def test_batch_norm_in_blocks(shape, block, dtype, tolerance, monkeypatch):
    monkeypatch.setattr(nn_kernels, "BLOCK_BYTES", block)
    x, g = RNG.normal(size=(2, *shape)).astype(dtype)
    w, b = RNG.normal(size=(2, shape[1])).astype(dtype)
    expected, gradients = batch_norm(*(a.astype("f8") for a in (x, w, b, g)), 1e-3)
    made = nn_kernels._batch_norm(x, w, b, 1e-3)
    adjoints = nn_kernels._batch_norm_adjoint(g, x, w, made[1], made[3])
    for found, known in zip((*made, *adjoints), (*expected, *gradients), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, known, rtol=tolerance, atol=30 * tolerance)


def test_batch_norm_of_half_precision_sums_beyond_its_range():
    x = np.full((2048, 1), 100, "f2")
    x[::2] = 101
    _, mean, variance, _ = nn_kernels._batch_norm(x)
    assert (mean.tolist(), variance.tolist()) == ([100.5], [0.25])


@pytest.mark.parametrize("dtypes", [("f4", "f8"), ("f8", "f4")])
def test_batch_norm_with_weights_of_another_dtype(dtypes):
    x, g = RNG.normal(size=(2, 6, 3)).astype(dtypes[0])
    w, b = RNG.normal(size=(2, 3)).astype(dtypes[1])
    (y, *_), (by_input, by_weight, _) = batch_norm(x.astype("f8"), w, b, g, 1e-5)
    made = nn_kernels._batch_norm(x, w, b)
    assert [part.dtype for part in made] == ["f8", *dtypes[:1] * 3]
    np.testing.assert_allclose(made[0], y, rtol=1e-5, atol=1e-5)
    found = nn_kernels._batch_norm_adjoint(g, x, w, made[1], made[3])
    np.testing.assert_allclose(found[0], by_input, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], by_weight, rtol=1e-5, atol=1e-5)


def test_residuals_have_the_shapes_of_the_composed_kernels():
    """A batch of cotangents, or a lazy one, runs the composed derivative on what these kernels have left."""
    from agrad.core.op import OPS
    from agrad.plugin import manager

    xp = manager.get("numpy").xp
    for shape, rank in [((4, 3), 1), ((2, 4, 3), 1), ((2, 4, 3), 2), ((4, 3), 2), ((0, 3), 1)]:
        arguments = (RNG.normal(size=shape), None, None, rank, 1e-5)
        with np.errstate(all="ignore"):
            ours, composed = xp.nn.layer_norm(*arguments), OPS["nn.layer_norm"].kernel(xp, *arguments)
        for a, b in zip(ours, composed, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    for shape in [(4, 3), (2, 3, 1), (2, 3, 4, 20), (0, 3), (2, 0), (2, 3, 0)]:
        arguments = (RNG.normal(size=shape), None, None, 1e-5)
        with np.errstate(all="ignore"):
            ours, composed = xp.nn.batch_norm(*arguments), OPS["nn.batch_norm"].kernel(xp, *arguments)
        for a, b in zip(ours, composed, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    for shape in [(4, 3), (3,), (2, 3, 4), (2, 3, 4, 2)]:
        target = RNG.integers(0, 3, size=shape[:1] * (len(shape) > 1) + shape[2:])
        for weight, ignored in [(None, -100), (RNG.uniform(size=3), 1)]:
            arguments = (RNG.normal(size=shape), target, weight, ignored, "none")
            ours, composed = xp.nn.cross_entropy(*arguments), OPS["nn.cross_entropy"].kernel(xp, *arguments)
            if weight is None:
                ours = *ours[:2], np.ones(target.shape) if ours[2] is None else ours[2]
            for a, b in zip(ours, composed, strict=True):
                assert np.shape(a) == np.shape(b)
                np.testing.assert_allclose(a, b, rtol=1e-12)


def lstm(x, h, c, weight, backwards):
    """Step by step, by SciPy's sigmoid."""
    made = np.empty((2, len(x), *h.shape))
    for t in range(len(x))[:: -1 if backwards else 1]:
        i, f, g, o = np.split(x[t] + h @ weight.T, 4, axis=-1)
        c = special.expit(f) * c + special.expit(i) * np.tanh(g)
        made[0, t] = h = special.expit(o) * np.tanh(c)
        made[1, t] = c
    return made


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("length", "batch", "n"), [(1, 1, 1), (4, 1, 1), (3, 2, 1), (3, 1, 4), (5, 3, 17), (2, 0, 3)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 2e-6), ("f8", 1e-14), ("f2", 4e-3)])
def test_lstm_over_a_sequence(length, batch, n, backwards, dtype, tolerance):
    rng = np.random.default_rng(11)  # the errors depend on the draws: the same ones, whichever tests ran before
    shapes = (length, batch, 4 * n), (batch, n), (batch, n), (4 * n, n)
    operands = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    copies = [a.copy() for a in operands]
    made, gates, inner = nn_kernels._lstm(*operands, backwards)
    assert made.dtype == dtype
    expected = lstm(*(a.astype("f8") for a in operands), backwards)
    np.testing.assert_allclose(made, expected, rtol=tolerance, atol=tolerance)
    g = rng.normal(size=made.shape).astype(dtype)
    found = nn_kernels._lstm_adjoint(g, *operands[1:], made, gates, inner, backwards)
    assert [(a.shape, a.dtype) for a in found] == [(a.shape, a.dtype) for a in operands]
    for a, b in zip(operands, copies, strict=True):
        np.testing.assert_array_equal(a, b)
    if dtype == "f8":  # the slope along a direction
        ways = [RNG.normal(size=shape) for shape in shapes]
        step, weights = 3e-5, {1: 8, -1: -8, 2: -1, -2: 1}  # the difference of fourth order
        ends = [
            by * np.sum(g * lstm(*(a + n * step * w for a, w in zip(operands, ways, strict=True)), backwards))
            for n, by in weights.items()
        ]
        slope = sum(np.sum(a * w) for a, w in zip(found, ways, strict=True))
        assert slope == pytest.approx(sum(ends) / (12 * step), rel=1e-8, abs=1e-8)


def test_lstm_of_large_and_of_bad_numbers():
    """A gate that is shut or open to the last digit is 0 or 1, and makes no warning; NaN stays in its row."""
    x = np.zeros((1, 3, 4))
    x[0, 0], x[0, 1], x[0, 2, 0] = 1e4, -1e4, np.nan
    with np.errstate(all="raise", under="ignore"):
        made, *_ = nn_kernels._lstm(x, np.zeros((3, 1)), np.ones((3, 1)), np.zeros((4, 1)))
    np.testing.assert_array_equal(made[1, 0], [[2.0], [0.0], [np.nan]])


INF = math.inf


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        (RNG.normal(size=(4, 5)), None),
        (RNG.normal(size=(4, 5)) - 1.6, 1),
        (RNG.normal(size=(2, 3, 4)), (0, -1)),
        (RNG.normal(size=()), None),
        ([0.0, -40.0], 0),
        ([-math.log(2), -math.log(2)], 0),
        ([[0.0, -40.0], [3.0, 3.0], [-5.0, 2.0]], 1),
        ([[INF, 1.0], [INF, INF], [-INF, -INF], [-INF, 2.0], [math.nan, 1.0], [1e300, 1e300]], 1),
    ],
)
def test_sums_of_exponentials(values, axis):
    """SciPy's numbers, each row by itself: those whose logarithms cancel keep their digits beside others that need none."""
    a = np.asarray(values)
    with np.errstate(invalid="ignore", over="ignore"):  # SciPy's; and of numbers too large for float32
        expected = special.logsumexp(a, axis=axis)
        for keepdims in (False, True):
            found = special_kernels._logsumexp(a, axis=axis, keepdims=keepdims)
            np.testing.assert_allclose(found, special.logsumexp(a, axis=axis, keepdims=keepdims), rtol=2e-15)
        shares = special_kernels._shares(a, axis=axis)
        usual = np.isfinite(special.logsumexp(a, axis=axis, keepdims=True))
        np.testing.assert_allclose(
            np.where(usual, shares, 0), np.where(usual, special.softmax(a, axis=axis), 0), rtol=1e-14
        )
        assert found.dtype == shares.dtype == a.dtype
        assert special_kernels._logsumexp(a.astype("f4"), axis=axis).shape == expected.shape


def test_shares_of_what_is_infinite():
    a = np.asarray([[INF, 1.0, INF], [-INF, -INF, -INF], [INF, -INF, 0.0], [math.nan, 1.0, 1.0]])
    with np.errstate(all="raise"):
        shares = special_kernels._shares(a, axis=1)
        found = special_kernels._logsumexp(a, axis=1)
        for row, expected, total in zip(a, shares, found, strict=True):  # one number has ways of its own
            np.testing.assert_array_equal(special_kernels._shares(row, axis=0), expected)
            np.testing.assert_array_equal(special_kernels._logsumexp(row, axis=0), total)
    np.testing.assert_array_equal(found, [INF, -INF, INF, math.nan])
    np.testing.assert_array_equal(shares, [[0.5, 0, 0.5], [0, 0, 0], [1, 0, 0], [math.nan] * 3])


def test_numbers_stacked_promote_and_are_new():
    stack, unstack = kernels.KERNELS["stack"], kernels.KERNELS["unstack"]
    parts = [np.asarray(1, "i4"), np.asarray(0.5, "f4"), np.asarray(2.0)]
    for chosen in (parts, parts[1:], parts[:1], [np.asarray(True), parts[0]]):
        found = stack(chosen, axis=0)
        assert (found.dtype, found.shape) == (np.result_type(*chosen), (len(chosen),))
        np.testing.assert_array_equal(found, [part.item() for part in chosen])
        assert not np.shares_memory(found, chosen[0])
    for bad in ([], [parts[0], np.ones(2)]):
        with pytest.raises(ValueError, match="array"):
            stack(bad, axis=0)
    x = RNG.standard_normal((2, 3, 4))
    for axis in (0, 1, -1):
        made = unstack(x, axis=axis)
        assert all(isinstance(part, np.ndarray) and np.shares_memory(part, x) for part in made)
        np.testing.assert_array_equal(stack(made, axis=axis), x)
    assert all(isinstance(part, np.ndarray) for part in unstack(x[0, 0], axis=0))
