from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import agrad as ag
from agrad.core.op import OPS

S = ag.special


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(70):
        yield


def leaves(*values, dtype="float64"):
    return [ag.asarray(np.asarray(v, dtype), requires_grad=True) for v in values]


def derivative(function, *values, by=0, order=1):
    """The derivative of a function of agrad, at numbers, by one of them."""
    xs = [ag.asarray(v, dtype=ag.complex128 if isinstance(v, complex) else ag.float64) for v in values]
    xs[by].requires_grad_()
    y = function(*xs)
    for k in range(order):
        (y,) = ag.autograd.grad(y, xs[by], create_graph=k + 1 < order)
    return y.item()


def close(got, wanted, tolerance=1e-13):
    got, wanted = mp.mpmathify(got), mp.mpmathify(wanted)
    assert abs(got - wanted) <= tolerance * abs(wanted), f"{got} is not {wanted}: off by {abs(got / wanted - 1)}"


# -- far out and near singular points, against 70 digits ------------------------------------------------------------------
# Each row: the function, mpmath's, points, and the largest relative error of the first two derivatives.

SQRT_PI = mp.sqrt(mp.pi)


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


def log_ndtr(x):
    return mp.log(mp.ncdf(x))


def sinc(x):
    return mp.sinc(mp.pi * x)


def exprel(x):
    return mp.expm1(x) / x if x else mp.mpf(1)


def spence(z):
    return mp.polylog(2, 1 - z)


UNARY = [
    ("log_ndtr", log_ndtr, [-1e4, -40.0, -5.0, 0.0, 3.0, 8.0], 1e-13),
    ("erfcx", erfcx, [-3.0, 0.0, 0.5, 1.9, 2.1, 10.0, 1e3, 1e6], 2e-13),
    ("erf", mp.erf, [-3.0, 1e-10, 0.5, 4.0], 1e-13),
    ("erfc", mp.erfc, [-3.0, 1e-10, 0.5, 20.0], 1e-13),
    ("ndtr", mp.ncdf, [-30.0, -1.0, 2.0], 1e-13),
    ("gammaln", lambda x: mp.re(mp.loggamma(x)), [1e-8, 0.5, 10.0, 1e6, 1e15, -0.5], 1e-13),
    ("psi", mp.digamma, [1e-3, 0.5, 10.0, 1e6], 1e-13),
    ("gamma", mp.gamma, [0.5, 3.0, 150.0, -1.5], 1e-13),
    ("rgamma", mp.rgamma, [0.5, 3.0, 150.0, -1.5], 1e-12),
    ("expit", lambda x: 1 / (1 + mp.exp(-x)), [-700.0, -40.0, 0.0, 3.0, 40.0], 1e-13),
    ("log_expit", lambda x: -mp.log1p(mp.exp(-x)), [-40.0, 0.0, 3.0, 40.0], 1e-13),
    ("logit", lambda p: mp.log(p / (1 - p)), [1e-150, 1e-10, 0.5, 1 - 2.0**-40], 1e-13),
    ("sinc", sinc, [1e-9, 1e-3, 0.4774, 0.4776, 0.9, 3.3], 1e-12),
    ("exprel", exprel, [1e-9, 1e-3, -1e-3, 0.999, 1.001, 30.0, -30.0], 1e-12),
    ("spence", spence, [1e-9, 0.5, 0.799, 0.801, 1.0 + 1e-12, 1.199, 1.201, 50.0], 1e-12),
    ("cosm1", lambda x: mp.cos(x) - 1, [1e-9, 1.0], 1e-13),
    ("entr", lambda x: -x * mp.log(x), [1e-300, 0.1, 5.0], 1e-13),
    ("ellipk", mp.ellipk, [1e-12, 1e-3, 0.5, 1 - 1e-6, -1.0, -1e3], 1e-12),
    ("ellipe", mp.ellipe, [1e-12, 1e-3, 0.5, 0.99, -1.0, -1e3], 1e-12),
    ("ellipkm1", lambda p: mp.pi / 2 / mp.agm(1, mp.sqrt(p)), [1e-100, 1e-12, 0.3, 1.0, 5.0], 1e-12),
    ("j0", lambda x: mp.besselj(0, x), [1e-5, 1.0, 30.0], 1e-12),
    ("j1", lambda x: mp.besselj(1, x), [1e-5, 1.0, 30.0], 1e-12),
    ("i0", lambda x: mp.besseli(0, x), [1e-5, 1.0, -30.0], 1e-12),
    ("i1", lambda x: mp.besseli(1, x), [1e-5, 1.0, -30.0], 1e-12),
    ("i0e", lambda x: mp.exp(-x) * mp.besseli(0, x), [1e-5, 1.0, 30.0], 1e-11),
    ("i1e", lambda x: mp.exp(-x) * mp.besseli(1, x), [1e-5, 1.0, 30.0], 1e-10),
    ("exp1", mp.e1, [1e-5, 1.0, 30.0], 1e-13),
    ("expi", mp.ei, [1e-5, 1.0, -30.0], 1e-13),
]


