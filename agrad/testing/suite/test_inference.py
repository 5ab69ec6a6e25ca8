"""Inference: the specs inferred from shapes and dtypes alone equal those of running the operations.

`agrad.program.inference.infer` returns the specs of results; a program captured from specs equals the one captured from
data.
"""

from __future__ import annotations

from typing import Any

import pytest

import agrad as ag
from agrad.program.inference import infer
from agrad.testing.calls import library, reference_array
from agrad.testing.samples.data import Data, Like, resolve
from agrad.testing.suite.base import same_shape
from agrad.testing.suite.running import OfSamples, SampleRun, of_rules
from agrad.testing.suite.test_programs import SampleFunction, refused


class TestInference(OfSamples):
    """Shapes and dtypes without a computation."""

    @of_rules
    def test_specs(self, op: str, dtype: str) -> None:
        """The specs of an operation's results, given those of its operands."""

        def check(run: SampleRun) -> None:
            def spec(data: Data) -> Any:
                return run.tensor(reference_array(data))._spec

            def like(data: Like) -> Any:
                return run.tensor(library().zeros(data.shape, dtype=data.dtype))._spec

            sample = run.call.sample
            given = [resolve(value, spec, like) for value in sample.args]
            parameters = {name: resolve(value, spec, like) for name, value in sample.kwargs.items()}
            with self.harness.computing_nothing():
                found = infer(op, given, parameters)
            results = run.call.tensors(run.leaves(()), run.tensor)
            if found is None:
                pytest.skip("only a run tells")
            assert len(found) == len(results), f"infer gives {len(found)} specs, there are {len(results)} results"
            for one, result in zip(found, results, strict=True):
                assert one.backend is self.backend
                assert one.device == result._spec.device
                assert same_shape(one.shape, result.shape), f"the result has shape {result.shape}, inferred {one.shape}"
                assert one.dtype == result.dtype, f"the result has dtype {result.dtype}, inferred {one.dtype}"

        self.run(check, op, dtype, once=True)

    @of_rules
    def test_captured_from_specs(self, op: str, dtype: str) -> None:
        """An operation with its gradients is captured from specs in the same steps; one that reads values is named by the error."""
        if self.backend.is_lazy:
            pytest.skip("lazy arrays need no data as they are")

        def check(run: SampleRun) -> None:
            body = SampleFunction(run)
            if refused(run.call.sample) or not body.replays(run):
                return
            given = run.leaves(()), run.cotangents(body.first)[0], body.extras
            wanted = ag.func.capture(body.pulled)(*given)
            specs = ag.tree.map(lambda leaf: leaf._spec, given)
            try:
                with self.harness.computing_nothing():
                    found = ag.func.capture(body.pulled)(*specs)
            except ag.func.CaptureError as error:
                assert f"what {op} gives is not known without values" in str(error)
                run.outcome = "refused"
                return
            assert found.text(notes=False) == wanted.text(notes=False)
            assert {n: found.shapes[n] for n in found.outputs} == {n: wanted.shapes[n] for n in wanted.outputs}

        self.run(check, op, dtype, once=True)
