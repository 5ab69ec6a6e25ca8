"""Products of larger matrices in tiles, for processors whose vectors have 64 bytes: a copy lets tiles read what they need in order.

The blocks are those of K. Goto and R. A. van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS 34,
2008): a few columns of the right operand, for some hundred terms, are copied next to each other, and rows of the left one
stay in the cache while they are multiplied by all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agrad_numpy.native.ir import Arithmetic, IRFunction
from agrad_numpy.native.products import TiledProduct, transposed

#: The number of rows in a tile, and of vectors in each: half of the 32 registers hold its sums.
ROWS, ACROSS = 8, 2

#: The largest number of terms in a block, for which the copy of the right operand takes 32 KiB of the stack.
TERMS = 256

#: The number of rows in a part. A block of its left operand stays in the cache.
PART = 256


class PackedProduct(TiledProduct):
    """A product and the steps that follow, block by block, and tile by tile in a block."""

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        self._begin(f, pointers)
        self.block, self.across = block_of(self.terms), ACROSS * self.width
        self.packed = self._memory(self.block * self.across)
        self.partial = self._memory((PART + ROWS) * self.across) if self.terms > self.block else ""
        whole = self.rows - self.rows % ROWS

        def part(first: str) -> None:
            end = f.get(f"add i64 {first}, {PART}")
            inside = f.get(f"icmp slt i64 {end}, {whole}")
            self._part(first, f.get(f"select i1 {inside}, i64 {end}, i64 {whole}"), 0)

        if whole <= PART:
            self._part(0, whole, self.rows - whole)
        else:
            f.loop(0, whole, PART, part)
            if self.rows > whole:
                self._part(whole, whole, self.rows - whole)
        return []

    def _memory(self, count: int) -> str:
        """Return memory on the stack for a number of elements."""
        return self.f.get(f"alloca [{count} x {self.kind}], align 64")

    def _part(self, first: str | int, end: str | int, left: int) -> None:
        """Write the rows from the first to the end in whole tiles, and the rows left after these."""

        def tiles(write: Callable[[str, str, int], None]) -> None:
            """Write the tiles: each gets its first row, the number of that in the part, and how many there are."""
            self.f.loop(first, end, ROWS, lambda i: write(i, self._after(i, first), ROWS))
            if left:
                write(str(end), self._after(str(end), first), left)

        def columns(j: str, count: int) -> None:
            f, widths, whole = self.f, self._widths(count), self.terms - self.terms % self.block
            zeros = [Arithmetic(f, self.dtype, w).number(0.0) for w in widths]

            def block(k: str, terms: int) -> None:
                self._pack(j, k, terms, widths)
                tiles(lambda i, at, rows: add(i, at, rows, k, terms))

            def add(i: str, at: str, rows: int, k: str, terms: int) -> None:
                self._store(at, widths, self._multiplied(i, rows, k, terms, widths, self._load(at, rows, widths)))

            def finish(i: str, at: str, rows: int) -> None:
                if self.partial:
                    sums = self._load(at, rows, widths)
                else:
                    sums = self._multiplied(i, rows, "0", self.terms, widths, zeros * rows)
                self._finish_tile(i, rows, j, widths, sums)

            if self.partial:
                tiles(lambda _, at, rows: self._store(at, widths, zeros * rows))
                f.loop(0, whole, self.block, lambda k: block(k, self.block))
                if self.terms > whole:
                    block(str(whole), self.terms - whole)
            else:
                self._pack(j, "0", self.terms, widths)
            tiles(finish)

        self._blocks(self.columns, self.across, columns)

    def _after(self, i: str, first: str | int) -> str:
        """Return the number of a row in its part."""
        return str(int(i) - int(first)) if i.isdigit() else self.f.get(f"sub i64 {i}, {first}")

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _pack(self, j: str, k: str, terms: int, widths: Sequence[int]) -> None:
        """Write the copy of some columns of the right operand, in which those of a term are next to each other."""
        f, size, (down, along) = self.f, self.size, self.right.strides
        source, step = f.at(f.at(self.b, f.times(j, along)), f.times(k, down)), self.across * size

        def lines(at: str, count: int) -> None:
            """Write some terms: as many as a vector has elements, or one."""
            start, to = f.at(source, f.times(at, down)), f.at(self.packed, f.times(at, step))
            for number, width in enumerate(widths):
                begin, goal = f.at(start, number * self.width * along), f.at(to, number * self.width * size)
                if count == 1:
                    found = [f.load_strided(begin, along, self.dtype, width)]
                else:
                    found = [f.load(f.at(begin, c * along), self.dtype, count) for c in range(width or 1)]
                    found = transposed(f, found, self.kind, count)
                for term, value in enumerate(found):
                    f.store(value, f.at(goal, term * step), self.dtype, width)

        whole = terms - terms % self.width if along != size else 0
        f.loop(0, whole, self.width, lambda at: lines(at, self.width))
        f.loop(whole, terms, 1, lambda at: lines(at, 1))

    def _multiplied(
        self, i: str, rows: int, k: str, terms: int, widths: Sequence[int], sums: Sequence[str]
    ) -> list[str]:
        """Return the sums of a tile with the terms of a block added."""
        (down, along), right = self.left.strides, (self.packed, self.across * self.size)
        left = self.f.at(self.f.at(self.a, self.f.times(i, down)), self.f.times(k, along)), down, along
        return self._tile(rows, widths, left, right, terms, sums)

    # -- sums between blocks ------------------------------------------------------------------------------------------

    def _sums(self, at: str, rows: int, widths: Sequence[int]) -> list[tuple[str, int]]:
        """Return where the sums of a tile are kept, and their widths."""
        f, line = self.f, self.across * self.size
        start = f.at(self.partial, f.times(at, line))
        return [
            (f.at(start, row * line + number * self.width * self.size), width)
            for row in range(rows)
            for number, width in enumerate(widths)
        ]

    def _load(self, at: str, rows: int, widths: Sequence[int]) -> list[str]:
        return [self.f.load(pointer, self.dtype, width) for pointer, width in self._sums(at, rows, widths)]

    def _store(self, at: str, widths: Sequence[int], sums: Sequence[str]) -> None:
        for (pointer, width), value in zip(self._sums(at, len(sums) // len(widths), widths), sums, strict=True):
            self.f.store(value, pointer, self.dtype, width)


def block_of(terms: int) -> int:
    """Return the number of terms in a block: one that divides them without rest, if there is one that is not small."""
    if terms <= TERMS:
        return terms
    return next((n for n in range(TERMS, TERMS // 2, -1) if terms % n == 0), TERMS)
