"""The cost of capture, of calls and in memory of compiled functions, and which programs compile.

Run from a checkout with an environment where NumPy, pluggy and array-api-compat are installed::

    python benchmarks/compiling.py             # a few minutes
    python benchmarks/compiling.py --write     # the table goes to benchmarks/results/compiling.md

Every row is measured in a separate process: CPU time (``time.process_time``) on one thread, and for memory the peak of
``tracemalloc`` during one step, including memory kept between steps. The rows print their goals. A second table counts
which of `steps`, the examples and the gallery compile, and says why the rest do not (see `compiles`).
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib.util
import json
import platform
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiles import PAGES, of_page, of_steps
from measuring import environment, load_peer, version_of

import numpy as np  # isort: skip (after the number of threads is set)

import workloads as w  # isort: skip (likewise)

HERE = Path(__file__).resolve()
RESULTS = HERE.parent / "results" / "compiling.md"
CALLS = 2000
ROUNDS = 15


def empty_call(kind: str) -> dict[str, float]:
    """Return the time of a call of a compiled function that returns its first tensor or a value, and its conditions."""
    ag = load_peer("agrad")
    tensors = [ag.ones(3) for _ in range(13)]
    arrays = [np.ones(3) for _ in range(13)]
    state = {f"k{i}": 0.5 + i for i in range(20)}
    args: tuple[object, ...] = tuple(tensors[:3])
    kwargs: dict[str, object] = {}
    mode = contextlib.nullcontext
    count = 3

    def first(*args: object, **_: object) -> object:
        return args[0]

    def nothing(*_: object) -> None:
        pass

    f: Callable[..., object] = nothing if kind in ("arrays", "list", "dict") else first
    if kind == "tensors-13":
        args, count = tuple(tensors), 13
    elif kind == "arrays":
        args = tuple(arrays[:3])
    elif kind == "list":
        args = (arrays[:3],)
    elif kind == "dict":
        args = (dict(zip("abc", tensors, strict=False)),)
    elif kind == "keywords":
        args, kwargs = tuple(tensors[:1]), {"y": tensors[1], "z": tensors[2]}
    elif kind == "floats":  # as results: values that a function does not touch are conditions
        args, count, f = (tensors[0], 0.5, 1.5), 1, lambda _, *floats: floats
    elif kind == "no_grad":
        mode = ag.no_grad
    elif kind == "parameters":
        args = tuple(ag.nn.Parameter(t) for t in tensors[:3])
    elif kind == "conditions":

        def f(x: object, *_: object) -> object:
            return x if sum([state[key] for key in state]) else None

    elif kind == "result":
        f = lambda x, y, z: {"b": x, "a": (y, [z])}
    compiled = ag.compile(f, check=False)
    found = []
    with mode():
        for _ in range(CALLS):
            compiled(*args, **kwargs)
        for _ in range(ROUNDS):
            start = time.process_time()
            for _ in range(CALLS):
                compiled(*args, **kwargs)
            found.append((time.process_time() - start) / CALLS)
    goal = 2e-6 + 1e-7 * (count + conditions_of(compiled))
    return {"seconds": sorted(found)[ROUNDS // 2], "least": min(found), "goal": goal}


def conditions_of(compiled: Any) -> int:
    """Return how many conditions the single program of a compiled function has; those of a container, or a class, are one."""
    return len(next(iter(compiled._cached.values()))[0].links)


class Holder:
    """An object with a number."""

    def __init__(self, number: float) -> None:
        self.number = number


def call_beside_objects(count: int) -> dict[str, float]:
    """Measure the call of a function that reads a number of each of many objects."""
    ag = load_peer("agrad")
    holders, x, found = [Holder(1.0) for _ in range(count)], ag.ones(3), []

    def first(x: Any) -> Any:
        return x if all(holder.number for holder in holders) else None

    compiled = ag.compile(first, check=False)
    for _ in range(CALLS):
        compiled(x)
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(CALLS):
            compiled(x)
        found.append((time.process_time() - start) / CALLS)
    goal = 2e-6 + 1e-7 * (1 + conditions_of(compiled))
    return {"seconds": sorted(found)[ROUNDS // 2], "least": min(found), "goal": goal}


def values_that_decide(count: int = 20) -> dict[str, float]:
    """Return the cost of each value that Python branches on: a program that looks at some, relative to one that does not."""
    ag = load_peer("agrad")

    def chosen(x: Any) -> Any:
        for _ in range(count // 2):
            x = x + 1.0
            if x > 0 and float(x) != 0.5:
                x = x * 2.0
        return x

    compiled, x = ag.compile(chosen, check=False), ag.asarray(1.0)
    compiled(x)
    (kept,) = next(iter(compiled._cached.values()))
    runs = [program.runner(kept.backend, exact=False, threads=1) for program in (kept.program, kept.stopping)]
    least = [1.0, 1.0]
    for _ in range(ROUNDS * 10):
        for i, run in enumerate(runs):
            start = time.process_time()
            for _ in range(CALLS // 10):
                run(x._raw)
            least[i] = min(least[i], (time.process_time() - start) / (CALLS // 10))
    return {"each": (least[1] - least[0]) / len(kept.conditions), "count": len(kept.conditions)}


def seconds_of(function: Callable[[], Any]) -> float:
    """Return the CPU time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def capture_of_an_operation() -> dict[str, float]:
    """Return the time of the first call of a chain per step of its program, after another chain was captured."""
    ag = load_peer("agrad")
    found = {}
    for ops in (50, 1000):
        compiled = ag.compile(w.Chain(ops).step("agrad", ag), check=False)
        found["seconds"] = seconds_of(compiled)
        found["steps"] = len(compiled.programs[0].steps)
    return {"each": found["seconds"] / found["steps"], "count": found["steps"]}


