"""Where arrays of any library are in memory, according to DLPack."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

__all__ = ["MemoryRange", "place_of"]


class MemoryRange(NamedTuple):
    """The memory from the first to the last element of an array.

    Attributes
    ----------
    device : tuple of int
        The kind and the number of the device.
    start, stop : int
        The addresses of its first byte, and of the one after its last.
    """

    device: tuple[int, int]
    start: int
    stop: int

    def meets(self, other: MemoryRange) -> bool:
        """Return whether two places share bytes, as far as their ends show it."""
        return self.device == other.device and self.start < other.stop and other.start < self.stop


class _Tensor(ctypes.Structure):
    """DLPack's ``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLPack's ``DLManagedTensorVersioned``; in older versions the tensor comes first."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def place_of(array: Any) -> MemoryRange | None:
    """Return where an array is in memory; None if it has no element, or its library does not report it."""
    if not hasattr(array, "__dlpack__"):
        return None
    try:
        try:
            capsule = array.__dlpack__(max_version=(1, 0))
        except TypeError:  # of before version 1
            capsule = array.__dlpack__()
    except (
        BufferError,
        RuntimeError,
        TypeError,
        ValueError,
    ):  # arrays that cannot be exported, such as pending conjugates
        return None
    if _is_valid(capsule, b"dltensor_versioned"):
        found = _Versioned.from_address(_pointer_in(capsule, b"dltensor_versioned")).tensor
    else:
        found = _Tensor.from_address(_pointer_in(capsule, b"dltensor"))
    size = found.bits * found.lanes // 8
    start = stop = (found.data or 0) + found.byte_offset
    step = 1  # of the axis, in elements; by default in C order
    for axis in reversed(range(found.ndim)):
        n = found.shape[axis]
        if n == 0:
            return None
        reach = (n - 1) * (found.strides[axis] if found.strides else step) * size
        start, stop, step = start + min(reach, 0), stop + max(reach, 0), step * n
    return MemoryRange((found.device_kind, found.device_number), start, stop + size)
