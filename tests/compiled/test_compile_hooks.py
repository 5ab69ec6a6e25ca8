"""Hooks in compiled functions: those that only compute are part of the program, all others run as without compiling."""

from __future__ import annotations

import functools
import random
import sys
import warnings

import numpy as np
import pytest

import agrad as ag
from agrad.compiled import tracking

CompileError, CompileWarning = ag.func.CompileError, ag.func.CompileWarning

FACTOR = 2.0
SEEN = []
WEIGHT = ag.tensor([2.0, 3.0, 4.0])
ARRAY = np.asarray([2.0, 3.0, 4.0])


def point(i):
    return ag.tensor(np.linspace(-1.0, 1.0, 3) + 0.1 * i, requires_grad=True)


def gradients(function, x):
    """Give first and second derivatives of the last result, and what a backward pass puts into `.grad`."""
    values = function(x)
    (g,) = ag.autograd.grad(values[-1], x, create_graph=True)
    (second,) = ag.autograd.grad(ag.sum(g * g), x)
    function(x)[-1].backward()
    return [*(v.detach().numpy() for v in values), g.detach().numpy(), second.numpy(), x.grad.numpy()]


def check(function, programs=1, calls=9):
    """Compare a function with its compiled form, bit by bit, over calls; give what it warned of."""
    compiled = ag.compile(function)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(calls):
            for one, other in zip(gradients(compiled, point(i)), gradients(function, point(i)), strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"call {i}")
    told = [str(warning.message) for warning in told if warning.category is CompileWarning]
    assert len(compiled.programs) == programs, told
    return told


def with_hooks(*hooks):
    def function(x):
        h = ag.sin(x) * 2.0
        for hook in hooks:
            h.register_hook(hook)
        return h * 3.0, ag.sum(h * h * x)

    return function


def by_the_global(g):
    return g * FACTOR


def made(factor):
    def times(g):
        return g * factor

    return lambda g: times(g) - 1.0


def local(g):
    def inside(t):
        nonlocal total
        total = t + 1.0
        return total

    total = g
    parts = [inside(total), *(t * 2.0 for t in (g, total))]
    parts[0] = parts[1]
    return ag.sum(ag.stack(parts), axis=0)


def masking(g):
    g[1:] = 0.5
    return g.clamp_(-1.0, 1.0)


def importing(g):
    import math

    return g * math.pi


class Scaling:
    def __init__(self, factor):
        self.factor, self.names = factor, ["a", "b"]

    def __call__(self, g):
        return g * self.factor

    def hook(self, g):
        return self(g) - len(self.names)


SCALING = Scaling(2.0)


def collecting(g):
    parts = []
    for factor in (1.0, SCALING.factor):
        parts.append(g * factor)  # noqa: PERF401 (a list that is changed)
    return sum(parts)


COMPUTING = {
    "scaling": (lambda g: g * 2.0,),
    "a global": (by_the_global,),
    "cells": (made(3.0),),
    "a default value": (lambda g, factor=2.5: g * factor,),
    "partial": (functools.partial(lambda g, factor: g * factor, factor=-1.0),),
    "clipping": (lambda g: ag.clip(g, -0.5, 0.5),),
    "clipping by the norm": (lambda g: g * (1.0 / ag.maximum(1.0, ag.linalg.vector_norm(g))),),
    "seeing alone": (lambda g: None,),
    "two in order": (lambda g: g + 1.0, lambda g: g * g),
    "in place": (masking,),
    "its own variables": (local,),
    "detached": (lambda g: g * g.detach(),),
    "an import": (importing,),
    "a container": (lambda g, kept=[2.0, SEEN]: g * kept[0],),
    "an object": (Scaling(3.0),),
    "a bound method": (Scaling(0.5).hook,),
    "an attribute": (lambda g: g * SCALING.factor + len(SCALING.names),),
    "NumPy's name": (lambda g: np.clip(g, 0, 1),),
    "a list of its own": (collecting,),
}


@pytest.mark.parametrize("name", COMPUTING)
def test_hooks_that_only_compute_are_part_of_the_program(name):
    assert not check(with_hooks(*COMPUTING[name]))


class Counting:
    def __init__(self):
        self.count = 0

    def __call__(self, g):
        self.count += 1

    def hook(self, g):
        self.count += 1
        return g


