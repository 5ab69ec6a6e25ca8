"""xarray over tensors, on NumPy's arrays and on Dask's chunks: every operation of the table, and what is beside it.

Values, coordinates and attributes are those of the same operation on NumPy arrays, gradients those of finite differences.
"""

from __future__ import annotations

import copy
import importlib
import json
import subprocess
import sys
import textwrap
import tomllib
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad.view.tracebacks import explain

pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")
pytest.importorskip("bottleneck")
load_chunkmanagers = importlib.import_module("xarray.namedarray.parallelcompat").load_chunkmanagers

SURVEY = Path(__file__).with_name("survey.py")

#: What calls code of others that is for NumPy's arrays alone: SciPy's fits, NumPy's loops, pandas.
RAISES = {
    "curvefit", "interpolate_na", "polyfit(skipna)", "rank", "weighted.quantile", "xr.apply_ufunc(vectorize)",
}  # fmt: skip

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def series(x, **more):
    return xr.DataArray(x, dims=("run", "place"), coords={"place": [0.0, 1.0, 3.0]}, attrs={"units": "K"}, **more)


@pytest.mark.long
def test_every_operation():
    done = subprocess.run(
        [sys.executable, SURVEY, "--tables", "xarray", "--json"],
        capture_output=True, text=True, check=False, timeout=1200, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    names = {name for name in found if found[name][0] not in ("differentiates", "piecewise constant")}
    assert {name.partition(".")[2] for name in names} == RAISES
    assert len(found) - len(names) > 250
    assert all(found[name][0] == "raises" for name in names)
    # In words that name the tensor; over chunks the first that fails is a number of points that Dask does not know, or that one cell
    # is in several chunks, which Dask refuses of arrays, too.
    assert {name for name in names if "Tensor" not in found[name][1]} <= {
        "xarray, on Dask chunks.polyfit(skipna)", "xarray, on Dask chunks.rank",
    }  # fmt: skip


class TestCopies:
    @pytest.mark.parametrize(
        "copied",
        [
            lambda a: a.copy(),
            lambda a: copy.deepcopy(a),
            lambda a: a.sortby("place", ascending=False),
            lambda a: a.to_dataset(name="t").copy(deep=True)["t"],
            lambda a: a.assign_coords(place=[1.0, 2.0, 3.0]).copy(),
        ],
    )
    @pytest.mark.parametrize("step", [lambda x: x, lambda x: 2 * x], ids=["leaf", "result"])
    def test_a_deep_copy_is_a_step_of_the_graph(self, copied, step):
        x = ag.asarray(X, requires_grad=True)
        copied(series(step(x))).sum().data.backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(X.shape, step(1.0)))

    def test_elsewhere_a_deep_copy_is_a_leaf_as_in_pytorch(self):
        x = ag.asarray(X, requires_grad=True)
        made = copy.deepcopy(x)
        assert made.is_leaf
        with pytest.raises(RuntimeError, match="deepcopy protocol"):
            copy.deepcopy(2 * x)

    def test_a_copy_has_values_of_its_own(self):
        a = series(ag.asarray(X))
        b = a.copy()
        b[0, 0] = 7.0
        assert float(a[0, 0]) == X[0, 0]
        assert float(b[0, 0]) == 7.0


