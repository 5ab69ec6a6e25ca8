"""Runs of elementwise steps on large arrays, in tiles: a few rows at a time, so that intermediate results stay in the cache.

A tile is a range along the first axis, after merging the leading axes. The operands of the run are cut to the tile
(full arrays, columns) or taken whole (rows, single elements); values that only the run needs are never larger than a
tile. Each element is computed from the same operands by the same loops, so it has the same bits. Sums over the axis
that is cut are added tile by tile, unless eager code's order is requested.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from agrad.plugin.programs import STOP, Ref, Step, is_elementwise

if TYPE_CHECKING:
    from agrad_numpy.executor import NumpyText

#: An array's shape, strides and dtype.
Layout = tuple[tuple[int, ...], tuple[int, ...], Any]

#: Bytes of a tile of one array. About five of them are in use at a time, and stay in a second-level cache of a
#: megabyte.
TILE = 2**16

#: Smaller arrays, in bytes, are not cut.
CUT_FROM = 2**17

#: For two steps, smaller arrays are not cut: a tile costs some 3 us, as much as 64 KB between the steps.
CUT_TWO_FROM = 2**22

#: Smaller arrays, in bytes, are not distributed over threads.
SPREAD_FROM = 2**20

#: Larger results, in elements, are not computed ahead of a run.
AHEAD = 2**12


#: A run continues past this many consecutive steps that do not belong to it.
PATIENCE = 64


class TiledRun:
    """Steps between two positions of a program that are run tile by tile.

    Attributes
    ----------
    stop : int
        The position after its last step.
    members : list of int
        Positions of the steps that are run in tiles.
    ahead : list of int
        Positions of the steps between them that are run before.
    sums : list of int
        Those of them that sum over the axis of the tiles, and possibly over the others.
    partial : set of int
        Those of the sums that are only over the leading axes.
    values : set of int
        The results of the other members.
    wide : set of int
        Roots of the values that members take whole.
    shape : tuple of int
        Of all values.
    axis : int
        The number of leading axes that are merged and cut.
    """

    def __init__(self, text: NumpyText, start: int, stop: int) -> None:
        self.text = text
        self.members: list[int] = []
        self.ahead: list[int] = []
        self.sums: list[int] = []
        self.partial: set[int] = set()
        self.values: set[int] = set()
        self.wide: set[int] = set()
        self.start = self.stop = start
        self.shape: tuple[int, ...] = ()
        self.axis = 0
        self._made: set[int] = set()  # roots of members' results
        self._layouts: set[Layout] = set()  # of broadcast values
        self._fixed: int | None = None  # the number of axes of partial sums
        ahead: list[int] = []
        for at in range(start, stop):
            step = text.program.steps[at]
            if self._admit(at, step):
                self.ahead += ahead
                ahead = []
                self.stop = at + 1
            elif self.members and len(ahead) < PATIENCE and self._may_go_ahead(step):
                ahead.append(at)
            else:
                break
        self.inside = {text.program.steps[at].made[0] for at in self.members}

    def is_worth_it(self) -> bool:
        """Return whether tiles save anything: values between two steps that stay in the cache."""
        if len(self.members) != 2 or self.sums:
            return len(self.members) > 1
        made = self.text.program.steps[self.members[0]].made[0]
        return math.prod(self.shape) * self.text.places[made].layout[2].itemsize >= CUT_TWO_FROM  # type: ignore[no-any-return]

    # -- which steps --------------------------------------------------------------------------------------------------

    def _admit(self, at: int, step: Step) -> bool:
        """Take a step into the run, if it can be."""
        text = self.text
        if step.several or len(step.made) != 1 or step.made[0] in text.kept:
            return False
        place = text.places.get(step.made[0])
        if place is None or place.root != step.made[0] or any(r not in text.places for r in step.refs):
            return False
        if step.op in ("sum", "mean"):
            return self._admit_sum(at, step)
        shape = place.layout[0]
        if not is_elementwise(step) or not is_contiguous(place.layout) or (self.members and shape != self.shape):
            return False
        size = math.prod(shape) * place.layout[2].itemsize
        if place.layout[2].kind not in "biufc" or (not self.members and size < CUT_FROM):
            return False
        if any(text.places[r].root in self._made and r not in self.values for r in step.refs):
            return False  # a view of a member's result, or a sum
        layouts = [text.places[r].layout for r in step.refs]
        axis = cut(shape, {*self._layouts, *layouts}, self._fixed)
        if axis is None:
            return False
        self.shape, self.axis = shape, axis
        self._layouts.update(x for x in layouts if x[0] != shape)
        self.wide.update(text.places[r].root for r in step.refs if text.places[r].layout[0] != shape)
        self.members.append(at)
        self._made.add(step.made[0])
        self.values.add(step.made[0])
        return True

    def _admit_sum(self, at: int, step: Step) -> bool:
        text = self.text
        if not self.members or text.exact or len(step.args) != 1 or type(step.args[0]) is not Ref:
            return False
        number = step.args[0].number
        layout = text.places[number].layout
        if number not in self.values or layout[2].itemsize < 4 or layout[2].kind not in "fc":
            return False
        if not step.kwargs.keys() <= {"axis", "keepdims", "dtype"} or step.kwargs.get("dtype") is not None:
            return False
        axes = step.kwargs.get("axis")
        ndim = len(self.shape)
        axes = tuple(range(ndim)) if axes is None else axes if isinstance(axes, tuple) else (axes,)
        axes = tuple(sorted(a % ndim for a in axes))
        if axes != tuple(range(ndim)):
            count = len(axes)
            if axes != tuple(range(count)) or self._fixed not in (None, count):
                return False
            if cut(self.shape, self._layouts, count) is None:
                return False
            self._fixed = self.axis = count
            self.partial.add(at)
        self.sums.append(at)
        self._made.add(step.made[0])
        self.members.append(at)
        return True

    def _may_go_ahead(self, step: Step) -> bool:
        """Return whether a step can run before the members: it needs none of them, and keeps little."""
        places = self.text.places
        if step.op != STOP and all(n in self.text.kept for n in step.made):
            return True
        if any(r not in places or places[r].root in self._made for r in step.refs) or not step.refs:
            return False
        return all(n in places and (places[n].root != n or math.prod(places[n].layout[0]) <= AHEAD) for n in step.made)

    # -- text ---------------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """Return the lines that run it; its tiles are a separate function, which is added to the text."""
        text, tiles = self.text, _Tiles(self)
        block = self.shape[self.axis :]
        rows, width = math.prod(self.shape[: self.axis]), math.prod(block)
        itemsize = max(text.places[n].layout[2].itemsize for n in self.values)
        length = max(1, TILE // max(1, width * itemsize))
        name = f"tiles_{self.start}"
        text.tiled.append(tiles.written(name, length))
        text.names.update(add_reduce=np.add.reduce, copyto=np.copyto, spread=spread, empty=np.empty)
        threads = text.threads if rows * width * itemsize >= SPREAD_FROM else 1
        rooms = text.scratch(name, tiles.buffers.sizes, tiles.buffers.names, (length, *block), threads)
        given = "".join(f", {value}" for value in tiles.arguments.values())
        yield from tiles.before
        yield f"{'sums = ' if self.sums else ''}spread({name}, {rows}, {length}, {rooms}{given})"
        for i, at in enumerate(self.sums):
            yield self._total(i, text.program.steps[at])

    def _total(self, i: int, step: Step) -> str:
        """Return the line that adds the sums of tiles."""
        text = self.text
        number = step.made[0]
        layout = text.places[number].layout
        total = f"add_reduce(sums[{i}], 0)"
        if step.op == "mean":
            count = math.prod(self.shape) // max(1, math.prod(layout[0]))
            total = f"{text.called('divide', np.divide)}({total}, {text.constant(np.asarray(count, layout[2]))})"
        return f"v{number} = {total}{f'.reshape({layout[0]})' if layout[0] else ''}"


class _Buffers:
    """Memory for values that only a tile needs: each buffer is reused after the last use of its value.

    Attributes
    ----------
    sizes : list of int
        The element size in bytes of each.
    names : dict
        The names in the text, by buffer and dtype.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.names: dict[tuple[int, Any], str] = {}
        self._free: dict[int, list[int]] = {}  # by size
        self._holding: dict[int, int] = {}  # by value, its buffer

    def take(self, number: int, dtype: Any, dying: Sequence[int]) -> str:
        """Give a value a buffer: that of a value that the same step takes last, or a free or a new one; return its name."""
        size = dtype.itemsize
        over = next((n for n in dying if n in self._holding and self.sizes[self._holding[n]] == size), None)
        if over is not None:
            buffer = self._holding.pop(over)
        elif self._free.get(size):
            buffer = self._free[size].pop()
        else:
            buffer = len(self.sizes)
            self.sizes.append(size)
        self._holding[number] = buffer
        return self.names.setdefault((buffer, dtype), f"s{len(self.names)}")

    def give_back(self, numbers: Sequence[int]) -> None:
        """Free the buffers of values that are not needed any more."""
        for number in numbers:
            if number in self._holding:
                buffer = self._holding.pop(number)
                self._free.setdefault(self.sizes[buffer], []).append(buffer)


