"""Weights computed of parameters; PyTorch's numbers are in `test_layers_against_torch.py`."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest

import agrad as ag

nn, normed = ag.nn, ag.nn.utils.parametrizations
X = ag.asarray(np.sin(np.arange(15.0)).reshape(5, 3))


def spectral():
    ag.manual_seed(2)
    return normed.spectral_norm(nn.Linear(3, 4))


def test_a_weight_is_what_it_was_and_its_length_is_trained_apart():
    layer = nn.Linear(3, 4)
    weight = layer.weight.detach()
    normed.weight_norm(layer)
    np.testing.assert_allclose(layer.weight.detach().numpy(), weight.numpy(), rtol=1e-15)
    held = layer.parametrizations.weight
    assert list(layer.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    np.testing.assert_allclose(held.original0.detach().numpy()[:, 0], np.linalg.norm(weight.numpy(), axis=1))
    held.original1.data = held.original1.data * 7
    np.testing.assert_allclose(layer.weight.detach().numpy(), weight.numpy(), rtol=1e-14)
    assert repr(layer).startswith("ParametrizedLinear(\n  in_features=3")


def test_the_largest_singular_value_is_one_and_evaluation_changes_nothing():
    layer = spectral()
    for _ in range(300):
        layer(X)
    assert np.linalg.svd(layer.weight.detach().numpy())[1][0] == pytest.approx(1.0)
    layer.eval()
    state = {name: value.numpy() for name, value in layer.state_dict().items()}
    layer(X)
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[name])


@pytest.mark.parametrize("make", [spectral, lambda: normed.weight_norm(nn.Conv1d(5, 2, 2))])
def test_a_compiled_training_is_the_eager_one(make):
    ends = []
    for compiled in (False, True):
        ag.manual_seed(1)
        net = make()
        optimizer = ag.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            (net(x) ** 2).mean().backward()
            optimizer.step()

        run = ag.compile(step) if compiled else step
        for _ in range(5):
            run(X)
        ends.append({name: value.numpy() for name, value in net.state_dict().items()})
    assert list(ends[0]) == list(ends[1])
    for name, value in ends[0].items():
        np.testing.assert_allclose(ends[1][name], value, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", [spectral, lambda: normed.weight_norm(nn.Linear(3, 4))])
def test_copies_transforms_and_second_derivatives(make):
    layer = make().eval()
    other = copy.deepcopy(layer)
    other.bias.data = other.bias.data + 1
    np.testing.assert_allclose(other(X).detach().numpy(), layer(X).detach().numpy() + 1)
    parameters = dict(layer.named_parameters())

    def loss(parameters, x):
        return (ag.func.functional_call(layer, parameters, (x,)) ** 2).sum()

    each = ag.vmap(ag.func.grad(loss), in_dims=(None, 0))(parameters, X)
    whole = ag.func.grad(loss)(parameters, X)
    for name, gradient in whole.items():
        np.testing.assert_allclose(each[name].sum(axis=0).detach().numpy(), gradient.detach().numpy(), atol=1e-12)

    def of_parameters(*values):
        return ag.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (X,))

    assert ag.autograd.gradgradcheck(of_parameters, tuple(parameters.values()))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_of_networks_have_parameters_of_their_own(copied):
    both = normed.weight_norm(normed.spectral_norm(nn.Linear(3, 4)), "bias")
    net = nn.Sequential(both, nn.ReLU(), normed.weight_norm(nn.Linear(4, 2), dim=1)).eval()
    other = copied(net)
    assert repr(other) == repr(net)
    assert list(other.state_dict()) == list(net.state_dict())
    np.testing.assert_array_equal(other(X).detach().numpy(), net(X).detach().numpy())
    before = net(X).detach().numpy()
    for parameter in other.parameters():
        parameter.data = parameter.data * 0 + 1
    np.testing.assert_array_equal(net(X).detach().numpy(), before)
    assert not np.allclose(other(X).detach().numpy(), before)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: normed.weight_norm(nn.Linear(2, 2), "w"), ValueError, "Module 'Linear' does not have a parameter with name 'w'"),
        (lambda: normed.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), ValueError, "Expected n_power_iterations to be positive"),
        (lambda: normed.spectral_norm(nn.Linear(2, 2), dim=2), IndexError, "expected to be in range of [-2, 1] but got 2)"),
        (lambda: nn.utils.weight_norm, AttributeError, "here it is agrad.nn.utils.parametrizations.weight_norm"),
        (lambda: nn.utils.parametrize, AttributeError, "compute the weight in forward"),
    ],
)  # fmt: skip
def test_refusals(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
