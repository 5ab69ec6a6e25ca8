"""``numpy.random`` over agrad's seeded sampling: the numbers are agrad's, `seed` is `agrad.manual_seed`.

What is drawn is a tensor on the current backend. Parameters of distributions may be tensors: samples are functions of them
(``loc + scale * z``), through which gradients pass.
"""

from __future__ import annotations

import math
from typing import Any

from agrad import dtypes
from agrad.core import errors
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.numpy.common import axis_of, floatings, native, refused, static
from agrad.ops import creation, decompositions, elementwise, linalg, manipulation, searching, statistical
from agrad.ops.data_type import astype
from agrad.random import Generator as Source
from agrad.random import default_generator
from agrad.random import rand as _rand
from agrad.random import randint as _randint
from agrad.random import randn as _randn
from agrad.random import randperm as _randperm

__all__ = [
    "Generator", "RandomState", "binomial", "choice", "default_rng", "exponential", "gumbel",
    "integers", "laplace", "logistic", "lognormal", "multivariate_normal", "normal", "pareto", "permutation", "power",
    "rand", "randint", "randn", "random", "random_sample", "ranf", "rayleigh", "sample", "seed", "shuffle",
    "standard_cauchy", "standard_exponential", "standard_normal", "triangular", "uniform", "weibull",
]  # fmt: skip


def _shape(size: Any) -> tuple[int, ...]:
    found = static(size)
    return () if found is None else (found,) if isinstance(found, int) else tuple(found)


