"""Linear algebra: equations of matrices of a known structure, factors, functions of matrices, special matrices.

As SciPy's, functions take stacks of matrices, whose leading axes broadcast; ``overwrite_`` parameters have no meaning, as tensors
never change. Where values cannot be looked at (lazy ones, recorded programs), `check_finite` checks nothing.
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
    """Return operands as floating tensors of one dtype."""
    tensors = common(*floatings(*arrays))
    for x in tensors:
        if check_finite and may_look(x._spec.backend) and not _is_finite(x):
            raise ValueError(f"array must not contain infs or NaNs{called()}")
    return tensors


def _is_finite(x: Tensor) -> bool:
    """Return whether all elements are finite: their sum tells, if it does not overflow."""
    xp, truth = x._spec.backend.xp, x._spec.backend.truth
    return truth(xp.isfinite(xp.sum(x._raw))) or truth(xp.all(xp.isfinite(x._raw)))


def _square(*matrices: Tensor) -> None:
    for a in matrices:
        if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
            raise ValueError(f"expected square matrix, not an array of shape {a.shape}{called()}")


def _of_square(a: Tensor) -> None:
    """Refuse what is no square matrix as SciPy's functions of matrices do."""
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
    """Return the solution of ``a x = b`` for a square matrix.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, M).
    b : Tensor or array
        Shape (M,), or (..., M, K).
    lower : bool, optional
        With `assume_a` "sym", "her" or "pos": the lower triangle is read. Default: the upper one.
    overwrite_a, overwrite_b : bool, optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.
    assume_a : {"gen", "sym", "her", "pos", "upper triangular", "lower triangular"}, optional
        What is known of the matrix; of a symmetric, Hermitian or triangular one a triangle is read, and has the gradient.
        Default: nothing. "pos" solves by the Cholesky factor.
    transposed : bool, optional
        Solve with the transpose of `a`.

    Returns
    -------
    Tensor
        The shape of `b`, with the leading axes of both.

    Raises
    ------
    ValueError
        If shapes do not fit, an element is not finite, or `assume_a` is another one.
    numpy.linalg.LinAlgError
        On NumPy, if the matrix is singular, or not positive definite where that is assumed.

    Examples
    --------
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
    """Return the Hermitian or symmetric matrix of one triangle."""
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
    """Return the solution of ``a x = b`` for a triangular matrix.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, M). One triangle is read.
    b : Tensor or array
        Shape (M,), or (..., M, K).
    trans : {0, 1, 2, "N", "T", "C"}, optional
        Solve with `a` (0), its transpose (1) or its conjugate transpose (2).
    lower : bool, optional
        Read the lower triangle. Default: the upper one.
    unit_diagonal : bool, optional
        Take the diagonal to be ones, without reading it.
    overwrite_b : bool, optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    Tensor
        The shape of `b`, with the leading axes of both.

    Raises
    ------
    ValueError
        If shapes do not fit, or an element is not finite.
    numpy.linalg.LinAlgError
        On NumPy, if the matrix is singular.

    Notes
    -----
    Derivative: ``solve(a^H, g)`` by `b`, and the triangle of ``-solve(a^H, g) x^H`` by `a` (Giles, An extended collection of
    matrix derivative results, 2008).

    Examples
    --------
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
    """Return the solution of ``a x = b`` for a banded matrix.

    Parameters
    ----------
    l_and_u : tuple of int
        How many diagonals there are below the main one, and above.
    ab : Tensor or array
        The diagonals, shape (..., l + u + 1, M): ``ab[u + i - j, j] == a[i, j]``. Elements outside of the matrix are not read, and
        their gradient is 0.
    b : Tensor or array
        Shape (M,), or (..., M, K).
    overwrite_ab, overwrite_b : bool, optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    Tensor
        The shape of `b`, with the leading axes of both.

    Raises
    ------
    ValueError
        If shapes do not fit, or an element is not finite.
    numpy.linalg.LinAlgError
        On NumPy, if the matrix is singular.

    Examples
    --------
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
    """Return the `x` with the least ``|b - a x|``, of these the shortest one.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (M, N).
    b : Tensor or array
        Shape (M,) or (M, K).
    cond : float, optional
        Singular values up to this part of the largest count as 0. Default: the precision of the dtype.
    overwrite_a, overwrite_b, lapack_driver : optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    x : Tensor
        Shape (N,) or (N, K).
    residues : Tensor
        The sums of squares of ``b - a x``, shape () or (K,); shape (0,) if M <= N or the columns are dependent.
    rank : Tensor
        An integer; it has no derivative.
    s : Tensor
        The singular values, shape (min(M, N),).

    Raises
    ------
    ValueError
        If shapes do not fit, or an element is not finite.
    NotImplementedError
        If values are lazy: what is returned depends on the rank.

    Notes
    -----
    The derivative is that among matrices of the same rank (Golub and Pereyra, The differentiation of pseudo-inverses, 1973).

    Examples
    --------
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
    """Return the solution of ``a x + x b = q``.

    Parameters
    ----------
    a, b : Tensor or array
        Floating-point, shapes (..., M, M) and (..., N, N).
    q : Tensor or array
        Shape (..., M, N).

    Returns
    -------
    Tensor
        Shape (..., M, N).

    Raises
    ------
    ValueError
        If shapes do not fit.
    numpy.linalg.LinAlgError
        If there is not one solution: an eigenvalue of `a` is the negative of one of `b`. (SciPy gives numbers of no meaning.)

    Notes
    -----
    By the method of Bartels and Stewart. Derivative: with `h` the solution of ``a^H h + h b^H = g``, it is `h` by `q`, ``-h x^H`` by
    `a` and ``-x^H h`` by `b` (Kao and Hennequin, Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati
    equations, 2020).

    Examples
    --------
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
    """Return the solution of ``a x + x a^H = q``.

    Parameters
    ----------
    a, q : Tensor or array
        Floating-point, shapes (..., M, M).

    Returns
    -------
    Tensor
        Shape (..., M, M).

    Raises
    ------
    ValueError
        If shapes do not fit.
    numpy.linalg.LinAlgError
        If there is not one solution: the sum of an eigenvalue of `a` and the conjugate of one is 0.

    Notes
    -----
    As `solve_sylvester`.

    Examples
    --------
    >>> from agrad.scipy.linalg import solve_continuous_lyapunov
    >>> solve_continuous_lyapunov([[-1.0, 1.0], [0.0, -1.0]], [[-2.0, 0.0], [0.0, -2.0]])
    tensor([[1.5000, 0.5000],
            [0.5000, 1.0000]])
    """
    a, q = _given(a, q, check_finite=False)
    _square(a)
    return solve_sylvester(a, conj(matrix_transpose(a)), q)


def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Tensor:
    """Return the solution of ``a x a^H - x + q = 0``: the covariance that ``x = a x + noise`` comes to, of noise with covariance `q`.

    Parameters
    ----------
    a, q : Tensor or array
        Floating-point, shapes (..., M, M).
    method : object, optional
        Without meaning: it is always SciPy's "bilinear".

    Returns
    -------
    Tensor
        Shape (..., M, M).

    Raises
    ------
    ValueError
        If shapes do not fit.
    numpy.linalg.LinAlgError
        If there is not one solution: the product of an eigenvalue of `a` and the conjugate of one is 1.

    Notes
    -----
    By a bilinear transformation to the continuous equation, which `solve_sylvester` solves (Popov, 1964).

    Examples
    --------
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
    """Return the Cholesky factor of a Hermitian positive-definite matrix.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, M). Its gradient is Hermitian: along changes that keep the matrix so.
    lower : bool, optional
        Give `l` with ``a = l l^H``. Default: `u` with ``a = u^H u``.
    overwrite_a : bool, optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    Tensor
        The factor, of the shape of `a`; 0 in the other triangle.

    Raises
    ------
    ValueError
        If the shape does not fit, or an element is not finite.
    numpy.linalg.LinAlgError
        On NumPy, if the matrix is not positive definite.

    Examples
    --------
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
    """Return what `cho_solve` takes: the factor and which one it is.

    As `cholesky`; also in that the other triangle is 0, where SciPy leaves elements of `a`.
    """
    return cholesky(a, lower, overwrite_a, check_finite), lower


def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Tensor:
    """Return the solution of ``a x = b`` for a matrix given by its Cholesky factor.

    Parameters
    ----------
    c_and_lower : tuple
        What `cho_factor` gives.
    b : Tensor or array
        Shape (M,), or (..., M, K).
    overwrite_b : bool, optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    Tensor
        The shape of `b`, with the leading axes of both.

    Raises
    ------
    ValueError
        If shapes do not fit, or an element is not finite.

    Examples
    --------
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
    """Return the LU factors of a matrix: ``a = p l u``.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, N).
    permute_l : bool, optional
        Give ``p l`` and `u`.
    overwrite_a : bool, optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.
    p_indices : bool, optional
        Give the permutation as the rows of `l` that make `a`: ``a = l[p] u``.

    Returns
    -------
    p : Tensor
        A permutation matrix, shape (..., M, M), or integers, shape (..., M); it has no derivative.
    l : Tensor
        Lower triangular with ones on the diagonal, shape (..., M, K), K = min(M, N).
    u : Tensor
        Upper triangular, shape (..., K, N).

    Raises
    ------
    ValueError
        If the shape does not fit, or an element is not finite.
    numpy.linalg.LinAlgError
        In backward, on NumPy, if the first K columns are dependent: there is no derivative.

    Notes
    -----
    Derivative: de Hoog, Anderssen and Lukas, Differentiation of matrix functionals using triangular factorization, 2011.

    Examples
    --------
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
    """Return the QR factors of a matrix: ``a = q r``.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, N).
    overwrite_a, lwork : optional
        Without meaning.
    mode : {"full", "economic", "r"}, optional
        Give a square `q`, one with min(M, N) columns, or `r` alone.
    pivoting : bool, optional
        Only False: which columns come first is no differentiable function.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    q : Tensor
        Orthonormal columns, shape (..., M, M) or (..., M, K), K = min(M, N); not in the mode "r".
    r : Tensor
        Upper triangular, shape (..., M, N) or (..., K, N).

    Raises
    ------
    ValueError
        If an element is not finite, or the mode is another one.
    NotImplementedError
        If `pivoting` is asked for.

    Notes
    -----
    Derivative: as of `agrad.linalg.qr`.

    Examples
    --------
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

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, N).
    full_matrices : bool, optional
        Give `u` and `vh` square. Default: True.
    compute_uv : bool, optional
        False: give the singular values alone.
    overwrite_a, lapack_driver : optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    u, s, vh : Tensor
        Shapes (..., M, M), (..., K) and (..., N, N), K = min(M, N); (..., M, K) and (..., K, N) without `full_matrices`.

    Raises
    ------
    ValueError
        If an element is not finite.

    Notes
    -----
    Derivative: as of `agrad.linalg.svd`, which says where there is none.

    Examples
    --------
    >>> from agrad.scipy.linalg import svd
    >>> svd([[3.0, 0.0], [0.0, 4.0]], compute_uv=False)
    tensor([4., 3.])
    """
    (a,) = _given(a, check_finite=check_finite)
    return tuple(decompositions.svd(a, full_matrices=full_matrices)) if compute_uv else decompositions.svdvals(a)


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the singular values, shape (..., min(M, N)), of matrices (..., M, N); see `agrad.linalg.svdvals`."""
    (a,) = _given(a, check_finite=check_finite)
    return decompositions.svdvals(a)


