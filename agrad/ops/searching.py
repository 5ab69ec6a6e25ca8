"""Searching, sorting and indexing functions of the standard: functions that choose among elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from agrad.core import errors
from agrad.core.backend import backend_of, numbers_of
from agrad.core.buffers import check_leaf, owned, rebind
from agrad.core.cotangents import beside, unbroadcast
from agrad.core.declare import custom, linear, nondifferentiable
from agrad.core.facts import Facts
from agrad.core.kernels import KINDS, at, is_mask, key_parts, visits_once
from agrad.core.mode import batch_levels, is_grad_enabled, recorder
from agrad.core.op import OPS, _key, finish, resolve_backend
from agrad.core.operands import listed
from agrad.core.saved import active
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor, wrap
from agrad.ops import pairs
from agrad.ops.batch_rules import BatchedCall, along, is_array, place, pointwise, reduced
from agrad.ops.data_type import astype
from agrad.ops.docs import complete
from agrad.ops.manipulation import unravel
from agrad.ops.missing import asked, there

if TYPE_CHECKING:
    from agrad.core.methods import Sorted

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "getitem", "nonzero", "scatter_add", "searchsorted", "setitem",
    "sort", "take", "take_along_axis", "where",
]  # fmt: skip

# -- indexing ---------------------------------------------------------------------------------------------------------


def _arrays_in(key: Any) -> list[Any]:
    return [part for part in key_parts(key) if is_array(part)]


def _getitem_batch(b: BatchedCall, x: Any, key: Any, /) -> Any:
    arrays = _arrays_in(key)
    if any(b.has(part) and is_mask(part) for part in arrays):
        raise b.fail(
            "We do not support batching operators that can support dynamic shape. Attempting to batch over indexing"
            " with a boolean mask."
        )
    if not arrays:
        return b.xp.getitem(x.data, (slice(None), *key_parts(key)))
    # by the numbers of the positions it takes: for any key, one row per member
    size = math.prod(x.shape)
    taken = _places_taken(b, x.shape, key, x)
    if not b.has(x):
        found = b.xp.take(b.xp.reshape(x, (size,)), b.xp.reshape(taken, (-1,)), axis=0)
        return b.xp.reshape(found, taken.shape)
    rows = b.flat(x.data)
    if not any(b.has(part) for part in arrays):
        return b.xp.reshape(b.xp.take(rows, b.xp.reshape(taken, (-1,)), axis=1), (b.size, *taken.shape))
    found = b.xp.take(b.xp.reshape(rows, (b.size * size,)), b.xp.reshape(_offset(b, taken, size), (-1,)), axis=0)
    return b.xp.reshape(found, taken.shape)


def _places_taken(b: BatchedCall, shape: tuple[int, ...], key: Any, like: Any) -> Any:
    """Return the numbers, in row-major order, of the positions that a key takes from an array of a shape.

    With the batch axis in front if the key contains batched arrays. An array in a key picks along its axis; the numbers
    of positions need no batch, so a key with arrays picks from them with each array in turn.
    """
    xp = b.xp
    numbers = xp.reshape(xp.arange(math.prod(shape), **beside(like)), shape)
    parts = key_parts(key)
    batched = [i for i, part in enumerate(parts) if b.has(part)]
    if not batched:
        return xp.getitem(numbers, key)
    rank = max(part.ndim for part in parts if is_array(part) and not is_mask(part))
    inner = tuple(b.raised(part.data, rank) if b.has(part) else part for part in parts)
    found = xp.getitem(numbers, inner if isinstance(key, tuple) else inner[0])
    return xp.moveaxis(found, _first_picked(b, parts, len(shape)), 0)


def _first_picked(b: BatchedCall, parts: tuple[Any, ...], ndim: int) -> int:
    """Return where the axes picked by arrays are in the result of a key: in place if they are adjacent, otherwise in front."""
    picks = [i for i, part in enumerate(parts) if is_array(part) or isinstance(part, int)]
    if picks[-1] - picks[0] + 1 != len(picks):
        return 0
    axis = 0
    for part in parts[: picks[0]]:
        if part is Ellipsis:
            named = sum(
                part.ndim if is_mask(part) else 1 for part in parts if part is not None and part is not Ellipsis
            )
            axis += ndim - named
        else:
            axis += 1
    return axis


def _offset(b: BatchedCall, taken: Any, size: int) -> Any:
    """Add to positions with a batch axis the offset of their member's row."""
    xp = b.xp
    rows = xp.reshape(xp.arange(b.size, **beside(taken)), (b.size, *(1,) * (taken.ndim - 1)))
    return taken + rows * size


