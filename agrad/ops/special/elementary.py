"""Elementary functions that remain accurate where the obvious formula cancels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agrad.core.declare import elementwise
from agrad.core.facts import Facts
from agrad.ops.special.series import exprel_slope, log_ratio, log_ratio_slope, pieces, polynomial

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "boxcox", "boxcox1p", "cbrt", "cosm1", "exp2", "exp10", "exprel", "huber", "inv_boxcox", "inv_boxcox1p",
    "pseudo_huber", "sinc",
]  # fmt: skip

_LOG_10 = math.log(10)
_LOG_2 = math.log(2)


def _sinc_terms() -> tuple[float, ...]:
    """d/dz of sin(z) / z over z, in powers of z**2, highest first: (-1)**k 2 k / (2 k + 1)! for z**(2 k - 2)."""
    return tuple((-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(12, 0, -1))


_SINC_SLOPE = _sinc_terms()


def _sinc_slope(xp: Any, x: Any) -> Any:
    z = x * math.pi
    return math.pi * pieces(
        xp, z, xp.abs(z) < 1.5, lambda u: u * polynomial(u * u, _SINC_SLOPE), lambda u: (xp.cos(u) - xp.sin(u) / u) / u
    )


@elementwise(
    name="special.sinc",
    x=_sinc_slope,
    kernel=lambda xp, x: pieces(xp, x * math.pi, x == 0, lambda u: u + 1, lambda u: xp.sin(u) / u),
    memory="fresh",
    facts=Facts(torch="sinc"),
)
def sinc(x: Any, /) -> Tensor:
    """Cardinal sine.

    x: Real or complex.
    Returns: ``sin(pi * x) / (pi * x)``, 1 at 0.
    The derivative is ``(cos(pi * x) - sinc(x)) / x``, near 0 its power series.

    >>> ag.special.sinc(ag.asarray([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """


@elementwise(name="special.exp2", x=lambda ans: ans * _LOG_2, kernel=lambda xp, x: xp.exp(x * _LOG_2), memory="fresh")
def exp2(x: Any, /) -> Tensor:
    """Power of 2.

    Returns: ``2**x``.
    The derivative is ``log(2) * 2**x``.

    >>> ag.special.exp2(ag.asarray([0.0, 10.0]))
    tensor([1.0000e+00, 1.0240e+03])
    """


@elementwise(
    name="special.exp10", x=lambda ans: ans * _LOG_10, kernel=lambda xp, x: xp.exp(x * _LOG_10), memory="fresh"
)
def exp10(x: Any, /) -> Tensor:
    """Power of 10.

    Returns: ``10**x``.
    The derivative is ``log(10) * 10**x``.

    >>> ag.special.exp10(ag.asarray([0.0, 3.0]))
    tensor([   1., 1000.])
    """


@elementwise(
    name="special.cbrt",
    x=lambda ans: 1 / (3 * ans * ans),
    kernel=lambda xp, x: xp.sign(x) * xp.exp(xp.log(xp.where(x == 0, xp.ones_like(x), xp.abs(x))) / 3),
    memory="fresh",
)
def cbrt(x: Any, /) -> Tensor:
    """Cube root.

    Returns: The real `y` with ``y**3 = x``.
    The derivative is ``1 / (3 * y**2)``, infinite at 0.

    >>> ag.special.cbrt(ag.asarray([8.0, -27.0]))
    tensor([ 2., -3.])
    """


@elementwise(
    name="special.cosm1", x=lambda xp, x: -xp.sin(x), kernel=lambda xp, x: -2 * xp.square(xp.sin(x / 2)), memory="fresh"
)
def cosm1(x: Any, /) -> Tensor:
    """``cos(x) - 1``, accurate near 0.

    Returns: ``-2 * sin(x / 2)**2``.
    The derivative is ``-sin(x)``.

    >>> ag.special.cosm1(ag.asarray([0.0, 1e-8]))
    tensor([ 0.0000e+00, -5.0000e-17])
    """


@elementwise(
    name="special.exprel",
    x=lambda xp, x: exprel_slope(xp, x),
    kernel=lambda xp, x: pieces(xp, x, (x == 0) | (x == math.inf), lambda u: u + 1, lambda u: xp.expm1(u) / u),
    memory="fresh",
)
def exprel(x: Any, /) -> Tensor:
    """Relative error of the exponential.

    Returns: ``(exp(x) - 1) / x``, 1 at 0.
    The derivative is ``(exp(x) - exprel(x)) / x``, near 0 its power series.

    >>> ag.special.exprel(ag.asarray([0.0, 1.0]))
    tensor([1.0000, 1.7183])
    """


# -- transformations of Box and Cox -----------------------------------------------------------------------------------
# boxcox is log(x) exprel(lmbda log(x)), and its inverse exp(y log_ratio(lmbda y)): so nothing divides by lmbda.


def _boxcox_kernel(xp: Any, log: Any, lmbda: Any) -> Any:
    flat = log * 0 + lmbda * 0
    u = lmbda * log
    zero = (u == 0) | (lmbda + flat == 0)
    return xp.where(zero, log + flat, xp.expm1(u) / xp.where(zero, flat + 1, lmbda + flat))


def _boxcox_by_lmbda(xp: Any, log: Any, lmbda: Any) -> Any:
    return xp.square(log) * exprel_slope(xp, lmbda * log)


@elementwise(
    name="special.boxcox",
    x=lambda xp, x, lmbda: xp.pow(x, lmbda - 1),
    lmbda=lambda xp, x, lmbda: _boxcox_by_lmbda(xp, xp.log(x), lmbda),
    kernel=lambda xp, x, lmbda: _boxcox_kernel(xp, xp.log(x), lmbda),
    memory="fresh",
)
def boxcox(x: Any, lmbda: Any, /) -> Tensor:
    """Power transformation of Box and Cox.

    x: Positive.
    Returns: ``(x**lmbda - 1) / lmbda``, ``log(x)`` for exponent 0.
    The derivative by `lmbda` holds at 0 too. Box and Cox, An analysis of transformations, J. R. Stat. Soc. B 26 (1964).

    >>> ag.special.boxcox(ag.asarray([1.0, 4.0]), 0.5)
    tensor([0., 2.])
    """


@elementwise(
    name="special.boxcox1p",
    x=lambda xp, x, lmbda: xp.exp((lmbda - 1) * xp.log1p(x)),
    lmbda=lambda xp, x, lmbda: _boxcox_by_lmbda(xp, xp.log1p(x), lmbda),
    kernel=lambda xp, x, lmbda: _boxcox_kernel(xp, xp.log1p(x), lmbda),
    memory="fresh",
)
def boxcox1p(x: Any, lmbda: Any, /) -> Tensor:
    """Power transformation of Box and Cox of ``1 + x``.

    x: Above -1.
    Returns: ``((1 + x)**lmbda - 1) / lmbda``, ``log(1 + x)`` for exponent 0.
    As for `boxcox`.

    >>> ag.special.boxcox1p(ag.asarray([0.0, 3.0]), 0.5)
    tensor([0., 2.])
    """


@elementwise(
    name="special.inv_boxcox",
    y=lambda ans, y, lmbda: ans / (1 + lmbda * y),
    lmbda=lambda xp, ans, y, lmbda: ans * xp.square(y) * log_ratio_slope(xp, lmbda * y),
    kernel=lambda xp, y, lmbda: xp.exp(y * log_ratio(xp, lmbda * y)),
    memory="fresh",
)
def inv_boxcox(y: Any, lmbda: Any, /) -> Tensor:
    """Inverse of `boxcox`.

    y: With ``1 + lmbda * y`` positive.
    Returns: ``(1 + lmbda * y)**(1 / lmbda)``, ``exp(y)`` for exponent 0.
    The derivative by `lmbda` holds at 0 too.

    >>> ag.special.inv_boxcox(ag.asarray([0.0, 2.0]), 0.5)
    tensor([1., 4.])
    """


@elementwise(
    name="special.inv_boxcox1p",
    y=lambda ans, y, lmbda: (1 + ans) / (1 + lmbda * y),
    lmbda=lambda xp, ans, y, lmbda: (1 + ans) * xp.square(y) * log_ratio_slope(xp, lmbda * y),
    kernel=lambda xp, y, lmbda: xp.expm1(y * log_ratio(xp, lmbda * y)),
    memory="fresh",
)
def inv_boxcox1p(y: Any, lmbda: Any, /) -> Tensor:
    """Inverse of `boxcox1p`.

    y: With ``1 + lmbda * y`` positive.
    Returns: ``inv_boxcox(y, lmbda) - 1``, without cancellation.
    As for `inv_boxcox`.

    >>> ag.special.inv_boxcox1p(ag.asarray([0.0, 2.0]), 0.5)
    tensor([0., 3.])
    """


# -- losses -----------------------------------------------------------------------------------------------------------


def _huber_kernel(xp: Any, delta: Any, x: Any) -> Any:
    size = xp.abs(x)
    value = xp.where(size <= delta, x * x / 2, delta * (size - delta / 2))
    return xp.where(delta + size * 0 < 0, xp.zeros_like(value) + math.inf, value)


def _huber_by_delta(xp: Any, delta: Any, x: Any) -> Any:
    rest = xp.abs(x) - delta
    return xp.where((rest > 0) & (delta + rest * 0 >= 0), rest, xp.zeros_like(rest))


def _huber_by_x(xp: Any, delta: Any, x: Any) -> Any:
    size = xp.abs(x)
    slope = xp.where(size <= delta, x, delta * xp.sign(x))
    return xp.where(delta + size * 0 < 0, xp.zeros_like(slope), slope)


@elementwise(name="special.huber", delta=_huber_by_delta, x=_huber_by_x, kernel=_huber_kernel, memory="fresh")
def huber(delta: Any, x: Any, /) -> Tensor:
    """Loss function of Huber.

    delta: The end of the parabola, not negative.
    x: The residual.
    Returns: ``x**2 / 2`` up to `delta`, then ``delta * (abs(x) - delta / 2)``; inf for negative `delta`.
    The derivative by `x` is `x`, cut off at `delta`. Huber, Robust estimation of a location parameter, Ann. Math.
    Statist. 35 (1964).

    >>> ag.special.huber(1.0, ag.asarray([0.5, 3.0]))
    tensor([0.1250, 2.5000])
    """


def _pseudo_huber_kernel(xp: Any, delta: Any, x: Any) -> Any:
    zero = (delta == 0) & (x * 0 == 0)
    d = xp.where(zero, xp.ones_like(x * delta), delta + x * 0)
    u = xp.square(x / d)
    value = d * d * u / (1 + xp.sqrt(1 + u))
    return xp.where(zero, xp.zeros_like(value), xp.where(delta + x * 0 < 0, xp.zeros_like(value) + math.inf, value))


def _pseudo_huber_by_delta(xp: Any, delta: Any, x: Any) -> Any:
    u = xp.square(x / delta)
    w = xp.sqrt(1 + u)
    return delta * xp.square(u / (w + 1)) / w


@elementwise(
    name="special.pseudo_huber",
    delta=_pseudo_huber_by_delta,
    x=lambda xp, delta, x: x / xp.sqrt(1 + xp.square(x / delta)),
    kernel=_pseudo_huber_kernel,
    memory="fresh",
)
def pseudo_huber(delta: Any, x: Any, /) -> Tensor:
    """Smooth loss function after Huber's.

    delta: The scale, positive for a derivative.
    x: The residual.
    Returns: ``delta**2 * (sqrt(1 + (x / delta)**2) - 1)``; inf for negative `delta`.
    The derivative by `x` is ``x / sqrt(1 + (x / delta)**2)``.

    >>> ag.special.pseudo_huber(1.0, ag.asarray([0.5, 3.0]))
    tensor([0.1180, 2.1623])
    """