class _Tiles:
    """The function that computes the tiles of a run, written step by step.

    Attributes
    ----------
    arguments : dict of str to str
        The function's arguments: its own name for each, and the name outside.
    before : list of str
        The lines that create, before the run, arrays which the function fills.
    buffers : _Buffers
        The buffers of values of a tile that nobody needs after it.
    """

    def __init__(self, run: TiledRun) -> None:
        self.run, self.text = run, run.text
        self.arguments: dict[str, str] = {}
        self.before: list[str] = []
        self.buffers = _Buffers()
        self._names: dict[int, str] = {}  # by number, the function's name for a value, or its tile
        self._cuts: list[str] = []  # the lines that cut arguments to a tile
        self._lines: list[str] = []  # those of the steps
        self._donors: dict[int, list[int]] = {}  # by element size in bytes, the roots of arrays that may be overwritten
        steps = self.text.program.steps
        taken = {number: at for at in run.members for number in steps[at].refs}
        self._last = taken  # the last member that takes a value
        ahead = {number for at in run.ahead for number in steps[at].refs}
        self._kept = {n for n in run.values if self.text.last.get(n, -1) >= run.stop or n in ahead}
        for number in taken:
            if number not in run.inside:
                self._names[number] = self._given(number)
        for at in run.members:
            step = steps[at]
            dying = [n for n in dict.fromkeys(step.refs) if taken[n] == at]
            if at in run.sums:
                self._sum(at, step)
            else:
                self._compute(at, step, dying)
            self.buffers.give_back(dying)

    def written(self, name: str, length: int) -> str:
        """Return the text of the function, whose tiles have this many rows."""
        buffers = self.buffers.names.values()
        body = [
            f"def {name}(start, stop, scratch{''.join(f', {a}' for a in self.arguments)}):",
            f"    sums = {[[] for _ in self.run.sums]!r}",
            *([f"    {', '.join(buffers)}, = scratch"] if buffers else []),
            f"    for at in range(start, stop, {length}):",
            f"        to = at + {length}",
            "        if to > stop:",
            "            to = stop",
            *(f"            {buffer} = {buffer}[:stop - at]" for buffer in buffers),
            *(f"        {line}" for line in (*self._cuts, *self._lines)),
            "    return sums",
            "",
        ]
        return "\n".join(body)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _sum(self, at: int, step: Step) -> None:
        """Write a sum, over all of a tile or over its rows."""
        axis = 0 if at in self.run.partial else None
        sums, of = self.run.sums.index(at), self._names[step.args[0].number]
        self._lines.append(f"sums[{sums}].append(add_reduce({of}, {axis}))")

    def _compute(self, at: int, step: Step, dying: Sequence[int]) -> None:
        """Write an elementwise step, and decide where to put its result; it is the last to take the values that are dying."""
        text, number = self.text, step.made[0]
        place = text.places[number]
        dtype, form = place.layout[2], text.form(step, place)
        for n in dying:
            if self._may_be_written_over(n, at):
                taken = text.places[n]
                self._donors.setdefault(taken.layout[2].itemsize, []).append(taken.root)
        kept = number in self._kept
        if kept:
            self._names[number] = self._cut(number, self._result(number, self._donors.get(dtype.itemsize, [])))
        elif form is not None:
            self._names[number] = self.buffers.take(number, dtype, dying)
        else:
            self._names[number] = f"t{number}"
        self._lines += text.in_a_tile(step, self._names, copied=kept)

    def _may_be_written_over(self, number: int, at: int) -> bool:
        """Return whether a result may overwrite an operand tile by tile: the whole of an array that dies."""
        text, run = self.text, self.run
        place = text.places[number]
        dies = text.ends(place.root) == at and text.is_whole(number)
        return dies and place.layout[0] == run.shape and place.root not in run.wide

    def _result(self, number: int, donors: list[int]) -> str:
        """Give a value that is needed after the run an array; return its name."""
        text = self.text
        layout = text.places[number].layout
        if text.is_seen(number):
            self.before.append(f"v{number} = empty({layout[0]}, {text.constant(layout[2], ('dtype', layout[2].str))})")
            return f"v{number}"
        while donors:
            if text.move(donors.pop(), number):
                return text.name(number)
        return text.take(number)

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _given(self, number: int) -> str:
        """Return the function's name for a value that it receives."""
        text, run = self.text, self.run
        shape = text.places[number].layout[0]
        name = text.name(number)
        if math.prod(shape) == 1:
            whole = name if not shape else text.reshaped(number, ())
        elif padded(shape, run.shape)[: run.axis] == run.shape[: run.axis]:
            return self._cut(number, name)
        else:
            block = len(run.shape) - run.axis
            whole = name if len(shape) <= block else text.reshaped(number, shape[len(shape) - block :])
        if number in text.kept and whole == name:
            return name
        self.arguments[f"w{number}"] = whole
        return f"w{number}"

    def _cut(self, number: int, name: str) -> str:
        """Return the function's name for a tile of an array that has all rows."""
        run = self.run
        shape = self.text.places[number].layout[0]
        full = (math.prod(run.shape[: run.axis]), *shape[run.axis :])
        self.arguments[f"f{number}"] = name if full == shape else self.text.reshaped(number, full)
        self._cuts.append(f"a{number} = f{number}[at:to]")
        return f"a{number}"


