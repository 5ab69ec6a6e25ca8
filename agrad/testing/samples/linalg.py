"""Samples of the linear algebra functions.

Finite differences change the elements of an operand one by one, and use every element of a result. So functions that
only use one triangle of a matrix are sampled with 1 x 1 matrices here, and those with arbitrary phases not at all;
separate tests check them in functions that do not depend on the difference.
"""

from __future__ import annotations

import math
import random

from agrad.testing.samples.data import Data, Draw, add, complex_of

# separate numbers: whether a matrix is nearly singular must not depend on the other chapters' samples
_random = random.Random(4711)  # noqa: S311 (sampling, not secrets)


def real(*shape: int) -> Data:
    """Real numbers of either sign with magnitudes from 0.2 to 2."""
    values = (_random.choice((-1, 1)) * _random.uniform(0.2, 2.0) for _ in range(math.prod(shape)))
    return Data(shape, tuple(values), "float64")


def positive(*shape: int) -> Data:
    """Real numbers from 0.3 to 2.5."""
    return Data(shape, tuple(_random.uniform(0.3, 2.5) for _ in range(math.prod(shape))), "float64")


cplx: Draw = complex_of(real)

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
add("linalg.cross", real(3), real(3))
add("linalg.cross", real(2, 3), real(3))
add("linalg.cross", real(3, 2), real(2, 3, 1), axis=-2)
add("linalg.cross", cplx(3), cplx(2, 3))
add("linalg.cross", real(3), cplx(3))
add("linalg.cross", real(0, 3), real(3))
add("linalg.cross", real(3, 2), real(3, 2), axis=0, beyond="an axis that is not negative")


def _matrix(*rows: tuple[complex, ...]) -> Data:
    """A matrix of these numbers."""
    values = tuple(value for row in rows for value in row)
    dtype = "complex128" if any(isinstance(value, complex) for value in values) else "float64"
    return Data((len(rows), len(rows[0])), values, dtype)


def _regular(n: int, *, lead: tuple[int, ...] = (), draw: Draw = real) -> Data:
    """Matrices far from singular: with a heavy diagonal, of either sign."""
    data = (cplx if draw is cplx else real)(*lead, n, n)
    values = list(data.values)
    for place in range(0, math.prod(lead) * n * n, n * n):
        for i in range(n):
            value = values[place + i * (n + 1)]
            values[place + i * (n + 1)] = value * (1 + (2 + 0.7 * i) / abs(value))
    return Data(data.shape, tuple(values), data.dtype)


for _shape, _offset in (((3, 3), 0), ((2, 3, 2), 0), ((0, 2), 0), ((2, 3), 1), ((2, 3), -1), ((3, 2), 4), ((3, 2), -5)):
    add("linalg.diagonal", real(*_shape), offset=_offset)
    add("linalg.trace", real(*_shape), offset=_offset)
add("linalg.diagonal", cplx(2, 2))
add("linalg.trace", cplx(2, 2, 2))
add("linalg.trace", real(2, 2), dtype="complex128")

for _ord in (2, 1, 3, 1.5, 0.5, 0, -1, -2, math.inf, -math.inf):
    add("linalg.vector_norm", real(2, 3), axis=-1, ord=_ord)
for _ord in (2, 1, 3, -1, math.inf):
    add("linalg.vector_norm", cplx(3), ord=_ord)
add("linalg.vector_norm", real(2, 2, 3), axis=(-1, 0))
add("linalg.vector_norm", real(2, 2, 2), axis=(0, 2), keepdims=True, ord=3)
add("linalg.vector_norm", real(2, 3), keepdims=True)
add("linalg.vector_norm", real(2, 3), axis=1, keepdims=True, ord=math.inf)
add("linalg.vector_norm", real())
add("linalg.vector_norm", real(0, 2), axis=1)
add("linalg.vector_norm", real(2, 0), axis=1)

