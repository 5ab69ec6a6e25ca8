"""What a compared call does, and what ``pure=True`` and ``effects="first"`` promise."""

import warnings

import numpy as np
import pytest

import agrad as ag
from agrad.func import CompileError, CompileWarning

X = ag.tensor([1.0, 2.0])


def changing(**options):
    """Give a function that reads state which nobody looks at, and that state."""
    state = [1.0]
    return ag.compile(lambda x: x * state[0], pure=True, **options), state


def test_a_difference_is_a_warning_and_the_function_runs_as_it_is():
    compiled, state = changing(check="first")
    assert compiled(X).tolist() == [1.0, 2.0]
    state[0] = 3.0
    with pytest.warns(CompileWarning, match=r"in its result, by up to 4 where the largest is 6") as told:
        assert compiled(X).tolist() == [3.0, 6.0]
    assert told[0].filename == __file__
    assert not compiled.programs
    for value in (4.0, 5.0, 6.0):
        state[0] = value
        assert compiled(X).tolist() == [value, 2 * value]
        assert compiled(np.ones(1)).tolist() == [value]
    compiled.clear()
    assert compiled(X).tolist() == [6.0, 12.0]
    assert len(compiled.programs) == 1


def test_a_difference_is_an_error_for_tests_and_as_one_program():
    for options in ({"check": "doubling"}, {"check": "first", "fullgraph": True}):
        compiled, state = changing(**options)
        compiled(X)
        state[0] = 3.0
        with pytest.raises(CompileError, match="by up to 4"):
            compiled(X)


def test_the_second_call_alone_is_compared():
    count = []

    def function(x):
        count.append(1)
        return x * 2.0

    compiled = ag.compile(function, pure=True, check="first")
    for _ in range(9):
        compiled(X)
    assert len(count) == 2


def test_a_pure_function_is_compared_whatever_is_asked():
    compiled, state = changing(check=False)
    compiled(X)
    state[0] = 3.0
    with pytest.warns(CompileWarning, match="differs"):
        compiled(X)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_what_is_far_apart_by_rounding_alone_is_no_difference(dtype):
    """The inverse of a matrix that is nearly singular answers its last bits by all of its digits."""
    matrix = np.vander(np.linspace(0.1, 0.2, 9)).astype(dtype)
    swap = [False]

    def function(x):
        back = ag.flip(x, axis=0) if swap[0] else x  # another order of the same elimination
        inverse = ag.linalg.inv(back)
        return ag.flip(inverse, axis=1) if swap[0] else inverse

    compiled = ag.compile(function, pure=True, check="first")
    first = compiled(ag.asarray(matrix)).numpy()
    swap[0] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = compiled(ag.asarray(matrix)).numpy()
    assert abs(second - first).max() > 1e-9 * abs(first).max()  # the floor of what is always taken for rounding
    assert len(compiled.programs) == 1


def test_a_small_difference_of_a_steady_function_is_one():
    """A sum answers a last bit by a last bit."""
    state = [0.0]
    compiled = ag.compile(lambda x: ag.sum(x) + state[0], pure=True, check="first")
    compiled(X)
    state[0] = 1e-6
    with pytest.warns(CompileWarning, match="by up to 1e-06"):
        compiled(X)


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda i, x: x * 1.0 if i else x, "which argument"),
        (lambda i, x: x[:1] if i else x + 0.0, r"of shape \(2,\), and float64 of shape \(1,\) without compiling"),
        (lambda i, x: x > (1.5 if i else 0.5), "in 1 of 2 elements"),
        (lambda i, x: [x] if i else (x,), "the structure"),
        (lambda i, x: (x, "b" if i else "a"), r"'b', and 'a' in the capture"),
        (lambda i, x: x / (0.0 if i else 1.0), "by up to inf"),
    ],
)
def test_a_difference_is_told_with_its_place_and_size(made, words):
    calls = []

    def function(x):
        calls.append(1)
        return made(len(calls) - 1, x)

    compiled = ag.compile(function, pure=True, check="first")
    compiled(X)
    with pytest.warns(CompileWarning, match=words):
        compiled(X)


def test_effects_of_a_compared_call_are_the_functions():
    weight, state = ag.tensor([1.0]), [1.0]

    @ag.compile(pure=True, check="first")
    def step(x):
        weight.add_(x[:1] * state[0])

    step(X)
    state[0] = 10.0
    with pytest.warns(CompileWarning, match="in the value it writes to weight.data"):
        step(X)
    step(X)
    assert weight.tolist() == [22.0]


def test_a_pure_function_takes_tensors_from_outside_as_inputs():
    weight = ag.tensor([3.0, 4.0], requires_grad=True)
    compiled = ag.compile(lambda x: ag.sum(x * weight), pure=True)
    for _ in range(3):
        weight.grad = None
        compiled(X).backward()
        assert weight.grad.tolist() == [1.0, 2.0]
        with ag.no_grad():
            weight.add_(1.0)
    assert compiled(X).item() == 20.0


def test_a_pure_function_without_text_is_compiled():
    names = {}
    exec("def function(x, by):\n    return x * by + 1.0", names)
    compiled = ag.compile(names["function"], pure=True)
    for by in (2.0, 3.0, 2.0, 3.0):
        assert compiled(X, by).tolist() == [by + 1.0, 2 * by + 1.0]
    assert len(compiled.programs) == 2


def test_a_value_decides_in_a_pure_function_too():
    compiled = ag.compile(lambda x: x * 2.0 if ag.sum(x) > 0 else -x, pure=True)
    for value in (X, -X, X, -X, X, -X):
        assert compiled(value).tolist() == (abs(value) * (2.0 if value[0] > 0 else 1.0)).tolist()


def test_what_is_not_known_is_refused():
    for options in ({"check": "always"}, {"effects": "all"}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
            ag.compile(lambda x: x, **options)


def test_a_compared_call_that_branches_otherwise_may_draw_otherwise():
    def drawn(x):
        if ag.rand(()) > 0.5:
            return x + ag.rand(2) + ag.rand(2)
        return x - ag.rand(2)

    compiled, results = ag.compile(drawn), {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (drawn, compiled):
            ag.manual_seed(0)
            results[function] = [function(X).tolist() for _ in range(12)]
    assert results[compiled] == results[drawn]
    assert len({value[0] > 1.0 for value in results[drawn]}) == len(compiled.programs) == 2
