"""Geoscientists' programs on gridded stores, compared with NumPy by hand: the part "grids" of ``out_of_core.py``, which calls this.

The store has a model and observations, days of 90 x 180 float32 in chunks of 60 days, with land and gaps as NaN. Each
program runs in a separate process, several times; the table shows the CPU seconds of the fastest call, the largest
growth of the resident set over its size before the first (imports included), and how often a chunk of the model was
read per call. Goals: a gradient of an MLP at every grid point grows by at most 1.3 of NumPy by hand, with whole chunks
at a time; a mean that skips NaN reads once; a product with the Hessian of 16 parameters takes 2 of the gradient's time,
and the Hessian reads once. NumPy by hand computes value and gradient in the time of the Hessian too, and half of the
matrix.

The last rows read nothing: 60 steps of shallow water on a ring of 96 x 96 cells in four chunks, and the gradient with
respect to the first state, one step per call and all by ``steps=``, compared with the same program on arrays in memory.
The goal is 4 times its time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

DAYS, CHUNK, LAT, LON = 720, 60, 90, 180
GROWTH, PRODUCT = 1.3, 2.0
CALLS = 3
WATER = "steps in memory", "steps", "steps by steps="
PROGRAMS = ("mlp", "mlp by hand", "mean", "gradient", "hvp", "hessian", "hessian by hand", *WATER)
CELLS, STEPS, IN_MEMORY = 96, 60, 4.0

#: The month of every day, and the climate zone of every row of cells.
MONTH, ZONE = np.arange(DAYS) // 30 % 12, np.minimum(np.arange(LAT) // 30, 2)[:, None] * np.ones(LON, int)
WEIGHTS = np.cos(np.deg2rad(np.linspace(-89, 89, LAT))).astype("f4")[:, None]


def build(path: Path) -> None:
    """Write the store."""
    import zarr

    land = np.random.default_rng(0).random((LAT, LON)) < 0.3
    arrays = [
        zarr.create_array(
            path / name, shape=(DAYS, LAT, LON), chunks=(CHUNK, LAT, LON), dtype="f4", compressors=None,
            dimension_names=("time", "lat", "lon"),
        )
        for name in ("model", "obs")
    ]  # fmt: skip
    for start in range(0, DAYS, CHUNK):
        rng = np.random.default_rng(start)
        model = 10 + 5 * rng.standard_normal((CHUNK, LAT, LON), dtype="f4")
        obs = 1.1 * model + 0.3 + rng.standard_normal(model.shape, dtype="f4")
        obs[rng.random(obs.shape) < 0.05] = np.nan
        for array, values in zip(arrays, (model, obs), strict=True):
            values[:, land] = np.nan
            array[start : start + CHUNK] = values


def mlp(p: Any, m: Any, o: Any) -> Any:
    """The squared error of a network at every grid point."""
    import agrad as ag

    ok = ~(ag.isnan(o) | ag.isnan(m))
    m, o = ag.where(ok, m, 0.0), ag.where(ok, o, 0.0)
    x = ag.reshape(ag.stack([m / 10, m * m / 100], axis=-1), (-1, 2))
    y = ag.reshape(ag.tanh(x @ p[0] + p[1]) @ p[2], m.shape)
    return ag.sum(ag.where(ok, y - o / 10, 0.0) ** 2)


def robust(p: Any, m: Any, o: Any, month: Any) -> Any:
    """A calibration by scale, months and zones, whose Hessian is not constant."""
    import agrad as ag

    ok = ~(ag.isnan(o) | ag.isnan(m))
    m, o = ag.where(ok, m, 0.0), ag.where(ok, o, 0.0)
    e = p[0] * m + p[1:13][month][:, None, None] + p[13:16][ZONE] - o
    return ag.sum(ag.where(ok, WEIGHTS * (ag.sqrt(1 + e * e) - 1), 0.0))


def network() -> list[np.ndarray]:
    """The parameters of `mlp`."""
    rng = np.random.default_rng(0)
    first, last = rng.standard_normal((2, 32)), rng.standard_normal((32, 1)) / 6
    return [first.astype("f4"), np.zeros(32, "f4"), last.astype("f4")]


def mlp_by_hand(model: Any, obs: Any) -> list[np.ndarray]:
    """Return the gradients of `mlp`."""
    w, b, v = network()
    found = [np.zeros_like(each) for each in (w, b, v)]
    for start in range(0, DAYS, CHUNK):
        m, o = model[start : start + CHUNK], obs[start : start + CHUNK]
        ok = ~(np.isnan(m) | np.isnan(o))
        m, o = np.where(ok, m, np.float32(0)), np.where(ok, o, np.float32(0))
        x = np.stack([m / 10, m * m / 100], axis=-1).reshape(-1, 2)
        h = np.tanh(x @ w + b)
        r = 2 * np.where(ok, (h @ v).reshape(m.shape) - o / 10, np.float32(0)).reshape(-1, 1)
        d = (r @ v.T) * (1 - h * h)
        found = [total + part for total, part in zip(found, (x.T @ d, d.sum(axis=0), h.T @ r), strict=True)]
    return found


def hessian_by_hand(model: Any, obs: Any) -> list[np.ndarray]:
    """Return the Hessian of `robust`."""
    p, found = start_of_robust(), np.zeros((16, 16))
    for start in range(0, DAYS, CHUNK):
        month = MONTH[start : start + CHUNK]
        m, o = model[start : start + CHUNK].astype(float), obs[start : start + CHUNK]
        e = p[0] * m + p[1:13][month][:, None, None] + p[13:16][ZONE] - o
        ok = np.isfinite(e)
        m, e = np.where(ok, m, 0), np.where(ok, e, 0)
        curvature = np.where(ok, WEIGHTS / np.sqrt(1 + e * e) ** 3, 0)
        columns = [
            m,
            *((month == k)[:, None, None] * 1.0 for k in range(12)),
            *((k == ZONE)[None] * 1.0 for k in range(3)),
        ]
        for i, column in enumerate(columns):
            scaled = curvature * column
            for j in range(i, 16):
                found[i, j] += (scaled * columns[j]).sum()
    return [np.triu(found) + np.triu(found, 1).T]


def shallow_water(h: Any, u: Any, v: Any) -> tuple[Any, Any, Any]:
    """A step in time: height and two velocities, by central differences."""
    import agrad as ag

    def along(axis: int, x: Any) -> Any:
        return (ag.roll(x, -1, axis) - ag.roll(x, 1, axis)) * 0.5

    h = h - 0.02 * (along(1, (1 + h) * u) + along(0, (1 + h) * v))
    slopes = [u * along(1, x) + v * along(0, x) + 9.81 * along(axis, h) for axis, x in ((1, u), (0, v))]
    return h, u - 0.02 * slopes[0], v - 0.02 * slopes[1]


def water(name: str) -> list[Any]:
    """Return the gradients of an energy after some steps with respect to the initial state."""
    import dask.array as da

    import agrad as ag
    import agrad_dask

    y, x = np.mgrid[:CELLS, :CELLS] / CELLS
    start = (
        0.1 * np.exp(-50 * ((x - 0.5) ** 2 + (y - 0.4) ** 2)),
        0.01 * np.sin(2 * np.pi * y),
        0.01 * np.cos(2 * np.pi * x),
    )
    if name == "steps in memory":
        state = first = [ag.asarray(each, requires_grad=True) for each in start]
        for _ in range(STEPS):
            state = shallow_water(*state)
    else:
        first = [ag.asarray(da.from_array(each, chunks=CELLS // 2), requires_grad=True) for each in start]
        state, each = first, STEPS if name == "steps by steps=" else 1
        for _ in range(STEPS // each):
            state = agrad_dask.map_overlap(shallow_water, *state, depth=2, boundary="periodic", steps=each)
    loss = ag.mean(state[0] ** 2) + ag.mean(state[1] * state[2])
    loss.backward()
    ag.compute(loss, *(each.grad for each in first))
    return [each.grad.numpy() for each in first]


def start_of_robust() -> np.ndarray:
    """The point at which `robust` is differentiated."""
    return np.concatenate([[1.0], np.zeros(15)])


def made(name: str, path: Path) -> Any:
    """Return a function without arguments that computes the derivatives of a program."""
    if name in WATER:
        return lambda: water(name)
    import zarr

    if name.endswith("by hand"):
        by_hand = mlp_by_hand if name.startswith("mlp") else hessian_by_hand
        model, obs = (zarr.open_array(path / each, mode="r") for each in ("model", "obs"))
        return lambda: by_hand(model, obs)
    import dask.array as da

    import agrad as ag
    import agrad_dask

    ag.set_default_dtype(ag.float32)
    model, obs = (agrad_dask.from_zarr(str(path / each), chunks=(CHUNK, LAT, LON)) for each in ("model", "obs"))
    if name == "mlp":
        step, parameters = agrad_dask.value_and_grad(mlp, reduce="sum"), network()
        return lambda: step(parameters, model, obs)[1]
    if name == "mean":
        import xarray as xr

        import agrad.xarray

        def mean() -> list[Any]:
            scale = ag.ones((), requires_grad=True)
            error = scale * xr.DataArray(model, dims=("time", "lat", "lon")) - xr.DataArray(
                obs, dims=("time", "lat", "lon")
            )
            (error**2).weighted(xr.DataArray(WEIGHTS[:, 0], dims="lat")).mean().data.backward()
            return [scale.grad.numpy()]

        return mean
    month, p = da.from_array(MONTH, chunks=CHUNK), start_of_robust().astype("f4")
    if name == "hvp":
        product, v = agrad_dask.hvp(robust, reduce="sum"), np.ones(16, "f4")
        return lambda: [product((p, model, obs, month), v)]
    if name == "hessian":
        matrix = agrad_dask.hessian(robust, reduce="sum")
        return lambda: [matrix(p, model, obs, month)]
    step = agrad_dask.value_and_grad(robust, reduce="sum")
    return lambda: [step(p, model, obs, month)[1]]


def run_one(name: str, path: Path) -> dict[str, Any]:
    """Run a program; return its measurements."""
    from zarr.storage import LocalStore

    reads, get = Counter[str](), LocalStore.get

    async def counted(self: Any, key: str, *args: Any, **kwargs: Any) -> Any:
        reads[f"{self.root.name}/{key}"] += "c/" in key
        return await get(self, key, *args, **kwargs)

    LocalStore.get = counted  # type: ignore[method-assign]
    call = made(name, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = []
    for _ in range(CALLS):
        start = time.process_time()
        found = call()
        taken.append(time.process_time() - start)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    most = max((count for key, count in reads.items() if key.startswith("model/c/")), default=0)
    sums = [float(np.abs(np.asarray(each, float)).sum()) for each in found]
    return {"cpu": min(taken), "grown": grown / 1024, "reads": most / CALLS, "sums": sums}


def report() -> bool:
    """Print the table; return whether the compared results are the same."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        for name in PROGRAMS:
            command = [sys.executable, __file__, name, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name] = json.loads(done.stdout.splitlines()[-1])
    over = {
        "mlp": found["mlp"]["grown"] > GROWTH * found["mlp by hand"]["grown"],
        "mean": found["mean"]["reads"] > 1,
        "hvp": found["hvp"]["cpu"] > PRODUCT * found["gradient"]["cpu"] or found["hvp"]["reads"] > 1,
        "hessian": found["hessian"]["reads"] > 1,
        **{name: found[name]["cpu"] > IN_MEMORY * found["steps in memory"]["cpu"] for name in WATER[1:]},
    }
    print(
        f"\ngrids, {DAYS} days of {LAT} x {LON} float32 in chunks of {CHUNK}\n{'':20}{'CPU s':>8}{'grown MiB':>11}{'reads':>7}   mark"
    )
    fine = True
    for name, each in found.items():
        mark = "-" if name not in over else "OVER" if over[name] else "pass"
        other = found["steps in memory"] if name in WATER else found.get(f"{name} by hand")
        if other and not np.allclose(each["sums"], other["sums"], rtol=1e-3):
            fine, mark = False, "WRONG"
        print(f"{name:20}{each['cpu']:8.2f}{each['grown']:11.0f}{each['reads']:7.1f}   {mark}")
    return fine


if __name__ == "__main__":
    print(json.dumps(run_one(sys.argv[1], Path(sys.argv[2]))))
