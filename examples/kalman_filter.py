"""Fit a Kalman filter: the likelihood of a series is one loop, `ag.func.scan`, and its gradient is another.

    python examples/kalman_filter.py                  # 1,000 measurements
    python examples/kalman_filter.py --length 20000

A mass on a spring is pushed at random, and its position is measured with noise. The filter goes over the measurements
once: it carries the expected state and its covariance, and computes the likelihood of each measurement before it sees
it. The negative sum of their logarithms is minimal at the stiffness, the friction and the noise that fit the series
best.

Compiled, the function is a program of a few dozen steps for any number of measurements: `print(program)` shows two
loops with a body each, which the last lines count.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

import agrad as ag

STEP = 0.1
TRUE = {"stiffness": 2.0, "friction": 0.2, "push": 0.5, "noise": 0.3}


def system(stiffness, friction):
    """Return the matrix that moves position and velocity on by a step (to second order)."""
    rates = ag.stack([ag.stack([ag.zeros_like(friction), ag.ones_like(friction)]), ag.stack([-stiffness, -friction])])
    return ag.eye(2, dtype="float64") + STEP * rates + 0.5 * STEP**2 * (rates @ rates)


def loss(logs, measured):
    """Return the negative mean logarithm of the likelihood of the measurements."""
    values = {name: ag.exp(log) for name, log in logs.items()}
    a = system(values["stiffness"], values["friction"])
    q = STEP * values["push"] ** 2 * ag.asarray([[0.0, 0.0], [0.0, 1.0]])
    r = values["noise"] ** 2

    def step(state, y):
        mean, covariance = a @ state["mean"], a @ state["covariance"] @ a.mT + q
        variance, error = covariance[0, 0] + r, y - mean[0]
        gain = covariance[:, 0] / variance
        after = {
            "mean": mean + gain * error,
            "covariance": covariance - gain[:, None] * covariance[None, 0, :],
        }
        return after, 0.5 * (ag.log(2 * math.pi * variance) + error**2 / variance)

    start = {"mean": ag.zeros(2, dtype="float64"), "covariance": ag.eye(2, dtype="float64")}
    return ag.mean(ag.func.scan(step, start, measured)[1])


def measurements(length, seed):
    """Return positions with noise, of a system with the true parameters."""
    rng = np.random.default_rng(seed)
    a = system(ag.asarray(TRUE["stiffness"]), ag.asarray(TRUE["friction"])).numpy()
    state, found = np.zeros(2), np.empty(length)
    for i in range(length):
        state = a @ state + [0.0, math.sqrt(STEP) * TRUE["push"] * rng.normal()]
        found[i] = state[0] + TRUE["noise"] * rng.normal()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--length", type=int, default=1000, help="how many measurements (1000)")
    parser.add_argument("--steps", type=int, default=100, help="how many steps of Adam (100)")
    options = parser.parse_args()
    if options.length < 2 or options.steps < 1:
        parser.error("--length must be at least 2, --steps at least 1")

    measured = measurements(options.length, seed=1)
    logs = {name: ag.asarray(0.0, dtype="float64").requires_grad_() for name in TRUE}
    optimizer = ag.optim.Adam(logs.values(), lr=0.1)
    graded = ag.compile(ag.func.value_and_grad(loss), fullgraph=True)
    began = time.perf_counter()
    for i in range(options.steps):
        value, grads = graded({name: log.detach() for name, log in logs.items()}, measured)
        for name, log in logs.items():
            log.grad = grads[name]
        optimizer.step()
        if i % 20 == 0 or i == options.steps - 1:
            print(f"step {i:4}  loss {float(value):.6f}")
    print(f"{options.steps} steps over {options.length} measurements took {time.perf_counter() - began:.1f} s")
    for name, log in logs.items():
        print(f"{name:10} {float(ag.exp(log.detach())):.3f}  (true: {TRUE[name]})")
    (program,) = graded.programs
    loops = [step for step in program.steps if step.op == "func.scan"]
    print(
        f"the program has {len(program.steps)} steps, of which {len(loops)} are loops of {loops[0].args[1].length} calls"
    )


if __name__ == "__main__":
    main()
