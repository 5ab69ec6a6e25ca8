from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

import agrad as ag
from agrad import tree


class Point(NamedTuple):
    x: object
    y: object


@dataclass
class Layer:
    weight: object
    bias: object = None
    calls: list = field(default_factory=list, init=False)

    def __post_init__(self):
        self.calls.append("made")


@dataclass(frozen=True, slots=True)
class Frozen:
    scale: object


class Names(list):
    pass


# -- structure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("container", "leaves", "text", "paths"),
    [
        (7, [7], "*", [""]),
        (None, [], "None", []),
        ([], [], "[]", []),
        ((), [], "()", []),
        ({}, [], "{}", []),
        ((1,), [1], "(*,)", ["[0]"]),
        ([1, (2, [3])], [1, 2, 3], "[*, (*, [*])]", ["[0]", "[1][0]", "[1][1][0]"]),
        ({"b": 1, "a": 2}, [2, 1], "{'a': *, 'b': *}", ["['a']", "['b']"]),
        ({2: "x", "1": "y", 1: "z"}, ["z", "x", "y"], "{1: *, 2: *, '1': *}", ["[1]", "[2]", "['1']"]),
        ({"a": None, "b": [None, 1]}, [1], "{'a': None, 'b': [None, *]}", ["['b'][1]"]),
        (Point(1, [2]), [1, 2], "Point(x=*, y=[*])", [".x", ".y[0]"]),
        (Layer("w"), ["w", "made"], "Layer(weight=*, bias=None, calls=[*])", [".weight", ".calls[0]"]),
        ({"layers": [Frozen(5)]}, [5], "{'layers': [Frozen(scale=*)]}", ["['layers'][0].scale"]),
        (OrderedDict(b=1, a=2), [2, 1], "OrderedDict({'a': *, 'b': *})", ["['a']", "['b']"]),
        (Names([1]), [1], "Names([*])", ["[0]"]),
        (Layer, [Layer], "*", [""]),
    ],
)
def test_flatten_and_unflatten(container, leaves, text, paths):
    found, treedef = tree.flatten(container)
    assert found == leaves
    assert repr(treedef) == f"TreeDef({text})"
    assert treedef.paths() == paths
    assert treedef.num_leaves == len(leaves)
    again = tree.unflatten(treedef, found)
    assert again == container
    assert type(again) is type(container)


def test_a_tensor_is_a_leaf():
    x = ag.asarray([1.0, 2.0])
    leaves, treedef = tree.flatten({"x": x})
    assert leaves[0] is x
    assert treedef == tree.flatten({"x": 0})[1]


def test_dict_keeps_its_insertion_order():
    leaves, treedef = tree.flatten({"b": 1, "a": 2})
    assert list(tree.unflatten(treedef, leaves).items()) == [("b", 1), ("a", 2)]


def test_defaultdict_keeps_its_factory():
    leaves, treedef = tree.flatten(defaultdict(list, a=[1]))
    again = tree.unflatten(treedef, leaves)
    assert again["missing"] == []
    assert again["a"] == [1]


def test_dataclass_is_rebuilt_without_its_constructor():
    layer = Layer(1, 2)
    layer.calls.append("used")
    assert tree.map(lambda leaf: leaf, layer).calls == ["made", "used"]


def test_treedefs_compare_by_structure():
    def structure(container):
        return tree.flatten(container)[1]

    assert structure({"a": 1, "b": [2]}) == structure({"b": [3], "a": 4})
    assert hash(structure({"a": 1, "b": [2]})) == hash(structure({"b": [3], "a": 4}))
    assert structure([1]) != structure((1,))
    assert structure([1]) != structure([1, 2])
    assert structure({"a": 1}) != structure({"b": 1})
    assert structure(None) != structure(1)
    assert structure(Point(1, 2)) != structure((1, 2))
    with pytest.raises(AttributeError):
        structure([1]).kind = tuple


@pytest.mark.parametrize("count", [1, 3])
def test_unflatten_counts_leaves(count):
    treedef = tree.flatten([0, {"a": 0}])[1]
    with pytest.raises(ValueError, match=r"a structure of 2 leaves cannot be made of \d: TreeDef\(\[\*, {'a': \*}\]\)"):
        tree.unflatten(treedef, range(count))


