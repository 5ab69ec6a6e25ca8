"""nn.functional against PyTorch 2.13: values, gradients, second derivatives and tangents, whose numbers stand in a file.

On NumPy, which has kernels of its own for most of it, and on array-api-strict, which runs the kernels in the standard's
functions. `make_expected.py` has written the file. Derivatives against finite differences, on every backend, are those
of the samples in `agrad.testing.samples.nn`.
"""

from __future__ import annotations

import importlib.util
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad.core import forward
from agrad.ops import nn as ops

F = ag.nn.functional
HERE = Path(__file__).parent

spec = importlib.util.spec_from_file_location("nn_cases", HERE / "cases.py")
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)

EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))["cases"]


@pytest.fixture(params=cases.CASES)
def case(request):
    return request.param


@pytest.fixture
def call(case, make):
    function, *_ = cases.CASES[case]
    return lambda *operands: function(F, make, *operands)


@pytest.fixture
def operands(case, make):
    _, *arrays = cases.CASES[case]
    return [make(a, requires_grad=True) for a in arrays]


def agree(found, expected, case, tolerance=1e-12):
    """Compare, relative to the largest number. Where PyTorch has NaN (second derivatives of a norm at 0) anything goes."""
    expected = np.asarray(expected, dtype=float).reshape(found.shape)
    known = ~np.isnan(expected)
    found, expected = found[known], expected[known]
    size = max([1.0, *np.abs(expected)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size, err_msg=case)


def test_the_file_belongs_to_the_cases():
    assert set(EXPECTED) == set(cases.CASES)


def test_value_and_gradients(case, call, operands, make, value):
    expected = EXPECTED[case]
    result = call(*operands)
    assert list(result.shape) == expected["shape"]
    agree(value(result), expected["value"], case)
    result.backward(make(cases.cotangent(result.shape)))
    for operand, numbers in zip(operands, expected["gradients"], strict=True):
        agree(value(operand.grad), numbers, case)


def test_second_derivatives(case, call, operands, make, value):
    result = call(*operands)
    gradients = ag.autograd.grad(result, operands, make(cases.cotangent(result.shape)), create_graph=True)
    total = sum((g * make(cases.direction(i, g.shape))).sum() for i, g in enumerate(gradients))
    for g, numbers in zip(gradients, EXPECTED[case]["gradients"], strict=True):
        agree(value(g), numbers, case)
    if EXPECTED[case]["second"] is None:  # PyTorch has none; of the kernels in the standard's functions: the next test
        assert result.device != "numpy" or ag.autograd.gradgradcheck(call, operands)
        return
    # PyTorch adds 1e-12 to the denominators of this one; ours agrees with finite differences as far as those go
    tolerance = 1e-9 if case.startswith("binary_cross_entropy") else 1e-12
    found = [None] * len(operands)
    if total.requires_grad:
        found = ag.autograd.grad(total, operands, allow_unused=True)
    for operand, second, numbers in zip(operands, found, EXPECTED[case]["second"], strict=True):
        zeros = np.zeros(operand.shape)
        agree(zeros if second is None else value(second), zeros if numbers is None else numbers, case, tolerance)


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in EXPECTED if EXPECTED[case]["second"] is None], indirect=True)
def test_second_derivatives_that_pytorch_has_not(case, call, operands):
    assert ag.autograd.gradgradcheck(call, operands)


def test_tangents(case, call, operands, make, value):
    directions = [cases.direction(i, x.shape) for i, x in enumerate(operands)]
    with forward.level() as at:
        duals = [forward.with_tangent(x, make(d), at) for x, d in zip(operands, directions, strict=True)]
        result = call(*duals)
        tangent = value(forward.tangent_of(result, at))
    found = (tangent * cases.cotangent(result.shape)).sum()
    products = [
        (np.asarray(g).reshape(d.shape) * d) for g, d in zip(EXPECTED[case]["gradients"], directions, strict=True)
    ]
    size = max(np.abs(p).sum() for p in products)
    assert found == pytest.approx(sum(p.sum() for p in products), rel=0, abs=1e-12 * max(1.0, size))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_dtype_is_kept(dtype, make):
    x = make(cases.wave(2, 4), dtype=dtype, requires_grad=True)
    images = make(cases.wave(1, 2, 4, 4), dtype=dtype, requires_grad=True)
    filters = make(cases.wave(2, 2, 3, 3), dtype=dtype, requires_grad=True)
    scale, target = make(cases.wave(4), dtype=dtype, requires_grad=True), make(cases.share(2, 4), dtype=dtype)
    results = [
        F.relu(x),
        F.leaky_relu(x),
        F.elu(x),
        F.softplus(x),
        F.silu(x),
        F.sigmoid(x),
        F.gelu(x),
        F.gelu(x, "tanh"),
        F.softmax(x, 1),
        F.log_softmax(x, 1),
        F.linear(x, x, scale[:2]),
        F.layer_norm(x, 4, scale, scale),
        F.normalize(x),
        F.pad(x, (1, 1)),
        F.dropout(x),
        F.embedding(make([0, 1]), x),
        F.conv2d(images, filters, scale[:2], padding=1),
        F.max_pool2d(images, 2),
        F.avg_pool2d(images, 2),
        F.mse_loss(x, target),
        F.l1_loss(x, target),
        F.cross_entropy(x, make([0, 3])),
        F.cross_entropy(x, make([0, 3]), label_smoothing=0.1),
        F.nll_loss(x, make([0, 3])),
        F.binary_cross_entropy(F.sigmoid(x), target),
        F.binary_cross_entropy_with_logits(x, target),
    ]
    for result in results:
        assert ag.isdtype(result.dtype, getattr(ag, dtype)), result.grad_fn
        for leaf in (x, images, filters, scale):
            leaf.grad = None
        result.sum().backward()
        assert all(
            leaf.grad is None or ag.isdtype(leaf.grad.dtype, getattr(ag, dtype)) for leaf in (x, images, filters, scale)
        )


