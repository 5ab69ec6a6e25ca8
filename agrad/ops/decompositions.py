"""Matrix decompositions: Cholesky, QR, singular values. Those by eigenvalues are in `eigenvalues`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from agrad.core.cotangents import is_complex
from agrad.core.declare import custom
from agrad.core.facts import Facts
from agrad.ops.batch_rules import matrices
from agrad.ops.docs import complete
from agrad.ops.matrices import (
    adjoint,
    conj,
    defined,
    diag,
    differences,
    hermitian,
    lower_half,
    mm,
    on_diagonal,
    on_leading,
    over_gaps,
    real,
    regular,
    rotation_of,
    skew,
)

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = ["cholesky", "qr", "svd", "svdvals"]


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


# -- Cholesky ---------------------------------------------------------------------------------------------------------


def _cholesky_vjp(xp: Any, g: Any, ans: Any, upper: bool) -> Any:
    """Return L^-H sym(Phi(L^H g)) L^-1."""
    low, g = (adjoint(xp, ans), adjoint(xp, g)) if upper else (ans, g)
    high = adjoint(xp, low)
    inner = hermitian(xp, lower_half(xp, mm(xp, high, g)))
    return adjoint(xp, xp.linalg.solve(high, adjoint(xp, xp.linalg.solve(high, inner))))


def _cholesky_jvp(xp: Any, t_x: Any, ans: Any, upper: bool) -> Any:
    """Return L Phi(L^-1 dA L^-H)."""
    low = adjoint(xp, ans) if upper else ans
    inner = xp.linalg.solve(low, adjoint(xp, xp.linalg.solve(low, hermitian(xp, t_x))))
    t = mm(xp, low, lower_half(xp, inner))
    return adjoint(xp, t) if upper else t


@custom(
    name="linalg.cholesky",
    vjp={"x": _cholesky_vjp},
    jvp=_cholesky_jvp,
    source="Murray, Differentiation of the Cholesky decomposition, 2016, eqs. 8 and 10",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factor of Hermitian positive-definite matrices.

    x: Floating-point, shape (..., M, M), Hermitian (if real: symmetric) and positive definite.
    upper : bool, optional
        Return `U` with ``x = U^H U`` instead of `L` with ``x = L L^H``.
    Returns: The factor, triangular, of the shape and dtype of `x`.
    numpy.linalg.LinAlgError:
        On NumPy, if a matrix is not positive definite; other backends raise their own error or return NaN.
    `x` is assumed to be Hermitian: libraries use only one triangle, and the gradient is Hermitian, along changes that
    keep `x` Hermitian.
    Derivative: ``L^-H sym(Phi(L^H g)) L^-1``, Phi taking the lower triangle and half the diagonal.
    Source: array API 2025.12, linear algebra; Murray, Differentiation of the Cholesky decomposition, 2016.

    >>> x = ag.tensor([[4.0, 2.0], [2.0, 5.0]], requires_grad=True)
    >>> factor = ag.linalg.cholesky(x)
    >>> factor.detach()
    tensor([[2., 0.],
            [1., 2.]])
    >>> ag.grad(factor.sum(), x)[0]
    tensor([[0.1875, 0.1250],
            [0.1250, 0.2500]])
    """


# -- QR ---------------------------------------------------------------------------------------------------------------

_SINGULAR_QR = "The QR decomposition is not differentiable where the first min(nrows, ncols) columns are dependent."
_NO_COMPLETE_QR = "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."


