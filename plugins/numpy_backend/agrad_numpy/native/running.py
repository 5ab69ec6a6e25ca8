"""Native programs: their code, memory and schedule; and the functions that call them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from agrad.plugin.backend import KeptValues, Refused, once
from agrad.plugin.programs import Program
from agrad_numpy.executor import address, aligned
from agrad_numpy.native.builtin import entry, flags
from agrad_numpy.native.indexing import IndexingKernel
from agrad_numpy.native.jit import CompiledModule
from agrad_numpy.native.keeping import BLOCK, BlockLayout, Taken
from agrad_numpy.native.kernels import KINDS, Kernel, LinalgKernel, MatrixProduct, NumpyLoop
from agrad_numpy.native.lowering import FusionGroup, LoweredProgram, Placement
from agrad_numpy.native.numpy_loops import loop_of
from agrad_numpy.native.packed_products import PackedProduct
from agrad_numpy.native.products import TiledProduct
from agrad_numpy.native.row_products import RowProducts
from agrad_numpy.native.scanning import Scan
from agrad_numpy.native.vector_math import Math

#: The number of input layouts that code is compiled for; calls with further ones are refused.
LAYOUTS = 8

#: Workspaces that are kept for calls at the same time.
POOLS = 4

#: Programs with more work release Python's lock: some 50 microseconds.
LONG = 200_000

#: In programs with fewer distinct steps, the functions of `vector_math` are inlined.
INLINE = 200

#: The kernels that need nothing but a group, by its kind.
KERNELS = {**KINDS, "tiled": TiledProduct, "indexed": IndexingKernel, "rows": RowProducts}

#: The code that follows a schedule, pairs of a kernel's address and that of its arguments.
RUN = """
define void @run(ptr %slots, ptr %schedule, i64 %start, i64 %stop) {
  %any = icmp slt i64 %start, %stop
  br i1 %any, label %next, label %done
next:
  %i = phi i64 [%start, %0], [%more, %next]
  %at = getelementptr {ptr, ptr}, ptr %schedule, i64 %i
  %kernel = load ptr, ptr %at
  %args.at = getelementptr {ptr, ptr}, ptr %schedule, i64 %i, i32 1
  %args = load ptr, ptr %args.at
  call void %kernel(ptr %slots, ptr %args)
  %more = add i64 %i, 1
  %go = icmp slt i64 %more, %stop
  br i1 %go, label %next, label %done
done:
  ret void
}
"""

#: The code that calls one of NumPy's loops.
CALLED = """
define internal void @called(ptr %loop, ptr %places, ptr %sizes, ptr %steps, ptr %data) alwaysinline {
  call void %loop(ptr %places, ptr %sizes, ptr %steps, ptr %data)
  ret void
}
"""

#: The same, preserving earlier floating-point errors, which loops clear.
TELLING = """
@flags.test = global ptr null
@flags.raise = global ptr null
define internal void @called(ptr %loop, ptr %places, ptr %sizes, ptr %steps, ptr %data) noinline {
  %test = load ptr, ptr @flags.test
  %raised = call i32 %test(i32 FLAGS)
  call void %loop(ptr %places, ptr %sizes, ptr %steps, ptr %data)
  %any = icmp ne i32 %raised, 0
  br i1 %any, label %again, label %done
again:
  %raise = load ptr, ptr @flags.raise
  %ignored = call i32 %raise(i32 %raised)
  br label %done
done:
  ret void
}
"""

_RUN = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Schedule:
    """Kernels in their order, with their operands: tables that native code follows.

    Attributes
    ----------
    slots : list of int
        The addresses that are the same in every call, 0 for others.
    entries : list of Kernel
        The kernels, without Python's steps.
    python : list of (int, FusionGroup)
        Steps of Python, each with the position among the entries before which it runs, ascending.
    within : list of Schedule
        Those of loops.
    """

    def __init__(self, low: LoweredProgram, math_: Math) -> None:
        self.low, self._math = low, math_
        self.slots: list[int] = [0] * (len(low.slots) + 1)
        self.entries: list[Kernel] = []
        self.python: list[tuple[int, FusionGroup]] = []
        self.within: list[Schedule] = []
        self._extra: dict[Any, int] = {}
        self._held: list[Any] = []
        for number, value in low.tried.kept.items():
            self.slots[low.slots[number]] = address(value)
        for group in low.groups:
            if group.kind == "python":
                self.python.append((len(self.entries), group))
            elif group.kind != "view":
                self.entries.append(self._kernel(group))
        self._args = np.array([n for kernel in self.entries for pair in kernel.args for n in pair] or [0], np.int64)
        self.template = np.array(self.slots, np.int64)
        self.table = np.zeros((max(len(self.entries), 1), 2), np.int64)

    def _kernel(self, group: FusionGroup) -> Kernel:
        if group.kind == "call":
            return NumpyLoop(self.low, group, self._math, self._loop, self._number)
        if group.kind in ("product", "solved"):
            return (MatrixProduct if group.kind == "product" else LinalgKernel)(self.low, group, self._math, self._loop)
        if group.kind == "tiled" and self.low.is_packed(self.low.steps[group.steps[0]]):
            return PackedProduct(self.low, group, self._math)
        if group.kind != "scan":
            return KERNELS[group.kind](self.low, group, self._math)
        inner = Schedule(self.low.tried.loops[group.steps[0]], self._math)
        self.within.append(inner)
        tables = [(self._slot((id(inner), k), address(one)), 0) for k, one in enumerate((inner.template, inner.table))]
        return Scan(self.low, group, self._math, (tables[0], tables[1]), len(inner.slots), len(inner.entries))

    def _slot(self, key: Any, value: int) -> int:
        """Return the slot of an address that is the same in every call."""
        if key not in self._extra:
            self._extra[key] = len(self.slots)
            self.slots.append(value)
        return self._extra[key]

    def _loop(self, ufunc: Any, dtypes: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return the position of the addresses of a ufunc's inner loop."""
        found = loop_of(ufunc, dtypes)
        if found is None:
            raise Refused(f"NumPy has no loop of {ufunc.__name__} for {', '.join(dtypes)}")
        return [(self._slot((ufunc, dtypes, k), value), 0) for k, value in enumerate(found)]

    def _number(self, value: Any, dtype: str) -> tuple[int, int]:
        """Return the position of a number that is an operand."""
        key = type(value), repr(value), dtype
        if key not in self._extra:
            array = np.asarray(value, np.dtype(dtype))
            self._held.append(array)
            self._slot(key, address(array))
        return self._extra[key], 0

    def whole(self) -> Iterator[Schedule]:
        """Return this schedule and those of all loops."""
        yield self
        for inner in self.within:
            yield from inner.whole()

    def fill(self, kernels: Mapping[Any, int]) -> None:
        """Fill in the table, with the addresses of kernels by their keys."""
        start = address(self._args)
        for place, kernel in enumerate(self.entries):
            self.table[place] = kernels[kernel.key], start
            start += 16 * len(kernel.args)


