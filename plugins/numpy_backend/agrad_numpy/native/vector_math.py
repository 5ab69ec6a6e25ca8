"""Functions of one float on vectors: their instructions, accurate to at most 1.5 units in the last place, with NumPy's special values.

Arguments are reduced to an interval around 0, where a polynomial approximates the function;
``tests/backends/test_native_math.py`` compares with exact values. Polynomials were fitted at Chebyshev points. Every
element has the bits it would have alone, whatever the width of a vector and its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from agrad_numpy.native.ir import Arithmetic, IRFunction

#: By dtype: bits of the fraction, the exponent's bias.
FRACTION = {"float32": 23, "float64": 52}
BIAS = {"float32": 127, "float64": 1023}

#: ``(exp(r) - 1 - r) / r**2`` for ``abs(r) <= log(2) / 2``, coefficients lowest first.
EXP = {
    "float32": (0.5, 0.16666666682534356, 0.04166645680967788, 0.008333310024225292, 0.0013934541928270264, 0.0001989198131397769),
    "float64": (
        0.5, 0.16666666666666666, 0.04166666666666668, 0.008333333333333333, 0.0013888888888878269, 0.00019841269841262761,
        2.4801587338565345e-05, 2.7557319248633827e-06, 2.755726102934377e-07, 2.5052069594795685e-08, 2.0918961837795778e-09,
        1.6087177234380782e-10,
    ),
}  # fmt: skip

#: ``(sin(x) / x - 1) / z`` and ``(cos(x) - 1 + z / 2) / z**2`` of ``z = x**2`` for ``abs(x) <= pi / 4``.
SIN = {
    "float32": (-0.16666664539365847, 0.008332724613783694, -0.000195828306788358),
    "float64": (
        -0.16666666666666666, 0.0083333333333307, -0.00019841269836385435, 2.7557315910939e-06, -2.5051092308431318e-08,
        1.5915309183057952e-10,
    ),
}  # fmt: skip
COS = {
    "float32": (0.04166665453632113, -0.0013888279330556918, 2.454287111087026e-05),
    "float64": (
        0.041666666666666664, -0.0013888888888887241, 2.480158729853226e-05, -2.7557317151858866e-07, 2.0876121534608454e-09,
        -1.1380868171449914e-11,
    ),
}  # fmt: skip

#: ``(tanh(x) / x - 1) / z`` of ``z = x**2`` for ``abs(x) <= 0.55``.
TANH = {
    "float32": (-0.3333333329502591, 0.13333324200007313, -0.0539647004451583, 0.021818449128639904, -0.008526333057801327, 0.0025263907105745106),
    "float64": (
        -0.3333333333333333, 0.1333333333333331, -0.05396825396822037, 0.021869488534073906, -0.0088632354631468, 0.0035921267699626346,
        -0.001455819097151351, 0.0005899052969492733, -0.0002384727248015252, 9.455133052924855e-05, -3.372080112046313e-05,
        7.8742743453444e-06,
    ),
}  # fmt: skip

#: ``log((1 + s) / (1 - s)) / s - 2`` of ``z = s**2``, without the factor z: those of FreeBSD's mathematical library (msun).
LOG = {
    "float32": (float.fromhex("0xaaaaaa.0p-24"), float.fromhex("0xccce13.0p-25"), float.fromhex("0x91e9ee.0p-25"), float.fromhex("0xf89e26.0p-26")),
    "float64": (
        6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
        1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
    ),
}  # fmt: skip

#: ``(sinh(x) / x - 1) / z`` of ``z = x**2`` for ``abs(x) <= 1``: the truncated terms are below all digits.
SINH = {
    dtype: tuple(1 / math.factorial(2 * k + 3) for k in range(count))
    for dtype, count in (("float32", 5), ("float64", 9))
}

#: ``(atan(x) / x - 1) / z`` of ``z = x**2`` for ``abs(x) <= sqrt(2) - 1``.
ATAN = {
    "float32": (-0.33333331686451945, 0.1999952339722771, -0.1426336657972561, 0.1073739696716272, -0.06431038710715442),
    "float64": (
        -0.3333333333333333, 0.19999999999999785, -0.14285714285654638, 0.11111111104652255, -0.09090908728587459,
        0.07692295658327873, -0.06666412077725274, 0.058787824694439814, -0.0522938047378184, 0.045467195095551666,
        -0.034445844423577385, 0.016148228546771868,
    ),
}  # fmt: skip

#: ``erf(x) / x - 1`` of ``x**2`` for ``abs(x) <= 1``.
ERF = {
    "float32": (
        0.12837916584835093, -0.37612626666720334, 0.11283594715160218, -0.026854212010626412, 0.005189087423433974,
        -0.000801686428716587, 7.875875062685488e-05,
    ),
    "float64": (
        0.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792, 0.0052239776248180145,
        -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05, 1.6461000484121368e-06, -1.6350312701054695e-07,
        1.4659775274047436e-08, -1.1372848856791674e-09, 5.957176147748911e-11,
    ),
}  # fmt: skip

#: ``exp(x**2) * erfc(x)`` of ``1 / (x + 2)`` for x from 1 to the point where erf is 1.
ERFC = {
    "float32": (
        0.0006051183909673801, 0.547268680168792, 1.3230285348114388, 0.8119632995434544, 6.455920853461252, -1.8260863988446758,
        -3.432347396924676,
    ),
    "float64": (
        1.2965841302986556e-07, 0.5641795198583508, 1.1287410218432883, 1.9666731458010267, 2.942002658996995,
        1.3493059469349291, 10.649750811070025, -75.31270380198113, 307.4045163965331, -1134.6489834653753, 2937.765363319682,
        -4833.989244655832, 4797.2741217981975, -2450.298800629956, 215.8510489885741, 239.24359154423945,
    ),
}  # fmt: skip

#: log(2) as a sum; products of the first part with an exponent are exact. Two to the power of the last part's error is
#: below all digits.
LOG_2 = {"float32": (0.693145751953125, 1.4286068203094172e-06), "float64": (0.6931471805598903, 5.497923018708371e-14)}

#: pi / 2 as a sum of three.
HALF_PI = {
    "float32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "float64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}

#: Larger arguments of sine and cosine are passed to NumPy's loops.
FAR = {"float32": 71476.0, "float64": 1e6}


def polynomial(e: Arithmetic, x: str, coefficients: Sequence[float]) -> str:
    """Return a polynomial, its halves side by side: one does not wait for the other."""
    terms = [e.number(c) for c in coefficients]
    power = x
    while len(terms) > 1:
        pairs = range(0, len(terms), 2)
        terms = [e.fused(terms[i + 1], power, terms[i]) if i + 1 < len(terms) else terms[i] for i in pairs]
        if len(terms) > 1:
            power = e.multiply(power, power)
    return terms[0]


def power_of_2(e: Arithmetic, exponent: str) -> str:
    """Return two to the power of integers within the exponent's range."""
    biased = e.integers("add", exponent, e.whole_number(BIAS[e.dtype]))
    return e.as_float(e.integers("shl", biased, e.whole_number(FRACTION[e.dtype])))


