"""Distributions of counts.

Formulas are those of Johnson, Kemp & Kotz, Univariate Discrete Distributions, 2005.
"""

from __future__ import annotations

import math
from typing import Any

from agrad.core.mode import may_look
from agrad.core.tensor import Tensor
from agrad.ops.elementwise import exp, expm1, floor, log, log1p
from agrad.ops.searching import where
from agrad.ops.special import betainc, betaincc, betaln, gammaln, pdtr, pdtrc, xlog1py, xlogy
from agrad.scipy.stats.base import Discrete
from agrad.scipy.stats.continuous import beta
from agrad.scipy.stats.edges import log_of


def _times_log(k: Tensor, p: Any) -> Tensor:
    """Return ``xlogy(k, p)``; with a single logarithm if `p` is one number that is known to be positive."""
    if not isinstance(p, Tensor):
        return k * math.log(p) if p > 0 else xlogy(k, p)
    backend = p._spec.backend
    if not p.ndim and may_look(backend) and backend.truth(backend.xp.greater(p._raw, 0)):
        return k * log(p)
    return xlogy(k, p)


class Poisson(Discrete):
    """The Poisson distribution of mean `mu`.

    Examples
    --------
    >>> from agrad.scipy.stats import poisson
    >>> poisson.pmf([0, 1, 2], 2.0)
    tensor([0.1353, 0.2707, 0.2707])
    """

    def _moments(self, mu: Any) -> tuple[Any, Any]:
        return mu, mu

    def _valid(self, mu: Any) -> Any:
        return mu >= 0

    def _logpmf(self, k: Tensor, mu: Any) -> Tensor:
        return _times_log(k, mu) - gammaln(k + 1) - mu

    def _ends(self, mu: Any) -> tuple[Any, ...]:
        return (mu,)

    def _product(self, k: Tensor, mu: Any) -> Tensor:
        return mu**k * exp(-mu - gammaln(k + 1))

    def _cdf(self, k: Tensor, mu: Any) -> Tensor:
        return pdtr(k, mu)

    def _sf(self, k: Tensor, mu: Any) -> Tensor:
        return pdtrc(k, mu)


