"""Numerical analysis: differences, integrals, interpolation, convolution, polynomials; and elementwise functions."""

from __future__ import annotations

import math
from typing import Any

from agrad.core.cotangents import promote
from agrad.core.declare import multilinear
from agrad.core.errors import called
from agrad.core.mode import transforming
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.ops.data_type import astype, finfo
from agrad.ops.elementwise import abs as absolute
from agrad.ops.elementwise import add, conj, equal, imag, isinf, isnan, less, maximum, minimum, real, remainder, sign
from agrad.ops.extra.common import Axis, alike, along, checked_axes, checked_axis, kind_of
from agrad.ops.manipulation import broadcast_to, concat, flip, reshape, unstack
from agrad.ops.matrices import conj as _conj
from agrad.ops.searching import argsort, getitem, searchsorted, take, where
from agrad.ops.statistical import all as all_of
from agrad.ops.statistical import cumulative_sum
from agrad.ops.statistical import sum as sum_of

__all__ = [
    "allclose", "array_equal", "convolve", "correlate", "cumulative_trapezoid", "deg2rad", "fmax", "fmin", "gradient",
    "heaviside", "interp", "isclose", "lerp", "nan_to_num", "polyval", "rad2deg", "trapezoid", "unwrap",
]  # fmt: skip

# -- elements ---------------------------------------------------------------------------------------------------------


def deg2rad(x: Any, /) -> Tensor:
    """Degrees as radians.

    x: Any shape, floating point.
    Returns: ``x * pi / 180``.
    As ``numpy.deg2rad``. Linear.

    >>> ag.extra.deg2rad(ag.tensor(180.0))
    tensor(3.1416)
    """
    return as_operand(x) * (math.pi / 180)


def rad2deg(x: Any, /) -> Tensor:
    """Radians as degrees.

    x: Any shape, floating point.
    Returns: ``x * 180 / pi``.
    As ``numpy.rad2deg``. Linear.

    >>> ag.extra.rad2deg(ag.tensor(ag.pi))
    tensor(180.)
    """
    return as_operand(x) * (180 / math.pi)


def fmax(x1: Any, x2: Any, /) -> Tensor:
    """The larger of two, or the other one where one is NaN.

    x1, x2: Real; they broadcast.
    Returns: NaN only where both are.
    As ``numpy.fmax``. At a tie each gets half of the gradient, as in `agrad.maximum` (in PyTorch the first gets all of
    it). The number beside a NaN gets all of it.

    >>> ag.extra.fmax(ag.tensor([1.0, ag.nan]), ag.tensor([2.0, 0.0]))
    tensor([2., 0.])
    """
    x1, x2 = as_operands(x1, x2)
    return maximum(where(isnan(x1), x2, x1), where(isnan(x2), x1, x2))


def fmin(x1: Any, x2: Any, /) -> Tensor:
    """The smaller of two, or the other one where one is NaN.

    x1, x2: Real; they broadcast.
    Returns: NaN only where both are.
    As ``numpy.fmin``. At a tie each gets half of the gradient, as in `agrad.minimum` (in PyTorch the first gets all of
    it). The number beside a NaN gets all of it.

    >>> ag.extra.fmin(ag.tensor([1.0, ag.nan]), ag.tensor([2.0, 0.0]))
    tensor([1., 0.])
    """
    x1, x2 = as_operands(x1, x2)
    return minimum(where(isnan(x1), x2, x1), where(isnan(x2), x1, x2))


def heaviside(x1: Any, x2: Any, /) -> Tensor:
    """The step function: 0 for negative, 1 for positive numbers, and `x2` at 0.

    x1: Real.
    x2 : Tensor or scalar
        The value at 0; they broadcast.
    Returns: NaN where `x1` is.
    As ``numpy.heaviside``. The gradient of `x1` is zero, at the step too; that of `x2` goes where `x1` is 0.

    >>> ag.extra.heaviside(ag.tensor([-1.5, 0.0, 2.0]), 0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """
    x1, x2 = as_operands(x1, x2)
    return where(x1 == 0, x2, (sign(_floating(x1)) + 1) * 0.5)