def nearest(e: Arithmetic, x: str) -> str:
    """Return the nearest integers, as floats."""
    return e.called("rint", x)


def reduced(e: Arithmetic, x: str) -> tuple[str, str, str]:
    """Return n, r and the rounding error of r, for ``x = n log(2) + r``."""
    high, low = LOG_2[e.dtype]
    n = nearest(e, e.multiply(x, e.number(1 / math.log(2))))
    first = e.fused(n, e.number(-high), x)
    r = e.fused(n, e.number(-low), first)
    return n, r, e.fused(n, e.number(-low), e.subtract(first, r))


def power_pair(e: Arithmetic, x: str) -> tuple[str, str, str]:
    """Return n, p and the rounding error of p, for ``exp(x) = p * 2**n``, for arguments whose n are exponents."""
    n, r, rest = reduced(e, x)
    tail = e.fused(e.multiply(r, r), polynomial(e, r, EXP[e.dtype]), rest)
    most = e.add(r, tail)
    less = e.subtract(tail, e.subtract(most, r))
    p = e.add(e.number(1.0), most)
    return n, p, e.add(e.subtract(most, e.subtract(p, e.number(1.0))), less)


def exp_within(e: Arithmetic, x: str) -> str:
    """Return the exponential function of arguments that neither overflow nor become subnormal."""
    n, r, rest = reduced(e, x)
    tail = e.fused(e.multiply(r, r), polynomial(e, r, EXP[e.dtype]), rest)
    return e.multiply(e.add(e.add(tail, r), e.number(1.0)), power_of_2(e, e.to_integer(n)))


