"""Distributions at the ends of their support: derivatives are the limits of those inside, which mpmath finds."""

from __future__ import annotations

import functools

import mpmath as mp
import numpy as np
import pytest

import agrad as ag
from agrad.scipy import stats

NEAR, NEARER, STEP = mp.mpf(10) ** -60, mp.mpf(10) ** -120, mp.mpf(10) ** -150


def from_zero(density, mass, rest=None):
    """A distribution from 0 on, by functions of the variable and the shapes."""
    return {"pdf": density, "cdf": mass, "sf": rest or (lambda y, *s: 1 - mass(y, *s))}


def gamma_mass(y, a):
    return y**a * mp.exp(-y) * mp.hyp1f1(1, a + 1, y) * mp.rgamma(a + 1)


def beta_mass(y, a, b):
    if y > 0.5:
        return 1 - beta_mass(1 - y, b, a)
    return y**a / a * mp.hyp2f1(a, 1 - b, a + 1, y) / mp.beta(a, b)


#: Density, mass and what is above, of the variable and the shapes, in mpmath.
KNOWN = {
    "gamma": from_zero(
        lambda y, a: y ** (a - 1) * mp.exp(-y) * mp.rgamma(a),
        gamma_mass,
    ),
    "chi2": from_zero(
        lambda y, a: (y / 2) ** (a / 2 - 1) * mp.exp(-y / 2) * mp.rgamma(a / 2) / 2,
        lambda y, a: gamma_mass(y / 2, a / 2),
    ),
    "expon": from_zero(lambda y: mp.exp(-y), lambda y: -mp.expm1(-y), lambda y: mp.exp(-y)),
    "weibull_min": from_zero(
        lambda y, c: c * y ** (c - 1) * mp.exp(-(y**c)), lambda y, c: -mp.expm1(-(y**c)), lambda y, c: mp.exp(-(y**c))
    ),
    "halfnorm": from_zero(lambda y: mp.sqrt(2 / mp.pi) * mp.exp(-y * y / 2), lambda y: mp.erf(y / mp.sqrt(2))),
    "pareto": from_zero(lambda y, b: b * y ** (-b - 1), lambda y, b: -mp.expm1(-b * mp.log(y)), lambda y, b: y**-b),
    "beta": from_zero(
        lambda y, a, b: y ** (a - 1) * (1 - y) ** (b - 1) / mp.beta(a, b),
        beta_mass,
        lambda y, a, b: beta_mass(1 - y, b, a),
    ),
    "lognorm": from_zero(
        lambda y, s: mp.exp(-((mp.log(y) / s) ** 2) / 2) / (y * s * mp.sqrt(2 * mp.pi)),
        lambda y, s: mp.erfc(-mp.log(y) / s / mp.sqrt(2)) / 2,
        lambda y, s: mp.erfc(mp.log(y) / s / mp.sqrt(2)) / 2,
    ),
    "invgamma": from_zero(
        lambda y, a: y ** (-a - 1) * mp.exp(-1 / y) * mp.rgamma(a),
        lambda y, a: mp.gammainc(a, 1 / y, mp.inf, regularized=True),
    ),
    "uniform": from_zero(lambda y: mp.mpf(1), lambda y: y),
    "f": from_zero(
        lambda y, m, n: (m / n) ** (m / 2) * y ** (m / 2 - 1) * (1 + m / n * y) ** (-(m + n) / 2) / mp.beta(m / 2, n / 2),
        lambda y, m, n: beta_mass(m * y / (m * y + n), m / 2, n / 2),
    ),
}  # fmt: skip
#: The ends, and shapes on all sides of the powers 0 and 1 that densities and probabilities begin with.
CASES = [
    *[(name, 0, (a,)) for name in ("gamma", "weibull_min") for a in (0.3, 0.5, 1.0, 1.4, 2.0, 2.6, 3.0)],
    *[("chi2", 0, (df,)) for df in (0.6, 2.0, 2.8, 4.0)],
    *[("f", 0, (dfn, 3.7)) for dfn in (0.6, 2.0, 2.8, 4.0, 5.2)],
    *[("beta", 0, (a, 0.7)) for a in (0.3, 0.5, 1.0, 1.4, 2.0, 2.6, 3.0)],
    *[("beta", 1, (2.3, b)) for b in (0.3, 0.5, 1.0, 1.4, 2.0, 2.6, 3.0)],
    ("beta", 0, (1.0, 1.0)), ("beta", 1, (1.0, 1.0)), ("beta", 1, (2.0, 1.0)), ("beta", 0, (1.0, 2.0)),
    ("expon", 0, ()), ("halfnorm", 0, ()), ("uniform", 0, ()), ("uniform", 1, ()), ("pareto", 1, (2.6,)),
]  # fmt: skip