def counting():
    count = 0

    def hook(g):
        nonlocal count
        count += 1
        SEEN.append(count)

    return hook


def counting_in_a_cell():
    count = 0

    def hook(g):
        nonlocal count
        count += 1
        return g * count

    return hook


def counting_in_a_global(g):
    global FACTOR  # noqa: PLW0603 (that it may change is the point)
    FACTOR = FACTOR + 0.0


def on_itself(g):
    on_itself.count = 1


def counting_in_a_dict():
    counts = {"n": 0}

    def hook(g):
        counts["n"] += 1

    return hook


def adding_to_a_list(g):
    kept = SEEN
    kept += [1]


def swallowing(g):
    try:
        SEEN.append(1)
    except Exception:  # noqa: BLE001 (whatever it is)
        return g * 2.0
    return g


def going_on(g):
    try:
        return g @ ag.ones((7, 7))
    except Exception:  # noqa: BLE001 (whatever it is)
        return g * 2.0


def setting_a_mode(g):
    ag.set_grad_enabled(ag.is_grad_enabled())
    return g


EFFECTS = {
    "a list": (lambda g: SEEN.append(1), "SEEN is changed"),
    "a method": (SEEN.append, "a list is changed"),
    "an object": (Counting(), "the attribute count of a Counting is changed"),
    "a bound method": (Counting().hook, "the attribute count of __self__ is changed"),
    "print": (lambda g: print("seen"), "it prints"),
    "print itself": (print, "it prints"),
    "a cell": (counting_in_a_cell(), "count is bound anew"),
    "a global": (counting_in_a_global, "FACTOR is bound anew"),
    "an attribute": (on_itself, "the attribute count of on_itself is set"),
    "a function that counts": (lambda g: counting()(g), "SEEN is changed"),
    "what a cell holds": (counting_in_a_dict(), "counts is changed"),
    "a default value": (lambda g, kept=[0]: kept.append(1), "is changed"),
    "in place": (adding_to_a_list, "SEEN is changed"),
    "a method of Python's": (lambda g: list.append(SEEN, 1), "SEEN is changed"),
    "by map": (lambda g: list(map(SEEN.append, [1])) and None, "SEEN is changed"),
    "an error that it catches": (swallowing, "SEEN is changed"),
    "an error of an operation": (going_on, "goes on after an error"),
    "a mode": (setting_a_mode, "it sets a mode|sets"),
    "draws": (lambda g: g * ag.rand(3), "it draws random numbers"),
    "draws of Python": (lambda g: g * random.random(), "draws Python's random numbers"),
    "a tensor": (lambda g: g * WEIGHT, "reads the tensor WEIGHT"),
    "an array": (lambda g: g * ARRAY, "reads the array ARRAY"),
    "a hook in a hook": (lambda g: g.register_hook(print), r"uses \.register_hook"),
    "setattr": (lambda g: setattr(g, "seen", 1), "the attribute seen of a tensor is set"),
    "a branch by value": (lambda g: g * 2.0 if ag.sum(g) > 0.0 else g, "branches on a value"),
    "a number": (lambda g: g * int(ag.sum(g)), "branches on a value"),
    "an item": (lambda g: g * (1.0 / (1.0 + ag.sum(g * g).item())), "branches on a value"),
    "values": (lambda g: g * float(g.tolist()[0]), "gives Python values of a tensor"),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_hooks_that_may_do_more_run_as_they_are(name, capsys):
    hook, reason = EFFECTS[name]
    del SEEN[:]
    compiled = ag.compile(with_hooks(hook))
    with pytest.warns(CompileWarning, match=reason) as told:
        compiled(point(0))
    assert len(told) == 1
    assert not SEEN
    assert not capsys.readouterr().out  # it did not run
    if name in {
        "a cell",
        "draws",
        "draws of Python",
        "a hook in a hook",
        "print itself",
    }:  # gives another gradient each time
        return
    assert len(check(with_hooks(hook), programs=0)) == 1


def test_a_draw_that_is_refused_is_none():
    x = point(0)
    ag.manual_seed(3)
    with pytest.warns(CompileWarning, match="it draws random numbers"):
        ag.compile(with_hooks(lambda g: g * ag.rand(3)))(x)
    found = ag.rand(3).tolist()
    ag.manual_seed(3)
    assert found == ag.rand(3).tolist()


def test_output_of_a_hook_is_refused_where_that_of_the_function_is_not(capsys):
    compiled = ag.compile(with_hooks(lambda g: print("seen")), effects="first")
    with pytest.warns(CompileWarning, match="it prints"):
        compiled(point(0))
    assert not capsys.readouterr().out


@pytest.mark.parametrize("hook", [lambda g: SEEN.append(1), lambda g: np.random.default_rng() and g])
def test_a_profiler_of_the_users_goes_on(hook):
    told = []

    def profile(frame, event, argument):
        told.append(event)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        with pytest.warns(CompileWarning, match="may do more than compute"):
            ag.compile(with_hooks(hook))(point(0))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(before)
    assert told


def test_numbers_that_the_function_computes_are_no_hooks():
    def function(x, k):
        h = ag.sin(x)
        h.register_hook(lambda g: g * k)
        return ag.sum(h * h)

    compiled = ag.compile(function)
    with pytest.warns(CompileWarning, match="reads a number that the program computes"):
        compiled(point(0), 2.0)
    for k in (2.0, 3.0, 3.0, 2.0):
        found = []
        for run in (compiled, function):
            x = point(1)
            (g,) = ag.autograd.grad(run(x, k), x, create_graph=True)
            found.append(ag.autograd.grad(ag.sum(g * g), x)[0].numpy())
        np.testing.assert_array_equal(*found)


def test_the_warning_names_the_line_of_the_hook():
    with pytest.warns(CompileWarning, match=r"it prints.*\n.*Called at .*test_compile_hooks\.py:\d+"):
        ag.compile(with_hooks(EFFECTS["print"][0]))(point(0))


def keeping_the_handle(x):
    h = ag.sin(x)
    SEEN.append(h.register_hook(lambda g: g * 2.0))
    return ag.sum(h * x), SEEN.pop()


def test_a_hook_that_can_be_taken_away_runs_as_it_is():
    compiled = ag.compile(keeping_the_handle)
    with pytest.warns(CompileWarning, match="the handle of a hook is kept"):
        compiled(point(0))
    for remove in (False, True, False):
        x = point(1)
        loss, handle = compiled(x)
        if remove:
            handle.remove()
        loss.backward()
        at = x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), np.sin(at) + (1.0 if remove else 2.0) * at * np.cos(at), rtol=1e-12)


