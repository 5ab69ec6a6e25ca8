"""What optimisers keep: on every backend, by kernel or by formula, without touching what others hold. And more schedules.

The numbers are PyTorch 2.13's on the same problem.
"""

from __future__ import annotations

import gc
from functools import partial

import numpy as np
import pytest

import agrad as ag
from agrad.optim import lr_scheduler as schedules

A = np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.8], [0.4, 0.1, 1.2], [-0.7, 0.9, 0.6]])
START = [0.5, -0.25, 1.0]

#: As in test_optimizers.py: 20 steps on the sum of squares of A w.
CASES = {
    "sgd": (
        lambda p: ag.optim.SGD(p, lr=0.01),
        [0.25608334883396144, -0.031765560582365536, 0.35339390817042116],
    ),
    "momentum": (
        lambda p: ag.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1),
        [-0.1540545326703971, -0.06161912301858578, -0.0735768445789446],
    ),
    "dampening": (
        lambda p: ag.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.3),
        [-0.14879411534480283, 0.07147330303647695, -0.2864293174363292],
    ),
    "nesterov": (
        lambda p: ag.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
        [-0.11258321224420899, -0.046180266531213314, -0.05311538438138501],
    ),
    "amsgrad": (
        lambda p: ag.optim.Adam(p, lr=0.05, amsgrad=True),
        [-0.07512480524206935, 0.14707405190118122, 0.11923200015465972],
    ),
    "adamw": (
        lambda p: ag.optim.AdamW(p, lr=0.05, weight_decay=0.1),
        [-0.0733928788090905, 0.12987105812435035, 0.08059702940263284],
    ),
}


