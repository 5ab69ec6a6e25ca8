"""Gradients over data larger than memory: time, peak memory and reads, compared with Dask by hand and a PyTorch loop.

Run from an environment with agrad, its NumPy and Dask backends and zarr (torch if you want it compared)::

    python benchmarks/out_of_core.py --store /big/disk/store    # 6.1 GB, made if it is not there; about ten minutes
    python benchmarks/out_of_core.py --small                    # 0.3 GB in a temporary folder
    python benchmarks/out_of_core.py --only mlp --rounds 1 --rows 1000000
    python benchmarks/out_of_core.py --only "small chunks" --only client --small

Method. The store holds 4 million rows of 384 float32 numbers in zarr chunks of 16,000 rows (24.6 MB), uncompressed, and
two kinds of labels. Every program computes a loss over all rows and its gradients, once, in a separate process that may
hold 1 GiB of data (``resource.setrlimit(RLIMIT_DATA)``: an allocation beyond it fails). With ``--small`` the limit is
192 MiB above the memory of the imports. Programs run in turn, round after round; medians over rounds are printed.

* CPU is user and system time of the process (``resource.getrusage``), from after the imports and opening the store to
  the result. It adds up threads: Dask uses a core each, at most four, the PyTorch loop one, BLAS one each.
* Peak is the largest resident set of the process, imports included.
* Reads is how often a chunk of the store was read, at most: the store counts.
* ``hand`` is Dask with the derivative written by hand; ``op-wise`` is agrad's recorded graph over Dask arrays with
  parameters in NumPy and one ``backward()``; ``lowered`` is ``agrad_dask.value_and_grad``, one task per chunk;
  ``torch`` is a loop over the same chunks that adds up gradients. The root mean square is needed before its gradient:
  ``hand`` computes twice, ``factored``, ``lowered`` and ``torch`` once, the mean square, with the root taken outside; ``plain`` is one
  computation as Dask users write it first: it keeps every chunk, and shows that the limit is one.

All values and gradients of a problem are compared; one that differs gets the mark WRONG. Goals: CPU at most 1.1 of the
hand-written Dask program and 1.0 of the PyTorch loop (lowered: 0.7, the network 0.8), peak at most 400 MB (the op-wise
network: 500), one read.

``grids`` are programs on gridded data with NaN, a network at grid points and second derivatives, compared with NumPy by
hand (``grids.py``); ``descents`` a step of descent on a field as large as its data (``descents.py``).

``small chunks`` is 1,000 chunks of 1000 x 50 float64 in memory, per step of an optimiser, lowered and by a loop over NumPy's
functions, in turns: CPU time of both on one thread, and wall time with Dask's threads. ``client`` is the cost of
planning and creating tasks in the process that calls ``agrad_dask.value_and_grad``, in CPU time per chunk, at the first
call for some data and at later ones. The chunks are 32 MB each, on paper: the scheduler runs as many tasks, in the same
order, that do nothing. The time of Dask's own threaded scheduler for those is also printed, and so is Dask's time to
optimise the graph, which is part of the first call. Each number of chunks runs in a separate process.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import descents
import grids
from on_paper import OnPaper

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402 (BLAS reads the variables when it is loaded)

FEATURES, HIDDEN, CLASSES = 384, 128, 10
FULL, SMALL = (4_000_000, 16_000), (200_000, 4_000)  # rows, rows per chunk
LIMIT, HEADROOM = 2**30, 192 * 2**20
THREADS = min(4, os.cpu_count() or 1)
CPU_HAND, CPU_TORCH, PEAK_MB, PEAK_NETWORK_MB, SMALL_CHUNKS = 1.1, 1.0, 400, 500, 1.3
LOWERED_TORCH = {"logistic": 0.7, "mlp": 0.8, "rms": 0.7}
CLIENT_US = 60, 15  # per chunk, at the first call and at later ones
COUNTS = 1_000, 10_000, 50_000, 100_000


# -- the store ----------------------------------------------------------------------------------------------------------


def build(path: Path, rows: int, chunk: int) -> None:
    """Write features X and labels: y, 0 or 1 by a linear rule with noise, and c, classes by a small network."""
    import zarr

    rng = np.random.default_rng(0)
    rule = rng.standard_normal(FEATURES, dtype=np.float32) / np.float32(FEATURES**0.5)
    inner = rng.standard_normal((FEATURES, 32), dtype=np.float32) / np.float32(FEATURES**0.5)
    outer = rng.standard_normal((32, CLASSES), dtype=np.float32)

    def create(name: str, *shape: int, dtype: str) -> Any:
        chunks = (chunk, *shape[1:])
        return zarr.create_array(path / name, shape=shape, chunks=chunks, dtype=dtype, compressors=None, overwrite=True)

    X, y = create("X", rows, FEATURES, dtype="float32"), create("y", rows, dtype="float32")
    c = create("c", rows, dtype="int64")
    for start in range(0, rows, chunk):
        stop = min(start + chunk, rows)
        x = rng.standard_normal((stop - start, FEATURES), dtype=np.float32)
        X[start:stop] = x
        y[start:stop] = x @ rule + rng.standard_normal(stop - start, dtype=np.float32) / 4 > 0
        c[start:stop] = np.argmax(np.maximum(x @ inner, 0) @ outer, axis=1)
    (path / "complete").write_text(f"{rows} {chunk}")


class Reads:
    """Arrays of the store, and how often each of their chunks was read."""

    def __init__(self, path: Path) -> None:
        import zarr
        from zarr.storage import LocalStore, WrapperStore

        found: Counter[str] = Counter()
        lock = threading.Lock()

        class Counting(WrapperStore):  # type: ignore[type-arg]
            async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
                if not key.endswith("zarr.json"):
                    with lock:
                        found[f"{self._store.root.name}/{key}"] += 1
                return await self._store.get(key, *args, **kwargs)

        def opened(name: str) -> Any:
            return zarr.open_array(Counting(LocalStore(path / name, read_only=True)), mode="r")

        self.found, self.X, self.y, self.c = found, opened("X"), opened("y"), opened("c")


# -- the problems -------------------------------------------------------------------------------------------------------


def parameters(problem: str) -> list[np.ndarray]:
    """Return the point at which the gradients are taken."""
    rng = np.random.default_rng(1)
    shapes: list[tuple[int, ...]] = [(FEATURES,)]
    if problem == "mlp":
        shapes = [(FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
    return [(rng.standard_normal(s) / s[0] ** 0.5).astype(np.float32) for s in shapes]


def losses() -> dict[str, Callable[..., Any]]:
    """The losses, written for agrad's tensors, in memory or not."""
    import agrad as ag

    F = ag.nn.functional

    def logistic(w: Any, X: Any, y: Any) -> Any:
        return F.binary_cross_entropy_with_logits(X @ w, y)

    def mlp(w1: Any, b1: Any, w2: Any, b2: Any, X: Any, c: Any) -> Any:
        return F.cross_entropy(F.relu(X @ w1 + b1) @ w2 + b2, c)

    def rms(w: Any, X: Any, y: Any) -> Any:
        return ag.sqrt(ag.mean((X @ w - y) ** 2))

    return {"logistic": logistic, "mlp": mlp, "rms": rms}


