"""PyTorch's `max(dim)` and similar functions: they return the elements picked along an axis, and their indices.

The gradient goes to the elements picked. Ops that have PyTorch's ``dim`` for these are declared with `by_dim`, and rank below
the other ops that are used here: those are looked up by name.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from agrad.core.errors import called
from agrad.core.methods import Picked, Sorted
from agrad.core.op import OPS
from agrad.core.operands import as_operand
from agrad.ops.creation import arange

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor


def _call(name: str, *args: Any, **options: Any) -> Any:
    return OPS[name].entry(*args, **options)


def _axis(name: str, x: Tensor, dim: Any) -> int:
    """Return an axis counted from the front, which a tensor without axes has as well."""
    if isinstance(dim, tuple | list):
        raise TypeError(f"{name}(): argument 'dim' must be int, not {type(dim).__name__}{called()}")
    axis, rank = operator.index(dim), max(x.ndim, 1)
    if not -rank <= axis < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {axis}){called()}"
        )
    return axis % rank


def _picked(name: str, x: Any, dim: Any, keepdim: bool, choose: Any) -> Picked:
    """Return the elements at indices, chosen by a function, with length 1 along an axis."""
    x = as_operand(x)
    axis = _axis(name, x, dim)
    row = x if x.ndim else _call("reshape", x, (1,))
    if not row.shape[axis]:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.{called()}")
    indices = choose(row, axis)
    values = _call("take_along_axis", row, indices, axis=axis)
    if not x.ndim or not keepdim:
        return Picked(_call("squeeze", values, axis=axis), _call("squeeze", indices, axis=axis))
    return Picked(values, indices)


def _extremum(name: str, x: Any, dim: Any, keepdim: Any) -> Any:
    if not isinstance(dim, int | tuple | list):
        return _call(f"{name}imum", x, dim)  # PyTorch's max(x, other)
    return _picked(name, x, dim, bool(keepdim), lambda row, axis: _call(f"arg{name}", row, axis=axis, keepdims=True))


def largest(x: Any, dim: Any, keepdim: Any = False) -> Any:
    """Return the largest elements along an axis with the first index of each; of two tensors, the larger elements."""
    return _extremum("max", x, dim, keepdim)


def smallest(x: Any, dim: Any, keepdim: Any = False) -> Any:
    """Return the smallest elements along an axis with the first index of each; of two tensors, the smaller elements."""
    return _extremum("min", x, dim, keepdim)


def in_order(x: Any, dim: Any = -1, descending: bool = False) -> Sorted:
    """Return the elements along an axis in order, and their indices; equal elements keep theirs."""
    x = as_operand(x)
    axis = _axis("sort", x, dim)
    if not x.ndim:
        return Sorted(_call("positive", x), _call("argsort", _call("reshape", x, (1,)))[0])
    indices = _call("argsort", x, axis=axis, descending=bool(descending), stable=True)
    return Sorted(_call("take_along_axis", x, indices, axis=axis), indices)


def _places(x: Tensor, axis: int) -> Tensor:
    """Return the indices along an axis, for whatever has the axes of `x`."""
    return arange(x.shape[axis], device=x.device).reshape((-1,) + (1,) * (x.ndim - axis - 1))


def _at(indices: Any, axis: int, place: Any) -> Any:
    return indices[(*(slice(None),) * axis, slice(place, place + 1), ...)]


def kth(x: Any, k: int, dim: Any = -1, keepdim: bool = False) -> Picked:
    """Return the k-th smallest elements along an axis, and their indices."""

    def choose(row: Any, axis: int) -> Any:
        if not 0 < k <= row.shape[axis]:
            raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}{called()}")
        return _at(_call("argsort", row, axis=axis), axis, k - 1)

    return _picked("kthvalue", x, dim, keepdim, choose)


def middle(x: Any, dim: Any = -1, keepdim: bool = False) -> Picked:
    """Return the median along an axis, the lower of two, and its index; the first NaN if there is one."""

    def choose(row: Any, axis: int) -> Any:
        found = _at(_call("argsort", row, axis=axis), axis, (row.shape[axis] - 1) // 2)
        if not row._spec.inexact:
            return found
        bad = _call("isnan", row)
        first = _call("argmax", _call("where", bad, 1, 0), axis=axis, keepdims=True)
        return _call("where", _call("any", bad, axis=axis, keepdims=True), first, found)

    return _picked("median", x, dim, keepdim, choose)


def most_frequent(x: Any, dim: Any = -1, keepdim: bool = False) -> Picked:
    """Return the most frequent elements along an axis, the smallest of several, and the last index of each."""

    def choose(row: Any, axis: int) -> Any:
        order = _call("argsort", row, axis=axis, stable=True)
        ordered = _call("take_along_axis", row, order, axis=axis)
        places = _places(row, axis)
        before = _call("take_along_axis", ordered, _call("maximum", places - 1, 0) + 0 * order, axis=axis)
        begins = _call("where", ordered != before, places, 0)
        length = places - _call("extra.cumulative_max", begins, axis=axis)
        end = _call("argmax", length, axis=axis, keepdims=True)
        return _call("take_along_axis", order, end, axis=axis)

    return _picked("mode", x, dim, keepdim, choose)


def _running(name: str, x: Any, dim: Any) -> Picked:
    x = as_operand(x)
    axis = _axis(f"cum{name[-3:]}", x, dim)
    row = x if x.ndim else _call("reshape", x, (1,))
    best = _call(name, row.detach(), axis=axis)
    value = row.detach()
    is_new = value == best
    if row._spec.inexact:
        is_new = _call("logical_or", is_new, _call("isnan", value))
    indices = _call("extra.cumulative_max", _call("where", is_new, _places(row, axis), 0), axis=axis)
    values = _call("take_along_axis", row, indices, axis=axis)
    return Picked(values, indices) if x.ndim else Picked(values[0], indices[0])


def running_largest(x: Any, dim: Any) -> Picked:
    """Return the largest elements so far along an axis, and their indices; of equal ones the last."""
    return _running("extra.cumulative_max", x, dim)


def running_smallest(x: Any, dim: Any) -> Picked:
    """Return the smallest elements so far along an axis, and their indices; of equal ones the last."""
    return _running("extra.cumulative_min", x, dim)
