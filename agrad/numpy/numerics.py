"""NumPy's numerical analysis: differences, integrals, interpolation, convolution, covariance, polynomials."""

from __future__ import annotations

import math
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import (
    NO_VALUE,
    axis_of,
    common,
    flat,
    floating,
    floatings,
    given,
    kind_of,
    native,
    part,
    promoted,
    refused,
    static,
)
from agrad.numpy.linalg import lstsq
from agrad.numpy.making import asarray as as_array
from agrad.numpy.making import linspace
from agrad.numpy.table import public
from agrad.ops import creation, elementwise, extra, linalg, manipulation, searching, solving, statistical, utility
from agrad.ops.data_type import astype, finfo
from agrad.ops.eigenvalues import eigvals
from agrad.ops.searching import where as choose


@public()
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = NO_VALUE, append: Any = NO_VALUE) -> Tensor:
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}{errors.called()}")
    x = as_operand(a)
    if not x.ndim:
        raise ValueError(f"diff requires input that is at least one dimensional{errors.called()}")
    axis = axis_of(axis, x.ndim)
    ends = [_end(x, end, axis) if given(end) else None for end in (prepend, append)]
    known = iter(common(x, *(e for e in ends if e is not None)))
    x = next(known)
    first, last = (None if e is None else next(known) for e in ends)
    if kind_of(x) != "bool":
        return utility.diff(x, axis=axis, n=n, prepend=first, append=last)
    x = manipulation.concat([v for v in (first, x, last) if v is not None], axis=axis)
    for _ in range(n):
        x = x[part(axis, slice(1, None))] != x[part(axis, slice(0, -1))]
    return x


def _end(x: Tensor, value: Any, axis: int) -> Tensor:
    """Return a value to put at an end of an axis: a number becomes one element."""
    end = as_operand(value, x)
    if end.ndim:
        return end
    return manipulation.broadcast_to(end, tuple(1 if i == axis else n for i, n in enumerate(x.shape)))


@public()
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    x = flat(as_operand(ary))
    head = [] if to_begin is None else [flat(as_operand(to_begin, x))]
    tail = [] if to_end is None else [flat(as_operand(to_end, x))]
    return manipulation.concat(list(common(*head, x[1:] - x[:-1], *tail)))


def _check_numbers(name: str, x: Any) -> None:
    """Refuse booleans, which NumPy's differences do not accept; their sum would be a logical or."""
    if kind_of(as_operand(x)) == "bool":
        raise refused(f"numpy.{name} of truth values", "convert them with np.astype")


@public()
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    _check_numbers("gradient", f)
    return extra.gradient(floating(f), *varargs, axis=axis, edge_order=edge_order)


@public()
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    _check_numbers("trapezoid", y)
    values = floating(y)
    return extra.trapezoid(values, None if x is None else floating(x), dx=dx, axis=axis_of(axis, values.ndim))


@public()
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    x, xp, fp = (astype(v, promoted(v, "float64"), copy=False) for v in as_operands(x, xp, fp))  # as in NumPy
    if x._spec.is_complex or xp._spec.is_complex:
        raise TypeError(f"interp() takes real numbers as places, not complex ones{errors.called()}")
    return extra.interp(x, xp, fp, left=left, right=right, period=period)


@public()
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Tensor:
    return extra.unwrap(as_operand(p), discont=discont, axis=axis, period=period)


def _vectors(a: Any, v: Any) -> tuple[Tensor, Tensor]:
    x, y = (manipulation.reshape(t, (1,)) if not t.ndim else t for t in common(a, v))
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"object too deep for desired array{errors.called()}")
    return x, y


@public()
def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    return extra.convolve(*_vectors(a, v), _mode(mode))


@public()
def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    return extra.correlate(*_vectors(a, v), _mode(mode))


def _mode(mode: Any) -> str:
    names = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}
    return str(names.get(mode, mode))


@public()
def vander(x: Any, N: Any = None, increasing: bool = False) -> Tensor:
    x = as_operand(x)
    return extra.vander(astype(x, promoted(x, "int64"), copy=False), N, increasing=increasing)


# -- between variables -------------------------------------------------------------------------------------------------


def _rows(x: Tensor) -> Tensor:
    return manipulation.reshape(x, (1,) * (2 - x.ndim) + x.shape)


