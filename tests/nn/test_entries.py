"""Entry points of ops with several operands, some of them optional: what the generated code handles, and what not."""

from __future__ import annotations

import inspect
import linecache
import traceback

import numpy as np
import pytest

import agrad as ag
from agrad.core.op import OPS

F = ag.nn.functional


@pytest.fixture
def declare():
    """Declare ops for the length of a test."""
    before = set(OPS)
    yield ag.custom
    for name in set(OPS) - before:
        del OPS[name]


@pytest.mark.parametrize(
    "needs", [(1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)]
)
def test_every_pattern_of_needs(needs, make, value):
    arrays = np.ones((2, 3)), np.full((4, 3), 2.0), np.arange(4.0)
    expected = np.full((2, 3), 8.0), np.full((4, 3), 2.0), np.full(4, 2.0)
    operands = [make(a, requires_grad=bool(need)) for a, need in zip(arrays, needs, strict=True)]
    y = F.linear(*operands)
    np.testing.assert_array_equal(value(y), 6.0 + np.arange(4.0) + np.zeros((2, 1)))
    assert y.requires_grad == any(needs)
    if any(needs):
        y.sum().backward()
        assert [fn is not None for fn, _ in y.grad_fn.next_functions] == [bool(need) for need in needs]
    for operand, need, g in zip(operands, needs, expected, strict=True):
        if need:
            np.testing.assert_array_equal(value(operand.grad), g)
        else:
            assert operand.grad is None


def test_none_raw_arrays_and_no_grad(make, value):
    x, w = make([[1.0, 2.0]], requires_grad=True), make([[3.0, 4.0]], requires_grad=True)
    assert value(F.linear(x, w, None)).tolist() == [[11.0]]
    assert value(F.linear(x, w, bias=make([1.0]))).tolist() == [[12.0]]
    assert F.linear(x._raw, w).requires_grad
    with ag.no_grad():
        assert not F.linear(x, w).requires_grad
    y = F.linear(x, w)
    y.backward()
    assert value(x.grad).tolist() == [[3.0, 4.0]]
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_operands_of_two_backends_are_refused(strict_backend):
    with pytest.raises(ag.BackendError, match="at least two backends, numpy and strict"):
        F.linear(ag.ones((1, 2)), ag.ones((1, 2), device=strict_backend))


def test_arguments_may_have_any_names(declare):
    @declare(
        vjp={"x": lambda xp, g, mode: g * mode, "s1": lambda g: g, "r": lambda g: -g},
        jvp=None,
        kernel=lambda xp, x, s1, r, mode, kernel: x * mode + s1 - r + kernel,
    )
    def awkward(x, s1, r, mode, kernel):
        """``x * mode + s1 - r + kernel``."""

    @declare(vjp={"x": lambda xp, g, mode: g * mode}, jvp=None, kernel=lambda xp, x, mode: x * mode)
    def scaled(x, mode):
        """``x * mode``."""

    x, y, z = (ag.tensor([v], requires_grad=True) for v in (1.0, 2.0, 3.0))
    result = awkward(x, y, z, 5.0, 10.0)
    assert result.item() == 14.0
    (result + scaled(x, 7.0)).backward()
    assert [t.grad.item() for t in (x, y, z)] == [12.0, 1.0, -1.0]


def test_the_users_line_is_kept():
    x = ag.ones((1, 2), requires_grad=True)
    y = F.linear(x, ag.ones((3, 2)))
    y.sum().backward()
    with pytest.raises(RuntimeError, match=r"LinearBackward0, recorded at .*test_entries\.py:\d+"):
        y.sum().backward()


def test_the_source_is_shown_before_the_first_call_and_in_tracebacks(declare, request):
    if request.config.getoption("--without") == "entries":
        pytest.skip("no code is generated")

    @declare(vjp={"x": lambda g: g}, jvp=None, name="mine.halved", kernel=lambda xp, x: xp.reshape(x, (5,)))
    def halved(x, /):
        "Half of it."

    source = str(halved.source)
    assert source.startswith("def halved(x=missing, /, **unknown):\n")
    line = source[: source.index("r = xp.mine.halved(d1)")].count("\n") + 1
    with pytest.raises(ValueError, match="cannot reshape") as raised:
        halved(ag.ones(2))
    frames = [(frame.name, frame.lineno, frame.line) for frame in traceback.extract_tb(raised.tb)]
    assert ("halved", line, "r = xp.mine.halved(d1)") in frames
    assert inspect.getsource(halved).endswith('"Half of it."\n')
    assert str(ag.Tensor.__rmul__.source).startswith("def __rmul__(x2, x1, /):\n")
    assert linecache.getline("<agrad.mine.halved>", 1) == "def halved(x=missing, /, **unknown):\n"
