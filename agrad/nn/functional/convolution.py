"""Convolution, and its adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn.functional.checks import IntOrPair, along, check_dtypes, pair_of, single_of, sizes_of
from agrad.nn.functional.windows import back, check_windows, images_of, rows_of
from agrad.ops import manipulation
from agrad.ops import nn as ops


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntOrPair = 1,
    padding: IntOrPair | str = 0,
    dilation: IntOrPair = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of images with filters (cross-correlation, as in PyTorch: the filters are not flipped).

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images, real.
    weight : Tensor, shape (O, C / groups, kh, kw)
        Filters.
    bias : Tensor, shape (O,), optional
        Added to every output channel.
    stride: Steps between windows, down and to the right.
    padding : int, pair, "valid" or "same", optional
        Zeros added around the images. "valid": none; "same": as many as preserve height and width, for stride 1.
    dilation: Steps between the elements of a window.
    groups : int, optional
        The number of groups of input and output channels, which are convolved separately.
    Returns : Tensor, shape (N, O, Ho, Wo) or (O, Ho, Wo)
        ``Ho = (H + 2 * padding - dilation * (kh - 1) - 1) // stride + 1``, `Wo` likewise.
    RuntimeError: If shapes or dtypes do not match, or the window is larger than the padded image.
    ValueError: If `padding` is an unknown string, or "same" with a stride.

    >>> x, w = ag.ones((1, 1, 3, 3)), ag.ones((1, 1, 2, 2))
    >>> ag.nn.functional.conv2d(x, w)
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return _convolved("conv2d", input, as_operand(weight), bias, stride, padding, dilation, groups)


def _convolved(
    name: str,
    input: Any,
    weight: Tensor,
    bias: Any,
    stride: IntOrPair,
    padding: IntOrPair | str,
    dilation: IntOrPair,
    groups: int,
) -> Tensor:
    """Return the convolution of images, for the function that the user called."""
    input, single = images_of(name, input)
    stride, dilation = pair_of(name, stride, "stride"), pair_of(name, dilation, "dilation")
    shape, filters = input.shape, weight.shape
    if len(filters) != 4:
        raise RuntimeError(
            f"{name}(): weight must be (out, in / groups, height, width), got {filters}{errors.called()}"
        )
    if groups < 1 or filters[0] % groups or shape[1] != filters[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(filters)}, expected input{list(shape)} to have"
            f" {filters[1] * groups} channels, but got {shape[1]} channels instead\n  {name}() also needs the number of"
            f" filters, {filters[0]}, to be a multiple of groups.{errors.called()}"
        )
    if bias is not None and tuple(bias.shape) != filters[:1]:
        raise RuntimeError(
            f"Given weight of size {list(filters)}, expected bias to be 1-dimensional with {filters[0]} elements, but"
            f" got bias of size {list(bias.shape)} instead\n  in {name}().{errors.called()}"
        )
    _check_real_filters(name, input, weight)
    if isinstance(padding, str):
        sides = _padding_by_name(name, padding, filters[2:], stride, dilation)
    else:
        down, across = pair_of(name, padding, "padding")
        sides = (down, down), (across, across)
    check_windows(name, shape, (filters[2], filters[3]), stride, sides, dilation)
    return back(ops.conv2d(input, weight, bias, stride, sides, dilation, groups), single)


def _check_real_filters(name: str, input: Tensor, weight: Tensor) -> None:
    if input._spec.is_complex or weight._spec.is_complex:
        raise TypeError(
            f"{name}() takes real images and filters, not {input.dtype} and {weight.dtype}{errors.called()}"
        )
    check_dtypes(name, "Input type ({}) and weight type ({}) should be the same", input, weight)


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntOrPair = 1,
    padding: IntOrPair | str = 0,
    dilation: IntOrPair = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of sequences with filters (cross-correlation: the filters are not flipped); see `conv2d`.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences, real.
    weight : Tensor, shape (O, C / groups, k)
        Filters.
    bias : Tensor, shape (O,), optional
        Added to every output channel.
    stride : int, optional
        Steps between windows.
    padding : int, "valid" or "same", optional
        Zeros added before and after. "valid": none; "same": as many as preserve the length, for stride 1.
    dilation : int, optional
        Steps between the elements of a window.
    groups : int, optional
        The number of groups of input and output channels, which are convolved separately.
    Returns : Tensor, shape (N, O, Lo) or (O, Lo)
        ``Lo = (L + 2 * padding - dilation * (k - 1) - 1) // stride + 1``.
    RuntimeError: If the shapes do not match, or the window is longer than the padded sequence.
    ValueError: If `padding` is an unknown string, or "same" with a stride.

    >>> ag.nn.functional.conv1d(ag.tensor([[1.0, 2.0, 4.0]]), ag.tensor([[[1.0, -1.0]]]))
    tensor([[-1., -2.]])
    """
    weight = as_operand(weight)
    if weight.ndim != 3:
        raise RuntimeError(f"conv1d(): weight must be (out, in / groups, length), got {weight.shape}{errors.called()}")
    result = _convolved(
        "conv1d",
        rows_of("conv1d", input),
        manipulation.expand_dims(weight, axis=-2),
        bias,
        (1, single_of("conv1d", stride, "stride")),
        padding if isinstance(padding, str) else (0, single_of("conv1d", padding, "padding")),
        (1, single_of("conv1d", dilation, "dilation")),
        groups,
    )
    return manipulation.squeeze(result, -2)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntOrPair = 1,
    padding: IntOrPair = 0,
    output_padding: IntOrPair = 0,
    groups: int = 1,
    dilation: IntOrPair = 1,
) -> Tensor:
    """The adjoint of `conv2d` in its input, plus a bias: each element adds a window of the filters to the result.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images, real.
    weight : Tensor, shape (C, O / groups, kh, kw)
        Filters.
    bias : Tensor, shape (O,), optional
        Added to every output channel.
    stride : int or pair, optional
        Steps between the windows in the result.
    padding : int or pair, optional
        Rows and columns cropped from every side of the result.
    output_padding : int or pair, optional
        Rows and columns added back at the bottom and right; less than the stride.
    groups : int, optional
        The number of groups of input and output channels.
    dilation : int or pair, optional
        Steps between the elements of a window.
    Returns : Tensor, shape (N, O, Ho, Wo) or (O, Ho, Wo)
        ``Ho = (H - 1) * stride - 2 * padding + dilation * (kh - 1) + output_padding + 1``, `Wo` likewise.
    RuntimeError: If shapes or dtypes do not match, `output_padding` is not below the stride, or the result would be empty.

    >>> x, w = ag.tensor([[[1.0, 2.0]]]), ag.ones((1, 1, 1, 2))
    >>> ag.nn.functional.conv_transpose2d(x, w)
    tensor([[[1., 3., 2.]]])
    """
    return _transposed(
        "conv_transpose2d", input, as_operand(weight), bias, stride, padding, output_padding, groups, dilation
    )


