"""Creation functions of the standard: new leaves, on the backend that `device` or the default names.

Each takes ``requires_grad=`` beside the standard's arguments, as in PyTorch.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from agrad import dtypes
from agrad.core import errors
from agrad.core.spec import backend_of
from agrad.core.tensor import Tensor, shape_tuple, wrap
from agrad.ops.data_type import astype, to_device
from agrad.ops.elementwise import positive
from agrad.ops.manipulation import broadcast_shapes, broadcast_to, reshape, stack
from agrad.plugin import manager
from agrad.plugin.backend import Backend

Shape = int | tuple[int, ...]


def leaf(backend: Backend, raw: Any, requires_grad: bool = False) -> Tensor:
    """Make a leaf of a raw array."""
    made = wrap(raw, backend.spec(raw))
    return made.requires_grad_() if requires_grad else made


def _call(name: str, *args: Any, dtype: Any, device: Any, requires_grad: bool = False, default: Any = None) -> Tensor:
    """Call a creation function of a backend's namespace."""
    backend, full = manager.device_of(device)
    dtype = backend.dtype(dtype if dtype is not None else default) if dtype or default else None
    native = backend.native_device(full)
    kwargs = {} if native is None else {"device": native}
    raw = getattr(backend.namespace(), name)(*args, dtype=dtype, **kwargs)
    return leaf(backend, raw, requires_grad)


# -- of a shape -----------------------------------------------------------------------------------------------------------


