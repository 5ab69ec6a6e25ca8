"""Continuous distributions of one variable.

Formulas are those of Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions, 1994; logarithms are taken of formulas,
not of densities that may underflow.
"""

from __future__ import annotations

import math
from typing import Any

from agrad.core.tensor import Tensor
from agrad.ops.elementwise import abs, exp, expm1, log, log1p
from agrad.ops.searching import where
from agrad.ops.special import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    betaln,
    chdtr,
    chdtrc,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_ndtr,
    ndtr,
    ndtri,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)
from agrad.scipy.stats.base import INF, Continuous, log_of, log_or_floor

#: log(sqrt(2 pi)) and 1 / sqrt(2 pi).
LOG_ROOT, ONE_OVER_ROOT = math.log(2 * math.pi) / 2, 1 / math.sqrt(2 * math.pi)
LOG_2 = math.log(2)


def spread(y: Tensor, *shapes: Any) -> Tensor:
    """Return zeros of the broadcast shape; NaN where the variable is."""
    found = where(y != y, y, 0.0)  # noqa: PLR0124 (NaN is what differs from itself)
    for shape in shapes:
        found = found + 0 * shape
    return found


class Norm(Continuous):
    """The normal distribution: `loc` is its mean, `scale` its standard deviation.

    Examples
    --------
    >>> from agrad.scipy.stats import norm
    >>> norm.logpdf([0.0, 1.0], loc=1.0, scale=2.0)
    tensor([-1.7371, -1.6121])
    """

    def _logpdf(self, y: Tensor) -> Tensor:
        return y * y * -0.5 - LOG_ROOT

    def _pdf(self, y: Tensor) -> Tensor:
        return exp(y * y * -0.5) * ONE_OVER_ROOT

    def _cdf(self, y: Tensor) -> Tensor:
        return ndtr(y)

    def _sf(self, y: Tensor) -> Tensor:
        return ndtr(-y)

    def _logcdf(self, y: Tensor) -> Tensor:
        return log_ndtr(y)

    def _logsf(self, y: Tensor) -> Tensor:
        return log_ndtr(-y)

    def _ppf(self, q: Tensor) -> Tensor:
        return ndtri(q)

    def _isf(self, q: Tensor) -> Tensor:
        return -ndtri(q)


class StudentT(Continuous):
    """Student's t distribution with `df` degrees of freedom.

    Examples
    --------
    >>> from agrad.scipy.stats import t
    >>> t.cdf([0.0, 1.0], 1.0)
    tensor([0.5000, 0.7500])
    """

    def _logpdf(self, y: Tensor, df: Any) -> Tensor:
        if not isinstance(df, Tensor) and math.isinf(df):
            return norm._logpdf(y)
        # by the beta function, as the difference of two logarithms of gamma functions cancels for many degrees
        tail = log1p(y * y / df) * ((df + 1) / -2)
        return tail - (betaln(df / 2, 0.5) + log_of(df) / 2)

    def _cdf(self, y: Tensor, df: Any) -> Tensor:
        return stdtr(df, y)

    def _sf(self, y: Tensor, df: Any) -> Tensor:
        return stdtr(df, -y)

    def _ppf(self, q: Tensor, df: Any) -> Tensor:
        none = q == 0
        return where(none, -INF, stdtrit(df, where(none, 0.5, q)))

    def _isf(self, q: Tensor, df: Any) -> Tensor:
        return -self._ppf(q, df)


class Gamma(Continuous):
    """The gamma distribution of shape `a`; its rate is ``1 / scale``.

    Examples
    --------
    >>> from agrad.scipy.stats import gamma
    >>> gamma.pdf([1.0, 2.0], 2.0)
    tensor([0.3679, 0.2707])
    """

    support = (0.0, INF)

    def _logpdf(self, y: Tensor, a: Any) -> Tensor:
        return xlogy(a - 1, y) - y - gammaln(a)

    def _cdf(self, y: Tensor, a: Any) -> Tensor:
        return gammainc(a, y)

    def _sf(self, y: Tensor, a: Any) -> Tensor:
        return gammaincc(a, y)

    def _ppf(self, q: Tensor, a: Any) -> Tensor:
        return gammaincinv(a, q)

    def _isf(self, q: Tensor, a: Any) -> Tensor:
        return gammainccinv(a, q)


class ChiSquared(Continuous):
    """The chi-squared distribution with `df` degrees of freedom.

    Examples
    --------
    >>> from agrad.scipy.stats import chi2
    >>> chi2.sf([1.0, 3.84], 1.0)
    tensor([0.3173, 0.0500])
    """

    support = (0.0, INF)

    def _logpdf(self, y: Tensor, df: Any) -> Tensor:
        return xlogy(df / 2 - 1, y) - y / 2 - (gammaln(df / 2) + LOG_2 / 2 * df)

    def _cdf(self, y: Tensor, df: Any) -> Tensor:
        return chdtr(df, y)

    def _sf(self, y: Tensor, df: Any) -> Tensor:
        return chdtrc(df, y)

    def _ppf(self, q: Tensor, df: Any) -> Tensor:
        return 2 * gammaincinv(df / 2, q)

    def _isf(self, q: Tensor, df: Any) -> Tensor:
        return 2 * gammainccinv(df / 2, q)


