"""Checkpointing by schedule: the plain loop's gradients, with as many steps run and states kept as the schedule says."""

import functools
import gc
import sys
import weakref

import numpy as np
import pytest

import agrad as ag
from agrad.autograd.graph import saved_tensors_hooks
from agrad.utils import checkpoint_sequence
from agrad.utils.checkpoint import CheckpointError, checkpoint

cs = pytest.importorskip("checkpoint_schedules")

pytestmark = pytest.mark.filterwarnings("ignore:Numba not available")  # without it a search of the package's is slower

N = 23
MEMORY, DISK, WORK = cs.StorageType.RAM, cs.StorageType.DISK, cs.StorageType.WORK

SCHEDULES = {
    "number": lambda: 3,
    "one state": lambda: 1,
    "more than steps": lambda: 100,
    "revolve": lambda: cs.Revolve(N, 3),
    "multistage": lambda: cs.MultistageCheckpointSchedule(N, 2, 2),
    "multistage on disk": lambda: cs.MultistageCheckpointSchedule(N, 0, 3, trajectory="revolve"),
    "mixed": lambda: cs.MixedCheckpointSchedule(N, 4),
    "mixed in memory": lambda: cs.MixedCheckpointSchedule(N, 4, storage=MEMORY),
    "hrevolve": lambda: cs.HRevolve(N, 2, 2),
    "disk revolve": lambda: cs.DiskRevolve(N, 2),
    "periodic": lambda: cs.PeriodicDiskRevolve(N, 2),
    "two levels": lambda: cs.TwoLevelCheckpointSchedule(5, 2),
    "two levels in memory": lambda: cs.TwoLevelCheckpointSchedule(5, 2, binomial_storage=MEMORY),
    "all in memory": cs.SingleMemoryStorageSchedule,
    "all on disk": cs.SingleDiskStorageSchedule,
    "all on disk, moved": lambda: cs.SingleDiskStorageSchedule(move_data=True),
}


@pytest.fixture(params=SCHEDULES)
def schedule(request, capsys):
    return SCHEDULES[request.param]()


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def loop(step, state, n):
    for i in range(n):
        state = step(state, i)
    return state


def actions_of(schedule, n):
    if isinstance(schedule, int):
        schedule = cs.MultistageCheckpointSchedule(n, schedule, 0)
    for action in schedule:
        yield action
        if isinstance(action, cs.EndReverse):
            return
        if isinstance(action, cs.Forward) and schedule.max_n is None and action.n1 >= n:
            schedule.finalize(n)


def expected_of(schedule, n, *, writes_first=True):
    """Return how often steps run, the most states in memory and the most entries on disk while a step runs.

    The first state may be kept in memory alone, where it is anyway.
    """
    steps = in_memory = on_disk = 0
    beside = {0}  # the first state is kept beside, and later the user has the last one
    states = {MEMORY: set(), DISK: set()}
    graphs = {MEMORY: set(), DISK: set(), WORK: set()}
    for action in actions_of(schedule, n):
        match action:
            case cs.Forward():
                if action.write_ics and (writes_first or action.n0):
                    states[action.storage].add(action.n0)
                for i in range(action.n0, min(action.n1, n)):
                    steps += 1
                    held = beside | {i} | states[MEMORY] | graphs[MEMORY] | graphs[WORK]
                    in_memory = max(in_memory, len(held))
                    on_disk = max(on_disk, len(states[DISK]) + len(graphs[DISK]))
                    if action.write_adj_deps and (writes_first or i):
                        graphs[action.storage].add(i)
            case cs.EndForward():
                beside.add(n)
            case cs.Reverse():
                if action.clear_adj_deps:
                    graphs[WORK] -= set(range(action.n0, action.n1))
            case cs.Copy() | cs.Move():
                graph = action.n in graphs[action.from_storage]
                if isinstance(action, cs.Move):
                    (graphs if graph else states)[action.from_storage].discard(action.n)
                if graph:
                    graphs[WORK].add(action.n)
    return steps, in_memory, on_disk


