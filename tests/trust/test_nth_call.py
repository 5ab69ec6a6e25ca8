"""An error, an interrupt and a lack of memory in the n-th kernel call of many programs.

Whatever fails, every `.grad` is as it was before the `backward` that failed, modes, the running pass and locks are as they
were, and the program run again gives the right gradient: that of finite differences of the same formula in NumPy.

Run as a script, this tries every n of every program; the tests try some.
"""

from __future__ import annotations

import functools
import itertools
import random
import sys
import threading

import numpy as np
import pytest
from programs import Cube

import agrad as ag
from agrad.autograd import forward_ad
from agrad.autograd.graph import save_on_cpu, saved_tensors_hooks
from agrad.core import commit, engine, mode, once
from agrad.core import kernels as kernels_module
from agrad.core.saved import active
from agrad.optim import optimizer as optimizers
from agrad.plugin import manager
from agrad.utils.checkpoint import checkpoint

F = ag.nn.functional
RNG = np.random.default_rng(7)
A, B, C = (RNG.uniform(0.4, 1.6, (3, 3)) for _ in range(3))
V = RNG.uniform(0.4, 1.6, 3)
IMAGE, FILTER = RNG.uniform(-1, 1, (1, 2, 5, 5)), RNG.uniform(-1, 1, (3, 2, 3, 3))


# -- kernels that fail ----------------------------------------------------------------------------------------------------


class Kernels:
    """Every kernel of a backend, counted while a program runs; the n-th call fails, before its work or after it."""

    def __init__(self):
        self.count, self.at, self.error, self.late = 0, 0, None, False
        self.on = False

    def around(self, kernel):
        if not callable(kernel) or isinstance(kernel, type):
            return kernel

        @functools.wraps(kernel, updated=())
        def counted(*args, **kwargs):
            if not self.on:
                return kernel(*args, **kwargs)
            self.count += 1
            if self.count != self.at:
                return kernel(*args, **kwargs)
            if self.late:
                kernel(*args, **kwargs)
            raise self.error

        return counted

    def run(self, program, leaves, at=0, error=None, late=False):
        """Give the `.grad` values after each backward that came to its end, and whether the program did."""
        self.count, self.at, self.error, self.late = 0, at, error, late
        stages = [gradients(leaves)]
        self.on = True
        try:
            for _ in program(*leaves):
                self.on = False
                stages.append(gradients(leaves))
                self.on = True
        except (Injected, KeyboardInterrupt, MemoryError):
            assert self.count >= at > 0
            return stages, False
        finally:
            self.on = False
        return stages, True


class Injected(RuntimeError):
    pass


@pytest.fixture
def kernels():
    with counted_kernels() as found:
        yield found


class counted_kernels:
    def __enter__(self):
        self.patch = pytest.MonkeyPatch()
        found = Kernels()
        resolve, kernel_of = kernels_module._resolve, optimizers.kernel_of
        self.patch.setattr(kernels_module, "_resolve", lambda backend, name: found.around(resolve(backend, name)))
        for module in ("optimizer", "adam", "sgd"):
            self.patch.setattr(f"agrad.optim.{module}.kernel_of", lambda *args: found.around(kernel_of(*args)))
        numpy = manager.get("numpy")
        self.patch.setattr(numpy, "setitem_into", found.around(numpy.setitem_into), raising=False)
        self.forget()
        return found

    def __exit__(self, *exc):
        self.patch.undo()
        self.forget()

    @staticmethod
    def forget():
        for known in list(manager._backends.values()):
            kernels_module.forget_kernels(known)


# -- programs: each yields after every backward ---------------------------------------------------------------------------


PROGRAMS = {}


def program(*arrays, value):
    """Register a program with its leaves, and what it differentiates as a formula of NumPy."""

    def register(function):
        PROGRAMS[function.__name__] = function, arrays, value
        return function

    return register


@program(A, V, value=lambda a, v: (np.sin(a * v) * np.exp(-a)).sum())
def chain(a, v):
    (ag.sin(a * v) * ag.exp(-a)).sum().backward()
    yield


