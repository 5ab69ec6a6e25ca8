"""CUDA graphs: a program whose kernels are captured once, and then launched as a whole.

A kernel takes the host some microseconds to launch, whatever it computes; a graph of many costs little more than one.
In return it works on the memory it was captured on. So a call copies its inputs there, launches the graph, and copies
the
results out of it: they belong to the caller, as without a graph.
"""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import cupy

from agrad.plugin.backend import OPS, WITHOUT_OP, lock
from agrad.plugin.programs import DRAW, STOP, CompileWarning, Program, Step, is_fresh

#: Held while a graph is captured, or the host queues work on its memory: that belongs to one call at a time.
IN_USE = lock()

_SORTS = "CuPy's sort waits for the device"
#: Why an operation cannot be part of a graph, if its capture succeeds but the graph fails later, or ends the process:
#: CuPy 13.6 to 14.1 do not catch the error of a sort. Operations that CuPy itself refuses need not be listed: their
#: capture fails.
REFUSED = {
    DRAW: "its key is a number of the launch",
    STOP: "by a value Python decides whether the program goes on",
    **dict.fromkeys(("argsort", "extra.argrank", "extra.argtop", "isin", "sort", "unique_all"), _SORTS),
}
_TRANSFORMS = "CuPy keeps the memory that it works in, and may free it"


class NotCaptured(Exception):
    """A program cannot be a CUDA graph, or there is no memory for one."""


class Launcher:
    """Runs a program on one device: by a CUDA graph, or kernel by kernel if it cannot be one.

    Parameters
    ----------
    run : callable
        Runs the program kernel by kernel.
    program : Program
        What `run` runs.
    own : collection of str
        The names of its operations whose kernels were created for it.
    exact : bool
        Whether sums must be taken in the order of `run`, which depends on the layout of the inputs.
    waiting : callable
        Says whether to wait for each kernel, which is impossible in a graph.
    """

    def __init__(
        self,
        run: Callable[..., tuple[Any, ...]],
        program: Program,
        own: Collection[str],
        *,
        exact: bool,
        waiting: Callable[[], bool],
    ) -> None:
        self.run, self.program, self.own, self.exact, self.waiting = run, program, own, exact, waiting
        self.graph: CudaGraph | None = None
        #: Whether no graph should be used.
        self.refused = not is_worth_it(program, own)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        if self.refused or self.waiting() or cupy.cuda.get_current_stream().is_capturing():  # by the user
            return self.run(*values)
        graph = self.graph or self._captured(values)
        if graph is None or (self.exact and not graph.is_laid_out_as(values)):
            return self.run(*values)
        return graph(values)

    def _captured(self, values: Sequence[Any]) -> CudaGraph | None:
        """Return the graph, created by the first thread; None if there can be none, with a warning."""
        with IN_USE:
            if self.graph is None and not self.refused:
                try:
                    check(self.program, self.own)
                    self.graph = CudaGraph(self.run, self.program, values)
                except NotCaptured as error:
                    self.refused = True
                    warnings.warn(
                        f"compile: kernels are launched one by one, not as a CUDA graph: {error}",
                        CompileWarning,
                        stacklevel=2,
                    )
            return self.graph


class CudaGraph:
    """The kernels of a program, and the memory they work on.

    The memory comes from a pool that nothing else uses, and that releases none while the graph lives.

    Parameters
    ----------
    run : callable
        Runs the program kernel by kernel.
    program : Program
        What `run` runs.
    values : sequence
        Inputs to try it on.

    Raises
    ------
    NotCaptured
        With the step that failed, and why.
    """

    def __init__(self, run: Callable[..., tuple[Any, ...]], program: Program, values: Sequence[Any]) -> None:
        given = {number: at for at, number in enumerate(program.inputs)}
        #: For each output that is an input, its position there.
        self._passed = [given.get(number) for number in program.outputs]
        self._pool = cupy.cuda.MemoryPool()
        #: When the memory is free for the next call.
        self._free = cupy.cuda.Event(disable_timing=True)
        current, stream = cupy.cuda.get_current_stream(), cupy.cuda.Stream(non_blocking=True)
        stream.wait_event(current.record())
        try:
            with stream, cupy.cuda.using_allocator(self._pool.malloc):
                self._inputs = [value.copy(order="K") for value in values]
                run(*self._inputs)  # so that kernels are compiled and loaded, and the pool holds the memory they need
                self._graph, self._outputs = captured(stream, run, program, self._inputs)
        except MemoryError as error:
            raise NotCaptured(f"there is no memory to keep ({error})") from error
        finally:
            self._free.record(stream)
            current.wait_event(self._free)  # before the memory of `values` is used again

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs for these inputs, in memory of their own."""
        with IN_USE:
            stream = cupy.cuda.get_current_stream()
            stream.wait_event(self._free)
            try:
                for mine, value in zip(self._inputs, values, strict=True):
                    cupy.copyto(mine, value)
                self._graph.launch(stream)
                return tuple(
                    mine.copy(order="K") if at is None else values[at]
                    for mine, at in zip(self._outputs, self._passed, strict=True)
                )
            finally:
                self._free.record(stream)

    def is_laid_out_as(self, values: Sequence[Any]) -> bool:
        """Return whether inputs lie in memory as those that it works on."""
        return all(mine.strides == value.strides for mine, value in zip(self._inputs, values, strict=True))

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        for name in ("_graph", "_outputs", "_inputs"):
            self.__dict__.pop(name, None)
        self._pool.free_all_blocks()  # a CuPy pool may outlive its last user


def captured(
    stream: Any, run: Callable[..., tuple[Any, ...]], program: Program, inputs: Sequence[Any]
) -> tuple[Any, tuple[Any, ...]]:
    """Return the graph of a run on the current stream, and the outputs in its memory."""
    stream.begin_capture()
    try:
        outputs = run(*inputs)
        return stream.end_capture(), outputs
    except BaseException as error:
        with suppress(Exception):  # the message only says that the capture became invalid; `error` has the reason
            stream.end_capture()
        if not isinstance(error, Exception):
            raise
        step = failed(error, program)
        what = "" if step is None else f"{step.op} cannot be part of one, recorded at {step.line}: "
        raise NotCaptured(f"{what}{type(error).__name__}: {error}") from error


def failed(error: Exception, program: Program) -> Step | None:
    """Return the step in whose line of the program's text an error arose."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<agrad program") and frame.line is not None:
            made = re.findall(r"\bv(\d+)\b", frame.line.partition(" = ")[0])
            return next((step for step in program.steps if made and int(made[0]) in step.made), None)
    return None


def check(program: Program, own: Collection[str]) -> None:
    """Refuse steps that must not be captured.

    Raises
    ------
    NotCaptured
        With the step.
    """
    for step in program.steps:
        op, known = step.op, OPS.get(step.op)
        is_agrads = op in own or op in WITHOUT_OP if known is None else known.entry.__module__.startswith("agrad.")
        reason = REFUSED.get(op) or (_TRANSFORMS if op.startswith("fft.") else "")
        if not reason and not is_agrads:
            reason = "its kernel is not agrad's"
        if reason:
            raise NotCaptured(f"{op} is no part of one, recorded at {step.line}: {reason}")
    if program.keys:
        raise NotCaptured("it takes the key of a draw")


def is_worth_it(program: Program, own: Collection[str]) -> bool:
    """Return whether a call launches more kernels than with a graph: the graph, and a copy of each array in and out."""
    kernels = sum(step.op in own or is_fresh(step) for step in program.steps)
    copies = len(program.inputs) + len({*program.outputs} - {*program.inputs})
    return kernels > copies + 1