def advance(w, optimizer, a, steps=20):
    for _ in range(steps):
        optimizer.zero_grad()
        ((a @ w) ** 2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
def test_the_same_numbers_on_every_backend(case, make, value):
    optimizer_of, expected = CASES[case]
    w = make(START, requires_grad=True)
    advance(w, optimizer_of([w]), make(A))
    np.testing.assert_allclose(value(w), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("case", ["momentum", "amsgrad"])
def test_looking_at_the_state_does_not_change_what_follows(case, value):
    optimizer_of, expected = CASES[case]
    w = ag.tensor(START, requires_grad=True)
    optimizer = optimizer_of([w])
    seen = []
    for _ in range(20):
        advance(w, optimizer, ag.asarray(A), 1)
        for name, kept in optimizer.state[w].items():
            if isinstance(kept, ag.Tensor):
                seen.append((name, value(kept), value(kept).copy()))
    np.testing.assert_allclose(w.tolist(), expected, rtol=0, atol=1e-13)
    assert len({tuple(copy) for _, _, copy in seen}) > len(seen) // 2
    assert all((array == copy).all() for _, array, copy in seen)


@pytest.mark.parametrize("case", ["momentum", "adamw"])
def test_a_saved_state_is_a_snapshot(case):
    optimizer_of, _ = CASES[case]
    w = ag.tensor(START, requires_grad=True)
    optimizer = optimizer_of([w])
    advance(w, optimizer, ag.asarray(A), 3)
    saved = optimizer.state_dict()
    numbers = {k: v.tolist() for k, v in saved["state"][0].items() if isinstance(v, ag.Tensor)}
    advance(w, optimizer, ag.asarray(A), 3)
    assert {k: v.tolist() for k, v in saved["state"][0].items() if isinstance(v, ag.Tensor)} == numbers
    other = optimizer_of([ag.tensor(START, dtype=ag.float32, requires_grad=True)])
    other.load_state_dict(saved)
    kept = [v for v in other.state[other.param_groups[0]["params"][0]].values() if isinstance(v, ag.Tensor)]
    assert all(ag.isdtype(v.dtype, ag.float32) for v in kept)
    other.load_state_dict(optimizer.state_dict())
    assert {k: v.tolist() for k, v in saved["state"][0].items() if isinstance(v, ag.Tensor)} == numbers


@pytest.mark.parametrize("shape", [(), (0,), (3,), (200, 400)])
@pytest.mark.parametrize("case", CASES)
def test_any_shape_and_layout(shape, case, value):
    rng = np.random.default_rng(0)
    start, g = rng.normal(size=shape), rng.normal(size=shape[::-1]).T
    big, small = ag.tensor(start, requires_grad=True), [ag.tensor(v, requires_grad=True) for v in start.reshape(-1)[:5]]
    optimizer = CASES[case][0]([big, *small])
    for _ in range(3):
        big.grad = ag.asarray(g)
        for p, v in zip(small, g.reshape(-1), strict=False):
            p.grad = ag.asarray(v)
        optimizer.step()
    assert big.shape == shape
    np.testing.assert_allclose(value(big).reshape(-1)[:5], [p.item() for p in small], rtol=1e-13)


def test_neither_values_nor_gradients_of_the_user_are_written_to():
    start, g = np.array(START), np.array([1.0, 2.0, 3.0])
    w = ag.asarray(start).requires_grad_()
    optimizer = ag.optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=0.1)
    for _ in range(3):
        w.grad = ag.asarray(g)
        optimizer.step()
    assert start.tolist() == START
    assert g.tolist() == [1.0, 2.0, 3.0]


def test_a_subclass_needs_an_update_only():
    class SignDescent(ag.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def update(self, p, g, group, state):
            state["steps"] = state.get("steps", 0) + 1
            return p - group["lr"] * ag.sign(g)

    w = ag.tensor([1.0, -2.0], requires_grad=True)
    optimizer = SignDescent([w], lr=0.5)
    (w * w).sum().backward()
    optimizer.step()
    assert w.tolist() == [0.5, -1.5]
    assert optimizer.state_dict()["state"] == {0: {"steps": 1}}
    assert repr(optimizer) == "SignDescent (\nParameter Group 0\n    lr: 0.5\n)"


def test_a_group_added_later_is_trained():
    a, b = ag.tensor([1.0], requires_grad=True), ag.tensor([1.0], requires_grad=True)
    optimizer = ag.optim.SGD([a], lr=0.5)
    optimizer.add_param_group({"params": b, "lr": 0.25})
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert (a.item(), b.item()) == (0.5, 0.75)
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimizer.add_param_group({"params": [b]})
    with pytest.raises(TypeError, match="param_group must be a dict, but got list"):
        optimizer.add_param_group([b])
    assert len(optimizer.param_groups) == 2


def test_steps_leave_nothing_behind():
    w = ag.tensor(START, requires_grad=True)
    optimizer = ag.optim.Adam([w])
    for _ in range(5):  # the first make state, and where they are compiled, programs
        advance(w, optimizer, ag.asarray(A), 50)
    gc.collect()
    before = len(gc.get_objects())
    advance(w, optimizer, ag.asarray(A), 50)
    gc.collect()
    assert len(gc.get_objects()) - before < 20


def test_adam_takes_real_parameters():
    z = ag.tensor([1.0 + 1.0j], requires_grad=True)
    with pytest.raises(TypeError, match="Adam takes real parameters"):
        ag.optim.Adam([z])
    optimizer = ag.optim.SGD([z], lr=0.5)
    z.grad = ag.tensor([2.0j])
    optimizer.step()
    assert z.tolist() == [1.0 + 0.0j]


# -- schedules ------------------------------------------------------------------------------------------------------------


def rates(make_schedule, steps, measures=None):
    """Give the learning rate after every step, from 1."""
    optimizer = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=1.0)
    made = make_schedule(optimizer)
    made = made if isinstance(made, list) else [made]
    found = []
    for i in range(steps):
        optimizer.step()
        for schedule in made:
            schedule.step(*(() if measures is None else (measures[i],)))
        found.append(optimizer.param_groups[0]["lr"])
    return found


MEASURES = [3.0, 2.0, 1.99, 1.98, 1.9, 1.5, 1.5, 1.5, 1.5, 1.4]
PLATEAUS = {
    "rel": ({"factor": 0.5, "patience": 1, "threshold": 0.1}, [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]),
    "abs": (
        {"factor": 0.5, "patience": 0, "threshold": 0.3, "threshold_mode": "abs", "min_lr": 0.2},
        [1, 1, 0.5, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2],
    ),
    "cooldown": (
        {"factor": 0.5, "patience": 0, "threshold": 0.1, "cooldown": 2},
        [1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125],
    ),
    "max": ({"mode": "max", "factor": 0.1, "patience": 3}, [1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01]),
}


@pytest.mark.parametrize("case", PLATEAUS)
def test_plateaus(case):
    options, expected = PLATEAUS[case]
    found = rates(lambda o: schedules.ReduceLROnPlateau(o, **options), len(MEASURES), MEASURES)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_beyond_the_half_cosine_the_rate_rises_again():
    found = rates(lambda o: schedules.CosineAnnealingLR(o, 3, eta_min=0.2), 8)
    expected = [0.2 + 0.8 * (1 + np.cos(np.pi * k / 3)) / 2 for k in range(1, 9)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_constant_and_the_linear_schedule_end():
    assert rates(lambda o: schedules.ConstantLR(o, 0.5, 2), 3) == [0.5, 1.0, 1.0]
    np.testing.assert_allclose(rates(lambda o: schedules.LinearLR(o, 0.25, 0.75, 2), 4), [0.5, 0.75, 0.75, 0.75])


def test_schedules_act_together():
    both = rates(lambda o: [schedules.ExponentialLR(o, 0.5), schedules.StepLR(o, 2, 0.1)], 4)
    np.testing.assert_allclose(both, [0.5, 0.025, 0.0125, 0.000625], rtol=1e-12)


def test_each_group_keeps_its_own_rate():
    a, b = ag.tensor([1.0], requires_grad=True), ag.tensor([1.0], requires_grad=True)
    optimizer = ag.optim.SGD([{"params": a, "lr": 1.0}, {"params": b, "lr": 0.5}])
    schedule = schedules.LambdaLR(optimizer, [lambda e: 0.5**e, lambda e: 0.1**e])
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.5, 0.05]
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        schedules.LambdaLR(optimizer, [abs])


def test_a_schedule_goes_on_from_its_state():
    def fresh():
        return ag.optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=1.0)

    optimizer = fresh()
    schedule = schedules.CosineAnnealingLR(optimizer, 10)
    for _ in range(4):
        optimizer.step()
        schedule.step()
    other = fresh()
    again = schedules.CosineAnnealingLR(other, 10)
    other.load_state_dict(optimizer.state_dict())
    again.load_state_dict(schedule.state_dict())
    for o, s in ((optimizer, schedule), (other, again)):
        o.step()
        s.step()
    assert again.get_last_lr() == schedule.get_last_lr()
    resumed = schedules.CosineAnnealingLR(optimizer, 10, last_epoch=4)
    assert resumed.last_epoch == 5


