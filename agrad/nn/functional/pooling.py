"""Maxima and means of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agrad.core import errors
from agrad.core.tensor import Tensor
from agrad.nn.functional.checks import IntOrPair, pair_of, single_of
from agrad.nn.functional.images import pad
from agrad.nn.functional.windows import back, check_windows, images_of, rows_of
from agrad.ops import manipulation
from agrad.ops import nn as ops
from agrad.ops.creation import asarray


def _pool_arguments(
    name: str, shape: tuple[int, ...], kernel_size: IntOrPair, stride: IntOrPair | None, padding: IntOrPair
) -> tuple[tuple[int, int], tuple[int, int], ops.Padding]:
    kernel = pair_of(name, kernel_size, "kernel_size")
    steps = kernel if stride is None else pair_of(name, stride, "stride")
    down, across = pair_of(name, padding, "padding")
    if down > kernel[0] // 2 or across > kernel[1] // 2:
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got pad={(down, across)},"
            f" kernel_size={kernel}\n  in {name}(), input {tuple(shape)}.{errors.called()}"
        )
    return kernel, steps, ((down, down), (across, across))


def _reaching_over(
    shape: tuple[int, ...], kernel: ops.Pair, stride: ops.Pair, padding: ops.Padding, dilation: ops.Pair
) -> ops.Padding:
    """Return the padding with what the last window, which begins on the image or before it, reaches over the end."""
    sides = []
    for n, k, step, (before, after), spread in zip(shape[2:], kernel, stride, padding, dilation, strict=True):
        span = spread * (k - 1) + 1
        last = -(-(n + before + after - span) // step) * step
        if last >= n + before:
            last -= step
        sides.append((before, max(after, last + span - n - before)))
    return sides[0], sides[1]


def max_pool2d(
    input: Any,
    kernel_size: IntOrPair,
    stride: IntOrPair | None = None,
    padding: IntOrPair = 0,
    dilation: IntOrPair = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images, real floating point.
    kernel_size: Height and width of a window.
    stride: Steps between windows. Default: `kernel_size`.
    padding: Minus infinity added around the images, at most half a window.
    dilation: Steps between the elements of a window.
    ceil_mode: Whether a last window may reach over the end.
    Returns : Tensor, shape (N, C, Ho, Wo) or (C, Ho, Wo)
        The gradient goes to the first of equal elements, row by row.
    RuntimeError: If the window is larger than the padded image, or the padding is larger than half the window.

    >>> ag.nn.functional.max_pool2d(ag.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[4.]]])
    """
    input, single = images_of("max_pool2d", input)
    if not input.is_floating_point():
        raise TypeError(f"max_pool2d() takes real floating point images, not {input.dtype}{errors.called()}")
    kernel, steps, sides = _pool_arguments("max_pool2d", input.shape, kernel_size, stride, padding)
    spread = pair_of("max_pool2d", dilation, "dilation")
    if ceil_mode:
        sides = _reaching_over(input.shape, kernel, steps, sides, spread)
    check_windows("max_pool2d", input.shape, kernel, steps, sides, spread)
    return back(ops.max_pool2d(input, kernel, steps, sides, spread), single)


