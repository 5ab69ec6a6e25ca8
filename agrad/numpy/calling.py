"""NumPy's functions that call a function on parts of an array, and its indexing objects."""

from __future__ import annotations

import itertools
import math
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import axes_of, axis_of, common, flat, native, refused
from agrad.numpy.making import linspace
from agrad.numpy.table import CREATION, DIFFERENTIATED, enter, public
from agrad.ops import creation, manipulation
from agrad.ops.data_type import astype
from agrad.ops.docs import referring


@public()
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Calls the function on one slice after another."""
    x = as_operand(arr)
    axis = axis_of(axis, x.ndim)
    rows = manipulation.moveaxis(x, axis, -1)
    lead = rows.shape[:-1]
    if not math.prod(lead):
        raise ValueError(f"Cannot apply_along_axis when any iteration dimensions are 0{errors.called()}")
    if any(map(math.isnan, lead)):
        raise ValueError(
            f"apply_along_axis() needs known lengths, and those of the other axes are {lead}\n  Compute the array, or its"
            f" lengths, first.{errors.called()}"
        )
    found = [as_operand(func1d(rows[(*key, ...)], *args, **kwargs), x) for key in itertools.product(*map(range, lead))]
    stacked = manipulation.stack(list(common(*found)))
    made = manipulation.reshape(stacked, (*lead, *stacked.shape[1:]))
    rank = made.ndim - len(lead)
    ends, places = range(len(lead), made.ndim), range(axis, axis + rank)
    return manipulation.moveaxis(made, tuple(ends), tuple(places)) if rank else made


@public()
def apply_over_axes(func: Any, a: Any, axes: Any) -> Tensor:
    x = as_operand(a)
    for axis in axes_of(tuple(axes) if isinstance(axes, list | tuple) else axes, x.ndim):
        found = as_operand(func(x, axis))
        if found.ndim != x.ndim:
            found = manipulation.expand_dims(found, axis=axis)
            if found.ndim != x.ndim:
                raise ValueError(f"function is not returning an array of the correct shape{errors.called()}")
        x = found
    return x


class vectorize:  # noqa: N801 (NumPy's own name)
    """As ``numpy.vectorize``: a function of numbers, called with 0-d tensors for one element after another.

    `cache` has no effect: no extra call is made to determine the output. `signature` must be None: use `agrad.func.vmap` for
    functions of arrays.
    """

    def __init__(
        self, pyfunc: Any, otypes: Any = None, doc: Any = None, excluded: Any = None, cache: bool = False,
        signature: Any = None,
    ) -> None:  # fmt: skip
        if signature is not None:
            raise refused("numpy.vectorize with signature=", "use agrad.func.vmap")
        self.pyfunc: Any = pyfunc
        self.excluded: set[Any] = set(excluded or ())
        self.otypes = otypes
        self.__doc__ = doc or getattr(pyfunc, "__doc__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function for all elements of broadcast arguments."""
        slots: list[Any] = [i for i in range(len(args)) if i not in self.excluded]
        slots += [k for k in kwargs if k not in self.excluded]
        given = as_operands(*(args[s] if isinstance(s, int) else kwargs[s] for s in slots))
        shape = manipulation.broadcast_shapes(*(x.shape for x in given))
        rows = [flat(manipulation.broadcast_to(x, shape)) for x in given]
        found = []
        for i in range(math.prod(shape)):
            each = {s: row[i] for s, row in zip(slots, rows, strict=True)}
            positional = [each.get(j, value) for j, value in enumerate(args)]
            found.append(self.pyfunc(*positional, **{k: each.get(k, v) for k, v in kwargs.items()}))
        if not found:
            raise ValueError(f"cannot call `vectorize` on size 0 inputs unless `otypes` is set{errors.called()}")
        if isinstance(found[0], tuple):
            return tuple(self._joined(part, shape, i) for i, part in enumerate(zip(*found, strict=True)))
        return self._joined(found, shape, 0)

    def _joined(self, values: Any, shape: tuple[int, ...], i: int) -> Tensor:
        made = manipulation.reshape(manipulation.stack(list(common(*values))), shape)
        if self.otypes is None:
            return made
        many = isinstance(self.otypes, list | tuple)
        return astype(made, native(self.otypes[i] if many else self.otypes), copy=False)


referring(vectorize, vectorize.__doc__ or "", "numpy.vectorize")
enter("vectorize", vectorize, DIFFERENTIATED)

# -- indexing objects --------------------------------------------------------------------------------------------------


class _Keys:
    """``s_`` and ``index_exp``: the key itself."""

    def __init__(self, *, always_tuple: bool) -> None:
        self._tuple = always_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self._tuple and not isinstance(key, tuple) else key


def _points(part: slice) -> Tensor:
    """Return the values of a slice: numbers in steps, or the given count for an imaginary step."""
    start, step = part.start or 0, part.step if part.step is not None else 1
    if isinstance(step, complex):
        found: Tensor = linspace(start, part.stop, int(abs(step)))
        return found
    return creation.arange(start, part.stop, step)


class _Grid:
    """``mgrid`` and ``ogrid``."""

    def __init__(self, *, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _points(key)
        axes = common(*(_points(part) for part in key))
        rank = range(len(axes))
        open_axes = [manipulation.reshape(x, tuple(-1 if i == j else 1 for j in rank)) for i, x in enumerate(axes)]
        if self._sparse:
            return tuple(open_axes)
        shape = tuple(x.shape[0] for x in axes)
        return manipulation.stack([manipulation.broadcast_to(x, shape) for x in open_axes])


class _Joined:
    """``r_`` and ``c_``: parts joined along the first or the last axis."""

    def __init__(self, name: str, *, columns: bool) -> None:
        self._name, self._columns = name, columns

    def __getitem__(self, key: Any) -> Tensor:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, str) for part in parts):
            raise refused(f"numpy.{self._name} with a string", "use np.concatenate, np.stack")
        tensors = common(*(_points(part) if isinstance(part, slice) else part for part in parts))
        if self._columns:
            tensors = tuple(manipulation.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in tensors)
            return manipulation.concat(list(tensors), axis=-1)
        return manipulation.concat([flat(x) if not x.ndim else x for x in tensors])


enter("s_", _Keys(always_tuple=False), CREATION)
enter("index_exp", _Keys(always_tuple=True), CREATION)
enter("mgrid", _Grid(sparse=False), CREATION)
enter("ogrid", _Grid(sparse=True), CREATION)
enter("r_", _Joined("r_", columns=False), DIFFERENTIATED)
enter("c_", _Joined("c_", columns=True), DIFFERENTIATED)
