"""What a compiled function is given: the caller's own containers, and the programs that calls are told apart by."""

import collections
import dataclasses
import functools
import typing

import numpy as np
import pytest

import agrad as ag
from agrad.compiled import calling
from agrad.core.backend import BACKENDS, backend_of


@dataclasses.dataclass
class Config:
    """Has more than its fields."""

    x: object
    scale: float = 2.0

    def __post_init__(self):
        self.label = "own"


class Named(dict):
    """Has attributes."""


class Pair(typing.NamedTuple):
    """Has names."""

    x: object
    y: float


X = ag.tensor([1.0, 2.0])
CONTAINERS = {
    "list": lambda: [X, 1.0],
    "nested": lambda: [{"a": [X]}, (X * 2.0, None)],
    "dict": lambda: {"b": X, "a": 2.0},
    "ordered": lambda: collections.OrderedDict(b=X, a=1),
    "dict of its own": lambda: Named(x=X),
    "dataclass": lambda: Config(X),
    "namedtuple": lambda: Pair(X, 1.0),
    "empty": list,
}


@pytest.mark.filterwarnings("ignore::agrad.func.CompileWarning")
@pytest.mark.parametrize("options", [{}, {"pure": True}, {"check": False}])
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_function_gets_the_callers_own_containers(name, options):
    seen = []

    def function(container, *, other):
        seen.append((container, other))
        return X * 1.0

    compiled = ag.compile(function, **options)
    for _ in range(2):
        one, two = CONTAINERS[name](), CONTAINERS[name]()
        count = len(seen)
        compiled(one, other=two)
        for given in seen[count:]:  # none, if it was replayed
            assert given[0] is one
            assert given[1] is two
    assert seen


def test_containers_with_raw_arrays_are_copies_with_tensors():
    seen = []

    @ag.compile(pure=True)
    def function(container, other):
        seen.append((container, other))
        return container["x"] * 2.0

    container, other = {"x": np.ones(2), "y": 1.0}, [X]
    function(container, other)
    assert seen[0][0] is not container
    assert seen[0][1] is other
    assert isinstance(seen[0][0]["x"], ag.Tensor)
    assert isinstance(container["x"], np.ndarray)


def weighted(container):
    """Compute by the order of what is given."""
    values = container.values() if isinstance(container, dict) else container
    return sum((i + 1.0) * value for i, value in enumerate(values))


A, B = ag.tensor([1.0, 2.0]), ag.tensor([10.0, 20.0])


@pytest.mark.filterwarnings("ignore::agrad.func.CompileWarning")
@pytest.mark.parametrize("options", [{}, {"pure": True}])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": A, "b": B}, {"b": B, "a": A}),
        ({"a": A, "b": B}, collections.OrderedDict(b=B, a=A)),
        ([A, 2.0], [A, 3.0]),
        ([A, 0.0], [A, -0.0]),
        ([A, float("nan")], [A, 1.0]),
        ([A, 1.0], (A, 1.0)),
        ([A, 1], [A, True]),
        ([A, 1], [A, 1.0]),
    ],
    ids=["order", "order and class", "float", "zero", "nan", "class", "bool", "int"],
)
def test_calls_are_told_apart_by_what_containers_hold(one, other, options):
    def function(container):
        return weighted(container), type(container).__name__, [repr(v) for v in container if isinstance(v, float | int)]

    compiled = ag.compile(function, **options)
    for container in (one, other, one, other, one, other):
        found, expected = compiled(container), function(container)
        assert np.array_equal(found[0].numpy(), expected[0].numpy(), equal_nan=True)
        assert found[1:] == expected[1:]


def test_the_order_of_keywords_tells_calls_apart():
    def function(**layers):
        return weighted(layers)

    compiled = ag.compile(function, pure=True)
    for _ in range(3):
        assert compiled(a=A, b=B).tolist() == weighted({"a": A, "b": B}).tolist()
        assert compiled(b=B, a=A).tolist() == weighted({"b": B, "a": A}).tolist()
    assert len(compiled.programs) == 2


def test_leaves_and_results_of_operations_are_told_apart():
    def function(x):
        return x * (2.0 if x.is_leaf else 3.0)

    compiled, leaf = ag.compile(function, pure=True), ag.tensor([1.0], requires_grad=True)
    for _ in range(3):
        assert compiled(leaf).tolist() == [2.0]
        assert compiled(leaf * 1.0).tolist() == [3.0]


def test_a_parameter_and_a_tensor_are_told_apart():
    def function(x):
        return x * (2.0 if isinstance(x, ag.nn.Parameter) else 3.0)

    compiled = ag.compile(function, pure=True)
    for _ in range(3):
        assert compiled(ag.nn.Parameter(ag.tensor([1.0]))).tolist() == [2.0]
        assert compiled(ag.tensor([1.0], requires_grad=True)).tolist() == [3.0]


def test_an_object_among_the_arguments_is_found_by_identity():
    class Scale:
        def __init__(self, by):
            self.by = by

    def function(x, scale):
        return x * scale.by

    compiled, two, three = ag.compile(function, pure=True), Scale(2.0), Scale(3.0)
    for _ in range(3):
        assert compiled(X, two).tolist() == [2.0, 4.0]
        assert compiled(X, three).tolist() == [3.0, 6.0]


def test_numbers_of_numpy_are_arguments_whatever_was_asked_of_their_class(monkeypatch):
    monkeypatch.setitem(BACKENDS, np.float64, backend_of(np.ones(1)))
    compiled = ag.compile(lambda x: x * 2.0, check=False)
    for _ in range(3):
        for x in (np.float64(3.0), np.float64(4.0)):
            assert compiled(x) == 2.0 * x
    assert len(compiled.programs) == 2


def test_a_kernel_of_the_users_reads_what_it_reads_at_every_call():
    k = [2.0]

    def by(x):
        return k[0] * x

    @ag.elementwise(name="arguments_test.by_k", x=lambda x: 1.0, kernel=lambda xp, x: by(x))
    def by_k(x, /): ...

    compiled = ag.compile(lambda x: by_k(x) + 1.0, check=False)
    for k[0] in (2.0, 7.0, 2.0):
        for _ in range(3):
            assert compiled(X).tolist() == [k[0] + 1.0, 2 * k[0] + 1.0]
    assert len(compiled.programs) == 1
    constant = ag.asarray(1.5)
    compiled = ag.compile(lambda x: x + by_k(ag.asarray(1.5)) + by_k(constant), check=False)
    with pytest.warns(ag.func.CompileWarning, match="runs unseen"):  # of constants it would run but once
        compiled(X)
    for k[0] in (2.0, 7.0):
        for _ in range(3):
            assert compiled(X).tolist() == [1.0 + 3 * k[0], 2.0 + 3 * k[0]]


def test_a_placeholder_of_a_partial_is_an_argument_of_the_call(monkeypatch):
    mark = getattr(functools, "Placeholder", None)
    if mark is None:  # before Python 3.14
        mark = object()
        monkeypatch.setattr(calling, "PLACEHOLDER", mark)
    divided = functools.partial(lambda a, b, c: (a - c) / b, mark, 4.0)
    compiled = ag.compile(lambda x, y: divided(x, y), check=False)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X, X * 3.0).numpy(), [-0.5, -1.0])
    assert len(compiled.programs) == 1
    with pytest.raises(TypeError):
        ag.compile(lambda: divided())()
