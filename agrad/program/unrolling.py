"""Loops for code that does not know them: `unrolled`, every call with steps of its own, and `apart`, for writers of loops as text.

Backends that run programs in their own way get them unrolled. In a text, values of a body share a scope with those
around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agrad.program.program import LOOP, Program, Ref, Shaped, Step, as_loop


def unrolled(program: Program) -> Program:
    """Return an equivalent program without loops."""
    if not program.bodies:
        return program
    writer = Unrolling(program)
    used = program.last_uses()
    for step in (as_loop(each, used) for each in program.steps):
        if step.op == LOOP:
            writer.loop(step)
        else:
            writer.steps.append(step)
    return program.replaced(steps=tuple(writer.steps), shapes=writer.shapes, constants=writer.constants).needed()


def apart(program: Program) -> Program:
    """Return a program in which each number belongs to one value, in all bodies, and bodies have no constants.

    These are operands, and shapes are those of all.
    """
    if not program.bodies:
        return program
    shapes, constants = dict(program.shapes), dict(program.constants)
    fresh = itertools.count(max(program.next_number(), max(shapes, default=-1) + 1)).__next__
    steps = []
    for step in program.steps:
        if step.op == LOOP:
            operands, body = step.args
            inner = apart(body.program)
            inner = renumbered(inner, {number: fresh() for number in inner.shapes})
            shapes |= inner.shapes
            given = {number: fresh() for number in inner.constants}
            shapes |= {given[number]: inner.shapes[number] for number in given}
            constants |= {given[number]: value for number, value in inner.constants.items()}
            whole = inner.replaced(inputs=(*inner.inputs, *given), constants={})
            step = replace(step, args=([*operands, *map(Ref, given.values())], body.doing(whole)))  # noqa: PLW2901
        steps.append(step)
    return program.replaced(steps=tuple(steps), shapes=shapes, constants=constants)


def renumbered(program: Program, same: Mapping[int, int]) -> Program:
    """Return a program with new numbers for all of its values, including those of its bodies."""

    def moved(step: Step) -> Step:
        if step.op == LOOP:
            operands, body = step.args
            step = replace(step, args=(operands, body.doing(renumbered(body.program, same))))
        taking = step.taking({number: Ref(same[number]) for number in step.refs})
        return replace(taking, outs=tuple(None if number is None else same[number] for number in step.outs))

    return program.replaced(
        inputs=tuple(same[number] for number in program.inputs),
        steps=tuple(map(moved, program.steps)),
        outputs=tuple(same[number] for number in program.outputs),
        shapes={same[number]: shaped for number, shaped in program.shapes.items()},
        constants={same[number]: value for number, value in program.constants.items()},
    )


class Unrolling:
    """Writes the steps of a program without its loops.

    Attributes
    ----------
    steps : list of Step
        So far.
    shapes, constants : dict
        Of the program, and of what was added.
    """

    def __init__(self, program: Program) -> None:
        self.steps: list[Step] = []
        self.shapes: dict[int, Any] = dict(program.shapes)
        self.constants: dict[int, Any] = dict(program.constants)
        self._next = program.next_number()

    def new(self, shaped: Shaped) -> int:
        """Return the next number, for a value of a shape and dtype."""
        number = self._next
        self._next += 1
        self.shapes[number] = shaped
        return number

    def loop(self, step: Step) -> None:
        """Write the calls of a loop one after the other."""
        operands, body = step.args
        program = unrolled(body.program)
        carried, rows, rest = body.split([ref.number for ref in operands])
        fixed = {}
        for number, value in program.constants.items():
            fixed[number] = self.new(program.shapes[number])
            self.constants[fixed[number]] = value
        columns: list[list[int]] = [[] for _ in step.outs[body.carried :]]
        for i in reversed(range(body.length)) if body.reverse else range(body.length):
            given = [self.step(step, "getitem", (Ref(row), (i, ...)), self.row(row)) for row in rows]
            outs = self.call(program, [*carried, *given, *rest], fixed)
            found = [*outs[body.carried :], *(carried[k] for k in body.kept)]
            carried = outs[: body.carried]
            for column, number in zip(columns, found, strict=True):
                column.append(number)
        for number, out in zip(carried, step.outs, strict=False):
            if out is not None:  # in memory of its own, as from a loop
                self.add(step, "asarray", (Ref(number),), {"copy": True}, out)
        for column, out in zip(columns, step.outs[body.carried :], strict=True):
            if out is not None:
                refs = [Ref(number) for number in (reversed(column) if body.reverse else column)]
                self.add(step, "stack", (refs,), {"axis": 0}, out)

    def row(self, number: int) -> Shaped:
        """Return the shape and dtype of a row of a value."""
        shape, dtype = self.shapes[number]
        return Shaped(shape[1:], dtype)

    def step(self, about: Step, op: str, args: tuple[Any, ...], shaped: Shaped) -> int:
        """Add a step that makes a value of a shape and dtype; return its number."""
        number = self.new(shaped)
        self.add(about, op, args, {}, number)
        return number

    def add(self, about: Step, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: int) -> None:
        """Add a step that represents a part of another one."""
        self.steps.append(Step(op, args, kwargs, (out,), line=about.line, region=about.region))

    def call(self, program: Program, given: Sequence[int], fixed: dict[int, int]) -> list[int]:
        """Add the steps of one call of a body; return the numbers of its results."""
        same = fixed | dict(zip(program.inputs, given, strict=True))
        for step in program.steps:
            taking = step.taking({number: Ref(same[number]) for number in step.refs})
            for number in step.made:
                same[number] = self.new(program.shapes[number])
            outs = tuple(None if number is None else same[number] for number in step.outs)
            self.steps.append(replace(taking, outs=outs))
        return [same[number] for number in program.outputs]
