"""Samples of the functions of neural networks: those that ``agrad.nn.functional`` calls, with arguments in full form."""

from __future__ import annotations

import math

from agrad.testing.samples.data import Data, Like, add, cplx, integers, mask, positive, real, spaced
from agrad.testing.samples.special import unit

# -- activations --------------------------------------------------------------------------------------------------------

for _op in ("relu", "elu", "sigmoid", "log_sigmoid", "softplus", "silu", "silu_slope", "normal_cdf", "gelu"):
    add(f"nn.{_op}", real(2, 3))
add("nn.leaky_relu", real(2, 3), 0.2)
add("nn.leaky_relu", real(3), -0.5)
add("nn.elu", real(3), 1.3)
add("nn.softplus", spaced(5), 2.0, 1.5)
add("nn.gelu_slope", real(2, 3))
add("nn.gelu", real(3), "tanh")
add("nn.gelu_slope", real(3), "tanh")
add("nn.relu", real(0, 2))
add("nn.normal_cdf", Data((3,), (-6.0, 0.01, 6.0), "float64"))

for _op in ("nn.softmax", "nn.log_softmax"):
    add(_op, real(2, 3), axis=-1)
    add(_op, real(3, 2, 2), axis=0)
    add(_op, real(2, 3, 1, 2), axis=1)
    add(_op, real(0, 3), axis=1)

# -- layers -------------------------------------------------------------------------------------------------------------

add("nn.linear", real(2, 3), real(4, 3), real(4))
add("nn.linear", real(2, 2, 3), real(2, 3), real(2))
add("nn.linear", real(3), real(2, 3), real(2))
add("nn.linear", real(0, 3), real(2, 3))
add("nn.linear", cplx(2, 3), cplx(2, 3), cplx(2))
add("nn.linear", real(2, 3), cplx(2, 3))
add("nn.linear", cplx(2, 3), real(4, 3))

add("nn.layer_norm", real(2, 4), real(4), real(4))
add("nn.layer_norm", real(2, 3))
add("nn.layer_norm", real(2, 2, 3), real(2, 3), None, 2, 1e-3)
add("nn.layer_norm", real(3, 3), None, real(3), 1, 0.1)
add("nn.layer_norm", real(2, 2, 1, 3), real(2, 1, 3), real(2, 1, 3), 3)
add("nn.layer_norm", real(0, 3), real(3), real(3))

add("nn.batch_norm", real(3, 2), real(2), real(2))
add("nn.batch_norm", real(2, 3, 2))
add("nn.batch_norm", real(2, 2, 1, 3), real(2), None, 1e-3)
add("nn.batch_norm", real(3, 2, 1, 1), None, real(2), 0.1)
add("nn.batch_norm", real(0, 2), real(2), real(2))

add("nn.dropout", real(2, 3), mask(1, 0, 1, 1, 1, 0, shape=(2, 3)), 1.5)

#: A row of padding among the indices counts as a constant, which differences cannot detect: agrad's own tests check
#: that.
for _padding in (None, 0):
    add("nn.embedding", integers(2, 1, 2, 4, shape=(2, 2)), real(5, 3), _padding)
add("nn.embedding", integers(1), cplx(2, 2))
add("nn.embedding", integers(shape=(0,)), real(2, 2))
add("nn.embedding_adjoint", real(2, 2, 3), integers(2, 1, 2, 4, shape=(2, 2)), Like((5, 3)))

add("nn.pad", real(2, 3), ((1, 0), (0, 2)))
add("nn.pad", cplx(2), ((1, 2),), 0.5)

# -- convolution --------------------------------------------------------------------------------------------------------

_NO_PADDING = ((0, 0), (0, 0))
_UNEVEN = ((2, 1), ((1, 0), (0, 2)), (1, 2), 2)  # stride, padding, dilation, groups
add("nn.conv2d", real(2, 2, 3, 3), real(3, 2, 2, 2), real(3))
add("nn.conv2d", real(1, 2, 4, 3), real(4, 1, 3, 2), real(4), *_UNEVEN)
add("nn.conv2d", real(2, 2, 2, 3), real(3, 2, 1, 1), stride=(1, 2))
add("nn.conv2d", real(0, 1, 3, 3), real(2, 1, 2, 2), real(2))
_PLAIN = ((1, 1), _NO_PADDING, (1, 1), 1)
add("nn.conv2d_input", real(2, 3, 1, 2), real(3, 2, 2, 2), (2, 3), *_PLAIN)
add("nn.conv2d_input", real(1, 2, 2, 3), real(2, 1, 3, 2), (4, 3), *_UNEVEN)
add("nn.conv2d_weight", real(2, 2, 2, 3), real(2, 3, 1, 2), (2, 2), *_PLAIN)
add("nn.conv2d_weight", real(1, 2, 4, 3), real(1, 2, 2, 3), (3, 2), *_UNEVEN)

# -- pooling ------------------------------------------------------------------------------------------------------------