def taking_it_away(x):
    h = ag.sin(x)
    h.register_hook(lambda g: SEEN.append(1)).remove()
    with h.register_hook(print):
        pass
    h.register_hook(lambda g: g * 3.0)
    return h, ag.sum(h * x)


def on_a_node(x):
    h = ag.sin(x)
    h.grad_fn.register_prehook(lambda gs: (gs[0] * 2.0,))
    return h, ag.sum(h * x)


def on_a_result(x):
    h = ag.sin(x) * x
    h.register_hook(lambda g: g * 2.0)
    return h + 1.0, ag.sum(h).register_hook(lambda g: g * 2.0) and ag.sum(h)


def on_the_loss(x):
    loss = ag.sum(ag.sin(x) * x)
    loss.register_hook(lambda g: g * 2.0)
    return x * 2.0, loss


@pytest.mark.parametrize(
    ("function", "programs"), [(taking_it_away, 1), (on_a_result, 1), (on_a_node, 0), (on_the_loss, 0)]
)
def test_where_hooks_are(function, programs):
    assert len(check(function, programs)) == 1 - programs


def test_a_hook_on_an_argument_stays_one_that_the_engine_runs():
    def function(x):
        return x * 2.0, ag.sum(ag.sin(x) * x)

    calls = []

    def hooked(run, x):
        x.register_hook(lambda g: calls.append(1))
        x.register_hook(by_the_global)
        x.register_post_accumulate_grad_hook(lambda t: calls.append(2))
        return gradients(run, x)

    compiled = ag.compile(function)
    for i in range(6):
        found = hooked(compiled, point(i))
        once = list(calls)
        calls.clear()
        for one, other in zip(found, hooked(function, point(i)), strict=True):
            np.testing.assert_array_equal(one, other)
        assert calls == once
        calls.clear()


def test_new_arguments_with_the_same_hook_need_no_program_of_their_own():
    compiled = ag.compile(lambda x: ag.sum(ag.sin(x) * x))
    for i in range(9):
        x = point(i)
        x.register_hook(by_the_global)
        compiled(x).backward()
        at = x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), FACTOR * (np.sin(at) + at * np.cos(at)), rtol=1e-12)
    assert len(compiled.programs) == 1


