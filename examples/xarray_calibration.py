"""Calibrate a small climate model on a labelled grid in chunks: xarray over Dask over agrad.

    python examples/xarray_calibration.py                 # 36 x 72 cells, 60 years, chunks of 12 x 36 cells
    python examples/xarray_calibration.py --backend numpy # the same without chunks
    python examples/xarray_calibration.py --small         # 12 x 24 cells, 30 years

The model is the energy balance C dT/dt = F - k T of land and of ocean, mixed by a grid of land fractions, and warmer
towards the poles by a factor a. Its five parameters are found from yearly mean temperatures by L-BFGS with agrad's
gradient.

The data are synthetic. The forcing F grows like that of carbon dioxide at 1 % a year (5.35 W/m2 per e-fold) and falls
after two eruptions, in years chosen here; land is where a sum of three waves is positive; the temperatures are those of
the model with the parameters `TRUTH`, plus normal noise of 0.1 K from NumPy's generator, seeded with 0. So the answer
is known.
"""

from __future__ import annotations

import argparse
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import agrad as ag

try:
    import numpy as np
    import xarray as xr
    from scipy.optimize import minimize
except ImportError as error:
    sys.exit(f"this example needs more than agrad: pip install -e plugins/dask_backend xarray scipy ({error})")

#: Heat capacities (W year / m2 / K), feedbacks (W / m2 / K), and the additional warming of the poles.
NAMES = ["capacity of land", "capacity of ocean", "feedback of land", "feedback of ocean", "polar amplification"]
TRUTH = np.array([3.0, 12.0, 1.6, 1.1, 0.7])
START = np.array([1.5, 6.0, 1.0, 2.0, 0.1])


def grid(rows, columns):
    lat = xr.DataArray((np.arange(rows) + 0.5) * 180 / rows - 90, dims="lat", attrs={"units": "degrees_north"})
    lon = xr.DataArray((np.arange(columns) + 0.5) * 360 / columns, dims="lon", attrs={"units": "degrees_east"})
    lat, lon = lat.assign_coords(lat=lat), lon.assign_coords(lon=lon)
    waves = np.sin(np.deg2rad(2 * lon)) + np.cos(np.deg2rad(3 * lat + lon)) + 0.5 * np.sin(np.deg2rad(5 * lon - lat))
    return (1 / (1 + np.exp(-4 * waves))).rename("land fraction").transpose("lat", "lon")


def forcing(years):
    time = np.arange(12 * years) / 12
    eruptions = sum(-2.5 * np.where(time >= y, np.exp(-(time - y)), 0.0) for y in (years / 4, years / 2))
    values = 5.35 * np.log(1.01) * time + eruptions
    return xr.DataArray(values, dims="time", coords={"time": time}, name="forcing", attrs={"units": "W m-2"})


def temperatures(parameters, land, force):
    """Yearly means of the warming of every cell, in K."""
    surface = xr.DataArray(["land", "ocean"], dims="surface")
    capacity = xr.DataArray(parameters[:2], dims="surface", coords={"surface": surface})
    feedback = xr.DataArray(parameters[2:4], dims="surface", coords={"surface": surface})
    lag = force.time - force.time.rename(time="since")
    response = (lag >= 0) * np.exp(-np.abs(lag) * feedback / capacity) / capacity
    warming = (response * force.rename(time="since")).sum("since") / 12
    yearly = warming.coarsen(time=12).mean()
    poles = 1 + parameters[4] * (np.sin(np.deg2rad(land.lat)) ** 2 - 1 / 3)
    cells = land * yearly.sel(surface="land") + (1 - land) * yearly.sel(surface="ocean")
    return (cells * poles).transpose("time", "lat", "lon").assign_attrs(units="K")


def misfit(parameters, land, force, observed):
    """Mean of squared differences, with each cell weighted by its area."""
    error = (temperatures(parameters, land, force) - observed) ** 2
    return error.weighted(np.cos(np.deg2rad(land.lat))).mean(("lat", "lon")).mean("time").data


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=["dask", "numpy"], default="dask")
    parser.add_argument("--small", action="store_true", help="a smaller grid and fewer years")
    parser.add_argument("--require", type=float, default=0.05, help="largest relative error of a parameter (0.05)")
    options = parser.parse_args()
    (rows, columns), years = ((12, 24), 30) if options.small else ((36, 72), 60)
    land, force = grid(rows, columns), forcing(years)
    observed = temperatures(TRUTH, land, force)
    observed = observed + 0.1 * np.random.default_rng(0).normal(size=observed.shape)
    if options.backend == "dask":
        cells = {"lat": rows // 3, "lon": columns // 2}
        land, observed = land.chunk(cells), observed.chunk(cells)
    loss = ag.value_and_grad(misfit)

    def objective(scaled):
        value, gradient = loss(scaled * START, land, force, observed)
        return float(value), np.asarray(gradient) * START

    _, gradient = loss(START, land, force, observed)
    steps = np.diag(1e-6 * START)
    ends = [[float(misfit(START + s * d, land, force, observed)) for s in (1, -1)] for d in steps]
    differences = np.array([(up - down) / (2e-6 * x) for (up, down), x in zip(ends, START, strict=True)])
    off = np.max(np.abs(np.asarray(gradient) - differences) / np.abs(differences))
    print(f"{rows} x {columns} cells on {options.backend}; the gradient differs from finite differences by {off:.0e}")

    found = minimize(objective, np.ones(5), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
    parameters = found.x * START
    print(f"L-BFGS: {found.nfev} evaluations, root mean square misfit {np.sqrt(found.fun):.4f} K")
    for name, value, true in zip(NAMES, parameters, TRUTH, strict=True):
        print(f"{name:22}{value:9.4f}   true {true:8.4f}")
    worst = np.max(np.abs(parameters / TRUTH - 1))
    if worst > options.require:
        sys.exit(f"a parameter is off by {worst:.1%}, more than {options.require:.1%}")


if __name__ == "__main__":
    main()
