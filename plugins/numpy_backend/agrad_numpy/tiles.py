"""Runs of elementwise steps on large arrays, in tiles: a few rows at a time, so that what is between stays in the cache.

A tile is a range along the first axis, after the leading axes were made one. What the run takes is cut to the tile (full
arrays, columns) or taken whole (rows, single elements); what only the run needs is never larger than a tile. The same
element comes of the same operands by the same loops, so it has the same bits. Sums over what a tile is cut along are added
up tile by tile, unless eager code's order is asked for.
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

from agrad.program.passes import is_elementwise
from agrad.program.program import STOP, Ref, Step

if TYPE_CHECKING:
    from agrad_numpy.executor import Text

#: An array's shape, strides and dtype.
Layout = tuple[tuple[int, ...], tuple[int, ...], Any]

#: Bytes of a tile of one array. Some five of them are in use at a time, and stay in a second-level cache of a megabyte.
TILE = 2**16

#: Arrays of fewer bytes are not cut.
CUT_FROM = 2**17

#: For two steps arrays of fewer bytes are not cut: a tile costs some 3 us, as much as 64 KB between the steps.
CUT_TWO_FROM = 2**22

#: Arrays of fewer bytes are not spread over threads.
SPREAD_FROM = 2**20

#: Results of more elements are not computed ahead of a run.
AHEAD = 2**12


#: A run goes on past so many steps that are no part of it, one after another.
PATIENCE = 64


class Run:
    """Steps between two places of a program that are run tile by tile.

    Attributes
    ----------
    stop : int
        The place after its last step.
    members : list of int
        Places of the steps that are run in tiles.
    ahead : list of int
        Places of the steps between them that are run before.
    axis : int
        How many leading axes are made one and cut.
    """

    def __init__(self, text: Text, start: int, stop: int) -> None:
        self.text = text
        self.members: list[int] = []
        self.ahead: list[int] = []
        self.sums: list[int] = []
        self.start = self.stop = start
        self._made: set[int] = set()  # roots of what members make
        self._values: set[int] = set()  # what members make, but for sums
        self._layouts: set[Layout] = set()  # of what is broadcast
        self._partial: set[int] = set()  # places of sums over the leading axes alone
        self._fixed: int | None = None  # how many axes these are
        self._wide: set[int] = set()  # roots of what members take whole
        self.shape: tuple[int, ...] = ()
        self.axis = 0
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
        """Return whether tiles save anything: what is between two steps stays in the cache."""
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
        if any(text.places[r].root in self._made and r not in self._values for r in step.refs):
            return False  # a view of what a member makes, or a sum
        layouts = [text.places[r].layout for r in step.refs]
        axis = cut(shape, {*self._layouts, *layouts}, self._fixed)
        if axis is None:
            return False
        self.shape, self.axis = shape, axis
        self._layouts.update(x for x in layouts if x[0] != shape)
        self._wide.update(text.places[r].root for r in step.refs if text.places[r].layout[0] != shape)
        self.members.append(at)
        self._made.add(step.made[0])
        self._values.add(step.made[0])
        return True

    def _admit_sum(self, at: int, step: Step) -> bool:
        text = self.text
        if not self.members or text.exact or len(step.args) != 1 or type(step.args[0]) is not Ref:
            return False
        number = step.args[0].number
        layout = text.places[number].layout
        if number not in self._values or layout[2].itemsize < 4 or layout[2].kind not in "fc":
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
            self._partial.add(at)
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
        """Return the lines that run it; its tiles are a function of their own, which is added to the text."""
        text, steps = self.text, self.text.program.steps
        uses: dict[int, int] = {}  # by number, the last member that takes it
        outside = {r for at in self.ahead for r in steps[at].refs}
        for at in self.members:
            uses.update(dict.fromkeys(steps[at].refs, at))
        made = [steps[at].made[0] for at in self.members if at not in self.sums]
        kept = [n for n in made if text.last.get(n, -1) >= self.stop or n in outside]
        block = self.shape[self.axis :]
        rows = math.prod(self.shape[: self.axis])
        width = math.prod(block)
        itemsize = max(text.places[n].layout[2].itemsize for n in made)
        length = max(1, TILE // max(1, width * itemsize))
        names: dict[int, str] = {}  # in the function, of a tile
        cuts: list[str] = []  # in the function, what is cut to a tile
        arguments: dict[str, str] = {}  # of the function: its name for it, and what it is given
        for at in self.members:
            for number in steps[at].refs:
                if number not in names and number not in self.inside:
                    names[number] = self._given(number, cuts, arguments)
        donors: dict[int, list[int]] = {}
        scratch: list[int] = []  # bytes of each
        free: dict[int, list[int]] = {}
        holds: dict[int, int] = {}
        lines: list[str] = []
        before: list[str] = []
        views: dict[tuple[int, Any], str] = {}
        for at in self.members:
            step = steps[at]
            number = step.made[0]
            dying = [n for n in dict.fromkeys(step.refs) if uses[n] == at]
            if at in self.sums:
                whole = at not in self._partial
                lines.append(
                    f"sums[{self.sums.index(at)}].append(add_reduce({names[step.args[0].number]}, {None if whole else 0}))"
                )
            else:
                layout = text.places[number].layout
                form = text.form(step, text.places[number])
                size = layout[2].itemsize
                for n in dying:  # whose buffers may be written over
                    root = text.places[n].root
                    if (
                        text.ends(root) == at
                        and root not in self._wide
                        and text.is_whole(n)
                        and text.places[n].layout[0] == self.shape
                    ):
                        donors.setdefault(text.places[n].layout[2].itemsize, []).append(root)
                if number in kept:
                    target = self._result(number, donors.get(size, []), before)
                    names[number] = self._cut(number, target, cuts, arguments)
                elif form is not None:
                    over = next((n for n in dying if n in holds and scratch[holds[n]] == size), None)
                    if over is not None:
                        holds[number] = holds.pop(over)
                    elif free.get(size):
                        holds[number] = free[size].pop()
                    else:
                        scratch.append(size)
                        holds[number] = len(scratch) - 1
                    names[number] = views.setdefault((holds[number], layout[2]), f"s{len(views)}")
                else:
                    names[number] = f"t{number}"
                lines += text.in_a_tile(step, names, copied=number in kept)
            for n in dying:
                if n in holds:
                    slot = holds.pop(n)
                    free.setdefault(scratch[slot], []).append(slot)
        text.names.update(add_reduce=np.add.reduce, copyto=np.copyto, spread=spread, empty=np.empty)
        name = f"tiles_{self.start}"
        shorter = [f"{s} = {s}[:stop - at]" for s in views.values()]
        taking = [f"{', '.join(views.values())}, = scratch"] if views else []
        body = [
            f"def {name}(start, stop, scratch{''.join(f', {a}' for a in arguments)}):",
            f"    sums = {[[] for _ in self.sums]!r}",
            *(f"    {line}" for line in taking),
            f"    for at in range(start, stop, {length}):",
            f"        to = at + {length}",
            "        if to > stop:",
            "            to = stop",
            *(f"            {line}" for line in shorter),
            *(f"        {line}" for line in (*cuts, *lines)),
            "    return sums",
            "",
        ]
        text.tiled.append("\n".join(body))
        threads = text.threads if rows * width * itemsize >= SPREAD_FROM else 1
        rooms = text.scratch(name, scratch, views, (length, *block), threads)
        yield from before
        given = "".join(f", {value}" for value in arguments.values())
        yield f"{'sums = ' if self.sums else ''}spread({name}, {rows}, {length}, {rooms}{given})"
        for i, at in enumerate(self.sums):
            yield self._total(i, steps[at])

    def _total(self, i: int, step: Step) -> str:
        """Return the line that adds the sums of tiles up."""
        text = self.text
        number = step.made[0]
        layout = text.places[number].layout
        total = f"add_reduce(sums[{i}], 0)"
        if step.op == "mean":
            count = math.prod(self.shape) // max(1, math.prod(layout[0]))
            total = f"{text.called('divide', np.divide)}({total}, {text.constant(np.asarray(count, layout[2]))})"
        return f"v{number} = {total}{f'.reshape({layout[0]})' if layout[0] else ''}"

    def _result(self, number: int, donors: list[int], before: list[str]) -> str:
        """Give what is needed after the run an array; return its name."""
        text = self.text
        layout = text.places[number].layout
        if text.is_seen(number):
            before.append(f"v{number} = empty({layout[0]}, {text.constant(layout[2], ('dtype', layout[2].str))})")
            return f"v{number}"
        while donors:
            if text.move(donors.pop(), number):
                return text.name(number)
        return text.take(number)

    def _given(self, number: int, cuts: list[str], arguments: dict[str, str]) -> str:
        """Return what the function calls a value that it is given."""
        text = self.text
        shape = text.places[number].layout[0]
        name = text.name(number)
        if math.prod(shape) == 1:
            whole = name if not shape else text.reshaped(number, ())
        elif padded(shape, self.shape)[: self.axis] == self.shape[: self.axis]:
            return self._cut(number, name, cuts, arguments)
        else:
            block = len(self.shape) - self.axis
            whole = name if len(shape) <= block else text.reshaped(number, shape[len(shape) - block :])
        if number in text.kept and whole == name:
            return name
        arguments[f"w{number}"] = whole
        return f"w{number}"

    def _cut(self, number: int, name: str, cuts: list[str], arguments: dict[str, str]) -> str:
        """Return what the function calls a tile of an array that has all rows."""
        shape = self.text.places[number].layout[0]
        full = (math.prod(self.shape[: self.axis]), *shape[self.axis :])
        arguments[f"f{number}"] = name if full == shape else self.text.reshaped(number, full)
        cuts.append(f"a{number} = f{number}[at:to]")
        return f"a{number}"


def padded(shape: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with axes of length 1 in front."""
    return (1,) * (len(to) - len(shape)) + tuple(shape)


def cut(shape: tuple[int, ...], layouts: Collection[Layout], fixed: int | None = None) -> int | None:
    """Return how many leading axes can be made one and cut, given what is broadcast to a shape; None if none can."""
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
    """Return whether an array's elements lie in the order of C."""
    shape, strides, dtype = layout
    expected = dtype.itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n > 1 and stride != expected:
            return False
        expected *= n
    return True


# -- threads ----------------------------------------------------------------------------------------------------------


def spread(tiles: Callable[..., Any], rows: int, length: int, rooms: Sequence[Any], *arguments: Any) -> list[Any]:
    """Run tiles, on as many threads as there are rooms for what is between; return the sums, in the order of tiles."""
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
    finally:  # what writes to the caller's arrays ends before the caller goes on, be it with an error
        found = [other.result() for other in others]
    return [list(itertools.chain(*each)) for each in zip(*parts, *found, strict=True)]


@functools.cache
def pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads that tiles are run on, but for the caller's."""
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="agrad")
