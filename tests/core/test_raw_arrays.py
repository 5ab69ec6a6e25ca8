"""Raw arrays beside tensors: of numbers they are operands, all others are refused in words, wherever they come in."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp

da = pytest.importorskip("dask.array")

OBJECTS = "can't convert an array of dtype"
MASKS = "can't convert .* to a tensor: (its|the) mask would be lost"
UNITS = r"can't convert a \w+ to a tensor: its unit, 'm', would be lost\.\n  Give its numbers, .*numpy\.asarray\(x\)"
FUNCTIONS = (
    "can't convert a Own to a tensor: what it makes of NumPy's functions, by its own __array_ufunc__, would be lost"
)


class Own(np.ndarray):
    """NumPy's arrays with a meaning of their own."""

    def __array_ufunc__(self, ufunc, method, *inputs, **parameters):
        return NotImplemented


class Meters(Own):
    """As those of astropy and unyt."""

    units = "m"


class Column(np.ndarray):
    """A subclass that leaves the functions to NumPy, and has a unit."""

    unit = "m"


class Quantity:
    """An array with a unit that is no subclass of NumPy's, as pint's."""

    units = "m"
    magnitude = np.array([1.0, 2.0, 3.0])

    def __array_ufunc__(self, ufunc, method, *inputs, **parameters):
        return NotImplemented

    def __array__(self, dtype=None, copy=None):
        return self.magnitude


REFUSED = {
    "units": (lambda: np.array([1.0, 2.0, 3.0]).view(Meters), UNITS),
    "a unit": (lambda: np.array([1.0, 2.0, 3.0]).view(Column), UNITS),
    "functions of its own": (lambda: np.array([1.0, 2.0, 3.0]).view(Own), FUNCTIONS),
    "units in Dask": (lambda: da.from_array(np.ones(3).view(Meters), chunks=2, asarray=False), UNITS),
    "objects": (lambda: np.array([1, 2.5, 3], dtype=object), OBJECTS),
    "text": (lambda: np.array(["a", "b", "c"]), OBJECTS),
    "dates": (lambda: np.array(["2020-01-01"] * 3, dtype="M8[D]"), OBJECTS),
    "durations": (lambda: np.array([1, 2, 3], dtype="m8[D]"), OBJECTS),
    "records": (lambda: np.zeros(3, dtype=[("a", float)]), OBJECTS),
    "a recarray": (lambda: np.rec.array([(1.0,)] * 3, dtype=[("a", float)]), OBJECTS),
    "a scalar of text": (lambda: np.str_("a"), OBJECTS),
    "a masked array": (lambda: np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), MASKS),
    "a masked array without mask": (lambda: np.ma.masked_array([1.0, 2.0, 3.0]), MASKS),
    "the masked constant": (lambda: np.ma.masked, MASKS),
    "objects in Dask": (lambda: da.from_array(np.array([1, 2.5, 3], dtype=object), chunks=2), OBJECTS),
    "masked chunks": (lambda: da.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), MASKS),
}


def assign(y, key, value):
    y[key] = value
    return y


def set_data(y, value):
    y.data = value
    return y


USES = {
    "w * a": lambda w, a: w * a,
    "w @ a": lambda w, a: w @ a,
    "w < a": lambda w, a: w < a,
    "w += a": lambda w, a: (w * 1).__iadd__(a),
    "w[:] = a": lambda w, a: assign(w * 1, slice(None), a),
    "w[a]": lambda w, a: w[a],
    "w[a] = 0": lambda w, a: assign(w * 1, a, 0.0),
    "w.data = a": lambda w, a: set_data(w.detach(), a),
    "multiply": ag.multiply,
    "np.multiply": np.multiply,
    "where": lambda w, a: ag.where(w > 1, w, a),
    "where by": lambda w, a: ag.where(a, w, w),
    "take": lambda w, a: ag.take(w, a, axis=0),
    "clip": lambda w, a: ag.clip(w, a, 9.0),
    "concat": lambda w, a: ag.concat([w, a]),
    "masked_fill": lambda w, a: w.masked_fill(a, 0.0),
    "asarray": lambda w, a: ag.asarray(a),
    "asarray of a list": lambda w, a: ag.asarray([a, a]),
    "asarray of a list with tensors": lambda w, a: ag.asarray([w, a]),
    "tensor": lambda w, a: ag.tensor(a),
    "zeros_like": lambda w, a: ag.zeros_like(a),
    "sum": lambda w, a: ag.sum(a),
    "in a transform": lambda w, a: ag.func.grad(lambda x: (x * a).sum())(w.detach()),
    "a result of a Function": lambda w, a: returning(a).apply(w),
    "beside a result of a Function": lambda w, a: returning((1.0, w.detach(), a)).apply(w),
    "a gradient of a Function": lambda w, a: ag.grad(returning(w.detach(), a).apply(w).sum(), w),
}


