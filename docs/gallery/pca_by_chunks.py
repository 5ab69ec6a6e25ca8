"""
PCA and matrix factorisation by chunks
======================================

The best approximation of a matrix by one of small rank is, for given components, a sum over rows. So the components are found by
passes over chunks; and where entries are missing, by the same loss on those that are there.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import agrad as ag
import agrad_dask

RANK, RIDGE = 8, 3.0
digits = load_digits().data / 16
centred = digits - digits.mean(axis=0)
there = np.random.default_rng(0).uniform(size=digits.shape) < 0.5  # half of the pixels
rows, mask = (da.from_array(a, chunks=(200, 64)) for a in (centred, there))

# %%
# For given components the best scores of a row solve a small linear system. The loss differentiates through it, so that it is a
# function of the components alone.


def left_over(v, rows):
    scores = ag.linalg.solve(v @ v.T, v @ rows.T)
    return ag.sum((rows - scores.T @ v) ** 2)


def left_over_where_seen(v, rows, mask):
    mask = ag.astype(mask, ag.float64)
    products = ag.extra.einsum("ip,np,jp->nij", v, mask, v) + RIDGE * ag.eye(RANK)
    scores = ag.linalg.solve(products, ((mask * rows) @ v.T)[:, :, None])[:, :, 0]
    fit = ag.sum(mask * (rows - scores @ v) ** 2)
    size = ag.sum(scores**2) + ag.sum(v**2) * rows.shape[0] / len(digits)
    return fit + RIDGE * size  # some rows see few pixels


# %%
# Each evaluation is one pass over the chunks.


def find(loss, *data):
    step = agrad_dask.value_and_grad(loss, reduce="sum")

    def as_arrays(p):
        value, gradient = step(p.reshape(RANK, 64), *data)
        return value.item(), gradient.ravel()

    start = np.random.default_rng(1).normal(size=RANK * 64) / 8
    options = {"maxiter": 300, "gtol": 1e-4, "ftol": 1e-13, "maxcor": 30}
    found = minimize(as_arrays, start, jac=True, method="L-BFGS-B", options=options)
    print(f"{loss.__name__}: {found.fun:.4f} after {found.nfev} passes")
    return found.x.reshape(RANK, 64), found.fun


components, least = find(left_over, rows)
of_half, _ = find(left_over_where_seen, rows, mask)

# %%
# From half of the pixels, the other half.

filled = []
for row, seen in zip(centred, there, strict=True):
    v = of_half[:, seen]
    scores = np.linalg.solve(v @ v.T + RIDGE * np.eye(RANK), v @ row[seen])
    filled.append(np.where(seen, row, scores @ of_half))
filled = np.array(filled)

figure, axes = plt.subplots(3, 8, figsize=(7, 2.8), layout="constrained")
for i in range(8):
    axes[0, i].imshow(
        np.where(there[i], digits[i], np.nan).reshape(8, 8), cmap="gray_r"
    )
    axes[1, i].imshow((filled[i] + digits.mean(axis=0)).reshape(8, 8), cmap="gray_r")
    axes[2, i].imshow(digits[i].reshape(8, 8), cmap="gray_r")
for ax, name in zip(axes[:, 0], ["seen", "filled", "true"], strict=True):
    ax.set_ylabel(name)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])

# %%
# Eckart and Young (1936): the least is the sum of the squares of the singular values beyond the rank, and the components span the
# singular vectors of the others.

_, values, vectors = np.linalg.svd(centred, full_matrices=False)
np.testing.assert_allclose(least, np.sum(values[RANK:] ** 2), rtol=1e-8)
basis = np.linalg.qr(components.T)[0]
np.testing.assert_allclose(
    basis @ basis.T, vectors[:RANK].T @ vectors[:RANK], atol=1e-3
)
error, spread = (np.sqrt(np.mean(a[~there] ** 2)) for a in (filled - centred, centred))
print(f"error of hidden pixels {error:.3f}, where their means leave {spread:.3f}")
assert error < 0.8 * spread
