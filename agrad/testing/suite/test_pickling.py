"""Pickles, copies and saved files: tensors and the namespace are restored on the same backend with the same values."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import agrad as ag
from agrad.testing.needs import of_dtype
from agrad.testing.suite.base import Conformance


class TestPickling(Conformance):
    """Round trip through bytes."""

    @pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "complex64"])
    def test_tensors(self, dtype: str, protocol: int) -> None:
        """Value, dtype, device and requires_grad survive."""
        self.require(*of_dtype(dtype))
        for data in ([[1, 0], [0, 1]], 1):
            needs = dtype.startswith(("float", "complex"))
            x = self.tensor(data, dtype, requires_grad=needs)
            made = pickle.loads(pickle.dumps(x, protocol))  # noqa: S301 (our own)
            self.check_spec(made, x._spec, "the tensor that came back")
            assert made.requires_grad == needs
            assert self.host(made.detach()).tolist() == self.host(x.detach()).tolist()

    def test_the_namespace(self) -> None:
        """The namespace is pickled and copied by name."""
        assert pickle.loads(pickle.dumps(self.xp)) is self.xp  # noqa: S301 (our own)
        assert copy.deepcopy(self.xp) is self.xp

    def test_deepcopy(self) -> None:
        """A deep copy is independent."""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        made = copy.deepcopy(x)
        with ag.no_grad():
            made += 1.0
        self.close(x.detach(), [1.0, 2.0], 0.0)
        self.close(made.detach(), [2.0, 3.0])

    def test_saved_files(self) -> None:
        """ag.save and ag.load, onto this device."""
        stream = io.BytesIO()
        ag.save({"w": self.tensor([1.0, 2.0], "float32"), "steps": 3}, stream)
        stream.seek(0)
        found = ag.load(stream, device=self.device)
        assert found["steps"] == 3
        assert found["w"].device == self.device
        assert self.backend.dtype_name(found["w"].dtype) == "float32"
        self.close(found["w"], [1.0, 2.0], 0.0)
