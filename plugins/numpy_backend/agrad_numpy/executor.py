"""Runs recorded programs on NumPy: straight-line text on buffers that are kept from call to call.

The first call with inputs of a layout (their strides) runs the steps one by one and records where each result lies: its
strides, and whose memory it has. Text is then written for that layout. Results that no output can see go to buffers,
which are shared after a value's last use, counted by memory; a view of a buffer is made once. Everything else is the
same call as in eager code. So the bits are those of eager code, except where sums and matrix products may be computed
in another order (`turned`, and ``agrad_numpy.tiles``).
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import numpy as np

from agrad.plugin.backend import facts_of
from agrad.plugin.programs import (
    DRAW,
    HERE,
    STOP,
    DType,
    Program,
    Ref,
    Shaped,
    Step,
    Stopped,
    Writer,
    environment,
    find,
    is_foreign,
    is_fresh,
    is_number,
    key_of,
    mapped,
    refs_in,
    symbol_of,
)
from agrad_numpy import tiles
from agrad_numpy.kernels import DOT_BELOW, HALF
from agrad_numpy.tiles import Layout, TiledRun, is_contiguous

#: The number of input layouts that text is written for; calls with further ones run the plain program.
LAYOUTS = 8

#: The number of sets of buffers that are kept for concurrent calls.
POOLS = 4

#: The alignment of buffers, in bytes.
ALIGNED = 64

#: Results of at least this size, in bytes, are released at their last use; smaller ones when the call ends.
LARGE = 2**12

#: From this size on, in bytes, an array is returned as the result if the last step that takes it can write the result
#: over it.
PASSED_ON_FROM = 2**17

#: The limit, in bytes, for keeping values computed only from constants.
FOLDED_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Location:
    """Where a value was in memory when the steps ran one by one.

    Attributes
    ----------
    layout : Layout
        Shape, strides, dtype.
    root : int
        The number of the value whose memory it has; its own, if it has its own.
    offset : int
        The offset of its first element in that memory, in bytes.
    """

    layout: Layout
    root: int
    offset: int


class NumpyProgram:
    """A program for NumPy arrays.

    Parameters
    ----------
    program : Program
        Without steps for histories.
    backend : Backend
        NumPy's.
    exact : bool
        Whether sums, and matrix products, are computed as in eager code.
    threads : int
        How many threads may work on large arrays.
    """

    def __init__(self, program: Program, backend: Any, *, exact: bool, threads: int) -> None:
        self.program = program if exact else turned(program)
        self.backend, self.exact, self.threads = backend, exact, threads
        self._arrays = [i for i, number in enumerate(program.inputs) if number not in program.keys]
        self._layouts: dict[Any, BoundText] = {}
        self._free: list[Callable[..., Any]] = []
        self._plain: Callable[..., Any] | None = None

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        free = self._free
        try:
            run = free.pop()
        except IndexError:
            return self._found(values)
        try:
            outs = run(*values)
        except Stopped:
            free.append(run)
            raise
        except Exception:
            free.append(run)
            self._explain(values)
            raise
        if outs is None:  # the inputs have another layout
            free.append(run)
            return self._found(values)
        if len(free) < POOLS:
            free.append(run)
        return outs  # type: ignore[no-any-return]

    def _found(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run on inputs whose layout is not the last call's, or for which all buffers are in use."""
        key = tuple(values[i].strides for i in self._arrays)
        bound = self._layouts.get(key)
        if bound is None:
            if len(self._layouts) >= LAYOUTS:
                if self._plain is None:
                    self._plain = self.program.function(self.backend)
                return self._plain(*values)
            trial = StepwiseRun(self.program, self.backend, values)
            outs = trial.run()
            self._layouts[key] = BoundText(lambda: NumpyText(self.program, trial, key, self.exact, self.threads))
            return outs
        self._free = free = bound.free
        if not free:
            free.append(bound.another())
        return self(*values)

    def _explain(self, values: tuple[Any, ...]) -> None:
        """Raise the error of a run again, with the step that raised it."""
        try:
            StepwiseRun(self.program, self.backend, values).run()
        except Exception as error:
            raise error from None

    def clear(self) -> None:
        """Release buffers and texts."""
        self._layouts, self._free = {}, []

    @property
    def nbytes(self) -> int:
        """The size of the kept buffers in bytes."""
        return sum(len(bound.free) * bound.size for bound in list(self._layouts.values()))


