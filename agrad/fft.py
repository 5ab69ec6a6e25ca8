"""Fourier transforms: the standard's ``fft`` extension."""

from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.ops.fft import *  # noqa: F403 (its __all__)
from agrad.ops.fft import __all__  # noqa: F401 (what the star gave)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