def function(name, method, x, *parameters):
    """The distribution function in mpmath, with location and scale."""
    *shapes, loc, scale = parameters
    plain = method.removeprefix("log")
    y = (x - loc) / scale
    found = KNOWN[name][plain](y, *shapes)
    if plain == "pdf":
        found = found / scale
    return mp.log(found) if method.startswith("log") else found


def limit(near, nearer):
    """What two numbers, the second far nearer to an edge, tend to."""
    small = mp.mpf(10) ** -15
    if mp.fabs(nearer) > 1.5 * mp.fabs(near) and mp.fabs(nearer) > 1:
        return float(mp.sign(nearer) * mp.inf)
    if mp.fabs(nearer) < small:
        return 0.0
    assert mp.fabs(nearer - near) <= small * mp.fabs(nearer), (near, nearer)
    return float(nearer)


def derivatives(f, at, order, h=STEP):
    """The derivatives of these orders by all operands, by differences whose step is far below the distance to the edge."""

    def along(i, g):
        def difference(*x):
            up, down = list(x), list(x)
            up[i], down[i] = x[i] + h, x[i] - h
            return (g(*up) - g(*down)) / (2 * h)

        return difference

    n = len(at)
    if order == 1:
        return {(i,): along(i, f)(*at) for i in range(n)}
    return {(i, j): along(i, along(j, f))(*at) for i in range(n) for j in range(i, n)}


@functools.cache
def expected(name, end, shapes, method, order, loc=0.25, scale=1.5):
    """The limits of derivatives by the variable, shapes, location and scale at an end of the support."""
    with mp.workdps(450 if order == 2 else 300):
        parameters = [mp.mpf(p) for p in (*shapes, loc, scale)]
        edge = mp.mpf(loc) + end * mp.mpf(scale)
        side = -1 if end == 1 and name in ("beta", "uniform") else 1
        found = []
        for distance in (NEAR, NEARER):
            at = [edge + side * distance, *parameters]
            found.append(derivatives(functools.partial(function, name, method), at, order))
        return {key: limit(found[0][key], found[1][key]) for key in found[0]}


def followed(*values):
    return [ag.tensor(v, requires_grad=True) for v in values]


def first(name, method, *given):
    given = followed(*given)
    y = getattr(getattr(stats, name), method)(*given)
    return y, given, ag.grad(y, given, create_graph=True, materialize_grads=True)


def second_rows(gradients, given):
    none = [ag.zeros(())] * len(given)
    return [
        ag.grad(g, given, retain_graph=True, materialize_grads=True) if g.requires_grad else none for g in gradients
    ]


#: Where derivatives of second order are compared.
SECOND = [
    *[("gamma", 0, (a,)) for a in (0.5, 1.0, 1.4, 2.0, 3.0)], ("weibull_min", 0, (1.0,)), ("weibull_min", 0, (1.4,)),
    ("chi2", 0, (2.8,)), ("f", 0, (2.8, 3.7)), ("beta", 0, (1.4, 0.7)), ("beta", 1, (2.3, 1.0)),
    ("beta", 1, (2.3, 2.0)), ("expon", 0, ()), ("halfnorm", 0, ()), ("uniform", 1, ()), ("pareto", 1, (2.6,)),
]  # fmt: skip
METHODS = ["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"]
identify = "{0[0]}-{0[1]}-{0[2]}".format


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES, ids=identify)
def test_first_derivatives(case, method):
    name, end, shapes = case
    known = expected(*case, method, 1)
    _, _, gradients = first(name, method, 0.25 + end * 1.5, *shapes, 0.25, 1.5)
    found = [g.item() for g in gradients]
    np.testing.assert_allclose(found, [known[(i,)] for i in range(len(found))], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", SECOND, ids=identify)
def test_second_derivatives(case, method):
    name, end, shapes = case
    known = expected(*case, method, 2)
    _, given, gradients = first(name, method, 0.25 + end * 1.5, *shapes, 0.25, 1.5)
    for i, row in enumerate(second_rows(gradients, given)):
        for j, found in enumerate(row):
            wanted = known[(min(i, j), max(i, j))]
            np.testing.assert_allclose(found.item(), wanted, rtol=1e-9, atol=1e-13, err_msg=f"{i}, {j}")


#: Where densities have all derivatives 0.
FLAT = [("lognorm", (0.8,)), ("lognorm", (2.0,)), ("invgamma", (0.6,)), ("invgamma", (2.3,))]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "shapes"), FLAT)
def test_ends_where_the_density_is_flat(name, shapes, method):
    known = []
    with mp.workdps(400):
        for distance in (mp.mpf(10) ** -20, mp.mpf(10) ** -40):
            at = [mp.mpf(0.25) + distance, *map(mp.mpf, shapes), mp.mpf(0.25), mp.mpf(1.5)]
            f = functools.partial(function, name, method)
            step = distance * mp.mpf(10) ** -20
            known.append(derivatives(f, at, 1, step) | derivatives(f, at, 2, step))
    _, given, gradients = first(name, method, 0.25, *shapes, 0.25, 1.5)
    found = {(i,): g for i, g in enumerate(gradients)}
    for i, row in enumerate(second_rows(gradients, given)):
        found |= {(min(i, j), max(i, j)): g for j, g in enumerate(row)}
    for key in known[0]:
        wanted = limit(known[0][key], known[1][key])
        np.testing.assert_allclose(found[key].item(), wanted, rtol=1e-12, err_msg=str(key))


