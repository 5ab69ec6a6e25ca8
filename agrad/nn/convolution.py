"""Convolutions as modules, with PyTorch's arguments and initial values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn.functional.checks import IntOrPair, sizes_of
from agrad.nn.functional.images import OUTSIDE
from agrad.nn.layers import draw
from agrad.nn.module import Module
from agrad.nn.parameter import Parameter
from agrad.ops.creation import empty

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d"]


class _Conv(Module):
    """Base of the convolutions."""

    #: The number of axes of a window.
    _axes: int
    #: The convolution function.
    _convolve: Callable[..., Tensor]
    transposed = False
    output_padding: tuple[int, ...] = ()

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrPair,
        stride: IntOrPair = 1,
        padding: IntOrPair | str = 0,
        dilation: IntOrPair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups < 1:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups ({groups})")
        modes = "zeros", *OUTSIDE
        if padding_mode not in modes:
            raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'")
        self.padding_mode = padding_mode
        self.in_channels: int = in_channels
        self.out_channels: int = out_channels
        self.groups: int = groups
        self.kernel_size: tuple[int, ...] = self._sizes(kernel_size, "kernel_size")
        self.stride: tuple[int, ...] = self._sizes(stride, "stride")
        self.dilation: tuple[int, ...] = self._sizes(dilation, "dilation")
        self.padding: str | tuple[int, ...] = padding if isinstance(padding, str) else self._sizes(padding, "padding")
        if isinstance(padding, str) and padding not in ("valid", "same"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight: Parameter = Parameter(
            empty((first, second // groups, *self.kernel_size), device=device, dtype=dtype)
        )
        self.bias: Parameter | None = Parameter(empty((out_channels,), device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def _sizes(self, value: IntOrPair, what: str) -> tuple[int, ...]:
        return sizes_of(type(self).__name__, value, what, self._axes)

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        draw(self.weight, self.bias)

    def forward(self, input: Any) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            widths: list[int] = []
            for axis in reversed(range(self._axes)):
                total = self.dilation[axis] * (self.kernel_size[axis] - 1) if padding == "same" else 0
                widths += (total // 2, total - total // 2) if isinstance(padding, str) else (padding[axis],) * 2
            input, padding = F.pad(input, widths, self.padding_mode), 0
        return self._convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        zeros_, ones_ = (0,) * self._axes, (1,) * self._axes
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        text += f", padding={self.padding!r}" if self.padding != zeros_ else ""
        text += f", dilation={self.dilation}" if self.dilation != ones_ else ""
        text += f", output_padding={self.output_padding}" if any(self.output_padding) else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        text += "" if self.bias is not None else ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class Conv1d(_Conv):
    """Convolution of sequences (n, channels, length); see `agrad.nn.functional.conv1d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after; both are multiples of `groups`.
    kernel_size, stride, dilation : int, optional
        Of the windows.
    padding : int, "same" or "valid", optional
        The width of the padding before and after the sequences.
    groups : int, optional
        Channels are connected only within groups.
    bias : bool, optional
        Whether to add a bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        What the padding contains; see `agrad.nn.functional.pad`.
    device, dtype : optional
        For the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (out_channels, in_channels / groups, k), uniform on ±1/sqrt(in_channels / groups * k).
    bias : Parameter or None
        Shape (out_channels,), likewise.

    Raises
    ------
    ValueError
        If the channels are not multiples of `groups`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Conv1d(1, 4, 3, padding=1)(ag.ones((2, 1, 8))).shape
    (2, 4, 8)
    """

    _axes = 1
    _convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution of images (n, channels, height, width); see `agrad.nn.functional.conv2d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after; both are multiples of `groups`.
    kernel_size, stride, dilation : int or pair, optional
        Of the windows.
    padding : int, pair, "same" or "valid", optional
        The width of the padding around the images.
    groups : int, optional
        Channels are connected only within groups.
    bias : bool, optional
        Whether to add a bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        What the padding contains; see `agrad.nn.functional.pad`.
    device, dtype : optional
        For the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (out_channels, in_channels / groups, kh, kw), uniform on ±1/sqrt(in_channels / groups * kh * kw).
    bias : Parameter or None
        Shape (out_channels,), likewise.

    Raises
    ------
    ValueError
        If the channels are not multiples of `groups`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Conv2d(1, 4, 3, padding=1)(ag.ones((2, 1, 8, 8))).shape
    (2, 4, 8, 8)
    """

    _axes = 2
    _convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution of volumes (n, channels, depth, height, width); see `agrad.nn.functional.conv3d`.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        As for `Conv2d`, with sizes of three axes.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Conv3d(1, 4, 3, padding=1)(ag.ones((2, 1, 4, 8, 8))).shape
    (2, 4, 4, 8, 8)
    """

    _axes = 3
    _convolve = staticmethod(F.conv3d)


class _ConvTranspose(_Conv):
    """Base of the adjoints of convolutions."""

    transposed: bool = True
    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrPair,
        stride: IntOrPair = 1,
        padding: IntOrPair = 0,
        output_padding: IntOrPair = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: IntOrPair = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        name = type(self).__name__
        if isinstance(padding, str):
            raise ValueError(f"{name} takes integers as padding, not {padding!r}")  # noqa: TRY004 (a bad value)
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {name}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding: tuple[int, ...] = self._sizes(output_padding, "output_padding")

    def forward(self, input: Any) -> Tensor:
        return self._convolve(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTranspose):
    """The adjoint of `Conv1d` in its input, plus a bias; see `agrad.nn.functional.conv_transpose1d`.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, device, dtype
        As for `ConvTranspose2d`, with sizes of one axis.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.ConvTranspose1d(4, 1, 2, stride=2)(ag.ones((2, 4, 4))).shape
    (2, 1, 8)
    """

    _axes = 1
    _convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The adjoint of `Conv2d` in its input, plus a bias; see `agrad.nn.functional.conv_transpose2d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after; both are multiples of `groups`.
    kernel_size, stride, dilation : int or pair, optional
        Of the windows, which lie in the result.
    padding, output_padding : int or pair, optional
        Rows and columns cropped from every side of the result, and added back at the bottom and right.
    groups : int, optional
        Channels are connected only within groups.
    bias : bool, optional
        Whether to add a bias.
    padding_mode : {"zeros"}, optional
        The only mode, as in PyTorch.
    device, dtype : optional
        For the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (in_channels, out_channels / groups, kh, kw), uniform on ±1/sqrt(out_channels / groups * kh * kw).
    bias : Parameter or None
        Shape (out_channels,), likewise.

    Raises
    ------
    ValueError
        If the channels are not multiples of `groups`, `padding` is a string, or `padding_mode` another one.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.ConvTranspose2d(4, 1, 2, stride=2)(ag.ones((2, 4, 4, 4))).shape
    (2, 1, 8, 8)
    """

    _axes = 2
    _convolve = staticmethod(F.conv_transpose2d)
