"""The cost of agrad compared with PyTorch, HIPS autograd and NumPy by hand.

Run from an environment where agrad and its NumPy backend are installed (torch and autograd if you want them compared)::

    python benchmarks/overhead.py                          # every workload but the large ones, a few minutes
    python benchmarks/overhead.py --large                  # and 10 million elements (about 1 GiB)
    python benchmarks/overhead.py --only chain --only mlp  # by name or by the beginning of a name
    python benchmarks/overhead.py --skip HIPS --rounds 9 --json results.json

Method. The machine is assumed to be shared and noisy, hence:

* Runs are paired. One process holds all libraries; every round takes one sample of each in turn, and the order rotates
  from round to round. Ratios and differences are formed within a round; the median over rounds is printed. Before each
  sample the library makes one untimed step: without it, whoever follows a library with the same kernels gains 5 %.
* The clock is the CPU time of the process (``time.process_time``): it does not run while another process has the core,
  and it counts the kernel's work on page faults. With more than one thread it would add up the threads, so there the
  clock is ``time.perf_counter``. ``--clock`` chooses by hand.
* A sample covers forward, backward, and freeing the graph and the gradients. Making the leaves is not timed.
* The garbage collector stays on with its default thresholds, as a user has it, and is run before every round. What
  importing all the libraries has left is frozen (``gc.freeze``): some 180,000 objects, which no user of one library has,
  and one walk through them takes a third of the time of 100,000 adds.
* Before and after the timing every library's gradients are compared with those written by hand in NumPy: values, shapes
  and (HIPS apart) dtypes. A library that is wrong gets the mark WRONG and no time.
* Everything that depends on a fresh process (start-up, peak memory, the chain of a million ops) runs in subprocesses,
in turn.

Columns: the time of each library, the ratios agrad/torch and agrad/HIPS, the judged quantity, its goal and the mark
(``pass``, ``OVER``, ``WRONG``, ``failed``; ``-`` where there is nothing to judge). Judged is agrad/torch for a goal
without a unit, agrad minus NumPy for a goal with a plus sign, and agrad's own time otherwise. The exit status is 1 if a
library was wrong or failed; a goal missed does not change it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import operator
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from measuring import THREADS, Samples, WrongGradientError, cell, check, in_turn, load_peer, load_peers, version_of

import numpy as np  # isort: skip (after the number of threads is set)

from workloads import Adds, Call, Chain, Elementwise, Leaves, Mlp, Program, Shifts, Step  # isort: skip (likewise)

Clock = Callable[[], float]

PEERS = ("agrad", "torch", "HIPS", "NumPy")
CLOCKS: dict[str, Clock] = {"cpu": time.process_time, "wall": time.perf_counter}
SUBPROCESS_TIMEOUT = 900.0  # seconds
MIB = 2**20


# --- workloads as data ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """A unit of the printed numbers: its name and its length in seconds (or in bytes)."""

    name: str
    length: float


MICROSECONDS = Unit("µs", 1e-6)
MILLISECONDS = Unit("ms", 1e-3)
SECONDS = Unit("s", 1.0)
MEBIBYTES = Unit("MiB", MIB)


@dataclass(frozen=True)
class Goal:
    """The allowed maximum of agrad/torch, of agrad minus NumPy, or of agrad's own number (in the row's unit)."""

    limit: float
    of: Literal["torch ratio", "NumPy excess", "own"] = "torch ratio"

    def text(self, value: float, unit: Unit) -> str:
        """Return `value`, judged or allowed, in its printed form."""
        if self.of == "torch ratio":
            return f"{value:.2f}"
        return f"{value:{'+' if self.of == 'NumPy excess' else ''}.2f} {unit.name}"


@dataclass(frozen=True)
class Workload:
    """One or two rows of the table.

    Parameters
    ----------
    name, title : str
        For ``--only`` and for the table.
    program : Callable or str
        Creates the program; or, if ``run`` is "startup", the key of `STARTUP`.
    unit : Unit
        Of the printed times.
    goal, memory_goal : Goal, optional
        For the time and (``run`` is "isolated") for the peak of memory.
    count : int
        How many ops (or calls) one step makes; times are printed per op if it is not 1.
    repeats : int
        Steps per sample, so that a sample is long against the clock and the change from library to library.
    rounds : int
        Samples per library.
    run : {"paired", "startup", "isolated"}
        In this process, or as a series of subprocesses.
    slow : tuple of str
        Libraries that run only with ``--slow``.
    few : tuple of str
        Libraries that take part in the first `FEW` rounds only.
    large : bool
        Whether the workload needs ``--large`` (or its full name).
    """

    name: str
    title: str
    program: Callable[[], Program] | str
    unit: Unit
    goal: Goal | None = None
    memory_goal: Goal | None = None
    count: int = 1
    repeats: int = 1
    rounds: int = 21
    run: Literal["paired", "startup", "isolated"] = "paired"
    slow: tuple[str, ...] = ()
    few: tuple[str, ...] = ()
    large: bool = False


def call_workload(name: str, op: str) -> Workload:
    """Return the workload that calls one op under ``no_grad``."""
    title = "a * b, no_grad, (4,)" if op == "*" else f"{op}(a, b), no_grad, (4,)"
    goal = Goal(0.5, of="NumPy excess")
    return Workload(name, title, lambda: Call(op), MICROSECONDS, goal, count=Call.CALLS + 1, rounds=31)


def mlp_workload(batch: int, repeats: int) -> Workload:
    """Return the workload of one step of the multilayer perceptron."""
    title = f"MLP 784-256-128-10, batch {batch}"
    return Workload(f"mlp-{batch}", title, lambda: Mlp(batch), MILLISECONDS, Goal(1.0), repeats=repeats)


WORKLOADS = (
    Workload("chain", "chain of 1,000 ops on (4,), per op", lambda: Chain(1000), MICROSECONDS, Goal(0.5), count=1000),
    mlp_workload(64, repeats=10),
    mlp_workload(1024, repeats=1),
    Workload("shifts", "100,000 adds", lambda: Shifts(100_000), MILLISECONDS, Goal(0.3), rounds=15, few=("HIPS",)),
    Workload(
        "adds", "100,000 adds of one leaf", lambda: Adds(100_000), MILLISECONDS, Goal(0.3), rounds=15, few=("HIPS",)
    ),
    Workload("leaves", "1,000 leaves summed", lambda: Leaves(1000), MILLISECONDS, Goal(0.35), slow=("HIPS",)),
    call_workload("call-add", "add"),
    call_workload("call-multiply", "multiply"),
    call_workload("call-less", "less"),
    call_workload("call-operator", "*"),
    Workload(
        "elementwise-1e5", "12 elementwise ops, 100k float32", lambda: Elementwise(10**5), MILLISECONDS, repeats=5
    ),
    Workload(
        "elementwise-1e7",
        "12 elementwise ops, 10M float32",
        lambda: Elementwise(10**7),
        MILLISECONDS,
        Goal(0.4),
        rounds=11,
        large=True,
    ),
    Workload("import", "import", "import", SECONDS, Goal(0.15, of="own"), rounds=5, run="startup"),
    Workload(
        "first-result", "import and first gradient", "first", SECONDS, Goal(0.35, of="own"), rounds=5, run="startup"
    ),
    Workload(
        "million",
        "1,000,000 adds, fresh process",
        lambda: Adds(1_000_000),
        SECONDS,
        memory_goal=Goal(1.1),
        rounds=3,
        run="isolated",
        slow=("HIPS",),
    ),
    Workload(
        "memory-1e7",
        "12 elementwise ops, 10M, fresh process",
        lambda: Elementwise(10**7),
        SECONDS,
        memory_goal=Goal(1.1),
        rounds=3,
        run="isolated",
        large=True,
    ),
)

_TENSOR_FIRST = "x = {lib}.tensor([1.0, 2.0, 3.0], requires_grad=True); (x * x).sum().backward(); x.grad.tolist()"
_NUMPY_FIRST = "x = numpy.array([1.0, 2.0, 3.0]); (x * x).sum(); (2.0 * x).tolist()"
_HIPS_FIRST = "x = numpy.array([1.0, 2.0, 3.0]); autograd.grad(lambda x: numpy.sum(x * x))(x).tolist()"

# Library -> the import, and the computation of a first result.
STARTUP = {
    "agrad": ("import agrad", _TENSOR_FIRST.format(lib="agrad")),
    "torch": ("import torch", _TENSOR_FIRST.format(lib="torch")),
    "HIPS": ("import autograd; import autograd.numpy as numpy", _HIPS_FIRST),
    "NumPy": ("import numpy", _NUMPY_FIRST),
}


# --- measuring --------------------------------------------------------------------------------------------------------


def measure_paired(workload: Workload, peers: dict[str, Any], rounds: int, clock: Clock) -> Samples:
    """Time a workload in this process."""
    assert callable(workload.program)
    samples = Samples()
    expected = workload.program().step("NumPy", np)()
    steps: dict[str, Step] = {}

    def try_one(peer: str) -> None:
        try:
            check(peer, steps[peer](), expected)
        except Exception as error:
            samples.fail(peer, error)
            del steps[peer]

    for peer, lib in peers.items():
        try:
            steps[peer] = workload.program().step(peer, lib)
        except Exception as error:
            samples.fail(peer, error)
        else:
            try_one(peer)
            if peer in steps and peer not in workload.few:
                try_one(peer)  # a second time: warm, and nothing may be left over from the first

    gc.collect()
    gc.freeze()
    for number, order in in_turn(list(steps), rounds, workload.few) if steps else ():
        gc.collect()
        for peer in order:
            step = steps.get(peer)
            if step is None:
                continue
            try:
                if peer not in workload.few:
                    step()  # not timed: brings this library's code and memory back into the caches
                start = clock()
                for _ in range(workload.repeats):
                    step()
                elapsed = clock() - start
            except Exception as error:
                samples.fail(peer, error)
                del steps[peer]
            else:
                samples.values.setdefault(peer, {})[number] = elapsed / (workload.repeats * workload.count)
    for peer in list(steps):
        try_one(peer)
    return samples


def run_python(*arguments: str) -> str:
    """Run this interpreter on `arguments` and return its output; raise RuntimeError with its last lines."""
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parent,  # so that sys.path begins as in this process
        timeout=SUBPROCESS_TIMEOUT,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"exit status {done.returncode}: {last}")
    return done.stdout


def measure_startup(workload: Workload, peers: Iterable[str], rounds: int, clock_name: str) -> Samples:
    """Time the import, or the import and a first gradient, in fresh interpreters (one untimed run each before)."""
    clock = f"time.{CLOCKS[clock_name].__name__}"
    samples = Samples()
    alive = list(peers)
    for number, order in in_turn(alive, rounds + 1, ()):
        for peer in order:
            if peer in samples.failures:
                continue
            imports, first = STARTUP[peer]
            body = f"{imports}\n{first}" if workload.program == "first" else imports
            code = f"import time\nstart = {clock}()\n{body}\nprint({clock}() - start)"
            try:
                seconds = float(run_python("-c", code))
            except Exception as error:
                samples.fail(peer, error)
            else:
                if number:
                    samples.values.setdefault(peer, {})[number] = seconds
    return samples


def measure_isolated(workload: Workload, peers: Iterable[str], rounds: int, clock_name: str) -> tuple[Samples, Samples]:
    """Return time and peak memory of single steps in fresh interpreters."""
    times, peaks = Samples(), Samples()
    options = ("--threads", str(THREADS), "--clock", clock_name)
    for number, order in in_turn(list(peers), rounds, ()):
        for peer in order:
            if peer in times.failures:
                continue
            try:
                result = json.loads(run_python(__file__, *options, "--worker", peer, workload.name))
                if result["wrong"]:
                    raise WrongGradientError(result["wrong"])
            except Exception as error:
                times.fail(peer, error)
                peaks.fail(peer, error)
            else:
                times.values.setdefault(peer, {})[number] = result["seconds"]
                if result["bytes"] is not None:
                    peaks.values.setdefault(peer, {})[number] = result["bytes"]
    return times, peaks


def resident_bytes(key: Literal["VmRSS", "VmHWM"]) -> int | None:
    """Return the resident memory of this process, now or at its peak; None if the system does not report it.

    ``getrusage`` will not do: in a subprocess its peak begins with the parent's.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":")), None)


