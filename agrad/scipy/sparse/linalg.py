"""Equations with sparse matrices, direct and iterative, and exponentials of them times vectors.

A matrix is an array of ``scipy.sparse``, a constant; an `agrad.sparse.SparseTensor`, with gradients with respect to its
stored values; or, where SciPy accepts one, a dense matrix or a ``LinearOperator``, a constant. SciPy's solvers find
solutions; derivatives follow from the equations (`agrad.func.implicit`), and solve such equations again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.core.errors import UnsupportedOp, called
from agrad.core.function import Function
from agrad.core.mode import may_look
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.func.implicit import implicit
from agrad.numpy.protocol import to_numpy
from agrad.ops.creation import asarray
from agrad.ops.docs import refer
from agrad.ops.elementwise import abs as absolute
from agrad.ops.linalg import matmul
from agrad.ops.manipulation import matrix_transpose, moveaxis, reshape, stack
from agrad.ops.sparse import SparseTensor, from_scipy, is_sparse
from agrad.ops.statistical import max as largest
from agrad.ops.statistical import sum as total
from agrad.plugin.manager import scipys
from agrad.program.arguments import bare, is_raw, moves
from agrad.scipy.integrate import refuse_lazy

__all__ = ["cg", "expm_multiply", "gmres", "spsolve"]


def _scipys() -> Any:
    return scipys("sparse.linalg")


# -- matrices ---------------------------------------------------------------------------------------------------------


class _Applied(Function):
    """The product of a SciPy linear operator and a vector, or of several as rows."""

    @staticmethod
    def forward(ctx: Any, operator: Any, x: Tensor) -> Tensor:
        ctx.operator = operator
        given = to_numpy(x.detach())
        return asarray(operator.matvec(given) if given.ndim == 1 else operator.matmat(given.T).T, device=x.device)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, Tensor]:
        return None, _Applied.apply(ctx.operator.adjoint(), g)

    @staticmethod
    def jvp(ctx: Any, _: Any, t: Tensor) -> Tensor:
        moved: Tensor = _Applied.apply(ctx.operator, t)
        return moved

    @staticmethod
    def vmap(info: Any, in_dims: Any, operator: Any, x: Tensor) -> tuple[Tensor, int]:
        rows = moveaxis(x, in_dims[1], 0)
        made = _Applied.apply(operator, reshape(rows, (-1, x.shape[-1])))
        return reshape(made, (*rows.shape[:-1], -1)), 0


class _Matrix:
    """A matrix of any supported kind.

    Attributes
    ----------
    parts : tuple of Tensor
        The tensors that have gradients.
    shape : tuple of int
        Rows and columns.
    """

    def __init__(self, what: str, A: Any, *, dense: bool = True) -> None:
        self.parts: tuple[Tensor, ...] = ()
        self.held: Any = A
        if isinstance(A, SparseTensor):
            self.parts = (A.data,)
        elif is_sparse(A):
            self.held = from_scipy(A)
        elif hasattr(A, "matvec") and dense:
            self.operator = A
        elif dense:
            self.parts = (as_operand(A),)
            self.held = None
        else:
            raise TypeError(
                f"{what}: the matrix must be a sparse array or an agrad.sparse.SparseTensor, not {type(A).__name__}{called()}"
            )
        shape = A.shape
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(f"{what}: expected square matrix, not one of shape {tuple(shape)}{called()}")
        self.n = int(shape[0])

    def times(self, x: Tensor, *parts: Tensor) -> Tensor:
        """Return the product with a vector, as a function of the parts."""
        if isinstance(self.held, SparseTensor):
            return self.held._of(*parts) @ x if parts else self.held @ x
        if not parts:
            made: Tensor = _Applied.apply(self.operator, x)
            return made
        return matmul(parts[0], x)

    def host(self, *parts: Tensor) -> Any:
        """Return the form that SciPy accepts."""
        if isinstance(self.held, SparseTensor):
            return (self.held._of(*parts) if parts else self.held).to_scipy()
        return to_numpy(parts[0]) if parts else self.operator


def spsolve(A: Any, b: Any, permc_spec: str | None = None, use_umfpack: bool = True) -> Tensor:
    """Solve equations with a sparse matrix by its factors.

    `A` may be an `agrad.sparse.SparseTensor`; `b` is dense. The factors are SuperLU's, and are reused for the
    derivatives; `permc_spec` and `use_umfpack`, which select SciPy's algorithm, have no effect. A singular matrix
    raises ``LinAlgError``.
    Derivative: ``A^-H g`` with respect to `b`, and the stored entries of ``-(A^-H g) x^H`` with respect to the stored
    values.

    >>> import agrad as ag
    >>> from scipy.sparse import csr_array
    >>> from agrad.scipy.sparse.linalg import spsolve
    >>> A = csr_array([[2.0, 1.0], [0.0, 4.0]])
    >>> b = ag.tensor([4.0, 4.0], requires_grad=True)
    >>> x = spsolve(A, b)
    >>> x.detach(), ag.grad(x.sum(), b)[0]
    (tensor([1.5000, 1.0000]), tensor([0.5000, 0.1250]))
    """
    if is_sparse(b):
        raise TypeError(f"spsolve: a sparse right side is not supported: pass b.toarray(){called()}")
    matrix, b = _Matrix("spsolve", A, dense=False), as_operand(b)
    found: Tensor = matrix.held.solve(b)
    return reshape(found, (-1,)) if b.ndim == 2 and b.shape[1] == 1 else found


# -- iterations -------------------------------------------------------------------------------------------------------


def _iterated(what: str, A: Any, b: Any, x0: Any, linear: str, options: dict[str, Any]) -> tuple[Any, int]:
    """Return the result of a SciPy solver, differentiable with respect to the matrix and the right side, and its report."""
    matrix = _Matrix(what, A)
    raw = is_raw(b, *matrix.parts)
    right = as_operand(b)
    if right.shape not in ((matrix.n,), (matrix.n, 1)):
        raise ValueError(
            f"{what}: a matrix of shape {(matrix.n,) * 2} and a right side of shape {right.shape}{called()}"
        )
    right = reshape(right, (-1,))
    refuse_lazy(f"sparse.linalg.{what}", (right, matrix.parts))
    mapped = [part._spec.backend for part in (right, *matrix.parts) if part._spec.backend.is_batched]
    if mapped:
        raise UnsupportedOp(
            f"scipy.sparse.linalg.{what}",
            mapped[0].name,
            "each example takes its own number of steps: vmap maps spsolve and SparseTensor.solve, or call it for one"
            " example after the other",
        )
    start = None if x0 is None else to_numpy(as_operand(x0).detach())
    if isinstance(options["M"], SparseTensor):
        options["M"] = options["M"].to_scipy()

    def solve(b: Tensor, *parts: Tensor) -> tuple[Any, int]:
        found, info = getattr(_scipys(), what)(matrix.host(*parts), to_numpy(b), start, **options)
        return asarray(found, device=b.device), int(info)

    if not moves((right, matrix.parts)):
        found, info = solve(right, *matrix.parts)
        return bare(found) if raw else found, info
    solved = implicit(solve, lambda x, b, *parts: matrix.times(x, *parts) - b, has_aux=True, linear=linear)
    return solved(right, *matrix.parts)


def cg(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None,
    callback: Callable[..., Any] | None = None,
) -> tuple[Any, int]:  # fmt: skip
    """Solve equations with a symmetric, positive definite matrix by conjugate gradients.

    `A` may be an `agrad.sparse.SparseTensor` or a dense tensor. The derivatives solve equations with `A` by conjugate
    gradients, without `M`, to ten digits. Raises ImplicitError if a result is differentiated that is not a solution:
    ``rtol`` is too large, or `maxiter` too small. UnsupportedOp on lazy arrays, and under `vmap`.
    Derivative: ``A^-1 g`` by `b`, and ``-(A^-1 g) x^H`` by the entries of `A`, or by those that are stored.

    >>> import agrad as ag
    >>> from agrad.scipy.sparse.linalg import cg
    >>> A = ag.tensor([[2.0, 0.0], [0.0, 4.0]], requires_grad=True)
    >>> x, info = cg(A, ag.tensor([4.0, 4.0]), rtol=1e-10)
    >>> x.detach(), ag.grad(x.sum(), A)[0]
    (tensor([2., 1.]), tensor([[-1.0000, -0.5000],
            [-0.5000, -0.2500]]))
    """
    options = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "M": M, "callback": callback}
    return _iterated("cg", A, b, x0, "cg", options)


def gmres(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, restart: int | None = None,
    maxiter: int | None = None, M: Any = None, callback: Callable[..., Any] | None = None, callback_type: str | None = None,
) -> tuple[Any, int]:  # fmt: skip
    """Solve equations with any matrix by generalised minimal residuals.

    `A` may be an `agrad.sparse.SparseTensor` or a dense tensor. The derivatives solve equations with `A` and its
    adjoint in the same way, without `M`, to ten digits; a ``LinearOperator`` needs ``rmatvec`` for that. Raises
    ImplicitError if a
    result is differentiated that is not a solution: ``rtol`` is too large, or `maxiter` too small. UnsupportedOp on
    lazy arrays, and under `vmap`.
    Derivative: ``A^-H g`` by `b`, and ``-(A^-H g) x^H`` by the entries of `A`, or by those that are stored.

    >>> import agrad as ag
    >>> from scipy.sparse import csr_array
    >>> from agrad.scipy.sparse.linalg import gmres
    >>> b = ag.tensor([4.0, 4.0], requires_grad=True)
    >>> x, info = gmres(csr_array([[2.0, 1.0], [0.0, 4.0]]), b, rtol=1e-10)
    >>> x.detach(), ag.grad(x.sum(), b)[0]
    (tensor([1.5000, 1.0000]), tensor([0.5000, 0.1250]))
    """
    options = {
        "rtol": rtol, "atol": atol, "restart": restart, "maxiter": maxiter, "M": M, "callback": callback, "callback_type": callback_type,
    }  # fmt: skip
    return _iterated("gmres", A, b, x0, "gmres", options)


# -- exponentials -----------------------------------------------------------------------------------------------------

#: The largest norm of a matrix for which a series of this many terms gives its exponential in double precision. Source:
#: Al-Mohy and Higham, Computing the action of the matrix exponential, 2011, table 3.1.
_REACH = {5: 2.4e-3, 10: 1.4e-1, 15: 6.4e-1, 20: 1.4, 25: 2.4, 30: 3.5, 35: 4.7, 40: 6.0, 45: 7.2, 50: 8.5, 55: 9.9}


def expm_multiply(
    A: Any, B: Any, start: float | None = None, stop: float | None = None, num: int | None = None, endpoint: bool | None = None,
    traceA: Any = None,
) -> Tensor:  # fmt: skip
    """Multiply vectors by the exponential of a matrix, or of the matrix times each of several times.

    `A` may be an `agrad.sparse.SparseTensor`; ``start``, ``stop`` and `num` are numbers. It runs the series of SciPy's
    algorithm in as many scaled steps as the norm of `A` requires, written in products, which are all recorded. The norm
    must be known: UnsupportedOp if the entries of `A` are lazy, or mapped over.
    Derivative: that of the products.

    >>> import agrad as ag
    >>> from scipy.sparse import csr_array
    >>> from agrad.scipy.sparse.linalg import expm_multiply
    >>> B = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> y = expm_multiply(csr_array([[0.0, 1.0], [0.0, 0.0]]), B)
    >>> y.detach(), ag.grad(y.sum(), B)[0]
    (tensor([3., 2.]), tensor([1., 2.]))
    """
    matrix, B = _Matrix("expm_multiply", A), as_operand(B)
    if B.ndim not in (1, 2) or B.shape[0] != matrix.n:
        raise ValueError(
            f"expm_multiply: a matrix of shape {(matrix.n,) * 2} and an array of shape {B.shape}{called()}"
        )
    parts = matrix.parts
    norm, mean = _size(matrix, traceA)

    def moved(t: float, x: Tensor) -> Tensor:
        terms, steps = min(
            ((m, max(1, math.ceil(abs(t) * norm / reach))) for m, reach in _REACH.items()), key=math.prod
        )
        shift = _exponential(mean * t / steps)
        for _ in range(steps):
            term = x
            for k in range(1, terms + 1):
                term = (_columns(matrix, term, parts) - mean * term) * (t / (steps * k))
                x = x + term
            x = x * shift
        return x

    if start is None and stop is None and num is None and endpoint is None:
        return moved(1.0, B)
    found, at = [], 0.0
    for t in _times(start, stop, num, endpoint):
        B, at = (moved(t - at, B) if t != at else B), t
        found.append(B)
    return stack(found)


def _columns(matrix: _Matrix, x: Tensor, parts: tuple[Tensor, ...]) -> Tensor:
    """Return the product with a vector or the columns of a matrix."""
    if x.ndim == 1 or parts or isinstance(matrix.held, SparseTensor):
        return matrix.times(x, *parts)
    return matrix_transpose(matrix.times(matrix_transpose(x)))


def _exponential(power: Any) -> Any:
    return math.exp(power) if isinstance(power, float) else math.e**power


def _times(start: Any, stop: Any, num: int | None, endpoint: bool | None) -> list[float]:
    """Return the times in the form of NumPy's linspace, which SciPy passes them to."""
    if start is None or stop is None:
        raise ValueError(f"expm_multiply: start and stop belong together{called()}")
    count, last = 50 if num is None else num, endpoint is not False
    step = (stop - start) / max(1, count - last)
    return [start + k * step for k in range(count)]


def _size(matrix: _Matrix, trace: Any) -> tuple[float, Any]:
    """Return, as numbers, the mean of a matrix's diagonal, and the 1-norm of the matrix minus this mean, or a bound of it."""
    n = max(1, matrix.n)
    for part in matrix.parts:
        if not may_look(part._spec.backend):
            raise UnsupportedOp(
                "scipy.sparse.linalg.expm_multiply",
                part._spec.backend.name,
                "how many steps there are depends on the norm of the matrix: compute() it, and map over B alone",
            )
    if isinstance(matrix.held, SparseTensor):
        fixed = matrix.held._of(matrix.held.data.detach())
        mean = total(fixed.diagonal()).item() / n
        bound = largest(fixed._of(absolute(fixed.data)).sum(0)).item() if n else 0.0
    elif matrix.parts:
        entries = matrix.parts[0].detach()
        mean = total(entries.diagonal()).item() / n
        bound = largest(total(absolute(entries), axis=0)).item()
    else:
        mean = 0.0 if trace is None else trace / n
        bound = float(_scipys().onenormest(matrix.operator))
    return float(bound) + abs(mean), mean


refer(globals(), "scipy.sparse.linalg")

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
