"""Interpolation: linear and cubic, in one and several variables; differentiable with respect to points, values and knots.

Everything consists of agrad's functions: cubic pieces by their slopes at the knots, which for splines come from a
linear system (de Boor, A practical guide to splines, 1978, chapter IV).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.core.errors import UnsupportedOp, called
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray, eye, zeros_like
from agrad.ops.data_type import astype
from agrad.ops.docs import refer
from agrad.ops.elementwise import abs as absolute
from agrad.ops.elementwise import clip, floor, isfinite, sign
from agrad.ops.manipulation import broadcast_to, concat, moveaxis, reshape, roll, stack
from agrad.ops.searching import argsort, searchsorted, take, where
from agrad.ops.solving import solve
from agrad.ops.statistical import all as every
from agrad.ops.statistical import any as some
from agrad.ops.statistical import cumulative_sum
from agrad.scipy.linalg import solve_banded

__all__ = [
    "CubicHermiteSpline",
    "CubicSpline",
    "PchipInterpolator",
    "RegularGridInterpolator",
    "interp1d",
    "make_interp_spline",
]


def _floating(x: Any, like: Any = None) -> Tensor:
    """Return numbers as a floating-point tensor, on the device of another one."""
    device = like.device if isinstance(like, Tensor) and not isinstance(x, Tensor) else None
    made = asarray(x, device=device)
    return made if made._spec.inexact else astype(made, "float64")


def _knots(x: Any, y: Any, axis: int, what: str, least: int) -> tuple[Tensor, Tensor]:
    """Return knots, and values with the interpolated axis first; refuse shapes that do not fit."""
    tensors = [t for t in (x, y) if isinstance(t, Tensor)]
    x, y = (_floating(t, tensors[0] if tensors else None) for t in (x, y))
    for t in (x, y):
        if not t._spec.backend.is_batched and t._spec.backend.is_lazy:
            raise UnsupportedOp(
                f"scipy.interpolate.{what}",
                t._spec.backend.name,
                "knots are looked up by value: compute() them; places may be lazy",
            )
    if x.ndim != 1:
        raise ValueError(f"`x` must be 1-dimensional.{called()}")
    if not -y.ndim <= axis < y.ndim:
        raise ValueError(f"axis {axis} is out of bounds for values of {y.ndim} axes{called()}")
    y = moveaxis(y, axis, 0)
    if y.shape[0] != x.shape[0]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`{called()}")
    if x.shape[0] < least:
        raise ValueError(f"`x` must contain at least {least} elements.{called()}")
    if not x._spec.backend.is_batched and not every(x[1:] > x[:-1]):
        raise ValueError(f"`x` must be strictly increasing sequence.{called()}")
    return x, y


def _places(x: Any, knots: Tensor) -> tuple[Tensor, Tensor]:
    """Return points as a vector, and the interval of each; points beyond the knots get the first or last one."""
    flat = reshape(x, (-1,))
    return flat, clip(searchsorted(knots, flat, side="right") - 1, 0, knots.shape[0] - 2)


def _shaped(found: Tensor, places: Tensor, axis: int, ndim: int) -> Tensor:
    """Return interpolated values, points along the first axis, with the shape of the points in place of the axis."""
    found = reshape(found, (*places.shape, *found.shape[1:]))
    axis %= ndim
    first = tuple(range(places.ndim))
    return moveaxis(found, first, tuple(axis + i for i in first)) if axis and first else found


def _column(t: Tensor, ndim: int) -> Tensor:
    """Return a vector with this many axes, its elements along the first."""
    return reshape(t, (-1, *(1 for _ in range(ndim - 1))))


class interp1d:  # noqa: N801 (SciPy's name)
    """Interpolate between values at knots, piecewise linearly or by a cubic spline; differentiable with respect to points, values and knots.

    Knots are sorted if necessary: `copy` and `assume_sorted` do not exist. Raises NotImplementedError if `kind` is
    neither "linear" nor "cubic".

    >>> import agrad as ag
    >>> from agrad.scipy.interpolate import interp1d
    >>> y = ag.tensor([0.0, 10.0, 5.0], requires_grad=True)
    >>> found = interp1d([0.0, 1.0, 2.0], y)(1.25)
    >>> found.detach(), ag.grad(found, y)
    (tensor(8.7500), (tensor([0.0000, 0.7500, 0.2500]),))
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: str = "linear",
        axis: int = -1,
        *,
        bounds_error: bool | None = None,
        fill_value: Any = float("nan"),
    ) -> None:
        if kind not in ("linear", "cubic"):
            raise NotImplementedError(f"interp1d: kind is 'linear' or 'cubic' here, not {kind!r}{called()}")
        x = _floating(x, y)
        order = argsort(x)
        y = take(_floating(y, x), order, axis=axis)
        self.x: Tensor
        self.x, self._y = _knots(take(x, order, axis=0), y, axis, "interp1d", 2 if kind == "linear" else 4)
        self.axis: int = axis
        self._ndim = self._y.ndim
        self._extends = isinstance(fill_value, str) and fill_value == "extrapolate"
        self._fill = fill_value if isinstance(fill_value, tuple) else (fill_value, fill_value)
        told = self._extends or fill_value == fill_value  # noqa: PLR0124 (NaN is what differs from itself)
        self._refuses = not told if bounds_error is None else bounds_error
        if self._extends and bounds_error:
            raise ValueError(f"Cannot extrapolate and raise at the same time.{called()}")
        self._spline = CubicSpline(self.x, self._y, extrapolate=True) if kind == "cubic" else None

    def __call__(self, x: Any) -> Tensor:
        """Return the values at points."""
        places = _floating(x, self.x)
        flat = reshape(places, (-1,))
        found = _linear(self.x, self._y, flat) if self._spline is None else self._spline(flat)
        below, above = flat < self.x[0], flat > self.x[-1]
        if self._refuses and bool(some(below)):
            raise ValueError(
                f"A value ({float(min(flat.tolist()))}) in x_new is below the interpolation range's minimum value"
                f" ({float(self.x[0])}).{called()}"
            )
        if self._refuses and bool(some(above)):
            raise ValueError(
                f"A value ({float(max(flat.tolist()))}) in x_new is above the interpolation range's maximum value"
                f" ({float(self.x[-1])}).{called()}"
            )
        if not self._extends and not self._refuses:
            low, high = self._fill
            found = where(_column(below, self._ndim), low, where(_column(above, self._ndim), high, found))
        return _shaped(found, places, self.axis, self._ndim)


