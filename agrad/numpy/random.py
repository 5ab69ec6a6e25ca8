"""``numpy.random`` over agrad's seeded sampling: the numbers are agrad's, `seed` is `agrad.manual_seed`.

Results are tensors on the current backend, or on that of the parameters. Parameters may be tensors: samples of continuous
distributions are functions of them (``loc + scale * z``, or the inverse of the distribution function), through which gradients
pass. Counts have no derivative: a parameter that requires one is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from agrad import dtypes
from agrad.core import errors
from agrad.core.mode import may_look
from agrad.core.names import MissingName
from agrad.core.operands import HOMELESS, as_operand
from agrad.core.tensor import Tensor
from agrad.numpy.common import axis_of, floatings, into, native, own_function, refused, static
from agrad.numpy.refusals import refusal
from agrad.ops import (
    creation,
    decompositions,
    eigenvalues,
    elementwise,
    linalg,
    manipulation,
    searching,
    special,
    statistical,
)
from agrad.ops.data_type import astype, finfo
from agrad.ops.docs import refer_methods
from agrad.random import Generator as Source
from agrad.random import default_generator
from agrad.random import rand as _rand
from agrad.random import randint as _randint
from agrad.random import randn as _randn
from agrad.random import randperm as _randperm

__all__ = [
    "Generator", "RandomState", "beta", "binomial", "chisquare", "choice", "default_rng", "dirichlet", "exponential", "f",
    "gamma", "geometric", "get_state", "gumbel", "integers", "laplace", "logistic", "lognormal", "multinomial",
    "multivariate_normal", "negative_binomial", "normal", "pareto", "permutation", "poisson", "power", "rand", "randint",
    "randn", "random", "random_sample", "ranf", "rayleigh", "sample", "seed", "set_state", "shuffle", "standard_cauchy",
    "standard_exponential", "standard_gamma", "standard_normal", "standard_t", "triangular", "uniform", "wald", "weibull",
]  # fmt: skip

#: Further names of NumPy's module.
_REFUSED = frozenset([
    "BitGenerator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence", "bit_generator", "bytes",
    "get_bit_generator", "hypergeometric", "logseries", "multivariate_hypergeometric", "noncentral_chisquare",
    "noncentral_f", "random_integers", "set_bit_generator", "spawn", "vonmises", "zipf",
])  # fmt: skip


def _shape(size: Any) -> tuple[int, ...]:
    found = static(size)
    return () if found is None else (found,) if isinstance(found, int) else tuple(found)


_ELSEWHERE = "draw with NumPy's own generator, and take np.asarray of what it gives"


def _in(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else astype(x, native(dtype), copy=False)


def _no_derivative(name: str, *parameters: Any) -> None:
    """Refuse a parameter whose gradient would be lost."""
    if any(isinstance(p, Tensor) and p._is_followed() for p in parameters):
        raise TypeError(f"what {name}() draws has no derivative in its parameters; give p.detach(){errors.called()}")


def _smallest(distribution: Callable[[Tensor], Tensor], u: Tensor, high: Tensor) -> Tensor:
    """Return the smallest counts, up to a bound, at which a distribution function reaches u, by bisection.

    The largest bound is computed.
    """
    high = elementwise.ceil(manipulation.broadcast_to(high, u.shape))
    low = high * 0 - 1  # below it
    widest = statistical.max(high).item() if math.prod(u.shape) else 0.0
    for _ in range(int(widest + 1).bit_length()):
        middle = elementwise.floor((low + high) / 2)
        reached = (distribution(middle) >= u) & (middle >= 0)
        low, high = searching.where(reached, low, middle), searching.where(reached, middle, high)
    return astype(high, dtypes.int64)


def _factor(cov: Tensor) -> Tensor:
    """Return ``L`` with ``L L^T = cov``: by Cholesky, which is differentiable; from the eigenvectors where that fails."""
    if 0 in cov.shape or not may_look(cov._spec.backend):
        return decompositions.cholesky(cov)
    values, vectors = eigenvalues.eigh(cov.detach())
    smallest, largest = values[..., 0], statistical.max(elementwise.abs(values), axis=-1)
    rounding = cov.shape[-1] * finfo(values.dtype).eps
    if bool(statistical.all(smallest > rounding * largest)):
        return decompositions.cholesky(cov)
    if bool(statistical.any(smallest < -1e-8 - (1e-8 + rounding) * largest)):  # NumPy's tolerance for rounding
        raise ValueError(f"covariance is not symmetric positive-semidefinite{errors.called()}")
    if cov._is_followed():
        raise RuntimeError(
            "multivariate_normal: the covariance is singular, and what is drawn has no derivative in it there."
            "\n  Add something to its diagonal, cov + 1e-9 * np.eye(n), or give cov.detach()."
            f"{errors.called()}"
        )
    return vectors * elementwise.sqrt(elementwise.clip(values, 0.0, None))[..., None, :]


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
        """Restart from a seed; None means 0."""
        self._source.manual_seed(0 if seed is None else int(seed))

    def _drawn(self, draw: Any, size: Any, *parameters: Any) -> tuple[Tensor, ...]:
        """Return numbers of a shape, or of the parameters' broadcast shape, and the parameters."""
        values = floatings(*parameters) if parameters else ()
        shape = _shape(size) if size is not None else manipulation.broadcast_shapes(*(v.shape for v in values), ())
        arrays = (v for v, p in zip(values, parameters, strict=True) if not isinstance(p, HOMELESS))
        device = next((v.device for v in arrays), None)
        return draw(shape, generator=self._source, device=device), *values

    # -- the two that all others are made of ------------------------------------------------------------------------

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
        """Uniform on [0, 1)."""
        if out is not None:
            raise refused("random(out=)", "assign what it gives")
        return _rand(_shape(size), dtype=native(dtype), generator=self._source)

    random_sample: Final = random
    ranf: Final = random
    sample: Final = random

    def rand(self, *shape: int) -> Tensor:
        """Uniform on [0, 1), with the shape given as integers."""
        return _rand(*shape, generator=self._source)

    def randn(self, *shape: int) -> Tensor:
        """Standard normal, with the shape given as integers."""
        return _randn(*shape, generator=self._source)

    def __getattr__(self, name: str) -> Any:
        if name in _REFUSED:
            return refusal(f"random.{name}", _ELSEWHERE)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_state(self) -> Any:
        """Return the state for `set_state`, to draw the same numbers again."""
        return self._source.get_state()

    def set_state(self, state: Any) -> None:
        """Continue from a state returned by `get_state`."""
        self._source.set_state(state)

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

    def standard_exponential(self, size: Any = None, dtype: Any = None, method: str = "zig", out: Any = None) -> Tensor:
        """Exponential with mean 1."""
        if out is not None:
            raise refused("standard_exponential(out=)", "assign what it gives")
        return _in(self.exponential(1.0, size), dtype)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Exponential with a mean."""
        u, scale = self._drawn(_rand, size, scale)
        return -scale * elementwise.log1p(-u)

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Tensor:
        """Numbers whose logarithm is normal."""
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

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
        """Gamma with scale 1."""
        if out is not None:
            raise refused("standard_gamma(out=)", "assign what it gives")
        return _in(self.gamma(shape, 1.0, size), dtype)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Gamma with a shape and a scale."""
        u, shape, scale = self._drawn(_rand, size, shape, scale)
        return scale * special.gammaincinv(shape, u)

    def chisquare(self, df: Any, size: Any = None) -> Tensor:
        """Sum of `df` squares of standard normal numbers."""
        u, df = self._drawn(_rand, size, df)
        return 2 * special.gammaincinv(df / 2, u)

    def beta(self, a: Any, b: Any, size: Any = None) -> Tensor:
        """Beta, on [0, 1]."""
        u, a, b = self._drawn(_rand, size, a, b)
        return special.betaincinv(a, b, u)

    def dirichlet(self, alpha: Any, size: Any = None) -> Tensor:
        """Positive vectors whose elements add up to 1."""
        (alpha,) = floatings(alpha)
        shape = (*_shape(size), *alpha.shape)
        parts = self.gamma(alpha, 1.0, shape)
        return parts / statistical.sum(parts, axis=-1, keepdims=True)

    def standard_t(self, df: Any, size: Any = None) -> Tensor:
        """Student's t."""
        u, df = self._drawn(_rand, size, df)
        return special.stdtrit(df, u)

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Tensor:
        """Fisher's F."""
        u, dfnum, dfden = self._drawn(_rand, size, dfnum, dfden)
        return special.fdtri(dfnum, dfden, u)

    def wald(self, mean: Any, scale: Any, size: Any = None) -> Tensor:
        """Inverse Gaussian, by a transformation with two roots: Michael, Schucany and Haas, 1976.

        Which root is drawn also depends on the parameters, which have no derivative.
        """
        _no_derivative("wald", mean, scale)
        z, mean, scale = self._drawn(_randn, size, mean, scale)
        y = mean * z * z
        root = mean + mean / (2 * scale) * (y - elementwise.sqrt(y * (4 * scale + y)))
        u = _rand(root.shape, generator=self._source, device=root.device)
        return searching.where(u <= mean / (mean + root), root, mean * mean / root)

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Tensor:
        """Triangular between bounds."""
        u, left, mode, right = self._drawn(_rand, size, left, mode, right)
        below = left + elementwise.sqrt(u * (right - left) * (mode - left))
        above = right - elementwise.sqrt((1 - u) * (right - left) * (right - mode))
        return searching.where(u < (mode - left) / (right - left), below, above)

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None) -> Tensor:
        """Normal vectors with a mean and a positive semidefinite covariance matrix.

        A singular covariance has no derivative. Where its values are lazy, recorded or batched, it must be positive definite.
        """
        mean, cov = floatings(mean, cov)
        factor = _factor(cov)
        z = _randn((*_shape(size), *mean.shape), generator=self._source, device=mean.device)
        return mean + linalg.matmul(z, linalg.matrix_transpose(factor))

    # -- whole numbers and choices -----------------------------------------------------------------------------------

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Tensor:
        """Integers from `low` to `high` - 1."""
        low, high = (0, low) if high is None else (low, high)
        return _randint(int(low), int(high), _shape(size), dtype=native(dtype), generator=self._source)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = "int64", endpoint: bool = False
    ) -> Tensor:
        """Integers from `low` to `high` - 1, or to `high` with `endpoint`."""
        low, high = (0, low) if high is None else (low, high)
        return self.randint(low, int(high) + endpoint, size, dtype)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Tensor:
        """The number of successes in `n` trials."""
        _no_derivative("binomial", n, p)
        u, n, p = self._drawn(_rand, size, n, p)
        n = astype(n, "float64")
        some = elementwise.clip(p, 1e-300, 1.0)  # where none can succeed, u is nowhere above the distribution function
        return _smallest(lambda k: searching.where(k >= n, 1.0, special.bdtr(k, n, some)), u, n)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Tensor:
        """The number of events, with a given mean."""
        _no_derivative("poisson", lam)
        u, lam = self._drawn(_rand, size, lam)
        return _smallest(lambda k: special.pdtr(k, lam), u, lam + 40 * elementwise.sqrt(lam) + 60)

    def geometric(self, p: Any, size: Any = None) -> Tensor:
        """The number of trials up to the first success."""
        _no_derivative("geometric", p)
        u, p = self._drawn(_rand, size, p)
        p = elementwise.minimum(p, 1 - 2.0**-53)  # keeps the logarithm finite
        trials = elementwise.ceil(elementwise.log1p(-u) / elementwise.log1p(-p))
        return astype(elementwise.clip(trials, 1.0, None), dtypes.int64)

    def negative_binomial(self, n: Any, p: Any, size: Any = None) -> Tensor:
        """The number of failures before `n` successes: Poisson, with a gamma-distributed mean."""
        _no_derivative("negative_binomial", n, p)
        n, p = floatings(n, p)
        return self.poisson(self.gamma(n, (1 - p) / p, size))

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Tensor:
        """The number of `n` trials with each of several outcomes."""
        _no_derivative("multinomial", n, pvals)
        (p,) = floatings(pvals)
        left = creation.full((*_shape(size), *p.shape[:-1]), int(n), dtype=dtypes.int64, device=p.device)
        rest, counts = 1.0 + 0 * p[..., 0], []
        for i in range(p.shape[-1] - 1):
            share = p[..., i]
            chance = searching.where(rest > share, share / searching.where(rest > 0, rest, 1.0), 1.0)
            counts.append(self.binomial(left, chance))
            left, rest = left - counts[-1], rest - share
        return manipulation.stack([*counts, left], axis=-1)

    def permutation(self, x: Any, axis: int = 0) -> Tensor:
        """A range, or the parts of a tensor, in random order."""
        if isinstance(x, int):
            return _randperm(x, generator=self._source)
        x = as_operand(x)
        axis = axis_of(axis, x.ndim)
        return searching.take(x, _randperm(x.shape[axis], generator=self._source, device=x.device), axis=axis)

    def permuted(self, x: Any, axis: Any = None, out: Any = None) -> Tensor:
        """The elements in random order: all of them, or each slice along an axis separately."""
        x = as_operand(x)
        flat = manipulation.reshape(x, (-1,)) if axis is None else x
        keys = _rand(flat.shape, generator=self._source, device=x.device)
        at = 0 if axis is None else axis_of(axis, x.ndim)
        mixed = searching.take_along_axis(flat, searching.argsort(keys, axis=at), axis=at)
        return into(out, manipulation.reshape(mixed, x.shape))

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put the parts of a tensor, an array or a list in random order, in place."""
        if not isinstance(x, Tensor):
            if isinstance(x, list):
                x[:] = [x[i] for i in self.permutation(len(x)).tolist()]
            elif own_function("put", x) is not None:  # a writable array
                x[...] = self.permutation(x, axis)._raw
            else:
                raise refused(f"shuffle() of a {type(x).__name__}", "use permutation()")
            return
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
    """Return a new generator.

    Parameters
    ----------
    seed : int or Generator, optional
        Default: from the operating system.

    Returns
    -------
    Generator
        The given one, if it is a Generator.
    """
    return seed if isinstance(seed, Generator) else Generator(seed)


refer_methods(Generator, "numpy.random.Generator")
_default = Generator(default_generator)
beta: Final = _default.beta
binomial: Final = _default.binomial
chisquare: Final = _default.chisquare
choice: Final = _default.choice
dirichlet: Final = _default.dirichlet
exponential: Final = _default.exponential
f: Final = _default.f
gamma: Final = _default.gamma
geometric: Final = _default.geometric
get_state: Final = _default.get_state
gumbel: Final = _default.gumbel
integers: Final = _default.integers
laplace: Final = _default.laplace
logistic: Final = _default.logistic
lognormal: Final = _default.lognormal
multinomial: Final = _default.multinomial
multivariate_normal: Final = _default.multivariate_normal
negative_binomial: Final = _default.negative_binomial
normal: Final = _default.normal
pareto: Final = _default.pareto
permutation: Final = _default.permutation
poisson: Final = _default.poisson
power: Final = _default.power
rand: Final = _default.rand
randint: Final = _default.randint
randn: Final = _default.randn
random: Final = _default.random
random_sample: Final = _default.random_sample
ranf: Final = _default.ranf
rayleigh: Final = _default.rayleigh
sample: Final = _default.sample
seed: Final = _default.seed
set_state: Final = _default.set_state
shuffle: Final = _default.shuffle
standard_cauchy: Final = _default.standard_cauchy
standard_exponential: Final = _default.standard_exponential
standard_gamma: Final = _default.standard_gamma
standard_normal: Final = _default.standard_normal
standard_t: Final = _default.standard_t
triangular: Final = _default.triangular
uniform: Final = _default.uniform
wald: Final = _default.wald
weibull: Final = _default.weibull


if not TYPE_CHECKING:  # type checkers should report missing names

    def __getattr__(name: str) -> Any:
        if name in _REFUSED:
            return refusal(f"random.{name}", _ELSEWHERE)
        raise MissingName(__name__, name)

    def __dir__() -> list[str]:
        return __all__