def scaled(e: Arithmetic, x: str, n: str) -> str:
    """Return ``x * 2**n`` in two steps, each within the exponent's range."""
    whole = e.to_integer(n)
    half = e.integers("ashr", whole, e.whole_number(1))
    return e.multiply(e.multiply(x, power_of_2(e, half)), power_of_2(e, e.integers("sub", whole, half)))


def exp(e: Arithmetic, x: str) -> str:
    """Return the exponential function."""
    large, small = (89.0, -104.0) if e.dtype == "float32" else (710.0, -746.0)
    y = e.choose(e.compare("olt", x, e.number(large)), x, e.number(large))
    y = e.choose(e.compare("ogt", y, e.number(small)), y, e.number(small))
    n, r, rest = reduced(e, y)
    tail = e.fused(e.multiply(r, r), polynomial(e, r, EXP[e.dtype]), rest)
    found = scaled(e, e.add(e.add(tail, r), e.number(1.0)), n)
    return e.choose(e.nan(x), x, found)


def expm1(e: Arithmetic, x: str) -> str:
    """Return ``exp(x) - 1``."""
    y = e.choose(e.compare("ogt", x, e.number(-50.0)), x, e.number(-50.0))
    y = e.choose(e.compare("olt", y, e.number(42.0)), y, e.number(42.0))
    n, r, rest = reduced(e, y)
    tail = e.fused(e.multiply(r, r), polynomial(e, r, EXP[e.dtype]), rest)
    scale = power_of_2(e, e.to_integer(n))
    less = e.subtract(scale, e.number(1.0))
    high = e.multiply(scale, r)  # exact, like all products with a power of two
    total, error = two_sum(e, less, high)
    near = e.add(total, e.fused(scale, tail, error))
    found = e.choose(e.compare("olt", x, e.number(42.0)), near, exp(e, x))
    found = e.choose(e.compare("oeq", x, e.number(0.0)), x, found)  # the sign of a zero
    return e.choose(e.nan(x), x, found)


def two_sum(e: Arithmetic, a: str, b: str) -> tuple[str, str]:
    """Return a sum and its rounding error."""
    total = e.add(a, b)
    part = e.subtract(total, a)
    return total, e.add(e.subtract(a, e.subtract(total, part)), e.subtract(b, part))


def tanh(e: Arithmetic, x: str) -> str:
    """Return the hyperbolic tangent: near 0 by a polynomial, otherwise as ``1 - 2 / (exp(2 x) + 1)``."""
    size = e.called("fabs", x)
    z = e.multiply(x, x)
    near = e.fused(e.multiply(size, z), polynomial(e, z, TANH[e.dtype]), size)
    limit = e.number(10.0 if e.dtype == "float32" else 20.0)
    y = e.choose(e.compare("olt", size, limit), size, limit)
    far = e.subtract(e.number(1.0), e.divide(e.number(2.0), e.add(exp_within(e, e.add(y, y)), e.number(1.0))))
    found = e.choose(e.compare("olt", size, e.number(0.55)), near, far)
    return e.choose(e.nan(x), x, e.called("copysign", found, x))


def sigmoid(e: Arithmetic, x: str) -> str:
    """Return ``1 / (1 + exp(-x))``, as NumPy's kernel has it at the ends."""
    lowest = e.number(-88.0 if e.dtype == "float32" else -709.0)
    power = exp(e, e.negative(e.maximum(x, lowest)))
    one = e.number(1.0)
    total, error = two_sum(e, one, power)
    found = e.divide(one, total)
    lacks = e.subtract(e.fused(e.negative(total), found, one), e.multiply(error, found))
    refined = e.fused(found, lacks, found)
    return e.choose(e.compare("olt", total, e.number(1e30)), refined, found)


