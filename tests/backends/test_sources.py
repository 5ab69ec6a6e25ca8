"""Data on disk as Dask tensors: what is read, in which chunks, what is warned of, and what is missing."""

from __future__ import annotations

import doctest
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import agrad as ag

da = pytest.importorskip("dask.array")
agrad_dask = pytest.importorskip("agrad_dask")
sources = pytest.importorskip("agrad_dask.sources")

pytestmark = pytest.mark.usefixtures("dask_backend")

X = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)


@pytest.fixture
def zarr():
    return pytest.importorskip("zarr")


@pytest.fixture
def stored(zarr, tmp_path):
    """A zarr array in a group, in chunks of 4 x 3."""
    array = zarr.create_array(tmp_path / "store" / "X", shape=X.shape, chunks=(4, 3), dtype=X.dtype)
    array[:] = X
    return tmp_path / "store"


# -- zarr -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["path", "text", "group", "array"])
def test_a_zarr_store_is_a_lazy_tensor(zarr, stored, how, monkeypatch):
    if how == "group":
        zarr.open_group(stored)
    arguments = {
        "path": (stored / "X",),
        "text": (str(stored / "X"),),
        "group": (stored,),
        "array": (zarr.open_array(stored / "X", mode="r"),),
    }[how]
    x = agrad_dask.from_zarr(*arguments, **({"path": "X"} if how == "group" else {}))
    assert isinstance(x, ag.Tensor)
    assert (x.device, x.shape, x.dtype) == ("dask", X.shape, ag.float32)
    assert isinstance(x._raw, da.Array)
    np.testing.assert_array_equal(x.numpy(), X)


def test_a_gradient_over_a_store(stored):
    x = agrad_dask.from_zarr(stored / "X")
    w = np.ones(6, np.float32)
    value, g = agrad_dask.value_and_grad(lambda w, X: ag.mean((X @ w) ** 2))(w, x)
    np.testing.assert_allclose(value.item(), np.mean((X @ w) ** 2), rtol=1e-5)
    np.testing.assert_allclose(g, 2 * X.T @ (X @ w) / len(X), rtol=1e-4)