def test_as_many_steps_and_states_as_the_schedule_says(schedule, tmp_path):
    w = leaf(0.9)
    alive, calls, peak, files = [], 0, 0, 0

    def step(x, i):
        nonlocal calls, peak, files
        calls += 1
        peak = max(peak, sum(1 for reference in alive if reference() is not None))
        files = max(files, sum(1 for _ in tmp_path.rglob("*.agrad")))
        y = x * w  # saves the state
        alive.append(weakref.ref(y._raw))
        return y

    gc.disable()
    try:
        x = leaf(*np.linspace(1, 2, 5))
        alive.append(weakref.ref(x._raw))
        y = checkpoint_sequence(step, x, N, schedule=schedule, directory=str(tmp_path))
        y.backward(ag.ones(5))
    finally:
        gc.enable()
    np.testing.assert_allclose(x.grad.numpy(), [0.9**N] * 5, rtol=1e-14)
    np.testing.assert_allclose(w.grad.numpy(), [N * 0.9 ** (N - 1) * 7.5], rtol=1e-14)
    assert (calls, peak, files) == expected_of(schedule, N)
    assert not list(tmp_path.rglob("*.agrad"))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_compiled_steps_run_and_keep_as_much(schedule, tmp_path, capsys):
    """What a step computes may be a compiled function: it is run and its states are kept as the schedule says."""
    w, x = leaf(0.9, 0.8), leaf(0.1, 0.5)
    plain = lambda x, i: x * w + 0.01 * i * ag.sin(x)
    inner = ag.compile(plain)
    alive, calls, peak = [], 0, 0

    def step(x, i):
        nonlocal calls, peak
        calls += 1
        peak = max(peak, sum(1 for reference in alive if reference() is not None))
        y = inner(x, ag.asarray(float(i)))
        alive.append(weakref.ref(y._raw))
        return y

    gc.disable()
    try:
        for _ in range(2):  # in the second one every step is the program
            alive[:] = [weakref.ref(x._raw)]
            calls = peak = 0
            y = checkpoint_sequence(step, x, N, schedule=SCHEDULES[schedule](), directory=str(tmp_path))
            given = ag.grad(ag.sum(y), [x, w])
    finally:
        gc.enable()
    assert (calls, peak) == expected_of(SCHEDULES[schedule](), N)[:2]
    assert inner.programs or schedule.startswith("all on disk")  # saved-tensor hooks keep a function as it is
    for one, right in zip(given, ag.grad(ag.sum(loop(plain, x, N)), [x, w]), strict=True):
        np.testing.assert_allclose(one.numpy(), right.numpy(), rtol=1e-13)


def test_gradients_are_the_loops_to_the_bit(schedule):
    w, x = leaf(0.3, 0.2), leaf(0.1, 0.5)

    def step(state, i):
        x, v = state["x"], state["v"]
        return {"x": x + 0.1 * v, "v": v - 0.1 * ag.sin(x * w) * (1 + 0.01 * i) + 0.01 * ag.sum(x)}

    def value(run):
        found = run(step, {"x": x, "v": ag.zeros(2)}, N)
        return ag.sum(found["x"] ** 2 + found["v"])

    expected = ag.grad(value(loop), [x, w])
    for _ in range(2):  # the schedule is not used up
        y = value(functools.partial(checkpoint_sequence, schedule=schedule))
        for given, right in zip(ag.grad(y, [x, w]), expected, strict=True):
            np.testing.assert_array_equal(given.numpy(), right.numpy())


def test_backends(backend):
    x = ag.asarray(np.array([1.0, 2.0]), device=backend, requires_grad=True)
    w = ag.asarray(np.array([0.9, 0.8]), device=backend, requires_grad=True)
    y = checkpoint_sequence(lambda x, i: x * w, x, 7, schedule=cs.MultistageCheckpointSchedule(7, 1, 1))
    ag.sum(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.9**7, 0.8**7], rtol=1e-14)
    np.testing.assert_allclose(w.grad.numpy(), [7 * 0.9**6, 14 * 0.8**6], rtol=1e-14)


def test_retained_graphs_and_graphs_that_are_not():
    x, w = leaf(2.0), leaf(0.9)
    y = checkpoint_sequence(lambda x, i: x * w, x, 6, schedule=2)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(w.grad.numpy(), [2 * 12 * 0.9**5], rtol=1e-14)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_higher_orders(tmp_path):
    x, w = leaf(2.0), leaf(0.9)
    y = checkpoint_sequence(lambda x, i: x * w, x, 6, schedule=cs.Revolve(6, 2))
    (g,) = ag.grad(y, w, create_graph=True)
    gg = ag.grad(g, [w, x], create_graph=True)
    np.testing.assert_allclose([g.item(), gg[0].item(), gg[1].item()], [12 * 0.9**5, 60 * 0.9**4, 6 * 0.9**5])
    (ggg,) = ag.grad(gg[0], w)
    np.testing.assert_allclose(ggg.item(), 240 * 0.9**3)


