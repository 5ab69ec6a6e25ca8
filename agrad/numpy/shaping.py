"""NumPy's shape functions: axes, repetition, padding, triangles and diagonals."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from types import FrameType
from typing import Any

from agrad.core import errors
from agrad.core.cpython import getframe
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import (
    axes_of,
    axis_of,
    flat,
    fresh,
    into,
    kind_of,
    part,
    plain_axis,
    refused,
    static,
    write_into,
)
from agrad.numpy.reductions import sum as total
from agrad.numpy.table import public
from agrad.ops import creation, elementwise, extra, linalg, manipulation, searching, statistical
from agrad.ops.data_type import astype as converted
from agrad.ops.extra.shaping import windows
from agrad.ops.linalg import matrix_transpose as transposed


def lengths(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of int."""
    found = static(shape)
    if isinstance(found, int):
        return (found,)
    if not isinstance(found, Iterable):
        raise TypeError(f"expected a sequence of integers or a single integer, got {str(found)!r}{errors.called()}")
    return tuple(map(operator.index, found))


def _order(name: str, order: Any) -> bool:
    """Return whether elements are counted with the first axis varying fastest."""
    if order not in ("C", "F", "A", "K", None):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r}){errors.called()}")
    return bool(order == "F")


@public()
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: Any = None) -> Tensor:
    """The order "A" means "C": tensors have no visible layout."""
    x = as_operand(a)
    if copy is False and order == "F" and x.ndim > 1:
        raise ValueError(f"Unable to avoid creating a copy while reshaping.{errors.called()}")
    wanted = lengths(shape)
    if not _order("reshape", order):
        return manipulation.reshape(fresh(x) if copy else x, wanted)
    turned = manipulation.permute_dims(x, tuple(range(x.ndim))[::-1])
    found = manipulation.reshape(turned, wanted[::-1])
    return manipulation.permute_dims(found, tuple(range(found.ndim))[::-1])


@public()
def ravel(a: Any, order: str = "C") -> Tensor:
    x = as_operand(a)
    return extra.ravel(reshape(x, (-1,), "F") if _order("ravel", order) else x)