@pytest.mark.parametrize(("name", "function", "points", "tolerance"), UNARY, ids=[row[0] for row in UNARY])
def test_derivatives_to_many_digits(name, function, points, tolerance):
    for x in points:
        for order in (1, 2):
            wanted = mp.diff(function, mp.mpf(x), order, h=mp.mpf(10) ** -20 * min(1, abs(x) or 1))
            if abs(wanted) < mp.mpf(10) ** -15:
                continue
            close(derivative(getattr(S, name), x, order=order), wanted, max(tolerance, 1e-14))


@pytest.mark.parametrize("x", [1e-5, 1.0, 30.0])
def test_bessel_functions_of_the_second_kind(x):
    """With the derivatives of DLMF 10.6.2 and 10.29.2, in 30 digits."""
    with mp.workdps(30):
        z = mp.mpf(x)
        y0, y1, k0, k1 = mp.bessely(0, z), mp.bessely(1, z), mp.besselk(0, z), mp.besselk(1, z)
        rows = {
            "y0": (-y1, -(y0 - y1 / z)),
            "y1": (y0 - y1 / z, -y1 - (y0 - y1 / z) / z + y1 / z**2),
            "k0": (-k1, k0 + k1 / z),
            "k1": (-k0 - k1 / z, k1 + (k0 + k1 / z) / z + k1 / z**2),
        }
        for name, wanted in rows.items():
            for order in (1, 2):
                close(derivative(getattr(S, name), x, order=order), wanted[order - 1], 1e-12)
        e = mp.exp(z)
        close(derivative(S.k0e, x), e * (k0 - k1), 1e-12)
        close(derivative(S.k1e, x), e * (k1 - k0 - k1 / z), 1e-12)


def test_far_below_the_derivative_of_log_ndtr_is_that_of_its_expansion():
    """-x - 1/x + 2/x**3, and -1 + 1/x**2 (Abramowitz and Stegun 26.2.12)."""
    for x in (-1e6, -1e10, -1e100):
        close(derivative(S.log_ndtr, x), -x, 2e-12 if x == -1e6 else 1e-15)
        close(derivative(S.log_ndtr, x, order=2), -1, 2e-12)


BINARY = [
    ("beta", lambda a, b: mp.beta(a, b), [(0.5, 2.0), (40.0, 1.5), (3.0, 1e3)], 1e-13),
    (
        "betaln",
        lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b),
        [(0.5, 2.0), (1e6, 1.5), (3.0, 1e8), (1e8, 1e8), (1e8, 1e-3)],
        1e-12,
    ),
    ("binom", mp.binomial, [(10.5, 3.2), (4.0, 2.0)], 1e-12),
    ("poch", mp.rf, [(2.5, 3.2), (0.3, 0.1)], 1e-12),
    ("xlogy", lambda x, y: x * mp.log(y), [(2.0, 1e-300), (0.5, 3.0)], 1e-13),
    ("xlog1py", lambda x, y: x * mp.log1p(y), [(2.0, 1e-200), (0.5, 3.0)], 1e-13),
    ("rel_entr", lambda x, y: x * mp.log(x / y), [(0.3, 0.1), (1e-300, 1e300)], 1e-13),
    ("kl_div", lambda x, y: x * mp.log(x / y) - x + y, [(0.3, 0.1), (1.0, 1 + 2.0**-40)], 1e-13),
    (
        "boxcox",
        lambda x, k: mp.log(x) if k == 0 else (x**k - 1) / k,
        [(3.0, 0.0), (3.0, 1e-12), (0.2, -2.0), (5.0, 1.5)],
        1e-12,
    ),
    (
        "inv_boxcox",
        lambda y, k: mp.exp(y) if k == 0 else (1 + k * y) ** (1 / k),
        [(0.7, 0.0), (0.7, 1e-12), (0.7, 1.5), (-0.7, 0.25)],
        1e-12,
    ),
    ("pseudo_huber", lambda d, x: d**2 * (mp.sqrt(1 + (x / d) ** 2) - 1), [(1e3, 1e-3), (0.5, 3.0)], 1e-12),
    ("ellipkinc", mp.ellipf, [(1.0, 1e-9), (1.5, 0.99), (-7.0, 0.3), (0.4, -50.0)], 1e-12),
    ("ellipeinc", mp.ellipe, [(1.0, 1e-9), (1.5, 0.99), (-7.0, 0.3), (0.4, -50.0)], 1e-12),
]


