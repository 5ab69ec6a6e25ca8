"""
Calibrating a labelled model
============================

Temperatures of many places and months, in an xarray ``DataArray`` over chunks of Dask. The model is written in labels, its parameters
are found by their gradient, and labels stay on everything on the way.
"""

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import agrad as ag

# %%
# Made up, so that the answer is known: a mean and a season, both changing with latitude, whose warmest month is the same everywhere.

rng = np.random.default_rng(0)
labels = {
    "time": np.arange(120),
    "lat": np.linspace(-60.0, 60.0, 13),
    "lon": np.arange(0.0, 360.0, 15.0),
}
noise = xr.DataArray(2 * rng.normal(size=(120, 13, 24)), coords=labels)
TRUTH = {"mean": 27.0, "colder": 30.0, "season": 14.0, "warmest": 6.5}


def model(p, like):
    tilt = np.sin(np.deg2rad(like.lat))
    season = np.cos((like.time - p["warmest"]) * (2 * np.pi / 12)) * p["season"]
    return p["mean"] - p["colder"] * tilt**2 + tilt * season


observed = (model(TRUTH, noise) + noise).transpose("time", "lat", "lon")
observed = observed.assign_attrs(units="degrees C").chunk({"lat": 5, "lon": 12})

# %%
# The loss weighs each place by its area. ``.data`` takes the tensor out of the labels at the end.


def loss(p):
    error = (model(p, observed) - observed) ** 2
    return error.weighted(np.cos(np.deg2rad(observed.lat))).mean().data


start = {"mean": 20.0, "colder": 10.0, "season": 5.0, "warmest": 5.0}
value, gradient = ag.value_and_grad(loss)(start)
print({name: round(float(g), 3) for name, g in gradient.items()})

# %%
# Parameters go in and come out in their dictionary.

found = ag.optim.minimize(loss, start, method="BFGS")
print(
    {name: round(float(p), 3) for name, p in found.params.items()},
    f"{found.nfev} evaluations",
)

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for lat in (-60.0, 0.0, 60.0):
    one = observed.sel(lat=lat).mean("lon")[:24]
    (line,) = axes.plot(one.time, one, ".")
    fitted = model(found.params, one)
    axes.plot(one.time, fitted, color=line.get_color(), label=f"latitude {lat:.0f}")
axes.set(xlabel="month", ylabel=observed.attrs["units"])
axes.legend()

# %%
# A season of unknown size and phase is a sum of cosine and sine with unknown factors: linear least squares.

tilt = np.sin(np.deg2rad(observed.lat))
angle = 2 * np.pi / 12 * observed.time
terms = [xr.ones_like(tilt), -(tilt**2), tilt * np.cos(angle), tilt * np.sin(angle)]
area = np.sqrt(np.cos(np.deg2rad(observed.lat))).broadcast_like(observed)
columns = [(t.broadcast_like(observed) * area).values.ravel() for t in terms]
(mean, colder, c, s), *_ = np.linalg.lstsq(
    np.stack(columns, axis=1), (observed * area).values.ravel()
)
known = [mean, colder, np.hypot(c, s), np.arctan2(s, c) * 12 / (2 * np.pi) % 12]
np.testing.assert_allclose([found.params[name] for name in TRUTH], known, rtol=1e-4)
