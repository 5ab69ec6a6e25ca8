"""Numbers that a compiled function gives to Python: results where they are only returned, conditions where they may decide."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import agrad as ag
from agrad.compiled import calling
from agrad.compiled.tracing import Tracer

CompileWarning = ag.func.CompileWarning
LIMIT = 5.0


def returned(x):
    return float(ag.sum(x))


def named(x):
    value = float(ag.sum(x))
    y = x * 2.0
    return y, value


def in_containers(x):
    with ag.no_grad():
        return {"loss": float(ag.sum(x)), "rest": [ag.mean(x).item(), (float(ag.max(x).item() * 2.0),)]}


def count(x):
    right = ag.sum(x > 1.5).item()
    return ag.sum(x).item(), right


def count_of_one(x):
    return ag.sum(ag.reshape(x > 1.5, (1, -1)), axis=1).item()


def arithmetic(x):
    return x * (0.1 * ag.sum(x).item() + 1.0)


RATE = 0.1


def times_a_tensor(x):
    return x * float(ag.sum(x)) - float(ag.max(x)) / x


def of_two_numbers(x):
    return x + ag.sum(x).item() * float(ag.max(x)) + RATE


def added_up(x):
    total = ag.sum(x * 0.0).item()
    for row in x:
        total += float(row)
    return total


def helped(x):
    return [x * part for part in (float(ag.sum(x)) * ag.max(x).item(), 1.0)], scaled(x, 2.0)


def scaled(x, k):
    return x * float(ag.sum(x)) * k


def asked_twice(x):
    s = ag.sum(x).item()
    return x * float(s) + float(s), float(s)


def with_a_constant_of_that_value(x):
    return x * float(ag.max(x)) + x * 2.0 + x * 2.0 * float(x[0])


def changed(x):
    value = float(ag.sum(x))
    value += 1.0
    return value


def read_within(x):
    value = float(ag.sum(x))

    def inner():
        return value

    return value, inner() * 2.0


def by_another(x):
    return returned(x) * 2.0


def of_a_constant(x):
    return x * (2.0 * float(ag.sum(x)))


def negative(x):
    return x * -float(ag.sum(x))


def kept_in_a_list(x):
    parts = [float(ag.sum(x))]
    return x * parts[0]


def passed_on(x):
    return scaled(x, float(ag.sum(x)))


def power(x):
    return x ** float(ag.max(x))


def in_a_variable(x):
    value = (total := float(ag.sum(x)))
    return value, total * 2.0


RESULTS = (returned, lambda x: float(ag.sum(x)), named, in_containers, count, count_of_one, arithmetic)
RESULTS += (times_a_tensor, of_two_numbers, added_up, helped, asked_twice, with_a_constant_of_that_value)
RESULTS += (changed, read_within, by_another, of_a_constant, negative, kept_in_a_list, passed_on, power, in_a_variable)


def leaves(value):
    return [x.tolist() if isinstance(x, ag.Tensor) else x for x in ag.tree.flatten(value)[0]]


@pytest.mark.parametrize("function", RESULTS)
def test_numbers_that_are_only_returned_are_results(function):
    compiled = ag.compile(function)
    for i in range(12):
        x = ag.asarray(np.array([0.25, 1.0, 2.0]) + 0.1 * i)
        found, eager = leaves(compiled(x)), leaves(function(x))
        assert found == eager
        assert list(map(type, found)) == list(map(type, eager))
    assert len(compiled.programs) == 1


def decided(x):
    value = float(ag.sum(x))
    if value > LIMIT:
        return value, 1
    return value, 2


def used(x):
    value = float(ag.sum(x))
    return value, math.sqrt(value)


def counted(x):
    right = ag.sum(x > 1.5).item()
    return sum(1 for _ in range(right)), right


def sliced(x):
    right = ag.sum(x > 1.5).item()
    return x[:right], right


def given_on(x):
    return round(float(ag.sum(x)), 1)


def recursive(x, depth=1):
    if depth:
        value = recursive(x, 0)
        return value, math.floor(value)
    return float(ag.sum(x))


def asked_twice_and_used_once(x):
    s = ag.sum(x).item()
    return x * float(s) + ag.tensor([2.0 * float(s)])


def formatted(x):
    return x * 2.0, f"{float(ag.sum(x)):.3f}"


def of_a_root(x):
    return x * math.sqrt(float(ag.sum(x)))


def compared(x):
    return x * 2.0 if float(ag.sum(x)) > LIMIT else x


class Rated:
    """Users' own: what it does with the number at its left nobody sees."""

    def __init__(self, x):
        self.x = x

    def __rmul__(self, rate):
        return self.x * rate if rate < LIMIT else self.x + int(rate)


