"""Helpers shared by NumPy's functions: omitted arguments, ``out=``, ``where=``, axes and dtypes."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from agrad import dtypes
from agrad.core import errors
from agrad.core.backend import backend_of
from agrad.core.mode import recorder
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.ops.data_type import astype
from agrad.ops.manipulation import broadcast_to, permute_dims, reshape
from agrad.ops.searching import assign, getitem
from agrad.plugin import manager

Axis = int | tuple[int, ...] | None


class _NoValue:
    """The default of arguments whose absence has a meaning."""

    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE = _NoValue()


def given(value: Any) -> bool:
    """Return whether an argument was passed: `np._NoValue` counts as not passed."""
    return value is not NO_VALUE and type(value).__name__ != "_NoValueType"


def or_else(value: Any, default: Any) -> Any:
    """Return an argument, or a default if it was not passed."""
    return value if given(value) else default


def refused(what: str, instead: str) -> TypeError:
    """Return the error for an argument that has no meaning for tensors, with what to write instead."""
    return TypeError(f"{what} is not defined for tensors; {instead}.{errors.called()}")


def own_function(name: str, array: Any) -> Any:
    """Return the function of this name from an array's library, None if it has none."""
    backend = backend_of(array)
    try:
        return None if backend is None else functools.reduce(getattr, name.split("."), backend.namespace())
    except AttributeError:
        return None


def write_into(name: str, array: Any, *args: Any, **options: Any) -> Any:
    """Let the array library change one of its arrays, with its function of this name.

    Raises
    ------
    TypeError
        If a value is a tensor that is being differentiated: an array cannot hold its history.
    """
    function = own_function(name, array)
    kind = type(array).__name__
    if function is None:
        raise refused(f"numpy.{name} of a {kind}", "make it a tensor first: a = np.array(a)")
    if any([isinstance(v, Tensor) and v._is_followed() for v in args]):  # noqa: C419
        raise TypeError(
            f"numpy.{name} cannot write a tensor that requires grad into a plain {kind}: its gradient would be lost.\n  Make the"
            " array a tensor before: by zeros, ones or empty of agrad.numpy, or by a = np.array(a) of that."
            f"{errors.called()}"
        )
    return function(array, *(v.numpy() if isinstance(v, Tensor) else v for v in args), **options)


# -- operands ----------------------------------------------------------------------------------------------------------


def kind_of(x: Tensor) -> str:
    """Return bool, int, float or complex."""
    return x._spec.backend.kind(x.dtype)


def dtype_of(x: Tensor) -> str:
    """Return the name of a tensor's dtype."""
    return x._spec.backend.dtype_name(x.dtype)


def floating(x: Any) -> Tensor:
    """Return an operand in a floating dtype, the default one for integers."""
    x = as_operand(x)
    spec = x._spec
    return x if spec.inexact else astype(x, spec.backend.default_dtype("float", spec.device))


def numeric(x: Any) -> Tensor:
    """Return an operand as numbers: booleans as integers."""
    x = as_operand(x)
    return astype(x, dtypes.int64) if kind_of(x) == "bool" else x


def floatings(*values: Any) -> tuple[Tensor, ...]:
    """Return operands in floating dtypes, on the device of the first array among them."""
    return tuple(floating(x) for x in as_operands(*values))


def common(*values: Any) -> tuple[Tensor, ...]:
    """Return operands in one dtype, by NumPy's promotion."""
    tensors = as_operands(*values)
    if all(t.dtype == tensors[0].dtype for t in tensors):
        return tensors
    dtype = promoted(*tensors)
    return tuple(astype(t, dtype, copy=False) for t in tensors)


#: Digits that a floating dtype needs to hold an integer dtype.
_FLOAT_OF_INT = {"int8": 16, "uint8": 16, "int16": 32, "uint16": 32}
_BITS = {"float16": 16, "float32": 32, "complex64": 32}


def promoted(*values: Any) -> Any:
    """Return the name of the dtype that operands promote to in NumPy, including across kinds."""
    names = [dtype_of(v) if isinstance(v, Tensor) else dtypes.name_of(v) for v in values]
    found = names[0]
    for name in names[1:]:
        found = _promoted(found, name)
    return found


def _promoted(a: str, b: str) -> str:
    if b in (a, "bool"):
        return a
    if a == "bool":
        return b
    exact = [name for name in (a, b) if name.startswith(("int", "uint"))]
    if len(exact) == 2:
        return _integers(a, b)
    if exact:
        other = b if exact[0] == a else a
        bits = max(_FLOAT_OF_INT.get(exact[0], 64), _BITS.get(other, 64))
    else:
        bits = max(_BITS.get(a, 64), _BITS.get(b, 64))
    if "complex" in a + b:
        return "complex128" if bits == 64 else "complex64"
    return f"float{bits}"


#: Kinds in ascending order.
_KINDS = ("bool", "uint", "int", "float", "complex")

