"""Products of matrices in tiles that stay in registers, with the elementwise steps that follow on their results.

On small products BLAS spends more time before the computation than in it. The bits differ from those of BLAS, which adds
in another order, so these are for users who request native code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agrad.plugin.programs import Ref
from agrad_numpy.native import elementwise
from agrad_numpy.native.ir import SIZES, TYPES, WIDTHS, Arithmetic, IRFunction, literal
from agrad_numpy.native.kernels import Kernel, Key
from agrad_numpy.native.lowering import FusionGroup, LoweredProgram
from agrad_numpy.native.vector_math import Math

#: The number of rows in registers at a time, and of all vectors.
ROWS, VECTORS = 4, 8

#: The largest number of terms unrolled in an iteration of the loop over them.
TERMS = 4


class TiledProduct(Kernel):
    """A product and the steps that follow, tile by tile.

    A tile holds some rows, each in vectors along the columns of the right operand. If these are not contiguous, as in
    ``x @ w.T``, its vectors are upright, along rows of the left operand, which is transposed; the tile is then
    transposed back.
    """

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math) -> None:
        super().__init__(low, group, math_)
        if self._follows():
            return
        self._fuse()
        first = self.steps[0]
        self.left, self.right = (low.places[n] for n in first.refs)
        self.dtype = low.dtype(first.made[0])
        self.size, self.width, self.kind = SIZES[self.dtype], WIDTHS[self.dtype], TYPES[self.dtype]
        self.rows, self.terms = self.left.shape
        self.columns = self.right.shape[1]
        self.lanes = next(n for n in (16, 8, 4, 2, 1) if n <= min(self.width, self.rows))  # of upright vectors
        self.key = Key(("tiled", self._structure(), tuple(self._layout(n) for n in (*self.taken, *self.stored))))

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        self._begin(f, pointers)
        upright = self.right.strides[1] != self.size
        if upright and self.left.strides[0] != self.size:
            self.turned = f.get(f"alloca [{self.terms * self.lanes} x {self.kind}], align 64")
        else:
            self.turned = ""
        self._blocks(self.rows, self.lanes if upright else ROWS, self._upright if upright else self._lying)
        return []

    def _begin(self, f: IRFunction, pointers: list[str]) -> None:
        """Write to a function from here on, where operands and results are at these pointers."""
        self.f, self.at = f, dict(zip((*self.taken, *self.stored), pointers, strict=True))
        self.a, self.b = (self.at[number] for number in self.steps[0].refs)

    def _blocks(self, count: int, size: int, write: Any) -> None:
        """Write the loop over blocks of a size, and over the rest."""
        whole = count - count % size
        self.f.loop(0, whole, size, lambda i: write(i, size))
        if count > whole:
            write(str(whole), count - whole)

    # -- vectors along columns ----------------------------------------------------------------------------------------

    def _lying(self, i: str, rows: int) -> None:
        """Write some rows."""
        across = min(max(2, VECTORS // rows), max(1, self.columns // self.width)) * self.width

        def columns(j: str, count: int) -> None:
            f, widths = self.f, self._widths(count)
            left = f.at(self.a, f.times(i, self.left.strides[0])), *self.left.strides
            right = f.at(self.b, f.times(j, self.size)), self.right.strides[0]
            zeros = [Arithmetic(f, self.dtype, w).number(0.0) for w in widths] * rows
            self._finish_tile(i, rows, j, widths, self._tile(rows, widths, left, right, self.terms, zeros))

        self._blocks(self.columns, across, columns)

    def _widths(self, count: int) -> list[int]:
        """Return the widths of the vectors for a number of columns; 0 for a scalar."""
        widths = [self.width] * (count // self.width)
        if count % self.width:
            widths.append(count % self.width)
        return [w if w > 1 else 0 for w in widths]

    def _tile(
        self,
        rows: int,
        widths: Sequence[int],
        left: tuple[str, int, int],
        right: tuple[str, int],
        terms: int,
        sums: Sequence[str],
    ) -> list[str]:
        """Add terms to the sums of a tile, row by row; return these.

        `left` is where its rows are, and the bytes to the next row and term; `right` likewise, without those to the next column.
        """
        f, size, (a, down, along), (b, next_term) = self.f, self.size, left, right
        starts = [self.width * at for at in range(len(widths))]
        over = [Arithmetic(f, self.dtype, w) for w in widths]

        def term(index: str, sums: list[str]) -> list[str]:
            left, right = f.at(a, f.times(index, along)), f.at(b, f.times(index, next_term))
            columns = [f.load(f.at(right, s * size), self.dtype, w) for s, w in zip(starts, widths, strict=True)]
            found = []
            for row in range(rows):
                one = f.load(f.at(left, row * down), self.dtype)
                for at, e in enumerate(over):
                    x = f.spread(one, self.kind, e.width)
                    found.append(e.fused(x, columns[at], sums[row * len(over) + at]))
            return found

        return self._added(term, over * rows, terms, sums)

    def _finish_tile(self, i: str, rows: int, j: str, widths: Sequence[int], sums: Sequence[str]) -> None:
        """Write the steps that follow for a tile."""
        for row in range(rows):
            for at, width in enumerate(widths):
                self._finish(i, row, j, at * self.width, width, sums[row * len(widths) + at])

    def _added(self, term: Any, over: Sequence[Arithmetic], terms: int, sums: Sequence[str]) -> list[str]:
        """Return sums with terms added."""
        each = next(u for u in range(min(TERMS, terms), 0, -1) if terms % u == 0)

        def turn(index: str, sums: list[str]) -> list[str]:
            for more in range(each):
                sums = term(self.f.plus(index, str(more)) if not index.isdigit() else str(int(index) + more), sums)
            return sums

        return self.f.fold(terms, each, [e.kind for e in over], sums, turn)

    # -- vectors along rows -------------------------------------------------------------------------------------------

    def _upright(self, i: str, rows: int) -> None:
        """Write some rows, by vectors along these."""
        f, size, (down, along) = self.f, self.size, self.left.strides
        width = rows if rows > 1 else 0
        a, step = f.at(self.a, f.times(i, down)), along
        if self.turned:
            whole = self.terms - self.terms % self.lanes if along == size and rows > 1 else 0

            def square(k: str) -> None:
                start = f.at(a, f.times(k, size))
                lines = [f.load(f.at(start, row * down), self.dtype, self.lanes) for row in range(rows)]
                self._keep(k, rows, transposed(f, lines, self.kind, self.lanes))

            def line(k: str) -> None:
                value = f.load_strided(f.at(a, f.times(k, along)), down, self.dtype, width)
                self._keep(k, rows, [value])

            f.loop(0, whole, self.lanes, square)
            f.loop(whole, self.terms, 1, line)
            a, step = self.turned, rows * size
        self._blocks(
            self.columns, max(VECTORS, self.lanes), lambda j, count: self._standing(i, a, step, rows, j, count)
        )

    def _keep(self, k: str, rows: int, lines: Sequence[str]) -> None:
        """Write transposed lines of the left operand, for terms from k."""
        f, to = self.f, self.f.at(self.turned, self.f.times(k, rows * self.size))
        for at, value in enumerate(lines):
            f.store(value, f.at(to, at * rows * self.size), self.dtype, rows if rows > 1 else 0)

    def _standing(self, i: str, a: str, step: int, rows: int, j: str, count: int) -> None:
        """Write a tile of some columns, each a vector."""
        f, (down, along) = self.f, self.right.strides
        width = rows if rows > 1 else 0
        e = Arithmetic(f, self.dtype, width)
        b = f.at(self.b, f.times(j, along))

        def term(index: str, sums: list[str]) -> list[str]:
            left = f.load(f.at(a, f.times(index, step)), self.dtype, width)
            right = f.at(b, f.times(index, down))
            ones = [f.load(f.at(right, at * along), self.dtype) for at in range(count)]
            return [e.fused(left, f.spread(x, self.kind, width), s) for x, s in zip(ones, sums, strict=True)]

        sums = self._added(term, [e] * count, self.terms, [e.number(0.0)] * count)
        across = max(self.lanes, min(self.width, VECTORS)) if rows < self.lanes else self.lanes
        for start in range(0, count, across):
            part = sums[start : start + across]
            for row, value in enumerate(transposed(f, part, self.kind, width)):
                self._finish(i, row, j, start, len(part) if len(part) > 1 else 0, value)

    # -- what follows -------------------------------------------------------------------------------------------------

    def _finish(self, i: str, row: int, j: str, column: int, width: int, found: str) -> None:
        """Write the following steps for a part of a row, from `column` after `j`."""
        f, low = self.f, self.low
        values = {self.steps[0].made[0]: found}

        def place_of(number: int) -> tuple[str, int]:
            down, along = low.places[number].over((self.rows, self.columns))
            start = f.at(f.at(self.at[number], f.times(i, down)), f.times(j, along))
            return f.at(start, row * down + column * along), along

        def operand(part: Any, wanted: str) -> str:
            if type(part) is not Ref:
                return literal(part, wanted, width)
            number = part.number
            if number not in values:
                pointer, along = place_of(number)
                values[number] = f.load_strided(pointer, along, low.dtype(number), width)
            return elementwise.converted(f, values[number], low.dtype(number), wanted, width)

        for step in self.steps:
            made = step.made[0]
            if step is not self.steps[0]:
                values[made] = elementwise.value(f, step, operand, low.dtype, width, self.math)
            if made in self.stored:
                pointer, along = place_of(made)
                f.store_strided(values[made], pointer, along, low.dtype(made), width)


def transposed(f: IRFunction, lines: Sequence[str], kind: str, width: int) -> list[str]:
    """Return the columns of vectors of a width as vectors."""
    count = len(lines)
    if not width or count == 1:
        joined = "poison"
        if not width:
            for at, one in enumerate(lines):
                joined = f.put(joined, one, at, kind, count if count > 1 else 0)
            return [joined]
        return [f.pick(lines[0], at, kind, width) for at in range(width)]
    if count != width or count & (count - 1):
        found = []
        for column in range(width):
            joined = "poison"
            for at, line in enumerate(lines):
                joined = f.put(joined, f.pick(line, column, kind, width), at, kind, count)
            found.append(joined)
        return found
    found, apart = [*lines], 1
    whole = f"<{width} x {kind}>"
    while apart < count:
        for at in (at for at in range(count) if not at & apart):
            one, other = found[at], found[at + apart]
            for to, places in (
                (at, [p if not p & apart else width + p - apart for p in range(width)]),
                (at + apart, [p + apart if not p & apart else width + p for p in range(width)]),
            ):
                mask = ", ".join(f"i32 {p}" for p in places)
                found[to] = f.get(f"shufflevector {whole} {one}, {whole} {other}, <{width} x i32> <{mask}>")
        apart *= 2
    return found