def _log(e: Arithmetic, u: str, correction: str = "") -> str:
    """Return ``log(u) + correction / u`` for normal positive numbers, as FreeBSD's library has it."""
    digits = e.whole_number(FRACTION[e.dtype])
    root = 0x3F3504F3 if e.dtype == "float32" else 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
    bits = e.as_integer(u)
    k = e.integers("ashr", e.integers("sub", bits, e.whole_number(root)), digits)
    f = e.subtract(e.as_float(e.integers("sub", bits, e.integers("shl", k, digits))), e.number(1.0))
    s = e.divide(f, e.add(e.number(2.0), f))
    z = e.multiply(s, s)
    series = e.multiply(z, polynomial(e, z, LOG[e.dtype]))
    half = e.multiply(e.number(0.5), e.multiply(f, f))
    high, low = LOG_2[e.dtype]
    n = e.to_float(k)
    rest = e.multiply(n, e.number(low))
    if correction:
        rest = e.add(rest, e.divide(correction, u))
    inner = e.subtract(half, e.fused(s, e.add(half, series), rest))
    return e.fused(n, e.number(high), e.subtract(f, inner))


def log(e: Arithmetic, x: str) -> str:
    """Return the natural logarithm."""
    info = np.finfo(e.dtype)
    up = 2.0 ** (info.nmant + 2)
    small = e.compare("olt", x, e.number(float(info.tiny)))
    found = _log(e, e.choose(small, e.multiply(x, e.number(up)), x))
    found = e.choose(small, e.subtract(found, e.number(math.log(up))), found)
    found = e.choose(e.compare("oeq", x, e.number(math.inf)), x, found)
    found = e.choose(e.compare("oeq", x, e.number(0.0)), e.number(-math.inf), found)
    return e.choose(e.compare("ult", x, e.number(0.0)), e.number(math.nan), found)


def log1p(e: Arithmetic, x: str, lacks: str = "") -> str:
    """Return ``log(1 + x)``, or that of x and its rounding error."""
    info = np.finfo(e.dtype)
    one = e.number(1.0)
    u = e.add(x, one)
    correction = e.subtract(x, e.subtract(u, one))
    correction = e.add(correction, lacks) if lacks else correction
    correction = e.choose(e.compare("ogt", x, e.number(2.0 ** (info.nmant + 2))), e.number(0.0), correction)
    found = _log(e, u, correction)
    found = e.choose(e.compare("olt", e.called("fabs", x), e.number(float(info.eps) / 2)), x, found)
    found = e.choose(e.compare("oeq", x, e.number(math.inf)), x, found)
    found = e.choose(e.compare("oeq", x, e.number(-1.0)), e.number(-math.inf), found)
    return e.choose(e.compare("ult", x, e.number(-1.0)), e.number(math.nan), found)


def _wave(e: Arithmetic, x: str, shift: int) -> str:
    """Return the sine of x plus a number of quarter turns."""
    n = nearest(e, e.multiply(x, e.number(2 / math.pi)))
    r = x
    for part in HALF_PI[e.dtype]:
        r = e.fused(n, e.number(-part), r)
    z = e.multiply(r, r)
    sine = e.fused(e.multiply(r, z), polynomial(e, z, SIN[e.dtype]), r)
    half = e.multiply(z, e.number(0.5))
    first = e.subtract(e.number(1.0), half)
    rest = e.subtract(e.subtract(e.number(1.0), first), half)
    cosine = e.add(first, e.fused(e.multiply(z, z), polynomial(e, z, COS[e.dtype]), rest))
    far = e.compare("ult", e.called("fabs", x), e.number(FAR[e.dtype]))  # others would convert to arbitrary integers
    quarter = e.to_integer(e.choose(far, n, e.number(0.0)))
    quarter = e.integers("add", quarter, e.whole_number(shift)) if shift else quarter
    odd = e.integers("and", quarter, e.whole_number(1))
    is_odd = e.f.get(f"icmp ne {e.whole} {odd}, {e.whole_number(0)}")
    sign = e.integers("shl", e.integers("and", quarter, e.whole_number(2)), e.whole_number(e.bits - 2))
    return e.as_float(e.integers("xor", e.as_integer(e.choose(is_odd, cosine, sine)), sign))


def sin(e: Arithmetic, x: str) -> str:
    """Return the sine."""
    return e.choose(e.compare("oeq", x, e.number(0.0)), x, _wave(e, x, 0))


def cos(e: Arithmetic, x: str) -> str:
    """Return the cosine."""
    return _wave(e, x, 1)


