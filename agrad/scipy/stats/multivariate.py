"""Distributions of vectors."""

from __future__ import annotations

import builtins
import math
from typing import Any

from agrad.core.errors import called
from agrad.core.mode import may_look
from agrad.core.tensor import Tensor
from agrad.numpy.common import floatings
from agrad.ops.creation import eye, zeros
from agrad.ops.data_type import finfo
from agrad.ops.decompositions import cholesky
from agrad.ops.docs import refer_methods
from agrad.ops.eigenvalues import eigvalsh
from agrad.ops.elementwise import abs, exp, log, sqrt
from agrad.ops.linalg import diagonal, matmul, matrix_transpose
from agrad.ops.manipulation import concat, expand_dims, reshape, squeeze
from agrad.ops.scipy.linalg import solve_triangular
from agrad.ops.searching import where
from agrad.ops.solving import pinv
from agrad.ops.special import gammaln, xlogy
from agrad.ops.statistical import any, max, sum
from agrad.scipy.stats.base import INF, Distribution
from agrad.scipy.stats.continuous import gamma

#: log(2 pi).
LOG_2PI = math.log(2 * math.pi)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, of a mean and a covariance matrix.

    The gradient with respect to the covariance is symmetric: along changes that keep it symmetric.

    Examples
    --------
    >>> from agrad.scipy.stats import multivariate_normal
    >>> multivariate_normal.logpdf([1.0, 0.0], mean=[0.0, 0.0], cov=[[2.0, 0.0], [0.0, 1.0]])
    tensor(-2.4345)
    """

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Tensor:
        """Return the logarithm of the density, without axes of length 1.

        The lower triangle of the covariance is read. With `allow_singular` the gradient is along changes that keep the
        rank. Without it, a covariance that is not positive definite raises ``LinAlgError`` on NumPy; other backends
        raise their own error, or return NaN.
        """
        x, mean, cov = _parameters(x, mean, cov)
        d = x - mean
        if not allow_singular:
            factor = cholesky(cov)
            z = solve_triangular(factor, matrix_transpose(_as_rows(d)), lower=True)
            size, logs = sum(z * z, axis=0), 2 * sum(log(diagonal(factor)))
            size = reshape(size, d.shape[:-1])
            return squeezed((size + logs) * -0.5 - LOG_2PI / 2 * cov.shape[0])
        smallest, rank, logs = _spectrum(cov)
        inverse = pinv(cov, rtol=(smallest / max(abs(eigvalsh(cov)))).detach())
        white = matmul(d, inverse)
        rest = d - matmul(white, cov)
        found = (sum(white * d, axis=-1) + rank * LOG_2PI + logs) * -0.5
        off = sqrt(sum(rest.detach() ** 2, axis=-1)) >= 1e3 * smallest
        return squeezed(where(off, -INF, found))

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Tensor:
        """Return the density."""
        return exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1) -> Tensor:
        """Return the differential entropy. The covariance may be singular."""
        _, _, cov = _parameters(None, mean, cov)
        _, rank, logs = _spectrum(cov)
        found: Tensor = (rank * (LOG_2PI + 1) + logs) * 0.5
        return found


def _parameters(x: Any, mean: Any, cov: Any) -> tuple[Any, Tensor, Tensor]:
    """Return the points, with their components along the last axis, the mean and the covariance matrix."""
    given = [v for v in (x, mean, cov) if v is not None]
    tensors = iter(floatings(*given))
    x, mean, cov = (v if v is None else next(tensors) for v in (x, mean, cov))
    dim = (1 if cov.ndim < 2 else cov.shape[0]) if mean is None else mean.size
    mean = zeros((dim,), dtype=cov.dtype, device=cov.device) if mean is None else mean
    if dim == 1:
        mean, cov = reshape(mean, (1,)), reshape(cov, (1, 1))
    if mean.shape != (dim,):
        raise ValueError(f"Array 'mean' must be a vector of length {dim}.{called()}")
    if cov.ndim == 0:
        cov = cov * _unit(dim, cov)
    elif cov.ndim == 1:
        cov = _unit(cov.shape[0], cov) * cov
    if cov.ndim > 2:
        raise ValueError(f"Array 'cov' must be at most two-dimensional, but cov.ndim = {cov.ndim}{called()}")
    if cov.shape != (dim, dim):
        rows, columns = cov.shape
        if rows != columns:
            raise ValueError(
                f"Array 'cov' must be square if it is two dimensional, but cov.shape = {cov.shape}.{called()}"
            )
        raise ValueError(
            f"Dimension mismatch: array 'cov' is of shape {cov.shape}, but 'mean' is a vector of length {dim}.{called()}"
        )
    if x is not None and (x.ndim == 0 or (x.ndim == 1 and dim == 1)):
        x = expand_dims(x, axis=-1)
    return x, mean, cov


def _unit(n: int, like: Tensor) -> Tensor:
    return eye(n, dtype=like.dtype, device=like.device)


def _as_rows(d: Tensor) -> Tensor:
    return d if d.ndim == 2 else reshape(d, (-1, d.shape[-1]))


def _spectrum(cov: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the threshold below which eigenvalues count as 0, how many are above, and the sum of their logarithms."""
    values = eigvalsh(cov)
    factor = 1e3 if finfo(cov.dtype).bits == 32 else 1e6
    smallest = factor * _eps(cov) * max(abs(values.detach()))
    none = values <= smallest
    if may_look(cov._spec.backend) and bool(any(values.detach() < -smallest)):
        raise ValueError(f"The input matrix must be symmetric positive semidefinite.{called()}")
    return (
        smallest,
        sum(where(none, 0.0, 1 + 0 * values.detach())),
        sum(where(none, 0.0, log(where(none, 1.0, values)))),
    )


