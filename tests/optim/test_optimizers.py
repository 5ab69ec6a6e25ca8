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
    "rmsprop": lambda o, p: o.RMSprop(p, lr=0.01),
    "rmsprop centered": lambda o, p: o.RMSprop(p, 0.01, alpha=0.9, centered=True, momentum=0.9, weight_decay=0.1),
    "adadelta": lambda o, p: o.Adadelta(p),
    "adadelta decay": lambda o, p: o.Adadelta(p, 0.5, rho=0.8, eps=1e-4, weight_decay=0.1),
    "adagrad": lambda o, p: o.Adagrad(p, lr=0.1),
    "adagrad decay": lambda o, p: o.Adagrad(p, 0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.5),
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
    "rmsprop": [0.061584953930175365, 0.07179684196062162, 0.3716964904587906],
    "rmsprop centered": [0.0005940263506441037, -0.09239604547407466, -0.3051339742610301],
    "adadelta": [0.43398019061855403, -0.18486727962720664, 0.9319553226957459],
    "adadelta decay": [0.2742441749994004, -0.03784933396497443, 0.7469923594460324],
    "adagrad": [0.06506315307571582, 0.07280554814433891, 0.3816348436464398],
    "adagrad decay": [0.11126491377269998, 0.06991212167786114, 0.49360115482577943],
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


RATED = ["SGD", "Adam", "AdamW", "RMSprop", "Adadelta"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "compiled"),
    # a decay of Adagrad's rate is computed by Python, which no program holds
    [*((name, compiled) for name in RATED for compiled in (False, True)), ("Adagrad", False)],
)
def test_a_rate_may_be_a_tensor(name, dtype, compiled):
    found = []
    for rate in (ag.asarray(0.1), 0.1):
        w = ag.asarray([1.0, -2.0], dtype=dtype, requires_grad=True)
        optimizer = getattr(ag.optim, name)([w], lr=rate)

        def train(w=w, optimizer=optimizer, rate=rate):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            return rate * 1.0

        step = ag.compile(train) if compiled else train
        for n in range(6):
            if n == 4:  # in place where it is a tensor
                optimizer.param_groups[0]["lr"] *= 0.5
            step()
        assert w.dtype == getattr(ag, dtype)
        assert not compiled or step.programs
        found.append(w.tolist())
    if name == "SGD":
        np.testing.assert_allclose(found[0], np.multiply([1.0, -2.0], 0.8**4 * 0.9**2), rtol=1e-6)
    assert found[0] == found[1]


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


def test_a_step_of_ones_own_finds_an_empty_state():
    """As PyTorch's optimisers are written: ``state = self.state[p]``, filled at the first step."""

    class Heavy(ag.optim.Optimizer):
        def step(self, closure=None):
            with ag.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if len(state) == 0:
                            state["step"], state["speed"] = 0, ag.zeros_like(p)
                        state["step"] += 1
                        state["speed"].mul_(0.9).add_(p.grad)
                        p.sub_(group["lr"] * state["speed"])

    w = ag.tensor([1.0, 2.0], requires_grad=True)
    optimizer = Heavy([w], {"lr": 0.1})
    for _ in range(2):
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
    np.testing.assert_allclose(w.tolist(), [1 - 0.1 - 0.19, 2 - 0.1 - 0.19])
    again = Heavy([w], {"lr": 0.1})
    assert again.state[w] == {}
    again.load_state_dict(optimizer.state_dict())
    assert again.state[w]["step"] == 2
    assert again.state[ag.zeros(2)] == {}


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


# -- L-BFGS -------------------------------------------------------------------------------------------------------------


def closure_of(optimizer, loss):
    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    return closure


def test_three_steps_of_lbfgs_end_where_pytorch_ends(backend, make, value):
    w, a = make(START, requires_grad=True), make(A)
    optimizer = ag.optim.LBFGS([w], lr=0.3, max_iter=3, history_size=2)
    for _ in range(3):
        optimizer.step(closure_of(optimizer, lambda: ((a @ w) ** 2).sum()))
    np.testing.assert_allclose(
        value(w), [0.08480672270472003, -0.023136694519450125, 0.1387016880265427], rtol=0, atol=1e-13
    )


