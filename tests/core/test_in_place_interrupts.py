"""An in-place operation that is interrupted has happened with its history, or not at all."""

import os
import sys

import numpy as np
import pytest
from support import Interrupt, in_agrad, interrupted

import agrad as ag
from agrad.core import materialize


def assign(y, v):
    y[0] = v


def add(y, v):
    y += v


def copy(y, v):
    y.copy_(v)


def zero(y, v):
    y.zero_()


def negate(y, v):
    y.neg_()


@pytest.mark.parametrize("retain", [False, True], ids=["", "retained"])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "owned"])
@pytest.mark.parametrize("operation", [assign, add, copy, zero, negate])
def test_value_and_history_go_together(operation, own, retain):
    def start():
        x, v = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor(5.0, requires_grad=True)
        y = x * 3.0
        if own:
            y[1] = 7.0  # from here on y alone holds its array
        if retain:
            y.retain_grad()
        return x, v, y

    def end(x, v, y):
        before = y.tolist()
        (y * ag.asarray([10.0, 100.0])).sum().backward()
        return before, *(None if t.grad is None else t.grad.tolist() for t in (x, v, *((y,) if retain else ())))

    wanted = [end(*start())]
    x, v, y = start()
    operation(y, v)
    wanted.append(end(x, v, y))
    assert wanted[0] != wanted[1]
    seen = []
    for n in range(1, 2000):
        x, v, y = start()
        if interrupted(Interrupt(n, in_agrad), operation, y, v):
            break
        found = end(x, v, y)
        assert found in wanted, (n, found)
        seen.append(wanted.index(found))
        held = y.detach().numpy()
        with ag.no_grad():
            y[0] = 3.0  # nor is an array now thought to be owned that is shared
            y[1] = 4.0
        np.testing.assert_array_equal(held, found[0])
        assert y.tolist() == [3.0, 4.0]
    assert n > 5
    assert 0 in seen


def test_interrupts_come_in_agrads_own_code_alone():
    package = os.path.dirname(ag.__file__)
    beside = (package + "_experiments/train.py", os.path.join(os.path.dirname(package), ".nox/lib/agrad/other.py"))
    assert not any(in_agrad(compile("", file, "exec")) for file in beside)
    assert in_agrad(ag.Tensor.backward.__code__)
    assert in_agrad(ag.asarray([1.0])._spec.backend.asarray.__code__)


def test_a_tensor_is_forgotten_by_no_code_of_pythons():
    """In a callback of a weak reference Python would swallow a Ctrl-C."""
    tensor, met, before = ag.ones(2), [], sys.getprofile()
    materialize.carry(tensor)
    try:
        sys.setprofile(lambda frame, event, _: met.append(frame.f_code.co_filename) if event == "call" else None)
        del tensor
    finally:
        sys.setprofile(before)
    assert materialize.__file__ not in met
