"""Values that decide in compiled functions: a program stops at the first that is another, before what it guards runs."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest
from cupy_stand_in import fake

import agrad as ag
from agrad.program.program import STOP, Stopped

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)

#: How often the kernel of `counted` has run.
COUNTS = [0]


def _counting(xp, x):
    COUNTS[0] += 1
    return xp.multiply(x, 1.0)


@ag.elementwise(name="conditions_test.counted", x=1.0, kernel=_counting)
def counted(x, /): ...


def runs_of(function, *args):
    """Give what a call returns, and how often `counted` ran in it."""
    before = COUNTS[0]
    returned = function(*args)
    return returned, COUNTS[0] - before


# -- NumPy says nothing of the other way ------------------------------------------------------------------------------


def solved(m):
    if ag.linalg.det(m) == 0:
        return ag.zeros(m.shape)
    return ag.linalg.inv(m)


def logarithm(x):
    return ag.log(x) if ag.all(x > 0) else x * 0.0


def root_of_a_number(x):
    s = float(ag.sum(x))
    return ag.sqrt(x) * s if s > 0 else x


def found_at(x, i):
    at = int(i)
    return x[at] if at < x.shape[0] else ag.zeros(())


def steps_until(x):
    count = 0
    while x < 10.0:
        x, count = x * x, count + 1
    return x + count


#: Functions, and calls that go different ways, some of which would warn or fail on another one's.
CASES = {
    "determinant": (solved, [([[2.0, 1.0], [0.0, 1.0]],), ([[1.0, 1.0], [1.0, 1.0]],), ([[1.0, 0.0], [0.0, 4.0]],)]),
    "logarithm": (logarithm, [([1.0, 2.0],), ([-1.0, 2.0],), ([0.0, 1.0],), ([3.0, 1.0],)]),
    "number": (root_of_a_number, [([1.0, 2.0],), ([-1.0, -2.0],), ([4.0, 1.0],)]),
    "bounds": (found_at, [([1.0, 2.0, 3.0], 1), ([1.0, 2.0, 3.0], 7), ([1.0, 2.0, 3.0], 2)]),
    "loop": (steps_until, [(3.0,), (1.5,), (2.0,), (1e200,)]),
}


@pytest.mark.parametrize("name", CASES)
def test_no_warning_comes_of_a_way_that_is_not_taken(name):
    function, calls = CASES[name]
    compiled = ag.compile(function, pure=True)
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        for args in (*calls, *calls, *calls, *reversed(calls)):
            given = [np.asarray(arg, "f8" if isinstance(arg, list | float) else "i8") for arg in args]
            expected = function(*map(ag.asarray, given))
            np.testing.assert_allclose(compiled(*given), expected.numpy(), rtol=1e-12)


def test_a_way_that_fails_is_not_tried():
    def first_of(x, n):
        count = int(n)
        return ag.linalg.cholesky(x) if count else ag.sum(x)

    compiled = ag.compile(first_of)
    good, bad = np.eye(2), -np.eye(2)
    for _ in range(4):
        np.testing.assert_array_equal(compiled(good, np.asarray(1)), good)
        assert compiled(bad, np.asarray(0)) == -2.0
    with pytest.raises(Exception, match="cholesky"):  # its own
        compiled(bad, np.asarray(1))


# -- what runs --------------------------------------------------------------------------------------------------------


@BACKENDS
def test_no_step_behind_a_condition_that_fails_runs(backend, make, value):
    def chosen(x):
        return counted(x) if ag.sum(x) > 0 else x * 3.0

    compiled = ag.compile(chosen, pure=True, check="first")
    more, less = make([1.0, 2.0]), make([-1.0, -2.0])
    for x in (more, more, more, less, less, less):
        compiled(x)
    for x, expected, count in ((more, [1.0, 2.0], 1), (less, [-3.0, -6.0], 0), (more, [1.0, 2.0], 1)):
        (found, times) = runs_of(lambda x=x: value(compiled(x)))
        np.testing.assert_array_equal(found, expected)
        assert times == count
    assert len(compiled.programs) == 2


def test_a_program_stops_at_the_first():
    def chosen(x):
        if not ag.all(x > 0):
            return x * 0.0
        y = counted(x)
        if ag.sum(y) > 10.0:
            return y
        return counted(counted(y)) + 1.0

    compiled = ag.compile(chosen, pure=True, check="first")
    calls = [(np.asarray(x), count) for x, count in (([1.0, 2.0], 3), ([-1.0, 2.0], 0), ([9.0, 9.0], 1))]
    for _ in range(3):
        for x, _count in calls:
            compiled(x)
    (programs,) = compiled._cached.values()
    assert len(programs) == 3
    for x, count in calls:
        before, ends = COUNTS[0], []
        for kept in programs:
            with contextlib.suppress(Stopped):
                ends.append(runs_of(kept.run, [x])[1])
        assert ends == [count]
        # of the programs that stop, the two that have the first condition in common run one step, or none, before it
        assert COUNTS[0] - before - count == (0 if count == 0 else 1)


def test_writes_and_draws_of_a_run_that_stops_are_none():
    state = ag.zeros(2)

    def chosen(x):
        state.add_(x)
        noise = ag.random.randn(2)
        return noise * 2.0 if ag.sum(state) > 3.0 else noise

    def results_of(function):
        ag.manual_seed(3)
        state.mul_(0.0)
        for shift in (1.0, 1.0, -2.0, 0.5, 3.0, 0.0, 0.0, -3.0, 0.0, 2.0, -2.0):
            yield function(ag.full(2, shift)).numpy().tolist(), state.numpy().tolist()

    compiled = ag.compile(chosen)
    assert list(results_of(compiled)) == list(results_of(chosen))
    assert len(compiled.programs) == 2


def test_gradients_of_each_way():
    w = ag.tensor([0.5, 2.0], requires_grad=True)

    def energy(x):
        y = w * x
        return ag.sum(ag.log(y)) if ag.all(y > 0) else ag.sum(y**2)

    compiled = ag.compile(energy)
    for _ in range(4):
        for x in ([1.0, 2.0], [-1.0, 2.0], [3.0, -1.0]):
            gradients = []
            for function in (energy, compiled):
                w.grad = None
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    function(ag.asarray(x)).backward()
                gradients.append(w.grad.numpy())
            np.testing.assert_allclose(*gradients, rtol=1e-12)


@pytest.mark.parametrize("first", [lambda x, z: ag.sum(z - z[0]), lambda x, z: x[0] > 0])
def test_large_arrays_are_not_computed_ahead_in_tiles(first):
    n = 2**16

    def chosen(x):
        z = ag.exp(x) * 2.0 + 1.0
        if first(x, z):
            return ag.log(z) * counted(z) + 3.0
        return z * 2.0 + 4.0

    compiled = ag.compile(chosen, pure=True, check="first", threads=1)
    more, less = np.linspace(0.5, 1.0, n), np.full(n, -1.0)
    for x in (more, more, more, less, less, less):
        compiled(x)
    for x, count in ((more, 1), (less, 0)):
        found, times = runs_of(compiled, x)
        np.testing.assert_allclose(found, chosen(ag.asarray(x)).numpy(), rtol=1e-12)
        assert times == count


# -- what decides -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2.5, -0.0, 0.0, np.nan, np.inf, -np.inf, 3, 0, True, False, 1 + 2j, 1 + 0j])
@pytest.mark.parametrize("keep", [True, False])
def test_every_number_is_told_apart(value, keep):
    array = np.asarray(value)
    program = ag.func.capture(lambda x: x * 1)(array) if array.dtype != bool else ag.func.capture(lambda x: ~x)(array)
    (made,) = program.outputs if array.dtype != complex else program.inputs  # a product loses the sign of a zero
    expected = value if array.dtype != bool else not value
    stopping = program.stopping([(made, expected), (made, expected)])
    assert [step.outs for step in stopping.steps if step.op == STOP] == [()]
    run = stopping.runner(ag.asarray(array)._spec.backend, keep=keep)
    others = {
        "f": [2.5, -0.0, 0.0, np.nan, np.inf, -np.inf],
        "i": [0, 3, 7],
        "b": [False, True],
        "c": [1 + 2j, 1, 0, complex(1, -0.0)],
    }
    for other in others[array.dtype.kind]:
        given = np.asarray(other, array.dtype)
        for _ in range(3):
            if repr(given.item()) == repr(array.item()):
                run(given)
            else:
                with pytest.raises(Stopped):
                    run(given)


def test_a_float_is_a_condition_by_whether_it_is_true():
    compiled = ag.compile(lambda x: x * 2.0 if ag.sum(x) else x - 1.0)
    for x in (1.0, 2.0, 3.0, 0.0, -4.0, 0.0, np.nan, 5.0):
        np.testing.assert_array_equal(compiled(np.asarray([x])), [x * 2.0 if x else -1.0])
    assert len(compiled.programs) == 2


def test_floats_among_the_arguments_are_asked_before_the_program_runs():
    compiled = ag.compile(lambda x, k: ag.log(x) if k > 1.0 else x * k)
    x = -np.ones(2)
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        for k in (0.5, 0.5, 0.5, 0.25, 0.5, -0.0, 0.0, -0.0, np.inf, 0.5):
            found = compiled(x if k < 1.0 else -x, k)
            np.testing.assert_array_equal(found, x * k if k < 1.0 else [0.0, 0.0])
            assert np.signbit(found).tolist() == np.signbit(x * k if k < 1.0 else [0.0, 0.0]).tolist()
    (programs,) = compiled._cached.values()
    assert all(kept.conditions and kept.stopping is kept.program for kept in programs)


def test_programs_without_conditions_run_as_they_are():
    compiled = ag.compile(lambda x: x * 2.0)
    compiled(np.ones(2))
    kept = next(iter(compiled._cached.values()))[0]
    assert kept.stopping is kept.program


# -- on CuPy ----------------------------------------------------------------------------------------------------------


def test_kernels_of_cupy_end_where_a_value_decides():
    fake("""
        from agrad.program.program import STOP
        from agrad_cupy.fusion import fused
        def chosen(x):
            y = ag.exp(x) * 2.0
            if ag.max(y) > 4.0:
                return ag.tanh(y) * y + 1.0
            return y
        x = ag.asarray(cupy.asarray(np.asarray([1.0, 2.0])))
        compiled = ag.compile(chosen, pure=True)
        for _ in range(3):
            same(compiled(x), np.tanh(2 * np.exp([1.0, 2.0])) * 2 * np.exp([1.0, 2.0]) + 1.0)
        less = ag.asarray(cupy.asarray(np.asarray([-1.0, -2.0])))
        for _ in range(3):
            same(compiled(less), 2 * np.exp([-1.0, -2.0]))
        same(compiled(x), np.tanh(2 * np.exp([1.0, 2.0])) * 2 * np.exp([1.0, 2.0]) + 1.0)
        kept = next(each for entry in compiled._cached.values() for each in entry if len(each.program.steps) > 5)
        fewer, codes = fused(kept.stopping.without_detach())
        ops = [step.op for step in fewer.steps]
        at = ops.index(STOP)
        assert any(op in codes for op in ops[:at]) and any(op in codes for op in ops[at:]), ops
        before = {n for step in fewer.steps[:at] for n in step.made}
        assert before.isdisjoint(kept.program.outputs[:1])
    """)
