"""Remove noise from a field that is larger than the memory allowed: gradient descent from store to store.

    python examples/field_descent.py                  # a cube of 950 MiB, 700 MiB for the process; some minutes
    python examples/field_descent.py --small          # 15 MiB; seconds
    python examples/field_descent.py --steps 20 --folder /big/disk

The parameter is the field itself: a zarr store with three axes, whose total variation is reduced while it stays near
the noisy one. A step only needs a chunk with its neighbours' borders, so loss and gradient are a stencil,
`agrad_dask.map_overlap`. A step is plain gradient descent, as in `agrad.optim.SGD`, which would hold the field: here
`agrad.to_zarr` writes each chunk of the next field as soon as it is known, and computes the loss in the same pass.
`agrad.explain` says beforehand how much that will hold. Needs zarr, agrad and its Dask backend.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import agrad as ag

try:
    import dask
    import numpy as np
    import zarr

    import agrad_dask
except ImportError as error:
    sys.exit(f"this example needs more than agrad: pip install -e plugins/dask_backend zarr ({error})")

FULL, SMALL = ((480, 720, 720), 8), ((60, 256, 256), 4)  # shape, planes per chunk
WEIGHT, SMOOTHING, RATE = 0.15, 1e-3, 0.2


def clean(start, stop, shape):
    """Return some planes of the field without noise: steps that move along the first axis."""
    t, y, x = np.ogrid[start:stop, : shape[1], : shape[2]]
    return (((x + 3 * t) // (shape[2] // 6) + y // (shape[1] // 8)) % 4).astype("f4")


def make_store(path, shape, planes):
    made = zarr.create_array(path, shape=shape, chunks=(planes, *shape[1:]), dtype="f4", compressors=None)
    for start in range(0, shape[0], planes):
        stop = min(start + planes, shape[0])
        noise = np.random.default_rng(start).normal(scale=0.3, size=(stop - start, *shape[1:]))
        made[start:stop] = clean(start, stop, shape) + noise


def energy(x, y):
    """Distance from the data and total variation, at every point of a block with its border."""
    t, u, v = (np.roll(x, -1, axis) - x for axis in range(3))
    return 0.5 * (x - y) ** 2 + WEIGHT * np.sqrt(t * t + u * u + v * v + SMOOTHING)


def step(noisy, now, after, memory):
    """Write the next field; return the loss of this one, and the memory estimate."""
    chunks = zarr.open_array(noisy, mode="r").chunks
    x = agrad_dask.from_zarr(now, chunks).requires_grad_()
    y = agrad_dask.from_zarr(noisy, chunks)
    loss = ag.sum(agrad_dask.map_overlap(energy, x, y, depth=1, boundary="nearest"))
    loss.backward()
    with ag.no_grad():
        new = x - RATE * x.grad
    told = ag.explain(loss, new).stored
    ag.to_zarr(new, after, together=loss, max_memory=memory, compressors=None)
    return loss.item(), told


def error_of(path, shape, planes):
    """Return the root mean square of the remaining noise, plane after plane."""
    field, total = zarr.open_array(path, mode="r"), 0.0
    for start in range(0, shape[0], planes):
        stop = min(start + planes, shape[0])
        total += float(np.sum((field[start:stop] - clean(start, stop, shape)) ** 2, dtype="f8"))
    return (total / np.prod(shape)) ** 0.5


def peak():
    """The largest resident set of this process so far, in MiB; nan if the system does not report it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:")) / 2**10


def run(options, folder):
    shape, planes = SMALL if options.small else FULL
    noisy = folder / "noisy.zarr"
    if not noisy.exists():
        make_store(noisy, shape, planes)
    size = 4 * np.prod(shape) / 2**20
    at_first = error_of(noisy, shape, planes)
    ag.to_zarr(ag.sum(agrad_dask.map_overlap(energy, *2 * [ag.ones((4, 4, 4), device="dask")], depth=1)), {})  # imports
    before = peak()
    now = noisy
    with dask.config.set(num_workers=options.threads):
        for number in range(options.steps):
            after = folder / f"field{number % 2}.zarr"
            shutil.rmtree(after, ignore_errors=True)
            start = time.perf_counter()
            loss, told = step(noisy, now, after, f"{options.memory}MiB")
            took = time.perf_counter() - start
            print(f"step {number + 1}: loss {loss:.6g}, {took:.1f} s, held at most {told / 2**20:.0f} MiB as told")
            now = after
    left = error_of(now, shape, planes)
    print(f"The noise went from {at_first:.3f} to {left:.3f} (root mean square).")
    print(
        f"Store: {size:.0f} MiB. Peak of the process: {peak():.0f} MiB, of which {before:.0f} MiB before the first step."
    )
    return 0 if left < at_first else 1


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Gradient descent over a field larger than the memory allowed.")
    parser.add_argument("--small", action="store_true", help="a field of 15 MiB: seconds")
    parser.add_argument("--folder", type=Path, help="where the stores are; made if they are not there, and kept")
    parser.add_argument("--steps", type=int, default=5, help="how many (default: 5)")
    parser.add_argument("--memory", type=int, default=550, help="MiB for the arrays of a step (default: 550)")
    parser.add_argument("--threads", type=int, default=1, help="how many chunks at a time (default: 1)")
    options = parser.parse_args(arguments)
    if min(options.steps, options.memory, options.threads) < 1:
        parser.error("--steps, --memory and --threads must be at least 1")
    with tempfile.TemporaryDirectory() as folder:
        return run(options, options.folder or Path(folder))


if __name__ == "__main__":
    sys.exit(main())
