"""Hooks: when they run, in which order, what they may return, and how they are removed."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def accumulator(x):
    return ag.autograd.graph.get_gradient_edge(x).node


# -- tensor hooks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_leaf", [True, False])
def test_hooks_see_the_whole_gradient(on_leaf):
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    (x if on_leaf else y).register_hook(lambda g: seen.append(g.tolist()))
    (y * 3 + y * 4).sum().backward()
    assert seen == [[14.0, 14.0] if on_leaf else [7.0, 7.0]]
    assert x.grad.tolist() == [14.0, 14.0]


@pytest.mark.parametrize("on_leaf", [True, False])
def test_hooks_run_in_order_and_see_what_earlier_ones_returned(on_leaf):
    x = leaf(1.0)
    y = x * 1
    target = x if on_leaf else y
    seen = []
    target.register_hook(lambda g: seen.append(g.item()) or g + 1)
    target.register_hook(lambda g: seen.append(g.item()))  # None: unchanged
    target.register_hook(lambda g: seen.append(g.item()) or g * 10)
    y.sum().backward()
    assert seen == [1.0, 2.0, 2.0]
    assert x.grad.tolist() == [20.0]


def test_one_hook_may_be_registered_twice():
    x = leaf(1.0)
    double = lambda g: g * 2
    first = x.register_hook(double)
    x.register_hook(double)
    x.sum().backward()
    assert x.grad.tolist() == [4.0]
    first.remove()
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [2.0]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_hooks_are_removed_in_any_order(order):
    x = leaf(1.0)
    factors = (2, 3, 5)
    handles = [x.register_hook(lambda g, k=k: g * k) for k in factors]
    left = 30
    for i in order:
        handles[i].remove()
        handles[i].remove()  # once more is no error
        left //= factors[i]
        x.grad = None
        x.sum().backward()
        assert x.grad.tolist() == [left]


def test_handle_as_context_manager():
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 2):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [3.0]
    with pytest.raises(KeyError), x.register_hook(lambda g: g * 2):
        raise KeyError
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_handles_outlive_their_tensor():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g)
    del x
    handle.remove()


def test_a_hook_may_remove_itself_and_register_others():
    x = leaf(1.0)
    calls = []

    def once(g):
        calls.append("once")
        handle.remove()
        x.register_hook(lambda g: calls.append("later"))

    handle = x.register_hook(once)
    x.sum().backward()
    assert calls == ["once"]
    x.sum().backward()
    assert calls == ["once", "later"]


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_registered_in_the_midst_of_a_pass_loses_nothing(register):
    x = leaf(1.0)
    first = x * 2
    last = x * 3
    first.register_hook(lambda g: getattr(x, register)(lambda g: None) and None)  # x has got 3 by now
    (first + last).sum().backward()
    assert x.grad.tolist() == [5.0]


def test_a_hook_registered_in_the_midst_of_a_pass_gets_the_whole_gradient():
    """PyTorch 2.13 gives 70, too."""
    x, seen = leaf(1.0), []
    first, last = x * 2, x * 5
    first.register_hook(lambda g: x.register_hook(lambda g: (seen.append(g.item()), g * 10)[1]) and None)
    (last + first).sum().backward()
    assert (seen, x.grad.tolist()) == ([7.0], [70.0])


@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
def test_a_node_hook_may_remove_itself_and_register_others(kind):
    x = ag.tensor(2.0, requires_grad=True)
    y, called = x * x, []
    register = getattr(y.grad_fn, kind)

    def once(*gradients):
        called.append("once")
        handle.remove()
        register(lambda *gradients: called.append("later"))

    handle = register(once)
    register(lambda *gradients: called.append("second"))
    y.backward(retain_graph=True)
    assert called == ["once", "second"]
    y.backward()
    assert called == ["once", "second", "second", "later"]
    assert x.grad.item() == 8.0


def test_hooks_run_under_grad_too():
    x = leaf(1.0)
    y = x * 2
    x.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g * 100)
    assert ag.grad(y, x)[0].tolist() == [2000.0]
    y = x * 2
    assert ag.grad(y, x)[0].tolist() == [20.0]
    assert x.grad is None


def test_hooks_beside_the_way_to_the_inputs_do_not_run():
    x, w = (ag.tensor(2.0, requires_grad=True) for _ in range(2))
    beside, called = w * 3.0, []
    beside.register_hook(called.append)
    beside.grad_fn.register_hook(called.append)
    (g,) = ag.autograd.grad(x * beside, [x])
    assert g.item() == 6.0
    assert not called


def test_hooks_on_inputs_apply_equally_however_many_inputs():
    a = leaf(1.0)
    b = a * 3
    b.register_hook(lambda g: g * 10)
    c = (b * 5).sum()
    (alone,) = ag.grad(c, b, retain_graph=True)
    ga, gb = ag.grad(c, (a, b), retain_graph=True)
    assert alone.tolist() == gb.tolist() == [50.0]
    assert ga.tolist() == [150.0]
    gb, ga = ag.grad(c, (b, a))
    assert (ga.tolist(), gb.tolist()) == ([150.0], [50.0])


def test_hooks_on_a_root():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.backward(ag.tensor([1.0]))
    assert x.grad.tolist() == [20.0]
    z = leaf(1.0)
    z.register_hook(lambda g: g * 10)
    z.sum().backward()
    z.backward(ag.tensor([1.0]))
    assert z.grad.tolist() == [20.0]


def test_hooks_on_one_of_several_results():
    x = ag.ones((2, 2), requires_grad=True)
    a, b = ag.unstack(x)
    seen = []
    b.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    (a * 3 + b * 5).sum().backward()
    assert seen == [[5.0, 5.0]]
    assert x.grad.tolist() == [[3.0, 3.0], [10.0, 10.0]]


def test_hooks_are_not_called_for_parts_that_get_no_gradient():
    x = leaf(1.0)
    a, b = x * 2, x * 3
    calls = []
    b.register_hook(calls.append)
    a.sum().backward()
    assert calls == []


def test_hooks_are_differentiated_through():
    x = leaf(2.0)
    y = x * 3
    y.register_hook(lambda g: g * x)
    (g,) = ag.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [6.0]  # 3 x
    assert g.requires_grad
    assert ag.grad(g.sum(), x)[0].tolist() == [3.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_that_changes_its_gradient_in_place_changes_no_other(create_graph):
    a, b = leaf(1.0), leaf(1.0)

    def in_place(g):
        g *= 10

    a.register_hook(in_place)
    g = ag.tensor([1.0])
    ga, gb = ag.grad(a + b, (a, b), g, create_graph=create_graph)
    assert (ga.tolist(), gb.tolist(), g.tolist()) == ([10.0], [1.0], [1.0])


def test_hook_gets_a_tensor_without_history_unless_create_graph():
    x = leaf(2.0)
    kinds = []
    x.register_hook(lambda g: kinds.append((type(g), g.requires_grad)))
    y = (x**3).sum()
    ag.grad(y, x, retain_graph=True)
    ag.grad(y, x, create_graph=True)
    assert kinds == [(ag.Tensor, False), (ag.Tensor, True)]


# -- retain_grad and node hooks: the order ----------------------------------------------------------------------------


@pytest.mark.parametrize("retain_first", [True, False])
def test_retain_grad_keeps_what_tensor_hooks_gave(retain_first):
    x = leaf(1.0)
    y = x * 2
    if retain_first:
        y.retain_grad()
    y.register_hook(lambda g: g * 10)
    if not retain_first:
        y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 7,))
    y.sum().backward()
    assert y.grad.tolist() == [100.0]
    assert x.grad.tolist() == [1400.0]


def test_order_on_a_result():
    x = leaf(1.0)
    y = x * 2
    order = []
    y.grad_fn.register_hook(lambda gi, go: order.append(("post", gi[0].item(), go[0].item())))
    y.grad_fn.register_prehook(lambda go: order.append(("pre", go[0].item())))
    y.register_hook(lambda g: order.append(("tensor", g.item())))
    x.register_hook(lambda g: order.append(("leaf", g.item())))
    (y * 3).sum().backward()
    assert order == [("tensor", 3.0), ("pre", 3.0), ("post", 6.0, 3.0), ("leaf", 6.0)]


def test_order_on_a_leaf():
    x = leaf(1.0)
    order = []
    state = lambda: None if x.grad is None else x.grad.item()
    node = accumulator(x)
    node.register_hook(lambda gi, go: order.append(("post", gi, go[0].item(), state())))
    x.register_post_accumulate_grad_hook(lambda p: order.append(("accumulated", p is x, state())))
    node.register_prehook(lambda go: order.append(("pre", go[0].item(), state())))
    x.register_hook(lambda g: order.append(("tensor", g.item(), state())))
    (x * 3).sum().backward()
    assert order == [
        ("tensor", 3.0, None),
        ("pre", 3.0, None),
        ("accumulated", True, 3.0),
        ("post", (), 3.0, 3.0),
    ]


def test_node_hooks_replace_gradients():
    a, b = leaf(2.0), leaf(3.0)
    y = a * b
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] + 1, None))
    y.sum().backward()
    assert a.grad.tolist() == [31.0]
    assert b.grad is None


@pytest.mark.parametrize("withheld", [0, 1])
def test_node_hooks_withhold_gradients(withheld):
    x, w = leaf(2.0), leaf(3.0)
    y = (x * 5) * w
    y.grad_fn.register_hook(lambda gi, go: tuple(None if i == withheld else g for i, g in enumerate(gi)))
    y.sum().backward()
    assert (x.grad if withheld == 0 else w.grad) is None
    assert (w.grad if withheld == 0 else x.grad).tolist() == [10.0 if withheld == 0 else 15.0]


def test_node_hooks_show_none_for_operands_without_gradient():
    a = leaf(2.0)
    y = a * ag.tensor([3.0])
    seen = []
    y.grad_fn.register_hook(lambda gi, go: seen.append([g if g is None else g.tolist() for g in gi]))
    y.sum().backward()
    assert seen == [[[3.0], None]]


def test_node_hooks_of_several_results():
    x = ag.ones((2, 2), requires_grad=True)
    a, b = ag.unstack(x)
    seen = []
    a.grad_fn.register_prehook(lambda gs: seen.append([g if g is None else g.tolist() for g in gs]))
    (b * 5).sum().backward()
    assert seen == [[None, [5.0, 5.0]]]
    assert x.grad.tolist() == [[0.0, 0.0], [5.0, 5.0]]


def test_node_hooks_are_removed():
    x = leaf(1.0)
    y = x * 2
    handles = [
        y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, *gi[1:])),
        y.grad_fn.register_prehook(lambda gs: (gs[0] * 10,)),
    ]
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [200.0]
    for handle in handles:
        handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_node_hooks_of_an_input_run_only_where_the_node_does():
    a = leaf(1.0)
    b = a * 3
    b.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
    c = (b * 5).sum()
    assert ag.grad(c, b, retain_graph=True)[0].tolist() == [5.0]
    ga, gb = ag.grad(c, (a, b))
    assert (ga.tolist(), gb.tolist()) == ([150.0], [5.0])


def test_retain_grad_under_grad():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    assert ag.grad((y * 3).sum(), x)[0].tolist() == [6.0]
    assert y.grad.tolist() == [3.0]
    assert x.grad is None


# -- post-accumulate hooks --------------------------------------------------------------------------------------------


def test_post_accumulate_hook_sees_the_sum():
    x = leaf(1.0)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (x * 3 + x * 4).sum().backward()
    (x * 1).sum().backward()
    assert seen == [7.0, 8.0]
    handle.remove()
    (x * 1).sum().backward()
    assert seen == [7.0, 8.0]


def test_post_accumulate_hook_may_step_and_clear():
    x, w = leaf(1.0), leaf(2.0)

    def step(p):
        with ag.no_grad():
            p -= p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * w * 4).sum().backward()
    assert x.tolist() == [-7.0]
    assert x.grad is None
    assert w.grad.tolist() == [4.0]


def test_post_accumulate_hook_does_not_run_under_grad():
    x = leaf(1.0)
    calls = []
    x.register_post_accumulate_grad_hook(calls.append)
    assert ag.grad((x * 3).sum(), x)[0].tolist() == [3.0]
    assert calls == []
    y = x * 3
    y.sum().backward(inputs=[y])
    assert calls == []
    (x * 3).sum().backward(inputs=[x])
    assert [c is x for c in calls] == [True]


def test_post_accumulate_hook_needs_a_leaf_that_requires_grad():
    with pytest.raises(
        RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"
    ) as info:
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)
    assert "MultiplyBackward0" in str(info.value)
    message = "cannot register a hook on a tensor that doesn't require gradient"
    with pytest.raises(RuntimeError, match=message):
        ag.tensor([1.0]).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match=message):
        ag.tensor([1.0]).register_hook(print)


def test_post_accumulate_hook_returns_nothing():
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda p: 1)
    with pytest.raises(TypeError, match="post-accumulate hook returned 'int'"):
        x.sum().backward()


# -- what hooks may return --------------------------------------------------------------------------------------------


WRONG = {
    "number": (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
    "array": (lambda g: np.ones(2), TypeError, "expected Variable, but hook returned 'ndarray'"),
    "shape": (
        lambda g: ag.ones(3),
        RuntimeError,
        r"hook '<lambda>' has changed the size of value \(was \[2\] got \[3\]\)",
    ),
    "broadcast": (lambda g: ag.ones(()), RuntimeError, "has changed the size of value"),
    "dtype": (
        lambda g: ag.astype(g, ag.float32),
        RuntimeError,
        r"hook '<lambda>' has changed the type of value \(was float64 got float32\)",
    ),
    "complex": (lambda g: g * 1j, RuntimeError, "has changed the type of value"),
}


@pytest.mark.parametrize("on_leaf", [True, False])
@pytest.mark.parametrize(("hook", "error", "message"), WRONG.values(), ids=WRONG)
def test_results_of_hooks_are_checked(hook, error, message, on_leaf):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 2
    (x if on_leaf else y).register_hook(hook)
    with pytest.raises(error, match=message) as info:
        (y * w).sum().backward()
    assert ("It is a leaf" if on_leaf else "MultiplyBackward0") in str(info.value)
    assert x.grad is None
    assert w.grad is None


NODE_HOOKS = {
    "post, too many": ("register_hook", lambda gi, go: (gi[0],) * 3, r"got 3, but expected 2"),
    "post, too few": ("register_hook", lambda gi, go: (gi[0],), r"got 1, but expected 2"),
    "post, for a constant": (
        "register_hook",
        lambda gi, go: (gi[0], gi[0]),
        "can't replace a None gradient with a non-None",
    ),
    "post, shape": ("register_hook", lambda gi, go: (ag.ones(3), None), "has changed the size of value"),
    "pre, too many": ("register_prehook", lambda go: (go[0], go[0]), r"got 2, but expected 1"),
    "pre, dtype": ("register_prehook", lambda go: (ag.ones(2, dtype=ag.float32),), "has changed the type of value"),
}


@pytest.mark.parametrize(("register", "hook", "message"), NODE_HOOKS.values(), ids=NODE_HOOKS)
def test_results_of_node_hooks_are_checked(register, hook, message):
    x = leaf(1.0, 2.0)
    y = x * 2
    getattr(y.grad_fn, register)(hook)
    with pytest.raises(RuntimeError, match=message) as info:
        y.sum().backward()
    assert "MultiplyBackward0" in str(info.value)
    assert __file__ in str(info.value)
    assert x.grad is None


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_is_callable(register):
    with pytest.raises(TypeError, match="a hook must be callable, not int"):
        getattr(leaf(1.0), register)(3)
    with pytest.raises(TypeError, match="a hook must be callable, not int"):
        (leaf(1.0) * 2).grad_fn.register_hook(3)
    with pytest.raises(TypeError, match="a hook must be callable, not int"):
        (leaf(1.0) * 2).grad_fn.register_prehook(3)


# -- hooks that raise -------------------------------------------------------------------------------------------------


def boom(*args):
    raise KeyError("boom")


RAISING = {
    "tensor hook on a result": lambda x, y: y.register_hook(boom),
    "tensor hook on a leaf": lambda x, y: x.register_hook(boom),
    "node pre-hook": lambda x, y: y.grad_fn.register_prehook(boom),
    "node post-hook": lambda x, y: y.grad_fn.register_hook(boom),
    "accumulator pre-hook": lambda x, y: accumulator(x).register_prehook(boom),
}


@pytest.mark.parametrize("register", RAISING.values(), ids=RAISING)
def test_hooks_that_raise_leave_every_grad_as_it_was(register):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * w).sum().backward()
    held, values = (x.grad, w.grad), (x.grad.tolist(), w.grad.tolist())
    y = x * 2
    y.retain_grad()
    register(x, y)
    z = y * w
    z.retain_grad()
    with pytest.raises(KeyError, match="boom"):
        z.sum().backward()
    assert x.grad is held[0]
    assert w.grad is held[1]
    assert (x.grad.tolist(), w.grad.tolist()) == values
    assert y.grad is None
    assert z.grad is None
    assert ag.is_grad_enabled()


def test_a_hook_after_a_node_of_several_results():
    """It gets a cotangent per result, None for what was not asked for: as PyTorch's does."""
    x = ag.tensor([[3.0, 0.0], [0.0, 2.0]], requires_grad=True)
    s = ag.linalg.svd(x)[1]
    seen = []
    s.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    s.sum().backward()
    ((by_x,), (u, by_s, vh)) = seen[0]
    assert (u, vh) == (None, None)
    assert by_s.tolist() == [1.0, 1.0]
    assert by_x.tolist() == x.grad.tolist()
    assert [[round(abs(v), 12) for v in row] for row in x.grad.tolist()] == [[1.0, 0.0], [0.0, 1.0]]
