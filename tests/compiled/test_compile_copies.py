"""Copies of compiled functions and of programs, and pickled ones: programs are captured, or compiled, anew."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import agrad as ag

W = ag.asarray([2.0, 3.0])


@ag.compile
def by_name(x):
    return ag.sin(x) * W


def plain(x):
    return ag.sin(x) * W


class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by


def pickled(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickled])
def test_a_compiled_function_of_a_module_is_its_name(how):
    by_name(ag.ones(2))
    assert how(by_name) is by_name
    assert how({"f": by_name})["f"] is by_name


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("function", [plain, ag.nn.functional.relu])
def test_a_copy_has_the_function_and_no_programs(how, function):
    compiled = ag.compile(function, check=False, exact=True)
    compiled.note = ["mine"]
    for _ in range(3):
        compiled(ag.ones(2))
    copied = how(compiled)
    assert copied is not compiled
    assert copied.function is function
    assert copied.__name__ == function.__name__
    assert copied.note == ["mine"]
    assert copied.programs == []
    for i in range(4):
        np.testing.assert_array_equal(copied(ag.ones(2) * i).numpy(), function(ag.ones(2) * i).numpy())
    compiled.clear()
    assert copied(ag.ones(2)).shape == (2,)


def test_a_function_that_holds_modules_is_copied_as_functions_are():
    assert copy.deepcopy(ag.compile(ag.cos)).function is ag.cos


@pytest.mark.parametrize("how", [copy.deepcopy, pickled])
def test_an_object_that_is_called_is_copied_with_it(how):
    scale = Scale(2.0)
    compiled = ag.compile(scale, check=False)
    for _ in range(3):
        compiled(ag.ones(2))
    copied = how(compiled)
    scale.by = 5.0
    for _ in range(3):
        assert compiled(ag.ones(2)).tolist() == [5.0, 5.0]
        assert copied(ag.ones(2)).tolist() == [2.0, 2.0]


def test_a_module_with_a_compiled_method_is_copied():
    net = ag.nn.Linear(2, 1)
    net.run = ag.compile(net.forward, check=False)
    for _ in range(3):
        net.run(ag.ones(2))
    other = copy.deepcopy(net)
    with ag.no_grad():
        other.weight.fill_(0.0)
    for _ in range(3):
        assert other.run(ag.ones(2)).tolist() == other.bias.tolist()
        np.testing.assert_array_equal(net.run(ag.ones(2)).detach().numpy(), net(ag.ones(2)).detach().numpy())


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickled])
def test_programs(how):
    program = ag.func.capture(plain)(ag.ones(2))
    expected = program(ag.ones(2)).tolist()
    copied = how(program)
    assert copied.text() == program.text()
    assert copied(ag.ones(2)).tolist() == expected


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickled])
def test_copies_of_programs_draw_from_the_default_generator(how):
    program = ag.func.capture(drawing)(ag.ones(2))
    copied = how(program)
    ag.manual_seed(1)
    expected = ag.rand(2).tolist()
    ag.manual_seed(1)
    assert copied(ag.ones(2)).tolist() == expected
    assert how(ag.random.default_generator) is ag.random.default_generator


def drawing(x):
    return x * ag.rand(2)
