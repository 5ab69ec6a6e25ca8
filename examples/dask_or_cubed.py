"""Calibrate a model on a store larger than the allowed memory, on Dask or on cubed, depending on one argument.

    python examples/dask_or_cubed.py dask /tmp/grids --days 20000    # writes 1.1 GB there, then calibrates
    python examples/dask_or_cubed.py cubed /tmp/grids                # the same on what is there

Both compute the loss and its gradients in one pass over the chunks at every step, and refuse to start a computation
that would hold more than ``--memory``: for Dask agrad bounds the graph, for cubed cubed itself bounds each task. cubed
uses its plugin: ``pip install -e examples/lazy_backend``.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tasks run side by side

import numpy as np
import zarr

import agrad as ag

DAYS, LAT, LON = 60, 60, 120  # of one chunk
OFFSET, SLOPE = 0.3, 1.1


def make_store(path: Path, days: int) -> None:
    """Write a model, and observations that are a linear function of it, with noise and some outliers."""
    create = {"shape": (days, LAT, LON), "chunks": (DAYS, LAT, LON), "dtype": "float32", "compressors": None}
    model, observed = (zarr.create_array(path / name, **create) for name in ("model", "observed"))
    for start in range(0, days, DAYS):
        rng = np.random.default_rng(start)
        x = rng.standard_normal((min(DAYS, days - start), LAT, LON), dtype=np.float32)
        wild = 5 * (rng.random(x.shape, dtype=np.float32) < 0.01)
        model[start : start + DAYS] = x
        observed[start : start + DAYS] = (
            OFFSET + SLOPE * x + 0.1 * rng.standard_normal(x.shape, dtype=np.float32) + wild
        )


def opened(library: str, path: Path, memory: str, work: str) -> list[ag.Tensor]:
    """Open the store by a library, which must hold no more than a limit."""
    names = "model", "observed"
    if library == "dask":
        import dask

        import agrad_dask

        dask.config.set({"agrad.max_memory": memory})
        return [agrad_dask.from_zarr(str(path / name), chunks=(DAYS, LAT, LON)) for name in names]
    import cubed

    if "cubed" not in {known.name for known in ag.backends()}:
        sys.exit("agrad knows no backend for cubed: pip install -e examples/lazy_backend")
    spec = cubed.Spec(work_dir=work, allowed_mem=memory, reserved_mem="150MB", zarr_compressor=None)
    return [ag.asarray(cubed.from_zarr(str(path / name), spec=spec)) for name in names]


def calibrate(model: ag.Tensor, observed: ag.Tensor, steps: int) -> None:
    """Find the line by gradient descent on a robust loss; all this is the same on both libraries."""
    line = [ag.full((1, 1, 1), x, dtype="float32", device=model.device, requires_grad=True) for x in (0.0, 1.0)]
    optimizer = ag.optim.SGD(line, lr=0.1)
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        error = line[0] + line[1] * model - observed
        loss = ag.mean(ag.sqrt(1 + 10 * error * error))
        loss.backward()  # computes nothing
        optimizer.step()  # one pass: loss, gradients, parameters
        print(f"step {step + 1}: loss {loss.item():.5f}, {time.perf_counter() - start:.1f} s", flush=True)
    offset, slope = (float(each.detach().numpy()[0, 0, 0]) for each in line)
    print(f"offset {offset:.3f} (the true one: {OFFSET}), slope {slope:.3f} ({SLOPE})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibrate a model on Dask or on cubed.")
    parser.add_argument("library", choices=["dask", "cubed"])
    parser.add_argument("path", type=Path, nargs="?", help="folder of the store; made if it is not there")
    parser.add_argument("--days", type=int, default=600, help="of a store that is made (default: 600, 33 MB)")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--memory", default="400MB", help="what may be held (default: 400MB)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        path = options.path or Path(work) / "store"
        if not (path / "model").exists():
            make_store(path, options.days)
        calibrate(*opened(options.library, path, options.memory, work), options.steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    print(f"Most memory held by this process: {peak:.0f} MiB.")


if __name__ == "__main__":
    main()
