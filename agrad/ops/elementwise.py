"""Elementwise functions of the standard, with their partial derivatives. Shapes broadcast, dtypes promote.

For a complex argument a partial is the complex derivative; the machinery conjugates it. Functions that are not
holomorphic (abs, sign, conj, real, imag) state their adjoints. At kinks and singular points the values are PyTorch's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agrad.core.declare import custom, elementwise, linear, nondifferentiable
from agrad.core.rule import is_complex, promote

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

# -- arithmetic -------------------------------------------------------------------------------------------------------


@elementwise(x1=1, x2=1)
def add(x1: Any, x2: Any, /) -> Tensor:
    """Sum, ``x1 + x2``."""


@elementwise(x1=1, x2=-1)
def subtract(x1: Any, x2: Any, /) -> Tensor:
    """Difference, ``x1 - x2``."""


@elementwise(x1=lambda x2: x2, x2=lambda x1: x1)
def multiply(x1: Any, x2: Any, /) -> Tensor:
    """Product, ``x1 * x2``."""


@elementwise(x1=lambda xp, x2: xp.reciprocal(x2), x2=lambda xp, ans, x2: xp.negative(ans / x2))
def divide(x1: Any, x2: Any, /) -> Tensor:
    """Quotient, ``x1 / x2``."""


@elementwise(x1=0, x2=0)
def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """Quotient rounded down, ``x1 // x2``; its gradient is zero."""


@elementwise(x1=1, x2=lambda xp, x1, x2: xp.negative(xp.floor(x1 / x2)))
def remainder(x1: Any, x2: Any, /) -> Tensor:
    """Remainder with the sign of the divisor, ``x1 % x2``."""


def _pow_by_base(xp: Any, x1: Any, x2: Any) -> Any:
    """Give x2 * x1**(x2 - 1), and 0 where both are 0."""
    flat = (x1 == 0) & (x2 == 0)
    base, exponent = promote(xp, xp.where(flat, xp.ones_like(x1), x1), x2)
    return exponent * xp.pow(base, exponent - 1)


def _pow_by_exponent(xp: Any, ans: Any, x1: Any, x2: Any) -> Any:
    """Give ans * log(x1), and 0 where x1 is 0 and the exponent not negative."""
    flat = (x1 == 0) & ((xp.real(x2) if is_complex(xp, x2) else x2) >= 0)
    return ans * xp.log(xp.astype(xp.where(flat, xp.ones_like(x1), x1), ans.dtype, copy=False))


@elementwise(x1=_pow_by_base, x2=_pow_by_exponent)
def pow(x1: Any, x2: Any, /) -> Tensor:
    """Power, ``x1 ** x2``."""


@elementwise(x=-1)
def negative(x: Any, /) -> Tensor:
    """Negation, ``-x``."""


@elementwise(x=1)
def positive(x: Any, /) -> Tensor:
    """The same values, ``+x``."""


@elementwise(x=lambda xp, ans: xp.negative(ans * ans))
def reciprocal(x: Any, /) -> Tensor:
    """``1 / x``."""


@elementwise(x=lambda x: 2 * x)
def square(x: Any, /) -> Tensor:
    """``x * x``."""


@elementwise(x=lambda ans: 0.5 / ans)
def sqrt(x: Any, /) -> Tensor:
    """Square root; the derivative at 0 is infinite."""


# -- exponentials and logarithms --------------------------------------------------------------------------------------


@elementwise(x=lambda ans: ans)
def exp(x: Any, /) -> Tensor:
    """Exponential."""


@elementwise(x=lambda ans: ans + 1)
def expm1(x: Any, /) -> Tensor:
    """``exp(x) - 1``, accurate near 0."""


@elementwise(x=lambda xp, x: xp.reciprocal(x))
def log(x: Any, /) -> Tensor:
    """Natural logarithm."""


@elementwise(x=lambda xp, x: xp.reciprocal(1 + x))
def log1p(x: Any, /) -> Tensor:
    """``log(1 + x)``, accurate near 0."""


@elementwise(x=lambda xp, x: xp.reciprocal(x * 0.6931471805599453))
def log2(x: Any, /) -> Tensor:
    """Logarithm to base 2."""


