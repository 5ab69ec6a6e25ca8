"""Samples of the Fourier transforms: odd and even lengths, padded and trimmed, every normalisation."""

from __future__ import annotations

from typing import Any

from agrad.testing.samples.data import add, cplx, real

_NORMS = ("backward", "ortho", "forward")
_REAL = "a real operand of a complex transform"

#: Shapes and parameters of transforms of whole spectra, along one axis.
_WHOLE: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((4,), {}),
    ((2, 3), {}),
    ((3, 2), {"axis": 0}),
    ((2, 4), {"axis": -2, "n": 3}),
    ((3,), {"n": 5}),
    ((2, 5), {"n": 2}),
    ((1,), {}),
    ((0, 3), {}),
    *(((3,), {"norm": norm}) for norm in _NORMS),
    *(((2, 2), {"norm": norm, "n": 3, "axis": 0}) for norm in _NORMS),
)
for _op in ("fft.fft", "fft.ifft"):
    for _shape, _kwargs in _WHOLE:
        add(_op, cplx(*_shape), **_kwargs)
    add(_op, real(2, 3), beyond=_REAL)
    add(_op, real(3), n=4, norm="ortho", beyond=_REAL)
for _op in ("fft.rfft", "fft.ihfft"):
    for _shape, _kwargs in _WHOLE:
        add(_op, real(*_shape), **_kwargs)
    add(_op, real(5))
    add(_op, real(2), n=6)

#: The same for transforms that start from half a spectrum.
_HALF: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((4,), {}),
    ((3,), {"n": 5}),
    ((3,), {"n": 4}),
    ((4, 2), {"axis": 0, "n": 7}),
    ((2, 3), {}),
    ((4,), {"n": 3}),
    ((4,), {"n": 4}),
    ((2,), {"n": 7}),
    ((2,), {"n": 8}),
    ((2,), {"n": 1}),
    ((1,), {"n": 2}),
    ((0, 3), {}),
    *(((3,), {"norm": norm}) for norm in _NORMS),
    *(((2, 2), {"norm": norm, "n": 3, "axis": -2}) for norm in _NORMS),
)
for _op in ("fft.irfft", "fft.hfft"):
    for _shape, _kwargs in _HALF:
        add(_op, cplx(*_shape), **_kwargs)
    add(_op, real(3), beyond=_REAL)

_SEVERAL: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3), {}),
    ((3, 4), {"axes": (1, 0)}),
    ((2, 3, 2), {"axes": (0, -1)}),
    ((2, 3), {"axes": (1,)}),
    ((2, 3), {"s": (3, 2), "axes": (0, 1)}),
    ((3, 2, 2), {"s": (3, 2), "axes": (2, 0)}),
    ((2, 3), {"s": [1, 5], "axes": [-1, 0]}),
    ((0, 2, 3), {"axes": (1, 2)}),
    *(((3, 2), {"norm": norm}) for norm in _NORMS),
    *(((2, 3), {"norm": norm, "s": (3, 4), "axes": (0, 1)}) for norm in _NORMS),
)
for _shape, _kwargs in _SEVERAL:
    add("fft.fftn", cplx(*_shape), **_kwargs)
    add("fft.ifftn", cplx(*_shape), **_kwargs)
    add("fft.rfftn", real(*_shape), **_kwargs)
    add("fft.irfftn", cplx(*_shape), **_kwargs)
add("fft.fftn", cplx(2, 3), s=(3, -1), axes=(0, 1))
add("fft.rfftn", real(2, 3), s=(3, -1), axes=(0, 1))
add("fft.rfftn", real(2, 3), s=(-1, 4), axes=(0, 1))
add("fft.irfftn", cplx(2, 3), s=(-1, 5), axes=(0, 1))
add("fft.irfftn", cplx(2, 3), s=(3, -1), axes=(0, 1))
add("fft.fftn", real(2, 3), beyond=_REAL)
add("fft.ifftn", real(2, 3), beyond=_REAL)
add("fft.irfftn", real(2, 3), beyond=_REAL)

for _op in ("fft.fftshift", "fft.ifftshift"):
    add(_op, real(5))
    add(_op, real(2, 3))
    add(_op, cplx(3, 4), axes=1)
    add(_op, real(3, 2, 5), axes=(0, -1))
    add(_op, real(0, 3))
