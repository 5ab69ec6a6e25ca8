"""What a program keeps for its backward program: one block of memory, in which each value has its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agrad.plugin.backend import KeptValues

#: Stands for the block among the numbers of values.
BLOCK = -1

#: Larger values, in bytes, are arrays of their own, which are freed alone.
LARGEST_IN_BLOCK = 2**15

#: The alignment of values, in bytes.
ALIGNED = 16


class BlockLayout:
    """Where the values are that a program keeps: in its block, or in one of the arrays that follow it.

    Attributes
    ----------
    rows : list of (int, int, Placement)
        For each value, which of the arrays holds it, from which byte on, and how it lies there.
    size : int
        Bytes of the block, the first array.
    """

    def __init__(self, places: Sequence[Any]) -> None:
        self.rows: list[tuple[int, int, Any]] = []
        self.size = count = 0
        for place in places:
            if 0 < place.span <= LARGEST_IN_BLOCK and place.size:
                self.rows.append((0, self.size, place))
                self.size += -(-place.span // ALIGNED) * ALIGNED
            else:
                count += 1
                self.rows.append((count, 0, place))

    def values(self, arrays: Sequence[Any], positions: Iterable[int]) -> list[Any]:
        """Return the values at some positions as arrays."""
        return values_of([self.rows[at] for at in positions], arrays)

    def holders(self, positions: Iterable[int]) -> set[int]:
        """Return which of the arrays hold the values at some positions."""
        return {self.rows[at][0] for at in positions}

    def kept(self, values: Sequence[Any]) -> KeptValues:
        """Return copies of values as a program keeps them."""
        arrays = [np.empty(self.size, np.uint8)]
        arrays += [np.ndarray(place.shape, place.dtype, strides=place.strides) for at, _, place in self.rows if at]
        for target, value in zip(values_of(self.rows, arrays), values, strict=True):
            np.copyto(target, value)
        return KeptValues(tuple(arrays), self)


class Taken:
    """The values that a backward program takes of what a forward program kept: its first inputs.

    Attributes
    ----------
    layout : BlockLayout
        Of what was kept.
    positions : tuple of int
        Which values.
    starts : dict of int to int
        By the number of an input in the block, from which byte on it lies.
    arrays : list of int
        Which of the arrays hold the values: the block, unless it holds none, then those of the other inputs in order.
    """

    def __init__(self, layout: BlockLayout, positions: Sequence[int], inputs: Sequence[int]) -> None:
        self.layout, self.positions = layout, positions
        rows = [layout.rows[at] for at in positions]
        self.starts = {number: start for number, (at, start, _) in zip(inputs, rows, strict=False) if at == 0}
        self.arrays = [*([0] if self.starts else []), *(at for at, *_ in rows if at)]

    def values(self, kept: KeptValues, *, apart: bool = False) -> list[Any]:
        """Return the values as arrays; `apart`: each on memory of its own."""
        return values_of([self.layout.rows[at] for at in self.positions], kept.arrays, apart=apart)


def values_of(rows: Sequence[tuple[int, int, Any]], arrays: Sequence[Any], *, apart: bool = False) -> list[Any]:
    """Return arrays for the rows of a layout; `apart`: what is in the block is copied, each to memory of its own."""
    found = []
    for at, start, place in rows:
        if at:
            found.append(arrays[at])
            continue
        memory, first = (arrays[0][start : start + place.span].copy(), 0) if apart else (arrays[0], start)
        found.append(np.ndarray(place.shape, place.dtype, memory, first, place.strides))
    return found


def starts_in(layout: BlockLayout, numbers: Sequence[int]) -> Mapping[int, int]:
    """Return by number from which byte on the values lie that are in the block."""
    return {number: start for number, (at, start, _) in zip(numbers, layout.rows, strict=True) if at == 0}
