"""Anomaly detection names the operation and the line that made NaN, and costs nothing when off."""

import threading

import numpy as np
import pytest

import agrad as ag
from agrad.autograd import detect_anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled, set_detect_anomaly

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def bad(backend="numpy"):
    x = ag.asarray(np.array([0.0, 1.0]), device=backend, requires_grad=True)
    weights = ag.asarray(np.array([0.0, 1.0]), device=backend)
    return x, ag.sum(ag.sqrt(x) * weights)


@pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
@pytest.mark.parametrize("create_graph", [False, True])
def test_nan_is_named_with_its_line(backend, create_graph):
    x, y = bad(backend)
    with (
        detect_anomaly(),
        pytest.raises(
            RuntimeError, match=r"(?s)Function 'SqrtBackward0' returned nan values in its 0th output.*anomaly\.py:\d+"
        ),
    ):
        y.backward(create_graph=create_graph)
    assert x.grad is None


def test_outside_it_is_not_looked_for():
    x, y = bad()
    y.backward()
    assert np.isnan(x.grad.numpy()[0])


def test_infinity_is_no_anomaly():
    x = ag.tensor([0.0, 1.0], requires_grad=True)
    with detect_anomaly():
        ag.sum(ag.sqrt(x)).backward()
    assert x.grad.numpy()[0] == np.inf


def test_the_place_of_the_operand():
    x = ag.tensor([1.0], requires_grad=True)
    y = ag.tensor([0.0], requires_grad=True)
    z = (x - x) / y
    with detect_anomaly(), pytest.raises(RuntimeError, match="'DivideBackward0' returned nan values in its 1th output"):
        z.backward(ag.tensor([1.0]))
    x2, y2 = x.detach(), y
    with detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values in its 1th output"):
        ((x2 - x2) / y2).backward(ag.tensor([1.0]))


def test_nan_not_looked_for():
    x, y = bad()
    with detect_anomaly(check_nan=False):
        assert is_anomaly_enabled()
        assert not is_anomaly_check_nan_enabled()
        y.backward()
    assert np.isnan(x.grad.numpy()[0])


def test_switching():
    assert not is_anomaly_enabled()
    set_detect_anomaly(True)
    assert is_anomaly_enabled()
    set_detect_anomaly(False)
    assert not is_anomaly_enabled()
    with set_detect_anomaly(True):
        assert is_anomaly_enabled()
        with ag.no_grad():
            assert is_anomaly_enabled()
    assert not is_anomaly_enabled()
    ag.set_grad_enabled(False)
    set_detect_anomaly(True)
    assert not ag.is_grad_enabled()
    ag.set_grad_enabled(True)
    assert is_anomaly_enabled()
    set_detect_anomaly(False)
    assert ag.is_grad_enabled()


def test_other_threads_are_not_concerned():
    seen = []
    with detect_anomaly():
        thread = threading.Thread(target=lambda: seen.append(is_anomaly_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_function():
    class Bad(ag.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g, g * np.nan

    x, y = (ag.tensor([1.0], requires_grad=True) for _ in range(2))
    with detect_anomaly(), pytest.raises(RuntimeError, match="Function 'BadBackward' returned nan values in its 1th"):
        Bad.apply(x, y).backward()


@pytest.mark.parametrize(
    "program",
    [
        lambda f, x: ag.utils.checkpoint.checkpoint(f, x).backward(),
        lambda f, x: ag.func.vmap(ag.func.grad(f))(ag.stack([x.detach(), x.detach()])),
        lambda f, x: ag.func.grad(lambda xs: ag.sum(ag.func.vmap(f)(xs)))(ag.stack([x.detach(), x.detach()])),
    ],
    ids=["checkpoint", "vmap of grad", "grad of vmap"],
)
def test_within_checkpoints_and_under_vmap(program):
    weights = ag.tensor([0.0, 1.0])
    x = ag.tensor([0.0, 1.0], requires_grad=True)
    with detect_anomaly(), pytest.raises(RuntimeError, match=r"'SqrtBackward0' returned nan values in its 0th output"):
        program(lambda x: ag.sum(ag.sqrt(x) * weights), x)
