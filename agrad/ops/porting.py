"""Methods of `Tensor` that PyTorch has and the standard does not: each one line over a function, under PyTorch's words.

Arguments are PyTorch's in their order (``dim``, ``keepdim``), and so is the meaning where libraries differ: ``sort`` gives
values and indices, ``split`` takes the length of a part. `ops.methods` completes the docstrings from what the arguments
are called, and puts the methods on `Tensor`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agrad.core.buffers import check_leaf, rebind
from agrad.core.tensor import Tensor
from agrad.ops import (
    creation,
    data_type,
    elementwise,
    extra,
    linalg,
    manipulation,
    nn,
    searching,
    solving,
    special,
    statistical,
)
from agrad.ops.extra.common import along, as_operand, called, checked_axis

#: What an argument means, by name: of the methods here all of one name mean the same.
ARGUMENTS = {
    "alpha": "scalar, optional\n    A factor for what is added.",
    "as_tuple": "bool, optional\n    Give a tuple with the indices along each axis, not a matrix with a row per element.",
    "chunks": "int\n    How many parts.",
    "condition": "Tensor\n    Boolean.",
    "data": "object\n    Numbers, an array or a tensor.",
    "descending": "bool, optional\n    From the largest on.",
    "destination": "int or tuple of int\n    Where the axes go.",
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
    "largest": "bool, optional\n    False gives the smallest.",
    "length": "int\n    How many entries.",
    "mask": "Tensor\n    Boolean; it broadcasts with this tensor.",
    "mat1": "Tensor\n    A matrix.",
    "mat2": "Tensor\n    A matrix.",
    "max": "Tensor or scalar\n    The upper bound.",
    "min": "Tensor or scalar\n    The lower bound.",
    "beta": "scalar, optional\n    A factor for this tensor.",
    "memory_format": "object, optional\n    Not looked at.",
    "n": "int\n    The exponent.",
    "nan": "float, optional\n    In place of NaN.",
    "neginf": "float, optional\n    In place of -inf. Default: the smallest number.",
    "offset": "int, optional\n    0 is the main diagonal; positive ones lie above.",
    "other": "Tensor or scalar\n    The other operand.",
    "posinf": "float, optional\n    In place of inf. Default: the largest number.",
    "repeats": "int or Tensor\n    How often.",
    "requires_grad": "bool, optional\n    Record what is done with the result.",
    "rounding_mode": "None, 'floor' or 'trunc', optional\n    How to round the quotient.",
    "shape": "tuple of int\n    The shape.",
    "shifts": "int or tuple of int\n    By how many places.",
    "size": "int, or one tuple of int\n    The shape.",
    "sizes": "tuple of int\n    What the axis becomes.",
    "sorted": "bool, optional\n    They are sorted in any case.",
    "source": "Tensor\n    What to put or to add; of `moveaxis` the axes to move.",
    "split_size": "int or sequence of int\n    The length of a part (the last may be shorter), or of each.",
    "src": "Tensor or scalar\n    What to put there.",
    "stable": "bool, optional\n    Keep the order of equal elements; it is kept in any case.",
    "start": "int\n    The first entry.",
    "tensor1": "Tensor\n    The first factor.",
    "tensor2": "Tensor\n    The second factor, or the divisor.",
    "value": "Tensor or scalar\n    What to put there, or a factor.",
    "weight": "Tensor or scalar\n    0 gives this tensor, 1 the other end.",
}


class Sorted(NamedTuple):
    """What `Tensor.sort` gives."""

    values: Tensor
    indices: Tensor


class PortedMethods:
    """PyTorch's methods. One-line docstrings grow sections when they are put on `Tensor`."""

    _raw: Any
    _spec: Any

    # -- picking and placing elements -----------------------------------------------------------------------------------

    def gather(self: Any, dim: int, index: Any) -> Tensor:
        """Elements at indices along an axis, each index for its own place along the others; see `agrad.gather`."""
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
        """A copy with entries added along an axis, at a vector of indices; those of one index add up."""
        source = _source(self, dim, index, source, alpha)
        return elementwise.add(self, searching.scatter_add(self._spec, _key(self, dim, index), source))

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

    def nonzero(self: Any, *, as_tuple: bool = False) -> Any:
        """Indices of the elements that are not zero; see `agrad.nonzero`, which gives a tuple."""
        found = searching.nonzero(self)
        return found if as_tuple else manipulation.stack(found, axis=1)

    # -- order ----------------------------------------------------------------------------------------------------------

    def sort(self: Any, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Sorted:
        """Sorted along an axis: values and indices. `agrad.sort` gives values only."""
        if self.ndim == 0:
            return Sorted(elementwise.positive(self), creation.zeros_like(self, dtype="int64"))
        indices = searching.argsort(self, axis=dim, descending=descending, stable=True)
        return Sorted(searching.take_along_axis(self, indices, axis=dim), indices)

    def argsort(self: Any, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Tensor:
        """The indices that sort along an axis; see `agrad.argsort`."""
        found: Sorted = self.detach().sort(dim, descending)
        return found.indices

    def topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """The largest elements along an axis: values and indices; see `agrad.topk`."""
        return extra.topk(self, k, dim, largest, sorted)

    # -- reductions -----------------------------------------------------------------------------------------------------

    def amax(self: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Largest element over axes; see `agrad.max`."""
        return statistical.max(self, axis=axes_of(dim), keepdims=keepdim)

    def amin(self: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Smallest element over axes; see `agrad.min`."""
        return statistical.min(self, axis=axes_of(dim), keepdims=keepdim)

    def logsumexp(self: Any, dim: Any, keepdim: bool = False) -> Tensor:
        """The logarithm of the sum of exponentials over axes; see `agrad.special.logsumexp`."""
        result: Tensor = special.logsumexp(self, axis=axes_of(dim), keepdims=keepdim)
        return result

    def count_nonzero(self: Any, dim: Any = None) -> Tensor:
        """How many elements are not zero; see `agrad.count_nonzero`."""
        return searching.count_nonzero(self, axis=axes_of(dim))

    def softmax(self: Any, dim: int, dtype: Any = None) -> Tensor:
        """Exponentials that sum to 1 along an axis; see `agrad.softmax`."""
        return extra.softmax(self, dim, dtype=dtype)

    def log_softmax(self: Any, dim: int, dtype: Any = None) -> Tensor:
        """The logarithm of `softmax`; see `agrad.log_softmax`."""
        return extra.log_softmax(self, dim, dtype=dtype)

    # -- shapes ---------------------------------------------------------------------------------------------------------

    def chunk(self: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Cut along an axis into so many parts at most; see `agrad.chunk`."""
        return extra.chunk(self, chunks, dim)

    def split(self: Any, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Cut along an axis into parts of a length; `agrad.extra.split`, NumPy's, takes their number."""
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

    def reshape_as(self: Any, other: Tensor) -> Tensor:
        """`reshape` to the shape of another tensor."""
        return manipulation.reshape(self, other.shape)

    def broadcast_to(self: Any, shape: Any) -> Tensor:
        """Broadcast to a shape; see `agrad.broadcast_to`."""
        return manipulation.broadcast_to(self, tuple(shape))

    def ravel(self: Any) -> Tensor:
        """All elements as a vector."""
        return manipulation.reshape(self, (-1,))

    def unflatten(self: Any, dim: int, sizes: Sequence[int]) -> Tensor:
        """One axis made several; see `agrad.extra.unflatten`."""
        return extra.unflatten(self, dim, sizes)

    def tile(self: Any, *dims: Any) -> Tensor:
        """The whole repeated along each axis; see `agrad.tile`."""
        return manipulation.tile(self, shape_of(dims))

    def repeat_interleave(self: Any, repeats: Any, dim: int | None = None) -> Tensor:
        """Each element, or each entry along an axis, repeated; see `agrad.repeat`."""
        return manipulation.repeat(self, repeats, axis=dim)

    def flip(self: Any, *dims: Any) -> Tensor:
        """The order along axes reversed; see `agrad.flip`."""
        return manipulation.flip(self, axis=shape_of(dims))

    def roll(self: Any, shifts: Any, dims: Any = None) -> Tensor:
        """Elements moved along axes, those that leave come in at the other end; see `agrad.roll`."""
        return manipulation.roll(self, shifts, axis=dims)

    def moveaxis(self: Any, source: Any, destination: Any) -> Tensor:
        """Axes moved to other places; see `agrad.moveaxis`."""
        return manipulation.moveaxis(self, source, destination)

    movedim = moveaxis

    def swapaxes(self: Any, dim0: int, dim1: int) -> Tensor:
        """Two axes exchanged; see `agrad.swapaxes`."""
        return extra.swapaxes(self, dim0, dim1)

    swapdims = swapaxes

    def diagonal(self: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The diagonal over two axes, as the last axis; see `agrad.linalg.diagonal`."""
        return linalg.diagonal(manipulation.moveaxis(self, (dim1, dim2), (-2, -1)), offset=offset)

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
        result: Tensor = self
        return result

    def is_contiguous(self: Any, memory_format: Any = None) -> bool:
        """Return True: a value has no strides."""
        return True

    def ndimension(self: Any) -> int:
        """The number of axes."""
        return len(self.shape)

    def nelement(self: Any) -> int:
        """The number of elements."""
        result: int = self.size
        return result

    # -- elementwise ------------------------------------------------------------------------------------------------------

    def sigmoid(self: Any) -> Tensor:
        """The logistic function; see `agrad.sigmoid`."""
        return nn.sigmoid(self)

    def relu(self: Any) -> Tensor:
        """The positive part; see `agrad.relu`."""
        return nn.relu(self)

    def rsqrt(self: Any) -> Tensor:
        """The reciprocal of the square root."""
        return elementwise.reciprocal(elementwise.sqrt(self))

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

    def logit(self: Any) -> Tensor:
        """The inverse of `sigmoid`; see `agrad.special.logit`."""
        return special.logit(self)

    def clamp_min(self: Any, min: Any) -> Tensor:
        """Limit from below; see `agrad.clip`."""
        return elementwise.clip(self, min, None)

    def clamp_max(self: Any, max: Any) -> Tensor:
        """Limit from above; see `agrad.clip`."""
        return elementwise.clip(self, None, max)

    def nan_to_num(self: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """Finite numbers in the place of NaN and infinities; see `agrad.extra.nan_to_num`."""
        return extra.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)

    def lerp(self: Any, end: Any, weight: Any) -> Tensor:
        """A point between this tensor and another; see `agrad.lerp`."""
        return extra.lerp(self, end, weight)

    def addcmul(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """``self + value * tensor1 * tensor2``."""
        result: Tensor = self + tensor1 * tensor2 * value
        return result

    def addcdiv(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """``self + value * tensor1 / tensor2``."""
        result: Tensor = self + tensor1 / tensor2 * value
        return result

    def isclose(self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """Whether elements are equal up to tolerances; see `agrad.isclose`."""
        return extra.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

    def allclose(self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether all elements are equal up to tolerances; see `agrad.allclose`."""
        return extra.allclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

    # -- matrices ---------------------------------------------------------------------------------------------------------

    def addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * self + alpha * (mat1 @ mat2)``."""
        result: Tensor = beta * self + alpha * linalg.matmul(mat1, mat2)
        return result

    def outer(self: Any, other: Any) -> Tensor:
        """All products of the elements of two vectors; see `agrad.linalg.outer`."""
        return linalg.outer(self, other)

    def trace(self: Any) -> Tensor:
        """The sum of the diagonal of a matrix; see `agrad.linalg.trace`."""
        return linalg.trace(self)

    def det(self: Any) -> Tensor:
        """Determinant; see `agrad.linalg.det`."""
        return solving.det(self)

    def inverse(self: Any) -> Tensor:
        """Inverse of a matrix; see `agrad.linalg.inv`."""
        return solving.inv(self)

    def matrix_power(self: Any, n: int) -> Tensor:
        """Power of a matrix; see `agrad.linalg.matrix_power`."""
        return solving.matrix_power(self, n)

    # -- dtypes, devices, new tensors ---------------------------------------------------------------------------------------

    def type(self: Any, dtype: Any) -> Tensor:
        """Converted to a dtype; the dtype itself is `dtype`, an attribute."""
        return data_type.astype(self, dtype, copy=False)

    def half(self: Any) -> Tensor:
        """Converted to float16."""
        return data_type.astype(self, "float16", copy=False)

    def short(self: Any) -> Tensor:
        """Converted to int16."""
        return data_type.astype(self, "int16", copy=False)

    def byte(self: Any) -> Tensor:
        """Converted to uint8."""
        return data_type.astype(self, "uint8", copy=False)

    def cuda(self: Any, device: Any = None) -> Tensor:
        """Moved to the cupy backend, which stands for PyTorch's ``cuda``."""
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

    # -- in place -----------------------------------------------------------------------------------------------------------

    def sigmoid_(self: Any) -> Tensor:
        """`sigmoid`, in place."""
        return _changed(self, "sigmoid_()", nn.sigmoid)

    def relu_(self: Any) -> Tensor:
        """`relu`, in place."""
        return _changed(self, "relu_()", nn.relu)

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


def axes_of(dim: Any) -> Any:
    """Axes in the standard's words: PyTorch's methods take lists of them, the standard's functions tuples."""
    return tuple(dim) if isinstance(dim, list) else dim


def shape_of(parts: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as separate integers or as one sequence."""
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
    """What `index_add` adds, of the dtype of the tensor."""
    source = as_operand(source, x)
    axis = _checked(x, dim, "index_add")
    wanted = (*x.shape[:axis], as_operand(index, x).size, *x.shape[axis + 1 :])
    if source.shape != wanted:
        raise RuntimeError(
            f"index_add(): source has shape {source.shape}, and for this index it should be {wanted}{called()}"
        )
    return data_type.astype(source if alpha == 1 else source * alpha, x.dtype, copy=False)
