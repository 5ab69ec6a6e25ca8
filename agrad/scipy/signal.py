"""Signals: convolution and correlation over any number of axes, and linear filters."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agrad import fft
from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.mode import may_look
from agrad.core.tensor import Tensor
from agrad.numpy.common import axis_of, common, floatings, kind_of, numeric
from agrad.ops.creation import zeros
from agrad.ops.elementwise import conj
from agrad.ops.manipulation import broadcast_to, concat, flip, moveaxis, stack
from agrad.ops.scipy import signal as ops
from agrad.ops.statistical import any

__all__ = ["convolve", "correlate", "fftconvolve", "lfilter", "sosfilt"]


# -- convolution -------------------------------------------------------------------------------------------------------


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """Return the convolution of two arrays.

    Parameters
    ----------
    in1, in2 : Tensor or array
        Of as many axes each.
    mode : {"full", "same", "valid"}, optional
        All sums; those in the middle, as many as `in1` has elements; those for which the two overlap wholly.
    method : {"auto", "direct", "fft"}, optional
        By products, by `fftconvolve`, or by what is estimated to be faster.

    Returns
    -------
    Tensor
        Of the dtype that both promote to.

    Raises
    ------
    ValueError
        If the numbers of axes differ, a mode or method is unknown, or in "valid" neither contains the other.

    Notes
    -----
    The derivatives are convolutions and correlations, by the same method.

    Examples
    --------
    >>> from agrad.scipy.signal import convolve
    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    tensor([0.0000, 1.0000, 2.5000, 4.0000, 1.5000])
    """
    x, y = common(*map(numeric, (in1, in2)))
    _checked_mode(mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"Acceptable method flags are 'auto', 'direct', or 'fft'.{called()}")
    if x.ndim != y.ndim:
        raise ValueError(f"volume and kernel should have the same dimensionality{called()}")
    if not x.ndim:
        return x * y
    if not x.size or not y.size:
        return _none(x)
    if mode == "valid" and _is_inside(x, y):
        x, y = y, x
    if method == "fft" or (method == "auto" and _is_better_by_transforms(x, y, mode)):
        return fftconvolve(x, y, mode)
    if mode == "valid":
        return ops.correlate_valid(x, flip(y))
    return _cut(ops.convolve_full(x, y), x.shape, range(x.ndim)) if mode == "same" else ops.convolve_full(x, y)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """Return the cross-correlation of two arrays: the convolution with the second one conjugated and turned around.

    Arguments, result, errors and derivatives are those of `convolve`.

    Examples
    --------
    >>> from agrad.scipy.signal import correlate
    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], "same")
    tensor([2.0000, 3.5000, 3.0000])
    """
    x, y = common(*map(numeric, (in1, in2)))
    y = flip(conj(y) if y._spec.is_complex else y)
    return convolve(x, y, mode, method)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: int | Sequence[int] | None = None) -> Tensor:
    """Return the convolution of two arrays by Fourier transforms, along some axes.

    Parameters
    ----------
    in1, in2 : Tensor or array
        Of as many axes each.
    mode : {"full", "same", "valid"}, optional
        As for `convolve`.
    axes : int or sequence of int, optional
        Which axes to convolve over; the others broadcast. Default: all.

    Returns
    -------
    Tensor
        Floating.

    Raises
    ------
    ValueError
        If shapes do not fit, the mode is unknown, or in "valid" neither contains the other.

    Notes
    -----
    Made of transforms, and so are its derivatives. On Dask the axes are brought into one chunk each.

    Examples
    --------
    >>> from agrad.scipy.signal import fftconvolve
    >>> fftconvolve([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0]], axes=1)
    tensor([[1., 3., 2.],
            [3., 7., 4.]])
    """
    x, y = common(*floatings(in1, in2))
    _checked_mode(mode)
    if x.ndim != y.ndim:
        raise ValueError(f"in1 and in2 should have the same dimensionality{called()}")
    if not x.ndim:
        return x * y
    if not x.size or not y.size:
        return _none(x)
    along = range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    places = sorted({axis_of(axis, x.ndim) for axis in along})
    if not places:
        raise ValueError(f"when provided, axes cannot be empty{called()}")
    for axis, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)):
        if axis not in places and n != m and 1 not in (n, m):
            raise ValueError(f"incompatible shapes for in1 and in2: {x.shape} and {y.shape}{called()}")
    if mode == "valid" and _is_inside(x, y, places):
        x, y = y, x
    full = [x.shape[i] + y.shape[i] - 1 for i in places]
    sizes = [_fast_length(n) for n in full]
    if x._spec.is_complex:
        found = fft.ifftn(fft.fftn(x, s=sizes, axes=places) * fft.fftn(y, s=sizes, axes=places), s=sizes, axes=places)
    else:
        found = fft.irfftn(
            fft.rfftn(x, s=sizes, axes=places) * fft.rfftn(y, s=sizes, axes=places), s=sizes, axes=places
        )
    found = found[_part(found.ndim, places, [0] * len(places), full)]
    if mode == "full":
        return found
    wanted = x.shape if mode == "same" else [n - m + 1 for n, m in zip(x.shape, y.shape, strict=True)]
    return _cut(found, wanted, places)


def _checked_mode(mode: str) -> None:
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"acceptable mode flags are 'valid', 'same', or 'full'{called()}")


def _none(x: Tensor) -> Tensor:
    return zeros((0,), dtype=x.dtype, device=x.device)


def _is_inside(x: Tensor, y: Tensor, axes: Sequence[int] | None = None) -> bool:
    """Return whether the first of two arrays is the smaller one."""
    pairs = [(x.shape[i], y.shape[i]) for i in (range(x.ndim) if axes is None else axes)]
    if all(n >= m for n, m in pairs):
        return False
    if all(n <= m for n, m in pairs):
        return True
    raise ValueError(
        f"For 'valid' mode, one must be at least as large as the other in every dimension, not {x.shape} and {y.shape}"
        f"{called()}"
    )


def _part(rank: int, axes: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    key = [slice(None)] * rank
    for axis, start, n in zip(axes, starts, sizes, strict=True):
        key[axis] = slice(start, start + n)
    return tuple(key)


def _cut(found: Tensor, shape: Sequence[int], axes: Sequence[int]) -> Tensor:
    """Return the middle of an array, of a shape along these axes."""
    sizes = [shape[i] for i in axes]
    starts = [(found.shape[i] - n) // 2 for i, n in zip(axes, sizes, strict=True)]
    return found[_part(found.ndim, axes, starts, sizes)]


def _fast_length(n: int) -> int:
    """Return the next number without prime factors above 5."""
    while True:
        rest = n
        for p in (2, 3, 5):
            while rest % p == 0:
                rest //= p
        if rest == 1:
            return n
        n += 1


#: What a product of a direct convolution costs, of a transform's ``n log n`` for one of its elements.
_DIRECT, _START = 1 / 25, 50_000


def _is_better_by_transforms(x: Tensor, y: Tensor, mode: str) -> bool:
    """Estimate whether transforms are faster: never for integers, and for lazy values, which they bring into one chunk, late."""
    if kind_of(x) in ("bool", "int"):
        return False
    if x._spec.backend.is_lazy:
        return builtins.min(x.size, y.size) > 64
    products = x.size * y.size
    length = math.prod(n + m - 1 for n, m in zip(x.shape, y.shape, strict=True))
    return (products - _START) * _DIRECT > length * math.log2(length + 1)


# -- filters -----------------------------------------------------------------------------------------------------------


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return a signal filtered by a rational transfer function.

    Parameters
    ----------
    b, a : Tensor or array
        Vectors: the coefficients of the numerator and of the denominator. ``a[0]``, which divides all, is not 0.
    x : Tensor or array
        The signal, of any shape.
    axis : int, optional
        Along which axis.
    zi : Tensor or array, optional
        The state before: like `x`, with ``max(len(a), len(b)) - 1`` elements along the axis. Default: zeros.

    Returns
    -------
    y : Tensor
        Of the shape of `x`.
    zf : Tensor
        The state behind, if `zi` is given.

    Raises
    ------
    ValueError
        If coefficients are no vectors or empty, ``a[0]`` is 0, or the shape of `zi` does not fit.

    Notes
    -----
    ``y[n] = (b[0] x[n] + ... + b[M] x[n - M] - a[1] y[n - 1] - ... - a[N] y[n - N]) / a[0]``, in which the states are those of
    the transposed direct form II, as SciPy's. The adjoint by `x` is the same recursion backwards in time; the derivatives by
    coefficients are products of its result with earlier elements of `x` and `y` (Oppenheim and Schafer, Discrete-time signal
    processing, 2010). On Dask the axis is brought into one chunk.

    Examples
    --------
    >>> from agrad.scipy.signal import lfilter
    >>> lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0])
    tensor([1.0000, 0.5000, 0.2500])
    """
    given = common(*floatings(b, a, x)) if zi is None else common(*floatings(b, a, x, zi))
    b, a, x = given[:3]
    for name, v in (("b", b), ("a", a)):
        if v.ndim != 1 or not v.size:
            raise ValueError(f"{name} must be a vector that is not empty, not of shape {v.shape}{called()}")
    if may_look(a._spec.backend) and bool(any(a.detach()[:1] == 0)):
        raise ValueError(f"a[0] must not be 0{called()}")
    if not x.ndim:
        raise ValueError(f"the signal must have an axis{called()}")
    axis = axis_of(axis, x.ndim)
    x = moveaxis(x, axis, -1)
    b, a = b / a[0], a[1:] / a[0]
    if zi is None:
        if not x.size:
            return moveaxis(x, -1, axis)
        found = ops.fir(b, x)
        return moveaxis(ops.all_pole(a, found) if a.size else found, -1, axis)
    state = moveaxis(given[3], axis, -1) if given[3].ndim == x.ndim else given[3]
    order = builtins.max(b.size - 1, a.size)
    try:
        state = broadcast_to(state, (*x.shape[:-1], order))
    except ValueError:
        expected = [*x.shape[:-1]]
        expected.insert(axis, order)
        raise ValueError(
            f"Unexpected shape for zi: expected {tuple(expected)}, found {given[3].shape}.{called()}"
        ) from None
    y, state = _filtered(b, a, x, state) if x.size else (x, state)
    return moveaxis(y, -1, axis), moveaxis(state, -1, axis)


