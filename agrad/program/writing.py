"""The text of programs: Python functions that run a program's steps, for any reader or runner.

`Writer` has the parts that all such texts share: a line per step, which ends with ``del`` for values that no later step
takes; functions of 2,000 steps at most; arguments as text. A kind of text is a subclass, which defines the names of
values and operations, and how the function begins and ends. `ProgramText` is the kind of ``Program.text``; backends have
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agrad.core.op import facts_of
from agrad.program.program import (
    DETACH,
    DRAW,
    STOP,
    Body,
    DType,
    Program,
    Ref,
    Shaped,
    Step,
    attached,
    number_text,
    printable,
    symbol_of,
)

#: How many steps one function of a text holds: Python compiles longer ones slowly, and in much memory.
STEPS_PER_FUNCTION = 2000

#: One level of indentation.
INDENT = "    "


class Writer:
    """Writes a program as the function ``program``, and the functions of its parts if it is long.

    Parts exchange values in a dict, ``held``. A kind of text must define the methods that raise `NotImplementedError`
    here; a step that is not a call, or needs several statements, is written by a `statements` of its own.

    Parameters
    ----------
    program : Program
        What to write.
    notes : bool, optional
        Whether the line of a step ends with shape, dtype and the user's line.

    Attributes
    ----------
    last : dict of int to int
        For each value, by number, the position of the last step that takes it; for outputs, the position after the last
        step.
    given : dict of int to None
        The values that ``program`` receives, in order.
    is_long : bool
        Whether there are parts.
    """

    def __init__(self, program: Program, *, notes: bool = False) -> None:
        self.program: Program = program
        self.notes: bool = notes
        self.last: dict[int, Any] = program.last_uses()
        self.given: dict[Any, Any] = dict.fromkeys(program.inputs)
        self.is_long: bool = len(program.steps) > STEPS_PER_FUNCTION

    # -- what a kind of text says of itself -----------------------------------------------------------------------------

    def name(self, number: int) -> str:
        """Return the name of a value in the text."""
        raise NotImplementedError

    def function(self, step: Step) -> str:
        """Return the name of the function of a step in the text."""
        raise NotImplementedError

    def signature(self) -> str:
        """Return the first line of ``program``, below its decorators, if any."""
        raise NotImplementedError

    def opening(self) -> Iterator[str]:
        """Return the statements of ``program`` before the first step."""
        return iter(())

    def ending(self) -> str:
        """Return the last line of ``program``."""
        return f"return ({''.join(f'{self.result(number)}, ' for number in self.program.outputs)})"

    def part_parameters(self) -> list[str]:
        """Return the arguments of the functions of parts, under their names in ``program``."""
        return ["held"]

    def is_local(self, number: int) -> bool:
        """Return whether a value is a variable of the functions."""
        return number not in self.program.constants

    def is_gone(self, number: int, at: int) -> bool:
        """Return whether a variable is deleted after a step. ``program`` does not delete its parameters."""
        return self.last.get(number, at) <= at and self.is_local(number) and (self.is_long or number not in self.given)

    # -- functions ------------------------------------------------------------------------------------------------------

    def functions(self) -> list[str]:
        """Return the texts of the functions; ``program`` is the last."""
        signature, opening = self.signature(), [*self.opening()]
        count = len(self.program.steps)
        if not self.is_long:
            return [defined(signature, *opening, *self.lines(0, count), self.ending())]
        made = dict.fromkeys(self.given, -1) | {n: at for at, step in enumerate(self.program.steps) for n in step.made}
        parts, calls = [], []
        for start in range(0, count, STEPS_PER_FUNCTION):
            stop = min(start + STEPS_PER_FUNCTION, count)
            steps = self.program.steps[start:stop]
            lines = [*self.lines(start, stop)]  # before `is_local` is called, which may depend on them
            taken = [n for n in dict.fromkeys(n for step in steps for n in step.refs) if made.get(n, start) < start]
            left = [n for step in steps for n in step.made if self.last.get(n, -1) >= stop]
            taking = [
                f"{self.name(n)} = held{f'.pop({n})' if self.last[n] < stop else f'[{n}]'}"
                for n in taken
                if self.is_local(n)
            ]
            keeping = [f"held[{n}] = {self.name(n)}" for n in left if self.is_local(n)]
            calls.append(f"part_{start}({', '.join(self.part_parameters())})")
            parts.append(defined(f"def {calls[-1]}:", *taking, *lines, *keeping, "return None"))
        held = ", ".join(f"{n}: {self.name(n)}" for n in self.given if self.is_local(n))
        return [*parts, defined(signature, *opening, f"held = {{{held}}}", *calls, self.ending())]

    def result(self, number: int) -> str:
        """Return the name of a value in the last line of ``program``."""
        return f"held[{number}]" if self.is_long and self.is_local(number) else self.name(number)

    # -- steps ----------------------------------------------------------------------------------------------------------

    def lines(self, start: int, stop: int) -> Iterator[str]:
        """Return the lines of the steps from one position to before another."""
        for at in range(start, stop):
            yield from self.statements(at, self.program.steps[at])

    def statements(self, at: int, step: Step) -> Iterator[str]:
        """Return the lines of a step, with only their relative indentation."""
        target = self.target(step)
        call = f"{target} = {self.call(step)}" if target else self.call(step)
        yield f"{call}{self.dropped(at, step)}{self.note(step)}"

    def target(self, step: Step) -> str:
        """Return the assignment target for the results of a step; nothing for a step without results."""
        names = ["_" if n is None or not self.is_local(n) else self.name(n) for n in step.outs]
        return ", ".join(names) + ("," if step.several and len(names) == 1 else "")

    def dropped(self, at: int, step: Step) -> str:
        """Return the end of a line that deletes the values that no later step takes."""
        gone = [n for n in dict.fromkeys((*step.refs, *step.made)) if self.is_gone(n, at)]
        return f"; del {', '.join(map(self.name, gone))}" if gone else ""

    def note(self, step: Step) -> str:
        """Return the comment after a step."""
        if not self.notes:
            return ""
        made = ", ".join(str(self.program.shapes[number]) for number in step.made)
        return f"  # {made}{f'  {printable(step.line)}' if step.line else ''}"

    def call(self, step: Step) -> str:
        """Return the call of a step, an expression."""
        if symbol := symbol_of(step):  # -2.0 ** x is -(2.0 ** x)
            left, right = (f"({text})" if text.startswith("-") else text for text in map(self.part, step.args))
            return f"{left} {symbol} {right}"
        return f"{self.function(step)}({', '.join(self.arguments(step))})"

    def arguments(self, step: Step) -> list[str]:
        """Return the arguments of a step."""
        return [*map(self.part, step.args), *(f"{name}={self.part(part)}" for name, part in step.kwargs.items())]

    def part(self, part: Any) -> str:
        """Return an argument as text."""
        kind = type(part)
        if kind is Ref:
            return self.name(part.number)
        if kind is list:
            return f"[{', '.join(map(self.part, part))}]"
        if kind is tuple:
            return tuple_text([*map(self.part, part)])
        if kind is slice:
            return f"slice({', '.join(map(self.part, (part.start, part.stop, part.step)))})"
        return self.leaf(part)

    def leaf(self, part: Any) -> str:
        """Return an argument that is neither a value nor a container, as text."""
        if type(part) is complex:
            return f"complex({self.leaf(part.real)}, {self.leaf(part.imag)})"
        return "..." if part is ... else repr(part)


def defined(signature: str, *lines: str) -> str:
    """Return the text of a function."""
    return "\n".join([signature, *(f"{INDENT}{line}" for line in lines), ""])


def tuple_text(parts: Sequence[str]) -> str:
    """Return the text of a tuple."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


