"""Bessel functions, ordinary and modified. Their derivatives with respect to the argument are functions of neighbouring orders.

The derivatives of the scaled functions are differences of nearly equal values for large arguments: their error,
relative to the function's value, stays near that of the function, while they decay as 1 / z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core.declare import elementwise
from agrad.core.facts import Facts
from agrad.ops.special.series import real_only, refused

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "i0", "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "jv", "k0", "k0e", "k1", "k1e", "kv", "kve", "y0", "y1", "yv",
]  # fmt: skip


@elementwise(name="special.j0", x=lambda xp, x: -xp.special.j1(x), memory="fresh")
def j0(x: Any, /) -> Tensor:
    """Bessel function of the first kind of order 0.

    Returns: ``J0(x)``.
    The derivative is ``-J1(x)`` (DLMF 10.6.3).

    >>> ag.special.j0(ag.asarray([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """


@elementwise(name="special.j1", x=lambda xp, x: (xp.special.j0(x) - xp.special.jv(2, x)) / 2, memory="fresh")
def j1(x: Any, /) -> Tensor:
    """Bessel function of the first kind of order 1.

    Returns: ``J1(x)``.
    The derivative is ``(J0(x) - J2(x)) / 2`` (DLMF 10.6.1).

    >>> ag.special.j1(ag.asarray([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """


@elementwise(
    name="special.jv",
    v=refused("jv", "v"),
    z=lambda xp, v, z: (xp.special.jv(v - 1, z) - xp.special.jv(v + 1, z)) / 2,
    memory="fresh",
)
def jv(v: Any, z: Any, /) -> Tensor:
    """Bessel function of the first kind of real order.

    Returns: ``J_v(z)``.
    NotImplementedError: If a derivative by the order is asked for.
    The derivative is ``(J_(v-1)(z) - J_(v+1)(z)) / 2`` (DLMF 10.6.1).

    >>> ag.special.jv(0.5, ag.asarray([0.0, 1.0]))
    tensor([0.0000, 0.6714])
    """


@elementwise(name="special.y0", x=lambda xp, x: -xp.special.y1(x), memory="fresh")
def y0(x: Any, /) -> Tensor:
    """Bessel function of the second kind of order 0.

    x: Positive.
    Returns: ``Y0(x)``.
    The derivative is ``-Y1(x)`` (DLMF 10.6.3).

    >>> ag.special.y0(ag.asarray([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """


@elementwise(name="special.y1", x=lambda xp, x: (xp.special.y0(x) - xp.special.yv(2, x)) / 2, memory="fresh")
def y1(x: Any, /) -> Tensor:
    """Bessel function of the second kind of order 1.

    x: Positive.
    Returns: ``Y1(x)``.
    The derivative is ``(Y0(x) - Y2(x)) / 2`` (DLMF 10.6.1).

    >>> ag.special.y1(ag.asarray([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """


@elementwise(
    name="special.yv",
    v=refused("yv", "v"),
    z=lambda xp, v, z: (xp.special.yv(v - 1, z) - xp.special.yv(v + 1, z)) / 2,
    memory="fresh",
)
def yv(v: Any, z: Any, /) -> Tensor:
    """Bessel function of the second kind of real order.

    Returns: ``Y_v(z)``.
    NotImplementedError: If a derivative by the order is asked for.
    The derivative is ``(Y_(v-1)(z) - Y_(v+1)(z)) / 2`` (DLMF 10.6.1).

    >>> ag.special.yv(0.5, ag.asarray([1.0, 2.0]))
    tensor([-0.4311,  0.2348])
    """


@elementwise(name="special.i0", x=lambda xp, x: xp.special.i1(x), memory="fresh", facts=Facts(torch="i0"))
def i0(x: Any, /) -> Tensor:
    """Modified Bessel function of the first kind of order 0.

    Returns: ``I0(x)``.
    The derivative is ``I1(x)`` (DLMF 10.29.3).

    >>> ag.special.i0(ag.asarray([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """


@elementwise(name="special.i0e", x=lambda xp, ans, x: xp.special.i1e(x) - xp.sign(x) * ans, memory="fresh")
def i0e(x: Any, /) -> Tensor:
    """Modified Bessel function of the first kind of order 0, scaled.

    Returns: ``exp(-abs(x)) * I0(x)``.
    The derivative is ``i1e(x) - sign(x) * i0e(x)``; at 0, a kink, it is 0.

    >>> ag.special.i0e(ag.asarray([0.0, 1e3]))
    tensor([1.0000, 0.0126])
    """


@elementwise(name="special.i1", x=lambda xp, x: (xp.special.i0(x) + xp.special.iv(2, x)) / 2, memory="fresh")
def i1(x: Any, /) -> Tensor:
    """Modified Bessel function of the first kind of order 1.

    Returns: ``I1(x)``.
    The derivative is ``(I0(x) + I2(x)) / 2`` (DLMF 10.29.1).

    >>> ag.special.i1(ag.asarray([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """


@elementwise(
    name="special.i1e",
    x=lambda xp, ans, x: (xp.special.i0e(x) + xp.special.ive(2, x)) / 2 - xp.sign(x) * ans,
    memory="fresh",
)
def i1e(x: Any, /) -> Tensor:
    """Modified Bessel function of the first kind of order 1, scaled.

    Returns: ``exp(-abs(x)) * I1(x)``.
    The derivative is ``(i0e(x) + ive(2, x)) / 2 - sign(x) * i1e(x)``.

    >>> ag.special.i1e(ag.asarray([0.0, 1e3]))
    tensor([0.0000, 0.0126])
    """


@elementwise(
    name="special.iv",
    v=refused("iv", "v"),
    z=lambda xp, v, z: (xp.special.iv(v - 1, z) + xp.special.iv(v + 1, z)) / 2,
    memory="fresh",
)
def iv(v: Any, z: Any, /) -> Tensor:
    """Modified Bessel function of the first kind of real order.

    Returns: ``I_v(z)``.
    NotImplementedError: If a derivative by the order is asked for.
    The derivative is ``(I_(v-1)(z) + I_(v+1)(z)) / 2`` (DLMF 10.29.1).

    >>> ag.special.iv(0.5, ag.asarray([0.0, 1.0]))
    tensor([0.0000, 0.9377])
    """


def _ive_slope(xp: Any, ans: Any, v: Any, z: Any) -> Any:
    real_only(xp, "ive", z)
    return (xp.special.ive(v - 1, z) + xp.special.ive(v + 1, z)) / 2 - xp.sign(z) * ans


@elementwise(name="special.ive", v=refused("ive", "v"), z=_ive_slope, memory="fresh")
def ive(v: Any, z: Any, /) -> Tensor:
    """Modified Bessel function of the first kind of real order, scaled.

    z: Real (complex without derivative: the scale is not holomorphic).
    Returns: ``exp(-abs(real(z))) * I_v(z)``.
    NotImplementedError: If a derivative by the order, or at complex `z`, is asked for.
    The derivative is ``(ive(v - 1, z) + ive(v + 1, z)) / 2 - sign(z) * ive(v, z)``.

    >>> ag.special.ive(0.5, ag.asarray([0.0, 1e3]))
    tensor([0.0000, 0.0126])
    """


@elementwise(name="special.k0", x=lambda xp, x: -xp.special.k1(x), memory="fresh")
def k0(x: Any, /) -> Tensor:
    """Modified Bessel function of the second kind of order 0.

    x: Positive.
    Returns: ``K0(x)``.
    The derivative is ``-K1(x)`` (DLMF 10.29.3).

    >>> ag.special.k0(ag.asarray([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """


@elementwise(name="special.k0e", x=lambda xp, ans, x: ans - xp.special.k1e(x), memory="fresh")
def k0e(x: Any, /) -> Tensor:
    """Modified Bessel function of the second kind of order 0, scaled.

    x: Positive.
    Returns: ``exp(x) * K0(x)``.
    The derivative is ``k0e(x) - k1e(x)``.

    >>> ag.special.k0e(ag.asarray([1.0, 1e3]))
    tensor([1.1445, 0.0396])
    """


@elementwise(name="special.k1", x=lambda xp, x: -(xp.special.k0(x) + xp.special.kv(2, x)) / 2, memory="fresh")
def k1(x: Any, /) -> Tensor:
    """Modified Bessel function of the second kind of order 1.

    x: Positive.
    Returns: ``K1(x)``.
    The derivative is ``-(K0(x) + K2(x)) / 2`` (DLMF 10.29.1).

    >>> ag.special.k1(ag.asarray([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """


@elementwise(
    name="special.k1e", x=lambda xp, ans, x: ans - (xp.special.k0e(x) + xp.special.kve(2, x)) / 2, memory="fresh"
)
def k1e(x: Any, /) -> Tensor:
    """Modified Bessel function of the second kind of order 1, scaled.

    x: Positive.
    Returns: ``exp(x) * K1(x)``.
    The derivative is ``k1e(x) - (k0e(x) + kve(2, x)) / 2``.

    >>> ag.special.k1e(ag.asarray([1.0, 1e3]))
    tensor([1.6362, 0.0396])
    """


@elementwise(
    name="special.kv",
    v=refused("kv", "v"),
    z=lambda xp, v, z: -(xp.special.kv(v - 1, z) + xp.special.kv(v + 1, z)) / 2,
    memory="fresh",
)
def kv(v: Any, z: Any, /) -> Tensor:
    """Modified Bessel function of the second kind of real order.

    Returns: ``K_v(z)``.
    NotImplementedError: If a derivative by the order is asked for.
    The derivative is ``-(K_(v-1)(z) + K_(v+1)(z)) / 2`` (DLMF 10.29.1).

    >>> ag.special.kv(0.5, ag.asarray([1.0, 2.0]))
    tensor([0.4611, 0.1199])
    """


@elementwise(
    name="special.kve",
    v=refused("kve", "v"),
    z=lambda xp, ans, v, z: ans - (xp.special.kve(v - 1, z) + xp.special.kve(v + 1, z)) / 2,
    memory="fresh",
)
def kve(v: Any, z: Any, /) -> Tensor:
    """Modified Bessel function of the second kind of real order, scaled.

    Returns: ``exp(z) * K_v(z)``.
    NotImplementedError: If a derivative by the order is asked for.
    The derivative is ``kve(v, z) - (kve(v - 1, z) + kve(v + 1, z)) / 2``.

    >>> ag.special.kve(0.5, ag.asarray([1.0, 1e3]))
    tensor([1.2533, 0.0396])
    """
