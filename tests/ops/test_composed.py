"""Functions of the namespace that are no ops of their own but made of some: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag

X, Y, Z = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]), np.array([6.0, 7.0])


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


def leaves(backend, *arrays):
    return [ag.asarray(a, device=backend, requires_grad=True) for a in arrays]


def pull(results, operands, backend):
    """Give the gradients for cotangents that number all elements of the results."""
    start, cotangents = 1, []
    for result in results:
        cotangents.append(np.arange(float(start), start + result.size).reshape(result.shape))
        start += result.size
    found = ag.autograd.grad(results, operands, [ag.asarray(g, device=backend) for g in cotangents])
    return cotangents, [host(g) for g in found]


def test_broadcast_arrays(backend):
    x, y = leaves(backend, X[:, None], Y)
    a, b = ag.broadcast_arrays(x, y)
    np.testing.assert_array_equal(host(a), np.broadcast_to(X[:, None], (2, 3)))
    np.testing.assert_array_equal(host(b), np.broadcast_to(Y, (2, 3)))
    (g, h), (by_x, by_y) = pull([a, b], [x, y], backend)
    np.testing.assert_array_equal(by_x, g.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(by_y, h.sum(axis=0))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing, backend):
    operands = leaves(backend, X, Y, Z)
    grids = ag.meshgrid(*operands, indexing=indexing)
    for grid, wanted in zip(grids, np.meshgrid(X, Y, Z, indexing=indexing), strict=True):
        np.testing.assert_array_equal(host(grid), wanted)
    cotangents, found = pull(grids, operands, backend)
    order = [1, 0, 2] if indexing == "xy" else [0, 1, 2]
    for g, got, axis in zip(cotangents, found, order, strict=True):
        np.testing.assert_array_equal(got, g.sum(axis=tuple(i for i in range(3) if i != axis)))


def test_meshgrid_of_one_and_of_none(backend):
    (x,) = leaves(backend, X)
    (grid,) = ag.meshgrid(x)
    assert grid.tolist() == [1.0, 2.0]
    assert ag.meshgrid() == ()
    with pytest.raises(ValueError, match="one-dimensional"):
        ag.meshgrid(ag.asarray(np.eye(2), device=backend))
    with pytest.raises(ValueError, match="indexing must be"):
        ag.meshgrid(x, indexing="yx")


def test_full_of_a_tensor(backend):
    (v,) = leaves(backend, np.array(2.5))
    made = ag.full((2, 3), v)
    assert made.shape == (2, 3)
    made.backward(ag.ones_like(made.detach()))
    assert v.grad.item() == 6.0
    like = ag.full_like(ag.asarray(X, device=backend), v)
    assert like.tolist() == [2.5, 2.5]
    (g,) = ag.autograd.grad(like.sum(), v)
    assert g.item() == 2.0


def test_an_array_of_tensors(backend):
    a, b = leaves(backend, np.array(1.5), np.array(2.5))
    made = ag.asarray([[a, b], [b, b * 2]])
    assert made.tolist() == [[1.5, 2.5], [2.5, 5.0]]
    made.backward(ag.asarray([[1.0, 10.0], [100.0, 1000.0]], device=backend))
    assert a.grad.item() == 1.0
    assert b.grad.item() == 2110.0


def test_asarray_of_a_tensor_stays_in_the_graph(backend):
    (x,) = leaves(backend, X)
    assert ag.asarray(x) is x
    copied = ag.asarray(x, copy=True)
    assert copied is not x
    single = ag.asarray(x, dtype="float32")
    (copied + single).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert x.grad.dtype == x.dtype


def test_clone(backend):
    (x,) = leaves(backend, X)
    (x.clone() * ag.asarray([3.0, 5.0], device=backend)).sum().backward()
    assert x.grad.tolist() == [3.0, 5.0]


@pytest.mark.parametrize(
    ("name", "args", "wanted"),
    [
        ("flatten", (), lambda x: x.reshape(-1)),
        ("flatten", (1,), lambda x: x.reshape(2, -1)),
        ("reshape", (3, -1), lambda x: x.reshape(3, -1)),
        ("view", ((4, 3),), lambda x: x.reshape(4, 3)),
        ("transpose", (0, 2), lambda x: x.transpose(2, 1, 0)),
        ("permute", (2, 0, 1), lambda x: x.transpose(2, 0, 1)),
        ("unsqueeze", (1,), lambda x: x[:, None]),
        ("repeat", (2, 1, 1), lambda x: np.tile(x, (2, 1, 1))),
        ("expand", (4, -1, -1, -1), lambda x: np.broadcast_to(x, (4, *x.shape))),
        ("sum", (1,), lambda x: x.sum(1)),
        ("mean", ((0, 2),), lambda x: x.mean((0, 2))),
        ("cumsum", (1,), lambda x: x.cumsum(1)),
        ("clamp", (3.0, 8.0), lambda x: x.clip(3.0, 8.0)),
    ],
)
def test_methods(name, args, wanted, backend):
    """Every method gives what NumPy gives, and its gradient matches the change of a weighted sum."""
    data = np.arange(0.5, 12.5).reshape(2, 3, 2)
    (x,) = leaves(backend, data)
    if not hasattr(x, name):
        pytest.skip(f"Tensor has no {name}")
    result = getattr(x, name)(*args)
    np.testing.assert_allclose(host(result), wanted(data))
    (g,), (got,) = pull([result], [x], backend)
    steps = np.eye(data.size).reshape(-1, *data.shape) * 1e-3
    numerical = [((wanted(data + e) - wanted(data - e)) * g).sum() / 2e-3 for e in steps]
    np.testing.assert_allclose(got.ravel(), numerical, rtol=1e-9, atol=1e-9)
