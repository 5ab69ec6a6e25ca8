"""The standard's functions on outlines: arrays that have a shape and a dtype, and no element.

Each function returns the outline of its result, as the array API standard 2025.12 specifies; nothing is computed. Where
the standard leaves the dtype open, as for the sine of integers, it follows most libraries. A length that depends on
values is nan.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

from agrad import dtypes
from agrad.core.blank import NeedsValuesError
from agrad.core.facts import WITHOUT_OP
from agrad.core.kernels import KINDS, is_mask, key_parts
from agrad.core.op import OPS
from agrad.ops.methods import BINARY, COMPARISON, UNARY

__all__ = ["CountedOutline", "NeedsValuesError", "Outline", "namespace"]

Shape = tuple[Any, ...]


class Outline:
    """An array without elements.

    Attributes
    ----------
    shape : tuple of int
        The shape; nan for a length that depends on values.
    dtype : DType
        The dtype.
    """

    __slots__ = ("__weakref__", "dtype", "shape")

    backend: Any = None  # the owner of these arrays
    device = None

    def __init__(self, shape: Iterable[Any], dtype: Any) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype: dtypes.DType = dtype_of(dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> Outline:
        """The transpose."""
        return matrix_transpose(self)

    mT = T

    def __getitem__(self, key: Any) -> Outline:
        return Outline(indexed(self.shape, key), self.dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __bool__(self) -> NoReturn:
        raise NeedsValuesError("the result depends on values, which are not available")

    __float__: Callable[..., NoReturn] = __bool__
    __int__: Callable[..., NoReturn] = __bool__
    __complex__: Callable[..., NoReturn] = __bool__
    __index__: Callable[..., NoReturn] = __bool__
    __array__: Callable[..., NoReturn] = __bool__
    __iter__: Callable[..., NoReturn] = __bool__

    def __repr__(self) -> str:
        return f"Outline({self.shape}, {self.dtype.name})"


class CountedOutline(Outline):
    """An outline that carries a count: the true elements of a mask, or the sum of repetitions.

    Attributes
    ----------
    count : int
        How many.
    """

    __slots__ = ("count",)

    def __init__(self, shape: Iterable[Any], dtype: Any, count: int) -> None:
        super().__init__(shape, dtype)
        self.count: int = count


# -- dtypes -----------------------------------------------------------------------------------------------------------


def dtype_of(dtype: Any) -> dtypes.DType:
    """Return agrad's dtype for a dtype of any library."""
    return dtype if isinstance(dtype, dtypes.DType) else dtypes.DType(dtypes.name_of(dtype))


def kind_of(dtype: Any) -> str:
    """Return bool, int, float or complex."""
    name = dtype_of(dtype).name
    stem = name.rstrip("0123456789").removeprefix("u").removeprefix("b")
    return "bool" if name == "bool" else stem if stem in KINDS else "other"


def bits_of(dtype: Any) -> int:
    """Return the bits of one number."""
    return int("".join(filter(str.isdigit, dtype_of(dtype).name)) or "8")


def result_type(*values: Any) -> dtypes.DType:
    """Return the dtype of a result of outlines, dtypes and Python numbers, which are weak."""
    strong = [
        v.dtype if isinstance(v, Outline) else v for v in values if not isinstance(v, bool | int | float | complex)
    ]
    weak = [type(v).__name__ for v in values if isinstance(v, bool | int | float | complex)]
    found = functools.reduce(_promote, map(dtype_of, strong)) if strong else dtypes.bool
    for kind in weak:
        if KINDS.index(kind) > KINDS.index(kind_of(found)):
            found = {"int": lambda _: dtypes.int64, "float": _default, "complex": _complex}[kind](found)
    return found


