"""Eigenvalues and eigenvectors."""

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
    mm,
    on_diagonal,
    over_gaps,
    real,
    skew,
)

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = ["eig", "eigh", "eigvals", "eigvalsh"]


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


_PHASE = (
    "{}: The eigenvectors in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss"
    " function depends on this quantity, so it is ill-defined."
)


def _eigh_vjp(xp: Any, g: Any, ans: Any, x_spec: Any) -> Any:
    """Return V (diag(g_w) + skew(V^H g_V) / 2 / (w_j - w_i)) V^H: the Hermitian gradient."""
    w, v = ans
    g_w, g_v = g
    inner = None if g_w is None else on_diagonal(xp, g_w)
    if g_v is None:
        return mm(xp, v * g_w[..., None, :], adjoint(xp, v))
    turned = mm(xp, adjoint(xp, v), g_v)
    mixed = over_gaps(xp, skew(xp, turned) / 2, differences(w))
    inner = mixed if inner is None else inner + mixed
    result = mm(xp, v, inner, adjoint(xp, v))
    if not is_complex(xp, v):
        return result
    phase = xp.imag(diag(xp, turned))[..., None, :]
    return defined(xp, result, phase, g_v, x_spec, _PHASE.format("linalg_eigh_backward"))


def _eigh_jvp(xp: Any, t_x: Any, ans: Any) -> tuple[Any, Any]:
    """Return diag(V^H dA V) and V (V^H dA V / (w_j - w_i)): eigenvectors do not turn in themselves."""
    w, v = ans
    inner = mm(xp, adjoint(xp, v), hermitian(xp, t_x), v)
    return real(xp, diag(xp, inner)), mm(xp, v, over_gaps(xp, inner, differences(w)))