def reset_peak() -> None:
    """Reset the peak of resident memory, if the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def work(peer: str, workload: Workload, clock: Clock) -> None:
    """Run one step as the subprocess of `measure_isolated` and print the result as JSON."""
    assert callable(workload.program)
    lib = load_peer(peer)
    Chain(Chain.ops_per_turn).step(peer, lib)()  # whatever loads at the first use is not counted
    program = workload.program()
    step = program.step(peer, lib)
    gc.collect()
    reset_peak()
    before = resident_bytes("VmRSS")
    start = clock()
    gradients = step()
    seconds = clock() - start
    peak = resident_bytes("VmHWM")
    try:
        check(peer, gradients, program.by_hand())
        wrong = ""
    except WrongGradientError as error:
        wrong = str(error)
    size = None if before is None or peak is None else peak - before
    print(json.dumps({"seconds": seconds, "bytes": size, "wrong": wrong}))


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """One row of the table; numbers in `unit`, None where there is none."""

    name: str
    title: str
    unit: str
    numbers: dict[str, float | None]
    torch_ratio: float | None
    hips_ratio: float | None
    judged: float | None
    judged_text: str
    goal: float | None
    goal_text: str
    mark: str
    failures: dict[str, str]
    samples: dict[str, list[float]]


def make_row(name: str, title: str, unit: Unit, goal: Goal | None, samples: Samples) -> Row:
    """Turn samples into a row: medians, ratios, and the judgement."""
    ratios = {peer: samples.paired(operator.truediv, "agrad", peer) for peer in ("torch", "HIPS")}
    numbers = {}
    for peer in PEERS:
        median = samples.median(peer)
        numbers[peer] = None if median is None else median / unit.length
    judged = None
    if goal is not None:
        if goal.of == "torch ratio":
            judged = ratios["torch"]
        elif goal.of == "NumPy excess":
            excess = samples.paired(operator.sub, "agrad", "NumPy")
            judged = None if excess is None else excess / unit.length
        else:
            judged = numbers["agrad"]
    if "agrad" in samples.failures:
        mark = "WRONG" if "agrad" in samples.wrong else "failed"
    elif goal is None or judged is None:
        mark = "-"
    else:
        mark = "pass" if judged <= goal.limit else "OVER"
    return Row(
        name=name,
        title=title,
        unit=unit.name,
        numbers=numbers,
        torch_ratio=ratios["torch"],
        hips_ratio=ratios["HIPS"],
        judged=judged,
        judged_text="-" if goal is None or judged is None else goal.text(judged, unit),
        goal=goal.limit if goal else None,
        goal_text=goal.text(goal.limit, unit) if goal else "-",
        mark=mark,
        failures=samples.failures,
        samples={peer: list(by_round.values()) for peer, by_round in samples.values.items()},
    )


def measure(workload: Workload, peers: dict[str, Any], rounds: int, clock_name: str) -> list[Row]:
    """Measure one workload and return its rows."""
    if workload.run == "paired":
        samples = measure_paired(workload, peers, rounds, CLOCKS[clock_name])
        return [make_row(workload.name, workload.title, workload.unit, workload.goal, samples)]
    if workload.run == "startup":
        samples = measure_startup(workload, peers, rounds, clock_name)
        return [make_row(workload.name, workload.title, workload.unit, workload.goal, samples)]
    times, peaks = measure_isolated(workload, peers, rounds, clock_name)
    return [
        make_row(workload.name, f"{workload.title}: time", workload.unit, workload.goal, times),
        make_row(f"{workload.name}-peak", f"{workload.title}: peak", MEBIBYTES, workload.memory_goal, peaks),
    ]


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned text."""
    lines = [["workload", "unit", *PEERS, "ag/torch", "ag/HIPS", "judged", "goal", "mark"]]
    for row in rows:
        ratios = ["-" if ratio is None else f"{ratio:.2f}" for ratio in (row.torch_ratio, row.hips_ratio)]
        numbers = [cell(row.numbers[peer]) for peer in PEERS]
        goal = row.goal_text if row.goal is None else f"<= {row.goal_text}"
        lines.append([row.title, row.unit, *numbers, *ratios, row.judged_text, goal, row.mark])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = []
    for line in lines:
        left = [entry.ljust(width) for entry, width in zip(line[:2], widths[:2], strict=True)]
        right = [entry.rjust(width) for entry, width in zip(line[2:], widths[2:], strict=True)]
        texts.append("  ".join([*left, *right]))
    texts.insert(1, "-" * len(texts[0]))
    return "\n".join(texts)


