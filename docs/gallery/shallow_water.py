"""
The adjoint of 10,000 steps in the memory of 20 states
======================================================

Waves cross a basin with friction, in 10,000 steps of the shallow-water equations. Where
did what reaches one place come from? The answer is a gradient, by the first state. The
plain loop keeps what every step saves until backward. A schedule keeps 20 states, and
computes the steps between them again when it comes to them.
"""

from pathlib import Path

import checkpoint_schedules
import matplotlib.pyplot as plt
import numpy as np

import agrad as ag

SIZE, STEPS, STATES = 64, 10_000, 20
GRAVITY, DEPTH, SPACING, TIME = 9.81, 100.0, 5e3, 60.0  # m / s^2, m, m, s
CORIOLIS = 1e-4  # 1 / s

# %%
# Heights and velocities lie on a staggered, periodic grid. ``friction``, a parameter,
# is used from outside.

friction = ag.tensor(2e-6, requires_grad=True)


def along(field, axis, by):
    return (ag.roll(field, -by, axis=axis) - field) * (by / SPACING)


def step(state, i):
    """Go forward by a minute: first the heights, then the velocities by the new ones."""
    h, u, v = state
    h = h - TIME * (along((DEPTH + h) * u, 0, -1) + along((DEPTH + h) * v, 1, -1))
    slowed = 1 - TIME * friction
    u = slowed * u + TIME * (CORIOLIS * v - GRAVITY * along(h, 0, 1))
    v = slowed * v - TIME * (CORIOLIS * u + GRAVITY * along(h, 1, 1))
    return h, u, v


x, y = np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")
hill = np.exp(-((x - 12.0) ** 2 + (y - 30.0) ** 2) / 18)
still = np.zeros((SIZE, SIZE))

# %%
# ``schedule=20`` is the binomial schedule of Griewank and Walther, which takes the fewest
# steps for 20 states. Any schedule of the package ``checkpoint_schedules`` can be passed
# instead: with files, with two levels, with what a step saves in place of its state.


def height(first, n=STEPS, schedule=STATES):
    """What reaches the place: the mean height around it in the end."""
    start = first, still, still
    h, _, _ = ag.utils.checkpoint_sequence(step, start, n, schedule=schedule)
    return ag.mean(h[35:38, 11:14])


def peak():
    """Return the most memory that this process has held, in bytes, as Linux says."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else ()
    return sum(int(line.split()[1]) * 1024 for line in lines if "VmHWM" in line)


height(still, 9, 2).backward()  # what libraries take when they are first used
friction.grad, before, state = None, peak(), 3 * hill.nbytes
first = ag.asarray(hill, requires_grad=True)
value = height(first)
value.backward()
held = (peak() - before) / state
print(f"{held:.0f} states more than before; the loop's are {STEPS * state >> 20} MiB")

plan = checkpoint_schedules.MultistageCheckpointSchedule(STEPS, STATES, 0)
forward = [len(each) for each in plan if isinstance(each, checkpoint_schedules.Forward)]
print(f"each step was run {sum(forward) / STEPS:.2f} times")

# %%
# Differences of whole runs along a random direction, and by the friction, say the same.

direction = np.random.default_rng(0).normal(size=hill.shape)
with ag.no_grad():
    up, down = (height(ag.asarray(hill + e * direction)).item() for e in (1e-5, -1e-5))
    friction.data = friction.data + 1e-10
    slower = height(first).item()
product = np.vdot(first.grad.numpy(), direction)
np.testing.assert_allclose(product, (up - down) / 2e-5, rtol=1e-5)
slope = (slower - value.item()) / 1e-10
np.testing.assert_allclose(friction.grad.item(), slope, rtol=1e-3)
assert held < 2 * STATES

plt.imshow(first.grad.numpy().T, origin="lower", cmap="RdBu_r")
plt.plot(36, 12, "k*")
plt.title("where the height at the star comes from")
plt.colorbar()
plt.show()