@pytest.mark.parametrize(("name", "function", "points", "tolerance"), BINARY, ids=[row[0] for row in BINARY])
def test_derivatives_by_both_operands(name, function, points, tolerance):
    for point in points:
        exact = tuple(map(mp.mpf, point))
        for by, order in ((0, (1, 0)), (1, (0, 1))):
            at = exact[by]
            h = mp.mpf(10) ** -20 * min(1, abs(at) or 1)
            if at == 0:  # the formula for 0 is a limit
                other = (
                    [p if i != by else h for i, p in enumerate(exact)],
                    [p if i != by else -h for i, p in enumerate(exact)],
                )
                wanted = (function(*other[0]) - function(*other[1])) / (2 * h)
            else:
                wanted = mp.diff(function, exact, order, h=h)
            close(derivative(getattr(S, name), *point, by=by), wanted, tolerance)


# -- derivatives by parameters ------------------------------------------------------------------------------------------


def by_difference(function, at):
    """The derivative by the first argument, from values with 70 digits."""
    h = at * mp.mpf(10) ** -22
    return (function(at + h) - function(at - h)) / (2 * h)


def gammainc_points():
    for a in (1e-6, 1e-3, 0.05, 0.7, 1.0, 3.0, 9.5, 30.0, 200.0, 3e3):
        deviation = max(math.sqrt(a), 0.5)
        for k in (-5, -1.5, -0.2, 0.0, 0.4, 2.0, 6.0):
            yield a, a + k * deviation if a + k * deviation > 0 else a * math.exp(2 * k)


def test_gammainc_by_its_parameter():
    for a, x in gammainc_points():
        wanted = by_difference(lambda s, x=x: mp.gammainc(s, 0, x, regularized=True), mp.mpf(a))
        close(derivative(S.gammainc, a, x), wanted, 1e-12)
        close(derivative(S.gammaincc, a, x), -wanted, 1e-12)


@pytest.mark.parametrize("a", [1e5, 1e6])
def test_gammainc_by_a_large_parameter(a):
    """At x = a, where the value itself changes little along the diagonal, it is minus the density to order 1 / a."""
    got = derivative(S.gammainc, a, a)
    density = mp.exp(a * mp.log(a) - a - mp.loggamma(mp.mpf(a) + 1))
    close(got, -density, 3 / a)


BETA = [1e-4, 1e-2, 0.5, 1.0, 2.5, 12.0, 150.0]


def test_betainc_by_its_parameters():
    for a in BETA:
        for b in BETA:
            mean = a / (a + b)
            deviation = math.sqrt(mean * (1 - mean) / (a + b + 1))
            for x in (1e-8, 0.3, 0.9, 1 - 1e-6, mean, mean - 2 * deviation, mean + 2 * deviation):
                if not 1e-9 < x < 1 - 1e-9:
                    continue
                with mp.workdps(60):
                    wanted = by_difference(lambda s, b=b, x=x: mp.betainc(s, b, 0, x, regularized=True), mp.mpf(a))
                if abs(wanted) > 1e-280:
                    close(derivative(S.betainc, a, b, x), wanted, 1e-9)
                if x == 0.3 and abs(wanted) > 1e-280:  # the other parameter, by I_x(a, b) = 1 - I_(1-x)(b, a)
                    close(derivative(S.betaincc, b, a, 0.7, by=1), wanted, 1e-9)


@pytest.mark.parametrize(("a", "b"), [(1e4, 1e3), (1e6, 1e6)])
@pytest.mark.parametrize("k", [-3, 0, 2])
def test_betainc_by_large_parameters(a, b, k):
    """Against the integral of density times score, in 30 digits."""
    mean = a / (a + b)
    deviation = math.sqrt(mean * (1 - mean) / (a + b))
    x = mean + k * deviation
    with mp.workdps(30):
        p, q = mp.mpf(a), mp.mpf(b)
        level = mp.digamma(p) - mp.digamma(p + q)
        log_beta = mp.loggamma(p) + mp.loggamma(q) - mp.loggamma(p + q)

        def integrand(t):
            return mp.exp((p - 1) * mp.log(t) + (q - 1) * mp.log(1 - t) - log_beta) * (mp.log(t) - level)

        sign = -1 if mp.log(x) < level else 1
        ends = [x + sign * s * deviation for s in (0, 0.7, 1.5, 2.5, 4, 6, 9, 14)]
        wanted = -sign * mp.quad(integrand, ends if sign > 0 else ends[::-1])
    close(derivative(S.betainc, a, b, x), wanted, 1e-11)