def capture_of_a_function(count: int = 400) -> dict[str, float]:
    """Return the cost of each function that a first call inspects, relative to one function with the same statements."""
    ag = load_peer("agrad")
    body = "    y = x\n    if y is None:\n        raise ValueError(y)\n    return y\n"
    texts = {
        "many": "".join(f"def g{i}(x):\n{body}\n" for i in range(count))
        + f"def f(x):\n    for g in ({', '.join(f'g{i}' for i in range(count))},):\n        x = g(x)\n    return x\n",
        "one": f"def g(x):\n{body}\ndef f(x):\n    for _ in range({count}):\n        x = g(x)\n    return x\n",
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one", "many"):
            path = Path(folder, f"{name}.py")
            path.write_text(texts[name], encoding="utf-8")
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise ImportError(name)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            compiled, x = ag.compile(module.f, check=False), ag.ones(3)
            found[name] = seconds_of(lambda c=compiled, x=x: c(x))  # type: ignore[misc]
    return {"each": (found["many"] - found["one"]) / count, "count": count}


def first_network() -> dict[str, float]:
    """Return the time of the first capture of a network in a process, and that of the next similar one."""
    ag = load_peer("agrad")
    from steps import STEPS

    found = []
    for _ in range(2):
        step, args = STEPS["dropout norm schedule clipping"]()
        step(*args)  # the imports of any first step
        compiled = ag.compile(step, check=False)
        found.append(seconds_of(lambda c=compiled, a=args: c(*a)))  # type: ignore[misc]
    return {"first": found[0], "later": found[1]}


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
    """Return the text of a row and whether the minimum time meets the goal: 2 µs, and 0.1 µs for each array and condition."""
    seconds, least, goal = (found[name] * 1e6 for name in ("seconds", "least", "goal"))
    return f"{seconds:.1f} µs, at least {least:.1f} (goal {goal:.1f})", least <= goal


def shown_value(found: dict[str, float]) -> tuple[str, bool]:
    """Return the text of a row and whether a value that Python branches on costs at most 0.3 µs."""
    return f"{found['each'] * 1e6:.2f} µs each of {found['count']} (goal 0.3)", found["each"] <= 3e-7


def shown_each(goal: float) -> Callable[[dict[str, float]], tuple[str, bool]]:
    """Return the function that formats a row of times in milliseconds."""

    def shown(found: dict[str, float]) -> tuple[str, bool]:
        return f"{found['each'] * 1e3:.2f} ms each of {found['count']} (goal {goal})", found["each"] <= goal * 1e-3

    return shown


def shown_first(found: dict[str, float]) -> tuple[str, bool]:
    """Likewise: the goal is 60 ms more."""
    text = f"{found['first'] * 1e3:.0f} ms, a later one {found['later'] * 1e3:.0f} (goal: 60 more)"
    return text, found["first"] <= found["later"] + 0.06


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


#: For each row: its title, its measurement, and its format.
ROWS: dict[str, tuple[str, Callable[[], dict[str, float]], Callable[[dict[str, float]], tuple[str, bool]]]] = {
    "call": ("call of an empty program, 3 tensors", lambda: empty_call("tensors"), shown_call),
    "call-tensors-13": ("the same, 13 tensors", lambda: empty_call("tensors-13"), shown_call),
    "call-arrays": ("the same, 3 arrays", lambda: empty_call("arrays"), shown_call),
    "call-list": ("the same, a list of 3 arrays", lambda: empty_call("list"), shown_call),
    "call-dict": ("the same, a dict of 3 tensors", lambda: empty_call("dict"), shown_call),
    "call-keywords": ("the same, 2 tensors by keyword", lambda: empty_call("keywords"), shown_call),
    "call-floats": ("the same, a tensor and 2 floats", lambda: empty_call("floats"), shown_call),
    "call-no_grad": ("the same, under no_grad", lambda: empty_call("no_grad"), shown_call),
    "call-parameters": ("the same, 3 parameters", lambda: empty_call("parameters"), shown_call),
    "call-conditions": ("the same, what it reads of a dict of 20", lambda: empty_call("conditions"), shown_call),
    "call-objects": ("the same, numbers of 100 objects", lambda: call_beside_objects(100), shown_call),
    "call-result": ("the same, 3 tensors in a dict as its result", lambda: empty_call("result"), shown_call),
    "call-values": ("a value that decides", values_that_decide, shown_value),
    "capture-operation": ("capture, per operation", capture_of_an_operation, shown_each(0.3)),
    "capture-function": ("capture, per function looked into", capture_of_a_function, shown_each(1.0)),
    "first-network": ("first capture of a network", first_network, shown_first),
    "steps-3k": ("first call, 3,000 steps", lambda: capturing(1_000), shown_capture),
    "steps-30k": ("first call, 30,000 steps", lambda: capturing(10_000), shown_length),
    "steps-100k": ("first call, 100,000 steps", lambda: capturing(33_000), shown_length),
    "peak-10m": ("peak memory, 12 elementwise ops, 10M", lambda: peak("10m"), shown_peak),
    "peak-transformer": ("peak memory, transformer block", lambda: peak("transformer"), shown_peak),
}


def measured(name: str) -> Any:
    """Measure a row, or run a page, in a separate process; raise `RuntimeError` if that fails."""
    command = [sys.executable, str(HERE), "--measure", name]
    variables = environment(HERE.parents[1]) | {"AGRAD_TRACEBACK": "full"}  # the last line is the error
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def costs(names: list[str]) -> list[str]:
    """Measure rows, and print them."""
    lines = ["| compiled functions | |", "|---|---|"]
    print(*lines, sep="\n", flush=True)
    for name in names:
        title, _, show = ROWS[name]
        try:
            text, met = show(measured(name))
            text += "" if met else " OVER"
        except RuntimeError as error:
            text = f"failed: {error}"
        lines.append(f"| {title} | {text} |")
        print(lines[-1], flush=True)
    return lines


def what_compiles() -> list[str]:
    """Print which of the steps and of each page compile, and why the rest do not."""
    lines = ["| of | compile | run as they are, and why |", "|---|---|---|"]
    print("", *lines, sep="\n", flush=True)
    for name in ("benchmarks/steps.py", *PAGES):
        try:
            reasons = measured(name)
        except RuntimeError as error:
            lines.append(f"| {name} | | could not be run: {error} |")
        else:
            left = {function: reason for function, reason in reasons.items() if reason is not None}
            why = "; ".join(f"{function}: {reason}" for function, reason in left.items())
            lines.append(f"| {name} | {len(reasons) - len(left)} of {len(reasons)} | {why} |")
        print(lines[-1], flush=True)
    return lines


def main() -> int:
    """Run the command line's request."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", action="append", choices=(*ROWS, "what"), metavar="NAME", help="a row; what: the table"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"write the tables to {RESULTS.relative_to(HERE.parents[1])}"
    )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name = options.measure
        found = ROWS[name][1]() if name in ROWS else of_page(name) if name in PAGES else of_steps()
        print(json.dumps(found))
        return 0
    names = options.only or [*ROWS, "what"]
    tables = [costs([name for name in names if name in ROWS])] if set(names) & set(ROWS) else []
    tables += [what_compiles()] if "what" in names else []
    facts = (
        f"{dt.datetime.now(tz=dt.UTC).date()}, {platform.machine()}, one thread, Python {platform.python_version()}, NumPy"
        f" {version_of(np)}, agrad {version_of(load_peer('agrad'))}."
    )
    print("", facts, sep="\n")
    if options.write:
        text = "\n\n".join(
            [
                "# What compiled functions cost",
                facts,
                *("\n".join(lines) for lines in tables),
                "`python benchmarks/compiling.py --write` makes this page.",
            ]
        )
        RESULTS.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
