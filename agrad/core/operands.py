"""Convert what may replace a tensor to a tensor: arrays, Python numbers, lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agrad.core.backend import BACKENDS, backend_of, numbers_of, plugins
from agrad.core.mode import is_grad_enabled
from agrad.core.tensor import Tensor, wrap

#: Types whose values have no device: they go to the device of the operand beside them.
HOMELESS = (bool, int, float, complex, list, tuple, range)


def from_raw(raw: Any) -> Tensor:
    """Return an array that agrad made, or a library's scalar, as a Tensor."""
    backend = backend_of(raw)
    assert backend is not None, f"{type(raw).__name__} is no array"
    raw = backend.as_array(raw)
    return wrap(raw, backend.spec(raw))


def tensor_of(array: Any) -> Tensor:
    """Return a user's array, or a library's scalar, as a Tensor; refuse values that hold no numbers."""
    backend = backend_of(array)
    assert backend is not None, f"{type(array).__name__} is no array"
    raw = numbers_of(backend, array)
    return wrap(raw, backend.spec(raw))


def as_tensor(value: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return the result of `agrad.asarray` for a value, for files in lower layers than its own."""
    backend = None if isinstance(value, HOMELESS) else backend_of(value)
    functions = (backend or plugins().default_backend()).functions
    made: Tensor = functions.asarray(value, dtype=dtype, device=device, copy=copy)
    return made


def is_holder(value: Any) -> bool:
    """Return whether a value wraps an array and passes NumPy's ufuncs on to it: a labelled array.

    Objects of pandas hold only NumPy arrays; their values are used.
    """
    kind = type(value)
    if not callable(getattr(kind, "__array_ufunc__", None)) or hasattr(kind, "__pandas_priority__"):
        return False
    if hasattr(kind, "__array_interface__"):  # an array of NumPy, of any class
        return False
    return not isinstance(value, Tensor) and backend_of(value) is None


def as_operand(value: Any, beside: Any = None) -> Tensor:
    """Return an operand as a Tensor; Python numbers and lists go to the device of the operand beside them."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, HOMELESS):
        where = beside.device if isinstance(beside, Tensor) else None
        return as_tensor(list(value) if isinstance(value, range) else value, device=where)
    if type(value) not in BACKENDS and is_holder(value) and isinstance(held := getattr(value, "data", None), Tensor):
        return held
    made = as_tensor(value)
    if made._spec.inexact or not is_grad_enabled():
        return made
    return as_tensor(value, copy=True)  # usually indices or a mask, which nodes keep: the caller may change the array


def listed(value: Any, beside: Tensor) -> Tensor | None:
    """Return a list or tuple, possibly nested, as an operand beside a tensor; None where it holds no numbers or is ragged.

    A list of Python numbers only follows the tensor's dtype, as the widest of them would.
    """
    if type(value) not in (list, tuple) or _shape_of(value) is None:
        return None
    members = members_of(value)
    if not all(isinstance(member, _NUMBERS) for member in members):
        return as_tensor(value, device=beside.device)
    widest = max(members, key=_rank, default=False)
    return as_tensor(value, dtype=beside._spec.backend.scalar_dtype(widest, beside._spec), device=beside.device)


#: Python's numeric types in ascending order; bool is an int.
_NUMBERS = (bool, int, float, complex)


def _rank(number: Any) -> int:
    return next(i for i, kind in enumerate(_NUMBERS) if isinstance(number, kind))


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of nested lists of numbers, tensors and arrays; None for anything else."""
    if isinstance(value, _NUMBERS):
        return ()
    if isinstance(value, Tensor):
        return value.shape
    if type(value) in (list, tuple):
        shapes = {_shape_of(member) for member in value} or {()}
        shape = shapes.pop()
        return None if shapes or shape is None else (len(value), *shape)
    backend = backend_of(value)
    return None if backend is None else tuple(backend.as_array(value).shape)


def members_of(values: Sequence[Any]) -> list[Any]:
    """Return the members of nested lists: tensors, arrays and Python numbers."""
    return [held for v in values for held in (members_of(v) if isinstance(v, list | tuple) else (v,))]


def as_operands(*values: Any) -> tuple[Tensor, ...]:
    """Return operands as tensors; Python numbers and lists go to the device of the first array among them."""
    if all([isinstance(v, Tensor) for v in values]):  # noqa: C419 (half the time of a generator)
        return values
    made = [None if isinstance(v, HOMELESS) else as_operand(v) for v in values]
    first = next((x for x in made if x is not None), None)
    return tuple([as_operand(v, first) if x is None else x for v, x in zip(values, made, strict=True)])
