"""Nodes and edges of the recorded graph, as the user sees them."""

from __future__ import annotations

import gc
import weakref

import pytest

import agrad as ag
from agrad.autograd.graph import GradientEdge, Node, get_gradient_edge
from agrad.core.node import AccumulateGrad


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def test_next_functions():
    x, w = leaf(1.0), leaf(2.0)
    y = x * w
    (node_x, number_x), (node_w, _) = y.grad_fn.next_functions
    assert isinstance(node_x, AccumulateGrad)
    assert node_x.variable is x
    assert node_w.variable is w
    assert number_x == 0
    assert (y * 3.0).grad_fn.next_functions == ((y.grad_fn, 0), (None, 0))
    assert (ag.tensor([3.0]) - y).grad_fn.next_functions == ((None, 0), (y.grad_fn, 0))
    assert (y + y).grad_fn.next_functions == ((y.grad_fn, 0), (y.grad_fn, 0))
    assert ag.exp(y).grad_fn.next_functions == ((y.grad_fn, 0),)


def test_next_functions_of_lists_and_of_several_results():
    x = ag.ones((2, 2), requires_grad=True)
    a, b = ag.unstack(x)
    assert (a * 1.0).grad_fn.next_functions[0] == (a.grad_fn, 0)
    assert (b * 1.0).grad_fn.next_functions[0] == (a.grad_fn, 1)
    joined = ag.concat([b, ag.ones(2), a])
    assert joined.grad_fn.next_functions == ((a.grad_fn, 1), (None, 0), (a.grad_fn, 0))


def test_next_functions_of_a_function():
    class F(ag.Function):
        @staticmethod
        def forward(ctx, x, k, w):
            return x * 1

    x, w = leaf(1.0), leaf(2.0)
    nodes = [node for node, _ in F.apply(x, 3.0, w).grad_fn.next_functions]
    assert [node.variable for node in nodes if node is not None] == [x, w]


def test_one_accumulator_per_leaf():
    x = leaf(1.0)
    node = get_gradient_edge(x).node
    assert (x * 2).grad_fn.next_functions[0][0] is node
    assert ag.exp(x).grad_fn.next_functions[0][0] is node
    assert node.name() == "AccumulateGrad"
    assert isinstance(node, Node)
    assert isinstance((x * 2).grad_fn, Node)


def test_metadata():
    y = leaf(1.0) * 2
    y.grad_fn.metadata["note"] = "mine"
    assert y.grad_fn.metadata == {"note": "mine"}
    assert (y * 2).grad_fn.metadata == {}


def test_gradient_edge_as_input_and_output():
    x = leaf(2.0, 3.0)
    y = x * x
    edge = get_gradient_edge(y)
    assert isinstance(edge, GradientEdge)
    assert edge == (y.grad_fn, 0)
    z = (y * 5).sum()
    assert ag.grad(z, edge, retain_graph=True)[0].tolist() == [5.0, 5.0]
    assert ag.grad(z, [edge, x], retain_graph=True)[0].tolist() == [5.0, 5.0]
    assert ag.grad(get_gradient_edge(z), x, retain_graph=True)[0].tolist() == [20.0, 30.0]
    assert ag.grad(edge, x, ag.tensor([1.0, 10.0]), retain_graph=True)[0].tolist() == [4.0, 60.0]
    ag.autograd.backward(edge, ag.ones(2))
    assert x.grad.tolist() == [4.0, 6.0]


def test_gradient_edge_of_a_leaf():
    x = leaf(2.0, 3.0)
    edge = get_gradient_edge(x)
    assert ag.grad((x * 5).sum(), edge)[0].tolist() == [5.0, 5.0]
    (x * 5).sum().backward(inputs=[edge])
    assert x.grad.tolist() == [5.0, 5.0]


def test_gradient_edge_of_one_of_several_results():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    a, b = ag.unstack(x)
    assert get_gradient_edge(b) == (b.grad_fn, 1)
    z = (a * b).sum()
    assert ag.grad(z, get_gradient_edge(b), retain_graph=True)[0].tolist() == [1.0, 2.0]
    assert ag.grad(get_gradient_edge(b), x, ag.ones(2))[0].tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_gradient_edge_is_not_materialized():
    edge = get_gradient_edge(leaf(1.0) * 2)
    assert ag.grad(leaf(1.0).sum(), edge, allow_unused=True) == (None,)
    assert ag.grad(leaf(1.0).sum(), edge, materialize_grads=True) == (None,)


def test_gradient_edge_needs_requires_grad():
    with pytest.raises(RuntimeError, match="gradient edge for a Tensor that does not require gradients"):
        get_gradient_edge(ag.tensor([1.0]))


def test_gradient_edge_keeps_the_graph_but_not_the_value():
    x = leaf(2.0)
    y = x + 1.0
    value = weakref.ref(y)
    edge = get_gradient_edge(y)
    del y
    gc.collect()
    assert value() is None
    assert ag.grad(edge, x)[0].tolist() == [1.0]


def test_gradient_edge_needs_a_gradient_for_several_elements():
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        ag.grad(get_gradient_edge(leaf(1.0, 2.0) * 2), leaf(1.0))


# -- hooks on several gradients ----------------------------------------------------------------------------------------


def multi(tensors, mode="all"):
    seen = []
    handle = ag.autograd.graph.register_multi_grad_hook(tensors, seen.append, mode=mode)
    return seen, handle


def values(gs):
    return [None if g is None else g.tolist() for g in gs]


def test_all_gradients_come_at_once():
    a, b = (ag.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    c = a * b
    seen, handle = multi([a, b, c])
    (c * c).backward()
    assert [values(s) for s in seen] == [[36.0, 24.0, 12.0]]
    (a * b).backward()
    assert values(seen[1]) == [3.0, 2.0, None]
    handle.remove()
    handle.remove()
    (a * b).backward()
    assert len(seen) == 2


def test_gradients_a_pass_does_not_compute_are_none():
    a, b = (ag.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    seen, _ = multi([a, b])
    c = a * b
    ag.grad(c, a, retain_graph=True)
    (2.0 * a).backward()
    assert [values(s) for s in seen] == [[3.0, None], [2.0, None]]


def test_a_gradient_that_stays_undefined_does_not_hold_the_call_up():
    class First(ag.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g, None

    a, b = (ag.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    seen, _ = multi([a, b])
    First.apply(a, b).backward()
    assert [values(s) for s in seen] == [[1.0, None]]


def test_any_takes_the_first():
    a, b = (ag.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    c = a * b
    seen, _ = multi([a, b, c], "any")
    (c * c).backward()
    assert values(seen) == [12.0]


def test_what_a_multi_hook_refuses():
    a = ag.tensor(1.0, requires_grad=True)
    with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got foo"):
        multi([a], "foo")
    with pytest.raises(RuntimeError, match="does not require grad"):
        multi([a.detach()])


def test_a_multi_hook_holds_no_pass_and_no_tensor():
    a, b = (ag.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    seen, _ = multi([a, b])
    (a * b).backward()
    seen.clear()
    gone = weakref.ref(b)
    gc.disable()
    try:
        del b
        assert gone() is None
    finally:
        gc.enable()