def zeros(shape: Shape, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros.

    Parameters
    ----------
    shape : int or tuple of int
        The shape.
    dtype : DType, backend's dtype or str, optional
        Default: `get_default_dtype`.
    device : str, optional
        ``"<backend>[:<device>]"``.
    requires_grad : bool, optional
        Record what is done with it.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.zeros((2, 3))
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    default = manager.get_default_dtype()
    return _call("zeros", shape, dtype=dtype, device=device, requires_grad=requires_grad, default=default)


def ones(shape: Shape, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones; arguments as for `zeros`."""
    default = manager.get_default_dtype()
    return _call("ones", shape, dtype=dtype, device=device, requires_grad=requires_grad, default=default)


def empty(shape: Shape, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised memory; arguments as for `zeros`."""
    default = manager.get_default_dtype()
    return _call("empty", shape, dtype=dtype, device=device, requires_grad=requires_grad, default=default)


def full(
    shape: Shape, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value everywhere. A 0-d tensor as value stays in the graph.

    Parameters
    ----------
    shape : int or tuple of int
        The shape.
    fill_value : scalar or 0-d Tensor
        Its dtype is the default for `dtype`.
    dtype, device, requires_grad
        As for `zeros`.
    """
    if isinstance(fill_value, Tensor):
        made = broadcast_to(fill_value, shape_tuple(shape))
        made = made if dtype is None else astype(made, dtype, copy=False)
        return made if device is None else to_device(made, device)
    default = {bool: dtypes.bool, int: dtypes.int64, float: manager.get_default_dtype()}.get(type(fill_value))
    if isinstance(fill_value, complex):
        default = _complex_default()
    return _call("full", shape, fill_value, dtype=dtype, device=device, requires_grad=requires_grad, default=default)


def _complex_default() -> dtypes.DType:
    return dtypes.complex64 if manager.get_default_dtype() == dtypes.float32 else dtypes.complex128


def _like(x: Any, dtype: Any, device: Any) -> tuple[Any, Any]:
    spec = x._spec if isinstance(x, Tensor) else asarray(x)._spec
    return (spec.dtype if dtype is None else dtype), (spec.device if device is None else device)


def _filled_like(x: Any, value: complex, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """A constant in the shape of an operand, and in its layout where nothing else was asked for."""
    x = asarray(x)
    if dtype is None and device is None:
        spec = x._spec
        raw = spec.xp.full_like(x._data, value) if value else spec.xp.zeros_like(x._data)
        return leaf(spec.backend, spec.backend.as_array(raw), requires_grad)
    dtype, device = _like(x, dtype, device)
    return full(x.shape, value, dtype=dtype, device=device, requires_grad=requires_grad)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape, dtype and device of `x`."""
    return _filled_like(x, 0, dtype, device, requires_grad)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape, dtype and device of `x`."""
    return _filled_like(x, 1, dtype, device, requires_grad)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised memory of the shape, dtype and device of `x`."""
    dtype, device = _like(x, dtype, device)
    return empty(x.shape, dtype=dtype, device=device, requires_grad=requires_grad)


def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value everywhere, of the shape, dtype and device of `x`."""
    dtype, device = _like(x, dtype, device)
    return full(x.shape, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Evenly spaced numbers from `start` to before `stop`; with one argument, from 0 to before it."""
    if stop is None:
        start, stop = 0, start
    integral = all(isinstance(v, int) for v in (start, stop, step))
    default = dtypes.int64 if integral else manager.get_default_dtype()
    return _call("arange", start, stop, step, dtype=dtype, device=device, requires_grad=requires_grad, default=default)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`."""
    backend, where = manager.device_of(device)
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    default = _complex_default() if is_complex else manager.get_default_dtype()
    native = backend.native_device(where)
    kwargs = {} if native is None else {"device": native}
    raw = backend.namespace().linspace(
        start, stop, num, dtype=backend.dtype(default if dtype is None else dtype), endpoint=endpoint, **kwargs
    )
    return leaf(backend, raw, requires_grad)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    backend, where = manager.device_of(device)
    native = backend.native_device(where)
    kwargs = {} if native is None else {"device": native}
    default = manager.get_default_dtype() if dtype is None else dtype
    raw = backend.namespace().eye(n_rows, n_cols, k=k, dtype=backend.dtype(default), **kwargs)
    return leaf(backend, raw, requires_grad)


# -- of data --------------------------------------------------------------------------------------------------------------


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A Tensor of an array, of numbers, or of nested sequences of them.

    An array stays on its own backend and shares its memory, unless `device`, `dtype` or `copy` says otherwise; change
    it afterwards and you change the tensor. A Tensor, or tensors within a list, stay in the graph.

    Parameters
    ----------
    obj : Tensor, array, scalar or nested sequence
        The data.
    dtype : DType, backend's dtype or str, optional
        Default: that of the data; `get_default_dtype` for Python floats.
    device : str, optional
        Where to put it. Default: where the data is; Python numbers go to the default backend.
    copy : bool, optional
        True always copies, False never (an error where one is needed), None if needed.
    requires_grad : bool, optional
        Record what is done with it.

    Raises
    ------
    ValueError
        If `copy` is False and a copy is needed.
    RuntimeError
        If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    """
    if isinstance(obj, Tensor):
        return _of_tensor(obj, dtype, device, copy, requires_grad=requires_grad)
    owner = None if isinstance(obj, bool | int | float | complex | list | tuple) else backend_of(obj)
    if owner is None and isinstance(obj, list | tuple) and _has_tensor(obj):
        return asarray(stack([asarray(part) for part in obj]), dtype=dtype, device=device)
    if owner is None:
        backend, where = manager.device_of(device)
        if copy is False and not hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
            message = "asarray() of Python numbers has to copy; copy=False cannot be met"
            raise ValueError(message)
        raw = backend.asarray(obj, dtype=dtype, device=where, copy=copy)
        if dtype is None and not hasattr(obj, "dtype"):
            kind = backend.kind(raw.dtype)
            wanted = {"float": manager.get_default_dtype(), "complex": _complex_default()}.get(kind)
            if wanted is not None and wanted != raw.dtype:
                raw = backend.asarray(obj, dtype=wanted, device=where)
        return leaf(backend, raw, requires_grad)
    raw = owner.as_array(obj)
    if device is not None:
        target, where = manager.device_of(device)
        if where != owner.spec(raw).device:
            if copy is False:
                message = f"moving an array to {where} has to copy; copy=False cannot be met"
                raise ValueError(message)
            raw, owner = target.receive(owner, raw, where), target
    if dtype is not None or copy:
        raw = owner.asarray(raw, dtype=dtype, copy=copy)
    return leaf(owner, raw, requires_grad)


def _of_tensor(x: Tensor, dtype: Any, device: Any, copy: bool | None, *, requires_grad: bool) -> Tensor:
    made = x
    if device is not None:
        made = to_device(made, device)
    if dtype is not None:
        made = astype(made, dtype, copy=False)
    if copy is False and made is not x:
        message = "asarray(copy=False) cannot change the dtype or device of a tensor"
        raise ValueError(message)
    if copy and made is x:
        made = positive(x) if x._spec.inexact else wrap(x._data, x._spec)
    return made.requires_grad_() if requires_grad else made


def _has_tensor(values: Sequence[Any]) -> bool:
    return any(isinstance(v, Tensor) or (isinstance(v, list | tuple) and _has_tensor(v)) for v in values)


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new leaf with a copy of the data.

    Parameters
    ----------
    data : array, scalar or nested sequence
        The data.
    dtype, device, requires_grad
        As for `asarray`.

    Raises
    ------
    RuntimeError
        If `requires_grad` is set for a dtype that is neither real nor complex floating point.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.tensor([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or"
            " sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        data = data.detach()
    made = asarray(data, dtype=dtype, device=device, copy=True)
    made = made.detach() if made.requires_grad else made
    return made.requires_grad_() if requires_grad else made


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor on memory that another library exports by DLPack.

    Parameters
    ----------
    x : object
        Has ``__dlpack__`` and ``__dlpack_device__``.
    device : str, optional
        Where to put it.
    copy : bool, optional
        As for `asarray`.
    """
    if isinstance(x, Tensor):
        if x.requires_grad:
            message = "Can't export tensors that require gradient, use tensor.detach()"
            raise BufferError(message)
        return asarray(x, device=device, copy=copy)
    backend, _ = manager.device_of(device)
    return leaf(backend, backend.from_dlpack(x, copy=copy))


def from_numpy(array: Any) -> Tensor:
    """A Tensor on the memory of a NumPy array."""
    made = asarray(array)
    if made._spec.backend.name != "numpy":
        message = f"expected np.ndarray (got {type(array).__name__})"
        raise TypeError(message)
    return made


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """PyTorch's name of `asarray`."""
    return asarray(data, dtype=dtype, device=device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate matrices of coordinate vectors.

    Parameters
    ----------
    *arrays : Tensor
        One-dimensional, of one dtype.
    indexing : {"xy", "ij"}, optional
        Cartesian or matrix order of the first two axes.

    Raises
    ------
    ValueError
        If an operand is not one-dimensional, or `indexing` is neither.
    """
    if indexing not in ("xy", "ij"):
        message = f"indexing must be 'xy' or 'ij', not {indexing!r}"
        raise ValueError(message)
    vectors = [asarray(a) for a in arrays]
    if any(v.ndim != 1 for v in vectors):
        message = f"meshgrid() takes one-dimensional operands, got shapes {[v.shape for v in vectors]}\n  Called at "
        raise ValueError(message + errors.line_of(*errors.caller()) + ".")
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[0], places[1] = 1, 0
    grids = [
        reshape(v, tuple(-1 if i == place else 1 for i in range(len(vectors))))
        for v, place in zip(vectors, places, strict=True)
    ]
    shape = broadcast_shapes(*(g.shape for g in grids))
    return tuple(broadcast_to(g, shape) for g in grids)


def legacy_float_tensor(*args: Any) -> Tensor:
    """PyTorch's ``FloatTensor``: float32, of a shape or of data; see `Tensor`."""
    return Tensor(*args, dtype=dtypes.float32)


def legacy_double_tensor(*args: Any) -> Tensor:
    """PyTorch's ``DoubleTensor``: float64, of a shape or of data; see `Tensor`."""
    return Tensor(*args, dtype=dtypes.float64)
