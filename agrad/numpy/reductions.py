"""NumPy's reductions and running sums: sums, extrema, moments, ranks, and their NaN-aware variants."""

from __future__ import annotations

import builtins
import math
from typing import Any

from agrad import dtypes
from agrad.core import errors
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import (
    NO_VALUE,
    at_least_1d,
    axes_of,
    begun,
    cast,
    count,
    dtype_of,
    flat,
    floating,
    given,
    into,
    kind_of,
    native,
    or_else,
    plain_axis,
    promoted,
    refused,
)  # fmt: skip
from agrad.numpy.table import STEP, public
from agrad.ops import elementwise, extra, searching, statistical
from agrad.ops.data_type import astype
from agrad.ops.extra.common import joined, without
from agrad.ops.extra.missing import mean_where, root, var_where, without_nan
from agrad.ops.extra.statistics import weights_of
from agrad.ops.manipulation import broadcast_to, expand_dims, reshape, stack
from agrad.ops.searching import where as choose


def _summed(x: Tensor, dtype: Any) -> Tensor:
    """Return an operand of sums: in the requested dtype, or with at least 64 bits if it holds integers."""
    if dtype is not None:
        return astype(x, native(dtype), copy=False)
    if x._spec.inexact:
        return x
    return astype(x, "uint64" if dtype_of(x).startswith("uint") else "int64", copy=False)


def _reduced(
    name: str, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any, *, empty: Any, dtype: Any = None
) -> Tensor:
    """Reduce, replacing elements that ``where=`` excludes with one that does not count."""
    x = as_operand(a)
    x = _summed(x, dtype) if name in ("sum", "prod") else x
    if given(initial) and initial is not None:
        initial = begun(initial, x)
    if given(where) and where is not True:
        if empty is None and not given(initial):
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, so to use a where mask one has to specify"
                f" 'initial'{errors.called()}"
            )
        start = initial if empty is None else empty
        if isinstance(start, int):
            start = astype(as_operand(start, x), x.dtype)
        x = choose(as_operand(where), x, start)
    if not x.ndim and axis in (0, -1):  # as NumPy's ufunc reductions allow
        axis = None
    axis, keepdims = plain_axis(axis), bool(or_else(keepdims, False))
    axes_of(axis, x.ndim)
    if empty is None and given(initial) and not count(x, axis):
        shape = statistical.sum(x, axis=axis, keepdims=keepdims).shape
        return into(out, broadcast_to(initial, shape))
    kept = {"dtype": x.dtype} if name in ("sum", "prod") and not x._spec.inexact else {}
    found = getattr(statistical, name)(x, axis=axis, keepdims=keepdims, **kept)
    if given(initial) and initial is not None:
        join = {"sum": elementwise.add, "prod": elementwise.multiply}.get(name)
        join = join or {"max": elementwise.maximum, "min": elementwise.minimum}[name]
        found = astype(join(found, initial), found.dtype, copy=False)
    return into(out, found)


@public()
def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    if dtype is out is None and keepdims is initial is where is NO_VALUE:  # the common case
        a = a if type(a) is Tensor else as_operand(a)
        spec = a._spec
        if spec.inexact and (axis is None or (type(axis) is int and -len(spec.shape) <= axis < len(spec.shape))):
            return statistical.sum(a, axis=axis)
    return _reduced("sum", a, axis, out, keepdims, initial, where, empty=0, dtype=dtype)


@public()
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    return _reduced("prod", a, axis, out, keepdims, initial, where, empty=1, dtype=dtype)


@public("max", "amax")
def max(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = NO_VALUE
) -> Tensor:
    return _reduced("max", a, axis, out, keepdims, initial, where, empty=None)


@public("min", "amin")
def min(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = NO_VALUE
) -> Tensor:
    return _reduced("min", a, axis, out, keepdims, initial, where, empty=None)


@public()
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE) -> Tensor:
    x = as_operand(a)
    return into(out, extra.ptp(x, axis=plain_axis(axis), keepdims=bool(or_else(keepdims, False))))


@public(status=STEP)
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE) -> Tensor:
    return _logical("all", a, axis, out, keepdims, where)


@public(status=STEP)
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE) -> Tensor:
    return _logical("any", a, axis, out, keepdims, where)


def _logical(name: str, a: Any, axis: Any, out: Any, keepdims: Any, where: Any) -> Tensor:
    x = as_operand(a)
    if given(where) and where is not True:
        x = choose(as_operand(where), x != 0 if kind_of(x) != "bool" else x, name == "all")
    return into(
        out, getattr(statistical, name)(x, axis=plain_axis(axis), keepdims=bool(or_else(keepdims, False)))
    )  # fmt: skip


