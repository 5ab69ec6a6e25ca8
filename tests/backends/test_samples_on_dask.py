"""Every op with a derivative on Dask: values against NumPy, gradients against finite differences.

In small chunks of lazy arrays `agrad.testing.suite` runs them, in every mode; here are single chunks and known indices.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import agrad as ag
from agrad.testing import calls
from agrad.testing.samples import SAMPLES, Data

da = pytest.importorskip("dask.array")

ALL = [sample for name, samples in SAMPLES.items() if name != "to_device" for sample in samples]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy at singular points, within tasks


class Call(calls.SampleCall):
    """A sample's call on NumPy's arrays and on Dask's."""

    def __init__(self, sample, chunks, lazy_indices):
        super().__init__(sample)
        self.chunks, self.lazy_indices = chunks, lazy_indices

    def chunked(self, array):
        return ag.asarray(da.from_array(array, chunks=self.chunks if array.ndim else ()))

    def on_dask(self, leaves):
        def make(array):
            known = array.dtype.kind in "biu" and not self.lazy_indices
            return ag.asarray(array, device="dask") if known else self.chunked(array)

        return self.tensors(leaves, make)

    def slope(self, cotangents):
        """The derivative of the results, weighted by cotangents, along the tangents: by central differences."""
        return calls.inner(cotangents, calls.Slopes(self).along(range(len(self.arrays))))


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


def has_indices(value):
    if isinstance(value, tuple | list):
        return any(map(has_indices, value))
    return isinstance(value, Data) and not value.inexact


#: Chunks, and whether index arrays are lazy; by whether there are any. In chunks of 2, lazy, the kit runs all of them.
CHUNKS = {False: [(100, False)], True: [(2, False), (100, False), (100, True)]}

#: Of every op, the first sample and each third one: a single chunk is handled alike whatever is in it.
SOME = {id(sample) for samples in SAMPLES.values() for sample in samples[::3]}


def cases():
    for i, sample in enumerate(ALL):
        indices = has_indices([*sample.args, *sample.kwargs.values()])
        for chunks, lazy in CHUNKS[indices]:
            name = f"{i}-{sample}-chunks of {chunks}{'-lazy' if lazy else ''}"
            marks = () if indices or id(sample) in SOME else pytest.mark.long
            yield pytest.param(sample, chunks, lazy, id=name, marks=marks)


@pytest.mark.parametrize(("sample", "chunks", "lazy_indices"), [*cases()])
def test_values_and_gradients(sample, chunks, lazy_indices, dask_backend):
    call = Call(sample, chunks, lazy_indices)
    expected = call.raw(call.arrays)
    leaves = [call.chunked(a).requires_grad_() for a in call.arrays]
    results = call.on_dask(leaves)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert result._spec.backend.name == "dask"
        assert isinstance(result._raw, da.Array)
        found = host(result)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    if not results:
        return
    # a cotangent of unknown shape can only be made from the result itself
    cotangents = call.drawn("cotangents", expected)
    given = [
        ag.asarray(da.map_blocks(np.ones_like, r._raw)) if np.isnan(r.shape).any() else call.chunked(g)
        for r, g in zip(results, cotangents, strict=True)
    ]
    cotangents = [host(g) for g in given]
    gradients = ag.autograd.grad(results, leaves, given)
    for gradient, leaf in zip(gradients, leaves, strict=True):
        assert gradient._spec.backend.name == "dask"
        assert gradient.shape == leaf.shape or any(map(math.isnan, gradient.shape))
        assert gradient.dtype == leaf.dtype
    found = calls.inner([host(g) for g in gradients], call.tangents)
    np.testing.assert_allclose(found, call.slope(cotangents), rtol=1e-6, atol=1e-6)