def test_transforms():
    w = ag.tensor(0.9)
    step = lambda x, i: ag.sin(x) * w + 0.1 * i * x
    f = lambda x: ag.sum(loop(step, x, 6) ** 2)
    g = lambda x: ag.sum(checkpoint_sequence(step, x, 6, schedule=2) ** 2)
    x = ag.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, -1.0]])
    func = ag.func
    for transform in (
        lambda f: func.grad(f)(x[0]),
        lambda f: func.vmap(f)(x),
        lambda f: func.vmap(func.grad(f))(x),
        lambda f: func.hessian(f)(x[0]),
        lambda f: func.vmap(func.hessian(f))(x),
        lambda f: func.jacrev(func.grad(f))(x[0]),
        lambda f: func.jvp(f, (x[0],), (x[1],))[1],
        lambda f: func.jvp(func.grad(f), (x[0],), (x[1],))[1],
    ):
        np.testing.assert_allclose(transform(g).numpy(), transform(f).numpy(), rtol=1e-13)


def test_parameters_outside_of_a_batch():
    w = leaf(0.9, 0.8)
    xs = ag.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    each = ag.func.vmap(lambda x: ag.sum(checkpoint_sequence(lambda x, i: x * w, x, 5, schedule=2)))
    ag.sum(each(xs)).backward()
    np.testing.assert_allclose(w.grad.numpy(), [9 * 5 * 0.9**4, 12 * 5 * 0.8**4], rtol=1e-14)


def test_random_numbers_are_drawn_again():
    w = leaf(*[0.9] * 50)

    def value(run):
        ag.manual_seed(3)
        return ag.sum(run(lambda x, i: ag.nn.functional.dropout(x * w, 0.1) + 0.1 * ag.randn(50), ag.ones(50), 7))

    (expected,) = ag.grad(value(loop), w)
    after = ag.rand(3)
    y = value(functools.partial(checkpoint_sequence, schedule=2))
    np.testing.assert_array_equal(ag.rand(3).numpy(), after.numpy())
    state = ag.get_rng_state()
    (given,) = ag.grad(y, w)
    np.testing.assert_array_equal(given.numpy(), expected.numpy())
    assert np.count_nonzero(expected.numpy()) not in {0, 50}
    assert ag.get_rng_state() == state


def test_cotangents_that_leave_out_elements():
    """As in the loop, an infinite derivative behind an element that `where` left out does not count."""
    x = leaf(0.0, 4.0)
    for run in (loop, functools.partial(checkpoint_sequence, schedule=1)):
        y = ag.sum(ag.where(x > 1, run(lambda x, i: ag.sqrt(x), x, 3), 1.0))
        np.testing.assert_allclose(ag.grad(y, x)[0].numpy(), [0, 4 ** (-7 / 8) / 8], rtol=1e-14)
        y = ag.sum(run(lambda x, i: ag.sqrt(x), x, 3))
        assert np.isinf(ag.grad(y, x)[0].numpy()[0])


def test_hooks_run_once():
    x, w = leaf(2.0), leaf(0.9)
    inner, seen = w * 1.0, []
    inner.register_hook(lambda g: seen.append(("outside", g.item())))
    w.register_hook(lambda g: 2 * g)

    def step(x, i):
        y = x * inner
        y.register_hook(lambda g: seen.append((i, g.item())))
        return y

    checkpoint_sequence(step, x, 3, schedule=1).backward()
    np.testing.assert_allclose(w.grad.item(), 2 * 3 * 2 * 0.9**2)
    assert [at for at, _ in seen] == [2, 1, 0, "outside"]
    np.testing.assert_allclose([g for _, g in seen], [1, 0.9, 0.81, 6 * 0.81])


def test_nothing_is_recorded_nothing_is_kept():
    calls = []
    step = lambda x, i: calls.append(i) or x * 2
    with ag.no_grad():
        y = checkpoint_sequence(step, leaf(1.0), 4, schedule=1)
    assert not y.requires_grad
    assert calls == [0, 1, 2, 3]
    y = checkpoint_sequence(step, ag.tensor(1.0), 4, schedule=1)
    assert not y.requires_grad
    assert y.item() == 16.0
    y = checkpoint_sequence(step, np.ones(2), 4, schedule=1)
    assert type(y) is np.ndarray
    w = leaf(2.0)
    y = checkpoint_sequence(lambda x, i: x * w, np.ones(1), 4, schedule=1)
    y.backward()
    assert w.grad.item() == 32.0


