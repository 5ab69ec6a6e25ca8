"""What whole programs cost beside PyTorch and beside NumPy by hand, each library alone in its process.

Run from a checkout with an environment where NumPy, pluggy and array-api-compat are installed; PyTorch there too, or
in an environment of its own::

    python benchmarks/programs.py                                    # every program, some 15 minutes
    python benchmarks/programs.py --torch-python venv/bin/python --only mlp-64 --only cnn
    python benchmarks/programs.py --side agrad --side hand --pairs 5  # without PyTorch
    python benchmarks/programs.py --only elementwise-100k --only elementwise-10m --torch-compile --jax-python venv/bin/python
    python benchmarks/programs.py --write                            # the table goes to benchmarks/results/programs.md

Method. Two libraries in one process evict each other's caches and raise each other's thresholds of the allocator, which
flatters the slower one. So each sample is a process of its own that has one library: it warms up, takes the CPU time
(``time.process_time``) of steps for a second, and prints their median. The sides take turns, in an order that rotates.
Ratios are formed within a round; the table has their medians, with a 95 % interval (bootstrap over the rounds). A first
round, not counted, writes the gradients of each side to a file, and these are compared with those by hand: a side that
is wrong gets the mark WRONG. One thread, float32; the garbage collector stays on, as a user has it.

Sides: ``agrad`` is the eager library, ``compiled`` the same step through ``agrad.compile``, ``native`` that with
``executor="native"`` (it needs llvmlite), ``exact`` that with ``exact=True``, ``torch`` PyTorch's eager mode, ``hand`` the gradient of the suite's own in plain
NumPy (``workloads.py``), and ``again`` the same once more, which shows what of a ratio is chance. The goals are: eager beside PyTorch, compiled and native beside NumPy by hand. Three sides more take
part where they are asked for, in columns of their own beside
``compiled`` and ``native``: ``torch-compile``, the same step with the loss through ``torch.compile`` (which needs a C++ compiler), ``jax``,
``jax.jit`` of ``jax.grad``, and ``numba``, the gradients by hand in loops that numba
compiles; on one thread too. JAX's form of a program that is a loop is the quicker in the first round of two, the loop written out and
``lax.scan``; what is noted of the former has the name ``jax-unrolled``. What they compile is not timed, but a process that is not done within ``--limit`` seconds of CPU time is
out. Some programs have no form for numba.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

try:
    import resource
except ImportError:  # on Windows no process is ended
    resource = None  # type: ignore[assignment]

from measuring import WrongGradientError, cell, check, describe, environment, in_turn, interval, load_peer, version_of

import numpy as np  # isort: skip (after the number of threads is set)

import workloads as w  # isort: skip (likewise)

HERE = Path(__file__).resolve()
RESULTS = HERE.parent / "results" / "programs.md"
SIDES = ("agrad", "compiled", "native", "exact", "torch", "hand", "again")
COMPILERS = ("torch-compile", "jax", "numba")

#: The form of ``jax`` in which a loop is written out.
UNROLLED = "jax-unrolled"

LIBRARIES = {
    "compiled": "agrad",
    "native": "agrad",
    "exact": "agrad",
    "hand": "NumPy",
    "again": "NumPy",
    UNROLLED: "jax",
}

#: What a process gives back that the system has ended for its CPU time.
ENDED = (-24, -9)  # SIGXCPU, SIGKILL

#: Steps that a process warms up and measures, at least; and what of the time that it measures it warms up first.
FEWEST, WARM = 5, 0.3

#: Seconds that a process measures in the first round, which is not counted.
FIRST = 0.1

#: A sample of several steps lasts at least so many seconds.
SAMPLE = 5e-3


@dataclass(frozen=True)
class Row:
    """A program, with what is to be reached by eager agrad, of PyTorch's time, and compiled and native, of NumPy's by hand.

    Of native also what is to be reached of PyTorch's eager time, and of JAX's. `forward`: only its forward pass is compiled, and its
    backward pass is called from outside.
    """

    title: str
    program: Callable[[], w.Program]
    eager: float
    compiled: float | None = None
    native: float | None = None
    exact: float | None = None
    of_torch: float | None = None
    of_jax: float | None = None
    forward: bool = False


ROWS = {
    "chain": Row(
        "chain of 1,000 ops on (4,)", lambda: w.Chain(1000, dtype="float32"), 0.45, 1.0, 0.015, 0.03, of_jax=0.3
    ),
    "chain-0d": Row("the same on 0-d arrays", lambda: w.Chain(1000, (), dtype="float32"), 0.45, 1.0, 0.02, of_jax=0.3),
    "mlp-8": Row("MLP 64-64-64-10, batch 8", lambda: w.Mlp(8, (64, 64, 64, 10)), 0.9, 1.5, 0.3, 0.4, of_jax=0.3),
    "mlp-8-plain": Row("the same, in plain operations", lambda: w.PlainMlp(8, (64, 64, 64, 10)), 0.9, 1.5, 0.3, 0.4),
    "mlp-64": Row("MLP 784-256-128-10, batch 64, `SGD`", lambda: w.Descent(w.Mlp(64)), 1.1, 1.05, 0.95, of_jax=0.8),
    "mlp-64-plain": Row(
        "the same, in plain operations", lambda: w.Descent(w.PlainMlp(64), optimizer=False), 1.1, 1.05, 0.95
    ),
    "mlp-1024": Row("MLP 784-256-128-10, batch 1024, `SGD`", lambda: w.Descent(w.Mlp(1024)), 1.05, 1.05, 1, of_jax=1),
    "mlp-1024-plain": Row(
        "the same, in plain operations", lambda: w.Descent(w.PlainMlp(1024), optimizer=False), 1.05, 1.05, 1
    ),
    "elementwise-100k": Row(
        "12 elementwise ops, 100k", lambda: w.Elementwise(10**5), 0.65, 0.45, 0.42, 0.85, of_jax=0.5
    ),
    "elementwise-10m": Row("12 elementwise ops, 10M", lambda: w.Elementwise(10**7), 0.45, 0.35, 0.2, of_jax=0.3),
    "logistic": Row("logistic regression, 1e6 x 64", lambda: w.Logistic(10**6, 64), 1.05, 1.05, 0.65, of_jax=0.1),
    "least-squares": Row("least squares, 1e6 x 64", lambda: w.LeastSquares(10**6, 64), 1.05, 1.05),
    "rnn": Row("RNN, 200 steps", lambda: w.Rnn(200), 0.87, 1.05, 0.3, 0.5, of_jax=0.8),
    "lstm": Row("LSTM of 64 units over 50 steps", lambda: w.Lstm(50), 0.9, 1.0, of_torch=0.6, of_jax=0.8),
    "transformer": Row("transformer block", w.Transformer, 1.15, 0.8, 0.8),
    "cnn": Row("CNN, batch 32", w.Cnn, 1.5),
    "hvp": Row("Hessian-vector product, n = 1,000", lambda: w.HessianProduct(1000), 1.0, 2.0, 0.35, of_jax=0.2),
    "hessian": Row("Hessian, n = 50", lambda: w.Hessian(50), 1.0, 2.0, 0.35, of_jax=0.2),
    "jacobian": Row("Jacobian, 100 x 100", lambda: w.Jacobian(100), 1.0, 4.0, 2.5),
    "leaves": Row("1,000 leaves", lambda: w.Leaves(1000), 1.0, 1.0, 0.6),
    "runge-kutta": Row(
        "Runge-Kutta over 200 steps, two states", lambda: w.RungeKutta(200), 0.9, 1.0, 0.005, of_jax=0.05
    ),
    "kalman": Row("Kalman filter, 100 steps of 4 x 4", lambda: w.Kalman(100), 0.9, 1.0, 0.005, of_jax=0.05),
    "kalman-forward": Row(
        "Kalman filter, its forward pass alone compiled", lambda: w.Kalman(100), 0.9, 1.0, 0.012, forward=True
    ),
}


# --- in a process of its own -------------------------------------------------------------------------------------------


def step_of(side: str, program: w.Program, *, forward: bool = False) -> tuple[w.Step, str]:
    """Return a step of a program as a side makes it, and that side's version; `forward`: its forward pass alone is compiled."""
    library = LIBRARIES.get(side, side)
    if side in (*COMPILERS, UNROLLED):  # on one thread, as the others
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if side == UNROLLED:
        program.unroll = True
    lib = load_peer("torch" if side == "torch-compile" else library)
    compiles = {"native": {"executor": "native"}, "exact": {"executor": "native", "exact": True}, "compiled": {}}
    how = compiles.get(side)
    if forward and how is not None:
        inside = program.forward
        compiled = lib.compile(lambda *leaves: inside(lib, *leaves), **how)
        program.forward = lambda _, *leaves: compiled(*leaves)  # type: ignore[method-assign]
    step = program.step(library, lib)
    if not forward and how is not None:
        step = lib.compile(step, **how)
    return step, f"{lib.__name__.replace('numpy', 'NumPy')} {version_of(lib)}"