def _promote(first: dtypes.DType, second: dtypes.DType) -> dtypes.DType:
    """Return the dtype of the standard's table; for an integer and a float, which the table omits, NumPy's."""
    if first.name == second.name:
        return first
    low, high = sorted((first, second), key=lambda d: (KINDS.index(kind_of(d)), bits_of(d)))
    kind = kind_of(high)
    if kind_of(low) != kind:
        if kind == "float" and kind_of(low) == "int":
            return dtypes.float64 if bits_of(low) > bits_of(high) // 2 else high
        exact = {"bool": 128, "int": bits_of(high) // 4, "float": bits_of(high) // 2}[kind_of(low)]  # enough bits
        return dtypes.complex128 if kind == "complex" and bits_of(low) > exact else high
    signs = {d.name.startswith("u") for d in (low, high)}
    if kind == "int" and len(signs) == 2 and (high.name.startswith("u") or bits_of(low) == bits_of(high)):
        wide = 2 * max(bits_of(low), bits_of(high))
        return dtype_of(f"int{wide}") if wide <= 64 else dtypes.float64
    if {low.name, high.name} == {"float16", "bfloat16"}:
        return dtypes.float32
    return high


def _default(_: Any = None) -> dtypes.DType:
    return dtypes.get_default_dtype()


def _complex(dtype: Any) -> dtypes.DType:
    """Return the complex dtype of the precision of another one."""
    name = (dtype if kind_of(dtype) in ("float", "complex") else _default()).name
    return dtypes.complex128 if name in ("float64", "complex128") else dtypes.complex64


def _real(dtype: Any) -> dtypes.DType:
    """Return the real dtype of the precision of a complex one, and any other unchanged."""
    return {"complex64": dtypes.float32, "complex128": dtypes.float64}.get(dtype_of(dtype).name, dtype_of(dtype))


def floating(dtype: Any) -> dtypes.DType:
    """Return a floating-point dtype unchanged, and the default one for others."""
    return dtype_of(dtype) if kind_of(dtype) in ("float", "complex") else _default()


def _small_apart(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of dtypes that refuses those that libraries convert in different ways, to float16 or int8, say."""

    def told(dtype: Any) -> Any:
        if kind_of(dtype) == "bool" or (of is floating and kind_of(dtype) == "int" and bits_of(dtype) < 32):
            raise NeedsValuesError(
                f"libraries give results of different dtypes for {dtype_of(dtype)}: convert it first"
            )
        return of(dtype)

    return told


def _real_floating(dtype: Any) -> dtypes.DType:
    return _real(floating(dtype))


def _summed(dtype: Any) -> dtypes.DType:
    """Return the dtype of a sum: that of at least 64 bits for integers."""
    if kind_of(dtype) not in ("int", "bool"):
        return dtype_of(dtype)
    return dtypes.uint64 if dtype_of(dtype).name.startswith("u") else dtypes.int64


def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether a dtype belongs to one of the standard's kinds."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str):
        return dtype_of(dtype).name == dtype_of(kind).name
    own = kind_of(dtype)
    if own == "int" and kind in ("signed integer", "unsigned integer"):
        return dtype_of(dtype).name.startswith("u") == (kind == "unsigned integer")
    kinds = {"bool": "bool", "integral": "int", "real floating": "float", "complex floating": "complex"}
    return own == kinds.get(kind) or (kind == "numeric" and own in KINDS[1:])


def can_cast(source: Any, to: Any) -> bool:
    """Return whether a dtype can be cast without loss of kind."""
    return result_type(source, to) == dtype_of(to)


def finfo(dtype: Any) -> Any:
    """Return the properties of a floating-point dtype."""
    digits, most = {16: (10, 15), 32: (23, 127), 64: (52, 1023)}[bits_of(_real(dtype))]
    largest = (2 - 2.0**-digits) * 2.0**most
    return SimpleNamespace(
        bits=bits_of(_real(dtype)), eps=2.0**-digits, max=largest, min=-largest, smallest_normal=2.0 ** (1 - most),
        dtype=_real(dtype),
    )  # fmt: skip


def iinfo(dtype: Any) -> Any:
    """Return the properties of an integer dtype."""
    bits, signed = bits_of(dtype), not dtype_of(dtype).name.startswith("u")
    return SimpleNamespace(
        bits=bits, max=2 ** (bits - signed) - 1, min=-(2 ** (bits - 1)) if signed else 0, dtype=dtype_of(dtype)
    )


# -- shapes -----------------------------------------------------------------------------------------------------------


def unknown(n: Any) -> bool:
    """Return whether a length is unknown."""
    return bool(n != n)  # noqa: PLR0124 (nan is what differs from itself)


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape of a result of operands of these shapes.

    Raises
    ------
    ValueError
        If they do not fit together.
    """
    found: list[Any] = []
    for column in zip(*((1,) * (max(map(len, shapes)) - len(s)) + s for s in shapes), strict=True):
        lengths = {n for n in column if n != 1 and not unknown(n)}
        if len(lengths) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast")
        found.append(lengths.pop() if lengths else math.nan if any(map(unknown, column)) else 1)
    return tuple(found)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as positions from the left; all of them for None."""
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    for one in axes:
        if not -ndim <= one < ndim:
            raise IndexError(f"axis {one} is out of bounds for array of dimension {ndim}")
    return tuple(one % ndim for one in axes)


def reduced(shape: Shape, axis: Any, keepdims: bool = False) -> Shape:
    """Return a shape without some axes, or with those of length 1."""
    axes = axes_of(axis, max(len(shape), 1))  # the one value of no axes may be reduced along axis 0 or -1
    return tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)


def replaced(shape: Shape, axis: int, length: Any) -> Shape:
    """Return a shape with another length of one axis."""
    (axis,) = axes_of(axis, len(shape))
    return (*shape[:axis], length, *shape[axis + 1 :])


def indexed(shape: Shape, key: Any) -> Shape:
    """Return the shape of ``array[key]``."""
    parts = list(key_parts(key))
    taken = sum(0 if p is None or p is ... else p.ndim if is_mask(p) else 1 for p in parts)
    if ... not in [p for p in parts if not hasattr(p, "dtype")]:
        parts.append(...)
    found: list[Any] = []
    arrays: list[Shape] = []
    places: list[int] = []  # of arrays in the key, and of integers among them
    start, axis = 0, 0
    advanced = any(hasattr(p, "dtype") for p in parts)
    for at, part in enumerate(parts):
        if part is None:
            found.append(1)
        elif part is ...:
            count = len(shape) - taken
            found.extend(shape[axis : axis + count])
            axis += count
        elif isinstance(part, slice):
            n = shape[axis]
            whole = part == slice(None)
            found.append(n if whole else math.nan if unknown(n) else len(range(*part.indices(n))))
            axis += 1
        elif hasattr(part, "dtype") or advanced:
            if not places:
                start = len(found)
            places.append(at)
            mask = hasattr(part, "dtype") and is_mask(part)
            arrays.append((getattr(part, "count", math.nan),) if mask else tuple(getattr(part, "shape", ())))
            axis += part.ndim if mask else 1
        else:
            operator.index(part)
            axis += 1
    if not arrays:
        return tuple(found)
    apart = places != list(range(places[0], places[0] + len(places)))
    start = 0 if apart else start
    return (*found[:start], *broadcast(*arrays), *found[start:])


# -- element by element -----------------------------------------------------------------------------------------------


def promoted(*values: Any, dtype: Any = None) -> Outline:
    """Return the outline of a result of operands that are broadcast and promoted."""
    shapes = [v.shape for v in values if isinstance(v, Outline)]
    return Outline(broadcast(*shapes) if shapes else (), result_type(*values) if dtype is None else dtype)


def _elementwise(dtype: Callable[[Any], Any]) -> Callable[..., Outline]:
    return lambda *values: promoted(*values, dtype=dtype(result_type(*values)))


def where(condition: Any, x1: Any, x2: Any, /) -> Outline:
    """As the standard's."""
    return Outline(promoted(condition, x1, x2, dtype="bool").shape, result_type(x1, x2))


def clip(x: Any, /, min: Any = None, max: Any = None) -> Outline:
    """As the standard's."""
    bounds = [b for b in (min, max) if b is not None]
    whole = result_type(x, *bounds)
    is_cast = kind_of(x.dtype) in ("bool", "int") and kind_of(whole) == "float"
    return promoted(x, *bounds, dtype=whole if is_cast else x.dtype)


def astype(x: Any, dtype: Any, /, **_: Any) -> Outline:
    """As the standard's."""
    return Outline(x.shape, dtype)


# -- along axes -------------------------------------------------------------------------------------------------------


def _reduction(of: Callable[[Any], Any]) -> Callable[..., Outline]:
    def reduction(x: Any, /, *, axis: Any = None, keepdims: bool = False, dtype: Any = None, **_: Any) -> Outline:
        return Outline(reduced(x.shape, axis, keepdims), of(x.dtype) if dtype is None else dtype)

    return reduction


def _cumulative(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Outline:
    (axis,) = axes_of(axis, x.ndim) if axis is not None else (0,)
    return Outline(
        replaced(x.shape, axis, x.shape[axis] + include_initial), _summed(x.dtype) if dtype is None else dtype
    )


def _same(x: Any, /, *_: Any, **__: Any) -> Outline:
    return Outline(x.shape, x.dtype)


def _indices(x: Any, /, *_: Any, **__: Any) -> Outline:
    return Outline(x.shape, dtypes.int64)


def searchsorted(_x1: Any, x2: Any, /, **_: Any) -> Outline:
    """As the standard's."""
    return Outline(getattr(x2, "shape", ()), dtypes.int64)


def isin(x1: Any, _x2: Any, /, **_: Any) -> Outline:
    """As the standard's."""
    return Outline(getattr(x1, "shape", ()), dtypes.bool)


def nonzero(x: Any, /) -> tuple[Outline, ...]:
    """As the standard's."""
    return tuple(Outline((math.nan,), dtypes.int64) for _ in range(x.ndim))


def _unique(*parts: str) -> Callable[..., Any]:
    def unique(x: Any, /) -> Any:
        some = Outline((math.nan,), dtypes.int64)
        made = {"values": Outline((math.nan,), x.dtype), "inverse": Outline(x.shape, dtypes.int64)}
        found = tuple(made.get(part, some) for part in parts)
        return found if len(found) > 1 else found[0]

    return unique


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Outline:
    """As the standard's."""
    (axis,) = axes_of(axis, x.ndim)
    more = sum(part.shape[axis] for part in (prepend, append) if part is not None)
    return Outline(replaced(x.shape, axis, max(x.shape[axis] + more - n, 0)), x.dtype)


# -- moving elements --------------------------------------------------------------------------------------------------


def reshape(x: Any, /, shape: Any, **_: Any) -> Outline:
    """As the standard's."""
    wanted = list(shape) if isinstance(shape, tuple | list) else [shape]
    if -1 in wanted:
        rest = -math.prod(wanted)
        wanted[wanted.index(-1)] = math.nan if unknown(x.size) or not rest else x.size // rest
    if not unknown(x.size) and math.prod(wanted) != x.size:
        raise ValueError(f"cannot reshape an array of shape {x.shape} into {tuple(wanted)}")
    return Outline(wanted, x.dtype)


def permute_dims(x: Any, /, axes: Any) -> Outline:
    """As the standard's."""
    return Outline([x.shape[axis] for axis in axes], x.dtype)


def matrix_transpose(x: Any, /) -> Outline:
    """As the standard's."""
    return Outline((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Outline:
    """As the standard's."""
    sources, targets = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute_dims(x, order)


def expand_dims(x: Any, /, axis: Any = 0) -> Outline:
    """As the standard's."""
    count = x.ndim + (len(axis) if isinstance(axis, tuple | list) else 1)
    axes, rest = axes_of(axis, count), iter(x.shape)
    return Outline([1 if i in axes else next(rest) for i in range(count)], x.dtype)


def squeeze(x: Any, /, axis: Any) -> Outline:
    """As the standard's."""
    return Outline(reduced(x.shape, axis), x.dtype)


def broadcast_to(x: Any, /, shape: Any) -> Outline:
    """As the standard's."""
    wanted = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    broadcast(x.shape, wanted)
    return Outline(wanted, x.dtype)


def broadcast_arrays(*arrays: Any) -> tuple[Outline, ...]:
    """As the standard's."""
    shape = broadcast(*(a.shape for a in arrays))
    return tuple(Outline(shape, a.dtype) for a in arrays)


def concat(arrays: Sequence[Any], /, *, axis: Any = 0) -> Outline:
    """As the standard's."""
    dtype = result_type(*arrays)
    if axis is None:
        return Outline((sum(a.size for a in arrays),), dtype)
    (place,) = axes_of(axis, arrays[0].ndim)
    return Outline(replaced(arrays[0].shape, place, sum(a.shape[place] for a in arrays)), dtype)


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Outline:
    """As the standard's."""
    whole = expand_dims(arrays[0], axis)
    return Outline(replaced(whole.shape, axis, len(arrays)), result_type(*arrays))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Outline, ...]:
    """As the standard's."""
    (axis,) = axes_of(axis, x.ndim)
    return tuple(Outline(reduced(x.shape, axis), x.dtype) for _ in range(x.shape[axis]))


def repeat(x: Any, repeats: Any, /, *, axis: Any = None) -> Outline:
    """As the standard's."""
    shape = (x.size,) if axis is None else x.shape
    (place,) = axes_of(0 if axis is None else axis, len(shape))
    if isinstance(repeats, CountedOutline):
        length: Any = repeats.count * shape[place] if repeats.size == 1 else repeats.count
    else:
        length = shape[place] * repeats if isinstance(repeats, int) else math.nan
    return Outline(replaced(shape, place, length), x.dtype)


def tile(x: Any, repetitions: Any, /) -> Outline:
    """As the standard's."""
    repetitions = (repetitions,) if isinstance(repetitions, int) else repetitions
    count = max(x.ndim, len(repetitions))
    shape = (1,) * (count - x.ndim) + x.shape
    times = (1,) * (count - len(repetitions)) + tuple(repetitions)
    return Outline([n * k for n, k in zip(shape, times, strict=True)], x.dtype)


def take(x: Any, indices: Any, /, *, axis: Any = None) -> Outline:
    """As the standard's."""
    x = reshape(x, -1) if axis is None else x
    (place,) = axes_of(0 if axis is None else axis, x.ndim)
    return Outline((*x.shape[:place], *indices.shape, *x.shape[place + 1 :]), x.dtype)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Outline:
    """As the standard's."""
    (place,) = axes_of(axis, x.ndim)
    rest = broadcast(replaced(x.shape, place, 1), replaced(indices.shape, place, 1))
    return Outline(replaced(rest, place, indices.shape[place]), x.dtype)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Outline, ...]:
    """As the standard's."""
    lengths = [a.size for a in arrays]
    if indexing == "xy" and len(lengths) > 1:
        lengths[:2] = lengths[1::-1]
    return tuple(Outline(lengths, a.dtype) for a in arrays)


# -- made of nothing --------------------------------------------------------------------------------------------------


def _of_shape(shape: Any, /, *_: Any, dtype: Any = None, **__: Any) -> Outline:
    return Outline(shape if isinstance(shape, tuple | list) else (shape,), dtype or _default())


def full(shape: Any, fill_value: Any, *, dtype: Any = None, **_: Any) -> Outline:
    """As the standard's."""
    return _of_shape(shape, dtype=result_type(fill_value) if dtype is None else dtype)


def _like(x: Any, /, *_: Any, dtype: Any = None, **__: Any) -> Outline:
    return Outline(x.shape, x.dtype if dtype is None else dtype)


def asarray(obj: Any, /, *, dtype: Any = None, **_: Any) -> Outline:
    """As the standard's."""
    if isinstance(obj, Outline):
        return _like(obj, dtype=dtype)
    if isinstance(obj, tuple | list):
        parts = [asarray(part) for part in obj]
        shape = (len(parts), *(parts[0].shape if parts else ()))
        found = result_type(*parts) if parts else _default()
    elif hasattr(obj, "dtype"):
        shape, found = tuple(obj.shape), dtype_of(obj.dtype)
    else:
        shape, found = (), result_type(obj)
    return Outline(shape, found if dtype is None else dtype)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, **_: Any) -> Outline:
    """As the standard's."""
    if stop is None:
        start, stop = 0, start
    found = result_type(start, stop, step) if dtype is None else dtype
    return Outline((max(math.ceil((stop - start) / step), 0),), found)


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, **_: Any) -> Outline:
    """As the standard's."""
    return Outline((num,), floating(result_type(start, stop)) if dtype is None else dtype)


def eye(n_rows: int, n_cols: int | None = None, /, *, dtype: Any = None, **_: Any) -> Outline:
    """As the standard's."""
    return Outline((n_rows, n_rows if n_cols is None else n_cols), dtype or _default())


# -- products and decompositions --------------------------------------------------------------------------------------


def matmul(x1: Any, x2: Any, /) -> Outline:
    """As the standard's."""
    first = x1.shape if x1.ndim > 1 else (1, *x1.shape)
    second = x2.shape if x2.ndim > 1 else (*x2.shape, 1)
    if first[-1] != second[-2] and not unknown(first[-1]) and not unknown(second[-2]):
        raise ValueError(f"shapes {x1.shape} and {x2.shape} not aligned: {first[-1]} != {second[-2]}")
    rows = first[-2:-1] if x1.ndim > 1 else ()
    columns = second[-1:] if x2.ndim > 1 else ()
    return Outline((*broadcast(first[:-2], second[:-2]), *rows, *columns), result_type(x1, x2))


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Outline:
    """As the standard's."""
    if isinstance(axes, int):
        axes = range(x1.ndim - axes, x1.ndim), range(axes)
    first, second = (one if isinstance(one, int) else tuple(one) for one in axes)
    return Outline((*reduced(x1.shape, first), *reduced(x2.shape, second)), result_type(x1, x2))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Outline:
    """As the standard's."""
    return Outline(broadcast(reduced(x1.shape, axis), reduced(x2.shape, axis)), result_type(x1, x2))


def outer(x1: Any, x2: Any, /) -> Outline:
    """As the standard's."""
    return Outline((*x1.shape, *x2.shape), result_type(x1, x2))


def diagonal(x: Any, /, *, offset: int = 0) -> Outline:
    """As the standard's."""
    rows, columns = x.shape[-2:]
    return Outline((*x.shape[:-2], max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)), x.dtype)


