"""Memory: results are in memory as declared, bytes are counted correctly, a graph keeps no more than its rules request."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import pytest

import agrad as ag
from agrad.core.cpython import collect, uncollected
from agrad.core.op import facts_of
from agrad.core.tensor import Tensor
from agrad.testing.needs import of_dtype
from agrad.testing.places import place_of
from agrad.testing.suite.base import Conformance
from agrad.testing.suite.running import OfSamples, SampleRun, cases
from agrad.testing.suite.test_creation import CREATED, MADE_OF

#: Functions that create arrays, with and without another array as a model.
MAKING = CREATED | MADE_OF


class TestMemory(Conformance):
    """The memory kept for backward."""

    @pytest.mark.parametrize(
        ("dtype", "size"), [("float32", 4), ("float64", 8), ("int8", 1), ("bool", 1), ("complex64", 8)]
    )
    def test_nbytes(self, dtype: str, size: int) -> None:
        """`Backend.nbytes` is the number of elements times the size of one."""
        self.require(*of_dtype(dtype))
        for shape in ((), (7,), (3, 5), *self.empty((0, 4))):
            count = 1
            for n in shape:
                count *= n
            array = ag.zeros(shape, dtype=dtype, device=self.device)._raw
            found = self.backend.nbytes(array)
            assert found == count * size, f"nbytes of {shape} {dtype} is {found}, expected {count * size}"

    def test_copies(self) -> None:
        """`Backend.asarray` with ``copy=True`` returns another array, for lazy libraries too: programs know arrays by identity."""
        raw = self.tensor([1.0, 2.0])._raw
        made = self.backend.asarray(raw, copy=True)
        assert made is not raw, "asarray(array, copy=True) gives the array itself"
        self.close(made, [1.0, 2.0])

    def test_saved_bytes(self) -> None:
        """A product with a constant saves only the constant; exp its result; a sum nothing, unless elements may be missing."""
        x = self.tensor([[1.0] * 8] * 8, "float32", requires_grad=True)
        c = self.tensor([[2.0] * 8] * 8, "float32")
        for result, expected in (
            (x * c, 256),
            (ag.exp(x), 256),
            (ag.sum(x), 256 if self.backend.missing else 0),  # its missing elements must be known
            (x + c, 0),
            (x * 2.0, 4),
            (x * x, 512),
        ):
            found = ag.view.memory(result).total
            assert found in {expected, min(expected, 256)}, f"{result.grad_fn} keeps {found} bytes, expected {expected}"

    def test_freed_by_backward(self) -> None:
        """Backward releases everything the graph saved."""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        y = ag.exp(x)
        assert ag.view.memory(y).total > 0
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            ag.autograd.grad(y.sum(), x)

    def test_no_cycles(self) -> None:
        """A graph is freed by reference counting, with the collector off."""
        x = self.tensor([1.0, 2.0], requires_grad=True)

        def graph() -> Any:
            y = ag.exp(x) * ag.sin(x)
            return weakref.ref(y.grad_fn)

        collect()
        with uncollected():
            assert graph()() is None

    def test_no_grad_keeps_nothing(self) -> None:
        """Without recording there is no graph."""
        x = self.tensor([1.0, 2.0], requires_grad=True)
        with ag.no_grad():
            y = ag.exp(x)
        assert y.grad_fn is None
        assert not y.requires_grad


class TestPlaces(OfSamples):
    """Where results lie."""

    @pytest.mark.parametrize(("op", "dtype"), [case for case in cases() if facts_of(case.values[0]).memory == "fresh"])
    def test_fresh(self, op: str, dtype: str) -> None:
        """A result that is declared to have its own memory shares none with an operand, or with another result."""
        self.need_places()

        def check(run: SampleRun) -> None:
            if run.call.sample.kwargs.get("copy", True) is not True:
                run.outcome = "left out"  # the available results
                return
            taken = run.leaves(())

            def other(array: Any) -> Any:
                taken.append(run.tensor(array))
                return taken[-1]

            self.check_fresh(op, run.call.tensors([*taken], other), taken)

        self.run(check, op, dtype, once=True)

    @pytest.mark.parametrize(
        "function", [name for name in MAKING if facts_of(name.partition(",")[0]).memory == "fresh"]
    )
    def test_fresh_of_nothing(self, function: str) -> None:
        """New arrays share memory with nothing, nor with the results of the next call."""
        self.need_places()
        x = self.tensor([[1.0, 2.0], [3.0, 4.0]], "float32")
        made = [MAKING[function][0](self.xp, x if function in MADE_OF else self.xp.float32) for _ in range(2)]
        self.check_fresh(function, made, [x])

    def need_places(self) -> None:
        """Skip the test if shared memory cannot be detected."""
        one, other = (self.backend.asarray(self.tensor([value])._raw, copy=True) for value in (1.0, 2.0))
        before = place_of(one)
        if self.backend.is_lazy or before is None:
            pytest.skip("arrays do not say where they lie")
        try:
            one[...] = other
        except TypeError:
            pytest.skip("no array can be written to: nobody sees what they share")
        if place_of(one) != before:
            pytest.skip("an array that is written to moves: nobody sees what they share")

    def check_fresh(self, name: str, results: Sequence[Tensor], taken: Sequence[Tensor]) -> None:
        """Check that results share memory with no operand, and with no other result."""
        places = [place for tensor in taken if (place := place_of(tensor._raw)) is not None]
        for i, result in enumerate(results):
            here = place_of(result._raw)
            assert here is None or not any(map(here.meets, places)), f"result {i} of {name} is not fresh"
            places += [] if here is None else [here]
