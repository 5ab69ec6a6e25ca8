"""Data type functions of the standard, and the crossing between devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad import dtypes
from agrad.core.declare import linear
from agrad.core.mode import current
from agrad.core.op import OPS, finish
from agrad.core.spec import backend_of
from agrad.core.tensor import Tensor, wrap
from agrad.plugin import manager

if TYPE_CHECKING:
    from agrad.plugin.backend import Backend


@linear(name="astype", x=lambda g: g)
def _astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Tensor:
    """The elements converted to another dtype."""


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements converted to another dtype; recorded, the gradient is converted back.

    Parameters
    ----------
    x : Tensor
        What to convert.
    dtype : DType, backend's dtype or str
        Its dtype.
    copy : bool, optional
        False gives `x` itself if it has the dtype already. Values are immutable, so this is never needed for safety.
    device : str, optional
        Where to put the result.
    """
    if device is not None:
        x = to_device(x, device)
    if isinstance(x, Tensor) and not copy and x._spec.backend.dtype(dtype) == x.dtype:
        return x
    return _astype(x, dtype, copy=copy)


def _back(g: Any, x_spec: Any) -> Any:
    """Take a cotangent back to where its operand was."""
    if isinstance(g, Tensor):
        return to_device(g, x_spec.device)
    source = backend_of(g)
    assert source is not None
    return x_spec.backend.receive(source, source.as_array(g), x_spec.device)


@linear(name="to_device", x=_back)
def _to_device(x: Any, device: str, /) -> Tensor:
    """The same value on another device."""


def to_device(x: Any, device: Any, /, *, stream: Any = None) -> Tensor:
    """The same value on another device or backend, recorded: the gradient comes back the same way.

    Parameters
    ----------
    x : Tensor or array
        What to move.
    device : str
        ``"<backend>[:<device>]"``.
    stream : object, optional
        Only None: the standard leaves it to the library.

    Raises
    ------
    BackendError
        If the backend is unknown or unusable here.
    """
    if stream is not None:
        message = "to_device() takes no stream: order is kept by the backends"
        raise ValueError(message)
    if not isinstance(x, Tensor):
        from agrad.ops.creation import asarray  # noqa: PLC0415 (that chapter comes later)

        x = asarray(x)
    assert isinstance(x, Tensor)
    target, full = manager.device_of(device)
    if full == x._spec.device:
        return x
    op = OPS["to_device"]
    mode = current()
    if mode is not None and mode.levels and x._tangents:
        moved: Tensor = to_device(wrap(x._data, x._spec, x._node), full)
        moved._tangents = {at: to_device(t, full) for at, t in x._tangents.items() if at in mode.levels} or None
        return moved
    raw = target.receive(x._spec.backend, x._data, full)
    result: Tensor = finish(op, target, raw, [x], [x._data, full], (), recording=mode.grad if mode else True)
    return result


# -- queries ----------------------------------------------------------------------------------------------------------


def _backend_for(*values: Any) -> Backend:
    """The backend of the first tensor or array among values, else the default one."""
    for value in values:
        if isinstance(value, Tensor):
            return value._spec.backend
        if not isinstance(value, str | type | dtypes.DType | bool | int | float | complex | None):
            backend = backend_of(value)
            if backend is not None:
                return backend
    return manager.default_backend()


def _native(backend: Backend, value: Any) -> Any:
    """An argument of result_type and its like in the backend's own terms."""
    if isinstance(value, Tensor):
        return value._data
    if isinstance(value, bool | int | float | complex) or backend_of(value) is not None:
        return value
    return backend.dtype(value)


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that arrays, dtypes and Python scalars promote to."""
    backend = _backend_for(*arrays_and_dtypes)
    return backend.namespace().result_type(*(_native(backend, v) for v in arrays_and_dtypes))


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether the standard's promotion takes one dtype, or that of an array, to another."""
    backend = _backend_for(from_)
    return bool(backend.namespace().can_cast(_native(backend, from_), backend.dtype(to)))


def finfo(type: Any, /) -> Any:
    """The limits of a floating dtype, or of that of an array."""
    backend = _backend_for(type)
    return backend.namespace().finfo(backend.dtype(type.dtype if hasattr(type, "dtype") else type))


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype, or of that of an array."""
    backend = _backend_for(type)
    return backend.namespace().iinfo(backend.dtype(type.dtype if hasattr(type, "dtype") else type))


_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float16", "bfloat16", "float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype (agrad's or any backend's) is of a kind, one of several kinds, or another dtype."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    name = dtypes.name_of(dtype)
    if isinstance(kind, str):
        if kind not in _KINDS:
            message = f"isdtype() knows the kinds {', '.join(_KINDS)}, not {kind!r}"
            raise ValueError(message)
        return name in _KINDS[kind]
    return name == dtypes.name_of(kind)


def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(x: Tensor) -> bool:
    """Whether the dtype of a tensor is real floating point."""
    return x.is_floating_point()
