"""NumPy's elementwise functions that are not ufuncs: rounding, parts of complex numbers, comparisons, replacements."""

from __future__ import annotations

import math
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import NO_VALUE, as_float, count, floating, fresh, given, into, kind_of, plain_axis, refused
from agrad.numpy.table import STEP, public
from agrad.numpy.ufuncs import ufunc
from agrad.ops import creation, data_type, elementwise, extra, special
from agrad.ops.statistical import all as all_of


@public("round", "around", status=STEP)
def around(a: Any, decimals: int = 0, out: Any = None) -> Tensor:
    x = as_operand(a)
    if decimals == 0:
        return into(out, elementwise.round(x) if x._spec.inexact else fresh(x))
    if kind_of(x) == "bool":
        raise refused(f"numpy.round of truth values with decimals={decimals}", "convert them with np.astype")
    if x._spec.inexact:
        return into(out, x.round(decimals))
    if decimals > 0:
        return into(out, fresh(x))
    return into(out, data_type.astype(data_type.astype(x, "float64").round(decimals), x.dtype))


round = around


@public(status=STEP)
def fix(x: Any, out: Any = None) -> Tensor:
    x = as_operand(x)
    return into(out, x if kind_of(x) == "bool" else elementwise.trunc(x))


@public()
def clip(
    a: Any,
    a_min: Any = NO_VALUE,
    a_max: Any = NO_VALUE,
    out: Any = None,
    *,
    min: Any = NO_VALUE,
    max: Any = NO_VALUE,
    **kwargs: Any,
) -> Tensor:
    """Between bounds; at a bound the gradient is the operand's."""
    if (given(a_min) or given(a_max)) and (given(min) or given(max)):
        raise ValueError(
            f"Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.{errors.called()}"
        )
    low = a_min if given(a_min) else min
    high = a_max if given(a_max) else max
    bounds = [v if given(v) else None for v in (low, high)]
    return into(out, _clipped(a, *bounds, **kwargs))


def _clipped(a: Any, low: Any, high: Any, **options: Any) -> Tensor:
    x = as_operand(a)
    found: Any = x
    if low is not None:
        found = _MAXIMUM(found, low, **options)
    if high is not None:
        found = _MINIMUM(found, high, **options)
    return fresh(x) if found is x else found


_MAXIMUM = ufunc("maximum", elementwise.maximum, 2)
_MINIMUM = ufunc("minimum", elementwise.minimum, 2)


@public()
def real(val: Any) -> Tensor:
    x = as_operand(val)
    return elementwise.real(x) if x._spec.is_complex else x


@public()
def imag(val: Any) -> Tensor:
    """0 for a real operand."""
    x = as_operand(val)
    return elementwise.imag(x) if x._spec.is_complex else creation.zeros_like(x)


@public()
def angle(z: Any, deg: bool = False) -> Tensor:
    x = as_operand(z)
    x = floating(x) if kind_of(x) == "bool" else as_float(x)
    if x._spec.is_complex:
        found = elementwise.atan2(elementwise.imag(x), elementwise.real(x))
    else:
        found = elementwise.atan2(creation.zeros_like(x), x)
    return found * (180 / math.pi) if deg else found


@public()
def real_if_close(a: Any, tol: float = 100) -> Tensor:
    """Checks values: whether the imaginary parts are small."""
    x = as_operand(a)
    if not x._spec.is_complex:
        return x
    bound = data_type.finfo(x.dtype).eps * tol if tol > 1 else tol
    small = bool(all_of(elementwise.abs(elementwise.imag(x.detach())) < bound))
    return elementwise.real(x) if small else x


@public()
def sinc(x: Any) -> Tensor:
    return special.sinc(floating(x))


@public()
def i0(x: Any) -> Tensor:
    return special.i0(floating(x))


@public()
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """Replaces NaN and infinities with numbers; ``copy=False`` changes the tensor itself."""
    tensor = as_operand(x)
    found = extra.nan_to_num(tensor, nan=nan, posinf=posinf, neginf=neginf)
    return found if copy else into(tensor, found)


# -- tests -------------------------------------------------------------------------------------------------------------


@public(status=STEP)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tensor:
    a, b = as_operands(a, b)
    return extra.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


@public(status=STEP)
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> bool:
    """Returns a Python bool."""
    a, b = as_operands(a, b)
    return extra.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


@public(status=STEP)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Returns a Python bool."""
    a1, a2 = as_operands(a1, a2)
    return extra.array_equal(a1, a2, equal_nan=equal_nan)


@public(status=STEP)
def array_equiv(a1: Any, a2: Any) -> bool:
    """Returns a Python bool."""
    a1, a2 = as_operands(a1, a2)
    try:
        return bool(all_of(a1 == a2))
    except ValueError:  # shapes that do not broadcast
        return False


def _ordered(x: Any) -> Tensor:
    """Return an operand for tests of the sign of infinities."""
    x = floating(x)
    if x._spec.is_complex:
        raise TypeError(
            f"This operation is not supported for {x.dtype} values because it would be ambiguous.{errors.called()}"
        )
    return x


@public(status=STEP)
def isposinf(x: Any, out: Any = None) -> Tensor:
    x = _ordered(x)
    return into(out, elementwise.isinf(x) & (x > 0))


@public(status=STEP)
def isneginf(x: Any, out: Any = None) -> Tensor:
    x = _ordered(x)
    return into(out, elementwise.isinf(x) & (x < 0))


@public(status=STEP)
def iscomplex(x: Any) -> Tensor:
    return imag(x) != 0


@public(status=STEP)
def isreal(x: Any) -> Tensor:
    return imag(x) == 0


@public(status=STEP)
def iscomplexobj(x: Any) -> bool:
    """Checks only the dtype."""
    return as_operand(x)._spec.is_complex


@public(status=STEP)
def isrealobj(x: Any) -> bool:
    """Checks only the dtype."""
    return not as_operand(x)._spec.is_complex


@public(status=STEP)
def ndim(a: Any) -> int:
    return as_operand(a).ndim


@public(status=STEP)
def shape(a: Any) -> tuple[int, ...]:
    return as_operand(a).shape


@public(status=STEP)
def size(a: Any, axis: Any = None) -> int:
    x = as_operand(a)
    return x.size if axis is None else count(x, plain_axis(axis))
