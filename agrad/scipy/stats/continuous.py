"""Continuous distributions of one variable.

The formulas are those of Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions, 1994; logarithms are
derived from the formulas, not from densities that may underflow.
"""

from __future__ import annotations

import math
from typing import Any

from agrad.core.tensor import Tensor
from agrad.ops.elementwise import abs, atan2, exp, expm1, log, log1p, tan
from agrad.ops.searching import where
from agrad.ops.special import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    betaln,
    chdtr,
    chdtrc,
    erf,
    erfinv,
    expit,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_expit,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)
from agrad.ops.special.edges import edge_power, f_edge
from agrad.scipy.stats.base import INF, NAN, Continuous, Quantile, beyond, log_or_floor
from agrad.scipy.stats.edges import Edge, Flat, fixed, flat, heavy, light, log_of

#: log(sqrt(2 pi)) and 1 / sqrt(2 pi).
LOG_ROOT, ONE_OVER_ROOT = math.log(2 * math.pi) / 2, 1 / math.sqrt(2 * math.pi)
LOG_2, LOG_PI, ROOT_2 = math.log(2), math.log(math.pi), math.sqrt(2)
Edges = tuple[Edge | Flat | None, Edge | Flat | None]
Ends = tuple[Quantile | None, Quantile | None]
#: The constant of Euler and Mascheroni.
EULER = 0.5772156649015329


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

    def _moments(self) -> tuple[Any, Any]:
        return 0.0, 1.0

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

    def _moments(self, df: Any) -> tuple[Any, Any]:
        if not isinstance(df, Tensor) and math.isinf(df):
            return norm._moments()
        var = beyond(2, df, lambda df: df / (df - 2))
        if isinstance(df, Tensor):
            return beyond(1, df, lambda df: 0 * df), where(df > 1, var, NAN)
        return (0.0, var) if df > 1 else (INF, NAN)

    def _ends(self, df: Any) -> Ends:
        return lambda u: -heavy(1 / df)(u), heavy(1 / df)

    def _logpdf(self, y: Tensor, df: Any) -> Tensor:
        if not isinstance(df, Tensor) and math.isinf(df):
            return norm._logpdf(y)
        # by the beta function, because the difference of two logarithms of gamma functions cancels for many degrees
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

    support: tuple[float, float] | None = (0.0, INF)

    def _moments(self, a: Any) -> tuple[Any, Any]:
        return a, a

    def _edges(self, a: Any) -> Edges:
        return Edge(a - 1, lambda a, _: -gammaln(a), a, 1.0, -1.0, 0.5), None

    def _ends(self, a: Any) -> Ends:
        return super()._ends(a)[0], light(a, -gammaln(a))

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

    support: tuple[float, float] | None = (0.0, INF)

    def _moments(self, df: Any) -> tuple[Any, Any]:
        return df, 2 * df

    def _edges(self, df: Any) -> Edges:
        return Edge(df / 2 - 1, lambda df, _: -gammaln(df / 2) - LOG_2 / 2 * df, df, 1.0, -0.5, 0.125), None

    def _ends(self, df: Any) -> Ends:
        return super()._ends(df)[0], light(df, -2 * gammaln(df / 2))

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

    support: tuple[float, float] | None = (0.0, 1.0)

    def _moments(self, a: Any, b: Any) -> tuple[Any, Any]:
        return a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))

    def _edges(self, a: Any, b: Any) -> Edges:
        return self._edge(a, b), self._edge(b, a)

    def _edge(self, a: Any, b: Any) -> Edge:
        """Return the end that `a` belongs to."""
        return Edge(a - 1, lambda a, b: -betaln(a, b), a, b, 1 - b, (b - 1) * (b - 2) / 2)

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

    support: tuple[float, float] | None = (0.0, INF)

    def _moments(self) -> tuple[Any, Any]:
        return 1.0, 1.0

    def _edges(self) -> Edges:
        return Edge(0.0, first=-1.0, second=0.5), None

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

    def _moments(self) -> tuple[Any, Any]:
        return 0.0, 2.0

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

    support: tuple[float, float] | None = (0.0, INF)

    def _moments(self, s: Any) -> tuple[Any, Any]:
        return exp(s * s / 2), expm1(s * s) * exp(s * s)

    def _ends(self, s: Any) -> Ends:
        return flat(s), heavy(s)

    def _edges(self, s: Any) -> Edges:
        return Flat(s), None

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

    support: tuple[float, float] | None = (0.0, 1.0)

    def _moments(self) -> tuple[Any, Any]:
        return 0.5, 1 / 12

    def _edges(self) -> Edges:
        return Edge(0.0), Edge(0.0)

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


