"""What HIPS autograd has beside NumPy's functions, or in another way than NumPy."""

from __future__ import annotations

from typing import Any

import agrad.numpy as np
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.ops.creation import arange, asarray, eye, linspace
from agrad.ops.data_type import astype, result_type
from agrad.ops.manipulation import concat, expand_dims, reshape

__all__ = ["c_", "make_diagonal", "r_", "where"]


class Joined:
    """Arrays, numbers and slices, written as an index, joined: ``r_[0.0, x, 1:3]``.

    Parameters
    ----------
    axis : int
        Along which axis.
    ndim : int
        How many axes each of them gets at least.
    first : int
        Where its own axes begin among those; -1 is last.

    Examples
    --------
    >>> r_[0.0, asarray([1.0, 2.0]), 3:5]
    tensor([0., 1., 2., 3., 4.])
    >>> c_[asarray([1.0, 2.0]), asarray([3.0, 4.0])]
    tensor([[1., 3.],
            [2., 4.]])
    """

    def __init__(self, axis: int, ndim: int, first: int) -> None:
        self.axis, self.ndim, self.first = axis, ndim, first

    def __getitem__(self, key: Any) -> Tensor:
        parts = key if isinstance(key, tuple) else (key,)
        settings = (self.axis, self.ndim, self.first)
        if isinstance(parts[0], str):
            try:
                numbers = tuple(map(int, parts[0].split(",")))
            except ValueError:
                raise TypeError(f"{parts[0]!r} makes a matrix, which tensors have no type for{called()}") from None
            settings, parts = (*numbers, *settings[len(numbers) :]), parts[1:]  # type: ignore[assignment] # three
        axis, ndim, first = settings
        numbers_too = [part if isinstance(part, int | float | complex) else _part(part) for part in parts]
        dtype = result_type(*numbers_too)
        return concat(
            [astype(_with_axes(asarray(part), ndim, first), dtype, copy=False) for part in numbers_too], axis=axis
        )


def _part(part: Any) -> Tensor:
    """Return a part as a tensor: a slice stands for the numbers it counts."""
    if not isinstance(part, slice):
        return asarray(part)
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, int(abs(part.step)))
    return arange(start, part.stop, 1 if part.step is None else part.step)


def _with_axes(x: Tensor, ndim: int, first: int) -> Tensor:
    """Return an array with at least so many axes, its own ones beginning at a place among them."""
    more = max(ndim - x.ndim, 0)
    before = first + more + 1 if first < 0 else min(first, more)
    return reshape(x, (*(1,) * before, *x.shape, *(1,) * (more - before)))


#: Along the first axis, and along the last with vectors as columns.
r_ = Joined(0, 1, -1)
c_ = Joined(-1, 2, 0)


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return matrices that have the last axis of an array as their diagonals; the adjoint of ``diagonal``.

    Parameters
    ----------
    D : Tensor or array
        The diagonals, shape (..., n).
    offset, axis1, axis2 : int
        Only 0, -1 and -2, as in HIPS autograd.

    Returns
    -------
    Tensor
        Shape (..., n, n).

    Raises
    ------
    NotImplementedError
        For any other diagonal.

    Examples
    --------
    >>> make_diagonal([1.0, 2.0], axis1=-1, axis2=-2)
    tensor([[1., 0.],
            [0., 2.]])
    """
    if (offset, axis1, axis2) != (0, -1, -2):
        raise NotImplementedError(f"make_diagonal only supports offset=0, axis1=-1, axis2=-2{called()}")
    D = asarray(D)
    return expand_dims(D, axis=-1) * eye(D.shape[-1], dtype=D.dtype, device=D.device)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Choose between two arrays, or give the places where a condition holds; arguments may come by name.

    Parameters
    ----------
    condition : Tensor or array of bool
        Where to take `x`.
    x, y : Tensor, array or number, optional
        Both or neither.

    Returns
    -------
    Tensor or tuple of Tensor
        The chosen values; without `x` and `y` the places, one array per axis.

    Raises
    ------
    ValueError
        If one of `x` and `y` is missing.

    Examples
    --------
    >>> where(condition=[True, False], x=1.0, y=2.0)
    tensor([1., 2.])
    """
    if (x is None) != (y is None):
        raise ValueError(f"either both or neither of x and y should be given{called()}")
    return np.where(condition) if x is None else np.where(condition, x, y)
