"""The estimates of `ag.explain` for a program, compared with its actual reads and the growth of its process.

Run from an environment with agrad, its NumPy and Dask backends, xarray and zarr::

    python benchmarks/explained.py --data /tmp/explained            # makes 1.7 GB of stores; about ten minutes
    python benchmarks/explained.py --data /tmp/explained --only tv --threads 2

Method. Every program runs in a separate process, which first computes something similar but small, so that imports,
pools and stacks of threads exist, and returns free memory to the system. It calls ``ag.explain``, then runs the
explained computation. The peak is the largest resident set during the run (``VmHWM`` of Linux, after it was reset)
above the one before; reads are counted by the store. Goals: never less than the actual values, and at most 1.4 of them
if the process grows by 64 MiB or more; explaining takes less CPU time than running.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402 (BLAS reads the variables when it is loaded)

RATIO, LEAST = 1.4, 64 * 2**20
#: A program: returns the arguments and options to explain, and a function that runs it.
Made = tuple[tuple[Any, ...], dict[str, Any], Callable[[], Any]]
PROGRAMS: dict[str, Callable[[Path], Made]] = {}


def program(function: Callable[[Path], Made]) -> Callable[[Path], Made]:
    """Take a program up under its name."""
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


# -- stores ---------------------------------------------------------------------------------------------------------------

TIME, PLACES = 1800, (90, 180)
CUBE, CHUNK = (240, 720, 720), (8, 720, 720)


def build(folder: Path) -> None:
    """Write daily fields of a model and of observations with gaps, and a noisy cube."""
    import xarray as xr
    import zarr

    rng = np.random.default_rng(0)
    land = rng.random(PLACES) < 0.3
    fields = {}
    for key in ("model", "obs"):
        values = rng.normal(10, 5, size=(TIME, *PLACES)).astype("f4")
        values[:, land] = np.nan
        if key == "obs":
            values[rng.random(values.shape) < 0.05] = np.nan
        fields[key] = (("time", "lat", "lon"), values)
    coordinates = {
        "time": xr.date_range("2001-01-01", periods=TIME, freq="D", use_cftime=False),
        "lat": np.linspace(-89, 89, PLACES[0]).astype("f4"),
        "lon": np.arange(0, 360, 2).astype("f4"),
    }
    data = xr.Dataset(fields, coordinates)
    data.to_zarr(
        folder / "days", mode="w", consolidated=False, encoding={key: {"chunks": (120, *PLACES)} for key in fields}
    )
    cube = zarr.create_array(folder / "cube", shape=CUBE, chunks=CHUNK, dtype="f4", compressors=None, overwrite=True)
    for i in range(0, CUBE[0], CHUNK[0]):
        cube[i : i + CHUNK[0]] = rng.normal(size=CHUNK).astype("f4")
    (folder / "complete").write_text("")


# -- programs -------------------------------------------------------------------------------------------------------------


def cube(folder: Path) -> Any:
    """Open the cube."""
    import agrad_dask

    return agrad_dask.from_zarr(folder / "cube")


def days(folder: Path) -> Any:
    """Open the fields, with their labels."""
    import xarray as xr

    return xr.open_zarr(folder / "days", consolidated=False, chunks={})


def written(folder: Path, tensor: Any, *beside: Any) -> Made:
    """Explain writing a tensor uncompressed, with further values to compute, and write it."""
    import agrad as ag

    def write() -> None:
        ag.to_zarr(tensor, folder / "out", together=beside, compressors=None, overwrite=True)

    return (write,), {}, write


def total_variation(x: Any) -> Any:
    """Return the total variation by slices."""
    import agrad as ag

    t, y, z = (x[1:, :-1, :-1], x[:-1, 1:, :-1], x[:-1, :-1, 1:])
    at = x[:-1, :-1, :-1]
    return ag.sum(ag.sqrt((t - at) ** 2 + (y - at) ** 2 + (z - at) ** 2 + 1e-3))


def energy(x: Any, y: Any) -> Any:
    """Total variation of a block with its border, and the distance from the data."""
    t, u, v = (np.roll(x, -1, axis) - x for axis in range(3))
    return 0.5 * (x - y) ** 2 + 0.15 * np.sqrt(t * t + u * u + v * v + 1e-3)


def descent(folder: Path, *, overlap: bool) -> tuple[Any, Any, Any]:
    """Return a loss, its field and the next field."""
    import agrad as ag
    import agrad_dask

    y, x = cube(folder), cube(folder).requires_grad_(True)
    if overlap:
        loss = ag.sum(agrad_dask.map_overlap(energy, x, y, depth=1, boundary="nearest"))
    else:
        loss = 0.5 * ag.sum((x - y) ** 2) + 0.15 * total_variation(x)
    loss.backward()
    with ag.no_grad():
        return loss, x, x - 0.2 * x.grad


def pending(loss: Any, *held: Any) -> Made:
    """Explain a backward pass and run it, while something lives: the graph itself does not hold its leaves."""

    def run() -> Any:
        loss.backward()
        return held

    return (loss,), {"backward": True}, run


@program
def tv_by_slices_to_a_store(folder: Path) -> Made:
    """Total variation: by slices to a store."""
    loss, _, new = descent(folder, overlap=False)
    return written(folder, new, loss)


@program
def tv_by_overlap_to_a_store(folder: Path) -> Made:
    """Total variation: by overlap to a store."""
    loss, _, new = descent(folder, overlap=True)
    return written(folder, new, loss)


@program
def tv_loss_alone(folder: Path) -> Made:
    """Total variation: loss alone."""
    import agrad as ag

    loss = total_variation(cube(folder))
    return (loss,), {}, lambda: ag.compute(loss)


@program
def tv_gradient_kept(folder: Path) -> Made:
    """Total variation: gradient kept."""
    import agrad as ag

    loss, x, _ = descent(folder, overlap=True)
    return (loss, x.grad), {}, lambda: ag.compute(loss, x.grad)


@program
def tv_by_sgd(folder: Path) -> Made:
    """Total variation: by sgd."""
    import agrad as ag

    loss, x, new = descent(folder, overlap=True)
    step = ag.optim.SGD([x], lr=0.2)
    return (loss, x.grad, new), {}, step.step  # it holds both, and the data as before


@program
def scaled_copy_to_a_store(folder: Path) -> Made:
    """Scaled copy to a store."""
    return written(folder, cube(folder) * 2 + 1)


@program
def smoothed_to_a_store(folder: Path) -> Made:
    """Smoothed to a store."""
    import agrad_dask

    def smooth(x: Any) -> Any:
        return (np.roll(x, 1, 0) + x + np.roll(x, -1, 0)) / 3

    return written(folder, agrad_dask.map_overlap(smooth, cube(folder), depth={0: 1}, boundary="reflect"))


@program
def squares_by_overlap(folder: Path) -> Made:
    """Squares by overlap."""
    import agrad as ag
    import agrad_dask

    x = cube(folder).requires_grad_(True)
    w = ag.tensor(0.5, requires_grad=True)
    loss = ag.sum(agrad_dask.map_overlap(lambda b, w: (np.roll(b, 1, 0) - w * b) ** 2, x, w, depth={0: 1}))
    return pending(loss, x, w)


@program
def centred_and_kept(folder: Path) -> Made:
    """Centred and kept."""
    import agrad as ag

    x = cube(folder)[:80]
    made = x - ag.mean(x)
    return (made,), {}, lambda: ag.compute(made)


@program
def standardised_sum(folder: Path) -> Made:
    """Standardised sum."""
    import agrad as ag

    x = cube(folder)
    made = ag.sum(ag.tanh((x - ag.mean(x, axis=0)) * 2))
    return (made,), {}, lambda: ag.compute(made)


@program
def softmax_to_a_store(folder: Path) -> Made:
    """Softmax to a store."""
    import agrad as ag

    return written(folder, ag.softmax(cube(folder), axis=2))


@program
def transposed_to_a_store(folder: Path) -> Made:
    """Transposed to a store."""
    import agrad as ag

    return written(folder, ag.permute_dims(cube(folder)[:80], (1, 0, 2)))


@program
def matrix_products(folder: Path) -> Made:
    """Matrix products."""
    import agrad as ag

    w = ag.ones((720, 16), dtype="float32", requires_grad=True)
    loss = ag.sum(ag.tanh(cube(folder) @ w))
    return pending(loss, w)


def network(folder: Path, rows: int, places: slice, **options: Any) -> Made:
    """A small network at every grid point."""
    import agrad as ag
    import agrad_dask

    data = [agrad_dask.from_zarr(folder / "days", path=key)[:rows, places] for key in ("model", "obs")]
    rng = np.random.default_rng(0)
    p = {
        "w1": rng.normal(size=(2, 32)).astype("f4"),
        "b1": np.zeros(32, "f4"),
        "w2": rng.normal(size=(32, 1)).astype("f4") / 6,
    }

    def loss(p: Any, m: Any, o: Any) -> Any:
        ok = ~(ag.isnan(o) | ag.isnan(m))
        m, o = ag.where(ok, m, 0.0), ag.where(ok, o, 0.0)
        x = ag.reshape(ag.stack([m / 10, m * m / 100], axis=-1), (-1, 2))
        y = ag.reshape(ag.tanh(x @ p["w1"] + p["b1"]) @ p["w2"], m.shape)
        return ag.sum(ag.where(ok, y - o / 10, 0.0) ** 2)

    step = agrad_dask.value_and_grad(loss, reduce="sum", **options)
    return (step, p, *data), {}, lambda: step(p, *data)


@program
def network_in_chunks(folder: Path) -> Made:
    """Network in chunks."""
    return network(folder, 1800, slice(None))


@program
def network_unchecked(folder: Path) -> Made:
    """Network unchecked."""
    return network(folder, 1800, slice(None), check=False)


@program
def network_small_chunks(folder: Path) -> Made:
    """Network small chunks."""
    return network(folder, 240, slice(45))


def calibration(folder: Path) -> tuple[Any, Any]:
    """Return fields, and how far a model with thirteen parameters is from them."""
    import xarray as xr

    import agrad as ag

    data = days(folder)
    scale, offset = ag.ones((), requires_grad=True), ag.zeros(12, requires_grad=True)
    data.attrs["parameters"] = scale, offset  # whoever holds the data holds them
    by_month = xr.DataArray(offset, dims="month").isel(month=data.time.dt.month - 1)
    return data, scale * data.model + by_month - data.obs


def backward(loss: Any, held: Any) -> Made:
    """Explain the computation of a loss's backward pass; the parameters live as long as their owner."""

    def run() -> None:
        loss.data.backward()
        del held.attrs["parameters"]

    return (loss,), {"backward": True}, run


