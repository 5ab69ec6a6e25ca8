"""Time `agrad.scipy` compared with HIPS autograd's scipy: a value and its gradient, or only a value, in one process each, in turns.

``python benchmarks/scipy_functions.py --hips PYTHON``, where PYTHON is an interpreter that has autograd and SciPy; with
``--write`` the table goes to benchmarks/results/scipy_functions.md. A figure is processor time, one thread: the median
of some runs per process, and the median over all rounds; the ratio is shown with its minimum and maximum in a round,
and its goal. The results of both must agree. Run without other load.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: The maximum ratio.
GOAL = 0.7
ROUNDS, REPEATS = 5, 7

RESULTS = Path(__file__).resolve().parent / "results" / "scipy_functions.md"

#: In the environment of every process: one thread.
THREADS = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


def cases(library: str) -> dict[str, Callable[[], Any]]:
    """Return the timed function, for one of the libraries."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.normal(size=1_000_000)
    triangle = np.tril(rng.normal(size=(1000, 1000))) + 40 * np.eye(1000)
    vector, several = rng.normal(size=1000), rng.normal(size=(1000, 100))
    small, right = triangle[:30, :30].copy(), vector[:30]
    long, short = rng.normal(size=20_000), rng.normal(size=100)
    image, stamp = rng.normal(size=(128, 128)), rng.normal(size=(7, 7))
    densities: list[tuple[str, str, Any, tuple[float, ...]]] = [
        ("norm", "logpdf", x, (0.3, 1.2)),
        ("t", "logpdf", x, (4.5, 0.3, 1.2)),
        ("gamma", "logpdf", np.abs(x), (2.5,)),
        ("beta", "logpdf", 1 / (1 + np.exp(-x)), (2.5, 1.5)),
        ("poisson", "logpmf", np.floor(np.abs(x) * 3), (2.5,)),
    ]
    pairs = {"20 000 and 100": (long, short), "images of 128 x 128 and 7 x 7": (image, stamp)}
    equations = {"1000 x 1000, a vector": (triangle, vector), "1000 x 1000, 100 columns": (triangle, several),
                 "30 x 30, a vector": (small, right)}  # fmt: skip
    if library == "agrad":
        import agrad as ag
        import agrad.numpy as anp
        from agrad.scipy import integrate, linalg, signal, stats

        pack: Any = tuple

        def gradient(function: Any, *operands: Any) -> Callable[[], Any]:
            def run() -> list[Any]:
                leaves = [ag.tensor(v, requires_grad=True) for v in operands]
                function(*leaves).sum().backward()
                return [leaf.grad.numpy() for leaf in leaves]

            return run

        def density(name: str, method: str, data: Any) -> Any:
            return lambda *p: getattr(getattr(stats, name), method)(data, *p)

    else:
        import autograd.numpy as anp
        import autograd.scipy.linalg as linalg
        import autograd.scipy.signal as signal
        from autograd import grad
        from autograd.builtins import tuple as pack
        from autograd.scipy import integrate, stats

        def gradient(function: Any, *operands: Any) -> Callable[[], Any]:
            slope = grad(lambda values: anp.sum(function(*values)))
            return lambda: slope(list(operands))

        def density(name: str, method: str, data: Any) -> Any:
            return lambda *p: getattr(getattr(stats, name), method)(data, *p)

    found = {f"{n}.{m} of 10^6": gradient(density(n, m, data), *p) for n, m, data, p in densities}
    for words, (a, b) in equations.items():
        found[f"solve_triangular, {words}"] = gradient(lambda a, b: linalg.solve_triangular(a, b, lower=True), a, b)
    for words, (a, b) in pairs.items():
        found[f"convolve, {words}"] = gradient(signal.convolve, a, b)

    def animals(y: Any, _: Any, p: Any) -> Any:
        return anp.array([p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]])

    def network(y: Any, _: Any, w: Any) -> Any:
        return anp.tanh(anp.dot(w, y)) - y

    flows = {
        "Lotka and Volterra": (animals, np.array([10.0, 5.0]), np.linspace(0, 5, 11), np.array([1.5, 1.0, 3.0, 1.0])),
        "20 neurons": (network, np.ones(20), np.linspace(0, 2, 5), rng.normal(size=(20, 20)) / 5),
    }
    for words, (rhs, y0, times, p) in flows.items():
        # the loop's names as defaults: each row keeps its own
        end = lambda p, rhs=rhs, y0=y0, times=times: integrate.odeint(rhs, y0, times, pack((p,)))
        found[f"odeint, {words}"] = gradient(end, p)
        found[f"odeint, {words}, the value alone"] = lambda p=p, end=end: [np.asarray(end(p))]
    return found


