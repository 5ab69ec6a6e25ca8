"""The cost of a loop of `ag.func.scan` compared with the plain loop: until it is a program, and for each of its calls.

Run from a checkout with an environment where NumPy, pluggy and array-api-compat are installed::

    OMP_NUM_THREADS=1 python benchmarks/loops.py             # a minute or two
    OMP_NUM_THREADS=1 python benchmarks/loops.py --write     # the table goes to benchmarks/results/loops.md

The loop is a small recurrent cell with a result, and its gradient with respect to the cell's weights. Each figure is
the minimum of some runs, in milliseconds of processor time on one thread.
"""

from __future__ import annotations

import argparse
import datetime as dt
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import agrad as ag

RESULTS = Path(__file__).resolve().parent / "results" / "loops.md"
LENGTHS = 10, 100, 1000, 10_000
WIDTH = 8

#: Longer ones take minutes to capture if they are unrolled.
UNROLLED_UP_TO = 100


def plain(step: Callable[..., Any], carry: Any, xs: Any) -> Any:
    """Run the loop as written in Python."""
    ys = []
    for i in range(len(xs)):
        carry, y = step(carry, xs[i])
        ys.append(y)
    return carry, ag.stack(ys)


def graded(way: Callable[..., Any]) -> Callable[..., Any]:
    """Return the loss and its gradient with respect to the weights, for a given form of the loop."""

    def loss(w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = ag.tanh(w @ h + x)
            return h, ag.sum(h * x)

        carry, ys = way(step, ag.zeros(WIDTH, dtype="float64"), xs)
        return ag.sum(carry**2) + ag.sum(ag.sin(ys))

    return ag.func.value_and_grad(loss)


def least(run: Callable[[], Any], seconds: float = 1.0) -> float:
    """Return the milliseconds of the fastest of some runs."""
    best, until = float("inf"), time.process_time() + seconds
    while time.process_time() < until or best == float("inf"):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best * 1e3


def rows() -> list[list[str]]:
    """Return the table."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(WIDTH, WIDTH)) / 4
    capture = ag.func.capture
    found = []
    for length in LENGTHS:
        xs = rng.normal(size=(length, WIDTH))
        specs = ag.func.ShapeDtype(w.shape, "float64"), ag.func.ShapeDtype(xs.shape, "float64")
        unrolls = length <= UNROLLED_UP_TO
        captures = [
            least(lambda: capture(graded(ag.func.scan))(*specs)),  # noqa: B023 (called at once)
            least(lambda: capture(graded(plain))(*specs)) if unrolls else None,  # noqa: B023
        ]
        looped = capture(graded(ag.func.scan))(w, xs)
        unrolled = capture(graded(plain))(w, xs) if unrolls else None
        compiled = ag.compile(graded(ag.func.scan), check=False)
        began = time.process_time()
        compiled(w, xs)
        first = (time.process_time() - began) * 1e3
        runs = [
            least(lambda: graded(plain)(w, xs)),  # noqa: B023
            least(lambda: looped(w, xs)),  # noqa: B023
            least(lambda: compiled(w, xs)),  # noqa: B023
            least(lambda: unrolled(w, xs)) if unrolled is not None else None,  # noqa: B023
        ]
        figures = [*captures, first, *runs]
        found.append([f"{length:,}", *("" if each is None else f"{each:.3g}" for each in figures)])
    return found


HEAD = [
    *("calls", "capture", "unrolled", "first call, compiled"),
    *("plain loop", "program", "compiled", "unrolled program"),
]


def main() -> None:
    """Measure, print, and write if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/loops.md")
    options = parser.parse_args()
    lines = [HEAD, ["--:"] * len(HEAD), *rows()]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    print(table)
    if options.write:
        about = f"{dt.datetime.now(tz=dt.UTC).date()}, Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}"
        text = f"# Loops\n\nMilliseconds; `python benchmarks/loops.py --write`, {about}.\n\n{table}\n"
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