def nth(function, x, order):
    """The derivatives of a function of one number up to an order."""
    (x,), found = followed(x), []
    y = function(x)
    for _ in range(order):
        (y,) = ag.grad(y, [x], create_graph=True, materialize_grads=True)
        found.append(y.item())
    return found


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda x, one: stats.gamma.pdf(x, one), lambda n: (-1) ** n),
        (lambda x, one: stats.gamma.cdf(x, one), lambda n: -((-1) ** n)),
        (lambda x, one: stats.gamma.logpdf(x, one), lambda n: -(n == 1)),
        (lambda x, one: stats.gamma.logsf(x, one), lambda n: -(n == 1)),
        (lambda x, one: stats.gamma.ppf(x, one), lambda n: mp.factorial(n - 1)),
        (lambda x, one: stats.weibull_min.pdf(x, one), lambda n: (-1) ** n),
        (lambda x, one: stats.beta.sf(x, one, 4.5), lambda n: (-1) ** n * mp.ff(4.5, n)),
        (lambda x, one: ag.special.gammainc(one, x), lambda n: -((-1) ** n)),
        (lambda x, one: ag.special.betainc(one, 4.5, x), lambda n: -((-1) ** n) * mp.ff(4.5, n)),
        (lambda x, one: ag.special.betainc(4.5, one, 1 - x), lambda n: (-1) ** n * mp.ff(4.5, n)),
    ],
    ids=["gamma.pdf", "gamma.cdf", "gamma.logpdf", "gamma.logsf", "gamma.ppf", "weibull_min.pdf", "beta.sf", "gammainc",
         "betainc", "betainc at 1"],
)  # fmt: skip
def test_higher_derivatives_are_right_or_nan(function, derivative):
    (one,) = followed(1.0)
    found = nth(lambda x: function(x, one), 0.0, 5)
    wanted = [float(derivative(n)) for n in range(1, 6)]
    np.testing.assert_allclose(found[:2], wanted[:2], rtol=1e-12)
    for a, b in zip(found, wanted, strict=True):
        assert np.isnan(a) or np.isclose(a, b, rtol=1e-12)


def test_infinite_quantiles_of_gamma_by_the_shape():
    # x - (a - 1) log(x) + log(gamma(a)) tends to -log(1 - q)
    known = -float(mp.psi(1, 2.5))
    np.testing.assert_allclose(nth(lambda a: stats.gamma.ppf(1.0, a), 2.5, 2), [np.inf, known], rtol=1e-12)
    np.testing.assert_allclose(nth(lambda df: stats.chi2.isf(0.0, df), 5.0, 2), [np.inf, known / 2], rtol=1e-12)


