"""Passes over the loops of programs: unneeded values are removed, and invariant work is moved before the loop."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from agrad.program.program import BODIED, DRAW, LOOP, STOP, Program, Ref, Step


def trimmed(program: Program) -> Program:
    """Return a program whose loops carry, take and return only needed values."""
    if not program.bodies:
        return program
    used = program.last_uses()
    return program.replaced(steps=tuple(_trimmed(step, used) if step.op == LOOP else step for step in program.steps))


def _trimmed(step: Step, used: Container[int]) -> Step:
    """Return the step of a loop with less work; a carried value that only affects itself is not needed."""
    operands, body = step.args
    step = replace(step, outs=tuple(out if out in used else None for out in step.outs))
    inner = trimmed(body.program)
    carried, given = body.carried, range(len(inner.outputs))
    wanted = {i for i in given if step.outs[i] is not None}
    wanted |= {body.kept[i] for i, out in enumerate(step.outs[len(inner.outputs) :]) if out is not None}
    places = {number: i for i, number in enumerate(inner.inputs)}
    while True:
        part = inner.replaced(outputs=tuple(inner.outputs[i] for i in sorted(wanted))).needed()
        taken = {places[n] for n in (*(ref for each in part.steps for ref in each.refs), *part.outputs) if n in places}
        more = {i for i in taken if i < carried} - wanted
        if not more:
            break
        wanted |= more
    carries = [i for i in range(carried) if i in wanted]
    takes = [i for i in range(carried, len(inner.inputs)) if i in taken]
    if not (carries or takes):  # a loop takes something, if only for its backend
        takes = [0] if not carried else []
        carries = [0] if carried else []
        part = inner.replaced(outputs=tuple(inner.outputs[i] for i in sorted({*wanted, *carries}))).needed()
    gives = [i for i in given if i in wanted or i in carries]
    kept = [(k, out) for k, out in zip(body.kept, step.outs[len(inner.outputs) :], strict=True) if out is not None]
    program = part.replaced(inputs=tuple(inner.inputs[i] for i in (*carries, *takes)))
    rows = sum(i < carried + body.rows for i in takes)
    less = body.doing(program, carried=len(carries), rows=rows, kept=tuple(carries.index(k) for k, _ in kept))
    outs = (*(step.outs[i] for i in gives), *(out for _, out in kept))
    return replace(step, args=([operands[i] for i in (*carries, *takes)], less), outs=outs)


def hoisted(program: Program) -> Program:
    """Return a program that computes before each loop the values that are the same in all its calls."""
    if not program.bodies:
        return program
    steps: list[Step] = []
    shapes, constants = dict(program.shapes), dict(program.constants)
    fresh = program.next_number()
    for step in program.steps:
        if step.op != LOOP:
            steps.append(step)
            continue
        operands, body = step.args
        inner = hoisted(body.program.without_detach())
        first = body.carried + body.rows
        outside = dict(zip(inner.inputs[first:], (ref.number for ref in operands[first:]), strict=True))
        still, added = [], []
        for each in inner.steps:
            fixed = all(n in outside or n in inner.constants for n in each.refs)
            if not fixed or each.op in (DRAW, STOP) or not each.made:
                still.append(each)
                continue
            for n in each.refs:  # a constant of the body is one of the program, too
                if n not in outside:
                    outside[n], fresh = fresh, fresh + 1
                    shapes[outside[n]], constants[outside[n]] = inner.shapes[n], inner.constants[n]
            for n in each.made:
                outside[n], fresh = fresh, fresh + 1
                shapes[outside[n]] = inner.shapes[n]
                added.append(n)
            moved = each.taking({n: Ref(outside[n]) for n in each.refs})
            steps.append(replace(moved, outs=tuple(None if n is None else outside[n] for n in each.outs)))
        used = {n for each in still for n in each.refs} | {*inner.outputs}
        added = [n for n in added if n in used]
        less = body.doing(inner.replaced(inputs=(*inner.inputs, *added), steps=tuple(still)).needed())
        steps.append(replace(step, args=([*operands, *(Ref(outside[n]) for n in added)], less)))
    return program.replaced(steps=tuple(steps), shapes=shapes, constants=constants)


def running(program: Program, options: Mapping[str, Any]) -> Program:
    """Return a program whose loops run their bodies with these options."""
    if not program.bodies:
        return program
    bodies = {body: body.doing(body.program, options=options) for body in program.bodies}
    steps = (
        replace(step, args=(step.args[0], bodies[step.args[1]], *step.args[2:])) if step.op in BODIED else step
        for step in program.steps
    )
    return program.replaced(steps=tuple(steps))
