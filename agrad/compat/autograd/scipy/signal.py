"""``autograd.scipy.signal``: its convolution, over some axes of two arrays, with others summed over."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from agrad.compat.autograd.plain import plain
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.numpy.common import common
from agrad.ops.manipulation import permute_dims, reshape
from agrad.ops.statistical import sum
from agrad.scipy import signal

__all__ = ["convolve"]


def _arranged(x: Tensor, kept: Sequence[int], dot: Sequence[int], along: Sequence[int]) -> Tensor:
    return permute_dims(x, (*kept, *dot, *along))


@plain
def convolve(A: Any, B: Any, axes: Any = None, dot_axes: Any = None, mode: str = "full") -> Tensor:
    """Return the convolution of two arrays over pairs of axes, summed over products along others.

    Parameters
    ----------
    A, B : Tensor or array
        The arrays.
    axes : tuple of two sequences of int, optional
        The axes of each that are convolved, in pairs. Default: all.
    dot_axes : tuple of two sequences of int, optional
        The axes of each that are multiplied and summed over, in pairs. Default: none.
    mode : {"full", "same", "valid"}, optional
        As for `agrad.scipy.signal.convolve`.

    Returns
    -------
    Tensor
        The axes of `A` that are in neither, those of `B`, and the convolved ones.

    Raises
    ------
    ValueError
        If shapes do not fit or the mode is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from agrad.compat.autograd.scipy.signal import convolve
    >>> convolve(np.ones((2, 3)), np.ones((4, 2)), axes=([1], [1]), mode="valid").shape
    (2, 4, 2)
    """
    x, y = common(A, B)
    if axes is None and dot_axes is None:
        return signal.convolve(x, y, mode)
    along = tuple(map(tuple, axes)) if axes is not None else (tuple(range(x.ndim)),) * 2
    dots = tuple(map(tuple, dot_axes)) if dot_axes is not None else ((), ())
    if len(along[0]) != len(along[1]) or len(dots[0]) != len(dots[1]):
        raise ValueError(f"axes come in pairs, one of each array{called()}")
    kept = [[i for i in range(v.ndim) if i not in (*a, *d)] for v, a, d in zip((x, y), along, dots, strict=True)]
    x, y = (_arranged(v, k, d, a) for v, k, d, a in zip((x, y), kept, dots, along, strict=True))
    x = reshape(x, (*x.shape[: len(kept[0])], *(1,) * len(kept[1]), *x.shape[len(kept[0]) :]))
    y = reshape(y, (*(1,) * len(kept[0]), *y.shape))
    first = len(kept[0]) + len(kept[1])
    last = first + len(dots[0])
    found = signal.fftconvolve(x, y, mode, range(last, x.ndim)) if along[0] else x * y
    return sum(found, axis=builtins.tuple(range(first, last))) if dots[0] else found