def power(e: Arithmetic, x: str, exponent: float) -> str:
    """Return a power that takes few products: of 3, 4, 1.5, -0.5 and -2."""
    if exponent == 3:
        return e.multiply(e.multiply(x, x), x)
    if exponent in (4, -2):  # the square of a square, or of an inverse, with its rounding error
        root = e.multiply(x, x) if exponent == 4 else e.divide(e.number(1.0), x)
        if exponent == 4:
            lacks = e.fused(x, x, e.negative(root))
        else:
            lacks = e.multiply(root, e.fused(e.negative(root), x, e.number(1.0)))
        found = e.multiply(root, root)
        rest = e.fused(e.add(root, root), lacks, e.fused(root, root, e.negative(found)))
        whole = e.add(found, rest)  # NaN if one of them is not a number
        return e.choose(e.compare("olt", e.called("fabs", rest), e.called("fabs", found)), whole, found)
    infinite = e.compare("oeq", x, e.number(-math.inf))
    root = e.called("sqrt", e.choose(infinite, e.number(math.inf), e.add(x, e.number(0.0))))  # -0.0 counts as 0.0
    return e.multiply(root, e.called("fabs", x)) if exponent == 1.5 else e.divide(e.number(1.0), root)


def any_of(f: IRFunction, truths: str, width: int) -> str:
    """Return whether one of a vector of booleans is true."""
    f.declared.add(f"declare i1 @llvm.vector.reduce.or.v{width}i1(<{width} x i1>)")
    return f.get(f"call i1 @llvm.vector.reduce.or.v{width}i1(<{width} x i1> {truths})")


def tan(e: Arithmetic, x: str) -> str:
    """Return the tangent, as the quotient of sine and cosine with their rounding errors."""
    one = e.number(1.0)
    near = e.compare("ult", e.called("fabs", x), e.number(FAR[e.dtype]))
    n = nearest(e, e.multiply(e.choose(near, x, e.number(0.0)), e.number(2 / math.pi)))
    first, second, third = HALF_PI[e.dtype]
    start = e.fused(n, e.number(-first), x)
    part = e.multiply(n, e.number(-second))
    r, less = two_sum(e, start, part)
    less = e.add(less, e.fused(n, e.number(-third), e.fused(n, e.number(-second), e.negative(part))))
    r, less = two_sum(e, r, less)
    z = e.multiply(r, r)
    part = e.multiply(e.multiply(r, z), polynomial(e, z, SIN[e.dtype]))
    sine = e.add(r, part)
    sine_lacks = e.add(e.subtract(part, e.subtract(sine, r)), less)
    half = e.multiply(z, e.number(0.5))
    most = e.subtract(one, half)
    rest = e.subtract(e.subtract(one, most), half)
    rest = e.fused(e.number(-0.5), e.fused(r, r, e.negative(z)), rest)
    rest = e.fused(e.multiply(z, z), polynomial(e, z, COS[e.dtype]), e.fused(e.negative(r), less, rest))
    cosine = e.add(most, rest)
    cosine_lacks = e.subtract(rest, e.subtract(cosine, most))
    odd = e.integers("and", e.to_integer(n), e.whole_number(1))
    is_odd = e.f.get(f"icmp ne {e.whole} {odd}, {e.whole_number(0)}")
    above, above_lacks = (e.choose(is_odd, e.negative(a), b) for a, b in ((cosine, sine), (cosine_lacks, sine_lacks)))
    below, below_lacks = (e.choose(is_odd, a, b) for a, b in ((sine, cosine), (sine_lacks, cosine_lacks)))
    return e.choose(e.compare("oeq", x, e.number(0.0)), x, quotient(e, above, above_lacks, below, below_lacks))


def quotient(e: Arithmetic, a: str, a_lacks: str, b: str, b_lacks: str) -> str:
    """Return a quotient of numbers with their rounding errors."""
    found = e.divide(a, b)
    lacks = e.add(e.fused(e.negative(found), b, a), e.fused(e.negative(found), b_lacks, a_lacks))
    return e.add(found, e.divide(lacks, b))


