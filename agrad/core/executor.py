"""Executor: the interface of objects that run recorded programs on a library's arrays in their own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agrad.core.backend import CONTRACT, Backend


class Refused(Exception):
    """An executor does not run a program, or these values; its text says why.

    If raised by `Executor.build`, or in the first call of the function it returned, the program goes to the next executor for
    good; if raised in a later call, only that call does.
    """


class KeptValues(NamedTuple):
    """What a program keeps for its backward program, as an executor holds it: in one array, say, instead of one for each value.

    Attributes
    ----------
    arrays : tuple of array
        What holds the values. The graph keeps these alive, and counts their bytes. Those that no later pass needs become None.
    layout : object
        Where they are: ``layout.values(arrays, positions)`` returns a list of the values at these positions, as arrays, and
        ``layout.holders(positions)`` the set of the numbers of the arrays that hold them.
    """

    arrays: tuple[Any, ...]
    layout: Any


class Executor:
    """The base of executors; any object with these attributes is one.

    Attributes
    ----------
    name : str
        What users write: ``ag.compile(f, executor="name")``.
    contract : int
        The version of the contract it implements.
    backends : tuple of str
        The backends whose arrays it takes; programs on others run as if the executor had not been named.
    loops : bool
        Whether it takes programs with loops (steps named ``"func.scan"``); otherwise they are unrolled.
    exact : bool
        Whether results are the bits of the operations one by one without ``exact=True`` too. The conformance kit compares
        to rounding where they are not.
    quiet : bool
        Whether what it gives never warns of floating-point errors, whatever the library is set to do about them.
    keeps : bool
        Whether `build` takes the options `kept` and `taken`.
    """

    name: str = ""
    contract: int = CONTRACT
    backends: tuple[str, ...] = ()
    loops: bool = False
    exact: bool = False
    quiet: bool = False
    keeps: bool = False

    def availability(self) -> tuple[bool, str]:
        """Return whether it works here; the second item is a version, or why it does not work and what to install."""
        return True, ""

    def supports(self, program: Any, **options: Any) -> bool:
        """Return whether it runs a program with these options; must be quick, and see no values.

        Parameters
        ----------
        program : agrad.func.Program
            As for `build`.
        **options
            As for `build`.
        """
        return True

    def build(self, program: Any, backend: Any, values: Sequence[Any], **options: Any) -> Callable[..., Any] | None:
        """Return a function that runs a program; None leaves the program to the next executor.

        agrad calls this before the program's first call, in the calling thread, then calls the function with `values`.

        Parameters
        ----------
        program : agrad.func.Program
            Contains only steps of operations: no draws (their results are inputs), no ``detach`` and no ``stop_unless``. The
            function takes arrays for its inputs, of the shapes and dtypes stated there, and returns a tuple of arrays
            for its outputs, which no later call overwrites. Several threads may call it at once, and it writes to no
            input. If it raises anything but `Refused`, the call runs again without the executor and raises what the
            operations themselves raise.
        backend : Backend
            The backend of these arrays.
        values : sequence
            Those of the first call; in later calls they may have another memory layout.
        **options
            Those of `Backend.compile`, and further ones from the program's caller. With ``exact=True`` results
            must be bitwise the same as operation by operation; an executor that cannot do that refuses.
            Only where the executor `keeps`: ``kept=n``, if nothing but a backward program takes the last `n` outputs, which the
            function then returns as one `KeptValues` after the others; and, for such a backward program, ``taken``, a tuple of
            positions: its first inputs are the values at these positions, and the function takes the `KeptValues` in place of them.
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
        """Return the address of a program as a C function, and an object to keep alive; `Refused` says why there is none.

        The function is ``double f(int n, const double *x)`` where the program has a single output, a number that it returns;
        otherwise ``double f(int n, const double *x, double *grad)``, which writes the remaining outputs to `grad`, one after
        the other, unless that is NULL. `x` holds the inputs, one after the other, `n` numbers in all, each in C order; for any
        other `n` it returns NaN. Inputs and outputs are float32 or float64. Any thread may call it, several at once, without
        Python's lock. Where an operation fails, the returned number and the written ones are NaN.

        Parameters
        ----------
        program : agrad.func.Program
            As for `build`.
        backend : Backend
            The backend whose kernels the steps use.
        **options
            As for `build`.
        """
        raise Refused(f"the executor {self.name!r} makes no functions of C")
