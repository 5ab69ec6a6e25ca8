"""Ops of linear algebra beyond the standard: triangular and banded equations, least squares, LU, functions of matrices.

They take matrices, or stacks of them, of one dtype. `agrad.scipy.linalg` exposes them with SciPy's signatures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agrad.core.backend import item_of
from agrad.core.cotangents import promote
from agrad.core.declare import custom
from agrad.core.facts import Facts
from agrad.ops.batch_rules import matrices, stacks
from agrad.ops.manipulation import broadcast_shapes
from agrad.ops.matrices import adjoint, conj, eye, mm

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "expm", "expm_frechet", "logm", "lstsq", "lu", "solve_banded", "solve_sylvester", "solve_triangular", "sqrtm",
]  # fmt: skip


# -- triangular equations ----------------------------------------------------------------------------------------------


def _triangle(xp: Any, a: Any, *, lower: bool, unit_diagonal: bool) -> Any:
    """Return the part of a matrix that a triangular solution depends on, zeros elsewhere."""
    return xp.tril(a, k=-1 if unit_diagonal else 0) if lower else xp.triu(a, k=1 if unit_diagonal else 0)


def _solve_triangular_kernel(xp: Any, a: Any, b: Any, /, *, lower: bool, unit_diagonal: bool = False) -> Any:
    a = _triangle(xp, a, lower=lower, unit_diagonal=unit_diagonal)
    return xp.linalg.solve(*promote(xp, a + eye(xp, a.shape[-1], a) if unit_diagonal else a, b))


def _triangular_adjoint(xp: Any, g: Any, a: Any, lower: bool, unit_diagonal: bool) -> Any:
    return xp.scipy.solve_triangular(adjoint(xp, a), g, lower=not lower, unit_diagonal=unit_diagonal)


def _triangular_by_matrix(xp: Any, g: Any, ans: Any, a: Any, lower: bool, unit_diagonal: bool) -> Any:
    back = _triangular_adjoint(xp, -g, a, lower, unit_diagonal)
    return _triangle(xp, mm(xp, back, adjoint(xp, ans)), lower=lower, unit_diagonal=unit_diagonal)


def _triangular_jvp(xp: Any, t_a: Any, t_b: Any, ans: Any, a: Any, lower: bool, unit_diagonal: bool) -> Any:
    change = t_b
    if t_a is not None:
        moved = mm(xp, _triangle(xp, t_a, lower=lower, unit_diagonal=unit_diagonal), ans)
        change = -moved if change is None else change - moved
    return xp.scipy.solve_triangular(a, change, lower=lower, unit_diagonal=unit_diagonal)


@custom(
    name="scipy.solve_triangular",
    vjp={
        "a": _triangular_by_matrix,
        "b": lambda xp, g, a, lower, unit_diagonal: _triangular_adjoint(xp, g, a, lower, unit_diagonal),
    },
    jvp=_triangular_jvp,
    kernel=_solve_triangular_kernel,
    source="Giles, An extended collection of matrix derivative results, 2008, section 2.3.1",
    batch=stacks,
    memory="fresh",
    facts=Facts(needs=("linalg",), sparsity="matrices"),
)
def solve_triangular(a: Any, b: Any, /, *, lower: bool, unit_diagonal: bool = False) -> Tensor:
    """The solution `x` of ``a x = b`` for triangular `a` (..., M, M) and `b` (..., M, K); one triangle is read."""


# -- banded equations --------------------------------------------------------------------------------------------------


def _along_columns(xp: Any, v: Any, d: int) -> Any:
    """Return rows shifted up by `d` (down, if it is negative), with zeros in their former positions."""
    size = v.shape[-2]
    moved = min(abs(d), size)
    none = xp.zeros_like(v[..., :moved, :])
    parts = [v[..., moved:, :], none] if d > 0 else [none, v[..., : size - moved, :]]
    return xp.concat(parts, axis=-2) if moved else v


def _banded_adjoint(xp: Any, ab: Any, l: int, u: int) -> Any:
    """Return the conjugate transpose of banded matrices, in their storage: of `u` diagonals below the main one, `l` above."""
    columns = xp.matrix_transpose(ab)
    rows = [_along_columns(xp, columns[..., u - d : u - d + 1], d) for d in range(-l, u + 1)]
    return conj(xp, xp.matrix_transpose(xp.concat(rows, axis=-1)))


def _banded_by_matrix(xp: Any, g: Any, ans: Any, ab: Any, l: int, u: int) -> Any:
    back = xp.scipy.solve_banded(_banded_adjoint(xp, ab, l, u), -g, l=u, u=l)
    ansh = conj(xp, ans)
    rows = [xp.sum(_along_columns(xp, back, d) * ansh, axis=-1, keepdims=True) for d in range(-u, l + 1)]
    return xp.matrix_transpose(xp.concat(rows, axis=-1))


def _banded_product(xp: Any, ab: Any, x: Any, l: int, u: int) -> Any:
    columns = xp.matrix_transpose(ab)
    terms = [_along_columns(xp, columns[..., u + d : u + d + 1] * x, -d) for d in range(-u, l + 1)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _banded_jvp(xp: Any, t_ab: Any, t_b: Any, ans: Any, ab: Any, l: int, u: int) -> Any:
    change = t_b
    if t_ab is not None:
        moved = _banded_product(xp, t_ab, ans, l, u)
        change = -moved if change is None else change - moved
    return xp.scipy.solve_banded(ab, change, l=l, u=u)


@custom(
    name="scipy.solve_banded",
    vjp={
        "ab": _banded_by_matrix,
        "b": lambda xp, g, ab, l, u: xp.scipy.solve_banded(_banded_adjoint(xp, ab, l, u), g, l=u, u=l),
    },
    jvp=_banded_jvp,
    source="Giles, 2008, section 2.3.1, for the elements within the bands",
    batch=stacks,
    memory="fresh",
    facts=Facts(needs=("linalg",), sparsity="matrices"),
)
def solve_banded(ab: Any, b: Any, /, *, l: int, u: int) -> Tensor:
    """The solution `x` of ``a x = b`` for banded `a`: ``ab[..., u + i - j, j] == a[..., i, j]``; `b` is (..., M, K)."""


# -- least squares -----------------------------------------------------------------------------------------------------


def _lstsq_kernel(xp: Any, a: Any, b: Any, /, *, cond: float) -> Any:
    return mm(xp, xp.linalg.pinv(a, rtol=cond), b)


def _lstsq_by_matrix(xp: Any, g: Any, ans: Any, a: Any, b: Any, cond: float) -> Any:
    p = xp.linalg.pinv(a, rtol=cond)
    ph, xh = adjoint(xp, p), adjoint(xp, ans)
    back = mm(xp, ph, g)
    rest = b - mm(xp, a, ans)
    outside = g - mm(xp, adjoint(xp, a), back)
    return mm(xp, rest, adjoint(xp, mm(xp, p, back))) - mm(xp, back, xh) + mm(xp, mm(xp, ph, ans), adjoint(xp, outside))


def _lstsq_jvp(xp: Any, t_a: Any, t_b: Any, ans: Any, a: Any, b: Any, cond: float) -> Any:
    p = xp.linalg.pinv(a, rtol=cond)
    change = t_b
    if t_a is None:
        return mm(xp, p, change)
    moved = mm(xp, t_a, ans)
    change = -moved if change is None else change - moved
    ph, th = adjoint(xp, p), adjoint(xp, t_a)
    turned = mm(xp, th, mm(xp, ph, ans))
    found = mm(xp, p, change) + mm(xp, p, mm(xp, ph, mm(xp, th, b - mm(xp, a, ans))))
    return found + turned - mm(xp, p, mm(xp, a, turned))


@custom(
    name="scipy.lstsq",
    vjp={
        "a": _lstsq_by_matrix,
        "b": lambda xp, g, a, cond: mm(xp, adjoint(xp, xp.linalg.pinv(a, rtol=cond)), g),
    },
    jvp=_lstsq_jvp,
    kernel=_lstsq_kernel,
    source="Golub and Pereyra, The differentiation of pseudo-inverses, 1973, eq. 4.12",
    batch=stacks,
    memory="fresh",
    facts=Facts(needs=("linalg",), sparsity="matrices"),
)
def lstsq(a: Any, b: Any, /, *, cond: float) -> Tensor:
    """The shortest `x` with the least ``|b - a x|``, for `a` (..., M, N) and `b` (..., M, K)."""


# -- LU ----------------------------------------------------------------------------------------------------------------


def _corner(xp: Any, l: Any, u: Any) -> tuple[int, Any, Any]:
    """Return the largest possible rank, and the square parts of both factors."""
    k = l.shape[-1]
    return k, l[..., :k, :], u[..., :, :k]


def _left(xp: Any, l: Any, b: Any, *, back: bool = False) -> Any:
    """Return ``l^-1 b``, or ``l^-H b``."""
    return xp.scipy.solve_triangular(adjoint(xp, l) if back else l, b, lower=not back, unit_diagonal=True)


def _right(xp: Any, b: Any, u: Any, *, back: bool = False) -> Any:
    """Return ``b u^-1``, or ``b u^-H``."""
    turned = xp.scipy.solve_triangular(u if back else adjoint(xp, u), adjoint(xp, b), lower=not back)
    return adjoint(xp, turned)


def _lu_vjp(xp: Any, g: Any, ans: Any, a_spec: Any) -> Any:
    p, l, u = ans
    _, g_l, g_u = g
    k, l1, u1 = _corner(xp, l, u)
    m, n = a_spec.shape[-2:]
    g_l = xp.zeros_like(l) if g_l is None else g_l
    g_u = xp.zeros_like(u) if g_u is None else g_u
    inner = None
    if m > k:
        below = _right(xp, g_l[..., k:, :], u1, back=True)
        g_u = g_u - mm(xp, adjoint(xp, l[..., k:, :]), below)
    elif n > k:
        beside = _left(xp, l1, g_u[..., :, k:], back=True)
        g_l = g_l - mm(xp, beside, adjoint(xp, u[..., :, k:]))
    lower = mm(xp, adjoint(xp, l1), g_l[..., :k, :])
    upper = mm(xp, g_u[..., :, :k], adjoint(xp, u1))
    inner = _right(xp, _left(xp, l1, xp.tril(lower, k=-1) + xp.triu(upper), back=True), u1, back=True)
    if m > k:
        inner = xp.concat([inner, below], axis=-2)
    elif n > k:
        inner = xp.concat([inner, beside], axis=-1)
    return mm(xp, p, inner)


def _lu_jvp(xp: Any, t_a: Any, ans: Any) -> tuple[Any, Any, Any]:
    p, l, u = ans
    k, l1, u1 = _corner(xp, l, u)
    t = mm(xp, xp.matrix_transpose(p), t_a)
    inner = _right(xp, _left(xp, l1, t[..., :k, :k]), u1)
    t_l, t_u = mm(xp, l1, xp.tril(inner, k=-1)), mm(xp, xp.triu(inner), u1)
    if t.shape[-2] > k:
        t_l = xp.concat([t_l, _right(xp, t[..., k:, :] - mm(xp, l[..., k:, :], t_u), u1)], axis=-2)
    elif t.shape[-1] > k:
        t_u = xp.concat([t_u, _left(xp, l1, t[..., :, k:] - mm(xp, t_l, u[..., :, k:]))], axis=-1)
    return xp.zeros_like(p), t_l, t_u


@custom(
    name="scipy.lu",
    outputs=3,
    vjp={"a": _lu_vjp},
    jvp=_lu_jvp,
    source="de Hoog, Anderssen and Lukas, Differentiation of matrix functionals using triangular factorization, 2011",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg",), sparsity="matrices"),
)
def lu(a: Any, /) -> tuple[Tensor, Tensor, Tensor]:
    """The factors `p`, a permutation, `l` and `u` of ``a = p l u``; `a` is (..., M, N), its leading columns independent."""


# -- the exponential ---------------------------------------------------------------------------------------------------


def _blocks(xp: Any, a: Any, b: Any, c: Any = None) -> Any:
    """Return ``[[a, b], [0, a]]``, or with `c` below at the right."""
    a, b = promote(xp, a, b)
    c = a if c is None else promote(xp, c, a)[0]
    shape = broadcast_shapes(a.shape, b.shape, c.shape)  # in a batch only some may have its axis
    a, b, c = (xp.broadcast_to(part, shape) for part in (a, b, c))
    top = xp.concat([a, b], axis=-1)
    return xp.concat([top, xp.concat([xp.zeros_like(a), c], axis=-1)], axis=-2)


def _beside(blocks: Any) -> Any:
    """Return the top right block."""
    n = blocks.shape[-1] // 2
    return blocks[..., :n, n:]


def _largest_sum(xp: Any, a: Any) -> float:
    return float(item_of(xp.max(xp.sum(xp.abs(a), axis=-2)))) if math.prod(a.shape) else 0.0


#: The coefficients of the Padé approximant of degree 13, and the norm up to which it is accurate to 2**-53.
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
    670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_NORM = 5.371920351148152


def _expm_kernel(xp: Any, a: Any, /) -> Any:
    """Scale, approximate, square: Higham, The scaling and squaring method for the matrix exponential revisited, 2005."""
    size = _largest_sum(xp, a)
    if not math.isfinite(size):
        return a * math.nan
    squarings = max(0, math.ceil(math.log2(size / _NORM))) if size else 0
    a = a * 0.5**squarings
    a2 = xp.matmul(a, a)
    a4 = xp.matmul(a2, a2)
    a6 = xp.matmul(a4, a2)
    one = xp.astype(eye(xp, a.shape[-1], a), a.dtype)
    c = _PADE
    odd = xp.matmul(a6, a6 * c[13] + a4 * c[11] + a2 * c[9]) + a6 * c[7] + a4 * c[5] + a2 * c[3] + one * c[1]
    odd = xp.matmul(a, odd)
    even = xp.matmul(a6, a6 * c[12] + a4 * c[10] + a2 * c[8]) + a6 * c[6] + a4 * c[4] + a2 * c[2] + one * c[0]
    found = xp.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        found = xp.matmul(found, found)
    return found


@custom(
    name="scipy.expm",
    vjp={"a": lambda xp, g, a: xp.scipy.expm_frechet(*promote(xp, adjoint(xp, a), g))},
    jvp=lambda xp, t_a, a: xp.scipy.expm_frechet(*promote(xp, a, t_a)),
    kernel=_expm_kernel,
    source="Al-Mohy and Higham, Computing the Frechet derivative of the matrix exponential, 2009",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg",), sparsity="matrices"),
)
def expm(a: Any, /) -> Tensor:
    """The exponential of square matrices."""


def _expm_frechet_kernel(xp: Any, a: Any, e: Any, /) -> Any:
    """Computed by the exponential of block matrices; it is linear in `e`, which is scaled to the size of `a`."""
    scale = _largest_sum(xp, e)
    if not scale or not math.isfinite(scale):
        return e * xp.zeros_like(a)
    scale = (_largest_sum(xp, a) or 1.0) / scale
    return _beside(xp.scipy.expm(_blocks(xp, a, e * scale))) / scale


def _expm_second(xp: Any, a: Any, e: Any, t: Any) -> Any:
    """Return the second derivative of the exponential along two directions: that of the blocks along ``[[t, 0], [0, t]]``."""
    return _beside(xp.scipy.expm_frechet(*promote(xp, _blocks(xp, a, e), _blocks(xp, t, xp.zeros_like(t)))))


def _frechet_jvp(xp: Any, t_a: Any, t_e: Any, a: Any, e: Any) -> Any:
    first = None if t_e is None else xp.scipy.expm_frechet(*promote(xp, a, t_e))
    if t_a is None:
        return first
    second = _expm_second(xp, a, e, t_a)
    return second if first is None else first + second


@custom(
    name="scipy.expm_frechet",
    vjp={
        "a": lambda xp, g, a, e: _expm_second(xp, adjoint(xp, a), adjoint(xp, e), g),
        "e": lambda xp, g, a: xp.scipy.expm_frechet(*promote(xp, adjoint(xp, a), g)),
    },
    jvp=_frechet_jvp,
    kernel=_expm_frechet_kernel,
    source="Mathias, A chain rule for matrix functions and applications, 1996",
    batch=stacks,
    memory="fresh",
    facts=Facts(needs=("linalg",), sparsity="matrices"),
)
def expm_frechet(a: Any, e: Any, /) -> Tensor:
    """The derivative of the exponential of `a` along `e`."""


# -- square root and logarithm -----------------------------------------------------------------------------------------


def _sqrtm_along(xp: Any, root: Any, t: Any) -> Any:
    """Return the solution `y` of ``root y + y root = t``."""
    root, t = promote(xp, root, t)
    return xp.scipy.solve_sylvester(root, root, t)


@custom(
    name="scipy.sqrtm",
    vjp={"a": lambda xp, g, ans: _sqrtm_along(xp, adjoint(xp, ans), g)},
    jvp=lambda xp, t_a, ans: _sqrtm_along(xp, ans, t_a),
    source="Higham, Functions of matrices, 2008, section 6.1",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("complex linalg",), sparsity="matrices"),
)
def sqrtm(a: Any, /) -> Tensor:
    """The principal square root of square matrices; complex where a real matrix has no real one."""


def _logm_along(xp: Any, a: Any, t: Any) -> Any:
    """Return the derivative along `t`: NaN for a singular matrix, for whose logarithm SciPy returns some number."""
    found = _beside(xp.scipy.logm(_blocks(xp, a, t)))
    singular = xp.linalg.slogdet(a)[0][..., None, None] == 0
    return xp.where(singular, found * math.nan, found)


@custom(
    name="scipy.logm",
    vjp={"a": lambda xp, g, a: _logm_along(xp, adjoint(xp, a), g)},
    jvp=lambda xp, t_a, a: _logm_along(xp, a, t_a),
    source="Mathias, A chain rule for matrix functions and applications, 1996",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("complex linalg",), sparsity="matrices"),
)
def logm(a: Any, /) -> Tensor:
    """The principal logarithm of square matrices; complex where a real matrix has no real one."""


# -- Sylvester's equation ----------------------------------------------------------------------------------------------


def _sylvester_back(xp: Any, g: Any, a: Any, b: Any) -> Any:
    return xp.scipy.solve_sylvester(adjoint(xp, a), adjoint(xp, b), g)


def _sylvester_jvp(xp: Any, t_a: Any, t_b: Any, t_q: Any, ans: Any, a: Any, b: Any) -> Any:
    change = xp.zeros_like(ans) if t_q is None else t_q
    if t_a is not None:
        change = change - mm(xp, t_a, ans)
    if t_b is not None:
        change = change - mm(xp, ans, t_b)
    return xp.scipy.solve_sylvester(a, b, change)


@custom(
    name="scipy.solve_sylvester",
    vjp={
        "a": lambda xp, g, ans, a, b: mm(xp, _sylvester_back(xp, -g, a, b), adjoint(xp, ans)),
        "b": lambda xp, g, ans, a, b: mm(xp, adjoint(xp, ans), _sylvester_back(xp, -g, a, b)),
        "q": lambda xp, g, a, b: _sylvester_back(xp, g, a, b),
    },
    jvp=_sylvester_jvp,
    source="Kao and Hennequin, Automatic differentiation of Sylvester, Lyapunov and algebraic Riccati equations, 2020",
    batch=stacks,
    memory="fresh",
    facts=Facts(needs=("linalg",), sparsity="matrices"),
)
def solve_sylvester(a: Any, b: Any, q: Any, /) -> Tensor:
    """The solution `x` of ``a x + x b = q``, for `a` (..., M, M), `b` (..., N, N) and `q` (..., M, N)."""
