"""Every op with a derivative on Dask, in small chunks: values against NumPy, gradients against finite differences."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest

import agrad as ag
from agrad.core.op import OPS
from agrad.plugin import manager
from agrad.testing.samples import SAMPLES, Data, resolve

da = pytest.importorskip("dask.array")

ALL = [sample for name, samples in SAMPLES.items() if name != "to_device" for sample in samples]

#: Ops that may need the values of index arrays: to combine several, for a shape, or for the last of several writes.
COMPUTES = {"getitem", "repeat", "scatter_add", "setitem", "take", "take_along_axis"}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy at singular points, within tasks


def numpy_of(data):
    return np.array(data.values, dtype=data.dtype).reshape(data.shape)


class Call:
    """A sample's call on NumPy's arrays and on Dask's."""

    def __init__(self, sample, chunks, lazy_indices):
        self.sample, self.op, self.chunks, self.lazy_indices = sample, OPS[sample.op], chunks, lazy_indices
        bound = self.op.signature.bind(*sample.args, **sample.kwargs)
        bound.apply_defaults()
        self.values = [bound.arguments[a.name] for a in self.op.arguments]
        self.operands = []
        for i, argument in self.op.operand_slots:
            members = self.values[i] if argument.kind == "sequence" else [self.values[i]]
            self.operands += [m for m in members if isinstance(m, Data) and m.inexact]
        self.arrays = {id(data): numpy_of(data) for data in self.operands}
        self.rng = np.random.default_rng(zlib.crc32(str(sample).encode()))

    def on_numpy(self, arrays):
        backend = manager.get("numpy")
        values = [
            resolve(v, lambda d: arrays.get(id(d), numpy_of(d)), lambda s: backend.spec(np.zeros(s.shape, s.dtype)))
            for v in self.values
        ]
        if self.op.dtype_slot is not None and values[self.op.dtype_slot] is not None:
            values[self.op.dtype_slot] = np.dtype(values[self.op.dtype_slot])
        with np.errstate(all="ignore"):
            result = self.op.invoke(self.op.kernel_of(backend.xp), values)
        return [np.asarray(r) for r in (result if self.op.rule.outputs is not None else [result])]

    def chunked(self, array):
        return ag.asarray(da.from_array(array, chunks=self.chunks if array.ndim else ()))

    def on_dask(self, leaves):
        def make(data):
            if id(data) in leaves:
                return leaves[id(data)]
            return self.chunked(numpy_of(data)) if self.lazy_indices else ag.asarray(numpy_of(data))

        def spec(like):
            return self.chunked(np.zeros(like.shape, like.dtype))._spec

        args = [resolve(v, make, spec) for v in self.sample.args]
        kwargs = {k: resolve(v, make, spec) for k, v in self.sample.kwargs.items()}
        result = self.op.entry(*args, **kwargs)
        return list(result) if self.op.rule.outputs is not None else [result]

    def like(self, array):
        made = self.rng.uniform(0.5, 1.5, array.shape)
        if np.iscomplexobj(array):
            made = made + 1j * self.rng.uniform(0.5, 1.5, array.shape)
        return np.asarray(made, array.dtype)

    def slope(self, cotangents, directions):
        """The derivative of the results, weighted by cotangents, along directions: by central differences."""
        h = 1e-6
        above, below = (
            self.on_numpy({k: np.asarray(a + s * h * directions[k]) for k, a in self.arrays.items()}) for s in (1, -1)
        )
        return inner(cotangents, [(a - b) / (2 * h) for a, b in zip(above, below, strict=True)])


def inner(first, second):
    return sum(float(np.sum((np.conj(a) * b).real)) for a, b in zip(first, second, strict=True))


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._data))


def has_indices(value):
    if isinstance(value, tuple | list):
        return any(map(has_indices, value))
    return isinstance(value, Data) and not value.inexact


CASES = [
    (i, sample, chunks, lazy)
    for i, sample in enumerate(ALL)
    for chunks in (2, 100)
    for lazy in ((False, True) if has_indices([*sample.args, *sample.kwargs.values()]) else (False,))
]


@pytest.mark.parametrize(
    ("sample", "chunks", "lazy_indices"),
    [case[1:] for case in CASES],
    ids=[f"{i}-{sample}-chunks of {chunks}{'-lazy' if lazy else ''}" for i, sample, chunks, lazy in CASES],
)
def test_values_and_gradients(sample, chunks, lazy_indices, dask_backend):
    call = Call(sample, chunks, lazy_indices)
    expected = call.on_numpy(call.arrays)
    leaves = {k: call.chunked(a).requires_grad_() for k, a in call.arrays.items()}
    results = call.on_dask(leaves)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert result._spec.backend.name == "dask"
        assert isinstance(result._data, da.Array)
        found = host(result)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    if not results:
        return
    # a cotangent of unknown shape can only be made from the result itself
    cotangents = [call.like(r) for r in expected]
    given = [
        ag.asarray(da.map_blocks(np.ones_like, r._data)) if np.isnan(r.shape).any() else call.chunked(g)
        for r, g in zip(results, cotangents, strict=True)
    ]
    cotangents = [host(g) for g in given]
    gradients = ag.autograd.grad(results, list(leaves.values()), given)
    for gradient, leaf in zip(gradients, leaves.values(), strict=True):
        assert gradient._spec.backend.name == "dask"
        assert gradient.shape == leaf.shape or any(map(math.isnan, gradient.shape))
        assert gradient.dtype == leaf.dtype
    directions = {k: call.like(a) for k, a in call.arrays.items()}
    found = inner([host(g) for g in gradients], directions.values())
    np.testing.assert_allclose(found, call.slope(cotangents, directions), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sample", ALL, ids=[f"{i}-{s}" for i, s in enumerate(ALL)])
def test_nothing_is_computed(sample, never_computes):
    if sample.op in COMPUTES:
        pytest.skip("may need the values of its indices")
    call = Call(sample, 2, lazy_indices=True)
    leaves = {k: call.chunked(a).requires_grad_() for k, a in call.arrays.items()}
    results = call.on_dask(leaves)
    if results:
        gradients = ag.autograd.grad(results, list(leaves.values()), [ag.ones_like(r) for r in results])
        assert all(isinstance(g._data, da.Array) for g in gradients)


@pytest.mark.parametrize("sample", ALL, ids=[f"{i}-{s}" for i, s in enumerate(ALL)])
def test_gradients_can_be_recorded(sample, dask_backend):
    """With create_graph the rules run on tensors: the same numbers, and a graph of their own."""
    call = Call(sample, 2, lazy_indices=False)
    leaves = {k: call.chunked(a).requires_grad_() for k, a in call.arrays.items()}
    results = call.on_dask(leaves)
    if not results:
        return
    cotangents = [call.like(r) for r in call.on_numpy(call.arrays)]
    given = [call.chunked(g).requires_grad_() for g in cotangents]
    gradients = ag.autograd.grad(results, list(leaves.values()), given, create_graph=True)
    directions = {k: call.like(a) for k, a in call.arrays.items()}
    found = inner([host(g.detach()) for g in gradients], directions.values())
    np.testing.assert_allclose(found, call.slope(cotangents, directions), rtol=1e-6, atol=1e-6)
    assert all(g._spec.backend.name == "dask" for g in gradients)
