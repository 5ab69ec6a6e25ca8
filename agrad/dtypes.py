"""The standard's dtypes as named constants, each equal to every backend's dtype of its name."""

from __future__ import annotations

import builtins
from typing import Any

from agrad.core.mode import not_recorded

__all__ = [
    "bool", "complex64", "complex128", "float16", "float32", "float64", "get_default_dtype", "int8", "int16", "int32",
    "int64", "set_default_dtype", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip


def name_of(dtype: Any) -> str:
    """Return the standard's name of a dtype: agrad's, a backend's, a Python type or a name."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, type) and dtype.__name__ in _PYTHON:
        return _PYTHON[dtype.__name__]
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


#: Python's own types, each of which represents a dtype.
PYTHON = (builtins.bool, int, float, complex)

_PYTHON = {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}


class DType:
    """A dtype by name, for every backend.

    Equal to any backend's dtype of the same name, so that ``x.dtype == ag.float32`` holds on all of them.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.asarray([1.5]).dtype == ag.float64
    True
    """

    __slots__ = ("__weakref__", "name")

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __eq__(self, other: object) -> builtins.bool:
        if isinstance(other, DType):
            return self.name == other.name
        return not isinstance(other, int | float | tuple | list | type(None)) and name_of(other) == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"agrad.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return DType, (self.name,)

    @property
    def is_floating_point(self) -> builtins.bool:
        """Whether it is real floating point."""
        return self.name.startswith(("float", "bfloat"))

    @property
    def is_complex(self) -> builtins.bool:
        """Whether it is complex."""
        return self.name.startswith("complex")


bool: DType = DType("bool")
int8: DType = DType("int8")
int16: DType = DType("int16")
int32: DType = DType("int32")
int64: DType = DType("int64")
uint8: DType = DType("uint8")
uint16: DType = DType("uint16")
uint32: DType = DType("uint32")
uint64: DType = DType("uint64")
float16: DType = DType("float16")
float32: DType = DType("float32")
float64: DType = DType("float64")
complex64: DType = DType("complex64")
complex128: DType = DType("complex128")

NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)

#: Those, and further ones of some libraries.
KNOWN = (*NAMES, "float16", "bfloat16")

#: The dtypes of numbers that come without one.
_default = float64


def set_default_dtype(dtype: Any) -> None:
    """Set the real floating dtype of numbers that come without one.

    Parameters
    ----------
    dtype : DType or str
        float32 or float64. Complex numbers get the complex dtype of that precision.

    Raises
    ------
    TypeError
        If it is not a real floating dtype.
    """
    global _default  # noqa: PLW0603 (the one process-wide choice)
    name = name_of(dtype)
    if name not in ("float32", "float64"):
        raise TypeError(f"only floating-point types are supported as the default type, got {name}")
    not_recorded("the default dtype is set")
    _default = globals()[name]


def get_default_dtype() -> DType:
    """Return the real floating dtype of numbers that come without one.

    Returns
    -------
    DType
        float64, unless `set_default_dtype` has chosen another.
    """
    return _default