#: Height and width, window, stride, padding: neat; overlapping and padded; with gaps.
_POOLS = (
    ((4, 4), (2, 2), (2, 2), _NO_PADDING),
    ((4, 3), (3, 2), (2, 1), ((1, 1), (0, 1))),
    ((3, 5), (1, 2), (2, 3), _NO_PADDING),
)
for _size, _window, _stride, _padding2d in _POOLS:
    _pooled = tuple((n + sum(p) - k) // s + 1 for n, k, s, p in zip(_size, _window, _stride, _padding2d, strict=True))
    for _counted in (True, False) if sum(map(sum, _padding2d)) else (True,):
        add("nn.avg_pool2d", real(1, 2, *_size), _window, _stride, _padding2d, _counted)
        add("nn.avg_pool2d_adjoint", real(1, 2, *_pooled), _size, _window, _stride, _padding2d, _counted)
    add("nn.max_pool2d", spaced(1, 2, *_size), _window, _stride, _padding2d, (1, 1))

#: Images with the largest element of each window of (2, 2), 2 elements apart.
_IMAGE = Data((1, 1, 4, 4), tuple(float(n) for n in (7, 1, 4, 9, 2, 8, 3, 0, 5, 12, 10, 6, 11, 13, 15, 14)), "float64")
_LARGEST = Data((1, 1, 2, 2), (10.0, 12.0, 15.0, 14.0), "float64")
_DILATED = ((2, 2), (1, 1), _NO_PADDING, (2, 2))
add("nn.max_pool2d", _IMAGE, *_DILATED)
for _op in ("nn.max_pool2d_adjoint", "nn.max_pool2d_tangent"):
    _shape = _LARGEST.shape if _op.endswith("adjoint") else _IMAGE.shape
    add(_op, real(*_shape), _IMAGE, _LARGEST, *_DILATED)

# -- recurrent layers ---------------------------------------------------------------------------------------------------

add("nn.lstm", real(2, 2, 8), real(2, 2), real(2, 2), real(8, 2))
add("nn.lstm", real(2, 1, 4), real(1, 1), real(1, 1), real(4, 1), True)

# -- attention ----------------------------------------------------------------------------------------------------------


def _wave(*shape: int, phase: float = 0.0) -> Data:
    return Data(shape, tuple(math.sin(1.7 * i + phase) for i in range(math.prod(shape))), "float64")


_QKV = _wave(3, 2), _wave(4, 2, phase=1.0), _wave(4, 3, phase=2.0)
_SEEN, _KEPT = mask(1, 1, 0, 1, shape=(1, 4)), mask(*(1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1), shape=(3, 4))
add("nn.attention", *_QKV)
add("nn.attention", *_QKV, None, _SEEN, _KEPT)
add("nn.attention", *_QKV, None, None, _KEPT, True, 2)
add("nn.attention", _wave(2, 3, 2), *_QKV[1:], _wave(3, 1, phase=3.0), _SEEN, None, False, 2)
add("nn.attention", *_QKV, _wave(1, 4, phase=3.0), None, None, False, 2)

# -- losses -------------------------------------------------------------------------------------------------------------

#: At least 0.15 from the numbers of `spaced`.
_APART = Data((3,), (0.1, 0.45, 1.15), "float64")
for _op in ("nn.mse_loss", "nn.l1_loss"):
    add(_op, spaced(2, 3), Data((2, 3), 2 * _APART.values, "float64"))
    add(_op, spaced(2, 3), _APART, "sum")
    add(_op, spaced(2, 1), _APART, "none")
    add(_op, real(0, 3), real(0, 3), "sum")

add("nn.binary_cross_entropy", unit(2, 3), unit(2, 3))
add("nn.binary_cross_entropy", unit(2, 3), unit(2, 3), positive(3), "mean")
add("nn.binary_cross_entropy", unit(3), Data((3,), (1.0, 0.0, 1.0), "float64"), None, "none")
for _weights in ((), (positive(3),), (None, positive(3)), (positive(2, 1), positive(3))):
    add("nn.binary_cross_entropy_with_logits", real(2, 3), unit(2, 3), *_weights)
add("nn.binary_cross_entropy_with_logits", real(2, 3), unit(2, 3), positive(3), positive(3), "none")
add("nn.binary_cross_entropy_with_logits", real(3), unit(3), None, None, "sum")

for _op in ("nn.nll_loss", "nn.cross_entropy"):
    add(_op, real(3, 4), integers(2, 0, 2))
    add(_op, real(4), integers(3, shape=()))
    add(_op, real(4, 3), integers(2, -100, 0, 1), None, -100, "sum")
    add(_op, real(4, 3), integers(2, 1, 0, 2), positive(3), 1)
    add(_op, real(2, 3, 2), integers(2, 0, 1, 1, shape=(2, 2)), positive(3), -100, "none")
    add(_op, real(2, 3, 1, 2), integers(2, 0, 1, 1, shape=(2, 1, 2)))
    add(_op, real(0, 3), integers(shape=(0,)), None, -100, "sum")