def test_map():
    assert tree.map(lambda n: n * 10, {"b": [1, None], "a": Point(2, 3)}) == {"b": [10, None], "a": Point(20, 30)}
    assert tree.map(lambda *n: sum(n), [1, {"a": 2}], [10, {"a": 20}], [100, {"a": 200}]) == [111, {"a": 222}]


def test_map_matches_dicts_by_key():
    assert tree.map(lambda m, n: m - n, {"a": 5, "b": 7}, {"b": 1, "a": 2}) == {"a": 3, "b": 6}
    one, two = object(), object()  # Keys that cannot be sorted.
    assert tree.map(lambda m, n: m - n, {one: 5, two: 7}, {two: 1, one: 2}) == {one: 3, two: 6}


def test_map_hands_over_what_stands_in_the_place_of_a_leaf():
    state = {"w": (1, 2), "b": None}
    assert tree.map(lambda leaf, entry: (leaf, entry), {"w": 0, "b": 9}, state) == {"w": (0, (1, 2)), "b": (9, None)}


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"layers": [Frozen([1])]}, {"layers": [Frozen((1,))]}, "at ['layers'][0].scale there is a tuple, not a list"),
        ({"layers": [Frozen([1])]}, {"layers": [5]}, "at ['layers'][0] there is an int, not a Frozen"),
        ([1, 2], [1], "at the top there is a list of length 1, not 2"),
        ({"a": 1, "b": 2}, {"a": 1, "c": 2}, "at the top there is a dict that lacks 'b' and also has 'c'"),
        ([{"a": 1}], [{"a": 1, "b": 2}], "at [0] there is a dict that also has 'b'"),
        ([{"a": 1}], [{}], "at [0] there is a dict that lacks 'a'"),
        ({"a": None}, {"a": 1}, "at ['a'] there is an int, not None"),
        ({"a": [1]}, {"a": None}, "at ['a'] there is None, not a list"),
        (Point(1, 2), (1, 2), "at the top there is a tuple, not a Point"),
    ],
)
def test_map_says_where_structures_differ(first, second, message):
    with pytest.raises(ValueError) as caught:
        tree.map(lambda *_: None, first, first, second)
    assert str(caught.value) == "argument 3 of tree.map differs from the first: " + message


# -- ravel ------------------------------------------------------------------------------------------------------------


def parameters():
    return {
        "weight": ag.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype="float32"),
        "rest": [ag.asarray(7.0), None, ag.zeros((0, 2)), Point(ag.asarray([8.0]), 9.0)],
    }