def _one_over(x: Tensor) -> Tensor:
    """Return the reciprocal of nonnegative numbers, infinity for 0."""
    none = x == 0
    return where(none, INF, 1 / where(none, 1.0, x))


def _log_beside(p: Tensor, rest: Tensor) -> Tensor:
    """Return the logarithm of probabilities, accurate where their distance from 1 is small."""
    near = rest < 0.5
    return where(near, log1p(-where(near, rest, 0.5)), log_or_floor(where(near, 1.0, p)))


class InverseGamma(Continuous):
    """The inverse gamma distribution: of 1 / y, where y has the gamma distribution of shape `a`.

    Examples
    --------
    >>> from agrad.scipy.stats import invgamma
    >>> invgamma.pdf([0.5, 1.0], 2.0)
    tensor([1.0827, 0.3679])
    """

    support: tuple[float, float] | None = (0.0, INF)

    def _moments(self, a: Any) -> tuple[Any, Any]:
        return beyond(1, a, lambda a: 1 / (a - 1)), beyond(2, a, lambda a: 1 / ((a - 1) ** 2 * (a - 2)))

    def _ends(self, a: Any) -> Ends:
        return flat(a), heavy(1 / a)

    def _edges(self, a: Any) -> Edges:
        return Flat(a, lambda a: (a, -gammaln(a))), None

    def _logpdf(self, y: Tensor, a: Any) -> Tensor:
        none = y == 0
        y = where(none, 1.0, y)
        return where(none, -INF, -(a + 1) * log(y) - gammaln(a) - 1 / y)

    def _cdf(self, y: Tensor, a: Any) -> Tensor:
        return gammaincc(a, _one_over(y))

    def _sf(self, y: Tensor, a: Any) -> Tensor:
        return gammainc(a, _one_over(y))

    def _logcdf(self, y: Tensor, a: Any) -> Tensor:
        return _log_beside(self._cdf(y, a), self._sf(y, a))

    def _logsf(self, y: Tensor, a: Any) -> Tensor:
        return _log_beside(self._sf(y, a), self._cdf(y, a))

    def _ppf(self, q: Tensor, a: Any) -> Tensor:
        return _one_over(gammainccinv(a, q))

    def _isf(self, q: Tensor, a: Any) -> Tensor:
        return _one_over(gammaincinv(a, q))


class WeibullMin(Continuous):
    """The Weibull distribution of shape `c`.

    Examples
    --------
    >>> from agrad.scipy.stats import weibull_min
    >>> weibull_min.sf([1.0, 2.0], 1.5, scale=2.0)
    tensor([0.7022, 0.3679])
    """

    support: tuple[float, float] | None = (0.0, INF)

    def _moments(self, c: Any) -> tuple[Any, Any]:
        mean = exp(gammaln(1 + 1 / c))
        return mean, exp(gammaln(1 + 2 / c)) - mean * mean

    def _edges(self, c: Any) -> Edges:
        return Edge(c - 1, lambda c, _: log_of(c), c, 1.0, -1.0, 0.5, step=c), None

    def _ends(self, c: Any) -> Ends:
        return super()._ends(c)[0], heavy(1 / c)

    def _logpdf(self, y: Tensor, c: Any) -> Tensor:
        return log_of(c) + xlogy(c - 1, y) - y**c

    def _cdf(self, y: Tensor, c: Any) -> Tensor:
        return expon._cdf(y**c)

    def _sf(self, y: Tensor, c: Any) -> Tensor:
        return exp(-(y**c))

    def _logcdf(self, y: Tensor, c: Any) -> Tensor:
        return expon._logcdf(y**c)

    def _logsf(self, y: Tensor, c: Any) -> Tensor:
        return -(y**c)

    def _ppf(self, q: Tensor, c: Any) -> Tensor:
        return expon._ppf(q) ** (1 / c)

    def _isf(self, q: Tensor, c: Any) -> Tensor:
        return expon._isf(q) ** (1 / c)


class HalfNorm(Continuous):
    """The normal distribution of mean 0 folded to the positive half line.

    Examples
    --------
    >>> from agrad.scipy.stats import halfnorm
    >>> halfnorm.cdf([0.5, 1.0, 2.0])
    tensor([0.3829, 0.6827, 0.9545])
    """

    support: tuple[float, float] | None = (0.0, INF)

    def _moments(self) -> tuple[Any, Any]:
        return math.sqrt(2 / math.pi), 1 - 2 / math.pi

    def _edges(self) -> Edges:
        return Edge(0.0, lambda _, density: log_of(density), 1.0, 2 * ONE_OVER_ROOT, 0.0, -0.5), None

    def _logpdf(self, y: Tensor) -> Tensor:
        return y * y * -0.5 + (LOG_2 - LOG_ROOT)

    def _cdf(self, y: Tensor) -> Tensor:
        return erf(y / ROOT_2)

    def _sf(self, y: Tensor) -> Tensor:
        return 2 * ndtr(-y)

    def _logsf(self, y: Tensor) -> Tensor:
        return LOG_2 + log_ndtr(-y)

    def _ppf(self, q: Tensor) -> Tensor:
        return ROOT_2 * erfinv(q)

    def _isf(self, q: Tensor) -> Tensor:
        return -ndtri(q / 2)


