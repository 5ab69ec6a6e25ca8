"""Blank: an array of a library without elements, on which programs are captured from shapes and dtypes alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from agrad.core.backend import Backend


class NeedsValuesError(TypeError):
    """What an array without elements is asked for is in the values, which it does not have."""


class Blank:
    """An array of a library that has a shape and a dtype and no element.

    Of each backend there is a class. `Backend.as_array` gives such an array as it is.

    Attributes
    ----------
    shape : tuple of int
        The shape.
    dtype : object
        The library's own dtype.
    device : object
        The library's own device.
    """

    __slots__ = ("__weakref__", "device", "dtype", "shape")

    backend: Backend  # whose array it is

    def __init__(self, shape: Iterable[int], dtype: Any, device: Any) -> None:
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype: Any = dtype
        self.device: Any = device

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NeedsValuesError("the array has no elements: a capture from shapes and dtypes made it")

    __bool__ = __float__ = __int__ = __complex__ = __index__ = __iter__ = __len__ = __getitem__ = _refuse
    __array__ = __array_ufunc__ = __array_function__ = item = tolist = _refuse

    def __repr__(self) -> str:
        return f"Blank({self.shape}, {self.dtype})"
