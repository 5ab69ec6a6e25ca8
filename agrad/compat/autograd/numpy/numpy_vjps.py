"""Helpers for derivatives of primitives: they reduce a cotangent to the shape of an operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agrad.numpy as np
from agrad.compat.autograd.plain import plain

__all__ = ["unbroadcast", "unbroadcast_f"]


def metadata(value: Any) -> tuple[tuple[int, ...], int, Any, bool]:
    """Return shape, number of axes, dtype, and whether it is complex.

    >>> metadata(1.0)[0]
    ()
    """
    return np.shape(value), np.ndim(value), np.result_type(value), np.iscomplexobj(value)


def unbroadcast(x: Any, target_meta: tuple[Any, ...], broadcast_idx: int = 0) -> Any:
    """Return a cotangent, summed over the axes that its operand was broadcast along; `target_meta` is the operand's `metadata`.

    >>> import agrad as ag
    >>> unbroadcast(ag.ones((2, 3)), metadata(ag.zeros((2, 1))))
    tensor([[3.],
            [3.]])
    """
    shape, rank, _, is_complex = target_meta
    while np.ndim(x) > rank:
        x = np.sum(x, axis=broadcast_idx)
    for axis, size in enumerate(shape):
        if size == 1:
            x = np.sum(x, axis=axis, keepdims=True)
    return np.real(x) if np.iscomplexobj(x) and not is_complex else x


def unbroadcast_f(target: Any, g: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results are reduced to the shape of an operand.

    >>> import agrad as ag
    >>> unbroadcast_f(1.0, lambda g: g * 2)(ag.ones(3))
    tensor(6.)
    """
    wanted = metadata(target)
    return lambda *args, **kwargs: plain(unbroadcast)(g(*args, **kwargs), wanted)
