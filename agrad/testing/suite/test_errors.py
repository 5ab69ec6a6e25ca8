"""Errors: unsupported operations raise agrad's errors, and leave nothing lost or half-changed."""

from __future__ import annotations

import pickle

import pytest

import agrad as ag
from agrad.core.errors import UnsupportedOp
from agrad.core.op import OPS
from agrad.testing.suite.base import Conformance


class TestErrors(Conformance):
    """Messages."""

    def test_lacks_are_refused_in_words(self) -> None:
        """An operation that is declared to be lacking raises `UnsupportedOp` with operation, backend and reason."""
        if not self.backend.lacks:
            pytest.skip("it lacks nothing")
        for op, reason in self.backend.lacks.items():
            kernel = self.backend.xp
            for part in op.split("."):
                kernel = getattr(kernel, part)
            with pytest.raises(UnsupportedOp) as caught:
                kernel()
            error = caught.value
            assert (error.op, error.backend, error.reason) == (op, self.name, reason)
            assert str(error) == f"{op} is not supported by the {self.name} backend: {reason}"
            assert isinstance(error, NotImplementedError)
            copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
            assert (copy.op, copy.backend, copy.reason) == (op, self.name, reason)

    def test_an_unknown_function(self) -> None:
        """A name that no library has is refused like an operation that is lacking, when it is called."""
        with pytest.raises(UnsupportedOp, match=f"no_such_function is not supported by the {self.name} backend"):
            self.backend.xp.no_such_function(1)

    def test_every_operation_has_a_kernel(self) -> None:
        """Every operation of the table resolves to a function on this backend, or is declared as lacking."""
        for op in OPS:
            kernel = self.backend.xp
            for part in op.split("."):
                kernel = getattr(kernel, part)
            assert callable(kernel), f"the kernel of {op} is {kernel!r}"

    def test_unknown_dtypes(self) -> None:
        """A dtype that does not exist is named."""
        with pytest.raises(TypeError, match="float31"):
            self.backend.dtype("float31")

    def test_shapes_that_do_not_match(self) -> None:
        """Shapes that cannot be broadcast raise, and the operands are unchanged."""
        x, y = self.tensor([1.0, 2.0, 3.0], requires_grad=True), self.tensor([[1.0, 2.0]])
        with pytest.raises((ValueError, TypeError, IndexError, RuntimeError)):
            self.host(x + y)
        self.close(x.detach(), [1.0, 2.0, 3.0], 0.0)
        assert x.grad is None

    def test_an_unknown_device(self) -> None:
        """A device that does not exist is an error that lists those that do."""
        with pytest.raises(ag.BackendError, match="has no device"):
            ag.zeros((2,), device=f"{self.name}:no-such-device")

    def test_wrong_cotangents(self) -> None:
        """A cotangent of the wrong shape is refused before anything is written."""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(RuntimeError, match="shape"):
            (x * 2.0).backward(self.tensor([1.0, 2.0, 3.0]))
        assert x.grad is None

    def test_a_failed_backward_changes_no_gradient(self) -> None:
        """If a hook fails, every ``.grad`` is unchanged."""
        x, w = self.tensor([1.0, 2.0], requires_grad=True), self.tensor([3.0, 4.0], requires_grad=True)

        def fail(g: ag.Tensor) -> None:
            raise KeyError("in a hook")

        y = x * 2.0
        y.register_hook(fail)
        with pytest.raises(KeyError, match="in a hook"):
            (y * w).sum().backward()
        assert (x.grad, w.grad) == (None, None)

    def test_a_leaf_in_place(self) -> None:
        """A leaf that requires grad cannot be written to while recording; it is unchanged."""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf"):
            x += 1.0
        self.close(x.detach(), [1.0, 2.0], 0.0)

    def test_integers_have_no_gradient(self) -> None:
        """Only floating point tensors can require grad."""
        with pytest.raises(RuntimeError, match="floating point"):
            self.tensor([1, 2], "int32", requires_grad=True)
