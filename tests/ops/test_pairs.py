"""PyTorch's pairs of values and indices, where its spelling asks for them; the standard's values elsewhere."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import agrad as ag

X = [[2.0, 5.0, 5.0, 1.0], [3.0, 3.0, 0.5, 3.0]]

#: Calls, with PyTorch's values and indices, and the gradient of the values weighted by cos(0), cos(1), ...
PAIRS = [
    ("lib.max(x, dim=1)", [5.0, 3.0], [1, 0], [[0.0, 1.0, 0.0, 0.0], [0.540302, 0.0, 0.0, 0.0]]),
    ("lib.max(x, 1, True)", [[5.0], [3.0]], [[1], [0]], [[0.0, 1.0, 0.0, 0.0], [0.540302, 0.0, 0.0, 0.0]]),
    (
        "lib.max(x, 0, keepdim=True)",
        [[3.0, 5.0, 5.0, 3.0]],
        [[1, 0, 0, 1]],
        [[0.0, 0.540302, -0.416147, 0.0], [1.0, 0.0, 0.0, -0.989992]],
    ),
    ("x.max(dim=0)", [3.0, 5.0, 5.0, 3.0], [1, 0, 0, 1], [[0.0, 0.540302, -0.416147, 0.0], [1.0, 0.0, 0.0, -0.989992]]),
    ("lib.min(x, 1)", [1.0, 0.5], [3, 2], [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.540302, 0.0]]),
    ("x.min(dim=-1, keepdim=True)", [[1.0], [0.5]], [[3], [2]], [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.540302, 0.0]]),
    ("lib.median(x, 1)", [2.0, 3.0], [0, 0], [[1.0, 0.0, 0.0, 0.0], [0.540302, 0.0, 0.0, 0.0]]),
    ("x.median(0)", [2.0, 3.0, 0.5, 1.0], [0, 1, 1, 0], [[1.0, 0.0, 0.0, -0.989992], [0.0, 0.540302, -0.416147, 0.0]]),
    ("x.median(dim=1, keepdim=True)", [[2.0], [3.0]], [[0], [0]], [[1.0, 0.0, 0.0, 0.0], [0.540302, 0.0, 0.0, 0.0]]),
    (
        "lib.kthvalue(x, 2, 0)",
        [3.0, 5.0, 5.0, 3.0],
        [1, 0, 0, 1],
        [[0.0, 0.540302, -0.416147, 0.0], [1.0, 0.0, 0.0, -0.989992]],
    ),
    (
        "x.kthvalue(1, dim=0, keepdim=True)",
        [[2.0, 3.0, 0.5, 1.0]],
        [[0, 1, 1, 0]],
        [[1.0, 0.0, 0.0, -0.989992], [0.0, 0.540302, -0.416147, 0.0]],
    ),
    (
        "lib.cummax(x, 1)",
        [[2.0, 5.0, 5.0, 5.0], [3.0, 3.0, 3.0, 3.0]],
        [[0, 1, 2, 2], [0, 1, 1, 3]],
        [[1.0, 0.540302, -1.406139, 0.0], [-0.653644, 1.243832, 0.0, 0.753902]],
    ),
    (
        "x.cummin(0)",
        [[2.0, 5.0, 5.0, 1.0], [2.0, 3.0, 0.5, 1.0]],
        [[0, 0, 0, 0], [0, 1, 1, 0]],
        [[0.346356, 0.540302, -0.416147, -0.23609], [0.0, 0.283662, 0.96017, 0.0]],
    ),
    (
        "x.cummax(dim=1)",
        [[2.0, 5.0, 5.0, 5.0], [3.0, 3.0, 3.0, 3.0]],
        [[0, 1, 2, 2], [0, 1, 1, 3]],
        [[1.0, 0.540302, -1.406139, 0.0], [-0.653644, 1.243832, 0.0, 0.753902]],
    ),
    (
        "lib.sort(x, 1)",
        [[1.0, 2.0, 5.0, 5.0], [0.5, 3.0, 3.0, 3.0]],
        [[3, 0, 1, 2], [2, 0, 1, 3]],
        [[0.540302, -0.416147, -0.989992, 1.0], [0.283662, 0.96017, -0.653644, 0.753902]],
    ),
    (
        "lib.sort(x, dim=0, descending=True)",
        [[3.0, 5.0, 5.0, 3.0], [2.0, 3.0, 0.5, 1.0]],
        [[1, 0, 0, 1], [0, 1, 1, 0]],
        [[-0.653644, 0.540302, -0.416147, 0.753902], [1.0, 0.283662, 0.96017, -0.989992]],
    ),
    (
        "lib.sort(x, -1, True)",
        [[5.0, 5.0, 2.0, 1.0], [3.0, 3.0, 3.0, 0.5]],
        [[1, 2, 0, 3], [0, 1, 3, 2]],
        [[-0.416147, 1.0, 0.540302, -0.989992], [-0.653644, 0.283662, 0.753902, 0.96017]],
    ),
    (
        "x.sort(1)",
        [[1.0, 2.0, 5.0, 5.0], [0.5, 3.0, 3.0, 3.0]],
        [[3, 0, 1, 2], [2, 0, 1, 3]],
        [[0.540302, -0.416147, -0.989992, 1.0], [0.283662, 0.96017, -0.653644, 0.753902]],
    ),
    ("lib.mode(x, 1)", [5.0, 3.0], [2, 3], [[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.540302]]),
    ("x.mode(1, True)", [[5.0], [3.0]], [[2], [3]], [[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.540302]]),
]


@pytest.mark.parametrize(("call", "values", "indices", "gradient"), PAIRS, ids=[row[0] for row in PAIRS])
def test_pairs_are_pytorchs(backend, call, values, indices, gradient):
    x = ag.tensor(X, device=backend, requires_grad=True)
    found = eval(call, {"lib": ag, "x": x})
    assert found._fields == ("values", "indices")
    assert found.values.tolist() == values
    assert found.indices.tolist() == indices
    weights = np.cos(np.arange(found.values.numel())).reshape(found.values.shape)
    (found.values * ag.asarray(weights, device=backend)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), gradient, atol=1e-6)


def test_the_standards_spelling_gives_values_whose_ties_share():
    x = ag.tensor(X, requires_grad=True)
    for found in (ag.max(x, axis=1), x.max(axis=1), x.max(1), ag.namespace().max(x, axis=1), ag.amax(x, 1)):
        assert isinstance(found, ag.Tensor)
        (gradient,) = ag.autograd.grad(found.sum(), x)
        third = 1 / 3
        np.testing.assert_allclose(gradient.numpy(), [[0, 0.5, 0.5, 0], [third, third, 0, third]])
    assert ag.sort(x, axis=0).tolist() == np.sort(X, axis=0).tolist()
    assert ag.sort(x, descending=True).tolist() == np.flip(np.sort(X), 1).tolist()
    assert ag.median(x, axis=1).tolist() == [3.5, 3.0]
    assert ag.max(x).item() == 5.0
    assert ag.max(x, axis=1, keepdims=True).shape == (2, 1)


def test_two_tensors_are_compared_element_by_element():
    x, y = ag.tensor([1.0, 4.0]), ag.tensor([3.0, 2.0])
    assert ag.max(x, y).tolist() == [3.0, 4.0]
    assert ag.min(x, y).tolist() == [1.0, 2.0]


def test_without_axes():
    x = ag.tensor(3.0, requires_grad=True)
    for found in (x.max(dim=0), ag.min(x, -1), x.median(0), x.mode(), x.kthvalue(1), x.cummax(0), x.sort()):
        assert (found.values.item(), found.indices.item()) == (3.0, 0)
    x.max(dim=0).values.backward()
    assert x.grad.item() == 1.0


def test_nan_is_picked():
    x = ag.tensor([[1.0, np.nan, 2.0, np.nan]])
    for found in (x.max(dim=1), x.min(dim=1), x.median(dim=1)):  # as in PyTorch: the first one
        assert np.isnan(found.values.item())
        assert found.indices.item() == 1


def test_in_transforms():
    x = ag.tensor(X)
    assert ag.vmap(lambda row: ag.max(row, 0).indices)(x).tolist() == [1, 0]
    assert ag.vmap(lambda row: row.mode().values)(x).tolist() == [5.0, 3.0]
    _, tangent = ag.func.jvp(lambda x: x.max(dim=1).values, (x,), (ag.arange(8.0).reshape(2, 4),))
    assert tangent.tolist() == [1.0, 4.0]
    step = ag.compile(lambda x: ag.max(x, dim=1).values.sum())
    assert step(x) == step(x) == 8.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.max(dim=2), IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        (lambda x: ag.max(x, (0, 1)), TypeError, "max(): argument 'dim' must be int, not tuple"),
        (lambda x: x.median((0, 1)), TypeError, "median(): argument 'dim' must be int, not tuple"),
        (lambda x: ag.max(x, 1, axis=0), TypeError, "max() got axis=0 and dim=1, which are one argument"),
        (lambda x: x.min(keepdim=True), TypeError, "min(): keepdim= needs PyTorch's dim="),
        (lambda x: x.kthvalue(9), RuntimeError, "kthvalue(): selected number k out of range for dimension -1"),
        (lambda x: x[:, :0].max(dim=1), IndexError, "max(): Expected reduction dim 1 to have non-zero size."),
    ],
)
def test_wrong_axes_are_refused(call, error, message):
    with pytest.raises(error) as raised:
        call(ag.tensor(X))
    assert message in str(raised.value)


def unpacked(x):
    values, indices = x.max(1)
    return values, indices


#: What takes the rows of values for PyTorch's pair.
TAKEN = [unpacked, lambda x: x.max(1)[0], lambda x: x.min(1)[1]]


@pytest.mark.parametrize("call", TAKEN)
def test_rows_that_are_taken_for_a_pair_warn_at_the_line(call):
    with pytest.warns(UserWarning, match=r"x\.m..\(1\) gives the values alone, .* write x\.m..\(dim=1\)") as said:
        call(ag.tensor(X))
    assert said[0].filename == __file__


def named(x):
    first, second = x.max(axis=1)
    values, indices = x.max(dim=1)
    return first, second, values, indices, x.max(axis=1)[0], x.max(1)[:1], x.max(1)[-1], x.max(1), x.max()


def test_others_do_not_warn():
    x = ag.tensor(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named(x)
        x.std(axis=0), x.std(correction=0), x.var(ddof=1), x.std(unbiased=True), x.var(False), x.std(0), x.var(0, 1)
        np.std(x), np.var(x), np.max(x, 1)[0], ag.std(x), ag.var(x)


@pytest.mark.parametrize("call", [lambda x: x.std(), lambda x: x.var(), lambda x: x.std(dim=1), lambda x: x.var(dim=0)])
def test_deviations_without_a_word_on_their_divisor_warn_at_the_line(call):
    with pytest.warns(UserWarning, match=r"\(\) divides by n, as NumPy's .*; PyTorch's divides by n - 1") as said:
        call(ag.tensor(X))
    assert said[0].filename == __file__


def test_code_for_numpy_is_not_warned():
    program = "values, indices = x.max(1); x.std(); x.var(); x.max(0)[0]"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(f"import agrad.numpy as np; {program}", {"x": ag.tensor(X)})
