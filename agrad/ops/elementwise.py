"""Elementwise functions of the standard, with their partial derivatives. Shapes broadcast, dtypes promote.

For a complex argument a partial is the complex derivative; the machinery conjugates it. Functions that are not
holomorphic (abs, sign, conj, real, imag) state their adjoints. At kinks and singular points the values are PyTorch's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agrad.core.backend import backend_of
from agrad.core.cotangents import is_complex, promote
from agrad.core.declare import custom, elementwise, linear, nondifferentiable, primitive
from agrad.core.facts import Facts
from agrad.core.mode import is_fixed
from agrad.ops.batch_rules import pointwise
from agrad.ops.docs import Bits, Boolean, Floating, Integral, Numeric, RealFloating, RealValued, complete
from agrad.ops.matrices import conj as _conj
from agrad.ops.matrices import real as _real

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign",
    "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot",
    "imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin",
    "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip

# -- arithmetic -------------------------------------------------------------------------------------------------------


@elementwise(x1=1, x2=1, memory="fresh", facts=Facts(broadcasts_exactly=True, symbol="+", numpy="add"))
def add(x1: Numeric, x2: Numeric, /) -> Tensor:
    """Sum, ``x1 + x2``. Derivative: 1 by both.

    >>> a, b = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor(10.0, requires_grad=True)
    >>> (a + b).detach(), ag.grad((a + b).sum(), (a, b))
    (tensor([11., 12.]), (tensor([1., 1.]), tensor(2.)))
    """


# if a library can, into one of the operands
primitive("add_into", facts=Facts(sparsity="elements"))


@elementwise(x1=1, x2=-1, memory="fresh", facts=Facts(broadcasts_exactly=True, symbol="-", numpy="subtract"))
def subtract(x1: Numeric, x2: Numeric, /) -> Tensor:
    """Difference, ``x1 - x2``. Derivative: 1 by `x1`, -1 by `x2`.

    >>> a, b = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor(10.0, requires_grad=True)
    >>> (a - b).detach(), ag.grad((a - b).sum(), (a, b))
    (tensor([-9., -8.]), (tensor([1., 1.]), tensor(-2.)))
    """


@elementwise(
    x1=lambda x2: x2,
    x2=lambda x1: x1,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol="*", numpy="multiply", methods="multiply mul"),
)
def multiply(x1: Numeric, x2: Numeric, /) -> Tensor:
    """Product, ``x1 * x2``. Derivative: `x2` by `x1`, `x1` by `x2`; each is saved only if the other needs a gradient.

    >>> a, b = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor(10.0, requires_grad=True)
    >>> (a * b).detach(), ag.grad((a * b).sum(), (a, b))
    (tensor([10., 20.]), (tensor([10., 10.]), tensor(3.)))
    """


@elementwise(
    x1=lambda x2: 1 / x2,
    x2=lambda xp, ans, x2: xp.negative(ans / x2),
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol="/", numpy="divide true_divide", torch="true_divide"),
)
def divide(x1: Floating, x2: Floating, /) -> Tensor:
    """Quotient, ``x1 / x2``.

    x1, x2: Dividend and divisor.
    Derivative: ``1 / x2`` by `x1` and ``-x1 / x2**2`` by `x2`. At ``x2 == 0`` both are infinite, or NaN by `x2` where
    `x1` is 0 too.

    >>> a, b = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor(4.0, requires_grad=True)
    >>> (a / b).detach(), ag.grad((a / b).sum(), (a, b))
    (tensor([0.2500, 0.5000]), (tensor([0.2500, 0.2500]), tensor(-0.1875)))
    """


@elementwise(x1=0, x2=0, memory="fresh", facts=Facts(symbol="//", numpy="floor_divide"))
def floor_divide(x1: RealValued, x2: RealValued, /) -> Tensor:
    """Quotient rounded down, ``x1 // x2``.

    x1, x2: Dividend and divisor.
    Derivative: 0 by both, everywhere: the result is piecewise constant. (PyTorch refuses to differentiate it.)

    >>> a, b = ag.tensor([7.0, -7.0], requires_grad=True), ag.tensor(2.0, requires_grad=True)
    >>> (a // b).detach(), ag.grad((a // b).sum(), (a, b))
    (tensor([ 3., -4.]), (tensor([0., 0.]), tensor(0.)))
    """


@elementwise(
    x1=1,
    x2=lambda xp, x1, x2: xp.negative(xp.floor(x1 / x2)),
    memory="fresh",
    facts=Facts(symbol="%", numpy="remainder mod", methods="remainder"),
)
def remainder(x1: RealValued, x2: RealValued, /) -> Tensor:
    """Remainder with the sign of the divisor, ``x1 % x2``.

    x1, x2: Dividend and divisor.
    Derivative: 1 by `x1`, ``-floor(x1 / x2)`` by `x2`; at the jumps too.

    >>> a, b = ag.tensor([5.0, -5.0], requires_grad=True), ag.tensor(3.0, requires_grad=True)
    >>> (a % b).detach(), ag.grad((a % b).sum(), (a, b))
    (tensor([2., 1.]), (tensor([1., 1.]), tensor(1.)))
    """


def _pow_by_base(xp: Any, x1: Any, x2: Any) -> Any:
    """Return x2 * x1**(x2 - 1), and 0 where both are 0."""
    raw = getattr(x2, "_raw", x2)
    backend = backend_of(raw)
    if backend is None or not is_fixed(raw) or backend.may_hold_zero(raw):
        flat = (x1 == 0) & (x2 == 0)
        x1 = xp.where(flat, xp.ones_like(x1), x1)
    base, exponent = promote(xp, x1, x2)
    return exponent * xp.pow(base, exponent - 1)


def _pow_by_exponent(xp: Any, ans: Any, x1: Any, x2: Any) -> Any:
    """Return ans * log(x1), and 0 where x1 is 0 and the exponent not negative."""
    flat = (x1 == 0) & ((xp.real(x2) if is_complex(xp, x2) else x2) >= 0)
    return ans * xp.log(xp.astype(xp.where(flat, xp.ones_like(x1), x1), ans.dtype, copy=False))


@elementwise(
    x1=_pow_by_base, x2=_pow_by_exponent, memory="fresh", facts=Facts(symbol="**", numpy="power pow", methods="pow")
)
def pow(x1: Numeric, x2: Numeric, /) -> Tensor:
    """Power, ``x1 ** x2``.

    x1, x2: Base and exponent.
    Derivative: ``x2 * x1**(x2 - 1)`` by `x1` and ``x1**x2 * log(x1)`` by `x2`. ``0**0`` gives 0 by both, a base of 0
    with an exponent above 0 gives 0 by `x2`. A negative real base gives NaN by `x2`; for a complex power make it
    complex.

    >>> a, b = ag.tensor([3.0, 0.0], requires_grad=True), ag.tensor(2.0, requires_grad=True)
    >>> (a**b).detach(), ag.grad((a**b).sum(), (a, b))
    (tensor([9., 0.]), (tensor([6., 0.]), tensor(9.8875)))
    """


@elementwise(x=-1, memory="fresh", facts=Facts(broadcasts_exactly=True, symbol="-", numpy="negative", methods="neg"))
def negative(x: Numeric, /) -> Tensor:
    """Negation, ``-x``. Derivative: -1.

    >>> x = ag.tensor([1.0, -2.0], requires_grad=True)
    >>> (-x).detach(), ag.grad((-x).sum(), x)[0]
    (tensor([-1.,  2.]), tensor([-1., -1.]))
    """


@elementwise(x=1, memory="fresh", facts=Facts(symbol="+", numpy="positive"))
def positive(x: Numeric, /) -> Tensor:
    """The same values, ``+x``: a copy that stays in the graph. Derivative: 1.

    >>> x = ag.tensor([1.0, -2.0], requires_grad=True)
    >>> (+x).detach(), ag.grad((+x).sum(), x)[0]
    (tensor([ 1., -2.]), tensor([1., 1.]))
    """


@elementwise(
    x=lambda xp, ans: xp.negative(ans * ans),
    memory="fresh",
    facts=Facts(numpy="reciprocal", since="2024.12"),
)
def reciprocal(x: Floating, /) -> Tensor:
    """Reciprocal, ``1 / x``. Derivative: ``-1 / x**2``; -inf at 0, of either sign.

    >>> x = ag.tensor([1.0, -2.0], requires_grad=True)
    >>> ag.reciprocal(x).detach(), ag.grad(ag.reciprocal(x).sum(), x)[0]
    (tensor([ 1.0000, -0.5000]), tensor([-1.0000, -0.2500]))
    """


@elementwise(x=lambda x: 2 * x, memory="fresh", facts=Facts(numpy="square", methods="square"))
def square(x: Numeric, /) -> Tensor:
    """Square, ``x * x``. Derivative: ``2 * x``.

    >>> x = ag.tensor([1.0, -2.0], requires_grad=True)
    >>> ag.square(x).detach(), ag.grad(ag.square(x).sum(), x)[0]
    (tensor([1., 4.]), tensor([ 2., -4.]))
    """


@elementwise(x=lambda ans: 0.5 / ans, memory="fresh", facts=Facts(numpy="sqrt", methods="sqrt"))
def sqrt(x: Floating, /) -> Tensor:
    """Square root. Derivative: ``1 / (2 * sqrt(x))``; inf at 0, NaN below for a real `x`.

    The branch cut of the complex root is the negative real axis.

    >>> x = ag.tensor([0.0, 4.0], requires_grad=True)
    >>> ag.sqrt(x).detach(), ag.grad(ag.sqrt(x).sum(), x)[0]
    (tensor([0., 2.]), tensor([   inf, 0.2500]))
    """


# -- exponentials and logarithms --------------------------------------------------------------------------------------


@elementwise(x=lambda ans: ans, memory="fresh", facts=Facts(numpy="exp", methods="exp"))
def exp(x: Floating, /) -> Tensor:
    """Exponential, ``e**x``. Derivative: the result itself.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.exp(x).detach(), ag.grad(ag.exp(x).sum(), x)[0]
    (tensor([1.0000, 2.7183]), tensor([1.0000, 2.7183]))
    """


@elementwise(x=lambda ans: ans + 1, memory="fresh", facts=Facts(numpy="expm1", methods="expm1"))
def expm1(x: Floating, /) -> Tensor:
    """``exp(x) - 1``, accurate near 0. Derivative: ``exp(x)``, from the result.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.expm1(x).detach(), ag.grad(ag.expm1(x).sum(), x)[0]
    (tensor([0.0000, 1.7183]), tensor([1.0000, 2.7183]))
    """


@elementwise(x=lambda xp, x: xp.reciprocal(x), memory="fresh", facts=Facts(numpy="log", methods="log"))
def log(x: Floating, /) -> Tensor:
    """Natural logarithm. Derivative: ``1 / x``; inf at 0, and ``1 / x`` below it too, where the result is NaN.

    The branch cut of the complex logarithm is the negative real axis.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.log(x).detach(), ag.grad(ag.log(x).sum(), x)[0]
    (tensor([0.0000, 0.6931]), tensor([1.0000, 0.5000]))
    """


@elementwise(x=lambda xp, x: xp.reciprocal(1 + x), memory="fresh", facts=Facts(numpy="log1p", methods="log1p"))
def log1p(x: Floating, /) -> Tensor:
    """``log(1 + x)``, accurate near 0.

    Derivative: ``1 / (1 + x)``; inf at -1, and the same formula below it, where the result is NaN.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.log1p(x).detach(), ag.grad(ag.log1p(x).sum(), x)[0]
    (tensor([0.0000, 0.6931]), tensor([1.0000, 0.5000]))
    """


@elementwise(
    x=lambda xp, x: xp.reciprocal(x * 0.6931471805599453), memory="fresh", facts=Facts(numpy="log2", methods="log2")
)
def log2(x: Floating, /) -> Tensor:
    """Logarithm to base 2. Derivative: ``1 / (x * log(2))``; inf at 0.

    >>> x = ag.tensor([1.0, 8.0], requires_grad=True)
    >>> ag.log2(x).detach(), ag.grad(ag.log2(x).sum(), x)[0]
    (tensor([0., 3.]), tensor([1.4427, 0.1803]))
    """


@elementwise(
    x=lambda xp, x: xp.reciprocal(x * 2.302585092994046), memory="fresh", facts=Facts(numpy="log10", methods="log10")
)
def log10(x: Floating, /) -> Tensor:
    """Logarithm to base 10. Derivative: ``1 / (x * log(10))``; inf at 0.

    >>> x = ag.tensor([1.0, 100.0], requires_grad=True)
    >>> ag.log10(x).detach(), ag.grad(ag.log10(x).sum(), x)[0]
    (tensor([0., 2.]), tensor([0.4343, 0.0043]))
    """


@elementwise(
    x1=lambda xp, x1, x2: xp.reciprocal(1 + xp.exp(x2 - x1)),
    x2=lambda xp, x1, x2: xp.reciprocal(1 + xp.exp(x1 - x2)),
    memory="fresh",
    facts=Facts(numpy="logaddexp", methods="logaddexp"),
)
def logaddexp(x1: RealFloating, x2: RealFloating, /) -> Tensor:
    """``log(exp(x1) + exp(x2))``, without overflow.

    Derivative: ``1 / (1 + exp(x2 - x1))`` by `x1`, and the same with the operands exchanged by `x2`; they sum to 1. NaN
    by both where both are the same infinity.

    >>> a, b = ag.tensor([0.0, 1000.0], requires_grad=True), ag.tensor(0.0, requires_grad=True)
    >>> ag.logaddexp(a, b).detach(), ag.grad(ag.logaddexp(a, b).sum(), (a, b))
    (tensor([6.9315e-01, 1.0000e+03]), (tensor([0.5000, 1.0000]), tensor(0.5000)))
    """


# -- trigonometric and hyperbolic -------------------------------------------------------------------------------------


@elementwise(x=lambda xp, x: xp.cos(x), memory="fresh", facts=Facts(numpy="sin", methods="sin"))
def sin(x: Floating, /) -> Tensor:
    """Sine. Derivative: ``cos(x)``.

    x: The angle in radians.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.sin(x).detach(), ag.grad(ag.sin(x).sum(), x)[0]
    (tensor([0.0000, 0.8415]), tensor([1.0000, 0.5403]))
    """


@elementwise(x=lambda xp, x: xp.negative(xp.sin(x)), memory="fresh", facts=Facts(numpy="cos", methods="cos"))
def cos(x: Floating, /) -> Tensor:
    """Cosine. Derivative: ``-sin(x)``.

    x: The angle in radians.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.cos(x).detach(), ag.grad(ag.cos(x).sum(), x)[0]
    (tensor([1.0000, 0.5403]), tensor([-0.0000, -0.8415]))
    """


@elementwise(x=lambda ans: 1 + ans * ans, memory="fresh", facts=Facts(numpy="tan", methods="tan"))
def tan(x: Floating, /) -> Tensor:
    """Tangent. Derivative: ``1 + tan(x)**2``, from the result.

    x: The angle in radians.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.tan(x).detach(), ag.grad(ag.tan(x).sum(), x)[0]
    (tensor([0.0000, 1.5574]), tensor([1.0000, 3.4255]))
    """


@elementwise(
    x=lambda xp, x: xp.reciprocal(xp.sqrt(1 - x * x)),
    memory="fresh",
    facts=Facts(numpy="arcsin asin", torch="arcsin", methods="asin"),
)
def asin(x: Floating, /) -> Tensor:
    """Arc sine, in radians. Derivative: ``1 / sqrt(1 - x**2)``; inf at -1 and 1, NaN beyond for a real `x`.

    >>> x = ag.tensor([0.0, 0.6], requires_grad=True)
    >>> ag.asin(x).detach(), ag.grad(ag.asin(x).sum(), x)[0]
    (tensor([0.0000, 0.6435]), tensor([1.0000, 1.2500]))
    """


@elementwise(
    x=lambda xp, x: xp.negative(xp.reciprocal(xp.sqrt(1 - x * x))),
    memory="fresh",
    facts=Facts(numpy="arccos acos", torch="arccos", methods="acos"),
)
def acos(x: Floating, /) -> Tensor:
    """Arc cosine, in radians. Derivative: ``-1 / sqrt(1 - x**2)``; -inf at -1 and 1, NaN beyond for a real `x`.

    >>> x = ag.tensor([0.0, 0.6], requires_grad=True)
    >>> ag.acos(x).detach(), ag.grad(ag.acos(x).sum(), x)[0]
    (tensor([1.5708, 0.9273]), tensor([-1.0000, -1.2500]))
    """


@elementwise(
    x=lambda xp, x: xp.reciprocal(1 + x * x),
    memory="fresh",
    facts=Facts(numpy="arctan atan", torch="arctan", methods="atan"),
)
def atan(x: Floating, /) -> Tensor:
    """Arc tangent, in radians. Derivative: ``1 / (1 + x**2)``.

    >>> x = ag.tensor([0.0, 2.0], requires_grad=True)
    >>> ag.atan(x).detach(), ag.grad(ag.atan(x).sum(), x)[0]
    (tensor([0.0000, 1.1071]), tensor([1.0000, 0.2000]))
    """


def _over_square(xp: Any, x: Any, x1: Any, x2: Any) -> Any:
    """Return x / (x1**2 + x2**2), and x at the origin; the squares could leave the range."""
    distance = xp.hypot(x1, x2)
    distance = xp.where(distance == 0, xp.ones_like(distance), distance)
    return x / distance / distance


@elementwise(
    x1=lambda xp, x1, x2: _over_square(xp, x2, x1, x2),
    x2=lambda xp, x1, x2: xp.negative(_over_square(xp, x1, x1, x2)),
    memory="fresh",
    facts=Facts(numpy="arctan2 atan2", torch="arctan2", methods="atan2"),
)
def atan2(x1: RealFloating, x2: RealFloating, /) -> Tensor:
    """The angle of the point (`x2`, `x1`), in radians between -pi and pi.

    x1, x2: The y and the x coordinate, in this order.
    Derivative: ``x2 / (x1**2 + x2**2)`` by `x1` and ``-x1 / (x1**2 + x2**2)`` by `x2`; 0 by both at the origin.

    >>> a, b = ag.tensor([1.0, 0.0], requires_grad=True), ag.tensor([1.0, 0.0], requires_grad=True)
    >>> ag.atan2(a, b).detach(), ag.grad(ag.atan2(a, b).sum(), (a, b))
    (tensor([0.7854, 0.0000]), (tensor([0.5000, 0.0000]), tensor([-0.5000, -0.0000])))
    """


@elementwise(x=lambda xp, x: xp.cosh(x), memory="fresh", facts=Facts(numpy="sinh", methods="sinh"))
def sinh(x: Floating, /) -> Tensor:
    """Hyperbolic sine. Derivative: ``cosh(x)``.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.sinh(x).detach(), ag.grad(ag.sinh(x).sum(), x)[0]
    (tensor([0.0000, 1.1752]), tensor([1.0000, 1.5431]))
    """


@elementwise(x=lambda xp, x: xp.sinh(x), memory="fresh", facts=Facts(numpy="cosh", methods="cosh"))
def cosh(x: Floating, /) -> Tensor:
    """Hyperbolic cosine. Derivative: ``sinh(x)``.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.cosh(x).detach(), ag.grad(ag.cosh(x).sum(), x)[0]
    (tensor([1.0000, 1.5431]), tensor([0.0000, 1.1752]))
    """


@elementwise(x=lambda ans: 1 - ans * ans, memory="fresh", facts=Facts(numpy="tanh", methods="tanh"))
def tanh(x: Floating, /) -> Tensor:
    """Hyperbolic tangent. Derivative: ``1 - tanh(x)**2``, from the result.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.tanh(x).detach(), ag.grad(ag.tanh(x).sum(), x)[0]
    (tensor([0.0000, 0.7616]), tensor([1.0000, 0.4200]))
    """


@elementwise(
    x=lambda xp, x: xp.reciprocal(xp.sqrt(x * x + 1)),
    memory="fresh",
    facts=Facts(numpy="arcsinh asinh", torch="arcsinh", methods="asinh"),
)
def asinh(x: Floating, /) -> Tensor:
    """Inverse hyperbolic sine. Derivative: ``1 / sqrt(x**2 + 1)``.

    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> ag.asinh(x).detach(), ag.grad(ag.asinh(x).sum(), x)[0]
    (tensor([0.0000, 0.8814]), tensor([1.0000, 0.7071]))
    """


@elementwise(
    x=lambda xp, x: xp.reciprocal(xp.sqrt(x - 1) * xp.sqrt(x + 1)),
    memory="fresh",
    facts=Facts(numpy="arccosh acosh", torch="arccosh", methods="acosh"),
)
def acosh(x: Floating, /) -> Tensor:
    """Inverse hyperbolic cosine. Derivative: ``1 / (sqrt(x - 1) * sqrt(x + 1))``; inf at 1, NaN below for a real `x`.

    >>> x = ag.tensor([1.25, 2.0], requires_grad=True)
    >>> ag.acosh(x).detach(), ag.grad(ag.acosh(x).sum(), x)[0]
    (tensor([0.6931, 1.3170]), tensor([1.3333, 0.5774]))
    """


@elementwise(
    x=lambda xp, x: xp.reciprocal(1 - x * x),
    memory="fresh",
    facts=Facts(numpy="arctanh atanh", torch="arctanh", methods="atanh"),
)
def atanh(x: Floating, /) -> Tensor:
    """Inverse hyperbolic tangent.

    Derivative: ``1 / (1 - x**2)``; inf at -1 and 1, and the same formula beyond, where the result is NaN.

    >>> x = ag.tensor([0.0, 0.5], requires_grad=True)
    >>> ag.atanh(x).detach(), ag.grad(ag.atanh(x).sum(), x)[0]
    (tensor([0.0000, 0.5493]), tensor([1.0000, 1.3333]))
    """


# -- choosing and rounding --------------------------------------------------------------------------------------------


def _taken(xp: Any, g: Any, lost: Any, tie: Any) -> Any:
    """All of g where an operand was taken (or NaN), half of it at a tie, 0 where the operand was lost."""
    return xp.where(lost, xp.zeros_like(g), xp.where(tie, 0.5 * g, g))


def _sum(xp: Any, *terms: Any) -> Any:
    """Return the sum of the terms that are not None."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else xp.add(*promote(xp, total, term))
    return total


def _choosing(lost: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """The derivatives of maximum and minimum; `lost` is true where the first operand was not taken.

    They use `where` instead of multiplying by 0: an infinite derivative behind a lost operand does not become NaN.
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


@custom(
    **_choosing(operator.lt),
    batch=pointwise,
    memory="fresh",
    facts=Facts(sparsity="elements", missing=True, numpy="maximum", methods="maximum"),
)
def maximum(x1: RealValued, x2: RealValued, /) -> Tensor:
    """The larger of two operands, element by element.

    Derivative: 1 by the operand taken, 0 by the other, half each at a tie; where either is NaN, 1 by both.
    So ``maximum(x, 0)`` at 0 has 0.5, `nn.functional.relu` and ``clip(x, min=0)`` 0, as in PyTorch.

    >>> a, b = ag.tensor([1.0, 2.0, 3.0], requires_grad=True), ag.tensor(2.0, requires_grad=True)
    >>> ag.maximum(a, b).detach(), ag.grad(ag.maximum(a, b).sum(), (a, b))
    (tensor([2., 2., 3.]), (tensor([0.0000, 0.5000, 1.0000]), tensor(1.5000)))
    """


@custom(
    **_choosing(operator.gt),
    batch=pointwise,
    memory="fresh",
    facts=Facts(sparsity="elements", missing=True, numpy="minimum", methods="minimum"),
)
def minimum(x1: RealValued, x2: RealValued, /) -> Tensor:
    """The smaller of two operands, element by element.

    Derivative: 1 by the operand taken, 0 by the other, half each at a tie; where either is NaN, 1 by both.

    >>> a, b = ag.tensor([1.0, 2.0, 3.0], requires_grad=True), ag.tensor(2.0, requires_grad=True)
    >>> ag.minimum(a, b).detach(), ag.grad(ag.minimum(a, b).sum(), (a, b))
    (tensor([1., 2., 2.]), (tensor([1.0000, 0.5000, 0.0000]), tensor(1.5000)))
    """


def _inside(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    """Return the part of g that goes to x: where it is strictly within the bounds."""
    if min is None and max is None:
        return g
    inside = x < max if min is None else x > min if max is None else (x > min) & (x < max)
    return xp.where(inside, g, xp.zeros_like(g))


def _below(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    low = x <= min
    return xp.where(low if max is None else low & (min <= max), g, xp.zeros_like(g))


def _above(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    high = x >= max
    return xp.where(high if min is None else (high & (x > min)) | (min > max), g, xp.zeros_like(g))


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


@custom(
    vjp={"x": _inside, "min": _below, "max": _above},
    jvp=_clip_jvp,
    kernel=_clip_kernel,
    batch=pointwise,
    memory="fresh",
    facts=Facts(sparsity="elements", missing=True),
)
def clip(x: RealValued, /, min: Any = None, max: Any = None) -> Tensor:
    """Limit to the range from `min` to `max`.

    x: The values to limit.
    min, max : Tensor, array or scalar, optional
        The bounds, which broadcast with `x`; None means no bound. Where they cross, `max` applies.
    Returns: Of the broadcast shape and the dtype of `x`; floating-point if only a bound is.
    Derivative: by `x` 1 within the bounds, 0 on them and outside, as in PyTorch; by a bound 1 where the result is that
    bound. At ``x == min == max`` it goes to `min`, where the bounds cross to `max`, at NaN to none.

    >>> x = ag.tensor([-2.0, 1.0, 5.0], requires_grad=True)
    >>> ag.clip(x, -1.0, 1.0).detach(), ag.grad(ag.clip(x, -1.0, 1.0).sum(), x)[0]
    (tensor([-1.,  1.,  1.]), tensor([0., 0., 0.]))
    """


@elementwise(x1=lambda xp, x1, ans: xp.sign(x1) * xp.sign(ans), x2=0, memory="fresh", facts=Facts(numpy="copysign"))
def copysign(x1: RealFloating, x2: RealFloating, /) -> Tensor:
    """The magnitude of `x1` with the sign of `x2`.

    x1, x2: Magnitude and sign.
    Derivative: ``sign(x1) * sign(result)`` by `x1`, so 0 at ``x1 == 0``; 0 by `x2`.

    >>> a, b = ag.tensor([1.0, -2.0], requires_grad=True), ag.tensor(-1.0, requires_grad=True)
    >>> ag.copysign(a, b).detach(), ag.grad(ag.copysign(a, b).sum(), (a, b))
    (tensor([-1., -2.]), (tensor([-1.,  1.]), tensor(0.)))
    """


@elementwise(
    x1=lambda xp, x1, ans: xp.where(ans == 0, xp.zeros_like(ans), x1 / ans),
    x2=lambda xp, x2, ans: xp.where(ans == 0, xp.zeros_like(ans), x2 / ans),
    memory="fresh",
    facts=Facts(numpy="hypot", methods="hypot"),
)
def hypot(x1: RealFloating, x2: RealFloating, /) -> Tensor:
    """``sqrt(x1**2 + x2**2)``, without overflow.

    Derivative: ``x1 / hypot`` and ``x2 / hypot``; 0 by both at the origin (where PyTorch gives NaN).

    >>> a, b = ag.tensor([3.0, 0.0], requires_grad=True), ag.tensor([4.0, 0.0], requires_grad=True)
    >>> ag.hypot(a, b).detach(), ag.grad(ag.hypot(a, b).sum(), (a, b))
    (tensor([5., 0.]), (tensor([0.6000, 0.0000]), tensor([0.8000, 0.0000])))
    """


@elementwise(x1=1, x2=0, memory="fresh", facts=Facts(numpy="nextafter", since="2024.12"))
def nextafter(x1: RealFloating, x2: RealFloating, /) -> Tensor:
    """The next representable value after `x1` towards `x2`. Derivative: 1 by `x1`, 0 by `x2`.

    x1, x2: The start and the direction.

    >>> bool(ag.nextafter(1.0, 2.0) > 1.0)
    True
    >>> x = ag.tensor(1.0, requires_grad=True)
    >>> ag.grad(ag.nextafter(x, 2.0), x)[0]
    tensor(1.)
    """


@elementwise(x=0, facts=Facts(numpy="floor", methods="floor"))
def floor(x: RealValued, /) -> Tensor:
    """Round down to an integer, towards minus infinity. Derivative: 0 everywhere, at the jumps too.

    >>> x = ag.tensor([1.5, -1.5], requires_grad=True)
    >>> ag.floor(x).detach(), ag.grad(ag.floor(x).sum(), x)[0]
    (tensor([ 1., -2.]), tensor([0., 0.]))
    """


@elementwise(x=0, facts=Facts(numpy="ceil", methods="ceil"))
def ceil(x: RealValued, /) -> Tensor:
    """Round up to an integer, towards infinity. Derivative: 0 everywhere, at the jumps too.

    >>> x = ag.tensor([1.5, -1.5], requires_grad=True)
    >>> ag.ceil(x).detach(), ag.grad(ag.ceil(x).sum(), x)[0]
    (tensor([ 2., -1.]), tensor([0., 0.]))
    """


@elementwise(x=0, facts=Facts(numpy="trunc", torch="fix", methods="trunc"))
def trunc(x: RealValued, /) -> Tensor:
    """Round to an integer towards 0. Derivative: 0 everywhere, at the jumps too.

    >>> x = ag.tensor([1.5, -1.5], requires_grad=True)
    >>> ag.trunc(x).detach(), ag.grad(ag.trunc(x).sum(), x)[0]
    (tensor([ 1., -1.]), tensor([0., 0.]))
    """


@elementwise(x=0, facts=Facts(numpy="rint"))
def round(x: Numeric, /) -> Tensor:
    """Round to the nearest integer, halves to the even one. Derivative: 0 everywhere, at the jumps too.

    The real and imaginary parts of a complex number are rounded separately.

    >>> x = ag.tensor([0.5, 1.5, -1.6], requires_grad=True)
    >>> ag.round(x).detach(), ag.grad(ag.round(x).sum(), x)[0]
    (tensor([ 0.,  2., -2.]), tensor([0., 0., 0.]))
    """


# -- not holomorphic --------------------------------------------------------------------------------------------------


@custom(
    vjp={"x": lambda xp, g, x: xp.multiply(*promote(xp, g, xp.sign(x)))},
    jvp=lambda xp, t_x, x: _real(xp, xp.multiply(t_x, _conj(xp, xp.sign(x)))),
    batch=pointwise,
    memory="fresh",
    facts=Facts(sparsity="elements", missing=True, symbol="abs", numpy="absolute abs", torch="absolute", methods="abs"),
)
def abs(x: Numeric, /) -> Tensor:
    """Magnitude, ``|x|``. Derivative: ``sign(x)``, and so 0 at 0.

    Returns: Of the shape of `x`; of its dtype, or the real dtype of the same precision for a complex `x`.
    Complex: not holomorphic; the gradient is ``g * x / abs(x)``, the direction of steepest ascent.

    >>> x = ag.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    >>> ag.abs(x).detach(), ag.grad(ag.abs(x).sum(), x)[0]
    (tensor([2., 0., 3.]), tensor([-1.,  0.,  1.]))
    """


def _sign_vjp(xp: Any, g: Any, x: Any, ans: Any) -> Any:
    if not is_complex(xp, x):
        return xp.zeros_like(g)
    along = xp.astype(xp.real(g * xp.conj(ans)), ans.dtype)
    size = xp.abs(x)
    size = xp.astype(xp.where(size == 0, xp.ones_like(size), size), ans.dtype)
    return xp.where(ans == 0, xp.zeros_like(g), (g - ans * along) / size)


@custom(
    vjp={"x": _sign_vjp},
    jvp=lambda xp, t_x, x, ans: _sign_vjp(xp, t_x, x, ans),
    batch=pointwise,
    memory="fresh",
    facts=Facts(sparsity="elements", missing=True, numpy="sign", torch="sgn", methods="sign"),
)
def sign(x: Numeric, /) -> Tensor:
    """Sign: -1, 0 or 1; for a complex `x`, ``x / abs(x)`` and 0 at 0. Derivative: 0 for a real `x`.

    Complex: not holomorphic; the gradient is the part of `g` across `x`, ``(g - s * real(g * conj(s))) / abs(x)`` with
    `s` the result, and 0 at 0.

    >>> x = ag.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    >>> ag.sign(x).detach(), ag.grad(ag.sign(x).sum(), x)[0]
    (tensor([-1.,  0.,  1.]), tensor([0., 0., 0.]))
    >>> ag.sign(ag.tensor(3 + 4j))
    tensor(0.6000+0.8000j)
    """


@linear(
    x=lambda xp, g: _conj(xp, g),
    batch=pointwise,
    facts=Facts(sparsity="elements", missing=True, numpy="conjugate conj", torch="conj_physical"),
)
def conj(x: Numeric, /) -> Tensor:
    """Complex conjugate. Derivative: the gradient is the conjugate of the cotangent.

    >>> x = ag.tensor(1 + 2j, requires_grad=True)
    >>> ag.conj(x).detach(), ag.grad(ag.conj(x), x, ag.tensor(0 + 1j))[0]
    (tensor(1.-2.j), tensor(0.-1.j))
    """


@linear(
    memory="view",
    x=lambda xp, g, x_spec: xp.astype(g, x_spec.dtype),
    batch=pointwise,
    facts=Facts(sparsity="elements", missing=True),
)
def real(x: Numeric, /) -> Tensor:
    """Real part. Derivative: the gradient of a complex `x` is the cotangent, as a complex number.

    Returns: Of the shape of `x`, real, of the same precision.

    >>> x = ag.tensor(1 + 2j, requires_grad=True)
    >>> ag.real(x).detach(), ag.grad(ag.real(x), x)[0]
    (tensor(1.), tensor(1.+0.j))
    """


@linear(
    memory="view",
    x=lambda xp, g, x_spec: xp.astype(g, x_spec.dtype) * 1j if x_spec.is_complex else xp.zeros_like(g),
    batch=pointwise,
    facts=Facts(sparsity="elements", missing=True),
)
def imag(x: Numeric, /) -> Tensor:
    """Imaginary part.

    Returns: Of the shape of `x`, real, of the same precision.
    Derivative: the gradient of a complex `x` is ``1j`` times the cotangent. For a real `x`, which not every backend
    accepts, result and gradient are 0.

    >>> x = ag.tensor(1 + 2j, requires_grad=True)
    >>> ag.imag(x).detach(), ag.grad(ag.imag(x), x)[0]
    (tensor(2.), tensor(0.+1.j))
    """


# -- boolean and integer results --------------------------------------------------------------------------------------


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol="==", numpy="equal", methods="eq"),
)
def equal(x1: Any, x2: Any, /) -> Tensor:
    """Whether ``x1 == x2``, element by element.

    >>> ag.equal(ag.tensor([1.0, 2.0]), 1.0)
    tensor([ True, False])
    """


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol="!=", numpy="not_equal", methods="ne"),
)
def not_equal(x1: Any, x2: Any, /) -> Tensor:
    """Whether ``x1 != x2``, element by element.

    >>> ag.not_equal(ag.tensor([1.0, 2.0]), 1.0)
    tensor([False,  True])
    """


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol="<", numpy="less", methods="less lt"),
)
def less(x1: RealValued, x2: RealValued, /) -> Tensor:
    """Whether ``x1 < x2``, element by element.

    >>> ag.less(ag.tensor([1.0, 2.0]), 2.0)
    tensor([ True, False])
    """


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol="<=", numpy="less_equal", methods="le"),
)
def less_equal(x1: RealValued, x2: RealValued, /) -> Tensor:
    """Whether ``x1 <= x2``, element by element.

    >>> ag.less_equal(ag.tensor([1.0, 2.0]), 1.0)
    tensor([ True, False])
    """


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol=">", numpy="greater", methods="greater gt"),
)
def greater(x1: RealValued, x2: RealValued, /) -> Tensor:
    """Whether ``x1 > x2``, element by element.

    >>> ag.greater(ag.tensor([1.0, 2.0]), 1.0)
    tensor([False,  True])
    """


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol=">=", numpy="greater_equal", methods="ge"),
)
def greater_equal(x1: RealValued, x2: RealValued, /) -> Tensor:
    """Whether ``x1 >= x2``, element by element.

    >>> ag.greater_equal(ag.tensor([1.0, 2.0]), 2.0)
    tensor([False,  True])
    """


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, numpy="logical_and", methods="logical_and"),
)
def logical_and(x1: Boolean, x2: Boolean, /) -> Tensor:
    """Whether both operands are true.

    >>> ag.logical_and(ag.tensor([True, False]), True)
    tensor([ True, False])
    """


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, numpy="logical_or", methods="logical_or"),
)
def logical_or(x1: Boolean, x2: Boolean, /) -> Tensor:
    """Whether one operand or both are true.

    >>> ag.logical_or(ag.tensor([True, False]), False)
    tensor([ True, False])
    """


@nondifferentiable(
    "x1",
    "x2",
    boolean=True,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, numpy="logical_xor", methods="logical_xor"),
)
def logical_xor(x1: Boolean, x2: Boolean, /) -> Tensor:
    """Whether exactly one of the operands is true.

    >>> ag.logical_xor(ag.tensor([True, False]), True)
    tensor([False,  True])
    """


@nondifferentiable(
    "x", boolean=True, memory="fresh", facts=Facts(broadcasts_exactly=True, numpy="logical_not", methods="logical_not")
)
def logical_not(x: Boolean, /) -> Tensor:
    """Whether the operand is false.

    >>> ag.logical_not(ag.tensor([True, False]))
    tensor([False,  True])
    """


@nondifferentiable(
    "x1", "x2", batch=pointwise, memory="fresh", facts=Facts(broadcasts_exactly=True, symbol="&", numpy="bitwise_and")
)
def bitwise_and(x1: Bits, x2: Bits, /) -> Tensor:
    """Bits set in both operands, ``x1 & x2``.

    >>> ag.bitwise_and(ag.tensor([12, 10]), 6)
    tensor([4, 2])
    """


@nondifferentiable(
    "x1", "x2", batch=pointwise, memory="fresh", facts=Facts(broadcasts_exactly=True, symbol="|", numpy="bitwise_or")
)
def bitwise_or(x1: Bits, x2: Bits, /) -> Tensor:
    """Bits set in one operand or both, ``x1 | x2``.

    >>> ag.bitwise_or(ag.tensor([12, 10]), 6)
    tensor([14, 14])
    """


@nondifferentiable(
    "x1", "x2", batch=pointwise, memory="fresh", facts=Facts(broadcasts_exactly=True, symbol="^", numpy="bitwise_xor")
)
def bitwise_xor(x1: Bits, x2: Bits, /) -> Tensor:
    """Bits set in exactly one operand, ``x1 ^ x2``.

    >>> ag.bitwise_xor(ag.tensor([12, 10]), 6)
    tensor([10, 12])
    """


@nondifferentiable(
    "x",
    batch=pointwise,
    memory="fresh",
    facts=Facts(broadcasts_exactly=True, symbol="~", numpy="invert bitwise_invert bitwise_not", torch="bitwise_not"),
)
def bitwise_invert(x: Bits, /) -> Tensor:
    """Every bit inverted, ``~x``.

    >>> ag.bitwise_invert(ag.tensor([0, 5]))
    tensor([-1, -6])
    >>> ~ag.tensor([True, False])
    tensor([False,  True])
    """


@nondifferentiable(
    "x1", "x2", batch=pointwise, memory="fresh", facts=Facts(symbol="<<", numpy="left_shift bitwise_left_shift")
)
def bitwise_left_shift(x1: Integral, x2: Integral, /) -> Tensor:
    """Bits shifted to the left, ``x1 << x2``.

    x1, x2: The bits, and the number of positions to shift them by (not negative).

    >>> ag.bitwise_left_shift(ag.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """


@nondifferentiable(
    "x1", "x2", batch=pointwise, memory="fresh", facts=Facts(symbol=">>", numpy="right_shift bitwise_right_shift")
)
def bitwise_right_shift(x1: Integral, x2: Integral, /) -> Tensor:
    """Bits shifted to the right, ``x1 >> x2``; the sign is kept.

    x1, x2: The bits, and the number of positions to shift them by (not negative).

    >>> ag.bitwise_right_shift(ag.tensor([8, -8]), 2)
    tensor([ 2, -2])
    """


@nondifferentiable("x", boolean=True, memory="fresh", facts=Facts(numpy="isfinite", methods="isfinite"))
def isfinite(x: Numeric, /) -> Tensor:
    """Whether elements are neither infinite nor NaN.

    >>> ag.isfinite(ag.tensor([1.0, ag.inf, ag.nan]))
    tensor([ True, False, False])
    """


@nondifferentiable("x", boolean=True, memory="fresh", facts=Facts(numpy="isinf", methods="isinf"))
def isinf(x: Numeric, /) -> Tensor:
    """Whether elements are infinite, of either sign.

    >>> ag.isinf(ag.tensor([1.0, -ag.inf, ag.nan]))
    tensor([False,  True, False])
    """


@nondifferentiable("x", boolean=True, memory="fresh", facts=Facts(numpy="isnan", methods="isnan"))
def isnan(x: Numeric, /) -> Tensor:
    """Whether elements are NaN.

    >>> ag.isnan(ag.tensor([1.0, ag.inf, ag.nan]))
    tensor([False, False,  True])
    """


@nondifferentiable("x", boolean=True, memory="fresh", facts=Facts(numpy="signbit"))
def signbit(x: RealFloating, /) -> Tensor:
    """Whether the sign bit is set: below 0, and for -0.0.

    >>> ag.signbit(ag.tensor([1.0, -0.0, -2.0]))
    tensor([False,  True,  True])
    """


_OPERANDS = "Tensor, array or scalar\n    The operands."

complete(
    globals(),
    {"x": "Tensor, array or scalar\n    The operand.", "x1": _OPERANDS, "x2": _OPERANDS},
    source="Source: array API 2025.12, elementwise functions.",
    elementwise=True,
)
