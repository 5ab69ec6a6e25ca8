"""Threads and tasks: nothing is lost where they share leaves, graphs, caches and first uses. Sums are exact.

The interpreter changes threads as often as it can here, which shows most races that a free-threaded build would.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from contextvars import copy_context

import numpy as np
import pytest

import agrad as ag
from agrad.core import once
from agrad.utils.checkpoint import checkpoint

THREADS = 8


@pytest.fixture(autouse=True)
def change_threads_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work, threads=THREADS):
    """Run ``work(i)`` in so many threads that all start at once; give the results, raise the first failure."""
    barrier, results, failures = threading.Barrier(threads), [None] * threads, []

    def run(i):
        try:
            barrier.wait(30)
            results[i] = work(i)
        except BaseException as error:  # noqa: BLE001 (raised below)
            failures.append(error)

    started = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]
    return results


FIRST_USE = """
import sys, threading
sys.setswitchinterval(1e-6)
import agrad as ag
import numpy as np

def work(i):
    barrier.wait(30)
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    m = ag.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    rows = ag.unstack(m)
    y = (ag.sin(x) * ag.exp(x) / (x + 1.0)).sum() + ag.concat([x, 2.0 * x]).sum() + x[1]
    z = ag.linalg.det(m) + (rows[0] * rows[1]).sum() + ag.nn.functional.softmax(m, axis=-1).sum()
    gx, gm = ag.grad(y + z, (x, m), create_graph=True)
    (second,) = ag.grad((gx * gx).sum(), x)
    rows = ag.func.vmap(ag.func.grad(lambda w, v: (w @ v).sum()), (None, 0))(m.detach(), ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    jacobian = ag.func.jacfwd(lambda x: ag.cos(x) * x)(x.detach())
    return [np.asarray(t.detach().numpy()) for t in (gx, gm, second, rows, jacobian)]

def run(i):
    try:
        results.append(work(i))
    except BaseException as error:
        failures.append(error)

barrier, results, failures = threading.Barrier(8), [], []
threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
if failures: raise failures[0]
x = np.asarray([1.0, 2.0, 3.0])
s, c, e, n = np.sin(x), np.cos(x), np.exp(x), x + 1
first = (s + c) * e / n - s * e / n**2 + [3.0, 4.0, 3.0]
bend = 2 * c * e / n - 2 * (s + c) * e / n**2 + 2 * s * e / n**3
expected = [
    first, [[4.0, 2.0], [1.0, 3.0]], 2 * first * bend,
    [[[1.0, 2.0], [1.0, 2.0]], [[3.0, 4.0], [3.0, 4.0]]], np.diag(c - x * s),
]
assert len(results) == 8
for found in results:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
"""


@pytest.mark.parametrize("attempt", range(2))
def test_first_use_of_everything_by_many_threads_at_once(attempt):
    """Plugins are found, kernels resolved, entry points and rules compiled, namespaces bound: once, and for all."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_USE], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr


def test_backwards_into_one_leaf_lose_nothing():
    w = ag.ones(3, requires_grad=True)

    def work(i):
        for _ in range(40):
            (w * float(i)).sum().backward()

    together(work)
    assert w.grad.tolist() == [40.0 * sum(range(THREADS))] * 3


def test_first_gradients_of_one_leaf_lose_nothing():
    for _ in range(40):
        leaves = [ag.ones(2, requires_grad=True), ag.tensor(1.0, requires_grad=True)]
        together(lambda i: (leaves[0].sum() * leaves[1]).backward(), threads=4)  # noqa: B023 (joined in here)
        assert leaves[0].grad.tolist() == [4.0, 4.0]
        assert leaves[1].grad.item() == 8.0


def test_backwards_of_one_graph_lose_nothing():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = ag.unstack(x * x)
    total = (ag.exp(y[0] * 0.0) * y[1] + y[0]).sum()

    def work(i):
        for _ in range(20):
            total.backward(retain_graph=True)
            ag.grad(total, x, create_graph=True)

    together(work)
    assert x.grad.tolist() == [2.0 * 20 * THREADS, 4.0 * 20 * THREADS]


def test_gradients_with_history_from_many_threads():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    parts = together(lambda i: ag.grad((ag.unstack(x**3)[i % 2] * x).sum(), x, create_graph=True)[0])
    # d/dx of x_k^3 (x_0 + x_1), and of the sum of that once more
    a, b = 1.0, 2.0
    firsts = [[3 * a**2 * (a + b) + a**3, a**3], [b**3, 3 * b**2 * (a + b) + b**3]]
    assert [p.tolist() for p in parts] == [firsts[i % 2] for i in range(THREADS)]
    sum(p.sum() for p in parts).backward()
    half = THREADS / 2
    by_a = half * (6 * a * (a + b) + 3 * a**2 + 3 * a**2 + 3 * a**2 + 3 * b**2)
    by_b = half * (6 * b * (a + b) + 3 * b**2 + 3 * b**2 + 3 * b**2 + 3 * a**2)
    assert x.grad.tolist() == [by_a, by_b]


def test_outputs_of_one_call_are_one_object_for_all_threads():
    for _ in range(20):
        y = ag.unstack(ag.ones(2, requires_grad=True) * 2.0)[0]
        base = y.grad_fn
        from_threads = together(lambda i: ag.core.node.output_of(base, 1), threads=4)  # noqa: B023 (joined in here)
        assert len(set(map(id, from_threads))) == 1


def test_hooks_registered_by_many_threads_all_run():
    for _ in range(20):
        calls = []
        x = ag.ones(2, requires_grad=True)
        y = x * 1.0

        def register(i):
            y.register_hook(lambda g: calls.append(i))  # noqa: B023 (joined in here)
            x.register_post_accumulate_grad_hook(lambda p: calls.append(i + 100))  # noqa: B023

        together(register, threads=4)
        y.sum().backward()
        assert sorted(calls) == [0, 1, 2, 3, 100, 101, 102, 103]


def test_hooks_in_many_threads():
    w = ag.ones(2, requires_grad=True)
    seen = []
    w.register_hook(lambda g: seen.append(g[0].item()))
    w.register_post_accumulate_grad_hook(lambda p: seen.append(0.0))

    def work(i):
        for _ in range(10):
            (w * float(i + 1)).sum().backward()

    together(work)
    assert w.grad.tolist() == [10.0 * sum(range(1, THREADS + 1))] * 2
    assert len(seen) == 2 * 10 * THREADS
    assert sum(seen) == 10.0 * sum(range(1, THREADS + 1))


def test_transforms_in_many_threads():
    """Levels of vmap and of forward mode belong to a thread, and nest within it whatever others are open."""
    rows = np.arange(6.0).reshape(2, 3)
    weight = ag.tensor([1.0, 2.0, 3.0])

    def work(i):
        x = ag.tensor(rows + i)
        for _ in range(5):
            products = ag.func.vmap(lambda a: ag.func.vmap(lambda b: (a * b * weight).sum())(x))(x)
            gradients = ag.func.vmap(ag.func.grad(lambda row: (row**2 * weight).sum()))(x)
            hessian = ag.func.hessian(lambda v: (v**3).sum())(x[0, :])
            _, tangent = ag.func.jvp(lambda v: v * v, (x,), (ag.ones_like(x),))
        return [t.numpy() for t in (products, gradients, hessian, tangent)]

    for i, found in enumerate(together(work, threads=4)):
        a, w = rows + i, np.asarray([1.0, 2.0, 3.0])
        for got, expected in zip(found, ((a * w) @ a.T, 2 * a * w, np.diag(6 * a[0]), 2 * a), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_checkpoints_draw_their_own_numbers_again():
    """What a checkpoint drew is drawn again, whatever other threads have drawn meanwhile; and they are not disturbed."""

    def work(i):
        drawn = []
        for _ in range(10):
            x = ag.ones(20, requires_grad=True)
            y = checkpoint(lambda x: x * ag.rand(20) * ag.exp(x * 0.0) * ag.rand(20), x)
            y.sum().backward()
            drawn.append(x.grad.tolist() == y.tolist())
            drawn.append(ag.rand(1).item())
        return drawn

    results = together(work, threads=4)
    assert all(all(found[::2]) for found in results)
    numbers = [number for found in results for number in found[1::2]]
    assert len(set(numbers)) == len(numbers)


def test_checkpoint_of_one_graph_in_many_threads():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = checkpoint(lambda x: ag.exp(x * 0.0) * x * x, x).sum()
    together(lambda i: [y.backward(retain_graph=True) for _ in range(5)])
    assert x.grad.tolist() == [2.0 * 5 * THREADS, 4.0 * 5 * THREADS]


@pytest.mark.parametrize("inherit", [False, True])
def test_modes_belong_to_their_thread(inherit):
    x = ag.ones(1, requires_grad=True)

    def work(i):
        found = [(x * 1.0).requires_grad]
        for _ in range(30):
            with ag.no_grad():
                found.append(not (x * 1.0).requires_grad)
                with ag.enable_grad():
                    found.append((x * 1.0).requires_grad)
            found.append((x * 1.0).requires_grad)
        return all(found)

    with ag.no_grad():
        contexts = [copy_context() for _ in range(THREADS)]
        assert all(together(lambda i: contexts[i].run(work, i) if inherit else work(i)))
        assert not (x * 1.0).requires_grad


def test_tasks_that_share_a_leaf():
    w = ag.ones(2, requires_grad=True)

    async def task(i):
        for _ in range(10):
            with ag.no_grad():
                await asyncio.sleep(0)
                assert not (w * 1.0).requires_grad
            y = (w * float(i)).sum()
            await asyncio.sleep(0)
            y.backward()

    async def main():
        await asyncio.gather(*map(task, range(THREADS)))

    asyncio.run(main())
    assert w.grad.tolist() == [10.0 * sum(range(THREADS))] * 2


# -- determinism --------------------------------------------------------------------------------------------------------

PROGRAM = """
import hashlib
import numpy as np
import agrad as ag
from agrad.utils.checkpoint import checkpoint

def gradients(device):
    rng = np.random.default_rng(0)
    a = ag.tensor(rng.normal(size=(6, 5)), requires_grad=True, device=device)
    b = ag.tensor(rng.normal(size=(5, 4)), requires_grad=True, device=device)
    c = ag.tensor(rng.normal(size=4), requires_grad=True, device=device)
    h = ag.tanh(a @ b + c)
    p, q = ag.unstack(h)[0], h[1:, :]
    y = (ag.exp(p) * c).sum() + (q * h[0, :] / (1.0 + q * q)).sum() + ag.concat([h, q]).sum() + (h * c * h * b[0, :]).mean()
    y = y + checkpoint(lambda a: ag.sin(a @ b).sum(), a)
    first = ag.grad(y, (a, b, c), create_graph=True)
    second = ag.grad(sum((g * g).sum() for g in first), (a, b, c), retain_graph=True)
    y.backward()
    found = [t.detach() for t in (*first, *second, a.grad, b.grad, c.grad)]
    ag.compute(*found)
    return b"".join(np.asarray(t.numpy()).tobytes() for t in found)
"""


def test_the_same_program_gives_the_same_bits():
    names = {}
    exec(PROGRAM, names)
    expected = names["gradients"]("numpy")
    found = {names["gradients"]("numpy") for _ in range(20)}
    found |= set(together(lambda i: names["gradients"]("numpy")))
    assert found == {expected}


def test_the_same_bits_with_other_hashes():
    script = f"{PROGRAM}\nprint(hashlib.sha256(gradients('numpy')).hexdigest())"
    seen = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        seen.add(done.stdout)
    assert len(seen) == 1


def test_the_same_bits_on_the_threads_of_dask():
    dask = pytest.importorskip("dask")
    names = {}
    exec(PROGRAM, names)
    with dask.config.set(scheduler="threads", num_workers=2):
        assert len({names["gradients"]("dask") for _ in range(2)}) == 1


def test_a_lock_lives_as_long_as_what_it_guards():
    made = weakref.ref(once.lock())
    gc.collect()
    assert made() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the other thread is the point
@pytest.mark.parametrize("how", [{}, {"undo": list}], ids=["plain", "with what undoes"])
def test_a_forked_child_finds_a_lock_free_that_another_thread_has(how):
    lock, taken, leave = once.lock(**how), threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert taken.wait(60)
        child = os.fork()
        if child == 0:
            os._exit(0 if lock.acquire(timeout=10) else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        leave.set()
        thread.join()