@program
def xarray_weighted_mean(folder: Path) -> Made:
    """With labels: weighted mean."""
    data, error = calibration(folder)
    return backward((error**2).weighted(np.cos(np.deg2rad(data.lat))).mean(), data)


@program
def xarray_mean(folder: Path) -> Made:
    """With labels: mean."""
    data, error = calibration(folder)
    return backward((error**2).mean(), data)


@program
def xarray_mean_without_skipping(folder: Path) -> Made:
    """With labels: mean without skipping."""
    data, error = calibration(folder)
    return backward((error**2).mean(skipna=False), data)


@program
def xarray_sum(folder: Path) -> Made:
    """With labels: sum."""
    data, error = calibration(folder)
    return backward((error**2).sum(), data)


@program
def xarray_std(folder: Path) -> Made:
    """With labels: std."""
    data, error = calibration(folder)
    return backward(error.std(), data)


@program
def xarray_climatology(folder: Path) -> Made:
    """With labels: climatology."""
    data, error = calibration(folder)
    return backward((error.groupby("time.month").mean() ** 2).sum(), data)


@program
def xarray_coarsened(folder: Path) -> Made:
    """With labels: coarsened."""
    data, error = calibration(folder)
    return backward((error.coarsen(lat=3, lon=3).mean() ** 2).sum(), data)


