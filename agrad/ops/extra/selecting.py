"""Functions that choose, count and place elements by index, rank or mask."""

from __future__ import annotations

import operator
import re
from typing import Any, NamedTuple

from agrad.core.declare import nondifferentiable, primitive
from agrad.core.errors import UnsupportedOp, called
from agrad.core.facts import Facts
from agrad.core.mode import may_look
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.ops import searching
from agrad.ops.creation import arange, asarray, ones_like, zeros, zeros_like
from agrad.ops.data_type import astype
from agrad.ops.elementwise import isinf, isnan, subtract
from agrad.ops.extra.common import alike, checked_axis, kind_of
from agrad.ops.manipulation import broadcast_arrays, broadcast_to, moveaxis, repeat, reshape
from agrad.ops.searching import argsort, cast_value, getitem, searchsorted, setitem, take, take_along_axis, where
from agrad.ops.statistical import all as all_of
from agrad.ops.statistical import max as largest
from agrad.ops.statistical import min as smallest

__all__ = [
    "bincount", "digitize", "gather", "index_select", "masked_fill", "masked_select", "scatter", "scatter_add",
    "scatter_reduce", "topk", "tril_indices", "triu_indices",
]  # fmt: skip


def masked_fill(input: Any, mask: Any, value: Any) -> Tensor:
    """Return a copy with one value where a mask is true.

    input: Any shape.
    mask: Boolean; it broadcasts with `input`.
    value : scalar or 0-d Tensor
        The value.
    Returns: Of the dtype of `input`.
    OverflowError: If the value is an integer that the dtype of `input` cannot hold.
    TypeError: If the mask is not boolean.
    RuntimeError: If the value is floating and `input` is not, or complex and `input` is real. As ``torch.masked_fill``.
    Replaced elements get the gradient 0, and `value` the sum of the gradients at its positions.

    >>> ag.extra.masked_fill(ag.tensor([1.0, 2.0]), ag.tensor([True, False]), 0.0)
    tensor([0., 2.])
    """
    x, mask = as_operands(input, mask)
    if kind_of(mask) != "bool":
        raise TypeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}{called()}")
    return where(mask, cast_value(x, _source(x, value)), x)


def _source(x: Tensor, value: Any) -> Tensor:
    """Return a value that replaces elements of a tensor as an operand; an integer that its dtype cannot hold is an error."""
    if type(value) is int:
        return asarray(value, dtype=x._spec.backend.scalar_dtype(value, x._spec), device=x.device)
    return as_operand(value, x)


def overwritten(x: Tensor, value: Any) -> Tensor:
    """Return a value in place of every element of a tensor, whose history gets zeros."""
    return where(ones_like(x, dtype="bool"), value, x)


def masked_select(x: Any, mask: Any, /) -> Tensor:
    """The elements where a mask is true, as a vector.

    x: Any shape.
    mask: Boolean; the two broadcast.
    Returns: A vector, in row-major order.
    TypeError: If the mask is not boolean.
    As ``torch.masked_select``. Linear.

    >>> x = ag.tensor([1.0, 2.0, 3.0])
    >>> ag.extra.masked_select(x, x > 1.5)
    tensor([2., 3.])
    """
    x, mask = as_operands(x, mask)
    if kind_of(mask) != "bool":
        raise TypeError(f"masked_select: expected BoolTensor for mask, but got {mask.dtype}{called()}")
    if x.shape != mask.shape:
        x, mask = broadcast_arrays(x, mask)
    return getitem(x, mask)


def index_select(input: Any, dim: int, index: Any) -> Tensor:
    """Take slices at indices along an axis: `agrad.take` with PyTorch's order of arguments.

    input: At least one axis.
    dim : int
        The axis.
    index: A vector of integers, or one integer as a 0-d tensor.
    Returns: As many slices as indices.
    IndexError: If the indices have several axes; `agrad.take` accepts these.
    As ``torch.index_select``. Linear; a slice taken several times gets the sum of the gradients.

    >>> ag.extra.index_select(ag.tensor([[1, 2, 3], [4, 5, 6]]), 1, ag.tensor([2, 0]))
    tensor([[3, 1],
            [6, 4]])
    """
    x = as_operand(input)
    places = as_operand(index, x)
    if places.ndim > 1:
        raise IndexError(
            f"index_select(): Index is supposed to be a vector\n  It has the shape {places.shape}; take(x, index, axis=dim)"
            f" accepts any shape.{called()}"
        )
    return take(x, places if places.ndim else reshape(places, (1,)), axis=checked_axis("index_select", dim, x.ndim))