class Same:
    def __radd__(self, other):
        return other


def by_a_class(x):
    return float(ag.sum(x)) * Rated(x)


def given_back(x):
    total = float(ag.sum(x)) + Same()
    return x * total if total < LIMIT else x - total


CONDITIONS = (decided, used, counted, sliced, given_on, recursive, asked_twice_and_used_once, formatted)
CONDITIONS += (of_a_root, compared, by_a_class, given_back)


@pytest.mark.parametrize("function", CONDITIONS)
def test_numbers_that_may_be_used_are_conditions(function):
    compiled = ag.compile(function, check=False)
    for i in range(4):
        for _ in range(3):
            x = ag.asarray(np.array([0.25, 1.0, 2.0]) + 0.6 * i)
            assert leaves(compiled(x)) == leaves(function(x))
    assert len(compiled.programs) > 1


def test_an_update_by_a_rate_and_a_float_is_one_program():
    w = ag.tensor([0.5, -1.0], requires_grad=True)

    @ag.compile
    def step(x, lr):
        w.grad = None
        loss = ag.mean((x @ w) ** 2)
        loss.backward()
        with ag.no_grad():
            w.sub_(lr * float(loss.detach()) * w.grad)
        return float(loss.detach())

    rng = np.random.default_rng(0)
    for i in range(10):
        x, lr, before = rng.normal(size=(8, 2)), 0.1 / (i + 1), w.detach().numpy().copy()
        out = x @ before
        np.testing.assert_allclose(step(x, lr), np.mean(out**2), rtol=1e-12)
        expected = before - lr * np.mean(out**2) * x.T @ out / 4
        np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-12)
    assert len(step.programs) == 1


@pytest.mark.parametrize("made_of", [float, ag.tensor])
@pytest.mark.parametrize("first", [True, False])
def test_a_constant_of_the_same_value_stays_a_constant(made_of, first):
    def function(x, rate):
        rate = rate if isinstance(rate, float) else rate.item()
        parts = [x * rate, x * 0.5]
        return parts[0] + parts[1] if first else x * 0.5 + x * rate

    compiled = ag.compile(function, check=False)
    for rate in (0.5, 0.25, 2.0):
        np.testing.assert_array_equal(compiled(ag.ones(3), made_of(rate)), np.full(3, rate + 0.5))
    assert len(compiled.programs) == 1


def test_where_there_is_no_text_a_float_is_a_condition():
    names = {"ag": ag}
    exec("def function(x):\n    return float(ag.sum(x))", names)
    compiled = ag.compile(names["function"], pure=True, check=False)
    for i in range(3):
        assert compiled(ag.asarray([1.0, float(i)])) == 1.0 + i
    assert len(compiled.programs) > 1
    compiled = ag.compile(names["function"], check=False)
    with pytest.warns(ag.func.CompileWarning, match="function is called, and its source is not available"):
        assert compiled(ag.asarray([1.0, 0.0])) == 1.0
    for i in range(3):
        assert compiled(ag.asarray([1.0, float(i)])) == 1.0 + i
    assert not compiled.programs


def test_a_training_step_that_returns_numbers_is_one_program():
    w = ag.tensor([0.5, -1.0], requires_grad=True)
    optimizer = ag.optim.SGD([w], lr=0.1)

    @ag.compile
    def step(x, y):
        optimizer.zero_grad()
        out = x @ w
        loss = ag.mean((out - y) ** 2)
        loss.backward()
        optimizer.step()
        right = ag.sum((out > 0.0) == (y > 0.0)).item()
        return float(loss.detach()), loss.item(), right

    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.normal(size=(8, 2))
        before = w.detach().numpy().copy()
        out, y = x @ before, x @ [1.0, 2.0]
        loss, again, right = step(x, y)
        assert loss == again
        np.testing.assert_allclose(loss, np.mean((out - y) ** 2), rtol=1e-12)
        assert right == np.sum((out > 0.0) == (y > 0.0))
        assert type(right) is int
        np.testing.assert_allclose(w.detach().numpy(), before - 0.1 * x.T @ (out - y) / 4, rtol=1e-12)
    assert len(step.programs) == 1