def test_lbfgs_with_a_line_search_comes_down_rosenbrocks_valley():
    # PyTorch needs 43 evaluations, and so do the same conditions, interpolation and bounds here
    x, y = ag.tensor(-1.2, requires_grad=True), ag.tensor([1.0], requires_grad=True)
    optimizer = ag.optim.LBFGS([x, y], max_iter=100, line_search_fn="strong_wolfe")
    calls = []

    def loss():
        calls.append(1)
        return ((1 - x) ** 2 + 100 * (y - x**2) ** 2).sum()

    first = optimizer.step(closure_of(optimizer, loss))
    assert first.item() == pytest.approx(24.2)
    np.testing.assert_allclose([x.item(), y.item()], [1.0, 1.0], atol=5e-5)
    assert len(calls) <= 50
    with pytest.raises(TypeError, match="needs a closure"):
        optimizer.step()
    with pytest.raises(ValueError, match="parameter groups"):
        ag.optim.LBFGS([{"params": [x]}, {"params": [y]}])
    with pytest.raises(ValueError, match="strong_wolfe"):
        ag.optim.LBFGS([x], line_search_fn="armijo")


@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
def test_a_line_search_steps_back_from_what_is_not_finite():
    w = ag.tensor([1.0], requires_grad=True)
    optimizer = ag.optim.LBFGS([w], lr=10.0, tolerance_change=1e-14, line_search_fn="strong_wolfe")
    optimizer.step(closure_of(optimizer, lambda: (w - ag.log(w)).sum() + 0.5 * (w * w).sum()))
    # the root of 1 - 1 / w + w
    np.testing.assert_allclose(w.tolist(), [(math.sqrt(5) - 1) / 2], atol=1e-6)


def test_a_failing_closure_leaves_lbfgs_as_it_was():
    w = ag.tensor(START, requires_grad=True)
    optimizer = ag.optim.LBFGS([w], max_iter=5)
    calls = []

    def loss():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return ((ag.asarray(A) @ w) ** 2).sum()

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure_of(optimizer, loss))
    assert w.tolist() == START
    assert optimizer.state_dict()["state"] == {0: {}}


def test_lbfgs_goes_on_from_a_saved_state():
    def trained(save_at):
        w = ag.tensor(START, requires_grad=True)
        optimizer = ag.optim.LBFGS([w], lr=0.3, max_iter=2)
        for i in range(4):
            if i == save_at:
                buffer = io.BytesIO()
                ag.save(optimizer.state_dict(), buffer)
                buffer.seek(0)
                optimizer = ag.optim.LBFGS([w], lr=0.3, max_iter=2)
                optimizer.load_state_dict(ag.load(buffer))
            optimizer.step(closure_of(optimizer, lambda: ((ag.asarray(A) @ w) ** 2).sum()))
        return w.tolist()

    assert trained(2) == trained(None)


# -- schedules over a whole training: PyTorch's rates and momenta -----------------------------------------------------------

