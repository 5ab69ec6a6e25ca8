"""
How sure is a result that was computed from a fit?
==================================================

A source decays in front of a counter. A fit gives its strength and its rate, which
correlate, and the background; from these follow the half-life, the activity after two
hours and their ratio. ``propagate`` carries the covariance of the fit along, to first
order and with all correlations. A sample, and the package ``uncertainties``, agree.
"""

import matplotlib.pyplot as plt
import numpy as np

import agrad as ag
from agrad.scipy.optimize import curve_fit, least_squares

# %%
# Counts of a minute each have errors that are the roots of what is expected.


def counts(t, strength, rate, background):
    return strength * ag.exp(-rate * t) + background


rng = np.random.default_rng(1)
t = np.arange(0.0, 60.0, 2.0)
expected = 900 * np.exp(-0.05 * t) + 40
seen, sigma = rng.poisson(expected) * 1.0, np.sqrt(expected)
start = np.array([1000.0, 0.1, 10.0])
fit, covariance = curve_fit(counts, t, seen, start, sigma, absolute_sigma=True)
errors = np.sqrt(np.diagonal(covariance))
for name, value, error in zip(
    ("strength", "rate", "background"), fit, errors, strict=True
):
    print(f"{name:>10}: {value:9.4f} +- {error:.4f}")

# %%
# ``least_squares`` reports no errors, as in SciPy, but the Jacobian that they follow from.


def misfit(p):
    return (counts(t, p[0], p[1], p[2]) - seen) / sigma


found = least_squares(misfit, start)
by_jacobian = np.linalg.inv(found.jac.T @ found.jac)
np.testing.assert_allclose(by_jacobian, covariance, rtol=1e-5)

# %%
# What follows from it, with its covariance:


def derived(p):
    half_life = np.log(2.0) / p[1]
    later = p[0] * ag.exp(-p[1] * 120.0)
    return ag.stack([half_life, later, later / p[0] * half_life])


values, spread = ag.func.propagate(derived)(fit, covariance)
spread = np.asarray(spread)
deviations = np.sqrt(np.diagonal(spread))
correlation = spread[0, 1] / (deviations[0] * deviations[1])
for value, deviation in zip(np.asarray(values), deviations, strict=True):
    print(f"{value:.5f} +- {deviation:.5f}")
print(f"half-life and activity correlate by {correlation:.4f}")

# %%
# The package ``uncertainties`` gives the same: version 3.2.3, on this fit as
# ``correlated_values(fit, covariance)``, the formulas written with ``umath``, printed
#
# .. code-block:: text
#
#    13.743076 +- 0.576771
#    2.110863 +- 0.527416
#    0.03232879 +- 0.00956845
#    correlation 0.997932

theirs = [0.576771, 0.527416, 0.00956845]
np.testing.assert_allclose(deviations, theirs, rtol=1e-4)
np.testing.assert_allclose(correlation, 0.997932, rtol=1e-5)

# %%
# A sample of fits, drawn with their covariance, and each carried through the function. The
# activity is skew, as it is strongly curved by the rate: first order does not say so.

drawn = rng.multivariate_normal(fit, covariance, size=20_000)
sample = np.asarray(ag.vmap(derived)(ag.asarray(drawn)))
print("of the sample:", sample.mean(axis=0).round(5), sample.std(axis=0).round(5))
np.testing.assert_allclose(sample.std(axis=0), deviations, rtol=0.25)
fig, axes = plt.subplots(1, 3, figsize=(9, 2.5))
for ax, column, value, deviation in zip(
    axes, sample.T, values, deviations, strict=True
):
    ax.hist(column, bins=60, density=True)
    grid = np.linspace(value - 4 * deviation, value + 4 * deviation, 100)
    bell = np.exp(-((grid - value) ** 2) / (2 * deviation**2))
    ax.plot(grid, bell / (deviation * np.sqrt(2 * np.pi)))
fig.tight_layout()