def test_second_derivatives_by_parameters():
    h = mp.mpf(10) ** -12

    def second(function, at):
        return (function(at + h) - 2 * function(at) + function(at - h)) / h**2

    for a, x in ((0.7, 0.2), (3.0, 5.0), (40.0, 33.0)):
        wanted = second(lambda s, x=x: mp.gammainc(s, 0, x, regularized=True), mp.mpf(a))
        close(derivative(S.gammainc, a, x, order=2), wanted, 1e-11)
    for a, b, x in ((0.7, 2.0, 0.2), (3.0, 5.0, 0.6), (40.0, 33.0, 0.5)):
        wanted = second(lambda s, b=b, x=x: mp.betainc(s, b, 0, x, regularized=True), mp.mpf(a))
        close(derivative(S.betainc, a, b, x, order=2), wanted, 1e-11)
        wanted = second(lambda s, a=a, x=x: mp.betainc(a, s, 0, x, regularized=True), mp.mpf(b))
        close(derivative(S.betainc, a, b, x, by=1, order=2), wanted, 1e-11)


@pytest.mark.parametrize(
    ("function", "at"),
    [
        (S.gammainc, (2.0, 1.0)),
        (S.betainc, (2.0, 3.0, 0.5)),
        (S.stdtr, (3.0, 1.0)),
    ],
)
def test_the_third_derivative_by_a_parameter_is_refused(function, at):
    with pytest.raises(NotImplementedError, match="third derivative"):
        derivative(function, *at, order=3)


def test_edges_of_incomplete_functions():
    for a in (0.5, 3.0):
        assert derivative(S.gammainc, a, 0.0) == 0
        assert derivative(S.gammainc, a, math.inf) == 0
        for x in (0.0, 1.0):
            assert derivative(S.betainc, a, 2.0, x) == 0
            assert derivative(S.betainc, a, 2.0, x, by=1) == 0
    assert derivative(S.gammainc, 0.5, 0.0, by=1) == math.inf
    assert derivative(S.gammainc, 1.0, 0.0, by=1) == 1
    assert derivative(S.gammainc, 2.0, 0.0, by=1) == 0
    assert derivative(S.betainc, 1.0, 3.0, 0.0, by=2) == 3
    assert derivative(S.betainc, 2.0, 1.0, 1.0, by=2) == 2
    assert math.isnan(derivative(S.gammainc, -1.0, 1.0))
    assert math.isnan(derivative(S.betainc, 1.0, -1.0, 0.5))


# -- distributions ------------------------------------------------------------------------------------------------------


def t_distribution(df, x):
    b = mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + x * x), regularized=True) / 2
    return 1 - b if x > 0 else b


def f_distribution(n, d, x):
    return mp.betainc(n / 2, d / 2, 0, n * x / (d + n * x), regularized=True)


@pytest.mark.parametrize(
    ("name", "function", "points"),
    [
        ("stdtr", t_distribution, [(0.5, 0.3), (3.0, -4.0), (40.0, 2.0), (5.0, 1e-4), (2.0, 1e5)]),
        ("chdtr", lambda v, x: mp.gammainc(v / 2, 0, x / 2, regularized=True), [(3.0, 0.1), (50.0, 60.0)]),
        ("chdtrc", lambda v, x: mp.gammainc(v / 2, x / 2, regularized=True), [(3.0, 0.1), (50.0, 60.0)]),
        ("gdtr", lambda a, b, x: mp.gammainc(b, 0, a * x, regularized=True), [(0.3, 2.0, 4.0)]),
        ("fdtr", f_distribution, [(3.0, 5.0, 0.2), (20.0, 4.0, 3.0)]),
        ("fdtrc", lambda n, d, x: 1 - f_distribution(n, d, x), [(3.0, 5.0, 0.2), (20.0, 4.0, 3.0)]),
    ],
)
def test_distribution_functions_by_every_operand(name, function, points):
    for point in points:
        exact = tuple(map(mp.mpf, point))
        close(getattr(S, name)(*map(ag.asarray, map(float, point))).item(), function(*exact), 1e-12)
        for by in range(len(point)):
            wanted = by_difference(lambda v, at=exact, i=by: function(*at[:i], v, *at[i + 1 :]), exact[by])
            close(derivative(getattr(S, name), *point, by=by), wanted, 1e-11)


