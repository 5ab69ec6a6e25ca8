"""NumPy's functions that select, sort, search and index, and its set functions."""

from __future__ import annotations

import math
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import (
    NO_VALUE,
    PYTHON_NUMBERS,
    aligned,
    axis_of,
    check_cast,
    common,
    dtype_of,
    flat,
    into,
    kind_of,
    or_else,
    plain_axis,
    refused,
    static,
    write_into,
)  # fmt: skip
from agrad.numpy.table import STEP, public
from agrad.ops import creation, elementwise, extra, manipulation, set_functions, statistical
from agrad.ops import searching as ops
from agrad.ops.data_type import astype
from agrad.ops.set_functions import UniqueAllResult, UniqueCountsResult, UniqueInverseResult

# -- selecting ---------------------------------------------------------------------------------------------------------


@public()
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """With only the condition, the positions where it is true."""
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
    index, *parts = broadcast(a, *parts)
    index = _within(index, len(parts), mode)
    stacked = manipulation.stack(list(common(*parts)))
    picked = ops.take_along_axis(stacked, manipulation.expand_dims(astype(index, "int64"), axis=0), axis=0)
    return into(out, picked[0, ...])


def broadcast(*values: Any) -> list[Tensor]:
    """Return operands broadcast to one shape."""
    tensors = as_operands(*values)
    shape = manipulation.broadcast_shapes(*(x.shape for x in tensors))
    return [manipulation.broadcast_to(x, shape) for x in tensors]


def _within(index: Tensor, n: int, mode: str) -> Tensor:
    """Return indices of an axis, with those outside treated by the mode."""
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
    """Checks the values of the condition."""
    x = as_operand(a)
    x, axis = (flat(x), 0) if axis is None else (x, axis_of(axis, x.ndim))
    places = [i for i, on in enumerate(static(condition)) if on]
    return into(out, ops.take(x, creation.asarray(places, dtype="int64", device=x.device), axis=axis))


@public()
def extract(condition: Any, arr: Any) -> Tensor:
    """Checks the values of the condition."""
    return compress(flat(as_operand(condition)), arr)


@public()
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    """Every function gets all of `x`; elements that are not selected have no gradient, NaN or not."""
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


# -- positions ---------------------------------------------------------------------------------------------------------


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
    """Checks values: whether there is any number."""
    return _place("argmax", _without_nan("nanargmax", a, -math.inf, axis), axis, out, keepdims)


@public(status=STEP)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Tensor:
    """Checks values: whether there is any number."""
    return _place("argmin", _without_nan("nanargmin", a, math.inf, axis), axis, out, keepdims)


# -- sorting -----------------------------------------------------------------------------------------------------------


#: NumPy's algorithm names, and whether equal elements keep their order.
_SORTS = {None: False, "quicksort": False, "heapsort": False, "introselect": False, "mergesort": True, "stable": True}


def _to_sort(name: str, a: Any, axis: Any, order: Any, kind: Any, stable: Any = None) -> tuple[Tensor, dict[str, Any]]:
    """Return the tensor to sort, and the options."""
    if order is not None:
        raise refused(f"numpy.{name} with order=", "tensors have no fields")
    if kind not in _SORTS:
        raise ValueError(
            f"{name} kind must be one of 'quicksort', 'heapsort' or 'stable' (got {kind!r}){errors.called()}"
        )
    x, stable = as_operand(a), bool(stable) or _SORTS[kind]
    if axis is None or (not x.ndim and name == "argsort" and axis in (0, -1)):  # as NumPy allows there
        return flat(x), {"axis": 0, "stable": stable}
    return x, {"axis": axis_of(axis, x.ndim), "stable": stable}


@public()
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    x, how = _to_sort("sort", a, axis, order, kind, stable)
    return ops.sort(x, **how)


@public(status=STEP)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    x, how = _to_sort("argsort", a, axis, order, kind, stable)
    return ops.argsort(x, **how)


@public()
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """Sorts completely, which is a partition at every position."""
    x, how = _to_sort("partition", a, axis, order, kind)
    _check_kth(kth, x.shape[how["axis"]])
    return ops.sort(x, **how)


@public(status=STEP)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """Sorts completely, which is a partition at every position."""
    x, how = _to_sort("argpartition", a, axis, order, kind)
    _check_kth(kth, x.shape[how["axis"]])
    return ops.argsort(x, **how)


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
    small = dtype_of(x) in ("int8", "uint8", "int16", "uint16")
    return astype(ops.sort(x, stable=False), "complex64" if small else "complex128")


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
    x, bins = common(x, bins)
    if x._spec.is_complex:
        raise TypeError(f"x may not be complex{errors.called()}")
    return extra.digitize(x, bins, right=right)


