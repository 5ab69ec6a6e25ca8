"""Samples of the special functions."""

from __future__ import annotations

from typing import Any

from agrad.testing.samples.data import (
    Data,
    Draw,
    above_one,
    add,
    complex_of,
    cplx,
    inside,
    integers,
    mask,
    positive,
    real,
    spaced,
)

#: Those that only need the standard's functions; the others need SciPy's, or equivalents.
_STANDARD = frozenset(
    [
        "boxcox",
        "boxcox1p",
        "cbrt",
        "cosm1",
        "entr",
        "erf",
        "erfc",
        "exp10",
        "exp2",
        "expit",
        "exprel",
        "huber",
        "inv_boxcox",
        "inv_boxcox1p",
        "kl_div",
        "log_expit",
        "logit",
        "logsumexp_over",
        "logsumexp_shares",
        "ndtr",
        "pseudo_huber",
        "rel_entr",
        "sinc",
        "xlog1py",
        "xlogy",
    ]
)


_Shapes = tuple[tuple[int, ...], ...]


def _add(name: str, *args: Any, beyond: str = "", **kwargs: Any) -> None:
    beyond = beyond or ("" if name in _STANDARD else "kernels that the standard's functions cannot compose")
    add(f"special.{name}", *args, beyond=beyond, **kwargs)


def _at(*values: complex) -> Data:
    return Data((len(values),), values, "complex128" if complex in map(type, values) else "float64")


def unit(*shape: int) -> Data:
    """Real numbers from 0.1 to 0.9."""
    drawn = inside(*shape)
    return Data(shape, tuple(0.5 + v / 2 for v in drawn.values), "float64")


def _scaled(factor: float, data: Data) -> Data:
    return Data(data.shape, tuple(factor * v for v in data.values), data.dtype)


def _unary(name: str, draw: Draw, *points: float, other: Draw | None = None, shapes: _Shapes = ((2,),)) -> None:
    for shape in shapes:
        _add(name, draw(*shape))
    if points:
        _add(name, _at(*points))
    if other is not None:
        _add(name, other(2))


_ccentred = complex_of(inside)
_cpositive = complex_of(positive)

_unary("gamma", positive, -0.5, -1.3, 4.5, shapes=((2, 2), (), (0, 2)))
_unary("gammaln", positive, -0.5, -1.3, 30.0)
_unary("loggamma", positive, 30.0)
_unary("rgamma", positive, -0.5, 0.4, 3.0)
_unary("psi", positive, -0.5, -1.3, 30.0)
_unary("erf", real, 0.01, 3.0, -3.0)
_unary("erfc", real, 0.01, 3.0, -3.0)
_unary("erfcx", real, 0.01, -1.0, 1.99, 2.01, 30.0)
_unary("erfinv", inside)
_unary("erfcinv", unit, 1.5)
_unary("ndtr", real, 0.01, 3.0, -3.0)
_unary("ndtri", unit)
_unary("log_ndtr", real, 0.01, 3.0, -3.0, -40.0)
_unary("ndtri_exp", lambda *shape: _scaled(-1, positive(*shape)), -0.1, -20.0)
_unary("expit", real, 0.0, 5.0, -5.0, shapes=((2, 2), (), (0, 2)))
_unary("logit", unit)
_unary("log_expit", real, 0.0, 5.0, -5.0)
_unary("entr", positive)
_unary("sinc", real, 0.0, 0.01, 0.47, 0.48, 3.3, other=cplx, shapes=((2, 2), (), (0, 2)))
_unary("exp2", real)
_unary("exp10", inside)
_unary("cbrt", real)
_unary("cosm1", real, 0.0, 0.01)
_unary("exprel", real, 0.0, 0.01, 0.99, 1.01, -5.0)
for _name in ("j0", "j1", "i0", "i0e", "i1", "i1e"):
    _unary(_name, real, 5.0)
for _name in ("y0", "y1", "k0", "k0e", "k1", "k1e"):
    _unary(_name, positive, 5.0)