class Cauchy(Continuous):
    """The Cauchy distribution.

    Examples
    --------
    >>> from agrad.scipy.stats import cauchy
    >>> cauchy.cdf([-1.0, 0.0, 1.0])
    tensor([0.2500, 0.5000, 0.7500])
    """

    def _moments(self) -> tuple[Any, Any]:
        return NAN, NAN

    def _ends(self) -> Ends:
        return lambda u: -heavy(1.0)(u), heavy(1.0)

    def _logpdf(self, y: Tensor) -> Tensor:
        size = abs(y)
        far = size > 1e100  # where the square overflows
        near = where(far, 1.0, size)
        return -where(far, 2 * log(where(far, size, 1.0)), log1p(near * near)) - LOG_PI

    def _cdf(self, y: Tensor) -> Tensor:
        return atan2(1.0, -y) / math.pi

    def _sf(self, y: Tensor) -> Tensor:
        return atan2(1.0, y) / math.pi

    def _ppf(self, q: Tensor) -> Tensor:
        low, high = q < 0.25, q > 0.75
        inner = tan((where(low | high, 0.5, q) - 0.5) * math.pi)
        return where(low, -self._tail(where(low, q, 0.25)), where(high, self._tail(where(high, 1 - q, 0.25)), inner))

    def _isf(self, q: Tensor) -> Tensor:
        return -self._ppf(q)

    def _tail(self, q: Tensor) -> Tensor:
        """Return the magnitude that is exceeded with a given probability, not above 1/4."""
        return _one_over(tan(q * math.pi))


class Logistic(Continuous):
    """The logistic distribution.

    Examples
    --------
    >>> from agrad.scipy.stats import logistic
    >>> logistic.cdf([-1.0, 0.0, 1.0])
    tensor([0.2689, 0.5000, 0.7311])
    """

    def _moments(self) -> tuple[Any, Any]:
        return 0.0, math.pi**2 / 3

    def _logpdf(self, y: Tensor) -> Tensor:
        return log_expit(y) + log_expit(-y)

    def _cdf(self, y: Tensor) -> Tensor:
        return expit(y)

    def _sf(self, y: Tensor) -> Tensor:
        return expit(-y)

    def _logcdf(self, y: Tensor) -> Tensor:
        return log_expit(y)

    def _logsf(self, y: Tensor) -> Tensor:
        return log_expit(-y)

    def _ppf(self, q: Tensor) -> Tensor:
        return logit(q)

    def _isf(self, q: Tensor) -> Tensor:
        return -logit(q)


class Gumbel(Continuous):
    """The Gumbel distribution of the largest of many.

    Examples
    --------
    >>> from agrad.scipy.stats import gumbel_r
    >>> gumbel_r.cdf([-1.0, 0.0, 1.0])
    tensor([0.0660, 0.3679, 0.6922])
    """

    def _moments(self) -> tuple[Any, Any]:
        return EULER, math.pi**2 / 6

    def _ends(self) -> Ends:
        return lambda u: -light()(u), light()

    def _logpdf(self, y: Tensor) -> Tensor:
        return -y - exp(-y)

    def _cdf(self, y: Tensor) -> Tensor:
        return exp(-exp(-y))

    def _sf(self, y: Tensor) -> Tensor:
        return -expm1(-exp(-y))

    def _logcdf(self, y: Tensor) -> Tensor:
        return -exp(-y)

    def _ppf(self, q: Tensor) -> Tensor:
        return -xlogy(1.0, -xlogy(1.0, q))

    def _isf(self, q: Tensor) -> Tensor:
        return -xlogy(1.0, -xlog1py(1.0, -q))


