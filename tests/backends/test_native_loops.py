"""Loops of `scan` in native code: a call is lowered once, and gives what the loop gives, bit for bit where that is asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.func import scan
from agrad.program.passes import fewer

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad_numpy.native import jit
from agrad_numpy.native.running import NativeProgram

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

NUMPY = ag.backends.get("numpy")
F64 = {"dtype": ag.float64}


def kinds(run):
    """Return the kinds of groups of what runs, without views."""
    (made,) = run._natives.values()
    return [group.kind for group in made.low.groups if group.kind != "view"]


def native(function, *args, own):
    return NativeProgram(fewer(ag.func.capture(function)(*args), True, {}), NUMPY, own=own)


def raws(found):
    return [np.asarray(part.detach() if isinstance(part, ag.Tensor) else part) for part in ag.tree.flatten(found)[0]]


def check(function, *args, loops=1):
    """Compare exact native code with NumPy's text bit for bit, and loose code to rounding; as many loops are native."""
    program = ag.func.capture(function)(*args)
    for own in (False, True):
        run = native(function, *args, own=own)
        for factor in (1, -0.5, 1.25):
            given = [a * np.asarray(factor, a.dtype) if a.dtype.kind == "f" else a for a in args]
            found, wanted = run(*given), raws(program(*given))
            for one, other in zip(found, wanted, strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                if own:
                    tolerance = 1e-11 if one.dtype == np.float64 else 2e-5
                    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
                else:
                    assert one.tobytes() == other.tobytes()
        found = kinds(run)
        assert found.count("scan") == loops, found
        assert "python" not in found
    return run


def gradient(function, *argnums):
    return ag.func.value_and_grad(function, argnums=argnums or (0,))


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(7, 3)) / 2
W = RNG.normal(size=(3, 3)) / 2


def cell(w):
    def step(h, x):
        h = ag.tanh(w @ h + x)
        return h, ag.sum(h * x)

    return step


