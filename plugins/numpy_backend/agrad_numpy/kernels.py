"""Kernels of the NumPy backend: NumPy's own functions, without the layers around them that small arrays pay for.

For functions not defined here, array-api-compat's function of the same name is the kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import array_api_compat.numpy as compat
import numpy as np

_add_reduce = np.add.reduce

#: Matrix products with fewer elements use ``dot``: its call is 0.5 µs faster, but it fills its result with zeros first.
DOT_BELOW = 2**14


#: NumPy adds float16 in float16 along most axes: sums of ones end at 2048. Here they are added in float32.
HALF = np.dtype(np.float16)


def _sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    if x.dtype is HALF and dtype is None:
        return _add_reduce(x, axis, np.float32, None, keepdims).astype(HALF)
    return _add_reduce(x, axis, dtype, None, keepdims)


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction that computes float16 in float32 and rounds once."""

    @functools.wraps(function)
    def reduce(x: Any, /, **options: Any) -> Any:
        if x.dtype != HALF or options.get("dtype") is not None:
            return function(x, **options)
        return function(x.astype(np.float32), **options).astype(HALF)

    return reduce


def _mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    if x.dtype.kind not in "fc" or x.dtype.itemsize == 2:
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = _add_reduce(x, axis, None, None, keepdims)
    count = x.size // total.size if total.size else _count(x.shape, axis)
    return np.true_divide(total, count, dtype=x.dtype)


def _count(shape: tuple[int, ...], axis: Any) -> int:
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    count = 1
    for i in axes:
        count *= shape[i]
    return count


def _reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    if copy is None:
        return x.reshape(shape)
    return np.reshape(x, shape, copy=copy)


def _broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    if type(x) is np.ndarray and x.ndim == 0 and shape and x.dtype.kind != "O":
        # a view with strides 0: the result of np.broadcast_to, without its 2 microseconds of Python
        return np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape)) if 0 not in shape else np.empty(shape, x.dtype)
    return np.broadcast_to(x, shape)


def _broadcast_like(x: Any, spec: Any) -> Any:
    return x if x.shape == spec.shape else _broadcast_to(x, spec.shape)


def _matmul(x1: Any, x2: Any, /) -> Any:
    if x1.ndim == 2 and x2.ndim == 2 and x1.shape[0] * x2.shape[1] < DOT_BELOW:
        return x1.dot(x2)
    return np.matmul(x1, x2)


def _clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    plain = all(bound is None or getattr(bound, "dtype", None) is x.dtype for bound in (min, max))
    if not plain or (min is None and max is None):
        if x.dtype.kind not in "fc" and any(getattr(bound, "dtype", x.dtype).kind == "f" for bound in (min, max)):
            return np.clip(x, min, max)  # promotes; the other rounds the bounds to integers
        return compat.clip(x, min, max)
    return np.clip(x, min, max)


def _matrix_transpose(x: Any, /) -> Any:
    return x.mT


def _permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    return x.transpose(axes)


def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)


def _getitem(x: Any, key: Any, /) -> Any:
    return x[key]


def _ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.ones_like(x, dtype)


def _zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.zeros_like(x, dtype)


#: The standard's reductions that NumPy computes in half precision throughout, without those defined above.
IN_SINGLE = ("cumulative_prod", "cumulative_sum", "prod", "std", "var")


def _stack(arrays: Any, /, *, axis: int = 0) -> Any:
    if axis == 0 and arrays and all([type(x) is np.ndarray and not x.ndim for x in arrays]):  # noqa: C419 (half the time)
        return np.array(arrays)
    return np.stack(arrays, axis)


def _unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    if axis:
        x = np.moveaxis(x, axis, 0)
    return tuple([x[i, ...] for i in range(x.shape[0])])


#: By the op's name.
KERNELS: dict[str, Callable[..., Any]] = {
    "add_into": np.add,
    "astype": _astype,
    "broadcast_like": _broadcast_like,
    "broadcast_to": _broadcast_to,
    "clip": _clip,
    "expand_dims": np.expand_dims,
    "eye": np.eye,
    "getitem": _getitem,
    "matmul": _matmul,
    "matrix_transpose": _matrix_transpose,
    "mean": _mean,
    "ones_like": _ones_like,
    "permute_dims": _permute_dims,
    "reshape": _reshape,
    "stack": _stack,
    "sum": _sum,
    "unstack": _unstack,
    "zeros_like": _zeros_like,
    **{name: in_single(getattr(compat, name)) for name in IN_SINGLE},
}