_unary("exp1", positive, other=_cpositive)
_unary("expi", positive, -0.7, other=_cpositive)
_unary("spence", positive, 1.0, 1.01, 0.81, 0.79, other=_cpositive)
_unary("ellipk", inside, 0.0, 0.9, -3.0)
_unary("ellipkm1", unit, 1.0, 0.05, 3.0)
_unary("ellipe", inside, 0.0, 0.9, -3.0)
_unary("ellipem1", unit, 1.0, 3.0)
for _name in ("erf", "erfc", "ndtr"):
    add(f"special.{_name}", _ccentred(3), beyond="complex numbers")

#: Only a few, because broadcasting and empty operands are tested for every kind of rule elsewhere.
_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (((2, 1), (2,)),)
_MORE_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    *_PAIRS,
    ((2, 2), (2, 2)),
    ((), (2,)),
    ((0, 2), (2,)),
)


def _binary(name: str, first: Draw, second: Draw, *, pairs: Any = _PAIRS) -> None:
    for a, b in pairs:
        _add(name, first(*a), second(*b))


_binary("beta", positive, positive)
_binary("betaln", positive, positive)
_add("betaln", _at(12.0, 12.0, 0.5), _at(0.5, 20.0, 12.0))
_binary("binom", above_one, unit)
_binary("poch", positive, positive)
_binary("gammainc", positive, positive, pairs=_MORE_PAIRS)
_binary("gammaincc", positive, positive)
_binary("gammaincinv", positive, unit)
_binary("gammainccinv", positive, unit)
_add("gammainc", _at(0.2, 12.0, 12.0, 1.0), _at(0.1, 8.0, 14.0, 3.0))
_binary("gamma_density", positive, positive)
_add("gamma_density", _at(12.0, 30.0), _at(9.0, 50.0))
for _order in (1, 2):
    _add("gammainc_by_a", integers(1, 2, 12), _at(0.5, 3.0, 11.0), _order)
_add("edge_power", _at(0.5, 2.0), _at(2.5, 0.5), _at(0.3, 0.2), _at(0.1, 0.4))
_add("edge_log", _at(0.5, 2.0), _at(2.5, 0.5))
for _square in (True, False):
    _add("edge_flat", _at(0.5, 2.0), _at(2.5, 0.5), _at(0.3, 0.2), _square)
_add("inner_only", real(2), mask(1, 1), "gamma.pdf")
_binary("f_edge", positive, positive)
_binary("xlogy", real, positive, pairs=_MORE_PAIRS)
_binary("xlog1py", real, positive)
_add("xlogy", cplx(2), cplx(2), beyond="complex numbers in a choice")
_add("xlog1py", _at(0.6 + 0.8j, -1.1 + 0.4j), _at(0.9 - 1.2j, 0.3 + 0.5j), beyond="complex numbers in a choice")
_binary("rel_entr", positive, positive)
_binary("kl_div", positive, positive)
_add("rel_entr", _at(0.3, 0.5), _at(0.31, 2.0))
_binary("boxcox", positive, real)
_add("boxcox", positive(3), _at(0.0, 1e-3, 2.0))
_binary("boxcox1p", positive, real)
_binary("inv_boxcox", unit, unit)
_add("inv_boxcox", _at(0.5, -0.3, 0.4), _at(0.0, 1e-3, 0.6))
_binary("inv_boxcox1p", unit, unit)
_binary("huber", unit, above_one)
_binary("huber", above_one, inside)
_binary("pseudo_huber", positive, real)
_binary("ellipkinc", inside, inside)
_add("ellipkinc", _at(2.0, -4.0, 1.2), _at(0.5, 0.4, -2.0))
_binary("ellipeinc", inside, inside)
_add("ellipeinc", _at(2.0, -4.0, 1.2), _at(0.5, 0.4, -2.0))
_add("ellipkinc_by_m", _at(1.0, -2.0), _at(0.5, -0.4))
_add("ellipeinc_by_m", _at(1.0, -2.0), _at(0.5, -0.4))
_binary("stdtr", positive, real)
_add("stdtr", _at(0.5, 8.0, 40.0), _at(0.0, -3.0, 2.0))
_binary("stdtrit", positive, unit)
_add("stdtr_by_df", integers(1, 2, 12), _at(0.5, -3.0, 2.0))
_binary("chdtr", positive, positive)
_binary("chdtrc", positive, positive)
_binary("chdtri", positive, unit)
_binary("chdtriv", unit, positive)
_add("zeta", 2.5, positive(3))
_add("zeta", 3, positive(2, 2))