def _fitted(name: str, x: Tensor, axis: int, index: Tensor) -> Tensor:
    """The part of `x` along the other axes that an index reaches."""
    if index.ndim != x.ndim:
        raise RuntimeError(f"{name}(): Index tensor must have the same number of dimensions as input tensor{called()}")
    key: list[Any] = []
    for i, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)):
        if i != axis and m > n:
            raise RuntimeError(
                f"{name}(): Size does not match at dimension {i} expected index {index.shape} to be smaller than self "
                f"{x.shape} apart from dimension {axis}{called()}"
            )
        key.append(slice(None) if i == axis or m == n else slice(0, m))
    return x if all(part == slice(None) for part in key) else getitem(x, tuple(key))


def gather(input: Any, dim: int, index: Any) -> Tensor:
    """Take elements at indices along an axis, with a separate index for each position along the others.

    input: Any shape.
    dim : int
        The axis the indices count along.
    index: Integers; as many axes as `input`, none longer but that one.
    Returns: Of the shape of the index.
    RuntimeError: If the index does not fit.
    As ``torch.gather``. If only the length along the axis differs, it equals the standard's `agrad.take_along_axis`.
    Linear; an element taken several times gets the sum of the gradients.

    >>> ag.extra.gather(ag.tensor([[1, 2], [3, 4]]), 1, ag.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    x = as_operand(input)
    index = as_operand(index, x)
    axis = checked_axis("gather", dim, x.ndim)
    return take_along_axis(_fitted("gather", x, axis, index), index, axis=axis)


def _placed(name: str, x: Any, axis: int, index: Any, src: Any) -> tuple[Tensor, tuple[Any, ...], Tensor]:
    """Return the operand, the key of the positions, and the values for them."""
    x = as_operand(x)
    index, src = as_operand(index, x), _source(x, src)
    axis = checked_axis(name, axis, x.ndim)
    _fitted(name, x, axis, index)
    if src.ndim:
        if src.ndim != index.ndim or any(n < m for n, m in zip(src.shape, index.shape, strict=True)):
            raise RuntimeError(
                f"{name}(): Expected index {index.shape} to be no larger than src {src.shape} in any dimension{called()}"
            )
        if src.shape != index.shape:
            src = getitem(src, tuple(slice(0, m) for m in index.shape))
    else:
        src = broadcast_to(src, index.shape)
    lines = (
        reshape(arange(n, device=x.device), tuple(-1 if j == i else 1 for j in range(x.ndim)))
        for i, n in enumerate(index.shape)
    )
    key = tuple(index if i == axis else line for i, line in enumerate(lines))
    return x, key, cast_value(x, src)


def scatter(x: Any, axis: int, index: Any, src: Any, /) -> Tensor:
    """Return a copy with elements put at indices along an axis, with a separate index for each position along the others.

    x: Any shape.
    axis : int
        The axis the indices count along.
    index: Integers; as many axes as `x`, none longer but that one.
    src : Tensor or scalar
        The values: as many axes as the index, each at least as long.
    Returns: Of the shape and dtype of `x`.
    RuntimeError: If the operands do not fit.
    As ``torch.scatter``; of several elements put at one position, the last counts and gets the gradient. Replaced
    elements get 0. It needs assignment at integer arrays, which is not in the standard.

    >>> ag.extra.scatter(ag.zeros((2, 2)), 1, ag.tensor([[1], [0]]), ag.tensor([[3.0], [4.0]]))
    tensor([[0., 3.],
            [4., 0.]])
    """
    x, key, src = _placed("scatter", x, axis, index, src)
    return setitem(x, key, src)


def scatter_add(x: Any, axis: int, index: Any, src: Any, /) -> Tensor:
    """Return a copy with elements added at indices along an axis, with a separate index for each position along the others.

    x, axis, index, src: As for `scatter`.
    Returns: Of the shape and dtype of `x`.
    RuntimeError: If the operands do not fit.
    As ``torch.scatter_add``; elements at one position add up. Linear. (`agrad.scatter_add` is another function: the
    adjoint of indexing by any key.)

    >>> ag.extra.scatter_add(ag.zeros((1, 2)), 1, ag.tensor([[1, 1]]), ag.tensor([[3.0, 4.0]]))
    tensor([[0., 7.]])
    """
    x, key, src = _placed("scatter_add", x, axis, index, src)
    added: Tensor = x + searching.scatter_add(x._spec, key, src)
    return added


def scatter_reduce(x: Any, axis: int, index: Any, src: Any, reduce: str, include_self: bool = True, /) -> Tensor:
    """Return a copy with elements combined at indices along an axis, with a separate index for each position along the others.

    x, axis, index, src: As for `scatter`.
    reduce : {"sum", "mean", "amax", "amin"}
        How to combine the elements at one position.
    include_self : bool, optional
        Whether the elements of `x` count, too, at these positions.
    Returns: Of the shape and dtype of `x`.
    NotImplementedError: For ``"prod"``.
    RuntimeError: If the operands do not fit.
    ValueError: For an unknown reduction.
    As ``torch.scatter_reduce``: the gradient of extrema is shared evenly among all that tie.

    >>> ag.extra.scatter_reduce(ag.zeros(2), 0, ag.tensor([1, 1, 1]), ag.tensor([3.0, 5.0, 4.0]), "amax")
    tensor([0., 5.])
    """
    if re.fullmatch("prod", reduce):
        raise NotImplementedError(f"scatter_reduce() has no 'prod': use exp of a sum of logarithms{called()}")
    if not re.fullmatch("sum|mean|amax|amin", reduce):
        raise ValueError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}{called()}")
    x, key, src = _placed("scatter_reduce", x, axis, index, src)
    base = x if include_self else setitem(x, key, 0)
    if reduce == "sum":
        return base + searching.scatter_add(x._spec, key, src)
    if reduce == "mean":
        total = base + searching.scatter_add(x._spec, key, src)
        counts = (1 if include_self else 0) + searching.scatter_add(x._spec, key, ones_like(src.detach()))
        counts = where(counts == 0, ones_like(counts), counts)
        return total / counts if x._spec.inexact else total // counts
    # In ascending order, so that the last one put at a position is the largest.
    flat = argsort(reshape(src.detach(), (-1,)), descending=reduce == "amin")
    places = tuple(take(reshape(broadcast_to(as_operand(k, x), src.shape), (-1,)), flat) for k in key)
    best = setitem(x.detach(), places, take(reshape(src.detach(), (-1,)), flat))
    touched = setitem(zeros_like(x.detach(), dtype="bool"), key, True)
    if include_self:
        larger = x.detach() > best if reduce == "amax" else x.detach() < best
        larger = larger | isnan(x.detach()) if x._spec.inexact else larger
        best = where(touched & larger, x.detach(), best)
    if not x._spec.inexact:
        return best
    hits = src.detach() == getitem(best, key)
    own = x.detach() == best if include_self else zeros_like(touched)
    own = own | ~touched
    shares = astype(own, x.dtype) + searching.scatter_add(x._spec, key, astype(hits, x.dtype))
    # chosen, not multiplied by 0 or 1: an infinite element would become NaN
    summed = where(own, x, 0) + searching.scatter_add(x._spec, key, where(hits, src, 0))
    found: Tensor = summed / where(shares == 0, ones_like(shares), shares)
    endless = isinf(best)  # `found` is exact there, and infinity minus itself would be NaN
    return where(endless, 0, best) + (found - where(endless, 0, found.detach()))


def _argtop_kernel(xp: Any, x: Any, /, k: int, largest: bool) -> Any:
    return xp.argsort(x, axis=-1, descending=largest, stable=True)[..., :k]


@nondifferentiable("x", name="extra.argtop", kernel=_argtop_kernel, memory="fresh")
def argtop(x: Any, /, k: int, largest: bool) -> Tensor:
    """Return the positions of the largest (or smallest) elements along the last axis: the first part of a stable argsort.

    x: Real, at least one axis.
    k : int
        How many.
    largest : bool
        Whether the largest, in falling order, or the smallest, in rising order.
    Returns: Indices; of equal elements the first comes first.
    """


class TopK(NamedTuple):
    """What `topk` gives."""

    values: Tensor
    indices: Tensor


def topk(
    x: Any, /, k: int, axis: int = -1, largest: bool = True, sorted: bool = True, *, dim: int | None = None
) -> TopK:
    """Return the largest elements along an axis, in descending order, and their positions.

    x: Real, at least one axis.
    k : int
        How many.
    axis : int, optional
        The axis.
    largest : bool, optional
        False returns the smallest, in ascending order.
    sorted : bool, optional
        They are sorted in any case.
    dim : int, optional
        PyTorch's name of `axis`.
    Returns : TopK
        The `values`, and their `indices`, which have no derivative. Of equal elements the first comes first.
    RuntimeError: If there are fewer elements. As ``torch.topk``. The gradient goes to the elements picked.

    >>> values, indices = ag.extra.topk(ag.tensor([1.0, 3.0, 2.0]), 2)
    >>> values
    tensor([3., 2.])
    >>> indices
    tensor([1, 2])
    """
    x = as_operand(x)
    at = checked_axis("topk", axis if dim is None else dim, x.ndim)
    k = operator.index(k)
    if not 0 <= k <= x.shape[at]:
        raise RuntimeError(f"selected index k out of range: {k} of {x.shape[at]} elements{called()}")
    indices = moveaxis(argtop(moveaxis(x, at, -1), k, largest), -1, at)
    return TopK(take_along_axis(x, indices, axis=at), indices)


def digitize(x: Any, bins: Any, /, *, right: bool = False) -> Tensor:
    """The bin that each element falls into.

    x: Real, any shape.
    bins: A vector of bounds, rising or falling.
    right : bool, optional
        Whether a bin contains its upper bound instead of its lower one.
    Returns: Integers: i for ``bins[i - 1] <= x < bins[i]``, 0 below the first bound, the number of bounds beyond the
        last.
    ValueError: If the bounds are not a vector, or not monotonic. (Their values are read.)
    As ``numpy.digitize``. No derivative.

    >>> ag.extra.digitize(ag.tensor([0.2, 6.4, 3.0]), [0.0, 1.0, 2.5, 4.0])
    tensor([1, 4, 3])
    """
    x, bins = (value.detach() for value in as_operands(x, bins))
    if bins.ndim != 1:
        raise ValueError(f"digitize(): bins must be a vector, not of shape {bins.shape}{called()}")
    x, bins = alike(x, bins)
    low, high = getitem(bins, slice(None, -1)), getitem(bins, slice(1, None))
    if bool(all_of(low <= high)):
        return searchsorted(bins, x, side="left" if right else "right")
    if not bool(all_of(low >= high)):
        raise ValueError(f"digitize(): bins must be monotonically increasing or decreasing{called()}")
    # falling: count from the other end
    rising = getitem(bins, slice(None, None, -1))
    beyond = searchsorted(rising, x, side="left" if right else "right")
    return subtract(bins.shape[0], beyond)


def bincount(x: Any, /, weights: Any = None, *, minlength: int = 0, length: int | None = None) -> Tensor:
    """Count how often each integer occurs, or sum the weights at its positions.

    x: A vector of integers, not negative.
    weights : Tensor, optional
        As many as `x` has elements.
    minlength : int, optional
        The minimum length of the result; it is longer if `x` has larger elements.
    length : int, optional
        The length of the result: all elements must be smaller. A lazy backend needs it, because otherwise the shape of
        the result would depend on values.
    Returns: A vector: integers, or of the dtype of the weights.
    ValueError: If `x` is not a vector of integers, an element is negative or not below `length`, or the weights do not
        fit.
    UnsupportedOp: On a lazy backend, without `length`.
    As ``numpy.bincount``. Linear in the weights: each gets the gradient of its integer's sum. On a lazy backend the
    elements are not checked: those out of range raise, or count from the end, when they are computed.

    >>> ag.extra.bincount(ag.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    >>> ag.extra.bincount(ag.tensor([0, 2, 2]), [0.5, 1.0, 2.0])
    tensor([0.5000, 0.0000, 3.0000])
    """
    x, w = as_operands(x, 1 if weights is None else weights)
    if x.ndim != 1 or kind_of(x) != "int":
        raise ValueError(
            f"bincount only supports 1-d non-negative integral inputs, got {x.dtype} of shape {x.shape}{called()}"
        )
    if weights is not None and w.shape != x.shape:
        raise ValueError(f"input and weights should have the same length: {x.shape} and {w.shape}{called()}")
    lazy = x._spec.backend.is_lazy
    if lazy and length is None:
        reason = "the length of the result depends on the elements; pass it as length="
        raise UnsupportedOp("extra.bincount", x._spec.backend.name, reason)
    n = minlength if length is None else length
    if (length is None or may_look(x._spec.backend)) and x.shape[0]:
        low, high = int(smallest(x)), int(largest(x))
        if low < 0 or (length is not None and high >= length):
            raise ValueError(
                f"bincount only supports 1-d non-negative integral inputs below length={length}; found {low} to {high}{called()}"
            )
        n = n if length is not None else max(n, high + 1)
    like = zeros((n,), dtype=w.dtype, device=x.device)
    return searching.scatter_add(like._spec, astype(x, "int64", copy=False), broadcast_to(w, x.shape))


def _triangle(n: int, starts: list[int], stops: list[int], device: Any) -> tuple[Tensor, Tensor]:
    """Return row and column indices of the elements from a start to before a stop in each row."""
    counts = [max(b - a, 0) for a, b in zip(starts, stops, strict=True)]
    shifts, total = [], 0
    for start, size in zip(starts, counts, strict=True):
        shifts.append(total - start)
        total += size
    sizes = asarray(counts, dtype="int64", device=device)
    rows = repeat(arange(n, device=device), sizes)
    return rows, arange(total, device=device) - repeat(asarray(shifts, dtype="int64", device=device), sizes)


@primitive("extra.tril_indices", memory="fresh", facts=Facts(creates="here"))
def tril_indices(n: int, /, *, k: int = 0, m: int | None = None, device: Any = None) -> tuple[Tensor, Tensor]:
    """The indices of the elements on and below a diagonal of a matrix.

    n : int
        The number of rows.
    k: Which diagonal: above (positive) or below the main one.
    m : int, optional
        The number of columns. Default: the number of rows.
    device : str, optional
        ``"<backend>[:<device>]"``.
    Returns: Row and column indices, row by row.
    As ``numpy.tril_indices``. No derivative.

    >>> ag.extra.tril_indices(2)
    (tensor([0, 1, 1]), tensor([0, 0, 1]))
    """
    m = n if m is None else m
    return _triangle(n, [0] * n, [min(max(i + k + 1, 0), m) for i in range(n)], device)


@primitive("extra.triu_indices", memory="fresh", facts=Facts(creates="here"))
def triu_indices(n: int, /, *, k: int = 0, m: int | None = None, device: Any = None) -> tuple[Tensor, Tensor]:
    """The indices of the elements on and above a diagonal of a matrix.

    n, k, m, device: As for `tril_indices`.
    Returns: Row and column indices, row by row.
    As ``numpy.triu_indices``. No derivative.

    >>> ag.extra.triu_indices(2)
    (tensor([0, 0, 1]), tensor([0, 1, 1]))
    """
    m = n if m is None else m
    return _triangle(n, [min(max(i + k, 0), m) for i in range(n)], [m] * n, device)