def test_a_hook_registered_on_an_argument_at_every_call_runs_as_often():
    def function(x):
        x.register_hook(lambda g: g * 2.0)
        return ag.sum(x * x)

    compiled = ag.compile(function)
    x = point(0)
    for i in range(4):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            loss = compiled(x)
        assert bool(told) is (i == 0)
        (g,) = ag.autograd.grad(loss, x)
        np.testing.assert_allclose(g.numpy(), 2.0 ** (i + 2) * x.detach().numpy())


def test_what_a_hook_reads_is_a_condition(monkeypatch):
    function = with_hooks(by_the_global)
    compiled = ag.compile(function)
    for i in range(9):
        monkeypatch.setitem(globals(), "FACTOR", 2.0 + i // 3)
        for one, other in zip(gradients(compiled, point(i)), gradients(function, point(i)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(compiled.programs) == 3


@pytest.mark.parametrize("create_graph", [False, True])
def test_what_a_hook_reads_is_read_when_the_backward_pass_runs(create_graph, monkeypatch):
    compiled, function = ag.compile(with_hooks(by_the_global)), with_hooks(by_the_global)
    for i in range(5):
        found = []
        for run in (compiled, function):
            monkeypatch.setitem(globals(), "FACTOR", 2.0)
            x = point(i)
            loss = run(x)[-1]
            monkeypatch.setitem(globals(), "FACTOR", 5.0 + i)
            found.append(ag.autograd.grad(loss, x, create_graph=create_graph)[0].detach().numpy())
        np.testing.assert_array_equal(*found)
    assert len(compiled.programs) == 1


@pytest.mark.parametrize("create_graph", [False, True])
def test_what_a_hook_reads_of_objects_is_a_condition_of_the_call_and_of_the_pass(create_graph):
    compiled, function = ag.compile(with_hooks(collecting)), with_hooks(collecting)
    for i in range(9):
        found = []
        for run in (compiled, function):
            SCALING.factor = 2.0 + i // 3
            x = point(i)
            loss = run(x)[-1]
            SCALING.factor = 2.0 + i // 3 + (10.0 if i % 3 == 2 else 0.0)
            found.append(ag.autograd.grad(loss, x, create_graph=create_graph)[0].detach().numpy())
        np.testing.assert_array_equal(*found)
    SCALING.factor = 2.0
    assert len(compiled.programs) == 3


def test_the_conditions_of_a_module_that_its_hook_reads():
    net = ag.nn.Linear(3, 3)
    net.factor = 2.0
    net.register_full_backward_hook(lambda module, before, after: (before[0] * module.factor,))

    def function(x):
        return ag.sum(net(ag.sin(x)))

    compiled = ag.compile(function)
    for i in range(9):
        net.factor = 2.0 + i // 3
        found = [ag.autograd.grad(run(x), x)[0].numpy() for run in (compiled, function) for x in [point(i)]]
        np.testing.assert_array_equal(*found)
    assert len(compiled.programs) == 3


def test_a_hook_does_not_run_where_no_gradient_comes():
    def function(x):
        h, k = ag.sin(x), ag.cos(x)
        h.register_hook(lambda g: g + 1.0)
        k.register_hook(lambda g: g / ag.linalg.vector_norm(g))
        return ag.sum(h * x), ag.sum(k * x)

    assert not check(function)


def test_what_no_guard_sees_of_a_hook_is_found_by_a_compared_call():
    factors = [2.0]

    def function(x):
        factor = factors[0]
        h = ag.sin(x)
        h.register_hook(lambda g: g * factor)
        return ag.sum(h)

    compiled = ag.compile(function, pure=True)
    compiled(point(0))
    factors[0] = 3.0
    with pytest.raises(CompileError, match="which hooks it registers, or what they read"):
        compiled(point(0))


def test_a_function_that_draws_what_its_hook_reads_runs_as_it_is():
    def function(x):
        factor = random.random()
        h = ag.sin(x)
        h.register_hook(lambda g: g * factor)
        return ag.sum(h)

    compiled, found = ag.compile(function), []
    with pytest.warns(CompileWarning, match="Python's random numbers"):
        compiled(point(0))
    for run in (compiled, function):  # another warning would be an error
        random.seed(0)
        found.append([ag.autograd.grad(run(x), x)[0].tolist() for x in map(point, range(4))])
    assert found[0] == found[1]


def test_hooks_within_a_checkpoint():
    def body(x):
        h = ag.sin(x)
        h.register_hook(lambda g: g * 2.0)
        return h * x

    def function(x):
        return x * 1.0, ag.sum(ag.utils.checkpoint.checkpoint(body, x * 2.0, use_reentrant=False) * x)

    assert not check(function)


def test_many_gradients_at_once():
    function = with_hooks(lambda g: ag.clip(g, -0.5, 0.5))
    compiled = ag.compile(function)
    for i in range(4):
        found = []
        for run in (compiled, function):
            x = point(i)
            found.append(ag.autograd.grad(run(x)[0], x, ag.eye(3), is_grads_batched=True)[0].numpy())
        np.testing.assert_array_equal(*found)


def test_capture_refuses_hooks_that_a_later_backward_pass_would_run():
    with pytest.raises(ag.func.CaptureError, match="a hook is registered on what the function computes"):
        ag.func.capture(with_hooks(by_the_global))(point(0))

    def whole(x):
        return ag.autograd.grad(with_hooks(by_the_global)(x)[-1], x)[0]

    x = point(0)
    np.testing.assert_array_equal(ag.func.capture(whole)(x)(point(1)).numpy(), whole(point(1)).numpy())


# -- hooks of modules, and Functions --------------------------------------------------------------------------------------


def with_a_module(*hooks, results=1):
    net = ag.nn.Linear(3, 3)
    for hook in hooks:
        net.register_full_backward_hook(hook)

    def function(x):
        y = net(ag.sin(x))
        return (*(x.detach() for _ in range(2 - results)), *(ag.sum(y) for _ in range(results - 1)), ag.sum(y * x))

    return function


def first_gradients(function, x):
    function(x)[-1].backward()
    return [x.grad.numpy()]


def test_backward_hooks_of_modules_that_only_compute():
    function = with_a_module(lambda module, before, after: (before[0] * FACTOR,))
    compiled = ag.compile(function)
    for i in range(5):
        found = (first_gradients(run, point(i))[0] for run in (compiled, function))
        np.testing.assert_array_equal(*found)
    assert len(compiled.programs) == 1


@pytest.mark.parametrize(
    ("hook", "results", "reason"),
    [
        (
            lambda module, before, after: SEEN.append(1),
            1,
            "a backward hook of a module may do more than compute: SEEN is changed",
        ),
        (lambda module, before, after: (before[0] * module.weight[0],), 1, "reads the tensor weight"),
        (lambda module, before, after: setattr(module, "seen", 1), 1, "the attribute seen of a Linear is changed"),
        (lambda module, before, after: None, 2, "several results are differentiated"),
    ],
)
def test_backward_hooks_of_modules_that_run_as_they_are(hook, results, reason):
    function = with_a_module(hook, results=results)
    compiled = ag.compile(function)
    del SEEN[:]
    with pytest.warns(CompileWarning, match=reason):
        compiled(point(0))
    assert not SEEN
    for i in range(5):
        found = []
        for run in (compiled, function):
            found.append((first_gradients(run, point(i))[0].tolist(), len(SEEN)))
            del SEEN[:]
        assert found[0] == found[1]


class Scaled(ag.Function):
    @staticmethod
    def forward(ctx, x, share):
        ctx.share = share
        return x * share

    @staticmethod
    def backward(ctx, g):
        return g * ctx.share * FACTOR, None


class Counted(Scaled):
    @staticmethod
    def backward(ctx, g):
        SEEN.append(1)
        return g * ctx.share, None


class Listed(Scaled):
    @staticmethod
    def forward(ctx, x, share):
        ctx.share, ctx.seen = share, SEEN
        return x * share

    @staticmethod
    def backward(ctx, g):
        ctx.seen.append(1)
        return g * ctx.share, None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Counted, "Counted may do more than compute: SEEN is changed"), (Listed, "Listed may do more.*: seen is changed")],
)
def test_what_the_backward_of_a_function_changes_is_changed_as_often(kind, reason):
    compiled = ag.compile(lambda x: ag.sum(kind.apply(ag.sin(x), 0.5)))
    del SEEN[:]
    with pytest.warns(CompileWarning, match=reason):
        compiled(point(0))
    for i in range(5):
        assert len(SEEN) == i
        compiled(point(i)).backward()


