"""Run programs by executors: their form there, the fallback after a refusal, and the executor that agrad may choose."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agrad.core.backend import Backend
from agrad.core.executor import Executor, KeptValues, Refused
from agrad.core.once import once
from agrad.plugin.manager import executor_named, executors
from agrad.program.program import (
    DRAW,
    REWIND,
    STOP,
    UNWIND,
    DType,
    Program,
    Step,
    Stopped,
    environment,
    mapped,
    refs_in,
    stop_unless,
)

#: The executor that agrad may choose where the user names none.
NATIVE = "native"

#: The backends for whose programs agrad may choose it.
CHOSEN_FOR = ("numpy",)

#: Limits, in seconds, for the predicted time of compiling. Below the first the call waits for the code, below the second a
#: thread compiles it; a program that would take longer is not compiled.
AT_ONCE, AT_MOST = 0.2, 2.0

#: After this many calls that the compiled code could not run, the program runs without it.
MISSES = 1000


def may_choose_native() -> bool:
    """Return whether agrad may choose the native executor itself: it works here, and ``AGRAD_EXECUTOR=text`` is not set."""
    if os.environ.get("AGRAD_EXECUTOR") == "text":
        return False
    return any(row.name == NATIVE and row.available for row in executors())


def chooses_native() -> bool:
    """Return whether agrad chooses the native executor for every program: ``AGRAD_EXECUTOR=native`` is set."""
    return os.environ.get("AGRAD_EXECUTOR") == "native"


class ExecutorRun:
    """A program on raw arrays that an executor runs, if it accepts the program at the first call.

    Parameters
    ----------
    executor : Executor
        The executor that the user has named.
    program : callable
        Returns the program, for raw arrays and with as few steps as possible.
    backend : Backend
        The backend of the arrays.
    options : mapping
        The options with which the user has compiled the program.
    fallback : callable
        Returns the function that runs the program without the executor.
    kept, taken
        As of `Executor.build`.

    Attributes
    ----------
    why_not : str
        The reason why the fallback runs the program; empty: the executor runs it.
    """

    def __init__(
        self,
        executor: Executor,
        program: Callable[[], Program],
        backend: Backend,
        options: Mapping[str, Any],
        fallback: Callable[[], Callable[..., Any]],
        *,
        kept: int = 0,
        taken: tuple[int, ...] = (),
    ) -> None:
        self.executor = executor
        self.fallback: Callable[..., Any] = fallback
        self.why_not: str = ""
        self._program, self._backend, self._options = program, backend, options
        self._kept, self._taken = kept, taken
        self._run: Callable[..., Any] | None = None
        self._quiet: Callable[..., Any] | None = None  # the same function, if its executor gives no warnings

    @property
    def quick(self) -> Callable[..., Any] | None:
        """A fast function without warnings, which returns None for calls that it cannot run; None if there is none."""
        return getattr(self._quiet, "quick", None)

    def __call__(self, *values: Any) -> Any:
        failed = None
        try:
            return (self._run or self._first)(*values)
        except Stopped:
            raise
        except Refused:
            pass
        except Exception as error:  # noqa: BLE001 (raised below)
            failed = error
        outs = self.fallback()(*values)  # raises the operations' own errors
        if failed is not None:  # the operations raise none: the executor is at fault
            raise failed
        return outs

    def without_warnings(self, *values: Any) -> Any:
        """Run the program without floating-point warnings."""
        if self._quiet is not None:
            try:
                return self._quiet(*values)
            except Stopped:
                raise
            except Exception:  # noqa: BLE001, S110 (the program runs again below)
                pass
        with self._backend.quiet():
            return self(*values)

    def _first(self, *values: Any) -> Any:
        """Have the executor build the program, and run it; after a refusal the fallback runs the program from now on."""
        try:
            run = self._build(values)
            outs = run(*values)
        except Refused as refusal:
            self.why_not = str(refusal)
            run = self.fallback()
            outs = run(*values)
        self._run = run
        self._quiet = run if not self.why_not and getattr(self.executor, "quiet", False) else None
        return outs

    def _build(self, values: Sequence[Any]) -> Callable[..., Any]:
        """Return the function with which the executor runs the program."""
        prepared = PreparedProgram(self._program(), self._backend, kept=self._kept, taken=len(self._taken))
        inputs = prepared.values(values)
        name = self.executor.name
        options = {**self._options, **kept_options(self._kept, self._taken)}
        if not self.executor.supports(prepared.program, **options):
            raise Refused(f"the executor {name!r} does not support the program")
        run = self.executor.build(prepared.program, self._backend, inputs, **options)
        if run is None:
            raise Refused(f"the executor {name!r} built nothing for the program")
        return prepared.around(run)

    def __repr__(self) -> str:
        return f"<{self.executor.name}{f': refused, {self.why_not}' if self.why_not else ''}>"


class AutomaticRun:
    """A program for which agrad itself chooses the native executor: results and errors stay the same, only the time differs.

    The first call runs without the executor, which may compile the program before the second. The compiled code returns the
    same bits as the operations, or leaves a call to the fallback. Whether the program is compiled depends on the program and
    the installation.

    Parameters
    ----------
    program : callable
        Returns the program, for raw arrays and with as few steps as possible; its argument says whether loops may stay.
    backend : Backend
        The backend of the arrays.
    options : mapping
        The options with which the user has compiled the program.
    fallback : callable
        Runs the program without an executor.
    quiet : bool
        Whether to suppress floating-point warnings.
    kept, taken
        Those of `Executor.build`.

    Attributes
    ----------
    why_not : str
        The reason why no compiled code runs the program; empty: it does.
    """

    def __init__(
        self,
        program: Callable[[bool], Program],
        backend: Backend,
        options: Mapping[str, Any],
        fallback: Callable[..., Any],
        *,
        quiet: bool,
        kept: int = 0,
        taken: tuple[int, ...] = (),
    ) -> None:
        self.fallback = fallback
        self.why_not: str = "it has not been called twice"
        self._program, self._backend, self._options, self._quiet = program, backend, options, quiet
        self._kept, self._taken = kept, taken
        self._calls = int(bool(taken))  # the first call was without the executor's code, which made what is taken
        self._misses = 0
        self._run: Callable[..., Any] | None = None

    def __call__(self, *values: Any) -> Any:
        run = self._run
        if run is None and self._calls < 2:
            self._calls += 1
            if self._calls == 2:
                self._choose(values)
                run = self._run
        if run is not None:
            outs = run(*values)
            if outs is not None:
                return outs
            self._misses += 1
            if self._misses == MISSES:
                self._run, self.why_not = None, f"no machine code could run {MISSES} of its calls"
        if not self._quiet:
            return self.fallback(*values)
        with self._backend.quiet():
            return self.fallback(*values)

    def _choose(self, values: Sequence[Any]) -> None:
        """Have the program compiled, now or in a thread, unless the executor refuses it or would take too long."""
        if not may_choose_native():
            self.why_not = "the native executor is not available, or turned off"
            return
        executor = executor_named(NATIVE)
        try:
            program = self._program(executor.loops)
            prepared = PreparedProgram(program, self._backend, kept=self._kept, taken=len(self._taken))
            options = {**self._options, **kept_options(self._kept, self._taken)}
            seconds, make = executor.unasked(prepared.program, self._backend, quiet=self._quiet, **options)
        except Refused as refusal:
            self.why_not = str(refusal)
            return

        def compiling() -> None:
            try:
                with self._backend.quiet():
                    self._run = prepared.around(make(prepared.values(values)))
                self.why_not = ""
            except Refused as refusal:
                self.why_not = str(refusal)
            except Exception as error:  # noqa: BLE001 (nobody has named the executor: its failure concerns nobody)
                self.why_not = f"{type(error).__name__}: {error}"

        self.why_not = "it is being compiled"
        if seconds < AT_ONCE:
            compiling()
        elif seconds < AT_MOST:
            threading.Thread(target=compiling, name="agrad compiles").start()
        else:
            self.why_not = f"compiling it is predicted to take {seconds:.1f} s"

    def __repr__(self) -> str:
        return f"<{NATIVE}, chosen{f': no, {self.why_not}' if self.why_not else ''}>"


def kept_options(kept: int, taken: tuple[int, ...]) -> dict[str, Any]:
    """Return the options of `Executor.build` about what a program keeps, or takes of what was kept."""
    return {"kept": kept} if kept else {"taken": taken} if taken else {}


def unpacking_kept(run: Callable[..., Any], taken: tuple[int, ...]) -> Callable[..., Any]:
    """Return a function that takes a `KeptValues` in place of the first inputs, and passes its values at some positions."""

    def apart(kept: KeptValues, *others: Any) -> Any:
        return run(*kept.layout.values(kept.arrays, taken), *others)

    return apart


def without_warnings(run: Callable[..., Any], backend: Backend) -> Callable[..., Any]:
    """Return a function that runs a program without its library's floating-point warnings."""
    if isinstance(run, ExecutorRun):
        return run.without_warnings
    if isinstance(run, AutomaticRun):
        return run

    def quiet(*values: Any) -> Any:
        with backend.quiet():
            return run(*values)

    return quiet


