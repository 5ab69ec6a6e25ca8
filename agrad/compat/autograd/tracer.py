"""What HIPS autograd's programs ask of its tracer: whether a value is being differentiated, and the value itself."""

from __future__ import annotations

from typing import Any

from agrad.compat.autograd.primitives import bare, is_followed, notrace_primitive, primitive
from agrad.core.tensor import Tensor

__all__ = ["Box", "getval", "isbox", "notrace_primitive", "primitive"]

#: A value that is being differentiated is a tensor; not every tensor is being differentiated.
Box = Tensor


def isbox(x: Any) -> bool:
    """Return whether a value is a tensor with a history or a tangent: whether it is being differentiated.

    >>> import agrad as ag
    >>> seen = []
    >>> ag.grad(lambda x: seen.append(isbox(x)) or x * x)(3.0)
    np.float64(6.0)
    >>> seen, isbox(3.0)
    ([True], False)
    """
    return is_followed(x)


def getval(x: Any) -> Any:
    """Return the value of a tensor as a plain array, which cannot be written to, and anything else as it is."""
    return bare(x)
