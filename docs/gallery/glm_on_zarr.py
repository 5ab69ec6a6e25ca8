"""
A regression on a zarr store larger than memory
===============================================

How many trips an hour sees, by eight features of the hour: a Poisson regression whose data stay on disk. Each gradient is one pass
over the chunks, and only a few chunks are in memory at a time. The store of this page is small; the program is the one for a large one.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import zarr
from scipy.optimize import minimize

import agrad as ag
import agrad_dask

scratch = tempfile.TemporaryDirectory()
store = Path(scratch.name)

# %%
# Write the store chunk by chunk: 400,000 rows, 32 MB. The rates follow from weights that are known here.

rng, truth = np.random.default_rng(0), np.linspace(-0.4, 0.4, 8)
rows, chunk = 400_000, 20_000
X = zarr.create_array(store / "X", shape=(rows, 8), chunks=(chunk, 8), dtype="f8")
y = zarr.create_array(store / "y", shape=(rows,), chunks=(chunk,), dtype="f8")
for start in range(0, rows, chunk):
    part = slice(start, start + chunk)
    features = rng.normal(size=(chunk, 8))
    X[part], y[part] = features, rng.poisson(np.exp(1.0 + features @ truth))

# %%
# The loss is that of the rows of one chunk. ``value_and_grad`` runs it, forward and backward, as one task for each chunk, and adds
# up.


def loss(p, X, y):
    log_rate = X @ p["w"] + p["b"]
    return ag.mean(ag.exp(log_rate) - y * log_rate)


step = agrad_dask.value_and_grad(loss, reduce="mean")
lazy = (
    agrad_dask.from_zarr(store / "X", chunks=(chunk, 8)),
    agrad_dask.from_zarr(store / "y", chunks=(chunk,)),
)

# %%
# SciPy minimises; every evaluation reads the data once.

values = []


def as_arrays(p):
    value, gradient = step({"w": p[:8], "b": p[8]}, *lazy)
    values.append(value.item())
    return values[-1], np.append(gradient["w"], gradient["b"])


found = minimize(
    as_arrays,
    np.zeros(9),
    jac=True,
    method="L-BFGS-B",
    options={"gtol": 1e-8, "ftol": 1e-15},
)
print(f"{found.nfev} passes; intercept {found.x[8]:.4f}")

# %%
# The same with a recorded loss on tensors of chunks: ``backward()`` computes nothing by itself. A limit of memory is looked at before
# anything runs.

w = ag.zeros(8, device="dask", requires_grad=True)
log_rate = lazy[0] @ w + 1.0
recorded = ag.mean(ag.exp(log_rate) - lazy[1] * log_rate)
recorded.backward()
ag.compute(recorded, w.grad, max_memory="16MiB")

figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
axes[0].semilogy(np.array(values[:-1]) - min(values) + 1e-12)
axes[0].set(title="loss above the least", xlabel="pass over the data")
axes[1].plot(truth, found.x[:8], "o")
axes[1].plot(truth, truth, color="grey", linewidth=0.5)
axes[1].set(title="weights: true, found")

# %%
# In memory, Newton's method in NumPy finds the same numbers.

held, counts = np.column_stack([X[:], np.ones(rows)]), y[:]
p = np.zeros(9)
for _ in range(20):
    rate = np.exp(held @ p)
    p -= np.linalg.solve(held.T @ (held * rate[:, None]), held.T @ (rate - counts))
np.testing.assert_allclose(found.x, p, atol=1e-6)
known = X[:].T @ (np.exp(1.0) - y[:]) / rows
np.testing.assert_allclose(w.grad.numpy(), known, rtol=1e-8)
scratch.cleanup()