def opwise(problem: str, data: Reads) -> tuple[Any, list[Any]]:
    """The recorded graph over Dask arrays."""
    import agrad as ag
    import agrad_dask

    X, y = (agrad_dask.from_zarr(a, a.chunks) for a in (data.X, data.c if problem == "mlp" else data.y))
    leaves = [ag.asarray(p, requires_grad=True) for p in parameters(problem)]
    loss = losses()[problem](*leaves, X, y)
    loss.backward()
    return loss.item(), [p.grad.numpy() for p in leaves]


def lowered(problem: str, data: Reads) -> tuple[Any, list[Any]]:
    """One task per chunk; for the root mean square, with the root after the mean square."""
    import agrad as ag
    import agrad_dask

    X, y = (agrad_dask.from_zarr(a, a.chunks) for a in (data.X, data.c if problem == "mlp" else data.y))
    leaves = parameters(problem)
    loss, after = losses()[problem], None
    if problem == "rms":
        loss, after = (lambda w, X, y: ag.mean((X @ w - y) ** 2)), ag.sqrt
    step = agrad_dask.value_and_grad(loss, argnums=tuple(range(len(leaves))), after=after)
    value, gradients = step(*leaves, X, y)
    return value, list(gradients)


def hand(problem: str, data: Reads) -> tuple[Any, list[Any]]:
    """Dask, with the derivative by hand, in one computation; for the root mean square in two: the root first."""
    import dask
    import dask.array as da

    X, labels = da.from_zarr(data.X), da.from_zarr(data.c if problem == "mlp" else data.y)
    n = np.float32(len(X))
    w, *rest = parameters(problem)
    if problem == "logistic":
        z = X @ w
        e = da.exp(-da.abs(z))
        value = da.mean(da.maximum(z, 0) - labels * z + da.log1p(e))
        p = da.where(z >= 0, 1 / (1 + e), e / (1 + e))
        value, g = dask.compute(value, X.T @ ((p - labels) / n))
        return value, [g]
    if problem == "rms":
        r = X @ w - labels
        value = da.mean(r * r).compute() ** 0.5
        return value, [(X.T @ (r / (value * n))).compute()]
    b1, w2, b2 = rest
    h = da.maximum(X @ w + b1, 0)
    z = h @ w2 + b2
    z = z - da.max(z, axis=1, keepdims=True)
    e = da.exp(z)
    s = da.sum(e, axis=1, keepdims=True)
    chosen = labels[:, None] == np.arange(CLASSES)
    value = da.mean(da.log(s[:, 0]) - da.sum(da.where(chosen, z, 0), axis=1))
    dz = (e / s - chosen.astype(np.float32)) / n
    dh = (dz @ w2.T) * (h > 0)
    value, *found = dask.compute(value, X.T @ dh, dh.sum(axis=0), h.T @ dz, dz.sum(axis=0))
    return value, found


