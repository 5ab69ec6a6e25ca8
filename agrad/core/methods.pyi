"""The methods that files above put on `Tensor`. Written by docs/make_methods.py."""

from agrad.core.tensor import Tensor
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple, Self
from typing import Self

Axis = int | tuple[int, ...] | None


class Picked(NamedTuple):
    """Elements selected along an axis, and their indices there: the result of PyTorch's `max(dim)` and similar."""
    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """The result of `Tensor.sort`."""
    values: Tensor
    indices: Tensor


class _FromTables:
    def __add__(self, other: Any, /) -> Tensor: ...
    def __radd__(self, other: Any, /) -> Tensor: ...
    def __iadd__(self, other: Any, /) -> Self: ...
    def __sub__(self, other: Any, /) -> Tensor: ...
    def __rsub__(self, other: Any, /) -> Tensor: ...
    def __isub__(self, other: Any, /) -> Self: ...
    def __mul__(self, other: Any, /) -> Tensor: ...
    def __rmul__(self, other: Any, /) -> Tensor: ...
    def __imul__(self, other: Any, /) -> Self: ...
    def __truediv__(self, other: Any, /) -> Tensor: ...
    def __rtruediv__(self, other: Any, /) -> Tensor: ...
    def __itruediv__(self, other: Any, /) -> Self: ...
    def __floordiv__(self, other: Any, /) -> Tensor: ...
    def __rfloordiv__(self, other: Any, /) -> Tensor: ...
    def __ifloordiv__(self, other: Any, /) -> Self: ...
    def __mod__(self, other: Any, /) -> Tensor: ...
    def __rmod__(self, other: Any, /) -> Tensor: ...
    def __imod__(self, other: Any, /) -> Self: ...
    def __pow__(self, other: Any, /) -> Tensor: ...
    def __rpow__(self, other: Any, /) -> Tensor: ...
    def __ipow__(self, other: Any, /) -> Self: ...
    def __matmul__(self, other: Any, /) -> Tensor: ...
    def __rmatmul__(self, other: Any, /) -> Tensor: ...
    def __imatmul__(self, other: Any, /) -> Self: ...
    def __and__(self, other: Any, /) -> Tensor: ...
    def __rand__(self, other: Any, /) -> Tensor: ...
    def __iand__(self, other: Any, /) -> Self: ...
    def __or__(self, other: Any, /) -> Tensor: ...
    def __ror__(self, other: Any, /) -> Tensor: ...
    def __ior__(self, other: Any, /) -> Self: ...
    def __xor__(self, other: Any, /) -> Tensor: ...
    def __rxor__(self, other: Any, /) -> Tensor: ...
    def __ixor__(self, other: Any, /) -> Self: ...
    def __lshift__(self, other: Any, /) -> Tensor: ...
    def __rlshift__(self, other: Any, /) -> Tensor: ...
    def __ilshift__(self, other: Any, /) -> Self: ...
    def __rshift__(self, other: Any, /) -> Tensor: ...
    def __rrshift__(self, other: Any, /) -> Tensor: ...
    def __irshift__(self, other: Any, /) -> Self: ...
    def __lt__(self, other: Any, /) -> Tensor: ...
    def __le__(self, other: Any, /) -> Tensor: ...
    def __gt__(self, other: Any, /) -> Tensor: ...
    def __ge__(self, other: Any, /) -> Tensor: ...
    def __eq__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]
    def __neg__(self, /) -> Tensor: ...
    def __pos__(self, /) -> Tensor: ...
    def __abs__(self, /) -> Tensor: ...
    def __invert__(self, /) -> Tensor: ...
    def neg(self, /) -> Tensor: ...
    def neg_(self, /) -> Tensor: ...
    def square(self, /) -> Tensor: ...
    def square_(self, /) -> Tensor: ...
    def sqrt(self, /) -> Tensor: ...
    def sqrt_(self, /) -> Tensor: ...
    def exp(self, /) -> Tensor: ...
    def exp_(self, /) -> Tensor: ...
    def expm1(self, /) -> Tensor: ...
    def expm1_(self, /) -> Tensor: ...
    def log(self, /) -> Tensor: ...
    def log_(self, /) -> Tensor: ...
    def log1p(self, /) -> Tensor: ...
    def log1p_(self, /) -> Tensor: ...
    def log2(self, /) -> Tensor: ...
    def log2_(self, /) -> Tensor: ...
    def log10(self, /) -> Tensor: ...
    def log10_(self, /) -> Tensor: ...
    def sin(self, /) -> Tensor: ...
    def sin_(self, /) -> Tensor: ...
    def cos(self, /) -> Tensor: ...
    def cos_(self, /) -> Tensor: ...
    def tan(self, /) -> Tensor: ...
    def tan_(self, /) -> Tensor: ...
    def asin(self, /) -> Tensor: ...
    def asin_(self, /) -> Tensor: ...
    def acos(self, /) -> Tensor: ...
    def acos_(self, /) -> Tensor: ...
    def atan(self, /) -> Tensor: ...
    def atan_(self, /) -> Tensor: ...
    def sinh(self, /) -> Tensor: ...
    def sinh_(self, /) -> Tensor: ...
    def cosh(self, /) -> Tensor: ...
    def cosh_(self, /) -> Tensor: ...
    def tanh(self, /) -> Tensor: ...
    def tanh_(self, /) -> Tensor: ...
    def asinh(self, /) -> Tensor: ...
    def asinh_(self, /) -> Tensor: ...
    def acosh(self, /) -> Tensor: ...
    def acosh_(self, /) -> Tensor: ...
    def atanh(self, /) -> Tensor: ...
    def atanh_(self, /) -> Tensor: ...
    def floor(self, /) -> Tensor: ...
    def floor_(self, /) -> Tensor: ...
    def ceil(self, /) -> Tensor: ...
    def ceil_(self, /) -> Tensor: ...
    def trunc(self, /) -> Tensor: ...
    def trunc_(self, /) -> Tensor: ...
    def abs(self, /) -> Tensor: ...
    def abs_(self, /) -> Tensor: ...
    def sign(self, /) -> Tensor: ...
    def sign_(self, /) -> Tensor: ...
    def logical_not(self, /) -> Tensor: ...
    def logical_not_(self, /) -> Tensor: ...
    def isfinite(self, /) -> Tensor: ...
    def isfinite_(self, /) -> Tensor: ...
    def isinf(self, /) -> Tensor: ...
    def isinf_(self, /) -> Tensor: ...
    def isnan(self, /) -> Tensor: ...
    def isnan_(self, /) -> Tensor: ...
    def multiply(self, other: Any, /) -> Tensor: ...
    def mul(self, other: Any, /) -> Tensor: ...
    def remainder(self, other: Any, /) -> Tensor: ...
    def pow(self, other: Any, /) -> Tensor: ...
    def logaddexp(self, other: Any, /) -> Tensor: ...
    def atan2(self, other: Any, /) -> Tensor: ...
    def maximum(self, other: Any, /) -> Tensor: ...
    def minimum(self, other: Any, /) -> Tensor: ...
    def hypot(self, other: Any, /) -> Tensor: ...
    def eq(self, other: Any, /) -> Tensor: ...
    def ne(self, other: Any, /) -> Tensor: ...
    def less(self, other: Any, /) -> Tensor: ...
    def lt(self, other: Any, /) -> Tensor: ...
    def le(self, other: Any, /) -> Tensor: ...
    def greater(self, other: Any, /) -> Tensor: ...
    def gt(self, other: Any, /) -> Tensor: ...
    def ge(self, other: Any, /) -> Tensor: ...
    def logical_and(self, other: Any, /) -> Tensor: ...
    def logical_or(self, other: Any, /) -> Tensor: ...
    def logical_xor(self, other: Any, /) -> Tensor: ...
    def double(self, /) -> Tensor: ...
    def float(self, /) -> Tensor: ...
    def half(self, /) -> Tensor: ...
    def long(self, /) -> Tensor: ...
    def int(self, /) -> Tensor: ...
    def short(self, /) -> Tensor: ...
    def byte(self, /) -> Tensor: ...
    def bool(self, /) -> Tensor: ...


