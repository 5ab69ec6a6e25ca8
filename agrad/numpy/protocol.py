"""NumPy's protocols for tensors: its functions and ufuncs, ``np.asarray`` and ``tensor.numpy()``.

NumPy calls the methods at the end of this file. Functions are compared by name; NumPy itself is not imported.
"""

from __future__ import annotations

import sys
from typing import Any

from agrad.core import errors
from agrad.core.cpython import getframe
from agrad.core.op import OPS
from agrad.core.operands import is_holder
from agrad.core.tensor import Tensor, attached
from agrad.numpy.table import CREATION, name_of, table
from agrad.ops import elementwise, linalg  # noqa: F401 (declares these ops)
from agrad.ops.docs import complete
from agrad.plugin import manager

#: NumPy's ufuncs that stay in the graph, and the equivalent op of each.
UFUNCS = {op.facts.numpy.split()[0]: name for name, op in OPS.items() if op.facts.numpy}


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the equivalent of a ufunc: one of NumPy's, or one of SciPy's that `agrad.special` has.

    Raises
    ------
    TypeError
        For ufuncs without a counterpart, and arguments that have no meaning for tensors.
    """
    if any(is_holder(x) or type(x).__name__ == "matrix" for x in inputs):
        return NotImplemented  # a labelled array calls the ufunc on its contents; np.matrix is not an operand beside tensors
    name = ufunc.__name__
    entry = table().get(name)
    if entry is not None:
        return getattr(entry.function, method)(*inputs, **kwargs)
    name = f"special.{name}"
    op = OPS.get(name)
    if method == "__call__" and op is not None and not kwargs:
        return op.entry(*inputs)
    library = "scipy" if op is not None else "numpy"
    what = f"{library}.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    extra = f" with {', '.join(f'{k}=' for k in kwargs)}" if kwargs else ""
    instead = f"agrad.{name}" if op is not None else "an agrad function, or take the value with tensor.detach().numpy()"
    raise TypeError(f"{what}{extra} is not defined for tensors; use {instead}.{errors.called()}")


def call_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], home: str) -> Any:
    """Call the equivalent of a NumPy function; one that creates an array uses a backend.

    Raises
    ------
    TypeError
        For functions that are not in the table.
    """
    entry = table().get(name_of(function))
    if entry is None:
        name = f"{function.__module__}.{function.__name__}"
        value = "use agrad's functions, or take the value with tensor.detach().numpy()"
        raise TypeError(f"{name} is not defined for tensors; {value}.{errors.called()}")
    if entry.status == CREATION:
        with manager.use_backend(home):
            return entry.function(*args, **kwargs)
    return entry.function(*args, **kwargs)


def to_numpy(tensor: Tensor) -> Any:
    """Return a tensor's value as a read-only NumPy array."""
    numpy = manager.get("numpy")
    return numpy.read_only(numpy.from_host(tensor._spec.backend.to_host(tensor._computed()), numpy.name))


def numpys(name: str) -> Any:
    """Return a function from the table of NumPy's names."""
    return table()[name].function


def _is_plain(x: Any, beside: Tensor) -> bool:
    """Return whether a ufunc's operand is a tensor, a number, or an array with the tensor's library and dtype."""
    return isinstance(x, Tensor | int | float | complex) or (
        type(x) is type(beside._raw) and x.dtype == beside._spec.dtype
    )


