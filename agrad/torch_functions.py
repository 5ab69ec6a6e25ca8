"""PyTorch's functions that are methods of tensors here, or have another name: ``ag.clamp(x, 0, 1)`` is ``x.clamp(0, 1)``.

`agrad` gives each at its first use, and loads this file at the first of them. Type checkers read ``torch_names.pyi`` beside
it, which ``docs/make_methods.py`` writes.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.operands import tensor_of
from agrad.core.tensor import Tensor
from agrad.ops.torch_methods import BINARY_METHODS, UNARY_METHODS

#: Methods of tensors that are functions too.
METHODS = {
    "addcdiv", "addcmul", "addmm", "amax", "amin", "bmm", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min",
    "clamp_min_", "clone", "det", "detach", "detach_", "diagonal", "digamma", "div", "eq", "erf", "erfc", "erfinv",
    "exp2", "fill_", "ge", "gt", "index_add", "index_copy", "index_fill", "inverse", "is_complex", "le", "lgamma",
    "logit", "logsumexp", "lt", "matrix_power", "mm", "movedim", "mul", "mv", "nan_to_num", "narrow", "ne", "neg",
    "numel", "permute", "relu_", "repeat_interleave", "round_", "rsqrt", "scatter", "select", "sigmoid_", "split", "sub",
    "swapdims", "t", "take_along_dim", "trace", "transpose", "unbind", "unflatten", "unsqueeze", "zero_",
    *(f"{name}_" for name in UNARY_METHODS if name not in {"sign", "isnan", "isinf", "isfinite"}),
}  # fmt: skip

#: Other names of what is there: where it stands.
SAME = {
    "Generator": "random.Generator",
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "atleast_1d": "extra.atleast_1d",
    "atleast_2d": "extra.atleast_2d",
    "atleast_3d": "extra.atleast_3d",
    "bitwise_not": "bitwise_invert",
    "cdouble": "complex128",
    "cfloat": "complex64",
    "broadcast_tensors": "broadcast_arrays",
    "column_stack": "extra.column_stack",
    "concatenate": "cat",
    "conj_physical": "conj",
    "deg2rad": "extra.deg2rad",
    "double": "float64",
    "dstack": "extra.dstack",
    "fix": "trunc",
    "float": "float32",
    "fmax": "extra.fmax",
    "fmin": "extra.fmin",
    "ger": "outer",
    "half": "float16",
    "heaviside": "extra.heaviside",
    "i0": "special.i0",
    "igamma": "special.gammainc",
    "igammac": "special.gammaincc",
    "inner": "extra.inner",
    "int": "int32",
    "long": "int64",
    "pinverse": "linalg.pinv",
    "polygamma": "special.polygamma",
    "promote_types": "result_type",
    "rad2deg": "extra.rad2deg",
    "resolve_conj": "conj",
    "row_stack": "vstack",
    "sgn": "sign",
    "short": "int16",
    "sinc": "special.sinc",
    "slogdet": "linalg.slogdet",
    "xlogy": "special.xlogy",
}

__all__ = ["Size"]

#: All of them.
NAMES = {*METHODS, *SAME, *__all__}

#: Shapes are tuples.
if TYPE_CHECKING:
    Size: TypeAlias = tuple[int, ...]
else:
    Size = tuple


def named(name: str) -> Any:
    """Return what `agrad` gives under one of `NAMES`."""
    if name in METHODS:
        return of_method(name, getattr(Tensor, name))
    return operator.attrgetter(SAME[name])(sys.modules["agrad"]) if name in SAME else globals()[name]


def of_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method of the tensor that it takes first, as `input`."""
    signature = inspect.signature(method)
    parameters = [
        p.replace(kind=p.POSITIONAL_OR_KEYWORD) if p.kind is p.POSITIONAL_ONLY else p
        for p in signature.parameters.values()
    ]
    parameters[0] = parameters[0].replace(name="input", annotation="Any")

    if name in BINARY_METHODS:  # its entry point knows places alone

        def function(input: Any, other: Any) -> Any:
            return method(_input(name, input), other)
    else:

        def function(input: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            return method(_input(name, input), *args, **kwargs)

    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    function.__module__ = "agrad"
    if method.__doc__ is not None:  # python -OO
        function.__doc__ = _documented(inspect.cleandoc(method.__doc__))
    return function


def _input(name: str, value: Any) -> Tensor:
    """Return the first argument of a function as a tensor."""
    if isinstance(value, Tensor):
        return value
    if backend_of(value) is None:
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}"
            f"\n  Convert it with ag.asarray(...).{called()}"
        )
    return tensor_of(value)


def _documented(text: str) -> str:
    """Return the documentation of a method as that of the function."""
    text = text.replace("this tensor", "`input`").replace("This tensor", "`input`")
    head, parameters, rest = text.partition("\n\nParameters\n----------\n")
    if not parameters:
        head, returns, rest = text.partition("\n\nReturns\n-------\n")
        rest = f"\nReturns\n-------\n{rest}" if returns else rest
    return f"{head}\n\nParameters\n----------\ninput : Tensor or array\n    The tensor.\n{rest}"
