"""autograd.forward_ad: dual tensors, levels that nest, and PyTorch's messages."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.autograd import forward_ad as fw
from agrad.core import mode
from agrad.core.op import OPS


@pytest.fixture(autouse=True)
def _no_level_is_left_open():
    yield
    assert fw._entered() == []
    assert mode.current() is None


X, T = ag.tensor([0.5, 2.0]), ag.tensor([1.0, 10.0])


def test_tangents(make, close, xp):
    with fw.dual_level() as level:
        assert level == 0
        x = fw.make_dual(make([0.5, 2.0]), make([1.0, 10.0]))
        primal, tangent = fw.unpack_dual(xp.sin(x) * x)
        close(primal, np.sin([0.5, 2.0]) * [0.5, 2.0])
        close(tangent, (np.cos([0.5, 2.0]) * [0.5, 2.0] + np.sin([0.5, 2.0])) * [1.0, 10.0])
        assert fw.unpack_dual(primal).tangent is None
        assert fw.unpack_dual(make([1.0])).tangent is None
        assert fw.unpack_dual(x.detach() * 2).tangent is None or fw.unpack_dual(x * 2).tangent is not None
    assert fw.unpack_dual(x * x).tangent is None
    assert fw.unpack_dual(x) == (x, None)


def test_an_operand_left_out_and_an_array_after_it(close):
    with fw.dual_level():
        x = fw.make_dual(X, T)
        found = fw.unpack_dual(ag.clip(x, None, np.array([1.0, 1.0])))
        close(found.primal, [0.5, 1.0])
        close(found.tangent, [1.0, 0.0])


def test_reverse_mode_sees_through(close):
    x = ag.tensor([0.5, 2.0], requires_grad=True)
    with fw.dual_level():
        tangent = fw.unpack_dual(fw.make_dual(x, T) ** 3).tangent
        tangent.sum().backward()
    close(x.grad, [6 * 0.5, 60 * 2.0])


def test_forward_over_reverse(close):
    x = ag.tensor([0.5, 2.0], requires_grad=True)
    with fw.dual_level():
        (g,) = ag.autograd.grad((fw.make_dual(x, T) ** 3).sum(), x)
        primal, tangent = fw.unpack_dual(g)
    close(primal, [0.75, 12.0])
    close(tangent, [6 * 0.5, 60 * 2.0])


def test_levels_nest(close):
    with fw.dual_level():
        x = fw.make_dual(X, T)
        with fw.dual_level() as inner:
            assert inner == 1
            y = fw.make_dual(x, T) ** 3
            (primal, outer), tangent = fw.unpack_dual(fw.unpack_dual(y).primal, level=0), fw.unpack_dual(y).tangent
            close(outer, [0.75, 120.0])
            close(fw.unpack_dual(tangent, level=0).tangent, [3.0, 1200.0])  # 6 x t^2
        close(primal, [0.125, 8.0])
        assert fw.unpack_dual(fw.unpack_dual(x * x).tangent, level=0).tangent is None
        close(fw.unpack_dual(x * x).tangent, [1.0, 40.0])


def test_func_inside_a_level(close):
    with fw.dual_level():
        x = fw.make_dual(X, T)
        _, second = ag.func.jvp(lambda x: x**3, (x,), (ag.ones(2),))
        close(fw.unpack_dual(second).tangent, [3.0, 120.0])
        g = ag.func.grad(lambda x: (x**3).sum())(x)
        close(fw.unpack_dual(g).tangent, [3.0, 120.0])


def test_enter_and_exit_by_hand():
    assert fw.enter_dual_level() == 0
    assert fw.enter_dual_level() == 1
    with pytest.raises(
        RuntimeError, match="Trying to exit a forward AD level that was not the last one that was created"
    ):
        fw.exit_dual_level(level=0)
    fw.exit_dual_level(level=1)
    fw.exit_dual_level()
    with pytest.raises(RuntimeError, match="Trying to exit a forward AD level that was not the last one"):
        fw.exit_dual_level()


def test_decorator():
    @fw.dual_level()
    def f():
        return fw.unpack_dual(fw.make_dual(X, T) * 2).tangent.tolist()

    assert f() == [2.0, 20.0]


def test_a_level_closes_when_its_block_raises():
    with pytest.raises(ZeroDivisionError), fw.dual_level():
        1 / 0


def test_a_level_inside_no_grad(close):
    x = ag.tensor([0.5, 2.0], requires_grad=True)
    with ag.no_grad(), fw.dual_level():
        y = fw.make_dual(x, T) ** 2
        close(fw.unpack_dual(y).tangent, [1.0, 40.0])
        assert not y.requires_grad


def test_the_dtype_of_the_tangent_is_that_of_the_primal():
    with fw.dual_level():
        assert fw.unpack_dual(fw.make_dual(X, ag.tensor([1.0, 2.0], dtype="float32"))).tangent.dtype == X.dtype


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: fw.make_dual(X, ag.ones(3)),
            RuntimeError,
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. Tensor is of size [2] while the given forward gradient is of size [3].",
        ),
        (
            lambda: fw.make_dual(ag.tensor([1]), ag.tensor([1.0])),
            ValueError,
            "Expected primal to be floating point or complex, but got: int64",
        ),
        (
            lambda: fw.make_dual(X, fw.make_dual(X, T)),
            RuntimeError,
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported.",
        ),
        (lambda: fw.make_dual(3.0, X), TypeError, "make_dual() takes two Tensors, not float"),
        (lambda: fw.make_dual(X, T, level=1), RuntimeError, "there is no forward AD level 1"),
        (lambda: fw.make_dual(X, T * 1j), ValueError, "Expected a real tangent for a real primal"),
    ],
)
def test_errors(call, error, message):
    with fw.dual_level(), pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


def test_without_a_level():
    with pytest.raises(
        RuntimeError, match="Trying to create a dual Tensor for forward AD but no level exists, make sure to"
    ):
        fw.make_dual(X, T)


def test_a_rule_used_first_within_a_level_and_again_after_it():
    @ag.elementwise(name="mine.sine_once_more", x=lambda xp, x: xp.cos(x), kernel=lambda xp, x: xp.sin(x))
    def sine(x, /):
        """sin(x), of which no derivative has run yet."""

    try:
        x = ag.tensor([0.5, 2.0], requires_grad=True)
        with fw.dual_level():
            y = fw.unpack_dual(sine(fw.make_dual(x, T))).primal
            (within,) = ag.autograd.grad(y.sum(), x, create_graph=True)
            assert within.tolist() == pytest.approx(np.cos([0.5, 2.0]))
        (y.sum() + (x * x).sum()).backward()
        assert type(x.grad._raw) is np.ndarray
        assert x.grad.tolist() == pytest.approx(np.cos([0.5, 2.0]) + np.array([1.0, 4.0]))
    finally:
        del OPS["mine.sine_once_more"]