def _linear(knots: Tensor, values: Tensor, places: Tensor) -> Tensor:
    flat, at = _places(places, knots)
    left = take(knots, at, axis=0)
    share = _column((flat - left) / (take(knots, at + 1, axis=0) - left), values.ndim)
    low, high = take(values, at, axis=0), take(values, at + 1, axis=0)
    return low + share * (high - low)


class CubicHermiteSpline:
    """Interpolate by cubic pieces with given values and slopes at the knots; differentiable with respect to all of them, and to points.

    >>> import agrad as ag
    >>> from agrad.scipy.interpolate import CubicHermiteSpline
    >>> slopes = ag.tensor([0.0, 4.0], requires_grad=True)
    >>> found = CubicHermiteSpline([0.0, 2.0], [0.0, 4.0], slopes)(1.0)
    >>> found.detach(), ag.grad(found, slopes)
    (tensor(1.), (tensor([ 0.2500, -0.2500]),))
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, values = _knots(x, y, axis, "CubicHermiteSpline", 2)
        _, slopes = _knots(x, dydx, axis, "CubicHermiteSpline", 2)
        if values.shape != slopes.shape:
            raise ValueError(f"The shapes of `y` and `dydx` must be identical.{called()}")
        self._join(x, values, slopes, axis, extrapolate)

    def _join(self, x: Tensor, values: Tensor, slopes: Tensor, axis: int, extrapolate: Any) -> None:
        """Build the pieces from values and slopes with the interpolated axis first."""
        self.x: Tensor = x
        self.axis: int = axis
        self._ndim = values.ndim
        self.extrapolate = True if extrapolate is None else extrapolate
        steps = _column(x[1:] - x[:-1], values.ndim)
        rises = (values[1:, ...] - values[:-1, ...]) / steps
        bend = (slopes[:-1, ...] + slopes[1:, ...] - 2 * rises) / steps
        self.c: Tensor = stack(
            [bend / steps, (rises - slopes[:-1, ...]) / steps - bend, slopes[:-1, ...], values[:-1, ...]]
        )

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Tensor:
        """Return the spline, or a derivative of it, at points."""
        places = _floating(x, self.x)
        return _shaped(
            self._at(places, nu, self.extrapolate if extrapolate is None else extrapolate),
            places,
            self.axis,
            self._ndim,
        )

    def derivative(self, nu: int = 1) -> Any:
        """Return a derivative of the spline: a function of points, not a spline."""
        return lambda x: self(x, nu)

    def antiderivative(self) -> Any:
        """Return the integral from the first knot on: a function of points, not a spline.

        It is NaN beyond the knots if the spline does not extrapolate or is periodic. `nu` does not exist.

        >>> from agrad.scipy.interpolate import CubicSpline
        >>> CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0]).antiderivative()([1.0, 3.0])  # of x^2
        tensor([0.3333, 9.0000])
        """
        before, further = self._before(), self.extrapolate != "periodic" and self.extrapolate

        def integral(x: Any) -> Tensor:
            places = _floating(x, self.x)
            return _shaped(self._at(places, -1, further, before), places, self.axis, self._ndim)

        return integral

    def integrate(self, a: Any, b: Any) -> Tensor:
        """Return the integral from one point to another.

        `extrapolate` does not exist: beyond the knots, the first and the last piece are extended.
        """
        before = self._before()
        low, high = (self._at(_floating(t, self.x), -1, True, before) for t in (a, b))
        return (high - low)[0, ...]

    def _before(self) -> Tensor:
        """Return the integrals from the first knot to each."""
        steps = _column(self.x[1:] - self.x[:-1], self._ndim)
        whole: Any = sum(self.c[3 - k, ...] * steps ** (k + 1) / (k + 1) for k in range(4))
        return concat([zeros_like(whole[:1, ...]), cumulative_sum(whole, axis=0)])

    def _at(self, places: Tensor, nu: int, extrapolate: Any, before: Tensor | None = None) -> Tensor:
        """Return a derivative at points, one row each; for order -1, with the integrals before each knot."""
        if extrapolate == "periodic":
            period = self.x[-1] - self.x[0]
            places = places - floor((places - self.x[0]) / period) * period
        flat, at = _places(places, self.x)
        distance = _column(flat - take(self.x, at, axis=0), self._ndim)
        found = None
        for power in range(3, -1, -1):  # Horner's scheme
            factor = 1.0
            for k in range(nu):
                factor *= power - k
            if nu < 0:
                factor = 1 / (power + 1)
            if factor:
                part = factor * take(self.c[3 - power, ...], at, axis=0)
                found = part if found is None else found * distance + part
        if found is None:
            found = zeros_like(take(self.c[3, ...], at, axis=0)) * distance
        elif nu < 0:
            assert before is not None
            found = found * distance + take(before, at, axis=0)
        if not extrapolate:
            outside = (flat < self.x[0]) | (flat > self.x[-1])
            found = where(_column(outside, self._ndim), float("nan"), found)
        return found


class CubicSpline(CubicHermiteSpline):
    """Interpolate by a cubic spline, which has two continuous derivatives; differentiable with respect to points, values and knots.

    >>> import agrad as ag
    >>> from agrad.scipy.interpolate import CubicSpline
    >>> y = ag.tensor([0.0, 1.0, 0.0, -1.0, 0.0], requires_grad=True)
    >>> spline = CubicSpline([0.0, 1.0, 2.0, 3.0, 4.0], y, bc_type="natural")
    >>> spline(0.5).detach(), spline(2.0, 1).detach()
    (tensor(0.6875), tensor(-1.5000))
    >>> ag.grad(spline(0.5), y)
    (tensor([ 0.3996,  0.7277, -0.1607,  0.0402, -0.0067]),)
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None) -> None:
        x, values = _knots(x, y, axis, "CubicSpline", 2)
        periodic = isinstance(bc_type, str) and bc_type == "periodic"
        if not values._spec.backend.is_batched:
            if not every(isfinite(values)):
                raise ValueError(f"`y` must contain only finite values.{called()}")
            if periodic and not _same_ends(values):
                raise ValueError(
                    f"The first and last `y` point along axis {axis} must be identical (within machine precision) when"
                    f" bc_type='periodic'.{called()}"
                )
        steps = _column(x[1:] - x[:-1], values.ndim)
        rises = (values[1:, ...] - values[:-1, ...]) / steps
        slopes = _periodic(steps, rises) if periodic else _slopes(steps, values, rises, _conditions(bc_type, rises))
        self._join(x, values, slopes, axis, "periodic" if periodic and extrapolate is None else extrapolate)