def factored(problem: str, data: Reads) -> tuple[Any, list[Any]]:
    """The root mean square in one computation: the mean square and its gradient, with the root taken outside."""
    import dask
    import dask.array as da

    X, y = da.from_zarr(data.X), da.from_zarr(data.y)
    r = X @ parameters(problem)[0] - y
    value, g = dask.compute(da.mean(r * r), X.T @ (r / np.float32(len(X))))
    return value**0.5, [g / value**0.5]


def plain(problem: str, data: Reads) -> tuple[Any, list[Any]]:
    """The root mean square as one computation: the gradient needs every chunk again once the root is known."""
    import dask
    import dask.array as da

    X, y = da.from_zarr(data.X), da.from_zarr(data.y)
    r = X @ parameters(problem)[0] - y
    value = da.sqrt(da.mean(r * r))
    value, g = dask.compute(value, X.T @ (r / (value * np.float32(len(X)))))
    return value, [g]


def torch(problem: str, data: Reads) -> tuple[Any, list[Any]]:
    """A loop over the chunks; for the root mean square, over the mean square."""
    import torch as lib

    lib.set_num_threads(1)
    F = lib.nn.functional
    leaves = [lib.tensor(p, requires_grad=True) for p in parameters(problem)]
    labels = data.c if problem == "mlp" else data.y
    rows, size = data.X.shape[0], data.X.chunks[0]
    total = 0.0
    for start in range(0, rows, size):
        X, y = lib.from_numpy(data.X[start : start + size]), lib.from_numpy(labels[start : start + size])
        share = len(X) / rows
        if problem == "logistic":
            loss = F.binary_cross_entropy_with_logits(X @ leaves[0], y)
        elif problem == "rms":
            loss = ((X @ leaves[0] - y) ** 2).mean()
        else:
            w1, b1, w2, b2 = leaves
            loss = F.cross_entropy(F.relu(X @ w1 + b1) @ w2 + b2, y)
        (loss * share).backward()
        total += loss.item() * share
    found = [p.grad.numpy() for p in leaves]
    return (total**0.5, [g / (2 * total**0.5) for g in found]) if problem == "rms" else (total, found)


PROGRAMS: dict[str, Callable[[str, Reads], tuple[Any, list[Any]]]] = {
    f.__name__: f for f in (hand, factored, opwise, lowered, torch, plain)
}
ROWS = [
    *(("logistic", how) for how in ("hand", "opwise", "lowered", "torch")),
    *(("mlp", how) for how in ("hand", "opwise", "lowered", "torch")),
    *(("rms", how) for how in ("hand", "factored", "opwise", "lowered", "torch", "plain")),
]


# -- one program, in a process of its own -------------------------------------------------------------------------------


