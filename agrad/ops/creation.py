"""Creation functions of the standard: new leaves, on the backend of `device` or the default one.

Each takes ``requires_grad=`` in addition to the standard's arguments, as in PyTorch.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final, Never

from agrad import dtypes
from agrad.core import errors
from agrad.core.backend import PYTHONS_OWN, Backend, backend_of, check_whole, numbers_of
from agrad.core.declare import primitive
from agrad.core.facts import Facts
from agrad.core.mode import kernels_of, recorder
from agrad.core.names import refusing, unexpected
from agrad.core.operands import members_of
from agrad.core.tensor import Tensor, shape_tuple, wrap
from agrad.ops.batch_rules import like, untouched
from agrad.ops.data_type import astype, result_type, to_device
from agrad.ops.docs import complete
from agrad.ops.elementwise import positive
from agrad.ops.manipulation import broadcast_like, broadcast_shapes, broadcast_to, reshape, stack
from agrad.plugin import manager

__all__ = [
    "DoubleTensor", "FloatTensor", "arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_dlpack",
    "from_numpy", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like", "tensor", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | tuple[int, ...]


def leaf(backend: Backend, raw: Any, requires_grad: bool = False) -> Tensor:
    """Create a leaf from a raw array of numbers."""
    check_whole(raw)
    if backend.kind(raw.dtype) == "other":
        raise errors.not_numbers(raw.dtype)
    made = wrap(raw, backend.spec(raw))
    return made.requires_grad_() if requires_grad else made


def _call(
    name: str,
    *args: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool = False,
    kind: str = "float",
    chunks: Any = None,
    **parameters: Any,
) -> Tensor:
    """Call a creation function of a backend's namespace; without a dtype, the numbers determine the kind."""
    backend, full = manager.device_of(device)
    dtype = backend.default_dtype(kind, full) if dtype is None else backend.dtype(dtype)
    if chunks is not None:
        check_chunked(backend, f"{name}()")
        parameters["chunks"] = chunks
    raw = getattr(kernels_of(backend), name)(*args, dtype=dtype, **parameters, **backend.creation(full))
    return leaf(backend, raw, requires_grad)


def check_chunked(backend: Backend, what: str) -> None:
    """Refuse ``chunks=`` on a backend that holds arrays whole."""
    if not backend.is_chunked:
        raise TypeError(
            f"{what} takes chunks= on backends that hold arrays in chunks; {backend.name} holds them whole"
            f'\n  Omit chunks=, or choose the backend by device="dask".{errors.called()}'
        )


def either(function: str, name: str, value: Any, other: str, second: Any) -> Any:
    """Return an argument that may be passed under PyTorch's name, `other`."""
    if (value is None) == (second is None):
        raise TypeError(
            f"{function}() missing 1 required positional argument: '{name}'{errors.called()}"
            if value is None
            else f"{function}() got {name}={value!r} and {other}={second!r}, which are one argument{errors.called()}"
        )
    return second if value is None else value


def _whole(name: str, shape: Shape | None, more: tuple[int, ...], size: Shape | None) -> Shape:
    """Return a shape whose lengths may be passed as separate arguments."""
    whole: Shape = either(name, "shape", shape, "size", size)
    if not more:
        return whole
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in (whole, *more)):
        raise TypeError(
            f"{name}() takes a shape as one tuple or as separate integers, not {whole!r}, {', '.join(map(repr, more))}:"
            f" {name}((2, 3), dtype=..., device=...){errors.called()}"
        )
    return (whole, *more)  # type: ignore[arg-type]


# -- of a shape -----------------------------------------------------------------------------------------------------------


