"""Machine code that agrad chooses by itself: nobody can tell it from the text but by the time."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import agrad as ag
from agrad.program import executing

if not executing.may_choose_native():
    pytest.skip("there is no native executor here", allow_module_level=True)

from agrad_numpy import native

X = np.linspace(0.1, 1.0, 9)


@pytest.fixture(autouse=True)
def by_itself(monkeypatch):
    monkeypatch.setenv("AGRAD_EXECUTOR", "native")


def energy(x):
    return ag.sum(ag.log(x) * x + ag.tanh(x) / (1.0 + x))


def runner(compiled):
    """Return what runs the one program of a compiled function."""
    ((kept,),) = compiled._cached.values()
    return kept.runner


def is_native(compiled):
    return repr(runner(compiled)) == "<native, chosen>"


def bits(found):
    return [(np.asarray(one).tobytes(), np.shape(one), np.asarray(one).strides) for one in ag.tree.flatten(found)[0]]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("function", [energy, ag.func.value_and_grad(energy), ag.func.hessian(energy)])
def test_from_the_second_replay_on_with_the_bits_of_the_text(function, exact, monkeypatch):
    text = ag.compile(function, exact=exact)
    monkeypatch.setenv("AGRAD_EXECUTOR", "text")
    wanted = [bits(text(X * k)) for k in (1.0, 1.1, 1.2, 1.3)]
    monkeypatch.setenv("AGRAD_EXECUTOR", "native")
    compiled = ag.compile(function, exact=exact)
    was = []
    for k, one in zip((1.0, 1.1, 1.2, 1.3), wanted, strict=True):
        assert bits(compiled(X * k)) == one
        was.append(is_native(compiled))
    assert was == [False, False, True, True]
    assert not isinstance(runner(text), executing.AutomaticRun)


def test_gradients_by_backward():
    def loss(x):
        return ag.sum(ag.exp(-x * x) * ag.sin(x) + x * x)

    compiled = ag.compile(loss)
    for k in range(5):
        found = []
        for function in (loss, compiled):
            x = ag.tensor(X * (1.0 + k), requires_grad=True)
            y = function(x)
            y.backward()
            found.append((y.item(), x.grad.numpy().tobytes()))
        assert found[0] == found[1]
    assert is_native(compiled)
    ((kept,),) = compiled._cached.values()
    (one,) = [kept.backward.of(1, 1)]
    assert "<native, chosen>" in map(repr, vars(one.program)["_runs"].values())
    (block, *others) = compiled(ag.tensor(X, requires_grad=True)).grad_fn.saved  # what is kept is one block
    assert block.dtype == np.uint8
    assert all(array.dtype == X.dtype and array.shape == X.shape for array in others)


def test_backward_passes_of_calls_by_code_and_by_text():
    """Code keeps one block, and text separate arrays: each backward pass takes what its own call has kept."""

    def loss(x):
        y = ag.exp(-x * x)
        return ag.sum(y * ag.sin(x) + y.T @ x)

    x = np.linspace(-1.0, 1.0, 9).reshape(3, 3)
    ways = [x, x.T, 2 * x, np.asfortranarray(-x)]
    compiled = ag.compile(loss)
    for _ in range(4):
        given = [ag.from_numpy(way).requires_grad_() for way in ways]
        results = [compiled(leaf) for leaf in given]
        for result in reversed(results):
            result.backward()
        for leaf, way in zip(given, ways, strict=True):
            y = np.exp(-way * way)
            slope = -2 * way * y
            wanted = slope * np.sin(way) + y * np.cos(way) + slope * way.sum(1)[:, None] + y.sum(1)[:, None]
            np.testing.assert_allclose(leaf.grad.numpy(), wanted, rtol=1e-13, atol=1e-14)
    assert [result.grad_fn.layout is None for result in map(compiled, given)] == [False, True, False, True]


def told(function, x):
    """Return the floating-point warnings of a call."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = function(x)
    return bits(found), [(one.category, str(one.message)) for one in seen]


@pytest.mark.parametrize(
    "bad", [0.0, -1.0, np.nan, np.inf, 1e308, 1e-310], ids=["zero", "negative", "nan", "inf", "large", "tiny"]
)
@pytest.mark.parametrize("place", [0, 4, 8])
def test_warnings_are_those_of_the_text(bad, place, monkeypatch):
    def function(x):
        return ag.log(x) * x, x * x * x, 1.0 / x, ag.sqrt(x) - ag.where(x > 0, x, 0.5 / x)

    given = X.copy()
    given[place] = bad
    compiled, text = (ag.compile(function, check=False) for _ in range(2))
    for _ in range(3):
        compiled(X)
    assert is_native(compiled)
    found = told(compiled, given)
    monkeypatch.setenv("AGRAD_EXECUTOR", "text")
    for _ in range(2):
        text(X)
    assert found == told(text, given)
    with np.errstate(all="ignore"):
        assert told(compiled, given)[1] == []


def test_errors_at_floating_point_errors_are_raised():
    compiled = ag.compile(lambda x: ag.log(x) * x + x * 2.0)
    for _ in range(3):
        compiled(X)
    assert is_native(compiled)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        compiled(np.zeros(9))
    assert is_native(compiled)


