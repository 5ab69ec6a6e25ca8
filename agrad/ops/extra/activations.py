"""The functions of `torch.nn.functional` that `torch` itself also has; `agrad.nn.functional` has the rest."""

from __future__ import annotations

from typing import Any

from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.ops import nn
from agrad.ops.data_type import astype

__all__ = ["log_softmax", "relu", "sigmoid", "softmax"]


def relu(input: Any) -> Tensor:
    """The positive part, ``max(x, 0)``.

    Returns: Of the same shape and dtype. The derivative at 0 is 0.

    >>> ag.relu(ag.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """
    return nn.relu(input)


def sigmoid(input: Any) -> Tensor:
    """The logistic function, ``1 / (1 + exp(-x))``.

    Returns: Of the shape and dtype of `input`.

    >>> ag.sigmoid(ag.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """
    return nn.sigmoid(input)


def softmax(input: Any, dim: int | None = None, *, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Exponentials that sum to 1 along an axis.

    dim, axis : int
        The axis, under PyTorch's or the standard's name.
    dtype : optional
        Convert to this dtype first.
    Returns: Of the shape of `input`.
    TypeError: If no axis is given.

    >>> ag.softmax(ag.tensor([0.0, 1.0]), dim=0)
    tensor([0.2689, 0.7311])
    """
    return nn.softmax(input if dtype is None else astype(input, dtype, copy=False), axis=_axis("softmax", dim, axis))


def log_softmax(input: Any, dim: int | None = None, *, axis: int | None = None, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`, without overflow or cancellation.

    dim, axis : int
        The axis, under PyTorch's or the standard's name.
    dtype : optional
        Convert to this dtype first.
    Returns: Of the shape of `input`.
    TypeError: If no axis is given.

    >>> ag.log_softmax(ag.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    input = input if dtype is None else astype(input, dtype, copy=False)
    return nn.log_softmax(input, axis=_axis("log_softmax", dim, axis))


def _axis(name: str, dim: int | None, axis: int | None) -> int:
    chosen = axis if dim is None else dim
    if chosen is None:
        raise TypeError(f"{name}() needs the axis to normalise along, as in {name}(x, dim=1){called()}")
    return chosen