class Pareto(Continuous):
    """The Pareto distribution of exponent `b`, of numbers above `scale`.

    Examples
    --------
    >>> from agrad.scipy.stats import pareto
    >>> pareto.sf([1.0, 2.0, 4.0], 2.0)
    tensor([1.0000, 0.2500, 0.0625])
    """

    support: tuple[float, float] | None = (1.0, INF)
    inside: float = 1.5

    def _moments(self, b: Any) -> tuple[Any, Any]:
        return beyond(1, b, lambda b: b / (b - 1)), beyond(2, b, lambda b: b / ((b - 2) * (b - 1) ** 2))

    def _edges(self, b: Any) -> Edges:
        return Edge(0.0, lambda _, b: log_of(b), 1.0, b, -b - 1, (b + 1) * (b + 2) / 2), None

    def _logpdf(self, y: Tensor, b: Any) -> Tensor:
        return log_of(b) - (b + 1) * log(y)

    def _cdf(self, y: Tensor, b: Any) -> Tensor:
        return expon._cdf(b * log(y))

    def _sf(self, y: Tensor, b: Any) -> Tensor:
        return exp(-b * log(y))

    def _logcdf(self, y: Tensor, b: Any) -> Tensor:
        return expon._logcdf(b * log(y))

    def _logsf(self, y: Tensor, b: Any) -> Tensor:
        return -b * log(y)

    def _ppf(self, q: Tensor, b: Any) -> Tensor:
        return exp(expon._ppf(q) / b)

    def _isf(self, q: Tensor, b: Any) -> Tensor:
        return exp(expon._isf(q) / b)


class FisherF(Continuous):
    """The F distribution with `dfn` and `dfd` degrees of freedom.

    Examples
    --------
    >>> from agrad.scipy.stats import f
    >>> f.sf([1.0, 4.0], 2.0, 10.0)
    tensor([0.4019, 0.0529])
    """

    support: tuple[float, float] | None = (0.0, INF)

    def _moments(self, dfn: Any, dfd: Any) -> tuple[Any, Any]:
        def var(dfd: Any) -> Any:
            return 2 * dfd**2 * (dfn + dfd - 2) / (dfn * (dfd - 2) ** 2 * (dfd - 4))

        return beyond(2, dfd, lambda dfd: dfd / (dfd - 2)), beyond(4, dfd, var)

    def _edges(self, dfn: Any, dfd: Any) -> Edges:
        ratio, half = dfn / dfd, (dfn + dfd) / 2
        return Edge(dfn / 2 - 1, f_edge, dfn, dfd, -half * ratio, half * (half + 1) / 2 * ratio**2), None

    def _ends(self, dfn: Any, dfd: Any) -> Ends:
        def upper(u: Tensor) -> Tensor:
            n = fixed(dfd)  # the power dominates its other effects
            return edge_power(u, -2 / dfd, 0.0, (f_edge(n, dfn) - log_of(n / 2)) * (2 / n))

        return super()._ends(dfn, dfd)[0], upper

    def _logpdf(self, y: Tensor, dfn: Any, dfd: Any) -> Tensor:
        level = dfn / dfd
        return (
            dfn / 2 * log_of(level)
            + xlogy(dfn / 2 - 1, y)
            - (dfn + dfd) / 2 * log1p(level * y)
            - betaln(dfn / 2, dfd / 2)
        )

    def _cdf(self, y: Tensor, dfn: Any, dfd: Any) -> Tensor:
        return betainc(dfn / 2, dfd / 2, 1 - dfd / (dfd + dfn * y))

    def _sf(self, y: Tensor, dfn: Any, dfd: Any) -> Tensor:
        return betainc(dfd / 2, dfn / 2, dfd / (dfd + dfn * y))

    def _ppf(self, q: Tensor, dfn: Any, dfd: Any) -> Tensor:
        part, rest = betaincinv(dfn / 2, dfd / 2, q), betainccinv(dfd / 2, dfn / 2, q)
        return dfd * part * _one_over(rest) / dfn

    def _isf(self, q: Tensor, dfn: Any, dfd: Any) -> Tensor:
        part, rest = betainccinv(dfn / 2, dfd / 2, q), betaincinv(dfd / 2, dfn / 2, q)
        return dfd * part * _one_over(rest) / dfn


beta: Beta = Beta("beta", "a", "b")
cauchy: Cauchy = Cauchy("cauchy")
chi2: ChiSquared = ChiSquared("chi2", "df")
expon: Exponential = Exponential("expon")
f: FisherF = FisherF("f", "dfn", "dfd")
gamma: Gamma = Gamma("gamma", "a")
gumbel_r: Gumbel = Gumbel("gumbel_r")
halfnorm: HalfNorm = HalfNorm("halfnorm")
invgamma: InverseGamma = InverseGamma("invgamma", "a")
laplace: Laplace = Laplace("laplace")
logistic: Logistic = Logistic("logistic")
lognorm: LogNormal = LogNormal("lognorm", "s")
norm: Norm = Norm("norm")
pareto: Pareto = Pareto("pareto", "b")
t: StudentT = StudentT("t", "df")
uniform: Uniform = Uniform("uniform")
weibull_min: WeibullMin = WeibullMin("weibull_min", "c")