class NativeCode:
    """A program as native code, for inputs that lie as in one call.

    Attributes
    ----------
    backend : Backend
        NumPy's.
    python : list of (int, FusionGroup)
        Steps of Python, each with the position of the schedule before which it runs, ascending.
    kernels : int
        How many distinct kernels there are.
    slots : list of int
        The addresses that are the same in every call, 0 for others.
    outputs : list of int
        The numbers of the results; a repeated one is one array.

    Parameters
    ----------
    program, backend, own, threads
        Those of `NativeProgram`; a program that reports errors runs on one thread, because each thread has its own error
        flags.
    values : sequence of array
        Of a call; the first may be a `KeptValues`.
    whole : bool, optional
        Refuse a program with steps of Python, and one whose results have another layout than those of its text.
    tells : bool, optional
        Return None if a floating-point error occurred.
    kept, taken
        Those of `NativeProgram`.
    """

    def __init__(
        self,
        program: Program,
        backend: Any,
        values: Sequence[Any],
        *,
        own: bool,
        threads: int = 1,
        whole: bool = False,
        tells: bool = False,
        kept: int = 0,
        taken: Sequence[int] = (),
    ) -> None:
        count = len(program.outputs) - kept
        given, self.backend = program.outputs[:count], backend
        block = Taken(values[0].layout, taken, program.inputs) if taken else None
        if block is not None:
            values = [*block.values(values[0], apart=True), *values[1:]]
        firsts = [*dict.fromkeys(given)]
        self.low = low = LoweredProgram(
            program.replaced(outputs=(*firsts, *program.outputs[count:])),
            backend,
            values,
            own=own,
            threads=threads,
            kept=kept,
            taken=block,
        )
        self.outputs = [*map(dict(zip(firsts, low.outputs, strict=False)).__getitem__, given)]
        #: The numbers of the arrays that the entry takes and gives; `BLOCK` is one.
        self.takes = [number for number in low.program.inputs if number not in low.block]
        self.gives = list(self.outputs)
        if kept:
            self.gives += [BLOCK, *(number for number in low.outputs[len(firsts) :] if number not in low.block)]
        if block is not None and block.starts:
            self.takes.insert(0, BLOCK)
        #: How the block lies.
        self.block = Placement(((block.layout if block else low.layout).size,), (1,), np.dtype(np.uint8), BLOCK, 0)
        math_ = Math()
        self._schedule = Schedule(low, math_)
        self.slots, self.python = self._schedule.slots, self._schedule.python
        self._flags = flags() if tells else None
        if whole:
            self._refuse_what_shows(firsts)
        whole = [*self._schedule.whole()]
        known = {kernel.key: kernel for each in whole for kernel in each.entries}
        names = {key: f"kernel{at}" for at, key in enumerate(known)}
        self.kernels = len(known)
        math_.inline = sum(len(kernel.steps) for kernel in known.values()) < INLINE
        texts = [kernel.text(names[key]) for key, kernel in known.items()]
        declared = {line for kernel in known.values() for line in kernel.declared} | math_.declared
        self.text = "\n".join(
            [*sorted(declared), *math_.variables(), *math_.texts.values(), *texts, self._calling(), RUN]
        )
        self._code = CompiledModule(self.text)
        for op, dtype in math_.loops:
            found = loop_of(getattr(np, op), (dtype, dtype))
            if found is None:
                raise Refused(f"NumPy has no loop of {op} for {dtype}")
            for what, value in zip(("loop", "data"), found, strict=True):
                ctypes.c_void_p.from_address(self._code.variable(f"{what}.{op}.{dtype}")).value = value
        if self._flags is not None:
            for name, function in zip(("test", "raise"), self._flags[2:], strict=True):
                ctypes.c_void_p.from_address(self._code.variable(f"flags.{name}")).value = function
        self._run = self._code.address("run")
        at = {key: self._code.address(name) for key, name in names.items()}
        for each in whole:
            each.fill(at)
        if self.python:
            self.call: Callable[..., Any] = ConcurrentCalls(lambda: Workspace(self))
        elif low.work() > LONG:  # other threads may run meanwhile
            self.call = ConcurrentCalls(lambda: self.entry(releases=True))
        else:
            self.call = self.entry(releases=False)
        if kept:
            self.call = keeping(self.call, count, low.layout)
        if block is not None:
            self.call = taking(self.call, block)

    def _refuse_what_shows(self, outputs: Sequence[int]) -> None:
        """Refuse a program with steps of Python, or with results whose layout would differ from its text's."""
        low = self.low
        if self.python:
            step = low.steps[self.python[0][1].steps[0]]
            raise Refused(f"{step.op} has no kernel, recorded at {step.line}")
        roots = [low.before[number].root for number in outputs]
        if {*roots} & {*low.program.inputs, *low.tried.kept} or len({*roots}) < len(roots):
            raise Refused("a result shares memory with an argument, a constant or another result")
        if not all(low.before[number].is_dense for number in outputs):
            raise Refused("a result is a part of what is computed")

    def _calling(self) -> str:
        """Return the text of the code that calls NumPy's loops."""
        return CALLED if self._flags is None else TELLING.replace("FLAGS", str(self._flags[0]))

    # -- memory -------------------------------------------------------------------------------------------------------

    def memory(self) -> tuple[Any, Any]:
        """Return new slots and a new workspace."""
        work = aligned(self.low.workspace + 8)  # followed by the status
        slots = self._schedule.template.copy()
        slots[0] = address(work)
        return slots, work

    def entry(self, *, releases: bool, memory: tuple[Any, Any] | None = None, count: int | None = None) -> Any:
        """Return a builtin function with a workspace, which one call at a time may have.

        Unless it `releases` Python's lock, no other thread runs meanwhile. `count`: how much of the schedule it runs.
        """
        slots, work = memory or self.memory()
        places = {BLOCK: self.block}
        inputs, outputs = (
            [(self.low.slots[n], places.get(n) or self.low.places[n]) for n in numbers]
            for numbers in (self.takes, self.gives)
        )
        run, table, whole = self.schedule
        schedule = run, table, whole if count is None else count
        how = {"releases": releases, "held": (work, *self.held), "flags": self._flags}
        return entry().function(inputs, outputs, schedule, slots, self.low.workspace, **how)

    @property
    def held(self) -> tuple[Any, ...]:
        """Objects that must live as long as code that runs the program."""
        return self._code, self._schedule

    @property
    def schedule(self) -> tuple[int, int, int]:
        """The addresses of the schedule's runner and of its table, and the number of entries."""
        return self._run, address(self._schedule.table), self.count

    def runner(self, slots: Any) -> Callable[[int, int], None]:
        """Return the function that runs a part of the schedule."""
        run, at, schedule = _RUN(self._run), address(slots), address(self._schedule.table)
        return lambda start, stop: run(at, schedule, start, stop)

    @property
    def count(self) -> int:
        """How many entries the schedule has."""
        return len(self._schedule.entries)


