"""Equations, inverses, powers and determinants of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from agrad.core.cotangents import beside, is_complex, promote
from agrad.core.declare import custom, nondifferentiable
from agrad.core.facts import Facts
from agrad.ops.batch_rules import BatchedCall, matrices
from agrad.ops.docs import complete
from agrad.ops.matrices import adjoint, conj, diag, mm, on_diagonal

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = ["det", "inv", "matrix_power", "matrix_rank", "pinv", "slogdet", "solve"]


# -- solving ----------------------------------------------------------------------------------------------------------


def _solve(xp: Any, a: Any, b: Any, *, vectors: bool) -> Any:
    """Solve for matrices, or for a vector per matrix."""
    a, b = promote(xp, a, b)
    return xp.linalg.solve(a, b[..., None])[..., 0] if vectors else xp.linalg.solve(a, b)


def _solve_by_first(xp: Any, g: Any, ans: Any, x1: Any, x2_spec: Any) -> Any:
    """Return -x1^-H g ans^H."""
    vectors = len(x2_spec.shape) == 1
    g = _solve(xp, adjoint(xp, x1), g, vectors=vectors)
    return -(g[..., :, None] * conj(xp, ans)[..., None, :] if vectors else mm(xp, g, adjoint(xp, ans)))


def _solve_by_second(xp: Any, g: Any, x1: Any, x2_spec: Any) -> Any:
    return _solve(xp, adjoint(xp, x1), g, vectors=len(x2_spec.shape) == 1)


def _solve_jvp(xp: Any, t_x1: Any, t_x2: Any, ans: Any, x1: Any, x2_spec: Any) -> Any:
    """Return x1^-1 (t_x2 - t_x1 ans)."""
    vectors = len(x2_spec.shape) == 1
    change = t_x2
    if t_x1 is not None:
        moved = mm(xp, t_x1, ans[..., None])[..., 0] if vectors else mm(xp, t_x1, ans)
        change = -moved if change is None else change - moved
    return _solve(xp, x1, change, vectors=vectors and change.ndim > 1)


def _solve_batch(b: BatchedCall, x1: Any, x2: Any, /) -> Any:
    if x1.ndim < 2:
        raise ValueError(f"linalg.solve takes a matrix or a stack of them, not an array of shape {x1.shape}")
    vector = x2.ndim == 1
    if vector and not b.has(x2):
        x2 = b.xp.expand_dims(x2, axis=-1)
    right = b.xp.expand_dims(x2.data, axis=-1) if vector and b.has(x2) else x2.data if b.has(x2) else x2
    rank = max(x1.ndim, x2.ndim, 2)
    left = b.raised(x1.data, rank) if b.has(x1) else x1
    if b.has(x2):
        right = b.raised(right, rank)
    found = b.kernel(left, right)
    return b.xp.squeeze(found, axis=-1) if vector else found


@custom(
    name="linalg.solve",
    vjp={"x1": _solve_by_first, "x2": _solve_by_second},
    jvp=_solve_jvp,
    source="Giles, An extended collection of matrix derivative results, 2008, section 2.3.1",
    batch=_solve_batch,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def solve(x1: Any, x2: Any, /) -> Tensor:
    """The solution `y` of ``x1 y = x2``.

    x1 : Tensor or array
        Floating-point, shape (..., M, M), invertible.
    x2 : Tensor or array
        Floating-point, shape (..., M, K), the leading axes broadcast against those of `x1`; or (M,), one vector for
        every matrix.
    Returns: Shape (..., M, K) or (..., M).
    numpy.linalg.LinAlgError:
        On NumPy, if a matrix is exactly singular; other backends have their own error or give infinities.
    Derivative: ``g2 = solve(x1^H, g)`` by `x2`, ``-g2 y^H`` by `x1`.
    Source: array API 2025.12, linear algebra; Giles, An extended collection of matrix derivative results, 2008.

    >>> a, b = ag.tensor([[2.0, 0.0], [0.0, 4.0]]), ag.tensor([2.0, 4.0], requires_grad=True)
    >>> ag.linalg.solve(a, b).detach(), ag.grad(ag.linalg.solve(a, b).sum(), b)[0]
    (tensor([1., 1.]), tensor([0.5000, 0.2500]))
    """


@custom(
    name="linalg.inv",
    vjp={"x": lambda xp, g, ans: -mm(xp, adjoint(xp, ans), g, adjoint(xp, ans))},
    jvp=lambda xp, t_x, ans: -mm(xp, ans, t_x, ans),
    source="Giles, An extended collection of matrix derivative results, 2008, section 2.2.3",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def inv(x: Any, /) -> Tensor:
    """The inverse of square matrices.

    x: Floating-point, real or complex, shape (..., M, M), invertible.
    Returns: Of the shape and dtype of `x`. To solve equations use `solve`: it is faster and more accurate.
    numpy.linalg.LinAlgError:
        On NumPy, if a matrix is exactly singular; other backends have their own error or give infinities.
    Derivative: ``-y^H g y^H``.
    Source: array API 2025.12, linear algebra; Giles, 2008.

    >>> x = ag.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    >>> y = ag.linalg.inv(x)
    >>> y.detach()
    tensor([[ 0.6000, -0.2000],
            [-0.2000,  0.4000]])
    >>> ag.grad(y[0, 0], x)[0]
    tensor([[-0.3600,  0.1200],
            [ 0.1200, -0.0400]])
    """


#: Singular values below this fraction of the largest are as good as 0 where the pseudo-inverse treats them as 0.
_NEGLIGIBLE = 1e-8


def _cuts(rtol: Any) -> bool:
    """Return whether a pseudo-inverse may leave out singular values that are not 0."""
    return rtol is not None and not (isinstance(rtol, int | float) and rtol <= _NEGLIGIBLE)


def _cut_pinv_jvp(xp: Any, t: Any, x: Any, rtol: Any) -> Any:
    """Return the conjugate transpose of the tangent of a pseudo-inverse that drops singular values; self-adjoint.

    ``P^H = U f(S) V^H`` with ``f(s) = 1 / s`` or 0. In the bases of U and V each element of the tangent is combined
    with its mirror image, with weights that are differences of f over those of s; the gap between kept and dropped
    values is never 0.
    """
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    v, uh = adjoint(xp, vh), adjoint(xp, u)
    bound = xp.asarray(rtol, dtype=s.dtype, **beside(s)) * xp.max(s, axis=-1)
    kept = s > bound[..., None]
    safe = xp.where(kept, s, 1.0)
    inverse = xp.where(kept, 1 / safe, 0.0)
    row, column = inverse[..., :, None], inverse[..., None, :]
    one = kept[..., :, None] != kept[..., None, :]  # kept on one side only
    gap = xp.where(one, xp.abs(xp.square(s[..., :, None]) - xp.square(s[..., None, :])), 1.0)
    same = xp.where(one, 1 / gap, 0.0)
    mirrored = xp.where(one, (row * s[..., None, :] + column * s[..., :, None]) / gap, -row * column)
    part = mm(xp, uh, t, v)
    found = mm(xp, u, same * part + mirrored * adjoint(xp, part), vh)
    squares = xp.square(inverse)
    rows, columns = mm(xp, t, v), mm(xp, uh, t)
    rows = rows - mm(xp, u, mm(xp, uh, rows))
    columns = columns - mm(xp, mm(xp, columns, v), vh)
    return found + mm(xp, rows * squares[..., None, :], vh) + mm(xp, u, squares[..., :, None] * columns)


def _pinv_vjp(xp: Any, g: Any, ans: Any, x: Any, rtol: Any) -> Any:
    """Golub and Pereyra's three terms, transposed."""
    if _cuts(rtol):
        return _cut_pinv_jvp(xp, adjoint(xp, g), x, rtol)
    p, ph, gh = ans, adjoint(xp, ans), adjoint(xp, g)
    left, right = mm(xp, gh, p, ph), mm(xp, ph, p, gh)
    left = left - mm(xp, x, mm(xp, p, left))
    right = right - mm(xp, mm(xp, right, p), x)
    return left + right - mm(xp, ph, g, ph)