class TestLoops:
    @pytest.mark.parametrize("size", [3, 40])  # in registers and in loops
    def test_forward(self, size):
        w, rows = RNG.normal(size=(size, size)) / size, RNG.normal(size=(7, size))
        check(lambda w, h, xs: scan(cell(w), h, xs), w, rows[0].copy(), rows)

    @pytest.mark.parametrize("size", [3, 40])
    def test_gradients(self, size):
        """The loop back runs from the last row, and reads what was carried into each call."""
        w, rows = RNG.normal(size=(size, size)) / size, RNG.normal(size=(7, size))

        def loss(w, h, xs):
            last, ys = scan(cell(w), h, xs)
            return ag.sum(last) + ag.sum(ys * ys)

        check(gradient(loss, 0, 1, 2), w, rows[0].copy(), rows, loops=2)

    def test_second_derivatives(self):
        def loss(h, w, xs):
            last, _ = scan(cell(w), h, xs)
            return ag.sum(last * last)

        def product(h, v, w, xs):
            return ag.func.jvp(lambda h: ag.func.grad(loss)(h, w, xs), (h,), (v,))[1]

        check(product, ROWS[0], ROWS[1], W, ROWS, loops=3)

    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_of_few_calls(self, length):
        check(lambda w, h, xs: scan(cell(w), h, xs), W, ROWS[0], ROWS[:length].copy(), loops=int(length > 1))

    def test_rows_that_lie_otherwise(self):
        for rows in (ROWS[::-1], ROWS.T.copy().T, np.broadcast_to(ROWS[0], (7, 3)), ROWS[::2], np.asfortranarray(ROWS)):
            check(lambda h, xs: scan(lambda h, x: (h * 0.5 + x * x, h - x), h, xs), ROWS[0], rows)

    def test_carried_values_that_lie_otherwise(self):
        """Where bits are asked for, such a loop runs as it is."""
        start = np.asfortranarray(RNG.normal(size=(4, 5)))

        def function(h, w):
            return scan(lambda h, _: (w @ h, ag.sum(h)), h, length=4)

        w = RNG.normal(size=(4, 4)) / 4
        assert kinds_of(function, start, w, own=False).count("scan") == 0
        assert kinds_of(function, start, w, own=True).count("scan") == 1

    def test_a_carried_value_that_is_turned_in_each_call(self):
        def function(h):
            return scan(lambda h, _: (ag.matrix_transpose(h) * 0.9, None), h, length=5)

        start = RNG.normal(size=(6, 6))
        assert kinds_of(function, start, own=False).count("scan") == 0  # a view of what was carried, in another order
        assert kinds_of(function, start, own=True).count("scan") == 1

    def test_what_is_carried_through_changed_and_swapped(self):
        def function(a, b, xs):
            def step(carry, x):
                a, b, c, n = carry
                return (b, a + x, c, n + 1), (a, c, n)

            return scan(step, (a, b, a * 2.0, ag.asarray(0)), xs)

        check(function, ROWS[0], ROWS[1], ROWS)

    def test_results_that_nobody_wants(self):
        check(lambda h, xs: scan(lambda h, x: (h + x, (h * x, ag.sum(h))), h, xs)[1][1], ROWS[0], ROWS)
        check(lambda h, xs: scan(lambda h, x: (h + x, (h * x, ag.sum(h))), h, xs)[0], ROWS[0], ROWS)

    def test_a_loop_in_a_loop(self):
        def function(h, xs):
            def outer(h, x):
                inner, ys = scan(lambda g, _: (g * 0.5 + x, ag.sum(g)), h, length=4)
                return inner, ys

            return scan(outer, h, xs)

        check(function, ROWS[0], ROWS)
        run = native(gradient(lambda h, xs: ag.sum(function(h, xs)[1])), ROWS[0], ROWS, own=False)
        wanted = raws(gradient(lambda h, xs: ag.sum(function(h, xs)[1]))(ag.asarray(ROWS[0]), ag.asarray(ROWS)))
        for one, other in zip(run(ROWS[0], ROWS), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)

    def test_two_loops_of_one_program(self):
        def function(h, xs):
            first, ys = scan(lambda h, x: (h + x, ag.exp(-h * h)), h, xs)
            return scan(lambda h, y: (h * y, h - y), first, ys)

        check(function, ROWS[0], ROWS, loops=2)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_linear_algebra(self, dtype):
        def function(p, xs):
            def step(p, x):
                s = p + ag.eye(3, dtype=p.dtype) + x[:, None] * x
                low = ag.linalg.cholesky(s)
                return ag.linalg.inv(s) + p * 0.1, ag.sum(ag.log(ag.linalg.diagonal(low)))

            return scan(step, p, xs)

        for own in (False, True):
            args = np.eye(3, dtype=dtype), ROWS.astype(dtype)
            run = native(function, *args, own=own)
            tolerance = 1e-12 if dtype == "float64" else 1e-5
            for one, other in zip(run(*args), raws(function(*map(ag.asarray, args))), strict=True):
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)

    def test_what_fails_in_a_call_raises_as_ever(self):
        def function(p, xs):
            return scan(lambda p, x: (ag.linalg.inv(p - ag.eye(2, **F64) * x), None), p, xs)[0]

        compiled = ag.compile(function, executor="native")
        good, bad = np.full(4, 0.1), np.array([0.1, 1.0, 0.0, 0.0])
        start = np.diag([2.0, 3.0])
        wanted = function(start, good)
        for _ in range(3):
            np.testing.assert_allclose(compiled(start, good), wanted)
        singular = np.array([2.0, 0.0, 0.0, 0.0])
        with pytest.raises(np.linalg.LinAlgError):
            compiled(start, singular)
        np.testing.assert_allclose(compiled(start, good), wanted)
        np.testing.assert_allclose(compiled(start, bad), function(start, bad))

    def test_a_call_without_kernels_runs_as_it_is(self):
        def function(h, xs):
            return scan(lambda h, x: (ag.sort(h + x), ag.sum(h)), h, xs)

        h, xs = RNG.normal(size=30), RNG.normal(size=(5, 30))
        for own in (False, True):
            run = native(function, h, xs, own=own)
            for one, other in zip(run(h, xs), raws(function(ag.asarray(h), ag.asarray(xs))), strict=True):
                np.testing.assert_array_equal(one, other)
            assert kinds(run).count("scan") == 0

    def test_several_threads(self):
        w, rows = RNG.normal(size=(40, 40)) / 40, RNG.normal(size=(200, 40))
        compiled = ag.compile(lambda h, xs: scan(cell(ag.asarray(w)), h, xs)[0], executor="native", check=False)
        compiled(rows[0], rows)  # captured; what follows is replayed
        wanted = [compiled(row, rows) for row in rows[:8]]
        with ThreadPoolExecutor(4) as pool:
            for one, other in zip(
                pool.map(lambda row: compiled(row, rows), list(rows[:8]) * 5), wanted * 5, strict=True
            ):
                np.testing.assert_array_equal(one, other)

    def test_a_long_loop_takes_no_longer_to_compile(self):
        run = check(lambda w, h, xs: scan(cell(w), h, xs), W, ROWS[0], RNG.normal(size=(3000, 3)))
        (made,) = run._natives.values()
        assert len(made.text) < 100_000


