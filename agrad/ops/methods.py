"""The methods and operators of `Tensor`: the functions of this package under the standard's and PyTorch's spellings.

The end of this file puts them on `Tensor`. In-place spellings rebind the tensor to the result; see ``core.buffers.rebind``.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from agrad import dtypes
from agrad.core import errors
from agrad.core.backend import Device
from agrad.core.buffers import check_leaf, is_temporary, rebind
from agrad.core.op import OPS, make_operator
from agrad.core.tensor import Tensor, attached
from agrad.ops import creation, data_type, elementwise, linalg, manipulation, searching, statistical
from agrad.ops.docs import complete
from agrad.ops.extra.common import checked_axis
from agrad.ops.namespace import namespace
from agrad.ops.porting import ARGUMENTS, PortedMethods, axes_of, shape_of
from agrad.ops.ufunc import NumpyMethods
from agrad.plugin import manager

Axis = int | tuple[int, ...] | None

# -- operators ------------------------------------------------------------------------------------------------------------

#: Operator by op; each has a reflected and an in-place form.
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
COMPARISON = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}


def _in_place(name: str, symbol: str) -> Callable[[Tensor, Any], Tensor]:
    function = getattr(operator, name if name.startswith("__") else f"__{name}__")

    def method(self: Tensor, other: Any, /) -> Tensor:
        check_leaf(self, symbol)
        if self._base is not None and is_temporary(sys.getrefcount(self), self):
            self._base = None  # x[i] += v: Python assigns the result to x[i]
        result = function(self, other)
        if not isinstance(result, Tensor):
            return NotImplemented  # the other operand knows how, and Python asks it again
        rebind(self, result, symbol)
        return self

    return method


def _setitem(self: Tensor, key: Any, value: Any, /) -> None:
    if is_temporary(sys.getrefcount(self), self):
        raise errors.lost_assignment(
            "an operation (indexing, .T, reshape...)", "x[i, j] = value in one step, or name it"
        )
    searching.assign(self, key, value)


def _getitem(self: Tensor, key: Any, /) -> Tensor:
    return searching.getitem(self, key)


class Methods(PortedMethods, NumpyMethods):
    """Methods of `Tensor`. PyTorch's ``dim`` and ``keepdim`` stand for ``axis`` and ``keepdims``."""

    def __init__(self: Any, *args: Any, dtype: Any = None, device: Any = None) -> None:
        if all(isinstance(arg, int) and not isinstance(arg, bool) for arg in args):
            made = creation.empty(args, dtype=dtype, device=device)
        elif len(args) == 1:
            made = creation.tensor(args[0], dtype=dtype or manager.get_default_dtype(), device=device)
        else:
            message = "Tensor() takes a shape as integers, or one sequence of numbers"
            raise TypeError(message)
        self._raw, self._spec, self._node = made._raw, made._spec, None

    # -- the standard's -----------------------------------------------------------------------------------------------------

    @property
    def device(self: Any) -> Any:
        """``"<backend>[:<device>]"``."""
        return Device(self._spec.device)

    def __array_namespace__(self: Any, /, *, api_version: str | None = None) -> Any:
        return namespace(self._spec.device, api_version=api_version)

    def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Tensor:
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
            This tensor itself, if it is there already.

        Raises
        ------
        BackendError
            If the backend is unknown or unusable here.
        ValueError
            If a stream is given.
        """
        result: Tensor = data_type.to_device(self, device, stream=stream)
        return result

    def __dlpack__(
        self: Any,
        /,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        if self._node is not None or self._is_followed():
            message = "Can't export tensors that require gradient, use tensor.detach()"
            raise BufferError(message)
        if copy is False:
            message = (
                "DLPack gives a copy of a tensor: its value may be shared, and most who take it would write to it. Leave"
                " out copy=False; x.detach().numpy() gives the memory itself, read-only."
            )
            raise BufferError(message)
        backend = self._spec.backend
        array = (
            manager.to_numpy(self).copy()
            if backend.is_lazy
            else backend.asarray(self._raw, device=self._spec.device, copy=True)
        )
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device}
        # the array's own method may be of an older version of the standard: give it what was asked for only
        return array.__dlpack__(**{name: value for name, value in asked.items() if value is not None})

    def __dlpack_device__(self: Any, /) -> Any:
        lazy = self._spec.backend.is_lazy
        return (manager.to_numpy(self) if lazy else self._raw).__dlpack_device__()

    def __iter__(self: Any) -> Iterator[Tensor]:
        if not self._spec.shape:
            message = "iteration over a 0-d tensor"
            raise TypeError(message)
        return iter(manipulation.unstack(self))

    def __contains__(self: Any, item: Any) -> bool:
        return bool(statistical.any(self == item))

    @property
    def T(self: Any) -> Tensor:
        """The transpose of a matrix."""
        if self.ndim != 2:
            message = f"x.T takes a matrix, not a tensor of shape {self.shape}; use x.mT or agrad.permute_dims"
            raise ValueError(message)
        return manipulation.matrix_transpose(self)

    @property
    def mT(self: Any) -> Tensor:
        """The transpose of the last two axes."""
        return manipulation.matrix_transpose(self)

    @property
    def H(self: Any) -> Tensor:
        """The conjugate transpose of a matrix."""
        return elementwise.conj(self.T) if self.is_complex() else self.T

    @property
    def real(self: Any) -> Tensor:
        """Real part; this tensor itself, if it is not complex."""
        return elementwise.real(self) if self.is_complex() else self

    @property
    def imag(self: Any) -> Tensor:
        """Imaginary part."""
        return elementwise.imag(self)

    # -- reductions ---------------------------------------------------------------------------------------------------------

    def sum(
        self: Any,
        axis: Axis = None,
        dtype: Any = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Sum over axes; see `agrad.sum`.

        Parameters
        ----------
        axis, dtype, keepdims : optional
            As for `agrad.sum`.
        dim, keepdim : optional
            PyTorch's names of `axis` and `keepdims`.

        Returns
        -------
        Tensor
            The result.
        """
        return statistical.sum(self, axis=_either(axis, dim), dtype=dtype, keepdims=keepdims or keepdim)

    def mean(
        self: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """Mean over axes; see `agrad.mean`.

        Parameters
        ----------
        axis, keepdims : optional
            As for `agrad.mean`.
        dim, keepdim : optional
            PyTorch's names of `axis` and `keepdims`.

        Returns
        -------
        Tensor
            The result.
        """
        return statistical.mean(self, axis=_either(axis, dim), keepdims=keepdims or keepdim)

    def prod(
        self: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """Product over axes; see `agrad.prod`.

        Parameters
        ----------
        axis, keepdims : optional
            As for `agrad.prod`.
        dim, keepdim : optional
            PyTorch's names of `axis` and `keepdims`.

        Returns
        -------
        Tensor
            The result.
        """
        return statistical.prod(self, axis=_either(axis, dim), keepdims=keepdims or keepdim)

    def max(self: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Largest element over axes; see `agrad.max`.

        Parameters
        ----------
        axis, keepdims : optional
            As for `agrad.max`.
        dim, keepdim : optional
            PyTorch's names of `axis` and `keepdims`.

        Returns
        -------
        Tensor
            The result.

        Notes
        -----
        PyTorch's ``max(dim)`` gives indices too: here `argmax` does, and ties share the gradient evenly.
        """
        return statistical.max(self, axis=_either(axis, dim), keepdims=keepdims or keepdim)

    def min(self: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Smallest element over axes; see `agrad.min`.

        Parameters
        ----------
        axis, keepdims : optional
            As for `agrad.min`.
        dim, keepdim : optional
            PyTorch's names of `axis` and `keepdims`.

        Returns
        -------
        Tensor
            The result.

        Notes
        -----
        PyTorch's ``min(dim)`` gives indices too: here `argmin` does, and ties share the gradient evenly.
        """
        return statistical.min(self, axis=_either(axis, dim), keepdims=keepdims or keepdim)

    def var(
        self: Any, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *, dim: Axis = None
    ) -> Tensor:
        """Variance over axes; see `agrad.var`.

        Parameters
        ----------
        axis, correction, keepdims : optional
            As for `agrad.var`.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            The result.

        Notes
        -----
        The default `correction` is the standard's 0, not PyTorch's 1.
        """
        return statistical.var(self, axis=_either(axis, dim), correction=correction, keepdims=keepdims)

    def std(
        self: Any, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *, dim: Axis = None
    ) -> Tensor:
        """Standard deviation over axes; see `agrad.std`.

        Parameters
        ----------
        axis, correction, keepdims : optional
            As for `agrad.std`.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            The result.

        Notes
        -----
        The default `correction` is the standard's 0, not PyTorch's 1.
        """
        return statistical.std(self, axis=_either(axis, dim), correction=correction, keepdims=keepdims)

    def all(self: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None) -> Tensor:
        """Whether all elements are true; see `agrad.all`.

        Parameters
        ----------
        axis, keepdims : optional
            As for `agrad.all`.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            Boolean.
        """
        return statistical.all(self, axis=_either(axis, dim), keepdims=keepdims)

    def any(self: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None) -> Tensor:
        """Whether any element is true; see `agrad.any`.

        Parameters
        ----------
        axis, keepdims : optional
            As for `agrad.any`.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            Boolean.
        """
        return statistical.any(self, axis=_either(axis, dim), keepdims=keepdims)

    def argmax(self: Any, axis: int | None = None, keepdims: bool = False, *, dim: int | None = None) -> Tensor:
        """The index of the largest element; see `agrad.argmax`.

        Parameters
        ----------
        axis, keepdims : optional
            As for `agrad.argmax`.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            Integer.
        """
        return searching.argmax(self, axis=_either(axis, dim), keepdims=keepdims)

    def argmin(self: Any, axis: int | None = None, keepdims: bool = False, *, dim: int | None = None) -> Tensor:
        """The index of the smallest element; see `agrad.argmin`.

        Parameters
        ----------
        axis, keepdims : optional
            As for `agrad.argmin`.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            Integer.
        """
        return searching.argmin(self, axis=_either(axis, dim), keepdims=keepdims)

    def cumsum(self: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """Running sum along an axis; see `agrad.cumulative_sum`.

        Parameters
        ----------
        axis : optional
            As for `agrad.cumulative_sum`.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            The result.
        """
        return statistical.cumulative_sum(self, axis=_either(axis, dim))

    def cumprod(self: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """Running product along an axis; see `agrad.cumulative_prod`.

        Parameters
        ----------
        axis : optional
            As for `agrad.cumulative_prod`.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            The result.
        """
        return statistical.cumulative_prod(self, axis=_either(axis, dim))

    # -- shapes -------------------------------------------------------------------------------------------------------------

    def reshape(self: Any, *shape: Any) -> Tensor:
        """The same elements in another shape; see `agrad.reshape`.

        Parameters
        ----------
        *shape : int, or one tuple of int
            The shape; one entry may be -1.

        Returns
        -------
        Tensor
            The result.
        """
        return manipulation.reshape(self, shape_of(shape))

    def view(self: Any, *shape: Any) -> Tensor:
        """As `reshape`; results never alias here.

        Parameters
        ----------
        *shape : int, or one tuple of int
            The shape; one entry may be -1.

        Returns
        -------
        Tensor
            The result.
        """
        return manipulation.reshape(self, shape_of(shape))

    def view_as(self: Any, other: Tensor) -> Tensor:
        """`reshape` to the shape of another tensor.

        Parameters
        ----------
        other : Tensor
            Of as many elements.

        Returns
        -------
        Tensor
            The result.
        """
        return manipulation.reshape(self, other.shape)

    def flatten(self: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Axes from `start_dim` to `end_dim` made one.

        Parameters
        ----------
        start_dim, end_dim : int, optional
            The first and the last of them. Default: all axes.

        Returns
        -------
        Tensor
            The result.
        """
        rank = max(self.ndim, 1)
        start, end = start_dim % rank, end_dim % rank
        shape = self.shape or (1,)
        return manipulation.reshape(self, (*shape[:start], -1, *shape[end + 1 :]))

    def permute(self: Any, *axes: Any) -> Tensor:
        """The axes in another order; see `agrad.permute_dims`.

        Parameters
        ----------
        *axes : int, or one tuple of int
            For each axis of the result, which one of this tensor it is.

        Returns
        -------
        Tensor
            The result.
        """
        return manipulation.permute_dims(self, shape_of(axes))

    def transpose(self: Any, axis0: int | tuple[int, ...], axis1: int | None = None) -> Tensor:
        """Two axes exchanged; or, as NumPy spells it, all axes in the order of a tuple.

        Parameters
        ----------
        axis0 : int or tuple of int
            The one axis; or, without `axis1`, all axes in their new order.
        axis1 : int, optional
            The other axis.

        Returns
        -------
        Tensor
            The result.
        """
        if axis1 is None:
            return manipulation.permute_dims(self, shape_of((axis0,)))
        if not isinstance(axis0, int):
            message = f"transpose() takes two axes, or one tuple of all axes, not {axis0!r} and {axis1!r}"
            raise TypeError(message)
        axes = list(range(self.ndim))
        i, j = (checked_axis("transpose", axis, self.ndim) for axis in (axis0, axis1))
        axes[i], axes[j] = j, i
        return manipulation.permute_dims(self, tuple(axes))

    def t(self: Any) -> Tensor:
        """The transpose of a matrix.

        Returns
        -------
        Tensor
            This tensor itself, if it has fewer than two axes.

        Raises
        ------
        ValueError
            If it has more than two.
        """
        return self if self.ndim < 2 else self.T

    def squeeze(self: Any, axis: Axis = None, *, dim: Axis = None) -> Tensor:
        """Axes of length 1 removed; see `agrad.squeeze`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes. Default: all of length 1.
        dim : optional
            PyTorch's name of `axis`.

        Returns
        -------
        Tensor
            The result.

        Raises
        ------
        ValueError
            If one of them is longer than 1 (PyTorch leaves it).
        """
        axis = _either(axis, dim)
        if axis is None:
            axis = tuple(i for i, n in enumerate(self.shape) if n == 1)
        return manipulation.squeeze(self, axis)

    def unsqueeze(self: Any, axis: int) -> Tensor:
        """A new axis of length 1; see `agrad.expand_dims`.

        Parameters
        ----------
        axis : int
            Its place in the result.

        Returns
        -------
        Tensor
            The result.
        """
        return manipulation.expand_dims(self, axis=axis)

    def expand(self: Any, *shape: Any) -> Tensor:
        """Broadcast to a shape; see `agrad.broadcast_to`.

        Parameters
        ----------
        *shape : int, or one tuple of int
            The shape; -1 keeps an axis as it is.

        Returns
        -------
        Tensor
            The result.
        """
        wanted = shape_of(shape)
        lead = len(wanted) - self.ndim
        full = tuple(self.shape[i - lead] if n == -1 else n for i, n in enumerate(wanted))
        return manipulation.broadcast_to(self, full)

    def expand_as(self: Any, other: Tensor) -> Tensor:
        """Broadcast to the shape of another tensor.

        Parameters
        ----------
        other : Tensor
            The other.

        Returns
        -------
        Tensor
            The result.
        """
        return manipulation.broadcast_to(self, other.shape)

    def repeat(self: Any, *repetitions: Any) -> Tensor:
        """The whole repeated along each axis: PyTorch's meaning, which is the standard's `agrad.tile`.

        Parameters
        ----------
        *repetitions : int, or one tuple of int
            How often along each axis.

        Returns
        -------
        Tensor
            The result.
        """
        return manipulation.tile(self, shape_of(repetitions))

    def unbind(self: Any, axis: int = 0) -> tuple[Tensor, ...]:
        """The slices along an axis; see `agrad.unstack`.

        Parameters
        ----------
        axis : int, optional
            The axis. Default: the first.

        Returns
        -------
        tuple of Tensor
            The slices, without the axis.
        """
        return manipulation.unstack(self, axis=axis)

    # -- elementwise --------------------------------------------------------------------------------------------------------

    def clamp(self: Any, min: Any = None, max: Any = None) -> Tensor:
        """Limit to a range; see `agrad.clip`.

        Parameters
        ----------
        min, max : Tensor, array or scalar, optional
            The bounds; None is no bound.

        Returns
        -------
        Tensor
            The result.
        """
        return elementwise.clip(self, min, max)

    def clip(self: Any, min: Any = None, max: Any = None) -> Tensor:
        """Limit to a range; see `agrad.clip`.

        Parameters
        ----------
        min, max : Tensor, array or scalar, optional
            The bounds; None is no bound.

        Returns
        -------
        Tensor
            The result.
        """
        return elementwise.clip(self, min, max)

    def conj(self: Any) -> Tensor:
        """Complex conjugate; see `agrad.conj`.

        Returns
        -------
        Tensor
            This tensor itself, if it is not complex.
        """
        return elementwise.conj(self) if self.is_complex() else self

    def masked_fill(self: Any, mask: Any, value: Any) -> Tensor:
        """A copy with `value` where a mask is true; see `agrad.where`.

        Parameters
        ----------
        mask : Tensor or array
            Boolean; it broadcasts with this tensor.
        value : Tensor, array or scalar
            What to put there.

        Returns
        -------
        Tensor
            The result.
        """
        return searching.where(mask, value, self)

    def clone(self: Any) -> Tensor:
        """A copy that stays in the graph.

        Returns
        -------
        Tensor
            The result.
        """
        if not self._spec.inexact:
            return creation.asarray(self, copy=True)
        return elementwise.positive(self)

    def matmul(self: Any, other: Any) -> Tensor:
        """Matrix product; see `agrad.matmul`.

        Parameters
        ----------
        other : Tensor or array
            The second factor.

        Returns
        -------
        Tensor
            The result.
        """
        return linalg.matmul(self, other)

    mm = matmul
    mv = matmul
    bmm = matmul

    def dot(self: Any, other: Any) -> Tensor:
        """Sum of the products of two vectors.

        Parameters
        ----------
        other : Tensor or array
            The second factor, which is not conjugated.

        Returns
        -------
        Tensor
            The result.
        """
        return linalg.tensordot(self, other, axes=1)

    def norm(self: Any) -> Tensor:
        """The Euclidean norm of all elements.

        Returns
        -------
        Tensor
            Real, 0-d.

        Notes
        -----
        Derivative: ``x / norm(x)``; 0 where the norm is 0, as in PyTorch.
        """
        return linalg.vector_norm(self)

    # -- dtype and device -----------------------------------------------------------------------------------------------------

    def to(self: Any, *args: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """Converted to a dtype, moved to a device, or both.

        Parameters
        ----------
        *args : DType, backend's dtype, str or Tensor
            Dtypes and devices in any order; a tensor stands for its own.
        dtype, device : optional
            The same by name.

        Returns
        -------
        Tensor
            This tensor itself, if there is nothing to do.
        """
        for arg in args:
            if isinstance(arg, Tensor):
                dtype, device = arg.dtype, arg.device
            elif isinstance(arg, str) and arg not in OPS and not hasattr(dtypes, arg):
                device = arg
            else:
                dtype = arg
        made = self if device is None else data_type.to_device(self, device)
        return made if dtype is None else data_type.astype(made, dtype, copy=False)

    def type_as(self: Any, other: Tensor) -> Tensor:
        """Converted to the dtype of another tensor.

        Parameters
        ----------
        other : Tensor
            The other.

        Returns
        -------
        Tensor
            This tensor itself, if it has the dtype already.
        """
        return data_type.astype(self, other.dtype, copy=False)

    def double(self: Any) -> Tensor:
        """Converted to float64.

        Returns
        -------
        Tensor
            This tensor itself, if it has the dtype already.
        """
        return data_type.astype(self, "float64", copy=False)

    def float(self: Any) -> Tensor:
        """Converted to float32.

        Returns
        -------
        Tensor
            This tensor itself, if it has the dtype already.
        """
        return data_type.astype(self, "float32", copy=False)

    def long(self: Any) -> Tensor:
        """Converted to int64.

        Returns
        -------
        Tensor
            This tensor itself, if it has the dtype already.
        """
        return data_type.astype(self, "int64", copy=False)

    def int(self: Any) -> Tensor:
        """Converted to int32.

        Returns
        -------
        Tensor
            This tensor itself, if it has the dtype already.
        """
        return data_type.astype(self, "int32", copy=False)

    def bool(self: Any) -> Tensor:
        """Converted to bool.

        Returns
        -------
        Tensor
            This tensor itself, if it has the dtype already.
        """
        return data_type.astype(self, "bool", copy=False)

    def cpu(self: Any) -> Tensor:
        """Moved to the numpy backend.

        Returns
        -------
        Tensor
            This tensor itself, if it is there already.
        """
        return data_type.to_device(self, "numpy")

    # -- in place -----------------------------------------------------------------------------------------------------------

    def zero_(self: Any) -> Tensor:
        """Set to zeros.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self.fill_(0)

    def fill_(self: Any, value: Any) -> Tensor:
        """Set every element to a value.

        Parameters
        ----------
        value : Tensor or scalar
            The value.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        check_leaf(self, "fill_()")
        rebind(self, searching.where(creation.ones_like(self, dtype="bool"), value, self), "fill_()")
        return self

    def copy_(self: Any, source: Any) -> Tensor:
        """Set to the values of another tensor, broadcast and converted.

        Parameters
        ----------
        source : Tensor, array or scalar
            The values; they stay in the graph.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
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
        """``self += alpha * other``.

        Parameters
        ----------
        other : Tensor, array or scalar
            The second operand.
        alpha : scalar, optional
            A factor for it.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("add_()", elementwise.add, other if alpha == 1 else other * alpha)

    def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
        """``self -= alpha * other``.

        Parameters
        ----------
        other : Tensor, array or scalar
            The second operand.
        alpha : scalar, optional
            A factor for it.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("sub_()", elementwise.subtract, other if alpha == 1 else other * alpha)

    def mul_(self: Any, other: Any) -> Tensor:
        """``self *= other``.

        Parameters
        ----------
        other : Tensor, array or scalar
            The second operand.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("mul_()", elementwise.multiply, other)

    def div_(self: Any, other: Any) -> Tensor:
        """``self /= other``.

        Parameters
        ----------
        other : Tensor, array or scalar
            The second operand.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("div_()", elementwise.divide, other)

    def pow_(self: Any, other: Any) -> Tensor:
        """``self **= other``.

        Parameters
        ----------
        other : Tensor, array or scalar
            The second operand.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("pow_()", elementwise.pow, other)

    def clamp_(self: Any, min: Any = None, max: Any = None) -> Tensor:
        """Limit to a range, in place; see `agrad.clip`.

        Parameters
        ----------
        min, max : Tensor, array or scalar, optional
            The bounds; None is no bound.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("clamp_()", elementwise.clip, min, max)

    def addcmul_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """``self += value * tensor1 * tensor2``.

        Parameters
        ----------
        tensor1, tensor2 : Tensor
            The operands.
        value : scalar, optional
            A factor.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("addcmul_()", elementwise.add, tensor1 * tensor2 * value)

    def addcdiv_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """``self += value * tensor1 / tensor2``.

        Parameters
        ----------
        tensor1, tensor2 : Tensor
            The operands.
        value : scalar, optional
            A factor.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("addcdiv_()", elementwise.add, tensor1 / tensor2 * value)

    def masked_fill_(self: Any, mask: Any, value: Any) -> Tensor:
        """Set to `value` where a mask is true.

        Parameters
        ----------
        mask : Tensor or array
            Boolean; it broadcasts with this tensor.
        value : Tensor, array or scalar
            What to put there.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            On a leaf that requires grad, while recording.
        """
        return self._update("masked_fill_()", lambda x: searching.where(mask, value, x))

    def _update(self: Any, what: str, function: Callable[..., Tensor], *args: Any) -> Tensor:
        check_leaf(self, what)
        rebind(self, function(self, *args), what)
        return self

    if TYPE_CHECKING:  # attached by `attach`, from the tables below

        def sqrt(self, /) -> Tensor: ...
        def exp(self, /) -> Tensor: ...
        def expm1(self, /) -> Tensor: ...
        def log(self, /) -> Tensor: ...
        def log1p(self, /) -> Tensor: ...
        def log2(self, /) -> Tensor: ...
        def log10(self, /) -> Tensor: ...
        def sin(self, /) -> Tensor: ...
        def cos(self, /) -> Tensor: ...
        def tan(self, /) -> Tensor: ...
        def sinh(self, /) -> Tensor: ...
        def cosh(self, /) -> Tensor: ...
        def tanh(self, /) -> Tensor: ...
        def asin(self, /) -> Tensor: ...
        def acos(self, /) -> Tensor: ...
        def atan(self, /) -> Tensor: ...
        def asinh(self, /) -> Tensor: ...
        def acosh(self, /) -> Tensor: ...
        def atanh(self, /) -> Tensor: ...
        def square(self, /) -> Tensor: ...
        def reciprocal(self, /) -> Tensor: ...
        def floor(self, /) -> Tensor: ...
        def ceil(self, /) -> Tensor: ...
        def round(self, /) -> Tensor: ...
        def trunc(self, /) -> Tensor: ...
        def sign(self, /) -> Tensor: ...
        def isnan(self, /) -> Tensor: ...
        def isinf(self, /) -> Tensor: ...
        def isfinite(self, /) -> Tensor: ...
        def neg(self, /) -> Tensor: ...
        def abs(self, /) -> Tensor: ...
        def sqrt_(self, /) -> Tensor: ...
        def exp_(self, /) -> Tensor: ...
        def expm1_(self, /) -> Tensor: ...
        def log_(self, /) -> Tensor: ...
        def log1p_(self, /) -> Tensor: ...
        def log2_(self, /) -> Tensor: ...
        def log10_(self, /) -> Tensor: ...
        def sin_(self, /) -> Tensor: ...
        def cos_(self, /) -> Tensor: ...
        def tan_(self, /) -> Tensor: ...
        def sinh_(self, /) -> Tensor: ...
        def cosh_(self, /) -> Tensor: ...
        def tanh_(self, /) -> Tensor: ...
        def asin_(self, /) -> Tensor: ...
        def acos_(self, /) -> Tensor: ...
        def atan_(self, /) -> Tensor: ...
        def asinh_(self, /) -> Tensor: ...
        def acosh_(self, /) -> Tensor: ...
        def atanh_(self, /) -> Tensor: ...
        def square_(self, /) -> Tensor: ...
        def reciprocal_(self, /) -> Tensor: ...
        def floor_(self, /) -> Tensor: ...
        def ceil_(self, /) -> Tensor: ...
        def round_(self, /) -> Tensor: ...
        def trunc_(self, /) -> Tensor: ...
        def sign_(self, /) -> Tensor: ...
        def isnan_(self, /) -> Tensor: ...
        def isinf_(self, /) -> Tensor: ...
        def isfinite_(self, /) -> Tensor: ...
        def neg_(self, /) -> Tensor: ...
        def abs_(self, /) -> Tensor: ...
        def add(self, other: Any, /) -> Tensor: ...
        def multiply(self, other: Any, /) -> Tensor: ...
        def subtract(self, other: Any, /) -> Tensor: ...
        def divide(self, other: Any, /) -> Tensor: ...
        def pow(self, other: Any, /) -> Tensor: ...
        def maximum(self, other: Any, /) -> Tensor: ...
        def minimum(self, other: Any, /) -> Tensor: ...
        def remainder(self, other: Any, /) -> Tensor: ...
        def atan2(self, other: Any, /) -> Tensor: ...
        def hypot(self, other: Any, /) -> Tensor: ...
        def logaddexp(self, other: Any, /) -> Tensor: ...
        def less(self, other: Any, /) -> Tensor: ...
        def greater(self, other: Any, /) -> Tensor: ...
        def equal(self, other: Any, /) -> Tensor: ...
        def sub(self, other: Any, /) -> Tensor: ...
        def mul(self, other: Any, /) -> Tensor: ...
        def div(self, other: Any, /) -> Tensor: ...
        def eq(self, other: Any, /) -> Tensor: ...
        def ne(self, other: Any, /) -> Tensor: ...
        def lt(self, other: Any, /) -> Tensor: ...
        def le(self, other: Any, /) -> Tensor: ...
        def gt(self, other: Any, /) -> Tensor: ...
        def ge(self, other: Any, /) -> Tensor: ...


def _either(axis: Any, dim: Any) -> Any:
    return axes_of(dim if axis is None else axis)


#: Functions of one operand that are methods, and in-place methods with an underscore, under their own or another name.
UNARY_METHODS = {
    **{name: name for name in ("abs", "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan")},
    **{name: name for name in ("sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "square")},
    **{name: name for name in ("reciprocal", "floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "isfinite")},
    "neg": "negative",
}
#: Functions of two operands that are methods.
BINARY_METHODS = {
    **{name: name for name in ("add", "multiply", "subtract", "divide", "pow", "maximum", "minimum", "remainder")},
    **{name: name for name in ("atan2", "hypot", "logaddexp", "less", "greater", "equal")},
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


_OPERAND = "Parameters\n----------\nother : Tensor, array or scalar\n    The second operand.\n\n"


def _attach(name: str, method: Any, summary: str, result: str, *, operand: str = "") -> None:
    """Put a method that was made from a table on `Tensor`, with its name and documentation."""
    method.__name__, method.__qualname__, method.__module__ = name, f"Tensor.{name}", Tensor.__module__
    method.__doc__ = f"{summary}\n\n{operand}Returns\n-------\nTensor\n    {result}\n"
    setattr(Tensor, name, method)


def _summary(op: str) -> str:
    """The first line of an op's documentation, which ``python -OO`` leaves out."""
    return (OPS[op].entry.__doc__ or "").partition("\n")[0]


def _in_place_unary(function: Callable[..., Tensor], what: str) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        check_leaf(self, what)
        rebind(self, function(self), what)
        return self

    return method


complete(vars(PortedMethods), ARGUMENTS, methods=True)
attached(PortedMethods)
attached(Methods)
for name, op in BINARY.items():
    setattr(Tensor, f"__{name}__", make_operator(OPS[op], f"__{name}__"))
    setattr(Tensor, f"__r{name}__", make_operator(OPS[op], f"__r{name}__", reflected=True))
    setattr(Tensor, f"__i{name}__", _in_place(name, f"an in-place operator (__i{name}__)"))
for name, op in (COMPARISON | UNARY).items():
    setattr(Tensor, f"__{name}__", make_operator(OPS[op], f"__{name}__"))
for name, op in UNARY_METHODS.items():
    _attach(name, make_operator(OPS[op], name), f"{_summary(op)} See `agrad.{op}`.", "The result.")
    in_place = _in_place_unary(OPS[op].entry, name + "_()")
    _attach(name + "_", in_place, f"`{name}`, in place.", "This tensor.")
for name, op in BINARY_METHODS.items():
    summary = f"{_summary(op)} See `agrad.{op}`."
    _attach(name, make_operator(OPS[op], name), summary, "The result.", operand=_OPERAND)
Tensor.__getitem__ = _getitem  # type: ignore[method-assign]
Tensor.__setitem__ = _setitem  # type: ignore[method-assign]
