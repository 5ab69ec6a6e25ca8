"""Functions of C: the values and gradients of the functions they are of, for whoever calls them."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import threading

import numpy as np
import pytest

import agrad as ag
from agrad.func import CFunctionError, ShapeDtype, cfunc
from agrad.plugin.backend import Executor

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad_numpy.native import NativeExecutor, jit

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

NUMBER = ShapeDtype((), "float64")


def vector(n):
    return ShapeDtype((n,), "float64")


def called(f, *args):
    """Return what a function of C gives: a number, and what it writes as an array."""
    x = np.concatenate([np.ravel(np.asarray(a, np.float64)) for a in args])
    pointer = ctypes.POINTER(ctypes.c_double)
    if f.gives is None:
        return f.ctypes(x.size, x.ctypes.data_as(pointer))
    grad = np.full(f.gives + 1, 7.0)
    value = f.ctypes(x.size, x.ctypes.data_as(pointer), grad.ctypes.data_as(pointer))
    assert grad[-1] == 7.0  # nothing is written behind it
    return value, grad[:-1]


def rosenbrock(x):
    return ag.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_by_hand(x):
    value = sum(100.0 * (b - a * a) ** 2 + (1.0 - a) ** 2 for a, b in itertools.pairwise(x))
    grad = np.zeros(len(x))
    grad[:-1] += -400.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
    grad[1:] += 200.0 * (x[1:] - x[:-1] ** 2)
    return value, grad


def wave(x):
    return ag.exp(-x * x) * ag.cos(3.0 * x) + ag.log1p(x * x)


def wave_in_python(x):
    return math.exp(-x * x) * math.cos(3.0 * x) + math.log1p(x * x)


class TestValues:
    @pytest.mark.parametrize("n", [2, 5, 50, 20_000])  # in registers, in loops, and in memory that is no stack's
    def test_of_a_vector(self, n):
        x = np.random.default_rng(n).normal(size=n)
        value, grad = called(cfunc(rosenbrock, vector(n), gradient=True), x)
        expected = rosenbrock_by_hand(x)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        np.testing.assert_allclose(grad, expected[1], rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(called(cfunc(rosenbrock, vector(n)), x), expected[0], rtol=1e-12)

    def test_of_several_arrays_one_behind_the_other(self):
        """Of sum(a * (m @ b)) + c: by a, m and b, in C's order, and by c."""
        rng = np.random.default_rng(0)
        a, b, m, c = rng.normal(size=3), rng.normal(size=4), rng.normal(size=(3, 4)), rng.normal()
        f = cfunc(
            lambda p, m, c: ag.sum(p["a"] * (m @ p["b"])) + c,
            {"a": vector(3), "b": vector(4)},
            ShapeDtype((3, 4), "float64"),
            NUMBER,
            gradient=True,
        )
        assert (f.size, f.gives) == (20, 20)
        value, grad = called(f, a, b, m, c)
        np.testing.assert_allclose(value, a @ m @ b + c)
        np.testing.assert_allclose(grad, np.concatenate([m @ b, a @ m, np.outer(a, b).ravel(), [1.0]]))

    def test_data_and_arrays_from_outside_are_part_of_it(self):
        data, scale = np.array([1.0, 2.0, 3.0]), ag.tensor(2.0, dtype=ag.float64)
        f = cfunc(lambda x, data: scale * ag.sum((x - data) ** 2), vector(3), data, gradient=True)
        data[:] = 100.0
        scale.mul_(2.0)
        value, grad = called(f, np.array([2.0, 2.0, 2.0]))
        assert value == 4.0
        assert grad.tolist() == [4.0, 0.0, -4.0]

    def test_single_precision_is_rounded_at_the_border(self):
        third = np.float32(1) / np.float32(3)
        f = cfunc(lambda x: ag.sum(x * x), ShapeDtype((3,), "float32"), gradient=True)
        value, grad = called(f, np.full(3, 1 / 3))
        assert value == float(third * third + third * third + third * third)
        assert grad.tolist() == [float(2 * third)] * 3

    def test_turned_and_constant_gradients(self):
        m = np.arange(6.0).reshape(2, 3)
        value, grad = called(
            cfunc(lambda m: ag.sum(m.T * m.T.detach()), ShapeDtype((2, 3), "float64"), gradient=True), m
        )
        assert value == 55.0
        assert grad.tolist() == m.ravel().tolist()
        value, grad = called(cfunc(lambda x: x, NUMBER, gradient=True), 2.5)
        assert (value, grad.tolist()) == (2.5, [1.0])

    @pytest.mark.parametrize("exact", [False, True])
    def test_singular_matrices_give_nan(self, exact):
        spec = ShapeDtype((2, 2), "float64")
        f = cfunc(lambda a: ag.sum(ag.linalg.solve(a, ag.ones(2, dtype=ag.float64))), spec, gradient=True, exact=exact)
        value, grad = called(f, np.ones((2, 2)))
        assert np.isnan(value)
        assert np.isnan(grad).all()
        value, grad = called(f, np.diag([2.0, 4.0]))
        assert value == 0.75
        assert np.isfinite(grad).all()

    def test_exact_ones_have_the_bits_of_the_operations(self):
        f = cfunc(wave, NUMBER, exact=True)
        for x in np.random.default_rng(0).normal(size=200):
            assert called(f, x) == wave(ag.tensor(x, dtype=ag.float64)).item()

    def test_another_count_gives_nan_and_reads_nothing(self):
        f = cfunc(rosenbrock, vector(3), gradient=True)
        assert np.isnan(f.ctypes(4, None, None))

    def test_without_a_place_for_the_gradient(self):
        x = (ctypes.c_double * 3)(1.0, 2.0, 3.0)
        assert (
            cfunc(rosenbrock, vector(3), gradient=True).ctypes(3, x, None)
            == rosenbrock_by_hand(np.array([1.0, 2.0, 3.0]))[0]
        )

    def test_of_a_program(self):
        program = ag.func.capture(ag.func.value_and_grad(rosenbrock))(vector(2))
        assert called(program.cfunc(), np.array([1.0, 1.0]))[0] == 0.0

    def test_of_a_loop(self):
        def compound(rate):
            balance, _ = ag.func.scan(lambda b, _: (b * (1.0 + rate), None), ag.ones((), dtype=ag.float64), length=10)
            return balance

        value, grad = called(cfunc(compound, NUMBER, gradient=True), 0.1)
        np.testing.assert_allclose([value, *grad], [1.1**10, 10 * 1.1**9], rtol=1e-14)


