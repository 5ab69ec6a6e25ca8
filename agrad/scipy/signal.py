"""Signals: convolution and correlation over any number of axes, and linear filters."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agrad import fft
from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.mode import may_look
from agrad.core.tensor import Tensor
from agrad.numpy.common import axis_of, common, floatings, kind_of, numeric
from agrad.numpy.shaping import pad
from agrad.ops.creation import arange, zeros
from agrad.ops.data_type import astype, finfo
from agrad.ops.docs import refer
from agrad.ops.elementwise import conj
from agrad.ops.manipulation import broadcast_to, concat, flip, moveaxis, reshape, stack
from agrad.ops.scipy import signal as ops
from agrad.ops.searching import where
from agrad.ops.solving import solve
from agrad.ops.statistical import any, cumulative_sum, mean, sum

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "detrend",
    "fftconvolve",
    "filtfilt",
    "hilbert",
    "lfilter",
    "lfilter_zi",
    "sosfilt",
]


# -- convolution -------------------------------------------------------------------------------------------------------


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """Return the convolution of two arrays. The derivatives are convolutions and correlations, by the same method.

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
    """Return the cross-correlation of two arrays. The derivatives are convolutions and correlations, by the same method.

    >>> from agrad.scipy.signal import correlate
    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], "same")
    tensor([2.0000, 3.5000, 3.0000])
    """
    x, y = common(*map(numeric, (in1, in2)))
    y = flip(conj(y) if y._spec.is_complex else y)
    return convolve(x, y, mode, method)


def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Tensor:
    """Return the convolution of two matrices. The derivatives are convolutions and correlations.

    >>> from agrad.scipy.signal import convolve2d
    >>> convolve2d([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0]], "same", "wrap")
    tensor([[3., 3.],
            [7., 7.]])
    """
    x, y = common(*map(numeric, (in1, in2)))
    _checked_mode(mode)
    if x.ndim != 2 or y.ndim != 2:
        raise ValueError(f"convolve2d inputs must both be 2-D arrays, not of {x.ndim} and {y.ndim} axes{called()}")
    if boundary not in ("fill", "pad", "wrap", "circular", "symm", "symmetric"):
        raise ValueError(f"Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric'.{called()}")
    if mode == "valid" or not (x.size and y.size):
        return convolve(x, y, mode)
    if boundary in ("fill", "pad"):
        if not isinstance(fillvalue, Tensor) and fillvalue == 0:
            return convolve(x, y, mode)
        kind: dict[str, Any] = {"mode": "constant", "constant_values": fillvalue}
    else:
        kind = {"mode": "wrap" if boundary in ("wrap", "circular") else "symmetric"}
    widths = tuple((n - 1, n - 1) for n in y.shape)
    found = convolve(pad(x, widths, **kind), y, "valid")
    return _cut(found, x.shape, range(2)) if mode == "same" else found