add("linalg.solve", _regular(3), real(3))
add("linalg.solve", _regular(3), real(3, 2))
add("linalg.solve", _regular(2, lead=(3,)), real(2))
add("linalg.solve", _regular(2, lead=(3,)), real(2, 1))
add("linalg.solve", _regular(2), real(3, 2, 2))
add("linalg.solve", _regular(2, lead=(2, 1)), real(3, 2, 2))
add("linalg.solve", _regular(2, draw=cplx), cplx(2, 2))
add("linalg.solve", _regular(2, draw=cplx), real(2))
add("linalg.solve", _regular(2), cplx(2))
add("linalg.solve", _regular(2, lead=(0,)), real(2, 1))
add("linalg.solve", _regular(1), real(1))
for _op in ("linalg.inv", "linalg.det", "linalg.slogdet"):
    add(_op, _regular(3))
    add(_op, _regular(2, lead=(2,)))
    add(_op, _regular(2, draw=cplx))
    add(_op, _regular(1))
    add(_op, _regular(2, lead=(0,)))
#: Singular matrices: of rank n - 1, n - 2 and 0.
_SINGULAR = (
    _matrix((1.0, 2.0, 3.0), (2.0, 1.0, 0.5), (3.0, 3.0, 3.5)),
    _matrix((1.0, 2.0, -1.0), (2.0, 4.0, -2.0), (0.5, 1.0, -0.5)),
    _matrix((0.0, 0.0), (0.0, 0.0)),
    _matrix((1j, 1.0 + 1j), (-1.0 + 0j, -1.0 + 1j)),
)
for _data in _SINGULAR:
    add("linalg.det", _data)
for _data in (_regular(3), _regular(4), _regular(2, lead=(2,)), _regular(3, draw=cplx), _regular(1), _SINGULAR[0]):
    add("linalg.adjugate", _data)
add("linalg.pinv", _regular(3))
add("linalg.pinv", real(3, 2))
add("linalg.pinv", real(2, 2, 3))
add("linalg.pinv", cplx(3, 2))
add("linalg.pinv", cplx(2, 3), rtol=1e-9)
add("linalg.pinv", real(0, 2, 3))
for _n in (0, 1, 2, 5, -1, -2):
    add("linalg.matrix_power", _regular(2), _n)
add("linalg.matrix_power", _regular(2, lead=(2,)), 3)
add("linalg.matrix_power", _regular(2, draw=cplx), -2)

for _upper in (False, True):
    add("linalg.cholesky", positive(1, 1), upper=_upper)
    add("linalg.cholesky", positive(2, 1, 1), upper=_upper)
for _op in ("linalg.eigh", "linalg.eigvalsh"):
    add(_op, positive(1, 1))
    add(_op, positive(2, 1, 1))
    add(_op, real(0, 2, 2))
add("linalg.eig", real(0, 2, 2))
#: Real eigenvalues, complex ones, complex matrices.
_SPREAD = _matrix((1.0, 0.4, -0.3), (0.5, -2.0, 0.8), (-0.6, 0.7, 4.0))
_TURNING = _matrix((0.5, 1.5, 0.2), (-1.2, 0.7, 0.4), (0.3, -0.2, 3.0))
for _data in (_SPREAD, _TURNING, _regular(2, draw=cplx), _regular(2, lead=(2,)), _regular(1)):
    add("linalg.eigvals", _data)
for _data in (_SPREAD, real(4, 2), real(2, 2, 3), cplx(3, 2), cplx(2, 3), real(1, 3)):
    add("linalg.svdvals", _data)
add("linalg.svd", _SPREAD)
add("linalg.svd", _SPREAD, full_matrices=False)
# not tall in chunks of two rows: there Dask works block by block, and other signs result
for _data in (real(4, 3), real(2, 1), real(2, 4), real(2, 3, 2), real(0, 3, 2)):
    add("linalg.svd", _data, full_matrices=False)
for _data in (_SPREAD, real(4, 3), real(2, 1), real(2, 4), real(2, 3, 2), cplx(2, 2), cplx(4, 3), cplx(2, 3)):
    add("linalg.qr", _data)
for _data in (_SPREAD, real(2, 2, 3), cplx(2, 2)):
    add("linalg.qr", _data, mode="complete")