def test_ravel_joins_and_unravel_restores():
    container = parameters()
    vector, unravel = tree.ravel(container)
    assert vector.shape == (9,)
    assert ag.isdtype(vector.dtype, ag.float64)
    assert vector.tolist() == [7.0, 8.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    again = unravel(vector * 2)
    leaves, treedef = tree.flatten(again)
    assert treedef == tree.flatten(container)[1]
    assert [leaf.tolist() for leaf in leaves] == [14.0, [], [16.0], 18.0, [[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]]
    assert [leaf.shape for leaf in leaves] == [(), (0, 2), (1,), (), (2, 3)]
    assert [ag.isdtype(leaf.dtype, ag.float32) for leaf in leaves] == [False, False, False, False, True]


def test_ravel_is_differentiable():
    a, b = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor([[3.0]], requires_grad=True)
    vector, _ = tree.ravel([a, b])
    (vector * ag.asarray([10.0, 20.0, 30.0])).sum().backward()
    assert a.grad.tolist() == [10.0, 20.0]
    assert b.grad.tolist() == [[30.0]]


def test_unravel_is_differentiable():
    start, unravel = tree.ravel({"a": ag.zeros((2,)), "b": ag.zeros((1, 1))})
    vector = (start + ag.asarray([1.0, 2.0, 3.0])).detach().requires_grad_()
    parts = unravel(vector)
    # d/dv of v0 v2 + v1 v2, at (1, 2, 3).
    (parts["a"] * parts["b"][0]).sum().backward()
    assert vector.grad.tolist() == [3.0, 3.0, 3.0]


def test_ravel_of_a_single_leaf_and_of_none():
    vector, unravel = tree.ravel(ag.asarray([[1.0], [2.0]]))
    assert vector.tolist() == [1.0, 2.0]
    assert unravel(vector).tolist() == [[1.0], [2.0]]
    vector, unravel = tree.ravel({"a": None})
    assert vector.shape == (0,)
    assert unravel(vector) == {"a": None}


@pytest.mark.parametrize("leaves", [[[1, 2], 3], [[True], [False, True]]])
def test_ravel_of_whole_numbers_and_of_truth_values(leaves):
    vector, unravel = tree.ravel([ag.asarray(leaf) for leaf in leaves])
    assert [leaf.tolist() for leaf in unravel(vector)] == leaves


def test_ravel_of_complex_beside_real():
    vector, unravel = tree.ravel([ag.asarray([1.0]), ag.asarray([2 + 3j])])
    assert vector.tolist() == [1 + 0j, 2 + 3j]
    real, complex_ = unravel(vector * (1 + 1j))
    assert real.tolist() == [1.0]
    assert complex_.tolist() == [-1 + 5j]


def test_unravel_takes_what_asarray_takes():
    _, unravel = tree.ravel({"a": ag.asarray([0.0, 0.0], dtype="float32")})
    part = unravel([1.5, 2.5])["a"]
    assert part.tolist() == [1.5, 2.5]
    assert ag.isdtype(part.dtype, ag.float32)


@pytest.mark.parametrize("shape", [(3,), (2, 1), ()])
def test_unravel_checks_the_shape(shape):
    _, unravel = tree.ravel([ag.zeros((2,))])
    with pytest.raises(ValueError, match=r"unravel takes a vector of shape \(2,\), got \("):
        unravel(ag.ones(shape))


def test_ravel_refuses_whole_beside_floating_point_numbers():
    with pytest.raises(TypeError, match=r"integer and floating-point leaves .*int64.* at \['step'\].* at \['weight'\]"):
        tree.ravel({"weight": ag.asarray([1.0]), "step": ag.asarray(3)})


@pytest.mark.parametrize("leaf", ["text", object()])
def test_ravel_names_a_leaf_that_is_no_array(leaf):
    with pytest.raises(TypeError, match=r"cannot ravel the (str|object) at \['layers'\]\[0\]\.scale"):
        tree.ravel({"layers": [Frozen(leaf)]})


def test_unravel_refuses_to_cut_off_fractions_and_imaginary_parts():
    _, unravel = tree.ravel([ag.asarray([1, 2])])
    with pytest.raises(TypeError, match=r"cannot unravel .*float64.* numbers into the .*int64.* leaf at \[0\]"):
        unravel(ag.asarray([1.5, 2.0]))
    _, unravel = tree.ravel({"a": ag.asarray([1.0, 2.0])})
    with pytest.raises(TypeError, match=r"cannot unravel .*complex128.* numbers into the .*float64.* leaf at \['a'\]"):
        unravel(ag.asarray([1j, 2.0]))


def test_minimize_with_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    start, unravel = tree.ravel({"x": ag.asarray(-1.2), "y": ag.asarray([1.5])})

    def value_and_gradient(vector):
        leaf = ag.asarray(vector).detach().requires_grad_()
        parts = unravel(leaf)
        loss = ((1 - parts["x"]) ** 2 + 100 * (parts["y"] - parts["x"] ** 2) ** 2).sum()
        loss.backward()
        return loss.item(), leaf.grad.numpy()

    result = optimize.minimize(value_and_gradient, start.numpy(), jac=True, method="BFGS")
    found = unravel(result.x)
    assert math.isclose(found["x"].item(), 1.0, abs_tol=1e-5)  # Rosenbrock's minimum is (1, 1).
    assert math.isclose(found["y"].item(), 1.0, abs_tol=1e-5)


def test_an_object_that_answers_everything_is_a_leaf():
    class Answers:
        def __getattr__(self, name):
            return ag.ones(2)

    answers = Answers()
    assert tree.flatten([answers])[0] == [answers]