@primitive("zeros", memory="fresh", batch=untouched, facts=Facts(creates="here", fills=0))
@refusing
def zeros(
    shape: Shape | None = None,
    *more: int,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    chunks: Any = None,
    size: Shape | None = None,
    **unknown: Never,
) -> Tensor:
    """Zeros of a shape.

    *more: The other lengths, if `shape` is the first: PyTorch's ``zeros(2, 3)``.
    Returns: A new leaf.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.zeros((2, 3))
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    if unknown:
        raise unexpected("zeros", unknown)
    return _call(
        "zeros",
        _whole("zeros", shape, more, size),
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        chunks=chunks,
    )


@primitive("ones", memory="fresh", batch=untouched, facts=Facts(creates="here", fills=1))
@refusing
def ones(
    shape: Shape | None = None,
    *more: int,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    chunks: Any = None,
    size: Shape | None = None,
    **unknown: Never,
) -> Tensor:
    """Ones of a shape.

    *more: The other lengths, if `shape` is the first: PyTorch's ``ones(2, 3)``.
    Returns: A new leaf.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.ones(3, dtype="int64")
    tensor([1, 1, 1])
    """
    if unknown:
        raise unexpected("ones", unknown)
    return _call(
        "ones",
        _whole("ones", shape, more, size),
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        chunks=chunks,
    )


@primitive("empty", memory="fresh", batch=untouched, facts=Facts(creates="here"))
@refusing
def empty(
    shape: Shape | None = None,
    *more: int,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    chunks: Any = None,
    size: Shape | None = None,
    **unknown: Never,
) -> Tensor:
    """Uninitialised memory of a shape.

    *more: The other lengths, if `shape` is the first: PyTorch's ``empty(2, 3)``.
    Returns: A new leaf, with whatever values the memory held.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.empty((2, 3)).shape
    (2, 3)
    """
    if unknown:
        raise unexpected("empty", unknown)
    return _call(
        "empty",
        _whole("empty", shape, more, size),
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        chunks=chunks,
    )


@primitive("full", memory="fresh", batch=untouched, facts=Facts(creates="here"))
@refusing
def full(
    shape: Shape | None = None,
    fill_value: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    chunks: Any = None,
    size: Shape | None = None,
    **unknown: Never,
) -> Tensor:
    """One value everywhere.

    fill_value: The value.
    dtype: Default: that of the value; `get_default_dtype` for a Python float.
    Returns: A new leaf; if the value is a Tensor, part of its graph.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.
    Derivative, if the value is a Tensor: the sum of the cotangent.

    >>> ag.full((2, 2), 7.0)
    tensor([[7., 7.],
            [7., 7.]])
    >>> v = ag.tensor(3.0, requires_grad=True)
    >>> ag.grad(ag.full((2, 2), v).sum(), v)[0]
    tensor(4.)
    """
    if unknown:
        raise unexpected("full", unknown)
    shape = either("full", "shape", shape, "size", size)
    if fill_value is None:
        raise TypeError(f"full() missing 1 required positional argument: 'fill_value'{errors.called()}")
    if not isinstance(fill_value, bool | int | float | complex):
        made = broadcast_to(_fill(fill_value, dtype, device), shape_tuple(shape))
        made = made if chunks is None else _in_chunks("full()", made, chunks)
        return made.requires_grad_() if requires_grad else made
    kind = (
        "float"
        if isinstance(fill_value, float)
        else "bool"
        if isinstance(fill_value, bool)
        else "int"
        if isinstance(fill_value, int)
        else "complex"
    )
    return _call(
        "full", shape, fill_value, dtype=dtype, device=device, requires_grad=requires_grad, kind=kind, chunks=chunks
    )


def _fill(value: Any, dtype: Any, device: Any) -> Tensor:
    """Convert a fill value that is an array to the requested dtype and device."""
    made = asarray(value, dtype=dtype, device=device)
    if made.ndim:
        raise ValueError(
            f"fill_value must be a number or a 0-d tensor, not one of shape {made.shape}; use broadcast_to"
        )
    return made


def _like(x: Any, dtype: Any, device: Any) -> tuple[Any, Any]:
    spec = x._spec if isinstance(x, Tensor) else asarray(x)._spec
    return (spec.dtype if dtype is None else dtype), (spec.device if device is None else device)


def _filled_like(x: Any, value: complex, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """A constant with the shape of an operand, and with its layout unless another one was requested."""
    x = asarray(x)
    if dtype is None and device is None:
        spec = x._spec
        xp = kernels_of(spec)
        raw = xp.zeros_like(x._raw) if type(value) is int and not value else xp.full_like(x._raw, value)
        return leaf(spec.backend, spec.backend.as_array(raw), requires_grad)
    dtype, device = _like(x, dtype, device)
    return full(x.shape, value, dtype=dtype, device=device, requires_grad=requires_grad)


@primitive("zeros_like", memory="fresh", batch=like, facts=Facts(creates="like", fills=0))
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape, dtype and device of `x`.

    dtype: Default: that of `x`.
    device: ``"<backend>[:<device>]"``. Default: that of `x`.
    Returns: A new leaf; without dtype and device, also with the layout of `x` (a lazy backend takes over
        the chunks).
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.zeros_like(ag.tensor([[1.0, 2.0]]))
    tensor([[0., 0.]])
    """
    return _filled_like(x, 0, dtype, device, requires_grad)