# --- the command ------------------------------------------------------------------------------------------------------


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    names = ", ".join(workload.name for workload in WORKLOADS)
    parser = argparse.ArgumentParser(
        description="What agrad costs beside PyTorch, HIPS autograd and NumPy by hand.",
        epilog=f"Workloads: {names}.",
        allow_abbrev=False,
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="a workload, or the beginning of some names")
    parser.add_argument("--skip", action="append", default=[], choices=PEERS[1:], help="leave out a library")
    parser.add_argument("--large", action="store_true", help="also the workloads with 10 million elements")
    parser.add_argument("--slow", action="store_true", help="also the libraries that need seconds for a workload")
    parser.add_argument("--rounds", type=int, help="rounds of every workload, instead of each one's own number")
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS and torch (default 1)")
    parser.add_argument("--clock", choices=CLOCKS, help="default: cpu with one thread, otherwise wall")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything measured to this file")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    for name in arguments.only or ():
        if not any(workload.name.startswith(name) for workload in WORKLOADS):
            parser.error(f"no workload is called {name!r}; there are {names}")
    arguments.clock = arguments.clock or ("cpu" if arguments.threads == 1 else "wall")
    return arguments


def selected(only: Sequence[str] | None, large: bool) -> list[Workload]:
    """Return the workloads to run; a large one needs ``--large`` or its full name."""
    chosen = [w for w in WORKLOADS if only is None or any(w.name.startswith(name) for name in only)]
    return [w for w in chosen if not w.large or large or w.name in (only or ())]