def trace(x: Any, /, *, dtype: Any = None, **_: Any) -> Outline:
    """As the standard's."""
    return Outline(x.shape[:-2], _summed(x.dtype) if dtype is None else dtype)


def solve(x1: Any, x2: Any, /) -> Outline:
    """As the standard's."""
    if x2.ndim == 1:
        return Outline(x1.shape[:-1], result_type(x1, x2))
    return Outline((*broadcast(x1.shape[:-2], x2.shape[:-2]), *x2.shape[-2:]), result_type(x1, x2))


def svd(x: Any, /, *, full_matrices: bool = True) -> tuple[Outline, ...]:
    """As the standard's."""
    *lead, m, n = x.shape
    k = min(m, n)
    return (
        Outline((*lead, m, m if full_matrices else k), x.dtype),
        Outline((*lead, k), _real(x.dtype)),
        Outline((*lead, n if full_matrices else k, n), x.dtype),
    )


def qr(x: Any, /, *, mode: str = "reduced") -> tuple[Outline, ...]:
    """As the standard's."""
    *lead, m, n = x.shape
    k = m if mode == "complete" else min(m, n)
    return Outline((*lead, m, k), x.dtype), Outline((*lead, k, n), x.dtype)


def _of_matrices(dtype: Callable[[Any], Any], axes: int) -> Callable[..., Outline]:
    """Make a function of square matrices that returns a result with this many axes for each."""
    return lambda x, /, *_, **__: Outline(x.shape[: x.ndim - 2 + axes], dtype(x.dtype))


