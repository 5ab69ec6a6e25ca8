"""What a plugin imports of programs: to read, run and write them, and for functions of its own that take functions.

Part of the contract and its version, as `agrad.plugin.backend` is. docs/plugin.md says in a sentence what each name is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agrad.compiled.compiling import Compiled, CompileError, CompileWarning
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
from agrad.program.blanks import blank_tensor, program_of_kernels
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
    """A program of `Programs`, with what tells how a call is run by it."""

    #: How often it has been called for, as far as those who run it count.
    calls: int

    @property
    def program(self) -> Program:
        """Gives what the function returns."""

    @property
    def keys(self) -> list[tuple[int, int]]:
        """Per key of a draw the place among the inputs, and the input's number."""

    @property
    def from_arguments(self) -> list[tuple[int, int]]:
        """Per tensor or array among the arguments the place among the inputs, and that among the leaves of the arguments."""

    @property
    def leaves(self) -> list[tuple[Any, int]]:
        """Per leaf of what the function returns what stands for it, and its place among the outputs; -1: it is none of them."""

    def gather(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the inputs, but for keys, of a call for which the program holds, by the leaves of its arguments."""


class Programs:
    """The programs of a function, one for each form of its arguments, for those who run them themselves.

    They hold as those of `agrad.compile` do: for as long as what the function reads beside its arguments is as it was. Of a
    function that does more than give results there is none.

    Parameters
    ----------
    function : callable
        The function.
    **options
        As of `agrad.compile`: ``pure``, and how the programs are to run, ``exact`` and ``threads``.

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
        self._compiled = Compiled(function, check=False, explain=False, **options)

    @property
    def programs(self) -> list[Program]:
        """The programs that there are."""
        return self._compiled.programs

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept | None:
        """Return the program for a call; None where there is none yet.

        Raises
        ------
        CaptureError
            If it is known that there can be none.
        """
        return self._compiled.find(args, kwargs)

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        """Call the function for nothing but its program, which is kept for `find`.

        Raises
        ------
        CaptureError
            If no program can hold the call, or none that gives results of its inputs and does nothing else; or if it fails.
        """
        return self._compiled.record(args, kwargs)

    def compare(self, kept: Kept, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call the function, and check that a program it has gives the same.

        Raises
        ------
        CompileError
            If it does not.
        """
        self._compiled.compare(kept, args, kwargs)  # type: ignore[arg-type] # it gave it
