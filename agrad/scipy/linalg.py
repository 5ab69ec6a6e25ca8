"""Linear algebra: equations of matrices with a known structure, factors, functions of matrices, special matrices.

Like SciPy's, functions take stacks of matrices, whose leading axes broadcast; ``overwrite_`` parameters have no effect,
because tensors never change. Where values are not available (lazy ones, recorded programs), `check_finite` checks
nothing.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.mode import may_look
from agrad.core.tensor import Tensor
from agrad.numpy import linalg as numpy_linalg
from agrad.numpy.common import at_least_1d, common, floatings
from agrad.ops import decompositions, eigenvalues, solving
from agrad.ops.creation import arange, eye, zeros
from agrad.ops.data_type import astype, finfo
from agrad.ops.docs import refer
from agrad.ops.elementwise import abs, conj, log, real
from agrad.ops.linalg import matmul, matrix_transpose
from agrad.ops.manipulation import (
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    reshape,
    squeeze,
    tril,
    triu,
)
from agrad.ops.scipy import linalg as ops
from agrad.ops.searching import argmax, take, where
from agrad.ops.statistical import sum

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "expm_frechet",
    "inv",
    "logdet",
    "logm",
    "lstsq",
    "lu",
    "norm",
    "pinv",
    "qr",
    "solve",
    "solve_banded",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "svdvals",
    "toeplitz",
]


# -- operands ----------------------------------------------------------------------------------------------------------


def _given(*arrays: Any, check_finite: bool = True) -> tuple[Tensor, ...]:
    """Return operands as floating-point tensors of one dtype."""
    tensors = common(*floatings(*arrays))
    for x in tensors:
        if check_finite and may_look(x._spec.backend) and not _is_finite(x):
            raise ValueError(f"array must not contain infs or NaNs{called()}")
    return tensors


def _is_finite(x: Tensor) -> bool:
    """Return whether all elements are finite: their sum shows it, if it does not overflow."""
    xp, truth = x._spec.backend.xp, x._spec.backend.truth
    return truth(xp.isfinite(xp.sum(x._raw))) or truth(xp.all(xp.isfinite(x._raw)))


def _square(*matrices: Tensor) -> None:
    for a in matrices:
        if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
            raise ValueError(f"expected square matrix, not an array of shape {a.shape}{called()}")


def _of_square(a: Tensor) -> None:
    """Refuse an operand that is not a square matrix, as SciPy's functions of matrices do."""
    if a.ndim < 2:
        raise numpy_linalg.LinAlgError(
            f"The input array must be at least two-dimensional, not of shape {a.shape}{called()}"
        )
    if a.shape[-1] != a.shape[-2]:
        raise numpy_linalg.LinAlgError(
            f"Last 2 dimensions of the array must be square, not of shape {a.shape}{called()}"
        )


def _solved(a: Tensor, b: Tensor, rows: int, solve: Any) -> Tensor:
    """Solve for a vector or for matrices, as SciPy does: a right side of one axis is a vector."""
    vector = b.ndim == 1
    if vector:
        b = expand_dims(b, axis=-1)
    if not b.ndim or rows != b.shape[-2]:
        raise ValueError(f"shapes of a {a.shape} and b {b.shape[: b.ndim - vector]} are incompatible{called()}")
    found: Tensor = solve(a, b)
    return squeeze(found, axis=-1) if vector else found


# -- equations ---------------------------------------------------------------------------------------------------------


