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
    """Base of the padding modules.

    Parameters
    ----------
    padding : int or sequence of int
        Elements added at each end, or two per axis, the last axis first: ``(left, right, top, bottom)``.

    Raises
    ------
    ValueError
        If there are not two numbers per axis.
    """

    #: The number of padded axes, and the mode.
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
    """Pad the last axis with a constant: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 1

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad2d(_Pad):
    """Pad the last two axes with a constant: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 2

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad3d(_Pad):
    """Pad the last three axes with a constant: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 3

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ZeroPad1d(_Pad):
    """Pad the last axis with zeros: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 1


class ZeroPad2d(_Pad):
    """Pad the last two axes with zeros: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 2


class ZeroPad3d(_Pad):
    """Pad the last three axes with zeros: `agrad.nn.functional.pad` in mode "constant"."""

    axes = 3


class ReflectionPad1d(_Pad):
    """Pad the last axis by mirroring at the outermost elements: `agrad.nn.functional.pad` in mode "reflect"."""

    axes: ClassVar[int] = 1
    mode: ClassVar[str] = "reflect"


class ReflectionPad2d(_Pad):
    """Pad the last two axes by mirroring at the outermost elements: `agrad.nn.functional.pad` in mode "reflect"."""

    axes: ClassVar[int] = 2
    mode: ClassVar[str] = "reflect"


class ReflectionPad3d(_Pad):
    """Pad the last three axes by mirroring at the outermost elements: `agrad.nn.functional.pad` in mode "reflect"."""

    axes: ClassVar[int] = 3
    mode: ClassVar[str] = "reflect"


class ReplicationPad1d(_Pad):
    """Pad the last axis by repeating the outermost elements: `agrad.nn.functional.pad` in mode "replicate"."""

    axes: ClassVar[int] = 1
    mode: ClassVar[str] = "replicate"


class ReplicationPad2d(_Pad):
    """Pad the last two axes by repeating the outermost elements: `agrad.nn.functional.pad` in mode "replicate"."""

    axes: ClassVar[int] = 2
    mode: ClassVar[str] = "replicate"


class ReplicationPad3d(_Pad):
    """Pad the last three axes by repeating the outermost elements: `agrad.nn.functional.pad` in mode "replicate"."""

    axes: ClassVar[int] = 3
    mode: ClassVar[str] = "replicate"


class CircularPad1d(_Pad):
    """Pad the last axis with elements from the other end: `agrad.nn.functional.pad` in mode "circular"."""

    axes: ClassVar[int] = 1
    mode: ClassVar[str] = "circular"


class CircularPad2d(_Pad):
    """Pad the last two axes with elements from the other end: `agrad.nn.functional.pad` in mode "circular"."""

    axes: ClassVar[int] = 2
    mode: ClassVar[str] = "circular"


class CircularPad3d(_Pad):
    """Pad the last three axes with elements from the other end: `agrad.nn.functional.pad` in mode "circular"."""

    axes: ClassVar[int] = 3
    mode: ClassVar[str] = "circular"
