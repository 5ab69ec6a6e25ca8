"""What a capture looks at, and what calls of a compiled function ask for: each value once, and no data that was not read."""

from __future__ import annotations

import collections
import os
import site
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad.program import closures as origins

X = np.array([0.5, -1.0])


class Row:
    def __init__(self, number):
        self.number, self.value = number, ag.tensor([float(number), 1.0])


class Link:
    def __init__(self, n):
        self.weight, self.next = 0.5, Link(n - 1) if n else None


class Net(ag.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = ag.nn.Linear(2, 2), ag.nn.Linear(2, 2)

    def forward(self, x):
        return self.second(Twice.apply(self.first(x)))


class Twice(ag.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, g):
        return Twice.apply(g)


@pytest.fixture
def looked_into(monkeypatch):
    """How often each value was looked into; the values stay alive, so that no id is given again."""
    counts, kept, members = collections.Counter(), [], origins.members

    def counted(value, **options):
        counts[id(value)] += 1
        kept.append(value)
        return members(value, **options)

    monkeypatch.setattr(origins, "members", counted)
    return counts


def test_each_value_is_looked_into_once(looked_into):
    net = Net()
    rate = 0.1

    def step(x):
        net.zero_grad()
        loss = ag.sum(net(x) ** 2)
        loss.backward()
        with ag.no_grad():
            for p in net.parameters():
                p.sub_(rate * p.grad)
        return loss

    ag.func.capture(step)(ag.ones(3, 2))
    assert max(looked_into.values()) == 1


def conditions(compiled):
    """Give the names of what the one program of a function asks for at each call."""
    ((kept,),) = compiled._cached.values()
    return [link.name for link in kept.links]


def test_data_that_is_not_read_is_not_looked_into(looked_into):
    data = Row(0)
    data.rows = [Row(i) for i in range(1000)]
    ag.func.capture(lambda x: x * data.value)(X)
    assert 0 < sum(looked_into.values()) < 100


def test_plain_values_in_data_cost_nothing(looked_into):
    data = Row(0)
    table = {i: float(i) for i in range(100_000)}
    ag.func.capture(lambda x: x * data.value * len(table))(X)
    assert 0 < sum(looked_into.values()) < 20


def test_data_that_is_not_read_is_no_condition():
    data = Row(0)
    data.rows = [Row(i) for i in range(1000)]
    table = {i: float(i) for i in range(100_000)}
    compiled = ag.compile(lambda x: x * data.value * len(table))
    np.testing.assert_array_equal(compiled(X), X * [0.0, 100_000.0])
    found = conditions(compiled)
    assert "data" in found
    assert not [name for name in found if "rows" in name or "table[" in name]
    assert len(found) < 20


def test_each_condition_is_asked_once():
    net = Net()
    compiled = ag.compile(lambda x: net.second(net.first(x) + net.first(x)))
    compiled(ag.ones(3, 2))
    ((kept,),) = compiled._cached.values()
    places = [link.place for link in kept.links]
    assert len(places) == len(set(places)) > 10


def test_a_way_of_many_steps_is_gone_once(monkeypatch):
    names = []
    further = origins.one_further
    monkeypatch.setattr(origins, "one_further", lambda *args: names.append(args) or further(*args))
    last = head = Link(200)
    while last.next is not None:
        last = last.next
    last.value = ag.tensor([2.0, 3.0])

    def through(x):
        at = head
        while at.next is not None:
            at = at.next
        return x * at.value

    np.testing.assert_array_equal(ag.func.capture(through)(X)(X), X * [2.0, 3.0])
    assert 200 < len(names) < 10 * 200


def test_a_way_of_many_steps_is_a_condition_each():
    head = Link(200)

    def through(x):
        at = head
        while at is not None:
            x, at = x + at.weight, at.next
        return x

    compiled = ag.compile(through)
    np.testing.assert_array_equal(compiled(X), X + 0.5 * 201)
    assert 2 * 200 < len(conditions(compiled)) < 5 * 200
    head.next.next.weight = 1.5
    np.testing.assert_array_equal(compiled(X), X + 0.5 * 201 + 1)
    assert len(compiled.programs) == 2


def test_long_names_are_cut():
    head = Link(200)
    *_, found = origins.search([head], lambda value: isinstance(value, Link))
    name = str(found.origin)
    assert len(name) == origins.LONGEST
    assert name.startswith("next.next.")
    assert "..." in name
    assert name.endswith(".next.next")
    assert found.origin.find() is found.value


def test_tensors_in_data_are_found():
    rows = [Row(i) for i in range(200)]
    compiled = ag.compile(lambda x: x * rows[7].value)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), X * [7.0, 1.0])
    rows[7].value = ag.tensor([2.0, 3.0])
    np.testing.assert_array_equal(compiled(X), X * [2.0, 3.0])
    assert len(compiled.programs) == 1


