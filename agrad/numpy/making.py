"""NumPy's functions that create arrays: from shapes, data, ranges and grids. They return tensors on the current backend.

``order=`` and ``subok=`` have no meaning for tensors; ``like=`` selects the backend of an array.
"""

from __future__ import annotations

import math
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import (
    aligned,
    at_least_1d,
    cast,
    common,
    flat,
    floating,
    floatings,
    fresh,
    home,
    native,
    refused,
)
from agrad.numpy.shaping import lengths
from agrad.numpy.table import CREATION, public
from agrad.ops import creation, elementwise, extra, manipulation
from agrad.ops.data_type import astype as converted
from agrad.ops.data_type import finfo


def _device(device: Any, like: Any = None) -> Any:
    """Return agrad's device for NumPy's ``device=`` ("cpu") and ``like=``."""
    return (None if like is None else home(like)) if device in (None, "cpu") else device


# -- from shapes -------------------------------------------------------------------------------------------------------


@public(status=CREATION)
def zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Tensor:
    return creation.zeros(lengths(shape), dtype=native(dtype), device=_device(device, like))


@public(status=CREATION)
def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Tensor:
    return creation.ones(lengths(shape), dtype=native(dtype), device=_device(device, like))


@public(status=CREATION)
def empty(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Tensor:
    return creation.empty(lengths(shape), dtype=native(dtype), device=_device(device, like))


@public()
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Tensor:
    value, where = fill_value, _device(device, like)
    if isinstance(value, bool | int | float | complex):
        return creation.full(lengths(shape), value, dtype=native(dtype), device=where)
    value = creation.asarray(value, dtype=native(dtype), device=where)
    return fresh(manipulation.broadcast_to(value, lengths(shape)))


def _like(x: Any, shape: Any, dtype: Any, device: Any) -> tuple[Tensor, Any, Any, Any]:
    x = as_operand(x)
    return x, x.shape if shape is None else lengths(shape), native(dtype), _device(device)


@public(status=CREATION)
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    x, shape, dtype, device = _like(a, shape, dtype, device)
    if shape == x.shape:
        return creation.zeros_like(x, dtype=dtype, device=device)
    return creation.zeros(shape, dtype=dtype or x.dtype, device=device or x.device)


@public(status=CREATION)
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    x, shape, dtype, device = _like(a, shape, dtype, device)
    if shape == x.shape:
        return creation.ones_like(x, dtype=dtype, device=device)
    return creation.ones(shape, dtype=dtype or x.dtype, device=device or x.device)


@public(status=CREATION)
def empty_like(
    prototype: Any, /, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    x, shape, dtype, device = _like(prototype, shape, dtype, device)
    return creation.empty(shape, dtype=dtype or x.dtype, device=device or x.device)


@public()
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Tensor:  # fmt: skip
    x, shape, dtype, device = _like(a, shape, dtype, device)
    value = converted(as_operand(fill_value, x), dtype or x.dtype, device=device or x.device)
    return fresh(manipulation.broadcast_to(value, shape))


@public(status=CREATION)
def eye(
    N: int, M: Any = None, k: int = 0, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
) -> Tensor:
    return creation.eye(N, M, k=k, dtype=_default(dtype), device=_device(device, like))


def _default(dtype: Any) -> Any:
    """Return a dtype; Python's float means the default one."""
    return None if dtype is float else native(dtype)


@public(status=CREATION)
def identity(n: int, dtype: Any = None, *, like: Any = None) -> Tensor:
    return creation.eye(n, dtype=native(dtype), device=_device(None, like))


@public(status=CREATION)
def tri(N: int, M: Any = None, k: int = 0, dtype: Any = float, *, like: Any = None) -> Tensor:
    ones = creation.ones((N, N if M is None else M), dtype=_default(dtype), device=_device(None, like))
    return manipulation.tril(ones, k=k)


# -- from data ---------------------------------------------------------------------------------------------------------


@public()
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: str = "K", subok: bool = False, ndmin: int = 0,
    ndmax: int = 0, like: Any = None,
) -> Tensor:  # fmt: skip
    """Tensors, in nested lists too, stay in the graph."""
    made = _made(object, dtype, _device(None, like), copy)
    if 0 < ndmax < made.ndim:
        raise refused("numpy.array with ndmax=", "tensors hold numbers, not lists")
    return manipulation.reshape(made, (1,) * (ndmin - made.ndim) + made.shape) if ndmin > made.ndim else made


def _made(data: Any, dtype: Any, device: Any, copy: Any) -> Tensor:
    if isinstance(data, Tensor):
        made = data if dtype is None else converted(data, native(dtype), copy=False)
        made = made if device is None else made.to_device(device)
        if made is data and copy:
            return fresh(made)
        if made is not data and copy is False:
            raise ValueError(f"Unable to avoid copy while creating an array as requested.{errors.called()}")
        return made
    if isinstance(data, range | map | zip | filter) or (hasattr(data, "__next__") and hasattr(data, "__iter__")):
        data = list(data)
    return creation.asarray(data, dtype=native(dtype), device=device, copy=copy or None)


@public("asarray", "asanyarray")
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Tensor:
    """Tensors, in nested lists too, stay in the graph."""
    return _made(a, dtype, _device(device, like), copy)


@public("ascontiguousarray", "asfortranarray")
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """Returns at least one axis; tensors have no visible layout."""
    return at_least_1d(_made(a, dtype, _device(None, like), None))


@public()
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Tensor:
    """Checks the values."""
    from agrad.ops.statistical import all as all_of  # noqa: PLC0415 (`all` is Python's here)

    made = _made(a, dtype, None, None)
    if made._spec.inexact and not bool(all_of(elementwise.isfinite(made))):
        raise ValueError(f"array must not contain infs or NaNs{errors.called()}")
    return made


@public()
def copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    return _made(a, None, None, True)


@public()
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    return converted(as_operand(x), native(dtype), copy=copy, device=_device(device))


@public(status=CREATION)
def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Tensor:
    return creation.from_dlpack(x, device=_device(device), copy=copy)


@public(status=CREATION)
def fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    """The function is called once, with one tensor of indices per axis."""
    grids = indices(shape, dtype)
    grids = grids if like is None else grids.to_device(home(like))
    return function(*(grids[i] for i in range(len(shape))), **kwargs)


@public(status=CREATION)
def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Tensor:
    values = list(iter)
    if count > len(values):
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(values)} items.")
    return _made(values if count < 0 else values[:count], dtype, _device(None, like), None)


