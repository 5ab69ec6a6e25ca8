"""`CompiledFunction.record` on tensors without elements, and `CompiledFunction.compare`, which captures once more and compares the programs."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.compiled.compiling import CompiledFunction, CompileError
from agrad.func import CaptureError, ShapeDtype
from agrad.program.blank_recording import blank_tensor

RNG = np.random.default_rng(0)


def compiled(function, **options):
    return CompiledFunction(function, check=False, explain=False, exact=True, threads=1, **options)


def blank(*shape, dtype="float64"):
    return blank_tensor(ShapeDtype(shape, dtype))


def value_and_gradient(w, x):
    w = w.detach().requires_grad_()
    loss = ag.mean(ag.tanh(x @ w) ** 2)
    loss.backward()
    return loss.detach(), w.grad


def test_a_program_from_specs_is_found_and_runs_as_the_function_does():
    held = compiled(value_and_gradient)
    w = ag.tensor(RNG.normal(size=3))
    assert held.find((w, blank(10**12, 3)), {}) is None
    big = held.record((w, blank(10**12, 3)), {})
    assert big.program.shapes[big.program.inputs[1]].shape == (10**12, 3)
    kept = held.record((w, blank(5, 3)), {})
    assert held.find((w, blank(5, 3)), {}) is kept
    assert held.find((w, blank(5, 3, dtype="float32")), {}) is None
    held.compare(kept, (w, blank(5, 3)), {})
    x = RNG.normal(size=(5, 3))
    outs = kept.program.run(kept.backend, [w.numpy(), x], exact=True, threads=1)
    for found, expected in zip(outs, value_and_gradient(w, ag.tensor(x)), strict=True):
        np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x if ag.sum(x) > 0 else -x, "the function branches on a value"),
        (lambda x: x * ag.sum(x).item(), "a value is requested"),
        (lambda x: x * float(ag.max(x)), "a value is requested"),
        (lambda x: x[x > 0], "depends on values"),
        (lambda x: ag.reshape(x, (2, 5)), "the call raises ValueError: cannot reshape"),
        (lambda x: ag.asarray(x.numpy() * 2), "gives Python values"),
        (lambda x: x.add_(1.0), "it writes to"),
    ],
)
def test_what_asks_for_values_is_no_program(function, words):
    held = compiled(function)
    with pytest.raises(CaptureError, match=words):
        held.record((blank(4),), {})
    with pytest.raises(CaptureError, match=words):  # from now on
        held.find((blank(4),), {})


def test_a_value_that_decides_is_no_program_though_the_function_goes_on():
    def f(x):
        try:
            positive = bool(ag.all(x > 0))
        except Exception:  # noqa: BLE001 (that is the point)
            positive = True
        return x if positive else -x

    with pytest.raises(CaptureError, match="branches on a value"):
        compiled(f).record((blank(4),), {})


def test_what_is_around_stays_as_it_was():
    running = ag.tensor([1.0])
    ag.manual_seed(3)
    state = ag.get_rng_state()

    def f(x):
        running.add_(ag.mean(x))
        return x * ag.rand(4)

    with pytest.raises(CaptureError, match="it writes to"):
        compiled(f).record((blank(4),), {})
    assert running.item() == 1.0
    assert ag.get_rng_state() == state
    kept = compiled(lambda x: x * ag.rand(4)).record((blank(4),), {})
    assert len(kept.keys) == 1
    assert ag.get_rng_state() == state


def test_another_program_is_an_error():
    shown, one, two = np.array([1 / 3]), ag.tensor(2.0), ag.tensor(3.0)

    def unseen():  # NumPy reads its own settings: how many digits it shows
        return len(str(shown)) - len("[0.]")

    def constant(x):
        return x * unseen()

    def step(x):
        return ag.sin(x) if unseen() > 1 else ag.cos(x)

    def axis(x):
        return ag.sum(x, axis=unseen() - 2)

    def result(x):
        return (x + 1, x + 2)[unseen() - 2]

    def draws(x):
        return (ag.rand(2) * 2 + ag.rand(2)) * x if unseen() > 1 else (ag.rand(2) + ag.rand(2) * 2) * x

    def longer(x):
        return x + 1 if unseen() > 1 else x + 1 + 1

    def names(x):
        return x * one + two

    functions = (constant, step, axis, result, draws, longer)
    with np.printoptions(precision=2):
        captures = [(held := compiled(f), held.record((blank(2, 2),), {})) for f in (*functions, names)]
        for held, kept in captures:
            held.compare(kept, (blank(2, 2),), {})
    two = one  # the program takes what both names mean: it is right as it is
    for held, kept in captures[:-1]:
        with (
            np.printoptions(precision=1),
            pytest.raises(CompileError, match=r"differs from the function in .*\n.*something that no program sees"),
        ):
            held.compare(kept, (blank(2, 2),), {})
    held, kept = captures[-1]
    assert held.find((blank(2, 2),), {}) is kept
    held.compare(kept, (blank(2, 2),), {})