@program
def xarray_rolling(folder: Path) -> Made:
    """With labels: rolling."""
    data, error = calibration(folder)
    return backward((error.rolling(time=5).mean() ** 2).sum(), data)


@program
def xarray_shift_and_where(folder: Path) -> Made:
    """With labels: shift and where."""
    data, error = calibration(folder)
    return backward((error.where(data.model > 0) - error.shift(time=1)).fillna(0.0).sum(), data)


@program
def xarray_resampled(folder: Path) -> Made:
    """With labels: resampled."""
    data, error = calibration(folder)
    return backward((error.resample(time="120D").mean() ** 2).sum(), data)


@program
def xarray_gradient_to_a_store(folder: Path) -> Made:
    """With labels: gradient to a store."""
    import agrad as ag
    import agrad.xarray

    data = days(folder)
    guess = ag.asarray(data.model.fillna(0.0).data).requires_grad_(True)
    field = data.model.copy(data=guess)
    loss = ((field - data.obs) ** 2).sum().data
    loss.backward()
    labelled = data.model.copy(data=guess.grad).drop_encoding().to_dataset(name="gradient")
    out = folder / "out"
    return (labelled, loss), {"stored": True}, lambda: labelled.to_zarr(out, mode="w", consolidated=False)


@program
def hessian_times_vector(folder: Path) -> Made:
    """Hessian times vector."""
    import agrad as ag

    def loss(p: Any) -> Any:
        data = days(folder)
        e = p[0] * data.model + p[1] - data.obs
        return (np.sqrt(1 + e**2) - 1).sum().data

    args = loss, (ag.tensor([1.0, 0.0]),), (ag.tensor([0.3, -0.2]),)
    return (ag.func.hvp, *args), {}, lambda: ag.func.hvp(*args)