def _pinv_jvp(xp: Any, t_x: Any, ans: Any, x: Any, rtol: Any) -> Any:
    if _cuts(rtol):
        return adjoint(xp, _cut_pinv_jvp(xp, t_x, x, rtol))
    p, ph, th = ans, adjoint(xp, ans), adjoint(xp, t_x)
    left, right = mm(xp, th, ph, p), mm(xp, p, ph, th)
    left = left - mm(xp, p, mm(xp, x, left))
    right = right - mm(xp, mm(xp, right, x), p)
    return left + right - mm(xp, p, t_x, p)


@custom(
    name="linalg.pinv",
    vjp={"x": _pinv_vjp},
    jvp=_pinv_jvp,
    index=("rtol",),
    source="Golub and Pereyra, The differentiation of pseudo-inverses, 1973, eq. 4.12",
    batch=matrices,
    memory="fresh",
    facts=Facts(torch="pinverse", needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def pinv(x: Any, /, *, rtol: float | Any | None = None) -> Tensor:
    """The Moore-Penrose pseudo-inverse of matrices.

    x: Floating-point, real or complex, shape (..., M, N).
    Returns: Shape (..., N, M), of the dtype of `x`.
    Derivative: ``-P^H g P^H + (I - x P) g^H P P^H + P^H P g^H (I - P x)``. It holds among matrices of the same rank:
    without full rank, the pseudo-inverse jumps under changes of rank, which the derivative does not reflect. With an
    `rtol` above 1e-8 it is computed from singular values, because dropped ones then matter.
    Source: array API 2025.12, linear algebra; Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear
    least squares problems whose variables separate, 1973.

    >>> x = ag.tensor([[2.0], [0.0]], requires_grad=True)
    >>> y = ag.linalg.pinv(x)
    >>> y.detach()
    tensor([[0.5000, 0.0000]])
    >>> ag.grad(y.sum(), x)[0]
    tensor([[-0.2500],
            [ 0.2500]])
    """


@nondifferentiable(
    "x",
    "rtol",
    name="linalg.matrix_rank",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions")),
)
def matrix_rank(x: Any, /, *, rtol: float | Any | None = None) -> Tensor:
    """The rank of matrices: the number of their nonzero singular values.

    x: Floating-point, real or complex, shape (..., M, N).
    Returns: Integers, shape (...). They have no derivative.
    Source: array API 2025.12, linear algebra.

    >>> ag.linalg.matrix_rank(ag.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """


# -- powers and determinants ------------------------------------------------------------------------------------------


def _power_along(xp: Any, x: Any, t: Any, n: int) -> Any:
    """Return the derivative of a power along `t`, by repeated squaring of pairs of a matrix and its change."""

    def times(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        return mm(xp, a[0], b[0]), mm(xp, a[0], b[1]) + mm(xp, a[1], b[0])

    if n < 0:
        inverse = xp.linalg.inv(x)
        x, t, n = inverse, -mm(xp, inverse, t, inverse), -n
    square, power = (x, t), None
    while n:
        if n % 2:
            power = square if power is None else times(power, square)
        n //= 2
        if n:
            square = times(square, square)
    return xp.zeros_like(t) if power is None else power[1]


@custom(
    name="linalg.matrix_power",
    vjp={"x": lambda xp, g, x, n: _power_along(xp, adjoint(xp, x), g, n)},
    jvp=lambda xp, t_x, x, n: _power_along(xp, x, t_x, n),
    source="Mathias, A chain rule for matrix functions and applications, 1996",
    batch=matrices,
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def matrix_power(x: Any, n: int, /) -> Tensor:
    """Square matrices to an integer power.

    x: Floating-point, real or complex, shape (..., M, M).
    n : int
        The exponent; negative ones take the inverse, 0 gives identity matrices.
    Returns: Of the shape and dtype of `x`.
    numpy.linalg.LinAlgError:
        On NumPy, if `n` is negative and a matrix is exactly singular; other backends have their own error or give
        infinities.
    Derivative: the sum of ``(x^H)^i g (x^H)^(n-1-i)``, computed by squaring in about ``6 log2(n)`` products.
    Source: array API 2025.12, linear algebra; the recurrence is that of the blocks of ``[[x, t], [0, x]]**n``, Mathias,
    A chain rule for matrix functions and applications, 1996.

    >>> x = ag.tensor([[1.0, 1.0], [0.0, 2.0]], requires_grad=True)
    >>> y = ag.linalg.matrix_power(x, 2)
    >>> y.detach()
    tensor([[1., 3.],
            [0., 4.]])
    >>> ag.grad(y[0, 0], x)[0]
    tensor([[2., 0.],
            [1., 0.]])
    """


def _products_without(xp: Any, s: Any, *others: Any) -> Any:
    """The products of all singular values except those at the positions that masks (over a last axis) exclude."""
    left_out = others[0]
    for mask in others[1:]:
        left_out = left_out | mask
    values = s[(..., *(None,) * (left_out.ndim - 1), slice(None))]
    return xp.prod(xp.where(left_out, xp.ones_like(values), values), axis=-1)


def _adjugate_kernel(xp: Any, x: Any, /) -> Any:
    """Return det(U) det(Vh) V diag(products of the other singular values) U^H: right for any rank."""
    u, s, vh = xp.linalg.svd(x)
    places = xp.arange(s.shape[-1], **beside(x))
    products = _products_without(xp, s, places[:, None] == places)
    sign = xp.linalg.det(u) * xp.linalg.det(vh)
    return mm(xp, sign[..., None, None] * adjoint(xp, vh) * products[..., None, :], adjoint(xp, u))


def _adjugate_along(xp: Any, x: Any, change: Any, *, back: bool) -> Any:
    """Return the derivative of the adjugate along a change of the matrix, or its adjoint for a cotangent.

    In the bases of the singular vectors both are the same map, where P_ij is the product of all singular values except
    s_i and s_j: the diagonal is mapped to P times itself, off-diagonal elements to -P_ij times themselves.
    """
    u, s, vh = xp.linalg.svd(x)
    sign = (xp.linalg.det(u) * xp.linalg.det(vh))[..., None, None]
    v = adjoint(xp, vh)
    places = xp.arange(s.shape[-1], **beside(x))
    same = places[:, None] == places
    products = _products_without(xp, s, same[:, None, :], same[None, :, :])
    products = xp.where(same, xp.zeros_like(products), products)
    inner = conj(xp, sign) * mm(xp, vh, change, u) if back else mm(xp, adjoint(xp, u), change, v)
    rows = mm(xp, products, diag(xp, inner)[..., None])[..., 0]
    inner = on_diagonal(xp, rows) - products * inner
    return mm(xp, u, inner, vh) if back else sign * mm(xp, v, inner, adjoint(xp, u))


@custom(
    name="linalg.adjugate",
    vjp={"x": lambda xp, g, x: _adjugate_along(xp, x, g, back=True)},
    jvp=lambda xp, t_x, x: _adjugate_along(xp, x, t_x, back=False),
    kernel=_adjugate_kernel,
    source="Stewart, On the adjugate matrix, 1998",
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def adjugate(x: Any, /) -> Tensor:
    """The transposed matrices of cofactors: the derivative of `det` consists of them, also at singular matrices."""


@custom(
    name="linalg.det",
    vjp={"x": lambda xp, g, x: g[..., None, None] * adjoint(xp, xp.linalg.adjugate(x))},
    jvp=lambda xp, t_x, x: xp.sum(xp.matrix_transpose(xp.linalg.adjugate(x)) * t_x, axis=(-2, -1)),
    source="Jacobi's formula; at singular matrices Stewart, On the adjugate matrix, 1998",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def det(x: Any, /) -> Tensor:
    """The determinant of square matrices.

    x: Floating-point, real or complex, shape (..., M, M).
    Returns: Shape (...), of the dtype of `x`. It overflows early; see `slogdet`.
    Derivative: ``g adj(x)^H``, with the adjugate computed from the singular value decomposition in backward. It is also
    right at singular matrices (where PyTorch gives 0 or inaccurate numbers): not 0 if one singular value is 0, and 0 if
    several are. The second derivative is right everywhere as well; higher ones need distinct singular values.
    Source: array API 2025.12, linear algebra; Stewart, On the adjugate matrix, 1998.

    >>> x = ag.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    >>> ag.round(ag.grad(ag.linalg.det(x), x)[0])
    tensor([[ 4., -2.],
            [-2.,  1.]])
    """


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


def _slogdet_vjp(xp: Any, g: Any, ans: Any, x: Any) -> Any:
    """Return (g_log + i Im(g_sign conj(sign))) x^-H; the sign of a real determinant has no derivative."""
    sign, _ = ans
    g_sign, weight = g
    if is_complex(xp, x) and g_sign is not None:
        turned = xp.conj(sign) * g_sign
        turned = (turned - xp.conj(turned)) / 2
        weight = turned if weight is None else turned + weight
    if weight is None:
        return xp.zeros_like(x)
    return xp.multiply(*promote(xp, xp.linalg.inv(adjoint(xp, x)), weight[..., None, None]))


def _slogdet_jvp(xp: Any, t_x: Any, ans: Any, x: Any) -> tuple[Any, Any]:
    sign, _ = ans
    change = xp.linalg.trace(xp.linalg.solve(x, t_x))
    if not is_complex(xp, x):
        return xp.zeros_like(sign), change
    return sign * (change - xp.conj(change)) / 2, xp.real(change)


@custom(
    name="linalg.slogdet",
    outputs=2,
    vjp={"x": _slogdet_vjp},
    jvp=_slogdet_jvp,
    source="Boeddeker et al., On the computation of complex-valued gradients, 2017, section 4.1",
    batch=matrices,
    memory="fresh",
    facts=Facts(torch="slogdet", needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def _slogdet(x: Any, /) -> tuple[Tensor, Tensor]:
    """Sign and logarithm of the magnitude of determinants."""


def slogdet(x: Any, /) -> SlogdetResult:
    """The determinant of square matrices as its sign and the logarithm of its magnitude.

    x: Floating-point, real or complex, shape (..., M, M).
    Returns: ``sign``, of the dtype of `x`, of magnitude 1 (0 for a singular matrix), and ``logabsdet``, real (-inf for
        a singular matrix); both of shape (...).
    Derivative: ``(g_logabsdet + i Im(g_sign conj(sign))) x^-H``; that of a real sign is 0. At a singular matrix it does
    not exist: backward raises NumPy's LinAlgError, or returns the result of the backend's `solve`.
    Source: array API 2025.12, linear algebra; for complex matrices Boeddeker et al., On the computation of
    complex-valued gradients, 2017.

    >>> x = ag.tensor([[1.0, 3.0], [2.0, 1.0]], requires_grad=True)
    >>> parts = ag.linalg.slogdet(x)
    >>> parts.sign
    tensor(-1., grad_fn=<LinalgSlogdetBackward0>)
    >>> ag.grad(parts.logabsdet, x)[0]
    tensor([[-0.2000,  0.4000],
            [ 0.6000, -0.2000]])
    """
    return SlogdetResult(*_slogdet(x))


complete(
    globals(),
    {
        "rtol": "float, Tensor or array, optional\n    Singular values up to this part of the largest count as 0; shape compatible with (...). Default:\n    ``max(M, N) * eps``.",
        "x": "Tensor or array",
    },
)