class PreparedProgram:
    """A program in the form for executors, which neither draw random numbers nor stop a program early.

    The numbers drawn are inputs, and the values that may stop the program are outputs.

    Attributes
    ----------
    program : Program
        The program without keys, draws and stops.

    Parameters
    ----------
    program : Program
        Any program.
    backend : Backend
        The backend on whose arrays it runs.
    kept, taken : int
        How many of its last outputs are returned as one `KeptValues`, after the stops; and how many of its first inputs are
        passed as one.
    """

    def __init__(self, program: Program, backend: Backend, *, kept: int = 0, taken: int = 0) -> None:
        self._draws = [step for step in program.steps if step.op == DRAW]
        self._stops = [step for step in program.steps if step.op == STOP]
        self._backend = backend
        self._before = program
        if any(step.op in (UNWIND, REWIND) for step in program.steps):
            # an executor may copy their token, which is known by identity
            raise Refused("it follows a schedule of checkpoints, which keeps more than the values of the program")
        keys = {*program.keys}
        #: The positions of inputs that are not keys.
        self._given = [at for at, number in enumerate(program.inputs) if number not in keys]
        self._taken, self._count = taken, len(program.outputs) - kept
        drawn_by = {
            ref.number for step in self._draws for part in (*step.args, *step.kwargs.values()) for ref in refs_in(part)
        }
        if not drawn_by <= keys:
            raise Refused("a draw depends on a value")
        drawn = [number for step in self._draws for number in step.made]
        self.program: Program = program.replaced(
            inputs=(*(program.inputs[at] for at in self._given), *drawn),
            outputs=(
                *program.outputs[: self._count],
                *(step.args[0].number for step in self._stops),
                *program.outputs[self._count :],
            ),
            steps=tuple(step for step in program.steps if step.op not in (DRAW, STOP)),
            keys=(),
        )

    def values(self, given: Sequence[Any]) -> list[Any]:
        """Return the inputs of `program`: the given ones that are not keys, and the numbers drawn from the keys."""
        each = [*([given[0]] * self._taken), *given[1:]] if self._taken else given
        found = [each[at] for at in self._given[max(self._taken - 1, 0) :]]  # a `KeptValues` is passed once
        if self._draws:
            keys = dict(zip(self._before.inputs, each, strict=True))
            found += [self._draw(step, keys) for step in self._draws]
        return found

    @once
    def _names(self) -> dict[str, Any]:
        device = self._before.device_for((), self._backend)
        return environment(self._backend, device, self._before.replaced(steps=()))

    def _draw(self, step: Step, keys: Mapping[int, Any]) -> Any:
        def value_of(part: Any) -> Any:
            return self._names[part] if type(part) is DType else part

        kind, shape, key = step.args
        options = {name: mapped(value_of, part) for name, part in step.kwargs.items()}
        return self._backend.as_array(self._names[DRAW](kind, shape, keys[key.number], **options))

    def around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that runs the original program, given the one that runs `program`."""
        if not self._before.keys and not self._stops:  # there may be keys without draws, if no result needs these
            return run
        count = self._count
        stops = [step.args[1] for step in self._stops]
        end = count + len(stops)
        item = self._backend.item

        def program(*given: Any) -> tuple[Any, ...] | None:
            outs = run(*self.values(given))
            if outs is None:  # an executor that agrad has chosen leaves the call to the fallback
                return None
            for array, value in zip(outs[count:end], stops, strict=True):
                stop_unless(item, array, value)
            return (*outs[:count], *outs[end:])

        return program
