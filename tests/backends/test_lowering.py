"""agrad_dask.value_and_grad: values against NumPy and SciPy, one read per chunk, schedulers, errors, what is refused."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import pickle
import re
import statistics
import subprocess
import sys
import threading
import tracemalloc
import types
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy import special
from support import cluster_of

import agrad as ag
from agrad.func import CompileError, CompileWarning

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
agrad_dask = pytest.importorskip("agrad_dask")
losses = pytest.importorskip("agrad_dask.losses")
lowering = pytest.importorskip("agrad_dask.lowering")
fusing = pytest.importorskip("agrad_dask.fusing")
Task = pytest.importorskip("dask._task_spec").Task

F = ag.nn.functional

RNG = np.random.default_rng(0)
ROWS = 103
X, Y = RNG.normal(size=(ROWS, 4)), (RNG.uniform(size=ROWS) > 0.5).astype(float)
W = RNG.normal(size=4)
#: So small that some share a task.
UNEVEN = ((1, 2) * 34 + (1,), (1, 2) * 34 + (1,))


def chunked(*chunks, data=(X, Y)):
    return [da.from_array(a, chunks=(c, -1) if a.ndim > 1 else c) for a, c in zip(data, chunks, strict=True)]


def squares(w, X, y):
    return ag.mean((X @ w - y) ** 2)


def total(w, X, y):
    return ag.sum((X @ w - y) ** 2)


def by_hand(rows=slice(None), mean=True):
    """The squared error and its gradient."""
    x, r = X[rows], X[rows] @ W - Y[rows]
    n = len(r) if mean else 1
    return np.sum(r**2) / n, 2 * x.T @ r / n


def assert_is(found, expected, rtol=1e-12):
    """Parameters were arrays: so is the gradient, and the value NumPy's scalar."""
    (value, g), (expected_value, expected_g) = found, expected
    assert type(value) is np.float64
    assert type(g) is np.ndarray
    np.testing.assert_allclose(value, expected_value, rtol=rtol)
    np.testing.assert_allclose(g, expected_g, rtol=rtol)


@pytest.fixture(params=["synchronous", "threads"])
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield request.param


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize(
    "chunks", [(10, 10), (25, 25), (ROWS, ROWS), (10, 7), (7, ROWS), ((3, 0, 100), (3, 0, 100)), UNEVEN]
)
@pytest.mark.parametrize(("loss", "reduce"), [(squares, "mean"), (total, "sum")])
def test_a_sum_and_a_mean_over_rows(chunks, loss, reduce):
    assert_is(agrad_dask.value_and_grad(loss, reduce=reduce)(W, *chunked(*chunks)), by_hand(mean=reduce == "mean"))


def test_logistic_regression_against_scipy():
    def loss(w, X, y):
        return F.binary_cross_entropy_with_logits(X @ w, y)

    z = X @ W
    expected = np.mean(np.logaddexp(0, z) - Y * z), X.T @ (special.expit(z) - Y) / ROWS
    assert_is(agrad_dask.value_and_grad(loss)(W, *chunked(9, 9)), expected)


def test_small_chunks_share_tasks_and_give_the_same():
    step = agrad_dask.value_and_grad(squares)
    assert_is(step(W, *chunked(1, 1)), by_hand())
    plan = lowering.plan_of(chunked(1, 1), lowering.PROGRAM_BYTES)
    assert len(plan.ends) == ROWS + 1
    assert fusing.GROUPS <= len(groups_of(plan)) < ROWS
    others = {node.func for node in plan.tasks.values() if isinstance(node, Task)} - {fusing.run_group}
    assert others == {fusing.combined}, "each of the data's tasks runs where it is needed"


def groups_of(plan):
    """Return what each task that runs the loss does."""
    return [group.made().steps for group in made_by(plan)]


def made_by(plan):
    return [node.args[1] for node in plan.tasks.values() if isinstance(node, Task) and node.func is fusing.run_group]


def chunks_of(steps):
    return [task for task, *_ in steps if isinstance(task, fusing.Add)]


def test_small_neighbours_share_a_run_unless_chunks_matter():
    data = np.arange(40_000.0).reshape(-1, 4)
    x = da.from_array(data, chunks=((3, 1) * 2500, 4))
    seen = []

    def loss(w, X):
        seen.append(len(X))
        return ag.sum(X @ w)

    def largest(**options):
        seen.clear()
        value = agrad_dask.value_and_grad(loss, reduce="sum", capture=False, **options)(W, x)[0]
        np.testing.assert_allclose(value.item(), (data @ W).sum(), rtol=1e-12)
        return max(seen)

    with dask.config.set(scheduler="synchronous"):
        assert largest() > 100
        assert largest(check=False) == 3
    x = da.zeros((4096 * 256, 4), chunks=(4096, 4))  # 128 KiB each: 8 share a task
    groups = groups_of(lowering.plan_of([x], 2**19))
    first, second = chunks_of(groups[0])
    assert (first.numbers, second.numbers) == (range(4), range(4, 8))
    assert second.blocks == (tuple((x.name, i, 0) for i in range(4, 8)),)
    assert len(groups) == fusing.GROUPS


@pytest.mark.parametrize("kind", ["array", "tensor", "leaf", "list", "dict", "dataclass", "pair"])
def test_parameters_in_any_container(kind):
    @dataclass
    class Parameters:
        w: object

    made = {
        "array": W,
        "tensor": ag.asarray(W),
        "leaf": ag.asarray(W, requires_grad=True),
        "list": [W],
        "dict": {"w": W, "unused": np.ones((2, 3))},
        "dataclass": Parameters(W),
        "pair": (W[:2], W[2:]),
    }[kind]

    def loss(parameters, X, y):
        match parameters:
            case {"w": w} | [w] | Parameters(w):
                return squares(w, X, y)
            case (first, second):
                return squares(ag.concat([first, second]), X, y)
        return squares(parameters, X, y)

    value, g = agrad_dask.value_and_grad(loss)(made, *chunked(10, 10))
    assert type(g) is (ag.Tensor if kind in ("tensor", "leaf") else type(made))
    if kind == "dict":
        assert g["unused"].tolist() == np.zeros((2, 3)).tolist()
    flat = [g["w"]] if kind == "dict" else ag.tree.flatten(g)[0]
    if kind in ("tensor", "leaf"):
        assert isinstance(value, ag.Tensor)
        assert isinstance(value._raw, np.ndarray), "the value is computed"
        assert isinstance(g._raw, np.ndarray)
        value, flat = np.float64(value.item()), [g.numpy()]
    assert_is((value, np.concatenate(flat)), by_hand())
    if kind == "leaf":
        assert made.grad is None