def pinv(x: Any, /, **_: Any) -> Outline:
    """As the standard's."""
    return matrix_transpose(x)


def svdvals(x: Any, /) -> Outline:
    """As the standard's."""
    return Outline((*x.shape[:-2], min(x.shape[-2:])), _real(x.dtype))


def matrix_norm(x: Any, /, *, keepdims: bool = False, **_: Any) -> Outline:
    """As the standard's."""
    return Outline((*x.shape[:-2], 1, 1) if keepdims else x.shape[:-2], _real(x.dtype))


# -- transforms -------------------------------------------------------------------------------------------------------


def _transform(kind: str) -> Callable[..., Outline]:
    def transform(x: Any, /, *, n: Any = None, axis: int = -1, **_: Any) -> Outline:
        (axis,) = axes_of(axis, x.ndim)
        return transform_along(x, [n], [axis], kind)

    return transform


def _transforms(kind: str) -> Callable[..., Outline]:
    def transforms(x: Any, /, *, s: Any = None, axes: Any = None, **_: Any) -> Outline:
        if axes is None and s is not None:
            axes = range(x.ndim - len(s), x.ndim)
        places = axes_of(None if axes is None else tuple(axes), x.ndim)
        return transform_along(x, [None] * len(places) if s is None else list(s), places, kind)

    return transforms


