"""Stretches of a program: where it is cut, and which of them are similar, so that one is lowered and the others follow it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from agrad.plugin.programs import Ref, Shaped, Step

#: Values of up to this many elements are kept in registers, whole.
TINY = 16

#: The largest number of steps in one kernel, twice as many if it ends there.
CHUNK = 150

#: The longest period that is considered, and the number of repeated steps that make it worthwhile.
PERIOD, REPEATED = 800, 24


class Stretch:
    """Steps that are lowered together.

    Attributes
    ----------
    start, stop : int
        Their positions in the program.
    outside : list of int
        The numbers of the outer values that they take, in the order of their first uses.
    like : Stretch or None
        An earlier stretch with the same steps: the values of both correspond.
    """

    __slots__ = ("_numbers", "like", "made", "outside", "start", "stop")

    def __init__(self, start: int, stop: int, outside: list[int], made: list[int]) -> None:
        self.start, self.stop, self.outside, self.made = start, stop, outside, made
        self.like: Stretch | None = None
        self._numbers: dict[int, int] | None = None

    @property
    def numbers(self) -> dict[int, int]:
        """From the numbers of the values of the earlier stretch to those of this one."""
        if self._numbers is None:
            assert self.like is not None
            before = (*self.like.outside, *self.like.made)
            self._numbers = dict(zip(before, (*self.outside, *self.made), strict=True))
        return self._numbers


def signatures(steps: Sequence[Step], shapes: Mapping[int, Shaped]) -> Iterator[Any]:
    """Return, per step, the key shared by steps that become the same part of a kernel, whatever their operands and results.

    Positions of large arrays that are read and written do not count: kernels get them as offsets.
    """
    for step in steps:
        abouts = tuple([shapes.get(n) for n in (*step.refs, *step.made)])
        anywhere = step.op in ("getitem", "scatter_add") and any(a and math.prod(a.shape) > TINY for a in abouts)

        def part_of(part: Any, anywhere: bool = anywhere) -> Any:
            kind = type(part)
            if kind is Ref:
                return "#"
            if kind is tuple or kind is list:
                return kind.__name__, *map(part_of, part)
            return "i" if anywhere and kind is int else repr(part)

        args = tuple([part_of(part) for part in step.args])
        kwargs = tuple([(name, part_of(value)) for name, value in step.kwargs.items()]) if step.kwargs else ()
        yield step.op, args, kwargs, abouts, len(step.outs), step.several


class Stretches:
    """A program, cut where it repeats itself.

    Parameters
    ----------
    steps : sequence of Step
        The program's.
    shapes : mapping
        Of its values.
    """

    def __init__(self, steps: Sequence[Step], shapes: Mapping[int, Shaped]) -> None:
        self._steps = steps
        self.makers = {n: at for at, step in enumerate(steps) for n in step.made}
        ids: dict[Any, int] = {}
        self._signs = [ids.setdefault(sign, len(ids)) for sign in signatures(steps, shapes)]
        self.all = [self._stretch(start, stop) for start, stop in itertools.pairwise(self._cuts())]
        first: dict[Any, Stretch] = {}
        for stretch in self.all:
            found = first.setdefault(self._key(stretch), stretch)
            if found is not stretch:
                stretch.like = found

    def _cuts(self) -> list[int]:
        """Return where stretches begin, and the end."""
        count, makers = len(self._steps), self.makers
        ids: dict[Any, int] = {}
        near = [
            (sign, *[min(at - makers.get(ref, -1000), 40) for ref in step.refs])
            for at, (sign, step) in enumerate(zip(self._signs, self._steps, strict=True))
        ]
        signs = np.array([ids.setdefault(each, len(ids)) for each in near], np.int64)
        cuts, covered = {0, count}, np.zeros(count, bool)
        for period in range(1, min(PERIOD, count // 3) + 1):
            same = signs[period:] == signs[:-period]
            if not same.any():
                continue
            edges = np.diff(np.concatenate([[0], same.astype(np.int8), [0]]))
            begins, ends = np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) + period).tolist()
            for start, stop in zip(begins, ends, strict=True):
                if stop - start < max(3 * period, REPEATED) or covered[start:stop].any():
                    continue
                covered[start:stop] = True
                step = period
                while 2 * step <= CHUNK // 2:  # several short ones as one
                    step *= 2
                cuts.update(range(start, stop, step))
                cuts.add(stop)
        found = []
        for start, stop in itertools.pairwise(sorted(cuts)):
            at = start
            while stop - at > 2 * CHUNK:
                found.append(at)
                at += CHUNK
            found.append(at)
        return [*found, count]

    def _stretch(self, start: int, stop: int) -> Stretch:
        steps, makers = self._steps[start:stop], self.makers
        taken = dict.fromkeys(ref for step in steps for ref in step.refs if makers.get(ref, -1) < start)
        return Stretch(start, stop, [*taken], [n for step in steps for n in step.made])

    def _key(self, stretch: Stretch) -> Any:
        """Return the properties shared by similar stretches."""
        local = {n: at for at, n in enumerate((*stretch.outside, *stretch.made))}
        steps = self._steps[stretch.start : stretch.stop]
        taken = tuple([local[ref] for step in steps for ref in step.refs])
        missing = tuple([at for at, step in enumerate(steps) for n in step.outs if n is None])
        return tuple(self._signs[stretch.start : stretch.stop]), taken, missing