def status(key: str) -> int:
    """Return Linux's entry for this process under a key, in bytes: VmData is limited by RLIMIT_DATA, VmHWM is the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


def cpu() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_one(path: Path, problem: str, how: str, *, small: bool) -> dict[str, Any]:
    """Run a program under the limit."""
    if how == "torch":
        import torch as lib

        lib.zeros(1)
    elif how in ("opwise", "lowered"):
        import agrad as ag
        import agrad_dask

        float(ag.asarray([1.0]).sum())
        _ = agrad_dask.value_and_grad, agrad_dask.from_zarr, ag.nn.functional.relu
    if how != "torch":
        import dask.array

        with contextlib.suppress(ImportError):
            import distributed  # noqa: F401 (where it is installed, Dask imports it to look for a cluster)
        dask.config.set(num_workers=THREADS)
    import zarr

    zarr.config.set({"threading.max_workers": THREADS})  # every thread's stack counts
    data = Reads(path)
    limit = status("VmData") + HEADROOM if small else LIMIT
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    start, clock = cpu(), time.perf_counter()
    value, gradients = PROGRAMS[how](problem, data)
    return {
        "cpu": cpu() - start,
        "wall": time.perf_counter() - clock,
        "peak": status("VmHWM") / 1e6,
        "reads": max(count for key, count in data.found.items() if key.startswith("X/c/")),
        "chunks": sum(key.startswith("X/c/") for key in data.found),
        "value": float(value),
        "gradients": [float(np.abs(np.asarray(g, np.float64)).sum()) for g in gradients],
    }


def run_process(path: Path, problem: str, how: str, *, small: bool) -> dict[str, Any]:
    """Run a program in a separate process; its last output is its result, or its error."""
    command = [sys.executable, __file__, "--one", problem, how, "--store", str(path), *["--small"] * small]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        words = " ".join(last.split())[:60]
        return {"error": "out of memory" if "MemoryError" in done.stderr or "allocat" in done.stderr else words}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


# -- many small chunks --------------------------------------------------------------------------------------------------


def small_chunks(rounds: int) -> dict[str, float]:
    """Seconds per step of logistic regression on 1,000 chunks of 1000 x 50, each way in turn."""
    import dask
    import dask.array as da

    import agrad_dask

    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 50))
    y = (X @ rng.standard_normal(50) > 0).astype(float)
    w = rng.standard_normal(50) / 10
    chunked = da.from_array(X, chunks=(1000, 50)), da.from_array(y, chunks=1000)
    step = agrad_dask.value_and_grad(losses()["logistic"])

    def loop() -> tuple[Any, Any]:
        value, g = 0.0, np.zeros(50)
        for i in range(0, len(X), 1000):
            x, t = X[i : i + 1000], y[i : i + 1000]
            z = x @ w
            e = np.exp(-np.abs(z))
            value += np.mean(np.maximum(z, 0) - t * z + np.log1p(e))
            g += x.T @ ((np.where(z >= 0, 1, e) / (1 + e) - t) / 1000)
        return value / 1000, g / 1000

    def one_task_per_chunk(scheduler: str) -> tuple[Any, Any]:
        with dask.config.set(scheduler=scheduler):
            return step(w, *chunked)  # type: ignore[no-any-return]

    ways: dict[str, tuple[Callable[[], Any], Callable[[], float]]] = {
        "loop": (loop, time.process_time),
        "lowered": (lambda: one_task_per_chunk("synchronous"), time.process_time),
        "loop, wall": (loop, time.perf_counter),
        "lowered, wall": (lambda: one_task_per_chunk("threads"), time.perf_counter),
    }
    expected, gradient = loop()
    value, found = one_task_per_chunk("threads")
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    np.testing.assert_allclose(found, gradient, rtol=1e-9)
    for _ in range(4):  # the second and fourth call are compared with the loss itself
        one_task_per_chunk("synchronous")
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way, (call, clock) in sorted(ways.items(), reverse=bool(number % 2)):
            start = clock()
            call()
            times[way].append(clock() - start)
    ratios = {
        name: statistics.median(a / b for a, b in zip(times[f"lowered{end}"], times[f"loop{end}"], strict=True))
        for name, end in (("ratio", ""), ("ratio, wall", ", wall"))
    }
    return {way: statistics.median(t) for way, t in times.items()} | ratios


# -- what planning costs ------------------------------------------------------------------------------------------------


def client(count: int) -> dict[str, float]:
    """Return CPU microseconds per chunk of the first call and later ones, of Dask's own work besides, and megabytes held."""
    import dask
    import dask.array as da

    import agrad as ag
    import agrad_dask
    from agrad_dask.lowering import Contribution

    rows = 1_000_000
    paper = OnPaper(lambda _: (Contribution(1, [np.float32(0), np.zeros(8, np.float32)], [], []),))

    def data(chunks: int) -> tuple[Any, Any]:
        return tuple(da.zeros((rows * chunks, *more), chunks=(rows, *more), dtype="float32") for more in ((8,), ()))  # type: ignore[return-value]

    def seconds(call: Callable[[], Any]) -> float:
        paper.clear()
        start = time.process_time()
        call()
        return time.process_time() - paper.away - start

    step = agrad_dask.value_and_grad(lambda w, X, y: ag.mean((X @ w - y) ** 2), check=False)
    w = np.zeros(8, np.float32)
    for _ in range(4):
        step(w, *data(2))  # the loss is captured, and compared, before the clock starts
    arrays = data(count)

    def optimise() -> None:
        dask.optimize(*arrays)

    optimised = seconds(optimise)
    before = status("VmRSS")
    with dask.config.set(scheduler=paper):
        first = seconds(lambda: step(w, *arrays))
        later = statistics.median(seconds(lambda: step(w, *arrays)) for _ in range(3))
    micro = 1e6 / count
    return {
        "first": first * micro,
        "dask": optimised * micro,
        "later": later * micro,
        "scheduler": paper.scheduler * micro,
        "tasks": paper.tasks,
        "MB": (status("VmRSS") - before) / 1e6,
    }


