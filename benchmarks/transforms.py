"""The cost of the transforms of functions compared with ``torch.func``, on the CPU, one thread each.

Run from an environment where agrad, its NumPy backend and torch are installed::

    python benchmarks/transforms.py                    # every row, about a minute
    python benchmarks/transforms.py --only hessian     # by a part of the name; may be given several times
    python benchmarks/transforms.py --rounds 31

Method: as in ``overhead.py``. Runs are paired in one process, the order alternates, the clock is the CPU time of the
process, ratios are formed within a round, and medians are printed. A sample calls the transformed function on values,
in float64, repeatedly for at least 20 ms. Before the timing the results of both libraries are compared; if they differ,
the mark is WRONG.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from measuring import load_peer, version_of  # isort: skip (sets the number of threads)

import numpy as np

PEERS = ("agrad", "torch")
SAMPLE_SECONDS = 0.02


@dataclass(frozen=True)
class Row:
    """One transform of one function: returns the call to time, for a library and its ``func``."""

    title: str
    call: Callable[[Any, Any], Callable[[], Any]]
    goal: float | None = None


RNG = np.random.default_rng(0)
WEIGHT, VECTOR = RNG.normal(size=(100, 100)) / 10, RNG.normal(size=100)
POINT, LONG, ALONG = RNG.normal(size=50), RNG.normal(size=1000), RNG.normal(size=1000)
LAYERS = [RNG.normal(size=s) for s in ((64, 32), (64,), (10, 64), (10,))]
INPUTS, TARGETS = RNG.normal(size=(64, 32)), RNG.normal(size=(64, 10))


def tensor(lib: Any, array: np.ndarray) -> Any:
    """Return an array as a tensor of a library."""
    return lib.asarray(array)


def rosenbrock(x: Any) -> Any:
    """The sum of 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def layer(lib: Any) -> Callable[[Any], Any]:
    """A function of 100 numbers that returns 100."""
    weight = tensor(lib, WEIGHT)
    return lambda x: lib.tanh(weight @ x) * x


def small(lib: Any, func: Any) -> Callable[[Any], Any]:
    """One layer, mapped over examples."""
    weight, bias = (tensor(lib, a) for a in LAYERS[:2])
    return func.vmap(lambda x: lib.tanh(weight @ x + bias))


def loss(lib: Any) -> Callable[..., Any]:
    """The squared error of a network 32-64-10 on one example."""

    def of(parameters: Any, x: Any, target: Any) -> Any:
        w1, b1, w2, b2 = parameters
        return ((w2 @ lib.tanh(w1 @ x + b1) + b2 - target) ** 2).sum()

    return of


def per_example(lib: Any, func: Any) -> Callable[[], Any]:
    """Return the gradients of the loss of every example."""
    parameters = [tensor(lib, a) for a in LAYERS]
    x, target = tensor(lib, INPUTS), tensor(lib, TARGETS)
    mapped = func.vmap(func.grad(loss(lib)), (None, 0, 0))
    return lambda: mapped(parameters, x, target)


def product(lib: Any, func: Any) -> Callable[[], Any]:
    """A Hessian times a vector."""
    x, v = tensor(lib, LONG), tensor(lib, ALONG)
    if hasattr(func, "hvp"):
        return lambda: func.hvp(rosenbrock, (x,), (v,))
    return lambda: func.jvp(func.grad(rosenbrock), (x,), (v,))[1]


def tangent(lib: Any, func: Any) -> Callable[[], Any]:
    """Value and directional derivative."""
    x, v = tensor(lib, LONG), tensor(lib, ALONG)
    return lambda: func.jvp(rosenbrock, (x,), (v,))


def at(point: np.ndarray, transform: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Callable[[], Any]]:
    """Return a row's call: a transformed function at a point."""

    def call(lib: Any, func: Any) -> Callable[[], Any]:
        x, f = tensor(lib, point), transform(lib, func)
        return lambda: f(x)

    return call


ROWS = [
    Row("jacrev, 100 to 100", at(VECTOR, lambda lib, func: func.jacrev(layer(lib))), 1.0),
    Row("jacfwd, 100 to 100", at(VECTOR, lambda lib, func: func.jacfwd(layer(lib))), 1.0),
    Row("hessian, Rosenbrock of 50", at(POINT, lambda _, func: func.hessian(rosenbrock)), 1.0),
    Row("jacfwd of jacrev, Rosenbrock of 50", at(POINT, lambda _, func: func.jacfwd(func.jacrev(rosenbrock)))),
    Row("hvp, Rosenbrock of 1000", product, 1.0),
    Row("jvp, Rosenbrock of 1000", tangent, 1.0),
    Row("grad, Rosenbrock of 1000", at(LONG, lambda _, func: func.grad(rosenbrock)), 1.0),
    Row("vmap of grad, 32-64-10 on 64 examples", per_example, 1.0),
    Row("vmap of a layer, 64 of 32", at(INPUTS, small), 1.0),
    Row("vmap of rosenbrock, 20 of 50", at(LONG.reshape(20, 50), lambda _, func: func.vmap(rosenbrock)), 1.0),
]


def arrays(result: Any) -> list[np.ndarray]:
    """Return results as arrays."""
    parts = result if isinstance(result, tuple | list) else [result]
    return [np.asarray(p.detach().numpy()) for p in parts]


def sample(call: Callable[[], Any], repeats: int) -> float:
    """Time a call, in seconds."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def measure(row: Row, libs: dict[str, Any], rounds: int) -> str:
    """Time a row; return its line."""
    calls = {name: row.call(lib, sys.modules[f"{lib.__name__}.func"]) for name, lib in libs.items()}
    results = [arrays(call()) for call in calls.values()]
    wrong = any(not np.allclose(a, b, rtol=1e-9) for a, b in zip(results[0], results[-1], strict=True))
    repeats = {name: max(1, round(SAMPLE_SECONDS / max(sample(call, 3), 1e-6))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(rounds):
        gc.collect()
        for name in list(calls)[:: 1 if i % 2 else -1]:
            calls[name]()
            times[name].append(sample(calls[name], repeats[name]))
    median = {name: statistics.median(found) for name, found in times.items()}
    cells = [f"{median[name] * 1e3:8.3f}" if name in median else f"{'-':>8}" for name in PEERS]
    if len(times) == 1:
        return f"{row.title:40}{'  '.join(cells)}"
    ratio = statistics.median(a / b for a, b in zip(*times.values(), strict=True))
    mark = "WRONG" if wrong else "-" if row.goal is None else "pass" if ratio <= row.goal else "OVER"
    goal = "-" if row.goal is None else f"<= {row.goal:.2f}"
    return f"{row.title:40}{'  '.join(cells)}  {ratio:9.2f}  {goal:>8}  {mark}"


def main() -> int:
    """Run the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    libs = {}
    for name in PEERS:
        try:
            libs[name] = load_peer(name)
        except ImportError as error:
            print(f"{name} is not available: {error}")
    if "torch" in libs:
        import torch.func  # noqa: F401 (looked up by name)
    gc.freeze()
    versions = ", ".join(f"{name} {version_of(lib)}" for name, lib in libs.items())
    print(
        f"Python {platform.python_version()}, {versions}, NumPy {version_of(np)}; 1 thread, cpu time; medians of {options.rounds}\n"
    )
    print(f"{'ms':40}{'agrad':>8}  {'torch':>8}  {'ag/torch':>9}  {'goal':>8}  mark")
    wrong = False
    for row in ROWS:
        if all(part in row.title for part in options.only):
            line = measure(row, libs, options.rounds)
            wrong |= "WRONG" in line
            print(line, flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
