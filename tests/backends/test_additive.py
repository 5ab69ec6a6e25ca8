"""`agrad_dask.value_and_grad` refuses a loss that does not add up over rows, wherever it starts, and no other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import agrad as ag
from agrad.nn import functional as F

da = pytest.importorskip("dask.array")
agrad_dask = pytest.importorskip("agrad_dask")

RNG = np.random.default_rng(0)
ROWS = 600
X = RNG.normal(size=(ROWS, 4))
TRUTH = np.array([1.0, -2.0, 0.5, 0.0])
Y = X @ TRUTH + 0.1 * RNG.normal(size=ROWS)
LABELS = (Y > 0).astype(np.int64)
COUNTS = RNG.poisson(np.exp(0.3 * X @ TRUTH))
WEIGHTS = RNG.uniform(0.5, 2.0, size=ROWS)
ZEROS = np.zeros(4)


@pytest.fixture(autouse=True)
def on_dask(dask_backend):
    """Tasks run one after another."""


def chunked(*arrays, dtype=None):
    cast = [a if dtype is None or a.dtype.kind != "f" else a.astype(dtype) for a in arrays]
    return [da.from_array(a, chunks=(100, *a.shape[1:])) for a in cast]


NOT_ADDING_UP = {
    "standard deviation": lambda w, X, y: ag.std(X @ w),
    "variance": lambda w, X, y: ag.var(X @ w),
    "maximum": lambda w, X, y: ag.max(X @ w),
    "minimum": lambda w, X, y: ag.min(ag.abs(X @ w)),
    "root mean square": lambda w, X, y: ag.sqrt(ag.mean((X @ w) ** 2)),
    "log of a sum of exponentials": lambda w, X, y: (X @ w).logsumexp(0),
    "product of means": lambda w, X, y: ag.mean(X @ w) * ag.mean(X[:, 0] * y),
    "square of a mean": lambda w, X, y: ag.mean(X @ w) ** 2,
    "softmax over the rows": lambda w, X, y: ag.sum(F.softmax(X @ w, dim=0) * ag.sum(X, axis=1)),
    "median": lambda w, X, y: ag.median(X @ w),
    "product": lambda w, X, y: ag.prod(1 + ag.tanh(X @ w)),
    "differences of neighbours": lambda w, X, y: ag.mean(ag.diff(X @ w) ** 2),
    "correlation": lambda w, X, y: -ag.sum((X @ w) * y) / ag.sqrt(ag.sum((X @ w) ** 2) + 1e-3),
    "a little of it": lambda w, X, y: ag.mean(ag.abs(X @ w)) + 3e-2 * ag.std(X @ w),
    "beyond a threshold": lambda w, X, y: ag.mean(F.relu(ag.max(X @ w) - 0.01)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("loss", NOT_ADDING_UP.values(), ids=NOT_ADDING_UP)
def test_refused_at_zeros(loss, reduce, dtype):
    step = agrad_dask.value_and_grad(loss, reduce=reduce)
    for _ in range(2):  # nor is it passed the second time
        with pytest.raises(ValueError, match=rf"loss of all rows is not the {reduce} .*(?s:.*)after=agrad.sqrt"):
            step(ZEROS.astype(dtype), *chunked(X, Y, dtype=dtype))


def test_what_adds_up_at_the_parameters_given_only_is_said_so():
    with pytest.raises(ValueError, match="near the parameters given if not at these themselves"):
        agrad_dask.value_and_grad(NOT_ADDING_UP["standard deviation"])(ZEROS, *chunked(X, Y))
    with pytest.raises(ValueError, match="is not the mean") as info:
        agrad_dask.value_and_grad(NOT_ADDING_UP["standard deviation"])(TRUTH, *chunked(X, Y))
    assert "near" not in str(info.value)


@pytest.mark.parametrize(
    "parameters", [lambda w: [w], lambda w: {"a": {"w": w}}, lambda w: w], ids=["list", "dict", "array"]
)
def test_refused_in_containers_too(parameters):
    def loss(p, X):
        w = p if not isinstance(p, list | dict) else p[0] if isinstance(p, list) else p["a"]["w"]
        return ag.std(X @ w)

    with pytest.raises(ValueError, match="is not the mean"):
        agrad_dask.value_and_grad(loss)(parameters(ZEROS), *chunked(X))


def test_refused_at_a_later_call():
    """What comes in only far from where the caller started is seen when the parameters have moved."""

    def loss(w, X, y):
        far = ag.sum(w**2) > 100.0
        return ag.mean((X @ w - y) ** 2) + ag.where(far, ag.std(X @ w), 0.0)

    step = agrad_dask.value_and_grad(loss)
    data = chunked(X, Y)
    step(ZEROS, *data)
    with pytest.raises(ValueError, match="is not the mean"):
        step(ZEROS + 30.0, *data)

    step = agrad_dask.value_and_grad(loss)
    for _ in range(3):
        step(ZEROS, *data)
    with pytest.raises(ValueError, match="is not the mean"):
        step(ZEROS + 30.0, *data)


def test_refused_where_the_first_rows_are_alike():
    for rows in (np.sort(np.repeat([0.0, 1.0], ROWS // 2)), np.r_[np.zeros(50), np.ones(ROWS - 50)]):
        x = da.from_array(rows, chunks=200)
        with pytest.raises(ValueError, match="is not the mean"):
            agrad_dask.value_and_grad(lambda w, x: ag.std(x * w))(1.0, x[np.argsort(rows)])


def test_refused_where_the_first_chunks_are_short_or_of_unknown_sizes():
    def loss(w, x):
        return ag.std(x * w), None

    step = agrad_dask.value_and_grad(loss, has_aux=True)  # one run per chunk
    with pytest.raises(ValueError, match="is not the mean"):
        step(0.0, da.from_array(Y, chunks=((1, 1, 298, 300),)))
    with pytest.raises(ValueError, match="is not the mean"):
        step(0.0, da.from_array(Y[:4], chunks=2))
    x = da.from_array(Y, chunks=100)
    rows = da.from_array(np.arange(ROWS), chunks=100)
    with pytest.raises(ValueError, match="is not the mean"):
        step(0.0, x[rows >= 150])


def mlp(p, X, y):
    hidden = F.relu(X @ p["first"] + p["bias"])
    return ag.mean((hidden @ p["second"] - y) ** 2)


def gaussian(p, X, y):
    return ag.mean(0.5 * ((X @ p[0] - y) / p[1]) ** 2 + ag.log(p[1]))


ADDING_UP = {
    "logistic": (lambda w, X, y: ag.mean(F.softplus(X @ w) - y * (X @ w)), ZEROS, (X, LABELS)),
    "logistic of probabilities": (
        lambda w, X, y: F.binary_cross_entropy(ag.sigmoid(X @ w), ag.astype(y, X.dtype)),
        ZEROS,
        (X, LABELS),
    ),
    "cross entropy": (lambda w, X, y: F.cross_entropy(X @ w, y), np.zeros((4, 2)), (X, LABELS)),
    "Poisson": (lambda w, X, y: ag.mean(ag.exp(X @ w) - y * (X @ w)), ZEROS, (X, COUNTS)),
    "Poisson, large features": (
        lambda w, X, y: ag.mean(ag.exp(X @ w) - y * (X @ w)),
        ZEROS,
        (1e4 * X, COUNTS),
    ),
    "quantile": (lambda w, X, y: ag.mean(ag.maximum(0.9 * (y - X @ w), -0.1 * (y - X @ w))), ZEROS, (X, Y)),
    "hinge": (lambda w, X, y: ag.mean(F.relu(1 - (2 * y - 1) * (X @ w))), ZEROS, (X, LABELS)),
    "perceptron on zeros": (lambda w, X, y: ag.mean(F.relu(-(2 * y - 1) * (X @ w))), ZEROS, (X, LABELS)),
    "network": (
        mlp,
        {
            "first": RNG.normal(size=(4, 8)),
            "bias": np.zeros(8),
            "second": np.zeros(8),
        },
        (X, Y),
    ),
    "scale of a normal distribution": (gaussian, [ZEROS, 0.1], (X, Y)),
    "logarithm of the predictions": (
        lambda w, X, y: ag.mean((ag.log(ag.abs(X) @ w) - y) ** 2),
        np.ones(4),
        (X, Y),
    ),
    "defined for parameters of one sign": (
        lambda w, X, y: ag.mean((X @ ag.sqrt(w + 1e-30) - y) ** 2),
        np.array([0.0, 1.0, 0.0, 0.0]),
        (X, Y),
    ),
    "of one sign, not differentiable at zero": (lambda w, X, y: ag.mean(ag.pow(ag.abs(X), w[0])), ZEROS, (X, Y)),
    "not finite where it starts": (lambda w, X, y: ag.mean(ag.log(ag.abs(X @ w))), ZEROS, (X, Y)),
    "constant zero": (lambda w, X, y: ag.mean(0.0 * (X @ w)), ZEROS, (X, Y)),
    "penalty": (lambda w, X, y: ag.mean((X @ w - y) ** 2) + 10.0 * ag.sum(ag.abs(w)), ZEROS, (X, Y)),
    "difference of large sums": (
        lambda w, X, y: ag.mean(1e3 * (10 + X @ w) + y) - ag.mean(1e3 * (10 + X @ w)),
        ZEROS,
        (X, Y),
    ),
    "softmax within the rows": (lambda w, X, y: ag.mean((X * w).logsumexp(1)), ZEROS, (X, Y)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ADDING_UP)
def test_passed(name, dtype):
    loss, parameters, data = ADDING_UP[name]
    parameters = ag.tree.map(lambda p: np.asarray(p, dtype), parameters)
    x, y = chunked(*data, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if name != "not finite where it starts" else "ignore")
        step = agrad_dask.value_and_grad(loss)
        for _ in range(4):
            value, gradient = step(parameters, x, y)
            parameters = ag.tree.map(lambda p, g: p - np.asarray(1e-9 * g, dtype), parameters, gradient)
    if name != "not finite where it starts":
        assert np.isfinite(value.item())


def test_sums_pass():
    for seed in range(5):
        w = 10.0 ** np.random.default_rng(seed).integers(-3, 4) * np.random.default_rng(seed).normal(size=4)
        for dtype in ("float64", "float32"):
            step = agrad_dask.value_and_grad(lambda w, X, y: ag.sum((X @ w - y) ** 3), reduce="sum")
            step(w.astype(dtype), *chunked(X, Y, dtype=dtype))


def test_half_precision_passes():
    def loss(w, x):
        return ag.mean(ag.tanh(x * w))

    value, _ = agrad_dask.value_and_grad(loss)(np.float16(0.3), da.from_array(Y.astype(np.float16), chunks=100))
    np.testing.assert_allclose(value.item(), np.mean(np.tanh(0.3 * Y)), atol=1e-2)


def test_single_precision_on_the_way_to_double_passes():
    def loss(w, X, y):
        return ag.mean(ag.astype(ag.astype(X @ w, ag.float32) * 1e3 - 1e3 * y, ag.float64)) + 0.0 * ag.sum(w)

    agrad_dask.value_and_grad(loss)(TRUTH, *chunked(X, Y))


def test_complex_parameters():
    start = np.zeros(4, complex)

    def loss(w, X, y):
        return ag.mean(ag.abs(X @ w - y) ** 2)

    value, _ = agrad_dask.value_and_grad(loss)(start, *chunked(X + 0j, Y))
    np.testing.assert_allclose(value.item(), np.mean(Y**2))
    with pytest.raises(ValueError, match="is not the mean"):
        agrad_dask.value_and_grad(lambda w, X, y: ag.std(ag.real(X @ w)))(start, *chunked(X + 0j, Y))


def test_weighted_means_with_what_comes_after():
    """A mean by weights, of which the total is known, and a root mean square."""
    x, y, weights = chunked(X, Y, WEIGHTS)

    def loss(w, X, y, weights):
        return ag.sum(weights * (X @ w - y) ** 2)

    step = agrad_dask.value_and_grad(loss, reduce="sum", after=lambda s: ag.sqrt(s / WEIGHTS.sum()))
    value, gradient = step(ZEROS, x, y, weights)
    expected = np.sqrt(np.sum(WEIGHTS * Y**2) / WEIGHTS.sum())
    np.testing.assert_allclose(value.item(), expected)
    np.testing.assert_allclose(gradient, -(WEIGHTS * Y) @ X / WEIGHTS.sum() / expected)
    with pytest.raises(ValueError, match="is not the mean"):
        agrad_dask.value_and_grad(lambda w, X, y, v: ag.sum(v * (X @ w - y) ** 2) / ag.sum(v))(ZEROS, x, y, weights)


def test_random_numbers_in_the_loss_pass():
    ag.manual_seed(0)
    step = agrad_dask.value_and_grad(lambda w, X, y: ag.mean((F.dropout(X, 0.5) @ w - y) ** 2))
    other = np.random.default_rng(0)
    noisy = agrad_dask.value_and_grad(
        lambda w, X, y: ag.mean((X @ w - y) ** 2) * other.uniform(0.5, 1.5), capture=False
    )
    for _ in range(4):
        step(ZEROS, *chunked(X, Y))
        noisy(ZEROS, *chunked(X, Y))


def test_an_error_away_from_the_parameters_is_none():
    """A loss may refuse parameters that the caller never gave."""

    def loss(w, X, y):
        if not np.all(w.detach().numpy() == 0):
            raise ArithmeticError("only zeros, please")
        return ag.mean((X @ w - y) ** 2)

    with pytest.warns(ag.func.CompileWarning, match="uncompiled in every chunk"):
        value, _ = agrad_dask.value_and_grad(loss)(ZEROS, *chunked(X, Y))
    np.testing.assert_allclose(value.item(), np.mean(Y**2))


def test_an_error_at_the_parameters_given_is_one():
    def loss(w, X, y):
        if len(y) == 16:
            raise ArithmeticError("no 16 rows, please")
        return ag.mean((X @ w - y) ** 2)

    with pytest.raises(ArithmeticError, match="no 16 rows") as info:
        agrad_dask.value_and_grad(loss)(ZEROS, *chunked(X, Y))
    assert any("check=False" in note for note in info.value.__notes__)


def test_losses_that_count():
    value, _ = agrad_dask.value_and_grad(lambda w, y: ag.sum(y), reduce="sum")(1.0, da.from_array(LABELS, chunks=100))
    assert value.item() == LABELS.sum()


def test_rows_as_large_as_images_are_checked_two_at_a_time():
    """The check runs in the task, beside the chunk: it must not hold more than a run."""
    images = np.arange(4.0).repeat(2**18).reshape(4, 2**18)
    from agrad_dask import additive

    assert [len(rows) for rows in additive.sampled([images], 1)] == [2]
    assert [len(rows) for rows in additive.sampled([X, Y], 1)] == [6, 6]
    assert [len(rows) for rows in additive.sampled([X, Y], 0)] == [48, 48]
    with pytest.raises(ValueError, match="the loss of all rows is not the mean of the losses of their parts"):
        agrad_dask.value_and_grad(lambda w, x: ag.max(ag.mean(x, axis=1)) * w)(
            1.0, da.from_array(images, chunks=(4, -1))
        )
    value, by_w = agrad_dask.value_and_grad(lambda w, x: ag.mean(x) * w)(1.0, da.from_array(images, chunks=(2, -1)))
    assert (value, by_w) == (1.5, 1.5)
