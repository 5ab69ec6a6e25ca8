"""Reductions that leave NaN out."""

from __future__ import annotations

import math
from typing import Any

from agrad.core.declare import custom
from agrad.core.facts import Facts
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.ops.batch_rules import reduced
from agrad.ops.data_type import astype, finfo
from agrad.ops.elementwise import conj, isnan, logical_not, real, sqrt, square
from agrad.ops.extra.common import Axis, checked_axes, without
from agrad.ops.extra.running import cumsum
from agrad.ops.searching import where
from agrad.ops.statistical import mean, prod, std, unreduce, var
from agrad.ops.statistical import sum as sum_of

__all__ = ["nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]

# -- without NaN ------------------------------------------------------------------------------------------------------


def without_nan(x: Tensor, value: float) -> Tensor:
    """Return `x` with a number in place of NaN: `where` gives these elements the gradient 0."""
    return where(isnan(x), value, x) if x._spec.inexact else x


def mean_where(x: Tensor, there: Any, axes: tuple[int, ...], *, keepdims: bool) -> Tensor:
    """Mean over axes of the elements where a mask of the same shape is true, NaN if there are none."""
    return without(_centre(x, there, axes, _counted(x, there, axes)), axes, keepdims)


def var_where(
    x: Tensor, there: Any, axes: tuple[int, ...], *, keepdims: bool, correction: Any, least: float = math.nan,
    centre: Any = None,
) -> Tensor:  # fmt: skip
    """Variance over axes of the elements where a mask is true, about a `centre` or their mean.

    The divisor is `least` if there are no more elements than the correction.
    """
    n = _counted(x, there, axes)
    centred = where(there, x - (_centre(x, there, axes, n) if centre is None else centre), 0.0)
    squares = real(centred * conj(centred)) if x._spec.is_complex else square(centred)
    divisor = where(n > correction, n - correction, least)
    return without(sum_of(squares, axis=axes, keepdims=True) / divisor, axes, keepdims)


def root(x: Tensor) -> Tensor:
    """The square root of a variance; its derivative is 0 where nothing varies."""
    flat = x == 0
    return where(flat, 0.0, sqrt(where(flat, 1.0, x)))


def _counted(x: Tensor, there: Any, axes: tuple[int, ...]) -> Tensor:
    """Return how many elements are not missing, with the axes kept at length 1, as real numbers."""
    return sum_of(astype(there, finfo(x.dtype).dtype if x._spec.is_complex else x.dtype), axis=axes, keepdims=True)


def _centre(x: Tensor, there: Any, axes: tuple[int, ...], n: Tensor) -> Tensor:
    return sum_of(where(there, x, 0.0), axis=axes, keepdims=True) / where(n > 0, n, math.nan)


def nansum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Sum over axes, NaN counting as 0.

    x: Any shape.
    dtype : dtype, optional
        The dtype of the result.
    Returns: The sums.
    As ``numpy.nansum``. NaN gets the gradient 0, in any order.

    >>> x = ag.tensor([1.0, ag.nan, 2.0], requires_grad=True)
    >>> ag.extra.nansum(x).backward()
    >>> x.grad
    tensor([1., 0., 1.])
    """
    return sum_of(without_nan(as_operand(x), 0.0), axis=axis, dtype=dtype, keepdims=keepdims)


def nanprod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Product over axes, NaN counting as 1.

    x, axis, dtype, keepdims: As for `nansum`.
    Returns: The products.
    As ``numpy.nanprod``. NaN gets the gradient 0, to any order; the gradient is exact where elements are 0.

    >>> ag.extra.nanprod(ag.tensor([3.0, ag.nan, 2.0]))
    tensor(6.)
    """
    return prod(without_nan(as_operand(x), 1.0), axis=axis, dtype=dtype, keepdims=keepdims)


def nanmean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean over axes of the elements that are not NaN.

    x, axis, keepdims: As for `nansum`.
    Returns: The means, NaN if there is no other element.
    As ``numpy.nanmean``, without its warning. NaN gets the gradient 0, to any order.

    >>> ag.extra.nanmean(ag.tensor([1.0, ag.nan, 2.0]))
    tensor(1.5000)
    """
    x = as_operand(x)
    if not x._spec.inexact:
        return mean(x, axis=axis, keepdims=keepdims)
    return mean_where(x, logical_not(isnan(x)), checked_axes("nanmean", axis, x.ndim), keepdims=keepdims)


def nanvar(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Variance over axes of the elements that are not NaN.

    x, axis, keepdims: As for `nansum`.
    correction: Subtracted from the number of elements in the divisor.
    Returns: The variances, real; NaN if no more elements than the correction are left.
    As ``numpy.nanvar``, without its warning. NaN gets the gradient 0, to any order.

    >>> ag.extra.nanvar(ag.tensor([1.0, ag.nan, 3.0]))
    tensor(1.)
    """
    x = as_operand(x)
    if not x._spec.inexact:
        return var(x, axis=axis, correction=correction, keepdims=keepdims)
    axes = checked_axes("nanvar", axis, x.ndim)
    return var_where(x, logical_not(isnan(x)), axes, keepdims=keepdims, correction=correction)


def nanstd(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Standard deviation over axes of the elements that are not NaN.

    x, axis, correction, keepdims: As for `nanvar`.
    Returns: The standard deviations, real; NaN if no more elements than the correction are left.
    As ``numpy.nanstd``, without its warning. NaN gets the gradient 0, to any order, and so do equal elements.

    >>> ag.extra.nanstd(ag.tensor([1.0, ag.nan, 5.0]))
    tensor(2.)
    """
    x = as_operand(x)
    if not x._spec.inexact:
        return std(x, axis=axis, correction=correction, keepdims=keepdims)
    return root(nanvar(x, axis=axis, correction=correction, keepdims=keepdims))


def _nan_extremum(name: str, worst: float) -> dict[str, Any]:
    """Return the rule and kernel of nanmax and nanmin; NaN never shares in a gradient."""

    def kernel(xp: Any, x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
        best = getattr(xp, name)
        if not xp.isdtype(x.dtype, "real floating"):
            return best(x, axis=axis, keepdims=keepdims)
        missing = xp.isnan(x)
        found = best(xp.where(missing, xp.full_like(x, worst), x), axis=axis, keepdims=keepdims)
        return xp.where(xp.all(missing, axis=axis, keepdims=keepdims), xp.full_like(found, math.nan), found)

    def shares(xp: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, keepdims: bool) -> Any:
        equal = xp.astype(x == unreduce(xp, ans, x_spec, axis, keepdims), x_spec.dtype)
        number = xp.sum(equal, axis=axis, keepdims=True)
        return equal / xp.where(number == 0, xp.ones_like(number), number)

    def vjp(xp: Any, g: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, keepdims: bool) -> Any:
        return unreduce(xp, g, x_spec, axis, keepdims) * shares(xp, x, x_spec, ans, axis, keepdims)

    def jvp(xp: Any, t_x: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, keepdims: bool) -> Any:
        share = shares(xp, x, x_spec, ans, axis, keepdims)
        asked = xp.where(share == 0, xp.zeros_like(t_x), t_x * share)  # the tangent of a skipped element may be NaN
        return xp.sum(asked, axis=axis, keepdims=keepdims)

    return {"vjp": {"x": vjp}, "jvp": jvp, "kernel": kernel}


@custom(
    name="extra.nanmax",
    **_nan_extremum("max", -math.inf),
    drops=True,
    batch=reduced,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",), sparsity="reduces"),
)
def nanmax(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element over axes of those that are not NaN.

    x: Real, any shape.
    Returns: The largest elements, NaN where there is no other element.
    As ``numpy.nanmax``, without its warning. Ties share the gradient evenly; NaN gets 0.

    >>> ag.extra.nanmax(ag.tensor([1.0, ag.nan, 3.0]))
    tensor(3.)
    """


@custom(
    name="extra.nanmin",
    **_nan_extremum("min", math.inf),
    drops=True,
    batch=reduced,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",), sparsity="reduces"),
)
def nanmin(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element over axes of those that are not NaN.

    x, axis, keepdims: As for `nanmax`.
    Returns: The smallest elements, NaN where there is no other element.
    As ``numpy.nanmin``, without its warning. Ties share the gradient evenly; NaN gets 0.

    >>> ag.extra.nanmin(ag.tensor([1.0, ag.nan, 3.0]))
    tensor(1.)
    """


def nancumsum(x: Any, /, *, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Running sum along an axis, NaN counting as 0.

    x: Any shape.
    axis : int, optional
        The axis; by default `x` is flattened.
    dtype : dtype, optional
        The dtype of the result.
    Returns: The running sums.
    As ``numpy.nancumsum``. NaN gets the gradient 0.

    >>> ag.extra.nancumsum(ag.tensor([1.0, ag.nan, 2.0]))
    tensor([1., 1., 3.])
    """
    return cumsum(without_nan(as_operand(x), 0.0), axis=axis, dtype=dtype)
