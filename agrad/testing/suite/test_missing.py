"""Missing elements: derivatives count the elements that are present, and operations that would count the others are refused.

Skipped on backends whose arrays have all their elements (`Backend.missing` is False). Expected values are differences
of the library's own functions, with respect to the elements that are present.
"""

from __future__ import annotations

from typing import Any

import pytest

import agrad as ag
from agrad.core.errors import UnsupportedOp
from agrad.core.op import OPS
from agrad.testing.calls import STEP, library
from agrad.testing.samples import SAMPLES
from agrad.testing.suite.base import Conformance
from agrad.testing.suite.running import FIRST, SampleRun, is_complex

#: The operations whose samples are run: those whose rules know of missing elements, and elementwise ones.
OF_MISSING = [
    name
    for name in SAMPLES
    if name in OPS and "." not in name and (OPS[name].facts.missing or OPS[name].rule.kind == "elementwise")
]


class TestMissing(Conformance):
    """Arrays with missing elements."""

    def made(self, host: Any, mask: Any) -> Any:
        """Return an array of the backend with some missing elements."""
        return self.harness.missing(self.backend, host, mask, self.device)

    def of_missing(self) -> None:
        """Skip unless elements may be missing."""
        if not self.backend.missing:
            pytest.skip("no element of its arrays may be missing")
        self.require("float64")

    @pytest.mark.parametrize("op", OF_MISSING)
    def test_gradients(self, op: str) -> None:
        """A gradient is that of the elements that are present, in reverse and in forward mode."""
        self.of_missing()
        np = library()
        ran = 0
        for sample in [s for s in SAMPLES[op] if not is_complex(s) and not s.beyond][: 1 if self.quick else None]:
            if sample.kwargs.get("dtype") is not None:
                continue
            run = SampleRun(self, sample, "float64")
            sizes = [int(np.size(a)) for a in run.arrays]
            if not run.arrays or max(sizes) < 2 or str(run.arrays[sizes.index(max(sizes))].dtype) != "float64":
                continue
            k = sizes.index(max(sizes))
            mask = np.reshape(np.arange(sizes[k]) == 1, run.arrays[k].shape)
            try:
                with self.backend.quiet():  # what stands for a missing element may overflow
                    self.check(run, k, mask)
            except UnsupportedOp as error:
                self.lacking(error)
            except NotImplementedError as error:  # the library's own refusal
                if not isinstance(error, UnsupportedOp) and "agrad" in type(error).__module__:
                    raise
                continue
            ran += 1
        if not ran:
            pytest.skip("no sample has an operand of several elements")

    def check(self, run: SampleRun, k: int, mask: Any) -> None:
        np = library()

        def results(array: Any) -> list[Any]:
            operands = [self.tensor(a) for a in run.arrays]
            operands[k] = ag.asarray(self.made(array, mask))
            return run.call.tensors(operands, self.tensor)

        if any(r._spec.is_complex for r in results(run.arrays[k])):
            return
        weights = run.call.drawn("weights", [self.filled(r) for r in results(run.arrays[k])])

        def loss(made: list[Any]) -> float:
            return float(sum(np.sum(self.filled(r) * w) for r, w in zip(made, weights, strict=True)))

        def slope(direction: Any) -> float:
            above, below = (results(run.arrays[k] + step * direction) for step in (STEP, -STEP))
            return (loss(above) - loss(below)) / (2 * STEP)

        x = ag.asarray(self.made(run.arrays[k], mask), requires_grad=True)
        operands = [self.tensor(a) for a in run.arrays]
        operands[k] = x
        made = run.call.tensors(operands, self.tensor)
        total = sum(ag.sum(r * self.tensor(w)) for r, w in zip(made, weights, strict=True))
        (gradient,) = ag.autograd.grad(total, [x])
        found = self.filled(gradient)
        for place in np.argwhere(~mask):
            at = tuple(int(i) for i in place)
            direction = np.zeros(mask.shape)
            direction[at] = 1.0
            wanted = slope(direction)
            if not abs(found[at] - wanted) <= FIRST["float64"] * max(1.0, abs(wanted)):
                pytest.fail(f"the gradient at {at} is {found[at]}, by differences {wanted} ({run.call.sample})")

        direction = np.where(mask, 100.0, run.call.tangents[k])
        tangents = ag.func.jvp(
            lambda x: tuple(run.call.tensors([x if i == k else o for i, o in enumerate(operands)], self.tensor)),
            (x.detach(),),
            (self.tensor(direction),),
        )[1]
        pushed, wanted = loss(list(tangents)), slope(np.where(mask, 0.0, direction))
        if not abs(pushed - wanted) <= FIRST["float64"] * max(1.0, abs(wanted)):
            pytest.fail(f"the tangent is {pushed}, by differences {wanted} ({run.call.sample})")

    def filled(self, tensor: Any) -> Any:
        """Return a tensor's elements on the host, 0 where they are missing."""
        raw = tensor.detach()._raw
        return self.host(self.backend.xp.extra.filled(raw, 0))

    def test_what_would_count_them_is_refused(self) -> None:
        """Operations whose rules count all elements refuse arrays with missing elements, and accept others."""
        self.of_missing()
        np = library()
        host = np.asarray([[1.0, 2.0], [3.0, 4.0]])
        with_some, whole = (
            self.made(host, mask) for mask in (np.asarray([[False, True]] * 2), np.asarray([[False] * 2] * 2))
        )
        with pytest.raises(UnsupportedOp, match=r"matmul is not supported .* elements are missing"):
            ag.matmul(ag.asarray(with_some), ag.asarray(whole))
        self.close(ag.matmul(ag.asarray(whole), ag.asarray(whole)), host @ host)

    def test_they_do_not_leave(self) -> None:
        """Missing elements are not lost in a transfer to another backend, which is refused."""
        self.of_missing()
        x = ag.asarray(self.made(library().asarray([1.0, 2.0]), library().asarray([False, True])))
        for leave in (lambda: x.to_device("numpy"), x.numpy):
            with pytest.raises((UnsupportedOp, TypeError), match="missing"):
                leave()

    def test_they_are_seen(self) -> None:
        """`misses` detects arrays with missing elements, and ``extra.filled`` fills them."""
        self.of_missing()
        np = library()
        some = self.made(np.asarray([1.0, 2.0]), np.asarray([False, True]))
        assert self.backend.misses(some)
        assert not self.backend.misses(self.tensor([1.0, 2.0])._raw)
        full = self.backend.xp.extra.filled(some, 7.0)
        assert not self.backend.misses(full)
        self.close(full, [1.0, 7.0], 0.0)
