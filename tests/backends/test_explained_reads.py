"""What `ag.explain` says is read, beside what a store counts."""

from __future__ import annotations

import threading
import warnings

import dask
import dask.array as da
import numpy as np
import pytest

import agrad as ag

CHUNKS, ROWS = 10, 8
VALUES = np.random.default_rng(0).normal(size=(CHUNKS * ROWS, 3)).astype("f4")
P, V = np.array([1.0, 0.5, -0.5], "f4"), np.array([0.3, -0.2, 0.1], "f4")


class Store:
    """Counts the chunks that it gives."""

    shape, dtype, ndim = VALUES.shape, VALUES.dtype, 2

    def __init__(self):
        self.count, self.lock = 0, threading.Lock()

    def __getitem__(self, key):
        with self.lock:
            self.count += 1
        return VALUES[key]


def losses(store):
    """The loss of parameters in memory; with a store that counts."""

    def loss(p):
        x = ag.asarray(da.from_array(store, chunks=(ROWS, -1), name=False, meta=VALUES[:0]))
        return ag.sum(ag.sqrt(1 + (x @ p - 1) ** 2))

    return loss


def twice(loss, p):
    p = ag.tensor(p, requires_grad=True)
    (g,) = ag.autograd.grad(loss(p), p, create_graph=True)
    return ag.autograd.grad(ag.sum(g * ag.asarray(V)), p)[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda loss, p: loss(ag.tensor(p)),
        lambda loss, p: ag.func.grad(loss)(p),
        lambda loss, p: ag.func.value_and_grad(loss)(ag.tensor(p)),
        lambda loss, p: ag.func.vjp(loss, p)[1](ag.tensor(np.float32(2.0))),
        lambda loss, p: ag.func.hvp(loss, (p,), (V,)),
        lambda loss, p: ag.autograd.functional.hvp(loss, ag.tensor(p), ag.tensor(V))[1],
        lambda loss, p: ag.func.jvp(ag.func.grad(loss), (p,), (V,))[1],
        lambda loss, p: ag.func.hessian(loss)(p),
        lambda loss, p: ag.func.jacfwd(ag.func.grad(loss))(p),
        lambda loss, p: ag.func.jacrev(ag.func.grad(loss))(p),
        twice,
    ],
    ids=["value", "grad", "value_and_grad", "vjp", "hvp", "functional.hvp", "jvp of grad", "hessian", "jacfwd", "jacrev", "grad of grad"],
)  # fmt: skip
def test_as_many_chunks_are_read_as_told(function):
    store = Store()
    loss = losses(store)
    with warnings.catch_warnings(), dask.config.set(scheduler="sync"):
        warnings.simplefilter("ignore", ag.RecomputeWarning)
        seen = ag.explain(function, loss, P)
        assert store.count == 0, "explaining reads nothing"
        ag.compute(function(loss, P))
    assert (seen.chunks, seen.read) == (store.count, store.count * ROWS * 3 * 4)


def test_borders_along_one_axis_are_told():
    import agrad_dask

    def smooth(x):
        return (np.roll(x, 1, 0) + x + np.roll(x, -1, 0)) / 3

    store = Store()
    x = ag.asarray(da.from_array(store, chunks=(ROWS, -1), name=False, meta=VALUES[:0]))
    smoothed = agrad_dask.map_overlap(smooth, x, depth={0: 1}, boundary="reflect")
    plan = ag.explain(smoothed)
    assert store.count == 0
    with dask.config.set(scheduler="sync"):
        found = smoothed.numpy()
    assert (plan.chunks, plan.passes) == (store.count, 1)
    padded = np.concatenate([VALUES[:1], VALUES, VALUES[-1:]])
    np.testing.assert_allclose(found, (padded[:-2] + padded[1:-1] + padded[2:]) / 3, rtol=1e-6)