@primitive("ones_like", memory="fresh", batch=like, facts=Facts(creates="like", fills=1))
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape, dtype and device of `x`.

    dtype: Default: that of `x`.
    device: ``"<backend>[:<device>]"``. Default: that of `x`.
    Returns: A new leaf; without dtype and device, also with the layout of `x` (a lazy backend takes over
        the chunks).
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.ones_like(ag.tensor([[1.0, 2.0]]))
    tensor([[1., 1.]])
    """
    return _filled_like(x, 1, dtype, device, requires_grad)


@primitive("empty_like", memory="fresh", batch=like, facts=Facts(creates="like"))
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised memory of the shape, dtype and device of `x`.

    dtype: Default: that of `x`.
    device: ``"<backend>[:<device>]"``. Default: that of `x`.
    Returns: A new leaf, with whatever values the memory held.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.empty_like(ag.tensor([[1.0, 2.0]])).shape
    (1, 2)
    """
    dtype, device = _like(x, dtype, device)
    return empty(x.shape, dtype=dtype, device=device, requires_grad=requires_grad)


@primitive("full_like", memory="fresh", batch=like, facts=Facts(creates="like"))
def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value everywhere, with the shape, dtype and device of `x`.

    fill_value: The value; it is converted to the dtype.
    dtype: Default: that of `x`.
    device: ``"<backend>[:<device>]"``. Default: that of `x`.
    Returns: A new leaf; if the value is a Tensor, part of its graph.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.
    Derivative, if the value is a Tensor: the sum of the cotangent.

    >>> ag.full_like(ag.tensor([[1.0, 2.0]]), 7.0)
    tensor([[7., 7.]])
    """
    if isinstance(fill_value, bool | int | float | complex):
        return _filled_like(x, fill_value, dtype, device, requires_grad)
    x = asarray(x)
    made = broadcast_like(_fill(fill_value, *_like(x, dtype, device)), x._spec)
    return made.requires_grad_() if requires_grad else made


@primitive("arange", memory="fresh", batch=untouched, facts=Facts(creates="here"))
@refusing
def arange(
    start: float | None = None,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    chunks: Any = None,
    end: float | None = None,
    **unknown: Never,
) -> Tensor:
    """Evenly spaced numbers from `start` to before `stop`.

    start : int or float
        The first number; with a single argument, the end, and the first number is 0.
    stop : int or float, optional
        The end; not part of the result, except by rounding.
    step : int or float, optional
        The distance, not 0.
    dtype: Default: int64 if all three are integers, otherwise `get_default_dtype`.
    end : int or float, optional
        PyTorch's name for the end.
    Returns: A new leaf, 1-d.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.arange(3)
    tensor([0, 1, 2])
    >>> ag.arange(0.0, 1.0, 0.25)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    if unknown:
        raise unexpected("arange", unknown)
    if end is not None:
        start, stop = 0 if start is None else start, either("arange", "stop", stop, "end", end)
    elif start is None:
        raise TypeError(f"arange() missing 1 required positional argument: 'start'{errors.called()}")
    elif stop is None:
        start, stop = 0, start
    kind = "int" if all(isinstance(v, int) for v in (start, stop, step)) else "float"
    return _call(
        *("arange", start, stop, step),
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        kind=kind,
        chunks=chunks,
    )


