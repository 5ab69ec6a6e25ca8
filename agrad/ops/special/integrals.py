"""Exponential integrals, the dilogarithm, hypergeometric functions and elliptic integrals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agrad.core.declare import elementwise, primitive
from agrad.ops.special.series import log_ratio, refused

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "ellipe", "ellipeinc", "ellipk", "ellipkinc", "ellipkm1", "exp1", "expi", "expn", "hyp1f1", "hyp2f1", "spence",
]  # fmt: skip

# -- exponential integrals --------------------------------------------------------------------------------------------


@elementwise(name="special.exp1", z=lambda xp, z: -xp.exp(-z) / z, memory="fresh")
def exp1(z: Any, /) -> Tensor:
    """Exponential integral E1.

    z: Positive, or complex.
    Returns: The integral of ``exp(-z * t) / t`` over `t` from 1 on.
    The derivative is ``-exp(-z) / z`` (DLMF 6.2).

    >>> ag.special.exp1(ag.asarray([1.0, 2.0]))
    tensor([0.2194, 0.0489])
    """


@elementwise(name="special.expi", x=lambda xp, x: xp.exp(x) / x, memory="fresh")
def expi(x: Any, /) -> Tensor:
    """Exponential integral Ei.

    x: Real or complex.
    Returns: The integral of ``exp(t) / t`` up to `x`, its principal value.
    The derivative is ``exp(x) / x`` (DLMF 6.2).

    >>> ag.special.expi(ag.asarray([1.0, 2.0]))
    tensor([1.8951, 4.9542])
    """


@elementwise(name="special.expn", n=refused("expn", "n"), x=lambda xp, n, x: -xp.special.expn(n - 1, x), memory="fresh")
def expn(n: Any, x: Any, /) -> Tensor:
    """Generalised exponential integral.

    n: The order, a whole number.
    x: Not negative.
    Returns: The integral of ``exp(-x * t) / t**n`` over `t` from 1 on.
    NotImplementedError: If a derivative by the order is asked for. The derivative is ``-expn(n - 1, x)`` (DLMF
    8.19.13). Unlike SciPy's function it accepts negative orders too, which derivatives need.

    >>> ag.special.expn(2, ag.asarray([1.0, 2.0]))
    tensor([0.1485, 0.0375])
    """


def _spence_slope(xp: Any, z: Any) -> Any:
    """log(z) / (1 - z), near 1 by its power series."""
    near = xp.abs(z - 1) < 0.2
    series = -log_ratio(xp, xp.where(near, z - 1, xp.zeros_like(z)))
    apart = xp.where(near, xp.zeros_like(z) + 2, z)
    return xp.where(near, series, xp.log(apart) / (1 - apart))


@elementwise(name="special.spence", z=_spence_slope, memory="fresh")
def spence(z: Any, /) -> Tensor:
    """Dilogarithm, as SciPy counts it.

    z: Real, not negative, or complex.
    Returns: The integral of ``log(t) / (1 - t)`` from 1 to `z`; the dilogarithm of ``1 - z``.
    The derivative is ``log(z) / (1 - z)``, -1 at 1.

    >>> ag.special.spence(ag.asarray([1.0, 2.0]))
    tensor([ 0.0000, -0.8225])
    """


# -- hypergeometric functions -----------------------------------------------------------------------------------------


@elementwise(
    name="special.hyp1f1",
    a=refused("hyp1f1", "a"),
    b=refused("hyp1f1", "b"),
    x=lambda xp, a, b, x: a / b * xp.special.hyp1f1(a + 1, b + 1, x),
    memory="fresh",
)
def hyp1f1(a: Any, b: Any, x: Any, /) -> Tensor:
    """Confluent hypergeometric function of Kummer.

    a, b: Real parameters.
    x: Real or complex.
    Returns: ``1F1(a; b; x)``.
    NotImplementedError: If a derivative by a parameter is asked for.
    The derivative is ``a / b * hyp1f1(a + 1, b + 1, x)`` (DLMF 13.3.15).

    >>> ag.special.hyp1f1(1.0, 2.0, ag.asarray([0.0, 1.0]))
    tensor([1.0000, 1.7183])
    """


@elementwise(
    name="special.hyp2f1",
    a=refused("hyp2f1", "a"),
    b=refused("hyp2f1", "b"),
    c=refused("hyp2f1", "c"),
    z=lambda xp, a, b, c, z: a * b / c * xp.special.hyp2f1(a + 1, b + 1, c + 1, z),
    memory="fresh",
)
def hyp2f1(a: Any, b: Any, c: Any, z: Any, /) -> Tensor:
    """Hypergeometric function of Gauss.

    a, b, c: Real parameters.
    Returns: ``2F1(a, b; c; z)``.
    NotImplementedError: If a derivative by a parameter is asked for.
    The derivative is ``a * b / c * hyp2f1(a + 1, b + 1, c + 1, z)`` (DLMF 15.5.1).

    >>> ag.special.hyp2f1(1.0, 1.0, 2.0, ag.asarray([0.0, 0.5]))
    tensor([1.0000, 1.3863])
    """


# -- complete elliptic integrals --------------------------------------------------------------------------------------
# The usual forms of the derivatives, as (E - (1 - m) K) / (2 m (1 - m)), cancel for small m; there the hypergeometric
# ones take their place. With p = 1 - m both hold for m as near to 1 as p can tell.

#: Up to here the hypergeometric form; SciPy's function loses digits near 1.
_SMALL = 0.25


def _apart(xp: Any, m: Any, p: Any, near: Callable[[Any], Any], far: Callable[[Any, Any], Any]) -> Any:
    """Return near(m) for small m, else far(m, p)."""
    small = xp.abs(m) < _SMALL
    half = xp.zeros_like(m) + 0.5
    return xp.where(small, near(xp.where(small, m, half / 4)), far(xp.where(small, half, m), xp.where(small, half, p)))


def _ellipk_slope(xp: Any, m: Any, p: Any) -> Any:
    """dK/dm; the pole at 1 is a factor before the hypergeometric function, by Euler's transformation (DLMF 15.8.1)."""
    return _apart(
        xp,
        m,
        p,
        lambda m: (math.pi / 8) / (1 - m) * xp.special.hyp2f1(0.5, 0.5, 2.0, m),
        lambda m, p: (xp.special.ellipem1(p) - p * xp.special.ellipkm1(p)) / (2 * m * p),
    )


