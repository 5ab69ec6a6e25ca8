"""The gamma function and its kin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agrad.core.declare import elementwise, nondifferentiable
from agrad.core.facts import Facts
from agrad.ops.batch_rules import pointwise
from agrad.ops.creation import asarray
from agrad.ops.special.series import PSI_FROM, psi_tail, real_only, refused

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "beta", "betaln", "binom", "digamma", "gamma", "gammaln", "gammasgn", "loggamma", "multigammaln", "poch",
    "polygamma", "psi", "rgamma", "zeta",
]  # fmt: skip


@elementwise(name="special.gamma", z=lambda xp, ans, z: ans * xp.special.psi(z), memory="fresh")
def gamma(z: Any, /) -> Tensor:
    """Gamma function.

    Returns: The integral of ``t**(z - 1) * exp(-t)`` over positive `t`, continued to the left.
    The derivative is ``gamma(z) * psi(z)`` (DLMF 5.2.2), NaN at the poles 0, -1, ...

    >>> ag.special.gamma(ag.asarray([1.0, 5.0]))
    tensor([ 1., 24.])
    """


@elementwise(name="special.gammaln", x=lambda xp, x: xp.special.psi(x), memory="fresh")
def gammaln(x: Any, /) -> Tensor:
    """Logarithm of the absolute value of the gamma function.

    Returns: ``log(abs(gamma(x)))``.
    The derivative is ``psi(x)``, NaN at the poles.

    >>> ag.special.gammaln(ag.asarray([1.0, 100.0]))
    tensor([  0.0000, 359.1342])
    """


@elementwise(name="special.loggamma", z=lambda xp, z: xp.special.psi(z), memory="fresh")
def loggamma(z: Any, /) -> Tensor:
    """Principal branch of the logarithm of the gamma function.

    Returns: Continuous off the negative real axis; NaN at real negative `z`.
    The derivative is ``psi(z)``.

    >>> ag.special.loggamma(ag.asarray([1.0, 100.0]))
    tensor([  0.0000, 359.1342])
    """


def _rgamma_slope(xp: Any, z: Any, ans: Any) -> Any:
    """Return -psi(z) / gamma(z), and its limit (-1)**n n! at the poles -n, where 1 / gamma is 0."""
    real_only(xp, "rgamma", z)
    pole = (z <= 0) & (z == xp.floor(z))
    n = xp.where(pole, -z, xp.zeros_like(z))
    limit = (1 - 2 * (n % 2)) * xp.special.gamma(n + 1)
    return xp.where(pole, limit, -ans * xp.special.psi(xp.where(pole, xp.ones_like(z), z)))


@elementwise(name="special.rgamma", z=_rgamma_slope, memory="fresh")
def rgamma(z: Any, /) -> Tensor:
    """Reciprocal of the gamma function.

    z: Real (complex without derivative).
    Returns: ``1 / gamma(z)``, 0 at the poles.
    The derivative is ``-psi(z) / gamma(z)``; at the poles -n its limit, ``(-1)**n * n!``. There the second derivative
    is not its limit.

    >>> ag.special.rgamma(ag.asarray([0.0, 5.0]))
    tensor([0.0000, 0.0417])
    """


@nondifferentiable("x", name="special.gammasgn", batch=pointwise, memory="fresh")
def gammasgn(x: Any, /) -> Tensor:
    """Sign of the gamma function; it has no derivative.

    Returns: 1 or -1; at the poles what SciPy's release has.

    >>> ag.special.gammasgn(ag.asarray([-0.5, 0.5]))
    tensor([-1.,  1.])
    """


def _trigamma(xp: Any, z: Any) -> Any:
    real_only(xp, "psi", z)
    return xp.special.polygamma(1, z)


@elementwise(name="special.psi", z=_trigamma, memory="fresh")
def psi(z: Any, /) -> Tensor:
    """Digamma function, the derivative of the logarithm of the gamma function.

    z: Real (complex without derivative).
    Returns: ``gamma'(z) / gamma(z)``.
    The derivative is ``polygamma(1, z)`` (DLMF 5.15).

    >>> ag.special.psi(ag.asarray([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """


#: The same function by its other name.
digamma = psi


@elementwise(
    name="special.polygamma",
    n=refused("polygamma", "n"),
    x=lambda xp, n, x: xp.special.polygamma(n + 1, x),
    memory="fresh",
    facts=Facts(torch="polygamma"),
)
def polygamma(n: Any, x: Any, /) -> Tensor:
    """Derivatives of the digamma function.

    n: The order, a non-negative whole number.
    Returns: The derivative of order `n` of ``psi(x)``.
    NotImplementedError: If a derivative by `n` is asked for.
    The derivative is ``polygamma(n + 1, x)`` (DLMF 5.15.1).

    >>> ag.special.polygamma(1, ag.asarray([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """


@elementwise(
    name="special.zeta", x=refused("zeta", "x"), q=lambda xp, x, q: -x * xp.special.zeta(x + 1, q), memory="fresh"
)
def zeta(x: Any, q: Any = None, /) -> Tensor:
    """Zeta function of Riemann, or of Hurwitz where `q` is given.

    x: Real; the exponent.
    q : Tensor, optional
        The offset. Default: 1.
    Returns: The sum of ``(k + q)**-x`` over whole `k` from 0.
    NotImplementedError: If a derivative by `x` is asked for.
    The derivative by `q` is ``-x * zeta(x + 1, q)`` (DLMF 25.11.17).

    >>> ag.special.zeta(ag.asarray([2.0, 4.0]))
    tensor([1.6449, 1.0823])
    >>> ag.special.zeta(2.0, ag.asarray([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """


def _psi_gap(xp: Any, a: Any, b: Any) -> Any:
    """psi(a) - psi(a + b): for large a by the asymptotic series, term by term, since the values would cancel."""
    large = (a >= PSI_FROM) & (b > 0)
    p, q = xp.where(large, a, a * 0 + PSI_FROM), xp.where(large, b, xp.ones_like(b))
    n = p + q
    far = -xp.log1p(q / p) - q / (2 * p * n) + (psi_tail(p) - psi_tail(n))
    return xp.where(large, far, xp.special.psi(a) - xp.special.psi(a + b))


@elementwise(
    name="special.beta",
    a=lambda xp, ans, a, b: ans * _psi_gap(xp, a, b),
    b=lambda xp, ans, a, b: ans * _psi_gap(xp, b, a),
    memory="fresh",
)
def beta(a: Any, b: Any, /) -> Tensor:
    """Beta function.

    a, b: Real.
    Returns: ``gamma(a) * gamma(b) / gamma(a + b)``.
    The derivative by `a` is ``beta(a, b) * (psi(a) - psi(a + b))`` (DLMF 5.12).

    >>> ag.special.beta(ag.asarray([1.0, 2.0]), 3.0)
    tensor([0.3333, 0.0833])
    """


@elementwise(
    name="special.betaln", a=lambda xp, a, b: _psi_gap(xp, a, b), b=lambda xp, a, b: _psi_gap(xp, b, a), memory="fresh"
)
def betaln(a: Any, b: Any, /) -> Tensor:
    """Logarithm of the absolute value of the beta function.

    a, b: Real.
    Returns: ``log(abs(beta(a, b)))``.
    The derivative by `a` is ``psi(a) - psi(a + b)``, from 10 on by the asymptotic series, where the two would cancel.

    >>> ag.special.betaln(ag.asarray([1.0, 1e6]), 3.0)
    tensor([ -1.0986, -40.7534])
    """


@elementwise(
    name="special.binom",
    x=lambda xp, ans, x, y: ans * (xp.special.psi(x + 1) - xp.special.psi(x - y + 1)),
    y=lambda xp, ans, x, y: ans * (xp.special.psi(x - y + 1) - xp.special.psi(y + 1)),
    memory="fresh",
)
def binom(x: Any, y: Any, /) -> Tensor:
    """Binomial coefficient, of real numbers too.

    x: The number to choose from.
    y: The number to choose.
    Returns: ``gamma(x + 1) / (gamma(y + 1) * gamma(x - y + 1))``.
    The derivatives are differences of ``psi``; NaN where `y` or ``x - y`` is a negative whole number.

    >>> ag.special.binom(ag.asarray([4.0, 4.5]), 2.0)
    tensor([6.0000, 7.8750])
    """


@elementwise(
    name="special.poch",
    z=lambda xp, ans, z, m: ans * (xp.special.psi(z + m) - xp.special.psi(z)),
    m=lambda xp, ans, z, m: ans * xp.special.psi(z + m),
    memory="fresh",
)
def poch(z: Any, m: Any, /) -> Tensor:
    """Pochhammer's symbol, the rising factorial.

    z: The first factor.
    m: The number of factors.
    Returns: ``gamma(z + m) / gamma(z)``.
    The derivative by `m` is ``poch(z, m) * psi(z + m)``; NaN at the poles.

    >>> ag.special.poch(ag.asarray([1.0, 2.0]), 3.0)
    tensor([ 6., 24.])
    """


def multigammaln(a: Any, d: int) -> Tensor:
    """Logarithm of the multivariate gamma function.

    a: Real, above ``(d - 1) / 2``.
    d : int
        The dimension, at least 1.
    Returns: ``log(pi) * d * (d - 1) / 4`` and the sum of ``gammaln(a - j / 2)`` for `j` below `d`.
    ValueError: If `d` is less than 1 or not a whole number. James, Distributions of matrix variates, Ann. Math.
    Statist. 35 (1964). SciPy refuses `a` outside of the domain; here the formula is applied as far as it is defined.

    >>> ag.special.multigammaln(ag.asarray([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    if d != int(d) or d < 1:
        raise ValueError(f"special.multigammaln: d must be a whole number from 1, got {d!r}")
    a = asarray(a)
    total = gammaln(a) + math.log(math.pi) * d * (d - 1) / 4
    for j in range(1, int(d)):
        total = total + gammaln(a - j / 2)
    return total
