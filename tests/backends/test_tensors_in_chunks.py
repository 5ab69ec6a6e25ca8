"""Tensors in chunks: what they show, how they are made in chunks, cut anew, computed and kept."""

from __future__ import annotations

import importlib
import re
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback

import agrad as ag
import agrad_dask
from agrad_dask import computing


def no_tasks():
    """A scheduler that refuses to compute."""

    def get(*args, **kwargs):
        raise AssertionError("something was computed")

    return dask.config.set(scheduler=get)


def test_the_text_of_a_lazy_tensor_says_shape_dtype_and_chunks_and_computes_nothing():
    x = ag.ones((1000, 4), device="dask", chunks=(300, 4), requires_grad=True)
    with no_tasks():
        assert repr(x) == (
            "tensor(..., shape=(1000, 4), chunks=(300, 4), device='dask', dtype=float64, requires_grad=True)"
        )
        assert "grad_fn=<MultiplyBackward0>" in repr(x * 2)
        uneven = ag.asarray(da.ones(10, chunks=((2, 5, 3),)))
        assert "chunks=((2, 5, 3),)" in repr(uneven)


def test_the_text_of_what_is_in_memory_shows_its_elements():
    x = ag.ones((4,), device="dask", chunks=2) * 3.0
    assert repr(x.compute()) == "tensor([3., 3., 3., 3.], device='dask')"
    assert repr(ag.ones((4,), device="dask", chunks=2).persist()) == "tensor([1., 1., 1., 1.], device='dask')"
    assert repr(ag.sum(x)) == "tensor(12., device='dask')"
    assert repr(ag.tensor([1.0, 2.0], device="dask", chunks=1)) == "tensor([1., 2.], device='dask')"


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: ag.zeros((10, 4), **k),
        lambda **k: ag.ones(10, 4, **k),
        lambda **k: ag.empty((10, 4), **k),
        lambda **k: ag.full((10, 4), 2.0, **k),
        lambda **k: ag.rand(10, 4, **k),
        lambda **k: ag.randn(10, 4, **k),
        lambda **k: ag.full((10, 4), ag.tensor(2.0), **k),
        lambda **k: ag.eye(10, 4, **k),
        lambda **k: ag.tensor(np.ones((10, 4)), **k),
        lambda **k: ag.asarray(np.ones((10, 4)), **k),
        lambda **k: ag.asarray([[1.0] * 4] * 10, **k),
    ],
)
def test_creation_in_chunks(make):
    x = make(device="dask", chunks=(5, -1), requires_grad=True)
    assert x.chunks == ((5, 5), (4,))
    assert x.is_leaf
    assert x.requires_grad
    assert x.shape == (10, 4)
    with pytest.raises(TypeError, match=r"chunks= on backends that hold arrays in chunks; numpy holds them whole"):
        make(chunks=5)


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: ag.arange(2, 12, **k),
        lambda **k: ag.arange(0.0, 5.0, 0.5, **k),
        lambda **k: ag.linspace(0.0, 1.0, 10, **k),
        lambda **k: ag.asarray(range(10), **k),
        lambda **k: ag.randint(5, (10,), **k),
    ],
)
def test_vectors_in_chunks(make):
    x = make(device="dask", chunks=4)
    assert x.chunks == ((4, 4, 2),)
    ag.manual_seed(0)
    whole = make()
    assert (x.shape, x.dtype) == (whole.shape, whole.dtype)
    if make().tolist() == whole.tolist():  # no draw
        assert x.tolist() == whole.tolist()
    with pytest.raises(TypeError, match=r"chunks= on backends that hold arrays in chunks; numpy holds them whole"):
        make(chunks=5)


def test_a_tensor_in_other_chunks_stays_in_the_graph():
    x = ag.ones(6, device="dask", chunks=2, requires_grad=True)
    y = ag.asarray(x * 2, chunks=3)
    assert y.chunks == ((3, 3),)
    assert ag.autograd.grad(ag.sum(y), x)[0].tolist() == [2.0] * 6
    np.testing.assert_array_equal(ag.eye(5, 7, k=1, device="dask", chunks=(2, 3)).compute().numpy(), np.eye(5, 7, k=1))


