"""The Dask backend on a `distributed` cluster: the same values, values kept there, lost workers, errors, progress."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from support import cluster_of

import agrad as ag
from agrad.plugin import manager
from agrad.view import tracebacks

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
from dask._task_spec import DataNode  # noqa: E402 (needs Dask)

import agrad_dask  # noqa: E402 (needs Dask)
from agrad_dask import computing  # noqa: E402 (needs Dask)


@pytest.fixture(scope="module")
def workers():
    with cluster_of(n_workers=2, processes=True) as cluster:
        yield cluster


@pytest.fixture
def processes(workers):
    """Give a client, which is the default one, where Dask computes, until the test ends."""
    with distributed.Client(workers) as client:
        yield client


@pytest.fixture
def threads():
    with cluster_of(n_workers=2, processes=False) as cluster, distributed.Client(cluster) as client:
        yield client


def rows(block_info=None):
    start, stop = block_info[None]["array-location"][0]
    return np.random.default_rng(start).normal(size=(stop - start, 8))


def data(function=rows, count=16):
    x = da.map_blocks(function, chunks=((500,) * count, (8,)), dtype=float, meta=np.empty((0, 0)))
    return ag.asarray(x)


def standardised(x):
    w = ag.asarray(da.full(8, 0.5, chunks=-1), requires_grad=True)
    loss = ag.mean(((x - ag.mean(x, axis=0)) / ag.std(x, axis=0) @ w - 1) ** 2)
    loss.backward()
    return loss._raw, w.grad._raw


def test_the_same_values_as_on_threads(processes):
    loss, grad = computing.values(*standardised(data()))
    with dask.config.set(scheduler="threads"):
        expected = computing.values(*standardised(data()))
    np.testing.assert_allclose(loss, expected[0], rtol=1e-13)  # a worker's BLAS has one thread
    np.testing.assert_allclose(grad, expected[1], rtol=1e-12)


def test_what_happens_to_a_chunk_is_one_task_there_too(processes, monkeypatch):
    sent = []
    real = computing._PassScheduler.shipped
    monkeypatch.setattr(
        computing._PassScheduler, "shipped", lambda self, graph, *a: sent.append(len(graph)) or real(self, graph, *a)
    )
    loss, grad = computing.values(*standardised(data()))
    with dask.config.set(scheduler="threads"):
        expected = computing.values(*standardised(data()))
    np.testing.assert_allclose([loss, *grad], [expected[0], *expected[1]], rtol=1e-12)
    assert sum(sent) < 16 * 10, "three passes: a mean, a deviation, the rest"


@pytest.mark.parametrize("chunks", [4, 20])
def test_an_error_names_the_operation_and_the_block_wherever_it_runs(processes, chunks):
    blocks = np.stack([np.eye(3)] * (chunks - 1) + [np.zeros((3, 3))])
    y = ag.linalg.inv(2.0 * ag.asarray(da.from_array(blocks, chunks=(1, 3, 3))))
    with pytest.raises(np.linalg.LinAlgError, match="Singular") as info:
        ag.compute(ag.sum(y * y))
    line = test_an_error_names_the_operation_and_the_block_wherever_it_runs.__code__.co_firstlineno + 3
    notes = "\n".join(info.value.__notes__)
    assert f"Raised by a task of linalg.inv, called at {__file__}:{line} (block {chunks - 1}" in notes


def test_many_chunks_that_the_cluster_keeps(processes):
    a, ones = np.random.default_rng(0).normal(size=(30, 3)), np.ones(3)
    r = a @ ones
    x = da.from_array(a, chunks=(3, 3)) + 0.0
    for kept in (x.persist(), ag.asarray(x).persist(), processes.persist(x)):
        np.testing.assert_allclose(ag.mean((ag.asarray(kept) @ ones) ** 2).item(), np.mean(r**2))
    w = ag.ones(3, requires_grad=True)
    ag.mean((ag.asarray(kept) @ w) ** 2).backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * a.T @ r / 30)
    value, g = agrad_dask.value_and_grad(lambda w, X: ag.mean((X @ w) ** 2))(ones, kept)
    np.testing.assert_allclose([value, *g], [np.mean(r**2), *(2 * a.T @ r / 30)])


RAN = []


def slow(block):
    """Take a while; the workers are threads, and find this function by its name."""
    if block.size:
        RAN.append(1)
        time.sleep(0.02)
    return block


def test_an_interrupt_leaves_no_tasks_behind(threads, monkeypatch):
    def interrupt(futures):
        raise KeyboardInterrupt

    RAN.clear()
    monkeypatch.setattr(distributed, "as_completed", interrupt)
    x = da.from_array(np.ones((4000, 2)), chunks=(10, 2)).map_blocks(slow, dtype=float, meta=np.empty((0, 0)))
    w = ag.ones(2, requires_grad=True)
    with pytest.raises(KeyboardInterrupt) as info:  # which keeps the frames
        ag.mean((ag.asarray(x) @ w) ** 2).backward()
    quiet = 0  # a graph that is on its way to the scheduler is none of its tasks yet
    while quiet < 25:
        time.sleep(0.02)
        quiet = 0 if any(threads.processing().values()) else quiet + 1
    assert len(RAN) < 200  # of 400 chunks; a task that runs goes on to its end, 16 chunks or so
    assert info.type is KeyboardInterrupt


def inside(entering):
    """Train in a task that may have left its worker's thread pool."""
    with entering():
        x = ag.asarray(da.ones((6, 2), chunks=(2, 2)))
        w = ag.asarray(da.ones(2, chunks=-1), requires_grad=True)
        ag.mean((x @ w) ** 2).backward()
        parameter = ag.asarray([1.0, 1.0], requires_grad=True)  # in memory: backward computes
        ag.mean((x @ parameter) ** 2).backward()
        first = computing.values(w.grad._raw)[0]
        value, g = agrad_dask.value_and_grad(lambda w, X: ag.mean((X @ w) ** 2))(np.ones(2), x)
        return first.tolist(), parameter.grad.tolist(), value.item(), g.tolist()