class ConcurrentCalls:
    """Calls a program of which several calls run at a time, each with memory of its own.

    Parameters
    ----------
    make : callable
        Creates a runner for one call at a time; free ones are reused.
    """

    def __init__(self, make: Callable[[], Callable[..., tuple[Any, ...] | None]]) -> None:
        self._make = make
        self._free: list[Callable[..., tuple[Any, ...] | None]] = []  # those that no call has

    def __call__(self, *values: Any) -> tuple[Any, ...] | None:
        try:
            run = self._free.pop()
        except IndexError:
            run = self._make()
        try:
            return run(*values)
        finally:
            if len(self._free) < POOLS:
                self._free.append(run)


def keeping(call: Callable[..., Any], count: int, layout: BlockLayout) -> Callable[..., Any]:
    """Return a function whose results from one position on are one `KeptValues`."""

    def run(*values: Any) -> tuple[Any, ...] | None:
        outs = call(*values)
        return None if outs is None else (*outs[:count], KeptValues(outs[count:], layout))

    return run


def taking(call: Callable[..., Any], taken: Taken) -> Callable[..., Any]:
    """Return a function whose first argument is a `KeptValues`; it returns None for one with another layout."""

    def run(kept: KeptValues, *others: Any) -> tuple[Any, ...] | None:
        held, layout = kept
        return call(*map(held.__getitem__, taken.arrays), *others) if layout is taken.layout else None

    return run


