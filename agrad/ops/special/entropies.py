"""Products with logarithms, 0 where the factor is 0, and the entropies that consist of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core.cotangents import is_complex
from agrad.core.declare import elementwise
from agrad.core.facts import Facts

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = ["entr", "kl_div", "rel_entr", "xlog1py", "xlogy"]


def _unless_zero(xp: Any, x: Any, value: Any) -> Any:
    return xp.where(x == 0, xp.zeros_like(value), value)


def _safe(xp: Any, x: Any, y: Any, at: float) -> Any:
    """Return `y`, but `at` where `x` is 0, so that the derivative there does not see `y`."""
    return xp.where(x == 0, xp.zeros_like(y) + at, y)


def _xlogy_by_x(xp: Any, x: Any, y: Any) -> Any:
    flat = (x == 0) & (y == 0 if is_complex(xp, x) or is_complex(xp, y) else y <= 0)
    return xp.where(flat, xp.zeros_like(y), xp.log(xp.where(flat, xp.ones_like(y), y)))


def _xlog1py_by_x(xp: Any, x: Any, y: Any) -> Any:
    flat = (x == 0) & (y == -1 if is_complex(xp, x) or is_complex(xp, y) else y <= -1)
    return xp.where(flat, xp.zeros_like(y), xp.log1p(xp.where(flat, xp.zeros_like(y), y)))


def _product_kernel(xp: Any, x: Any, y: Any, log: Any) -> Any:
    """The product with a logarithm; 0 where x is 0 and y not NaN."""
    value = x * log
    return xp.where((x == 0) & ~xp.isnan(y), xp.zeros_like(value), value)


@elementwise(
    name="special.xlogy",
    x=_xlogy_by_x,
    y=lambda xp, x, y: _unless_zero(xp, x, x / _safe(xp, x, y, 1.0)),
    kernel=lambda xp, x, y: _product_kernel(xp, x, y, xp.log(y)),
    memory="fresh",
    facts=Facts(torch="xlogy"),
)
def xlogy(x: Any, y: Any, /) -> Tensor:
    """``x * log(y)``, 0 where `x` is 0.

    x, y: Real (complex, where the backend has it).
    Returns: 0 where `x` is 0 and `y` not NaN.
    The derivative by `x` is ``log(y)``, and 0 where `x` is 0 and `y` not positive; the one by `y` is ``x / y``, 0 wherever `x` is 0.

    >>> ag.special.xlogy(ag.asarray([0.0, 2.0]), ag.asarray([0.0, 1.0]))
    tensor([0., 0.])
    """


@elementwise(
    name="special.xlog1py",
    x=_xlog1py_by_x,
    y=lambda xp, x, y: _unless_zero(xp, x, x / (1 + _safe(xp, x, y, 0.0))),
    kernel=lambda xp, x, y: _product_kernel(xp, x, y, xp.log1p(y)),
    memory="fresh",
)
def xlog1py(x: Any, y: Any, /) -> Tensor:
    """``x * log(1 + y)``, 0 where `x` is 0.

    x, y: Real (complex, where the backend has it).
    Returns: 0 where `x` is 0 and `y` not NaN.
    The derivative by `x` is ``log1p(y)``, and 0 where `x` is 0 and `y` not above -1; the one by `y` is ``x / (1 + y)``, 0 wherever `x` is
    0.

    >>> ag.special.xlog1py(ag.asarray([0.0, 2.0]), ag.asarray([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """


def _entr_kernel(xp: Any, x: Any) -> Any:
    inside = x > 0
    value = -x * xp.log(xp.where(inside, x, xp.ones_like(x)))
    return xp.where(inside | xp.isnan(x), value, xp.where(x == 0, xp.zeros_like(x), xp.zeros_like(x) - float("inf")))


@elementwise(name="special.entr", x=lambda xp, x: -1 - xp.log(x), kernel=_entr_kernel, memory="fresh")
def entr(x: Any, /) -> Tensor:
    """Entropy of one probability.

    Returns: ``-x * log(x)``, 0 at 0 and -inf below.
    The derivative is ``-log(x) - 1``, infinite at 0 and NaN below.

    >>> ag.special.entr(ag.asarray([0.0, 0.5]))
    tensor([0.0000, 0.3466])
    """


def _log_quotient(xp: Any, x: Any, y: Any) -> Any:
    """Return log(x / y), for nearly equal values as the logarithm of 1 plus their difference."""
    near = (xp.abs(x - y) < 0.5 * y) & (y < float("inf"))
    u = xp.where(near, x - y, xp.zeros_like(x - y)) / xp.where(near, y, xp.ones_like(y))
    quotient = xp.where(near, xp.ones_like(u), x / y)
    apart = (x > 0) & (y > 0) & ((quotient == 0) | (quotient == float("inf")))  # the quotient leaves the range
    logs = xp.log(xp.where(apart, x, xp.ones_like(u))) - xp.log(xp.where(apart, y, xp.ones_like(u)))
    return xp.where(near, xp.log1p(u), xp.where(apart, logs, xp.log(xp.where(apart, xp.ones_like(u), quotient))))


def _rel_entr_kernel(xp: Any, x: Any, y: Any) -> Any:
    inside = (x > 0) & (y > 0)
    u, v = xp.where(inside, x, xp.ones_like(x)), xp.where(inside, y, xp.ones_like(y))
    value = u * _log_quotient(xp, u, v)
    zero = xp.zeros_like(value)
    rest = xp.where((x == 0) & (y >= 0), zero, zero + float("inf"))
    return xp.where(inside, value, xp.where(xp.isnan(x) | xp.isnan(y), zero + float("nan"), rest))


@elementwise(
    name="special.rel_entr",
    x=lambda xp, x, y: 1 + _log_quotient(xp, x, y),
    y=lambda x, y: -x / y,
    kernel=_rel_entr_kernel,
    memory="fresh",
)
def rel_entr(x: Any, y: Any, /) -> Tensor:
    """Relative entropy of one probability to another.

    x, y: Real.
    Returns: ``x * log(x / y)``; 0 where `x` is 0 and `y` not negative, inf out of the domain.
    The derivatives are ``1 + log(x / y)`` and ``-x / y``; out of the domain they are not defined.

    >>> ag.special.rel_entr(ag.asarray([0.0, 0.5]), 0.25)
    tensor([0.0000, 0.3466])
    """


def _kl_div_kernel(xp: Any, x: Any, y: Any) -> Any:
    inside = (x > 0) & (y > 0)
    u, v = xp.where(inside, x, xp.ones_like(x)), xp.where(inside, y, xp.ones_like(y))
    value = u * _log_quotient(xp, u, v) - u + v
    zero = xp.zeros_like(value)
    rest = xp.where((x == 0) & (y >= 0), zero + y, zero + float("inf"))
    return xp.where(inside, value, xp.where(xp.isnan(x) | xp.isnan(y), zero + float("nan"), rest))


@elementwise(name="special.kl_div", x=_log_quotient, y=lambda x, y: (y - x) / y, kernel=_kl_div_kernel, memory="fresh")
def kl_div(x: Any, y: Any, /) -> Tensor:
    """Kullback-Leibler divergence of one probability from another.

    x, y: Real.
    Returns: ``x * log(x / y) - x + y``; `y` where `x` is 0 and `y` not negative, inf out of the domain.
    The derivatives are ``log(x / y)`` and ``1 - x / y``, both right where `x` is near `y`; out of the domain they are
    not defined. PyTorch's ``kl_div`` is another function, in `agrad.nn.functional`.

    >>> ag.special.kl_div(ag.asarray([0.0, 0.5]), 0.25)
    tensor([0.2500, 0.0966])
    """