#: NumPy's rules of casting.
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def castable(source: str, target: str, casting: str) -> bool:
    """Return whether a NumPy casting rule allows a conversion between dtypes.

    Raises
    ------
    ValueError
        If there is no such rule.
    """
    if casting not in CASTINGS:
        raise ValueError(f"casting must be one of {', '.join(map(repr, CASTINGS))} (got {casting!r}){errors.called()}")
    if source == target or casting == "unsafe":
        return True
    if casting in ("no", "equiv"):
        return False
    if _promoted(source, target) == target:
        return True
    ranks = [_KINDS.index(name.rstrip("0123456789")) for name in (source, target)]
    return casting == "same_kind" and ranks[0] <= ranks[1]


def check_cast(what: str, x: Any, dtype: Any, casting: str) -> None:
    """Refuse, with NumPy's message, a conversion that a casting rule does not allow."""
    target = dtypes.name_of(dtype)
    if isinstance(x, Tensor) and not castable(dtype_of(x), target, casting):
        raise TypeError(f"Cannot cast {what} from {x.dtype} to {target} with casting rule '{casting}'{errors.called()}")


def _integers(a: str, b: str) -> str:
    signed = [name for name in (a, b) if name.startswith("int")]
    bits = {name: int(name.removeprefix("u").removeprefix("int")) for name in (a, b)}
    if len(signed) != 1:
        return a if bits[a] >= bits[b] else b
    unsigned = b if signed[0] == a else a
    if bits[unsigned] < bits[signed[0]]:
        return signed[0]
    return f"int{2 * bits[unsigned]}" if bits[unsigned] < 64 else "float64"


def static(value: Any) -> Any:
    """Return a parameter, possibly an integer array, as Python numbers."""
    if isinstance(value, bool | int | float | complex | str | None):
        return value
    if isinstance(value, list | tuple | range):
        return [static(v) for v in value]
    if isinstance(value, Tensor) and value._is_followed():
        raise TypeError(
            "a tensor that requires grad stands for a number or a shape by which no derivative is taken: its gradient"
            f" would be lost. Pass its value: tensor.detach(){errors.called()}"
        )
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return as_operand(value).tolist()
    return operator.index(value)


# -- promotion of operands ---------------------------------------------------------------------------------------------

#: Python's numeric types in ascending order of kind, and the dtype of each beside an array of a lower kind.
_PYTHONS = {
    "bool": (bool, "bool"),
    "int": (int, "int64"),
    "float": (float, "float64"),
    "complex": (complex, "complex128"),
}
_RANKS = list(_PYTHONS)


def kind_of_name(name: str) -> str:
    """Return bool, int, float or complex for the name of a dtype."""
    return name.rstrip("0123456789").removeprefix("u")


def aligned(*values: Any) -> tuple[Any, ...]:
    """Return operands in NumPy's common dtype; Python numbers beside a tensor stay unchanged."""
    numbers = [type(v) in PYTHON_NUMBERS for v in values]
    if all(numbers) or not any(numbers):
        return common(*values)
    arrays = as_operands(*[v for v in values if type(v) not in PYTHON_NUMBERS])
    tensors = iter(arrays)
    mixed = [v if type(v) in PYTHON_NUMBERS else next(tensors) for v in values]
    spec = arrays[0]._spec
    if spec.inexact and complex not in map(type, values) and all([t._spec.dtype == spec.dtype for t in arrays]):  # noqa: C419
        return tuple(mixed)
    name = widened(
        promoted(*(v for v in mixed if isinstance(v, Tensor))), *(v for v in mixed if not isinstance(v, Tensor))
    )
    return tuple(astype(v, name, copy=False) if isinstance(v, Tensor) else v for v in mixed)


def widened(name: str, *numbers: complex) -> str:
    """Return the name of a dtype after promotion with Python numbers, of which only the kind counts."""
    for number in numbers:
        kind, (_, wider) = next((k, p) for k, p in _PYTHONS.items() if type(number) is p[0])
        if _RANKS.index(kind) > _RANKS.index(kind_of_name(name)):
            name = "complex64" if kind == "complex" and name in ("float16", "float32") else wider
    return name


PYTHON_NUMBERS = frozenset([bool, int, float, complex])


def as_float(x: Tensor) -> Tensor:
    """Return an operand of a real function as floating point: small integers become small floats, as in NumPy."""
    if x._spec.inexact:
        return x
    name = dtype_of(x)
    wanted = f"float{16 if name == 'bool' else _FLOAT_OF_INT.get(name, 64)}"
    try:
        return astype(x, x._spec.backend.dtype(wanted))
    except TypeError:  # the backend has no half precision
        return astype(x, "float32")


def fresh(x: Tensor) -> Tensor:
    """Return a new tensor of the same value, in the graph: changing one does not change the other."""
    return astype(x, x.dtype)


