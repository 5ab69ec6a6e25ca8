"""Linear algebra functions of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agrad.core.declare import multilinear
from agrad.core.rule import is_complex, promote, unbroadcast
from agrad.ops.manipulation import matrix_transpose

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = ["matmul", "matrix_transpose", "outer", "tensordot", "vecdot"]


def adjoint(xp: Any, a: Any) -> Any:
    """The conjugate transpose of matrices."""
    a = xp.matrix_transpose(a)
    return xp.conj(a) if is_complex(xp, a) else a


def _conj(xp: Any, a: Any) -> Any:
    return xp.conj(a) if is_complex(xp, a) else a


def _mm(xp: Any, a: Any, b: Any) -> Any:
    return xp.matmul(*promote(xp, a, b))


def _matmul_by_first(xp: Any, g: Any, x2: Any, x1_spec: Any) -> Any:
    """Give g x2^H, with the axes that vectors lack put in."""
    if x2.ndim == 1:
        a, b = promote(xp, g, _conj(xp, x2))
        return xp.multiply(a if len(x1_spec.shape) == 1 else a[..., None], b)
    if len(x1_spec.shape) == 1:
        return _mm(xp, g[..., None, :], adjoint(xp, x2))[..., 0, :]
    return _mm(xp, g, adjoint(xp, x2))


def _matmul_by_second(xp: Any, g: Any, x1: Any, x2_spec: Any) -> Any:
    """x1^H g, with the axes that vectors lack put in."""
    if x1.ndim == 1:
        a, b = promote(xp, g, _conj(xp, x1))
        return xp.multiply(a, b) if len(x2_spec.shape) == 1 else xp.multiply(b[:, None], a[..., None, :])
    if len(x2_spec.shape) == 1:
        product = _mm(xp, adjoint(xp, x1), g[..., None])[..., 0]
        return product if product.ndim == 1 else xp.sum(product, axis=tuple(range(product.ndim - 1)))
    return _mm(xp, adjoint(xp, x1), g)


@multilinear(x1=_matmul_by_first, x2=_matmul_by_second)
def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Matrix product over the last two axes, the others broadcast; 1-d operands are vectors."""


def _contraction(axes: Any, rank1: int, rank2: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The contracted axes of both operands of tensordot, not negative."""
    if isinstance(axes, int):
        return tuple(range(rank1 - axes, rank1)), tuple(range(axes))
    first, second = ((a,) if isinstance(a, int) else a for a in axes)
    return tuple(a % rank1 for a in first), tuple(a % rank2 for a in second)


def _tensordot_adjoint(xp: Any, g: Any, other: Any, spec: Any, axes: Any, *, first: bool) -> Any:
    """Contract g with the other operand over its free axes, and put the axes back in order."""
    rank, rank_other = len(spec.shape), other.ndim
    pair = _contraction(axes, rank, rank_other) if first else _contraction(axes, rank_other, rank)[::-1]
    mine, theirs = pair
    free_mine = tuple(i for i in range(rank) if i not in mine)
    free_theirs = tuple(i for i in range(rank_other) if i not in theirs)
    g_axes = tuple(range(len(free_mine), g.ndim)) if first else tuple(range(len(free_theirs)))
    result = xp.tensordot(*promote(xp, g, _conj(xp, other)), axes=(g_axes, free_theirs))
    # the result has my free axes, then theirs that were contracted, in rising order
    rising = sorted(range(len(theirs)), key=lambda i: theirs[i])
    place = {axis: i for i, axis in enumerate(free_mine)}
    place |= {mine[i]: len(free_mine) + k for k, i in enumerate(rising)}
    return xp.permute_dims(result, tuple(place[i] for i in range(rank)))


@multilinear(
    x1=lambda xp, g, x2, x1_spec, axes: _tensordot_adjoint(xp, g, x2, x1_spec, axes, first=True),
    x2=lambda xp, g, x1, x2_spec, axes: _tensordot_adjoint(xp, g, x1, x2_spec, axes, first=False),
)
def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Contraction over axes."""


def _vecdot_adjoint(xp: Any, g: Any, other: Any, spec: Any, axis: int) -> Any:
    """Give g times the other operand. An axis is counted in each operand by itself, before the shorter is broadcast."""
    product = xp.multiply(*promote(xp, g[..., None], xp.moveaxis(other, axis, -1)))
    shape = list(spec.shape)
    shape.append(shape.pop(axis))
    return xp.moveaxis(unbroadcast(xp, product, tuple(shape)), -1, axis)


@multilinear(
    x1=lambda xp, g, x2, x1_spec, axis: _vecdot_adjoint(xp, _conj(xp, g), x2, x1_spec, axis),
    x2=lambda xp, g, x1, x2_spec, axis: _vecdot_adjoint(xp, g, x1, x2_spec, axis),
)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Dot product along an axis; `x1` is conjugated."""


@multilinear(
    name="linalg.outer",
    x1=lambda xp, g, x2: _mm(xp, g, _conj(xp, x2)),
    x2=lambda xp, g, x1: _mm(xp, xp.matrix_transpose(g), _conj(xp, x1)),
)
def outer(x1: Any, x2: Any, /) -> Tensor:
    """The products of all pairs of elements of two vectors."""
