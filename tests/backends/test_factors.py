"""A lazy number that multiplies a whole gradient on Dask: one pass, what eager NumPy gives, and where it takes two."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest

import agrad as ag

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
agrad_dask = pytest.importorskip("agrad_dask")
factors = pytest.importorskip("agrad_dask.factors")

RNG = np.random.default_rng(0)
ROWS, CHUNKS = 4, 12
X = RNG.normal(size=(ROWS * CHUNKS, 5))
X[RNG.uniform(size=X.shape) < 0.2] = np.nan
W, AREAS = RNG.normal(size=5), RNG.uniform(0.5, 2.0, size=5)


class Store:
    """Counts how often each chunk is read."""

    def __init__(self, values):
        self.values, self.reads, self.lock = values, Counter(), threading.Lock()
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __getitem__(self, key):
        with self.lock:
            self.reads[key[0].start] += 1
        return self.values[key]

    def array(self):
        return ag.asarray(da.from_array(self, chunks=(ROWS, -1), name=False, meta=self.values[:0]))

    @property
    def passes(self):
        """How often every chunk was read."""
        assert len(self.reads) == CHUNKS
        (found,) = set(self.reads.values())
        return found


def errors(w, x):
    return ag.where(ag.isnan(x), 0.0, (ag.where(ag.isnan(x), 0.0, x) * w - 1.0) ** 2)


def count(x):
    return ag.sum(ag.astype(~ag.isnan(x), x.dtype))


def mean_of_valid(w, x):
    return ag.sum(errors(w, x)) / count(x)


def nanmean(w, x):
    return ag.numpy.nanmean((x * w - 1.0) ** 2)


def weighted(w, x):
    areas = ag.asarray(AREAS, dtype=x.dtype)
    by_column = ag.sum(errors(w, x) * areas, axis=0)
    return ag.sum(by_column) / ag.sum(ag.where(ag.isnan(x), 0.0, areas))


def root_mean_square(w, x):
    return ag.sqrt(mean_of_valid(w, x))


def logarithm(w, x):
    return ag.log(ag.sum(errors(w, x), keepdims=True))[0, 0] * 3.0


def two_uses(w, x):
    error = ag.where(ag.isnan(x), 0.0, x) * w - 1.0
    return ag.sum(ag.where(ag.isnan(x), 0.0, error**2 + ag.abs(error))) / count(x) + ag.sum(w**2)


ONE_PASS = [mean_of_valid, nanmean, weighted, root_mean_square, logarithm, two_uses]


def eager(loss, x=X, w=W):
    parameter = ag.tensor(w, requires_grad=True)
    value = loss(parameter, ag.asarray(x))
    value.backward()
    return value.item(), parameter.grad.numpy()


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", ONE_PASS)
def test_the_data_are_read_once_for_what_numpy_gives(loss, dtype, lazily):
    x, w = X.astype(dtype), W.astype(dtype)
    store = Store(x)
    parameter = ag.tensor(w).to_device("dask") if lazily else ag.tensor(w)
    value = loss(parameter.requires_grad_(), store.array())
    value.backward()
    value, gradient = (t.detach().numpy() for t in ag.compute(value, parameter.grad))
    assert store.passes == 1
    assert gradient.dtype == dtype
    expected, slope = eager(loss, x, w)
    rtol = 1e-12 if dtype == "float64" else 2e-5
    np.testing.assert_allclose(value, expected, rtol=rtol)
    np.testing.assert_allclose(gradient, slope, rtol=rtol, atol=rtol)


def test_xarray_skips_missing_values_in_one_pass():
    xr = pytest.importorskip("xarray")
    import agrad.xarray  # noqa: F401

    weights = xr.DataArray(AREAS, dims="x")
    for reduced in (
        lambda e: e.mean(),
        lambda e: e.weighted(weights).mean(),
        lambda e: e.sum() / e.notnull().sum(),
        lambda e: np.sqrt(e.mean()),
    ):
        store, w = Store(X), ag.tensor(W, requires_grad=True)
        error = (xr.DataArray(store.array(), dims=("time", "x")) * xr.DataArray(w, dims="x") - 1.0) ** 2
        reduced(error).data.backward()
        assert store.passes == 1
        v = ag.tensor(W, requires_grad=True)
        reduced((xr.DataArray(X, dims=("time", "x")) * xr.DataArray(v, dims="x") - 1.0) ** 2).data.backward()
        np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy(), rtol=1e-12)


def test_outlook_says_one_pass():
    w = ag.tensor(W, requires_grad=True)
    assert "1 pass over the data" in str(ag.explain(mean_of_valid(w, Store(X).array()), backward=True))


def two_statistics(w, x):
    """Both factors meet at the errors."""
    e = errors(w, x)
    return ag.sqrt(ag.sum(e**2)) + ag.log(ag.sum(e))


def a_field(w, x):
    """A mean over rows is subtracted: the statistic is no number that multiplies."""
    y = ag.where(ag.isnan(x), 0.0, x) * w
    return ag.sum((y - ag.mean(y, axis=0)) ** 2) / count(x)


class Clipped(ag.autograd.Function):
    """Its derivative is not linear in the cotangent."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        return ag.clip(g, -1e-3, 1e-3)