# -- results -----------------------------------------------------------------------------------------------------------


def into(out: Any, result: Tensor, casting: str = "same_kind", *, arrays: bool = False) -> Any:
    """Return a result; if ``out=`` is a tensor, write the result to it, within the limits of `casting`.

    With `arrays`, also write to an array of the result's backend: the caller knows that this does not leave a graph.

    Raises
    ------
    TypeError
        If `out` is not a tensor: the value would leave the graph.
    """
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return result
    array = not isinstance(out, Tensor)
    if array and not (arrays and backend_of(out) is result._spec.backend and hasattr(out, "__setitem__")):
        kind = type(out).__name__
        raise TypeError(f"out= takes a tensor, not {kind}: write y = f(x) in place of f(x, out=y).{errors.called()}")
    if out.shape != result.shape:
        raise ValueError(
            f"out= has the wrong shape: the result has {result.shape}, the tensor {out.shape}{errors.called()}"
        )
    if array or casting != "same_kind":
        check_cast("output", result, out.dtype, casting)
        result = astype(result, out.dtype, copy=False)
    if array:
        recording = recorder()
        if recording is not None:
            recording.export(result)
        out[...] = result._raw
    else:
        assign(out, ..., result)
    return out


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Return a tensor in a dtype, which may be None."""
    return x if dtype is None else astype(x, dtype, copy=False)


def begun(initial: Any, x: Tensor) -> Tensor:
    """Return the initial value of a reduction in the operand's dtype, as NumPy converts it before use."""
    if isinstance(initial, float) and kind_of(x) == "int":
        initial = int(initial)  # raises for infinities
    return astype(as_operand(initial, x), x.dtype, copy=False)


#: NumPy's strings for dtypes: kind and bytes, characters, and names of C and Python types.
_TEXTS = {
    **{f"{kind}{n}": f"{name}{8 * n}" for kind, name in (("i", "int"), ("u", "uint")) for n in (1, 2, 4, 8)},
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
    "b1": "bool",
    "?": "bool",
    "b": "int8",
    "B": "uint8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "q": "int64",
    "Q": "uint64",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "F": "complex64",
    "D": "complex128",
    "int": "int64",
    "uint": "uint64",
    "float": "float64",
    "complex": "complex128",
    "half": "float16",
    "single": "float32",
    "double": "float64",
    "csingle": "complex64",
    "cdouble": "complex128",
}


def native(dtype: Any) -> Any:
    """Return agrad's name for a dtype: for NumPy's abstract Python types, and for strings such as "f8" and "d"."""
    if dtype is None:
        return None
    name = dtypes.name_of(dtype)
    return _TEXTS.get(name.removeprefix("<").removeprefix("="), name)


# -- axes --------------------------------------------------------------------------------------------------------------


def axis_of(axis: Any, rank: int) -> int:
    """Return an axis counted from the front.

    Raises
    ------
    IndexError
        If there is no such axis, with NumPy's message.
    """
    axis = int(operator.index(axis))
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} is out of bounds for array of dimension {rank}{errors.called()}")
    return int(axis) % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return axes counted from the front; all of them for None."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis_of(a, rank) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(axes)) < len(axes):
        raise ValueError(f"repeated axis{errors.called()}")
    return axes


def plain_axis(axis: Any) -> Any:
    """Return an axis as an int, a tuple of int or None."""
    if axis is None or type(axis) is int:
        return axis
    return tuple(map(operator.index, axis)) if isinstance(axis, tuple | list) else operator.index(axis)


def part(axis: int, key: Any) -> tuple[Any, ...]:
    """Return the key of a part along an axis counted from the front."""
    return (*(slice(None),) * axis, key, ...)


def flat(x: Tensor, order: str = "C") -> Tensor:
    """Return the elements in one axis."""
    if order == "F":
        x = permute_dims(x, tuple(range(x.ndim))[::-1])
    return x if x.ndim == 1 else reshape(x, (-1,))


def count(x: Tensor, axis: Axis) -> int:
    """Return the number of elements that a reduction combines."""
    return math.prod(x.shape[a] for a in axes_of(axis, x.ndim))


def at_least_1d(x: Tensor) -> Tensor:
    """Return a tensor, adding an axis if it has none."""
    return x if x.ndim else reshape(x, (1,))


def element(x: Tensor, key: Any) -> Tensor:
    """Return the elements at a key."""
    return getitem(x, key)


def spread(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a tensor broadcast to a shape."""
    return x if x.shape == tuple(shape) else broadcast_to(x, tuple(shape))


def home(*values: Any) -> Any:
    """Return the device of the first array among operands, or of the default backend."""
    for value in values:
        if isinstance(value, Tensor):
            return value.device
        if not isinstance(value, bool | int | float | complex | list | tuple | None):
            backend = backend_of(value)
            if backend is not None:
                return backend.spec(backend.as_array(value)).device
    return manager.default_backend().default_device()