@primitive("linspace", memory="fresh", batch=untouched, facts=Facts(creates="here"))
@refusing
def linspace(
    start: complex | None = None,
    stop: complex | None = None,
    num: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
    requires_grad: bool = False,
    chunks: Any = None,
    end: complex | None = None,
    steps: int | None = None,
    **unknown: Never,
) -> Tensor:
    """Evenly spaced numbers from `start` to `stop`.

    start, stop : int, float or complex
        The first, and the last or (without `endpoint`) the one after it.
    num : int
        How many.
    dtype: Default: `get_default_dtype`, or the complex dtype of its precision.
    endpoint : bool, optional
        `stop` is the last one.
    end : int, float or complex, optional
        PyTorch's name for `stop`.
    steps : int, optional
        PyTorch's name for `num`.
    Returns: A new leaf, 1-d.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.linspace(0.0, 1.0, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    >>> ag.linspace(0.0, 1.0, steps=3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if unknown:
        raise unexpected("linspace", unknown)
    if start is None:
        raise TypeError(f"linspace() missing 1 required positional argument: 'start'{errors.called()}")
    stop, num = either("linspace", "stop", stop, "end", end), either("linspace", "num", num, "steps", steps)
    for name, given in (("start", start), ("stop", stop)):
        if isinstance(given, Tensor):
            raise errors.not_a_number("linspace", name)
    kind = "complex" if isinstance(start, complex) or isinstance(stop, complex) else "float"
    return _call(
        "linspace",
        start,
        stop,
        num,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        kind=kind,
        chunks=chunks,
        endpoint=endpoint,
    )


@primitive("eye", memory="fresh", batch=untouched, facts=Facts(creates="here"))
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    chunks: Any = None,
) -> Tensor:
    """Ones on a diagonal, zeros elsewhere.

    n_rows : int
        The number of rows.
    n_cols : int, optional
        The number of columns. Default: the number of rows.
    k : int, optional
        The diagonal: 0 the main one, positive above it, negative below.
    Returns: A new leaf, 2-d.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.
    BackendError: If the backend is unknown or unusable here.

    >>> ag.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    return _call("eye", n_rows, n_cols, dtype=dtype, device=device, requires_grad=requires_grad, chunks=chunks, k=k)


# -- of data --------------------------------------------------------------------------------------------------------------


@primitive("asarray", batch=untouched, facts=Facts(creates="from data", sparsity="elements"))
def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
    chunks: Any = None,
) -> Tensor:
    """Convert an array, numbers, or nested sequences of them to a Tensor.

    An array stays on its own backend and shares its memory, unless `device`, `dtype` or `copy` says otherwise; if you
    change the array afterwards, you change the tensor. A Tensor, or tensors within a list, stay in the graph.

    obj : Tensor, array, scalar or nested sequence
        The data.
    dtype: Default: that of the data; `get_default_dtype` for Python floats.
    device: Where to put it. Default: the device of the data; Python numbers go to the default backend.
    copy: True always copies, False never (an error if a copy is needed), None if needed.
    requires_grad: Whether to record operations on it.
    Returns: On the memory of an array, if nothing asks for a copy; `obj` itself, if it is a Tensor with nothing to
        change.
    ValueError: If `copy` is False and a copy is needed.
    TypeError: If the data are not numbers: text, dates, Python objects.
    RuntimeError: If `requires_grad` is set for a dtype that is neither real nor complex floating point.

    >>> ag.asarray([1, 2.5])
    tensor([1.0000, 2.5000])
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.grad(ag.asarray([x[0], 5.0]).sum(), x)[0]
    tensor([1., 0.])
    """
    if chunks is not None:
        made = _in_chunks("asarray()", asarray(obj, dtype=dtype, device=device, copy=copy), chunks)
        return made.requires_grad_() if requires_grad else made
    if isinstance(obj, Tensor):
        return _of_tensor(obj, dtype, device, copy, requires_grad=requires_grad)
    recording = recorder()
    owner = None if isinstance(obj, bool | int | float | complex | list | tuple) else backend_of(obj)
    if owner is None and isinstance(obj, list | tuple) and (tensors := _tensors_in(obj)):
        if copy is False:
            raise ValueError("asarray() of a list of tensors has to copy; copy=False cannot be met")
        if dtype is None and _are_alike(obj):
            made = stack(obj)
        else:
            made = _stacked(obj, result_type(*members_of(obj)) if dtype is None else dtype, tensors[0].device)
        return _of_tensor(made, None, device, None, requires_grad=requires_grad)
    if owner is None:
        if type(obj) not in PYTHONS_OWN and (error := errors.more_than_numbers(obj)) is not None:
            raise error
        backend, where = manager.device_of(device)
        if copy is False and not hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
            raise ValueError("asarray() of Python numbers has to copy; copy=False cannot be met")
        if dtype is None and type(obj) is float:
            dtype = backend.default_name("float", where)  # a name is the quickest to look up
        raw = backend.asarray(obj, dtype=dtype, device=where, copy=copy)
        if dtype is None and not hasattr(obj, "dtype"):
            kind = backend.kind(raw.dtype)
            wanted = backend.default_dtype(kind, where) if kind in ("float", "complex") else raw.dtype
            if wanted != raw.dtype:
                raw = backend.asarray(obj, dtype=wanted, device=where)
        if recording is not None and isinstance(obj, bool | int | float | complex | list | tuple):
            recording.constant(raw)
        return leaf(backend, raw, requires_grad)
    raw = owner.taken(obj)
    if recording is not None:
        recording.take(raw, obj)
    if device is not None:
        target, where = manager.device_of(device)
        if where != owner.spec(raw).device:
            if copy is False:
                raise ValueError(f"moving an array to {where} has to copy; copy=False cannot be met")
            raw, owner = owner.send(raw, target, where), target
    if dtype is not None or copy:
        if recording is None:
            raw = owner.asarray(raw, dtype=dtype, copy=copy)
        else:
            wanted = raw.dtype if dtype is None else owner.dtype(dtype)
            raw = recording.kernels_of(owner).astype(raw, wanted, copy=bool(copy))
    return leaf(owner, raw, requires_grad)