@public(status=STEP)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return searching.count_nonzero(as_operand(a), axis=plain_axis(axis), keepdims=keepdims)


# -- moments -----------------------------------------------------------------------------------------------------------


def _averaged(x: Tensor, dtype: Any) -> tuple[Tensor, Any]:
    """Return an operand of means, and the dtype of the result if it differs."""
    wanted = native(dtype)
    if wanted is not None and not dtypes.name_of(wanted).startswith(("float", "complex")):
        return floating(x), wanted
    return floating(cast(x, wanted)), None


def _mask(where: Any, x: Tensor) -> Tensor:
    """Return a mask of the elements that count, in the shape of an operand."""
    return broadcast_to(as_operand(where, x), x.shape)


@public()
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE
) -> Tensor:
    x, wanted = _averaged(as_operand(a), dtype)
    axis, keepdims = plain_axis(axis), bool(or_else(keepdims, False))
    axes = axes_of(axis, x.ndim)
    if given(where) and where is not True:
        found = mean_where(x, _mask(where, x), axes, keepdims=keepdims)
    else:
        found = statistical.mean(x, axis=axis, keepdims=keepdims)
    return into(out, cast(found, wanted))


def _variance(
    name: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any, where: Any, mean: Any,
    correction: Any, least: float = 0.0,
) -> Tensor:  # fmt: skip
    if given(correction):
        if ddof != 0:
            raise ValueError(f"ddof and correction can't be provided simultaneously.{errors.called()}")
        ddof = correction
    x, wanted = _averaged(as_operand(a), dtype)
    if dtype is not None:  # also a complex one, though variances are real
        wanted = native(dtype)
    axis, keepdims = plain_axis(axis), bool(or_else(keepdims, False))
    masked = given(where) and where is not True
    if not masked and not given(mean) and not x._spec.is_complex:
        return into(out, cast(getattr(statistical, name)(x, axis=axis, correction=ddof, keepdims=keepdims), wanted))
    found = var_where(
        x, _mask(where if masked else True, x), axes_of(axis, x.ndim), keepdims=keepdims, correction=ddof, least=least,
        centre=as_operand(mean, x) if given(mean) else None,
    )  # fmt: skip
    found = root(found) if name == "std" else found
    return into(out, cast(found, wanted))


@public()
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *,
    where: Any = NO_VALUE, mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    return _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@public()
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *,
    where: Any = NO_VALUE, mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    return _variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@public()
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = NO_VALUE) -> Any:
    """With `returned` also returns the sums of the weights."""
    x = as_operand(a)
    axis, keepdims = plain_axis(axis), bool(or_else(keepdims, False))
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        scale: Any = as_operand(float(count(x, axis)), found)
    else:
        x, w = as_operands(x, weights)
        found = extra.average(x, axis=axis, weights=w, keepdims=keepdims)
        if not returned:
            return found
        axes = axes_of(axis, x.ndim)
        scale = without(
            statistical.sum(broadcast_to(weights_of(w, x, axes), x.shape), axis=axes, keepdims=True), axes, keepdims
        )
    return (found, broadcast_to(astype(scale, found.dtype), found.shape)) if returned else found


# -- ranks -------------------------------------------------------------------------------------------------------------

#: Methods that place a quantile at ``n q + alpha + q (1 - alpha - beta) - 1``: alpha and beta.
_PLACES = {
    "hazen": (0.5, 0.5),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
    "weibull": (0.0, 0.0),
}

#: Methods that replace "linear", and how.
_ROUNDED = ("lower", "higher", "midpoint", "nearest")


@public()
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    """Nothing is overwritten."""
    return into(out, extra.median(floating(a), axis=plain_axis(axis), keepdims=keepdims))


@public()
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = NO_VALUE
) -> Tensor:
    """Nothing is overwritten."""
    return into(out, _of_rows(floating(a), 0.5, plain_axis(axis), "linear", bool(or_else(keepdims, False))))


