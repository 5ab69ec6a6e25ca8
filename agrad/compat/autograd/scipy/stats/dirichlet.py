"""``autograd.scipy.stats.dirichlet``: the methods of `agrad.scipy.stats.dirichlet`."""

from __future__ import annotations

from agrad.compat.autograd.plain import names_of as _names_of
from agrad.scipy.stats import dirichlet as _names

__getattr__, __dir__ = _names_of(_names)