def test_chunks_are_none_of_a_whole_array():
    with pytest.raises(AttributeError, match=r"a tensor on numpy has no chunks.*to_device\(\"dask\"\)"):
        _ = ag.ones(3).chunks
    assert not hasattr(ag.ones(3), "chunks")


def test_rechunk_is_differentiated_and_its_gradient_has_the_chunks_of_the_operand():
    data = np.arange(12.0).reshape(6, 2)
    x = ag.tensor(data, device="dask", chunks=(2, 2), requires_grad=True)
    y = x.rechunk({0: 3})
    assert y.chunks == ((3, 3), (2,))
    ag.sum(y * y).backward()
    assert x.grad.chunks == ((2, 2, 2), (2,))
    np.testing.assert_array_equal(np.asarray(x.grad.detach()), 2 * data)
    z = ag.tensor(data, requires_grad=True)
    assert z.rechunk(3) is z


def test_compute_and_persist_give_the_tensor_itself():
    for x in (ag.ones(4), ag.ones(4, device="dask", chunks=2) * 2):
        assert x.compute() is x
        assert x.persist() is x
        with no_tasks():
            x.tolist()
    with pytest.raises(MemoryError, match="max_memory"):
        (ag.ones((1000, 1000), device="dask", chunks=(100, 1000)) * 2).compute(max_memory=1000)


