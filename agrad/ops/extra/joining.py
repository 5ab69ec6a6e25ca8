"""Functions that join, split, insert and delete."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from agrad.core.errors import called
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.ops.data_type import astype
from agrad.ops.extra.common import along, checked_axis
from agrad.ops.extra.shaping import atleast_2d, atleast_3d, ravel
from agrad.ops.manipulation import broadcast_shapes, broadcast_to, concat, moveaxis, reshape
from agrad.ops.searching import getitem, take, where

__all__ = [
    "append", "array_split", "cat", "chunk", "column_stack", "delete", "dstack", "hsplit", "hstack", "insert",
    "select", "split", "vsplit", "vstack",
]  # fmt: skip

# -- joining ----------------------------------------------------------------------------------------------------------


def _members(name: str, arrays: Any) -> tuple[Tensor, ...]:
    if not isinstance(arrays, list | tuple):
        raise TypeError(f"{name}(): arrays must be a list or tuple of tensors, not {type(arrays).__name__}{called()}")
    if not arrays:
        raise ValueError(f"{name}() expects a non-empty list of tensors{called()}")
    return as_operands(*arrays)


def cat(arrays: Sequence[Any], /, axis: int | None = 0, *, dim: int | None = None) -> Tensor:
    """Join along an axis: PyTorch's name for the standard's `agrad.concat`.

    arrays: Of one shape except along that axis.
    axis : int or None, optional
        The axis; None flattens first.
    dim : int, optional
        PyTorch's name of `axis`.
    Linear.

    >>> ag.extra.cat([ag.tensor([1, 2]), ag.tensor([3])])
    tensor([1, 2, 3])
    """
    return concat(_members("cat", arrays), axis=axis if dim is None else dim)


def hstack(arrays: Sequence[Any], /) -> Tensor:
    """Joined side by side: along the second axis, or the only one.

    arrays: Of one shape except along that axis. As ``numpy.hstack``. Linear.

    >>> ag.extra.hstack([ag.tensor([1, 2]), ag.tensor([3])])
    tensor([1, 2, 3])
    """
    members = [x if x.ndim else reshape(x, (1,)) for x in _members("hstack", arrays)]
    return concat(members, axis=0 if members[0].ndim == 1 else 1)


def vstack(arrays: Sequence[Any], /) -> Tensor:
    """Joined one below the other: along the first axis; vectors are rows.

    arrays: Of one shape except along the first axis.
    Returns: At least two axes.
    As ``numpy.vstack``. Linear.

    >>> ag.extra.vstack([ag.tensor([1, 2]), ag.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return concat([atleast_2d(x) for x in _members("vstack", arrays)], axis=0)


def dstack(arrays: Sequence[Any], /) -> Tensor:
    """Join along the third axis.

    arrays: Of one shape except along the third axis; fewer axes are extended as by `atleast_3d`.
    Returns: At least three axes.
    As ``numpy.dstack``. Linear.

    >>> ag.extra.dstack([ag.tensor([1, 2]), ag.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return concat([atleast_3d(x) for x in _members("dstack", arrays)], axis=2)


def column_stack(arrays: Sequence[Any], /) -> Tensor:
    """Join as columns: vectors are columns, matrices are placed side by side.

    arrays: Vectors and matrices with the same number of rows.
    Returns: At least two axes.
    As ``numpy.column_stack``. Linear.

    >>> ag.extra.column_stack([ag.tensor([1, 2]), ag.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    members = _members("column_stack", arrays)
    return concat([reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in members], axis=1)


def append(x: Any, values: Any, /, *, axis: int | None = None) -> Tensor:
    """Values joined to the end.

    x, values: Of one shape except along the axis.
    axis : int, optional
        The axis; by default both are flattened.
    Returns: A new tensor.
    As ``numpy.append``. Linear.

    >>> ag.extra.append(ag.tensor([1, 2]), [3])
    tensor([1, 2, 3])
    """
    x, values = as_operands(x, values)
    return concat([ravel(x), ravel(values)]) if axis is None else concat([x, values], axis=axis)


# -- splitting --------------------------------------------------------------------------------------------------------


def _pieces(x: Tensor, bounds: Sequence[int | None], axis: int) -> tuple[Tensor, ...]:
    return tuple(getitem(x, along(axis, slice(a, b))) for a, b in itertools.pairwise(bounds))


def array_split(x: Any, indices_or_sections: int | Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Split along an axis into parts of possibly different lengths.

    x: At least one axis.
    indices_or_sections : int or sequence of int
        The number of parts (the first ones get one element more if the length is not a multiple), or the positions of
        the cuts.
    axis : int, optional
        The axis.
    Returns: The parts.
    ValueError: If the number of parts is not positive.
    As ``numpy.array_split``. Linear.

    >>> ag.extra.array_split(ag.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return _array_split("array_split", x, indices_or_sections, axis)


def _array_split(name: str, x: Any, indices_or_sections: Any, axis: int) -> tuple[Tensor, ...]:
    x = as_operand(x)
    axis = checked_axis(name, axis, x.ndim)
    if not isinstance(indices_or_sections, int):
        return _pieces(x, (0, *(operator.index(i) for i in indices_or_sections), None), axis)
    if indices_or_sections <= 0:
        raise ValueError(f"{name}(): number sections must be larger than 0{called()}")
    each, more = divmod(x.shape[axis], indices_or_sections)
    return _pieces(x, [i * each + min(i, more) for i in range(indices_or_sections + 1)], axis)


def split(x: Any, indices_or_sections: int | Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Split along an axis into parts of one length, or at given positions.

    x: At least one axis.
    indices_or_sections : int or sequence of int
        The number of parts, or the positions of the cuts.
    axis : int, optional
        The axis.
    Returns: The parts.
    ValueError: If the length is not a multiple of the number of parts.
    As ``numpy.split``: an integer is the number of parts, whereas PyTorch's ``split`` takes the length of a part.
    Linear.

    >>> ag.extra.split(ag.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    >>> ag.extra.split(ag.arange(4), [1])
    (tensor([0]), tensor([1, 2, 3]))
    """
    x = as_operand(x)
    return _split("split", x, indices_or_sections, checked_axis("split", axis, x.ndim))


def _split(name: str, x: Tensor, indices_or_sections: Any, axis: int) -> tuple[Tensor, ...]:
    n = x.shape[axis]
    if isinstance(indices_or_sections, int) and indices_or_sections > 0 and n % indices_or_sections:
        raise ValueError(
            f"{name}(): an axis of length {n} cannot be cut into {indices_or_sections} parts of one length; "
            f"array_split can{called()}"
        )
    return _array_split(name, x, indices_or_sections, axis)


def hsplit(x: Any, indices_or_sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """`split` along the second axis, or the only one.

    x, indices_or_sections: As for `split`.
    Returns: The parts.
    As ``numpy.hsplit``. Linear.

    >>> [part.shape for part in ag.extra.hsplit(ag.zeros((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    x = as_operand(x)
    if not x.ndim:
        raise ValueError(f"hsplit() only works on tensors of 1 or more dimensions{called()}")
    return _split("hsplit", x, indices_or_sections, 1 if x.ndim > 1 else 0)


def vsplit(x: Any, indices_or_sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """`split` along the first axis of two or more.

    x, indices_or_sections: As for `split`.
    Returns: The parts.
    As ``numpy.vsplit``. Linear.

    >>> [part.shape for part in ag.extra.vsplit(ag.zeros((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    x = as_operand(x)
    if x.ndim < 2:
        raise ValueError(f"vsplit() only works on tensors of 2 or more dimensions{called()}")
    return _split("vsplit", x, indices_or_sections, 0)


def chunk(x: Any, /, chunks: int, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """Split along an axis into at most this many parts, all of one length except the last.

    x: At least one axis.
    chunks : int
        The desired number of parts. There are fewer if parts of the length rounded up suffice.
    axis : int, optional
        The axis.
    dim : int, optional
        PyTorch's name of `axis`.
    Returns: The parts.
    RuntimeError: If `chunks` is not positive.
    As ``torch.chunk``. Linear.

    >>> ag.extra.chunk(ag.arange(5), 3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    x = as_operand(x)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}{called()}")
    axis = checked_axis("chunk", axis if dim is None else dim, x.ndim)
    n = x.shape[axis]
    length = -(-n // chunks)
    bounds = [*range(0, n, length), n] if n else [0] * (chunks + 1)
    return _pieces(x, bounds, axis)


# -- inserting and deleting -------------------------------------------------------------------------------------------


def _places(name: str, obj: Any, n: int, stop: int) -> list[int]:
    """Return indices, a slice, or an array of them as integers from 0 to `stop` - 1."""
    if isinstance(obj, slice):
        return list(range(*obj.indices(n)))
    if hasattr(obj, "shape"):
        obj = as_operand(obj).tolist()
    if isinstance(obj, list | tuple | range) and any(isinstance(i, bool) for i in obj):
        if len(obj) != n:
            raise ValueError(f"{name}(): a mask of {len(obj)} elements does not fit an axis of length {n}{called()}")
        return [i for i, chosen in enumerate(obj) if chosen]
    found = [operator.index(i) for i in obj] if isinstance(obj, list | tuple | range) else [operator.index(obj)]
    for i in found:
        if not -n <= i < stop:
            raise IndexError(f"{name}(): index {i} is out of bounds for an axis of length {n}{called()}")
    return [i + n if i < 0 else i for i in found]


def delete(x: Any, obj: Any, /, *, axis: int | None = None) -> Tensor:
    """Remove the elements at some positions along an axis.

    x: Any shape.
    obj : int, slice, sequence of int, mask or Tensor
        The positions; their values are read, because the shape of the result depends on them.
    axis : int, optional
        The axis; by default `x` is flattened.
    Returns: A new tensor.
    IndexError: If a position is out of bounds. As ``numpy.delete``. Linear; deleted elements get the gradient 0.

    >>> ag.extra.delete(ag.tensor([1, 2, 3, 4]), [0, -1])
    tensor([2, 3])
    """
    x = as_operand(x)
    if axis is None:
        x, axis = ravel(x), 0
    axis = checked_axis("delete", axis, x.ndim)
    n = x.shape[axis]
    gone = set(_places("delete", obj, n, n))
    kept = [i for i in range(n) if i not in gone]
    return take(x, asarray(kept, dtype="int64", device=x.device), axis=axis)


def insert(x: Any, obj: Any, values: Any, /, *, axis: int | None = None) -> Tensor:
    """Insert values before some positions along an axis.

    x: Any shape.
    obj : int, slice, sequence of int or Tensor
        The positions, counted in the original `x`.
    values: The values to insert, one slice per position: they broadcast to `x` with as many elements along the axis as
        there are positions. At a single position there may be several slices; values with fewer axes than `x` lack
        the axis.
    axis : int, optional
        The axis; by default `x` is flattened.
    Returns: A new tensor, of the dtype of `x`.
    IndexError: If a position is out of bounds.
    As ``numpy.insert``. Linear in `x` and `values`.

    >>> ag.extra.insert(ag.tensor([1, 2, 3]), 1, 9)
    tensor([1, 9, 2, 3])
    """
    x, values = as_operands(x, values)
    if axis is None:
        x, axis = ravel(x), 0
    axis = checked_axis("insert", axis, x.ndim)
    n = x.shape[axis]
    places = _places("insert", obj, n, n + 1)
    values = astype(values, x.dtype, copy=False)
    if values.ndim < x.ndim:
        values = reshape(values, (1,) * (x.ndim - values.ndim) + values.shape)
    if len(places) == 1:
        values = moveaxis(values, 0, axis) if isinstance(obj, int) else values  # as NumPy has it for a number
        places *= values.shape[axis]
    shape = broadcast_shapes(values.shape, (*x.shape[:axis], len(places), *x.shape[axis + 1 :]))
    both = concat([x, broadcast_to(values, shape)], axis=axis)
    order = sorted([*((i, 1, i) for i in range(n)), *((place, 0, n + j) for j, place in enumerate(places))])
    return take(both, asarray([source for _, _, source in order], dtype="int64", device=x.device), axis=axis)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """Choose elements by the first of several conditions that is true.

    condlist : sequence of boolean Tensor
        The conditions.
    choicelist : sequence of Tensor
        As many choices.
    default : Tensor or scalar, optional
        The value where no condition is true.
    Returns: Of the common broadcast shape.
    ValueError: If the two lists are empty or differ in length.
    As ``numpy.select``. Linear in the choices: each gets the gradient where it was chosen, 0 elsewhere.

    >>> x = ag.arange(5)
    >>> ag.extra.select([x < 2, x > 2], [x, x * x], 9)
    tensor([ 0,  1,  9,  9, 16])
    """
    if not condlist or len(condlist) != len(choicelist):
        raise ValueError(
            f"select(): list of cases must be the same length as list of conditions, and not empty{called()}"
        )
    found = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = where(condition, choice, found)
    made: Tensor = found
    return made