@public(status=STEP)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    rest, found = as_operand(indices), []
    sizes = tuple(static(shape)) if not isinstance(shape, int) else (shape,)
    for n in sizes[::-1] if order == "C" else sizes:
        found.append(elementwise.remainder(rest, n))
        rest = elementwise.floor_divide(rest, n)
    return tuple(found[::-1] if order == "C" else found)


@public(status=STEP)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Tensor:
    places = as_operands(*(manipulation.unstack(multi_index) if isinstance(multi_index, Tensor) else multi_index))
    sizes = tuple(static(dims))
    modes = mode if isinstance(mode, tuple) else (mode,) * len(sizes)
    found: Any = 0
    steps = list(zip(places, sizes, modes, strict=True))
    for place, n, each in steps if order == "C" else steps[::-1]:
        if each == "raise" and not bool(statistical.all((place >= 0) & (place < n))):
            raise ValueError(f"invalid entry in coordinates array{errors.called()}")
        found = found * n + _within(place, n, each)
    made: Tensor = found
    return made


@public()
def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Checks the values of booleans."""
    found = []
    for i, arg in enumerate(args):
        x = as_operand(arg)
        if x.ndim != 1:
            raise ValueError(f"Cross index must be 1 dimensional{errors.called()}")
        x = ops.nonzero(x)[0] if kind_of(x) == "bool" else x
        found.append(manipulation.reshape(x, tuple(-1 if i == j else 1 for j in range(len(args)))))
    return tuple(found)


@public(status=STEP)
def mask_indices(n: int, mask_func: Any, k: Any = 0) -> tuple[Tensor, ...]:
    return nonzero(mask_func(creation.ones((n, n), dtype="int64"), k) != 0)


# -- changes in place --------------------------------------------------------------------------------------------------


def _repeated(values: Any, beside: Tensor, n: int) -> Tensor:
    """Return a given number of values, repeating them from the first if there are not enough."""
    x = flat(as_operand(values, beside))
    return manipulation.tile(x, (-(-n // max(x.shape[0], 1)),))[:n] if x.shape[0] != n else x


@public()
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Changes the tensor `dst`; its history has both."""
    if not isinstance(dst, Tensor):
        write_into("copyto", dst, src, casting, where)
        return
    number, src = type(src) in PYTHON_NUMBERS, as_operand(src, dst)
    if casting != "same_kind":
        if not number:
            check_cast("array data", src, dst.dtype, casting)
        src = astype(src, dst.dtype, copy=False)
    ops.assign(dst, ..., src if where is True else ops.where(as_operand(where), src, dst))


@public()
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Changes the tensor `a`; its history has both."""
    if not isinstance(a, Tensor):
        write_into("put", a, ind, v, mode)
        return
    places = flat(_within(as_operand(ind, a), a.size, mode))
    key = unravel_index(ops.where(places < 0, places + a.size, places), a.shape) if a.ndim else (...,)
    ops.assign(a, key, _repeated(v, a, places.shape[0]))


@public()
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Changes the tensor `arr`; checks the values of the mask."""
    if not isinstance(arr, Tensor):
        write_into("place", arr, mask, vals)
        return
    key = nonzero(as_operand(mask, arr))
    if key[0].shape[0]:
        ops.assign(arr, key, _repeated(vals, arr, key[0].shape[0]))


@public()
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """Changes the tensor `a`; its history has both."""
    if not isinstance(a, Tensor):
        write_into("putmask", a, mask, values)
        return
    value = manipulation.reshape(_repeated(values, a, a.size), a.shape)
    mask = as_operand(mask, a)
    ops.assign(a, ..., ops.where(mask if kind_of(mask) == "bool" else mask != 0, value, a))