class Workspace:
    """Runs a program some of whose steps are Python's: the memory of one call, with the arrays on it that they take.

    Parameters
    ----------
    native : NativeCode
        The program.
    """

    def __init__(self, native: NativeCode) -> None:
        self._native = native
        slots, work = native.memory()
        self._work, self._status = work, work[native.low.workspace : native.low.workspace + 8]
        self._run = native.runner(slots)
        self._begin = native.entry(releases=False, memory=(slots, work), count=native.python[0][0])
        self._makers = {n: at for at, step in enumerate(native.low.steps) for n in step.made}
        self._fixed: dict[int, Any] = dict(native.low.tried.kept)  # arrays that are the same in every call

    def __call__(self, *values: Any) -> tuple[Any, ...] | None:
        """Run the program; return None for other inputs, and if native code failed."""
        native = self._native
        outs: tuple[Any, ...] | None = self._begin(*values)
        if outs is None:
            return None
        arrays = dict(zip(native.takes, values, strict=True))
        arrays |= zip(native.gives, outs, strict=True)
        at = native.python[0][0]
        with native.backend.quiet():
            for stop, group in native.python:
                if stop > at:
                    self._run(at, stop)
                    at = stop
                self._step(group.steps[0], arrays)
        self._run(at, native.count)
        return None if self._status.any() else outs

    def _step(self, at: int, arrays: dict[int, Any]) -> None:
        """Run a step by its kernel, and put its result where it is expected."""
        low = self._native.low
        step = low.steps[at]
        found = low.tried.call(low.tried.kernels[at], step, {ref: self._array(ref, arrays) for ref in step.refs})
        for number, part in zip(step.outs, found if step.several else (found,), strict=True):
            if number is not None:
                np.copyto(self._array(number, arrays), part)

    def _array(self, number: int, arrays: dict[int, Any]) -> Any:
        """Return a value as an array on its memory."""
        found = arrays.get(number, self._fixed.get(number))
        if found is not None:
            return found
        low = self._native.low
        place = low.places[number]
        if number in low.block:
            found = np.ndarray(place.shape, place.dtype, arrays[BLOCK], low.block[number], place.strides)
        elif place.root == number:
            found = np.ndarray(place.shape, place.dtype, self._work, low.starts[number], place.strides)
        else:  # a view: its step returns it again
            at = self._makers[number]
            step = low.steps[at]
            made = low.tried.call(low.tried.kernels[at], step, {ref: self._array(ref, arrays) for ref in step.refs})
            found = made[step.outs.index(number)] if step.several else made
        (self._fixed if place.root in low.starts else arrays)[number] = found
        return found


