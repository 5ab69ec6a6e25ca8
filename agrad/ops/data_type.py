"""Data type functions of the standard, and transfers between devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agrad import dtypes
from agrad.core.backend import backend_of, check_whole
from agrad.core.cotangents import fit
from agrad.core.declare import linear, primitive
from agrad.core.engine import running
from agrad.core.facts import Facts
from agrad.core.materialize import going_on
from agrad.core.mode import current
from agrad.core.op import OPS, finish
from agrad.core.operands import as_tensor
from agrad.core.tensor import Tensor, wrap
from agrad.core.transfers import transfer
from agrad.ops.batch_rules import pointwise, unbatched, untouched
from agrad.ops.docs import complete
from agrad.plugin import manager

if TYPE_CHECKING:
    from agrad.core.backend import Backend

__all__ = [
    "astype", "can_cast", "finfo", "iinfo", "is_floating_point", "is_tensor", "isdtype", "result_type", "to_device",
]  # fmt: skip


@linear(name="astype", x=lambda g: g, batch=pointwise, memory="fresh", facts=Facts(sparsity="elements", missing=True))
def _astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Tensor:
    """The elements converted to another dtype."""


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements converted to another dtype.

    x: Any dtype, any shape.
    dtype : DType, backend's dtype or str
        The dtype.
    copy : bool, optional
        False returns `x` itself if it already has the dtype. Values are immutable, so a copy is never needed for
        safety.
    device : str, optional
        The device of the result. Default: that of `x`.
    Returns: Of the shape of `x`; outside the graph where the dtype is neither real nor complex floating point.
    Derivative: linear; the cotangent is converted back (its real part, for a complex result of a real `x`).

    >>> x = ag.tensor([1.5, 2.5], requires_grad=True)
    >>> ag.astype(x, "float32").detach(), ag.grad(ag.astype(x, "float32").sum(), x)[0]
    (tensor([1.5000, 2.5000], dtype=float32), tensor([1., 1.]))
    """
    if device is not None:
        x = to_device(x, device)
    if isinstance(x, Tensor) and not copy and x._spec.backend.dtype(dtype) == x.dtype:
        return x
    return _astype(x, dtype, copy=copy)


def _back(g: Any, x_spec: Any) -> Any:
    """Transfer a cotangent back to the device of its operand; a lazy one may stay lazy until the pass ends."""
    if isinstance(g, Tensor):
        with going_on():
            return fit(x_spec.backend.functions, to_device(g, x_spec.device), x_spec)
    source = backend_of(g)
    assert source is not None
    task = running()
    if task is not None and task.defers(source, x_spec):
        return g
    return transfer(source, g, x_spec)


@linear(
    name="to_device",
    x=_back,
    crosses=True,
    batch=unbatched("it moves whole arrays between libraries; call it outside of the mapped function"),
    facts=Facts(sparsity="elements"),
)
def _to_device(x: Any, device: str, /) -> Tensor:
    """The same value on another device."""


def to_device(x: Any, device: Any, /, *, stream: Any = None) -> Tensor:
    """The same value on another device or backend.

    x: The tensor.
    device : str
        ``"<backend>[:<device>]"``.
    stream : object, optional
        Only None: the standard leaves it to the library.
    Returns: The tensor on that device; `x` itself if it is already there.
    BackendError: If the backend is unknown or unusable here.
    ValueError: If a stream is passed.
    Derivative: linear; the cotangent is moved back.
    Source: array API 2025.12, array object (``to_device``).

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> y = ag.to_device(x, "numpy")
    >>> y is x
    True
    """
    if stream is not None:
        raise ValueError("to_device() takes no stream: order is kept by the backends")
    if not isinstance(x, Tensor):
        x = as_tensor(x)
    assert isinstance(x, Tensor)
    target, full = manager.device_of(device)
    if full == x._spec.device:
        return x
    op = OPS["to_device"]
    mode = current()
    if mode is not None and mode.levels and x._tangents:
        moved: Tensor = to_device(wrap(x._raw, x._spec, x._node), full)
        moved._tangents = {at: to_device(t, full) for at, t in x._tangents.items() if at in mode.levels} or None
        return moved
    raw = x._spec.backend.send(x._raw, target, full)
    check_whole(raw)
    result: Tensor = finish(
        op, backend_of(raw) or target, raw, [x], [x._raw, full], (), recording=mode.grad if mode else True, given=()
    )
    if result._node is not None and target.is_lazy:
        target.watch(raw)
    return result


# -- queries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a floating-point dtype, as returned by `finfo`; for a complex one, those of its parts.

    Attributes
    ----------
    bits : int
        The number of bits of a (real) number.
    eps : float
        The distance from 1.0 to the next larger number.
    max, min : float
        The largest and the most negative finite number.
    smallest_normal : float
        The smallest positive number with full precision.
    dtype : object
        The real dtype, the backend's own.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any

    @property
    def tiny(self) -> float:
        """`smallest_normal`, as NumPy and PyTorch call it too."""
        return self.smallest_normal


@dataclass(frozen=True)
class IntInfo:
    """The limits of an integer dtype, as returned by `iinfo`.

    Attributes
    ----------
    bits : int
        The number of bits.
    max, min : int
        The largest and the smallest number.
    dtype : object
        The dtype, the backend's own.
    """

    bits: int
    max: int
    min: int
    dtype: Any


def _backend_for(*values: Any) -> Backend:
    """The backend of the first tensor or array among values, otherwise the default one."""
    for value in values:
        if isinstance(value, Tensor):
            return value._spec.backend
        if not isinstance(value, str | type | dtypes.DType | bool | int | float | complex | None):
            backend = backend_of(value)
            if backend is not None:
                return backend
    return manager.default_backend()


