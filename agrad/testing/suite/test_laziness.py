"""Laziness: on a lazy backend nothing computes until a value is requested; one pass computes many values.

Skipped on backends that compute at once (``is_lazy`` is False).
"""

from __future__ import annotations

from typing import Any

import pytest

import agrad as ag
from agrad.core.errors import UnsupportedOp
from agrad.testing.calls import library
from agrad.testing.samples import SAMPLES, Data
from agrad.testing.suite.base import FEW
from agrad.testing.suite.running import OfSamples, SampleRun

#: Operations that may need the values of index arrays: to combine several, for a shape, or for the last of several
#: writes.
READS_INDICES = {"getitem", "repeat", "scatter_add", "setitem", "take"}


def has_arrays(value: Any) -> bool:
    """Return whether an argument of a sample contains an index array."""
    if isinstance(value, tuple | list):
        return any(map(has_arrays, value))
    return isinstance(value, Data) and not value.inexact


class TestLaziness(OfSamples):
    """Nothing computes unrequested."""

    def use(self, device: str) -> None:
        super().use(device)
        if not self.backend.is_lazy:
            pytest.skip(f"{self.name} computes at once")

    def test_the_watch_works(self) -> None:
        """`Harness.computing_nothing` notices that a value is requested."""
        x = self.tensor([1.0, 2.0]) * 2.0
        with pytest.raises(AssertionError), self.harness.computing_nothing():
            x.sum().item()

    @pytest.mark.parametrize("op", SAMPLES)
    def test_forward_and_backward(self, op: str) -> None:
        """Recording an operation and its gradients computes nothing."""
        self.require("lazy operations")
        declared = self.backend.computes.get(op)
        ran = False
        for dtype in ("float64", "complex128") if self.real == "float64" else ("float32", "complex64"):
            samples = self.asked(op, dtype)
            for sample in samples[:FEW] if ag.rules[op].kind == "elementwise" else samples:
                if declared is None and op in READS_INDICES and has_arrays([*sample.args, *sample.kwargs.values()]):
                    continue
                run = SampleRun(self, sample, dtype)
                leaves = run.leaves(run.every)
                try:
                    with self.harness.computing_nothing():
                        results = run.call.tensors(leaves, run.tensor)
                        ones = [ag.ones_like(r) for r in results]
                        gradients = ag.autograd.grad(results, leaves, ones) if results else []
                except Exception as error:
                    if declared is not None and isinstance(error, AssertionError):
                        pytest.skip(f"requires lazy operations: {op} computes ({declared})")
                    if sample.beyond and not isinstance(error, AssertionError):  # libraries refuse in their own ways
                        continue
                    if isinstance(error, UnsupportedOp):
                        self.lacking(error)
                    error.add_note(f"The sample is {sample}.")
                    raise
                for made in (*results, *gradients):
                    assert made._spec.backend is self.backend
                ran = True
        if declared is not None and ran:
            pytest.fail(f"{op} is declared to compute ({declared}), but computes nothing", pytrace=False)

    def test_a_program(self) -> None:
        """A small network, its loss and gradients: nothing computes before, everything is right afterwards."""
        np = library()
        data = np.reshape(np.linspace(-1.0, 1.0, 12), (4, 3))
        x, w = self.tensor(data), self.tensor([[0.5], [-0.25], [1.0]], requires_grad=True)
        with self.harness.computing_nothing():
            loss = ag.sum(ag.tanh(x @ w) ** 2)
            (g,) = ag.autograd.grad(loss, w)
        inner = np.tanh(data @ np.asarray([[0.5], [-0.25], [1.0]]))
        value, gradient = self.hosts([loss.detach(), g])
        self.close(value, np.sum(inner**2))
        self.close(gradient, data.T @ (2 * inner * (1 - inner**2)))

    def test_specs_are_not_kept(self) -> None:
        """Specs of lazy arrays are their own: they may hold chunks and unknown sizes."""
        x = self.tensor([1.0, 2.0])
        assert self.backend.spec(x._raw) is not self.backend.spec(x._raw)

    def test_realize(self) -> None:
        """`Backend.realize` returns arrays of the backend with the same values, shapes and dtypes, for all at once."""
        x = self.tensor([1.0, 2.0, 3.0])
        raws = [(x * 2.0)._raw, ag.sum(x)._raw, (x > 1.5)._raw]
        made = self.backend.realize(*raws)
        assert len(made) == len(raws)
        for raw, done in zip(raws, made, strict=True):
            before, after = self.backend.spec(raw), self.backend.spec(done)
            assert (before.shape, before.dtype) == (after.shape, after.dtype)
        self.close(made[0], [2.0, 4.0, 6.0])
        self.close(made[1], 6.0)

    def test_layout_of_gradients(self) -> None:
        """The gradient of an operand has the layout (the chunks) of the operand."""
        x = self.tensor([[1.0] * 4] * 3, requires_grad=True)
        for f in (ag.sum, lambda x: ag.sum(x, axis=0).sum(), lambda x: (x * x).sum(), lambda x: x[1:].sum(), ag.mean):
            (g,) = ag.autograd.grad(f(x), x)
            assert g._spec.layout == x._spec.layout, (
                f"the gradient has layout {g._spec.layout}, expected {x._spec.layout}"
            )