def measured(run: Callable[[], Any]) -> tuple[float, float]:
    """Return the median of some runs, in milliseconds, and the length of their result."""
    import numpy as np

    length = math.hypot(*(float(np.linalg.norm(np.ravel(part))) for part in run()))
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times), length


def versions() -> str:
    """Return those of the libraries in this process."""
    names = {"agrad", "autograd", "numpy", "scipy"} & {d.name for d in importlib.metadata.distributions()}
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in sorted(names))


def main() -> int:
    """Time one library, or both in turns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hips", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--one", choices=("agrad", "HIPS"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/results/scipy_functions.md")
    options = parser.parse_args()
    if options.one:
        rows = {name: measured(run) for name, run in cases(options.one).items()}
        print(json.dumps({"versions": versions(), "rows": rows}))
        return 0
    times: dict[str, dict[str, list[float]]] = {"agrad": {}, "HIPS": {}}
    lengths: dict[str, dict[str, float]] = {"agrad": {}, "HIPS": {}}
    told: dict[str, str] = {}
    loads = [os.getloadavg()[0]]
    for _ in range(options.rounds):
        for library, python in (("agrad", sys.executable), ("HIPS", options.hips)):
            command, environment = [python, __file__, f"--one={library}"], os.environ | THREADS
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            found = json.loads(done.stdout)
            told[library] = found["versions"]
            for name, (value, length) in found["rows"].items():
                times[library].setdefault(name, []).append(value)
                lengths[library][name] = length
        loads.append(os.getloadavg()[0])
    lines = ["| ms | agrad | HIPS autograd | agrad / HIPS autograd |", "|---|---|---|---|"]
    agree = True
    for name, mine in times["agrad"].items():
        a, b = statistics.median(mine), statistics.median(times["HIPS"][name])
        ratios = [x / y for x, y in zip(mine, times["HIPS"][name], strict=True)]
        end = f"{a / b:.2f} [{min(ratios):.2f}, {max(ratios):.2f}] (goal {GOAL}){'' if a <= GOAL * b else ' OVER'}"
        if not math.isclose(lengths["agrad"][name], lengths["HIPS"][name], rel_tol=1e-5):
            agree, end = False, f"{end} WRONG: {lengths['agrad'][name]!r}, and {lengths['HIPS'][name]!r}"
        lines.append(f"| {name} | {a:.3g} | {b:.3g} | {end} |")
    facts = (
        f"{dt.datetime.now(tz=dt.UTC).date()}, {platform.machine()}, one thread, Python {platform.python_version()}, {told['agrad']};"
        f" beside {told['HIPS']}; {options.rounds} rounds; load of the machine {min(loads):.1f} to {max(loads):.1f}."
    )
    print(*lines, "", facts, sep="\n")
    if options.write:
        how = "`python benchmarks/scipy_functions.py --hips PYTHON --write` makes this page; its docstring says how this is measured."
        text = ["# Functions of `agrad.scipy` beside HIPS autograd's", facts, "\n".join(lines), how]
        RESULTS.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    return int(not agree)


if __name__ == "__main__":
    raise SystemExit(main())