LONG = {
    "one cycle": (
        lambda p: ag.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda o: ag.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=10),
        [
            0.52,
            1.0,
            0.950484632013,
            0.81174565395,
            0.611262021936,
            0.388741978064,
            0.18825834605,
            0.049519367987,
            4e-06,
        ],
        [
            0.9,
            0.85,
            0.854951556605,
            0.868825509907,
            0.888873953302,
            0.911126046698,
            0.931174490093,
            0.945048443395,
            0.95,
        ],
    ),
    "three phases": (
        lambda p: ag.optim.Adam(p, lr=0.1),
        lambda o: ag.optim.lr_scheduler.OneCycleLR(
            o, 0.5, epochs=3, steps_per_epoch=4, pct_start=0.25, anneal_strategy="linear", three_phase=True
        ),
        [0.26, 0.5, 0.26, 0.02, 0.017143142857, 0.014286285714, 0.011429428571, 0.008572571429, 0.005715714286],
        [0.9, 0.85, 0.9, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95],
    ),
    "cyclic": (
        lambda p: ag.optim.SGD(p, lr=1.0, momentum=0.5),
        lambda o: ag.optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, step_size_up=3, step_size_down=2),
        [0.233333333333, 0.366666666667, 0.5, 0.3, 0.1, 0.233333333333, 0.366666666667, 0.5, 0.3],
        [0.866666666667, 0.833333333333, 0.8, 0.85, 0.9, 0.866666666667, 0.833333333333, 0.8, 0.85],
    ),
    "cyclic, halved": (
        lambda p: ag.optim.Adam(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, step_size_up=2, mode="triangular2"),
        [0.3, 0.5, 0.3, 0.1, 0.2, 0.3, 0.2, 0.1, 0.15],
        [0.85, 0.8, 0.85, 0.9, 0.875, 0.85, 0.875, 0.9, 0.8875],
    ),
    "cyclic, less at each step": (
        lambda p: ag.optim.SGD(p, lr=1.0, momentum=0.5),
        lambda o: ag.optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, step_size_up=2, mode="exp_range", gamma=0.9),
        [0.28, 0.424, 0.2458, 0.1, 0.218098, 0.3125764, 0.19565938, 0.1],
        [0.855, 0.819, 0.86355, 0.9, 0.8704755, 0.8468559, 0.876085155, 0.9],
    ),
    "three schedules": (
        lambda p: ag.optim.SGD(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.SequentialLR(
            o,
            [
                ag.optim.lr_scheduler.LinearLR(o, 0.25, 1.0, 3),
                ag.optim.lr_scheduler.ExponentialLR(o, 0.5),
                ag.optim.lr_scheduler.CosineAnnealingLR(o, 4),
            ],
            [3, 5],
        ),
        [0.5, 0.75, 1.0, 0.5, 1.0, 0.853553390593, 0.5, 0.146446609407, 0.0],
        [0.0] * 9,
    ),
    "warm restarts": (
        lambda p: ag.optim.SGD(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2, 0.1),
        [0.55, 1.0, 0.868198051534, 0.55, 0.231801948466, 1.0, 0.96574578963, 0.868198051534, 0.722207544564],
        [0.0] * 9,
    ),
    "a polynomial": (
        lambda p: ag.optim.SGD(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.PolynomialLR(o, 6, 2.0),
        [0.694444444444, 0.444444444444, 0.25, 0.111111111111, 0.027777777778, 0.0, 0.0, 0.0, 0.0],
        [0.0] * 9,
    ),
    "a product": (
        lambda p: ag.optim.SGD(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.MultiplicativeLR(o, lambda e: 1 / (1 + e)),
        [1 / math.factorial(n) for n in range(2, 11)],
        [0.0] * 9,
    ),
    "a chain": (
        lambda p: ag.optim.SGD(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.ChainedScheduler(
            [ag.optim.lr_scheduler.ConstantLR(o, 0.1, 4), ag.optim.lr_scheduler.ExponentialLR(o, 0.9)]
        ),
        [0.09, 0.081, 0.0729, 0.6561, 0.59049, 0.531441, 0.4782969, 0.43046721, 0.387420489],
        [0.0] * 9,
    ),
    "a product after a warm-up": (
        lambda p: ag.optim.SGD(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.SequentialLR(
            o,
            [
                ag.optim.lr_scheduler.LinearLR(o, 0.5, 0.8, 2),
                ag.optim.lr_scheduler.MultiplicativeLR(o, lambda e: 0.5),
            ],
            [3],
        ),
        [0.65, 0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.0125, 0.00625],
        [0.0] * 9,
    ),
    "a chain after a warm-up": (  # of the definitions: PyTorch refuses chains in sequences
        lambda p: ag.optim.SGD(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.SequentialLR(
            o,
            [
                ag.optim.lr_scheduler.LinearLR(o, 0.5, 1.0, 2),
                ag.optim.lr_scheduler.ChainedScheduler(
                    [ag.optim.lr_scheduler.StepLR(o, 2), ag.optim.lr_scheduler.ExponentialLR(o, 0.5)]
                ),
            ],
            [3],
        ),
        [0.75, 1.0, 1.0, 0.5, 0.025, 0.0125, 0.000625, 0.0003125, 0.000015625],
        [0.0] * 9,
    ),
    "restarts after a warm-up": (
        lambda p: ag.optim.SGD(p, lr=1.0),
        lambda o: ag.optim.lr_scheduler.SequentialLR(
            o,
            [
                ag.optim.lr_scheduler.LinearLR(o, 0.5, 1.0, 2),
                ag.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
            ],
            [2],
        ),
        [0.75, 1.0, 0.75, 0.25, 1.0, 0.75, 0.25, 1.0, 0.75],
        [0.0] * 9,
    ),
}


@pytest.mark.parametrize("case", LONG)
@pytest.mark.parametrize("saved", [False, True])
def test_rates_and_momenta_are_pytorchs(case, saved):
    make, schedule, rates, momenta = LONG[case]
    optimizer = make([ag.tensor([1.0], requires_grad=True)])
    scheduler = schedule(optimizer)
    found = []
    for i in range(len(rates)):
        if saved and i == 4:
            states = optimizer.state_dict(), scheduler.state_dict()
            optimizer = make([ag.tensor([1.0], requires_grad=True)])
            scheduler = schedule(optimizer)
            optimizer.load_state_dict(states[0])
            scheduler.load_state_dict(states[1])
        optimizer.step()
        scheduler.step()
        group = optimizer.param_groups[0]
        found.append((group["lr"], group["momentum"] if "momentum" in group else group["betas"][0]))
    np.testing.assert_allclose(found, list(zip(rates, momenta, strict=True)), atol=1e-11)


def test_what_schedules_refuse():
    schedules = ag.optim.lr_scheduler
    optimizer = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=1.0, momentum=0.9)
    with pytest.raises(ValueError, match="total_steps OR"):
        schedules.OneCycleLR(optimizer, 1.0)
    with pytest.raises(ValueError, match="pct_start"):
        schedules.OneCycleLR(optimizer, 1.0, 10, pct_start=2.0)
    with pytest.raises(ValueError, match="expected 1 values for max_lr, got 2"):
        schedules.OneCycleLR(optimizer, [1.0, 2.0], 10)
    with pytest.raises(ValueError, match="must support momentum"):
        schedules.OneCycleLR(ag.optim.Adagrad([ag.tensor([1.0], requires_grad=True)]), 1.0, 10)
    short = schedules.OneCycleLR(optimizer, 1.0, 2)
    optimizer.step()
    for _ in range(2):
        short.step()
    with pytest.raises(ValueError, match="total steps is 2"):
        short.step()
    for wrong, message in (
        ({"mode": "zigzag"}, "mode is invalid and scale_fn is None"),
        ({"scale_mode": "steps"}, "scale_mode must be 'cycle' or 'iterations'"),
        ({"step_size_up": 0}, "positive numbers of steps, got 0 up and 0 down"),
        ({"max_momentum": [0.9, 0.8]}, "expected 1 values for max_momentum, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            schedules.CyclicLR(optimizer, 0.1, 0.5, **wrong)
    with pytest.raises(ValueError, match="must support momentum"):
        schedules.CyclicLR(ag.optim.Adagrad([ag.tensor([1.0], requires_grad=True)]), 0.1, 0.5)
    with pytest.raises(ValueError, match="one more than the number of milestone"):
        schedules.SequentialLR(optimizer, [schedules.StepLR(optimizer, 1)], [3])
    other = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=1.0)
    with pytest.raises(ValueError, match="index 0 is not one of this optimizer"):
        schedules.SequentialLR(optimizer, [schedules.StepLR(other, 1)], [])
    with pytest.raises(ValueError, match="index 1 is not one of this optimizer"):
        schedules.ChainedScheduler([schedules.StepLR(optimizer, 1), schedules.StepLR(other, 1)])
    with pytest.raises(ValueError, match="at least one scheduler to be chained"):
        schedules.ChainedScheduler([])
    with pytest.raises(ValueError, match="Expected positive integer T_0, but got 0"):
        schedules.CosineAnnealingWarmRestarts(optimizer, 0)
    with pytest.raises(ValueError, match="Expected non-negative epoch, but got -1"):
        schedules.CosineAnnealingWarmRestarts(optimizer, 2).step(-1)


def test_restarts_go_to_an_epoch_that_is_given():
    optimizer = ag.optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=1.0)
    schedule = ag.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, 2)
    found = []
    for epoch in (0.5, 3.75, None, 25.125, None, 1):
        schedule.step(epoch)
        found.append(schedule.get_last_lr()[0])
    # PyTorch's
    expected = [0.933012701892, 0.96193976625, 0.804380714504, 0.928864305, 0.891643374614, 0.75]
    np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("betas", [(1.0, 0.9), (0.9, 1.0)])
@pytest.mark.parametrize("kind", [ag.optim.Adam, ag.optim.AdamW])
def test_a_beta_of_one_is_refused_after_the_group_has_got_it(kind, betas, compiled):
    """Its correction is 0: a division by it gives infinity or NaN."""
    runs = []
    for broken in (False, True):
        w = ag.tensor([1.0, -2.0], requires_grad=True)
        optimizer = kind([w], lr=0.1)

        def step(w=w, optimizer=optimizer):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()

        run = ag.compile(step) if compiled else step
        for _ in range(3):
            run()
        if broken:
            group = optimizer.param_groups[0]
            before, group["betas"] = group["betas"], betas
            with pytest.raises(ValueError, match=rf"^Invalid beta parameter at index {betas.index(1.0)}: 1\.0"):
                run()
            group["betas"] = before
        run()
        runs.append(w.tolist())
    assert runs[0] == runs[1]
