"""
Conductivity from temperatures
==============================

Heat flows along the edges of a graph, in proportion to their conductivities. Sources heat some nodes, others are kept at zero, and
the temperatures solve equations with a sparse matrix. Of the temperatures at a fifth of the nodes, with noise, the conductivities of
all edges are wanted: the gradient goes through the solution to the stored values of the matrix, and no dense one is made.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.sparse import coo_array, csr_array

import agrad as ag

n = 24
node = np.arange(n * n).reshape(n, n)
pairs = (node[:, :-1], node[:, 1:]), (node[:-1], node[1:])
edges = np.hstack([np.stack(pair).reshape(2, -1) for pair in pairs])
y, x = np.mgrid[:n, :n] / (n - 1)
middle = [(a.ravel()[edges[0]] + a.ravel()[edges[1]]) / 2 for a in (x, y)]

# %%
# The matrix is the graph's Laplacian of the inner nodes. Its pattern is constant, and its values are sums of conductivities: a
# constant sparse matrix times these. Which, says how often each edge counts for each entry.

inner = (x.ravel() > 0) & (x.ravel() < 1)  # left and right are kept at zero
number, m = np.where(inner, np.cumsum(inner) - 1, -1), int(inner.sum())
i, j = number[edges]
e = np.arange(i.size)
rows, columns = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
edge, sign = np.tile(e, 4), np.repeat([1.0, 1.0, -1.0, -1.0], i.size)
inside = (rows >= 0) & (columns >= 0)
rows, columns, edge, sign = rows[inside], columns[inside], edge[inside], sign[inside]
pattern = coo_array((np.ones(rows.size), (rows, columns)), shape=(m, m)).tocsr()
stored = pattern.copy()
stored.data = np.arange(pattern.nnz)
where = np.asarray(stored[rows, columns]), edge
counts = csr_array((sign, where), shape=(pattern.nnz, i.size))
laplacian = ag.sparse.from_scipy(pattern)

spots = [(a, b) for b in (0.2, 0.8) for a in (0.2, 0.5, 0.8)]
heat = np.zeros((8, m))
for source, (a, b) in zip(heat, [*spots, (0.3, 0.5), (0.7, 0.5)], strict=True):
    source[number[node[round(b * (n - 1)), round(a * (n - 1))]]] = 1.0


def temperatures(log_conductivity):
    values = ag.sparse.matmul(counts, ag.exp(log_conductivity))
    return ag.sparse.from_scipy(laplacian, values).solve(heat.T)


# %%
# Measurements: a medium that conducts four times as well within a disc.

disc = (middle[0] - 0.6) ** 2 + (middle[1] - 0.45) ** 2 < 0.06
truth = np.log(4.0) * disc
rng = np.random.default_rng(0)
seen = rng.choice(m, m // 5, replace=False)
measured = temperatures(ag.asarray(truth)).numpy()[seen].copy()
measured += (noise := 0.005 * measured.std()) * rng.normal(size=measured.shape)

# %%
# What is minimised: the misfit, and how much neighbouring edges differ. Edges meet at a node, so the differences are one more
# product with a sparse matrix. SciPy's optimiser gets the gradient.

ends = edges.ravel(), np.tile(e, 2)
meet = coo_array((np.ones(2 * i.size), ends), shape=(n * n, i.size)).tocsr()
mean = csr_array(meet / meet.sum(axis=1)[:, None])


def loss(log_conductivity):
    misfit = temperatures(log_conductivity)[seen] - measured
    at_nodes = ag.sparse.matmul(mean, log_conductivity)
    rough = log_conductivity - 0.5 * (at_nodes[edges[0]] + at_nodes[edges[1]])
    return ag.sum((misfit / noise) ** 2) + 20 * ag.sum(rough**2)


value_and_grad = ag.func.value_and_grad(loss)
found = minimize(lambda c: tuple(np.asarray(part) for part in value_and_grad(c)), np.zeros(i.size), jac=True, method="L-BFGS-B",
                 options={"maxiter": 300})  # fmt: skip
print(f"{found.nit} steps: from {loss(np.zeros(i.size)):.3g} to {found.fun:.3g}")

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True)
for ax, c, title in zip(axes, (truth, found.x), ("true", "found"), strict=True):
    shown = ax.scatter(*middle, c=np.exp(c), s=9, vmin=0.8, vmax=4.5)
    ax.set(title=f"conductivity, {title}", aspect="equal")
fig.colorbar(shown, ax=axes)
within, outside = (np.exp(found.x[part].mean()) for part in (disc, ~disc))
print(f"within the disc {within:.2f}, outside {outside:.2f}")
assert within > 2.5 * outside

# %%
# The gradient is that of finite differences, along any direction.

along, step = rng.normal(size=i.size), 1e-5
rise = float(loss(truth + step * along)) - float(loss(truth - step * along))
found = np.asarray(value_and_grad(truth)[1]) @ along
np.testing.assert_allclose(found, rise / (2 * step), rtol=1e-5)
