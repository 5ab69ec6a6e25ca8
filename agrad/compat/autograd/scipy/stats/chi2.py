"""``autograd.scipy.stats.chi2``: the methods of `agrad.scipy.stats.chi2`."""

from __future__ import annotations

from agrad.compat.autograd.plain import names_of as _names_of
from agrad.scipy.stats import chi2 as _names

__getattr__, __dir__ = _names_of(_names)
