"""Statistics: weighted, of ranks, and between variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from agrad.core.cotangents import beside
from agrad.core.declare import nondifferentiable
from agrad.core.entry import instead
from agrad.core.errors import called
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.ops import pairs
from agrad.ops.creation import asarray, zeros
from agrad.ops.data_type import astype, finfo
from agrad.ops.elementwise import clip, conj, isnan, real, sqrt
from agrad.ops.extra.common import Axis, checked_axes, joined, kind_of, without
from agrad.ops.linalg import matmul, matrix_transpose
from agrad.ops.manipulation import concat, expand_dims, permute_dims, reshape
from agrad.ops.searching import getitem, take_along_axis, where
from agrad.ops.statistical import any as any_of
from agrad.ops.statistical import max as largest
from agrad.ops.statistical import mean
from agrad.ops.statistical import min as smallest
from agrad.ops.statistical import sum as sum_of

if TYPE_CHECKING:
    from agrad.core.methods import Picked

__all__ = ["average", "corrcoef", "cov", "median", "percentile", "ptp", "quantile"]

# -- spread and weights -----------------------------------------------------------------------------------------------


def ptp(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest less smallest element over axes.

    x: Real, any shape.
    Returns: The differences.
    As ``numpy.ptp``. Ties share the gradients evenly.

    >>> ag.extra.ptp(ag.tensor([3.0, 1.0, 7.0]))
    tensor(6.)
    """
    x = as_operand(x)
    return largest(x, axis=axis, keepdims=keepdims) - smallest(x, axis=axis, keepdims=keepdims)


def average(x: Any, /, *, axis: Axis = None, weights: Any = None, keepdims: bool = False) -> Tensor:
    """Weighted mean over axes.

    x: Any shape.
    weights : Tensor, optional
        Of the shape of `x`, or of the lengths of the axes, in their order. By default all weights are equal.
    Returns: The sums of products, divided by the sums of the weights.
    ValueError: If the weights do not fit.
    As ``numpy.average``, but weights that sum to 0 give infinities or NaN instead of an error. Differentiable in `x`
    and the weights.

    >>> ag.extra.average(ag.tensor([1.0, 4.0]), weights=[3, 1])
    tensor(1.7500)
    """
    x = as_operand(x)
    x = x if x._spec.inexact else astype(x, asarray(0.0).dtype)
    if weights is None:
        return mean(x, axis=axis, keepdims=keepdims)
    w = as_operand(weights, x)
    axes = checked_axes("average", axis, x.ndim)
    w = weights_of(w, x, axes)
    if not w._spec.inexact:
        w = astype(w, x.dtype)
    scale = sum_of(w, axis=axes, keepdims=True)
    return without(sum_of(x * w, axis=axes, keepdims=True) / scale, axes, keepdims)


