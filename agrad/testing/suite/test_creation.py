"""Creation: values, dtypes, devices and requires_grad of every creation function, and of ``*_like``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import agrad as ag
from agrad.testing.calls import library
from agrad.testing.needs import of_dtype
from agrad.testing.suite.base import Conformance

#: Per function: the call with the dtype, and the expected numbers.
CREATED: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "zeros": (lambda xp, d: xp.zeros((2, 3), dtype=d), [[0.0] * 3] * 2),
    "ones": (lambda xp, d: xp.ones((2,), dtype=d), [1.0, 1.0]),
    "full": (lambda xp, d: xp.full((2, 1), 2.5, dtype=d), [[2.5], [2.5]]),
    "full, 0-d": (lambda xp, d: xp.full((), 2.5, dtype=d), 2.5),
    "arange": (lambda xp, d: xp.arange(1.0, 3.0, 0.5, dtype=d), [1.0, 1.5, 2.0, 2.5]),
    "linspace": (lambda xp, d: xp.linspace(0.0, 1.0, 5, dtype=d), [0.0, 0.25, 0.5, 0.75, 1.0]),
    "eye": (lambda xp, d: xp.eye(2, 3, k=1, dtype=d), [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "asarray": (lambda xp, d: xp.asarray([[1.5], [2.0]], dtype=d), [[1.5], [2.0]]),
    "asarray of a number": (lambda xp, d: xp.asarray(1.5, dtype=d), 1.5),
    "asarray of nothing": (lambda xp, d: xp.asarray([], dtype=d), []),
    "zeros of no elements": (lambda xp, d: xp.zeros((0, 2), dtype=d), []),
}

#: Calls without elements.
EMPTY = ("asarray of nothing", "zeros of no elements")

#: For a tensor [[1, 2], [3, 4]]: the call, and the expected numbers.
MADE_OF: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "zeros_like": (lambda xp, x: xp.zeros_like(x), [[0.0, 0.0], [0.0, 0.0]]),
    "ones_like": (lambda xp, x: xp.ones_like(x), [[1.0, 1.0], [1.0, 1.0]]),
    "full_like": (lambda xp, x: xp.full_like(x, 2.5), [[2.5, 2.5], [2.5, 2.5]]),
    "tril": (lambda xp, x: xp.tril(x), [[1.0, 0.0], [3.0, 4.0]]),
    "triu": (lambda xp, x: xp.triu(x), [[1.0, 2.0], [0.0, 4.0]]),
    "asarray": (lambda xp, x: xp.asarray(x), [[1.0, 2.0], [3.0, 4.0]]),
    "asarray, copied": (lambda xp, x: xp.asarray(x, copy=True), [[1.0, 2.0], [3.0, 4.0]]),
}


class TestCreation(Conformance):
    """Tensors created from nothing, from numbers and from other tensors."""

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("function", CREATED)
    def test_created(self, function: str, dtype: str) -> None:
        """The value, the requested dtype, the backend's device, no gradient."""
        self.require(*of_dtype(dtype), *(["empty arrays"] if function in EMPTY else []))
        make, expected = CREATED[function]
        made = make(self.xp, getattr(self.xp, dtype))
        assert self.backend.dtype_name(made.dtype) == dtype
        assert made.device == self.backend.default_device()
        assert not made.requires_grad
        self.check_spec(made, made._spec, "the result")
        assert self.host(made).tolist() == expected

    @pytest.mark.parametrize("function", MADE_OF)
    def test_made_of_another(self, function: str) -> None:
        """Shape, dtype and device are those of the other tensor."""
        make, expected = MADE_OF[function]
        x = self.tensor([[1.0, 2.0], [3.0, 4.0]], "float32")
        made = make(self.xp, x)
        self.check_spec(made, x._spec, "the result")
        assert self.host(made).tolist() == expected

    def test_on_this_device(self) -> None:
        """``device=`` and ``ag.use_backend`` put tensors on the device under test."""
        assert ag.zeros((2,), dtype="float32", device=self.device).device == self.device
        assert ag.asarray([1, 2], device=self.device).device == self.device
        with ag.use_backend(self.device):
            assert ag.ones((2,), dtype="float32").device == self.device

    def test_requires_grad(self) -> None:
        """A tensor that requires grad is a leaf whose gradient is of its kind."""
        for make in (ag.zeros, ag.ones, ag.empty):
            x = make((3,), dtype=self.real, device=self.device, requires_grad=True)
            assert x.is_leaf
            (x * 2.0).sum().backward()
            assert x.grad is not None
            self.check_spec(x.grad, x._spec, "the gradient")
            assert self.host(x.grad).tolist() == [2.0, 2.0, 2.0]

    def test_of_host_memory(self) -> None:
        """NumPy memory becomes a tensor of its dtype on the device; no element is lost or reordered."""
        np = library()
        rows = np.asarray([[1.5, -2.0, 3.0], [0.0, 5.0, 6.5]], dtype="float32")
        locked = rows.copy()
        locked.flags.writeable = False
        repeated = np.broadcast_to(rows[0], (2, 3))  # strides of 0
        for host in (rows, rows.T, rows[:, ::-1], rows[1:, 1:2], np.asarray(2.5, dtype="float32"), locked, repeated):
            x = ag.asarray(host, device=self.device)
            assert x.device == self.device
            assert self.backend.dtype_name(x.dtype) == "float32"
            self.close(x, host, 0.0)

    def test_copies(self) -> None:
        """``copy=True`` is another tensor of the same value; without it a tensor stays the tensor it is."""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        assert self.xp.asarray(x) is x
        y = self.xp.asarray(x, copy=True)
        assert y is not x
        (g,) = ag.autograd.grad((y * y).sum(), x)
        self.close(g, [2.0, 4.0])

    def test_copies_of_arrays(self) -> None:
        """``copy=True`` separates the tensor from the array it was created from: writing to that, whether NumPy's or the library's, changes nothing."""
        host = library().asarray([1.0, 2.0], dtype=self.real)
        for array in (host, self.backend.from_host(host.copy(), self.device)):
            made = ag.asarray(array, device=self.device, copy=True)
            try:
                array[0] = 7.0
            except Exception:  # noqa: BLE001 (libraries whose arrays nobody writes to refuse in their own ways)
                assert array is not host
            self.close(made, [1.0, 2.0], 0.0, "the copy")

    def test_meshgrid(self) -> None:
        """meshgrid returns tensors of the backend, and gradients for its operands."""
        x, y = self.tensor([1.0, 2.0], requires_grad=True), self.tensor([3.0, 4.0, 5.0])
        first, second = self.xp.meshgrid(x, y, indexing="ij")
        self.close(first.detach(), [[1.0] * 3, [2.0] * 3])
        self.close(second, [[3.0, 4.0, 5.0]] * 2)
        (first * second).sum().backward()
        self.close(x.grad, [12.0, 12.0])

    def test_broadcast_like(self) -> None:
        """`Backend.broadcast_like` returns an array with the shape (and dtype) of the spec and the array's values repeated."""
        array = self.tensor([[1.0], [2.0]], "float32")._raw
        spec = self.tensor([[0.0] * 3] * 2, "float32")._spec
        made = self.backend.broadcast_like(array, spec)
        found = self.backend.spec(made)
        assert found.shape == (2, 3), f"broadcast_like gives shape {found.shape}, expected (2, 3)"
        assert found.dtype == spec.dtype
        assert found.layout == spec.layout, f"broadcast_like gives layout {found.layout}, expected {spec.layout}"
        self.close(made, [[1.0] * 3, [2.0] * 3], 0.0)

    def test_specs(self) -> None:
        """`Backend.spec` determines shape, dtype and device; it is one object per shape, dtype and device unless lazy."""
        for shape, dtype in itertools.product(((), (3,), *self.empty((2, 0)), (2, 3)), ("int32", "float32")):
            array = self.xp.zeros(shape, dtype=getattr(self.xp, dtype))._raw
            spec = self.backend.spec(array)
            assert (spec.shape, self.backend.dtype_name(spec.dtype)) == (shape, dtype)
            assert spec.backend is self.backend
            assert spec.device == self.backend.default_device()
            if not self.backend.is_lazy:
                assert spec is self.backend.spec(self.xp.ones(shape, dtype=getattr(self.xp, dtype))._raw)