# -- extremes -------------------------------------------------------------------------------------------------------------


def test_activations_far_out_neither_overflow_nor_lose_their_digits(make, value):
    x = make([-800.0, -40.0, 40.0, 800.0], requires_grad=True)
    y = F.sigmoid(x)
    np.testing.assert_allclose(value(y)[1:], [math.exp(-40), 1.0, 1.0], rtol=1e-14)
    assert 0 <= value(y)[0] < 1e-300
    np.testing.assert_allclose(value(F.softplus(x)), [0.0, math.exp(-40), 40.0, 800.0], rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(value(F.logsigmoid(x)), [-800.0, -40.0, -math.exp(-40), 0.0], rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(value(F.elu(x)), [-1.0, -1.0, 40.0, 800.0], rtol=1e-14)
    (y + F.softplus(x) + F.elu(x) + F.silu(x) + F.gelu(x)).sum().backward()
    assert np.isfinite(value(x.grad)).all()


#: Φ(x) by mpmath, 50 digits.
NORMAL = {
    -30.0: 4.906713927148187e-198,
    -8.0: 6.220960574271785e-16,
    -5.0: 2.866515718791939e-07,
    -1.0: 0.15865525393145705,
    -0.01: 0.49601064368536847,
    0.0: 0.5,
    0.5: 0.6914624612740131,
    2.0: 0.9772498680518208,
    4.0: 0.9999683287581669,
}


def test_gelu_is_accurate_in_the_tail(make, value):
    x = np.array(list(NORMAL))
    np.testing.assert_allclose(value(F.gelu(make(x))), x * np.array(list(NORMAL.values())), rtol=1e-13)
    single = value(F.gelu(make(x, dtype="float32")))
    np.testing.assert_allclose(single[1:], (x * np.array(list(NORMAL.values())))[1:], rtol=4e-6)


def test_losses_of_huge_logits(make, value):
    z = make([[-1000.0, 1000.0], [1000.0, -1000.0]], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(z, make([[1.0, 1.0], [1.0, 0.0]]), reduction="sum")
    assert loss.item() == 1000.0
    loss.backward()
    np.testing.assert_allclose(value(z.grad), [[-1.0, 0.0], [0.0, 0.0]], atol=1e-300)
    z.grad = None
    loss = F.cross_entropy(z, make([0, 0]), reduction="sum")
    assert loss.item() == 2000.0
    loss.backward()
    np.testing.assert_allclose(value(z.grad), [[-1.0, 1.0], [0.0, 0.0]], atol=1e-300)


def test_binary_cross_entropy_limits_the_logarithm(make, value):
    p = make([0.0, 1.0, 0.0], requires_grad=True)
    loss = F.binary_cross_entropy(p, make([1.0, 0.0, 0.0]), reduction="none")
    assert value(loss).tolist() == [100.0, 100.0, 0.0]
    loss.sum().backward()
    np.testing.assert_allclose(value(p.grad), [-1e12, 1e12, 0.0])  # what PyTorch gives


def test_relu_at_zero_has_the_gradient_zero(make, value):
    x = make([-1.0, 0.0, 2.0], requires_grad=True)
    (F.relu(x) + F.leaky_relu(x, 0.1) + F.elu(x, 0.5)).sum().backward()
    np.testing.assert_allclose(value(x.grad), [0.1 + 0.5 * math.exp(-1), 0.1 + 0.5, 3.0])


def test_elu_at_zero_has_the_second_derivative_zero(make, value):
    x = make([-1.0, 0.0, 2.0], requires_grad=True)
    (g,) = ag.grad(F.elu(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(value(ag.grad(g.sum(), x)[0]), [math.exp(-1), 0.0, 0.0])  # as in PyTorch


def real_of(x):
    return ag.real(x) if x.is_complex() else x


@pytest.mark.parametrize("numbers", [(0.0, 2.0, -3.0), (0.0, 2.0 - 1.0j, 3.0)])
def test_normalize_is_smooth_where_an_element_is_zero(numbers, make, value):
    """Of y / n by the first element x, at x = 0: once 0, twice -y / n**3."""
    x = make(np.array(numbers), requires_grad=True)
    (g,) = ag.grad(real_of(F.normalize(x, dim=0)[1]), x, create_graph=True)
    (h,) = ag.grad(real_of(g[0]), x)
    n = np.linalg.norm(numbers)
    assert value(g)[0] == 0
    np.testing.assert_allclose(value(h)[0], -np.real(numbers[1]) / n**3, rtol=1e-14)


def test_nan_counts_as_the_maximum_of_a_window(make, value):
    x = make([[[[1.0, math.nan], [3.0, 2.0]]]], requires_grad=True)
    y = F.max_pool2d(x, 2)
    assert math.isnan(y.item())
    y.sum().backward()
    assert value(x.grad).tolist() == [[[[0.0, 1.0], [0.0, 0.0]]]]


def test_ignored_targets_count_nothing_even_at_infinity(make, value):
    logs = make([[-math.inf, 0.0], [-1.0, -2.0]])
    assert F.nll_loss(logs, make([-100, 1])).item() == 2.0
    only = F.cross_entropy(make([[1.0, 2.0]]), make([-100]))
    assert math.isnan(only.item())


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 3)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradients_where_every_target_is_ignored(make, value, shape, reduction):
    target = make(np.full(shape[:1] + shape[2:], -100))
    weight = make([0.5, 1.0, 2.0, 1.0])
    z = np.random.default_rng(0).normal(size=shape)
    for loss in (
        lambda x: F.cross_entropy(x, target, reduction=reduction),
        lambda x: F.cross_entropy(x, target, weight, reduction=reduction),
        lambda x: F.cross_entropy(x, target, label_smoothing=0.1, reduction=reduction),
        lambda x: F.nll_loss(x, target, reduction=reduction),
    ):
        x = make(z, requires_grad=True)
        y = loss(x)
        assert np.isnan(value(y)).all() if reduction == "mean" else not value(y).any()
        (g,) = ag.autograd.grad(y.sum(), [x], create_graph=True)
        assert value(g).tolist() == np.zeros(shape).tolist()
        y.sum().backward()
        assert value(x.grad).tolist() == np.zeros(shape).tolist()


def test_an_empty_batch(make):
    x = make(np.zeros((0, 3)), requires_grad=True)
    assert F.linear(x, make(np.zeros((2, 3)))).shape == (0, 2)
    assert F.relu(x).shape == (0, 3)
    assert F.cross_entropy(x, make(np.zeros((0,), dtype=np.int64)), reduction="sum").item() == 0.0


# -- dropout --------------------------------------------------------------------------------------------------------------


def test_dropout_is_scaled_and_seeded(make, value):
    x = make(np.ones((100, 100)), requires_grad=True)
    ag.manual_seed(7)
    y = F.dropout(x, 0.25)
    ag.manual_seed(7)
    again = F.dropout(x, 0.25)
    kept = value(y) != 0
    assert kept.mean() == pytest.approx(0.75, abs=0.02)
    np.testing.assert_allclose(value(y)[kept], 4 / 3)
    assert (value(again) == value(y)).all()
    y.sum().backward()
    assert (value(x.grad) == value(y)).all()


def test_dropout_of_nothing_and_of_everything(make, value):
    x = make(np.ones((3, 3)), requires_grad=True)
    assert F.dropout(x, 0.9, training=False) is x
    assert F.dropout(x, 0.0) is x
    y = F.dropout(x, 1.0)
    assert not value(y).any()
    y.sum().backward()
    assert not value(x.grad).any()


def test_dropout_takes_a_generator_of_its_own(value):
    x = ag.ones((50,))
    one = F.dropout(x, 0.5, generator=ag.random.Generator(1))
    two = F.dropout(x, 0.5, generator=ag.random.Generator(1))
    assert (value(one) == value(two)).all()


# -- others ---------------------------------------------------------------------------------------------------------------


def test_one_hot(make, value):
    made = F.one_hot(make([[2, 0], [1, 1]]))
    assert value(made).tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 1, 0]]]
    assert ag.isdtype(made.dtype, ag.int64)
    assert F.one_hot(make([1]), 4).tolist() == [[0, 1, 0, 0]]


def test_adaptive_pooling_takes_means_of_equal_windows(make, value):
    x = np.arange(24.0).reshape(1, 1, 4, 6)
    expected = x.reshape(1, 1, 2, 2, 3, 2).mean(axis=(3, 5))
    np.testing.assert_allclose(value(F.adaptive_avg_pool2d(make(x), (2, 3))), expected)


def test_a_raw_array_may_be_an_operand(make, value):
    weight = make(np.eye(3), requires_grad=True)
    y = F.linear(weight._raw, weight)
    assert value(y).tolist() == np.eye(3).tolist()


def test_complex_layers_have_the_adjoint_as_gradient(value):
    rng = np.random.default_rng(0)
    x, w, g = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((2, 3), (4, 3), (2, 4)))
    a, b = ag.tensor(x, requires_grad=True), ag.tensor(w, requires_grad=True)
    F.linear(a, b).backward(ag.tensor(g))
    np.testing.assert_allclose(value(a.grad), g @ w.conj())
    np.testing.assert_allclose(value(b.grad), g.T @ x.conj())
    a, b = ag.tensor(x, requires_grad=True), ag.tensor(w.real, requires_grad=True)
    F.linear(a, b).backward(ag.tensor(g))
    np.testing.assert_allclose(value(a.grad), g @ w.real)
    np.testing.assert_allclose(value(b.grad), (g.T @ x.conj()).real)