def solve(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
    assume_a: str | None = None, transposed: bool = False,
) -> Tensor:  # fmt: skip
    """Solve ``a x = b`` for a square matrix.

    For a symmetric, Hermitian or triangular matrix (`assume_a`), one triangle is read, and has the gradient. SciPy's
    other
    structures raise ValueError: omit `assume_a`. On NumPy a singular matrix raises ``LinAlgError``, where SciPy also
    warns of an ill-conditioned one.

    >>> from agrad.scipy.linalg import solve
    >>> solve([[2.0, 1.0], [1.0, 3.0]], [3.0, 5.0])
    tensor([0.8000, 1.4000])
    """
    a, b = _given(a, b, check_finite=check_finite)
    _square(a)
    kind = {"general": "gen", "symmetric": "sym", "hermitian": "her", "positive definite": "pos"}.get(
        assume_a or "gen", assume_a or "gen"
    )
    if kind not in ("gen", "sym", "her", "pos", "upper triangular", "lower triangular"):
        raise ValueError(f"{assume_a} is not a recognized matrix structure here; leave assume_a out{called()}")
    if kind.endswith("triangular"):
        return solve_triangular(a, b, int(transposed), lower=kind == "lower triangular", check_finite=False)
    if kind == "pos":
        if transposed:
            a = matrix_transpose(a)
            lower = not lower
        return cho_solve(cho_factor(_whole(a, lower=lower), check_finite=False), b, check_finite=False)
    if kind != "gen":
        a = _whole(a, lower=lower, conjugated=kind == "her")
    if transposed:
        a = matrix_transpose(a)
    return _solved(a, b, a.shape[-1], solving.solve)


def _whole(a: Tensor, *, lower: bool, conjugated: bool = True) -> Tensor:
    """Return the Hermitian or symmetric matrix with one given triangle."""
    half = tril(a, k=-1) if lower else triu(a, k=1)
    turned = matrix_transpose(half)
    middle = tril(triu(a))
    if a._spec.is_complex and conjugated:
        turned, middle = conj(turned), astype(real(middle), a.dtype)
    return half + turned + middle


def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:  # fmt: skip
    """Solve ``a x = b`` for a triangular matrix.

    Derivative: ``solve(a^H, g)`` by `b`, and the triangle of ``-solve(a^H, g) x^H`` by `a` (Giles, An extended collection of
    matrix derivative results, 2008). On NumPy a singular matrix raises ``LinAlgError``.

    >>> from agrad.scipy.linalg import solve_triangular
    >>> solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0], lower=True)
    tensor([1., 2.])
    """
    a, b = _given(a, b, check_finite=check_finite)
    _square(a)
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', not {trans!r}{called()}")
    if trans not in (0, "N"):
        a, lower = matrix_transpose(a), not lower
        if trans in (2, "C") and a._spec.is_complex:
            a = conj(a)
    solve = ops.solve_triangular
    return _solved(a, b, a.shape[-1], lambda a, b: solve(a, b, lower=bool(lower), unit_diagonal=bool(unit_diagonal)))


def solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> Tensor:
    """Solve ``a x = b`` for a banded matrix.

    Elements of `ab` outside of the matrix are not read, and their gradient is 0. On NumPy a singular matrix raises
    ``LinAlgError``.

    >>> from agrad.scipy.linalg import solve_banded
    >>> solve_banded((0, 1), [[0.0, 1.0], [2.0, 4.0]], [4.0, 8.0])
    tensor([1., 2.])
    """
    l, u = map(int, l_and_u)
    ab, b = _given(ab, b, check_finite=check_finite)
    if ab.ndim < 2 or l + u + 1 != ab.shape[-2]:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({l + u + 1}) does not equal ab.shape[0]"
            f" ({ab.shape[-2] if ab.ndim > 1 else None}){called()}"
        )
    return _solved(ab, b, ab.shape[-1], lambda ab, b: ops.solve_banded(ab, b, l=l, u=u))