# -- ranges and grids --------------------------------------------------------------------------------------------------


@public(status=CREATION)
def arange(
    start_or_stop: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, like: Any = None
) -> Tensor:
    where = _device(device, like)
    return creation.arange(start_or_stop, stop, 1 if step is None else step, dtype=native(dtype), device=where)


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, int | float | complex) for v in values)


def _ends(start: Any, stop: Any) -> tuple[Tensor, ...]:
    """Return both ends in one floating dtype; only the kind of Python numbers counts."""
    ends = aligned(start, stop)
    dtype = next(floating(x).dtype for x in ends if isinstance(x, Tensor))
    return tuple(converted(x, dtype, copy=False) for x in as_operands(*ends))


@public()
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """Differentiable in both ends."""
    if _numbers(start, stop) and not retstep:
        found = creation.linspace(start, stop, num, endpoint=endpoint, device=_device(device))
        return _whole(found, dtype)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.{errors.called()}")
    first, last = _ends(start, stop)
    if _device(device) is not None:
        first, last = first.to_device(_device(device)), last.to_device(_device(device))
    gap = last - first
    intervals = num - 1 if endpoint else num
    shape = manipulation.broadcast_shapes(first.shape, last.shape)
    if intervals > 0:
        places = creation.arange(num, dtype=finfo(first.dtype).dtype, device=first.device)
        found = first + manipulation.reshape(places, (num, *(1,) * len(shape))) * (gap / intervals)
        if endpoint:  # exactly
            end = manipulation.broadcast_to(last, (1, *shape))
            found = manipulation.concat([found[: num - 1, ...], converted(end, found.dtype)])
    else:
        found = manipulation.broadcast_to(first, (num, *shape))
    if axis:
        found = manipulation.moveaxis(found, 0, axis)
    found = _whole(found, dtype)
    return (found, gap / intervals if intervals > 0 else gap * math.nan) if retstep else found


def _whole(x: Tensor, dtype: Any) -> Tensor:
    """Return a tensor in a dtype; integers are rounded down, as in NumPy."""
    if dtype is None:
        return x
    name = native(dtype)
    return converted(elementwise.floor(x) if name.startswith(("int", "uint")) else x, name)


@public()
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Tensor:
    """Differentiable in both ends and the base."""
    start, stop = _ends(start, stop)
    base = base if isinstance(base, int | float) else floating(base)
    if isinstance(base, Tensor) and base.ndim:
        shape = manipulation.broadcast_shapes(start.shape, stop.shape, base.shape)
        start, stop, base = (manipulation.broadcast_to(v, shape) for v in (start, stop, base))
        base = manipulation.expand_dims(base, axis=axis)
    return cast(elementwise.pow(base, linspace(start, stop, num, endpoint, axis=axis)), native(dtype))


