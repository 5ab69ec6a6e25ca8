"""``autograd.numpy.linalg``: the names of `agrad.numpy.linalg`."""

from __future__ import annotations

import agrad.numpy.linalg as _names
from agrad.compat.autograd.plain import names_of as _names_of
from agrad.plugin import manager as _manager

#: Given the upper triangle, LAPACK may return an eigenvector with another sign than given the lower one, which
#: derivatives use.
_DIFFERING = ("eigh",)

__getattr__, __dir__ = _names_of(_names, _manager.usable("numpy").module("numpy.linalg"), _DIFFERING)
