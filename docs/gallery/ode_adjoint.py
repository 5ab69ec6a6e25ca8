"""
Fitting a differential equation
===============================

Two reactions in a row, A to B to C, and measurements of B with noise. The rates are fitted through ``odeint``, whose gradient comes
from the adjoint equations: memory for the outputs alone, however many steps the solver takes.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import curve_fit

import agrad as ag
from agrad.scipy.integrate import odeint

times = np.linspace(0.0, 10.0, 21)


def exact(t, first, second):  # such a simple system has a solution in closed form
    return first / (second - first) * (np.exp(-first * t) - np.exp(-second * t))


measured = exact(times, 0.8, 0.3) + 0.01 * np.random.default_rng(0).normal(
    size=times.size
)

# %%
# The right side takes SciPy's arguments. What the gradient shall be taken by is among ``args``.


def reactions(y, t, rates):
    a, b = y[0], y[1]
    return ag.stack([-rates[0] * a, rates[0] * a - rates[1] * b])


def misfit(log_rates):
    solution = odeint(
        reactions, [1.0, 0.0], times, (ag.exp(log_rates),), rtol=1e-9, atol=1e-9
    )
    return ag.sum((solution[:, 1] - measured) ** 2)


value, gradient = ag.value_and_grad(misfit)(np.log([0.5, 0.5]))
print(f"misfit {value:.4f}, gradient {gradient.round(4)}")

# %%
# A minimiser does the rest.

found = ag.optim.minimize(
    misfit, np.log([0.5, 0.5]), method="BFGS", options={"gtol": 1e-6}
)
rates = np.exp(found.x)
print(f"rates {rates.round(4)} after {found.nfev} gradients")

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
solution = odeint(reactions, [1.0, 0.0], np.linspace(0, 10, 200), (rates,))
axes.plot(np.linspace(0, 10, 200), solution, label=["A", "B"])
axes.plot(times, measured, "k.", label="measured B")
axes.set_xlabel("time")
axes.legend()

# %%
# The same fit by SciPy, with the closed form instead of the solver, finds the same rates; and the gradient is that of finite
# differences of the closed form.

known, _ = curve_fit(exact, times, measured, [0.7, 0.4], ftol=1e-14, xtol=1e-14)
np.testing.assert_allclose(rates, known, rtol=1e-5)


def misfit_of(
    log_rates,
):  # 0.51: the closed form divides by the difference of the rates
    return np.sum((exact(times, *np.exp(log_rates)) - measured) ** 2)


place, h = np.log([0.5, 0.51]), 1e-6
differences = [
    (misfit_of(place + d) - misfit_of(place - d)) / (2 * h) for d in h * np.eye(2)
]
np.testing.assert_allclose(ag.grad(misfit)(place), differences, rtol=1e-5)