def _qr_vjp(xp: Any, g: Any, ans: Any, x_spec: Any, mode: str) -> Any:
    q, r = ans
    g_q, g_r = g
    m, n = x_spec.shape[-2:]
    k = min(m, n)
    turning = None
    if mode == "complete" and m > n:
        if g_q is not None:
            turning = rotation_of(xp, q, g_q, k)
            g_q, size = on_leading(xp, q, g_q, k), g_q
        q, r, g_r = q[..., :k], r[..., :k, :], None if g_r is None else g_r[..., :k, :]
    # wide: the columns beyond the first m are Y = Q R2, so R2 = Q^H Y
    rest = None
    if n > m:
        r, r_rest = r[..., :m], r[..., m:]
        if g_r is not None:
            g_r, g_rest = g_r[..., :m], g_r[..., m:]
            rest = mm(xp, q, g_rest)
            moved = mm(xp, q, r_rest, adjoint(xp, g_rest))
            g_q = moved if g_q is None else g_q + moved
        else:
            rest = xp.zeros_like(mm(xp, q, r_rest))
    inner = None if g_r is None else mm(xp, r, adjoint(xp, g_r))
    if g_q is not None:
        away = mm(xp, adjoint(xp, g_q), q)
        inner = -away if inner is None else inner - away
    regular(xp, diag(xp, r), x_spec, _SINGULAR_QR)
    half = lower_half(xp, inner)
    inner = mm(xp, q, half + adjoint(xp, half))
    result = adjoint(xp, xp.linalg.solve(r, adjoint(xp, inner if g_q is None else g_q + inner)))
    if rest is not None:
        result = xp.concat([result, rest], axis=-1)
    return result if turning is None else defined(xp, result, turning, size, x_spec, _NO_COMPLETE_QR)


def _qr_jvp(xp: Any, t_x: Any, ans: Any, x_spec: Any, mode: str) -> tuple[Any, Any]:
    q, r = ans
    m, n = x_spec.shape[-2:]
    if mode == "complete" and m > n:
        raise RuntimeError(_NO_COMPLETE_QR)
    t_rest = None
    if n > m:
        t_x, t_rest = t_x[..., :m], t_x[..., m:]
        r, r_rest = r[..., :m], r[..., m:]
    regular(xp, diag(xp, r), x_spec, _SINGULAR_QR)
    inner = mm(xp, adjoint(xp, q), t_x)
    inner = adjoint(xp, xp.linalg.solve(adjoint(xp, r), adjoint(xp, inner)))  # Q^H dA R^-1
    upper = adjoint(xp, lower_half(xp, inner + adjoint(xp, inner)))
    t_r = mm(xp, upper, r)
    moved = t_x - mm(xp, q, t_r)
    t_q = adjoint(xp, xp.linalg.solve(adjoint(xp, r), adjoint(xp, moved)))
    if t_rest is not None:
        t_rest = mm(xp, adjoint(xp, t_q), q, r_rest) + mm(xp, adjoint(xp, q), t_rest)
        t_r = xp.concat([t_r, t_rest], axis=-1)
    return t_q, t_r


