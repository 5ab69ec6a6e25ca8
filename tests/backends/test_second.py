"""agrad_dask's hvp, hessian, gauss_newton and fisher: against NumPy and agrad in memory, one read per chunk, errors, a cluster."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest
from support import cluster_of

import agrad as ag
from agrad import func, tree

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
agrad_dask = pytest.importorskip("agrad_dask")

RNG = np.random.default_rng(0)
ROWS = 103
X, Y = RNG.normal(size=(ROWS, 4)), (RNG.uniform(size=ROWS) > 0.5).astype(float)
P = {"w": RNG.normal(size=4), "b": np.float64(0.3)}
V = {"w": RNG.normal(size=4), "b": np.float64(-0.7)}
MATRICES = [agrad_dask.hessian, agrad_dask.gauss_newton, agrad_dask.fisher]


@pytest.fixture(params=["synchronous", "threads"])
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield request.param


def data(*chunks):
    a, b = chunks or (10, 10)
    return da.from_array(X, chunks=(a, -1)), da.from_array(Y, chunks=b)


def logistic(p, X, y):
    z = X @ p["w"] + p["b"]
    return ag.logaddexp(0.0 * z, z) - y * z


def mean(p, X, y):
    return ag.mean(logistic(p, X, y))


def total(p, X, y):
    return ag.sum(logistic(p, X, y))


def difference(p, X, y):
    return ag.tanh(X @ p["w"] + p["b"]) - y


def probabilities():
    """The derivative of the logistic loss by its argument, by hand."""
    return 1 / (1 + np.exp(-(X @ P["w"] + P["b"])))


def with_one():
    """The rows by which all five parameters are multiplied."""
    return np.concatenate([X, np.ones((ROWS, 1))], axis=1)


def as_matrix(blocks):
    """Put the blocks of w and b together, in that order."""
    rows = [[np.reshape(blocks[i][j], (4 if i == "w" else 1, 4 if j == "w" else 1)) for j in "wb"] for i in "wb"]
    return np.block(rows)


def assert_close(found, expected, rtol=1e-11):
    assert tree.flatten(found)[1] == tree.flatten(expected)[1]
    for a, b in zip(tree.flatten(found)[0], tree.flatten(expected)[0], strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize(("loss", "reduce", "count"), [(mean, "mean", ROWS), (total, "sum", 1)])
@pytest.mark.parametrize("chunks", [(10, 10), (103, 103), ((3, 40, 60), (3, 40, 60)), (30, 7)])
def test_the_hessian_and_its_products_by_hand(loss, reduce, count, chunks):
    x, y = data(*chunks)
    s, a = probabilities(), with_one()
    expected = a.T @ (a * (s * (1 - s))[:, None]) / count
    found = agrad_dask.hessian(loss, reduce=reduce)(P, x, y)
    np.testing.assert_allclose(as_matrix(found), expected, rtol=1e-11)
    assert_close(found, func.hessian(loss)(P, X, Y))
    product = agrad_dask.hvp(loss, reduce=reduce)((P, x, y), V)
    np.testing.assert_allclose([*product["w"], product["b"]], expected @ [*V["w"], V["b"]], rtol=1e-11)
    assert_close(product, func.hvp(lambda p: loss(p, X, Y), (P,), (V,)))


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize(("loss", "reduce", "count"), [(mean, "mean", ROWS), (total, "sum", 1)])
def test_gauss_newton_and_fisher_by_hand(loss, reduce, count):
    x, y = data()
    a = with_one()
    slopes = a * (1 - np.tanh(X @ P["w"] + P["b"]) ** 2)[:, None]
    found = agrad_dask.gauss_newton(difference, reduce=reduce)(P, x, y)
    np.testing.assert_allclose(as_matrix(found), slopes.T @ slopes / count, rtol=1e-11)
    scores = a * (probabilities() - Y)[:, None]
    found = agrad_dask.fisher(loss, reduce=reduce)(P, x, y)
    np.testing.assert_allclose(as_matrix(found), scores.T @ scores / count, rtol=1e-11)


def test_gauss_newton_is_the_hessian_of_half_the_squares_of_what_is_linear():
    x, y = data()

    def residuals(w, X, y):  # two for each row
        return ag.stack([X @ w - y, 3 * (X @ w)], axis=1)

    def half(w, X, y):
        return 0.5 * ag.sum(residuals(w, X, y) ** 2)

    found = agrad_dask.gauss_newton(residuals, reduce="sum")(P["w"], x, y)
    np.testing.assert_allclose(found, agrad_dask.hessian(half, reduce="sum")(P["w"], x, y), rtol=1e-12)


def test_several_arguments_constants_keywords_and_tensors():
    x, y = data()

    def loss(a, X, b, y, *, power):
        return ag.mean((X @ a * b[0] + b[1] - y) ** power)

    a, b = P["w"], np.array([0.7, -0.2])
    vectors = (V["w"], np.array([0.5, 2.0]))
    found = agrad_dask.hessian(loss, (0, -2))(a, x, b, y, power=4)
    assert_close(found, func.hessian(loss, (0, 2))(a, X, b, Y, power=4))
    found = agrad_dask.hvp(loss, (0, -2))((a, x, b, y), vectors, power=4)
    assert_close(found, func.hvp(lambda a, b: loss(a, X, b, Y, power=4), (a, b), vectors))
    found = agrad_dask.hvp(loss, 2)((a, x, ag.asarray(b), y), vectors[1], power=4)
    assert type(found) is ag.Tensor
    assert not found.requires_grad
    np.testing.assert_allclose(
        found.numpy(), func.hvp(lambda b: loss(a, X, b, Y, power=4), (b,), vectors[1:]), rtol=1e-11
    )
    blocks = agrad_dask.hessian(loss, (0, 2))(a, x, ag.asarray(b), y, power=4)
    assert {type(block) for block in tree.flatten(blocks)[0]} == {ag.Tensor}
    found = agrad_dask.fisher(loss, 2)(a, x, b, y, power=4)
    each = func.vmap(lambda x, y: func.grad(loss, 2)(a, x[None], b, y[None], power=4))(X, Y)
    np.testing.assert_allclose(found, each.T @ each / ROWS, rtol=1e-11)


def test_a_parameter_that_nothing_depends_on_has_zeros():
    x, y = data()

    def loss(w, unused, X, y):
        return ag.mean((X @ w - y) ** 2)

    (_, across), (_, own) = agrad_dask.hessian(loss, (0, 1))(P["w"], np.ones(2), x, y)
    assert (across.shape, own.shape, across.any(), own.any()) == ((4, 2), (2, 2), False, False)
    product = agrad_dask.hvp(loss, (0, 1))((P["w"], np.ones(2), x, y), (V["w"], np.ones(2)))
    np.testing.assert_allclose(product[0], 2 * X.T @ (X @ V["w"]) / ROWS, rtol=1e-11)
    np.testing.assert_array_equal(product[1], np.zeros(2))


def test_dtypes_stay():
    x, y = da.from_array(X.astype("f4"), chunks=(10, -1)), da.from_array(Y.astype("f4"), chunks=10)
    p, v = P["w"].astype("f4"), V["w"].astype("f4")

    def loss(w, X, y):
        return ag.mean((X @ w - y) ** 4)

    for found in (
        agrad_dask.hessian(loss)(p, x, y),
        agrad_dask.hvp(loss)((p, x, y), v),
        agrad_dask.fisher(loss)(p, x, y),
        agrad_dask.gauss_newton(lambda w, X, y: X @ w - y)(p, x, y),
    ):
        assert found.dtype == np.float32


def test_every_chunk_is_read_once():
    reads, lock = Counter(), threading.Lock()

    class Store:
        shape, dtype, ndim = X.shape, X.dtype, 2

        def __getitem__(self, key):
            with lock:
                reads[key[0].start] += 1
            return X[key]

    x, y = da.from_array(Store(), chunks=(10, -1), name=False), data()[1]
    product = agrad_dask.hvp(mean)
    for compute in (
        lambda: product((P, x, y), V),
        lambda: product((P, x, y), {"w": V["w"] + 1, "b": V["b"]}),
        lambda: agrad_dask.hessian(mean)(P, x, y),
        lambda: agrad_dask.fisher(mean)(P, x, y),
        lambda: agrad_dask.gauss_newton(difference)(P, x, y),
    ):
        reads.clear()
        compute()
        assert reads == dict.fromkeys(range(0, ROWS, 10), 1)


def test_one_program_serves_every_vector_and_point():
    x, y = data(10, 10)
    calls = []

    def loss(p, X, y):
        calls.append(X.shape[0])
        return mean(p, X, y)

    with pytest.warns(ag.func.CompileWarning, match=r"agrad_dask\.hvp runs the loss loss"):
        agrad_dask.hvp(loss)((P, x, y), V)  # it changes a list
    product = agrad_dask.hvp(mean)
    for k in range(5):
        p, v = {"w": P["w"] + k, "b": P["b"]}, {"w": V["w"] * k, "b": V["b"]}
        assert_close(product((p, x, y), v), func.hvp(lambda p: mean(p, X, Y), (p,), (v,)))


@pytest.mark.parametrize("capture", [True, False])
def test_a_program_gives_the_bits_of_the_function_at_every_call(capture):
    x, y = data()
    product = agrad_dask.hvp(mean, capture=capture)
    first = product((P, x, y), V)
    for _ in range(4):
        assert_close(product((P, x, y), V), first, rtol=0)
    assert_close(agrad_dask.hvp(mean)((P, x, y), V), first, rtol=1e-14)


@pytest.mark.parametrize("make", [agrad_dask.hvp, agrad_dask.hessian, agrad_dask.fisher])
def test_a_loss_that_does_not_add_up_is_refused(make):
    x, y = data()

    def rms(p, X, y):
        return ag.sqrt(ag.mean(logistic(p, X, y) ** 2))

    arguments = ((P, x, y), V) if make is agrad_dask.hvp else (P, x, y)
    with pytest.raises(ValueError, match="not the mean of the losses of their parts"):
        make(rms)(*arguments)
    with pytest.raises(ValueError, match='pass reduce="mean"'):
        make(mean, reduce="sum")(*arguments)
    with pytest.raises(ValueError, match='reduce is "mean" or "sum"'):
        make(mean, reduce="max")


def test_residuals_that_know_of_other_rows_are_refused():
    x, y = data()
    with pytest.raises(ValueError, match="not the mean of the losses of their parts"):
        agrad_dask.gauss_newton(lambda p, X, y: difference(p, X, y) / ag.std(X))(P, x, y)


@pytest.mark.parametrize("make", MATRICES)
def test_too_many_parameters_for_a_matrix(make):
    x = da.ones((10, 2000), chunks=(5, -1))
    with pytest.raises(
        ValueError, match=r"of 2000 parameters is a matrix of 2000 x 2000 \(30\.52 MiB(.|\n)*agrad_dask\.hvp"
    ):
        make(lambda w, X: ag.mean((X @ w) ** 2))(np.zeros(2000), x)
    found = agrad_dask.hvp(lambda w, X: ag.mean((X @ w) ** 2))((np.zeros(2000), x), np.ones(2000))
    np.testing.assert_allclose(found, 2 * 2000)


def test_what_is_no_vector_is_refused():
    x, y = data()
    product = agrad_dask.hvp(mean)
    with pytest.raises(TypeError, match="Expected primals to be a tuple"):
        product([P, x, y], V)
    with pytest.raises(RuntimeError, match="to have the structure of the parameters"):
        product((P, x, y), V["w"])
    with pytest.raises(RuntimeError, match=r"tangent 1 has shape \(3,\), its parameter \(4,\)"):
        product((P, x, y), {"b": V["b"], "w": V["w"][:3]})
    with pytest.raises(TypeError, match="the vector is a Dask array"):
        product((P, x, y), {"b": V["b"], "w": da.ones(4)})
    with pytest.raises(ValueError, match=r"no argument is a Dask array; in memory, agrad\.func\.hvp does the same"):
        product((P, X, Y), V)
    with pytest.raises(TypeError, match="a parameter is a Dask array"):
        agrad_dask.hessian(lambda w, X: ag.mean(X @ w))(da.ones(4), x)
    with pytest.raises(RuntimeError, match=r"agrad_dask\.hvp cannot be differentiated"):
        ag.grad(lambda b: product((P, x, y), {"w": V["w"], "b": b})["b"])(V["b"])


@pytest.mark.parametrize("make", MATRICES)
def test_what_returns_something_else_is_refused(make):
    x, y = data()
    wrong = {agrad_dask.gauss_newton: ("0-d tensor", mean), None: ("must return a scalar", logistic)}
    said, function = wrong.get(make, wrong[None])
    with pytest.raises(RuntimeError, match=said):
        make(function)(P, x, y)


@pytest.fixture(scope="module")
def workers():
    pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.worker.daemon": True, "distributed.admin.log-length": 0}),
        cluster_of(n_workers=2) as made,
    ):
        yield made


@pytest.fixture
def cluster(workers):
    """Give a client, which is the default one, where Dask computes, until the test ends."""
    import distributed

    with distributed.Client(workers) as client:
        yield client


def test_a_cluster_gives_the_bits_that_threads_give(cluster):
    x, y = data()
    calls = [
        lambda: agrad_dask.hvp(mean)((P, x, y), V),
        lambda: agrad_dask.hessian(mean)(P, x, y),
        lambda: agrad_dask.gauss_newton(difference)(P, x, y),
        lambda: agrad_dask.fisher(mean)(P, x, y),
    ]
    with dask.config.set(scheduler="threads"):
        expected = [call() for call in calls]
    with cluster.as_current():
        for call, bits in zip(calls, expected, strict=True):
            assert_close(call(), bits, rtol=0)
        with pytest.raises(TypeError) as raised:
            agrad_dask.hvp(mean)((P, x.map_blocks(lambda b: b[:, :3], dtype=float), y), V)
    assert "agrad_dask.hvp runs once per chunk" in "".join(raised.value.__notes__)