@pytest.mark.parametrize("k", [0, 3])
def test_tails_of_nbinom_by_both_parameters(k):
    def tail(n, p):
        return mp.log(beta_mass(1 - p, mp.mpf(k + 1), n))

    with mp.workdps(450):
        at = [mp.mpf(2.5), 1 - NEAR]
        known = {key: float(g) for key, g in (derivatives(tail, at, 1) | derivatives(tail, at, 2)).items()}
    given = followed(2.5, 1.0)
    gradients = ag.grad(stats.nbinom.logsf(k, *given), given, create_graph=True)
    rows = second_rows(gradients, given)
    found = [gradients[0].item(), rows[0][0].item(), rows[0][1].item(), rows[1][0].item()]
    np.testing.assert_allclose(found, [known[(0,)], known[(0, 0)], known[(0, 1)], known[(0, 1)]], rtol=1e-12)
    assert gradients[1].item() == rows[1][1].item() == -np.inf


@pytest.mark.parametrize("points", [[0.0, 0.5, 1.0], [0.25, 0.5]])
@pytest.mark.parametrize(
    ("name", "shapes"),
    [("gamma", (2.5,)), ("chi2", (2.5,)), ("beta", (2.5, 0.5)), ("f", (2.5, 3.5)), ("weibull_min", (1.5,)), ("t", (2.5,)),
     ("lognorm", (1.5,)), ("invgamma", (1.5,)), ("expon", ()), ("uniform", ()), ("halfnorm", ()), ("pareto", (1.5,))],
)  # fmt: skip
def test_float32_stays_beside_numbers(name, shapes, points):
    for method in (*METHODS, "ppf", "isf"):
        (x,) = followed(np.asarray(points, np.float32))
        found = getattr(getattr(stats, name), method)(x, *shapes)
        assert found.dtype == np.float32, method


@pytest.mark.parametrize(
    ("name", "method", "points", "shape"),
    [("gamma", "logcdf", [0.0, 0.5], 2.5), ("gamma", "ppf", [0.5, 1.0], 2.5), ("poisson", "logsf", [1.0, 2.0], 0.0)],
)
def test_lazy_derivatives_at_an_end_raise(name, method, points, shape, dask_backend):
    import dask.array as da

    function = getattr(getattr(stats, name), method)
    x, inside = (ag.asarray(da.from_array(np.asarray(p))) for p in (points, [0.5, 0.25]))
    (a,) = (ag.tensor(da.from_array(np.asarray(shape)), requires_grad=True),)
    y = function(x, a)
    np.testing.assert_array_equal(np.asarray(y.detach()), np.asarray(function(np.asarray(points), shape).detach()))
    with pytest.raises(NotImplementedError, match=rf"{name}\.{method}: the derivative at an end of the range .* lazy"):
        ag.grad(y.sum(), [a])[0].numpy()
    with pytest.raises(NotImplementedError, match=f"{name}.{method}"):
        ag.func.jvp(lambda a: function(x, a), (a.detach(),), (ag.ones_like(a.detach()),))[1].numpy()
    if name == "gamma":
        (b,) = followed(shape)
        np.testing.assert_allclose(
            ag.grad(function(inside, a).sum(), [a])[0].item(),
            ag.grad(function(np.asarray([0.5, 0.25]), b).sum(), [b])[0].item(),
        )


#: Quantiles 0 and 1: the density of the end that they lie at, what it is in the order of `derivatives` of the first order.
QUANTILES = [
    ("gamma", (2.3,)), ("gamma", (1.0,)), ("gamma", (0.5,)), ("gamma", (0.3,)), ("chi2", (3.2,)), ("beta", (2.3, 0.8)),
    ("beta", (1.0, 0.5)), ("weibull_min", (1.4,)), ("weibull_min", (0.7,)), ("pareto", (2.6,)), ("f", (3.5, 5.2)),
    ("f", (2.0, 3.7)), ("expon", ()), ("uniform", ()), ("halfnorm", ()), ("lognorm", (0.8,)),
]  # fmt: skip


