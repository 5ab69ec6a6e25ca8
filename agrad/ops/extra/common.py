"""Helpers of the functions beyond the standard: dtypes and axes of operands."""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.tensor import Tensor
from agrad.ops.data_type import astype, result_type
from agrad.ops.manipulation import permute_dims, reshape

Axis = int | tuple[int, ...] | None


def kind_of(x: Tensor) -> str:
    """bool, int, float or complex."""
    return x._spec.backend.kind(x.dtype)


def alike(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Two real operands in one dtype."""
    if x1.dtype == x2.dtype:
        return x1, x2
    mixed = x1._spec.inexact != x2._spec.inexact
    dtype = (x1 if x1._spec.inexact else x2).dtype if mixed else result_type(x1, x2)
    return astype(x1, dtype, copy=False), astype(x2, dtype, copy=False)


def checked_axis(name: str, axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises
    ------
    IndexError
        If there is no such axis.
    TypeError
        If it is not an integer.
    """
    if isinstance(axis, str):  # "F", which NumPy's methods take at this position
        raise TypeError(f"{name}() takes axes as integers, not {axis!r}{errors.called()}")
    if not -rank <= axis < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {axis})"
            f"\n  {name}() was given a tensor of {rank} axes.{errors.called()}"
        )
    return axis % rank


def checked_axes(name: str, axis: Axis, rank: int) -> tuple[int, ...]:
    """Axes counted from the front; all for None."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(checked_axis(name, a, rank) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}(): an axis is given twice in {axis}{errors.called()}")
    return axes


def along(axis: int, part: slice | int | None) -> tuple[Any, ...]:
    """Return the key of a part along an axis counted from the front."""
    return (*(slice(None),) * axis, part, ...)


def joined(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return `x` with these axes moved to the end and merged."""
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    if len(axes) == 1 and axes[0] == x.ndim - 1:
        return x
    moved = permute_dims(x, rest + axes)
    return moved if len(axes) == 1 else reshape(moved, (*(x.shape[i] for i in rest), -1))


def without(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Remove axes of length 1, unless they should be kept."""
    return x if keepdims else reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))