def lstsq(
    a: Any, b: Any, cond: float | None = None, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, lapack_driver: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Find the `x` that minimises ``|b - a x|``, and the shortest such `x`.

    All results are tensors. `lapack_driver` has no effect. The derivative is that among matrices of the same rank
    (Golub and Pereyra, The differentiation of pseudo-inverses, 1973). Raises NotImplementedError if values are lazy:
    the result depends on the rank.

    >>> from agrad.scipy.linalg import lstsq
    >>> x, residues, rank, s = lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 4.0])
    >>> x
    tensor([0.8333, 1.5000])
    """
    a, b = _given(a, b, check_finite=check_finite)
    if a.ndim != 2:
        raise ValueError(f"Input array a should be 2D, not of shape {a.shape}{called()}")
    if not b.ndim or a.shape[0] != b.shape[0]:
        rows = b.shape[0] if b.ndim else None
        raise ValueError(
            f"Shape mismatch: a and b should have the same number of rows ({a.shape[0]} != {rows}).{called()}"
        )
    if a._spec.backend.is_lazy:
        raise NotImplementedError(
            "lstsq gives residues only if the rank is full, which lazy values do not tell.\n  For independent columns write"
            " q, r = ag.linalg.qr(a); solve_triangular(r, ag.matrix_transpose(q) @ b), which works chunk by chunk;"
            f" else ag.linalg.pinv(a) @ b.{called()}"
        )
    cond = float(finfo(a.dtype).eps) if cond is None else float(cond)
    x = _solved(a, b, a.shape[0], lambda a, b: ops.lstsq(a, b, cond=cond))
    s = decompositions.svdvals(a)
    rank = solving.matrix_rank(a.detach(), rtol=cond)
    if a.shape[0] > a.shape[1] and int(rank) == a.shape[1]:
        rest = abs(b - matmul(a, x))
        residues = sum(rest * rest, axis=0)
    else:
        residues = zeros((0,), dtype=s.dtype, device=s.device)
    return x, residues, rank, s


def solve_sylvester(a: Any, b: Any, q: Any) -> Tensor:
    """Solve ``a x + x b = q``.

    Derivative: with `h` the solution of ``a^H h + h b^H = g``, it is `h` by `q`, ``-h x^H`` by `a` and ``-x^H h`` by
    `b` (Kao and Hennequin, Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati equations, 2020).
    Raises ``LinAlgError`` if there is not exactly one solution, where SciPy returns meaningless numbers.

    >>> from agrad.scipy.linalg import solve_sylvester
    >>> solve_sylvester([[1.0]], [[3.0]], [[8.0]])
    tensor([[2.]])
    """
    a, b, q = _given(a, b, q, check_finite=False)
    _square(a, b)
    if q.ndim < 2 or q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ValueError(f"q must have the shape {(a.shape[-1], b.shape[-1])}, not {q.shape}{called()}")
    return ops.solve_sylvester(a, b, q)


def solve_continuous_lyapunov(a: Any, q: Any) -> Tensor:
    """Solve ``a x + x a^H = q``, by `solve_sylvester`, with its derivatives and errors.

    >>> from agrad.scipy.linalg import solve_continuous_lyapunov
    >>> solve_continuous_lyapunov([[-1.0, 1.0], [0.0, -1.0]], [[-2.0, 0.0], [0.0, -2.0]])
    tensor([[1.5000, 0.5000],
            [0.5000, 1.0000]])
    """
    a, q = _given(a, q, check_finite=False)
    _square(a)
    return solve_sylvester(a, conj(matrix_transpose(a)), q)


def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Tensor:
    """Solve ``a x a^H - x + q = 0``: the stationary covariance of ``x = a x + noise``, for noise with covariance `q`.

    `method` has no effect: it is always SciPy's "bilinear". Derivatives and errors are those of `solve_sylvester`.

    >>> from agrad.scipy.linalg import solve_discrete_lyapunov
    >>> solve_discrete_lyapunov([[0.5]], [[3.0]])
    tensor([[4.]])
    """
    a, q = _given(a, q, check_finite=False)
    _square(a)
    one = eye(a.shape[-1], dtype=a.dtype, device=a.device)
    above = solving.inv(a + one)
    turned = matmul(above, a - one)
    return solve_continuous_lyapunov(turned, -2 * matmul(matmul(above, q), conj(matrix_transpose(above))))


# -- factors -----------------------------------------------------------------------------------------------------------


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the Cholesky factor of a Hermitian positive-definite matrix; see `agrad.linalg.cholesky`.

    The gradient is Hermitian: along changes that keep the matrix so.

    >>> from agrad.scipy.linalg import cholesky
    >>> cholesky([[4.0, 2.0], [2.0, 5.0]], lower=True)
    tensor([[2., 0.],
            [1., 2.]])
    """
    (a,) = _given(a, check_finite=check_finite)
    _square(a)
    return decompositions.cholesky(a, upper=not lower)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, bool]:
    """Return the argument of `cho_solve`: the factor, as `cholesky` returns it, and which one it is.

    The other triangle is 0, whereas SciPy leaves elements of `a`.
    """
    return cholesky(a, lower, overwrite_a, check_finite), lower


