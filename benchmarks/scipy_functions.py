"""Time `agrad.scipy` beside HIPS autograd's scipy: a value and its gradient, in one process each, in turns.

``python benchmarks/scipy_functions.py --hips PYTHON``, where PYTHON is an interpreter that has autograd and SciPy. Each row is a median of all
rounds, and the ratio stands beside its goal. Run without other load.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

#: What a ratio may be at most.
GOAL = 0.7
ROUNDS, REPEATS = 5, 7


def cases(library: str) -> dict[str, Callable[[], Any]]:
    """Return what is timed, for one of the libraries."""
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
            def run() -> None:
                leaves = [ag.tensor(v, requires_grad=True) for v in operands]
                function(*leaves).sum().backward()

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
    return found


def median(run: Callable[[], Any]) -> float:
    """Return the median of some runs, in milliseconds."""
    run()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main() -> int:
    """Time one library, or both in turns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hips", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--one", choices=("agrad", "HIPS"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps({name: median(run) for name, run in cases(options.one).items()}))
        return 0
    times: dict[str, dict[str, list[float]]] = {"agrad": {}, "HIPS": {}}
    for _ in range(options.rounds):
        for library, python in (("agrad", sys.executable), ("HIPS", options.hips)):
            done = subprocess.run([python, __file__, f"--one={library}"], capture_output=True, text=True, check=True)
            for name, value in json.loads(done.stdout).items():
                times[library].setdefault(name, []).append(value)
    print(f"{'':48}  agrad ms   HIPS ms   ratio   goal")
    for name, mine in times["agrad"].items():
        a, b = statistics.median(mine), statistics.median(times["HIPS"][name])
        print(f"{name:48}{a:10.3f}{b:10.3f}{a / b:8.2f}{GOAL:7.1f}{'' if a <= GOAL * b else '  MISSED'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