@program(A, V, value=lambda a, v: ((a + v[:, None]) / (v * 2 + 1)).mean())
def broadcasting(a, v):
    ((a + v[:, None]) / (v * 2 + 1)).mean().backward()
    yield


@program(A, B, V, value=lambda a, b, v: (np.tanh(np.tanh(C @ a + v) @ b) ** 2).sum())
def perceptron(a, b, v):
    (ag.tanh(ag.tanh(ag.asarray(C) @ a + v) @ b) ** 2).sum().backward()
    yield


def _correlate(image, weight):
    windows = np.lib.stride_tricks.sliding_window_view(image[0], (3, 3), axis=(1, 2))
    return np.einsum("cijkl,ockl->oij", windows, weight)


@program(IMAGE, FILTER, value=lambda x, w: (1 / (1 + np.exp(-_correlate(x, w)))).sum())
def convolution(x, w):
    ag.sigmoid(F.conv2d(x, w)).sum().backward()
    yield


def _cross_entropy(a):
    shifted = a - a.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -logs[np.arange(3), [0, 2, 1]].mean()


@program(A, B, value=lambda a, b: _cross_entropy(a @ b))
def cross_entropy(a, b):
    F.cross_entropy(a @ b, ag.asarray([0, 2, 1])).backward()
    yield


@program(A, B, value=lambda a, b: ((a * b) ** 3 + a).sum())
def own_function(a, b):
    (Cube.apply(a * b) + a).sum().backward()
    yield


@program(A, B, value=lambda a, b: (2 * a * np.exp(b)).sum())
def tensor_hooks(a, b):
    y = a * ag.exp(b)
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    yield


@program(A, B, value=lambda a, b: ((a * b) ** 2).sum())
def retained(a, b):
    y = a * b
    y.retain_grad()
    (y * y).sum().backward()
    yield


@program(A, B, value=lambda a, b: (a * b).sum() + np.exp(a).sum())
def post_accumulate(a, b):
    handle = b.register_post_accumulate_grad_hook(lambda p: None)
    try:
        ((a * b).sum() + ag.exp(a).sum()).backward()
    finally:
        handle.remove()
    yield


@program(A, V, value=lambda a, v: np.sin(np.exp(-a) * v).sum())
def checkpointed(a, v):
    checkpoint(lambda a, v: ag.sin(ag.exp(-a) * v), a, v).sum().backward()
    yield


@program(A, V, value=lambda a, v: np.sin(np.cos(np.exp(-a) * v)).sum())
def nested_checkpoint(a, v):
    def inner(a):
        return ag.cos(ag.exp(-a) * v)

    checkpoint(lambda a: ag.sin(checkpoint(inner, a)), a).sum().backward()
    yield


@program(A, B, value=lambda a, b: (np.exp(a * b) * b).sum())
def saved_hooks(a, b):
    with saved_tensors_hooks(lambda t: t.numpy(), ag.asarray):
        y = (ag.exp(a * b) * b).sum()
    y.backward()
    yield


@program(A, B, value=lambda a, b: (np.exp(a * b) * b).sum())
def saved_elsewhere(a, b):
    with save_on_cpu():
        y = (ag.exp(a * b) * b).sum()
        y.backward()
    yield


def _in_place(a, v):
    y = a * 2
    y = y + v
    y[0] = v * v
    y[1, 1] = 5.0
    return (np.exp(y * a * -1) ** 2).sum()


@program(A, V, value=_in_place)
def in_place(a, v):
    y = a * 2
    y += v
    y[0] = v * v
    y[1, 1] = 5.0
    y *= a
    y.neg_()
    y.exp_()
    (y**2).sum().backward()
    yield


@program(A, B, value=lambda a, b: (a * b).sum() + (a * a * b).sum() + (a + np.exp(b)).sum())
def accumulated(a, b):
    (a * b).sum().backward()
    yield
    (a * a * b).sum().backward()
    yield
    (a + ag.exp(b)).sum().backward()
    yield


@program(A, V, value=lambda a, v: (4 * a**3 * v).sum() + (a**4 * v).sum())
def second_order(a, v):
    y = (a**4 * v).sum()
    (g,) = ag.autograd.grad(y, a, create_graph=True)
    (g.sum() + y).backward()
    yield


