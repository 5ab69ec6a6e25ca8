"""Executor: what an object must have that runs recorded programs on the arrays of a library, in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agrad.core.backend import CONTRACT, Backend


class Refused(Exception):
    """An executor does not run a program, or these values; its text says why.

    Raised by `Executor.build`, or in the first call of what that gave, it leaves the program to the next one for good;
    raised in a later call, that call alone.
    """


class Executor:
    """The base of executors; whatever has these attributes is one.

    Attributes
    ----------
    name : str
        What users write: ``ag.compile(f, executor="name")``.
    contract : int
        The version of the contract it is written for.
    backends : tuple of str
        The backends whose arrays it takes; programs on others run as if it had not been named.
    loops : bool
        Whether it takes programs with loops, steps named ``"func.scan"``; else these are unrolled.
    exact : bool
        Whether results are the bits of the operations one by one without ``exact=True`` too. The conformance kit compares
        to rounding where they are not.
    quiet : bool
        Whether what it gives never warns of floating-point errors, whatever the library is set to do about them.
    """

    name: str = ""
    contract: int = CONTRACT
    backends: tuple[str, ...] = ()
    loops: bool = False
    exact: bool = False
    quiet: bool = False

    def availability(self) -> tuple[bool, str]:
        """Return whether it works here; the second part is a version, or why it does not and what to install."""
        return True, ""

    def supports(self, program: Any, **options: Any) -> bool:
        """Return whether it runs a program with these options; must be quick, and see no values.

        Parameters
        ----------
        program : agrad.func.Program
            As of `build`.
        **options
            As of `build`.
        """
        return True

    def build(self, program: Any, backend: Any, values: Sequence[Any], **options: Any) -> Callable[..., Any] | None:
        """Return a function that runs a program; None leaves that to the next one.

        It is called before the program's first call, by the thread that calls; the function is then called with `values`.

        Parameters
        ----------
        program : agrad.func.Program
            With steps of operations alone: no draws (their results are inputs), no ``detach`` and no ``stop_unless``. The
            function takes arrays for its inputs, of the shapes and dtypes that it states, and gives a tuple of arrays
            for its outputs, that no later call writes to. It is called by several threads at a time, and writes to no
            input. What it raises, but for `Refused`, has the call run again without the executor, which raises what the
            operations themselves raise.
        backend : Backend
            Whose arrays these are.
        values : sequence
            Of the first call: they may lie in memory in another way in later ones.
        **options
            Those of `Backend.compile`, and what else was said where the program was called. With ``exact=True`` results
            must be the same bits as operation by operation; an executor that cannot do that refuses.
        """
        raise NotImplementedError

    def unasked(self, program: Any, backend: Any, *, quiet: bool, **options: Any) -> tuple[float, Callable[..., Any]]:
        """Return how to run a program for which nobody named an executor; `Refused` where that brings nothing.

        Only the native executor is asked. What it gives must not be told from what runs without it but by the time: results have
        the same bits, and whatever fails, or warns, is left to that.

        Parameters
        ----------
        program, backend, **options
            As of `build`.
        quiet : bool
            Whether floating-point warnings are off; else a call that would raise one is left, too.

        Returns
        -------
        float
            How many seconds making it takes, predicted from the program alone.
        callable
            Of the inputs of a call: a function like that of `build`, which gives None for a call that it leaves.
        """
        raise Refused(f"the executor {self.name!r} runs what it is named for")

    def in_c(self, program: Any, backend: Backend, **options: Any) -> tuple[int, Any]:
        """Return the address of a program as a function of C, and what must live as long; `Refused` says why there is none.

        The function is ``double f(int n, const double *x)`` where the program has one output, a number that it returns, else
        ``double f(int n, const double *x, double *grad)``: what else the program gives is written to `grad`, one output
        behind the other, or nowhere if that is NULL. `x` holds the inputs, one behind the other, `n` numbers together, each
        in C's order; for another `n` it gives NaN. Inputs and outputs are of float32 or float64. Any thread may call it,
        several at a time, without Python's lock. Where an operation fails it gives NaN, here and there.

        Parameters
        ----------
        program : agrad.func.Program
            As of `build`.
        backend : Backend
            Whose kernels the steps mean.
        **options
            As of `build`.
        """
        raise Refused(f"the executor {self.name!r} makes no functions of C")
