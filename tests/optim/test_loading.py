"""Loading a state, and a step that fails: everything is checked first, and what fails has changed nothing."""

import numpy as np
import pytest

import agrad as ag
from agrad.optim import optimizer as optimizers


def trained(kind=ag.optim.Adam, shapes=((2,), (3, 2)), steps=2, **settings):
    params = [ag.tensor(np.ones(shape), requires_grad=True) for shape in shapes]
    optimizer = kind(params, lr=0.1, **settings)
    for _ in range(steps):
        optimizer.zero_grad()
        sum((p * p).sum() for p in params).backward()
        optimizer.step()
    return params, optimizer


def plain(value):
    if isinstance(value, ag.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def state_with(optimizer, number, name, value):
    state = optimizer.state_dict()
    state["state"][number] = {**state["state"][number], name: value}
    state["param_groups"][0]["lr"] = 77.0
    return state


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("exp_avg", np.zeros(3), r"size mismatch for exp_avg of parameter 0: shape \(3,\) .*\(2,\)"),
        ("exp_avg_sq", np.zeros(()), r"size mismatch for exp_avg_sq of parameter 0: shape \(\) .*\(2,\)"),
        ("exp_avg", np.zeros(2, dtype=complex), "dtype mismatch for exp_avg of parameter 0: complex128"),
        ("exp_avg_sq", np.zeros(2, dtype=int), "dtype mismatch for exp_avg_sq of parameter 0: int64"),
        ("exp_avg", "none", "exp_avg of parameter 0 is no Tensor but str"),
    ],
)
def test_state_that_does_not_fit_is_refused_and_changes_nothing(name, value, said):
    _, optimizer = trained()
    before = plain(optimizer.state_dict())
    given = state_with(optimizer, 0, name, value if isinstance(value, str) else ag.asarray(value))
    with pytest.raises(ValueError, match=said):
        optimizer.load_state_dict(given)
    assert plain(optimizer.state_dict()) == before
    optimizer.step()  # still works


def test_everything_wrong_is_listed():
    _, optimizer = trained()
    given = state_with(optimizer, 1, "exp_avg", ag.zeros(1))
    given["state"][0] = {"momentum_buffer": ag.zeros(2)}
    given["state"][7] = {}
    with pytest.raises(ValueError) as caught:
        optimizer.load_state_dict(given)
    for words in ("has no step, exp_avg, exp_avg_sq", "parameter 1: shape (1,)", "parameter 7, which no group has"):
        assert words in str(caught.value)


def test_state_of_another_optimizer_is_refused():
    _, adam = trained()
    _, sgd = trained(ag.optim.SGD, momentum=0.9)
    with pytest.raises(ValueError, match="of another optimizer"):
        adam.load_state_dict(sgd.state_dict())
    with pytest.raises(ValueError, match="of another optimizer"):
        sgd.load_state_dict(adam.state_dict())
    with pytest.raises(TypeError, match="dict-like"):
        adam.load_state_dict([])


@pytest.mark.parametrize("change", [{"lr": -1.0}, {"betas": (0.9, 1.5)}])
def test_settings_out_of_range_are_refused(change):
    _, optimizer = trained()
    before = plain(optimizer.state_dict())
    given = optimizer.state_dict()
    given["param_groups"][0].update(change)
    given["state"] = {}
    with pytest.raises(ValueError, match="Invalid"):
        optimizer.load_state_dict(given)
    assert plain(optimizer.state_dict()) == before


def test_schedules_refuse_the_state_of_others():
    _, one = trained()
    schedule = ag.optim.lr_scheduler.StepLR(one, 3)
    before = dict(schedule.state_dict())
    with pytest.raises(ValueError, match=r"Missing key.*'step_size'"):
        schedule.load_state_dict(ag.optim.lr_scheduler.ExponentialLR(one, 0.5).state_dict())
    with pytest.raises(ValueError, match="size mismatch for base_lrs: 2 groups"):
        schedule.load_state_dict({**before, "base_lrs": [1.0, 2.0], "step_size": 9})
    with pytest.raises(TypeError, match="dict-like"):
        schedule.load_state_dict([("step_size", 9)])
    assert schedule.state_dict() == before


@pytest.mark.parametrize("kernel", [True, False], ids=["kernel", "formula"])
@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("case", ["adam", "sgd"])
def test_a_step_that_fails_leaves_value_and_state_of_a_parameter_together(case, error, kernel, monkeypatch):
    kind = {"adam": lambda p, lr: ag.optim.Adam(p, lr), "sgd": lambda p, lr: ag.optim.SGD(p, lr, momentum=0.9)}[case]
    if not kernel:
        monkeypatch.setattr(optimizers, "kernel_of", lambda *args: None)
        monkeypatch.setattr("agrad.optim.adam.kernel_of", lambda *args: None)
        monkeypatch.setattr("agrad.optim.sgd.kernel_of", lambda *args: None)
    params, optimizer = trained(kind, shapes=((2,), (3,), (4,)))
    after, done = trained(kind, shapes=((2,), (3,), (4,)), steps=3)
    before = plain(params), [plain(optimizer.state[p]) for p in params]
    optimizer.zero_grad()
    sum((p * p).sum() for p in params).backward()
    real = type(optimizer).update

    def update(self, p, g, group, state):
        if p is params[1]:
            state["step"] = state.get("step", 0) + 1
            state["more"] = 1
            raise error
        return real(self, p, g, group, state)

    monkeypatch.setattr(type(optimizer), "update", update)
    with pytest.raises(error):
        optimizer.step()
    now = plain(params), [plain(optimizer.state[p]) for p in params]
    assert now[0] == [after[0].tolist(), before[0][1], before[0][2]]
    assert now[1] == [plain(done.state[after[0]]), before[1][1], before[1][2]]
