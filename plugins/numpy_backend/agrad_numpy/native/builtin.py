"""The function that Python calls: a builtin function, in LLVM's text, that checks arrays, creates the results' arrays and runs a schedule.

There is one for all programs; its work is described by a table, the array that is its ``self``. Offsets within arrays
are
found by inspecting one: builds of Python differ in the preceding fields.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad_numpy.native.jit import CompiledModule

#: The position of ``PyArray_New`` in NumPy's table of C functions, which is fixed.
_NEW = 93

#: ``METH_FASTCALL``.
_FASTCALL = 0x80

#: Numbers at the head of a table, and per input and output.
HEAD, PER_INPUT, PER_OUTPUT = 21, 5, 5

#: C's names of the floating-point errors that NumPy reports: an invalid operation, a division by 0, too large and too
#: small a number. The constants depend on the processor.
_RAISED = 1 | 4 | 8 | 16 if platform.machine().lower() in ("x86_64", "amd64") else 1 | 2 | 4 | 8


class Fields:
    """The offsets of an array object's data, number of axes, shape, strides and dtype; found by inspecting one, because Python's builds differ."""

    def __init__(self) -> None:
        array = np.zeros((3, 5, 7), np.float64).transpose(1, 0, 2)[:, ::2]
        words = (ctypes.c_ssize_t * (np.ndarray.__basicsize__ // 8)).from_address(id(array))
        wanted = array.__array_interface__["data"][0]
        at = next(i for i, word in enumerate(words) if word == wanted)
        self.data = 8 * at
        self.count, self.shape, self.strides, self.dtype = (8 * (at + k) for k in (1, 2, 3, 5))
        count = ctypes.c_int.from_address(id(array) + self.count).value
        shape, strides = (
            tuple((ctypes.c_ssize_t * 3).from_address(words[offset // 8])) for offset in (self.shape, self.strides)
        )
        found = count, shape, strides, words[self.dtype // 8]
        if found != (3, array.shape, array.strides, id(array.dtype)):
            raise ImportError("arrays are laid out in another way than is known")


class _Method(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class FloatFlags(NamedTuple):
    """Floating-point errors, as numbered by C, and the addresses of functions that clear, test and raise them."""

    which: int
    clear: int
    test: int
    again: int


@functools.cache
def flags() -> FloatFlags | None:
    """Return which floating-point errors are reported, and the C functions for that; None: these are unknown."""
    try:
        process = ctypes.CDLL(None)
        clear, test, again = process.feclearexcept, process.fetestexcept, process.feraiseexcept
        return FloatFlags(_RAISED, address_of(clear), address_of(test), address_of(again))
    except (OSError, TypeError, AttributeError):
        return None


class Table(np.ndarray[Any, Any]):
    """Numbers that an entry works by, and the objects they are addresses in."""

    held: Any


class BuiltinFunction:
    """The builtin function's code, compiled once in a process."""

    def __init__(self) -> None:
        fields = Fields()
        self._code = CompiledModule(text(fields))
        self._method = _Method(b"program", self._code.address("entry"), _FASTCALL, b"Run a program of agrad's.")
        api = ctypes.pythonapi
        self._make = api.PyCMethod_New
        self._make.restype = ctypes.py_object
        self._make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
        pointer = api.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        from numpy._core import _multiarray_umath  # noqa: PLC0415 (where NumPy has its table of C functions)

        functions = ctypes.cast(pointer(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
        names = (
            "PyTuple_New",
            "PyTuple_SetItem",
            "PyTuple_GetItem",
            "Py_IncRef",
            "Py_DecRef",
            "PyEval_SaveThread",
            "PyEval_RestoreThread",
        )
        self._functions = [int(functions[_NEW] or 0), *(address_of(getattr(api, name)) for name in names)]

    def function(
        self,
        inputs: Sequence[tuple[int, Any]],
        outputs: Sequence[tuple[int, Any]],
        schedule: tuple[int, int, int],
        slots: Any,
        status: int,
        *,
        releases: bool,
        held: Any,
        flags: FloatFlags | None = None,
    ) -> Any:
        """Return a builtin function for a program.

        Parameters
        ----------
        inputs, outputs : sequence of (int, Place)
            Slots and layouts. An output whose slot an earlier one has is the same array.
        schedule : (int, int, int)
            The addresses of the schedule's runner and of its table, and the number of entries.
        slots : array
            Of addresses.
        status : int
            The position in the workspace, the first of these, of a word that kernels set if they fail; the function
            then returns None, as for other inputs.
        releases : bool
            Whether other threads may run meanwhile.
        held : object
            Objects that must live as long.
        flags : FloatFlags, optional
            Also return None if one of these floating-point errors occurred.
        """
        arrays: list[Any] = [slots, held]

        def numbers(values: Sequence[int]) -> int:
            arrays.append(np.array(values or [0], np.int64))
            return int(arrays[-1].ctypes.data)

        words = [len(inputs), len(outputs), slots.ctypes.data, *schedule, id(np.ndarray), id(None), *self._functions]
        words += [int(releases), status, *((0, 0, 0) if flags is None else flags[:3])]
        for slot, place in inputs:
            arrays.append(place.dtype)
            mask = place.dtype.alignment - 1
            words += [slot, len(place.shape), id(place.dtype), numbers([*place.shape, *place.strides]), mask]
        firsts: dict[int, int] = {}
        for at, (slot, place) in enumerate(outputs):
            if firsts.setdefault(slot, at) != at:  # below zero, from -1 on, which one it is
                slot = -1 - firsts[slot]  # noqa: PLW2901
            words += [slot, len(place.shape), place.dtype.num, numbers(place.shape), numbers(place.strides)]
        table = np.array(words, np.int64).view(Table)
        table.held = [arrays, self]
        return self._make(ctypes.addressof(self._method), table, None, None)


def address_of(function: Any) -> int:
    """Return the address of a C function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


entry = functools.cache(BuiltinFunction)


def text(fields: Fields) -> str:
    """Return the entry as LLVM's text; a table has numbers in the order of `BuiltinFunction.function`."""
    names = ("inputs", "outputs", "slots", "run", "schedule", "count", "array", "none", "new", "tuple", "set", "get", "retain", "release",
             "save", "restore", "releases", "status", "flags", "clear", "test")  # fmt: skip
    kinds = dict.fromkeys(names, "ptr") | dict.fromkeys(
        ("inputs", "outputs", "count", "releases", "status", "flags"), "i64"
    )
    head = [
        line
        for at, name in enumerate(names)
        for line in (
            f"  %{name}.word = getelementptr i64, ptr %table, i64 {at}",
            f"  %{name} = load {kinds[name]}, ptr %{name}.word",
        )
    ]
    return f"""
define ptr @entry(ptr %self, ptr %args, i64 %given) {{
  %table.at = getelementptr i8, ptr %self, i64 {fields.data}
  %table = load ptr, ptr %table.at
{chr(10).join(head)}
  %as.many = icmp eq i64 %given, %inputs
  br i1 %as.many, label %begin, label %none.given
begin:  ; a collection of garbage may run here, and code of Python's that calls this function: nothing is stored before
  %results = call ptr %tuple(i64 %outputs)
  %no.tuple = icmp eq ptr %results, null
  br i1 %no.tuple, label %failed, label %in
in:
  %i = phi i64 [0, %begin], [%i.next, %in.good]
  %in.more = icmp slt i64 %i, %inputs
  br i1 %in.more, label %in.check, label %out.begin
in.check:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.at
  %type.at = getelementptr i8, ptr %arg, i64 8
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, %array
  br i1 %is.array, label %in.array, label %other
in.array:
  %in.word = mul i64 %i, {PER_INPUT}
  %in.first = add i64 %in.word, {HEAD}
  %in.row = getelementptr i64, ptr %table, i64 %in.first
  %in.slot = load i64, ptr %in.row
  %in.count.at = getelementptr i64, ptr %in.row, i64 1
  %in.count = load i64, ptr %in.count.at
  %in.dtype.at = getelementptr i64, ptr %in.row, i64 2
  %in.dtype = load ptr, ptr %in.dtype.at
  %in.sizes.at = getelementptr i64, ptr %in.row, i64 3
  %in.sizes = load ptr, ptr %in.sizes.at
  %in.mask.at = getelementptr i64, ptr %in.row, i64 4
  %in.mask = load i64, ptr %in.mask.at
  %count.at = getelementptr i8, ptr %arg, i64 {fields.count}
  %count.short = load i32, ptr %count.at
  %count.own = sext i32 %count.short to i64
  %dtype.at = getelementptr i8, ptr %arg, i64 {fields.dtype}
  %dtype = load ptr, ptr %dtype.at
  %data.at = getelementptr i8, ptr %arg, i64 {fields.data}
  %data = load ptr, ptr %data.at
  %data.number = ptrtoint ptr %data to i64
  %data.off = and i64 %data.number, %in.mask
  %same.count = icmp eq i64 %count.own, %in.count
  %same.dtype = icmp eq ptr %dtype, %in.dtype
  %is.aligned = icmp eq i64 %data.off, 0
  %same.both = and i1 %same.count, %same.dtype
  %same.all = and i1 %same.both, %is.aligned
  br i1 %same.all, label %axes.begin, label %other
axes.begin:
  %shape.at = getelementptr i8, ptr %arg, i64 {fields.shape}
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %arg, i64 {fields.strides}
  %strides = load ptr, ptr %strides.at
  br label %axes
axes:
  %j = phi i64 [0, %axes.begin], [%j.next, %axes.good]
  %axes.more = icmp slt i64 %j, %in.count
  br i1 %axes.more, label %axes.check, label %in.good
axes.check:
  %own.size.at = getelementptr i64, ptr %shape, i64 %j
  %own.size = load i64, ptr %own.size.at
  %own.stride.at = getelementptr i64, ptr %strides, i64 %j
  %own.stride = load i64, ptr %own.stride.at
  %size.at = getelementptr i64, ptr %in.sizes, i64 %j
  %size = load i64, ptr %size.at
  %j.stride = add i64 %j, %in.count
  %stride.at = getelementptr i64, ptr %in.sizes, i64 %j.stride
  %stride = load i64, ptr %stride.at
  %same.size = icmp eq i64 %own.size, %size
  %same.stride = icmp eq i64 %own.stride, %stride
  %same.axis = and i1 %same.size, %same.stride
  br i1 %same.axis, label %axes.good, label %other
axes.good:
  %j.next = add i64 %j, 1
  br label %axes
in.good:
  %in.slot.at = getelementptr ptr, ptr %slots, i64 %in.slot
  store ptr %data, ptr %in.slot.at
  %i.next = add i64 %i, 1
  br label %in
out.begin:
  %in.words = mul i64 %inputs, {PER_INPUT}
  %out.word = add i64 %in.words, {HEAD}
  br label %out
out:
  %k = phi i64 [0, %out.begin], [%k.next, %out.set]
  %out.more = icmp slt i64 %k, %outputs
  br i1 %out.more, label %out.make, label %go
out.make:
  %out.off = mul i64 %k, {PER_OUTPUT}
  %out.at = add i64 %out.word, %out.off
  %out.row = getelementptr i64, ptr %table, i64 %out.at
  %out.slot = load i64, ptr %out.row
  %is.same = icmp slt i64 %out.slot, 0
  br i1 %is.same, label %out.same, label %out.new
out.same:
  %same = sub i64 -1, %out.slot
  %again = call ptr %get(ptr %results, i64 %same)
  call void %retain(ptr %again)
  br label %out.set
out.new:
  %out.count.at = getelementptr i64, ptr %out.row, i64 1
  %out.count = load i64, ptr %out.count.at
  %out.count.short = trunc i64 %out.count to i32
  %out.dtype.at = getelementptr i64, ptr %out.row, i64 2
  %out.dtype = load i64, ptr %out.dtype.at
  %out.dtype.short = trunc i64 %out.dtype to i32
  %out.shape.at = getelementptr i64, ptr %out.row, i64 3
  %out.shape = load ptr, ptr %out.shape.at
  %out.strides.at = getelementptr i64, ptr %out.row, i64 4
  %out.strides = load ptr, ptr %out.strides.at
  %made = call ptr %new(ptr %array, i32 %out.count.short, ptr %out.shape, i32 %out.dtype.short, ptr %out.strides, ptr null, i32 0, i32 0, ptr null)
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %give.up, label %out.good
out.good:
  %made.data.at = getelementptr i8, ptr %made, i64 {fields.data}
  %made.data = load ptr, ptr %made.data.at
  %out.slot.at = getelementptr ptr, ptr %slots, i64 %out.slot
  store ptr %made.data, ptr %out.slot.at
  br label %out.set
out.set:
  %out.array = phi ptr [%again, %out.same], [%made, %out.good]
  %set.done = call i32 %set(ptr %results, i64 %k, ptr %out.array)
  %k.next = add i64 %k, 1
  br label %out
go:
  %work = load ptr, ptr %slots
  %failing = getelementptr i8, ptr %work, i64 %status
  store i64 0, ptr %failing
  %flags.short = trunc i64 %flags to i32
  %tells = icmp ne i64 %flags, 0
  br i1 %tells, label %go.clear, label %go.on
go.clear:
  %cleared = call i32 %clear(i32 %flags.short)
  br label %go.on
go.on:
  %lets.go = icmp ne i64 %releases, 0
  br i1 %lets.go, label %go.alone, label %go.held
go.held:
  call void %run(ptr %slots, ptr %schedule, i64 0, i64 %count)
  br label %ran
go.alone:
  %thread = call ptr %save()
  call void %run(ptr %slots, ptr %schedule, i64 0, i64 %count)
  call void %restore(ptr %thread)
  br label %ran
ran:
  %failure = load i64, ptr %failing
  %all.well = icmp eq i64 %failure, 0
  br i1 %all.well, label %well.done, label %other
well.done:
  br i1 %tells, label %well.test, label %well
well.test:
  %raised = call i32 %test(i32 %flags.short)
  %none.raised = icmp eq i32 %raised, 0
  br i1 %none.raised, label %well, label %other
well:
  ret ptr %results
give.up:
  call void %release(ptr %results)
  br label %failed
failed:
  ret ptr null
other:
  call void %release(ptr %results)
  br label %none.given
none.given:
  call void %retain(ptr %none)
  ret ptr %none
}}
"""
