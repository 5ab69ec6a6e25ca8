"""Compiled training steps do what the steps do: optimisers, schedules, clipping, layers with a state of their own."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from support import Interrupt, in_agrad, interrupted

import agrad as ag
from agrad.compiled.comparing import is_rounding
from agrad.core.backend import BACKENDS

F = ag.nn.functional
schedules = ag.optim.lr_scheduler


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


OPTIMIZERS = {
    "sgd": lambda ps: ag.optim.SGD(ps, lr=0.05),
    "momentum": lambda ps: ag.optim.SGD(ps, lr=0.05, momentum=0.9, dampening=0.1),
    "nesterov": lambda ps: ag.optim.SGD(ps, lr=0.05, momentum=0.9, nesterov=True),
    "weight decay": lambda ps: ag.optim.SGD(ps, lr=0.05, weight_decay=0.1),
    "maximize": lambda ps: ag.optim.SGD(ps, lr=1e-3, maximize=True),
    "adam": lambda ps: ag.optim.Adam(ps, lr=0.05),
    "adam, weight decay": lambda ps: ag.optim.Adam(ps, lr=0.05, weight_decay=0.1),
    "adamw": lambda ps: ag.optim.AdamW(ps, lr=0.05),
    "amsgrad": lambda ps: ag.optim.Adam(ps, lr=0.05, amsgrad=True),
    "rmsprop": lambda ps: ag.optim.RMSprop(ps, lr=0.01),
    "rmsprop, centered": lambda ps: ag.optim.RMSprop(ps, lr=0.01, centered=True, momentum=0.5, weight_decay=0.1),
    "adagrad": lambda ps: ag.optim.Adagrad(ps, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.1),
}
SCHEDULES = {
    "none": lambda o: None,
    "lambda": lambda o: schedules.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "step": lambda o: schedules.StepLR(o, 3),
    "multistep": lambda o: schedules.MultiStepLR(o, [2, 5], gamma=0.5),
    "constant": lambda o: schedules.ConstantLR(o, total_iters=4),
    "linear": lambda o: schedules.LinearLR(o, total_iters=4),
    "exponential": lambda o: schedules.ExponentialLR(o, 0.9),
    "cosine": lambda o: schedules.CosineAnnealingLR(o, 5),
    "one cycle": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=14, cycle_momentum=False),
    "sequence": lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, total_iters=3), schedules.ExponentialLR(o, 0.9)], [3]
    ),
    "restarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 2),
    "polynomial": lambda o: schedules.PolynomialLR(o, 6, 2.0),
    "product": lambda o: schedules.MultiplicativeLR(o, lambda epoch: 1 / (1 + epoch)),
    "chain": lambda o: schedules.ChainedScheduler([schedules.StepLR(o, 3), schedules.ExponentialLR(o, 0.9)]),
    "plateau": lambda o: schedules.ReduceLROnPlateau(o, patience=1, factor=0.5, threshold=0.2),
}


def data(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def make_net(*between):
    ag.manual_seed(1)
    return ag.nn.Sequential(ag.nn.Linear(4, 6), *between, ag.nn.Tanh(), ag.nn.Linear(6, 3)).double()


def trained(net, optimizer, *, compiled, schedule=None, steps=12, between=lambda i: None, clip=None, set_to_none=True):
    """Return the losses, values, states and rates of a training, and the function that did a step of it."""

    def step(x, y):
        optimizer.zero_grad(set_to_none)
        loss = F.mse_loss(net(x), y)
        loss.backward()
        norm = ag.nn.utils.clip_grad_norm_(net.parameters(), clip) if clip else None
        optimizer.step()
        if isinstance(schedule, schedules.ReduceLROnPlateau):
            schedule.step(loss)
        elif schedule is not None:
            schedule.step()
        return loss.item(), norm

    run = ag.compile(step) if compiled else step
    found = []
    for i in range(steps):
        between(i)
        loss, norm = run(data(i % 5, 8, 4), data(i + 50, 8, 3))
        values = [t.detach().numpy() for t in (*net.parameters(), *net.buffers())]
        states = [v.numpy() if isinstance(v, ag.Tensor) else v for s in optimizer.state.values() for v in s.values()]
        rates = [group["lr"] for group in optimizer.param_groups]
        found.append((loss, 0 if norm is None else np.asarray(norm), values, states, rates))
    return found, run


def check_equal(make, programs=1, **how):
    """Train what `make` gives, as it is and compiled."""
    both = []
    for compiled in (False, True):
        made = dict(zip(("net", "optimizer", "schedule", "between"), make(), strict=False))
        ag.manual_seed(3)
        both.append(trained(compiled=compiled, **made, **how))
    (eager, _), (replayed, run) = both
    for i, (a, b) in enumerate(zip(eager, replayed, strict=True)):
        for x, y in zip(ag.tree.flatten(a)[0], ag.tree.flatten(b)[0], strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-12, err_msg=f"step {i}")
    assert len(run.programs) == programs


#: Every optimizer, and every schedule of two of them.
TOGETHER = [(o, s) for o in OPTIMIZERS for s in SCHEDULES if o in {"sgd", "adam"} or s in {"none", "lambda"}]


@pytest.mark.parametrize(("optimizer", "schedule"), TOGETHER)
def test_optimizers_and_schedules(optimizer, schedule):
    def make():
        net = make_net()
        made = OPTIMIZERS[optimizer](net.parameters())
        return net, made, SCHEDULES[schedule](made)

    check_equal(make)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_exact_steps_have_the_bits_of_the_steps(optimizer, dtype):
    values, x = data(0, 5), data(1, 20, 5).astype(dtype)

    def train(wrap):
        p = ag.tensor(values.astype(dtype), requires_grad=True)
        o = OPTIMIZERS[optimizer]([p])

        @wrap
        def step(x):
            o.zero_grad()
            (x * p * p + p).sum().backward()
            o.step()

        found = []
        for row in x:
            step(ag.asarray(row))
            found.append(p.tolist())
        return found, {name: v.tolist() if isinstance(v, ag.Tensor) else v for name, v in o.state[p].items()}

    assert train(ag.compile(exact=True, check="first")) == train(lambda step: step)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_a_schedule_of_rates_and_momenta(optimizer):
    def make():
        net = make_net()
        made = OPTIMIZERS[optimizer](net.parameters())
        return net, made, schedules.OneCycleLR(made, 0.1, total_steps=14)

    check_equal(make)


class Recurrent(ag.nn.Module):
    """The last result of a recurrent layer, or the mean of attention, put through a linear one."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, ag.nn.Linear(6, 3)

    def forward(self, x):
        sequence = x.reshape(8, 4, 1) * ag.ones(6)
        if isinstance(self.layer, ag.nn.MultiheadAttention):
            return self.head(self.layer(sequence, sequence, sequence, need_weights=False)[0].mean(axis=1))
        return self.head(self.layer(sequence)[0][:, -1, :])


