"""When lazy values are computed: how often the data are read, what stays lazy, and where values go.

The data are an object that counts how often each chunk of it is read, so that "one pass" is a number.
"""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import agrad as ag
import agrad.nn.functional as F

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
agrad_dask = pytest.importorskip("agrad_dask")

pytestmark = pytest.mark.usefixtures("dask_backend")

ROWS, COLUMNS, CHUNKS = 12, 4, 3


class Source:
    """Data as of a file: counts the reads of each chunk; `failing` makes every read raise."""

    def __init__(self, array):
        self.array = np.asarray(array)
        self.shape, self.dtype, self.ndim = self.array.shape, self.array.dtype, self.array.ndim
        self.reads = Counter()
        self.failing = False

    def __getitem__(self, key):
        if self.failing:
            message = "the disk is gone"
            raise OSError(message)
        self.reads[str(key)] += 1
        return self.array[key]

    @property
    def passes(self):
        """How often the data were read: the same number for every chunk."""
        counts = set(self.reads.values()) or {0}
        assert len(counts) == 1, self.reads
        assert len(self.reads) in (0, CHUNKS), self.reads
        return counts.pop()


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def stored(array):
    """Give a source and a tensor of it, in `CHUNKS` chunks of rows."""
    source = Source(array)
    chunks = (len(array) // CHUNKS, *source.shape[1:])
    raw = da.from_array(source, chunks=chunks, name=False, meta=np.empty((0,) * source.ndim, source.dtype))
    return source, ag.asarray(raw)


@pytest.fixture
def data():
    """Give data of 12 rows and 4 columns: the numbers, their source, and the tensor."""
    array = random(ROWS, COLUMNS)
    return array, *stored(array)


@pytest.fixture(autouse=True)
def _nobody_was_told():
    """A line is told once that it computes twice: forget that it was, in an earlier test."""
    from agrad_dask import repeats

    repeats._TOLD.clear()


def parameter(array, device="numpy"):
    return ag.asarray(np.array(array), device=device, requires_grad=True)


def differences(function, x, step=1e-6):
    """Give the gradient of a NumPy function with a scalar result by central differences."""
    gradient = np.empty_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


# -- parameters on NumPy, data on Dask --------------------------------------------------------------------------------


def test_a_training_loop_reads_the_data_once_per_step(data):
    """Word for word the loop of programs in memory."""
    array, source, x = data
    target = random(ROWS, seed=1)
    y = ag.asarray(da.from_array(target, chunks=4))
    w = parameter(np.zeros(COLUMNS))
    optimizer = ag.optim.SGD([w], lr=0.1)
    by_hand = np.zeros(COLUMNS)
    for step in range(1, 4):
        loss = ag.mean((x @ w - y) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert source.passes == step
        np.testing.assert_allclose(loss.item(), np.mean((array @ by_hand - target) ** 2), rtol=1e-12)
        assert loss.device == "dask"
        assert source.passes == step
        by_hand -= 0.1 * 2 * array.T @ (array @ by_hand - target) / ROWS
        assert type(w.grad._raw) is np.ndarray
        np.testing.assert_allclose(w.detach().numpy(), by_hand, rtol=1e-12)


def test_many_parameters_and_crossings_are_one_pass(data):
    """A perceptron: four parameters, each of which crosses on its own."""
    array, source, x = data
    values = [random(COLUMNS, 5, seed=1), random(5, seed=2), random(5, 2, seed=3), random(2, seed=4)]
    w0, b0, w1, b1 = (parameter(v) for v in values)
    loss = ag.mean((ag.tanh(x @ w0 + b0) @ w1 + b1) ** 2)
    loss.backward()
    assert source.passes == 1

    def by_hand(i, v):
        w0, b0, w1, b1 = (v if i == j else value for j, value in enumerate(values))
        return np.mean((np.tanh(array @ w0 + b0) @ w1 + b1) ** 2)

    for i, (p, v) in enumerate(zip((w0, b0, w1, b1), values, strict=True)):
        assert p.grad.device == "numpy"
        np.testing.assert_allclose(p.grad.numpy(), differences(lambda u, i=i: by_hand(i, u), v), rtol=1e-7, atol=1e-9)
    assert loss.item() == pytest.approx(by_hand(0, values[0]), rel=1e-12)
    assert source.passes == 1


def _assigned(w):
    v = w * 1.0
    v[ag.asarray([0, 2])] = w[1] * 2
    return v


def _assigned_by_hand(w):
    v = w.copy()
    v[[0, 2]] = w[1] * 2
    return v


def _normalised(w):
    c = w - w.mean()
    return c / np.sqrt((c * c).mean() + 1e-5)


def _entropy(w):
    return (np.log(np.exp(w).sum(axis=1)) - w[np.arange(4), [0, 3, 1, 1]])[:, None] * w


def _softmax(w):
    e = np.exp(w)
    return e / e.sum(axis=-1, keepdims=True)


#: What happens to a NumPy parameter before it meets the data; the same in NumPy.
UPSTREAM = {
    "elementwise": (lambda w: ag.tanh(w) * w + 2.0 * w, lambda w: np.tanh(w) * w + 2.0 * w),
    "matmul": (lambda w: w @ w.T, lambda w: w @ w.T),
    "reshape": (lambda w: ag.reshape(w, (2, 8))[:, :4].T @ w[:2], lambda w: w.reshape(2, 8)[:, :4].T @ w[:2]),
    "index array": (lambda w: w[ag.asarray([0, 2, 2, 1])], lambda w: w[[0, 2, 2, 1]]),
    "where": (lambda w: ag.where(w > 0, w**3, 0.1 * w), lambda w: np.where(w > 0, w**3, 0.1 * w)),
    "assignment": (_assigned, _assigned_by_hand),
    "concat": (lambda w: ag.concat([w[:2], 3.0 * w[2:]]), lambda w: np.concatenate([w[:2], 3.0 * w[2:]])),
    "broadcasting": (lambda w: w[0] + ag.sum(w) * w[:, :1], lambda w: w[0] + np.sum(w) * w[:, :1]),
    "softmax": (lambda w: F.softmax(w, -1), _softmax),
    "inverse": (lambda w: ag.linalg.inv(w + 5 * ag.eye(4)), lambda w: np.linalg.inv(w + 5 * np.eye(4))),
    "eigenvalues": (lambda w: ag.linalg.eigh(w + w.T)[0] * w, lambda w: np.linalg.eigh(w + w.T)[0] * w),
    "many results": (
        lambda w: ag.stack([row * i for i, row in enumerate(ag.unstack(w))]),
        lambda w: w * np.arange(4)[:, None],
    ),
    "residuals": (lambda w: F.layer_norm(w, w.shape), _normalised),
    "no residual": (
        lambda w: F.cross_entropy(w, ag.asarray([0, 3, 1, 1]), reduction="none")[:, None] * w,
        _entropy,
    ),
    "sort": (lambda w: ag.sort(w, axis=0), lambda w: np.sort(w, axis=0)),
    "fft": (lambda w: ag.real(ag.fft.fft(w)), lambda w: np.fft.fft(w).real),
    "float32": (lambda w: ag.astype(w * 2.0, "complex128").real * 1.0, lambda w: w * 2.0),
}


@pytest.mark.parametrize("name", UPSTREAM)
def test_rules_run_where_the_cotangent_is(name, data):
    """Nodes of the absorbed backend, upstream of the crossing, neither compute nor give anything wrong."""
    array, source, x = data
    ours, by_hand = UPSTREAM[name]
    w0 = random(COLUMNS, COLUMNS, seed=7)
    w = parameter(w0)
    upstream = ours(w)
    assert upstream.device == "numpy"
    loss = ag.mean(ag.tanh(x @ upstream) ** 2)
    loss.backward()
    assert source.passes == 1
    assert type(w.grad._raw) is np.ndarray
    expected = differences(lambda v: np.mean(np.tanh(array @ by_hand(v)) ** 2), w0)
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("penalty_first", [True, False])
def test_lazy_and_eager_cotangents_meet(penalty_first, data):
    """A penalty on NumPy and the data's loss, summed at a parameter and at a result of it, in either order."""
    array, source, x = data
    w0 = random(COLUMNS, seed=1)
    w = parameter(w0)
    v = ag.exp(w)
    parts = [
        lambda: ag.sum(v * v) + ag.sum(v**3) + ag.sum(w**3) + ag.sum(w**4),
        lambda: ag.mean((x @ v) ** 2) + ag.sum(x @ w) + ag.sum(x @ w),
    ]
    ag.backward([part() for part in (parts if penalty_first else parts[::-1])])  # the newest is the first to run

    def by_hand(u):
        v = np.exp(u)
        return np.sum(v * v + v**3 + u**3 + u**4) + np.mean((array @ v) ** 2) + 2 * np.sum(array @ u)

    np.testing.assert_allclose(w.grad.numpy(), differences(by_hand, w0), rtol=1e-6)
    assert source.passes == 1


def test_gradients_accumulate_on_numpy(data):
    array, source, x = data
    w = parameter(np.ones(COLUMNS))
    loss = ag.sum(x @ w)
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * array.sum(axis=0), rtol=1e-12)
    assert source.passes == 2  # the second pass knows nothing of the first


def test_another_backend_than_numpy(data, strict_backend):
    array, source, x = data
    w0 = random(COLUMNS, seed=1)
    w = ag.asarray(w0, device="strict", requires_grad=True)
    loss = ag.mean((x @ ag.exp(w).to_device("dask")) ** 2)
    loss.backward()
    assert w.grad.device == "strict"
    assert type(w.grad._raw) is type(w._raw)
    found = w.grad.to_device("numpy").numpy()
    expected = 2 * np.exp(w0) * (array.T @ (array @ np.exp(w0))) / ROWS
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert source.passes == 1


def test_a_loss_that_has_left_for_numpy(data):
    """Leaving computes; the way back is one more pass, whatever crossings are on it."""
    array, source, x = data
    a, b = parameter(np.ones(COLUMNS)), parameter(np.full(COLUMNS, 2.0))
    loss = ag.mean(x @ a * (x @ b)).to_device("numpy") * 3.0
    assert source.passes == 1
    with pytest.warns(ag.RecomputeWarning):
        loss.backward()
    assert source.passes == 2
    sums = array.sum(axis=1)
    np.testing.assert_allclose(a.grad.numpy(), 3 * np.mean(2 * sums[:, None] * array, axis=0), rtol=1e-12)
    np.testing.assert_allclose(b.grad.numpy(), 3 * np.mean(sums[:, None] * array, axis=0), rtol=1e-12)


def test_lazy_leaves_beside_keep_lazy_gradients(data):
    array, source, x = data
    w, v = parameter(np.ones(COLUMNS)), parameter(np.ones(COLUMNS), "dask")
    ag.sum(x @ (w * v)).backward()
    assert w.grad.device == "numpy"
    assert v.grad.device == "dask"
    assert source.passes == 1
    np.testing.assert_allclose(w.grad.numpy(), array.sum(axis=0), rtol=1e-12)


def test_grad_and_its_kin_are_one_pass_too(data):
    array, source, x = data
    a, b = parameter(np.ones(COLUMNS)), parameter(2.0)

    def f(a, b):
        return ag.mean((x @ a + b) ** 2)

    loss = f(a, b)
    found = ag.autograd.grad(loss, [a, b])
    assert source.passes == 1
    loss.item()
    assert source.passes == 1
    r = array.sum(axis=1) + 2
    for g, expected in zip(found, (2 * array.T @ r / ROWS, 2 * np.mean(r)), strict=True):
        assert g.device == "numpy"
        np.testing.assert_allclose(g.numpy(), expected, rtol=1e-12)
    value, (by_a, by_b) = ag.func.value_and_grad(f, argnums=(0, 1))(a.detach(), b.detach())
    assert source.passes == 2
    np.testing.assert_allclose(value.item(), np.mean(r**2), rtol=1e-12)
    np.testing.assert_array_equal(by_a.numpy(), found[0].numpy())
    np.testing.assert_array_equal(by_b.numpy(), found[1].numpy())
    assert source.passes == 2
    f(a, b).backward(inputs=[b])
    assert source.passes == 3
    assert a.grad is None
    np.testing.assert_allclose(b.grad.item(), 2 * np.mean(r), rtol=1e-12)


def test_a_recorded_pass_computes_at_each_crossing_and_is_right(data):
    array, source, x = data
    w0 = random(COLUMNS, seed=1)
    w = parameter(w0)
    (g,) = ag.autograd.grad(ag.mean((x @ w) ** 4), w, create_graph=True)
    assert source.passes == 1
    assert g.device == "numpy"
    with pytest.warns(ag.RecomputeWarning):
        (h,) = ag.autograd.grad(ag.sum(g * g), w)
    by_hand = lambda u: np.sum((4 * array.T @ (array @ u) ** 3 / ROWS) ** 2)
    np.testing.assert_allclose(h.numpy(), differences(by_hand, w0), rtol=1e-6)


def test_transforms_that_map_over_a_batch_cross_with_the_whole_batch(data):
    """One pass over the data for all rows of a Jacobian; a batched parameter in memory comes to the data."""
    array, source, x = data
    w0, w1 = random(COLUMNS, seed=1), random(COLUMNS, seed=2)
    w = ag.asarray(w0)
    f = lambda u: ag.tanh(x @ u)
    slope = (1 - np.tanh(array @ w0) ** 2)[:, None] * array
    rows = ag.func.jacrev(f)(w)
    assert source.passes == 1
    assert rows.device == "numpy"
    np.testing.assert_allclose(rows.numpy(), slope, rtol=1e-12)
    columns = ag.func.jacfwd(f)(w)
    assert source.passes == 1  # nothing crosses back
    np.testing.assert_allclose(columns.numpy(), slope, rtol=1e-12)
    mapped = ag.func.vmap(f)(ag.asarray(np.stack([w0, w1])))
    np.testing.assert_allclose(mapped.numpy(), np.tanh([array @ w0, array @ w1]), rtol=1e-12)

    v = parameter(w0)
    given = ag.asarray(np.eye(ROWS)[:2])
    (batched,) = ag.autograd.grad(f(v), v, given.to_device("dask"), is_grads_batched=True)
    np.testing.assert_allclose(batched.numpy(), slope[:2], rtol=1e-12)


def test_hessians_and_gradients_per_example_of_parameters_in_memory(data):
    array, _, x = data
    w0 = random(COLUMNS, seed=1)
    loss = lambda u: ag.mean((x @ u) ** 4)
    expected = 12 * array.T @ (array * (array @ w0)[:, None] ** 2) / ROWS
    forward_over_reverse = ag.func.jacfwd(ag.func.grad(loss))
    with pytest.warns(ag.RecomputeWarning):  # a crossing back for the gradient, one for its rows
        found = [second(ag.asarray(w0)) for second in (ag.func.hessian(loss), forward_over_reverse)]
    for second in (*found, ag.func.jacfwd(ag.func.jacfwd(loss))(ag.asarray(w0))):
        np.testing.assert_allclose(second.numpy(), expected, rtol=1e-10)

    per_example = ag.func.vmap(lambda row: ag.func.grad(lambda u: (row @ u) ** 4)(ag.asarray(w0)))(x)
    assert per_example.device == "numpy"
    np.testing.assert_allclose(per_example.numpy(), 4 * (array @ w0)[:, None] ** 3 * array, rtol=1e-12)


def test_a_pass_through_a_mapped_function_comes_back_to_memory(data):
    """The mapped function is over; parameters outside and inside of the batch are in memory, the data are not."""
    array, _, x = data
    a0, b0 = random(2, COLUMNS, seed=1), random(COLUMNS, seed=2)
    a, b = parameter(a0), parameter(b0)
    ag.sum(ag.func.vmap(lambda u: ag.sum((x @ (u * b)) ** 2))(a)).backward()
    r = array @ (a0 * b0).T
    np.testing.assert_allclose(a.grad.numpy(), 2 * (r.T @ array) * b0, rtol=1e-12)
    np.testing.assert_allclose(b.grad.numpy(), np.sum(2 * (r.T @ array) * a0, axis=0), rtol=1e-12)
    moved = ag.func.vmap(lambda row: ag.exp(row.to_device("numpy")))(x)
    assert moved.device == "numpy"
    np.testing.assert_allclose(moved.numpy(), np.exp(array), rtol=1e-12)


def test_roots_of_many_elements_stay_lazy(data):
    """They may be as large as the data."""
    array, source, x = data
    w = parameter(np.ones(COLUMNS))
    y = x @ w
    y.backward(ag.ones(ROWS))
    before = y._raw
    assert source.passes == 1
    assert y._raw is before
    np.testing.assert_allclose(w.grad.numpy(), array.sum(axis=0), rtol=1e-12)


def test_nothing_is_committed_if_computing_fails(data):
    _, source, x = data
    a, b = parameter(np.ones(COLUMNS)), parameter(np.ones(COLUMNS))
    ag.sum(x @ a).backward()
    kept = a.grad.tolist()
    loss = ag.sum(x @ a * (x @ b))
    lazy = loss._raw
    source.failing = True
    with pytest.raises(OSError, match="the disk is gone"):
        loss.backward(retain_graph=True)
    assert a.grad.tolist() == kept
    assert b.grad is None
    assert loss._raw is lazy
    source.failing = False
    loss.backward()
    assert b.grad is not None


def test_in_place_sums_stay_apart(data):
    """A sum that was made on NumPy before the lazy cotangent came is not written into."""
    array, _, x = data
    w = parameter(np.ones(COLUMNS))
    v = w * 1.0
    eager = ag.sum(v * v) + ag.sum(v * v * v)  # newest first: v's cotangent is a sum already when the lazy one comes
    lazy = ag.sum(x @ v)
    seen = []
    v.register_hook(lambda g: seen.append(g.tolist()))
    ag.backward([lazy, eager])
    np.testing.assert_allclose(w.grad.numpy(), array.sum(axis=0) + 5, rtol=1e-12)
    np.testing.assert_allclose(seen[0], array.sum(axis=0) + 5, rtol=1e-12)


# -- what needs a value is a barrier ----------------------------------------------------------------------------------


def test_hooks_of_numpy_tensors_see_values(data):
    array, source, x = data
    w = parameter(np.ones(COLUMNS))
    v = w * 2.0
    seen = []

    def tensor_hook(g):
        seen.append(("tensor", type(g._raw)))
        return 10.0 * g

    v.register_hook(tensor_hook)
    v.grad_fn.register_prehook(lambda gs: seen.append(("before", type(gs[0]._raw))))
    v.grad_fn.register_hook(lambda gs, outs: seen.append(("after", type(gs[0]._raw), type(outs[0]._raw))))
    w.register_hook(lambda g: seen.append(("leaf", type(g._raw))))
    w.register_post_accumulate_grad_hook(lambda p: seen.append(("accumulated", type(p.grad._raw))))
    ag.sum(x @ v).backward()
    array_type = np.ndarray
    assert seen == [
        ("tensor", array_type),
        ("before", array_type),
        ("after", array_type, array_type),
        ("leaf", array_type),
        ("accumulated", array_type),
    ]
    np.testing.assert_allclose(w.grad.numpy(), 20 * array.sum(axis=0), rtol=1e-12)
    assert source.passes == 1  # the first of them computed


def test_a_post_accumulate_hook_alone_sees_values(data):
    array, source, x = data
    w = parameter(np.ones(COLUMNS))
    seen = []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device))
    loss = ag.sum(x @ w)
    loss.backward()
    loss.item()
    assert seen == ["numpy"]
    assert source.passes == 1
    np.testing.assert_allclose(w.grad.numpy(), array.sum(axis=0), rtol=1e-12)