def squeezed(x: Tensor) -> Tensor:
    """Return a tensor without its axes of length 1."""
    ones = tuple(i for i, n in enumerate(x.shape) if n == 1)
    return squeeze(x, axis=ones) if ones else x


class Dirichlet(Distribution):
    """The Dirichlet distribution, of vectors of positive numbers whose sum is 1.

    Examples
    --------
    >>> from agrad.scipy.stats import dirichlet
    >>> dirichlet.pdf([0.2, 0.3, 0.5], [1.0, 1.0, 2.0])
    tensor(3.0000)
    """

    def logpdf(self, x: Any, alpha: Any) -> Tensor:
        """Return the logarithm of the density.

        The derivative with respect to `x` is that of the formula, which also has values where the sum is not 1. Where
        values are not available (lazy ones, recorded programs), the result is NaN where a parameter is not positive or
        a point is not on the simplex.
        """
        x, alpha = floatings(x, alpha)
        if alpha.ndim != 1:
            raise ValueError(f"Parameter vector 'a' must be one dimensional, but a.shape = {alpha.shape}.{called()}")
        if x.ndim not in (1, 2) or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
            raise ValueError(
                "Vector 'x' must have either the same number of entries as, or one entry fewer than, parameter vector 'a',"
                f" but alpha.shape = {alpha.shape} and x.shape = {x.shape}.{called()}"
            )
        if x.shape[0] != alpha.shape[0]:
            x = concat([x, 1 - sum(x, axis=0, keepdims=True)], axis=0)
        a = alpha if x.ndim == 1 else expand_dims(alpha, axis=-1)
        found = sum(xlogy(a - 1, x), axis=0) - (sum(gammaln(alpha)) - gammaln(sum(alpha)))
        look = may_look(x._spec.backend)
        for message, bad in _wrong(x.detach(), a.detach()).items():
            if not look:
                found = where(any(bad, axis=0), math.nan, found)
            elif bool(any(bad)):
                raise ValueError(f"{message}{called()}")
        return found

    def pdf(self, x: Any, alpha: Any) -> Tensor:
        """Return the density."""
        return exp(self.logpdf(x, alpha))

    def rvs(self, alpha: Any, size: Any = 1, rng: Any = None, random_state: Any = None) -> Tensor:
        """Return random vectors: gamma variates over their sum, which have derivatives by `alpha`.

        They are not those that SciPy draws. `rng` is a seed or a generator of `agrad.numpy.random`, `random_state` its
        earlier name. Default: agrad's generator.
        """
        (alpha,) = floatings(alpha)
        lead = (size,) if isinstance(size, int) else tuple(size)
        found = gamma.rvs(alpha, size=(*lead, *alpha.shape), rng=rng, random_state=random_state)
        return found / sum(found, axis=-1, keepdims=True)


def _wrong(x: Tensor, alpha: Tensor) -> dict[str, Tensor]:
    """Return, by message, the conditions that points and parameters must not meet."""
    off = abs(sum(x, axis=0, keepdims=True) - 1.0)
    return {
        "All parameters must be greater than 0": alpha <= 0,
        "Each entry in 'x' must be greater than or equal to zero.": x < 0,
        "Each entry in 'x' must be smaller or equal one.": x > 1,
        "Each entry in 'x' must be greater than zero if its alpha is less than one.": (x == 0) & (alpha < 1),
        "The input vector 'x' must lie within the normal simplex.": off > builtins.max(10e-10, 10 * _eps(x)),
    }


def _eps(x: Tensor) -> float:
    return float(finfo(x.dtype).eps)


dirichlet: Dirichlet = Dirichlet("dirichlet", "alpha")
multivariate_normal: MultivariateNormal = MultivariateNormal("multivariate_normal", "mean", "cov")
for _each in (dirichlet, multivariate_normal):
    refer_methods(type(_each), f"scipy.stats.{_each.name}")
