"""Kernels of the NumPy backend for images: padding, convolution, pooling. The rules of ``nn_kernels`` apply here too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from agrad.plugin.backend import once, output_size

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]

#: Bytes of the buffer of a convolution by columns: a few images' windows, within the second-level cache.
WINDOW_BYTES = 2**19

#: Bytes of the buffers of a convolution by planes: more than the second-level cache holds, but calls are fewer.
PLANE_BYTES = 2**20

#: Bytes of the images whose largest elements are searched at a time.
POOL_BYTES = 2**21

#: Up to this many positions of a result, the columns of several images are one matrix.
FEW_PLACES = 32

#: Up to this many filters per channel of a group, the adjoint in the images is itself a convolution of columns: copying the
#: columns of the cotangents, which are as many more, takes less time than adding up those of the images.
WIDER = 2

#: A call of einsum costs as much as this many products by columns.
LONG = 50_000

#: Up to this many channels of a group times filters of a group, a convolution uses planes.
FEW_CHANNELS = 4

_NONE: Padding = ((0, 0), (0, 0))


def _pad(x: Any, /, widths: Sequence[Pair], value: float = 0.0) -> Any:
    shape = tuple(a + n + b for (a, b), n in zip(widths, x.shape, strict=True))
    made = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
    made[tuple(slice(a, a + n) for (a, _), n in zip(widths, x.shape, strict=True))] = x
    return made


# -- convolution --------------------------------------------------------------------------------------------------------
#
# Windows are copied into a buffer as columns, a few images at a time so that the buffer stays in the cache, and a matrix
# product does the rest. With stride 1 these images lie side by side in rows that run through all of them, so that a tap of
# all windows is one long piece of memory, and their columns are one matrix (`_ImageRows`). The columns between two images, and
# those whose window reaches around the edge, are thrown away; padding between neighbours is shared. Otherwise the product
# is one per image, and where a result has few places, the columns of these images stand side by side and one product does
# for all of them, so that the filters are read once (`_Windows`); nothing is thrown away there. (K. Chellapilla, S. Puri,
# P. Simard, High performance convolutional neural networks for document processing, 2006, for the columns.)


def _padded(x: Any, padding: Padding, value: float = 0.0) -> Any:
    if padding == _NONE:
        return np.ascontiguousarray(x)
    return _pad(x, ((0, 0), (0, 0), *padding), value)


class _How(NamedTuple):
    """The parameters of a convolution."""

    stride: Pair
    padding: Padding
    dilation: Pair
    groups: int


class _Windows:
    """Where the windows of padded images are in memory.

    Parameters
    ----------
    shape : tuple of int
        The shape of the padded images, (N, C, H, W).
    window : pair of int
        Those of the convolution, as is `how`.

    Attributes
    ----------
    out : pair of int
        Height and width of the result.
    length : int
        The places of a result.
    whole : bool
        Whether the windows are of one element and not folded, so that the image itself is its columns.
    folded : bool
        Whether the columns of several images are one matrix.
    """

    def __init__(self, shape: tuple[int, ...], window: Pair, how: _How) -> None:
        self.shape, self.window, self.groups = shape, window, how.groups
        self.stride, self.dilation = stride, dilation = how.stride, how.dilation
        self.out = tuple(output_size(shape[2 + a], window[a], stride[a], (0, 0), dilation[a]) for a in (0, 1))
        self.length = math.prod(self.out)
        self.rows = shape[1] // how.groups * window[0] * window[1]
        self.folded = self.length <= FEW_PLACES
        self.whole = window == (1, 1) and stride == (1, 1) and not self.folded

    def images_at_a_time(self, itemsize: int) -> int:
        return max(1, min(self.shape[0], WINDOW_BYTES // max(self.groups * self.rows * self.length * itemsize, 1)))

    def columns(self, count: int, dtype: Any) -> tuple[Any, Any]:
        """Allocate the columns of this many images: as windows in the form of `view`, and as matrices.

        The matrices are of shape (count, groups, rows, length), or (1, groups, rows, count * length) where they are folded.
        """
        channels, places = (self.shape[1], *self.window), self.out
        if not self.folded:
            made = np.empty((count, *channels, *places), dtype)
            return made, made.reshape(count, self.groups, self.rows, self.length)
        made = np.empty((*channels, count, *places), dtype)
        return made.transpose(3, 0, 1, 2, 4, 5), made.reshape(1, self.groups, self.rows, count * self.length)

    def view(self, padded: Any) -> Any:
        """Return the windows of padded images as a view of that shape; if windows overlap, its elements do."""
        n, c, h, w = padded.strides
        (down, across), (dh, dw) = self.stride, self.dilation
        return as_strided(
            padded,
            (padded.shape[0], self.shape[1], *self.window, *self.out),
            (n, c, h * dh, w * dw, h * down, w * across),
        )

    def results(self, count: int, channels: int, dtype: Any) -> tuple[Any, Any]:
        """Allocate the results of this many images: as images, and as matrices."""
        if self.folded:
            made = np.empty((channels, count, *self.out), dtype)
            return made.transpose(1, 0, 2, 3), made.reshape(1, self.groups, channels // self.groups, -1)
        made = np.empty((count, channels, *self.out), dtype)
        return made, made.reshape(count, self.groups, channels // self.groups, -1)

    def chunks(self, channels: int, dtype: Any) -> Iterator[tuple[slice, Any, Any, Any, Any]]:
        """Yield the images to handle at a time, with memory for their columns and for their results with this many channels."""
        number, step = self.shape[0], self.images_at_a_time(dtype.itemsize)
        for i in range(0, number, step):
            count = min(step, number - i)
            if i == 0 or count < step:
                rooms = *self.columns(count, dtype), *self.results(count, channels, dtype)
            yield slice(i, i + count), *rooms


class _RowRoom(NamedTuple):
    """Memory for some images in rows.

    Attributes
    ----------
    at : slice
        Which images.
    rows, images : array
        The memory, which begins as zeros, and a view of it as images (count, C, H, W) without their padding.
    taps : array
        A view of it with overlaps, (C, kh, kw, length): what each tap of a filter sees.
    columns, matrices : array
        Memory for a copy of that, and the same as matrices (groups, rows, length).
    results, sums : array
        A view as images of memory for results, which begins as zeros, and that memory as matrices (groups, filters of a group,
        length).
    """

    at: slice
    rows: Any
    images: Any
    taps: Any
    columns: Any
    matrices: Any
    results: Any
    sums: Any


class _ImageRows:
    """Images side by side, for convolutions of stride 1: in the order (channel, height, image, width).

    Parameters
    ----------
    images : tuple of int
        Shape of the images, (N, C, H, W), without their padding.
    filters : tuple of int
        Shape of the filters by group: (groups, filters of a group, channels of a group, kh, kw).
    how : _How
        Of the convolution.

    Attributes
    ----------
    out : list of int
        Height and width of the result.
    width : int
        Columns of an image in a row.
    fit : int
        The elements of an image's columns.
    """

    def __init__(self, images: tuple[int, ...], filters: tuple[int, ...], how: _How) -> None:
        self.images, self.filters, self.padding, self.dilation = images, filters, how.padding, how.dilation
        self.out = [output_size(images[2 + a], filters[3 + a], 1, how.padding[a], how.dilation[a]) for a in (0, 1)]
        self.width = max(images[3] + max(how.padding[1]), self.out[1])  # padding between neighbours is shared
        self.fit = self.out[0] * self.width * math.prod(filters[3:]) * images[1]

    def rooms(self, dtype: Any) -> Iterator[_RowRoom]:
        """Yield memory for the images to handle at a time, the same each time."""
        number = self.images[0]
        step = max(1, min(number, WINDOW_BYTES // max(self.fit * dtype.itemsize, 1)))
        for i in range(0, number, step):
            count = min(step, number - i)
            if i == 0 or count < step:
                room = self._room(count, dtype)
            yield room._replace(at=slice(i, i + count))

    def _room(self, count: int, dtype: Any) -> _RowRoom:
        (_, channels, height, width), (groups, filters, _, kh, kw) = self.images, self.filters
        ((top, bottom), (left, _)), (dh, dw) = self.padding, self.dilation
        item, row = dtype.itemsize, count * self.width
        rows = np.zeros((channels, left + (top + height + bottom) * row + (kw - 1) * dw), dtype)
        channel, length = rows.strides[0], self.out[0] * row
        begin = left + top * row
        images = rows[:, begin : begin + height * row].reshape(channels, height, count, self.width)
        taps: Any = np.ndarray((channels, kh, kw, length), dtype, rows, 0, (channel, dh * row * item, dw * item, item))
        columns = np.empty(taps.shape, dtype)
        results = np.zeros((groups * filters, self.out[0], count, self.width), dtype)
        return _RowRoom(
            slice(0),
            rows,
            images[..., :width].transpose(2, 0, 1, 3),
            taps,
            columns,
            columns.reshape(groups, -1, length),
            results[..., : self.out[1]].transpose(2, 0, 1, 3),
            results.reshape(groups, filters, length),
        )


# -- convolution of few channels ----------------------------------------------------------------------------------------
#
# Where each filter sees few channels (depthwise: one), matrices are too thin. There a convolution is a sum over the taps,
# the places of a filter: shifted images times a number each. All images of a channel lie in one row of memory, in the
# order (height, image, width), with room for the padding; a shift is an offset, and what reaches over the right edge is
# thrown away. A stride splits the images into phases, every so many rows and columns, each a plane of its own. The sum
# over the taps of a phase is one call of einsum, told to run over the places innermost: one pass per tap, in the cache.


class _Part(NamedTuple):
    """Along one axis, a phase of the stride and the taps that read it: the offset of the first, and the step to the next."""

    phase: int
    taps: slice
    first: int
    step: int


def _parts(window: int, stride: int, dilation: int) -> list[_Part]:
    period = stride // math.gcd(stride, dilation)
    return [
        _Part(i * dilation % stride, slice(i, None, period), i * dilation // stride, period * dilation // stride)
        for i in range(min(period, window))
    ]


class _Planes:
    """The planes of a convolution.

    Parameters
    ----------
    images : tuple of int
        Shape of the images, (N, C, H, W), without their padding.
    filters : tuple of int
        Shape of the filters by group: (groups, filters of a group, channels of a group, kh, kw).
    how : _How
        Of the convolution.
    dtype : numpy.dtype
        Of the result.

    Attributes
    ----------
    out, size : pair of int
        Height and width of the result, and of a plane.
    parts : list of pair of _Part
        The phases, with their taps along both axes.
    """

    def __init__(self, images: tuple[int, ...], filters: tuple[int, ...], how: _How, dtype: Any) -> None:
        self.images, self.filters, self.dtype = images, filters, dtype
        self.stride, self.padding = stride, padding = how.stride, how.padding
        dilation = how.dilation
        window, size = filters[3:], images[2:]
        self.out = [output_size(size[a], window[a], stride[a], padding[a], dilation[a]) for a in (0, 1)]
        self.size = [(window[a] - 1) * dilation[a] // stride[a] + self.out[a] for a in (0, 1)]
        self.parts = list(itertools.product(*(_parts(window[a], stride[a], dilation[a]) for a in (0, 1))))
        taps = filters[2] * math.prod(window)
        planes = len(self.parts) * filters[2] + filters[1]
        plane = math.prod(self.size) * dtype.itemsize
        self.images_at_a_time = count = max(1, min(PLANE_BYTES // (planes * plane), images[0]))
        self.long = taps * self.out[0] * self.size[1] * count >= LONG * filters[1]
        planes += 0 if self.long else taps
        self.groups_at_a_time = max(1, min(PLANE_BYTES // (planes * plane * count), filters[0]))

    def chunks(self) -> list[slice]:
        """Return the images to handle at a time."""
        return [slice(i, i + self.images_at_a_time) for i in range(0, self.images[0], self.images_at_a_time)]

    def blocks(self) -> list[slice]:
        """Return the groups to handle at a time."""
        return [slice(i, i + self.groups_at_a_time) for i in range(0, self.filters[0], self.groups_at_a_time)]

    def by_group(self, images: Any) -> Any:
        """Return images in the order of planes, (groups, channels, height, image, width): a view."""
        n, channels, *size = images.shape
        return images.reshape(n, self.filters[0], channels // self.filters[0], *size).transpose(1, 2, 3, 0, 4)

    @once
    def places(self) -> list[tuple[Any, Any]]:
        """Return, by phase, its slices of images in that order, and its position in its plane."""
        found = []
        for part in self.parts:
            here, there = [], []
            for a in (0, 1):
                shift, step = part[a].phase - self.padding[a][0], self.stride[a]
                first, stop = max(0, -(shift // step)), min(self.size[a], -((shift - self.images[2 + a]) // step))
                stop = max(first, stop)
                here.append(slice(first * step + shift, max(0, stop * step + shift - step + 1), step))
                there.append(slice(first, stop))
            found.append(((..., here[0], slice(None), here[1]), (..., there[0], slice(None), there[1])))
        return found

    def taps(self, rows: Any, part: tuple[_Part, _Part], count: int, height: int, *, adjoint: bool = False) -> Any:
        """Return rows in the form for the taps of a part: (groups, channels, taps, taps, places), a view with overlaps.

        The adjoint shifts the other way; there, `rows` begin with a margin.
        """
        row = count * self.size[1]
        shifts, numbers = [], []
        for p, k, width in zip(part, self.filters[3:], (row, 1), strict=True):
            numbers.append(len(range(*p.taps.indices(k))))
            shifts.append(p.step * width * rows.itemsize)
        first = part[0].first * row + part[1].first
        if adjoint:
            first, shifts = self.margin(count) - first, [-s for s in shifts]
        strides = (*rows.strides[:2], *shifts, rows.strides[2])
        return as_strided(rows[..., first:], (*rows.shape[:2], *numbers, height * row), strides)

    def margin(self, count: int) -> int:
        """Return the largest offset of a tap, for this many images."""
        return (self.size[0] - self.out[0]) * count * self.size[1] + self.size[1] - self.out[1]

    def space(self, channels: int, height: int, count: int, margin: int = 0, end: int = 0) -> tuple[Any, Any]:
        """Allocate the planes of this many images, filled with zeros: as rows, and as planes between two margins."""
        shape = self.groups_at_a_time, channels, height, count, self.size[1]
        length = math.prod(shape[2:])
        rows = np.zeros((*shape[:2], margin + length + end), self.dtype)
        return rows, rows[..., margin : margin + length].reshape(shape)

    def images_seen(self, count: int) -> list[tuple[Any, Any]]:
        """Allocate images by phase: the views for the taps, and the planes to be filled."""
        made = []
        for part in self.parts:
            rows, plane = self.space(self.filters[2], self.size[0], count, end=self.size[1] - self.out[1])
            made.append((self.taps(rows, part, count, self.out[0]), plane))
        return made

    def sum_of_taps(self, phases: Sequence[tuple[Any, Any]], sums: Any) -> None:
        """Write the sum over all taps of shifted rows, (groups, a, taps, taps, places), times filters.

        The filters are (groups, b, a, taps, taps), the result (groups, b, places).
        """
        if self.long:
            more = np.empty_like(sums[0, 0]) if len(phases) > 1 else None
            for i, (seen, w) in enumerate(phases):
                for at in np.ndindex(sums.shape[:2]):
                    made = more if i else sums[at]
                    np.einsum("lcij,cij->l", seen[at[0]].transpose(3, 0, 1, 2), w[at], out=made, order="F")
                    if i:
                        sums[at] += made
            return
        groups, results, length = sums.shape
        factors = np.concatenate([w.reshape(groups, results, -1) for _, w in phases], axis=2)
        columns = np.empty((groups, factors.shape[2], length), self.dtype)
        start = 0
        for seen, _ in phases:
            stop = start + math.prod(seen.shape[1:4])
            columns[:, start:stop].reshape(seen.shape)[...] = seen
            start = stop
        np.matmul(factors, columns, out=sums)


def _conv2d_planes(y: Any, input: Any, filters: Any, bias: Any, planes: _Planes) -> None:
    """Write the convolution of some images."""
    x, results = planes.by_group(input), planes.by_group(y)
    seen = planes.images_seen(len(input))
    sums, images = planes.space(filters.shape[1], planes.out[0], len(input))
    for at in planes.blocks():
        w, block = filters[at], x[at]
        g = len(w)
        for (here, there), (_, plane) in zip(planes.places, seen, strict=True):
            plane[:g][there] = block[here]
        phases = [(s[:g], w[..., i.taps, j.taps]) for (s, _), (i, j) in zip(seen, planes.parts, strict=True)]
        planes.sum_of_taps(phases, sums[:g])
        made = images[:g, ..., : planes.out[1]]
        if bias is None:
            results[at] = made
        else:
            np.add(made, bias[at], out=results[at])


def _conv2d_input_planes(made: Any, grad: Any, filters: Any, planes: _Planes) -> None:
    """Write the adjoint in the input, for some images."""
    count = len(grad)
    cotangents, results = planes.by_group(grad), planes.by_group(made)
    rows, plane = planes.space(filters.shape[1], planes.size[0], count, margin=planes.margin(count))
    seen = [planes.taps(rows, part, count, planes.size[0], adjoint=True) for part in planes.parts]
    sums, images = planes.space(filters.shape[2], planes.size[0], count)
    transposed = filters.swapaxes(1, 2)
    for at in planes.blocks():
        w, result = transposed[at], results[at]
        g = len(w)
        plane[:g, :, : planes.out[0], :, : planes.out[1]] = cotangents[at]
        for s, (i, j), (here, there) in zip(seen, planes.parts, planes.places, strict=True):
            planes.sum_of_taps([(s[:g], w[..., i.taps, j.taps])], sums[:g])
            result[here] = images[:g][there]


def _conv2d_weight_planes(total: Any, input: Any, grad: Any, planes: _Planes) -> None:
    """Add the adjoint in the filters, for some images."""
    x, cotangents = planes.by_group(input), planes.by_group(grad)
    seen = planes.images_seen(len(input))
    spread, images = planes.space(total.shape[1], planes.out[0], len(grad))
    for at in planes.blocks():
        block, result = x[at], total[at]
        g = len(block)
        images[:g, ..., : planes.out[1]] = cotangents[at]
        g_rows = spread[:g, :, None, None, None]
        for (i, j), (here, there), (s, plane) in zip(planes.parts, planes.places, seen, strict=True):
            plane[:g][there] = block[here]
            result[..., i.taps, j.taps] += np.vecdot(s[:g, None], g_rows)


# -- the kernels of convolution -----------------------------------------------------------------------------------------


def _few(filters: tuple[int, ...]) -> bool:
    return filters[1] * filters[2] <= FEW_CHANNELS


def _conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = (1, 1),
    padding: Padding = _NONE,
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Any:
    how = _How(stride, padding, dilation, groups)
    dtype = np.result_type(input, weight)
    filters = weight.reshape(groups, -1, *weight.shape[1:]).astype(dtype, copy=False)
    if not _few(filters.shape):
        return _conv2d_columns(input, filters, bias, how, dtype)
    planes = _Planes(input.shape, filters.shape, how, dtype)
    offset = None if bias is None else bias.reshape(groups, -1, 1, 1, 1)
    y = np.empty((len(input), len(weight), *planes.out), dtype)
    for at in planes.chunks():
        _conv2d_planes(y[at], input[at], filters, offset, planes)
    return y


def _rows(images: tuple[int, ...], filters: tuple[int, ...], how: _How) -> _ImageRows | None:
    """Return images in rows if the convolution is to use them."""
    if how.stride != (1, 1) or filters[3:] == (1, 1):
        return None
    rows = _ImageRows(images, filters, how)
    return rows if math.prod(rows.out) > FEW_PLACES else None


def _conv2d_columns(input: Any, filters: Any, bias: Any, how: _How, dtype: Any) -> Any:
    n, (groups, some, _, *window) = len(input), filters.shape
    offset = None if bias is None else bias.reshape(-1, 1, 1)
    rows = _rows(input.shape, filters.shape, how)
    filters = filters.reshape(groups, some, -1)
    if rows is not None:
        y = np.empty((n, groups * some, *rows.out), dtype)
        for room in rows.rooms(dtype):
            room.images[...] = input[room.at]
            np.copyto(room.columns, room.taps)
            np.matmul(filters, room.matrices, out=room.sums)
            _put(y[room.at], room.results, offset)
        return y
    padded = _padded(input, how.padding)
    windows = _Windows(padded.shape, tuple(window), how)
    y = np.empty((n, groups * some, *windows.out), dtype)
    if windows.whole:
        columns = padded.reshape(n, groups, windows.rows, windows.length)
        np.matmul(filters, columns, out=y.reshape(n, groups, some, windows.length))
        if offset is not None:
            y += offset
        return y
    view = windows.view(padded)
    for at, seen, matrices, images, results in windows.chunks(groups * some, dtype):
        np.copyto(seen, view[at])
        np.matmul(filters, matrices, out=results)
        _put(y[at], images, offset)
    return y


def _put(y: Any, results: Any, offset: Any) -> None:
    """Write results, plus an offset if there is one."""
    if offset is None:
        y[...] = results
    else:
        np.add(results, offset, out=y)


# Both ways multiply zeros: planes in the margins around cotangents, rows in the places to throw away. Where the other
# factor is infinite or NaN, that would give NaN where there is nothing; columns of the windows alone do not.


def _conv2d_input(
    grad: Any, weight: Any, size: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Any:
    how = _How(stride, padding, dilation, groups)
    dtype = np.result_type(grad, weight)
    filters = weight.reshape(groups, -1, *weight.shape[1:]).astype(dtype, copy=False)
    exact = not np.isfinite(weight).all()
    if exact or not _few(filters.shape):
        return _conv2d_input_columns(grad, filters, size, how, dtype, exact=exact)
    shape = (len(grad), weight.shape[1] * groups, *size)
    planes = _Planes(shape, filters.shape, how, dtype)
    made = np.zeros(shape, dtype)
    for at in planes.chunks():
        _conv2d_input_planes(made[at], grad[at], filters, planes)
    return made


def _conv2d_input_columns(grad: Any, filters: Any, size: Pair, how: _How, dtype: Any, *, exact: bool) -> Any:
    n, (groups, some, channels, kh, kw), padding = len(grad), filters.shape, how.padding
    taps = list(np.ndindex(kh, kw))
    shape = (n, groups * channels, *size)
    rows = None if exact else _rows(shape, filters.shape, how)
    if rows is not None and some <= WIDER * channels:
        reach = [how.dilation[a] * (filters.shape[3 + a] - 1) for a in (0, 1)]
        around: Any = tuple((reach[a] - padding[a][0], reach[a] - padding[a][1]) for a in (0, 1))
        if min(map(min, around)) >= 0:
            turned = filters.swapaxes(1, 2)[..., ::-1, ::-1]
            return _conv2d_columns(grad, turned, None, how._replace(padding=around), dtype)
    transposed = filters.reshape(groups, some, -1).transpose(0, 2, 1)
    if rows is not None:
        made = np.empty(shape, dtype)
        for room in rows.rooms(dtype):
            room.results[...] = grad[room.at]
            np.matmul(transposed, room.sums, out=room.matrices)
            room.rows[...] = 0
            for j, k in taps:
                room.taps[:, j, k] += room.columns[:, j, k]
            made[room.at] = room.images
        return made
    whole = np.zeros((*shape[:2], *(size[a] + sum(padding[a]) for a in (0, 1))), dtype)
    windows = _Windows(whole.shape, (kh, kw), how)
    if windows.whole:
        g = grad.reshape(n, groups, some, windows.length)
        np.matmul(transposed, g, out=whole.reshape(n, groups, windows.rows, windows.length))
        return _cropped(whole, size, padding)
    view = windows.view(whole)
    if not windows.folded:
        transposed = np.ascontiguousarray(transposed)
    for at, seen, matrices, images, results in windows.chunks(groups * some, dtype):
        images[...] = grad[at]
        np.matmul(transposed, results, out=matrices)
        for j, k in taps:
            view[at, :, j, k] += seen[:, :, j, k]
    return _cropped(whole, size, padding)


def _cropped(whole: Any, size: Pair, padding: Padding) -> Any:
    if padding == _NONE:
        return whole
    (top, _), (left, _) = padding
    return np.ascontiguousarray(whole[:, :, top : top + size[0], left : left + size[1]])


def _conv2d_weight(
    input: Any, grad: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Any:
    how = _How(stride, padding, dilation, groups)
    dtype = np.result_type(input, grad)
    shape = (groups, grad.shape[1] // groups, input.shape[1] // groups, *window)
    with np.errstate(invalid="ignore"):
        if _few(shape):
            total = np.zeros(shape, dtype)
            planes = _Planes(input.shape, shape, how, dtype)
            for at in planes.chunks():
                _conv2d_weight_planes(total, input[at], grad[at], planes)
        else:
            total = _conv2d_weight_columns(input, grad, shape, how, dtype, exact=False)
    if not np.isfinite(total).all():
        total = _conv2d_weight_columns(input, grad, shape, how, dtype, exact=True)
    return total.reshape(-1, *shape[2:])


def _conv2d_weight_columns(
    input: Any, grad: Any, filters: tuple[int, ...], how: _How, dtype: Any, *, exact: bool
) -> Any:
    total = None
    for products in _weight_products(input, grad, filters, how, dtype, exact=exact):
        made = products[0] if len(products) == 1 else products.sum(0)
        total = made if total is None else np.add(total, made, out=total)
    return np.zeros(filters, dtype) if total is None else total


def _weight_products(
    input: Any, grad: Any, filters: tuple[int, ...], how: _How, dtype: Any, *, exact: bool
) -> Iterator[Any]:
    """Yield the contribution of some images, or of each of some, to the adjoint: (count, groups, filters of a group, rows)."""
    rows = None if exact else _rows(input.shape, filters, how)
    if rows is not None:
        for room in rows.rooms(dtype):
            room.images[...], room.results[...] = input[room.at], grad[room.at]
            np.copyto(room.columns, room.taps)
            yield np.matmul(room.sums, room.matrices.swapaxes(1, 2))[None]
        return
    padded = _padded(input, how.padding)
    windows = _Windows(padded.shape, filters[3:], how)
    if windows.whole:
        n, step = len(padded), windows.images_at_a_time(dtype.itemsize)
        columns = padded.reshape(n, filters[0], windows.rows, windows.length).swapaxes(2, 3)
        g = np.ascontiguousarray(grad).reshape(n, *filters[:2], windows.length)
        for i in range(0, n, step):
            yield np.matmul(g[i : i + step], columns[i : i + step])
        return
    view = windows.view(padded)
    for at, seen, matrices, images, results in windows.chunks(math.prod(filters[:2]), dtype):
        np.copyto(seen, view[at])
        images[...] = grad[at]
        yield np.matmul(results, matrices.swapaxes(2, 3))


# -- pooling ------------------------------------------------------------------------------------------------------------


def _places(x: Any, window: Pair, stride: Pair, dilation: Pair) -> Iterator[Any]:
    """Return, for each position in the window, a view of the elements there: (N, C, Ho, Wo)."""
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
    """Return, for each position in the window, where the first of the largest elements is; NaN counts as largest."""
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
    apart = dilation == (1, 1) and stride[0] >= window[0] and stride[1] >= window[1]
    made = np.zeros(x.shape, grad.dtype)
    step = max(1, POOL_BYTES // max(1, x[:1].nbytes))  # many passes: a few images at a time
    for i in range(0, len(x), step):
        at = slice(i, i + step)
        g = grad[at]
        whole = made[at]
        if padding != _NONE:
            whole = np.zeros((*g.shape[:2], *(size[a] + sum(padding[a]) for a in (0, 1))), grad.dtype)
        firsts = _firsts(x[at], best[at], window, stride, padding, dilation)
        for here, part in zip(firsts, _places(whole, window, stride, dilation), strict=True):
            if apart:
                np.multiply(g, here, out=part)
            else:
                part += g * here  # noqa: PLW2901 (a view: adds into `whole`)
        if padding != _NONE:
            made[at] = whole[:, :, padding[0][0] :, padding[1][0] :][:, :, : size[0], : size[1]]
    return made


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
    """The number of elements that count in each window: one number, or an array (Ho, Wo)."""
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


IMAGE_KERNELS: dict[str, Callable[..., Any]] = {
    "nn.avg_pool2d": _avg_pool2d,
    "nn.avg_pool2d_adjoint": _avg_pool2d_adjoint,
    "nn.conv2d": _conv2d,
    "nn.conv2d_input": _conv2d_input,
    "nn.conv2d_weight": _conv2d_weight,
    "nn.max_pool2d": _max_pool2d,
    "nn.max_pool2d_adjoint": _max_pool2d_adjoint,
    "nn.max_pool2d_tangent": _max_pool2d_tangent,
    "nn.pad": _pad,
}