def _native(backend: Backend, value: Any) -> Any:
    """Convert an argument of result_type and similar functions to the backend's own form: an array stands for its dtype."""
    if isinstance(value, bool | int | float | complex) and backend_of(value) is None:
        return value
    return _dtype_of(backend, value)


def _dtype_of(backend: Backend, value: Any) -> Any:
    """Return a dtype, or that of an array, in the backend's own form."""
    # A plugin that identifies types by module claims the library's dtypes too: they are recognised by the attributes
    # they lack.
    is_array = isinstance(value, Tensor) or (
        not isinstance(value, type) and hasattr(value, "dtype") and backend_of(value) is not None
    )
    return backend.dtype(value.dtype if is_array else value)


@primitive("result_type", batch=untouched, facts=Facts(asks_backend=True))
def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that arrays, dtypes and Python scalars promote to.

    *arrays_and_dtypes : Tensor, array, dtype or scalar
        At least one that is not a scalar; of one backend.
    Returns: The dtype, in the backend's own form. A Python scalar follows the kind of the others and never widens them.

    >>> str(ag.result_type(ag.float32, ag.float64))
    'float64'
    >>> str(ag.result_type(ag.tensor([1.0], dtype="float32"), 2.0))
    'float32'
    """
    backend = _backend_for(*arrays_and_dtypes)
    return backend.namespace().result_type(*(_native(backend, v) for v in arrays_and_dtypes))


@primitive("can_cast", batch=untouched, facts=Facts(asks_backend=True))
def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether the standard's promotion turns one dtype, or that of an array, into another.

    from_ : Tensor, array or dtype
        From which.
    to : DType, backend's dtype or str
        To which.
    Returns: Whether it does.

    >>> ag.can_cast(ag.float32, ag.float64)
    True
    >>> ag.can_cast(ag.float64, ag.float32)
    False
    """
    backend = _backend_for(from_)
    return bool(backend.namespace().can_cast(_native(backend, from_), backend.dtype(to)))


@primitive("finfo", batch=untouched, facts=Facts(asks_backend=True))
def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype, or of that of an array.

    type: Real or complex floating point; of a complex one, those of its parts.
    Returns : object
        Has ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal`` and ``dtype``.
    Source: array API 2025.12, data type functions.

    >>> info = ag.finfo(ag.float64)
    >>> info.bits
    64
    >>> float(info.eps)
    2.220446049250313e-16
    """
    backend = _backend_for(type)
    dtype = _dtype_of(backend, type)
    if backend.kind(dtype) not in ("float", "complex"):
        raise ValueError(f"finfo() takes a floating-point dtype, not {dtype}; use iinfo() for integers")
    found = backend.namespace().finfo(dtype)
    return FloatInfo(
        bits=int(found.bits),
        eps=float(found.eps),
        max=float(found.max),
        min=float(found.min),
        smallest_normal=float(found.smallest_normal),
        dtype=found.dtype,
    )


@primitive("iinfo", batch=untouched, facts=Facts(asks_backend=True))
def iinfo(type: Any, /) -> IntInfo:
    """The limits of an integer dtype, or of that of an array.

    type: Integer.
    Returns : object
        Has ``bits``, ``max``, ``min`` and ``dtype``.
    Source: array API 2025.12, data type functions.

    >>> info = ag.iinfo(ag.int8)
    >>> info.bits
    8
    >>> info.min
    -128
    >>> info.max
    127
    """
    backend = _backend_for(type)
    dtype = _dtype_of(backend, type)
    if backend.kind(dtype) != "int":
        raise ValueError(f"iinfo() takes an integer dtype, not {dtype}; use finfo() for floating-point ones")
    found = backend.namespace().iinfo(dtype)
    return IntInfo(int(found.bits), int(found.max), int(found.min), dtype=found.dtype)


_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float16", "bfloat16", "float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


@primitive("isdtype", batch=untouched)
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype belongs to a kind, to one of several kinds, or equals another dtype.

    dtype : DType or backend's dtype
        agrad's or any backend's.
    kind : str, dtype or tuple of these
        "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric", or a
        dtype; a tuple is any of them.
    Returns: Whether it is.
    ValueError: If the kind is unknown.

    >>> ag.isdtype(ag.float32, "real floating")
    True
    >>> ag.isdtype(ag.tensor([1]).dtype, ("bool", "real floating"))
    False
    >>> ag.isdtype(ag.float32, ag.float64)
    False
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    name = dtypes.name_of(dtype)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype() knows the kinds {', '.join(_KINDS)}, not {kind!r}")
        return name in _KINDS[kind]
    return name == dtypes.name_of(kind)


def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor.

    obj : object
        Anything.
    Returns: Whether it is.
    Source: PyTorch's function of this name.

    >>> ag.is_tensor(ag.tensor(1.0))
    True
    >>> ag.is_tensor(1.0)
    False
    """
    return isinstance(obj, Tensor)


def is_floating_point(x: Tensor) -> bool:
    """Whether the dtype of a tensor is real floating point.

    x : Tensor
        The tensor.
    Returns: Whether it is; False for a complex one.
    Source: PyTorch's function of this name.

    >>> ag.is_floating_point(ag.tensor(1.0))
    True
    >>> ag.is_floating_point(ag.tensor(1j))
    False
    """
    return x.is_floating_point()


complete(
    globals(),
    {"type": "Tensor, array or dtype", "x": "Tensor or array"},
    source="Source: array API 2025.12, data type functions.",
)