def test_several_arguments_keywords_and_constants():
    def loss(scale, X, w, *, y, penalty=0.0, offset):
        return ag.mean((scale * (X @ w["w"] + offset) - y) ** 2) + penalty * ag.sum(w["w"] ** 2)

    x, y = chunked(10, 10)
    step = agrad_dask.value_and_grad(loss, argnums=(2, 0))
    value, (gw, gs) = step(1.5, x, {"w": W}, y=ag.asarray(y), penalty=0.25, offset=np.float64(0.5))
    z = X @ W + 0.5
    r = 1.5 * z - Y
    np.testing.assert_allclose(value.item(), np.mean(r**2) + 0.25 * np.sum(W**2), rtol=1e-12)
    np.testing.assert_allclose(gw["w"], 3 * X.T @ r / ROWS + 0.5 * W, rtol=1e-12)
    np.testing.assert_allclose(gs.item(), 2 * np.mean(r * z), rtol=1e-12)


def test_data_in_containers_and_columns_in_several_chunks():
    def loss(w, data):
        return squares(w, data["X"], data["y"])

    data = {"X": ag.asarray(da.from_array(X, chunks=(10, 3))), "y": ag.asarray(da.from_array(Y, chunks=20))}
    value, g = agrad_dask.value_and_grad(loss)(W, data)
    assert_is((np.float64(value.item()), g), by_hand())  # a tensor is among the data: the value is one


def test_rows_of_unknown_number():
    x, y = chunked(10, 10)
    mask = y > 0.5
    found = agrad_dask.value_and_grad(squares)(W, x[mask], y[mask])
    assert_is(found, by_hand(Y > 0.5))
    first = Y * (np.arange(ROWS) < 10)  # all chunks but one are empty
    mask = da.from_array(first, chunks=10) > 0.5
    assert_is(agrad_dask.value_and_grad(squares)(W, x[mask], y[mask]), by_hand(first > 0.5))


def test_raw_parameters_give_raw_results_and_tensors_tensors():
    """A gradient follows its own parameter, value and auxiliary values follow all arguments."""
    x, y = chunked(10, 10)

    def loss(w, scale, X, y):
        value = squares(scale * w, X, y)
        return value, {"tensor": value, "array": np.ones(2)}

    step = agrad_dask.value_and_grad(loss, (0, 1), has_aux=True)
    with pytest.warns(CompileWarning, match=r"an array of shape \(2,\) is used that no call could find again"):
        (value, aux), g = step(W, 1.0, x, y)
    assert [type(found) for found in (value, aux[0]["tensor"], *g)] == [np.float64, np.float64, np.ndarray, np.float64]
    (value, aux), g = step(W, ag.asarray(1.0), x, y)
    assert [type(found) for found in (value, aux[0]["tensor"], *g)] == [ag.Tensor, ag.Tensor, np.ndarray, ag.Tensor]
    assert type(aux[0]["array"]) is np.ndarray
    (value, _), g = step(W, 1.0, ag.asarray(x), y)
    assert [type(found) for found in (value, *g)] == [ag.Tensor, np.ndarray, np.float64]
    both = agrad_dask.value_and_grad(lambda p, X, y: squares(p[0] * p[1], X, y))
    _, g = both([W, ag.asarray(1.0)], x, y)
    assert [type(found) for found in g] == [ag.Tensor, ag.Tensor], "a parameter that mixes both gives tensors"
    _, g = both([W, 1.0], x, y)
    assert [type(found) for found in g] == [np.ndarray, np.float64]
    g[0] *= 2.0  # it is the user's own


def test_a_transform_outside_is_refused_where_it_would_find_no_history():
    x, y = chunked(10, 10)
    step = agrad_dask.value_and_grad(squares, check=False)
    w = ag.asarray(W)
    with pytest.raises(RuntimeError, match=r"cannot be differentiated(.|\n)*test_lowering\.py:"):
        ag.grad(lambda w: step(w, x, y)[0])(W)
    with pytest.raises(RuntimeError, match="cannot be differentiated"):
        ag.jvp(lambda w: step(w, x, y)[0], (w,), (w,))
    with ag.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="cannot be differentiated"):
        step(ag.autograd.forward_ad.make_dual(w, w), x, y)
    found = ag.grad(lambda w: ag.sum(w) * step(w.detach(), x, y)[0])(w)
    np.testing.assert_allclose(found.numpy(), np.full(4, by_hand()[0]), rtol=1e-12)
    seen = []
    ag.grad(lambda w: ag.sum(w) * (seen.append(step(W, x, y)) or 1.0))(w)
    assert [type(part) for part in seen[0]] == [ag.Tensor, ag.Tensor], "within a transform results are tensors"


def test_auxiliary_values_come_chunk_by_chunk():
    def loss(w, X, y):
        predicted = X @ w
        return ag.mean((predicted - y) ** 2), {"predicted": predicted, "rows": len(y)}

    (value, aux), g = agrad_dask.value_and_grad(loss, has_aux=True)(W, *chunked(10, 10))
    assert_is((value, g), by_hand())
    assert [a["rows"] for a in aux] == [10] * 10 + [3]
    np.testing.assert_allclose(np.concatenate([a["predicted"] for a in aux]), X @ W)
    assert all(type(a["predicted"]) is np.ndarray for a in aux)
    (value, aux), g = agrad_dask.value_and_grad(loss, has_aux=True)(ag.asarray(W), *chunked(10, 10))
    np.testing.assert_allclose(g.numpy(), by_hand()[1], rtol=1e-12)
    assert not any(t.requires_grad for t in (value, g, *(a["predicted"] for a in aux)))


def test_dtypes_stay():
    x, y = chunked(10, 10, data=(X.astype(np.float32), Y.astype(np.float32)))
    value, g = agrad_dask.value_and_grad(squares)(W.astype(np.float32), x, y)
    assert value.dtype == g.dtype == ag.float32
    np.testing.assert_allclose(g, by_hand()[1], rtol=1e-4)


def test_gradients_inside_the_loss():
    def loss(w, X, y):
        g = ag.func.grad(lambda x: ag.sum(ag.tanh(x @ w)))(X)
        return ag.sum(g**2)

    value, g = agrad_dask.value_and_grad(loss, reduce="sum")(W, *chunked(20, 20))
    s = 1 - np.tanh(X @ W) ** 2
    np.testing.assert_allclose(value.item(), np.sum(s**2) * np.sum(W**2), rtol=1e-12)
    slope = np.sum(W**2) * X.T @ (2 * s * -2 * np.tanh(X @ W) * s) + 2 * W * np.sum(s**2)
    np.testing.assert_allclose(g, slope, rtol=1e-10)


@pytest.mark.usefixtures("scheduler")
def test_leaves_around_the_loss_are_constants():
    scale = ag.asarray(2.0, requires_grad=True)
    x, y = chunked(10, 10)
    with ag.no_grad():
        value, g = agrad_dask.value_and_grad(lambda w, X, y: scale * squares(w, X, y))(W, x, y)
    assert_is((value, g), [2 * part for part in by_hand()])
    assert scale.grad is None