@pytest.mark.parametrize(
    "layer",
    [
        lambda: ag.nn.RNN(6, 6, batch_first=True),
        lambda: ag.nn.LSTM(6, 6, 2, batch_first=True, dropout=0.3),
        lambda: ag.nn.GRU(6, 3, batch_first=True, bidirectional=True),
        # a bias of keys changes nothing, and Adam makes steps of the rounding error of its gradient
        lambda: ag.nn.MultiheadAttention(6, 2, dropout=0.2, bias=False, batch_first=True),
    ],
    ids=["rnn", "lstm", "gru", "attention"],
)
def test_sequences(layer):
    def make():
        ag.manual_seed(1)
        net = Recurrent(layer())
        return net, ag.optim.Adam(net.parameters(), lr=0.05)

    check_equal(make, steps=6)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_clipping_and_gradients_set_to_zero(optimizer):
    def make():
        net = make_net()
        return net, OPTIMIZERS[optimizer](net.parameters())

    check_equal(make, clip=0.3)
    check_equal(make, set_to_none=False, programs=2 if optimizer == "sgd" else 1)


def test_parameter_groups():
    def make():
        net = make_net()
        groups = [{"params": net[0].parameters(), "lr": 0.1, "momentum": 0.5}, {"params": net[-1].parameters()}]
        optimizer = ag.optim.SGD(groups, lr=0.02)
        return net, optimizer, schedules.LambdaLR(optimizer, [lambda e: 0.9**e, lambda e: 0.8**e])

    check_equal(make)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_settings_changed_by_hand(optimizer):
    def make():
        net = make_net()
        made = OPTIMIZERS[optimizer](net.parameters())
        group = made.param_groups[0]

        def between(i):
            if i == 5:
                group["lr"] /= 2
            if i == 7 and "betas" in group:
                group["betas"] = (0.8, 0.99)
            if i == 7 and group.get("momentum"):
                group["momentum"] = 0.7
            if i == 8 and group["weight_decay"]:
                group["weight_decay"] = 0.2

        return net, made, None, between

    check_equal(make)


def test_a_setting_switched_on_is_another_program():
    def make():
        net = make_net()
        optimizer = OPTIMIZERS["sgd"](net.parameters())

        def between(i):
            optimizer.param_groups[0]["weight_decay"] = 0.0 if i < 6 else 0.1

        return net, optimizer, None, between

    check_equal(make, programs=2)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_states_loaded_in_between(optimizer):
    def make():
        net = make_net()
        made = OPTIMIZERS[optimizer](net.parameters())
        kept = {}

        def between(i):
            if i == 4:
                kept.update(net=net.state_dict(), optimizer=made.state_dict())
            if i == 8:
                net.load_state_dict(kept["net"])
                made.load_state_dict(kept["optimizer"])

        return net, made, None, between

    check_equal(make, programs=2)


def test_dropout():
    def make():
        net = make_net(ag.nn.Dropout(0.3))
        return net, OPTIMIZERS["adam"](net.parameters())

    check_equal(make)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm(momentum):
    def make():
        net = make_net(ag.nn.BatchNorm1d(6, momentum=momentum))
        return net, OPTIMIZERS["momentum"](net.parameters())

    check_equal(make)


