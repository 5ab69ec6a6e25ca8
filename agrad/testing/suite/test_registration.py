"""Registration and availability: the plugin is found, reports correctly whether it works, and claims only its own arrays."""

from __future__ import annotations

import pytest

import agrad as ag
from agrad.core.backend import backend_of
from agrad.core.op import OPS
from agrad.core.requirements import REQUIREMENTS
from agrad.plugin import manager
from agrad.testing.calls import library
from agrad.testing.suite.base import Conformance

#: The attributes of the standard's arrays, by which libraries cannot be told apart.
STANDARDS = ("__array_namespace__", "__dlpack__", "__dlpack_device__", "device", "dtype", "ndim", "shape", "size")


class TestRegistration(Conformance):
    """Tests of a backend that works here."""

    def test_name_and_contract(self) -> None:
        """The name is a plain word and the plugin speaks this version of the contract."""
        assert self.backend.name == self.name
        assert self.name.isidentifier(), f"{self.name!r} is no name for a namespace or a device"
        assert self.backend.contract == ag.CONTRACT

    def test_namespace_by_name(self) -> None:
        """``ag.namespace(name)`` and ``ag.backends.<name>`` are one object."""
        assert self.xp is ag.namespace(self.name)
        assert self.xp is getattr(ag.backends, self.name)

    def test_devices(self) -> None:
        """Every device carries the backend's name, the default is among them, and arrays are created where requested."""
        devices = self.backend.devices()
        assert self.backend.default_device() in devices
        for device in devices:
            assert device.partition(":")[0] == self.name
            made = self.xp.zeros((2,), device=device)
            assert made.device == device, f"zeros(device={device!r}) are on {made.device}"
            assert self.backend.device_of(made._raw) == device

    def test_claims_its_arrays(self) -> None:
        """Arrays of the library are its own: results of its namespace's functions, 0-d results, of every dtype."""
        xp = self.backend.namespace()
        for array in (xp.asarray([1, 2]), xp.zeros((2, 3)), xp.asarray(True), self.tensor(1.0)._raw):
            found = backend_of(array)
            assert found is self.backend, f"{type(array).__name__} belongs to {found}"
        zero_d = ag.sum(self.tensor([1.0, 2.0]))._raw
        assert backend_of(zero_d) is self.backend, (
            f"sum() gives {type(zero_d).__name__}, which is no array of {self.name}"
        )

    @pytest.mark.parametrize("foreign", [object, int, float, list, str, type(None), dict, memoryview])
    def test_claims_nothing_else(self, foreign: type) -> None:
        """Types of others are not arrays of this backend, and asking about them does not fail."""
        for implementation in manager.plugins().hook.agrad_backend_of.get_hookimpls():
            assert implementation.function(foreign) != self.name, f"{foreign.__name__} is claimed as an array"

    @pytest.mark.parametrize("foreign", ["numpy.ndarray", "agrad.Tensor", "of a standard's array"])
    def test_claims_no_arrays_of_others(self, foreign: str) -> None:
        """Arrays of NumPy, tensors, and classes of others that follow the standard belong to others."""
        of_standard = type(
            "Array", (), {"__module__": "elsewhere", **dict.fromkeys(STANDARDS, property(lambda _: None))}
        )
        kinds: dict[str, type] = {"numpy.ndarray": library().ndarray, "agrad.Tensor": ag.Tensor}
        kind = kinds.get(foreign, of_standard)
        if kind is type(self.tensor([1.0, 2.0])._raw):
            return
        for implementation in manager.plugins().hook.agrad_backend_of.get_hookimpls():
            assert implementation.function(kind) != self.name, (
                f"{foreign} is claimed: go by the class's own module and name, as others have `__array_namespace__` too"
            )

    def test_capabilities(self) -> None:
        """Capabilities are known ones with the value True, False, or a reason; those of devices belong to existing devices."""
        of_devices = self.backend.device_capabilities
        assert set(of_devices) <= set(self.backend.devices()), f"device_capabilities names {set(of_devices)}"
        for said in (self.backend.capabilities, *of_devices.values()):
            for name, can in said.items():
                assert name in REQUIREMENTS, f"{name!r} is no capability; there are {', '.join(REQUIREMENTS)}"
                assert isinstance(can, bool | str), f"{name}: {can!r} is neither True nor False nor a reason"
                assert can != "", f"{name}: the reason is empty"

    def test_defaults(self) -> None:
        """Python numbers get a dtype that the device has; the namespace reports which, and it can be printed."""
        known = self.xp.__array_namespace_info__().default_dtypes(device=self.device)
        numbers: dict[str, complex] = {"real floating": 2.5}
        if not self.missing("complex"):
            numbers["complex floating"] = 1j
        for kind, number in numbers.items():
            for made in (ag.asarray(number, device=self.device), ag.full((2,), number, device=self.device)):
                assert made.dtype == known[kind], f"{number} has dtype {made.dtype}, the default is {known[kind]}"
                assert "dtype=" not in repr(made), f"{made!r} names its dtype, which is the default"
        beside = self.backend.scalar(0.5, self.tensor([1, 2], "int32")._spec)
        assert beside.dtype == known["real floating"], f"0.5 beside integers has dtype {beside.dtype}"

    def test_lacks(self) -> None:
        """Names declared as lacking are operations or functions of the namespace, with a reason in words."""
        for op, reason in self.backend.lacks.items():
            known = op in OPS or hasattr(self.xp, op.partition(".")[0])
            assert known, f"lacks: {op!r} is no operation; ag.rules lists them"
            assert isinstance(reason, str)
            assert reason.strip(), f"lacks[{op!r}] gives no reason"

    def test_join(self) -> None:
        """Its own operands return the backend itself; with NumPy's it accepts the call or leaves it to others."""
        assert self.backend.join([]) is self.backend
        if self.name != "numpy":
            assert self.backend.join([manager.get("numpy")]) in (None, self.backend)


class TestAvailability(Conformance):
    """Tests that must hold even if the library is missing or does not work."""

    needs_backend = False

    def test_row(self) -> None:
        """``ag.backends()`` has a row, with a version and devices or with a reason."""
        row = manager.backend_info(self.name)
        assert row is not None
        if row.available:
            assert row.devices, "an available backend has a device"
            assert isinstance(row.version, str)
            assert row.version, "availability() gives the library's version as its second part"
        else:
            assert row.reason.strip(), "availability() says why the library cannot be used"

    def test_availability_does_not_raise(self) -> None:
        """`Backend.availability` answers (bool, str) and leaves no exception to the caller."""
        answer = manager.get(self.name).availability()
        assert isinstance(answer, tuple)
        types = [type(part) for part in answer]
        assert types == [bool, str], f"availability() gives {answer!r}, {types}: give (bool, str), no subclass of str"

    def test_unavailable_is_said(self) -> None:
        """Using a backend that is not available is an error with its reason."""
        row = manager.backend_info(self.name)
        assert row is not None
        if row.available:
            assert ag.zeros((2,), device=self.device)._spec.backend.name == self.name
            return
        with pytest.raises(ag.BackendError) as caught:
            ag.zeros((2,), device=self.name)
        assert row.reason in str(caught.value)
