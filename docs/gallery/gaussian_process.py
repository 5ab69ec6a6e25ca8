"""
Gaussian-process regression
===========================

The hyperparameters of a Gaussian process are those that make the data most likely. The likelihood goes through a Cholesky
factorisation and a triangular system, and its gradient comes from writing it down.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import agrad as ag
from agrad.scipy import linalg

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3, 3, 40))
y = np.sin(2 * x) + 0.3 * x + 0.2 * rng.normal(size=40)


# %%
# The model: a smooth function with some variance and length, seen through noise. The three are positive, so their logarithms
# are what is searched for.


def kernel(a, b, log_variance, log_length):
    return ag.exp(
        log_variance - 0.5 * (a[:, None] - b[None, :]) ** 2 * ag.exp(-2 * log_length)
    )


def negative_log_likelihood(theta):
    covariance = kernel(x, x, theta[0], theta[1]) + ag.exp(theta[2]) * np.eye(len(x))
    lower = ag.linalg.cholesky(covariance)
    white = linalg.solve_triangular(lower, y, lower=True)
    return (
        0.5 * ag.sum(white**2)
        + ag.sum(ag.log(ag.linalg.diagonal(lower)))
        + 0.5 * len(x) * np.log(2 * np.pi)
    )


# %%
# ``ag.value_and_grad`` gives NumPy's arrays for NumPy's arrays, so SciPy's minimiser takes it as it is; ``ag.optim.minimize``
# does both in one.

found = ag.optim.minimize(negative_log_likelihood, np.zeros(3), method="L-BFGS-B")
variance, length, noise = np.exp(found.x)
print(
    f"variance {variance:.3f}, length {length:.3f}, noise {noise:.4f}: {found.nfev} gradients"
)

# %%
# The prediction is linear algebra on the result.

places = np.linspace(-3.5, 3.5, 200)
covariance = kernel(x, x, *found.x[:2]) + noise * np.eye(len(x))
across = kernel(places, x, *found.x[:2])
weights = ag.linalg.solve(covariance, ag.matrix_transpose(across))
mean = (y @ weights).numpy()
deviation = ag.sqrt(variance + noise - ag.sum(across.T * weights, axis=0)).numpy()

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.fill_between(
    places,
    mean - 2 * deviation,
    mean + 2 * deviation,
    alpha=0.2,
    label="two standard deviations",
)
axes.plot(places, mean, label="mean")
axes.plot(x, y, "k.", label="data")
axes.legend()

# %%
# scikit-learn has this likelihood with a gradient written by hand: the two agree, at the start and at the end.

theirs = GaussianProcessRegressor(
    ConstantKernel() * RBF() + WhiteKernel(), optimizer=None
).fit(x[:, None], y)
for theta in (np.zeros(3), found.x):
    value, gradient = ag.value_and_grad(negative_log_likelihood)(theta)
    known_value, known_gradient = theirs.log_marginal_likelihood(
        theta, eval_gradient=True, clone_kernel=False
    )
    np.testing.assert_allclose(value, -known_value, rtol=1e-6)
    np.testing.assert_allclose(gradient, -known_gradient, rtol=1e-6, atol=1e-4)
