"""NumPy's questions about arrays and dtypes, text of arrays, and functions that belong to the array library."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agrad.core import errors
from agrad.core.backend import backend_of
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.numpy.common import PYTHON_NUMBERS, castable, home, native, promoted, refused, widened
from agrad.numpy.making import empty
from agrad.numpy.table import CREATION, EFFECT, LIBRARY, STEP, enter, public
from agrad.numpy.ufuncs import ufunc
from agrad.ops import manipulation
from agrad.plugin import manager
from agrad.view.format import OPTIONS


def _native(name: str, *values: Any) -> Any:
    """Return the dtype of a name, for the backend of the first array among values."""
    backend, _ = manager.device_of(home(*values))
    return backend.dtype(name)


@public(status=STEP)
def result_type(*arrays_and_dtypes: Any) -> Any:
    numbers = [v for v in arrays_and_dtypes if type(v) in PYTHON_NUMBERS]
    names = [v if isinstance(v, Tensor) else _name(v) for v in arrays_and_dtypes if type(v) not in PYTHON_NUMBERS]
    return _native(widened(promoted(*names) if names else "bool", *numbers), *arrays_and_dtypes)


def _name(value: Any) -> str:
    """Return the name of a dtype, or of an array's dtype."""
    backend = None if isinstance(value, type | str) else backend_of(value)
    found: str = native(value.dtype if backend is not None else value)
    return found


@public(status=STEP)
def promote_types(type1: Any, type2: Any, /) -> Any:
    return _native(promoted(_name(type1), _name(type2)))


@public(status=STEP)
def common_type(*arrays: Any) -> Any:
    """The dtype of inexact numbers that can hold them all."""
    return _native(promoted("float16", *(v.dtype if v._spec.inexact else "float64" for v in map(as_operand, arrays))))


@public(status=STEP)
def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    source = _name(from_.dtype if isinstance(from_, Tensor) else from_)
    return castable(source, _name(to), casting)


@public(status=STEP)
def shares_memory(a: Any, b: Any, /, max_work: Any = -1) -> bool:
    """Whether they are the same tensor: tensors share no memory."""
    return a is b


@public(status=STEP)
def may_share_memory(a: Any, b: Any, /, max_work: Any = 0) -> bool:
    """Whether they are the same tensor: tensors share no memory."""
    return a is b


@public(status=STEP)
def isfortran(a: Any) -> bool:
    """False: tensors have no visible layout."""
    as_operand(a)
    return False


@public(status=STEP)
def isscalar(element: Any) -> bool:
    """Whether it is a number or string and not an array; a tensor never is."""
    if isinstance(element, bool | int | float | complex | str | bytes):
        return True
    return not isinstance(element, Tensor) and hasattr(element, "dtype") and not hasattr(element, "__setitem__")


@public(status=STEP)
def iterable(y: Any) -> bool:
    try:
        iter(y)
    except TypeError:
        return False
    return True


@public(status=STEP)
def broadcast_shapes(*args: Any) -> tuple[int, ...]:
    shapes = ((s,) if isinstance(s, int) else tuple(s) for s in args)
    return manipulation.broadcast_shapes(*shapes)


def _text(name: str, x: Any, options: tuple[Any, ...], function: Any) -> str:
    if any(v is not None for v in options):
        raise refused(f"numpy.{name} with options", "format x.detach().numpy()")
    return str(function(as_operand(x)))


