"""The error functions and the normal distribution, by formulas that hold in the tails."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agrad.core.declare import elementwise
from agrad.ops.special.series import polynomial, real_only

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = ["erf", "erfc", "erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri", "ndtri_exp"]

_2_SQRT_PI = 2 / math.sqrt(math.pi)
_SQRT_2 = math.sqrt(2)
_SQRT_2PI = math.sqrt(2 * math.pi)

#: erf(x) / x in powers of x**2, highest first.
_ERF = tuple(_2_SQRT_PI * (-1.0) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(19, -1, -1))


def _erf_kernel(xp: Any, x: Any) -> Any:
    small = xp.abs(x) < 1
    near = xp.where(small, x, xp.zeros_like(x))
    return xp.where(small, near * polynomial(near * near, _ERF), 2 * xp.nn.normal_cdf(x * _SQRT_2) - 1)


@elementwise(name="special.erf", x=lambda xp, x: _2_SQRT_PI * xp.exp(-x * x), kernel=_erf_kernel, memory="fresh")
def erf(x: Any, /) -> Tensor:
    """Error function.

    x: Real (complex, where the backend has it).
    Returns: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to `x`.
    The derivative is ``2 / sqrt(pi) * exp(-x**2)`` (DLMF 7.10).

    >>> ag.special.erf(ag.asarray([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """


@elementwise(
    name="special.erfc",
    x=lambda xp, x: -_2_SQRT_PI * xp.exp(-x * x),
    kernel=lambda xp, x: 2 * xp.nn.normal_cdf(x * -_SQRT_2),
    memory="fresh",
)
def erfc(x: Any, /) -> Tensor:
    """Complementary error function, ``1 - erf(x)`` without cancellation.

    x: Real (complex, where the backend has it).
    Returns: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from `x` on.
    The derivative is ``-2 / sqrt(pi) * exp(-x**2)``.

    >>> ag.special.erfc(ag.asarray([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """


#: From here on the quotients of successive terms come from their continued fraction.
_FRACTION_FROM = 2.0
_FRACTION_TERMS = 60


def _scaled_ierfc(xp: Any, x: Any, n: int) -> Any:
    """By the recurrence 2 (k + 1) i[k + 1] = -2 x i[k] + i[k - 1], upward for small x, else as a continued fraction."""
    far = x > _FRACTION_FROM
    low = xp.where(far, xp.zeros_like(x), x)
    before, last = xp.zeros_like(x) + _2_SQRT_PI, xp.special.erfcx(low)
    for k in range(n):
        before, last = last, (before - 2 * low * last) / (2 * (k + 1))
    high = xp.where(far, x, xp.zeros_like(x) + _FRACTION_FROM)
    ratio, product = xp.zeros_like(x), xp.special.erfcx(high)
    for k in range(_FRACTION_TERMS, 0, -1):
        ratio = 1 / (2 * high + 2 * (k + 1) * ratio)
        if k <= n:
            product = product * ratio
    return xp.where(far, product, last)


@elementwise(
    name="special.scaled_ierfc",
    x=lambda xp, x, n: -2 * (n + 1) * xp.special.scaled_ierfc(x, n + 1),
    kernel=_scaled_ierfc,
    source="W. Gautschi, Recursive computation of the repeated integrals of the error function, Math. Comp. 15 (1961)",
    memory="fresh",
)
def scaled_ierfc(x: Any, n: int, /) -> Tensor:
    """The integral of erfc repeated `n` times, times ``exp(x**2)``: the derivatives of `erfcx` without cancellation."""


def _erfcx_slope(xp: Any, x: Any) -> Any:
    real_only(xp, "erfcx", x)
    return -2 * xp.special.scaled_ierfc(x, 1)


@elementwise(name="special.erfcx", x=_erfcx_slope, memory="fresh")
def erfcx(x: Any, /) -> Tensor:
    """Scaled complementary error function, ``exp(x**2) * erfc(x)``.

    x: Real (complex without derivative).
    Returns: About ``1 / (x * sqrt(pi))`` for large `x`; overflows for `x` below -26.
    The derivative ``2 * x * erfcx(x) - 2 / sqrt(pi)`` would cancel for large `x`; it is computed as a repeated integral
    of ``erfc`` (Gautschi 1961; DLMF 7.18), as are the higher ones.

    >>> ag.special.erfcx(ag.asarray([0.0, 1e3]))
    tensor([1.0000e+00, 5.6419e-04])
    """


@elementwise(name="special.erfinv", y=lambda xp, ans: xp.exp(ans * ans) / _2_SQRT_PI, memory="fresh")
def erfinv(y: Any, /) -> Tensor:
    """Inverse of `erf`.

    y: From -1 to 1.
    Returns: The `x` with ``erf(x) = y``.
    The derivative is ``sqrt(pi) / 2 * exp(x**2)``, infinite at -1 and 1.

    >>> ag.special.erfinv(ag.asarray([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """


@elementwise(name="special.erfcinv", y=lambda xp, ans: -xp.exp(ans * ans) / _2_SQRT_PI, memory="fresh")
def erfcinv(y: Any, /) -> Tensor:
    """Inverse of `erfc`.

    y: From 0 to 2.
    Returns: The `x` with ``erfc(x) = y``.
    The derivative is ``-sqrt(pi) / 2 * exp(x**2)``, infinite at 0 and 2.

    >>> ag.special.erfcinv(ag.asarray([1.0, 1e-20]))
    tensor([-0.0000, 6.6016])
    """


@elementwise(
    name="special.ndtr",
    x=lambda xp, x: xp.exp(x * x * -0.5) / _SQRT_2PI,
    kernel=lambda xp, x: xp.nn.normal_cdf(x),
    memory="fresh",
)
def ndtr(x: Any, /) -> Tensor:
    """Distribution function of the standard normal.

    x: Real (complex, where the backend has it).
    Returns: ``(1 + erf(x / sqrt(2))) / 2``, with full precision in the lower tail.
    The derivative is the density.

    >>> ag.special.ndtr(ag.asarray([0.0, -10.0]))
    tensor([5.0000e-01, 7.6199e-24])
    """


@elementwise(name="special.ndtri", y=lambda xp, ans: xp.exp(ans * ans * 0.5) * _SQRT_2PI, memory="fresh")
def ndtri(y: Any, /) -> Tensor:
    """Inverse of `ndtr`, the quantiles of the standard normal.

    y: From 0 to 1.
    Returns: The `x` with ``ndtr(x) = y``.
    The derivative is the reciprocal of the density, infinite at 0 and 1.

    >>> ag.special.ndtri(ag.asarray([0.5, 0.975]))
    tensor([0.0000, 1.9600])
    """


def _hazard(xp: Any, x: Any) -> Any:
    """The density of the standard normal over its distribution function."""
    real_only(xp, "log_ndtr", x)
    return math.sqrt(2 / math.pi) / xp.special.erfcx(x * -math.sqrt(0.5))


@elementwise(name="special.log_ndtr", x=_hazard, memory="fresh")
def log_ndtr(x: Any, /) -> Tensor:
    """Logarithm of `ndtr`.

    x: Real (complex without derivative).
    Returns: ``log(ndtr(x))``, about ``-x**2 / 2`` far below.
    The derivative is the density over the distribution function, by way of `erfcx`: right over the whole line, as is
    the second.

    >>> ag.special.log_ndtr(ag.asarray([0.0, -1e3]))
    tensor([-6.9315e-01, -5.0001e+05])
    """


@elementwise(
    name="special.ndtri_exp",
    y=lambda xp, ans: math.sqrt(math.pi / 2) * xp.special.erfcx(ans * -math.sqrt(0.5)),
    memory="fresh",
)
def ndtri_exp(y: Any, /) -> Tensor:
    """Inverse of `log_ndtr`.

    y: Not positive.
    Returns: The `x` with ``log_ndtr(x) = y``.
    The derivative is the distribution function over the density, by way of `erfcx`.

    >>> ag.special.ndtri_exp(ag.asarray([-1.0, -1e3]))
    tensor([ -0.3375, -44.6157])
    """
