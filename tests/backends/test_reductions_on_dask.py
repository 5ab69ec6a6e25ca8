"""A reduction over chunks is one layer: NumPy's values, the same bits however it is computed, one tree of tasks for all."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import agrad as ag

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
computing = pytest.importorskip("agrad_dask.computing")
fusing = pytest.importorskip("agrad_dask.fusing")
reductions = pytest.importorskip("agrad_dask.reductions")
runs = pytest.importorskip("agrad_dask.runs")
KERNELS = pytest.importorskip("agrad_dask.kernels").KERNELS

pytestmark = pytest.mark.usefixtures("dask_backend")

#: Rows in even chunks, in others, with one that is empty, in many.
CHUNKS = [(4, 4, 4), (5, 1, 6), (3, 0, 9), (1,) * 12]


@pytest.fixture(autouse=True)
def _in_turns():
    with dask.config.set(scheduler="synchronous"):
        yield


def a_random(dtype, *shape):
    values = np.random.default_rng(0).normal(size=shape) * 3
    if dtype == "complex64":
        values = values + 1j * values[::-1]
    return (values > 0) if dtype == "bool" else values.astype(dtype)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(("axis", "keepdims"), [(0, False), (-2, True), (None, False), ((1, 0), True)])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "mean"])
def test_reductions_over_chunks_are_numpys(name, axis, keepdims, chunks):
    for dtype in ("float64", "float32", "int8", "bool", "complex64")[: 5 if chunks is CHUNKS[0] else 1]:
        if name in ("max", "min") and (dtype == "complex64" or 0 in chunks):  # of an empty chunk they are Dask's
            continue
        if name == "mean" and dtype in ("int8", "bool"):
            continue
        a = a_random(dtype, 12, 3)
        found = KERNELS[name](da.from_array(a, chunks=(chunks, 3)), axis=axis, keepdims=keepdims)
        expected = getattr(np, name)(a, axis=axis, keepdims=keepdims)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        made = found.compute()
        assert made.shape == expected.shape
        np.testing.assert_allclose(made, expected, rtol=1e-4 if dtype in ("float32", "complex64") else 1e-12)


@pytest.mark.parametrize("name", ["sum", "max", "any", "mean"])
def test_nan_and_unknown_sizes(name):
    a = a_random("float64", 12, 3)
    a[7, 1] = np.nan
    x = da.from_array(a, chunks=(4, 3))
    np.testing.assert_allclose(KERNELS[name](x, axis=0).compute(), getattr(np, name)(a, axis=0), rtol=1e-12)
    y = x[x[:, 0] > 0]
    np.testing.assert_allclose(
        KERNELS[name](y, axis=0).compute(), getattr(np, name)(a[a[:, 0] > 0], axis=0), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", ["float64", "int8", "complex64"])
@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        (((12, 3), (12, 2)), ((0,), (0,))),
        (((12,), (12,)), 1),
        (((3, 12), (12,)), 1),
        (((12, 3), (3, 12)), ((0, 1), (1, 0))),
        (((2, 12, 3), (3, 12)), ((1, -1), (-1, 0))),
    ],
)
def test_products_summed_over_chunks_are_numpys(shapes, axes, dtype):
    a, b = (a_random(dtype, *shape) for shape in shapes)
    x, y = (da.from_array(each, chunks=tuple(4 if n == 12 else n for n in each.shape)) for each in (a, b))
    found = KERNELS["tensordot"](x, y, axes=axes)
    expected = np.tensordot(a, b, axes)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-5 if dtype == "complex64" else 1e-12)
    assert isinstance(found.dask.layers[found.name], fusing.Fold)
    if shapes != ((12, 3), (12, 2)):
        return
    np.testing.assert_allclose(
        KERNELS["matmul"](x.T, y).compute(), a.T @ b, rtol=1e-5 if dtype == "complex64" else 1e-12
    )


def test_a_product_of_chunks_that_are_cut_otherwise():
    a, b = a_random("float64", 3, 12), a_random("float64", 12, 2)
    found = KERNELS["matmul"](da.from_array(a, chunks=(3, 4)), da.from_array(b, chunks=(5, 2)))
    np.testing.assert_allclose(found.compute(), a @ b, rtol=1e-12)


def test_the_bits_do_not_depend_on_how_many_places_share_a_task(monkeypatch):
    a = np.random.default_rng(0).normal(size=(317, 5)).astype("float32")
    found = set()
    for nbytes in (1, 50, 100, 200, 2**24):
        monkeypatch.setattr(fusing, "GROUP_BYTES", nbytes)
        monkeypatch.setattr(fusing, "GROUPS", 8)
        total = KERNELS["sum"](da.from_array(a, chunks=(2, 5)), axis=0)
        found |= {computing.values(total)[0].tobytes(), total.compute().tobytes()}
        (limited,) = computing.realize((total,), max_memory="1GiB")
        found.add(limited.compute().tobytes())
    assert len(found) == 1


def test_all_that_is_summed_shares_a_tree_of_tasks(monkeypatch):
    monkeypatch.setattr(fusing, "GROUP_BYTES", 1)
    x = ag.asarray(da.from_array(a_random("float64", 64, 3), chunks=(1, 3)))
    w, b = ag.asarray(np.ones((3, 4)), requires_grad=True), ag.asarray(np.zeros(4), requires_grad=True)
    graphs = []
    monkeypatch.setattr(runs.Runs, "graph", lambda plan, real=runs.Runs.graph: graphs.append(real(plan)) or graphs[-1])
    loss = ag.sum(ag.tanh(x @ w + b) ** 2)
    loss.backward()
    kinds = [node.func for node in graphs[0].values() if hasattr(node, "func")]
    assert kinds.count(fusing.run_group) == 64
    assert kinds.count(fusing.combined) == 8 + 1
    z = np.tanh(x.numpy() @ np.ones((3, 4)))
    np.testing.assert_allclose(loss.item(), (z**2).sum(), rtol=1e-12)
    np.testing.assert_allclose(b.grad.numpy(), (2 * z * (1 - z**2)).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), x.numpy().T @ (2 * z * (1 - z**2)), rtol=1e-12)


def test_what_is_looked_at_to_find_the_passes_does_not_grow_with_the_chunks():
    def size(count):
        x = da.zeros((count * 1_000_000, 8), chunks=(1_000_000, 8))
        centred = x - KERNELS["mean"](x, axis=0)
        total = KERNELS["sum"](centred * centred)
        return len(runs.Runs(total.dask, [(total.name,)], 8).outline())

    assert size(4_000) < 1.2 * size(1_000) < 1_000


def test_a_fold_is_a_layer_of_dasks():
    a = a_random("float64", 12, 3)
    x = da.from_array(a, chunks=(1, 3))
    total = KERNELS["sum"](x, axis=0)
    assert KERNELS["sum"](x, axis=0).name == total.name, "what is written twice is computed once"
    layer = total.dask.layers[total.name]
    assert not layer.is_materialized()
    for each in (total, pickle.loads(pickle.dumps(total)), total + 0, dask.optimize(total)[0], total.persist()):
        np.testing.assert_allclose(each.compute(), a.sum(axis=0), rtol=1e-12)
    assert layer.is_materialized()
    assert len(layer) == 2 + 1 + 1, "twelve blocks, eight at a time"
    np.testing.assert_allclose(dask.get(dict(total.dask), total.__dask_keys__())[0], a.sum(axis=0), rtol=1e-12)


def test_pairs_of_pairs():
    for count in range(1, 40):
        pairs = reductions.Pairs(lambda a, b: f"({a}{b})")
        pairs.add(range(count), [chr(65 + i) for i in range(count)])

        def halved(letters):
            if len(letters) == 1:
                return letters
            half = 1 << (len(letters) - 1).bit_length() - 1
            return f"({halved(letters[:half])}{halved(letters[half:])})"

        assert pairs.result() == halved("".join(chr(65 + i) for i in range(count)))