@pytest.mark.parametrize(
    ("inverse", "function", "point", "place"),
    [
        ("gammaincinv", "gammainc", (2.0, 0.3), 1),
        ("gammainccinv", "gammaincc", (2.0, 0.3), 1),
        ("betaincinv", "betainc", (2.0, 3.0, 0.3), 2),
        ("betainccinv", "betaincc", (2.0, 3.0, 0.3), 2),
        ("stdtrit", "stdtr", (3.0, 0.3), 1),
        ("chdtri", "chdtrc", (3.0, 0.3), 1),
        ("chdtriv", "chdtr", (0.3, 2.0), 0),
        ("fdtri", "fdtr", (3.0, 4.0, 0.3), 2),
        ("gdtria", "gdtr", (0.3, 2.0, 1.5), 0),
        ("gdtrib", "gdtr", (1.5, 0.3, 2.0), 1),
        ("gdtrix", "gdtr", (1.5, 2.0, 0.3), 2),
        ("btdtria", "betainc", (0.3, 2.0, 0.4), 0),
        ("btdtrib", "betainc", (2.0, 0.3, 0.4), 1),
        ("erfinv", "erf", (0.3,), 0),
        ("erfcinv", "erfc", (1e-30,), 0),
        ("ndtri", "ndtr", (1e-30,), 0),
        ("ndtri_exp", "log_ndtr", (-300.0,), 0),
        ("logit", "expit", (0.3,), 0),
    ],
)
def test_inverses_undo_with_their_derivatives(inverse, function, point, place):
    """f(..., inverse(..., p), ...) = p: its gradient is 1 by p and 0 by the rest."""
    xs = [ag.asarray(v, dtype=ag.float64, requires_grad=True) for v in point]
    found = getattr(S, inverse)(*xs)
    back = getattr(S, function)(*xs[:place], found, *xs[place + 1 :])
    close(back.item(), point[place], 1e-9)
    for i, gradient in enumerate(ag.autograd.grad(back, xs)):
        assert gradient.item() == pytest.approx(1.0 if i == place else 0.0, abs=1e-9)


def test_counts():
    p = 0.3

    def binomial(k, n, p):
        return sum(mp.binomial(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1))

    def waiting(k, n, p):
        return sum(mp.binomial(n + j - 1, j) * p**n * (1 - p) ** j for j in range(k + 1))

    def poisson(k, m):
        return sum(mp.exp(-m) * m**j / mp.factorial(j) for j in range(k + 1))

    for k, n in ((0, 4), (2, 4), (4, 4)):
        wanted = by_difference(lambda v, k=k, n=n: binomial(k, n, v), mp.mpf(p))
        for name, factor in (("bdtr", 1), ("bdtrc", -1)):
            got = derivative(lambda v, name=name, k=k, n=n: getattr(S, name)(k, n, v), p)
            assert got == pytest.approx(float(factor * wanted), rel=1e-13, abs=1e-15)
        wanted = by_difference(lambda v, k=k, n=n: waiting(k, n, v), mp.mpf(p))
        close(derivative(lambda v, k=k, n=n: S.nbdtr(k, n, v), p), wanted)
        close(derivative(lambda v, k=k, n=n: S.nbdtrc(k, n, v), p), -wanted)
        wanted = by_difference(lambda v, k=k: poisson(k, v), mp.mpf(2.5))
        close(derivative(lambda v, k=k: S.pdtr(k, v), 2.5), wanted)
        close(derivative(lambda v, k=k: S.pdtrc(k, v), 2.5), -wanted)
    for inverse, function, arguments in (
        ("bdtri", "bdtr", (2, 5)),
        ("nbdtri", "nbdtr", (2, 5)),
        ("pdtri", "pdtr", (2,)),
    ):
        y = ag.asarray(0.3, dtype=ag.float64, requires_grad=True)
        back = getattr(S, function)(*arguments, getattr(S, inverse)(*arguments, y))
        assert back.item() == pytest.approx(0.3)
        assert ag.autograd.grad(back, y)[0].item() == pytest.approx(1.0)


# -- values ---------------------------------------------------------------------------------------------------------------

#: Numbers in the domain of all functions of so many operands, but for those named.
DOMAIN = {
    "jv": (1.5, 0.7),
    "zeta": (2.5, 0.7),
    "polygamma": (2, 0.7),
    "expn": (2, 0.7),
    "multigammaln": (2.5, 2),
    "bdtr": (2, 5, 0.3),
    "bdtrc": (2, 5, 0.3),
    "bdtri": (2, 5, 0.3),
    "nbdtr": (2, 5, 0.3),
    "nbdtrc": (2, 5, 0.3),
    "nbdtri": (2, 5, 0.3),
    "pdtri": (2, 0.3),
    "ndtri_exp": (-0.7,),
    "hyp2f1": (0.4, 0.6, 1.2, 0.3),
}
COUNT = {name: len(OPS[f"special.{name}"].rule.operands) or 1 for name in S.__all__ if f"special.{name}" in OPS}


