"""NumPy's numerical analysis: differences, integrals, interpolation, convolution, covariance, polynomials."""

from __future__ import annotations

import math
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.numpy.common import NO_VALUE, axis_of, cast, common, flat, floating, floatings, given, native
from agrad.numpy.table import public
from agrad.ops import creation, elementwise, extra, linalg, manipulation, utility


@public()
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = NO_VALUE, append: Any = NO_VALUE) -> Tensor:
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}{errors.called()}")
    x = as_operand(a)
    if not x.ndim:
        raise ValueError(f"diff requires input that is at least one dimensional{errors.called()}")
    axis = axis_of(axis, x.ndim)
    ends = [_end(x, end, axis) if given(end) else None for end in (prepend, append)]
    known = iter(common(x, *(e for e in ends if e is not None)))
    x = next(known)
    first, last = (None if e is None else next(known) for e in ends)
    return utility.diff(x, axis=axis, n=n, prepend=first, append=last)


def _end(x: Tensor, value: Any, axis: int) -> Tensor:
    """What is put at an end of an axis: a number becomes one element."""
    end = as_operand(value, x)
    if end.ndim:
        return end
    return manipulation.broadcast_to(end, tuple(1 if i == axis else n for i, n in enumerate(x.shape)))


@public()
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    x = flat(as_operand(ary))
    head = [] if to_begin is None else [flat(as_operand(to_begin, x))]
    tail = [] if to_end is None else [flat(as_operand(to_end, x))]
    return manipulation.concat(list(common(*head, x[1:] - x[:-1], *tail)))


@public()
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    return extra.gradient(floating(f), *varargs, axis=axis, edge_order=edge_order)


@public()
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    values = floating(y)
    return extra.trapezoid(values, None if x is None else floating(x), dx=dx, axis=axis_of(axis, values.ndim))


@public()
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    return extra.interp(x, xp, fp, left=left, right=right, period=period)


@public()
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Tensor:
    return extra.unwrap(as_operand(p), discont=discont, axis=axis, period=period)


def _vectors(a: Any, v: Any) -> tuple[Tensor, Tensor]:
    x, y = (manipulation.reshape(t, (1,)) if not t.ndim else t for t in common(a, v))
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"object too deep for desired array{errors.called()}")
    return x, y


@public()
def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    return extra.convolve(*_vectors(a, v), _mode(mode))


@public()
def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    return extra.correlate(*_vectors(a, v), _mode(mode))


def _mode(mode: Any) -> str:
    names = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}
    return str(names.get(mode, mode))


@public()
def vander(x: Any, N: Any = None, increasing: bool = False) -> Tensor:
    return extra.vander(as_operand(x), N, increasing=increasing)


# -- between variables -------------------------------------------------------------------------------------------------


def _rows(x: Tensor) -> Tensor:
    return manipulation.reshape(x, (1,) * (2 - x.ndim) + x.shape)


def _observations(x: Any, y: Any, rowvar: bool, dtype: Any) -> Tensor:
    """Variables as rows."""
    m = floating(x)
    if m.ndim > 2:
        raise ValueError(f"m has more than 2 dimensions{errors.called()}")
    rows = _rows(m)
    rows = rows if rowvar or (m.ndim == 1) else linalg.matrix_transpose(rows)
    if not rowvar and m.ndim == 2 and m.shape[0] == 1:
        rows = m
    if y is not None:
        others = floating(y)
        if others.ndim > 2:
            raise ValueError(f"y has more than 2 dimensions{errors.called()}")
        others = _rows(others)
        others = others if rowvar or others.shape[0] == 1 else linalg.matrix_transpose(others)
        rows = manipulation.concat(list(common(rows, others)), axis=0)
    return cast(rows, native(dtype))


@public()
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Tensor:  # fmt: skip
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"ddof must be integer{errors.called()}")
    correction = (0 if bias else 1) if ddof is None else ddof
    return extra.cov(
        _observations(m, y, rowvar, dtype), correction=correction, fweights=fweights, aweights=aweights
    )  # fmt: skip


@public()
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    return extra.corrcoef(_observations(x, y, rowvar, dtype))


# -- polynomials, the highest power first ------------------------------------------------------------------------------


def _coefficients(p: Any) -> Tensor:
    x = as_operand(p)
    return manipulation.reshape(x, (-1,)) if x.ndim != 1 else x


@public()
def polyval(p: Any, x: Any) -> Tensor:
    return extra.polyval(*common(_coefficients(p), x))


