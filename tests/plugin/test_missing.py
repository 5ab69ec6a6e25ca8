"""Arrays with missing elements: rules count the elements that are there, and the rest is refused."""

from __future__ import annotations

import types

import array_api_compat.numpy as compat
import numpy as np
import pytest

import agrad as ag
from agrad.plugin.hookspecs import hookimpl
from agrad.testing import suite
from agrad.testing.harness import Harness

ma = np.ma


def running(function):
    """Give a running sum or product of the standard; NumPy's own leave out what is missing."""
    return lambda x, *, axis=None, dtype=None, include_initial=False: function(x, axis=0 if axis is None else axis)


def sort(x, *, axis=-1, descending=False, stable=True):
    made = ma.sort(x, axis=axis, endwith=not descending)
    return made[::-1] if descending else made


def argsort(x, *, axis=-1, descending=False, stable=True):
    made = np.argsort(ma.filled(x, np.inf), axis=axis, kind="stable")
    return ma.asarray(made)


def like(x, value):
    return ma.array(np.full_like(x.data, value), mask=ma.getmaskarray(x))


ELEMENTWISE = """
    float64 float32 int64 bool isdtype multiply add subtract divide positive negative sin cos equal reshape flip moveaxis
    permute_dims expand_dims isnan any not_equal bitwise_and bitwise_or logical_and logical_or
"""


class Masked(ag.Backend):
    """NumPy's masked arrays."""

    name = "masked"
    missing = True

    def namespace(self):
        names = {name: getattr(compat, name) for name in ELEMENTWISE.split()}
        names |= {name: getattr(ma, name) for name in ("sum", "mean", "prod", "max", "min", "where")}
        names |= {
            "asarray": lambda x, *, dtype=None, copy=None, mask=ma.nomask: ma.array(x, dtype=dtype, mask=mask),
            "empty": lambda shape, *, dtype=None: ma.empty(shape, dtype),
            "zeros": lambda shape, *, dtype=None: ma.zeros(shape, dtype),
            "full_like": like,
            "ones_like": lambda x: like(x, 1),
            "zeros_like": lambda x: like(x, 0),
            "astype": lambda x, dtype, *, copy=True: x.astype(dtype),
            "concat": lambda arrays, *, axis=0: ma.concatenate(arrays, axis=axis),
            "take": lambda x, indices, *, axis=None: x[np.asarray(indices)],
            "take_along_axis": lambda x, indices, *, axis=-1: x[np.asarray(indices)],
            "broadcast_to": lambda x, shape: ma.array(
                np.broadcast_to(x.data, shape), mask=np.broadcast_to(ma.getmaskarray(x), shape)
            ),
            "var": lambda x, *, axis=None, correction=0, keepdims=False: ma.var(
                x, axis, ddof=correction, keepdims=keepdims
            ),
            "std": lambda x, *, axis=None, correction=0, keepdims=False: ma.std(
                x, axis, ddof=correction, keepdims=keepdims
            ),
            "sort": sort,
            "argsort": argsort,
            "cumulative_sum": running(ma.cumsum),
            "cumulative_prod": running(ma.cumprod),
            "matmul": ma.dot,
            "all": lambda x: ma.asarray(np.all(x.filled(True))),
        }
        return types.SimpleNamespace(**names)

    def as_array(self, value):
        return ma.asarray(value)

    def kernel(self, op):
        return {
            "extra.filled": lambda x, value: ma.asarray(ma.filled(x, value)),
            "getitem": lambda x, key: ma.asarray(x[key]),
        }.get(op)

    def scatter_add(self, spec, key, values):
        made = np.zeros(spec.shape)
        np.add.at(made, tuple(np.asarray(k) if hasattr(k, "dtype") else k for k in key), values.filled(0.0))
        return ma.asarray(made)

    def misses(self, array):
        return bool(ma.getmaskarray(array).any())

    def to_host(self, array):
        if self.misses(array):
            raise ag.UnsupportedOp("to_device", self.name, "elements are missing")
        return array.data

    def text_of(self, array):
        return str(array)


class MaskedPlugin:
    @hookimpl
    def agrad_backends(self):
        return [Masked()]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "masked" if issubclass(array_type, ma.MaskedArray) else None


@pytest.fixture
def masked(registered):
    registered(MaskedPlugin())
    return ma.array([1.0, 2.0, 3.0], mask=[False, True, False])


W = np.asarray([1.0, 10.0, 100.0])

