"""``autograd.scipy.special``: the names of `agrad.scipy.special`."""

from __future__ import annotations

import agrad.scipy.special as _names
from agrad.compat.autograd.plain import names_of as _names_of

__getattr__, __dir__ = _names_of(_names)