def test_an_array_that_a_rule_gives_is_not_written_to():
    slope = ag.asarray(np.ones((100, 100)))

    class Total(ag.autograd.Function):
        @staticmethod
        def forward(ctx, w):
            return ag.sum(w)

        @staticmethod
        def backward(ctx, g):
            return slope  # right for g = 1 alone, which it is where chunks are equal

    step = agrad_dask.value_and_grad(lambda w, y: Total.apply(w) + ag.mean(y))
    with pytest.warns(CompileWarning, match="an array of shape"):
        value, g = step(np.ones((100, 100)), chunked(1, 1)[1])
    assert_is((value, g), (1e4 + np.mean(Y), np.ones((100, 100))))
    assert set(slope.numpy().flat) == {1.0}


# -- captured or not --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def rows_of_calls(loss):
    """Note the rows of each call of a loss in this thread, by Python's own means: what counts itself is no program."""
    rows, before = [], sys.gettrace()

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and (code.co_name, code.co_filename) == (loss.__name__, __file__):
            rows.append(len(frame.f_locals["y"]))

    with dask.config.set(scheduler="synchronous"):
        sys.settrace(note)
        try:
            yield rows
        finally:
            sys.settrace(before)


def test_the_loss_is_called_once_for_each_number_of_rows_and_later_compared():
    step = agrad_dask.value_and_grad(squares, check=False)
    found = []
    for k in range(9):
        with rows_of_calls(squares) as rows:
            value, _ = step(W + k, *chunked(10, 10))
        np.testing.assert_allclose(value, np.mean((X @ (W + k) - Y) ** 2), rtol=1e-12)
        found.append(dict(Counter(rows)))
    assert found == [{10: 1, 3: 1}, {3: 1}, {}, {3: 1}, {}, {}, {}, {3: 1}, {}]
    step = agrad_dask.value_and_grad(squares, check=False, capture=False)
    with rows_of_calls(squares) as rows:
        assert_is(step(W, *chunked(10, 10)), by_hand())
    assert Counter(rows) == {10: 10, 3: 1}


@pytest.mark.usefixtures("scheduler")
def test_a_program_gives_the_bits_of_the_function():
    def loss(p, X, y):
        h = ag.tanh(X @ p["a"] + p["b"])
        return F.binary_cross_entropy_with_logits(h @ p["c"], y), {"h": h, "rows": len(y), "f": 0.5, "X": X}

    p = {"a": RNG.normal(size=(4, 5)), "b": np.zeros(5), "c": RNG.normal(size=5), "unused": np.ones(2)}
    steps = [agrad_dask.value_and_grad(loss, has_aux=True, check=False, capture=how) for how in (True, False)]
    for chunks in ((10, 10), (ROWS, ROWS), UNEVEN):
        found, expected = ([np.asarray(a) for a in ag.tree.flatten(step(p, *chunked(*chunks)))[0]] for step in steps)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert (a.dtype, a.tolist()) == (b.dtype, b.tolist())


def test_the_same_numbers_are_drawn_whether_captured_or_not():
    def twice(w, X, y):
        inner = ag.utils.checkpoint.checkpoint(lambda w: F.dropout(X, 0.5) @ w, w)
        return ag.mean((inner + ag.randn(len(y)) - y) ** 2)

    def run(capture):
        ag.manual_seed(3)
        step = agrad_dask.value_and_grad(twice, capture=capture)
        return [[value.item(), *g.tolist()] for value, g in (step(W, *chunked(10, 10)) for _ in range(3))]

    np.testing.assert_allclose(run(True), run(False), rtol=1e-12)


def test_what_the_loss_reads_beside_is_read_at_every_call():
    scale, state = ag.asarray(2.0), {"power": 2}

    model = types.SimpleNamespace(offset=0.0, shift=ag.asarray([0.0]))

    def loss(w, X, y, factor=1.0):
        return factor * ag.mean((scale * (X @ w) + model.offset + model.shift - y) ** state["power"])

    def expected(scale, offset, shift, power, factor=1.0):
        return factor * np.mean((scale * (X @ W) + offset + shift - Y) ** power)

    step = agrad_dask.value_and_grad(loss)
    data = chunked(10, 10)
    for change, values in (
        (lambda: None, (2, 0, 0, 2)),
        (lambda: scale.mul_(2.0), (4, 0, 0, 2)),
        (lambda: setattr(model, "offset", 1.5), (4, 1.5, 0, 2)),
        (lambda: setattr(model, "shift", ag.asarray([0.25])), (4, 1.5, 0.25, 2)),
        (lambda: state.update(power=4), (4, 1.5, 0.25, 4)),
    ):
        change()
        np.testing.assert_allclose(step(W, *data)[0], expected(*values), rtol=1e-12)
    for factor in (0.5, 3.0, -1.0):
        np.testing.assert_allclose(step(W, *data, factor)[0], expected(*values, factor), rtol=1e-12)
        np.testing.assert_allclose(step(W, *data, factor=factor)[0], expected(*values, factor), rtol=1e-12)


def test_state_that_no_guard_sees_is_an_error_at_the_next_compared_call(monkeypatch):
    def loss(w, X, y):
        return squares(w, X, y) * statistics.fmean([1.0, 3.0])

    step = agrad_dask.value_and_grad(loss, check=False)
    np.testing.assert_allclose(step(W, *chunked(25, 25))[0], 2 * by_hand()[0], rtol=1e-12)
    total = statistics.fsum  # of the library's own module: what runs within a library is not seen
    monkeypatch.setattr(statistics, "fsum", lambda numbers: 2 * total(numbers))
    with pytest.raises(CompileError, match="differs from the function"):
        step(W, *chunked(25, 25))


@pytest.mark.parametrize("kind", [iter, itertools.count, "generator", "list", "attribute"])
def test_a_loss_that_counts_runs_as_it_is(kind):
    """Each run gets the next number: that of rows that are made up, and of the one chunk at each call."""
    held = {
        iter: lambda: iter(range(1, 100)),
        itertools.count: lambda: itertools.count(1),
        "generator": lambda: (k for k in range(1, 100)),
        "list": list,
        "attribute": lambda: types.SimpleNamespace(k=0),
    }[kind]()

    def following():
        if kind == "list":
            held.append(1)
            return len(held)
        if kind == "attribute":
            held.k += 1
            return held.k
        return next(held)

    def loss(w, X, y):
        return squares(w, X, y) * following()

    step = agrad_dask.value_and_grad(loss, check=False)
    with pytest.warns(CompileWarning, match="runs the loss loss .* uncompiled in every chunk"):
        found = [step(W, *chunked(ROWS, ROWS))]
    found += [step(W, *chunked(ROWS, ROWS)) for _ in range(2)]
    for k, each in enumerate(found, 2):
        assert_is(each, [k * part for part in by_hand()])