def transform_along(x: Any, lengths: Sequence[Any], axes: Sequence[int], kind: str) -> Outline:
    """Return the result of a transform: whole, "half" for a real operand or "real" for a real result."""
    shape = list(x.shape)
    for axis, n in zip(axes, lengths, strict=True):
        shape[axis] = shape[axis] if n is None else n
    if axes:
        last = axes[-1]
        if kind == "half":
            shape[last] = shape[last] // 2 + 1
        elif kind == "real" and lengths[-1] is None:
            shape[last] = 2 * (shape[last] - 1)
    return Outline(shape, _real(floating(x.dtype)) if kind == "real" else _complex(x.dtype))


# -- the namespace ----------------------------------------------------------------------------------------------------


def _boolean(_: Any) -> dtypes.DType:
    return dtypes.bool


def _index(_: Any) -> dtypes.DType:
    return dtypes.int64


#: The standard's functions whose results have a floating-point dtype, the dtype of their operands, or booleans.
FLOATING = """
    acos acosh asin asinh atan atan2 atanh copysign cos cosh exp expm1 hypot log log10 log1p log2 logaddexp
    nextafter reciprocal sin sinh sqrt tan tanh
"""
ALIKE = """
    add bitwise_and bitwise_invert bitwise_or bitwise_xor ceil floor maximum minimum multiply negative positive round sign
    subtract trunc
"""
#: The same, which some libraries have for booleans too, with other dtypes.
NUMERIC = "bitwise_left_shift bitwise_right_shift conj floor_divide pow remainder square"
BOOLEAN = [name for name, op in OPS.items() if op.rule.boolean and not op.rule.guarded]
#: Those that are defined in this file.
WRITTEN = """
    arange asarray astype broadcast_arrays broadcast_to can_cast clip concat diff expand_dims eye finfo full iinfo isdtype
    isin linspace matmul matrix_transpose meshgrid moveaxis nonzero permute_dims repeat reshape result_type searchsorted
    squeeze stack take take_along_axis tensordot tile unstack vecdot where
"""

