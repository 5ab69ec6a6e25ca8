"""NumPy's own inner loops by pointer: calling them gives NumPy's bits, for any build of NumPy."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np


class _UFunc(ctypes.Structure):
    """The beginning of a ``PyUFuncObject``, fixed by NumPy's C interface."""

    _fields_ = (
        *((f"head_{i}", ctypes.c_ssize_t) for i in range(object.__basicsize__ // ctypes.sizeof(ctypes.c_ssize_t))),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )


@functools.cache
def loop_of(ufunc: Any, dtypes: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the addresses of a ufunc's inner loop for the dtypes of operands and results, and of its auxiliary data.

    None if it has no loop for exactly these.
    """
    kinds = [np.dtype(name).char for name in dtypes]
    head = _UFunc.from_address(id(ufunc))
    if (head.nin, head.nout, head.nargs) != (ufunc.nin, ufunc.nout, ufunc.nargs) or head.ntypes < len(ufunc.types):
        return None
    types = f"{''.join(kinds[: ufunc.nin])}->{''.join(kinds[ufunc.nin :])}"
    if types not in ufunc.types:
        return None
    at = ufunc.types.index(types)
    function = head.functions[at]
    return None if not function else (int(function), int((head.data[at] if head.data else 0) or 0))


def resolves(ufunc: Any, operands: Sequence[Any], result: str) -> tuple[str, ...] | None:
    """Return the dtypes of the loop that NumPy uses for operands, dtypes or Python numbers; None if it casts one to another."""
    given = tuple(type(one) if isinstance(one, bool | int | float) else np.dtype(one) for one in operands)
    try:
        found = ufunc.resolve_dtypes((*given, None))
    except (TypeError, ValueError):
        return None
    names = tuple(one.name for one in found)
    fits = all(isinstance(a, bool | int | float) or a == b for a, b in zip(operands, names, strict=False))
    return names if fits and names[-1] == result else None