class NativeProgram:
    """The result of an executor: a program, with code for each layout of its inputs.

    Parameters
    ----------
    program : Program
        The program.
    backend : Backend
        NumPy's.
    own : bool
        Whether functions of `vector_math` may stand for NumPy's.
    plain : Program, optional
        Runs step by step if native code failed; the program itself by default.
    threads : int
        The number of threads that run large loops; no bit depends on it.
    kept : int
        How many of the last outputs are one `KeptValues`, after the others.
    taken : sequence of int
        The positions of the first inputs in a `KeptValues`, which is the first argument.
    """

    def __init__(
        self,
        program: Program,
        backend: Any,
        *,
        own: bool,
        plain: Program | None = None,
        threads: int = 1,
        kept: int = 0,
        taken: Sequence[int] = (),
    ) -> None:
        self._program, self._backend, self._own, self._threads = program, backend, own, threads
        self._kept, self._taken = kept, taken
        self._plain = plain or program
        self._natives: dict[Any, NativeCode] = {}
        self._call: Callable[..., Any] | None = None

    def __call__(self, *values: Any) -> Any:
        call = self._call
        outs = None if call is None else call(*values)
        if outs is not None:
            return outs
        with self._backend.quiet():
            return self._otherwise(values)

    @property
    def quick(self) -> Callable[..., Any] | None:
        """What runs the last call's code, or returns None for a call that it leaves to this object."""
        return self._call

    def native(self, values: Sequence[Any]) -> NativeCode:
        """Return the code for inputs that lie as these arrays do, the first of which may be a `KeptValues`."""
        layout = values[0].layout if self._taken else None
        key = layout, tuple(value.strides for value in (values[1:] if self._taken else values))
        found = self._natives.get(key)
        if found is None:
            if len(self._natives) >= LAYOUTS:
                raise Refused(f"the inputs lie in more than {LAYOUTS} ways")
            how = {"own": self._own, "threads": self._threads, "kept": self._kept, "taken": self._taken}
            found = self._natives.setdefault(key, NativeCode(self._program, self._backend, values, **how))
        return found

    def _otherwise(self, values: Sequence[Any]) -> Any:
        """Run on inputs that are scalars, or have another layout than the last ones; and if native code failed."""
        arrays = arrays_of(values, self._taken)
        shapes, taken = self._program.shapes, bool(self._taken)
        for number, array in zip(self._program.inputs[len(self._taken) :], arrays[taken:], strict=True):
            if (array.shape, array.dtype.name) != shapes[number] or not array.dtype.isnative:
                raise Refused("the inputs are others than the program's")
        native = self.native(arrays)
        outs = native.call(*arrays)
        if outs is None:  # a matrix is singular, or nearly: NumPy's own functions raise their errors
            if self._taken:
                arrays[:1] = Taken(arrays[0].layout, self._taken, ()).values(arrays[0])
            outs = self._steps(*arrays)
            count = len(outs) - self._kept
            return (*outs[:count], native.low.layout.kept(outs[count:])) if self._kept else outs
        self._call = native.call
        return outs

    @once
    def _steps(self) -> Callable[..., Any]:
        """The program step by step."""
        return self._plain.function(self._backend)


def arrays_of(values: Sequence[Any], taken: Sequence[int]) -> list[Any]:
    """Return inputs as arrays of NumPy's own class; a `KeptValues`, the first if some are `taken`, as it is."""
    return [*values[: bool(taken)], *map(plain, values[bool(taken) :])]


def plain(value: Any) -> Any:
    """Return a value as an array of NumPy's own class, aligned, with a dtype that is the canonical object of its kind."""
    array = np.asarray(value)
    dtype = np.dtype(array.dtype.type) if array.dtype.isnative and array.dtype.kind in "biufc" else array.dtype
    if array.dtype is not dtype:
        array = array.view(dtype)
    return array if array.flags.aligned else array.copy()