@custom(
    name="linalg.qr",
    outputs=2,
    vjp={"x": _qr_vjp},
    jvp=_qr_jvp,
    source="Walter and Lehmann, Algorithmic differentiation of linear algebra functions, 2010; Seeger et al., 2017",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def _qr(x: Any, /, *, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """The QR decomposition of matrices."""


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """The QR decomposition ``x = Q R`` of matrices of full rank.

    x: Floating-point, shape (..., M, N), of rank K = min(M, N), the first K columns independent.
    mode : {"reduced", "complete"}, optional
        Whether `Q` has K columns or M.
    Returns: ``Q``, shape (..., M, K) or (..., M, M), with orthonormal columns, and ``R``, upper triangular with a real
        diagonal, shape (..., K, N) or (..., M, N).
    RuntimeError:
        In backward with mode="complete" and M > N, if the loss depends on which basis of the orthogonal complement the
        last columns of `Q` are (a lazy backend gives NaN); in forward mode with mode="complete" and M > N always; in
        both where `R` has a 0 on its diagonal (on a lazy backend an error of its own, or NaN).
    Derivative for M >= N: ``(g_Q + Q copyltu(R g_R^H - g_Q^H Q)) R^-H``, copyltu mirroring the lower triangle; wide
    matrices are split into the first M columns and the rest. There is none where the first K columns are dependent;
    rounding may put a small number in place of 0 into `R`, and the gradient is then large. With mode="complete" and M >
    N PyTorch refuses every derivative; here losses of ``R`` and of the columns' spans can be differentiated.
    Source: array API 2025.12, linear algebra; Walter and Lehmann, Algorithmic differentiation of linear algebra
    functions with application in optimum experimental design, 2010; Seeger et al., Auto-differentiating linear algebra,
    2017.

    >>> x = ag.tensor([[1.0, 1.0], [2.0, 3.0]], requires_grad=True)
    >>> corner = ag.abs(ag.linalg.qr(x).R[1, 1])
    >>> corner.detach()
    tensor(0.4472)
    >>> ag.grad(corner, x)[0]
    tensor([[ 1.2522, -0.8944],
            [-0.6261,  0.4472]])
    """
    return QRResult(*_qr(x, mode=mode))


# -- singular values --------------------------------------------------------------------------------------------------

_SVD_PHASE = (
    "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The"
    " specified loss function depends on this phase term, making it ill-defined."
)
_SVD_REST = (
    "svd_backward: with full_matrices=True the singular vectors beyond the first min(M, N) are specified up to a"
    " rotation among themselves. The specified loss function depends on it, so it is ill-defined."
    "\n  Use svd(x, full_matrices=False), or let the loss depend on their span only."
)


def _svd_vjp(xp: Any, g: Any, ans: Any, x_spec: Any) -> Any:
    """Townsend's formula, with U and V on an equal footing, and the phases a complex loss may see jointly."""
    u, s, vh = ans
    g_u, g_s, g_vh = g
    m, n = x_spec.shape[-2:]
    k = min(m, n)
    v = adjoint(xp, vh)
    g_v = None if g_vh is None else adjoint(xp, g_vh)
    turning = []
    if g_u is not None and u.shape[-1] > k:
        turning.append((rotation_of(xp, u, g_u, k), g_u))
        g_u = on_leading(xp, u, g_u, k)
    if g_v is not None and v.shape[-1] > k:
        turning.append((rotation_of(xp, v, g_v, k), g_v))
        g_v = on_leading(xp, v, g_v, k)
    u, v = u[..., :k], v[..., :k]
    if g_u is None and g_v is None:
        return mm(xp, u * g_s[..., None, :], adjoint(xp, v))
    inner = None if g_s is None else on_diagonal(xp, g_s)
    gaps = differences(s) * (s[..., None, :] + s[..., :, None])
    phase = None
    if g_u is not None:
        turned = mm(xp, adjoint(xp, u), g_u)
        part = over_gaps(xp, skew(xp, turned), gaps) * s[..., None, :]
        if is_complex(xp, u):
            phase = xp.imag(diag(xp, turned))
            part = part + on_diagonal(xp, diag(xp, skew(xp, turned)) / (2 * s))
        inner = part if inner is None else inner + part
        if m > k:
            outside = (g_u - mm(xp, u, turned)) / s[..., None, :]
    if g_v is not None:
        turned_v = mm(xp, adjoint(xp, v), g_v)
        part = s[..., :, None] * over_gaps(xp, skew(xp, turned_v), gaps)
        if is_complex(xp, v):
            phase_v = xp.imag(diag(xp, turned_v))
            phase = phase_v if phase is None else phase + phase_v
        inner = part if inner is None else inner + part
        if n > k:
            outside_v = (g_v - mm(xp, v, turned_v)) / s[..., None, :]
    result = mm(xp, u, inner, adjoint(xp, v))
    if g_u is not None and m > k:
        result = result + mm(xp, outside, adjoint(xp, v))
    if g_v is not None and n > k:
        result = result + mm(xp, u, adjoint(xp, outside_v))
    for part, whole in turning:
        result = defined(xp, result, part, whole, x_spec, _SVD_REST)
    if phase is not None:
        whole = xp.concat([part for part in (g_u, g_v) if part is not None], axis=-2)
        result = defined(xp, result, phase[..., None, :], whole, x_spec, _SVD_PHASE)
    return result


def _svd_jvp(xp: Any, t_x: Any, ans: Any, x_spec: Any) -> tuple[Any, Any, Any]:
    """The tangents of singular vectors that rotate among themselves, and among the extra ones, as little as possible."""
    u, s, vh = ans
    m, n = x_spec.shape[-2:]
    k = min(m, n)
    v = adjoint(xp, vh)
    u, v, u_rest, v_rest = u[..., :k], v[..., :k], u[..., k:], v[..., k:]
    moved, back = mm(xp, t_x, v), mm(xp, adjoint(xp, t_x), u)
    inner = mm(xp, adjoint(xp, u), moved)
    other = adjoint(xp, inner)
    gaps = differences(s) * (s[..., None, :] + s[..., :, None])
    row, column = s[..., None, :], s[..., :, None]
    turn_u = over_gaps(xp, inner * row + column * other, gaps)
    turn_v = over_gaps(xp, column * inner + other * row, gaps)
    if is_complex(xp, inner):
        turn_u = turn_u + on_diagonal(xp, diag(xp, inner - other) / (2 * s))
    t_u, t_v = mm(xp, u, turn_u), mm(xp, v, turn_v)
    if m > k:
        t_u = t_u + (moved - mm(xp, u, inner)) / row
    if n > k:
        t_v = t_v + (back - mm(xp, v, other)) / row
    if u_rest.shape[-1]:
        t_u = xp.concat([t_u, -mm(xp, u, adjoint(xp, t_u), u_rest)], axis=-1)
    if v_rest.shape[-1]:
        t_v = xp.concat([t_v, -mm(xp, v, adjoint(xp, t_v), v_rest)], axis=-1)
    return t_u, real(xp, diag(xp, inner)), adjoint(xp, t_v)


@custom(
    name="linalg.svd",
    outputs=3,
    vjp={"x": _svd_vjp},
    jvp=_svd_jvp,
    source="Townsend, Differentiating the singular value decomposition, 2016; complex: Wan and Zhang, 2019",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def _svd(x: Any, /, *, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The singular value decomposition of matrices."""


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition of matrices, ``x = U diag(S) Vh``.

    x: Floating-point, real or complex, shape (..., M, N).
    full_matrices : bool, optional
        Return square `U` and `Vh`. If False, only their first K = min(M, N) columns and rows.
    Returns: ``U``, shape (..., M, M) or (..., M, K); ``S``, real, descending, shape (..., K); ``Vh``, shape (..., N, N)
        or (..., K, N).
    RuntimeError:
        In backward, if the loss depends on arbitrary choices: the common phases of complex singular vectors, or the
        basis of the vectors beyond the first K (PyTorch ignores the latter). A lazy backend gives NaN instead. Forward
        mode cannot detect it: its tangents are those of singular vectors that rotate as little as possible.
    Derivative: Townsend's, with ``F_ij = 1 / (S_j**2 - S_i**2)``. It is inf or NaN where singular values repeat, or
    where one is zero and `x` is not square (or complex). A loss of `S` alone has the gradient ``U diag(g_S) Vh``
    everywhere; at a zero or repeated singular value that is one of several subgradients.
    Source: array API 2025.12, linear algebra; Townsend, Differentiating the singular value decomposition, 2016; for
    complex matrices Wan and Zhang, Automatic differentiation for complex valued SVD, 2019.

    >>> x = ag.tensor([[1.0, 2.0], [2.0, 3.0]], requires_grad=True)
    >>> parts = ag.linalg.svd(x)
    >>> parts.S.detach()
    tensor([4.2361, 0.2361])
    >>> ag.grad(parts.S[0], x)[0]
    tensor([[0.2764, 0.4472],
            [0.4472, 0.7236]])
    """
    return SVDResult(*_svd(x, full_matrices=full_matrices))


def _svdvals_vjp(xp: Any, g: Any, x: Any) -> Any:
    u, _, vh = xp.linalg.svd(x, full_matrices=False)
    return mm(xp, u * g[..., None, :], vh)


def _svdvals_jvp(xp: Any, t_x: Any, x: Any) -> Any:
    u, _, vh = xp.linalg.svd(x, full_matrices=False)
    return real(xp, xp.sum(conj(xp, u) * mm(xp, t_x, adjoint(xp, vh)), axis=-2))


@custom(
    name="linalg.svdvals",
    vjp={"x": _svdvals_vjp},
    jvp=_svdvals_jvp,
    source="Giles, An extended collection of matrix derivative results, 2008, section 3.2",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def svdvals(x: Any, /) -> Tensor:
    """Singular values of matrices.

    x: Floating-point, real or complex, shape (..., M, N).
    Returns: Real, descending, shape (..., min(M, N)).
    Derivative: ``U diag(g) Vh``, with the singular vectors computed in backward; at a zero or repeated singular value
    that is one of several subgradients. Higher derivatives are those of `svd`.
    Source: array API 2025.12, linear algebra; Giles, 2008.

    >>> x = ag.tensor([[1.0, 2.0], [2.0, 3.0]], requires_grad=True)
    >>> values = ag.linalg.svdvals(x)
    >>> values.detach()
    tensor([4.2361, 0.2361])
    >>> ag.grad(values[0], x)[0]
    tensor([[0.2764, 0.4472],
            [0.4472, 0.7236]])
    """


complete(globals(), {"x": "Tensor or array"})
