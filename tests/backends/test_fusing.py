"""What happens to one chunk runs as one task: same values, fewer tasks, nothing held longer, errors as before."""

from __future__ import annotations

import gc
import pickle
import random
import weakref

import numpy as np
import pytest

import agrad as ag

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
fusing = pytest.importorskip("agrad_dask.fusing")
staging = pytest.importorskip("agrad_dask.staging")
spec = pytest.importorskip("dask._task_spec")

Alias, DataNode, GraphNode, Task, TaskRef = spec.Alias, spec.DataNode, spec.GraphNode, spec.Task, spec.TaskRef

pytestmark = pytest.mark.usefixtures("dask_backend")

F = ag.nn.functional


def combine(*values):
    """Order matters and nothing cancels."""
    total = 1.0
    for i, value in enumerate(values):
        total += (i + 2) * value
    return total % 1000.003


def some_graph(seed):
    """A graph as arrays make them: reads, operations in place, meetings of chunks, broadcasts, fused tasks, aliases."""
    rng = random.Random(seed)
    chunks = rng.randint(2, 12)
    graph, arrays = {}, []

    def add(name, keys):
        arrays.append((name, keys))

    def put(key, *needs, extra=0.0):
        if rng.random() < 0.2 and needs:  # as Dask fuses a chain
            inner = Task((f"inner-{key[0]}", *key[1:]), combine, *map(TaskRef, needs), extra)
            graph[key] = GraphNode.fuse(inner, Task(key, combine, TaskRef(inner.key)))
        elif rng.random() < 0.1 and len(needs) == 1:
            graph[key] = Alias(key, needs[0])
        else:
            graph[key] = Task(key, combine, *map(TaskRef, needs), extra)

    for number in range(rng.randint(1, 3)):
        kind = rng.choice(["data", "read", "one"])
        keys = [(f"source{number}", i, *(0,) * rng.randint(0, 1)) for i in range(1 if kind == "one" else chunks)]
        for i, key in enumerate(keys):
            graph[key] = DataNode(key, 0.5 + i) if kind == "data" else Task(key, combine, 0.25 + i)
        add(f"source{number}", keys)
    for number in range(rng.randint(3, 14)):
        name, kind = f"made{number}", rng.choice(["each", "each", "each", "sum", "shift", "tree"])
        operands = rng.sample(arrays, min(len(arrays), rng.randint(1, 3)))
        if kind == "sum":
            put((name,), *(key for _, keys in operands for key in keys), extra=number)
            add(name, [(name,)])
        elif kind == "tree":
            blocks = operands[0][1]
            parts = [(name, i) for i in range((len(blocks) + 3) // 4)]
            for i, key in enumerate(parts):
                put(key, *blocks[4 * i : 4 * i + 4], extra=number)
            add(name, parts)
        else:
            count = max(len(keys) for _, keys in operands)
            shift = int(kind == "shift")
            for i in range(count):
                needs = [keys[(i + shift) % len(keys)] for _, keys in operands]
                put((name, i), *dict.fromkeys(needs), extra=number)
            add(name, [(name, i) for i in range(count)])
    targets = [key for _, keys in rng.sample(arrays, min(len(arrays), rng.randint(1, 3))) for key in keys]
    return staging.culled(graph, targets), targets


@pytest.mark.parametrize("seed", range(150))
def test_whatever_the_graph_the_values_are_the_same(seed):
    graph, targets = some_graph(seed)
    made = fusing.fused(graph, targets, 1)
    assert spec.convert_legacy_graph(dict(made)).keys() == made.keys()
    for schedule in (dask.local.get_sync, dask.threaded.get):
        assert schedule(dict(made), targets) == dask.local.get_sync(dict(graph), targets)


def test_the_graphs_above_are_fused_at_all():
    sizes = [(len(graph), len(fusing.fused(graph, targets, 1))) for graph, targets in map(some_graph, range(150))]
    assert sum(after < before for before, after in sizes) > 50
    assert max(before / after for before, after in sizes) > 3


class Watched:
    """A scheduler that counts tasks."""

    def __init__(self, monkeypatch):
        self.graphs = []
        monkeypatch.setattr(fusing, "fused", self.fused)

    def fused(self, *args, real=fusing.fused):
        self.graphs.append(real(*args))
        return self.graphs[-1]

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
    assert watched.tasks() < 32 + 32  # and trees of 4 or 8, for the loss and the gradient
    z = X @ w.detach().numpy()
    np.testing.assert_allclose(loss.item(), np.mean(np.logaddexp(0, z) - y * z), rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), X.T @ (1 / (1 + np.exp(-z)) - y) / len(y), rtol=1e-12)


def test_few_chunks_run_side_by_side_as_before(monkeypatch):
    watched = Watched(monkeypatch)
    loss, *_ = logistic(staging.CHUNKS // 2)
    loss.backward()
    assert watched.tasks() > 5 * staging.CHUNKS // 2


def test_under_a_memory_limit_tasks_run_as_planned(monkeypatch):
    watched = Watched(monkeypatch)
    loss, *_ = logistic(32)
    ag.compute(loss, max_memory="1GiB")
    assert not watched.graphs


class Block:
    """A value that tells how many of its kind live."""

    alive = most = 0

    def __init__(self, *_):
        Block.alive += 1
        Block.most = max(Block.most, Block.alive)
        weakref.finalize(self, Block.gone)

    @staticmethod
    def gone():
        Block.alive -= 1


def test_what_is_no_longer_needed_is_let_go():
    graph = {}
    for i in range(20):
        graph["x", i] = Task(("x", i), Block)
        for step in range(10):
            before = ("x", i) if step == 0 else (f"f{step - 1}", i)
            graph[f"f{step}", i] = Task((f"f{step}", i), Block, TaskRef(before))
        graph["last", i] = Task(("last", i), lambda *_: 1, TaskRef(("f9", i)), TaskRef(("f5", i)))
    targets = [("last", i) for i in range(20)]
    made = fusing.fused(graph, targets, 1)
    assert len(made) == 20
    gc.collect()
    Block.most = Block.alive = 0
    assert list(dask.local.get_sync(dict(made), targets)) == [1] * 20
    assert Block.most == 3  # an operand, its result, and the one that waits
    assert Block.alive == 0


def test_an_error_names_the_operation_and_the_line():
    x = ag.asarray(da.from_array(np.stack([np.eye(3)] * 19 + [np.zeros((3, 3))]), chunks=(1, 3, 3)))
    y = ag.linalg.inv(2.0 * x)
    with pytest.raises(np.linalg.LinAlgError, match="Singular") as info:
        ag.compute(ag.sum(y * y))
    line = test_an_error_names_the_operation_and_the_line.__code__.co_firstlineno + 2
    notes = "\n".join(info.value.__notes__)
    assert f"Raised by a task of linalg.inv, called at {__file__}:{line} (block 19" in notes


def test_a_program_travels():
    graph, targets = some_graph(3)
    made = fusing.fused(graph, targets, 1)
    sent = pickle.loads(pickle.dumps(dict(made)))
    assert dask.local.get_sync(sent, targets) == dask.local.get_sync(dict(graph), targets)
