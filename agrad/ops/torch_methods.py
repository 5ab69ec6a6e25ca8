"""Methods of `Tensor` that PyTorch has and the standard does not: each one line over a function, under PyTorch's words.

Arguments are PyTorch's in their order (``dim``, ``keepdim``), and so are the semantics where libraries differ: ``sort``
returns values and indices, ``split`` takes the length of a part. Where the standard has a function of the same name,
its ``axis`` and ``keepdims`` are accepted too. In-place spellings rebind the tensor to the result; see
``core.buffers.rebind``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from agrad import dtypes
from agrad.core.buffers import check_leaf, rebind
from agrad.core.cpython import getframe, takes_a_pair
from agrad.core.entry import instead, make_operator
from agrad.core.errors import called, check_meaning, warn_meaning
from agrad.core.methods import Picked, Sorted
from agrad.core.names import refusing, unexpected
from agrad.core.op import OPS, frozen
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor, attached, bases
from agrad.numpy.protocol import numpys
from agrad.ops import (
    creation,
    data_type,
    elementwise,
    extra,
    linalg,
    manipulation,
    nn,
    pairs,
    searching,
    solving,
    special,
    statistical,
)
from agrad.ops.docs import complete, summary
from agrad.ops.extra.common import along, checked_axis
from agrad.ops.extra.selecting import overwritten

Axis = int | tuple[int, ...] | None

#: The meaning of an argument, by name: it is the same for all methods here.
ARGUMENTS = {
    "accumulate": "bool, optional\n    Add to the existing values; values at one position add up.",
    "include_self": "bool, optional\n    Whether the elements of this tensor count, too, at these positions.",
    "reduce": "str\n    How values at one position are combined: sum, mean, amax or amin.",
    "values": "Tensor or scalar\n    The values to put there.",
    "alpha": "scalar, optional\n    A factor for the added values.",
    "as_tuple": "bool, optional\n    Return a tuple with the indices along each axis, not a matrix with a row per element.",
    "axis": "int\n    The axis.",
    "chunks": "int\n    How many parts.",
    "condition": "Tensor\n    Boolean.",
    "data": "object\n    Numbers, an array or a tensor.",
    "decimals": "int, optional\n    Digits after the decimal point; negative: zeros before it.",
    "descending": "bool, optional\n    From the largest on.",
    "destination": "int or tuple of int\n    The new positions of the axes.",
    "device": "int or str, optional\n    The device.",
    "diagonal": "int, optional\n    0 is the main diagonal; positive ones lie above.",
    "dim": "int\n    The axis.",
    "dim0": "int\n    One axis.",
    "dim1": "int\n    One axis.",
    "dim2": "int\n    Another axis.",
    "dims": "int, or tuple of int\n    One entry per axis.",
    "dtype": "dtype, optional\n    The dtype. Default: that of this tensor.",
    "end": "Tensor\n    The other end.",
    "equal_nan": "bool, optional\n    Whether NaN equals NaN.",
    "fill_value": "scalar\n    The value of all elements.",
    "atol": "float, optional\n    Absolute tolerance.",
    "rtol": "float, optional\n    Relative tolerance.",
    "index": "Tensor or int\n    Integers.",
    "indices": "Tensor\n    Integers.",
    "k": "int\n    How many.",
    "keepdim": "bool, optional\n    Keep reduced axes with length 1.",
    "largest": "bool, optional\n    False returns the smallest.",
    "length": "int\n    How many entries.",
    "mask": "Tensor\n    Boolean; it broadcasts with this tensor.",
    "mat1": "Tensor\n    A matrix.",
    "mat2": "Tensor\n    A matrix.",
    "max": "Tensor or scalar\n    The upper bound; None means no bound.",
    "min": "Tensor or scalar\n    The lower bound; None means no bound.",
    "beta": "scalar, optional\n    A factor for this tensor.",
    "memory_format": "object, optional\n    Not looked at.",
    "n": "int\n    The exponent.",
    "p": "float or str, optional\n    Which norm.",
    "nan": "float, optional\n    In place of NaN.",
    "neginf": "float, optional\n    In place of -inf. Default: the smallest number.",
    "offset": "int, optional\n    0 is the main diagonal; positive ones lie above.",
    "other": "Tensor or scalar\n    The other operand.",
    "posinf": "float, optional\n    In place of inf. Default: the largest number.",
    "repeats": "int or Tensor\n    How often.",
    "requires_grad": "bool, optional\n    Whether to record operations on the result.",
    "rounding_mode": "None, 'floor' or 'trunc', optional\n    How to round the quotient.",
    "shape": "tuple of int\n    The shape.",
    "shifts": "int or tuple of int\n    The number of positions.",
    "size": "int, or one tuple of int\n    The shape.",
    "sizes": "tuple of int\n    The new lengths.",
    "sorted": "bool, optional\n    They are sorted in any case.",
    "source": "Tensor\n    The values to put or to add; for `moveaxis` the axes to move.",
    "split_size": "int or sequence of int\n    The length of a part (the last may be shorter), or of each.",
    "src": "Tensor or scalar\n    The values to put there.",
    "stable": "bool, optional\n    Keep the order of equal elements; it is kept in any case.",
    "start": "int\n    The first entry.",
    "tensor1": "Tensor\n    The first factor.",
    "tensor2": "Tensor\n    The second factor, or the divisor.",
    "value": "Tensor or scalar\n    The values to put there, or a factor.",
    "vec": "Tensor\n    A vector.",
    "weight": "Tensor or scalar\n    0 gives this tensor, 1 the other end.",
}

#: And of the methods that also have the standard's names.
REDUCTION_ARGUMENTS = {
    "ddof": "float, optional\n    NumPy's name of `correction`.",
    "axis": "int or tuple of int, optional\n    The axes. Default: all.",
    "correction": "float, optional\n    What to take from the number of elements: the standard's 0, not PyTorch's 1.",
    "dim": "int or tuple of int, optional\n    PyTorch's name of `axis`.",
    "dtype": "dtype, optional\n    The dtype of the sum.",
    "keepdim": "bool, optional\n    PyTorch's name of `keepdims`.",
    "keepdims": "bool, optional\n    Keep reduced axes with length 1.",
    "unbiased": "bool, optional\n    PyTorch's word for a correction of 1 (True) or 0.",
}


@attached
class Reductions:
    """Methods with PyTorch's names of arguments and the standard's; NumPy's positional ``out=None`` does not count as `keepdims`."""

    @refusing
    def sum(
        self: Any,
        axis: Axis = None,
        dtype: Any = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        initial: Any = None,
        where: Any = True,
        **unknown: Any,
    ) -> Tensor:
        """Sum over axes; see `agrad.sum`.

        initial, where: As of ``numpy.sum``.
        """
        if unknown:
            raise unexpected("Tensor.sum", unknown)
        if where is not True or initial is not None:
            return _numpys("sum", self, _one("sum", axis, dim, keepdims, keepdim), where, dtype=dtype, initial=initial)
        return statistical.sum(self, axis, dtype=dtype, keepdims=keepdims or False, dim=dim, keepdim=keepdim)

    @refusing
    def mean(
        self: Any,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        dtype: Any = None,
        where: Any = True,
        **unknown: Any,
    ) -> Tensor:
        """Mean over axes; see `agrad.mean`.

        dtype, where: As of ``numpy.mean``.
        """
        if unknown:
            raise unexpected("Tensor.mean", unknown)
        if where is not True or dtype is not None:
            return _numpys("mean", self, _one("mean", axis, dim, keepdims, keepdim), where, dtype=dtype)
        return statistical.mean(self, axis, keepdims=keepdims or False, dim=dim, keepdim=keepdim)

    @refusing
    def prod(
        self: Any,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        dtype: Any = None,
        initial: Any = None,
        where: Any = True,
        **unknown: Any,
    ) -> Tensor:
        """Product over axes; see `agrad.prod`.

        dtype, initial, where: As of ``numpy.prod``.
        """
        if unknown:
            raise unexpected("Tensor.prod", unknown)
        if where is not True or initial is not None or dtype is not None:
            return _numpys(
                "prod", self, _one("prod", axis, dim, keepdims, keepdim), where, dtype=dtype, initial=initial
            )
        return statistical.prod(self, axis, keepdims=keepdims or False, dim=dim, keepdim=keepdim)

    @refusing
    def max(
        self: Any,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool | None = None,
        initial: Any = None,
        where: Any = True,
        **unknown: Any,
    ) -> Any:
        """Largest element over axes; see `agrad.max`.

        dim : int, optional
            PyTorch's: return the pair ``values``, ``indices`` along this axis; the gradient goes to the element picked.
        keepdim : bool, optional
            PyTorch's name of `keepdims`, which requests the pair as well.
        initial, where: As of ``numpy.max``. A positional axis is the standard's: only the values are returned, and ties
        share the gradient evenly.
        """
        if unknown:
            raise unexpected("Tensor.max", unknown)
        if dim is not None or keepdim is not None:
            return _pair("max", pairs.largest, self, axis, dim, keepdims, keepdim)
        if axis is not None and axis.__class__ is not tuple:
            axis = _standards("max", self, axis)
        if where is not True or initial is not None:
            return _numpys("max", self, (axis, keepdims or False), where, initial=initial)
        return statistical.max(self, axis=axis, keepdims=keepdims or False)

    @refusing
    def min(
        self: Any,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool | None = None,
        initial: Any = None,
        where: Any = True,
        **unknown: Any,
    ) -> Any:
        """Smallest element over axes; see `agrad.min`.

        dim : int, optional
            PyTorch's: return the pair ``values``, ``indices`` along this axis; the gradient goes to the element picked.
        keepdim : bool, optional
            PyTorch's name of `keepdims`, which requests the pair as well.
        initial, where: As of ``numpy.min``. A positional axis is the standard's: only the values are returned, and ties
        share the gradient evenly.
        """
        if unknown:
            raise unexpected("Tensor.min", unknown)
        if dim is not None or keepdim is not None:
            return _pair("min", pairs.smallest, self, axis, dim, keepdims, keepdim)
        if axis is not None and axis.__class__ is not tuple:
            axis = _standards("min", self, axis)
        if where is not True or initial is not None:
            return _numpys("min", self, (axis, keepdims or False), where, initial=initial)
        return statistical.min(self, axis=axis, keepdims=keepdims or False)

    @refusing
    def var(
        self: Any,
        axis: Axis = None,
        correction: float | None = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        unbiased: bool | None = None,
        ddof: float | None = None,
        dtype: Any = None,
        where: Any = True,
        **unknown: Any,
    ) -> Tensor:
        """Variance over axes; see `agrad.var`.

        dtype, where: As of ``numpy.var``.
        """
        if unknown:
            raise unexpected("Tensor.var", unknown)
        if axis is True or axis is False:  # PyTorch's x.var(unbiased)
            axis, unbiased = None, axis
        correction = _correction("var", axis, correction, unbiased, ddof, numpys=where is not True or dtype is not None)
        if dim is not None or keepdim or isinstance(axis, list):
            axis, keepdims = _one("var", axis, dim, keepdims, keepdim)
        if where is not True or dtype is not None:
            return _numpys("var", self, (axis, keepdims or False), where, dtype=dtype, ddof=correction)
        return statistical.var(self, axis=axis, correction=correction, keepdims=keepdims or False)

    @refusing
    def std(
        self: Any,
        axis: Axis = None,
        correction: float | None = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        unbiased: bool | None = None,
        ddof: float | None = None,
        dtype: Any = None,
        where: Any = True,
        **unknown: Any,
    ) -> Tensor:
        """Standard deviation over axes; see `agrad.std`.

        dtype, where: As of ``numpy.std``.
        """
        if unknown:
            raise unexpected("Tensor.std", unknown)
        if axis is True or axis is False:  # PyTorch's x.std(unbiased)
            axis, unbiased = None, axis
        correction = _correction("std", axis, correction, unbiased, ddof, numpys=where is not True or dtype is not None)
        if dim is not None or keepdim or isinstance(axis, list):
            axis, keepdims = _one("std", axis, dim, keepdims, keepdim)
        if where is not True or dtype is not None:
            return _numpys("std", self, (axis, keepdims or False), where, dtype=dtype, ddof=correction)
        return statistical.std(self, axis=axis, correction=correction, keepdims=keepdims or False)

    @refusing
    def all(
        self: Any,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        where: Any = True,
        **unknown: Any,
    ) -> Tensor:
        """Whether all elements are true; see `agrad.all`.

        where: As of ``numpy.all``.
        Returns: Boolean.
        """
        if unknown:
            raise unexpected("Tensor.all", unknown)
        if where is not True:
            return _numpys("all", self, _one("all", axis, dim, keepdims, keepdim), where)
        return statistical.all(self, axis, keepdims=keepdims or False, dim=dim, keepdim=keepdim)

    @refusing
    def any(
        self: Any,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        where: Any = True,
        **unknown: Any,
    ) -> Tensor:
        """Whether any element is true; see `agrad.any`.

        where: As of ``numpy.any``.
        Returns: Boolean.
        """
        if unknown:
            raise unexpected("Tensor.any", unknown)
        if where is not True:
            return _numpys("any", self, _one("any", axis, dim, keepdims, keepdim), where)
        return statistical.any(self, axis, keepdims=keepdims or False, dim=dim, keepdim=keepdim)

    @refusing
    def argmax(
        self: Any,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool = False,
        **unknown: Any,
    ) -> Tensor:
        """The index of the largest element; see `agrad.argmax`.

        Returns: Integer.
        """
        if unknown:
            raise unexpected("Tensor.argmax", unknown)
        return searching.argmax(self, axis, keepdims=keepdims or False, dim=dim, keepdim=keepdim)

    @refusing
    def argmin(
        self: Any,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool = False,
        **unknown: Any,
    ) -> Tensor:
        """The index of the smallest element; see `agrad.argmin`.

        Returns: Integer.
        """
        if unknown:
            raise unexpected("Tensor.argmin", unknown)
        return searching.argmin(self, axis, keepdims=keepdims or False, dim=dim, keepdim=keepdim)

    @refusing
    def cumsum(
        self: Any, axis: int | None = None, dtype: Any = None, *, dim: int | None = None, **unknown: Any
    ) -> Tensor:
        """Running sum along an axis; see `agrad.cumulative_sum`.

        axis : int, optional
            The axis. Default: all elements, counted in rows.
        """
        if unknown:
            raise unexpected("Tensor.cumsum", unknown)
        return _running(self, "cumsum", statistical.cumulative_sum, _one("cumsum", axis, dim)[0], dtype)

    @refusing
    def cumprod(
        self: Any, axis: int | None = None, dtype: Any = None, *, dim: int | None = None, **unknown: Any
    ) -> Tensor:
        """Running product along an axis; see `agrad.cumulative_prod`.

        axis : int, optional
            The axis. Default: all elements, counted in rows.
        """
        if unknown:
            raise unexpected("Tensor.cumprod", unknown)
        return _running(self, "cumprod", statistical.cumulative_prod, _one("cumprod", axis, dim)[0], dtype)

    @refusing
    def squeeze(self: Any, dim: Axis = None, *, axis: Axis = None, **unknown: Any) -> Tensor:
        """Axes of length 1 removed; see `agrad.squeeze`.

        dim : int or tuple of int, optional
            The axes; those that are longer stay, as in PyTorch. Default: all.
        axis: The same under the standard's name: each of length 1.
        ValueError: If one of `axis` is longer than 1.
        """
        if unknown:
            raise unexpected("Tensor.squeeze", unknown)
        if axis is None:
            axes = range(self.ndim) if dim is None else frozen(dim if isinstance(dim, tuple | list) else (dim,))
            axis = tuple(i for i in axes if self.shape[_checked(self, i, "squeeze")] == 1)
        return manipulation.squeeze(self, frozen(axis))


