"""``autograd.numpy.fft``: the names of `agrad.numpy.fft`."""

from __future__ import annotations

import agrad.numpy.fft as _names
from agrad.compat.autograd.plain import names_of as _names_of
from agrad.plugin import manager as _manager

__getattr__, __dir__ = _names_of(_names, _manager.usable("numpy").module("numpy.fft"))