def cpu_time() -> float:
    """Return the CPU time of this process in seconds.

    A process whose CPU time is limited reads ``time.process_time`` in ticks of 4 ms: Linux then gives the time by which it checks
    the limit.
    """
    if resource is None:
        return time.process_time()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(side: str, name: str, seconds: float, limit: float, save: str | None) -> None:
    """Print the median CPU time of a step in seconds, as JSON; write what a later step gives to a file.

    The system ends the process when it has taken `limit` seconds of CPU time.
    """
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 1))
    row = ROWS[name]
    program = row.program()
    step, version = step_of(side, program, forward=row.forward)
    for _ in range(3):  # what compiles, does so at its first calls
        step()
    if save is not None:
        np.savez(save, *(np.array(g.detach() if hasattr(g, "detach") else g) for g in step()))
    start, count = cpu_time(), 0
    while cpu_time() - start < WARM * seconds or count < FEWEST:
        step()
        count += 1
    repeats = max(1, round(SAMPLE * count / (cpu_time() - start)))
    times: list[float] = []
    while sum(times) < seconds or len(times) < FEWEST:
        start = cpu_time()
        for _ in range(repeats):
            step()
        times.append(cpu_time() - start)
    found = {"seconds": statistics.median(times) / repeats, "version": version, "loop": program.unroll is not None}
    print(json.dumps({**found, "terms": [*program.terms]}))


