"""
Hamiltonian Monte Carlo
=======================

To draw from a density that is known up to a factor, let a particle roll through its landscape: each step needs the gradient of the
log density. Two hundred chains run side by side, by ``vmap`` of ``grad``.
"""

import matplotlib.pyplot as plt
import numpy as np

import agrad as ag

BEND = 0.5


def log_density(q):
    """A banana: the first coordinate normal, the second normal around a parabola of it."""
    return -0.5 * q[0] ** 2 - 0.5 * ((q[1] - BEND * q[0] ** 2) / 0.5) ** 2


# %%
# The function is of one point. Mapped over the first axis it is of one point for each chain; compiled, a call costs some
# microseconds.

slope = ag.compile(ag.vmap(ag.grad(log_density)))
height = ag.compile(ag.vmap(log_density))

# %%
# Leapfrog keeps the energy nearly; what it loses is mended by accepting or rejecting the whole path (Neal 2011).


def move(q, rng, step=0.15, steps=15):
    momentum = rng.normal(size=q.shape)
    before = height(q) - 0.5 * np.sum(momentum**2, axis=1)
    new, p = q, momentum + 0.5 * step * slope(q)
    for i in range(steps):
        new = new + step * p
        p = p + (step if i < steps - 1 else step / 2) * slope(new)
    after = height(new) - 0.5 * np.sum(p**2, axis=1)
    accepted = np.log(rng.uniform(size=len(q))) < after - before
    return np.where(accepted[:, None], new, q), accepted


rng = np.random.default_rng(0)
q, kept, rate = rng.normal(size=(200, 2)), [], []
for i in range(250):
    q, accepted = move(q, rng)
    rate.append(accepted.mean())
    if i >= 50:
        kept.append(q)
drawn = np.concatenate(kept)
print(f"{len(drawn)} draws, {np.mean(rate):.0%} of the paths accepted")

# %%
# One path over the landscape, and the draws.

a, b = np.meshgrid(np.linspace(-3, 3, 100), np.linspace(-2, 5, 100))
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(*drawn[::20].T, ".", markersize=2, alpha=0.5)
axes.contour(
    a, b, np.exp(-0.5 * a**2 - 2 * (b - BEND * a**2) ** 2), colors="k", linewidths=0.7
)
axes.set_aspect("equal")

# %%
# The moments of this density are known: those of a normal number z, and of z**2.

np.testing.assert_allclose(drawn.mean(axis=0), [0, BEND], atol=0.05)
np.testing.assert_allclose(drawn.var(axis=0), [1, 0.25 + 2 * BEND**2], rtol=0.08)
assert np.mean(rate) > 0.8