@public("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> Tensor:
    x = as_operand(a)
    places = tuple(range(x.ndim))[::-1] if axes is None else tuple(axis_of(i, x.ndim) for i in lengths(axes))
    if sorted(places) != list(range(x.ndim)):
        raise ValueError(f"axes don't match array{errors.called()}")
    return manipulation.permute_dims(x, places)


@public()
def matrix_transpose(x: Any, /) -> Tensor:
    x = as_operand(x)
    if x.ndim < 2:
        raise ValueError(
            f"Input array must be at least 2-dimensional, but it is {x.ndim}{errors.called()}"
        )  # fmt: skip
    return transposed(x)


@public()
def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    x = as_operand(a)
    return extra.swapaxes(x, axis_of(axis1, x.ndim), axis_of(axis2, x.ndim))


@public()
def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return manipulation.moveaxis(as_operand(a), lengths(source), lengths(destination))


@public()
def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    x = as_operand(a)
    axis = axis_of(axis, x.ndim)
    if start < 0:
        start += x.ndim
    if not 0 <= start <= x.ndim:
        raise IndexError(f"'start' arg requires {-x.ndim} <= start < {x.ndim + 1}{errors.called()}")
    return manipulation.moveaxis(x, axis, start - 1 if axis < start else start)


@public()
def expand_dims(a: Any, axis: Any) -> Tensor:
    return manipulation.expand_dims(as_operand(a), axis=plain_axis(axis))


@public()
def squeeze(a: Any, axis: Any = None) -> Tensor:
    x = as_operand(a)
    if axis is None:
        return manipulation.reshape(x, tuple(n for n in x.shape if n != 1))
    return manipulation.squeeze(x, axes_of(axis, x.ndim))


@public()
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    return manipulation.broadcast_to(as_operand(array), lengths(shape))


@public()
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    tensors = as_operands(*args)
    shape = manipulation.broadcast_shapes(*(x.shape for x in tensors))
    return tuple(manipulation.broadcast_to(x, shape) for x in tensors)


def _raised(arys: tuple[Any, ...], function: Any) -> Any:
    found = tuple(function(as_operand(x)) for x in arys)
    if _is_solver(errors.user_frame(getframe(1))):
        found = tuple(x if x._is_followed() else x.numpy().copy() for x in found)
    return found[0] if len(found) == 1 else found


def _is_solver(frame: FrameType) -> bool:
    """Return whether a frame belongs to SciPy's solvers, which use this to get an array that they can write to."""
    return str(frame.f_globals.get("__name__")).startswith("scipy.optimize.")


@public()
def atleast_1d(*arys: Any) -> Any:
    return _raised(arys, extra.atleast_1d)


@public()
def atleast_2d(*arys: Any) -> Any:
    return _raised(arys, extra.atleast_2d)


@public()
def atleast_3d(*arys: Any) -> Any:
    return _raised(arys, extra.atleast_3d)


# -- order and repetition ----------------------------------------------------------------------------------------------


@public()
def flip(m: Any, axis: Any = None) -> Tensor:
    x = as_operand(m)
    axes = axes_of(axis, x.ndim)
    return manipulation.flip(x, axis=axes) if x.ndim else x


@public()
def fliplr(m: Any) -> Tensor:
    x = as_operand(m)
    if x.ndim < 2:
        raise ValueError(f"Input must be >= 2-d.{errors.called()}")
    return manipulation.flip(x, axis=1)


@public()
def flipud(m: Any) -> Tensor:
    x = as_operand(m)
    if x.ndim < 1:
        raise ValueError(f"Input must be >= 1-d.{errors.called()}")
    return manipulation.flip(x, axis=0)


@public()
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    return extra.rot90(as_operand(m), k=k, axes=tuple(axes))


@public()
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    x = as_operand(a)
    shift, axis = static(shift), plain_axis(axis)
    for each in axis if isinstance(axis, tuple) else () if axis is None else (axis,):
        axis_of(each, x.ndim)
    if axis is None and isinstance(shift, list):
        shift = sum(shift)
    if axis is not None and (isinstance(shift, list) or isinstance(axis, tuple)):
        shifts = shift if isinstance(shift, list) else [shift]
        places = list(axis) if isinstance(axis, tuple) else [axis]
        length = max(len(shifts), len(places))
        shift, axis = (tuple(v * length if len(v) == 1 else v) for v in (shifts, places))
        if len(set(axis)) < len(axis):  # one after another
            for one, at in zip(shift, axis, strict=True):
                x = manipulation.roll(x, one, axis=at)
            return x
    return manipulation.roll(x, shift, axis=axis) if x.ndim else x


@public()
def repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    x = as_operand(a)
    if axis is None or (not x.ndim and axis in (0, -1)):
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    counts = static(repeats)
    if isinstance(counts, list):
        counts = counts * x.shape[axis] if len(counts) == 1 else counts
        return manipulation.repeat(x, creation.asarray(counts, dtype="int64", device=x.device), axis=axis)
    return manipulation.repeat(x, counts, axis=axis)


@public()
def tile(A: Any, reps: Any) -> Tensor:
    return manipulation.tile(as_operand(A), lengths(reps))


@public()
def resize(a: Any, new_shape: Any) -> Tensor:
    x, shape = flat(as_operand(a)), lengths(new_shape)
    size = math.prod(shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"all elements of `new_shape` must be non-negative{errors.called()}")
    if not x.shape[0]:
        return creation.zeros(shape, dtype=x.dtype, device=x.device)
    times = -(-size // x.shape[0])
    return manipulation.reshape(manipulation.tile(x, (times,))[:size] if times != 1 else x[:size], shape)


@public()
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """Checks values: the shape depends on them."""
    x = as_operand(filt)
    value = x.detach()
    axes = axes_of(axis, x.ndim)
    key = []
    for i in range(x.ndim):
        n = x.shape[i]
        others = tuple(j for j in range(x.ndim) if j != i)
        there = [k for k, on in enumerate(statistical.any(value != 0, axis=others).tolist()) if on] if i in axes else []
        first, last = (there[0], there[-1] + 1) if there else ((n, n) if i in axes else (0, n))
        key.append(slice(first if "f" in trim.lower() else 0, last if "b" in trim.lower() else n))
    return x[tuple(key)]


# -- triangles and diagonals -------------------------------------------------------------------------------------------


def _matrix(m: Any) -> Tensor:
    x = as_operand(m)
    return x if x.ndim > 1 else manipulation.broadcast_to(x, (x.shape[0], x.shape[0]))


@public()
def tril(m: Any, k: int = 0) -> Tensor:
    return manipulation.tril(_matrix(m), k=k)


@public()
def triu(m: Any, k: int = 0) -> Tensor:
    return manipulation.triu(_matrix(m), k=k)


@public()
def diag(v: Any, k: int = 0) -> Tensor:
    x = as_operand(v)
    if x.ndim not in (1, 2):
        raise ValueError(f"Input must be 1- or 2-d.{errors.called()}")
    return extra.diag(x, k=k)


@public()
def diagflat(v: Any, k: int = 0) -> Tensor:
    return extra.diagflat(as_operand(v), k=k)


def _diagonals(a: Any, offset: int, axis1: int, axis2: int) -> Tensor:
    """Return the matrices of two axes, which become the last."""
    x = as_operand(a)
    if x.ndim < 2:
        raise ValueError(f"diag requires an array of at least two dimensions{errors.called()}")
    first, second = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    if first == second:
        raise ValueError(f"axis1 and axis2 cannot be the same{errors.called()}")
    return linalg.diagonal(manipulation.moveaxis(x, (first, second), (-2, -1)), offset=offset)


@public()
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return _diagonals(a, offset, axis1, axis2)


@public()
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Tensor:  # fmt: skip
    return into(out, total(_diagonals(a, offset, axis1, axis2), -1, dtype))


@public()
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Changes the tensor `a` itself; its history has both."""
    # not by `extra.fill_diagonal`, which returns a new tensor, repeats no values and knows no `wrap`
    if not isinstance(a, Tensor):
        write_into("fill_diagonal", a, val, wrap)
        return
    if a.ndim < 2:
        raise ValueError(f"array must be at least 2-d{errors.called()}")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError(f"All dimensions of input must be of equal length{errors.called()}")
    rows, columns = a.shape[0], a.shape[-1]
    values = flat(as_operand(val, a))
    if a.ndim > 2:
        places: list[Any] = [list(range(rows))] * a.ndim
    else:
        step, end = columns + 1, a.size if wrap else min(columns * columns, a.size)
        numbers = range(0, end, step)
        places = [[n // columns for n in numbers], [n % columns for n in numbers]]
    length = len(places[0])
    if values.shape[0] > 1:  # NumPy's a.flat[...] = val repeats a value that is too short
        values = manipulation.tile(values, (-(-length // values.shape[0]),))[:length]
    key = tuple(creation.asarray(p, dtype="int64", device=a.device) for p in places)
    searching.assign(a, key, values if values.shape[0] > 1 else values[0])


# -- padding -----------------------------------------------------------------------------------------------------------


def _pairs(value: Any, rank: int) -> list[tuple[Any, Any]]:
    """Return a pair per axis from any form that NumPy accepts: one value, one pair, or all of them."""
    if isinstance(value, dict):
        found = [(0, 0)] * rank
        for axis, each in value.items():
            found[axis_of(axis, rank)] = (each, each) if isinstance(each, int) else tuple(each)
        return found
    if not isinstance(value, list | tuple) and not getattr(value, "ndim", 0):
        return [(value, value)] * rank
    rows = list(value)
    if not any(isinstance(row, list | tuple) or getattr(row, "ndim", 0) for row in rows):
        return [tuple(rows) if len(rows) == 2 else (rows[0], rows[0])] * rank
    pairs = [tuple(row) if len(row) == 2 else (row[0], row[0]) for row in rows]
    return pairs * rank if len(pairs) == 1 else pairs


#: Statistics of the elements at an edge.
_EDGES = {"maximum": "max", "minimum": "min", "mean": "mean", "median": "median"}


@public()
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    """All of NumPy's modes except a function, which writes to the padding."""
    x = as_operand(array)
    if callable(mode):
        raise refused("numpy.pad with a function", "pad with mode='constant' and write to the parts: x[:2] = ...")
    known = {"constant": "constant_values", "linear_ramp": "end_values", "reflect": "reflect_type",
             "symmetric": "reflect_type", **dict.fromkeys(_EDGES, "stat_length")}  # fmt: skip
    for name in kwargs:
        if known.get(mode) != name:
            raise ValueError(f"unsupported keyword arguments for mode '{mode}': {{'{name}'}}{errors.called()}")
    widths = [
        (int(a), int(b)) for a, b in _pairs(pad_width if isinstance(pad_width, dict) else static(pad_width), x.ndim)
    ]
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError(f"index can't contain negative values{errors.called()}")
    if mode in ("edge", "reflect", "symmetric", "wrap") and kwargs.get("reflect_type", "even") == "even":
        return extra.pad(x, widths, mode)
    around = kwargs.get("constant_values", 0)
    if mode == "constant" and type(around) in (int, float) and x._spec.inexact:
        return extra.pad(x, widths, constant_values=around)
    options = _pairs(kwargs.get(known.get(mode, ""), None if mode in _EDGES else 0), x.ndim)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            first, last = _padding(x, mode, axis, before, after, options[axis])
            x = manipulation.concat([first, x, last], axis=axis)
    return x


def _padding(x: Tensor, mode: str, axis: int, before: int, after: int, pair: tuple[Any, Any]) -> tuple[Tensor, Tensor]:
    """Return the padding before an axis and after it."""
    n = x.shape[axis]
    if mode in ("constant", "empty"):
        return _filled(x, axis, before, pair[0]), _filled(x, axis, after, pair[1])
    if not n:
        raise ValueError(
            f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'{errors.called()}"
        )
    if mode in _EDGES:
        return tuple(  # type: ignore[return-value]
            _statistic(x, mode, axis, width, length, front=not i)
            for i, (width, length) in enumerate(zip((before, after), pair, strict=True))
        )
    if mode == "linear_ramp":
        return _ramp(x, axis, before, pair[0], front=True), _ramp(x, axis, after, pair[1], front=False)
    if mode not in ("reflect", "symmetric"):
        raise ValueError(f"mode '{mode}' is not supported{errors.called()}")
    return tuple(  # type: ignore[return-value]
        _odd(x, axis, [_source(mode, i, n) for i in places]) for places in (range(-before, 0), range(n, n + after))
    )


def _filled(x: Tensor, axis: int, width: int, value: Any) -> Tensor:
    shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
    return manipulation.broadcast_to(converted(as_operand(value, x), x.dtype, copy=False), shape)


def _source(mode: str, i: int, n: int) -> tuple[int, int]:
    """Return the index of the element at a position outside an axis, and how often it was reflected."""
    period = n if mode == "symmetric" else max(n - 1, 1)
    turns, rest = divmod(i, period)
    if mode == "symmetric":
        return (rest if turns % 2 == 0 else n - 1 - rest), turns
    return (rest if turns % 2 == 0 else n - 1 - rest) if n > 1 else 0, turns


def _odd(x: Tensor, axis: int, sources: list[tuple[int, int]]) -> Tensor:
    """Return elements reflected at an edge, including their values: ``2 * edge - value``, again at each reflection."""
    places = creation.asarray([place for place, _ in sources], dtype="int64", device=x.device)
    found = searching.take(x, places, axis=axis)
    first, last = x[part(axis, slice(0, 1))], x[part(axis, slice(-1, None))]
    signs, shifts = [], []
    for _, turns in sources:
        signs.append(1 if turns % 2 == 0 else -1)
        shifts.append(turns)
    gaps = [2 * math.ceil(t / 2) for t in shifts]
    shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    sign, gap = (
        manipulation.reshape(creation.asarray(v, dtype=x.dtype, device=x.device), shape) for v in (signs, gaps)
    )
    return sign * found + gap * (last - first) + (1 - sign) * first


def _statistic(x: Tensor, mode: str, axis: int, width: int, length: Any, *, front: bool) -> Tensor:
    n = x.shape[axis]
    length = n if length is None else min(int(length), n)
    if length < 1 and width:
        raise ValueError(f"stat_length of 0 yields no value for padding{errors.called()}")
    edge = x[part(axis, slice(0, length) if front else slice(n - length, None))]
    inexact = converted(edge, "float64") if mode in ("mean", "median") and not edge._spec.inexact else edge
    function = extra.median if mode == "median" else getattr(statistical, _EDGES[mode])
    value = function(inexact, axis=axis, keepdims=True)
    if value.dtype != x.dtype:
        value = converted(value if kind_of(x) == "bool" else elementwise.round(value), x.dtype)
    return manipulation.broadcast_to(value, (*x.shape[:axis], width, *x.shape[axis + 1 :]))


def _ramp(x: Tensor, axis: int, width: int, end: Any, *, front: bool) -> Tensor:
    edge = x[part(axis, slice(0, 1) if front else slice(-1, None))]
    dtype = x.dtype if x._spec.inexact else "float64"
    steps = creation.asarray([i / width for i in range(width)], dtype=dtype, device=x.device)
    steps = manipulation.reshape(steps, tuple(-1 if i == axis else 1 for i in range(x.ndim)))
    start = as_operand(end, x)
    ramp = start + (edge - start) * steps
    return converted(ramp if front else manipulation.flip(ramp, axis=axis), x.dtype, copy=False)


@public("lib.stride_tricks.sliding_window_view")
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tensor:
    """The windows are copies."""
    if writeable:
        raise refused("numpy.lib.stride_tricks.sliding_window_view with writeable=", "write to the operand itself")
    found = as_operand(x)
    sizes = lengths(window_shape)
    axes = tuple(range(found.ndim)) if axis is None else tuple(axis_of(a, found.ndim) for a in lengths(axis))
    if len(sizes) != len(axes):
        what = "all the axes" if axis is None else "window_shape and axis of one length"
        raise ValueError(f"sliding_window_view takes {what}; got window_shape={sizes} and axis={axis}{errors.called()}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"`window_shape` cannot contain negative values{errors.called()}")
    for place, size in zip(axes, sizes, strict=True):
        if found.shape[place] < size:
            raise ValueError(f"window shape cannot be larger than input array shape{errors.called()}")
        found = windows(found, size, axis=place)
    return found
