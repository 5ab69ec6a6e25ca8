"""What `ag.explain` says is read, beside what a store counts."""

from __future__ import annotations

import os
import subprocess
import sys
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


def two_products():
    """Products of two stores with a parameter each, and the stores: each gradient reads one of them."""
    stores = Store(), Store()
    parameters = [ag.tensor(P, requires_grad=True) for _ in stores]
    both = [
        ag.sum(ag.asarray(da.from_array(store, chunks=(ROWS, -1), name=False, meta=VALUES[:0])) @ p)
        for store, p in zip(stores, parameters, strict=True)
    ]
    return ag.stack(both), parameters, stores


def test_gradients_of_dropped_parameters_are_not_computed():
    out, (kept, dropped), stores = two_products()
    edge = ag.autograd.graph.get_gradient_edge(dropped)
    del dropped
    ones = ag.ones(2, dtype="float32")
    with dask.config.set(scheduler="sync"):
        seen = ag.explain(lambda: out.backward(ones, retain_graph=True))
        assert [store.count for store in stores] == [0, 0]
        out.backward(ones, retain_graph=True)
        assert [store.count for store in stores] == [seen.chunks, 0] == [CHUNKS, 0]
        np.testing.assert_allclose(kept.grad.numpy(), VALUES.sum(0), rtol=1e-4)
        (by_edge,) = ag.autograd.grad(out, edge, ones, retain_graph=True)  # asked for by name
        np.testing.assert_allclose(by_edge.numpy(), VALUES.sum(0), rtol=1e-4)
        assert [store.count for store in stores] == [CHUNKS, CHUNKS]
        del kept
        assert ag.explain(lambda: out.backward(ones, retain_graph=True)).passes == 0
        out.backward(ones)  # no leaf is left
        assert [store.count for store in stores] == [CHUNKS, CHUNKS]


def test_gradients_of_dropped_parameters_with_hooks_are_computed():
    out, (kept, dropped), stores = two_products()
    found = []
    dropped.register_hook(found.append)
    del dropped
    with dask.config.set(scheduler="sync"):
        out.backward(ag.ones(2, dtype="float32"))
    np.testing.assert_allclose(found[0].numpy(), VALUES.sum(0), rtol=1e-4)
    np.testing.assert_allclose(kept.grad.numpy(), VALUES.sum(0), rtol=1e-4)
    assert [store.count for store in stores] == [CHUNKS, CHUNKS]


def test_what_cumulative_sums_begin_with_is_not_read():
    store = Store()
    x = ag.asarray(da.from_array(store, chunks=(ROWS, -1), name=False, meta=VALUES[:0]))
    total = ag.sum(ag.cumulative_sum(x, axis=0) ** 2)
    plan = ag.explain(total)
    with dask.config.set(scheduler="sync"):
        found = total.item()
    np.testing.assert_allclose(found, (np.cumsum(VALUES, 0) ** 2).sum(), rtol=1e-5)
    assert (plan.chunks, plan.read) == (store.count, VALUES.nbytes)


def test_reads_in_tasks_that_dask_fused_are_told():
    stores = Store(), Store()
    x, y = (ag.asarray(da.from_array(store, chunks=(ROWS, -1), name=False, meta=VALUES[:0])) for store in stores)
    w = ag.tensor(P, requires_grad=True)
    error = x * w - y
    loss = ag.sum(ag.concat([error[:20], error[40:]]) ** 2)
    plan = ag.explain(loss)
    with dask.config.set(scheduler="sync"):
        found = loss.item()
    np.testing.assert_allclose(found, ((VALUES * (P - 1))[[*range(20), *range(40, 80)]] ** 2).sum(), rtol=1e-5)
    assert plan.chunks == sum(store.count for store in stores) == 16


def test_the_tasks_that_are_told_are_those_that_run(monkeypatch):
    """Dask's order goes by names, and what is held by the order."""
    from dask.callbacks import Callback

    from agrad_dask import task_memory

    x = ag.asarray(da.from_array(Store(), chunks=(ROWS, -1), name=False, meta=VALUES[:0]))
    w = ag.tensor(P, requires_grad=True)
    product = ag.tanh(x @ w)
    loss = ag.sum((product[1:] - product[:-1]) ** 2)
    told, ran, order = set(), [], task_memory.order

    def noted(graph):
        told.update(graph)
        return order(graph)

    monkeypatch.setattr(task_memory, "order", noted)
    plan = ag.explain(loss, backward=True)
    with dask.config.set(scheduler="sync"), Callback(pretask=lambda key, *_: ran.append(key)):
        loss.backward()
    assert len(ran) == plan.tasks > CHUNKS
    assert told.issuperset(ran)


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


#: Writes an array to a store, in a process of its own, and prints what was told of that beside what the process grew by.
WRITES = """
import sys, tempfile
import dask, dask.array as da, numpy as np, zarr
import agrad as ag
from agrad_dask import arenas

def status(key):
    with open("/proc/self/status") as file:
        return 1024 * int(next(line.split()[1] for line in file if line.startswith(key)))

codecs = {"none": None, "zstd": "auto", "gzip": zarr.codecs.GzipCodec(level=1)}[sys.argv[1]]
folder = tempfile.mkdtemp(dir=sys.argv[2])
noise = np.random.default_rng(0).integers(0, 2**31, (8, 2**20), "i4")

def write(name, columns, width=8):
    data = da.from_array(noise[:width, :columns], chunks=(2, columns)).map_blocks(np.copy)
    x = ag.asarray(data)
    return lambda: ag.to_zarr(x + 1, f"{folder}/{name}", compressors=codecs)

with dask.config.set(num_workers=2):
    write("small", 100)()
    run = write("large", 2**20)
    told = ag.explain(run).peak
    import os
    assert sorted(os.listdir(folder)) == ["small"], "explaining creates no store"
    arenas.trim()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    run()
    print(told, status("VmHWM") - before)
"""


@pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="the system does not tell the peak of a process"
)
@pytest.mark.parametrize("codecs", ["none", "zstd", "gzip"])
def test_writing_takes_no_more_than_told_of_the_store_at_hand(codecs, tmp_path):
    pytest.importorskip("zarr")
    own = subprocess.run([sys.executable, "-c", WRITES, codecs, tmp_path], capture_output=True, text=True, check=True)
    told, real = map(int, own.stdout.split())
    assert 2**23 <= real <= told
    assert codecs == "gzip" or told < 2**20 * (90 if codecs == "zstd" else 70), told / 2**20
