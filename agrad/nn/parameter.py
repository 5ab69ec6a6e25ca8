"""Parameter: a tensor that a module trains."""

from __future__ import annotations

from typing import Any

from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray, empty

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf that is a parameter of the `Module` whose attribute it is.

    Parameters
    ----------
    data : Tensor or array, optional
        The value; a Tensor's is shared (values are immutable), an array's is copied. Default: empty.
    requires_grad : bool, optional
        Whether to train it.

    Raises
    ------
    RuntimeError
        If it requires a gradient but its dtype is neither real nor complex floating point.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Parameter(ag.zeros((2,)))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        if data is None:
            data = empty((0,))
        made = data if isinstance(data, Tensor) else asarray(data, copy=True)
        self._raw, self._spec, self._node = made._raw, made._spec, None
        if requires_grad:
            self.requires_grad = True