def left():
    distributed.secede()
    return contextlib.nullcontext()


@pytest.mark.parametrize(
    "entering", [contextlib.nullcontext, distributed.worker_client, left], ids=["in", "lent", "left"]
)
def test_training_inside_a_task(threads, entering):
    found = threads.submit(inside, entering, pure=False).result(timeout=60)
    assert found == ([4.0, 4.0], [4.0, 4.0], 4.0, [4.0, 4.0])
    assert threads.submit(int, "3", pure=False).result(timeout=60) == 3  # its thread works on


def test_values_are_brought_here_or_stay_there(processes):
    x = da.arange(12, chunks=3) * 2
    backend = manager.get("dask")
    (here,) = backend.realize(x)
    (there,) = backend.realize(x + 1, keep="backend")
    assert not distributed.futures_of(here)
    assert [f.status for f in distributed.futures_of(there)] == ["finished"] * 4  # it has been waited for
    assert (there.chunks, there.dtype) == (x.chunks, x.dtype)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(here.compute(), np.arange(0, 24, 2))  # needs no cluster
    np.testing.assert_array_equal(computing.values(there * 2)[0], 2 * np.arange(1, 25, 2))
    np.testing.assert_array_equal(computing.values(there)[0], np.arange(1, 25, 2))  # nothing to be computed
    h = ag.tanh(ag.asarray(there) / 24.0)
    expected = np.tanh(np.arange(1, 25, 2) / 24)
    np.testing.assert_allclose((h - ag.mean(h)).numpy(), expected - expected.mean(), atol=1e-15)


def test_values_kept_on_a_cluster_that_is_gone():
    """Neither a missing key nor waiting without end, also while another cluster is active."""
    with cluster_of(n_workers=1, processes=False) as cluster, distributed.Client(cluster):
        x = ag.asarray(da.ones((8, 2), chunks=2)) * 2.0
        line = sys._getframe().f_lineno - 1
        ag.persist(x)
        raw = da.ones(8, chunks=2).persist()
    own = rf"the value of multiply, called at {__file__}:{line} was persisted on a cluster whose client is closed"
    makes = (lambda: ag.sum(ag.tanh(x)), lambda: x, lambda: ag.asarray(raw) * 2.0)
    messages = (own, own, f"the value of {raw.name}, made outside agrad, was persisted on a cluster")

    def refused():
        for make, message in zip(makes, messages, strict=True):
            with pytest.raises(RuntimeError, match=message):
                make().numpy()

    refused()
    with cluster_of(n_workers=1, processes=False) as cluster, distributed.Client(cluster):
        refused()


