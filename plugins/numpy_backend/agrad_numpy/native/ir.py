"""LLVM's text: functions line by line, and arithmetic on scalars and vectors of one type.

It only contains numbers that agrad computed: shapes, offsets, literals as bits. It contains no text from a program.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from agrad_numpy.native import jit

#: LLVM's types by the names of dtypes, for those that kernels are written for.
TYPES = {"float32": "float", "float64": "double", "bool": "i1", "int32": "i32", "int64": "i64"}

#: Bytes of an element.
SIZES = {"float32": 4, "float64": 8, "bool": 1, "int32": 4, "int64": 8}

#: The dtypes that have fractions.
FLOATS = ("float32", "float64")

#: The number of elements in a vector; for booleans, that of the narrowest other type.
WIDTHS = {name: jit.vector_bytes() // max(size, 4) for name, size in SIZES.items()}

#: Whether vectors have 64 bytes, and there are 32 registers for them.
WIDE = jit.vector_bytes() == 64


def vector(kind: str, width: int) -> str:
    """Return a type: a scalar for the width 0."""
    return f"<{width} x {kind}>" if width else kind


def literal(value: float, dtype: str, width: int = 0) -> str:
    """Return a number as a constant of a dtype, by its bits."""
    if dtype in FLOATS:
        bits = struct.unpack("<Q", struct.pack("<d", float(np.dtype(dtype).type(value))))[0]
        text = f"0x{bits:016X}"
    else:
        text = ("true" if value else "false") if dtype == "bool" else str(int(value))
    return f"splat ({TYPES[dtype]} {text})" if width else text


def integer(value: int, kind: str, width: int = 0) -> str:
    """Return an integer as a constant of one of LLVM's types."""
    return f"splat ({kind} {int(value)})" if width else str(int(value))