def branches(w, X, y):
    return squares(w, X, y) if ag.sum(X) > 0 else 2.0 * squares(w, X, y)


def numbered(w, X, y):
    return squares(w, X, y) * (2.0 if ag.max(X).item() > 1.0 else 3.0)


def hard(w, X, y):
    return ag.mean(((X @ w - y) ** 2)[y > 0.5])


def shown(w, X, y):
    if (X @ w).detach().numpy().shape != y.shape:
        raise ValueError
    return squares(w, X, y)


def printed(w, X, y):
    print("a chunk of", len(y))
    return squares(w, X, y)


def rewritten(w, X, y):
    assert y.ndim == 1  # pytest makes other code of it
    return squares(w, X, y)


#: Why these run as they are.
REASONS = [
    (branches, "branches on a value"),
    (numbered, "a value is requested"),
    (hard, "depends on values"),
    (shown, r"Tensor.numpy\(\) gives Python values of a tensor"),
    (printed, "it prints, which a program would not"),
    (rewritten, "rewritten in test_lowering.py is called, and its source is not available"),
]


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize(("loss", "reason"), REASONS)
def test_what_no_program_can_hold_runs_as_it_is_and_is_told_once(loss, reason):
    def by_chunks(k):
        parts = [slice(i, i + 10) for i in range(0, ROWS, 10)]
        return sum(loss(ag.asarray(W + k), ag.asarray(X[p]), ag.asarray(Y[p])).item() * len(Y[p]) for p in parts) / ROWS

    step = agrad_dask.value_and_grad(loss, check=False)
    with pytest.warns(
        CompileWarning, match=f"runs the loss {loss.__name__} .* uncompiled in every chunk.*{reason}"
    ) as told:
        value, _ = step(W, *chunked(10, 10))
    assert told[0].filename == __file__
    np.testing.assert_allclose(value, by_chunks(0), rtol=1e-12)
    np.testing.assert_allclose(step(W + 1, *chunked(10, 10))[0], by_chunks(1), rtol=1e-12)  # no second warning


def test_a_loss_that_fails_on_made_up_rows_runs_as_it_is():
    def loss(w, X, y):
        if X.shape[0] == 10:
            assert not ag.func.capture  # an error for the rows of most chunks
        return squares(w, X, y)

    with pytest.raises(AssertionError) as info:
        agrad_dask.value_and_grad(loss, check=False)(W, *chunked(10, 10))
    assert "Raised in chunk" in "\n".join(info.value.__notes__)


def test_chunks_that_are_not_what_the_array_says_run_as_they_are():
    lying = da.map_blocks(lambda b: b.astype("float32"), chunked(10, 10)[0], dtype="float64", meta=np.empty((0, 0)))
    value, _ = agrad_dask.value_and_grad(squares, check=False)(W, lying, chunked(10, 10)[1])
    np.testing.assert_allclose(value, np.mean((X.astype("float32") @ W - Y) ** 2), rtol=1e-12)


def test_chunks_of_many_sizes():
    sizes = tuple(range(1, 30))
    data = RNG.normal(size=(sum(sizes), 4))
    x, y = da.from_array(data, chunks=(sizes, 4)), da.from_array(data[:, 0], chunks=(sizes,))
    step = agrad_dask.value_and_grad(squares, check=False)
    with pytest.warns(CompileWarning, match="its chunks have 29 different numbers of rows"):
        value, _ = step(W, x, y)
    np.testing.assert_allclose(value, np.mean((data @ W - data[:, 0]) ** 2), rtol=1e-12)


def test_buffers_are_as_many_as_runs_at_once():
    step = agrad_dask.value_and_grad(squares, check=False)
    seen = []
    real = losses.BlockProgram.run
    with pytest.MonkeyPatch.context() as patch, dask.config.set(scheduler="threads", num_workers=2):
        patch.setattr(losses.BlockProgram, "run", lambda self, *a: seen.append(self.program) or real(self, *a))
        step(W, *chunked(10, 10))
        step(W, *chunked(10, 10))
    programs = {id(p): p for p in seen}.values()
    assert len(programs) == 2  # of 10 and of 3 rows
    for program in programs:
        (executor,) = program.__dict__["_runs"].values()
        assert all(len(bound.free) <= 2 for bound in executor._layouts.values())


# -- reads, tasks, memory ---------------------------------------------------------------------------------------------


