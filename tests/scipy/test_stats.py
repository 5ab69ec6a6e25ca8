"""Distributions: values are SciPy's, derivatives those of finite differences, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from support import some_of

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck
from agrad.scipy import stats

CONTINUOUS = {
    "norm": ([-3.0, -0.4, 0.0, 0.7, 8.0], ()),
    "t": ([-3.0, -0.4, 0.1, 0.7, 8.0], (3.5,)),
    "gamma": ([-1.0, 0.02, 0.7, 2.0, 30.0], (2.3,)),
    "beta": ([-0.2, 0.1, 0.5, 0.9, 1.3], (2.3, 0.8)),
    "chi2": ([-1.0, 0.02, 0.7, 2.0, 30.0], (3.2,)),
    "expon": ([-1.0, 0.02, 0.7, 2.0, 30.0], ()),
    "laplace": ([-3.0, -0.4, 0.1, 0.7, 8.0], ()),
    "lognorm": ([-1.0, 0.02, 0.7, 2.0, 30.0], (0.8,)),
    "uniform": ([-0.2, 0.1, 0.5, 0.9, 1.3], ()),
    "cauchy": ([-3.0, -0.4, 0.1, 0.7, 8.0], ()),
    "halfnorm": ([-1.0, 0.02, 0.7, 2.0, 8.0], ()),
    "invgamma": ([-1.0, 0.02, 0.7, 2.0, 30.0], (2.3,)),
    "weibull_min": ([-1.0, 0.02, 0.7, 2.0, 8.0], (1.4,)),
    "logistic": ([-3.0, -0.4, 0.1, 0.7, 8.0], ()),
    "gumbel_r": ([-3.0, -0.4, 0.1, 0.7, 8.0], ()),
    "pareto": ([0.5, 1.2, 2.0, 5.0, 8.0], (2.6,)),
    "f": ([-1.0, 0.02, 0.7, 2.0, 8.0], (3.5, 5.2)),
}
DISCRETE = {
    "poisson": ([-1, 0, 1, 4, 12], (2.7,)),
    "binom": ([-1, 0, 1, 4, 7, 9], (7, 0.3)),
    "bernoulli": ([-1, 0, 1, 2], (0.3,)),
    "nbinom": ([-1, 0, 1, 4, 12], (2.7, 0.4)),
    "geom": ([-1, 0, 1, 4, 12], (0.4,)),
}
DENSITIES = ["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"]
MASSES = ["pmf", "logpmf", "cdf", "logcdf", "sf", "logsf"]
Q = np.asarray([0.02, 0.4, 0.5, 0.97])
#: SciPy's logarithms of probabilities near 1 have the rounding of these.
CLOSE = {"rtol": 2e-12, "atol": 2e-16}


def value(tensor):
    return tensor.detach().to_device("numpy").numpy()


def both(name, method, *args, **kwds):
    with np.errstate(all="ignore"):
        expected = getattr(getattr(scipy.stats, name), method)(*args, **kwds)
    return value(getattr(getattr(stats, name), method)(*args, **kwds)), expected


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", DENSITIES)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_values(name, method):
    x, shapes = CONTINUOUS[name]
    x = np.asarray(x)
    for args, kwds in (
        (shapes, {}),
        ((*shapes, 0.1, 1.7), {}),
        (shapes, {"scale": 2.0, "loc": -0.3}),
        (tuple(np.asarray([[s], [s + 0.4]]) for s in shapes), {"loc": np.asarray([[0.0], [0.2]])}),
    ):
        found, expected = both(name, method, x, *args, **kwds)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("method", ["ppf", "isf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles(name, method):
    shapes = CONTINUOUS[name][1]
    q = np.asarray([-0.1, 0.0, *Q, 1.0, 1.1, np.nan])
    np.testing.assert_allclose(*both(name, method, q, *shapes, 0.2, 1.5), rtol=1e-10)


@pytest.mark.parametrize("method", MASSES)
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_values(name, method):
    k, shapes = DISCRETE[name]
    for counts in (np.asarray(k), np.asarray(k) * 1.0, np.asarray([0.5, 1.5])):
        for loc in (0, 2):
            found, expected = both(name, method, counts, *shapes, loc)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, **CLOSE)
    found, expected = both(name, method, np.asarray(k), *shapes[:-1], np.asarray([[0.2], [0.7]]))
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_parameters_that_are_not_allowed_give_nan(name):
    x, shapes = CONTINUOUS[name]
    for method in DENSITIES:
        for args in (
            (*shapes, 0.0, -1.0),
            (*shapes, 0.0, 0.0),
            (*shapes, np.nan, 1.0),
            *([(-1.0, *shapes[1:])] * bool(shapes)),
        ):
            np.testing.assert_array_equal(*both(name, method, np.asarray([*x, np.nan]), *args))
    scale = np.asarray([1.0, -1.0, np.nan])
    for method in DENSITIES:
        np.testing.assert_allclose(*both(name, method, 0.5, *shapes, scale=scale), **CLOSE)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("poisson", (-1.0,)),
        ("binom", (3, 1.2)),
        ("binom", (-1, 0.5)),
        ("binom", (2.5, 0.5)),
        ("bernoulli", (-0.1,)),
        ("nbinom", (2.5, 0.0)),
        ("nbinom", (0.0, 0.5)),
        ("nbinom", (2.5, 1.2)),
    ],
)
def test_counts_with_parameters_that_are_not_allowed_give_nan(name, args):
    for method in MASSES:
        for given in (args, tuple(map(np.asarray, args))):
            found, _ = both(name, method, np.asarray([-1, 0, 1]), *given)
            assert np.all(np.isnan(found)), method  # SciPy's are 0 where there would be no such count


def test_values_at_the_ends():
    ends = np.asarray([0.0, 1.0, np.inf, -np.inf])
    for name, shapes in (("gamma", (1.0,)), ("gamma", (0.5,)), ("beta", (1.0, 1.0)), ("beta", (0.5, 2.0)), ("expon", ()),
                         ("lognorm", (0.5,)), ("uniform", ()), ("norm", ()), ("t", (2.0,)), ("laplace", ()),
                         ("cauchy", ()), ("halfnorm", ()), ("invgamma", (2.3,)), ("weibull_min", (1.0,)), ("weibull_min", (0.5,))):  # fmt: skip
        for method in DENSITIES:
            found, expected = both(name, method, ends, *shapes)
            np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"{name}.{method}")
    np.testing.assert_allclose(*both("poisson", "pmf", [0, 1], 0.0))
    np.testing.assert_allclose(*both("binom", "pmf", [0, 3], 3, [0.0, 1.0]))
    np.testing.assert_allclose(*both("t", "logpdf", [0.3], np.inf))


def test_tails_do_not_underflow():
    for name, method, x, shapes in (
        ("norm", "logcdf", -40.0, ()),
        ("norm", "logsf", 40.0, ()),
        ("norm", "logpdf", 1e3, ()),
        ("gamma", "logpdf", 1e4, (2.0,)),
        ("expon", "logsf", 1e4, ()),
        ("laplace", "logcdf", -700.0, ()),
        ("laplace", "logsf", 700.0, ()),
        ("t", "logpdf", 3.0, (1e8,)),
        ("lognorm", "logsf", 1e12, (0.5,)),
        ("weibull_min", "logsf", 1e4, (1.5,)),
        ("cauchy", "cdf", -1e12, ()),
    ):
        far = ag.tensor(x, requires_grad=True)
        y = getattr(getattr(stats, name), method)(far, *shapes)
        np.testing.assert_allclose(value(y), getattr(getattr(scipy.stats, name), method)(x, *shapes), rtol=1e-7)
        assert np.isfinite(ag.grad(y, far)[0].item())
    assert stats.laplace.logcdf(-1e4).item() == -1e4 - np.log(2)  # SciPy's is -inf
    np.testing.assert_allclose(stats.halfnorm.logsf(40.0).item(), np.log(2) + scipy.stats.norm.logsf(40.0))  # so here


def test_dtypes():
    x = np.asarray([0.3, 0.6], np.float32)
    assert stats.norm.logpdf(x).dtype == np.float32
    assert stats.gamma.cdf(x, np.float32(2.0)).dtype == np.float32
    assert stats.norm.logpdf(x, np.asarray([0.0, 1.0])).dtype == np.float64
    assert stats.norm.logpdf([0, 1]).dtype == stats.poisson.pmf([0, 1], 2).dtype == np.float64


@pytest.mark.parametrize("method", MASSES)
def test_binomial_of_many_trials(method):
    k, n = np.asarray([4_900_000, 5_000_000, 5_003_000]), 10_000_000
    np.testing.assert_allclose(*both("binom", method, k, n, 0.5), rtol=1e-6, atol=2e-16)


# -- derivatives ------------------------------------------------------------------------------------------------------


def leaves(device, *values):
    return tuple(ag.asarray(np.asarray(v), device=device).requires_grad_() for v in values)


def inside(name):
    x, shapes = CONTINUOUS[name]
    return (np.asarray(x[1:4]), *shapes, np.asarray([0.01, -0.02, 0.0]), np.asarray([[1.1]]))


def checked(function, *operands, second=True):
    """Check the derivatives by all operands along one sum, so that there are few numbers."""
    assert gradcheck(function, operands, check_forward_ad=True, fast_mode=True)
    if second:
        assert gradgradcheck(function, operands, check_fwd_over_rev=True, fast_mode=True, rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("method", DENSITIES)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_derivatives(name, method):
    checked(getattr(getattr(stats, name), method), *leaves(None, *inside(name)))


@pytest.mark.parametrize("backend", ["strict", "dask"], indirect=True)
@pytest.mark.parametrize("name", some_of(["norm", "laplace", "expon", "uniform"], 2))
def test_derivatives_on_other_backends(name, backend):
    for method in ["pdf", "logpdf"] + (["logcdf", "sf"] if name != "norm" else []):
        function = getattr(getattr(stats, name), method)
        operands = leaves(backend, *inside(name))
        expected = getattr(getattr(scipy.stats, name), method)(*inside(name))
        np.testing.assert_allclose(value(function(*operands)), expected)
        checked(function, *operands, second=backend == "strict")


@pytest.mark.parametrize("name", some_of(["gamma", "t", "chi2", "beta", "lognorm"], 3))
def test_derivatives_of_special_functions_on_dask(name, dask_backend):
    for method in ["logpdf", "cdf"]:
        function = getattr(getattr(stats, name), method)
        x, *shapes = inside(name)[:-2]
        expected = getattr(getattr(scipy.stats, name), method)(x, *shapes)
        np.testing.assert_allclose(value(function(*leaves("dask", x, *shapes))), expected)
        checked(function, *leaves("dask", x[:2], *shapes), second=False)


@pytest.mark.parametrize("name", ["cauchy", "halfnorm", "invgamma", "weibull_min"])
def test_others_on_dask(name, dask_backend):
    function, operands = getattr(stats, name).logpdf, inside(name)
    found, chosen = function(*leaves("dask", *operands)), leaves("dask", *operands)
    np.testing.assert_allclose(value(found), getattr(scipy.stats, name).logpdf(*operands))
    gradients = ag.grad(function(*chosen).sum(), chosen)
    on_numpy = leaves(None, *operands)
    for found, known in zip(gradients, ag.grad(function(*on_numpy).sum(), on_numpy), strict=True):
        np.testing.assert_allclose(value(found), value(known))  # which finite differences have checked


@pytest.mark.parametrize("name", CONTINUOUS)
def test_derivatives_of_quantiles(name):
    for method in ("ppf", "isf"):
        parameters = inside(name)[1:-2]
        checked(getattr(getattr(stats, name), method), *leaves(None, Q[:3], *parameters, 0.1, 1.3), second=False)


@pytest.mark.parametrize("method", MASSES)
@pytest.mark.parametrize("name", DISCRETE)
def test_derivatives_of_masses(name, method):
    function, shapes = getattr(getattr(stats, name), method), DISCRETE[name][1]
    counts = np.asarray([0, 1 - (name == "bernoulli")]) + (name == "geom")  # 1 is the last, and the first
    checked(lambda p: function(counts, *shapes[:-1], p), *leaves(None, [[shapes[-1]], [0.4]]))


@pytest.mark.parametrize("method", MASSES)
def test_derivatives_by_the_number_of_successes(method):
    counts, function = np.asarray([0, 3]), getattr(stats.nbinom, method)
    checked(lambda n, p: function(counts, n, p), *leaves(None, [[2.7], [1.0]], 0.4), second=method != "logsf")


def test_the_cauchy_distribution_far_out():
    for x in (1e200, -1e200):
        far = ag.tensor(x, requires_grad=True)
        y = stats.cauchy.logpdf(far)
        np.testing.assert_allclose(y.item(), -2 * np.log(1e200) - np.log(np.pi), rtol=1e-15)  # SciPy's is -inf
        np.testing.assert_allclose(ag.grad(y, far)[0].item(), -2 / x, rtol=1e-12)
    q = np.asarray([1e-300, 1e-20, 0.3, 1 - 1e-16])
    np.testing.assert_allclose(*both("cauchy", "ppf", q), rtol=1e-12)


def test_gradients_outside_of_the_support_are_zero():
    for name in ("gamma", "beta", "expon", "uniform", "lognorm", "chi2", "halfnorm", "invgamma", "weibull_min"):
        x = ag.tensor([-1.0, 0.5], requires_grad=True)
        for method in DENSITIES:
            y = getattr(getattr(stats, name), method)(x, *CONTINUOUS[name][1])
            g = ag.grad(y, x, ag.ones(2))[0].tolist()
            assert g[0] == 0, (name, method)
            assert np.isfinite(g[1])


def test_counts_have_no_derivative():
    k = ag.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"poisson has no derivative by k, which counts"):
        stats.poisson.logpmf(k, 2.0)
    with pytest.raises(NotImplementedError, match=r"by loc"):
        stats.poisson.cdf([1.0], 2.0, k[0])
    with pytest.raises(NotImplementedError, match=r"binom has no derivative by n"):
        stats.binom.pmf(1, k, 0.5)
    with pytest.raises(NotImplementedError, match=r"nbinom has no derivative by k"):
        stats.nbinom.cdf(k, 2.0, 0.5)
    with ag.no_grad():
        assert stats.poisson.pmf(k, 2.0).shape == (2,)


def test_chunks_are_kept():
    pytest.importorskip("dask.array")
    import dask.array as da

    x = np.random.default_rng(0).normal(size=100)
    data = ag.asarray(da.from_array(x, chunks=30))
    mean, scale = ag.tensor(0.2, requires_grad=True), ag.tensor(1.5, requires_grad=True)
    loss = stats.norm.logpdf(data, mean, scale).sum()
    loss.backward()
    z = (x - 0.2) / 1.5
    np.testing.assert_allclose(loss.item(), scipy.stats.norm.logpdf(x, 0.2, 1.5).sum(), rtol=1e-12)
    np.testing.assert_allclose(mean.grad.item(), (z / 1.5).sum(), rtol=1e-10)
    np.testing.assert_allclose(scale.grad.item(), ((z * z - 1) / 1.5).sum(), rtol=1e-10)


# -- arguments --------------------------------------------------------------------------------------------------------


def test_frozen_distributions():
    x = np.asarray([0.2, 0.7])
    frozen = stats.gamma(2.0, scale=3.0)
    np.testing.assert_allclose(value(frozen.logpdf(x)), scipy.stats.gamma(2.0, scale=3.0).logpdf(x))
    scale = ag.tensor(3.0, requires_grad=True)
    assert ag.grad(stats.expon(scale=scale).logpdf(3.0), scale)[0].item() == 0
    cov = np.asarray([[2.0, 0.5], [0.5, 1.0]])
    normal = stats.multivariate_normal([0.0, 1.0], cov)
    np.testing.assert_allclose(value(normal.pdf(x)), scipy.stats.multivariate_normal([0.0, 1.0], cov).pdf(x))
    np.testing.assert_allclose(normal.entropy().item(), scipy.stats.multivariate_normal([0.0, 1.0], cov).entropy())
    with pytest.raises(AttributeError):
        frozen.nothing


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.gamma.pdf(1.0), "gamma is missing the parameters a"),
        (lambda: stats.gamma.pdf(1.0, 2.0, a=2.0), "gamma got multiple values for argument 'a'"),
        (lambda: stats.norm.pdf(1.0, sigma=2.0), "norm got an unexpected keyword argument 'sigma'"),
        (lambda: stats.norm.pdf(1.0, 0.0, 1.0, 2.0), "norm takes the parameters loc, scale; 3 were given"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(TypeError, match=message) as caught:
        call()
    assert "test_stats.py" in str(caught.value)


# -- vectors ----------------------------------------------------------------------------------------------------------

COV = np.asarray([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])
MEAN = np.asarray([0.1, -0.2, 0.4])
POINTS = np.random.default_rng(0).normal(size=(2, 4, 3))


def symmetric(function, place):
    def called(*args):
        a = args[place]
        args = (*args[:place], (a + ag.matrix_transpose(a)) / 2, *args[place + 1 :])
        return function(*args)

    return called


@pytest.mark.parametrize("allow_singular", [False, True])
@pytest.mark.parametrize("method", ["logpdf", "pdf"])
def test_multivariate_normal(method, allow_singular):
    for x in (POINTS, POINTS[0], POINTS[0, 0], POINTS[:, :1]):
        for args in ((MEAN, COV), (None, COV), (MEAN, 2.0), (MEAN, np.asarray([1.0, 2.0, 3.0])), (MEAN,)):
            found, expected = both("multivariate_normal", method, x, *args, allow_singular=allow_singular)
            assert found.shape == np.shape(expected)
            np.testing.assert_allclose(found, expected, rtol=1e-11)
    for x in (0.3, [0.3, 0.5], [[0.3], [0.5]]):
        np.testing.assert_allclose(*both("multivariate_normal", method, x, 0.2, 2.0), rtol=1e-12)
    np.testing.assert_allclose(*both("multivariate_normal", "entropy", MEAN, COV), rtol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
def test_derivatives_of_the_multivariate_normal(backend):
    operands = leaves(backend, POINTS[0, :2], MEAN, COV)
    function = symmetric(stats.multivariate_normal.logpdf, 2)
    np.testing.assert_allclose(
        value(function(*operands)), scipy.stats.multivariate_normal.logpdf(POINTS[0, :2], MEAN, COV)
    )
    checked(function, *operands, second=backend == "numpy")
    if backend != "dask":
        checked(symmetric(stats.multivariate_normal.entropy, 1), *operands[1:], second=False)


def test_a_singular_covariance():
    half = np.asarray([[1.0, 0.2], [0.5, 1.0], [0.3, -0.7]])
    cov = half @ half.T
    x = POINTS[0] @ half @ half.T
    found, expected = both("multivariate_normal", "logpdf", x, np.zeros(3), cov, allow_singular=True)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    off, expected = both(
        "multivariate_normal", "logpdf", x + np.asarray([1.0, 0.0, 0.0]), np.zeros(3), cov, allow_singular=True
    )
    assert np.all(off == -np.inf)
    assert np.all(expected == -np.inf)

    w = POINTS[0, :, :2]

    def moved(half, w):
        return stats.multivariate_normal.logpdf(w @ half.T, None, half @ half.T, True)

    checked(moved, *leaves(None, half, w))
    with pytest.raises(np.linalg.LinAlgError):
        stats.multivariate_normal.logpdf(x, np.zeros(3), np.diag([1.0, 1.0, 0.0]))
    with pytest.raises(ValueError, match="positive semidefinite"):
        stats.multivariate_normal.logpdf(x, np.zeros(3), np.diag([1.0, 1.0, -1.0]), allow_singular=True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.zeros(2), COV), "Dimension mismatch"),
        ((np.zeros((3, 1)), COV), "'mean' must be a vector of length 3"),
        ((np.zeros(3), np.zeros((3, 2))), "'cov' must be square"),
        ((np.zeros(3), np.zeros((1, 3, 3))), "'cov' must be at most two-dimensional"),
    ],
)
def test_shapes_that_do_not_fit(args, message):
    for module in (scipy.stats, stats):
        with pytest.raises(ValueError, match=message):
            module.multivariate_normal.logpdf(POINTS, *args)


ALPHA = np.asarray([1.5, 0.8, 3.0])
SIMPLEX = np.asarray([[0.2, 0.5], [0.3, 0.1], [0.5, 0.4]])


@pytest.mark.parametrize("method", ["logpdf", "pdf"])
def test_dirichlet(method):
    for x in (SIMPLEX, SIMPLEX[:, 0], SIMPLEX[:2], SIMPLEX[:2, 0]):
        found, expected = both("dirichlet", method, x, ALPHA)
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def normalized(x, alpha):
        return getattr(stats.dirichlet, method)(x / ag.sum(x, axis=0), alpha)

    checked(normalized, *leaves(None, SIMPLEX, ALPHA))
    checked(getattr(stats.dirichlet, method), *leaves(None, SIMPLEX[:2], ALPHA))


@pytest.mark.parametrize(
    ("x", "alpha", "message"),
    [
        (SIMPLEX[:, 0], -ALPHA, "must be greater than 0"),
        (SIMPLEX[:, 0], ALPHA[:, None], "must be one dimensional"),
        (SIMPLEX[:1, 0], ALPHA, "same number of entries"),
        (SIMPLEX[:, 0] * 1.01, ALPHA, "must lie within the normal simplex"),
        (np.asarray([-0.1, 0.6, 0.5]), ALPHA, "greater than or equal to zero"),
        (np.asarray([0.5, 0.0, 0.5]), ALPHA, "greater than zero if its alpha is less than one"),
    ],
)
def test_points_that_are_not_on_the_simplex(x, alpha, message):
    for module in (scipy.stats, stats):
        with pytest.raises(ValueError, match=message):
            module.dirichlet.logpdf(x, alpha)


def test_lazy_points_off_the_simplex_are_nan(dask_backend):
    x = ag.asarray(SIMPLEX * [1.0, 1.01], device="dask")
    found = value(stats.dirichlet.logpdf(x, ALPHA))
    np.testing.assert_allclose(found[0], scipy.stats.dirichlet.logpdf(SIMPLEX[:, 0], ALPHA))
    assert np.isnan(found[1])


def test_random_numbers():
    for name, (_, shapes) in CONTINUOUS.items():
        x = value(getattr(stats, name).rvs(*shapes, 0.5, 2.0, size=2000, random_state=3))
        assert scipy.stats.kstest(x, lambda x: getattr(scipy.stats, name).cdf(x, *shapes, 0.5, 2.0)).pvalue > 1e-3  # noqa: B023
    again = stats.norm.rvs(0.5, 2.0, 5, random_state=3)
    assert again.tolist() == stats.norm(0.5, 2.0).rvs(size=5, random_state=3).tolist()
    assert stats.norm.rvs(0.5, 2.0, 5, rng=3).tolist() == again.tolist()
    generator = ag.numpy.random.default_rng(3)
    assert stats.norm.rvs(0.5, 2.0, 5, rng=generator).tolist() == again.tolist()
    with pytest.raises(TypeError, match="multiple values for argument now known as `rng`"):
        stats.norm.rvs(size=5, rng=3, random_state=3)
    assert stats.norm.rvs(np.zeros(3)).shape == (3,)
    z = value(stats.norm.rvs(size=5, random_state=3))
    scale = ag.tensor(2.0, requires_grad=True)
    (g,) = ag.grad(stats.norm.rvs(0.5, scale, 5, random_state=3).sum(), scale)
    np.testing.assert_allclose(g.item(), z.sum())
    x = value(stats.dirichlet.rvs(ALPHA, size=(4, 500), random_state=1))
    assert x.shape == (4, 500, 3)
    np.testing.assert_allclose(x.sum(axis=-1), 1.0)
    np.testing.assert_allclose(x.mean(axis=(0, 1)), ALPHA / ALPHA.sum(), atol=0.02)


@pytest.mark.parametrize("method", ["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"])
@pytest.mark.parametrize(("name", "shapes"), [("norm", ()), ("gamma", (2.0,)), ("beta", (2.0, 3.0)), ("expon", ())])
def test_where_a_parameter_is_not_allowed_derivatives_are_nan(name, shapes, method):
    distribution = getattr(stats, name)
    allowed = [*shapes, 0.1, 1.2]
    for place in {*range(len(allowed))} - {len(shapes)}:
        for value in (0.0, -1.0):
            given = [ag.tensor(x, requires_grad=True) for x in (0.6, *allowed[:place], value, *allowed[place + 1 :])]
            found = getattr(distribution, method)(*given)
            assert all(np.isnan(float(x)) for x in (found.detach(), *ag.grad(found, given)))
    if method in ("ppf", "isf"):
        given = [ag.tensor(x, requires_grad=True) for x in (1.1, *allowed)]
        found = getattr(distribution, method)(*given)
        assert all(np.isnan(float(x)) for x in (found.detach(), *ag.grad(found, given)))


@pytest.mark.parametrize("method", ["pmf", "logpmf", "cdf", "logcdf", "sf", "logsf"])
@pytest.mark.parametrize(("name", "shapes"), [("poisson", (-2.0,)), ("bernoulli", (1.5,)), ("binom", (3.0, -0.5))])
@pytest.mark.parametrize("count", [-1.0, 1.0, 9.0])
def test_so_are_those_of_counts(name, shapes, count, method):
    p = ag.tensor(shapes[-1], requires_grad=True)
    found = getattr(getattr(stats, name), method)(count, *shapes[:-1], p)
    assert np.isnan(float(found.detach()))
    assert np.isnan(float(ag.grad(found, p)[0]))


@pytest.mark.parametrize("mean", [0.0, 2.5, -1.0, np.nan])
def test_one_mean_of_many_counts(mean):
    k = np.asarray([0.0, 1.0, 5.0])
    expected = scipy.stats.poisson.logpmf(k, mean)
    for given in (mean, ag.tensor(mean), ag.tensor([mean])):
        np.testing.assert_allclose(stats.poisson.logpmf(k, given).numpy(), expected, rtol=1e-14)


# -- moments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_moments(name):
    shapes = (CONTINUOUS.get(name) or DISCRETE[name])[1]
    scales = ((), (0.3,)) if name in DISCRETE else ((), (0.3, 1.7))
    for method in ("mean", "var", "std") if name in DISCRETE else ("mean", "var", "std", "median"):
        for more in scales:
            np.testing.assert_allclose(*both(name, method, *shapes, *more), rtol=1e-9)
        arrays = tuple(np.asarray([[s], [s + 0.4]]) for s in shapes if name != "binom")
        if arrays and name != "bernoulli":
            np.testing.assert_allclose(*both(name, method, *arrays, loc=np.asarray([0.0, 2.0])), rtol=1e-9)
        frozen = getattr(getattr(stats, name)(*shapes, loc=2.0), method)()
        np.testing.assert_allclose(
            value(frozen), getattr(getattr(scipy.stats, name), method)(*shapes, loc=2.0), rtol=1e-9
        )
    if name not in ("cauchy", "binom"):
        parameters = [ag.tensor(p, requires_grad=True) for p in (*shapes, *scales[1])]
        for method in ("mean", "std"):
            of = getattr(getattr(stats, name), method)
            assert gradcheck(of, [*parameters], check_forward_ad=True, fast_mode=True)


def test_moments_that_are_infinite_or_not_there():
    for name, shapes in (("t", (1.5,)), ("t", (0.7,)), ("pareto", (1.5,)), ("pareto", (0.7,)), ("invgamma", (1.5,)),
                         ("invgamma", (0.7,)), ("f", (2.0, 3.0)), ("f", (2.0, 1.0)), ("norm", (0.0, -1.0)), ("gamma", (-1.0,)),
                         ("poisson", (-1.0,)), ("cauchy", ()), ("t", (np.inf,))):  # fmt: skip
        for method in ("mean", "var"):
            for given in (shapes, tuple(map(np.asarray, shapes))):
                if np.inf in shapes and given is not shapes:
                    continue
                np.testing.assert_allclose(*both(name, method, *given), err_msg=f"{name}.{method}{shapes}")
    df = ag.tensor([0.7, 1.5, 4.0], requires_grad=True)
    (slope,) = ag.grad(stats.t.var(df)[2], df)
    np.testing.assert_allclose(slope.numpy(), [0, 0, -0.5])  # of df / (df - 2)


def test_hips_imports():
    import agrad.scipy.stats.multivariate_normal as vectors
    import agrad.scipy.stats.norm as numbers
    from agrad.scipy.stats.t import logpdf

    assert numbers is stats.norm
    assert vectors is stats.multivariate_normal
    np.testing.assert_allclose(value(logpdf(0.3, 2.5)), scipy.stats.t.logpdf(0.3, 2.5))