def _transposed(
    name: str,
    input: Any,
    weight: Tensor,
    bias: Any,
    stride: IntOrPair,
    padding: IntOrPair,
    output_padding: IntOrPair,
    groups: int,
    dilation: IntOrPair,
) -> Tensor:
    """Return the adjoint of the convolution of images, for the function that the user called."""
    input, single = images_of(name, input)
    steps, spread = pair_of(name, stride, "stride"), pair_of(name, dilation, "dilation")
    cut, more = pair_of(name, padding, "padding"), pair_of(name, output_padding, "output_padding")
    _check_channels(name, input.shape, weight.shape, bias, groups)
    _check_real_filters(name, input, weight)
    size = _transposed_size(name, input.shape[2:], weight.shape[2:], steps, cut, more, spread)
    sides = (cut[0], cut[0]), (cut[1], cut[1])
    result = ops.conv2d_input(input, weight, size, steps, sides, spread, groups)
    if bias is not None:
        result = result + along(bias, 1, 4)
    return back(result, single)


def _check_channels(name: str, shape: tuple[int, ...], filters: tuple[int, ...], bias: Any, groups: int) -> None:
    """Refuse filters of a transposed convolution that do not match its input, and a bias that does not match them."""
    if len(filters) != 4:
        raise RuntimeError(
            f"{name}(): weight must be (in, out / groups, height, width), got {filters}{errors.called()}"
        )
    if groups < 1 or shape[1] != filters[0] or filters[0] % groups:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(filters)}, expected input{list(shape)} to have {filters[0]}"
            f" channels, but got {shape[1]} channels instead\n  {name}() also needs them to be a multiple of"
            f" groups={groups}.{errors.called()}"
        )
    channels = filters[1] * groups
    if bias is not None and tuple(bias.shape) != (channels,):
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(filters)}, expected bias to be 1-dimensional with {channels}"
            f" elements, but got bias of size {list(bias.shape)} instead\n  in {name}().{errors.called()}"
        )


