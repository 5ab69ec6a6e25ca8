"""`scan` is the loop that it stands for: values, containers, derivatives in every mode, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.func import scan

ROWS = np.random.default_rng(0).normal(size=(5, 3)) / 2
INIT = np.array([0.3, -0.2, 0.8])
W = np.random.default_rng(1).normal(size=(3, 3)) / 2


def close(a, b, **near):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), **({"rtol": 1e-12, "atol": 1e-12} | near))


def looped(step, init, xs, length=None):
    """The plain loop, over one array."""
    carry, ys = init, []
    for i in range(len(xs) if length is None else length):
        carry, y = step(carry, None if xs is None else xs[i])
        ys.append(y)
    return carry, ag.stack(ys)


def cell(w):
    def step(h, x):
        h = ag.tanh(w @ h + x)
        return h, ag.sum(h * x)

    return step


def total(way):
    def function(init, xs, w):
        carry, ys = way(cell(w), init, xs)
        return ag.sum(carry**2) + ag.sum(ag.sin(ys))

    return function


def test_identities_of_numpys():
    close(scan(lambda c, x: (c + x, c + x), np.zeros(3), ROWS)[1], np.cumsum(ROWS, axis=0))
    close(scan(lambda c, x: (c * x, c * x), np.ones(3), ROWS)[1], np.cumprod(ROWS, axis=0))
    close(scan(lambda c, x: (ag.maximum(c, x), None), np.full(3, -np.inf), ROWS)[0], ROWS.max(axis=0))
    powers = scan(lambda m, _: (m @ W, m), np.eye(3), length=4)
    close(powers[0], np.linalg.matrix_power(W, 4))
    close(powers[1], [np.linalg.matrix_power(W, k) for k in range(4)])


def test_a_recurrent_layer_is_one():
    layer = ag.nn.RNN(3, 4).requires_grad_(False)
    w_in, w, b_in, b = (getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))

    def step(h, x):
        h = ag.tanh(w_in @ x + b_in + w @ h + b)
        return h, h

    rows = ag.asarray(ROWS, dtype=w.dtype)
    wanted, last = layer(rows)
    found = scan(step, ag.zeros(4, dtype=w.dtype), rows)
    close(found[1], wanted, rtol=1e-6, atol=1e-6)
    close(found[0], last[0], rtol=1e-6, atol=1e-6)


def test_values_are_the_loops():
    for one, other in zip(
        scan(cell(ag.asarray(W)), INIT, ROWS), looped(cell(ag.asarray(W)), ag.asarray(INIT), ROWS), strict=True
    ):
        np.testing.assert_array_equal(one, other.numpy())


@pytest.mark.parametrize("argnum", [0, 1, 2])
def test_gradients_are_those_of_differences(argnum):
    args, step = [INIT, ROWS, W], 1e-6
    found = ag.grad(total(scan), argnum)(*map(ag.asarray, args))
    numeric = np.zeros_like(args[argnum])
    for at in np.ndindex(*numeric.shape):
        values = []
        for sign in (1, -1):
            moved = args[argnum].copy()
            moved[at] += sign * step
            given = [*args[:argnum], moved, *args[argnum + 1 :]]
            values.append(float(total(scan)(*map(ag.asarray, given))))
        numeric[at] = (values[0] - values[1]) / (2 * step)
    close(found, numeric, rtol=1e-6, atol=1e-8)


MODES = {
    "reverse": lambda f: ag.func.grad(f, (0, 1, 2))(INIT, ROWS, W),
    "backward": lambda f: backward(f),
    "forward": lambda f: ag.jvp(f, (INIT, ROWS, W), (ROWS[0], ROWS * 2, W.T)),
    "hessian": lambda f: ag.hessian(f, (0, 2))(INIT, ROWS, W),
    "forward over reverse": lambda f: ag.func.jacfwd(ag.func.grad(f, 1))(INIT, ROWS, W),
    "vmap": lambda f: ag.vmap(f, (None, 0, None))(INIT, np.stack([ROWS, 2 * ROWS]), W),
    "vmap of all": lambda f: ag.vmap(f)(ROWS, np.stack([ROWS] * 5), np.stack([W * k for k in range(5)])),
    "gradients per example": lambda f: ag.vmap(ag.grad(f, (0, 1, 2)), (0, None, None))(ROWS, ROWS, W),
    "linearize": lambda f: ag.func.linearize(lambda x: f(INIT, x, W), ROWS)[1](ROWS**2),
    "checkpoint": lambda f: ag.grad(
        lambda x: ag.utils.checkpoint.checkpoint(f, ag.asarray(INIT), x, ag.asarray(W), use_reentrant=False)
    )(ROWS),
    "captured": lambda f: ag.func.capture(ag.func.value_and_grad(f, (0, 1, 2)))(INIT, ROWS, W)(INIT, 2 * ROWS, W),
    "captured from specs": lambda f: ag.func.capture(ag.func.value_and_grad(f))(
        *(ag.func.ShapeDtype(a.shape) for a in (INIT, ROWS, W))
    )(INIT, 2 * ROWS, W),
    "compiled": lambda f: [ag.compile(ag.func.value_and_grad(f, (0, 1, 2)))(INIT, k * ROWS, W) for k in range(4)],
}


def backward(f):
    tensors = [ag.tensor(a, requires_grad=True) for a in (INIT, ROWS, W)]
    f(*tensors).backward()
    return [t.grad for t in tensors]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_goes_through_it_as_through_the_loop(mode):
    found, wanted = (ag.tree.flatten(MODES[mode](total(way)))[0] for way in (scan, looped))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        close(one, other)


def test_containers_are_carried_given_and_stacked():
    def step(carry, row):
        level, (count, nothing) = carry["level"], carry["rest"]
        assert nothing is None
        level = level * row["a"] + row["b"][0]
        return {"level": level, "rest": (count + 1, None)}, {"level": level, "both": [count, (row["a"], None)]}

    init = {"level": np.ones(2), "rest": (0, None)}
    xs = {"a": ROWS[:, :2], "b": (ROWS[:, 2],)}
    carry, ys = scan(step, init, xs)
    assert carry["rest"] == (5, None)
    np.testing.assert_array_equal(ys["both"][0], np.arange(5))
    np.testing.assert_array_equal(ys["both"][1][0], ROWS[:, :2])
    assert ys["both"][1][1] is None
    level = np.ones(2)
    for i in range(5):
        level = level * ROWS[i, :2] + ROWS[i, 2]
        close(ys["level"][i], level)
    close(carry["level"], level)


def test_raw_in_raw_out_and_tensors_otherwise():
    step = lambda c, x: (c + x, 2 * x)
    for found in scan(step, INIT, ROWS):
        assert type(found) is np.ndarray
    assert type(scan(step, 0.0, ROWS[:, 0])[0]) is np.float64
    for init, rows in ((ag.asarray(INIT), ROWS), (INIT, ag.asarray(ROWS))):
        assert all(isinstance(found, ag.Tensor) for found in scan(step, init, rows))


def test_no_rows_give_results_without_rows():
    def step(carry, x):
        return carry * ag.sum(x), {"y": ag.astype(x, "float32") * 2, "none": None}

    carry, ys = scan(step, ag.asarray(2.0), ag.zeros((0, 3)))
    assert float(carry) == 2.0
    assert ys["none"] is None
    assert (ys["y"].shape, ys["y"].dtype) == ((0, 3), ag.float32)
    carry, ys = scan(lambda c, _: (c, c), INIT, length=0)
    close(carry, INIT)
    assert ys.shape == (0, 3)


def test_long_loops_take_time_by_their_length_alone():
    rows = ag.ones((2000, 50), requires_grad=True)
    ag.sum(scan(lambda c, x: (0.5 * c + x, None), ag.zeros(50), rows)[0]).backward()
    close(rows.grad[-1], np.ones(50))  # a part of every row, not an array of all rows for each
    close(rows.grad[-3], np.full(50, 0.25))


REFUSED = {
    "no pair": (lambda c, x: c + x, INIT, ROWS, None, TypeError, "must return a pair, .*it returned Tensor"),
    "another shape": (lambda c, x: (ag.outer(c, x), x), INIT, ROWS, None, TypeError, r"float64\[3, 3\] in call 0"),
    "another dtype": (
        lambda c, x: (ag.astype(c, "float32"), x),
        INIT,
        ROWS,
        None,
        TypeError,
        r"returned float32\[3\] in",
    ),
    "a whole number": (lambda c, x: (c + x[0], x), 0, ROWS, None, TypeError, r"received the carried value int64\[\]"),
    "other containers": (lambda c, x: ((c, c), x), INIT, ROWS, None, TypeError, r"the carried values \*, and"),
    "a later result": (lambda c, x: (c + 1, x[: 1 + int(c)]), 0, ROWS, None, TypeError, "in call 1: shapes"),
    "later containers": (lambda c, x: (c + 1, x if c else None), 0, ROWS, None, TypeError, "in call 1"),
    "no length": (lambda c, x: (c, x), INIT, None, None, ValueError, "as length="),
    "two lengths": (lambda c, x: (c, None), INIT, (ROWS, W), None, ValueError, r"xs\[1\] has 3 rows, xs\[0\] says 5"),
    "another length": (lambda c, x: (c, x), INIT, ROWS, 4, ValueError, "has 5 rows, length says 4"),
    "a negative length": (lambda c, x: (c, x), INIT, None, -1, ValueError, "length is -1"),
    "no axis": (lambda c, x: (c, x), INIT, 2.0, None, ValueError, "has no axes"),
    "no numbers": (lambda c, x: (c, x), "text", ROWS, None, TypeError, "got <class 'str'>"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_such_loop_is_refused(case):
    step, init, xs, length, error, words = REFUSED[case]
    with pytest.raises(error, match=words) as raised:
        scan(step, init, xs, length)
    assert __file__ in str(raised.value)


def test_lazy_rows():
    da = pytest.importorskip("dask.array")
    rows = da.from_array(ROWS, chunks=(2, 3))
    carry, ys = scan(cell(ag.asarray(W)), ag.asarray(INIT), rows)
    wanted = scan(cell(ag.asarray(W)), ag.asarray(INIT), ROWS)
    close(carry.numpy(), wanted[0])
    close(ys.numpy(), wanted[1])
