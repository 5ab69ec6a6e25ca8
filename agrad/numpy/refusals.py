"""NumPy's functions without a meaning for tensors, each with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agrad.numpy.common import refused
from agrad.numpy.table import REFUSED, enter

_VALUE = "take the value with tensor.detach().numpy()"
_DATES = "tensors hold numbers, no dates"
_MATRIX = "use tensors of two axes, and @ for their product"
_ITERATE = "loop over the tensor, or use np.ndindex for its places"
_BITS = f"tensors hold no packed bits; {_VALUE}"
_OBJECTS = "use np.vectorize, or agrad.func.vmap for functions of tensors"
_CLASS = "tensors are of one class: agrad.Tensor"

#: Grouped by what to write.
_REFUSED = {
    _DATES: "busday_count busday_offset busdaycalendar datetime64 datetime_as_string datetime_data is_busday isnat "
    "timedelta64",
    _MATRIX: "asmatrix bmat matrix",
    _ITERATE: "broadcast flatiter ndenumerate nditer nested_iters",
    _BITS: "packbits unpackbits",
    _OBJECTS: "frompyfunc",
    _CLASS: "bytes_ object_ recarray record str_ void",
    "format tensor.detach().numpy()": "array2string",
    "use the coefficients, the highest power first, and np.polyval": "poly1d",
    "ask for x.dtype": "min_scalar_type",
    "results share no memory; use np.lib.stride_tricks.sliding_window_view, or index by rows of places": (
        "lib.stride_tricks.as_strided"
    ),
    "tensors have no layout to be required; use np.asarray": "require",
}


def refusal(name: str, instead: str) -> Callable[..., Any]:
    """Return a function that raises, and says what to write."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise refused(f"numpy.{name}", instead)

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Raise TypeError: {instead}."
    return function


for _instead, _names in _REFUSED.items():
    for _name in _names.split():
        enter(_name, refusal(_name, _instead), REFUSED)
