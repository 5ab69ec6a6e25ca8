"""Distributions at the ends of their support: all their functions, and derivatives, follow from the series of the density there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from agrad.core.mode import may_look
from agrad.core.once import once
from agrad.core.tensor import Tensor
from agrad.ops.elementwise import log
from agrad.ops.special.edges import LAST, LATER, edge_flat, edge_log, edge_power

#: A tensor or a Python number.
Number = Any


def log_of(p: Number) -> Number:
    """Return the logarithm of a positive parameter, a tensor or a number."""
    if isinstance(p, Tensor):
        return log(p)
    return math.log(p) if p > 0 else math.nan


def is_lazy(x: Number) -> bool:
    """Return whether this is a tensor whose values are computed later; values under `vmap` are available."""
    if not isinstance(x, Tensor):
        return False
    backend = x._spec.backend
    return bool(getattr(backend, "base", backend).is_lazy)


def perhaps(holds: Callable[[Any, Any], Any], y: Tensor, end: Any) -> bool:
    """Return whether a comparison with `end` may hold for any element; elements are read where possible."""
    backend = y._spec.backend
    return not may_look(backend) or bool(backend.truth(backend.xp.any(holds(y._raw, end))))


def fixed(x: Number) -> Number:
    """Return a value without derivatives."""
    return x.detach() if isinstance(x, Tensor) else x


def parts(function: Callable[..., Any], moving: Number, other: Number) -> tuple[Number, Number]:
    """Return a function of two values as a sum, whose first part has the derivatives with respect to the one, the second to the other."""
    if not isinstance(moving, Tensor):
        return 0.0, function(moving, other)
    if not isinstance(other, Tensor):
        return function(moving, other), 0.0
    start, second = function(fixed(moving), fixed(other)), function(fixed(moving), other)
    return function(moving, fixed(other)) - start, second


def along(u: Tensor, shape: Number, sign: float) -> Tensor:
    """Return 0, whose derivative with respect to the shape tends to infinity like the logarithm of `u`, which is 0; with this sign."""
    return edge_log(u, sign * (fixed(shape) - shape))


def heavy(power: Number) -> Callable[[Tensor], Tensor]:
    """Return a quantile by the probability beyond it: this power of its reciprocal, or a function that grows in the same sense."""
    return lambda u: edge_power(u, -power, 0.0, 0.0)


def light(shape: Number = 0.0, level: Number = 0.0) -> Callable[[Tensor], Tensor]:
    """Return a quantile by the probability beyond it that grows as its logarithm, and slowly with the shape; at this level."""
    return lambda u: edge_log(u, -1.0) + along(u, shape, 1.0) + level


def flat(shape: Number) -> Callable[[Tensor], Tensor]:
    """Return a quantile by the probability below it, where the density has all derivatives 0."""
    return lambda u: edge_power(u, shape / (1 + shape), 0.0, 0.0)


class Flat:
    """The end 0 of a support where the density falls faster than any power: see `edge_flat`.

    Parameters
    ----------
    shape : Tensor or float
        It raises the density.
    level : callable, optional
        The terms next to the infinite logarithm, by the shape: a factor of the scale's logarithm, and a number.
        Default: the logarithm dominates, being a square.
    """

    def __init__(self, shape: Number, level: Callable[[Number], tuple[Number, Number]] | None = None) -> None:
        self.shape: Number = shape
        self.level: Callable[[Number], tuple[Number, Number]] | None = level

    def asks(self, function: str) -> bool:
        """Return whether a function is computed here: infinite logarithms."""
        return function in ("log_density", "log_mass")

    def log_density(self, u: Tensor, scale: Number) -> Tensor:
        """Return the logarithm of the density."""
        return self._log(u, scale, 0.0)

    def log_mass(self, u: Tensor, scale: Number) -> Tensor:
        """Return the logarithm of the probability between the end and `u`."""
        return self._log(u, scale, -1.0)

    def _log(self, u: Tensor, scale: Number, more: float) -> Tensor:
        found = edge_flat(u, self.shape, scale, self.level is None)
        if self.level is None:
            return found
        power, level = self.level(self.shape)
        return found + (power + more) * log_of(scale) + level


class Edge:
    """One end of a support: the density as a series in the distance from it, for scale 1.

    It is ``exp(level) * t**power * (1 + first * t**step + second * t**(2 * step) + ...)``; a derivative of second order
    needs no more terms. Derivatives of higher order that do are NaN.

    Parameters
    ----------
    power : Tensor or float
        Above -1.
    level : callable, optional
        The logarithm of the factor, in two parts. Default: 0.
    moving, other : Tensor or float
        These parameters: the one that moves the power, too, and the other.
    first, second : Tensor or float
        The coefficients.
    step : Tensor or float
        From one power to the next.
    """

    def __init__(
        self,
        power: Number,
        level: Callable[[Number, Number], Number] = lambda moving, other: 0.0,
        moving: Number = 1.0,
        other: Number = 1.0,
        first: Number = 0.0,
        second: Number = 0.0,
        *,
        step: Number = 1.0,
    ) -> None:
        self.power: Number = power
        self.first: Number = first
        self.second: Number = second
        self.step: Number = step
        self._factor = level, moving, other  # evaluated where values are computed, not where only an edge is requested

    @once
    def level(self) -> Number:
        """The logarithm of the factor."""
        level, moving, other = self._factor
        return level(moving, other)

    @once
    def _parts(self) -> tuple[Number, Number]:
        return parts(*self._factor)

    def asks(self, function: str) -> bool:
        """Return whether a function is computed here: the formulas hold where the density starts with a constant."""
        constant = not isinstance(self.power, Tensor) and self.power == 0
        return not constant or function == "log_mass"

    def density(self, u: Tensor, scale: Number) -> Tensor:
        """Return the density at distance `u`, which is 0."""
        return self._series(u, scale, self.power, 1.0, 0.0, self.first, self.second)

    def mass(self, u: Tensor, scale: Number) -> Tensor:
        """Return the probability between the end and `u`."""
        m, first, second = self._integral()
        return self._series(u, scale, m, 0.0, -log_of(m), first, second)

    def rest(self, u: Tensor, scale: Number) -> Tensor:
        """Return the probability beyond `u`."""
        return 1 - self.mass(u, scale)

    def log_density(self, u: Tensor, scale: Number) -> Tensor:
        """Return the logarithm of the density."""
        level = self.level - (self.power + 1) * log_of(scale)
        return edge_log(u, self.power) + level + self._corrections(u, scale, self.first, self.second)

    def log_mass(self, u: Tensor, scale: Number) -> Tensor:
        """Return the logarithm of `mass`."""
        m, first, second = self._integral()
        level = self.level - log_of(m) - m * log_of(scale)
        return edge_log(u, m) + level + self._corrections(u, scale, first, second)

    def log_rest(self, u: Tensor, scale: Number) -> Tensor:
        """Return the logarithm of `rest`, minus the mass and half its square."""
        m = self.power + 1
        minor, major = self._level(scale, m, 0.0, -log_of(m))
        return -self.mass(u, scale) - edge_power(u, 2 * m, 2 * minor, 2 * major, 0, 0, LAST) / 2

    def quantile(self, q: Tensor) -> Tensor:
        """Return the distance from the end within which the probability is `q`, which is 0, for scale 1."""
        m = self.power + 1
        minor, major = parts(lambda m, level: -level / m, m, self._parts[1])
        minor = minor - (self._parts[0] - log_of(m)) / m
        found = edge_power(q, 1 / m, minor, major)
        if type(self.first) is float and self.first == 0:
            return found
        more = 1 + self.step
        return found - self.first / (m + self.step) * edge_power(q, more / m, more * minor, more * major, 0, 0, LAST)

    def _integral(self) -> tuple[Number, Number, Number]:
        m = self.power + 1
        return m, self.first * m / (m + self.step), self.second * m / (m + 2 * self.step)

    def _level(self, scale: Number, power: Number, more: float, minor: Number) -> tuple[Number, Number]:
        """Return the logarithm of the factor of a power of the distance, in two parts; the scale has `more` powers."""
        moving, other = parts(lambda p, level: -(p + more) * level, power, log_of(scale))
        return self._parts[0] + minor + moving, self._parts[1] + other

    def _series(
        self, u: Tensor, scale: Number, power: Number, more: float, minor: Number, first: Number, second: Number
    ) -> Tensor:
        found = edge_power(u, power, *self._level(scale, power, more, minor))
        for k, coefficient, place in ((1, first, LATER), (2, second, LAST)):
            if type(coefficient) is not float or coefficient != 0:
                p = power + k * self.step
                found = found + coefficient * edge_power(u, p, *self._level(scale, p, more, minor), 0, 0, place)
        return found

    def _corrections(self, u: Tensor, scale: Number, first: Number, second: Number) -> Number:
        """Return the logarithm of ``1 + first * t**step + second * t**(2 * step)``."""
        found: Number = 0.0
        for k, coefficient in ((1, first), (2, second - first * first / 2)):
            if type(coefficient) is not float or coefficient != 0:
                p = k * self.step
                moving, other = parts(lambda p, level: -p * level, p, log_of(scale))
                found = found + coefficient * edge_power(u, p, moving, other, 0, 0, LATER)
        return found
