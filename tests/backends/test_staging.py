"""In which passes a Dask graph is computed: what stays in memory, how often data are read, and what a limit refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import agrad as ag
import agrad.nn.functional as F
from agrad.plugin import manager

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

from dask.callbacks import Callback  # noqa: E402 (needs Dask)

import agrad_dask  # noqa: E402 (as above)
from agrad_dask import computing, origins, staging, task_memory  # noqa: E402 (as above)

CHUNKS, ROWS, COLUMNS = 64, 50, 8


pytestmark = pytest.mark.usefixtures("dask_backend")


class Store:
    """Rows that are made when they are read; counts how often, and how many blocks of them are alive."""

    ndim, shape, dtype = 2, (CHUNKS * ROWS, COLUMNS), np.dtype(np.float64)

    def __init__(self):
        self.lock, self.reads, self.live, self.most = threading.Lock(), {}, 0, 0

    def __getitem__(self, key):
        start, stop = key[0].start, key[0].stop
        block = np.random.default_rng(start).normal(size=(stop - start, COLUMNS)).view(Block)
        block.held = Held(self)
        with self.lock:
            self.reads[start] = self.reads.get(start, 0) + 1
        return block


class Held:
    """Lives as long as the block it belongs to, and that as long as its views."""

    def __init__(self, store):
        self.store = store
        with store.lock:
            store.live += 1
            store.most = max(store.most, store.live)

    def __del__(self):
        with self.store.lock:
            self.store.live -= 1


class Block(np.ndarray):
    """A block read from a store; what is computed of it is a plain array."""

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return np.asarray(array)[()] if return_scalar else np.asarray(array)


def data(store):
    x = da.from_array(store, chunks=(ROWS, COLUMNS), asarray=False, name=f"store-{id(store)}", meta=np.empty((0, 0)))
    return ag.asarray(x)


def parameter(*shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape) * 0.3
    return ag.asarray(da.from_array(values, chunks=-1), requires_grad=True)


def differentiated(loss, *parameters):
    loss.backward()
    return [loss._raw, *(p.grad._raw for p in parameters)]


def least_squares(x):
    w = parameter(COLUMNS)
    return differentiated(ag.mean((x @ w - 1) ** 2), w)


def logistic(x):
    w = parameter(COLUMNS)
    return differentiated(ag.mean(F.softplus(x @ w)), w)


def network(x):
    w, v = parameter(16, COLUMNS), parameter(1, 16, seed=1)
    return differentiated(ag.mean((F.linear(F.relu(F.linear(x, w)), v) - 1) ** 2), w, v)


def root_mean_square(x):
    w = parameter(COLUMNS)
    return differentiated(ag.sqrt(ag.mean((x @ w - 1) ** 2)), w)


def standardised(x):
    w = parameter(COLUMNS)
    return differentiated(ag.mean(((x - ag.mean(x, axis=0)) / ag.std(x, axis=0) @ w - 1) ** 2), w)


def sum_of_squares(x):
    w = parameter()
    return differentiated(ag.sum((x - ag.mean(x, axis=0)) ** 2) * w, w)


def batch_normalised(x):
    w, scale = parameter(COLUMNS, 4), parameter(4, seed=1)
    h = x @ w
    y = (h - ag.mean(h, axis=0)) / ag.sqrt(ag.var(h, axis=0) + 1e-5) * scale
    return differentiated(ag.mean(ag.tanh(y) ** 2), w, scale)


def softmax_over_rows(x):
    w = parameter(COLUMNS)
    p = F.softmax(x @ w, axis=0)
    return differentiated(ag.sum(p * p), w)


def centred_layer(x):
    w = parameter(COLUMNS)
    h = x * w
    return differentiated(ag.sum((h - ag.mean(h, axis=0)) ** 2), w)


#: With the number of passes: one more than the longest chain of statistics of which each needs the one before.
PROGRAMS = [
    (least_squares, 1),
    (logistic, 1),
    (network, 1),
    (root_mean_square, 1),
    (standardised, 2),
    (sum_of_squares, 2),
    (batch_normalised, 3),  # mean and variance; their cotangents; the gradient
    (softmax_over_rows, 4),  # maximum; sum; the cotangent of the sum; the gradient
    (centred_layer, 3),  # mean; its cotangent; the gradient
]


@pytest.mark.parametrize(("program", "passes"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_chunks_are_read_again_rather_than_held(program, passes):
    store = Store()
    arrays = program(data(store))
    with dask.config.set(scheduler="threads", num_workers=2):
        plain = dask.compute(*arrays)
        held, store.most, store.reads = store.most, 0, {}
        assert store.live == 0
        staged = computing.values(*arrays)
    assert (held == CHUNKS) is (passes > 1)  # what plain Dask holds
    assert store.most <= 4
    assert store.reads == dict.fromkeys(range(0, CHUNKS * ROWS, ROWS), passes)
    for value, expected in zip(staged, plain, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_of_two_statistics_the_second_may_need_the_first():
    store = Store()
    x = data(store)
    mean = ag.mean(x, axis=0)
    spread = ag.sqrt(ag.mean((x - mean) ** 2, axis=0))
    z = ag.mean(ag.tanh((x - mean) / spread))
    (value,) = computing.values(z._raw)
    a = np.concatenate([np.random.default_rng(i).normal(size=(ROWS, COLUMNS)) for i in range(0, CHUNKS * ROWS, ROWS)])
    np.testing.assert_allclose(value, np.tanh((a - a.mean(0)) / a.std(0)).mean(), rtol=1e-9)
    assert (store.most, max(store.reads.values())) == (1, 3)


def passes_of(*arrays):
    """Give how many chunks of the graph's arrays each pass computes."""
    found = []
    run = computing._PassScheduler(arrays, keep="host", max_memory=None, progress=None, retries=None)

    def scheduler(expression, keys, **kwargs):
        graph = computing.convert_legacy_graph(expression.__dask_graph__())
        found.extend(staging.stages(graph, keys, computing._Sizes(graph, run.written)))
        return [None] * len(keys)

    dask.persist(*arrays, scheduler=scheduler)
    return found


