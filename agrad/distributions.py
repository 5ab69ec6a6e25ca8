"""PyTorch's `torch.distributions`: draws, log densities, entropies and divergences of eight distributions, differentiable.

Parameters broadcast with one another. `rsample` returns draws that are differentiable with respect to the parameters:
for gamma, beta and Dirichlet distributions by the derivative of the incomplete gamma and beta functions (implicit
reparameterisation).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.mode import batch_levels, guard, may_look
from agrad.core.mode import no_grad as _no_grad
from agrad.core.operands import as_operands
from agrad.core.tensor import Tensor
from agrad.ops import (
    data_type,
    decompositions,
    elementwise,
    extra,
    linalg,
    manipulation,
    searching,
    solving,
    special,
    statistical,
)
from agrad.ops.creation import asarray, full
from agrad.random import rand, randn

__all__ = [
    "Bernoulli", "Beta", "Categorical", "Dirichlet", "Distribution", "Gamma", "MultivariateNormal", "Normal", "Uniform",
    "kl_divergence", "register_kl",
]  # fmt: skip

_ROOT = math.sqrt(2)
_LOG_ROOT = math.log(2 * math.pi) / 2


class _Constraint(NamedTuple):
    """A constraint on parameters or values: its name in messages, and a test."""

    text: str
    check: Callable[[Tensor], Any]

    def __repr__(self) -> str:
        return self.text


def _is_simplex(x: Tensor) -> Any:
    return statistical.all(x >= 0, axis=-1) & (elementwise.abs(statistical.sum(x, axis=-1) - 1) < 1e-6)


_REAL = _Constraint("Real()", lambda x: x == x)  # noqa: PLR0124 (NaN)
_POSITIVE = _Constraint("GreaterThan(lower_bound=0.0)", lambda x: x > 0)
_NONNEGATIVE = _Constraint("GreaterThanEq(lower_bound=0.0)", lambda x: x >= 0)
_UNIT = _Constraint("Interval(lower_bound=0.0, upper_bound=1.0)", lambda x: (x >= 0) & (x <= 1))
_BOOLEAN = _Constraint("Boolean()", lambda x: (x == 0) | (x == 1))
_SIMPLEX = _Constraint("Simplex()", _is_simplex)
_REALS = _Constraint("IndependentConstraint(Real(), 1)", lambda x: statistical.all(_REAL.check(x), axis=-1))
_POSITIVES = _Constraint(
    "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)", lambda x: statistical.all(x > 0, axis=-1)
)
_DEFINITE = _Constraint("PositiveDefinite()", lambda x: elementwise.abs(x - x.mT) <= 1e-6)


def _may_look(x: Tensor) -> bool:
    return not batch_levels.get() and may_look(x._spec.backend)


def _floats(*values: Any) -> tuple[Tensor, ...]:
    """Return parameters as floating-point tensors of one shape; Python numbers get the dtype of the others."""
    tensors = as_operands(*values)
    own = [
        x for x, value in zip(tensors, values, strict=True) if not isinstance(value, int | float) and x._spec.inexact
    ]
    dtype = data_type.result_type(*own) if own else asarray(0.0).dtype
    return manipulation.broadcast_arrays(*(data_type.astype(x, dtype, copy=False) for x in tensors))


def _tensor(value: Any, like: Tensor) -> Tensor:
    """Return a value in the dtype of a parameter."""
    _, found = as_operands(like, value)
    return data_type.astype(found, like.dtype, copy=False)


def _shown(x: Tensor) -> Any:
    return x.item() if x.numel() == 1 else x


def _uniform(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return draws from (0, 1), in the dtype and on the device of a parameter."""
    drawn = rand(*shape, dtype=like.dtype, device=like.device)
    return searching.where(drawn == 0, float(data_type.finfo(like.dtype).eps) / 2, drawn)


def _shape(sample_shape: Any) -> tuple[int, ...]:
    return (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)


