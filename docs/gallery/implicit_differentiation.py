"""
Implicit differentiation
========================

How strongly should a fit be regularised? So that it does best on data it has not seen. That loss is a function of the penalty,
through a fit by somebody else's compiled solver; ``func.implicit`` differentiates it by the equations that hold at the minimum.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

import agrad as ag

x, y = load_diabetes(return_X_y=True, scaled=True)
x, y = x * np.sqrt(len(x)), (y - y.mean()) / y.std()
seen, unseen = (
    slice(0, 60),
    slice(60, None),
)  # few patients to learn from, so that the penalty matters

# %%
# The solver is scikit-learn's. The function beside it is what it makes least; its gradient vanishes at the solution.


def fit(log_penalty):
    return (
        Ridge(alpha=float(np.exp(log_penalty)), fit_intercept=False)
        .fit(x[seen], y[seen])
        .coef_
    )


def penalised(w, log_penalty):
    return ag.sum((x[seen] @ w - y[seen]) ** 2) + ag.exp(log_penalty) * ag.sum(w**2)


differentiable = ag.func.implicit(fit, penalised, kind="minimum")


def loss(log_penalty):
    return ag.mean((x[unseen] @ differentiable(log_penalty) - y[unseen]) ** 2)


# %%
# The best penalty is where that gradient is 0.

found = ag.optim.minimize(lambda p: loss(p[0]), np.array([0.0]), method="BFGS")
print(f"penalty {np.exp(found.x[0]):.2f}, loss on unseen patients {found.fun:.4f}")

places = np.linspace(-2, 8, 40)
values, slopes = np.transpose([ag.value_and_grad(loss)(p) for p in places])
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(np.exp(places), values, label="loss on unseen patients")
axes.plot(np.exp(places), slopes, "--", label="its derivative")
axes.axvline(np.exp(found.x[0]), color="grey", linestyle=":")
axes.axhline(0, color="grey", linewidth=0.5)
axes.set(xscale="log", xlabel="penalty")
axes.legend()

# %%
# A ridge fit is linear algebra, so the derivative is known: that of the weights by the penalty is minus the inverse matrix
# times the weights.

for p in (-1.0, 2.0, 5.0):
    matrix = x[seen].T @ x[seen] + np.exp(p) * np.eye(10)
    w = np.linalg.solve(matrix, x[seen].T @ y[seen])
    moved = -np.exp(p) * np.linalg.solve(matrix, w)
    known = 2 * np.mean((x[unseen] @ w - y[unseen]) * (x[unseen] @ moved))
    np.testing.assert_allclose(ag.grad(loss)(p), known, rtol=1e-8)