def padded(shape: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with axes of length 1 in front."""
    return (1,) * (len(to) - len(shape)) + tuple(shape)


def cut(shape: tuple[int, ...], layouts: Collection[Layout], fixed: int | None = None) -> int | None:
    """Return how many leading axes can be merged and cut, given the values broadcast to a shape; None if none can."""
    for axis in range(len(shape) if fixed is None else fixed, 0, -1):
        if math.prod(shape[axis:]) * 4 > TILE:
            return None
        if all(_is_cut(shape, layout, axis) for layout in layouts):
            return axis
        if fixed is not None:
            return None
    return None


def _is_cut(shape: tuple[int, ...], layout: Layout, axis: int) -> bool:
    other = layout[0]
    if math.prod(other) == 1:
        return True
    if len(other) > len(shape):
        return False
    whole = padded(other, shape)
    if whole[:axis] == shape[:axis]:  # full, or a column
        return is_contiguous(layout)
    return all(n == 1 for n in whole[:axis])  # a row


def is_contiguous(layout: Layout) -> bool:
    """Return whether an array's elements are in C order."""
    shape, strides, dtype = layout
    expected = dtype.itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n > 1 and stride != expected:
            return False
        expected *= n
    return True


# -- threads ----------------------------------------------------------------------------------------------------------


def spread(tiles: Callable[..., Any], rows: int, length: int, rooms: Sequence[Any], *arguments: Any) -> list[Any]:
    """Run tiles, on as many threads as there are sets of buffers; return the sums, in the order of tiles."""
    if len(rooms) == 1:
        return tiles(0, rows, rooms[0], *arguments)  # type: ignore[no-any-return]
    share = -(-rows // (length * len(rooms))) * length
    starts = range(share, rows, share)
    others = [
        pool(len(rooms)).submit(contextvars.copy_context().run, tiles, i, min(i + share, rows), room, *arguments)
        for i, room in zip(starts, rooms[1:], strict=False)
    ]
    try:
        parts = [tiles(0, min(share, rows), rooms[0], *arguments)]
    finally:  # writers to the caller's arrays finish before the caller continues, even after an error
        found = [other.result() for other in others]
    return [list(itertools.chain(*each)) for each in zip(*parts, *found, strict=True)]


@functools.cache
def pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads that run tiles, without the caller's."""
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="agrad")
