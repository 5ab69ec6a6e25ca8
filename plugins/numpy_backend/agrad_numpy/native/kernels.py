"""Kernels: the functions that a schedule consists of, as LLVM's text.

Each is written for a group of steps; two groups with one key have the same text, which then exists once. A kernel gets
its operands by its arguments, pairs of a slot and an offset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agrad.plugin.programs import Ref, Step
from agrad_numpy.native import elementwise, linalg, spreading
from agrad_numpy.native.expanding import DIAGONALS, LARGEST
from agrad_numpy.native.ir import SIZES, TYPES, WIDTHS, Arithmetic, IRFunction, literal, vector
from agrad_numpy.native.lowering import FusionGroup, LoweredProgram, Placement, collapsed, contiguous
from agrad_numpy.native.vector_math import Math, any_of

#: Sums of up to this many elements are computed sequentially in eight lanes, and longer ones in halves: NumPy's order.
LEAF = 128

#: The initial value of NumPy's sums: 0.0, or -0.0 in versions that preserve the sign of a zero.
FIRST = float(np.add.reduce(np.array([-0.0])))

#: More operands than that, which are copied alike, are copied in a loop.
MANY = 4

#: Loops with this many steps take two vectors at a time, so that one does not wait for the other.
LONG = 12


#: Returns the addresses of a ufunc's loop.
Address = Callable[[Any, tuple[str, ...]], list[tuple[int, int]]]


class Key(tuple[Any, ...]):  # noqa: SLOT001 (tuples have no slots)
    """A tuple that is hashed once."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


class Kernel:
    """One kernel and its operands at one position of the schedule.

    Attributes
    ----------
    key : tuple
        The key that determines its text.
    args : list of (int, int)
        Slots and offsets.
    """

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math) -> None:
        self.low, self.group, self.math = low, group, math_
        self.steps = [low.steps[at] for at in group.steps]
        self.args: list[tuple[int, int]] = []
        self.key: tuple[Any, ...] = ()
        self.declared: set[str] = set()
        self._like: Kernel | None = None

    def text(self, name: str) -> str:
        """Return the kernel under a name, with the functions that it calls."""
        if self._like is not None:
            found = self._like.text(name)
            self.declared = self._like.declared
            return found
        f = IRFunction()
        before = self.write(f, self.pointers_of(f), name)
        self.declared |= f.declared
        return "\n".join([*before, f"define void @{name}(ptr %slots, ptr %args) {{", *f.lines, "  ret void", "}"])

    def pointers_of(self, f: IRFunction) -> list[str]:
        """Return the position of an operand."""
        return [self.pointer(f, 16 * at) for at in range(len(self.args))]

    def pointer(self, f: IRFunction, at: str | int) -> str:
        """Return the position of an argument this many bytes further on."""
        pair = f.at("%args", at)
        slot, offset = f.get(f"load i64, ptr {pair}"), f.get(f"load i64, ptr {f.at(pair, 8)}")
        base = f.get(f"load ptr, ptr {f.get(f'getelementptr ptr, ptr %slots, i64 {slot}')}")
        return f.at(base, offset)

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        """Write the kernel's lines; return the lines of functions that precede it."""
        raise NotImplementedError

    def _parts(self, f: IRFunction, part: IRFunction, room: str, count: int, name: str, spread: bool) -> list[str]:
        """Write the calls that run the parts, on several threads if `spread`; return the lines of the function that runs one."""
        self.declared |= part.declared
        given = f"ptr %slots, ptr %args, ptr {room}"
        if spread:
            self.declared.add(spreading.TEXT)
            f.do(f"call void @spread(ptr @{name}.part, {given}, i64 {count}, i64 {self.low.threads})")
        else:
            f.loop(0, count, 1, lambda k: f.do(f"call void @{name}.part({given}, i64 {k})"))
        head = f"define internal void @{name}.part(ptr %slots, ptr %args, ptr %room, i64 %k) {{"
        return [head, *part.lines, "  ret void", "}"]

    # -- of fused steps -----------------------------------------------------------------------------------------------

    def _follows(self) -> bool:
        """Copy the known facts from a similar group's kernel; return False if it is not the same."""
        low, group = self.low, self.group
        other: Any = None if group.like is None else group.like.kernel
        if other is None:
            group.kernel = self
            return False
        numbers, places = group.numbers, low.places
        stored = [n for n in map(numbers.__getitem__, other.made) if low.is_in_memory(n) and places[n].root == n]
        if stored != [numbers[n] for n in other.stored]:
            return False
        for number in (*other.taken, *other.made):
            now, then = places[numbers[number]], places[number]
            if (now.strides, now.shape, now.dtype) != (then.strides, then.shape, then.dtype):
                return False
        self._like, self.key = other, other.key
        self.args = [low.where(number) for number in (*map(numbers.__getitem__, other.taken), *stored)]
        if len(other.args) > len(self.args):
            self.args.append(low.status)
        return True

    def _fuse(self) -> None:
        """Find the values that the steps read from memory, and those they write."""
        low = self.low
        self.made = [number for step in self.steps for number in step.made]
        inside = set(self.made)
        self.taken = [*dict.fromkeys(r for step in self.steps for r in step.refs if r not in inside)]
        self.stored = [number for number in self.made if low.is_in_memory(number) and low.places[number].root == number]
        self.args = [low.where(number) for number in (*self.taken, *self.stored)]

    def _structure(self) -> tuple[Any, ...]:
        """Return the steps with values numbered by their positions among those of the kernel."""
        local = {number: at for at, number in enumerate((*self.taken, *self.made))}
        stored = set(self.stored)

        def part_of(part: Any) -> Any:
            if type(part) is Ref:
                return ("value", local[part.number])
            if isinstance(part, tuple | list):
                return tuple(map(part_of, part))
            return type(part).__name__, repr(part)

        return tuple(
            (
                step.op,
                tuple(map(part_of, step.args)),
                tuple((key, part_of(value)) for key, value in step.kwargs.items()),
                tuple((self.low.shapes[n], n in stored) for n in step.made),
                tuple(None if n is None else local[n] for n in step.outs),
            )
            for step in self.steps
        )

    def _layout(self, number: int) -> tuple[Any, ...]:
        place = self.low.places[number]
        return place.shape, place.strides, place.dtype.name


