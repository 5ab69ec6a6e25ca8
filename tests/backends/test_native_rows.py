"""Products with the rows of a matrix, what follows, and products with the matrix again are one loop over rows, and give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad.program.passes import fewer
from agrad_numpy.executor import turned
from agrad_numpy.native import jit, row_products, spreading
from agrad_numpy.native.expanding import exactly, expanded
from agrad_numpy.native.running import NativeProgram

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

NUMPY = ag.backends.get("numpy")
TOLERANCE = {"float32": 2e-5, "float64": 1e-13}


def native(function, *args, own=True, threads=1):
    """Return a function as native code, of the program of a call."""
    program = fewer(ag.func.capture(function)(*args), True, {})
    return NativeProgram(expanded(turned(program)) if own else exactly(program), NUMPY, own=own, threads=threads)


def fused(run):
    """Return whether the code of a call has one loop over rows, and nothing else that multiplies."""
    (made,) = run._natives.values()
    kinds = [group.kind for group in made.low.groups]
    return not made.python and kinds.count("rows") == 1 and not {"product", "tiled"} & {*kinds}


def close(found, wanted, dtype):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        assert one.shape == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * np.abs(other).max())


def data(rows, columns, dtype):
    rng = np.random.default_rng(rows + columns)
    x = rng.standard_normal((rows, columns)).astype(dtype)
    w = (rng.standard_normal(columns) / np.sqrt(columns)).astype(dtype)
    return x, (rng.random(rows) < 0.4).astype(dtype), w


def loss(w, x, y):
    return ag.nn.functional.binary_cross_entropy_with_logits(x @ w, y)


def by_hand(w, x, y):
    """Return the loss and its gradient in double precision."""
    w, x, y = (part.astype("float64") for part in (w, x, y))
    z = x @ w
    return (np.logaddexp(0, z) - z * y).mean(), (1 / (1 + np.exp(-z)) - y) @ x / len(y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(256, 8), (257, 9), (263, 15), (1000, 16), (1007, 17), (1111, 33), (2001, 64), (9001, 100), (1030, 1024)],
)
def test_logistic_regression(rows, columns, dtype):
    x, y, w = data(rows, columns, dtype)
    run = native(ag.func.value_and_grad(loss), w, x, y)
    close(run(w, x, y), by_hand(w, x, y), dtype)
    assert fused(run)
    close(run(w * 3, x[::-1].copy(), y), by_hand(w * 3, x[::-1], y), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_with_gaps(dtype):
    x, y, w = data(700, 60, dtype)
    for part, one in ((x[:, 3:40], w[3:40]), (x[::2], w), (x[5:], w)):
        labels = y[: len(part)]
        run = native(ag.func.value_and_grad(loss), one, part, labels)
        close(run(one, part, labels), by_hand(one, part, labels), dtype)
        assert fused(run)


@pytest.mark.parametrize("turn", [np.asfortranarray, lambda x: x[:, ::-1], lambda x: x[::-1], lambda x: x[:200]])
def test_other_layouts_and_few_rows_are_multiplied_as_before(turn):
    x, y, w = data(700, 60, "float64")
    x = turn(x)
    run = native(ag.func.value_and_grad(loss), w, x, y[: len(x)])
    close(run(w, x, y[: len(x)]), by_hand(w, x, y[: len(x)]), "float64")
    assert not fused(run)


def test_gradient_is_that_of_finite_differences():
    x, y, w = data(300, 12, "float64")
    run = native(ag.func.value_and_grad(loss), w, x, y)
    _, gradient = run(w, x, y)
    assert fused(run)
    step = 1e-6
    for at, one in enumerate(np.eye(12) * step):
        slope = (run(w + one, x, y)[0] - run(w - one, x, y)[0]) / (2 * step)
        np.testing.assert_allclose(gradient[at], slope, rtol=1e-7, atol=1e-9)


FORMS = {
    "a column": (
        lambda w, x, y: ((r := ag.tanh(x @ w[:, None]) - y[:, None]), r.mT @ x, ag.sum(r)),
        lambda w, x, y: ((r := np.tanh(x @ w) - y)[:, None], (r @ x)[None], r.sum()),
    ),
    "from the left": (
        lambda w, x, y: x.mT @ (ag.exp(w @ x.mT) * y),
        lambda w, x, y: (np.exp(x @ w) * y) @ x,
    ),
    "a bias": (
        ag.func.grad(lambda w, x, y: ag.mean((x @ w + y[0] - y) ** 2)),
        lambda w, x, y: 2 * (x @ w + y[0] - y) @ x / len(y),
    ),
    "the rows too": (
        lambda w, x, y: (z := x @ w, p := ag.sigmoid(z) * y, p @ x),
        lambda w, x, y: (z := x @ w, p := y / (1 + np.exp(-z)), p @ x),
    ),
    "several vectors": (
        lambda w, x, y: (ag.sum(t := x @ (w * w)), ag.max(z := x @ w), ag.sin(z) @ x, (ag.cos(z) * t) @ x),
        lambda w, x, y: ((t := x @ (w * w)).sum(), (z := x @ w).max(), np.sin(z) @ x, (np.cos(z) * t) @ x),
    ),
    "a Hessian-vector product": (
        lambda w, x, y: ag.func.jvp(ag.func.grad(lambda w: loss(w, x, y)), (w,), (w * w,))[1],
        lambda w, x, y: (p := 1 / (1 + np.exp(-(x @ w)))) * (1 - p) * (x @ (w * w)) @ x / len(y),
    ),
    "a condition": (
        lambda w, x, y: ag.where(x @ w > 0, y, -1.0) @ x,
        lambda w, x, y: np.where(x @ w > 0, y, -1.0) @ x,
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FORMS)
def test_forms(name, dtype):
    function, expected = FORMS[name]
    x, y, w = data(773, 21, dtype)
    run = native(function, w, x, y)
    wanted = expected(*(part.astype("float64") for part in (w, x, y)))
    close(run(w, x, y), wanted if isinstance(wanted, tuple) else (wanted,), dtype)
    assert fused(run)


def test_turned_rows_are_no_factors():
    x, _, w = data(300, 21, "float64")
    run = native(lambda w, x: (x @ w)[::-1] @ x, w, x)
    close(run(w, x), ((x @ w)[::-1] @ x,), "float64")
    assert not fused(run)


def test_what_is_no_number_stays_in_its_sums():
    x, y, w = data(1003, 20, "float64")
    x[1002, 3], x[5, 7] = np.inf, np.nan  # in the last tile, and in the first
    with NUMPY.quiet():
        run = native(lambda w, x, y: (z := x @ w, ag.where(ag.isfinite(z), z, y) @ x), w, x, y)
        found = run(w, x, y)
        wanted = (z := x @ w), np.where(np.isfinite(z), z, y) @ x
    assert fused(run)
    for one, other in zip(found, wanted, strict=True):
        assert 0 < np.isfinite(one).sum() < one.size
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_has_the_same_bits_wherever_it_lies(dtype):
    x, y, w = data(1024, 37, dtype)

    def function(w, x, y):
        return (z := x @ w), (ag.tanh(z) * y) @ x

    whole = native(function, w, x, y)(w, x, y)[0]
    for rows in (1009, 1017, 1023):
        run = native(function, w, x[-rows:], y[-rows:])
        assert run(w, x[-rows:], y[-rows:])[0].tobytes() == whole[-rows:].tobytes()
        assert fused(run)


def test_exact_bits_are_those_of_the_operations():
    x, y, w = data(300, 21, "float64")
    run = native(ag.func.value_and_grad(loss), w, x, y, own=False)
    wanted = ag.func.value_and_grad(loss)(*map(ag.asarray, (w, x, y)))
    assert [part.tobytes() for part in run(w, x, y)] == [np.asarray(part.detach()).tobytes() for part in wanted]
    assert not fused(run)


@pytest.mark.skipif(not spreading.available(), reason="the system has no threads of POSIX's")
@pytest.mark.parametrize("rows", [1024, 1031, 5000])
def test_no_bit_depends_on_threads(rows, monkeypatch):
    monkeypatch.setattr(spreading, "SPREAD_FROM", 2**12)
    monkeypatch.setattr(row_products, "PART", 2**6)
    x, y, w = data(rows, 40, "float32")
    one, *others = (native(ag.func.value_and_grad(loss), w, x, y, threads=threads) for threads in (1, 2, 3))
    wanted = one(w, x, y)
    close(wanted, by_hand(w, x, y), "float32")
    for run in others:
        assert [part.tobytes() for part in run(w, x, y)] == [part.tobytes() for part in wanted]
        (made,) = run._natives.values()
        assert "call void @spread" in made.text