@public(status=STEP)
def array_repr(arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """Options are refused."""
    return _text("array_repr", arr, (max_line_width, precision, suppress_small), repr)


@public(status=STEP)
def array_str(a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """Options are refused."""
    return _text("array_str", a, (max_line_width, precision, suppress_small), str)


@public(status=EFFECT)
def set_printoptions(
    precision: Any = None, threshold: Any = None, edgeitems: Any = None, linewidth: Any = None, suppress: Any = None,
    nanstr: Any = None, infstr: Any = None, formatter: Any = None, sign: Any = None, floatmode: Any = None, *,
    legacy: Any = None, override_repr: Any = None,
) -> None:  # fmt: skip
    """For plain arrays, and with `suppress` for tensors too, which are laid out like PyTorch's."""
    FromLibrary("set_printoptions").find()(
        precision, threshold, edgeitems, linewidth, suppress, nanstr, infstr, formatter, sign, floatmode, legacy=legacy,
        override_repr=override_repr,
    )  # fmt: skip
    asked = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes = {name: value for name, value in asked.items() if value is not None}
    if suppress is not None:
        changes["sci_mode"] = False if suppress else None
    OPTIONS.set(replace(OPTIONS.get(), **changes))


@public(status=EFFECT)
@contextlib.contextmanager
def printoptions(*args: Any, **kwargs: Any) -> Iterator[Any]:
    """For plain arrays and for tensors."""
    before = OPTIONS.get()
    with FromLibrary("printoptions").find()():
        try:
            set_printoptions(*args, **kwargs)
            yield FromLibrary("get_printoptions").find()()
        finally:
            OPTIONS.set(before)


# -- names of the array library ----------------------------------------------------------------------------------------


class FromLibrary:
    """A name from the array library of the current backend, otherwise from NumPy, if that is installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find(self) -> Any:
        """Return the library's object of this name."""
        for backend in (manager.default_backend(), manager.usable("numpy")):
            found = getattr(backend.namespace(), self.name, None)
            if found is not None:
                return found
        raise AttributeError(f"module 'agrad.numpy' has no attribute {self.name!r}{errors.called()}")


#: Settings, text of numbers, dtypes and questions about them, without arrays; and arrays from files and bytes.
_LIBRARYS = """
base_repr binary_repr character complexfloating clongdouble dtype errstate finfo flexible
floating format_float_positional format_float_scientific frombuffer fromfile fromregex fromstring generic genfromtxt get_include get_printoptions getbufsize geterr geterrcall
iinfo inexact info integer isdtype issubdtype load loadtxt longdouble memmap mintypecode ndindex number
setbufsize seterr seterrcall show_config show_runtime signedinteger test typename unsignedinteger
"""

for _name_of in _LIBRARYS.split():
    enter(_name_of, FromLibrary(_name_of), LIBRARY)


def _saved(name: str, file: Any, *values: Any, **more: Any) -> None:
    """Let the array library write the values of tensors and arrays; ``numpy()`` refuses tensors being differentiated."""
    arrays = [v.numpy() if isinstance(v, Tensor) else v for v in values]
    FromLibrary(name).find()(file, *arrays, **{k: v.numpy() if isinstance(v, Tensor) else v for k, v in more.items()})


@public(status=EFFECT)
def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Saves a tensor as its array, without history."""
    _saved("save", file, arr, allow_pickle=allow_pickle)


@public(status=EFFECT)
def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Saves tensors as their arrays, without history."""
    _saved("savez", file, *args, allow_pickle=allow_pickle, **kwds)


@public(status=EFFECT)
def savez_compressed(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Saves tensors as their arrays, without history."""
    _saved("savez_compressed", file, *args, allow_pickle=allow_pickle, **kwds)


@public(status=EFFECT)
def savetxt(
    fname: Any, X: Any, fmt: Any = "%.18e", delimiter: str = " ", newline: str = "\n", header: str = "",
    footer: str = "", comments: str = "# ", encoding: Any = None,
) -> None:  # fmt: skip
    """Saves a tensor as its array, without history."""
    _saved(
        "savetxt", fname, X, fmt=fmt, delimiter=delimiter, newline=newline, header=header, footer=footer,
        comments=comments, encoding=encoding,
    )  # fmt: skip


class _Arrays(type):
    """The metaclass of ``ndarray``: decides what counts as an array."""

    def __instancecheck__(cls, value: Any) -> bool:
        if isinstance(value, Tensor):
            return True
        return backend_of(value) is not None and hasattr(type(value), "__setitem__")


class ndarray(metaclass=_Arrays):  # noqa: N801 (NumPy's own name)
    """As ``numpy.ndarray``: tensors are instances of it, and so are the arrays of every backend.

    Calling it with a shape returns an uninitialised tensor.
    """

    def __new__(cls, shape: Any, dtype: Any = float, buffer: Any = None, **layout: Any) -> Any:
        """Make an uninitialised tensor."""
        if buffer is not None or layout:
            raise refused("numpy.ndarray of memory", "use np.array")
        return empty(shape, dtype)


enter("ndarray", ndarray, CREATION)
enter("ufunc", ufunc, STEP)
