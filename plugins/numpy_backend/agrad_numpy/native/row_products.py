"""Products with the rows of a large matrix, what follows, and products with the matrix again: in one pass over its memory.

The gradient of a linear model is ``X.T @ r``, with ``r`` made of ``X @ w`` element by element. Step by step these read
the matrix twice. Here a few rows are multiplied, and then added up while they are still in the cache.
"""

from __future__ import annotations

from collections.abc import Callable

from agrad.plugin.programs import Ref
from agrad_numpy.native import spreading
from agrad_numpy.native.ir import SIZES, TYPES, WIDTHS, Arithmetic, IRFunction
from agrad_numpy.native.kernels import ElementwiseLoop, Kernel, Key, first_of, joined
from agrad_numpy.native.lowering import FusionGroup, LoweredProgram
from agrad_numpy.native.vector_math import Math

#: The minimum number of rows in a part, which has sums of its own.
PART = 2**12

#: The memory, in bytes, for the sums of all parts, which lies on the stack.
ROOM = 2**16

#: The alignment of the sums of a part, in bytes.
ALIGNED = 64


class RowProducts(ElementwiseLoop):
    """Products ``X @ w``, elementwise steps and sums of these, and products ``r @ X``, a tile of rows at a time.

    A tile has as many rows as a vector has elements. Parts of the rows have sums of their own, which are added in order;
    the number of rows alone determines the parts, so no bit depends on the number of threads.

    Attributes
    ----------
    each : list of (int, int)
        The products with each row: the numbers of the result and of the vector.
    added : list of (int, int)
        The products that add up the rows, likewise.
    """

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math) -> None:
        Kernel.__init__(self, low, group, math_)
        if self._follows():
            return
        self._fuse()
        found = {step.made[0]: product for step in self.steps if (product := low.row_product(step)) is not None}
        self.product = found[self.steps[0].made[0]]
        self.each = [(made, product.vector) for made, product in found.items() if product.each]
        self.added = [(made, product.vector) for made, product in found.items() if not product.each]
        self.sums = [step for step in self.steps if low.is_sum(step)]
        self.alike: dict[int, Ref] = {}  # by the number of a view, what it is a view of
        for at, step in zip(group.steps, self.steps, strict=True):
            if low.kinds[at] == "view":
                self.alike[step.made[0]] = self.alike.get(step.refs[0], Ref(step.refs[0]))
        apart = {*found, *self.alike, *(step.made[0] for step in self.sums)}
        self.others = [step.taking(self.alike) for step in self.steps if step.made[0] not in apart]
        totals = {made for made, _ in self.added} | {step.made[0] for step in self.sums}
        self.read, self.written = self.taken, [number for number in self.stored if number not in totals]
        self.strides = [[self._along(number)] for number in (*self.read, *self.written)]
        self.dtype = low.dtype(self.product.number)
        self.width, self.kind = WIDTHS[self.dtype], TYPES[self.dtype]
        self.key = Key(("rows", self._structure(), tuple(self._layout(n) for n in (*self.taken, *self.stored))))

    def _along(self, number: int) -> int:
        """Return the bytes from the element of a row to that of the next one; 0 for what all rows share."""
        place, rows = self.low.places[number], self.product.rows
        return place.strides[place.shape.index(rows)] if place.size == rows else 0

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        rows, columns, width = self.product.rows, self.product.columns, self.width
        sizes = [columns * SIZES[self.dtype]] * len(self.added)
        sizes += [width * SIZES[self.low.dtype(step.made[0])] for step in self.sums]
        self.starts, room = [], 0  # of the sums in the memory of a part
        for size in sizes:
            self.starts.append(room)
            room += -(-size // ALIGNED) * ALIGNED
        whole = rows - rows % width
        each = max(PART, -(-whole // (max(ROOM // room, 1) * width)) * width)
        count = -(-whole // each)
        rooms = f.get(f"alloca [{count * room} x i8], align {ALIGNED}")
        lines = self._all_parts(f, rooms, room, each, count, name)
        f.loop(1, count, 1, lambda k: self._join(f, rooms, f.at(rooms, f.times(k, room))))
        self.at = dict(zip((*self.taken, *self.stored), pointers, strict=True))
        if rows > whole:
            self._tile(f, rooms, str(whole), rows - whole)
        self._finish(f, rooms)
        return lines

    def _all_parts(self, f: IRFunction, rooms: str, room: int, each: int, count: int, name: str) -> list[str]:
        """Write the calls for all parts; return the lines of the function that runs one."""
        part, whole = IRFunction(), self.product.rows - self.product.rows % self.width
        self.at = dict(zip((*self.taken, *self.stored), self.pointers_of(part), strict=True))
        own = part.at("%room", part.get(f"mul i64 %k, {room}"))
        for step, start in zip(self.sums, self.starts[len(self.added) :], strict=True):
            e = Arithmetic(part, self.low.dtype(step.made[0]), self.width)
            part.store(e.number(first_of(step.op)), part.at(own, start), e.dtype, self.width)
        zero = Arithmetic(part, self.dtype, 0).number(0.0)
        for start in self.starts[: len(self.added)]:
            to = part.at(own, start)
            part.loop(
                0, self.product.columns, 1, lambda j, to=to: part.store(zero, self._column(part, to, j), self.dtype)
            )
        first = part.get(f"mul i64 %k, {each}")
        end = part.get(f"add i64 {first}, {each}")
        inside = part.get(f"icmp slt i64 {end}, {whole}")
        end = part.get(f"select i1 {inside}, i64 {end}, i64 {whole}")
        part.loop(first, end, self.width, lambda i: self._tile(part, own, i, self.width))
        spread = self.low.threads > 1 and self.product.rows * self.product.columns >= spreading.SPREAD_FROM
        return self._parts(f, part, rooms, count, name, spread)

    # -- a tile of rows -----------------------------------------------------------------------------------------------

    def _tile(self, f: IRFunction, room: str, first: str, count: int) -> None:
        """Write some rows, from the first on: their products, the steps that follow, and what they add to the sums."""
        low, width = self.low, count if count > 1 else 0
        matrix = f.at(self.at[self.product.number], f.times(first, self.product.stride))
        lines = [f.at(matrix, row * self.product.stride) for row in range(count)]
        values = {made: self._products(f, lines, self.at[vector]) for made, vector in self.each}
        pointers = [self.at[number] for number in (*self.read, *self.written)]
        offsets = [f.times(first, stride) for (stride,) in self.strides]
        value_of = self._body(f, pointers, offsets, self.strides, width, values)
        made = {step.made[0] for step in self.others}
        for at, number in enumerate(self.written, len(self.read)):
            if number not in made:  # a product, or a view
                value, pointer = value_of(self._same(number)), f.at(pointers[at], offsets[at])
                f.store_strided(value, pointer, self.strides[at][0], low.dtype(number), width)
        for (_, vector), start in zip(self.added, self.starts, strict=False):
            self._add(f, lines, value_of(self._same(vector)), f.at(room, start))
        for step, start in zip(self.sums, self.starts[len(self.added) :], strict=True):
            value, to, dtype = value_of(self._same(step.refs[0])), f.at(room, start), low.dtype(step.made[0])
            total = f.load(to, dtype, width)
            f.store(joined(Arithmetic(f, dtype, width), step.op, total, value), to, dtype, width)

    def _same(self, number: int) -> int:
        """Return the number of the value that a view is one of."""
        return self.alike[number].number if number in self.alike else number

    def _column(self, f: IRFunction, pointer: str, j: str) -> str:
        return f.at(pointer, f.times(j, SIZES[self.dtype]))

    def _products(self, f: IRFunction, lines: list[str], vector: str) -> str:
        """Return the products of rows with a vector, an element for each."""
        width, kind, columns = self.width, self.kind, self.product.columns
        e = Arithmetic(f, self.dtype, width)
        whole = columns - columns % width

        def add(j: str, sums: list[str]) -> list[str]:
            right = f.load(self._column(f, vector, j), self.dtype, width)
            left = [f.load(self._column(f, line, j), self.dtype, width) for line in lines]
            return [e.fused(one, right, total) for one, total in zip(left, sums, strict=True)]

        sums = [e.number(0.0)] * len(lines)
        if whole:
            sums = f.fold(whole, width, [e.kind] * len(lines), sums, add)
        if columns > whole:
            right = self._rest(f, vector)
            sums = [e.fused(self._rest(f, line), right, total) for line, total in zip(lines, sums, strict=True)]
        sums += sums[-1:] * (width - len(sums))  # what the last elements are then is not used
        apart = 1
        while apart < width:  # element p of a sum comes to belong to row p
            for at in (at for at in range(width) if not at & apart):
                one, other = sums[at], sums[at + apart]
                mine = [p if not p & apart else width + p - apart for p in range(width)]
                others = [p + apart if not p & apart else width + p for p in range(width)]
                sums[at] = e.add(*(self._shuffled(f, one, other, places) for places in (mine, others)))
            apart *= 2
        return f.shuffle(sums[0], width, kind, range(len(lines)))

    def _shuffled(self, f: IRFunction, one: str, other: str, places: list[int]) -> str:
        whole, mask = f"<{self.width} x {self.kind}>", ", ".join(f"i32 {place}" for place in places)
        return f.get(f"shufflevector {whole} {one}, {whole} {other}, <{self.width} x i32> <{mask}>")

    def _rest(self, f: IRFunction, line: str) -> str:
        """Return the last elements of a row, which do not fill a vector, and zeros."""
        width, columns = self.width, self.product.columns
        count = columns % width
        found = f.load(f.at(line, (columns - count) * SIZES[self.dtype]), self.dtype, count if count > 1 else 0)
        zero = Arithmetic(f, self.dtype, count if count > 1 else width).number(0.0)
        if count == 1:
            return f.put(zero, found, 0, self.kind, width)
        return f.select(found, count, zero, self.kind, [p if p < count else -1 for p in range(width)])

    def _add(self, f: IRFunction, lines: list[str], factors: str, to: str) -> None:
        """Add rows, each times its factor, to a sum."""
        count, columns = len(lines), self.product.columns
        ones = [f.pick(factors, row, self.kind, count if count > 1 else 0) for row in range(count)]

        def add(j: str, width: int) -> None:
            e, pointer = Arithmetic(f, self.dtype, width), self._column(f, to, j)
            sums = [f.load(pointer, self.dtype, width), e.number(0.0)]  # two, for neither to wait for the other
            for row, (line, one) in enumerate(zip(lines, ones, strict=True)):
                left = f.load(self._column(f, line, j), self.dtype, width)
                sums[row % 2] = e.fused(left, f.spread(one, self.kind, width), sums[row % 2])
            f.store(e.add(*sums), pointer, self.dtype, width)

        self._over_columns(f, columns, add)

    def _over_columns(self, f: IRFunction, count: int, write: Callable[[str, int], None]) -> None:
        """Write a loop over columns in vectors, and over the rest."""
        whole, left = count - count % self.width, count % self.width
        f.loop(0, whole, self.width, lambda j: write(j, self.width))
        if left:
            write(str(whole), left if left > 1 else 0)

    # -- sums ---------------------------------------------------------------------------------------------------------

    def _join(self, f: IRFunction, room: str, other: str) -> None:
        """Write the addition of another part's sums."""
        for start in self.starts[: len(self.added)]:

            def add(j: str, width: int, start: int = start) -> None:
                to, one = (self._column(f, f.at(pointer, start), j) for pointer in (room, other))
                total = f.load(to, self.dtype, width), f.load(one, self.dtype, width)
                f.store(Arithmetic(f, self.dtype, width).add(*total), to, self.dtype, width)

            self._over_columns(f, self.product.columns, add)
        for step, start in zip(self.sums, self.starts[len(self.added) :], strict=True):
            dtype = self.low.dtype(step.made[0])
            to, one = f.at(room, start), f.at(other, start)
            total = f.load(to, dtype, self.width), f.load(one, dtype, self.width)
            f.store(joined(Arithmetic(f, dtype, self.width), step.op, *total), to, dtype, self.width)

    def _finish(self, f: IRFunction, room: str) -> None:
        """Write the sums where they are expected."""
        for (made, _), start in zip(self.added, self.starts, strict=False):

            def move(j: str, width: int, made: int = made, start: int = start) -> None:
                found = f.load(self._column(f, f.at(room, start), j), self.dtype, width)
                f.store(found, self._column(f, self.at[made], j), self.dtype, width)

            self._over_columns(f, self.product.columns, move)
        for step, start in zip(self.sums, self.starts[len(self.added) :], strict=True):
            (made,), dtype = step.made, self.low.dtype(step.made[0])
            e, width = Arithmetic(f, dtype, 0), self.width
            found = f.load(f.at(room, start), dtype, width)
            lanes = [f.pick(found, at, TYPES[dtype], width) for at in range(width)]
            while len(lanes) > 1:
                lanes = [joined(e, step.op, a, b) for a, b in zip(lanes[::2], lanes[1::2], strict=True)]
            total = e.divide(lanes[0], e.number(self.product.rows)) if step.op == "mean" else lanes[0]
            f.store(total, self.at[made], dtype)