@pytest.mark.parametrize(
    "make",
    [
        lambda o, epoch: schedules.CosineAnnealingLR(o, 10, 0.1, epoch),
        lambda o, epoch: schedules.ExponentialLR(o, 0.5, epoch),
        lambda o, epoch: schedules.LinearLR(o, 0.2, 0.9, 6, epoch),
        lambda o, epoch: schedules.MultiplicativeLR(o, lambda e: 1 / (1 + e), epoch),
        lambda o, epoch: schedules.PolynomialLR(o, 9, 2.0, epoch),
    ],
)
def test_a_schedule_goes_on_from_an_epoch(make):
    optimizer = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=1.0)
    schedule, found = make(optimizer, -1), []
    for i in range(9):
        if i == 4:
            other = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)])
            other.load_state_dict(optimizer.state_dict())
            resumed = make(other, 3)  # PyTorch's meaning: epoch 4 is set up, with the rate that is there
            assert resumed.last_epoch == 4
            assert resumed.get_last_lr() == schedule.get_last_lr()
        for one in (schedule, resumed) if i >= 4 else (schedule,):
            one.optimizer.step()
            one.step()
        found.append(schedule.get_last_lr()[0])
        assert i < 4 or resumed.get_last_lr() == schedule.get_last_lr()
    assert len(set(found)) > 5


def test_a_schedule_stepped_before_its_optimizer_warns():
    schedule = schedules.StepLR(ag.optim.SGD([ag.tensor([1.0], requires_grad=True)]), 1)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()


def test_bad_schedules_are_refused():
    optimizer = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)])
    with pytest.raises(TypeError, match="str is not an Optimizer"):
        schedules.StepLR("adam", 1)
    with pytest.raises(ValueError, match=r"Factor should be < 1\.0\."):
        schedules.ReduceLROnPlateau(optimizer, factor=1.0)
    with pytest.raises(ValueError, match="mode best is unknown!"):
        schedules.ReduceLROnPlateau(optimizer, mode="best")
    with pytest.raises(ValueError, match="expected 1 min_lrs, got 2"):
        schedules.ReduceLROnPlateau(optimizer, min_lr=[0.1, 0.2])
    with pytest.raises(ValueError, match="Starting multiplicative factor"):
        schedules.LinearLR(optimizer, start_factor=0.0)
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified in param_groups"):
        schedules.StepLR(optimizer, 1, last_epoch=3)


def test_a_step_of_the_users_own_counts_as_one_for_schedules(recwarn):
    class Plain(ag.optim.Optimizer):
        @ag.no_grad
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad, alpha=-group["lr"])

    w = ag.tensor([3.0], requires_grad=True)
    optimizer = Plain([w], {"lr": 0.5})
    schedule = ag.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (2 * w).sum().backward()
        optimizer.step()
        schedule.step()
    assert w.tolist() == [3.0 - 1.0 - 0.5]
    assert not recwarn.list


# A gradient of ones for three steps: the sums of the steps, by hand.
@pytest.mark.parametrize("wrapped", [lambda step: step, ag.compile], ids=["plain", "compiled"])
@pytest.mark.parametrize(("made_in", "cast_to"), [("float64", "float32"), ("float32", "float64")])
@pytest.mark.parametrize(
    ("optimizer", "moved"),
    [
        (partial(ag.optim.SGD, momentum=0.9), 1.0 + 1.9 + 2.71),
        (partial(ag.optim.Adam, eps=0.0), 3.0),
        (partial(ag.optim.RMSprop, eps=0.0), sum((1.0 - 0.99**n) ** -0.5 for n in (1, 2, 3))),
        (partial(ag.optim.Adagrad, eps=0.0), sum(n**-0.5 for n in (1, 2, 3))),
    ],
)
def test_parameters_and_state_keep_their_dtypes_after_a_cast(optimizer, moved, made_in, cast_to, wrapped):
    p = ag.nn.Parameter(ag.ones(3, dtype=made_in))
    made = optimizer([p], lr=0.1)
    step = wrapped(made.step)
    for dtype in (made_in, made_in, cast_to):
        p.data = p.data.to(dtype=dtype)
        p.grad = ag.ones(3, dtype=dtype)
        step()
    assert str(p.dtype) == cast_to
    np.testing.assert_allclose(p.detach().numpy(), np.full(3, 1.0 - 0.1 * moved), rtol=1e-6)
    assert {str(value.dtype) for value in made.state[p].values() if isinstance(value, ag.Tensor)} == {made_in}
