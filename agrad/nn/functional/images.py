"""Rearranging images and sequences: shuffled pixels, resizing, borders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn.functional.checks import IntOrPair, pair_of
from agrad.nn.functional.windows import back, check_windows, images_of
from agrad.ops import elementwise, manipulation, searching
from agrad.ops import nn as ops
from agrad.ops.creation import arange, asarray, linspace, meshgrid, ones, zeros
from agrad.ops.data_type import astype
from agrad.ops.linalg import matrix_transpose


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Rearrange channels as pixels: (..., c * r * r, h, w) becomes (..., c, h * r, w * r) (Shi et al. 2016).

    input: Shape (..., c * r * r, h, w).
    upscale_factor : int
        The factor by which height and width grow, `r`.
    Returns: Of the dtype of `input`.
    RuntimeError: If the number of channels is not a multiple of its square.

    >>> ag.nn.functional.pixel_shuffle(ag.arange(4.0).reshape(1, 4, 1, 1), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    x, r = as_operand(input), upscale_factor
    *outer, channels, height, width = x.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but"
            f" input.size(-3)={channels} is not divisible by {r * r}{errors.called()}"
        )
    n = len(outer)
    x = manipulation.reshape(x, (*outer, channels // (r * r), r, r, height, width))
    x = manipulation.permute_dims(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return manipulation.reshape(x, (*outer, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`: (..., c, h * r, w * r) becomes (..., c * r * r, h, w).

    input: Shape (..., c, h * r, w * r).
    downscale_factor : int
        The factor by which height and width shrink, `r`.
    Returns: Of the dtype of `input`.
    RuntimeError: If the height or width is not a multiple of it.

    >>> ag.nn.functional.pixel_unshuffle(ag.ones((1, 1, 4, 6)), 2).shape
    (1, 4, 2, 3)
    """
    x, r = as_operand(input), downscale_factor
    *outer, channels, height, width = x.shape
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but {height} and {width}"
            f" are not both divisible by {r}{errors.called()}"
        )
    n = len(outer)
    x = manipulation.reshape(x, (*outer, channels, height // r, r, width // r, r))
    x = manipulation.permute_dims(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return manipulation.reshape(x, (*outer, channels * r * r, height // r, width // r))


def interpolate(
    input: Any,
    size: IntOrPair | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Enlarge or shrink sequences, images or volumes.

    input: Shape (n, channels, ...), real.
    size : int or sequence of int, optional
        The new lengths of the last axes.
    scale_factor : float or sequence of float, optional
        The factors of the lengths, instead.
    mode : {"nearest", "linear", "bilinear", "trilinear"}, optional
        The nearest element as in PyTorch, or linear between neighbours along every axis.
    align_corners : bool, optional
        Whether the centres of the first and last elements stay in place, instead of their edges; not for "nearest".
    Returns: Same dtype as `input`, with other lengths after the first two axes.
    NotImplementedError: For another mode.
    ValueError: If not exactly one of `size` and `scale_factor` is given, the mode is for another number of axes, or
        `align_corners` is set for "nearest".

    >>> ag.nn.functional.interpolate(ag.tensor([[[1.0, 3.0]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    x = as_operand(input)
    count = x.ndim - 2
    axes = {"linear": 1, "bilinear": 2, "trilinear": 3}
    if mode != "nearest" and mode not in axes:
        raise NotImplementedError(
            f"interpolate() has the modes nearest, {', '.join(axes)}, not {mode!r}{errors.called()}"
        )
    if mode == "nearest" and align_corners is not None:
        raise ValueError(
            f"align_corners option can only be set with the interpolating modes: {' | '.join(axes)}{errors.called()}"
        )
    if (size is None) == (scale_factor is None):
        raise ValueError(f"only one of size or scale_factor should be defined{errors.called()}")
    if count < 1 or axes.get(mode, count) != count:
        raise ValueError(f"interpolate() in mode {mode!r} got {x.ndim} axes, of shape {x.shape}{errors.called()}")
    given: Any = scale_factor if size is None else size
    each = list(given) if isinstance(given, Sequence) else [given] * count
    if len(each) != count:
        raise ValueError(
            f"interpolate() takes one number, or one for each of {count} axes, not {each}{errors.called()}"
        )
    for axis, number in enumerate(each, 2):
        length = int(x.shape[axis])
        new = int(number) if size is not None else math.floor(length * number)
        step = length / new if size is not None else 1 / number
        if mode == "nearest":
            x = taken(x, [min(int(i * step), length - 1) for i in range(new)], axis)
            continue
        if align_corners:
            step = (length - 1) / (new - 1) if new > 1 else 0.0
        places = [i * step if align_corners else max((i + 0.5) * step - 0.5, 0.0) for i in range(new)]
        before = [min(int(place), length - 1) for place in places]
        shares = [place - i for place, i in zip(places, before, strict=True)]
        weight = asarray(shares, dtype=x.dtype, device=x.device)
        weight = manipulation.reshape(weight, (new, *(1,) * (x.ndim - 1 - axis)))
        first, second = taken(x, before, axis), taken(x, [min(i + 1, length - 1) for i in before], axis)
        x = first * (1 - weight) + second * weight
    return x


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The source positions of image pixels under affine maps: the grid that `grid_sample` takes (Jaderberg et al. 2015).

    theta: Shape (n, 2, 3), or (n, 3, 4) for volumes: the maps, of positions from -1 to 1, x first.
    size : sequence of int
        The shape of the resulting images, (n, channels, height, width).
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the outermost pixels, not their edges.
    Returns: Shape (n, height, width, 2), same dtype as `theta`.
    ValueError: If the shapes do not match.

    >>> ag.nn.functional.affine_grid(ag.tensor([[[1.0, 0.0, 0.25], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))
    tensor([[[[-0.2500,  0.0000],
              [ 0.7500,  0.0000]]]])
    """
    maps = as_operand(theta)
    lengths = tuple(size)[2:]
    count = len(lengths)
    if count not in (2, 3) or maps.shape != (size[0], count, count + 1):
        raise ValueError(
            f"affine_grid() takes theta of shape (n, 2, 3) for images and (n, 3, 4) for volumes, not {maps.shape} for size"
            f" {tuple(size)}{errors.called()}"
        )
    like: dict[str, Any] = {"dtype": maps.dtype, "device": maps.device}
    axes = []
    for n in lengths:
        edge = (n - 1) / n if not align_corners else 1.0 if n > 1 else 0.0
        axes.append(linspace(-edge, edge, n, **like))
    places = [*reversed(meshgrid(*axes, indexing="ij"))]  # x first
    ones_too = manipulation.stack([*places, ones(lengths, **like)], axis=-1)
    rows = manipulation.reshape(ones_too, (1, -1, count + 1)) @ matrix_transpose(maps)
    return manipulation.reshape(rows, (size[0], *lengths, count))


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample images at positions between their pixels (Jaderberg et al. 2015).

    input: Shape (n, channels, height, width), or with a depth before the height; real.
    grid : array
        Shape (n, new_height, new_width, 2), or for volumes one more axis and coordinate: x, y (and z), from -1 to 1.
    mode : {"bilinear", "nearest"}, optional
        Linear between neighbours along every axis, or the nearest pixel, which has no derivative by the grid.
    padding_mode : {"zeros", "border", "reflection"}, optional
        The values outside: 0, the outermost pixels, or the image mirrored.
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the outermost pixels, not their edges.
    Returns: Shape (n, channels, new_height, new_width), same dtype as `input`.
    NotImplementedError: For another mode.
    ValueError: If the shapes do not match.

    >>> image = ag.tensor([[[[1.0, 3.0]]]])
    >>> ag.nn.functional.grid_sample(image, ag.tensor([[[[-0.5, 0.0], [0.0, 0.0]]]]))
    tensor([[[[1., 2.]]]])
    """
    x, places = as_operand(input), as_operand(grid)
    for name, chosen, known in (("mode", mode, _SAMPLED), ("padding_mode", padding_mode, _OUTSIDE_OF_GRIDS)):
        if chosen not in known:
            raise NotImplementedError(
                f"grid_sample() has the {name}s {', '.join(known)}, not {chosen!r}{errors.called()}"
            )
    lengths = x.shape[2:]
    count = len(lengths)
    if count not in (2, 3) or places.ndim != x.ndim or places.shape[0] != x.shape[0] or places.shape[-1] != count:
        raise ValueError(
            "grid_sample() takes images of shape (n, channels, height, width) and a grid of shape (n, height, width, 2), or"
            f" volumes with an axis and a place more, not {x.shape} and {places.shape}{errors.called()}"
        )
    wide = manipulation.reshape(x, (*x.shape[:2], -1))
    neighbours: list[tuple[Tensor, Any]] = [(zeros(places.shape[:-1], dtype="int64", device=x.device), 1)]
    for axis, n in enumerate(lengths):
        place = places[..., count - 1 - axis]
        place = (place + 1) * ((n - 1) / 2) if align_corners else ((place + 1) * n - 1) / 2
        if padding_mode == "reflection":
            low, span = (0.0, n - 1.0) if align_corners else (-0.5, float(n))
            place = _mirrored(place, low, span)
        if padding_mode != "zeros":
            place = elementwise.clip(place, 0, n - 1)
        first = elementwise.round(place) if mode == "nearest" else elementwise.floor(place)
        first = first.detach()
        share = place - first
        along = [(first, 1)] if mode == "nearest" else [(first, 1 - share), (first + 1, share)]
        neighbours = [
            (index * n + _whole(at, n), weight * _inside(w, at, n)) for index, weight in neighbours for at, w in along
        ]
    found: Any = 0
    for index, weight in neighbours:
        flat = manipulation.reshape(index, (x.shape[0], 1, -1))
        picked = searching.take_along_axis(wide, flat, axis=-1)
        found = found + picked * manipulation.reshape(astype(weight, x.dtype), (x.shape[0], 1, -1))
    return manipulation.reshape(found, (*x.shape[:2], *places.shape[1:-1]))


_SAMPLED = ("bilinear", "nearest")
_OUTSIDE_OF_GRIDS = ("zeros", "border", "reflection")


def _whole(at: Tensor, n: int) -> Tensor:
    return astype(elementwise.clip(at, 0, n - 1), "int64")


def _inside(weight: Any, at: Tensor, n: int) -> Tensor:
    """Return a weight, 0 where the neighbour is outside the image."""
    found: Tensor = astype((at >= 0) & (at <= n - 1), at.dtype) * weight
    return found


def _mirrored(place: Tensor, low: float, span: float) -> Tensor:
    """Return positions mirrored at both ends of an interval."""
    if span == 0:
        return place * 0
    from_low = elementwise.abs(place - low)
    turns = elementwise.floor(from_low / span).detach()
    rest = from_low - turns * span
    return searching.where(turns % 2 == 0, rest + low, span - rest + low)


def taken(x: Tensor, indices: list[int], axis: int) -> Tensor:
    """Return the elements at the given indices of an axis."""
    return searching.take(x, asarray(indices, dtype="int64", device=x.device), axis=axis)


#: Maps a position outside an axis to an element's index, by the mode of `pad`.
OUTSIDE: dict[str, Callable[[int, int], int]] = {
    "replicate": lambda i, n: min(max(i, 0), n - 1),
    "circular": lambda i, n: i % n,
    "reflect": lambda i, n: n - 1 - abs(n - 1 - abs(i)),
}


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad a tensor, with a constant or with its own elements.

    input: Any shape.
    pad : sequence of int
        Elements before and after, in pairs, the last axis first: ``(left, right, top, bottom)``. Negative ones crop.
    mode : {"constant", "reflect", "replicate", "circular"}, optional
        The values of the padding: `value`; the elements mirrored at the outermost one; that one repeated; or those of the
        other end.
    value : float, optional
        The constant. Default: 0.
    Returns: Of the dtype of `input`, longer along the padded axes.
    NotImplementedError: For another mode.
    ValueError: If the widths are not pairs, or more than the axes; or not below the length in mode "reflect", or above it in
        mode "circular".

    >>> ag.nn.functional.pad(ag.tensor([1.0, 2.0]), (1, 2))
    tensor([0., 1., 2., 0., 0.])
    >>> ag.nn.functional.pad(ag.tensor([1.0, 2.0, 3.0]), (1, 2), mode="reflect")
    tensor([2., 1., 2., 3., 2., 1.])
    """
    input = as_operand(input)
    if mode != "constant" and mode not in OUTSIDE:
        raise NotImplementedError(
            f"pad() has the modes 'constant', {', '.join(map(repr, OUTSIDE))}, not {mode!r}{errors.called()}"
        )
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise ValueError(
            f"pad(): widths come in pairs, at most one per axis; got {tuple(pad)} for shape {input.shape}{errors.called()}"
        )
    pairs = [(int(pad[i]), int(pad[i + 1])) for i in range(0, len(pad), 2)]
    widths = [(0, 0)] * (input.ndim - len(pairs)) + pairs[::-1]
    if any(n < 0 for width in widths for n in width):
        key = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, input.shape, strict=True))
        input = searching.getitem(input, key)
        widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant" or not any(n for width in widths for n in width):  # a new tensor, in any case
        return ops.pad(input, tuple(widths), 0.0 if value is None else value)
    result: Tensor = input
    for axis, (before, after) in enumerate(widths):
        if before or after:
            length = int(result.shape[axis])
            most = {"reflect": length - 1, "circular": length}.get(mode, math.inf)
            if max(before, after) > most:
                raise ValueError(
                    f"pad(): widths ({before}, {after}) are too large for mode {mode!r} and length {length} of axis"
                    f" {axis}{errors.called()}"
                )
            indices = [OUTSIDE[mode](i, length) for i in range(-before, length + after)]
            result = taken(result, indices, axis)
    return result


def unfold(
    input: Any, kernel_size: IntOrPair, dilation: IntOrPair = 1, padding: IntOrPair = 0, stride: IntOrPair = 1
) -> Tensor:
    """Arrange the windows of images as columns, for convolution as a product (im2col); channels vary slowest in a window.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images.
    kernel_size: Height and width of a window.
    dilation: Steps between the elements of a window.
    padding: Zeros added around the images.
    stride : int or pair, optional
        Steps between windows.
    Returns : Tensor, shape (N, C * kh * kw, windows) or (C * kh * kw, windows)
    RuntimeError: If the window is larger than the padded image.

    >>> ag.nn.functional.unfold(ag.arange(6.0).reshape(1, 2, 3), (2, 2))
    tensor([[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]])
    """
    x, single = images_of("unfold", input)
    size, (down, across) = (int(x.shape[2]), int(x.shape[3])), pair_of("unfold", padding, "padding")
    places = _windows("unfold", x, size, kernel_size, dilation, (down, across), stride)
    x = ops.pad(x, ((0, 0), (0, 0), (down, down), (across, across)), 0.0)
    n, channels = x.shape[:2]
    rows = searching.take(manipulation.reshape(x, (n, channels, -1)), manipulation.reshape(places, (-1,)), axis=2)
    return back(manipulation.reshape(rows, (n, channels * places.shape[0], -1)), single)


def fold(
    input: Any,
    output_size: IntOrPair,
    kernel_size: IntOrPair,
    dilation: IntOrPair = 1,
    padding: IntOrPair = 0,
    stride: IntOrPair = 1,
) -> Tensor:
    """The adjoint of `unfold`: put columns back at their windows, adding where these overlap (col2im).

    input : Tensor, shape (N, C * kh * kw, windows) or (C * kh * kw, windows)
        Columns.
    output_size : int or pair
        Height and width of the images.
    kernel_size, dilation, padding, stride : int or pair, optional
        As for `unfold`.
    Returns : Tensor, shape (N, C, H, W) or (C, H, W)
    RuntimeError: If the columns do not belong to such images.

    >>> ag.nn.functional.fold(ag.ones((4, 2)), (2, 3), (2, 2))
    tensor([[[1., 2., 1.],
             [1., 2., 1.]]])
    """
    x = as_operand(input)
    single, x = x.ndim == 2, manipulation.expand_dims(x, axis=0) if x.ndim == 2 else x
    size, (down, across) = pair_of("fold", output_size, "output_size"), pair_of("fold", padding, "padding")
    places = _windows("fold", x, size, kernel_size, dilation, (down, across), stride)
    window, count = places.shape
    if x.ndim != 3 or x.shape[1] % window or x.shape[2] != count:
        raise RuntimeError(
            f"Given output_size={size}, expected size of input's dimension 1 to be divisible by the product of kernel_size,"
            f" {window}, and that of dimension 2 to match the calculated number of sliding blocks, {count}, but got"
            f" input.size={list(x.shape)}\n  in fold().{errors.called()}"
        )
    images, height, width = x.shape[0] * x.shape[1] // window, size[0] + 2 * down, size[1] + 2 * across
    starts = arange(images, device=x.device) * (height * width)  # of the flattened images: a library's simplest index
    where = manipulation.reshape(starts, (-1, 1)) + manipulation.reshape(places, (1, -1))
    empty = zeros((images * height * width,), dtype=x.dtype, device=x.device)
    filled = searching.scatter_add(empty._spec, manipulation.reshape(where, (-1,)), manipulation.reshape(x, (-1,)))
    result = manipulation.reshape(filled, (x.shape[0], -1, height, width))
    return back(result[:, :, down : height - down, across : width - across], single)


def _windows(
    name: str,
    like: Tensor,
    size: tuple[int, int],
    kernel_size: IntOrPair,
    dilation: IntOrPair,
    padding: tuple[int, int],
    stride: IntOrPair,
) -> Tensor:
    """Return the positions of the windows' elements in a flat padded image, shape (elements of a window, windows)."""
    kernel, steps = pair_of(name, kernel_size, "kernel_size"), pair_of(name, stride, "stride")
    spread, sides = pair_of(name, dilation, "dilation"), ((padding[0],) * 2, (padding[1],) * 2)
    check_windows(name, (1, 1, *size), kernel, steps, sides, spread)
    lines = []
    for axis in (0, 1):
        count = ops.output_size(size[axis], kernel[axis], steps[axis], sides[axis], spread[axis])
        within = arange(kernel[axis], device=like.device) * spread[axis]
        lines.append(manipulation.reshape(within, (-1, 1)) + arange(count, device=like.device) * steps[axis])
    (kh, high), (kw, wide) = lines[0].shape, lines[1].shape
    rows = manipulation.reshape(lines[0], (kh, 1, high, 1)) * (size[1] + 2 * padding[1])
    return manipulation.reshape(rows + manipulation.reshape(lines[1], (1, kw, 1, wide)), (kh * kw, high * wide))