@public()
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    """Differentiable in both ends, which must have the same sign or be complex."""
    first, last = common(*floatings(start, stop))
    sign = first / elementwise.abs(first)
    powers = linspace(elementwise.log10(first / sign), elementwise.log10(last / sign), num, endpoint)
    found = sign * elementwise.pow(10.0, powers)
    if num:
        head = manipulation.expand_dims(manipulation.broadcast_to(first, found.shape[1:]), axis=0)
        tail = manipulation.expand_dims(manipulation.broadcast_to(last, found.shape[1:]), axis=0)
        parts = [converted(head, found.dtype), found[1:, ...]]
        if endpoint and num > 1:
            parts = [parts[0], found[1 : num - 1, ...], converted(tail, found.dtype)]
        found = manipulation.concat(parts)
    return cast(manipulation.moveaxis(found, 0, axis) if axis else found, native(dtype))


@public()
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    vectors = [flat(x) if x.ndim != 1 else x for x in as_operands(*xi)] if xi else []
    if not sparse:
        return tuple(creation.meshgrid(*vectors, indexing=indexing))
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for `indexing` are 'xy' and 'ij'.{errors.called()}")
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = [1, 0]
    rank = range(len(vectors))
    return tuple(
        manipulation.reshape(v, tuple(-1 if i == p else 1 for i in rank)) for v, p in zip(vectors, places, strict=True)
    )


@public(status=CREATION)
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    shape = lengths(dimensions)
    rank = len(shape)
    grids = [
        manipulation.reshape(creation.arange(n, dtype=native(dtype)), tuple(-1 if i == j else 1 for j in range(rank)))
        for i, n in enumerate(shape)
    ]
    if sparse:
        return tuple(grids)
    return manipulation.stack([manipulation.broadcast_to(g, shape) for g in grids]) if grids else creation.empty((0,))


@public(status=CREATION)
def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    return (creation.arange(n),) * ndim


@public(status=CREATION)
def diag_indices_from(arr: Any) -> tuple[Tensor, ...]:
    x = as_operand(arr)
    if x.ndim < 2 or len(set(x.shape)) > 1:
        raise ValueError(f"All dimensions of input must be of equal length{errors.called()}")
    return (creation.arange(x.shape[0], device=x.device),) * x.ndim


@public(status=CREATION)
def tril_indices(n: int, k: int = 0, m: Any = None) -> tuple[Tensor, ...]:
    return extra.tril_indices(n, k=k, m=m)


@public(status=CREATION)
def triu_indices(n: int, k: int = 0, m: Any = None) -> tuple[Tensor, ...]:
    return extra.triu_indices(n, k=k, m=m)


@public(status=CREATION)
def tril_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, ...]:
    x = _matrix(arr)
    return extra.tril_indices(x.shape[0], k=k, m=x.shape[1], device=x.device)


@public(status=CREATION)
def triu_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, ...]:
    x = _matrix(arr)
    return extra.triu_indices(x.shape[0], k=k, m=x.shape[1], device=x.device)


def _matrix(arr: Any) -> Tensor:
    x = as_operand(arr)
    if x.ndim != 2:
        raise ValueError(f"input array must be 2-d{errors.called()}")
    return x


# -- windows -----------------------------------------------------------------------------------------------------------


def _window(length: Any, *waves: float) -> Tensor:
    """Return a sum of cosines, one period over the window."""
    length = int(length)
    if length < 1:
        return creation.zeros((0,))
    if length == 1:
        return creation.ones((1,))
    places = creation.arange(1.0 - length, length, 2.0) * (math.pi / (length - 1))
    total = places * 0 + waves[0]
    for i, wave in enumerate(waves[1:], 1):
        total = total + wave * elementwise.cos(places * i)
    return total


@public(status=CREATION)
def hanning(M: Any) -> Tensor:
    return _window(M, 0.5, 0.5)


@public(status=CREATION)
def hamming(M: Any) -> Tensor:
    return _window(M, 0.54, 0.46)


@public(status=CREATION)
def blackman(M: Any) -> Tensor:
    return _window(M, 0.42, 0.5, 0.08)


@public(status=CREATION)
def bartlett(M: Any) -> Tensor:
    length = int(M)
    if length < 2:
        return creation.ones((max(length, 0),))
    return 1 - elementwise.abs(creation.arange(1.0 - length, length, 2.0)) / (length - 1)


@public()
def kaiser(M: Any, beta: Any) -> Tensor:
    """Differentiable in `beta`."""
    from agrad.ops.special import i0 as bessel  # noqa: PLC0415

    length, b = int(M), floatings(beta)[0]
    if length < 2:
        return creation.ones((max(length, 0),))
    half = (length - 1) / 2.0
    inside = creation.asarray([1 - ((i - half) / half) ** 2 for i in range(length)], dtype=b.dtype, device=b.device)
    return bessel(b * elementwise.sqrt(inside)) / bessel(b)