@custom(
    name="linalg.eigh",
    outputs=2,
    vjp={"x": _eigh_vjp},
    jvp=_eigh_jvp,
    source="Giles, An extended collection of matrix derivative results, 2008, section 3.1; Boeddeker et al., 2017",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def _eigh(x: Any, /) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of Hermitian matrices."""


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices, ``x = V diag(w) V^H``.

    x: Floating-point, shape (..., M, M), Hermitian (if real: symmetric).
    Returns: ``eigenvalues``, real, shape (..., M), ascending on the first-party backends, and ``eigenvectors``, the
        columns of matrices of the shape and dtype of `x`.
    RuntimeError:
        In backward, if the loss depends on the phases of complex eigenvectors, which are arbitrary (a lazy backend
        gives NaN). Forward mode cannot detect it: its tangents are those of eigenvectors that do not rotate in
        themselves, ``diag(V^H dV) = 0``.
    `x` is assumed to be Hermitian: libraries use only one triangle (NumPy the lower), and the gradient is Hermitian,
    along changes that keep `x` Hermitian.
    Derivative: ``V (diag(g_w) + F o (V^H g_V - g_V^H V) / 2) V^H`` with ``F_ij = 1 / (w_j - w_i)``. Where eigenvalues
    repeat, eigenvectors are not differentiable: their derivative is inf or NaN. A loss that only depends on the
    eigenvalues keeps its first derivative (of a symmetric function of the repeated ones; otherwise one of several
    subgradients). Its higher derivatives pass through the eigenvectors.
    Source: array API 2025.12, linear algebra; Giles, An extended collection of matrix derivative results, 2008; for
    complex matrices Boeddeker et al., On the computation of complex-valued gradients, 2017.

    >>> x = ag.tensor([[2.0, 1.0], [1.0, 2.0]], requires_grad=True)
    >>> values, vectors = ag.linalg.eigh(x)
    >>> ag.round(values).detach()
    tensor([1., 3.])
    >>> ag.grad(values[1], x)[0]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    return EighResult(*_eigh(x))


def _eigvalsh_vjp(xp: Any, g: Any, x: Any) -> Any:
    _, v = xp.linalg.eigh(x)
    return mm(xp, v * g[..., None, :], adjoint(xp, v))


def _eigvalsh_jvp(xp: Any, t_x: Any, x: Any) -> Any:
    _, v = xp.linalg.eigh(x)
    return real(xp, xp.sum(conj(xp, v) * mm(xp, hermitian(xp, t_x), v), axis=-2))


@custom(
    name="linalg.eigvalsh",
    vjp={"x": _eigvalsh_vjp},
    jvp=_eigvalsh_jvp,
    source="Giles, An extended collection of matrix derivative results, 2008, section 3.1",
    batch=matrices,
    memory="fresh",
    facts=Facts(needs=("linalg", "zero-size reductions"), sparsity="matrices"),
)
def eigvalsh(x: Any, /) -> Tensor:
    """Eigenvalues of Hermitian matrices.

    x: Floating-point, shape (..., M, M), Hermitian (if real: symmetric).
    Returns: Real, shape (..., M), ascending on the first-party backends.
    Derivative: ``V diag(g) V^H``, with the eigenvectors `V` computed in backward. See `eigh` for which triangle counts
    and for repeated eigenvalues.

    >>> x = ag.tensor([[2.0, 1.0], [1.0, 2.0]], requires_grad=True)
    >>> values = ag.linalg.eigvalsh(x)
    >>> ag.round(values).detach()
    tensor([1., 3.])
    >>> ag.grad(values[1], x)[0]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """


def _eig_vjp(xp: Any, g: Any, ans: Any, x_spec: Any) -> Any:
    """Return V^-H (diag(g_w) + (V^H g_V - V^H V diag(Re diag(V^H g_V))) / conj(w_j - w_i)) V^H."""
    w, v = ans
    g_w, g_v = g
    high = adjoint(xp, v)
    if g_v is None:
        return xp.linalg.solve(high, g_w[..., :, None] * high)
    turned = mm(xp, high, g_v)
    along = diag(xp, turned)
    mixed = turned - mm(xp, high, v) * xp.real(along)[..., None, :]
    inner = over_gaps(xp, mixed, xp.conj(differences(w)))
    if g_w is not None:
        inner = inner + on_diagonal(xp, g_w)
    result = xp.linalg.solve(high, mm(xp, inner, high))
    phase = xp.imag(along)[..., None, :]
    return defined(xp, result, phase, g_v, x_spec, _PHASE.format("linalg_eig_backward"))


def _eig_jvp(xp: Any, t_x: Any, ans: Any) -> tuple[Any, Any]:
    """Return diag(P) and the tangent of eigenvectors of norm 1, with P = V^-1 dA V."""
    w, v = ans
    inner = xp.linalg.solve(v, mm(xp, t_x, v))
    moved = mm(xp, v, over_gaps(xp, inner, differences(w)))
    longer = xp.real(xp.sum(xp.conj(v) * moved, axis=-2))
    return diag(xp, inner), moved - v * longer[..., None, :]


@custom(
    name="linalg.eig",
    outputs=2,
    vjp={"x": _eig_vjp},
    jvp=_eig_jvp,
    source="Boeddeker et al., On the computation of complex-valued gradients, 2017, section 4.4",
    batch=matrices,
    memory="fresh",
    facts=Facts(sparsity="matrices", needs=("complex linalg", "zero-size reductions"), since="2025.12"),
)
def _eig(x: Any, /) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of square matrices."""


def eig(x: Any, /) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices, ``x V = V diag(w)``.

    x: Floating-point, real or complex, shape (..., M, M).
    Returns: ``eigenvalues``, complex, shape (..., M), in no particular order, and ``eigenvectors``, complex, the
        columns of matrices of the shape of `x`, each of norm 1.
    RuntimeError:
        In backward, if the loss depends on the phases of the eigenvectors, which are arbitrary (a lazy backend gives
        NaN). Forward mode cannot detect it.
    Derivative: ``V^-H (diag(g_w) + (V^H g_V - V^H V diag(Re diag(V^H g_V))) o conj(F)) V^H`` with
    ``F_ij = 1 / (w_j - w_i)``; of a real matrix the real part.
    Where eigenvalues repeat, the derivative of eigenvectors is inf or NaN; where eigenvectors are dependent, that of
    eigenvalues is infinite too, or an error of the backend. Use `eigh` for Hermitian matrices.
    Source: array API 2025.12, linear algebra; Boeddeker et al., On the computation of complex-valued gradients with
    application to statistically optimum beamforming, 2017.

    >>> x = ag.tensor([[2.0, 1.0], [0.0, 5.0]], requires_grad=True)
    >>> values, vectors = ag.linalg.eig(x)
    >>> ag.real(values).detach()
    tensor([2., 5.])
    >>> ag.grad(ag.real(values)[1], x)[0]
    tensor([[0.0000, 0.0000],
            [0.3333, 1.0000]])
    """
    return EigResult(*_eig(x))


def _eigvals_vjp(xp: Any, g: Any, x: Any) -> Any:
    high = adjoint(xp, xp.linalg.eig(x)[1])
    return xp.linalg.solve(high, g[..., :, None] * high)


def _eigvals_jvp(xp: Any, t_x: Any, x: Any) -> Any:
    v = xp.linalg.eig(x)[1]
    return diag(xp, xp.linalg.solve(v, mm(xp, t_x, v)))


@custom(
    name="linalg.eigvals",
    vjp={"x": _eigvals_vjp},
    jvp=_eigvals_jvp,
    source="Giles, An extended collection of matrix derivative results, 2008, section 3.1",
    batch=matrices,
    memory="fresh",
    facts=Facts(sparsity="matrices", needs=("complex linalg", "zero-size reductions"), since="2025.12"),
)
def eigvals(x: Any, /) -> Tensor:
    """Eigenvalues of square matrices.

    x: Floating-point, real or complex, shape (..., M, M).
    Returns: Complex, shape (..., M), in no particular order.
    Derivative: ``V^-H diag(g) V^H``, with the eigenvectors `V` computed in backward; of a real matrix the real part.
    See `eig` for repeated eigenvalues.

    >>> x = ag.tensor([[0.0, 1.5], [-1.5, 0.0]], requires_grad=True)
    >>> values = ag.linalg.eigvals(x)
    >>> ag.abs(values).detach()
    tensor([1.5000, 1.5000])
    >>> ag.grad(ag.abs(values[0]), x)[0]
    tensor([[ 0.0000,  0.5000],
            [-0.5000,  0.0000]])
    """


complete(globals(), {"x": "Tensor or array"}, source="Source: array API 2025.12, linear algebra; Giles, 2008.")
