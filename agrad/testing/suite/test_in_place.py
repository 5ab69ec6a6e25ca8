"""Value semantics: in-place spellings rebind a tensor, and never change an array that any other code holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import agrad as ag
from agrad.core.tensor import Tensor
from agrad.testing.calls import library
from agrad.testing.suite.base import Conformance


def _set(x: Tensor) -> None:
    x[0, ...] = 7.0


def _set_rows(x: Tensor) -> None:
    x[1:, ...] = 7.0


def _add(x: Tensor) -> None:
    x += 1.0


def _twice(x: Tensor) -> None:  # the second may write into the buffer that the first has created
    x += 1.0
    x += 1.0


def _times(x: Tensor) -> None:
    x *= x + 0.0


def _set_twice(x: Tensor) -> None:
    x[0, ...] = 7.0
    x[1, ...] = 8.0


def _zero(x: Tensor) -> None:
    x.zero_()


#: In-place spellings, and their results for [[1, 2], [3, 4]].
WRITES: dict[str, tuple[Callable[[Tensor], None], list[list[float]]]] = {
    "x += 1": (_add, [[2.0, 3.0], [4.0, 5.0]]),
    "x += 1 twice": (_twice, [[3.0, 4.0], [5.0, 6.0]]),
    "x *= x": (_times, [[1.0, 4.0], [9.0, 16.0]]),
    "x[0] = 7": (_set, [[7.0, 7.0], [3.0, 4.0]]),
    "x[1:] = 7": (_set_rows, [[1.0, 2.0], [7.0, 7.0]]),
    "x[0], x[1] = 7, 8": (_set_twice, [[7.0, 7.0], [8.0, 8.0]]),
    "zero_": (_zero, [[0.0, 0.0], [0.0, 0.0]]),
}

START = [[1.0, 2.0], [3.0, 4.0]]

of_writes: pytest.MarkDecorator = pytest.mark.parametrize("write", WRITES)


class TestInPlace(Conformance):
    """No other array changes."""

    @of_writes
    def test_the_value(self, write: str) -> None:
        """The tensor itself has the new value."""
        change, expected = WRITES[write]
        x = self.tensor(START)
        change(x)
        self.close(x, expected)

    @of_writes
    def test_the_users_array(self, write: str) -> None:
        """An array that the user made a tensor of is unchanged."""
        raw = self.tensor(START)._raw
        x = ag.asarray(raw, device=self.device)
        WRITES[write][0](x)
        self.close(raw, START, 0.0, "the user's array")

    @of_writes
    def test_an_array_handed_out(self, write: str) -> None:
        """An array taken out of a tensor that was changed in place before is unchanged."""
        x = self.tensor(START)
        x += 0.0
        raw = x._raw
        WRITES[write][0](x)
        self.close(raw, START, 0.0, "the array handed out")

    @of_writes
    def test_host_memory(self, write: str) -> None:
        """NumPy memory that a tensor was created from, or that was created from a tensor, is unchanged."""
        np = library()
        mine = np.asarray(START, dtype=self.real)
        x = ag.asarray(mine, device=self.device)
        out = np.asarray(self.backend.to_host(x._raw))
        WRITES[write][0](x)
        assert mine.tolist() == START, "the NumPy array that the tensor was made of changed"
        assert out.tolist() == START, "the NumPy array that was made of the tensor changed"

    @of_writes
    def test_another_tensor(self, write: str) -> None:
        """Another tensor on the same array is unchanged: a copy, a detached one."""
        x = self.tensor(START)
        same, other = ag.asarray(x._raw, device=self.device), ag.asarray(x, copy=True)
        WRITES[write][0](x)
        self.close(same, START, 0.0, "a tensor on the same array")
        self.close(other, START, 0.0, "a copy")

    @of_writes
    def test_what_a_graph_saved(self, write: str) -> None:
        """The gradient is that of the forward call, whatever happens to the tensor afterwards."""
        x = self.tensor(START)
        x += 0.0  # now it owns its array
        w = self.tensor([[1.0, 1.0], [1.0, 1.0]], requires_grad=True)
        y = w * x
        WRITES[write][0](x)
        y.sum().backward()
        self.close(w.grad, START, None, "the gradient")

    def test_a_parameter_that_is_rebound(self) -> None:
        """w = 2; y = w**3; w is rebound: the gradient is 12 in every mode."""
        for create_graph in (False, True):
            w = self.tensor(2.0, requires_grad=True)
            y = w**3
            with ag.no_grad():
                w -= 1.0
            (g,) = ag.autograd.grad(y, w, create_graph=create_graph)
            self.close(g.detach(), 12.0)

    def test_gradients_add_up_in_their_own_array(self) -> None:
        """The user's cotangent, and a gradient taken out before, are not written to by later passes."""
        x = self.tensor(START, requires_grad=True)
        given = self.tensor([[1.0, 1.0], [1.0, 1.0]])
        y = x * 1.0
        y.backward(given, retain_graph=True)
        assert x.grad is not None
        first = x.grad._raw
        for _ in range(3):
            y.backward(given, retain_graph=True)
        self.close(given, [[1.0, 1.0], [1.0, 1.0]], 0.0, "the user's cotangent")
        self.close(first, [[1.0, 1.0], [1.0, 1.0]], 0.0, "the gradient taken out")
        self.close(x.grad, [[4.0, 4.0], [4.0, 4.0]], None, "the sum of gradients")

    def test_a_fan_of_gradients(self) -> None:
        """Cotangents that meet are added without changing those that others still need."""
        x = self.tensor(START, requires_grad=True)
        y = x * 2.0
        z = y + y + ag.sin(y) * 0.0 + y
        first, second = ag.autograd.grad(z.sum(), [x, y])
        self.close(first, [[6.0, 6.0], [6.0, 6.0]])
        self.close(second, [[3.0, 3.0], [3.0, 3.0]])

    @pytest.mark.parametrize("primitive", ["setitem", "setitem_into", "add_into"])
    def test_primitives(self, primitive: str) -> None:
        """`Backend.setitem` does not change its array; the ``_into`` ones return the right value, in place or not."""
        array, other = self.tensor(START)._raw, self.tensor([[9.0, 9.0], [9.0, 9.0]])._raw
        if primitive == "add_into":
            own = self.host(array).tolist()
            mine = self.tensor(START)._raw * 1.0
            self.close(self.backend.add_into(mine, other, mine), [[10.0, 11.0], [12.0, 13.0]])
            self.close(other, [[9.0, 9.0], [9.0, 9.0]], 0.0, "the other addend")
            assert own == START
            return
        if primitive == "setitem_into":
            array = array * 1.0
        made = getattr(self.backend, primitive)(array, (0, ...), other[0, ...])
        self.close(made, [[9.0, 9.0], [3.0, 4.0]])
        if primitive == "setitem":
            self.close(array, START, 0.0, "the array that setitem was given")
        self.close(other, [[9.0, 9.0], [9.0, 9.0]], 0.0, "the assigned array")

    def test_an_optimizer_step(self) -> None:
        """A step rebinds parameters and changes neither the user's arrays nor the gradients."""
        raw = self.tensor(START)._raw
        w = ag.asarray(raw, device=self.device, requires_grad=True)
        step = ag.optim.SGD([w], lr=0.5, momentum=0.9)
        for _ in range(2):
            step.zero_grad()
            (w * w).sum().backward()
            gradient: Any = w.grad
            before = self.host(gradient).tolist()
            step.step()
            assert self.host(gradient).tolist() == before
        self.close(raw, START, 0.0, "the user's array")
        # w1 = w - w = 0; then by momentum -0.5 * 0.9 * 2 w
        self.close(w.detach(), [[-0.9, -1.8], [-2.7, -3.6]], max(self.tolerance, 1e-6))