def test_a_hook_at_the_crossing_sees_values(data):
    array, _, x = data
    w = parameter(np.ones(COLUMNS))
    y = x * w
    crossing = y.grad_fn.next_functions[1][0]
    assert crossing.name() == "ToDeviceBackward0"
    seen = []
    crossing.register_hook(lambda gs, outs: seen.append((gs[0].device, outs[0].device)))
    ag.sum(y).backward()
    assert seen == [("numpy", "dask")]
    np.testing.assert_allclose(w.grad.numpy(), array.sum(axis=0), rtol=1e-12)


def test_retain_grad_is_no_barrier(data):
    array, source, x = data
    w = parameter(np.ones(COLUMNS))
    v, u = w * 2.0, ag.ones(COLUMNS) * w
    v.retain_grad()
    u.retain_grad()
    loss = ag.sum(x @ v) + ag.sum(x @ u)
    loss.backward()
    assert source.passes == 1
    for t in (v, u):
        assert t.grad.device == "numpy"
        np.testing.assert_allclose(t.grad.numpy(), array.sum(axis=0), rtol=1e-12)


def test_a_function_of_the_users_sees_values(data):
    array, source, x = data
    seen = []

    class Cube(ag.Function):
        @staticmethod
        def forward(ctx, w):
            ctx.save_for_backward(w)
            return w**3

        @staticmethod
        def backward(ctx, g):
            seen.append(g.device)
            (w,) = ctx.saved_tensors
            return g * 3 * w * w

    w = parameter([1.0, 2.0, 3.0, 4.0])
    ag.sum(x @ Cube.apply(w * 1.0)).backward()
    assert seen == ["numpy"]
    np.testing.assert_allclose(w.grad.numpy(), 3 * w.detach().numpy() ** 2 * array.sum(axis=0), rtol=1e-12)
    assert source.passes == 1