class BoundText:
    """A text, and its functions with their own buffers: one for each concurrent call.

    No lock is held while the text is written, because a forked child would wait for it: concurrent threads each write
    it themselves.

    Parameters
    ----------
    make : callable
        Writes the text; nothing that it depends on changes.

    Attributes
    ----------
    free : list of callable
        Functions that no call is running.
    """

    def __init__(self, make: Callable[[], NumpyText]) -> None:
        self._make = make
        self.free: list[Callable[..., Any]] = []
        self._written: tuple[NumpyText, Any] | None = None

    def another(self) -> Callable[..., Any]:
        """Return a function with new buffers."""
        if self._written is None:
            text = self._make()
            self._written = text, text.compiled()  # as a pair: a text's code refers to its own buffers
        text, code = self._written
        names = text.names | text.buffers()
        exec(code, names)  # noqa: S102 (the text is made of validated steps)
        return names["program"]  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """The size of one function's buffers in bytes; 0 before the text is written."""
        return 0 if self._written is None else self._written[0].size


def default_threads() -> int:
    """Return how many threads work on large arrays: as many as the environment allows libraries, or the machine allows agrad."""
    for name in ("AGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- one by one -------------------------------------------------------------------------------------------------------


class StepwiseRun:
    """A run step by step, which records where values are in memory.

    Attributes
    ----------
    places : dict of int to Location
        By number.
    kept : dict of int to object
        Values that are the same in every call: constants, and values computed only from them.
    names : dict
        The objects that texts of programs refer to.
    """

    def __init__(self, program: Program, backend: Any, values: Sequence[Any]) -> None:
        self.program, self.backend = program, backend
        device = backend.default_device()
        self.names = environment(backend, device, program)
        self.places: dict[int, Location] = {}
        self.kept: dict[int, Any] = {}
        self._values: dict[int, Any] = dict(zip(program.inputs, values, strict=True))
        self._roots: dict[int, tuple[int, Any]] = {}  # by id of an array: its number, and a weak reference to it
        for number in program.inputs:
            if number not in program.keys:
                self._note(number, self._values[number], ())
        for number, value in program.constants.items():
            self.kept[number] = self._values[number] = backend.as_array(value)
            self._note(number, self.kept[number], ())
        seen = memory(program)
        self._visible = {seen(number) for number in program.outputs}
        self._group = seen

    def run(self) -> tuple[Any, ...]:
        """Run the steps; return the outputs."""
        program, values = self.program, self._values
        last = program.last_uses()
        scalars: set[int] = set()
        for at, step in enumerate(program.steps):
            kernel = self.kernel_of(step)
            refs = step.refs
            args = [self.value_of(a) for a in step.args]
            options = {name: self.value_of(v) for name, v in step.kwargs.items()}
            try:
                found = kernel(*args, **options)
            except Exception as error:
                shapes = ", ".join(str(self.program.shapes[r].shape) for r in refs if r in self.program.shapes)
                error.add_note(f"Raised by {step.op} on shapes {shapes}.\n  Recorded at {step.line}.")
                raise
            parts = found if step.several else (found,)
            if is_foreign(step.op):
                parts = tuple(apart(part, args) for part in parts)
            for number, part in zip(step.outs, parts, strict=True):
                if number is not None:
                    if isinstance(part, np.generic):
                        scalars.add(number)
                    # in the text, a scalar may be a buffer: a result may then be a view of it, as of an array here
                    values[number] = np.asarray(part) if number in scalars else part
                    self._note(number, values[number], refs)
            self._keep(step, refs)
            del args, options, found, parts
            for number in dict.fromkeys((*refs, *step.made)):
                if last.get(number, at) == at and number not in self.kept:
                    values.pop(number, None)
        outs = tuple(values[number][()] if number in scalars else values[number] for number in program.outputs)
        values.clear()  # the text that is written later needs none
        self._roots.clear()  # NumPy resizes no array that a weak reference leads to
        return outs

    def kernel_of(self, step: Step) -> Any:
        """Return the function that a step calls."""
        if step.op in (DRAW, STOP):
            return self.names[step.op]
        if symbol := symbol_of(step):
            return OPERATORS[symbol]
        return operator.attrgetter(step.op)(self.backend.xp)

    def value_of(self, part: Any) -> Any:
        """Return the value of an argument."""
        return mapped(self._leaf, part)

    def _leaf(self, part: Any) -> Any:
        kind = type(part)
        if kind is Ref:
            return self._values[part.number]
        if kind is DType:
            return self.names[part]
        if kind is Shaped:
            return self.names["spec"](part.shape, self.names[part.dtype])
        return self.names["device"] if part is HERE else part

    def _note(self, number: int, value: Any, refs: Sequence[int]) -> None:
        if not isinstance(value, np.ndarray | np.generic):
            return
        layout = value.shape, value.strides, value.dtype
        base = value
        while (below := getattr(base, "base", None)) is not None:
            base = below
        known, alive = self._roots.get(id(base), (number, None))
        root = known if alive is not None and alive() is base else number
        if not isinstance(base, np.ndarray | np.generic) and root == number:  # the memory does not belong to an array
            taken = [r for r in refs if r in self.places]
            root = next((self.places[r].root for r in taken if np.may_share_memory(value, self._values[r])), number)
        if root == number and isinstance(base, np.ndarray):
            self._roots[id(base)] = number, weakref.ref(base)
        offset = address(value) - address(base) if root != number and isinstance(base, np.ndarray) else 0
        self.places[number] = Location(layout, root, offset)

    def _keep(self, step: Step, refs: Sequence[int]) -> None:
        """Keep a value that is the same in every call, if no output can see it."""
        if step.op == DRAW or step.op.startswith("empty") or any(r not in self.kept for r in refs):
            return
        if any(self._group(n) in self._visible or n not in self.places for n in step.made):
            return
        owned = (n for n in step.made if self.places[n].root == n)
        if sum(getattr(self._values[n], "nbytes", 0) for n in owned) <= FOLDED_BYTES:
            self.kept.update({n: np.asarray(self._values[n]) for n in step.made})


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}


