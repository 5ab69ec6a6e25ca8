"""The speed of this checkout relative to another commit of agrad: fresh processes in turn, with an A/A run.

Run from a checkout with an environment where NumPy, pluggy and array-api-compat are installed::

    python benchmarks/against.py HEAD~1                     # all workloads, 40 pairs of processes each: some 15 minutes
    python benchmarks/against.py v0.1.0 --only chain --only leaves --pairs 20
    python benchmarks/against.py HEAD~1 --instructions      # counts instructions with valgrind instead: no noise

Method. There are three checkouts: this one, the commit to compare with, and a second copy of that commit. Each
sample is a separate process: it warms up, takes the CPU time of several steps and prints their median. The three take
turns, in an order that rotates. The ratio of each pair of neighbours goes into a median with a 95 % interval (bootstrap
over the pairs). The second copy relative to the first is the A/A run: its deviation from 1 is noise, and no ratio
closer to 1 than that is significant. A slowdown counts if the whole interval lies above 1.02.

With ``--instructions`` each workload runs once per checkout under valgrind (callgrind) with few and with more steps;
the difference is the cost of a step. Hash seeds are fixed, so the counts repeat to some 0.1 %.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measuring import environment, interval

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
SIDES = ("new", "base", "again")

#: By workload: steps of one sample, and samples per process.
STEPS = {
    "chain": (1, 25),
    "leaves": (1, 25),
    "adds": (1, 3),
    "shifts": (1, 3),
    "accumulate": (1, 25),
    "no_grad": (1, 15),
    "multiply": (1, 7),
    "grad": (1, 25),
}
STARTS = {
    "import": "import agrad",
    "first": "import agrad as ag; x = ag.tensor([1., 2., 3.], requires_grad=True); (x * x).sum().backward(); x.grad.tolist()",
}


def workload(name: str) -> Callable[[], object]:
    """Return one step of a workload."""
    import workloads as known

    import agrad as ag

    if name == "no_grad":

        def enter() -> None:
            for _ in range(2000):
                with ag.no_grad():
                    pass

        return enter
    if name == "grad":
        gradient = ag.func.grad(lambda x: ag.sum(ag.sin(x) * x))
        x = ag.tensor([0.1, 0.2, 0.3, 0.4])
        return lambda: [gradient(x) for _ in range(50)]
    if name == "accumulate":  # the second and later gradients of 1,000 leaves
        program = known.Leaves(1000)
        leaves = [known.leaf(ag, array) for array in program.leaves]
        return lambda: program.forward(ag, *leaves).backward()
    programs: dict[str, Callable[[], known.Program]] = {
        "adds": lambda: known.Adds(100_000),
        "chain": lambda: known.Chain(1000),
        "leaves": lambda: known.Leaves(1000),
        "multiply": lambda: known.Call("*"),
        "shifts": lambda: known.Shifts(100_000),
    }
    return programs[name]().step("agrad", ag)


def measure(name: str, steps: int | None) -> None:
    """Print the CPU time of a step in seconds; with `steps`, run this many and print nothing."""
    step = workload(name)
    if steps is not None:
        for _ in range(steps):
            step()
        return
    repeats, samples = STEPS[name]
    for _ in range(3):
        step()
    times = []
    for _ in range(samples):
        start = time.process_time()
        for _ in range(repeats):
            step()
        times.append(time.process_time() - start)
    print(statistics.median(times))


def sample(place: Path, name: str) -> float:
    """Run one process of a workload in a checkout; return its CPU time."""
    if name in STARTS:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", STARTS[name]], env=environment(place), check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    command = [sys.executable, str(HERE), "--measure", name]
    done = subprocess.run(command, env=environment(place), check=True, capture_output=True, text=True)
    return float(done.stdout)


def instructions(place: Path, name: str) -> float:
    """Return how many instructions a step, or a start, takes."""
    env = environment(place) | {"PYTHONHASHSEED": "0"}

    def count(*command: str) -> int:
        with tempfile.TemporaryDirectory() as folder:
            tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", sys.executable, *command]
            done = subprocess.run(tool, env=env, check=True, capture_output=True, text=True)
        found = re.search(r"refs:\s*([\d,]+)", done.stderr)
        assert found is not None, done.stderr
        return int(found[1].replace(",", ""))

    command = ["-c", STARTS[name]] if name in STARTS else [str(HERE), "--measure", name, "--steps"]
    once = [] if name in STARTS else ["1"]
    subprocess.run([sys.executable, *command, *once], env=env, check=True)  # which writes the modules' bytecode
    if name in STARTS:
        return count(*command)
    few, more = (2, 4) if name in ("adds", "shifts") else (3, 13)
    counts = [count(*command, str(steps)) for steps in (few, more)]
    return (counts[1] - counts[0]) / (more - few)


@contextlib.contextmanager
def checkouts(base: str) -> Iterator[dict[str, Path]]:
    """Check out the commit to compare with, twice, next to this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"new": ROOT}
        for side in SIDES[1:]:
            places[side] = Path(folder) / side
            places[side].mkdir()
            archive = subprocess.run(["git", "archive", base], cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S607 (whichever git is on the path)
            subprocess.run(["tar", "-x", "-C", str(places[side])], input=archive, check=True)  # noqa: S607
        yield places


def compare(places: dict[str, Path], name: str, pairs: int) -> str:
    """Return the row of one workload."""
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    for i in range(pairs + 1):
        for side in (*SIDES[i % 3 :], *SIDES[: i % 3]):
            times[side].append(sample(places[side], name))
    texts = []
    for side in ("new", "again"):
        ratios = [one / other for one, other in zip(times[side][1:], times["base"][1:], strict=True)]
        low, high = interval(ratios)
        slower = "  SLOWER" if side == "new" and low > 1.02 else ""
        texts.append(f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]{slower}")
    return f"| {name} | {statistics.median(times['base'][1:]) * 1e3:.2f} | {' | '.join(texts)} |"


def main() -> None:
    """Run the command line's request."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", nargs="?", default="HEAD~1", help="the commit to compare with")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--only", action="append", choices=[*STEPS, *STARTS])
    parser.add_argument("--instructions", action="store_true", help="count instructions (needs valgrind)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.steps)
        return
    with checkouts(options.base) as places:
        if options.instructions:
            print("| workload | base, millions of instructions | new / base |", "|---|---|---|", sep="\n")
        else:
            print("| workload | base, ms of CPU | new / base | base / base |", "|---|---|---|---|", sep="\n")
        for name in options.only or (*STEPS, *STARTS):
            if options.instructions:
                new, base = (instructions(places[side], name) for side in ("new", "base"))
                print(f"| {name} | {base / 1e6:.2f} | {new / base:.4f} |", flush=True)
            else:
                print(compare(places, name, options.pairs), flush=True)


if __name__ == "__main__":
    main()