def _in_chunks(what: str, x: Tensor, chunks: Any) -> Tensor:
    backend = x._spec.backend
    check_chunked(backend, what)
    if x._is_followed() or recorder() is not None:
        return x.rechunk(chunks)
    return leaf(backend, backend.rechunk(x._raw, chunks))  # values that are known stay so


def _of_tensor(x: Tensor, dtype: Any, device: Any, copy: bool | None, *, requires_grad: bool) -> Tensor:
    made = x
    if device is not None:
        made = to_device(made, device)
    if dtype is not None:
        made = astype(made, dtype, copy=False)
    if copy is False and made is not x:
        raise ValueError("asarray(copy=False) cannot change the dtype or device of a tensor")
    if copy and made is x:
        made = positive(x) if x._spec.inexact else wrap(x._raw, x._spec)
    return made.requires_grad_() if requires_grad else made


def _tensors_in(values: Sequence[Any]) -> list[Tensor]:
    """Return the tensors in nested lists; raise if an array among them does not hold numbers, or holds more than these."""
    tensors, strange = [], []
    for v in members_of(values):
        if isinstance(v, Tensor):
            tensors.append(v)
        elif isinstance(v, int | float | complex):
            continue
        elif (owner := backend_of(v)) is not None:
            numbers_of(owner, v)
        elif (error := errors.more_than_numbers(v)) is not None:
            raise error
        else:
            strange.append(v)
    if tensors and strange:
        raise errors.not_an_operand("asarray", "obj", strange[0])
    return tensors


def _are_alike(values: Sequence[Any]) -> bool:
    """Return whether values are tensors of one shape, dtype and device, as in most lists."""
    spec = values[0]._spec if isinstance(values[0], Tensor) else None
    return spec is not None and all(isinstance(v, Tensor) and v._spec is spec for v in values)


def _stacked(values: Sequence[Any], dtype: Any, device: Any) -> Tensor:
    """Nested lists that contain tensors, stacked; Python numbers follow the dtype of the tensors."""
    return stack(
        [
            _stacked(v, dtype, device) if isinstance(v, list | tuple) else asarray(v, dtype=dtype, device=device)
            for v in values
        ]
    )


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, chunks: Any = None
) -> Tensor:
    """A new leaf with a copy of the data.

    Parameters
    ----------
    data : array, scalar or nested sequence
        The data. A Tensor is detached, with PyTorch's warning, and so are tensors in a list: `asarray` keeps those.
    dtype, device, requires_grad : optional
        As for `asarray`.
    chunks : int, tuple or str, optional
        As for `zeros`.

    Returns
    -------
    Tensor
        A new leaf.

    Raises
    ------
    RuntimeError
        If `requires_grad` is set for a dtype that is neither real nor complex floating point.

    Warns
    -----
    LeavesGraphWarning
        If tensors among the data require a gradient: the result has no part of their history.

    Notes
    -----
    Source: PyTorch's function of this name.

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
            errors.LeavesGraphWarning if data._is_followed() else UserWarning,
            stacklevel=2,
        )
        data = data.detach()
    elif isinstance(data, list | tuple) and any(t._is_followed() for t in _tensors_in(data)):
        errors.warn_leaves("tensor()", "agrad.asarray([...]) and agrad.stack keep them in the graph.")
    made = asarray(data, dtype=dtype, device=device, copy=True)
    made = made.detach() if made.requires_grad or made._tangents else made
    if chunks is not None:
        made = _in_chunks("tensor()", made, chunks)
    return made.requires_grad_() if requires_grad else made


@primitive("from_dlpack", facts=Facts(creates="from data"))
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor on memory that another library exports by DLPack.

    x : object
        Has ``__dlpack__`` and ``__dlpack_device__``.
    device: Where to put it. Default: the default backend.
    copy: As for `asarray`.
    Returns: A new leaf.
    BufferError: If `x` is a Tensor that requires grad, or the memory cannot be exported.

    >>> import numpy as np
    >>> ag.from_dlpack(np.array([1.0, 2.0]))
    tensor([1., 2.])
    """
    if isinstance(x, Tensor):
        if x.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return asarray(x.detach(), device=device, copy=copy)
    if backend_of(x) is not None:
        return asarray(x, device=device, copy=copy)
    backend, where = manager.device_of(device)
    made = leaf(backend, backend.from_dlpack(x, copy=copy))
    return made if device is None else to_device(made, where)


