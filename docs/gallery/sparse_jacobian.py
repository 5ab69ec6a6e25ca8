"""
A stiff system with a sparse Jacobian
=====================================

Two species react and diffuse in a plane: the Brusselator, 3,200 equations, each of which knows its neighbours alone. An implicit
solver asks for their Jacobian, of ten million entries, of which one in five hundred may not be 0. agrad finds which from the
program of the right side, and computes them by a few products. Uncertainty of where it starts is carried along by the same means.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import agrad as ag

n = 40


def rate(t, state):
    u, v = state.reshape((2, n, n))

    def spread(w):
        pairs = [ag.roll(w, 1, axis=k) + ag.roll(w, -1, axis=k) for k in (0, 1)]
        return 4 * (pairs[0] + pairs[1] - 4 * w)

    du = 1 + u * u * v - 4.4 * u + spread(u)
    dv = 3.4 * u - u * u * v + spread(v)
    return ag.stack([du, dv]).reshape((-1,))


# %%
# The state at the beginning, and the pattern of the Jacobian there. It is for all states: nothing is tried out.

y, x = np.mgrid[:n, :n] / n
u, v = 22 * (y * (1 - y)) ** 1.5 + 0.5, 27 * (x * (1 - x)) ** 1.5 + 0.5
start = np.stack([u, v]).ravel()
jacobian = ag.func.sparse_jacobian(rate, argnums=1)
colors = jacobian.coloring(0.0, start)
print(colors)

# %%
# Each point depends on itself, its neighbours and the other species there. Columns of one colour never meet in a row, so one
# product gives them all: as many products as colours, here drawn for the first rows.

corner = ag.func.coloring(colors.pattern[:80, :80])
fig, ax = plt.subplots(figsize=(4, 4))
rows, columns = corner.pattern.nonzero()
ax.scatter(columns, rows, c=colors.columns[columns], cmap="tab20", s=8)
ax.set(title="the first equations, by colour", ylim=(80, -1), aspect="equal")
fig.tight_layout()

# %%
# The solver takes the function as it is, and factors the sparse matrices that it gives.


def plain(t, state):
    return np.asarray(rate(t, ag.asarray(state)))


how = {"method": "BDF", "rtol": 1e-6, "atol": 1e-8, "t_eval": np.arange(7)}
solved = solve_ivp(plain, (0, 6), start, jac=jacobian, **how)
print(f"{solved.nfev} evaluations, {solved.njev} Jacobians, {solved.nlu} factors")

fig, axes = plt.subplots(1, 4, figsize=(10, 2.8))
for ax, at in zip(axes, (0, 1, 3, 6), strict=True):
    ax.imshow(solved.y[: n * n, at].reshape(n, n), vmin=0, vmax=4)
    ax.set(title=f"t = {at}", xticks=[], yticks=[])
fig.tight_layout()

# %%
# How sure is the rate at the beginning, if the state is known to 1 %, each element by itself? The covariance of 3,200 rates is a
# sparse matrix, too: what is measured apart correlates where it meets.

uncertain = ag.func.propagate(rate, argnums=1)
rates, covariance = uncertain(0.0, start, (0.01 * start) ** 2)
errors = np.sqrt(covariance.diagonal())
print(f"{covariance.nnz:,} entries; a rate is known to {errors.mean():.3f}")

# %%
# The Jacobian is exact. SciPy's finite differences come to the same, to half their digits, and a sample of states to the same
# uncertainty.

rng = np.random.default_rng(0)
along, step = rng.normal(size=start.size), 1e-6
apart = plain(0, start + step * along) - plain(0, start - step * along)
product = jacobian(0.0, start) @ along
np.testing.assert_allclose(product, apart / (2 * step), rtol=1e-6, atol=1e-6)
samples = ag.asarray(start * (1 + 0.01 * rng.normal(size=(2000, start.size))))
seen = np.asarray(ag.vmap(lambda state: rate(0.0, state))(samples)).std(axis=0)
np.testing.assert_allclose(seen, errors, rtol=0.12)
