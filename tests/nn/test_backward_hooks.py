"""Module.register_full_backward_hook: what hooks see, change, and when they are called, as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad import nn


def test_hooks_see_gradients_of_inputs_and_results(make, value):
    seen = []
    layer = nn.Linear(2, 1)
    layer.weight.data, layer.bias.data = ag.tensor([[2.0, 3.0]]), ag.tensor([1.0])
    handle = layer.register_full_backward_hook(lambda module, gi, go: seen.append((module, gi, go)))
    x = ag.tensor([[1.0, 1.0]], requires_grad=True)
    # x is used beside the layer, too: the hook sees the part of its gradient that goes through the layer
    (layer(x).sum() * 10 + x.sum()).backward()
    ((module, (gi,), (go,)),) = seen
    assert module is layer
    assert gi.tolist() == [[20.0, 30.0]]
    assert go.tolist() == [[10.0]]
    assert x.grad.tolist() == [[21.0, 31.0]]
    assert layer.weight.grad.tolist() == [[10.0, 10.0]]
    handle.remove()
    layer(x).sum().backward()
    assert len(seen) == 1


def test_a_hook_changes_the_gradient_by_its_input_and_not_by_parameters():
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data = ag.tensor([[2.0, 3.0]])
    layer.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))
    layer.register_full_backward_hook(lambda module, gi, go: (gi[0] + 1,))
    x = ag.tensor([[1.0, 1.0]], requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.tolist() == [[5.0, 7.0]]
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]


class Two(nn.Module):
    def forward(self, x, n, y):
        return x * y, n, x + y


def test_places_without_gradient_are_none():
    seen = []
    net = Two()
    net.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go)))
    x, y = ag.tensor([2.0], requires_grad=True), ag.tensor([3.0])
    product, n, total = net(x, 7, y)
    assert n == 7
    product.backward()
    ((gi, go),) = seen
    assert [None if g is None else g.tolist() for g in gi] == [[3.0], None, None]
    assert [None if g is None else g.tolist() for g in go] == [[1.0], None, None]
    assert total.requires_grad


def test_without_inputs_that_require_gradients_the_hook_sees_the_results():
    seen = []
    layer = nn.Linear(2, 1)
    handle = layer.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go[0].tolist())))
    layer(ag.ones((1, 2))).sum().backward()
    assert seen == [((None,), [[1.0]])]
    handle.remove()
    layer.register_full_backward_hook(lambda module, gi, go: (ag.ones(1),))
    with pytest.raises(RuntimeError, match="should always return None"):
        layer(ag.ones((1, 2))).sum().backward()


def test_without_recording_nothing_is_watched():
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda module, gi, go: pytest.fail("called"))
    with ag.no_grad():
        assert not layer(ag.ones((1, 2), requires_grad=True)).requires_grad


def test_a_wrong_number_of_gradients_is_refused():
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda module, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        layer(ag.ones((1, 2), requires_grad=True)).sum().backward()


def test_second_order_goes_through():
    layer = nn.Tanh()
    layer.register_full_backward_hook(lambda module, gi, go: (gi[0] * 3,))
    x = ag.tensor([0.5], requires_grad=True)
    (g,) = ag.autograd.grad(layer(x).sum(), x, create_graph=True)
    g.sum().backward()
    t = ag.tanh(ag.tensor(0.5)).item()
    assert g.item() == pytest.approx(3 * (1 - t * t))
    # the second pass does not come through the result of the layer: no hook is called, as in PyTorch (-2.1805859)
    assert x.grad.item() == pytest.approx(3 * -2 * t * (1 - t * t))


def test_other_hooks_and_keywords_still_work():
    order = []
    layer = nn.Linear(2, 1)
    layer.register_forward_pre_hook(lambda module, args: order.append("before"))
    layer.register_forward_hook(lambda module, args, result: order.append("after"))
    layer.register_full_backward_hook(lambda module, gi, go: order.append("backward"))
    layer(input=ag.ones((1, 2), requires_grad=True)).sum().backward()
    assert order == ["before", "after", "backward"]


def test_half():
    assert nn.Linear(2, 1).half().weight.dtype == ag.asarray(1.0).to("float16").dtype


@pytest.mark.parametrize("compiled", [False, True])
def test_a_pre_hook_changes_the_gradients_of_results(compiled):
    """PyTorch's numbers."""
    layer = nn.Linear(2, 1)
    layer.weight.data, layer.bias.data = ag.tensor([[2.0, 3.0]]), ag.tensor([1.0])
    layer.register_full_backward_pre_hook(lambda module, go: (go[0] * 10,))
    handle = layer.register_full_backward_pre_hook(lambda module, go: go[0] + 1)
    layer.register_full_backward_hook(lambda module, gi, go: (gi[0] + go[0],))
    x = ag.tensor([[1.0, 4.0]], requires_grad=True)
    call = ag.compile(layer) if compiled else layer

    def gradients():
        x.grad = None
        layer.zero_grad()
        call(x).sum().backward()
        return x.grad.tolist(), layer.weight.grad.tolist(), layer.bias.grad.tolist()

    for _ in range(3):
        assert gradients() == ([[33.0, 44.0]], [[11.0, 44.0]], [11.0])
    handle.remove()
    assert gradients() == ([[30.0, 40.0]], [[10.0, 40.0]], [10.0])


def test_a_pre_hook_alone_and_what_it_must_give():
    seen = []
    layer = nn.Linear(2, 1)
    layer.register_full_backward_pre_hook(lambda module, go: seen.append((module, go)))
    layer(ag.ones((1, 2))).sum().backward()
    ((module, (go,)),) = seen
    assert module is layer
    assert go.tolist() == [[1.0]]
    layer.register_full_backward_pre_hook(lambda module, go: (go[0], go[0]))
    words = "Backward pre hook returned an invalid number of grad_output, got 2, but expected 1"
    with pytest.raises(RuntimeError, match=words):
        layer(ag.ones((1, 2))).sum().backward()


def test_gradients_that_do_not_come_through_the_result_call_no_hook():
    """A forward hook takes the result before the module does: PyTorch's backward hooks say nothing of its gradient."""
    layer, taken, seen = nn.Linear(2, 3), [], []
    layer.register_forward_hook(lambda module, args, result: taken.append(result))
    layer.register_full_backward_hook(lambda module, gi, go: seen.append(go[0].tolist()))
    x = ag.ones((1, 2), requires_grad=True)
    result = layer(x)
    taken[0].sum().backward(retain_graph=True)
    assert seen == []
    np.testing.assert_array_equal(x.grad.numpy(), layer.weight.detach().numpy().sum(0)[None])
    result.sum().backward(retain_graph=True)
    taken[0].sum().backward()
    assert seen == [[[1.0, 1.0, 1.0]]]
    np.testing.assert_array_equal(x.grad.numpy(), 3 * layer.weight.detach().numpy().sum(0)[None])