class Beta(Continuous):
    """The beta distribution of shapes `a` and `b`, on [0, 1].

    Examples
    --------
    >>> from agrad.scipy.stats import beta
    >>> beta.pdf(0.5, 2.0, 3.0)
    tensor(1.5000)
    """

    support = (0.0, 1.0)

    def _logpdf(self, y: Tensor, a: Any, b: Any) -> Tensor:
        return xlog1py(b - 1, -y) + xlogy(a - 1, y) - betaln(a, b)

    def _cdf(self, y: Tensor, a: Any, b: Any) -> Tensor:
        return betainc(a, b, y)

    def _sf(self, y: Tensor, a: Any, b: Any) -> Tensor:
        return betaincc(a, b, y)

    def _ppf(self, q: Tensor, a: Any, b: Any) -> Tensor:
        return betaincinv(a, b, q)

    def _isf(self, q: Tensor, a: Any, b: Any) -> Tensor:
        return betainccinv(a, b, q)


class Exponential(Continuous):
    """The exponential distribution; its rate is ``1 / scale``.

    Examples
    --------
    >>> from agrad.scipy.stats import expon
    >>> expon.logpdf([-1.0, 1.0], scale=2.0)
    tensor([   -inf, -1.1931])
    """

    support = (0.0, INF)

    def _logpdf(self, y: Tensor) -> Tensor:
        return -y

    def _cdf(self, y: Tensor) -> Tensor:
        far = y > LOG_2  # where the derivative of expm1, its result and 1, cancels
        return where(far, 1 - exp(-y), -expm1(where(far, -1.0, -y)))

    def _sf(self, y: Tensor) -> Tensor:
        return exp(-y)

    def _logcdf(self, y: Tensor) -> Tensor:
        far = y > LOG_2
        return where(far, log1p(-exp(where(far, -y, -1.0))), log_or_floor(-expm1(where(far, -1.0, -y))))

    def _logsf(self, y: Tensor) -> Tensor:
        return -y

    def _ppf(self, q: Tensor) -> Tensor:
        return -xlog1py(1.0, -q)

    def _isf(self, q: Tensor) -> Tensor:
        return -xlogy(1.0, q)


class Laplace(Continuous):
    """The Laplace distribution; its density has a kink at `loc`, where the derivative is taken to be 0.

    Examples
    --------
    >>> from agrad.scipy.stats import laplace
    >>> laplace.cdf([-1.0, 0.0, 1.0])
    tensor([0.1839, 0.5000, 0.8161])
    """

    def _logpdf(self, y: Tensor) -> Tensor:
        return -abs(y) - LOG_2

    def _cdf(self, y: Tensor) -> Tensor:
        tail = exp(-abs(y)) / 2
        return where(y > 0, 1 - tail, tail)

    def _sf(self, y: Tensor) -> Tensor:
        return self._cdf(-y)

    def _logcdf(self, y: Tensor) -> Tensor:
        size = abs(y)
        return where(y > 0, log1p(exp(-size) / -2), -size - LOG_2)

    def _logsf(self, y: Tensor) -> Tensor:
        return self._logcdf(-y)

    def _ppf(self, q: Tensor) -> Tensor:
        upper = q > 0.5
        found = xlogy(1.0, 2 * where(upper, 1 - q, q))
        return where(upper, -found, found)

    def _isf(self, q: Tensor) -> Tensor:
        return -self._ppf(q)


class LogNormal(Continuous):
    """The distribution of ``scale * exp(s z)`` for a standard normal `z`.

    Examples
    --------
    >>> from agrad.scipy.stats import lognorm
    >>> lognorm.cdf([0.0, 1.0], 0.5)
    tensor([0.0000, 0.5000])
    """

    support = (0.0, INF)

    def _logpdf(self, y: Tensor, s: Any) -> Tensor:
        none = y == 0
        level = log(where(none, 1.0, y))
        z = level / s
        return where(none, -INF, z * z * -0.5 - level - (log_of(s) + LOG_ROOT))

    def _level(self, y: Tensor, s: Any) -> Tensor:
        return xlogy(1.0, y) / s

    def _cdf(self, y: Tensor, s: Any) -> Tensor:
        return ndtr(self._level(y, s))

    def _sf(self, y: Tensor, s: Any) -> Tensor:
        return ndtr(-self._level(y, s))

    def _logcdf(self, y: Tensor, s: Any) -> Tensor:
        return log_ndtr(self._level(y, s))

    def _logsf(self, y: Tensor, s: Any) -> Tensor:
        return log_ndtr(-self._level(y, s))

    def _ppf(self, q: Tensor, s: Any) -> Tensor:
        return exp(s * ndtri(q))

    def _isf(self, q: Tensor, s: Any) -> Tensor:
        return exp(-s * ndtri(q))


class Uniform(Continuous):
    """The uniform distribution on ``[loc, loc + scale]``.

    Examples
    --------
    >>> from agrad.scipy.stats import uniform
    >>> uniform.pdf([1.0, 4.0], loc=0.0, scale=2.0)
    tensor([0.5000, 0.0000])
    """

    support = (0.0, 1.0)

    def _logpdf(self, y: Tensor) -> Tensor:
        return spread(y)

    def _cdf(self, y: Tensor) -> Tensor:
        return y

    def _sf(self, y: Tensor) -> Tensor:
        return 1 - y

    def _ppf(self, q: Tensor) -> Tensor:
        return q

    def _isf(self, q: Tensor) -> Tensor:
        return 1 - q


beta = Beta("beta", "a", "b")
chi2 = ChiSquared("chi2", "df")
expon = Exponential("expon")
gamma = Gamma("gamma", "a")
laplace = Laplace("laplace")
lognorm = LogNormal("lognorm", "s")
norm = Norm("norm")
t = StudentT("t", "df")
uniform = Uniform("uniform")
