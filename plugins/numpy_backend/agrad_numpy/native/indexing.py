"""Reading and adding at positions in integer arrays; an invalid position makes the call run again, step by step."""

from __future__ import annotations

import numpy as np

from agrad_numpy.native.ir import WIDTHS, Arithmetic, IRFunction
from agrad_numpy.native.kernels import Kernel, copied_as
from agrad_numpy.native.lowering import FusionGroup, LoweredProgram, collapsed
from agrad_numpy.native.vector_math import Math


class IndexingKernel(Kernel):
    """Parts of an array are read, or added to zeros, one index after the other, in C order."""

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math) -> None:
        super().__init__(low, group, math_)
        (step,) = self.steps
        self.adds = step.op == "scatter_add"
        (made,) = step.made
        found = low.indexed(step)
        assert found is not None
        first, refs = found
        whole = low.places[made if self.adds else step.args[0].number]
        part = low.places[step.args[2].number if self.adds else made]
        indices = [low.places[ref] for ref in refs]
        self.dtype = whole.dtype.name if self.adds else copied_as(whole.dtype)
        self.kinds = [place.dtype.name for place in indices]
        self.along = list(zip(whole.shape, whole.strides, strict=True))[first : first + len(refs)]
        over = np.broadcast_shapes(*(place.shape for place in indices))
        behind = first + len(refs)
        inner = (*whole.shape[:first], *whole.shape[behind:])
        across = part.over((*whole.shape[:first], *over, *whole.shape[behind:]))
        rows = [place.over(over) for place in indices]
        self.outer, self.outer_strides = collapsed(over, [*rows, across[first : first + len(over)]])
        within = (*whole.strides[:first], *whole.strides[behind:]), (*across[:first], *across[first + len(over) :])
        self.inner, self.inner_strides = collapsed(inner, within)
        self.zeros = whole.nbytes if self.adds else 0
        self.args = [low.where(n) for n in (*refs, made if self.adds else step.args[0].number)]
        self.args += [low.where(step.args[2].number if self.adds else made), low.status]
        layouts = tuple(self.outer), tuple(self.outer_strides), tuple(self.inner), tuple(self.inner_strides)
        self.key = "indexed", self.adds, self.dtype, tuple(self.kinds), tuple(self.along), self.zeros, layouts

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        *indices, whole, part, status = pointers
        if self.adds:
            f.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            f.do(f"call void @llvm.memset.p0.i64(ptr align 8 {whole}, i8 0, i64 {self.zeros}, i1 false)")
        last = [row[-1] if row else 0 for row in self.inner_strides]

        def one(offsets: list[str], _: int) -> None:
            start = whole
            for pointer, offset, kind, (count, stride) in zip(indices, offsets, self.kinds, self.along, strict=False):
                start = f.at(start, self._place(f, f.at(pointer, offset), kind, count, stride, status))
            other = f.at(part, offsets[-1])

            def move(inside: list[str], width: int) -> None:
                here, there = f.at(start, inside[0]), f.at(other, inside[1])
                if not self.adds:
                    value = f.load_strided(here, last[0], self.dtype, width)
                    f.store_strided(value, there, last[1], self.dtype, width)
                    return
                value = f.load_strided(there, last[1], self.dtype, width)
                before = f.load_strided(here, last[0], self.dtype, width)
                total = Arithmetic(f, self.dtype, width).add(before, value)
                f.store_strided(total, here, last[0], self.dtype, width)

            f.nest(self.inner, self.inner_strides, WIDTHS[self.dtype], move)

        f.nest(self.outer, self.outer_strides, 0, one)
        return []

    def _place(self, f: IRFunction, pointer: str, kind: str, count: int, stride: int, status: str) -> str:
        """Return the offset of an index, which counts from the end if it is negative; that of 0 for an invalid one."""
        index = f.load(pointer, kind)
        if kind == "int32":
            index = f.get(f"sext i32 {index} to i64")
        from_end = f.get(f"add i64 {index}, {count}")
        at = f.get(f"select i1 {f.get(f'icmp slt i64 {index}, 0')}, i64 {from_end}, i64 {index}")
        lost = f.get(f"icmp uge i64 {at}, {count}")
        before = f.get(f"load i64, ptr {status}, align 8")
        f.do(f"store i64 {f.get(f'or i64 {before}, ' + f.get(f'zext i1 {lost} to i64'))}, ptr {status}, align 8")
        return f.times(f.get(f"select i1 {lost}, i64 0, i64 {at}"), stride)