def test_chunks_are_multiples_of_those_of_the_store(stored):
    assert agrad_dask.from_zarr(stored / "X")._raw.chunks == ((60,), (6,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert agrad_dask.from_zarr(stored / "X", (8, 6))._raw.chunks == ((8,) * 7 + (4,), (6,))


@pytest.mark.parametrize(
    ("shape", "dtype", "own", "expected"),
    [
        ((4_000_000, 384), "float32", (16_000, 384), (16_000, 384)),  # above 16 MiB as it is
        ((4_000_000, 384), "float32", (1000, 384), (10_000, 384)),
        ((4_000_000, 384), "float32", (1000, 100), (10_000, 384)),
        ((4_000_000, 384), "float32", None, (10_922, 384)),
        ((4_000_000,), "float64", (1000,), (2_097_000,)),
        ((100, 50_000_000), "float32", (1, 1_000_000), (1, 4_000_000)),  # rows too long for one chunk
        ((10, 3), "float64", (4, 2), (10, 3)),
        ((0, 3), "float64", (1, 3), (0, 3)),
        ((), "float64", (), ()),
    ],
)
def test_the_usual_chunks(shape, dtype, own, expected):
    dtype = np.dtype(dtype)
    assert sources.usual_chunks(shape, dtype, own) == expected
    assert dtype.itemsize * np.prod(expected) <= sources.LARGEST


def test_shards_are_opened_whole(zarr, tmp_path):
    array = zarr.create_array(tmp_path / "x", shape=(64, 2), chunks=(2, 2), shards=(16, 2), dtype="float64")
    array[:] = 1.0
    with pytest.warns(sources.ChunkWarning, match=r"no multiples of the chunks of the store, \(16, 2\)"):
        agrad_dask.from_zarr(array, (8, 2))


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (6, 4)},
        {"chunks": (6, 4), "compressors": None},
        {"chunks": (7, 3), "dtype": ">f4"},
        {"chunks": (6, 4), "order": "F", "zarr_format": 2},
        {"chunks": (2, 2), "shards": (6, 4)},
        {"chunks": (60, 6)},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_whatever_is_read_is_what_zarr_gives(zarr, tmp_path, options, kind):
    array = zarr.create_array(
        {} if kind == "memory" else tmp_path / "x", shape=X.shape, **{"dtype": X.dtype, "zarr_format": 3, **options}
    )
    array[:] = X
    chunks = options.get("shards", options["chunks"])
    x = agrad_dask.from_zarr(array, chunks)._raw
    for key in [
        (),
        (slice(5, 40),),
        (slice(6, 12), slice(0, 4)),
        (slice(1, 50, 7),),
        (3,),
        (slice(None), 5),
        ([4, 1, 30],),
    ]:
        np.testing.assert_array_equal(x[key].compute(scheduler="sync"), X[key], err_msg=str(key))
    np.testing.assert_array_equal(x[::-1].compute(), X[::-1])
    assert x.blocks[0, 0].compute().dtype.newbyteorder("=") == X.dtype


def test_chunks_that_were_never_written_have_the_fill_value(zarr):
    array = zarr.create_array({}, shape=(6, 2), chunks=(2, 2), dtype="float32", fill_value=7.0)
    array[2:4] = 1.0
    expected = [[7, 7], [7, 7], [1, 1], [1, 1], [7, 7], [7, 7]]
    np.testing.assert_array_equal(agrad_dask.from_zarr(array, (2, 2)).numpy(), expected)
    np.testing.assert_array_equal(agrad_dask.from_zarr(array).numpy(), expected)


def test_a_chunk_of_the_store_is_handed_over_without_a_copy(zarr):
    store = {}
    array = zarr.create_array(store, shape=(8, 3), chunks=(4, 3), dtype="float64", compressors=None)
    array[:] = np.arange(24.0).reshape(8, 3)
    (_, held), _ = sorted((key, value) for key, value in store.items() if "zarr.json" not in key)
    block = pytest.importorskip("agrad_dask.zarr_reader").ZarrArray(array)[:4, :]
    assert np.shares_memory(block, held.as_numpy_array())
    with pytest.raises(ValueError, match="read-only"):  # it would change the store
        block += 1


def test_a_loss_in_place_does_not_write_to_the_store(zarr):
    array = zarr.create_array({}, shape=(8, 3), chunks=(4, 3), dtype="float64", compressors=None)
    array[:] = 1.0
    x = agrad_dask.from_zarr(array, (4, 3))
    x *= 3.0
    assert float(x.sum()) == 72.0
    np.testing.assert_array_equal(array[:], 1.0)


def test_a_missing_zarr_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match="from_zarr needs zarr: pip install zarr"):
        agrad_dask.from_zarr(tmp_path)


def test_a_group_asks_for_the_name_of_an_array(zarr, stored):
    zarr.open_group(stored)
    with pytest.raises(ValueError, match=r"store is a zarr group: name one of its arrays with path=\. It has X\."):
        agrad_dask.from_zarr(stored)


def test_a_missing_store_is_zarrs_error(zarr, tmp_path):
    with pytest.raises(FileNotFoundError):
        agrad_dask.from_zarr(tmp_path / "nowhere")


# -- advice -----------------------------------------------------------------------------------------------------------


def test_chunks_by_the_names_of_dimensions(zarr, stored):
    named = zarr.create_array({}, shape=(6, 2), chunks=(2, 2), dtype="f4", dimension_names=("time", "place"))
    assert agrad_dask.from_zarr(named, {"time": 4}).chunks == ((4, 2), (2,))
    assert agrad_dask.from_zarr(stored / "X", {0: 20, -1: 6}).chunks == ((20, 20, 20), (6,))
    with pytest.raises(ValueError, match=r"names 'tine', .* has dimensions \('time', 'place'\): give .* 0 to 1"):
        agrad_dask.from_zarr(named, {"tine": 4})
    with pytest.raises(ValueError, match=r"names 'time', .* \(60, 6\) has no names of dimensions"):
        agrad_dask.from_zarr(stored / "X", chunks={"time": 4})


@pytest.mark.parametrize("name", ["component", "group"])
def test_the_name_of_an_array_is_its_path(zarr, stored, name):
    with pytest.raises(
        TypeError, match=rf"unexpected keyword argument '{name}'; .* path='X' here\n  Called at .*test_sources"
    ):
        agrad_dask.from_zarr(stored, **{name: "X"})


