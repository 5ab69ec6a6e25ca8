"""Samples of the indexing, searching and sorting functions."""

from __future__ import annotations

from typing import Any

from agrad.testing.samples.data import Like, add, cplx, integers, mask, real, spaced

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
    add("getitem", real(*_shape), _key, beyond=_beyond)
add("getitem", cplx(3, 2), (slice(None, None, -1), 0))
add("getitem", cplx(3, 2), (integers(2, 0, 2), integers(1, 1, 1)))

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
    add("setitem", real(*_shape), _key, real(*_value), beyond=_beyond)
add("setitem", cplx(3, 2), (slice(None), 0), cplx(3))
add("setitem", cplx(3, 2), (slice(None), 0), real(3))
add("setitem", real(3, 2), (0, slice(None)), 1.5)

add("scatter_add", Like((3, 4)), (slice(1, None), 2), real(2))
add("scatter_add", Like((3, 2)), (integers(2, 0, 2), integers(1, 1, 1)), real(3))
add("scatter_add", Like((4,)), mask(1, 0, 1, 1), real(3))
add("scatter_add", Like((3, 2)), (integers(1, 1, 0), slice(None)), real(3, 2), beyond=_STRICT_KEY)
add("scatter_add", Like((), "float64"), (), real())
add("scatter_add", Like((3,), "complex128"), slice(None, None, -1), cplx(3))

add("take", real(2, 3), integers(2, 0, 2, 1), axis=1)
add("take", cplx(3, 2), integers(2, 0, 2), axis=-2)
add("take", real(3), integers(1, 1))
add("take", real(3, 2), integers(shape=(0,)), axis=0)
add("take", real(2, 3), integers(1, 5, 1, -1), beyond="no axis named for several")
add("take", real(3, 2), integers(2, 0, 2, 1, shape=(2, 2)), axis=0, beyond="indices of more axes")
add("take_along_axis", real(2, 3), integers(2, 0, 2, 1, 1, 0, shape=(2, 3)), axis=1)
add("take_along_axis", real(2, 3), integers(1, 0, 1, 0, 0, 0, 1, 1, 1, shape=(3, 3)), axis=0)
add("take_along_axis", cplx(2, 2), integers(1, 0, shape=(2, 1)))
add("take_along_axis", real(2, 3), integers(2, 2, shape=(1, 2)), axis=-1)
add("take_along_axis", real(1, 3), integers(2, 0, 1, 1, shape=(2, 2)), axis=1)
add("extra.windows", real(4, 2), 3, axis=0)
add("extra.windows", cplx(2, 3), 2, axis=-1)
add("extra.windows", real(3), 1, axis=0)
add("extra.windows", real(2, 3), 3, axis=1)
add("extra.windows", real(2), 0, axis=0)
add("extra.overlap_add", real(3, 2, 2), axis=0)
add("extra.overlap_add", cplx(2, 2, 3), axis=-1)
add("extra.overlap_add", real(2, 1), axis=0)
add("extra.overlap_add", real(1, 3), axis=0)
add("extra.scatter_along", real(2, 3), integers(2, 0, -2, 1, 1, 1, shape=(2, 3)), Like((2, 4)), 1)
add("extra.scatter_along", cplx(3, 2), integers(1, 0, 0, 0, 1, 1, shape=(3, 2)), Like((2, 2), "complex128"), 0)
add("extra.scatter_along", real(2, 2), integers(2, 0, 1, 1, shape=(2, 2)), Like((1, 3)), 1)
add("extra.scatter_along", real(2, 2), integers(2, 0, shape=(1, 2)), Like((2, 3)), -1)
add("where", mask(1, 0, 1, 0, 1, 1, shape=(2, 3)), real(2, 3), real(2, 3))
add("where", mask(1, 0, 1), real(2, 3), real())
add("where", mask(1, 0, shape=(2, 1)), real(3), cplx(2, 3))
add("where", mask(1, 0), 0.5, real(2))
add("where", mask(1, 0), real(2, 2), 0.5)
add("where", mask(1, shape=()), real(0, 2), real(2))

add("sort", spaced(2, 3))
add("sort", spaced(3, 2), axis=0, descending=True)
add("sort", spaced(4), stable=False)
add("sort", spaced(0, 3), axis=0)
