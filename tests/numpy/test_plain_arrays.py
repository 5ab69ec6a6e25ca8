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


def test_what_nan_is_not_asked_for_has_the_gradient_0():
    x = np.array([1.0, np.nan, 2.0])
    assert grad(lambda x: np.nanmax(x**2))(x).tolist() == [0.0, 0.0, 4.0]
    assert grad(lambda x: np.nanmin(x**2))(x).tolist() == [2.0, 0.0, 0.0]
    assert jacfwd(lambda x: np.nanmax(x**2))(x).tolist() == [0.0, 0.0, 4.0]
    assert hessian(lambda x: np.nanmin(x**2))(x).tolist() == np.diag([2.0, 0.0, 0.0]).tolist()