def _observations(x: Any, y: Any, rowvar: bool, dtype: Any) -> Tensor:
    """Return variables as rows."""
    m = floating(x)
    if m.ndim > 2:
        raise ValueError(f"m has more than 2 dimensions{errors.called()}")
    rows = _rows(m)
    rows = rows if rowvar or (m.ndim == 1) else linalg.matrix_transpose(rows)
    if not rowvar and m.ndim == 2 and m.shape[0] == 1:
        rows = m
    if y is not None:
        others = floating(y)
        if others.ndim > 2:
            raise ValueError(f"y has more than 2 dimensions{errors.called()}")
        others = _rows(others)
        others = others if rowvar or others.shape[0] == 1 else linalg.matrix_transpose(others)
        rows = manipulation.concat(list(common(rows, others)), axis=0)
    return astype(rows, promoted(rows, "float64") if dtype is None else native(dtype), copy=False)


@public()
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Tensor:  # fmt: skip
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"ddof must be integer{errors.called()}")
    correction = (0 if bias else 1) if ddof is None else ddof
    rows = _observations(m, y, rowvar, dtype)
    found = extra.cov(rows, correction=correction, fweights=fweights, aweights=aweights)
    if fweights is aweights is None:
        return found
    return astype(found, promoted(found, "float64"), copy=False)  # the dtype of the weights


@public()
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    return extra.corrcoef(_observations(x, y, rowvar, dtype))


# -- polynomials, highest power first ----------------------------------------------------------------------------------


def _coefficients(p: Any) -> Tensor:
    x = as_operand(p)
    return manipulation.reshape(x, (-1,)) if x.ndim != 1 else x


@public()
def polyval(p: Any, x: Any) -> Tensor:
    return extra.polyval(*common(_coefficients(p), x))


def _aligned(a1: Any, a2: Any) -> tuple[Tensor, Tensor]:
    """Return two polynomials of equal length."""
    x, y = (v if v.ndim else manipulation.reshape(v, (1,)) for v in common(a1, a2))
    n = max(x.shape[0], y.shape[0])
    if x.shape[0] == y.shape[0]:
        return x, y
    return tuple(  # type: ignore[return-value]
        manipulation.concat([creation.zeros((n - v.shape[0],), dtype=v.dtype, device=v.device), v]) for v in (x, y)
    )


@public()
def polyadd(a1: Any, a2: Any) -> Tensor:
    x, y = _aligned(a1, a2)
    return x + y


@public()
def polysub(a1: Any, a2: Any) -> Tensor:
    x, y = _aligned(a1, a2)
    return x - y


@public()
def polymul(a1: Any, a2: Any) -> Tensor:
    x, y = common(_coefficients(a1), _coefficients(a2))
    return extra.convolve(x, y)


@public()
def polyder(p: Any, m: int = 1) -> Tensor:
    if m < 0:
        raise ValueError(f"Order of derivative must be positive (see polyint){errors.called()}")
    x = _coefficients(p)
    for _ in range(m):
        n = x.shape[0] - 1
        powers = creation.arange(n, 0, -1, device=x.device)
        x = elementwise.multiply(*common(x[:n], powers))
    return x


@public()
def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    if m < 0:
        raise ValueError(f"Order of integral must be positive (see polyder){errors.called()}")
    x = floating(_coefficients(p))
    constants = [0.0] * m if k is None else k
    constants = flat(as_operand(constants, x))
    if constants.shape[0] == 1 and m > 1:
        constants = manipulation.broadcast_to(constants, (m,))
    if constants.shape[0] < m:
        raise ValueError(f"k must be a scalar or a rank-1 array of length 1 or >m.{errors.called()}")
    for i in range(m):
        n = x.shape[0]
        powers = creation.arange(n, 0, -1, device=x.device)
        x = manipulation.concat(list(common(elementwise.divide(*common(x, powers)), constants[i : i + 1])))
    return x


@public()
def polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """Uses synthetic division; checks for leading coefficients that are 0."""
    x, y = floatings(_coefficients(u), _coefficients(v))
    x, y = common(x, y)
    m, n = x.shape[0] - 1, y.shape[0] - 1
    found = []
    for k in range(m - n + 1):
        step = x[k] / y[0]
        found.append(step)
        row = step * y
        x = manipulation.concat([x[:k], x[k : k + n + 1] - row, x[k + n + 1 :]])
    quotient = manipulation.stack(found) if found else creation.zeros((1,), dtype=x.dtype, device=x.device)
    values = x.detach().tolist()
    start = 0
    while start < len(values) - 1 and abs(values[start]) <= 1e-14:
        start += 1
    return quotient, x[start:]