def test_a_parameter_that_is_overwritten_before_it_is_read():
    w = ag.tensor([1.0, 2.0], requires_grad=True)

    @ag.compile
    def step(x):
        with ag.no_grad():
            w.copy_(x)
        return (w * w).sum()

    with pytest.warns(ag.func.CompileWarning, match="overwrites that tensor before it reads it"):
        step(ag.tensor([0.0, 0.0]))
    for i in range(3):
        w.grad = None
        loss = step(ag.tensor([3.0, i]))
        loss.backward()
        assert loss.item() == 9.0 + i * i
        assert w.grad.tolist() == [6.0, 2.0 * i]


def test_batch_norm_between_training_and_evaluation():
    def make():
        net = make_net(ag.nn.BatchNorm1d(6))
        return net, OPTIMIZERS["momentum"](net.parameters()), None, lambda i: net.train(i < 4 or i > 7)

    check_equal(make, programs=2)


def everything_of(net, optimizer, schedule):
    values = [t.detach().numpy() for t in (*net.parameters(), *net.buffers())]
    grads = [None if p.grad is None else p.grad.numpy() for p in net.parameters()]
    states = [v.numpy() if isinstance(v, ag.Tensor) else v for s in optimizer.state.values() for v in s.values()]
    settings = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    plain = {k: v for k, v in vars(schedule).items() if not isinstance(v, ag.optim.Optimizer)}
    return values, grads, states, settings, plain, ag.random.default_generator.get_state()


def assert_all_equal(found, expected):
    for a, b in zip(ag.tree.flatten(found)[0], ag.tree.flatten(expected)[0], strict=True):
        np.testing.assert_array_equal(a, b)


def a_step(schedule):
    net = make_net(ag.nn.Dropout(0.3), ag.nn.BatchNorm1d(6))
    optimizer = ag.optim.Adam(net.parameters(), lr=0.05)
    schedule = SCHEDULES[schedule](optimizer)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y) + ag.sum(ag.linalg.inv(x[:4] + 5 * ag.eye(4))) * 0
        loss.backward()
        optimizer.step()
        schedule.step(*[loss] * isinstance(schedule, schedules.ReduceLROnPlateau))
        return loss.item()

    return ag.compile(step, check=False), lambda: everything_of(net, optimizer, schedule)


@pytest.mark.parametrize("schedule", ["exponential", "multistep", "plateau"])
def test_a_replay_that_fails_has_no_effect(schedule):
    step, look = a_step(schedule)
    for i in range(3):
        step(data(i, 8, 4), data(i + 50, 8, 3))
    before = look()
    bad = data(9, 8, 4)
    bad[:4] = -5 * np.eye(4)
    with pytest.raises(np.linalg.LinAlgError):
        step(bad, data(9, 8, 3))
    assert_all_equal(look(), before)


@pytest.mark.parametrize("schedule", ["exponential", "plateau"])
def test_a_replay_that_is_interrupted_has_all_its_effects_or_none(schedule):
    step, look = a_step(schedule)
    for i in range(5):
        step(data(i, 8, 4), data(i + 50, 8, 3))
    x, y = data(7, 8, 4), data(57, 8, 3)
    outcomes = set()
    # an error in a generator may be nobody's, as it is closed
    watched = lambda code: in_agrad(code) and not code.co_flags & inspect.CO_GENERATOR
    for moment in range(1, 9000, 3):
        before = look()
        if interrupted(Interrupt(moment, watched), step, x, y):
            break
        after = look()
        changed = [
            not np.array_equal(a, b) for a, b in zip(*(ag.tree.flatten(e)[0] for e in (before, after)), strict=True)
        ]
        none = not any(changed)
        moved = not np.array_equal(before[0][0], after[0][0])
        assert none or (moved and after[5] != before[5] and after[4]["last_epoch"] == before[4]["last_epoch"] + 1), (
            moment
        )
        outcomes.add(none)
    assert True in outcomes
    assert moment < 8990


@pytest.mark.parametrize(("beside", "rounded"), [(1.0, True), (1e-6, False), (np.inf, False), (np.nan, False)])
def test_what_cancels_is_rounding_beside_what_does_not(beside, rounded):
    """The gradient of a bias before a batch norm is 0, but for rounding: nothing of it need be the same."""
    backend = ag.ones(1)._spec.backend
    first, second = np.array([1e-17, 3e-17]), np.array([-2e-17, 1e-17])
    assert is_rounding(backend, first, second, [np.array([0.0, beside]), np.array([3])]) is rounded
    assert not is_rounding(backend, first, np.zeros(3), [np.ones(1)])


def test_a_class_of_arrays_that_was_not_met_yet_is_no_reason_to_run_as_it_is(monkeypatch):
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    optimizer = ag.optim.Adam([w])
    compiled = ag.compile(lambda: optimizer.zero_grad(), check=False)
    (w * w).sum().backward()
    optimizer.step()
    monkeypatch.delitem(BACKENDS, np.ndarray, raising=False)
    for _ in range(3):
        compiled()
        assert w.grad is None
        (w * w).sum().backward()
    assert len(compiled.programs) == 1
