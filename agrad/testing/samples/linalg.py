"""Samples of the linear algebra functions."""

from __future__ import annotations

from agrad.testing.samples.data import add, cplx, real

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
    add("matmul", real(*_first), real(*_second))
for _first, _second in (((2, 2), (2, 2)), ((2,), (2,)), ((2,), (2, 2)), ((2, 2), (2,))):
    add("matmul", cplx(*_first), cplx(*_second))
    add("matmul", real(*_first), cplx(*_second))
    add("matmul", cplx(*_first), real(*_second))
add("tensordot", real(2, 3, 2), real(3, 2, 2))
add("tensordot", real(2, 3), real(3, 2), axes=1)
add("tensordot", real(2), real(3), axes=0)
add("tensordot", real(2, 3, 4), real(4, 2, 3), axes=((0, 2), (1, 0)))
add("tensordot", real(2, 3, 4), real(4, 2, 3), axes=((-1, 0), (0, -2)))
add("tensordot", real(2, 3, 2), real(2, 3, 2), axes=((2, 0, 1), (0, 2, 1)))
add("tensordot", real(2, 3, 2), real(2, 2, 3), axes=([1, 2], [2, 0]))
add("tensordot", real(), real(2), axes=0)
add("tensordot", real(2, 0), real(0, 3), axes=1)
add("tensordot", real(2, 3), real(3, 2), axes=((), ()))
add("tensordot", cplx(2, 3), cplx(3, 2), axes=((1,), (0,)))
add("tensordot", real(2, 3), cplx(3, 2), axes=((1, 0), (0, 1)))
add("tensordot", cplx(2, 2), real(2), axes=1)
add("tensordot", real(2, 3), real(2, 3), axes=(1, 1), beyond="plain numbers as axes")
add("vecdot", real(2, 3), real(2, 3))
add("vecdot", real(2, 3), real(3))
add("vecdot", real(3, 2), real(3, 1), axis=-2)
add("vecdot", real(3), real(2, 1, 3))
add("vecdot", real(2, 0), real(2, 0))
add("vecdot", cplx(2, 2), cplx(2, 2))
add("vecdot", cplx(2), real(2, 2))
add("vecdot", real(2, 2), cplx(2))
add("vecdot", real(3, 2), real(3, 2), axis=0, beyond="an axis that is not negative")
add("vecdot", real(2, 1), real(2, 3, 3), axis=0, beyond="an axis that is not negative")
add("linalg.outer", real(2), real(3))
add("linalg.outer", cplx(2), cplx(3))
add("linalg.outer", real(2), cplx(2))
add("linalg.outer", cplx(2), real(2))
add("linalg.outer", real(0), real(2))
