"""What happens to one chunk runs as one task: same values, fewer tasks, nothing held longer, errors as before."""

from __future__ import annotations

import gc
import pickle
import random
import tracemalloc

import numpy as np
import pytest

import agrad as ag

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
computing = pytest.importorskip("agrad_dask.computing")
fusing = pytest.importorskip("agrad_dask.fusing")
runs = pytest.importorskip("agrad_dask.runs")
KERNELS = pytest.importorskip("agrad_dask.kernels").KERNELS
staging = pytest.importorskip("agrad_dask.staging")
spec = pytest.importorskip("dask._task_spec")

DataNode, Task = spec.DataNode, spec.Task

pytestmark = pytest.mark.usefixtures("dask_backend")

F = ag.nn.functional


def some_arrays(seed):
    """Expressions as users write them: elements, statistics, broadcasts, slices, transposes, other chunks, data in memory."""
    rng = random.Random(seed)
    chunks, rows = rng.randint(2, 40), rng.randint(1, 3)
    shape = (chunks * rows - rng.randint(0, rows - 1), rng.choice([1, 3]))
    values = np.random.default_rng(seed).normal(size=shape)
    data = [
        lambda: da.from_array(values, chunks=(rows, shape[1])),
        lambda: da.from_array(values, chunks=(rows, shape[1]), asarray=False, inline_array=True),
        lambda: da.ones(shape, chunks=(rows, shape[1])) * 0.5,
        lambda: da.from_array(values, chunks=(rows, shape[1])).persist(scheduler="sync"),
        lambda: da.map_blocks(numbered, chunks=((rows,) * chunks, (1,)), dtype=float)[: shape[0]],
    ]
    arrays = [rng.choice(data)() for _ in range(rng.randint(1, 3))]
    steps = [
        lambda x, y: da.tanh(x) + y,
        lambda x, y: da.where(x > 0, x, 0.5 * y),
        lambda x, _: x - x.mean(axis=0),
        lambda x, y: x * (1 + da.sum(y * y)),
        lambda x, y: x * (1 + KERNELS["sum"](y * y)),
        lambda x, y: x - KERNELS["mean"](y, axis=0),
        lambda x, _: x - da.max(x, axis=1, keepdims=True),
        lambda x, _: da.exp(-da.fabs(x)).T.T,
        lambda x, _: x @ da.from_array(np.full((x.shape[1], x.shape[1]), 0.25)),
        lambda x, _: da.concatenate([x[1:], x[:1]]).rechunk(x.chunks),
        lambda x, _: (x.T * 2).rechunk((1, 4)).T.rechunk(x.chunks),
        lambda x, y: x + da.broadcast_to(da.sum(y, axis=0) / shape[0], x.shape, chunks=x.chunks),
        lambda x, _: x[:, 0][:, None] * x,
        lambda x, _: x.map_blocks(shifted, dtype=float),
        lambda x, _: da.reshape(x, (*x.shape, 1))[..., 0],
    ]
    for _ in range(rng.randint(3, 12)):
        x, y = (rng.choice(arrays) for _ in range(2))
        if x.chunks == y.chunks or rng.random() < 0.5:
            arrays.append(rng.choice(steps)(x, y if x.shape == y.shape else x))
    ends = [
        lambda x: x,
        lambda x: da.sum(x),
        lambda x: da.mean(x, axis=0),
        lambda x: da.sum(x, axis=1),
        lambda x: x.T @ x,
        lambda x: KERNELS["matmul"](x.T, x),
        lambda x: KERNELS["max"](x, axis=0, keepdims=True),
        lambda x: x[: max(1, rows)],
        lambda x: da.var(x),
        lambda x: da.cumsum(x, axis=0),
    ]
    return [rng.choice(ends)(rng.choice(arrays)) for _ in range(rng.randint(1, 4))]


def numbered(block_info=None):
    at, shape = block_info[None]["chunk-location"], block_info[None]["chunk-shape"]
    return np.full(shape, 0.1 * at[0])


def shifted(x, block_id=None):
    return x + 0.01 * block_id[0]


@pytest.mark.parametrize("seed", range(80))
def test_whatever_the_arrays_the_values_are_the_same(seed, monkeypatch):
    arrays = some_arrays(seed)
    monkeypatch.setattr(staging, "CHUNKS", 2)
    monkeypatch.setattr(fusing, "GROUPS", (1, 4, 64)[seed % 3])
    with dask.config.set(scheduler=("sync", "threads")[seed % 2], num_workers=2):
        for value, expected in zip(computing.values(*arrays), dask.compute(*arrays), strict=True):
            np.testing.assert_array_equal(value, expected)


def test_the_arrays_above_have_runs_at_all(monkeypatch):
    monkeypatch.setattr(staging, "CHUNKS", 2)
    monkeypatch.setattr(fusing, "GROUPS", 4)
    found = Watched(monkeypatch)
    with dask.config.set(scheduler="sync"):
        for seed in range(40):
            computing.values(*some_arrays(seed))
    groups = [steps for graph in found.graphs for node in graph.values() for steps in [steps_of(node)] if any(steps)]
    assert len(groups) > 100
    assert sum(sum(steps) > 1 for steps in groups) > 20
    assert sum(not all(steps) for steps in groups) > 10, "sums are made with what they add up"


def steps_of(node):
    """Return for each step of a task whether it is what a run does at a place."""
    if not isinstance(node, Task) or node.func is not fusing.run_group:
        return []
    return [type(task) is fusing.PatternInstance for task, *_ in node.args[1].made().steps]


