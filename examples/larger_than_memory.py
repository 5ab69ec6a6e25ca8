"""Train on a zarr store that is several times larger than the memory allowed.

    python examples/larger_than_memory.py                   # makes a store of 1 GiB, allows 256 MiB; minutes
    python examples/larger_than_memory.py --small           # 320 MiB and 96 MiB; seconds
    python examples/larger_than_memory.py --cluster 2       # on two worker processes, each with that memory
    python examples/larger_than_memory.py --store /big/disk/store --rows 40_000_000 --memory 512

If the system supports it (Linux), the program limits its own data: beyond the memory of the libraries, an allocation
fails. The rows have 256 normally distributed features and two labels with a known answer. The first is drawn with
probability sigmoid(x . w) for a w that logistic regression, by L-BFGS, should recover. The second says in which of
three rings around the origin the first two features lie: no linear rule can predict it, a small network can; it is
trained by minibatches first and then by L-BFGS. Nine tenths of the rows are for training, the rest for testing. Needs
zarr, SciPy, rich, agrad and its Dask backend.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# Dask processes chunks in parallel: threads inside every product would only get in each other's way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import agrad as ag

try:
    import resource
except ImportError:  # on Windows
    resource = None
try:
    import dask
    import dask.array as da
    import numpy as np
    import zarr
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
    from scipy.optimize import minimize

    import agrad_dask
except ImportError as error:
    sys.exit(f"this example needs more than agrad: pip install -e plugins/dask_backend zarr scipy rich ({error})")

F = ag.nn.functional

FEATURES, HIDDEN, RINGS = 256, 32, 3
#: Rows, rows per chunk, MiB to hold.
FULL, SMALL = (2**20, 2**13, 256), (5 * 2**16, 2**11, 96)


# -- data ---------------------------------------------------------------------------------------------------------------


def true_weights():
    return np.random.default_rng(0).normal(size=FEATURES).astype(np.float32) / 4


def make_store(path, rows, chunk, console):
    """Write features X, the labels y of the linear rule and the labels ring."""
    rng, w = np.random.default_rng(1), true_weights()
    borders = -2 * np.log(1 - np.arange(1, RINGS) / RINGS)  # the squared radius is exponential: equally many in each

    def create(name, *shape, dtype):
        chunks = (chunk, *shape[1:])
        return zarr.create_array(path / name, shape=shape, chunks=chunks, dtype=dtype, compressors=None, overwrite=True)

    X = create("X", rows, FEATURES, dtype="float32")
    y, ring = create("y", rows, dtype="float32"), create("ring", rows, dtype="int64")
    with progress(console) as bar:
        for start in bar.track(range(0, rows, chunk), description="writing the store"):
            x = rng.standard_normal((min(chunk, rows - start), FEATURES), dtype=np.float32)
            part = slice(start, start + len(x))
            X[part] = x
            y[part] = rng.uniform(size=len(x)) < 1 / (1 + np.exp(-(x @ w)))
            ring[part] = np.searchsorted(borders, x[:, 0] ** 2 + x[:, 1] ** 2)


# -- memory -------------------------------------------------------------------------------------------------------------

STATUS = Path("/proc/self/status")


def restrict_memory(mebibytes, scheduler="threads"):
    """Make allocations fail that exceed the libraries' memory by this much; return whether the system supports it."""
    if not STATUS.exists():
        return False
    minimize(lambda v: (v @ v, 2 * v), np.ones(8), jac=True, method="L-BFGS-B")  # BLAS allocates when it is first used
    large = da.ones((2**15, FEATURES), chunks=(2**11, -1))
    da.matmul(large, np.ones((FEATURES, HIDDEN))).sum().compute(scheduler=scheduler)
    limit = status("VmData") + mebibytes * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    return True


def status(key):
    """Return Linux's entry for this process under a key, in bytes."""
    return next(int(line.split()[1]) * 1024 for line in STATUS.read_text().splitlines() if line.startswith(f"{key}:"))