def test_no_grad_inside_and_what_has_no_derivative():
    x, w = leaf(2.0), leaf(0.9)

    def step(state, i):
        assert ag.is_grad_enabled()
        x, count = state
        with ag.no_grad():
            scale = x / x
        return x * w * scale, count + 1

    y, count = checkpoint_sequence(step, (x, ag.asarray(0)), 5, schedule=2)
    assert count.item() == 5
    assert not count.requires_grad
    y.backward()
    np.testing.assert_allclose(w.grad.item(), 10 * 0.9**4)


def test_a_state_that_is_differentiated_later():
    w = leaf(2.0)
    step = lambda x, i: x + 1.0 if i < 3 else x * w
    y = checkpoint_sequence(step, ag.zeros(1), 5, schedule=2)
    y.backward()
    assert w.grad.item() == 12.0


def test_changes_in_place():
    x, w = leaf(2.0), leaf(0.9)
    y = checkpoint_sequence(lambda x, i: x.mul_(w), x, 5, schedule=2)
    y.backward()
    np.testing.assert_allclose([x.item(), w.grad.item()], [2.0, 10 * 0.9**4])


def test_within_a_checkpoint_and_around_one():
    x, w = leaf(2.0), leaf(0.9)
    along = lambda x: checkpoint_sequence(lambda x, i: checkpoint(lambda x: x * w, x), x, 5, schedule=2)
    checkpoint(along, x).backward()
    np.testing.assert_allclose(w.grad.item(), 10 * 0.9**4)


def test_hooks_on_saved_values_get_the_states():
    x, w = leaf(2.0), leaf(0.9)
    kept = []

    def pack(tensor):
        kept.append(tensor)
        return tensor.tolist()

    with saved_tensors_hooks(pack, ag.tensor):
        y = checkpoint_sequence(lambda x, i: x * w, x, 6, schedule=2)
    y.backward()
    np.testing.assert_allclose(w.grad.item(), 12 * 0.9**5)
    # two states of the schedule, what the last step saves, and the first state
    assert len(kept) == 5


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("at", ["forward", "backward"])
def test_files_go_after_errors(tmp_path, at, error):
    w, calls, raising = leaf(0.9), 0, True

    def step(x, i):
        nonlocal calls
        calls += 1
        if raising and calls == (7 if at == "forward" else 11):
            assert list(tmp_path.rglob("*.agrad"))
            raise error
        return x * w

    run = functools.partial(checkpoint_sequence, step, leaf(1.0), 8, directory=str(tmp_path))
    schedule = cs.MultistageCheckpointSchedule(8, 0, 3)
    if at == "forward":
        with pytest.raises(error):
            run(schedule=schedule)
    else:
        y = run(schedule=schedule)
        with pytest.raises(error) as caught:
            y.backward()
        assert w.grad is None
        assert not list(tmp_path.rglob("*.agrad"))  # although the traceback is there
        raising = False
        y.backward()  # the first state is enough to begin anew
        np.testing.assert_allclose(w.grad.item(), 8 * 0.9**7)
        del caught
    assert not list(tmp_path.rglob("*.agrad"))


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "interrupt"]
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("at", [1, 3])
def test_a_write_that_is_interrupted(tmp_path, monkeypatch, at, compiled, error):
    """Half a file is no state: it goes with the others, and the next call or backward pass begins anew."""
    from agrad.autograd import graph

    save, writes, raising = graph.save_aside, 0, False

    def halfway(tensor, path):
        nonlocal writes
        writes += 1
        save(tensor, path)
        if raising and writes == at:
            with open(path, "r+b") as file:
                file.truncate(10)
            raise error

    monkeypatch.setattr(graph, "save_aside", halfway)
    w, schedule = leaf(0.9), cs.MultistageCheckpointSchedule(8, 0, 3)
    f = lambda x: checkpoint_sequence(lambda x, i: x * w, x, 8, schedule=schedule, directory=str(tmp_path))
    if compiled:
        f = ag.compile(f)
        ag.grad(f(leaf(1.0)), w)  # the capture
    x = leaf(1.0)
    writes, raising = 0, True
    y = None
    with pytest.raises(type(error)):
        y = f(x)
        y.backward()
    assert w.grad is None
    assert not list(tmp_path.rglob("*.agrad"))
    raising = False
    (f(x) if y is None else y).backward()
    np.testing.assert_allclose([w.grad.item(), x.grad.item()], [8 * 0.9**7, 0.9**8])
    del y
    assert not list(tmp_path.rglob("*.agrad"))


