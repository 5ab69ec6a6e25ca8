"""Distributions beside PyTorch's numbers (distributions.json), by their own integrals and draws, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import agrad as ag
import agrad.distributions as D

EXPECTED = json.loads((Path(__file__).parent / "distributions.json").read_text())


def close(found, expected):
    np.testing.assert_allclose(
        found.detach().numpy(), np.array(expected, dtype=float), rtol=1e-7, atol=1e-12
    )  # PyTorch's trigamma has 9 digits


@pytest.mark.parametrize("row", EXPECTED["of_one"], ids=lambda row: f"{row['name']} of {', '.join(row['parameters'])}")
def test_densities_entropies_and_moments_are_pytorchs(row):
    parameters = {name: ag.tensor(value, requires_grad=True) for name, value in row["parameters"].items()}
    made = getattr(D, row["name"])(**parameters)
    assert (list(made.batch_shape), list(made.event_shape)) == (row["batch_shape"], row["event_shape"])
    found = made.log_prob(ag.tensor(row["value"]))
    close(found, row["log_prob"])
    gradients = ag.autograd.grad(found.sum(), list(parameters.values()), retain_graph=True)
    for gradient, expected in zip(gradients, row["by"], strict=True):
        close(gradient, expected)
    close(made.entropy(), row["entropy"])
    gradients = ag.autograd.grad(made.entropy().sum(), list(parameters.values()), allow_unused=True)
    for gradient, expected in zip(gradients, row["entropy_by"], strict=True):
        close(ag.zeros(()) if gradient is None else gradient, 0 if expected is None else expected)
    if row["mean"] is None:
        assert ag.isnan(made.mean).all()
    else:
        close(made.mean, row["mean"])
        close(made.variance, row["variance"])


@pytest.mark.parametrize("row", EXPECTED["kl"], ids=lambda row: f"{row[0]} and {row[2]} {row[4]}")
def test_divergences_are_pytorchs(row):
    first, own, second, others, expected, by = row
    parameters = {name: ag.tensor(value, requires_grad=True) for name, value in own.items()}
    q = getattr(D, second)(**{name: ag.tensor(value) for name, value in others.items()})
    found = D.kl_divergence(getattr(D, first)(**parameters), q)
    close(found, expected)
    if by is not None:
        for gradient, wanted in zip(ag.autograd.grad(found.sum(), list(parameters.values())), by, strict=True):
            close(gradient, wanted)


#: Distributions to draw from.
DRAWN = {
    "Normal": D.Normal([0.5, -1.0], [2.0, 0.3]),
    "Uniform": D.Uniform([-1.0, 0.0], [2.0, 0.5]),
    "Gamma": D.Gamma([0.5, 3.0], [2.0, 0.3]),
    "Beta": D.Beta([0.5, 3.0], [2.0, 1.5]),
    "Dirichlet": D.Dirichlet([[0.5, 1.0, 3.0], [2.0, 2.0, 4.0]]),
    "Bernoulli": D.Bernoulli([0.2, 0.9]),
    "MultivariateNormal": D.MultivariateNormal([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_draws_have_the_mean_and_the_variance(name):
    ag.manual_seed(0)
    made = DRAWN[name]
    drawn = made.sample((20000,))
    assert not drawn.requires_grad
    assert drawn.shape == (20000, *made.batch_shape, *made.event_shape)
    assert made.log_prob(drawn).shape == (20000, *made.batch_shape)  # and all lie in the support
    spread = made.stddev.numpy()
    np.testing.assert_array_less(np.abs(drawn.numpy().mean(0) - made.mean.numpy()), 5 * spread / math.sqrt(20000))
    np.testing.assert_allclose(drawn.numpy().var(0), made.variance.numpy(), rtol=0.1)


def test_draws_of_indices():
    ag.manual_seed(0)
    made = D.Categorical([[0.5, 0.0, 0.5], [0.0, 0.25, 0.75]])
    drawn = made.sample((20000,))
    assert drawn.dtype == ag.int64
    frequencies = np.stack([(drawn.numpy() == k).mean(0) for k in range(3)], axis=-1)
    np.testing.assert_allclose(frequencies, made.probs.numpy(), atol=0.02)
    assert frequencies[0, 1] == frequencies[1, 0] == 0
    assert made.mode.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda a, b: D.Normal(a, b), (0.5, 2.0)),
        (lambda a, b: D.Uniform(a, b), (0.5, 2.0)),
        (lambda a, b: D.Gamma(a, b), (0.5, 2.0)),
        (lambda a, b: D.Gamma(a, b), (7.0, 0.3)),
        (lambda a, b: D.Beta(a, b), (1.5, 2.0)),
        (lambda a, b: D.Dirichlet(ag.stack([a, b, a])), (1.5, 2.0)),
        (lambda a, b: D.MultivariateNormal(ag.stack([a, b]), ag.eye(2) * b), (1.5, 2.0)),
    ],
)
def test_derivatives_of_draws_are_those_of_the_same_draw(make, values):
    def draw(a, b):
        ag.manual_seed(3)
        return make(a, b).rsample((3,))

    ag.autograd.gradcheck(draw, tuple(ag.tensor(value, requires_grad=True) for value in values))


def test_derivatives_of_draws_give_derivatives_of_means():
    ag.manual_seed(0)
    a, b = (ag.tensor(value, requires_grad=True) for value in (3.0, 2.0))
    drawn = D.Beta(a, b).rsample((20000,))
    found = ag.autograd.grad(drawn.mean(), [a, b])
    expected = ag.autograd.grad(a / (a + b), [a, b])
    np.testing.assert_allclose([g.item() for g in found], [g.item() for g in expected], rtol=0.05)


def test_distribution_functions():
    for made, at in ((D.Normal(1.0, 2.0), 0.3), (D.Uniform(0.0, 4.0), 1.0)):
        assert made.icdf(made.cdf(at)).item() == pytest.approx(at)
    assert D.Gamma(1.0, 2.0).cdf(0.5).item() == pytest.approx(1 - math.exp(-1))
    assert D.Normal(0.0, 1.0).perplexity().item() == pytest.approx(math.sqrt(2 * math.pi * math.e))


#: Those of PyTorch's of which draws have derivatives.
REPARAMETRIZED = [
    "Beta",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MultivariateNormal",
    "Normal",
    "OneHotCategoricalStraightThrough",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "Uniform",
    "Wishart",
]


def test_which_draws_have_derivatives_is_pytorchs():
    kinds = {
        name: kind for name, kind in vars(D).items() if isinstance(kind, type) and issubclass(kind, D.Distribution)
    }
    assert len(kinds) > 5
    for name, kind in kinds.items():
        assert kind.has_rsample == (name in REPARAMETRIZED), name


def test_a_distribution_of_ones_own():
    """Shapes are tuples, however a subclass gives them."""

    class Die(D.Distribution):
        arg_constraints: ClassVar = {}

        def __init__(self):
            super().__init__([2], [3, 4])

    assert (Die().batch_shape, Die().event_shape) == ((2,), (3, 4))


def test_matrices_of_a_normal_distribution():
    matrix = [[2.0, 0.5], [0.5, 1.0]]
    made = D.MultivariateNormal(ag.zeros(2), matrix)
    np.testing.assert_allclose(made.precision_matrix.numpy(), np.linalg.inv(matrix))
    np.testing.assert_allclose(made.scale_tril.numpy(), np.linalg.cholesky(matrix))
    again = D.MultivariateNormal(ag.zeros(2), precision_matrix=made.precision_matrix)
    np.testing.assert_allclose(again.covariance_matrix.numpy(), matrix)


def test_in_transforms_and_in_float32():
    assert ag.vmap(lambda m: D.Normal(m, 1.0).log_prob(0.0))(ag.tensor([0.0, 1.0])).tolist() == pytest.approx(
        [-0.9189385, -1.4189385]
    )
    step = ag.compile(lambda m: D.Normal(m, 1.0).log_prob(0.0))
    assert step(ag.tensor(1.0)).item() == step(ag.tensor(1.0)).item() == pytest.approx(-1.4189385)
    narrow = ag.tensor([0.5, 2.0], dtype=ag.float32)
    for made in (D.Normal(narrow, 1.0), D.Gamma(narrow, 1.0), D.Bernoulli(logits=narrow), D.Dirichlet(narrow)):
        assert made.log_prob(made.sample()).dtype == ag.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: D.Normal(0.0, -1.0),
            (
                "Expected parameter scale (Tensor of shape ()) of distribution Normal(loc: 0.0, scale: -1.0) to satisfy the"
                " constraint GreaterThan(lower_bound=0.0), but found invalid values:\n-1.0"
            ),
        ),
        (
            lambda: D.Normal(0.0, 1.0).log_prob(math.nan),
            (
                "Expected value argument (Tensor of shape ()) to be within the support (Real()) of the distribution"
                " Normal(loc: 0.0, scale: 1.0), but found invalid values:\nnan"
            ),
        ),
        (lambda: D.Uniform(1.0, 0.0), "the constraint LessThan(upper_bound=0.0), but found invalid values:\n1.0"),
        (
            lambda: D.Uniform(0.0, 1.0).log_prob(2.0),
            "to be within the support (Interval(lower_bound=0.0, upper_bound=1.0)) of the distribution",
        ),
        (lambda: D.Bernoulli(), "Either `probs` or `logits` must be specified, but not both."),
        (lambda: D.Categorical([[1.5, -0.5]]), "to satisfy the constraint Simplex(), but found invalid values:"),
        (lambda: D.Categorical(0.5), "`probs` parameter must be at least one-dimensional."),
        (
            lambda: D.Categorical([0.5, 0.5]).log_prob(2),
            "to be within the support (IntegerInterval(lower_bound=0, upper_bound=1)) of the distribution",
        ),
        (lambda: D.Gamma([1.0, 0.0], 1.0), "Expected parameter concentration (Tensor of shape (2,))"),
        (lambda: D.Dirichlet(1.0), "`concentration` parameter must be at least one-dimensional."),
        (
            lambda: D.MultivariateNormal(ag.zeros(2)),
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
        ),
        (lambda: D.MultivariateNormal(ag.zeros(2), [[1.0, 2.0], [0.0, 1.0]]), "the constraint PositiveDefinite()"),
    ],
)
def test_wrong_parameters_and_values_are_refused_in_pytorchs_words(call, message):
    with pytest.raises(ValueError) as raised:
        call()
    assert message in str(raised.value)


def test_what_is_not_there_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"Bernoulli.rsample\(\) is not supported: its draws are integers"):
        D.Bernoulli(0.5).rsample()
    with pytest.raises(
        NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type Normal and q type Bernoulli"
    ):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Bernoulli(0.5))
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    assert repr(D.Normal([0.0, 1.0], 1.0)) == "Normal(loc: (2,), scale: (2,))"