class IRFunction:
    """The lines of a function, and the functions that they call.

    Attributes
    ----------
    lines : list of str
        So far.
    declared : set of str
        Declarations of called functions.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self._count = 0

    def name(self, prefix: str = "t") -> str:
        """Return a name that is not used yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}")

    def get(self, text: str) -> str:
        """Add an instruction; return the name of its result."""
        made = f"%{self.name()}"
        self.lines.append(f"  {made} = {text}")
        return made

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def block(self) -> str:
        """Begin a block with a new name, to which the previous one continues; return the name."""
        name = self.name("b")
        self.do(f"br label %{name}")
        self.label(name)
        return name

    def at(self, pointer: str, offset: str | int) -> str:
        """Return a pointer advanced by this many bytes."""
        return pointer if str(offset) == "0" else self.get(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def plus(self, a: str, b: str) -> str:
        """Return the sum of two offsets."""
        if "0" in (a, b):
            return a if b == "0" else b
        return self.get(f"add i64 {a}, {b}")

    def times(self, index: str, stride: int) -> str:
        """Return the offset of an index."""
        if stride == 0 or index == "0":
            return "0"
        return str(int(index) * stride) if index.isdigit() else self.get(f"mul i64 {index}, {stride}")

    def loop(self, low: str | int, high: str | int, step: int, body: Callable[[str], None]) -> None:
        """Write a loop over an index; a single call of the body if the bounds are constants one step apart."""
        if isinstance(low, int) and isinstance(high, int):
            if low >= high:
                return
            if high - low <= step:
                body(str(low))
                return
        name = self.name("loop")
        self.do(f"br label %{name}.before")
        self.label(f"{name}.before")
        self.do(f"br label %{name}.body")
        self.label(f"{name}.body")
        index = self.get(f"phi i64 [{low}, %{name}.before], [%{name}.next, %{name}.end]")
        body(index)
        self.do(f"br label %{name}.end")
        self.label(f"{name}.end")
        self.do(f"%{name}.next = add i64 {index}, {step}")
        self.do(f"%{name}.more = icmp slt i64 %{name}.next, {high}")
        self.do(f"br i1 %{name}.more, label %{name}.body, label %{name}.after")
        self.label(f"{name}.after")

    def fold(
        self,
        count: int,
        step: int,
        kinds: Sequence[str],
        firsts: Sequence[str],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """Write a loop over an index that carries values, with their types and initial values; return the final ones."""
        if count <= step:
            return body("0", [*firsts])
        name = self.name("loop")
        self.do(f"br label %{name}.before")
        self.label(f"{name}.before")
        self.do(f"br label %{name}.body")
        self.label(f"{name}.body")
        index = self.get(f"phi i64 [0, %{name}.before], [%{name}.next, %{name}.end]")
        start, carried = len(self.lines), [f"%{self.name()}" for _ in kinds]
        self.lines += carried
        found = body(index, carried)
        for at, (kind, first, one, last) in enumerate(zip(kinds, firsts, carried, found, strict=True)):
            self.lines[start + at] = f"  {one} = phi {kind} [{first}, %{name}.before], [{last}, %{name}.end]"
        self.do(f"br label %{name}.end")
        self.label(f"{name}.end")
        self.do(f"%{name}.next = add i64 {index}, {step}")
        self.do(f"%{name}.more = icmp slt i64 %{name}.next, {count}")
        self.do(f"br i1 %{name}.more, label %{name}.body, label %{name}.after")
        self.label(f"{name}.after")
        return found

    def nest(
        self,
        shape: Sequence[int],
        strides: Sequence[Sequence[int]],
        width: int,
        body: Callable[[list[str], int], None],
    ) -> None:
        """Write loops over a shape; the body gets offsets, one per row of strides, and the number of elements to take.

        The last axis is processed in vectors of a width, and the rest in a shorter one; 0: one by one.
        """

        def moved(offsets: list[str], index: str, axis: int) -> list[str]:
            return [self.plus(o, self.times(index, s[axis])) for o, s in zip(offsets, strides, strict=True)]

        def over(axis: int, offsets: list[str]) -> None:
            if axis == len(shape):
                body(offsets, 0)
            elif axis < len(shape) - 1 or not width:
                self.loop(0, shape[axis], 1, lambda i: over(axis + 1, moved(offsets, i, axis)))
            else:
                whole = shape[axis] - shape[axis] % width
                self.loop(0, whole, width, lambda i: body(moved(offsets, i, axis), width))
                left = shape[axis] - whole
                if left:
                    body(moved(offsets, str(whole), axis), left if left > 1 else 0)

        over(0, ["0"] * len(strides))

    # -- memory -------------------------------------------------------------------------------------------------------

    def load(self, pointer: str, dtype: str, width: int = 0) -> str:
        """Return one element, or several consecutive ones."""
        kind = "i8" if dtype == "bool" else TYPES[dtype]
        value = self.get(f"load {vector(kind, width)}, ptr {pointer}, align {SIZES[dtype]}")
        if dtype == "bool":
            return self.get(f"icmp ne {vector('i8', width)} {value}, {integer(0, 'i8', width)}")
        return value

    def store(self, value: str, pointer: str, dtype: str, width: int = 0) -> None:
        """Write one element, or several consecutive ones."""
        kind = TYPES[dtype]
        if dtype == "bool":
            value = self.get(f"zext {vector('i1', width)} {value} to {vector('i8', width)}")
            kind = "i8"
        self.do(f"store {vector(kind, width)} {value}, ptr {pointer}, align {SIZES[dtype]}")

    def load_strided(self, pointer: str, stride: int, dtype: str, width: int) -> str:
        """Return elements that are this many bytes apart."""
        if not width or stride == SIZES[dtype]:
            return self.load(pointer, dtype, width)
        if stride == 0:
            return self.spread(self.load(pointer, dtype), TYPES[dtype], width)
        found = "poison"
        for k in range(width):
            one = self.load(self.at(pointer, k * stride), dtype)
            found = self.put(found, one, k, TYPES[dtype], width)
        return found

    def store_strided(self, value: str, pointer: str, stride: int, dtype: str, width: int) -> None:
        """Write elements this many bytes apart."""
        if not width or stride == SIZES[dtype]:
            self.store(value, pointer, dtype, width)
            return
        for k in range(width):
            self.store(self.pick(value, k, TYPES[dtype], width), self.at(pointer, k * stride), dtype)

    # -- parts of vectors ---------------------------------------------------------------------------------------------

    def pick(self, value: str, at: int, kind: str, width: int) -> str:
        """Return one element of a vector."""
        return self.get(f"extractelement {vector(kind, width)} {value}, i32 {at}") if width else value

    def put(self, value: str, one: str, at: int, kind: str, width: int) -> str:
        """Return a vector with another element."""
        return self.get(f"insertelement {vector(kind, width)} {value}, {kind} {one}, i32 {at}") if width else one

    def spread(self, one: str, kind: str, width: int) -> str:
        """Return a vector filled with a scalar."""
        if not width:
            return one
        first = self.put("poison", one, 0, kind, width)
        whole = vector(kind, width)
        return self.get(f"shufflevector {whole} {first}, {whole} poison, <{width} x i32> zeroinitializer")

    def shuffle(self, value: str, count: int, kind: str, places: Iterable[int]) -> str:
        """Return the elements at positions of a value with a number of elements; a single element is a scalar."""
        at = [int(place) for place in places]
        if count == 1:
            return value if len(at) == 1 else self.spread(value, kind, len(at))
        if len(at) == 1:
            return self.pick(value, at[0], kind, count)
        if at == list(range(count)):
            return value
        whole, mask = vector(kind, count), ", ".join(f"i32 {place}" for place in at)
        return self.get(f"shufflevector {whole} {value}, {whole} poison, <{len(at)} x i32> <{mask}>")

    def select(self, value: str, count: int, other: str, kind: str, places: Sequence[int]) -> str:
        """Return a vector of elements at positions of a value, and those of another vector where the position is negative."""
        whole, mask = vector(kind, count), ", ".join(f"i32 {p if p >= 0 else count}" for p in places)
        return self.get(f"shufflevector {whole} {value}, {whole} {other}, <{len(places)} x i32> <{mask}>")


class Arithmetic:
    """Instructions on floats of one dtype and width.

    Parameters
    ----------
    f : IRFunction
        The function they are added to.
    dtype : str
        ``"float32"`` or ``"float64"``.
    width : int
        The width of vectors; 0 for scalars.
    """

    def __init__(self, f: IRFunction, dtype: str, width: int) -> None:
        self.f, self.dtype, self.width = f, dtype, width
        self.kind = vector(TYPES[dtype], width)
        self.bits = 32 if dtype == "float32" else 64
        self.whole = vector(f"i{self.bits}", width)
        self.truth = vector("i1", width)

    def number(self, value: float) -> str:
        """Return a constant."""
        return literal(value, self.dtype, self.width)

    def whole_number(self, value: int) -> str:
        """Return a constant of the integer type with as many bits."""
        return integer(value, f"i{self.bits}", self.width)

    def binary(self, name: str, a: str, b: str) -> str:
        """Return the result of an instruction on two floats."""
        return self.f.get(f"{name} {self.kind} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        """Return a sum."""
        return self.binary("fadd", a, b)

    def subtract(self, a: str, b: str) -> str:
        """Return a difference."""
        return self.binary("fsub", a, b)

    def multiply(self, a: str, b: str) -> str:
        """Return a product."""
        return self.binary("fmul", a, b)

    def divide(self, a: str, b: str) -> str:
        """Return a quotient."""
        return self.binary("fdiv", a, b)

    def negative(self, a: str) -> str:
        """Return a value with the other sign."""
        return self.f.get(f"fneg {self.kind} {a}")

    def called(self, name: str, *args: str) -> str:
        """Return the result of one of LLVM's own functions."""
        suffix = f"f{self.bits}" if not self.width else f"v{self.width}f{self.bits}"
        kinds = ", ".join([self.kind] * len(args))
        self.f.declared.add(f"declare {self.kind} @llvm.{name}.{suffix}({kinds})")
        given = ", ".join(f"{self.kind} {a}" for a in args)
        return self.f.get(f"call {self.kind} @llvm.{name}.{suffix}({given})")

    def fused(self, a: str, b: str, c: str) -> str:
        """Return ``a * b + c``, rounded once."""
        return self.called("fma", a, b, c)

    def compare(self, how: str, a: str, b: str) -> str:
        """Return truth values."""
        return self.f.get(f"fcmp {how} {self.kind} {a}, {b}")

    def choose(self, truth: str, a: str, b: str) -> str:
        """Return the first where the condition is true, otherwise the second."""
        return self.f.get(f"select {self.truth} {truth}, {self.kind} {a}, {self.kind} {b}")

    def either(self, a: str, b: str) -> str:
        """Return whether one of two is true."""
        return self.f.get(f"or {self.truth} {a}, {b}")

    def nan(self, a: str) -> str:
        """Return where a value is NaN."""
        return self.compare("uno", a, a)

    def maximum(self, a: str, b: str) -> str:
        """Return the larger one, as NumPy does: NaN if one is."""
        return self.choose(self.either(self.compare("ogt", a, b), self.nan(a)), a, b)

    def minimum(self, a: str, b: str) -> str:
        """Return the smaller one, as NumPy does: NaN if one is."""
        return self.choose(self.either(self.compare("olt", a, b), self.nan(a)), a, b)

    def integers(self, name: str, a: str, b: str) -> str:
        """Return the result of an instruction on two integers with as many bits."""
        return self.f.get(f"{name} {self.whole} {a}, {b}")

    def as_integer(self, a: str) -> str:
        """Return the bits of a float."""
        return self.f.get(f"bitcast {self.kind} {a} to {self.whole}")

    def as_float(self, a: str) -> str:
        """Return the float of some bits."""
        return self.f.get(f"bitcast {self.whole} {a} to {self.kind}")

    def to_integer(self, a: str) -> str:
        """Return the integer that a float is."""
        return self.f.get(f"fptosi {self.kind} {a} to {self.whole}")

    def to_float(self, a: str) -> str:
        """Return an integer as a float."""
        return self.f.get(f"sitofp {self.whole} {a} to {self.kind}")
