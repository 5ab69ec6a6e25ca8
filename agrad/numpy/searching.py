"""NumPy's functions that choose, sort, search and index, and those of sets."""

from __future__ import annotations

import math
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import (
    NO_VALUE,
    aligned,
    axis_of,
    common,
    flat,
    into,
    kind_of,
    or_else,
    plain_axis,
    refused,
    static,
)  # fmt: skip
from agrad.numpy.table import STEP, public
from agrad.ops import creation, elementwise, extra, manipulation, statistical
from agrad.ops import searching as ops
from agrad.ops.data_type import astype

# -- choosing ----------------------------------------------------------------------------------------------------------


@public()
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """With the condition alone, the places where it is true."""
    if (x is None) != (y is None):
        raise ValueError(f"either both or neither of x and y should be given{errors.called()}")
    if x is None:
        return nonzero(condition)
    condition, x, y = as_operands(condition, x, y) if _plain(x, y) else (as_operand(condition), *aligned(x, y))
    return ops.where(condition if kind_of(condition) == "bool" else condition != 0, x, y)


def _plain(x: Any, y: Any) -> bool:
    return isinstance(x, bool | int | float | complex) and isinstance(y, bool | int | float | complex)


@public()
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    parts = list(manipulation.unstack(choices)) if isinstance(choices, Tensor) else list(choices)
    index, *parts = manipulation_broadcast(a, *parts)
    index = _within(index, len(parts), mode)
    stacked = manipulation.stack(list(common(*parts)))
    picked = ops.take_along_axis(stacked, manipulation.expand_dims(astype(index, "int64"), axis=0), axis=0)
    return into(out, picked[0, ...])


def manipulation_broadcast(*values: Any) -> list[Tensor]:
    """Return operands of one shape."""
    tensors = as_operands(*values)
    shape = manipulation.broadcast_shapes(*(x.shape for x in tensors))
    return [manipulation.broadcast_to(x, shape) for x in tensors]


def _within(index: Tensor, n: int, mode: str) -> Tensor:
    """Indices of an axis, by what is done with those outside."""
    if mode == "wrap":
        return elementwise.remainder(index, n)
    if mode == "clip":
        return elementwise.clip(index, 0, n - 1)
    if mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r}){errors.called()}")
    return index


@public()
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Tensor:
    x = as_operand(a)
    x, axis = (flat(x), 0) if axis is None else (x, axis_of(axis, x.ndim))
    places = as_operand(indices, x)
    places = _within(astype(places, "int64") if kind_of(places) != "int" else places, x.shape[axis], mode)
    if mode == "raise":
        n = x.shape[axis]
        places = ops.where(places < 0, places + n, places)
    found = ops.take(x, flat(places), axis=axis)
    return into(out, manipulation.reshape(found, x.shape[:axis] + places.shape + x.shape[axis + 1 :]))


@public()
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Tensor:
    x, places = as_operand(arr), as_operand(indices)
    if axis is None:
        return ops.take_along_axis(flat(x), places, axis=0)
    axis = axis_of(axis, x.ndim)
    if x.ndim != places.ndim:
        raise ValueError(f"`indices` and `arr` must have the same number of dimensions{errors.called()}")
    shape = [a if i == axis else max(a, b) for i, (a, b) in enumerate(zip(x.shape, places.shape, strict=True))]
    x = manipulation.broadcast_to(x, tuple(shape))
    places = manipulation.broadcast_to(
        places, tuple(places.shape[axis] if i == axis else n for i, n in enumerate(shape))
    )
    return ops.take_along_axis(x, places, axis=axis)


@public()
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Tensor:
    """The condition's values are looked at."""
    x = as_operand(a)
    x, axis = (flat(x), 0) if axis is None else (x, axis_of(axis, x.ndim))
    places = [i for i, on in enumerate(static(condition)) if on]
    return into(out, ops.take(x, creation.asarray(places, dtype="int64", device=x.device), axis=axis))


@public()
def extract(condition: Any, arr: Any) -> Tensor:
    """The condition's values are looked at."""
    return compress(flat(as_operand(condition)), arr)


@public()
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    """Every function sees all of `x`; what is not chosen has no gradient, NaN or not."""
    x = as_operand(x)
    conditions = condlist if isinstance(condlist, list | tuple) else [condlist]
    if conditions and isinstance(conditions[0], bool | int):
        conditions = [conditions] if x.ndim else conditions
    masks = [as_operand(c, x) for c in conditions]
    masks = [m if kind_of(m) == "bool" else m != 0 for m in masks]
    functions = list(funclist)
    if len(functions) not in (len(masks), len(masks) + 1):
        raise ValueError(
            f"with {len(masks)} condition(s), either {len(masks)} or {len(masks) + 1} functions are expected"
            f"{errors.called()}"
        )
    found: Any = creation.zeros_like(x)
    if len(functions) > len(masks):
        found = _piece(functions[-1], x, args, kw)
    for mask, function in zip(masks, functions, strict=False):
        found = ops.where(mask, _piece(function, x, args, kw), found)
    return manipulation.broadcast_to(found, x.shape)