def from_numpy(array: Any) -> Tensor:
    """A Tensor that shares the memory of a NumPy array.

    array : numpy.ndarray
        Change it afterwards and you change the tensor.
    Returns: A new leaf, on the NumPy backend.
    TypeError: If it is an array of another library.
    Source: PyTorch's function of this name.

    >>> import numpy as np
    >>> ag.from_numpy(np.array([1.0, 2.0]))
    tensor([1., 2.])
    """
    made = asarray(array)
    if made._spec.backend.name != "numpy":
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return made


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """PyTorch's name of `asarray`.

    data : Tensor, array, scalar or nested sequence
        The data.
    dtype, device : optional
        As for `asarray`.
    Returns: As of `asarray`.
    Source: PyTorch.

    >>> ag.as_tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    return asarray(data, dtype=dtype, device=device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate matrices of coordinate vectors.

    *arrays : Tensor or array
        1-d, of one dtype.
    indexing : {"xy", "ij"}, optional
        Cartesian or matrix order of the first two axes.
    Returns: One per operand, each with one axis per operand.
    ValueError: If an operand is not one-dimensional, or `indexing` is neither.
    Derivative: each vector gets the sum of the cotangent over the axes of the others.

    >>> x, y = ag.meshgrid(ag.tensor([1, 2]), ag.tensor([3, 4, 5]))
    >>> x
    tensor([[1, 2],
            [1, 2],
            [1, 2]])
    >>> y
    tensor([[3, 3],
            [4, 4],
            [5, 5]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing must be 'xy' or 'ij', not {indexing!r}")
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
    """PyTorch's ``FloatTensor``: float32, of a shape or of data.

    Returns: A new leaf of dtype float32.
    TypeError: If the arguments are neither.
    Source: PyTorch.

    >>> ag.FloatTensor([1, 2]).dtype
    dtype('float32')
    >>> ag.FloatTensor(2, 3).shape
    (2, 3)
    """
    return Tensor(*args, dtype=dtypes.float32)


def legacy_double_tensor(*args: Any) -> Tensor:
    """PyTorch's ``DoubleTensor``: float64, of a shape or of data.

    Returns: A new leaf of dtype float64.
    TypeError: If the arguments are neither.
    Source: PyTorch.

    >>> ag.DoubleTensor([1, 2]).dtype
    dtype('float64')
    >>> ag.DoubleTensor(2, 3).shape
    (2, 3)
    """
    return Tensor(*args, dtype=dtypes.float64)


DoubleTensor: Final = legacy_double_tensor
FloatTensor: Final = legacy_float_tensor

complete(
    globals(),
    {
        "args": "int or sequence\n    A shape as separate integers (uninitialised then), or one nested sequence of numbers.",
        "chunks": (
            "int, tuple or str, optional\n    The lengths of the chunks on a backend that has some, as ``(1000, -1)``; elsewhere a TypeError."
        ),
        "copy": "bool, optional",
        "device": 'str, optional\n    ``"<backend>[:<device>]"``. Default: the default backend\'s.',
        "dtype": "DType, backend's dtype or str, optional\n    Default: `get_default_dtype`.",
        "fill_value": "scalar or 0-d Tensor",
        "more": "int",
        "requires_grad": "bool, optional\n    Whether to record operations on the result.",
        "shape": "int or tuple of int\n    The shape.",
        "size": "int or tuple of int, optional\n    PyTorch's name of `shape`.",
        "x": "Tensor or array\n    The tensor that determines shape, dtype and device.",
    },
    source="Source: array API 2025.12, creation functions.",
)
