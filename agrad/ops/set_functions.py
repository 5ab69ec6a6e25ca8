"""Set functions of the standard: the distinct elements, and membership."""

from __future__ import annotations

from typing import Any, NamedTuple

from agrad.core.declare import nondifferentiable, primitive
from agrad.core.facts import Facts
from agrad.core.tensor import Tensor
from agrad.ops.batch_rules import BatchedCall
from agrad.ops.docs import complete
from agrad.ops.elementwise import logical_not
from agrad.ops.manipulation import reshape
from agrad.ops.searching import take

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAllResult(NamedTuple):
    """The results of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """The results of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """The results of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


@nondifferentiable("x", name="unique_all", outputs=4, memory="fresh", facts=Facts(dynamic=True))
def _unique_all(x: Any, /) -> tuple[Tensor, ...]:
    """The distinct elements, the first position of each, the number of the distinct element at each position, and the counts."""


def unique_all(x: Any, /) -> UniqueAllResult:
    """The distinct elements, the first position of each, the number of the distinct element at each position, and the counts.

    Returns: ``values`` (1-D, of `x`'s dtype), ``indices`` of their first occurrences in the flattened `x`,
        ``inverse_indices`` (of the shape of `x`) and ``counts``. The order of the values is the backend's: ascending
        on NumPy.
    The gradient of ``values`` goes to the positions in ``indices``; other positions with an equal value get 0. The
    derivative ignores that the number of results changes when values become equal or unequal. NaNs are distinct.

    >>> x = ag.tensor([3.0, 1.0, 3.0], requires_grad=True)
    >>> values, indices, inverse, counts = ag.unique_all(x)
    >>> counts
    tensor([1, 2])
    >>> (values * ag.tensor([10.0, 20.0])).sum().backward()
    >>> x.grad
    tensor([20., 10.,  0.])
    """
    values, indices, inverse_indices, counts = _unique_all(x)
    if isinstance(x, Tensor) and (x.requires_grad or x._tangents):
        values = take(reshape(x, (-1,)), indices)
    return UniqueAllResult(values, indices, inverse_indices, counts)


@primitive("unique_counts", facts=Facts(dynamic=True))
def unique_counts(x: Any, /) -> UniqueCountsResult:
    """The distinct elements, and how often each occurs.

    Returns: ``values`` and ``counts``, as for `unique_all`, including the derivative.

    >>> ag.unique_counts(ag.tensor([3, 1, 3])).counts
    tensor([1, 2])
    """
    found = unique_all(x)
    return UniqueCountsResult(found.values, found.counts)


@primitive("unique_inverse", facts=Facts(dynamic=True))
def unique_inverse(x: Any, /) -> UniqueInverseResult:
    """The distinct elements, and the number of the distinct element at each position.

    Returns: ``values`` and ``inverse_indices``, as for `unique_all`, including the derivative.

    >>> ag.unique_inverse(ag.tensor([3, 1, 3])).inverse_indices
    tensor([1, 0, 1])
    """
    found = unique_all(x)
    return UniqueInverseResult(found.values, found.inverse_indices)


@primitive("unique_values", facts=Facts(dynamic=True))
def unique_values(x: Any, /) -> Tensor:
    """The distinct elements.

    Returns: The values of `unique_all`, in its order, with its derivative.

    >>> ag.unique_values(ag.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    return unique_all(x).values


def _isin_batch(b: BatchedCall, x1: Any, x2: Any, /, **options: Any) -> Any:
    xp = b.xp
    if not b.has(x2):
        return b.kernel(x1.data, x2, **options)
    x1 = b.array(x1)
    found = b.flat(b.data(x2))
    found = xp.reshape(found, (b.size, *(1,) * x1.ndim, found.shape[1]))
    met = xp.any(xp.expand_dims(b.data(x1), axis=-1) == found, axis=-1)
    return xp.logical_not(met) if options.get("invert") else met


@nondifferentiable("x1", "x2", name="isin", batch=_isin_batch, memory="fresh", facts=Facts(since="2025.12"))
def _isin(x1: Any, x2: Any, /) -> Tensor:
    """Whether each element of one is among those of the other."""


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is among those of `x2`.

    x1, x2 : Tensor or scalar
        At least one of them a Tensor. The standard requires integers; most backends accept other dtypes too.
    invert : bool, optional
        Whether each is *not* among them.
    Returns: Booleans, of the shape of `x1`.
    Elements are the same if they are equal: NaN is never an element, and 0.0 equals -0.0.

    >>> ag.isin(ag.tensor([1, 2, 3]), ag.tensor([3, 1]))
    tensor([ True, False,  True])
    """
    found = _isin(x1, x2)
    return logical_not(found) if invert else found


complete(globals(), {"x": "Tensor\n    Taken as if flattened."}, source="Source: array API 2025.12, Set Functions.")
