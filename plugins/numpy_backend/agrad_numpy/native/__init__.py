"""The native executor: programs on NumPy's arrays as machine code, compiled by LLVM. It needs llvmlite, ``agrad-numpy[native]``."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.plugin.backend import Executor, Refused

#: Programs with fewer steps are only compiled on request.
FEWEST = 4


class NativeExecutor(Executor):
    """Runs programs as native kernels and a schedule; see docs/native.md."""

    name = "native"
    backends = ("numpy",)
    loops = quiet = keeps = True
    #: With this many steps, one may be NumPy's; of few steps, four.
    share = 8

    def availability(self) -> tuple[bool, str]:
        """Return whether llvmlite is installed and works."""
        from agrad_numpy.native import jit  # noqa: PLC0415 (llvmlite is asked for where the executor is)

        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            return False, "Python runs without its lock"
        return jit.availability()

    def build(
        self,
        program: Any,
        backend: Any,
        values: Sequence[Any],
        *,
        exact: bool = False,
        threads: int | None = None,
        kept: int = 0,
        taken: Sequence[int] = (),
        **options: Any,
    ) -> Callable[..., Any]:
        """Return the program as native code; `threads`: how many threads run large loops."""
        from agrad_numpy.executor import default_threads  # noqa: PLC0415 (as above)
        from agrad_numpy.native import spreading  # noqa: PLC0415 (as above)
        from agrad_numpy.native.running import NativeProgram, arrays_of  # noqa: PLC0415 (as above)

        count = (default_threads() if threads is None else threads) if spreading.available() else 1
        lowered = _exactly(program) if exact else _loosely(program)
        how: dict[str, Any] = {"own": not exact, "plain": program, "threads": count, "kept": kept, "taken": taken}
        running = NativeProgram(lowered, backend, **how)
        with backend.quiet():  # the steps run one by one, once
            native = running.native(arrays_of(values, taken))
        if len(native.python) > max(4, len(program.steps) // self.share):
            raise Refused(f"{len(native.python)} of {len(program.steps)} steps have no kernels")
        return running

    def unasked(
        self,
        program: Any,
        backend: Any,
        *,
        quiet: bool,
        exact: bool = False,
        keep: bool = True,
        kept: int = 0,
        taken: Sequence[int] = (),
        **options: Any,
    ) -> tuple[float, Callable[..., Any]]:
        """Return how to run a program of small arrays with the bits of its text."""
        from agrad_numpy.executor import turned  # noqa: PLC0415 (as above)
        from agrad_numpy.native.builtin import flags  # noqa: PLC0415 (as above)
        from agrad_numpy.native.lowering import predicted_seconds  # noqa: PLC0415 (as above)
        from agrad_numpy.native.running import NativeCode, arrays_of  # noqa: PLC0415 (as above)
        from agrad_numpy.tiles import CUT_FROM  # noqa: PLC0415 (as above)

        largest = max(
            (math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in program.shapes.values()), default=0
        )
        if not keep or largest >= CUT_FROM:
            raise Refused("a value is so large that calls cost little, and sums over it go in parts")
        if len(program.steps) < FEWEST:
            raise Refused(f"{len(program.steps)} steps are soon done")
        if not quiet and flags() is None:
            raise Refused("nothing tells here of floating-point errors")
        same_bits = _exactly(program if exact else turned(program))

        how: dict[str, Any] = {"own": False, "whole": True, "tells": not quiet, "kept": kept, "taken": taken}

        def make(values: Sequence[Any]) -> Callable[..., Any]:
            return NativeCode(same_bits, backend, arrays_of(values, taken), **how).call

        return predicted_seconds(same_bits), make

    def in_c(self, program: Any, backend: Any, *, exact: bool = False, **options: Any) -> tuple[int, Any]:
        """Return the program as a C function."""
        if options:
            raise Refused(
                f"there is no option {next(iter(options))!r}: machine code has exact=, and agrad.func.cfunc gradient="
            )
        from agrad_numpy.native.c_functions import in_c  # noqa: PLC0415 (as above)

        return in_c(_exactly(program) if exact else _loosely(program), backend, own=not exact)


def _exactly(program: Any) -> Any:
    """Return a program whose results are the same bits."""
    from agrad_numpy.native.diagonals import on_diagonals  # noqa: PLC0415 (as above)
    from agrad_numpy.native.expanding import exactly  # noqa: PLC0415 (as above)

    return on_diagonals(exactly(program), own=False)


def _loosely(program: Any) -> Any:
    """Return an equivalent program whose results may differ in the last bits."""
    from agrad_numpy.executor import turned  # noqa: PLC0415 (as above)
    from agrad_numpy.native.diagonals import on_diagonals  # noqa: PLC0415 (as above)
    from agrad_numpy.native.expanding import expanded  # noqa: PLC0415 (as above)

    return on_diagonals(expanded(turned(program)), own=True)
