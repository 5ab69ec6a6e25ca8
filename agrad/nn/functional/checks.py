"""Argument checks of the functions, and their parsing of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agrad import dtypes
from agrad.core import errors
from agrad.core.buffers import check_leaf, rebind
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor, check_number
from agrad.ops import manipulation

IntOrPair = int | Sequence[int]


def shape_of(name: str, argument: str, value: Any) -> tuple[int, ...]:
    """Return the shape of an operand, a tensor or an array."""
    try:
        return tuple(value.shape)
    except AttributeError:
        raise errors.not_an_operand(name, argument, value) from None


def sizes_of(name: str, value: IntOrPair, what: str, count: int) -> tuple[int, ...]:
    """Return the integers of an argument, one for each axis: a single integer applies to all."""
    if isinstance(value, int):
        return (value,) * count
    sizes = tuple(int(n) for n in value) * (count if len(value) == 1 else 1)
    if len(sizes) != count:
        wanted = ("one integer", "one integer or two", "one integer or three")[count - 1]
        raise ValueError(f"{name}(): {what} must be {wanted}, not {value!r}{errors.called()}")
    return sizes


def pair_of(name: str, value: IntOrPair, what: str) -> tuple[int, int]:
    """Return the two integers of an argument of an image function."""
    down, across = sizes_of(name, value, what, 2)
    return down, across


def single_of(name: str, value: IntOrPair, what: str) -> int:
    """Return the single integer of an argument of a sequence function."""
    return sizes_of(name, value, what, 1)[0]


def checked_reduction(name: str, reduction: str) -> str:
    """Return the name of a known reduction."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(
            f"{reduction} is not a valid value for reduction\n  {name}() takes mean, sum or none.{errors.called()}"
        )
    return reduction


def checked_ignored(name: str, ignore_index: int) -> int:
    """Return the class index that does not count, and refuse the flag of PyTorch's older signature in its place."""
    if isinstance(ignore_index, bool):
        raise TypeError(
            f"{name}(): ignore_index must be the index of a class, not {ignore_index}\n  If PyTorch's size_average is meant,"
            f" write reduction='{'mean' if ignore_index else 'sum'}'.{errors.called()}"
        )
    return ignore_index


def differs(n: float, m: float) -> bool:
    """Return whether two sizes are known to differ (nan: a lazy backend does not know)."""
    return n != m and n == n and m == m  # noqa: PLR0124


def check_dtypes(name: str, words: str, input: Any, weight: Any) -> None:
    """Refuse operands of different precision: one would be converted silently, and everything after it."""
    input, weight = as_operand(input), as_operand(weight)
    if input.dtype is weight.dtype:  # their names take longer to find, and dtypes of two libraries do not compare
        return
    ours, theirs = dtypes.name_of(input.dtype), dtypes.name_of(weight.dtype)
    if ours != theirs and {ours, theirs} not in ({"float32", "complex64"}, {"float64", "complex128"}):
        other = f", or the module, net.to(ag.{ours})" if input._spec.inexact else ""
        raise RuntimeError(
            f"{words.format(ours, theirs)}\n  {name}(): convert the input, x.to(ag.{theirs}){other}.{errors.called()}"
        )


def check_real(name: str, input: Tensor) -> None:
    """Refuse tensors that are not real floating point."""
    if not input.is_floating_point():
        raise TypeError(f"{name}() takes real floating tensors, not {input.dtype}{errors.called()}")


def check_probability(name: str, argument: str, p: float) -> None:
    """Refuse values other than numbers from 0 to 1."""
    check_number(name, argument, p)
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}{errors.called()}")


def along(weight: Any, axis: int, rank: int) -> Tensor:
    """Return one number per entry of an axis, in a shape that broadcasts along the others."""
    return manipulation.reshape(as_operand(weight), tuple(-1 if i == axis else 1 for i in range(rank)))


def put_in_place(input: Any, result: Tensor, what: str) -> Tensor:
    """Assign a result to a tensor, as its in-place methods do."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{what}: with inplace=True it takes a tensor, not {type(input).__name__}{errors.called()}")
    check_leaf(input, what)
    rebind(input, result, what)
    return input
