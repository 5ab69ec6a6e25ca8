"""Fixed points, differentiated by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agrad.compat.autograd import core
from agrad.compat.autograd.core import vspace
from agrad.compat.autograd.primitives import defvjp, primitive

__all__ = ["fixed_point"]


@primitive
def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]], a: Any, x0: Any, distance: Callable[..., Any], tol: float
) -> Any:
    """Iterate the function ``f(a)`` from a start until it moves no more than a distance; differentiable by `a`.

    Let A and X be the Jacobians of ``f(a)(x)`` with respect to `a` and `x`. The cotangent g of the fixed point becomes
    ``u @ A``, where ``u = g + u @ X``: again a fixed point, found in the same way.

    >>> from agrad.compat.autograd import grad
    >>> newton = lambda a: lambda x: (x + a / x) / 2
    >>> root = lambda a: fixed_point(newton, a, 1.0, lambda x, y: abs(x - y), 1e-12)
    >>> grad(root)(4.0).round(6)
    np.float64(0.25)
    """
    step = f(a)
    before, x = x0, step(x0)
    while distance(x, before) > tol:
        before, x = x, step(x)
    return x


def _pull(ans: Any, f: Any, a: Any, x0: Any, distance: Any, tol: float) -> Callable[[Any], Any]:
    def adjoint(given: Any) -> Callable[[Any], Any]:
        a, x, g = given
        pull, _ = core.make_vjp(f(a), x)
        return lambda u: vspace(x).add(pull(u), g)

    pull, _ = core.make_vjp(lambda a: f(a)(ans), a)
    return lambda g: pull(fixed_point(adjoint, (a, ans, g), vspace(x0).zeros(), distance, tol))


defvjp(fixed_point, None, _pull, None)