def test_a_result_stays_where_it_costs_no_pass():
    x = da.ones((640, 8), chunks=(10, 8))
    assert len(passes_of(x.sum(), (x + 1).sum(axis=0), x * 2)) == 1
    assert len(passes_of((x - x.mean()).sum(), x.sum())) == 2


def test_data_in_memory_and_few_chunks_are_one_pass():
    kept = da.ones((640, 8), chunks=(10, 8)).persist()
    assert len(passes_of((kept - kept.mean()).sum())) == 1  # nothing to be dropped
    few = da.ones((60, 8), chunks=(10, 8))
    assert len(passes_of((few - few.mean()).sum())) == 1


def test_a_statistic_as_large_as_the_data_is_no_reason_to_read_them_again():
    x = da.ones((64, 64), chunks=(4, 64))
    spread = da.fft.ifft(da.fft.fft(x.rechunk((64, 4)), axis=0), axis=0).real.rechunk((4, 64))
    assert len(passes_of((x - spread).sum())) == 1


def test_parts_of_what_is_in_few_chunks_are_no_data(monkeypatch):
    """A loop over time, with parameters by cell: planned as what it is, one pass over six chunks."""
    planned, stages = [], staging.stages
    monkeypatch.setattr(staging, "stages", lambda *args: planned.append(stages(*args)) or planned[-1])
    values, land = np.random.default_rng(0).random((8, 6, 4)), np.arange(24).reshape(6, 4) % 3
    x, w = da.from_array(values, chunks=(-1, 2, 2)), ag.full(3, 0.5, requires_grad=True)
    rate, soil, states = w[da.from_array(land, chunks=(2, 2))], 0 * ag.asarray(x)[0], []
    for step in ag.asarray(x):
        soil = soil + step
        soil = ag.minimum(soil, rate) * ag.clip(soil / rate, 0, 2) * rate
        states.append(soil)
    ag.sum(ag.stack(states) ** 2).backward()
    assert [[len(keys) for keys in passes] for passes in planned] == [[2], [1]]


