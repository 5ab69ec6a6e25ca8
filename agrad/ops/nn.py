"""Primitive functions of neural networks: activations, losses, layers. Users call ``agrad.nn.functional``.

Names begin with ``nn.``, so that a rule reaches them as ``xp.nn.relu``. Every kernel here is written in the standard's
functions and works on any backend; a backend may have faster ones of its own. Arguments are already checked and in full
form (pairs instead of single integers, axes instead of ``dim``): ``agrad.nn.functional`` does that.

Most formulas follow PyTorch's derivatives, so the values at kinks are PyTorch's too.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agrad.core.cotangents import beside, is_complex, unbroadcast
from agrad.core.declare import custom, elementwise, fused, linear, multilinear, nondifferentiable
from agrad.core.facts import Facts
from agrad.core.tensor import Tensor
from agrad.ops.batch_rules import BatchedCall, along, is_array, pointwise

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]


def _step(xp: Any, x: Any) -> Any:
    """1 where x is positive, else 0, in the dtype of x."""
    return xp.astype(x > 0, x.dtype)


# -- activations --------------------------------------------------------------------------------------------------------


@elementwise(
    name="nn.relu",
    x=lambda xp, ans: xp.astype(ans > 0, ans.dtype),
    kernel=lambda xp, x: xp.maximum(x, xp.zeros_like(x)),
    memory="fresh",
)
def relu(x: Any, /) -> Tensor:
    """The positive part, ``max(x, 0)``; the derivative at 0 is 0."""


@elementwise(
    name="nn.leaky_relu",
    real=True,
    x=lambda xp, x, negative_slope: _step(xp, x) * (1 - negative_slope) + negative_slope,
    kernel=lambda xp, x, negative_slope=0.01: xp.where(x > 0, x, x * negative_slope),
    memory="fresh",
)
def leaky_relu(x: Any, negative_slope: float = 0.01, /) -> Tensor:
    """``x`` where positive, else ``negative_slope * x``; the derivative at 0 is the slope."""


def _below(xp: Any, x: Any) -> Any:
    """The negative part, min(x, 0) with derivative 0 at 0, so that its exponential does not overflow."""
    return xp.where(x >= 0, xp.zeros_like(x), x)


def _elu_slope(xp: Any, x: Any, alpha: float) -> Any:
    step = _step(xp, x)
    return step + (1 - step) * (alpha * xp.exp(_below(xp, x)))


@elementwise(
    name="nn.elu",
    real=True,
    x=_elu_slope,
    kernel=lambda xp, x, alpha=1.0: xp.maximum(x, xp.zeros_like(x)) + alpha * xp.expm1(_below(xp, x)),
    source="Clevert, Unterthiner, Hochreiter: Fast and accurate deep network learning by ELUs (2015)",
    memory="fresh",
)
def elu(x: Any, alpha: float = 1.0, /) -> Tensor:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``; the derivative at 0 is `alpha`."""


def _sigmoid_kernel(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)) from exp(-|x|), which cannot overflow and preserves the digits of the tail; for complex x, chosen by its real part."""
    if xp.isdtype(x.dtype, "complex floating"):
        left = xp.real(x) < 0
        e = xp.exp(xp.where(left, x, -x))
    else:
        left, e = x < 0, xp.exp(-xp.abs(x))
    top = xp.where(left, e, xp.ones_like(e))
    return top / (1 + e)


@elementwise(name="nn.sigmoid", x=lambda ans: ans * (1 - ans), kernel=_sigmoid_kernel, memory="fresh")
def sigmoid(x: Any, /) -> Tensor:
    """The logistic function, ``1 / (1 + exp(-x))``."""


@elementwise(
    name="nn.log_sigmoid",
    real=True,
    x=lambda xp, x: xp.nn.sigmoid(-x),
    kernel=lambda xp, x: -xp.nn.softplus(-x, 1.0, math.inf),
    memory="fresh",
)
def log_sigmoid(x: Any, /) -> Tensor:
    """The logarithm of the logistic function, without overflow."""


def _softplus_kernel(xp: Any, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta as max(beta x, 0) / beta + log1p(exp(-|beta x|)) / beta; x above the threshold."""
    scaled = x if beta == 1 else x * beta
    rest = xp.log1p(xp.exp(-xp.abs(scaled)))
    larger = xp.maximum if beta > 0 else xp.minimum
    result = larger(x, xp.zeros_like(x)) + (rest if beta == 1 else rest / beta)
    return result if threshold == math.inf else xp.where(scaled > threshold, x, result)


def _softplus_slope(xp: Any, x: Any, beta: float, threshold: float) -> Any:
    scaled = x if beta == 1 else x * beta
    slope = xp.nn.sigmoid(scaled)
    return slope if threshold == math.inf else xp.where(scaled > threshold, xp.ones_like(slope), slope)


@elementwise(name="nn.softplus", real=True, x=_softplus_slope, kernel=_softplus_kernel, memory="fresh")
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0, /) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, and `x` where ``beta * x`` is above `threshold`."""


def _silu_slope(xp: Any, x: Any) -> Any:
    s = xp.nn.sigmoid(x)
    return s * (1 + x * (1 - s))


def _silu_curvature(xp: Any, x: Any) -> Any:
    s = xp.nn.sigmoid(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


@elementwise(
    name="nn.silu",
    real=True,
    x=lambda xp, x: xp.nn.silu_slope(x),
    kernel=lambda xp, x: x * xp.nn.sigmoid(x),
    source="Elfwing, Uchibe, Doya: Sigmoid-weighted linear units (2017)",
    memory="fresh",
)
def silu(x: Any, /) -> Tensor:
    """``x * sigmoid(x)``."""


@elementwise(name="nn.silu_slope", real=True, x=_silu_curvature, kernel=_silu_slope, memory="fresh")
def silu_slope(x: Any, /) -> Tensor:
    """The derivative of `silu`."""


def _horner(t: Any, coefficients: Sequence[float]) -> Any:
    result = coefficients[0] * t + coefficients[1]
    for c in coefficients[2:]:
        result = result * t + c
    return result


#: The upper tail of the normal distribution is exp(-x**2 / 2) * P(t) with t = (x - K) / (x + K), for x >= 0: the
#: Chebyshev series of that P, computed in 60 digits and cut where its terms fall below 1e-17; highest power of t first.
TAIL_K = 5.0
TAIL = (
    6.211513799055627e-11,
    -1.2580953385461678e-10,
    -7.824459241830255e-10,
    1.4119272695340352e-09,
    6.0027925459993005e-09,
    -1.028267135708432e-08,
    -3.942666265841357e-08,
    7.639960525760966e-08,
    2.4347647195016335e-07,
    -6.746330842091801e-07,
    -1.2701157918568557e-06,
    6.644237619801294e-06,
    9.61313297573171e-07,
    -6.042743336255403e-05,
    0.00013427684274105596,
    0.00021955072920173507,
    -0.0023788443566905935,
    0.008991370551437226,
    -0.02341390048768757,
    0.04785535228412587,
    -0.0808838772641277,
    0.1160688118860042,
    -0.14345755526401197,
    0.07691930497500629,
)
#: From here on the tail is 0 in every dtype; the formula would divide infinities.
TAIL_END = 40.0

_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)


def _density(xp: Any, x: Any) -> Any:
    """The standard normal density."""
    return xp.exp(x * x * -0.5) * _DENSITY_AT_0


def _normal_cdf_kernel(xp: Any, x: Any) -> Any:
    if is_complex(xp, x):
        raise NotImplementedError(
            "the normal distribution function of complex arguments: the backend has no kernel for it"
        )
    size = xp.clip(xp.abs(x), max=TAIL_END)
    tail = xp.exp(size * size * -0.5) * _horner((size - TAIL_K) / (size + TAIL_K), TAIL)
    return xp.where(x > 0, 1 - tail, tail)


@elementwise(name="nn.normal_cdf", real=True, x=_density, kernel=_normal_cdf_kernel, memory="fresh")
def normal_cdf(x: Any, /) -> Tensor:
    """The distribution function of the standard normal, ``(1 + erf(x / sqrt(2))) / 2``.

    Accurate to about two units in the last place of float64 for positive `x`; for negative `x` the relative error is
    that of ``exp(-x**2 / 2)``, at most 1e-13, so that the tail keeps its digits (``1 + erf`` would lose them). One
    formula for the whole line, after M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x)
    exp(x**2) erfc(x) in 0 <= x < oo, Math. Comp. 36 (1981).
    """


_GELU_A = math.sqrt(2 / math.pi)
_GELU_B = 0.044715


def _gelu_kernel(xp: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return xp.clip(x, min=-TAIL_END) * xp.nn.normal_cdf(x)  # of -inf the limit, 0
    return 0.5 * x * (1 + xp.tanh(_GELU_A * (x + _GELU_B * x * x * x)))


def _gelu_slope(xp: Any, x: Any, approximate: str) -> Any:
    if approximate == "none":
        return xp.nn.normal_cdf(x) + xp.clip(x, min=-TAIL_END, max=TAIL_END) * _density(xp, x)
    square = x * x
    t = xp.tanh(x * (_GELU_A + (_GELU_A * _GELU_B) * square))
    return 0.5 * (1 + t) + (0.5 * x) * (1 - t * t) * (_GELU_A + (3 * _GELU_A * _GELU_B) * square)


@elementwise(
    name="nn.gelu",
    real=True,
    x=lambda xp, x, approximate: xp.nn.gelu_slope(x, approximate),
    kernel=_gelu_kernel,
    source="Hendrycks, Gimpel: Gaussian error linear units (2016)",
    memory="fresh",
)
def gelu(x: Any, approximate: str = "none", /) -> Tensor:
    """`x` times the normal distribution function of `x`, or its approximation by tanh."""


def _gelu_curvature(xp: Any, x: Any, approximate: str) -> Any:
    if approximate == "none":
        return (2 - x * x) * _density(xp, x)
    square = x * x
    t = xp.tanh(x * (_GELU_A + (_GELU_A * _GELU_B) * square))
    inner = _GELU_A + (3 * _GELU_A * _GELU_B) * square
    return (1 - t * t) * (inner - x * t * inner * inner + (3 * _GELU_A * _GELU_B) * square)


@elementwise(
    name="nn.gelu_slope",
    real=True,
    x=_gelu_curvature,
    kernel=lambda xp, x, approximate="none": _gelu_slope(xp, x, approximate),
    memory="fresh",
)
def gelu_slope(x: Any, approximate: str = "none", /) -> Tensor:
    """The derivative of `gelu`."""


def _softmax_kernel(xp: Any, x: Any, /, *, axis: int) -> Any:
    if 0 in x.shape:
        return xp.zeros_like(x)
    e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return e / xp.sum(e, axis=axis, keepdims=True)


def _softmax_product(xp: Any, v: Any, ans: Any, axis: int) -> Any:
    """The (symmetric) Jacobian of softmax times a vector."""
    if ans.ndim and axis in (-1, ans.ndim - 1):  # one pass less; along other axes it takes twice as long
        return ans * (v - xp.expand_dims(xp.vecdot(v, ans), axis=-1))
    return ans * (v - xp.sum(v * ans, axis=axis, keepdims=True))


@custom(
    name="nn.softmax",
    real=True,
    vjp={"x": lambda xp, g, ans, axis: _softmax_product(xp, g, ans, axis)},
    jvp=lambda xp, t_x, ans, axis: _softmax_product(xp, t_x, ans, axis),
    kernel=_softmax_kernel,
    batch=along,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",), sparsity="along"),
)
def softmax(x: Any, /, *, axis: int) -> Tensor:
    """Exponentials that sum to 1 along an axis."""


def _log_softmax_kernel(xp: Any, x: Any, /, *, axis: int) -> Any:
    if 0 in x.shape:
        return xp.zeros_like(x)
    shifted = x - xp.max(x, axis=axis, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


@custom(
    name="nn.log_softmax",
    real=True,
    vjp={"x": lambda xp, g, ans, axis: g - xp.exp(ans) * xp.sum(g, axis=axis, keepdims=True)},
    jvp=lambda xp, t_x, ans, axis: t_x - xp.sum(xp.exp(ans) * t_x, axis=axis, keepdims=True),
    kernel=_log_softmax_kernel,
    batch=along,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",), sparsity="along"),
)
def log_softmax(x: Any, /, *, axis: int) -> Tensor:
    """The logarithm of `softmax`, without overflow or cancellation."""


# -- layers -------------------------------------------------------------------------------------------------------------


def _total(xp: Any, *terms: Any) -> Any:
    """Return the sum of the terms that are not None."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else xp.add(total, term)
    return total


