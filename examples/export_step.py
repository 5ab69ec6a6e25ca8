"""Capture a training step as a program, print it, export it as a NumPy module, and train with only the exported file.

    python examples/export_step.py                   # writes step.py and start.npz into a folder of its own
    python examples/export_step.py --output folder   # keeps them there

A small network learns the sine. Its step, forward pass, gradients and update, runs once and is then a program. The
exported module needs NumPy and nothing from agrad: the last part runs it in a process that cannot import agrad, and
checks that the losses equal agrad's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import agrad as ag

ALONE = """
import sys
sys.modules["agrad"] = None  # importing it is an error
sys.path.insert(0, sys.argv[1])
import numpy as np
from step import program

with np.load(sys.argv[1] + "/start.npz") as file:
    params = {name: file[name] for name in ("w1", "b1", "w2", "b2")}
    x, y = file["x"], file["y"]
for i in range(int(sys.argv[2])):
    loss, params = program(params, x, y)
    if i % 100 == 0:
        print(f"{i:5}  {loss:.10f}")
print(f"{i + 1:5}  {loss:.10f}")
"""


def loss_of(params, x, y):
    hidden = ag.tanh(x @ params["w1"] + params["b1"])
    return ag.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)


def step(params, x, y):
    loss, grads = ag.func.value_and_grad(loss_of)(params, x, y)
    return loss, {name: value - 0.1 * grads[name] for name, value in params.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=500, help="how many steps (500)")
    parser.add_argument("--output", type=Path, help="where the files go")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.output or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        run(folder, options.steps)


def run(folder, steps):
    rng = np.random.default_rng(0)
    x = np.linspace(-3, 3, 64)[:, None]
    y = np.sin(x)
    start = {
        "w1": rng.normal(size=(1, 16)),
        "b1": np.zeros(16),
        "w2": rng.normal(size=(16, 1)) / 4,
        "b2": np.zeros(1),
    }

    program = ag.func.capture(step)(start, x, y)
    print("The step as a program, as `print(program)` shows it:\n")
    print(program)
    print(f"It holds at most {program.memory().peak} bytes.\n")

    params = start
    for _ in range(steps):
        loss, params = program(params, x, y)
    print(f"After {steps} steps of the program the loss is {loss:.10f}.\n")

    (folder / "step.py").write_text(program.source(), encoding="utf-8")
    np.savez(folder / "start.npz", x=x, y=y, **start)
    ag.save(program, folder / "step.agrad")
    print(f"{folder / 'step.py'} has {len(program.source().splitlines())} lines of NumPy. Alone, it gives:\n")
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, str(folder), str(steps)], capture_output=True, text=True, check=True
    )
    print(done.stdout)
    again = float(done.stdout.split()[-1])
    if abs(again - float(loss)) > 1e-9:
        sys.exit("The exported module gives another loss.")


if __name__ == "__main__":
    main()