def test_planning_ends_where_every_walk_finds_something_useless(monkeypatch):
    walked, walk = [], staging._levels

    def forgetful(*args):
        walked.append(args)
        return walk(*args[:-1], set())

    monkeypatch.setattr(staging, "_levels", forgetful)
    a = np.random.default_rng(0).normal(size=(64, 64))
    x = da.from_array(a, chunks=(4, 64))
    spread = da.fft.ifft(da.fft.fft(x.rechunk((64, 4)), axis=0), axis=0).real.rechunk((4, 64))
    (made,) = manager.get("dask").realize((x * spread).sum())
    np.testing.assert_allclose(made.compute(), np.sum(a * a))
    assert len(walked) == staging.WALKS


def test_what_is_broadcast_is_staged_before():
    x = da.ones((640, 8), chunks=(10, 8))
    full = da.broadcast_to(da.sqrt(x.mean(axis=0)), x.shape, chunks=x.chunks)
    first, _ = passes_of((x * full).sum())
    assert len(first) == 1  # and not a block of `full` for every chunk


def test_values_realised_before_are_not_computed_again(never_computes):
    with dask.config.set(scheduler="synchronous"):
        (kept,) = computing.realize((da.ones(10, chunks=2) + 1,))
    np.testing.assert_array_equal(computing.values(kept)[0], 2 * np.ones(10))


def test_realize_keeps_shape_chunks_dtype_and_takes_doubles():
    x = da.arange(10, chunks=3, dtype="int32") * 2
    first, second = manager.get("dask").realize(x, x)
    for made in (first, second):
        assert (made.chunks, made.dtype) == (x.chunks, x.dtype)
        np.testing.assert_array_equal(made.compute(), np.arange(0, 20, 2))
    assert manager.get("dask").realize() == ()
    with pytest.raises(ValueError, match="keep is 'host' or 'backend', not 'disk'"):
        manager.get("dask").realize(x, keep="disk")


# -- max_memory -------------------------------------------------------------------------------------------------------


def big(rows=4000):
    """Chunks of 2 MiB, for those 4000 rows."""
    return ag.asarray(da.random.default_rng(0).random((64 * rows, 64), chunks=(rows, 64)))


def test_a_limit_lowers_the_threads_then_refuses(monkeypatch):
    x = big()
    arrays = standardised_sum(x)
    seen = []

    def get(graph, keys, num_workers=None, **kwargs):
        seen.append(num_workers)
        return dask.local.get_sync(graph, keys, **kwargs)

    monkeypatch.setattr(dask.threaded, "get", get)
    with dask.config.set(scheduler=get, num_workers=4):
        needed = [peak_of(arrays, threads) for threads in (4, 2, 1)]
        assert needed == sorted(needed, reverse=True)
        for limit, threads in zip(needed, (None, 2, 1), strict=True):
            seen.clear()
            computing.realize(arrays, max_memory=limit)
            assert set(seen) == {threads}
        seen.clear()
        with pytest.raises(MemoryError, match="this computation needs about"):
            computing.realize(arrays, max_memory=needed[-1] - 1)
        assert not seen  # refused before anything ran


def standardised_sum(x):
    return (ag.sum(ag.tanh((x - ag.mean(x, axis=0)) * 2))._raw,)


def peak_of(arrays, threads):
    """What a limit is compared with: the bound for arrays, without what a process takes beside."""
    with dask.config.set(num_workers=threads):
        return computing.outlook(arrays, max_memory=None).peak - task_memory.BESIDE


def test_the_limit_of_the_configuration_holds_for_backward_too():
    x, w = da.ones((640, 8), chunks=(10, 8)), ag.ones(8, requires_grad=True)
    with (
        dask.config.set({"agrad.max_memory": "1kiB"}),
        pytest.raises(MemoryError, match=r"max_memory allows 1\.00 kiB"),
    ):
        ag.mean((ag.asarray(x) @ w) ** 2).backward()
    with dask.config.set({"agrad.max_memory": "1kiB"}):
        assert ag.compute(ag.sum(ag.asarray(x)), max_memory="1GiB").item() == 5120
    with (
        dask.config.set({"agrad.maxmemory": 1}),
        pytest.warns(
            UserWarning, match=r'nothing reads "agrad\.maxmemory".* the known keys are max_memory, progress, retries'
        ),
    ):
        manager.get("dask").realize(x.sum())