#: The standard's functions by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {name: globals()[name] for name in WRITTEN.split()}
FUNCTIONS |= dict.fromkeys(FLOATING.split(), _elementwise(_small_apart(floating)))
FUNCTIONS["divide"] = _elementwise(floating)
FUNCTIONS |= dict.fromkeys(ALIKE.split(), _elementwise(dtype_of))
FUNCTIONS |= dict.fromkeys(NUMERIC.split(), _elementwise(_small_apart(dtype_of)))
FUNCTIONS |= dict.fromkeys(BOOLEAN, _elementwise(_boolean))
FUNCTIONS |= dict.fromkeys(["abs", "imag", "real"], _elementwise(_real))
FUNCTIONS |= dict.fromkeys(["sum", "prod"], _reduction(_summed))
FUNCTIONS |= dict.fromkeys(["max", "min"], _reduction(dtype_of))
FUNCTIONS |= {"mean": _reduction(floating), **dict.fromkeys(["std", "var"], _reduction(_real_floating))}
FUNCTIONS |= dict.fromkeys(["all", "any"], _reduction(_boolean))
FUNCTIONS |= dict.fromkeys(["argmax", "argmin", "count_nonzero"], _reduction(_index))
FUNCTIONS |= dict.fromkeys(["cumulative_prod", "cumulative_sum"], _cumulative)
FUNCTIONS |= dict.fromkeys(["flip", "roll", "sort", "tril", "triu"], _same)
FUNCTIONS |= dict.fromkeys(["empty", "ones", "zeros"], _of_shape)
FUNCTIONS |= dict.fromkeys((name for name, known in WITHOUT_OP.items() if known.facts.creates == "like"), _like)
FUNCTIONS |= {
    "argsort": _indices,
    "broadcast_shapes": broadcast,
    "unique_all": _unique("values", "indices", "inverse", "counts"),
    "unique_counts": _unique("values", "counts"),
    "unique_inverse": _unique("values", "inverse"),
    "unique_values": _unique("values"),
}

