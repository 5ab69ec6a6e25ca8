"""Fused operations written out as those they are made of, for which there are kernels; the last bits may be others."""

from __future__ import annotations

from dataclasses import replace

from agrad.plugin.programs import Program, Ref, Shaped, Step


def expanded(program: Program) -> Program:
    """Return a program with layers of matrices as a product and a sum, and products of one term each as what they are."""
    shapes = dict(program.shapes)
    number = program.next_number()
    steps: list[Step] = []
    for step in program.steps:
        if _is_outer(program, step):
            steps.append(replace(step, op="multiply"))
            continue
        if not _is_layer(program, step):
            steps.append(step)
            continue
        rows, weight, *bias = step.args
        bias = [part for part in bias if part is not None]
        (made,) = step.made
        turned, product = number, number + 1 if bias else made
        number += 2
        shapes[turned] = Shaped(shapes[weight.number].shape[::-1], shapes[weight.number].dtype)
        steps.append(Step("matrix_transpose", (weight,), {}, (turned,), False, step.line, step.region))
        steps.append(Step("matmul", (rows, Ref(turned)), {}, (product,), False, step.line, step.region))
        if bias:
            shapes[product] = shapes[made]
            steps.append(Step("add", (Ref(product), bias[0]), {}, (made,), False, step.line, step.region))
    return program.replaced(steps=tuple(steps), shapes=shapes)


def _is_outer(program: Program, step: Step) -> bool:
    """Return whether a product of matrices adds nothing up: ``a * b`` with axes of one element that are broadcast."""
    if step.op != "matmul" or step.kwargs or len(step.refs) != 2:
        return False
    shapes = [program.shapes[n].shape for n in step.refs]
    return min(map(len, shapes)) > 1 and shapes[0][-1] == 1


def _is_layer(program: Program, step: Step) -> bool:
    """Return whether a step is a layer of matrices of one dtype."""
    if step.op != "nn.linear" or step.kwargs or step.several or len(step.args) < 2:
        return False
    if any(type(part) is not Ref for part in step.args[:2]) or any(
        type(p) is not Ref and p is not None for p in step.args[2:]
    ):
        return False
    two = all(len(program.shapes[part.number].shape) == 2 for part in step.args[:2])
    return two and len({program.shapes[n].dtype for n in (*step.refs, *step.made)}) == 1