def atan(e: Arithmetic, x: str) -> str:
    """Return the inverse tangent: that of ``(x - 1) / (x + 1)`` and an eighth of a turn, of ``-1 / x`` and a quarter."""
    size = e.called("fabs", x)
    one, zero = e.number(1.0), e.number(0.0)
    middle = e.compare("ogt", size, e.number(math.sqrt(2) - 1))
    far = e.compare("ogt", size, e.number(math.sqrt(2) + 1))
    above, above_lacks = two_sum(e, size, e.number(-1.0))
    below, below_lacks = two_sum(e, size, one)
    above = e.choose(far, e.number(-1.0), e.choose(middle, above, size))
    below = e.choose(far, size, e.choose(middle, below, one))
    between = e.f.get(f"xor {e.truth} {middle}, {far}")
    above_lacks, below_lacks = (e.choose(between, lacks, zero) for lacks in (above_lacks, below_lacks))
    u = e.divide(above, below)
    lacks = e.add(e.fused(e.negative(u), below, above), e.fused(e.negative(u), below_lacks, above_lacks))
    lacks = e.choose(middle, e.divide(lacks, below), zero)  # infinities have none
    lacks = e.choose(e.nan(lacks), zero, lacks)
    high, low, _ = HALF_PI[e.dtype]
    base = e.choose(far, e.number(high), e.choose(middle, e.number(high / 2), zero))
    base_lacks = e.choose(far, e.number(low), e.choose(middle, e.number(low / 2), zero))
    z = e.multiply(u, u)
    tail = e.add(e.fused(e.multiply(u, z), polynomial(e, z, ATAN[e.dtype]), lacks), base_lacks)
    total, rest = two_sum(e, base, u)
    found = e.add(total, e.add(rest, tail))
    return e.choose(e.nan(x), x, e.called("copysign", found, x))


def _halves(e: Arithmetic, x: str, sign: float) -> str:
    """Return ``(exp(x) + sign * exp(-x)) / 2`` for x not below 0."""
    limit = e.number(91.0 if e.dtype == "float32" else 712.0)
    n, p, lacks = power_pair(e, e.choose(e.compare("olt", x, limit), x, limit))
    inverse = e.divide(e.number(1.0), p)
    error = e.fused(e.negative(inverse), p, e.number(1.0))
    inverse_lacks = e.multiply(inverse, e.fused(e.negative(inverse), lacks, error))
    least = e.number(-60.0)  # past all digits
    twice = e.multiply(n, e.number(-2.0))
    scale = e.multiply(
        power_of_2(e, e.to_integer(e.choose(e.compare("ogt", twice, least), twice, least))), e.number(sign)
    )
    other, other_lacks = e.multiply(inverse, scale), e.multiply(inverse_lacks, scale)
    total, rest = two_sum(e, p, other)
    rest = e.add(rest, e.add(lacks, other_lacks))
    return scaled(e, e.add(total, rest), e.subtract(n, e.number(1.0)))


def cosh(e: Arithmetic, x: str) -> str:
    """Return the hyperbolic cosine."""
    return e.choose(e.nan(x), x, _halves(e, e.called("fabs", x), 1.0))


def sinh(e: Arithmetic, x: str) -> str:
    """Return the hyperbolic sine: near 0 by its series."""
    size = e.called("fabs", x)
    z = e.multiply(x, x)
    near = e.fused(e.multiply(size, z), polynomial(e, z, SINH[e.dtype]), size)
    found = e.choose(e.compare("olt", size, e.number(1.0)), near, _halves(e, size, -1.0))
    return e.choose(e.nan(x), x, e.called("copysign", found, x))


def erf(e: Arithmetic, x: str) -> str:
    """Return the error function: near 0 by a polynomial, otherwise by that of its complement."""
    size = e.called("fabs", x)
    near = e.fused(size, polynomial(e, e.multiply(x, x), ERF[e.dtype]), size)
    limit = e.number(4.0 if e.dtype == "float32" else 6.0)
    y = e.choose(e.compare("olt", size, limit), size, limit)
    square = e.multiply(y, y)
    lacks = e.fused(y, y, e.negative(square))
    power = exp_within(e, e.negative(square))
    power = e.fused(e.negative(power), lacks, power)
    t = e.divide(e.number(1.0), e.add(y, e.number(2.0)))
    far = e.fused(e.negative(power), polynomial(e, t, ERFC[e.dtype]), e.number(1.0))
    found = e.choose(e.compare("olt", size, e.number(1.0)), near, far)
    return e.choose(e.nan(x), x, e.called("copysign", found, x))