class Counting:
    """An array that counts how often its rows are read, and how many blocks of it are alive at a time."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim
        self.found, self.alive, self.most, self.lock = Counter(), 0, 0, threading.Lock()

    def __getitem__(self, key):
        if key[0].start == key[0].stop:  # Dask asks for an empty block, to see of which library it is
            return self.array[key]
        with self.lock:
            self.found[key[0].start] += 1
            self.alive += 1
            self.most = max(self.most, self.alive)
        part = self.array[key]
        block = np.ndarray.__new__(_Watched, part.shape, part.dtype)  # owns its memory: views keep it alive
        block[...] = part
        block.owner = self
        return block


class _Watched(np.ndarray):
    owner = None

    def __array_finalize__(self, other):
        self.owner = None

    def __del__(self):
        if self.owner is not None:
            with self.owner.lock:
                self.owner.alive -= 1


def test_every_chunk_is_read_once_and_let_go():
    source = Counting(X)
    x = da.from_array(source, chunks=(5, 4), asarray=False)
    with dask.config.set(scheduler="synchronous"):
        assert_is(agrad_dask.value_and_grad(squares)(W, da.map_blocks(np.asarray, x), chunked(5, 5)[1]), by_hand())
    assert set(source.found.values()) == {1}
    assert len(source.found) == 21
    assert source.most <= 2


def test_chunks_of_a_task_are_read_one_after_another():
    source = Counting(np.tile(X, (20, 1)))
    x, y = da.from_array(source, chunks=(2, 4), asarray=False), da.from_array(np.tile(Y, 20), chunks=2)
    with dask.config.set(scheduler="synchronous"):
        found = agrad_dask.value_and_grad(squares, check=False)(W, da.map_blocks(np.asarray, x), y)
    assert_is(found, by_hand())
    assert len(chunks_of(groups_of(lowering.plan_of([x, y], 0))[0])) > 10
    assert source.most <= 2


class Columns(Counting):
    """Notes which columns are asked for."""

    def __getitem__(self, key):
        self.columns = self.__dict__.get("columns", set()) | {key[1].stop}
        return self.array[key]


def test_no_more_is_read_than_a_slice_takes():
    source = Columns(X)
    x = da.from_array(source, chunks=(10, 4), asarray=False)[:, :2]
    source.columns = set()
    value, _ = agrad_dask.value_and_grad(squares, check=False)(W[:2], x, chunked(10, 10)[1])
    np.testing.assert_allclose(value, np.mean((X[:, :2] @ W[:2] - Y) ** 2), rtol=1e-12)
    loss = squares(ag.asarray(W[:2], requires_grad=True), ag.asarray(x), ag.asarray(chunked(10, 10)[1]))
    loss.backward()
    assert loss.item() == pytest.approx(value)
    assert source.columns == {2}


def test_data_that_several_tasks_need_is_computed_once():
    source = Counting(X)
    x = da.from_array(source, chunks=(ROWS, 4))
    found = agrad_dask.value_and_grad(squares)(W, x.rechunk((10, 4)), chunked(10, 10)[1].rechunk(10))
    assert_is(found, by_hand())
    assert set(source.found.values()) == {1}
    y = chunked(10, 10)[1]
    centred = chunked(10, 10)[0] - da.from_array(Counting(X), chunks=(10, 4)).mean(axis=0)  # all chunks first
    value, _ = agrad_dask.value_and_grad(squares)(W, centred, y)
    np.testing.assert_allclose(value.item(), np.mean(((X - X.mean(axis=0)) @ W - Y) ** 2), rtol=1e-12)


def test_the_plan_is_made_once_for_the_same_data(monkeypatch):
    made = []
    monkeypatch.setattr(lowering, "make_plan", lambda *a, real=lowering.make_plan: made.append(a[0]) or real(*a))
    x, y = chunked(10, 10)
    step = agrad_dask.value_and_grad(squares)
    for w in (W, W + 1, W):
        value, g = step(w, ag.asarray(x), y)
    assert_is((np.float64(value.item()), g), by_hand())
    assert len(made) == 1
    value, _ = step(W, x, 1 - y)
    assert len(made) == 2
    np.testing.assert_allclose(value.item(), np.mean((X @ W - 1 + Y) ** 2), rtol=1e-12)
    x[0] = 0.0  # Dask's own assignment gives the array another name
    value, _ = step(W, x, y)
    zeroed = np.concatenate([np.zeros((1, 4)), X[1:]])
    np.testing.assert_allclose(value.item(), np.mean((zeroed @ W - Y) ** 2), rtol=1e-12)


@pytest.mark.parametrize("known", [True, False])
def test_many_chunks_share_tasks_however_large_they_are(monkeypatch, known):
    monkeypatch.setattr(fusing, "TASKS", 4)
    monkeypatch.setattr(fusing, "GROUP_BYTES", 1)
    x, y = chunked(10, 10)
    if not known:
        x, y = x[y > -1], y[y > -1]
    assert_is(agrad_dask.value_and_grad(squares, check=False)(W, x, y), by_hand())
    plan = lowering.plan_of([x, y], 0)
    assert [len(chunks_of(steps)) for steps in groups_of(plan) if chunks_of(steps)] == [4, 4, 3]


def test_a_plan_of_large_chunks_holds_little_of_each():
    rows, count = 1_000_000, 2_000  # on paper
    x, y = da.zeros((rows * count, 8), chunks=(rows, 8)), da.zeros(rows * count, chunks=rows)
    lowering.plan_of((x[:rows], y[:rows]), 0)  # imports
    tracemalloc.start()
    try:
        plan = lowering.plan_of((x, y), 0)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_500 * count, "two tasks of Dask's hold as much"
    assert len(groups_of(plan)) == count
    assert all(group.task_list is None for group in made_by(plan))


def test_what_is_worked_out_for_small_chunks_is_kept():
    x, y = chunked(10, 10)
    agrad_dask.value_and_grad(squares)(W, x, y)
    plan = lowering.plan_of((x, y), lowering.PROGRAM_BYTES)
    groups = made_by(plan)
    assert groups
    for group in groups:
        assert group.task_list is group.made()
        assert [type(task) for task, *_ in pickle.loads(pickle.dumps(group)).made().steps] == [
            type(task) for task, *_ in group.task_list.steps
        ]


@pytest.mark.parametrize(("loss", "reduce"), [(squares, "mean"), (total, "sum")])
def test_a_program_runs_on_pieces_of_large_chunks(monkeypatch, loss, reduce):
    monkeypatch.setattr(losses, "PIECE_BYTES", 400)
    monkeypatch.setattr(losses, "FIXED", 0)
    expected = by_hand(mean=reduce == "mean")
    for check in (True, False):
        step = agrad_dask.value_and_grad(loss, reduce=reduce, check=check)
        with rows_of_calls(loss) as rows:
            assert_is(step(W, *chunked(45, 45)), expected)
            assert_is(step(W, *chunked(45, 45)), expected)
        assert rows[:4] == [10, 20, 5, 3], "of 40 bytes a row; the second tells what is made for each"
        assert max(rows[4:]) == (10 if check else 3), "the check, and what is captured once more"
    monkeypatch.setattr(losses, "FIXED", 10_000)
    with rows_of_calls(loss) as rows:
        assert_is(agrad_dask.value_and_grad(loss, reduce=reduce)(W, *chunked(45, 45)), expected)
    assert rows[:4] == [10, 20, 45, 13], "what is made whatever the number of rows would be made for every piece"
    monkeypatch.setattr(losses, "FIXED", 0)
    monkeypatch.setattr(losses, "MADE_BYTES", 10_000)
    monkeypatch.setattr(losses, "PIECE_BYTES", 40 * ROWS)

    def wide(w, X, y):
        return squares(w, X, y) + 0.0 * ag.mean(ag.tanh(X[..., None] * ag.ones(100)))

    with rows_of_calls(wide) as rows:
        step = agrad_dask.value_and_grad(wide, check=False)
        assert_is(step(W, *chunked(ROWS, ROWS)), by_hand())
    assert rows == [ROWS, 2 * ROWS, 1], "what is made of a row is large"


@pytest.mark.parametrize("check", [True, False])
def test_calls_hold_pieces_of_chunks_in_memory(monkeypatch, check):
    """Also the calls that capture and compare, and where each row becomes many times as large."""
    monkeypatch.setattr(losses, "MADE_BYTES", 2**22)
    count, columns, width = 64, 2**10, 64
    data = da.ones((3 * count, columns), chunks=(count, -1), dtype="float32")

    def loss(w, x):
        return ag.sum(ag.tanh(ag.reshape(x, (-1, 1)) * w)) / x.shape[0]

    step = agrad_dask.value_and_grad(loss, check=check)
    for _ in range(4):
        tracemalloc.start()
        with dask.config.set(scheduler="synchronous"):
            _, gradient = step(np.zeros(width, "float32"), data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_allclose(gradient, columns, rtol=1e-3)
        assert peak < count * columns * width * 4, "what is made of a chunk is never there, not one value of it"


def test_a_loss_that_takes_whole_chunks_alone_is_a_program_of_whole_chunks(monkeypatch):
    monkeypatch.setattr(losses, "PIECE_BYTES", 400)

    def loss(w, X, y):
        return ag.mean(ag.reshape(X @ w, (-1, 25)) ** 2)

    data = chunked(50, 50, data=(X[:100], Y[:100]))
    value, _ = agrad_dask.value_and_grad(loss, check=False)(W, *data)  # no warning
    np.testing.assert_allclose(value, np.mean((X[:100] @ W) ** 2), rtol=1e-12)


def test_a_scheduler_that_is_a_function_gets_the_tasks():
    seen = {}

    def scheduler(tasks, keys, **options):
        seen.update(tasks)
        return dask.get(tasks, keys)

    with dask.config.set(scheduler=scheduler):
        assert_is(agrad_dask.value_and_grad(squares, check=False)(W, *chunked(10, 10)), by_hand())
    assert len(seen) == 1 + 11 + 2 + 1  # the step, groups, and what adds up eight at a time


def test_progress_is_shown_where_it_is_asked_for(capsys):
    X = da.ones((60, 2), chunks=(10, 2))
    step = agrad_dask.value_and_grad(lambda w, x: ag.mean((x @ w) ** 2))
    with dask.config.set({"agrad.progress": True}):
        step(np.ones(2), X)
    assert "100%" in capsys.readouterr().out
    step(np.ones(2), X)
    assert not capsys.readouterr().out


def test_the_way_of_summing_does_not_depend_on_the_scheduler():
    results = []
    for scheduler, workers in (("synchronous", 1), ("threads", 1), ("threads", 4)):
        with dask.config.set(scheduler=scheduler, num_workers=workers):
            value, g = agrad_dask.value_and_grad(squares)(W, *chunked(1, 1))
            results.append((value.item(), *g.tolist()))
    assert results[0] == results[1] == results[2]


# -- random numbers ---------------------------------------------------------------------------------------------------


def noisy(w, X, y):
    return ag.mean(F.dropout(X, 0.5) @ w - y)


def test_random_numbers_follow_the_seed_the_call_and_the_chunk():
    def run(chunk=10):
        ag.manual_seed(3)
        step = agrad_dask.value_and_grad(noisy)
        return [step(W, *chunked(chunk, chunk))[0].item() for _ in range(2)]

    with dask.config.set(scheduler="synchronous"):
        expected = run()
    with dask.config.set(scheduler="threads", num_workers=4):
        assert [run() for _ in range(3)] == [expected] * 3
    assert expected[0] != expected[1], "every call draws anew"
    same = np.tile(X[:10], (2, 1))  # two equal chunks get different masks
    (_, aux), _ = agrad_dask.value_and_grad(
        lambda w, X: (ag.mean(F.dropout(X, 0.5) @ w), F.dropout(X, 0.5)), has_aux=True
    )(W, da.from_array(same, chunks=(10, 4)))
    assert aux[0].tolist() != aux[1].tolist()


def test_drawing_inside_leaves_the_generator_outside_alone():
    ag.manual_seed(3)
    agrad_dask.value_and_grad(noisy)(W, *chunked(10, 10))
    after_noise = ag.rand(2).tolist()
    ag.manual_seed(3)
    agrad_dask.value_and_grad(squares)(W, *chunked(10, 10))
    assert ag.rand(2).tolist() == after_noise


def test_dropout_is_the_right_gradient():
    """The loss is linear in w: its value is the gradient times w, whatever was dropped."""
    value, g = agrad_dask.value_and_grad(lambda w, X: ag.mean(F.dropout(X, 0.5) @ w))(W, chunked(10, 10)[0])
    np.testing.assert_allclose(value, g @ W, rtol=1e-12)


def test_a_checkpoint_inside_drops_the_same_again():
    def loss(w, X):
        return ag.mean(ag.utils.checkpoint.checkpoint(lambda w: F.dropout(X, 0.5) @ w, w))

    value, g = agrad_dask.value_and_grad(loss)(W, chunked(10, 10)[0])
    np.testing.assert_allclose(value, g @ W, rtol=1e-12)


# -- losses that do not add up ----------------------------------------------------------------------------------------


def rms(w, X, y):
    return ag.sqrt(ag.mean((X @ w - y) ** 2))


def standardised(w, X, y):
    return ag.mean(((X - ag.mean(X, axis=0)) / ag.std(X, axis=0) @ w - y) ** 2)


def over_rows(w, X, y):
    return -ag.mean(F.log_softmax(X @ w, axis=0) * y)


@pytest.mark.parametrize("loss", [rms, standardised, over_rows])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_statistic_of_all_rows_is_refused(loss, reduce, dtype):
    with pytest.raises(
        ValueError, match=f"is not the {reduce} of the losses of their parts.*\n.*call the loss on Dask"
    ):
        agrad_dask.value_and_grad(loss, reduce=reduce)(
            W.astype(dtype), *chunked(50, 50, data=(X.astype(dtype), Y.astype(dtype)))
        )


@pytest.mark.parametrize(("loss", "reduce"), [(squares, "mean"), (total, "sum")])
def test_a_function_of_the_reduced_loss_comes_after(loss, reduce):
    """By the chain rule, on all rows in memory by hand."""
    value, g = by_hand(mean=reduce == "mean")
    step = agrad_dask.value_and_grad(loss, reduce=reduce, after=ag.sqrt)
    assert_is(step(W, *chunked(10, 10)), (np.sqrt(value), g / (2 * np.sqrt(value))))
    found, (by_w, by_c) = agrad_dask.value_and_grad(
        lambda p, c, X, y: c["scale"] * loss(p[0], X, y), (0, 1), reduce=reduce, after=lambda v: v**2
    )([W.astype("float32")], {"scale": 3.0}, *chunked(10, 10))
    np.testing.assert_allclose(found.item(), (3 * value) ** 2, rtol=1e-6)
    assert by_w[0].dtype.name == "float32"
    np.testing.assert_allclose(by_w[0], 18 * value * g, rtol=1e-5)
    np.testing.assert_allclose(by_c["scale"].item(), 6 * value**2, rtol=1e-6)


def test_what_comes_after_must_be_a_scalar():
    with pytest.raises(RuntimeError, match="scalar"):
        agrad_dask.value_and_grad(squares, after=lambda v: ag.stack([v, v]))(W, *chunked(10, 10))


@pytest.mark.parametrize(("loss", "reduce", "other"), [(squares, "sum", "mean"), (total, "mean", "sum")])
def test_the_wrong_reduction_is_told_apart(loss, reduce, other):
    with pytest.raises(ValueError, match=f'It is the {other}: pass reduce="{other}"'):
        agrad_dask.value_and_grad(loss, reduce=reduce)(W, *chunked(50, 50))


def test_a_penalty_counts_once_under_mean_and_is_refused_under_sum():
    def penalised(w, X, y, reduce):
        return getattr(ag, reduce)((X @ w - y) ** 2) + ag.sum(w**2)

    value, _ = agrad_dask.value_and_grad(penalised)(W, *chunked(10, 10), "mean")
    np.testing.assert_allclose(value.item(), by_hand()[0] + np.sum(W**2), rtol=1e-12)
    with pytest.raises(ValueError, match="is not the sum"):
        agrad_dask.value_and_grad(penalised, reduce="sum")(W, *chunked(10, 10), "sum")


def test_single_precision_passes_the_check():
    x, y = chunked(50, 50, data=(X.astype(np.float32), Y.astype(np.float32)))
    for seed in range(20):
        w = np.random.default_rng(seed).normal(size=4).astype(np.float32)
        agrad_dask.value_and_grad(squares)(w, x, y)
        agrad_dask.value_and_grad(total, reduce="sum")(w, x, y)


def test_the_check_is_made_at_some_calls_and_can_be_left_out():
    seen = []

    def whole_chunks(w, X, y):
        return ag.mean(ag.reshape(X @ w, (-1, 10)) ** 2)

    x, y = chunked(50, 50, data=(X[:100], Y[:100]))
    with pytest.raises(ValueError, match="cannot reshape") as info:
        agrad_dask.value_and_grad(whole_chunks)(W, x, y)
    assert any("check=False" in note for note in info.value.__notes__)
    value, _ = agrad_dask.value_and_grad(whole_chunks, check=False)(W, x, y)
    np.testing.assert_allclose(value.item(), np.mean((X[:100] @ W) ** 2), rtol=1e-12)
    step = agrad_dask.value_and_grad(lambda w, X, y: seen.append(len(y)) or squares(w, X, y), capture=False)
    counts = []
    for _ in range(9):
        del seen[:]
        step(W, x, y)
        assert sorted(seen)[-2:] == [50, 50]
        counts.append(len(seen) - 2)
    assert counts == [24, 6, 0, 6, 0, 0, 0, 6, 0]  # three runs at a place: at first at four in each of two chunks


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("scheduler")
def test_an_error_names_the_chunk_the_operation_and_the_line():
    def loss(w, X, y):
        return ag.mean((X @ w).reshape((-1, 10)))  # the last chunk has 3 rows

    line = loss.__code__.co_firstlineno
    with pytest.raises(ValueError, match="cannot reshape array of size 3") as info:
        agrad_dask.value_and_grad(loss, check=False)(W, *chunked(10, 10))
    notes = "\n".join(info.value.__notes__)
    assert f"Raised by reshape on shapes (3,).\n  Called at {__file__}:{line + 1}." in notes
    assert f"Raised in chunk 11 of 11 (rows 100 to 102) of the loss loss ({__file__}:{line})" in notes


@pytest.mark.usefixtures("scheduler")
def test_anomaly_detection_names_the_chunk_and_the_operation():
    bad = X.copy()
    bad[57] = 0.0
    data = da.from_array(bad, chunks=(10, 4))

    def loss(w, X):
        return ag.mean(ag.sqrt(ag.sum(w * X, axis=1) ** 2))

    line = loss.__code__.co_firstlineno + 1
    step = agrad_dask.value_and_grad(loss)
    with ag.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values") as info:
        step(W, data)
    assert f"{__file__}:{line}" in str(info.value)
    assert "Raised in chunk 6 of 11 (rows 50 to 59)" in "\n".join(info.value.__notes__)
    with ag.autograd.detect_anomaly(check_nan=False), np.errstate(all="ignore"):
        assert np.isnan(step(W, data)[1]).all()


def test_an_error_of_the_data_names_the_chunk_too():
    def broken(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 2:
            raise OSError("the disk is gone")
        return block

    x, y = chunked(10, 10)
    with pytest.raises(OSError, match="the disk is gone") as info:
        agrad_dask.value_and_grad(squares)(W, da.map_blocks(broken, x, dtype=x.dtype), y)
    assert "Raised in chunk 3 of 11 (rows 20 to 29)" in "\n".join(info.value.__notes__)


def test_an_error_in_small_chunks_names_all_that_share_the_run():
    x = da.from_array(np.ones((1000, 4)), chunks=(2, 4))

    def loss(w, X):
        return ag.mean((X @ w).reshape((-1, 7)))

    with pytest.raises(ValueError, match="cannot reshape") as info:
        agrad_dask.value_and_grad(loss)(W, x)
    assert re.search(r"Raised in chunks \d+ to \d+ of 500 \(rows", "\n".join(info.value.__notes__))


def test_arguments_that_do_not_fit():
    x, y = chunked(10, 10)
    step = agrad_dask.value_and_grad(squares)
    with pytest.raises(ValueError, match=rf"no argument is a Dask array(.|\n)*Called at {re.escape(__file__)}:\d+"):
        step(W, X, Y)
    with pytest.raises(ValueError, match=r"cut.*by rows.*\(103, 4\), \(50,\)"):
        step(W, x, y[:50])
    with pytest.raises(ValueError, match=r"different numbers of rows"):
        step(W, x[y > 0], y[y < 1])
    with pytest.raises(ValueError, match=r"unknown sizes"):
        step(W, x[y > 0], y)
    with pytest.raises(ValueError, match=r"0-d Dask array has no rows"):
        step(W, x, y.sum())
    with pytest.raises(ValueError, match="the data has no rows"):
        step(W, x[:0], y[:0])
    with pytest.raises(TypeError, match=r'a parameter is a Dask array.*to_device\("numpy"\)'):
        step(da.from_array(W), x, y)
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        step(np.arange(4), x, y)
    with pytest.raises(RuntimeError, match="argnum=5, but only 3"):
        agrad_dask.value_and_grad(squares, 5)(W, x, y)
    with pytest.raises(ValueError, match='reduce is "mean" or "sum", got \'max\''):
        agrad_dask.value_and_grad(squares, reduce="max")


def test_results_that_do_not_fit():
    x, y = chunked(10, 10)
    with pytest.raises(RuntimeError, match=r"must return a scalar, got a tensor of shape \(10,\).*\.mean\(\)"):
        agrad_dask.value_and_grad(lambda w, X, y: X @ w)(W, x, y)
    with pytest.raises(TypeError, match="must return a 0-d tensor, not float"):
        agrad_dask.value_and_grad(lambda w, X, y: 1.0)(W, x, y)
    with pytest.raises(RuntimeError, match=r"\(output, aux\)"):
        agrad_dask.value_and_grad(squares, has_aux=True)(W, x, y)
    with pytest.raises(RuntimeError, match="real scalar, got complex128"):
        agrad_dask.value_and_grad(lambda w, X, y: ag.mean(X @ w) * 1j)(W, x, y)
    value, g = agrad_dask.value_and_grad(lambda w, X, y: ag.mean(y))(W, x, y)
    assert value.item() == pytest.approx(Y.mean())
    assert g.tolist() == [0.0] * 4


# -- clusters ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workers():
    pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.worker.daemon": True, "distributed.admin.log-length": 0}),
        cluster_of(n_workers=2) as made,
    ):
        yield made


@pytest.fixture
def cluster(workers):
    """Give a client, which is the default one, where Dask computes, until the test ends."""
    import distributed

    with distributed.Client(workers) as client:
        yield client


def test_on_a_cluster(cluster):
    for made in (chunked(10, 10), cluster.persist(chunked(10, 10)), [a.rechunk(30) for a in chunked(10, 10)]):
        step = agrad_dask.value_and_grad(squares)
        assert_is(step(W, *made), by_hand())
        value, _ = step(W + 1, *made)
        np.testing.assert_allclose(value.item(), np.mean((X @ (W + 1) - Y) ** 2), rtol=1e-12)


def test_the_client_of_a_cluster_gets_a_few_rows(monkeypatch, cluster):
    monkeypatch.setattr(losses, "MADE_BYTES", 2**22)
    data = da.ones((3 * 400, 2**12), chunks=(400, -1))  # 12.5 MiB each

    def loss(w, x):
        return ag.sum(ag.tanh(x[..., None] * w)) / x.shape[0]

    step = agrad_dask.value_and_grad(loss)
    with cluster.as_current():
        for _ in range(2):
            tracemalloc.start()
            _, gradient = step(np.zeros(4), data)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            np.testing.assert_allclose(gradient, 2**12, rtol=1e-12)
            assert peak < 400 * 2**12 * 8 / 2, "half a chunk; what is made of it is 50 MiB"


def test_a_cluster_gives_what_threads_give(cluster):
    def run():
        ag.manual_seed(5)
        value, g = agrad_dask.value_and_grad(noisy)(W, *chunked(10, 10))
        return [value.item(), *g.tolist()]

    found = run()
    with dask.config.set(scheduler="threads"):
        assert run() == found
    default = ag.get_default_dtype()
    try:
        ag.set_default_dtype(ag.float32)
        (_, aux), _ = agrad_dask.value_and_grad(lambda w, X: (ag.mean(X @ w), ag.zeros(1)), has_aux=True)(
            W, chunked(10, 10)[0]
        )
        assert aux[0].dtype == ag.float32
    finally:
        ag.set_default_dtype(default)


def test_an_error_on_a_cluster_names_the_chunk(cluster):
    def loss(w, X, y):
        return ag.mean((X @ w).reshape((-1, 10)))

    with pytest.raises(ValueError, match="cannot reshape") as info:
        agrad_dask.value_and_grad(loss, check=False)(W, *chunked(10, 10))
    assert "Raised in chunk 11 of 11 (rows 100 to 102) of the loss loss" in "\n".join(info.value.__notes__)


USERS_MODULE = """
import agrad as ag
from dataclasses import dataclass

