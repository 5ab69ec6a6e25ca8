"""Every function of ``nn.functional``: values against formulas in NumPy, derivatives against finite differences.

First order in both modes and second order, on numpy and on array-api-strict.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import agrad as ag
from agrad.testing import gradcheck, gradgradcheck

F = ag.nn.functional
RNG = np.random.default_rng(7)


def draw(*shape):
    return RNG.normal(size=shape)


X, W, B = draw(3, 4), draw(5, 4), draw(5)
IMAGES, KERNEL, SHIFT = draw(2, 4, 5, 6), draw(6, 2, 3, 2), draw(6)
CLASSES = np.array([2, 0, 3])
TARGET = RNG.uniform(0.1, 0.9, size=(3, 4))
POSITIVE = RNG.uniform(0.1, 0.9, size=(3, 4))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.vectorize(math.erf)(x)


def conv2d(x, w, b, stride, padding, dilation, groups):
    """The definition, loop by loop."""
    n, c, height, width = x.shape
    out, per_group, kh, kw = w.shape
    padded = np.zeros((n, c, height + 2 * padding[0], width + 2 * padding[1]))
    padded[:, :, padding[0] : padding[0] + height, padding[1] : padding[1] + width] = x
    oh = (padded.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (padded.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    result = np.zeros((n, out, oh, ow))
    for o in range(out):
        first = (o // (out // groups)) * per_group
        for i in range(oh):
            for j in range(ow):
                rows = slice(i * stride[0], i * stride[0] + dilation[0] * (kh - 1) + 1, dilation[0])
                columns = slice(j * stride[1], j * stride[1] + dilation[1] * (kw - 1) + 1, dilation[1])
                window = padded[:, first : first + per_group, rows, columns]
                result[:, o, i, j] = (window * w[o]).sum(axis=(1, 2, 3)) + b[o]
    return result


def pool(x, reduce, size, stride):
    oh, ow = ((x.shape[2 + a] - size[a]) // stride[a] + 1 for a in (0, 1))
    result = np.zeros((*x.shape[:2], oh, ow))
    for i in range(oh):
        for j in range(ow):
            rows, columns = i * stride[0], j * stride[1]
            result[:, :, i, j] = reduce(x[:, :, rows : rows + size[0], columns : columns + size[1]], axis=(2, 3))
    return result


def layer_norm(x, w, b):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * w + b


def picked(logs):
    return -logs[np.arange(3), CLASSES]


#: Name: the call, its operands, the formula.
CASES = {
    "relu": (F.relu, (X,), lambda x: np.maximum(x, 0)),
    "leaky_relu": (F.leaky_relu, (X,), lambda x: np.where(x > 0, x, 0.01 * x)),
    "elu": (F.elu, (X,), lambda x: np.where(x > 0, x, np.expm1(x))),
    "softplus": (F.softplus, (X,), lambda x: np.log1p(np.exp(x))),
    "silu": (F.silu, (X,), lambda x: x * sigmoid(x)),
    "sigmoid": (F.sigmoid, (X,), sigmoid),
    "tanh": (F.tanh, (X,), np.tanh),
    "gelu": (F.gelu, (X,), lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    "gelu tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        (X,),
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "softmax": (lambda x: F.softmax(x, 1), (X,), softmax),
    "softmax over rows": (lambda x: F.softmax(x, 0), (X,), lambda x: softmax(x.T).T),
    "log_softmax": (lambda x: F.log_softmax(x, -1), (X,), lambda x: np.log(softmax(x))),
    "linear": (F.linear, (X, W, B), lambda x, w, b: x @ w.T + b),
    "linear without bias": (F.linear, (X, W), lambda x, w: x @ w.T),
    "linear on a batch": (F.linear, (draw(2, 3, 4), W, B), lambda x, w, b: x @ w.T + b),
    "linear on a vector": (F.linear, (draw(4), W, B), lambda x, w, b: x @ w.T + b),
    "mse_loss": (
        lambda x: F.mse_loss(x, ag.asarray(TARGET, device=x.device)),
        (X,),
        lambda x: ((x - TARGET) ** 2).mean(),
    ),
    "l1_loss": (lambda x: F.l1_loss(x, ag.asarray(TARGET, device=x.device)), (X,), lambda x: np.abs(x - TARGET).mean()),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, ag.asarray(CLASSES, device=x.device)),
        (X,),
        lambda x: picked(np.log(softmax(x))).mean(),
    ),
    "cross_entropy sum": (
        lambda x: F.cross_entropy(x, ag.asarray(CLASSES, device=x.device), reduction="sum"),
        (X,),
        lambda x: picked(np.log(softmax(x))).sum(),
    ),
    "cross_entropy of probabilities": (
        F.cross_entropy,
        (X, softmax(draw(3, 4))),
        lambda x, p: -(p * np.log(softmax(x))).sum(axis=1).mean(),
    ),
    "nll_loss": (lambda x: F.nll_loss(x, ag.asarray(CLASSES, device=x.device)), (X,), lambda x: picked(x).mean()),
    "binary_cross_entropy": (
        F.binary_cross_entropy,
        (POSITIVE, TARGET),
        lambda p, y: -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean(),
    ),
    "binary_cross_entropy_with_logits": (
        F.binary_cross_entropy_with_logits,
        (X, TARGET),
        lambda x, y: -(y * np.log(sigmoid(x)) + (1 - y) * np.log(1 - sigmoid(x))).mean(),
    ),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (X, draw(4), draw(4)), layer_norm),
    "embedding": (
        lambda w: F.embedding(ag.asarray(np.array([[1, 0], [1, 4]]), device=w.device), w),
        (W,),
        lambda w: w[np.array([[1, 0], [1, 4]])],
    ),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
        (IMAGES, KERNEL, SHIFT),
        lambda x, w, b: conv2d(x, w, b, (2, 1), (1, 0), (1, 2), 2),
    ),
    "conv2d plain": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        (draw(1, 2, 4, 4), draw(3, 2, 3, 3), draw(3)),
        lambda x, w, b: conv2d(x, w, b, (1, 1), (1, 1), (1, 1), 1),
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, (2, 3), (2, 2)),
        (IMAGES,),
        lambda x: pool(x, np.max, (2, 3), (2, 2)),
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (IMAGES,), lambda x: pool(x, np.mean, (2, 2), (2, 2))),
}

#: Too many elements for a full Jacobian of the gradient: checked along random directions.
LARGE = ("conv2d", "max_pool2d", "avg_pool2d")

pytestmark = pytest.mark.parametrize("backend", ["numpy", "strict"], indirect=True)


@pytest.mark.parametrize("case", CASES)
def test_value(case, make, close):
    call, operands, formula = CASES[case]
    close(call(*map(make, operands)), formula(*operands), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case, make):
    call, operands, _ = CASES[case]
    leaves = [make(a, requires_grad=True) for a in operands]
    fast = case in LARGE
    assert gradcheck(call, leaves, check_forward_ad=True, fast_mode=fast)
    assert gradgradcheck(call, leaves, fast_mode=fast)


def test_dropout_scales_what_it_keeps_and_repeats_under_a_seed(make, value):
    x = make(np.ones((40, 50)), requires_grad=True)
    ag.manual_seed(3)
    y = F.dropout(x, 0.25)
    ag.manual_seed(3)
    again = F.dropout(x, 0.25)
    kept = value(y)
    assert set(np.unique(kept)) == {0.0, 1 / 0.75}
    assert 0.68 < (kept > 0).mean() < 0.82
    np.testing.assert_array_equal(kept, value(again))
    y.sum().backward()
    np.testing.assert_array_equal(value(x.grad), kept)
    assert F.dropout(x, 0.25, training=False) is x


def test_max_pooling_gives_the_gradient_to_the_first_of_equals(make):
    x = make(np.zeros((1, 1, 2, 2)), requires_grad=True)
    F.max_pool2d(x, 2).backward(make(np.ones((1, 1, 1, 1))))
    assert x.grad.tolist() == [[[[1.0, 0.0], [0.0, 0.0]]]]


def test_relu_has_gradient_zero_at_zero(make):
    x = make([-1.0, 0.0, 2.0], requires_grad=True)
    F.relu(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


def test_extreme_logits_stay_finite(make):
    x = make([[1000.0, -1000.0]], requires_grad=True)
    F.cross_entropy(x, make([0])).backward()
    assert x.grad.tolist() == [[0.0, 0.0]]
    z = make([1000.0, -1000.0], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(z, make([0.0, 0.0]))
    loss.backward()
    assert loss.item() == 500.0
    assert z.grad.tolist() == pytest.approx([0.5, 0.0], abs=1e-300)


def test_node_names_are_pytorchs(make):
    x = make(X, requires_grad=True)
    assert F.log_softmax(x, 1).grad_fn.name() == "LogSoftmaxBackward0"
    assert F.binary_cross_entropy_with_logits(x, make(TARGET)).grad_fn.name() == "BinaryCrossEntropyWithLogitsBackward0"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: F.linear(m(X), m(draw(5, 3))), "linear"),
        (lambda m: F.conv2d(m(IMAGES), m(draw(6, 3, 3, 3))), "conv2d"),
        (lambda m: F.cross_entropy(m(X), m([0, 1])), "cross_entropy"),
        (lambda m: F.layer_norm(m(X), (3,)), "layer_norm"),
        (lambda m: F.mse_loss(m(X), m(X), reduction="most"), "most"),
        (lambda m: F.dropout(m(X), 1.5), "dropout probability has to be between 0 and 1, but got 1.5"),
    ],
)
def test_bad_input_is_named(call, words, make):
    with pytest.raises((ValueError, RuntimeError), match=words) as raised:
        call(make)
    assert "test_gradients.py" in str(raised.value) or "most" in words