@linear(
    memory="view",
    index=("key",),
    keys=("key",),
    x=lambda xp, g, x_spec, key: xp.scatter_add(x_spec, key, g),
    kernel=at,
    batch=_getitem_batch,
    facts=Facts(sparsity="moves", missing=True),
)
def getitem(x: Any, key: Any, /) -> Tensor:
    """The elements at a key, ``x[key]``.

    x: Any dtype, any shape.
    key: As in the standard and NumPy: boolean arrays choose elements, integer arrays choose positions.
    Returns: Of the dtype of `x`, never an alias of it.
    IndexError: If a position is out of range.
    Derivative: linear; the cotangent is added into zeros at the key (`scatter_add`), and positions that were taken
    twice accumulate. Indexing an axis by slices and integers saves no array.
    Source: array API 2025.12, indexing.

    >>> x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x[ag.tensor([0, 0, 2])]).detach(), ag.grad((x[ag.tensor([0, 0, 2])]).sum(), x)[0]
    (tensor([1., 1., 3.]), tensor([2., 0., 1.]))
    """


def _scatter_add_batch(b: BatchedCall, spec: Any, key: Any, values: Any, /) -> Any:
    arrays = _arrays_in(key)
    inner = b.backend.inner
    if not arrays:
        whole = Spec(inner, (b.size, *spec.shape), spec.dtype, spec.device)
        return b.xp.scatter_add(whole, (slice(None), *key_parts(key)), b.data(values))
    size = math.prod(spec.shape)
    has_batch = any(b.has(part) for part in arrays)
    taken = _places_taken(b, spec.shape, key, values)
    values = b.data(values)
    if not has_batch:
        taken = b.xp.broadcast_to(b.xp.expand_dims(taken, axis=0), (b.size, *taken.shape))
    whole = Spec(inner, (b.size * size,), spec.dtype, spec.device)
    where = b.xp.reshape(_offset(b, taken, size), (-1,))
    values = b.xp.reshape(b.xp.broadcast_to(values, taken.shape), (-1,))
    return b.xp.reshape(b.xp.scatter_add(whole, where, values), (b.size, *spec.shape))


@linear(
    index=("key",),
    keys=("key",),
    values=lambda xp, g, key: xp.getitem(g, key),
    batch=_scatter_add_batch,
    memory="fresh",
    facts=Facts(sparsity="scatters", missing=True),
)
def scatter_add(spec: Any, key: Any, values: Any, /) -> Tensor:
    """Zeros of a spec with values added at a key: the adjoint of `getitem`.

    spec : Spec
        Shape, dtype and device of the result; derivatives receive it under the name ``<operand>_spec``.
    key: As for `getitem`; values at a repeated position add up.
    values : Tensor or array
        The values to add, of the shape of ``x[key]``.
    Returns: Of the spec.
    Derivative: linear; ``g[key]`` by `values`.
    Source: agrad's own; a backend implements it in addition to the standard.

    >>> @ag.linear(x=lambda xp, g, x_spec: xp.scatter_add(x_spec, 0, g), kernel=lambda xp, x: x[0, ...])
    ... def first(x, /):
    ...     "The first element."
    >>> x = ag.tensor([5.0, 6.0], requires_grad=True)
    >>> ag.grad(first(x), x)[0]
    tensor([1., 0.])
    """


def _zero_at(xp: Any, g: Any, key: Any) -> Any:
    return xp.setitem(g, key, xp.zeros((), dtype=g.dtype, **beside(g)))


def _where_last(xp: Any, g: Any, key: Any) -> Any:
    """``g[key]``, and 0 where a later entry of the key writes to the same position."""
    parts = xp.getitem(g, key)
    numbers = xp.reshape(xp.arange(math.prod(parts.shape), **beside(g)), parts.shape)
    last = xp.getitem(xp.setitem(xp.zeros_like(g, dtype=xp.int64), key, numbers), key)
    return xp.where(last == numbers, parts, xp.zeros_like(parts))