class PchipInterpolator(CubicHermiteSpline):
    """Interpolate by cubic pieces that are monotone where the values are, and have one continuous derivative.

    As functions of the values, the slopes have kinks where the data are level. Source: Fritsch and Butland, A method
    for constructing local monotone piecewise cubic interpolants, 1984; at the ends Moler, Numerical computing with
    MATLAB, 2004.

    >>> import agrad as ag
    >>> from agrad.scipy.interpolate import PchipInterpolator
    >>> y = ag.tensor([0.0, 0.0, 1.0, 1.0], requires_grad=True)
    >>> found = PchipInterpolator([0.0, 1.0, 2.0, 3.0], y)(1.5)
    >>> found.detach(), ag.grad(found, y)
    (tensor(0.5000), (tensor([0.0000, 0.5000, 0.5000, 0.0000]),))
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, values = _knots(x, y, axis, "PchipInterpolator", 2)
        if values._spec.is_complex:
            raise ValueError(f"`PchipInterpolator` only works with real values for `y`.{called()}")
        self._join(x, values, _monotone_slopes(_column(x[1:] - x[:-1], values.ndim), values), axis, extrapolate)


def _same_ends(values: Tensor) -> bool:
    first, last = values[0, ...], values[-1, ...]
    return bool(every(absolute(first - last) <= 1e-15 + 1e-15 * absolute(last)))


def _conditions(bc_type: Any, rises: Tensor) -> list[tuple[str, Any]]:
    """Return for both ends "not-a-knot", "first" or "second", and the value of that derivative."""
    both = (bc_type, bc_type) if isinstance(bc_type, str) else bc_type
    if not isinstance(both, tuple | list) or len(both) != 2:
        raise ValueError(f"`bc_type` must contain 2 elements to specify start and end conditions.{called()}")
    found: list[tuple[str, Any]] = []
    for condition in both:
        if isinstance(condition, str):
            kinds = {"not-a-knot": ("not-a-knot", 0.0), "clamped": ("first", 0.0), "natural": ("second", 0.0)}
            if condition == "periodic":
                raise ValueError(
                    f"'periodic' `bc_type` is defined for both curve ends and cannot be used with others.{called()}"
                )
            if condition not in kinds:
                raise ValueError(f"bc_type={condition} is not allowed.{called()}")
            found.append(kinds[condition])
            continue
        order, value = condition
        if order not in (1, 2):
            raise ValueError(f"The specified derivative order must be 1 or 2.{called()}")
        value = _floating(value, rises)
        if value.ndim and value.shape != rises.shape[1:]:
            raise ValueError(f"`deriv_value` shape {value.shape} is not the expected one {rises.shape[1:]}.{called()}")
        found.append(("first" if order == 1 else "second", value))
    if rises.shape[0] == 1:  # two knots: a straight line satisfies conditions that would have no meaning
        found = [("first", rises[0, ...]) if kind == "not-a-knot" else (kind, value) for kind, value in found]
    return found


def _slopes(steps: Tensor, values: Tensor, rises: Tensor, conditions: Sequence[tuple[str, Any]]) -> Tensor:
    """Return the derivatives at the knots: those for which the second derivative is continuous."""
    n, h = values.shape[0], reshape(steps, (-1,))
    one = h[:1] * 0 + 1
    (start, first), (end, last) = conditions
    if n == 3 and start == end == "not-a-knot":  # a parabola
        diagonals = [
            concat([one * 0, one, h[:1]]),
            concat([one, 2 * (h[:1] + h[1:]), one]),
            concat([h[1:], one, one * 0]),
        ]
        middle = 3 * (steps[:1, ...] * rises[1:, ...] + steps[1:, ...] * rises[:1, ...])
        right = concat([2 * rises[:1, ...], middle, 2 * rises[1:, ...]])
        return _banded(diagonals, right)
    inner = 3 * (steps[1:, ...] * rises[:-1, ...] + steps[:-1, ...] * rises[1:, ...])
    like = values[:1, ...]

    def edge(kind: str, value: Any, near: int, far: int, sign: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the condition at an end: the factors of its slope and the next one, and the right side."""
        step, rise = steps[near : near + 1 or None, ...], rises[near : near + 1 or None, ...]
        own = h[near : near + 1 or None]
        if kind == "first":
            return one, one * 0, broadcast_to(value + 0 * like, like.shape)
        if kind == "second":
            return 2 * own, own, 3 * step * rise - sign * 0.5 * value * step**2
        step2, rise2 = steps[far : far + 1 or None, ...], rises[far : far + 1 or None, ...]
        own2 = h[far : far + 1 or None]
        reach = step + step2
        return own2, own + own2, ((step + 2 * reach) * step2 * rise + step**2 * rise2) / reach

    a, b, c = edge(start, first, 0, 1, 1.0)
    d, e, f = edge(end, last, -1, -2, -1.0)
    main = concat([a, 2 * (h[:-1] + h[1:]), d])
    upper = concat([one * 0, b, h[:-1]])
    lower = concat([h[1:], e, one * 0])
    return _banded([upper, main, lower], concat([c, inner, f]))


