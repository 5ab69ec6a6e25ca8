"""Padding as modules: each keeps its widths and calls `agrad.nn.functional.pad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn.module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """What they share.

    Parameters
    ----------
    padding : int or sequence of int
        Elements put at each end, or two per axis, the last axis first: ``(left, right, top, bottom)``.

    Raises
    ------
    ValueError
        If there are not two numbers per axis.
    """

    #: How many axes are padded, and how.
    axes: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: float = 0.0

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        widths = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(widths) != 2 * self.axes:
            raise ValueError(
                f"{type(self).__name__} takes a number or {2 * self.axes} of them, two per axis, got {padding}{called()}"
            )
        self.padding = widths

    def forward(self, input: Any) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value if self.mode == "constant" else None)

    def extra_repr(self) -> str:
        return f"{self.padding}" + (f", value={self.value}" if "value" in vars(self) else "")


class ConstantPad1d(_Pad):
    """A constant put around the last axis: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 1

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad2d(_Pad):
    """A constant put around the last two axes: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 2

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad3d(_Pad):
    """A constant put around the last three axes: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 3

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ZeroPad1d(_Pad):
    """Zeros put around the last axis: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 1


class ZeroPad2d(_Pad):
    """Zeros put around the last two axes: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 2


class ZeroPad3d(_Pad):
    """Zeros put around the last three axes: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 3


class ReflectionPad1d(_Pad):
    """The elements mirrored at the outermost one put around the last axis: `agrad.nn.functional.pad` in mode "reflect"."""

    axes: ClassVar[int] = 1
    mode: ClassVar[str] = "reflect"


class ReflectionPad2d(_Pad):
    """The elements mirrored at the outermost one put around the last two axes: `agrad.nn.functional.pad` in mode "reflect"."""

    axes: ClassVar[int] = 2
    mode: ClassVar[str] = "reflect"


class ReflectionPad3d(_Pad):
    """The elements mirrored at the outermost one put around the last three axes: `agrad.nn.functional.pad` in mode "reflect"."""

    axes: ClassVar[int] = 3
    mode: ClassVar[str] = "reflect"


class ReplicationPad1d(_Pad):
    """The outermost element again and again put around the last axis: `agrad.nn.functional.pad` in mode "replicate"."""

    axes: ClassVar[int] = 1
    mode: ClassVar[str] = "replicate"


class ReplicationPad2d(_Pad):
    """The outermost element again and again put around the last two axes: `agrad.nn.functional.pad` in mode "replicate"."""

    axes: ClassVar[int] = 2
    mode: ClassVar[str] = "replicate"


class ReplicationPad3d(_Pad):
    """The outermost element again and again put around the last three axes: `agrad.nn.functional.pad` in mode "replicate"."""

    axes: ClassVar[int] = 3
    mode: ClassVar[str] = "replicate"


class CircularPad1d(_Pad):
    """The elements of the other end put around the last axis: `agrad.nn.functional.pad` in mode "circular"."""

    axes: ClassVar[int] = 1
    mode: ClassVar[str] = "circular"


class CircularPad2d(_Pad):
    """The elements of the other end put around the last two axes: `agrad.nn.functional.pad` in mode "circular"."""

    axes: ClassVar[int] = 2
    mode: ClassVar[str] = "circular"


class CircularPad3d(_Pad):
    """The elements of the other end put around the last three axes: `agrad.nn.functional.pad` in mode "circular"."""

    axes: ClassVar[int] = 3
    mode: ClassVar[str] = "circular"