def _value_adjoint(xp: Any, g: Any, key: Any, value_spec: Any) -> Any:
    g = xp.getitem(g, key) if visits_once(key) else _where_last(xp, g, key)
    lead = len(value_spec.shape) - g.ndim  # a value may have leading axes of length 1 that its target lacks
    return g if lead <= 0 else xp.reshape(unbroadcast(xp, g, value_spec.shape[lead:]), value_spec.shape)


def _setitem_batch(b: BatchedCall, x: Any, key: Any, value: Any, /) -> Any:
    arrays = _arrays_in(key)
    data = b.data(x)
    value = b.array(value) if not b.has(value) else value
    if is_mask(key) and (b.has(key) or not value.ndim):
        if value.ndim:
            raise b.fail(
                "We do not support batching operators that can support dynamic shape. Attempting to batch over"
                " assigning an array at a boolean mask."
            )
        mask = b.data(key)
        mask = b.xp.reshape(mask, (*mask.shape, *(1,) * (x.ndim - key.ndim)))
        filling = b.xp.astype(b.data(value, x.ndim), data.dtype)
        return b.xp.where(mask, filling, data)
    if not arrays:
        inner = (slice(None), *key_parts(key))
        if b.has(value):
            region = b.xp.getitem(data, inner).ndim - 1
            value = _trimmed(b, value.data, region)
            value = b.raised(value, region)
        return b.xp.setitem(data, inner, value)
    size = math.prod(x.shape)
    taken = _places_taken(b, x.shape, key, data)
    has_batch = any(b.has(part) for part in arrays)
    shape = tuple(taken.shape[1:] if has_batch else taken.shape)
    taken = taken if has_batch else b.xp.broadcast_to(b.xp.expand_dims(taken, axis=0), (b.size, *shape))
    values = _trimmed(b, b.data(value), len(shape))
    values = b.xp.broadcast_to(b.raised(values, len(shape)), (b.size, *shape))
    flat = b.xp.reshape(data, (b.size * size,))
    where = b.xp.reshape(_offset(b, taken, size), (-1,))
    return b.xp.reshape(b.xp.setitem(flat, where, b.xp.reshape(values, (-1,))), data.shape)


def _trimmed(b: BatchedCall, data: Any, rank: int) -> Any:
    """Drop leading axes of length 1 that a value has beyond a rank."""
    return b.xp.reshape(data, (data.shape[0], *data.shape[data.ndim - rank :])) if data.ndim - 1 > rank else data


@linear(
    index=("key",),
    keys=("key",),
    drops=True,
    x=_zero_at,
    value=_value_adjoint,
    batch=_setitem_batch,
    memory="fresh",
    facts=Facts(sparsity="moves", missing=True),
)
def setitem(x: Any, key: Any, value: Any, /) -> Tensor:
    """A copy of `x` with ``x[key] = value`` done.

    x: Any dtype, any shape.
    key: As for `getitem`. At a repeated position the last value counts.
    value : Tensor, array or scalar
        The values to assign; they broadcast to the shape of ``x[key]``.
    Returns: Of the shape and dtype of `x`.
    IndexError: If a position is out of range. RuntimeError:
        If a fraction or an imaginary part would be lost: a floating value for integers, a complex one for real numbers.
    Derivative: linear in both jointly; the cotangent with 0 at the key for `x`, the cotangent at the key for `value`,
    and 0 for a value that a later one overwrites. As in `where`, 0 stays 0 even if a derivative behind the overwritten
    elements is infinite or NaN.
    Source: array API 2025.12, indexing (``x[key] = value``).

    >>> x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> v = ag.tensor(9.0, requires_grad=True)
    >>> y = ag.setitem(x, slice(0, 2), v)
    >>> y.detach()
    tensor([9., 9., 3.])
    >>> ag.grad(y.sum(), (x, v))
    (tensor([0., 0., 1.]), tensor(2.))
    """


