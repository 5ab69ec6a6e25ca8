"""From a program to kernels and a schedule: which steps are computed together, where values are in memory, and which kernels are equal.

A program's steps first run one by one, on the arrays of a call, which shows the memory layout of values: NumPy's own
strides are used. Steps that belong together become *kernels*; equal ones are compiled once, and a loop in native code
follows a table that says which kernel to run on which operands. Programs repeat themselves: repeated stretches are cut
at their periods, so that each period becomes the same kernels. Steps without a kernel stay steps of Python.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.linalg import _umath_linalg  # type: ignore[attr-defined]

from agrad.plugin.backend import Refused, facts_of
from agrad.plugin.programs import (
    HERE,
    LOOP,
    Body,
    DType,
    Program,
    Ref,
    Shaped,
    Step,
    environment,
    is_foreign,
    mapped,
    optimized,
    symbol_of,
)
from agrad_numpy.executor import OPERATORS, address, turned
from agrad_numpy.kernels import DOT_BELOW
from agrad_numpy.native import elementwise
from agrad_numpy.native.expanding import DIAGONALS, KERNELS, LARGEST, REQUIRED, expanded
from agrad_numpy.native.ir import FLOATS, TYPES, WIDE, WIDTHS
from agrad_numpy.native.keeping import BLOCK, BlockLayout, Taken, starts_in
from agrad_numpy.native.numpy_loops import loop_of, resolves
from agrad_numpy.native.repeating import TINY, Stretch, Stretches, signatures

#: The limit, in bytes, for keeping values computed only from constants.
FOLDED_BYTES = 2**17

#: Products with fewer multiplications are computed in tiles, if the matrices have at least this many columns. Wide vectors
#: gain more: with vectors half as wide, NumPy's BLAS is as fast.
TILED, COLUMNS = 15_000_000 if WIDE else 300_000, 4

#: For products with a transposed right operand: the minimum number of rows, and the maximum number of terms.
TURNED = 4, 2**10

#: If vectors are wide, products of at least this many rows, and of columns for a vector, read a copy of the right operand.
PACKED_ROWS = 16

#: For a matrix that is read once for two products: the minimum number of rows, and the range of that of columns.
ROWS, COLUMNS_OF_ROWS = 256, (8, 1024)

#: The time to compile, in seconds: the minimum, per step, and per distinct step by its kind.
SECONDS = {"whole": 0.01, "step": 5e-5, "tiny": 8e-4, "loop": 1.5e-3, "product": 2.5e-2}

#: Programs with more steps are not lowered, because the time for that is not limited.
STEPS = 200_000

#: The alignment of buffers, in bytes.
ALIGNED = 64

#: Linear algebra of one matrix that is unrolled if it is small.
WRITTEN_LINALG = ("linalg.cholesky", "linalg.det", "linalg.inv", "linalg.solve", "scipy.solve_triangular")

VIEWS = frozenset({
    "getitem", "reshape", "matrix_transpose", "permute_dims", "broadcast_to", "broadcast_like", "expand_dims", "squeeze",
    "linalg.diagonal", "flip", "moveaxis",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Placement:
    """How a value lies in memory.

    Attributes
    ----------
    shape, strides : tuple of int
        Strides in bytes.
    dtype : numpy.dtype
        Its own.
    root : int
        The number of the value whose memory it has.
    offset : int
        The offset of its first element from that value's first one, in bytes.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    root: int
    offset: int

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.size * int(self.dtype.itemsize)

    @property
    def is_dense(self) -> bool:
        """Whether its elements fill their memory, in any order of axes."""
        expected = self.dtype.itemsize
        for stride, n in sorted((s, n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if stride != expected:
                return False
            expected *= n
        return True

    @property
    def in_order(self) -> bool:
        """Whether its elements are contiguous in C order."""
        ours = zip(self.strides, contiguous(self.shape, self.dtype.itemsize), self.shape, strict=True)
        return all(a == b for a, b, n in ours if n > 1)

    @property
    def is_for_blas(self) -> bool:
        """Whether ``dot`` passes a matrix to BLAS directly; it copies others into C order, including columns with gaps."""
        (m, n), (s, t), size = self.shape, self.strides, self.dtype.itemsize
        return self.is_dense or (min(m, n) > 1 and t == size and s >= n * size)

    @property
    def span(self) -> int:
        """Bytes from its first element to the end of the last one, for nonnegative strides."""
        return sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + int(self.dtype.itemsize)

    def over(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return its strides when broadcast to a shape, without leading axes of one element."""
        missing = len(shape) - len(self.shape)
        if missing < 0:
            return Placement(self.shape[-missing:], self.strides[-missing:], self.dtype, 0, 0).over(shape)
        own = (0 if n == 1 and m != 1 else s for s, n, m in zip(self.strides, self.shape, shape[missing:], strict=True))
        return (*(0,) * missing, *own)


def contiguous(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C order."""
    return tuple(math.prod(shape[i + 1 :]) * itemsize for i in range(len(shape)))


class NativeStepwiseRun:
    """A run of the steps one by one.

    Attributes
    ----------
    places : dict of int to Placement
        By number.
    kept : dict of int to array
        Values that are the same in every call.
    kernels : list of callable
        Per step.
    loops : dict of int to LoweredProgram
        By the position of a step that is a loop, the lowered form of one of its calls, if all of it has kernels.
    followed : dict of int to int
        By the position of a step that did not run, that of the similar one, whose results have the same layout.
    """

    def __init__(
        self, program: Program, backend: Any, values: Sequence[Any], stretches: Sequence[Stretch], *, own: bool
    ) -> None:
        self.program, self.backend, self.own = program, backend, own
        self.loops: dict[int, LoweredProgram] = {}
        self.names = environment(backend, backend.default_device(), program)
        self.places: dict[int, Placement] = {}
        self.kept: dict[int, Any] = {}
        self.kernels: list[Any] = []
        self._values: dict[int, Any] = dict(zip(program.inputs, values, strict=True))
        for number in program.inputs:
            self._note(number, self._values[number], ())
        for number, value in program.constants.items():
            self.kept[number] = self._values[number] = np.asarray(backend.as_array(value))
            self._note(number, self.kept[number], ())
        self.followed: dict[int, int] = {}
        self._given = {*program.inputs}
        self._of_loops = {ref for step in program.steps if step.op == LOOP for ref in step.refs}
        self._filled: dict[int, Any] = {}  # by root, the substitute for the memory of a value that was not computed
        last = program.last_uses()
        for stretch in stretches:
            like = stretch.like
            if like is not None and self._ways(stretch.outside) != self._ways(like.outside):
                like = None
            for at in range(stretch.start, stretch.stop):
                step = program.steps[at]
                before = None if like is None else at - stretch.start + like.start
                if before is None or not self._follow(at, before):
                    self._run(at, step)
                    if before is not None and self._ways(step.made) != self._ways(program.steps[before].made):
                        like = None
                for number in dict.fromkeys((*step.refs, *step.made)):
                    if last.get(number, at) == at and number not in self.kept:
                        self._values.pop(number, None)
            stretch.like = like
        self._values.clear()
        self._filled.clear()

    # -- stretches that are alike -------------------------------------------------------------------------------------

    def _ways(self, numbers: Sequence[int]) -> list[Any]:
        """Return the properties shared by values of two similar stretches."""
        places = [self.places[n] for n in numbers]
        first = {place.root: at for at, place in reversed([*enumerate(places)])}
        return [
            (p.shape, p.strides, p.dtype, first[p.root], n in self.kept, n in self._given)
            for n, p in zip(numbers, places, strict=True)
        ]

    def _follow(self, at: int, before: int) -> bool:
        """Give the results of a step the layout of a similar one, which ran; return False if it must run itself."""
        step, other = self.program.steps[at], self.program.steps[before]
        if step.op == LOOP or (step.op == "getitem" and step.args[1] != other.args[1]):
            return False
        found = []
        for number, old in zip(step.made, other.made, strict=True):
            place = self.places[old]
            if old in self.kept or place.dtype.kind in "iu":  # an index must have its real values
                return False
            root, offset = number, 0
            if place.root != old:
                k = next(k for k, ref in enumerate(other.refs) if self.places[ref].root == place.root)
                now, then = self.places[step.refs[k]], self.places[other.refs[k]]
                root, offset = now.root, now.offset + place.offset - then.offset
            found.append((number, Placement(place.shape, place.strides, place.dtype, root, offset)))
        self.places.update(found)
        self.kernels.append(self.kernels[before])
        self.followed[at] = before
        return True

    def _stand_in(self, number: int) -> Any:
        """Return an array that lies as a value that was not computed."""
        place = self.places[number]
        if place.root not in self._filled:
            root = self.places[place.root]
            self._filled[place.root] = np.ones(max(-(-root.span // root.dtype.itemsize), 1), root.dtype)
        return np.ndarray(place.shape, place.dtype, self._filled[place.root], place.offset, place.strides)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _run(self, at: int, step: Step) -> None:
        missing = [ref for ref in step.refs if ref not in self._values]
        self._values.update((ref, self._stand_in(ref)) for ref in missing)
        kernel = KERNELS.get(step.op) or OPERATORS.get(symbol_of(step)) or operator.attrgetter(step.op)(self.backend.xp)
        self.kernels.append(kernel)
        same = not step.op.startswith("empty") and all(ref in self.kept for ref in step.refs)
        try:
            found = self._looped(at, step) if step.op == LOOP and not same else None
            with np.errstate(all="ignore") if missing else contextlib.nullcontext():
                found = self.call(kernel, step, self._values) if found is None else found
        except np.linalg.LinAlgError:  # substitutes, which only determine the layout of results: in C order
            if same:
                raise
            shapes = [None if n is None else self.program.shapes[n] for n in step.outs]
            parts = tuple(None if one is None else np.ones(*one) for one in shapes)
            found = parts if step.several else parts[0]
        for number, part in zip(step.outs, found if step.several else (found,), strict=True):
            if number is not None:
                self._values[number] = made = np.asarray(part)
                if not any(made is self._values.get(r) or base_of(self._values[r]) is base_of(made) for r in step.refs):
                    self._values[number] = made = dense(made)
                if (
                    made.dtype.name != self.program.shapes[number].dtype
                    or made.shape != self.program.shapes[number].shape
                ):
                    raise Refused(f"{step.op} gives another shape or dtype than the program states")
                self._note(number, made, step.refs)
        if same and sum(self._values[n].nbytes for n in step.made) <= FOLDED_BYTES:
            for number in step.made:
                kept = self._values[number]
                if self.own or number in self._of_loops:  # else it lies as it did: NumPy's functions round by that
                    kept = kept.copy(order="K")
                self.kept[number] = self._values[number] = kept
                self._note(number, kept, ())

    def _looped(self, at: int, step: Step) -> list[Any] | None:
        """Lower a loop's call; return arrays with the layout of its results, None if a call has no kernels.

        Carried values are in C order before the first call and after each.
        """
        operands, body = step.args
        carried, rows, rest = body.split([self._values[ref.number] for ref in operands])
        if (
            not body.length
            or len({*body.kept}) < len(body.kept)
            or any(is_foreign(each.op) for each in body.program.steps)
        ):
            return None
        if self.own:
            carried = [np.array(value, order="C") for value in carried]
        elif not all(value.flags.c_contiguous for value in carried):
            return None
        try:
            one = [*carried, *(row[0, ...] for row in rows), *rest]
            low = LoweredProgram(inside(body, own=self.own), self.backend, one, own=self.own, in_order=True)
        except Refused:
            return None
        natural = all(low.before[n].in_order for n in low.program.outputs[: body.carried])
        if any(group.kind == "python" for group in low.groups) or not (self.own or natural):
            return None
        if not all(low.is_movable(n) for n in low.program.inputs[: body.carried]):
            return None
        self.loops[at] = low
        shapes = [low.shapes[n] for n in low.outputs]
        shapes += [self.program.shapes[operands[k].number] for k in body.kept]
        whole = [s if k < body.carried else Shaped((body.length, *s.shape), s.dtype) for k, s in enumerate(shapes)]
        return [np.ones(*shaped) for shaped in whole]

    def call(self, kernel: Any, step: Step, values: Mapping[int, Any]) -> Any:
        """Return the result of a step's kernel for some values."""

        def leaf(part: Any) -> Any:
            kind = type(part)
            if kind is Ref:
                return values[part.number]
            if kind is DType:
                return self.names[part]
            if kind is Shaped:
                return self.names["spec"](part.shape, self.names[part.dtype])
            return self.names["device"] if part is HERE else part

        return kernel(*(mapped(leaf, a) for a in step.args), **{k: mapped(leaf, v) for k, v in step.kwargs.items()})

    def _note(self, number: int, value: Any, refs: Sequence[int]) -> None:
        """Record where a value is: in the memory of an operand, or its own."""
        root, offset = number, 0
        below = base_of(value)
        for ref in refs:
            other = self._values[ref]
            if other is value or (base_of(other) is below and value.size):
                root, offset = self.places[ref].root, self.places[ref].offset + address(value) - address(other)
                break
        self.places[number] = Placement(value.shape, value.strides, value.dtype, root, offset)


def inside(body: Body, *, own: bool) -> Program:
    """Return the work of a loop in one call, with as few steps as possible."""
    program = optimized(body.program.without_detach())
    return expanded(turned(program)) if own else program


def base_of(array: Any) -> Any:
    """Return the owner of an array's memory."""
    while (below := getattr(array, "base", None)) is not None:
        array = below
    return array


def dense(array: Any) -> Any:
    """Return an array, copied if its elements do not fill their memory."""
    return array if Placement(array.shape, array.strides, array.dtype, 0, 0).is_dense else array.copy(order="K")


class FusionGroup:
    """Steps that become one kernel.

    Attributes
    ----------
    kind : str
        ``"tiny"``, ``"loop"``, ``"call"``, ``"product"``, ``"tiled"``, ``"solved"``, ``"scan"``, ``"copy"``, ``"indexed"``,
        ``"required"``, ``"rows"``, ``"view"`` or ``"python"``.
    steps : list of int
        Their positions in the program.
    like : FusionGroup or None
        A group of a similar stretch.
    numbers : dict of int to int
        From the numbers of its values to those of this group.
    kernel : Kernel or None
        The kernel written for it.
    """

    __slots__ = ("kernel", "kind", "like", "numbers", "shape", "steps")

    def __init__(self, kind: str, steps: list[int], shape: tuple[int, ...] = ()) -> None:
        self.kind, self.steps, self.shape = kind, steps, shape
        self.like: FusionGroup | None = None
        self.numbers: Mapping[int, int] = {}
        self.kernel: Any = None


@dataclass(frozen=True, slots=True)
class RowProduct:
    """A product of a matrix whose rows are contiguous, or of its transpose, and a vector.

    Attributes
    ----------
    matrix : (int, int, int, int, int)
        The root and offset of the matrix, its numbers of rows and columns, and the bytes from one row to the next.
    number, vector : int
        The numbers of the matrix, as it is or turned, and of the vector.
    each : bool
        Whether each row is multiplied by the vector; otherwise rows times the vector's elements are added.
    """

    matrix: tuple[int, int, int, int, int]
    number: int
    vector: int
    each: bool

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.matrix[2]

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.matrix[3]

    @property
    def stride(self) -> int:
        """Bytes from one row to the next."""
        return self.matrix[4]

    @property
    def is_long(self) -> bool:
        """Whether it has many rows, whose elements fill a vector, and which are not too long for the cache."""
        return self.rows >= ROWS and COLUMNS_OF_ROWS[0] <= self.columns <= min(COLUMNS_OF_ROWS[1], self.rows - 1)


class LoweredProgram:
    """A program, lowered for inputs that lie as in one call.

    Attributes
    ----------
    groups : list of FusionGroup
        In the order in which they run.
    slots : dict of int to int
        By the number of a value with memory of its own outside the workspace and the block, the slot of its address.
    workspace : int
        Bytes of the workspace, whose address is slot 0; the status follows it.
    before : dict of int to Placement
        How values lay when steps ran one by one.
    threads : int
        The number of threads that run large loops.
    outputs : list of int
        The returned values, each with memory that no other one shares.
    layout : BlockLayout
        Where the last of these are, which are kept.
    block : dict of int to int
        By the number of a value in the block of what is kept, or of what is taken, from which byte on it lies.

    Parameters
    ----------
    program, backend, values, own, threads
        Those of `NativeCode`.
    in_order : bool
        Whether outputs lie in C's order, whatever they would.
    kept : int
        How many of the last outputs are kept.
    taken : Taken, optional
        What is taken, the first inputs.
    """

    def __init__(
        self,
        program: Program,
        backend: Any,
        values: Sequence[Any],
        *,
        own: bool,
        in_order: bool = False,
        threads: int = 1,
        kept: int = 0,
        taken: Taken | None = None,
    ) -> None:
        if len(program.steps) > STEPS:
            raise Refused(f"it has {len(program.steps)} steps")
        if any(is_foreign(step.op) for step in program.steps):
            raise Refused("it calls kernels of the user's, which may keep what they are given")
        self.own, self.threads = own, threads
        self.in_order = in_order
        self._kept, self.block = kept, dict(taken.starts) if taken else {}
        self._has_block = bool(kept or self.block)  # what is kept has one, which may be empty
        stretches = Stretches(program.steps, program.shapes).all
        try:
            self.tried = tried = NativeStepwiseRun(program, backend, values, stretches, own=own)
        except Exception:
            if not any(stretch.like for stretch in stretches):
                raise
            for stretch in stretches:  # substitutes for values that were not computed may have been the cause
                stretch.like = None
            self.tried = tried = NativeStepwiseRun(program, backend, values, stretches, own=own)
        self.program, self.shapes = program, dict(program.shapes)
        self.places = tried.places
        for number in (*program.inputs, *tried.kept):
            place = self.places[number]
            if not place.dtype.isnative or any(stride % max(place.dtype.alignment, 1) for stride in place.strides):
                raise Refused("an array has elements in another order of bytes, or not at multiples of their size")
        self.steps = [self._plain(at) for at in range(len(program.steps))]
        self.kinds: list[str] = []
        for at in range(len(self.steps)):
            before = tried.followed.get(at)
            self.kinds.append(self._kind(at) if before is None else self.kinds[before])
        self._turn_once()
        if not own:
            self._keep_views()
        self.outputs = self._with_outputs()
        self.groups: list[FusionGroup] = []
        groups: dict[int, list[FusionGroup]] = {}  # by the position where a stretch begins
        for stretch in (*stretches, Stretch(len(program.steps), len(self.steps), [], [])):
            groups[stretch.start] = self._following(stretch, groups) or self._grouped(stretch.start, stretch.stop)
            self.groups += groups[stretch.start]
        self._find_places()

    # -- kinds --------------------------------------------------------------------------------------------------------

    def size(self, number: int) -> int:
        """Return how many elements a value has."""
        return math.prod(self.shapes[number].shape)

    def dtype(self, number: int) -> str:
        """Return the dtype of a value."""
        return self.shapes[number].dtype

    def _plain(self, at: int) -> Step:
        """Return a step in a form that has kernels: a copy, as returned by a loop, becomes a reshape to the same shape."""
        step = self.program.steps[at]
        if step.op != "asarray" or step.kwargs != {"copy": True} or type(step.args[0]) is not Ref:
            return step
        self.tried.kernels[at] = np.reshape
        return replace(step, op="reshape", args=(step.args[0], self.shapes[step.made[0]].shape), kwargs={})

    def _kind(self, at: int) -> str:
        step = self.steps[at]
        if step.op == REQUIRED:
            return "required"
        if all(number in self.tried.kept for number in step.made):
            return "kept"
        if step.op == LOOP:
            return "scan" if at in self.tried.loops else "python"
        if any(number not in self.shapes for number in (*step.refs, *step.made)):
            return "python"
        if self._is_tiny(step):
            return "tiny"
        if all(self.places[number].root != number for number in step.made):
            return "view"
        if any(self.size(number) == 0 for number in (*step.refs, *step.made)):
            return "python"
        if elementwise.supports(step, self.shapes, own=self.own):
            return "loop"
        if self.is_sum(step) and self.sum_order(step) is not None:
            return "loop"
        if self._is_product(step):
            return "tiled" if self._is_tiled(step) else "product"
        if self.lapack(step) is not None:
            return "solved"
        if self.loop_called(at) is not None:
            return "call"
        if self._is_copy(step):
            return "copy"
        return "python" if self.indexed(step) is None else "indexed"

    def _is_tiny(self, step: Step) -> bool:
        """Return whether a step can be part of a kernel that holds values in registers."""
        numbers = (*step.refs, *step.made)
        if not all(0 < self.size(n) <= TINY and self.dtype(n) in TYPES for n in numbers) or not step.made:
            return False
        if elementwise.supports(step, self.shapes, own=self.own):
            return True
        if step.op in VIEWS:
            return is_basic(step.args[1:]) if step.op == "getitem" else len(step.refs) == 1
        if step.op in ("stack", "concat"):
            return len({self.dtype(n) for n in numbers}) == 1 and step.kwargs.get("axis", 0) is not None
        if step.op == "unstack":
            return True
        if step.op == "scatter_add":
            return is_basic(step.args[1:2]) and self.dtype(step.made[0]) in FLOATS
        if step.op in ("tril", "triu"):
            return len(self.shapes[step.made[0]].shape) == 2 and self.dtype(step.made[0]) in FLOATS
        if self.is_sum(step):
            return self.sum_order(step) is not None
        if self.own and self._is_product(step):
            return all(len(self.shapes[n].shape) <= 2 for n in step.refs)
        return self.own and self.is_linalg(step)

    def is_linalg(self, step: Step) -> bool:
        """Return whether a step is linear algebra of one matrix that is unrolled if it is small."""
        if step.op not in WRITTEN_LINALG or not all(type(a) is Ref for a in step.args):
            return False
        numbers = (*step.refs, *step.made)
        dtypes, shapes = {self.dtype(n) for n in numbers}, [self.shapes[n].shape for n in numbers]
        return len(dtypes) == 1 and dtypes <= {*FLOATS} and len(shapes[0]) == 2 and len(shapes[-1]) <= 2

    def is_sum(self, step: Step) -> bool:
        """Return whether a step is a sum or mean of floats, in their own dtype, or the largest or smallest of them."""
        if (  # of zeros with two signs NumPy takes either as the largest
            step.op not in (("sum", "mean", LARGEST, "max", "min") if self.own else ("sum", "mean", LARGEST))
            or len(step.args) != 1
            or not step.kwargs.keys() <= {"axis", "dtype", "keepdims"}
        ):
            return False
        before, after = self.dtype(step.refs[0]), self.dtype(step.made[0])
        return before == after and before in FLOATS and 0 < self.size(step.refs[0]) < 2**24

    def sum_order(self, step: Step) -> list[int] | None:
        """Return the axes of a sum's operand in the order in which NumPy traverses them, the fastest last; None if unknown."""
        place = self.places[step.refs[0]]
        if any(s <= 0 for s, n in zip(place.strides, place.shape, strict=True) if n > 1):
            return None
        order = sorted(range(len(place.shape)), key=lambda i: (-place.strides[i], i))
        axes = [i for i in order if place.shape[i] > 1]
        steps, summed = [place.strides[i] for i in axes], {*self.axes(step)}
        if not self.own and any(  # NumPy copies what has gaps along several summed axes, and adds the copy
            {outer, inner} <= summed and place.strides[outer] != place.strides[inner] * place.shape[inner]
            for outer, inner in itertools.pairwise(axes)
        ):
            return None
        return order if len(set(steps)) == len(steps) else None

    def axes(self, step: Step) -> tuple[int, ...]:
        """Return the axes that a sum traverses."""
        axis, count = step.kwargs.get("axis"), len(self.shapes[step.refs[0]].shape)
        if axis is None or not count:
            return tuple(range(count))
        return tuple(sorted(i % count for i in ((axis,) if isinstance(axis, int) else axis)))

    def _is_product(self, step: Step) -> bool:
        if step.op != "matmul" or step.kwargs or len(step.refs) != 2 or len(step.args) != 2:
            return False
        numbers = (*step.refs, *step.made)
        if len({self.dtype(n) for n in numbers}) > 1 or self.dtype(step.made[0]) not in FLOATS:
            return False
        made = self.places[step.made[0]]
        dotted = all(len(self.places[n].shape) == 2 for n in step.refs) and made.size < DOT_BELOW
        return self.own or not dotted or all(self.places[n].is_for_blas for n in step.refs)

    def _is_tiled(self, step: Step) -> bool:
        """Return whether a product of matrices is computed in tiles."""
        left, right = (self.places[n] for n in step.refs)
        if not self.own or len(left.shape) != 2 or len(right.shape) != 2:
            return False
        (m, k), n, size = left.shape, right.shape[1], right.dtype.itemsize
        if n < COLUMNS or m * k * n > TILED:
            return False
        rows, terms = TURNED
        turned = right.strides[0] == size and m >= rows and k <= terms
        return right.strides[1] == size or turned or self.is_packed(step)

    def is_packed(self, step: Step) -> bool:
        """Return whether the tiles of a product of matrices read copies of its right operand."""
        left, right = (self.places[n] for n in step.refs)
        wide = WIDE and left.shape[0] >= PACKED_ROWS and right.shape[1] >= WIDTHS[right.dtype.name]
        return wide and right.dtype.itemsize in right.strides

    def _turn_once(self) -> None:
        """Make transposes copies if they are the right operand of several products in tiles."""
        tiled = [self.steps[at] for at, kind in enumerate(self.kinds) if kind == "tiled"]
        uses = Counter(step.refs[1] for step in tiled if not self.is_packed(step))
        for at, step in enumerate(self.steps):
            if self.kinds[at] != "view" or len(step.refs) != 1 or uses[step.made[0]] < 2:
                continue
            (ref,), (number,) = step.refs, step.made
            before, place = self.places[ref], self.places[number]
            turned = (place.shape, place.strides, place.offset) == (
                before.shape[::-1],
                before.strides[::-1],
                before.offset,
            )
            if turned and place.strides[1] != place.dtype.itemsize:
                self.kinds[at] = "copy"
                strides = contiguous(place.shape, place.dtype.itemsize)
                self.places[number] = Placement(place.shape, strides, place.dtype, number, 0)

    def _keep_views(self) -> None:
        """Let views of a few elements that go backwards, or repeat an element, lie so where NumPy reads them: it may round otherwise."""
        read: set[int] = set()  # the values whose layout counts
        for at in reversed(range(len(self.steps))):
            step, kind = self.steps[at], self.kinds[at]
            counts = bool(read & {*step.made})
            if kind == "tiny" and counts and all(self._is_odd_view(number) for number in step.made):
                kind = self.kinds[at] = "view"
            if kind in ("python", "product", "solved") or (kind == "view" and counts):
                read.update(step.refs)

    def _is_odd_view(self, number: int) -> bool:
        """Return whether a value has another one's memory, and goes backwards or repeats an element."""
        place = self.places[number]
        steps = zip(place.strides, place.shape, strict=True)
        return place.root != number and any(stride < 0 or (stride == 0 and n > 1) for stride, n in steps)

    def _is_copy(self, step: Step) -> bool:
        """Return whether a step puts operands into parts of its result, element by element, unchanged."""
        if not self.is_movable(step.made[0]) or step.several:
            return False
        if step.op in ("reshape", DIAGONALS):
            return True
        if step.op == "getitem":  # of one element: NumPy returns no view
            return is_basic(step.args[1:])
        if step.op in ("stack", "concat"):
            return len({self.dtype(n) for n in (*step.refs, *step.made)}) == 1
        if step.op in ("scatter_add", "setitem"):
            same = len({self.dtype(n) for n in (*step.refs, *step.made)}) == 1
            return same and is_basic(step.args[1:2]) and type(step.args[2]) is Ref
        return False

    def indexed(self, step: Step) -> tuple[int, list[int]] | None:
        """Return the first axis along which a step reads or adds at integer arrays, and their numbers; None if it does not."""
        if step.several or len(step.made) != 1:
            return None
        if step.op == "getitem" and type(step.args[0]) is Ref:
            key, whole = step.args[1], step.args[0].number
        elif step.op == "take" and step.kwargs.keys() <= {"axis"} and len(step.refs) == len(step.args) == 2:
            whole, axis = step.args[0].number, step.kwargs.get("axis")
            if axis is None and len(self.shapes[whole].shape) != 1:
                return None
            key = (*(slice(None),) * ((axis or 0) % len(self.shapes[whole].shape)), step.args[1])
        elif step.op == "scatter_add" and type(step.args[0]) is Shaped and type(step.args[2]) is Ref and self.own:
            key, whole = step.args[1], step.made[0]
            if self.dtype(whole) not in FLOATS or self.dtype(step.args[2].number) != self.dtype(whole):
                return None
        else:
            return None
        parts: tuple[Any, ...] = key if type(key) is tuple else (key,)
        at = [axis for axis, part in enumerate(parts) if type(part) is Ref]
        others = [part for part in parts if type(part) is not Ref]
        if not at or at != [*range(at[0], at[-1] + 1)] or any(part != slice(None) for part in others):
            return None
        refs = [parts[axis].number for axis in at]
        shape = self.shapes[whole].shape
        kinds = all(self.dtype(ref) in ("int32", "int64") and self.size(ref) for ref in refs)
        if not kinds or len(parts) > len(shape) or not all(shape) or not self.is_movable(whole):
            return None
        return at[0], refs

    def lapack(self, step: Step) -> Any:
        """Return the function of matrices in ``numpy.linalg`` whose loop implements a step; None if there is none."""
        if step.op not in ("linalg.cholesky", "linalg.inv", "linalg.solve") or step.kwargs.get("upper"):
            return None
        if not all(type(a) is Ref for a in step.args) or any(
            self.dtype(n) != "float64" for n in (*step.refs, *step.made)
        ):
            return None
        vector = len(self.shapes[step.refs[-1]].shape) == 1
        if step.op == "linalg.solve" and vector and len(self.shapes[step.refs[0]].shape) > 2:
            return None  # the result's last axis does not belong to a matrix
        name = {"linalg.cholesky": "cholesky_lo", "linalg.inv": "inv"}.get(step.op, "solve1" if vector else "solve")
        found = getattr(_umath_linalg, name, None)
        return found if found is not None and loop_of(found, ("float64",) * found.nargs) is not None else None

    def is_movable(self, number: int) -> bool:
        """Return whether a kernel can move elements of a value's dtype."""
        return self.dtype(number) in TYPES or self.places[number].dtype.itemsize in (4, 8)

    def loop_called(self, at: int) -> tuple[Any, tuple[str, ...]] | None:
        """Return the ufunc whose inner loop implements a step, and the dtypes of that; None if there is none."""
        step, kernel = self.steps[at], self.tried.kernels[at]
        if step.several or step.kwargs or len(step.made) != 1 or not step.refs:
            return None
        if symbol_of(step):
            if step.op == "pow":
                return None  # Python's operator takes some powers by other functions
            kernel = getattr(np, facts_of(step.op).numpy.partition(" ")[0], None)
        if not isinstance(kernel, np.ufunc) or kernel.signature or kernel.nout != 1 or kernel.nin != len(step.args):
            return None
        operands = [self.dtype(a.number) if type(a) is Ref else a for a in step.args]
        if not all(isinstance(one, str | bool | int | float) for one in operands) or any(
            type(a) is str for a in step.args
        ):
            return None
        if not self.own and not self._lie_alike(step):
            return None
        dtypes = resolves(kernel, operands, self.dtype(step.made[0]))
        return None if dtypes is None or loop_of(kernel, dtypes) is None else (kernel, dtypes)

    def _lie_alike(self, step: Step) -> bool:
        """Return whether operands lie as the result does, or have one element: NumPy's loops round otherwise by other strides."""
        made = self.places[step.made[0]]
        if made.dtype.kind == "c" and made.size == 1:
            return False  # the steps that NumPy passes to its loop then depend on the number of axes
        operands = [self.places[ref] for ref in step.refs]
        alike = all(o.size == 1 or (o.shape == made.shape and o.strides == made.strides) for o in operands)
        return alike and made.is_dense

    # -- outputs ------------------------------------------------------------------------------------------------------

    def _with_outputs(self) -> list[int]:
        """Return the outputs, with copies in place of values without memory of their own."""
        number = self.program.next_number()
        found: list[int] = []
        given = {*self.program.inputs, *self.tried.kept}
        makers = {n: at for at, step in enumerate(self.steps) for n in step.made}
        for out in self.program.outputs:
            plain = out not in given and out not in found and self.places[out].root == out
            fresh = out not in given and out not in found and self.places[out].is_dense
            if self.in_order and not self.places[out].in_order:
                plain = fresh = False
            if plain or (fresh and self.kinds[makers[out]] == "tiny"):
                found.append(out)
                continue
            self.steps.append(Step("copy", (Ref(out),), {}, (number,)))
            self.kinds.append("copy" if self.is_movable(out) and self.size(out) else "python")
            self.tried.kernels.append(np.copy)
            self.shapes[number] = self.shapes[out]
            place = self.places[out]
            kept = place.is_dense and not self.in_order
            strides = place.strides if kept else contiguous(place.shape, place.dtype.itemsize)
            self.places[number] = Placement(place.shape, strides, place.dtype, number, 0)
            found.append(number)
            number += 1
        return found

    # -- groups -------------------------------------------------------------------------------------------------------

    def _following(self, stretch: Stretch, groups: Mapping[int, list[FusionGroup]]) -> list[FusionGroup]:
        """Return the groups of a stretch that is similar to an earlier one; none if they differ."""
        like = stretch.like
        if like is None or self.kinds[stretch.start : stretch.stop] != self.kinds[like.start : like.stop]:
            return []
        found = []
        for group in groups[like.start]:
            on = stretch.start - like.start
            found.append(FusionGroup(group.kind, [at + on for at in group.steps], group.shape))
            found[-1].like, found[-1].numbers = group, stretch.numbers
        return found

    def _grouped(self, start: int, stop: int) -> list[FusionGroup]:
        """Return groups of the steps of a stretch."""
        found: list[FusionGroup] = []
        inside = {n: at for at in range(start, stop) for n in self.steps[at].made}
        needs = {at: {inside[r] for r in self.steps[at].refs if r in inside} - {at} for at in range(start, stop)}
        done: set[int] = {at for at in range(start, stop) if self.kinds[at] == "kept"}
        todo = [at for at in range(start, stop) if at not in done]
        while todo:
            first = next(at for at in todo if needs[at] <= done)
            if self.own and self.kinds[first] in ("product", "tiled"):
                first = self._next(first, [at for at in todo if needs[at] <= done])
            kind = self.kinds[first]
            if kind == "tiny":
                group = FusionGroup("tiny", [])
                for at in todo:
                    if self.kinds[at] == "tiny" and needs[at] <= done | {*group.steps}:
                        group.steps.append(at)
            elif kind == "loop":
                group = self._loops(todo, needs, done, self.loop_shape(first))
            elif kind in ("product", "tiled") and (by_rows := self._by_rows(first, todo, needs, done)):
                group = by_rows
            elif kind == "tiled":
                group = self._with_what_follows(first, todo, needs, done)
            else:
                group = FusionGroup(kind, [first])
            done.update(group.steps)
            todo = [at for at in todo if at not in done]
            found.append(group)
        return found

    def loop_shape(self, at: int) -> tuple[int, ...]:
        """Return the shape that a step's loop traverses."""
        step = self.steps[at]
        return self.shapes[step.refs[0] if self.is_sum(step) else step.made[0]].shape

    def _loops(
        self, todo: list[int], needs: Mapping[int, set[int]], done: set[int], shape: tuple[int, ...]
    ) -> FusionGroup:
        """Return a group of steps computed in one loop over a shape: elementwise steps, and sums over the same axes."""
        group = FusionGroup("loop", [], shape)
        members: set[int] = set()
        sums: Any = None  # axes, order and dtype of the sums in it
        made: set[int] = set()
        for at in todo:
            step = self.steps[at]
            if self.kinds[at] != "loop" or not needs[at] <= done | members or self.loop_shape(at) != shape:
                continue
            if any(n in made and self.shapes[n].shape != shape for n in step.refs):
                continue
            if self.is_sum(step):
                found = self.axes(step), self.sum_order(step), self.dtype(step.made[0])
                if sums is not None and sums != found:
                    continue
                sums = found
                group.steps.append(at)
            else:
                group.steps.append(at)
                members.add(at)
                made.update(step.made)
        if sums is not None and members and not self.own and not self._goes_as_alone(group, members):
            group.steps = [at for at in group.steps if at in members]
        return group

    def _with_what_follows(
        self, first: int, todo: list[int], needs: Mapping[int, set[int]], done: set[int]
    ) -> FusionGroup:
        """Return a group of a product in tiles and the simple elementwise steps that take its result."""
        group = FusionGroup("tiled", [first], self.loop_shape(first))
        made = {*self.steps[first].made}
        for at in todo:
            step = self.steps[at]
            if self.kinds[at] != "loop" or self.is_sum(step) or not elementwise.is_quick(step):
                continue
            if made & {*step.refs} and needs[at] <= done | {*group.steps} and self.loop_shape(at) == group.shape:
                group.steps.append(at)
                made.update(step.made)
        return group

    def row_product(self, step: Step) -> RowProduct | None:
        """Return what a step is as a product of a matrix whose rows are contiguous and a vector; None if it is none."""
        if step.op != "matmul":
            return None
        for at, (number, vector) in enumerate((step.refs, step.refs[::-1])):
            place, along = self.places[number], self.places[vector]
            if len(place.shape) != 2 or min(place.shape) < 2 or max(along.shape, default=0) != along.size:
                continue
            if len(along.shape) > 2 or along.shape[-1 if at else 0] != place.shape[at - 1]:
                continue
            size = place.dtype.itemsize
            turned = place.strides[1] != size
            (rows, columns), (stride, one) = (p[::-1] if turned else p for p in (place.shape, place.strides))
            each = (at == 0) != turned
            lies = not each or along.strides[along.shape.index(along.size)] == size
            if one == size and stride >= columns * size and lies:
                return RowProduct((place.root, place.offset, rows, columns, stride), number, vector, each)
        return None

    def _by_rows(
        self, first: int, todo: list[int], needs: Mapping[int, set[int]], done: set[int]
    ) -> FusionGroup | None:
        """Return a group of products with the rows of a matrix, what follows, and products with the matrix again; None if there is none."""
        product = self.row_product(self.steps[first])
        if product is None or not self._is_long(product):
            return None
        group, again = FusionGroup("rows", [], (product.rows,)), False
        members, made = set[int](), set[int]()
        for at in todo:
            step, kind = self.steps[at], self.kinds[at]
            if kind not in ("product", "tiled", "loop", "view") or not needs[at] <= done | members:
                continue
            rows = [number for number in step.refs if number in made]
            total = kind == "loop" and self.is_sum(step)
            if kind == "view":
                fits = bool(rows) and self._is_of_rows(step.made[0], product) and self._lies_as(rows[0], step.made[0])
            elif total:
                fits = bool(rows) and self.size(step.made[0]) == 1
            elif kind == "loop":
                fits = self._goes_over_rows(step, product)
            else:
                other = self.row_product(step)
                fits = other is not None and other.matrix == product.matrix
                if other is not None and fits:
                    total = not other.each
                    fits = other.vector in made if total else not rows
                    again = again or (total and fits)
            if fits:
                group.steps.append(at)
                if not total:
                    members.add(at)
                    made.update(step.made)
        return group if again else None

    def _next(self, first: int, ready: Sequence[int]) -> int:
        """Return which step is the next one: a product with many rows waits until what may go with it can be computed."""
        product = self.row_product(self.steps[first])
        if product is None or not self._is_long(product):
            return first
        for at in ready:
            step, kind = self.steps[at], self.kinds[at]
            other = self.row_product(step) if kind in ("product", "tiled") else None
            waits = other is not None and other.matrix == product.matrix and other.each
            if not waits and not (kind == "loop" and self._goes_over_rows(step, product)):
                return at
        return first

    def _is_long(self, product: RowProduct) -> bool:
        """Return whether a product is one with each row of a matrix that should be read once."""
        root = product.matrix[0]
        lies = self.places[root].is_dense or root in {*self.program.inputs, *self.tried.kept}  # else it may get memory
        return self.own and product.each and product.is_long and lies

    def _goes_over_rows(self, step: Step, product: RowProduct) -> bool:
        """Return whether an elementwise step takes and makes one element for each row, or one for all."""
        return not self.is_sum(step) and all(self._is_of_rows(n, product) for n in (*step.refs, *step.made))

    def _is_of_rows(self, number: int, product: RowProduct) -> bool:
        """Return whether a value has one element for each row, or one for all."""
        return self.size(number) == 1 or product.rows == self.size(number) == max(self.shapes[number].shape)

    def _lies_as(self, number: int, view: int) -> bool:
        """Return whether a view of values along one axis, with such an axis, has them in the same order."""
        one, other = self.places[number], self.places[view]
        along = [place.strides[place.shape.index(place.size)] for place in (one, other)]
        return (one.root, one.offset, along[0]) == (other.root, other.offset, along[1])

    def _goes_as_alone(self, group: FusionGroup, members: set[int]) -> bool:
        """Return whether a loop traverses the operand of a sum as NumPy does in isolation, which determines the bits."""
        sums = [at for at in group.steps if at not in members]
        step = self.steps[sums[0]]
        order, axes = self.sum_order(step), self.axes(step)
        assert order is not None
        inside = {n for at in members for n in self.steps[at].made}
        shape = [group.shape[i] for i in order]
        kept = [0 if i in axes else 1 for i in order]
        alone = [[self.places[step.refs[0]].strides[i] for i in order], [k * (2**40 - i) for i, k in enumerate(kept)]]
        others = {r for at in group.steps for r in self.steps[at].refs if r not in inside}
        given = {*self.program.inputs, *self.tried.kept}
        # It may get memory, in another layout
        if any(min(self.places[r].strides, default=1) <= 0 for r in others - given):
            return False
        together = [*alone, *([self.places[r].over(group.shape)[i] for i in order] for r in others)]
        together += [[self.places[n].strides[i] for i in order] for n in inside]
        return len(collapsed(shape, alone)[0]) == len(collapsed(shape, together)[0])

    # -- places -------------------------------------------------------------------------------------------------------

    def _find_places(self) -> None:
        """Decide which values are in memory, and where."""
        group_of = {at: i for i, group in enumerate(self.groups) for at in group.steps}
        makers = {n: at for at, step in enumerate(self.steps) for n in step.made}
        self.before = dict(self.places)
        self.needed: set[int] = {*self.outputs}
        for at, step in enumerate(self.steps):
            if at not in group_of:
                continue
            for ref in step.refs:
                if ref in makers and makers[ref] in group_of and group_of[makers[ref]] != group_of[at]:
                    self.needed.add(ref)
        for group in self.groups:
            for at in group.steps:
                for number in self.steps[at].made:
                    if self._has_memory(group, at, number):
                        self._settle(group, at, number)
        kept = self.outputs[len(self.outputs) - self._kept :]
        self.layout = BlockLayout([self.places[number] for number in kept])
        self.block.update(starts_in(self.layout, kept))
        self.slots: dict[int, int] = {}
        block = [BLOCK] if self._has_block else []
        for number in (*block, *self.program.inputs, *self.tried.kept, *self.outputs):
            if number not in self.block:
                self.slots.setdefault(number, len(self.slots) + 1)
        self._share()

    def _has_memory(self, group: FusionGroup, at: int, number: int) -> bool:
        """Return whether a value is written to memory."""
        if group.kind in ("tiny", "loop", "tiled"):
            return number in self.needed or (group.kind == "loop" and self.is_sum(self.steps[at]))
        if group.kind == "rows":
            return number in self.needed or self.size(number) < group.shape[0]  # sums
        return True

    def _settle(self, group: FusionGroup, at: int, number: int) -> None:
        """Give a value memory of its own, in NumPy's layout, unless it shares another one's."""
        place = self.places[number]
        if group.kind != "view":
            # a product is computed differently for other strides, so even copied views keep their strides
            kept = place.is_dense or (group.kind == "tiny" and min(place.strides, default=1) > 0)
            strides = place.strides if kept else contiguous(place.shape, place.dtype.itemsize)
            self.places[number] = Placement(place.shape, strides, place.dtype, number, 0)
            return
        step = self.steps[at]
        ref = next(r for r in step.refs if self.before[r].root == self.before[number].root)
        now, then = self.places[ref], self.before[ref]
        if now.strides == then.strides:
            offset = now.offset + place.offset - then.offset
            self.places[number] = Placement(place.shape, place.strides, place.dtype, now.root, offset)
            return
        # it was a view of a view, which is now copied: a view of such a copy shows its layout
        reach = [(n - 1) * s for n, s in zip(now.shape, now.strides, strict=True)]
        before = -sum(min(r, 0) for r in reach)  # bytes, if an axis goes backwards
        memory = np.empty(before + sum(max(r, 0) for r in reach) + now.dtype.itemsize, np.uint8)
        operand = np.ndarray(now.shape, now.dtype, memory, before, now.strides)
        found = self.tried.call(self.tried.kernels[at], step, {ref: operand})
        part = found[step.outs.index(number)] if step.several else found
        if base_of(part) is not memory:
            raise Refused(f"{step.op} is no view of a copy of its operand")
        offset = now.offset + address(part) - address(operand)
        self.places[number] = Placement(part.shape, part.strides, part.dtype, now.root, offset)

    def _share(self) -> None:
        """Lay out the workspace: memory is reused after the last use of its value."""
        last: dict[int, int] = {}
        held: dict[int, list[int]] = {}
        for i, group in enumerate(self.groups):
            for at in group.steps:
                step = self.steps[at]
                roots = [self.places[n].root for n in (*step.refs, *step.made) if n in self.places]
                last.update(dict.fromkeys(roots, i))
                held.setdefault(i, []).extend(n for n in step.made if self._is_stored(group, at, n))
        ends: dict[int, list[int]] = defaultdict(list)
        for root, i in last.items():
            ends[i].append(root)
        free: dict[int, list[int]] = defaultdict(list)
        self.starts: dict[int, int] = {}
        self.workspace = 0
        for i in range(len(self.groups)):
            for number in held.get(i, ()):
                room = self._room(number)
                if free[room]:
                    self.starts[number] = free[room].pop()
                else:
                    self.starts[number] = self.workspace
                    self.workspace += room
            for root in ends[i]:
                if root in self.starts:
                    free[self._room(root)].append(self.starts[root])
        self.scratch = self.workspace  # the state of loops, one after the other
        loops = [Scratch(self.steps[at].args[1], low).total for at, low in self.tried.loops.items()]
        self.workspace += max(loops, default=0)

    def _is_stored(self, group: FusionGroup, at: int, number: int) -> bool:
        """Return whether a value has a part of the workspace."""
        outside = number in self.slots or number in self.block
        return self.places[number].root == number and not outside and self._has_memory(group, at, number)

    def _room(self, number: int) -> int:
        size = self.places[number].span
        return max(-(-size // ALIGNED) * ALIGNED, ALIGNED) + (ALIGNED if size >= 4096 else 0)

    def work(self) -> int:
        """Return approximately how many elements the steps compute, counting multiplications of products."""
        total = 0
        for group in self.groups:
            for at in group.steps if group.kind != "view" else ():
                step = self.steps[at]
                if group.kind == "scan":
                    total += step.args[1].length * self.tried.loops[at].work()
                    continue
                sizes = [self.size(n) for n in (*step.refs, *step.made) if n in self.shapes]
                inner = self.shapes[step.refs[0]].shape[-1] // 8 + 1 if step.op == "matmul" else 1
                total += max(sizes, default=0) * inner // (8 if group.kind == "tiny" else 1)
        return total

    @property
    def status(self) -> tuple[int, int]:
        """Slot and offset of the word that is nonzero if a kernel failed."""
        return 0, self.workspace

    def is_in_memory(self, number: int) -> bool:
        """Return whether a value can be read from memory."""
        root = self.places[number].root
        return root in self.slots or root in self.starts or root in self.block

    def where(self, number: int) -> tuple[int, int]:
        """Return the slot and the offset of a value in memory."""
        place = self.places[number]
        if place.root in self.slots:
            return self.slots[place.root], place.offset
        if place.root in self.block:
            return self.slots[BLOCK], self.block[place.root] + place.offset
        return 0, self.starts[place.root] + place.offset


def predicted_seconds(program: Program, *, exact: bool = True) -> float:
    """Return the approximate time to compile a program to native code: it depends only on its steps.

    Parameters
    ----------
    program : Program
        As an executor gets it.
    exact : bool
        Whether bits are those of the steps one by one: products are then not unrolled.

    Returns
    -------
    float
        Seconds of a processor of 2022: for lowering each step, and for compiling the distinct ones.
    """
    shapes, seconds = program.shapes, SECONDS["whole"] + len(program.steps) * SECONDS["step"]
    firsts = dict(zip(signatures(program.steps, shapes), program.steps, strict=True))
    for step in firsts.values():
        if step.op == LOOP:
            seconds += predicted_seconds(step.args[1].program, exact=exact)
            continue
        largest = max((math.prod(shapes[n].shape) for n in (*step.refs, *step.made) if n in shapes), default=0)
        kind = "tiny" if largest <= TINY else "product" if step.op == "matmul" and not exact else "loop"
        seconds += SECONDS[kind]
    return seconds


class Scratch:
    """The operands of a loop, by offsets in its memory; the workspace and status of a call are at the beginning.

    Attributes
    ----------
    carried : list of (int, int)
        For each carried value, its position before every other call.
    nowhere : list of int
        For each result of a call, where it is written if it is not wanted.
    total : int
        Bytes of all.
    """

    def __init__(self, body: Body, low: LoweredProgram) -> None:
        self.total = 0
        self._reserve(low.workspace + 8)
        rooms = [low.places[n].nbytes for n in low.outputs]
        self.carried = [(self._reserve(n), self._reserve(n)) for n in rooms[: body.carried]]
        self.nowhere = [self._reserve(n) for n in rooms]

    def _reserve(self, count: int) -> int:
        at, self.total = self.total, self.total + max(-(-count // ALIGNED), 1) * ALIGNED
        return at


def is_basic(key: Any) -> bool:
    """Return whether an index only consists of integers, slices, None and ``...``."""
    if type(key) is tuple:  # a reference is a named one
        return all(map(is_basic, key))
    if isinstance(key, slice):
        return all(bound is None or type(bound) is int for bound in (key.start, key.stop, key.step))
    return key is None or key is ... or type(key) is int


def collapsed(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return a shape and strides with fewer axes: without those of one element, and merging those that are contiguous in all operands."""
    axes = [i for i, n in enumerate(shape) if n != 1]
    sizes = [shape[i] for i in axes]
    rows = [[row[i] for i in axes] for row in strides]
    for i in range(len(sizes) - 2, -1, -1):
        if all(row[i] == row[i + 1] * sizes[i + 1] for row in rows):
            sizes[i] *= sizes.pop(i + 1)
            for row in rows:
                row[i] = row.pop(i + 1)
    return sizes, [tuple(row) for row in rows]
