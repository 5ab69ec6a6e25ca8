"""NumPy's ufuncs on tensors: ``np.sin(tensor)`` and ``ndarray * tensor`` stay in the graph, the rest raises.

NumPy calls `call_ufunc` through ``__array_ufunc__``. Only names are compared; NumPy itself is not imported.
"""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.op import OPS
from agrad.core.tensor import Tensor

#: NumPy's names of functions that the standard calls otherwise.
RENAMED = {
    "absolute": "abs",
    "fabs": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "true_divide": "divide",
    "mod": "remainder",
}


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Call the op that a NumPy ufunc stands for.

    Raises
    ------
    TypeError
        For ``out=`` and other arguments, methods such as ``reduce``, and ufuncs without a counterpart.
    """
    name = RENAMED.get(ufunc.__name__, ufunc.__name__)
    op = OPS.get(name)
    if (
        method == "__call__"
        and op is not None
        and not kwargs
        and op.rule.kind in ("elementwise", "custom", "none", "multilinear", "linear")
    ):
        result: Tensor = op.entry(*inputs)
        return result
    what = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    extra = f" with {', '.join(f'{k}=' for k in kwargs)}" if kwargs else ""
    instead = f"agrad.{name}" if op is not None else "an agrad function, or take the value with tensor.detach().numpy()"
    message = f"{what}{extra} is not defined for tensors; use {instead}.\n  Called at "
    raise TypeError(message + errors.line_of(*errors.caller()) + ".")
