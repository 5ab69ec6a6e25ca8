"""Settings and modes that a function sets and leaves are the caller's from then on: no program does that."""

from __future__ import annotations

import contextlib
import warnings

import pytest

import agrad as ag
from agrad.compat import autograd
from agrad.core import mode
from agrad.plugin import manager


def default_dtype(x):
    ag.set_default_dtype(ag.float32)
    return x * 2


def default_backend(x):
    ag.set_default_backend("numpy")
    return x * 2


def convention(x):
    autograd.set_complex_convention("pytorch")
    return x * 2


def recording(x):
    ag.set_grad_enabled(False)
    return x * 2


def anomalies(x):
    ag.autograd.set_detect_anomaly(True)
    return x * 2


def entered(x):
    ag.no_grad().__enter__()
    return x * 2


def in_an_error(x):
    ag.set_grad_enabled(False)
    raise KeyError(x)


def there_and_back(x):
    ag.set_grad_enabled(False)
    y = x * 2
    ag.set_grad_enabled(True)
    return y * x


def in_a_block(x):
    with ag.set_grad_enabled(False):
        y = x * 2
    return y * x


def state():
    now = mode.current()
    parts = None if now is None else (now.grad, now.inference, now.anomaly, now.recorder, now.levels)
    return str(ag.zeros(1).dtype), autograd.complex_convention(), parts


@pytest.fixture(autouse=True)
def put_back(monkeypatch):
    monkeypatch.setattr(manager, "_default", manager._default)
    yield
    reset()


def reset():
    ag.set_default_dtype(ag.float64)
    autograd.set_complex_convention("autograd")
    mode.set_mode(None)


def states(run):
    seen = []
    for _ in range(6):
        reset()
        with contextlib.suppress(KeyError):
            run(ag.ones(2))
        seen.append(state())
    return seen


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (default_dtype, "the default dtype"),
        (default_backend, "the default backend"),
        (convention, "the convention of complex gradients"),
        (recording, "sets a mode"),
        (anomalies, "sets a mode"),
        (entered, "sets a mode"),
        (in_an_error, None),
        (there_and_back, None),
        (in_a_block, None),
    ],
)
def test_what_a_function_sets_and_leaves_is_left(function, reason):
    compiled = ag.compile(function, check=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = states(compiled)
    assert found == states(function)
    assert [reason in str(each.message) for each in told] == [True] * (reason is not None)
    assert len(compiled.programs) == (reason is None and function is not in_an_error)
    reset()
    if reason is None:
        return
    with pytest.raises(ag.func.CaptureError, match=reason):
        ag.func.capture(function)(ag.ones(2))
    assert mode.recorder() is None


def test_the_convention_of_complex_gradients_is_a_condition():
    compiled = ag.compile(autograd.grad(lambda z: ag.real(z * z)), check=False)
    for _ in range(3):
        for chosen, expected in (("autograd", 2 + 4j), ("pytorch", 2 - 4j)):
            autograd.set_complex_convention(chosen)
            assert compiled(1 + 2j) == expected
