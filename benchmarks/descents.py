"""A step of descent on a field as large as its data, compared with NumPy by hand: the part "descents" of ``out_of_core.py``, which calls this.

The store has 480 frames of 720 x 720 float32 (950 MB; 96 frames with ``--small``) in chunks of 8 frames. A step follows
the gradient of the distance to the data and the total variation, and is written to a store. One thread; each program
runs in a separate process. The table shows CPU seconds, the largest resident set, imports included, and how often a
chunk was read. ``to_zarr`` is `agrad.to_zarr` with the loss; in ``da.to_zarr`` Dask writes, and the loss is a second
computation; in ``together`` Dask computes both; ``overlap`` is `agrad_dask.map_overlap` in place of slices; ``sgd`` is
two steps of an optimiser, whose result Dask holds in memory. Goals: ``to_zarr`` takes at most 1.15 of the memory by
hand and 1.4 of its time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

SHAPE, CHUNK = (480, 720, 720), 8
MEMORY, TIME = 1.15, 1.4
LAM, EPS, RATE = 0.15, 1e-3, 0.2
PROGRAMS = ("by hand", "to_zarr", "da.to_zarr", "together", "overlap", "sgd")


def build(path: Path, frames: int) -> None:
    """Write the store."""
    import zarr

    array = zarr.create_array(
        path, shape=(frames, *SHAPE[1:]), chunks=(CHUNK, *SHAPE[1:]), dtype="f4", compressors=None
    )
    rng = np.random.default_rng(0)
    for start in range(0, frames, CHUNK):
        array[start : start + CHUNK] = rng.standard_normal((CHUNK, *SHAPE[1:]), dtype="f4")


def loss_of(x: Any, y: Any) -> Any:
    """The distance to the data, and the total variation."""
    import agrad as ag

    at = x[:-1, :-1, :-1]
    dt, dy, dx = x[1:, :-1, :-1] - at, x[:-1, 1:, :-1] - at, x[:-1, :-1, 1:] - at
    return 0.5 * ag.sum((x - y) ** 2) + LAM * ag.sum(ag.sqrt(dt * dt + dy * dy + dx * dx + EPS))


def density(x: Any, y: Any) -> Any:
    """The same per cell, for a block with its border."""
    import agrad as ag

    dt, dy, dx = (np.roll(x, -1, axis) - x for axis in range(3))
    return 0.5 * (x - y) ** 2 + LAM * ag.sqrt(dt * dt + dy * dy + dx * dx + EPS)


def by_hand(source: Path, out: Path) -> float:
    """Take the step slab by slab, each with a frame of its neighbours."""
    import zarr

    z = zarr.open_array(source)
    to = zarr.create_array(out, shape=z.shape, chunks=z.chunks, dtype="f4", compressors=None)
    n, total = z.shape[0], 0.0
    for start in range(0, n, CHUNK):
        low, high = max(start - 1, 0), min(start + CHUNK + 1, n)
        a = z[low:high]
        g = np.zeros_like(a)
        at = a[:-1, :-1, :-1]
        dt, dy, dx = a[1:, :-1, :-1] - at, a[:-1, 1:, :-1] - at, a[:-1, :-1, 1:] - at
        s = np.sqrt(dt * dt + dy * dy + dx * dx + np.float32(EPS))
        total += LAM * float(s[start - low : start - low + CHUNK].sum(dtype="f8"))
        dt /= s
        dy /= s
        dx /= s
        g[1:, :-1, :-1] += dt
        g[:-1, 1:, :-1] += dy
        g[:-1, :-1, 1:] += dx
        g[:-1, :-1, :-1] -= dt + dy + dx
        own = slice(start - low, start - low + CHUNK)
        to[start : start + CHUNK] = a[own] - np.float32(RATE * LAM) * g[own]
    return total


def step(name: str, source: Path, out: Path) -> float:
    """Take the step with agrad; return the loss."""
    import dask.array as da

    import agrad as ag
    import agrad_dask

    y, x = agrad_dask.from_zarr(source), agrad_dask.from_zarr(source).requires_grad_(True)
    if name == "sgd":
        optimizer = ag.optim.SGD([x], lr=RATE)
        for _ in range(2):
            optimizer.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            optimizer.step()
        return float(loss.item())
    loss = (
        ag.sum(agrad_dask.map_overlap(density, x, y, depth=1, boundary="nearest"))
        if name == "overlap"
        else loss_of(x, y)
    )
    loss.backward()
    with ag.no_grad():
        new = x - RATE * x.grad
    if name in ("to_zarr", "overlap"):
        ag.to_zarr(new, out, together=(loss,), compressors=None)
    elif name == "together":
        import dask

        dask.compute(da.to_zarr(new.to_dask_array(), out, compute=False), loss.detach().to_dask_array())
    else:
        da.to_zarr(new.to_dask_array(), out)
    return float(loss.item())


def run_one(name: str, source: Path, out: Path) -> dict[str, Any]:
    """Run a program; return its measurements."""
    import dask
    from zarr.storage import LocalStore

    dask.config.set(num_workers=1)
    reads, get = Counter[str](), LocalStore.get

    async def counted(self: Any, key: str, *args: Any, **kwargs: Any) -> Any:
        reads[key] += "c/" in key and self.root == source
        return await get(self, key, *args, **kwargs)

    LocalStore.get = counted  # type: ignore[method-assign]
    start = time.process_time()
    value = by_hand(source, out) if name == "by hand" else step(name, source, out)
    taken = time.process_time() - start
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    total = 0.0
    if out.exists():
        import zarr

        made = zarr.open_array(out, mode="r")
        total = sum(float(np.abs(made[i : i + CHUNK]).sum(dtype="f8")) for i in range(0, made.shape[0], 6 * CHUNK))
    return {
        "cpu": taken,
        "peak": int(found.split()[1]) / 1024,
        "reads": max(count for key, count in reads.items() if "c/" in key),
        "loss": value,
        "total": total,
    }


def report(*, small: bool) -> bool:
    """Print the table; return whether the compared results are the same."""
    found: dict[str, dict[str, Any]] = {}
    frames = SHAPE[0] // 5 if small else SHAPE[0]
    print(f"\ndescents, {frames} frames of 720 x 720 float32 in chunks of {CHUNK}, one thread")
    print(f"{'':14}{'CPU s':>8}{'/ hand':>8}{'peak MiB':>10}{'/ hand':>8}{'reads':>7}   mark")
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder) / "noisy", frames)
        for name in PROGRAMS:
            out = Path(folder) / name.replace(" ", "-")
            command = [sys.executable, __file__, name, f"{folder}/noisy", str(out)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            each = found[name] = json.loads(done.stdout.splitlines()[-1])
            hand = found["by hand"]
            memory, cpu = each["peak"] / hand["peak"], each["cpu"] / hand["cpu"]
            mark = "-"
            if name == "to_zarr":
                mark = "pass" if memory <= MEMORY and cpu <= TIME else "OVER"
            if name in ("to_zarr", "da.to_zarr", "together") and not np.isclose(
                each["total"], hand["total"], rtol=1e-6
            ):
                fine, mark = False, "WRONG"
            print(
                f"{name:14}{each['cpu']:8.1f}{cpu:8.2f}{each['peak']:10.0f}{memory:8.2f}{each['reads']:7}   {mark}",
                flush=True,
            )
    return fine


if __name__ == "__main__":
    print(json.dumps(run_one(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
