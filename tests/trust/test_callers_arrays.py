"""Arrays and lists of the caller's, changed after the call: what was recorded is the call as it was made."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.core.op import OPS
from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.testing import samples as samples_module
from agrad.testing.calls import SampleCall


def scribble(given):
    """Change an array or a list in place, to values that a call could have been given too."""
    if isinstance(given, list):
        given[:] = given[::-1] if given != given[::-1] else [0] * len(given)
    elif given.dtype == bool:
        given[...] = ~given
    elif given.dtype.kind in "iu":
        given[...] = np.roll(given, 1) if given.size > 1 and len(set(given.flat)) > 1 else 0
    else:
        given[...] = given + 1.0


def gradients(results, leaves):
    total = sum((r * r.detach()).sum() for r in map(ag.real, results) if r.requires_grad)
    return [None if g is None else g.numpy() for g in ag.grad(total, leaves, allow_unused=True)]


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-12)


# -- every operation ----------------------------------------------------------------------------------------------------

SAMPLES = [sample for samples in samples_module.SAMPLES.values() for sample in samples]
INDEXED = [s for s in SAMPLES if OPS[s.op].rule.index and OPS[s.op].rule.kind != "none"]


def run(sample, *, change):
    call = SampleCall(sample)
    leaves = [ag.asarray(a, requires_grad=True) for a in call.arrays]
    given = []

    def make(array):
        given.append(np.array(array))
        return given[-1]

    results = call.tensors(leaves, make)
    if change:
        for array in given:
            scribble(array)
    return gradients(results, leaves) if any(r.requires_grad for r in results) else []


@pytest.mark.parametrize("sample", INDEXED, ids=str)
def test_index_operands(sample, numpy_backend):
    same(run(sample, change=True), run(sample, change=False))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, d: x[d],
        lambda x, d: ag.take(x, d),
        lambda x, d: ag.where(d > 0, x, 2.0 * x)[d],
    ],
)
@pytest.mark.parametrize("own", [True, False], ids=["array of Dask", "array of NumPy"])
def test_keys_on_dask(function, own, dask_backend):
    da = pytest.importorskip("dask.array")
    x = ag.tensor([1.0, 2.0, 3.0], device="dask", requires_grad=True)
    key = np.array([2, 2, 1])
    key = da.from_array(key, chunks=2) if own else key
    y = function(x, key)
    key[0] = 0
    (y * y).sum().backward()
    expected = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    z = function(expected, np.array([2, 2, 1]))
    (z * z).sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()


# -- functions that are made of operations ------------------------------------------------------------------------------

INDICES = np.array([[0, 2, 1], [2, 0, 0]])
MASK = np.array([[True, False, True], [False, False, True]])
LINE = np.array([2, 0, 2])
COMPOSED = {
    "key of several": (lambda x, i, j: x[i, j], LINE % 2, LINE),
    "mask": (lambda x, i: x[i], MASK),
    "assigned at": (lambda x, i: assigned(x, i, 3.0), MASK),
    "assigned at, a row": (lambda x, i: assigned(x, (slice(None), i), 3.0), LINE),
    "assigned twice": (lambda x, i: assigned(assigned(x, (0, i), 3.0), (1, i), 4.0), LINE),
    "added at": (lambda x, i: added(x, i), LINE % 2),
    "gather": (lambda x, i: ag.gather(x, 1, i), INDICES),
    "index_select": (lambda x, i: ag.index_select(x, 1, i), LINE),
    "masked_select": (lambda x, i: ag.masked_select(x, i), MASK),
    "masked_fill": (lambda x, i: x.masked_fill(i, 0.0), MASK),
    "scatter": (lambda x, i: x.scatter(1, i, 2.0 * x), np.array([[0, 2, 1], [2, 0, 1]])),
    "scatter_add": (lambda x, i: x.scatter_add(1, i, 2.0 * x), INDICES),
    "index_add": (lambda x, i: x.index_add(1, i, 2.0 * x), LINE),
    "index_fill": (lambda x, i: x.index_fill(1, i, 0.0), LINE),
    "take_along_axis": (lambda x, i: ag.take_along_axis(x, i, axis=1), INDICES),
    "where": (lambda x, i: ag.where(i, x, x * x), MASK),
    "repeat": (lambda x, i: ag.repeat(x, i, axis=1), np.array([1, 2, 3])),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), np.array([2, 1])),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), np.array([2, 1])),
    "embedding": (lambda x, i: F.embedding(i, x), np.array([1, 1, 0])),
    "one_hot": (lambda x, i: x * F.one_hot(i, 3), np.array([1, 1])),
}


def assigned(x, key, value):
    y = x * 1.0
    y[key] = value
    return y


def added(x, key):
    y = x * 1.0
    y[key] += 3.0 * x[0]
    return y


@pytest.mark.parametrize("name", COMPOSED)
def test_functions_of_operations(name, numpy_backend):
    function, *indices = COMPOSED[name]

    def run(*, change):
        x = ag.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        given = [i.copy() for i in indices]
        y = function(x, *given)
        for array in given if change else ():
            scribble(array)
        return gradients([y], [x])

    same(run(change=True), run(change=False))


# -- lists given as parameters ------------------------------------------------------------------------------------------


def as_lists(value, kept):
    """Give a parameter with its tuples as lists."""
    if type(value) is tuple and value:
        kept.append([as_lists(v, kept) for v in value])
        return kept[-1]
    return value


def listed(sample, *, change):
    call, kept = SampleCall(sample), []
    leaves = [ag.asarray(a, requires_grad=True) for a in call.arrays]
    slots = {a.name for a in call.op.arguments if a.kind == "param"}

    def function(*values, **named):
        bound = call.op.signature.bind(*values, **named)
        for name in slots & set(bound.arguments):
            bound.arguments[name] = as_lists(bound.arguments[name], kept)
        return call.op.entry(*bound.args, **bound.kwargs)

    results = call.tensors(leaves, np.array, function)
    results = results[0] if call.op.rule.outputs is not None else results
    if change:
        for given in kept:
            scribble(given)
    return gradients(results, leaves), kept


TUPLED = [
    s
    for s in SAMPLES
    if OPS[s.op].rule.params
    and OPS[s.op].rule.operands
    and any(type(v) is tuple and v for v in (*s.args, *s.kwargs.values()))
    and s.op not in ("getitem", "setitem", "scatter_add")
]


@pytest.mark.parametrize("sample", TUPLED, ids=str)
def test_lists_given_as_parameters(sample, numpy_backend):
    try:
        expected, kept = listed(sample, change=False)
    except (TypeError, ValueError, AttributeError):
        pytest.skip("takes no list")
    if not kept:
        pytest.skip("has no list")
    same(listed(sample, change=True)[0], expected)


def test_lists_in_the_general_call(numpy_backend):
    shift, x = [1, 1], ag.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):  # no fast way
        y = ag.roll(x, shift, axis=[0, 1])
    shift[:] = [0, 0]
    y[0, 0].backward()
    assert x.grad.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_an_index_tensor_is_a_value(numpy_backend):
    x, i = ag.tensor([1.0, 2.0, 3.0], requires_grad=True), ag.tensor([2, 2, 1])
    y = x[i]
    i[0] = 0
    assert isinstance(i, Tensor)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 2.0]
