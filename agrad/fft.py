"""Fourier transforms: the standard's ``fft`` extension."""

from agrad.ops.fft import *  # noqa: F403 (its __all__)
from agrad.ops.fft import __all__  # noqa: F401 (what the star gave)