class Watched:
    """Keeps the graphs that are computed."""

    def __init__(self, monkeypatch):
        self.graphs = []
        monkeypatch.setattr(runs.Runs, "graph", self.watching(runs.Runs.graph))

    def watching(self, real):
        def graph(plan):
            self.graphs.append(real(plan))
            return self.graphs[-1]

        return graph

    def tasks(self):
        return sum(not isinstance(node, DataNode) for node in self.graphs[0].values())


def logistic(chunks, rows=6):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(chunks * rows, 3)), rng.integers(0, 2, chunks * rows) * 1.0
    w = ag.asarray(rng.normal(size=3), requires_grad=True)
    x = ag.asarray(da.from_array(X, chunks=(rows, 3)))
    return F.binary_cross_entropy_with_logits(x @ w, ag.asarray(da.from_array(y, chunks=rows))), w, X, y


def test_a_recorded_loss_and_its_gradient_are_one_task_per_chunk(monkeypatch):
    watched = Watched(monkeypatch)
    loss, w, X, y = logistic(32)
    loss.backward()
    assert watched.tasks() < 32 + 32  # and trees of 4, for the loss and the gradient
    z = X @ w.detach().numpy()
    np.testing.assert_allclose(loss.item(), np.mean(np.logaddexp(0, z) - y * z), rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), X.T @ (1 / (1 + np.exp(-z)) - y) / len(y), rtol=1e-12)


def test_small_neighbours_and_their_sums_share_a_task(monkeypatch):
    watched = Watched(monkeypatch)
    loss, *_ = logistic(1000)
    loss.backward()
    assert watched.tasks() < 200


def test_few_chunks_run_side_by_side_as_before(monkeypatch):
    watched = Watched(monkeypatch)
    loss, *_ = logistic(staging.CHUNKS // 2)
    loss.backward()
    assert watched.tasks() > 5 * staging.CHUNKS // 2


def test_under_a_memory_limit_that_suffices_the_same_tasks_run(monkeypatch):
    watched = Watched(monkeypatch)
    loss, *_ = logistic(32)
    ag.compute(loss, max_memory="1GiB")
    assert watched.graphs


class Block(np.ndarray):
    """A block that tells how many of its kind live."""

    alive = most = 0

    def __array_finalize__(self, other):
        Block.alive += 1
        Block.most = max(Block.most, Block.alive)

    def __del__(self):
        Block.alive -= 1


def made_block(block_info=None):
    return np.ones(block_info[None]["chunk-shape"]).view(Block)


@pytest.mark.parametrize("groups", [64, 4])
def test_what_is_no_longer_needed_is_let_go(groups, monkeypatch):
    monkeypatch.setattr(fusing, "GROUPS", groups)
    x = y = da.map_blocks(made_block, chunks=((2,) * 64,), dtype=float, meta=np.empty(0))
    for _ in range(10):
        y = y + 1.0
    total = da.sum((y * x).map_blocks(np.asarray))
    gc.collect()
    Block.most = Block.alive = 0
    with dask.config.set(scheduler="sync"):
        assert computing.values(total) == [64 * 2 * 11.0]
    assert Block.most <= 4  # an operand, its result, the one that waits, and a view
    assert Block.alive == 0


def test_an_error_names_the_operation_and_the_line():
    x = ag.asarray(da.from_array(np.stack([np.eye(3)] * 19 + [np.zeros((3, 3))]), chunks=(1, 3, 3)))
    y = ag.linalg.inv(2.0 * x)
    with pytest.raises(np.linalg.LinAlgError, match="Singular") as info:
        ag.compute(ag.sum(y * y))
    line = test_an_error_names_the_operation_and_the_line.__code__.co_firstlineno + 2
    notes = "\n".join(info.value.__notes__)
    assert f"Raised by a task of linalg.inv, called at {__file__}:{line} (block 19" in notes


def test_a_task_travels(monkeypatch):
    watched = Watched(monkeypatch)
    loss, *_held = logistic(32)
    loss.backward()
    graph = watched.graphs[0]
    targets = [key for key in graph if not any(key in node.dependencies for node in graph.values())]
    sent = pickle.loads(pickle.dumps(graph))
    for value, expected in zip(dask.local.get_sync(sent, targets), dask.local.get_sync(graph, targets), strict=True):
        np.testing.assert_array_equal(value, expected)


# -- what is written twice --------------------------------------------------------------------------------------------


def logistic_twice(z, y):
    return ag.mean(ag.maximum(z(), 0.0) - z() * y[:, None] + ag.log1p(ag.exp(-ag.abs(z()))))


def softplus(z, y):
    return ag.mean(ag.nn.functional.softplus(z()) - z() * y[:, None])


def squares_twice(z, y):
    return ag.mean((z() - y[:, None]) ** 2 + ag.abs(z() - y[:, None]) * (z() - y[:, None]) ** 2)


@pytest.mark.parametrize("loss", [logistic_twice, softplus, squares_twice])
def test_a_product_that_is_written_twice_is_not_held(loss):
    rows, count, width = 1000, 24, 64
    X = ag.asarray(da.random.default_rng(0).random((rows * count, 4), chunks=(rows, 4)))
    y = ag.asarray(da.zeros(rows * count, chunks=rows))
    w = ag.asarray(np.random.default_rng(1).normal(size=(4, width)), requires_grad=True)
    with dask.config.set(scheduler="synchronous"):
        z = X.numpy() @ w.detach().numpy()
        expected = loss(lambda: ag.asarray(z), ag.asarray(y.numpy())).item()
        tracemalloc.start()
        try:
            value = loss(lambda: X @ w, y)
            value.backward()
            found = value.item()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    chunk = rows * width * 8
    assert peak < 10 * chunk, "some blocks of one chunk at a time, and the plan"