def returning(result, gradient=None):
    class F(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return result

        @staticmethod
        def backward(ctx, g):
            return gradient

    return F


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_arrays_that_are_no_numbers_are_refused(make, message, use):
    w = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(TypeError, match=message):
        use(w, make())


def test_a_refused_operand_leaves_the_target_as_it_was():
    w = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = w * 2
    with pytest.raises(TypeError, match=OBJECTS):
        y += np.array([1, 2.5, 3], dtype=object)
    y.sum().backward()
    assert y.tolist() == [2.0, 4.0, 6.0]
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


M = np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])


@pytest.mark.parametrize(
    "use",
    [
        lambda w: M * w,
        lambda w: M + w,
        lambda w: np.ma.multiply(M, w),
        lambda w: np.ma.multiply(w, w),
        np.ma.log,
        np.ma.getdata,
        np.ma.asarray,
        lambda w: np.ma.where(M > 1, M, w),
    ],
)
def test_functions_of_masked_arrays_raise(use):
    """Without a history to lose they work on a copy of the value, or on one that cannot be written to."""
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        use(ag.tensor([1.0, 2.0, 3.0], requires_grad=True))
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        ag.func.grad(lambda w: use(w).sum())(ag.tensor([1.0, 2.0, 3.0]))
    assert isinstance(use(ag.tensor([1.0, 2.0, 3.0])), np.ndarray)


def test_masks_cannot_be_written_through():
    w = ag.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="read-only"):
        np.ma.getdata(w)[0] = 99.0
    assert w.tolist() == [1.0, 2.0, 3.0]


def test_the_remedies_that_the_messages_name():
    w = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = ag.where(M.mask, 0, w * M.filled(0))
    assert ag.grad(y.sum(), w)[0].tolist() == [1.0, 0.0, 3.0]
    assert (w * np.array([1, 2.5, 3], dtype=object).astype(float)).tolist() == [1.0, 5.0, 9.0]
    lazy = da.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])
    y = ag.where(da.ma.getmaskarray(lazy), 0, w * da.ma.filled(lazy, 0))
    assert ag.grad(y.sum(), w)[0].tolist() == [1.0, 0.0, 3.0]


@pytest.mark.parametrize(
    "use",
    [
        ag.asarray,
        ag.tensor,
        anp.sum,
        lambda q: ag.asarray([q, q]),
        lambda q: ag.asarray([ag.ones(3), q]),
    ],
)
def test_arrays_with_units_that_are_no_subclass(use):
    with pytest.raises(TypeError, match=UNITS):
        use(Quantity())
    assert ag.asarray(Quantity().magnitude).tolist() == ag.asarray(np.asarray(Quantity())).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("kind", [Meters, Column, Own])
def test_the_numbers_of_arrays_with_units(kind):
    x = np.array([1.0, 2.0]).view(kind)
    np.testing.assert_array_equal(ag.grad(lambda v: ag.sum(v * v))(np.asarray(x)), [2.0, 4.0])


def test_what_has_labels_is_read_for_its_numbers():
    xr, pd = pytest.importorskip("xarray"), pytest.importorskip("pandas")
    marked = {"mask": ("x", [0.0, 1.0])}  # a coordinate, which xarray gives as an attribute
    labelled = xr.DataArray([1.0, 2.0], dims="x", coords=marked, attrs={"units": "m"})
    for value in (labelled, pd.Series([1.0, 2.0]), pd.Index([1.0, 2.0])):
        assert ag.asarray(value).tolist() == [1.0, 2.0]
        assert ag.asarray([value, value]).shape == (2, 2)


def test_files_that_are_mapped(tmp_path):
    mapped = np.memmap(tmp_path / "mapped", dtype=float, mode="w+", shape=2)
    mapped[:] = [1.0, 2.0]
    assert ag.grad(lambda v: ag.sum(v * mapped))(mapped).tolist() == [1.0, 2.0]


def test_other_subclasses_of_ndarray():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    plain = np.array([3.0, 4.0]).view(np.recarray)
    assert (plain * w).tolist() == (w * plain).tolist() == [3.0, 8.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    for use in (lambda: matrix * w, lambda: w * matrix, lambda: w**matrix, lambda: ag.asarray([w, matrix])):
        with pytest.raises(TypeError):  # there ``*`` is the matrix product
            use()
    assert ag.asarray(matrix).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(TypeError, match="F gave a matrix, which is no array of an installed backend"):
        returning((w.detach(), matrix)).apply(w)