def aligned(size: int) -> Any:
    """Return this many bytes, which begin at a multiple of `ALIGNED`."""
    memory = np.empty(size + ALIGNED, np.uint8)
    return memory[-address(memory) % ALIGNED :]


def address(array: Any) -> int:
    """Return the address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def apart(value: Any, args: Any) -> Any:
    """Return the result of a user's kernel, copied if it shares an argument's memory: another call may not, so sharing is never assumed."""
    if not isinstance(value, np.ndarray):
        return value
    arrays = [a for part in args for a in (part if isinstance(part, tuple | list) else (part,))]
    within = any(isinstance(a, np.ndarray) and np.may_share_memory(value, a) for a in arrays)
    return value.copy(order="K") if within else value


def memory(program: Program) -> Callable[[int], int]:
    """Return a function from a number to that of a group of values that may share memory."""
    groups: dict[int, int] = {}
    for step in program.steps:
        if not is_fresh(step):
            for other in step.refs:
                for made in step.made:
                    a, b = find(groups, made), find(groups, other)
                    if a != b:
                        groups[a] = b
    return lambda number: find(groups, number)


def turned(program: Program) -> Program:
    """Return a program in which a matrix product is computed transposed if only its transpose is wanted.

    Its result is then in C order, like the arrays it is combined with: an update of weights by a gradient takes a tenth
    of the time. The last bits may differ.
    """
    uses = Counter(n for step in program.steps for n in step.refs) + Counter(program.outputs)
    makers = {n: step for step in program.steps for n in step.made}
    fresh = itertools.count(program.next_number()).__next__
    shapes, turn = dict(program.shapes), {}
    for step in program.steps:
        product = makers.get(step.args[0].number) if step.op == "matrix_transpose" else None
        if product is None or product.op != "matmul" or uses[product.made[0]] > 1:
            continue
        if all(len(shapes[n].shape) == 2 for n in product.refs):
            turn[product.made[0]] = step.made[0]
    if not turn:
        return program
    steps: list[Step] = []
    for step in program.steps:
        if step.op == "matmul" and step.made[0] in turn:
            operands = []
            for number in reversed(step.refs):
                maker = makers.get(number)
                if maker is not None and maker.op == "matrix_transpose":
                    operands.append(maker.args[0])
                    continue
                view, about = fresh(), shapes[number]
                shapes[view] = Shaped(about.shape[::-1], about.dtype)
                steps.append(Step("matrix_transpose", (Ref(number),), {}, (view,), False, step.line, step.region))
                operands.append(Ref(view))
            step = replace(step, args=tuple(operands), outs=(turn[step.made[0]],))  # noqa: PLW2901
        elif step.op == "matrix_transpose" and step.args[0].number in turn:
            continue
        steps.append(step)
    return program.replaced(steps=tuple(steps), shapes=shapes).needed()


# -- text -------------------------------------------------------------------------------------------------------------


class NumpyText(Writer):
    """The text of a program for inputs in one layout, and the buffers it needs.

    Attributes
    ----------
    names : dict
        The objects that the text refers to, without buffers.
    size, room : int
        Bytes of all buffers, and of the memory that the steps of a tile need, on each thread.
    rooms : dict
        By name, the values between the steps of tiled runs: beginnings, shapes and dtypes; and on how many threads.
    tiled : list of str
        The functions of tiled runs.
    """

    def __init__(self, program: Program, trial: StepwiseRun, key: Any, exact: bool, threads: int) -> None:
        super().__init__(program)
        self.key, self.exact, self.threads = key, exact, threads
        self.places, self.kept = trial.places, trial.kept
        self.names: dict[str, Any] = dict(trial.names)
        self.size = 0
        self.room = 0
        self.rooms: dict[str, tuple[list[Any], int]] = {}
        self.tiled: list[str] = []
        self._in_tile: Mapping[int, str] = {}
        self._value_of, self._kernel_of = trial.value_of, trial.kernel_of
        self._slots: dict[int, int] = {}  # by root, the beginning of its buffer
        self._rooms: dict[int, int] = {}  # by root, the bytes of its buffer while it is in use
        self._free: list[tuple[int, int]] = []  # of free buffers: bytes, and their beginnings
        self._views: dict[tuple[int, Layout], str] = {}  # of buffers, their names
        self._constants: dict[Any, str] = {}
        self._ends: dict[int, int] = {}  # by root, the last use of its memory
        for number, at in self.last.items():
            if number in self.places:
                root = self.places[number].root
                self._ends[root] = max(self._ends.get(root, -1), at)
        for step_at, step in enumerate(program.steps):  # a value that nobody takes dies where it is computed
            for number in step.outs:
                if number in self.places:
                    self._ends.setdefault(self.places[number].root, step_at)
        # A user's kernel may return an operand, which lives longer than the result
        for step in reversed(program.steps):
            if is_foreign(step.op):
                roots = [self.places[n].root for n in step.made if n in self.places]
                after = min(max((self._ends[root] for root in roots), default=-1) + 1, len(program.steps))
                for number in step.refs:
                    if number in self.places:
                        root = self.places[number].root
                        self._ends[root] = max(self._ends[root], after)
        self._dying: dict[int, list[int]] = {}
        for root, at in self._ends.items():
            self._dying.setdefault(at, []).append(root)
        self._visible = set(self._dying.get(len(program.steps), ()))
        self._passed_on: dict[int, int] = {}  # by result that is returned, the value whose array it gets

    # -- what there is ------------------------------------------------------------------------------------------------

    def compiled(self) -> Any:
        """Return the code that defines ``program``."""
        return compile(self.written(), "<agrad program on NumPy>", "exec")

    def buffers(self) -> dict[str, Any]:
        """Return new buffers, and views of them, by the names in the text."""
        arena = aligned(self.size)
        made: dict[str, Any] = {
            name: np.ndarray(shape, dtype, arena, at, strides)
            for (at, (shape, strides, dtype)), name in self._views.items()
        }
        threads = max((count for _, count in self.rooms.values()), default=0)
        rooms = [aligned(self.room) for _ in range(threads)]
        for name, (arrays, count) in self.rooms.items():
            made[name] = tuple(
                tuple(np.ndarray(shape, dtype, room, at) for at, shape, dtype in arrays) for room in rooms[:count]
            )
        return made

    # -- writing ------------------------------------------------------------------------------------------------------

    def written(self) -> str:
        """Return the text."""
        functions = self.functions()
        return "\n".join([*self.tiled, *functions])

    def signature(self) -> str:
        return f"def program({', '.join(f'v{n}' for n in self.program.inputs)}):"

    def opening(self) -> Iterator[str]:
        inputs = (number for number in self.program.inputs if number not in self.program.keys)
        guards = [
            f"v{number}.strides != {self.constant(strides)}"
            for number, strides in zip(inputs, self.key, strict=True)
            if strides
        ]
        if guards:
            yield f"if {' or '.join(guards)}: return None"

    def lines(self, start: int, stop: int) -> Iterator[str]:
        at = start
        while at < stop:
            run = TiledRun(self, at, stop) if self._is_cut(self.program.steps[at]) else None
            if run is not None and run.is_worth_it():
                for ahead in run.ahead:
                    yield from self.statements(ahead, self.program.steps[ahead], alone=False)
                yield from run.lines()
                end = run.stop
                inside = self.program.steps[at:end]
                touched = (n for step in inside for n in (*step.refs, *step.made) if n not in run.inside)
                gone = [n for n in dict.fromkeys(touched) if self.is_gone(n, end - 1)]
                if gone:
                    yield f"del {', '.join(map(self.name, gone))}"
            else:
                yield from self.statements(at, self.program.steps[at])
                end = at + 1
            for i in range(at, end):
                for root in self._dying.get(i, ()):
                    self._give_back(root)
            at = end

    def _is_cut(self, step: Step) -> bool:
        """Return whether a step creates an array so large that a tiled run may begin with it."""
        place = self.places.get(step.outs[0]) if step.outs and step.outs[0] is not None else None
        return place is not None and nbytes(place.layout) >= tiles.CUT_FROM

    def is_gone(self, number: int, at: int) -> bool:
        """Return whether a variable that holds a large array is not needed after a step."""
        if number in self.given or not super().is_gone(number, at):
            return False
        place = self.places.get(number)
        return place is None or nbytes(self.places[place.root].layout) >= LARGE

    def statements(self, at: int, step: Step, *, alone: bool = True) -> Iterator[str]:
        """Return the lines of a step; if it does not run alone, earlier steps may still need its operands."""
        if step.op == STOP:
            yield self._stop(*step.args)
            if gone := self.dropped(at, step):
                yield gone.removeprefix("; ")
            return
        if all(n in self.kept for n in step.made):
            return
        number, *more = step.made
        place = self.places.get(number)
        if not more and not step.several and place is not None:
            if place.root in self._slots:  # a view of a buffer, which is created with the buffers
                return
            if place.root != number:
                call = self._view(step)
                if call is not None:
                    yield f"v{number} = {call}"
                    return
            form = self.form(step, place)
            if form is not None:
                inside = place.root == number and number not in self._visible and is_dense(place.layout)
                if inside and not self._passes_on(number, place):
                    over = alone and form.elementwise and self._take_over(at, step, place)
                    yield from form.into(self.name(number) if over else self.take(number))
                    return
                if alone and number in self._passed_on:
                    yield from form.into(f"v{self._passed_on[number]}")
                    yield f"v{number} = v{self._passed_on[number]}{self.dropped(at, step)}"
                    return
                if form.plain is not None:
                    yield f"v{number} = {form.plain}{self.dropped(at, step) if alone else ''}"
                    return
        yield f"{self.target(step)} = {self.call(step)}{self.dropped(at, step) if alone else ''}"

    def _stop(self, array: Ref, value: Any) -> str:
        """Return the statement that ends the run if the single number in an array differs from a value, or from its truth."""
        there, number = self.part(array), self.part(value)
        stopped = f"raise {self.called('Stopped', Stopped)}"
        if type(value) is bool:
            return f"if {'not ' if value else ''}{there}: {stopped}"
        place = self.places.get(array.number)
        if type(value) is int:
            return f"if {there}.item() != {number}: {stopped}"
        if type(value) is float and value and math.isfinite(value) and place is not None and not place.layout[0]:
            return f"if float({there}) != {number}: {stopped}"  # as `item` does, which takes longer for scalars
        return f"{STOP}({there}, {number})"

    def is_local(self, number: int) -> bool:
        place = self.places.get(number)
        return number not in self.kept and (place is None or place.root not in self._slots)

    # -- arguments ----------------------------------------------------------------------------------------------------

    def name(self, number: int) -> str:
        if number in self._in_tile:
            return self._in_tile[number]
        if number in self.kept:
            name = f"c{number}"
            self.names[name] = self.kept[number]
            return name
        place = self.places.get(number)
        if place is None or place.root not in self._slots:
            return f"v{number}"
        key = self._slots[place.root] + place.offset, place.layout
        return self._views.setdefault(key, f"b{len(self._views)}")

    def reshaped(self, number: int, shape: tuple[int, ...]) -> str:
        """Return the name of a value in contiguous memory with another shape."""
        if number in self.kept:
            return self.constant(self.kept[number].reshape(shape), ("reshaped", number, shape))
        place = self.places[number]
        if place.root not in self._slots:
            return f"v{number}.reshape({shape})"
        dtype = place.layout[2]
        strides = tuple(math.prod(shape[i + 1 :]) * dtype.itemsize for i in range(len(shape)))
        key = self._slots[place.root] + place.offset, (shape, strides, dtype)
        return self._views.setdefault(key, f"b{len(self._views)}")

    def constant(self, value: Any, key: Any = None) -> str:
        """Return the name of an object that never changes."""
        key = (type(value), repr(value)) if key is None else key
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"k{len(self._constants)}"
            self.names[name] = value
        return name

    def called(self, name: str, function: Any) -> str:
        """Return the name of a function."""
        self.names[name] = function
        return name

    def part(self, part: Any) -> str:
        if any(True for _ in refs_in(part)):
            return super().part(part)
        if type(part) in (int, float, str, bool, NoneType) and part == part:  # NaN has no literal  # noqa: PLR0124
            return repr(part) if part not in (math.inf, -math.inf) else self.constant(part)
        return self.constant(self._value_of(part), ("argument", key_of(part)))

    def operand(self, part: Any, beside: Any) -> str:
        """Return an operand of a ufunc; a Python number as an array of the dtype that it takes next to another operand."""
        if type(part) is Ref:
            return self.name(part.number)
        try:
            dtype = np.result_type(beside, part)
            return self.constant(np.asarray(part, dtype), ("number", type(part), repr(part), dtype.str))
        except (OverflowError, TypeError):  # an integer that the dtype does not hold
            return repr(part)

    # -- calls --------------------------------------------------------------------------------------------------------

    def function(self, step: Step) -> str:
        return self.called(step.op.replace(".", "_"), self._kernel_of(step))

    def _view(self, step: Step) -> str | None:
        """Return a short call for a view."""
        if not step.args or type(step.args[0]) is not Ref:
            return None
        place = self.places.get(step.args[0].number)
        if place is None or not is_array(place.layout):
            return None
        x, op, more = self.name(step.args[0].number), step.op, step.args[1:]
        if op == "matrix_transpose" and not more:
            return f"{x}.T" if len(place.layout[0]) == 2 else f"{x}.swapaxes(-2, -1)"
        if op == "reshape" and len(more) == 1 and not step.kwargs:
            return f"{x}.reshape({self.part(more[0])})"
        if op == "permute_dims" and len(more) == 1 and not step.kwargs:
            return f"{x}.transpose({self.part(more[0])})"
        if op == "getitem" and len(more) == 1 and not step.kwargs:
            return f"{x}[{self.part(more[0])}]"
        return None

    def form(self, step: Step, place: Location) -> OutForm | None:
        """Return the form in which a step writes its result to an existing array."""
        kernel, op = self._kernel_of(step), step.op
        if place.layout[2].kind not in "biufc":
            return None
        layouts = [
            self.places[a.number].layout if type(a) is Ref and a.number in self.places else None for a in step.args
        ]
        if symbol_of(step) and op != "pow":
            kernel = getattr(np, facts_of(op).numpy.partition(" ")[0])
        if isinstance(kernel, np.ufunc) and kernel.nout == 1 and len(step.args) == kernel.nin and not step.kwargs:
            beside = next((x[2] for x in layouts if x is not None), None)
            if beside is None or not all(
                x is not None or is_number(a) for x, a in zip(layouts, step.args, strict=True)
            ):
                return None
            args = ", ".join(self.operand(a, beside) for a in step.args)
            return OutForm(self.called(kernel.__name__, kernel), args)
        make = FORMS.get(op)
        return None if make is None or not layouts or layouts[0] is None else make(self, step, layouts, place)

    def in_a_tile(self, step: Step, names: Mapping[int, str], *, copied: bool) -> Iterator[str]:
        """Return the lines of a step on tiles with these names; without a form, its result is copied or gets the name."""
        number = step.made[0]
        self._in_tile = names
        form = self.form(step, self.places[number])
        if form is not None:
            yield from form.into(names[number])
        elif copied:
            yield f"copyto({names[number]}, {self.call(step)})"
        else:
            yield f"{names[number]} = {self.call(step)}"
        self._in_tile = {}

    def scratch(self, name: str, sizes: Sequence[int], views: Mapping[Any, str], shape: Any, threads: int) -> str:
        """Return the names of the arrays between the steps of a tile, a tuple of them per thread."""
        starts, end = [], 0
        for size in sizes:
            starts.append(end)
            end += -(-math.prod(shape) * size // ALIGNED) * ALIGNED + 2 * ALIGNED
        self.room = max(self.room, end)
        self.rooms[f"{name}_rooms"] = [(starts[at], shape, dtype) for at, dtype in views], threads
        return f"{name}_rooms"

    # -- buffers ------------------------------------------------------------------------------------------------------

    def _take_over(self, at: int, step: Step, place: Location) -> bool:
        """Give a result the buffer of an operand that is not needed any more, if there is one."""
        return any(
            self._may_go_over(at, ref, step.refs, place) and self.move(self.places[ref].root, place.root)
            for ref in step.refs
        )

    def _passes_on(self, number: int, place: Location) -> bool:
        """Return whether an array is returned as that of a result: the last step that takes it writes the result over it."""
        at = self._ends[number]
        if nbytes(place.layout) < PASSED_ON_FROM or at == len(self.program.steps):
            return False
        step = self.program.steps[at]
        kernel = self._kernel_of(step)
        plain = isinstance(kernel, np.ufunc) and kernel.nout == 1 and len(step.args) == kernel.nin and not step.kwargs
        if not plain or {r for r in step.refs if r in self.places and self.places[r].root == number} != {number}:
            return False
        result = step.made[0]
        goes_out = self.places[result].root == result and result in self._visible and result not in self._passed_on
        if goes_out and self.places[result].layout == place.layout:
            self._passed_on[result] = number
            return True
        return False

    def move(self, root: int, number: int) -> bool:
        """Give a value the buffer of another one, if that is in use."""
        if root not in self._rooms:
            return False
        self._slots[number], self._rooms[number] = self._slots[root], self._rooms.pop(root)
        return True

    def take(self, number: int) -> str:
        """Give a value a free buffer; return its name."""
        size = -(-nbytes(self.places[number].layout) // ALIGNED) * ALIGNED
        found = bisect.bisect_left(self._free, (size, -1))
        if found < len(self._free) and self._free[found][0] <= 2 * size:
            room, start = self._free.pop(found)
        else:
            room, start = size, self.size
            # Large ones do not begin at the same offset in a page
            self.size += size + (2 * ALIGNED if size >= LARGE else 0)
        self._slots[number], self._rooms[number] = start, room
        return self.name(number)

    def is_whole(self, number: int) -> bool:
        """Return whether a value has all of the memory it lies in."""
        place = self.places[number]
        return not place.offset and nbytes(self.places[place.root].layout) == nbytes(place.layout)

    def is_seen(self, number: int) -> bool:
        """Return whether an output has a value's memory."""
        return self.places[number].root in self._visible

    def ends(self, root: int) -> int:
        """Return the position of the last step that takes a value sharing some value's memory."""
        return self._ends.get(root, -1)

    def _may_go_over(self, at: int, ref: int, refs: Sequence[int], place: Location) -> bool:
        old = self.places.get(ref)
        if old is None or old.root not in self._rooms or self._ends[old.root] != at:
            return False
        same = old.layout[:2] == place.layout[:2] and old.layout[2].itemsize == place.layout[2].itemsize
        if not same or not self.is_whole(ref):
            return False
        others = (self.places[r] for r in refs if r in self.places and self.places[r].root == old.root)
        return all(other.offset == 0 and other.layout == old.layout for other in others)

    def _give_back(self, root: int) -> None:
        room = self._rooms.pop(root, None)
        if room is not None:
            bisect.insort(self._free, (room, self._slots[root]))


