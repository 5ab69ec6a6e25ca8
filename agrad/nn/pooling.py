"""Pooling and other resizing of images, as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn.functional.checks import IntOrPair
from agrad.nn.module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d", "PixelShuffle",
    "PixelUnshuffle", "Upsample",
]  # fmt: skip


class _MaxPool(Module):
    """Base of maximum pooling."""

    def __init__(
        self,
        kernel_size: IntOrPair,
        stride: IntOrPair | None = None,
        padding: IntOrPair = 0,
        dilation: IntOrPair = 1,
        *,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size: IntOrPair = kernel_size
        self.stride: Any = kernel_size if stride is None else stride
        self.padding: IntOrPair = padding
        self.dilation: IntOrPair = dilation
        self.ceil_mode: bool = ceil_mode

    def extra_repr(self) -> str:
        text = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{text}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPool):
    """The largest element of each window of sequences; see `agrad.nn.functional.max_pool1d`."""

    def forward(self, input: Any) -> Tensor:
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)


class MaxPool2d(_MaxPool):
    """The largest element of each window of images; see `agrad.nn.functional.max_pool2d`."""

    def forward(self, input: Any) -> Tensor:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)


class _AvgPool(Module):
    """Base of mean pooling."""

    def __init__(
        self,
        kernel_size: IntOrPair,
        stride: IntOrPair | None = None,
        padding: IntOrPair = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size: IntOrPair = kernel_size
        self.stride: Any = kernel_size if stride is None else stride
        self.padding: IntOrPair = padding
        self.ceil_mode: bool = ceil_mode
        self.count_include_pad: bool = count_include_pad

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window of sequences; see `agrad.nn.functional.avg_pool1d`."""

    def forward(self, input: Any) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(_AvgPool):
    """The mean of each window of images; see `agrad.nn.functional.avg_pool2d`."""

    def forward(self, input: Any) -> Tensor:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AdaptiveAvgPool1d(Module):
    """Means of windows, for a result of fixed length; see `agrad.nn.functional.adaptive_avg_pool1d`."""

    def __init__(self, output_size: int) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2d(Module):
    """Means of windows, for a result of fixed size; see `agrad.nn.functional.adaptive_avg_pool2d`."""

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class PixelShuffle(Module):
    """Rearrange channels as pixels; see `agrad.nn.functional.pixel_shuffle`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of `PixelShuffle`; see `agrad.nn.functional.pixel_unshuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class Upsample(Module):
    """Enlarge sequences, images or volumes; see `agrad.nn.functional.interpolate`."""

    def __init__(
        self,
        size: IntOrPair | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        super().__init__()
        self.size: IntOrPair | None = size
        self.scale_factor: float | Sequence[float] | None = scale_factor
        self.mode: str = mode
        self.align_corners: bool | None = align_corners

    def forward(self, input: Any) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        how = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{how}, mode={self.mode!r}"