LINALG: dict[str, Callable[..., Any]] = {
    **{
        name: globals()[name]
        for name in ["diagonal", "matmul", "matrix_norm", "matrix_transpose", "outer", "pinv", "qr", "solve", "svd"]
    },
    **{name: globals()[name] for name in ["svdvals", "tensordot", "trace", "vecdot"]},
    "cholesky": _of_matrices(dtype_of, 2),
    "cross": lambda x1, x2, /, *, axis=-1: promoted(x1, x2),
    "det": _of_matrices(dtype_of, 0),
    "eig": lambda x, /: (Outline(x.shape[:-1], _complex(x.dtype)), Outline(x.shape, _complex(x.dtype))),
    "eigh": lambda x, /: (Outline(x.shape[:-1], _real(x.dtype)), Outline(x.shape, x.dtype)),
    "eigvals": _of_matrices(_complex, 1),
    "eigvalsh": _of_matrices(_real, 1),
    "inv": _of_matrices(dtype_of, 2),
    "matrix_power": _of_matrices(dtype_of, 2),
    "matrix_rank": _of_matrices(_index, 0),
    "slogdet": lambda x, /: (Outline(x.shape[:-2], x.dtype), Outline(x.shape[:-2], _real(x.dtype))),
    "vector_norm": _reduction(_real),
}