# --- in turn -----------------------------------------------------------------------------------------------------------


class Comparison:
    """The sides of one row, run in turn.

    Attributes
    ----------
    seconds : dict
        Per side the time of a step, one per round.
    failures : dict
        Per form of a side that is out, why.
    forms : dict
        Per side the form that it runs in.
    """

    def __init__(
        self,
        name: str,
        sides: Sequence[str],
        pythons: dict[str, str],
        limit: float = 300,
        measured: float = 1,
        unrolled: bool = True,
    ) -> None:
        self.name, self.row, self.pythons, self.limit, self.measured = name, ROWS[name], pythons, limit, measured
        self.unrolled, self.loop = unrolled, False
        self.terms: Sequence[float] = ()
        self.sides = sides
        self.seconds: dict[str, list[float]] = {side: [] for side in sides}
        self.failures: dict[str, str] = {}
        self.forms: dict[str, str] = {}
        self.versions: set[str] = set()

    def sample(self, form: str, save: str | None = None) -> float:
        """Run one process."""
        python = self.pythons.get(form, sys.executable)
        measured = self.measured if save is None else FIRST
        command = [python, str(HERE), "--measure", form, self.name, f"--seconds={measured}", f"--limit={self.limit}"]
        command += [] if save is None else ["--save", save]
        place = environment(HERE.parents[1])
        done = subprocess.run(command, env=place, capture_output=True, text=True, check=False)
        if done.returncode:
            if done.returncode in ENDED:
                raise TimeoutError(f"not done within {self.limit:g} s of CPU time")
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        found = json.loads(done.stdout)
        self.versions.add(found["version"])
        self.loop, self.terms = found["loop"], found["terms"]
        return float(found["seconds"])

    def compare(self) -> None:
        """Compare what each side computes with what is computed by hand, and choose its form."""
        with tempfile.TemporaryDirectory() as folder:
            for side in ("hand", *(side for side in self.sides if side != "hand")):
                found: dict[str, float] = {}
                for form in (side, UNROLLED) if side == "jax" and self.loop and self.unrolled else (side,):
                    try:
                        seconds = self.sample(form, f"{folder}/{form}.npz")
                        with np.load(f"{folder}/{form}.npz") as got, np.load(f"{folder}/hand.npz") as expected:
                            check(form, list(got.values()), list(expected.values()), self.terms)
                        found[form] = seconds
                    except WrongGradientError as error:
                        self.failures[form] = f"WRONG: {error}"
                    except TimeoutError as error:
                        self.failures[form] = str(error)
                    except Exception as error:
                        self.failures[form] = describe(error)
                if found:
                    self.forms[side] = min(found, key=found.__getitem__)

    def run(self, pairs: int) -> None:
        """Take samples."""
        self.compare()
        for _, order in in_turn([side for side in self.sides if side in self.forms], pairs, ()):
            for side in order:
                self.seconds[side].append(self.sample(self.forms[side]))

    def ratio(self, side: str, other: str, goal: float | None) -> str:
        """Return the ratio of two sides beside its goal."""
        if not self.seconds.get(side) or not self.seconds.get(other):
            return "-" if goal is None else f"- (goal {goal:g})"
        ratios = [a / b for a, b in zip(self.seconds[side], self.seconds[other], strict=True)]
        low, high = interval(ratios)
        median = statistics.median(ratios)
        found = f"{cell(median)} [{cell(low)}, {cell(high)}]"
        return found if goal is None else f"{found} (goal {goal:g}){'' if median <= goal else ' OVER'}"

    def line(self) -> str:
        """Return the row of the table."""
        times = [cell(statistics.median(found) * 1e3 if found else None) for found in map(self.seconds.get, self.sides)]
        row = self.row
        goals = {"agrad": row.eager, "compiled": row.compiled, "native": row.native, "exact": row.exact, "again": None}
        beside = {("native", "torch"): row.of_torch, ("native", "jax"): row.of_jax}
        beside |= {("native", side): None for side in ("torch-compile", "numba")}
        pairs = compared(self.sides)
        ratios = [self.ratio(a, b, beside[a, b] if (a, b) in beside else goals.get(a, 1.0)) for a, b in pairs]
        return f"| {' | '.join([row.title, *times, *ratios])} |"


