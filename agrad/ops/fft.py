"""Fourier transforms of the standard: the ``fft`` extension.

A transform is linear, so its rule is its adjoint: the inverse transform with the normalisation swapped, followed by the
adjoint of zero-padding or trimming. Where half a spectrum represents a whole one, frequencies that have a conjugate
partner count twice; frequency 0, and for even lengths the highest, have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agrad.core.cotangents import beside
from agrad.core.declare import linear, primitive
from agrad.core.facts import Facts
from agrad.core.tensor import Tensor
from agrad.ops.batch_rules import BatchedCall, along, places
from agrad.ops.creation import arange
from agrad.ops.docs import complete
from agrad.plugin import manager

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

#: The normalisation of the adjoint. NumPy takes None for "backward".
_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho", None: "forward"}


def _resized(xp: Any, g: Any, axis: int, size: int) -> Any:
    """Trim or zero-pad an axis at its end: the adjoint of zero-padding or trimming it."""
    extra = size - g.shape[axis]
    if extra == 0:
        return g
    if extra < 0:
        return g[(*(slice(None),) * axis, slice(0, size), ...)]
    zeros = xp.zeros((*g.shape[:axis], extra, *g.shape[axis + 1 :]), dtype=g.dtype, **beside(g))
    return xp.concat([g, zeros], axis=axis)


def _restored(xp: Any, g: Any, spec: Any, axes: Sequence[int]) -> Any:
    """Bring every transformed axis back to its length in the operand."""
    for axis in axes:
        g = _resized(xp, g, axis, spec.shape[axis])
    return g


def _paired(xp: Any, g: Any, axis: int, n: int, factor: float) -> Any:
    """Multiply the frequencies of half a spectrum that have a partner in the other half, of `n` in all."""
    k = xp.arange(g.shape[axis], **beside(g))
    inner = xp.reshape((k > 0) & (2 * k < n), (-1,) + (1,) * (g.ndim - axis - 1))
    return xp.where(inner, g * factor, g)


def _place(spec: Any, axis: int) -> int:
    return axis % len(spec.shape)


def _places(spec: Any, s: Any, axes: Any) -> tuple[int, ...]:
    """The axes of a transform over several, not negative."""
    rank = len(spec.shape)
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    places = tuple(int(a) % rank for a in axes)
    if len(set(places)) != len(places):
        raise ValueError(f"a transform over axes {places} has no gradient: the axes must be distinct")
    return places


# -- whole spectra ----------------------------------------------------------------------------------------------------


def _fft_adjoint(xp: Any, g: Any, x_spec: Any, axis: int, norm: Any) -> Any:
    return _restored(xp, xp.fft.ifft(g, axis=axis, norm=_SWAPPED[norm]), x_spec, [_place(x_spec, axis)])


@linear(
    name="fft.fft",
    x=_fft_adjoint,
    batch=along,
    least_axes=1,
    memory="fresh",
    facts=Facts(needs=("fft",), sparsity="along"),
)
def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", dim: int | None = None) -> Tensor:
    """Discrete Fourier transform along an axis, ``sum(x[j] * exp(-2j * pi * j * k / n))``.

    x: Complex (real, where the backend allows it).
    axis: The axis. Default: the last.
    norm: Divide by 1, by ``sqrt(n)``, or by `n`.
    Returns: Complex, with length `n` along the axis.
    ValueError: If `n` is not positive or `norm` is unknown.
    Array API 2025.12, section ``fft``. For real `x` the gradient is real: the real part of the complex one.

    >>> ag.fft.fft(ag.asarray([1 + 0j, 2 + 0j]))
    tensor([ 3.+0.j, -1.+0.j])
    """


def _ifft_adjoint(xp: Any, g: Any, x_spec: Any, axis: int, norm: Any) -> Any:
    return _restored(xp, xp.fft.fft(g, axis=axis, norm=_SWAPPED[norm]), x_spec, [_place(x_spec, axis)])


@linear(
    name="fft.ifft",
    x=_ifft_adjoint,
    batch=along,
    least_axes=1,
    memory="fresh",
    facts=Facts(needs=("fft",), sparsity="along"),
)
def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", dim: int | None = None) -> Tensor:
    """Inverse of `fft` along an axis, ``sum(x[k] * exp(2j * pi * j * k / n)) / n``.

    x, n, axis: As for `fft`.
    norm: Divide by `n`, by ``sqrt(n)``, or by 1.
    Returns: Complex, with length `n` along the axis.
    Array API 2025.12, section ``fft``.

    >>> ag.fft.ifft(ag.asarray([3 + 0j, -1 + 0j]))
    tensor([1.+0.j, 2.+0.j])
    """


def _fftn_adjoint(xp: Any, g: Any, x_spec: Any, s: Any, axes: Any, norm: Any) -> Any:
    axes = _places(x_spec, s, axes)
    return _restored(xp, xp.fft.ifftn(g, axes=axes, norm=_SWAPPED[norm]), x_spec, axes)


def _fftn_batch(b: BatchedCall, x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    if axes is None and s is not None:
        axes = tuple(range(-len(s), 0))
    found = places(axes, x.ndim)
    if s is None and not found:
        return b.data(x)
    if s is None:
        s = [b.data(x).shape[i] for i in found]
        if b.name == "fft.irfftn":
            s[-1] = 2 * (s[-1] - 1)
    return b.kernel(b.data(x), s=s, axes=found, norm=norm)


@linear(
    name="fft.fftn", x=_fftn_adjoint, batch=_fftn_batch, memory="fresh", facts=Facts(needs=("fft",), sparsity="along")
)
def fftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    dim: Sequence[int] | None = None,
) -> Tensor:
    """Discrete Fourier transform over several axes.

    x: Complex (real, where the backend allows it).
    s: A length per axis: `x` is zero-padded or trimmed to it; -1 keeps the axis's length. Needs `axes`.
    axes: The axes, each once. Default: all.
    norm: Divide by 1, by ``sqrt(n)``, or by `n`, the product of the lengths.
    Returns: Complex, with lengths `s` along the axes.
    ValueError: If a length is not positive, `norm` is unknown, or, for a gradient, an axis is named twice. Array API
    2025.12, section ``fft``.

    >>> ag.fft.fftn(ag.asarray([[1 + 0j, 2 + 0j], [3 + 0j, 4 + 0j]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """


def _ifftn_adjoint(xp: Any, g: Any, x_spec: Any, s: Any, axes: Any, norm: Any) -> Any:
    axes = _places(x_spec, s, axes)
    return _restored(xp, xp.fft.fftn(g, axes=axes, norm=_SWAPPED[norm]), x_spec, axes)


@linear(
    name="fft.ifftn", x=_ifftn_adjoint, batch=_fftn_batch, memory="fresh", facts=Facts(needs=("fft",), sparsity="along")
)
def ifftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    dim: Sequence[int] | None = None,
) -> Tensor:
    """Inverse of `fftn`.

    x, s, axes: As for `fftn`.
    norm: Divide by `n`, the product of the lengths, by ``sqrt(n)``, or by 1.
    Returns: Complex, with lengths `s` along the axes.
    Array API 2025.12, section ``fft``.

    >>> ag.fft.ifftn(ag.asarray([[10 + 0j, -2 + 0j], [-4 + 0j, 0j]]))
    tensor([[1.+0.j, 2.+0.j],
            [3.+0.j, 4.+0.j]])
    """


# -- half spectra -----------------------------------------------------------------------------------------------------


def _rfft_adjoint(xp: Any, g: Any, x_spec: Any, n: int | None, axis: int, norm: Any) -> Any:
    place = _place(x_spec, axis)
    n = x_spec.shape[place] if n is None else n
    full = xp.fft.irfft(_paired(xp, g, place, n, 0.5), n=n, axis=axis, norm=_SWAPPED[norm])
    return _restored(xp, full, x_spec, [place])


@linear(
    name="fft.rfft",
    x=_rfft_adjoint,
    batch=along,
    least_axes=1,
    memory="fresh",
    facts=Facts(needs=("fft",), sparsity="along"),
)
def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", dim: int | None = None) -> Tensor:
    """First half of the spectrum of a real signal: frequencies 0 to ``n // 2`` of `fft`.

    x: Real.
    n, axis, norm: As for `fft`.
    Returns: Complex, with length ``n // 2 + 1`` along the axis.
    Array API 2025.12, section ``fft``.

    >>> ag.fft.rfft(ag.asarray([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """


def _irfft_adjoint(xp: Any, g: Any, x_spec: Any, axis: int, norm: Any) -> Any:
    place = _place(x_spec, axis)
    half = xp.fft.rfft(g, axis=axis, norm=_SWAPPED[norm])
    return _restored(xp, _paired(xp, half, place, g.shape[place], 2), x_spec, [place])


@linear(
    name="fft.irfft",
    x=_irfft_adjoint,
    batch=along,
    least_axes=1,
    memory="fresh",
    facts=Facts(needs=("fft",), sparsity="along"),
)
def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", dim: int | None = None) -> Tensor:
    """Inverse of `rfft`: the real signal with a given half of its spectrum.

    x: Complex: frequencies 0 to ``n // 2``, zero-padded or trimmed to these.
    n: The length of the result. Default: ``2 * (m - 1)``, where `m` is the length of the axis; an odd length has to
        be given.
    axis, norm: As for `ifft`.
    Returns: Real, with length `n` along the axis.
    Array API 2025.12, section ``fft``. The imaginary parts of frequency 0, and for even `n` of the highest, do not
    count; their gradient is 0.

    >>> ag.fft.irfft(ag.asarray([10 + 0j, -2 + 2j, -2 + 0j]))
    tensor([1., 2., 3., 4.])
    """


def _rfftn_adjoint(xp: Any, g: Any, x_spec: Any, s: Any, axes: Any, norm: Any) -> Any:
    axes = _places(x_spec, s, axes)
    kept = (None, -1)
    sizes = [x_spec.shape[a] if s is None or s[i] in kept else s[i] for i, a in enumerate(axes)]
    full = xp.fft.irfftn(_paired(xp, g, axes[-1], sizes[-1], 0.5), s=sizes, axes=axes, norm=_SWAPPED[norm])
    return _restored(xp, full, x_spec, axes)


@linear(
    name="fft.rfftn", x=_rfftn_adjoint, batch=_fftn_batch, memory="fresh", facts=Facts(needs=("fft",), sparsity="along")
)
def rfftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    dim: Sequence[int] | None = None,
) -> Tensor:
    """Spectrum of a real signal over several axes, the first half of it along the last of them.

    x: Real.
    s, axes, norm: As for `fftn`.
    Returns: Complex, with length ``s[-1] // 2 + 1`` along the last of the axes.
    Array API 2025.12, section ``fft``.

    >>> ag.fft.rfftn(ag.asarray([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """


def _irfftn_adjoint(xp: Any, g: Any, x_spec: Any, s: Any, axes: Any, norm: Any) -> Any:
    axes = _places(x_spec, s, axes)
    half = xp.fft.rfftn(g, axes=axes, norm=_SWAPPED[norm])
    return _restored(xp, _paired(xp, half, axes[-1], g.shape[axes[-1]], 2), x_spec, axes)


@linear(
    name="fft.irfftn",
    x=_irfftn_adjoint,
    batch=_fftn_batch,
    memory="fresh",
    facts=Facts(needs=("fft",), sparsity="along"),
)
def irfftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    dim: Sequence[int] | None = None,
) -> Tensor:
    """Inverse of `rfftn`.

    x: Complex: half a spectrum along the last of the axes.
    s: A length of the result per axis. Default, and -1: those of `x`, ``2 * (m - 1)`` for length `m` of the last.
    axes, norm: As for `ifftn`.
    Returns: Real, with lengths `s` along the axes.
    Array API 2025.12, section ``fft``.

    >>> ag.fft.irfftn(ag.asarray([[10 + 0j, -2 + 0j], [-4 + 0j, 0j]]))
    tensor([[1., 2.],
            [3., 4.]])
    """


def _hfft_adjoint(xp: Any, g: Any, x_spec: Any, axis: int, norm: Any) -> Any:
    place = _place(x_spec, axis)
    half = xp.fft.ihfft(g, axis=axis, norm=_SWAPPED[norm])
    return _restored(xp, _paired(xp, half, place, g.shape[place], 2), x_spec, [place])


@linear(
    name="fft.hfft",
    x=_hfft_adjoint,
    batch=along,
    least_axes=1,
    memory="fresh",
    facts=Facts(needs=("fft",), sparsity="along"),
)
def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", dim: int | None = None) -> Tensor:
    """Real spectrum of a signal with Hermitian symmetry, given its first half.

    x: Complex: times 0 to ``n // 2``, zero-padded or trimmed to these.
    n: The length of the result. Default: ``2 * (m - 1)``, where `m` is the length of the axis; an odd length has to
        be given.
    axis, norm: As for `fft`.
    Returns: Real, with length `n` along the axis.
    Array API 2025.12, section ``fft``. The imaginary parts of time 0, and for even `n` of the last, do not count; their
    gradient is 0.

    >>> ag.fft.hfft(ag.asarray([1 + 0j, 2 - 1j, 3 + 0j]))
    tensor([ 8., -4.,  0.,  0.])
    """


def _ihfft_adjoint(xp: Any, g: Any, x_spec: Any, n: int | None, axis: int, norm: Any) -> Any:
    place = _place(x_spec, axis)
    n = x_spec.shape[place] if n is None else n
    full = xp.fft.hfft(_paired(xp, g, place, n, 0.5), n=n, axis=axis, norm=_SWAPPED[norm])
    return _restored(xp, full, x_spec, [place])


@linear(
    name="fft.ihfft",
    x=_ihfft_adjoint,
    batch=along,
    least_axes=1,
    memory="fresh",
    facts=Facts(needs=("fft",), sparsity="along"),
)
def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", dim: int | None = None) -> Tensor:
    """Inverse of `hfft`: the first half of the signal with a given real spectrum.

    x: Real.
    axis, norm: As for `ifft`.
    Returns: Complex, with length ``n // 2 + 1`` along the axis.
    Array API 2025.12, section ``fft``.

    >>> ag.fft.ihfft(ag.asarray([8.0, -4.0, 0.0, 0.0]))
    tensor([1.-0.j, 2.-1.j, 3.-0.j])
    """


# -- frequencies ------------------------------------------------------------------------------------------------------


def _shift_batch(b: BatchedCall, x: Any, /, *, axes: Any = None) -> Any:
    return b.kernel(b.data(x), axes=places(axes, x.ndim))


@linear(
    name="fft.fftshift",
    x=lambda xp, g, axes: xp.fft.ifftshift(g, axes=axes),
    batch=_shift_batch,
    memory="fresh",
    facts=Facts(sparsity="moves"),
)
def fftshift(x: Any, /, *, axes: int | Sequence[int] | None = None, dim: int | Sequence[int] | None = None) -> Tensor:
    """Move frequency 0 to the middle.

    x: A spectrum, as `fft` orders it.
    axes : int or sequence of int, optional
        The axes to reorder. Default: all.
    Returns: The same elements in ascending order of frequency. Array API 2025.12, section ``fft``.

    >>> ag.fft.fftshift(ag.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """


@linear(
    name="fft.ifftshift",
    x=lambda xp, g, axes: xp.fft.fftshift(g, axes=axes),
    batch=_shift_batch,
    memory="fresh",
    facts=Facts(sparsity="moves"),
)
def ifftshift(x: Any, /, *, axes: int | Sequence[int] | None = None, dim: int | Sequence[int] | None = None) -> Tensor:
    """Inverse of `fftshift`: move frequency 0 from the middle to the front.

    x: A spectrum in ascending order of frequency.
    axes : int or sequence of int, optional
        The axes to reorder. Default: all.
    Returns: The same elements as `fft` orders them.
    Array API 2025.12, section ``fft``. For odd lengths it differs from `fftshift`.

    >>> ag.fft.ifftshift(ag.asarray([-1.0, 0.0, 1.0]))
    tensor([ 0.,  1., -1.])
    """


def _frequencies(
    name: str, start: int, stop: int, n: int, d: float, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    """Whole numbers over ``n * d``."""
    if n < 1:
        raise ValueError(f"{name}() takes a positive number of samples, got {n}")
    backend, where = manager.device_of(device)
    dtype = backend.default_dtype("float", where) if dtype is None else dtype
    if backend.kind(backend.dtype(dtype)) != "float":
        raise TypeError(f"{name}() takes a real floating-point dtype, got {dtype}")
    made = arange(start, stop, dtype=dtype, device=device) * (1 / (n * d))
    if name == "fftfreq":
        made = ifftshift(made)
    return made.requires_grad_() if requires_grad else made


@primitive("fft.fftfreq", memory="fresh", facts=Facts(creates="here"))
def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequencies of `fft`, in cycles per unit of the sample spacing.

    n : int
        How many samples.
    d : float, optional
        The sample spacing.
    dtype : DType, backend's dtype or str, optional
        Real floating. Default: `get_default_dtype`.
    device : str, optional
        ``"<backend>[:<device>]"``.
    requires_grad : bool, optional
        Whether to record operations on it.
    Returns: ``[0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (n * d)``.
    ValueError: If `n` is not positive.
    TypeError: If `dtype` is not real floating.
    Array API 2025.12, section ``fft``.

    >>> ag.fft.fftfreq(4, d=0.5)
    tensor([ 0.0000,  0.5000, -1.0000, -0.5000])
    """
    return _frequencies("fftfreq", -(n // 2), (n + 1) // 2, n, d, dtype, device, requires_grad)


@primitive("fft.rfftfreq", memory="fresh", facts=Facts(creates="here"))
def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of `rfft`, in cycles per unit of the sample spacing.

    n, d, dtype, device, requires_grad: As for `fftfreq`.
    Returns: ``[0, 1, ..., n // 2] / (n * d)``.
    ValueError: If `n` is not positive.
    TypeError: If `dtype` is not real floating.
    Array API 2025.12, section ``fft``.

    >>> ag.fft.rfftfreq(4, d=0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """
    return _frequencies("rfftfreq", 0, n // 2 + 1, n, d, dtype, device, requires_grad)


complete(
    globals(),
    {
        "axes": "sequence of int, optional\n    As for `fftn`.",
        "axis": "int, optional\n    As for `fft`.",
        "n": "int, optional\n    The length to transform: `x` is zero-padded or trimmed to it. Default: that of the axis.",
        "norm": '{"backward", "ortho", "forward"}, optional\n    As for `fft`.',
        "s": "sequence of int, optional\n    As for `fftn`.",
        "x": "Tensor",
    },
)