def test_what_fails_raises_what_the_operations_raise():
    compiled = ag.compile(lambda a, b: ag.linalg.solve(a, b) * 2.0 + ag.sum(a) - b)
    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    for _ in range(3):
        compiled(a, b)
    assert is_native(compiled)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError):
            compiled(np.ones((2, 2)), b)
    assert is_native(compiled)


def test_other_layouts_are_the_texts():
    compiled = ag.compile(lambda x: ag.sum(x * x + x, axis=0) * 2.0 - x[0])
    x = np.random.default_rng(0).standard_normal((5, 6))
    for _ in range(3):
        compiled(x)
    assert is_native(compiled)
    wide = np.repeat(x, 2, axis=1)
    for other in (np.asfortranarray(x), wide[:, ::2], x[::-1]):
        assert bits(compiled(other)) == bits((other * other + other).sum(axis=0) * 2.0 - other[0])


def test_what_it_cannot_do_by_far_is_left(monkeypatch):
    monkeypatch.setattr(executing, "MISSES", 5)
    compiled = ag.compile(lambda x: x * x + ag.tanh(x) - 1.0 / x)
    for _ in range(3):
        compiled(X)
    with np.errstate(all="ignore"):
        for _ in range(5):
            assert is_native(compiled)
            compiled(np.zeros(9))
    assert "no machine code" in repr(runner(compiled))
    assert bits(compiled(X)) == bits(X * X + np.tanh(X) - 1.0 / X)


class TestWhatIsNotChosen:
    def why(self, function, *args, **options):
        compiled = ag.compile(function, **options)
        for _ in range(4):
            compiled(*args)
        return runner(compiled)

    def test_where_it_is_switched_off(self, monkeypatch):
        for value in ("text", None):
            monkeypatch.delenv("AGRAD_EXECUTOR") if value is None else monkeypatch.setenv("AGRAD_EXECUTOR", value)
            assert not isinstance(self.why(energy, X), executing.AutomaticRun)

    def test_large_arrays(self):
        assert "large" in repr(self.why(energy, np.linspace(0.1, 1.0, 20_000)))

    def test_a_few_steps(self):
        assert "soon done" in repr(self.why(lambda x: x * x + 1.0, X))

    def test_steps_without_a_kernel(self):
        assert "sort has no kernel" in repr(self.why(lambda x: ag.sort(x * x + 1.0) * 2.0 - x, X))

    def test_results_that_share_memory(self):
        for function in (
            lambda x: (x[1:], ag.tanh(x) * 2.0 + x * x),
            lambda x: (y := ag.tanh(x) * 2.0 + x * x, y[::-1]),
        ):
            assert "shares memory" in repr(self.why(function, ag.tensor(X)))
        assert "is a part" in repr(self.why(lambda x: (ag.tanh(x) * 2.0 + x * x)[::2], ag.tensor(X)))

    def test_where_another_executor_is_named(self):
        assert isinstance(self.why(energy, X, executor="native"), executing.ExecutorRun)

    def test_what_takes_long_to_make(self, monkeypatch):
        monkeypatch.setattr(executing, "AT_MOST", 0.01)
        monkeypatch.setattr(executing, "AT_ONCE", 0.01)
        assert "predicted to take" in repr(self.why(energy, X))

    def test_a_fault_of_the_executors_own_is_nobodys(self, monkeypatch):
        def broken(*_, **__):
            raise MemoryError("no room")

        monkeypatch.setattr(native.NativeExecutor, "unasked", lambda *_, **__: (0.0, broken))
        run = self.why(energy, X)
        assert "MemoryError: no room" in repr(run)


def test_a_thread_makes_what_takes_longer(monkeypatch):
    monkeypatch.setattr(executing, "AT_ONCE", 0.0)
    compiled = ag.compile(ag.func.value_and_grad(energy))
    wanted = bits(ag.func.value_and_grad(energy)(X))
    before = threading.active_count()
    for _ in range(3):
        assert bits(compiled(X)) == wanted
    for thread in threading.enumerate():
        if thread.name == "agrad compiles":
            thread.join(120.0)
    assert threading.active_count() == before
    assert is_native(compiled)
    assert bits(compiled(X)) == wanted


def test_draws_and_branches():
    def f(x):
        y = x * ag.rand(9) + ag.randn(9) * ag.tanh(x)
        return ag.sum(y * y) if ag.sum(x) > 0 else ag.sum(-y)

    compiled = ag.compile(f, exact=True)
    found = []
    for function in (compiled, f):
        ag.manual_seed(7)
        found.append([float(function(ag.tensor(X * sign))) for sign in (1.0, -1.0) * 5])
    assert found[0] == found[1]
    assert [repr(kept.runner) for (entry,) in [compiled._cached.values()] for kept in entry] == ["<native, chosen>"] * 2


def test_interrupted_while_it_is_made(monkeypatch):
    """The call has done nothing, and the next ones go as before."""
    compiled = ag.compile(energy)
    wanted = bits(energy(ag.tensor(X)))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    for _ in range(2):
        compiled(X)
    with monkeypatch.context() as patch:
        patch.setattr(native.NativeExecutor, "unasked", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compiled(X)
    for _ in range(3):
        assert bits(compiled(X)) == wanted
