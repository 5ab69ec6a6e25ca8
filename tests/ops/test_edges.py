"""Operands at the edge of what an operation takes: of length 0, without axes, of one element, singular, of integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import agrad as ag
from agrad.nn import functional as F

EVERYWHERE = pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)


def gradient(function, x):
    return ag.grad(function(x).sum(), x)[0]


# -- axes of length 0 ---------------------------------------------------------------------------------------------------


@EVERYWHERE
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
@pytest.mark.parametrize(("shape", "axis"), [((2, 0), 1), ((2, 0), 0), ((0,), 0), ((3, 0, 2), -1)])
def test_softmax_of_nothing_is_nothing(function, shape, axis, backend):
    x = ag.zeros(shape, device=backend, requires_grad=True)
    y = function(x, axis)
    assert (y.shape, y.dtype) == (shape, x.dtype)
    assert gradient(lambda x: function(x, axis), x).shape == shape


@EVERYWHERE
@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [((2, 0), 1, [-math.inf] * 2), ((2, 0), 0, []), ((0,), None, -math.inf), ((2, 0, 2), (0, 1), [-math.inf] * 2)],
)
def test_logsumexp_of_nothing(shape, axis, expected, backend, recwarn):
    x = ag.zeros(shape, device=backend, requires_grad=True)
    assert ag.special.logsumexp(x, axis=axis).tolist() == expected
    assert gradient(lambda x: ag.special.logsumexp(x, axis=axis), x).shape == shape
    assert ag.special.logsumexp(x, axis=axis, keepdims=True).ndim == len(shape)
    assert not [w for w in recwarn if w.category is RuntimeWarning]
    assert ag.func.jvp(lambda x: ag.special.logsumexp(x, axis=axis), (x.detach(),), (x.detach(),))[1].shape == np.shape(
        expected
    )


def test_logsumexp_of_nothing_with_factors(numpy_backend):
    x = ag.zeros((2, 0))
    with np.errstate(divide="ignore"):
        assert ag.special.logsumexp(x, axis=1, b=ag.ones((2, 0))).tolist() == [-math.inf] * 2


@EVERYWHERE
def test_the_largest_norm_of_nothing(backend):
    assert ag.linalg.vector_norm(ag.ones((2, 0), device=backend), axis=1, ord=math.inf).tolist() == [0.0, 0.0]


# -- no axes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "dask"], indirect=True)
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("repeats", [3, [3]], ids=["number", "array"])
def test_repeat_of_no_axes(repeats, axis, backend):
    x = ag.asarray(2.0, device=backend, requires_grad=True)
    assert gradient(lambda x: ag.repeat(x, repeats, axis=axis) * 2.0, x).item() == 6.0


@EVERYWHERE
@pytest.mark.parametrize(
    "function",
    [
        lambda x: ag.fft.fft(x),
        lambda x: ag.fft.irfft(x),
        lambda x: ag.unstack(x),
        lambda x: ag.extra.logcumsumexp(x, axis=0),
        lambda x: ag.extra.cumulative_max(x, axis=0),
    ],
)
def test_what_needs_an_axis_says_so(function, backend):
    with pytest.raises(ValueError, match="must have at least 1 dimension"):
        function(ag.asarray(2.0, device=backend) + 0j if backend == "strict" else ag.asarray(2.0, device=backend))


@pytest.mark.parametrize("backend", ["numpy", "dask"], indirect=True)
def test_a_transform_over_no_axes(backend):
    x = ag.asarray(2.0, device=backend, requires_grad=True)
    assert gradient(lambda x: ag.real(ag.fft.fftn(x, axes=())), x).item() == 1.0


# -- numbers beside tensors ---------------------------------------------------------------------------------------------


@EVERYWHERE
def test_broadcast_arrays_takes_numbers(backend):
    x = ag.ones(2, device=backend, requires_grad=True)
    for a, b in (ag.broadcast_arrays(x, 3.0), reversed(ag.broadcast_arrays(3.0, x))):
        assert (a.tolist(), b.tolist(), a.device, b.device) == ([1.0, 1.0], [3.0, 3.0], backend, backend)
    assert gradient(lambda x: ag.broadcast_arrays(x, [[1.0], [2.0]])[0], x).tolist() == [2.0, 2.0]


# -- one element --------------------------------------------------------------------------------------------------------


@EVERYWHERE
@pytest.mark.parametrize("value", [2.0, [2.0], [3.0, 3.0]], ids=str)
def test_the_second_derivative_where_nothing_spreads(value, backend):
    x = ag.asarray(value, device=backend, requires_grad=True)
    (slope,) = ag.grad(ag.std(x), x, create_graph=True)
    (curvature,) = ag.grad(slope.sum(), x)
    zeros = np.zeros_like(value).tolist()
    assert (slope.tolist(), curvature.tolist()) == (zeros, zeros)


# -- singular matrices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3)], ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_of_a_singular_matrix(shape, mode, backend):
    x = ag.zeros(shape, device=backend, requires_grad=True)
    q, r = ag.linalg.qr(x, mode=mode)
    with pytest.raises(RuntimeError, match="not differentiable where the first") as raised:
        r.sum().backward()
    assert "The operation is LinalgQrBackward0, recorded at" in raised.value.__notes__[0]
    assert x.grad is None
    if mode == "reduced":
        with pytest.raises(RuntimeError, match="not differentiable where the first"):
            ag.func.jvp(ag.linalg.qr, (x.detach(),), (x.detach(),))
    assert ag.linalg.qr(x.detach(), mode=mode).R.tolist() == np.zeros(r.shape).tolist()
    assert q.shape[0] == shape[0]


# -- integers -----------------------------------------------------------------------------------------------------------


@EVERYWHERE
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_means_and_scales_of_integers_are_refused(dtype, backend):
    images = ag.ones((1, 1, 4, 4), dtype=dtype, device=backend)
    for pooled in (lambda: F.avg_pool2d(images, 2), lambda: F.adaptive_avg_pool2d(images, 2)):
        with pytest.raises(TypeError, match=r"avg_pool2d\(\) takes floating point images, not .*" + dtype):
            pooled()
    with pytest.raises(TypeError, match=r"dropout\(\) takes floating point tensors, not .*" + dtype):
        F.dropout(images)
    assert F.dropout(images, training=False) is images