def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Tensor:
    """Solve ``a x = b`` for a matrix given by its Cholesky factor.

    >>> from agrad.scipy.linalg import cho_factor, cho_solve
    >>> cho_solve(cho_factor([[4.0, 2.0], [2.0, 5.0]]), [8.0, 12.0])
    tensor([1., 2.])
    """
    c, lower = c_and_lower
    c, b = _given(c, b, check_finite=check_finite)
    first, second = (0, 2) if lower else (2, 0)
    half = solve_triangular(c, b, first, lower=lower, check_finite=False)
    return solve_triangular(c, half, second, lower=lower, check_finite=False)


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> tuple[Tensor, ...]:
    """Return the LU factors of a matrix: ``a = p l u``. The permutation has no derivative.

    Derivative: de Hoog, Anderssen and Lukas, Differentiation of matrix functionals using triangular factorization,
    2011. It does not exist where the first min(M, N) columns are dependent: on NumPy backward raises ``LinAlgError``.

    >>> from agrad.scipy.linalg import lu
    >>> p, l, u = lu([[1.0, 2.0], [4.0, 4.0]])
    >>> l, u
    (tensor([[1.0000, 0.0000],
            [0.2500, 1.0000]]), tensor([[4., 4.],
            [0., 1.]]))
    """
    (a,) = _given(a, check_finite=check_finite)
    if a.ndim < 2:
        raise ValueError(f"The input array must be at least two-dimensional.{called()}")
    p, l, u = ops.lu(a)
    if permute_l:
        return matmul(astype(p, l.dtype, copy=False), l), u
    return (argmax(p.detach(), axis=-1) if p_indices else p.detach()), l, u


