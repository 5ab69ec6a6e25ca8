"""Helpers of several families: refusals, and formulas that remain accurate where the obvious ones cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agrad.core.cotangents import is_complex
from agrad.core.rule import Derivative


def refused(op: str, name: str) -> Derivative:
    """Return a derivative that raises that it is not implemented."""

    def refuse(xp: Any) -> Any:
        raise NotImplementedError(
            f"special.{op}: the derivative for '{name}' is not implemented"
            f"\n  Pass {name} as a number, or as a tensor that requires no gradient, as {name}.detach()."
        )

    return refuse


def real_only(xp: Any, op: str, x: Any) -> None:
    """Refuse the derivative of a function that is not holomorphic, or not known, at complex arguments."""
    if is_complex(xp, x):
        raise NotImplementedError(f"special.{op}: the derivative for complex arguments is not implemented")


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule, highest power first."""
    total = coefficients[0] * x + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


def pieces(xp: Any, x: Any, inside: Any, near: Callable[[Any], Any], far: Callable[[Any], Any]) -> Any:
    """Return near(x) inside and far(x) elsewhere; neither is evaluated where the other holds, nor are their derivatives.

    Elsewhere near receives 0 and far receives 1: so neither may be singular there.
    """
    zero = xp.zeros_like(x)
    return xp.where(inside, near(xp.where(inside, x, zero)), far(xp.where(inside, zero + 1, x)))


def _factorials(count: int) -> list[float]:
    found = [1.0]
    for k in range(1, count):
        found.append(found[-1] * k)
    return found


_FACTORIALS = _factorials(24)

#: (exp(x) - 1) / x has the coefficients 1 / (k + 1)!; its derivative (k + 1) / (k + 2)!.
_EXPREL_SLOPE = tuple((k + 1) / _FACTORIALS[k + 2] for k in range(18, -1, -1))


def exprel_slope(xp: Any, x: Any) -> Any:
    """The derivative of (exp(x) - 1) / x."""
    return pieces(
        xp, x, xp.abs(x) < 1, lambda u: polynomial(u, _EXPREL_SLOPE), lambda u: (xp.exp(u) - xp.expm1(u) / u) / u
    )


#: log(1 + u) / u has the coefficients (-1)**k / (k + 1); its derivative (-1)**(k + 1) (k + 1) / (k + 2).
_LOG_RATIO = tuple((-1.0) ** k / (k + 1) for k in range(25, -1, -1))
_LOG_RATIO_SLOPE = tuple((-1.0) ** (k + 1) * (k + 1) / (k + 2) for k in range(25, -1, -1))


def log_ratio(xp: Any, u: Any) -> Any:
    """log(1 + u) / u, also at 0."""
    return pieces(xp, u, xp.abs(u) < 0.2, lambda v: polynomial(v, _LOG_RATIO), lambda v: xp.log1p(v) / v)


def log_ratio_slope(xp: Any, u: Any) -> Any:
    """The derivative of log(1 + u) / u."""
    return pieces(
        xp, u, xp.abs(u) < 0.2, lambda v: polynomial(v, _LOG_RATIO_SLOPE), lambda v: (1 / (1 + v) - xp.log1p(v) / v) / v
    )


#: psi(x) = log(x) - 1 / (2 x) + psi_tail(x), in the powers of 1 / x**2 from the eighth down (DLMF 5.11.2).
_PSI_TAIL = (3617 / 8160, -1 / 12, 691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12, 0.0)
#: From here on these terms are right to the last digit.
PSI_FROM = 10.0


def psi_tail(x: Any) -> Any:
    """psi(x) beyond log(x) - 1 / (2 x), from `PSI_FROM` on."""
    return polynomial(1 / (x * x), _PSI_TAIL)