def test_what_the_backward_of_a_function_reads_is_a_condition(monkeypatch):
    compiled = ag.compile(lambda x: ag.sum(Scaled.apply(ag.sin(x), 0.5)))
    for i in range(9):
        monkeypatch.setitem(globals(), "FACTOR", 2.0 + i // 3)
        x = point(i)
        compiled(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), 0.5 * (2.0 + i // 3) * np.cos(x.detach().numpy()), rtol=1e-12)
    assert len(compiled.programs) == 3


def test_what_the_backward_of_a_function_reads_may_not_change_before_it_runs(monkeypatch):
    compiled = ag.compile(lambda x: ag.sum(Scaled.apply(ag.sin(x), 0.5)), check=False)
    compiled(point(0))
    loss = compiled(point(0))
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    with pytest.raises(RuntimeError, match="FACTOR has changed since the call of the compiled function"):
        loss.backward()


def test_hooks_on_lazy_arrays():
    da = pytest.importorskip("dask.array")
    pytest.importorskip("agrad_dask")
    function = with_hooks(lambda g: ag.clip(g, -0.5, 0.5))
    compiled = ag.compile(function)
    for i in range(3):
        found = []
        for run in (compiled, function):
            x = ag.asarray(da.from_array(np.linspace(-1.0, 1.0, 4) + i, chunks=2), requires_grad=True)
            (g,) = ag.autograd.grad(run(x)[-1], x, create_graph=True)
            found.append((np.asarray(g.detach()), np.asarray(ag.autograd.grad(ag.sum(g * g), x)[0])))
        np.testing.assert_array_equal(*found)
    assert len(compiled.programs) == 1


def test_a_hook_in_a_function_of_plain_arrays():
    w = ag.tensor([2.0, 3.0], requires_grad=True)

    def function(x):
        h = ag.sin(w * x)
        h.register_hook(by_the_global)
        return ag.sum(h)

    compiled = ag.compile(function)
    for i in range(5):
        x = np.array([0.5, 1.0]) + i
        w.grad = None
        compiled(x).backward()
        np.testing.assert_allclose(w.grad.numpy(), FACTOR * np.cos([2.0, 3.0] * x) * x, rtol=1e-12)
    assert len(compiled.programs) == 1


def test_a_hook_on_what_is_dropped_keeps_nothing_alive():
    def function(x):
        ag.exp(x).register_hook(lambda g: g * 2)
        return x * 2

    x = ag.tensor([0.5, 1.0], requires_grad=True)
    assert ag.func.capture(function)(x)(x).tolist() == [1.0, 2.0]


# -- higher derivatives through Functions ---------------------------------------------------------------------------------


class OfAnInput(ag.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3.0 * x**2 * g


class OfAResult(ag.Function):
    @staticmethod
    def forward(x):
        return ag.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Reversed(ag.Function):
    """Gives its operand, whose history its result must not take over."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return -g


class WithOrder(ag.Function):
    """Of its two results one has no derivative."""

    @staticmethod
    def forward(ctx, x):
        order = ag.argsort(x)
        found = ag.take(x, order, axis=0) ** 2
        ctx.save_for_backward(x, order)
        ctx.mark_non_differentiable(order)
        return found, order

    @staticmethod
    def backward(ctx, g, _):
        x, order = ctx.saved_tensors
        return ag.take(2.0 * ag.take(x, order, axis=0) * g, ag.argsort(order), axis=0)


class Drawing(ag.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = ag.rand(x.shape, dtype=x.dtype)
        return x * ctx.mask

    @staticmethod
    def backward(ctx, g):
        return g * ctx.mask


class Keeping(ag.Function):
    """Keeps an operand as an attribute, beside a closure over a number."""

    @staticmethod
    def forward(ctx, x, share):
        ctx.x, ctx.by = x, lambda g: g * share
        return share * x**2

    @staticmethod
    def backward(ctx, g):
        return 2.0 * ctx.x * ctx.by(g), None


WEIGHT = ag.tensor([0.3, -0.4, 0.9], dtype="float64", requires_grad=True)

THROUGH = {
    "of an input": lambda x: ag.sum(ag.sin(OfAnInput.apply(ag.sin(x)))),
    "of a result": lambda x: ag.sum(OfAResult.apply(ag.sin(x)) ** 2),
    "of what it was given": lambda x: ag.sum(Reversed.apply(x) * x**2) + ag.sum(Reversed.apply(x) ** 3),
    "nothing but a Function": lambda x: ag.take(OfAnInput.apply(x), ag.asarray(1), axis=0),
    "two in one another": lambda x: ag.sum(OfAnInput.apply(OfAResult.apply(x))),
    "of one result of two": lambda x: ag.sum(WithOrder.apply(x)[0] * x[WithOrder.apply(x)[1]]),
    "with draws": lambda x: ag.sum(ag.sin(Drawing.apply(x) * ag.rand(3, dtype="float64"))),
    "with a closure": lambda x: ag.sum(Keeping.apply(ag.sin(x), 0.25)),
    "with a parameter": lambda x: ag.sum(OfAnInput.apply(x * WEIGHT) * WEIGHT),
    "with a hook": lambda x: through_a_hook(x),
    "mapped": lambda x: ag.sum(ag.vmap(lambda v: ag.sin(Mapped.apply(ag.sum(x), v)))(ag.asarray([0.5, -1.2]))),
    "a gradient by way of it": lambda x: ag.sum(
        ag.autograd.grad(ag.sum(OfAResult.apply(x) * x), x, create_graph=True)[0] ** 2
    ),
    "several results": lambda x: (ag.sum(x**2), ag.sum(OfAnInput.apply(x) * x)),
}


class Mapped(ag.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, v):
        return x * x * x * v

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, v = ctx.saved_tensors
        return g * 3.0 * x * x * v, g * x * x * x


def through_a_hook(x):
    h = OfAnInput.apply(ag.sin(x))
    h.register_hook(lambda g: g * g)
    return ag.sum(h * x)


def orders_of(function, i):
    """Give the value, and three derivatives along a direction, by arguments and a parameter."""
    ag.manual_seed(i)
    x = ag.tensor([0.7 + i, -0.4, 0.2], dtype="float64", requires_grad=True)
    found = function(x)
    found = found[-1] if isinstance(found, tuple) else found
    orders = [found]
    for _ in range(3):
        grads = ag.autograd.grad(orders[-1], (x, WEIGHT), create_graph=True, allow_unused=True)
        given = [ag.sum(g * ag.asarray([1.0, -0.5, 2.0])) for g in grads if g is not None]
        orders.append(sum(given))
        if not orders[-1].requires_grad:
            break
    return [order.tolist() for order in orders], ag.rand(1).tolist()


@pytest.mark.parametrize("name", THROUGH)
def test_higher_derivatives_through_a_function_are_its_own(name):
    compiled = ag.compile(THROUGH[name])
    for i in range(5):
        found, expected = orders_of(compiled, i), orders_of(THROUGH[name], i)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    assert len(compiled.programs) == 1


def test_second_derivatives_through_a_function_are_finite_differences():
    compiled, step = ag.compile(THROUGH["of an input"]), 1e-5
    at = np.array([0.7, -0.4, 0.2])

    def slope(x, create_graph=False):
        x = ag.tensor(x, requires_grad=True)
        (g,) = ag.autograd.grad(compiled(x), x, create_graph=create_graph)
        return x, g

    for _ in range(3):
        x, g = slope(at, create_graph=True)
        (found,) = ag.autograd.grad(ag.sum(g), x)
        differences = [
            (slope(at + step * e)[1] - slope(at - step * e)[1]).numpy().sum() / (2 * step) for e in np.eye(3)
        ]
        np.testing.assert_allclose(found.numpy(), differences, rtol=1e-7)


@pytest.mark.parametrize("transform", [ag.func.hessian, lambda f: ag.func.grad(lambda x: ag.sum(ag.func.grad(f)(x)))])
def test_transforms_of_a_compiled_function_with_a_function(transform):
    function = THROUGH["of a result"]
    compiled = ag.compile(lambda x: function(x))
    for i in range(4):
        x = ag.tensor([0.7 + i, -0.4, 0.2], dtype="float64")
        found = []
        for run in (compiled, function):
            try:
                found.append(transform(run)(x).tolist())
            except RuntimeError as error:  # it has no jvp
                found.append(str(error).partition("\n")[0])
        assert found[0] == found[1]


class Once(OfAnInput):
    @staticmethod
    @ag.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3.0 * x**2 * g


def test_what_is_differentiable_once_says_so_when_it_is_compiled():
    compiled = ag.compile(lambda x: ag.sum(Once.apply(ag.sin(x))))
    for i in range(4):
        x = point(i)
        (g,) = ag.autograd.grad(compiled(x), x, create_graph=True)
        with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once"):
            ag.autograd.grad(ag.sum(g), x)
    assert len(compiled.programs) == 1


def twice(g):
    return g * 2.0


def test_hooks_on_arguments_run_once_where_a_function_runs_again():
    function, found = THROUGH["of an input"], []
    compiled = ag.compile(function)
    for run in (compiled, function):
        for i in range(4):
            x = point(i)
            x.register_hook(twice)
            y = ag.sin(x)
            y.register_hook(twice)
            (g,) = ag.autograd.grad(run(y), x, create_graph=True)
            found.append((g.tolist(), ag.autograd.grad(ag.sum(g * g), x)[0].tolist()))
    assert found[:4] == found[4:]
    assert len(compiled.programs) == 1


def test_an_argument_computed_from_another_one_where_a_function_runs_again():
    function = lambda x, y: ag.sum(OfAnInput.apply(x * y))
    compiled = ag.compile(function)
    for i in range(4):
        found = []
        for run in (compiled, function):
            x = point(i)
            y = ag.sin(x if i else x.detach().requires_grad_())
            grads = ag.autograd.grad(run(x, y), (x, y), create_graph=True)
            found.append([ag.autograd.grad(ag.sum(g * g), x, retain_graph=True)[0].tolist() for g in grads])
        np.testing.assert_allclose(*found, rtol=1e-12)
    assert len(compiled.programs) == 1


def test_what_a_function_reads_may_not_change_before_it_runs_again(monkeypatch):
    monkeypatch.setitem(globals(), "WEIGHT", ag.tensor([0.3, -0.4, 0.9], dtype="float64", requires_grad=True))
    compiled = ag.compile(lambda x: ag.sum(OfAnInput.apply(x) * FACTOR * WEIGHT), check=False)
    compiled(point(0))
    loss = compiled(x := point(0))
    with monkeypatch.context() as changing:
        changing.setitem(globals(), "FACTOR", 7.0)
        with pytest.raises(RuntimeError, match="FACTOR has changed since the call of the compiled function"):
            ag.autograd.grad(loss, x, create_graph=True)
    loss = compiled(x := point(0))
    with ag.no_grad():
        WEIGHT.mul_(2.0)
    with pytest.raises(RuntimeError, match="WEIGHT has changed since the call of the compiled function"):
        ag.autograd.grad(loss, x, create_graph=True)


def test_what_writes_and_has_a_function_runs_as_it_is():
    mean = ag.zeros(3, dtype="float64")

    def function(x):
        with ag.no_grad():
            mean.add_(x)
        return ag.sum(OfAnInput.apply(x))

    compiled = ag.compile(function)
    with pytest.warns(CompileWarning, match="writes to mean, and a second derivative through the Function"):
        compiled(point(0))
    for i in range(4):
        x, before = point(i), mean.numpy().copy()
        (g,) = ag.autograd.grad(compiled(x), x, create_graph=True)
        (h,) = ag.autograd.grad(ag.sum(g), x)
        np.testing.assert_allclose(h.numpy(), 6.0 * x.detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(mean.numpy(), before + x.detach().numpy())


class Gauss(ag.Function):
    @staticmethod
    def forward(ctx, x):
        y = ag.exp(-x * x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = map(ag.conj, ctx.saved_tensors)
        return g * -2.0 * x * y


def test_a_functions_backward_under_the_contract_of_jit_in_a_process_that_compiled_nothing(monkeypatch):
    """Backends installed from a checkout are agrad's own, which a first capture finds out: without one, the pass does."""
    monkeypatch.setattr(tracking, "_WHOSE", {})
    monkeypatch.setattr(tracking, "_PLACES", dict.fromkeys(tracking._PLACES, ()))
    compiled = ag.compile(lambda x: ag.sum(Gauss.apply(x)), pure=True)
    for value in (0.5, 1.5, 0.25):
        x = ag.tensor([value], requires_grad=True)
        (gradient,) = ag.grad(compiled(x), x)
        np.testing.assert_allclose(gradient, [-2.0 * value * np.exp(-(value**2))], rtol=1e-14)
    assert compiled.programs