def softplus(e: Arithmetic, x: str) -> str:
    """Return ``log(1 + exp(x))``."""
    least = e.number(-104.0 if e.dtype == "float32" else -746.0)
    size = e.negative(e.called("fabs", x))
    n, p, lacks = power_pair(e, e.choose(e.compare("ogt", size, least), size, least))
    small = log1p(e, scaled(e, p, n), scaled(e, lacks, n))
    return e.choose(e.nan(x), x, e.add(e.maximum(x, e.number(0.0)), small))


#: By operation.
FUNCTIONS: dict[str, Callable[[Arithmetic, str], str]] = {
    "atan": atan,
    "cos": cos,
    "cosh": cosh,
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "nn.sigmoid": sigmoid,
    "nn.softplus": softplus,
    "sin": sin,
    "sinh": sinh,
    "special.erf": erf,
    "tan": tan,
    "tanh": tanh,
}

#: Functions whose arguments may be out of range.
FAR_AWAY = ("sin", "cos", "tan")


class Math:
    """The functions that the kernels of a module call.

    Attributes
    ----------
    texts : dict
        Of the functions, by name, dtype and width.
    declared : set of str
        What they declare.
    loops : set of (str, str)
        The ufuncs and dtypes of NumPy's loops that they call, whose addresses are in variables of the module.
    inline : bool
        Whether each call is inlined: twice as long to compile, for programs of few steps.
    """

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str, int], str] = {}
        self.declared: set[str] = set()
        self.loops: set[tuple[str, str]] = set()
        self.inline = True

    def call(self, e: Arithmetic, op: str, a: str) -> str:
        """Return a call."""
        name = f"@math.{op}.{e.dtype}.{e.width}"
        if (op, e.dtype, e.width) not in self.texts:
            self.texts[op, e.dtype, e.width] = self._text(name, op, e.dtype, e.width)
        return e.f.get(f"call {e.kind} {name}({e.kind} {a})")

    def _text(self, name: str, op: str, dtype: str, width: int) -> str:
        f = IRFunction()
        e = Arithmetic(f, dtype, width)
        found = FUNCTIONS[op](e, "%x")
        if op in FAR_AWAY:
            found = self._with_far(e, op, found)
        self.declared |= f.declared
        how = "alwaysinline" if self.inline else "noinline"
        return "\n".join(
            [f"define internal {e.kind} {name}({e.kind} %x) {how} {{", *f.lines, f"  ret {e.kind} {found}", "}"]
        )

    def _with_far(self, e: Arithmetic, op: str, near: str) -> str:
        """Return a result with NumPy's where the argument is out of range."""
        f, width = e.f, max(e.width, 1)
        self.loops.add((op, e.dtype))
        far = e.compare("uge", e.called("fabs", "%x"), e.number(FAR[e.dtype]))
        some = far
        if e.width:
            some = any_of(f, far, e.width)
        place = f.get(f"alloca {e.kind}, align 64")
        f.do(f"store {e.kind} {near}, ptr {place}, align 64")
        f.do(f"br i1 {some}, label %far, label %done")
        f.label("far")
        from_, to = (f.get(f"alloca {e.kind}, align 64") for _ in range(2))
        args, steps = f.get("alloca [2 x ptr], align 8"), f.get("alloca [2 x i64], align 8")
        count = f.get("alloca i64, align 8")
        f.do(f"store {e.kind} %x, ptr {from_}, align 64")
        for k, pointer in enumerate((from_, to)):
            f.do(f"store ptr {pointer}, ptr {f.at(args, 8 * k)}")
            f.do(f"store i64 {e.bits // 8}, ptr {f.at(steps, 8 * k)}")
        f.do(f"store i64 {width}, ptr {count}")
        function = f.get(f"load ptr, ptr @loop.{op}.{e.dtype}")
        data = f.get(f"load ptr, ptr @data.{op}.{e.dtype}")
        f.do(f"call void @called(ptr {function}, ptr {args}, ptr {count}, ptr {steps}, ptr {data})")
        theirs = f.get(f"load {e.kind}, ptr {to}, align 64")
        f.do(f"store {e.kind} {e.choose(far, theirs, near)}, ptr {place}, align 64")
        f.do("br label %done")
        f.label("done")
        return f.get(f"load {e.kind}, ptr {place}, align 64")

    def variables(self) -> list[str]:
        """Return the variables that hold the addresses of loops."""
        return [
            f"@{what}.{op}.{dtype} = global ptr null" for op, dtype in sorted(self.loops) for what in ("loop", "data")
        ]