class Scaled(ag.Function):
    """Takes operands of two backends; its backward knows only the lazy one."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_function_of_the_users_may_be_a_crossing(create_graph, data):
    array, source, x = data
    w = parameter([1.0, 2.0, 3.0, 4.0])
    seen = []
    y = Scaled.apply(x, w * 1.0)
    loss = ag.sum(y * y)
    loss.backward(create_graph=create_graph)
    assert isinstance(w.grad._raw, np.ndarray)
    np.testing.assert_allclose(w.grad.detach().numpy(), 2 * w.detach().numpy() * (array**2).sum(axis=0), rtol=1e-12)
    if create_graph:
        (second,) = ag.autograd.grad(ag.sum(w.grad), w)
        np.testing.assert_allclose(second.numpy(), 2 * (array**2).sum(axis=0), rtol=1e-12)
    else:
        assert source.passes == 1
    v = parameter([1.0, 2.0, 3.0, 4.0])
    v.register_hook(lambda g: seen.append(g.device))
    ag.sum(Scaled.apply(x, v)).backward()
    assert seen == ["numpy"]
    np.testing.assert_allclose(v.grad.numpy(), array.sum(axis=0), rtol=1e-12)


def test_a_hook_cannot_change_the_backend(data):
    _, _, x = data
    w = parameter([1.0, 2.0, 3.0, 4.0])
    w.register_hook(lambda g: ag.sum(x, axis=0) * g)
    with pytest.raises(RuntimeError, match=r"has changed the device of value \(was numpy got dask\)"):
        ag.sum(w * w).backward()
    assert w.grad is None


def test_saved_tensor_hooks_and_anomaly_detection(data):
    array, _, x = data
    w0 = np.array([1.0, 2.0, 3.0, 4.0])
    w = parameter(w0)
    with ag.autograd.graph.save_on_cpu():
        loss = ag.sum(x @ (w**3))
    with ag.autograd.detect_anomaly(check_nan=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), 3 * w0**2 * array.sum(axis=0), rtol=1e-12)


def test_a_freed_graph_is_named(data):
    _, _, x = data
    w = parameter(np.ones(COLUMNS))
    loss = ag.sum(x @ ag.exp(w))
    loss.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()


# -- compute and persist ----------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: object
    second: object


@pytest.mark.parametrize("function", [ag.compute, ag.persist])
def test_compute_fills_many_tensors_in_one_pass(function, data):
    array, source, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    loss = ag.mean((x @ w) ** 2)
    loss.backward()
    on_numpy = ag.ones(3)
    raw = loss._raw
    nested = {"losses": [loss], "others": Pair(on_numpy, (ag.max(x), None)), "name": "run 1"}
    found = function(nested, w.grad)
    assert source.passes == 1
    assert found[0] is nested
    assert found[1] is w.grad
    for t in (loss, w.grad, nested["others"].second[0]):
        assert isinstance(t._raw, da.Array)
        assert t.device == "dask"
    r = array.sum(axis=1)
    assert loss.item() == pytest.approx(np.mean(r**2), rel=1e-12)
    np.testing.assert_allclose(w.grad.tolist(), 2 * array.T @ r / ROWS, rtol=1e-12)
    assert nested["others"].second[0].item() == array.max()
    assert source.passes == 1
    np.testing.assert_allclose(raw.compute(), np.mean(r**2), rtol=1e-12)  # the user's array is as lazy as before
    assert source.passes == 2


def test_compute_gives_back_what_it_was_given():
    x = ag.ones(2)
    assert ag.compute(x) is x
    assert ag.compute(x, 1.0, None) == (x, 1.0, None)
    assert ag.compute() == ()


def test_compute_brings_the_loss_along(data):
    _, source, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    loss = ag.mean((x @ w) ** 2)
    loss.backward()
    ag.compute(w.grad)
    loss.item()
    assert source.passes == 1


def test_the_users_array_is_never_changed(data):
    array, source, _ = data
    raw = da.from_array(source, chunks=(4, COLUMNS), name=False, meta=np.empty((0, 0)))
    name = raw.name
    x = ag.asarray(raw)
    ag.compute(x)
    assert raw.name == name
    assert x._raw is not raw
    np.testing.assert_array_equal(raw.compute(), array)
    assert source.passes == 2


@pytest.mark.parametrize("function", ["compute", "persist"])
def test_raw_lazy_arrays_are_refused(function):
    with pytest.raises(TypeError, match=rf"{function}\(\) puts values into tensors, but got dask\.array\.core\.Array"):
        getattr(ag, function)([ag.ones(2), da.ones(2)])


def test_a_saved_slot_that_holds_the_value_is_replaced(data):
    """The gradient of a root mean square has the root mean square in it."""
    array, source, x = data
    reads = []

    def counted(block):
        reads.append(1)
        return block

    mean_square = ag.asarray(
        ag.mean(x * x)._raw.map_blocks(counted, dtype=float, meta=np.empty(())), requires_grad=True
    )
    root = ag.sqrt(mean_square)  # saves its result
    twice = ag.exp(root)
    loss = twice * root  # saves both operands
    ag.compute(loss, twice, root)
    assert source.passes == 1
    assert len(reads) == 1
    loss.backward()
    ag.compute(mean_square.grad)
    assert len(reads) == 1  # the values were used
    r = np.sqrt(np.mean(array**2))
    np.testing.assert_allclose(mean_square.grad.item(), np.exp(r) * (1 + r) / (2 * r), rtol=1e-12)


def test_nothing_changes_if_computing_fails(data):
    _, source, x = data
    a, b = x + 1.0, ag.ones(2, device="dask") * 2.0
    before = a._raw, b._raw
    source.failing = True
    with pytest.raises(OSError, match="the disk is gone"):
        ag.compute(b, a)
    assert (a._raw, b._raw) == before or (a._raw is before[0] and b._raw is before[1])


def test_unknown_sizes_are_known_afterwards(data):
    array, _, x = data
    rows = x[x[:, 0] > 0]
    assert rows.size is None
    ag.compute(rows)
    np.testing.assert_array_equal(rows.numpy(), array[array[:, 0] > 0])


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.item(),
        float,
        bool,
        lambda t: t.tolist(),
        repr,
        lambda t: f"{t:.3f}",
        lambda t: t.numpy(),
        lambda t: np.asarray(t),
    ],
    ids=["item", "float", "bool", "tolist", "repr", "format", "numpy", "asarray"],
)
def test_whoever_reads_a_value_leaves_it_in_the_tensor(read, data):
    _, source, x = data
    total = ag.sum(x)
    first = read(total)
    assert source.passes == 1
    assert read(total) == first
    total.item()
    assert source.passes == 1


def test_printing_a_tensor_of_several_chunks_computes_nothing():
    touched = []

    def counted(block):
        touched.append(1)
        return block

    raw = da.ones((4000,), chunks=100).map_blocks(counted, dtype=float, meta=np.empty(0))
    touched.clear()
    assert repr(ag.asarray(raw)) == "tensor(..., shape=(4000,), chunks=(100,), device='dask', dtype=float64)"
    assert touched == []
    assert repr(ag.asarray(raw[:3])) == "tensor([1., 1., 1.], device='dask')"
    assert len(touched) == 1


# -- all on Dask ------------------------------------------------------------------------------------------------------


def test_all_lazy_programs_compute_nothing(never_computes, data):
    _, source, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    b = parameter(0.5, "dask")
    loss = ag.mean(ag.tanh(x @ w + b) ** 2) + ag.sum(w * w)
    loss.backward(retain_graph=True)
    loss.backward()
    ag.autograd.grad(ag.sum(x @ w), w)
    assert source.passes == 0


OPTIMIZERS = {
    "SGD": lambda ps: ag.optim.SGD(ps, lr=0.1, momentum=0.9),
    "Adam": lambda ps: ag.optim.Adam(ps, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimiser_computes_everything_once_per_step(name, data):
    """Parameters, state, gradients and the loss in one pass; the graph does not grow."""
    _, source, x = data
    w, b = parameter(np.zeros(COLUMNS), "dask"), parameter(0.0, "dask")
    optimizer = OPTIMIZERS[name]([w, b])
    sizes, losses = [], []
    for step in range(1, 6):
        loss = ag.mean((ag.tanh(x @ w + b) - 1.0) ** 2)
        optimizer.zero_grad()
        loss.backward()
        assert source.passes == step - 1
        optimizer.step()
        losses.append(loss.item())
        w.grad.tolist()
        assert source.passes == step
        sizes.append(
            len(loss._raw.dask)
            + sum(len(t._raw.dask) for t in (w, b, *optimizer.state[w].values()) if isinstance(t, ag.Tensor))
        )
    assert len(set(sizes[1:])) == 1, sizes
    assert losses[-1] < losses[0]


def test_clipped_gradients_are_in_the_pass_too(data):
    _, source, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    optimizer = ag.optim.SGD([w], lr=0.1)
    loss = ag.mean((x @ w - 1.0) ** 2)
    loss.backward()
    ag.nn.utils.clip_grad_norm_([w], 0.1)
    optimizer.step()
    loss.item()
    assert source.passes == 1
    np.testing.assert_allclose(np.linalg.norm(w.grad.numpy()), 0.1, rtol=1e-4)


def test_accumulated_losses_come_along(data):
    _, source, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    optimizer = ag.optim.SGD([w], lr=0.1)
    losses = [ag.mean((x @ w - t) ** 2) for t in (1.0, 2.0)]
    for loss in losses:
        loss.backward()
    optimizer.step()
    assert source.passes == 1
    assert losses[0].item() != losses[1].item()
    assert source.passes == 1


def test_a_step_that_fails_leaves_parameters_and_state(data):
    _, source, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    optimizer = ag.optim.SGD([w], lr=0.1, momentum=0.9)
    ag.mean((x @ w - 1.0) ** 2).backward()
    optimizer.step()
    value, momentum = w.tolist(), optimizer.state[w]["momentum_buffer"].tolist()
    optimizer.zero_grad()
    ag.mean((x @ w - 1.0) ** 2).backward()
    source.failing = True
    with pytest.raises(OSError, match="the disk is gone"):
        optimizer.step()
    assert w.tolist() == value
    assert optimizer.state[w]["momentum_buffer"].tolist() == momentum


def test_a_raw_loop_with_persist_does_not_grow(data):
    _, source, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    sizes = []
    for step in range(1, 5):
        loss = ag.mean((x @ w - 1.0) ** 2)
        loss.backward()
        with ag.no_grad():
            w -= 0.1 * w.grad
        ag.persist(w, w.grad)
        loss.item()
        w.grad = None
        assert source.passes == step
        sizes.append(len(w._raw.dask))
    assert len(set(sizes)) == 1


def test_copies_and_pickles_of_gradients(data):
    array, _, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    ag.sum(x @ w).backward()
    for made in (copy.copy(w.grad), copy.deepcopy(w.grad)):
        np.testing.assert_allclose(made.numpy(), array.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(w.grad)).numpy(), array.sum(axis=0), rtol=1e-12)


# -- computed twice ---------------------------------------------------------------------------------------------------


def test_a_loss_read_before_its_gradients_warns_once_per_place(data):
    _, source, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            w.grad = None
            loss = ag.mean((x @ w) ** 2)
            loss.item()
            loss.backward()
            w.grad.tolist()
    assert source.passes == 6
    assert len(caught) == 1
    assert caught[0].category is ag.RecomputeWarning
    text = str(caught[0].message)
    assert text.startswith(f"matmul, called at {__file__}:")  # where parameters meet the data
    assert "this is computed a second time" in text
    assert "ag.compute(loss, *gradients)" in text
    lines = Path(__file__).read_text().splitlines()
    assert caught[0].filename == __file__
    assert "w.grad.tolist()" in lines[caught[0].lineno - 1]


@pytest.mark.parametrize("device", ["numpy", "dask"])
def test_values_of_one_graph_read_one_after_another_warn(device, data):
    from agrad_dask import repeats

    _, source, x = data
    w = parameter(np.ones(COLUMNS), device)
    for recording in (True, False):
        repeats._TOLD.clear()
        with ag.set_grad_enabled(recording):
            y = x @ w
        if device == "dask":
            ag.autograd.grad(ag.sum(x @ w), w)  # nobody asks by it otherwise
        total, largest = ag.sum(y), ag.max(y)
        total.item()
        if recording or device == "dask":
            with pytest.warns(ag.RecomputeWarning, match=r"matmul, called at .*test_lazy\.py:"):
                largest.item()
    source.reads.clear()
    y = x @ w
    total, largest = ag.sum(y), ag.max(y)
    ag.compute(total, largest)
    total.item()
    largest.item()
    assert source.passes == 1


def test_reading_the_loss_between_backward_and_step_warns(data):
    _, _, x = data
    w = parameter(np.ones(COLUMNS), "dask")
    optimizer = ag.optim.SGD([w], lr=0.1)
    loss = ag.mean((x @ w) ** 2)
    loss.backward()
    loss.item()
    with pytest.warns(ag.RecomputeWarning):
        optimizer.step()


READS = {
    "item": lambda loss: loss.item(),
    "float": lambda loss: float(loss.detach()),
    "print": repr,
    "compute": ag.compute,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize(
    "loss_of", [lambda x: ag.sum(x * x), lambda x: ag.mean(ag.abs(x[1:] - x[:-1]))], ids=["sum", "tv"]
)
def test_a_loss_read_after_its_gradient_was_stored_warns(loss_of, read, data):
    """Gradients by the data themselves, which Dask computes: agrad starts nothing there."""
    array, source, x = data
    x.requires_grad_()
    loss = loss_of(x)
    loss.backward()
    with ag.no_grad():
        new = x - 0.5 * x.grad
    target = np.empty(array.shape)
    da.store(new.to_dask_array(), target)
    assert source.passes == 1
    np.testing.assert_allclose(target, array - 0.5 * ag.grad(loss_of)(array))
    with pytest.warns(
        ag.RecomputeWarning, match=r"(?s)this is computed a second time, .*ag\.compute\(loss, \*gradients\)"
    ):
        read(loss)
    assert source.passes == 2


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_store_that_is_opened_twice_counts_too(read, tmp_path):
    """As the observations and as the field that starts from them."""
    zarr = pytest.importorskip("zarr")
    zarr.create_array(str(tmp_path / "noisy"), data=np.random.default_rng(0).normal(size=(16, 3)), chunks=(2, 3))
    y, x = (agrad_dask.from_zarr(str(tmp_path / "noisy"), chunks=(2, 3)) for _ in range(2))
    x.requires_grad_()
    loss = ag.sum((x - y) ** 2) + ag.sum(ag.abs(x[1:] - x[:-1]))
    loss.backward()
    da.to_zarr((x.detach() - 0.2 * x.grad).to_dask_array(), str(tmp_path / "smooth"))
    with pytest.warns(ag.RecomputeWarning, match="this is computed a second time"):
        read(loss)


def test_a_loss_read_after_what_grad_gave_was_stored_warns(data):
    _, source, x = data
    x.requires_grad_()
    loss = ag.sum(x * x)
    (gradient,) = ag.autograd.grad(loss, x)
    gradient.to_dask_array().compute()
    with pytest.warns(ag.RecomputeWarning):
        loss.item()
    assert source.passes == 2


def test_a_gradient_that_reads_nothing_is_not_told_of(data):
    """Warnings are errors here."""
    array, source, x = data
    x.requires_grad_()
    loss = ag.sum(x)
    loss.backward()
    assert np.all(x.grad.to_dask_array().compute() == 1.0)
    assert loss.item() == pytest.approx(array.sum())
    assert source.passes == 1


def test_a_gradient_stored_after_its_loss_was_read_warns(data):
    _, source, x = data
    x.requires_grad_()
    loss = ag.sum(x * x)
    loss.item()
    loss.backward()
    with pytest.warns(ag.RecomputeWarning):
        stored = x.grad.to_dask_array()
    stored.compute()
    assert source.passes == 2


def test_a_gradient_stored_after_its_loss_was_read_behind_backward_warns(data):
    array, source, x = data
    x.requires_grad_()
    loss = ag.sum(x * x)
    loss.backward()
    assert loss.item() == pytest.approx((array**2).sum())
    with pytest.warns(ag.RecomputeWarning):
        stored = x.grad.to_dask_array()
    stored.compute()
    assert source.passes == 2


@pytest.mark.parametrize("device", ["numpy", "dask"])
def test_a_result_that_dask_computes_counts(device, data):
    _, source, x = data
    w = parameter(np.ones(COLUMNS), device)
    ag.autograd.grad(ag.sum(x @ w), w)  # so that it is known as a parameter
    source.reads.clear()
    y = x @ w
    largest, lazy = ag.max(y), y.detach().to_dask_array()
    assert pickle.loads(pickle.dumps(lazy)).chunks == lazy.chunks
    lazy.sum().compute()
    with pytest.warns(ag.RecomputeWarning, match=r"matmul, called at .*test_lazy\.py:"):
        largest.item()
    assert source.passes == 2


def test_what_dask_stores_in_one_pass_is_not_told(data):
    """Warnings are errors here."""
    array, source, x = data
    x.requires_grad_()
    loss = ag.sum(x * x)
    loss.backward()
    target = np.empty(array.shape)
    ag.compute(loss, x.grad)
    da.store(x.grad.to_dask_array(), target)
    loss.item()
    assert source.passes == 1
    source.reads.clear()
    x.grad = None
    loss = ag.sum(x * x)
    loss.backward()
    written = da.store(x.grad.to_dask_array(), target, compute=False)
    assert dask.compute(written, loss.detach().to_dask_array())[1] == pytest.approx((array**2).sum())
    assert source.passes == 1
    np.testing.assert_allclose(target, 2 * array)
    for _ in range(3):  # by necessity: each is of a loss of its own
        x.grad = None
        ag.mean(x * x).backward()
        da.store(x.grad.to_dask_array(), target)
    y = x.detach() * 2.0
    for _ in range(2):
        y.to_dask_array().sum().compute()
        y.max().item()


def test_correct_programs_are_not_told(data):
    """All of this reads the data by necessity, or shares nothing that parameters were in. Warnings are errors here."""
    _, _, x = data
    prepared = (x - ag.mean(x, axis=0)) / ag.asarray(np.full(COLUMNS, 2.0))  # lazily: read anew in every step
    for device in ("numpy", "dask"):
        w = parameter(np.ones(COLUMNS), device)
        optimizer = ag.optim.Adam([w], lr=0.1)
        for _ in range(3):
            penalty = ag.sum(w * w)
            loss = ag.mean((prepared @ w) ** 2) + penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            penalty.item()
            with ag.no_grad():
                ag.mean(ag.abs(prepared @ w)).item()
        ag.autograd.grad(ag.sum(prepared @ w), w)  # so that it is known as a parameter
        predictions = prepared @ w
        ag.max(prepared).item()
        for i in range(3):
            predictions[i].item()  # a part at a time
        repr(predictions[:2])
        ag.compute(loss, w.grad)


def test_what_is_remembered_dies_with_the_graph(data):
    from agrad_dask import repeats

    _, _, x = data
    w = parameter(np.ones(COLUMNS))
    ag.mean((x @ w) ** 2).backward()
    gc.collect()  # what earlier tests have left
    held = repeats._COMPUTED, repeats._PARAMETERS, repeats._LOSSES, repeats._LEFT
    known = [*map(len, held)]
    for _ in range(5):
        ag.mean((x @ w) ** 2).backward()
        v = stored(np.ones((3, 3)))[1].requires_grad_()
        ag.sum(v * v).backward()
        v.grad.to_dask_array().compute()
        del v
    gc.collect()
    assert [*map(len, held)] == known


# -- the same script on every backend ---------------------------------------------------------------------------------


def train(optimizer, model, parameters, data):
    """Give the losses of four steps. The array's type and the parameters' are all that differs between backends."""
    array, target = random(ROWS, COLUMNS), (random(ROWS, seed=1) > 0).astype(float)
    if data == "numpy":
        x, y = ag.asarray(array), ag.asarray(target)
    else:
        (source, x), y = stored(array), ag.asarray(da.from_array(target, chunks=ROWS // CHUNKS))
    rng = np.random.default_rng(5)
    shapes = {"logistic": [(COLUMNS,), ()], "perceptron": [(COLUMNS, 6), (6,), (6,), ()]}[model]
    weights = [parameter(0.5 * rng.normal(size=shape), parameters) for shape in shapes]

    def logits():
        hidden = ag.tanh(x @ weights[0] + weights[1]) if model == "perceptron" else x
        return hidden @ weights[-2] + weights[-1]

    stepping = optimizer(weights)
    losses = []
    for _ in range(4):
        loss = F.binary_cross_entropy_with_logits(logits(), y)
        stepping.zero_grad()
        loss.backward()
        stepping.step()
        losses.append(loss.item())
    if data == "dask":
        assert source.passes == 4
    return losses


@pytest.mark.parametrize("model", ["logistic", "perceptron"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_same_losses_wherever_data_and_parameters_are(optimizer, model):
    in_memory, mixed, lazy = (
        train(OPTIMIZERS[optimizer], model, parameters, data)
        for parameters, data in (("numpy", "numpy"), ("numpy", "dask"), ("dask", "dask"))
    )
    assert in_memory[-1] < in_memory[0]
    assert mixed == pytest.approx(in_memory, rel=1e-12)
    assert lazy == pytest.approx(in_memory, rel=1e-12)