def _transposed_size(
    name: str,
    shape: tuple[int, ...],
    lengths: tuple[int, ...],
    steps: tuple[int, int],
    cut: tuple[int, int],
    more: tuple[int, int],
    spread: tuple[int, int],
) -> tuple[int, int]:
    """Return the height and width of a transposed convolution's result from those of input and filters; refuse empty ones."""
    if min(*steps, *spread, *lengths) < 1 or min(*cut, *more) < 0:
        raise ValueError(
            f"{name}(): kernel size, stride and dilation must be positive and paddings not negative; got"
            f" {lengths}, {steps}, {spread}, {cut} and {more}{errors.called()}"
        )
    if any(m >= s for m, s in zip(more, steps, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than stride, but got output_padding={more} and stride={steps}\n  in"
            f" {name}().{errors.called()}"
        )
    height, width = (
        (shape[a] - 1) * steps[a] - 2 * cut[a] + spread[a] * (lengths[a] - 1) + more[a] + 1 for a in (0, 1)
    )
    if min(height, width) < 1:
        raise RuntimeError(
            f"Given input size per channel: ({shape[0]} x {shape[1]}). Calculated output size per channel: ({height} x"
            f" {width}). Output size is too small\n  in {name}().{errors.called()}"
        )
    return height, width


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntOrPair = 1,
    padding: IntOrPair = 0,
    output_padding: IntOrPair = 0,
    groups: int = 1,
    dilation: IntOrPair = 1,
) -> Tensor:
    """The adjoint of `conv1d` in its input, plus a bias; see `conv_transpose2d`.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences, real.
    weight : Tensor, shape (C, O / groups, k)
        Filters.
    bias : Tensor, shape (O,), optional
        Added to every output channel.
    stride, padding, output_padding, groups, dilation : int, optional
        As for `conv_transpose2d`, along the sequence.
    Returns : Tensor, shape (N, O, Lo) or (O, Lo)
        ``Lo = (L - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1``.
    RuntimeError: As for `conv_transpose2d`.

    >>> ag.nn.functional.conv_transpose1d(ag.tensor([[1.0, 2.0]]), ag.ones((1, 1, 2)))
    tensor([[1., 3., 2.]])
    """
    name, weight = "conv_transpose1d", as_operand(weight)
    if weight.ndim != 3:
        raise RuntimeError(f"{name}(): weight must be (in, out / groups, length), got {weight.shape}{errors.called()}")
    result = _transposed(
        name,
        rows_of(name, input),
        manipulation.expand_dims(weight, axis=-2),
        bias,
        (1, single_of(name, stride, "stride")),
        (0, single_of(name, padding, "padding")),
        (0, single_of(name, output_padding, "output_padding")),
        groups,
        (1, single_of(name, dilation, "dilation")),
    )
    return manipulation.squeeze(result, -2)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntOrPair = 1,
    padding: IntOrPair | str = 0,
    dilation: IntOrPair = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of volumes with filters: one of images, with all slices in a window as channels; see `conv2d`.

    input : Tensor, shape (N, C, D, H, W) or (C, D, H, W)
        Volumes, real.
    weight : Tensor, shape (O, C / groups, kd, kh, kw)
        Filters.
    bias : Tensor, shape (O,), optional
        Added to every output channel.
    stride, padding, dilation, groups : int or triple, optional
        As for `conv2d`.
    Returns : Tensor, shape (N, O, Do, Ho, Wo) or (O, Do, Ho, Wo)
    RuntimeError, ValueError: As for `conv2d`.

    >>> ag.nn.functional.conv3d(ag.ones((1, 2, 2, 2)), ag.ones((1, 1, 2, 2, 1))).tolist()
    [[[[4.0, 4.0]]]]
    """
    name, x, weight = "conv3d", as_operand(input), as_operand(weight)
    if x.ndim not in (4, 5):
        raise RuntimeError(
            f"Expected 4D (unbatched) or 5D (batched) input to {name}, but got input of size: {list(x.shape)}"
            + errors.called()
        )
    single, x = x.ndim == 4, manipulation.expand_dims(x, axis=0) if x.ndim == 4 else x
    steps, spread = sizes_of(name, stride, "stride", 3), sizes_of(name, dilation, "dilation", 3)
    if weight.ndim != 5 or x.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have"
            f" {weight.shape[1] * groups} channels, but got {x.shape[1]} channels instead\n  in {name}().{errors.called()}"
        )
    (filters, _, depth, height, width), over, within = weight.shape, spread[0] * (weight.shape[2] - 1), padding
    if padding == "same":
        if steps != (1, 1, 1):
            raise ValueError(f"padding='same' is not supported for strided convolutions{errors.called()}")
        before, after = over // 2, over - over // 2
    else:
        ends = (0, 0, 0) if isinstance(padding, str) else sizes_of(name, padding, "padding", 3)
        before, after, within = ends[0], ends[0], padding if isinstance(padding, str) else ends[1:]
    x = ops.pad(x, ((0, 0), (0, 0), (before, after), (0, 0), (0, 0)), 0.0)
    count = (x.shape[2] - over - 1) // steps[0] + 1
    if count < 1:
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, x.shape[2:]))}). Kernel size: ({over + 1} x"
            f" {height} x {width}). Kernel size can't be greater than actual input size\n  in {name}().{errors.called()}"
        )
    starts = [i * spread[0] for i in range(depth)]
    slices = manipulation.stack([x[:, :, a : a + (count - 1) * steps[0] + 1 : steps[0], ...] for a in starts], axis=3)
    images = manipulation.moveaxis(slices, 2, 1)  # (N, Do, C, kd, H, W)
    images = manipulation.reshape(images, (-1, x.shape[1] * depth, *x.shape[3:]))
    flat = manipulation.reshape(weight, (filters, -1, height, width))
    result = _convolved(name, images, flat, bias, steps[1:], within, spread[1:], groups)
    result = manipulation.reshape(result, (x.shape[0], count, *result.shape[1:]))
    return back(manipulation.moveaxis(result, 1, 2), single)


def _padding_by_name(
    name: str, padding: str, kernel: Sequence[int], stride: tuple[int, int], dilation: tuple[int, int]
) -> ops.Padding:
    if padding == "valid":
        return (0, 0), (0, 0)
    if padding != "same":
        raise ValueError(f"Invalid padding string: '{padding}'\n  {name}() knows 'valid' and 'same'.{errors.called()}")
    if stride != (1, 1):
        raise ValueError(f"padding='same' is not supported for strided convolutions{errors.called()}")
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return (total[0] // 2, total[0] - total[0] // 2), (total[1] // 2, total[1] - total[1] // 2)