def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Tensor:
    """Return the cross-correlation of two matrices. The derivatives are convolutions and correlations.

    >>> from agrad.scipy.signal import correlate2d
    >>> correlate2d([[1.0, 2.0, 4.0]], [[0.0, 1.0]], "valid")
    tensor([[2., 4.]])
    """
    x, y = common(*map(numeric, (in1, in2)))
    if mode == "valid" and x.ndim == y.ndim == 2 and x.size and y.size and _is_inside(x, y):
        return flip(correlate2d(y, x, mode))  # as SciPy's, which conjugates the smaller one
    turned = flip(conj(y) if y._spec.is_complex else y)
    if mode != "same":
        return convolve2d(x, turned, mode, boundary, fillvalue)
    found = convolve2d(x, turned, "full", boundary, fillvalue)
    return found[_part(2, range(2), [n // 2 for n in y.shape], x.shape)]  # the middle as SciPy has it here


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: int | Sequence[int] | None = None) -> Tensor:
    """Return the convolution of two arrays by Fourier transforms, along some axes.

    It consists of transforms, and so do its derivatives. On Dask the axes are rechunked into one chunk each.

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
    """Return the central part of an array, with a given shape along these axes."""
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


#: The cost of a product in a direct convolution, relative to a transform's ``n log n`` for one of its elements.
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

    The adjoint with respect to `x` is the same recursion backwards in time; the derivatives with respect to
    coefficients are products of its result with earlier elements of `x` and `y` (Oppenheim and Schafer, Discrete-time
    signal processing, 2010). On Dask the axis is rechunked into one chunk.

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
    """Run a filter along the last axis from a state, and return the final state: the response to come without further input."""
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
    """Return signals extended to a length, with zeros at the end."""
    if n <= x.shape[-1]:
        return x
    return concat([x, zeros((*x.shape[:-1], n - x.shape[-1]), dtype=x.dtype, device=x.device)], axis=-1)


def lfilter_zi(b: Any, a: Any) -> Tensor:
    """Return the state of `lfilter` after a long input of ones.

    On NumPy it raises ``LinAlgError`` if the coefficients of the denominator sum to 0.

    >>> from agrad.scipy.signal import lfilter, lfilter_zi
    >>> b, a = [0.5], [1.0, -0.5]
    >>> lfilter(b, a, [1.0, 1.0], zi=lfilter_zi(b, a))
    (tensor([1., 1.]), tensor([0.5000]))
    """
    b, a = common(*floatings(b, a))
    for name, v in (("Numerator", b), ("Denominator", a)):
        if v.ndim != 1 or not v.size:
            raise ValueError(f"{name} coefficients must be a vector, not of shape {v.shape}{called()}")
    n = builtins.max(a.size, b.size)
    b, a = _padded(b, n) / a[0], _padded(a, n) / a[0]
    # the state repeats: z[i] = z[i + 1] + b[i + 1] - a[i + 1] y, with y = z[0] + b[0]
    rest = b[1:] - a[1:] * b[0]
    if n == 1:
        return rest
    first = solve(reshape(sum(a), (1, 1)), reshape(sum(rest), (1,)))  # which raises if there is none
    return flip(cumulative_sum(flip(rest - a[1:] * first)))


def filtfilt(
    b: Any, a: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None, method: str = "pad",
    irlen: int | None = None,
) -> Tensor:  # fmt: skip
    """Return a signal filtered forwards and then backwards, without a phase shift.

    Derivatives are those of `lfilter` and of the initial state of each pass, `lfilter_zi` times the first element.
    Raises NotImplementedError for SciPy's other `method` ("gust", which uses `irlen`).

    >>> from agrad.scipy.signal import filtfilt
    >>> filtfilt([0.5, 0.5], [1.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    tensor([0.0000, 0.5000, 0.2500, 0.0000, 0.0000, 0.0000, 0.2500, 1.0000])
    """
    if method != "pad":
        raise NotImplementedError(f"filtfilt: method is 'pad' here, not {method!r}{called()}")
    if padtype not in ("odd", "even", "constant", None):
        raise ValueError(
            f"Unknown value '{padtype}' given to padtype. padtype must be 'even', 'odd', 'constant', or None.{called()}"
        )
    b, a, x = common(*floatings(b, a, x))
    if not x.ndim:
        raise ValueError(f"the signal must have an axis{called()}")
    axis = axis_of(axis, x.ndim)
    x = moveaxis(x, axis, -1)
    n = 0 if padtype is None else 3 * builtins.max(a.size, b.size) if padlen is None else int(padlen)
    size = x.shape[-1]
    if size <= n:
        raise ValueError(
            f"The length of the input vector x must be greater than padlen, which is {n}, not {size}.{called()}"
        )
    state = lfilter_zi(b, a)
    if n:
        before, after = flip(x[..., 1 : n + 1], axis=-1), flip(x[..., size - 1 - n : size - 1], axis=-1)
        first, last = x[..., :1], x[..., -1:]
        if padtype == "odd":
            before, after = 2 * first - before, 2 * last - after
        elif padtype == "constant":
            before, after = broadcast_to(first, before.shape), broadcast_to(last, after.shape)
        x = concat([before, x, after], axis=-1)
    for _ in range(2):
        x = flip(lfilter(b, a, x, zi=state * x[..., :1])[0], axis=-1)
    return moveaxis(x[..., n : n + size], -1, axis)


def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return a signal filtered by second-order sections, one after the other. Derivatives are those of `lfilter`.

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


# -- other transforms --------------------------------------------------------------------------------------------------


def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Tensor:
    """Return the analytic signal: the signal, and its Hilbert transform as the imaginary part.

    Computed by Fourier transforms, and so are its derivatives: the negative frequencies are left out.

    >>> from agrad.scipy.signal import hilbert
    >>> hilbert([1.0, 0.0, -1.0, 0.0])
    tensor([ 1.+0.j,  0.+1.j, -1.+0.j,  0.-1.j])
    """
    (x,) = floatings(x)
    if x._spec.is_complex:
        raise ValueError(f"x must be real.{called()}")
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis] if N is None else int(N)
    if n <= 0:
        raise ValueError(f"N must be positive.{called()}")
    found = fft.fft(x, n=n, axis=axis)
    place = arange(n, device=x.device)
    factor = where((place == 0) | (2 * place == n), 1.0, where(2 * place < n, 2.0, 0.0))
    factor = astype(factor, x.dtype, copy=False)
    return fft.ifft(found * reshape(factor, (n, *(1 for _ in range(x.ndim - 1 - axis)))), n=n, axis=axis)


def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> Tensor:
    """Return a signal without its mean or its least-squares line. `overwrite_data` has no effect.

    >>> from agrad.scipy.signal import detrend
    >>> detrend([1.0, 2.0, 4.0])
    tensor([ 0.1667, -0.3333,  0.1667])
    """
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError(f"Trend type must be 'linear' or 'constant'.{called()}")
    (x,) = floatings(data)
    axis = axis_of(axis, x.ndim)
    x = moveaxis(x, axis, -1)
    if type in ("constant", "c"):
        return moveaxis(x - mean(x, axis=-1, keepdims=True), -1, axis)
    size = x.shape[-1]
    cuts = sorted({0, size, *([bp] if isinstance(bp, int) else map(int, bp))})
    if cuts[0] < 0 or cuts[-1] > size:
        raise ValueError(f"Breakpoints must be less than length of data along given axis.{called()}")
    parts = []
    for low, high in itertools.pairwise(cuts):
        part, n = x[..., low:high], high - low
        centred = part - mean(part, axis=-1, keepdims=True)
        t = astype(arange(n, device=x.device), finfo(x.dtype).dtype) - (n - 1) / 2
        slope = sum(centred * t, axis=-1, keepdims=True) * (12 / builtins.max(n * (n * n - 1), 1))
        parts.append(centred - slope * t)
    return moveaxis(concat(parts, axis=-1), -1, axis)


refer(globals(), "scipy.signal")

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
