"""Grad modes: what they switch, how they nest, and that they stay where they were entered."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import tracemalloc

import pytest

import agrad as ag


def on():
    """Whether recording is on, asked of an operation and of the mode itself."""
    x = ag.tensor(1.0, requires_grad=True)
    recorded = (x * 2).requires_grad
    assert ag.is_grad_enabled() is recorded
    return recorded


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    assert on()
    yield
    assert on()
    assert not ag.is_inference_mode_enabled()


# -- contexts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (lambda: ag.no_grad(), False),
        (lambda: ag.no_grad, False),
        (lambda: ag.enable_grad(), True),
        (lambda: ag.enable_grad, True),
        (lambda: ag.set_grad_enabled(False), False),
        (lambda: ag.set_grad_enabled(True), True),
        (lambda: ag.inference_mode(), False),
        (lambda: ag.inference_mode(True), False),
        (lambda: ag.inference_mode(False), True),
        (lambda: ag.autograd.no_grad(), False),
    ],
)
def test_contexts(context, expected):
    with context():
        assert on() is expected
    assert on()


def test_contexts_nest():
    with ag.no_grad():
        assert not on()
        with ag.enable_grad():
            assert on()
            with ag.no_grad():
                assert not on()
                with ag.no_grad():
                    assert not on()
                assert not on()
            assert on()
        assert not on()


def test_one_object_may_be_entered_again():
    mode = ag.no_grad()
    with mode, mode:
        assert not on()
        with ag.enable_grad(), mode:
            assert not on()
    assert on()
    with mode:
        assert not on()
    with ag.no_grad, ag.no_grad:
        assert not on()


def test_contexts_are_left_by_exceptions():
    with pytest.raises(KeyError), ag.no_grad(), ag.enable_grad(), ag.no_grad():
        raise KeyError
    assert on()
    with pytest.raises(KeyError), ag.set_grad_enabled(False):
        raise KeyError
    assert on()


def test_inference_mode():
    with ag.inference_mode():
        assert ag.is_inference_mode_enabled()
        x = ag.ones(2) * 3
        with ag.enable_grad():
            assert ag.is_inference_mode_enabled()
        with ag.inference_mode(False):
            assert not ag.is_inference_mode_enabled()
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    (w * x).sum().backward()  # unlike PyTorch's, its tensors are ordinary ones
    assert w.grad.tolist() == [3.0, 3.0]


def test_repr_names_the_mode():
    assert repr(ag.no_grad) == "agrad.no_grad"
    assert repr(ag.enable_grad()) == "agrad.enable_grad"


# -- set_grad_enabled -------------------------------------------------------------------------------------------------


def test_set_grad_enabled_acts_at_once():
    ag.set_grad_enabled(False)
    assert not on()
    ag.set_grad_enabled(True)
    assert on()


def test_set_grad_enabled_inside_a_context_ends_with_it():
    with ag.no_grad():
        ag.set_grad_enabled(True)
        assert on()
        ag.set_grad_enabled(False)
        ag.set_grad_enabled(True)
    assert on()
    with ag.enable_grad():
        ag.set_grad_enabled(False)
        assert not on()
    assert on()


def test_set_grad_enabled_made_before_it_is_entered():
    mode = ag.set_grad_enabled(False)
    ag.set_grad_enabled(True)
    with mode:
        assert not on()
    assert on()
    with mode:
        assert not on()
    assert on()


def test_set_grad_enabled_as_decorator_undoes_its_immediate_effect():
    @ag.set_grad_enabled(False)
    def function():
        return on()

    assert on()
    assert function() is False
    assert on()


@pytest.mark.parametrize("value", [1, 0, None, "no"])
def test_set_grad_enabled_takes_a_bool(value):
    with pytest.raises(TypeError, match="set_grad_enabled\\(\\) takes a bool"):
        ag.set_grad_enabled(value)
    assert on()


def test_set_grad_enabled_in_a_loop_keeps_no_memory():
    def loop(count):
        for i in range(count):
            ag.set_grad_enabled(bool(i % 2))
        with ag.no_grad():
            for i in range(count):
                ag.set_grad_enabled(bool(i % 2))

    loop(1000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        loop(50_000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        ag.set_grad_enabled(True)
    assert grown < 10_000


# -- decorators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "decorator", [ag.no_grad, ag.no_grad(), ag.inference_mode, ag.inference_mode()], ids=["bare", "called"] * 2
)
def test_decorated_function(decorator):
    @decorator
    def function(a, *, b=2):
        """Its docstring."""
        assert not on()
        return a + b

    assert function(1, b=5) == 6
    assert on()
    assert function.__name__ == "function"
    assert function.__doc__ == "Its docstring."


def test_decorated_function_that_raises():
    @ag.no_grad
    def function():
        raise KeyError("boom")

    with pytest.raises(KeyError, match="boom"):
        function()
    assert on()


def test_decorated_recursion_and_nesting():
    @ag.no_grad
    def outer(n):
        states.append(on())
        inner()
        states.append(on())
        if n:
            outer(n - 1)
        states.append(on())

    @ag.enable_grad
    def inner():
        states.append(on())

    states = []
    outer(1)
    assert states == [False, True, False, False, True, False, False, False]


def test_decorated_method():
    class Model:
        @ag.no_grad()
        def evaluate(self):
            return on()

    assert Model().evaluate() is False


def test_decorating_a_class_is_refused():
    with pytest.raises(TypeError, match="decorates functions, not classes"):

        @ag.no_grad
        class Model:
            pass


@pytest.mark.parametrize("as_decorator", [False, True])
def test_a_choice_nests_and_decorates(as_decorator):
    generator = ag.random.Generator(7)
    using = ag.random.using(generator)
    expected = [ag.rand(2, generator=g).tolist() for g in [ag.random.Generator(7)] for _ in range(4)]

    def draw(depth=3):
        found = [ag.rand(2).tolist()]
        return found + (again(depth - 1) if depth else [])

    def within(depth=3):
        with using:
            return draw(depth)

    again = using(draw) if as_decorator else within
    assert again() == expected
    assert ag.rand(2).tolist() != ag.rand(2, generator=ag.random.Generator(7)).tolist()
    assert ag.use_backend("numpy")(lambda: ag.zeros(2).device)() == "numpy"


# -- generators -------------------------------------------------------------------------------------------------------


def test_decorated_generator_is_under_the_mode_only_while_it_runs():
    @ag.no_grad
    def generator():
        for _ in range(3):
            states.append(on())
            yield
        states.append(on())

    states, outside = [], []
    for _ in generator():
        outside += [on()]
    assert states == [False] * 4
    assert outside == [True] * 3


def test_decorated_generator_takes_send_throw_and_return():
    @ag.no_grad()
    def generator():
        got = []
        while True:
            try:
                assert not on()
                got.append((yield len(got)))
            except KeyError as error:
                assert not on()
                got.append(error.args[0])
            if len(got) == 3:
                return got

    g = generator()
    assert next(g) == 0
    assert g.send("a") == 1
    assert on()
    assert g.throw(KeyError("b")) == 2
    assert on()
    with pytest.raises(StopIteration) as stop:
        g.send("c")
    assert stop.value.value == ["a", "b", "c"]
    assert on()


def test_decorated_generator_that_is_closed_or_raises():
    @ag.no_grad
    def closing():
        try:
            yield
        finally:
            states.append(on())

    @ag.no_grad
    def raising():
        yield
        raise KeyError("boom")

    states = []
    g = closing()
    next(g)
    g.close()
    assert states == [False]
    g = raising()
    next(g)
    with pytest.raises(KeyError, match="boom"):
        next(g)
    assert on()


def test_generator_with_blocks_of_its_own_inside_a_decorated_one():
    @ag.no_grad
    def generator():
        with ag.enable_grad():
            states.append(on())
            yield
            states.append(on())
        states.append(on())
        with ag.no_grad():
            yield
        states.append(on())

    states = []
    for _ in generator():
        assert on()
    assert states == [True, True, False, False]


@pytest.mark.parametrize("outside", [ag.no_grad, ag.enable_grad, lambda: ag.set_grad_enabled(False)])
@pytest.mark.parametrize("within", [ag.no_grad, ag.enable_grad])
def test_a_generator_suspended_in_a_block_does_not_change_what_follows(outside, within):
    def generator():
        with within():
            yield

    g = generator()
    with outside():
        next(g)
    assert on()  # the block we have left is left, whatever was suspended in it
    g.close()
    assert on()


def test_a_generator_suspended_in_two_blocks_is_resumed_in_both():
    @ag.no_grad()
    def generator():
        with ag.enable_grad():
            with ag.no_grad():
                yield ag.is_grad_enabled()
                yield ag.is_grad_enabled()
            yield ag.is_grad_enabled()
        yield ag.is_grad_enabled()

    assert list(generator()) == [False, False, True, False]


def test_generators_interleaved():
    def generator(mode):
        with mode():
            yield on()
            yield on()

    a, b = generator(ag.no_grad), generator(ag.no_grad)
    next(a)
    next(b)
    a.close()
    b.close()
    assert on()


# -- coroutines -------------------------------------------------------------------------------------------------------


async def pause():
    await asyncio.sleep(0)


def test_decorated_coroutine_is_under_the_mode_only_while_it_runs():
    @ag.no_grad
    async def worker():
        for _ in range(3):
            states.append(on())
            await pause()
        return on()

    async def main():
        task = asyncio.ensure_future(worker())
        for _ in range(3):
            await pause()
            outside.append(on())
        return await task

    states, outside = [], []
    assert asyncio.run(main()) is False
    assert states == [False] * 3
    assert outside == [True] * 3


def test_awaiting_a_decorated_coroutine_directly():
    @ag.no_grad()
    async def worker():
        with ag.enable_grad():
            await pause()
            inner = on()
        await pause()
        return inner, on()

    async def main():
        result = await worker()
        return result, on()

    assert asyncio.run(main()) == ((True, False), True)


def test_tasks_do_not_leak_into_each_other():
    async def worker(mode, expected):
        for _ in range(5):
            with mode:
                await pause()
                states.append(on() is expected)
            await pause()
            states.append(on())

    async def main():
        await asyncio.gather(worker(ag.no_grad(), False), worker(ag.enable_grad(), True), worker(ag.no_grad, False))
        return on()

    states = []
    assert asyncio.run(main())
    assert states == [True] * 30


def test_decorated_async_generator():
    @ag.no_grad
    async def numbers():
        got = []
        try:
            while len(got) < 2:
                states.append(on())
                await pause()
                try:
                    got.append((yield len(got)))
                except KeyError:
                    got.append("thrown")
                    states.append(on())
        finally:
            states.append(on())
            received.extend(got)

    async def main():
        g = numbers()
        assert await g.asend(None) == 0
        assert on()
        assert await g.asend("a") == 1
        assert on()
        with pytest.raises(StopAsyncIteration):
            await g.athrow(KeyError("k"))
        return on()

    states, received = [], []
    assert asyncio.run(main())
    assert received == ["a", "thrown"]
    assert states == [False] * 4


def test_decorated_async_generator_closed_early():
    @ag.no_grad
    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            states.append(on())

    async def main():
        g = numbers()
        assert await anext(g) == 1
        await g.aclose()
        return on()

    states = []
    assert asyncio.run(main())
    assert states == [False]


# -- threads ----------------------------------------------------------------------------------------------------------


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_new_threads_start_with_recording_on():
    with ag.no_grad():
        assert in_thread(on)
        assert not on()
    ag.set_grad_enabled(False)
    try:
        assert in_thread(on)
    finally:
        ag.set_grad_enabled(True)


def test_threads_that_inherit_the_context_start_with_recording_on():
    with ag.no_grad():
        context = contextvars.copy_context()
        assert in_thread(lambda: context.run(on))

        async def main():
            return await asyncio.to_thread(on)

        assert asyncio.run(main())
        assert not on()


def test_modes_of_a_thread_stay_in_it():
    entered, leave = threading.Event(), threading.Event()

    def work():
        with ag.no_grad():
            entered.set()
            leave.wait()
            states.append(on())
        states.append(on())

    states = []
    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    assert on()
    leave.set()
    thread.join()
    assert states == [False, True]


def test_inherited_contexts_can_enter_and_leave_modes():
    def work():
        with ag.no_grad():
            inner = on()
        return inner, on()

    with ag.no_grad():
        context = contextvars.copy_context()
        assert in_thread(lambda: context.run(work)) == (False, True)


# -- backward and modes -----------------------------------------------------------------------------------------------


def test_backward_under_no_grad_works_on_recorded_graphs():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    with ag.no_grad():
        y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_create_graph_under_no_grad_records():
    x = ag.tensor(2.0, requires_grad=True)
    y = x**3
    with ag.no_grad():
        (g,) = ag.grad(y, x, create_graph=True)
        assert not on()
    assert g.requires_grad
    assert ag.grad(g, x)[0].item() == 12.0


def test_grad_mode_inside_hooks_is_create_graph():
    states = []
    x = ag.tensor(2.0, requires_grad=True)
    x.register_hook(lambda g: states.append(ag.is_grad_enabled()))
    y = x * 3
    ag.grad(y, x, retain_graph=True)
    ag.grad(y, x, create_graph=True)
    assert states == [False, True]


def test_a_hook_that_steps_a_generator_does_not_switch_recording_off():
    def generator():
        with ag.no_grad():
            yield

    g = generator()
    x = ag.tensor(2.0, requires_grad=True)
    x.register_hook(lambda grad: next(g))
    (x * 3).backward()
    assert on()
    g.close()