def assign(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``, rebinding `x` to the new value."""
    what = "x[key] = value"
    check_leaf(x, what)
    if isinstance(value, complex) and not x._spec.is_complex:
        raise RuntimeError(f"value cannot be converted to type {x.dtype} without overflow")
    if isinstance(value, bool | int | float | complex):
        kind = x._spec.backend.kind(x.dtype)
        if kind == "bool" and isinstance(value, int) and value in (0, 1):
            value = bool(value)
        given = next(k for k, t in zip(KINDS, (bool, int, float, complex), strict=True) if isinstance(value, t))
        if KINDS.index(given) > KINDS.index(kind):
            raise errors.not_castable(given, x.dtype)
    else:
        value = cast_value(x, value if isinstance(value, Tensor) else _as_value(value, x))
    source = Tensor.__new__(Tensor)
    source._spec, source._node, source._tangents = x._spec, x._node, x._tangents
    in_place = _assigned_in_place(x, source, key, value)
    if in_place is not None:
        rebind(x, in_place[0], what, write=in_place[1])
        return
    source._raw = x._raw
    rebind(x, setitem(source, key, value), what, fresh=True)


def _as_value(value: Any, x: Tensor) -> Tensor:
    """Return the assigned value, a raw array or a list of numbers and tensors, as a Tensor."""
    backend = backend_of(value)
    if backend is None:
        if (made := listed(value, x)) is not None:
            return made
        raise errors.not_an_operand("setitem", "value", value)
    raw = numbers_of(backend, value)
    return wrap(raw, backend.spec(raw))


def cast_value(x: Tensor, value: Tensor) -> Tensor:
    """Return a value in the dtype of the tensor it is assigned to; refuse one that would lose its kind."""
    if value.dtype == x.dtype:
        return value
    if KINDS.index(value._spec.backend.kind(value.dtype)) > KINDS.index(x._spec.backend.kind(x.dtype)):
        raise errors.not_castable(value.dtype, x.dtype)
    return astype(value, x.dtype)


def _assigned_in_place(x: Tensor, source: Tensor, key: Any, value: Any) -> tuple[Tensor, Callable[[], Any]] | None:
    """Return the assignment without a copy, if only `x` holds its array; None otherwise.

    It consists of a tensor with the history, created first, and a function that then writes the value. The graph does
    not hold it either: the rule of `setitem` saves the key and nothing else.
    """
    backend = x._spec.backend
    is_tensor = isinstance(value, Tensor)
    recording = recorder()
    if recording is not None:
        recording.meet(x)
        return None
    if x._tangents or (is_tensor and (value._tangents or value._spec.backend is not backend)):
        return None
    if (x._node is not None or (is_tensor and value._node is not None)) and active():
        return None  # a hook of the user's may raise between the change and its history
    if batch_levels.get() and resolve_backend(OPS["setitem"], (source, key, value))[0] is not backend:
        return None
    raw = value._raw if is_tensor else backend.scalar(value, x._spec)
    places = _key(key, backend, x._spec)
    buffer = owned(x)  # checked last: reading the value and the key ends the ownership, if they are `x` itself
    if buffer is None:
        return None
    operands = [source, value if is_tensor else None]
    made: Tensor = finish(
        OPS["setitem"],
        backend,
        buffer,
        operands,
        [None, places, None],
        (),
        recording=is_grad_enabled(),
        given=[None, key, None],
    )
    return made, functools.partial(backend.setitem_into, buffer, places, raw)


def _scatter_along_kernel(xp: Any, values: Any, indices: Any, spec: Any, axis: int) -> Any:
    """Add at a key with position numbers for every axis but one, and the indices for that one."""
    rank = len(spec.shape)
    axis = axis % rank
    key = []
    for i, n in enumerate(spec.shape):
        if i == axis:
            key.append(indices)
        else:  # an axis of length 1 was broadcast to the length of the indices
            shape = tuple(-1 if j == i else 1 for j in range(rank))
            key.append(xp.reshape(xp.arange(n, **beside(values)), shape))
    return xp.scatter_add(spec, tuple(key), values)


@linear(
    name="extra.scatter_along",
    index=("indices",),
    values=lambda xp, g, indices, axis: xp.take_along_axis(g, indices, axis=axis),
    kernel=_scatter_along_kernel,
    memory="fresh",
)
def scatter_along(values: Any, indices: Any, spec: Any, axis: int, /) -> Tensor:
    """The adjoint of `take_along_axis`: values added at indices along an axis of zeros of a spec."""


def _take_adjoint(xp: Any, g: Any, x_spec: Any, indices: Any, axis: int | None) -> Any:
    if axis is None and len(x_spec.shape) != 1:  # some libraries flatten then
        return xp.scatter_add(x_spec, unravel(indices % x_spec.size, x_spec.shape), g)
    lead = 0 if axis is None else axis % len(x_spec.shape)
    return xp.scatter_add(x_spec, (*(slice(None),) * lead, indices, ...), g)


def _take_batch(b: BatchedCall, x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    if axis is None and x.ndim != 1:  # some libraries flatten then
        x = b.backend.xp.reshape(x, (-1,))
    at = place(axis or 0, x.ndim)
    if not b.has(indices):
        return b.xp.take(x.data, indices, axis=at)
    picks = indices.data
    if not b.has(x):
        found = b.xp.take(x, b.xp.reshape(picks, (-1,)), axis=at - 1)
        found = b.xp.reshape(found, (*x.shape[: at - 1], *picks.shape, *x.shape[at:]))
        return b.xp.moveaxis(found, at - 1, 0)
    shape = (b.size, *x.shape[: at - 1], picks.shape[1], *x.shape[at:])
    picks = b.xp.reshape(picks, (b.size, *(1,) * (at - 1), picks.shape[1], *(1,) * (x.ndim - at)))
    return b.xp.take_along_axis(x.data, b.xp.broadcast_to(picks, shape), axis=at)


def _take_there(xp: Any, g: Any, x: Any, x_spec: Any, ans: Any, indices: Any, axis: int | None) -> Any:
    return there(xp, _take_adjoint(xp, asked(xp, g, ans), x_spec, indices, axis), x)


def _take_there_jvp(xp: Any, t_x: Any, x: Any, indices: Any, axis: int | None) -> Any:
    return xp.take(there(xp, t_x, x), indices, axis=axis)


@linear(
    index=("indices",),
    x=_take_adjoint,
    batch=_take_batch,
    least_axes=1,
    memory="fresh",
    facts=Facts(sparsity="moves", missing={"vjp": {"x": _take_there}, "jvp": _take_there_jvp}),
)
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The elements at 1-d indices along an axis.

    x: Any dtype, at least 1 axis.
    indices: Integers, 1-d; negative ones count from the end.
    axis: The axis, which a 1-d operand need not name.
    Returns: Of the dtype of `x`, along the axis as long as `indices`.
    IndexError: If an index is out of range.
    Derivative: linear; the cotangent is added into zeros at the indices, repeated ones accumulating.
    Source: array API 2025.12, indexing functions.

    >>> x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> ag.take(x, ag.tensor([2, 0, 2])).detach(), ag.grad(ag.take(x, ag.tensor([2, 0, 2])).sum(), x)[0]
    (tensor([3., 1., 3.]), tensor([1., 0., 2.]))
    """


def _take_along_axis_batch(b: BatchedCall, x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    return b.xp.take_along_axis(b.data(x), b.data(indices), axis=place(axis, x.ndim))


@linear(
    index=("indices",),
    x=lambda xp, g, x_spec, indices, axis: xp.extra.scatter_along(g, indices, x_spec, axis),
    batch=_take_along_axis_batch,
    memory="fresh",
    facts=Facts(sparsity="moves", since="2024.12"),
)
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """Take elements at indices along an axis, with separate indices for each position along the others.

    x: Any dtype, at least 1 axis.
    indices: Integers, with as many axes as `x`; the other axes broadcast.
    Returns: Of the dtype of `x` and the shape of `indices`, broadcast.
    IndexError: If an index is out of range.
    Derivative: linear; the cotangent is added into zeros at the indices, repeated ones accumulating.
    Source: array API 2025.12, indexing functions.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = ag.take_along_axis(x, ag.tensor([[0], [1]]))
    >>> y.detach()
    tensor([[1.],
            [4.]])
    >>> ag.grad(y.sum(), x)[0]
    tensor([[1., 0.],
            [0., 1.]])
    """


# -- searching --------------------------------------------------------------------------------------------------------


@linear(
    index=("condition",),
    drops=True,
    x1=lambda xp, g, condition: xp.where(condition, g, xp.zeros_like(g)),
    x2=lambda xp, g, condition: xp.where(condition, xp.zeros_like(g), g),
    batch=pointwise,
    memory="fresh",
    facts=Facts(sparsity="chooses", missing=True, broadcasts_exactly=True),
)
def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """`x1` where a condition is true, else `x2`.

    condition : Tensor or array
        Boolean.
    x1, x2 : Tensor, array or scalar
        The values to choose from. Any dtype; all three broadcast, the dtypes of these two promote.
    Returns: Of the broadcast shape and the promoted dtype.
    Derivative: linear in both jointly; the cotangent goes to the chosen element, 0 to the other. The gradient of an
    element that was not chosen is 0 even if a derivative behind it is infinite or NaN: ``where(x > 0, sqrt(x), 0.0)``
    has the gradient 0 at 0 (PyTorch gives NaN).

    >>> x = ag.tensor([0.0, 4.0], requires_grad=True)
    >>> ag.where(x > 0, ag.sqrt(x), 0.0).detach(), ag.grad(ag.where(x > 0, ag.sqrt(x), 0.0).sum(), x)[0]
    (tensor([0., 2.]), tensor([0.0000, 0.2500]))
    """


def _argument_batch(b: BatchedCall, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    data = b.data(x)
    if axis is not None:
        return b.kernel(data, axis=place(axis, x.ndim), keepdims=keepdims)
    found = b.kernel(b.flat(data), axis=1)
    return b.xp.reshape(found, (b.size, *(1,) * x.ndim)) if keepdims else found


@nondifferentiable("x", batch=_argument_batch, memory="fresh")
def argmax(
    x: Any, /, axis: int | None = None, *, keepdims: bool = False, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    """The index of the largest element along an axis, the first of several.

    x: Real-valued, any shape.
    axis: The axis. Default: all elements as one row.
    Returns: Integer, of the shape of `x` without the axis.
    No derivative: the result is integer.

    >>> ag.argmax(ag.tensor([[1.0, 3.0, 3.0], [5.0, 4.0, 4.0]]), axis=1)
    tensor([1, 0])
    """


@nondifferentiable("x", batch=_argument_batch, memory="fresh")
def argmin(
    x: Any, /, axis: int | None = None, *, keepdims: bool = False, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    """The index of the smallest element along an axis, the first of several.

    x: Real-valued, any shape.
    axis: The axis. Default: all elements as one row.
    Returns: Integer, of the shape of `x` without the axis.
    No derivative: the result is integer.

    >>> ag.argmin(ag.tensor([[1.0, 3.0, 3.0], [5.0, 4.0, 4.0]]), axis=1)
    tensor([0, 1])
    """


@nondifferentiable("x", batch=reduced, memory="fresh", facts=Facts(since="2024.12"))
def count_nonzero(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Count the nonzero elements along axes.

    x: Any dtype, any shape.
    axis : int or tuple of int, optional
        The axes to count over. Default: all.
    keepdims: Keep the counted axes, with length 1.
    Returns: Integer, of the shape of `x` without the counted axes.
    No derivative: the result is integer.

    >>> ag.count_nonzero(ag.tensor([[1.0, 0.0], [2.0, 3.0]]), axis=0)
    tensor([2, 1])
    """


@nondifferentiable("x", outputs=0, memory="fresh", facts=Facts(dynamic=True))
def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """Return the indices of the nonzero elements.

    x: Any dtype, at least 1 axis.
    Returns: One integer vector per axis of `x`; together they index the elements in row-major order.
    ValueError: If `x` has no axis.
    No derivative: the result is integer. How long it is depends on the values: a lazy backend does not know.

    >>> rows, columns = ag.nonzero(ag.tensor([[0.0, 7.0], [8.0, 0.0]]))
    >>> rows
    tensor([0, 1])
    >>> columns
    tensor([1, 0])
    """


def _searchsorted_batch(b: BatchedCall, x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    xp = b.xp
    if not b.has(x1) and not b.has(sorter):
        return b.kernel(x1, x2.data, side=side, sorter=sorter)
    ordered = b.data(x1)
    if sorter is not None:
        ordered = xp.take_along_axis(ordered, b.data(sorter), axis=1)
    # how many of the sorted come before each
    ordered = xp.reshape(ordered, (b.size, *(1,) * x2.ndim, ordered.shape[1]))
    sought = xp.expand_dims(b.data(x2), axis=-1)
    before = ordered < sought if side == "left" else ordered <= sought
    return xp.count_nonzero(before, axis=-1)


@nondifferentiable("x1", "x2", "sorter", batch=_searchsorted_batch, memory="fresh")
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where to insert values into a sorted vector to keep it sorted.

    x1 : Tensor or array
        The vector: real-valued, 1-d, in ascending order (after `sorter`, if given).
    x2 : Tensor or array
        The values, real-valued, of any shape.
    side : {"left", "right"}, optional
        Before or after elements that are equal.
    sorter : Tensor or array, optional
        Integers, 1-d: the indices that sort `x1`.
    Returns: Integer, of the shape of `x2`.
    No derivative: the result is integer.

    >>> ag.searchsorted(ag.tensor([1.0, 3.0, 5.0]), ag.tensor([3.0, 4.0]))
    tensor([1, 2])
    >>> ag.searchsorted(ag.tensor([1.0, 3.0, 5.0]), ag.tensor([3.0, 4.0]), side="right")
    tensor([2, 2])
    """


# -- sorting ----------------------------------------------------------------------------------------------------------


def _unsort(xp: Any, g: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    order = xp.argsort(x, axis=axis, descending=descending, stable=stable)
    return xp.take_along_axis(g, xp.argsort(order, axis=axis, stable=False), axis=axis)  # all of its elements differ


def _sorted_tangent(xp: Any, t_x: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    return xp.take_along_axis(t_x, xp.argsort(x, axis=axis, descending=descending, stable=stable), axis=axis)


def _unsort_there(xp: Any, g: Any, x: Any, ans: Any, axis: int, descending: bool, stable: bool) -> Any:
    return there(xp, _unsort(xp, asked(xp, g, ans), x, axis, descending, stable), x)


def _sorted_there_jvp(xp: Any, t_x: Any, x: Any, ans: Any, axis: int, descending: bool, stable: bool) -> Any:
    return there(xp, _sorted_tangent(xp, asked(xp, t_x, x), x, axis, descending, stable), ans)


@overload
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor: ...
@overload
def sort(x: Any, /, dim: int, descending: bool = False, *, stable: bool = True) -> Sorted: ...
@custom(
    vjp={"x": _unsort},
    jvp=_sorted_tangent,
    batch=along,
    least_axes=1,
    by_dim=pairs.in_order,
    memory="fresh",
    facts=Facts(sparsity="along", missing={"vjp": {"x": _unsort_there}, "jvp": _sorted_there_jvp}),
)
def sort(x: Any, /, dim: int | None = None, descending: bool = False, *, axis: int = -1, stable: bool = True) -> Any:
    """Sorted along an axis.

    x: Real-valued, at least 1 axis.
    dim : int, optional
        PyTorch's: return the pair ``values``, ``indices`` along this axis, as `Tensor.sort` does.
    Returns: Of the shape and dtype of `x`.
    Derivative: the cotangent goes back along the permutation of `argsort`, also among equal elements.
    Source: array API 2025.12, sorting functions.

    >>> x = ag.tensor([3.0, 1.0, 2.0], requires_grad=True)
    >>> ag.sort(x).detach(), ag.grad(ag.sort(x), x, ag.tensor([10.0, 20.0, 30.0]))[0]
    (tensor([1., 2., 3.]), tensor([30., 10., 20.]))
    """


@nondifferentiable("x", batch=along, least_axes=1, memory="fresh")
def argsort(
    x: Any, /, axis: int = -1, *, descending: bool = False, stable: bool = True, dim: int | None = None
) -> Tensor:
    """The indices that sort along an axis.

    x: Real-valued, at least 1 axis.
    Returns: Integer, of the shape of `x`.
    No derivative: the result is integer.
    Source: array API 2025.12, sorting functions.

    >>> ag.argsort(ag.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """


complete(
    globals(),
    {
        "axis": "int, optional\n    The axis. Default: the last.",
        "descending": "bool, optional\n    Descending order instead of ascending.",
        "indices": "Tensor or array",
        "keepdims": "bool, optional\n    Keep the axis, with length 1.",
        "key": "int, slice, None, Ellipsis, array, or a tuple of these",
        "stable": "bool, optional\n    Equal elements keep their order.",
        "x": "Tensor or array",
    },
    source="Source: array API 2025.12, searching functions.",
)
