"""A loop of `scan` in a compiled function: one step of its program where its calls only compute, as it is everywhere else."""

from __future__ import annotations

import functools
import itertools
import time
import warnings

import numpy as np
import pytest

import agrad as ag
from agrad.func import scan

ROWS = np.random.default_rng(0).normal(size=(5, 3)) / 2
INIT = np.array([0.3, -0.2, 0.8])
W = np.random.default_rng(1).normal(size=(3, 3)) / 2


def loops(compiled):
    """How many loops the last program has, and how many steps."""
    steps = compiled.programs[-1].steps
    return sum(step.op == "func.scan" for step in steps), len(steps)


def numbers(value):
    leaves = ag.tree.flatten(value)[0]
    return [np.asarray(leaf.detach() if isinstance(leaf, ag.Tensor) else leaf) for leaf in leaves]


def same(found, wanted):
    assert ag.tree.flatten(found)[1] == ag.tree.flatten(wanted)[1]
    for one, other in zip(numbers(found), numbers(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
        assert one.dtype == other.dtype


class Scale:
    """What Python keeps."""

    def __init__(self):
        self.k, self.seen, self.table = 2.0, [], {"a": 1.5}


HELD = ag.tensor([0.5, 1.0, -1.0])
LEARNT = ag.tensor(W, requires_grad=True)
FLAG = True


# -- what is one step: each gives the function, and what is done before each call -----------------------------------------


def plain():
    def f(init, xs):
        return scan(lambda c, x: (ag.tanh(c + x), ag.sum(c)), init, xs)

    return f, lambda k: (k * INIT, ROWS - k)


def gradients():
    def f(init, xs):
        return ag.func.value_and_grad(lambda c: ag.sum(scan(lambda c, x: (ag.sin(c) * x, None), c, xs)[0]))(init)

    return f, lambda k: (k * INIT, ROWS - k)


def a_float():
    def f(init, xs, dt):
        return scan(lambda c, x: (c + dt * x, ag.sum(c) / dt), init, xs)

    return f, lambda k: (INIT, ROWS, 0.1 + k)


def what_is_made_of_a_float():
    def f(init, xs, dt):
        half = dt / 2

        def step(c, x):
            once = c + half * x
            return c + dt * once + (dt * half - 1.0) * x, once

        return scan(step, init, xs)

    return f, lambda k: (INIT, ROWS, 0.1 + k)


def first_values_of_a_float():
    def f(c, xs):
        return scan(lambda c, x: (1.1 * c + x, c), {"a": c}["a"], xs)

    return f, lambda k: (100.0 + k, ROWS[:, 0])


def a_constant_of_python():
    held = Scale()

    def f(init, xs):
        return scan(lambda c, x: (c * held.k + x * held.table["a"], None), init, xs)

    def before(k):
        held.k, held.table["a"] = 2.0 + k // 3, 1.5 - k // 4
        return INIT, ROWS

    return f, before


def a_way_by_python():
    held = Scale()

    def f(init, xs):
        return scan(lambda c, x: ((c + x if held.k > 2 else c * x), None), init, xs)

    def before(k):
        held.k = 2.0 + k // 3
        return INIT, ROWS

    return f, before


def tensors_from_outside():
    def f(init, xs):
        return scan(lambda c, x: (c * HELD + ag.tanh(x @ LEARNT), c), init, xs)

    def before(k):
        with ag.no_grad():
            HELD.add_(0.5)
            LEARNT.mul_(0.9)
        return INIT, ROWS

    return f, before


def a_module():
    cell = ag.nn.GRUCell(3, 3, dtype="float64")

    def f(h, xs):
        h, hs = scan(lambda h, x: (cell(x, h),) * 2, h, xs)
        return ag.sum(h) + ag.sum(hs)

    def before(k):
        with ag.no_grad():
            cell.weight_hh.mul_(0.9)
        return INIT, ROWS

    return f, before


def a_module_in_training():
    held = ag.nn.Dropout(0.5)

    def f(h, xs):
        return scan(lambda h, x: (held(h) + x, None), h, xs)[0]

    def before(k):
        held.eval()
        return k * INIT, ROWS

    return f, before


def containers():
    def f(init, xs):
        def step(c, row):
            c["n"] = c["n"] + 1
            made = [c["s"] * row["x"]]
            made.append(made[0] + c["n"])
            return {"s": made[1], "n": c["n"]}, {"all": tuple(made)}

        return scan(step, {"s": init, "n": ag.asarray(0)}, {"x": xs, "y": xs * 2})

    return f, lambda k: (k * INIT, ROWS)


def arrays_of_the_call():
    def f(init, xs):
        eye, twice = np.eye(3), xs * 2
        table = {"t": twice[0], "n": [1.0, 2.0]}
        return scan(lambda c, x: (eye @ c + x * table["t"] + table["n"][1] + ag.asarray([1, 2, 3]), c), init, xs)

    return f, lambda k: (k * INIT, ROWS - k)


def inside_each_other():
    def f(init, xs, dt):
        def outer(c, x):
            inner, ys = scan(lambda d, y: (ag.sin(d) * y * HELD + dt, d), c, ag.stack([x, x * 2, c]))
            return inner * 0.5, ys

        return scan(outer, init, xs)

    return f, lambda k: (k * INIT, ROWS, 0.5 * k)


def a_batch():
    def f(init, xs):
        return ag.vmap(lambda c: scan(lambda c, x: (ag.sin(c) + x, c), c, xs))(init)

    return f, lambda k: (np.stack([INIT, k * INIT]), ROWS)


def tangents():
    def f(init, xs):
        g = lambda c: scan(lambda c, x: (ag.sin(c) + x, c), c, xs)
        return ag.jvp(g, (init,), (init * 2,))

    return f, lambda k: (k * INIT, ROWS)


def gradients_twice():
    def f(init, xs):
        g = lambda c: ag.sum(scan(lambda c, x: (ag.sin(c) + x, c), c, xs)[0])
        return ag.hessian(g)(init)

    return f, lambda k: (k * INIT, ROWS)


def gradients_within():
    def f(init, xs):
        force = ag.grad(lambda q: ag.sum(ag.cos(q) * HELD))
        return scan(lambda c, x: (c - 0.1 * force(c) + x, None), init, xs)[0]

    return f, lambda k: (k * INIT, ROWS)


def by_number():
    def f(init):
        return scan(lambda c, _: (ag.sin(c), c), init, length=7)

    return f, lambda k: (k * INIT,)


def of_a_checkpoint():
    def f(init, xs):
        g = lambda c: scan(lambda c, x: (ag.sin(c) + x, c), c, xs)[0]
        return ag.func.value_and_grad(lambda c: ag.sum(ag.utils.checkpoint.checkpoint(g, c, use_reentrant=False)))(init)

    return f, lambda k: (k * INIT, ROWS)


def a_method():
    class Cell:
        def __init__(self):
            self.w, self.k = HELD * 2, 3.0

        def __call__(self, c, x):
            return c * self.w + x, self.again(c)

        def again(self, c):
            return c * self.k

    cell = Cell()
    return lambda init, xs: scan(cell, init, xs), lambda k: (k * INIT, ROWS)


def a_partial():
    def rule(scale, c, x, *, shift):
        return c * scale + x + shift, None

    step = functools.partial(rule, HELD, shift=0.5)
    return lambda init, xs: scan(step, init, xs), lambda k: (k * INIT, ROWS)


def a_compiled_step():
    step = ag.compile(lambda c, x: (ag.sin(c) * HELD + x, c))
    return lambda init, xs: scan(step, init, xs), lambda k: (k * INIT, ROWS)


def a_setting():
    def f(init, xs):
        return scan(lambda c, x: (c + x + ag.ones(3), ag.zeros(2)), init, xs)

    return f, lambda k: (k * INIT, ROWS)


ONE_STEP = [
    *(
        plain,
        gradients,
        a_float,
        what_is_made_of_a_float,
        first_values_of_a_float,
        a_constant_of_python,
        a_way_by_python,
    ),
    *(tensors_from_outside, a_module, a_module_in_training, containers, arrays_of_the_call, inside_each_other, a_batch),
    *(tangents, gradients_twice, gradients_within, by_number, of_a_checkpoint, a_setting),
    *(a_method, a_partial, a_compiled_step),
]


@pytest.mark.parametrize("make", ONE_STEP, ids=lambda make: make.__name__)
def test_it_is_one_step(make):
    f, before = make()
    compiled = ag.compile(f, fullgraph=True, check="doubling")
    for k in range(1, 7):
        args = before(k)
        wanted = f(*(ag.asarray(a) if isinstance(a, np.ndarray) else a for a in args))
        same(compiled(*args), wanted)
    counted, steps = loops(compiled)
    assert counted
    assert steps < 30 * counted
    assert len(compiled.programs) <= (4 if "python" in make.__name__ else 1)


# -- what is not, or runs as it is: effects happen as often as in the plain loop --------------------------------------------


def a_count_outside():
    held = Scale()

    def step(c, x):
        held.k += 1.0
        return c + x * held.k, None

    return lambda c, xs: scan(step, c, xs)[0], held


def a_list_outside():
    held = Scale()

    def step(c, x):
        held.seen.append(len(held.seen))
        return c + x * len(held.seen), None

    return lambda c, xs: scan(step, c, xs)[0], held


def a_list_of_the_call():
    def f(c, xs):
        seen = []

        def step(c, x):
            seen.append(1.0)
            return c + x * len(seen), None

        return scan(step, c, xs)[0] * len(seen)

    return f, None


def a_cell_of_the_call():
    def f(c, xs):
        n = 0

        def step(c, x):
            nonlocal n
            n += 1
            return c + x * n, None

        return scan(step, c, xs)[0] * n

    return f, None


def a_tensor_kept_by_the_call():
    def f(c, xs):
        last = {}

        def step(c, x):
            last["c"] = c
            return c + x, None

        return scan(step, c, xs)[0] * last["c"]

    return f, None


def an_attribute_of_the_call():
    def f(c, xs):
        held = Scale()

        def step(c, x):
            held.k = held.k + 1.0
            return c * held.k + x, None

        return scan(step, c, xs)[0] * held.k

    return f, None


def an_iterator_of_the_call():
    def f(c, xs):
        rest = iter([1.0, 2.0, 3.0, 4.0, 5.0])
        return scan(lambda c, x: (c + next(rest) * x, None), c, xs)[0]

    return f, None


def a_generator_of_the_call():
    def f(c, xs):
        rest = (float(i) for i in range(5))
        return scan(lambda c, x: (c + next(rest) * x, None), c, xs)[0]

    return f, None


def a_count_of_itertools():
    def f(c, xs):
        rest = itertools.count(1)
        return scan(lambda c, x: (c + next(rest) * x, None), c, xs)[0]

    return f, None


def a_default_that_changes():
    def f(c, xs):
        def step(c, x, seen=[]):  # noqa: B006 (that is what is tested)
            seen.append(1)
            return c + len(seen) * x, None

        return scan(step, c, xs)[0]

    return f, None


def an_attribute_of_the_step():
    def f(c, xs):
        def step(c, x):
            step.n += 1
            return c + step.n * x, None

        step.n = 0
        return scan(step, c, xs)[0]

    return f, None


def a_set_of_the_call():
    def f(c, xs):
        seen = set()

        def step(c, x):
            seen.add(len(seen))
            return c + len(seen) * x, None

        return scan(step, c, xs)[0]

    return f, None


def a_global():
    def step(c, x):
        global FLAG  # noqa: PLW0603
        FLAG = not FLAG
        return (c + x if FLAG else c - x), None

    return lambda c, xs: scan(step, c, xs)[0], None


def draws():
    return lambda c, xs: scan(lambda c, x: (c + x * ag.rand(3), None), c, xs)[0], None


def dropout():
    held = ag.nn.Dropout(0.5)
    return lambda c, xs: scan(lambda c, x: (held(c) + x, None), c, xs)[0], None


def running_statistics():
    norm = ag.nn.BatchNorm1d(3, dtype="float64")

    def f(c, xs):
        return scan(lambda c, x: (norm(ag.stack([c, x]))[0], None), c, xs)[0]

    return f, norm


def a_write_to_what_is_outside():
    held = ag.zeros(3, dtype="float64")

    def step(c, x):
        held.add_(x)
        return c + held, None

    return lambda c, xs: scan(step, c, xs)[0], held


def a_write_to_what_is_carried():
    def step(c, x):
        c.add_(x)
        return c, c * 2

    return lambda c, xs: scan(step, ag.asarray(c) * 1.0, xs), None


def a_write_to_what_the_call_made():
    def f(c, xs):
        total = ag.zeros(3, dtype="float64")

        def step(c, x):
            total.add_(c)
            return c + x, None

        return scan(step, c, xs)[0] + total

    return f, None


def a_write_to_an_array_of_the_call():
    def f(c, xs):
        a = np.zeros(3)

        def step(c, x):
            nonlocal_a = a
            nonlocal_a += 1.0
            return c + a * x, None

        return scan(step, c, xs)[0] + a

    return f, None


def a_write_to_the_memory_of_an_array_of_the_call():
    def f(c, xs):
        a = np.zeros(3)

        def step(c, x):
            t = ag.asarray(a)
            t.add_(1.0)
            return c + t * x, None

        return scan(step, c, xs)[0] + a

    return f, None


def an_item():
    return lambda c, xs: scan(lambda c, x: (c * float(x[0]), c.sum().item()), c, xs), None


def a_branch():
    return lambda c, xs: scan(lambda c, x: ((c + x if x[0] > 0 else c), None), c, xs)[0], None


def which_tensor_it_is():
    def f(c, xs):
        first = ag.asarray(c) * 1.0
        return scan(lambda c, x: ((c * 2 if c is first else c + x), None), first, xs)[0]

    return f, None


def whether_it_requires_a_gradient():
    def f(c, xs):
        first = (ag.asarray(c) * 1.0).requires_grad_()
        return scan(lambda c, x: ((c * 2 if c.requires_grad else c + x), None), first, xs)[0].detach()

    return f, None


def whether_it_has_a_history():
    def f(c, xs):
        first = (ag.asarray(c) * 1.0).requires_grad_()
        return scan(lambda c, x: ((c * 2 if c.grad_fn is None else c + x), None), first, xs)[0].detach()

    return f, None


def a_tensor_in_a_list():
    def f(c, xs):
        first = ag.asarray(c) * 1.0
        known = {first: 2.0}
        return scan(lambda c, x: ((c * known[c] if c in known else c + x), None), first, xs)[0]

    return f, None


def a_gradient_of_its_own():
    def f(c, xs):
        w = ag.asarray(c) * 1.0
        w.requires_grad_()

        def step(c, x):
            ag.sum(w * x).backward()
            return c + x, None

        made = scan(step, c, xs)[0]
        return made.detach() + w.grad

    return f, None


def a_hook_of_its_own():
    def f(c, xs):
        w = (ag.asarray(c) * 1.0).requires_grad_()

        def step(c, x):
            w.register_hook(lambda g: g * 2)
            return c * w + x, None

        made = scan(step, c, xs)[0]
        return ag.grad(ag.sum(made), w)[0]

    return f, None


def a_requirement_of_its_own():
    def f(c, xs):
        w = ag.asarray(c) * 1.0

        def step(c, x):
            w.requires_grad_()
            return c * w.detach() + x, None

        made = scan(step, c, xs)[0]
        return made.detach() * float(w.requires_grad)

    return f, None


def an_error_it_goes_on_after():
    def step(c, x):
        try:
            c = c @ ag.ones((4, 4))
        except ValueError:
            c = c + x
        return c, None

    return lambda c, xs: scan(step, c, xs)[0], None


def an_interrupt_it_goes_on_after():
    held = Scale()

    def step(c, x):
        try:
            held.k += 1.0
        except BaseException:  # noqa: BLE001
            x = -x
        return c + x * held.k, None

    return lambda c, xs: scan(step, c, xs)[0], held


def a_mode():
    def f(c, xs):
        def step(c, x):
            ag.set_grad_enabled(False)
            return c + x, None

        made = scan(step, c, xs)[0]
        is_on = ag.is_grad_enabled()
        ag.set_grad_enabled(True)
        return made + float(is_on)

    return f, None


def prints():
    seen = []

    def step(c, x):
        seen.append(id(print))
        return c + x * len(seen), None

    return lambda c, xs: scan(step, c, xs)[0], seen


def numpys_numbers():
    rng = np.random.default_rng(3)
    return lambda c, xs: scan(lambda c, x: (c + x * rng.normal(), None), c, xs)[0], rng


OTHERS = [
    *(a_count_outside, a_list_outside, a_list_of_the_call, a_cell_of_the_call, a_tensor_kept_by_the_call),
    *(an_attribute_of_the_call, an_iterator_of_the_call, a_generator_of_the_call, a_count_of_itertools),
    *(
        a_default_that_changes,
        an_attribute_of_the_step,
        a_set_of_the_call,
        a_global,
        draws,
        dropout,
        running_statistics,
    ),
    *(a_write_to_what_is_outside, a_write_to_what_is_carried, a_write_to_what_the_call_made, an_item, a_branch),
    *(a_write_to_an_array_of_the_call, a_write_to_the_memory_of_an_array_of_the_call),
    *(which_tensor_it_is, whether_it_requires_a_gradient, whether_it_has_a_history, a_tensor_in_a_list),
    *(a_gradient_of_its_own, a_hook_of_its_own, a_requirement_of_its_own, an_error_it_goes_on_after),
    *(an_interrupt_it_goes_on_after, a_mode, prints, numpys_numbers),
]


def state_of(held):
    if isinstance(held, ag.nn.Module):
        return numbers(held.state_dict())
    if isinstance(held, Scale):
        return held.k, list(held.seen), dict(held.table)
    if isinstance(held, np.random.Generator):
        return str(held.bit_generator.state)
    return numbers(held) if held is not None else None


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
def test_what_is_no_step_does_the_same(make):
    global FLAG  # noqa: PLW0603
    FLAG = True
    ag.manual_seed(3)
    f, held = make()
    wanted = [(numbers(f(ag.asarray(k * INIT + 1), ag.asarray(ROWS))), state_of(held), FLAG) for k in range(5)]
    FLAG = True
    ag.manual_seed(3)
    f, held = make()
    compiled = ag.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ag.func.CompileWarning)
        for k in range(5):
            found = numbers(compiled(k * INIT + 1, ROWS))
            for one, other in zip(found, wanted[k][0], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
            state = state_of(held)
            if isinstance(state, list):
                for one, other in zip(state, wanted[k][1], strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-12)
            else:
                assert state == wanted[k][1]
            assert wanted[k][2] is FLAG


# -- what else ----------------------------------------------------------------------------------------------------------


def total(init, xs, w):
    def step(h, x):
        h = ag.tanh(w @ h + x)
        return h, ag.sum(h * x)

    carry, ys = scan(step, init, xs)
    return ag.sum(carry**2) + ag.sum(ag.sin(ys))


def test_results_are_differentiated_outside():
    compiled = ag.compile(total, fullgraph=True, check="doubling")
    for k in range(5):
        given = [ag.tensor(a * (1 + 0.1 * k), requires_grad=True) for a in (INIT, ROWS, W)]
        wanted = ag.grad(total(*given), given, create_graph=True)
        found = ag.grad(compiled(*given), given, create_graph=True)
        same(found, wanted)
        second = [ag.grad(sum(ag.sum(g**2) for g in each), given) for each in (found, wanted)]
        same(*second)
    assert loops(compiled)[0] == 1


def test_a_training_step():
    w = {name: ag.tensor(W, requires_grad=True) for name in ("compiled", "plain")}

    def train(name, xs, rate):
        w[name].grad = None
        loss = total(ag.asarray(INIT), xs, w[name])
        loss.backward()
        with ag.no_grad():
            w[name].sub_(rate * w[name].grad)
        return loss

    compiled = ag.compile(lambda xs, rate: train("compiled", xs, rate), fullgraph=True)
    for k in range(6):
        same(compiled(ROWS * (k + 1), 0.1 / (k + 1)), train("plain", ag.asarray(ROWS * (k + 1)), 0.1 / (k + 1)))
        same(w["compiled"], w["plain"])
        same(w["compiled"].grad, w["plain"].grad)
    assert len(compiled.programs) == 1
    assert loops(compiled)[0] == 2


def test_ten_thousand_calls_cost_about_those_of_one():
    function, times = ag.func.value_and_grad(total, (0, 2)), []
    for length in (10, 10, 10_000):
        xs = np.random.default_rng(2).normal(size=(length, 3))
        compiled = ag.compile(function, check=False)
        began = time.perf_counter()
        first = compiled(INIT, xs, W)
        times.append(time.perf_counter() - began)
        assert loops(compiled)[0] == 2
        same(compiled(INIT, xs, W), first)
        assert loops(compiled)[1] < 40
    assert times[2] < times[1] + 10.0  # a step costs 0.12 ms, of which there are 100,000; here they run, and no more


def test_a_promise_of_purity():
    compiled = ag.compile(total, pure=True)
    for k in range(4):
        same(compiled(INIT, k * ROWS, W), total(ag.asarray(INIT), ag.asarray(k * ROWS), ag.asarray(W)))
    assert loops(compiled)[0] == 1


@pytest.mark.parametrize("at", range(3))
def test_an_interrupt_leaves_nothing_behind(at):
    held, left = Scale(), [at]

    def helper(c, x):
        return c * held.k + x

    def step(c, x):
        if left:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        return helper(c, x), c

    def plain_step(c, x):
        return helper(c, x), c

    def f(init, xs):
        return scan(step if left else plain_step, init, xs)

    compiled = ag.compile(f)
    codes = [each.__code__ for each in (helper, step, f)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ag.func.CompileWarning)
        with pytest.raises(KeyboardInterrupt):
            compiled(INIT, ROWS)
    assert [each.__code__ for each in (helper, step, f)] == codes
    assert ag.is_grad_enabled()
    left.clear()
    for k in range(4):
        same(compiled(INIT, k * ROWS), f(ag.asarray(INIT), ag.asarray(k * ROWS)))


def test_errors_are_those_of_the_plain_loop():
    def f(init, xs):
        return scan(lambda c, x: (ag.ones((2, 2)) @ c + x, None), init, xs)

    with pytest.raises(ValueError, match="mismatch") as error, warnings.catch_warnings():
        warnings.simplefilter("ignore", ag.func.CompileWarning)
        ag.compile(f)(INIT, ROWS)
    assert f"{__file__}:{f.__code__.co_firstlineno + 1}" in "".join(error.value.__notes__)


def test_it_is_seen_what_a_step_reads_at_other_calls():
    held = Scale()

    def rule(c, x):
        return c * held.k + x

    held.table["rule"] = rule

    def f(init, xs):
        return scan(lambda c, x: (held.table["rule"](c, x), None), init, xs)[0]

    compiled = ag.compile(f)
    for k in range(8):
        if k == 3:
            held.table["rule"] = lambda c, x: c - x
        if k == 5:
            held.table["rule"] = rule
            held.k = 3.0
        same(compiled(INIT, ROWS), f(ag.asarray(INIT), ag.asarray(ROWS)))
    assert len(compiled.programs) == 3


def test_a_loop_in_a_hook_reads_what_is_there_when_it_runs():
    held = Scale()

    def hook(g):
        return scan(lambda c, x: (c * held.k + x, None), g, ag.zeros((2, 3)))[0]

    def f(x):
        y = x * held.k
        y.register_hook(hook)
        return ag.sum(y * y)

    compiled, found = ag.compile(f), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ag.func.CompileWarning)
        for name, run in (("compiled", compiled), ("plain", f)):
            held.k = ag.tensor([2.0, 3.0, 4.0])
            found[name] = []
            for k in range(5):
                x = ag.tensor(INIT * (k + 1), requires_grad=True)
                value = run(x)
                held.k.data = held.k.detach() + 1.0
                value.backward()
                found[name].append(x.grad)
    same(found["compiled"], found["plain"])


def test_a_function_that_the_call_made_is_called_within_the_loop():
    """What it closes over is what the call has put there, not something from outside."""

    def loss(rates, start):
        def slope(u):
            return u * rates[0] - rates[1]

        last, _ = ag.func.scan(lambda u, _: (u + 0.1 * slope(u), None), start, length=5)
        return ag.sum(last * last)

    f = ag.func.value_and_grad(loss, argnums=(0, 1))
    compiled = ag.compile(f)
    rates, start = np.array([0.5, 0.2]), np.array([1.0, 2.0])
    for factor in (1.0, 2.0, 3.0):
        found, wanted = compiled(factor * rates, start), f(factor * rates, start)
        assert found[0] == wanted[0]
        for one, other in zip(found[1], wanted[1], strict=True):
            np.testing.assert_array_equal(one, other)
    assert loops(compiled)[0] == 2  # forwards and back
