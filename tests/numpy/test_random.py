"""``agrad.numpy.random``: distributions are NumPy's, gradients those of differences with the same seed."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp

#: Continuous distributions, with parameters.
FOLLOWED = {
    "beta": (2.0, 3.0),
    "chisquare": (3.0,),
    "exponential": (2.0,),
    "f": (5.0, 12.0),
    "gamma": (2.0, 3.0),
    "gumbel": (1.0, 2.0),
    "laplace": (1.0, 2.0),
    "logistic": (1.0, 2.0),
    "lognormal": (0.5, 0.4),
    "normal": (1.0, 2.0),
    "pareto": (3.0,),
    "power": (2.0,),
    "rayleigh": (2.0,),
    "standard_gamma": (0.5,),
    "standard_t": (5.0,),
    "triangular": (0.0, 1.0, 3.0),
    "uniform": (1.0, 3.0),
    "weibull": (2.0,),
}

#: Those whose parameters have no derivative.
COUNTS = {
    "binomial": (20, 0.3),
    "geometric": (0.3,),
    "negative_binomial": (3, 0.4),
    "poisson": (4.0,),
    "wald": (2.0, 3.0),
}
FREE = {"standard_cauchy": (), "standard_exponential": (), "standard_normal": (), "random": ()}


@pytest.mark.parametrize("name", [*FOLLOWED, *COUNTS, *FREE])
def test_distributions_are_numpys(name):
    from scipy import stats

    parameters = (FOLLOWED | COUNTS | FREE)[name]
    found = getattr(anp.random.default_rng(5), name)(*parameters, size=3000).numpy()
    expected = getattr(np.random.default_rng(6), name)(*parameters, size=3000)
    assert found.dtype == expected.dtype
    if name in COUNTS and name != "wald":  # of few values: how often each is
        top = int(np.quantile(expected, 0.98))
        table = [np.bincount(np.minimum(v, top), minlength=top + 1) for v in (found, expected)]
        kept = np.array(table)[:, np.sum(table, axis=0) > 0]
        assert stats.chi2_contingency(kept).pvalue > 1e-3
    else:
        assert stats.ks_2samp(found, expected).pvalue > 1e-3


@pytest.mark.parametrize("backend", ["numpy", "dask"])
@pytest.mark.parametrize("name", FOLLOWED)
def test_gradients_pass_to_the_parameters(name, backend):
    parameters = FOLLOWED[name]

    def draw(*values):
        with ag.use_backend(backend):
            return getattr(anp.random.default_rng(1), name)(*values, size=(4, 3))

    leaves = [ag.tensor(p, device=backend, requires_grad=True) for p in parameters]
    drawn = draw(*leaves)
    assert drawn.device == backend
    weight = np.random.default_rng(0).normal(size=(4, 3))
    grads = ag.grad((drawn * ag.asarray(weight, device=backend)).sum(), leaves)
    ag.compute(*grads)
    for i, grad in enumerate(grads):
        step = 1e-5
        moved = [[p + sign * step * (i == j) for j, p in enumerate(parameters)] for sign in (1, -1)]
        ends = [(draw(*values).to_device("numpy").numpy() * weight).sum() for values in moved]
        assert grad.item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", [*COUNTS, "multinomial"])
def test_counts_refuse_what_requires_a_gradient(name):
    parameters = COUNTS.get(name, (5, [0.5, 0.5]))
    last = ag.asarray(parameters[-1]).requires_grad_()
    with pytest.raises(TypeError, match=rf"what {name}\(\) draws has no derivative in its parameters"):
        getattr(anp.random, name)(*parameters[:-1], last)
    assert not getattr(anp.random, name)(*parameters[:-1], last.detach()).requires_grad


def test_shapes_follow_the_parameters():
    rng = anp.random.default_rng(0)
    assert rng.gamma([1.0, 2.0, 3.0]).shape == (3,)
    assert rng.beta([[1.0], [2.0]], [1.0, 2.0, 3.0]).shape == (2, 3)
    assert rng.poisson([1.0, 2.0], size=(4, 2)).shape == (4, 2)
    assert rng.normal().shape == ()
    assert rng.dirichlet([1.0, 2.0], 5).shape == (5, 2)
    assert rng.multinomial(3, [0.2, 0.8], (2, 2)).shape == (2, 2, 2)
    assert rng.gamma(ag.ones(2, device="dask")).device == rng.normal(0.0, ag.ones(2, device="dask")).device == "dask"


def test_vectors():
    rng = anp.random.default_rng(0)
    alpha = ag.tensor([1.0, 2.0, 5.0], requires_grad=True)
    drawn = rng.dirichlet(alpha, 4000)
    np.testing.assert_allclose(drawn.detach().sum(-1).numpy(), 1.0)
    np.testing.assert_allclose(drawn.detach().numpy().mean(0), [1 / 8, 2 / 8, 5 / 8], atol=0.01)
    slope = ag.grad(drawn[:, 0].mean(), alpha)[0].numpy()  # of 1 / 8, which is that of the mean
    np.testing.assert_allclose(slope, [7 / 64, -1 / 64, -1 / 64], atol=0.01)
    counts = rng.multinomial(10, [0.2, 0.3, 0.5], 3000).numpy()
    assert (counts.sum(1) == 10).all()
    np.testing.assert_allclose(counts.mean(0), [2, 3, 5], atol=0.15)
    np.testing.assert_allclose(np.cov(counts.T)[0], [1.6, -0.6, -1.0], atol=0.2)
    many = rng.multivariate_normal([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]], 4000).numpy()
    np.testing.assert_allclose(np.cov(many.T), [[2.0, 0.5], [0.5, 1.0]], atol=0.2)


SINGULAR = {
    "rank 1": np.ones((3, 3)),
    "rank 2": np.array([[2.0, 1.0, 3.0], [1.0, 2.0, 3.0], [3.0, 3.0, 6.0]]),
    "nothing": np.zeros((3, 3)),
    "of rounding": np.exp(-0.5 * (np.linspace(0, 1, 30)[:, None] - np.linspace(0, 1, 30)) ** 2),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cov", SINGULAR.values(), ids=SINGULAR)
def test_singular_covariances(cov, dtype):
    cov, n = cov.astype(dtype), cov.shape[0]
    mean = ag.zeros(n, dtype=dtype, requires_grad=True)
    drawn = anp.random.default_rng(0).multivariate_normal(mean, cov, 4000)
    np.testing.assert_allclose(np.cov(drawn.detach().numpy().T), cov, atol=0.25)
    for null in np.linalg.svd(cov)[2][np.linalg.matrix_rank(cov) :]:  # along these nothing varies
        np.testing.assert_allclose(
            drawn.detach().numpy() @ null, 0, atol=20 * (np.finfo(dtype).eps * cov.trace()) ** 0.5
        )
    assert ag.grad(drawn.sum(), mean)[0].tolist() == [4000.0] * n


def test_a_covariance_has_a_derivative_where_it_is_regular():
    draw = lambda cov: anp.random.default_rng(0).multivariate_normal(
        np.zeros(2), (cov + anp.matrix_transpose(cov)) / 2, 3
    )
    regular, step, weight = np.array([[2.0, 0.5], [0.5, 1.0]]), 1e-6, np.arange(6.0).reshape(3, 2)
    slope = ag.grad(lambda cov: (draw(cov) * weight).sum())(regular)
    for i, j in np.ndindex(2, 2):
        moved = np.zeros((2, 2))
        moved[i, j] = step
        ends = [(draw(regular + sign * moved).numpy() * weight).sum() for sign in (1, -1)]
        assert slope[i, j] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)
    for singular in (np.ones((2, 2)), np.zeros((2, 2))):
        with pytest.raises(RuntimeError, match=r"the covariance is singular, .*\n  .*cov \+ 1e-9 \* np.eye\(n\)"):
            ag.grad(lambda cov: draw(cov).sum())(singular)
        with pytest.raises(RuntimeError, match="the covariance is singular"):
            ag.func.jvp(draw, (singular,), (regular,))
    with pytest.raises(ValueError, match="covariance is not symmetric positive-semidefinite"):
        draw(np.diag([1.0, -1.0]))


def test_at_the_ends_of_the_parameters():
    rng = anp.random.default_rng(0)
    assert rng.poisson([0.0, 0.0]).tolist() == [0, 0]
    assert rng.binomial([0, 5, 7], [0.5, 0.0, 1.0]).tolist() == [0, 0, 7]
    assert rng.geometric(1.0, 3).tolist() == [1, 1, 1]
    assert rng.multinomial(4, [0.0, 1.0, 0.0]).tolist() == [0, 4, 0]
    assert abs(rng.poisson(1e6, 50).astype("float64").mean().item() - 1e6) < 1000


def test_orders():
    rng = anp.random.default_rng(0)
    x = ag.arange(12.0).reshape(3, 4).requires_grad_()
    rows = rng.permuted(x, axis=1)
    assert [sorted(row) for row in rows.tolist()] == x.tolist()
    assert len({tuple(v - row[0] // 4 * 4 for v in row) for row in rows.tolist()}) > 1  # each for itself
    assert sorted(rng.permuted(x).reshape(-1).tolist()) == list(range(12))
    assert ag.grad((rows * rows).sum(), x)[0].tolist() == (2 * x).tolist()
    whole = rng.permutation(x)
    assert sorted(whole.tolist()) == x.tolist()
    assert sorted(rng.permutation(x, axis=1)[0].tolist()) == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(TypeError, match=r"shuffle\(\) of a tuple"):
        rng.shuffle((1, 2, 3))


def test_states():
    anp.random.seed(3)
    state = anp.random.get_state()
    first = anp.random.gamma(2.0, size=3).tolist()
    assert anp.random.gamma(2.0, size=3).tolist() != first
    anp.random.set_state(state)
    assert anp.random.gamma(2.0, size=3).tolist() == first
    ag.manual_seed(3)
    assert anp.random.gamma(2.0, size=3).tolist() == first


@pytest.mark.parametrize("where", [np.random, np.random.Generator], ids=["module", "generator"])
def test_every_name_of_numpys_is_there_or_refused(where):
    ours = anp.random if where is np.random else anp.random.default_rng(0)
    for name in dir(where):
        if name.startswith("_") or name in ("test", "mtrand"):
            continue
        found = getattr(ours, name)
        if found.__doc__.startswith("Raise TypeError"):
            with pytest.raises(
                TypeError, match=f"numpy.random.{name} is not defined for tensors; draw with NumPy's own"
            ):
                found(2.0)
            continue
        if where is np.random and callable(found) and not isinstance(found, type) and name not in ("rand", "randn"):
            theirs = [p for p in inspect.signature(getattr(np.random, name)).parameters if p not in ("args", "kwargs")]
            allowed = {
                "multivariate_normal": {"check_valid", "tol"},
                "set_state": set(theirs),
                "get_state": set(theirs),
            }
            assert set(theirs) - allowed.get(name, set()) <= set(inspect.signature(found).parameters), name
    with pytest.raises(AttributeError):
        ours.nonsense


def test_what_has_no_meaning_is_refused():
    rng = anp.random.default_rng(0)
    for name in ("random", "standard_normal", "standard_exponential"):
        with pytest.raises(TypeError, match="out="):
            getattr(rng, name)(2, out=np.zeros(2))
    with pytest.raises(TypeError, match="out="):
        rng.standard_gamma(1.0, 2, out=np.zeros(2))
    assert rng.standard_gamma(1.0, 2, dtype="float32").dtype == np.float32
    with pytest.raises(ValueError, match="larger sample"):
        rng.choice(3, 4, replace=False)


def test_a_seeded_generator_is_the_generator():
    """As PyTorch's ``Generator().manual_seed(3)``."""
    generator = ag.random.Generator()
    assert generator.manual_seed(3) is generator
    other = ag.random.Generator(3)
    assert ag.rand(3, generator=generator).tolist() == ag.rand(3, generator=other).tolist()
