"""Blank: a library's array without elements, for capturing programs from shapes and dtypes only."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from agrad.core.backend import Backend


class NeedsValuesError(TypeError):
    """An operation needs the values of an array without elements."""


class Blank:
    """An array of a library that has a shape and a dtype but no elements.

    There is one class per backend. `Backend.as_array` returns such an array unchanged.

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

    backend: Backend  # the backend of the array

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

    __bool__: Final = _refuse
    __float__: Final = _refuse
    __int__: Final = _refuse
    __complex__: Final = _refuse
    __index__: Final = _refuse
    __iter__: Final = _refuse
    __len__: Final = _refuse
    __getitem__: Final = _refuse
    __array__: Final = _refuse
    __array_ufunc__: Final = _refuse
    __array_function__: Final = _refuse
    item: Final = _refuse
    tolist: Final = _refuse

    def __repr__(self) -> str:
        return f"Blank({self.shape}, {self.dtype})"