def _piece(function: Any, x: Tensor, args: Any, kw: Any) -> Tensor:
    value = function(x, *args, **kw) if callable(function) else function
    return astype(as_operand(value, x), x.dtype, copy=False)


# -- places ------------------------------------------------------------------------------------------------------------


@public(status=STEP)
def nonzero(a: Any) -> tuple[Tensor, ...]:
    x = as_operand(a)
    if not x.ndim:
        raise ValueError(
            f"Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.{errors.called()}"
        )
    return tuple(ops.nonzero(x))


@public(status=STEP)
def flatnonzero(a: Any) -> Tensor:
    return nonzero(flat(as_operand(a)))[0]


@public(status=STEP)
def argwhere(a: Any) -> Tensor:
    x = as_operand(a)
    if not x.ndim:
        return creation.zeros((int(bool(x != 0)), 0), dtype="int64", device=x.device)
    return manipulation.stack(list(nonzero(x)), axis=1)


def _place(name: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Tensor:
    x = as_operand(a)
    x = astype(x, "int8") if kind_of(x) == "bool" else x
    return into(out, getattr(ops, name)(x, axis=plain_axis(axis), keepdims=bool(or_else(keepdims, False))))


@public(status=STEP)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Tensor:
    return _place("argmax", a, axis, out, keepdims)


@public(status=STEP)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Tensor:
    return _place("argmin", a, axis, out, keepdims)


def _without_nan(name: str, a: Any, value: float, axis: Any) -> Tensor:
    x = as_operand(a)
    if not x._spec.inexact:
        return x
    if bool(statistical.any(statistical.all(elementwise.isnan(x), axis=plain_axis(axis)))):
        raise ValueError(f"All-NaN slice encountered in {name}(){errors.called()}")
    return ops.where(elementwise.isnan(x), value, x)


@public(status=STEP)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Tensor:
    """Values are looked at: whether there is a number at all."""
    return _place("argmax", _without_nan("nanargmax", a, -math.inf, axis), axis, out, keepdims)


@public(status=STEP)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Tensor:
    """Values are looked at: whether there is a number at all."""
    return _place("argmin", _without_nan("nanargmin", a, math.inf, axis), axis, out, keepdims)


# -- sorting -----------------------------------------------------------------------------------------------------------


def _to_sort(name: str, a: Any, axis: Any, order: Any) -> tuple[Tensor, int]:
    if order is not None:
        raise refused(f"numpy.{name} with order=", "tensors have no fields")
    x = as_operand(a)
    if axis is None:
        return flat(x), 0
    return x, axis_of(axis, x.ndim)


@public()
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    x, axis = _to_sort("sort", a, axis, order)
    return ops.sort(x, axis=axis)


@public(status=STEP)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    x, axis = _to_sort("argsort", a, axis, order)
    return ops.argsort(x, axis=axis)


@public()
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """Sorted altogether, which is a partition at every place."""
    x, axis = _to_sort("partition", a, axis, order)
    _check_kth(kth, x.shape[axis])
    return ops.sort(x, axis=axis)


@public(status=STEP)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """Sorted altogether, which is a partition at every place."""
    x, axis = _to_sort("argpartition", a, axis, order)
    _check_kth(kth, x.shape[axis])
    return ops.argsort(x, axis=axis)


def _check_kth(kth: Any, n: int) -> None:
    places = static(kth)
    for k in places if isinstance(places, list) else [places]:
        if not -n <= k < n:
            raise ValueError(f"kth(={k}) out of bounds ({n}){errors.called()}")


@public()
def sort_complex(a: Any) -> Tensor:
    x = as_operand(a)
    if x._spec.is_complex:
        order = lexsort((elementwise.imag(x), elementwise.real(x)))
        return ops.take_along_axis(x, order, axis=-1)
    return astype(ops.sort(x), "complex64" if x.dtype == "float32" else "complex128")


@public(status=STEP)
def lexsort(keys: Any, axis: int = -1) -> Tensor:
    parts = list(manipulation.unstack(keys)) if isinstance(keys, Tensor) else list(as_operands(*keys))
    axis = axis_of(axis, parts[0].ndim)
    order = ops.argsort(parts[0].detach(), axis=axis)
    for key in parts[1:]:
        ranked = ops.take_along_axis(key.detach(), order, axis=axis)
        order = ops.take_along_axis(order, ops.argsort(ranked, axis=axis), axis=axis)
    return order


@public(status=STEP)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    x, values = common(a, v)
    places = ops.searchsorted(x, flat(values), side=side, sorter=None if sorter is None else as_operand(sorter))
    return manipulation.reshape(places, values.shape)


@public(status=STEP)
def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    return extra.digitize(*common(x, bins), right=right)
