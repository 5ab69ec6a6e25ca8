"""The API that plugins import to read, run and write programs, and to define functions that take functions.

These names belong to the contract and its version, like `agrad.plugin.backend`. docs/plugin.md describes each in one
sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agrad.compiled.compiling import CompiledFunction, CompileError, CompileWarning
from agrad.program.arguments import (
    Argnums,
    bare_all,
    check_argnums,
    give_all,
    givers,
    is_raw,
    is_transformed,
    name_of,
    split_aux,
)
from agrad.program.blank_recording import blank_tensor, program_of_kernels
from agrad.program.closures import Argument
from agrad.program.inference import infer
from agrad.program.loop_passes import trimmed
from agrad.program.passes import broadcast, find, is_elementwise, is_foreign, is_fresh, key_of, optimized
from agrad.program.program import (
    DRAW,
    HERE,
    LITERALS,
    LOOP,
    STOP,
    Body,
    DType,
    Given,
    Leaf,
    Number,
    Program,
    Ref,
    Shaped,
    Step,
    Stopped,
    Write,
    environment,
    is_number,
    mapped,
    printable,
    refs_in,
    spec_of_value,
    symbol_of,
)
from agrad.program.recording import CaptureError
from agrad.program.source import written_out
from agrad.program.unrolling import apart, unrolled
from agrad.program.writing import INDENT, Writer, tuple_text

__all__ = [
    "DRAW",
    "HERE",
    "INDENT",
    "LITERALS",
    "LOOP",
    "STOP",
    "Argnums",
    "Argument",
    "Body",
    "CaptureError",
    "CompileError",
    "CompileWarning",
    "DType",
    "Given",
    "Kept",
    "Leaf",
    "Number",
    "Program",
    "Programs",
    "Ref",
    "Shaped",
    "Step",
    "Stopped",
    "Write",
    "Writer",
    "apart",
    "bare_all",
    "blank_tensor",
    "broadcast",
    "check_argnums",
    "environment",
    "find",
    "give_all",
    "givers",
    "infer",
    "is_elementwise",
    "is_foreign",
    "is_fresh",
    "is_number",
    "is_raw",
    "is_transformed",
    "key_of",
    "mapped",
    "name_of",
    "optimized",
    "printable",
    "program_of_kernels",
    "refs_in",
    "spec_of_value",
    "split_aux",
    "symbol_of",
    "trimmed",
    "tuple_text",
    "unrolled",
    "written_out",
]


class Kept(Protocol):
    """A program of `Programs`, with the data that a call needs to run it."""

    #: How often it has been requested, as counted by the code that runs it.
    calls: int

    @property
    def program(self) -> Program:
        """Computes what the function returns."""

    @property
    def keys(self) -> list[tuple[int, int]]:
        """For each random key, its position among the inputs, and the number of the input."""

    @property
    def from_arguments(self) -> list[tuple[int, int]]:
        """For each tensor or array among the arguments, its position among the inputs, and among the leaves of the arguments."""

    @property
    def leaves(self) -> list[tuple[Any, int]]:
        """For each leaf of the function's result, its placeholder, and its position among the outputs; -1 if it is not an output."""

    def gather(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the inputs, without keys, of a call for which the program holds, from the leaves of its arguments."""


class Programs:
    """The programs of a function, one for each form of its arguments, for callers that run them themselves.

    They hold as long as those of `agrad.compile`: while everything that the function reads beside its arguments is
    unchanged. A function that does more than compute results has no program.

    Parameters
    ----------
    function : callable
        The function.
    **options
        Options of `agrad.compile`: ``pure``, and those for running programs, ``exact`` and ``threads``.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.plugin.programs import Programs
    >>> programs = Programs(lambda x: ag.sum(x * 2.0), exact=True)
    >>> args = (ag.ones(3),), {}
    >>> programs.find(*args) is None
    True
    >>> kept = programs.record(*args)
    >>> programs.find(*args) is kept, [step.op for step in kept.program.steps]
    (True, ['multiply', 'sum'])
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self._compiled = CompiledFunction(function, check=False, explain=False, **options)

    @property
    def programs(self) -> list[Program]:
        """The programs captured so far."""
        return self._compiled.programs

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept | None:
        """Return the program for a call, None if there is none yet.

        Raises
        ------
        CaptureError
            If there can be no program, as an earlier call has shown.
        """
        return self._compiled.find(args, kwargs)

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        """Call the function only to capture its program, which is kept for `find`.

        Raises
        ------
        CaptureError
            If no program can hold the call, if the call does more than compute results from its inputs, or if it fails.
        """
        return self._compiled.record(args, kwargs)

    def compare(self, kept: Kept, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call the function, and check that its program gives the same result.

        Raises
        ------
        CompileError
            If the results differ.
        """
        self._compiled.compare(kept, args, kwargs)  # type: ignore[arg-type] # the program has checked it
