"""Samples of the functions beyond the standard."""

from __future__ import annotations

from agrad.testing.samples.data import Data, add, cplx, mask, real, spaced

# -- products of two operands -----------------------------------------------------------------------------------------

_CONTRACTIONS: tuple[tuple[tuple[int, ...], str, tuple[int, ...], str, str], ...] = (
    ((2, 3), "ij", (3, 4), "jk", "ik"),
    ((3, 2), "ji", (4, 3), "kj", "ki"),
    ((2, 3), "bi", (2, 3), "bi", "b"),
    ((2, 3, 2), "bij", (2, 2, 4), "jbk", "ibk"),
    ((2, 3, 2), "ibj", (2, 3), "jb", "ib"),
    ((2, 3), "ij", (3, 2), "ji", ""),
    ((2,), "i", (3,), "j", "ji"),
    ((2, 3), "bi", (2, 2), "bj", "jib"),
    ((2, 3), "ij", (2, 3), "ij", "ji"),
    ((2, 2, 3), "abc", (3, 2), "cb", "a"),
    ((), "", (), "", ""),
    ((2,), "i", (), "", "i"),
    ((2, 0), "ij", (0, 3), "jk", "ik"),
    ((0, 2), "bi", (0, 3), "bj", "bij"),
)
for _shape1, _first, _shape2, _second, _result in _CONTRACTIONS:
    add("extra.contraction", real(*_shape1), real(*_shape2), _first, _second, _result)
add("extra.contraction", cplx(2, 3), cplx(3, 2), "ij", "jk", "ik")
add("extra.contraction", real(2, 3), cplx(3, 2), "ij", "jk", "ki")
add("extra.contraction", cplx(2, 2), real(2), "ij", "j", "ij")

for _n, _m in ((4, 2), (2, 4), (3, 3), (3, 1), (1, 1)):
    add("extra.convolve_full", real(_n), real(_m))
    if _n >= _m:
        add("extra.correlate_valid", real(_n), real(_m))
for _op in ("extra.convolve_full", "extra.correlate_valid"):
    add(_op, cplx(3), cplx(2))
    add(_op, real(3), cplx(2))
    add(_op, cplx(3), real(2))

# -- running and without NaN ------------------------------------------------------------------------------------------

for _op in ("extra.cumulative_max", "extra.cumulative_min", "extra.logcumsumexp"):
    add(_op, spaced(6))
    add(_op, spaced(1))
    add(_op, spaced(2, 5), axis=1)
    add(_op, spaced(3, 2), axis=0)
    add(_op, spaced(2, 3, 2), axis=-2)
    add(_op, spaced(2, 0), axis=1)
    add(_op, spaced(0, 2), axis=1)
add("extra.logcumsumexp", Data((3,), (700.0, 800.0, 800.5), "float64"))

_PLACES = mask(1, 0, 0, 1, 1, 1, 1, 0, 0, 0, shape=(2, 5))
for _op in ("extra.held", "extra.gathered"):
    add(_op, real(2, 5), _PLACES, axis=1)
    add(_op, real(4), mask(1, 0, 1, 0), axis=-1)
    add(_op, real(2, 2), mask(1, 1, 0, 1, shape=(2, 2)), axis=0)
    add(_op, real(1), mask(1), axis=0)
    add(_op, real(0, 2), mask(shape=(0, 2)), axis=1)

for _op in ("extra.nanmax", "extra.nanmin"):
    add(_op, spaced(2, 3))
    add(_op, spaced(2, 3), axis=1)
    add(_op, spaced(2, 3), axis=0, keepdims=True)
    add(_op, spaced(2, 2, 3), axis=(0, -1))
    add(_op, spaced())
    add(_op, spaced(0, 3), axis=1)
add("extra.filled", real(2, 3), 0.5)