def kinds_of(function, *args, own):
    """Return the kinds of groups, of what was compared with the function."""
    run = native(function, *args, own=own)
    for one, other in zip(run(*args), raws(ag.func.capture(function)(*args)(*args)), strict=True):
        if own:
            np.testing.assert_allclose(one, other, rtol=1e-12)
        else:
            assert one.tobytes() == other.tobytes()
    return kinds(run)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_bodies(data):
    """Of drawn operations on what is carried and a row, of drawn sizes, forwards and back."""
    size = data.draw(st.sampled_from([1, 3, 16, 17, 33]))
    count = data.draw(st.integers(1, 3))
    length = data.draw(st.integers(2, 5))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    ops = data.draw(
        st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8)
    )
    rng = np.random.default_rng(0)
    start = [rng.normal(size=size).astype(dtype) for _ in range(count)]
    rows = rng.normal(size=(length, size)).astype(dtype)

    def step(carry, x):
        known = [*carry, x]
        for op, i, j in ops:
            a, b = known[i % len(known)], known[j % len(known)]
            made = (
                lambda a, b: a + b,
                lambda a, b: a * 0.5 - b,
                lambda a, b: ag.tanh(a) * b,
                lambda a, b: ag.flip(a) + 0.1,
                lambda a, b: a + ag.sum(b) / (1.0 + size),
                lambda a, b: ag.where(a > b, a, 0.5 * b),
                lambda a, b: a,
                lambda a, b: ag.roll(a, 1) * 0.5,
            )[op](a, b)
            known.append(made)
        return known[-count:], (known[-1], ag.sum(known[len(known) // 2]))

    def function(*args):
        return scan(step, list(args[:count]), args[count])

    def loss(*args):
        carry, (ys, zs) = function(*args)
        return sum(map(ag.sum, carry)) + ag.sum(ys * ys) + ag.sum(zs)

    args = *start, rows
    for each in (function, gradient(loss, *range(count + 1))):
        run = native(each, *args, own=False)
        for one, other in zip(run(*args), raws(ag.func.capture(each)(*args)(*args)), strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", ["complex128", "float16", "int8"])
def test_what_is_carried_last_may_be_of_any_dtype(dtype):
    def function(x, c):
        return scan(lambda carried, _: ((carried[0] * 0.5 + 1, carried[1] + carried[1]), carried[0]), (x, c), length=5)

    args = np.arange(3.0), np.arange(3).astype(dtype)
    program = ag.func.capture(function)(*args)
    for own in (False, True):
        for one, other in zip(native(function, *args, own=own)(*args), raws(program(*args)), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
