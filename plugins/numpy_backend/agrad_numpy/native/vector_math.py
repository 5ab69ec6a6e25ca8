"""Functions of one float on vectors: their instructions, to at most 1.5 units in the last place, special values as NumPy's.

Arguments are brought to an interval around 0, where a polynomial stands for the function; ``tests/backends/test_native_math.py``
compares with exact values. Polynomials have been fitted to Chebyshev's points. Every element has the bits it would have
alone, whatever the width of a vector and its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from agrad_numpy.native.ir import Arithmetic, Function

#: Of a dtype: bits of the fraction, the exponent's bias.
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

#: log(2) as a sum; products of the first part with an exponent are exact. Two to the power of the last part's error is past all digits.
LOG_2 = {"float32": (0.693145751953125, 1.4286068203094172e-06), "float64": (0.6931471805598903, 5.497923018708371e-14)}

#: pi / 2 as a sum of three.
HALF_PI = {
    "float32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "float64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}

#: Larger arguments of sine and cosine go to NumPy's loops.
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
    """Return n, r and what r lacks, of ``x = n log(2) + r``."""
    high, low = LOG_2[e.dtype]
    n = nearest(e, e.multiply(x, e.number(1 / math.log(2))))
    first = e.fused(n, e.number(-high), x)
    r = e.fused(n, e.number(-low), first)
    return n, r, e.fused(n, e.number(-low), e.subtract(first, r))


def exp(e: Arithmetic, x: str) -> str:
    """Return the exponential function."""
    large, small = (89.0, -104.0) if e.dtype == "float32" else (710.0, -746.0)
    y = e.choose(e.compare("olt", x, e.number(large)), x, e.number(large))
    y = e.choose(e.compare("ogt", y, e.number(small)), y, e.number(small))
    n, r, rest = reduced(e, y)
    tail = e.fused(e.multiply(r, r), polynomial(e, r, EXP[e.dtype]), rest)
    found = e.add(e.add(tail, r), e.number(1.0))
    whole = e.to_integer(n)
    half = e.integers("ashr", whole, e.whole_number(1))
    found = e.multiply(found, power_of_2(e, half))
    found = e.multiply(found, power_of_2(e, e.integers("sub", whole, half)))
    return e.choose(e.nan(x), x, found)


def expm1(e: Arithmetic, x: str) -> str:
    """Return ``exp(x) - 1``."""
    y = e.choose(e.compare("ogt", x, e.number(-50.0)), x, e.number(-50.0))
    y = e.choose(e.compare("olt", y, e.number(42.0)), y, e.number(42.0))
    n, r, rest = reduced(e, y)
    tail = e.fused(e.multiply(r, r), polynomial(e, r, EXP[e.dtype]), rest)
    scale = power_of_2(e, e.to_integer(n))
    less = e.subtract(scale, e.number(1.0))
    high = e.multiply(scale, r)  # exact, as all products with a power of two
    total, error = two_sum(e, less, high)
    near = e.add(total, e.fused(scale, tail, error))
    found = e.choose(e.compare("olt", x, e.number(42.0)), near, exp(e, x))
    found = e.choose(e.compare("oeq", x, e.number(0.0)), x, found)  # the sign of a zero
    return e.choose(e.nan(x), x, found)


def two_sum(e: Arithmetic, a: str, b: str) -> tuple[str, str]:
    """Return a sum and what it lacks."""
    total = e.add(a, b)
    part = e.subtract(total, a)
    return total, e.add(e.subtract(a, e.subtract(total, part)), e.subtract(b, part))


def tanh(e: Arithmetic, x: str) -> str:
    """Return the hyperbolic tangent: near 0 by a polynomial, else as ``1 - 2 / (exp(2 x) + 1)``."""
    size = e.called("fabs", x)
    z = e.multiply(x, x)
    near = e.fused(e.multiply(size, z), polynomial(e, z, TANH[e.dtype]), size)
    limit = e.number(10.0 if e.dtype == "float32" else 20.0)
    y = e.choose(e.compare("olt", size, limit), size, limit)
    far = e.subtract(e.number(1.0), e.divide(e.number(2.0), e.add(exp(e, e.add(y, y)), e.number(1.0))))
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


def log1p(e: Arithmetic, x: str) -> str:
    """Return ``log(1 + x)``."""
    info = np.finfo(e.dtype)
    one = e.number(1.0)
    u = e.add(x, one)
    correction = e.subtract(x, e.subtract(u, one))
    correction = e.choose(e.compare("ogt", x, e.number(2.0 ** (info.nmant + 2))), e.number(0.0), correction)
    found = _log(e, u, correction)
    found = e.choose(e.compare("olt", e.called("fabs", x), e.number(float(info.eps) / 2)), x, found)
    found = e.choose(e.compare("oeq", x, e.number(math.inf)), x, found)
    found = e.choose(e.compare("oeq", x, e.number(-1.0)), e.number(-math.inf), found)
    return e.choose(e.compare("ult", x, e.number(-1.0)), e.number(math.nan), found)


def _wave(e: Arithmetic, x: str, shift: int) -> str:
    """Return the sine of x and as many quarters of a turn."""
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
    far = e.compare("ult", e.called("fabs", x), e.number(FAR[e.dtype]))  # integers of others would be anything
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


#: By operation.
FUNCTIONS: dict[str, Callable[[Arithmetic, str], str]] = {
    "cos": cos,
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "nn.sigmoid": sigmoid,
    "sin": sin,
    "tanh": tanh,
}

#: Those whose arguments may be too far away.
FAR_AWAY = ("sin", "cos")


class Math:
    """The functions that the kernels of a module call.

    Attributes
    ----------
    texts : dict
        Of the functions, by name, dtype and width.
    declared : set of str
        What they declare.
    loops : set of (str, str)
        Ufuncs and dtypes of NumPy's loops that they call, whose addresses stand in variables of the module.
    inline : bool
        Whether each call becomes the function's instructions: twice as long to compile, for programs of few steps.
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
        f = Function()
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
        """Return a result with NumPy's where the argument is too far away."""
        f, width = e.f, max(e.width, 1)
        self.loops.add((op, e.dtype))
        far = e.compare("uge", e.called("fabs", "%x"), e.number(FAR[e.dtype]))
        some = far
        if e.width:
            f.declared.add(f"declare i1 @llvm.vector.reduce.or.v{e.width}i1(<{e.width} x i1>)")
            some = f.get(f"call i1 @llvm.vector.reduce.or.v{e.width}i1({e.truth} {far})")
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
        f.do(f"call void {function}(ptr {args}, ptr {count}, ptr {steps}, ptr {data})")
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