# -- eigenvalues -------------------------------------------------------------------------------------------------------


def eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    overwrite_b: bool = False, type: int = 1, check_finite: bool = True, subset_by_index: Any = None,
    subset_by_value: Any = None, driver: str | None = None,
) -> Any:  # fmt: skip
    """Return the eigenvalues, in ascending order, and eigenvectors of a Hermitian matrix: ``a v = w v``, or ``a v = w b v``.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, M). One triangle is read, and has the gradient.
    b : Tensor or array, optional
        Positive definite, shape (..., M, M); its lower triangle is read.
    lower : bool, optional
        Read the lower triangle of `a`. Default: True.
    eigvals_only : bool, optional
        Give the eigenvalues alone.
    overwrite_a, overwrite_b, driver : optional
        Without meaning.
    type : {1}, optional
        The equation, where there is `b`.
    check_finite : bool, optional
        Refuse infinities and NaN.
    subset_by_index : tuple of int, optional
        The first and the last of the eigenvalues to give.
    subset_by_value : None
        How many there are depends on values: choose among all of them.

    Returns
    -------
    w : Tensor
        Real, shape (..., K).
    v : Tensor
        The eigenvectors as columns, shape (..., M, K): orthonormal, ``v^H b v = 1`` where there is `b`.

    Raises
    ------
    ValueError
        If shapes do not fit, an element is not finite, or `subset_by_index` is not within 0 and M - 1.
    NotImplementedError
        If `subset_by_value` or another `type` is asked for.
    numpy.linalg.LinAlgError
        On NumPy, if `b` is not positive definite.

    Notes
    -----
    With `b` by its Cholesky factor (Golub and Van Loan, Matrix computations, 2013, section 8.7.2). Derivative: as of
    `agrad.linalg.eigh`, which says where there is none.

    Examples
    --------
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
    """Return the eigenvalues of a Hermitian matrix, in ascending order; arguments as for `eigh`."""
    return eigh(
        a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite, subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )  # fmt: skip


def eig(
    a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    """Return the eigenvalues, complex, and right eigenvectors of square matrices; see `agrad.linalg.eig`.

    Parameters
    ----------
    a : Tensor or array
        Floating-point, shape (..., M, M).
    b : None
        There is no generalized equation here, but for Hermitian matrices: `eigh`.
    left : bool, optional
        Only False.
    right : bool, optional
        Give the eigenvectors too.
    overwrite_a, overwrite_b : bool, optional
        Without meaning.
    check_finite : bool, optional
        Refuse infinities and NaN.
    homogeneous_eigvals : bool, optional
        Only False.

    Returns
    -------
    w : Tensor
        Shape (..., M).
    v : Tensor
        The eigenvectors as columns, shape (..., M, M), if `right`.

    Raises
    ------
    ValueError
        If the shape does not fit, or an element is not finite.
    NotImplementedError
        If `b`, `left` or `homogeneous_eigvals` is asked for.

    Examples
    --------
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
    """Return the eigenvalues, complex, of square matrices; arguments as for `eig`."""
    return eig(a, b, right=False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)


