"""Leaves that a compiled function makes itself: derivatives by them are part of the program, and nobody else sees them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import agrad as ag


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def points(i):
    return np.linspace(0.1, 1.0, 4)[:, None] + 0.1 * i


def by_clone(x):
    return x.clone().requires_grad_(True)


def by_detach(x):
    return x.detach().requires_grad_()


def by_flag(x):
    made = x * 1.0
    made.requires_grad = True
    return made


@pytest.mark.parametrize("leaf", [by_clone, by_detach, by_flag])
def test_a_result_that_is_followed_to_a_leaf_made_inside(leaf):
    compiled = ag.compile(lambda x: (leaf(x) ** 2).sum(), check=False)
    for i in range(4):
        result = compiled(ag.asarray(points(i)))
        np.testing.assert_allclose(result.item(), (points(i) ** 2).sum())
        assert result.requires_grad
        assert not result.is_leaf
        result.backward()
        with pytest.raises(RuntimeError, match="second time"):
            result.backward()
        again = compiled(ag.asarray(points(i)))
        other = ag.ones(1, requires_grad=True)
        assert ag.autograd.grad(again * other, [other])[0].item() == again.item()
        assert ag.autograd.grad(compiled(ag.asarray(points(i))), other, allow_unused=True) == (None,)
    assert len(compiled.programs) == 1


def test_a_constant_that_requires_a_gradient():
    def f(x):
        scale = ag.tensor([2.0], requires_grad=True)
        (scale * x).sum().backward()
        return scale.grad, (scale * x).sum()

    compiled = ag.compile(f, check=False)
    for i in range(4):
        gradient, total = compiled(ag.asarray(points(i)))
        np.testing.assert_allclose([gradient.item(), total.item()], [points(i).sum(), 2 * points(i).sum()])
        assert total.requires_grad
    assert len(compiled.programs) == 1


def test_a_result_that_is_followed_to_a_leaf_made_inside_and_one_that_is_not():
    w = ag.tensor([2.0], requires_grad=True)
    compiled = ag.compile(lambda x: ((by_clone(x) ** 2).sum(), (by_clone(x) * w).sum()), check=False)
    for i in range(4):
        one, other = compiled(ag.asarray(points(i)))
        w.grad = None
        one.backward()
        assert w.grad is None
        other.backward()
        np.testing.assert_allclose(w.grad.numpy(), [points(i).sum()])
    assert len(compiled.programs) == 1


def train(wrap, *, within):
    """Return the losses of an equation's residual, du/dx = -u, and of u(0) = 1."""
    ag.manual_seed(0)
    net = ag.nn.Sequential(ag.nn.Linear(1, 4), ag.nn.Tanh(), ag.nn.Linear(4, 1))
    optimizer = ag.optim.Adam(net.parameters(), lr=0.05)

    def loss_at(x):
        x = x.clone().requires_grad_(True)
        u = net(x)
        (du,) = ag.autograd.grad(u.sum(), x, create_graph=True)
        return ((du + u) ** 2).mean() + ((net(x[:1] * 0) - 1) ** 2).mean()

    def step(x):
        optimizer.zero_grad()
        loss = loss_at(x)
        loss.backward()
        return loss

    run = wrap(step if within else loss_at)
    losses = []
    for i in range(8):
        if not within:
            optimizer.zero_grad()
        loss = run(ag.asarray(points(i)))
        if within:
            with pytest.raises(RuntimeError, match="second time"):
                loss.backward()
        else:
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, run


@pytest.mark.parametrize("within", [False, True], ids=["differentiated outside", "within"])
def test_residuals_of_differential_equations(within):
    found, step = train(ag.compile, within=within)
    expected, _ = train(lambda f: f, within=within)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert len(step.programs) == 1


def test_a_leaf_made_inside_that_is_kept_elsewhere_is_no_program():
    kept = {"leaf": None}

    def f(x):
        kept["leaf"] = leaf = x.clone().requires_grad_(True)
        loss = (leaf**2).sum()
        loss.backward()
        return loss

    compiled = ag.compile(f)
    with pytest.warns(ag.func.CompileWarning):
        compiled(ag.asarray(points(0)))
    for i in range(4):
        compiled(ag.asarray(points(i)))
        np.testing.assert_allclose(kept["leaf"].grad.numpy(), 2 * points(i))