def _banded(diagonals: list[Tensor], right: Tensor) -> Tensor:
    """Solve a tridiagonal system, with its rows along the first axis."""
    flat = reshape(right, (right.shape[0], -1))
    matrix = stack(diagonals)
    matrix = matrix + 0j if flat._spec.is_complex and not matrix._spec.is_complex else matrix
    try:
        found = solve_banded((1, 1), matrix, flat)
    except UnsupportedOp:  # a backend without SciPy's solver of bands
        one = eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
        bands = [
            roll(matrix[1 - k, :] * one, -k, axis=0) for k in (1, 0, -1)
        ]  # the corners are not in the bands: they are 0
        found = solve(bands[0] + bands[1] + bands[2], flat)
    return reshape(found, right.shape)


def _periodic(steps: Tensor, rises: Tensor) -> Tensor:
    """Return the derivatives at the knots of a periodic spline."""
    h = reshape(steps, (-1,))
    one = eye(h.shape[0], dtype=h.dtype, device=h.device)
    back = roll(h, 1)
    matrix = reshape(2 * (h + back), (-1, 1)) * one
    matrix = matrix + reshape(h, (-1, 1)) * roll(one, -1, axis=1) + reshape(back, (-1, 1)) * roll(one, 1, axis=1)
    right = 3 * (steps * roll(rises, 1, axis=0) + roll(steps, 1, axis=0) * rises)
    flat = reshape(right, (right.shape[0], -1))
    matrix = matrix + 0j if flat._spec.is_complex and not matrix._spec.is_complex else matrix
    slopes = reshape(solve(matrix, flat), right.shape)
    return concat([slopes, slopes[:1, ...]])


