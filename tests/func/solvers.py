"""SciPy's solvers with derivatives by hand and with agrad's: what each finds, and how often it evaluates.

``python tests/func/solvers.py`` prints the table in docs/from_autograd.md. All functions are written in NumPy alone.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import scipy
from scipy import integrate, optimize

import agrad as ag

# -- functions, and their derivatives by hand -----------------------------------------------------------------------------


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def valley(x):
    """Convex, for methods whose first step needs a positive definite Hessian."""
    return np.sum(np.exp(x) - x) + np.sum(x) ** 2


def decay(p, t):
    return p[0] * np.exp(-p[1] * t)


def decay_slopes(p, t):
    return np.stack([np.exp(-p[1] * t), -t * p[0] * np.exp(-p[1] * t)], axis=-1)


TIMES = np.linspace(0, 2, 15)
MEASURED = decay([2.5, 1.3], TIMES) + 0.05 * np.sin(7 * TIMES)


def misfit(p):
    return decay(p, TIMES) - MEASURED


def curves(x):
    return np.stack([x[0] ** 2 + x[1] - 3, x[0] - x[1] ** 2 + 1])


def oscillator(t, y):
    return np.stack([y[1], 20 * (1 - y[0] ** 2) * y[1] - y[0]])


def cubic(x):
    return x**3 - 2 * x - 5


HAND = SimpleNamespace(
    rosenbrock=optimize.rosen_der,
    rosenbrock_hessian=optimize.rosen_hess,
    rosenbrock_product=optimize.rosen_hess_prod,
    rosenbrock_both=lambda x: (rosenbrock(x), optimize.rosen_der(x)),
    valley=lambda x: np.exp(x) - 1 + 2 * np.sum(x),
    valley_hessian=lambda x: np.diag(np.exp(x)) + 2,
    misfit=lambda p: decay_slopes(p, TIMES),
    model=lambda t, a, b: decay_slopes([a, b], t),
    curves=lambda x: np.array([[2 * x[0], 1.0], [1.0, -2 * x[1]]]),
    oscillator=lambda t, y: np.array([[0.0, 1.0], [-40 * y[0] * y[1] - 1, 20 * (1 - y[0] ** 2)]]),
    cubic=lambda x: 3 * x**2 - 2,
    cubic_second=lambda x: 6 * x,
    norm=lambda x: 2 * x,
)

AGRAD = SimpleNamespace(
    rosenbrock=ag.grad(rosenbrock),
    rosenbrock_hessian=ag.hessian(rosenbrock),
    rosenbrock_product=lambda x, v: ag.func.hvp(rosenbrock, (x,), (v,)),
    rosenbrock_both=ag.value_and_grad(rosenbrock),
    valley=ag.grad(valley),
    valley_hessian=ag.hessian(valley),
    misfit=ag.jacobian(misfit),
    model=lambda t, a, b: np.stack(ag.jacobian(lambda a, b: decay([a, b], t), (0, 1))(a, b), axis=-1),
    curves=ag.jacobian(curves),
    oscillator=ag.jacobian(oscillator, 1),
    cubic=ag.grad(cubic),
    cubic_second=ag.grad(ag.grad(cubic)),
    norm=ag.grad(lambda x: np.sum(x**2)),
)

# -- solvers --------------------------------------------------------------------------------------------------------------

START = np.array([1.3, 0.7, 0.8, 1.9, 1.2])


def _minimize(method, *uses, f=rosenbrock, start=START, **more):
    def run(d):
        given = {"jac": "rosenbrock", "hess": "rosenbrock_hessian", "hessp": "rosenbrock_product"}
        derivatives = {use: getattr(d, given[use]) for use in uses}
        return optimize.minimize(f, start, method=method, **derivatives, **{k: v(d) for k, v in more.items()})

    return run


def _both(method):
    return lambda d: optimize.minimize(d.rosenbrock_both, START, jac=True, method=method)


def _curve_fit(d):
    found = optimize.curve_fit(
        lambda t, a, b: decay([a, b], t), TIMES, MEASURED, [1.0, 1.0], jac=d.model, full_output=True
    )
    return SimpleNamespace(x=found[0], nfev=found[2]["nfev"])


def _fsolve(d):
    x, info, _, _ = optimize.fsolve(curves, [1.0, 1.0], fprime=d.curves, full_output=True)
    return SimpleNamespace(x=x, nfev=info["nfev"], njev=info["njev"])


def _ivp(method):
    def run(d):
        found = integrate.solve_ivp(oscillator, (0, 30), [2.0, 0.0], method=method, jac=d.oscillator)
        return SimpleNamespace(x=found.y[:, -1], nfev=found.nfev, njev=found.njev)

    return run


def _newton(order):
    def run(d):
        second = d.cubic_second if order == 2 else None
        x, found = optimize.newton(cubic, 3.0, fprime=d.cubic, fprime2=second, full_output=True)
        return SimpleNamespace(x=np.array([x]), nfev=found.function_calls)

    return run


def _constrained(d):
    limit = optimize.NonlinearConstraint(
        lambda x: np.sum(x**2), 0, 2, jac=d.norm, hess=lambda x, v: 2 * v[0] * np.eye(5)
    )
    return [limit]


#: By name: the solver with derivatives from a namespace.
SOLVERS = {
    **{f"minimize {m}, jac": _minimize(m, "jac") for m in ("CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP")},
    # its usual tolerance lets the last bits of a release of NumPy decide where it ends
    "minimize CG, jac": _minimize("CG", "jac", tol=lambda _: 1e-8),
    "minimize BFGS, jac=True": _both("BFGS"),
    "minimize L-BFGS-B, jac=True": _both("L-BFGS-B"),
    **{
        f"minimize {m}, hess": _minimize(m, "jac", "hess")
        for m in ("Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr")
    },
    **{
        f"minimize {m}, hessp": _minimize(m, "jac", "hessp")
        for m in ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr")
    },
    "minimize dogleg, hess": lambda d: optimize.minimize(
        valley, START, method="dogleg", jac=d.valley, hess=d.valley_hessian
    ),
    "minimize SLSQP, a constraint": _minimize(
        "SLSQP",
        "jac",
        constraints=lambda d: {"type": "ineq", "fun": lambda x: 2 - np.sum(x**2), "jac": lambda x: -d.norm(x)},
    ),
    "minimize trust-constr, a constraint": _minimize("trust-constr", "jac", "hess", constraints=_constrained),
    **{
        f"least_squares {m}": lambda d, m=m: optimize.least_squares(misfit, [1.0, 1.0], jac=d.misfit, method=m)
        for m in ("trf", "dogbox", "lm")
    },
    "curve_fit": _curve_fit,
    **{f"root {m}": lambda d, m=m: optimize.root(curves, [1.0, 1.0], jac=d.curves, method=m) for m in ("hybr", "lm")},
    "fsolve": _fsolve,
    "newton": _newton(1),
    "newton, second derivative": _newton(2),
    "basinhopping": lambda d: optimize.basinhopping(
        d.rosenbrock_both, START, niter=3, rng=1, minimizer_kwargs={"method": "BFGS", "jac": True}
    ),
    "dual_annealing": lambda d: optimize.dual_annealing(
        rosenbrock, [(0, 2)] * 2, maxiter=20, rng=1, minimizer_kwargs={"method": "BFGS", "jac": d.rosenbrock}
    ),
    **{f"solve_ivp {m}, jac": _ivp(m) for m in ("Radau", "BDF", "LSODA")},
}

#: Solvers that are given no derivative: the function alone, whose evaluations agrad's derivatives need not match.
WITHOUT = {
    **{
        f"minimize {m}": lambda f, m=m: optimize.minimize(f, START[:2], method=m)
        for m in ("Nelder-Mead", "Powell", "COBYLA", "COBYQA")
    },
    "differential_evolution, polished": lambda f: optimize.differential_evolution(f, [(0, 2)] * 2, rng=1, polish=True),
    "shgo": lambda f: optimize.shgo(f, [(0, 2)] * 2),
}


def counts(found):
    """Give how often function, derivative and second derivative were evaluated."""
    return tuple(getattr(found, name, None) for name in ("nfev", "njev", "nhev"))


def row(name):
    """Give the line of a solver for the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hand, ours = SOLVERS[name](HAND), SOLVERS[name](AGRAD)
    cells = [", ".join(str(n) for n in counts(found) if n is not None) for found in (hand, ours)]
    return f"| `{name}` | {cells[0]} | {cells[1]} | {np.abs(hand.x - ours.x).max():.0e} |"


if __name__ == "__main__":
    print(f"SciPy {scipy.__version__}")
    for name in SOLVERS:
        print(row(name))