def test_a_limit_for_values_in_memory_is_told(tmp_path):
    pytest.importorskip("zarr")
    w = ag.ones(4, requires_grad=True)
    x = ag.asarray(da.ones((8, 4), chunks=(2, 4)))
    limits_nothing = pytest.warns(UserWarning, match=r"max_memory= of \w+\(\) limits nothing: .* in memory already")
    with limits_nothing as told:
        ag.compute(ag.ones(3), max_memory="1MiB")
    assert told[0].filename == __file__
    with limits_nothing:
        ag.ones(3).persist(max_memory="1MiB")
    with limits_nothing:
        ag.to_zarr(ag.ones(3), tmp_path / "out", max_memory="1MiB")
    loss = ag.sum((x @ w) ** 2)
    loss.backward()
    with limits_nothing:  # backward() was the pass
        ag.compute(loss, w.grad, max_memory=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = ag.sum(x @ w)
        for _ in range(2):
            ag.compute(loss, max_memory="1MiB")
        ag.compute(ag.sum(x), w, max_memory="1MiB")
        ag.compute(ag.ones(3))
        ag.compute(max_memory="1MiB")


def test_a_vector_of_millions_of_rows_is_made_and_multiplied_in_pieces():
    z = ag.randn(300_000, 5, device="dask", chunks=(50_000, -1))
    b = ag.randn(5, 100, device="dask")
    total = ag.sum(z @ b)
    total.compute(max_memory="120 MB")
    assert np.isfinite(total.item())


@pytest.mark.parametrize("compute", ["one pass", "several passes", "under a limit"])
def test_progress_counts_the_tasks_that_run(compute, monkeypatch):
    said = []

    class Counting:
        def __init__(self, tasks, what):
            self.tasks, self.ran = tasks, 0
            self.callback = Callback(posttask=self.count)

        def count(self, *_):
            self.ran += 1

        def __enter__(self):
            self.callback.__enter__()

        def __exit__(self, *reason):
            self.callback.__exit__(*reason)
            said.append((self.tasks, self.ran))

    monkeypatch.setattr(computing, "bar", Counting)
    x = ag.asarray(da.random.random((10_000, 20), chunks=(500, 20)))
    result = ag.sum(ag.softmax(x, axis=0) ** 2) if compute == "several passes" else ag.sum((x - 1.0) ** 2)
    ag.compute(result, progress=True, max_memory="1GB" if compute == "under a limit" else None)
    assert len(said) > 1 if compute == "several passes" else len(said) == 1
    for tasks, ran in said:
        assert tasks == ran > 0


def test_memory_errors_say_what_to_do():
    z = ag.randn(200_000, 5, device="dask", requires_grad=True)
    product = ag.sum(z @ ag.randn(5, 100, device="dask"))
    with pytest.raises(MemoryError, match=r"is one chunk of 7.63 MiB: create it with chunks=") as raised:
        ag.compute(product, max_memory="20 MB")
    assert "x.rechunk()" in str(raised.value)
    with pytest.raises(MemoryError) as raised:
        ag.compute(ag.sum(ag.randn(270_000_000, 500_000, device="dask", chunks=-1) * 2))
    assert any("chunks= where the data is opened or an array is made" in note for note in raised.value.__notes__)


def test_explain_says_what_is_read_and_held_and_computes_nothing():
    x = ag.asarray(da.random.random((1000, 20), chunks=(100, 20)))
    w = ag.zeros((20,), device="dask", requires_grad=True)
    with no_tasks():
        loss = ag.mean((x @ w - 1.0) ** 2)
        seen = ag.explain(loss)
        assert (seen.passes, seen.result) == (1, 8)
        assert seen.read == x.nbytes  # the parameter is made, not read
        assert seen.peak < x.nbytes + 2**25  # a process takes some beside the arrays
        assert "1 pass over the data" in repr(seen)
        assert "reads 156.2 KiB in 10 chunks" in repr(seen)
        loss.backward()
        both = ag.explain(loss, {"w": w.grad})
        assert (both.passes, both.result) == (1, 8 + 20 * 8)
        assert both.read == seen.read
        thrice = ag.explain(ag.sum(ag.softmax(x, axis=0) ** 2))
        assert thrice.passes > 1
        assert thrice.read == thrice.passes * x.nbytes
    assert repr(ag.explain(loss.compute())) == "nothing is to be computed: everything is in memory"
    assert ag.explain(ag.ones(3)).passes == 0
    with pytest.raises(MemoryError, match="max_memory"):
        ag.explain(ag.sum(x * x), max_memory=1000)


@pytest.mark.parametrize("max_memory", [None, "100 MB"])
def test_explain_counts_the_tasks_that_run(max_memory):
    from dask.callbacks import Callback

    x = ag.asarray(da.random.default_rng(0).random((1600, 20), chunks=(10, 20)))
    w = ag.zeros(20, requires_grad=True)
    loss = ag.mean((x @ w - 1.0) ** 2)
    for tensor in (loss, ag.sum(ag.softmax(x, axis=0) ** 2), x[:100] * 2.0):
        said, ran = ag.explain(tensor, max_memory=max_memory), []
        with Callback(posttask=lambda key, *_: ran.append(key)):  # noqa: B023 (called here)
            ag.compute(tensor, max_memory=max_memory)
        assert said.tasks == len(ran) > 0
    if max_memory is None:
        assert ag.explain(loss).tasks < 160, "neighbours share tasks"


def test_explain_counts_what_fused_tasks_read(tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(tmp_path / "x.zarr", shape=(1000, 20), chunks=(100, 20), dtype="float32")
    stored[:] = 1.0
    x = agrad_dask.from_zarr(tmp_path / "x.zarr", chunks=(100, 20))
    made = ag.ones((1000, 20), device="dask", dtype="float32", chunks=(100, 20))
    w = ag.zeros(20, dtype="float32", requires_grad=True)
    for loss, read in [
        (ag.sum(x), 80_000),
        (ag.sum(ag.exp(x) * x), 80_000),
        (ag.mean((x @ w - 1.0) ** 2), 80_000),
        (ag.sum(made * made), 0),  # what is made of nothing is not read
        (ag.sum(x * made), 80_000),
        (ag.sum(ag.persist(x * 2.0) * made), 0),  # nor is what is held already
        (
            ag.sum(agrad_dask.from_zarr(tmp_path / "x.zarr", chunks=(500, 20))),
            80_000,
        ),  # two blocks, ten chunks of the store
    ]:
        seen = ag.explain(loss)
        assert (seen.read, seen.chunks) == (read, read // 8_000)


def test_explain_says_what_the_backward_pass_computes():
    x = ag.asarray(da.random.random((1000, 20), chunks=(100, 20)))
    w, z = ag.zeros(20, requires_grad=True), ag.zeros(20, device="dask", requires_grad=True)
    for parameter in (w, z):
        with no_tasks():
            loss = ag.mean((x @ parameter - 1.0) ** 2)
            seen = ag.explain(loss, backward=True)
            assert parameter.grad is None
        assert seen.result == 8 + 20 * 8
        assert x.nbytes <= seen.read <= x.nbytes + z.nbytes
        assert seen.tasks > ag.explain(loss).tasks
        loss.backward()
        np.testing.assert_allclose(parameter.grad.numpy(), -2 * np.asarray(ag.mean(x, axis=0)))
    with pytest.raises(MemoryError, match="max_memory"):
        ag.explain(ag.mean((x @ w) ** 2), backward=True, max_memory=1000)
    w.register_hook(lambda g: g)
    with pytest.raises(RuntimeError, match="would call the hooks"):
        ag.explain(ag.sum(x @ w), backward=True)


def test_explain_says_what_graphs_keep_in_memory():
    big = ag.ones(1024, 1024, requires_grad=True)
    seen = ag.explain(ag.sum(ag.exp(big)))
    assert (seen.passes, seen.kept) == (0, 2**23)
    assert repr(seen).startswith(
        "nothing is to be computed: everything is in memory\nthe graph keeps 8.0 MiB in memory beside that"
    )
    assert "ExpBackward0, recorded at " in repr(seen)
    assert "test_tensors_in_chunks.py" in seen.keeper
    data = ag.asarray(da.ones((1024, 1024), chunks=512))
    assert ag.explain(ag.sum(ag.exp(big) * data)).kept == 2**23


def test_explain_takes_arrays_and_says_what_it_does_not_take():
    data = da.ones((4, 4), chunks=2) * 2
    assert ag.explain(data).result == 128
    assert ag.explain({"a": data, "rate": 0.1, "no": None}).result == 128
    xarray = pytest.importorskip("xarray")
    labelled = xarray.DataArray(data, dims=("t", "x"), name="field")
    assert ag.explain(labelled).result == 128
    assert ag.explain(labelled.to_dataset().assign(twice=labelled * 2)).result == 256
    assert ag.explain(labelled.copy(data=ag.asarray(data))).result == 128
    with pytest.raises(TypeError, match=r"takes tensors, arrays and what has labels on them, got a Delayed"):
        ag.explain(dask.delayed(len)([1]))


def test_explain_calls_a_function_up_to_what_it_computes(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "x.zarr", shape=(1000, 20), chunks=(100, 20), dtype="float32")[:] = 1.0
    x = agrad_dask.from_zarr(tmp_path / "x.zarr", chunks=(100, 20))
    w = ag.ones(20, dtype="float32")

    def loss(w, x):
        return ag.mean((x @ w) ** 2)

    for function in (agrad_dask.value_and_grad(loss), ag.func.value_and_grad(loss), loss):
        with no_tasks():
            seen = ag.explain(function, w, x)
        assert (seen.passes, seen.chunks, seen.read) == (1, 10, 80_000)


def test_explain_says_what_writing_the_results_holds():
    x = ag.asarray(da.random.default_rng(0).random((16 * 2**15, 16), chunks=(2**15, 16)))  # 4 MiB each
    with dask.config.set(num_workers=1):
        seen = ag.explain(x * 2.0)
    assert seen.peak > seen.result == 2**26
    assert seen.stored < seen.peak - 2**25
    assert "written to a store by ag.to_zarr, at most" in repr(seen)


def test_from_xarray_is_lazy_and_keeps_chunks():
    xarray = pytest.importorskip("xarray")
    values = np.arange(12.0).reshape(6, 2)
    lazy = xarray.DataArray(da.from_array(values, chunks=(2, 2)), dims=("time", "place"))
    with no_tasks():
        x = agrad_dask.from_xarray(lazy)
        assert x.chunks == ((2, 2, 2), (2,))
        assert agrad_dask.from_xarray(lazy, (3, 2)).chunks == ((3, 3), (2,))
        assert agrad_dask.from_xarray(lazy, {"time": 6}, dims=("place", "time")).chunks == ((2,), (6,))
    np.testing.assert_array_equal(np.asarray(x), values)
    held = xarray.DataArray(values, dims=("time", "place"))
    assert agrad_dask.from_xarray(held, {"time": 3}).chunks == ((3, 3), (2,))
    assert agrad_dask.from_xarray(held).shape == (6, 2)
    with pytest.raises(TypeError, match=r"takes a DataArray or a Variable, not Dataset"):
        agrad_dask.from_xarray(xarray.Dataset({"a": held}))
    with pytest.raises(TypeError, match="not ndarray"):
        agrad_dask.from_xarray(values)


@pytest.mark.parametrize("device", ["numpy", "dask"])
def test_xarray_groups_tensors(device):
    xarray = pytest.importorskip("xarray")
    importlib.import_module("agrad.xarray")
    x = ag.tensor(np.arange(12.0).reshape(4, 3), device=device, requires_grad=True)
    data = xarray.DataArray(x.rechunk(2), dims=("t", "p"), coords={"g": ("t", [0, 1, 0, 1])})
    assert data.chunks == (None if device == "numpy" else ((2, 2), (2, 1)))
    groups = data.groupby("g")
    ag.sum((groups - groups.mean()).data ** 2).backward()
    np.testing.assert_array_equal(x.grad.compute().tolist(), [[-6.0] * 3] * 2 + [[6.0] * 3] * 2)


@pytest.mark.parametrize(("function", "words"), [
    (lambda x: ag.linalg.svd(x)[1], r"svd\(x, full_matrices=False\)"),
    (lambda x: ag.linalg.qr(x, mode="complete")[1], r"qr\(x\) returns"),
    (lambda x: ag.einsum("i,j->ij", x[:, 0], x[:, 1]).rechunk(-1), "Make the chunks smaller"),
])  # fmt: skip
def test_a_remedy_for_what_does_not_fit_is_one(function, words):
    tall = ag.ones((1_000_000, 4), device="dask", chunks=(500_000, 4))
    with pytest.raises(MemoryError) as raised:
        function(tall).compute()
    assert any(re.search(words, note) for note in raised.value.__notes__)


class TooLarge:
    """Data whose chunks do not fit in memory."""

    shape, dtype, ndim = (40, 2), np.dtype("f8"), 2

    def __getitem__(self, key):
        raise MemoryError("Unable to allocate the chunk")


@pytest.mark.parametrize("how", ["in chunks", "recorded", "blocks"])
def test_errors_about_memory_name_operation_line_chunk_and_what_would_fit(how):
    import agrad_dask

    x = ag.asarray(da.from_array(TooLarge(), chunks=(10, 2), meta=np.empty((0, 2))))

    def loss(w, x):
        return ag.sum(x @ w)

    with pytest.raises(MemoryError, match="Unable to allocate the chunk") as caught, dask.config.set(num_workers=2):
        if how == "in chunks":
            agrad_dask.value_and_grad(loss, reduce="sum")(np.ones(2), x)
        elif how == "recorded":
            ag.sum(x * 2.0).item()
        else:
            ag.sum(agrad_dask.map_blocks(lambda b: b * 2.0, x)).item()
    notes = "\n".join(caught.value.__notes__)
    what = {"in chunks": "the loss ", "recorded": "multiply", "blocks": "map_blocks"}[how]
    assert what in notes
    assert "test_tensors_in_chunks.py:" in notes
    assert "The largest chunk takes 160 B" in notes
    assert "2 tasks run at a time: dask.config.set(num_workers=1)" in notes
    assert "Chunks of 40 B take a quarter of the memory" in notes
