"""Loops: a kernel that runs its own schedule for each row, and carries values."""

from __future__ import annotations

from typing import Any

from agrad_numpy.native.ir import WIDTHS, IRFunction
from agrad_numpy.native.kernels import Kernel, copied_as
from agrad_numpy.native.lowering import FusionGroup, LoweredProgram, Placement, Scratch, contiguous
from agrad_numpy.native.vector_math import Math


class Scan(Kernel):
    """A loop whose calls are a schedule: rows are found by their strides, carried values are where the next call expects them.

    Parameters
    ----------
    low, group, math_
        Those of all kernels.
    tables : tuple of (int, int)
        The positions of the addresses of slots that are the same in every call, and of the schedule.
    slots, count : int
        The number of slots, and of entries of the schedule.
    """

    def __init__(
        self,
        low: LoweredProgram,
        group: FusionGroup,
        math_: Math,
        tables: tuple[tuple[int, int], tuple[int, int]],
        slots: int,
        count: int,
    ) -> None:
        super().__init__(low, group, math_)
        ((step,), (at,)) = self.steps, group.steps
        operands, self.body = step.args
        self.inner, self.slots, self.count = low.tried.loops[at], slots, count
        self.scratch = Scratch(self.body, self.inner)
        self.given = [low.places[ref.number] for ref in operands]
        self.wanted = [number is not None for number in step.outs]
        self.args = [low.where(ref.number) for ref in operands]
        self.args += [low.where(number) for number in step.made]
        self.args += [(0, low.scratch), *tables, low.status]
        self.key = "scan", id(self.inner)

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        body, inner = self.body, self.inner
        *pointers, work, template, schedule, status = pointers
        given, made = pointers[: len(self.given)], iter(pointers[len(self.given) :])
        outs = [next(made) if wanted else None for wanted in self.wanted]
        carried, rows, rest = body.split([*zip(inner.program.inputs, given, self.given, strict=True)])
        slots = f.get(f"alloca [{self.slots} x ptr], align 8")
        f.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {slots}, ptr {template}, i64 {8 * self.slots}, i1 false)")
        own = f.at(work, inner.workspace)
        f.do(f"store ptr {work}, ptr {slots}")
        f.do(f"store i64 0, ptr {own}")

        def put(number: int, pointer: str) -> None:
            f.do(f"store ptr {pointer}, ptr {f.at(slots, 8 * inner.slots[number])}")

        for number, pointer, _ in rest:
            put(number, pointer)
        places = [Carried(self, k, f, work, outs) for k in range(len(carried))]
        first = str(body.length - 1 if body.reverse else 0)
        for place, (_, pointer, how) in zip(places, carried, strict=True):
            self._copy(f, how, pointer, place.before("0", first))
        results = inner.outputs[body.carried :]

        def call(time: str) -> None:
            at = f.get(f"sub i64 {body.length - 1}, {time}") if body.reverse else time
            after = f.get(f"add i64 {time}, 1")
            following = f.get(f"{'sub' if body.reverse else 'add'} i64 {at}, 1")
            is_last = f.get(f"icmp eq i64 {after}, {body.length}")
            for number, pointer, how in rows:
                put(number, f.at(pointer, f.times(at, how.strides[0])))
            for place, (number, _, _), out in zip(places, carried, inner.outputs, strict=False):
                put(number, place.before(time, at))
                put(out, f.get(f"select i1 {is_last}, ptr {place.last}, ptr {place.before(after, following)}"))
            for k, number in enumerate(results, body.carried):
                whole, size = outs[k], inner.places[number].nbytes
                put(number, f.at(work, self.scratch.nowhere[k]) if whole is None else f.at(whole, f.times(at, size)))
            f.do(f"call void @run(ptr {slots}, ptr {schedule}, i64 0, i64 {self.count})")

        f.loop(0, body.length, 1, call)
        failed, before = (f.get(f"load i64, ptr {one}") for one in (own, status))
        f.do(f"store i64 {f.get(f'or i64 {failed}, {before}')}, ptr {status}")
        return []

    def _copy(self, f: IRFunction, place: Placement, source: str, target: str) -> None:
        """Copy a value into C's order."""
        dtype = copied_as(place.dtype)
        rows = [place.strides, contiguous(place.shape, place.dtype.itemsize)]
        step = place.strides[-1] if place.shape else 0

        def move(offsets: list[str], width: int) -> None:
            value = f.load_strided(f.at(source, offsets[0]), step, dtype, width)
            f.store(value, f.at(target, offsets[1]), dtype, width)

        f.nest(place.shape, rows, WIDTHS[dtype], move)


class Carried:
    """The position of one carried value before each call: among the rows that are kept, or alternating between two places.

    Attributes
    ----------
    last : str
        Where the last call writes it.
    """

    def __init__(self, scan: Scan, k: int, f: IRFunction, work: str, outs: list[Any]) -> None:
        body, first = scan.body, len(scan.inner.outputs)
        self._f, self._work = f, work
        self._size = scan.inner.places[scan.inner.outputs[k]].nbytes
        self._turns = scan.scratch.carried[k]
        columns = [outs[first + i] for i, kept in enumerate(body.kept) if kept == k and outs[first + i] is not None]
        self._column = columns[0] if columns else None
        self.last = f.at(work, scan.scratch.nowhere[k]) if outs[k] is None else outs[k]

    def before(self, time: str, at: str) -> str:
        """Return the position of the value before a call, by the number of calls before it and by its row."""
        f = self._f
        if self._column is not None:
            return f.at(self._column, f.times(at, self._size))
        odd = f.get(f"and i64 {time}, 1")
        return f.at(self._work, f.plus(f.times(odd, self._turns[1] - self._turns[0]), str(self._turns[0])))