#: Of x = [1, _, 3]: what each differentiates to by hand.
GRADIENTS = {
    "sum": (lambda x: ag.sum(x * x), [2.0, 6.0]),
    "mean": (lambda x: ag.mean(x * x), [1.0, 3.0]),
    "mean of itself": (ag.mean, [0.5, 0.5]),
    "var": (ag.var, [-1.0, 1.0]),
    "var, corrected": (lambda x: ag.var(x, correction=1), [-2.0, 2.0]),
    "std": (ag.std, [-0.5, 0.5]),
    "prod": (ag.prod, [3.0, 1.0]),
    "max": (ag.max, [0.0, 1.0]),
    "cumulative_sum": (lambda x: ag.sum(ag.cumulative_sum(x)), [2.0, 1.0]),
    "cumulative_prod": (lambda x: ag.sum(ag.cumulative_prod(x)), [4.0, 1.0]),
    "sort": (lambda x: ag.sum(ag.sort(x) * ma.asarray(W)), [1.0, 10.0]),
    "take": (lambda x: ag.sum(ag.take(x, ma.asarray([0, 0, 2]))), [2.0, 1.0]),
    "sin": (lambda x: ag.sum(ag.sin(x)), [np.cos(1.0), np.cos(3.0)]),
}


def test_a_plugin_takes_over_what_numpys_has_refused(registered):
    """NumPy's plugin claims every subclass of its arrays until another claims one: whichever class was met before."""
    data = ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(TypeError, match="its mask would be lost"):
        ag.asarray(data)
    registered(MaskedPlugin())
    assert ag.asarray(data)._spec.backend.name == "masked"
    assert ag.asarray(np.ones(2))._spec.backend.name == "numpy"


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_by_what_is_there(name, masked):
    function, expected = GRADIENTS[name]
    found = ag.grad(function)(masked)
    assert isinstance(found, ma.MaskedArray)
    assert ma.getmaskarray(found).tolist() == [False, True, False]
    np.testing.assert_allclose(found.compressed(), expected)


@pytest.mark.parametrize("name", GRADIENTS)
def test_tangents_by_what_is_there(name, masked):
    """A tangent has an element for what is missing, too, of which nothing may come through."""
    function, expected = GRADIENTS[name]
    direction = ma.asarray([0.5, 1000.0, -2.0])
    _, found = ag.func.jvp(function, (ag.asarray(masked),), (ag.asarray(direction),))
    np.testing.assert_allclose(float(found._raw), np.dot(expected, [0.5, -2.0]))


def test_second_derivatives(masked):
    x = ag.asarray(masked, requires_grad=True)
    (g,) = ag.autograd.grad(ag.mean(x * x * x), [x], create_graph=True)
    (h,) = ag.autograd.grad(ag.sum(g), [x])
    np.testing.assert_allclose(h._raw.compressed(), [3.0, 9.0])


def test_what_counts_all_elements_is_refused(masked):
    whole = ma.asarray([1.0, 2.0, 3.0])
    with pytest.raises(ag.UnsupportedOp, match="matmul is not supported by the masked backend: elements are missing"):
        ag.matmul(masked, whole)
    assert ag.matmul(whole, whole) == 14.0


def test_what_is_missing_does_not_leave(masked):
    x = ag.asarray(masked)
    for leave in (
        lambda: x.to_device("numpy"),
        x.numpy,
        lambda: ag.mean(ag.asarray(masked)).to_device("numpy") and x.numpy(),
    ):
        with pytest.raises(ag.UnsupportedOp, match="elements are missing"):
            leave()
    assert str(x) == str(ag.asarray(masked))
    assert "--" in str(x)


def test_the_rules_of_other_backends_are_their_own(masked):
    assert ag.grad(ag.mean)(np.asarray([1.0, 2.0, 3.0, 4.0])).tolist() == [0.25] * 4
    assert ag.grad(ag.mean)(masked).compressed().tolist() == [0.5, 0.5]


def kit(name, *arguments):
    made = suite.TestMissing()
    made.use("masked")
    made.harness = Harness()
    getattr(made, name)(*arguments)


@pytest.mark.parametrize(
    "name", ["test_what_would_count_them_is_refused", "test_they_do_not_leave", "test_they_are_seen"]
)
def test_the_kit_passes(name, masked):
    kit(name)


@pytest.mark.parametrize("op", ["sin", "multiply"])
def test_the_kit_judges_gradients(op, masked):
    kit("test_gradients", op)