@elementwise(x=lambda xp, x: xp.reciprocal(x * 2.302585092994046))
def log10(x: Any, /) -> Tensor:
    """Logarithm to base 10."""


@elementwise(
    x1=lambda xp, x1, x2: xp.reciprocal(1 + xp.exp(x2 - x1)),
    x2=lambda xp, x1, x2: xp.reciprocal(1 + xp.exp(x1 - x2)),
)
def logaddexp(x1: Any, x2: Any, /) -> Tensor:
    """``log(exp(x1) + exp(x2))``, without overflow."""


# -- trigonometric and hyperbolic -------------------------------------------------------------------------------------


@elementwise(x=lambda xp, x: xp.cos(x))
def sin(x: Any, /) -> Tensor:
    """Sine."""


@elementwise(x=lambda xp, x: xp.negative(xp.sin(x)))
def cos(x: Any, /) -> Tensor:
    """Cosine."""


@elementwise(x=lambda ans: 1 + ans * ans)
def tan(x: Any, /) -> Tensor:
    """Tangent."""


@elementwise(x=lambda xp, x: xp.reciprocal(xp.sqrt(1 - x * x)))
def asin(x: Any, /) -> Tensor:
    """Arc sine."""


@elementwise(x=lambda xp, x: xp.negative(xp.reciprocal(xp.sqrt(1 - x * x))))
def acos(x: Any, /) -> Tensor:
    """Arc cosine."""


@elementwise(x=lambda xp, x: xp.reciprocal(1 + x * x))
def atan(x: Any, /) -> Tensor:
    """Arc tangent."""


def _distance(xp: Any, x1: Any, x2: Any) -> Any:
    """Give x1**2 + x2**2, and 1 at the origin."""
    square = x1 * x1 + x2 * x2
    return xp.where(square == 0, xp.ones_like(square), square)


@elementwise(
    x1=lambda xp, x1, x2: x2 / _distance(xp, x1, x2),
    x2=lambda xp, x1, x2: xp.negative(x1) / _distance(xp, x1, x2),
)
def atan2(x1: Any, x2: Any, /) -> Tensor:
    """The angle of the point (x2, x1); its gradient at the origin is 0."""


@elementwise(x=lambda xp, x: xp.cosh(x))
def sinh(x: Any, /) -> Tensor:
    """Hyperbolic sine."""


@elementwise(x=lambda xp, x: xp.sinh(x))
def cosh(x: Any, /) -> Tensor:
    """Hyperbolic cosine."""


@elementwise(x=lambda ans: 1 - ans * ans)
def tanh(x: Any, /) -> Tensor:
    """Hyperbolic tangent."""


@elementwise(x=lambda xp, x: xp.reciprocal(xp.sqrt(x * x + 1)))
def asinh(x: Any, /) -> Tensor:
    """Inverse hyperbolic sine."""


@elementwise(x=lambda xp, x: xp.reciprocal(xp.sqrt(x - 1) * xp.sqrt(x + 1)))
def acosh(x: Any, /) -> Tensor:
    """Inverse hyperbolic cosine."""


@elementwise(x=lambda xp, x: xp.reciprocal(1 - x * x))
def atanh(x: Any, /) -> Tensor:
    """Inverse hyperbolic tangent."""


# -- choosing and rounding --------------------------------------------------------------------------------------------


def _taken(xp: Any, g: Any, lost: Any, tie: Any) -> Any:
    """All of g where an operand was taken (or NaN), half of it at a tie, 0 where the operand was lost."""
    return xp.where(lost, xp.zeros_like(g), xp.where(tie, 0.5 * g, g))