@attached
class Picking:
    """Methods that take elements, or return a copy with other elements at some positions."""

    def gather(self: Any, dim: int, index: Any) -> Tensor:
        """Take elements at indices along an axis, with a separate index for each position along the others; see `agrad.gather`."""
        return extra.gather(self, dim, index)

    def take_along_dim(self: Any, indices: Any, dim: int | None = None) -> Tensor:
        """Elements at indices along an axis; see `agrad.take_along_axis`."""
        if dim is None:
            return searching.take(manipulation.reshape(self, (-1,)), manipulation.reshape(indices, (-1,)))
        return searching.take_along_axis(self, indices, axis=dim)

    def index_select(self: Any, dim: int, index: Any) -> Tensor:
        """Entries along an axis, at a vector of indices; see `agrad.index_select`."""
        return extra.index_select(self, dim, index)

    def index_add(self: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
        """A copy with entries added along an axis, at a vector of indices; entries at one index add up."""
        source = _source(self, dim, index, source, alpha)
        return elementwise.add(self, searching.scatter_add(self._spec, _key(self, dim, index), source))

    def to_sparse(self: Any) -> Any:
        """Convert a matrix to a sparse one that stores the nonzero elements; see `agrad.sparse.SparseTensor`."""
        from agrad.ops.sparse import of_dense  # noqa: PLC0415 (most programs have no sparse matrices)

        return of_dense(self)

    def index_copy(self: Any, dim: int, index: Any, source: Any) -> Tensor:
        """A copy with entries replaced along an axis, at a vector of indices."""
        return searching.setitem(self, _key(self, dim, index), source)

    def index_fill(self: Any, dim: int, index: Any, value: Any) -> Tensor:
        """A copy with entries set to a value along an axis, at a vector of indices."""
        return searching.setitem(self, _key(self, dim, index), value)

    def masked_select(self: Any, mask: Any) -> Tensor:
        """Elements where a mask is true, as a vector; see `agrad.masked_select`."""
        return extra.masked_select(self, mask)

    def scatter(self: Any, dim: int, index: Any, src: Any) -> Tensor:
        """A copy with elements put at indices along an axis; see `agrad.extra.scatter`."""
        return extra.scatter(self, dim, index, src)

    def scatter_add(self: Any, dim: int, index: Any, src: Any) -> Tensor:
        """A copy with elements added at indices along an axis; see `agrad.extra.scatter_add`."""
        return extra.scatter_add(self, dim, index, src)

    def scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
        """A copy with elements combined at indices along an axis; see `agrad.extra.scatter_add`.

        NotImplementedError: For ``"prod"``.
        ValueError: For another word.
        """
        return extra.scatter_reduce(self, dim, index, src, reduce, include_self)

    def index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
        """A copy with ``x[indices] = values`` done.

        indices : tuple of Tensor
            A key: an index, or a mask, for each of the first axes.
        """
        key = tuple(indices)
        if not accumulate:
            return searching.setitem(self, key, values)
        values = manipulation.broadcast_to(as_operand(values, self), searching.getitem(self.detach(), key).shape)
        return elementwise.add(
            self, searching.scatter_add(self._spec, key, data_type.astype(values, self.dtype, copy=False))
        )

    def select(self: Any, dim: int, index: int) -> Tensor:
        """One entry along an axis, without the axis."""
        return searching.getitem(self, _at(self, dim, operator.index(index)))

    def narrow(self: Any, dim: int, start: int, length: int) -> Tensor:
        """Some entries along an axis, from one on."""
        axis = _checked(self, dim, "narrow")
        size = self.shape[axis]
        first = start + size if start < 0 else start
        if length < 0 or not 0 <= first <= size - length:
            raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).{called()}")
        return searching.getitem(self, _at(self, axis, slice(first, first + length)))

    def where(self: Any, condition: Any, other: Any) -> Tensor:
        """Where a condition holds this tensor, elsewhere another; see `agrad.where`."""
        return searching.where(condition, self, other)

    def nonzero(self: Any, *, as_tuple: bool | None = None) -> Any:
        """Indices of the nonzero elements; see `agrad.nonzero`, which returns a tuple.

        TypeError: In code for NumPy, without `as_tuple`: NumPy returns the tuple.
        """
        if as_tuple is None:
            check_meaning(
                "np.nonzero(x), which gives a tuple, as NumPy's x.nonzero() does",
                "np.argwhere(x), which gives a matrix, as PyTorch's does",
            )
        found = searching.nonzero(self)
        return found if as_tuple else manipulation.stack(found, axis=1)

    def masked_fill(self: Any, mask: Any, value: Any) -> Tensor:
        """A copy with `value` where a mask is true; see `agrad.extra.masked_fill`.

        TypeError: If the mask is not boolean.
        """
        return extra.masked_fill(self, mask, value)


