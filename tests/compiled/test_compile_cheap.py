"""What calls of compiled functions do quickly: results in containers, floats, conditions by value; and that they are the same."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import numpy as np
import pytest

import agrad as ag


class Pair(NamedTuple):
    first: object
    second: object


#: What functions may return of two tensors.
CONTAINERS = {
    "nothing": lambda x, y: None,
    "an empty tuple": lambda x, y: (),
    "a tuple of one": lambda x, y: (x * y,),
    "a dict in its order": lambda x, y: {"b": x * y, "a": (x + y, [x - y, None]), "c": {}},
    "quotes among the keys": lambda x, y: {"it's": x * y, 'a "b"\n': x},
    "keys that are no text": lambda x, y: {2: x * y, (1, 0): x},
    "an OrderedDict": lambda x, y: OrderedDict(b=x * y, a=y),
    "a defaultdict": lambda x, y: defaultdict(list, b=x * y),
    "a namedtuple in a list": lambda x, y: [Pair(x * y, {"z": x})],
    "plain values": lambda x, y: {"n": 3, "s": "text", "x": x * y, "f": 0.5},
    "one tensor twice": lambda x, y: [(z := x * y), {"again": z}],
}


def shown(value):
    """Give a result as text: classes, order and numbers."""
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, list(map(shown, value))
    return (type(value).__name__, value.tolist()) if hasattr(value, "tolist") else repr(value)


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("raw", [False, True])
def test_results_in_containers(name, raw):
    function = CONTAINERS[name]
    compiled = ag.compile(function, check=False)
    for scale in (1.0, 2.0, 3.0, 4.0):
        args = [np.asarray([1.0, 2.0]) * scale, np.asarray([3.0, -1.0])]
        tensors = list(map(ag.asarray, args))
        found, expected = compiled(*(args if raw else tensors)), function(*tensors)
        expected = ag.tree.map(lambda x: x.numpy() if isinstance(x, ag.Tensor) else x, expected) if raw else expected
        assert shown(found) == shown(expected)
    assert len(compiled.programs) == 1


def test_a_result_in_a_container_is_new_at_every_call():
    compiled = ag.compile(lambda x: {"a": [x * 2.0]}, check=False)
    results = [compiled(np.full(2, float(i))) for i in range(5)]
    for i, found in enumerate(results):
        np.testing.assert_array_equal(found["a"][0], [2.0 * i] * 2)
    assert len({id(found["a"]) for found in results}) == 5


def test_gradients_of_results_in_a_dict():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    compiled = ag.compile(lambda x: {"loss": ag.sum(x**2), "all": {"cube": x**3, "n": 1}})
    for _ in range(4):
        x.grad = None
        found = compiled(x)
        (found["loss"] + ag.sum(found["all"]["cube"])).backward()
        np.testing.assert_array_equal(x.grad.numpy(), [2.0 + 3.0, 4.0 + 12.0])


def test_floats_and_settings_are_doubles():
    compiled = ag.compile(lambda x, k: (x * k, k), check=False)
    x = ag.asarray(np.asarray([1, 2], "f4"))
    for k in (0.1, 3.0, -0.0, math.inf, 1e-320):
        found, given = compiled(x, k)
        expected = x * k
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
        assert type(given) is float
        assert repr(given) == repr(k)
    w = ag.nn.Parameter(ag.ones(2))
    optimizer = ag.optim.SGD([w], lr=0.5)

    @ag.compile
    def step():
        optimizer.zero_grad()
        ag.sum(w * w).backward()
        optimizer.step()

    expected = np.ones(2)
    for rate in (0.5, 0.25, 0.25, 1, 0.125, 2):  # an int is none of an integer's steps
        optimizer.param_groups[0]["lr"] = rate
        step()
        expected = expected - rate * 2 * expected
        np.testing.assert_array_equal(w.detach().numpy(), expected)


class Size(enum.IntEnum):
    THREE = 3


class Text(str):
    __slots__ = ()


class Odd:
    """Says that it is what it is compared with."""

    __hash__ = None

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


#: Values that are equal, or say so, and are told apart.
EQUAL = [
    (3, 3.0, Size.THREE, Odd()),
    (1, True, 1.0, np.float64(1.0)),
    (0.0, -0.0, 0, False),
    (0.5, np.float64(0.5), Odd()),
    ("text", Text("text"), b"text"),
    (b"ab", bytearray(b"ab")),
    (math.nan, 1.0),
    (math.inf, 1e308 * 10, -math.inf),
    (2**80, 2.0**80),
]


@pytest.mark.parametrize("values", EQUAL, ids=lambda values: repr(values[0]))
def test_equal_values_of_two_classes_are_told_apart(values):
    state = {"k": None}

    def kind(x):
        k = state["k"]
        return x * 1.0, f"{type(k).__name__} {k if type(k) in (int, float, str) else ''}"

    compiled = ag.compile(kind, check=False)
    for _ in range(2):
        for value in values:
            state["k"] = value
            x = ag.ones(2)
            assert compiled(x)[1] == kind(x)[1]


def test_an_equal_value_that_is_another_object_needs_no_other_program():
    state = {"n": 1000, "k": 0.1, "s": "a text"}
    compiled = ag.compile(lambda x: x * state["n"] * state["k"] + len(state["s"]), check=False)
    for _ in range(4):
        state.update(n=int("1000"), k=float("0.1"), s=f"a {'text'}"[:6])
        compiled(ag.ones(2))
    assert len(compiled.programs) == 1
