"""Powers and logarithms at 0, with the limits of their derivatives: for functions at an edge of their domain.

A density that is a power of the distance from the edge has derivatives there that the chain rule does not find: it
multiplies factors of 0 and infinity, and adds infinities of both signs. Here each derivative is one number, the limit.
In a
series, only the first term can be infinite: where a later one would be, the first is infinite too, and dominates. A
series is known to some
order: derivatives that need the next term are NaN; these are of the third order or higher.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agrad.core.backend import item_of
from agrad.core.declare import elementwise, nondifferentiable
from agrad.core.facts import Facts
from agrad.ops.batch_rules import pointwise

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__: list[str] = []

#: The term of a series that a power is: the first, the one after it, or the last known one.
FIRST, LATER, LAST = 0, 1, 2
#: The order of derivative up to which the known terms suffice, for any powers.
KNOWN = 2


def _falling(p: Any, one: Any, count: int) -> tuple[Any, Any]:
    """Return ``p (p - 1) ...``, with this many factors, and its derivative with respect to `p`."""
    product, slope = one, one * 0
    for i in range(count):
        product, slope = product * (p - i), slope * (p - i) + product
    return product, slope


def _infinite(xp: Any, sign: Any) -> Any:
    """Infinity of this sign, 0 for 0."""
    infinity = xp.zeros_like(sign) + math.inf
    return xp.where(sign > 0, infinity, xp.where(sign < 0, -infinity, sign))


def _power_kernel(xp: Any, u: Any, p: Any, minor: Any, major: Any, by_u: int, by_p: int, place: int) -> Any:
    u, p, log = xp.broadcast_arrays(u, p, minor + major)
    one = xp.ones_like(u) + xp.zeros_like(p + log)
    factors, slope = _falling(p, one, by_u)
    zero, odd = one * 0, (-1.0) ** by_p
    # the highest power of the logarithm that remains: one less where its factor has a simple root
    leading = xp.where(factors != 0, odd * factors, -odd * slope if by_p else zero)
    below = _infinite(xp, leading)
    at = one * (odd * math.inf) if by_p else factors * xp.exp(log)
    found = xp.where(p > by_u, zero, xp.where(p == by_u, at, below))
    if place != FIRST:
        found = xp.where(xp.isinf(found), zero, found)
    if place == LAST and by_u > KNOWN and not by_p:  # of integer powers, which leave nothing infinite
        found = xp.where((p < by_u) & (factors == 0), one * math.nan, found)
    return xp.where(u != 0, zero, xp.where(xp.isnan(p + log), one * math.nan, found))


@elementwise(
    name="special.edge_power",
    u=lambda xp, u, p, minor, major, by_u, by_p, place: xp.special.edge_power(
        u, p, minor, major, by_u + 1, by_p, place
    ),
    p=lambda xp, u, p, minor, major, by_u, by_p, place: xp.special.edge_power(
        u, p, minor, major, by_u, by_p + 1, place
    ),
    minor=lambda xp, u, p, minor, major, by_u, by_p, place: xp.special.edge_power(
        u, p, minor, major, by_u, by_p, place or LATER
    ),
    major=lambda xp, u, p, minor, major, by_u, by_p, place: xp.special.edge_power(
        u, p, minor, major, by_u, by_p, place
    ),
    kernel=_power_kernel,
    memory="fresh",
)
def edge_power(u: Any, p: Any, minor: Any, major: Any, by_u: int = 0, by_p: int = 0, place: int = FIRST, /) -> Tensor:
    """Where `u` is 0, return the limit from above of ``u**p * exp(minor + major)``, or of its derivatives of these orders; 0 elsewhere.

    The operands of `minor` move `p` as well, so the derivative with respect to `p` dominates that with respect to
    `minor` if both are infinite. A term of a series that is not its first (`place`) is 0 where it would be infinite;
    the last known one is NaN where a derivative of an order above `KNOWN` needs the next.
    """


def _log_kernel(xp: Any, u: Any, p: Any, by_u: int) -> Any:
    u, p = xp.broadcast_arrays(u, p)
    p = p + xp.zeros_like(u)
    found = _infinite(xp, p if by_u % 2 else -p)
    if by_u > KNOWN:
        found = xp.where(p == 0, found + math.nan, found)
    return xp.where(u != 0, xp.zeros_like(p), found)


@elementwise(
    name="special.edge_log",
    u=lambda xp, u, p, by_u: xp.special.edge_log(u, p, by_u + 1),
    p=lambda xp, u, p, by_u: xp.special.edge_log(u, xp.ones_like(p), by_u),
    kernel=_log_kernel,
    memory="fresh",
)
def edge_log(u: Any, p: Any, by_u: int = 0, /) -> Tensor:
    """Where `u` is 0, return the limit from above of ``p * log(u)``, or of its derivative of this order with respect to `u`; 0 elsewhere.

    It dominates the series after it, whose derivatives of an order above `KNOWN` are unknown: where `p` is 0 they are
    NaN.
    """


def _flat_sign(square: bool, by_u: int, by_shape: int, by_scale: int) -> float:
    """Return the sign of the infinity that a derivative tends to, 0 if there is no such term, NaN if the next term matters."""
    if not square and by_shape + by_scale > 1:
        return math.nan if by_u else 0.0
    odd: float = (-1.0) ** (by_u + by_shape + by_scale)
    return odd if by_scale else -odd


def _flat_kernel(xp: Any, u: Any, shape: Any, scale: Any, square: bool, by_u: int, by_shape: int, by_scale: int) -> Any:
    zero = xp.zeros_like(u + shape + scale)
    sign = _flat_sign(square, by_u, by_shape, by_scale)
    found = xp.where(xp.isnan(shape + scale), zero + math.nan, zero + (sign * math.inf if sign else 0.0))
    return xp.where(u != 0, zero, found)


@elementwise(
    name="special.edge_flat",
    u=lambda xp, u, shape, scale, square, by_u, by_shape, by_scale: xp.special.edge_flat(
        u, shape, scale, square, by_u + 1, by_shape, by_scale
    ),
    shape=lambda xp, u, shape, scale, square, by_u, by_shape, by_scale: xp.special.edge_flat(
        u, shape, scale, square, by_u, by_shape + 1, by_scale
    ),
    scale=lambda xp, u, shape, scale, square, by_u, by_shape, by_scale: xp.special.edge_flat(
        u, shape, scale, square, by_u, by_shape, by_scale + 1
    ),
    kernel=_flat_kernel,
    memory="fresh",
)
def edge_flat(
    u: Any, shape: Any, scale: Any, square: bool, by_u: int = 0, by_shape: int = 0, by_scale: int = 0, /
) -> Tensor:
    """Where `u` is 0, return the limit from above of a logarithm that falls faster than that of any power, or of its derivatives.

    It is ``-(log(u / scale) / shape)**2`` if `square`, otherwise ``-scale / u - shape * log(u)``; 0 elsewhere. The
    omitted terms next to the latter only matter in derivatives with respect to `u` and two others, which are NaN.
    """


def _inner_slope_kernel(xp: Any, found: Any, inner: Any, name: str) -> Any:
    if not item_of(xp.all(inner)):
        raise NotImplementedError(
            f"{name}: the derivative at an end of the range is not implemented for lazy arrays, and an element lies there"
            "\n  Compute the operands first, or take points inside."
        )
    return xp.ones_like(found)


@nondifferentiable(
    "found",
    "inner",
    name="special.inner_slope",
    kernel=_inner_slope_kernel,
    batch=pointwise,
    memory="fresh",
    facts=Facts(sparsity="elements"),
)
def inner_slope(found: Any, inner: Any, name: str, /) -> Tensor:
    """Return 1; raise where an element is not `inner`."""


@elementwise(
    name="special.inner_only",
    found=lambda xp, ans, inner, name: xp.special.inner_slope(ans, inner, name),
    inner=0.0,
    kernel=lambda xp, found, inner, name: found,
)
def inner_only(found: Any, inner: Any, name: str, /) -> Tensor:
    """Return values unchanged, with derivatives where they are `inner`; elsewhere these raise an error when they are computed."""


def _f_level_kernel(xp: Any, dfn: Any, dfd: Any) -> Any:
    ratio = dfn / dfd
    ratio = xp.where(ratio > 0, ratio, xp.zeros_like(ratio) + math.nan)
    return dfn / 2 * xp.log(ratio) - xp.special.betaln(dfn / 2, dfd / 2)


def _f_level_by(xp: Any, a: Any, b: Any, level: Any) -> Any:
    return (level - xp.special.psi(a / 2) + xp.special.psi((a + b) / 2)) / 2


@elementwise(
    name="special.f_edge",
    dfn=lambda xp, dfn, dfd: _f_level_by(xp, dfn, dfd, xp.log(dfn / dfd) + 1),
    dfd=lambda xp, dfn, dfd: _f_level_by(xp, dfd, dfn, -dfn / dfd),
    kernel=_f_level_kernel,
    memory="fresh",
)
def f_edge(dfn: Any, dfd: Any, /) -> Tensor:
    """Return the logarithm of the factor of the density of the F distribution at 0.

    A single op, so that an infinite cotangent meets the sum of its terms, not each.
    """