# -- norms, determinants and inverses ----------------------------------------------------------------------------------


def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Tensor:
    """Return the norm of a matrix or vector; see `agrad.numpy.linalg.norm`.

    Parameters
    ----------
    a : Tensor or array
        Real or complex.
    ord : float or {"fro", "nuc"}, optional
        Which one. Default: the root of the sum of squares.
    axis : int or tuple of two int, optional
        Along which axes.
    keepdims : bool, optional
        Keep these as axes of length 1.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    Tensor
        Real.

    Raises
    ------
    ValueError
        If an element is not finite, or there is no such norm.

    Examples
    --------
    >>> from agrad.scipy.linalg import norm
    >>> norm([[3.0, 0.0], [4.0, 0.0]], 2)
    tensor(5.)
    """
    (a,) = _given(a, check_finite=check_finite)
    return numpy_linalg.norm(a, ord, axis, keepdims)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the determinant, shape (...), of square matrices (..., M, M); see `agrad.linalg.det`."""
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
    """Return the inverse of square matrices (..., M, M); see `agrad.linalg.inv`."""
    (a,) = _given(a, check_finite=check_finite)
    _square(a)
    return solving.inv(a)


def pinv(a: Any, *, rtol: float | None = None, check_finite: bool = True) -> Tensor:
    """Return the pseudo-inverse (..., N, M) of matrices (..., M, N); see `agrad.linalg.pinv`."""
    (a,) = _given(a, check_finite=check_finite)
    return solving.pinv(a, rtol=rtol)


# -- functions of matrices ---------------------------------------------------------------------------------------------


def expm(A: Any) -> Tensor:
    """Return the exponential of square matrices.

    Parameters
    ----------
    A : Tensor or array
        Floating-point, shape (..., M, M).

    Returns
    -------
    Tensor
        Of the shape and dtype of `A`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not square.

    Notes
    -----
    Derivative: ``L(A^H, g)``, where ``L(A, e)`` is that of the exponential along `e`, by SciPy's `expm_frechet` (Al-Mohy and
    Higham, Computing the Frechet derivative of the matrix exponential, 2009); higher ones by blocks (Mathias, A chain rule for
    matrix functions and applications, 1996). It is right for matrices that have no eigenvectors to decompose into, too.

    Examples
    --------
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
    """Return the exponential of a matrix, and its derivative along a direction.

    Parameters
    ----------
    A, E : Tensor or array
        Floating-point, shape (..., M, M).
    method : str, optional
        Without meaning.
    compute_expm : bool, optional
        False: give the derivative alone.
    check_finite : bool, optional
        Refuse infinities and NaN.

    Returns
    -------
    Tensor or tuple of Tensor
        The exponential and the derivative; both may be differentiated.

    Raises
    ------
    ValueError
        If shapes do not fit, or an element is not finite.

    Examples
    --------
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

    Parameters
    ----------
    A : Tensor or array
        Floating-point, shape (..., M, M).

    Returns
    -------
    Tensor
        Of the shape of `A`; complex where a real matrix has no real root.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not square; in backward, if there is no derivative: `A` is singular.

    Notes
    -----
    Derivative: the solution `h` of ``y^H h + h y^H = g``, `y` being the root (Higham, Functions of matrices, 2008, section 6.1).

    Examples
    --------
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

    Parameters
    ----------
    A : Tensor or array
        Floating-point, shape (..., M, M).

    Returns
    -------
    Tensor
        Of the shape of `A`; complex where a real matrix has no real logarithm.

    Raises
    ------
    ValueError
        If a matrix is not square.

    Notes
    -----
    By inverse scaling and squaring (Al-Mohy and Higham, 2012). Derivative: the block at the right of the top of the logarithm of
    ``[[A^H, g], [0, A^H]]`` (Mathias, A chain rule for matrix functions and applications, 1996).

    Examples
    --------
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
    """Return the matrices on the diagonal of one matrix.

    Parameters
    ----------
    *arrs : Tensor, array or number
        Matrices, or stacks of them; vectors are rows, numbers 1 x 1.

    Returns
    -------
    Tensor
        Zeros elsewhere; of the dtype that all promote to.

    Examples
    --------
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
    """Return matrices that are constant along each diagonal.

    Parameters
    ----------
    c : Tensor or array
        The first column, shape (..., M).
    r : Tensor or array, optional
        The first row, shape (..., N), whose first element is not read. Default: ``conj(c)``.

    Returns
    -------
    Tensor
        Shape (..., M, N), of the dtype that both promote to.

    Examples
    --------
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


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