class Binomial(Discrete):
    """The number of successes among `n`, each of probability `p`. There is no derivative with respect to `n`.

    Examples
    --------
    >>> from agrad.scipy.stats import binom
    >>> binom.pmf([0, 1, 2], 2, 0.5)
    tensor([0.2500, 0.5000, 0.2500])
    """

    counts: tuple[str, ...] = ("k", "n", "loc")

    def _moments(self, n: Any, p: Any) -> tuple[Any, Any]:
        return n * p, n * p * (1 - p)

    def _valid(self, n: Any, p: Any) -> Any:
        whole = n == (floor(n) if isinstance(n, Tensor) else n // 1)
        return (n >= 0) & whole & (p >= 0) & (p <= 1)

    def _largest(self, n: Any, p: Any) -> Any:
        return n

    def _logpmf(self, k: Tensor, n: Any, p: Any) -> Tensor:
        return xlogy(k, p) + xlog1py(n - k, -p) - self._ways(k, n)

    def _ways(self, k: Tensor, n: Any) -> Tensor:
        """Return the logarithm of 1 over the binomial coefficient."""
        # by the beta function: a sum of three logarithms of gamma functions cancels for large n
        return betaln(n - k + 1, k + 1) + (log1p(n) if isinstance(n, Tensor) else log1p(0 * k + n))

    def _ends(self, n: Any, p: Any) -> tuple[Any, ...]:
        return p, 1 - p

    def _product(self, k: Tensor, n: Any, p: Any) -> Tensor:
        return p**k * (1 - p) ** (n - k) * exp(-self._ways(k, n))

    def _cdf(self, k: Tensor, n: Any, p: Any) -> Tensor:
        return betaincc(k + 1, n - k, p)  # `bdtr` has few digits where there are millions of trials

    def _sf(self, k: Tensor, n: Any, p: Any) -> Tensor:
        return betainc(k + 1, n - k, p)


class Bernoulli(Discrete):
    """One trial, which is 1 with probability `p`.

    Examples
    --------
    >>> from agrad.scipy.stats import bernoulli
    >>> bernoulli.logpmf([0, 1, 2], 0.25)
    tensor([-0.2877, -1.3863,    -inf])
    """

    def _moments(self, p: Any) -> tuple[Any, Any]:
        return p, p * (1 - p)

    def _valid(self, p: Any) -> Any:
        return (p >= 0) & (p <= 1)

    def _largest(self, p: Any) -> Any:
        return 1.0

    def _logpmf(self, k: Tensor, p: Any) -> Tensor:
        return xlogy(k, p) + xlog1py(1 - k, -p)

    def _ends(self, p: Any) -> tuple[Any, ...]:
        return p, 1 - p

    def _product(self, k: Tensor, p: Any) -> Tensor:
        return p**k * (1 - p) ** (1 - k)

    def _cdf(self, k: Tensor, p: Any) -> Tensor:
        return 1 - p + 0 * k

    def _sf(self, k: Tensor, p: Any) -> Tensor:
        return p + 0 * k


class NegativeBinomial(Discrete):
    """The number of failures before the `n`-th success, each trial of success probability `p`; `n` is any positive number.

    Examples
    --------
    >>> from agrad.scipy.stats import nbinom
    >>> nbinom.pmf([0, 1, 2], 2, 0.5)
    tensor([0.2500, 0.2500, 0.1875])
    """

    def _moments(self, n: Any, p: Any) -> tuple[Any, Any]:
        return n * (1 - p) / p, n * (1 - p) / p**2

    def _valid(self, n: Any, p: Any) -> Any:
        return (n > 0) & (p > 0) & (p <= 1)

    def _logpmf(self, k: Tensor, n: Any, p: Any) -> Tensor:
        return xlogy(n, p) + xlog1py(k, -p) - self._ways(k, n)

    def _ways(self, k: Tensor, n: Any) -> Tensor:
        """Return the logarithm of 1 over the coefficient, by the beta function, as of the binomial distribution."""
        return betaln(n, k + 1) + log(n + k)

    def _ends(self, n: Any, p: Any) -> tuple[Any, ...]:
        return (1 - p,)

    def _product(self, k: Tensor, n: Any, p: Any) -> Tensor:
        return p**n * (1 - p) ** k * exp(-self._ways(k, n))

    def _infinite(self, distance: Tensor, k: Tensor, n: Any, p: Any) -> Tensor:
        return beta._edge(k + 1, n).log_mass(distance, 1.0)

    def _cdf(self, k: Tensor, n: Any, p: Any) -> Tensor:
        return betainc(n, k + 1, p)

    def _sf(self, k: Tensor, n: Any, p: Any) -> Tensor:
        return betaincc(n, k + 1, p)


class Geometric(Discrete):
    """The number of the first trial that is a success, each of success probability `p`.

    Examples
    --------
    >>> from agrad.scipy.stats import geom
    >>> geom.pmf([0, 1, 2], 0.5)
    tensor([0.0000, 0.5000, 0.2500])
    """

    def _counts(self, k: Any, args: tuple[Any, ...], kwds: dict[str, Any]) -> tuple[Tensor, list[Any], Any]:
        failures, shapes, zero = super()._counts(k, args, kwds)
        return failures - 1, shapes, zero

    def _moments(self, p: Any) -> tuple[Any, Any]:
        return 1 / p, (1 - p) / p**2

    def _valid(self, p: Any) -> Any:
        return (p > 0) & (p <= 1)

    def _logpmf(self, k: Tensor, p: Any) -> Tensor:
        return xlog1py(k, -p) + log_of(p)

    def _ends(self, p: Any) -> tuple[Any, ...]:
        return (1 - p,)

    def _product(self, k: Tensor, p: Any) -> Tensor:
        return p * (1 - p) ** k

    def _cdf(self, k: Tensor, p: Any) -> Tensor:
        certain = 0 * k + p == 1  # where the logarithm is infinite, and the power has a derivative
        return where(certain, 1 - (1 - p) ** (k + 1), -expm1(xlog1py(k + 1, -where(certain, 0.5, p))))

    def _sf(self, k: Tensor, p: Any) -> Tensor:
        certain = 0 * k + p == 1
        return where(certain, (1 - p) ** (k + 1), exp(xlog1py(k + 1, -where(certain, 0.5, p))))


bernoulli: Bernoulli = Bernoulli("bernoulli", "p")
binom: Binomial = Binomial("binom", "n", "p")
geom: Geometric = Geometric("geom", "p")
nbinom: NegativeBinomial = NegativeBinomial("nbinom", "n", "p")
poisson: Poisson = Poisson("poisson", "mu")
