"""Kernels of `agrad.scipy`: SciPy's, imported at the first use of one of them.

SciPy's functions of one matrix are mapped over stacks here; those of stacks are used directly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad import UnsupportedOp
from agrad.plugin.backend import OPS


def kernel(op: str) -> Callable[..., Any] | None:
    """Return the kernel of an operation of `agrad.scipy`, None if the standard's functions are as good."""
    make = _KERNELS.get(op.removeprefix("scipy."))
    if make is None:
        return None
    try:
        return make()
    except ImportError as error:
        return None if OPS[op].kernel is not None else _missing(op, error)


def _missing(op: str, error: ImportError) -> Callable[..., Any]:
    def missing(*args: Any, **kwargs: Any) -> Any:
        why = f"it needs SciPy, which cannot be imported ({error})"
        raise UnsupportedOp(op, "numpy", f"{why}; pip install scipy") from error

    return missing


def _over_stacks(function: Callable[..., Any], shape: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function of matrices, mapped over stacks of them, whose leading axes broadcast.

    Parameters
    ----------
    function : callable
        Takes matrices, returns one array or a tuple of them.
    shape : callable, optional
        Returns the shape of the result, given those of the matrices, for empty stacks.
    """

    def stacked(*arrays: Any, **parameters: Any) -> Any:
        if max(a.ndim for a in arrays) == 2:
            return function(*arrays, **parameters)
        lead = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
        arrays = tuple(np.broadcast_to(a, lead + a.shape[-2:]) for a in arrays)
        if not math.prod(lead):
            return np.empty(lead + (shape or _first)(*(a.shape[-2:] for a in arrays)), arrays[0].dtype)
        rows = [function(*(a[place] for a in arrays), **parameters) for place in np.ndindex(*lead)]
        if not isinstance(rows[0], tuple):
            return _together(rows, lead)
        return tuple(_together(list(column), lead) for column in zip(*rows, strict=True))

    return stacked


def _first(*shapes: Any) -> Any:
    return shapes[0]


def _second(*shapes: Any) -> Any:
    return shapes[1]


def _together(rows: list[Any], lead: tuple[int, ...]) -> Any:
    return np.stack(rows).reshape(lead + rows[0].shape)


def _solve_triangular() -> Callable[..., Any]:
    from scipy.linalg import get_lapack_funcs  # noqa: PLC0415 (most programs need none of it)

    routine = functools.cache(lambda dtype: get_lapack_funcs("trtrs", dtype=dtype))

    def solve(a: Any, b: Any, *, lower: bool, unit_diagonal: bool = False) -> Any:
        """Like SciPy's function, without its preprocessing, which takes longer than small equations."""
        dtype = np.result_type(a, b)
        if not b.size:
            return np.empty(b.shape, dtype)
        trtrs = routine(dtype if dtype != np.float16 else np.dtype(np.float32))
        if a.flags.f_contiguous:
            x, info = trtrs(a, b, lower=lower, unitdiag=unit_diagonal)
        else:  # as the transpose of a matrix in Fortran order
            x, info = trtrs(a.T, b, lower=not lower, trans=1, unitdiag=unit_diagonal)
        if info > 0:
            message = f"singular matrix: resolution failed at diagonal {info - 1}"
            raise np.linalg.LinAlgError(message)
        return x.astype(dtype, copy=False)

    return _over_stacks(solve, _second)


def _solve_banded() -> Callable[..., Any]:
    from scipy.linalg import solve_banded  # noqa: PLC0415 (as above)

    def solve(ab: Any, b: Any, *, l: int, u: int) -> Any:
        return solve_banded((l, u), ab, b, check_finite=False)

    return _over_stacks(solve, _second)


def _lstsq() -> Callable[..., Any]:
    from scipy.linalg import lstsq  # noqa: PLC0415 (as above)

    def solve(a: Any, b: Any, *, cond: float) -> Any:
        return lstsq(a, b, cond=cond, check_finite=False)[0]

    return _over_stacks(solve, lambda a, b: (a[1], b[1]))


def _lu() -> Callable[..., Any]:
    from scipy.linalg import lu  # noqa: PLC0415 (as above)

    return functools.partial(lu, check_finite=False)


def _expm() -> Callable[..., Any]:
    from scipy.linalg import expm  # noqa: PLC0415 (as above)

    return expm  # type: ignore[no-any-return]


def _expm_frechet() -> Callable[..., Any]:
    from scipy.linalg import expm_frechet  # noqa: PLC0415 (as above)

    def frechet(a: Any, e: Any) -> Any:
        return expm_frechet(a, e, compute_expm=False, check_finite=False).astype(np.result_type(a, e), copy=False)

    return _over_stacks(frechet)


def _sqrtm() -> Callable[..., Any]:
    from scipy.linalg import sqrtm  # noqa: PLC0415 (as above)

    return sqrtm  # type: ignore[no-any-return]


def _logm() -> Callable[..., Any]:
    from scipy.linalg import logm  # noqa: PLC0415 (as above)

    def logarithm(a: Any) -> Any:
        # in single precision it warns; and the last bits depend on the memory layout
        double = a.astype(np.result_type(a, np.float64), order="C", copy=False)
        found = logm(double)
        return found.astype(np.result_type(a, 1j) if found.dtype.kind == "c" else a.dtype, copy=False)

    return _over_stacks(logarithm)


def _solve_sylvester() -> Callable[..., Any]:
    from scipy.linalg import get_lapack_funcs, schur  # noqa: PLC0415 (as above)

    def solve(a: Any, b: Any, q: Any) -> Any:
        """As SciPy's, by Bartels and Stewart's method; but equations without one solution are an error."""
        dtype = np.result_type(a, b, q)
        kind = "complex" if dtype.kind == "c" else "real"
        r, u = schur(a, output=kind, check_finite=False)
        s, v = schur(b.conj().T, output=kind, check_finite=False)
        f = u.conj().T @ q @ v
        (trsyl,) = get_lapack_funcs(("trsyl",), (r, s, f))
        y, scale, info = trsyl(r, s, f, tranb="C")
        if info:
            message = "Sylvester's equation is singular: an eigenvalue of a is the negative of one of b"
            raise np.linalg.LinAlgError(message)
        return (u @ (scale * y) @ v.conj().T).astype(dtype, copy=False)

    return _over_stacks(solve, lambda _a, _b, q: q)


def _correlate(x: Any, weights: Any) -> Any:
    return np.correlate(x, weights.conj() if weights.dtype.kind == "c" else weights)


def _sums_of_products(op: str, of_vectors: Callable[..., Any], by_rows: Callable[..., Any]) -> Callable[..., Any]:
    """Return NumPy's function for vectors; for more axes, products of matrices by BLAS, or sums of shifted parts."""
    general: Any = OPS[f"scipy.{op}"].kernel

    def kernel(x1: Any, x2: Any) -> Any:
        if x1.ndim == 1:
            return of_vectors(x1, x2)
        dtype = np.result_type(x1, x2)
        if dtype.char not in "fdFD" or 1 in (x1.shape[-1], x2.shape[-1]):
            return general(np, x1, x2)
        return by_rows(x1.astype(dtype, copy=False), x2.astype(dtype, copy=False))

    return kernel


def _full_by_rows(x1: Any, x2: Any) -> Any:
    if x1.size < x2.size:
        x1, x2 = x2, x1
    around = [n - 1 for n in x2.shape]
    padded = np.zeros([n + 2 * m for n, m in zip(x1.shape, around, strict=True)], x1.dtype)
    padded[_window(around, x1.shape)] = x1
    return _valid_by_rows(padded, np.flip(x2))


#: The largest number of elements in the rows of one step, so that they stay in the cache.
_ROOM = 1 << 15


def _valid_by_rows(x: Any, weights: Any) -> Any:
    """Multiply all rows by all rows of the weights at once, for each shift along the last axis, then add the other shifts."""
    found = np.zeros([n - m + 1 for n, m in zip(x.shape, weights.shape, strict=True)], x.dtype)
    is_sum = found.size < weights.size  # few long products
    long, short = (weights, found) if is_sum else (found, weights)
    short_rows = np.ascontiguousarray(short).reshape(-1, short.shape[-1])
    places = list(np.ndindex(*short.shape[:-1]))
    of_one = short.shape[-1] * math.prod(x.shape[1:-1]) * long.shape[-1]
    step = max(4 * short.shape[0], _ROOM // of_one)
    for first in range(0, long.shape[0], step):
        part = long[first : first + step]
        rows = _shifted(x[first : first + part.shape[0] + short.shape[0] - 1], part.shape[-1])
        if is_sum:
            flat = part.reshape(-1)
            for place in places:
                window = rows[(slice(None), *_window(place, part.shape))]
                found[place] += window.reshape(len(rows), -1) @ flat
        else:
            sums = (short_rows @ rows.reshape(len(rows), -1)).reshape(len(places), *rows.shape[1:])
            for place, sum_of_rows in zip(places, sums, strict=True):
                part += sum_of_rows[_window(place, part.shape)]
    return found


def _window(place: Any, shape: Any) -> tuple[slice, ...]:
    """Return the index of a part that begins at a position; further axes of the shape are taken whole."""
    return tuple(slice(i, i + n) for i, n in zip(place, shape, strict=False))


def _shifted(x: Any, n: int) -> Any:
    """Return windows of `n` elements along the last axis, from every position: the first axis is the position."""
    made = np.empty((x.shape[-1] - n + 1, *x.shape[:-1], n), x.dtype)
    for i, row in enumerate(made):
        row[...] = x[..., i : i + n]
    return made


def _fir() -> Callable[..., Any]:
    from scipy.signal import lfilter  # noqa: PLC0415 (as above)

    return lambda b, x: lfilter(b, np.ones(1, b.dtype), x)


def _all_pole() -> Callable[..., Any]:
    from scipy.signal import lfilter  # noqa: PLC0415 (as above)

    def filtered(a: Any, x: Any) -> Any:
        one = np.ones(1, a.dtype)
        return lfilter(one, np.concatenate([one, a]), x)

    return filtered


def _sparse(name: str) -> Callable[..., Any]:
    from agrad_numpy import sparse_kernels  # noqa: PLC0415 (as above)

    found: Callable[..., Any] = getattr(sparse_kernels, name)
    return found


#: The constructor of each kernel.
_KERNELS: dict[str, Callable[[], Callable[..., Any]]] = {
    "all_pole": _all_pole,
    "convolve_full": lambda: _sums_of_products("convolve_full", np.convolve, _full_by_rows),
    "correlate_valid": lambda: _sums_of_products("correlate_valid", _correlate, _valid_by_rows),
    "expm": _expm,
    "expm_frechet": _expm_frechet,
    "fir": _fir,
    "logm": _logm,
    "lstsq": _lstsq,
    "lu": _lu,
    "solve_banded": _solve_banded,
    "solve_sylvester": _solve_sylvester,
    "solve_triangular": _solve_triangular,
    "sparse_added": functools.partial(_sparse, "added"),
    "sparse_matmul": functools.partial(_sparse, "matmul"),
    "sparse_sampled": functools.partial(_sparse, "sampled"),
    "sparse_solve": functools.partial(_sparse, "solve"),
    "sqrtm": _sqrtm,
}