def test_data_in_the_graph_give_the_same_bits_at_every_run(processes):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20_000, 33)), rng.normal(size=20_000)
    seen = set()
    for _ in range(4):
        x, g = (da.from_array(v, chunks=(2500, *v.shape[1:]), name=False) for v in (a, b))
        product, total = computing.values(x.T @ g, x.sum())
        seen.add(product.tobytes() + total.tobytes())
    with dask.config.set(scheduler="threads"):
        product, total = computing.values(x.T @ g, x.sum())
    (value,) = seen
    np.testing.assert_allclose(np.frombuffer(value), [*product, total], rtol=1e-12)


def test_an_error_names_operation_and_line_and_keeps_its_traceback(processes):
    inverse = ag.linalg.inv(ag.asarray(da.zeros((20, 3, 3), chunks=(1, 3, 3))) * 2.0)
    line = sys._getframe().f_lineno - 1
    for result in (ag.sum(inverse) + 1.0, inverse):  # inside a fused task, and as one
        with pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
            result.numpy()
        (note,) = caught.value.__notes__
        assert note.startswith(f"Raised by a task of linalg.inv, called at {__file__}:{line} (block ")
        assert caught.traceback[-1].name == "_raise_linalgerror_singular"
    assert ag.sum(ag.asarray(da.ones(4, chunks=2))).item() == 4  # it works on


def test_tasks_are_tried_again_where_asked_for(processes, tmp_path):
    def flaky(block, place=str(tmp_path)):
        path = os.path.join(place, "tried")
        if not os.path.exists(path):
            open(path, "w").close()
            raise OSError("not yet")
        return block

    x = da.ones(4, chunks=4).map_blocks(flaky, dtype=float, meta=np.empty(0))
    with pytest.raises(OSError, match="not yet"):
        computing.values(x)
    os.remove(tmp_path / "tried")
    with dask.config.set({"agrad.retries": 2}):
        np.testing.assert_array_equal(computing.values(x)[0], np.ones(4))


def test_annotations_reach_the_workers(processes):
    first = next(iter(processes.scheduler_info()["workers"]))

    def where(block):
        return np.array([distributed.get_worker().address])

    with dask.annotate(workers=[first], allow_other_workers=False):
        x = da.arange(8, chunks=1).map_blocks(where, dtype="U64", meta=np.empty(0, "U64"))
    assert set(computing.values(x)[0]) == {first}


def test_progress_is_shown(processes, capsys):
    assert manager.get("dask").realize(da.ones(8, chunks=1).sum(), progress=True)[0].compute() == 8
    assert "100% Completed" in capsys.readouterr().out


def test_a_limit_refuses_before_anything_runs(processes):
    with pytest.raises(MemoryError, match="with 2 passes over the data and 2 tasks at a time"):
        manager.get("dask").realize(*standardised(data()), max_memory="64kiB")


def test_a_worker_killed_in_between_loses_nothing(processes, tmp_path):
    def slow(block_info=None, place=str(tmp_path)):
        open(os.path.join(place, f"{os.getpid()}"), "w").close()
        time.sleep(0.05)
        return rows(block_info)

    arrays = standardised(data(slow))
    killed = []

    def kill():
        while not killed:
            for name in os.listdir(tmp_path):
                os.kill(int(name), signal.SIGKILL)
                killed.append(name)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    loss, grad = computing.values(*arrays)
    killer.join()
    with dask.config.set(scheduler="threads"):
        expected = computing.values(*standardised(data()))
    np.testing.assert_allclose(loss, expected[0], rtol=1e-13)  # a worker's BLAS has one thread
    np.testing.assert_allclose(grad, expected[1], rtol=1e-12)
    assert killed


# -- workers in this process ------------------------------------------------------------------------------------------


class Counted(np.ndarray):
    """Rows read; counts how many are alive."""

    lock, live, most, reads = threading.Lock(), 0, 0, 0

    def __del__(self):
        if getattr(self, "is_read", False):
            with Counted.lock:
                Counted.live -= 1

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return np.asarray(array)[()] if return_scalar else np.asarray(array)


def counted(block_info=None):
    block = rows(block_info).view(Counted)
    block.is_read = True
    with Counted.lock:
        Counted.live, Counted.reads = Counted.live + 1, Counted.reads + 1
        Counted.most = max(Counted.most, Counted.live)
    return block