@dataclass
class Parameters:
    w: object
    b: object

scale = ag.asarray(2.0)

def loss(p, X, y):
    r = scale * (X @ p.w) + p.b - y
    return ag.mean(r**2), {"parameters": Parameters(ag.max(r), len(y)), "kept": r}
"""


def test_workers_need_no_module_of_the_users(cluster, tmp_path, monkeypatch):
    (tmp_path / "users_own_module.py").write_text(USERS_MODULE)
    monkeypatch.syspath_prepend(tmp_path)  # of this process: the workers run
    import users_own_module as own

    def found_there():
        import importlib.util

        return importlib.util.find_spec("users_own_module") is not None

    assert not any(cluster.run(found_there).values())
    step = agrad_dask.value_and_grad(own.loss, has_aux=True)
    for k in range(3):
        (value, aux), g = step(own.Parameters(W, float(k)), *chunked(10, 10))
        r = 2 * X @ W + k - Y
        np.testing.assert_allclose(value, np.mean(r**2), rtol=1e-12)
        np.testing.assert_allclose(g.w, 4 * X.T @ r / ROWS, rtol=1e-12)
        np.testing.assert_allclose(g.b, 2 * np.mean(r), rtol=1e-12)
        assert [a["parameters"].b for a in aux] == [10] * 10 + [3]
        np.testing.assert_allclose([a["parameters"].w for a in aux][-1], np.max(r[-3:]), rtol=1e-12)
        np.testing.assert_allclose(np.concatenate([a["kept"] for a in aux]), r, rtol=1e-12)
    with pytest.raises(ValueError, match="is not the sum of the losses of their parts") as info:
        agrad_dask.value_and_grad(lambda p, X, y: own.loss(p, X, y)[0], reduce="sum")(
            own.Parameters(W, 0.0), *chunked(50, 50)
        )
    assert "Raised in chunk 1 of 3" in "\n".join(info.value.__notes__)


def test_chunks_on_a_cluster_that_are_not_what_the_array_says_are_refused(cluster):
    x, y = chunked(10, 10)
    lying = da.map_blocks(lambda b: b.astype("float32"), x, dtype="float64", meta=np.empty((0, 0)))
    with pytest.raises(TypeError, match=r"a chunk is float32\[\d+, 4\], float64\[\d+\].*pass dtype="):
        agrad_dask.value_and_grad(squares, check=False)(W, lying, y)


@pytest.mark.filterwarnings("ignore")  # whatever distributed and cloudpickle say of it beside
def test_a_loss_that_cannot_be_sent_to_workers_is_named(cluster):
    lock = threading.Lock()

    def loss(w, X, y):
        return squares(w, X, y) if lock is not None else None

    assert_is(agrad_dask.value_and_grad(loss)(W, *chunked(10, 10)), by_hand())  # a program goes there
    with pytest.raises(TypeError, match="Could not serialize") as info:
        agrad_dask.value_and_grad(loss, capture=False)(W, *chunked(10, 10))
    assert f"the loss loss ({__file__}:{loss.__code__.co_firstlineno}) and its arguments" in str(info.value)


# -- larger than memory -----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the data of a process")
def test_within_a_memory_limit_every_chunk_is_read_once_per_pass():
    pytest.importorskip("zarr")
    program = Path(__file__).resolve().parents[2] / "benchmarks" / "out_of_core.py"
    chosen = [f"--only={row}" for row in ("mlp, opwise", "mlp, lowered", "rms, opwise", "rms, lowered", "rms, plain")]
    done = subprocess.run(
        [sys.executable, program, "--small", "--rounds=1", "--json", *chosen],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {entry.pop("row"): entry for entry in json.loads(done.stdout)}
    assert "error" in found["rms, plain"], "keeping every chunk breaks the limit, so there is one"
    assert {row: entry.get("reads", entry) for row, entry in found.items() if row != "rms, plain"} == {
        "mlp, opwise": 1,
        "mlp, lowered": 1,
        "rms, opwise": 1,  # the root divides the whole gradient
        "rms, lowered": 1,
    }
    assert all(entry["chunks"] == 50 for row, entry in found.items() if row != "rms, plain")
    values = [[found[row]["value"], *found[row]["gradients"]] for row in ("mlp, opwise", "mlp, lowered")]
    np.testing.assert_allclose(*values, rtol=1e-4)
