"""``autograd.scipy.integrate``: the names of `agrad.scipy.integrate`, and an `odeint` that is accurate enough to be differenced."""

from __future__ import annotations

from typing import Any

import agrad.scipy.integrate as _names
from agrad.compat.autograd.plain import names_of as _names_of
from agrad.compat.autograd.plain import plain as _plain
from agrad.core.backend import backend_of as _backend_of
from agrad.core.mode import recorder as _recorder
from agrad.plugin.manager import scipys as _scipys
from agrad.program.arguments import is_raw as _is_raw
from agrad.tree import flatten as _flatten

#: The default tolerance of `odeint`. SciPy's, 1.5e-8, is too large for finite differences of its results: with a step
#: of 1e-6, that of `check_grads`, they would be off by 1e-2.
_TOLERANCE = 1e-10


def odeint(
    func: Any, y0: Any, t: Any, args: Any = (), *, rtol: float = _TOLERANCE, atol: float = _TOLERANCE, **options: Any
) -> Any:
    """As `agrad.scipy.integrate.odeint`, with default tolerances of 1e-10; for plain arrays, SciPy's function.

    As in HIPS autograd, SciPy calls the function with plain arrays then.
    """
    if _is_numpys(y0, t, args) and "checkpoints" not in options:
        return _scipys("integrate").odeint(func, y0, t, args, rtol=rtol, atol=atol, **options)
    return _odeint(func, y0, t, args, rtol=rtol, atol=atol, **options)


def _is_numpys(*containers: Any) -> bool:
    """Return whether containers only hold NumPy arrays and numbers, and no program is being recorded."""
    owners = [_backend_of(leaf) for leaf in _flatten(containers)[0]]
    is_numpys = all(owner is None or owner.name == "numpy" for owner in owners)
    return is_numpys and _is_raw(0, *containers) and _recorder() is None


_odeint = _plain(_names.odeint)
__getattr__, __dir__ = _names_of(_names)