def test_chunks_that_read_twice_are_advised_against(stored):
    with pytest.warns(agrad_dask.ChunkWarning) as found:
        agrad_dask.from_zarr(stored / "X", (6, 3))
    (warning,) = found
    text = str(warning.message)
    assert "the chunks (6, 3): they are no multiples of the chunks of the store, (4, 3)" in text
    assert text.endswith("Better: chunks=(60, 6).")
    assert warning.filename == __file__


def test_chunks_above_32_mib_are_advised_against(zarr):
    array = zarr.create_array({}, shape=(10_000, 1024), chunks=(1000, 1024), dtype="float64")
    with pytest.warns(agrad_dask.ChunkWarning, match=r"78 MiB large, above 32 MiB.*Better: chunks=\(2000, 1024\)"):
        agrad_dask.from_zarr(array, (10_000, 1024))
    array = zarr.create_array({}, shape=(10_000, 1024), chunks=(10_000, 1024), dtype="float64")
    with pytest.warns(agrad_dask.ChunkWarning, match="The store's own chunks are above 32 MiB; write it anew"):
        agrad_dask.from_zarr(array)


def test_the_advice_is_given_once(stored):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            agrad_dask.from_zarr(stored / "X", (6, 3))
    assert [w.category for w in found] == [agrad_dask.ChunkWarning]


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_npy_file(tmp_path):
    np.save(tmp_path / "x.npy", X)
    x = agrad_dask.from_npy(tmp_path / "x.npy", chunks=(25, 6))
    assert x._raw.chunks == ((25, 25, 10), (6,))
    np.testing.assert_array_equal(x.numpy(), X)
    assert agrad_dask.from_npy(str(tmp_path / "x.npy"))._raw.chunks == ((60,), (6,))
    block = pickle.loads(pickle.dumps(x._raw)).blocks[1].compute()  # as a cluster's worker gets it
    np.testing.assert_array_equal(block, X[25:50])
    assert len(pickle.dumps(x._raw.dask)) < X.nbytes * 2


def test_a_large_npy_file_travels_as_its_path(tmp_path):
    large = np.zeros((1000, 1000))
    np.save(tmp_path / "x.npy", large)
    assert len(pickle.dumps(agrad_dask.from_npy(tmp_path / "x.npy", 500)._raw)) < 10_000


def test_a_npy_file_written_anew_is_another_array(tmp_path):
    import os

    np.save(tmp_path / "x.npy", X)
    first = agrad_dask.from_npy(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", X + 1)
    os.utime(tmp_path / "x.npy", ns=(1, 1))
    second = agrad_dask.from_npy(tmp_path / "x.npy")
    assert first._raw.name != second._raw.name
    np.testing.assert_array_equal(second.numpy(), X + 1)


def test_an_archive_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", a=X)
    with pytest.raises(ValueError, match=r"x\.npz holds several arrays"):
        agrad_dask.from_npy(tmp_path / "x.npz")


def test_a_stack_of_files(tmp_path):
    da.to_npy_stack(str(tmp_path / "x"), da.from_array(X, chunks=(25, 6)))
    x = agrad_dask.from_npy_stack(tmp_path / "x")
    assert x._raw.chunks == ((25, 25, 10), (6,))
    np.testing.assert_array_equal(x.numpy(), X)


def test_a_dataframe_through_dask():
    dataframes = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    frame = dataframes.from_pandas(pandas.DataFrame(X), npartitions=3)
    x = ag.asarray(frame.to_dask_array(lengths=True))
    np.testing.assert_array_equal(x.numpy(), X)


# -- the package ------------------------------------------------------------------------------------------------------


def test_importing_the_plugin_imports_no_dask():
    code = (
        "import sys, agrad_dask; assert 'dask' not in sys.modules; agrad_dask.from_zarr; assert 'dask' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["lowering", "sources"])
def test_the_examples_run(zarr, name):
    module = pytest.importorskip(f"agrad_dask.{name}")
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 4
    assert not found.failed


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'agrad_dask' has no attribute 'from_nowhere'"):
        agrad_dask.from_nowhere
