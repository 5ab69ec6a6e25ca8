"""The native executor's own functions: within 1.5 units in the last place, special values as NumPy's, one result per argument."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.plugin.programs import optimized

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")
mp = pytest.importorskip("mpmath")

from agrad_numpy.native import jit  # noqa: E402 (what is tested needs llvmlite)
from agrad_numpy.native.expanding import expanded  # noqa: E402 (as above)
from agrad_numpy.native.running import NativeProgram  # noqa: E402 (as above)
from agrad_numpy.native.vector_math import FUNCTIONS  # noqa: E402 (as above)

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

NUMPY = ag.backends.get("numpy")

CALLS = {
    "atan": (ag.atan, lambda x: mp.atan(x)),
    "cosh": (ag.cosh, lambda x: mp.cosh(x)),
    "nn.softplus": (ag.nn.functional.softplus, lambda x: x if x > 20 else mp.log1p(mp.exp(x))),
    "sinh": (ag.sinh, lambda x: mp.sinh(x)),
    "special.erf": (ag.special.erf, lambda x: mp.erf(x)),
    "tan": (ag.tan, lambda x: mp.tan(x)),
    "cos": (ag.cos, lambda x: mp.cos(x)),
    "exp": (ag.exp, lambda x: mp.exp(x)),
    "expm1": (ag.expm1, lambda x: mp.expm1(x)),
    "log": (ag.log, lambda x: mp.log(x)),
    "log1p": (ag.log1p, lambda x: mp.log1p(x)),
    "nn.sigmoid": (ag.nn.functional.sigmoid, lambda x: 1 / (1 + mp.exp(-x))),
    "sin": (ag.sin, lambda x: mp.sin(x)),
    "tanh": (ag.tanh, lambda x: mp.tanh(x)),
}

EVERY = pytest.mark.parametrize("name", CALLS)
FLOATS = pytest.mark.parametrize("dtype", ["float32", "float64"])


def run_of(name, x):
    """Return a function by native code of its own, and that there is no other in it."""
    program = optimized(ag.func.capture(CALLS[name][0])(x).without_detach())
    run = NativeProgram(program, NUMPY, own=True)
    made = run.native([x])
    assert [group.kind for group in made.low.groups] == ["loop" if x.size > 16 else "tiny"]
    return run


def points(name, dtype, count=250):
    """Return arguments of all sizes, more of them where the function changes its way."""
    rng = np.random.default_rng(1)
    small = dtype == "float32"
    signs = rng.choice([-1, 1], count)
    parts = [5 * rng.standard_normal(count), signs * 10.0 ** rng.uniform(-8, 1.5, count), rng.uniform(-1, 1, count)]
    if name == "exp":
        parts.append(rng.uniform(-87, 88, count) if small else rng.uniform(-708, 709, count))
    elif name == "log":
        parts = [10.0 ** rng.uniform(-44, 38, count), 1 + rng.standard_normal(count) / 10, rng.uniform(0.4, 2.5, count)]
    elif name == "log1p":
        parts += [10.0 ** rng.uniform(-9, 30, count), 10.0 ** rng.uniform(-6, 0, count) - 1]
    elif name in ("sin", "cos", "tan"):
        parts += [rng.uniform(-7e4, 7e4, count), np.arange(count) * (np.pi / 2), rng.uniform(-1e9, 1e9, 20)]
    elif name == "tanh":
        parts.append(signs * rng.uniform(0.4, 0.8, count))
    elif name == "atan":
        parts += [signs * rng.uniform(0.3, 3, count), signs * 10.0 ** rng.uniform(-30, 30, count)]
    elif name == "special.erf":
        parts.append(signs * rng.uniform(0.8, 6, count))
    elif name == "nn.softplus":
        parts += [rng.uniform(-100, 25, count), rng.uniform(-740, 25, count)]
    else:
        parts.append(rng.uniform(-80, 80, count))
    x = np.concatenate(parts).astype(dtype)
    least = {"log": 0.0, "log1p": -1.0}.get(name, -np.inf)
    return x[(x > least) & np.isfinite(x)]


def test_every_function_is_here():
    assert CALLS.keys() == FUNCTIONS.keys()


@EVERY
@FLOATS
def test_errors_are_below_one_and_a_half_units_in_the_last_place(name, dtype):
    x = points(name, dtype)
    found = run_of(name, x)(x)[0]
    with mp.workprec(160):
        for argument, result in zip(x, found, strict=True):
            exact = CALLS[name][1](mp.mpf(float(argument)))
            unit = mp.mpf(float(np.spacing(np.abs(np.asarray(float(exact)).astype(dtype)))))
            assert abs(mp.mpf(float(result)) - exact) <= 1.5 * unit, (argument, result)


@EVERY
@FLOATS
def test_special_values_are_numpys(name, dtype):
    info = np.finfo(dtype)
    ends = [
        0.0,
        1.0,
        np.inf,
        info.max,
        info.tiny,
        info.smallest_subnormal,
        1e-30,
        88.8,
        89.5,
        103.9,
        104.1,
        709.9,
        745.0,
        746.0,
        1e5,
        1e30,
    ]
    x = np.array([*ends, *(-e for e in ends), np.nan, -1.0000001, np.nextafter(-1.0, 0)], np.float64)
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    with NUMPY.quiet():
        found, wanted = run_of(name, x)(x)[0], np.asarray(CALLS[name][0](ag.asarray(x)))
    plain = np.isfinite(wanted) & (np.abs(wanted) > info.tiny)
    np.testing.assert_array_equal(found[~np.isfinite(wanted)], wanted[~np.isfinite(wanted)])
    assert np.array_equal(np.isfinite(found), np.isfinite(wanted))
    assert np.array_equal(np.signbit(found[np.isfinite(wanted)]), np.signbit(wanted[np.isfinite(wanted)]))
    np.testing.assert_allclose(found[plain], wanted[plain], rtol=5 * info.eps)
    rest = np.isfinite(wanted) & ~plain
    np.testing.assert_allclose(found[rest], wanted[rest], rtol=0, atol=4 * info.smallest_subnormal)


@EVERY
@FLOATS
def test_a_result_does_not_depend_on_where_its_argument_stands(name, dtype):
    x = points(name, dtype, 30)
    x[5] = 1e8 if name in ("sin", "cos", "tan") else x[5]  # beside one that goes another way
    whole = run_of(name, x)(x)[0]
    for count in (1, 2, 3, 5, 8, 16, 19):
        run = run_of(name, x[:count].copy())
        for start in range(0, len(x) - count, count):
            assert run(x[start : start + count].copy())[0].tobytes() == whole[start : start + count].tobytes()


@FLOATS
@pytest.mark.parametrize("exponent", [3, 4, 1.5, -0.5, -2])
class TestPowers:
    """By constants that take few products."""

    def run_of(self, x, exponent):
        program = expanded(optimized(ag.func.capture(lambda x: x**exponent)(x).without_detach()))
        run = NativeProgram(program, NUMPY, own=True)
        assert [group.kind for group in run.native([x]).low.groups] == ["loop"]
        return run

    def test_errors(self, exponent, dtype):
        x = np.exp(np.random.default_rng(0).uniform(-20, 20, 2000)).astype(dtype)
        x = np.concatenate([x, -x]) if exponent in (3, 4, -2) else x
        found = self.run_of(x, exponent)(x)[0]
        with mp.workprec(160):
            for argument, result in zip(x, found, strict=True):
                exact = mp.mpf(float(argument)) ** exponent
                unit = mp.mpf(float(np.spacing(np.abs(np.asarray(float(exact)).astype(dtype)))))
                assert abs(mp.mpf(float(result)) - exact) <= 1.5 * unit, (argument, result)

    def test_special_values(self, exponent, dtype):
        ends = [0.0, 1.0, np.inf, 1e-40, 1e-310, 1e30, 1e-30, 1e160, 1e-160, 1e200, 1e-200, 0.5]
        with np.errstate(all="ignore"):
            x = np.array([*ends, *(-e for e in ends), np.nan]).astype(dtype)
            found, wanted = self.run_of(x, exponent)(x)[0], np.asarray(x**exponent)
            near = np.isclose(found, wanted, rtol=1e-6, atol=0)
        assert np.all(near | (np.isnan(found) & np.isnan(wanted)) | (np.abs(wanted) < np.finfo(dtype).tiny))
        assert np.array_equal(np.signbit(found[~np.isnan(found)]), np.signbit(wanted[~np.isnan(wanted)]))