def _monotone_slopes(steps: Tensor, values: Tensor) -> Tensor:
    """Return the derivatives at the knots of the interpolant that is monotone where the values are."""
    rises = (values[1:, ...] - values[:-1, ...]) / steps
    if values.shape[0] == 2:
        return concat([rises, rises])
    left, right = rises[:-1, ...], rises[1:, ...]
    turns = sign(left) * sign(right) <= 0
    near, far = 2 * steps[1:, ...] + steps[:-1, ...], steps[1:, ...] + 2 * steps[:-1, ...]
    mean = (near / where(turns, 1.0, left) + far / where(turns, 1.0, right)) / (near + far)
    inner = where(turns, 0.0, 1 / where(turns, 1.0, mean))
    first = _end_slope(steps[:1, ...], steps[1:2, ...], rises[:1, ...], rises[1:2, ...])
    last = _end_slope(steps[-1:, ...], steps[-2:-1, ...], rises[-1:, ...], rises[-2:-1, ...])
    return concat([first, inner, last])


def _end_slope(step: Tensor, step2: Tensor, rise: Tensor, rise2: Tensor) -> Tensor:
    """Return the slope at an end by the parabola through three values, limited so that the shape stays."""
    found = ((2 * step + step2) * rise - step * rise2) / (step + step2)
    steep = (sign(rise) != sign(rise2)) & (absolute(found) > 3 * absolute(rise))
    return where(sign(found) != sign(rise), 0.0, where(steep, 3 * rise, found))