def _linear_kernel(xp: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    y = xp.matmul(input, xp.matrix_transpose(weight))
    return y if bias is None else y + bias


def _linear_by_input(xp: Any, g: Any, weight: Any, weight_spec: Any) -> Any:
    """G w, with the batch axes merged."""
    if weight_spec.is_complex:
        weight = xp.conj(weight)
    if g.ndim > 2:
        return xp.reshape(xp.matmul(xp.reshape(g, (-1, g.shape[-1])), weight), (*g.shape[:-1], weight.shape[1]))
    return xp.matmul(g, weight)


def _linear_by_weight(xp: Any, g: Any, input: Any, input_spec: Any) -> Any:
    """g^T x, with the batch axes merged."""
    if input_spec.is_complex:
        input = xp.conj(input)
    if g.ndim != 2:
        g, input = xp.reshape(g, (-1, g.shape[-1])), xp.reshape(input, (-1, input.shape[-1]))
    return xp.matmul(xp.permute_dims(g, (1, 0)), input)


def _linear_by_bias(xp: Any, g: Any) -> Any:
    if g.ndim == 2:
        return xp.sum(g, axis=0)
    return xp.sum(g, axis=tuple(range(g.ndim - 1))) if g.ndim > 2 else g


def _linear_jvp(xp: Any, t_input: Any, t_weight: Any, t_bias: Any, input: Any, weight: Any, ans: Any) -> Any:
    by_input = None if t_input is None else xp.nn.linear(t_input, weight)
    by_weight = None if t_weight is None else xp.nn.linear(input, t_weight)
    by_bias = None if t_bias is None else xp.broadcast_to(t_bias, ans.shape)
    return _total(xp, by_input, by_weight, by_bias)


@custom(
    name="nn.linear",
    vjp={"input": _linear_by_input, "weight": _linear_by_weight, "bias": _linear_by_bias},
    jvp=_linear_jvp,
    kernel=_linear_kernel,
    contracts=lambda _: ((-1,), (-1,)),
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def linear_layer(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """``input @ weight.T + bias``."""


def _mean_and_scale(xp: Any, x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """The mean over axes, and 1 / sqrt(variance + eps)."""
    mean = xp.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    return mean, 1 / xp.sqrt(xp.mean(centred * centred, axis=axes, keepdims=True) + eps)


def _layer_norm_define(xp: Any, input: Any, weight: Any, bias: Any, rank: int, eps: float) -> Any:
    mean, scale = _mean_and_scale(xp, input, tuple(range(-rank, 0)), eps)
    y = (input - mean) * scale
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _layer_norm_kernel(xp: Any, input: Any, weight: Any, bias: Any, rank: int, eps: float) -> tuple[Any, Any, Any]:
    mean, scale = _mean_and_scale(xp, input, tuple(range(-rank, 0)), eps)
    y = (input - mean) * scale
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, scale


def _layer_norm_input_kernel(xp: Any, g: Any, input: Any, weight: Any, mean: Any, scale: Any, rank: int) -> Any:
    axes = tuple(range(-rank, 0))
    normal = (input - mean) * scale
    g = g if weight is None else g * weight
    along = xp.mean(g * normal, axis=axes, keepdims=True)
    return scale * (g - xp.mean(g, axis=axes, keepdims=True) - normal * along)


def _over_batch(xp: Any, g: Any, rank: int) -> Any:
    batch = tuple(range(g.ndim - rank))
    return xp.sum(g, axis=batch) if batch else g


@nondifferentiable(
    *("g", "input", "weight", "mean", "scale"),
    name="nn.layer_norm_input",
    kernel=_layer_norm_input_kernel,
    adjoint_of="nn.layer_norm",
    memory="fresh",
)
def _layer_norm_input(g: Any, input: Any, weight: Any, mean: Any, scale: Any, rank: int, /) -> Tensor:
    """The first-order vjp of `layer_norm` by its input; higher orders go through its definition."""


@nondifferentiable(
    "g",
    "input",
    "mean",
    "scale",
    name="nn.layer_norm_weight",
    kernel=lambda xp, g, input, mean, scale, rank: _over_batch(xp, g * ((input - mean) * scale), rank),
    adjoint_of="nn.layer_norm",
    memory="fresh",
)
def _layer_norm_weight(g: Any, input: Any, mean: Any, scale: Any, rank: int, /) -> Tensor:
    """The first-order vjp of `layer_norm` by its weight; higher orders go through its definition."""


@fused(
    name="nn.layer_norm",
    real=True,
    define=_layer_norm_define,
    kernel=_layer_norm_kernel,
    residuals=("mean", "scale"),
    vjp={
        "input": lambda xp, g, input, weight, mean, scale, rank: xp.nn.layer_norm_input(
            g, input, weight, mean, scale, rank
        ),
        "weight": lambda xp, g, input, mean, scale, rank: xp.nn.layer_norm_weight(g, input, mean, scale, rank),
        "bias": lambda xp, g, rank: _over_batch(xp, g, rank),
    },
    source="Ba, Kiros, Hinton: Layer normalization (2016)",
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def layer_norm(input: Any, weight: Any = None, bias: Any = None, rank: int = 1, eps: float = 1e-5, /) -> Tensor:
    """Mean 0 and variance 1 over the last `rank` axes, then times `weight` plus `bias`."""


def _over_channels(x: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that are not the channels', and the shape of a number per channel that broadcasts with x (N, C, ...)."""
    return (0, *range(2, x.ndim)), (1, -1, *(1,) * (x.ndim - 2))


def _batch_norm_parts(xp: Any, x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any, Any]:
    """The result; per channel mean, variance, and 1 / sqrt(variance + eps)."""
    axes, each = _over_channels(x)
    reduce = xp.sum if 0 in x.shape else xp.mean
    mean = reduce(x, axis=axes)
    centred = x - xp.reshape(mean, each)
    variance = reduce(centred * centred, axis=axes)
    scale = 1 / xp.sqrt(variance + eps)
    y = centred * xp.reshape(scale if weight is None else scale * weight, each)
    return y if bias is None else y + xp.reshape(bias, each), mean, variance, scale


def _batch_norm_adjoint_kernel(xp: Any, g: Any, input: Any, weight: Any, mean: Any, scale: Any) -> tuple[Any, Any, Any]:
    """With c = input - mean: scale weight (g - mean(g) - c scale**2 mean(g c)), scale sum(g c), and sum(g)."""
    axes, each = _over_channels(input)
    centred = input - xp.reshape(mean, each)
    by_bias = xp.sum(g, axis=axes)
    by_weight = scale * xp.sum(g * centred, axis=axes)
    count = max(1, math.prod(input.shape[axis] for axis in axes))
    rest = g - xp.reshape(by_bias / count, each) - centred * xp.reshape(by_weight * scale / count, each)
    return rest * xp.reshape(scale if weight is None else scale * weight, each), by_weight, by_bias


@nondifferentiable(
    *("g", "input", "weight", "mean", "scale"),
    name="nn.batch_norm_adjoint",
    kernel=_batch_norm_adjoint_kernel,
    outputs=3,
    adjoint_of="nn.batch_norm",
    memory="fresh",
)
def _batch_norm_adjoint(g: Any, input: Any, weight: Any, mean: Any, scale: Any, /) -> tuple[Tensor, ...]:
    """The first-order vjp of `batch_norm`; higher orders go through its definition."""


@fused(
    name="nn.batch_norm",
    real=True,
    define=lambda xp, input, weight, bias, eps: _batch_norm_parts(xp, input, weight, bias, eps)[0],
    kernel=_batch_norm_parts,
    residuals=("mean", "variance", "scale"),
    joint=("input", "weight", "bias"),
    vjp=dict.fromkeys(
        ("input", "weight", "bias"),
        lambda xp, g, input, weight, mean, scale: xp.nn.batch_norm_adjoint(g, input, weight, mean, scale),
    ),
    source="Ioffe, Szegedy: Batch normalization (2015)",
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def batch_norm(input: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, /) -> Tensor:
    """Mean 0 and variance 1 per channel, axis 1, then times `weight` plus `bias`; the kernel gives mean and variance too."""


@linear(
    name="nn.dropout",
    index=("mask",),
    x=lambda xp, g, mask, scale: xp.nn.dropout(g, mask, scale),
    kernel=lambda xp, x, mask, scale: x * (xp.astype(mask, x.dtype) * scale),
    source="Srivastava et al.: Dropout, JMLR 15 (2014)",
    batch=pointwise,
    facts=Facts(sparsity="elements"),
)
def dropout(x: Any, mask: Any, scale: float, /) -> Tensor:
    """`x` times `scale` where a mask is true, 0 elsewhere."""


def _unpadded(xp: Any, rows: Any, indices: Any, padding_idx: int | None) -> Any:
    """Rows with those of `padding_idx` set to 0: that row of the table counts as a constant."""
    return rows if padding_idx is None else rows * xp.astype(indices != padding_idx, rows.dtype)[..., None]


@custom(
    name="nn.embedding",
    index=("indices",),
    vjp={
        "weight": lambda xp, g, weight_spec, indices, padding_idx: xp.nn.embedding_adjoint(
            _unpadded(xp, g, indices, padding_idx), indices, weight_spec
        )
    },
    jvp=lambda xp, t_weight, indices, padding_idx: _unpadded(
        xp, xp.nn.embedding(indices, t_weight), indices, padding_idx
    ),
    kernel=lambda xp, indices, weight, padding_idx=None: xp.reshape(
        xp.take(weight, xp.reshape(indices, (-1,)), axis=0), (*indices.shape, weight.shape[1])
    ),
    memory="fresh",
)
def embedding(indices: Any, weight: Any, padding_idx: int | None = None, /) -> Tensor:
    """The rows of `weight` at `indices`; the row `padding_idx` gets no gradient."""


def _embedding_adjoint_kernel(xp: Any, grad: Any, indices: Any, spec: Any) -> Any:
    shape = (math.prod(indices.shape), spec.shape[1])
    rows = xp.broadcast_to(xp.reshape(indices, (-1, 1)), shape)
    columns = xp.astype(xp.arange(shape[1], **beside(indices)), indices.dtype)
    columns = xp.broadcast_to(columns[None, :], shape)
    return xp.scatter_add(spec, (rows, columns), xp.reshape(grad, shape))


@linear(
    name="nn.embedding_adjoint",
    index=("indices",),
    grad=lambda xp, g, indices: xp.nn.embedding(indices, g),
    kernel=_embedding_adjoint_kernel,
    memory="fresh",
)
def embedding_adjoint(grad: Any, indices: Any, spec: Any, /) -> Tensor:
    """The adjoint of `embedding`: the rows of `grad` added up in a table of a spec, at `indices`."""


def _pad_kernel(xp: Any, x: Any, /, widths: tuple[Pair, ...], value: float = 0.0) -> Any:
    """Join constant blocks to the ends of every axis."""
    for axis, width in enumerate(widths):
        blocks = []
        for n in width:
            shape = tuple(n if i == axis else m for i, m in enumerate(x.shape))
            one = tuple(slice(0, min(1, m)) for m in x.shape)
            block = xp.broadcast_to(xp.zeros_like(x[one]), shape) if n else None
            blocks.append(block if block is None or not value else block + value)
        parts = [p for p in (blocks[0], x, blocks[1]) if p is not None]
        x = xp.concat(parts, axis=axis) if len(parts) > 1 else x
    return x


def _crop(x: Any, widths: tuple[Pair, ...]) -> Any:
    return x[tuple(slice(a, n - b) for (a, b), n in zip(widths, x.shape, strict=True))]


def _pad_batch(b: BatchedCall, x: Any, widths: Any, value: float = 0.0, /) -> Any:
    return b.kernel(b.data(x), ((0, 0), *widths), value)


@custom(
    name="nn.pad",
    vjp={"x": lambda g, widths: _crop(g, widths)},
    jvp=lambda xp, t_x, widths: xp.nn.pad(t_x, widths),
    kernel=_pad_kernel,
    batch=_pad_batch,
)
def pad(x: Any, widths: tuple[Pair, ...], value: float = 0.0, /) -> Tensor:
    """Pad `x` with a constant, by ``(before, after)`` elements per axis."""


# -- convolution --------------------------------------------------------------------------------------------------------
#
# Three operations that are each other's derivatives, so any order of differentiation stays among them: with y = w * x,
#   conv2d         (x, w) -> y
#   conv2d_input   (y, w) -> x, the adjoint of conv2d in x (also known as the transposed convolution)
#   conv2d_weight  (x, y) -> w, the adjoint of conv2d in w


def output_size(size: int, kernel: int, stride: int, padding: Pair, dilation: int) -> int:
    """Return how many windows fit along one axis."""
    return (size + padding[0] + padding[1] - dilation * (kernel - 1) - 1) // stride + 1


def _pad2d(xp: Any, x: Any, padding: Padding) -> Any:
    return x if padding == ((0, 0), (0, 0)) else xp.nn.pad(x, ((0, 0), (0, 0), *padding))


def _slices(x: Any, window: Pair, stride: Pair, dilation: Pair) -> Iterator[Any]:
    """Return, for each position in the window, the elements of (padded) `x` there: shape (N, C, Ho, Wo)."""
    sizes = [output_size(x.shape[2 + a], window[a], stride[a], (0, 0), dilation[a]) for a in (0, 1)]
    for i in range(window[0]):
        for j in range(window[1]):
            starts = (i * dilation[0], j * dilation[1])
            key = [slice(s, s + d * (n - 1) + 1, d) for s, d, n in zip(starts, stride, sizes, strict=True)]
            yield x[(slice(None), slice(None), *key)]


def _columns(xp: Any, x: Any, window: Pair, stride: Pair, dilation: Pair, groups: int) -> Any:
    """The windows of (padded) `x` as columns: shape (N, groups, C / groups * kh * kw, Ho * Wo)."""
    stacked = xp.stack(list(_slices(x, window, stride, dilation)), axis=2)
    n, c, k, *rest = stacked.shape
    return xp.reshape(stacked, (n, groups, c // groups * k, math.prod(rest)))


def _conv2d_kernel(
    xp: Any,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = (1, 1),
    padding: Padding = ((0, 0), (0, 0)),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Any:
    kernel = weight.shape[2:]
    columns = _columns(xp, _pad2d(xp, input, padding), kernel, stride, dilation, groups)
    filters = xp.reshape(weight, (groups, weight.shape[0] // groups, -1))
    shape = (
        input.shape[0],
        weight.shape[0],
        *(output_size(input.shape[2 + a], kernel[a], stride[a], padding[a], dilation[a]) for a in (0, 1)),
    )
    y = xp.reshape(xp.matmul(filters, columns), shape)
    return y if bias is None else y + xp.reshape(bias, (1, -1, 1, 1))


def _spread_out(xp: Any, g: Any, axis: int, step: int) -> Any:
    """`g` with ``step - 1`` zeros after each element along an axis, but the last."""
    if step == 1:
        return g
    n = g.shape[axis]
    apart = xp.expand_dims(g, axis=axis + 1)
    shape = tuple(step - 1 if i == axis + 1 else m for i, m in enumerate(apart.shape))
    joined = xp.concat([apart, xp.broadcast_to(xp.zeros_like(apart), shape)], axis=axis + 1)
    flat = xp.reshape(joined, (*g.shape[:axis], n * step, *g.shape[axis + 1 :]))
    return flat[(slice(None),) * axis + (slice(0, (n - 1) * step + 1), ...)]


def _place(xp: Any, g: Any, offsets: Pair, stride: Pair, size: Sequence[int]) -> Any:
    """The adjoint of one of `_slices`: zeros of the size with `g` at every stride-th place from the offsets."""
    for a in (0, 1):
        g = _spread_out(xp, g, 2 + a, stride[a])
    ends = [(offsets[a], size[a] - offsets[a] - g.shape[2 + a]) for a in (0, 1)]
    return xp.nn.pad(g, ((0, 0), (0, 0), *ends))


def _conv2d_input_kernel(
    xp: Any, grad: Any, weight: Any, size: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Any:
    """A convolution itself: of `grad`, spread out by the stride, with the flipped filters."""
    out, rest, kh, kw = weight.shape
    filters = xp.reshape(weight, (groups, out // groups, rest, kh, kw))
    filters = xp.flip(xp.permute_dims(filters, (0, 2, 1, 3, 4)), axis=(3, 4))
    filters = xp.reshape(filters, (groups * rest, out // groups, kh, kw))
    ends: list[Pair] = []
    for a, k in enumerate((kh, kw)):
        grad = _spread_out(xp, grad, 2 + a, stride[a])
        reach = dilation[a] * (k - 1)
        ends.append((reach, size[a] + sum(padding[a]) - grad.shape[2 + a]))
    grad = xp.nn.pad(grad, ((0, 0), (0, 0), *ends))
    whole = _conv2d_kernel(xp, grad, filters, None, (1, 1), ((0, 0), (0, 0)), dilation, groups)
    return _crop(whole, ((0, 0), (0, 0), *padding))


def _conv2d_weight_kernel(
    xp: Any, input: Any, grad: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Any:
    n, out = grad.shape[:2]
    padded = _pad2d(xp, input, padding)
    used = [dilation[a] * (window[a] - 1) + stride[a] * (grad.shape[2 + a] - 1) + 1 for a in (0, 1)]
    columns = _columns(xp, padded[:, :, : used[0], : used[1]], window, stride, dilation, groups)
    g = xp.reshape(grad, (n, groups, out // groups, math.prod(grad.shape[2:])))
    product = xp.sum(xp.matmul(g, xp.matrix_transpose(columns)), axis=0)
    return xp.reshape(product, (out, input.shape[1] // groups, *window))


def _conv2d_jvp(
    xp: Any,
    t_input: Any,
    t_weight: Any,
    t_bias: Any,
    input: Any,
    weight: Any,
    ans: Any,
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    groups: int,
) -> Any:
    rest = (None, stride, padding, dilation, groups)
    by_input = None if t_input is None else xp.nn.conv2d(t_input, weight, *rest)
    by_weight = None if t_weight is None else xp.nn.conv2d(input, t_weight, *rest)
    by_bias = None if t_bias is None else xp.broadcast_to(xp.reshape(t_bias, (1, -1, 1, 1)), ans.shape)
    return _total(xp, by_input, by_weight, by_bias)


def _folded(b: BatchedCall, data: Any) -> Any:
    """Merge the batch axis and the first one."""
    return b.xp.reshape(data, (b.size * data.shape[1], *data.shape[2:]))


def _unfolded(b: BatchedCall, data: Any) -> Any:
    return b.xp.reshape(data, (b.size, data.shape[0] // b.size, *data.shape[1:]))


def _as_of_one(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Run a rule that divides by the length of the batch; for an empty batch, run it on one member, and drop that again."""

    @functools.wraps(rule)
    def run(b: BatchedCall, *args: Any) -> Any:
        if b.size:
            return rule(b, *args)
        one = BatchedCall(b.backend, b.name, b.op, type(b.level)(1, b.level.randomness, b.level))
        zeros = [type(a)(b.xp.zeros((1, *a.shape), dtype=a.dtype), one.level) if b.has(a) else a for a in args]
        return rule(one, *zeros)[:0, ...]

    return run


def _channels(b: BatchedCall, images: Any) -> Any:
    """Move the batch into the channels: (B, N, C, H, W) becomes (N, B * C, H, W)."""
    data = b.xp.moveaxis(b.data(images), 0, 1)
    return b.xp.reshape(data, (data.shape[0], data.shape[1] * data.shape[2], *data.shape[3:]))


def _unchannelled(b: BatchedCall, data: Any) -> Any:
    n, c, *rest = data.shape
    return b.xp.moveaxis(b.xp.reshape(data, (n, b.size, c // b.size, *rest)), 1, 0)


@_as_of_one
def _conv2d_batch(
    b: BatchedCall, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    if not b.has(weight) and not b.has(bias):
        return _unfolded(b, b.kernel(_folded(b, input.data), weight, bias, stride, padding, dilation, groups))
    bias = None if bias is None else b.xp.reshape(b.data(bias), (-1,))
    weight = _folded(b, b.data(weight))
    found = b.kernel(_channels(b, input), weight, bias, stride, padding, dilation, groups * b.size)
    return _unchannelled(b, found)


@custom(
    name="nn.conv2d",
    vjp={
        "input": lambda xp, g, weight, input_spec, stride, padding, dilation, groups: xp.nn.conv2d_input(
            g, weight, input_spec.shape[2:], stride, padding, dilation, groups
        ),
        "weight": lambda xp, g, input, weight_spec, stride, padding, dilation, groups: xp.nn.conv2d_weight(
            input, g, weight_spec.shape[2:], stride, padding, dilation, groups
        ),
        "bias": lambda xp, g: xp.sum(g, axis=(0, 2, 3)),
    },
    jvp=_conv2d_jvp,
    kernel=_conv2d_kernel,
    batch=_conv2d_batch,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = (1, 1),
    padding: Padding = ((0, 0), (0, 0)),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of images (N, C, H, W) with filters (O, C / groups, kh, kw), real."""


@_as_of_one
def _conv2d_input_batch(
    b: BatchedCall, grad: Any, weight: Any, size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    if not b.has(weight):
        return _unfolded(b, b.kernel(_folded(b, grad.data), weight, size, stride, padding, dilation, groups))
    weight = _folded(b, weight.data)
    return _unchannelled(b, b.kernel(_channels(b, grad), weight, size, stride, padding, dilation, groups * b.size))


@multilinear(
    name="nn.conv2d_input",
    grad=lambda xp, g, weight, stride, padding, dilation, groups: xp.nn.conv2d(
        g, weight, None, stride, padding, dilation, groups
    ),
    weight=lambda xp, g, grad, weight_spec, stride, padding, dilation, groups: xp.nn.conv2d_weight(
        g, grad, weight_spec.shape[2:], stride, padding, dilation, groups
    ),
    kernel=_conv2d_input_kernel,
    batch=_conv2d_input_batch,
    memory="fresh",
)
def conv2d_input(
    grad: Any, weight: Any, size: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Tensor:
    """The adjoint of `conv2d` in its input, images of height and width `size`: the transposed convolution."""


@_as_of_one
def _conv2d_weight_batch(
    b: BatchedCall, input: Any, grad: Any, window: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    images, cotangents = _channels(b, input), _channels(b, grad)
    return _unfolded(b, b.kernel(images, cotangents, window, stride, padding, dilation, groups * b.size))


@multilinear(
    name="nn.conv2d_weight",
    input=lambda xp, g, grad, input_spec, stride, padding, dilation, groups: xp.nn.conv2d_input(
        grad, g, input_spec.shape[2:], stride, padding, dilation, groups
    ),
    grad=lambda xp, g, input, stride, padding, dilation, groups: xp.nn.conv2d(
        input, g, None, stride, padding, dilation, groups
    ),
    kernel=_conv2d_weight_kernel,
    batch=_conv2d_weight_batch,
    memory="fresh",
)
def conv2d_weight(
    input: Any, grad: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Tensor:
    """The adjoint of `conv2d` in its filters, of height and width `window`."""


# -- pooling ------------------------------------------------------------------------------------------------------------


def _sum_of_places(
    xp: Any, parts: Iterator[Any], size: Sequence[int], window: Pair, stride: Pair, padding: Padding, dilation: Pair
) -> Any:
    """Return the sum of what each position in the window contributes, without the padding."""
    whole = [size[a] + sum(padding[a]) for a in (0, 1)]
    total = None
    for i in range(window[0]):
        for j in range(window[1]):
            placed = _place(xp, next(parts), (i * dilation[0], j * dilation[1]), stride, whole)
            total = placed if total is None else total + placed
    return _crop(total, ((0, 0), (0, 0), *padding))


def _avg_pool2d_kernel(xp: Any, x: Any, window: Pair, stride: Pair, padding: Padding, count_pad: bool) -> Any:
    total = None
    for part in _slices(_pad2d(xp, x, padding), window, stride, (1, 1)):
        total = part if total is None else total + part
    return total * _share_of(xp, total, x.shape[2:], window, stride, padding, count_pad)


def _share_of(
    xp: Any, y: Any, size: Sequence[int], window: Pair, stride: Pair, padding: Padding, count_pad: bool
) -> Any:
    """1 / the number of elements that count in each window: one number, or an array (1, 1, Ho, Wo)."""
    if count_pad or padding == ((0, 0), (0, 0)):
        return 1 / (window[0] * window[1])
    counts = []
    for a in (0, 1):
        starts = [i * stride[a] - padding[a][0] for i in range(y.shape[2 + a])]
        counts.append([min(s + window[a], size[a]) - max(s, 0) for s in starts])
    like = xp.zeros_like(y[:1, :1, :1, :1])
    rows = xp.concat([like + 1 / n for n in counts[0]], axis=2)
    return rows * xp.concat([like + 1 / n for n in counts[1]], axis=3)


def _avg_pool2d_adjoint_kernel(
    xp: Any, grad: Any, size: Pair, window: Pair, stride: Pair, padding: Padding, count_pad: bool
) -> Any:
    share = grad * _share_of(xp, grad, size, window, stride, padding, count_pad)
    parts = iter([share] * (window[0] * window[1]))
    return _sum_of_places(xp, parts, size, window, stride, padding, (1, 1))


@_as_of_one
def _over_images(b: BatchedCall, *args: Any) -> Any:
    """Functions that treat every image alike: the batch is merged with the images."""
    inner = [_folded(b, b.data(a)) if is_array(a) else a for a in args]
    return _unfolded(b, b.kernel(*inner))


@linear(
    name="nn.avg_pool2d",
    x=lambda xp, g, x_spec, window, stride, padding, count_pad: xp.nn.avg_pool2d_adjoint(
        g, x_spec.shape[2:], window, stride, padding, count_pad
    ),
    kernel=_avg_pool2d_kernel,
    batch=_over_images,
    memory="fresh",
)
def avg_pool2d(x: Any, window: Pair, stride: Pair, padding: Padding, count_pad: bool, /) -> Tensor:
    """The mean of each window of images (N, C, H, W)."""


@linear(
    name="nn.avg_pool2d_adjoint",
    grad=lambda xp, g, window, stride, padding, count_pad: xp.nn.avg_pool2d(g, window, stride, padding, count_pad),
    kernel=_avg_pool2d_adjoint_kernel,
    batch=_over_images,
    memory="fresh",
)
def avg_pool2d_adjoint(
    grad: Any, size: Pair, window: Pair, stride: Pair, padding: Padding, count_pad: bool, /
) -> Tensor:
    """The adjoint of `avg_pool2d`."""


def _pad_low(xp: Any, x: Any, padding: Padding) -> Any:
    """`x` with minus infinity around it: never a maximum."""
    return x if padding == ((0, 0), (0, 0)) else xp.nn.pad(x, ((0, 0), (0, 0), *padding), -math.inf)


def _max_pool2d_kernel(xp: Any, x: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Any:
    best = None
    for part in _slices(_pad_low(xp, x, padding), window, stride, dilation):
        best = part if best is None else xp.maximum(best, part)
    return xp.positive(best)


def _first_best(
    xp: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair
) -> Iterator[Any]:
    """Return, for each position in the window, where the first of the largest elements is; NaN counts as largest."""
    taken = None
    for part in _slices(_pad_low(xp, x, padding), window, stride, dilation):
        here = (part == best) | (part != part)  # noqa: PLR0124 (only NaN)
        yield here if taken is None else here & xp.logical_not(taken)
        taken = here if taken is None else here | taken


def _max_pool2d_adjoint_kernel(
    xp: Any, grad: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair
) -> Any:
    zero = xp.zeros_like(grad)
    parts = (xp.where(m, grad, zero) for m in _first_best(xp, x, best, window, stride, padding, dilation))
    return _sum_of_places(xp, parts, x.shape[2:], window, stride, padding, dilation)


def _max_pool2d_tangent_kernel(
    xp: Any, tangent: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair
) -> Any:
    total = None
    masks = _first_best(xp, x, best, window, stride, padding, dilation)
    for part in _slices(_pad2d(xp, tangent, padding), window, stride, dilation):
        term = xp.where(next(masks), part, xp.zeros_like(part))
        total = term if total is None else total + term
    return total


@custom(
    name="nn.max_pool2d",
    vjp={
        "x": lambda xp, g, x, ans, window, stride, padding, dilation: xp.nn.max_pool2d_adjoint(
            g, x, ans, window, stride, padding, dilation
        )
    },
    jvp=lambda xp, t_x, x, ans, window, stride, padding, dilation: xp.nn.max_pool2d_tangent(
        t_x, x, ans, window, stride, padding, dilation
    ),
    kernel=_max_pool2d_kernel,
    batch=_over_images,
    memory="fresh",
)
def max_pool2d(x: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /) -> Tensor:
    """The largest element of each window of images (N, C, H, W); the gradient goes to the first of several."""


@linear(
    name="nn.max_pool2d_adjoint",
    index=("x", "best"),
    grad=lambda xp, g, x, best, window, stride, padding, dilation: xp.nn.max_pool2d_tangent(
        g, x, best, window, stride, padding, dilation
    ),
    kernel=_max_pool2d_adjoint_kernel,
    batch=_over_images,
    memory="fresh",
)
def max_pool2d_adjoint(
    grad: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /
) -> Tensor:
    """The cotangents of windows, placed at the largest element of each."""


@linear(
    name="nn.max_pool2d_tangent",
    index=("x", "best"),
    tangent=lambda xp, g, x, best, window, stride, padding, dilation: xp.nn.max_pool2d_adjoint(
        g, x, best, window, stride, padding, dilation
    ),
    kernel=_max_pool2d_tangent_kernel,
    batch=_over_images,
    memory="fresh",
)
def max_pool2d_tangent(
    tangent: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /
) -> Tensor:
    """The tangents at the positions of the largest element of each window."""


# -- attention ----------------------------------------------------------------------------------------------------------
#
# A query's weights are exp(score - lse), with the logarithm of the sum of the exponentials of its scores. Where there are
# many, kernels work them out for a block of queries at a time, and again in backward, for which they keep lse; few are
# faster kept than worked out again. A key that is hidden has the score -inf; a query from which all are hidden has the lse
# inf, and with it the weights 0.


def _query_blocks(length: int, keys: int, causal: bool, block: int | None) -> Iterator[tuple[slice, slice]]:
    """Return the queries of each block, and the keys that they may attend to."""
    if block is None:
        yield slice(None), slice(None)
    else:
        for start in range(0, length, block):
            stop = min(start + block, length)
            yield slice(start, stop), slice(min(stop, keys)) if causal else slice(None)


def _part(mask: Any, rows: slice, keys: slice) -> Any:
    """Return the part of a mask for some queries and keys; an axis of length 1 applies to all."""
    return mask[..., slice(None) if mask.shape[-2] == 1 else rows, slice(None) if mask.shape[-1] == 1 else keys]


def _scores(xp: Any, query: Any, key: Any, mask: Any, seen: Any, causal: bool, rows: slice, keys: slice) -> Any:
    scores = xp.matmul(query[..., rows, :], xp.matrix_transpose(key[..., keys, :]))
    if mask is not None:
        scores = scores + _part(mask, rows, keys)
    if seen is not None:
        scores = xp.where(_part(seen, rows, keys), scores, xp.full_like(scores, -math.inf))
    if causal:
        last = xp.arange(query.shape[-2], **beside(query))[rows]
        shown = xp.expand_dims(last, axis=1) >= xp.arange(key.shape[-2], **beside(key))[keys]
        scores = xp.where(shown, scores, xp.full_like(scores, -math.inf))
    return scores


def _thinned(xp: Any, weights: Any, kept: Any, rows: slice, keys: slice) -> Any:
    """Weights, or their cotangents, after dropout."""
    return weights if kept is None else weights * xp.astype(_part(kept, rows, keys), weights.dtype)


def _attention_define(
    xp: Any, query: Any, key: Any, value: Any, mask: Any, seen: Any, kept: Any, causal: bool, _: int | None
) -> Any:
    every = slice(None), slice(None)
    scores = _scores(xp, query, key, mask, seen, causal, *every)
    if mask is None and seen is None:
        weights = xp.nn.softmax(scores, axis=-1)
    else:
        nothing = xp.all(scores == -math.inf, axis=-1, keepdims=True)
        zeros = xp.zeros_like(scores)
        weights = xp.where(nothing, zeros, xp.nn.softmax(xp.where(nothing, zeros, scores), axis=-1))
    return xp.matmul(_thinned(xp, weights, kept, *every), value)


def _attention_kernel(
    xp: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    seen: Any = None,
    kept: Any = None,
    causal: bool = False,
    block: int | None = None,
) -> tuple[Any, Any, Any]:
    if block is None:
        scores = _scores(xp, query, key, mask, seen, causal, slice(None), slice(None))
        weights = xp.nn.softmax(scores, axis=-1) if mask is None and seen is None else _softmax_of_some(xp, scores)
        return xp.matmul(_thinned(xp, weights, kept, slice(None), slice(None)), value), None, weights
    results, lses = [], []
    for rows, keys in _query_blocks(query.shape[-2], key.shape[-2], causal, block):
        weights, total, most = _exponentials(xp, _scores(xp, query, key, mask, seen, causal, rows, keys))
        results.append(xp.matmul(_thinned(xp, weights, kept, rows, keys), value[..., keys, :]) / total)
        lses.append(most + xp.log(total))
    return _rows_joined(xp, results), _rows_joined(xp, lses), None


def _exponentials(xp: Any, scores: Any) -> tuple[Any, Any, Any]:
    """exp(scores - most) for the largest score of each query, their sums, and these largest."""
    most = (xp.sum if 0 in scores.shape else xp.max)(scores, axis=-1, keepdims=True)
    most = xp.where(most == -math.inf, xp.zeros_like(most), most)
    weights = xp.exp(scores - most)
    total = xp.sum(weights, axis=-1, keepdims=True)
    return weights, xp.where(total == 0, xp.full_like(total, math.inf), total), most


def _softmax_of_some(xp: Any, scores: Any) -> Any:
    weights, total, _ = _exponentials(xp, scores)
    return weights / total


def _rows_joined(xp: Any, blocks: list[Any]) -> Any:
    return blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=-2)


def _by_scores(
    xp: Any, g: Any, operands: Sequence[Any], ans: Any, lse: Any, weights: Any, causal: bool, rows: slice, keys: slice
) -> tuple[Any, Any]:
    """The weights of some queries, and the cotangents of their scores: weights * (those of weights - sum(g * ans))."""
    query, key, value, mask, seen, kept = operands
    if weights is None:
        weights = xp.exp(_scores(xp, query, key, mask, seen, causal, rows, keys) - lse[..., rows, :])
    g, ans = g[..., rows, :], ans[..., rows, :]
    by_weights = _thinned(xp, xp.matmul(g, xp.matrix_transpose(value[..., keys, :])), kept, rows, keys)
    return weights, weights * (by_weights - xp.sum(g * ans, axis=-1, keepdims=True))


def _attention_adjoint_kernel(
    xp: Any,
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    seen: Any,
    kept: Any,
    ans: Any,
    lse: Any,
    weights: Any,
    causal: bool,
    block: int | None,
) -> tuple[Any, Any, Any]:
    operands = query, key, value, mask, seen, kept
    by_query, by_key, by_value = [], None, None
    for rows, keys in _query_blocks(query.shape[-2], key.shape[-2], causal, block):
        used, by_scores = _by_scores(xp, g, operands, ans, lse, weights, causal, rows, keys)
        thinned = _thinned(xp, used, kept, rows, keys)
        hidden = 0 if keys.stop is None else key.shape[-2] - keys.stop
        by_query.append(xp.matmul(by_scores, key[..., keys, :]))
        by_key = _added(xp, by_key, xp.matmul(xp.matrix_transpose(by_scores), query[..., rows, :]), hidden)
        by_value = _added(xp, by_value, xp.matmul(xp.matrix_transpose(thinned), g[..., rows, :]), hidden)
    return _rows_joined(xp, by_query), by_key, by_value


def _added(xp: Any, total: Any, part: Any, missing: int) -> Any:
    """A total and a part that lacks the last rows."""
    if missing:
        part = xp.nn.pad(part, (*((0, 0),) * (part.ndim - 2), (0, missing), (0, 0)))
    return part if total is None else total + part


def _attention_mask_kernel(
    xp: Any,
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    seen: Any,
    kept: Any,
    ans: Any,
    lse: Any,
    weights: Any,
    causal: bool,
    block: int | None,
) -> Any:
    operands = query, key, value, mask, seen, kept
    parts = []
    for rows, keys in _query_blocks(query.shape[-2], key.shape[-2], False, block):
        _, by_scores = _by_scores(xp, g, operands, ans, lse, weights, causal, rows, keys)
        parts.append(unbroadcast(xp, by_scores, _part(mask, rows, keys).shape))
    return functools.reduce(operator.add, parts) if mask.shape[-2] == 1 else _rows_joined(xp, parts)


#: The operands of the derivatives of `attention`.
_IN_ADJOINT = ("g", "query", "key", "value", "mask", "seen", "kept", "ans", "lse", "weights")


@nondifferentiable(
    *_IN_ADJOINT,
    name="nn.attention_adjoint",
    kernel=_attention_adjoint_kernel,
    outputs=3,
    adjoint_of="nn.attention",
    memory="fresh",
)
def _attention_adjoint(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    seen: Any,
    kept: Any,
    ans: Any,
    lse: Any,
    weights: Any,
    causal: bool,
    block: int | None,
    /,
) -> tuple[Tensor, ...]:
    """The first-order vjp of `attention` by queries, keys and values; higher orders go through its definition."""


@nondifferentiable(
    *_IN_ADJOINT,
    name="nn.attention_mask",
    kernel=_attention_mask_kernel,
    adjoint_of="nn.attention",
    memory="fresh",
)
def _attention_mask(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    seen: Any,
    kept: Any,
    ans: Any,
    lse: Any,
    weights: Any,
    causal: bool,
    block: int | None,
    /,
) -> Tensor:
    """The first-order vjp of `attention` by its mask; higher orders go through its definition."""


@fused(
    name="nn.attention",
    real=True,
    define=_attention_define,
    kernel=_attention_kernel,
    index=("seen", "kept"),
    residuals=("lse", "weights"),
    joint=("query", "key", "value"),
    vjp={
        **dict.fromkeys(
            ("query", "key", "value"),
            lambda xp, g, query, key, value, mask, seen, kept, ans, lse, weights, causal, block: (
                xp.nn.attention_adjoint(g, query, key, value, mask, seen, kept, ans, lse, weights, causal, block)
            ),
        ),
        "mask": lambda xp, g, query, key, value, mask, seen, kept, ans, lse, weights, causal, block: (
            xp.nn.attention_mask(g, query, key, value, mask, seen, kept, ans, lse, weights, causal, block)
        ),
    },
    source="Dao, Fu, Ermon, Rudra, Re: FlashAttention (2022), section 3.1 and appendix B.2",
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    seen: Any = None,
    kept: Any = None,
    causal: bool = False,
    block: int | None = None,
    /,
) -> Tensor:
    """Means of values under the softmax of ``query @ key.mT + mask``, computed for `block` queries at a time.

    `seen` says which keys a query may attend to, `kept` which weights are not zeroed after the softmax.
    """


# -- recurrent layers ---------------------------------------------------------------------------------------------------
#
# A layer runs over a whole sequence as one operation: a step is so short that nodes of its own would cost more than it.
# x, of shape (L, N, 4n), is what the input gives to the four blocks i, f, g and o, with all biases.


def _order(length: int, backwards: bool) -> range:
    return range(length)[::-1] if backwards else range(length)


def _lstm_steps(xp: Any, x: Any, h: Any, c: Any, weight: Any, backwards: bool) -> list[tuple[Any, ...]]:
    """Return for each element the openings i, f and o, the new values, and the states h and c after it."""
    n = weight.shape[1]
    made = []
    for t in _order(x.shape[0], backwards):
        blocks = x[t, ...] + xp.nn.linear(h, weight)
        i, f, g, o = (blocks[..., k * n : (k + 1) * n] for k in range(4))
        i, f, new, o = xp.nn.sigmoid(i), xp.nn.sigmoid(f), xp.tanh(g), xp.nn.sigmoid(o)
        c = f * c + i * new
        h = o * xp.tanh(c)
        made.append((i, f, o, new, h, c))
    return made[::-1] if backwards else made


def _lstm_states(xp: Any, steps: Sequence[tuple[Any, ...]]) -> Any:
    return xp.stack([xp.stack([step[k] for step in steps]) for k in (4, 5)])


def _lstm_define(xp: Any, x: Any, h: Any, c: Any, weight: Any, backwards: bool = False, /) -> Any:
    return _lstm_states(xp, _lstm_steps(xp, x, h, c, weight, backwards))


def _lstm_kernel(xp: Any, x: Any, h: Any, c: Any, weight: Any, backwards: bool = False, /) -> tuple[Any, ...]:
    """Return beside the states the openings i, f and o, shape (L, 3, N, n), and the new values, shape (L, N, n)."""
    steps = _lstm_steps(xp, x, h, c, weight, backwards)
    gates = xp.stack([xp.stack(list(step[:3])) for step in steps])
    return _lstm_states(xp, steps), gates, xp.stack([step[3] for step in steps])


def _lstm_adjoint_kernel(
    xp: Any, g: Any, h: Any, c: Any, weight: Any, ans: Any, gates: Any, inner: Any, backwards: bool
) -> tuple[Any, ...]:
    """Compute the cotangents from the end of the sequence on (backpropagation through time)."""
    n, order = weight.shape[1], _order(ans.shape[1], backwards)
    rows: list[Any] = []
    by_h, by_c = xp.zeros_like(h), xp.zeros_like(c)
    for k in reversed(range(len(order))):
        t = order[k]
        before = ans[1, order[k - 1], ...] if k else c
        i, f, o = (gates[t, j, ...] for j in range(3))
        new, outer = inner[t, ...], xp.tanh(ans[1, t, ...])
        by_h = by_h + g[0, t, ...]
        by_c = by_c + by_h * o * (1 - outer * outer) + g[1, t, ...]
        parts = [
            by_c * new * i * (1 - i),
            by_c * before * f * (1 - f),
            by_c * i * (1 - new * new),
            by_h * outer * o * (1 - o),
        ]
        rows.append(xp.concat(parts, axis=-1))
        by_h, by_c = xp.matmul(rows[-1], weight), by_c * f
    by_x = xp.stack(rows if backwards else rows[::-1])
    shown = [ans[0, order[k - 1], ...] if k else h for k in range(len(order))]
    number = len(order) * h.shape[0]
    seen = xp.reshape(xp.stack(shown[::-1] if backwards else shown), (number, n))
    return by_x, by_h, by_c, xp.matmul(xp.matrix_transpose(xp.reshape(by_x, (number, 4 * n))), seen)


@nondifferentiable(
    *("g", "h", "c", "weight", "ans", "gates", "inner"),
    name="nn.lstm_adjoint",
    kernel=_lstm_adjoint_kernel,
    outputs=4,
    adjoint_of="nn.lstm",
    memory="fresh",
)
def _lstm_adjoint(
    g: Any, h: Any, c: Any, weight: Any, ans: Any, gates: Any, inner: Any, backwards: bool, /
) -> tuple[Tensor, ...]:
    """The first-order vjp of `lstm`; higher orders go through its definition."""


@fused(
    name="nn.lstm",
    real=True,
    define=_lstm_define,
    kernel=_lstm_kernel,
    residuals=("gates", "inner"),
    joint=("x", "h", "c", "weight"),
    vjp=dict.fromkeys(
        ("x", "h", "c", "weight"),
        lambda xp, g, h, c, weight, ans, gates, inner, backwards: xp.nn.lstm_adjoint(
            g, h, c, weight, ans, gates, inner, backwards
        ),
    ),
    source="Hochreiter, Schmidhuber: Long short-term memory (1997); Gers et al. (2000), for the forget gate",
    memory="fresh",
)
def lstm(x: Any, h: Any, c: Any, weight: Any, backwards: bool = False, /) -> Tensor:
    """The states (h, c) of a long short-term memory after each element of a sequence: shape (2, L, N, n)."""


# -- losses -------------------------------------------------------------------------------------------------------------
#
# Each reduces by itself (reduction "mean", "sum" or "none"), so that a loss is one node. The cotangent of a reduced loss
# is a number, which broadcasts; the machinery sums over what an operand was broadcast along.


def reduced(xp: Any, values: Any, reduction: str) -> Any:
    """Return the mean, the sum, or the values themselves."""
    if reduction == "mean":
        return xp.mean(values)
    return xp.sum(values) if reduction == "sum" else values


def _per_element(g: Any, shape: Sequence[int], reduction: str) -> Any:
    """The cotangent of each element of the values that were reduced, up to broadcasting."""
    return g / math.prod(shape) if reduction == "mean" and 0 not in shape else g


def _pair_loss_jvp(xp: Any, t_input: Any, t_target: Any, slope: Any, reduction: str) -> Any:
    """The tangent of a loss of the difference of its operands."""
    change = t_input if t_target is None else -t_target if t_input is None else t_input - t_target
    return reduced(xp, slope * change, reduction)


def _mse_vjp(xp: Any, g: Any, input: Any, target: Any, reduction: str) -> Any:
    difference = input - target
    return difference * (2 * _per_element(g, difference.shape, reduction))


@custom(
    name="nn.mse_loss",
    real=True,
    vjp={
        "input": _mse_vjp,
        "target": lambda xp, g, input, target, reduction: -_mse_vjp(xp, g, input, target, reduction),
    },
    jvp=lambda xp, t_input, t_target, input, target, reduction: _pair_loss_jvp(
        xp, t_input, t_target, 2 * (input - target), reduction
    ),
    kernel=lambda xp, input, target, reduction="mean": reduced(xp, xp.square(input - target), reduction),
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def mse_loss(input: Any, target: Any, reduction: str = "mean", /) -> Tensor:
    """Squared difference."""


def _l1_vjp(xp: Any, g: Any, input: Any, target: Any, reduction: str) -> Any:
    difference = input - target
    return xp.sign(difference) * _per_element(g, difference.shape, reduction)


@custom(
    name="nn.l1_loss",
    vjp={"input": _l1_vjp, "target": lambda xp, g, input, target, reduction: -_l1_vjp(xp, g, input, target, reduction)},
    jvp=lambda xp, t_input, t_target, input, target, reduction: _pair_loss_jvp(
        xp, t_input, t_target, xp.sign(input - target), reduction
    ),
    kernel=lambda xp, input, target, reduction="mean": reduced(xp, xp.abs(input - target), reduction),
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def l1_loss(input: Any, target: Any, reduction: str = "mean", /) -> Tensor:
    """Absolute difference; its derivative at 0 is 0."""


# The logarithms are limited to -100 and the denominator of the derivative to 1e-12, as in PyTorch. The first limit, a
# denormal number of float32, keeps log(0) from being asked for.


def _limited_log(xp: Any, x: Any) -> Any:
    return xp.clip(xp.log(xp.clip(x, min=1.5e-45)), min=-100.0)


def _bce_values(xp: Any, input: Any, target: Any, weight: Any) -> Any:
    values = (target - 1) * _limited_log(xp, 1 - input) - target * _limited_log(xp, input)
    return values if weight is None else values * weight


def _bce_by_input(xp: Any, input: Any, target: Any, weight: Any) -> Any:
    slope = (input - target) / xp.clip((1 - input) * input, min=1e-12)
    return slope if weight is None else slope * weight


def _bce_by_target(xp: Any, input: Any, target: Any, weight: Any) -> Any:
    slope = _limited_log(xp, 1 - input) - _limited_log(xp, input)
    return slope if weight is None else slope * weight


def _bce_jvp(
    xp: Any, t_input: Any, t_target: Any, t_weight: Any, input: Any, target: Any, weight: Any, reduction: str
) -> Any:
    return reduced(
        xp,
        _total(
            xp,
            None if t_input is None else t_input * _bce_by_input(xp, input, target, weight),
            None if t_target is None else t_target * _bce_by_target(xp, input, target, weight),
            None if t_weight is None else t_weight * _bce_values(xp, input, target, None),
        ),
        reduction,
    )


def _spread(g: Any, partial: Any, reduction: str) -> Any:
    return partial * _per_element(g, partial.shape, reduction)


@custom(
    name="nn.binary_cross_entropy",
    real=True,
    vjp={
        "input": lambda xp, g, input, target, weight, reduction: _spread(
            g, _bce_by_input(xp, input, target, weight), reduction
        ),
        "target": lambda xp, g, input, target, weight, reduction: _spread(
            g, _bce_by_target(xp, input, target, weight), reduction
        ),
        "weight": lambda xp, g, input, target, reduction: _spread(g, _bce_values(xp, input, target, None), reduction),
    },
    jvp=_bce_jvp,
    kernel=lambda xp, input, target, weight=None, reduction="mean": reduced(
        xp, _bce_values(xp, input, target, weight), reduction
    ),
    memory="fresh",
)
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean", /) -> Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input))``."""


# With p = pos_weight and s = softplus(-x) = -log sigmoid(x), the loss is (1 - y) x + (1 + (p - 1) y) s.


def _bcel_values(xp: Any, input: Any, target: Any, weight: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        values = xp.nn.softplus(input, 1.0, math.inf) - target * input
    else:
        rest = xp.nn.softplus(-input, 1.0, math.inf)
        values = (1 - target) * input + (1 + (pos_weight - 1) * target) * rest
    return values if weight is None else values * weight


def _bcel_by_input(xp: Any, input: Any, target: Any, weight: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        slope = xp.nn.sigmoid(input) - target
    else:
        slope = (1 - target) - (1 + (pos_weight - 1) * target) * xp.nn.sigmoid(-input)
    return slope if weight is None else slope * weight


def _bcel_by_target(xp: Any, input: Any, weight: Any, pos_weight: Any) -> Any:
    slope = -input if pos_weight is None else (pos_weight - 1) * xp.nn.softplus(-input, 1.0, math.inf) - input
    return slope if weight is None else slope * weight


def _bcel_by_pos_weight(xp: Any, input: Any, target: Any, weight: Any) -> Any:
    slope = target * xp.nn.softplus(-input, 1.0, math.inf)
    return slope if weight is None else slope * weight


def _bcel_jvp(
    xp: Any,
    t_input: Any,
    t_target: Any,
    t_weight: Any,
    t_pos_weight: Any,
    input: Any,
    target: Any,
    weight: Any,
    pos_weight: Any,
    reduction: str,
) -> Any:
    return reduced(
        xp,
        _total(
            xp,
            None if t_input is None else t_input * _bcel_by_input(xp, input, target, weight, pos_weight),
            None if t_target is None else t_target * _bcel_by_target(xp, input, weight, pos_weight),
            None if t_weight is None else t_weight * _bcel_values(xp, input, target, None, pos_weight),
            None if t_pos_weight is None else t_pos_weight * _bcel_by_pos_weight(xp, input, target, weight),
        ),
        reduction,
    )


@custom(
    name="nn.binary_cross_entropy_with_logits",
    real=True,
    vjp={
        "input": lambda xp, g, input, target, weight, pos_weight, reduction: _spread(
            g, _bcel_by_input(xp, input, target, weight, pos_weight), reduction
        ),
        "target": lambda xp, g, input, weight, pos_weight, reduction: _spread(
            g, _bcel_by_target(xp, input, weight, pos_weight), reduction
        ),
        "weight": lambda xp, g, input, target, pos_weight, reduction: _spread(
            g, _bcel_values(xp, input, target, None, pos_weight), reduction
        ),
        "pos_weight": lambda xp, g, input, target, weight, reduction: _spread(
            g, _bcel_by_pos_weight(xp, input, target, weight), reduction
        ),
    },
    jvp=_bcel_jvp,
    kernel=lambda xp, input, target, weight=None, pos_weight=None, reduction="mean": reduced(
        xp, _bcel_values(xp, input, target, weight, pos_weight), reduction
    ),
    memory="fresh",
)
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean", /
) -> Tensor:
    """Binary cross entropy of the sigmoid of `input`, without overflow."""


# Losses of class indices. The classes stand along axis 1, or 0 where there is no batch.


def class_axis(rank: int) -> int:
    """Return the axis of the classes."""
    return 1 if rank > 1 else 0


def _is_class(xp: Any, like: Any, target: Any, count: int, axis: int) -> Any:
    """Whether a class is the target, in the shape of the input and on the device of `like`."""
    classes = xp.astype(xp.arange(count, **beside(like)), target.dtype)
    shape = tuple(count if i == axis else 1 for i in range(target.ndim + 1))
    return xp.expand_dims(target, axis=axis) == xp.reshape(classes, shape)


def _row_weights(xp: Any, like: Any, target: Any, weight: Any, ignore_index: int, hit: Any, axis: int) -> Any:
    """The weight of each target; 0 if it is ignored, NaN if it is not a class."""
    if weight is None:
        rows = xp.astype(xp.any(hit, axis=axis), like.dtype)
    else:
        shape = tuple(-1 if i == axis else 1 for i in range(hit.ndim))
        rows = xp.sum(xp.astype(hit, like.dtype) * xp.reshape(weight, shape), axis=axis)
    known = xp.any(hit, axis=axis) | (target == ignore_index)
    rows = xp.where(target == ignore_index, xp.zeros_like(rows), rows)
    return xp.where(known, rows, xp.zeros_like(rows) + math.nan)


def _class_loss(xp: Any, picked: Any, rows: Any, reduction: str) -> Any:
    """The loss of picked log-probabilities with the weights of the targets."""
    if reduction == "none":
        return -picked * rows
    total = -xp.sum(picked * rows)
    return total if reduction == "sum" else total / _weight(xp, rows)


def _weight(xp: Any, rows: Any) -> Any:
    """The sum of the weights; NaN, not 0, if no target counts."""
    total = xp.sum(rows)
    return xp.where(total == 0, xp.zeros_like(total) + math.nan, total)


def _class_cotangent(xp: Any, g: Any, rows: Any, reduction: str) -> Any:
    """The cotangent of each target's loss; 0 for ignored targets, also if no target counts and the mean is NaN."""
    if reduction != "mean":
        return g * rows
    return xp.where(rows == 0, xp.zeros_like(rows), g * rows / _weight(xp, rows))


def _nll_kernel(
    xp: Any, input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    axis = class_axis(input.ndim)
    hit = _is_class(xp, input, target, input.shape[axis], axis)
    rows = _row_weights(xp, input, target, weight, ignore_index, hit, axis)
    picked = xp.sum(xp.where(hit, input, xp.zeros_like(input)), axis=axis)
    return _class_loss(xp, picked, rows, reduction)


def _nll_adjoint(xp: Any, g: Any, input_spec: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    axis = class_axis(len(input_spec.shape))
    hit = _is_class(xp, g, target, input_spec.shape[axis], axis)
    rows = _row_weights(xp, g, target, weight, ignore_index, hit, axis)
    g = xp.expand_dims(_class_cotangent(xp, g, rows, reduction), axis=axis)
    return -(xp.astype(hit, g.dtype) * g)


@linear(
    name="nn.nll_loss",
    index=("target", "weight"),
    input=_nll_adjoint,
    kernel=_nll_kernel,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def nll_loss(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", /
) -> Tensor:
    """Minus the log-probability of the target class."""


def _cross_entropy_define(
    xp: Any, input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    logs = xp.nn.log_softmax(input, axis=class_axis(input.ndim))
    return xp.nn.nll_loss(logs, target, weight, ignore_index, reduction)


def _cross_entropy_kernel(
    xp: Any, input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> tuple[Any, Any, Any]:
    """The loss, log(sum(exp(input))) over the classes, and the weight of each target (None: all weigh 1)."""
    axis = class_axis(input.ndim)
    most = xp.max(input, axis=axis, keepdims=True)
    lse = most + xp.log(xp.sum(xp.exp(input - most), axis=axis, keepdims=True))
    hit = _is_class(xp, input, target, input.shape[axis], axis)
    rows = _row_weights(xp, input, target, weight, ignore_index, hit, axis)
    picked = xp.sum(xp.where(hit, input - lse, xp.zeros_like(input)), axis=axis)
    return _class_loss(xp, picked, rows, reduction), lse, rows


def _cross_entropy_adjoint_kernel(
    xp: Any, grad: Any, input: Any, target: Any, lse: Any, rows: Any, reduction: str
) -> Any:
    """(softmax(input) - is_class(target)) times the cotangent of each target."""
    axis = class_axis(input.ndim)
    hit = _is_class(xp, input, target, input.shape[axis], axis)
    if rows is not None:
        grad = _class_cotangent(xp, grad, rows, reduction)
    elif reduction == "mean":
        grad = grad / (math.prod(target.shape) or math.nan)
    if rows is not None or reduction == "none":
        grad = xp.expand_dims(grad, axis=axis)
    return (xp.exp(input - lse) - xp.astype(hit, input.dtype)) * grad


@nondifferentiable(
    *("grad", "input", "target", "lse", "rows"),
    name="nn.cross_entropy_adjoint",
    kernel=_cross_entropy_adjoint_kernel,
    adjoint_of="nn.cross_entropy",
    memory="fresh",
)
def _cross_entropy_adjoint(grad: Any, input: Any, target: Any, lse: Any, rows: Any, reduction: str, /) -> Tensor:
    """The first-order vjp of `cross_entropy`; higher orders go through its definition."""


@fused(
    name="nn.cross_entropy",
    real=True,
    define=_cross_entropy_define,
    kernel=_cross_entropy_kernel,
    index=("target", "weight"),
    residuals=("lse", "rows"),
    vjp={
        "input": lambda xp, g, input, target, lse, rows, reduction: xp.nn.cross_entropy_adjoint(
            g, input, target, lse, rows, reduction
        )
    },
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def cross_entropy(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", /
) -> Tensor:
    """`nll_loss` of the `log_softmax` of `input`, for class indices."""