def qr(
    a: Any, overwrite_a: bool = False, lwork: int | None = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the QR factors of a matrix: ``a = q r``. Derivative: as of `agrad.linalg.qr`.

    `lwork` has no effect. Raises NotImplementedError for `pivoting`, because the order of columns is not a
    differentiable function; and ValueError for SciPy's mode "raw".

    >>> from agrad.scipy.linalg import qr
    >>> qr([[3.0, 1.0], [4.0, 3.0]], mode="r")
    (tensor([[-5., -3.],
            [ 0.,  1.]]),)
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"Mode argument should be one of ['full', 'r', 'economic'] here, not {mode!r}{called()}")
    if pivoting:
        raise NotImplementedError(f"qr: there is no pivoting here; permute the columns beforehand{called()}")
    (a,) = _given(a, check_finite=check_finite)
    q, r = decompositions.qr(a, mode="reduced" if mode == "economic" else "complete")
    return (r,) if mode == "r" else (q, r)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    """Return the singular value decomposition: ``a = u @ diag(s) @ vh``.

    Derivative: as for `agrad.linalg.svd`, which says where it does not exist. `lapack_driver` has no effect.

    >>> from agrad.scipy.linalg import svd
    >>> svd([[3.0, 0.0], [0.0, 4.0]], compute_uv=False)
    tensor([4., 3.])
    """
    (a,) = _given(a, check_finite=check_finite)
    return tuple(decompositions.svd(a, full_matrices=full_matrices)) if compute_uv else decompositions.svdvals(a)


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the singular values; see `agrad.linalg.svdvals`."""
    (a,) = _given(a, check_finite=check_finite)
    return decompositions.svdvals(a)


# -- eigenvalues -------------------------------------------------------------------------------------------------------


def eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    overwrite_b: bool = False, type: int = 1, check_finite: bool = True, subset_by_index: Any = None,
    subset_by_value: Any = None, driver: str | None = None,
) -> Any:  # fmt: skip
    """Return the eigenvalues, in ascending order, and eigenvectors of a Hermitian matrix: ``a v = w v``, or ``a v = w b v``.

    One triangle of `a` is read, and has the gradient. With `b`, by its Cholesky factor (Golub and Van Loan, Matrix
    computations, 2013, section 8.7.2). Derivative: as for `agrad.linalg.eigh`, which says where it does not exist.
    `driver` has no effect. Raises NotImplementedError for `subset_by_value`, because the number of results depends on
    values, and for a `type` other than 1.

    >>> from agrad.scipy.linalg import eigh
    >>> eigh([[2.0, 1.0], [1.0, 2.0]], eigvals_only=True)
    tensor([1., 3.])
    """
    if subset_by_value is not None or (type != 1 and b is not None):
        raise NotImplementedError(
            f"eigh: there is no subset_by_value, and of the types the first alone; choose among all eigenvalues{called()}"
        )
    a, *others = _given(*((a,) if b is None else (a, b)), check_finite=check_finite)
    _square(a, *others)
    a = _whole(a, lower=lower)
    factor = decompositions.cholesky(_whole(others[0], lower=True)) if others else None
    if factor is not None:
        if factor.shape[-1] != a.shape[-1]:
            raise ValueError(f"wrong b dims {others[0].shape}, should be {a.shape}{called()}")
        half = _divided(factor, a)
        a = _divided(factor, _adjoint(half))
    low, high = (0, a.shape[-1] - 1) if subset_by_index is None else map(int, subset_by_index)
    if not 0 <= low <= high < a.shape[-1]:
        raise ValueError(
            f"Requested eigenvalue indices are not valid. Valid range is [0, {a.shape[-1] - 1}] and start <= end, but"
            f" start={low}, end={high} is given{called()}"
        )
    if eigvals_only:
        return eigenvalues.eigvalsh(a)[..., low : high + 1]
    w, v = eigenvalues.eigh(a)
    if factor is not None:
        v = _divided(_adjoint(factor), v, lower=False)
    return w[..., low : high + 1], v[..., low : high + 1]


def _adjoint(a: Tensor) -> Tensor:
    return matrix_transpose(conj(a) if a._spec.is_complex else a)


def _divided(factor: Tensor, a: Tensor, *, lower: bool = True) -> Tensor:
    """Solve with a triangular factor for matrices."""
    return ops.solve_triangular(factor, a, lower=lower)


def eigvalsh(
    a: Any, b: Any = None, *, lower: bool = True, overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1,
    check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None, driver: str | None = None,
) -> Any:  # fmt: skip
    """Return the eigenvalues of a Hermitian matrix, in ascending order; for differences from SciPy see `eigh`."""
    return eigh(
        a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite, subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )  # fmt: skip


def eig(
    a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    """Return the eigenvalues, complex, and right eigenvectors of square matrices; see `agrad.linalg.eig`.

    Raises NotImplementedError for `b` (but `eigh` takes it), `left` and `homogeneous_eigvals`.

    >>> from agrad.scipy.linalg import eig
    >>> eig([[0.0, -1.0], [1.0, 0.0]], right=False)
    tensor([0.+1.j, 0.-1.j])
    """
    if b is not None or left or homogeneous_eigvals:
        raise NotImplementedError(
            "eig: there is no generalized equation and there are no left eigenvectors here: these are the rows of"
            f" agrad.linalg.inv(v), of any length{called()}"
        )
    (a,) = _given(a, check_finite=check_finite)
    _square(a)
    return tuple(eigenvalues.eig(a)) if right else eigenvalues.eigvals(a)


def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Tensor:
    """Return the eigenvalues, complex, of square matrices; for differences from SciPy see `eig`."""
    return eig(a, b, right=False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)


# -- norms, determinants and inverses ----------------------------------------------------------------------------------


def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Tensor:
    """Return the norm of a matrix or vector; see `agrad.numpy.linalg.norm`.

    >>> from agrad.scipy.linalg import norm
    >>> norm([[3.0, 0.0], [4.0, 0.0]], 2)
    tensor(5.)
    """
    (a,) = _given(a, check_finite=check_finite)
    return numpy_linalg.norm(a, ord, axis, keepdims)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the determinant of square matrices; see `agrad.linalg.det`."""
    (a,) = _given(a, check_finite=check_finite)
    _square(a)
    return solving.det(a)