@public()
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Changes the tensor `arr`; its history has both."""
    if not isinstance(arr, Tensor):
        write_into("put_along_axis", arr, indices, values, axis)
        return
    index = as_operand(indices)
    if axis is None:
        put(arr, indices, values)
        return
    axis = axis_of(axis, arr.ndim)
    shape = manipulation.broadcast_shapes(index.shape, tuple(1 if i == axis else n for i, n in enumerate(arr.shape)))
    index = manipulation.broadcast_to(index, shape)
    grids = [
        manipulation.reshape(
            creation.arange(n, device=arr.device), tuple(-1 if i == j else 1 for j in range(len(shape)))
        )
        for i, n in enumerate(shape)
    ]
    grids[axis] = index
    key = tuple(manipulation.broadcast_to(g, shape) for g in grids)
    ops.assign(arr, key, manipulation.broadcast_to(as_operand(values, arr), shape))


# -- sets --------------------------------------------------------------------------------------------------------------


def _true(mask: Tensor) -> Tensor:
    """Return the positions where a mask is true, computed, as lazy operations on it could not determine them."""
    if not mask._spec.backend.is_lazy:
        return ops.nonzero(mask)[0]
    places = [i for i, on in enumerate(mask.tolist()) if on]
    return creation.asarray(places, dtype="int64", device=mask.device)


def _distinct(x: Tensor, equal_nan: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the order of the elements, the positions where a new value starts, and the value at each position."""
    order = ops.argsort(x.detach(), axis=-1)
    ranked = ops.take(x.detach(), order, axis=0)
    new = ranked[1:] != ranked[:-1]
    if equal_nan and x._spec.inexact:
        new = new & elementwise.logical_not(elementwise.isnan(ranked[1:]) & elementwise.isnan(ranked[:-1]))
    first = creation.ones((min(1, x.shape[0]),), dtype="bool", device=x.device)
    new = manipulation.concat([first, new]) if x.shape[0] else first
    return order, _true(new), statistical.cumulative_sum(astype(new, "int64")) - 1


@public()
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The gradient goes to the first of several equal elements; checks values."""
    x = as_operand(ar)
    if axis is not None and x.ndim > 1:
        raise refused("numpy.unique with axis=", "compare the rows: np.all(x[:, None] == x[None], axis=2)")
    if x._spec.is_complex:
        raise refused("numpy.unique of complex numbers", "take their real and imaginary parts")
    shape, x = x.shape, flat(x)
    order, starts, numbers = _distinct(x, equal_nan)
    where_first = ops.take(order, starts, axis=0)
    found: list[Tensor] = [ops.take(x, where_first, axis=0)]
    if return_index:
        found.append(where_first)
    if return_inverse:
        back = ops.take(numbers, ops.argsort(order), axis=0)
        found.append(manipulation.reshape(back, shape))
    if return_counts:
        ends = manipulation.concat([starts[1:], creation.full((min(1, x.shape[0]),), x.shape[0], device=x.device)])
        found.append(ends - starts)
    return found[0] if len(found) == 1 else tuple(found)


@public()
def unique_values(x: Any) -> Tensor:
    found: Tensor = unique(x, equal_nan=False)
    return found


@public()
def unique_all(x: Any) -> Any:
    return UniqueAllResult(*unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False))


@public()
def unique_counts(x: Any) -> Any:
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


@public()
def unique_inverse(x: Any) -> Any:
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


@public(status=STEP)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Tensor:
    x, y = common(element, test_elements)
    return set_functions.isin(x, flat(y), invert=invert)


def _as_set(a: Any, assume_unique: bool) -> Tensor:
    found: Tensor = flat(as_operand(a)) if assume_unique else unique(a)
    return found


@public()
def union1d(ar1: Any, ar2: Any) -> Tensor:
    found: Tensor = unique(manipulation.concat([flat(x) for x in common(ar1, ar2)]))
    return found


@public()
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The gradient goes to the first operand; checks values."""
    x, y = (flat(v) for v in common(ar1, ar2))
    if not return_indices:
        x = _as_set(x, assume_unique)
        return ops.sort(ops.take(x, _true(isin(x, y)), axis=0))
    a, first = unique(x, return_index=True)
    b, second = unique(y, return_index=True)
    in_both, of_first = _true(isin(a, b)), _true(isin(b, a))
    parts = (a, in_both), (first, in_both), (second, of_first)
    return tuple(ops.take(part, places, axis=0) for part, places in parts)


@public()
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    x, y = (flat(v) for v in as_operands(ar1, ar2))
    x = _as_set(x, assume_unique)
    return ops.take(x, _true(isin(x, y, invert=True)), axis=0)


@public()
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    x, y = (_as_set(v, assume_unique) for v in common(ar1, ar2))
    mine, others = (ops.take(a, _true(isin(a, b, invert=True)), axis=0) for a, b in ((x, y), (y, x)))
    return ops.sort(manipulation.concat([mine, others]))
