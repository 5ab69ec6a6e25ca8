"""How far a program's execution jumps through the source: calls, files and changes of file for a few programs.

Run from an environment where agrad and its NumPy backend are installed::

    python benchmarks/walk.py            # the table
    python benchmarks/walk.py --list     # and the way itself, one line per call

Counted with ``sys.setprofile``, from the program's first call to its return:

* frames: Python frames that are entered in agrad, in its NumPy backend, and in code that agrad generated. A
  comprehension is a frame where Python makes it one (before 3.12), a generator is entered at each step. Calls into C,
  frames of NumPy and of the standard library, and the program's own functions are left out.
* files: how many files these frames stand in; a generated function is a file of its own, under the name it has in
  tracebacks.
* hops: how often the file of a frame is another than that of the frame before. It is what a reader follows who steps
  into every call: 0 if all stands in one file.

The program runs twice on other arrays before it is counted on new ones, so work that only happens at first uses
(generating entry points and derivatives, finding kernels, loading a backend) is not counted. The counts are exact and
the same at every run; they depend on the printed versions, and not on the machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from types import FrameType
from typing import Any

import agrad as ag
import agrad_numpy

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(ag.__file__))) + os.sep
OURS = (os.path.join(ROOT, "agrad") + os.sep, os.path.dirname(os.path.abspath(agrad_numpy.__file__)) + os.sep, "<agrad")


def call() -> Callable[[], Any]:
    """Return one recorded call."""
    x = ag.asarray([1.0, 2.0, 3.0], requires_grad=True)
    y = ag.asarray([4.0, 5.0, 6.0], requires_grad=True)
    return lambda: ag.multiply(x, y)


def step() -> Callable[[], Any]:
    """Return two recorded calls and a backward pass to two leaves."""
    x = ag.asarray([1.0, 2.0, 3.0], requires_grad=True)
    y = ag.asarray([4.0, 5.0, 6.0], requires_grad=True)
    return lambda: (x * y).sum().backward()


def transformed() -> Callable[[], Any]:
    """Return the gradients of a loss of two calls, one per row."""
    w = ag.asarray([1.0, 2.0, 3.0])
    rows = ag.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def loss(w: Any, row: Any) -> Any:
        return (w * row).sum()

    return lambda: ag.func.vmap(ag.func.grad(loss), in_dims=(None, 0))(w, rows)


def compiled() -> Callable[[], Any]:
    """Return the first call of a compiled function, in which it is captured."""
    x = ag.asarray([1.0, 2.0, 3.0])
    step = ag.compile(lambda x: (x * x).sum())
    return lambda: step(x)


#: By the name in the table, the function that returns the program with its arrays.
PROGRAMS = {
    "ag.multiply(x, y)": call,
    "(x * y).sum().backward()": step,
    "vmap(grad(loss))(w, rows)": transformed,
    "first call of ag.compile(f)": compiled,
}


def way(make: Callable[[], Callable[[], Any]]) -> list[tuple[str, str]]:
    """Return file and function of every frame that a program enters, in order."""
    entered: list[tuple[str, str]] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            entered.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    for _ in range(2):
        make()()
    program = make()
    sys.setprofile(look)
    try:
        program()
    finally:
        sys.setprofile(None)
    return entered


def main() -> None:
    """Print the table, and the traces if requested."""
    parser = argparse.ArgumentParser(description="Count frames, files and changes of file along a few programs.")
    parser.add_argument("--list", action="store_true", help="print the way itself: file:function per frame")
    listing = parser.parse_args().list
    ways = {name: way(make) for name, make in PROGRAMS.items()}
    print(f"Python {platform.python_version()}, agrad {ag.__version__}, NumPy {version('numpy')}\n")
    print(f"{'program':<28}{'frames':>8}{'files':>8}{'hops':>8}")
    for name, entered in ways.items():
        files = [file for file, _ in entered]
        hops = sum(before != after for before, after in pairwise(files))
        print(f"{name:<28}{len(files):>8}{len(set(files)):>8}{hops:>8}")
    if listing:
        for name, entered in ways.items():
            print(f"\n{name}")
            for file, function in entered:
                print(f"    {file.removeprefix(ROOT)}:{function}")


if __name__ == "__main__":
    main()
