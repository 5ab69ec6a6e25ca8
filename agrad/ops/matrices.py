"""The vocabulary of matrix formulas, for the derivatives of linear algebra, on stacks of matrices."""

from __future__ import annotations

from typing import Any

from agrad.core.backend import item_of
from agrad.core.cotangents import beside, is_complex, promote
from agrad.core.mode import may_look


def conj(xp: Any, a: Any) -> Any:
    """The complex conjugate; a real array is returned unchanged."""
    return xp.conj(a) if is_complex(xp, a) else a


def adjoint(xp: Any, a: Any) -> Any:
    """The conjugate transpose of matrices."""
    return conj(xp, xp.matrix_transpose(a))


def mm(xp: Any, a: Any, *others: Any) -> Any:
    """The product of matrices, from left to right."""
    for b in others:
        a = xp.matmul(*promote(xp, a, b))
    return a


def eye(xp: Any, n: int, like: Any) -> Any:
    """An identity matrix with the real dtype and the device of an array."""
    dtype = like.dtype
    if is_complex(xp, like):
        dtype = xp.real(like).dtype
    return xp.eye(n, dtype=dtype, **beside(like))


def real(xp: Any, a: Any) -> Any:
    """The real part."""
    return xp.real(a) if is_complex(xp, a) else a


def hermitian(xp: Any, a: Any) -> Any:
    """The Hermitian part of matrices."""
    return (a + adjoint(xp, a)) / 2


def skew(xp: Any, a: Any) -> Any:
    """Twice the skew-Hermitian part of matrices."""
    return a - adjoint(xp, a)


def diag(xp: Any, a: Any) -> Any:
    """The main diagonal of square matrices."""
    return xp.linalg.diagonal(a)


def on_diagonal(xp: Any, d: Any) -> Any:
    """Diagonal matrices."""
    return d[..., None, :] * eye(xp, d.shape[-1], d)


def lower_half(xp: Any, a: Any) -> Any:
    """The lower triangle with half the diagonal: Phi of Murray (2016)."""
    return xp.tril(a) * (1 - eye(xp, a.shape[-1], a) / 2)


def over_gaps(xp: Any, a: Any, gaps: Any) -> Any:
    """``a / gaps`` off the diagonal, 0 on it. A gap of 0 gives inf or NaN: the derivative does not exist there."""
    one = eye(xp, a.shape[-1], gaps)
    return a / (gaps + one) * (1 - one)


def differences(values: Any) -> Any:
    """The matrix of ``values[j] - values[i]``."""
    return values[..., None, :] - values[..., :, None]


def defined(xp: Any, result: Any, wrong: Any, scale: Any, spec: Any, message: str) -> Any:
    """Return a cotangent if everything that must vanish for it to exist does; otherwise raise `message`.

    Parameters
    ----------
    result : array
        The cotangent, matrices.
    wrong : array
        Vanishes, up to rounding, if the loss does not depend on the arbitrary part of a decomposition.
    scale : array
        The matrices against which `wrong` must be small.
    spec : Spec
        If the values are lazy, or the call is recorded, no error can be raised: matrices without a derivative become
        NaN.
    """
    if 0 in wrong.shape or 0 in scale.shape:
        return result
    wrong, scale = xp.abs(wrong), xp.abs(scale)
    rounding = float(xp.finfo(wrong.dtype).eps) ** 0.5
    largest = xp.max(wrong, axis=(-2, -1), keepdims=True)
    bad = largest > rounding * (1 + 32 * xp.max(scale, axis=(-2, -1), keepdims=True))
    if not may_look(spec.backend):
        return xp.where(bad, xp.full_like(result, float("nan")), result)
    if item_of(xp.any(bad)):
        raise RuntimeError(message)
    return result


def regular(xp: Any, ends: Any, spec: Any, message: str) -> None:
    """Refuse to continue where one of `ends`, which are 0 for a singular matrix, is 0; `message` says what has no derivative.

    If the values are lazy, or the call is recorded, the library's own error, or its NaN, comes later.
    """
    if may_look(spec.backend) and item_of(xp.any(ends == 0)):
        raise RuntimeError(message)


def on_leading(xp: Any, q: Any, g: Any, k: int) -> Any:
    """Reduce the cotangent of all columns of a unitary matrix to its first `k`.

    The others are some basis of their orthogonal complement; it moves by ``dQ2 = -Q1 dQ1^H Q2`` and a rotation, which
    does not affect an invariant loss.
    """
    return g[..., :k] - mm(xp, q[..., k:], adjoint(xp, g[..., k:]), q[..., :k])


def rotation_of(xp: Any, q: Any, g: Any, k: int) -> Any:
    """Zero if a loss depends only on the span of the columns after the first `k`."""
    return skew(xp, mm(xp, adjoint(xp, q[..., k:]), g[..., k:]))