def memory():
    """The largest resident set of this process so far, in MiB."""
    if STATUS.exists():
        return status("VmHWM") / 2**20  # getrusage counts the process that started this one, too
    if resource is None:
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


# -- training -----------------------------------------------------------------------------------------------------------


def linear_loss(w, X, y):
    return F.binary_cross_entropy_with_logits(X @ w, y)


def logits(p, X):
    return F.relu(X @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def network_loss(p, X, ring):
    return F.cross_entropy(logits(p, X), ring)


def initial_network():
    rng = np.random.default_rng(2)
    shapes = {"w1": (FEATURES, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, RINGS), "b2": (RINGS,)}
    return {
        name: np.zeros(s, np.float32) if len(s) == 1 else rng.normal(size=s).astype(np.float32) / s[0] ** 0.5
        for name, s in shapes.items()
    }


def progress(console):
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def full_gradient(loss, parameters, X, y, passes, title, console):
    """L-BFGS: every evaluation is one pass over the data, in one task per chunk."""
    step = agrad_dask.value_and_grad(loss, reduce="mean")
    start, unravel = ag.tree.ravel(parameters)
    with progress(console) as bar:
        task = bar.add_task(title, total=passes)

        def value_and_gradient(vector):
            value, gradient = step(unravel(vector), X, y)
            bar.update(task, advance=1, description=f"{title}: loss {value.item():.5f}")
            return value.item(), ag.tree.ravel(gradient)[0].numpy().astype(float)

        options = {"maxfun": passes, "maxiter": passes, "ftol": 1e-7, "gtol": 1e-5}
        found = minimize(value_and_gradient, start.numpy().astype(float), jac=True, method="L-BFGS-B", options=options)
    return unravel(found.x), found.nfev


def minibatches(loss, parameters, X, y, epochs, title, console, size=256):
    """Adam on batches of each chunk, which is read once per epoch; chunks and their rows in random order."""
    rng = np.random.default_rng(3)
    leaves = ag.tree.map(lambda p: ag.asarray(p, requires_grad=True), parameters)
    optimizer = ag.optim.Adam(leaves.values(), lr=3e-3)
    with progress(console) as bar:
        task = bar.add_task(title, total=epochs * X.numblocks[0])
        for _ in range(epochs):
            for i in rng.permutation(X.numblocks[0]):
                rows, labels = dask.compute(X.blocks[i], y.blocks[i])
                order = rng.permutation(len(rows))
                for start in range(0, len(rows), size):
                    batch = order[start : start + size]
                    optimizer.zero_grad()
                    value = loss(leaves, ag.asarray(rows[batch]), ag.asarray(labels[batch]))
                    value.backward()
                    optimizer.step()
                bar.update(task, advance=1, description=f"{title}: loss {value.item():.4f}")
    return ag.tree.map(lambda p: p.detach(), leaves)


def accuracy(predicted, y):
    """The fraction of rows predicted correctly: lazy until its value is requested."""
    return ag.mean(ag.astype(predicted == ag.asarray(y), ag.float32)).item()


# -- the program --------------------------------------------------------------------------------------------------------


def train(X, labels, ring, passes, epochs, console):
    """Train both models; return a row per result: model, method, passes, seconds, accuracy and the best possible."""
    split = X.numblocks[0] * 9 // 10
    train, test = ([a.blocks[part] for a in (X, labels, ring)] for part in (slice(split), slice(split, None)))
    X, y, ring = train
    held_X, held_y, held_ring = ag.asarray(test[0]), test[1], test[2]
    best = accuracy(held_X @ ag.asarray(true_weights()) > 0, held_y)
    rows = []

    def report(what, how, count, start, found, known):
        rows.append((what, how, str(count), f"{time.perf_counter() - start:.1f}", f"{found:.2%}", f"{known:.2%}"))

    start = time.perf_counter()
    w, count = full_gradient(linear_loss, np.zeros(FEATURES, np.float32), X, y, passes, "logistic, L-BFGS", console)
    report("logistic regression", "L-BFGS", count, start, accuracy(held_X @ w > 0, held_y), best)
    error = float(ag.linalg.vector_norm(w - ag.asarray(true_weights())) / np.linalg.norm(true_weights()))

    start = time.perf_counter()
    p = minibatches(network_loss, initial_network(), X, ring, epochs, "network, minibatches", console)
    found = accuracy(ag.argmax(logits(p, held_X), axis=1), held_ring)
    report(f"network {FEATURES}-{HIDDEN}-{RINGS}", "minibatches", epochs, start, found, 1.0)
    start = time.perf_counter()
    p, count = full_gradient(network_loss, p, X, ring, passes, "network, L-BFGS", console)
    found = accuracy(ag.argmax(logits(p, held_X), axis=1), held_ring)
    report(f"network {FEATURES}-{HIDDEN}-{RINGS}", "L-BFGS from there", count, start, found, 1.0)
    return rows, error, found


def run(options, path, console):
    stored = path / "X"
    if not stored.exists():
        make_store(path, options.rows, options.chunk, console)
    X, y, ring = (agrad_dask.from_zarr(path / name, zarr.open_array(path / name, mode="r").chunks)._raw
                  for name in ("X", "y", "ring"))  # fmt: skip
    size = X.nbytes / 2**20
    before = memory()
    if options.cluster:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=options.cluster, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            limited = all(client.run(restrict_memory, options.memory, "synchronous").values())
            rows, error, found = train(X, y, ring, options.passes, options.epochs, console)
            peak = max(client.run(memory).values())
        where = f"{options.cluster} worker processes"
    else:
        threads = min(4, os.cpu_count() or 1)  # every thread has a stack, and many hold a chunk
        with dask.config.set(num_workers=threads), zarr.config.set({"threading.max_workers": threads}):
            limited = restrict_memory(options.memory)
            rows, error, found = train(X, y, ring, options.passes, options.epochs, console)
        peak = memory()
        where = "the threads of this process"
    table = Table("model", "trained by", "passes", "seconds", "test accuracy", "best possible")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"The weights of the logistic regression differ from the true ones by {error:.2%}.")
    allowed = f"{options.memory} MiB" if limited else "any (this system has no such limit)"
    console.print(
        f"Store: {size:.0f} MiB. Memory allowed for data: {allowed}. Peak on {where}: {peak:.0f} MiB,"
        f" of which the program itself {before:.0f} MiB."
    )
    if found < options.require:
        Console(stderr=True).print(f"[red]The network's accuracy is below the required {options.require:.2%}.[/red]")
        return 1
    return 0