@program
def forward_and_reverse(folder: Path) -> Made:
    """Forward and reverse."""
    import agrad as ag

    def loss(p: Any) -> Any:
        return ag.mean((cube(folder) * p[0] - p[1]) ** 2)

    p = ag.tensor([1.0, 0.0])
    return (ag.func.grad(loss), p), {}, lambda: ag.func.grad(loss)(p)


# -- one program, in a process of its own ---------------------------------------------------------------------------------


def status(key: str) -> int:
    """Return Linux's entry for this process under a key, in bytes."""
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{key}:"))
    return int(found.split()[1]) * 1024


def settled() -> int:
    """Release free memory, reset the peak, and return the resident set."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def warm(folder: Path) -> None:
    """Compute something small of each kind."""
    import agrad as ag
    import agrad_dask

    x = cube(folder)[:16, :20, :20].requires_grad_(True)
    loss = ag.sum(agrad_dask.map_overlap(lambda b: b * np.roll(b, 1, 0), x, depth={0: 1}))
    loss.backward()
    ag.to_zarr(x.grad, folder / "warm", overwrite=True)
    data, error = calibration(folder)
    small = error.isel(time=slice(0, 2), lat=slice(0, 9), lon=slice(0, 9))
    (small**2).mean().data.backward()
    small.data.detach().numpy()
    del data


def run_one(folder: Path, which: str, threads: int) -> dict[str, Any]:
    """Explain a program, and run it."""
    import dask
    from zarr.storage import LocalStore

    import agrad as ag
    import agrad_dask  # noqa: F401 (before there are threads)

    dask.config.set(num_workers=threads)
    ag.set_default_dtype(ag.float32)
    reads: list[int] = []
    get = LocalStore.get

    async def counted(self: Any, key: str, *args: Any, **kwargs: Any) -> Any:
        if key.startswith(("c/", "model/c/", "obs/c/")):  # coordinates are read where a store is opened
            reads.append(1)
        return await get(self, key, *args, **kwargs)

    LocalStore.get = counted  # type: ignore[method-assign]
    warm(folder)
    explained, options, run = PROGRAMS[which](folder)
    stored = options.pop("stored", False)
    start = time.process_time()
    told = ag.explain(*explained, **options)
    explaining = time.process_time() - start
    reads.clear()
    before, start = settled(), time.process_time()
    run()
    return {
        "told": told.stored if stored else told.peak,
        "real": status("VmHWM") - before,
        "chunks": told.chunks,
        "reads": len(reads),
        "passes": told.passes,
        "explaining": explaining,
        "running": time.process_time() - start,
    }


def run_process(folder: Path, which: str, threads: int) -> dict[str, Any]:
    """Run a program in a separate process."""
    command = [sys.executable, __file__, "--data", str(folder), "--one", which, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(folder / "out", ignore_errors=True)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["?"])[-1][:150]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    """Run the programs and print the estimates for each, and the actual values."""
    parser = argparse.ArgumentParser(description="What ag.explain says beside what happens.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the stores; made if they are not there")
    parser.add_argument("--only", action="append", help="programs whose name has this in it")
    parser.add_argument("--threads", type=int, action="append", help="how many tasks at a time (default: 1 and 2)")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one:
        print(json.dumps(run_one(options.data, options.one[0], int(options.one[1]))))
        return 0
    if not (options.data / "complete").exists():
        options.data.mkdir(parents=True, exist_ok=True)
        build(options.data)
    fine, ratios = True, []
    print(f"{'program':30} threads  told MiB  real MiB  ratio   chunks told, read   passes   explain, run: CPU s")
    for which in PROGRAMS:
        if options.only and not any(text in which for text in options.only):
            continue
        for threads in options.threads or (1, 2):
            found = run_process(options.data, which, threads)
            if "error" in found:
                print(f"{which:30} {threads:7}  {found['error']}", flush=True)
                fine = False
                continue
            ratio = found["told"] / max(1, found["real"])
            ratios.append(ratio)
            good = ratio >= 1 and (ratio <= RATIO or found["real"] < LEAST) and found["chunks"] == found["reads"]
            fine &= good
            print(
                f"{which:30} {threads:7} {found['told'] / 2**20:9.0f} {found['real'] / 2**20:9.0f} {ratio:6.2f}"
                f" {found['chunks']:13} {found['reads']:5} {found['passes']:8} {found['explaining']:11.2f}"
                f" {found['running']:6.2f}{'' if good else '   OVER'}",
                flush=True,
            )
    if ratios:
        print(f"ratio: {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
