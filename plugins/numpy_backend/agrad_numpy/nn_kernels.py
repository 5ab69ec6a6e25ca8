"""Kernels of the NumPy backend for neural networks: fewer passes over memory, and blocks that stay in the cache.

Buffers are reused freely, but only those a kernel has created itself. These kernels agree with those of
``agrad.ops.nn``, which define the results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from agrad.plugin.backend import TAIL, TAIL_END, TAIL_K
from agrad_numpy.image_kernels import IMAGE_KERNELS

#: Bytes handled at a time by kernels of many passes: few enough for the cache, and enough to make calls cheap.
BLOCK_BYTES = 2**17

#: From this length on, it is worth telling NumPy not to copy rows to its buffer.
LONG_ROW = 512

#: Rows of an embedding that occur more often are added one index at a time.
OFTEN = 32

#: The size in bytes of each array in a function with many passes and several intermediate results.
FUNCTION_BYTES = 2**17

#: Elements handled at a time by optimisers, which make fewer passes over more arrays.
UPDATE_BLOCK = 2**16

# -- activations --------------------------------------------------------------------------------------------------------


def _relu(x: Any, /) -> Any:
    return np.maximum(x, 0)


def _leaky_relu(x: Any, negative_slope: float = 0.01, /) -> Any:
    scaled = np.multiply(x, negative_slope)
    if 0 <= negative_slope <= 1:
        return np.maximum(x, scaled)
    return np.where(x > 0, x, scaled)


#: Below this, exp(-x) overflows; the sigmoid is then 0 to the last relevant digit.
_LOWEST = {2: -11.0, 4: -88.0, 8: -709.0}


def _sigmoid(x: Any, /) -> Any:
    e = np.maximum(x, _LOWEST.get(x.dtype.itemsize, -709.0))
    if e.ndim == 0:
        return 1 / (1 + np.exp(-e))
    np.negative(e, e)
    np.exp(e, e)
    e += 1
    return np.reciprocal(e, e)


def _silu_block(x: Any, out: Any, room: Any) -> None:
    np.maximum(x, _LOWEST[x.itemsize], out=out)
    np.negative(out, out)
    np.exp(out, out)
    out += 1
    np.divide(x, out, out)


def _silu_slope_block(x: Any, out: Any, room: Any) -> None:
    """The slope s (1 + x (1 - s))."""
    s, *_ = room[:, : len(x)]
    np.maximum(x, _LOWEST[x.itemsize], out=s)
    np.negative(s, s)
    np.exp(s, s)
    s += 1
    np.reciprocal(s, s)
    np.subtract(1, s, out)
    out *= x
    out += 1
    out *= s


def _silu(x: Any, /) -> Any:
    return _blockwise(_silu_block, x)


def _silu_slope(x: Any, /) -> Any:
    return _blockwise(_silu_slope_block, x)


def _log1p_of_exp(x: Any) -> Any:
    """log(1 + exp(-abs(x))), in a new array.

    NumPy's logarithm of float32 is vectorised, its log1p is not. With u = 1 + e as rounded, log(1 + e) is log(u) plus,
    to first order, the rounding error divided by u.
    """
    e = np.asarray(np.abs(x))
    np.negative(e, e)
    np.exp(e, e)
    if e.itemsize != 4:
        return np.log1p(e, e)
    u = np.asarray(e + 1)
    e -= u - 1
    e /= u
    np.log(u, u)
    u += e
    return u


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0, /) -> Any:
    scaled = x if beta == 1 else x * beta
    result = _log1p_of_exp(scaled)
    if beta != 1:
        result /= beta
    result += np.maximum(x, 0) if beta > 0 else np.minimum(x, 0)
    return result if threshold == math.inf else np.where(scaled > threshold, x, result)


#: For float32: the tail is exp(-x**2 / 2) times the quotient of these polynomials in x >= 0, lowest power first, up to a
#: relative error of 6e-9. Fitted to SciPy's erfcx for 0 <= x <= 14.5 by iterated, reweighted least squares. None is
#: negative, so the sum of the powers, one matrix product, loses nothing.
_TAIL_SINGLE = np.asarray(
    [
        (48.45933272410873, 42.47895214556081, 17.75889839965506, 3.938115979913019, 0.3989469103284721, 0),
        (96.91866487551759, 162.28785139976668, 116.54497113549648, 45.50044958570494, 9.87201770912683, 1),
    ],
    np.float32,
)
_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)


def _tail(x: Any, room: Any) -> tuple[Any, Any, Any, Any]:
    """For a block of x: abs(x), limited; exp(-x**2 / 2); the normal distribution beyond abs(x); and scratch memory."""
    ones, size, e, *powers = room[:6, : len(x)]
    p, q = room[6:, : len(x)]
    np.abs(x, size)
    if not np.maximum.reduce(size) <= TAIL_END:  # seldom, and minimum takes five times as long
        np.minimum(size, TAIL_END, out=size)
    np.multiply(size, size, e)
    if x.itemsize == 4:
        last = e
        for power in powers:
            last = np.multiply(last, size, power)
        ones[...] = 1
        np.matmul(_TAIL_SINGLE, room[:6, : len(x)], out=room[6:, : len(x)])
        p /= q
    else:
        np.subtract(size, TAIL_K, q)
        q /= np.add(size, TAIL_K, p)
        np.multiply(q, TAIL[0], p)
        p += TAIL[1]
        for c in TAIL[2:]:
            p *= q
            p += c
    e *= -0.5
    np.exp(e, e)
    p *= e
    return size, e, p, q


def _on_the_side(x: Any, tail: Any, room: Any, out: Any) -> None:
    """Write the tail where x is not positive, and 1 - tail elsewhere: without a branch per element."""
    np.copyto(out, np.greater(x, 0))
    np.multiply(out, tail, room)
    out += tail
    room *= 2
    out -= room


def _normal_cdf_block(x: Any, out: Any, room: Any) -> None:
    _, _, p, q = _tail(x, room)
    _on_the_side(x, p, q, out)


def _gelu_block(x: Any, out: Any, room: Any) -> None:
    """max(x, 0) - abs(x) times the tail: x times the tail where x is negative, x times 1 - tail elsewhere."""
    size, _, p, _ = _tail(x, room)
    np.maximum(x, 0, out=out)
    p *= size
    out -= p


def _gelu_slope_block(x: Any, out: Any, room: Any) -> None:
    """The distribution plus x times the density; for -x, 1 minus that."""
    size, e, p, q = _tail(x, room)
    e *= size
    e *= _DENSITY_AT_0
    p -= e
    _on_the_side(x, p, q, out)


def _blockwise(function: Callable[[Any, Any, Any], None], x: Any) -> Any:
    """Apply a function of one block, (values, output, scratch for eight intermediate results), to all of an array."""
    if x.itemsize == 2:
        return _blockwise(function, x.astype(np.float32)).astype(x.dtype)
    flat = np.ascontiguousarray(x).reshape(-1)
    result = np.empty_like(flat)
    block = min(FUNCTION_BYTES // flat.itemsize, flat.size)
    room = np.empty((8, block), flat.dtype)
    for i in range(0, flat.size, block or 1):
        at = slice(i, i + block)
        function(flat[at], result[at], room)
    return result.reshape(x.shape)


def _normal_cdf(x: Any, /) -> Any:
    return _blockwise(_normal_cdf_block, x)


_A = math.sqrt(2 / math.pi)
_B = 0.044715


def _gelu_tanh_block(x: Any, out: Any, room: Any) -> None:
    np.multiply(x, x, out)
    out *= _A * _B
    out += _A
    out *= x
    np.tanh(out, out)
    out += 1
    out *= x
    out *= 0.5


def _gelu_tanh_slope_block(x: Any, out: Any, room: Any) -> None:
    square, t, *_ = room[:, : len(x)]
    np.multiply(x, x, square)
    np.multiply(square, _A * _B, t)
    t += _A
    t *= x
    np.tanh(t, t)
    square *= 3 * _A * _B
    square += _A
    square *= x
    np.multiply(t, t, out)
    np.subtract(1, out, out)
    out *= square
    out += t
    out += 1
    out *= 0.5


def _gelu(x: Any, approximate: str = "none", /) -> Any:
    return _blockwise(_gelu_block if approximate == "none" else _gelu_tanh_block, x)


def _gelu_slope(x: Any, approximate: str = "none", /) -> Any:
    return _blockwise(_gelu_slope_block if approximate == "none" else _gelu_tanh_slope_block, x)


def _softmax(x: Any, /, *, axis: int) -> Any:
    if not x.size:
        return np.zeros_like(x)
    e = np.asarray(np.subtract(x, np.maximum.reduce(x, axis, None, None, True)))
    np.exp(e, e)
    e /= np.add.reduce(e, axis, None, None, True)
    return e


def _log_softmax(x: Any, /, *, axis: int) -> Any:
    if not x.size:
        return np.zeros_like(x)
    shifted = np.asarray(np.subtract(x, np.maximum.reduce(x, axis, None, None, True)))
    shifted -= np.log(np.add.reduce(np.exp(shifted), axis, None, None, True))
    return shifted


# -- layers -------------------------------------------------------------------------------------------------------------


#: float32 products of this few rows with a matrix of this size run faster transposed: OpenBLAS then packs the small
#: operand.
_FEW_ROWS = range(4, 129)
#: The number of elements of a weight matrix from which on few rows are multiplied by it transposed.
LARGE = 2**15


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if input.ndim == 2:
        if weight.size >= LARGE and weight.itemsize == 4 and len(input) in _FEW_ROWS:
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


class _LongRows:
    """Within it, ufuncs on long rows do not copy them to NumPy's buffer, as they do if rows are not contiguous.

    The size of that buffer is local to the thread and the context, and ``errstate`` restores it.
    """

    def __init__(self, length: int) -> None:
        self.state = np.errstate() if length >= LONG_ROW else None

    def __enter__(self) -> None:
        if self.state is not None:
            self.state.__enter__()
            np.setbufsize(16)

    def __exit__(self, *raised: object) -> None:
        if self.state is not None:
            self.state.__exit__(*raised)


def _row_blocks(rows: int, length: int, itemsize: int) -> list[slice]:
    """Which rows to handle at a time."""
    step = max(1, BLOCK_BYTES // max(1, length * itemsize))
    return [slice(i, i + step) for i in range(0, rows, step)]


def _row_dots(a: Any, b: Any) -> Any:
    return np.vecdot(a, b)[:, None]


def _row_sums(a: Any) -> Any:
    return a.dot(np.ones((a.shape[1], 1), a.dtype))  # BLAS takes a third of the time of a reduction along rows


def _as_rows_of(input: Any, rank: int) -> Any:
    """Return the last axes merged, and the others."""
    lead = input.ndim - rank
    return input.reshape(math.prod(input.shape[:lead]), math.prod(input.shape[lead:]))


def _layer_norm(
    input: Any, weight: Any = None, bias: Any = None, rank: int = 1, eps: float = 1e-5, /
) -> tuple[Any, Any, Any]:
    x = _as_rows_of(input, rank)
    rows, length = x.shape
    y = np.empty((rows, length), input.dtype)
    mean, scale = np.empty((2, rows, 1), input.dtype)
    same = all(p is None or p.dtype == y.dtype for p in (weight, bias))
    w, b = (None if p is None or not same else p.reshape(-1) for p in (weight, bias))
    with _LongRows(length):
        for at in _row_blocks(rows, length, x.itemsize):
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
    kept = (*input.shape[: input.ndim - rank], *(1,) * rank)
    return y, mean.reshape(kept), scale.reshape(kept)


def _layer_norm_input(g: Any, input: Any, weight: Any, mean: Any, scale: Any, rank: int, /) -> Any:
    """With c = x - mean and h = g w: scale (h - mean(h) - c scale**2 mean(h c))."""
    x, g = _as_rows_of(input, rank), _as_rows_of(g, rank)
    rows, length = x.shape
    mean, scale = mean.reshape(rows, 1), scale.reshape(rows, 1)
    w = None if weight is None else weight.reshape(-1)
    made = np.empty((rows, length), g.dtype)
    blocks = _row_blocks(rows, length, g.itemsize)
    room = np.empty((2, *g[blocks[0]].shape), g.dtype) if blocks else None
    with _LongRows(length):
        for at in blocks:
            s, out = scale[at], made[at]
            centred, h = room[:, : len(out)]
            np.subtract(x[at], mean[at], centred)
            h = g[at] if w is None else np.multiply(g[at], w, h)
            along = _row_dots(h, centred)
            along *= s
            along *= s
            along /= length
            centred *= along
            np.subtract(h, centred, out)
            out -= _row_sums(h) / length
            out *= s
    return made.reshape(input.shape)


def _layer_norm_weight(g: Any, input: Any, mean: Any, scale: Any, rank: int, /) -> Any:
    x, g = _as_rows_of(input, rank), _as_rows_of(g, rank)
    rows, length = x.shape
    mean, scale = mean.reshape(rows, 1), scale.reshape(rows, 1)
    total = np.zeros(length, g.dtype)
    blocks = _row_blocks(rows, length, g.itemsize)
    room = np.empty_like(g[blocks[0]]) if blocks else None
    with _LongRows(length):
        for at in blocks:
            part = room[: len(g[at])]
            np.subtract(x[at], mean[at], part)
            part *= g[at]
            total += scale[at, 0].dot(part)
    return total.reshape(input.shape[input.ndim - rank :])


# -- batch norm ---------------------------------------------------------------------------------------------------------
#
# Images are rows of planes, one per channel. Where planes are short, numbers per channel are repeated over them and an
# image is one row: a loop over a plane would take longer to begin than to run.

#: Up to this many elements a plane is short.
SHORT_PLANE = 64


class _Channels:
    """Arrays (N, C, ...) cut into blocks, and numbers per channel beside these.

    Attributes
    ----------
    blocks : list
        Pairs of the key of a block in an array from `cut`, and that of its channels.
    planes : tuple of int
        The number of channels, and the length of a plane.
    count : array
        The elements per channel, 1 if there are none: 0-d, since a number of Python takes longer to divide by.
    one : bool
        Whether there is one block, the whole array. It has lines of its own: few numbers would take an eighth to a quarter
        longer through the loop over blocks.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        rows, channels, *plane = shape
        self.length = length = math.prod(plane)
        self.planes = channels, length
        self.count = np.asarray(rows * length or 1, dtype)
        self.short = length <= SHORT_PLANE
        self.shape = (rows, channels * length) if self.short else (rows, channels, length)
        self.ones = np.ones(max(rows, length), dtype)  # BLAS adds up in a third of the time of a reduction
        self.rows, self.down, self.across = rows, self.ones[:rows], self.ones[:length]
        size = self.ones.itemsize * channels * length
        if size * rows <= BLOCK_BYTES:
            self.blocks: list[Any] = [(..., ...)]
        elif self.short or size <= BLOCK_BYTES:
            self.blocks = [(at, ...) for at in _row_blocks(rows, channels * length, self.ones.itemsize)]
        else:
            parts = _row_blocks(channels, length, self.ones.itemsize)
            self.blocks = [((row, at), at) for row in range(rows) for at in parts]
        self.one = self.blocks == [(..., ...)]

    def cut(self, x: Any) -> Any:
        """Return an array in the shape that blocks are cut from."""
        return x.reshape(self.shape)

    def beside(self, numbers: Any) -> Any:
        """Return numbers per channel in a shape that broadcasts with a block."""
        return numbers[:, None] if not self.short else numbers if self.length == 1 else numbers.repeat(self.length)

    def sums(self, block: Any) -> Any:
        """Return the sums per channel."""
        if self.short:
            total = (self.down if len(block) == self.rows else self.ones[: len(block)]).dot(block)
            return total if self.length == 1 else total.reshape(self.planes).dot(self.across)
        return self._over_rows(block.dot(self.across))

    def dots(self, a: Any, b: Any) -> Any:
        """Return the sums per channel of products."""
        return self.sums(a * b) if self.short else self._over_rows(np.vecdot(a, b))

    def _over_rows(self, sums: Any) -> Any:
        return sums if sums.ndim == 1 else np.add.reduce(sums, 0)

    def total(self, sums: Callable[[Any, Any], Any], dtype: Any) -> Any:
        """Return the sums per channel over all blocks, a new array, given those of a block by its two keys."""
        total = np.zeros(self.planes[0], dtype)
        for at, channels in self.blocks:
            total[channels] += sums(at, channels)
        return total