@pytest.mark.parametrize("name", sorted(S.__all__))
def test_values_are_scipys(name):
    point = DOMAIN.get(name) or (0.4, 0.6, 0.3)[: COUNT.get(name, 1)]
    if name in ("softmax", "log_softmax", "logsumexp", "softplus"):
        x = np.array([[0.5, -1.0, 3.0], [700.0, 0.1, 2.0]])
        np.testing.assert_allclose(
            np.asarray(getattr(S, name)(ag.asarray(x))), getattr(scipy.special, name)(x), rtol=1e-14
        )
        return
    got = getattr(S, name)(*(v if isinstance(v, int) else ag.asarray(v, dtype=ag.float64) for v in point))
    assert isinstance(got, ag.Tensor)
    assert got.item() == pytest.approx(float(getattr(scipy.special, name)(*point)), rel=1e-14)


#: Values where the compositions that stand for SciPy's functions might fail: signs, zeros, infinities, tails.
EDGES = np.array(
    [-np.inf, -1e150, -30.0, -1.0, -0.3, -1e-9, -0.0, 0.0, 1e-9, 0.3, 1.0, 5.0, 30.0, 1e150, np.inf, np.nan]
)
COMPOSED = sorted(
    name.removeprefix("special.")
    for name, op in OPS.items()
    if name.startswith("special.") and op.kernel is not None and name.removeprefix("special.") in S.__all__
)


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_compositions_have_scipys_values_everywhere(name, strict_backend):
    """Beside array-api-strict's functions, which are NumPy's, so that a disagreement is of the composition."""
    reference = getattr(scipy.special, name)
    operands = [a.ravel() for a in np.meshgrid(*[EDGES] * COUNT[name])]
    if name in ("boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p"):
        operands = [np.array([0.3, 1.0, 5.0, 0.3, 1.0, 5.0]), np.array([0.0, 1e-9, 0.5, -0.7, 1.0, -0.1])]
    if name in ("huber", "pseudo_huber"):
        keep = np.isfinite(operands[0]) & np.isfinite(operands[1]) & (np.abs(operands[0] * operands[1]) < 1e200)
        keep &= (np.abs(operands[0]) < 1e100) & (np.abs(operands[1]) < 1e100)
        operands = [a[keep] for a in operands]
    got = getattr(S, name)(*(ag.asarray(a, device="strict") for a in operands))
    got = np.asarray(got._spec.backend.to_host(got._raw))
    np.testing.assert_allclose(got, reference(*operands), rtol=2e-13, atol=1e-300)


def test_special_values_of_derivatives():
    inf = math.inf
    assert derivative(S.xlogy, 0.0, 0.0) == 0
    assert derivative(S.xlogy, 0.0, 0.0, by=1) == 0
    assert derivative(S.xlogy, 0.0, 0.5) == math.log(0.5)
    assert derivative(S.xlog1py, 0.0, -1.0) == 0
    assert derivative(S.xlog1py, 0.0, -1.0, by=1) == 0
    assert derivative(S.entr, 0.0) == inf
    assert derivative(S.sinc, 0.0) == 0
    assert derivative(S.exprel, 0.0) == 0.5
    assert derivative(S.spence, 1.0) == -1
    assert derivative(S.erfinv, 1.0) == inf
    assert derivative(S.logit, 0.0) == inf
    assert derivative(S.cbrt, 0.0) == inf
    assert derivative(S.i0e, 0.0) == 0
    assert derivative(S.j1, 0.0) == 0.5
    assert derivative(S.i1, 0.0) == 0.5
    close(derivative(S.rgamma, -3.0), -6)
    close(derivative(S.rgamma, 0.0), 1)
    for x, wanted in ((0.3, 0.3), (1.0, 1.0), (4.0, 2.0), (-4.0, -2.0)):
        assert derivative(S.huber, 2.0, x, by=1) == wanted
    assert derivative(S.huber, 2.0, 5.0) == 3


# -- sums of exponentials -----------------------------------------------------------------------------------------------


def test_logsumexp():
    a = np.array([[0.5, -1.0, 3.0], [1e4, 1e4, -1e4]])
    b = np.array([1.0, -2.0, 0.5])
    for axis in (None, 0, -1, (0, 1)):
        for keepdims in (False, True):
            wanted = scipy.special.logsumexp(a, axis=axis, keepdims=keepdims)
            got = S.logsumexp(ag.asarray(a), axis, keepdims=keepdims)
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-15)
            wanted = scipy.special.logsumexp(a, axis=axis, b=b, keepdims=keepdims, return_sign=True)
            got = S.logsumexp(ag.asarray(a), axis, ag.asarray(b), keepdims, True)
            for g, w in zip(got, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(g), w, rtol=1e-14)


