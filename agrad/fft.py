"""Fourier transforms: the standard's ``fft`` extension."""

from __future__ import annotations

from collections.abc import Sequence as _Sequence
from typing import TYPE_CHECKING
from typing import Any as _Any

from agrad.core import names as _names
from agrad.core.tensor import Tensor as _Tensor
from agrad.ops.fft import *  # noqa: F403 (its __all__)
from agrad.ops.fft import __all__ as _standard
from agrad.ops.fft import fftn, ifftn, irfftn, rfftn


def fft2(input: _Any, s: _Any = None, dim: _Sequence[int] = (-2, -1), norm: str = "backward") -> _Tensor:
    """Return the discrete Fourier transform over two axes: `fftn` with PyTorch's arguments.

    Parameters
    ----------
    input : Tensor or array
        Floating-point, real or complex.
    s : tuple of two int, optional
        Lengths to cut or to pad to.
    dim : tuple of two int, optional
        The axes.
    norm : {"backward", "ortho", "forward"}, optional
        Which of the two directions divides.

    Returns
    -------
    Tensor
        As of `fftn`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.fft.fft2(ag.ones(2, 2)).shape
    (2, 2)
    """
    return fftn(input, s=s, axes=dim, norm=norm)


def ifft2(input: _Any, s: _Any = None, dim: _Sequence[int] = (-2, -1), norm: str = "backward") -> _Tensor:
    """Return the inverse discrete Fourier transform over two axes: `ifftn` with PyTorch's arguments.

    Parameters
    ----------
    input : Tensor or array
        Floating-point, real or complex.
    s : tuple of two int, optional
        Lengths to cut or to pad to.
    dim : tuple of two int, optional
        The axes.
    norm : {"backward", "ortho", "forward"}, optional
        Which of the two directions divides.

    Returns
    -------
    Tensor
        As of `ifftn`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.fft.ifft2(ag.ones(2, 2)).shape
    (2, 2)
    """
    return ifftn(input, s=s, axes=dim, norm=norm)


def rfft2(input: _Any, s: _Any = None, dim: _Sequence[int] = (-2, -1), norm: str = "backward") -> _Tensor:
    """Return the spectrum of a real signal over two axes: `rfftn` with PyTorch's arguments.

    Parameters
    ----------
    input : Tensor or array
        Floating-point, real.
    s : tuple of two int, optional
        Lengths to cut or to pad to.
    dim : tuple of two int, optional
        The axes.
    norm : {"backward", "ortho", "forward"}, optional
        Which of the two directions divides.

    Returns
    -------
    Tensor
        As of `rfftn`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.fft.rfft2(ag.ones(2, 2)).shape
    (2, 2)
    """
    return rfftn(input, s=s, axes=dim, norm=norm)


def irfft2(input: _Any, s: _Any = None, dim: _Sequence[int] = (-2, -1), norm: str = "backward") -> _Tensor:
    """Return the real signal of a spectrum over two axes: `irfftn` with PyTorch's arguments.

    Parameters
    ----------
    input : Tensor or array
        Floating-point, real or complex.
    s : tuple of two int, optional
        Lengths to cut or to pad to.
    dim : tuple of two int, optional
        The axes.
    norm : {"backward", "ortho", "forward"}, optional
        Which of the two directions divides.

    Returns
    -------
    Tensor
        As of `irfftn`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.fft.irfft2(ag.ones(2, 2)).shape
    (2, 2)
    """
    return irfftn(input, s=s, axes=dim, norm=norm)


if not TYPE_CHECKING:
    __all__ = [*_standard, "fft2", "ifft2", "irfft2", "rfft2"]  # noqa: PLE0604 (strings)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