# -- forms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutForm:
    """How to write a result to an array: by a function whose last argument is that array.

    Attributes
    ----------
    function, args : str
        As text.
    tail : str
        Arguments after that array.
    elementwise : bool
        Whether an operand may be overwritten.
    then : str
        Further lines, with ``{out}`` for the array.
    first : bool
        The array is the first argument instead.
    """

    function: str
    args: str
    tail: str = ""
    elementwise: bool = True
    then: tuple[str, ...] = ()
    first: bool = False

    def into(self, out: str) -> Iterator[str]:
        """Return the lines that write to an array of this name."""
        word = "out=" if self.function in ("maximum", "minimum") else ""  # NumPy wants it so
        args = f"{out}, {self.args}" if self.first else f"{self.args}, {word}{out}"
        yield f"{self.function}({args}{self.tail})"
        yield from (line.format(out=out) for line in self.then)

    @property
    def plain(self) -> str | None:
        """The call that returns a new array; None if there is no short one."""
        if self.then or self.first:
            return None
        return f"{self.function}({self.args}, None{self.tail})" if self.tail else f"{self.function}({self.args})"


def _matmul(text: NumpyText, step: Step, layouts: Sequence[Any], place: Location) -> OutForm | None:
    a, b = layouts
    args = ", ".join(map(text.part, step.args))
    small = len(a[0]) == len(b[0]) == 2 and a[0][0] * b[0][1] < DOT_BELOW
    if not is_contiguous(place.layout) or not a[2] == b[2] == place.layout[2]:
        return None
    return OutForm(
        text.called("dot", np.dot) if small else text.called("np_matmul", np.matmul), args, elementwise=False
    )


