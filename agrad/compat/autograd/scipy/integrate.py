"""``autograd.scipy.integrate``: the names of `agrad.scipy.integrate`, and an `odeint` that is accurate enough to be differenced."""

from __future__ import annotations

from typing import Any

import agrad.scipy.integrate as _names
from agrad.compat.autograd.plain import names_of as _names_of
from agrad.compat.autograd.plain import plain as _plain

#: What `odeint` may be off by where the caller does not say. SciPy's, 1.5e-8, is as much as finite differences of its
#: results can bear: with a step of 1e-6, that of `check_grads`, they would be off by 1e-2.
_TOLERANCE = 1e-10


def odeint(
    func: Any, y0: Any, t: Any, *args: Any, rtol: float = _TOLERANCE, atol: float = _TOLERANCE, **options: Any
) -> Any:
    """As `agrad.scipy.integrate.odeint`, with tolerances of 1e-10 where none are given."""
    return _odeint(func, y0, t, *args, rtol=rtol, atol=atol, **options)


_odeint = _plain(_names.odeint)
__getattr__, __dir__ = _names_of(_names)