def beside(x):
    """A complex operand beside a real one."""
    return ag.asarray([1j, 0, 1], device=x.device)


#: Calls of one operand that is to be real floating.
REAL = {
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "softplus": F.softplus,
    "silu": F.silu,
    "logsigmoid": F.logsigmoid,
    "gelu": F.gelu,
    "softmax": lambda x: F.softmax(x, dim=-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1),
    "batch_norm": lambda x: F.batch_norm(x.reshape((-1, 1)), None, None, training=True),
    "layer_norm": lambda x: F.layer_norm(x, x.shape),
    "layer_norm, bias": lambda x: F.layer_norm(ag.ones_like(x, dtype="float64"), x.shape, bias=beside(x)),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "mse_loss, target": lambda x: F.mse_loss(ag.ones_like(x, dtype="float64"), beside(x)),
    "cross_entropy": lambda x: F.cross_entropy(x, ag.zeros((), dtype="int64", device=x.device)),
    "binary_cross_entropy": lambda x: ops.binary_cross_entropy(x, x),  # the function asks for the range first
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("dtype", ["complex128", "int64", "int8", "bool"])
def test_what_is_real_refuses_other_dtypes(name, dtype, make):
    """Their formulas have a maximum, an absolute value or an exponential's limit in them: of complex numbers no derivative."""
    with pytest.raises(TypeError, match=r"takes real floating tensors(.|\n)*test_functional.py:"):
        REAL[name](make([1, 0, 1], dtype=dtype))


def test_targets_may_be_integers(value):
    x, y = ag.tensor([0.3, -0.4], requires_grad=True), ag.tensor([1, 0])
    F.mse_loss(x, y).backward()
    np.testing.assert_allclose(value(x.grad), [-0.7, -0.4])


def test_softmax_of_a_number_is_one():
    x = ag.tensor(0.5, requires_grad=True)
    y = F.softmax(x, dim=-1)
    y.backward()
    assert (y.item(), x.grad.item()) == (1.0, 0.0)


@pytest.mark.parametrize("rows", [1, 3, 4, 64, 128, 129])
def test_large_weights_take_another_path_to_the_same_product(rows, value):
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in ((rows, 200), (180, 200), (180,)))
    exact = x.astype(float) @ w.astype(float).T
    for bias, expected in ((None, exact), (b, exact + b)):
        y = value(F.linear(ag.tensor(x), ag.tensor(w), None if bias is None else ag.tensor(bias)))
        assert y.flags.c_contiguous
        np.testing.assert_allclose(y, expected, rtol=0, atol=2e-4)