def _aligned(a1: Any, a2: Any) -> tuple[Tensor, Tensor]:
    """Two polynomials of one length."""
    x, y = common(_coefficients(a1), _coefficients(a2))
    n = max(x.shape[0], y.shape[0])
    return tuple(  # type: ignore[return-value]
        manipulation.concat([creation.zeros((n - v.shape[0],), dtype=v.dtype, device=v.device), v]) for v in (x, y)
    )


@public()
def polyadd(a1: Any, a2: Any) -> Tensor:
    x, y = _aligned(a1, a2)
    return x + y


@public()
def polysub(a1: Any, a2: Any) -> Tensor:
    x, y = _aligned(a1, a2)
    return x - y


@public()
def polymul(a1: Any, a2: Any) -> Tensor:
    x, y = common(_coefficients(a1), _coefficients(a2))
    return extra.convolve(x, y)


@public()
def polyder(p: Any, m: int = 1) -> Tensor:
    if m < 0:
        raise ValueError(f"Order of derivative must be positive (see polyint){errors.called()}")
    x = _coefficients(p)
    for _ in range(m):
        n = x.shape[0] - 1
        powers = creation.arange(n, 0, -1, device=x.device)
        x = x[:n] * creation.asarray(powers, dtype=x.dtype)
    return x


@public()
def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    if m < 0:
        raise ValueError(f"Order of integral must be positive (see polyder){errors.called()}")
    x = floating(_coefficients(p))
    constants = [0.0] * m if k is None else k
    constants = flat(as_operand(constants, x))
    if constants.shape[0] == 1 and m > 1:
        constants = manipulation.broadcast_to(constants, (m,))
    if constants.shape[0] < m:
        raise ValueError(f"k must be a scalar or a rank-1 array of length 1 or >m.{errors.called()}")
    for i in range(m):
        n = x.shape[0]
        powers = creation.arange(n, 0, -1, device=x.device)
        x = manipulation.concat(list(common(x / creation.asarray(powers, dtype=x.dtype), constants[i : i + 1])))
    return x


@public()
def polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """By synthetic division; leading coefficients that are 0 are looked at."""
    x, y = floatings(_coefficients(u), _coefficients(v))
    x, y = common(x, y)
    m, n = x.shape[0] - 1, y.shape[0] - 1
    found = []
    for k in range(m - n + 1):
        step = x[k] / y[0]
        found.append(step)
        row = step * y
        x = manipulation.concat([x[:k], x[k : k + n + 1] - row, x[k + n + 1 :]])
    quotient = manipulation.stack(found) if found else creation.zeros((1,), dtype=x.dtype, device=x.device)
    values = x.detach().tolist()
    start = 0
    while start < len(values) - 1 and abs(values[start]) <= 1e-14:
        start += 1
    return quotient, x[start:]


@public()
def poly(seq_of_zeros: Any) -> Tensor:
    """Of a matrix, the characteristic polynomial."""
    from agrad.ops.eigenvalues import eigvals  # noqa: PLC0415

    x = floating(seq_of_zeros)
    square = x.ndim == 2 and x.shape[0] == x.shape[1] and x.shape[0] != 0
    if not square and x.ndim > 1:
        raise ValueError(f"input must be 1d or non-empty square 2d array.{errors.called()}")
    was_real = not x._spec.is_complex
    roots = eigvals(x) if square else manipulation.reshape(x, (-1,))
    found = creation.ones((1,), dtype=roots.dtype, device=roots.device)
    one = found
    for i in range(roots.shape[0]):
        found = extra.convolve(found, manipulation.concat([one, -roots[i : i + 1]]))
    return elementwise.real(found) if square and was_real and found._spec.is_complex else found


@public()
def roots(p: Any) -> Tensor:
    """The eigenvalues of the companion matrix; coefficients that are 0 are looked at."""
    from agrad.ops.eigenvalues import eigvals  # noqa: PLC0415

    x = floating(_coefficients(p))
    values = x.detach().tolist()
    there = [i for i, v in enumerate(values) if v != 0]
    if not there:
        return creation.zeros((0,), device=x.device)
    trailing = len(values) - there[-1] - 1
    x = x[there[0] : there[-1] + 1]
    n = x.shape[0] - 1
    found = creation.zeros((0,), dtype=x.dtype, device=x.device)
    if n:
        top = manipulation.expand_dims(-x[1:] / x[0], axis=0)
        below = creation.eye(n - 1, n, dtype=x.dtype, device=x.device)
        found = eigvals(manipulation.concat([top, below], axis=0))
    zeros = creation.zeros((trailing,), dtype=found.dtype, device=x.device)
    return manipulation.concat([found, zeros]) if trailing else found