class ArrayMethods:
    """Methods of ``numpy.ndarray`` that PyTorch does not have with another meaning."""

    def argpartition(self: Any, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Tensor:
        """Indices that partition the elements at one or several ranks; here they sort completely."""
        return numpys("argpartition")(self, kth, axis, kind)

    def astype(self: Any, dtype: Any, order: str = "K", casting: str = "unsafe", copy: bool = True) -> Tensor:
        """The elements converted to another dtype."""
        if casting != "unsafe" and not numpys("can_cast")(self, dtype, casting):
            raise TypeError(f"Cannot cast array data from {self.dtype} to {dtype} according to the rule '{casting}'")
        return numpys("astype")(self, dtype, copy=copy)

    def choose(self: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
        """Elements of several tensors, selected by this one."""
        return numpys("choose")(self, choices, out, mode)

    def compress(self: Any, condition: Any, axis: int | None = None, out: Any = None) -> Tensor:
        """The parts along an axis where a condition is true; its values are checked."""
        return numpys("compress")(condition, self, axis, out)

    def conjugate(self: Any) -> Tensor:
        """Complex conjugates."""
        return numpys("conjugate")(self)

    def copy(self: Any, order: str = "C") -> Tensor:
        """A tensor of the same value, which stays in the graph."""
        return numpys("copy")(self, order)

    def fill(self: Any, value: Any) -> None:
        """Set all elements to one value, in place."""
        self.fill_(value)

    @property
    def flat(self: Any) -> Tensor:
        """All elements as a vector."""
        return numpys("ravel")(self)

    @property
    def itemsize(self: Any) -> int:
        """The number of bytes of one element."""
        return self.element_size()

    def put(self: Any, indices: Any, values: Any, mode: str = "raise") -> None:
        """Set the elements at positions counted in row-major order, in place."""
        numpys("put")(self, indices, values, mode)

    def searchsorted(self: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
        """The positions where values would be inserted to keep the order."""
        return numpys("searchsorted")(self, v, side, sorter)

    def take(self: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Tensor:
        """The elements at positions along an axis, or counted in row-major order."""
        return numpys("take")(self, indices, axis, out, mode)

    def tobytes(self: Any, order: str = "C") -> bytes:
        """The bytes of the value.

        Returns: The same bytes as in NumPy.
        RuntimeError: While a gradient is required and recording is on.
        """
        return self.numpy().tobytes(order)


complete(
    vars(ArrayMethods),
    {
        "axis": "int, optional\n    The axis; None for all elements, counted in rows.",
        "casting": "str, optional\n    Which conversions are allowed, in NumPy's words.",
        "choices": "sequence of Tensor\n    They broadcast with this tensor.",
        "condition": "sequence of bool\n    One for each part.",
        "copy": "bool, optional\n    False gives this tensor itself if nothing is to be done.",
        "dtype": "dtype\n    The dtype.",
        "indices": "Tensor or sequence of int\n    The places.",
        "kind": "str, optional\n    Not looked at.",
        "kth": "int or sequence of int\n    The ranks.",
        "mode": "{'raise', 'wrap', 'clip'}, optional\n    What is done with places that are out of range.",
        "order": "str, optional\n    The layout in memory, which tensors do not show.",
        "out": "Tensor, optional\n    What the result is written to.",
        "side": "{'left', 'right'}, optional\n    In front of equal elements, or behind them.",
        "sorter": "Tensor, optional\n    Indices that sort this tensor.",
        "v": "Tensor or scalar\n    The values.",
        "value": "Tensor or scalar\n    The value.",
        "values": "Tensor or scalar\n    What to put there; repeated if there are too few.",
    },
    methods=True,
)
attached(ArrayMethods)


@attached
class NumpyMethods(ArrayMethods):
    """The members of `Tensor` for NumPy."""

    def numpy(self: Any) -> Any:
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
        if self._is_followed():
            raise errors.leaves_graph("numpy()")
        return to_numpy(self)

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._is_followed():
            from agrad.ops.scipy.names import cure_of  # noqa: PLC0415 (for this message only)

            known = errors.in_xarray()
            cure = cure_of(getframe(1)) or (
                f"\n  {known}"
                if known
                else "\n  NumPy, or a library that takes NumPy's arrays alone, made an array of it. To keep the gradient:"
                " import agrad.numpy as np, whose array, zeros, r_ and vectorize take tensors; agrad.stack makes one tensor"
                " of several."
            )
            if "xarray" in sys.modules and not known:
                cure += (
                    "\n  In xarray: a.copy(data=a.data.detach()) has the value, a.data.item() that of one element. Its interp,"
                    " ffill, bfill, first and chunk, and files, take tensors after import agrad.xarray."
                )
            raise errors.leaves_graph(
                "numpy()", f"{cure}\n  tensor.detach() gives the value alone: it loses the gradient."
            )
        if self._spec.backend.is_lazy and str(getframe(1).f_globals.get("__name__")).startswith("zarr."):
            raise RuntimeError(
                "zarr can't write a lazy tensor: its thread would compute it, and wait for itself where the data come from"
                " zarr.\n  Write x.numpy(), or by chunks dask.array.to_zarr(x.to_dask_array(), ...). In xarray's to_zarr:"
                " import agrad.xarray before."
            )
        array = self.numpy()
        if dtype is not None and dtype != array.dtype:
            if copy is False:
                raise ValueError(f"a view as {dtype} was asked for, but the tensor is {array.dtype}")
            return array.astype(dtype)
        return array.copy() if copy else array

    @property
    def fill_value(self: Any) -> Any:
        """The attribute that pydata/sparse reads from operands of its products: it defers those with tensors; otherwise hidden."""
        if str(getframe(1).f_globals.get("__name__")).startswith("sparse."):
            raise NotImplementedError("a product with a tensor is agrad.sparse.matmul")
        raise AttributeError("'Tensor' object has no attribute 'fill_value'", name="fill_value", obj=self)

    def __array_ufunc__(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__" and self._spec.inexact:
            op = OPS.get(UFUNCS.get(ufunc.__name__, ""))
            if op is not None and all([_is_plain(x, self) for x in inputs]):  # noqa: C419 (half the time of a generator)
                return op.entry(*inputs)
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if any(kind.__name__ == "matrix" for kind in types):
            return NotImplemented  # np.matrix gives these names other meanings
        return call_function(function, args, kwargs, self._spec.device)
