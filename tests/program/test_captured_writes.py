"""Writes to tensors from outside of a transform: refused where they would leave a value of the transform behind."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.func import functional_call, grad, jvp, vjp, vmap

X = ag.asarray(np.arange(6.0).reshape(2, 3))
IN_VMAP = "vmap: inplace arithmetic"
IN_GRAD = "that would mutate a captured Tensor"

WRITES = {
    "add_": lambda t, x: t.add_(x),
    "copy_": lambda t, x: t.copy_(x),
    "item": lambda t, x: t.__setitem__(0, x[0]),
    "slice": lambda t, x: t.__setitem__(slice(None), x),
    "operator": lambda t, x: t.__imul__(x),
    "write to data": lambda t, x: t.data.copy_(x),
    "data": lambda t, x: setattr(t, "data", x),
}


class Holder:
    def __init__(self, t):
        self.t = t


def ways(t):
    """Functions that come to a tensor from outside in different ways, as PyTorch would refuse all of them."""
    held, table, several = Holder(t), {"t": t}, [t]

    def inner(write, x):
        write(held.t, x)

    return [
        lambda write, x: write(t, x),
        lambda write, x: write(table["t"], x),
        lambda write, x: write(several[0], x),
        lambda write, x: inner(write, x),
        lambda write, x, t=t: write(t, x),
    ]


def unchanged(t):
    return (
        t.tolist() == [0.0, 0.0, 0.0]
        and not t.requires_grad
        and t.grad_fn is None
        and isinstance(t.numpy(), np.ndarray)
    )


@pytest.mark.parametrize("way", range(5))
@pytest.mark.parametrize("write", WRITES)
def test_outside_tensors_keep_their_values(write, way):
    t = ag.zeros(3)
    put = ways(t)[way]

    def f(x):
        put(WRITES[write], x)
        return (x * x).sum()

    for transform in (vmap(f), vmap(grad(f))):
        with pytest.raises(RuntimeError, match=IN_VMAP):
            transform(X)
        assert unchanged(t)
    if write in ("write to data", "data"):  # without a history
        return
    calls = (
        lambda: grad(f)(X[0]),
        lambda: vjp(f, X[0]),
        lambda: jvp(f, (X[0],), (X[1],)),
        lambda: ag.func.jacfwd(f)(X[0]),
        lambda: ag.func.hessian(f)(X[0]),
    )
    for call in calls:
        with pytest.raises(RuntimeError, match=IN_GRAD):
            call()
        assert unchanged(t)


def test_the_error_names_the_tensor_and_the_line():
    table = {"sum": ag.zeros(3)}
    with pytest.raises(RuntimeError, match=r"table\['sum'\]") as found:
        vmap(lambda x: table["sum"].add_(x))(X)
    assert __file__ in str(found.value)


def test_an_argument_that_is_not_mapped_is_from_outside():
    t = ag.zeros(3)
    with pytest.raises(RuntimeError, match=IN_VMAP):
        vmap(lambda x, t: t.add_(x), in_dims=(0, None))(X, t)
    assert unchanged(t)
    np.testing.assert_array_equal(vmap(lambda x, t: t.add_(x))(X, ag.ones(2, 3)).numpy(), X.numpy() + 1)


def test_tensors_made_inside_and_plain_values_may_be_written():
    t, made = ag.zeros(3), []

    def f(x):
        own = ag.zeros(3)
        own[0] = x[1]
        own += x
        made.append(own)
        t.add_(1)
        with ag.no_grad():
            t.copy_(t * 2)
        return (own * own).sum()

    # own = (x0 + x1, x1, x2)
    expected = [[2 * (a + b), 2 * (a + b) + 2 * b, 2 * c] for a, b, c in X.tolist()]
    np.testing.assert_allclose(grad(f)(X[0]).numpy(), expected[0])
    np.testing.assert_allclose(vmap(grad(f))(X).numpy(), expected)
    assert t.tolist() == [6.0, 6.0, 6.0]  # ((0 + 1) * 2 + 1) * 2


@pytest.fixture
def norm():
    norm = ag.nn.BatchNorm1d(3)
    return norm, dict(norm.named_parameters()), dict(norm.named_buffers())


def test_batch_norm_in_training_is_refused_under_vmap(norm):
    norm, params, buffers = norm
    x = ag.asarray(np.random.default_rng(0).normal(size=(2, 5, 3)))
    net = ag.nn.Sequential(ag.nn.Sequential(norm))
    for f in (norm, net, lambda x: net(x), lambda x: functional_call(norm, (params, buffers), (x,))):
        with pytest.raises(RuntimeError, match="track_running_stats=False"):
            vmap(f)(x)
    assert norm.running_mean.tolist() == [0.0] * 3
    assert norm.running_var.tolist() == [1.0] * 3
    assert norm.num_batches_tracked.item() == 0  # PyTorch has counted by then
    assert vmap(norm.eval())(x).shape == (2, 5, 3)


def test_batch_norm_writes_to_buffers_that_are_made_inside(norm):
    norm, params, buffers = norm
    x = ag.asarray(np.random.default_rng(0).normal(size=(2, 5, 3)))

    def f(x):
        own = {name: b.clone() for name, b in buffers.items()}
        return functional_call(norm, (params, own), (x,)), own["running_mean"]

    _, means = vmap(f)(x)
    np.testing.assert_allclose(means.numpy(), 0.1 * x.numpy().mean(axis=1))
    assert norm.running_mean.tolist() == [0.0] * 3


def test_running_statistics_follow_inside_grad(norm):
    norm, params, _ = norm
    x = ag.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    grad(lambda params: functional_call(norm, params, (x,)).sum())(params)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * x.numpy().mean(axis=0))
    assert not norm.running_mean.requires_grad
    assert norm.num_batches_tracked.item() == 1