#: The cuts of small arrays. Making one takes longer than a pass over few numbers; it holds an array of ones.
_kept_channels = functools.lru_cache(maxsize=16)(_Channels)


def _channels(shape: tuple[int, ...], dtype: Any) -> _Channels:
    """Return what an array of a shape is cut into."""
    return (_kept_channels if math.prod(shape) <= 1 << 16 else _Channels)(shape, dtype)


def _batch_norm(input: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, /) -> tuple[Any, Any, Any, Any]:
    dtype = input.dtype
    if dtype.itemsize < 4:  # sums would leave the range
        made = _batch_norm(input.astype(np.float32), weight, bias, eps)
        return tuple(part.astype(dtype) for part in made)  # type: ignore[return-value]
    cut = _channels(input.shape, dtype)
    x = cut.cut(input)
    if (weight is None or weight.dtype == dtype) and (bias is None or bias.dtype == dtype):
        y = np.empty(x.shape, dtype)
    else:
        y = np.empty(x.shape, np.result_type(input, *(p for p in (weight, bias) if p is not None)))
    if cut.one:
        mean = cut.sums(x)
        mean /= cut.count
        np.subtract(x, cut.beside(mean), y)
        variance = cut.dots(y, y)
        if variance.dtype != dtype:
            variance = variance.astype(dtype)
    else:
        mean = cut.total(lambda at, channels: cut.sums(x[at]), dtype)
        mean /= cut.count

        def squares(at: Any, channels: Any) -> Any:
            part = np.subtract(x[at], cut.beside(mean[channels]), y[at])
            return cut.dots(part, part)

        variance = cut.total(squares, dtype)
    variance /= cut.count
    scale = variance + eps
    np.sqrt(scale, scale)
    np.reciprocal(scale, scale)
    factor = scale if weight is None else scale * weight
    if cut.one:
        y *= cut.beside(factor)
        if bias is not None:
            y += cut.beside(bias)
    else:
        for at, channels in cut.blocks:
            part = y[at]
            part *= cut.beside(factor[channels])
            if bias is not None:
                part += cut.beside(bias[channels])
    return y.reshape(input.shape), mean, variance, scale