def _sum(text: NumpyText, step: Step, layouts: Sequence[Any], place: Location) -> OutForm | None:
    options = dict(step.kwargs)
    if len(step.args) != 1 or layouts[0][2] == HALF or not options.keys() <= {"axis", "dtype", "keepdims"}:
        return None
    axis, dtype, keep = options.get("axis"), options.get("dtype"), options.get("keepdims", False)
    if isinstance(axis, tuple) and len(axis) == 1:
        (axis,) = axis
    name = text.called("add_reduce", np.add.reduce)
    args = f"{text.part(step.args[0])}, {text.part(axis)}, {text.part(dtype)}"
    return OutForm(name, args, f", {keep}", elementwise=False)


def _mean(text: NumpyText, step: Step, layouts: Sequence[Any], place: Location) -> OutForm | None:
    dtype = layouts[0][2]
    if dtype.kind not in "fc" or dtype.itemsize == 2 or "dtype" in step.kwargs:
        return None
    total = _sum(text, step, layouts, place)
    if total is None:
        return None
    size = math.prod(place.layout[0])
    count = text.constant(np.asarray(math.prod(layouts[0][0]) // size if size else 0, dtype))
    divide = f"{text.called('divide', np.divide)}({{out}}, {count}, {{out}})"
    return OutForm(total.function, total.args, total.tail, elementwise=False, then=(divide,))


def _relu(text: NumpyText, step: Step, layouts: Sequence[Any], place: Location) -> OutForm | None:
    return OutForm(text.called("maximum", np.maximum), f"{text.part(step.args[0])}, {text.operand(0, layouts[0][2])}")


def _astype(text: NumpyText, step: Step, layouts: Sequence[Any], place: Location) -> OutForm | None:
    if len(step.args) != 2 or not np.can_cast(layouts[0][2], place.layout[2], "same_kind"):
        return None
    return OutForm(text.called("copyto", np.copyto), text.part(step.args[0]), first=True)


#: By operation, the forms for those whose kernel is not a ufunc.
FORMS: dict[str, Callable[[NumpyText, Step, Sequence[Any], Location], OutForm | None]] = {
    "astype": _astype,
    "matmul": _matmul,
    "mean": _mean,
    "nn.relu": _relu,
    "sum": _sum,
}


def nbytes(layout: Layout) -> int:
    """Return the bytes of an array's elements."""
    return math.prod(layout[0]) * int(layout[2].itemsize)


def is_dense(layout: Layout) -> bool:
    """Return whether an array's elements fill their memory, in any order of axes."""
    shape, strides, dtype = layout
    if not math.prod(shape):
        return False
    expected = dtype.itemsize
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= n
    return True


def is_array(layout: Layout) -> bool:
    """Return whether a value has axes: otherwise it may be a scalar."""
    return bool(layout[0])