def compared(sides: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of sides that ratios are formed of."""
    pairs = [("agrad", "torch"), *((side, "hand") for side in ("compiled", "native", "exact", "again"))]
    pairs += [("compiled", side) for side in COMPILERS]
    pairs += [("native", side) for side in ("torch", *COMPILERS)]
    return [pair for pair in pairs if {*pair} <= {*sides}]


def processor() -> str:
    """Return the name of the processor, as far as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    features = next((line for line in lines if line.startswith("flags")), "").split()
    wide = next((f" ({text})" for flag, text in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in features), "")
    return f"{platform.machine()} {name}{wide}"


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], epilog=f"Programs: {', '.join(ROWS)}.")
    parser.add_argument("--only", action="append", choices=tuple(ROWS), metavar="NAME")
    parser.add_argument(
        "--side", action="append", choices=SIDES, help="which of these take part; all if not given, beside what follows"
    )
    parser.add_argument("--torch-compile", action="store_true", help="also PyTorch's loss through torch.compile")
    parser.add_argument("--jax-python", help="also jax.jit, by the Python that has JAX")
    parser.add_argument("--numba-python", help="also the gradients by hand through numba, by the Python that has it")
    parser.add_argument("--limit", type=float, default=300, help="seconds of CPU time that a process may take")
    parser.add_argument(
        "--scan-only", action="store_true", help="of loops in JAX only lax.scan, which compiles at once"
    )
    parser.add_argument("--pairs", type=int, default=9, help="rounds, of a process per side each")
    parser.add_argument("--torch-python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument(
        "--write",
        nargs="?",
        const=RESULTS,
        type=Path,
        help=f"write the table to a file, {RESULTS.relative_to(HERE.parents[1])} if none is named",
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time that a process measures, at least")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure, options.seconds, options.limit, options.save)
        return 0
    pythons = {"torch": options.torch_python, "torch-compile": options.torch_python}
    pythons |= {"jax": options.jax_python, UNROLLED: options.jax_python, "numba": options.numba_python}
    asked = {"torch-compile": options.torch_compile, "jax": options.jax_python, "numba": options.numba_python}
    compilers = [side for side in COMPILERS if asked[side]]
    sides = [*(options.side or SIDES), *compilers]
    titles = ["CPU time of a step, ms", *sides, *(f"{a} / {b}" for a, b in compared(sides))]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    print(*lines, sep="\n", flush=True)
    notes: dict[str, list[str]] = {}
    versions: set[str] = set()
    loads = [os.getloadavg()[0]]
    for name in options.only or ROWS:
        comparison = Comparison(name, sides, pythons, options.limit, options.seconds, not options.scan_only)
        comparison.run(options.pairs)
        lines.append(comparison.line())
        print(lines[-1], flush=True)
        for form, why in comparison.failures.items():
            notes.setdefault(f"{form}: {why}", []).append(name)
        for side, form in comparison.forms.items():
            if form != side:
                notes.setdefault(f"{side} is {form}", []).append(name)
        versions |= comparison.versions
        loads.append(os.getloadavg()[0])
    missing = [f"{note} ({', '.join(names)})" for note, names in notes.items()]
    facts = (
        f"{dt.datetime.now(tz=dt.UTC).date()}, {processor()}, one thread, Python {platform.python_version()},"
        f" {', '.join(sorted(versions))}; {options.pairs} rounds of {options.seconds:g} s; load of the machine {min(loads):.1f} to {max(loads):.1f}."
    )
    print("", facts, *missing, sep="\n")
    if options.write:
        text = [
            "# Whole programs on the NumPy backend, each library alone",
            facts,
            "\n".join(lines),
            *missing,
            f"`python benchmarks/programs.py {shlex.join(sys.argv[1:])}` makes this page; its docstring says how this is measured.",
        ]
        options.write.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    return int("WRONG" in " ".join(missing))


if __name__ == "__main__":
    sys.exit(main())