def make_interp_spline(x: Any, y: Any, k: int = 3, *, bc_type: Any = None, axis: int = 0) -> Any:
    """Return the interpolating spline of a degree.

    It is a `CubicSpline`, or for degree 1 an `interp1d` that extrapolates. Raises NotImplementedError if the degree `k`
    is neither 1 nor 3. `t` and `check_finite` do not exist.

    >>> from agrad.scipy.interpolate import make_interp_spline
    >>> make_interp_spline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])(1.5)
    tensor(3.3750)
    """
    if k == 1:
        return interp1d(x, y, axis=axis, fill_value="extrapolate")
    if k != 3:
        raise NotImplementedError(f"make_interp_spline: the degree is 1 or 3 here, not {k}{called()}")
    return CubicSpline(x, y, axis, "not-a-knot" if bc_type is None else bc_type)


class RegularGridInterpolator:
    """Interpolate linearly between values on a grid, in any number of variables; differentiable with respect to points, values and the grid.

    Raises NotImplementedError if `method` is not "linear"; `solver` and `solver_args` do not exist.

    >>> import agrad as ag
    >>> from agrad.scipy.interpolate import RegularGridInterpolator
    >>> grid = [0.0, 1.0], [0.0, 2.0]
    >>> values = ag.tensor([[0.0, 2.0], [1.0, 3.0]], requires_grad=True)
    >>> place = ag.tensor([0.25, 1.0], requires_grad=True)
    >>> found = RegularGridInterpolator(grid, values)(place)
    >>> ag.grad(found, (place, values))
    (tensor([1., 1.]), tensor([[0.3750, 0.3750],
            [0.1250, 0.1250]]))
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: float | None = float("nan"),
    ) -> None:
        if method != "linear":
            raise NotImplementedError(f"RegularGridInterpolator: method is 'linear' here, not {method!r}{called()}")
        self.values: Tensor = _floating(values, next((p for p in points if isinstance(p, Tensor)), None))
        if len(points) > self.values.ndim:
            raise ValueError(
                f"There are {len(points)} point arrays, but values has {self.values.ndim} dimensions{called()}"
            )
        self.grid: tuple[Any, ...] = tuple(
            _knots(p, moveaxis(self.values, i, 0), 0, "RegularGridInterpolator", 2)[0] for i, p in enumerate(points)
        )
        self.bounds_error: bool = bounds_error
        self.fill_value: float | None = fill_value

    def __call__(self, xi: Any) -> Tensor:
        """Return the values at points. `method` and `nu` do not exist."""
        places = _floating(xi, self.values)
        count = len(self.grid)
        if not places.ndim or places.shape[-1] != count:
            raise ValueError(
                f"The requested sample points xi have dimension {places.shape[-1] if places.ndim else 1} but this"
                f" RegularGridInterpolator has dimension {count}{called()}"
            )
        rest = self.values.shape[count:]
        columns = [reshape(places[..., i], (-1,)) for i in range(count)]
        outside: Any = None
        ats, shares = [], []
        for i, (knots, column) in enumerate(zip(self.grid, columns, strict=True)):
            beyond = (column < knots[0]) | (column > knots[-1])
            if self.bounds_error and bool(some(beyond)):
                raise ValueError(f"One of the requested xi is out of bounds in dimension {i}{called()}")
            outside = beyond if outside is None else outside | beyond
            flat, at = _places(column, knots)
            left = take(knots, at, axis=0)
            ats.append(at)
            shares.append((flat - left) / (take(knots, at + 1, axis=0) - left))
        lengths = [k.shape[0] for k in self.grid]
        table = reshape(self.values, (-1, *rest))
        found: Any = 0.0
        for corner in itertools.product((0, 1), repeat=count):
            row: Any = 0
            weight: Any = 1.0
            for upper, at, share, length in zip(corner, ats, shares, lengths, strict=True):
                row = row * length + at + upper
                weight = weight * (share if upper else 1 - share)
            found = found + _column(weight, 1 + len(rest)) * take(table, row, axis=0)
        if not self.bounds_error and self.fill_value is not None:
            found = where(_column(outside, 1 + len(rest)), self.fill_value, found)
        return reshape(found, (*places.shape[:-1], *rest))


_LAZY = "Raises UnsupportedOp if the knots are lazy; places may be."
refer(globals(), "scipy.interpolate", {"x": _LAZY, "points": _LAZY})

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