def _filtered(b: Tensor, a: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run a filter along the last axis from a state, and return the state behind: what would still come without input."""
    size, order = x.shape[-1], state.shape[-1]
    rest = _padded(state, builtins.max(size + order, order))
    found = ops.fir(b, x) + rest[..., :size]
    y = ops.all_pole(a, found) if a.size else found
    last = builtins.min(size, order)
    after = ops.fir(b, _padded(x[..., size - last :], last + order))[..., last:] + rest[..., size : size + order]
    if a.size and order:
        zero = zeros((1,), dtype=a.dtype, device=a.device)
        after = after - ops.fir(concat([zero, a]), _padded(y[..., size - last :], last + order))[..., last:]
    return y, after


def _padded(x: Tensor, n: int) -> Tensor:
    """Return signals of a length, with zeros at the end."""
    if n <= x.shape[-1]:
        return x
    return concat([x, zeros((*x.shape[:-1], n - x.shape[-1]), dtype=x.dtype, device=x.device)], axis=-1)


def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return a signal filtered by second-order sections, one after the other.

    Parameters
    ----------
    sos : Tensor or array
        Shape (S, 6): ``b0, b1, b2, a0, a1, a2`` of each section; ``a0`` is 1.
    x : Tensor or array
        The signal, of any shape.
    axis : int, optional
        Along which axis.
    zi : Tensor or array, optional
        The states before, shape (S, ..., 2, ...), the 2 in the place of the axis. Default: zeros.

    Returns
    -------
    y : Tensor
        Of the shape of `x`.
    zf : Tensor
        The states behind, if `zi` is given.

    Raises
    ------
    ValueError
        If a shape does not fit, or an ``a0`` is not 1.

    Examples
    --------
    >>> from agrad.scipy.signal import sosfilt
    >>> sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], [1.0, 0.0, 0.0])
    tensor([1.0000, 0.5000, 0.2500])
    """
    given = common(*floatings(sos, x)) if zi is None else common(*floatings(sos, x, zi))
    sos, x = given[:2]
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ValueError(f"sos array must be shape (n_sections, 6), not {sos.shape}{called()}")
    if may_look(sos._spec.backend) and bool(any(sos.detach()[:, 3] != 1)):
        raise ValueError(f"sos[:, 3] should be all ones{called()}")
    axis = axis_of(axis, x.ndim)
    sections = sos.shape[0]
    if zi is None:
        for i in range(sections):
            x = lfilter(sos[i, :3], sos[i, 3:], x, axis)
        return x
    expected = (sections, *x.shape[:axis], 2, *x.shape[axis + 1 :])
    if given[2].shape != expected:
        raise ValueError(f"Invalid zi shape. With axis={axis}, zi must be {expected}, not {given[2].shape}.{called()}")
    states = []
    for i in range(sections):
        x, state = lfilter(sos[i, :3], sos[i, 3:], x, axis, given[2][i, ...])
        states.append(state)
    return x, stack(states)


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
