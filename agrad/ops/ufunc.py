"""Tensors as NumPy sees them: ``np.sin(tensor)`` and ``ndarray * tensor`` stay in the graph, the rest raises.

NumPy calls the methods at the end of this file. Only names are compared; NumPy itself is not imported.
"""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.op import OPS
from agrad.core.tensor import Tensor, attached
from agrad.plugin import manager

#: NumPy's ufuncs that stay in the graph, and the op each stands for: those that mean the same.
UFUNCS = {
    **{name: name for name in ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "matmul")},
    **{name: name for name in ("vecdot", "negative", "positive", "sign", "signbit", "square", "sqrt", "reciprocal")},
    **{name: name for name in ("exp", "expm1", "log", "log1p", "log2", "log10", "logaddexp", "hypot", "copysign")},
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "nextafter")},
    **{name: name for name in ("maximum", "minimum", "isfinite", "isinf", "isnan")},
    **{name: name for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    **{name: name for name in ("logical_and", "logical_or", "logical_xor", "logical_not")},
    **{name: name for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "fabs": "abs",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
}

#: agrad's names of NumPy's other functions, where they differ.
RENAMED = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "array": "asarray",
    "around": "round",
    "concatenate": "concat",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "dot": "matmul",
    "norm": "linalg.vector_norm",
    "transpose": "permute_dims",
    "unique": "unique_values",
}


def renamed(name: str) -> str | None:
    """Return agrad's name of what NumPy calls otherwise, None for any other name."""
    found = RENAMED.get(name, UFUNCS.get(name))
    return found if found != name else None


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Call the op that a ufunc stands for: one of NumPy's, or one of SciPy's that `agrad.special` has.

    Raises
    ------
    TypeError
        For ``out=`` and other arguments, methods such as ``reduce``, and ufuncs without a counterpart.
    """
    name = UFUNCS.get(ufunc.__name__, f"special.{ufunc.__name__}")
    op = OPS.get(name)
    if method == "__call__" and op is not None and not kwargs:
        result: Tensor = op.entry(*inputs)
        return result
    library = "scipy" if name.startswith("special.") and op is not None else "numpy"
    what = f"{library}.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    extra = f" with {', '.join(f'{k}=' for k in kwargs)}" if kwargs else ""
    instead = f"agrad.{name}" if op is not None else "an agrad function, or take the value with tensor.detach().numpy()"
    message = f"{what}{extra} is not defined for tensors; use {instead}.\n  Called at "
    raise TypeError(message + errors.line_of(*errors.caller()) + ".")


def refused_function(function: Any) -> TypeError:
    """Return the error for a function of NumPy that is no ufunc; it names agrad's, if there is one."""
    room = function.__module__.removeprefix("numpy").lstrip(".")
    name = RENAMED.get(function.__name__, f"{room}.{function.__name__}" if room else function.__name__)
    xp = manager.default_backend().functions
    found: Any = xp
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None and not room:
        name = f"extra.{name}"
        found = getattr(xp.extra, function.__name__, None)
    full = ".".join(part for part in ("numpy", room, function.__name__) if part)
    value = "take the value with tensor.detach().numpy()"
    instead = value if found is None else f"use agrad.{name}, or {value}"
    message = f"{full} is not defined for tensors; {instead}.{errors.called()}"
    return TypeError(message)


def to_numpy(tensor: Tensor) -> Any:
    """Return a tensor's value as a read-only NumPy array."""
    numpy = manager.get("numpy")
    return numpy.read_only(numpy.from_host(tensor._spec.backend.to_host(tensor._computed()), numpy.name))


@attached
class NumpyMethods:
    """What `Tensor` has for NumPy."""

    def numpy(self: Any) -> Any:
        """Return the value as a NumPy array, without a copy where it is one; read-only, as values are immutable.

        Returns
        -------
        numpy.ndarray
            On the memory of this tensor.

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
            raise errors.leaves_graph(
                "numpy()",
                "\n  NumPy made an array of it, or a library that takes NumPy's only. One tensor of several: agrad.stack.",
            )
        array = self.numpy()
        if dtype is not None and dtype != array.dtype:
            if copy is False:
                raise ValueError(f"a view as {dtype} was asked for, but the tensor is {array.dtype}")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_ufunc__(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__
        if name in ("ndim", "shape", "size") and len(args) == 1 and not kwargs:
            return getattr(args[0], name)  # np.ndim(x) and the like only look
        raise refused_function(function)
