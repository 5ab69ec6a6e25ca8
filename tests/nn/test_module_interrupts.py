"""Loading and moving a module changes all of its tensors or none."""

import numpy as np
import pytest
from support import interrupted

import agrad as ag
from agrad.core import buffers
from agrad.core import tensor as tensors
from agrad.nn import module as modules


class Interrupt:
    """Raise KeyboardInterrupt at the n-th function that is begun or left, or line, in the files of tensors and modules."""

    def __init__(self, n):
        self.left = n

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename not in (buffers.__file__, tensors.__file__, modules.__file__):
            return None
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return self


def values(net):
    found = []
    for p in net.parameters():
        found += [p.detach().numpy(), None if p.grad is None else p.grad.numpy()]
    return [None if v is None else (v.dtype.name, v.tolist()) for v in found]


def load(net):
    net.load_state_dict({"weight": np.full((2, 3), 5.0), "bias": np.full(2, 6.0)})


def move(net):
    net.to(ag.float32)


@pytest.mark.parametrize("change", [load, move])
def test_an_interrupt_changes_all_tensors_or_none(change):
    def start():
        net = ag.nn.Linear(3, 2).double()
        with ag.no_grad():
            for p in net.parameters():
                p.fill_(0.5)
        net(ag.ones((4, 3), dtype="float64")).sum().backward()
        return net

    net = start()
    wanted = [values(net)]
    change(net)
    wanted.append(values(net))
    assert wanted[0] != wanted[1]
    for n in range(1, 3000):
        net = start()
        ended = interrupted(Interrupt(n), change, net)
        assert values(net) in wanted, n
        if ended:
            break
    assert n > 20
