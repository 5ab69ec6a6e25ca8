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