@program(A, B, value=lambda a, b: (a**2 * b).sum())
def create_graph(a, b):
    (a**2 * b).sum().backward(create_graph=True)
    yield


@program(A, V, value=lambda a, v: ((np.cos(a) * v) ** 2).sum())
def func_grad(a, v):
    ((ag.func.grad(lambda a: (ag.sin(a)).sum())(a) * v) ** 2).sum().backward()
    yield


@program(A, V, value=lambda a, v: (np.exp(a * v).sum(axis=1) ** 2).sum())
def func_vmap(a, v):
    (ag.vmap(lambda row: ag.exp(row * v).sum())(a) ** 2).sum().backward()
    yield


@program(V, V[::-1].copy(), value=lambda x, v: (np.cos(x) * v).sum())
def func_jvp(x, v):
    _, tangent = ag.func.jvp(ag.sin, (x,), (v,))
    tangent.sum().backward()
    yield


@program(V, value=lambda x: (6 * x).sum() + (x**3).sum())
def func_hessian(x):
    h = ag.func.hessian(lambda x: (x**3).sum())(x)
    (h.sum() + (x**3).sum()).backward()
    yield


@program(V, value=lambda x: (np.cos(x) * 2 * x).sum())
def forward_mode(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, ag.ones(3, dtype=x.dtype) * 2)
        tangent = forward_ad.unpack_dual(ag.sin(dual)).tangent
        (tangent * x).sum().backward()
    yield


@program(A, value=lambda a: np.linalg.svd(a)[1].sum() + (a[0] * a[1] * a[2]).sum())
def several_outputs(a):
    s = ag.linalg.svd(a)[1]
    x, y, z = ag.unstack(a)
    (s.sum() + (x * y * z).sum()).backward()
    yield


@program(A, B, value=lambda a, b: (a * np.exp(b)).sum())
def not_recorded(a, b):
    with ag.no_grad():
        constant = ag.exp(b)

    @ag.no_grad()
    def rows(x):
        for i in range(3):
            yield x[i] * 1.0

    assert len(list(rows(a))) == 3
    assert not constant.requires_grad
    (a * ag.exp(b)).sum().backward()
    yield


@program(A[:, :1].copy(), V[:1].copy(), value=lambda w, v: ((C @ w + v) ** 2).sum())
def functional_call(w, v):
    net = ag.nn.Linear(3, 1).double()
    y = ag.func.functional_call(net, {"weight": w.T, "bias": v}, (ag.asarray(C),))
    (y**2).sum().backward()
    yield