def environment(peers: dict[str, Any], clock_name: str) -> dict[str, Any]:
    """Return the configuration that the numbers depend on."""
    versions = {name: version_of(module) for name, module in peers.items()}
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "versions": versions,
        "threads": THREADS,
        "clock": clock_name,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the workloads and print the table; return the exit status."""
    arguments = parse(argv)
    if arguments.worker:
        peer, name = arguments.worker
        work(peer, next(w for w in WORKLOADS if w.name == name), CLOCKS[arguments.clock])
        return 0

    peers, notes = load_peers(peer for peer in PEERS if peer not in arguments.skip)
    rows: list[Row] = []
    workloads = selected(arguments.only, arguments.large)
    for workload in workloads:
        print(f"measuring {workload.name} ...", file=sys.stderr, flush=True)
        taking_part = {peer: lib for peer, lib in peers.items() if arguments.slow or peer not in workload.slow}
        rows += measure(workload, taking_part, arguments.rounds or workload.rounds, arguments.clock)

    facts = environment(peers, arguments.clock)
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    print(f"Python {facts['python']}, {versions}; {THREADS} thread(s), {arguments.clock} time; medians\n")
    print(table(rows))
    failures = [f"{row.name}: {peer}: {reason}" for row in rows for peer, reason in row.failures.items()]
    if notes or failures:
        print("\n" + "\n".join(notes + failures))
    if arguments.json:
        report = {"environment": facts, "notes": notes, "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
