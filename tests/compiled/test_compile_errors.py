"""Errors where another way would have been gone: a replay that raises gives way to the function, which decides."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import agrad as ag


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def inverse(x):
    if ag.linalg.det(x) == 0:
        return x * 0
    return ag.linalg.inv(x)


def definite(x):
    if (ag.linalg.eigvalsh(x) <= 0).any():
        x = x + 10 * ag.eye(2)
    return ag.linalg.cholesky(x)


def jitter(x):
    for more in (0.0, 10.0):
        try:
            return ag.linalg.cholesky(x + more * ag.eye(2))
        except np.linalg.LinAlgError:
            pass
    return x


def bounded(x):
    k = ag.astype(x[0, 0], ag.int64)
    return x[0] if k >= 2 else x[k]


CASES = {inverse: ag.zeros((2, 2)), definite: -ag.eye(2), jitter: -ag.eye(2), bounded: ag.eye(2) * 7}


@pytest.mark.filterwarnings("ignore:jitter runs uncompiled")
@pytest.mark.parametrize("check", [False, "doubling"])
@pytest.mark.parametrize("function", CASES)
def test_a_way_that_fails_is_left_for_the_other(function, check):
    compiled = ag.compile(function, check=check)
    for i in range(12):
        x = CASES[function] if i % 3 == 2 else ag.eye(2) * (1 + i % 2)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "jitter runs uncompiled")
            found = compiled(x)
        np.testing.assert_array_equal(found.numpy(), function(x).numpy())
    assert compiled.programs


def test_a_function_that_goes_on_after_an_error_is_no_program():
    compiled = ag.compile(jitter, check=False)
    with pytest.warns(ag.func.CompileWarning, match="the function goes on after an error, LinAlgError"):
        compiled(-ag.eye(2))
    assert not compiled.programs
    for x in (ag.eye(2), -ag.eye(2)) * 2:
        np.testing.assert_array_equal(compiled(x).numpy(), jitter(x).numpy())


def test_an_error_of_both_is_the_functions_own():
    compiled = ag.compile(lambda x: ag.linalg.inv(x) if ag.sum(x) >= 0 else x, check=False)
    compiled(ag.eye(2))
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError):
            compiled(ag.zeros((2, 2)))
    np.testing.assert_array_equal(compiled(ag.eye(2) * 2).numpy(), np.eye(2) / 2)


def test_draws_and_counts_of_a_way_that_fails_are_taken_back():
    def train(wrap):
        ag.manual_seed(3)
        w = ag.nn.Parameter(ag.eye(2))
        optimizer = ag.optim.Adam([w], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            try:
                loss = ag.linalg.cholesky(x * ag.rand(1)).sum() * w.sum()
            except np.linalg.LinAlgError:
                loss = (w * ag.rand(2)).sum()
            loss.backward()
            optimizer.step()
            return loss.item()

        run = wrap(step)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "step runs uncompiled")
            losses = [run(-ag.eye(2) if i % 4 == 3 else ag.eye(2)) for i in range(10)]
        return losses, w.detach().numpy(), ag.random.default_generator.get_state()

    for found, expected in zip(train(lambda f: ag.compile(f, check=False)), train(lambda f: f), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_happens_at_floating_point_errors_is_no_part_of_a_program():
    def caught(x):
        try:
            with np.errstate(all="raise"):
                return 1 / x
        except FloatingPointError:
            return x * 0 + 7

    compiled = ag.compile(caught, check=False)
    with pytest.warns(ag.func.CompileWarning, match="sets what happens at floating-point errors"):
        compiled(ag.ones(2))
    for x in (ag.ones(2), ag.zeros(2)) * 3:
        np.testing.assert_array_equal(compiled(x).numpy(), caught(x).numpy())


def test_a_state_around_the_call_and_passes_within_it_are_no_reason():
    w = ag.ones(2, requires_grad=True)

    def f(x):
        y = ag.log(w * x).sum()
        (g,) = ag.autograd.grad(y, w, create_graph=True)
        return g.sum() + ag.func.jvp(ag.exp, (x,), (x,))[1].sum()

    compiled = ag.compile(f, check=False)
    with np.errstate(all="ignore"):
        for _ in range(3):
            assert compiled(ag.ones(2)).item() == f(ag.ones(2)).item()
    assert len(compiled.programs) == 1


def test_an_error_that_is_held_keeps_nothing_of_the_capture():
    """NumPy resizes no array to which a weak reference leads, and a traceback keeps what its frames hold."""
    array = np.array([2.0, 3.0])

    @ag.compile
    def f(x, pair):
        y = x * float(pair[0] @ pair[0])
        if y.sum() > 3.0:
            raise ValueError("large")
        return y

    with pytest.raises(ValueError, match="large") as held:
        f(ag.ones(2), (array, 1.0))
    array.resize(3, refcheck=False)
    assert array.tolist() == [2.0, 3.0, 0.0]
    assert held.value.__traceback__ is not None


class Place:
    """A place in an array, as a user's class that Python takes for an index."""

    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


def test_an_index_of_another_class_is_named():
    @ag.compile
    def picked(x, place):
        return x[place] * 2

    x = ag.asarray([1.0, 2.0, 3.0])
    with pytest.warns(
        ag.func.CompileWarning, match="argument .* of getitem is of type Place, which no program can hold"
    ):
        found = [picked(x, Place(n)).item() for n in (0, 0, 0, 1, 2, 1)]
    assert found == [2.0, 2.0, 2.0, 4.0, 6.0, 4.0]
