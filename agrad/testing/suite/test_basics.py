"""The basics: arrays, transfers, the four operations and a gradient. All other tests depend on them; they take a few seconds.

``python -m agrad conformance NAME`` runs these first, and stops if one fails.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

import agrad as ag
from agrad.core import errors
from agrad.core.backend import backend_of
from agrad.core.errors import UnsupportedOp
from agrad.testing.calls import library
from agrad.testing.suite.base import Conformance, named, requires

FOUR: dict[str, tuple[Callable[[Any, Any], Any], list[float]]] = {
    "add": (operator.add, [5.0, 2.5]),
    "subtract": (operator.sub, [-3.0, 1.5]),
    "multiply": (operator.mul, [4.0, 1.0]),
    "divide": (operator.truediv, [0.25, 4.0]),
}


class TestBasics(Conformance):
    """Each test depends on those before it."""

    def test_every_element_counts(self) -> None:
        """Is no element missing, or is it declared that some may be? (`Backend.missing`)"""
        if self.backend.missing:
            return
        made = self.backend.asarray([1.0, 2.0])
        kind = f"{type(made).__module__}.{type(made).__name__}"
        assert not errors.has_mask(made), (
            f"arrays of type {kind} have a mask: gradients of means, products and the like would be wrong, as derivatives"
            " count every element. Say missing = True, or let the backend be of arrays without a mask, and users pass the mask on"
            " by itself, ag.where(mask, 0, x)"
        )

    def test_the_library_makes_arrays(self) -> None:
        """Are arrays created from lists, and claimed? (`Backend.namespace`, `Backend.spec`, the hook `agrad_backend_of`)"""
        made = self.backend.asarray([[1, 2, 3], [4, 5, 6]], dtype=self.real)
        found = backend_of(made)
        assert found is self.backend, (
            f"an array of type {type(made).__module__}.{type(made).__name__} belongs to {found}: see agrad_backend_of"
        )
        spec = self.backend.spec(made)
        assert spec.shape == (2, 3), f"its shape is {spec.shape}, expected (2, 3)"
        assert self.backend.dtype_name(spec.dtype) == self.real, f"its dtype is {spec.dtype}, expected {self.real}"
        x: Any = ag.asarray(made)
        assert x.device in self.backend.devices(), f"it is on {x.device}, none of {self.backend.devices()}"

    def test_dtypes_have_names(self) -> None:
        """Is a dtype found by its name, as agrad's, and as another library's? (`Backend.dtype_name`)"""
        np = library()
        for name in (self.real, "int64", "bool"):
            for given in (name, getattr(ag, name), np.asarray(np.zeros(1), dtype=name).dtype):
                native = self.backend.dtype(given)
                found = self.backend.dtype_name(native)
                assert found == name, f"dtype({given!r}) gives {native!r}, whose name is {found!r}, expected {name!r}"

    def test_one_class_of_arrays(self) -> None:
        """Do all functions return arrays of one class? (`Backend.namespace` returns one object)"""
        made = [self.backend.namespace().asarray([1.0, 2.0]) for _ in range(2)]
        kinds = [type(array) for array in made]
        assert kinds[0] is kinds[1], f"the arrays are of {named(kinds[0])}, and of {named(kinds[1], kinds[0])}"

    def test_the_host_reads_arrays(self) -> None:
        """Does NumPy read them, 0-d ones too? (`Backend.to_host`)"""
        np = library()
        for value in ([[1.0, 2.0], [3.0, 4.0]], 2.5, [True, False], [1, -2]):
            x = ag.asarray(value, dtype=self.real if isinstance(value, float) else None, device=self.device)
            host = np.asarray(self.backend.to_host(self._computed(x)))
            assert host.shape == x.shape, f"to_host gives the shape {host.shape} for {x.shape}"
            assert host.tolist() == value

    def test_the_library_takes_arrays_of_the_host(self) -> None:
        """Are values transferred from NumPy, and back? (`Backend.from_host`, `Backend.to_host`)"""
        np = library()
        for value in ([[1.0, 2.0], [3.0, 4.0]], 2.5, [True, False], [1, -2]):
            host = np.asarray(value)
            host = np.astype(host, self.real) if np.isdtype(host.dtype, "real floating") else host
            x = ag.asarray(host, device="numpy").to_device(self.device)
            assert x._spec.backend is self.backend, f"a transfer ends on {x.device}"
            assert x.shape == host.shape, f"from_host makes {x.shape} of the shape {host.shape}"
            assert x.to_device("numpy")._raw.tolist() == value

    @pytest.mark.parametrize("op", FOUR)
    def test_the_four_operations(self, op: str) -> None:
        """Are they right for two tensors, and for a tensor and a number? (`Backend.namespace`, `Backend.kernel`)"""
        function, expected = FOUR[op]
        x, y = self.tensor([1.0, 2.0]), self.tensor([4.0, 0.5])
        try:
            self.close(function(x, y), expected)
            self.close(function(x, 4.0), [expected[0], function(2.0, 4.0)])
        except UnsupportedOp as error:
            self.lacking(error)

    def test_a_gradient(self) -> None:
        """Is the gradient of a sum of products right? (`Backend.kernel`, `Backend.broadcast_like`)"""
        x, y = self.tensor([1.0, 2.0], requires_grad=True), self.tensor([3.0, 4.0], requires_grad=True)
        (x * y * 0.5 + y).sum().backward()
        self.close(x.grad, [1.5, 2.0], what="the gradient by x")
        self.close(y.grad, [1.5, 2.0], what="the gradient by y")

    @requires("operators that give way")
    def test_an_array_beside_a_tensor(self) -> None:
        """Are `array * tensor` and `array @ tensor` tensors? (operators that return NotImplemented for classes they do not know)"""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        for symbol, operate, expected in (("*", operator.mul, [3.0, 1.0]), ("@", operator.matmul, 4.0)):
            try:
                made: Any = operate(self.tensor([3.0, 0.5])._raw, x)
                what = f"is a {type(made).__name__}"
            except Exception as error:  # noqa: BLE001 (libraries refuse in their own ways)
                made, what = None, f"raises {type(error).__name__}"
            if not isinstance(made, ag.Tensor):
                pytest.skip(
                    f"requires operators that give way: array {symbol} tensor {what}, the library's own: tell users to write"
                    f" tensor {symbol} array, or ag.asarray(array) {symbol} tensor"
                )
            self.close(made.detach(), expected)

    def test_a_tensor_prints(self) -> None:
        """Does `print` show it? (`Backend.to_host`)"""
        text = str(self.tensor([1.0, 2.0]))
        assert text.startswith("tensor("), text

    def _computed(self, x: Any) -> Any:
        return self.backend.realize(x._raw)[0] if self.backend.is_lazy else x._raw
