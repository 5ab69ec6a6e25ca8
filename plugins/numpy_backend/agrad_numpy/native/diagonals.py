"""Values that are made of an identity matrix, as Jacobians and Hessians are, by their diagonals.

A derivative along all directions at once begins with the rows of an identity matrix. Elementwise steps with what is the same in
every row leave of each column but a few numbers: one per diagonal that has been met, and one for all other rows. They are computed
so, by the very operations, so that the bits are those of the matrix, be they of NaN; the matrix is written where a step takes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agrad.plugin.programs import Program, Ref, Shaped, Step, is_number
from agrad_numpy.native.expanding import DIAGONALS, REQUIRED, StepRewriter
from agrad_numpy.native.ir import FLOATS
from agrad_numpy.native.repeating import TINY

#: Larger identity matrices are arrays.
LARGEST = 2**20

#: Of more diagonals a value is an array: each is computed as long as a row.
MOST = 8

#: Steps that take numbers, and give the same bits wherever they stand.
ELEMENTWISE = frozenset({"add", "divide", "multiply", "negative", "positive", "subtract", "where"})

#: Steps that give their operand, or a part of it, in another shape.
MOVES: Mapping[str, Callable[..., Any]] = {
    "asarray": lambda x, **_: x,
    "copy": lambda x, **_: x,
    "expand_dims": np.expand_dims,
    "getitem": lambda x, key: x[key],
    "reshape": lambda x, shape, **_: np.reshape(x, shape),
    "squeeze": np.squeeze,
}


@dataclass(frozen=True)
class Banded:
    """A matrix whose elements differ within a column on some diagonals alone, perhaps with axes of one element.

    Attributes
    ----------
    shape : (int, int)
        Of the matrix.
    on : dict of int to (Ref or float)
        By how many rows below the main one each diagonal lies: its elements by their columns, a number for equal ones.
    beside : Ref or float
        Likewise all others.
    """

    shape: tuple[int, int]
    on: Mapping[int, Any]
    beside: Any

    def __post_init__(self) -> None:
        rows, columns = self.shape
        there = {k: v for k, v in sorted(self.on.items()) if -columns < k < rows and not same(v, self.beside)}
        object.__setattr__(self, "on", there)

    @property
    def is_known(self) -> bool:
        """Whether it is the same in every call."""
        return not any(type(part) is Ref for part in (*self.on.values(), self.beside))


class Diagonals(StepRewriter):
    """A program's steps, with those of such values on their diagonals.

    Parameters
    ----------
    program : Program
        The program.
    own : bool
        Whether products by a diagonal matrix may be products by its elements: zeros that are left out may have had other signs.
    """

    def __init__(self, program: Program, *, own: bool) -> None:
        super().__init__(program)
        self.constants = dict(program.constants)
        self._own = own
        self._banded: dict[int, Banded] = {}
        self._arrays: set[int] = set()  # of these, those that are arrays too
        self._made: dict[Any, Any] = {}  # by what it is computed of

    def write(self, step: Step) -> None:
        """Add a step, or what it does on diagonals."""
        found = self._found(step)
        if found is None and self._own and self._product(step):
            return
        if found is not None:
            (made,) = step.made
            self._banded[made] = found
            if not found.is_known:
                return
            self._arrays.add(made)
        self.need(step.refs, step)
        self.steps.append(step)

    def need(self, numbers: Sequence[int], like: Step | None = None) -> None:
        """Write values that are asked for as arrays."""
        for number in numbers:
            if number in self._banded and number not in self._arrays:
                self._arrays.add(number)
                self._write_out(number, like or Step("", (), {}, ()))

    def _write_out(self, number: int, like: Step) -> None:
        banded, about = self._banded[number], self.shapes[number]
        rows, columns = banded.shape
        parts = []
        if not is_zero(banded.beside):
            parts.append((None, self._row(banded.beside, about.dtype)))
        for below, values in banded.on.items():
            start, stop = max(0, -below), min(columns, rows - below)
            parts.append((below, self._part(self._row(values, about.dtype), start, stop, like)))
        args = banded.shape, tuple(below for below, _ in parts), tuple(row for _, row in parts)
        if about.shape == banded.shape:
            self._add(like, DIAGONALS, args, number)
        else:
            whole = self._add(like, DIAGONALS, args, Shaped(banded.shape, about.dtype))
            self._add(like, "reshape", (whole, about.shape), number)

    # -- what stays on diagonals --------------------------------------------------------------------------------------

    def _found(self, step: Step) -> Banded | None:
        """Return what a step gives by its diagonals; None if it does not."""
        if step.several or len(step.made) != 1 or step.made[0] not in self.shapes:
            return None
        about = self.shapes[step.made[0]]
        if about.dtype not in FLOATS or not TINY < math.prod(about.shape) <= LARGEST or len(matrix(about.shape)) != 2:
            return None
        if step.op == "eye":
            k = step.kwargs.get("k", 0)
            return Banded(about.shape, {-k: 1.0}, 0.0) if type(k) is int and len(about.shape) == 2 else None  # type: ignore[arg-type]
        if not any(ref in self._banded for ref in step.refs):
            return None
        if step.op in ELEMENTWISE:
            return None if step.kwargs else self._elementwise(step, about)
        if step.op in MOVES:
            return self._moved(step)
        return self._put(step, about) if step.op == "scatter_add" and type(step.args[0]) is Shaped else None

    def _elementwise(self, step: Step, about: Shaped) -> Banded | None:
        down, across = (at for at, n in enumerate(about.shape) if n != 1)
        shape = about.shape[down], about.shape[across]
        operands: list[Any] = []
        for part in step.args:
            if type(part) is not Ref:
                if not is_number(part):
                    return None
                operands.append(part)
                continue
            before = self.shapes.get(part.number)
            decides = step.op == "where" and not operands
            if before is None or before.dtype != ("bool" if decides else about.dtype):
                return None
            own = (*(1,) * (len(about.shape) - len(before.shape)), *before.shape)
            if part.number in self._banded:
                if own != about.shape:
                    return None
                operands.append(self._banded[part.number])
            elif own[down] == 1:
                row = (own[across],) if own[across] != 1 else ()
                operands.append(part if before.shape == row else (part, Shaped(row, before.dtype)))
            else:
                return None
        operands = [self._add(step, "reshape", (o[0], o[1].shape), o[1]) if type(o) is tuple else o for o in operands]
        below = {k for one in operands if type(one) is Banded for k in one.on}

        def on(k: int | None) -> Any:
            row = [o if type(o) is not Banded else o.beside if k is None else o.on.get(k, o.beside) for o in operands]
            if step.op == "where":  # of two of Python's numbers it would give another dtype
                row = [self._row(part, about.dtype) for part in row]
            return self._computed(step, row, about.dtype)

        return Banded(shape, {k: on(k) for k in below}, on(None)) if len(below) <= MOST else None

    def _computed(self, step: Step, row: Sequence[Any], dtype: str) -> Any:
        """Return what a step gives of rows and numbers: once for the same ones."""
        if not any(type(part) is Ref for part in row):
            kind = np.dtype(dtype).type
            with np.errstate(all="ignore"):
                return float(getattr(np, step.op)(*map(kind, row)))
        if step.op == "positive":
            return row[0]
        if step.op == "multiply" and 1.0 in (numbers := [part for part in row if type(part) is not Ref]):
            return next(part for part in row if type(part) is Ref) if len(numbers) == 1 else 1.0
        key = (step.op, *((part.number,) if type(part) is Ref else repr(part) for part in row))
        if key not in self._made:
            shape = max((self.shapes[part.number].shape for part in row if type(part) is Ref), key=len)
            self._made[key] = self._add(step, step.op, row, Shaped(shape, dtype))
        return self._made[key]

    def _moved(self, step: Step) -> Banded | None:
        """Return a part of a value, or all of it, in another shape."""
        ref, *more = step.args
        if (
            type(ref) is not Ref
            or len(step.refs) > 1
            or self.shapes[step.made[0]].dtype != self.shapes[ref.number].dtype
        ):
            return None
        banded, shape = self._banded[ref.number], self.shapes[ref.number].shape
        try:
            found = [MOVES[step.op](one, *more, **step.kwargs) for one in places(banded.shape, shape)]
        except (IndexError, TypeError, ValueError):
            return None
        part = rectangle(found, banded.shape)
        if part is None:
            return None
        (top, left), size = part

        def cut(values: Any) -> Any:
            return self._part(values, left, left + size[1], step)

        return Banded(size, {k - top + left: cut(v) for k, v in banded.on.items()}, cut(banded.beside))

    def _put(self, step: Step, about: Shaped) -> Banded | None:
        """Return zeros with a value in some of their columns."""
        spec, key, ref = step.args
        if type(ref) is not Ref or ref.number not in self._banded or step.kwargs:
            return None
        banded, whole = self._banded[ref.number], matrix(spec.shape)
        try:
            found = [one[key] for one in places(whole, spec.shape)]  # type: ignore[arg-type]
        except (IndexError, TypeError, ValueError):
            return None
        part = rectangle(found, whole)  # type: ignore[arg-type]
        if part is None or part[0][0] != 0 or part[1] != banded.shape or banded.shape[0] != whole[0]:
            return None
        left, columns = part[0][1], banded.shape[1]

        def put(values: Any) -> Any:
            if is_zero(values):
                return values
            args = Shaped(whole[1:], about.dtype), slice(left, left + columns), self._row(values, about.dtype)
            return self._add(step, "scatter_add", args, args[0])

        return Banded(whole, {k - left: put(v) for k, v in banded.on.items()}, put(banded.beside))  # type: ignore[arg-type]

    # -- products -----------------------------------------------------------------------------------------------------

    def _product(self, step: Step) -> bool:
        """Write a product by a diagonal matrix: where the other one is finite, its zeros add nothing."""
        if step.op != "matmul" or step.kwargs or len(step.refs) != 2 or len(step.made) != 1:
            return False
        (made,), dtypes = step.made, {self.shapes[n].dtype for n in (*step.refs, *step.made) if n in self.shapes}
        at = next((at for at, ref in enumerate(step.refs) if ref in self._banded), None)
        if at is None or len(dtypes) != 1 or not all(len(self.shapes[n].shape) == 2 for n in step.refs):
            return False
        diagonal, other = self._banded[step.refs[at]], step.refs[1 - at]
        if other in self._banded or diagonal.shape[0] != diagonal.shape[1] or {*diagonal.on} != {0}:
            return False
        values, beside, about = diagonal.on[0], diagonal.beside, self.shapes[other]
        if type(beside) is not Ref and not is_zero(beside):
            return False
        number, row = Shaped((), about.dtype), Shaped(diagonal.shape[1:], about.dtype)
        if type(beside) is Ref:
            row = self.shapes[beside.number]
            is_nothing = self._add(step, "equal", (beside, 0.0), Shaped(row.shape, "bool"))
            self._require(self._add(step, "where", (is_nothing, beside, math.nan), row), step)
        zeros = self._add(step, "multiply", (Ref(other), 0.0), about)
        self._require(self._add(step, "sum", (zeros,), number), step)
        if type(values) is Ref and self.shapes[values.number].shape and at == 0:
            values = self._add(step, "reshape", (values, (-1, 1)), Shaped((diagonal.shape[0], 1), about.dtype))
        scaled = self._add(step, "multiply", (values, Ref(other)), about)
        self._add(step, "add", (scaled, 0.0), made)
        return True

    def _require(self, value: Ref, like: Step) -> None:
        self.steps.append(replace(like, op=REQUIRED, args=(value,), kwargs={}, outs=(), several=True))

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _row(self, values: Any, dtype: str) -> Ref:
        """Return a row as a value, be it of one number."""
        if type(values) is Ref:
            return values
        key = "row", repr(values), dtype
        if key not in self._made:
            number = self._fresh()
            self.constants[number] = np.asarray(values, dtype)
            self.shapes[number] = Shaped((), dtype)
            self._made[key] = Ref(number)
        return self._made[key]

    def _part(self, values: Any, start: int, stop: int, like: Step) -> Any:
        """Return a part of a row."""
        if type(values) is not Ref or not self.shapes[values.number].shape:
            return values
        about = self.shapes[values.number]
        if (start, stop) == (0, about.shape[0]):
            return values
        key = "part", values.number, start, stop
        if key not in self._made:
            args = values, slice(start, stop)
            self._made[key] = self._add(like, "getitem", args, Shaped((stop - start,), about.dtype))
        return self._made[key]


def same(a: Any, b: Any) -> bool:
    """Return whether two rows, or numbers, are the same."""
    return a is b or (type(a) is type(b) and repr(a) == repr(b))


def is_zero(values: Any) -> bool:
    """Return whether a row is the number 0.0."""
    return type(values) is not Ref and values == 0 and math.copysign(1, values) > 0


def matrix(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without axes of one element."""
    return tuple(n for n in shape if n != 1)


def places(size: tuple[int, int], shape: Sequence[int]) -> Iterator[Any]:
    """Give arrays of a shape with the rows, and the columns, of a matrix's elements."""
    yield from (each.reshape(shape) for each in np.indices(size))


def rectangle(found: Sequence[Any], size: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return where a part of a matrix begins, and its size, by the rows and columns of its elements; None for no such part."""
    shape = matrix(found[0].shape)
    if len(shape) != 2:
        return None
    rows, columns = (one.reshape(shape) for one in found)
    top, left = int(rows[0, 0]), int(columns[0, 0])
    down, across = np.indices(shape)
    if not (np.array_equal(rows, down + top) and np.array_equal(columns, across + left)):
        return None
    return (top, left), shape


def on_diagonals(program: Program, *, own: bool) -> Program:
    """Return a program that computes what is made of identity matrices on their diagonals."""
    if not any(step.op == "eye" for step in program.steps):
        return program
    writing = Diagonals(program, own=own)
    for step in program.steps:
        writing.write(step)
    writing.need(program.outputs)
    return program.replaced(steps=tuple(writing.steps), shapes=writing.shapes, constants=writing.constants)