class TinyKernel(Kernel):
    """Values of a few elements, each one vector, in C order: views are shuffles."""

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math) -> None:
        super().__init__(low, group, math_)
        if self._follows():
            return
        self._fuse()
        orders = tuple(low.places[step.refs[0]].strides for step in self.steps if low.is_sum(step))
        layouts = tuple(self._layout(number) for number in (*self.taken, *self.stored))
        self.key = Key(("tiny", self._structure(), layouts, orders))
        self.fails = any(low.is_linalg(step) for step in self.steps)
        if self.fails:
            self.args.append(low.status)

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        low = self.low
        self.f, self.values = f, dict[int, str]()
        *pointers, self.status = pointers if self.fails else [*pointers, ""]
        for number, pointer in zip(self.taken, pointers, strict=False):
            self.values[number] = self._load(low.places[number], pointer)
        stored = dict(zip(self.stored, pointers[len(self.taken) :], strict=True))
        for step in self.steps:
            if step.op == "unstack":
                axis = step.kwargs.get("axis", 0)
                whole = self._places(step.refs[0])
                for at, number in enumerate(step.outs):
                    if number is not None:
                        self.values[number] = self._shuffled(step.refs[0], np.take(whole, at, axis))
            else:
                self.values[step.made[0]] = self._value(step)
            for number in step.made:
                if number in stored:
                    self._store(self.values[number], low.places[number], stored[number])
        return []

    # -- memory -------------------------------------------------------------------------------------------------------

    def _load(self, place: Placement, pointer: str) -> str:
        dtype, count, f = place.dtype.name, place.size, self.f
        kind, width = TYPES[dtype], count if count > 1 else 0
        offsets = offsets_of(place)
        if sorted(offsets) == [SIZES[dtype] * i for i in range(count)]:
            found = f.load(pointer, dtype, width)
            return f.shuffle(found, count, kind, [offset // SIZES[dtype] for offset in offsets])
        if len(set(offsets)) == 1:
            return f.spread(f.load(f.at(pointer, offsets[0]), dtype), kind, width)
        found = "poison"
        for at, offset in enumerate(offsets):
            found = f.put(found, f.load(f.at(pointer, offset), dtype), at, kind, width)
        return found

    def _store(self, value: str, place: Placement, pointer: str) -> None:
        dtype, count = place.dtype.name, place.size
        offsets = offsets_of(place)
        order = np.argsort(offsets)
        if place.span != count * SIZES[dtype]:
            for at, offset in enumerate(offsets):
                one = self.f.pick(value, at, TYPES[dtype], count if count > 1 else 0)
                self.f.store(one, self.f.at(pointer, offset), dtype)
            return
        self.f.store(self.f.shuffle(value, count, TYPES[dtype], order), pointer, dtype, count if count > 1 else 0)

    # -- values -------------------------------------------------------------------------------------------------------

    def _places(self, number: int) -> Any:
        """Return an array of a value's shape that holds each element's position in its vector."""
        return np.arange(self.low.size(number)).reshape(self.low.shapes[number].shape)

    def _shuffled(self, number: int, places: Any) -> str:
        return self.f.shuffle(self.values[number], self.low.size(number), self._kind(number), np.ravel(places))

    def _kind(self, number: int) -> str:
        return TYPES[self.low.dtype(number)]

    def _width(self, number: int) -> int:
        size = self.low.size(number)
        return size if size > 1 else 0

    def _value(self, step: Step) -> str:
        low, f = self.low, self.f
        made = step.made[0]
        shape, dtype, width = low.shapes[made].shape, low.dtype(made), self._width(made)
        if elementwise.supports(step, low.shapes, own=low.own):

            def operand(part: Any, wanted: str) -> str:
                if type(part) is not Ref:
                    return literal(part, wanted, width)
                found = self._shuffled(part.number, np.broadcast_to(self._places(part.number), shape))
                return elementwise.converted(f, found, low.dtype(part.number), wanted, width)

            return elementwise.value(f, step, operand, low.dtype, width, self.math)
        if step.op in ("stack", "concat"):
            return self._joined(step)
        if step.op == "scatter_add":
            return self._put(step)
        if low.is_sum(step):
            return self._sum(step)
        if step.op == "matmul":
            return self._product(step)
        if low.is_linalg(step):
            return self._linalg(step)
        if step.op in ("tril", "triu"):
            keep = getattr(np, step.op)(np.ones(shape, bool), step.kwargs.get("k", 0)).ravel()
            places = [at if kept else -1 for at, kept in enumerate(keep)]
            zero = literal(0, dtype, width)
            return self._or_zero(self.values[step.refs[0]], len(places), zero, dtype, places)
        return self._shuffled(step.refs[0], view_of(step, self._places(step.refs[0]), shape))

    def _or_zero(self, value: str, count: int, zero: str, dtype: str, places: Sequence[int]) -> str:
        """Return elements at positions of a value with a number of elements, and zero where the position is negative."""
        kind = TYPES[dtype]
        if len(places) == 1:
            return (
                self.f.pick(value, places[0], kind, count if count > 1 else 0) if places[0] >= 0 else literal(0, dtype)
            )
        if count > 1:
            return self.f.select(value, count, literal(0, dtype, count), kind, places)
        found = zero
        for at, place in enumerate(places):
            if place >= 0:
                found = self.f.put(found, value, at, kind, len(places))
        return found

    def _joined(self, step: Step) -> str:
        parts = [ref.number for ref in step.args[0]]
        axis = step.kwargs.get("axis", step.args[1] if len(step.args) > 1 else 0)
        marked = [np.stack([np.full_like(self._places(n), k), self._places(n)]) for k, n in enumerate(parts)]
        shape = self.low.shapes[step.made[0]].shape
        axis = axis + len(shape) if axis < 0 else axis
        join = np.stack if step.op == "stack" else np.concatenate
        of, at = join(marked, axis=axis + 1).reshape(2, -1)
        found, width, kind = "poison", self._width(step.made[0]), self._kind(step.made[0])
        for place, (k, element) in enumerate(zip(of, at, strict=True)):
            one = self.f.pick(self.values[parts[k]], int(element), kind, self._width(parts[k]))
            found = self.f.put(found, one, place, kind, width)
        return found

    def _put(self, step: Step) -> str:
        """Return zeros with a value at a key."""
        number, made = step.refs[0], step.made[0]
        region = self._places(made)[step.args[1]]
        places = np.full(self.low.size(made), -1)
        given = self._places(number)
        given = given.reshape(given.shape[max(given.ndim - np.ndim(region), 0) :])
        places[np.ravel(region)] = np.ravel(np.broadcast_to(given, np.shape(region)))
        dtype = self.low.dtype(made)
        zero = literal(0, dtype, self._width(made))
        return self._or_zero(self.values[number], self.low.size(number), zero, dtype, places.tolist())

    def _sum(self, step: Step) -> str:
        """Return a sum in NumPy's order: over the axes as they lie in memory, the last one in pairs."""
        low, f = self.low, self.f
        number, made = step.refs[0], step.made[0]
        dtype, kind = low.dtype(made), self._kind(made)
        order, axes = low.sum_order(step), low.axes(step)
        assert order is not None
        whole = self._places(number)
        places = whole.transpose(order) if whole.ndim else whole
        target = np.empty(whole.shape, np.int64)  # by element of the operand, the element of the result it is added to
        kept = [1 if i in axes else n for i, n in enumerate(whole.shape)]
        target[...] = np.arange(math.prod(kept)).reshape(kept)
        targets = target.transpose(order) if whole.ndim else target
        lying = [low.places[number].strides[i] for i in order]
        shape, _ = collapsed(places.shape, [lying, reduced_strides(places.shape, order, axes)])
        inner = shape[-1] if shape else 1
        rows, ends = places.reshape(-1, inner), targets.reshape(-1, inner)
        e = Arithmetic(f, dtype, 0)
        count = low.size(number)
        pick = lambda place: f.pick(self.values[number], int(place), kind, count if count > 1 else 0)
        sums: dict[int, str] = {}
        for row, end in zip(rows, ends, strict=True):
            if inner > 1 and end[0] == end[-1]:  # along the summed axes
                parts = {int(end[0]): pairwise(e, step.op, [pick(place) for place in row])}
            else:
                parts = {int(to): pick(place) for place, to in zip(row, end, strict=True)}
            for to, part in parts.items():
                sums[to] = joined(e, step.op, sums.get(to, e.number(first_of(step.op, FIRST))), part)
        found, width = "poison", self._width(made)
        for to, part in sorted(sums.items()):
            one = e.divide(part, e.number(count // len(sums))) if step.op == "mean" else part
            found = f.put(found, one, to, kind, width)
        return found

    def _product(self, step: Step) -> str:
        """Return a product of matrices or vectors, whose terms are added in order, each rounded once."""
        a, b = step.refs
        left, right = self._places(a), self._places(b)
        left = left.reshape(1, -1) if left.ndim == 1 else left
        right = right.reshape(-1, 1) if right.ndim == 1 else right
        rows, columns = left.shape[0], right.shape[1]
        e = Arithmetic(self.f, self.low.dtype(step.made[0]), self._width(step.made[0]))
        found = ""
        for k in range(left.shape[1]):
            x = self._shuffled(a, np.repeat(left[:, k], columns))
            y = self._shuffled(b, np.tile(right[k], rows))
            found = e.fused(x, y, found) if found else e.multiply(x, y)
        return found

    def _linalg(self, step: Step) -> str:
        """Return the result of linear algebra, in double precision like NumPy's; record whether precision was lost."""
        low, f = self.low, self.f
        dtype = low.dtype(step.made[0])
        wide = dtype if step.op == "linalg.cholesky" else "float64"
        e = Arithmetic(f, wide, 0)

        def matrix(number: int) -> list[list[str]]:
            places = self._places(number)
            places = places.reshape(-1, 1) if places.ndim == 1 else places
            count, kind = low.size(number), self._kind(number)
            pick = lambda at: f.pick(self.values[number], int(at), kind, count if count > 1 else 0)
            return [[elementwise.converted(f, pick(at), dtype, wide, 0) for at in row] for row in places]

        a = matrix(step.refs[0])
        if step.op == "linalg.cholesky":
            found, lost = linalg.cholesky(e, a)
            if step.kwargs.get("upper"):
                found = [list(column) for column in zip(*found, strict=True)]
        elif step.op == "linalg.det":
            value, lost = linalg.determinant(e, a)
            found = [[value]]
        elif step.op == "scipy.solve_triangular":
            lower, unit = (bool(step.kwargs.get(name)) for name in ("lower", "unit_diagonal"))
            found, lost = linalg.triangular(e, a, matrix(step.refs[-1]), lower=lower, unit=unit)
        else:
            one, zero = e.number(1.0), e.number(0.0)
            identity = [[one if i == j else zero for j in range(len(a))] for i in range(len(a))]
            found, lost = linalg.solved(e, a, matrix(step.refs[1]) if step.op == "linalg.solve" else identity)
        before = f.get(f"load i64, ptr {self.status}, align 8")
        after = f.get(f"or i64 {before}, {f.get(f'zext i1 {lost} to i64')}")
        f.do(f"store i64 {after}, ptr {self.status}, align 8")
        made, width, kind = "poison", self._width(step.made[0]), self._kind(step.made[0])
        for at, value in enumerate(value for row in found for value in row):
            made = f.put(made, elementwise.converted(f, value, wide, dtype, 0), at, kind, width)
        return made


def reduced_strides(shape: Sequence[int], order: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a sum's result along the axes of its operand, in an order; 0 along summed axes."""
    kept = [1 if axis in axes else n for axis, n in zip(order, shape, strict=True)]
    return tuple(0 if axis in axes else s for axis, s in zip(order, contiguous(kept, 1), strict=True))


def first_of(op: str, of_sums: float = -0.0) -> float:
    """Return the initial value of a sum, or of a largest or smallest element."""
    return {"max": -math.inf, LARGEST: -math.inf, "min": math.inf}.get(op, of_sums)


def joined(e: Arithmetic, op: str, a: str, b: str) -> str:
    """Return the sum of two, or their maximum or minimum."""
    return {"max": e.maximum, LARGEST: e.maximum, "min": e.minimum}.get(op, e.add)(a, b)


def pairwise(e: Arithmetic, op: str, parts: list[str]) -> str:
    """Return the sum of scalars in the order in which NumPy adds a row: eight partial sums, if there are enough."""
    count = len(parts)
    if count < 8:
        total = e.number(first_of(op))
        for part in parts:
            total = joined(e, op, total, part)
        return total
    sums = parts[:8]
    for at in range(8, count - count % 8):
        sums[at % 8] = joined(e, op, sums[at % 8], parts[at])
    total = together(e, op, sums)
    for part in parts[count - count % 8 :]:
        total = joined(e, op, total, part)
    return total


def together(e: Arithmetic, op: str, sums: Sequence[str]) -> str:
    """Return the sum of eight."""
    one, two, three, four = (joined(e, op, sums[i], sums[i + 1]) for i in (0, 2, 4, 6))
    return joined(e, op, joined(e, op, one, two), joined(e, op, three, four))


def offsets_of(place: Placement) -> list[int]:
    """Return the offsets of a value's elements, in C order."""
    found = np.zeros(place.shape, np.int64)
    for axis, (n, stride) in enumerate(zip(place.shape, place.strides, strict=True)):
        found = found + (np.arange(n) * stride).reshape([-1 if i == axis else 1 for i in range(len(place.shape))])
    return [int(offset) for offset in found.ravel()]


def view_of(step: Step, array: Any, shape: tuple[int, ...]) -> Any:
    """Return the result of a step that moves elements, on an array."""
    op, more = step.op, step.args[1:]
    if op == "getitem":
        return array[more[0]]
    if op == "permute_dims":
        return array.transpose(more[0] if more else step.kwargs["axes"])
    if op == "matrix_transpose":
        return array.mT
    if op in ("broadcast_to", "broadcast_like"):
        return np.broadcast_to(array, shape)
    if op == "linalg.diagonal":
        return np.diagonal(array, step.kwargs.get("offset", 0), -2, -1)
    if op == "flip":
        return np.flip(array, more[0] if more else step.kwargs.get("axis"))
    if op == "moveaxis":
        return np.moveaxis(array, *more, **step.kwargs)
    return array.reshape(shape)  # reshape, expand_dims, squeeze


class ElementwiseLoop(Kernel):
    """Elementwise steps over one shape, in vectors; and sums of their results."""

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math) -> None:
        super().__init__(low, group, math_)
        if self._follows():
            return
        self._fuse()
        self.sums = [step for step in self.steps if low.is_sum(step)]
        self.others = [step for step in self.steps if not low.is_sum(step)]
        self.order = self._order()
        shape = group.shape
        self.shape = [shape[i] for i in self.order]
        kept = {number for step in self.sums for number in step.made}
        self.read = self.taken
        self.written = [number for number in self.stored if number not in kept]
        self.strides = [[low.places[n].over(shape)[i] for i in self.order] for n in (*self.read, *self.written)]
        for step in self.sums:
            place, axes = low.places[step.made[0]], low.axes(step)
            own = iter(place.strides)
            if step.kwargs.get("keepdims"):
                along = [0 if i in axes else place.strides[i] for i in range(len(shape))]
            else:
                along = [0 if i in axes else next(own) for i in range(len(shape))]
            self.strides.append([along[i] for i in self.order])
        dtypes = tuple(low.places[n].dtype.name for n in (*self.read, *self.written))
        self.key = Key(("loop", self._structure(), tuple(self.shape), tuple(map(tuple, self.strides)), dtypes))

    def _order(self) -> list[int]:
        """Return the axes in memory order: for a sum, in the order in which NumPy traverses it, otherwise that of a result."""
        low = self.low
        if self.sums:
            order = low.sum_order(self.sums[0])
            assert order is not None
            return order
        strides = low.places[self.stored[0] if self.stored else self.made[-1]].strides
        return sorted(range(len(strides)), key=lambda i: (-strides[i], i))

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        low = self.low
        shape, strides = collapsed(self.shape, self.strides)
        found = dict(zip((*self.taken, *self.stored), pointers, strict=True))
        numbers = [*self.read, *self.written, *(step.made[0] for step in self.sums)]
        self.pointers = [found[number] for number in numbers]
        dtypes = [low.dtype(number) for number in self.made + self.read if low.dtype(number) != "bool"]
        width = min((WIDTHS[dtype] for dtype in dtypes), default=8)
        if len(self.others) >= LONG and math.prod(self.shape) >= 256:
            width *= 2
        self.spread = low.threads > 1 and math.prod(shape) >= spreading.SPREAD_FROM
        if self.sums:
            return self._sums(f, shape, strides, width, name)

        def over(f: IRFunction, sizes: Sequence[int], pointers: list[str]) -> None:
            f.nest(sizes, strides, width, lambda offsets, w: self._body(f, pointers, offsets, strides, w) and None)

        if not self.spread:
            over(f, shape, self.pointers)
            return []
        rows = max(1, spreading.PART // math.prod(shape[1:]))
        whole, left = divmod(shape[0], rows)
        steps = [row[0] for row in strides]
        if left:
            behind = zip(self.pointers, steps, strict=True)
            over(f, [left, *shape[1:]], [f.at(p, whole * rows * step) for p, step in behind])
        part = IRFunction()
        starts = [part.get(f"mul i64 %k, {rows * step}") for step in steps]
        over(part, [rows, *shape[1:]], [part.at(p, s) for p, s in zip(self._pointers_in(part), starts, strict=True)])
        return self._parts(f, part, "null", whole, name, spread=True)

    # -- on several threads -------------------------------------------------------------------------------------------

    def _pointers_in(self, f: IRFunction) -> list[str]:
        """Return the positions of everything in such a function."""
        found = dict(zip((*self.taken, *self.stored), self.pointers_of(f), strict=True))
        return [found[number] for number in (*self.read, *self.written, *(step.made[0] for step in self.sums))]

    def _body(
        self,
        f: IRFunction,
        pointers: Sequence[str],
        offsets: Sequence[str],
        strides: Sequence[Sequence[int]],
        width: int,
        known: Mapping[int, str] | None = None,
    ) -> Callable[[int], str]:
        """Write the steps except sums at one position; return the function that returns a value there."""
        low, values = self.low, dict(known or {})

        def value_of(number: int) -> str:
            if number not in values:
                at = self.read.index(number)
                pointer = f.at(pointers[at], offsets[at])
                step = strides[at][-1] if strides[at] else 0
                values[number] = f.load_strided(pointer, step, low.dtype(number), width)
            return values[number]

        def operand(part: Any, wanted: str) -> str:
            if type(part) is not Ref:
                return literal(part, wanted, width)
            return elementwise.converted(f, value_of(part.number), low.dtype(part.number), wanted, width)

        for step in self.others:
            made = step.made[0]
            values[made] = elementwise.value(f, step, operand, low.dtype, width, self.math)
            if made in self.written:
                at = len(self.read) + self.written.index(made)
                step_ = strides[at][-1] if strides[at] else 0
                f.store_strided(values[made], f.at(pointers[at], offsets[at]), step_, low.dtype(made), width)
        return value_of

    def _sums(
        self, f: IRFunction, shape: list[int], strides: Sequence[Sequence[int]], width: int, name: str
    ) -> list[str]:
        """Write sums: rows are added in pairs, other axes sequentially."""
        low = self.low
        dtype = low.dtype(self.sums[0].made[0])
        first = len(self.read) + len(self.written)
        of_sums = range(first, len(strides))
        e = Arithmetic(f, dtype, 0)
        kept = [axis for axis in range(len(shape)) if strides[first][axis]]
        outer = [shape[axis] for axis in kept]
        steps = [[strides[at][axis] for axis in kept] for at in of_sums]

        def begin(offsets: list[str], _: int) -> None:
            for at, offset, step in zip(of_sums, offsets, self.sums, strict=True):
                f.store(e.number(first_of(step.op, FIRST)), f.at(self.pointers[at], offset), dtype)

        f.nest(outer, steps, 0, begin)
        before: list[str] = []
        if shape and not strides[first][-1]:
            before = self._rows(dtype, [row[-1] for row in strides], name)
            kinds = self._results(dtype)

            def row(offsets: list[str], _: int) -> None:
                if self.spread and len(shape) == 1:
                    found, lines = self._row_in_parts(f, shape[0], dtype, name)
                    before.extend(lines)
                else:
                    given = ", ".join(f"ptr {f.at(p, o)}" for p, o in zip(self.pointers, offsets, strict=True))
                    found = f.get(f"call {kinds} @{name}.row({given}, i64 0, i64 {shape[-1]})")
                for k, (at, step) in enumerate(zip(of_sums, self.sums, strict=True)):
                    part = f.get(f"extractvalue {kinds} {found}, {k}")
                    pointer = f.at(self.pointers[at], offsets[at])
                    f.store(joined(e, step.op, f.load(pointer, dtype), part), pointer, dtype)

            f.nest(shape[:-1], [row_[:-1] for row_ in strides], 0, row)
        else:

            def columns(offsets: list[str], w: int) -> None:
                value_of = self._body(f, self.pointers, offsets, strides, w)
                wide = Arithmetic(f, dtype, w)
                for step, at in zip(self.sums, of_sums, strict=True):
                    pointer, along = f.at(self.pointers[at], offsets[at]), strides[at][-1] if strides[at] else 0
                    before_ = f.load_strided(pointer, along, dtype, w)
                    total = joined(wide, step.op, before_, value_of(step.refs[0]))
                    f.store_strided(total, pointer, along, dtype, w)

            f.nest(shape, strides, width, columns)
        means = [step.op == "mean" for step in self.sums]
        if any(means):
            count = math.prod(self.shape) // max(math.prod(outer), 1)

            def divide(offsets: list[str], _: int) -> None:
                for at, offset, mean in zip(of_sums, offsets, means, strict=True):
                    if mean:
                        pointer = f.at(self.pointers[at], offset)
                        f.store(e.divide(f.load(pointer, dtype), e.number(count)), pointer, dtype)

            f.nest(outer, steps, 0, divide)
        return before

    def _row_in_parts(self, f: IRFunction, count: int, dtype: str, name: str) -> tuple[str, list[str]]:
        """Write the sum of a row on several threads, in the same halves; return the sums, and lines of functions."""
        kinds, parts = self._results(dtype), spreading.halves(0, count)
        part = IRFunction()
        table = part.get(f"getelementptr [2 x i64], ptr @{name}.parts, i64 %k")
        start, size = part.get(f"load i64, ptr {table}"), part.get(f"load i64, ptr {part.at(table, 8)}")
        given = ", ".join(f"ptr {p}" for p in self._pointers_in(part))
        found = part.get(f"call {kinds} @{name}.row({given}, i64 {start}, i64 {size})")
        part.do(f"store {kinds} {found}, ptr {part.get(f'getelementptr {kinds}, ptr %room, i64 %k')}")
        room = f.get(f"alloca [{len(parts)} x {kinds}], align 8")
        lines = self._parts(f, part, room, len(parts), name, spread=True)
        numbers = ", ".join(f"[2 x i64] [i64 {a}, i64 {b}]" for a, b in parts)
        lines.append(f"@{name}.parts = internal constant [{len(parts)} x [2 x i64]] [{numbers}]")
        e, left = Arithmetic(f, dtype, 0), iter(range(len(parts)))

        def total(size: int) -> list[str]:
            if size <= spreading.PART:
                one = f.get(f"load {kinds}, ptr {f.get(f'getelementptr {kinds}, ptr {room}, i64 {next(left)}')}")
                return [f.get(f"extractvalue {kinds} {one}, {k}") for k in range(len(self.sums))]
            first = (size >> 1) & -8
            pairs = zip(self.sums, total(first), total(size - first), strict=True)
            return [joined(e, step.op, a, b) for step, a, b in pairs]

        found = "poison"
        for k, one in enumerate(total(count)):
            found = f.get(f"insertvalue {kinds} {found}, {TYPES[dtype]} {one}, {k}")
        return found, lines

    def _results(self, dtype: str) -> str:
        return f"{{{', '.join([TYPES[dtype]] * len(self.sums))}}}"

    def _rows(self, dtype: str, steps: Sequence[int], name: str) -> list[str]:
        """Return functions that sum a row: one for lengths that NumPy adds sequentially, one that halves longer rows."""
        kind, kinds = TYPES[dtype], self._results(dtype)
        names = [f"%p{k}" for k in range(len(self.pointers))]
        given = ", ".join(f"ptr {p}" for p in names)
        f = IRFunction()
        eight, one = Arithmetic(f, dtype, 8), Arithmetic(f, dtype, 0)
        strides = [[step] for step in steps]
        wide = [f.get(f"alloca {eight.kind}, align 32") for _ in self.sums]
        totals = [f.get(f"alloca {kind}, align 8") for _ in self.sums]
        for step, w, t in zip(self.sums, wide, totals, strict=True):
            f.do(f"store {eight.kind} {eight.number(first_of(step.op))}, ptr {w}, align 32")
            f.do(f"store {kind} {one.number(first_of(step.op))}, ptr {t}, align 8")
        whole, end = f.get("and i64 %count, -8"), f.get("add i64 %start, %count")
        middle = f.get(f"add i64 %start, {whole}")

        def part(width: int) -> Callable[[str], None]:
            def body(index: str) -> None:
                offsets = [f.times(index, step) for step in steps]
                value_of = self._body(f, names, offsets, strides, width)
                for step, w, t in zip(self.sums, wide, totals, strict=True):
                    value = value_of(step.refs[0])
                    if width:
                        total = joined(eight, step.op, f.get(f"load {eight.kind}, ptr {w}, align 32"), value)
                        f.do(f"store {eight.kind} {total}, ptr {w}, align 32")
                    else:
                        total = joined(one, step.op, f.get(f"load {kind}, ptr {t}, align 8"), value)
                        f.do(f"store {kind} {total}, ptr {t}, align 8")

            return body

        self._if(f, f"icmp ne i64 {whole}, 0", lambda: self._eights(f, middle, part(8), wide, totals, dtype))
        self._if(f, f"icmp slt i64 {middle}, {end}", lambda: f.loop(middle, end, 1, part(0)))
        found = "poison"
        for k, t in enumerate(totals):
            found = f.get(f"insertvalue {kinds} {found}, {kind} {f.get(f'load {kind}, ptr {t}, align 8')}, {k}")
        self.declared |= f.declared
        head = f"({given}, i64 %start, i64 %count)"
        leaf = [f"define internal {kinds} @{name}.leaf{head} noinline {{", *f.lines, f"  ret {kinds} {found}", "}"]
        return [*leaf, *self._halving(name, given, kinds, dtype)]

    def _if(self, f: IRFunction, condition: str, then: Callable[[], None]) -> None:
        name, truth = f.name("if"), f.get(condition)
        f.do(f"br i1 {truth}, label %{name}.then, label %{name}.after")
        f.label(f"{name}.then")
        then()
        f.do(f"br label %{name}.after")
        f.label(f"{name}.after")

    def _eights(
        self, f: IRFunction, middle: str, body: Callable[[str], None], wide: list[str], totals: list[str], dtype: str
    ) -> None:
        """Write the loop over vectors of eight, and add the eight sums."""
        f.loop("%start", middle, 8, body)
        e, eight = Arithmetic(f, dtype, 0), vector(TYPES[dtype], 8)
        for step, w, t in zip(self.sums, wide, totals, strict=True):
            sums = f.get(f"load {eight}, ptr {w}, align 32")
            total = together(e, step.op, [f.pick(sums, k, TYPES[dtype], 8) for k in range(8)])
            f.do(f"store {TYPES[dtype]} {total}, ptr {t}, align 8")

    def _halving(self, name: str, given: str, kinds: str, dtype: str) -> list[str]:
        kind, f = TYPES[dtype], IRFunction()
        lines = [
            f"define internal {kinds} @{name}.row({given}, i64 %start, i64 %count) noinline {{",
            f"  %short = icmp ule i64 %count, {LEAF}",
            "  br i1 %short, label %leaf, label %halves",
            "leaf:",
            f"  %whole = call {kinds} @{name}.leaf({given}, i64 %start, i64 %count)",
            f"  ret {kinds} %whole",
            "halves:",
            "  %half = lshr i64 %count, 1",
            "  %first = and i64 %half, -8",
            "  %second = sub i64 %count, %first",
            "  %from = add i64 %start, %first",
            f"  %a = call {kinds} @{name}.row({given}, i64 %start, i64 %first)",
            f"  %b = call {kinds} @{name}.row({given}, i64 %from, i64 %second)",
        ]
        made = "poison"
        for k, step in enumerate(self.sums):
            one, other = (f.get(f"extractvalue {kinds} %{part}, {k}") for part in "ab")
            total = joined(Arithmetic(f, dtype, 0), step.op, one, other)
            made = f.get(f"insertvalue {kinds} {made}, {kind} {total}, {k}")
        return [*lines, *f.lines, f"  ret {kinds} {made}", "}"]


class NumpyLoop(Kernel):
    """An inner loop of NumPy's, called on whole arrays; the kernel itself contains no address."""

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math, address: Address,
                 constant: Callable[[Any, str], tuple[int, int]]) -> None:  # fmt: skip
        super().__init__(low, group, math_)
        (step,), (at,) = self.steps, group.steps
        called = low.loop_called(at)
        assert called is not None
        ufunc, dtypes = called
        made = step.made[0]
        shape = low.shapes[made].shape
        strides, self.args = [], []
        for part, dtype in zip(step.args, dtypes, strict=False):
            if type(part) is Ref:
                strides.append(low.places[part.number].over(shape))
                self.args.append(low.where(part.number))
            else:
                strides.append((0,) * len(shape))
                self.args.append(constant(part, dtype))
        strides.append(low.places[made].strides)
        self.args += [low.where(made), *address(ufunc, dtypes)]
        order = sorted(range(len(shape)), key=lambda i: (-strides[-1][i], i))
        self.shape, self.strides = collapsed([shape[i] for i in order], [[row[i] for i in order] for row in strides])
        if shape == (1,):  # NumPy passes the steps of one element on, too, and negative ones have loops of their own
            self.shape, self.strides = [1], [tuple(row) for row in strides]
        self.key = "called", tuple(self.shape), tuple(self.strides)

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        *operands, function, data = pointers
        count = len(operands)
        places = f.get(f"alloca [{count} x ptr], align 8")
        length = f.get("alloca i64, align 8")
        steps = f.get(f"alloca [{count} x i64], align 8")
        f.do(f"store i64 {self.shape[-1] if self.shape else 1}, ptr {length}")
        for k, row in enumerate(self.strides):
            f.do(f"store i64 {row[-1] if row else 0}, ptr {f.at(steps, 8 * k)}")

        def call(offsets: list[str], _: int) -> None:
            for k, (pointer, offset) in enumerate(zip(operands, offsets, strict=True)):
                f.do(f"store ptr {f.at(pointer, offset)}, ptr {f.at(places, 8 * k)}")
            f.do(f"call void @called(ptr {function}, ptr {places}, ptr {length}, ptr {steps}, ptr {data})")

        f.nest(self.shape[:-1], [row[:-1] for row in self.strides], 0, call)
        return []


class Generalized(Kernel):
    """A loop of one of NumPy's functions of matrices, called on whole arrays.

    Attributes
    ----------
    outer : list of int
        The shape of the stack.
    strides : list of tuple of int
        The strides of operands and result along the stack.
    sizes, inner : tuple of int
        The sizes of matrices, and the strides along their axes.
    fails : bool
        Whether NaN in the first element reports a failure.
    """

    outer: list[int]
    strides: list[tuple[int, ...]]
    sizes: tuple[int, ...]
    inner: tuple[int, ...]
    fails = False

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        if self.fails:
            *pointers, status = pointers
        *operands, function, data = pointers
        count = len(operands)
        places = f.get(f"alloca [{count} x ptr], align 8")
        sizes = f.get(f"alloca [{1 + len(self.sizes)} x i64], align 8")
        steps = f.get(f"alloca [{count + len(self.inner)} x i64], align 8")
        last = [row[-1] if row else 0 for row in self.strides]
        for k, n in enumerate((self.outer[-1] if self.outer else 1, *self.sizes)):
            f.do(f"store i64 {n}, ptr {f.at(sizes, 8 * k)}")
        for k, n in enumerate((*last, *self.inner)):
            f.do(f"store i64 {n}, ptr {f.at(steps, 8 * k)}")

        def call(offsets: list[str], _: int) -> None:
            for k, (pointer, offset) in enumerate(zip(operands, offsets, strict=True)):
                f.do(f"store ptr {f.at(pointer, offset)}, ptr {f.at(places, 8 * k)}")
            f.do(f"call void @called(ptr {function}, ptr {places}, ptr {sizes}, ptr {steps}, ptr {data})")

        f.nest(self.outer[:-1], [row[:-1] for row in self.strides], 0, call)
        if self.fails:

            def look(offsets: list[str], _: int) -> None:
                first = f.load(f.at(operands[-1], offsets[-1]), "float64")
                lost = f.get(f"zext i1 {f.get(f'fcmp uno double {first}, {first}')} to i64")
                before = f.get(f"load i64, ptr {status}, align 8")
                f.do(f"store i64 {f.get(f'or i64 {before}, {lost}')}, ptr {status}, align 8")

            f.nest(self.outer, self.strides, 0, look)
        return []


class MatrixProduct(Generalized):
    """Products of matrices, by the loop of NumPy's ``matmul``, which calls BLAS as NumPy does."""

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math, address: Address) -> None:
        super().__init__(low, group, math_)
        (step,) = self.steps
        a, b = (low.places[n] for n in step.refs)
        made = low.places[step.made[0]]
        left = (a.shape, a.strides) if len(a.shape) > 1 else ((1, *a.shape), (0, *a.strides))
        right = (b.shape, b.strides) if len(b.shape) > 1 else ((*b.shape, 1), (*b.strides, 0))
        rows, columns = len(a.shape) > 1, len(b.shape) > 1  # whether the result has these axes
        count = len(made.shape) - rows - columns
        along = made.strides[count] if rows else 0, made.strides[-1] if columns else 0
        outer = made.shape[:count]

        def over(own: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[int, ...]:
            return Placement(own[0][:-2], own[1][:-2], made.dtype, 0, 0).over(outer)

        self.outer, self.strides = collapsed(outer, [over(left), over(right), made.strides[:count]])
        self.sizes = left[0][-2], left[0][-1], right[0][-1]
        self.inner = (*left[1][-2:], *right[1][-2:], *along)
        self.args = [*(low.where(n) for n in (*step.refs, *step.made)), *address(np.matmul, (made.dtype.name,) * 3)]
        self.key = "product", self.sizes, self.inner, tuple(self.outer), tuple(self.strides), made.dtype.itemsize


class LinalgKernel(Generalized):
    """Linear algebra by the loops of ``numpy.linalg``, which call LAPACK as NumPy does and return NaN on failure."""

    fails = True

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math, address: Address) -> None:
        super().__init__(low, group, math_)
        (step,) = self.steps
        called = low.lapack(step)
        assert called is not None
        places = [low.places[n] for n in (*step.refs, *step.made)]
        cores = [1 if len(place.shape) == 1 else 2 for place in places]
        made = places[-1]
        outer = made.shape[: len(made.shape) - cores[-1]]
        rows = [
            Placement(p.shape[: len(p.shape) - k], p.strides[: len(p.shape) - k], p.dtype, 0, 0).over(outer)
            for p, k in zip(places, cores, strict=True)
        ]
        self.outer, self.strides = collapsed(outer, rows)
        more = (places[1].shape[-1],) if step.op == "linalg.solve" and cores[1] == 2 else ()
        self.sizes = (places[0].shape[-1], *more)
        self.inner = tuple(s for p, k in zip(places, cores, strict=True) for s in p.strides[-k:])
        where = [low.where(n) for n in (*step.refs, *step.made)]
        self.args = [*where, *address(called, ("float64",) * len(places)), low.status]
        self.key = "solved", called.__name__, self.sizes, self.inner, tuple(self.outer), tuple(self.strides)


class CopyKernel(Kernel):
    """Operands are put into parts of a result; zeros elsewhere."""

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math) -> None:
        super().__init__(low, group, math_)
        (step,) = self.steps
        made = step.made[0]
        place = low.places[made]
        slot, start = low.where(made)
        self.zeros = place.nbytes if step.op == "scatter_add" else 0
        if step.op == DIAGONALS and None not in step.args[1]:
            self.zeros = place.nbytes
        parts: list[
            tuple[int, tuple[int, ...], tuple[int, ...], int]
        ] = []  # operand, shape, strides in the result, offset
        if step.op in ("matrix_transpose", "permute_dims"):
            parts.append((step.refs[0], place.shape[::-1], place.strides[::-1], 0))
        elif step.op in ("copy", "reshape"):
            source = low.places[step.refs[0]].shape
            parts.append(
                (
                    step.refs[0],
                    source,
                    place.strides if source == place.shape else contiguous(source, place.dtype.itemsize),
                    0,
                )
            )
        elif step.op in ("stack", "concat"):
            axis = step.kwargs.get("axis", step.args[1] if len(step.args) > 1 else 0)
            at = 0
            for ref in step.args[0]:
                shape = low.shapes[ref.number].shape
                if step.op == "concat" and axis is None:
                    parts.append(
                        (ref.number, shape, contiguous(shape, place.dtype.itemsize), at * place.dtype.itemsize)
                    )
                    at += low.size(ref.number)
                    continue
                along = axis % len(place.shape)
                strides = (
                    place.strides if step.op == "concat" else (*place.strides[:along], *place.strides[along + 1 :])
                )
                parts.append((ref.number, shape, strides, at * place.strides[along]))
                at += 1 if step.op == "stack" else shape[along]
        elif step.op == "getitem":
            parts.append((step.refs[0], place.shape, place.strides, 0))
        elif step.op == DIAGONALS:
            down, across = place.strides
            for below, ref in zip(*step.args[1:], strict=True):
                if below is None:
                    parts.append((ref.number, place.shape, place.strides, 0))
                    continue
                count = min(place.shape[1], place.shape[0] - below) - max(0, -below)
                parts.append((ref.number, (count,), (down + across,), max(0, below) * down + max(0, -below) * across))
        else:
            key = step.args[1]
            if step.op == "setitem":
                parts.append((step.args[0].number, place.shape, place.strides, 0))
            region = region_of(place, key)
            parts.append((step.args[2].number, region.shape, region.strides, region.offset))
        self.parts = []
        for number, shape, strides, offset in parts:
            given, inside = low.places[number], 0
            if step.op == "getitem":
                given = region_of(given, step.args[1])
                inside = given.offset
            rows = [given.over(shape), strides]
            order = sorted(range(len(shape)), key=lambda i: (-abs(strides[i]), i))
            self.parts.append(collapsed([shape[i] for i in order], [[row[i] for i in order] for row in rows]))
            of, at = low.where(number)
            self.args += [(of, at + inside), (slot, start + offset)]
        if self.zeros:
            self.args.append((slot, start))
        self.dtype = copied_as(place.dtype)
        self.count = 1
        if len(self.parts) > MANY and all(part == self.parts[0] for part in self.parts):  # as for a stack of many rows
            self.count = len(self.parts)
            del self.parts[1:]
        self.key = "copied", self.zeros, self.dtype, tuple((tuple(a), tuple(b)) for a, b in self.parts), self.count

    def pointers_of(self, f: IRFunction) -> list[str]:
        return super().pointers_of(f) if self.count == 1 else []

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        if self.zeros:
            f.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            f.do(f"call void @llvm.memset.p0.i64(ptr align 8 {pointers[-1]}, i8 0, i64 {self.zeros}, i1 false)")
        if self.count == 1:
            for k, part in enumerate(self.parts):
                self._part(f, part, *pointers[2 * k : 2 * k + 2])
            return []

        def one(k: str) -> None:
            at = f.times(k, 32)
            self._part(f, self.parts[0], self.pointer(f, at), self.pointer(f, f.plus(at, "16")))

        f.loop(0, self.count, 1, one)
        return []

    def _part(self, f: IRFunction, part: tuple[list[int], list[tuple[int, ...]]], source: str, target: str) -> None:
        """Copy one operand."""
        shape, strides = part
        from_, to = (row[-1] if row else 0 for row in strides)

        def move(offsets: list[str], width: int) -> None:
            value = f.load_strided(f.at(source, offsets[0]), from_, self.dtype, width)
            f.store_strided(value, f.at(target, offsets[1]), to, self.dtype, width)

        f.nest(shape, strides, WIDTHS[self.dtype], move)


class NanCheck(Kernel):
    """Records whether a value has a NaN element."""

    def __init__(self, low: LoweredProgram, group: FusionGroup, math_: Math) -> None:
        super().__init__(low, group, math_)
        (number,) = self.steps[0].refs
        place = low.places[number]
        self.dtype = place.dtype.name
        self.shape, self.strides = collapsed(place.shape, [place.strides])
        self.args = [low.where(number), low.status]
        self.key = "required", self.dtype, tuple(self.shape), tuple(self.strides)

    def write(self, f: IRFunction, pointers: list[str], name: str) -> list[str]:
        value, status = pointers
        step = self.strides[0][-1] if self.shape else 0

        def look(offsets: list[str], width: int) -> None:
            lost = Arithmetic(f, self.dtype, width).nan(
                f.load_strided(f.at(value, offsets[0]), step, self.dtype, width)
            )
            if width:
                lost = any_of(f, lost, width)
            before = f.get(f"load i64, ptr {status}, align 8")
            after = f.get(f"or i64 {before}, {f.get(f'zext i1 {lost} to i64')}")
            f.do(f"store i64 {after}, ptr {status}, align 8")

        f.nest(self.shape, self.strides, WIDTHS[self.dtype], look)
        return []


def copied_as(dtype: Any) -> str:
    """Return the dtype whose loads and stores move elements of another one, bit for bit."""
    return dtype.name if dtype.name in TYPES else {4: "int32", 8: "int64"}[dtype.itemsize]


def region_of(place: Placement, key: Any) -> Placement:
    """Return the part of a value that an index selects."""
    whole = np.empty(1, place.dtype)
    whole = np.lib.stride_tricks.as_strided(whole, place.shape, place.strides)  # never read
    part = whole[key if isinstance(key, tuple) else (key,)]
    if not isinstance(part, np.ndarray):  # one element: an array of it has an address
        part = whole[(*key, ...) if isinstance(key, tuple) else (key, ...)]
    offset = int(part.__array_interface__["data"][0]) - int(whole.__array_interface__["data"][0])
    return Placement(part.shape, part.strides, place.dtype, place.root, offset)


#: The kinds of kernels that need nothing but a group.
KINDS = {"tiny": TinyKernel, "loop": ElementwiseLoop, "copy": CopyKernel, "required": NanCheck}
