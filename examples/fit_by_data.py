"""The gradient of a fit with respect to its data: which measurement affects the result most, and how errors propagate.

``python examples/fit_by_data.py`` fits the rate of an enzyme's reaction to 12 measurements (Treloar, 1974; Bates and
Watts, 1988) with SciPy's curve_fit, which agrad does not trace, and differentiates the result with respect to every
measurement: `agrad.func.implicit` uses the equations that hold at the minimum. Finite differences, which repeat the
fit, are shown for comparison.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import curve_fit

import agrad as ag

CONCENTRATIONS = np.repeat([0.02, 0.06, 0.11, 0.22, 0.56, 1.10], 2)
RATES = np.array([76.0, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200])


def curve(c, fastest, half):
    """The rate at a concentration: half of the maximum where that equals `half`."""
    return fastest * c / (half + c)


def fit(rates):
    """Find the parameters by SciPy; it could be any program."""
    found, _ = curve_fit(curve, CONCENTRATIONS, np.asarray(rates), [200.0, 0.1], ftol=1e-15, xtol=1e-15)
    return found


def misfit(p, rates):
    """The objective that the fit minimises."""
    return ag.sum((curve(ag.asarray(CONCENTRATIONS), p[0], p[1]) - rates) ** 2)


differentiable = ag.func.implicit(fit, misfit, kind="minimum")
rates = ag.asarray(RATES)
p = differentiable(rates).numpy()
moved = ag.func.jacrev(differentiable)(rates).numpy()
again = np.stack([(fit(RATES + h) - fit(RATES - h)) / 2e-3 for h in 1e-3 * np.eye(12)], axis=1)

print("concentration  rate  moves the fastest rate   by differences")
for c, rate, mine, theirs in zip(CONCENTRATIONS, RATES, moved[0], again[0], strict=True):
    print(f"{c:13.2f} {rate:5.0f} {mine:23.4f} {theirs:16.4f}")

# an error of each measurement, propagated to the result
noise = misfit(p, rates).item() / (len(RATES) - 2)
errors = np.sqrt(noise * np.sum(moved**2, axis=1))
print(f"Fastest rate {p[0]:.1f} +- {errors[0]:.1f}, half of it at {p[1]:.4f} +- {errors[1]:.4f}.")


def gain(rates):
    """A derived result: the rate at small concentrations, per unit of concentration."""
    found = differentiable(rates)
    return found[0] / found[1]


most = int(np.argmax(np.abs(ag.func.grad(gain)(RATES))))
print(f"The rate at small concentrations follows measurement {most + 1} most, at {CONCENTRATIONS[most]:.2f}.")
