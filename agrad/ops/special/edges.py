"""Powers and logarithms at 0, with the limits of their derivatives: what functions are made of at an edge of their domain.

A density that is a power of the distance from the edge has derivatives there that the chain rule does not find: it multiplies
factors of 0 and infinity, and adds infinities of both signs. Here each derivative is one number, the limit. Of the terms of a
series the first alone may be infinite: where a later one would be, the first is so too, and more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agrad.core.declare import elementwise

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__: list[str] = []


def _falling(p: Any, one: Any, count: int) -> tuple[Any, Any]:
    """Return ``p (p - 1) ...``, of so many factors, and its derivative by `p`."""
    product, slope = one, one * 0
    for i in range(count):
        product, slope = product * (p - i), slope * (p - i) + product
    return product, slope


def _infinite(xp: Any, sign: Any) -> Any:
    """Infinity of this sign, 0 for 0."""
    infinity = xp.zeros_like(sign) + math.inf
    return xp.where(sign > 0, infinity, xp.where(sign < 0, -infinity, sign))


def _power_kernel(xp: Any, u: Any, p: Any, minor: Any, major: Any, by_u: int, by_p: int, later: bool) -> Any:
    u, p, log = xp.broadcast_arrays(u, p, minor + major)
    one = xp.ones_like(u) + xp.zeros_like(p + log)
    factors, slope = _falling(p, one, by_u)
    zero, odd = one * 0, (-1.0) ** by_p
    # the highest power of the logarithm that remains: one less where its factor has a simple root
    leading = xp.where(factors != 0, odd * factors, -odd * slope if by_p else zero)
    below = _infinite(xp, leading)
    at = one * (odd * math.inf) if by_p else factors * xp.exp(log)
    found = xp.where(p > by_u, zero, xp.where(p == by_u, at, below))
    if later:
        found = xp.where(xp.isinf(found), zero, found)
    return xp.where(u != 0, zero, xp.where(xp.isnan(p + log), one * math.nan, found))


@elementwise(
    name="special.edge_power",
    u=lambda xp, u, p, minor, major, by_u, by_p, later: xp.special.edge_power(
        u, p, minor, major, by_u + 1, by_p, later
    ),
    p=lambda xp, u, p, minor, major, by_u, by_p, later: xp.special.edge_power(
        u, p, minor, major, by_u, by_p + 1, later
    ),
    minor=lambda xp, u, p, minor, major, by_u, by_p: xp.special.edge_power(u, p, minor, major, by_u, by_p, True),
    major=lambda xp, u, p, minor, major, by_u, by_p, later: xp.special.edge_power(
        u, p, minor, major, by_u, by_p, later
    ),
    kernel=_power_kernel,
)
def edge_power(u: Any, p: Any, minor: Any, major: Any, by_u: int = 0, by_p: int = 0, later: bool = False, /) -> Tensor:
    """Where `u` is 0 the limit from above of ``u**p * exp(minor + major)``, or of its derivatives of these orders; 0 elsewhere.

    What `minor` depends on moves `p` as well, so that the derivative by `p` outweighs the one by `minor` where both are
    infinite. A `later` term of a series is 0 where it would be infinite.
    """


def _log_kernel(xp: Any, u: Any, p: Any, by_u: int) -> Any:
    u, p = xp.broadcast_arrays(u, p)
    p = p + xp.zeros_like(u)
    found = _infinite(xp, p if by_u % 2 else -p)
    return xp.where(u != 0, xp.zeros_like(p), found)


@elementwise(
    name="special.edge_log",
    u=lambda xp, u, p, by_u: xp.special.edge_log(u, p, by_u + 1),
    p=lambda xp, u, p, by_u: xp.special.edge_log(u, xp.ones_like(p), by_u),
    kernel=_log_kernel,
)
def edge_log(u: Any, p: Any, by_u: int = 0, /) -> Tensor:
    """Where `u` is 0 the limit from above of ``p * log(u)``, or of its derivative of this order by `u`; 0 elsewhere."""


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
)
def f_edge(dfn: Any, dfd: Any, /) -> Tensor:
    """The logarithm of the factor of the density of the F distribution at 0.

    One op, so that an infinite cotangent meets the sum of its terms, not each.
    """
