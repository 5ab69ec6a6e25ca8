"""Searching, sorting and indexing functions of the standard: what chooses among elements."""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.declare import custom, linear, nondifferentiable
from agrad.core.mode import is_grad_enabled
from agrad.core.op import OPS, _key, finish
from agrad.core.rule import device_of, unbroadcast
from agrad.core.spec import backend_of
from agrad.core.tensor import Tensor, check_leaf, owned, rebind, wrap
from agrad.ops.manipulation import unravel
from agrad.plugin.backend import at

# -- indexing ---------------------------------------------------------------------------------------------------------


@linear(
    index=("key",),
    keys=("key",),
    x=lambda xp, g, x_spec, key: xp.scatter_add(x_spec, key, g),
    kernel=at,
)
def getitem(x: Any, key: Any, /) -> Tensor:
    """The elements at a key, ``x[key]``: integers, slices, None, ``...``, masks, integer arrays."""


@linear(
    index=("key",),
    keys=("key",),
    values=lambda xp, g, key: xp.getitem(g, key),
)
def scatter_add(spec: Any, key: Any, values: Any, /) -> Tensor:
    """Zeros of a spec with `values` added at a key, repeated places accumulating: the adjoint of `getitem`."""


def _zero_at(xp: Any, g: Any, key: Any) -> Any:
    return xp.setitem(g, key, xp.zeros((), dtype=g.dtype, device=device_of(g)))


def _where_last(xp: Any, g: Any, key: Any) -> Any:
    """``g[key]``, and 0 where a later entry of the key writes to the same place."""
    parts = xp.getitem(g, key)
    numbers = xp.reshape(xp.arange(parts.size, device=device_of(g)), parts.shape)
    last = xp.getitem(xp.setitem(xp.zeros_like(g, dtype=xp.int64), key, numbers), key)
    return xp.where(last == numbers, parts, xp.zeros_like(parts))


def _value_adjoint(xp: Any, g: Any, key: Any, value_spec: Any) -> Any:
    parts = key if isinstance(key, tuple) else (key,)
    if any(hasattr(part, "dtype") and not xp.isdtype(part.dtype, "bool") for part in parts):
        g = _where_last(xp, g, key)
    else:
        g = xp.getitem(g, key)
    lead = len(value_spec.shape) - g.ndim  # a value may have leading axes of length 1 that its place lacks
    return g if lead <= 0 else xp.reshape(unbroadcast(xp, g, value_spec.shape[lead:]), value_spec.shape)


@linear(
    index=("key",),
    keys=("key",),
    drops=True,
    x=_zero_at,
    value=_value_adjoint,
)
def setitem(x: Any, key: Any, value: Any, /) -> Tensor:
    """A copy of `x` with ``x[key] = value`` done; of places written twice the last value counts."""


