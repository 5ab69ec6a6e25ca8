"""Solvers of linear equations whose matrix is known only by products: conjugate gradients, GMRES, BiCGSTAB, elimination.

They take real vectors without history, compute with agrad's functions on the vectors' backend, and hold scalars as
Python numbers. Their results satisfy the equations to the tolerance; otherwise they raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from agrad.core.tensor import Tensor
from agrad.lazy import compute
from agrad.ops.creation import arange, asarray, eye
from agrad.ops.data_type import finfo
from agrad.ops.elementwise import abs as absolute
from agrad.ops.elementwise import floor, isfinite, sin
from agrad.ops.linalg import matmul, vecdot
from agrad.ops.manipulation import reshape, stack, tile
from agrad.ops.solving import inv
from agrad.ops.statistical import all as every
from agrad.ops.statistical import max as largest
from agrad.ops.statistical import sum as total

#: A product with the matrix of the equations.
Product = Callable[[Tensor], Tensor]

#: GMRES restarts after this many products, because its memory and its work per product grow with their number.
RESTART = 80

#: Up to this many unknowns, the matrix is built column by column and inverted.
DENSE = 128


class SingularError(ArithmeticError):
    """Linear equations have no solution, or several, or none was found."""


class Method(NamedTuple):
    """How linear equations are solved.

    Attributes
    ----------
    name : str or callable
        "dense", "cg", "gmres", "bicgstab"; "auto" for the first of these or, with many unknowns, a suitable one of the
        others; or a function of the product and the right side.
    rtol : float or None
        The largest residual relative to the right side. None: as small as the precision allows.
    maxiter : int or None
        The largest number of products. None: ten times the number of unknowns, and at least 1000.
    symmetric : bool
        The matrix is symmetric, and positive definite.
    """

    name: str | Callable[[Product, Tensor], Tensor] = "auto"
    rtol: float | None = None
    maxiter: int | None = None
    symmetric: bool = False


def solve(method: Method, product: Product, b: Tensor, rows: int, *, probe: bool) -> Tensor:
    """Return the solution of linear equations.

    Parameters
    ----------
    method : Method
        The solver.
    product : callable
        The product of the matrix and a vector.
    b : Tensor
        The right side, real and finite.
    rows : int
        The matrix consists of this many blocks of one size on its diagonal, which are independent systems.
    probe : bool
        Also solve the equations for a random right side, which fails if the matrix is singular. (Elimination detects
        that anyway.)

    Raises
    ------
    SingularError
        If there is no solution, more than one, or none was found.
    """
    n = b.shape[0] // rows
    if not n:
        return b
    name = method.name
    if name == "auto":
        name = "dense" if n <= DENSE else "cg" if method.symmetric else "gmres"
    if name == "dense":
        return _dense(product, b, rows)
    rtol = float(finfo(b.dtype).eps) ** 0.65 if method.rtol is None else method.rtol
    limit = max(1000, 10 * n) if method.maxiter is None else method.maxiter

    def solved(right: Tensor) -> Tensor:
        # blocks with very different right sides should be equally accurate
        lengths = _norms(right, rows)
        scales = [length or 1.0 for length in lengths.tolist()]
        spread = reshape(asarray(scales, dtype=right.dtype, device=right.device), (rows, 1))
        scaled = reshape(reshape(right, (rows, n)) / spread, (-1,))
        if callable(name):
            found = name(product, scaled)
        else:
            found = {"cg": _cg, "gmres": _gmres, "bicgstab": _bicgstab}[name](product, scaled, rtol, limit)
        left = max(_norms(scaled - product(found), rows).tolist())
        if not left <= max(10 * rtol, 1e-12):
            raise SingularError(
                f"of the right side is left, relative to it: {left:.1e}, and at most {rtol:.1e} should be"
            )
        return reshape(reshape(found, (rows, n)) * spread, (-1,))

    if probe:
        noise = sin(arange(1, b.shape[0] + 1, dtype=b.dtype, device=b.device) * 12.9898) * 43758.5453
        solved(noise - floor(noise) - 0.5)
    return solved(b)


def _norms(x: Tensor, rows: int) -> Tensor:
    """Return the norm of a vector's part in each block."""
    parts = reshape(x, (rows, -1))
    return vecdot(parts, parts) ** 0.5


def _dot(x: Tensor, y: Tensor) -> float:
    return float(vecdot(x, y))


