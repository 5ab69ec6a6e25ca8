"""The ways to the table: methods, bound namespaces, ``out=``, arrays of several libraries, writes through views."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp

X = np.random.default_rng(0).normal(size=(3, 4))
V = np.arange(12.0)

METHODS = {
    "astype": lambda x: x.astype("float32"),
    "copy": lambda x: x.copy(),
    "conjugate": lambda x: x.conjugate(),
    "take": lambda x: x.take([0, 5, -1]),
    "take along": lambda x: x.take([2, 0], axis=1),
    "compress": lambda x: x.compress([True, False, True], axis=0),
    "choose": lambda x: (x > 0).astype("int64").choose([x, -x]),
    "transpose": lambda x: x.reshape(3, 2, 2).transpose(2, 0, 1),
    "transpose all": lambda x: x.reshape(3, 2, 2).transpose(),
    "std": lambda x: x.std(axis=0, ddof=1),
    "var": lambda x: x.var(ddof=1),
    "argsort": lambda x: x.argsort(axis=0),
    "diagonal": lambda x: x.reshape(3, 2, 2).diagonal(axis1=1, axis2=2),
    "searchsorted": lambda x: x.reshape(-1)[:0].searchsorted(1.0) + 0 * x,
    "itemsize": lambda x: x.itemsize + 0 * x,
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_ndarrays(name):
    expected, found = METHODS[name](X), METHODS[name](ag.asarray(X))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert found.dtype == expected.dtype


def test_methods_that_change_the_tensor():
    x, array = ag.asarray(X) * 1, X.copy()
    for each in (x, array):
        each.put([0, 5], [7.0, 8.0])
    np.testing.assert_array_equal(x.numpy(), array)
    x.fill(2.0)
    assert x.tolist() == np.full((3, 4), 2.0).tolist()
    with pytest.raises(RuntimeError, match="requires grad"):
        (x * ag.tensor(1.0, requires_grad=True)).tobytes()
    assert x.tobytes() == np.full((3, 4), 2.0).tobytes()
    with pytest.raises(TypeError, match="Cannot cast array data"):
        x.astype("int64", casting="safe")


@pytest.mark.parametrize("backend", ["numpy", "dask"])
def test_namespaces_have_numpys_names(backend):
    xp = ag.namespace(backend)
    x = xp.asarray(X)
    np.testing.assert_allclose(xp.pad(x, 1, mode="edge").numpy(), np.pad(X, 1, mode="edge"))
    np.testing.assert_allclose(xp.gradient(x, axis=0).numpy(), np.gradient(X, axis=0))
    np.testing.assert_allclose(xp.nanmean(x).numpy(), np.nanmean(X))
    np.testing.assert_allclose(xp.std(x, axis=0, ddof=1).numpy(), np.std(X, axis=0, ddof=1))
    for name in ("savez", "identity", "errstate", "nonsense"):
        assert not hasattr(xp, name)


def test_out_takes_the_history():
    x = ag.asarray(V).requires_grad_()
    out = ag.zeros(12)
    assert np.multiply(x, 2.0, out=out) is out
    total = ag.zeros(())
    assert np.sum(out * out, out=total) is total
    total.backward()
    np.testing.assert_allclose(x.grad.numpy(), 8 * V)
    with pytest.raises(TypeError, match=r"out= takes a tensor, not ndarray: write y = f\(x\)"):
        np.sum(x, out=np.zeros(()))
    with pytest.raises(ValueError, match="wrong shape"):
        np.sum(x, out=ag.zeros(2))
    with pytest.raises(RuntimeError, match="can't be cast"):
        np.sum(x, out=ag.zeros((), dtype="int64"))
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        np.add(x, x, out=x)


def test_arrays_are_written_to_where_nothing_is_followed():
    w = same = np.array([1.0, 2.0, 3.0])
    v, g = np.array([4.0, 1.0, 9.0]), np.array([2.0, 4.0, 6.0])
    w -= 0.1 * g / (anp.sqrt(v) + 1e-8)
    w *= anp.mean(v)
    assert w is same
    np.testing.assert_array_equal(w, (np.array([1.0, 2.0, 3.0]) - 0.1 * g / (np.sqrt(v) + 1e-8)) * np.mean(v))
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(anp.log(g, where=mask, out=np.zeros(3)), np.log(g, where=mask, out=np.zeros(3)))
    whole, rest = np.zeros(3), np.zeros(3)
    assert anp.divmod(g, 4.0, out=(whole, rest))[1] is rest
    assert (whole.tolist(), rest.tolist()) == ([0.0, 1.0, 1.0], [2.0, 0.0, 2.0])
    parameter = ag.ones(3, requires_grad=True)
    with ag.no_grad():
        v -= parameter
    assert v.tolist() == [3.0, 0.0, 8.0]
    with pytest.raises(TypeError, match="Cannot cast output from float64 to int64"):
        np.add(parameter.detach(), 1.0, out=np.arange(3))
    with pytest.raises(ValueError, match="read-only"):
        np.add(v, 1.0, out=parameter.detach().numpy())


@pytest.mark.parametrize("transform", [ag.grad, lambda f: lambda x: ag.func.jvp(f, (x,), (x,)), ag.func.vmap])
def test_arrays_are_not_written_to_where_something_is_lost(transform):
    def f(x):
        total = np.zeros(2)
        total -= x
        return anp.sum(total)

    with pytest.raises(TypeError, match=r"write total = total - \.\.\. in place of total -= \.\.\."):
        transform(f)(ag.ones((2, 2) if transform is ag.func.vmap else 2))
    x = ag.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=r"write out=np\.zeros_like\(x\), with the np of agrad\.numpy"):
        np.log(x, where=np.array([True, False]), out=np.zeros(2))


def test_a_compiled_function_writes_to_arrays_as_it_is():
    total = np.zeros(2)

    @ag.compile
    def f(x):
        nonlocal total
        total -= x
        np.multiply(total, x, out=total)
        return anp.sum(x)

    with pytest.warns(ag.func.CompileWarning, match="an array from outside, is written to"):
        assert f(ag.ones(2)).item() == 2.0
    assert total.tolist() == [-1.0, -1.0]
    f(ag.ones(2) * 2)
    assert total.tolist() == [-6.0, -6.0]
    with pytest.raises(ag.func.CaptureError, match="a value is requested"):
        ag.func.capture(f.function)(ag.ones(2))
    assert total.tolist() == [-6.0, -6.0]


def test_ufuncs_refuse_what_has_no_meaning():
    x = ag.asarray(V)
    for call in (
        lambda: np.add(x, x, signature="dd->d"),
        lambda: np.exp(x, where=V > 0),
        lambda: np.multiply.at(x, [0], 2.0),
    ):
        with pytest.raises(TypeError, match="is not defined for tensors; "):
            call()
    for call in (
        lambda: np.add(x, x, dtype="int64"),
        lambda: np.add(x, x, dtype="float32", casting="safe"),
        lambda: np.add(x, x.astype("float32"), casting="no"),
        lambda: np.sqrt(x.astype("int64"), casting="equiv"),
        lambda: np.add(x, x, out=ag.zeros(12, dtype="float32"), casting="safe"),
    ):
        with pytest.raises(TypeError, match=r"Cannot cast (ufunc '(add|sqrt)' in|out)put"):
            call()
    with pytest.raises(ValueError, match="casting must be one of"):
        np.add(x, x, casting="any")
    with pytest.raises(ValueError, match="only supported for binary functions"):
        np.exp.reduce(x)
    with pytest.raises(TypeError, match="'out' must be a tuple of arrays"):  # of two results, none was written to it
        np.modf(x, out=ag.zeros(12))


def test_add_at_adds_as_often_as_a_place_occurs():
    x, array = ag.asarray(V) * 1, V.copy()
    step = ag.tensor([1.0, 2.0, 4.0], requires_grad=True)
    np.add.at(x, [0, 0, 3], step)
    np.add.at(array, [0, 0, 3], [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(x.detach().numpy(), array)
    assert ag.grad(np.sum(x * x), step)[0].tolist() == (2 * array[[0, 0, 3]]).tolist()


def test_operands_of_several_libraries():
    da = pytest.importorskip("dask.array")
    x, lazy = ag.asarray(X).requires_grad_(), da.from_array(X, chunks=2)
    for call in (np.add, np.multiply, np.arctan2, lambda a, b: np.concatenate([a, b]), np.inner, np.vdot):
        for found, expected in ((call(x, lazy), call(X, X)), (call(lazy, x), call(X, X))):
            assert isinstance(found, ag.Tensor)
            assert found.requires_grad
            assert found.device == "dask"
            np.testing.assert_allclose(found.detach().to_device("numpy").numpy(), expected)
    found = np.concatenate([x, X, [[1.0, 2.0, 3.0, 4.0]]])
    assert found.requires_grad
    assert found.device == "numpy"
    masked = np.ma.masked_array(X, X > 0)
    for call in (np.add, lambda a, b: np.concatenate([a, b]), np.dot):
        with pytest.raises(TypeError, match=r"mask would be lost|MaskedArray"):
            call(x, masked)


def test_parameters_keep_no_gradient_in_silence():
    x, k = ag.asarray(X), ag.tensor(1.0, requires_grad=True)
    for call in (
        lambda: np.quantile(x, k / 2),
        lambda: np.percentile(x, k),
        lambda: np.roll(x, k),
        lambda: np.repeat(x, k),
        lambda: np.var(x, ddof=k),
        lambda: np.linalg.norm(x, ord=k),
        lambda: np.pad(x, k),
        lambda: np.tile(x, k),
    ):
        with pytest.raises((TypeError, RuntimeError)):
            call()


def test_writes_through_views_are_errors_under_the_module():
    x = anp.zeros((2, 2))
    row = x[0]
    with pytest.raises(ag.LostWriteWarning, match=r"an error where agrad\.numpy is imported"):
        row[:] = 1.0
    assert row.tolist() == [0.0, 0.0]
    library = {"__name__": "scipy.of_this_test"}
    exec("def halve(z):\n    part = z[1:]\n    part[0] = 0.5", library)
    with pytest.raises(
        ag.LostWriteWarning, match=r"A library writes, at <string>:3\.[^§]*numpy\(\)\.copy\(\)[^§]*test_doors"
    ):
        library["halve"](anp.ones(3))
    scope = {"x": x}
    with pytest.warns(ag.LostWriteWarning):
        exec(compile("row = x[0]\nrow[:] = 1.0", "elsewhere.py", "exec"), scope)
    assert scope["row"].tolist() == [1.0, 1.0]


def test_default_dtypes_are_numpys():
    for made, expected in (
        (lambda m: m.zeros(2), np.float64),
        (lambda m: m.array([1, 2.5]), np.float64),
        (lambda m: m.array([1, 2]), np.int64),
        (lambda m: m.array([1j]), np.complex128),
        (lambda m: m.array([True]), np.bool_),
        (lambda m: m.arange(3), np.int64),
        (lambda m: m.linspace(0, 1, 3), np.float64),
        (lambda m: m.exp(m.arange(3)), np.float64),
        (lambda m: m.mean(m.array([1, 2])), np.float64),
    ):
        assert made(anp).dtype == made(np).dtype == expected
    before = ag.get_default_dtype()
    ag.set_default_dtype("float32")
    try:
        assert anp.zeros(2).dtype == anp.array([1.0]).dtype == anp.random.normal(size=2).dtype == np.float32
        assert anp.exp(anp.arange(3)).dtype == np.float64  # of int64, as NumPy's
    finally:
        ag.set_default_dtype(before)


def test_creation_by_numpy_follows_the_tensor():
    assert np.zeros_like(ag.ones(2)).tolist() == [0.0, 0.0]
    assert isinstance(np.zeros(3, like=ag.ones(2)), ag.Tensor)
    with ag.use_backend("dask"):
        assert anp.zeros(3).device == "dask"
        assert anp.zeros(3, like=ag.ones(2, device="numpy")).device == "numpy"


CURES = {
    "np.array([x[0], x[1]])": "import agrad.numpy as np",
    "np.r_[x, 1.0]": "import agrad.numpy as np",
    "np.vectorize(np.sin)(x)": "import agrad.numpy as np",
    "scipy.fft.fft(x)": "use agrad.fft.fft.",
    "scipy.linalg.norm(x)": "use agrad.scipy.linalg.norm.",
    "scipy.linalg.expm(A)": "use agrad.scipy.linalg.expm.",
    "scipy.linalg.solve(A, x)": "use agrad.scipy.linalg.solve.",
    "scipy.integrate.trapezoid(x)": "use agrad.scipy.integrate.trapezoid.",
    "scipy.stats.norm.logpdf(x)": "use agrad.scipy.stats.norm.logpdf.",
    "scipy.spatial.distance.cdist(A, A)": "import agrad.numpy as np",
}


@pytest.mark.parametrize("text", CURES)
def test_where_numpy_makes_an_array_the_cure_comes_first(text):
    names = ("scipy.fft", "scipy.integrate", "scipy.linalg", "scipy.spatial.distance", "scipy.stats")
    scipy = [importlib.import_module(name) for name in names] and importlib.import_module("scipy")
    x, matrix = ag.ones(3, requires_grad=True), ag.eye(3).requires_grad_()
    with pytest.raises(RuntimeError, match=r"^Can't call numpy\(\) on Tensor that requires grad") as caught:
        eval(compile(text, "mine.py", "eval"), {"np": np, "scipy": scipy, "x": x, "A": matrix})
    lines = str(caught.value).splitlines()
    assert CURES[text] in lines[1]
    assert lines[-2] == "  tensor.detach() gives the value alone: it loses the gradient."
    assert lines[-1] == "  Called at mine.py:1."


def test_an_element_of_numpys_array_that_is_set_to_a_tensor_says_what_to_make():
    x, y = ag.ones(3, requires_grad=True), np.zeros(3)
    with pytest.warns(ag.LeavesGraphWarning, match=r"make that array with agrad\.numpy, as by np\.zeros"):
        y[0] = x[0]
    with pytest.warns(ag.LeavesGraphWarning) as caught:
        float(x[0])
    assert "agrad.numpy" not in str(caught[0].message)
    made = anp.zeros(3)
    made[0] = x[0]
    assert made.requires_grad


def test_random_numbers():
    anp.random.seed(3)
    first = anp.random.normal(size=(2, 3))
    ag.manual_seed(3)
    assert ag.randn(2, 3).tolist() == first.tolist()
    mean, scale = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor(3.0, requires_grad=True)
    drawn = anp.random.normal(mean, scale)
    grads = ag.grad(anp.sum(drawn), (mean, scale))
    assert grads[0].tolist() == [1.0, 1.0]
    assert grads[1].item() == pytest.approx((drawn.detach().sum().item() - 3.0) / 3.0)
    rng = anp.random.default_rng(0)
    n = 4000
    moments = {
        "uniform": (rng.uniform(1.0, 3.0, n), 2.0, 4 / 12),
        "exponential": (rng.exponential(2.0, n), 2.0, 4.0),
        "laplace": (rng.laplace(1.0, 0.5, n), 1.0, 0.5),
        "logistic": (rng.logistic(1.0, 0.5, n), 1.0, np.pi**2 / 12),
        "gumbel": (rng.gumbel(0.0, 1.0, n), np.euler_gamma, np.pi**2 / 6),
        "rayleigh": (rng.rayleigh(1.0, n), np.sqrt(np.pi / 2), 2 - np.pi / 2),
        "weibull": (rng.weibull(1.0, n), 1.0, 1.0),
        "power": (rng.power(2.0, n), 2 / 3, 1 / 18),
        "triangular": (rng.triangular(0.0, 1.0, 2.0, n), 1.0, 1 / 6),
        "binomial": (rng.binomial(10, 0.3, n).astype("float64"), 3.0, 2.1),
        "integers": (rng.integers(0, 4, n, endpoint=True).astype("float64"), 2.0, 2.0),
        "lognormal": (anp.log(rng.lognormal(0.5, 0.4, n)), 0.5, 0.16),
        "pareto": (anp.log1p(rng.pareto(2.0, n)), 0.5, 0.25),
    }
    for name, (sample, mean_of, variance) in moments.items():
        assert sample.mean().item() == pytest.approx(mean_of, abs=5 * np.sqrt(variance / n)), name
        assert sample.var().item() == pytest.approx(variance, rel=0.25), name
    many = rng.multivariate_normal([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]], n)
    np.testing.assert_allclose(np.cov(many.numpy().T), [[2.0, 0.5], [0.5, 1.0]], atol=0.2)
    assert sorted(rng.permutation(5).tolist()) == [0, 1, 2, 3, 4]
    assert sorted(rng.choice(5, 5, replace=False).tolist()) == [0, 1, 2, 3, 4]
    picked = rng.choice([10.0, 20.0], size=(50,), p=[0.0, 1.0])
    assert picked.tolist() == [20.0] * 50
    x = anp.arange(6.0)
    rng.shuffle(x)
    assert sorted(x.tolist()) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_what_does_not_vary_has_the_derivative_0_of_its_deviation():
    for x in (1.5, 1 + 0.5j, np.full(3, 2.0), np.full(3, 2.0 + 1j)):
        assert np.all(ag.grad(lambda x: np.std(x))(x) == 0)
        assert np.all(ag.grad(lambda x: np.std(x, where=np.ones(np.shape(x), bool)))(x) == 0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_dtype_of_arrays_numbers_and_dtypes_is_numpys(count):
    values = (
        np.ones(3),
        1.0,
        1,
        True,
        1j,
        np.float32(2),
        np.ones(2, np.float32),
        np.int8,
        np.ones(2, np.int16),
        "float32",
    )
    for operands in itertools.product(values, repeat=count):
        assert anp.result_type(*operands) == np.result_type(*operands), operands
