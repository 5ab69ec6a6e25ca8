"""Write the table of accuracies in docs/scipy.md: what functions of agrad.scipy and their derivatives are off by.

``python docs/make_scipy.py`` writes it; with ``--check`` it only tells whether the page is up to date: the same rows, no error more
than a power of ten larger. Errors are relative, measured against a solution that is known, or a finer one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import integrate as theirs
from scipy import interpolate as theirs_too

import agrad as ag
from agrad.func import implicit
from agrad.scipy import integrate, interpolate, optimize

PAGE = Path(__file__).resolve().parent / "scipy.md"
BEGIN, END = "<!-- made by make_scipy.py -->", "<!-- end -->"

#: What was measured, against what, and the errors of value, gradient and second derivative (None: not measured).
Row = tuple[str, str, float, float, float | None]


def off(found: object, expected: object) -> float:
    """Return the largest error, relative to the largest number expected."""
    found, expected = (np.asarray(x, dtype=float) for x in (found, expected))
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


def power(error: float | None) -> str:
    """Return an error as the power of ten above it."""
    if error is None:
        return ""
    return "< 1e-13" if error < 1e-13 else f"1e{math.ceil(math.log10(error))}"


def flows() -> Iterator[Row]:
    """Measure integrators by the logistic equation, whose solution is known."""
    y0, rate, t = 0.2, 1.3, 2.0
    e = math.exp(rate * t)
    y = y0 * e / (1 - y0 + y0 * e)
    slope = t * y * (1 - y)  # by the rate
    bend = t * slope * (1 - 2 * y)
    known = "`y' = a y (1 - y)`, known"

    def measured(name: str, end: Callable[..., ag.Tensor], *, second: bool = True) -> Row:
        at = ag.asarray(rate)
        twice = off(ag.func.grad(ag.func.grad(end))(at), bend) if second else None
        return name, known, off(end(at), y), off(ag.func.grad(end)(at), slope), twice

    logistic = lambda y, t, a: a * y * (1 - y)
    forwards = lambda t, y, a: a * y * (1 - y)
    yield measured("`odeint`", lambda a: integrate.odeint(logistic, [y0], [0.0, t], (a,))[-1, 0])
    for method in ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"):
        end = lambda a, method=method: integrate.solve_ivp(
            forwards, (0.0, t), [y0], method, args=(a,), rtol=1e-7, atol=1e-9
        ).y[0, -1]
        yield measured(f'`solve_ivp(method="{method}")`, rtol 1e-7', end, second=method in ("RK45", "DOP853", "LSODA"))
    steps = lambda a: integrate.solve_ivp(
        forwards, (0.0, t), [y0], args=(a,), rtol=1e-7, atol=1e-9, gradient="discrete"
    ).y[0, -1]
    yield measured('`solve_ivp(gradient="discrete")`, rtol 1e-7', steps)
    k = 1000.0

    def stiff(y: ag.Tensor, t: ag.Tensor, k: ag.Tensor) -> ag.Tensor:
        return -k * (y - ag.cos(t))

    states = theirs.odeint(lambda y, t: -k * (y - np.cos(t)), [0.0], [0.0, 1.0])
    end = lambda k: integrate.odeint(stiff, [0.0], [0.0, 1.0], (k,))[-1, 0]
    c, s = math.cos(1), math.sin(1)
    exact = (k * k * c + k * s) / (k * k + 1)
    by_k = (2 * k * c + s) / (k * k + 1) - 2 * k * exact / (k * k + 1)
    gradient = abs(ag.func.grad(end)(ag.asarray(k)).item() - by_k) * k  # relative to y / k
    yield "`odeint`, stiff: `y' = -1000 (y - cos t)`", "known", off(states[-1, 0], exact), gradient, None


def integrals() -> Iterator[Row]:
    """Measure integrals by one that is known, of exp(-a x) over the half line, and a rule by one that it is exact for."""
    a = 1.3
    over = lambda a: integrate.quad(lambda x, a: ag.exp(-a * x), 0.0, ag.inf, (a,))[0]
    first = ag.func.grad(over)
    exact = 1 / a, -1 / a**2, 2 / a**3
    found = (over(ag.asarray(a)), first(ag.asarray(a)), ag.func.grad(first)(ag.asarray(a)))
    yield "`quad`, of `exp(-a x)` to infinity", "known", *map(off, found, exact)
    x = ag.linspace(0.0, 1.0, 7)
    rule = lambda a: integrate.simpson(x**3 * a**2, x)
    slope = ag.func.grad(rule)
    found = (rule(ag.asarray(a)), slope(ag.asarray(a)), ag.func.grad(slope)(ag.asarray(a)))
    yield "`simpson`, of `a^2 x^3`", "known", *map(off, found, (a * a / 4, a / 2, 1 / 2))


def equations() -> Iterator[Row]:
    """Measure implicit derivatives by linear equations and by a root that is known."""
    rng = np.random.default_rng(0)
    n = 200
    half = rng.normal(size=(n, n)) / n**0.5
    matrix, b = half @ half.T + np.eye(n), rng.normal(size=n)
    solution = np.linalg.solve(matrix, b)
    gradient = np.linalg.solve(matrix, 2 * solution)
    second = 2 * np.linalg.inv(matrix) @ np.linalg.inv(matrix)
    held = ag.asarray(matrix)
    for linear in ("dense", "cg", "gmres", "bicgstab"):
        root = implicit(lambda b: np.linalg.solve(matrix, b.numpy()), lambda x, b: held @ x - b, linear=linear)
        loss = lambda b, root=root: ag.sum(root(b) ** 2)
        v = ag.asarray(rng.normal(size=n))
        found = ag.func.hvp(loss, (ag.asarray(b),), (v,))
        yield (
            f'`func.implicit(linear="{linear}")`, 200 unknowns',
            "LU",
            off(root(ag.asarray(b)), solution),
            off(ag.func.grad(loss)(ag.asarray(b)), gradient),
            off(found, second @ v.numpy()),
        )
    a = ag.asarray(2.0)
    root = lambda a: optimize.root(lambda x, a: x**2 - a, [1.0], (a,), tol=1e-14).x[0]
    low = lambda a: optimize.minimize(lambda x, a: x[0] ** 3 / 3 - a * x[0], [1.0], (a,), tol=1e-12).x[0]
    between = lambda a: optimize.brentq(lambda x, a: x**2 - a, 1.0, 2.0, (a,))
    for name, f in (("root", root), ("minimize", low), ("brentq", between)):
        grads = ag.func.grad(f), ag.func.grad(ag.func.grad(f))
        yield (
            f"`{name}`, of `x^2 = a`",
            "known",
            *map(off, (f(a), *(g(a) for g in grads)), (2**0.5, 0.5**1.5, -(0.5**3.5))),
        )


def splines() -> Iterator[Row]:
    """Measure splines by SciPy's, which knows derivatives by places."""
    x, places = np.linspace(0, 6, 13) ** 1.2, np.linspace(0.1, 8, 50)
    kinds = [("CubicSpline", {"bc_type": condition}) for condition in ("not-a-knot", "natural", "clamped")]
    for name, options in (*kinds, ("PchipInterpolator", {})):
        ours = getattr(interpolate, name)(x, np.sin(x), **options)
        spline = getattr(theirs_too, name)(x, np.sin(x), **options)
        slope = ag.func.elementwise_grad(ours)
        words = ", ".join(f'{key}="{value}"' for key, value in options.items())
        yield (
            f"`{name}({words})`" if words else f"`{name}`",
            "SciPy",
            off(ours(places), spline(places)),
            off(slope(places), spline(places, 1)),
            off(ag.func.elementwise_grad(slope)(places), spline(places, 2)),
        )


def table() -> str:
    """Return the table."""
    lines = ["| function | against | value | gradient | second derivative |", "|---|---|---|---|---|"]
    for measure in (flows, integrals, equations, splines):
        lines += [f"| {name} | {against} | {' | '.join(map(power, errors))} |" for name, against, *errors in measure()]
    return "\n".join(lines)


def holds(old: str, new: str) -> bool:
    """Return whether a table has the rows of another, and no error that is much larger."""
    pairs = [(a.split("|"), b.split("|")) for a, b in zip(old.splitlines(), new.splitlines(), strict=False)]
    same = len(old.splitlines()) == len(new.splitlines()) and all(a[:3] == b[:3] for a, b in pairs)
    cells = [(x, y) for a, b in pairs[2:] for x, y in zip(a[3:-1], b[3:-1], strict=True)]
    return same and all(float(y.strip(" <") or 0) <= 11 * float(x.strip(" <") or 0) for x, y in cells)


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    new = table()
    made = f"{before}{BEGIN}\n{new}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if not holds(old.strip(), new):
            sys.stderr.write("docs/scipy.md is out of date: run python docs/make_scipy.py\n")
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
