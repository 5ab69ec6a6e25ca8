"""Shared by distributions: arguments in SciPy's form, supports, and distributions with fixed parameters."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from agrad.core.errors import called
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.numpy import random
from agrad.numpy.common import PYTHON_NUMBERS, floatings
from agrad.ops.creation import asarray
from agrad.ops.data_type import astype
from agrad.ops.docs import refer_methods
from agrad.ops.elementwise import exp, floor, isnan, log, sqrt
from agrad.ops.manipulation import broadcast_shapes
from agrad.ops.searching import where
from agrad.ops.special.edges import edge_log, inner_only
from agrad.scipy.stats.edges import Edge, Flat, fixed, is_lazy, log_of, perhaps

INF, NAN = math.inf, math.nan

#: A quantile by the probability beyond it.
Quantile = Callable[[Tensor], Tensor]


# -- parameters, tensors or Python's numbers ---------------------------------------------------------------------------


def operands(x: Any, *parameters: Any) -> tuple[Any, ...]:
    """Return floating tensors on one device; parameters that are Python's numbers stay so."""
    x, *arrays = floatings(x, *(p for p in parameters if type(p) not in PYTHON_NUMBERS))
    rest = iter(arrays)
    return (x, *(float(p) if type(p) in PYTHON_NUMBERS else next(rest) for p in parameters))


def of_dtype(found: Tensor, x: Tensor) -> Tensor:
    """Return values in the dtype of `x`: functions of Python numbers as parameters are in double precision."""
    return found if found.dtype == x.dtype else astype(found, x.dtype)


def log_or_floor(p: Tensor) -> Tensor:
    """Return the logarithm of probabilities, -inf for 0."""
    none = p == 0
    return where(none, -INF, log(where(none, 1.0, p)))


def if_valid(valid: Any, p: Any, x: Tensor) -> Any:
    """Return a parameter to use with `x`; NaN where it is not `valid` (a tensor, or one boolean), and so are derivatives with respect to it."""
    if not isinstance(valid, Tensor):
        return p if valid else p * NAN
    return p * where(valid, asarray(1, dtype=x.dtype, device=valid.device), NAN)


def probabilities(q: Any) -> Tensor:
    """Return a tensor; NaN where it is not a probability, and so are derivatives with respect to it."""
    (q,) = floatings(q)
    return if_valid((q >= 0) & (q <= 1), q, q)


def uniform_numbers(size: Any, rng: Any, random_state: Any) -> Tensor:
    """Draw numbers between 0 and 1, from agrad's generator or one of `agrad.numpy.random`, or from a seed.

    `random_state` is SciPy's name of `rng` before SPEC 7.
    """
    if rng is not None and random_state is not None:
        raise TypeError(f"rvs() got multiple values for argument now known as `rng`: pass only `rng`{called()}")
    seed = random_state if rng is None else rng
    source = random if seed is None else random.default_rng(seed)
    found: Tensor = source.random(size)
    return found


# -- one variable ------------------------------------------------------------------------------------------------------


class Frozen:
    """A distribution with parameters: its methods only take the variable.

    Parameters
    ----------
    dist : Distribution
        The distribution.
    *args, **kwds
        Its parameters.

    Examples
    --------
    >>> from agrad.scipy.stats import norm
    >>> norm(1.0, scale=2.0).cdf(1.0)
    tensor(0.5000)
    """

    def __init__(self, dist: Any, *args: Any, **kwds: Any) -> None:
        self.dist: Any = dist
        self.args: tuple[Any, ...] = args
        self.kwds = kwds

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self.dist, name)
        if name in self.dist.without_variable:
            return functools.partial(method, *self.args, **self.kwds)
        return lambda x: method(x, *self.args, **self.kwds)