def test_chunks_are_read_again_rather_than_held(threads):
    loss, grad = computing.values(*standardised(data(counted, 40)))
    assert Counted.reads == 80
    assert Counted.most <= 16  # the scheduler hands out a few at a time; held, they would be 40
    with dask.config.set(scheduler="threads"):
        expected = computing.values(*standardised(data(count=40)))
    np.testing.assert_allclose(loss, expected[0], rtol=1e-12)
    np.testing.assert_allclose(grad, expected[1], rtol=1e-12)


def test_a_task_may_compute(threads):
    def inside(block):
        return block + float(ag.sum(ag.asarray(da.arange(10, chunks=2))).item())

    x = da.ones(6, chunks=1).map_blocks(inside, dtype=float, meta=np.empty(0))
    np.testing.assert_array_equal(computing.values(x)[0], np.full(6, 46.0))


def test_no_task_is_taken_for_another(processes, caplog):
    """Whether Dask fuses an array's tasks with those before them depends on what else is asked for; keys do not."""
    X = data()
    logger = logging.getLogger("distributed.scheduler")  # of the scheduler in this process
    level, kept = logger.level, []
    logger.addHandler(caplog.handler)
    logger.setLevel(logging.WARNING)
    try:
        with dask.config.set(scheduler="threads"):
            (x,) = computing.values(X._raw)
        for _ in range(2):
            mean = ag.mean(X, axis=0)
            kept.append(ag.persist(mean, mean * mean, X - mean))
            kept.append(ag.persist(X - mean + 1.0))
            total = ag.compute(ag.std(X - mean, axis=0) * ag.max(X - mean))
            np.testing.assert_allclose(kept[-1].numpy(), x - x.mean(0) + 1, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose((kept[-2][2] * 2.0).numpy(), 2 * (x - x.mean(0)), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(total.numpy(), x.std(0) * (x - x.mean(0)).max(), rtol=1e-12)
    finally:
        logger.setLevel(level)
        logger.removeHandler(caplog.handler)
    assert not [text for text in map(logging.LogRecord.getMessage, caplog.records) if "run_spec" in text]


def test_what_a_client_says_of_tensors_is_answered(threads):
    x = ag.asarray(da.ones((6, 2), chunks=(2, 2)))
    with pytest.raises(AssertionError) as caught:
        threads.persist(x * 2)
    tracebacks.explain(caught.value)
    assert caught.value.__notes__[0].endswith("agrad.persist(x) and agrad.compute(x) use the client that is active.")
    with pytest.raises(RuntimeError, match="requires grad") as refused:
        threads.scatter(ag.ones(3, requires_grad=True) * 2)
    assert "asyncio" not in str(refused.value)


# -- what is told before ------------------------------------------------------------------------------------------------


class Stored:
    """Blocks on disk, each as large as 2**20 float64; every read is noted there, whichever process does it."""

    ndim, dtype, shape = 2, np.dtype("f8"), (16 * 2**17, 8)

    def __init__(self, folder):
        self.folder = folder

    def __getitem__(self, key):
        with (self.folder / "reads").open("a") as file:
            file.write(".")
        start, stop, _ = key[0].indices(self.shape[0])
        return np.random.default_rng(start).normal(size=(stop - start, 8))


def of_itself(key, *, forget=False):
    """Return what Linux says of this process under a key, in bytes; or forget the peak so far, too."""
    if forget:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{key}:"))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is Linux's")
def test_what_runs_is_what_was_told(processes, monkeypatch, tmp_path):
    def loss_of(stored):
        x = ag.asarray(da.from_array(stored, chunks=(2**17, 8), name=False, meta=np.empty((0, 0))))
        w = ag.full(8, 0.5, requires_grad=True)
        return ag.mean((ag.tanh(x - ag.mean(x, axis=0)) @ w - 1) ** 2), w

    loss, _ = loss_of(Stored(tmp_path))
    sent, real = [], computing._PassScheduler.shipped
    monkeypatch.setattr(
        computing._PassScheduler, "shipped", lambda self, graph, *a: sent.append(graph) or real(self, graph, *a)
    )
    (tmp_path / "first").mkdir()
    first, *_held = loss_of(Stored(tmp_path / "first"))
    first.backward()  # imports, pools and stacks are there
    sent.clear()
    told = ag.explain(loss, backward=True)
    assert not sent
    assert not (tmp_path / "reads").exists()
    before = processes.run(of_itself, "VmRSS", forget=True)
    loss.backward()
    grown = sum(after - before[worker] for worker, after in processes.run(of_itself, "VmHWM").items())
    tasks = [node for graph in sent for node in graph.values() if not isinstance(node, DataNode)]
    assert (told.passes, told.tasks) == (len(sent), len(tasks))
    assert told.chunks == len((tmp_path / "reads").read_text()) == 2 * 16
    assert told.read == 2 * 16 * 2**23
    assert told.threads == 2
    assert grown <= told.peak


# -- workers that are too small ---------------------------------------------------------------------------------------


SMALL = 200 * 2**20


@pytest.fixture
def small():
    """One worker of 200 MiB, of which a test may be the last: its loss is an error at once."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        cluster_of(n_workers=1, processes=True, memory_limit=SMALL) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def as_small(processes, monkeypatch):
    """Let agrad take the workers that there are for such ones."""
    monkeypatch.setattr(computing.Workers, "of", lambda _: computing.Workers(SMALL, 1))
    return processes


def dies(block):
    """End the worker, as its nanny does if it takes too much memory; Dask calls it without data too, here."""
    if len(block):
        os._exit(1)
    return block


@pytest.mark.usefixtures("small")
def test_a_worker_that_dies_is_an_error_that_says_where_and_what_would_fit():
    x = ag.asarray(da.ones((16 * 1000, 8), chunks=(1000, -1)).map_blocks(dies, dtype=float))
    y = ag.exp(x)  # line
    with pytest.raises(MemoryError) as raised:
        ag.compute(ag.sum(y * y))
    text = str(raised.value)
    assert isinstance(raised.value.__cause__, distributed.KilledWorker)
    assert "was lost in a task of what agrad computes, 1 times" in text
    assert "a worker has 200.00 MiB for a task at a time" in text
    assert "The largest block takes 62.50 kiB: " in text
    assert "called at" in text
    assert "test_distributed.py:" in text
    assert "Make the chunks 2 times smaller, 31.25 kiB each" in text


@pytest.mark.usefixtures("small")
def test_a_worker_that_dies_in_a_loss_over_rows_names_it():
    x = da.ones((16 * 1000, 8), chunks=(1000, -1)).map_blocks(dies, dtype=float)

    def squares(w, x):
        return ag.mean((x @ w) ** 2)

    with pytest.raises(
        MemoryError, match=r"(?s)of the loss squares \(.*test_distributed\.py:\d+\), which agrad_dask"
    ) as raised:
        agrad_dask.value_and_grad(squares)(np.ones(8), x)
    assert "62.50 kiB: the rows of a chunk, for the loss squares" in str(raised.value)


@pytest.mark.usefixtures("as_small")
def test_what_no_worker_can_hold_is_refused_before_anything_runs():
    x = da.zeros((8, 2**25), chunks=(1, -1))
    with pytest.raises(
        MemoryError, match=r"(?s)a block takes 256\.00 MiB, and a worker of the cluster has 200\.00 MiB.*chunks="
    ):
        agrad_dask.value_and_grad(lambda w, x: ag.mean(x * w))(1.0, x)
    with pytest.raises(
        MemoryError, match=r"(?s)a block takes 256\.00 MiB.*(multiply|sum).*Called at .*test_distributed"
    ):  # zeros are one number
        ag.compute(ag.sum(ag.asarray(x) * 2.0), max_memory="8GiB")


@pytest.mark.usefixtures("as_small")
def test_blocks_that_are_large_for_the_workers_are_told_of():
    y = ag.exp(ag.asarray(da.zeros((16, 2**24), chunks=(1, -1))))  # 128 MiB each
    loss = ag.sum(y)
    plan = computing._PassScheduler((loss._raw,), keep="host", max_memory=None, progress=None, retries=None)
    with pytest.warns(
        agrad_dask.ChunkWarning, match=r"(?s)blocks of 128\.00 MiB are much for the workers .*exp, called at"
    ) as seen:
        next(plan.contractions([(loss._raw.name,)], {}))
    assert seen[0].filename == __file__


@pytest.mark.usefixtures("small")
@pytest.mark.long
def test_a_worker_that_takes_too_much_is_an_error_that_says_so():
    x = ag.asarray(da.zeros((16, 2**22), chunks=(1, -1)))  # 32 MiB each

    def hungry(w, x):
        return ag.sum(ag.exp(x[..., None] * ag.reshape(w, (-1,))))

    step = agrad_dask.value_and_grad(hungry, reduce="sum", capture=False)
    with pytest.raises(MemoryError, match=r"(?s)of the loss hungry.*The largest block takes 32\.00 MiB"):
        step(np.ones(64), x)