class Distribution:
    """The base of the distributions.

    Parameters
    ----------
    batch_shape, event_shape : tuple of int
        The shape of the parameters, each element of which is a separate distribution, and the shape of one draw.
    validate_args : bool, optional
        Whether to check parameters and values. Default: yes, if values are available: not within `vmap`.

    Raises
    ------
    ValueError
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import agrad as ag
    >>> issubclass(ag.distributions.Normal, ag.distributions.Distribution)
    True
    """

    has_rsample = False
    #: The constraints on parameters, by name.
    arg_constraints: ClassVar[dict[str, _Constraint]]

    def __init__(
        self, batch_shape: tuple[int, ...] = (), event_shape: tuple[int, ...] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        self._validates = validate_args is not False
        if self._validates:
            for name, constraint in self.arg_constraints.items():
                if name in vars(self):
                    value = vars(self)[name]
                    self._check(f"Expected parameter {name}", "to satisfy the constraint", constraint, value)

    def _check(self, what: str, how: str, constraint: _Constraint, value: Tensor) -> None:
        """Refuse values that do not satisfy a constraint, in PyTorch's words."""
        if _may_look(value) and not bool(statistical.all(constraint.check(value.detach()))):
            within = how.endswith("support")
            wanted = f"({constraint!r}) of the distribution {self!r}" if within else f"{constraint!r}"
            whose = "" if within else f" of distribution {self!r}"
            raise ValueError(
                f"{what} ({type(value).__name__} of shape {tuple(value.shape)}){whose} {how} {wanted}, but found invalid"
                f" values:\n{value.detach()}{called()}"
            )

    def _value(self, value: Any, like: Tensor) -> Tensor:
        """Return a value after checking that it is in the support."""
        found = _tensor(value, like)
        if self._validates:
            self._check("Expected value argument", "to be within the support", self.support, found)
        return found

    @property
    def support(self) -> Any:
        """The support of the density."""
        raise NotImplementedError

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one draw of one distribution."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return elementwise.sqrt(self.variance)

    def _extended(self, sample_shape: Any) -> tuple[int, ...]:
        return _shape(sample_shape) + self._batch_shape + self._event_shape

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return draws that are not part of the graph.

        Parameters
        ----------
        sample_shape : tuple of int, optional
            The number of draws, in front of `batch_shape` and `event_shape`.

        Returns
        -------
        Tensor
            The draws.
        """
        with _no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return draws that are differentiable in the parameters.

        Parameters
        ----------
        sample_shape : tuple of int, optional
            As for `sample`.

        Returns
        -------
        Tensor
            The draws.

        Raises
        ------
        NotImplementedError
            For distributions of integers.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.rsample() is not supported: its draws are integers. Use sample() and log_prob()."
        )

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density, or of the probability.

        Parameters
        ----------
        value : Tensor
            The points, with a shape that broadcasts with ``batch_shape + event_shape``.

        Returns
        -------
        Tensor
            Without the axes of an event.

        Raises
        ------
        ValueError
            If a value is outside of the support.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy in nats, of shape `batch_shape`."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return elementwise.exp(self.entropy())

    def __repr__(self) -> str:
        given = ((name, vars(self)[name]) for name in self.arg_constraints if name in vars(self))
        shown = (f"{name}: {x.detach().item() if x.numel() == 1 else tuple(x.shape)}" for name, x in given)
        return f"{type(self).__name__}({', '.join(shown)})"


class Normal(Distribution):
    """The normal distribution.

    Parameters
    ----------
    loc, scale : Tensor or float
        Mean and standard deviation.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.distributions.Normal(0.0, 1.0).log_prob(1.0)
    tensor(-1.4189)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, _Constraint]] = {"loc": _REAL, "scale": _POSITIVE}
    support = _REAL

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc: Tensor
        self.scale: Tensor
        self.loc, self.scale = _floats(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(*self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + drawn * self.scale

    def log_prob(self, value: Any) -> Tensor:
        z = (self._value(value, self.loc) - self.loc) / self.scale
        return -z * z / 2 - elementwise.log(self.scale) - _LOG_ROOT

    def entropy(self) -> Tensor:
        return 0.5 + _LOG_ROOT + elementwise.log(self.scale)

    def cdf(self, value: Any) -> Tensor:
        """Return the probability of at most a value."""
        return special.ndtr((self._value(value, self.loc) - self.loc) / self.scale)

    def icdf(self, value: Any) -> Tensor:
        """Return the value that a draw is at most with a probability."""
        return self.loc + self.scale * special.ndtri(_tensor(value, self.loc))


class Uniform(Distribution):
    """The uniform distribution on an interval.

    Parameters
    ----------
    low, high : Tensor or float
        Its bounds.
    validate_args : bool, optional
        As for `Distribution`.

    Raises
    ------
    ValueError
        If `low` is not less than `high`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.distributions.Uniform(0.0, 4.0).log_prob(1.0).exp()
    tensor(0.2500)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, _Constraint]] = {
        "low": _Constraint("Dependent()", _REAL.check),
        "high": _Constraint("Dependent()", _REAL.check),
    }

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low: Tensor
        self.high: Tensor
        self.low, self.high = _floats(low, high)
        super().__init__(self.low.shape, (), validate_args)
        if self._validates:
            high = self.high.detach()
            below = _Constraint(f"LessThan(upper_bound={_shown(high)})", lambda x: x < high)
            self._check("Expected parameter low", "to satisfy the constraint", below, self.low)

    @property
    def support(self) -> _Constraint:
        low, high = self.low.detach(), self.high.detach()
        return _Constraint(
            f"Interval(lower_bound={_shown(low)}, upper_bound={_shown(high)})", lambda x: (x >= low) & (x <= high)
        )

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Tensor:
        width = self.high - self.low
        return width * width / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = rand(*self._extended(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value, self.low)
        return searching.where((self.low <= x) & (x < self.high), -elementwise.log(self.high - self.low), -math.inf)

    def entropy(self) -> Tensor:
        return elementwise.log(self.high - self.low)

    def cdf(self, value: Any) -> Tensor:
        """Return the probability of at most a value."""
        return elementwise.clip((self._value(value, self.low) - self.low) / (self.high - self.low), 0, 1)

    def icdf(self, value: Any) -> Tensor:
        """Return the value that a draw is at most with a probability."""
        return self.low + _tensor(value, self.low) * (self.high - self.low)


class Gamma(Distribution):
    """The gamma distribution.

    Parameters
    ----------
    concentration, rate : Tensor or float
        Its shape, and the inverse of its scale.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.distributions.Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, _Constraint]] = {"concentration": _POSITIVE, "rate": _POSITIVE}
    support = _NONNEGATIVE

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration: Tensor
        self.rate: Tensor
        self.concentration, self.rate = _floats(concentration, rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def variance(self) -> Tensor:
        return self.concentration / (self.rate * self.rate)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return _gamma(self.concentration, self._extended(sample_shape)) / self.rate

    def log_prob(self, value: Any) -> Tensor:
        x, a = self._value(value, self.rate), self.concentration
        return special.xlogy(a, self.rate) + special.xlogy(a - 1, x) - self.rate * x - special.gammaln(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - elementwise.log(self.rate) + special.gammaln(a) + (1 - a) * special.digamma(a)

    def cdf(self, value: Any) -> Tensor:
        """Return the probability of at most a value."""
        return special.gammainc(self.concentration, self.rate * self._value(value, self.rate))


def _gamma(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return draws from gamma distributions of rate 1, above 0."""
    a = manipulation.broadcast_to(concentration, shape)
    drawn = special.gammaincinv(a, _uniform(shape, concentration))
    return elementwise.maximum(drawn, float(data_type.finfo(concentration.dtype).smallest_normal))


class Beta(Distribution):
    """The beta distribution.

    Parameters
    ----------
    concentration1, concentration0 : Tensor or float
        The exponents, plus 1, of ``x`` and ``1 - x`` in the density.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.distributions.Beta(2.0, 2.0).log_prob(0.5).exp()
    tensor(1.5000)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, _Constraint]] = {"concentration1": _POSITIVE, "concentration0": _POSITIVE}
    support = _UNIT

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1: Tensor
        self.concentration0: Tensor
        self.concentration1, self.concentration0 = _floats(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b) * (a + b) * (a + b + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended(sample_shape)
        a, b = (manipulation.broadcast_to(x, shape) for x in (self.concentration1, self.concentration0))
        return special.betaincinv(a, b, _uniform(shape, a))

    def log_prob(self, value: Any) -> Tensor:
        x, a, b = self._value(value, self.concentration1), self.concentration1, self.concentration0
        return special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        found = special.betaln(a, b) + (a + b - 2) * special.digamma(a + b)
        return found - (a - 1) * special.digamma(a) - (b - 1) * special.digamma(b)


class Dirichlet(Distribution):
    """The Dirichlet distribution, of positive vectors that sum to 1.

    Parameters
    ----------
    concentration : Tensor
        The exponents of the density, plus 1, along the last axis.
    validate_args : bool, optional
        As for `Distribution`.

    Raises
    ------
    ValueError
        If `concentration` has no axis.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.distributions.Dirichlet(ag.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, _Constraint]] = {"concentration": _POSITIVES}
    support = _SIMPLEX

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        self.concentration: Tensor = _floats(concentration)[0]
        if not self.concentration.ndim:
            raise ValueError(f"`concentration` parameter must be at least one-dimensional.{called()}")
        super().__init__(self.concentration.shape[:-1], self.concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / statistical.sum(self.concentration, axis=-1, keepdims=True)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        total = statistical.sum(a, axis=-1, keepdims=True)
        return a * (total - a) / (total * total * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = _gamma(self.concentration, self._extended(sample_shape))
        return drawn / statistical.sum(drawn, axis=-1, keepdims=True)

    def log_prob(self, value: Any) -> Tensor:
        x, a = self._value(value, self.concentration), self.concentration
        return statistical.sum(special.xlogy(a - 1, x), axis=-1) - self._log_normalizer()

    def _log_normalizer(self) -> Tensor:
        a = self.concentration
        return statistical.sum(special.gammaln(a), axis=-1) - special.gammaln(statistical.sum(a, axis=-1))

    def entropy(self) -> Tensor:
        a = self.concentration
        total = statistical.sum(a, axis=-1)
        found = self._log_normalizer() - (a.shape[-1] - total) * special.digamma(total)
        return found - statistical.sum((a - 1) * special.digamma(a), axis=-1)


def _one_of(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError(f"Either `probs` or `logits` must be specified, but not both.{called()}")


def _inner(probs: Tensor) -> Tensor:
    """Return probabilities that are neither 0 nor 1, as PyTorch clamps them."""
    eps = float(data_type.finfo(probs.dtype).eps)
    return elementwise.clip(probs, eps, 1 - eps)


class Bernoulli(Distribution):
    """The distribution of 1 with a probability, and 0 otherwise.

    Parameters
    ----------
    probs : Tensor or float, optional
        The probability of 1.
    logits : Tensor or float, optional
        Its log-odds, instead.
    validate_args : bool, optional
        As for `Distribution`.

    Raises
    ------
    ValueError
        If not one of the two is given.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.distributions.Bernoulli(0.25).log_prob(1.0).exp()
    tensor(0.2500)
    """

    arg_constraints: ClassVar[dict[str, _Constraint]] = {"probs": _UNIT, "logits": _REAL}
    support = _BOOLEAN

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _one_of(probs, logits)
        self.probs: Tensor
        self.logits: Tensor
        if logits is None:
            (self.probs,) = _floats(probs)
        else:
            (self.logits,) = _floats(logits)
        super().__init__((self.probs if logits is None else self.logits).shape, (), validate_args)

    def __getattr__(self, name: str) -> Any:
        if name == "logits":
            return special.logit(_inner(self.probs))
        if name == "probs":
            return extra.sigmoid(self.logits)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def mean(self) -> Tensor:
        found: Tensor = self.probs
        return found

    @property
    def variance(self) -> Tensor:
        found: Tensor = self.probs * (1 - self.probs)
        return found

    def sample(self, sample_shape: Any = ()) -> Tensor:
        probs = self.probs.detach()
        drawn = rand(*self._extended(sample_shape), dtype=probs.dtype, device=probs.device)
        return data_type.astype(drawn < probs, probs.dtype)

    def log_prob(self, value: Any) -> Tensor:
        logits = self.logits
        found: Tensor = self._value(value, logits) * logits - special.softplus(logits)
        return found

    def entropy(self) -> Tensor:
        found: Tensor = special.softplus(self.logits) - self.probs * self.logits
        return found


class Categorical(Distribution):
    """The distribution of an index, given the probability of each.

    Parameters
    ----------
    probs : Tensor, optional
        Along the last axis, probabilities up to a factor.
    logits : Tensor, optional
        Their logarithms up to a constant, instead.
    validate_args : bool, optional
        As for `Distribution`.

    Raises
    ------
    ValueError
        If not one of the two is given, or it has no axis.

    Examples
    --------
    >>> import agrad as ag
    >>> policy = ag.distributions.Categorical(ag.tensor([1.0, 3.0]))
    >>> policy.log_prob(ag.tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints: ClassVar[dict[str, _Constraint]] = {"probs": _SIMPLEX, "logits": _REALS}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _one_of(probs, logits)
        (given,) = _floats(probs if logits is None else logits)
        if not given.ndim:
            name = "probs" if logits is None else "logits"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.{called()}")
        if logits is None:
            self.probs: Tensor = given / statistical.sum(given, axis=-1, keepdims=True)
        else:
            self.logits: Tensor = given - special.logsumexp(given, axis=-1, keepdims=True)
        self._count = int(given.shape[-1])
        super().__init__(given.shape[:-1], (), validate_args)

    def __getattr__(self, name: str) -> Any:
        if name == "logits":
            return elementwise.log(_inner(self.probs))
        if name == "probs":
            return elementwise.exp(self.logits)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def support(self) -> _Constraint:
        last = self._count - 1
        return _Constraint(
            f"IntegerInterval(lower_bound=0, upper_bound={last})",
            lambda x: (x >= 0) & (x <= last) & (x == elementwise.floor(x)),
        )

    @property
    def mean(self) -> Tensor:
        return full(self._batch_shape, math.nan, dtype=self.probs.dtype, device=self.probs.device)

    variance = mean

    @property
    def mode(self) -> Tensor:
        """The most probable index."""
        return searching.argmax(self.probs, axis=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sums = statistical.cumulative_sum(self.probs.detach(), axis=-1)
        drawn = rand(*self._extended(sample_shape), dtype=sums.dtype, device=sums.device)
        below = sums[..., :-1] <= manipulation.expand_dims(drawn * sums[..., -1], axis=-1)
        return statistical.sum(data_type.astype(below, "int64"), axis=-1)

    def log_prob(self, value: Any) -> Tensor:
        logits = self.logits
        found = self._value(value, logits)
        shape = manipulation.broadcast_shapes(found.shape, self._batch_shape)
        index = manipulation.expand_dims(manipulation.broadcast_to(data_type.astype(found, "int64"), shape), axis=-1)
        wide = manipulation.broadcast_to(logits, (*shape, self._count))
        return manipulation.squeeze(searching.take_along_axis(wide, index, axis=-1), axis=-1)

    def entropy(self) -> Tensor:
        logits = elementwise.maximum(self.logits, float(data_type.finfo(self.logits.dtype).min))
        return -statistical.sum(logits * self.probs, axis=-1)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors.

    Parameters
    ----------
    loc : Tensor
        The mean, along the last axis.
    covariance_matrix, precision_matrix, scale_tril : Tensor, optional
        One of them: the covariance, its inverse, or its lower Cholesky factor.
    validate_args : bool, optional
        As for `Distribution`.

    Raises
    ------
    ValueError
        If not one of the matrices is given, it has too few axes, is not symmetric, or `loc` is no vector.
    LinAlgError
        If a covariance or precision is not positive definite.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.distributions.MultivariateNormal(ag.zeros(2), ag.eye(2)).log_prob(ag.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, _Constraint]] = {
        "loc": _REALS,
        "covariance_matrix": _DEFINITE,
        "precision_matrix": _DEFINITE,
        "scale_tril": _Constraint(
            "LowerCholesky()",
            lambda x: (
                statistical.all(x == manipulation.tril(x), axis=(-2, -1))
                & statistical.all(linalg.diagonal(x) > 0, axis=-1)
            ),
        ),
    }
    support = _REALS

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError(
                f"Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.{called()}"
            )
        ((name, matrix),) = given
        loc, matrix = as_operands(loc, matrix)
        (loc,), (matrix,) = _floats(loc), _floats(matrix)
        if not loc.ndim:
            raise ValueError(f"loc must be at least one-dimensional.{called()}")
        if matrix.ndim < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions{called()}"
            )
        batch = manipulation.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc: Tensor = manipulation.broadcast_to(loc, (*batch, loc.shape[-1]))
        matrix = manipulation.broadcast_to(matrix, (*batch, *matrix.shape[-2:]))
        vars(self)[name] = matrix
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        if name == "scale_tril":
            self._tril = manipulation.tril(matrix)
        else:
            self._tril = decompositions.cholesky(matrix if name == "covariance_matrix" else solving.inv(matrix))

    def __getattr__(self, name: str) -> Any:
        if name == "scale_tril":
            return vars(self)["_tril"]
        if name == "covariance_matrix":
            return linalg.matmul(self._tril, self._tril.mT)
        if name == "precision_matrix":
            return solving.inv(self.covariance_matrix)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return statistical.sum(self._tril * self._tril, axis=-1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(*self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        turned = linalg.matmul(self._tril, manipulation.expand_dims(drawn, axis=-1))
        return self.loc + manipulation.squeeze(turned, axis=-1)

    def _log_scale(self) -> Tensor:
        return statistical.sum(elementwise.log(linalg.diagonal(self._tril)), axis=-1)

    def log_prob(self, value: Any) -> Tensor:
        z = _solved(self._tril, self._value(value, self.loc) - self.loc)
        k = self._event_shape[0]
        return -statistical.sum(z * z, axis=-1) / 2 - k * _LOG_ROOT - self._log_scale()

    def entropy(self) -> Tensor:
        return self._event_shape[0] * (0.5 + _LOG_ROOT) + self._log_scale()


def _solved(tril: Tensor, x: Tensor) -> Tensor:
    """Return the solutions of triangular equations for vectors."""
    shape = manipulation.broadcast_shapes(tril.shape[:-2], x.shape[:-1])
    matrix = manipulation.broadcast_to(tril, (*shape, *tril.shape[-2:]))
    column = manipulation.expand_dims(manipulation.broadcast_to(x, (*shape, x.shape[-1])), axis=-1)
    return manipulation.squeeze(solving.solve(matrix, column), axis=-1)


# -- divergences ------------------------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])

#: By the types of both distributions.
_DIVERGENCES: dict[tuple[type[Distribution], type[Distribution]], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[F], F]:
    """Declare the divergence of two types of distributions.

    Parameters
    ----------
    type_p, type_q : type
        The types; subclasses count, too.

    Returns
    -------
    callable
        A decorator for ``function(p, q)``.

    Examples
    --------
    >>> import agrad as ag
    >>> D = ag.distributions
    >>> class Fixed(D.Normal):
    ...     "A normal distribution that is never compared."
    >>> @D.register_kl(Fixed, Fixed)
    ... def no_divergence(p, q):
    ...     return ag.zeros_like(p.loc)
    >>> D.kl_divergence(Fixed(0.0, 1.0), Fixed(1.0, 1.0))
    tensor(0.)
    """

    def registered(function: F) -> F:
        _DIVERGENCES[type_p, type_q] = function
        return function

    return registered


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence of two distributions.

    Parameters
    ----------
    p, q : Distribution
        Both of one type, or a uniform and a normal one.

    Returns
    -------
    Tensor
        The mean under `p` of ``p.log_prob(x) - q.log_prob(x)``, of the shape of their batches.

    Raises
    ------
    NotImplementedError
        For other types.

    Examples
    --------
    >>> import agrad as ag
    >>> D = ag.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    find = partial(_divergence_of, type(p), type(q))
    guard(find, "what register_kl has registered")
    found = find()
    if found is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}{called()}"
        )
    return found(p, q)


def _divergence_of(type_p: type, type_q: type) -> Callable[[Any, Any], Tensor] | None:
    """Return the function that is registered for two types, or for bases of theirs."""
    for own in type_p.__mro__:
        for other in type_q.__mro__:
            found = _DIVERGENCES.get((own, other))
            if found is not None:
                return found
    return None


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return (ratio * ratio + shift * shift - 1) / 2 - elementwise.log(ratio)


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform, q: Uniform) -> Tensor:
    found = elementwise.log((q.high - q.low) / (p.high - p.low))
    return searching.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width, shift = p.high - p.low, (p.high + p.low - 2 * q.loc) / 2
    spread = (width * width / 12 + shift * shift) / (2 * q.scale * q.scale)
    return elementwise.log(q.scale) + _LOG_ROOT - elementwise.log(width) + spread


@register_kl(Gamma, Gamma)
def _gammas(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    found = b * elementwise.log(p.rate / q.rate) + special.gammaln(b) - special.gammaln(a)
    return found + (a - b) * special.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Beta, Beta)
def _betas(p: Beta, q: Beta) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    found = special.betaln(c, d) - special.betaln(a, b) + (a - c) * special.digamma(a) + (b - d) * special.digamma(b)
    return found + (c + d - a - b) * special.digamma(a + b)


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    means = special.digamma(a) - special.digamma(statistical.sum(a, axis=-1, keepdims=True))
    return q._log_normalizer() - p._log_normalizer() + statistical.sum((a - b) * means, axis=-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    found: Tensor = special.softplus(q.logits) - special.softplus(p.logits) + p.probs * (p.logits - q.logits)
    impossible = ((q.probs == 0) & (p.probs > 0)) | ((q.probs == 1) & (p.probs < 1))
    return searching.where(impossible, math.inf, found)


@register_kl(Categorical, Categorical)
def _categoricals(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = searching.where(q.probs == 0, math.inf, terms)
    return statistical.sum(searching.where(p.probs == 0, 0.0, terms), axis=-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two Multivariate Normals with different event shapes cannot be computed{called()}"
        )
    shape = manipulation.broadcast_shapes(p._tril.shape, q._tril.shape)
    ratio = solving.solve(*(manipulation.broadcast_to(x, shape) for x in (q._tril, p._tril)))
    z = _solved(q._tril, q.loc - p.loc)
    squares = statistical.sum(ratio * ratio, axis=(-2, -1)) + statistical.sum(z * z, axis=-1)
    return q._log_scale() - p._log_scale() + (squares - p.event_shape[0]) / 2


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
    for _name in __all__:
        _names.explain_made(globals()[_name])
