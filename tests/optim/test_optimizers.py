"""Optimisers and schedules: the numbers are PyTorch 2.13's on the same problem, written down here."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

import agrad as ag

A = np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.8], [0.4, 0.1, 1.2], [-0.7, 0.9, 0.6]])
START = [0.5, -0.25, 1.0]
STEPS = 20

CASES = {
    "sgd": lambda o, p: o.SGD(p, lr=0.01),
    "momentum": lambda o, p: o.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1),
    "dampening": lambda o, p: o.SGD(p, lr=0.01, momentum=0.9, dampening=0.3),
    "nesterov": lambda o, p: o.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "maximize": lambda o, p: o.SGD(p, lr=0.001, maximize=True),
    "adam": lambda o, p: o.Adam(p, lr=0.05),
    "adam weight decay": lambda o, p: o.Adam(p, lr=0.05, weight_decay=0.1),
    "amsgrad": lambda o, p: o.Adam(p, lr=0.05, amsgrad=True),
    "adamw": lambda o, p: o.AdamW(p, lr=0.05, weight_decay=0.1),
}
#: What PyTorch ends at.
EXPECTED = {
    "sgd": [0.25608334883396144, -0.031765560582365536, 0.35339390817042116],
    "momentum": [-0.1540545326703971, -0.06161912301858578, -0.0735768445789446],
    "dampening": [-0.14879411534480283, 0.07147330303647695, -0.2864293174363292],
    "nesterov": [-0.11258321224420899, -0.046180266531213314, -0.05311538438138501],
    "maximize": [0.5346561276268587, -0.29042715706903344, 1.1077510423613997],
    "adam": [-0.07512782257090952, 0.14707361709018882, 0.11923214427728673],
    "adam weight decay": [-0.07724782544418925, 0.14332201403707578, 0.1190005319828785],
    "amsgrad": [-0.07512480524206935, 0.14707405190118122, 0.11923200015465972],
    "adamw": [-0.0733928788090905, 0.12987105812435035, 0.08059702940263284],
}


def trained(make, *, schedule=None, steps=STEPS):
    w = ag.tensor(START, requires_grad=True)
    optimizer = make(ag.optim, [w])
    scheduler = schedule(optimizer) if schedule else None
    rates = []
    for _ in range(steps):
        optimizer.zero_grad()
        ((ag.asarray(A) @ w) ** 2).sum().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
            rates.append(optimizer.param_groups[0]["lr"])
    return w, rates


@pytest.mark.parametrize("case", CASES)
def test_twenty_steps_end_where_pytorch_ends(case):
    w, _ = trained(CASES[case])
    np.testing.assert_allclose(w.tolist(), EXPECTED[case], rtol=0, atol=1e-13)


def test_one_step_of_adam_is_the_learning_rate_against_the_sign():
    w = ag.tensor([3.0, -2.0], requires_grad=True)
    optimizer = ag.optim.Adam([w], lr=0.1, eps=0.0)
    (w * w).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(w.tolist(), [2.9, -1.9], rtol=1e-14)


SCHEDULES = {
    "step": (lambda o: ag.optim.lr_scheduler.StepLR(o, 2, 0.5), [1.0, 0.5, 0.5, 0.25]),
    "multi": (lambda o: ag.optim.lr_scheduler.MultiStepLR(o, [1, 3], 0.1), [0.1, 0.1, 0.01, 0.01]),
    "exponential": (lambda o: ag.optim.lr_scheduler.ExponentialLR(o, 0.5), [0.5, 0.25, 0.125, 0.0625]),
    "linear": (lambda o: ag.optim.lr_scheduler.LinearLR(o, 0.5, 1.0, 2), [0.75, 1.0, 1.0, 1.0]),
    "cosine": (
        lambda o: ag.optim.lr_scheduler.CosineAnnealingLR(o, 4),
        [(1 + math.cos(math.pi * k / 4)) / 2 for k in (1, 2, 3, 4)],
    ),
    "lambda": (lambda o: ag.optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (1 + e)), [1 / 2, 1 / 3, 1 / 4, 1 / 5]),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_schedules_follow_their_formula(case):
    make, expected = SCHEDULES[case]
    w = ag.tensor([1.0], requires_grad=True)
    optimizer = ag.optim.SGD([w], lr=1.0)
    scheduler = make(optimizer)
    found = []
    for _ in expected:
        optimizer.step()
        scheduler.step()
        found.append(scheduler.get_last_lr()[0])
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_the_linear_schedule_starts_below_the_rate():
    optimizer = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=1.0)
    ag.optim.lr_scheduler.LinearLR(optimizer, 0.25, 1.0, 3)
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_plateau_reduces_after_its_patience():
    optimizer = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=1.0)
    scheduler = ag.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    found = []
    for measure in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0):
        scheduler.step(ag.asarray(measure))
        found.append(scheduler.get_last_lr()[0])
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]


def test_groups_have_settings_of_their_own():
    a, b = ag.tensor([1.0], requires_grad=True), ag.tensor([1.0], requires_grad=True)
    optimizer = ag.optim.SGD([{"params": a}, {"params": [b], "lr": 0.5}], lr=0.1)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert (a.item(), b.item()) == (0.9, 0.5)


def test_a_parameter_without_gradient_stays():
    a, b = ag.tensor([1.0], requires_grad=True), ag.tensor([1.0], requires_grad=True)
    optimizer = ag.optim.Adam([a, b], lr=0.1)
    a.sum().backward()
    optimizer.step()
    assert b.item() == 1.0
    assert a.item() != 1.0


def test_zero_grad_drops_or_zeroes():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    optimizer = ag.optim.SGD([w])
    (w * w).sum().backward()
    kept = w.grad
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0.0, 0.0]
    assert kept.tolist() == [2.0, 4.0]
    optimizer.zero_grad()
    assert w.grad is None


def test_the_closure_is_differentiated_and_its_loss_given_back():
    w = ag.tensor([2.0], requires_grad=True)
    optimizer = ag.optim.SGD([w], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with ag.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 4.0
    assert w.item() == 1.0


def test_steps_do_not_grow_a_graph_and_keep_the_leaf():
    w, _ = trained(CASES["adamw"])
    assert w.is_leaf
    assert w.requires_grad
    optimizer = ag.optim.Adam([w])
    (w * w).sum().backward()
    optimizer.step()
    assert all(s is None or not getattr(s, "requires_grad", False) for s in optimizer.state[w].values())


def test_a_graph_recorded_before_the_step_has_the_gradient_of_its_own_values():
    w = ag.tensor([2.0], requires_grad=True)
    y = (w**3).sum()
    optimizer = ag.optim.SGD([w], lr=1.0)
    w.grad = ag.tensor([1.0])
    optimizer.step()
    optimizer.zero_grad()
    y.backward()
    assert w.item() == 1.0
    assert w.grad.item() == 12.0


@pytest.mark.parametrize("case", ["momentum", "amsgrad"])
def test_a_saved_state_goes_on_where_it_stopped(case):
    def advance(w, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            ((ag.asarray(A) @ w) ** 2).sum().backward()
            optimizer.step()

    w = ag.tensor(START, requires_grad=True)
    optimizer = CASES[case](ag.optim, [w])
    advance(w, optimizer, STEPS // 2)
    file = io.BytesIO()
    ag.save({"w": w.detach(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    loaded = ag.load(file)
    again = loaded["w"].requires_grad_()
    other = CASES[case](ag.optim, [again])
    other.load_state_dict(loaded["optimizer"])
    advance(again, other, STEPS // 2)
    np.testing.assert_allclose(again.tolist(), EXPECTED[case], rtol=0, atol=1e-13)


def test_bad_settings_and_parameters_are_refused():
    w = ag.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        ag.optim.SGD([w], lr=-1)
    with pytest.raises(ValueError, match=r"Invalid beta parameter at index 1: 1\.0"):
        ag.optim.Adam([w], betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="Nesterov momentum requires a momentum and zero dampening"):
        ag.optim.SGD([w], nesterov=True)
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        ag.optim.SGD([])
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        ag.optim.SGD(w)
    with pytest.raises(TypeError, match="one of the params is float"):
        ag.optim.SGD([1.0])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        ag.optim.SGD([w * 2])
    with pytest.raises(ValueError, match="a parameter appears twice in a parameter group"):
        ag.optim.SGD([w, w])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        ag.optim.SGD([{"params": [w]}, {"params": [w]}])


def test_a_foreign_state_changes_nothing():
    w = ag.tensor([1.0], requires_grad=True)
    optimizer = ag.optim.SGD([w], lr=0.5)
    other = ag.optim.SGD([ag.tensor([1.0], requires_grad=True), ag.tensor([1.0], requires_grad=True)], lr=0.1)
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict(other.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5