class Generator:
    """A source of random numbers, with the methods of ``numpy.random.Generator`` and of ``RandomState``.

    Parameters
    ----------
    seed : int or agrad.random.Generator, optional
        Default: from the operating system.

    Examples
    --------
    >>> import agrad.numpy as np
    >>> rng = np.random.default_rng(7)
    >>> rng.normal(size=(2, 3)).shape
    (2, 3)
    """

    def __init__(self, seed: Any = None) -> None:
        self._source = seed if isinstance(seed, Source) else Source(seed)

    def seed(self, seed: Any = None) -> None:
        """Start anew from a seed; from 0 for None."""
        self._source.manual_seed(0 if seed is None else int(seed))

    def _drawn(self, draw: Any, size: Any, *parameters: Any) -> tuple[Tensor, ...]:
        """Numbers of a shape, or of that the parameters broadcast to, and these."""
        values = floatings(*parameters) if parameters else ()
        shape = _shape(size) if size is not None else manipulation.broadcast_shapes(*(v.shape for v in values), ())
        device = values[0].device if values and isinstance(parameters[0], Tensor) else None
        return draw(shape, generator=self._source, device=device), *values

    # -- of the two that everything is made of ----------------------------------------------------------------------

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
        """Uniform on [0, 1)."""
        if out is not None:
            raise refused("random(out=)", "assign what it gives")
        return _rand(_shape(size), dtype=native(dtype), generator=self._source)

    random_sample = ranf = sample = random

    def rand(self, *shape: int) -> Tensor:
        """Uniform on [0, 1), of a shape given as integers."""
        return _rand(*shape, generator=self._source)

    def randn(self, *shape: int) -> Tensor:
        """Standard normal, of a shape given as integers."""
        return _randn(*shape, generator=self._source)

    def standard_normal(self, size: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
        """Normal with mean 0 and variance 1."""
        if out is not None:
            raise refused("standard_normal(out=)", "assign what it gives")
        return _randn(_shape(size), dtype=native(dtype), generator=self._source)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Tensor:
        """Uniform between two bounds."""
        u, low, high = self._drawn(_rand, size, low, high)
        return low + (high - low) * u

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Normal with a mean and a standard deviation."""
        z, loc, scale = self._drawn(_randn, size, loc, scale)
        return loc + scale * z

    # -- by the inverse of the distribution function -----------------------------------------------------------------

    def standard_exponential(self, size: Any = None) -> Tensor:
        """Exponential with mean 1."""
        return self.exponential(1.0, size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Exponential with a mean."""
        u, scale = self._drawn(_rand, size, scale)
        return -scale * elementwise.log1p(-u)

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Tensor:
        """What has a normal logarithm."""
        return elementwise.exp(self.normal(mean, sigma, size))

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Double exponential."""
        u, loc, scale = self._drawn(_rand, size, loc, scale)
        u = u - 0.5
        return loc - scale * elementwise.sign(u) * elementwise.log1p(-2 * elementwise.abs(u))

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Logistic."""
        u, loc, scale = self._drawn(_rand, size, loc, scale)
        return loc + scale * (elementwise.log(u) - elementwise.log1p(-u))

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Extreme value, of the first type."""
        u, loc, scale = self._drawn(_rand, size, loc, scale)
        return loc - scale * elementwise.log(-elementwise.log1p(-u))

    def standard_cauchy(self, size: Any = None) -> Tensor:
        """Cauchy."""
        return elementwise.tan((self.random(size) - 0.5) * math.pi)

    def rayleigh(self, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Length of a normal vector in the plane."""
        u, scale = self._drawn(_rand, size, scale)
        return scale * elementwise.sqrt(-2 * elementwise.log1p(-u))

    def weibull(self, a: Any, size: Any = None) -> Tensor:
        """Weibull with scale 1."""
        u, a = self._drawn(_rand, size, a)
        return elementwise.pow(-elementwise.log1p(-u), 1 / a)

    def pareto(self, a: Any, size: Any = None) -> Tensor:
        """Pareto of the second kind."""
        u, a = self._drawn(_rand, size, a)
        return elementwise.expm1(-elementwise.log1p(-u) / a)

    def power(self, a: Any, size: Any = None) -> Tensor:
        """On [0, 1], with a density that is a power."""
        u, a = self._drawn(_rand, size, a)
        return elementwise.pow(u, 1 / a)

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Tensor:
        """Triangular between bounds."""
        u, left, mode, right = self._drawn(_rand, size, left, mode, right)
        below = left + elementwise.sqrt(u * (right - left) * (mode - left))
        above = right - elementwise.sqrt((1 - u) * (right - left) * (right - mode))
        return searching.where(u < (mode - left) / (right - left), below, above)

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None) -> Tensor:
        """Normal vectors with a mean and a covariance matrix that is positive definite."""
        mean, cov = floatings(mean, cov)
        z = _randn((*_shape(size), *mean.shape), generator=self._source, device=mean.device)
        factor = decompositions.cholesky(cov)
        return mean + linalg.matmul(z, linalg.matrix_transpose(factor))

    # -- whole numbers and choices -----------------------------------------------------------------------------------

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Tensor:
        """Integers from `low` to before `high`."""
        low, high = (0, low) if high is None else (low, high)
        return _randint(int(low), int(high), _shape(size), dtype=native(dtype), generator=self._source)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = "int64", endpoint: bool = False
    ) -> Tensor:
        """Integers from `low` to before `high`, or to it with `endpoint`."""
        low, high = (0, low) if high is None else (low, high)
        return self.randint(low, int(high) + endpoint, size, dtype)

    def binomial(self, n: int, p: Any, size: Any = None) -> Tensor:
        """How many of `n` trials succeed; no derivative."""
        p = floatings(p)[0].detach()
        shape = _shape(size) if size is not None else p.shape
        hits = _rand((int(n), *shape), generator=self._source, device=p.device) < p
        return statistical.sum(astype(hits, dtypes.int64), axis=0)

    def permutation(self, x: Any, axis: int = 0) -> Tensor:
        """A range or the parts of a tensor in random order."""
        if isinstance(x, int):
            return _randperm(x, generator=self._source)
        x = as_operand(x)
        axis = axis_of(axis, x.ndim)
        return searching.take(x, _randperm(x.shape[axis], generator=self._source, device=x.device), axis=axis)

    permuted = permutation

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put the parts of a tensor in random order: its own value changes."""
        if not isinstance(x, Tensor):
            raise refused(f"shuffle() of a {type(x).__name__}", "use permutation(), or Python's random.shuffle")
        searching.assign(x, ..., self.permutation(x, axis))

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Tensor:
        """Parts of a tensor, or numbers below an integer, drawn at random."""
        x = None if isinstance(a, int) else as_operand(a)
        n = a if x is None else x.shape[axis]
        shape = _shape(size)
        count = math.prod(shape)
        if not replace and count > n:
            raise ValueError(f"Cannot take a larger sample than population when 'replace=False'{errors.called()}")
        if p is None and replace:
            places = _randint(0, n, (count,), generator=self._source)
        elif p is None:
            places = _randperm(n, generator=self._source)[:count]
        else:
            weights = floatings(p)[0].detach()
            if replace:
                steps = statistical.cumulative_sum(weights)
                u = _rand((count,), generator=self._source, device=weights.device)
                places = searching.searchsorted(steps / steps[-1], u, side="right")
            else:  # the smallest waiting times: Efraimidis and Spirakis, 2006
                u = _rand((n,), generator=self._source, device=weights.device)
                places = searching.argsort(-elementwise.log(u) / weights)[:count]
        places = manipulation.reshape(places, (count,))
        if x is None:
            return manipulation.reshape(places, shape)
        found = searching.take(x, creation.asarray(places, device=x.device), axis=axis)
        return manipulation.reshape(found, (*x.shape[:axis], *shape, *x.shape[axis + 1 :]))


RandomState = Generator


def default_rng(seed: Any = None) -> Generator:
    """Return a generator of its own.

    Parameters
    ----------
    seed : int or Generator, optional
        Default: from the operating system.

    Returns
    -------
    Generator
        The one given, if it is one.
    """
    return seed if isinstance(seed, Generator) else Generator(seed)


_default = Generator(default_generator)
binomial = _default.binomial
choice = _default.choice
exponential = _default.exponential
gumbel = _default.gumbel
integers = _default.integers
laplace = _default.laplace
logistic = _default.logistic
lognormal = _default.lognormal
multivariate_normal = _default.multivariate_normal
normal = _default.normal
pareto = _default.pareto
permutation = _default.permutation
power = _default.power
rand = _default.rand
randint = _default.randint
randn = _default.randn
random = _default.random
random_sample = _default.random_sample
ranf = _default.ranf
rayleigh = _default.rayleigh
sample = _default.sample
seed = _default.seed
shuffle = _default.shuffle
standard_cauchy = _default.standard_cauchy
standard_exponential = _default.standard_exponential
standard_normal = _default.standard_normal
triangular = _default.triangular
uniform = _default.uniform
weibull = _default.weibull