@pytest.mark.parametrize("method", ["ppf", "isf"])
@pytest.mark.parametrize("q", [0.0, 1.0])
@pytest.mark.parametrize(("name", "shapes"), QUANTILES)
def test_quantiles_at_the_ends(name, shapes, q, method):
    upper = (q == 1) is (method == "ppf")
    finite = name in ("beta", "uniform")
    found = []
    with mp.workdps(800):
        for distance, far in ((NEAR, mp.mpf(5)), (NEARER, mp.mpf(30 if name == "halfnorm" else 300))):
            if not upper:
                y = distance + (name == "pareto")
            elif finite:
                y = 1 - distance
            else:
                y = 1 / distance if name in ("f", "pareto", "lognorm") else far
            at = [y, *map(mp.mpf, shapes)]
            plain = "sf" if upper else "cdf"
            tail = derivatives(KNOWN[name][plain], at, 1, y * mp.mpf(10) ** -200)
            density = KNOWN[name]["pdf"](*at) * (-1 if upper else 1)
            by_q = 1 / density * (1 if (method == "ppf") is not upper else -1)
            by_shapes = [-tail[(i + 1,)] / density for i in range(len(shapes))]
            found.append([by_q * 1.5, *(1.5 * g for g in by_shapes)])
    known = [limit(a, b) for a, b in zip(*found, strict=True)]
    value, _, gradients = first(name, method, q, *shapes, 0.25, 1.5)
    found = [g.item() for g in gradients]
    np.testing.assert_allclose(found[:-2], known, rtol=1e-12)
    end = np.inf if upper and not finite else 1.0 if upper or name == "pareto" else 0.0
    assert value.item() == 0.25 + 1.5 * end
    assert found[-2:] == [1.0, end]


@pytest.mark.parametrize(("name", "shapes", "by_shapes"), [("t", (3.5,), [1]), ("cauchy", (), []), ("gumbel_r", (), []),
                                                          ("norm", (), []), ("laplace", (), []), ("logistic", (), [])])  # fmt: skip
def test_quantiles_of_the_whole_line(name, shapes, by_shapes):
    for q, sign in ((0.0, 1), (1.0, -1)):  # tails become lighter with more degrees of freedom, so quantiles nearer to 0
        _, _, gradients = first(name, "ppf", q, *shapes, 0.25, 1.5)
        assert [g.item() for g in gradients] == [np.inf, *[sign * s * np.inf for s in by_shapes], 1.0, -sign * np.inf]


#: Probabilities as polynomials of a parameter near the end of its range, of the counts from the first on.
POLYNOMIALS = [
    ("poisson", (), 0.0, [0, 1, 2, 3], lambda k, p: p**k * mp.exp(-p) / mp.factorial(k)),
    *[("binom", (3,), end, [0, 1, 2, 3], lambda k, p: mp.binomial(3, k) * p**k * (1 - p) ** (3 - k)) for end in (0.0, 1.0)],
    *[("bernoulli", (), end, [0, 1], lambda k, p: p**k * (1 - p) ** (1 - k)) for end in (0.0, 1.0)],
    ("geom", (), 1.0, [1, 2, 3], lambda k, p: p * (1 - p) ** (k - 1)),
    ("nbinom", (2.5,), 1.0, [0, 1, 2], lambda k, p: mp.binomial(k + 1.5, k) * p**2.5 * (1 - p) ** k),
]  # fmt: skip


@pytest.mark.parametrize("method", ["pmf", "logpmf", "cdf", "logcdf", "sf", "logsf"])
@pytest.mark.parametrize(("name", "shapes", "end", "counts", "probability"), POLYNOMIALS)
def test_counts_where_one_is_certain(name, shapes, end, counts, probability, method):
    log, plain = method.startswith("log"), method.removeprefix("log")
    largest = counts[-1] if name in ("binom", "bernoulli") else 60

    def known(k, p):
        if plain == "pmf":
            found = probability(k, p)
        elif k == largest:
            found = mp.mpf(plain == "cdf")
        else:
            found = mp.fsum(
                probability(j, p) for j in (range(counts[0], k + 1) if plain == "cdf" else range(k + 1, largest + 1))
            )
        return mp.log(found) if log and found else mp.mpf("-inf") if log else found

    for k in counts:
        if k == largest and plain != "pmf":
            continue
        near = []
        with mp.workdps(600):
            for distance in (NEAR, NEARER):
                at = distance if end == 0 else 1 - distance
                f = functools.partial(known, k)
                near.append([*derivatives(f, [at], 1).values(), *derivatives(f, [at], 2).values()])
        _, given, gradients = counted(name, method, k, shapes, end)
        (second,) = (
            ag.grad(gradients[0], given, materialize_grads=True) if gradients[0].requires_grad else [ag.zeros(())]
        )
        wanted = [limit(a, b) for a, b in zip(*near, strict=True)]
        np.testing.assert_allclose([gradients[0].item(), second.item()], wanted, rtol=1e-12, atol=1e-13, err_msg=str(k))


def counted(name, method, k, shapes, p):
    given = followed(p)
    y = getattr(getattr(stats, name), method)(k, *shapes, *given)
    return y, given, ag.grad(y, given, create_graph=True, materialize_grads=True)