@program(A, B, value=lambda a, b: (a * b).sum())
def optimizer_step(a, b):
    copies = [ag.tensor(p.detach().numpy(), requires_grad=True) for p in (a, b)]
    optimizer = ag.optim.Adam(copies, lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (copies[0] * copies[1]).sum().backward()
        optimizer.step()
    (a * b).sum().backward()
    yield


@program(A, B, value=lambda a, b: (np.sin(a) * 3 * C + b * np.cos(C)).sum())
def mixed_with_dask(a, b):
    dask_array = pytest.importorskip("dask.array")
    data = ag.asarray(dask_array.from_array(C, chunks=(2, 3)))
    (ag.sin(a) * 3 * data + b * ag.cos(data)).sum().backward()
    yield


@program(A, value=lambda a: (np.sin(a) * a).sum())
def on_dask(a):
    pytest.importorskip("dask.array")
    x = ag.to_device(a, "dask")
    y = (ag.sin(x) * x).sum()
    y.backward()
    yield
    ag.compute(y, a.grad)


# -- what is checked ------------------------------------------------------------------------------------------------------


def gradients(leaves):
    return [None if t.grad is None else t.grad.detach().numpy().copy() for t in leaves]


def same(found, expected):
    return all(
        (one is None) == (other is None) and (one is None or np.array_equal(one, other))
        for one, other in zip(found, expected, strict=True)
    )


def differences(value, arrays):
    """Give the gradient of a formula by central differences."""
    found = []
    for i, array in enumerate(arrays):
        g = np.empty_like(array)
        for at in np.ndindex(array.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [a.copy() for a in arrays]
                moved[i][at] += step
                ends.append(value(*moved))
            g[at] = (ends[0] - ends[1]) / 2e-5
        found.append(g)
    return found


def leaves_of(arrays, *, earlier):
    leaves = [ag.tensor(array, requires_grad=True) for array in arrays]
    if earlier:
        for t in leaves:
            t.grad = ag.ones(t.shape, dtype=t.dtype)
            t.grad[(0,) * t.ndim] = 3.0  # written to in place: a buffer of its own
    return leaves


def nothing_left_behind(before):
    assert mode.current() == before or mode.current() is before
    assert ag.is_grad_enabled()
    assert engine.running() is None
    assert not mode.batch_levels.get()
    assert not active()
    free = []

    def take():
        for lock in (commit.ACCUMULATING, once.FIRST_USE, manager._loading):
            if lock.acquire(timeout=5):
                lock.release()
                free.append(lock)

    thread = threading.Thread(target=take)  # in another one: these locks are reentrant
    thread.start()
    thread.join()
    assert len(free) == 3


def sweep(kernels, name, error, *, late=False, earlier=False, chosen=None):
    """Let the n-th kernel call fail, for every n or the ones chosen; give how many there were."""
    function, arrays, value = PROGRAMS[name]
    for _ in range(2):  # the first run also resolves kernels and builds entry points
        leaves = leaves_of(arrays, earlier=earlier)
        expected, complete = kernels.run(function, leaves)
        total = kernels.count
    assert complete
    right = differences(value, arrays)
    for t, found, g, start in zip(leaves, expected[-1], right, expected[0], strict=True):
        np.testing.assert_allclose(found, g + (0 if start is None else start), rtol=1e-6, atol=1e-6, err_msg=str(t))
    before = mode.current()
    tried = range(1, total + 1) if chosen is None else chosen(total)
    for n in tried:
        leaves = leaves_of(arrays, earlier=earlier)
        stages, complete = kernels.run(function, leaves, n, error(f"call {n}") if error is Injected else error(), late)
        if kernels.count < n:  # something that is kept weakly was there this time: one call less
            continue
        assert not complete, f"{name}: the failure of call {n} was swallowed"
        now, done = gradients(leaves), len(stages) - 1
        if name == "post_accumulate":  # a leaf with such a hook is committed by itself
            expected_now = [(stages[done][0],), (stages[done][1], expected[-1][1])]
            assert all(any(same([g], [e]) for e in one) for g, one in zip(now, expected_now, strict=True)), n
        else:
            assert same(now, expected[done]), f"{name}: call {n} changed a gradient"
        nothing_left_behind(before)
        for t, array in zip(leaves, arrays, strict=True):
            assert np.array_equal(t.detach().numpy(), array), f"{name}: call {n} changed a leaf"
        for t, start in zip(leaves, expected[0], strict=True):
            t.grad = None if start is None else ag.asarray(start, copy=True)
        again, complete = kernels.run(function, leaves)
        assert complete
        for found, g in zip(again[-1], expected[-1], strict=True):
            np.testing.assert_allclose(found, g, rtol=1e-12, atol=1e-14, err_msg=f"{name}: again after call {n}")
    return len(tried)


ERRORS = (Injected, KeyboardInterrupt, MemoryError)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_failing_call_leaves_nothing_behind(kernels, name):
    chance = random.Random(name)
    for error, late, earlier in zip(ERRORS, (False, True, False), (True, True, False), strict=True):
        sweep(
            kernels,
            name,
            error,
            late=late,
            earlier=earlier,
            chosen=lambda total: sorted({total, *chance.sample(range(1, total + 1), min(total, 3))}),
        )


def main():
    counts = dict.fromkeys(PROGRAMS, 0)
    with counted_kernels() as kernels:
        for name in sys.argv[1:] or PROGRAMS:
            for error, late, earlier in itertools.product(ERRORS, (False, True), (False, True)):
                counts[name] += sweep(kernels, name, error, late=late, earlier=earlier)
            print(f"{name}: {counts[name]} failing calls", flush=True)
    print(f"{sum(counts.values())} failing calls in {len(counts)} programs")


if __name__ == "__main__":
    main()