def _of_rows(x: Tensor, q: float, axis: Any, method: str, keepdims: bool) -> Tensor:
    """Return a quantile of the elements that are not NaN, whose number may vary from row to row."""
    axes = axes_of(axis, x.ndim)
    rows = joined(x, axes) if axes else expand_dims(x, axis=-1)
    is_nan = elementwise.isnan(rows)
    order = searching.argsort(choose(is_nan, math.inf, rows).detach(), axis=-1)
    ordered = searching.take_along_axis(rows, order, axis=-1)
    n = statistical.sum(astype(elementwise.logical_not(is_nan), "float64"), axis=-1, keepdims=True)
    alpha, beta = _PLACES.get(method, (1.0, 1.0))
    place = (n - 1) * q if alpha == beta == 1 else n * q + (alpha + q * (1 - alpha - beta)) - 1
    place = elementwise.clip(place, 0.0, None)
    place = elementwise.minimum(place, elementwise.maximum(n - 1, 0.0))
    low = elementwise.floor(place)
    part = place - low
    if method == "nearest":
        low, part = elementwise.round(place), part * 0
    elif method in _ROUNDED:
        part = {"lower": part * 0, "higher": elementwise.ceil(part), "midpoint": elementwise.ceil(part) * 0.5}[method]
    part = astype(part, x.dtype, copy=False)
    high = elementwise.minimum(low + 1, elementwise.maximum(n - 1, 0.0))
    below, above = (searching.take_along_axis(ordered, astype(i, "int64"), axis=-1) for i in (low, high))
    found = choose(part == 0, below, below + (above - below) * part)
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    return reshape(found, tuple(1 if i in axes else n for i, n in enumerate(x.shape)) if keepdims else shape)


def _quantiles(
    name: str, a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any, weights: Any, scale: float
) -> Tensor:
    if weights is not None:
        raise refused(f"numpy.{name} with weights=", "sort the values and add up their weights")
    if method not in _PLACES and method not in _ROUNDED:
        raise refused(f"numpy.{name} with method={method!r}", f"methods are {', '.join([*_PLACES, *_ROUNDED])}")
    if isinstance(q, Tensor) and q.requires_grad:
        raise RuntimeError(f"{name}() has no derivative in q; give q.detach(){errors.called()}")
    if kind_of(as_operand(a)) == "bool" and method not in _ROUNDED:
        raise refused(f"numpy.{name} of truth values", "convert them with np.astype")
    if as_operand(a)._spec.is_complex:
        raise TypeError(f"a must be an array of real numbers{errors.called()}")
    x, levels = floating(a), as_operand(q)
    if not isinstance(q, int | float) and method not in ("lower", "higher", "nearest"):
        x = astype(x, promoted(x, "float64"), copy=False)
    axis, keepdims = plain_axis(axis), bool(or_else(keepdims, False))
    wanted = [level / scale for level in reshape(levels, (-1,)).tolist()]
    if not builtins.all(0 <= level <= 1 for level in wanted):
        what = "Percentiles must be in the range [0, 100]" if scale > 1 else "Quantiles must be in the range [0, 1]"
        raise ValueError(f"{what}{errors.called()}")
    if name.startswith("nan") or method in _PLACES.keys() - {"linear"}:
        each = [_of_rows(x, level, axis, method, keepdims) for level in wanted]
        found = stack(each) if each else extra.quantile(x, [], axis=axis, keepdims=keepdims)
        if not name.startswith("nan"):
            spoiled = statistical.any(elementwise.isnan(x), axis=axis, keepdims=keepdims)
            found = choose(spoiled, math.nan, found)
    else:
        found = extra.quantile(x, wanted, axis=axis, method=method, keepdims=keepdims)
    found = reshape(found, (*levels.shape, *found.shape[1:]))
    given_dtype = as_operand(a).dtype
    if method in ("lower", "higher", "nearest") and given_dtype != x.dtype:  # elements unchanged
        found = astype(found, given_dtype)
    return into(out, found)


@public()
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Tensor:  # fmt: skip
    """The levels have no derivative."""
    return _quantiles("quantile", a, q, axis, out, method, keepdims, weights, 1)


@public()
def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Tensor:  # fmt: skip
    """The levels have no derivative."""
    return _quantiles("percentile", a, q, axis, out, method, keepdims, weights, 100)


@public()
def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = NO_VALUE, *, weights: Any = None,
) -> Tensor:  # fmt: skip
    """The levels have no derivative."""
    return _quantiles("nanquantile", a, q, axis, out, method, keepdims, weights, 1)


@public()
def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = NO_VALUE, *, weights: Any = None,
) -> Tensor:  # fmt: skip
    """The levels have no derivative."""
    return _quantiles("nanpercentile", a, q, axis, out, method, keepdims, weights, 100)


