"""NumPy's functions that write, in place or to files, do to plain arrays what NumPy's own do, and lose no gradient."""

from __future__ import annotations

import io

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp
from agrad import grad, hessian, jacfwd

X = np.array([1.1, 2.6, 4.0, 3.3, -0.5])

#: By name: what changes an array `a` of shape (3, 3), by functions of a module.
WRITES = {
    "fill_diagonal": lambda m, a, v: m.fill_diagonal(a, v),
    "put": lambda m, a, v: m.put(a, [1, 5, -1], v),
    "copyto": lambda m, a, v: m.copyto(a, v, where=np.eye(3, dtype=bool)),
    "place": lambda m, a, v: m.place(a, a > 3, v),
    "putmask": lambda m, a, v: m.putmask(a, a > 3, v),
    "put_along_axis": lambda m, a, v: m.put_along_axis(a, np.array([[0], [2], [1]]), v, 1),
    "add.at": lambda m, a, v: m.add.at(a, [0, 0, 2], v),
    "maximum.at": lambda m, a, v: m.maximum.at(a, ([0, 0], [1, 1]), v),
    "negative.at": lambda m, a, v: m.negative.at(a, [0, 0, 2]),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("value", [5.0, np.array(5.0), ag.tensor(5.0)], ids=["number", "array", "tensor"])
def test_plain_arrays_are_written_to(write, value):
    found, expected = np.arange(9.0).reshape(3, 3), np.arange(9.0).reshape(3, 3)
    write(anp, found, value)
    write(np, expected, 5.0)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "module"),
    [(name, module) for name in WRITES if name not in ("negative.at", "place") for module in (np, anp)][1:],
)  # NumPy's own fill_diagonal asks no tensor
def test_a_gradient_is_not_lost_in_a_plain_array(module, name):
    a = np.zeros((3, 3))
    with pytest.raises(
        TypeError, match=r"(?s)requires grad into a plain ndarray.*zeros, ones or empty of agrad.numpy.*test_plain"
    ):
        grad(lambda v: (WRITES[name](module, a, v), v)[1])(2.0)
    assert not a.any()


def test_the_advice_for_add_at_counts_repeated_places():
    def loss(w):
        a = anp.zeros(2)
        np.add.at(a, [0, 0], w)
        return np.sum(a**2)  # (2 w)²

    assert grad(loss)(3.0) == 8 * 3.0


def test_add_at_truncates_nothing():
    x = ag.tensor([1, 2])
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type int64"):
        np.add.at(x, [0], 1.5)
    assert x.tolist() == [1, 2]


def test_shuffle_of_what_is_no_tensor():
    array, numbers = np.arange(20.0).reshape(10, 2), list(range(20))
    anp.random.shuffle(array)
    anp.random.shuffle(numbers)
    assert (array[:, 1] == array[:, 0] + 1).all()
    assert sorted(array[:, 0]) == list(range(0, 20, 2))
    assert sorted(numbers) == list(range(20))
    with pytest.raises(TypeError, match="shuffle"):
        anp.random.shuffle((1, 2))


@pytest.mark.parametrize("module", [np, anp], ids=["numpy", "agrad.numpy"])
def test_files(module):
    x = ag.tensor([1.0, 2.5])
    binary, several, text = io.BytesIO(), io.BytesIO(), io.StringIO()
    module.save(binary, x)
    module.savez(several, x, more=x * 2)
    module.savetxt(text, x, fmt="%.1f")
    for file in (binary, several, text):
        file.seek(0)
    assert text.getvalue() == "1.0\n2.5\n"
    found, archive = module.load(binary), module.load(several)
    for array in (found, archive["arr_0"], archive["more"] / 2, module.loadtxt(text)):
        assert type(array) is np.ndarray
        assert array.tolist() == [1.0, 2.5]


@pytest.mark.parametrize("save", [anp.save, np.savez, anp.savetxt])
def test_no_history_is_lost_in_a_file(save):
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\)"):
        grad(lambda x: (save(io.BytesIO(), x), np.sum(x))[1])(X)


def test_lists_are_assigned():
    def loss(z):
        a = anp.zeros((3, 2))
        a[:2, 1] = [1.0, z]
        a[2] = [z, 4]
        return np.sum(a**3)  # 1 + 2 z³ + 64

    assert grad(loss)(2.0) == 6 * 2.0**2
    counts = ag.tensor([1, 2])
    counts[:] = [3, 4]
    assert counts.tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="can't be cast"):
        counts[:] = [3, 4.5]
    for value in (["a"], [[1], [1, 2]]):
        with pytest.raises(TypeError, match="must be Tensor, not list"):
            counts[:] = value


def difference(f, x, h=1e-6):
    return (f(x + h) - f(x - h)) / (2 * h)


@pytest.mark.parametrize(
    "f",
    [
        lambda s, m: m.histogram(X * s, bins=3, density=True)[0],
        lambda s, m: m.histogram(X, bins=[-1.0, s, 5.0], density=True)[0],
        lambda s, m: m.histogram(X, bins=3, range=(-s, 5 * s), density=True)[0],
        lambda s, m: m.histogram2d(X * s, X[::-1] * s, bins=(2, 3), density=True)[0],
        lambda s, m: m.histogramdd((X * s).reshape(-1, 1), bins=3)[1][0],
        lambda s, m: m.histogram_bin_edges(np.ones(3) * s, bins=3),  # widened by 0.5 at both ends
    ],
)
def test_edges_of_histograms_have_gradients(f):
    found = grad(lambda s: np.sum(f(s, anp) ** 3))(1.37)
    assert found == pytest.approx(difference(lambda s: np.sum(f(s, np) ** 3), 1.37), rel=1e-5)
    np.testing.assert_array_equal(f(ag.tensor(1.37), anp).numpy(), f(1.37, np))