def nan_to_num(x: Any, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Replace NaN and infinities by numbers.

    x: Any shape.
    nan : float, optional
        The replacement of NaN.
    posinf, neginf : float, optional
        The replacements of the infinities. Default: the largest and the smallest number of the dtype.
    Returns: Of the dtype of `x`. Real and imaginary parts are treated separately.
    As ``numpy.nan_to_num``. Replaced elements get the gradient 0.

    >>> ag.extra.nan_to_num(ag.tensor([ag.nan, ag.inf, 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """
    x = as_operand(x)
    if not x._spec.inexact:
        return reshape(x, x.shape)
    if x._spec.is_complex:
        parts = [nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (real(x), imag(x))]
        return astype(parts[0], x.dtype) + astype(parts[1], x.dtype) * 1j
    limits = finfo(x.dtype)
    infinite = isinf(x)
    x = where(infinite & (x > 0), float(limits.max) if posinf is None else posinf, x)
    x = where(infinite & (x < 0), float(limits.min) if neginf is None else neginf, x)
    return where(isnan(x), nan, x)


def lerp(start: Any, end: Any, weight: Any) -> Tensor:
    """Between two operands: the first for the weight 0, the second for 1.

    start, end: The two ends.
    weight : Tensor or scalar
        How far to go; all broadcast.
    Returns: ``start + weight * (end - start)``, exact at both ends.
    As ``torch.lerp``. Differentiable in all three.

    >>> ag.extra.lerp(ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0]), 0.5)
    tensor([2., 3.])
    """
    start, end = map(_floating, as_operands(start, end))
    gap = end - start
    if isinstance(weight, int | float | complex):
        near: Tensor = start + weight * gap if abs(weight) < 0.5 else end - gap * (1 - weight)
        return near
    weight = _floating(weight, start)
    return where(less(absolute(weight), 0.5), start + weight * gap, end - gap * (1 - weight))


def isclose(x1: Any, x2: Any, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether elements are equal within tolerances.

    x1, x2: They broadcast.
    rtol, atol : float, optional
        The tolerance is ``atol + rtol * abs(x2)``.
    equal_nan : bool, optional
        Whether NaN equals NaN.
    Returns: Boolean.
    As ``numpy.isclose`` and ``torch.isclose``. Infinities equal themselves only. No derivative.

    >>> ag.extra.isclose(ag.tensor([1.0, 2.0]), ag.tensor([1.000001, 2.1]))
    tensor([ True, False])
    """
    x1, x2 = (x.detach() for x in as_operands(x1, x2))
    if "bool" in (kind_of(x1), kind_of(x2)):
        x1, x2 = (astype(x, "int8") if kind_of(x) == "bool" else x for x in (x1, x2))
    same = equal(x1, x2)
    if x1._spec.inexact or x2._spec.inexact:
        x1, x2 = (x if x._spec.inexact else astype(x, asarray(0.0).dtype) for x in (x1, x2))
        size = absolute(x2)
        finite = where(isinf(x1) | isinf(x2), math.nan, absolute(x1 - where(isinf(x2), 0.0, x2)))
        same = same | (finite <= atol + rtol * size)
        return same | (isnan(x1) & isnan(x2)) if equal_nan else same
    gap = maximum(x1, x2) - minimum(x1, x2)
    dtype = asarray(0.0).dtype
    return same | (astype(gap, dtype) <= atol + rtol * astype(absolute(x2), dtype))


def allclose(x1: Any, x2: Any, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are equal within tolerances.

    x1, x2, rtol, atol, equal_nan: As for `isclose`.
    Returns: A Python boolean: a lazy backend computes it. As ``numpy.allclose`` and ``torch.allclose``. No derivative.

    >>> ag.extra.allclose(ag.tensor([1.0, 2.0]), ag.tensor([1.0, 2.0]))
    True
    """
    return bool(all_of(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def array_equal(x1: Any, x2: Any, /, *, equal_nan: bool = False) -> bool:
    """Whether two operands have the same shape and elements.

    x1, x2: Any shapes.
    equal_nan : bool, optional
        Whether NaN equals NaN.
    Returns: A Python boolean: a lazy backend computes it. As ``numpy.array_equal``. No derivative.

    >>> ag.extra.array_equal(ag.tensor([1, 2]), [1, 2])
    True
    """
    x1, x2 = (x.detach() for x in as_operands(x1, x2))
    if x1.shape != x2.shape:
        return False
    same = equal(x1, x2)
    if equal_nan and x1._spec.inexact and x2._spec.inexact:
        same = same | (isnan(x1) & isnan(x2))
    return bool(all_of(same))


# -- differences and integrals ----------------------------------------------------------------------------------------


def _floating(x: Any, beside: Any = None) -> Tensor:
    x = as_operand(x, beside)
    return x if x._spec.inexact else astype(x, asarray(0.0).dtype)


def _part(x: Tensor, axis: int, start: int | None, stop: int | None) -> Tensor:
    return getitem(x, along(axis, slice(start, stop)))


def gradient(f: Any, /, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Tensor | tuple[Tensor, ...]:
    """Slopes along axes, from second-order central differences inside and one-sided ones at the ends.

    f: Values on a grid.
    *varargs : float or Tensor, optional
        The spacing: one number for all axes, or for each axis a number or the coordinates along it.
    edge_order : {1, 2}, optional
        The order of accuracy at the ends.
    Returns: Of the shape of `f`; a tuple for several axes.
    TypeError: If the number of spacings is not 0, 1, or the number of axes.
    ValueError: If an axis is too short, or coordinates do not fit.
    As ``numpy.gradient``. Linear in `f`, differentiable in the spacings.

    >>> ag.extra.gradient(ag.tensor([0.0, 1.0, 4.0, 9.0]))
    tensor([1., 2., 4., 5.])
    """
    f = _floating(f)
    axes = checked_axes("gradient", axis, f.ndim)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient(): edge_order must be 1 or 2, not {edge_order}{called()}")
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(f"gradient(): {len(varargs)} spacings given for {len(axes)} axes{called()}")
    spacings: tuple[Any, ...] = (
        (1.0,) * len(axes) if not varargs else varargs * len(axes) if len(varargs) == 1 else varargs
    )
    if (
        len(varargs) == 1
        and len(axes) > 1
        and not isinstance(varargs[0], int | float)
        and as_operand(varargs[0], f).ndim
    ):
        raise TypeError(f"gradient(): one vector of coordinates given for {len(axes)} axes{called()}")
    found = tuple(_slopes(f, h, at, edge_order) for h, at in zip(spacings, axes, strict=True))
    return found[0] if len(found) == 1 else found


def _slopes(f: Tensor, spacing: Any, axis: int, edge_order: int) -> Tensor:
    n = f.shape[axis]
    if n <= edge_order:
        raise ValueError(
            f"gradient(): shape too small: at least {edge_order + 1} elements are needed along an axis, not {n}{called()}"
        )
    h: Any = spacing if isinstance(spacing, int | float) else _floating(spacing, f)
    steps: list[Any]
    twice: list[tuple[Any, Any]]
    if isinstance(h, Tensor) and h.ndim:
        if h.shape != (n,):
            raise ValueError(f"gradient(): coordinates of shape {h.shape} do not fit an axis of length {n}{called()}")
        h = reshape(_part(h, 0, 1, None) - _part(h, 0, None, -1), (n - 1, *(1 for _ in f.shape[axis + 1 :])))
        before, after = _part(h, 0, None, -1), _part(h, 0, 1, None)
        steps = [_part(h, 0, i, i + 1 or None) for i in (0, -1)]
        twice = [(_part(h, 0, 0, 1), _part(h, 0, 1, 2)), (_part(h, 0, -2, -1), _part(h, 0, -1, None))] if n > 2 else []
    else:
        before = after = h
        steps = [h, h]
        twice = [(h, h), (h, h)]
    parts = [_central(f, before, after, axis)] if n > 2 else []
    if edge_order == 1:
        first = (_part(f, axis, 1, 2) - _part(f, axis, 0, 1)) / steps[0]
        last = (_part(f, axis, -1, None) - _part(f, axis, -2, -1)) / steps[1]
    else:
        (a, b), (c, d) = twice
        f0, f1, f2 = (_part(f, axis, i, i + 1) for i in range(3))
        first = f1 * ((a + b) / (a * b)) - f0 * ((2 * a + b) / (a * (a + b))) - f2 * (a / (b * (a + b)))
        f0, f1, f2 = (_part(f, axis, i, i + 1 or None) for i in (-3, -2, -1))
        last = f0 * (d / (c * (c + d))) - f1 * ((c + d) / (c * d)) + f2 * ((c + 2 * d) / (d * (c + d)))
    return concat([first, *parts, last], axis=axis)


def _central(f: Tensor, before: Any, after: Any, axis: int) -> Tensor:
    """Return the slopes inside, from the steps before and after; with equal ones the middle counts for nothing, not even NaN."""
    low, mid, high = _part(f, axis, None, -2), _part(f, axis, 1, -1), _part(f, axis, 2, None)
    both = before + after
    slopes: Tensor
    if before is after:
        slopes = (high - low) / both
    else:
        if not (before._is_followed() or transforming.get()):
            mid = where(all_of(after == before), 0.0, mid)
        slopes = (
            high * (before / (after * both))
            + mid * ((after - before) / (before * after))
            - low * (after / (before * both))
        )
    return slopes


def _areas(name: str, y: Any, x: Any, dx: Any, axis: int) -> tuple[Tensor, int]:
    """Return the areas of the trapezoids between neighbours along an axis."""
    y = _floating(y, x)
    at = checked_axis(name, axis, y.ndim)
    means = (_part(y, at, 1, None) + _part(y, at, None, -1)) * 0.5
    if x is None:
        return means * dx, at
    x = _floating(x, y)
    if x.ndim == 1:
        if x.shape[0] != y.shape[at]:
            raise ValueError(f"{name}(): {x.shape[0]} coordinates do not fit an axis of length {y.shape[at]}{called()}")
        x = reshape(x, (-1, *(1 for _ in y.shape[at + 1 :])))
        return means * (_part(x, 0, 1, None) - _part(x, 0, None, -1)), at
    at_x = checked_axis(name, axis, x.ndim)
    return means * (_part(x, at_x, 1, None) - _part(x, at_x, None, -1)), at


def trapezoid(y: Any, /, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Integral along an axis by the trapezoidal rule.

    y: Values.
    x : Tensor, optional
        The coordinates: a vector, or an array that broadcasts to `y`.
    dx : float or Tensor, optional
        The spacing, if `x` is not given.
    axis : int, optional
        The axis.
    Returns: One axis less than `y`.
    ValueError: If the coordinates do not fit.
    As ``numpy.trapezoid``. Differentiable in `y`, `x` and `dx`.

    >>> ag.extra.trapezoid(ag.tensor([1.0, 2.0, 3.0]), [4.0, 6.0, 8.0])
    tensor(8.)
    """
    areas, at = _areas("trapezoid", y, x, dx, axis)
    return sum_of(areas, axis=at)


def cumulative_trapezoid(
    y: Any, /, x: Any = None, *, dx: Any = 1.0, axis: int = -1, initial: float | None = None
) -> Tensor:
    """Running integral along an axis by the trapezoidal rule.

    y, x, dx, axis: As for `trapezoid`.
    initial : {0, None}, optional
        0 puts a 0 in front, so that the result has the shape of `y`.
    Returns: The integrals from the first element to each other one.
    ValueError: If the coordinates do not fit, or `initial` is neither 0 nor None.
    As ``scipy.integrate.cumulative_trapezoid``. Differentiable in `y`, `x` and `dx`.

    >>> ag.extra.cumulative_trapezoid(ag.tensor([1.0, 2.0, 3.0]), initial=0)
    tensor([0.0000, 1.5000, 4.0000])
    """
    if initial not in (None, 0):
        raise ValueError(f"cumulative_trapezoid(): initial must be 0 or None, not {initial!r}{called()}")
    areas, at = _areas("cumulative_trapezoid", y, x, dx, axis)
    return cumulative_sum(areas, axis=at, include_initial=initial is not None)


def unwrap(x: Any, /, *, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi) -> Tensor:
    """Remove jumps: add multiples of the period along an axis, so that neighbours differ by at most half of it.

    x: Real, as angles.
    discont : float, optional
        Jumps up to this size stay. Default (and at least): half the period.
    axis : int, optional
        The axis.
    period : float, optional
        The period.
    Returns: Of the shape of `x`.
    As ``numpy.unwrap``. The added multiples are constant between the jumps, so the gradient is that of `x`.

    >>> ag.extra.unwrap(ag.tensor([0.0, 3.0, 6.0, 1.0]), period=8)
    tensor([0., 3., 6., 9.])
    """
    x = _floating(x)
    at = checked_axis("unwrap", axis, x.ndim)
    if x.shape[at] < 2:
        return reshape(x, x.shape)
    fixed = x.detach()
    jump = _part(fixed, at, 1, None) - _part(fixed, at, None, -1)
    half = period / 2
    within = remainder(jump + half, period) - half
    within = where((within == -half) & (jump > 0), half, within)
    added = where(absolute(jump) < max(half, half if discont is None else discont), 0.0, within - jump)
    return add(x, cumulative_sum(added, axis=at, include_initial=True))


# -- interpolation and polynomials ------------------------------------------------------------------------------------


def interp(x: Any, xp: Any, fp: Any, /, *, left: Any = None, right: Any = None, period: float | None = None) -> Tensor:
    """Linear interpolation between points.

    x: The points to interpolate at, of any shape.
    xp: The coordinates of the data, a strictly increasing vector (with a period, in any order).
    fp: Their values.
    left, right : Tensor or scalar, optional
        The values below the first and above the last data point. Default: those of these points.
    period : float, optional
        The values repeat with this period; `left` and `right` do not count then.
    Returns: Of the shape of `x`.
    ValueError: If the data are not two vectors of one length, or empty, or the period is 0. As ``numpy.interp``.
    Differentiable in `x`, `xp`, `fp`, `left` and `right`. At a data point the slope is that of the interval above it,
    at the last point that of the interval below; outside it is 0.

    >>> x = ag.tensor(1.5, requires_grad=True)
    >>> ag.extra.interp(x, [0.0, 1.0, 3.0], [0.0, 1.0, 5.0]).backward()
    >>> x.grad
    tensor(2.)
    """
    x, places, values = as_operands(x, xp, fp)
    x, places, values = _floating(x), _floating(places), _floating(values)
    if places.ndim != 1 or values.shape != places.shape or not places.shape[0]:
        raise ValueError(
            f"interp(): xp and fp must be vectors of one length that is not 0, not of shapes {places.shape} and "
            f"{values.shape}{called()}"
        )
    if period is not None:
        if not period:
            raise ValueError(f"interp(): period must not be 0{called()}")
        x, places, left, right = remainder(x, abs(period)), remainder(places, abs(period)), None, None
        order = argsort(places.detach())
        places, values = take(places, order, axis=0), take(values, order, axis=0)
        places = concat([_part(places, 0, -1, None) - abs(period), places, _part(places, 0, 0, 1) + abs(period)])
        values = concat([_part(values, 0, -1, None), values, _part(values, 0, 0, 1)])
    flat, places = alike(reshape(x, (-1,)), places)
    n = places.shape[0]
    lowest, highest = getitem(places, 0), getitem(places, n - 1)
    if n == 1:
        found = broadcast_to(getitem(values, (0,)), flat.shape)
    else:
        # the interval of each point: the first or last one if it lies outside
        inner = _part(places.detach(), 0, 1, -1)
        below = searchsorted(inner, flat.detach(), side="right")
        x0, x1, f0, f1 = (take(v, below + i, axis=0) for v in (places, values) for i in (0, 1))
        inside = (flat >= lowest) & (flat <= highest)
        step = where(inside, (flat - x0) / (x1 - x0), 0.0)
        found = f0 + step * (f1 - f0)
        found = where(step == 1, f1 + (step - 1) * (f1 - f0), found)  # the last point, exactly
    found = where(flat < lowest, getitem(values, 0) if left is None else left, found)
    found = where(flat > highest, getitem(values, n - 1) if right is None else right, found)
    return reshape(where(isnan(flat), flat, found), x.shape)


def polyval(p: Any, x: Any, /) -> Tensor:
    """A polynomial at points, by Horner's rule.

    p: The coefficients, a vector, beginning with the highest power.
    x : Tensor or scalar
        The points, any shape.
    Returns: Of the shape of `x`.
    ValueError: If `p` is not a vector. As ``numpy.polyval``. Differentiable in both.

    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> ag.extra.polyval([1.0, 0.0, 5.0], x).backward()
    >>> x.grad
    tensor(4.)
    """
    p, x = as_operands(p, x)
    if p.ndim != 1:
        raise ValueError(f"polyval(): the coefficients must be a vector, not of shape {p.shape}{called()}")
    found: Tensor = x * 0
    for coefficient in unstack(p):
        found = add(found * x, coefficient)
    return found


# -- convolution ------------------------------------------------------------------------------------------------------


def _full_kernel(xp: Any, x1: Any, x2: Any, /) -> Any:
    """Return the products of the shorter operand's elements with the longer one, each at its position."""
    x1, x2 = promote(xp, x1, x2)
    if x1.shape[0] < x2.shape[0]:
        x1, x2 = x2, x1
    n, m = x1.shape[0], x2.shape[0]
    room = xp.zeros_like(x1[:1])
    around = xp.concat([xp.broadcast_to(room, (m - 1,)), x1, xp.broadcast_to(room, (m - 1,))])
    return _sliding(around, xp.flip(x2), n + m - 1)


def _valid_kernel(xp: Any, x: Any, weights: Any, /) -> Any:
    x, weights = promote(xp, x, weights)
    n, m = x.shape[0] - weights.shape[0] + 1, weights.shape[0]
    if m <= n:
        return _sliding(x, weights, n)
    parts = [xp.sum(x[i : i + m] * weights) for i in range(n)]
    return xp.stack(parts)


def _sliding(x: Any, weights: Any, n: int) -> Any:
    total = None
    for i in range(weights.shape[0]):
        term = x[i : i + n] * weights[i]
        total = term if total is None else total + term
    return total


@multilinear(
    name="extra.convolve_full",
    x1=lambda xp, g, x2: xp.extra.correlate_valid(g, _conj(xp, x2)),
    x2=lambda xp, g, x1: xp.extra.correlate_valid(g, _conj(xp, x1)),
    kernel=_full_kernel,
    memory="fresh",
)
def convolve_full(x1: Any, x2: Any, /) -> Tensor:
    """The convolution of two vectors: ``y[k] = sum over i + j = k of x1[i] x2[j]``.

    x1, x2: Vectors, not empty.
    Returns: A vector of the sum of both lengths less one.
    """


@multilinear(
    name="extra.correlate_valid",
    x=lambda xp, g, weights: xp.extra.convolve_full(g, _conj(xp, weights)),
    weights=lambda xp, g, x: xp.extra.correlate_valid(_conj(xp, x), g),
    kernel=_valid_kernel,
    memory="fresh",
)
def correlate_valid(x: Any, weights: Any, /) -> Tensor:
    """Weighted sums of all windows of a vector: ``y[k] = sum over j of x[k + j] weights[j]``.

    x, weights: Vectors; the weights are not longer than `x`, nor empty.
    Returns: A vector of the length of `x` less that of the weights plus one.
    """


def _vectors(name: str, x1: Any, x2: Any, mode: str) -> tuple[Tensor, Tensor]:
    x1, x2 = as_operands(x1, x2)
    if x1.ndim != 1 or x2.ndim != 1 or not x1.shape[0] or not x2.shape[0]:
        raise ValueError(
            f"{name}() takes two vectors that are not empty, not operands of shapes {x1.shape} and {x2.shape}{called()}"
        )
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}(): mode must be full, same or valid, not {mode!r}{called()}")
    if kind_of(x1) == kind_of(x2) == "int":
        return x1, x2
    return _floating(x1), _floating(x2)


def convolve(x1: Any, x2: Any, /, mode: str = "full") -> Tensor:
    """Convolution of two vectors.

    x1, x2: Vectors of lengths n and m.
    mode : {"full", "same", "valid"}, optional
        ``full``: all n + m - 1 elements. ``same``: max(n, m) in the middle. ``valid``: the max(n, m) - min(n, m) + 1
        for which the two overlap wholly.
    Returns: A vector.
    ValueError: If an operand is not a vector or is empty, or the mode is unknown.
    As ``numpy.convolve``, by n times m products. Its derivatives are convolutions and correlations.

    >>> ag.extra.convolve(ag.tensor([1.0, 2.0, 3.0]), ag.tensor([0.0, 1.0, 0.5]))
    tensor([0.0000, 1.0000, 2.5000, 4.0000, 1.5000])
    """
    x1, x2 = _vectors("convolve", x1, x2, mode)
    if x1.shape[0] < x2.shape[0]:
        x1, x2 = x2, x1
    if mode == "valid":
        return correlate_valid(x1, flip(x2))
    found = convolve_full(x1, x2)
    if mode == "full":
        return found
    start = (x2.shape[0] - 1) // 2
    return getitem(found, slice(start, start + x1.shape[0]))


def correlate(x1: Any, x2: Any, /, mode: str = "valid") -> Tensor:
    """Cross-correlation of two vectors.

    x1, x2: Vectors; the second is conjugated.
    mode : {"valid", "same", "full"}, optional
        As for `convolve`.
    Returns: A vector: ``sum over n of x1[n + k] * conj(x2[n])`` for the shifts k of the mode, in ascending order.
    ValueError: If an operand is not a vector or is empty, or the mode is unknown.
    As ``numpy.correlate``, by n times m products. Its derivatives are convolutions and correlations.

    >>> ag.extra.correlate(ag.tensor([1.0, 2.0, 3.0]), ag.tensor([0.0, 1.0, 0.5]), "same")
    tensor([2.0000, 3.5000, 3.0000])
    """
    x1, x2 = _vectors("correlate", x1, x2, mode)
    x2 = conj(x2) if x2._spec.is_complex else x2
    n, m = x1.shape[0], x2.shape[0]
    if mode == "valid":
        return correlate_valid(x1, x2) if n >= m else flip(correlate_valid(x2, x1))
    found = convolve_full(x1, flip(x2))
    if mode == "full":
        return found
    start = (m - 1) // 2 if n >= m else n // 2
    return getitem(found, slice(start, start + max(n, m)))
