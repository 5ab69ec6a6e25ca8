"""Elementwise steps of a task on the same chunk, run a few rows at a time: what is between them stays in the cache.

A chunk of 16 MB as the result of every step is new memory each time, which the system has to clear, and goes through the
cache. In tiles only what later steps need is as large as a chunk. Each element is computed by the same functions, so it
has the same bits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad_dask.fusing import Do, TaskCall, task_list_of
from agrad_dask.rooms import empty

#: Bytes of a tile of one array.
TILE = 2**17
#: Smaller chunks, in elements, are not cut.
CUT_FROM = 2**18
#: Python's operators, which Dask calls, as ufuncs. The power is another one for some exponents.
UFUNCS = {
    operator.add: np.add,
    operator.mul: np.multiply,
    operator.neg: np.negative,
    operator.sub: np.subtract,
    operator.truediv: np.true_divide,
}


class TileStep(NamedTuple):
    """A step that is run in tiles.

    Attributes
    ----------
    call : TaskCall
    key : key
        Of its result.
    done : tuple of keys
        The values that the steps after it do not take.
    buffer : int or None
        Where its result lies within a tile; None: it is needed as a whole.
    """

    call: TaskCall
    key: Any
    done: tuple[Any, ...]
    buffer: int | None


class Tiled:
    """Elementwise steps that run one after another on a tile, then on the next.

    Parameters
    ----------
    steps : sequence of Do
        The steps, in order.
    kept : collection of keys
        The results that are needed as a whole.
    """

    __slots__ = "buffers", "keys", "needs", "steps"

    def __init__(self, steps: Sequence[Do], kept: Collection[Any]) -> None:
        listed = task_list_of(steps, tuple(kept), {})
        self.needs = tuple(key for key, _, _ in listed.given)
        self.keys = tuple(key for _, key, _ in steps if key in kept)
        found, free, holding = list[TileStep](), list[int](), dict[Any, int]()
        self.buffers = 0
        for call, key, _, done in listed.steps:
            buffer = None
            free += [holding.pop(each) for each in done if each in holding]  # a step may write over what it takes
            if key not in kept:
                if not free:
                    free.append(self.buffers)
                    self.buffers += 1
                buffer = holding[key] = free.pop()
            found.append(TileStep(call, key, done, buffer))
        self.steps = tuple(found)

    def __call__(self, values: Mapping[Any, Any]) -> dict[Any, Any]:
        given = {key: values[key] for key in self.needs}
        try:
            made = self._in_tiles(given)
        except Exception:  # noqa: BLE001 (one by one the step is named that raises it)
            made = None
        return self._one_by_one(given) if made is None else made

    def _one_by_one(self, held: dict[Any, Any]) -> dict[Any, Any]:
        for call, key, done, _ in self.steps:
            held[key] = call(held)
            for other in done:
                held.pop(other, None)
        return {key: held[key] for key in self.keys}

    def _in_tiles(self, given: dict[Any, Any]) -> dict[Any, Any] | None:
        """Return the results; None where the arrays cannot be cut, or are too small."""
        arrays = [value for value in given.values() if type(value) is np.ndarray]
        largest = max(arrays, key=lambda value: (value.size, 0 not in value.strides), default=None)
        if largest is None or largest.size < CUT_FROM:
            return None
        if not all(type(value) is np.ndarray or isinstance(value, np.generic) for value in given.values()):
            return None
        shape = np.broadcast_shapes(*(value.shape for value in given.values()))
        order = np.argsort([-abs(n) for n in largest.strides], kind="stable") + len(shape) - largest.ndim
        in_order = 0 in largest.strides or largest.ndim < len(shape) or list(order) == list(range(len(shape)))
        if not in_order:  # such as one in Fortran's order
            turned = {name: _turned(value, order) for name, value in given.items()}
            made = self._in_tiles(turned)
            return made and {name: value.transpose(np.argsort(order)) for name, value in made.items()}
        dtypes = self._dtypes(given, len(shape))
        if dtypes is None:
            return None
        itemsize = max(dtype.itemsize for dtype in dtypes)
        axis, length = _cut(shape, itemsize)
        room = min(length, shape[axis]) * math.prod(shape[axis + 1 :]) * itemsize
        both = list(zip(self.steps, dtypes, strict=True))
        made = {step.key: empty(shape, dtype) for step, dtype in both if step.buffer is None}
        # after the results, which the memory that others left must fit
        memory = [np.empty(room, np.uint8) for _ in range(self.buffers)]
        rooms: dict[int, list[Any]] = {}  # by the rows of a tile, its part of the memory for each step
        calls = [(step.call, step.key, _ufunc(step.call.function)) for step in self.steps]
        for lead in np.ndindex(*shape[:axis]):
            for start in range(0, shape[axis], length):
                stop = min(start + length, shape[axis])
                key = (*(slice(i, i + 1) for i in lead), slice(start, stop))
                held = {name: _part(value, key, len(shape)) for name, value in given.items()}
                whole = {name: value[key] for name, value in made.items()}
                if stop - start not in rooms:
                    part = (*(1,) * axis, stop - start, *shape[axis + 1 :])
                    rooms[stop - start] = [
                        None
                        if s.buffer is None
                        else memory[s.buffer][: math.prod(part) * d.itemsize].view(d).reshape(part)
                        for s, d in both
                    ]
                for (call, name, function), room_of in zip(calls, rooms[stop - start], strict=True):
                    out = whole[name] if room_of is None else room_of
                    held[name] = function(*[held[a] if is_given else a for is_given, a in call.args], out=out)
        return made

    def _dtypes(self, given: dict[Any, Any], ndim: int) -> list[Any] | None:
        """Return the dtype of each result; None if one is not as large as all are."""
        with np.errstate(all="ignore"):
            held = {name: value[(slice(1),) * value.ndim] for name, value in given.items()}
            for step in self.steps:
                held[step.key] = made = step.call(held)
                if made.ndim != ndim:
                    return None
        return [held[step.key].dtype for step in self.steps]


def _ufunc(function: Any) -> Any:
    """Return the ufunc that does what a function does; the function itself if there is none."""
    return next((ufunc for other, ufunc in UFUNCS.items() if other is function), function)  # it may be unhashable


def _cut(shape: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return along which axis tiles are cut, those before it having one element, and how many elements they have there."""
    axis = next(i for i in range(len(shape)) if math.prod(shape[i + 1 :]) * itemsize <= TILE or i == len(shape) - 1)
    return axis, max(1, TILE // max(1, math.prod(shape[axis + 1 :]) * itemsize))


def _turned(value: Any, order: Any) -> Any:
    """Return an operand with its axes in another order, as many as all together have."""
    return value if value.ndim == 0 else value.reshape((1,) * (len(order) - value.ndim) + value.shape).transpose(order)


def _part(value: Any, key: tuple[slice, ...], ndim: int) -> Any:
    """Return the part of an operand that belongs to a tile."""
    skipped = ndim - value.ndim
    return value[tuple(_ALL if n == 1 else part for n, part in zip(value.shape, key[skipped:], strict=False))]


_ALL = slice(None)


# -- which steps --------------------------------------------------------------------------------------------------------


def tiled(steps: Sequence[Do], results: Collection[Any], cut: Callable[[Any], Any]) -> list[Do]:
    """Return the steps with runs of elementwise ones, on chunks that are alike, as one step each.

    Parameters
    ----------
    results : collection of keys
        The values that are needed at the end.
    cut : callable
        Returns how the array of a key is cut, None if that is not known.
    """
    found, rest = list[Do](), list(steps)
    while rest:
        kind = cut(rest[0][1]) if _is_elementwise(rest[0]) else None
        if kind is None:
            found.append(rest.pop(0))
            continue
        members, after = _run(rest, kind, cut)
        needed = {need for _, _, needs in after for need in needs}.union(results)
        while len(members) > 1 and not _saves(members, kept := [key for _, key, _ in members if key in needed]):
            after = [members.pop(), *after]
            needed = {need for _, _, needs in after for need in needs}.union(results)
        if len(members) > 1:
            step = Tiled(members, kept)
            found.append((step, None, step.needs))
        else:
            found += members
        rest = after
    return found


def _run(steps: Sequence[Do], kind: Any, cut: Callable[[Any], Any]) -> tuple[list[Do], list[Do]]:
    """Return elementwise steps that can run before all others, and the others.

    A step that waits for them must not keep alive what it would have been the last to take.
    """
    members, after = list[Do](), list[Do]()
    made, waiting = set[Any](), set[Any]()
    last = {need: at for at, (_, _, needs) in enumerate(steps) for need in needs}
    for at, step in enumerate(steps):
        _, key, needs = step
        if waiting.isdisjoint(needs) and _is_elementwise(step) and cut(key) == kind:
            members.append(step)
            made.add(key)
        elif made.isdisjoint(needs) or any(last[need] == at for need in made.intersection(needs)):
            return members, [*after, *steps[at:]]
        else:
            after.append(step)
            waiting.add(key)
    return members, after


def _saves(members: Sequence[Do], kept: Collection[Any]) -> bool:
    """Return whether steps hold no more in tiles, all that is kept, than one by one."""
    last = {need: at for at, (_, _, needs) in enumerate(members) for need in needs}
    held, most = set[Any](), 0
    for at, (_, key, needs) in enumerate(members):
        held.add(key)
        most = max(most, len(held))
        held -= {need for need in needs if last[need] == at and need not in kept}
    return len(kept) <= most


def _is_elementwise(step: Do) -> bool:
    """Return whether a step calls a ufunc on arrays, and numbers."""
    task, _, needs = step
    if type(task) is not TaskCall or task.kwargs or not needs:
        return False
    function = _ufunc(task.function)
    return (
        isinstance(function, np.ufunc)
        and (function.nin, function.nout, function.signature) == (len(task.args), 1, None)
        and all(given or not getattr(a, "ndim", 0) for given, a in task.args)
    )
