"""xarray: arrays with named dimensions, coordinates and attributes, over NumPy's arrays and over Dask's chunks."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from calls import Call, Section, sample

import agrad.xarray  # noqa: F401 (interp, ffill, first and points by arrays)

#: Days, with a gap, and places.
DAYS = pd.to_datetime(["2020-01-30", "2020-01-31", "2020-02-01", "2020-02-02", "2020-02-05", "2020-02-06"])
PLACES = [-1.5, 0.0, 2.0, 2.5]
X = sample(6, 4, seed=90)
P = sample(6, 4, seed=91, low=0.3, high=3.0)
GAPS = np.where(np.arange(24).reshape(6, 4) % 7 == 3, np.nan, X)
WEIGHTS = sample(6, seed=92, low=0.2, high=1.5)
LINE = sample(5, seed=93, low=0.4, high=2.0)
#: Where values are missing; what is missing has no derivative, and stays missing beside it.
PRESENT = xr.DataArray(~np.isnan(GAPS), dims=("time", "place"))


#: An array with coordinates, also along no dimension, and attributes.
LABELLED = xr.DataArray(
    X,
    dims=("time", "place"),
    coords={
        "time": DAYS,
        "place": ("place", PLACES, {"units": "km"}),
        "height": 2.0,
        "season": ("time", [0, 0, 1, 1, 1, 2]),
    },
    name="temperature",
    attrs={"units": "K", "source": "drawn"},
)


def array(x: Any) -> xr.DataArray:
    """Give other numbers with these labels."""
    return LABELLED.copy(deep=False, data=x)


def gappy(x: Any) -> xr.DataArray:
    """Give an array, with values missing."""
    return array(x).where(PRESENT)


def dataset(x: Any) -> xr.Dataset:
    """Give a dataset of two variables."""
    return xr.Dataset({"a": array(x), "b": array(x)[:, 0] ** 2}, attrs={"title": "both"})


def labels(found: Any) -> str:
    """Give what a result has beside its numbers."""
    variables = {"": found.variable} if isinstance(found, xr.DataArray) else found.data_vars
    parts = [repr((name, v.dims, v.shape, str(v.dtype), v.attrs)) for name, v in variables.items()]
    for name, c in found.coords.items():
        parts.append(repr((name, c.dims, str(c.dtype), np.asarray(c).tolist(), c.attrs)))
    return "; ".join([repr((getattr(found, "name", None), found.attrs)), *parts])


def taken(found: Any) -> list[Any]:
    """Give the numbers of a result, and its labels as numbers, which have to be the same on tensors."""
    data = [found.data] if isinstance(found, xr.DataArray) else [v.data for v in found.data_vars.values()]
    return [*data, np.frombuffer(labels(found).encode(), dtype=np.uint8)]


#: Over Dask: what a chunk holds, per number of axes.
CHUNKS = {1: (2,), 2: (3, 2)}
call = Section("xarray")
chunked = Section("xarray, on Dask chunks")
CALLS: list[Call] = []


def op(name: str, function: Any, *operands: Any, by: Any = array, chunks: Any = CHUNKS, **options: Any) -> None:
    """Write down an operation on the first operand as a `DataArray`, on arrays and over chunks."""

    def run(first: Any, *others: Any) -> list[Any]:
        with xr.set_options(keep_attrs=True):
            return taken(function(by(first), *others))

    operands = operands or (X,)
    CALLS.append(call(name, run, *operands, **options))
    if chunks is not None:
        CALLS.append(dataclasses.replace(chunked(name, run, *operands, **options), chunks=chunks))


#: One chunk along what an algorithm of xarray's does not cut.
WHOLE_TIME = {1: (6,), 2: (6, 2)}

# -- arithmetic, choosing, shapes --------------------------------------------------------------------------------------
op("DataArray + DataArray", lambda a, y: a + array(y), X, P)
op("DataArray * number - number", lambda a: a * 2.5 - 1)
op("DataArray * DataArray of other dimensions", lambda a, w: a * xr.DataArray(w, dims="time"), X, WEIGHTS)
op("DataArray ** number", lambda a: a**3)
op("number / DataArray", lambda a: 2.0 / a, P)
op("DataArray + DataArray, aligned", lambda a, y: a[:5] + array(y)[2:], X, P)
op("-DataArray, abs", lambda a: abs(-a))
op("numpy.exp, numpy.sin", lambda a: np.exp(np.sin(a)))
op("numpy.maximum", lambda a, y: np.maximum(a, array(y)), X, P)
op("DataArray @ DataArray", lambda a, w: a @ xr.DataArray(w, dims="time"), X, WEIGHTS)
op("dot", lambda a, y: xr.dot(a, array(y), dim="time"), X, P)
op("sel, isel", lambda a: a.sel(place=2.0, time=slice("2020-01-31", "2020-02-05")).isel(time=[2, 0]))
op("sel(method='nearest')", lambda a: a.sel(place=[0.3, 2.4], method="nearest"))
op("isel(DataArray)", lambda a: a.isel(time=xr.DataArray([0, 2, 5], dims="p"), place=xr.DataArray([1, 3, 0], dims="p")))
op("where", lambda a: a.where(a.place > 0))
op("where(other)", lambda a, y: a.where(a > 0, array(y)), X, P)
op("xr.where", lambda a: xr.where(a > 0, a**2, -a))
op("fillna", lambda a: a.fillna(1.5), by=gappy)
op("clip", lambda a: a.clip(-1.03, 1.04))
op("transpose", lambda a: a.transpose("place", "time"))
op("stack, unstack", lambda a: (a.stack(z=("time", "place")) * 2).unstack("z"))
op("expand_dims, squeeze", lambda a: a.expand_dims(run=[1, 2]).isel(run=[0]).squeeze("run"))
op("broadcast_like", lambda a, y: xr.DataArray(a[:, 0].data, dims="time").broadcast_like(array(y)), X, P)
op("xr.concat", lambda a, y: xr.concat([a, array(y)], dim="run"), X, P)
op("reindex", lambda a: a.reindex(place=[0.0, 1.0, 2.5]))
op("sortby", lambda a: a.sortby("place", ascending=False))
op("assign_coords, rename", lambda a: a.assign_coords(place=a.place * 2).rename(place="distance"))
op("astype", lambda a: a.astype("float64"))
op("shift", lambda a: a.shift(time=2))
op("shift(fill_value)", lambda a: a.shift(time=-1, fill_value=0.5))
op("roll", lambda a: a.roll(time=2, roll_coords=True))
op("pad", lambda a: a.pad(place=(1, 2), constant_values=0.5))
op("pad(edge)", lambda a: a.pad(place=(1, 2), mode="edge"))
op("pad(reflect)", lambda a: a.pad(time=2, mode="reflect"))
op("diff", lambda a: a.diff("time", n=2))

# -- reductions --------------------------------------------------------------------------------------------------------
for _name in ["sum", "mean", "max", "min", "prod", "std", "var", "median"]:
    _whole = {"chunks": WHOLE_TIME} if _name == "median" else {}
    op(f"{_name}", lambda a, _n=_name: getattr(a, _n)("time"), P, **_whole)
    op(f"{_name}(), with gaps", lambda a, _n=_name: getattr(a, _n)("time"), P, by=gappy, **_whole)
    op(f"{_name}(skipna=True)", lambda a, _n=_name: getattr(a, _n)("time", skipna=True), P, by=gappy, **_whole)
    op(f"{_name}(skipna=False)", lambda a, _n=_name: getattr(a, _n)("time", skipna=False), P, **_whole)
op("mean of all", lambda a: a.mean())
op("max of all", lambda a: a.max())
op("sum(min_count)", lambda a: a.sum("time", min_count=2), by=gappy)
op("std(ddof=1)", lambda a: a.std("time", ddof=1))
op("var(ddof=1), with gaps", lambda a: a.var("time", ddof=1), by=gappy)
op("cumsum", lambda a: a.cumsum("time"))
op("cumsum, with gaps", lambda a: a.cumsum("time"), by=gappy)
op("cumprod", lambda a: a.cumprod("time"), P)
op("count", lambda a: a.count("time"), by=gappy, constant=True)
op("argmax", lambda a: a.argmax("time"), constant=True)
op("idxmax", lambda a: a.idxmax("place"), constant=True)
op("quantile", lambda a: a.quantile([0.2, 0.7], "time"), chunks=WHOLE_TIME)
op("quantile, with gaps", lambda a: a.quantile(0.3, "time"), by=gappy, chunks=WHOLE_TIME)
op("quantile(skipna=False)", lambda a: a.quantile(0.3, "time", skipna=False), chunks=WHOLE_TIME)
op("rank", lambda a: a.rank("time"), constant=True)
op("xr.cov", lambda a, y: xr.cov(a, array(y), dim="time"), X, P)
op("xr.corr", lambda a, y: xr.corr(a, array(y), dim="time"), X, P)
op("weighted.mean", lambda a, w: a.weighted(xr.DataArray(w, dims="time")).mean("time"), X, WEIGHTS)
op("weighted.mean of all", lambda a, w: a.weighted(xr.DataArray(w, dims="time")).mean(), X, WEIGHTS)
op("weighted.sum", lambda a, w: a.weighted(xr.DataArray(w, dims="time")).sum("time"), X, WEIGHTS)
op("weighted.std", lambda a, w: a.weighted(xr.DataArray(w, dims="time")).std("time"), X, WEIGHTS)
op("weighted.mean, with gaps", lambda a, w: a.weighted(xr.DataArray(w, dims="time")).mean("time"), X, WEIGHTS, by=gappy)
op(
    "weighted.quantile",
    lambda a: a.weighted(xr.DataArray(WEIGHTS, dims="time")).quantile(0.4, dim="time"),
    chunks=WHOLE_TIME,
)

# -- windows and groups ------------------------------------------------------------------------------------------------
for _name in ["mean", "sum", "max", "std"]:
    op(f"rolling.{_name}", lambda a, _n=_name: getattr(a.rolling(time=3), _n)())
op("rolling.mean(min_periods, center)", lambda a: a.rolling(time=3, min_periods=1, center=True).mean())
op("rolling.mean, with gaps", lambda a: a.rolling(time=3, min_periods=1).mean(), by=gappy)
op("rolling.construct", lambda a: a.rolling(time=3).construct("window", fill_value=0.0).mean("window"))
op("rolling.reduce", lambda a: a.rolling(place=2).reduce(np.sum))
for _name in ["mean", "sum", "max", "std", "median"]:
    op(f"groupby.{_name}", lambda a, _n=_name: getattr(a.groupby("season"), _n)())
op("groupby.mean, with gaps", lambda a: a.groupby("season").mean(), by=gappy)
op("groupby - groupby.mean", lambda a: a.groupby("season") - a.groupby("season").mean())
op("groupby.map", lambda a: a.groupby("season").map(lambda g: g / g.sum("time")), P)
op("groupby_bins.mean", lambda a: a.groupby_bins("place", [-2, 1, 3]).mean())
op("groupby('time.month').mean", lambda a: a.groupby("time.month").mean())
op("groupby.first", lambda a: a.groupby("season").first())
op("resample.mean", lambda a: a.resample(time="2D").mean())
op("resample.sum", lambda a: a.resample(time="MS").sum())
op("resample.interpolate", lambda a: a.resample(time="12h").interpolate("linear"), chunks=WHOLE_TIME)
op("coarsen.mean", lambda a: a.coarsen(time=2, place=2).mean())
op("coarsen.max(trim)", lambda a: a.coarsen(time=4, boundary="trim").max())
op("coarsen.sum(pad)", lambda a: a.coarsen(time=4, boundary="pad").sum())

# -- calculus and fits -------------------------------------------------------------------------------------------------
op("interp", lambda a: a.interp(place=[-1.0, 0.3, 2.2]))
op("interp of two", lambda a: a.interp(place=[-1.0, 0.3], time=DAYS[:3] + pd.Timedelta("7h")))
op("interp(nearest)", lambda a: a.interp(place=[-1.0, 0.3, 2.2], method="nearest"))
op("interp(cubic)", lambda a: a.interp(place=[-1.0, 0.3, 2.2], method="cubic"))
op("interp_like", lambda a: a.interp_like(xr.DataArray(np.zeros(2), coords={"place": [0.5, 1.5]}, dims="place")))
op("interpolate_na", lambda a: a.interpolate_na("time"), by=gappy)
op("ffill", lambda a: a.ffill("time"), by=gappy)
op("bfill", lambda a: a.bfill("time"), by=gappy)
op("differentiate", lambda a: a.differentiate("place"))
op("differentiate(time)", lambda a: a.differentiate("time", datetime_unit="D", edge_order=2))
op("integrate", lambda a: a.integrate("place"))
op("integrate of both", lambda a: a.integrate(["place", "time"], datetime_unit="D"))
op("cumulative_integrate", lambda a: a.cumulative_integrate("place"))
op("polyfit", lambda a: a.polyfit("place", deg=2), chunks={1: (2,), 2: (2, 4)})
op("polyfit(skipna)", lambda a: a.polyfit("time", deg=1), by=gappy, chunks=WHOLE_TIME)
op("xr.polyval", lambda a, c: xr.polyval(a.place, xr.DataArray(c, dims="degree", coords={"degree": range(5)})), X, LINE)
op("curvefit", lambda a: a.curvefit("place", lambda x, m, n: m * x + n)["curvefit_coefficients"])

# -- functions of the user's -------------------------------------------------------------------------------------------
op("xr.apply_ufunc", lambda a: xr.apply_ufunc(np.tanh, a), chunks=None)
op(
    "xr.apply_ufunc(core dims)",
    lambda a: xr.apply_ufunc(lambda x: x.mean(-1), a, input_core_dims=[["place"]]),
    chunks=None,
)
op("xr.apply_ufunc(dask='allowed')", lambda a: xr.apply_ufunc(np.tanh, a, dask="allowed"))
op("xr.apply_ufunc(vectorize)", lambda a: xr.apply_ufunc(np.sum, a, input_core_dims=[["place"]], vectorize=True))
op("reduce", lambda a: a.reduce(np.sum, "time"))
op("pipe", lambda a: a.pipe(lambda b: b / b.mean()), P)

# -- datasets ----------------------------------------------------------------------------------------------------------
op("Dataset * number", lambda d: d * 2 + 1, by=dataset)
op("Dataset.mean", lambda d: d.mean("time"), by=dataset)
op("Dataset.std(ddof=1)", lambda d: d.std("time", ddof=1), by=dataset)
op("Dataset.rolling.mean", lambda d: d.rolling(time=2).mean(), by=dataset)
op("Dataset.groupby.mean", lambda d: d.groupby("season").mean(), by=dataset)
op("Dataset.resample.mean", lambda d: d.resample(time="2D").mean(), by=dataset)
op("Dataset.interp", lambda d: d.interp(place=[0.5]), by=dataset)
op("Dataset.to_dataarray", lambda d: d[["a"]].to_dataarray(), by=dataset)
op("Dataset.map", lambda d: d.map(np.sin), by=dataset)
op("xr.merge, Dataset.assign", lambda d: xr.merge([d.assign(c=d.a + d.b), {"e": d.b * 2}]), by=dataset)