@attached
class Ordering:
    """Methods that sort, or find elements by their rank."""

    @refusing
    def sort(self: Any, dim: int = -1, descending: bool = False, *, stable: bool = True, **unknown: Any) -> Sorted:
        """Sorted along an axis: values and indices. `agrad.sort` returns only values.

        TypeError: In code for NumPy, whose method sorts in place.
        """
        if unknown:
            raise unexpected("Tensor.sort", unknown)
        check_meaning(
            "x = np.sort(x) for NumPy's x.sort(), which sorts in place",
            "np.sort(x) and np.argsort(x) for the values and indices that PyTorch's gives",
        )
        return pairs.in_order(self, dim, descending)

    @refusing
    def median(self: Any, dim: int | None = None, keepdim: bool = False, **unknown: Any) -> Any:
        """The middle element, for an even count the lower one, as in PyTorch; `agrad.median` returns the mean of the two.

        dim : int, optional
            The axis. Default: over all elements.
        Returns: The value; along an axis the pair ``values``, ``indices``. NaN where an element is NaN.
        """
        if unknown:
            raise unexpected("Tensor.median", unknown)
        if dim is not None:
            return pairs.middle(self, dim, keepdim)
        if self._spec.inexact:
            return extra.quantile(self, 0.5, method="lower")
        return pairs.middle(manipulation.reshape(self, (-1,)), 0).values

    @refusing
    def mode(self: Any, dim: int = -1, keepdim: bool = False, **unknown: Any) -> Picked:
        """The most frequent element along an axis, the smallest of several.

        Returns: ``values`` and ``indices``, the last of each.
        """
        if unknown:
            raise unexpected("Tensor.mode", unknown)
        return pairs.most_frequent(self, dim, keepdim)

    def kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Picked:
        """The k-th smallest element along an axis, and its index.

        Returns: ``values`` and ``indices``.
        RuntimeError: If there are fewer elements.
        """
        return pairs.kth(self, k, dim, keepdim)

    def cummax(self: Any, dim: int) -> Picked:
        """The largest element so far along an axis, and its index; of equal ones the last.

        Returns: ``values`` and ``indices``.
        """
        return pairs.running_largest(self, dim)

    def cummin(self: Any, dim: int) -> Picked:
        """The smallest element so far along an axis, and its index; of equal ones the last.

        Returns: ``values`` and ``indices``.
        """
        return pairs.running_smallest(self, dim)

    @refusing
    def argsort(
        self: Any,
        dim: int | None = -1,
        descending: bool | str = False,
        *,
        stable: bool = True,
        axis: int | None = -1,
        kind: str | None = None,
        **unknown: Any,
    ) -> Tensor:
        """The indices that sort along an axis; see `agrad.argsort`.

        dim : int or None, optional
            The axis; None for all elements, counted in rows.
        descending : bool, optional
            Begin with the largest. A string is NumPy's `kind`, which has this position.
        axis : int or None, optional
            As `dim`.
        kind : str, optional
            Not looked at.
        """
        if unknown:
            raise unexpected("Tensor.argsort", unknown)
        dim = dim if axis == -1 else axis
        x = self.detach()
        if dim is None:
            x, dim = x.ravel(), -1
        found: Sorted = x.sort(dim, descending=not isinstance(descending, str) and descending)
        return found.indices

    @refusing
    def topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, **unknown: Any) -> Any:
        """The largest elements along an axis: values and indices; see `agrad.topk`."""
        if unknown:
            raise unexpected("Tensor.topk", unknown)
        return extra.topk(self, k, dim, largest, sorted)


