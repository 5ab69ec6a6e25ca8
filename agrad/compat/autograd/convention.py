"""The choice between two conventions for the gradients of complex arguments.

For a real function of ``z = x + iy`` agrad computes ``df/dx + i df/dy``, like PyTorch: the direction of steepest
ascent. HIPS autograd computes its conjugate, ``df/dx - i df/dy``, and its vector-Jacobian products take and return
cotangents in the same form, so that a holomorphic function has the gradient ``f'(z)``. Here the second convention is
the default.
"""

from __future__ import annotations

from typing import Any

from agrad import tree
from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.mode import guard, not_recorded
from agrad.core.tensor import Tensor
from agrad.ops.elementwise import conj

__all__ = ["complex_convention", "set_complex_convention"]

CONVENTIONS = ("autograd", "pytorch")

_chosen = "autograd"


def set_complex_convention(convention: str) -> None:
    """Choose the convention of complex gradients for `agrad.compat.autograd`.

    Parameters
    ----------
    convention : {"autograd", "pytorch"}
        HIPS autograd's, ``df/dx - i df/dy``; or PyTorch's and agrad's own, ``df/dx + i df/dy``.

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.compat import autograd
    >>> autograd.grad(lambda z: ag.real(z * z))(1 + 2j)
    np.complex128(2+4j)
    >>> autograd.set_complex_convention("pytorch")
    >>> autograd.grad(lambda z: ag.real(z * z))(1 + 2j)
    np.complex128(2-4j)
    >>> autograd.set_complex_convention("autograd")
    """
    global _chosen  # noqa: PLW0603 (the one process-wide choice)
    if convention not in CONVENTIONS:
        raise ValueError(f"the convention is one of {', '.join(CONVENTIONS)}, not {convention!r}{called()}")
    not_recorded("the convention of complex gradients is set")
    _chosen = convention


def complex_convention() -> str:
    """Return the convention that complex gradients follow.

    Returns
    -------
    str
        ``"autograd"`` or ``"pytorch"``.
    """
    return _chosen


def turned(container: Any) -> Any:
    """Convert cotangents between agrad's convention and the chosen one: the conversion is its own inverse."""
    guard(complex_convention, "the convention of complex gradients")
    if _chosen == "pytorch":
        return container
    return tree.map(_turned, container) if not isinstance(container, Tensor) else _turned(container)


def _turned(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return conj(leaf) if leaf._spec.is_complex else leaf
    if isinstance(leaf, complex) or ((owner := backend_of(leaf)) is not None and owner.kind(leaf.dtype) == "complex"):
        return leaf.conjugate()
    return leaf
