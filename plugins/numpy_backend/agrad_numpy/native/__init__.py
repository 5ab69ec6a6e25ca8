"""The native executor: programs on NumPy's arrays as machine code, made by LLVM. It needs llvmlite, ``agrad-numpy[native]``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from agrad.plugin.backend import Executor, Refused


class NativeExecutor(Executor):
    """Runs programs as native kernels and a schedule; see docs/native.md."""

    name = "native"
    backends = ("numpy",)
    loops = quiet = True
    #: Of so many steps one may be NumPy's, and four of few.
    share = 8

    def availability(self) -> tuple[bool, str]:
        """Return whether llvmlite is there and works."""
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
        **options: Any,
    ) -> Callable[..., Any]:
        """Return the program as native code; `threads`: on how many of them large loops run."""
        from agrad_numpy.executor import default_threads  # noqa: PLC0415 (as above)
        from agrad_numpy.native import spreading  # noqa: PLC0415 (as above)
        from agrad_numpy.native.running import Running, plain  # noqa: PLC0415 (as above)

        count = (default_threads() if threads is None else threads) if spreading.available() else 1
        lowered = program if exact else _loosely(program)
        running = Running(lowered, backend, own=not exact, plain=program, threads=count)
        native = running.native([plain(value) for value in values])
        if len(native.python) > max(4, len(program.steps) // self.share):
            raise Refused(f"{len(native.python)} of {len(program.steps)} steps have no kernels")
        return running

    def in_c(self, program: Any, backend: Any, *, exact: bool = False, **options: Any) -> tuple[int, Any]:
        """Return the program as a function of C."""
        from agrad_numpy.native.in_c import in_c  # noqa: PLC0415 (as above)

        return in_c(program if exact else _loosely(program), backend, own=not exact)


def _loosely(program: Any) -> Any:
    """Return a program whose results differ in the last bits."""
    from agrad_numpy.executor import turned  # noqa: PLC0415 (as above)
    from agrad_numpy.native.expanding import expanded  # noqa: PLC0415 (as above)

    return expanded(turned(program))
