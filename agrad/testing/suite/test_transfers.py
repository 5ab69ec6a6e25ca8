"""Transfers: to and from the host's memory and other backends, as operations that are recorded."""

from __future__ import annotations

from typing import Any

import pytest

import agrad as ag
from agrad.core.backend import joined
from agrad.core.forward import level, tangent_of, with_tangent
from agrad.testing.calls import library
from agrad.testing.needs import of_dtype
from agrad.testing.suite.base import Conformance

DTYPES = ["bool", "int32", "int64", "uint8", "float32", "float64", "complex64", "complex128"]


class TestTransfers(Conformance):
    """``to_device`` between this backend and NumPy."""

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_values_and_dtypes_survive(self, dtype: str) -> None:
        """Round trip of every dtype, also 0-d and without elements."""
        self.require(*of_dtype(dtype))
        np = library()
        samples: tuple[Any, ...] = ([[0, 1], [2, 3]], 1, *self.empty([[], []]))
        if dtype == "int64":
            samples += ([2**53 + 1, -(2**63)],)  # which no float64 holds
        for data in samples:
            host = np.asarray(data).astype(dtype)
            x = ag.asarray(host, device=self.device)
            assert x.device == self.device
            out = x.to_device("numpy")
            assert out.device == "numpy"
            assert (out._raw.dtype, out.shape) == (host.dtype, host.shape)
            assert out._raw.tolist() == host.tolist()
            again = out.to_device(self.device)
            assert again.dtype == x.dtype
            assert self.host(again).tolist() == host.tolist()

    def test_gradients_cross(self) -> None:
        """The gradient returns to the device of each leaf."""
        x = ag.asarray([1.0, 2.0, 3.0], dtype="float32", device="numpy", requires_grad=True)
        w = self.tensor([4.0, 5.0, 6.0], "float32", requires_grad=True)
        y = (x.to_device(self.device) * w).to_device("numpy")
        (y * y).sum().backward()
        assert x.grad is not None
        assert w.grad is not None
        assert x.grad.device == "numpy"
        self.check_spec(w.grad, w._spec, "the gradient by w")
        assert x.grad.tolist() == [32.0, 100.0, 216.0]  # 2 x w^2
        assert self.host(w.grad).tolist() == [8.0, 40.0, 108.0]  # 2 w x^2

    def test_second_order_crosses(self) -> None:
        """create_graph works through a transfer."""
        x = ag.asarray([1.0, 2.0], dtype="float32", device="numpy", requires_grad=True)
        y = (x.to_device(self.device) ** 3).to_device("numpy")
        (g,) = ag.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = ag.autograd.grad(g.sum(), x)
        assert h.tolist() == [6.0, 12.0]

    def test_tangents_cross(self) -> None:
        """Forward mode works through a transfer."""
        with level() as at:
            x = with_tangent(ag.asarray([1.0, 2.0], device="numpy"), ag.asarray([1.0, -1.0], device="numpy"), at)
            y = x.to_device(self.device) * 2.0
            tangent = tangent_of(y, at)
        assert tangent is not None
        self.close(tangent, [2.0, -2.0])

    def test_staying(self) -> None:
        """A transfer to a tensor's own device returns the tensor itself."""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        assert x.to_device(self.device) is x

    def test_to_host_is_whole(self) -> None:
        """`Backend.to_host` returns all elements in order, also for views."""
        np = library()
        array = np.reshape(np.arange(24, dtype="float32"), (2, 3, 4))
        x = self.tensor(array)
        for y, expected in (
            (x, array),
            (x[:, ::-1, 1::2], array[:, ::-1, 1::2]),
            (ag.permute_dims(x, (2, 0, 1)), None),
        ):
            wanted = np.permute_dims(array, (2, 0, 1)) if expected is None else expected
            self.close(y, wanted, 0.0)

    def test_numpy(self) -> None:
        """x.numpy() is refused while a gradient is required, and otherwise returns the values."""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(RuntimeError):
            x.numpy()
        assert x.detach().numpy().tolist() == [1.0, 2.0]

    def test_other_devices(self) -> None:
        """Values and gradients are also transferred between the devices of one backend."""
        others = [device for device in self.backend.devices() if device != self.device]
        if not others:
            pytest.skip("it has one device")
        for there in others:
            x = self.tensor([1.0, 2.0], requires_grad=True)
            y = x.to_device(there)
            assert y.device == there
            (y * y).sum().backward()
            assert x.grad is not None
            assert x.grad.device == self.device
            self.close(x.grad, [2.0, 4.0])

    def test_mixed_operands(self) -> None:
        """Operands on unrelated backends are refused, unless this backend takes the other's; then it is recorded."""
        if self.name == "numpy":
            pytest.skip("there is no other backend at hand")
        x = self.tensor([1.0, 2.0], requires_grad=True)
        y = ag.asarray([3.0, 4.0], dtype=self.real, device="numpy", requires_grad=True)
        if joined([self.backend, y._spec.backend]) is None:
            with pytest.raises(ag.BackendError, match=r"to_device\("):
                x * y
            return
        z = x * y
        assert z.device == self.device
        first, second = ag.autograd.grad(z.sum(), [x, y])
        self.close(first, [3.0, 4.0])
        assert second.device == "numpy"
        assert second.tolist() == [1.0, 2.0]
