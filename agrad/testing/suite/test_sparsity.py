"""The sparsity of programs: all nonzero elements of a sample's Jacobian, and of its gradient's, are in the pattern."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import agrad as ag
from agrad.plugin import manager
from agrad.testing.calls import library
from agrad.testing.suite.running import OfSamples, SampleRun, of_rules
from agrad.testing.suite.test_programs import SampleFunction


class TestSparsity(OfSamples):
    """Patterns are never too small."""

    #: All directions are one batch, with more and smaller chunks than Dask likes.
    pytestmark: pytest.MarkDecorator = pytest.mark.filterwarnings("ignore:Increasing number of chunks")

    def check_pattern(self, function: Callable[..., Any], operands: Sequence[Any], extras: Sequence[Any]) -> None:
        """Compare the nonzero elements of the Jacobian of a function of operands with the pattern of its program."""
        np = library()
        program = ag.func.capture(function)(list(operands), list(extras))
        patterns = [program.sparsity(argnums=0), program.sparsity(list(operands), list(extras), argnums=0, local=True)]
        kept = np.concatenate(
            [np.zeros(0, dtype=bool), *(_each(y, y._spec.inexact) for y in function(operands, extras))]
        )
        whole = np.zeros((int(kept.sum()), sum(map(_size, operands))), dtype=complex)
        factors = (1.0, 1j) if any(x._spec.is_complex for x in operands) else (1.0,)
        for factor in factors if whole.size else ():
            directions = [
                np.zeros((whole.shape[1], *x.shape), dtype=self.backend.dtype_name(x.dtype)) for x in operands
            ]
            first = 0
            for x, block in zip(operands, directions, strict=True):
                at = np.arange(_size(x))
                block.reshape(whole.shape[1], _size(x))[first + at, at] = factor if x._spec.is_complex else 1.0
                first += _size(x)

            def pushed(*directions: Any) -> list[Any]:
                results, tangents = ag.func.jvp(lambda *given: function(given, extras), tuple(operands), directions)
                return [t for y, t in zip(results, tangents, strict=True) if y._spec.inexact]

            columns = self.hosts([t.detach() for t in ag.func.vmap(pushed)(*map(self.tensor, directions))])
            flat = [column.reshape(whole.shape[1], math.prod(column.shape[1:])) for column in columns]
            whole = np.maximum(abs(whole), abs(np.concatenate(flat, axis=1).T))
        for pattern in patterns:
            outside = (whole != 0) & ~pattern.toarray()[kept]
            assert not outside.any(), (
                f"elements {np.argwhere(outside)[:5].tolist()} of the Jacobian are not in the pattern"
            )

    @of_rules
    def test_patterns(self, op: str, dtype: str) -> None:
        """An operation, and its gradients."""
        if manager.get("numpy").module("scipy.sparse") is None:
            pytest.skip("requires SciPy")

        def check(run: SampleRun) -> None:
            body = SampleFunction(run)
            if not body.replays(run):
                return
            self.check_pattern(body.results, run.leaves(()), body.extras)
            if self.backend.is_lazy:
                return
            cotangents, _ = run.cotangents(body.first)
            count = len(run.arrays)

            def gradients(operands: Sequence[Any], extras: Sequence[Any]) -> list[Any]:
                return body.pulled(operands[:count], operands[count:], extras)[len(body.first) :]

            self.check_pattern(gradients, [*run.leaves(()), *cotangents], body.extras)

        self.run(check, op, dtype, once=True, few=True)


def _each(tensor: Any, value: bool) -> Any:
    return library().full(_size(tensor), value)


def _size(tensor: Any) -> int:
    return int(library().prod(tensor.shape, dtype=int))