def _ellipe_slope(xp: Any, m: Any, p: Any) -> Any:
    """dE/dm."""
    return _apart(
        xp,
        m,
        p,
        lambda m: (-math.pi / 8) * xp.special.hyp2f1(0.5, 1.5, 2.0, m),
        lambda m, p: (xp.special.ellipem1(p) - xp.special.ellipkm1(p)) / (2 * m),
    )


@elementwise(
    name="special.ellipem1",
    p=lambda xp, p: -_ellipe_slope(xp, 1 - p, p),
    kernel=lambda xp, p: xp.special.ellipe(1 - p),
    memory="fresh",
)
def ellipem1(p: Any, /) -> Tensor:
    """`ellipe` of ``1 - p``."""


@elementwise(name="special.ellipk", m=lambda xp, m: _ellipk_slope(xp, m, 1 - m), memory="fresh")
def ellipk(m: Any, /) -> Tensor:
    """Complete elliptic integral of the first kind.

    m: The parameter, the square of the modulus; at most 1.
    Returns: The integral of ``1 / sqrt(1 - m * sin(t)**2)`` from 0 to ``pi / 2``.
    The derivative is ``(E - (1 - m) * K) / (2 * m * (1 - m))`` (DLMF 19.4.1), and for small `m`, where that cancels,
    ``pi / 8 * hyp2f1(3/2, 3/2, 2, m)``.

    >>> ag.special.ellipk(ag.asarray([0.0, 0.5]))
    tensor([1.5708, 1.8541])
    """


@elementwise(name="special.ellipkm1", p=lambda xp, p: -_ellipk_slope(xp, 1 - p, p), memory="fresh")
def ellipkm1(p: Any, /) -> Tensor:
    """Complete elliptic integral of the first kind, for parameters near 1.

    p: ``1 - m``, not negative.
    Returns: ``ellipk(1 - p)``, without the rounding of ``1 - p``.
    Derivative as for `ellipk`.

    >>> ag.special.ellipkm1(ag.asarray([1.0, 1e-30]))
    tensor([ 1.5708, 35.9251])
    """


@elementwise(name="special.ellipe", m=lambda xp, m: _ellipe_slope(xp, m, 1 - m), memory="fresh")
def ellipe(m: Any, /) -> Tensor:
    """Complete elliptic integral of the second kind.

    m: The parameter, the square of the modulus; at most 1.
    Returns: The integral of ``sqrt(1 - m * sin(t)**2)`` from 0 to ``pi / 2``.
    The derivative is ``(E - K) / (2 * m)`` (DLMF 19.4.2), and for small `m`, where that cancels,
    ``-pi / 8 * hyp2f1(1/2, 3/2, 2, m)``.

    >>> ag.special.ellipe(ag.asarray([0.0, 0.5]))
    tensor([1.5708, 1.3506])
    """


# -- incomplete elliptic integrals ------------------------------------------------------------------------------------
# By the parameter they are symmetric integrals (DLMF 19.25), which do not cancel either, and 2 k complete ones for
# angles k pi further on.


primitive("special.elliprd")  # the symmetric integral of the second kind, which appears in their derivatives