def test_the_warning_of_many_ways_names_the_line():
    compiled = ag.compile(lambda x: x * math.sqrt(float(ag.sum(x))), check=False)
    for i in range(8):
        compiled(ag.asarray([float(i)]))
    with pytest.warns(CompileWarning, match=r"differ in a value that decides \(.*test_compile_numbers\.py:\d+\)"):
        compiled(ag.asarray([9.0]))


def test_a_number_that_is_a_parameter_of_an_operation_is_a_condition():
    """It is no operand: another one needs a program of its own, the same one is replayed, its derivative included."""
    leaky_relu = ag.nn.functional.leaky_relu
    step = ag.compile(lambda x, slope: leaky_relu(x, slope), check=False)
    for slope in (0.1, 0.1, 0.25, 0.1, 0.25):
        x = ag.tensor([0.5, -1.0, 3.0], requires_grad=True)
        y = step(x, slope)
        y.sum().backward()
        assert y.tolist() == [0.5, -slope, 3.0]
        assert x.grad.tolist() == [1.0, slope, 1.0]
    assert len(step.programs) == 2


def test_constants_are_added_by_pythons_own_sum():
    """From 3.12 on it compensates rounding: here a sum that always does so stands in its place."""
    tracker = calling.Tracker(Tracer())
    add = calling.SPECIAL[sum]

    def compensated(values, start):
        return math.fsum([start, *values])

    assert sum([0.1] * 10, start=0.0) in (1.0, 0.9999999999999999)
    assert add(tracker, compensated, ((0.1,) * 10,), {}) == 1.0
    assert add(tracker, compensated, ((1, 0.1, 0.1, 0.1), 2.5), {}) == math.fsum([2.5, 1, 0.1, 0.1, 0.1])
    assert add(tracker, compensated, ((),), {"start": 4}) == 4


def trained(**settings):
    """Return a parameter, its optimiser, and a compiled step of the gradient 1, which has run three times."""
    w = ag.nn.Parameter(ag.asarray([1.0, 2.0]))
    optimizer = ag.optim.SGD([w], **settings)

    @ag.compile(check=False)
    def train(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    for _ in range(3):
        train(ag.ones(2))
    return w, optimizer, train


def test_a_step_of_an_optimisers_class_that_is_replaced(monkeypatch):
    w, _, train = trained(lr=0.25)
    assert w.tolist() == [0.25, 1.25]  # 0.25 less each time
    monkeypatch.setattr(ag.optim.SGD, "step", lambda self: w.data.mul_(2.0))
    train(ag.ones(2))
    assert w.tolist() == [0.5, 2.5]


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_settings_of_numpys(momentum):
    w, optimizer, _ = trained(lr=np.float64(0.25), momentum=np.float64(momentum))
    steps = 3 + 2 * momentum + momentum**2  # of momentum m: 1, 1 + m, 1 + m + m**2
    assert w.tolist() == [1.0 - 0.25 * steps, 2.0 - 0.25 * steps]
    assert bool(optimizer.state[w].get("momentum_buffer") is not None) == bool(momentum)


def test_a_setting_that_is_a_number_of_the_program_leads_no_further():
    def step(x, rate):
        w = x.detach().clone().requires_grad_(True)
        optimizer = ag.optim.SGD([w], lr=rate)
        (w * w).sum().backward()
        optimizer.step()
        return w

    with pytest.warns(CompileWarning, match="returns a new leaf"):
        results = [ag.compile(step, check=False)(ag.ones(2), rate) for rate in (0.25, 0.5)]
    assert [result.tolist() for result in results] == [[0.5, 0.5], [0.0, 0.0]]  # x - rate * 2 x


def test_a_copy_notes_slots_in_a_class_and_changes_nothing():
    class Scale:
        factor = 2.0

        def __call__(self, x):
            return x * self.factor

    scale = Scale()
    f = ag.compile(lambda x: scale(x), check=False)
    for _ in range(2):
        f(ag.ones(2))
    copy.copy(scale)  # writes `Scale.__slotnames__`
    assert "__slotnames__" in vars(Scale)
    assert f(ag.ones(2)).tolist() == [2.0, 2.0]
    assert len(f.programs) == 1