def clipped(w, x):
    return ag.sum(Clipped.apply(errors(w, x))) / count(x)


@ag.custom(name="test.shy", vjp={"x": lambda xp, g: xp.sqrt(g)}, jvp=None, kernel=lambda xp, x: xp.multiply(x, 1.0))
def shy(x, /):
    """Give the operand; no multiple of the cotangent has that multiple of the derivative."""
    raise NotImplementedError


def user_op(w, x):
    return ag.sum(shy(errors(w, x))) / count(x)


@pytest.mark.parametrize("loss", [two_statistics, a_field, clipped, user_op])
def test_what_is_no_multiple_takes_further_passes_and_is_right(loss):
    store, w = Store(X), ag.tensor(W, requires_grad=True)
    loss(w, store.array()).backward()
    assert store.passes > 1
    np.testing.assert_allclose(w.grad.numpy(), eager(loss)[1], rtol=1e-11)


def test_half_precision_keeps_the_divisor_inside():
    """Without it the sum would be infinite."""
    x, w = np.full((ROWS * CHUNKS, 5), 100.0, "float16"), np.ones(5, "float16")

    def loss(w, x):
        return ag.sum(ag.astype(x * w, "float32")) / ag.sum(ag.astype(x > 0, "float32"))

    half = lambda w, x: ag.mean((x * w) ** 2 / 8)
    for each in (loss, half):
        parameter = ag.tensor(w, requires_grad=True)
        each(parameter, Store(x).array()).backward()
        np.testing.assert_allclose(parameter.grad.numpy(), eager(each, x, w)[1], rtol=4e-3)


def nothing_valid(w, x):
    return ag.sum(ag.where(ag.isnan(x), 0.0, w * ag.where(ag.isnan(x), 0.0, x))) / count(x)


def nothing_wanted(w, x):
    """The factor is 0, and a root has an infinite derivative behind what leaves elements out."""
    roots = ag.sqrt(ag.where(ag.isnan(x), 0.0, x) * w * 0.0)
    total = ag.sum(ag.where(ag.isnan(x), 0.0, roots))
    return ag.where(count(x) < 0, total / count(x), 0.0)


def infinite(w, x):
    return ag.sum(ag.where(ag.isnan(x), 0.0, x) * w) / (count(x) * 0.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("loss", "x"), [(nothing_valid, np.full_like(X, np.nan)), (nothing_wanted, X)])
def test_a_factor_that_is_zero_or_not_finite_means_what_it_means_in_numpy(loss, x):
    store, w = Store(x), ag.tensor(W, requires_grad=True)
    loss(w, store.array()).backward()
    np.testing.assert_array_equal(w.grad.numpy(), eager(loss, x)[1])
    assert store.passes == 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_gradient_of_what_is_infinite_is_not_finite():
    w = ag.tensor(W, requires_grad=True)
    infinite(w, Store(X).array()).backward()
    assert not np.isfinite(w.grad.numpy()).any()
    assert not np.isfinite(eager(infinite)[1]).any()


def test_a_gradient_in_chunks_has_the_bits_it_had():
    x = Store(X).array().detach().requires_grad_()
    mean_of_valid(ag.asarray(W), x).backward()
    g = ag.compute(x.grad).numpy()
    y = ag.tensor(X, requires_grad=True)
    mean_of_valid(ag.asarray(W), y).backward()
    np.testing.assert_array_equal(g, y.grad.numpy())


def test_hooks_see_the_whole_cotangent_and_may_change_it():
    store, w = Store(X), ag.tensor(W, requires_grad=True)
    x = store.array()
    error = errors(w, x)
    seen = []
    error.register_hook(lambda g: seen.append(ag.compute(g).numpy()) or g * 2.0)
    (ag.sum(error) / count(x)).backward()
    np.testing.assert_allclose(seen[0], 1 / np.isfinite(X).sum(), rtol=1e-15)
    np.testing.assert_allclose(w.grad.numpy(), 2 * eager(mean_of_valid)[1], rtol=1e-12)


@pytest.mark.filterwarnings("ignore::agrad.RecomputeWarning")
def test_second_derivatives_are_those_of_numpy():
    def product(x):
        w = ag.tensor(W, requires_grad=True)
        (g,) = ag.autograd.grad(root_mean_square(w, x), w, create_graph=True)
        (h,) = ag.autograd.grad(ag.sum(g * ag.asarray(W[::-1].copy())), w)
        return h.numpy()

    np.testing.assert_allclose(product(Store(X).array()), product(ag.asarray(X)), rtol=1e-11)


def test_a_gradient_that_was_written_to_is_no_product_any_more():
    x = Store(X).array().detach().requires_grad_()
    mean_of_valid(ag.asarray(W), x).backward()
    g = x.grad._raw
    assert factors._noted(g) is not None
    g[0, 0] = 7.0
    assert factors._noted(g) is None
    assert factors._noted(g + g) is None
