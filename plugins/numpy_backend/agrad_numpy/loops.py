"""The kernel of loops: a body's program, compiled once, runs on one row after another; results are written in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.plugin.backend import backend_of
from agrad.plugin.programs import Body


def scan(operands: Sequence[Any], body: Body) -> list[Any]:
    """Run a loop: return the carried values after it, and the results of its calls, stacked."""
    backend, count, program = backend_of(operands[0]), body.carried, body.program
    assert backend is not None
    run: Callable[..., Any] = program.on(backend.default_device()).runner(backend, **body.options)
    carried, rows, rest = body.split([backend.as_array(x) for x in operands])
    results = [_stack(backend, body, number) for number in program.outputs[count:]]
    kept = [(_stack(backend, body, program.inputs[k]), k) for k in body.kept]
    for i in reversed(range(body.length)) if body.reverse else range(body.length):
        for column, k in kept:
            column[i] = carried[k]
        made = run(*carried, *[row[i, ...] for row in rows], *rest)
        for column, one in zip(results, made[count:], strict=True):
            column[i] = one
        carried = [one if type(one) is np.ndarray else np.asarray(one) for one in made[:count]]
    return [*(np.array(one) for one in carried), *results, *(column for column, _ in kept)]


def _stack(backend: Any, body: Body, number: int) -> Any:
    """Return an array for the value of every call."""
    shape, dtype = body.program.shapes[number]
    return np.empty((body.length, *shape), backend.dtype(dtype))
