"""What capture, a call and the memory of compiled functions cost.

Run from a checkout with an environment where NumPy, pluggy and array-api-compat are installed::

    python benchmarks/compiling.py             # a few minutes
    python benchmarks/compiling.py --write     # the table goes to benchmarks/results/compiling.md

Every row is measured in a process of its own: CPU time (``time.process_time``) on one thread, and for memory the peak of
``tracemalloc`` during one step, what is kept between steps included. The rows print their goals beside them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from measuring import environment, load_peer, version_of

import numpy as np  # isort: skip (after the number of threads is set)

import workloads as w  # isort: skip (likewise)

HERE = Path(__file__).resolve()
RESULTS = HERE.parent / "results" / "compiling.md"
CALLS = 2000
ROUNDS = 15


def empty_call() -> dict[str, float]:
    """Return the seconds of a call of a compiled function that gives back one of three tensors."""
    ag = load_peer("agrad")
    f = ag.compile(lambda x, y, z: x, check=False)
    tensors = [ag.ones(3) for _ in range(3)]
    for _ in range(CALLS):
        f(*tensors)
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(CALLS):
            f(*tensors)
        found.append((time.process_time() - start) / CALLS)
    return {"seconds": sorted(found)[ROUNDS // 2]}


def capturing(ops: int) -> dict[str, float]:
    """Return the seconds of an eager step of a chain, and of the first call of the compiled one."""
    ag = load_peer("agrad")
    step = w.Chain(ops, dtype="float32").step("agrad", ag)
    eager = []
    for _ in range(3):
        start = time.process_time()
        step()
        eager.append(time.process_time() - start)
    compiled = ag.compile(step)
    start = time.process_time()
    compiled()
    first = time.process_time() - start
    start = time.process_time()
    compiled()  # compared
    compiled()
    later = time.process_time() - start
    return {"eager": sorted(eager)[1], "first": first, "later": later}


def peak(name: str) -> dict[str, float]:
    """Return the peak bytes of a step, eager and compiled."""
    program = {"10m": lambda: w.Elementwise(10**7), "transformer": w.Transformer}[name]()
    ag = load_peer("agrad")
    step = program.step("agrad", ag)
    found = {}
    for side, run in (("eager", step), ("compiled", ag.compile(step, check="first"))):
        tracemalloc.start()
        for _ in range(4):
            result = run()
            del result
        tracemalloc.reset_peak()
        result = run()
        found[side] = float(tracemalloc.get_traced_memory()[1])
        del result
        tracemalloc.stop()
    return found


def shown_call(found: dict[str, float]) -> tuple[str, bool]:
    """Return the text of a row and whether its goal is met."""
    return f"{found['seconds'] * 1e6:.1f} µs (goal 5)", found["seconds"] <= 5e-6


def shown_capture(found: dict[str, float]) -> tuple[str, bool]:
    """Likewise: the goal is three eager calls and 0.3 s."""
    goal = 3 * found["eager"] + 0.3
    text = f"{found['first']:.2f} s (goal {goal:.2f}: 3 eager calls of {found['eager']:.3f} s, and 0.3 s)"
    return text, found["first"] <= goal


def shown_length(found: dict[str, float]) -> tuple[str, bool]:
    """Likewise: the goal is that it works, in linear time."""
    return f"{found['first']:.2f} s, {found['first'] / found['eager']:.1f} eager calls (goal: works, linear)", True


def shown_peak(found: dict[str, float]) -> tuple[str, bool]:
    """Likewise: the goal is at most the eager step's."""
    ratio = found["compiled"] / found["eager"]
    text = f"{found['compiled'] / 1e6:.0f} MB, eager {found['eager'] / 1e6:.0f} MB: {ratio:.2f} (goal 1)"
    return text, ratio <= 1.005


#: Per row: its title, what measures it, and what shows it.
ROWS: dict[str, tuple[str, Callable[[], dict[str, float]], Callable[[dict[str, float]], tuple[str, bool]]]] = {
    "call": ("call of an empty program, 3 tensors", empty_call, shown_call),
    "steps-3k": ("first call, 3,000 steps", lambda: capturing(1_000), shown_capture),
    "steps-30k": ("first call, 30,000 steps", lambda: capturing(10_000), shown_length),
    "steps-100k": ("first call, 100,000 steps", lambda: capturing(33_000), shown_length),
    "peak-10m": ("peak memory, 12 elementwise ops, 10M", lambda: peak("10m"), shown_peak),
    "peak-transformer": ("peak memory, transformer block", lambda: peak("transformer"), shown_peak),
}


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=tuple(ROWS), metavar="NAME")
    parser.add_argument(
        "--write", action="store_true", help=f"write the table to {RESULTS.relative_to(HERE.parents[1])}"
    )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(ROWS[options.measure][1]()))
        return 0
    lines = ["| compiled functions | |", "|---|---|"]
    print(*lines, sep="\n", flush=True)
    for name in options.only or ROWS:
        title, _, show = ROWS[name]
        command = [sys.executable, str(HERE), "--measure", name]
        done = subprocess.run(command, env=environment(HERE.parents[1]), capture_output=True, text=True, check=False)
        if done.returncode:
            text = "failed: " + (done.stderr.strip().splitlines() or ["no message"])[-1]
        else:
            text, met = show(json.loads(done.stdout))
            text += "" if met else " OVER"
        lines.append(f"| {title} | {text} |")
        print(lines[-1], flush=True)
    facts = (
        f"{dt.datetime.now(tz=dt.UTC).date()}, {platform.machine()}, one thread, Python {platform.python_version()}, NumPy"
        f" {np.__version__}, agrad {version_of(load_peer('agrad'))}."
    )
    print("", facts, sep="\n")
    if options.write:
        text = "\n\n".join(
            [
                "# What compiled functions cost",
                facts,
                "\n".join(lines),
                "`python benchmarks/compiling.py --write` makes this page.",
            ]
        )
        RESULTS.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
