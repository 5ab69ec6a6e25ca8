"""Special functions of the NumPy backend: SciPy's, imported at the first use of one of them, and sums of exponentials.

Without SciPy, these sums and the functions that agrad composes from the standard's still work.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad import UnsupportedOp
from agrad.plugin.backend import OPS


def kernel(op: str) -> Callable[..., Any] | None:
    """Return SciPy's function for an operation, None if it has none of that name."""
    name = op.removeprefix("special.")
    if name in _OF_NUMPY:
        return _OF_NUMPY[name]
    try:
        import scipy.special  # noqa: PLC0415 (most programs need none of it)
    except ImportError as error:
        known = OPS.get(op)
        return None if known is not None and known.kernel is not None else _missing(op, error)
    if name in _OWN:
        return _typed(functools.partial(_OWN[name], scipy.special))
    found = getattr(scipy.special, name, None)
    if name in ORDERED:
        found = _real_orders(found)
    if name in COUNTED:
        found = _whole_counts(found, COUNTED[name])
    return None if found is None else _typed(found)


def _missing(op: str, error: ImportError) -> Callable[..., Any]:
    def missing(*args: Any, **kwargs: Any) -> Any:
        absent = isinstance(error, ModuleNotFoundError) and error.name == "scipy"
        why = "is not installed" if absent else f"cannot be imported ({' '.join(str(error).split())})"
        raise UnsupportedOp(op, "numpy", f"it needs SciPy, which {why}; pip install scipy") from error

    return missing


def _typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose result has the common dtype of the floating-point operands.

    SciPy has no loops for half precision, and orders or counts that are integers would bring double precision with them.
    """

    def typed(*values: Any) -> Any:
        result = function(*values)
        dtypes = {v.dtype for v in values if hasattr(v, "dtype") and v.dtype.kind in "fc"}
        if len(dtypes) == 1 and result.dtype not in dtypes and result.dtype.kind == next(iter(dtypes)).kind:
            return result.astype(dtypes.pop())
        return result

    return typed


def _real_orders(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take the parameters before a complex argument as real numbers, as if they were Python numbers."""

    def ordered(*values: Any) -> Any:
        *orders, z = values
        return function(*map(_real_part, orders), z)

    return ordered


def _real_part(order: Any) -> Any:
    if not np.iscomplexobj(order):
        return order
    if np.any(np.imag(order)):
        message = "the order or parameter of a special function must be real"
        raise TypeError(message)
    return np.real(order)


def _whole_counts(function: Callable[..., Any], counts: tuple[int, ...]) -> Callable[..., Any]:
    """Convert integral operands to integers; SciPy warns about floats there."""

    def counted(*values: Any) -> Any:
        return function(*(_whole(v) if i in counts else v for i, v in enumerate(values)))

    return counted


def _whole(value: Any) -> Any:
    whole = np.asarray(value)
    return whole.astype(np.int64) if whole.dtype.kind == "f" and np.all(whole == np.floor(whole)) else value


def _polygamma(special: Any, n: Any, x: Any, /) -> Any:
    if isinstance(n, int) and n > 0:
        return float(special.gamma(n + 1.0) * (-1) ** (n + 1)) * special.zeta(n + 1, x)
    return special.polygamma(n, x)


def _expn(special: Any, n: Any, x: Any, /) -> Any:
    """For orders below 1 too: gamma(1 - n, x) x**(n - 1) (DLMF 8.19.1)."""
    low = np.less(n, 1)
    if not np.any(low):
        return special.expn(n, x)
    m = 1 - np.where(low, n, 0)
    below = special.gamma(m) * special.gammaincc(m, x) * np.power(x, -1.0 * m)
    return np.where(low, below, special.expn(np.where(low, 1, n), x))


#: Adaptations of SciPy's functions: they get ``scipy.special`` first.
_OWN: dict[str, Callable[..., Any]] = {"expn": _expn, "polygamma": _polygamma}
#: Functions with real order or parameters, and an argument that may be complex.
ORDERED = frozenset(["hyp1f1", "hyp2f1", "iv", "ive", "jv", "kv", "kve", "yv"])
#: The positions of counts that should be integers.
COUNTED = {
    "bdtr": (1,),
    "bdtrc": (1,),
    "bdtri": (1,),
    "nbdtr": (0, 1),
    "nbdtrc": (0, 1),
    "nbdtri": (0, 1),
    "pdtri": (0,),
}


# -- sums of exponentials -----------------------------------------------------------------------------------------------


def _logsumexp(a: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    if not a.size:  # the logarithm of an empty sum
        return np.asarray(np.sum(a, axis=axis, keepdims=keepdims) - math.inf)
    top = np.maximum.reduce(a, axis, None, None, True)
    # of one number, Python asks in a tenth of the time
    if math.isfinite(top.item()) if top.size == 1 else np.logical_and.reduce(np.isfinite(top), None):
        e = np.asarray(np.subtract(a, top))
        np.exp(e, e)
        found = np.asarray(np.log(np.add.reduce(e, axis, None, None, True)))
        found += top
        if (abs(found.item()) if found.size == 1 else np.minimum.reduce(np.abs(found), None)) < 0.5:
            np.copyto(found, _carefully(a, axis, top), where=np.abs(found) < 0.5)
    else:
        found = np.asarray(_carefully(a, axis, top))
    return found if keepdims else found.squeeze(axis) if axis is not None else found.reshape(())


def _carefully(a: Any, axis: Any, top: Any) -> Any:
    """The same where the logarithm of the sum and the largest cancel, and for numbers that are not finite.

    The largest terms are kept out of the sum, so that the contributions of the others are not rounded away.
    """
    tops = a == top
    e = np.exp(np.where(tops, -math.inf, a - np.where(np.isfinite(top), top, 0)), dtype=a.dtype)
    count = np.maximum(np.add.reduce(tops, axis, a.dtype, None, True), 1)  # there is no largest if one is NaN
    return np.log1p(np.add.reduce(e, axis, None, None, True) / count) + np.log(count) + top


def _shares(a: Any, /, *, axis: Any = None) -> Any:
    if not a.size:
        return np.zeros_like(a)
    top = np.maximum.reduce(a, axis, None, None, True)
    infinite = np.isinf(top)
    some = infinite.item() if infinite.size == 1 else np.logical_or.reduce(infinite, None)
    e = np.asarray(np.where(infinite, 0, a - np.where(infinite, 0, top)) if some else np.subtract(a, top))
    np.exp(e, e)
    e /= np.add.reduce(e, axis, None, None, True)
    if some:  # infinite elements share everything, and with -inf only, no element gets anything
        tops = infinite & (a == top) & (a > 0)
        count = np.maximum(np.add.reduce(tops, axis, a.dtype, None, True), 1)
        np.copyto(e, tops / count, where=infinite)
    return e


_OF_NUMPY: dict[str, Callable[..., Any]] = {"logsumexp_over": _logsumexp, "logsumexp_shares": _shares}
