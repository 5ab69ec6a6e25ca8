"""Tensors beside what other libraries make: recorded on the right backend, handed over, or refused."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp

X = np.array([[1.0, 2.0], [3.0, 4.0]])
BOTH = pytest.mark.parametrize("module", [np, anp], ids=["numpy", "module"])

#: Functions of two operands, as ufuncs and as functions that NumPy dispatches.
UFUNCS = [lambda m, a, b: m.multiply(a, b), lambda m, a, b: m.maximum(a, b), lambda m, a, b: m.hypot(a, b)]
FUNCTIONS = [
    lambda m, a, b: m.concatenate([a, b]),
    lambda m, a, b: m.dot(a, b),
    lambda m, a, b: m.where(X > 2, a, b),
    lambda m, a, b: m.stack([a, b]),
    lambda m, a, b: m.einsum("ij,jk", a, b),
]


class Labelled:
    """An array with labels: it holds an array, and calls ufuncs on that."""

    def __init__(self, data, labels=("a", "b")):
        self.data, self.labels = data, labels

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        held = [x.data if isinstance(x, Labelled) else x for x in inputs]
        return Labelled(getattr(ufunc, method)(*held, **kwargs), self.labels)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.data, dtype)


def recorded(call, module, other, device="numpy"):
    """Check a call in both orders: value, backend and gradient."""
    plain = np.asarray(other)
    for swap in (False, True):
        t = ag.asarray(X + 0.5).requires_grad_()
        found = call(module, *((other, t) if swap else (t, other)))
        expected = call(np, *((plain, X + 0.5) if swap else (X + 0.5, plain)))
        assert isinstance(found, ag.Tensor)
        assert found.device == device
        np.testing.assert_allclose(found.detach().to_device("numpy").numpy(), expected)
        (gradient,) = ag.grad(found.sum(), t)
        step = 1e-6
        moved = [X + 0.5 + step * sign * X for sign in (1, -1)]
        ends = [call(np, *((plain, m) if swap else (m, plain))).sum() for m in moved]
        assert (gradient.to_device("numpy").numpy() * X).sum() == pytest.approx(
            (ends[0] - ends[1]) / (2 * step), rel=1e-6
        )


@BOTH
@pytest.mark.parametrize("call", UFUNCS + FUNCTIONS)
def test_lists_and_arrays_of_other_libraries(module, call):
    recorded(call, module, X.tolist())
    recorded(call, module, X * 2)
    recorded(call, module, X.view(type("Own", (np.ndarray,), {})))
    recorded(call, module, da.from_array(X * 2, chunks=1), device="dask")


@BOTH
def test_a_list_of_tensors_and_numbers(module):
    t = ag.asarray(X).requires_grad_()
    found = module.add(t, [[t[0, 0], 2.0], [3.0, t[1, 1]]])
    assert found.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert ag.grad(found.sum(), t)[0].tolist() == [[2.0, 1.0], [1.0, 2.0]]


@BOTH
@pytest.mark.parametrize("call", UFUNCS + FUNCTIONS)
def test_what_holds_no_numbers_is_refused(module, call):
    t = ag.asarray(X).requires_grad_()
    for other, name in (
        (np.ma.masked_array(X, X > 2), "MaskedArray"),
        (X.astype(object), "object"),
        (np.array([["a", "b"], ["c", "d"]]), "<U1"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), "datetime"),
        (np.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)]), r"\('a'"),
    ):
        for operands in ((t, other), (other, t)):
            with pytest.raises(TypeError, match=name):
                call(module, *operands)


@pytest.mark.parametrize("call", UFUNCS + FUNCTIONS)
def test_np_matrix_is_refused_by_numpys_functions(call):
    t = ag.asarray(X).requires_grad_()
    with pytest.warns(PendingDeprecationWarning):
        other = np.matrix(X)
    for operands in ((t, other), (other, t)):
        with pytest.raises(TypeError, match="matrix"):
            call(np, *operands)


@BOTH
@pytest.mark.parametrize("call", UFUNCS)
def test_ufuncs_are_handed_over_to_labelled_arrays(module, call):
    t = ag.asarray(X).requires_grad_()
    for held in (X, ag.asarray(X).requires_grad_()):
        for operands in ((t, Labelled(held)), (Labelled(held), t), (Labelled(held), Labelled(t))):
            found = call(module, *operands)
            assert isinstance(found, Labelled)
            assert found.data.requires_grad
            np.testing.assert_allclose(found.data.detach().numpy(), call(np, X, X))
    found = module.exp(Labelled(t))
    assert found.data.requires_grad
    with pytest.raises(TypeError, match="not defined for tensors; "):
        module.multiply(t, Labelled(t), signature="dd->d")


@BOTH
@pytest.mark.parametrize("call", FUNCTIONS)
def test_functions_take_what_labelled_arrays_hold(module, call):
    t = ag.asarray(X).requires_grad_()
    held = ag.asarray(X * 2).requires_grad_()
    for operands in ((t, Labelled(held)), (Labelled(held), t)):
        found = call(module, *operands)
        gradients = ag.grad(found.sum(), (t, held))
        assert all(bool((g != 0).any()) for g in gradients)


@BOTH
@pytest.mark.parametrize("call", UFUNCS + FUNCTIONS)
def test_of_pandas_the_values_are_taken(module, call):
    pandas = pytest.importorskip("pandas")
    recorded(call, module, pandas.DataFrame(X * 2))


def test_of_pandas_operators_are_refused():
    pandas = pytest.importorskip("pandas")
    t = ag.ones(2, requires_grad=True)
    for other in (pandas.Series([1.0, 2.0]), pandas.Index([1.0, 2.0]), pandas.DataFrame(X)):
        for call in (lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a @ b):
            for operands in ((t, other), (other, t)):
                with pytest.raises(
                    (TypeError, RuntimeError), match=r"unsupported operand[^|]*to_numpy\(\)|to_numpy\(\) @ x"
                ):
                    call(*operands)
        with pytest.raises(TypeError, match=r"got .*pandas[^|]*Give its values: x.to_numpy\(\)"):
            ag.grad(ag.sum)(other)
    for found in (np.add(t, pandas.Series([1.0, 2.0])), np.add(pandas.Series([1.0, 2.0]), t)):
        assert found.tolist() == [2.0, 3.0]
        assert found.requires_grad


@BOTH
@pytest.mark.parametrize("call", UFUNCS)
def test_xarrays_keep_their_labels(module, call):
    xarray = pytest.importorskip("xarray")
    t = ag.asarray(X).requires_grad_()
    for held in (X, ag.asarray(X).requires_grad_()):
        labelled = xarray.DataArray(held, dims=("a", "b"))
        for operands in ((t, labelled), (labelled, t)):
            found = call(module, *operands)
            assert found.dims == ("a", "b")
            assert found.data.requires_grad
            np.testing.assert_allclose(found.data.detach().numpy(), call(np, X, X))


BESIDE = {
    "same": X - 2.5,
    "row": np.array([0.5, -3.0]),
    "larger": np.cos(np.arange(12.0)).reshape(3, 2, 2),
    "single": (X * 0.3).astype("float32"),
    "counts": np.array([[1, 2], [3, 4]]),
    "mask": np.array([[True, False], [True, True]]),
    "0-d": np.array(0.75),
    "scalar": np.float64(-1.25),
    "single scalar": np.float32(0.5),
    "count": np.int64(3),
    "view": np.asfortranarray(np.arange(8.0).reshape(2, 4) - 3.0)[:, ::2],
}
OPERATORS = ["+", "-", "*", "/", "@", "**", "<", ">=", "==", "//", "%"]


@pytest.mark.parametrize("kind", ["float64", "float32", "int64"])
@pytest.mark.parametrize("name", BESIDE)
def test_operators_beside_arrays_are_numpys(name, kind):
    """Value, dtype, and on either side the derivative, by differences."""
    other, x = BESIDE[name], (X + 0.5).astype(kind)
    for text in [text for sign in OPERATORS for text in (f"x {sign} y", f"y {sign} x")]:
        of = eval(f"lambda x, y: {text}")
        with np.errstate(all="ignore"):
            try:
                expected = of(x, other)
            except ValueError:  # negative powers of integers, products of numbers
                continue
            t = ag.asarray(x.copy()).requires_grad_(kind != "int64")
            found = of(t, other)
            assert isinstance(found, ag.Tensor), text
            np.testing.assert_allclose(found.detach(), expected, rtol=1e-5, err_msg=text)
            if kind != "int64":  # of integers and truth values the standard says another dtype
                assert found.dtype == expected.dtype, text
            if (
                kind == "float64"
                and found.requires_grad
                and "//" not in text
                and "%" not in text
                and np.isfinite(expected).all()
            ):
                weights = np.sin(np.arange(float(expected.size))).reshape(expected.shape)
                steps = 1e-6 * np.eye(4).reshape(4, 2, 2)
                by_steps = [((of(x + e, other) - of(x - e, other)) * weights).sum() / 2e-6 for e in steps]
                (gradient,) = ag.grad(found, t, ag.asarray(weights))
                np.testing.assert_allclose(gradient.reshape(-1), by_steps, rtol=1e-4, atol=1e-7, err_msg=text)


@pytest.mark.parametrize("f", [ag.subtract, ag.logaddexp, ag.matmul, ag.less, lambda a, b: a - b, lambda a, b: a @ b])
def test_arrays_of_objects_and_masked_ones_are_refused_by_name(f):
    t = ag.asarray(X).requires_grad_()
    for other, words in ((X.astype(object), "object"), (np.ma.masked_greater(X, 2.0), "mask")):
        with pytest.raises(TypeError, match=words):
            f(t, other)


def test_complex_arrays_are_refused_where_operands_are_real():
    with pytest.raises(TypeError, match="complex128"):
        ag.nn.functional.mse_loss(ag.asarray(X).requires_grad_(), X * 1j)
