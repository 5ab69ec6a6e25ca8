"""``autograd.scipy.stats.poisson``: the methods of `agrad.scipy.stats.poisson`."""

from __future__ import annotations

from agrad.compat.autograd.plain import names_of as _names_of
from agrad.scipy.stats import poisson as _names

__getattr__, __dir__ = _names_of(_names)
