"""Samples of the statistical functions."""

from __future__ import annotations

import math
from typing import Any

from agrad.testing.samples.data import Data, add, cplx, real, spaced

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
        add(_op, spaced(*_shape) if _op in ("max", "min") else real(*_shape), **_kwargs)
for _op in ("sum", "mean", "prod"):
    add(_op, cplx(2, 3), axis=1)
    add(_op, cplx(2, 2))
    add(_op, real(0, 3), axis=1)
for _op in ("sum", "prod"):
    add(_op, real(0, 3))
    add(_op, real(2, 0), axis=1)
    add(_op, real(2, 2), dtype="complex128")
add("max", spaced(0, 3), axis=1)
for _op in ("var", "std"):
    add(_op, real(2, 3), axis=1, correction=1)
    add(_op, real(2, 3), correction=0.5)
    add(_op, real(0, 3), axis=1)
    add(_op, cplx(2, 3), axis=1, beyond="complex numbers")
for _op in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
    add(_op, real(3), dtype="float64")
for _op in ("cumulative_sum", "cumulative_prod"):
    add(_op, real(4))
    add(_op, real(2, 3), axis=0)
    add(_op, real(2, 3), axis=-1, include_initial=True)
    add(_op, real(2, 2, 2), axis=1)
    add(_op, cplx(2, 2), axis=1)
    add(_op, real(2, 0), axis=1)
    add(_op, real(0, 2), axis=0, include_initial=True)
    add(_op, real(3), dtype="complex128")
    add(_op, real(1), axis=0)
add("cumulative_prod", Data((2, 3), (0.0, 2.0, 3.0, 0.5, 0.0, 0.0), "float64"), axis=1)
add("prod", Data((3, 3), (0.0, 2.0, 3.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0), "float64"), axis=1)
