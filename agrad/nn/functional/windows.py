"""Shared by convolution and pooling: images, sequences as images with one row, and window checks."""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.ops import manipulation
from agrad.ops import nn as ops


def images_of(name: str, input: Any) -> tuple[Tensor, bool]:
    """Return images as (N, C, H, W), and whether the batch axis was added."""
    input = as_operand(input)
    if input.ndim == 3:
        return manipulation.expand_dims(input, axis=0), True
    if input.ndim != 4:
        raise RuntimeError(
            f"Expected 3D (unbatched) or 4D (batched) input to {name}, but got input of size: {list(input.shape)}"
            + errors.called()
        )
    return input, False


def rows_of(name: str, input: Any) -> Tensor:
    """Return sequences (N, C, L) or (C, L) as images with one row."""
    input = as_operand(input)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2D (unbatched) or 3D (batched) input to {name}, but got input of size: {list(input.shape)}"
            + errors.called()
        )
    return manipulation.expand_dims(input, axis=-2)


def back(result: Tensor, single: bool) -> Tensor:
    """Return a result without the batch axis, if it was added."""
    return manipulation.squeeze(result, 0) if single else result


def check_windows(
    name: str,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: ops.Padding,
    dilation: tuple[int, int],
) -> None:
    """Refuse windows of size 0, and those larger than the padded image."""
    if min(*kernel, *stride, *dilation) < 1 or min(*padding[0], *padding[1]) < 0:
        raise ValueError(
            f"{name}(): kernel size, stride and dilation must be positive and padding not negative; got"
            f" {kernel}, {stride}, {dilation} and {padding}{errors.called()}"
        )
    sizes = [shape[2 + a] + sum(padding[a]) for a in (0, 1)]
    spans = [dilation[a] * (kernel[a] - 1) + 1 for a in (0, 1)]
    if any(span > size for span, size in zip(spans, sizes, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({sizes[0]} x {sizes[1]}). Kernel size: ({spans[0]} x"
            f" {spans[1]}). Kernel size can't be greater than actual input size\n  {name}(): input {tuple(shape)}."
            + errors.called()
        )