def assign(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``, rebinding `x` to the new value."""
    what = "x[key] = value"
    check_leaf(x, what)
    if isinstance(value, complex) and not x._spec.is_complex:
        message = f"value cannot be converted to type {x.dtype} without overflow"
        raise RuntimeError(message)
    if not isinstance(value, Tensor | bool | int | float | complex):
        value = _as_value(value)
    if isinstance(value, Tensor) and value.dtype != x.dtype:
        value = _cast_value(x, value)
    source = Tensor.__new__(Tensor)
    source._spec, source._node, source._tangents = x._spec, x._node, x._tangents
    made = _assigned_in_place(x, source, key, value)
    if made is None:
        source._data = x._data
        made = setitem(source, key, value)
    rebind(x, made, what, fresh=True)


def _as_value(value: Any) -> Tensor:
    """Give what is assigned, a raw array, as a Tensor."""
    backend = backend_of(value)
    if backend is None:
        raise errors.not_an_operand("setitem", "value", value)
    raw = backend.as_array(value)
    return wrap(raw, backend.spec(raw))


def _cast_value(x: Tensor, value: Tensor) -> Tensor:
    from agrad.ops.data_type import astype  # noqa: PLC0415 (that chapter comes later)

    kinds = ("bool", "int", "float", "complex")
    kind = x._spec.backend.kind
    if kinds.index(value._spec.backend.kind(value.dtype)) > kinds.index(kind(x.dtype)):
        message = f"result type {value.dtype} can't be cast to the desired output type {x.dtype}"
        raise RuntimeError(message)
    return astype(value, x.dtype)


def _assigned_in_place(x: Tensor, source: Tensor, key: Any, value: Any) -> Tensor | None:
    """Give the result of the assignment without a copy, where `x` alone holds its array; None where it does not.

    The graph does not hold it either: the rule of `setitem` saves the key and nothing else.
    """
    backend = x._spec.backend
    is_tensor = isinstance(value, Tensor)
    if x._tangents or (is_tensor and (value._tangents or value._spec.backend is not backend)):
        return None
    raw = value._data if is_tensor else backend.scalar(value, x._spec)
    places = _key(key, backend)
    buffer = owned(x)  # asked last: to read the value and the key is to end the ownership, if they are `x` itself
    if buffer is None:
        return None
    changed = backend.setitem_into(buffer, places, raw)
    operands = [source, value if is_tensor else None]
    made: Tensor = finish(
        OPS["setitem"], backend, changed, operands, [None, places, None], (), recording=is_grad_enabled()
    )
    return made


def _scatter_along(xp: Any, g: Any, x_spec: Any, indices: Any, axis: int) -> Any:
    """The adjoint of take_along_axis: place numbers for every axis but one, the indices for that one."""
    rank = len(x_spec.shape)
    axis = axis % rank
    key = []
    for i, n in enumerate(x_spec.shape):
        if i == axis:
            key.append(indices)
        else:  # an axis of length 1 was broadcast to that of the indices
            shape = tuple(-1 if j == i else 1 for j in range(rank))
            key.append(xp.reshape(xp.arange(n, device=device_of(g)), shape))
    return xp.scatter_add(x_spec, tuple(key), g)


def _take_adjoint(xp: Any, g: Any, x_spec: Any, indices: Any, axis: int | None) -> Any:
    if axis is None and len(x_spec.shape) != 1:  # some libraries flatten then
        return xp.scatter_add(x_spec, unravel(indices % x_spec.size, x_spec.shape), g)
    lead = 0 if axis is None else axis % len(x_spec.shape)
    return xp.scatter_add(x_spec, (slice(None),) * lead + (indices,), g)


@linear(index=("indices",), x=_take_adjoint)
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The elements at 1-d indices along an axis, which a 1-d operand need not name."""


@linear(index=("indices",), x=_scatter_along)
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """The elements at indices of the operand's rank, along an axis."""


# -- searching --------------------------------------------------------------------------------------------------------


@linear(
    index=("condition",),
    drops=True,
    x1=lambda xp, g, condition: xp.where(condition, g, xp.zeros_like(g)),
    x2=lambda xp, g, condition: xp.where(condition, xp.zeros_like(g), g),
)
def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """`x1` where the condition is true, else `x2`."""


@nondifferentiable("x")
def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the largest element along an axis, the first of several."""


@nondifferentiable("x")
def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the smallest element along an axis, the first of several."""


@nondifferentiable("x")
def count_nonzero(x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """How many elements along axes are not zero."""


@nondifferentiable("x", outputs=0)
def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, one tensor per axis."""


@nondifferentiable("x1", "x2", "sorter")
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where to insert `x2` into sorted `x1`."""


# -- sorting ----------------------------------------------------------------------------------------------------------


def _unsort(xp: Any, g: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    order = xp.argsort(x, axis=axis, descending=descending, stable=stable)
    return xp.take_along_axis(g, xp.argsort(order, axis=axis), axis=axis)


def _sorted_tangent(xp: Any, t_x: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    return xp.take_along_axis(t_x, xp.argsort(x, axis=axis, descending=descending, stable=stable), axis=axis)


@custom(vjp={"x": _unsort}, jvp=_sorted_tangent)
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sorted along an axis; the gradient goes back along the permutation."""


@nondifferentiable("x")
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort along an axis."""