class TestWhatTheModuleAdds:
    @pytest.fixture(autouse=True)
    def _module(self):
        import agrad.xarray  # noqa: F401

    @pytest.mark.parametrize("method", ["pchip", "akima", "makima"])
    def test_interpolation_that_is_not_linear_is_refused(self, method):
        with pytest.raises(TypeError, match=f"(?i)method='{method}.*not defined for tensors"):
            series(ag.asarray(X)).interp(place=[0.5], method=method)

    def test_a_tensor_as_a_place_is_refused(self):
        a = series(ag.asarray(X, requires_grad=True))
        wanted = xr.DataArray(ag.asarray([0.5], requires_grad=True), dims="to")
        with pytest.raises((TypeError, RuntimeError), match=r"(?i)tensor"):
            a.interp(place=wanted)

    @pytest.mark.parametrize("method", ["linear", "nearest", "cubic", "quadratic", "slinear", "zero"])
    @pytest.mark.parametrize("options", [{}, {"fill_value": "extrapolate"}, {"fill_value": 1.5}])
    def test_interpolation_is_xarrays(self, method, options):
        x = np.arange(12.0).reshape(2, 6) ** 1.5
        a = xr.DataArray(x, dims=("run", "place"), coords={"place": np.arange(6.0) ** 1.2})
        wanted = [-0.5, 0.0, 0.7, 3.3, 5.0, 9.0]
        expected = a.interp(place=wanted, method=method, kwargs=options)
        found = a.copy(data=ag.asarray(x)).interp(place=wanted, method=method, kwargs=options)
        np.testing.assert_allclose(found.data.numpy(), expected.data, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("method", ["linear", "nearest"])
    @pytest.mark.parametrize("options", [{}, {"fill_value": None}, {"fill_value": 1.5}])
    def test_interpolation_along_a_path_is_xarrays(self, method, options):
        x = np.arange(24.0).reshape(2, 3, 4) ** 1.3
        a = xr.DataArray(x, dims=("t", "u", "v"), coords={"u": [0.0, 1.0, 3.0], "v": [0.0, 0.5, 2.0, 4.0]})
        path = {"u": xr.DataArray([0.2, 2.5, -1.0], dims="p"), "v": xr.DataArray([0.1, 3.9, 1.0], dims="p")}
        expected = a.interp(path, method=method, kwargs=options)
        t = ag.asarray(x, requires_grad=True)
        found = a.copy(data=t).interp(path, method=method, kwargs=options)
        np.testing.assert_allclose(found.data.detach().numpy(), expected.data, rtol=1e-12)
        (gradient,) = ag.grad(found.sum().data, t)
        for place in [(0, 0, 0), (1, 1, 2), (1, 2, 3)]:
            moved = x.copy()
            moved[place] += 1.0
            change = a.copy(data=moved).interp(path, method=method, kwargs=options).sum() - expected.sum()
            np.testing.assert_allclose(float(gradient[place]), float(change), atol=1e-9)

    def test_a_missing_value_reaches_its_neighbours_alone(self):
        x = np.array([0.0, 1.0, np.nan, 3.0, 4.0, 5.0])
        a = xr.DataArray(x, dims="place", coords={"place": np.arange(6.0)})
        found = a.copy(data=ag.asarray(x)).interp(place=[0.5, 1.0, 1.5, 3.5])
        np.testing.assert_array_equal(found.data.numpy(), a.interp(place=[0.5, 1.0, 1.5, 3.5]).data)

    @pytest.mark.parametrize("limit", [None, 1, 2])
    @pytest.mark.parametrize("method", ["ffill", "bfill"])
    def test_filling_is_xarrays(self, method, limit):
        x = np.array([[np.nan, 1.0, np.nan, np.nan, np.nan, 2.0], [3.0, np.nan, np.nan, 4.0, np.nan, np.nan]])
        a = xr.DataArray(x, dims=("run", "place"))
        expected = getattr(a, method)("place", limit=limit)
        found = getattr(a.copy(data=ag.asarray(x)), method)("place", limit=limit)
        np.testing.assert_array_equal(found.data.numpy(), expected.data)

    def test_arrays_go_the_way_they_went(self):
        a = series(X)
        for found in (a.interp(place=[0.5]), a.ffill("place"), a.groupby("place").first()):
            assert type(found.data) is np.ndarray


def test_what_turns_tensors_into_numpys_arrays_raises():
    a = series(ag.asarray(X, requires_grad=True))
    for taken in (lambda: a.values, lambda: a.to_numpy(), lambda: a.to_series(), lambda: a.load().to_dict()):
        with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
            taken()


def test_xarray_in_transforms():
    def loss(x):
        return (series(x).mean("place") ** 2).sum().data

    expected = 2 * X.mean(1, keepdims=True) / 3 * np.ones(3)
    np.testing.assert_allclose(ag.grad(loss)(X), expected)
    hessian = ag.hessian(loss)(X)
    np.testing.assert_allclose(hessian[0, 0, 0, 1], 2 / 9)
    _, tangent = ag.func.jvp(loss, (ag.asarray(X),), (ag.ones((2, 3)),))
    np.testing.assert_allclose(float(tangent), expected.sum())


class TestChunks:
    """`chunk` is a step of the graph; what has Dask run a function on blocks is refused."""

    def test_chunk_is_recorded_after_the_import(self):
        da = pytest.importorskip("dask.array")
        import agrad.xarray  # noqa: F401 (other tests run without)

        for made in (
            ag.asarray(X, requires_grad=True),
            ag.asarray(da.from_array(X, chunks=(2, 1)), requires_grad=True),
        ):
            for cut in (series(made).chunk(run=1), series(made).to_dataset(name="t").chunk({"run": 1})["t"]):
                assert cut.data.chunks[0] == (1, 1)
                assert cut.data.chunks[1] == ((3,) if made.device == "numpy" else (1, 1, 1))
                assert (cut.dims, cut.attrs) == (("run", "place"), {"units": "K"})
                made.grad = None
                ((cut * X).sum() + (cut**2).sum()).data.backward()
                np.testing.assert_allclose(made.grad.numpy(), 3 * X)
        assert series(X).chunk(run=1).chunks == ((1, 1), (3,))  # an array as before
        assert isinstance(series(X).chunk(run=1).data, da.Array)

    def test_chunks_are_shown_and_unified(self):
        da = pytest.importorskip("dask.array")
        import agrad.xarray  # noqa: F401 (other tests run without)

        x = ag.asarray(da.from_array(X, chunks=(1, 2)), requires_grad=True)
        assert series(x).chunks == (series(x) * 2).variable.chunks == ((1, 1), (2, 1))
        assert series(x).chunksizes == {"run": (1, 1), "place": (2, 1)}
        assert series(ag.asarray(X)).chunks is None
        assert series(ag.asarray(X)).chunksizes == {}
        both = xr.Dataset({"t": series(x), "u": series(ag.asarray(X)), "v": series(da.from_array(X, chunks=(2, 1)))})
        with pytest.raises(ValueError, match="inconsistent chunks along dimension run"):
            both.chunks
        made = both.unify_chunks()
        assert made.chunks == {"run": (1, 1), "place": (1, 1, 1)}
        (made["t"] * made["v"]).sum().data.backward()
        np.testing.assert_allclose(x.grad.numpy(), X)
        assert series(x).to_dataset(name="t").unify_chunks()["t"].chunks == x.chunks

    @pytest.mark.parametrize("way", [
        lambda a, f: xr.apply_ufunc(np.multiply, a, f, dask="parallelized", output_dtypes=[float]),
        lambda a, f: xr.map_blocks(np.multiply, a, args=[f.chunk(run=1)], template=a),
        lambda a, f: xr.map_blocks(lambda a, s: a * s, a, args=[f], kwargs={}, template=a),
    ])  # fmt: skip
    def test_functions_of_blocks_are_recorded(self, way):
        pytest.importorskip("dask.array")
        import agrad.xarray  # noqa: F401 (other tests run without)

        f = series(ag.asarray(X, requires_grad=True))
        way(series(2 * X).chunk(run=1), f).sum().data.backward()
        np.testing.assert_allclose(f.data.grad.numpy(), 2 * X)

    def test_functions_that_are_given_the_tensors_are_recorded(self):
        pytest.importorskip("dask.array")
        f = series(ag.asarray(X, requires_grad=True))
        xr.apply_ufunc(np.multiply, series(2 * X).chunk(run=1), f, dask="allowed").sum().data.backward()
        np.testing.assert_allclose(f.data.grad.numpy(), 2 * X)

    @pytest.mark.parametrize("method", ["compute", "load", "persist"])
    def test_values_are_computed_where_xarray_is_asked_to(self, method):
        da = pytest.importorskip("dask.array")
        import agrad.xarray  # noqa: F401 (other tests run without)

        x = ag.asarray(da.from_array(X, chunks=(1, 3)), requires_grad=True)
        reads = []
        counted = da.from_array(X, chunks=(1, 3)).map_blocks(lambda b: reads.append(1) or b, dtype=float, meta=X[:0])
        both = xr.Dataset({"t": series(x) * series(counted), "u": series(x) + 1})
        for found in (getattr(both, method)()["t"], getattr(both["t"], method)()):
            np.testing.assert_array_equal(found.data.detach().numpy(), X * X)
        assert len(reads) == 2
        both["t"].sum().data.backward()
        np.testing.assert_allclose(x.grad.numpy(), X)


class TestParametersBesideChunks:
    """A parameter in memory and a field in chunks go together where xarray asks for one namespace, as in arithmetic."""

    @pytest.mark.parametrize("loss", [
        lambda f, obs: (f * obs).fillna(f),
        lambda f, obs: xr.where(obs.isnull(), f, f * obs),
        lambda f, obs: xr.where(f > 1.5, f * obs, 0 * f).fillna(1.0),
        lambda f, obs: (f * obs).combine_first(f),
        lambda f, obs: (f * obs).where(obs.notnull(), f),
        lambda f, obs: xr.concat([(f * obs).isel(run=0).fillna(0.0), f], "z"),
        lambda f, obs: xr.dot(obs.fillna(0.0), f),
        lambda f, obs: obs.fillna(0.0).weighted(f).mean(),
        lambda f, obs: (f * obs).fillna(0.0).clip(min=f * f - 1.0),
    ])  # fmt: skip
    def test_gradients_are_those_of_finite_differences(self, loss):
        pytest.importorskip("dask.array")
        import agrad.xarray  # noqa: F401 (other tests run without)

        obs = series(np.where(X == 2.0, np.nan, X)).chunk(run=1)
        at, step = np.array([1.0, 2.0, 3.0]), 1e-6

        def value(w):
            return (loss(xr.DataArray(w, dims="place", coords={"place": obs.place}), obs) ** 2).sum().data

        found = ag.asarray(at, requires_grad=True)
        value(found).backward()
        expected = [(value(at + step * e) - value(at - step * e)).compute() / (2 * step) for e in np.eye(3)]
        np.testing.assert_allclose(found.grad.numpy(), expected, rtol=1e-6, atol=1e-8)


class TestMessages:
    """They name the line of the program, not xarray's, and say what to write there."""

    @pytest.fixture(autouse=True)
    def imported(self):
        import agrad.xarray  # noqa: F401 (other tests run without)

    def test_recorded_operations_are_those_of_the_users_line(self):
        squares = (series(ag.asarray(X, requires_grad=True)) ** 2).mean()
        assert squares.data.grad_fn.code.co_filename == __file__

    def test_errors_below_xarray_and_dask_name_the_users_line(self):
        da = pytest.importorskip("dask.array")
        f = series(ag.asarray(X, requires_grad=True))
        for way in (lambda: f.values, lambda: f.to_pandas(), lambda: da.where(da.ones(3) > 0, f.data, 0.0)):
            with pytest.raises(RuntimeError, match="Tensor that requires grad") as caught:
                way()
            assert f"Called at {__file__}" in str(caught.value)
        with pytest.raises(RuntimeError, match=r"a\.copy\(data=a\.data\.detach\(\)\)"):
            f.to_numpy()

    def test_what_tensors_have_is_found_in_data(self):
        with pytest.raises(AttributeError) as caught:
            series(ag.asarray(X, requires_grad=True)).sum().backward()
        explain(caught.value)
        assert caught.value.__notes__ == ["the tensor is in .data: a.data.backward."]
        with pytest.raises(AttributeError) as caught:
            series(X).sum().backward()
        explain(caught.value)
        assert not hasattr(caught.value, "__notes__")

    def test_labelled_data_are_given_by_from_xarray(self):
        agrad_dask = pytest.importorskip("agrad_dask")
        with pytest.raises(ValueError, match=r"give a DataArray as agrad_dask\.from_xarray\(a\)"):
            agrad_dask.value_and_grad(lambda w, x: ag.sum(x * w))(ag.ones(()), series(X).chunk(run=1))


class TestFiles:
    """Writing takes arrays: lazy tensors are written by chunks, and what is followed is refused before anything is."""

    @pytest.fixture(autouse=True)
    def imported(self):
        import agrad.xarray  # noqa: F401 (other tests run without)

    @pytest.fixture
    def field(self, tmp_path):
        """A labelled field that zarr reads in chunks."""
        pytest.importorskip("zarr")
        pytest.importorskip("dask.array")
        values = np.random.default_rng(0).normal(size=(8, 6))
        made = xr.DataArray(
            values, dims=("time", "lat"), coords={"time": np.arange(8), "lat": np.arange(6.0)}, name="t"
        )
        made.chunk(time=2).to_zarr(tmp_path / "field.zarr", zarr_format=2)
        return xr.open_zarr(tmp_path / "field.zarr").t

    def test_a_lazy_gradient_is_written_by_chunks(self, field, tmp_path):
        guess = ag.zeros((8, 6), device="dask", chunks=(2, 6), requires_grad=True)
        ag.sum((guess - ag.asarray(field.data)) ** 2).backward()
        written = field.copy(data=guess.grad).assign_attrs(units="K").drop_encoding()
        written.to_zarr(tmp_path / "gradient.zarr", zarr_format=2)
        found = xr.open_zarr(tmp_path / "gradient.zarr").t
        assert found.chunks == ((2, 2, 2, 2), (6,))
        xr.testing.assert_allclose(found, -2 * field)
        assert found.attrs == {"units": "K"}

    def test_tensors_in_memory_are_written_with_their_coordinates(self, field, tmp_path):
        held = field.copy(data=ag.asarray(field.values)).assign_coords(weight=("lat", ag.ones(6))).drop_encoding()
        held.to_zarr(tmp_path / "held.zarr", zarr_format=2)
        expected = field.assign_coords(weight=("lat", np.ones(6)))
        xr.testing.assert_equal(xr.open_zarr(tmp_path / "held.zarr").t, expected)
        xr.DataTree(held.to_dataset()).to_zarr(tmp_path / "tree.zarr", zarr_format=2)
        xr.testing.assert_equal(xr.open_zarr(tmp_path / "tree.zarr").t, expected)

    def test_what_is_followed_is_refused_before_the_store_is_touched(self, field, tmp_path):
        followed = field.copy(data=ag.asarray(field.values, requires_grad=True)).drop_encoding()
        with pytest.raises(RuntimeError, match=r"Can't call to_zarr\(\) on Tensor that requires grad.*\n.*'t'"):
            followed.to_zarr(tmp_path / "field.zarr", mode="w", zarr_format=2)
        xr.testing.assert_equal(xr.open_zarr(tmp_path / "field.zarr").t, field)

    def test_zarr_itself_refuses_what_is_lazy(self, field, tmp_path):
        zarr = pytest.importorskip("zarr")
        lazy = ag.asarray(field.data) * 2
        store = zarr.create_array(tmp_path / "own.zarr", shape=(8, 6), chunks=(2, 6), dtype="f8", zarr_format=2)
        with pytest.raises(RuntimeError, match="zarr can't write a lazy tensor"):
            store[:] = lazy
        store[:] = lazy.numpy()
        np.testing.assert_array_equal(store[:], 2 * field.values)


def test_what_is_written_for_methods_that_raise_is_said_and_works():
    import agrad.xarray  # noqa: F401 (other tests run without)

    days = pd.date_range("2000-01-01", periods=4)
    values = np.array([[3.0, 1.0], [np.nan, np.nan], [0.0, 4.0], [2.0, 2.0]])
    a = xr.DataArray(ag.asarray(values, requires_grad=True), dims=("day", "place"), coords={"day": days})
    plain = a.copy(data=values)
    with pytest.raises(TypeError, match=r"a\.data\.detach\(\)\.numpy\(\)\)\.idxmax"):
        a.idxmax("day")
    assert (a.copy(data=a.data.detach().numpy()).idxmax("day") == plain.idxmax("day")).all()
    by = a[:, 0]
    with pytest.raises(RuntimeError, match=r"by\.copy\(data=by\.data\.detach\(\)\)"):
        a.sortby(by)
    found = a.sortby(by.copy(data=by.data.detach()))
    assert found.data.requires_grad
    np.testing.assert_array_equal(found.data.detach().numpy(), plain.sortby(plain[:, 0]).values)
    with pytest.raises(RuntimeError, match=r"a\.dropna\(dim\)\.interp"):
        a.interpolate_na("day")
    found = a.dropna("day").interp({"day": a["day"]})
    assert found.data.requires_grad
    np.testing.assert_allclose(found.data.detach().numpy(), plain.interpolate_na("day").values)


def _lazy(x=X, **options):
    return series(ag.asarray(pytest.importorskip("dask.array").from_array(x, chunks=(1, 2)), **options))


#: What a program writes that needs each function that is replaced within xarray.
NEEDS = {
    "_interpnd": lambda a: a.interp(place=[0.5]),
    "push": lambda a: a.ffill("place"),
    "nanfirst": lambda a: a.groupby("place").first(),
    "nanlast": lambda a: a.to_dataset(name="t").groupby("place").last(),
    "_vindex_get": lambda a: a.isel(run=xr.DataArray([0, 1], dims="p"), place=xr.DataArray([0, 1], dims="p")),
    "chunk": lambda a: a.chunk(run=1),
    "_maybe_chunk": lambda a: a.to_dataset(name="t").chunk(run=1),
    "chunks": lambda a: a.chunks,
    "chunksizes": lambda a: a.chunksizes,
    "get_chunksizes": lambda a: a.to_dataset(name="t").chunksizes,
    "get_chunked_array_type": lambda a: a.unify_chunks(),
    "get_array_namespace": lambda a: a.fillna(a.copy(data=ag.ones((2, 3), device="numpy")) if isinstance(a.data, ag.Tensor) else 1.0),
    "einsum": lambda a: a.dot(a.copy(data=ag.ones((2, 3), device="numpy")) if isinstance(a.data, ag.Tensor) else a),
    "map_blocks": lambda a: a.map_blocks(lambda block: block),
    "load": lambda a: a.to_dataset(name="t").load(),
    "persist": lambda a: a.persist(),
    "store": lambda a: a.chunk(run=1).to_dataset(name="t").to_zarr({}, consolidated=False),
    "to_netcdf": lambda a: a.to_netcdf("/nowhere/t.nc"),
    "to_zarr": lambda a: a.to_zarr("/nowhere/t.zarr"),
    "dump_to_store": lambda a: a.to_dataset(name="t").to_zarr("/nowhere/t.zarr"),
}  # fmt: skip


class TestOtherReleases:
    """Where a function within xarray is gone, or takes something else, the methods that need it say so, of tensors alone."""

    @pytest.fixture
    def module(self, monkeypatch):
        """The module; what is put into xarray's classes is taken out again."""
        import agrad.xarray as module

        for holder in (xr.DataArray, xr.Dataset, xr.DataTree, *module._groups()):
            for part in module.REPLACED:
                for name in part.methods.split():
                    if hasattr(holder, name):
                        monkeypatch.setattr(holder, name, getattr(holder, name))
        return module

    @pytest.mark.parametrize("name", NEEDS)
    @pytest.mark.parametrize(
        "change", [{"place": "xarray.core.missing:no_such"}, {"takes": "quite another"}, {"needs": ("no_such:f",)}]
    )
    def test_methods_say_what_is_missing(self, module, name, change):
        parts = [part for part in module.REPLACED if part.place.endswith((f":{name}", f".{name}"))]
        assert parts
        for part in parts:
            module.replace(part._replace(**change))
        with pytest.raises(
            NotImplementedError,
            match=f"of tensors is not supported with xarray {xr.__version__}, which has .*\n.*pip install xarray==2026.9.0",
        ) as caught:
            NEEDS[name](_lazy())
        assert f"Called at {__file__}" in str(caught.value)
        if not name.startswith(("to_", "dump_")):
            NEEDS[name](series(X))  # arrays as before

    def test_every_function_is_asked_for(self, module):
        assert {
            part.place.replace(".", ":").rpartition(":")[2] for part in module.REPLACED if part.methods
        } == NEEDS.keys()

    def test_this_release_has_them_all(self, module):
        assert xr.__version__ not in module.TESTED or not any(map(module._lacks, module.REPLACED))

    def test_the_import_works_without_any(self):
        source = """
            import xarray.core.dataset, xarray.core.missing, xarray.core.nputils, xarray.core.indexing, xarray.backends.writers
            del xarray.core.missing._interpnd, xarray.core.nputils.nanfirst, xarray.core.nputils.NumpyVIndexAdapter
            del xarray.core.missing._get_interpolator, xarray.backends.writers.to_zarr
            push = xarray.core.missing.push
            xarray.core.missing.push = lambda array, axis, n, **more: push(array, n, axis, **more)
            import agrad as ag, agrad.xarray
            a = xarray.DataArray(ag.asarray([1.0, ag.nan, 3.0]), dims="x", coords={"x": [0.0, 1.0, 2.0]})
            for call in (lambda: a.ffill("x"), lambda: a.interp(x=[0.5]), lambda: a.groupby("x").first()):
                try:
                    call()
                except NotImplementedError as error:
                    print(str(error).partition(", which ")[2].splitlines()[0])
            print(a.groupby("x").last().data.tolist(), a.copy(data=a.data.numpy()).ffill("x").values)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "has xarray.core.missing.push with the parameters array, axis, n, more.",
            "has no xarray.core.missing._interpnd.",
            "has no xarray.core.nputils.nanfirst.",
            "[1.0, nan, 3.0] [1. 1. 3.]",
        ]


class TestChunkManager:
    """xarray's interface for arrays in chunks: cutting, without anything that is replaced."""

    def test_the_distribution_names_it(self):
        from agrad.chunk_manager import ChunkManager

        text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
        (entry,) = tomllib.loads(text)["project"]["entry-points"]["xarray.chunkmanagers"].items()
        found = load_chunkmanagers([EntryPoint(*entry, "xarray.chunkmanagers")])
        assert entry[0] == "agrad"
        assert type(found["agrad"]) is ChunkManager

    def test_chunks_are_cut_in_the_graph(self):
        pytest.importorskip("dask.array")
        source = """
            import numpy as np, xarray as xr, agrad as ag, sys
            from agrad.chunk_manager import ChunkManager
            x = ag.asarray(np.arange(6.0).reshape(2, 3), requires_grad=True)
            for held in (xr.DataArray(x, dims="ab"), xr.Dataset({"t": ("ab", x)})["t"].to_dataset(), ):
                cut = held.chunk(a=1, chunked_array_type=ChunkManager())
                cut = cut if isinstance(cut, xr.DataArray) else cut["t"]
                again = cut.chunk(b=2, chunked_array_type=ChunkManager())
                print(cut.data.chunks, again.data.chunks)
                x.grad = None
                (again**2).sum().data.backward()
                print((x.grad == 2 * x).numpy().all())
            made = xr.DataArray(np.ones((2, 3)), dims="ab").chunk(a=1, chunked_array_type=ChunkManager())
            print(type(made.data).__name__, made.data.chunks)
            print("agrad.xarray" in sys.modules)
        """
        source = source.replace('dims="ab"', 'dims=("a", "b")').replace('("ab", x)', '(("a", "b"), x)')
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        cut = ["((1, 1), (3,)) ((1, 1), (2, 1))", "True"]
        assert done.stdout.splitlines() == [*cut, *cut, "Tensor ((1, 1), (3,))", "False"]

    def test_functions_of_blocks_are_recorded(self):
        from agrad.chunk_manager import ChunkManager

        x = _lazy().data
        made = ChunkManager().apply_gufunc(np.negative, "()->()", x)
        assert made.chunks == x.chunks
        np.testing.assert_array_equal(made.detach().numpy(), -x.detach().numpy())


#: Means over land, which is missing at all times, as users write them.
OVER_LAND = {
    "mean": lambda a: a.mean("time"),
    "resample": lambda a: a.resample(time="4D").mean(),
    "coarsen": lambda a: a.coarsen(time=4).mean(),
    "groupby": lambda a: a.groupby(a.time.dt.day % 3).mean(),
    "rolling": lambda a: a.rolling(time=3).mean(),
    "std": lambda a: a.std("time"),
    "weighted": lambda a: a.weighted(a.x + 1.0).mean(("time", "x")),
    "max": lambda a: a.max("time"),
    "root": lambda a: np.sqrt((a**2).mean("time")),
}


@pytest.mark.parametrize("chunks", [None, 4])
@pytest.mark.parametrize("reduced", OVER_LAND.values(), ids=OVER_LAND)
def test_land_warns_of_nothing_that_plain_xarray_does_not_warn_of(reduced, chunks):
    values = np.where(np.arange(6) < 3, np.nan, np.random.default_rng(0).normal(size=(16, 6)))
    land = xr.DataArray(
        values, dims=("time", "x"), coords={"time": pd.date_range("2001-01-01", periods=16), "x": np.arange(6.0)}
    )
    land = land if chunks is None else land.chunk(time=chunks)

    def told(compute):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            compute()
        return {str(w.message) for w in seen}

    plain = told(lambda: reduced(land * 2.0).compute())
    p = ag.tensor(2.0, requires_grad=True)
    assert told(lambda: (reduced(land * p) ** 2).mean().data.backward()) <= plain
    q = ag.tensor(2.0, requires_grad=True)
    (reduced(land[:, 3:].compute() * q) ** 2).mean().data.backward()
    assert np.isclose(p.grad.item(), q.grad.item())


def test_a_transform_says_where_labels_go():
    def squares(x):
        return (xr.DataArray(x, dims="day") ** 2).sum()

    for transform in (ag.grad, ag.value_and_grad, ag.jacobian):
        with pytest.raises(TypeError, match=r"DataArray'>\n  Return the tensor in it: result\.data\.\n"):
            transform(squares)(np.ones(3))
    with pytest.raises(TypeError, match=r"Dataset'>\n.*inside the function: x\[name\]\.to_numpy\(\)\.\n"):
        ag.grad(lambda data: (data.x**2).sum().data)(xr.Dataset({"x": ("day", np.ones(3))}))


def test_the_number_of_a_loss_is_said():
    loss = (xr.DataArray(ag.ones(3, requires_grad=True), dims="day") ** 2).sum()
    with pytest.raises(RuntimeError, match=r"a\.data\.item\(\) that of one element"):
        float(loss)
    assert loss.data.item() == 3.0