class Distribution:
    """A family of distributions; calling it fixes its parameters."""

    #: The methods that only take the parameters.
    without_variable: tuple[str, ...] = ("entropy", "mean", "median", "rvs", "std", "var")

    def __init__(self, name: str, *parameters: str) -> None:
        self.name: str = name
        self.parameters: tuple[str, ...] = parameters

    def __repr__(self) -> str:
        return f"<agrad.scipy.stats.{self.name}>"

    def __call__(self, *args: Any, **kwds: Any) -> Frozen:
        """Return the distribution with these parameters, whose methods only take the variable."""
        return Frozen(self, *args, **kwds)

    def _given(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> list[Any]:
        """Return the parameters in order, by position or name; location 0 and scale 1 by default."""
        names = self.parameters
        if len(args) > len(names):
            raise TypeError(f"{self.name} takes the parameters {', '.join(names)}; {len(args)} were given{called()}")
        found: dict[str, Any] = {"loc": 0, "scale": 1} | dict(zip(names, args, strict=False))
        for name, value in kwds.items():
            if name not in names:
                raise TypeError(f"{self.name} got an unexpected keyword argument '{name}'{called()}")
            if name in names[: len(args)]:
                raise TypeError(f"{self.name} got multiple values for argument '{name}'{called()}")
            found[name] = value
        missing = [name for name in names if name not in found]
        if missing:
            raise TypeError(f"{self.name} is missing the parameters {', '.join(missing)}{called()}")
        return [found[name] for name in names]


class Univariate(Distribution):
    """A family of distributions of one number."""

    def _inner_only(self, method: str, found: Tensor, x: Tensor, end: float) -> Tensor:
        """Return lazy values whose derivatives raise where `x` is at an end: the series there has many operations."""
        return inner_only(found, fixed(x) != end, f"{self.name}.{method}")

    def _moments(self, *shapes: Any) -> tuple[Any, Any]:
        """Return mean and variance for location 0 and scale 1."""
        raise NotImplementedError

    def _valid(self, *shapes: Any) -> Any:
        """Return where the shape parameters are allowed."""
        raise NotImplementedError

    def _moved(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
        """Return the mean and variance for location 0 and scale 1, the checked scale (NaN where a parameter is not allowed), and the location."""
        given = self._given(args, kwds) + [1] * ("scale" not in self.parameters)
        one, *shapes, loc, scale = operands(1.0, *given)
        scale = if_valid(self._valid(*shapes) & (scale > 0), scale, one)
        mean, var = self._moments(*shapes)
        return one * mean, one * var, scale, loc

    def mean(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the mean; infinite or NaN where it does not exist.

        >>> from agrad.scipy.stats import gamma
        >>> gamma.mean(2.0, scale=3.0), gamma.var(2.0, scale=3.0)
        (tensor(6.), tensor(18.))
        """
        mean, _, scale, loc = self._moved(args, kwds)
        found: Tensor = mean * scale + loc
        return found

    def var(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the variance."""
        _, var, scale, loc = self._moved(args, kwds)
        found: Tensor = var * scale**2
        return found + 0 * loc if isinstance(loc, Tensor) else found

    def std(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the standard deviation."""
        return sqrt(self.var(*args, **kwds))


def beyond(limit: float, shape: Any, value: Any) -> Any:
    """Return ``value(shape)``, a moment that is finite where the shape is above a limit; infinite elsewhere."""
    if not isinstance(shape, Tensor):
        return value(shape) if shape > limit else INF
    there = shape > limit
    return where(there, value(where(there, shape, limit + 1.0)), INF)


#: For each function of a variable: its values below and above the support, and at the lower and the upper end.
METHODS: dict[str, tuple[float, float, str, str]] = {
    "pdf": (0.0, 0.0, "density", "density"),
    "logpdf": (-INF, -INF, "log_density", "log_density"),
    "cdf": (0.0, 1.0, "mass", "rest"),
    "logcdf": (-INF, 0.0, "log_mass", "log_rest"),
    "sf": (1.0, 0.0, "rest", "mass"),
    "logsf": (0.0, -INF, "log_rest", "log_mass"),
}


class Continuous(Univariate):
    """A family of densities, shifted by `loc` and stretched by `scale`.

    A subclass defines them for location 0 and scale 1, on the closed interval `support` if it has one.

    Parameters
    ----------
    name : str
        SciPy's name.
    *shapes : str
        The names of its shape parameters.
    """

    #: The support of the density; None for the whole line. And a point inside.
    support: tuple[float, float] | None = None
    inside: float = 0.5

    def __init__(self, name: str, *shapes: str) -> None:
        super().__init__(name, *shapes, "loc", "scale")

    def _logpdf(self, y: Tensor, *shapes: Any) -> Tensor:
        raise NotImplementedError

    def _cdf(self, y: Tensor, *shapes: Any) -> Tensor:
        raise NotImplementedError

    def _sf(self, y: Tensor, *shapes: Any) -> Tensor:
        raise NotImplementedError

    def _ppf(self, q: Tensor, *shapes: Any) -> Tensor:
        raise NotImplementedError

    def _isf(self, q: Tensor, *shapes: Any) -> Tensor:
        raise NotImplementedError

    def _pdf(self, y: Tensor, *shapes: Any) -> Tensor:
        return exp(self._logpdf(y, *shapes))

    def _logcdf(self, y: Tensor, *shapes: Any) -> Tensor:
        return log_or_floor(self._cdf(y, *shapes))

    def _logsf(self, y: Tensor, *shapes: Any) -> Tensor:
        return log_or_floor(self._sf(y, *shapes))

    def _valid(self, *shapes: Any) -> Any:
        """Return where the shape parameters are allowed: by default, where they are positive."""
        valid: Any = True
        for shape in shapes:
            valid = valid & (shape > 0)
        return valid

    def _edges(self, *shapes: Any) -> tuple[Edge | Flat | None, Edge | Flat | None]:
        """Return the density near the lower and the upper end of the support; None where the formulas also hold there."""
        return None, None

    def _ends(self, *shapes: Any) -> tuple[Quantile | None, Quantile | None]:
        """Return the quantiles 0 and 1, by the probability beyond them; None where the formulas also hold there."""
        if self.support is None:
            return None, None
        low, high = self.support
        first, last = self._edges(*shapes)
        return (
            (lambda u: low + first.quantile(u)) if isinstance(first, Edge) and first.asks("quantile") else None,
            (lambda u: high - last.quantile(u)) if isinstance(last, Edge) and last.asks("quantile") else None,
        )

    def _of(self, method: str, x: Any, args: tuple[Any, ...], kwds: dict[str, Any]) -> Tensor:
        """Return a function of the variable, with its values below, above and at the ends of the support."""
        x, *shapes, loc, scale = operands(x, *self._given(args, kwds))
        scale = if_valid(self._valid(*shapes) & (scale > 0), scale, x)
        unscaled = type(scale) is float and scale == 1
        x = x if type(loc) is float and loc == 0 else x - loc
        y = x if unscaled else x / scale
        below, above, *at_ends = METHODS[method]
        pieces: list[tuple[Tensor, Any]] = []  # the condition, and the value there
        ends: list[float] = []  # where values are not available, and the formulas have no derivatives
        point = y
        if self.support is not None:
            for place, (end, at_end) in enumerate(zip(self.support, at_ends, strict=True)):
                if end == INF or not perhaps(operator.ge if place else operator.le, y, end):
                    continue
                pieces.append((y > end, above) if place else (y < end, below))
                lazy = is_lazy(y)
                edge = self._edges(*(map(fixed, shapes) if lazy else shapes))[place]
                if edge is None or not edge.asks(at_end) or not perhaps(operator.eq, y, end):
                    continue
                if lazy:
                    ends.append(end)
                else:
                    at = y == end
                    distance = where(at, x if end == 0 else x - scale * end, 1.0)
                    distance = distance - where(at, fixed(distance), 0.0)  # 0, even if it was rounded to 0
                    pieces.append((at, getattr(edge, at_end)(-distance if place else distance, scale)))
            for there, _ in pieces:
                y = where(there, self.inside, y)
        found: Tensor = getattr(self, f"_{method}")(y, *shapes)
        if not unscaled and method in ("pdf", "logpdf"):
            found = found / scale if method == "pdf" else found - log_of(scale)
        for there, value in pieces:
            found = where(there, value, found)
        for end in ends:
            found = self._inner_only(method, found, point, end)
        return of_dtype(found, x)

    def pdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the density; NaN where a parameter is not allowed."""
        return self._of("pdf", x, args, kwds)

    def logpdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of the density, -inf outside of the support."""
        return self._of("logpdf", x, args, kwds)

    def cdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of values up to `x`."""
        return self._of("cdf", x, args, kwds)

    def logcdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `cdf`."""
        return self._of("logcdf", x, args, kwds)

    def sf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of values above `x`, accurate where `cdf` is near 1."""
        return self._of("sf", x, args, kwds)

    def logsf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `sf`."""
        return self._of("logsf", x, args, kwds)

    def ppf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the value at which `cdf` is `q`; NaN where `q` is not a probability."""
        return self._quantile("ppf", q, args, kwds)

    def isf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the value at which `sf` is `q`; NaN where `q` is not a probability."""
        return self._quantile("isf", q, args, kwds)

    def median(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the median."""
        return self.ppf(0.5, *args, **kwds)

    def rvs(self, *args: Any, size: Any = None, rng: Any = None, random_state: Any = None, **kwds: Any) -> Tensor:
        """Return random numbers, computed by `ppf` from uniform ones: they have derivatives with respect to the parameters.

        `rng` is a seed or a generator of `agrad.numpy.random`, `random_state` its earlier name. Default: agrad's
        generator (`agrad.manual_seed`). The numbers are not the ones that SciPy draws; by default, they have the
        broadcast shape of the parameters.
        """
        if len(args) > len(self.parameters):
            *args, size = args  # type: ignore[assignment]
        if size is None:
            size = broadcast_shapes(*(p.shape for p in map(as_operand, self._given(args, kwds))))
        return self.ppf(uniform_numbers(size, rng, random_state), *args, **kwds)

    def _quantile(self, method: str, q: Any, args: tuple[Any, ...], kwds: dict[str, Any]) -> Tensor:
        q, *shapes, loc, scale = operands(q, *self._given(args, kwds))
        scale = if_valid(self._valid(*shapes) & (scale > 0), scale, q)
        q = probabilities(q)
        pieces, ends = [], []
        for place, last in enumerate((0.0, 1.0) if method == "ppf" else (1.0, 0.0)):
            if perhaps(operator.eq, q, last) and (end := self._ends(*shapes)[place]) is not None:
                if is_lazy(q):
                    ends.append(last)
                else:
                    tail = 1 - q if last else q
                    pieces.append((tail == 0, end(tail)))
        inner = q
        for at, _ in pieces:
            inner = where(at, 0.5, inner)
        found: Tensor = getattr(self, f"_{method}")(inner, *shapes)
        for at, value in pieces:
            found = where(at, value, found)
        for last in ends:
            found = self._inner_only(method, found, q, last)
        found = of_dtype(found, q) * scale
        return found + (if_valid(~isnan(found), loc, q) if isinstance(loc, Tensor) else loc)


class Discrete(Univariate):
    """A family of probabilities of counts, shifted by `loc`.

    A subclass defines them for location 0. There are no derivatives with respect to the counts and the location.

    Parameters
    ----------
    name : str
        SciPy's name.
    *shapes : str
        The names of its shape parameters.
    """

    #: The arguments without a derivative.
    counts: tuple[str, ...] = ("k", "loc")

    def __init__(self, name: str, *shapes: str) -> None:
        super().__init__(name, *shapes, "loc")

    def _logpmf(self, k: Tensor, *shapes: Any) -> Tensor:
        raise NotImplementedError

    def _cdf(self, k: Tensor, *shapes: Any) -> Tensor:
        raise NotImplementedError

    def _sf(self, k: Tensor, *shapes: Any) -> Tensor:
        raise NotImplementedError

    def _largest(self, *shapes: Any) -> Any:
        """Return the largest count."""
        return INF

    def _product(self, k: Tensor, *shapes: Any) -> Tensor:
        """Return the probability as a product of powers, which is differentiable where one of them is 0."""
        raise NotImplementedError

    def _ends(self, *shapes: Any) -> tuple[Tensor, ...]:
        """Return the distances of a parameter from the ends of its range at which all counts but one have probability 0."""
        raise NotImplementedError

    def _infinite(self, distance: Tensor, k: Tensor, *shapes: Any) -> Tensor:
        """Return the logarithm of `cdf` or `sf` where it is 0 at an end: of a power, and the differentiable rest."""
        return edge_log(distance, 1.0)

    def _has(self, k: Tensor, *shapes: Any) -> Tensor:
        """Return which counts are possible."""
        largest = self._largest(*shapes)
        there = (k >= 0) & (floor(k) == k)
        return there if type(largest) is float and largest == INF else there & (k <= largest)

    def _log(self, method: str, found: Tensor, k: Any, args: tuple[Any, ...], kwds: dict[str, Any]) -> Tensor:
        """Return the logarithm of probabilities of many counts; its derivative is infinite where one is 0 at an end of a range."""
        k, shapes, _ = self._counts(k, args, kwds)
        largest = self._largest(*shapes)
        none = (found == 0) & (k >= 0)
        if type(largest) is not float or largest != INF:
            none = none & (k < largest)
        logarithm = log_or_floor(found)
        for distance in self._ends(*shapes):
            if is_lazy(distance):
                logarithm = self._inner_only(method, logarithm, distance, 0.0)
            elif perhaps(operator.eq, at := none & (distance == 0), True):
                logarithm = where(at, self._infinite(distance, where(at, floor(k), 0.0), *shapes), logarithm)
        return logarithm

    def _counts(self, k: Any, args: tuple[Any, ...], kwds: dict[str, Any]) -> tuple[Tensor, list[Any], Any]:
        """Return the counts for location 0, the shapes, NaN where one is not allowed, and a 0 that is NaN there, too."""
        k, *shapes, loc = operands(k, *self._given(args, kwds))
        for name, value in (("k", k), *zip(self.parameters, (*shapes, loc), strict=True)):
            if name in self.counts and isinstance(value, Tensor) and value._is_followed():
                raise NotImplementedError(
                    f"{self.name} has no derivative by {name}, which counts.\n  Pass {name}.detach().{called()}"
                )
        if type(loc) is not float or loc != 0:
            k = k - loc
        valid = self._valid(*shapes)
        shapes = [if_valid(valid, s, k) for s in shapes]
        zero = where(valid, 0.0, shapes[-1]) if isinstance(valid, Tensor) else if_valid(valid, 0.0, k)
        return k, shapes, zero

    def _stepped(self, function: Any, k: Tensor, shapes: list[Any], zero: Any, below: float, above: float) -> Tensor:
        """Return a function of the counts up to each place, with the values below 0 and from the largest count on."""
        largest = self._largest(*shapes)
        under = k < 0
        if type(largest) is float and largest == INF:
            return where(under, below + zero, function(floor(where(under, 0.0, k)), *shapes))
        over = k >= largest
        found = function(floor(where(under | over, 0.0, k)), *shapes)
        return where(under, below + zero, where(over, above + zero, found))

    def pmf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of a count; NaN where a parameter is not allowed.

        Raises NotImplementedError if a derivative by the counts or the location is being taken.
        """
        found = exp(self.logpmf(k, *args, **kwds))
        k, shapes, _ = self._counts(k, args, kwds)
        there = self._has(k, *shapes)
        for distance in self._ends(*shapes):
            if is_lazy(distance):
                found = self._inner_only("pmf", found, distance, 0.0)
            elif perhaps(operator.eq, at := (distance == 0) & there, True):
                found = where(at, self._product(where(at, k, 0.0), *shapes), found)
        return found

    def logpmf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of the probability, -inf for impossible counts."""
        k, shapes, zero = self._counts(k, args, kwds)
        none = ~self._has(k, *shapes)
        return where(none, zero - INF, self._logpmf(where(none, 0.0, k), *shapes))

    def cdf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of counts up to `k`."""
        return self._stepped(self._cdf, *self._counts(k, args, kwds), 0.0, 1.0)

    def logcdf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `cdf`."""
        return self._log("logcdf", self.cdf(k, *args, **kwds), k, args, kwds)

    def sf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of counts above `k`, accurate where `cdf` is near 1."""
        return self._stepped(self._sf, *self._counts(k, args, kwds), 1.0, 0.0)

    def logsf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `sf`."""
        return self._log("logsf", self.sf(k, *args, **kwds), k, args, kwds)


for _family, _original in ((Univariate, "rv_continuous"), (Continuous, "rv_continuous"), (Discrete, "rv_discrete")):
    refer_methods(_family, f"scipy.stats.{_original}")