def test_tensors_are_found_where_nothing_shows_that_they_were_read():
    data = Row(0)
    data.many = {i: ag.tensor([1.0, float(i)]) for i in range(200)}
    name = "ma"
    compiled = ag.compile(lambda x: x * getattr(data, name + "ny")[3])
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), X * [1.0, 3.0])
    assert len(compiled.programs) == 1


def test_an_argument_that_is_read_in_data_too_is_a_condition():
    rows = [ag.tensor([float(i), 1.0]) for i in range(200)]
    compiled = ag.compile(lambda x: x * rows[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            for i in (0, 3, 4):
                np.testing.assert_array_equal(compiled(rows[i]).numpy(), [0.0, 1.0])
            rows[0] = ag.tensor([5.0, 2.0])
            for i, expected in (0, [25.0, 4.0]), (3, [15.0, 2.0]), (4, [20.0, 2.0]):
                np.testing.assert_array_equal(compiled(rows[i]).numpy(), expected)
            rows[0] = ag.tensor([0.0, 1.0])
    assert len(compiled.programs) == 2


def test_an_argument_in_data_that_nothing_reads_is_an_argument():
    data = Row(0)
    data.rows = [ag.tensor([float(i), 1.0]) for i in range(200)]
    compiled = ag.compile(lambda x: x * data.value)
    for row in data.rows[:4]:
        np.testing.assert_array_equal(compiled(row).numpy(), row.numpy() * [0.0, 1.0])
    assert len(compiled.programs) == 1


@pytest.mark.parametrize("size", [1, 100])
def test_optimizers_in_containers_are_told(size):
    weights = [ag.tensor([1.0, 2.0], requires_grad=True) for _ in range(size)]
    optimizers = [ag.optim.SGD([w], lr=0.5) for w in weights]

    def step(x):
        optimizers[0].zero_grad()
        ag.sum(weights[0] * x).backward()
        optimizers[0].step()
        optimizers[0].param_groups[0]["lr"] *= 0.5

    compiled = ag.compile(step)
    with pytest.warns(ag.func.CompileWarning, match="lr is changed, 0.5 before and 0.25 after the call"):
        compiled(X)
    compiled(X)
    np.testing.assert_array_equal(weights[0].detach().numpy(), [1.0, 2.0] - X * 0.75)


@pytest.mark.parametrize("size", [0, 200])
def test_a_place_that_gets_another_tensor_is_not_replayed(size):
    held = dict.fromkeys(range(size)) | {"last": ag.zeros(2)}
    thing = Row(0)

    def keep(x):
        thing.value = x * 2.0
        return thing.value

    compiled = ag.compile(keep)
    with pytest.warns(ag.func.CompileWarning, match=r"value is changed: a program would not change it"):
        compiled(X)
    for i in range(1, 5):
        np.testing.assert_array_equal(compiled(X * i), X * i * 2)
        np.testing.assert_array_equal(thing.value.numpy(), X * i * 2)

    def keep_in_a_table(x):
        held["last"] = x * 2.0
        return held["last"]

    compiled = ag.compile(keep_in_a_table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(1, 7):
            np.testing.assert_array_equal(compiled(X * i), X * i * 2)


def test_a_gradient_that_is_another_one_is_a_write():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    w.grad = ag.tensor([9.0, 9.0])

    def step(x):
        w.grad = None
        ag.sum(w * x).backward()
        return w.grad

    compiled = ag.compile(step)
    for i in range(1, 6):
        np.testing.assert_array_equal(compiled(X * i), X * i)
        np.testing.assert_array_equal(w.grad.numpy(), X * i)
    assert len(compiled.programs) <= 2


def test_a_capture_that_uses_nothing_from_outside_looks_at_nothing(looked_into):
    net = Net()
    program = ag.func.capture(lambda x: ag.sum(x) if x.ndim else net(x))(X)
    assert program(X) == X.sum()
    assert not looked_into


def test_packages_of_the_system_and_of_the_user_are_installed_ones(monkeypatch, tmp_path):
    system, user = tmp_path / "dist-packages", tmp_path / "user" / "site-packages"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # which Windows has among the following
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path), str(system)])
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(user))
    installed = origins.packages.__wrapped__()
    for file in (system / "library" / "module.py", user / "module.py", *map(Path, (os.__file__, np.__file__))):
        assert str(file).startswith(installed)
    for file in (tmp_path / "program.py", tmp_path / "user" / "site-packages-of-mine" / "program.py"):
        assert not str(file).startswith(installed)