FFT: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(["fft", "ifft"], _transform("whole")),
    **dict.fromkeys(["rfft", "ihfft"], _transform("half")),
    **dict.fromkeys(["irfft", "hfft"], _transform("real")),
    **dict.fromkeys(["fftn", "ifftn"], _transforms("whole")),
    "rfftn": _transforms("half"),
    "irfftn": _transforms("real"),
    **dict.fromkeys(["fftshift", "ifftshift"], _same),
}


def _operators() -> None:
    """Defines Python's operators for outlines."""
    for name, function in (BINARY | COMPARISON | UNARY).items():
        setattr(Outline, f"__{name}__", _method(FUNCTIONS[function]))
    for name, function in BINARY.items():
        setattr(Outline, f"__r{name}__", _method(FUNCTIONS[function], reflected=True))


def _method(function: Callable[..., Any], *, reflected: bool = False) -> Callable[..., Any]:
    return lambda self, *other: function(*other, self) if reflected else function(self, *other)


_operators()
Outline.__hash__ = object.__hash__  # type: ignore[method-assign]


@functools.cache
def namespace() -> Any:
    """Return the functions, dtypes and constants as a namespace of the standard."""
    constants = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}
    known = {name: dtype_of(name) for name in (*dtypes.NAMES, "float16", "bfloat16")}
    chapters = {"linalg": SimpleNamespace(**LINALG), "fft": SimpleNamespace(**FFT)}
    return SimpleNamespace(**FUNCTIONS, **constants, **known, **chapters, __name__="agrad.outlines")