def parse(arguments):
    parser = argparse.ArgumentParser(description="Train on a zarr store larger than the memory allowed.")
    parser.add_argument("--small", action="store_true", help="a smaller store and less memory: seconds")
    parser.add_argument("--store", type=Path, help="folder of the store; made if it is not there, and kept")
    parser.add_argument("--rows", type=int, help=f"rows of a store that is made (default: {FULL[0]})")
    parser.add_argument("--memory", type=int, help=f"MiB that may be held beyond the libraries (default: {FULL[2]})")
    parser.add_argument("--passes", type=int, default=20, help="evaluations by L-BFGS at most (default: 20)")
    parser.add_argument("--epochs", type=int, default=1, help="passes by minibatches (default: 1)")
    parser.add_argument("--cluster", type=int, metavar="N", help="run on N worker processes of dask.distributed")
    parser.add_argument(
        "--require", type=float, default=0.0, metavar="ACCURACY", help="fail if the network's test accuracy is below it"
    )
    options = parser.parse_args(arguments)
    rows, options.chunk, held = SMALL if options.small else FULL
    options.rows, options.memory = options.rows or rows, options.memory or held
    if options.rows < 20 * options.chunk:
        parser.error(f"--rows must be at least {20 * options.chunk}: 20 chunks")
    if min(options.memory, options.passes, options.epochs) < 1 or (options.cluster or 1) < 1:
        parser.error("--memory, --passes, --epochs and --cluster must be at least 1")
    return options


def main(arguments=None):
    options = parse(arguments)
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        return run(options, options.store or Path(folder), console)


if __name__ == "__main__":
    sys.exit(main())