def _dense(product: Product, b: Tensor, rows: int) -> Tensor:
    """Return the solution by elimination, the same column of all blocks at a time."""
    n = b.shape[0] // rows
    units = eye(n, dtype=b.dtype, device=b.device)
    columns = [reshape(product(tile(units[i, :], (rows,))), (rows, n)) for i in range(n)]
    matrix = compute(stack(columns, axis=-1))
    if not every(isfinite(matrix)):
        raise SingularError("their matrix is not finite")
    # scaled rows and columns: equations in different units are not therefore singular
    scaled, sizes = matrix, []
    for axis in (2, 1):
        size = largest(absolute(scaled), axis=axis, keepdims=True)
        if not every(size > 0):
            raise SingularError("their matrix has a row or a column of zeros")
        scaled = scaled / size
        sizes.append(size)
    high, wide = sizes
    try:
        inverse = inv(scaled)
    except Exception as error:
        if type(error).__name__ != "LinAlgError":  # the array library's error
            raise
        raise SingularError("their matrix is singular") from None
    condition = largest(total(absolute(scaled), axis=2), axis=1) * largest(total(absolute(inverse), axis=2), axis=1)
    worst = float(largest(condition))
    if not worst < 0.1 / float(finfo(b.dtype).eps):
        raise SingularError(f"the condition number of their matrix is {worst:.1e}")
    right = reshape(b, (rows, n, 1)) / high
    found = matmul(inverse, right)
    found = found + matmul(inverse, right - matmul(scaled, found))  # as accurate as elimination
    return reshape(found / reshape(wide, (rows, n, 1)), (-1,))


def _cg(product: Product, b: Tensor, rtol: float, limit: int) -> Tensor:
    """Conjugate gradients.

    Source: Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952.
    """
    x, r = b * 0, b
    p, rr = r, _dot(r, r)
    goal = rtol**2 * rr
    for _ in range(limit):
        if rr <= goal:
            break
        q = compute(product(p))
        curvature = _dot(p, q)
        if not curvature > 0:
            raise SingularError(f"their matrix is not positive definite: it has the curvature {curvature:.1e}")
        step = rr / curvature
        x, r = compute(x + step * p, r - step * q)
        rr, before = _dot(r, r), rr
        p = compute(r + (rr / before) * p)
    return x


def _gmres(product: Product, b: Tensor, rtol: float, limit: int) -> Tensor:
    """Generalised minimal residuals, restarted, the basis made orthogonal twice.

    Source: Saad and Schultz, GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems, 1986.
    """
    x, r, used = b * 0, b, 0
    beta = math.sqrt(_dot(r, r))
    goal = rtol * beta
    while used < limit and beta > goal:
        basis, right = [r / beta], [beta]
        columns: list[list[float]] = []
        turns: list[tuple[float, float]] = []
        while len(columns) < RESTART and used < limit and abs(right[-1]) > goal:
            w = compute(product(basis[-1]))
            used += 1
            spanned = stack(basis)
            h = matmul(spanned, w)
            w = w - matmul(h, spanned)
            again = matmul(spanned, w)
            w, h = compute(w - matmul(again, spanned), h + again)
            below, column = math.sqrt(_dot(w, w)), h.tolist()
            for i, (c, s) in enumerate(turns):
                column[i], column[i + 1] = c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]
            length = math.hypot(column[-1], below)
            if not 0 < length < math.inf:
                break
            c, s = column[-1] / length, below / length
            column[-1] = length
            turns.append((c, s))
            columns.append(column)
            right[-1:] = [c * right[-1], -s * right[-1]]
            if not below:
                break
            basis.append(w / below)
        if not columns:
            break
        weights = _upper(columns, right)
        x = compute(x + matmul(asarray(weights, dtype=b.dtype, device=b.device), stack(basis[: len(weights)])))
        r, before = compute(b - product(x)), beta
        beta = math.sqrt(_dot(r, r))
        if not beta < 0.999 * before:
            break
    return x


def _upper(columns: list[list[float]], right: list[float]) -> list[float]:
    """Solve an upper triangular system, given by its columns."""
    left, found = right[: len(columns)], [0.0] * len(columns)
    for k in reversed(range(len(columns))):
        found[k] = left[k] / columns[k][k]
        for i in range(k):
            left[i] -= columns[k][i] * found[k]
    return found


def _bicgstab(product: Product, b: Tensor, rtol: float, limit: int) -> Tensor:
    """Stabilised biconjugate gradients: the number of vectors does not grow with that of products.

    Source: van der Vorst, Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG, 1992.
    """
    x, r, shadow, p = b * 0, b, b, b
    rho = _dot(shadow, r)
    goal = rtol**2 * rho
    for _ in range(limit // 2):
        v = compute(product(p))
        along = _dot(shadow, v)
        if not rho or not along:
            break
        alpha = rho / along
        s = r - alpha * v
        t = compute(product(s))
        tt = _dot(t, t)
        omega = _dot(t, s) / tt if tt else 0.0
        x, r = compute(x + alpha * p + omega * s, s - omega * t)
        if not _dot(r, r) > goal or not omega:
            break
        rho, before = _dot(shadow, r), rho
        p = compute(r + (rho / before) * (alpha / omega) * (p - omega * v))
    return x
