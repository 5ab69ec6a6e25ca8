"""Replays that read, add to, clear and return gradients do what the functions do, whatever comes in between."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import agrad as ag


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def number_of(x):
    return None if x is None else x.detach().numpy().tolist() if isinstance(x, ag.Tensor) else x


def a_net():
    return ag.nn.Parameter(ag.asarray([1.0, -1.0])), ag.nn.Parameter(ag.asarray([0.5, 2.0]))


def clear_by_optimizer(optimizer, w):
    optimizer.zero_grad()


def clear_by_hand(optimizer, w):
    w.grad = None


def clear_by_del(optimizer, w):
    del w.grad


@pytest.mark.parametrize("clear", [clear_by_optimizer, clear_by_hand, clear_by_del])
def test_a_gradient_is_cleared_where_there_was_none_at_the_capture(clear):
    w, _ = a_net()
    optimizer = ag.optim.SGD([w], lr=0.1)

    @ag.compile(check=False)
    def loss(x):
        clear(optimizer, w)
        return ((w * x) ** 2).sum()

    for i in range(6):
        x = np.asarray([0.5, 2.0 + i])
        loss(ag.asarray(x)).backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy() * x * x)
    assert len(loss.programs) == 1


def test_the_gradient_of_an_argument_is_cleared():
    @ag.compile(check=False)
    def loss(x, w):
        w.grad = None
        return (w * x).sum()

    w, _ = a_net()
    for i in range(6):
        loss(ag.asarray([1.0, float(i)]), w).backward()
        np.testing.assert_array_equal(w.grad.numpy(), [1.0, i])
    assert len(loss.programs) == 1


def test_a_captured_program_clears_a_gradient_that_came_later():
    w, _ = a_net()

    def loss(x):
        w.grad = None
        return (w * x).sum()

    program = ag.func.capture(loss)(ag.ones(2))
    for i in range(3):
        program(ag.asarray([1.0, float(i)])).backward()
        np.testing.assert_array_equal(w.grad.numpy(), [1.0, i])


def accumulate(w, v, optimizer, x):
    ((w * x - 1) ** 2 + v * x).sum().backward()


def step(w, v, optimizer, x):
    optimizer.step()


def zero(w, v, optimizer, x):
    optimizer.zero_grad()


def zeros(w, v, optimizer, x):
    optimizer.zero_grad(set_to_none=False)


def read(w, v, optimizer, x):
    return sum(7.0 if p.grad is None else p.grad.sum() for p in (w, v))


def clear_one(w, v, optimizer, x):
    w.grad = None


def put_one(w, v, optimizer, x):
    w.grad = (x * 2).detach()


def add_to_one(w, v, optimizer, x):
    if v.grad is not None:
        v.grad.add_(1.0)


def str_of(doings):
    return "-".join(do.__name__ for do in doings)


DOINGS = (accumulate, step, zero, zeros, read, clear_one, put_one, add_to_one)
#: What the caller does after a call.
BETWEEN = ("nothing", "backward", "zero", "nothing", "backward")


def run(doings, shift, wrap):
    """Return what six calls give and leave, and whether the objects that were gradients before still are."""
    w, v = a_net()
    optimizer = ag.optim.SGD([w, v], lr=0.1, momentum=0.5)

    def function(x):
        more = 0.0
        for do in doings:
            found = do(w, v, optimizer, x)
            more = more if found is None else more + found
        return ((w * x) ** 2).sum() + more * v.sum()

    function = wrap(function)
    seen = []
    for i in range(8):
        before = w.grad, v.grad
        loss = function(ag.asarray([0.5 + 0.1 * i, 1.0 - 0.05 * i]))
        seen += [*map(number_of, (loss, w, v, w.grad, v.grad, *before)), before[0] is w.grad, before[1] is v.grad]
        between = BETWEEN[(i + shift) % len(BETWEEN)]
        if between == "backward":
            loss.backward()
        elif between == "zero":
            optimizer.zero_grad()
    return seen


@pytest.mark.parametrize("doings", list(itertools.product(DOINGS, repeat=2)), ids=str_of)
def test_gradients_are_read_added_to_and_cleared_in_any_order(doings):
    for shift in range(2):
        found = run(doings, shift, lambda f: ag.compile(f, check=False))
        for a, b in zip(found, run(doings, shift, lambda f: f), strict=True):
            assert (a is None) == (b is None)
            assert a is None or np.allclose(a, b, rtol=1e-12)


def test_gradients_are_accumulated_over_several_calls():
    def train(wrap):
        w, _ = a_net()
        optimizer = ag.optim.SGD([w], lr=0.1)

        def train_step(x, go):
            loss = (w * x).sum()
            loss.backward()
            if go:
                optimizer.step()
                optimizer.zero_grad()
            return loss.detach()

        train_step = wrap(train_step)
        return [train_step(ag.asarray([0.5, -1.0 - i]), i % 3 == 2).item() for i in range(12)]

    np.testing.assert_allclose(train(ag.compile), train(lambda f: f), rtol=1e-12)


def test_a_gradient_that_is_added_to_stays_the_tensor_that_it_is():
    w, _ = a_net()

    @ag.compile(check=False)
    def add(x):
        (w * x).sum().backward()

    add(ag.ones(2))
    held = w.grad
    for i in range(5):
        add(ag.ones(2))
        assert w.grad is held
        np.testing.assert_array_equal(held.numpy(), [i + 2.0] * 2)


def test_a_gradient_that_is_read_and_cleared_before_the_result_is_differentiated():
    w, _ = a_net()

    @ag.compile
    def f(x):
        y = x * w + (w.grad if w.grad is not None else 0.0)
        w.grad = None
        return y

    for _ in range(6):
        f(ag.ones(2)).sum().backward()
        np.testing.assert_array_equal(w.grad.numpy(), [1.0, 1.0])


def test_a_saved_program_adds_to_the_gradient(tmp_path):
    w, _ = a_net()
    w.grad = ag.asarray([10.0, 20.0])

    def add(x):
        (w * x).sum().backward()

    program = ag.func.capture(add)(ag.ones(2))
    ag.save(program, tmp_path / "program")
    loaded = ag.load(tmp_path / "program")
    for i in range(3):
        loaded(ag.ones(2))
        (own,) = loaded.tensors().values()
        np.testing.assert_array_equal(own.detach().numpy(), [1.0, -1.0])
        np.testing.assert_array_equal(own.grad.numpy(), [12.0 + i, 22.0 + i])


def test_a_captured_program_that_adds_to_a_gradient_says_that_there_is_none():
    w, _ = a_net()
    w.grad = ag.ones(2)
    program = ag.func.capture(lambda x: (w * x).sum().backward())(ag.ones(2))
    w.grad = None
    with pytest.raises(RuntimeError, match="captured while w had a gradient, and it has no gradient now"):
        program(ag.ones(2))


def test_a_gradient_that_is_returned_is_that_tensor():
    w, v = a_net()
    w.grad = ag.ones(2)

    def as_it_is(x):
        return x * 2, w.grad

    def added_to(x):
        (w * x).sum().backward()
        return w.grad

    def taken_away(x):
        held = w.grad
        w.grad = None
        return held * x, held

    def of_another(x):
        v.grad = w.grad
        return v.grad

    for function in (as_it_is, added_to, taken_away, of_another):
        compiled = ag.compile(function, check=False)
        for _ in range(5):
            w.grad = before = ag.asarray([1.0, 2.0])
            found = compiled(ag.asarray([3.0, 4.0]))
            assert (found[1] if isinstance(found, tuple) else found) is before
            np.testing.assert_array_equal(before.numpy(), [4.0, 6.0] if function is added_to else [1.0, 2.0])
            if function is of_another:
                assert v.grad is before
            elif function is not taken_away:
                assert w.grad is before
        assert len(compiled.programs) == 1


def test_a_tensor_from_outside_that_becomes_a_gradient_is_that_tensor():
    w, _ = a_net()
    outside = ag.asarray([5.0, 6.0])

    def put(x, other):
        w.grad = outside if other is None else other
        return x * 2

    compiled = ag.compile(put, check=False)
    for i in range(4):
        compiled(ag.ones(2), None)
        assert w.grad is outside
        other = ag.asarray([1.0, float(i)])
        compiled(ag.ones(2), other)
        assert w.grad is other
    assert len(compiled.programs) == 2


def test_a_history_from_before_the_call_is_followed_by_the_function_itself():
    """What leads to an argument is no part of what programs are found by: a pass through it is not replayed."""

    def grad_of(y, x):
        return ag.grad(y, x)[0]

    compiled = ag.compile(grad_of, check=False)
    functions = [lambda x: x * x, lambda x: x * x, lambda x: x * x * x, ag.exp, lambda x: x * x]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for function in functions:
            x = ag.tensor([1.0, -2.0], requires_grad=True)
            found = compiled(ag.sum(function(x)), x)
            np.testing.assert_array_equal(found.numpy(), grad_of(ag.sum(function(x)), x).numpy())
    assert len(said) == 1
    assert "what was computed before the call" in str(said[0].message)
    assert not compiled.programs