@attached
class ReductionsByDim:
    """Reductions that only have PyTorch's names of arguments."""

    @refusing
    def amax(self: Any, dim: Any = None, keepdim: bool = False, **unknown: Any) -> Tensor:
        """Largest element over axes; see `agrad.max`."""
        if unknown:
            raise unexpected("Tensor.amax", unknown)
        return statistical.max(self, axis=frozen(dim), keepdims=keepdim)

    @refusing
    def amin(self: Any, dim: Any = None, keepdim: bool = False, **unknown: Any) -> Tensor:
        """Smallest element over axes; see `agrad.min`."""
        if unknown:
            raise unexpected("Tensor.amin", unknown)
        return statistical.min(self, axis=frozen(dim), keepdims=keepdim)

    def logsumexp(self: Any, dim: Any, keepdim: bool = False) -> Tensor:
        """The logarithm of the sum of exponentials over axes; see `agrad.special.logsumexp`."""
        return special.logsumexp(self, axis=frozen(dim), keepdims=keepdim)

    @refusing
    def count_nonzero(self: Any, dim: Any = None, **unknown: Any) -> Tensor:
        """Count the nonzero elements; see `agrad.count_nonzero`."""
        if unknown:
            raise unexpected("Tensor.count_nonzero", unknown)
        return searching.count_nonzero(self, axis=frozen(dim))

    def softmax(self: Any, dim: int, dtype: Any = None) -> Tensor:
        """Exponentials that sum to 1 along an axis; see `agrad.softmax`."""
        return extra.softmax(self, dim, dtype=dtype)

    def log_softmax(self: Any, dim: int, dtype: Any = None) -> Tensor:
        """The logarithm of `softmax`; see `agrad.log_softmax`."""
        return extra.log_softmax(self, dim, dtype=dtype)


