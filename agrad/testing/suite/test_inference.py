"""Inference: what `agrad.func.inference.infer` says of every operation is what running it gives."""

from __future__ import annotations

from typing import Any

import pytest

from agrad.func.inference import infer
from agrad.testing.calls import library, reference_array
from agrad.testing.samples.data import Data, Like, resolve
from agrad.testing.suite.base import same_shape
from agrad.testing.suite.running import OfSamples, Run, of_rules


class TestInference(OfSamples):
    """Shapes and dtypes without a computation."""

    @of_rules
    def test_specs(self, op: str, dtype: str) -> None:
        """The specs of an operation's results, by those of its operands."""

        def check(run: Run) -> None:
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