def test_many_blocks_agree_with_one(value):
    x = np.linspace(-6, 6, 40_001)
    whole = value(F.gelu(ag.asarray(x)))
    parts = np.concatenate([value(F.gelu(ag.asarray(part))) for part in np.array_split(x, 9)])
    assert (whole == parts).all()


def test_layers_do_not_warn_and_are_one_node_each(make):
    x, w = make(cases.wave(3, 4), requires_grad=True), make(cases.wave(2, 4), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = F.cross_entropy(F.linear(x, w, make([0.0, 1.0])), make([0, 1, 1]))
        loss.backward()
    names = []
    node = loss.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    assert names == ["CrossEntropyBackward0", "LinearBackward0", "AccumulateGrad"]


def test_node_names_are_pytorchs(make):
    x = make(cases.wave(3, 4), requires_grad=True)
    assert F.log_softmax(x, 1).grad_fn.name() == "LogSoftmaxBackward0"
    loss = F.binary_cross_entropy_with_logits(x, make(cases.share(3, 4)))
    assert loss.grad_fn.name() == "BinaryCrossEntropyWithLogitsBackward0"


# -- messages -------------------------------------------------------------------------------------------------------------

#: A call of functions and a maker of tensors; the exception; what the message must contain.
REFUSED = {
    "linear": (
        lambda m: F.linear(m(np.ones((2, 3))), m(np.ones((4, 5)))),
        RuntimeError,
        ["mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4)", "linear(): input (2, 3), weight (4, 5)"],
    ),
    "linear, bias": (
        lambda m: F.linear(m(np.ones((2, 3))), m(np.ones((4, 3))), m(np.ones((2, 4)))),
        RuntimeError,
        ["linear(): the bias must have shape (4,)", "bias (2, 4)"],
    ),
    "linear, weight": (
        lambda m: F.linear(m(np.ones((2, 3))), m(np.ones(3))),
        RuntimeError,
        ["linear(): expected input (..., in) and weight (out, in)"],
    ),
    "conv2d, channels": (
        lambda m: F.conv2d(m(np.ones((1, 2, 4, 4))), m(np.ones((3, 1, 2, 2)))),
        RuntimeError,
        ["Given groups=1, weight of size [3, 1, 2, 2]", "to have 1 channels, but got 2 channels"],
    ),
    "conv2d, bias": (
        lambda m: F.conv2d(m(np.ones((1, 2, 4, 4))), m(np.ones((3, 2, 2, 2))), m(np.ones(2))),
        RuntimeError,
        ["expected bias to be 1-dimensional with 3 elements"],
    ),
    "conv2d, window": (
        lambda m: F.conv2d(m(np.ones((1, 2, 4, 4))), m(np.ones((3, 2, 5, 5)))),
        RuntimeError,
        ["Kernel size can't be greater than actual input size", "conv2d(): input (1, 2, 4, 4)"],
    ),
    "conv2d, rank": (
        lambda m: F.conv2d(m(np.ones((4, 4))), m(np.ones((3, 2, 5, 5)))),
        RuntimeError,
        ["Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [4, 4]"],
    ),
    "conv2d, same": (
        lambda m: F.conv2d(m(np.ones((1, 2, 4, 4))), m(np.ones((3, 2, 2, 2))), stride=2, padding="same"),
        ValueError,
        ["padding='same' is not supported for strided convolutions"],
    ),
    "conv2d, word": (
        lambda m: F.conv2d(m(np.ones((1, 2, 4, 4))), m(np.ones((3, 2, 2, 2))), padding="reflect"),
        ValueError,
        ["Invalid padding string: 'reflect'"],
    ),
    "conv2d, stride": (
        lambda m: F.conv2d(m(np.ones((1, 2, 4, 4))), m(np.ones((3, 2, 2, 2))), stride=0),
        ValueError,
        ["conv2d(): kernel size, stride and dilation must be positive"],
    ),
    "max_pool2d, padding": (
        lambda m: F.max_pool2d(m(np.ones((1, 1, 4, 4))), 2, padding=2),
        RuntimeError,
        ["pad should be at most half of effective kernel size", "max_pool2d()"],
    ),
    "max_pool2d, integers": (
        lambda m: F.max_pool2d(m(np.ones((1, 1, 4, 4), dtype=np.int64)), 2),
        TypeError,
        ["max_pool2d() takes real floating point images"],
    ),
    "batch_norm, one value": (
        lambda m: F.batch_norm(m(np.ones((1, 3))), None, None, training=True),
        ValueError,
        ["Expected more than 1 value per channel when training, got input size [1, 3]"],
    ),
    "batch_norm, no running values": (
        lambda m: F.batch_norm(m(np.ones((2, 3))), None, m(np.ones(3))),
        RuntimeError,
        ["running_mean must be defined in evaluation mode"],
    ),
    "batch_norm, running values": (
        lambda m: F.batch_norm(m(np.ones((2, 3))), m(np.ones(4)), m(np.ones(3))),
        RuntimeError,
        ["running_mean should contain 3 elements not 4"],
    ),
    "batch_norm, weight": (
        lambda m: F.batch_norm(m(np.ones((2, 3))), None, None, m(np.ones(4)), training=True),
        RuntimeError,
        ["weight should contain 3 elements not 4"],
    ),
    "batch_norm, rank": (
        lambda m: F.batch_norm(m(np.ones(3)), None, None, training=True),
        RuntimeError,
        ["batch_norm() takes input of shape (N, C, ...), not (3,)"],
    ),
    "layer_norm": (
        lambda m: F.layer_norm(m(np.ones((2, 3))), (4,)),
        RuntimeError,
        ["Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]"],
    ),
    "layer_norm, weight": (
        lambda m: F.layer_norm(m(np.ones((2, 3))), (3,), m(np.ones(1))),
        RuntimeError,
        ["Expected weight to be of same shape as normalized_shape"],
    ),
    "embedding": (
        lambda m: F.embedding(m([0, 3]), m(np.ones((3, 2)))),
        IndexError,
        ["index out of range in self", "embedding(): the table has 3 rows, an index is 3"],
    ),
    "embedding, negative": (
        lambda m: F.embedding(m([0, -1]), m(np.ones((3, 2)))),
        IndexError,
        ["an index is -1"],
    ),
    "embedding, floats": (
        lambda m: F.embedding(m([0.0]), m(np.ones((3, 2)))),
        TypeError,
        ["embedding(): expected integer indices"],
    ),
    "one_hot": (lambda m: F.one_hot(m([3]), 3), RuntimeError, ["Class values must be smaller than num_classes."]),
    "one_hot, negative": (lambda m: F.one_hot(m([-1]), 3), RuntimeError, ["Class values must be non-negative."]),
    "cross_entropy, batch": (
        lambda m: F.cross_entropy(m(np.ones((3, 2))), m([0, 1])),
        ValueError,
        ["Expected input batch_size (3) to match target batch_size (2).", "cross_entropy(): input (3, 2)"],
    ),
    "cross_entropy, images": (
        lambda m: F.cross_entropy(m(np.ones((3, 2, 4))), m(np.zeros((3, 5), dtype=np.int64))),
        ValueError,
        ["Expected target size [3, 4], got [3, 5]"],
    ),
    "cross_entropy, weight": (
        lambda m: F.cross_entropy(m(np.ones((3, 2))), m([0, 1, 0]), m(np.ones(3))),
        RuntimeError,
        ["weight tensor should be defined either for all 2 classes"],
    ),
    "cross_entropy, gradient of the weight": (
        lambda m: F.cross_entropy(m(np.ones((3, 2))), m([0, 1, 0]), m(np.ones(2), requires_grad=True)),
        RuntimeError,
        ["the derivative for 'weight' is not implemented"],
    ),
    "cross_entropy, probabilities": (
        lambda m: F.cross_entropy(m(np.ones((3, 2))), m(np.ones((3, 3)))),
        ValueError,
        ["[3, 2], got [3, 3]"],
    ),
    "cross_entropy, smoothing": (
        lambda m: F.cross_entropy(m(np.ones((3, 2))), m([0, 1, 0]), label_smoothing=1.5),
        ValueError,
        ["label_smoothing must be between 0.0 and 1.0. Got: 1.5"],
    ),
    "reduction": (
        lambda m: F.mse_loss(m([1.0]), m([1.0]), reduction="average"),
        ValueError,
        ["average is not a valid value for reduction", "mse_loss()"],
    ),
    "binary_cross_entropy": (
        lambda m: F.binary_cross_entropy(m([1.5]), m([1.0])),
        RuntimeError,
        ["all elements of input should be between 0 and 1"],
    ),
    "binary_cross_entropy, target": (
        lambda m: F.binary_cross_entropy(m([0.5]), m([1.5])),
        RuntimeError,
        ["all elements of target should be between 0 and 1"],
    ),
    "margin_ranking_loss": (
        lambda m: F.margin_ranking_loss(m([[1.0], [2.0]]), m([1.0, 2.0]), m([1.0, 1.0])),
        RuntimeError,
        ["All input tensors should have same dimension", "(2, 1), (2,), (2,)"],
    ),
    "hardtanh": (lambda m: F.hardtanh(m([1.0]), 1.0, 0.0), ValueError, ["min_val cannot be greater than max_val"]),
    "instance_norm": (
        lambda m: F.instance_norm(m(np.ones((2, 3, 1)))),
        ValueError,
        ["Expected more than 1 spatial element when training, got input size [2, 3, 1]"],
    ),
    "binary_cross_entropy_with_logits": (
        lambda m: F.binary_cross_entropy_with_logits(m([1.5, 2.0]), m([1.0])),
        ValueError,
        ["Target size ((1,)) must be the same as input size ((2,))"],
    ),
    "linear, a list": (
        lambda m: F.linear(m(np.ones((2, 3))), [[1.0]]),
        TypeError,
        ["linear(): argument 'weight' must be Tensor, not list"],
    ),
    "mse_loss, a string": (
        lambda m: F.mse_loss(m([1.0]), "mean"),
        TypeError,
        ["mse_loss(): argument 'target' must be Tensor, not str"],
    ),
    "binary_cross_entropy_with_logits, None": (
        lambda m: F.binary_cross_entropy_with_logits(m([1.0]), None),
        TypeError,
        ["binary_cross_entropy_with_logits(): argument 'target' must be Tensor, not NoneType"],
    ),
    "nll_loss, a number": (
        lambda m: F.nll_loss(0.5, m([0])),
        TypeError,
        ["nll_loss(): argument 'input' must be Tensor, not float"],
    ),
    "softmax": (lambda m: F.softmax(m([1.0])), TypeError, ["softmax() needs the axis"]),
    "gelu": (lambda m: F.gelu(m([1.0]), "erf"), ValueError, ["approximate argument must be either none or tanh."]),
    "dropout": (
        lambda m: F.dropout(m([1.0]), 1.5),
        ValueError,
        ["dropout probability has to be between 0 and 1, but got 1.5"],
    ),
    "pad": (lambda m: F.pad(m([1.0]), (1, 2, 3)), ValueError, ["widths come in pairs"]),
    "pad, mode": (lambda m: F.pad(m([1.0]), (1, 2), "mirror"), NotImplementedError, ["not 'mirror'"]),
    "pad, reflect": (lambda m: F.pad(m([1.0, 2.0]), (1, 2), "reflect"), ValueError, ["too large for mode 'reflect'"]),
    "glu": (lambda m: F.glu(m([1.0, 2.0, 3.0])), RuntimeError, ["Halving dimension must be even"]),
    "pixel_shuffle": (lambda m: F.pixel_shuffle(m(np.ones((3, 1, 1))), 2), RuntimeError, ["input.size(-3)=3"]),
    "pixel_unshuffle": (lambda m: F.pixel_unshuffle(m(np.ones((1, 3, 2))), 2), RuntimeError, ["3 and 2 are not both"]),
    "interpolate": (
        lambda m: F.interpolate(m(np.ones((1, 1, 2)))),
        ValueError,
        ["only one of size or scale_factor should be defined"],
    ),
    "interpolate, mode": (
        lambda m: F.interpolate(m(np.ones((1, 1, 2))), 3, mode="cubic"),
        NotImplementedError,
        ["not 'cubic'"],
    ),
    "interpolate, axes": (
        lambda m: F.interpolate(m(np.ones((1, 1, 2))), 3, mode="bilinear"),
        ValueError,
        ["got 3 axes"],
    ),
    "dropout2d": (lambda m: F.dropout2d(m([1.0])), ValueError, ["dropout2d() takes (n, channels, ...)"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_function_and_the_line(name, make):
    call, error, words = REFUSED[name]
    with pytest.raises(error) as raised:
        call(make)
    text = str(raised.value)
    assert all(word in text for word in words), text
    assert "test_functional.py:" in text


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_by_nothing_makes_a_new_tensor(mode, make):
    x = make([[1.0, 2.0]])
    y = F.pad(x, (0, 0), mode=mode)
    y += 7.0
    assert (x.tolist(), y.tolist()) == ([[1.0, 2.0]], [[8.0, 9.0]])


def test_a_target_that_is_no_class_is_an_error_on_numpy():
    logits = ag.zeros((2, 3), requires_grad=True)
    for target in ([0, 3], [0, -1]):
        with pytest.raises(IndexError, match=f"Target {target[1]} is out of bounds"):
            F.cross_entropy(logits, ag.tensor(target))
        with pytest.raises(IndexError, match=f"Target {target[1]} is out of bounds"):
            F.nll_loss(logits, ag.tensor(target))


def test_a_target_that_is_no_class_is_nan_elsewhere(strict_backend):
    logits = ag.zeros((2, 3), device=strict_backend)
    for target in ([0, 3], [0, -1]):
        assert math.isnan(F.cross_entropy(logits, ag.tensor(target, device=strict_backend)).item())


def test_losses_of_different_shapes_warn_and_broadcast(make):
    with pytest.warns(UserWarning, match=r"Using a target size \(\(2, 1\)\) that is different to the input size"):
        loss = F.mse_loss(make([1.0, 2.0]), make([[1.0], [2.0]]))
    assert loss.item() == 0.5
    with pytest.raises(ValueError, match="cannot be broadcast"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        F.l1_loss(make([1.0, 2.0]), make([1.0, 2.0, 3.0]))


# -- what the newer functions refuse ----------------------------------------------------------------------------------------

ONES = ag.ones
BAD = {
    "rms_norm": (lambda: F.rms_norm(ONES((2, 3)), (4,)), RuntimeError, r"normalized_shape=\[4\].*rms_norm\(\)"),
    "rms_norm, integers": (lambda: F.rms_norm(ag.tensor([1, 2]), (2,)), TypeError, "real floating"),
    "group_norm": (lambda: F.group_norm(ONES((2, 3)), 2), RuntimeError, "divisible by num_groups"),
    "group_norm, weight": (lambda: F.group_norm(ONES((2, 4)), 2, ONES(3)), RuntimeError, "number of channels"),
    "conv1d, rank": (lambda: F.conv1d(ONES(3), ONES((1, 1, 1))), RuntimeError, "Expected 2D .* or 3D .* to conv1d"),
    "conv1d, weight": (lambda: F.conv1d(ONES((1, 3)), ONES((1, 1))), RuntimeError, r"conv1d\(\): weight must be"),
    "conv1d, channels": (lambda: F.conv1d(ONES((2, 3)), ONES((1, 1, 1))), RuntimeError, r"conv1d\(\) also needs"),
    "conv1d, padding": (lambda: F.conv1d(ONES((1, 3)), ONES((1, 1, 1)), padding="all"), ValueError, "conv1d.. knows"),
    "conv1d, window": (lambda: F.conv1d(ONES((1, 3)), ONES((1, 1, 4))), RuntimeError, "greater than actual input"),
    "conv1d, pair": (lambda: F.conv1d(ONES((1, 3)), ONES((1, 1, 1)), stride=(1, 2)), ValueError, "must be one integer"),
    "conv_transpose2d, channels": (
        lambda: F.conv_transpose2d(ONES((3, 2, 2)), ONES((2, 1, 1, 1))),
        RuntimeError,
        "to have 2 channels, but got 3",
    ),
    "conv_transpose2d, output padding": (
        lambda: F.conv_transpose2d(ONES((1, 2, 2)), ONES((1, 1, 1, 1)), output_padding=1),
        RuntimeError,
        "must be smaller than stride",
    ),
    "conv_transpose2d, nothing left": (
        lambda: F.conv_transpose2d(ONES((1, 2, 2)), ONES((1, 1, 1, 1)), padding=1),
        RuntimeError,
        "Output size is too small",
    ),
    "interpolate, corners": (
        lambda: F.interpolate(ONES((1, 1, 2)), 4, align_corners=False),
        ValueError,
        "align_corners option can only be set with",
    ),
    "adaptive_avg_pool2d": (lambda: F.adaptive_avg_pool2d(ONES((1, 2, 2)), 0), ValueError, "must be positive"),
    "attention, shapes": (
        lambda: F.scaled_dot_product_attention(ONES((2, 3)), ONES((2, 4)), ONES((2, 3))),
        RuntimeError,
        r"got query \(2, 3\), key \(2, 4\), value \(2, 3\)",
    ),
    "attention, two masks": (
        lambda: F.scaled_dot_product_attention(*[ONES((2, 3))] * 3, attn_mask=ONES((2, 2)), is_causal=True),
        RuntimeError,
        "should not be set when is_causal",
    ),
    "huber_loss": (lambda: F.huber_loss(ONES(2), ONES(2), delta=0.0), ValueError, "non-positive values for delta"),
    "smooth_l1_loss": (lambda: F.smooth_l1_loss(ONES(2), ONES(2), beta=-1.0), ValueError, "negative values for beta"),
    "kl_div": (lambda: F.kl_div(ONES(2), ONES(2), "average"), ValueError, "average is not a valid value"),
    "RNN, width": (lambda: ag.nn.RNN(3, 2)(ONES((4, 2))), RuntimeError, "Expected 3, got 2"),
    "RNN, rank": (lambda: ag.nn.GRU(3, 2)(ONES(3)), ValueError, "GRU: Expected input to be 2D or 3D, got 1D"),
    "RNN, state": (
        lambda: ag.nn.RNN(3, 2)(ONES((4, 1, 3)), ONES((1, 5, 2))),
        RuntimeError,
        r"Expected hidden size \(1, 1, 2\)",
    ),
    "RNN, no sequence": (lambda: ag.nn.RNN(3, 2)(ONES((0, 1, 3))), RuntimeError, "larger than 0"),
    "RNN, nonlinearity": (lambda: ag.nn.RNN(3, 2, nonlinearity="sin"), ValueError, "Unknown nonlinearity 'sin'"),
    "LSTM, state": (lambda: ag.nn.LSTM(3, 2)(ONES((4, 3)), ONES((1, 2))), TypeError, r"a pair \(h, c\)"),
    "GRU, size": (lambda: ag.nn.GRU(3, 0), ValueError, "hidden_size must be greater than zero"),
    "MultiheadAttention": (lambda: ag.nn.MultiheadAttention(5, 2), ValueError, "must be divisible by num_heads"),
    "MultiheadAttention, mask": (
        lambda: ag.nn.MultiheadAttention(4, 2)(*[ONES((3, 4))] * 3, attn_mask=ONES((2, 3))),
        RuntimeError,
        r"should be \(3, 3\)",
    ),
    "MultiheadAttention, causal": (
        lambda: ag.nn.MultiheadAttention(4, 2)(*[ONES((3, 4))] * 3, is_causal=True),
        RuntimeError,
        "Need attn_mask",
    ),
    "Conv1d, groups": (lambda: ag.nn.Conv1d(3, 4, 1, groups=2), ValueError, "in_channels must be divisible"),
    "GroupNorm": (lambda: ag.nn.GroupNorm(2, 3), ValueError, "divisible by num_groups"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case):
    call, error, match = BAD[case]
    with pytest.raises(error, match=f"(?s){match}") as caught:
        call()
    assert "test_functional.py" in str(caught.value) or case[0].isupper() or error is ValueError


def test_a_query_that_sees_no_key_gives_zeros_and_no_gradient(make, value):
    q, k, v = (make(cases.wave(2, 3, phase=p), requires_grad=True) for p in (0, 1, 2))
    for mask in ([[False, False], [True, True]], [[-math.inf, -math.inf], [0.0, 0.0]]):
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=make(mask))
        assert value(y)[0].tolist() == [0.0, 0.0, 0.0]
        (g,) = ag.autograd.grad(y.sum(), q)
        assert value(g)[0].tolist() == [0.0, 0.0, 0.0]
        assert np.isfinite(value(g)).all()


def test_dropout_between_recurrent_layers_acts_while_training_only():
    ag.manual_seed(0)
    net = ag.nn.LSTM(3, 8, num_layers=2, dropout=0.5)
    x = ag.ones((4, 1, 3))
    first, second = net(x)[0], net(x)[0]
    assert not bool(ag.all(first == second))
    net.eval()
    np.testing.assert_array_equal(net(x)[0].tolist(), net(x)[0].tolist())


# -- operands of different precision ----------------------------------------------------------------------------------

IMAGES, FILTERS = (1, 1, 4, 4), (1, 1, 2, 2)
PRODUCTS = {
    "linear": ((2, 3), (1, 3), "mat1 and mat2 must have the same dtype, but got {} and {}"),
    "conv1d": ((1, 1, 4), (1, 1, 2), r"Input type \({}\) and weight type \({}\) should be the same"),
    "conv2d": (IMAGES, FILTERS, r"Input type \({}\) and weight type \({}\) should be the same"),
    "conv_transpose2d": (IMAGES, FILTERS, r"Input type \({}\) and weight type \({}\) should be the same"),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float64"), ("uint8", "float32")])
@pytest.mark.parametrize("raw", [False, True])
def test_products_refuse_operands_of_different_precision(name, dtypes, raw):
    shape, filters, words = PRODUCTS[name]
    x = np.ones(shape, dtypes[0])
    with pytest.raises(RuntimeError, match=words.format(*dtypes)) as error:
        getattr(F, name)(x if raw else ag.asarray(x), ag.ones(filters, dtype=dtypes[1]))
    assert f"x.to(ag.{dtypes[1]})" in str(error.value)
    assert ("net.to" in str(error.value)) == (dtypes[0] != "uint8")


def test_a_real_input_meets_complex_weights_of_its_precision():
    assert F.linear(ag.ones((1, 3), dtype="float32"), ag.ones((2, 3), dtype="complex64")).dtype == ag.complex64
    with pytest.raises(RuntimeError, match="got float64 and complex64"):
        F.linear(ag.ones((1, 3)), ag.ones((2, 3), dtype="complex64"))


@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float64")])
def test_normalisations_give_the_dtype_of_their_input(dtypes):
    x = ag.asarray(np.arange(12.0).reshape(2, 6), dtype=dtypes[0])
    six = ag.ones(6, dtype=dtypes[1])
    results = [
        F.layer_norm(x, (6,), six, six),
        F.rms_norm(x, (6,), six),
        F.group_norm(x, 2, six, six),
        F.batch_norm(x, None, None, six, six, training=True),
    ]
    assert [result.dtype == dtypes[0] for result in results] == [True] * 4


def pooled(x, k, stride, padding, kind):
    """Windows of an image one by one: every one that begins on the image or the padding before it, as `ceil_mode` says."""
    places = []
    for n in x.shape:
        count = -(-(n + 2 * padding - k) // stride) + 1
        starts = [i * stride - padding for i in range(count) if i * stride < n + padding]
        places.append([(max(s, 0), min(s + k, n), min(s + k, n + padding) - s) for s in starts])
    found = np.empty([len(along) for along in places])
    for i, (top, bottom, high) in enumerate(places[0]):
        for j, (left, right, wide) in enumerate(places[1]):
            part = x[top:bottom, left:right]
            found[i, j] = part.max() if kind == "max" else part.sum() / (high * wide if kind == "all" else part.size)
    return found


@pytest.mark.parametrize("kind", ["max", "all", "inside"])
@pytest.mark.parametrize(("k", "stride", "padding"), [(2, 2, 0), (3, 2, 0), (3, 2, 1), (2, 3, 1), (3, 4, 1), (2, 1, 0)])
@pytest.mark.parametrize("shape", [(5, 7), (6, 4), (8, 9)])
def test_windows_may_reach_over_the_end(shape, k, stride, padding, kind, backend):
    data = np.random.default_rng(0).standard_normal(shape)
    x = ag.asarray(data[None, None], device=backend).requires_grad_()
    if kind == "max":
        y = F.max_pool2d(x, k, stride, padding, ceil_mode=True)
        layer = ag.nn.MaxPool2d(k, stride, padding, ceil_mode=True)
        rows = F.max_pool1d(x[0, :, 0, :], k, stride, padding, ceil_mode=True)
    else:
        y = F.avg_pool2d(x, k, stride, padding, True, kind == "all")
        layer = ag.nn.AvgPool2d(k, stride, padding, True, kind == "all")
        rows = F.avg_pool1d(x[0, :, 0, :], k, stride, padding, True, kind == "all")
    expected = pooled(data, k, stride, padding, kind)
    np.testing.assert_allclose(np.asarray(y.tolist())[0, 0], expected, rtol=1e-12)
    assert ag.all(layer(x) == y).item()
    along = [pooled(data[:1].repeat(9, axis=0), k, stride, padding, kind)[4 // stride]]
    if kind != "all":
        np.testing.assert_allclose(rows.tolist(), along, rtol=1e-12)
    weights = np.cos(np.arange(y.numel())).reshape(expected.shape)
    (y * ag.asarray(weights[None, None], device=backend)).sum().backward()
    step, towards = 1e-6, np.random.default_rng(1).standard_normal(shape)
    ends = [(weights * pooled(data + sign * step * towards, k, stride, padding, kind)).sum() for sign in (1, -1)]
    assert (np.asarray(x.grad.tolist())[0, 0] * towards).sum() == pytest.approx(
        (ends[0] - ends[1]) / (2 * step), rel=1e-6
    )