@attached
class Shapes:
    """Methods that arrange the same elements in another shape, repeat them, or take them apart."""

    def reshape(self: Any, *shape: Any, order: str = "C") -> Tensor:
        """The same elements in another shape; see `agrad.reshape`.

        *shape : int, or one tuple of int
            The shape; one entry may be -1.
        order : {'C', 'F', 'A'}, optional
            'F' counts the elements in columns, as in NumPy.
        """
        if order != "C":
            return numpys("reshape")(self, shape_of(shape), order)
        return manipulation.reshape(self, shape_of(shape))

    def view(self: Any, *shape: Any) -> Tensor:
        """As `reshape`; results never alias here.

        *shape : int, or one tuple of int
            The shape; one entry may be -1. Default: that of the tensor.
        TypeError: If a dtype is passed: NumPy's and PyTorch's views of other dtypes reinterpret memory.
        """
        try:
            asked = shape_of(shape) if shape else self.shape
        except TypeError as error:
            raise TypeError(
                f"{error}\n  view(dtype) looks at memory, which tensors do not show: x.astype(dtype) converts the elements;"
                f" agrad.real and agrad.imag give the parts of complex numbers.{called()}"
            ) from None
        return manipulation.reshape(self, asked)

    def reshape_as(self: Any, other: Tensor) -> Tensor:
        """`reshape` to the shape of another tensor."""
        return manipulation.reshape(self, other.shape)

    def view_as(self: Any, other: Tensor) -> Tensor:
        """`reshape` to the shape of another tensor."""
        return manipulation.reshape(self, other.shape)

    def flatten(self: Any, start_dim: int | str = 0, end_dim: int = -1, *, order: str = "C") -> Tensor:
        """Merge axes from `start_dim` to `end_dim`; see `agrad.extra.flatten`.

        start_dim, end_dim : int, optional
            The first and the last of them. Default: all axes. A string is NumPy's `order`, which has the first
            position.
        order : {'C', 'F', 'A', 'K'}, optional
            'F' counts the elements in columns, as in NumPy.
        """
        if isinstance(start_dim, str) or order != "C":
            made: Tensor = numpys("ravel")(self, start_dim if isinstance(start_dim, str) else order)
        else:
            made = extra.flatten(self, start_dim, end_dim)
        made._base = (*bases(self), True)
        return made

    def ravel(self: Any, order: str = "C") -> Tensor:
        """All elements as a vector.

        order : {'C', 'F', 'A', 'K'}, optional
            'F' counts the elements in columns, as in NumPy.
        """
        if order != "C":
            return numpys("ravel")(self, order)
        return manipulation.reshape(self, (-1,))

    def unflatten(self: Any, dim: int, sizes: Sequence[int]) -> Tensor:
        """Split one axis into several; see `agrad.extra.unflatten`."""
        return extra.unflatten(self, dim, sizes)

    def permute(self: Any, *axes: Any, dims: Any = None) -> Tensor:
        """The axes in another order; see `agrad.permute_dims`.

        *axes : int, or one tuple of int
            For each axis of the result, its number in this tensor.
        dims : tuple of int, optional
            The same by name.
        """
        return manipulation.permute_dims(self, shape_of(axes) if dims is None else tuple(dims))

    def transpose(self: Any, dim0: int | tuple[int, ...] | None = None, dim1: int | None = None, *axes: int) -> Tensor:
        """Two axes exchanged; or, as NumPy spells it, all axes in the order of a tuple, or of three arguments and more.

        dim0 : int or tuple of int
            The one axis; or, without `dim1`, all axes in their new order.
        dim1 : int, optional
            The other axis.
        *axes : int
            The rest of the new order. Without any argument the order is reversed.
        TypeError: ``x.transpose(0, 1)`` of a matrix, in code for NumPy, where it is `x` itself.
        """
        if axes:
            return manipulation.permute_dims(self, (dim0, dim1, *axes))  # type: ignore[arg-type]
        if dim0 is None:
            return manipulation.permute_dims(self, tuple(range(self.ndim))[::-1])
        if dim1 is None:
            return manipulation.permute_dims(self, shape_of((dim0,)))
        if not isinstance(dim0, int):
            raise TypeError(f"transpose() takes two axes, or one tuple of all axes, not {dim0!r} and {dim1!r}")
        order = list(range(self.ndim))
        i, j = (checked_axis("transpose", axis, self.ndim) for axis in (dim0, dim1))
        if self.ndim == 2 and i < j:
            check_meaning(
                "x for NumPy's x.transpose(0, 1), which names the axes in their new order",
                "x.T, which exchanges the two, as PyTorch's does",
            )
        order[i], order[j] = j, i
        return manipulation.permute_dims(self, tuple(order))

    def t(self: Any) -> Tensor:
        """The transpose of a matrix.

        Returns: This tensor itself, if it has fewer than two axes.
        ValueError: If it has more than two.
        """
        return self if self.ndim < 2 else self.T

    def unsqueeze(self: Any, dim: int) -> Tensor:
        """A new axis of length 1; see `agrad.expand_dims`.

        dim: Its position in the result.
        """
        return manipulation.expand_dims(self, axis=dim)

    def expand(self: Any, *shape: Any) -> Tensor:
        """Broadcast to a shape; see `agrad.broadcast_to`.

        *shape : int, or one tuple of int
            The shape; -1 keeps the length of an axis.
        RuntimeError: For a -1 in place of a new axis.
        """
        wanted = shape_of(shape)
        lead = len(wanted) - self.ndim
        if -1 in wanted[: max(lead, 0)]:
            raise RuntimeError(
                f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension"
                f" {wanted.index(-1)}\n  expand{wanted} of a tensor of shape {self.shape}: name that length.{called()}"
            )
        full = tuple(self.shape[i - lead] if n == -1 else n for i, n in enumerate(wanted))
        return manipulation.broadcast_to(self, full)

    def expand_as(self: Any, other: Tensor) -> Tensor:
        """Broadcast to the shape of another tensor."""
        return manipulation.broadcast_to(self, other.shape)

    def broadcast_to(self: Any, shape: Any) -> Tensor:
        """Broadcast to a shape; see `agrad.broadcast_to`."""
        return manipulation.broadcast_to(self, tuple(shape))

    def tile(self: Any, *dims: Any) -> Tensor:
        """The whole repeated along each axis; see `agrad.tile`."""
        return manipulation.tile(self, shape_of(dims))

    def repeat(self: Any, *repetitions: Any) -> Tensor:
        """The whole repeated along each axis: PyTorch's meaning, which is the standard's `agrad.tile`.

        *repetitions : int, or one tuple of int
            How often along each axis.
        RuntimeError: If there are fewer numbers than axes.
        TypeError: In code for NumPy: NumPy's repeats each element.
        """
        check_meaning(
            "np.repeat(x, 2), which repeats each element, as NumPy's x.repeat(2) does",
            "x.tile(2), which repeats the whole, as PyTorch's does",
        )
        times = shape_of(repetitions)
        if len(times) < self.ndim:
            raise RuntimeError(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor\n"
                f"  repeat{times} of shape {self.shape}: x.tile{times} takes 1 for the others.{called()}"
            )
        return manipulation.tile(self, times)

    def unbind(self: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """The slices along an axis; see `agrad.unstack`.

        dim: Default: the first.
        Returns: The slices, without the axis.
        """
        return manipulation.unstack(self, axis=dim)

    def chunk(self: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Split along an axis into at most this many parts; see `agrad.chunk`."""
        return extra.chunk(self, chunks, dim)

    def split(self: Any, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Split along an axis into parts of a length; NumPy's `agrad.extra.split` takes their number."""
        axis = _checked(self, dim, "split")
        size = self.shape[axis]
        if isinstance(split_size, int):
            if split_size < 0 or (split_size == 0 and size):
                raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
            lengths = [min(split_size, size - i) for i in range(0, size, max(split_size, 1))] or [0]
        else:
            lengths = [operator.index(n) for n in split_size]
            if sum(lengths) != size or any(n < 0 for n in lengths):
                raise RuntimeError(
                    "split_with_sizes expects split_sizes to sum exactly to"
                    f" {size} (input tensor's size at dimension {dim}), but got split_sizes={lengths}{called()}"
                )
        stops = [sum(lengths[: i + 1]) for i in range(len(lengths))]
        return tuple(
            searching.getitem(self, _at(self, axis, slice(stop - n, stop)))
            for n, stop in zip(lengths, stops, strict=True)
        )

    def unfold(self: Any, dimension: int, size: int, step: int) -> Tensor:
        """Windows along an axis, whose elements lie along a new last axis.

        dimension : int
            The axis, which then counts the windows.
        size : int
            The length of a window.
        step : int
            From one window to the next.
        RuntimeError: If the axis is shorter than a window, or `step` is not positive.
        """
        axis = _checked(self, dimension, "unfold")
        length = self.shape[axis]
        if not 0 <= size <= length:
            raise RuntimeError(
                f"maximum size for tensor at dimension {axis} is {length} but size is {size}\n  unfold() needs room for one"
                f" window.{called()}"
            )
        if step <= 0:
            raise RuntimeError(f"step is {step} but must be > 0{called()}")
        starts = range(0, length - size + 1, step)
        places = creation.asarray(
            [start + i for start in starts for i in range(size)], dtype="int64", device=self.device
        )
        windows = searching.take(self, places, axis=axis)
        windows = manipulation.reshape(windows, (*self.shape[:axis], len(starts), size, *self.shape[axis + 1 :]))
        return manipulation.moveaxis(windows, axis + 1, -1)

    def repeat_interleave(self: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
        """Each element, or each entry along an axis, repeated; see `agrad.repeat`.

        output_size : int, optional
            Not looked at.
        """
        return manipulation.repeat(self, repeats, axis=dim)

    def flip(self: Any, *dims: Any) -> Tensor:
        """The order along axes reversed; see `agrad.flip`."""
        return manipulation.flip(self, axis=shape_of(dims))

    def roll(self: Any, shifts: Any, dims: Any = None) -> Tensor:
        """Shift elements along axes; those shifted out return at the other end; see `agrad.roll`."""
        return manipulation.roll(self, shifts, axis=dims)

    def moveaxis(self: Any, source: Any, destination: Any) -> Tensor:
        """Move axes to other positions; see `agrad.moveaxis`."""
        return manipulation.moveaxis(self, source, destination)

    movedim = moveaxis

    def swapaxes(self: Any, dim0: int, dim1: int) -> Tensor:
        """Two axes exchanged; see `agrad.swapaxes`."""
        return extra.swapaxes(self, dim0, dim1)

    swapdims = swapaxes

    def diagonal(
        self: Any,
        offset: int = 0,
        dim1: int = 0,
        dim2: int = 1,
        *,
        axis1: int | None = None,
        axis2: int | None = None,
    ) -> Tensor:
        """The diagonal over two axes, as the last axis; see `agrad.linalg.diagonal`.

        axis1, axis2 : int, optional
            As `dim1` and `dim2`.
        """
        axes = (dim1 if axis1 is None else axis1, dim2 if axis2 is None else axis2)
        return linalg.diagonal(manipulation.moveaxis(self, axes, (-2, -1)), offset=offset)

    def diag(self: Any, diagonal: int = 0) -> Tensor:
        """The diagonal of a matrix, or a matrix with this diagonal; see `agrad.diag`."""
        return extra.diag(self, k=diagonal)

    def tril(self: Any, diagonal: int = 0) -> Tensor:
        """The part of matrices on and below a diagonal; see `agrad.tril`."""
        return manipulation.tril(self, k=diagonal)

    def triu(self: Any, diagonal: int = 0) -> Tensor:
        """The part of matrices on and above a diagonal; see `agrad.triu`."""
        return manipulation.triu(self, k=diagonal)

    def contiguous(self: Any, memory_format: Any = None) -> Tensor:
        """Return this tensor itself: a value has no strides."""
        return self

    def is_contiguous(self: Any, memory_format: Any = None) -> bool:
        """Return True: a value has no strides."""
        return True

    def ndimension(self: Any) -> int:
        """The number of axes."""
        return len(self.shape)

    def nelement(self: Any) -> int:
        """The number of elements."""
        return self.size


@attached
class Elementwise:
    """Methods that act element by element."""

    @property
    def real(self: Any) -> Tensor:
        """Real part; this tensor itself, if it is not complex."""
        return elementwise.real(self) if self.is_complex() else self

    @property
    def imag(self: Any) -> Tensor:
        """Imaginary part."""
        return elementwise.imag(self)

    def conj(self: Any) -> Tensor:
        """Complex conjugate; see `agrad.conj`.

        Returns: This tensor itself, if it is not complex.
        """
        return elementwise.conj(self) if self.is_complex() else self

    def clone(self: Any, *, memory_format: Any = None) -> Tensor:
        """A copy that stays in the graph."""
        if not self._spec.inexact:
            return creation.asarray(self, copy=True)
        return elementwise.positive(self)

    def round(self: Any, decimals: int = 0) -> Tensor:
        """Round to the nearest number with this many decimals, halves to even; see `agrad.round`.

        TypeError: If the number of decimals is not 0, and the dtype is not floating-point.
        """
        return _rounded(self, decimals)

    def clamp(self: Any, min: Any = None, max: Any = None) -> Tensor:
        """Limit to a range; see `agrad.clip`."""
        return elementwise.clip(self, min, max)

    def clip(self: Any, min: Any = None, max: Any = None) -> Tensor:
        """Limit to a range; see `agrad.clip`."""
        return elementwise.clip(self, min, max)

    def sigmoid(self: Any) -> Tensor:
        """The logistic function; see `agrad.sigmoid`."""
        return nn.sigmoid(self)

    def relu(self: Any) -> Tensor:
        """The positive part; see `agrad.relu`."""
        return nn.relu(self)

    def rsqrt(self: Any) -> Tensor:
        """The reciprocal of the square root."""
        return elementwise.reciprocal(elementwise.sqrt(self))

    def reciprocal(self: Any) -> Tensor:
        """``1 / x``, of integers too, which become floats; the standard's `agrad.reciprocal` is for floats."""
        return elementwise.reciprocal(self if self._spec.inexact else self * 1.0)

    def exp2(self: Any) -> Tensor:
        """Powers of 2; see `agrad.special.exp2`."""
        return special.exp2(self)

    def erf(self: Any) -> Tensor:
        """Error function; see `agrad.special.erf`."""
        return special.erf(self)

    def erfc(self: Any) -> Tensor:
        """Complementary error function; see `agrad.special.erfc`."""
        return special.erfc(self)

    def erfinv(self: Any) -> Tensor:
        """Inverse error function; see `agrad.special.erfinv`."""
        return special.erfinv(self)

    def lgamma(self: Any) -> Tensor:
        """The logarithm of the absolute value of the gamma function; see `agrad.special.gammaln`."""
        return special.gammaln(self)

    def digamma(self: Any) -> Tensor:
        """The derivative of `lgamma`; see `agrad.special.psi`."""
        return special.psi(self)

    def logit(self: Any, eps: float | None = None) -> Tensor:
        """The inverse of `sigmoid`; see `agrad.special.logit`.

        eps : float, optional
            Limit to [eps, 1 - eps] first.
        """
        return special.logit(self if eps is None else elementwise.clip(self, eps, 1 - eps))

    def clamp_min(self: Any, min: Any) -> Tensor:
        """Limit from below; see `agrad.clip`."""
        return elementwise.clip(self, min, None)

    def clamp_max(self: Any, max: Any) -> Tensor:
        """Limit from above; see `agrad.clip`."""
        return elementwise.clip(self, None, max)

    def nan_to_num(self: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """Replace NaN and infinities by finite numbers; see `agrad.extra.nan_to_num`."""
        return extra.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)

    def lerp(self: Any, end: Any, weight: Any) -> Tensor:
        """A point between this tensor and another; see `agrad.lerp`."""
        return extra.lerp(self, end, weight)

    def addcmul(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """``self + value * tensor1 * tensor2``."""
        return self + tensor1 * tensor2 * value

    def addcdiv(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """``self + value * tensor1 / tensor2``."""
        return self + tensor1 / tensor2 * value

    def isclose(self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """Whether elements are equal up to tolerances; see `agrad.isclose`."""
        return extra.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

    def equal(self: Any, other: Any) -> bool:
        """Whether two tensors have the same shape and elements, as a Python boolean; `agrad.equal` and ``==`` compare each element."""
        return extra.array_equal(self, other)

    def allclose(self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether all elements are equal up to tolerances; see `agrad.allclose`."""
        return extra.allclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

    def add(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
        """``self + alpha * other``; see `agrad.add`."""
        return elementwise.add(self, other if alpha == 1 else other * alpha)

    def sub(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
        """``self - alpha * other``; see `agrad.subtract`."""
        return elementwise.subtract(self, other if alpha == 1 else other * alpha)

    subtract = sub

    def div(self: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """``self / other``, rounded down ("floor") or towards 0 ("trunc") if requested; see `agrad.divide`.

        ValueError: If `rounding_mode` is something else.
        """
        return _divided(self, other, rounding_mode)

    divide = div


@attached
class Matrices:
    """Products, norms and decompositions of matrices."""

    @property
    def mH(self: Any) -> Tensor:
        """The conjugate transpose of the last two axes."""
        return manipulation.matrix_transpose(elementwise.conj(self) if self._spec.is_complex else self)

    @property
    def is_cuda(self: Any) -> bool:
        """Whether it is on a CUDA device, one of the cupy backend."""
        return str(self.device).partition(":")[0] == "cupy"

    @property
    def is_xpu(self) -> bool:
        """False: no backend computes on Intel's devices."""
        return False

    @property
    def H(self: Any) -> Tensor:
        """The conjugate transpose of a matrix."""
        return elementwise.conj(self.T) if self.is_complex() else self.T

    def matmul(self: Any, other: Any) -> Tensor:
        """Matrix product; see `agrad.matmul`.

        other: The second factor.
        """
        return linalg.matmul(self, other)

    def mm(self: Any, mat2: Any) -> Tensor:
        """Product of two matrices; see `agrad.matmul`."""
        return linalg.matmul(self, mat2)

    def bmm(self: Any, mat2: Any) -> Tensor:
        """Products of matrices, one by one along the first axis; see `agrad.matmul`."""
        return linalg.matmul(self, mat2)

    def mv(self: Any, vec: Any) -> Tensor:
        """Product of a matrix and a vector; see `agrad.matmul`."""
        return linalg.matmul(self, vec)

    def dot(self: Any, other: Any) -> Tensor:
        """Sum of the products of two vectors; of more axes as ``numpy.dot``.

        other: The second factor, which is not conjugated.
        """
        if self._spec.shape and isinstance(other, Tensor) and 0 < len(other._spec.shape) < 3:
            return linalg.tensordot(self, other, axes=1)
        return numpys("dot")(self, other)

    @refusing
    def norm(
        self: Any, p: float | str = "fro", dim: Axis = None, keepdim: bool = False, dtype: Any = None, **unknown: Any
    ) -> Tensor:
        """The norm of all elements, or of the vectors along axes; see `agrad.linalg.vector_norm`.

        p : float or str, optional
            ``sum(abs(x)**p)**(1/p)``, also of matrices; "fro" is 2. "nuc" of a matrix is the sum of its singular values.
        dim : int or tuple of int, optional
            The axes. Default: all.
        dtype: Convert to this dtype first.
        Returns: Real.
        ValueError: If `p` is another string, or "nuc" of an operand that is not a matrix.
        Derivative: ``x / norm(x)`` of "fro"; 0 where the norm is 0, as in PyTorch.
        """
        if unknown:
            raise unexpected("Tensor.norm", unknown)
        x = self if dtype is None else data_type.astype(self, dtype, copy=False)
        if p == "nuc" and dim is None and self.ndim == 2:
            return linalg.matrix_norm(x, keepdims=keepdim, ord="nuc")
        p = 2 if p == "fro" else p
        if isinstance(p, str):
            raise ValueError(  # noqa: TRY004 (a bad value)
                f"norm() takes a number, 'fro' or, of a matrix, 'nuc', not {p!r} of shape {self.shape} and dim={dim};"
                f" agrad.linalg.matrix_norm has the norms of matrices{called()}"
            )
        return linalg.vector_norm(x, axis=frozen(dim), keepdims=keepdim, ord=p)

    def addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * self + alpha * (mat1 @ mat2)``; a `beta` of 0 keeps NaN of this tensor out."""
        return times_beta(self, beta) + alpha * linalg.matmul(mat1, mat2)

    def outer(self: Any, other: Any) -> Tensor:
        """All products of the elements of two vectors; see `agrad.linalg.outer`."""
        return linalg.outer(self, other)

    def trace(self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Tensor:
        """The sum of the diagonal over two axes, as ``numpy.trace``; `agrad.linalg.trace` takes the last two.

        axis1, axis2 : int, optional
            The axes. Default: the first two.
        out : Tensor, optional
            The tensor to write the result to.
        """
        return numpys("trace")(self, offset, axis1, axis2, dtype, out)

    def det(self: Any) -> Tensor:
        """Determinant; see `agrad.linalg.det`."""
        return solving.det(self)

    def inverse(self: Any) -> Tensor:
        """Inverse of a matrix; see `agrad.linalg.inv`."""
        return solving.inv(self)

    def matrix_power(self: Any, n: int) -> Tensor:
        """Power of a matrix; see `agrad.linalg.matrix_power`."""
        return solving.matrix_power(self, n)


@attached
class Conversions:
    """Other dtypes and devices, and new tensors like this one."""

    def to(
        self: Any,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        """Converted to a dtype, moved to a device, or both.

        *args : DType, backend's dtype, str or Tensor
            Dtypes and devices in any order; a tensor stands for its own.
        dtype, device : optional
            The same by name.
        non_blocking : bool, optional
            Ignored: a library's own queue decides when to wait.
        copy : bool, optional
            Return another tensor in any case.
        Returns: This tensor itself if there is nothing to do.
        """
        for arg in args:
            if isinstance(arg, Tensor):
                dtype, device = arg.dtype, arg.device
            elif isinstance(arg, str) and arg not in OPS and not hasattr(dtypes, arg):
                device = arg
            else:
                dtype = arg
        made = self if device is None else data_type.to_device(self, device)
        made = made if dtype is None else data_type.astype(made, dtype, copy=False)
        return made.clone() if copy and made is self else made

    def type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Tensor:
        """Converted to a dtype; the dtype itself is `dtype`, an attribute.

        dtype: The dtype.
        non_blocking : bool, optional
            Not looked at.
        Returns: This tensor itself, if it has the dtype already.
        TypeError: If no dtype is passed: PyTorch's class names, as ``'torch.FloatTensor'``, are not supported.
        """
        if dtype is None:
            raise TypeError(f"type() takes a dtype here; that of the tensor is x.dtype, {self.dtype}{called()}")
        return data_type.astype(self, dtype, copy=False)

    def type_as(self: Any, other: Tensor) -> Tensor:
        """Converted to the dtype of another tensor.

        Returns: This tensor itself, if it has the dtype already.
        """
        return data_type.astype(self, other.dtype, copy=False)

    def cpu(self: Any) -> Tensor:
        """Moved to the numpy backend.

        Returns: This tensor itself if it is already there.
        """
        return data_type.to_device(self, "numpy")

    def cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Tensor:
        """Moved to the cupy backend, which stands for PyTorch's ``cuda``.

        non_blocking : bool, optional
            Ignored: CuPy's own queue decides when to wait.
        """
        number = str(device).removeprefix("cuda").removeprefix(":") if device is not None else ""
        return data_type.to_device(self, f"cupy:{number}" if number else "cupy")

    def new_zeros(self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Zeros of a shape, of the dtype and on the device of this tensor."""
        return creation.zeros(shape_of(size), **_like(self, dtype, device, requires_grad))

    def new_ones(self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Ones of a shape, of the dtype and on the device of this tensor."""
        return creation.ones(shape_of(size), **_like(self, dtype, device, requires_grad))

    def new_empty(self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Uninitialised memory of a shape, of the dtype and on the device of this tensor."""
        return creation.empty(shape_of(size), **_like(self, dtype, device, requires_grad))

    def new_full(
        self: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """One value in a shape, of the dtype and on the device of this tensor."""
        return creation.full(shape_of((size,)), fill_value, **_like(self, dtype, device, requires_grad))

    def new_tensor(
        self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """A leaf of given values, of the dtype and on the device of this tensor."""
        return creation.tensor(data, **_like(self, dtype, device, requires_grad))


@attached
class InPlace:
    """In-place spellings: the tensor is rebound to the result of the method without the underscore."""

    def zero_(self: Any) -> Tensor:
        """Set to zeros."""
        return self.fill_(0)

    def fill_(self: Any, value: Any) -> Tensor:
        """Set every element to a value.

        value: The value.
        """
        return _changed(self, "fill_()", overwritten, value)

    def copy_(self: Any, source: Any) -> Tensor:
        """Set to the values of another tensor, broadcast and converted.

        source: The values; they stay in the graph.
        """
        check_leaf(self, "copy_()")
        if not isinstance(source, Tensor):
            source = creation.asarray(source, copy=True)  # the caller's array stays theirs
        if source._spec.backend is not self._spec.backend:
            source = data_type.to_device(source, self.device)
        made = manipulation.broadcast_to(data_type.astype(source, self.dtype, copy=False), self.shape)
        rebind(self, made, "copy_()")
        return self

    def add_(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
        """``self += alpha * other``."""
        return _changed(self, "add_()", elementwise.add, other if alpha == 1 else other * alpha)

    def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
        """``self -= alpha * other``."""
        return _changed(self, "sub_()", elementwise.subtract, other if alpha == 1 else other * alpha)

    def mul_(self: Any, other: Any) -> Tensor:
        """``self *= other``."""
        return _changed(self, "mul_()", elementwise.multiply, other)

    def div_(self: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """`div`, in place."""
        return _changed(self, "div_()", _divided, other, rounding_mode)

    def pow_(self: Any, other: Any) -> Tensor:
        """``self **= other``."""
        return _changed(self, "pow_()", elementwise.pow, other)

    def addcmul_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """``self += value * tensor1 * tensor2``."""
        return _changed(self, "addcmul_()", elementwise.add, tensor1 * tensor2 * value)

    def addcdiv_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """``self += value * tensor1 / tensor2``."""
        return _changed(self, "addcdiv_()", elementwise.add, tensor1 / tensor2 * value)

    def masked_fill_(self: Any, mask: Any, value: Any) -> Tensor:
        """Set to `value` where a mask is true."""
        return _changed(self, "masked_fill_()", extra.masked_fill, mask, value)

    def round_(self: Any, decimals: int = 0) -> Tensor:
        """`round`, in place."""
        return _changed(self, "round_()", _rounded, decimals)

    def clamp_(self: Any, min: Any = None, max: Any = None) -> Tensor:
        """`clamp`, in place."""
        return _changed(self, "clamp_()", elementwise.clip, min, max)

    def sigmoid_(self: Any) -> Tensor:
        """`sigmoid`, in place."""
        return _changed(self, "sigmoid_()", nn.sigmoid)

    def relu_(self: Any) -> Tensor:
        """`relu`, in place."""
        return _changed(self, "relu_()", nn.relu)

    def reciprocal_(self: Any) -> Tensor:
        """`reciprocal`, in place."""
        return _changed(self, "reciprocal_()", Tensor.reciprocal)

    def clamp_min_(self: Any, min: Any) -> Tensor:
        """`clamp_min`, in place."""
        return _changed(self, "clamp_min_()", elementwise.clip, min, None)

    def clamp_max_(self: Any, max: Any) -> Tensor:
        """`clamp_max`, in place."""
        return _changed(self, "clamp_max_()", elementwise.clip, None, max)

    def lerp_(self: Any, end: Any, weight: Any) -> Tensor:
        """`lerp`, in place."""
        return _changed(self, "lerp_()", extra.lerp, end, weight)

    def scatter_(self: Any, dim: int, index: Any, src: Any) -> Tensor:
        """`scatter`, in place."""
        return _changed(self, "scatter_()", extra.scatter, dim, index, src)

    def scatter_add_(self: Any, dim: int, index: Any, src: Any) -> Tensor:
        """`scatter_add`, in place."""
        return _changed(self, "scatter_add_()", extra.scatter_add, dim, index, src)

    def scatter_reduce_(self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
        """`scatter_reduce`, in place."""
        return _changed(
            self,
            "scatter_reduce_()",
            lambda x: x.scatter_reduce(dim, index, src, reduce, include_self=include_self),
        )

    def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
        """`index_put`, in place."""
        return _changed(self, "index_put_()", lambda x: x.index_put(indices, values, accumulate))

    def index_add_(self: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
        """`index_add`, in place."""
        return _changed(self, "index_add_()", lambda x: x.index_add(dim, index, source, alpha=alpha))

    def index_copy_(self: Any, dim: int, index: Any, source: Any) -> Tensor:
        """`index_copy`, in place."""
        return _changed(self, "index_copy_()", lambda x: x.index_copy(dim, index, source))

    def index_fill_(self: Any, dim: int, index: Any, value: Any) -> Tensor:
        """`index_fill`, in place."""
        return _changed(self, "index_fill_()", lambda x: x.index_fill(dim, index, value))


# -- what they share ------------------------------------------------------------------------------------------------------


def _one(name: str, axis: Any, dim: Any, keepdims: bool = False, keepdim: bool = False) -> tuple[Any, bool]:
    """Return axes and `keepdims`, given under either name, in the form for functions that accept both."""
    if dim is not None:
        axis = instead(name, "axis", axis, None, "dim", dim)
    if keepdim is not False:
        keepdims = instead(name, "keepdims", keepdims or False, False, "keepdim", keepdim)
    return frozen(axis), keepdims or False


def _pair(
    name: str, function: Callable[..., Any], x: Tensor, axis: Any, dim: Any, keepdims: Any, keepdim: bool | None
) -> Any:
    """Return the result of PyTorch's `max` along an axis, which may be positional."""
    dim, keepdim = _one(name, axis, dim, keepdims or False, keepdim or False)
    if dim is None:
        raise TypeError(f"{name}(): keepdim= needs PyTorch's dim=; the standard's is keepdims={called()}")
    return function(x, dim, keepdim)


def _standards(name: str, x: Tensor, axis: Any) -> Any:
    """Return the axis of a reduction in the standard's form; warn if unpacking two of its rows suggests PyTorch's pair."""
    if x.ndim > 1 and takes_a_pair(getframe(2)):
        warn_meaning(
            f"x.{name}({axis}) gives the values alone, as NumPy's and the standard's: this takes two of its rows. For"
            f" PyTorch's pair write x.{name}(dim={axis}), whose indices come second; for the rows, x.{name}(axis={axis})."
        )
    return frozen(axis)


def _correction(
    name: str, axis: Any, correction: float | None, unbiased: bool | None, ddof: float | None, *, numpys: bool
) -> float:
    """Return the correction of a variance; warn if it is the standard's default and not chosen explicitly.

    `numpys` says that the call has arguments that only NumPy's method takes.
    """
    if ddof is not None:
        return ddof
    if unbiased is not None:
        return float(unbiased)
    if correction is None and axis is None and not numpys:
        warn_meaning(
            f"x.{name}() divides by n, as NumPy's and the standard's; PyTorch's divides by n - 1. Write"
            f" x.{name}(correction=0) or x.{name}(correction=1)."
        )
    return 0.0 if correction is None else correction


def _running(x: Tensor, name: str, function: Callable[..., Tensor], axis: int | None, dtype: Any) -> Tensor:
    """Return a running sum or product: the standard's, or NumPy's if that accepts more arguments."""
    if dtype is not None or (axis is None and x.ndim != 1):
        return numpys(name)(x, axis, dtype)
    return function(x, axis=axis)


def _numpys(name: str, x: Tensor, over: tuple[Any, bool], where: Any, **more: Any) -> Tensor:
    """A reduction, over axes that are kept or not, with arguments that only NumPy's functions take."""
    axis, keepdims = over
    given = {key: value for key, value in more.items() if value is not None}
    found: Tensor = numpys(name)(x, axis, keepdims=keepdims, where=where, **given)
    return found


def times_beta(x: Tensor, beta: Any) -> Tensor:
    """Return the term ``beta * x`` of PyTorch's `addmm` and similar, where a `beta` of 0 keeps NaN and infinity out."""
    if isinstance(beta, int | float) and not beta:
        return searching.where(False, x, 0)
    return beta * x


def shape_of(parts: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape passed as separate integers or as one sequence."""
    if len(parts) == 1 and isinstance(parts[0], tuple | list):
        return tuple(parts[0])
    return tuple(operator.index(part) for part in parts)


def _changed(x: Tensor, what: str, function: Callable[..., Tensor], *args: Any) -> Tensor:
    """Replace the value of a tensor by the result of a function; ``core.buffers.rebind`` keeps the history."""
    check_leaf(x, what)
    rebind(x, function(x, *args), what)
    return x


def _like(x: Any, dtype: Any, device: Any, requires_grad: bool) -> dict[str, Any]:
    return {
        "dtype": x.dtype if dtype is None else dtype,
        "device": x.device if device is None else device,
        "requires_grad": requires_grad,
    }


def _checked(x: Any, dim: int, name: str) -> int:
    return checked_axis(name, dim, x.ndim)


def _at(x: Any, dim: int, part: Any) -> tuple[Any, ...]:
    return along(_checked(x, dim, "select"), part)


def _key(x: Any, dim: int, index: Any) -> Any:
    """The key of entries along an axis, at a vector of indices."""
    index = as_operand(index, x)
    if index.ndim > 1:
        raise IndexError(f"index is supposed to be a vector, not of shape {index.shape}{called()}")
    vector: Any = manipulation.reshape(index, (-1,))
    return along(_checked(x, dim, "index"), vector)


def _source(x: Any, dim: int, index: Any, source: Any, alpha: Any) -> Tensor:
    """The values that `index_add` adds, in the dtype of the tensor."""
    source = as_operand(source, x)
    axis = _checked(x, dim, "index_add")
    wanted = (*x.shape[:axis], as_operand(index, x).size, *x.shape[axis + 1 :])
    if source.shape != wanted:
        raise RuntimeError(
            f"index_add(): source has shape {source.shape}, and for this index it should be {wanted}{called()}"
        )
    return data_type.astype(source if alpha == 1 else source * alpha, x.dtype, copy=False)


def _divided(x: Tensor, other: Any, rounding_mode: str | None) -> Tensor:
    """Return a quotient, rounded like PyTorch's ``div``: for integers the result is then an integer."""
    if rounding_mode is None:
        return elementwise.divide(x, other)
    if rounding_mode not in ("floor", "trunc"):
        raise ValueError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}{called()}"
        )
    down = elementwise.floor_divide(x, other)
    if rounding_mode == "floor":
        return down
    if down._spec.inexact:
        return elementwise.trunc(elementwise.divide(x, other))
    inexact = elementwise.logical_and(elementwise.less(down, 0), elementwise.not_equal(down * other, x))
    return down + data_type.astype(inexact, down.dtype)


def _rounded(x: Tensor, decimals: int) -> Tensor:
    """Return a tensor rounded as NumPy does it, by way of a power of ten."""
    if decimals == 0:
        return elementwise.round(x)
    if not x._spec.inexact:
        raise TypeError(
            f"round() with decimals takes floating point, not {x.dtype}; numpy.round takes integers{called()}"
        )
    scale = 10.0 ** abs(decimals)
    return elementwise.round(x * scale) / scale if decimals > 0 else elementwise.round(x / scale) * scale


# -- what is made from tables ----------------------------------------------------------------------------------------------


def _methods(operands: int) -> dict[str, str]:
    """Return, by name, the ops with this many operands that are methods."""
    ops = [op for op in OPS.values() if len(op.array_slots) == operands]
    return {name: op.name for op in ops for name in op.facts.methods.split()}


#: Ops with one operand that are methods, and in-place methods with an underscore.
UNARY_METHODS = _methods(1)
#: Ops with two operands that are methods.
BINARY_METHODS = _methods(2)
#: Methods that convert to a dtype.
CONVERSIONS = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "byte": "uint8",
    "bool": "bool",
}


def _in_place(function: Callable[..., Tensor], what: str) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        check_leaf(self, what)
        rebind(self, function(self), what)
        return self

    return method


def _conversion(dtype: str) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        return data_type.astype(self, dtype, copy=False)

    return method


def _put(name: str, method: Any, text: str, result: str = "The result.", *, operand: str = "") -> None:
    """Put a method that was made from a table on `Tensor`, with its name and documentation."""
    method.__name__, method.__qualname__, method.__module__ = name, f"Tensor.{name}", Tensor.__module__
    method.__doc__ = f"{text}\n\n{operand}Returns\n-------\nTensor\n    {result}\n"
    setattr(Tensor, name, method)


def _summary(op: str) -> str:
    return f"{summary(OPS[op].entry)} See `agrad.{op}`."


_OPERAND = "Parameters\n----------\nother : Tensor, array or scalar\n    The second operand.\n\n"

complete(vars(Reductions), REDUCTION_ARGUMENTS, methods=True)
for _chapter in (Picking, Ordering, ReductionsByDim, Shapes, Elementwise, Matrices, Conversions, InPlace):
    complete(vars(_chapter), ARGUMENTS, methods=True)
for _name, _op in UNARY_METHODS.items():
    _put(_name, make_operator(OPS[_op], _name), _summary(_op))
    _put(f"{_name}_", _in_place(OPS[_op].entry, f"{_name}_()"), f"`{_name}`, in place.", "This tensor.")
for _name, _op in BINARY_METHODS.items():
    _put(_name, make_operator(OPS[_op], _name), _summary(_op), operand=_OPERAND)
for _name, _dtype in CONVERSIONS.items():
    _put(_name, _conversion(_dtype), f"Converted to {_dtype}.", "This tensor itself, if it has the dtype already.")