# -- what programs show -----------------------------------------------------------------------------------------------


class ProgramText(Writer):
    """The text that runs on any kernels: ``program(xp, *inputs)``, with those of loops' bodies before it.

    Parameters
    ----------
    where : str, optional
        Additional arguments of functions that create arrays, as ``**here``.
    """

    def __init__(self, program: Program, *, notes: bool = False, where: str = "") -> None:
        super().__init__(program, notes=notes)
        self.where = where

    def name(self, number: int) -> str:
        return self.program.name_of(number)

    def function(self, step: Step) -> str:
        return step.op if step.op in (DETACH, DRAW, STOP) else f"xp.{step.op}"

    def signature(self) -> str:
        return f"def program({', '.join(['xp', *map(self.name, self.program.inputs)])}):"

    def opening(self) -> Iterator[str]:
        if self.notes:
            yield from (f"# {self.name(n)}: {self.about(n)}" for n in (*self.program.inputs, *self.program.constants))

    def about(self, number: int) -> str:
        """Return the description of a value: its shape and dtype, its number if it is a constant, and the user's name."""
        program = self.program
        if number in program.keys:
            return "key of a draw"
        shape, constant = program.shapes[number], program.constants.get(number)
        value = f" = {number_text(constant)}" if constant is not None and shape.shape == () else ""
        return f"{shape}{value}{f'  {printable(program.names[number])}' if number in program.names else ''}"

    def part_parameters(self) -> list[str]:
        return ["xp", "held"]

    def arguments(self, step: Step) -> list[str]:
        here = [self.where] if self.where and facts_of(step.op).creates == "here" else []
        return super().arguments(step) + here

    def leaf(self, part: Any) -> str:
        kind = type(part)
        if kind is DType:
            return str(part)
        if kind is Shaped:
            return f"spec({part.shape!r}, {part.dtype})"
        return self.program.bodies[part] if kind is Body else super().leaf(part)


@attached
class TextMethods:
    """The members of a program that this file defines."""

    def text(self: Any, *, notes: bool = True, where: str = "") -> str:
        """Return the Python text that runs: ``program(xp, *inputs)``, and the functions it calls if it is long.

        Parameters
        ----------
        notes : bool, optional
            Whether each line ends with shape, dtype and the user's line.
        where : str, optional
            Additional arguments of creation functions, as ``**here``.
        """
        bodies = [body.text(name) for body, name in self.bodies.items()] if notes else []
        return "\n".join([*bodies, *ProgramText(self, notes=notes, where=where).functions()])

    def __str__(self: Any) -> str:
        return self.text()  # type: ignore[no-any-return]
