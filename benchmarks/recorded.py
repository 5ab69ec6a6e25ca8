"""The cost of a recorded ``loss.backward()`` on Dask tensors for the calling process, per chunk.

Run from an environment with agrad and its NumPy and Dask backends::

    python benchmarks/recorded.py                                # up to 20,000 chunks; about two minutes
    python benchmarks/recorded.py --count 5000 --only network

Method. A step computes a loss over the rows of data in a number of chunks, and its gradients: logistic regression with
8 features, or a network 8-8-8 with cross entropy, which takes two passes (the weights of its rows are added up first).
Each row runs in a separate process, three steps, of which the last two count.

* ``client`` is all CPU time of a step but the scheduler's: recording, Dask's layers, planning, making tasks. The scheduler
  that is passed runs as many tasks, which depend on each other alike and do nothing, so chunks may be as large as they like.
* ``scheduler`` is what Dask's own threaded scheduler takes for those tasks.
* ``work`` is what the tasks take in turns on one thread, for small chunks: hardly any arithmetic.
* ``MB`` is the largest resident set of the process, imports included (some 90 MB).

Chunks are 8 rows, of which neighbours share tasks, or 10^6 rows (32 MB), of which each has its own. The goal is 300
microseconds a chunk for 5,000 chunks, and no more for more.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from on_paper import OnPaper

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

SIZE = 8  # of features, hidden units and classes
ROWS = {"small": 8, "large": 1_000_000}
COUNTS = 1_000, 5_000, 20_000
PROBLEMS = "logistic", "network"
GOAL = 300


def make_step(problem: str, count: int, rows: int) -> Callable[[], Any]:
    """Return the function that takes a step over this many chunks."""
    import dask.array as da
    import numpy as np

    import agrad as ag

    F = ag.nn.functional
    rng = np.random.default_rng(0)
    X = ag.asarray(da.ones((rows * count, SIZE), chunks=(rows, SIZE), dtype="float32"))
    y = ag.asarray(da.zeros(rows * count, chunks=rows, dtype="float32" if problem == "logistic" else "int64"))
    shapes = [(SIZE,)] if problem == "logistic" else [(SIZE, SIZE), (SIZE,), (SIZE, SIZE), (SIZE,)]
    leaves = [ag.asarray(rng.normal(size=shape).astype("float32"), requires_grad=True) for shape in shapes]

    def step() -> Any:
        for leaf in leaves:
            leaf.grad = None
        if problem == "logistic":
            loss = F.binary_cross_entropy_with_logits(X @ leaves[0], y)
        else:
            w1, b1, w2, b2 = leaves
            loss = F.cross_entropy(ag.tanh(X @ w1 + b1) @ w2 + b2, y)
        loss.backward()
        return loss

    return step


def measure(problem: str, size: str, count: int) -> dict[str, float]:
    """Return CPU microseconds per chunk, the number of tasks, and megabytes."""
    import dask
    import numpy as np

    paper = OnPaper(lambda key: np.zeros((SIZE,) * (len(key) - 1), np.float32))
    away = 0.0

    def in_turn(tasks: Any, keys: Any, **_: Any) -> list[Any]:
        """Run the tasks themselves."""
        nonlocal away
        start = time.process_time()
        found = dask.get(tasks, keys)
        away += time.process_time() - start
        return list(found)

    make_step(problem, 8, ROWS["small"])()  # imports, generated code
    step = make_step(problem, count, ROWS[size])
    found: dict[str, list[float]] = {"client": [], "scheduler": [], "work": []}
    for _ in range(3):
        paper.clear()
        start = time.process_time()
        with dask.config.set(scheduler=paper):
            step()
        found["client"].append(time.process_time() - start - paper.away)
        found["scheduler"].append(paper.scheduler)
        if size == "small":
            away = 0.0
            with dask.config.set(scheduler=in_turn):
                step()
            found["work"].append(away)
    figures = {name: 1e6 / count * statistics.median(times[1:]) for name, times in found.items() if times}
    return {**figures, "tasks": paper.tasks, "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}


def main(arguments: list[str] | None = None) -> int:
    """Print the table; or, in a separate process, one row of it."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--count", type=int, action="append", help=f"of chunks (default: {COUNTS})")
    parser.add_argument("--only", choices=PROBLEMS, help="one of the problems")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        problem, size, count = options.one
        print(json.dumps(measure(problem, size, int(count))))
        return 0
    print(f"CPU microseconds per chunk; goal for the client at 5,000 chunks: {GOAL}\n")
    print(f"{'':18}{'chunks':>8}{'client':>8}{'scheduler':>11}{'work':>7}{'tasks':>8}{'MB':>6}   mark")
    for problem in [options.only] if options.only else PROBLEMS:
        for size in ROWS:
            for count in options.count or COUNTS:
                command = [sys.executable, __file__, "--one", problem, size, str(count)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1])
                work = f"{found['work']:7.0f}" if "work" in found else f"{'-':>7}"
                numbers = (
                    f"{found['client']:8.0f}{found['scheduler']:11.0f}{work}{found['tasks']:8.0f}{found['MB']:6.0f}"
                )
                mark = "pass" if found["client"] <= GOAL else "OVER"
                print(f"{problem + ', ' + size:18}{count:8}{numbers}   {mark}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
