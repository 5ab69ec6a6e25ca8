"""What is sorted: NumPy's algorithm by default, which need not keep the order of equal elements, or a stable one."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp

SEED = np.random.default_rng(3)
TIES = SEED.integers(0, 40, (3, 500)) * 0.25
NANS = np.where(TIES == 0.25, np.nan, TIES)
HOW = [{}, {"kind": None}, {"kind": "quicksort"}, {"kind": "heapsort"}, {"kind": "mergesort"}, {"kind": "stable"}]
HOW += [{"stable": True}, {"stable": False}]
STABLE = HOW[4:7]
BOTH = pytest.mark.parametrize("module", [np, anp], ids=["numpy", "module"])


@BOTH
@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize(
    "values", [TIES, NANS, TIES.astype("int64"), TIES.astype("float32")], ids=["ties", "nan", "int", "single"]
)
def test_values_are_numpys(module, how, values):
    for axis in (-1, 0, None):
        found = module.sort(ag.asarray(values), axis=axis, **how)
        np.testing.assert_array_equal(found.detach(), np.sort(values, axis=axis, **how))
        order = module.argsort(ag.asarray(values), axis=axis, **how).detach().numpy()
        expected = np.argsort(values, axis=axis, kind="stable")
        if how in STABLE:
            np.testing.assert_array_equal(order, expected)
        flat = values.ravel() if axis is None else values
        along = 0 if axis is None else axis
        np.testing.assert_array_equal(np.take_along_axis(flat, order, along), np.take_along_axis(flat, expected, along))


@BOTH
@pytest.mark.parametrize("how", HOW, ids=str)
def test_the_gradient_goes_back_to_elements_of_that_value(module, how):
    """By a permutation that sorts: among equal elements any is one; a stable sort has one alone."""
    values, weights = TIES[0], np.cos(np.arange(500.0))
    found = ag.grad(lambda x: module.sum(module.sort(x, **how) * weights))(values)
    order = np.argsort(values, kind="stable")
    if how in STABLE:
        np.testing.assert_array_equal(found[order], weights)
    np.testing.assert_array_equal(np.sort(found), np.sort(weights))
    for value in np.unique(values):
        np.testing.assert_array_equal(np.sort(found[values == value]), np.sort(weights[np.sort(values) == value]))
    _, pushed = ag.func.jvp(lambda x: module.sort(x, **how), (values,), (weights,))
    assert pushed @ weights == pytest.approx(found @ weights)  # forward and reverse take the same permutation


def test_partitions_and_what_the_standard_sorts():
    found = ag.asarray(anp.partition(TIES[0], 7))
    np.testing.assert_array_equal(np.sort(found), np.sort(TIES[0]))
    assert found[7].item() == np.sort(TIES[0])[7]
    places = anp.argpartition(TIES[0], 7).numpy()
    assert (TIES[0][places[:7]] <= TIES[0][places[7]]).all()
    np.testing.assert_array_equal(ag.argsort(TIES), np.argsort(TIES, kind="stable"))
    np.testing.assert_array_equal(anp.lexsort((TIES[1], TIES[0])), np.lexsort((TIES[1], TIES[0])))
