"""Samples of the elementwise functions."""

from __future__ import annotations

from agrad.testing.samples.data import (
    Data,
    Draw,
    above_one,
    add,
    between,
    complex_of,
    cplx,
    inside,
    positive,
    real,
    spaced,
)


def _unary(op: str, draw: Draw, *more: Draw) -> None:
    for shape in ((2, 3), (), (0, 2)):
        add(op, draw(*shape))
    for other in more:
        add(op, other(3))


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
add("round", Data((2,), (0.3 + 1.7j, -1.2 - 0.4j), "complex128"))
for _size in (2, 0):
    add("imag", cplx(_size, 3))
add("imag", cplx())

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
        add(op, first(*a), second(*b))
    if cfirst is not None and csecond is not None:
        add(op, cfirst(2, 2), csecond(2))
        add(op, first(2, 1), csecond(3))
        add(op, cfirst(3), second(2, 1))


_binary("add", real, real, cplx, cplx)
_binary("subtract", real, real, cplx, cplx)
_binary("multiply", real, real, cplx, cplx)
_binary("divide", real, real, cplx, cplx)
_binary("pow", positive, real, complex_of(positive), cplx)
add("pow", positive(2), Data((2,), (0.0, 1.0), "float64"))
add("pow", positive(2), Data((), (2.0,), "float64"))
for _op in ("atan2", "copysign", "hypot", "logaddexp", "nextafter"):
    _binary(_op, real, real)
for _op in ("maximum", "minimum"):
    _binary(_op, real, inside)
for _op in ("remainder", "floor_divide"):
    _binary(_op, between, positive)
    add(_op, between(3), Data((3,), (-0.77, -1.73, -0.431), "float64"))

_low, _high = Data((3,), (-0.5, -0.45, -0.35), "float64"), Data((2, 1), (0.45, 0.55), "float64")
add("clip", real(2, 3))
add("clip", spaced(2, 3), Data((), (-0.5,), "float64"))
add("clip", spaced(2, 3), None, Data((), (0.5,), "float64"))
add("clip", spaced(2, 3), max=_high)
add("clip", spaced(2, 3), min=_low)
add("clip", spaced(2, 3), _low, _high)
add("clip", spaced(2, 3), -0.5, 0.5)
_CROSS = "bounds that cross"
add("clip", spaced(), -0.5, max=Data((), (-1.4,), "float64"), beyond=_CROSS)
add("clip", spaced(2, 3), Data((2, 3), (0.1, 0.9, -0.9, -2.0, 0.33, 0.8), "float64"), _high, beyond=_CROSS)
add("clip", spaced(0, 3), _low, 0.5)
