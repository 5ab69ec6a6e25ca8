"""Samples of the ops behind `agrad.scipy`, which are declared when it, or this file, is imported."""

from __future__ import annotations

import agrad.ops.scipy.linalg
import agrad.ops.scipy.signal
import agrad.ops.scipy.sparse  # noqa: F401 (they declare the ops)
from agrad.testing.samples.data import Data, add, integers
from agrad.testing.samples.linalg import cplx, real


def dominant(*shape: int, by: float = 4.0) -> Data:
    """Square matrices far from singular ones, whose eigenvalues are in the right half of the plane."""
    return _raised(real(*shape), by)


def dominant_complex(*shape: int, by: float = 4.0) -> Data:
    """As `dominant`, complex."""
    return _raised(cplx(*shape), by)


def _raised(drawn: Data, by: float) -> Data:
    n = drawn.shape[-1]
    values = [v + by if i % (n * n) % (n + 1) == 0 else v for i, v in enumerate(drawn.values)]
    return Data(drawn.shape, tuple(values), drawn.dtype)


#: The standard's functions have none.
_KERNEL = "a kernel of the library's"
#: Its kernel in the standard's functions looks at the norm.
_LOOKS = "a kernel that looks at values"

for _lower in (False, True):
    add("scipy.solve_triangular", dominant(3, 3), real(3, 2), lower=_lower)
    add("scipy.solve_triangular", dominant(2, 3, 3), real(3, 1), lower=_lower, unit_diagonal=True)
    add("scipy.solve_triangular", dominant_complex(2, 2), cplx(2, 2), lower=_lower)
    add("scipy.solve_triangular", dominant(2, 2), cplx(2, 1), lower=_lower)
add("scipy.solve_banded", _raised(real(1, 4), 4.0), real(4, 2), l=0, u=0, beyond=_KERNEL)
add(
    "scipy.solve_banded",
    Data((3, 3), (0.0, 0.4, -0.3, 4.0, 3.0, 5.0, 0.2, 0.7, 0.0), "float64"),
    real(3, 1),
    l=1,
    u=1,
    beyond=_KERNEL,
)
add("scipy.lstsq", real(4, 2), real(4, 2), cond=1e-12)
add("scipy.lstsq", real(2, 4), real(2, 1), cond=1e-12)
add("scipy.lstsq", cplx(3, 2), cplx(3, 1), cond=1e-12)
for _shape in ((3, 3), (4, 2), (2, 4), (2, 2, 2)):
    add("scipy.lu", real(*_shape), beyond=_KERNEL)
add("scipy.lu", cplx(2, 2), beyond=_KERNEL)
add("scipy.expm", real(3, 3), beyond=_LOOKS)
add("scipy.expm", cplx(2, 2), beyond=_LOOKS)
add("scipy.expm", real(2, 2, 2), beyond=_LOOKS)
add("scipy.expm_frechet", real(2, 2), real(2, 2), beyond=_LOOKS)
add("scipy.expm_frechet", cplx(2, 2), cplx(2, 2), beyond=_LOOKS)
add("scipy.sqrtm", dominant(3, 3), beyond=_KERNEL)
add("scipy.sqrtm", dominant_complex(2, 2), beyond=_KERNEL)
# SciPy estimates norms with random vectors from NumPy's global generator (Higham and Tisseur, A block algorithm for
# matrix 1-norm estimation, 2000), and takes the roots and the degree of its approximation by them.
add("scipy.logm", dominant(2, 2), beyond=_KERNEL, draws=True)
add("scipy.logm", dominant_complex(2, 2), beyond=_KERNEL, draws=True)
add("scipy.solve_sylvester", dominant(3, 3), dominant(2, 2), real(3, 2), beyond=_KERNEL)
add("scipy.solve_sylvester", dominant_complex(2, 2), dominant_complex(2, 2), cplx(2, 2), beyond=_KERNEL)

for _first, _second in (((4,), (2,)), ((2,), (3,)), ((3, 3), (2, 1)), ((1,), (1,))):
    add("scipy.convolve_full", real(*_first), real(*_second))
add("scipy.convolve_full", cplx(3), real(2))
for _first, _second in (((4,), (2,)), ((3,), (3,)), ((3, 3), (2, 1))):
    add("scipy.correlate_valid", real(*_first), real(*_second))
add("scipy.correlate_valid", real(3), cplx(2))
for _signal in (real(5), real(2, 4)):
    add("scipy.fir", real(3), _signal)
    add("scipy.all_pole", Data((2,), (-0.4, 0.2), "float64"), _signal)
add("scipy.fir", cplx(2), cplx(4))
add("scipy.all_pole", Data((1,), (0.3 - 0.2j,), "complex128"), cplx(4))

#: A sparse matrix of 3 rows and 4 columns, one row of which is empty, and a square one that is not singular.
_WIDE = (integers(0, 2, 2, 5), integers(0, 2, 0, 1, 3))
_SQUARE = (integers(0, 2, 3, 5), integers(0, 2, 1, 0, 2))
for _draw in (real, cplx):
    add("scipy.sparse_matmul", _draw(5), _draw(4), *_WIDE, columns=4)
    add("scipy.sparse_matmul", _draw(5), _draw(3), *_WIDE, columns=4, transposed=True)
    add("scipy.sparse_matmul", _draw(5), real(4, 2), *_WIDE, columns=4)
    add("scipy.sparse_matmul", real(5), _draw(3, 2), *_WIDE, columns=4, transposed=True)
    add("scipy.sparse_added", _draw(5), _draw(3, 4), *_WIDE)
    add("scipy.sparse_sampled", _draw(3), _draw(4), *_WIDE)
    add("scipy.sparse_sampled", real(3, 2), _draw(4, 2), *_WIDE)
    for _transposed in (False, True):
        _values = _draw(5)
        _values = Data((5,), tuple(v + 3.0 * (i % 2 == 0) for i, v in enumerate(_values.values)), _values.dtype)
        add("scipy.sparse_solve", _values, _draw(3), *_SQUARE, transposed=_transposed, beyond=_KERNEL)
        add("scipy.sparse_solve", _values, real(3, 2), *_SQUARE, transposed=_transposed, beyond=_KERNEL)