def weights_of(w: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the weights of the elements, or of some axes in their order, in a shape that broadcasts with an operand."""
    if w.shape == x.shape:
        return w
    if w.shape != tuple(x.shape[a] for a in axes):
        raise ValueError(
            f"average(): weights of shape {w.shape} fit neither the shape {x.shape} nor the axes {axes}{called()}"
        )
    places = {a: i for i, a in enumerate(axes)}
    w = permute_dims(w, tuple(places[a] for a in sorted(axes)))
    return reshape(w, tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))


# -- ranks ------------------------------------------------------------------------------------------------------------


def _order_kernel(xp: Any, x: Any, /, ranks: tuple[int, ...]) -> Any:
    order = xp.argsort(x, axis=-1, stable=True)
    if len(ranks) == 1:
        return order[..., ranks[0] : ranks[0] + 1]
    return xp.take(order, xp.asarray(ranks, dtype=xp.int64, **beside(x)), axis=-1)


@nondifferentiable("x", name="extra.argrank", kernel=_order_kernel, memory="fresh")
def argrank(x: Any, /, ranks: tuple[int, ...]) -> Tensor:
    """Return the positions of the elements with some ranks along the last axis: part of a stable argsort.

    x: Real, at least one axis.
    ranks : tuple of int
        0 is the smallest element.
    Returns: Indices, one per rank along the last axis; of equal elements the first has the lower rank.
    """


def _ranked(x: Tensor, ranks: tuple[int, ...]) -> Tensor:
    """Return the elements with some ranks along the last axis; the gradient goes to the elements picked."""
    return take_along_axis(x, argrank(x, ranks), axis=-1)


def _ranks_of(q: float, n: int, method: str) -> tuple[int, int, float]:
    """The two ranks a quantile lies between, and how far from the first to the second."""
    place = q * (n - 1)
    low = math.floor(place)
    part = place - low
    if method == "lower":
        part = 0.0
    elif method == "higher":
        part = float(part > 0)
    elif method == "midpoint":
        part = 0.5 * (part > 0)
    elif method == "nearest":
        low, part = round(place), 0.0
    return low, min(low + (part > 0), n - 1), part


def _quantiles(name: str, x: Any, q: Any, axis: Axis, method: str, keepdims: bool) -> Tensor:
    x = as_operand(x)
    if method not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(
            f"{name}(): method {method!r} is not supported; it is linear, lower, higher, midpoint or nearest{called()}"
        )
    if kind_of(x) not in ("float", "int"):
        raise TypeError(f"{name}() takes real numbers, not {x.dtype}{called()}")
    x = x if x._spec.inexact else astype(x, asarray(0.0).dtype)
    wanted = [q] if isinstance(q, int | float) else list(q)
    if not all(0 <= value <= 1 for value in wanted):
        what = (
            "Percentiles must be in the range [0, 100]"
            if name == "percentile"
            else "Quantiles must be in the range [0, 1]"
        )
        raise ValueError(f"{name}(): {what}{called()}")
    axes = checked_axes(name, axis, x.ndim)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    flat = joined(x, axes) if axes else expand_dims(x, axis=-1)
    n = flat.shape[-1]
    if not n:
        raise ValueError(f"{name}(): an empty axis has no quantiles{called()}")
    shape = kept if keepdims else tuple(n for i, n in enumerate(x.shape) if i not in axes)
    if not wanted:
        return zeros((0, *shape), dtype=x.dtype, device=x.device)
    places = [_ranks_of(value, n, method) for value in wanted]
    ranks = tuple(sorted({rank for low, high, _ in places for rank in (low, high)}))
    picked = _ranked(flat, ranks)
    found = []
    for low, high, part in places:
        value = getitem(picked, (..., ranks.index(low)))
        if part:
            value = value * (1 - part) + getitem(picked, (..., ranks.index(high))) * part
        found.append(where(any_of(isnan(flat), axis=-1), math.nan, value))
    if isinstance(q, int | float):
        return reshape(found[0], shape)
    return concat([reshape(value, (1, *shape)) for value in found], axis=0)


def _levels(name: str, q: Any, scale: float) -> float | list[float]:
    """The levels as Python numbers between 0 and 1."""
    if isinstance(q, Tensor) and q.requires_grad:
        raise RuntimeError(f"{name}() has no derivative in q; give q.detach(){called()}")
    if hasattr(q, "shape"):
        q = as_operand(q).tolist()
    if isinstance(q, int | float):
        return q / scale
    if any(not isinstance(value, int | float) for value in q):
        raise ValueError(f"{name}(): q must be a number or one-dimensional{called()}")
    return [value / scale for value in q]


def quantile(
    x: Any,
    q: float | Sequence[float] | Any,
    /,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: Axis = None,
    method: str = "linear",
    keepdims: bool = False,
    interpolation: str | None = None,
) -> Tensor:
    """Quantiles over axes.

    x: Real, any shape.
    q : float, or sequence or Tensor of them
        Levels from 0 to 1.
    dim, keepdim, interpolation : optional
        PyTorch's names of `axis`, `keepdims` and `method`.
    method : {"linear", "lower", "higher", "midpoint", "nearest"}, optional
        The value if the level lies between two elements.
    Returns: For several levels they are the first axis. NaN if an element is NaN.
    ValueError: If a level is out of range, the method unknown, or an axis empty.
    RuntimeError: If `q` requires grad.
    As ``numpy.quantile``. The gradient goes to the one or two elements picked, and among equal ones to the first in a
    stable order (as in PyTorch, which picks quantiles from a sort). A result that is NaN passes none.

    >>> ag.extra.quantile(ag.tensor([1.0, 2.0, 4.0]), [0.5, 0.75])
    tensor([2., 3.])
    """
    if dim is not None:
        axis = instead("quantile", "axis", axis, None, "dim", dim)
    if interpolation is not None:
        method = instead("quantile", "method", method, "linear", "interpolation", interpolation)
    return _quantiles("quantile", x, _levels("quantile", q, 1), axis, method, keepdims or keepdim)


def percentile(
    x: Any, q: float | Sequence[float] | Any, /, *, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile`, with levels from 0 to 100.

    x, q, axis, method, keepdims: As for `quantile`.
    Returns: As for `quantile`. As ``numpy.percentile``; the derivative is that of `quantile`.

    >>> ag.extra.percentile(ag.tensor([1.0, 2.0, 4.0]), 75)
    tensor(3.)
    """
    return _quantiles("percentile", x, _levels("percentile", q, 100), axis, method, keepdims)


@overload
def median(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor: ...
@overload
def median(x: Any, /, dim: int, keepdim: bool = False) -> Picked: ...
def median(
    x: Any, /, dim: int | None = None, keepdim: bool = False, *, axis: Axis = None, keepdims: bool = False
) -> Any:
    """Median over axes: the middle element, or the mean of the two middle ones.

    x: Real, any shape.
    dim : int, optional
        PyTorch's: return the pair ``values``, ``indices`` along this axis, the lower of two middle elements.
    keepdim : bool, optional
        Together with `dim`, PyTorch's name of `keepdims`.
    Returns: The medians. NaN if an element is NaN.
    As ``numpy.median``, whereas PyTorch returns the lower of two middle elements. The gradient goes to the one or two
    elements picked, as in `quantile`.

    >>> x = ag.tensor([3.0, 1.0, 7.0, 2.0], requires_grad=True)
    >>> ag.extra.median(x).backward()
    >>> x.grad
    tensor([0.5000, 0.0000, 0.0000, 0.5000])
    """
    if dim is not None:
        if axis is not None:
            raise TypeError(f"median() got axis={axis!r} and dim={dim!r}, which are one argument{called()}")
        return pairs.middle(x, dim, keepdim)
    keepdims = keepdims or keepdim
    return _quantiles("median", x, 0.5, axis, "linear", keepdims)


# -- between variables ------------------------------------------------------------------------------------------------


def cov(x: Any, /, *, rowvar: bool = True, correction: float = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Covariance matrix of variables.

    x: A matrix with a row per variable and a column per observation, or the observations of one variable.
    rowvar : bool, optional
        False for a column per variable.
    correction : float, optional
        Subtracted from the number of observations (or the sum of their weights) in the divisor.
    fweights : Tensor, optional
        Integers, how often each observation occurred.
    aweights : Tensor, optional
        The relative weight of each observation, not negative.
    Returns: A matrix, Hermitian; 0-d for one variable.
    ValueError: If `x` has more than two axes, or weights do not fit.
    As ``torch.cov`` and ``numpy.cov`` (where the correction is called ``ddof``). A divisor that is not positive gives
    infinities or NaN. Differentiable in `x` and `aweights`.

    >>> ag.extra.cov(ag.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x = as_operand(x)
    if x.ndim > 2:
        raise ValueError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {x.ndim}{called()}"
        )
    x = x if x._spec.inexact else astype(x, asarray(0.0).dtype)
    if x.ndim < 2:
        x = reshape(x, (1, -1))
    elif not rowvar and x.shape[0] != 1:
        x = matrix_transpose(x)
    n = x.shape[1]
    real_dtype = finfo(x.dtype).dtype if x._spec.is_complex else x.dtype
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        w = as_operand(given, x)
        if w.shape != (n,):
            raise ValueError(f"cov(): {name} must have the shape ({n},), not {w.shape}{called()}")
        if name == "fweights" and kind_of(w) != "int":
            raise TypeError(f"cov(): fweights must be integers, not {w.dtype}{called()}")
        w = astype(w, real_dtype, copy=False)
        weights = w if weights is None else weights * w
    if weights is None:
        centred = x - mean(x, axis=1, keepdims=True)
        product = matmul(centred, conj(matrix_transpose(centred)) if x._spec.is_complex else matrix_transpose(centred))
        found = product / (n - correction) if n > correction else product * math.inf
    else:
        total = sum_of(weights)
        centred = x - sum_of(x * weights, axis=1, keepdims=True) / total
        turned = matrix_transpose(centred * weights)
        factor = total - correction
        if aweights is not None and correction:
            factor = total - correction * sum_of(weights * astype(as_operand(aweights, x), real_dtype)) / total
        found = matmul(centred, conj(turned) if x._spec.is_complex else turned) / where(factor > 0, factor, 0.0)
    return reshape(found, ()) if found.shape == (1, 1) else found


def corrcoef(x: Any, /, *, rowvar: bool = True) -> Tensor:
    """Correlation coefficients of variables.

    x, rowvar: As for `cov`.
    Returns: A matrix with ones on the diagonal; 0-d for one variable.
    ValueError: If `x` has more than two axes.
    As ``numpy.corrcoef``. Real coefficients are clipped to [-1, 1], where rounding takes them beyond. Those of a
    constant are NaN.

    >>> ag.extra.corrcoef(ag.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    found = cov(x, rowvar=rowvar)
    if not found.ndim:
        return found / found
    variances = getitem(reshape(found, (-1,)), (slice(None, None, found.shape[0] + 1),))
    spread = sqrt(real(variances) if found._spec.is_complex else variances)
    scaled = found / expand_dims(spread, axis=-1) / spread
    return scaled if found._spec.is_complex else clip(scaled, -1, 1)