def test_files_go_with_the_graph(tmp_path):
    w = leaf(0.9)
    y = checkpoint_sequence(
        lambda x, i: x * w, leaf(1.0), 8, schedule=cs.DiskRevolve(8, 1, wd=0, rd=0), directory=str(tmp_path)
    )
    assert list(tmp_path.rglob("*.agrad"))
    del y
    assert not list(tmp_path.iterdir())


def test_what_would_lose_a_gradient_is_an_error():
    x, w = leaf(2.0), leaf(0.9)
    history = [x]

    def remembers(x, i):
        history.append(x * w)
        return history[-1] + history[-2]

    with pytest.raises(CheckpointError, match="step 1 uses a tensor that an earlier step made"):
        checkpoint_sequence(remembers, x, 5, schedule=2)
    others, calls = [leaf(1.0), leaf(2.0)], []

    def changes(x, i):
        calls.append(i)
        return x * (w if len(calls) <= 6 else others[0])

    with pytest.raises(CheckpointError, match="when it is run again that no step used in forward"):
        checkpoint_sequence(changes, x, 5, schedule=2).backward()
    calls.clear()

    def forgets(x, i):
        calls.append(i)
        return x * w if len(calls) <= 6 else x.detach()

    with pytest.raises(CheckpointError, match="it must do the same"):
        checkpoint_sequence(forgets, x, 5, schedule=2).backward()
    y = checkpoint_sequence(lambda x, i: x * w, x, 5, schedule=2)
    with ag.no_grad():
        w.add_(1.0)
    with pytest.raises(CheckpointError, match="another value between forward and backward"):
        y.backward()
    ag.manual_seed(0)
    calls.clear()

    def draws_more(x, i):
        calls.append(i)
        return x * w if len(calls) <= 6 else x * w * ag.rand(1)

    with pytest.raises(RuntimeError, match="draws more random numbers"):
        checkpoint_sequence(draws_more, x, 5, schedule=2).backward()


def begun():
    schedule = cs.Revolve(5, 2)
    next(schedule)
    return schedule


class Short(cs.SingleMemoryStorageSchedule):
    def _iterator(self):
        self._n = 3
        yield cs.Forward(0, 3, False, True, WORK)
        yield cs.EndForward()


class Skips(cs.SingleMemoryStorageSchedule):
    def _iterator(self):
        self._n = 5
        yield cs.Forward(0, 5, False, True, WORK)
        yield cs.EndForward()
        yield cs.Reverse(4, 0, True)
        yield cs.EndReverse()


@pytest.mark.parametrize(
    ("error", "match", "change"),
    [
        (ValueError, "n is 0", {"n": 0}),
        (TypeError, "integer", {"n": 2.5}),
        (ValueError, "schedule=0", {"schedule": 0}),
        (TypeError, "not str", {"schedule": "revolve"}),
        (TypeError, "not bool", {"schedule": True}),
        (ValueError, "for 4 steps, and n is 5", {"schedule": cs.Revolve(4, 2)}),
        (ValueError, "has been iterated over", {"schedule": begun()}),
        (ValueError, "has no backward", {"schedule": cs.NoneCheckpointSchedule()}),
        (ValueError, "the first way forward ends at 3", {"schedule": Short()}),
        (ValueError, "where that of step 4 is due", {"schedule": Skips()}),
        (TypeError, r"was given \* as its state, and gave \(\*, \*\) in step 0", {"step": lambda x, i: (x, x)}),
        (TypeError, "must be Tensor", {"step": lambda x, i: "x"}),
        (TypeError, "must be Tensor", {"state": "x"}),
    ],
)
def test_bad_input(error, match, change):
    given = {"step": lambda x, i: x * 2, "state": leaf(1.0), "n": 5, "schedule": 2} | change
    with pytest.raises(error, match=match):
        checkpoint_sequence(**given).backward()


def test_the_package_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "checkpoint_schedules", None)
    with pytest.raises(ImportError, match=r'pip install "agrad\[schedules\]"'):
        checkpoint_sequence(lambda x, i: x, leaf(1.0), 3, schedule=1)