@pytest.mark.parametrize("of", [anp.histogram, anp.histogram_bin_edges])
def test_edges_of_histograms_are_a_vector(of):
    with pytest.raises(ValueError, match="must be 1d"):
        of(X, [[0.0, 1.0], [1.0, 2.0]])


def test_what_nan_is_not_asked_for_has_the_gradient_0():
    x = np.array([1.0, np.nan, 2.0])
    assert grad(lambda x: np.nanmax(x**2))(x).tolist() == [0.0, 0.0, 4.0]
    assert grad(lambda x: np.nanmin(x**2))(x).tolist() == [2.0, 0.0, 0.0]
    assert jacfwd(lambda x: np.nanmax(x**2))(x).tolist() == [0.0, 0.0, 4.0]
    assert hessian(lambda x: np.nanmin(x**2))(x).tolist() == np.diag([2.0, 0.0, 0.0]).tolist()


def test_print_options_are_those_of_tensors_too():
    x = ag.tensor([1 / 3, 1e-6])
    with anp.printoptions(precision=8, suppress=True):
        assert str(x) == "tensor([0.33333333, 0.00000100])"
        assert str(x.numpy()) == "[0.33333333 0.000001  ]"
        with anp.printoptions(precision=2, threshold=1, edgeitems=1):
            assert str(ag.arange(9.0)) == "tensor([0.00, ..., 8.00])".replace("0.00, ...", "0.,  ...").replace(
                "8.00", "8."
            )
        assert np.get_printoptions()["precision"] == 8
    assert str(x) == "tensor([3.3333e-01, 1.0000e-06])"
    before = np.get_printoptions()
    with anp.printoptions() as options:
        assert options == before
        anp.set_printoptions(precision=10)
        assert str(ag.tensor(1 / 3)) == "tensor(0.3333333333)"
        assert np.get_printoptions()["precision"] == 10
    assert str(ag.tensor(1 / 3)) == "tensor(0.3333)"
    assert np.get_printoptions() == before


def test_views_of_other_dtypes_are_refused():
    z = ag.tensor([1 + 2j, 3.0])
    assert z.view().tolist() == z.tolist()
    for dtype in (float, "f8", np.dtype("f8")):
        with pytest.raises(TypeError, match=r"(?s)cannot be interpreted as an integer.*x.astype\(dtype\).*agrad.real"):
            z.view(dtype)


def test_a_complex_loss_says_how_it_becomes_real():
    with pytest.raises(RuntimeError, match=r"(?s)np.real and np.abs.*holomorphic=True.*test_plain_arrays"):
        grad(lambda x: np.exp(1j * x))(0.3)


def _libraries():
    sparse = pytest.importorskip("scipy.sparse")
    from scipy import ndimage
    from scipy.spatial import distance

    matrix = sparse.csr_array(np.eye(2))
    return {
        "ag.sparse.matmul\\(A, x\\)": (lambda x: matrix @ x, lambda x: matrix.dot(x)),
        "convolve filters": (lambda x: ndimage.gaussian_filter(x, 1.0),),
        "np.linalg.norm\\(x\\[:, None\\] - y": (lambda x: distance.cdist(x[:, None], x[:, None]),),
    }


def test_what_takes_arrays_only_says_what_to_write():
    for words, calls in _libraries().items():
        for call in calls:
            with pytest.raises(RuntimeError, match=f"(?s){words}.*test_plain_arrays"):
                grad(lambda x, call=call: np.sum(call(x)))(np.ones(2))


def test_a_product_with_a_sparse_matrix_on_the_right():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    found = grad(lambda x: np.sum((x @ matrix) ** 2))(np.array([1.0, -1.0]))
    np.testing.assert_allclose(found, 2 * matrix.toarray() @ (matrix.toarray().T @ [1.0, -1.0]))


def test_scikit_learn_says_which_switches_it_needs():
    metrics = pytest.importorskip("sklearn.metrics")
    with pytest.raises(RuntimeError, match=r"config_context\(array_api_dispatch=True\), with SCIPY_ARRAY_API=1"):
        grad(lambda x: metrics.mean_squared_error(np.ones(2), x))(np.zeros(2))


def test_a_sparse_product_as_a_primitive():
    sparse = pytest.importorskip("scipy.sparse")
    from agrad.compat.autograd import defvjp, primitive

    matrix = sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    product = primitive(lambda x: matrix @ x)
    defvjp(product, lambda ans, x: lambda g: matrix.T @ g)
    found = grad(lambda x: np.sum(product(x) ** 2))(np.array([1.0, -1.0]))
    np.testing.assert_allclose(found, [-2.0, -22.0])  # 2 Aᵀ A x


def test_scipys_own_solver_says_which_function_differentiates():
    optimize = pytest.importorskip("scipy.optimize")
    with pytest.raises(RuntimeError, match=r"(?s)use agrad.scipy.optimize.brentq, or root.*test_plain_arrays"):
        grad(lambda a: optimize.fsolve(lambda x: x**2 - a, a)[0])(2.0)