def logdet(a: Any) -> Tensor:
    """Return the logarithm of the determinant, by `agrad.linalg.slogdet`; SciPy has no function of this name.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, M).

    Returns
    -------
    Tensor
        Shape (...): -inf where it is 0, NaN where a real one is negative; of complex matrices the principal value.

    Raises
    ------
    ValueError
        If the shape does not fit.

    Examples
    --------
    >>> from agrad.scipy.linalg import logdet
    >>> logdet([[2.0, 1.0], [1.0, 3.0]])
    tensor(1.6094)
    """
    (a,) = _given(a, check_finite=False)
    _square(a)
    sign, size = solving.slogdet(a)
    if a._spec.is_complex:
        none = sign == 0
        return size + where(none, 0.0, log(where(none, 1.0, sign)))
    return where(sign < 0, float("nan"), size)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the inverse of square matrices; see `agrad.linalg.inv`. `assume_a` and `lower` do not exist."""
    (a,) = _given(a, check_finite=check_finite)
    _square(a)
    return solving.inv(a)


def pinv(a: Any, *, rtol: float | None = None, check_finite: bool = True) -> Tensor:
    """Return the pseudo-inverse of matrices; see `agrad.linalg.pinv`.

    Singular values up to `rtol` times the largest count as 0; `atol` and `return_rank` do not exist.
    """
    (a,) = _given(a, check_finite=check_finite)
    return solving.pinv(a, rtol=rtol)


# -- functions of matrices ---------------------------------------------------------------------------------------------


def expm(A: Any) -> Tensor:
    """Return the exponential of square matrices.

    Derivative: ``L(A^H, g)``, where ``L(A, e)`` is that of the exponential along `e`, by SciPy's `expm_frechet`
    (Al-Mohy and Higham, Computing the Frechet derivative of the matrix exponential, 2009); higher ones by blocks
    (Mathias, A chain rule for matrix functions and applications, 1996). It is right for defective matrices, too.

    >>> import agrad as ag
    >>> from agrad.scipy.linalg import expm
    >>> x = ag.tensor([[0.0, 1.0], [0.0, 0.0]], requires_grad=True)
    >>> y = expm(x)
    >>> y.detach()
    tensor([[1., 1.],
            [0., 1.]])
    >>> ag.grad(y[0, 1], x)[0]
    tensor([[0.5000, 1.0000],
            [0.1667, 0.5000]])
    """
    (a,) = _given(A, check_finite=False)
    _of_square(a)
    return ops.expm(a)


def expm_frechet(
    A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """Return the exponential of a matrix, and its derivative along a direction. Both may be differentiated.

    Stacks of matrices broadcast. `method` has no effect.

    >>> from agrad.scipy.linalg import expm_frechet
    >>> expm_frechet([[0.0]], [[2.0]])
    (tensor([[1.]]), tensor([[2.]]))
    """
    a, e = _given(A, E, check_finite=check_finite)
    _square(a, e)
    if a.shape[-1] != e.shape[-1]:
        raise ValueError(f"expected A and E to be the same shape, not {a.shape} and {e.shape}{called()}")
    found = ops.expm_frechet(a, e)
    return (ops.expm(a), found) if compute_expm else found


def sqrtm(A: Any) -> Tensor:
    """Return the principal square root of square matrices.

    Derivative: the solution `h` of ``y^H h + h y^H = g``, `y` being the root (Higham, Functions of matrices, 2008,
    section 6.1). If `A` is singular, it does not exist: backward raises ``LinAlgError``. `disp` and `blocksize` do not
    exist.

    >>> from agrad.scipy.linalg import sqrtm
    >>> sqrtm([[4.0, 5.0], [0.0, 9.0]])
    tensor([[2., 1.],
            [0., 3.]])
    """
    (a,) = _given(A, check_finite=False)
    _of_square(a)
    return ops.sqrtm(a)


def logm(A: Any) -> Tensor:
    """Return the principal logarithm of square matrices.

    Derivative: the top right block of the logarithm of ``[[A^H, g], [0, A^H]]`` (Mathias, A chain rule for matrix
    functions and applications, 1996). `disp` does not exist. SciPy estimates norms with random vectors from NumPy's
    global generator, so the last bits may differ between two calls; `numpy.random.seed` fixes them.

    >>> from agrad.scipy.linalg import logm
    >>> logm([[1.0, 2.0], [0.0, 1.0]])
    tensor([[0., 2.],
            [0., 0.]])
    """
    (a,) = _given(A, check_finite=False)
    _square(a)
    return ops.logm(a)


# -- special matrices --------------------------------------------------------------------------------------------------


def block_diag(*arrs: Any) -> Tensor:
    """Return a matrix with the given matrices on its diagonal. They may be stacks of matrices.

    >>> from agrad.scipy.linalg import block_diag
    >>> block_diag([[1.0, 2.0]], 3.0)
    tensor([[1., 2., 0.],
            [0., 0., 3.]])
    """
    blocks = [reshape(x, (1, *x.shape)) if x.ndim == 1 else x for x in map(at_least_1d, common(*(arrs or ([],))))]
    lead = broadcast_shapes(*(x.shape[:-2] for x in blocks))
    rows, before, after = [], 0, builtins.sum(x.shape[-1] for x in blocks)
    for x in blocks:
        height, n = x.shape[-2:]
        after -= n
        left, right = (zeros((*lead, height, m), dtype=x.dtype, device=x.device) for m in (before, after))
        rows.append(concat([left, broadcast_to(x, (*lead, height, n)), right], axis=-1))
        before += n
    return concat(rows, axis=-2)


def toeplitz(c: Any, r: Any = None) -> Tensor:
    """Return matrices that are constant along each diagonal. Columns and rows may be stacks of vectors.

    >>> from agrad.scipy.linalg import toeplitz
    >>> toeplitz([1.0, 2.0, 3.0], [1.0, 4.0, 5.0])
    tensor([[1., 4., 5.],
            [2., 1., 4.],
            [3., 2., 1.]])
    """
    tensors = tuple(map(at_least_1d, common(c) if r is None else common(c, r)))
    c, r = tensors if r is not None else (tensors[0], conj(tensors[0]) if tensors[0]._spec.is_complex else tensors[0])
    lead = broadcast_shapes(c.shape[:-1], r.shape[:-1])
    m, n = c.shape[-1], r.shape[-1]
    c, r = broadcast_to(c, (*lead, m)), broadcast_to(r, (*lead, n))
    diagonals = concat([flip(c, axis=-1), r[..., 1:]], axis=-1)
    rows, columns = arange(m, device=c.device), arange(n, device=c.device)
    places = columns - expand_dims(rows, axis=-1) + (m - 1)
    return reshape(take(diagonals, reshape(places, (-1,)), axis=-1), (*lead, m, n))


refer(
    globals(),
    "scipy.linalg",
    {
        "check_finite": "Where values are not available (lazy ones, recorded programs), `check_finite` checks nothing.",
        "overwrite_": "``overwrite_`` parameters have no effect: tensors never change.",
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
