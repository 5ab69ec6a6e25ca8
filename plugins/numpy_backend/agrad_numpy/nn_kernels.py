"""Kernels of the NumPy backend for neural networks: fewer passes over memory, and blocks that stay in the cache.

Buffers are reused freely, but only those a kernel has made itself. What stands here agrees with the kernels of
``agrad.ops.nn``, which define what is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from agrad.ops.nn import TAIL, TAIL_END, TAIL_K, output_size

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]

#: Bytes handled at a time by kernels of many passes: so few that the cache holds them, so many that calls cost little.
BLOCK_BYTES = 2**17

#: Elements handled at a time by optimisers, which make fewer passes over more arrays.
UPDATE_BLOCK = 2**16

#: Bytes of the buffer of a convolution: a few images' windows, within the second-level cache.
WINDOW_BYTES = 2**19

_NONE: Padding = ((0, 0), (0, 0))

# -- activations --------------------------------------------------------------------------------------------------------


def _relu(x: Any, /) -> Any:
    return np.maximum(x, 0)


def _leaky_relu(x: Any, negative_slope: float = 0.01, /) -> Any:
    scaled = np.multiply(x, negative_slope)
    if 0 <= negative_slope <= 1:
        return np.maximum(x, scaled)
    return np.where(x > 0, x, scaled)


#: Below this, exp(-x) overflows; the sigmoid is 0 there to the last digit that matters.
_LOWEST = {2: -11.0, 4: -88.0, 8: -709.0}


def _sigmoid(x: Any, /) -> Any:
    e = np.maximum(x, _LOWEST.get(x.dtype.itemsize, -709.0))
    if e.ndim == 0:
        return 1 / (1 + np.exp(-e))
    np.negative(e, e)
    np.exp(e, e)
    e += 1
    return np.reciprocal(e, e)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0, /) -> Any:
    scaled = x if beta == 1 else x * beta
    rest = np.log1p(np.exp(-np.abs(scaled)))
    if beta != 1:
        rest = rest / beta
    result = np.maximum(x, 0) + rest
    return result if threshold == math.inf else np.where(scaled > threshold, x, result)


#: As ``TAIL`` of ``agrad.ops.nn``, cut where the terms fall below 3e-8.
_TAIL_SINGLE_K = 3.0
_TAIL_SINGLE = (
    -1.2134207943610752e-05,
    3.814082584737418e-05,
    0.00012986463114670173,
    -0.00031878761716863646,
    -0.0009897248709877819,
    0.002894928716148874,
    0.006133069334127041,
    -0.046211570532974915,
    0.12322497670233834,
    -0.2064027039487802,
    0.12151394797547006,
)
_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)


def _cdf_and_exp(x: Any) -> tuple[Any, Any]:
    """The normal distribution function of a block, and exp(-x**2 / 2)."""
    single = x.dtype.itemsize <= 4
    k, coefficients = (_TAIL_SINGLE_K, _TAIL_SINGLE) if single else (TAIL_K, TAIL)
    t = np.abs(x)
    np.minimum(t, TAIL_END, out=t)
    e = t * t
    e *= -0.5
    np.exp(e, e)
    denominator = t + k
    t -= k
    t /= denominator
    p = np.multiply(t, coefficients[0], denominator)
    p += coefficients[1]
    for c in coefficients[2:]:
        p *= t
        p += c
    p *= e
    # 1 - p where x is positive, without a branch per element
    positive = np.greater(x, 0).astype(x.dtype)
    p *= np.subtract(1, np.add(positive, positive, t), t)
    p += positive
    return p, e


def _blockwise(function: Callable[[Any], Any], x: Any) -> Any:
    """Apply a function of one block to all of an array."""
    flat = np.ascontiguousarray(x).reshape(-1)
    block = BLOCK_BYTES // x.itemsize
    if flat.size <= block:
        return function(flat).reshape(x.shape)
    result = np.empty_like(flat)
    for i in range(0, flat.size, block):
        result[i : i + block] = function(flat[i : i + block])
    return result.reshape(x.shape)


def _normal_cdf(x: Any, /) -> Any:
    return _blockwise(lambda block: _cdf_and_exp(block)[0], x)


def _gelu_block(x: Any) -> Any:
    p, _ = _cdf_and_exp(x)
    p *= x
    return p


def _gelu_slope_block(x: Any) -> Any:
    p, e = _cdf_and_exp(x)
    e *= x
    e *= _DENSITY_AT_0
    p += e
    return p


_A = math.sqrt(2 / math.pi)
_B = 0.044715


def _gelu_tanh_block(x: Any) -> Any:
    t = x * x
    t *= _A * _B
    t += _A
    t *= x
    np.tanh(t, t)
    t += 1
    t *= x
    t *= 0.5
    return t


def _gelu_tanh_slope_block(x: Any) -> Any:
    square = x * x
    t = square * (_A * _B)
    t += _A
    t *= x
    np.tanh(t, t)
    square *= 3 * _A * _B
    square += _A
    square *= x
    slope = t * t
    np.subtract(1, slope, slope)
    slope *= square
    slope += t
    slope += 1
    slope *= 0.5
    return slope


def _gelu(x: Any, approximate: str = "none", /) -> Any:
    return _blockwise(_gelu_block if approximate == "none" else _gelu_tanh_block, x)


def _gelu_slope(x: Any, approximate: str = "none", /) -> Any:
    return _blockwise(_gelu_slope_block if approximate == "none" else _gelu_tanh_slope_block, x)


def _softmax(x: Any, /, *, axis: int) -> Any:
    e = np.asarray(np.subtract(x, np.maximum.reduce(x, axis, None, None, True)))
    np.exp(e, e)
    e /= np.add.reduce(e, axis, None, None, True)
    return e


def _log_softmax(x: Any, /, *, axis: int) -> Any:
    shifted = np.asarray(np.subtract(x, np.maximum.reduce(x, axis, None, None, True)))
    shifted -= np.log(np.add.reduce(np.exp(shifted), axis, None, None, True))
    return shifted


# -- layers -------------------------------------------------------------------------------------------------------------


#: float32 products of so few rows with so large a matrix run faster transposed: OpenBLAS then packs the small operand.
_FEW_ROWS = range(4, 129)
_LARGE = 2**15


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if input.ndim == 2:
        if weight.size >= _LARGE and weight.itemsize == 4 and len(input) in _FEW_ROWS:
            y = np.matmul(weight, input.T).T
            return y.copy() if bias is None else np.add(y, bias, order="C")
        y = input.dot(weight.T)
    elif input.ndim == 1:
        y = input.dot(weight.T)
    else:
        rows = input.reshape(-1, input.shape[-1])
        y = rows.dot(weight.T).reshape(*input.shape[:-1], weight.shape[0])
    if bias is None:
        return y
    if bias.dtype != y.dtype:
        return y + bias
    y += bias
    return y


def _row_blocks(shape: tuple[int, ...], rank: int, itemsize: int) -> tuple[int, int, list[slice]]:
    """How many rows there are, how long they are, and which to handle at a time."""
    length = math.prod(shape[len(shape) - rank :])
    rows = math.prod(shape[: len(shape) - rank])
    step = max(1, BLOCK_BYTES // max(1, length * itemsize))
    return rows, length, [slice(i, i + step) for i in range(0, rows, step)]


def _row_dots(a: Any, b: Any) -> Any:
    return np.vecdot(a, b)[:, None]


def _row_sums(a: Any) -> Any:
    return a.dot(np.ones((a.shape[1], 1), a.dtype))  # BLAS takes a third of the time of a reduction along rows


def _layer_norm(
    input: Any, weight: Any = None, bias: Any = None, rank: int = 1, eps: float = 1e-5, /
) -> tuple[Any, Any, Any]:
    rows, length, blocks = _row_blocks(input.shape, rank, input.itemsize)
    x = input.reshape(rows, length)
    y = np.empty((rows, length), input.dtype)
    mean, scale = np.empty((2, rows, 1), input.dtype)
    same = all(p is None or p.dtype == y.dtype for p in (weight, bias))
    w, b = (None if p is None or not same else p.reshape(-1) for p in (weight, bias))
    for at in blocks:
        m, s, part = mean[at], scale[at], y[at]
        np.divide(_row_sums(x[at]), length, m)
        np.subtract(x[at], m, part)
        np.divide(_row_dots(part, part), length, s)
        s += eps
        np.sqrt(s, s)
        np.reciprocal(s, s)
        part *= s
        if w is not None:
            part *= w
        if b is not None:
            part += b
    y = y.reshape(input.shape)
    if not same:
        y = y if weight is None else y * weight
        y = y if bias is None else y + bias
    return y, mean, scale


def _layer_norm_input(g: Any, input: Any, weight: Any, mean: Any, scale: Any, rank: int, /) -> Any:
    rows, length, blocks = _row_blocks(input.shape, rank, input.itemsize)
    x, g = input.reshape(rows, length), g.reshape(rows, length)
    w = None if weight is None else weight.reshape(-1)
    made = np.empty((rows, length), g.dtype)
    for at in blocks:
        s = scale[at]
        normal = np.subtract(x[at], mean[at])
        normal *= s
        part = g[at] if w is None else g[at] * w
        normal *= _row_dots(part, normal) / -length
        normal -= _row_sums(part) / length
        normal += part
        np.multiply(normal, s, made[at])
    return made.reshape(input.shape)


def _layer_norm_weight(g: Any, input: Any, mean: Any, scale: Any, rank: int, /) -> Any:
    rows, length, blocks = _row_blocks(input.shape, rank, input.itemsize)
    x, g = input.reshape(rows, length), g.reshape(rows, length)
    total = np.zeros(length, g.dtype)
    for at in blocks:
        normal = np.subtract(x[at], mean[at])
        normal *= scale[at]
        normal *= g[at]
        total += np.add.reduce(normal, 0)
    return total.reshape(input.shape[input.ndim - rank :])


def _dropout(x: Any, mask: Any, scale: float, /) -> Any:
    y = np.asarray(mask.astype(x.dtype))
    y *= scale
    y *= x
    return y


def _embedding(indices: Any, weight: Any, padding_idx: int | None = None, /) -> Any:
    return weight.take(indices, axis=0)


def _embedding_adjoint(grad: Any, indices: Any, spec: Any, /) -> Any:
    """Sort by row, then add up runs: ``np.add.at`` takes two to five times as long where rows are long."""
    table = np.zeros(spec.shape, grad.dtype)
    if not indices.size:
        return table
    rows = indices.reshape(-1)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    table[rows[starts]] = np.add.reduceat(grad.reshape(rows.size, spec.shape[1])[order], starts, axis=0)
    return table


def _pad(x: Any, /, widths: Sequence[Pair], value: float = 0.0) -> Any:
    shape = tuple(a + n + b for (a, b), n in zip(widths, x.shape, strict=True))
    made = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
    made[tuple(slice(a, a + n) for (a, _), n in zip(widths, x.shape, strict=True))] = x
    return made


# -- convolution --------------------------------------------------------------------------------------------------------
#
# Windows are copied into a buffer as columns, a few images at a time so that the buffer stays in the cache, and one
# matrix product per image does the rest. With stride 1 the columns run over all places of the padded image's memory in
# one piece, those included whose window reaches around the right edge: copying long rows is worth the few results that
# are thrown away. (K. Chellapilla, S. Puri, P. Simard, High performance convolutional neural networks for document
# processing, 2006, for the columns.)


def _padded(x: Any, padding: Padding, value: float = 0.0) -> Any:
    if padding == _NONE:
        return np.ascontiguousarray(x)
    return _pad(x, ((0, 0), (0, 0), *padding), value)


class _Windows:
    """Where the windows of padded images lie in memory.

    Parameters
    ----------
    shape : tuple of int
        Of the padded images, (N, C, H, W).
    window, stride, dilation : pair of int
        Of the convolution.
    groups : int
        Groups of channels.

    Attributes
    ----------
    out : pair of int
        Height and width of the result.
    grid : tuple of int
        Shape of the places the columns run over: ``out``, or one axis of whole rows of the padded image.
    width : int
        Columns per row of the result: ``out[1]``, or the padded image's width.
    """

    def __init__(self, shape: tuple[int, ...], window: Pair, stride: Pair, dilation: Pair, groups: int) -> None:
        self.shape, self.window, self.stride, self.dilation, self.groups = shape, window, stride, dilation, groups
        width = shape[3]
        self.out = tuple(output_size(shape[2 + a], window[a], stride[a], (0, 0), dilation[a]) for a in (0, 1))
        self.flat = stride == (1, 1)
        self.width = width if self.flat else self.out[1]
        self.grid = ((self.out[0] - 1) * width + self.out[1],) if self.flat else self.out
        self.length = math.prod(self.grid)
        self.rows = shape[1] // groups * window[0] * window[1]

    def images_at_a_time(self, itemsize: int) -> int:
        return max(1, min(self.shape[0], WINDOW_BYTES // max(self.groups * self.rows * self.length * itemsize, 1)))

    def buffer(self, count: int, dtype: Any) -> Any:
        """Make room for the columns of some images: (count, C, kh, kw, *grid)."""
        return np.empty((count, self.shape[1], *self.window, *self.grid), dtype)

    def view(self, padded: Any) -> Any:
        """Give the windows of padded images as a view of that shape; where windows overlap, its elements do."""
        n, c, h, w = padded.strides
        (down, across), (dh, dw) = self.stride, self.dilation
        places = (w,) if self.flat else (h * down, w * across)
        return as_strided(
            padded, (padded.shape[0], self.shape[1], *self.window, *self.grid), (n, c, h * dh, w * dw, *places)
        )

    def columns(self, buffer: Any) -> Any:
        """Give a buffer as matrices: (count, groups, rows, length)."""
        return buffer.reshape(-1, self.groups, self.rows, self.length)

    def result(self, count: int, channels: int, dtype: Any, *, zeros: bool = False) -> tuple[Any, Any]:
        """Make room for results of some images: as matrices, and as images without the places to throw away."""
        make = np.zeros if zeros else np.empty
        whole = make((count, channels, self.out[0], self.width), dtype)
        matrices = whole.reshape(count, self.groups, channels // self.groups, -1)[..., : self.length]
        return matrices, whole[..., : self.out[1]]


def _conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = (1, 1),
    padding: Padding = _NONE,
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Any:
    dtype = np.result_type(input, weight)
    out = weight.shape[0]
    padded = _padded(input, padding)
    windows = _Windows(padded.shape, weight.shape[2:], stride, dilation, groups)
    n = padded.shape[0]
    filters = weight.reshape(groups, out // groups, windows.rows)
    offset = None if bias is None else bias.reshape(-1, 1, 1)
    y = np.empty((n, out, *windows.out), dtype)
    if windows.rows == windows.shape[1] // groups and windows.flat:  # one element per window: the image is its columns
        np.matmul(filters, windows.columns(padded), out=y.reshape(n, groups, out // groups, -1))
        if offset is not None:
            y += offset
        return y
    view = windows.view(padded)
    step = windows.images_at_a_time(dtype.itemsize)
    buffer = windows.buffer(min(step, n), dtype)
    columns = windows.columns(buffer)
    matrices, images = windows.result(min(step, n), out, dtype)
    for i in range(0, n, step):
        m = min(step, n - i)
        np.copyto(buffer[:m], view[i : i + m])
        np.matmul(filters, columns[:m], out=matrices[:m])
        if offset is None:
            y[i : i + m] = images[:m]
        else:
            np.add(images[:m], offset, out=y[i : i + m])
    return y


def _conv2d_input(
    grad: Any, weight: Any, size: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Any:
    dtype = np.result_type(grad, weight)
    n, out = grad.shape[:2]
    kh, kw = weight.shape[2:]
    height, width = (size[a] + sum(padding[a]) for a in (0, 1))
    whole = np.zeros((n, weight.shape[1] * groups, height, width), dtype)
    windows = _Windows(whole.shape, (kh, kw), stride, dilation, groups)
    filters = weight.reshape(groups, out // groups, windows.rows).transpose(0, 2, 1)
    if windows.rows == windows.shape[1] // groups and windows.flat:
        g = grad.reshape(n, groups, out // groups, -1)
        np.matmul(filters, g, out=whole.reshape(n, groups, windows.rows, -1))
        return _cropped(whole, size, padding)
    view = windows.view(whole)
    step = windows.images_at_a_time(dtype.itemsize)
    buffer = windows.buffer(min(step, n), dtype)
    columns = windows.columns(buffer)
    filters = np.ascontiguousarray(filters)
    matrices, images = windows.result(min(step, n), out, dtype, zeros=True)
    for i in range(0, n, step):
        m = min(step, n - i)
        images[:m] = grad[i : i + m]
        np.matmul(filters, matrices[:m], out=columns[:m])
        for j in range(kh):
            for k in range(kw):
                view[i : i + m, :, j, k] += buffer[:m, :, j, k]
    return _cropped(whole, size, padding)


def _cropped(whole: Any, size: Pair, padding: Padding) -> Any:
    if padding == _NONE:
        return whole
    (top, _), (left, _) = padding
    return np.ascontiguousarray(whole[:, :, top : top + size[0], left : left + size[1]])


def _conv2d_weight(
    input: Any, grad: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Any:
    dtype = np.result_type(input, grad)
    n, out = grad.shape[:2]
    padded = _padded(input, padding)
    windows = _Windows(padded.shape, window, stride, dilation, groups)
    total = np.zeros((groups, out // groups, windows.rows), dtype)
    step = windows.images_at_a_time(dtype.itemsize)
    if windows.rows == windows.shape[1] // groups and windows.flat:
        g = np.ascontiguousarray(grad).reshape(n, groups, out // groups, -1)
        for i in range(0, n, step):
            columns = windows.columns(padded[i : i + step])
            total += np.matmul(g[i : i + step], columns.swapaxes(2, 3)).sum(0)
        return total.reshape(out, -1, *window)
    view = windows.view(padded)
    buffer = windows.buffer(min(step, n), dtype)
    columns = windows.columns(buffer).swapaxes(2, 3)
    matrices, images = windows.result(min(step, n), out, dtype, zeros=True)
    for i in range(0, n, step):
        m = min(step, n - i)
        np.copyto(buffer[:m], view[i : i + m])
        images[:m] = grad[i : i + m]
        total += np.matmul(matrices[:m], columns[:m]).sum(0)
    return total.reshape(out, -1, *window)


# -- pooling ------------------------------------------------------------------------------------------------------------


def _places(x: Any, window: Pair, stride: Pair, dilation: Pair) -> Iterator[Any]:
    """Give, per place in the window, a view of the elements that stand there: (N, C, Ho, Wo)."""
    sizes = [output_size(x.shape[2 + a], window[a], stride[a], (0, 0), dilation[a]) for a in (0, 1)]
    for i in range(window[0]):
        rows = slice(i * dilation[0], i * dilation[0] + stride[0] * (sizes[0] - 1) + 1, stride[0])
        for j in range(window[1]):
            start = j * dilation[1]
            yield x[:, :, rows, start : start + stride[1] * (sizes[1] - 1) + 1 : stride[1]]


def _max_pool2d(x: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /) -> Any:
    places = _places(_padded(x, padding, -math.inf), window, stride, dilation)
    best = next(places).copy()
    for part in places:
        np.maximum(best, part, out=best)
    return best


def _firsts(x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Iterator[Any]:
    """Give, per place in the window, where the first of the largest elements stands; NaN counts as largest."""
    free = np.ones(best.shape, np.bool_)
    nan = bool(np.isnan(best).any())
    last = window[0] * window[1] - 1
    for i, part in enumerate(_places(_padded(x, padding, -math.inf), window, stride, dilation)):
        if i == last:
            yield free
            return
        here = part == best
        if nan:
            here |= part != part  # noqa: PLR0124 (only NaN)
        here &= free
        free ^= here
        yield here


def _max_pool2d_adjoint(
    grad: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /
) -> Any:
    size = x.shape[2:]
    whole = np.zeros((*x.shape[:2], *(size[a] + sum(padding[a]) for a in (0, 1))), grad.dtype)
    firsts = _firsts(x, best, window, stride, padding, dilation)
    apart = dilation == (1, 1) and stride[0] >= window[0] and stride[1] >= window[1]
    for here, part in zip(firsts, _places(whole, window, stride, dilation), strict=True):
        if apart:
            np.multiply(grad, here, out=part)
        else:
            part += grad * here  # noqa: PLW2901 (a view: adds into `whole`)
    return _cropped(whole, size, padding)


def _max_pool2d_tangent(
    tangent: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /
) -> Any:
    total = np.zeros(best.shape, tangent.dtype)
    firsts = _firsts(x, best, window, stride, padding, dilation)
    for here, part in zip(firsts, _places(_padded(tangent, padding), window, stride, dilation), strict=True):
        np.copyto(total, part, where=here)
    return total


def _counts(
    size: Sequence[int], out: Sequence[int], window: Pair, stride: Pair, padding: Padding, count_pad: bool
) -> Any:
    """How many elements count in each window: one number, or an array (Ho, Wo)."""
    if count_pad or padding == _NONE:
        return window[0] * window[1]
    counts = []
    for a in (0, 1):
        start = np.arange(out[a]) * stride[a] - padding[a][0]
        counts.append(np.minimum(start + window[a], size[a]) - np.maximum(start, 0))
    return np.multiply.outer(*counts)


def _avg_pool2d(x: Any, window: Pair, stride: Pair, padding: Padding, count_pad: bool, /) -> Any:
    places = _places(_padded(x, padding), window, stride, (1, 1))
    total = next(places).copy()
    for part in places:
        total += part
    counts = _counts(x.shape[2:], total.shape[2:], window, stride, padding, count_pad)
    return np.divide(total, counts, out=total, casting="same_kind")


def _avg_pool2d_adjoint(grad: Any, size: Pair, window: Pair, stride: Pair, padding: Padding, count_pad: bool, /) -> Any:
    share = np.divide(grad, _counts(size, grad.shape[2:], window, stride, padding, count_pad), dtype=grad.dtype)
    whole = np.zeros((*grad.shape[:2], *(size[a] + sum(padding[a]) for a in (0, 1))), grad.dtype)
    apart = stride[0] >= window[0] and stride[1] >= window[1]
    for part in _places(whole, window, stride, (1, 1)):
        if apart:
            part[...] = share
        else:
            part += share  # noqa: PLW2901 (a view: adds into `whole`)
    return _cropped(whole, size, padding)


# -- losses -------------------------------------------------------------------------------------------------------------


def _mse_loss(input: Any, target: Any, reduction: str = "mean", /) -> Any:
    difference = np.asarray(input - target)
    if reduction == "none" or difference.dtype.kind != "f" or difference.dtype.itemsize == 2:
        difference = np.multiply(difference, difference, difference) if reduction == "none" else difference**2
        return difference if reduction == "none" else difference.mean() if reduction == "mean" else difference.sum()
    flat = difference.reshape(-1)
    total = np.dot(flat, flat)
    return np.divide(total, flat.size, dtype=flat.dtype) if reduction == "mean" else total


def _as_rows(input: Any, target: Any) -> tuple[Any, Any]:
    """Logits as (rows, classes) and targets as (rows,)."""
    if input.ndim == 2:
        return input, target
    if input.ndim == 1:
        return input[None, :], target.reshape(1)
    return np.moveaxis(input, 1, -1).reshape(-1, input.shape[1]), target.reshape(-1)


def _row_weights(target: Any, classes: int, weight: Any, ignore_index: int, dtype: Any) -> tuple[Any, Any]:
    """Targets to index with, and the weight of each; None where all weigh 1.

    Raises
    ------
    IndexError
        If a target is no class.
    """
    if not target.size:
        return target, None
    rows = None
    least = np.minimum.reduce(target)
    if ignore_index >= 0 or least < 0:
        ignored = target == ignore_index
        if ignored.any():
            rows = np.ones(target.shape, dtype) if weight is None else weight.take(target, mode="clip")
            rows[ignored] = 0
            target = np.where(ignored, 0, target)
            least = np.minimum.reduce(target)
    most = np.maximum.reduce(target)
    if least < 0 or most >= classes:
        message = f"Target {least if least < 0 else most} is out of bounds.\n  There are {classes} classes."
        raise IndexError(message)
    if rows is None and weight is not None:
        rows = weight.take(target)
    return target, rows


def _picks(target: Any, classes: int) -> Any:
    """The places of the targets in the flattened logits."""
    places = np.arange(0, target.size * classes, classes)
    return np.add(places, target, places) if places.dtype == target.dtype else places + target


def _class_loss(losses: Any, rows: Any, reduction: str, shape: tuple[int, ...]) -> Any:
    if rows is not None:
        losses = np.where(rows == 0, 0, losses) * rows  # what is ignored counts 0, also where it is infinite
    if reduction == "none":
        return losses.reshape(shape)
    total = np.add.reduce(losses)
    if reduction == "sum":
        return total
    count = losses.size if rows is None else np.add.reduce(rows)
    return total / count if count else losses.dtype.type(math.nan)


def _cross_entropy(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", /
) -> tuple[Any, Any, Any]:
    logits, flat = _as_rows(input, target)
    classes = logits.shape[1]
    flat, rows = _row_weights(flat, classes, weight, ignore_index, logits.dtype)
    most = np.maximum.reduce(logits, 1, None, None, True)
    shifted = np.subtract(logits, most)
    np.exp(shifted, shifted)
    lse = np.add.reduce(shifted, 1, None, None, True)
    np.log(lse, lse)
    lse += most
    losses = lse[:, 0] - logits.reshape(-1).take(_picks(flat, classes))
    return _class_loss(losses, rows, reduction, target.shape), lse, rows


def _cross_entropy_adjoint(grad: Any, input: Any, target: Any, lse: Any, rows: Any, reduction: str, /) -> Any:
    logits, flat = _as_rows(input, target)
    if rows is not None:
        flat = np.where(rows == 0, 0, flat)
    p = np.subtract(logits, lse, order="C")
    np.exp(p, p)
    p.reshape(-1)[_picks(flat, logits.shape[1])] -= 1
    if reduction == "mean":
        count = flat.size if rows is None else np.add.reduce(rows)
        scale = grad / count if count else math.nan
    else:
        scale = grad.reshape(-1, 1) if reduction == "none" else grad
    p *= scale if rows is None else scale * rows[:, None]
    if input.ndim == 2:
        return p
    if input.ndim == 1:
        return p[0]
    batch, classes, *rest = input.shape
    return np.ascontiguousarray(np.moveaxis(p.reshape(batch, *rest, classes), -1, 1))


def _nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", /) -> Any:
    logs, flat = _as_rows(input, target)
    flat, rows = _row_weights(flat, logs.shape[1], weight, ignore_index, logs.dtype)
    losses = np.negative(logs.reshape(-1).take(_picks(flat, logs.shape[1])))
    return _class_loss(losses, rows, reduction, target.shape)


# -- optimisers ---------------------------------------------------------------------------------------------------------


def _blocks(size: int) -> Iterator[slice]:
    for i in range(0, size, UPDATE_BLOCK):
        yield slice(i, i + UPDATE_BLOCK)


def _flat(*arrays: Any) -> list[Any]:
    return [a.reshape(-1) for a in arrays]


def _sgd(
    value: Any,
    grad: Any,
    buffer: Any,
    *,
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    weight_decay: float,
) -> tuple[Any, Any]:
    """The update of ``agrad.optim.SGD``; the buffer (None at the first step) is changed in place."""
    if not momentum and not weight_decay:
        step = np.asarray(grad * lr)
        return np.subtract(value, step, step), None
    made = np.empty(value.shape, value.dtype)
    first = buffer is None
    if momentum and first:
        buffer = np.empty(value.shape, value.dtype)
    v, g, out = _flat(value, grad, made)
    b = buffer.reshape(-1) if momentum else None
    for at in _blocks(v.size):
        d = g[at]
        if weight_decay:
            d = d + v[at] * weight_decay
        if momentum:
            if first:
                b[at] = d
            else:
                b[at] *= momentum
                b[at] += d * (1 - dampening) if dampening else d
            d = d + b[at] * momentum if nesterov else b[at]
        step = np.multiply(d, lr, out[at])
        np.subtract(v[at], step, step)
    return made, buffer


def _adam(
    value: Any,
    grad: Any,
    mean: Any,
    square: Any,
    most: Any = None,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> tuple[Any, ...]:
    """The update of ``agrad.optim.Adam``; mean, square and most are changed in place."""
    correction = math.sqrt(1 - beta2**step)
    rate = lr / (1 - beta1**step)
    made = np.empty(value.shape, value.dtype)
    v, g, m, s, out = _flat(value, grad, mean, square, made)
    top = None if most is None else most.reshape(-1)
    for at in _blocks(v.size):
        old, d, m_at, s_at, w = v[at], g[at], m[at], s[at], out[at]
        if weight_decay and decoupled:
            old = old * (1 - lr * weight_decay)
        elif weight_decay:
            d = d + old * weight_decay
        np.subtract(d, m_at, w)
        w *= 1 - beta1
        m_at += w
        np.multiply(d, d, w)
        w *= 1 - beta2
        s_at *= beta2
        s_at += w
        if top is not None:
            s_at = np.maximum(top[at], s_at, out=top[at])
        np.sqrt(s_at, w)
        w /= correction
        w += eps
        np.divide(m_at, w, w)
        w *= rate
        np.subtract(old, w, w)
    return (made, mean, square) if most is None else (made, mean, square, most)


NN_KERNELS: dict[str, Callable[..., Any]] = {
    "nn.avg_pool2d": _avg_pool2d,
    "nn.avg_pool2d_adjoint": _avg_pool2d_adjoint,
    "nn.conv2d": _conv2d,
    "nn.conv2d_input": _conv2d_input,
    "nn.conv2d_weight": _conv2d_weight,
    "nn.cross_entropy": _cross_entropy,
    "nn.cross_entropy_adjoint": _cross_entropy_adjoint,
    "nn.dropout": _dropout,
    "nn.embedding": _embedding,
    "nn.embedding_adjoint": _embedding_adjoint,
    "nn.gelu": _gelu,
    "nn.gelu_slope": _gelu_slope,
    "nn.layer_norm": _layer_norm,
    "nn.layer_norm_input": _layer_norm_input,
    "nn.layer_norm_weight": _layer_norm_weight,
    "nn.leaky_relu": _leaky_relu,
    "nn.linear": _linear,
    "nn.log_softmax": _log_softmax,
    "nn.max_pool2d": _max_pool2d,
    "nn.max_pool2d_adjoint": _max_pool2d_adjoint,
    "nn.max_pool2d_tangent": _max_pool2d_tangent,
    "nn.mse_loss": _mse_loss,
    "nn.nll_loss": _nll_loss,
    "nn.normal_cdf": _normal_cdf,
    "nn.pad": _pad,
    "nn.relu": _relu,
    "nn.sigmoid": _sigmoid,
    "nn.softmax": _softmax,
    "nn.softplus": _softplus,
    "optim.adam": _adam,
    "optim.sgd": _sgd,
}
