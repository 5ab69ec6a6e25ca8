"""
Ten minutes
===========

From a first gradient to a trained network and to data in chunks, on one real data set: 569 tumours, 30 measurements of each, and
whether it was malignant (Street, Wolberg and Mangasarian 1993; it comes with scikit-learn).
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import agrad as ag
import agrad_dask

# %%
# Tensors record
# --------------
#
# A tensor holds an array of some library, here NumPy's. If it requires a gradient, whatever is computed from it is recorded;
# ``backward()`` goes back through the record and leaves the derivative in ``.grad``.

x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = ag.sum(x**2)
y.backward()
print(y)
print(x.grad)

# %%
# Every operation has a rule, which can be read.

print(ag.rules["tanh"])

# %%
# Real data, a model by hand
# --------------------------
#
# NumPy's arrays need no conversion: beside a tensor they are constants.

data = load_breast_cancer()
features = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
malignant = 1.0 - data.target
order = np.random.default_rng(0).permutation(len(features))
train, test = order[:400], order[400:]


def loss(w, b, x, y):
    """Logistic regression, with a penalty on large weights."""
    fit = ag.nn.functional.binary_cross_entropy_with_logits(x @ w + b, y)
    return fit + 0.5 * ag.sum(w**2) / 400


w = ag.zeros(30, requires_grad=True)
b = ag.tensor(0.0, requires_grad=True)
losses = []
for _ in range(100):
    value = loss(w, b, features[train], malignant[train])
    value.backward()
    with ag.no_grad():  # the update itself is not to be recorded
        w -= 0.5 * w.grad
        b -= 0.5 * b.grad
    w.grad = b.grad = None
    losses.append(value.item())
print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} after 100 steps")

# %%
# Functions instead of tensors
# ----------------------------
#
# ``ag.value_and_grad(f)`` is a function that gives the value of ``f`` and its gradient. Arrays in, arrays out: SciPy's minimisers take
# such functions, and ``ag.optim.minimize`` hands them over.


def objective(p):
    return loss(p[:30], p[30], features[train], malignant[train])


value, gradient = ag.value_and_grad(objective)(np.zeros(31))
print(type(gradient).__name__, gradient.shape)

found = ag.optim.minimize(
    objective, np.zeros(31), method="BFGS", options={"gtol": 1e-8}
)
print(f"loss {found.fun:.6f} after {found.nfev} gradients")

# %%
# Is it right? scikit-learn minimises the same function.

known = LogisticRegression(solver="newton-cholesky", tol=1e-10)
known.fit(features[train], malignant[train])
np.testing.assert_allclose(found.x[:30], known.coef_[0], atol=1e-4)

# %%
# Derivatives of derivatives
# --------------------------
#
# Transforms compose. The Hessian of the loss at its minimum tells how well each weight is determined.

deviations = np.sqrt(np.diag(np.linalg.inv(400 * ag.hessian(objective)(found.x))))[:30]

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
axes[0].plot(losses)
axes[0].axhline(found.fun, color="grey", linestyle=":")
axes[0].set(title="loss by gradient descent", xlabel="step")
strongest = np.argsort(-abs(found.x[:30]))[:8]
axes[1].errorbar(
    found.x[strongest], range(8), xerr=deviations[strongest], fmt="o", capsize=3
)
axes[1].set_yticks(range(8), data.feature_names[strongest])
axes[1].axvline(0, color="grey", linewidth=0.5)
axes[1].set_title("the strongest weights")

# %%
# A network
# ---------
#
# ``agrad.nn`` and ``agrad.optim`` have PyTorch's names. ``ag.compile`` captures the step at its first call, forward and backward pass and
# update, and runs that as a program from then on.

ag.manual_seed(0)
network = ag.nn.Sequential(ag.nn.Linear(30, 16), ag.nn.ReLU(), ag.nn.Linear(16, 1))
optimizer = ag.optim.Adam(network.parameters(), lr=0.01)


@ag.compile
def step(x, y):
    optimizer.zero_grad()
    logits = network(x)[:, 0]
    value = ag.nn.functional.binary_cross_entropy_with_logits(logits, y)
    value.backward()
    optimizer.step()
    return value.item()


for _ in range(100):
    step(features[train], malignant[train])
with ag.no_grad():
    guessed = network(features[test])[:, 0] > 0
right = np.mean(guessed.numpy() == malignant[test])
print(f"{right:.1%} of the {len(test)} tumours that it never saw")
assert right > 0.94

# %%
# When something is wrong
# -----------------------
#
# A gradient is right, or an error is raised that names the operation and your own line.

try:
    ag.grad(lambda x: np.asarray(x) ** 2)(2.0)
except RuntimeError as error:
    print(error)

# %%
# Data in chunks
# --------------
#
# The same loss on Dask arrays: nothing is computed before it is asked for, and no more than some chunks are in memory. With
# ``agrad_dask.from_zarr`` instead of ``from_array`` the data may be larger than the machine.

chunked = [da.from_array(array[train], chunks=100) for array in (features, malignant)]
step = agrad_dask.value_and_grad(
    lambda p, x, y: ag.nn.functional.binary_cross_entropy_with_logits(x @ p, y)
)
value, gradient = step(np.zeros(30), *chunked)  # one pass over the chunks
np.testing.assert_allclose(gradient, features[train].T @ (0.5 - malignant[train]) / 400)

# %%
# From here
# ---------
#
# - the :doc:`gallery <index>`, where each page teaches one thing;
# - coming from :doc:`PyTorch </from_pytorch>`, from :doc:`HIPS autograd and NumPy </from_autograd>`, from
#   :doc:`JAX </from_jax>`;
# - :doc:`data larger than memory </dask>`, :doc:`labelled data </xarray>`, :doc:`transforms </func>`, :doc:`programs </compile>`.
