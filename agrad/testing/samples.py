"""Sample operands for every op that has a derivative, as plain numbers: for agrad's tests and for those of any backend.

The samples lie away from kinks and singular points, so that finite differences tell the derivative. They cover
broadcasting, zero-size and 0-d operands, complex and mixed kinds, and every parameter that a derivative looks at.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SAMPLES", "Data", "Like", "Sample", "resolve", "samples_of"]


@dataclass(frozen=True)
class Data:
    """An array as plain numbers.

    Attributes
    ----------
    shape : tuple of int
        Its shape.
    values : tuple of numbers
        Its elements in row-major order.
    dtype : str
        The standard's name of its dtype.
    """

    shape: tuple[int, ...]
    values: tuple[Any, ...]
    dtype: str

    @property
    def inexact(self) -> bool:
        """Whether the dtype is real or complex floating point."""
        return self.dtype.startswith(("float", "complex"))


@dataclass(frozen=True)
class Like:
    """Stands for the spec of an array of this shape and dtype."""

    shape: tuple[int, ...]
    dtype: str = "float64"


@dataclass(frozen=True)
class Sample:
    """One call of an op.

    Attributes
    ----------
    op : str
        The op's name.
    args, kwargs
        As the user would pass them, with `Data` for arrays and `Like` for specs, also within tuples, lists and slices.
    beyond : str
        Why only some backends can run it: what it asks for beyond the standard. Empty if every backend can.
    """

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    beyond: str = ""

    def __str__(self) -> str:
        parts = [*map(_text, self.args), *(f"{k}={_text(v)}" for k, v in self.kwargs.items())]
        return f"{self.op}({', '.join(parts)})"


def _text(value: Any) -> str:
    if isinstance(value, Data):
        sizes = ",".join(map(str, value.shape))
        return f"{ {'float64': 'f', 'complex128': 'c'}.get(value.dtype, value.dtype) }[{sizes}]".replace(" ", "")
    if isinstance(value, tuple | list):
        return "(" + ",".join(map(_text, value)) + ")"
    if isinstance(value, slice):
        return ":".join("" if v is None else str(v) for v in (value.start, value.stop, value.step))
    return "..." if value is Ellipsis else str(value)


def resolve(value: Any, make: Callable[[Data], Any], spec: Callable[[Like], Any]) -> Any:
    """Give an argument of a sample with arrays and specs in the place of `Data` and `Like`.

    Parameters
    ----------
    value : object
        The argument.
    make : callable
        Makes an array (or Tensor) of a `Data`.
    spec : callable
        Makes a spec of a `Like`.
    """
    if isinstance(value, Data):
        return make(value)
    if isinstance(value, Like):
        return spec(value)
    if isinstance(value, tuple | list):
        return type(value)(resolve(v, make, spec) for v in value)
    return value


def samples_of(op: str) -> tuple[Sample, ...]:
    """Give the samples of an op, none if there are none."""
    return tuple(SAMPLES.get(op, ()))


#: The samples by op.
SAMPLES: dict[str, list[Sample]] = {}


def _add(op: str, *args: Any, beyond: str = "", **kwargs: Any) -> None:
    SAMPLES.setdefault(op, []).append(Sample(op, args, kwargs, beyond))


# -- numbers ----------------------------------------------------------------------------------------------------------

_random = random.Random(2718)  # noqa: S311 (sampling, not secrets)
Draw = Callable[..., Data]


def _drawn(draw: Callable[[], float], shape: tuple[int, ...]) -> Data:
    return Data(shape, tuple(draw() for _ in range(math.prod(shape))), "float64")


def real(*shape: int) -> Data:
    """Real numbers of either sign with magnitudes from 0.2 to 2."""
    return _drawn(lambda: _random.choice((-1, 1)) * _random.uniform(0.2, 2.0), shape)


def positive(*shape: int) -> Data:
    """Real numbers from 0.3 to 2.5."""
    return _drawn(lambda: _random.uniform(0.3, 2.5), shape)


def above_one(*shape: int) -> Data:
    """Real numbers from 1.3 to 3.5."""
    return _drawn(lambda: _random.uniform(1.3, 3.5), shape)


def inside(*shape: int) -> Data:
    """Real numbers from -0.8 to 0.8."""
    return _drawn(lambda: _random.uniform(-0.8, 0.8), shape)


def between(*shape: int) -> Data:
    """Real numbers well away from integers and halves."""
    return _drawn(lambda: _random.randint(-3, 3) + _random.choice((0.1, 0.3, 0.6, 0.9)), shape)


def spaced(*shape: int) -> Data:
    """Real numbers that lie apart from one another, in no order."""
    values = [0.35 * i - 1.1 for i in range(math.prod(shape))]
    _random.shuffle(values)
    return Data(shape, tuple(values), "float64")


def complex_of(draw: Draw) -> Draw:
    """Give what draws complex numbers with such real and imaginary parts."""

    def drawn(*shape: int) -> Data:
        parts = zip(draw(*shape).values, draw(*shape).values, strict=True)
        return Data(shape, tuple(complex(a, b) for a, b in parts), "complex128")

    return drawn


cplx = complex_of(real)


def integers(*values: int, shape: Sequence[int] | None = None) -> Data:
    """Indices."""
    return Data((len(values),) if shape is None else tuple(shape), values, "int64")


def mask(*values: int, shape: Sequence[int] | None = None) -> Data:
    """A boolean array."""
    return Data((len(values),) if shape is None else tuple(shape), tuple(map(bool, values)), "bool")


# -- elementwise ------------------------------------------------------------------------------------------------------


def _unary(op: str, draw: Draw, *more: Draw) -> None:
    for shape in ((2, 3), (), (0, 2)):
        _add(op, draw(*shape))
    for other in more:
        _add(op, other(3))


_cinside = complex_of(inside)
for _op, _draw, _complex in (
    ("acos", inside, _cinside),
    ("acosh", above_one, complex_of(above_one)),
    ("asin", inside, _cinside),
    ("asinh", real, _cinside),
    ("atan", real, _cinside),
    ("atanh", inside, _cinside),
    ("cos", real, cplx),
    ("cosh", real, cplx),
    ("exp", real, cplx),
    ("expm1", real, cplx),
    ("log", positive, cplx),
    ("log10", positive, cplx),
    ("log1p", positive, complex_of(positive)),
    ("log2", positive, cplx),
    ("negative", real, cplx),
    ("positive", real, cplx),
    ("reciprocal", real, cplx),
    ("sin", real, cplx),
    ("sinh", real, cplx),
    ("sqrt", positive, cplx),
    ("square", real, cplx),
    ("tan", inside, _cinside),
    ("tanh", real, _cinside),
    ("abs", real, cplx),
    ("sign", real, cplx),
    ("conj", real, cplx),
    ("real", real, cplx),
):
    _unary(_op, _draw, _complex)
for _op in ("ceil", "floor", "round", "trunc"):
    _unary(_op, between)
for _size in (2, 0):
    _add("imag", cplx(_size, 3))
_add("imag", cplx())

_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((), (3,)),
    ((2, 1), (1, 3)),
    ((), ()),
    ((0, 3), (3,)),
    ((1, 2), (0, 2)),
)


def _binary(op: str, first: Draw, second: Draw, cfirst: Draw | None = None, csecond: Draw | None = None) -> None:
    for a, b in _PAIRS:
        _add(op, first(*a), second(*b))
    if cfirst is not None and csecond is not None:
        _add(op, cfirst(2, 2), csecond(2))
        _add(op, first(2, 1), csecond(3))
        _add(op, cfirst(3), second(2, 1))


_binary("add", real, real, cplx, cplx)
_binary("subtract", real, real, cplx, cplx)
_binary("multiply", real, real, cplx, cplx)
_binary("divide", real, real, cplx, cplx)
_binary("pow", positive, real, complex_of(positive), cplx)
_add("pow", positive(2), Data((2,), (0.0, 1.0), "float64"))
_add("pow", positive(2), Data((), (2.0,), "float64"))
for _op in ("atan2", "copysign", "hypot", "logaddexp", "nextafter"):
    _binary(_op, real, real)
for _op in ("maximum", "minimum"):
    _binary(_op, real, inside)
for _op in ("remainder", "floor_divide"):
    _binary(_op, between, positive)
    _add(_op, between(3), Data((3,), (-0.77, -1.73, -0.431), "float64"))

_low, _high = Data((3,), (-0.5, -0.45, -0.35), "float64"), Data((2, 1), (0.45, 0.55), "float64")
_add("clip", real(2, 3))
_add("clip", spaced(2, 3), Data((), (-0.5,), "float64"))
_add("clip", spaced(2, 3), None, Data((), (0.5,), "float64"))
_add("clip", spaced(2, 3), max=_high)
_add("clip", spaced(2, 3), min=_low)
_add("clip", spaced(2, 3), _low, _high)
_add("clip", spaced(2, 3), -0.5, 0.5)
_CROSS = "bounds that cross"
_add("clip", spaced(), -0.5, max=Data((), (-1.4,), "float64"), beyond=_CROSS)
_add("clip", spaced(2, 3), Data((2, 3), (0.1, 0.9, -0.9, -2.0, 0.33, 0.8), "float64"), _high, beyond=_CROSS)
_add("clip", spaced(0, 3), _low, 0.5)

# -- data types -------------------------------------------------------------------------------------------------------

_add("astype", real(2, 3), "float64")
_add("astype", real(2, 3), "complex128")
_add("astype", cplx(2), "complex128", copy=False)

# -- manipulation -----------------------------------------------------------------------------------------------------

_shape: tuple[int, ...]
for _draw in (real, cplx):
    _add("reshape", _draw(2, 3), (3, -1))
    _add("permute_dims", _draw(2, 3, 2), (2, 0, 1))
    _add("matrix_transpose", _draw(2, 3))
    _add("expand_dims", _draw(2, 3), axis=1)
    _add("broadcast_to", _draw(3, 1), (2, 3, 2))
    _add("concat", [_draw(2, 2), real(2, 1)], axis=1)
    _add("stack", [_draw(2, 2), real(2, 2)], axis=1)
    _add("tril", _draw(3, 3))
    _add("triu", _draw(3, 3))
_add("reshape", real(1), ())
_add("reshape", real(), (1, 1))
_add("reshape", real(0, 2), (2, 0, 3))
_add("reshape", real(2, 2), (4,), copy=True)
_add("permute_dims", real(2, 3), (-1, 0))
_add("permute_dims", real(), ())
_add("permute_dims", real(2, 0, 3), (1, 2, 0))
_add("matrix_transpose", real(2, 2, 3))
_add("moveaxis", real(2, 3, 2), 0, 2)
_add("moveaxis", real(2, 3, 2), (0, -1), (1, 0))
_add("moveaxis", cplx(2, 2), -1, 0)
_add("expand_dims", real(), axis=0)
_add("expand_dims", real(2, 3), axis=-1)
_add("expand_dims", real(0, 3))
_add("squeeze", real(2, 1, 3), 1)
_add("squeeze", cplx(1, 2, 1), (0, -1))
_add("squeeze", real(1, 0), 0)
_add("flip", real(2, 3))
_add("flip", cplx(2, 3), axis=-1)
_add("flip", real(2, 2, 2), axis=(0, 2))
_add("flip", real())
_add("roll", real(2, 3), 2)
_add("roll", cplx(2, 3), -1, axis=1)
_add("roll", real(2, 3), (1, 5), axis=(0, 1))
_add("roll", real(2, 3), (1, 1), axis=(1, 1))
_add("roll", real(0, 3), 1, axis=0)
_add("broadcast_to", real(), (2, 2))
_add("broadcast_to", real(2, 1), (2, 0))
_add("broadcast_to", real(2, 3), (2, 3))
_add("broadcast_like", real(3, 1), Like((2, 3, 2)))
_add("broadcast_like", real(), Like((2, 2)))
_add("concat", (real(2, 2), real(1, 2), real(0, 2)))
_add("concat", [real(2, 2), real(3), real()], axis=None, beyond="0-d operands are flattened too")
_add("concat", [real(2, 2), cplx(3)], axis=None)
_add("concat", [real(3)], axis=-1)
_add("concat", [real(2, 0), real(2, 2)], axis=-1)
_add("stack", (real(3), real(3), real(3)), axis=-1)
_add("stack", [real(), real()])
_add("stack", [real(0, 2)], axis=1)
_add("unstack", real(3, 2))
_add("unstack", cplx(2, 2, 2), axis=-1)
_add("unstack", real(2, 0))
_add("unstack", real(0, 2))
_add("repeat", real(2, 2), 3)
_add("repeat", cplx(2, 3), 2, axis=1)
_add("repeat", real(2, 2), 2, axis=-2)
_add("repeat", real(2, 2), 0, axis=0)
_add("repeat", real(2, 3), integers(2, 0, 3), axis=1)
_add("repeat", cplx(2, 2, 2), integers(1, 3), axis=-1)
_add("repeat", real(3), integers(1, 2, 3))
_add("repeat", real(2, 2), integers(1, 0, 2, 1))
_add("repeat", real(2, 3), integers(2), axis=1)
_add("repeat", real(0, 3), 2, axis=0)
_add("tile", real(2, 3), (2, 1))
_add("tile", real(2), (3, 1, 2))
_add("tile", cplx(2, 3), (2,))
_add("tile", real(), (2, 2))
_add("tile", real(2, 2), (0, 2))
_add("tile", real(2, 2), 2, beyond="a plain number")
_add("tril", real(2, 2, 3), k=-1)
_add("triu", real(2, 3), k=1)
_add("triu", real(3, 2), k=-1)
_add("tril", real(0, 2))

# -- indexing ---------------------------------------------------------------------------------------------------------

_STRICT_KEY = "the standard mixes integer arrays with integers only"
_KEYS: tuple[tuple[tuple[int, ...], Any, str], ...] = (
    ((3, 4), (1, -2), ""),
    ((3, 4), (slice(None), 2), ""),
    ((3, 4), (slice(1, None), slice(None, None, 2)), ""),
    ((3, 4), (slice(None, None, -1), slice(3, None, -2)), ""),
    ((2, 3), (None, Ellipsis, 0), ""),
    ((2, 3), Ellipsis, ""),
    ((2, 3), (Ellipsis, None), ""),
    ((5,), slice(-1, -4, -1), ""),
    ((5,), slice(3, 1), ""),
    ((), (), ""),
    ((), None, ""),
    ((0, 3), (slice(None), 1), ""),
    ((2, 2, 3), (1, Ellipsis, slice(0, 2)), ""),
    ((4,), mask(1, 0, 1, 1), ""),
    ((2, 3), mask(1, 0, 0, 1, 1, 0, shape=(2, 3)), ""),
    ((2, 3), mask(0, 0, 0, 0, 0, 0, shape=(2, 3)), ""),
    ((3,), integers(2, 0, 2, -1), _STRICT_KEY),
    ((3, 2), (integers(2, 0, 2, 0), integers(1, 1, 1, 0)), ""),
    ((3, 2), (integers(2, 0, 2, 0, shape=(2, 2)), integers(1, 0)), ""),
    ((3, 2), (integers(2, 0, 2), 1), ""),
    ((3, 2), (integers(2, 0, 2), slice(None)), _STRICT_KEY),
    ((3, 2, 2), (slice(None), integers(1, 0, 1), slice(None, None, -1)), _STRICT_KEY),
    ((3, 2, 2), (integers(1, 0, 1), slice(None), integers(1, 1, 0)), _STRICT_KEY),
    ((3, 3), (integers(0, 0), None, slice(1, None)), _STRICT_KEY),
    ((3, 2), (mask(1, 0, 1), slice(None)), _STRICT_KEY),
    ((3, 2), (mask(1, 0, 1), 1), _STRICT_KEY),
    ((2, 3), (Ellipsis, mask(1, 0, 1)), _STRICT_KEY),
    ((3,), True, "a Python boolean as a key"),
    ((3, 2), [0, 2, 0], "a list as a key"),
    ((3,), integers(shape=(0,)), _STRICT_KEY),
)
for _shape, _key, _beyond in _KEYS:
    _add("getitem", real(*_shape), _key, beyond=_beyond)
_add("getitem", cplx(3, 2), (slice(None, None, -1), 0))
_add("getitem", cplx(3, 2), (integers(2, 0, 2), integers(1, 1, 1)))

_SETITEM_ARRAYS = "assignment at integer arrays, or of an array at a mask, is not in the standard"
for _shape, _key, _value, _beyond in (
    ((3, 4), (1, -2), (), ""),
    ((3, 4), (slice(None), 2), (3,), ""),
    ((3, 4), (slice(None), 2), (), ""),
    ((3, 4), (slice(1, None), slice(None, None, 2)), (2,), ""),
    ((3, 4), (slice(None, None, -1), slice(3, None, -2)), (3, 1), ""),
    ((2, 3), (Ellipsis, 0), (2,), ""),
    ((2, 3), Ellipsis, (3,), ""),
    ((5,), slice(3, 1), (0,), ""),
    ((), (), (), ""),
    ((2, 3), mask(1, 0, 0, 1, 1, 0, shape=(2, 3)), (), ""),
    ((2, 3), mask(1, 0, 0, 1, 1, 0, shape=(2, 3)), (3,), _SETITEM_ARRAYS),
    ((2, 3), mask(0, 1), (3,), _SETITEM_ARRAYS),
    ((2, 3), (None, slice(None), 1), (1, 2), "None in the key of an assignment"),
    ((3, 2), (integers(2, 0), integers(1, 1)), (2,), _SETITEM_ARRAYS),
    ((3, 2), (integers(2, 0), integers(1, 1)), (), _SETITEM_ARRAYS),
    ((3, 2), integers(2, 0), (2, 2), _SETITEM_ARRAYS),
    ((3, 2), (integers(2, 0, 2, 2), integers(1, 1, 1, -1)), (4,), _SETITEM_ARRAYS),
    ((3, 2), integers(2, 0, 2), (2,), _SETITEM_ARRAYS),
    ((3, 2), integers(2, 0), (2,), _SETITEM_ARRAYS),
    ((3, 2), (slice(None), integers(1, 0)), (3, 1), _SETITEM_ARRAYS),
    ((2, 2), (slice(None), 0), (1, 1, 2), "leading axes of length 1 that the target lacks"),
):
    _add("setitem", real(*_shape), _key, real(*_value), beyond=_beyond)
_add("setitem", cplx(3, 2), (slice(None), 0), cplx(3))
_add("setitem", cplx(3, 2), (slice(None), 0), real(3))
_add("setitem", real(3, 2), (0, slice(None)), 1.5)

_add("scatter_add", Like((3, 4)), (slice(1, None), 2), real(2))
_add("scatter_add", Like((3, 2)), (integers(2, 0, 2), integers(1, 1, 1)), real(3))
_add("scatter_add", Like((4,)), mask(1, 0, 1, 1), real(3))
_add("scatter_add", Like((3, 2)), (integers(1, 1, 0), slice(None)), real(3, 2), beyond=_STRICT_KEY)
_add("scatter_add", Like((), "float64"), (), real())
_add("scatter_add", Like((3,), "complex128"), slice(None, None, -1), cplx(3))

_add("take", real(2, 3), integers(2, 0, 2, 1), axis=1)
_add("take", cplx(3, 2), integers(2, 0, 2), axis=-2)
_add("take", real(3), integers(1, 1))
_add("take", real(3, 2), integers(shape=(0,)), axis=0)
_add("take", real(2, 3), integers(1, 5, 1, -1), beyond="no axis named for several")
_add("take", real(3, 2), integers(2, 0, 2, 1, shape=(2, 2)), axis=0, beyond="indices of more axes")
_add("take_along_axis", real(2, 3), integers(2, 0, 2, 1, 1, 0, shape=(2, 3)), axis=1)
_add("take_along_axis", real(2, 3), integers(1, 0, 1, 0, 0, 0, 1, 1, 1, shape=(3, 3)), axis=0)
_add("take_along_axis", cplx(2, 2), integers(1, 0, shape=(2, 1)))
_add("take_along_axis", real(2, 3), integers(2, 2, shape=(1, 2)), axis=-1)
_add("take_along_axis", real(1, 3), integers(2, 0, 1, 1, shape=(2, 2)), axis=1)
_add("where", mask(1, 0, 1, 0, 1, 1, shape=(2, 3)), real(2, 3), real(2, 3))
_add("where", mask(1, 0, 1), real(2, 3), real())
_add("where", mask(1, 0, shape=(2, 1)), real(3), cplx(2, 3))
_add("where", mask(1, 0), 0.5, real(2))
_add("where", mask(1, 0), real(2, 2), 0.5)
_add("where", mask(1, shape=()), real(0, 2), real(2))

# -- sorting ----------------------------------------------------------------------------------------------------------

_add("sort", spaced(2, 3))
_add("sort", spaced(3, 2), axis=0, descending=True)
_add("sort", spaced(4), stable=False)
_add("sort", spaced(0, 3), axis=0)

# -- statistical ------------------------------------------------------------------------------------------------------

_AXES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3), {}),
    ((2, 3), {"keepdims": True}),
    ((2, 3), {"axis": 1}),
    ((2, 3), {"axis": -2, "keepdims": True}),
    ((2, 3, 2), {"axis": (0, -1)}),
    ((2, 3, 2), {"axis": (2, 0), "keepdims": True}),
    ((3,), {"axis": 0}),
    ((3,), {"axis": ()}),
    ((1, 1), {"axis": 1}),
    ((), {}),
)
for _shape, _kwargs in _AXES:
    for _op in ("sum", "mean", "prod", "max", "min", "var", "std"):
        if _op in ("var", "std") and (math.prod(_shape) == 1 or _kwargs.get("axis") == ()):
            continue  # of one number: a kink
        _add(_op, spaced(*_shape) if _op in ("max", "min") else real(*_shape), **_kwargs)
for _op in ("sum", "mean", "prod"):
    _add(_op, cplx(2, 3), axis=1)
    _add(_op, cplx(2, 2))
    _add(_op, real(0, 3), axis=1)
for _op in ("sum", "prod"):
    _add(_op, real(0, 3))
    _add(_op, real(2, 0), axis=1)
    _add(_op, real(2, 2), dtype="complex128")
_add("max", spaced(0, 3), axis=1)
for _op in ("var", "std"):
    _add(_op, real(2, 3), axis=1, correction=1)
    _add(_op, real(2, 3), correction=0.5)
    _add(_op, real(0, 3), axis=1)
    _add(_op, cplx(2, 3), axis=1, beyond="complex numbers")
for _op in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
    _add(_op, real(3), dtype="float64")
for _op in ("cumulative_sum", "cumulative_prod"):
    _add(_op, real(4))
    _add(_op, real(2, 3), axis=0)
    _add(_op, real(2, 3), axis=-1, include_initial=True)
    _add(_op, real(2, 2, 2), axis=1)
    _add(_op, cplx(2, 2), axis=1)
    _add(_op, real(2, 0), axis=1)
    _add(_op, real(0, 2), axis=0, include_initial=True)
    _add(_op, real(3), dtype="complex128")
    _add(_op, real(1), axis=0)
_add("cumulative_prod", Data((2, 3), (0.0, 2.0, 3.0, 0.5, 0.0, 0.0), "float64"), axis=1)
_add("prod", Data((3, 3), (0.0, 2.0, 3.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0), "float64"), axis=1)

# -- linear algebra ---------------------------------------------------------------------------------------------------

_MATMUL: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (3, 2)),
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 1)),
    ((2, 1, 1, 2), (3, 2, 2)),
    ((2,), (3, 2, 2)),
    ((2, 2, 3), (3,)),
    ((3,), (2, 1, 3, 2)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((0,), (0,)),
    ((0, 2, 2), (2,)),
)
for _first, _second in _MATMUL:
    _add("matmul", real(*_first), real(*_second))
for _first, _second in (((2, 2), (2, 2)), ((2,), (2,)), ((2,), (2, 2)), ((2, 2), (2,))):
    _add("matmul", cplx(*_first), cplx(*_second))
    _add("matmul", real(*_first), cplx(*_second))
    _add("matmul", cplx(*_first), real(*_second))
_add("tensordot", real(2, 3, 2), real(3, 2, 2))
_add("tensordot", real(2, 3), real(3, 2), axes=1)
_add("tensordot", real(2), real(3), axes=0)
_add("tensordot", real(2, 3, 4), real(4, 2, 3), axes=((0, 2), (1, 0)))
_add("tensordot", real(2, 3, 4), real(4, 2, 3), axes=((-1, 0), (0, -2)))
_add("tensordot", real(2, 3, 2), real(2, 3, 2), axes=((2, 0, 1), (0, 2, 1)))
_add("tensordot", real(2, 3, 2), real(2, 2, 3), axes=([1, 2], [2, 0]))
_add("tensordot", real(), real(2), axes=0)
_add("tensordot", real(2, 0), real(0, 3), axes=1)
_add("tensordot", real(2, 3), real(3, 2), axes=((), ()))
_add("tensordot", cplx(2, 3), cplx(3, 2), axes=((1,), (0,)))
_add("tensordot", real(2, 3), cplx(3, 2), axes=((1, 0), (0, 1)))
_add("tensordot", cplx(2, 2), real(2), axes=1)
_add("tensordot", real(2, 3), real(2, 3), axes=(1, 1), beyond="plain numbers as axes")
_add("vecdot", real(2, 3), real(2, 3))
_add("vecdot", real(2, 3), real(3))
_add("vecdot", real(3, 2), real(3, 1), axis=-2)
_add("vecdot", real(3), real(2, 1, 3))
_add("vecdot", real(2, 0), real(2, 0))
_add("vecdot", cplx(2, 2), cplx(2, 2))
_add("vecdot", cplx(2), real(2, 2))
_add("vecdot", real(2, 2), cplx(2))
_add("vecdot", real(3, 2), real(3, 2), axis=0, beyond="an axis that is not negative")
_add("vecdot", real(2, 1), real(2, 3, 3), axis=0, beyond="an axis that is not negative")
_add("linalg.outer", real(2), real(3))
_add("linalg.outer", cplx(2), cplx(3))
_add("linalg.outer", real(2), cplx(2))
_add("linalg.outer", cplx(2), real(2))
_add("linalg.outer", real(0), real(2))
