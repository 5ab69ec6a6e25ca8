"""The functions that HIPS autograd adds to NumPy's, or defines differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agrad.numpy as np
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray, eye
from agrad.ops.manipulation import expand_dims

__all__ = ["make_diagonal", "where"]


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return matrices whose diagonals are the last axis of an array; the adjoint of ``diagonal``.

    Parameters
    ----------
    D : Tensor or array
        The diagonals, shape (..., n).
    offset, axis1, axis2 : int
        Only 0, -1 and -2, as in HIPS autograd.

    Returns
    -------
    Tensor
        Shape (..., n, n).

    Raises
    ------
    NotImplementedError
        For any other diagonal.

    Examples
    --------
    >>> make_diagonal([1.0, 2.0], axis1=-1, axis2=-2)
    tensor([[1., 0.],
            [0., 2.]])
    """
    if (offset, axis1, axis2) != (0, -1, -2):
        raise NotImplementedError(f"make_diagonal only supports offset=0, axis1=-1, axis2=-2{called()}")
    D = asarray(D)
    return expand_dims(D, axis=-1) * eye(D.shape[-1], dtype=D.dtype, device=D.device)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Choose between two arrays, or return the positions where a condition holds; arguments may be passed by name.

    Parameters
    ----------
    condition : Tensor or array of bool
        Where to choose `x`.
    x, y : Tensor, array or number, optional
        Both or neither.

    Returns
    -------
    Tensor or tuple of Tensor
        The chosen values; without `x` and `y`, the positions, one array per axis.

    Raises
    ------
    ValueError
        If one of `x` and `y` is missing.

    Examples
    --------
    >>> where(condition=[True, False], x=1.0, y=2.0)
    tensor([1., 2.])
    """
    return chosen(np.where, condition, x, y)


def chosen(where: Callable[..., Any], condition: Any, x: Any = None, y: Any = None) -> Any:
    """Call NumPy's ``where`` or agrad's, which only accept positional arguments."""
    if (x is None) != (y is None):
        raise ValueError(f"either both or neither of x and y should be given{called()}")
    return where(condition) if x is None else where(condition, x, y)