_add("scaled_ierfc", _at(-1.0, 0.0, 1.9, 2.1, 9.0), 1)
_add("scaled_ierfc", _at(0.5, 3.0), 3)
_add("polygamma", 1, positive(2, 3))
_add("polygamma", 2, positive())
_add("polygamma", integers(0, 1, 3), positive(3))
for _name in ("jv", "iv", "ive"):
    _add(_name, 0.5, positive(2))
    _add(_name, integers(0, 1, 2), real(3))
for _name in ("yv", "kv", "kve"):
    _add(_name, 0.5, positive(2))
    _add(_name, integers(0, 1, 3), positive(3))
for _name in ("jv", "yv", "iv", "kv", "kve"):
    _add(_name, 1.5, _cpositive(2))
_add("expn", 3, positive(2, 2))
_add("expn", integers(0, 1, 2), positive(3))
_add("hyp1f1", 0.5, 1.5, real(3))
_add("hyp1f1", 0.5, 1.5, cplx(2))
_add("hyp2f1", 0.5, 1.5, 2.5, inside(3))
_add("hyp2f1", 0.5, 1.5, 2.5, _at(0.3 + 0.4j, -0.6 - 0.2j))


def _ternary(name: str, *draws: Draw, shapes: _Shapes = ((2, 1), (), (2,))) -> None:
    _add(name, *(draw(*shape) for draw, shape in zip(draws, shapes, strict=True)))


_ternary("betainc", positive, positive, unit)
_ternary("betainc", positive, positive, unit, shapes=((), (2,), ()))
_ternary("betainc", positive, positive, unit, shapes=((0, 2), (2,), ()))
_add("betainc", _at(0.2, 12.0, 12.0), _at(3.0, 15.0, 0.4), _at(0.05, 0.5, 0.9))
_ternary("betaincc", positive, positive, unit)
_ternary("betaincinv", positive, positive, unit)
_ternary("betainccinv", positive, positive, unit)
_ternary("beta_density", positive, positive, unit)
_add("beta_density", _at(12.0, 30.0), _at(15.0, 20.0), _at(0.4, 0.7))
for _orders in ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2)):
    _add("betainc_by", integers(1, 2, 12), integers(2, 1, 11), _at(0.3, 0.6, 0.45), *_orders)
_ternary("fdtr", positive, positive, positive)
_ternary("fdtrc", positive, positive, positive)
_add("fdtri", _at(3.0, 5.0), _at(2.5, 4.0), _at(0.3, 0.6))
_ternary("gdtr", positive, positive, positive)
_ternary("gdtrc", positive, positive, positive)
_ternary("gdtria", unit, positive, positive)
_ternary("gdtrib", positive, unit, positive)
_ternary("gdtrix", positive, positive, unit)
_ternary("btdtria", unit, positive, unit)
_ternary("btdtrib", above_one, unit, unit)
for _name in ("bdtr", "bdtrc", "bdtri"):
    _add(_name, integers(0, 2, 3), integers(5, 5, 4), unit(3))
    _add(_name, 2, 5, unit(2))
for _name in ("nbdtr", "nbdtrc", "nbdtri"):
    _add(_name, integers(0, 2, 3), integers(5, 5, 4), unit(3))
    _add(_name, 2, 5, unit(2))
for _name in ("pdtr", "pdtrc"):
    _add(_name, integers(0, 2, 3), positive(3))
    _add(_name, 2, positive(2))
_add("pdtri", integers(0, 2, 3), unit(3))
_add("pdtri", 2, unit(2))

_add("logsumexp_over", real(2, 3))
_add("logsumexp_over", real(2, 3), axis=1)
_add("logsumexp_over", spaced(2, 3, 2), axis=(0, -1), keepdims=True)
_add("logsumexp_over", _at(1.0, 1.0, -30.0))
_add("logsumexp_over", real(), keepdims=True)
_add("logsumexp_over", real(0, 3), axis=1)
_add("logsumexp_shares", real(2, 3))
_add("logsumexp_shares", spaced(2, 3, 2), axis=(0, -1))
_add("logsumexp_shares", real(0, 3), axis=1)