@public()
def poly(seq_of_zeros: Any) -> Tensor:
    """For a matrix, the characteristic polynomial."""
    x = floating(seq_of_zeros)
    square = x.ndim == 2 and x.shape[0] == x.shape[1] and x.shape[0] != 0
    if not square and x.ndim > 1:
        raise ValueError(f"input must be 1d or non-empty square 2d array.{errors.called()}")
    was_real = not x._spec.is_complex
    roots = eigvals(x) if square else manipulation.reshape(x, (-1,))
    found = creation.ones((1,), dtype=roots.dtype, device=roots.device)
    one = found
    for i in range(roots.shape[0]):
        found = extra.convolve(found, manipulation.concat([one, -roots[i : i + 1]]))
    return elementwise.real(found) if square and was_real and found._spec.is_complex else found


@public()
def roots(p: Any) -> Tensor:
    """The eigenvalues of the companion matrix; checks for coefficients that are 0."""
    x = floating(_coefficients(p))
    values = x.detach().tolist()
    there = [i for i, v in enumerate(values) if v != 0]
    if not there:
        return creation.zeros((0,), device=x.device)
    trailing = len(values) - there[-1] - 1
    x = x[there[0] : there[-1] + 1]
    n = x.shape[0] - 1
    found = creation.zeros((0,), dtype=x.dtype, device=x.device)
    if n:
        top = manipulation.expand_dims(-x[1:] / x[0], axis=0)
        below = creation.eye(n - 1, n, dtype=x.dtype, device=x.device)
        found = eigvals(manipulation.concat([top, below], axis=0))
    zeros = creation.zeros((trailing,), dtype=found.dtype, device=x.device)
    return manipulation.concat([found, zeros]) if trailing else found


@public()
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """Least squares over powers; differentiable in the points, the values and the weights."""
    places, values = common(*floatings(x, y))
    powers = static(deg)
    degree = powers if isinstance(powers, int) else max(powers)
    if degree < 0:
        raise ValueError(f"expected deg >= 0{errors.called()}")
    if places.ndim != 1:
        raise TypeError(f"expected 1D vector for x{errors.called()}")
    left = extra.vander(places, degree + 1)
    if not isinstance(powers, int):
        left = left[:, [degree - p for p in sorted(powers)]]
    right = values
    if w is not None:
        weights = floating(w)
        left = left * manipulation.expand_dims(weights, axis=1)
        right = right * (manipulation.expand_dims(weights, axis=1) if right.ndim == 2 else weights)
    scale = elementwise.sqrt(statistical.sum(left * left, axis=0))
    cut = rcond if rcond is not None else places.shape[0] * finfo(places.dtype).eps
    found, residuals, rank, sizes = lstsq(left / scale, right, cut)
    column = manipulation.expand_dims(scale, axis=1) if found.ndim == 2 else scale
    found = found / column
    if full:
        return found, residuals, rank, sizes, cut
    if not cov:
        return found
    scaled = left / scale
    base = solving.inv(linalg.matmul(linalg.matrix_transpose(scaled), scaled))
    base = base / (manipulation.expand_dims(scale, axis=1) * scale)
    if cov == "unscaled":
        return found, base
    free = places.shape[0] - left.shape[1]
    if free <= 0:
        raise ValueError(f"the number of data points must exceed order to scale the covariance matrix{errors.called()}")
    share = residuals / free
    return found, (base * share if values.ndim == 1 else manipulation.expand_dims(base, axis=2) * share)


# -- counting ----------------------------------------------------------------------------------------------------------


@public()
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """Differentiable in the weights; the number of bins is computed from the values."""
    x = as_operand(x)
    w = None if weights is None else floating(as_operand(weights, x))
    if w is not None and w._spec.is_complex:
        raise TypeError(f"bincount() takes real numbers as weights, not {w.dtype}{errors.called()}")
    length = None
    if x._spec.backend.is_lazy:
        length = max(minlength, int(statistical.max(x).item()) + 1 if x.size else 0)
    return extra.bincount(x, w, minlength=minlength, length=length)