def _reduced(xp: Any, phi: Any) -> tuple[Any, Any, Any]:
    """Return the number of half turns in an angle, and sine and cosine of the rest."""
    turns = xp.round(phi / math.pi)
    sign = 1 - 2 * (turns % 2)
    return turns, sign * xp.sin(phi), sign * xp.cos(phi)


def _ellipkinc_by_m(xp: Any, phi: Any, m: Any) -> Any:
    turns, s, c = _reduced(xp, phi)
    zero, one = xp.zeros_like(s * m), xp.ones_like(s * m)
    local = s * s * s * xp.special.elliprd(c * c + zero, one, 1 - m * s * s)
    whole = xp.special.elliprd(zero, one, 1 - m + zero)
    return (local + 2 * turns * xp.where(turns == 0, zero, whole)) / 6


def _ellipkinc_by_mm(xp: Any, ans: Any, phi: Any, m: Any) -> Any:
    """From d/dm (m (1 - m) dF/dm) = F / 4 - sin(phi) cos(phi) / (4 Delta**3)."""
    s, c = xp.sin(phi), xp.cos(phi)
    rest = 1 - m * s * s
    right = (xp.special.ellipkinc(phi, m) - s * c / (rest * xp.sqrt(rest))) / 4
    return (right - (1 - 2 * m) * ans) / (m * (1 - m))


def _by_angle(xp: Any, phi: Any, m: Any, power: float) -> Any:
    s = xp.sin(phi)
    return s * s * xp.pow(1 - m * s * s, power) / 2


@elementwise(
    name="special.ellipkinc_by_m",
    phi=lambda xp, phi, m: _by_angle(xp, phi, m, -1.5),
    m=_ellipkinc_by_mm,
    kernel=_ellipkinc_by_m,
    memory="fresh",
)
def ellipkinc_by_m(phi: Any, m: Any, /) -> Tensor:
    """The derivative of `ellipkinc` by the parameter."""


@elementwise(
    name="special.ellipkinc",
    phi=lambda xp, phi, m: 1 / xp.sqrt(1 - m * xp.square(xp.sin(phi))),
    m=lambda xp, phi, m: xp.special.ellipkinc_by_m(phi, m),
    memory="fresh",
)
def ellipkinc(phi: Any, m: Any, /) -> Tensor:
    """Incomplete elliptic integral of the first kind.

    phi: The angle.
    m: The parameter; at most 1.
    Returns: The integral of ``1 / sqrt(1 - m * sin(t)**2)`` from 0 to `phi`.
    The derivative by `m` is ``sin(phi)**3 * R_D(cos(phi)**2, 1, 1 - m * sin(phi)**2) / 6`` (DLMF 19.25), and the
    complete one for every half turn. The second derivative by `m` loses digits as `m` goes to 0 and is NaN there; so it
    does for small `phi`.

    >>> ag.special.ellipkinc(1.0, ag.asarray([0.0, 0.5]))
    tensor([1.0000, 1.0832])
    """


def _ellipeinc_by_m(xp: Any, phi: Any, m: Any) -> Any:
    turns, s, c = _reduced(xp, phi)
    zero, one = xp.zeros_like(s * m), xp.ones_like(s * m)
    local = s * s * s * xp.special.elliprd(c * c + zero, 1 - m * s * s, one)
    whole = xp.special.elliprd(zero, 1 - m + zero, one)
    return -(local + 2 * turns * xp.where(turns == 0, zero, whole)) / 6


@elementwise(
    name="special.ellipeinc_by_m",
    phi=lambda xp, phi, m: -_by_angle(xp, phi, m, -0.5),
    m=lambda xp, ans, phi, m: -(ans + xp.special.ellipkinc_by_m(phi, m)) / (2 * m),
    kernel=_ellipeinc_by_m,
    memory="fresh",
)
def ellipeinc_by_m(phi: Any, m: Any, /) -> Tensor:
    """The derivative of `ellipeinc` by the parameter."""


@elementwise(
    name="special.ellipeinc",
    phi=lambda xp, phi, m: xp.sqrt(1 - m * xp.square(xp.sin(phi))),
    m=lambda xp, phi, m: xp.special.ellipeinc_by_m(phi, m),
    memory="fresh",
)
def ellipeinc(phi: Any, m: Any, /) -> Tensor:
    """Incomplete elliptic integral of the second kind.

    phi: The angle.
    m: The parameter; at most 1.
    Returns: The integral of ``sqrt(1 - m * sin(t)**2)`` from 0 to `phi`.
    The derivative by `m` is ``-sin(phi)**3 * R_D(cos(phi)**2, 1 - m * sin(phi)**2, 1) / 6`` (DLMF 19.25), and the
    complete one for every half turn. The second derivative by `m` loses digits as `m` goes to 0 and is NaN there; so it
    does for small `phi`.

    >>> ag.special.ellipeinc(1.0, ag.asarray([0.0, 0.5]))
    tensor([1.0000, 0.9273])
    """