def _batch_norm_adjoint(g: Any, input: Any, weight: Any, mean: Any, scale: Any, /) -> tuple[Any, Any, Any]:
    dtype = g.dtype
    if dtype.itemsize < 4:
        made = _batch_norm_adjoint(g.astype(np.float32), input, weight, mean, scale)
        return tuple(part.astype(dtype) for part in made)  # type: ignore[return-value]
    if input.dtype != dtype:
        dtype = np.result_type(g, input)
    cut = _channels(input.shape, dtype)
    x, g = cut.cut(input), cut.cut(g)
    if cut.one:
        made = np.subtract(x, cut.beside(mean), dtype=dtype)
        by_bias, along = cut.sums(g), cut.dots(made, g)
    else:
        made = np.empty(x.shape, dtype)
        by_bias = cut.total(lambda at, channels: cut.sums(g[at]), dtype)

        def products(at: Any, channels: Any) -> Any:
            return cut.dots(np.subtract(x[at], cut.beside(mean[channels]), made[at]), g[at])

        along = cut.total(products, dtype)
    along *= scale
    slope, level = along * scale, by_bias / cut.count
    slope /= cut.count
    factor = scale if weight is None else scale * weight
    if cut.one:
        made *= cut.beside(slope)
        np.subtract(g, made, made)
        made -= cut.beside(level)
        made *= cut.beside(factor)
        return made.reshape(input.shape), along, by_bias
    for at, channels in cut.blocks:
        part = made[at]
        part *= cut.beside(slope[channels])
        np.subtract(g[at], part, part)
        part -= cut.beside(level[channels])
        part *= cut.beside(factor[channels])
    return made.reshape(input.shape), along, by_bias