def test_the_refusal_says_what_would_be_needed():
    x = big()
    w = parameter(64)
    loss = ag.mean((x @ w) ** 2)
    loss.backward()
    line = sys._getframe().f_lineno - 2
    with pytest.raises(MemoryError) as caught:
        manager.get("dask").realize(loss._raw, w.grad._raw, max_memory="3MiB")
    message = str(caught.value)
    assert "max_memory allows 3.00 MiB" in message
    assert "The largest task takes 3.9" in message
    assert f"matmul, called at {__file__}:{line}" in message  # as large as that of its derivative
    assert "Make the chunks 3 times smaller: chunks= where" in message
    with pytest.raises(MemoryError, match=r"The results alone take 125\.00 MiB"):
        manager.get("dask").realize((x * 2)._raw, max_memory="64MiB")


def test_the_refusal_says_what_was_assumed_of_unknown_sizes():
    x = big()._raw
    with pytest.raises(MemoryError, match=r"Of 1\d\d blocks 64 have an unknown size"):
        computing.realize((da.exp(x[x[:, 0] > 0]),), max_memory="1MiB")


@pytest.mark.parametrize("program", [logistic, network, root_mean_square])
def test_the_estimate_bounds_what_the_arrays_take(program):
    import tracemalloc  # NumPy's allocations are seen by it, exactly

    x = ag.asarray(da.random.default_rng(0).random((16 * 2**15, COLUMNS), chunks=(2**15, COLUMNS)))  # 2 MiB each
    for threads in (2, 1):
        with dask.config.set(scheduler="threads", num_workers=threads):
            computing.values(ag.sum(x @ parameter(COLUMNS))._raw)  # imports, thread stacks
            arrays = program(x)
            tracemalloc.start(1)
            computing.values(*arrays)
            _, seen = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            estimate = peak_of(arrays, threads)
        assert seen < estimate + 2**20  # the graph's tasks are Python objects
    assert estimate < 4 * seen  # of one thread: two may happen to take turns


