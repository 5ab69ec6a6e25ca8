"""Functions that a solver calls often give what they give without a program."""

import numpy as np
import pytest

import agrad as ag
from agrad.compiled import adaptive
from agrad.compiled.adaptive import AdaptiveFunction


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Capture the third call."""
    monkeypatch.setattr(adaptive, "CALLS_BEFORE_CAPTURE", 2)


def called(function, *rows):
    """Give the programs that are kept after calls, each of which must give what the function gives."""
    made = AdaptiveFunction(function)
    for row in rows:
        tensors = [ag.asarray(x) for x in row]
        assert np.array_equal(np.asarray(made(*tensors)), np.asarray(function(*tensors)))
    return made._cached_programs


XS = [(np.array([0.1 * i, 1.0]),) for i in range(8)]


def test_a_program_runs_from_the_fourth_call_on():
    (kept,) = called(lambda x: ag.sin(x) * ag.sum(x), *XS)
    assert kept.calls == 1
    assert [step.op for step in kept.program.steps] == ["sin", "sum", "multiply"]


def test_branches_by_values_are_followed():
    def bent(x):
        return x * 2 if x[0] > 0.35 else x - 1

    assert len(called(bent, *XS, *XS)) == 2


def test_a_function_with_a_way_for_every_value_runs_as_it_is():
    assert called(lambda x: x * float(np.sin(float(x[0]))), *[(np.array([0.1 * i]),) for i in range(30)]) == []


def test_state_that_is_changed_is_changed_at_every_call():
    seen = []

    def counting(x):
        seen.append(1)
        return x * 2

    assert called(counting, *XS) == []
    assert len(seen) == 2 * len(XS)


def test_state_that_changes_counts():
    state = {"factor": 1.0}
    made = AdaptiveFunction(lambda x: x * state["factor"])
    x = ag.asarray([1.0, 2.0])
    for i in range(10):
        state["factor"] = float(i)
        assert made(x)[1] == 2.0 * i


def test_draws_and_the_clock_are_not_kept():
    ticks = iter(range(100))
    assert called(lambda x: x + ag.rand(2) * 0, *XS) == []
    made = AdaptiveFunction(lambda x: x + next(ticks))
    assert [float(made(ag.asarray(0.0))) for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
    assert made._cached_programs == []
    assert float(made(ag.asarray(0.0))) > 3  # and does not raise


def test_writes_happen_at_every_call():
    total = ag.zeros(2)

    def adding(x):
        total.add_(x)
        return x * 1

    made = AdaptiveFunction(adding)
    for row in XS:
        made(*map(ag.asarray, row))
    assert np.allclose(np.asarray(total), sum(row[0] for row in XS))


def test_an_error_is_the_functions_own():
    def failing(x):
        return ag.linalg.solve(ag.reshape(x, (1, 1)), ag.ones(1))

    made = AdaptiveFunction(failing)
    for _ in range(6):
        made(ag.asarray([2.0]))
    assert made._cached_programs
    with pytest.raises(np.linalg.LinAlgError):
        made(ag.asarray([0.0]))


def test_gradients_within_are_part_of_it():
    slope = ag.func.grad(lambda x: ag.sum(ag.exp(x) * x))
    (kept,) = called(slope, *XS)
    assert kept.program.steps


def test_within_a_recording_or_a_map_it_is_the_function():
    made = AdaptiveFunction(lambda x: ag.sin(x) * 2)
    x = ag.asarray([0.5, 1.0])
    program = ag.func.capture(lambda x: made(x) + made(x) + made(x) + made(x))(x)
    assert [step.op for step in program.steps].count("sin") == 4
    assert made._cached_programs == []