def _sum(xp: Any, *terms: Any) -> Any:
    """The sum of the terms that are not None."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else xp.add(*promote(xp, total, term))
    return total


def _choosing(lost: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """The derivatives of maximum and minimum; `lost` tells where the first operand was not taken.

    They choose by `where` and do not multiply by 0: what is infinite behind a lost operand does not become NaN.
    """

    def jvp(xp: Any, t_x1: Any, t_x2: Any, x1: Any, x2: Any) -> Any:
        tie = x1 == x2
        return _sum(
            xp,
            None if t_x1 is None else _taken(xp, t_x1, lost(x1, x2), tie),
            None if t_x2 is None else _taken(xp, t_x2, lost(x2, x1), tie),
        )

    vjp = {
        "x1": lambda xp, g, x1, x2: _taken(xp, g, lost(x1, x2), x1 == x2),
        "x2": lambda xp, g, x1, x2: _taken(xp, g, lost(x2, x1), x1 == x2),
    }
    return {"vjp": vjp, "jvp": jvp}


@custom(**_choosing(operator.lt))
def maximum(x1: Any, x2: Any, /) -> Tensor:
    """The larger of two; at a tie each gets half of the gradient."""


@custom(**_choosing(operator.gt))
def minimum(x1: Any, x2: Any, /) -> Tensor:
    """The smaller of two; at a tie each gets half of the gradient."""


def _inside(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    """The part of g that goes to x: where it is within the bounds or on them."""
    if min is None and max is None:
        return g
    inside = x <= max if min is None else x >= min if max is None else (x >= min) & (x <= max)
    return xp.where(inside, g, xp.zeros_like(g))


def _below(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    low = x < min
    return xp.where(low if max is None else low & (min <= max), g, xp.zeros_like(g))


def _above(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    high = x > max
    return xp.where(high if min is None else high | (min > max), g, xp.zeros_like(g))


def _clip_jvp(xp: Any, t_x: Any, t_min: Any, t_max: Any, x: Any, min: Any, max: Any) -> Any:
    return _sum(
        xp,
        None if t_x is None else _inside(xp, t_x, x, min, max),
        None if t_min is None else _below(xp, t_min, x, min, max),
        None if t_max is None else _above(xp, t_max, x, min, max),
    )


def _clip_kernel(xp: Any, x: Any, /, min: Any = None, max: Any = None) -> Any:
    x = xp.positive(x) if min is None else xp.maximum(x, min)
    return x if max is None else xp.minimum(x, max)


@custom(vjp={"x": _inside, "min": _below, "max": _above}, jvp=_clip_jvp, kernel=_clip_kernel)
def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """Limit to a range. The gradient goes to `x` within the bounds and on them, else to the bound that holds."""


@elementwise(x1=lambda xp, x1, ans: xp.sign(x1) * xp.sign(ans), x2=0)
def copysign(x1: Any, x2: Any, /) -> Tensor:
    """The magnitude of `x1` with the sign of `x2`."""


@elementwise(
    x1=lambda xp, x1, ans: xp.where(ans == 0, xp.zeros_like(ans), x1 / ans),
    x2=lambda xp, x2, ans: xp.where(ans == 0, xp.zeros_like(ans), x2 / ans),
)
def hypot(x1: Any, x2: Any, /) -> Tensor:
    """``sqrt(x1**2 + x2**2)``, without overflow; the gradient at the origin is 0."""


@elementwise(x1=1, x2=0)
def nextafter(x1: Any, x2: Any, /) -> Tensor:
    """The next representable value after `x1` towards `x2`."""


@elementwise(x=0)
def floor(x: Any, /) -> Tensor:
    """Round down; the gradient is zero."""


@elementwise(x=0)
def ceil(x: Any, /) -> Tensor:
    """Round up; the gradient is zero."""


@elementwise(x=0)
def trunc(x: Any, /) -> Tensor:
    """Round towards 0; the gradient is zero."""


@elementwise(x=0)
def round(x: Any, /) -> Tensor:
    """Round to the nearest integer, halves to even; the gradient is zero."""


# -- not holomorphic --------------------------------------------------------------------------------------------------


def _real(xp: Any, x: Any) -> Any:
    return xp.real(x) if is_complex(xp, x) else x


def _conj(xp: Any, x: Any) -> Any:
    return xp.conj(x) if is_complex(xp, x) else x


@custom(
    vjp={"x": lambda xp, g, x: xp.multiply(*promote(xp, g, xp.sign(x)))},
    jvp=lambda xp, t_x, x: _real(xp, xp.multiply(t_x, _conj(xp, xp.sign(x)))),
)
def abs(x: Any, /) -> Tensor:
    """Magnitude; its gradient at 0 is 0."""


def _sign_vjp(xp: Any, g: Any, x: Any, ans: Any) -> Any:
    if not is_complex(xp, x):
        return xp.zeros_like(g)
    along = xp.astype(xp.real(g * xp.conj(ans)), ans.dtype)
    size = xp.abs(x)
    size = xp.astype(xp.where(size == 0, xp.ones_like(size), size), ans.dtype)
    return xp.where(ans == 0, xp.zeros_like(g), (g - ans * along) / size)


@custom(vjp={"x": _sign_vjp}, jvp=lambda xp, t_x, x, ans: _sign_vjp(xp, t_x, x, ans))
def sign(x: Any, /) -> Tensor:
    """Sign; for complex `x`, ``x / abs(x)``. The gradient of a real one is zero."""


@linear(x=lambda xp, g: _conj(xp, g))
def conj(x: Any, /) -> Tensor:
    """Complex conjugate."""


@linear(x=lambda xp, g, x_spec: xp.astype(g, x_spec.dtype))
def real(x: Any, /) -> Tensor:
    """Real part."""


@linear(x=lambda xp, g, x_spec: xp.astype(g, x_spec.dtype) * 1j if x_spec.is_complex else xp.zeros_like(g))
def imag(x: Any, /) -> Tensor:
    """Imaginary part."""


# -- boolean and integer results --------------------------------------------------------------------------------------


@nondifferentiable("x1", "x2", boolean=True)
def equal(x1: Any, x2: Any, /) -> Tensor:
    """Whether ``x1 == x2``."""


@nondifferentiable("x1", "x2", boolean=True)
def not_equal(x1: Any, x2: Any, /) -> Tensor:
    """Whether ``x1 != x2``."""


@nondifferentiable("x1", "x2", boolean=True)
def less(x1: Any, x2: Any, /) -> Tensor:
    """Whether ``x1 < x2``."""


@nondifferentiable("x1", "x2", boolean=True)
def less_equal(x1: Any, x2: Any, /) -> Tensor:
    """Whether ``x1 <= x2``."""


@nondifferentiable("x1", "x2", boolean=True)
def greater(x1: Any, x2: Any, /) -> Tensor:
    """Whether ``x1 > x2``."""


@nondifferentiable("x1", "x2", boolean=True)
def greater_equal(x1: Any, x2: Any, /) -> Tensor:
    """Whether ``x1 >= x2``."""


@nondifferentiable("x1", "x2", boolean=True)
def logical_and(x1: Any, x2: Any, /) -> Tensor:
    """Logical and."""


@nondifferentiable("x1", "x2", boolean=True)
def logical_or(x1: Any, x2: Any, /) -> Tensor:
    """Logical or."""


@nondifferentiable("x1", "x2", boolean=True)
def logical_xor(x1: Any, x2: Any, /) -> Tensor:
    """Logical exclusive or."""


@nondifferentiable("x", boolean=True)
def logical_not(x: Any, /) -> Tensor:
    """Logical not."""


@nondifferentiable("x1", "x2")
def bitwise_and(x1: Any, x2: Any, /) -> Tensor:
    """Bitwise and, ``x1 & x2``."""


@nondifferentiable("x1", "x2")
def bitwise_or(x1: Any, x2: Any, /) -> Tensor:
    """Bitwise or, ``x1 | x2``."""


@nondifferentiable("x1", "x2")
def bitwise_xor(x1: Any, x2: Any, /) -> Tensor:
    """Bitwise exclusive or, ``x1 ^ x2``."""


@nondifferentiable("x")
def bitwise_invert(x: Any, /) -> Tensor:
    """Bitwise not, ``~x``."""


@nondifferentiable("x1", "x2")
def bitwise_left_shift(x1: Any, x2: Any, /) -> Tensor:
    """Bits shifted to the left, ``x1 << x2``."""


@nondifferentiable("x1", "x2")
def bitwise_right_shift(x1: Any, x2: Any, /) -> Tensor:
    """Bits shifted to the right, ``x1 >> x2``."""


@nondifferentiable("x", boolean=True)
def isfinite(x: Any, /) -> Tensor:
    """Whether neither infinite nor NaN."""


@nondifferentiable("x", boolean=True)
def isinf(x: Any, /) -> Tensor:
    """Whether infinite."""


@nondifferentiable("x", boolean=True)
def isnan(x: Any, /) -> Tensor:
    """Whether NaN."""


@nondifferentiable("x", boolean=True)
def signbit(x: Any, /) -> Tensor:
    """Whether the sign bit is set."""