def report_client(counts: tuple[int, ...]) -> None:
    """Print the cost of planning, one line per number of chunks."""
    first, later = CLIENT_US
    print(f"\nclient, CPU us per chunk on paper (goals: first {first}, later {later})")
    print(f"{'chunks':>10}{'first':>8}{'(Dask)':>8}{'later':>8}{'scheduler':>11}{'tasks':>9}{'MB':>7}   mark")
    for count in counts:
        command = [sys.executable, __file__, "--one", "client", str(count)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        over = [name for name, goal in zip(("first", "later"), CLIENT_US, strict=True) if found[name] > goal]
        numbers = f"{found['first']:8.0f}{found['dask']:8.0f}{found['later']:8.1f}{found['scheduler']:11.0f}"
        mark = f"OVER: {', '.join(over)}" if over else "pass"
        print(f"{count:10}{numbers}{found['tasks']:9.0f}{found['MB']:7.0f}   {mark}", flush=True)


# -- the report ---------------------------------------------------------------------------------------------------------


def median_of(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians over rounds; for peak and reads, the largest."""
    if any("error" in r for r in results):
        return next(r for r in results if "error" in r)
    found = dict(results[0])
    for key in ("cpu", "wall"):
        found[key] = statistics.median(r[key] for r in results)
    for key in ("peak", "reads"):
        found[key] = max(r[key] for r in results)
    return found


def judged(problem: str, how: str, found: dict[str, Any], others: dict[str, dict[str, Any]]) -> tuple[list[str], str]:
    """Return the ratios and the mark."""
    ratios = [found["cpu"] / others[o]["cpu"] if "cpu" in others.get(o, {}) else None for o in ("hand", "torch")]
    texts = ["-" if r is None else f"{r:.2f}" for r in ratios]
    reference = next(r for r in others.values() if "value" in r)
    same = np.allclose([found["value"], *found["gradients"]], [reference["value"], *reference["gradients"]], rtol=1e-3)
    if not same:
        return texts, "WRONG"
    if how not in ("opwise", "lowered"):
        return texts, "-"
    over = []
    by_torch = LOWERED_TORCH[problem] if how == "lowered" else CPU_TORCH
    for ratio, goal, name in zip(ratios, (CPU_HAND, by_torch), ("hand", "torch"), strict=True):
        if ratio is not None and ratio > goal:
            over.append(name)
    if found["peak"] > (PEAK_NETWORK_MB if (problem, how) == ("mlp", "opwise") else PEAK_MB):
        over.append("peak")
    if found["reads"] > 1:
        over.append("reads")
    return texts, f"OVER: {', '.join(over)}" if over else "pass"


def report(results: dict[tuple[str, str], list[dict[str, Any]]]) -> bool:
    """Print the table; return whether everything that should work did."""
    header = f"{'':24}{'CPU s':>8}{'wall s':>8}{'peak MB':>9}{'reads':>7}{'/hand':>8}{'/torch':>8}   mark"
    print(header)
    fine = True
    medians = {row: median_of(found) for row, found in results.items()}
    for (problem, how), found in medians.items():
        title = f"{problem}, {'op-wise' if how == 'opwise' else how}"
        if "error" in found:
            fine = fine and how == "plain"
            print(f"{title:24}{found['error']}")
            continue
        others = {h: r for (p, h), r in medians.items() if p == problem and "value" in r}
        (by_hand, by_torch), mark = judged(problem, how, found, others)
        fine = fine and mark != "WRONG"
        numbers = f"{found['cpu']:8.2f}{found['wall']:8.2f}{found['peak']:9.0f}{found['reads']:7}"
        print(f"{title:24}{numbers}{by_hand:>8}{by_torch:>8}   {mark}")
    return fine


def versions() -> str:
    """Name the measured configuration."""
    names = ("agrad", "dask", "zarr", "numpy", "torch")
    found = []
    for library in names:
        try:
            found.append(f"{library} {importlib.metadata.version(library)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{library} -")
    return f"{dt.datetime.now(dt.UTC).date()}, Python {platform.python_version()}, {', '.join(found)}"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, help="folder of the zarr store; made if it is not there")
    parser.add_argument("--small", action="store_true", help="0.3 GB, in a temporary folder unless --store is given")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="rows whose name contains it, as 'mlp, lowered'"
    )
    parser.add_argument("--rows", type=int, default=FULL[0], help=f"of the store (default: {FULL[0]:,})")
    parser.add_argument("--count", type=int, action="append", help=f"of chunks for the client (default: {COUNTS})")
    parser.add_argument("--rounds", type=int, default=3, help="how often each program runs (default: 3)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON instead of the table")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one and options.one[0] == "client":
        print(json.dumps(client(int(options.one[1]))))
        return 0
    if options.one:
        print(json.dumps(run_one(options.store, *options.one, small=options.small)))
        return 0
    if options.store is None and not (options.small or options.rows < FULL[0]):
        parser.error("--store says where the 6.1 GB go; or --small, or fewer --rows")
    with tempfile.TemporaryDirectory() as folder:
        path = options.store or Path(folder)
        size = SMALL if options.small else (options.rows, FULL[1])
        marker = path / "complete"
        chosen = [r for r in ROWS if not options.only or any(t in ", ".join(r) for t in options.only)]
        if chosen and (not marker.exists() or marker.read_text() != f"{size[0]} {size[1]}"):
            print(f"writing the store to {path}", file=sys.stderr)
            build(path, *size)
        results: dict[tuple[str, str], list[dict[str, Any]]] = {row: [] for row in chosen}
        for number in range(options.rounds):
            for row in chosen if number % 2 == 0 else reversed(chosen):
                print(f"round {number + 1}: {', '.join(row)}", file=sys.stderr)
                results[row].append(run_process(path, *row, small=options.small))
    if options.json:
        print(json.dumps([{"row": ", ".join(row), **r} for row, found in results.items() for r in found]))
        return 0
    print(f"{versions()}; {os.cpu_count()} cores; {size[0]} x {FEATURES} float32, chunks of {size[1]} rows\n")
    fine = report(results) if chosen else True
    if not options.only or any("small" in text for text in options.only):
        found = small_chunks(max(5, options.rounds))
        mark = "pass" if found["ratio"] <= SMALL_CHUNKS else "OVER"
        print("\nsmall chunks, 1,000 of 1000 x 50 in memory, ms per step")
        for name, end in (("CPU, one thread", ""), ("wall, Dask's threads", ", wall")):
            numbers = f"loop {found[f'loop{end}'] * 1e3:.0f}, lowered {found[f'lowered{end}'] * 1e3:.0f}"
            goal = "" if end else f", goal {SMALL_CHUNKS}   {mark}"
            print(f"{name:24}{numbers}, ratio {found[f'ratio{end}']:.2f}{goal}")
    if not options.only or any("grids" in text for text in options.only):
        fine = grids.report() and fine
    if not options.only or any("descents" in text for text in options.only):
        fine = descents.report(small=options.small) and fine
    if not options.only or any("client" in text for text in options.only):
        report_client(tuple(options.count or COUNTS))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
