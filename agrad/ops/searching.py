"""Searching, sorting and indexing functions of the standard: what chooses among elements."""

from __future__ import annotations

from typing import Any

from agrad.core.declare import custom, linear, nondifferentiable
from agrad.core.tensor import Tensor, check_leaf, owned, rebind

# -- indexing -----------------------------------------------------------------------------------------------------------


@linear(
    index=("key",),
    keys=("key",),
    x=lambda xp, g, x_spec, key: xp.scatter_add(x_spec, key, g),
    kernel=lambda xp, x, key: x[key],
)
def getitem(x: Any, key: Any, /) -> Tensor:
    """The elements at a key, ``x[key]``: integers, slices, None, ``...``, masks, integer arrays."""
    ...


@linear(
    index=("key",),
    keys=("key",),
    values=lambda xp, g, key: g[key],
)
def scatter_add(spec: Any, key: Any, values: Any, /) -> Tensor:
    """Zeros of a spec with `values` added at a key, repeated places accumulating: the adjoint of `getitem`."""
    ...


def _zero_at(xp: Any, g: Any, key: Any) -> Any:
    return xp.setitem(g, key, xp.zeros((), dtype=g.dtype))


@linear(
    index=("key",),
    keys=("key",),
    x=_zero_at,
    value=lambda xp, g, key: g[key],
)
def setitem(x: Any, key: Any, value: Any, /) -> Tensor:
    """A copy of `x` with ``x[key] = value`` done; of places written twice the last value counts."""
    ...


def assign(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``, rebinding `x` to the new value."""
    check_leaf(x, "x[key] = value")
    if (
        owned(x) is not None
        and x._node is None
        and not x._tangents
        and not (isinstance(value, Tensor) and (value._node is not None or value._tangents))
    ):
        _assign_into(x, key, value)
        return
    source = Tensor.__new__(Tensor)
    source._data, source._spec, source._node = x._data, x._spec, x._node
    source._tangents = x._tangents
    if isinstance(value, Tensor) and value.dtype != x.dtype:
        value = _cast_value(x, value)
    rebind(x, setitem(source, key, value), "x[key] = value", fresh=True)


def _cast_value(x: Tensor, value: Tensor) -> Tensor:
    from agrad.ops.data_type import astype  # noqa: PLC0415 (that chapter comes later)

    kinds = ("bool", "int", "float", "complex")
    kind = x._spec.backend.kind
    if kinds.index(value._spec.backend.kind(value.dtype)) > kinds.index(kind(x.dtype)):
        message = f"result type {value.dtype} can't be cast to the desired output type {x.dtype}"
        raise RuntimeError(message)
    return astype(value, x.dtype)


def _assign_into(x: Tensor, key: Any, value: Any) -> None:
    """The same on an array that only `x` holds: no copy."""
    from agrad.core.op import _index, _key  # noqa: PLC0415 (internals of a call, needed only here)

    backend = x._spec.backend
    if isinstance(value, Tensor) and value.dtype != x.dtype:
        value = _cast_value(x, value)
    raw = backend.scalar(value, x._spec) if isinstance(value, bool | int | float | complex) else _index(value, backend)
    x.__dict__["_buffer"] = backend.setitem_into(x.__dict__["_buffer"], _key(key, backend), raw)


def _scatter_along(xp: Any, g: Any, spec: Any, indices: Any, axis: int) -> Any:
    """The adjoint of take_along_axis: place numbers for every axis but one, the indices for that one."""
    rank = len(spec.shape)
    axis = axis % rank
    key = []
    for i in range(rank):
        if i == axis:
            key.append(indices)
        else:
            shape = tuple(-1 if j == i else 1 for j in range(rank))
            places = xp.reshape(xp.arange(g.shape[i]), shape)
            key.append(places)
    return xp.scatter_add(spec, tuple(key), g)


@linear(
    index=("indices",),
    x=lambda xp, g, x_spec, indices, axis: xp.scatter_add(
        x_spec, (slice(None),) * (0 if axis is None else axis % len(x_spec.shape)) + (indices,), g
    ),
)
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The elements at 1-d indices along an axis, which a 1-d operand need not name."""
    ...


@linear(index=("indices",), x=lambda xp, g, x_spec, indices, axis: _scatter_along(xp, g, x_spec, indices, axis))
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """The elements at indices of the operand's rank, along an axis."""
    ...


# -- searching ------------------------------------------------------------------------------------------------------------


@linear(
    index=("condition",),
    x1=lambda xp, g, condition: xp.where(condition, g, xp.zeros_like(g)),
    x2=lambda xp, g, condition: xp.where(condition, xp.zeros_like(g), g),
)
def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """`x1` where the condition is true, else `x2`."""
    ...


@nondifferentiable("x")
def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the largest element along an axis, the first of several."""
    ...


@nondifferentiable("x")
def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the smallest element along an axis, the first of several."""
    ...


@nondifferentiable("x")
def count_nonzero(x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """How many elements along axes are not zero."""
    ...


@nondifferentiable("x", outputs=0)
def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, one tensor per axis."""
    ...


@nondifferentiable("x1", "x2", "sorter")
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where to insert `x2` into sorted `x1`."""
    ...


# -- sorting --------------------------------------------------------------------------------------------------------------


def _unsort(xp: Any, g: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    order = xp.argsort(x, axis=axis, descending=descending, stable=stable)
    return xp.take_along_axis(g, xp.argsort(order, axis=axis), axis=axis)


def _sorted_tangent(xp: Any, t_x: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    return xp.take_along_axis(t_x, xp.argsort(x, axis=axis, descending=descending, stable=stable), axis=axis)


@custom(vjp={"x": _unsort}, jvp=_sorted_tangent)
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sorted along an axis; the gradient goes back along the permutation."""
    ...


@nondifferentiable("x")
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort along an axis."""
    ...