def _edges(x: Tensor, bins: Any, range: Any) -> Tensor:
    """Return the edges of bins: the given ones, or equidistant ones between the ends, differentiable as these are."""
    if x._spec.is_complex:
        raise refused("numpy.histogram of complex numbers", "take their real and imaginary parts")
    if isinstance(bins, str):
        raise refused(f"numpy.histogram with bins={bins!r}", "give their number or their edges")
    if not isinstance(bins, int) and (given_edges := as_array(bins)).ndim:
        if given_edges.ndim > 1:
            raise ValueError(f"`bins` must be 1d, when an array{errors.called()}")
        steps = given_edges.detach()
        if bool(statistical.any(steps[1:] < steps[:-1])):
            raise ValueError(f"`bins` must increase monotonically, when an array{errors.called()}")
        return given_edges if given_edges.device == x.device else given_edges.to_device(x.device)
    number = static(bins)
    if number < 1:
        raise ValueError(f"`bins` must be positive, when an integer{errors.called()}")
    low, high = list(range) if range is not None else _extent(x)
    first, last = (end.detach().item() if isinstance(end, Tensor) else static(end) for end in (low, high))
    if not (math.isfinite(first) and math.isfinite(last)):
        raise ValueError(f"autodetected range of [{first}, {last}] is not finite{errors.called()}")
    if first > last:
        raise ValueError(f"max must be larger than min in range parameter.{errors.called()}")
    dtype = x.dtype if x._spec.inexact else None
    widening = 0.5 if first == last else 0
    if any([isinstance(end, Tensor) and end._is_followed() for end in (low, high)]):  # noqa: C419
        return linspace(low - widening, high + widening, number + 1, dtype=dtype)
    return creation.linspace(first - widening, last + widening, number + 1, dtype=dtype, device=x.device)


def _extent(x: Tensor) -> tuple[Any, Any]:
    """Return the smallest and the largest element; 0 and 1 if there is none."""
    return (statistical.min(x), statistical.max(x)) if x.size else (0, 1)


def _bins(x: Tensor, edges: Tensor) -> Tensor:
    """Return the bin of each element, -1 for none; the last bin includes its right edge."""
    x, edges = common(x.detach(), edges.detach())
    n = edges.shape[0] - 1
    found = searching.searchsorted(edges, x, side="right") - 1
    found = choose(x == edges[n], n - 1, found)
    return choose((found < 0) | (found >= n) | (x > edges[n]), -1, found)


def _counted(places: Tensor, weights: Any, n: int) -> Tensor:
    """Return the total in each bin; elements outside are counted in a first bin and dropped."""
    w = None if weights is None else flat(as_operand(weights, places))
    if w is not None and kind_of(w) == "bool":
        raise refused("numpy.histogram with truth values as weights=", "convert them with np.astype")
    return extra.bincount(places + 1, w, length=n + 1)[1:]


@public()
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """Linear in the given edges or range, or in the smallest and the largest value, which are computed."""
    return _edges(flat(as_operand(a)), bins, range)


@public()
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Differentiable in the weights and the edges; counts are step functions of the values, which are computed."""
    x = flat(as_operand(a))
    edges = _edges(x, bins, range)
    found = _counted(_bins(x, edges), weights, edges.shape[0] - 1)
    if density:
        widths = edges[1:] - edges[:-1]
        found = floating(found) / widths / statistical.sum(floating(found))
    return found, edges


@public()
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Differentiable in the weights and the edges; counts are step functions of the values, which are computed."""
    if isinstance(sample, Tensor) or hasattr(sample, "shape"):
        x = as_operand(sample)
        columns = list(manipulation.unstack(x, axis=1)) if x.ndim == 2 else [flat(x)]
    else:
        columns = [flat(v) for v in as_operands(*sample)]
    each = list(bins) if isinstance(bins, list | tuple) else [bins] * len(columns)
    if len(each) != len(columns):
        raise ValueError(f"The dimension of bins must be equal to the dimension of the sample x.{errors.called()}")
    ranges = [None] * len(columns) if range is None else list(range)
    edges = [_edges(x, b, r) for x, b, r in zip(columns, each, ranges, strict=True)]
    shape = tuple(e.shape[0] - 1 for e in edges)
    places: Any = 0
    outside: Any = None
    for x, e, n in zip(columns, edges, shape, strict=True):
        place = _bins(x, e)
        places = places * n + place
        outside = place < 0 if outside is None else outside | (place < 0)
    found = manipulation.reshape(_counted(choose(outside, -1, places), weights, math.prod(shape)), shape)
    if found._spec.is_complex:
        raise refused("numpy.histogramdd of complex weights", "take their real and imaginary parts")
    found = astype(found, "float64", copy=False)
    if density:
        total = statistical.sum(found)
        for i, e in enumerate(edges):
            widths = manipulation.reshape(e[1:] - e[:-1], tuple(-1 if i == j else 1 for j, _ in enumerate(shape)))
            found = found / widths
        found = found / total
    return found, tuple(edges)


@public()
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, ...]:
    """Differentiable in the weights and the edges; counts are step functions of the values, which are computed."""
    each = list(bins) if getattr(bins, "ndim", isinstance(bins, list | tuple)) and len(bins) == 2 else [bins, bins]
    found, edges = histogramdd([x, y], each, range, density, weights)
    return found, *edges