def avg_pool2d(
    input: Any,
    kernel_size: IntOrPair,
    stride: IntOrPair | None = None,
    padding: IntOrPair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images.
    kernel_size: Height and width of a window.
    stride: Steps between windows. Default: `kernel_size`.
    padding: Zeros added around the images, at most half a window.
    ceil_mode: Whether a last window may reach over the end. What lies there never counts in the mean.
    count_include_pad : bool, optional
        Whether those zeros count in the mean.
    Returns : Tensor, shape (N, C, Ho, Wo) or (C, Ho, Wo)
    RuntimeError: If the window is larger than the padded image, or the padding is larger than half the window.
    TypeError: If the images hold integers or booleans.

    >>> ag.nn.functional.avg_pool2d(ag.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[2.5000]]])
    """
    input, single = images_of("avg_pool2d", input)
    if not input._spec.inexact:
        raise TypeError(f"avg_pool2d() takes floating point images, not {input.dtype}{errors.called()}")
    kernel, steps, sides = _pool_arguments("avg_pool2d", input.shape, kernel_size, stride, padding)
    if ceil_mode:
        over = _reaching_over(input.shape, kernel, steps, sides, (1, 1))
        if count_include_pad and over != sides:  # the padding counts as pixels do, what is beyond it does not
            input = pad(input, (*sides[1], *sides[0]))
            over = (0, over[0][1] - sides[0][1]), (0, over[1][1] - sides[1][1])
            count_include_pad = False
        sides = over
    check_windows("avg_pool2d", input.shape, kernel, steps, sides, (1, 1))
    return back(ops.avg_pool2d(input, kernel, steps, sides, count_include_pad), single)


def max_pool1d(
    input: Any,
    kernel_size: IntOrPair,
    stride: IntOrPair | None = None,
    padding: IntOrPair = 0,
    dilation: IntOrPair = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of a sequence.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences, real floating point.
    kernel_size : int
        Length of a window.
    stride : int, optional
        Steps between windows. Default: `kernel_size`.
    padding : int, optional
        Minus infinity added before and after, at most half a window.
    dilation : int, optional
        Steps between the elements of a window.
    ceil_mode: Whether a last window may reach over the end.
    Returns : Tensor, shape (N, C, Lo) or (C, Lo)
        The gradient goes to the first of equal elements.
    RuntimeError: If the window is longer than the padded sequence, or the padding is longer than half the window.

    >>> ag.nn.functional.max_pool1d(ag.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    rows, (kernel, steps, sides, spread) = (
        rows_of("max_pool1d", input),
        _in_rows("max_pool1d", kernel_size, stride, padding, dilation),
    )
    return manipulation.squeeze(max_pool2d(rows, kernel, steps, sides, spread, ceil_mode), -2)


def avg_pool1d(
    input: Any,
    kernel_size: IntOrPair,
    stride: IntOrPair | None = None,
    padding: IntOrPair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of a sequence.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences.
    kernel_size : int
        Length of a window.
    stride : int, optional
        Steps between windows. Default: `kernel_size`.
    padding : int, optional
        Zeros added before and after, at most half a window.
    ceil_mode: Whether a last window may reach over the end. What lies there never counts in the mean.
    count_include_pad : bool, optional
        Whether those zeros count in the mean.
    Returns : Tensor, shape (N, C, Lo) or (C, Lo)
    RuntimeError: If the window is longer than the padded sequence, or the padding is longer than half the window.
    TypeError: If the sequences hold integers or booleans.

    >>> ag.nn.functional.avg_pool1d(ag.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    rows, (kernel, steps, sides, _) = (
        rows_of("avg_pool1d", input),
        _in_rows("avg_pool1d", kernel_size, stride, padding, 1),
    )
    return manipulation.squeeze(avg_pool2d(rows, kernel, steps, sides, ceil_mode, count_include_pad), -2)


def _in_rows(
    name: str, kernel_size: IntOrPair, stride: IntOrPair | None, padding: IntOrPair, dilation: IntOrPair
) -> tuple[tuple[int, int], ...]:
    """Return the arguments of sequence pooling as those for images with one row."""
    kernel = single_of(name, kernel_size, "kernel_size")
    step = kernel if stride is None else single_of(name, stride, "stride")
    return (1, kernel), (1, step), (0, single_of(name, padding, "padding")), (1, single_of(name, dilation, "dilation"))


def adaptive_avg_pool2d(input: Any, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of windows chosen so that the result has a given size.

    Window `i` of `n` along an axis of length `L` covers ``floor(i * L / n)`` up to, but excluding, ``ceil((i + 1) * L / n)``.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images, floating point.
    output_size : int or pair
        Height and width of the result; None for that of the image.
    Returns: Shape (N, C, *output_size), or (C, *output_size) for one image.
    TypeError: If the images hold integers or booleans.
    ValueError: If a size is not positive.

    >>> ag.nn.functional.adaptive_avg_pool2d(ag.tensor([[[1.0, 3.0], [5.0, 7.0]]]), 1)
    tensor([[[4.]]])
    """
    return _adaptive("adaptive_avg_pool2d", input, output_size)


def adaptive_avg_pool1d(input: Any, output_size: int) -> Tensor:
    """The mean of windows chosen so that the result has a given length; see `adaptive_avg_pool2d`.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences, floating point.
    output_size : int
        The length of the result.
    Returns: Shape (N, C, output_size), or (C, output_size) for one sequence.
    TypeError: If the sequences hold integers or booleans.
    ValueError: If the size is not positive.

    >>> ag.nn.functional.adaptive_avg_pool1d(ag.tensor([[1.0, 2.0, 6.0]]), 2)
    tensor([[1.5000, 4.0000]])
    """
    rows = rows_of("adaptive_avg_pool1d", input)
    return manipulation.squeeze(_adaptive("adaptive_avg_pool1d", rows, (1, output_size)), -2)


def _adaptive(name: str, input: Any, output_size: int | Sequence[int | None] | None) -> Tensor:
    images, single = images_of(name, input)
    if not images._spec.inexact:
        raise TypeError(f"{name}() takes floating point images, not {images.dtype}{errors.called()}")
    wanted = (output_size, output_size) if output_size is None or isinstance(output_size, int) else tuple(output_size)
    if len(wanted) != 2 or any(n is not None and n < 1 for n in wanted):
        raise ValueError(f"{name}(): output_size must be positive, not {output_size!r}{errors.called()}")
    h, w = images.shape[2:]
    height, width = (size if n is None else n for n, size in zip(wanted, (h, w), strict=True))
    if h % height == 0 and w % width == 0:
        return back(avg_pool2d(images, (h // height, w // width)), single)
    # the mean over a rectangle is the vertical mean of the horizontal means: one matrix product for each
    across = _windows_matrix(w, width, images)
    down = _windows_matrix(h, height, images)
    return back(down @ (images @ across.mT), single)


def _windows_matrix(length: int, parts: int, like: Tensor) -> Tensor:
    """Return the matrix, shape (parts, length), that computes the means of adaptive windows."""
    rows = []
    for i in range(parts):
        start, stop = i * length // parts, -(-(i + 1) * length // parts)
        rows.append([1 / (stop - start) if start <= j < stop else 0.0 for j in range(length)])
    return asarray(rows, dtype=like.dtype, device=like.device)
