"""NumPy's functions that join, split, insert and delete."""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import aligned, axis_of, check_cast, common, flat, into, native, promoted, static
from agrad.numpy.table import public
from agrad.ops import extra, manipulation
from agrad.ops.data_type import astype


def members(name: str, arrays: Any, dtype: Any = None, casting: str = "same_kind") -> list[Tensor]:
    """Return arrays in one dtype: a sequence, or the parts of one array along its first axis."""
    parts = list(manipulation.unstack(arrays)) if isinstance(arrays, Tensor) else list(arrays)
    if not parts:
        raise ValueError(f"need at least one array to {name}{errors.called()}")
    if dtype is None and casting == "same_kind":
        return list(common(*parts))
    tensors = as_operands(*parts)
    dtype = native(dtype) or promoted(*tensors)
    for x in tensors:
        check_cast("array data", x, dtype, casting)
    return [astype(x, dtype, copy=False) for x in tensors]


@public("concatenate", "concat")
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    parts = members("concatenate", arrays, dtype, casting)
    if axis is None:
        return into(out, manipulation.concat([flat(x) for x in parts]), casting)
    if any(not x.ndim for x in parts):
        raise ValueError(f"zero-dimensional arrays cannot be concatenated{errors.called()}")
    return into(out, manipulation.concat(parts, axis=axis_of(axis, parts[0].ndim)), casting)


@public()
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    parts = members("stack", arrays, dtype, casting)
    if len({x.shape for x in parts}) > 1:
        raise ValueError(f"all input arrays must have the same shape{errors.called()}")
    return into(out, manipulation.stack(parts, axis=axis_of(axis, parts[0].ndim + 1)), casting)


@public()
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return extra.hstack(members("hstack", tup, dtype, casting))


@public("vstack", "row_stack")
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return extra.vstack(members("vstack", tup, dtype, casting))


@public()
def dstack(tup: Any) -> Tensor:
    return extra.dstack(members("dstack", tup))


@public()
def column_stack(tup: Any) -> Tensor:
    return extra.column_stack(members("column_stack", tup))


@public()
def block(arrays: Any) -> Tensor:
    """Nested lists must have one depth; the innermost are joined along the last axis."""

    def depths(each: Any) -> set[int]:
        if not isinstance(each, list):
            return {0}
        if not each:
            raise ValueError(f"List cannot be empty{errors.called()}")
        return {1 + d for one in each for d in depths(one)}

    found = depths(arrays)
    if len(found) > 1:
        raise ValueError(f"List depths are mismatched{errors.called()}")
    (depth,) = found
    leaves: list[Any] = []

    def collect(each: Any) -> None:
        if isinstance(each, list):
            for one in each:
                collect(one)
        else:
            leaves.append(each)

    collect(arrays)
    tensors = iter(common(*leaves))
    rank = max([depth, *(getattr(x, "ndim", 0) for x in as_operands(*leaves))])

    def join(each: Any, level: int) -> Tensor:
        if not isinstance(each, list):
            x = next(tensors)
            return manipulation.reshape(x, (1,) * (rank - x.ndim) + x.shape)
        parts = [join(one, level + 1) for one in each]
        return manipulation.concat(parts, axis=rank - depth + level)

    return join(arrays, 0)


@public()
def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    x, values = common(arr, values)
    return extra.append(x, values, axis=axis)


# -- splitting ---------------------------------------------------------------------------------------------------------


def _split(name: str, ary: Any, sections: Any, *axis: int) -> list[Tensor]:
    x, places = as_operand(ary), static(sections)
    keywords = {"axis": axis_of(axis[0], x.ndim)} if axis else {}
    return list(getattr(extra, name)(x, places, **keywords))


@public()
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return _split("array_split", ary, indices_or_sections, axis)


@public()
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return _split("split", ary, indices_or_sections, axis)


@public()
def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return _split("hsplit", ary, indices_or_sections)


@public()
def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return _split("vsplit", ary, indices_or_sections)


@public()
def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    x = as_operand(ary)
    if x.ndim < 3:
        raise ValueError(f"dsplit only works on arrays of 3 or more dimensions{errors.called()}")
    return _split("split", x, indices_or_sections, 2)


@public()
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    x = as_operand(x)
    if not x.ndim:
        raise ValueError(f"Input array must be at least 1-d.{errors.called()}")
    return manipulation.unstack(x, axis=axis_of(axis, x.ndim))


# -- inserting and deleting --------------------------------------------------------------------------------------------


@public()
def delete(arr: Any, obj: Any, axis: Any = None) -> Tensor:
    return extra.delete(as_operand(arr), obj if isinstance(obj, slice) else static(obj), axis=axis)


@public()
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Tensor:
    x, values = as_operands(arr, values)
    return extra.insert(x, obj if isinstance(obj, slice) else static(obj), values, axis=axis)


@public()
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    choices = aligned(*choicelist, default)
    first = next(c for c in choices if isinstance(c, Tensor))
    choices = tuple(c if isinstance(c, Tensor) else astype(as_operand(c, first), first.dtype) for c in choices)
    return extra.select([as_operand(c) for c in condlist], list(choices[:-1]), choices[-1])