class TestCallers:
    def test_scipys_integrals(self):
        integrate = pytest.importorskip("scipy.integrate")
        for limits in ((0.0, 5.0), (-np.inf, np.inf), (1.0, 0.0)):
            found = integrate.quad(cfunc(lambda x: wave(x) * ag.exp(-ag.abs(x)), NUMBER).low_level_callable, *limits)
            expected = integrate.quad(lambda x: wave_in_python(x) * math.exp(-abs(x)), *limits)
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)

    def test_scipys_integrals_of_several_variables(self):
        integrate = pytest.importorskip("scipy.integrate")
        f = cfunc(lambda x: ag.exp(-x[0] * x[1]) * ag.sin(x[0]) * x[2], vector(3))
        limits = [(0.0, 1.0), (0.5, 2.0)]
        found = integrate.nquad(f.low_level_callable, limits, args=(3.0,))
        expected = integrate.nquad(lambda x, y, p: math.exp(-x * y) * math.sin(x) * p, limits, args=(3.0,))
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)

    @pytest.mark.parametrize("n", [5, 20_000])
    def test_threads_at_a_time(self, n):
        """ctypes lets go of the lock; slots and workspace are each call's own."""
        f = cfunc(rosenbrock, vector(n), gradient=True)
        rows = np.random.default_rng(0).normal(size=(4, n))
        alone = [called(f, row) for row in rows]
        start, bad = threading.Barrier(4), []

        def run(row, expected):
            start.wait()
            for _ in range(400):
                value, grad = called(f, row)
                if value != expected[0] or grad.tobytes() != expected[1].tobytes():
                    bad.append(value)

        threads = [threading.Thread(target=run, args=pair) for pair in zip(rows, alone, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not bad

    def test_a_call_within_a_call(self):
        """The integrand of an integral is an integral of the same function of C."""
        integrate = pytest.importorskip("scipy.integrate")
        inner = cfunc(wave, NUMBER).low_level_callable
        found = integrate.quad(lambda x: integrate.quad(inner, 0.0, x)[0], 0.0, 1.0)[0]
        expected = integrate.quad(lambda x: (1.0 - x) * wave_in_python(x), 0.0, 1.0)[0]  # by parts
        np.testing.assert_allclose(found, expected, rtol=1e-10)

    def test_code_lives_as_long_as_what_calls_it(self):
        quad = pytest.importorskip("scipy.integrate").quad
        call, scipys = cfunc(wave, NUMBER).ctypes, cfunc(wave, NUMBER).low_level_callable
        gc.collect()
        others = [cfunc(lambda x, k=k: x + k, NUMBER) for k in range(3)]  # memory that was free is taken again
        assert call(1, (ctypes.c_double * 1)(0.5)) == pytest.approx(wave_in_python(0.5))
        assert quad(scipys, 0.0, 1.0)[0] == pytest.approx(quad(wave_in_python, 0.0, 1.0)[0])
        del others

    def test_the_header_says_what_it_takes(self):
        def log_density(x, scale):
            return -ag.sum(x * x) * ag.astype(scale, ag.float64)

        f = cfunc(log_density, ShapeDtype((2, 3), "float64"), ShapeDtype((), "float32"), gradient=True)
        assert "typedef double (*log_density)(int n, const double *x, double *grad);" in f.header
        assert "n must be 7" in f.header
        assert "x[6] ...: 1 of shape [], rounded to float" in f.header
        named = cfunc(wave, NUMBER, executor=NativeExecutor())
        named = named.header.splitlines()[-1]
        assert named == "typedef double (*wave)(int n, const double *x);"
        hostile = ag.func.capture(wave)(NUMBER).cfunc(name="f)(int); */ int main(")
        assert "typedef double (*f__int______int_main_)(int n, const double *x);" in hostile.header


class TestRefusals:
    def test_a_step_without_code_is_named_with_its_line(self):
        def sorted_sum(x):
            return ag.sum(ag.sort(x) * ag.arange(40, dtype=ag.float64))

        line = sorted_sum.__code__.co_firstlineno + 1
        with pytest.raises(CFunctionError, match=rf"sort.* of float64\[40\].*test_native_c_functions\.py:{line}"):
            cfunc(sorted_sum, vector(40))

    def test_draws(self):
        with pytest.raises(CFunctionError, match="draws random numbers"):
            cfunc(lambda x: ag.sum(x * ag.randn(3, dtype=ag.float64)), vector(3))

    def test_writes(self):
        total = ag.zeros((), dtype=ag.float64)

        def add(x):
            total.add_(x)
            return x * 2.0

        with pytest.raises(CFunctionError, match="writes to total"):
            cfunc(add, NUMBER)
        assert total.item() == 0.0

    def test_options_that_there_are_not(self):
        with pytest.raises(CFunctionError, match=r"there is no option 'grad': .* and agrad\.func\.cfunc gradient="):
            cfunc(lambda x: ag.sum(x * x), vector(3), grad=True)

    def test_dtypes(self):
        with pytest.raises(CFunctionError, match=r"takes int64\[3\]"):
            cfunc(lambda x: ag.sum(ag.astype(x, ag.float64)), ShapeDtype((3,), "int64"))
        with pytest.raises(CFunctionError, match=r"gives bool\[\]"):
            cfunc(lambda x: ag.sum(x) > 0.0, vector(3))

    def test_more_than_a_number(self):
        with pytest.raises(
            CFunctionError, match=r"returns one number, and the first result of the program is float64\[3\]"
        ):
            cfunc(lambda x: x * 2.0, vector(3))

    def test_what_depends_on_values_is_no_program(self):
        with pytest.raises(ag.func.CaptureError):
            cfunc(lambda x: x if x > 0 else -x, NUMBER)

    def test_executors_that_make_none(self):
        class Other(Executor):
            name = "other"
            backends = ("numpy",)

        with pytest.raises(CFunctionError, match="'other' makes no functions of C"):
            cfunc(wave, NUMBER, executor=Other())