LIMITED = """
    import re, resource, sys
    import dask, dask.array as da, numpy as np
    import agrad as ag
    from agrad.plugin import manager

    def loss_of(x, w):
        return ag.mean((x * w - ag.mean(x)) ** 2)

    def block(seed, block_info=None):
        return np.random.default_rng(int(seed[0])).random((2**17, 8))  # 8 MiB

    def data(count):
        seeds = da.arange(count, chunks=1)
        x = seeds.map_blocks(block, chunks=((2**17,) * count, (8,)), new_axis=1, dtype=float, meta=np.empty((0, 0)))
        return ag.asarray(x)

    def arrays(count):
        w = ag.asarray(da.full(8, 0.5, chunks=-1), requires_grad=True)
        loss = loss_of(data(count), w)
        loss.backward()
        return loss._raw, w.grad._raw

    dask.config.set(num_workers=2)
    dask.compute(*arrays(4))  # imports, thread stacks, pools
    held = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
    limit, room = 2**26, 2**26  # 64 MiB for arrays; glibc keeps freed blocks
    resource.setrlimit(resource.RLIMIT_DATA, (held + limit + room,) * 2)
    if sys.argv[1] == "staged":
        loss, grad = manager.get("dask").realize(*arrays(32), max_memory=limit)
    else:
        loss, grad = dask.persist(*arrays(32))
    mean = sum(np.random.default_rng(i).random((2**17, 8)).mean() for i in range(32)) / 32
    total = sum(((np.random.default_rng(i).random((2**17, 8)) * 0.5 - mean) ** 2).sum() for i in range(32))
    assert np.isclose(loss.compute(), total / 32 / 2**20, rtol=1e-10)
    print("fits")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory by RLIMIT_DATA")
def test_what_was_planned_fits():
    def run(how):
        code = [sys.executable, "-c", textwrap.dedent(LIMITED), how]
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        return subprocess.run(code, capture_output=True, text=True, check=False, env=env)

    staged, plain = run("staged"), run("plain")
    assert staged.stdout == "fits\n", staged.stderr[-2000:]
    assert "fits" not in plain.stdout  # the same limit ends what holds 256 MiB
    assert "MemoryError" in plain.stderr


# -- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_in_a_task_names_operation_and_line():
    matrices = ag.asarray(da.zeros((20, 3, 3), chunks=(1, 3, 3)))
    inverse = ag.linalg.inv(matrices * 2.0)
    line = sys._getframe().f_lineno - 1
    for scheduler in ("threads", "synchronous"):
        with dask.config.set(scheduler=scheduler), pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
            (ag.sum(inverse) + 1).item()
        (note,) = caught.value.__notes__
        assert note.startswith(f"Raised by a task of linalg.inv, called at {__file__}:{line} (block ")
        assert caught.traceback[-1].name == "_raise_linalgerror_singular"  # the task's own


def test_an_error_in_backward_names_the_line_of_the_forward_call():
    a = ag.asarray(da.zeros((20, 3, 3), chunks=(1, 3, 3)), requires_grad=True)
    size = ag.linalg.slogdet(a).logabsdet
    line = sys._getframe().f_lineno - 1
    ag.sum(size).backward()
    with pytest.raises(np.linalg.LinAlgError) as caught:
        a.grad.numpy()
    (note,) = caught.value.__notes__
    assert "in backward of " in note
    assert f"{__file__}:{line}" in note


def test_an_error_in_a_function_of_the_users_says_what_was_made_of_it():
    def fail(block):
        if block[0] == 4:
            raise KeyError("lost")
        return block

    x = ag.asarray(da.arange(10, chunks=2).map_blocks(fail, dtype=int, meta=np.empty(0, int)))
    y = ag.exp(x * 1.0)
    line = sys._getframe().f_lineno - 1
    with pytest.raises(KeyError, match="lost") as caught:
        y.numpy()
    (note,) = caught.value.__notes__
    assert note.startswith("Raised by a task of fail-")
    assert note.endswith(f", on the way to multiply, called at {__file__}:{line}.")


def test_what_rules_make_is_known_by_the_line_of_their_node_however_they_run():
    x = ag.asarray(da.ones((8, 4), chunks=(4, 4)), requires_grad=True)
    w = ag.tensor(np.ones((8, 4)), requires_grad=True)

    class Twice(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def origin(t):
        made = origins._ORIGINS[t._raw.name]
        return made.op, made.backward, str(made).rpartition(":")[2].rstrip(".")

    def loss(t):
        return ag.sum(ag.exp(t) ** 2)

    expected = "multiply", "ExpBackward0", f"{loss.__code__.co_firstlineno + 1}"
    assert origin(ag.autograd.grad(loss(x), x)[0]) == expected
    assert origin(ag.autograd.grad(loss(x), x, create_graph=True)[0]) == expected
    assert origin(ag.func.vmap(ag.func.grad(loss))(x.detach())) == expected
    origins._ORIGINS.clear()
    ag.sum(ag.exp(w) * x).backward()  # the cotangent of what is in memory is lazy
    assert "ExpBackward0" in {made.backward for made in origins._ORIGINS.values()}
    backward = Twice.backward.__code__.co_firstlineno + 2
    assert origin(ag.autograd.grad(ag.sum(Twice.apply(x)), x)[0]) == ("multiply", None, str(backward))


def test_only_the_latest_arrays_are_remembered(monkeypatch):
    monkeypatch.setattr(origins, "MAX_ORIGINS", 3)
    for i in range(5):
        ag.exp(ag.asarray(da.ones(4, chunks=2) * i))
    assert len(origins._ORIGINS) == 3


def test_tasks_are_named_after_their_operations():
    x = ag.asarray(da.ones((8, 8), chunks=(4, 4)), requires_grad=True)
    places = ag.asarray(da.from_array(np.arange(8), chunks=4) % 8)
    made = {
        "agrad-take": ag.take(x, places, axis=0),
        "agrad-scatter-add": ag.autograd.grad(ag.sum(ag.take(x, places, axis=0)), x)[0],
        "agrad_linalg_det": ag.linalg.det(ag.asarray(da.ones((4, 2, 2), chunks=(2, 2, 2)))),
        "agrad-fft-fft": ag.fft.fft(x.detach() + 0j),
        "agrad-special.erf": ag.special.erf(x),
        "agrad-sample-uniform": ag.random.rand(4, device="dask"),
    }
    for name, tensor in made.items():
        assert any(layer.startswith(name) for layer in tensor._raw.dask.layers), name


# -- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rich", [True, False])
def test_progress_counts_to_the_end(rich, capsys, monkeypatch):
    if rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    x = da.ones((640, 8), chunks=(10, 8))
    manager.get("dask").realize((x - x.mean()).sum(), progress=True)
    assert "100%" in capsys.readouterr().out
    with dask.config.set({"agrad.progress": True}):
        manager.get("dask").realize(x.sum())
    assert "100%" in capsys.readouterr().out
    manager.get("dask").realize(x.sum())
    assert not capsys.readouterr().out


def test_steps_and_their_passes_are_counted(capsys, monkeypatch):
    progress = pytest.importorskip("rich.progress")
    done, planned = [], []
    remove = progress.Progress.remove_task

    def removed(self, number):
        (task,) = (t for t in self.tasks if t.id == number)
        planned.append(task.description) if task.total is None else done.append(
            (task.description, task.completed, task.total)
        )
        remove(self, number)

    monkeypatch.setattr(progress.Progress, "remove_task", removed)
    x = da.ones((640, 8), chunks=(10, 8))
    ran = []
    for step in agrad_dask.steps(range(3)):
        with Callback(posttask=lambda key, *_: ran.append(key)):
            manager.get("dask").realize((x - x.mean()).sum() * step)
        passes, counts = zip(*((what, (n, total)) for what, n, total in done), strict=True)
        assert passes == ("Pass 1 of 2", "Pass 2 of 2")
        assert sum(n for n, _ in counts) == len(ran)
        assert all(n == total for n, total in counts)
        done.clear()
        ran.clear()
    assert set(planned) == {"Planning"}
    assert "3/3" in capsys.readouterr().out
    manager.get("dask").realize(x.sum())
    assert not done
    assert not capsys.readouterr().out


def test_steps_within_steps_without_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    for _ in agrad_dask.steps(letter for letter in "ab"):
        for _ in agrad_dask.steps(range(2)):
            manager.get("dask").realize(da.ones(4, chunks=2).sum())
            break
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("Steps")] == ["Steps 1", "Steps 2"]
    assert "100%" in out
    for _ in agrad_dask.steps([1, 2]):
        pass
    assert capsys.readouterr().out == "Steps 1 of 2\nSteps 2 of 2\n"


class Counted:
    """Data as of a file; how many elements were read of it."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim
        self.read = 0
        self.lock = threading.Lock()

    def __getitem__(self, key):
        with self.lock:
            self.read += self.array[key].size
        return self.array[key]


@pytest.mark.parametrize("chunks", [(5, 7), (5, 5), (50, 70)])
def test_what_is_read_twice_is_told_before(chunks):
    """Where chunks of two arrays meet that are cut otherwise, tasks of several neighbours may make further passes."""
    data = np.random.default_rng(0).normal(size=(400, 6))
    stores = [Counted(data), Counted(data)]
    w = ag.ones(6, requires_grad=True)
    a, b = (
        ag.asarray(da.from_array(store, chunks=(n, 6), meta=np.empty((0, 0))))
        for store, n in zip(stores, chunks, strict=True)
    )
    loss = ag.mean((a @ w - (b * w).sum(axis=1)) ** 2)
    told = ag.explain(loss, backward=True)
    loss.backward()
    read = 8 * sum(store.read for store in stores)
    assert f"reads {read / 1024:.1f} KiB" in str(told)