def test_the_gradient_of_logsumexp():
    x, w = leaves([0.5, -1.0, 3.0], [1.0, -2.0, 0.5])
    gx, gw = ag.autograd.grad(S.logsumexp(x, b=w), [x, w])
    e = np.exp([0.5, -1.0, 3.0])
    total = e @ [1.0, -2.0, 0.5]
    np.testing.assert_allclose(np.asarray(gw), e / total, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(gx), e * [1.0, -2.0, 0.5] / total, rtol=1e-14)
    (x,) = leaves([1000.0, 1000.0, -math.inf])
    (g,) = ag.autograd.grad(S.logsumexp(x), x)
    np.testing.assert_array_equal(np.asarray(g), [0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    ("values", "total", "gradient"),
    [
        ([-math.inf, -math.inf], -math.inf, [0.0, 0.0]),
        ([math.inf, 1.0, math.inf], math.inf, [0.5, 0.0, 0.5]),
        ([0.0, -40.0], math.log1p(math.exp(-40)), [1.0, math.exp(-40)]),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_logsumexp_of_the_infinite_and_the_uneven(values, total, gradient):
    (x,) = leaves(values)
    y = S.logsumexp(x)
    assert y.item() == pytest.approx(total, rel=1e-15)
    np.testing.assert_allclose(np.asarray(ag.autograd.grad(y, x)[0]), gradient, rtol=1e-14)


def test_logsumexp_of_complex_numbers():
    z = np.array([1 + 2j, -0.5 + 1j])
    (x,) = leaves(z, dtype="complex128")
    y = S.logsumexp(x)
    assert y.item() == pytest.approx(np.log(np.exp(z).sum()), rel=1e-14)
    (g,) = ag.autograd.grad(y, x, ag.asarray(1 + 0j))
    np.testing.assert_allclose(np.asarray(g), np.conj(np.exp(z) / np.exp(z).sum()), rtol=1e-14)


def test_softmax_over_all_axes_and_several():
    a = np.array([[[0.5, -1.0], [3.0, 2.0]], [[0.1, 0.2], [0.3, 0.4]]])
    for axis in (None, 1, -1, (0, 2), (0, 1, 2)):
        for name in ("softmax", "log_softmax"):
            (x,) = leaves(a)
            y = getattr(S, name)(x, axis)
            np.testing.assert_allclose(np.asarray(y.detach()), getattr(scipy.special, name)(a, axis=axis), rtol=1e-14)
            assert ag.testing.gradcheck(lambda x, name=name, axis=axis: getattr(S, name)(x, axis), (x,))


def test_exprel_far_out_in_every_order():
    """(exp(x) - 1) / x is -1 / x there; the series around 0 overflows, and is not looked at."""
    value, x = -1e30, ag.tensor(-1e30, requires_grad=True)
    y = S.exprel(x)
    for order in range(1, 4):
        (y,) = ag.autograd.grad(y, [x], create_graph=True)
        assert y.item() == pytest.approx((-1) ** (order + 1) * math.factorial(order) / value ** (order + 1), rel=1e-12)


# -- complex numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("gamma", mp.gamma),
        ("loggamma", mp.loggamma),
        ("erf", mp.erf),
        ("erfc", mp.erfc),
        ("exp1", mp.e1),
        ("ndtr", lambda z: mp.erfc(-z / mp.sqrt(2)) / 2),
        ("sinc", sinc),
        ("spence", spence),
    ],
)
def test_complex_derivatives(name, function):
    z = 0.7 + 0.4j
    x = ag.asarray(z, requires_grad=True)
    (g,) = ag.autograd.grad(getattr(S, name)(x), x, ag.asarray(1 + 0j))
    close(g.item(), mp.conj(mp.diff(function, mp.mpc(z))), 1e-12)


@pytest.mark.parametrize("name", ["erfcx", "log_ndtr", "psi", "rgamma"])
def test_unknown_complex_derivatives_are_refused(name):
    x = ag.asarray(0.7 + 0.4j, requires_grad=True)
    y = getattr(S, name)(x)
    with pytest.raises(NotImplementedError, match="complex arguments"):
        ag.autograd.grad(y, x, ag.asarray(1 + 0j))


def test_the_scaled_function_that_is_not_holomorphic_is_refused():
    x = ag.asarray(0.7 + 0.4j, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"special\.ive: .*complex arguments"):
        ag.autograd.grad(S.ive(1, x), x, ag.asarray(1 + 0j))


# -- what is refused, dtypes, backends ------------------------------------------------------------------------------------

ORDERS = [
    ("jv", 0),
    ("yv", 0),
    ("iv", 0),
    ("ive", 0),
    ("kv", 0),
    ("kve", 0),
    ("polygamma", 0),
    ("expn", 0),
    ("zeta", 0),
]
ORDERS += [("hyp1f1", 0), ("hyp1f1", 1), ("hyp2f1", 2), ("bdtr", 0), ("bdtr", 1), ("pdtr", 0)]


@pytest.mark.parametrize(("name", "place"), ORDERS)
def test_a_derivative_by_an_order_or_count_is_refused(name, place):
    point = {"bdtr": (2.0, 5.0, 0.3), "pdtr": (2.0, 1.0)}.get(name) or tuple(
        map(float, DOMAIN.get(name, (1.0, 2.0, 0.5)))
    )
    operands = ag.rules[f"special.{name}"].operands
    xs = [ag.asarray(v, dtype=ag.float64) for v in point[: len(operands)]]
    xs[place].requires_grad_()
    y = getattr(S, name)(*xs)
    wanted = operands[place]
    with pytest.raises(
        NotImplementedError, match=rf"special\.{name}: the derivative for '{wanted}' is not implemented"
    ):
        ag.autograd.grad(y, xs[place])
    xs[place] = xs[place].detach()
    xs[-1].requires_grad_()
    assert math.isfinite(ag.autograd.grad(getattr(S, name)(*xs), xs[-1])[0].item())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_stay(dtype):
    for name in ("erf", "gammaln", "psi", "i0", "expit", "log_ndtr", "ellipk"):
        (x,) = leaves([0.25, 0.5], dtype=dtype)
        y = getattr(S, name)(x)
        assert y.dtype == x.dtype
        assert y._raw.dtype == np.dtype(dtype)
        assert ag.autograd.grad(y.sum(), x)[0].dtype == x.dtype
    x, a = leaves([0.25, 0.5], [2.0, 3.0], dtype=dtype)
    for y in (S.gammainc(a, x), S.jv(2, x), S.jv(ag.asarray([1, 2]), x), S.polygamma(1, x), S.betainc(a, a, x)):
        assert y._raw.dtype == np.dtype(dtype)
    assert S.erf(ag.asarray([1, 2])).dtype == ag.float64


def test_without_a_kernel_the_error_says_so(strict_backend):
    x = ag.asarray([0.5], device="strict")
    with pytest.raises(ag.UnsupportedOp, match=r"special\.gammaln is not supported by the strict backend"):
        S.gammaln(x)


def test_without_scipy_the_error_says_what_to_install(monkeypatch):
    from agrad_numpy.special_kernels import kernel

    for module in [m for m in __import__("sys").modules if m.partition(".")[0] == "scipy"]:
        monkeypatch.delitem(__import__("sys").modules, module)
    monkeypatch.setattr("builtins.__import__", _no_scipy(__import__))
    assert kernel("special.expit") is None
    with pytest.raises(ag.UnsupportedOp, match="needs SciPy, which is not installed; pip install scipy"):
        kernel("special.gammaln")(np.ones(1))


def _no_scipy(real):
    def refusing(name, *args, **kwargs):
        if name.partition(".")[0] == "scipy":
            raise ModuleNotFoundError(f"No module named {name!r}", name="scipy")
        return real(name, *args, **kwargs)

    return refusing


def test_names_and_namespaces():
    assert len(set(S.__all__)) == len(S.__all__)
    bound = ag.namespace("numpy").special
    for name in S.__all__:
        assert getattr(bound, name) is getattr(S, name)
    assert S.digamma is S.psi


def test_scipys_dispatch_finds_the_functions():
    """SciPy asks a namespace for ``special`` before it falls back to NumPy."""
    from scipy.special import _support_alternative_backends as support

    found = [nfo.name for nfo in support._special_funcs]
    xp = ag.namespace("numpy")
    missing = {name for name in found if support._get_native_func(xp, None, name) is None}
    assert missing <= {"betaincinv", "cosdg", "cotdg", "lpmv", "nbdtri", "radian", "sindg", "tandg", "yn", "zetac"}
    assert support._get_native_func(xp, None, "gammainc") is S.gammainc


@pytest.mark.parametrize("name", ["erf", "erfc", "ndtr"])
def test_compositions_for_real_arguments_refuse_complex_ones(name, strict_backend):
    """By abs(x), which they ask for, the imaginary part would be lost without a word."""
    z = ag.asarray(np.asarray([0.5 + 0.3j]), device="strict")
    with pytest.raises(NotImplementedError, match="complex arguments"):
        getattr(S, name)(z)
