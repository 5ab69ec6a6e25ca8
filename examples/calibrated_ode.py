"""Calibrate a differential equation: hares and lynxes of the Hudson Bay Company, 1900 to 1920.

``python examples/calibrated_ode.py`` fits the equations of Lotka and Volterra, four rates and two numbers of animals in the first
year, to the pelts of each year (in thousands; Howard, Modeling basics, 2009). It prints the rates with their standard errors,
and how well the gradients of three methods agree: the adjoint equations, the steps of the integrator, finite
differences.
"""

from __future__ import annotations

import argparse

import numpy as np

import agrad as ag
from agrad.scipy.integrate import odeint, solve_ivp

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--years", type=int, default=21, metavar="N", help="use the first N years")
options = parser.parse_args()
if not 4 <= options.years <= 21:
    parser.error("--years must be from 4 to 21")

HARES = [
    30,
    47.2,
    70.2,
    77.4,
    36.3,
    20.6,
    18.1,
    21.4,
    22,
    25.4,
    27.1,
    40.3,
    57,
    76.6,
    52.3,
    19.5,
    11.2,
    7.6,
    14.6,
    16.2,
    24.7,
]
LYNXES = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4, 8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6]
years = np.arange(float(options.years))
pelts = ag.log(ag.asarray(np.array([HARES, LYNXES])[:, : options.years]))
NAMES = ["births of hares", "hares caught", "deaths of lynxes", "lynxes fed", "hares in 1900", "lynxes in 1900"]


def animals(y, t, rates):  # noqa: ARG001 (odeint gives the time)
    """The rates of change of the logarithms of both numbers."""
    hares, lynxes = ag.exp(y[0]), ag.exp(y[1])
    return ag.stack([rates[0] - rates[1] * lynxes, rates[3] * hares - rates[2]])


def misfit(p):
    """Squared differences of logarithms, by the integrator's own steps."""
    rates = ag.exp(p)
    found = solve_ivp(
        lambda t, y, rates: animals(y, t, rates),
        (years[0], years[-1]),
        p[4:],
        t_eval=years,
        args=(rates[:4],),
        rtol=1e-6,
        atol=1e-8,
        gradient="discrete",
    )
    return ag.sum((found.y - pelts) ** 2)


def misfit_by_adjoint(p):
    """The same, by the adjoint equations."""
    found = odeint(animals, p[4:], years, (ag.exp(p)[:4],))
    return ag.sum((found.T - pelts) ** 2)


start = np.log([0.5, 0.025, 0.8, 0.025, 30.0, 4.0])
exact = [ag.func.grad(f)(start) for f in (misfit, misfit_by_adjoint)]
differences = [(misfit(start + h) - misfit(start - h)).item() / 2e-4 for h in 1e-4 * np.eye(6)]
size = np.abs(differences).max()
print(f"Gradient at the start: steps and adjoint differ by {np.abs(exact[0] - exact[1]).max() / size:.0e} of its size,")
print(f"steps and finite differences by {np.abs(exact[0] - differences).max() / size:.0e}.")

found = ag.optim.minimize(misfit, start, method="BFGS", options={"gtol": 1e-4})
noise = found.fun / (2 * options.years - 6)
errors = np.sqrt(np.diag(2 * noise * np.linalg.inv(ag.hessian(misfit)(found.x))))
for name, value, error in zip(NAMES, np.exp(found.x), errors, strict=True):
    print(f"{name:>16}  {value:8.4f}  +- {100 * error:4.1f}%")
print(f"Misfit {found.fun:.4f} after {found.nfev} gradients; deviation of a year's pelts {100 * noise**0.5:.0f}%.")