class Methods(_FromTables):

    # agrad/autograd/backward.py, BackwardMethod

    def backward(self, gradient: Tensor | None=None, retain_graph: bool | None=None, create_graph: bool=False, inputs: Any=None) -> None:
        """Add the gradient of this tensor to the `.grad` of the leaves it was computed from.

        Parameters
        ----------
        gradient : Tensor, optional
            Cotangent of this tensor's shape; may be omitted for a single real element (then 1).
        retain_graph : bool, optional
            Whether to keep the graph's saved values, so that it can be differentiated again. Default: `create_graph`.
        create_graph : bool, optional
            Whether to record the backward pass itself, for higher derivatives. A `.grad` then has a history that leads back
            to its leaf, a cycle that only the garbage collector frees; `agrad.grad` creates none.
        inputs : Tensor, GradientEdge, or iterable or dict of them, optional
            Accumulate only into these.

        Raises
        ------
        RuntimeError
            Where PyTorch does, with its message; no `.grad` has changed then.

        Examples
        --------
        >>> import agrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """

    # agrad/lazy.py, InChunks

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of the chunks along each axis; backends that hold arrays whole have none."""
    def rechunk(self, chunks: Any) -> Tensor:
        """The same values in other chunks; on a backend that holds arrays whole, this tensor.

        chunks : int, tuple, dict or str
            As the library takes them: ``1000`` for every axis, ``(1000, -1)`` for whole rows, ``{0: 1000}``, ``"auto"``.
        Returns: Part of the graph: its gradient comes back in the chunks of this tensor.

        >>> x = ag.ones((6, 2), device="dask")
        >>> x.rechunk({0: 2}).chunks
        ((2, 2, 2), (2,))
        """
    def to_dask_array(self) -> Any:
        """The value as a Dask array, for Dask's own functions; it has no history.

        Writing to it, as ``d[0] = 1``, does not change this tensor.

        Returns: dask.array.Array, lazy if this tensor is lazy; the values of other backends are one chunk.
        RuntimeError: While a gradient is required and recording is on, or a tangent in forward mode.

        >>> ag.ones(3, device="dask").to_dask_array().compute()
        array([1., 1., 1.])
        """
    def __dask_tokenize__(self) -> Any:
        """The key of a Dask task that takes this tensor."""
    def compute(self, *, max_memory: int | str | None=None, progress: bool | None=None) -> Self:
        """Compute the value, and store it in this tensor; do nothing if it is known.

        max_memory, progress: As for `agrad.compute`, which computes several in one pass.
        Returns: This tensor.

        >>> x = ag.ones(3, device="dask") * 2.0
        >>> x.compute() is x
        True
        """
    def persist(self, *, max_memory: int | str | None=None, progress: bool | None=None) -> Self:
        """Compute the value and keep it where the backend computes, as in the memory of a cluster.

        max_memory, progress: As for `agrad.compute`.
        Returns: This tensor.

        >>> x = ag.ones(3, device="dask") * 2.0
        >>> x.persist() is x
        True
        """

    # agrad/numpy/protocol.py, ArrayMethods

    def argpartition(self, kth: Any, axis: int | None=-1, kind: str='introselect') -> Tensor:
        """Indices that partition the elements at one or several ranks; here they sort completely."""
    def astype(self, dtype: Any, order: str='K', casting: str='unsafe', copy: bool=True) -> Tensor:
        """The elements converted to another dtype."""
    def choose(self, choices: Any, out: Any=None, mode: str='raise') -> Tensor:
        """Elements of several tensors, selected by this one."""
    def compress(self, condition: Any, axis: int | None=None, out: Any=None) -> Tensor:
        """The parts along an axis where a condition is true; its values are checked."""
    def conjugate(self) -> Tensor:
        """Complex conjugates."""
    def copy(self, order: str='C') -> Tensor:
        """A tensor of the same value, which stays in the graph."""
    def fill(self, value: Any) -> None:
        """Set all elements to one value, in place."""
    @property
    def flat(self) -> Tensor:
        """All elements as a vector."""
    @property
    def itemsize(self) -> int:
        """The number of bytes of one element."""
    def put(self, indices: Any, values: Any, mode: str='raise') -> None:
        """Set the elements at positions counted in row-major order, in place."""
    def searchsorted(self, v: Any, side: str='left', sorter: Any=None) -> Tensor:
        """The positions where values would be inserted to keep the order."""
    def take(self, indices: Any, axis: int | None=None, out: Any=None, mode: str='raise') -> Tensor:
        """The elements at positions along an axis, or counted in row-major order."""
    def tobytes(self, order: str='C') -> bytes:
        """The bytes of the value.

        Returns: The same bytes as in NumPy.
        RuntimeError: While a gradient is required and recording is on.
        """

    # agrad/numpy/protocol.py, NumpyMethods

    def numpy(self) -> Any:
        """Return the value as a NumPy array, without a copy where it is one; read-only, as values are immutable.

        Returns
        -------
        numpy.ndarray
            Shares memory with this tensor.

        Raises
        ------
        RuntimeError
            While a gradient is required and recording is on, or a tangent in forward mode.
        """
    def __array__(self, dtype: Any=None, copy: bool | None=None) -> Any: ...
    @property
    def fill_value(self) -> Any:
        """The attribute that pydata/sparse reads from operands of its products: it defers those with tensors; otherwise hidden."""
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any: ...
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any: ...

    # agrad/ops/methods.py, StandardMethods

    def __init__(self, *args: Any, dtype: Any=None, device: Any=None) -> None: ...
    @property
    def device(self) -> Any:
        """``"<backend>[:<device>]"``."""
    def __array_namespace__(self, /, *, api_version: str | None=None) -> Any: ...
    def to_device(self, device: Any, /, *, stream: Any=None) -> Tensor:
        """Return the same value on another device or backend, recorded.

        Parameters
        ----------
        device : str
            ``"<backend>[:<device>]"``, as ``"numpy"`` or ``"cupy:0"``.
        stream : object, optional
            Only None: the standard leaves it to the library.

        Returns
        -------
        Tensor
            This tensor itself, if it is already there.

        Raises
        ------
        BackendError
            If the backend is unknown or unusable here.
        ValueError
            If a stream is passed.
        """
    def __dlpack__(self, /, *, stream: Any=None, max_version: Any=None, dl_device: Any=None, copy: bool | None=None) -> Any: ...
    def __dlpack_device__(self, /) -> Any: ...
    def __getitem__(self, key: Any, /) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, item: Any) -> bool: ...
    @property
    def T(self) -> Tensor:
        """The transpose of a matrix; vectors and scalars are unchanged, as in NumPy and PyTorch."""
    @property
    def mT(self) -> Tensor:
        """The transpose of the last two axes."""

    # agrad/ops/torch_methods.py, Reductions

    def sum(self, axis: Axis=None, dtype: Any=None, keepdims: bool=False, *, dim: Axis=None, keepdim: bool=False, initial: Any=None, where: Any=True) -> Tensor:
        """Sum over axes; see `agrad.sum`.

        initial, where: As of ``numpy.sum``.
        """
    def mean(self, axis: Axis=None, keepdims: bool=False, *, dim: Axis=None, keepdim: bool=False, dtype: Any=None, where: Any=True) -> Tensor:
        """Mean over axes; see `agrad.mean`.

        dtype, where: As of ``numpy.mean``.
        """
    def prod(self, axis: Axis=None, keepdims: bool=False, *, dim: Axis=None, keepdim: bool=False, dtype: Any=None, initial: Any=None, where: Any=True) -> Tensor:
        """Product over axes; see `agrad.prod`.

        dtype, initial, where: As of ``numpy.prod``.
        """
    def max(self, axis: Axis=None, keepdims: bool=False, *, dim: int | None=None, keepdim: bool | None=None, initial: Any=None, where: Any=True) -> Any:
        """Largest element over axes; see `agrad.max`.

        dim : int, optional
            PyTorch's: return the pair ``values``, ``indices`` along this axis; the gradient goes to the element picked.
        keepdim : bool, optional
            PyTorch's name of `keepdims`, which requests the pair as well.
        initial, where: As of ``numpy.max``. A positional axis is the standard's: only the values are returned, and ties
        share the gradient evenly.
        """
    def min(self, axis: Axis=None, keepdims: bool=False, *, dim: int | None=None, keepdim: bool | None=None, initial: Any=None, where: Any=True) -> Any:
        """Smallest element over axes; see `agrad.min`.

        dim : int, optional
            PyTorch's: return the pair ``values``, ``indices`` along this axis; the gradient goes to the element picked.
        keepdim : bool, optional
            PyTorch's name of `keepdims`, which requests the pair as well.
        initial, where: As of ``numpy.min``. A positional axis is the standard's: only the values are returned, and ties
        share the gradient evenly.
        """
    def var(self, axis: Axis=None, correction: float | None=None, keepdims: bool=False, *, dim: Axis=None, keepdim: bool=False, unbiased: bool | None=None, ddof: float | None=None, dtype: Any=None, where: Any=True) -> Tensor:
        """Variance over axes; see `agrad.var`.

        dtype, where: As of ``numpy.var``.
        """
    def std(self, axis: Axis=None, correction: float | None=None, keepdims: bool=False, *, dim: Axis=None, keepdim: bool=False, unbiased: bool | None=None, ddof: float | None=None, dtype: Any=None, where: Any=True) -> Tensor:
        """Standard deviation over axes; see `agrad.std`.

        dtype, where: As of ``numpy.std``.
        """
    def all(self, axis: Axis=None, keepdims: bool=False, *, dim: Axis=None, keepdim: bool=False, where: Any=True) -> Tensor:
        """Whether all elements are true; see `agrad.all`.

        where: As of ``numpy.all``.
        Returns: Boolean.
        """
    def any(self, axis: Axis=None, keepdims: bool=False, *, dim: Axis=None, keepdim: bool=False, where: Any=True) -> Tensor:
        """Whether any element is true; see `agrad.any`.

        where: As of ``numpy.any``.
        Returns: Boolean.
        """
    def argmax(self, axis: int | None=None, keepdims: bool=False, *, dim: int | None=None, keepdim: bool=False) -> Tensor:
        """The index of the largest element; see `agrad.argmax`.

        Returns: Integer.
        """
    def argmin(self, axis: int | None=None, keepdims: bool=False, *, dim: int | None=None, keepdim: bool=False) -> Tensor:
        """The index of the smallest element; see `agrad.argmin`.

        Returns: Integer.
        """
    def cumsum(self, axis: int | None=None, dtype: Any=None, *, dim: int | None=None) -> Tensor:
        """Running sum along an axis; see `agrad.cumulative_sum`.

        axis : int, optional
            The axis. Default: all elements, counted in rows.
        """
    def cumprod(self, axis: int | None=None, dtype: Any=None, *, dim: int | None=None) -> Tensor:
        """Running product along an axis; see `agrad.cumulative_prod`.

        axis : int, optional
            The axis. Default: all elements, counted in rows.
        """
    def squeeze(self, dim: Axis=None, *, axis: Axis=None) -> Tensor:
        """Axes of length 1 removed; see `agrad.squeeze`.

        dim : int or tuple of int, optional
            The axes; those that are longer stay, as in PyTorch. Default: all.
        axis: The same under the standard's name: each of length 1.
        ValueError: If one of `axis` is longer than 1.
        """

    # agrad/ops/torch_methods.py, Picking

    def gather(self, dim: int, index: Any) -> Tensor:
        """Take elements at indices along an axis, with a separate index for each position along the others; see `agrad.gather`."""
    def take_along_dim(self, indices: Any, dim: int | None=None) -> Tensor:
        """Elements at indices along an axis; see `agrad.take_along_axis`."""
    def index_select(self, dim: int, index: Any) -> Tensor:
        """Entries along an axis, at a vector of indices; see `agrad.index_select`."""
    def index_add(self, dim: int, index: Any, source: Any, *, alpha: Any=1) -> Tensor:
        """A copy with entries added along an axis, at a vector of indices; entries at one index add up."""
    def to_sparse(self) -> Any:
        """Convert a matrix to a sparse one that stores the nonzero elements; see `agrad.sparse.SparseTensor`."""
    def index_copy(self, dim: int, index: Any, source: Any) -> Tensor:
        """A copy with entries replaced along an axis, at a vector of indices."""
    def index_fill(self, dim: int, index: Any, value: Any) -> Tensor:
        """A copy with entries set to a value along an axis, at a vector of indices."""
    def masked_select(self, mask: Any) -> Tensor:
        """Elements where a mask is true, as a vector; see `agrad.masked_select`."""
    def scatter(self, dim: int, index: Any, src: Any) -> Tensor:
        """A copy with elements put at indices along an axis; see `agrad.extra.scatter`."""
    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        """A copy with elements added at indices along an axis; see `agrad.extra.scatter_add`."""
    def scatter_reduce(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool=True) -> Tensor:
        """A copy with elements combined at indices along an axis; see `agrad.extra.scatter_add`.

        NotImplementedError: For ``"prod"``.
        ValueError: For another word.
        """
    def index_put(self, indices: Any, values: Any, accumulate: bool=False) -> Tensor:
        """A copy with ``x[indices] = values`` done.

        indices : tuple of Tensor
            A key: an index, or a mask, for each of the first axes.
        """
    def select(self, dim: int, index: int) -> Tensor:
        """One entry along an axis, without the axis."""
    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Some entries along an axis, from one on."""
    def where(self, condition: Any, other: Any) -> Tensor:
        """Where a condition holds this tensor, elsewhere another; see `agrad.where`."""
    def nonzero(self, *, as_tuple: bool | None=None) -> Any:
        """Indices of the nonzero elements; see `agrad.nonzero`, which returns a tuple.

        TypeError: In code for NumPy, without `as_tuple`: NumPy returns the tuple.
        """
    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """A copy with `value` where a mask is true; see `agrad.extra.masked_fill`.

        TypeError: If the mask is not boolean.
        """

    # agrad/ops/torch_methods.py, Ordering

    def sort(self, dim: int=-1, descending: bool=False, *, stable: bool=True) -> Sorted:
        """Sorted along an axis: values and indices. `agrad.sort` returns only values.

        TypeError: In code for NumPy, whose method sorts in place.
        """
    def median(self, dim: int | None=None, keepdim: bool=False) -> Any:
        """The middle element, for an even count the lower one, as in PyTorch; `agrad.median` returns the mean of the two.

        dim : int, optional
            The axis. Default: over all elements.
        Returns: The value; along an axis the pair ``values``, ``indices``. NaN where an element is NaN.
        """
    def mode(self, dim: int=-1, keepdim: bool=False) -> Picked:
        """The most frequent element along an axis, the smallest of several.

        Returns: ``values`` and ``indices``, the last of each.
        """
    def kthvalue(self, k: int, dim: int=-1, keepdim: bool=False) -> Picked:
        """The k-th smallest element along an axis, and its index.

        Returns: ``values`` and ``indices``.
        RuntimeError: If there are fewer elements.
        """
    def cummax(self, dim: int) -> Picked:
        """The largest element so far along an axis, and its index; of equal ones the last.

        Returns: ``values`` and ``indices``.
        """
    def cummin(self, dim: int) -> Picked:
        """The smallest element so far along an axis, and its index; of equal ones the last.

        Returns: ``values`` and ``indices``.
        """
    def argsort(self, dim: int | None=-1, descending: bool | str=False, *, stable: bool=True, axis: int | None=-1, kind: str | None=None) -> Tensor:
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
    def topk(self, k: int, dim: int=-1, largest: bool=True, sorted: bool=True) -> Any:
        """The largest elements along an axis: values and indices; see `agrad.topk`."""

    # agrad/ops/torch_methods.py, ReductionsByDim

    def amax(self, dim: Any=None, keepdim: bool=False) -> Tensor:
        """Largest element over axes; see `agrad.max`."""
    def amin(self, dim: Any=None, keepdim: bool=False) -> Tensor:
        """Smallest element over axes; see `agrad.min`."""
    def logsumexp(self, dim: Any, keepdim: bool=False) -> Tensor:
        """The logarithm of the sum of exponentials over axes; see `agrad.special.logsumexp`."""
    def count_nonzero(self, dim: Any=None) -> Tensor:
        """Count the nonzero elements; see `agrad.count_nonzero`."""
    def softmax(self, dim: int, dtype: Any=None) -> Tensor:
        """Exponentials that sum to 1 along an axis; see `agrad.softmax`."""
    def log_softmax(self, dim: int, dtype: Any=None) -> Tensor:
        """The logarithm of `softmax`; see `agrad.log_softmax`."""

    # agrad/ops/torch_methods.py, Shapes

    def reshape(self, *shape: Any, order: str='C') -> Tensor:
        """The same elements in another shape; see `agrad.reshape`.

        *shape : int, or one tuple of int
            The shape; one entry may be -1.
        order : {'C', 'F', 'A'}, optional
            'F' counts the elements in columns, as in NumPy.
        """
    def view(self, *shape: Any) -> Tensor:
        """As `reshape`; results never alias here.

        *shape : int, or one tuple of int
            The shape; one entry may be -1. Default: that of the tensor.
        TypeError: If a dtype is passed: NumPy's and PyTorch's views of other dtypes reinterpret memory.
        """
    def reshape_as(self, other: Tensor) -> Tensor:
        """`reshape` to the shape of another tensor."""
    def view_as(self, other: Tensor) -> Tensor:
        """`reshape` to the shape of another tensor."""
    def flatten(self, start_dim: int | str=0, end_dim: int=-1, *, order: str='C') -> Tensor:
        """Merge axes from `start_dim` to `end_dim`; see `agrad.extra.flatten`.

        start_dim, end_dim : int, optional
            The first and the last of them. Default: all axes. A string is NumPy's `order`, which has the first
            position.
        order : {'C', 'F', 'A', 'K'}, optional
            'F' counts the elements in columns, as in NumPy.
        """
    def ravel(self, order: str='C') -> Tensor:
        """All elements as a vector.

        order : {'C', 'F', 'A', 'K'}, optional
            'F' counts the elements in columns, as in NumPy.
        """
    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """Split one axis into several; see `agrad.extra.unflatten`."""
    def permute(self, *axes: Any, dims: Any=None) -> Tensor:
        """The axes in another order; see `agrad.permute_dims`.

        *axes : int, or one tuple of int
            For each axis of the result, its number in this tensor.
        dims : tuple of int, optional
            The same by name.
        """
    def transpose(self, dim0: int | tuple[int, ...] | None=None, dim1: int | None=None, *axes: int) -> Tensor:
        """Two axes exchanged; or, as NumPy spells it, all axes in the order of a tuple, or of three arguments and more.

        dim0 : int or tuple of int
            The one axis; or, without `dim1`, all axes in their new order.
        dim1 : int, optional
            The other axis.
        *axes : int
            The rest of the new order. Without any argument the order is reversed.
        TypeError: ``x.transpose(0, 1)`` of a matrix, in code for NumPy, where it is `x` itself.
        """
    def t(self) -> Tensor:
        """The transpose of a matrix.

        Returns: This tensor itself, if it has fewer than two axes.
        ValueError: If it has more than two.
        """
    def unsqueeze(self, dim: int) -> Tensor:
        """A new axis of length 1; see `agrad.expand_dims`.

        dim: Its position in the result.
        """
    def expand(self, *shape: Any) -> Tensor:
        """Broadcast to a shape; see `agrad.broadcast_to`.

        *shape : int, or one tuple of int
            The shape; -1 keeps the length of an axis.
        RuntimeError: For a -1 in place of a new axis.
        """
    def expand_as(self, other: Tensor) -> Tensor:
        """Broadcast to the shape of another tensor."""
    def broadcast_to(self, shape: Any) -> Tensor:
        """Broadcast to a shape; see `agrad.broadcast_to`."""
    def tile(self, *dims: Any) -> Tensor:
        """The whole repeated along each axis; see `agrad.tile`."""
    def repeat(self, *repetitions: Any) -> Tensor:
        """The whole repeated along each axis: PyTorch's meaning, which is the standard's `agrad.tile`.

        *repetitions : int, or one tuple of int
            How often along each axis.
        RuntimeError: If there are fewer numbers than axes.
        TypeError: In code for NumPy: NumPy's repeats each element.
        """
    def unbind(self, dim: int=0) -> tuple[Tensor, ...]:
        """The slices along an axis; see `agrad.unstack`.

        dim: Default: the first.
        Returns: The slices, without the axis.
        """
    def chunk(self, chunks: int, dim: int=0) -> tuple[Tensor, ...]:
        """Split along an axis into at most this many parts; see `agrad.chunk`."""
    def split(self, split_size: Any, dim: int=0) -> tuple[Tensor, ...]:
        """Split along an axis into parts of a length; NumPy's `agrad.extra.split` takes their number."""
    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """Windows along an axis, whose elements lie along a new last axis.

        dimension : int
            The axis, which then counts the windows.
        size : int
            The length of a window.
        step : int
            From one window to the next.
        RuntimeError: If the axis is shorter than a window, or `step` is not positive.
        """
    def repeat_interleave(self, repeats: Any, dim: int | None=None, *, output_size: int | None=None) -> Tensor:
        """Each element, or each entry along an axis, repeated; see `agrad.repeat`.

        output_size : int, optional
            Not looked at.
        """
    def flip(self, *dims: Any) -> Tensor:
        """The order along axes reversed; see `agrad.flip`."""
    def roll(self, shifts: Any, dims: Any=None) -> Tensor:
        """Shift elements along axes; those shifted out return at the other end; see `agrad.roll`."""
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Move axes to other positions; see `agrad.moveaxis`."""
    movedim = moveaxis
    def swapaxes(self, dim0: int, dim1: int) -> Tensor:
        """Two axes exchanged; see `agrad.swapaxes`."""
    swapdims = swapaxes
    def diagonal(self, offset: int=0, dim1: int=0, dim2: int=1, *, axis1: int | None=None, axis2: int | None=None) -> Tensor:
        """The diagonal over two axes, as the last axis; see `agrad.linalg.diagonal`.

        axis1, axis2 : int, optional
            As `dim1` and `dim2`.
        """
    def diag(self, diagonal: int=0) -> Tensor:
        """The diagonal of a matrix, or a matrix with this diagonal; see `agrad.diag`."""
    def tril(self, diagonal: int=0) -> Tensor:
        """The part of matrices on and below a diagonal; see `agrad.tril`."""
    def triu(self, diagonal: int=0) -> Tensor:
        """The part of matrices on and above a diagonal; see `agrad.triu`."""
    def contiguous(self, memory_format: Any=None) -> Tensor:
        """Return this tensor itself: a value has no strides."""
    def is_contiguous(self, memory_format: Any=None) -> bool:
        """Return True: a value has no strides."""
    def ndimension(self) -> int:
        """The number of axes."""
    def nelement(self) -> int:
        """The number of elements."""

    # agrad/ops/torch_methods.py, Elementwise

    @property
    def real(self) -> Tensor:
        """Real part; this tensor itself, if it is not complex."""
    @property
    def imag(self) -> Tensor:
        """Imaginary part."""
    def conj(self) -> Tensor:
        """Complex conjugate; see `agrad.conj`.

        Returns: This tensor itself, if it is not complex.
        """
    def clone(self, *, memory_format: Any=None) -> Tensor:
        """A copy that stays in the graph."""
    def round(self, decimals: int=0) -> Tensor:
        """Round to the nearest number with this many decimals, halves to even; see `agrad.round`.

        TypeError: If the number of decimals is not 0, and the dtype is not floating-point.
        """
    def clamp(self, min: Any=None, max: Any=None) -> Tensor:
        """Limit to a range; see `agrad.clip`."""
    def clip(self, min: Any=None, max: Any=None) -> Tensor:
        """Limit to a range; see `agrad.clip`."""
    def sigmoid(self) -> Tensor:
        """The logistic function; see `agrad.sigmoid`."""
    def relu(self) -> Tensor:
        """The positive part; see `agrad.relu`."""
    def rsqrt(self) -> Tensor:
        """The reciprocal of the square root."""
    def reciprocal(self) -> Tensor:
        """``1 / x``, of integers too, which become floats; the standard's `agrad.reciprocal` is for floats."""
    def exp2(self) -> Tensor:
        """Powers of 2; see `agrad.special.exp2`."""
    def erf(self) -> Tensor:
        """Error function; see `agrad.special.erf`."""
    def erfc(self) -> Tensor:
        """Complementary error function; see `agrad.special.erfc`."""
    def erfinv(self) -> Tensor:
        """Inverse error function; see `agrad.special.erfinv`."""
    def lgamma(self) -> Tensor:
        """The logarithm of the absolute value of the gamma function; see `agrad.special.gammaln`."""
    def digamma(self) -> Tensor:
        """The derivative of `lgamma`; see `agrad.special.psi`."""
    def logit(self, eps: float | None=None) -> Tensor:
        """The inverse of `sigmoid`; see `agrad.special.logit`.

        eps : float, optional
            Limit to [eps, 1 - eps] first.
        """
    def clamp_min(self, min: Any) -> Tensor:
        """Limit from below; see `agrad.clip`."""
    def clamp_max(self, max: Any) -> Tensor:
        """Limit from above; see `agrad.clip`."""
    def nan_to_num(self, nan: float=0.0, posinf: float | None=None, neginf: float | None=None) -> Tensor:
        """Replace NaN and infinities by finite numbers; see `agrad.extra.nan_to_num`."""
    def lerp(self, end: Any, weight: Any) -> Tensor:
        """A point between this tensor and another; see `agrad.lerp`."""
    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any=1) -> Tensor:
        """``self + value * tensor1 * tensor2``."""
    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any=1) -> Tensor:
        """``self + value * tensor1 / tensor2``."""
    def isclose(self, other: Any, rtol: float=1e-05, atol: float=1e-08, equal_nan: bool=False) -> Tensor:
        """Whether elements are equal up to tolerances; see `agrad.isclose`."""
    def equal(self, other: Any) -> bool:
        """Whether two tensors have the same shape and elements, as a Python boolean; `agrad.equal` and ``==`` compare each element."""
    def allclose(self, other: Any, rtol: float=1e-05, atol: float=1e-08, equal_nan: bool=False) -> bool:
        """Whether all elements are equal up to tolerances; see `agrad.allclose`."""
    def add(self, other: Any, *, alpha: Any=1) -> Tensor:
        """``self + alpha * other``; see `agrad.add`."""
    def sub(self, other: Any, *, alpha: Any=1) -> Tensor:
        """``self - alpha * other``; see `agrad.subtract`."""
    subtract = sub
    def div(self, other: Any, *, rounding_mode: str | None=None) -> Tensor:
        """``self / other``, rounded down ("floor") or towards 0 ("trunc") if requested; see `agrad.divide`.

        ValueError: If `rounding_mode` is something else.
        """
    divide = div

    # agrad/ops/torch_methods.py, Matrices

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of the last two axes."""
    @property
    def is_cuda(self) -> bool:
        """Whether it is on a CUDA device, one of the cupy backend."""
    @property
    def is_xpu(self) -> bool:
        """False: no backend computes on Intel's devices."""
    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""
    def matmul(self, other: Any) -> Tensor:
        """Matrix product; see `agrad.matmul`.

        other: The second factor.
        """
    def mm(self, mat2: Any) -> Tensor:
        """Product of two matrices; see `agrad.matmul`."""
    def bmm(self, mat2: Any) -> Tensor:
        """Products of matrices, one by one along the first axis; see `agrad.matmul`."""
    def mv(self, vec: Any) -> Tensor:
        """Product of a matrix and a vector; see `agrad.matmul`."""
    def dot(self, other: Any) -> Tensor:
        """Sum of the products of two vectors; of more axes as ``numpy.dot``.

        other: The second factor, which is not conjugated.
        """
    def norm(self, p: float | str='fro', dim: Axis=None, keepdim: bool=False, dtype: Any=None) -> Tensor:
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
    def addmm(self, mat1: Any, mat2: Any, *, beta: Any=1, alpha: Any=1) -> Tensor:
        """``beta * self + alpha * (mat1 @ mat2)``; a `beta` of 0 keeps NaN of this tensor out."""
    def outer(self, other: Any) -> Tensor:
        """All products of the elements of two vectors; see `agrad.linalg.outer`."""
    def trace(self, offset: int=0, axis1: int=0, axis2: int=1, dtype: Any=None, out: Any=None) -> Tensor:
        """The sum of the diagonal over two axes, as ``numpy.trace``; `agrad.linalg.trace` takes the last two.

        axis1, axis2 : int, optional
            The axes. Default: the first two.
        out : Tensor, optional
            The tensor to write the result to.
        """
    def det(self) -> Tensor:
        """Determinant; see `agrad.linalg.det`."""
    def inverse(self) -> Tensor:
        """Inverse of a matrix; see `agrad.linalg.inv`."""
    def matrix_power(self, n: int) -> Tensor:
        """Power of a matrix; see `agrad.linalg.matrix_power`."""

    # agrad/ops/torch_methods.py, Conversions

    def to(self, *args: Any, dtype: Any=None, device: Any=None, non_blocking: bool=False, copy: bool=False, memory_format: Any=None) -> Tensor:
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
    def type(self, dtype: Any=None, non_blocking: bool=False) -> Tensor:
        """Converted to a dtype; the dtype itself is `dtype`, an attribute.

        dtype: The dtype.
        non_blocking : bool, optional
            Not looked at.
        Returns: This tensor itself, if it has the dtype already.
        TypeError: If no dtype is passed: PyTorch's class names, as ``'torch.FloatTensor'``, are not supported.
        """
    def type_as(self, other: Tensor) -> Tensor:
        """Converted to the dtype of another tensor.

        Returns: This tensor itself, if it has the dtype already.
        """
    def cpu(self) -> Tensor:
        """Moved to the numpy backend.

        Returns: This tensor itself if it is already there.
        """
    def cuda(self, device: Any=None, non_blocking: bool=False) -> Tensor:
        """Moved to the cupy backend, which stands for PyTorch's ``cuda``.

        non_blocking : bool, optional
            Ignored: CuPy's own queue decides when to wait.
        """
    def new_zeros(self, *size: Any, dtype: Any=None, device: Any=None, requires_grad: bool=False) -> Tensor:
        """Zeros of a shape, of the dtype and on the device of this tensor."""
    def new_ones(self, *size: Any, dtype: Any=None, device: Any=None, requires_grad: bool=False) -> Tensor:
        """Ones of a shape, of the dtype and on the device of this tensor."""
    def new_empty(self, *size: Any, dtype: Any=None, device: Any=None, requires_grad: bool=False) -> Tensor:
        """Uninitialised memory of a shape, of the dtype and on the device of this tensor."""
    def new_full(self, size: Any, fill_value: Any, *, dtype: Any=None, device: Any=None, requires_grad: bool=False) -> Tensor:
        """One value in a shape, of the dtype and on the device of this tensor."""
    def new_tensor(self, data: Any, *, dtype: Any=None, device: Any=None, requires_grad: bool=False) -> Tensor:
        """A leaf of given values, of the dtype and on the device of this tensor."""

    # agrad/ops/torch_methods.py, InPlace

    def zero_(self) -> Tensor:
        """Set to zeros."""
    def fill_(self, value: Any) -> Tensor:
        """Set every element to a value.

        value: The value.
        """
    def copy_(self, source: Any) -> Tensor:
        """Set to the values of another tensor, broadcast and converted.

        source: The values; they stay in the graph.
        """
    def add_(self, other: Any, *, alpha: Any=1) -> Tensor:
        """``self += alpha * other``."""
    def sub_(self, other: Any, *, alpha: Any=1) -> Tensor:
        """``self -= alpha * other``."""
    def mul_(self, other: Any) -> Tensor:
        """``self *= other``."""
    def div_(self, other: Any, *, rounding_mode: str | None=None) -> Tensor:
        """`div`, in place."""
    def pow_(self, other: Any) -> Tensor:
        """``self **= other``."""
    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: Any=1) -> Tensor:
        """``self += value * tensor1 * tensor2``."""
    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: Any=1) -> Tensor:
        """``self += value * tensor1 / tensor2``."""
    def masked_fill_(self, mask: Any, value: Any) -> Tensor:
        """Set to `value` where a mask is true."""
    def round_(self, decimals: int=0) -> Tensor:
        """`round`, in place."""
    def clamp_(self, min: Any=None, max: Any=None) -> Tensor:
        """`clamp`, in place."""
    def sigmoid_(self) -> Tensor:
        """`sigmoid`, in place."""
    def relu_(self) -> Tensor:
        """`relu`, in place."""
    def reciprocal_(self) -> Tensor:
        """`reciprocal`, in place."""
    def clamp_min_(self, min: Any) -> Tensor:
        """`clamp_min`, in place."""
    def clamp_max_(self, max: Any) -> Tensor:
        """`clamp_max`, in place."""
    def lerp_(self, end: Any, weight: Any) -> Tensor:
        """`lerp`, in place."""
    def scatter_(self, dim: int, index: Any, src: Any) -> Tensor:
        """`scatter`, in place."""
    def scatter_add_(self, dim: int, index: Any, src: Any) -> Tensor:
        """`scatter_add`, in place."""
    def scatter_reduce_(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool=True) -> Tensor:
        """`scatter_reduce`, in place."""
    def index_put_(self, indices: Any, values: Any, accumulate: bool=False) -> Tensor:
        """`index_put`, in place."""
    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: Any=1) -> Tensor:
        """`index_add`, in place."""
    def index_copy_(self, dim: int, index: Any, source: Any) -> Tensor:
        """`index_copy`, in place."""
    def index_fill_(self, dim: int, index: Any, value: Any) -> Tensor:
        """`index_fill`, in place."""

    # agrad/random/__init__.py, Draws

    def normal_(self, mean: float=0.0, std: float=1.0, *, generator: Any=None) -> Tensor:
        """Set to numbers of a normal distribution.

        mean, std : float, optional
            Its mean and standard deviation. In complex tensors both parts have this mean, and half of the variance each.
        """
    def uniform_(self, a: float=0.0, b: float=1.0, *, generator: Any=None) -> Tensor:
        """Set to numbers uniform on [a, b).

        a, b : float, optional
            The bounds; in complex tensors those of both parts.
        """
    def exponential_(self, lambd: float=1.0, *, generator: Any=None) -> Tensor:
        """Set to numbers of an exponential distribution.

        lambd : float, optional
            The rate, one over the mean.
        """
    def bernoulli_(self, p: Any=0.5, *, generator: Any=None) -> Tensor:
        """Set to ones with a probability, zeros otherwise.

        p : float or Tensor, optional
            The probability, or that of each element.
        """
    def random_(self, low: int | None=None, to: int | None=None, *, generator: Any=None) -> Tensor:
        """Set to integers uniform from `low` (0 if omitted) to ``to - 1``; a single number is `to`.

        low, to : int, optional
            The range. Default: all integers from 0 on that the dtype holds, of a floating point one those without gaps.
        """

    # agrad/view/__init__.py, Repr

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """Return a table of properties, and the text; for a lazy tensor its library's view, without computing it."""
