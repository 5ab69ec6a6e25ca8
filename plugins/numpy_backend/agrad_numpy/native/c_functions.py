"""Programs as C functions: slots and workspace are on the caller's stack, so that several calls can run at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from agrad.plugin.backend import Refused
from agrad.plugin.programs import Program, Ref, Shaped, Step
from agrad_numpy.native.builtin import address_of
from agrad_numpy.native.ir import SIZES, TYPES, IRFunction, literal
from agrad_numpy.native.jit import CompiledModule
from agrad_numpy.native.running import NativeCode

#: Larger workspaces, in bytes, are not put on the stack, which the user's threads may have little of.
STACK = 2**15

NAN = literal(float("nan"), "float64")


def in_c(program: Program, backend: Any, *, own: bool) -> tuple[int, Any]:
    """Return the address of a program as a C function, and the objects that must live as long; see `Executor.in_c`."""
    program = flat(program)
    with backend.quiet():  # the values only determine the layout
        native = NativeCode(program, backend, [np.ones(*program.shapes[n]) for n in program.inputs], own=own)
    if native.python:
        step = native.low.steps[native.python[0][1].steps[0]]
        line = f", recorded at {step.line}" if step.line else ""
        raise Refused(
            f"{step.op} of {', '.join(str(native.low.shapes[n]) for n in step.refs)} is no machine code{line}"
        )
    slots = np.array(native.slots, np.int64)
    code = CompiledModule(text(native, int(slots.ctypes.data)), kept=False)
    return code.address("call"), (code, slots, native.held)


def flat(program: Program) -> Program:
    """Return a program whose outputs have at most one axis, so that they are in C order, and are distinct."""
    number, shapes, steps, outputs = program.next_number(), dict(program.shapes), list(program.steps), []
    for out in program.outputs:
        shaped = shapes[out]
        if len(shaped.shape) > 1 or out in outputs:
            shapes[number] = Shaped((int(np.prod(shaped.shape)),) if shaped.shape else (), shaped.dtype)
            steps.append(Step("reshape", (Ref(out), shapes[number].shape), {}, (number,)))
            out, number = number, number + 1  # noqa: PLW2901
        outputs.append(out)
    return program.replaced(steps=tuple(steps), shapes=shapes, outputs=tuple(outputs))


class CWriter:
    """Writes the C function of a program.

    Parameters
    ----------
    native : NativeCode
        The program.
    """

    def __init__(self, native: NativeCode) -> None:
        self.f, self.low = IRFunction(), native.low
        self.room = -(-(native.low.workspace + 8) // 64) * 64  # the workspace followed by the status, then the others

    def reserve(self, count: int, dtype: str) -> int:
        """Return the position of memory for this many numbers."""
        at, self.room = self.room, self.room + -(-count * SIZES[dtype] // 64) * 64
        return at

    def count(self, number: int) -> int:
        """Return how many elements a value has."""
        return self.low.size(number)

    def each(self, count: int, source: str, target: str, kinds: tuple[str, str], how: str) -> None:
        """Write a loop that converts numbers."""
        (given, made), f = kinds, self.f

        def one(index: str) -> None:
            value = f.load(f.at(source, f.times(index, SIZES[given])), given)
            value = f.get(f"{how} {TYPES[given]} {value} to {TYPES[made]}")
            f.store(value, f.at(target, f.times(index, SIZES[made])), made)

        f.loop(0, count, 1, one)


def text(native: NativeCode, slots: int) -> str:
    """Return the function as LLVM's text.

    Parameters
    ----------
    native : NativeCode
        The program.
    slots : int
        The address of the contents that slots have in every call.
    """
    w = CWriter(native)
    f, low = w.f, native.low
    inputs, outputs = low.program.inputs, low.outputs
    size = sum(map(w.count, inputs))
    value, *rest = outputs
    singles = {n: w.reserve(w.count(n), "float32") for n in (*inputs, *outputs) if low.dtype(n) == "float32"}
    number = w.reserve(1, "float64")
    nowhere = w.reserve(sum(map(w.count, rest)), "float64")
    count = len(native.slots)
    f.do(f"%slots = alloca [{count} x ptr], align 8")
    on_stack = w.room <= STACK
    if on_stack:
        f.do(f"%work = alloca [{w.room} x i8], align 64")
    f.do(f"%fits = icmp eq i32 %n, {size}")
    f.do("br i1 %fits, label %begin, label %unfit")
    f.label("begin")
    if not on_stack:
        f.do(f"%all = call ptr inttoptr (i64 {address_of(ctypes.pythonapi.PyMem_RawMalloc)} to ptr)(i64 {w.room + 64})")
        f.do("%none = icmp eq ptr %all, null")
        f.do("br i1 %none, label %unfit, label %given")
        f.label("given")
        f.do("%all.at = ptrtoint ptr %all to i64")
        f.do("%all.up = add i64 %all.at, 63")
        f.do("%all.aligned = and i64 %all.up, -64")
        f.do("%work = inttoptr i64 %all.aligned to ptr")
    f.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr %slots, ptr inttoptr (i64 {slots} to ptr), i64 {8 * count}, i1 false)")
    f.do("store ptr %work, ptr %slots")
    status = f.at("%work", low.workspace)
    f.do(f"store i64 0, ptr {status}")

    def put(n: int, pointer: str) -> None:
        f.do(f"store ptr {pointer}, ptr {f.at('%slots', 8 * low.slots[n])}")

    at = 0
    for n in inputs:
        pointer = f.at("%x", 8 * at)
        if n in singles:
            single = f.at("%work", singles[n])
            w.each(w.count(n), pointer, single, ("float64", "float32"), "fptrunc")
            pointer = single
        put(n, pointer)
        at += w.count(n)
    result = f.at("%work", number)
    put(value, f.at("%work", singles[value]) if value in singles else result)
    targets = _targets(w, rest, nowhere)
    for n, target in targets.items():
        put(n, f.at("%work", singles[n]) if n in singles else target)
    run, table, entries = native.schedule
    f.do(f"call void inttoptr (i64 {run} to ptr)(ptr %slots, ptr inttoptr (i64 {table} to ptr), i64 0, i64 {entries})")
    for n, target in ((value, result), *targets.items()):
        if n in singles:
            w.each(w.count(n), f.at("%work", singles[n]), target, ("float32", "float64"), "fpext")
    found = f.load(result, "float64")
    failure = f.get(f"load i64, ptr {status}")
    f.do(f"%failed = icmp ne i64 {failure}, 0")
    f.do("br i1 %failed, label %lost, label %well")
    f.label("lost")
    for n, target in targets.items():
        f.loop(0, w.count(n), 1, lambda i, t=target: f.store(NAN, f.at(t, f.times(i, 8)), "float64"))
    f.do("br label %well")
    f.label("well")
    found = f.get(f"select i1 %failed, double {NAN}, double {found}")
    if not on_stack:
        f.do(f"call void inttoptr (i64 {address_of(ctypes.pythonapi.PyMem_RawFree)} to ptr)(ptr %all)")
    f.do(f"ret double {found}")
    f.label("unfit")
    f.do(f"ret double {NAN}")
    more = ", ptr %grad" if rest else ""
    return "\n".join([*f.declared, f"define double @call(i32 %n, ptr %x{more}) {{", *f.lines, "}"])


def _targets(w: CWriter, rest: Sequence[int], nowhere: int) -> dict[int, str]:
    """Return where to write the outputs besides the value: one after the other, or nowhere."""
    if not rest:
        return {}
    f = w.f
    f.do("%no.grad = icmp eq ptr %grad, null")
    base = f.get(f"select i1 %no.grad, ptr {f.at('%work', nowhere)}, ptr %grad")
    found, at = {}, 0
    for n in rest:
        found[n] = f.at(base, 8 * at)
        at += w.count(n)
    return found