# -- without NaN -------------------------------------------------------------------------------------------------------


@public()
def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    return sum(without_nan(as_operand(a), 0.0), axis, dtype, out, keepdims, initial, where)


@public()
def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    return prod(without_nan(as_operand(a), 1.0), axis, dtype, out, keepdims, initial, where)


def _nan_extremum(
    name: str, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any, least: float
) -> Tensor:
    x = as_operand(a)
    if x._spec.is_complex:
        raise refused(f"numpy.nan{name} of complex numbers", "take their real and imaginary parts")
    if not given(initial) and not given(where):
        return into(
            out, getattr(extra, f"nan{name}")(x, axis=plain_axis(axis), keepdims=bool(or_else(keepdims, False)))
        )
    filled = without_nan(x, least)
    found = _reduced(name, filled, axis, None, keepdims, initial, where, empty=None)
    if not x._spec.inexact:
        return into(out, found)
    mask = as_operand(True, x) if not given(where) else as_operand(where)
    spoiled = all(elementwise.isnan(x) | elementwise.logical_not(mask), axis, keepdims=keepdims)
    return into(out, choose(spoiled & (found == least), math.nan if not given(initial) else initial, found))


@public()
def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = NO_VALUE
) -> Tensor:
    return _nan_extremum("max", a, axis, out, keepdims, initial, where, -math.inf)


@public()
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = NO_VALUE
) -> Tensor:
    return _nan_extremum("min", a, axis, out, keepdims, initial, where, math.inf)


def _there(x: Tensor, where: Any) -> Tensor:
    """Return a mask of the elements that count: not NaN, and in the given mask."""
    there = elementwise.logical_not(elementwise.isnan(x))
    return there & as_operand(where) if given(where) else there


def _check_inexact(name: str, dtype: Any) -> None:
    if dtype is not None and not dtypes.name_of(native(dtype)).startswith(("float", "complex")):
        raise refused(f"numpy.{name} with dtype={dtypes.name_of(native(dtype))}", "NaN is a floating-point number")


@public()
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE
) -> Tensor:
    x = as_operand(a)
    if not x.ndim and x._spec.inexact and axis in (0, -1):
        axis = None
    _check_inexact("nanmean", dtype)
    x = floating(x)
    return mean(x, axis, dtype, out, keepdims, where=_there(x, where))


@public()
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *,
    where: Any = NO_VALUE, mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    """NaN where the number of elements is `ddof` or less."""
    _check_inexact("nanvar", dtype)
    x = floating(a)
    return _variance("var", x, axis, dtype, out, ddof, keepdims, _there(x, where), mean, correction, math.nan)


@public()
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *,
    where: Any = NO_VALUE, mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    """NaN where the number of elements is `ddof` or less."""
    _check_inexact("nanstd", dtype)
    x = floating(a)
    return _variance("std", x, axis, dtype, out, ddof, keepdims, _there(x, where), mean, correction, math.nan)


# -- running results ---------------------------------------------------------------------------------------------------


def _running(name: str, a: Any, axis: Any, dtype: Any, out: Any, initial: bool = False) -> Tensor:
    x = _summed(as_operand(a), dtype)
    x = flat(x) if axis is None else at_least_1d(x)
    (axis,) = axes_of(0 if axis is None else axis, x.ndim)
    kept = {} if dtype is None else {"dtype": x.dtype}  # small integers would be widened
    return into(out, getattr(statistical, name)(x, axis=axis, include_initial=initial, **kept))


@public()
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return _running("cumulative_sum", a, axis, dtype, out)


@public()
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return _running("cumulative_prod", a, axis, dtype, out)


@public()
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return _running("cumulative_sum", without_nan(as_operand(a), 0.0), axis, dtype, out)


@public()
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return _running("cumulative_prod", without_nan(as_operand(a), 1.0), axis, dtype, out)


def _one_axis(name: str, x: Any, axis: Any) -> Tensor:
    x = at_least_1d(as_operand(x))
    if axis is None and x.ndim > 1:
        raise ValueError(
            f"For arrays which have more than one dimension ``axis`` argument is required: {name}(){errors.called()}"
        )
    return x


@public()
def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Tensor:
    x = _one_axis("cumulative_sum", x, axis)
    return _running("cumulative_sum", x, axis, dtype, out, include_initial)


@public()
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Tensor:
    x = _one_axis("cumulative_prod", x, axis)
    return _running("cumulative_prod", x, axis, dtype, out, include_initial)