def _dropout(x: Any, mask: Any, scale: float, /) -> Any:
    y = np.asarray(mask.astype(x.dtype))
    y *= scale
    if y.shape != x.shape:  # a batch under one mask
        return y * x
    y *= x
    return y


def _embedding(indices: Any, weight: Any, padding_idx: int | None = None, /) -> Any:
    return weight.take(indices, axis=0)


def _embedding_adjoint(grad: Any, indices: Any, spec: Any, /) -> Any:
    """Sort by index. Frequent indices are added separately; the rest in rounds, the i-th occurrence of each index in the i-th.

    The order of the sums is that of the indices; ``np.add.at`` takes five times as long.
    """
    table = np.zeros(spec.shape, grad.dtype)
    count, width = indices.size, spec.shape[1]
    if not count:
        return table
    g, rows = grad.reshape(count, width), indices.reshape(-1)
    order = np.argsort(rows.astype(np.uint16) if len(table) <= 2**16 else rows, kind="stable")  # 16 bits: by radix
    rows = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    counts = np.diff(starts, append=count)
    for i in np.flatnonzero(counts > OFTEN):
        np.add.reduce(g[order[starts[i] : starts[i] + counts[i]]], 0, out=table[rows[starts[i]]])
    by_count = np.argsort(-counts, kind="stable")[np.count_nonzero(counts > OFTEN) :]
    starts, counts = starts[by_count], counts[by_count]
    sums = g.take(order[starts], axis=0)
    for i in range(1, int(counts[0]) if len(counts) else 0):
        alive = np.searchsorted(-counts, -i)
        sums[:alive] += g.take(order[starts[:alive] + i], axis=0)
    table[rows[starts]] = sums
    return table


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
    """Return targets to index with, and the weight of each; None if all weigh 1.

    Raises
    ------
    IndexError
        If a target is not a class.
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
    """Return the positions of the targets in the flattened logits."""
    places = np.arange(0, target.size * classes, classes)
    return np.add(places, target, places) if places.dtype == target.dtype else places + target


def _class_loss(losses: Any, rows: Any, reduction: str, shape: tuple[int, ...]) -> Any:
    if rows is not None:
        losses = np.where(rows == 0, 0, losses) * rows  # ignored elements count 0, even if they are infinite
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
    loss = _class_loss(losses, rows, reduction, target.shape)
    # There may be ignored targets, whatever these are: a program runs with others, some of which may be ignored
    if rows is None:
        rows = np.ones(flat.shape, logits.dtype)
    if input.ndim == 2:
        return loss, lse, rows
    kept = (*target.shape[:1], 1, *target.shape[1:]) if target.ndim else (1,)
    return loss, lse.reshape(kept), rows.reshape(target.shape)


def _cross_entropy_adjoint(grad: Any, input: Any, target: Any, lse: Any, rows: Any, reduction: str, /) -> Any:
    logits, flat = _as_rows(input, target)
    rows = None if rows is None or (rows == 1).all() else rows.reshape(-1)
    if rows is not None:
        flat = np.where(rows == 0, 0, flat)
    p = np.subtract(logits, lse if input.ndim == 2 else lse.reshape(-1, 1), order="C")
    np.exp(p, p)
    p.reshape(-1)[_picks(flat, logits.shape[1])] -= 1
    if reduction == "mean":
        count = flat.size if rows is None else np.add.reduce(rows)
        scale = grad / count if count else math.nan
    else:
        scale = grad.reshape(-1, 1) if reduction == "none" else grad
    if rows is not None:
        scale = np.where(rows[:, None] == 0, 0, scale * rows[:, None])  # if no target counts, the mean is NaN
    p *= scale
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


# -- recurrent layers ---------------------------------------------------------------------------------------------------
#
# Gates lie apart, (L, gate, N, n), so that what is done to one is done to one piece of memory. In the order i, f, o, g one
# exponential does for the first three, whose weights have the other sign.


def _by_gate(x: Any) -> Any:
    """Return a view (4, ..., n) of blocks (..., 4n) that are adjacent."""
    return np.moveaxis(x.reshape(*x.shape[:-1], 4, x.shape[-1] // 4), -2, 0)


def _lstm(x: Any, h: Any, c: Any, weight: Any, backwards: bool = False, /) -> tuple[Any, Any, Any]:
    length, batch, n = len(x), x.shape[1], weight.shape[1]
    dtype = np.result_type(x, h, c, weight)
    made = np.empty((2, length, batch, n), dtype)
    blocks = np.empty((length, 4, batch, n), dtype)
    w = np.empty((4, n, n), dtype)  # transposed once: OpenBLAS's kernels for AVX-512 take half as long then
    for into, part in ((w, weight.reshape(4, n, n).swapaxes(1, 2)), (blocks.swapaxes(0, 1), _by_gate(x))):
        # `negative` writes wrong numbers where operand and result have certain strides (NumPy 2.4.6: 16 bytes, float32).
        np.multiply(part[:2], -1, out=into[:2])
        np.multiply(part[3], -1, out=into[2])
        into[3] = part[2]
    product, room, one = np.empty((4, batch, n), dtype), np.empty((batch, n), dtype), np.ones((), dtype)
    with np.errstate(over="ignore"):
        for t in range(length)[:: -1 if backwards else 1]:
            block = blocks[t]
            np.matmul(h, w, out=product)
            block += product
            opened, new = block[:3], block[3]
            np.exp(opened, opened)
            opened += one
            np.divide(one, opened, opened)
            np.tanh(new, new)
            np.multiply(opened[0], new, room)
            c = np.multiply(opened[1], c, made[1, t])
            c += room
            np.tanh(c, room)
            h = np.multiply(opened[2], room, made[0, t])
    return made, blocks[:, :3], blocks[:, 3]


def _lstm_adjoint(
    g: Any, h: Any, c: Any, weight: Any, ans: Any, gates: Any, inner: Any, backwards: bool, /
) -> tuple[Any, Any, Any, Any]:
    length, batch, n = ans.shape[1:]
    dtype = np.result_type(g, weight, ans)
    by_x = np.empty((length, batch, 4 * n), dtype)
    by_gates = _by_gate(by_x)
    slopes, room, one = np.empty((3, batch, n), dtype), np.empty((batch, n), dtype), np.ones((), dtype)
    by_h, by_c = np.zeros((batch, n), dtype), np.zeros((batch, n), dtype)
    ended = g[1].any()  # otherwise the last cell does not contribute to the result
    order = range(length)[:: -1 if backwards else 1]
    for k in reversed(range(length)):
        t = order[k]
        opened, new, state = gates[t], inner[t], ans[0, t]
        i, f, o = opened
        by_h += g[0, t]
        np.tanh(ans[1, t], room)  # the state's slope by the cell: o - o tanh(c)**2, where o tanh(c) is the state
        room *= state
        np.subtract(o, room, room)
        room *= by_h
        by_c += room
        if ended:
            by_c += g[1, t]
        np.subtract(one, opened, slopes)  # of i and f by the cell, of o by the state
        slopes[:2] *= opened[:2]
        slopes[0] *= new
        slopes[1] *= ans[1, order[k - 1]] if k else c
        slopes[2] *= state
        np.multiply(slopes[:2], by_c, by_gates[:2, t])
        np.multiply(slopes[2], by_h, by_gates[3, t])
        np.multiply(new, new, room)
        np.subtract(one, room, room)
        room *= i
        np.multiply(room, by_c, by_gates[2, t])
        by_c *= f
        np.matmul(by_x[t], weight, out=by_h)
    shown = np.empty((length, batch, n), dtype)
    end, rest, earlier = (-1, slice(-1), slice(1, None)) if backwards else (0, slice(1, None), slice(-1))
    shown[end], shown[rest] = h, ans[0, earlier]
    return by_x, by_h, by_c, np.matmul(by_x.reshape(length * batch, 4 * n).T, shown.reshape(length * batch, n))


NN_KERNELS: dict[str, Callable[..., Any]] = {
    **IMAGE_KERNELS,
    "nn.batch_norm": _batch_norm,
    "nn.batch_norm_adjoint": _batch_norm_adjoint,
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
    "nn.lstm": _lstm,
    "nn.lstm_adjoint": _lstm_adjoint,
    "nn.mse_loss": _mse_loss,
    "nn.nll_loss": _nll_loss,
    "nn.normal_cdf": _normal_cdf,
    "nn.relu": _relu,
    "nn.sigmoid": _sigmoid,
    "nn.silu": _silu,
    "nn.silu_slope": _silu_slope,
    "nn.softmax": _softmax,
    "nn.softplus": _softplus,
    "optim.adam": _adam,
    "optim.sgd": _sgd,
}
