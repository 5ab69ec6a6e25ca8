"""For the test of the survey itself: functions that go wrong, each under the name of the outcome that must be seen."""

from __future__ import annotations

import numpy as np
from calls import P, Section, X

import agrad as ag

call = Section("broken")


def detached(x):
    """Leave the graph without a word."""
    return x.detach() if isinstance(x, ag.Tensor) else x


def no_way_back(x):
    """Raise in the backward pass only."""
    y = 2 * x
    if isinstance(y, ag.Tensor):
        y.register_hook(lambda g: 1 / 0)
    return y


def write_to_a_view(x):
    """Count on it that a slice shares its memory."""
    y = 2 * x
    row = y[1:]
    row += 1.0
    return y


def refuse(x):
    """Refuse everything but NumPy's arrays."""
    if not isinstance(x, np.ndarray):
        message = "only NumPy arrays | please"
        raise TypeError(message)
    return 2 * x


CALLS = [
    call("differentiates", lambda x, y: [x * x, (y * x, {"a": 3 * y})], X, P),
    call("differentiates(complex)", lambda z: z * z, X + 1j * P),
    call("piecewise constant", lambda x: x > 0, X, constant=True),
    call("WRONG(gradient)", lambda x: x * detached(x), X),
    call("WRONG(one operand)", lambda x, y: x * detached(y), X, P),
    call("WRONG(one element)", lambda x: [x[:4], x[4] * detached(x[4])], X),
    call("WRONG(complex)", lambda z: z * detached(z), X + 1j * P),
    call("WRONG(value)", lambda x: x * (2.0 if isinstance(x, ag.Tensor) else 3.0), X),
    call("WRONG(result missing)", lambda x: [x] if isinstance(x, ag.Tensor) else [x, x], X),
    call("LOST", lambda x: 2 * detached(x), X),
    call("LOST(array)", lambda x: 2 * np.asarray(detached(x)), X),
    call("warns", lambda x: float(x[0]) * 2.0, X),
    call("warns(lost write)", write_to_a_view, X),
    call("raises", lambda x: np.asarray(x), X),
    call("raises(in backward)", no_way_back, X),
    call("refused by the library", refuse, X),
    call("MISDECLARED", lambda x: x * x, X, constant=True),
    call("MISDECLARED(constant)", lambda x: x > 0, X),
    call("WRONG(nan)", lambda x: x**0.5, X),
    call("MISDECLARED(error)", lambda x: x[9], X),
]
