"""The native executor gives what the operations give: bit for bit where that is asked, else to rounding."""

from __future__ import annotations

import gc
import importlib
import itertools
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.ops.nn import lstm
from agrad.plugin.backend import Refused
from agrad.plugin.programs import optimized

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad_numpy.native import NativeExecutor, ir, jit
from agrad_numpy.native.expanding import expanded
from agrad_numpy.native.running import NativeProgram

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

NUMPY = ag.backends.get("numpy")
FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.75, 1e-40, -1e-310, 1e30, np.inf, -np.inf, np.nan]


def native(function, *args, own=False):
    """Return a function of arrays as native code, of the program of a call; refusals are raised."""
    program = ag.func.capture(function)(*args)
    return NativeProgram(optimized(program.without_detach()), NUMPY, own=own)


def raws(*args):
    return [np.asarray(leaf) for leaf in ag.tree.flatten(args)[0]]


def eager(function, *args):
    found = function(*[ag.asarray(a) for a in args])
    return [np.asarray(part.detach()) for part in ag.tree.flatten(found)[0]]


def same(found, wanted, what=""):
    """Compare arrays bit for bit, but for the bits of NaN."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert np.array_equal(np.isnan(one), np.isnan(other)), f"{what} {one} {other}"
        kept = ~np.isnan(other)
        assert one[kept].tobytes() == other[kept].tobytes(), f"{what} {one} {other}"


def check(function, *args, python=0):
    """Compare native code, on the arrays of the capture and on others, with the function itself, bit for bit."""
    run = native(function, *args)
    for factor in (1, -0.5, 1.25):
        given = [a * np.asarray(factor, a.dtype) if a.dtype.kind == "f" else a for a in args]
        same(run(*given), eager(function, *given))
    (made,) = run._natives.values()
    assert len(made.python) == python
    return made


def special(dtype):
    """Return special values, in all pairs."""
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), np.float64)
    with np.errstate(all="ignore"):
        return [np.ascontiguousarray(column).astype(dtype) for column in pairs.T]


FLOATS = pytest.mark.parametrize("dtype", ["float32", "float64"])

ELEMENTWISE = {
    "abs": lambda x, y: ag.abs(x),
    "add": lambda x, y: x + y,
    "astype": lambda x, y: (ag.astype(x, ag.float64), ag.astype(x, ag.float32), ag.astype(x > 0, x.dtype)),
    "between": lambda x, y: ag.where(ag.logical_and(x < y, ag.logical_not(y <= 1)), x, -y),
    "compare": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    "divide": lambda x, y: x / y,
    "logic": lambda x, y: (ag.logical_or(x > 0, y > 0), ag.logical_xor(x > 0, y > 0), (x > 0) & (y > 0)),
    "maximum": lambda x, y: (ag.maximum(x, y), ag.minimum(x, y)),
    "multiply": lambda x, y: x * y,
    "negative": lambda x, y: -x,
    "numbers": lambda x, y: (x * 3, 2.5 - x, x / 7, 1 / x, x > 1, ag.maximum(x, 0.0)),
    "powers": lambda x, y: (x**2, x**0.5, x**-1, x**3, x**1.7),
    "reciprocal": lambda x, y: ag.reciprocal(x),
    "relu": lambda x, y: ag.nn.functional.relu(x),
    "sign": lambda x, y: ag.sign(x),
    "sqrt": lambda x, y: ag.sqrt(x),
    "square": lambda x, y: ag.square(x),
    "subtract": lambda x, y: x - y,
    "transcendental": lambda x, y: (
        ag.exp(x),
        ag.log(ag.abs(x)),
        ag.tanh(x),
        ag.sin(x),
        ag.atan2(x, y),
        ag.hypot(x, y),
    ),
}


@FLOATS
@pytest.mark.parametrize("name", ELEMENTWISE)
class TestElementwise:
    def test_special_values(self, name, dtype):
        """In registers, in vectors of all widths, and at their ends."""
        function = ELEMENTWISE[name]
        whole = special(dtype)
        for count in (1, 3, 4, 8, 13, 16, 17, len(whole[0])):
            args = [column[:count].copy() for column in whole]
            with NUMPY.quiet():
                same(native(function, *args)(*args), eager(function, *args), f"{name} of {count}")

    def test_layouts(self, name, dtype):
        """Of operands that are broadcast, turned and strided."""
        function = ELEMENTWISE[name]
        rng = np.random.default_rng(0)
        x = rng.standard_normal((7, 12)).astype(dtype)
        for one, other in (
            (x, x[:1]),
            (x.T, x.T[:, :1]),
            (x[::2, ::-3], x[::2, ::3]),
            (x, x[0, 0]),
            (x[0, 0], x[1, 1]),
        ):
            args = np.asarray(one), np.asarray(other)
            with NUMPY.quiet():
                same(native(function, *args)(*args), eager(function, *args), name)


@st.composite
def laid_out(draw):
    """An array with axes in any order, of some sizes."""
    sizes = st.sampled_from([1, 2, 3, 4, 5, 8, 9, 16, 17, 33])
    shape = draw(st.lists(sizes, min_size=1, max_size=3))
    if len(shape) == 1:
        shape = [draw(st.sampled_from([1, 7, 8, 9, 127, 128, 129, 136, 257, 1000, 4099]))]
    dtype = draw(st.sampled_from(["float32", "float64"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    array = rng.standard_normal(shape).astype(dtype)
    return array.transpose(draw(st.permutations(range(len(shape)))))


class TestSums:
    @FEW
    @given(laid_out(), st.data())
    def test_alone(self, x, data):
        axes = data.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))
        axis = None if len(axes) == x.ndim and data.draw(st.booleans()) else tuple(axes)
        keepdims = data.draw(st.booleans())
        check(lambda x: (ag.sum(x, axis=axis, keepdims=keepdims), ag.mean(x, axis=axis, keepdims=keepdims)), x)

    @FEW
    @given(laid_out(), st.data())
    def test_of_what_is_made_in_the_loop(self, x, data):
        axes = tuple(data.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1)))
        row = np.linspace(-1, 1, x.shape[-1], dtype=x.dtype)

        def function(x, row):
            y = x * x - row
            return y, ag.sum(y, axis=axes), ag.mean(ag.abs(y), axis=axes)

        check(function, x, row)

    def test_of_zeros_keep_the_sign(self):
        for count in (1, 5, 8, 100):
            check(lambda x: (ag.sum(x), ag.sum(x, axis=0)), np.full((count, 3), -0.0))

    def test_long_ones(self):
        rng = np.random.default_rng(0)
        for count in (100_001, 65_536):
            check(lambda x: ag.sum(x), rng.standard_normal(count))
            check(lambda x: ag.sum(x * 2.0 + 1.0), rng.standard_normal(count).astype("float32"))

    def test_of_what_was_broadcast(self):
        """The sum goes as that of what the steps make, not of the one element that they take."""
        check(
            lambda g: ag.sum(ag.where(ag.broadcast_to(g, (6, 2, 3)) > 0, ag.broadcast_to(g, (6, 2, 3)), 0.5)),
            np.array(0.611),
        )
        function = lambda g: ag.sum(
            ag.broadcast_to(ag.expand_dims(ag.broadcast_to(g, (2, 3)), axis=0), (6, 2, 3)) * 1.1
        )
        check(function, np.array(0.61128337))

    def test_of_products_with_what_is_broadcast(self):
        """NumPy's products along an axis round in another way where an operand is one number."""
        x = np.random.default_rng(0).standard_normal((16, 17))
        ones = lambda x: ag.broadcast_to(ag.asarray(1.0), x.shape)
        check(lambda x: (ag.linalg.vecdot(x * x, ones(x)), ag.linalg.vecdot(ones(x), ag.abs(x))), x, python=2)

    @pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2), None])
    def test_of_what_has_gaps(self, axis):
        x = np.random.default_rng(0).standard_normal((7, 10, 19))
        for part in (x[1:5, 1:9, 1:18], x[::2, ::2, ::2], x[:, 1:9], x[:, :, 1:18].transpose(2, 0, 1)):
            for keepdims in (False, True):
                function = lambda x, keepdims=keepdims: ag.sum(x, axis=axis, keepdims=keepdims)
                (found,) = native(function, part)(part)
                assert found.tobytes() == np.sum(part, axis=axis, keepdims=keepdims).tobytes()

    def test_of_two_dtypes(self):
        x = np.random.default_rng(0).standard_normal((40, 50)).astype("float32")
        check(lambda x: (ag.sum(x, axis=1), ag.sum(ag.astype(x, ag.float64), axis=1)), x)


class TestExtremes:
    @FEW
    @given(laid_out(), st.data())
    def test_are_numpys(self, x, data):
        axes = tuple(data.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1)))
        keepdims = data.draw(st.booleans())
        x = x.copy(order="K")
        for value in (np.nan, np.inf) if data.draw(st.booleans()) else ():
            x[tuple(data.draw(st.integers(0, n - 1)) for n in x.shape)] = value

        def function(x):
            y = x * 2
            ends = ag.max(y, axis=axes, keepdims=keepdims), ag.min(x, axis=axes, keepdims=keepdims)
            truths = ag.any(y > 1, axis=axes, keepdims=keepdims), ag.all(x > -2, axis=axes)
            return (
                *ends,
                *truths,
                ag.max(x),
                ag.sum(y, axis=axes),
                ag.clip(x, -1, 0.5),
                ag.clip(x, None, x[0]),
                ag.clip(x, max=2),
            )

        run = NativeExecutor().build(optimized(ag.func.capture(function)(x).without_detach()), NUMPY, [x])
        assert not run.native([x]).python
        with NUMPY.quiet():
            found, wanted = run(x), eager(function, x)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)

    @FLOATS
    def test_what_is_finite(self, dtype):
        (x, _) = special(dtype)
        check(lambda x: (ag.isfinite(x), ag.isinf(x), ag.isnan(x)), x)
        check(lambda x: (ag.isfinite(x), ag.isinf(x), ag.isnan(x)), x[:13].copy())


class TestProducts:
    @FEW
    @given(st.data())
    def test_shapes_and_orders(self, data):
        size = st.sampled_from([1, 2, 3, 5, 8, 20, 33])
        m, k, n = (data.draw(size) for _ in range(3))
        dtype = data.draw(st.sampled_from(["float32", "float64"]))
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        a = data.draw(st.sampled_from([a, np.asfortranarray(a), a[0]]))
        b = data.draw(st.sampled_from([b, np.asfortranarray(b), b[:, 0].copy()]))
        check(lambda a, b: a @ b, a, b)
        check(lambda a, b: (2.0 * a) @ (b * b), a, b)

    def test_batches(self):
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((4, 3, 5, 6)), rng.standard_normal((3, 6, 2))
        check(lambda a, b: a @ b, a, b)
        check(lambda a, b: a @ b, a[:, :1], b)
        check(lambda a, b: a @ b, a, b[0, :, 0].copy())
        check(lambda a, b: b @ a, a, b[0, :, 0][:5].copy())

    def test_functions_of_what_goes_backwards(self):
        """NumPy's functions of single precision round in another way along negative strides."""
        x = np.random.default_rng(0).uniform(-3, 3, (4, 4)).astype("float32")
        function = lambda x: (
            ag.tan(ag.flip(x + 1, axis=None)),
            ag.tan(ag.flip(x + 1, axis=0).T[1:]),
            ag.tan((x + 1)[::-1, 0]),
        )
        for factor in (1, 2, 5):
            same(native(function, x)(x * np.float32(factor)), eager(function, x * np.float32(factor)))
        one = np.array([0.5], np.float32)
        same(native(lambda x: ag.log1p(x[::-1]), one)(one), eager(lambda x: ag.log1p(x[::-1]), one))

    def test_operands_that_blas_does_not_take(self):
        rng = np.random.default_rng(0)
        for dtype in ("float32", "float64"):
            a, b = (rng.standard_normal((130, 6)).astype(dtype) for _ in range(2))
            column = a[:, :1] + 1
            for one, other in (
                (column.T, b[:, ::2]),
                (column.T, b[:, ::-1]),
                (a[:, 1:3].T, b),
                (a[:, 1:2].T, b),
                (a[::3].T, b[::3]),
            ):
                same(native(lambda x, y: x @ y, one, other)(one, other), eager(lambda x, y: x @ y, one, other))

    def test_transposes_within(self):
        rng = np.random.default_rng(0)
        check(lambda a: (a.T @ a, a @ a.T, (a + a).T @ (a * a)), rng.standard_normal((6, 9)))
        check(lambda a: (a.T @ a, a[:2].T @ a[1:3]), rng.standard_normal((3, 4)))


class TestTiledProducts:
    """Written out, with what follows them: within rounding of a product in double precision."""

    @FEW
    @given(st.data())
    def test_shapes_and_layouts(self, data):
        size = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 33, 70, 140])
        m, k, n = data.draw(size), data.draw(size), data.draw(size)
        dtype = data.draw(st.sampled_from(["float32", "float64"]))
        rng = np.random.default_rng(0)

        def drawn(shape):
            how = data.draw(st.sampled_from(["C", "F", "part", "backwards", "apart"]))
            whole = rng.standard_normal([2 * n + 1 for n in shape]).astype(dtype)
            if how in "CF":
                return np.array(whole[: shape[0], : shape[1]], order=how)
            if how == "part":
                return whole[1 : shape[0] + 1, 1 : shape[1] + 1]
            return whole[: shape[0], : shape[1]][::-1] if how == "backwards" else whole[: 2 * shape[0] : 2, 1::2]

        a, b, row = drawn((m, k)), drawn((k, n)), rng.standard_normal(n).astype(dtype)

        def function(a, b, row):
            y = a @ b + row
            return y, ag.where(y > 0, y, 0.5 * y) * row[0], y > 0, a @ b

        run = native(function, a, b, row, own=True)
        product, sizes = (np.matmul(*(np.float64(f(x)) for x in (a, b))) for f in (np.positive, np.abs))
        y = product + row
        scale = 2 * np.finfo(dtype).eps * (k + 2) * (sizes + np.abs(row))
        found = run(a, b, row)
        for one, wanted in zip(found, (y, np.where(y > 0, y, y / 2) * row[0], y > 0, product), strict=True):
            assert np.all(
                np.abs(one.astype(float) - wanted) <= np.where(one.dtype == bool, np.abs(y) <= scale, 3 * scale)
            )
            assert one.dtype == (bool if wanted.dtype == bool else dtype)
        if m * n > 16 and n >= 4 and b.strides[1] == b.itemsize:
            assert "tiled" in {group.kind for group in run.native([a, b, row]).low.groups}

    @FLOATS
    @pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
    @pytest.mark.parametrize(("m", "k", "n"), [(521, 259, 70), (263, 600, 40), (23, 257, 17), (256, 1, 32)])
    def test_blocks_and_parts(self, m, k, n, layout, dtype):
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
        a, b = (np.asarray(x, order="F" if how == "t" else "C") for x, how in zip((a, b), layout, strict=True))
        run = native(lambda a, b: a @ b + 1, a, b, own=True)
        found = run(a, b)[0]
        low = run.native([a, b]).low
        if ir.WIDE:
            assert [(group.kind, low.is_packed(low.steps[group.steps[0]])) for group in low.groups] == [
                ("tiled", n >= 8)
            ]
        exact = np.matmul(np.float64(a), np.float64(b)) + 1
        assert np.all(np.abs(found - exact) <= np.finfo(dtype).eps * (k + 2) * (np.abs(a) @ np.abs(b) + 1))

    @FLOATS
    def test_what_is_not_finite(self, dtype):
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((6, 9)).astype(dtype), rng.standard_normal((9, 13)).astype(dtype)
        a[2, 3], b[5, 7], b[1, 2] = np.nan, np.inf, -np.inf
        for right in (b, np.asfortranarray(b)):
            found = native(lambda a, b: a @ b, a, right, own=True)(a, right)[0]
            wanted = a @ b
            assert np.array_equal(np.isnan(found), np.isnan(wanted))
            assert np.array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])

    def test_many_rows_by_one_matrix_are_one_product(self):
        rng = np.random.default_rng(0)
        w = rng.standard_normal((7, 9))
        for left, right in (
            (rng.standard_normal((3, 5, 7)), w),
            (rng.standard_normal((2, 3, 1, 7)), w),
            (w, rng.standard_normal((4, 9, 1))),
            (w, rng.standard_normal((2, 3, 9, 1))),
            (rng.standard_normal((7, 5, 3)).T, w),
            (rng.standard_normal((0, 5, 7)), w),
        ):
            program = optimized(ag.func.capture(lambda a, b: a @ b)(left, right).without_detach())
            assert "matmul" in [
                step.op for step in expanded(program).steps if len(expanded(program).shapes[step.made[0]].shape) == 2
            ]
            found = NativeExecutor().build(program, NUMPY, [left, right])(left, right)[0]
            np.testing.assert_allclose(found, left @ right, rtol=1e-13, atol=1e-13)
            assert found.shape == (left @ right).shape

    def test_what_is_turned_often_is_turned_once(self):
        rng = np.random.default_rng(0)
        w, x = rng.standard_normal((24, 24)), rng.standard_normal((8, 24))

        def function(w, x):
            for _ in range(4):
                x = ag.tanh(x @ w.T)
            return x, w.T

        run = native(function, w, x, own=True)
        made = run.native([w, x])
        assert sum(group.kind == "copy" for group in made.low.groups) == 1
        for one, other in zip(run(w, x), eager(function, w, x), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)

    def test_products_of_one_term_are_multiplications(self):
        rng = np.random.default_rng(0)
        for left, right in (((20, 1), (1, 9)), ((3, 20, 1), (1, 9)), ((20, 1), (3, 1, 9)), ((0, 1), (1, 5))):
            a, b = rng.standard_normal(left), rng.standard_normal(right)
            program = optimized(ag.func.capture(lambda a, b: a @ b)(a, b).without_detach())
            assert [step.op for step in expanded(program).steps] == ["multiply"]
            found = NativeExecutor().build(program, NUMPY, [a, b])(a, b)[0]
            assert np.array_equal(found, a @ b)

    @FLOATS
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize(
        ("rows", "inputs", "outputs"), [(8, 20, 12), (1, 5, 7), (130, 20, 130), (16, 300, 120), (3, 1, 4)]
    )
    def test_layers_are_exact(self, rows, inputs, outputs, bias, dtype):
        """As products and sums where their kernel goes that way, else as the kernel's call."""
        rng = np.random.default_rng(0)
        x, w, b = (rng.standard_normal(s).astype(dtype) for s in ((rows, inputs), (outputs, inputs), (outputs,)))
        layer = lambda x, w, b: ag.nn.functional.linear(x * 2.0, w, b if bias else None) - 0.5
        program = optimized(ag.func.capture(layer)(x, w, b).without_detach())
        for args in ((x, w, b), (np.asfortranarray(x), np.asfortranarray(w), b), (x[::-1], w, b)):
            run = NativeExecutor().build(program, NUMPY, args, exact=True)
            same(run(*args), eager(layer, *args))
            small = outputs * inputs < 2**15 and rows * outputs < 2**14
            (made,) = run._natives.values()
            assert len(made.python) == (0 if small else 1)

    def test_gradients_of_a_layer(self):
        rng = np.random.default_rng(0)
        x, w, b = (rng.standard_normal(shape) for shape in ((8, 20), (12, 20), (12,)))

        def loss(x, w, b):
            return ag.sum(ag.nn.functional.relu(ag.nn.functional.linear(x, w, b)) ** 2)

        function = ag.func.grad(loss, argnums=(0, 1, 2))
        step = ag.compile(function, executor="native")
        tensors = [ag.asarray(a) for a in (x, w, b)]
        for _ in range(3):
            for one, other in zip(step(*tensors), eager(function, x, w, b), strict=True):
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12, atol=1e-12)


def written_to(x):
    y = x * 2.0
    y[0] = (x * 3.0)[1:2]  # of one axis more
    y[:, 0] = x[None, :, 1]
    return y


VIEWS = {
    "getitem": lambda x: (x[1], x[:, 1:], x[::-1, ::2], x[..., None], x[-1, 0]),
    "written": written_to,
    "elements": lambda x: (x[1, 0] * 2.0, x[-1, -1], ag.reshape(x, (-1,))[3], (x * 2.0).T[1, 1] + x[0]),
    "reshape": lambda x: (ag.reshape(x, (-1,)), ag.reshape(x.T, (-1,)), ag.reshape(x.T * 2.0, (2, -1))),
    "transpose": lambda x: (x.T, x.T + 1.0, ag.permute_dims(x, (1, 0)) * 2.0),
    "broadcast": lambda x: (ag.broadcast_to(x[0], x.shape) * x, ag.broadcast_to(x[:, :1], x.shape) + 0.0),
    "expand": lambda x: (ag.expand_dims(x, axis=1), ag.squeeze(x[:1] * 2.0, axis=0)),
    "joined": lambda x: (
        ag.stack([x, x * 2.0], axis=1),
        ag.concat([x, x[:1]]),
        ag.concat([x, x], axis=-1),
        ag.concat([x, x], axis=None),
    ),
    "unstack": lambda x: (*ag.unstack(x), ag.unstack(x * 2.0, axis=1)[1] * 3.0),
    "flip": lambda x: (ag.flip(x), ag.flip(x * 2.0, axis=1) + x),
    "diagonal": lambda x: ag.linalg.diagonal(x * 2.0) + 1.0,
    "triangles": lambda x: (ag.tril(x * 1.0), ag.triu(x, k=1) * 2.0),
    "views of views": lambda x: ag.sum((x * 2.0).T[1:].T[::2] @ x[0][1:], axis=0),
    "themselves": lambda x: (x, x, x.T, x * 1.5, ag.ones((2,)), ag.zeros(())),
    "gradients": lambda x: ag.func.grad(
        lambda x: ag.sum(x[1:] ** 2) + ag.sum(ag.stack([x[0], x[-1] * x[0]])) + x[0, 1]
    )(x),
}


class TestViews:
    @FLOATS
    @pytest.mark.parametrize("name", VIEWS)
    @pytest.mark.parametrize("shape", [(2, 2), (4, 4), (2, 8), (3, 20), (20, 4)])
    def test_of_few_and_of_many_elements(self, name, shape, dtype):
        x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        function = VIEWS[name]
        for array in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
            same(native(function, array)(array), eager(function, array), name)

    def test_results_are_nobody_elses(self):
        x = np.arange(24.0).reshape(4, 6)
        run = native(lambda x: (x, x.T, x[1], x * 1.0, ag.ones((3,))), x)
        first = run(x)
        kept = [one.copy() for one in first]
        for one in first:
            assert not np.shares_memory(one, x)
        run(x + 1.0)
        same(first, kept)
        for one, other in itertools.combinations(first, 2):
            assert not np.shares_memory(one, other)

    @pytest.mark.parametrize("python", [False, True])
    def test_what_is_given_twice_is_one_array(self, python):
        """As in a program's text: what is written to a tensor and returned, say."""
        x = np.arange(40.0).reshape(4, 10)

        def function(x):
            y = ag.sort(x * 2.0, axis=1) if python else x * 2.0
            z = ag.sum(y)
            return y, z, y, x, x, z, y + 1.0

        run = native(function, x)
        for k in (1.0, -2.0):
            found = run(x * k)
            same(found, eager(function, x * k))
            assert found[0] is found[2]
            assert found[1] is found[5]
            assert not any(np.shares_memory(one, x) for one in found)

    def test_inputs_stay(self):
        x = np.arange(24.0).reshape(4, 6)
        run = native(lambda x: (x + 1.0, ag.fft.fft(x)), x)
        for _ in range(3):
            run(x)
        assert np.array_equal(x, np.arange(24.0).reshape(4, 6))


class TestPlaces:
    """Reading and adding by arrays of integers."""

    @FEW
    @given(st.data())
    def test_reading(self, data):
        sizes = st.sampled_from([1, 2, 3, 9, 20])
        x = np.random.default_rng(0).standard_normal([data.draw(sizes) for _ in range(3)])
        x = x.astype(data.draw(st.sampled_from(["float32", "float64", "int64", "bool", "complex64"])))
        x = data.draw(st.sampled_from([x, x.T, x[::-1]]))
        kind = data.draw(st.sampled_from(["int32", "int64"]))

        def drawn(axis, shape):
            found = data.draw(st.lists(st.integers(-x.shape[axis], x.shape[axis] - 1), min_size=4, max_size=4))
            return np.array(found, kind)[: max(np.prod(shape, dtype=int), 1)].reshape(shape)

        i, j = drawn(0, data.draw(st.sampled_from([(), (1,), (3,), (2, 2)]))), drawn(1, (2,))
        k = drawn(1, (1,))
        reading = lambda x, i, j, k: (x[i], x[:, j], x[:, j, :], ag.take(x, j, axis=1), x[i[..., None], k])
        run = native(reading, x, i, j, k)
        assert not run.native([x, i, j, k]).python
        same(run(x, i, j, k), eager(reading, x, i, j, k))

    @FEW
    @given(st.data())
    def test_adding(self, data):
        x = np.random.default_rng(0).standard_normal((5, 7, data.draw(st.sampled_from([1, 8, 11]))))
        i = np.array(data.draw(st.lists(st.integers(-5, 4), min_size=6, max_size=6)))
        j = np.array(data.draw(st.lists(st.integers(-7, 6), min_size=6, max_size=6)))
        loss = lambda x, i, j: ag.sum(x[i, j] ** 2) + ag.sum(x[i]) + ag.sum(x[:, j] ** 3)
        run = native(ag.func.grad(loss), x, i, j, own=True)
        assert not run.native([x, i, j]).python
        for given_ in ((x, i, j), (x, j % 5, i)):
            for one, other in zip(run(*given_), eager(ag.func.grad(loss), *given_), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)

    def test_places_that_are_none(self):
        x, good = np.arange(30.0).reshape(5, 6), np.array([4, -5, 0])
        run = native(lambda x, i: (x[i] * 2.0, ag.func.grad(lambda x: ag.sum(x[i] ** 2))(x)), x, good, own=True)
        for bad in (5, -6, 10**18, -(10**18)):
            with pytest.raises(IndexError):
                run(x, np.array([0, bad, 1]))
            same(run(x, good), [x[good] * 2.0, np.stack([2 * x[0] * 2, 0 * x[0], 0 * x[0], 0 * x[0], 2 * x[4]])])


def classes_of(count, dtype):
    rng = np.random.default_rng(count)
    return (3 * rng.standard_normal((count, 7))).astype(dtype), rng.integers(0, 7, count)


F = ag.nn.functional


def recurrent(x, backwards):
    """Return a loss of an LSTM with two units, over a sequence of one row, with weights of it, too."""
    blocks = ag.concat([x, x[:, :1]], axis=1)
    made = lstm(blocks[:, None, :], x[:1, :2], x[:1, 2:4], 0.3 * blocks[:2].T, backwards)
    return ag.sum(made**2)


FUSED = {
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(F.sigmoid(x), F.sigmoid(2 * x)),
    "cross_entropy": lambda x: F.cross_entropy(x, ag.arange(x.shape[0]) % 7),
    "elu": lambda x: ag.sum(F.elu(x)),
    "gelu": lambda x: ag.sum(F.gelu(x)),
    "l1_loss": lambda x: F.l1_loss(x, x[:1] * ag.ones_like(x)),
    "layer_norm": lambda x: ag.sum(F.layer_norm(x, (7,), x[0], x[1]) ** 3),
    "leaky_relu": lambda x: ag.sum(F.leaky_relu(x)),
    "log_softmax": lambda x: ag.sum(F.log_softmax(x, 1) ** 2),
    "logsumexp": lambda x: ag.sum(ag.special.logsumexp(x, axis=1)),
    "logits": lambda x: F.binary_cross_entropy_with_logits(x, F.sigmoid(2 * x)),
    "lstm": lambda x: recurrent(x, False),
    "lstm, backwards": lambda x: recurrent(x, True),
    "mse_loss": lambda x: F.mse_loss(x, x[:1] * ag.ones_like(x)),
    "nll_loss": lambda x: F.nll_loss(x, ag.arange(x.shape[0]) % 7, reduction="sum"),
    "silu": lambda x: ag.sum(F.silu(x)),
    "softmax": lambda x: ag.sum(F.softmax(x, 1) ** 2),
    "softplus": lambda x: ag.sum(F.softplus(x) + F.softplus(x, 1.0, 1e9) + F.softplus(x, 2.0, 3.0)),
    "vecdot": lambda x: ag.sum(ag.linalg.vecdot(x, ag.sin(x)) ** 2),
}


class TestFused:
    """Operations of agrad's own, written out."""

    @FLOATS
    @pytest.mark.parametrize("count", [2, 40])
    @pytest.mark.parametrize("name", FUSED)
    def test_values_and_gradients(self, name, count, dtype):
        x, _ = classes_of(count, dtype)
        function = ag.func.value_and_grad(FUSED[name])
        run = NativeExecutor().build(optimized(ag.func.capture(function)(x).without_detach()), NUMPY, [x])
        eps = np.finfo(dtype).eps
        for given_ in (x, x * np.asarray(-0.3, dtype), x * np.asarray(20, dtype)):
            made = run.native([given_])
            assert not made.python, [made.low.steps[group.steps[0]].op for _, group in made.python]
            for one, other in zip(run(given_), eager(function, given_), strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_allclose(one, other, rtol=60 * eps, atol=60 * eps * max(1, np.abs(other).max()))

    @FLOATS
    def test_gelu_of_extreme_values(self, dtype):
        """The limits, as of NumPy's kernel: x times 0 or 1."""
        ends = np.finfo(dtype).max, np.finfo(dtype).min, np.inf, -np.inf, 50.0, -50.0, np.nan
        x = np.array(ends, dtype)
        function = lambda x: (F.gelu(x), ag.func.grad(lambda x: ag.sum(F.gelu(x)))(x))
        with NUMPY.quiet():
            run = NativeExecutor().build(optimized(ag.func.capture(function)(x).without_detach()), NUMPY, [x])
            value, slope = run(x)
        np.testing.assert_array_equal(value, np.array([ends[0], 0.0, np.inf, 0.0, 50.0, 0.0, np.nan], dtype))
        np.testing.assert_array_equal(slope, np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, np.nan], dtype))

    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    def test_classes_that_are_ignored(self, reduction):
        x, labels = classes_of(20, "float64")
        labels[[3, 7]] = -100
        loss = lambda x, labels: ag.sum(F.cross_entropy(x, labels, reduction=reduction) ** 2)
        function = ag.func.value_and_grad(loss)
        run = NativeExecutor().build(
            optimized(ag.func.capture(function)(x, labels).without_detach()), NUMPY, [x, labels]
        )
        for given_ in (labels, np.full(20, -100), labels * 0):
            for one, other in zip(run(x, given_), eager(function, x, given_), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)

    def test_classes_that_are_none(self):
        x, labels = classes_of(20, "float64")
        for loss in (F.cross_entropy, lambda x, labels: F.nll_loss(F.log_softmax(x, 1), labels)):
            for function in (loss, ag.func.value_and_grad(loss)):
                step = ag.compile(function, executor="native")
                tensors = ag.asarray(x), ag.asarray(labels)
                for _ in range(3):
                    step(*tensors)
                for bad in (7, -1, 2**40):
                    wrong = labels.copy()
                    wrong[11] = bad
                    for given_ in (function, step):
                        with pytest.raises(IndexError, match="out of bounds"):
                            given_(tensors[0], ag.asarray(wrong))
                found, wanted = step(*tensors), function(*tensors)
                for one, other in zip(ag.tree.flatten(found)[0], ag.tree.flatten(wanted)[0], strict=True):
                    np.testing.assert_allclose(np.asarray(one.detach()), np.asarray(other.detach()), rtol=1e-12)


def summed_losses(w, xs, labels):
    def body(total, row):
        found = F.cross_entropy(row[0] @ w, row[1])
        return total + found, found

    return ag.func.scan(body, ag.zeros((), dtype=w.dtype), (xs, labels))[0]


def test_classes_that_are_none_in_a_loop():
    rng = np.random.default_rng(0)
    w, xs = ag.asarray(rng.standard_normal((6, 5))), ag.asarray(rng.standard_normal((4, 7, 6)))
    labels = rng.integers(0, 5, (4, 7))
    bad = labels.copy()
    bad[2, 3] = 9
    function = ag.func.value_and_grad(summed_losses)
    step = ag.compile(function, executor="native")
    for _ in range(3):
        for one, other in zip(step(w, xs, ag.asarray(labels)), function(w, xs, ag.asarray(labels)), strict=True):
            np.testing.assert_allclose(np.asarray(one.detach()), np.asarray(other.detach()), rtol=1e-12, atol=1e-14)
        with pytest.raises(IndexError, match="out of bounds"):
            step(w, xs, ag.asarray(bad))


class TestPythonsSteps:
    def test_keys_with_arrays(self):
        x = np.random.default_rng(0).standard_normal((3, 4))
        places = np.array([2, 0, 2])
        check(lambda x, i: (x[i] * 2.0, ag.func.grad(lambda x: ag.sum(x[i] ** 2))(x)), x, places, python=1)

    def test_stand_between_native_ones(self):
        x = np.random.default_rng(0).standard_normal((6, 8))

        def function(x):
            y = ag.sort(x * 2.0, axis=1) + 1.0
            return ag.sum(ag.cumulative_sum(y.T[1:], axis=0) * 3.0), y, ag.sort(x.T, axis=0).T

        check(function, x, python=3)

    def test_several_threads(self):
        x = np.random.default_rng(0).standard_normal((6, 8))
        function = lambda x: ag.sum(ag.sort(x * 2.0, axis=1) * x, axis=0)
        run = native(function, x)
        given = [x * i for i in range(40)]
        with ThreadPoolExecutor(4) as pool:
            for one, found in zip(given, pool.map(run, given), strict=True):
                same(found, eager(function, one))

    def test_an_error_gives_memory_back(self):
        x = np.eye(40)
        run = native(lambda x: ag.linalg.eigh(x * 2.0)[0] + ag.linalg.inv(x) @ x[0], x)
        run(x)
        for _ in range(20):
            with pytest.raises(np.linalg.LinAlgError):
                run(np.zeros((40, 40)))
        same(run(x), eager(lambda x: ag.linalg.eigh(x * 2.0)[0] + ag.linalg.inv(x) @ x[0], x))


class TestLinalg:
    """Of small matrices, written out."""

    @FLOATS
    @pytest.mark.parametrize("n", [1, 2, 3, 4])
    def test_within_what_the_condition_allows(self, n, dtype):
        rng = np.random.default_rng(n)
        a, b = np.eye(n, dtype=dtype), np.ones((n, 16 // n), dtype)
        functions = {
            "solve": lambda a, b: (ag.linalg.solve(a, b), ag.linalg.solve(a, b[:, 0]), ag.linalg.inv(a)),
            "cholesky": lambda a, b: (ag.linalg.cholesky(a), ag.linalg.cholesky(a, upper=True)),
            "det": lambda a, b: (ag.linalg.det(a), ag.linalg.det(a.T) * b[0, 0]),
        }
        for name, function in functions.items():
            run = native(function, a, b, own=True)
            assert {group.kind for group in run.native([a, b]).low.groups} <= {"tiny", "copy"}
            for _ in range(40):
                square = rng.standard_normal((n, n)).astype(dtype)
                if name == "cholesky":
                    square = square @ square.T + np.eye(n, dtype=dtype) / 10
                right = rng.standard_normal(b.shape).astype(dtype)
                condition = np.linalg.cond(square.astype(np.float64))
                for one, other in zip(run(square, right), eager(function, square, right), strict=True):
                    assert one.dtype == other.dtype
                    scale = 20 * np.finfo(dtype).eps * condition * np.abs(other).max()
                    np.testing.assert_allclose(one, other, rtol=0, atol=scale)

    def test_rows_change_places(self):
        a = np.array([[0.0, 1.0, 2.0], [1e-20, 0.0, 3.0], [4.0, 5.0, 6.0]])
        b = np.array([1.0, 2.0, 3.0])
        run = native(lambda a, b: ag.linalg.solve(a, b), np.eye(3), b, own=True)
        with pytest.raises(np.linalg.LinAlgError):
            run(np.zeros((3, 3)), b)
        np.testing.assert_allclose(run(a, b)[0], np.linalg.solve(a, b), rtol=1e-14)

    @pytest.mark.parametrize(
        "bad", [np.ones((2, 2)), np.zeros((2, 2)), [[1.0, 2.0], [2.0, 4.0]], [[3.0, 1.0], [1.0, 1 / 3]]]
    )
    def test_singular_matrices_are_numpys(self, bad):
        """An error where NumPy raises one, and NumPy's own numbers where rounding keeps it from that."""
        run = native(lambda a, b: ag.linalg.solve(a, b) * 2.0, np.eye(2), np.ones(2), own=True)
        bad, b = np.array(bad), np.array([1.0, 3.0])
        for _ in range(2):
            try:
                wanted = np.linalg.solve(bad, b) * 2.0
            except np.linalg.LinAlgError:
                with pytest.raises(np.linalg.LinAlgError):
                    run(bad, b)
            else:
                assert np.array_equal(run(bad, b)[0], wanted)
            assert np.array_equal(run(np.eye(2) * 2.0, b)[0], b)

    def test_triangles(self):
        """Of one half of a matrix; what stands in the other is not read."""
        solve = pytest.importorskip("scipy.linalg").solve_triangular
        own = importlib.import_module("agrad.scipy.linalg").solve_triangular
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((4, 4)), rng.standard_normal((4, 3))
        a[np.diag_indices(4)] += 3.0
        for lower, unit in itertools.product((False, True), repeat=2):
            for right in (b, b[:, 0].copy()):
                run = native(
                    lambda a, b, lower=lower, unit=unit: own(a, b, lower=lower, unit_diagonal=unit), a, right, own=True
                )
                made = run.native([a, right])
                assert {group.kind for group in made.low.groups} == {"tiny"}
                wanted = solve(a, right, lower=lower, unit_diagonal=unit)
                np.testing.assert_allclose(run(a, right)[0], wanted, rtol=1e-12)
                bad = a.copy()
                bad[2, 2] = 0.0
                if not unit:
                    with pytest.raises(np.linalg.LinAlgError):
                        run(bad, right)

    def test_determinants_of_singular_matrices_are_numpys(self):
        run = native(lambda a: ag.linalg.det(a) * 2.0, np.eye(3), own=True)
        swapped = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
        for given_ in (np.ones((3, 3)), np.zeros((3, 3)), np.arange(9.0).reshape(3, 3), swapped, np.eye(3) * 2.0):
            np.testing.assert_allclose(run(given_)[0], np.linalg.det(given_) * 2.0, rtol=1e-14)

    def test_what_has_no_factor_is_numpys_too(self):
        run = native(lambda a: ag.linalg.cholesky(a) + 0.0, np.eye(3), own=True)
        for bad in (-np.eye(3), np.diag([1.0, 1.0, 0.0]), np.ones((3, 3)) - 2 * np.eye(3)):
            with pytest.raises(np.linalg.LinAlgError):
                run(bad)
        tiny = np.diag([1.0, 1.0, 1e-17])
        assert np.array_equal(run(tiny)[0], np.linalg.cholesky(tiny))
        upper = np.array([[4.0, 99.0, 99.0], [2.0, 5.0, 99.0], [1.0, 1.0, 3.0]])  # what stands there is not read
        np.testing.assert_allclose(run(upper)[0], np.linalg.cholesky(upper), rtol=1e-15)

    def test_larger_ones_and_exact_ones_are_lapacks(self):
        """Bit for bit, of one matrix and of many, however they lie."""
        rng = np.random.default_rng(0)
        for n in (2, 3, 7, 20):
            a = rng.standard_normal((n, n)) + n * np.eye(n)
            b = rng.standard_normal((n, 5))
            check(lambda a, b: (ag.linalg.solve(a, b), ag.linalg.solve(a.T, b[:, 1]), ag.linalg.inv(a * 2.0)), a, b)
            check(lambda a: ag.linalg.cholesky(a @ a.T) * 2.0, np.asfortranarray(a))
        many = rng.standard_normal((4, 3, 3)) + 3 * np.eye(3)
        right = rng.standard_normal((4, 3, 2))
        made = check(lambda a, b: (ag.linalg.solve(a, b), ag.linalg.inv(a), ag.linalg.solve(a, b[0])), many, right)
        assert "solved" in {group.kind for group in made.low.groups}

    def test_one_of_many_that_is_singular(self):
        many = np.stack([np.eye(5), np.ones((5, 5)), np.eye(5)])
        run = native(lambda a: ag.linalg.inv(a) * 1.0, np.stack([np.eye(5)] * 3))
        for _ in range(2):
            with pytest.raises(np.linalg.LinAlgError):
                run(many)
            assert np.array_equal(run(np.stack([np.eye(5)] * 3))[0][1], np.eye(5))

    def test_nan_is_numpys(self):
        run = native(lambda a, b: ag.linalg.solve(a, b), np.eye(2), np.ones(2), own=True)
        a = np.array([[np.nan, 1.0], [1.0, 2.0]])
        with NUMPY.quiet():
            assert np.array_equal(run(a, np.ones(2))[0], np.linalg.solve(a, np.ones(2)), equal_nan=True)

    def test_a_kalman_filter(self):
        rng = np.random.default_rng(0)
        a, h = np.eye(4) * 0.9 + 0.05 * rng.standard_normal((4, 4)), rng.standard_normal((2, 4))
        ys = rng.standard_normal((30, 2))

        def loss(a, h, ys):
            x, p, total = ag.zeros(4), ag.eye(4), 0.0
            for t in range(30):
                x, p = a @ x, a @ p @ a.T + 0.1 * ag.eye(4)
                e, ph = ys[t] - h @ x, p @ h.T
                s = h @ ph + 0.2 * ag.eye(2)
                k = ag.linalg.solve(s, ph.T).T
                total = total + ag.sum(e * ag.linalg.solve(s, e)) / 2
                total = total + ag.sum(ag.log(ag.linalg.diagonal(ag.linalg.cholesky(s))))
                x, p = x + k @ e, p - k @ ph.T
            return total

        f = ag.func.value_and_grad(loss, argnums=(0, 1))
        run = native(f, a, h, ys, own=True)
        for factor in (1.0, 0.9):
            for one, other in zip(run(factor * a, h, ys), eager(f, factor * a, h, ys), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
        made = run.native(raws(a, h, ys))
        assert not made.python
        assert made.kernels < 30


class TestInputs:
    def test_other_layouts_get_code_of_their_own(self):
        x = np.random.default_rng(0).standard_normal((5, 6))
        function = lambda x: ag.sum(x * x, axis=0)
        run = native(function, x)
        for array in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[:, ::-1], x):
            same(run(array), eager(function, array))
        assert len(run._natives) == 4
        for step in range(2, 6):
            run(np.repeat(x, step, axis=1)[:, ::step])
        with pytest.raises(Refused, match="more than 8 ways"):
            run(np.repeat(x, 7, axis=1)[:, ::7])

    def test_scalars_subclasses_and_unaligned_arrays(self):
        class Mine(np.ndarray):
            pass

        run = native(lambda x: x * 2.0, np.asarray(1.5))
        for value in (np.float64(3.0), np.asarray(3.0), np.asarray(3.0).view(Mine)):
            assert run(value)[0] == 6.0
            assert type(run(value)[0]) is np.ndarray
        odd = np.zeros(8 * 5 + 1, np.uint8)[1:].view(np.float64)
        odd[...] = np.arange(5.0)
        for _ in range(2):
            assert np.array_equal(native(lambda x: x * 2.0, np.arange(5.0))(odd)[0], np.arange(5.0) * 2)

    def test_the_wrong_ones_are_refused_before_anything_is_read(self):
        run = native(lambda x: x * 2.0, np.arange(5.0))
        run(np.arange(5.0))
        call = run._call
        for wrong in (np.arange(6.0), np.arange(5), np.arange(5.0)[None], "text", None, 3.0, np.arange(10.0)[::2]):
            assert call(wrong) is None
        assert call() is None
        assert call(np.arange(5.0), np.arange(5.0)) is None
        with pytest.raises(Refused):
            native(lambda x: x * 2.0, np.arange(5.0))(np.arange(5.0).astype(">f8"))

    def test_a_thousand(self):
        arrays = [np.full(3, float(i)) for i in range(1000)]
        run = native(lambda *xs: tuple(x * 2.0 for x in xs), *arrays)
        same(run(*arrays), [a * 2 for a in arrays])

    def test_nothing_is_kept_alive(self):
        x = np.arange(5.0)
        run = native(lambda x: (x * 2.0, x), x)
        run(x)
        import sys

        before = sys.getrefcount(x), sys.getrefcount(x.dtype), sys.getrefcount(None)
        for _ in range(1000):
            run(x)
            run._call("text")
        after = sys.getrefcount(x), sys.getrefcount(x.dtype), sys.getrefcount(None)
        assert all(abs(a - b) < 100 for a, b in zip(before, after, strict=True))


def asked(compiled):
    """Return what the programs of a compiled function are run by, where an executor was asked."""
    runs = [run for program in compiled.programs for run in program.__dict__["_runs"].values()]
    return [run for run in runs if hasattr(run, "why_not")]


class TestCompiled:
    """As users have it."""

    def test_values_and_gradients(self):
        def loss(params, x):
            h = ag.tanh(x @ params["w"] + params["b"])
            return ag.mean(h**2) + ag.sum(ag.exp(-h))

        rng = np.random.default_rng(0)
        params = {"w": rng.standard_normal((6, 5)), "b": rng.standard_normal(5)}
        vg = ag.func.value_and_grad(loss)
        compiled = ag.compile(vg, executor="native")
        for i in range(4):
            x = rng.standard_normal((8, 6)) * (i + 1)
            value, grads = compiled(params, x)
            wanted, slopes = vg(params, x)
            np.testing.assert_allclose(np.asarray(value), np.asarray(wanted), rtol=1e-13)
            for name in params:
                np.testing.assert_allclose(grads[name], slopes[name], rtol=1e-11, atol=1e-13)
        assert [repr(run) for run in asked(compiled)] == ["<native>"]

    def test_layers_and_powers(self):
        def loss(x, w, b):
            y = ag.nn.functional.relu(ag.nn.functional.linear(x, w, b))
            return ag.sum(ag.nn.functional.linear(y, w) ** 3 + y**4)

        rng = np.random.default_rng(0)
        args = rng.standard_normal((6, 5)), rng.standard_normal((5, 5)), rng.standard_normal(5)
        vg = ag.func.value_and_grad(loss, argnums=(0, 1, 2))
        compiled = ag.compile(vg, executor="native")
        for factor in (1.0, 0.5, 2.0):
            given = [factor * a for a in args]
            for one, other in zip(ag.tree.flatten(compiled(*given))[0], ag.tree.flatten(vg(*given))[0], strict=True):
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)
        (run,) = asked(compiled)
        (made,) = run._run._natives.values()
        assert not made.python

    def test_backward_with_draws_and_branches(self):
        def f(x):
            y = x * ag.rand(4) + ag.randn(4)
            return ag.sum(y * y) if ag.sum(x) > 0 else ag.sum(-y)

        compiled = ag.compile(f, executor="native", exact=True)
        found = []
        for function in (compiled, f):
            ag.manual_seed(7)
            for sign in (1.0, -1.0, 1.0, -1.0, 2.0, -2.0):
                x = ag.tensor([0.5 * sign, 1.0, -0.25, 0.1], requires_grad=True)
                y = function(x)
                y.backward()
                found.append((y.item(), x.grad.tolist()))
        assert found[:6] == found[6:]

    def test_what_the_quick_way_leaves(self):
        """After some calls the machine code is called at once: other layouts, and matrices without a solution, go another way."""

        def solved(a, b):
            return ag.linalg.solve(a, b) + ag.sum(a, axis=0)

        rng = np.random.default_rng(3)
        function = ag.compile(solved, executor="native", check=False)
        a, b = rng.standard_normal((3, 3)) + 4 * np.eye(3), rng.standard_normal(3)
        ways = [a, a.T.copy().T, np.ones((3, 3)), 2 * a, a[::-1, ::-1]]
        for _ in range(6):
            function(ag.asarray(a), ag.asarray(b))
        ((cached,),) = function._cached.values()
        assert type(cached.quick[0]).__name__ == "builtin_function_or_method"
        for way in (*ways, *ways):
            given = ag.asarray(way), ag.asarray(b)
            if way.std() == 0:
                with pytest.raises(np.linalg.LinAlgError):
                    function(*given)
                continue
            np.testing.assert_allclose(np.asarray(function(*given)), np.linalg.solve(way, b) + way.sum(0), rtol=1e-12)

    def test_singular_matrices_raise_what_the_operations_raise(self):
        compiled = ag.compile(lambda a, b: ag.sum(ag.linalg.solve(a, b)) * 2.0, executor="native")
        a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
        for _ in range(3):
            np.testing.assert_allclose(np.asarray(compiled(a, b)), 2 * np.linalg.solve(a, b).sum())
        for _ in range(2):
            with pytest.raises(np.linalg.LinAlgError):
                compiled(np.ones((2, 2)), b)
            np.testing.assert_allclose(np.asarray(compiled(a, b)), 2 * np.linalg.solve(a, b).sum())

    @pytest.mark.parametrize("exact", [False, True])
    def test_floating_point_errors_are_not_told(self, exact):
        """In no call of the code, the first one included, which runs the steps one by one."""
        function = lambda x: ag.sum(ag.log(x) * ag.exp(x) + ag.sqrt(x) / x)
        compiled = ag.compile(function, executor="native", exact=exact, check=False)
        x = np.array([0.0, -1.0, 1e6])
        with np.errstate(all="ignore"):
            compiled(x)
        with np.errstate(all="raise"):
            assert all(np.isnan(compiled(x)) for _ in range(3))

    def test_what_has_no_kernels_runs_as_text(self):
        def f(x):
            for _ in range(8):
                x = ag.sort(ag.flip(ag.cumulative_sum(x)))
            return x

        compiled = ag.compile(f, executor="native")
        x = np.random.default_rng(0).standard_normal(30)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x), np.asarray(f(ag.asarray(x))))
        assert ["refused" in repr(run) for run in asked(compiled)] == [True]


class TestLong:
    def test_a_chain_of_1000_operations_has_few_kernels(self):
        def f(x):
            for _ in range(500):
                x = ag.tanh(x * 1.01)
            return ag.sum(x)

        x = np.full(4, 0.5, np.float32)
        made = check(ag.func.value_and_grad(f), x)
        assert made.kernels < 12

    def test_runge_kutta(self):
        def field(u, th):
            x, y = u[0], u[1]
            return ag.stack([th[0] * x - th[1] * x * y, th[3] * x * y - th[2] * y])

        def loss(th, u):
            for _ in range(30):
                k1 = field(u, th)
                k2 = field(u + k1 * 0.025, th)
                k3 = field(u + k2 * 0.025, th)
                k4 = field(u + k3 * 0.05, th)
                u = u + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (0.05 / 6)
            return ag.sum(u * u)

        f = ag.func.value_and_grad(loss, argnums=(0, 1))
        th, u = np.array([1.1, 0.4, 0.4, 0.1]), np.array([1.0, 0.8])
        made = check(f, th, u)
        assert made.kernels < 20

    def test_steps_that_repeat_at_different_distances(self):
        def f(x):
            for i in range(60):
                x = x * 0.5 + 0.1 * (x[i % 3] if i % 7 else x[0] * x[1])
            return x

        check(f, np.array([0.1, -0.2, 0.3]))


class TestPrograms:
    """Random ones, bit for bit."""

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def test_random(self, data):
        shape = data.draw(st.sampled_from([(3,), (4, 4), (2, 3), (5, 7), (3, 1), (40,), (9, 33), (2, 3, 4)]))
        choices = data.draw(
            st.lists(st.tuples(st.integers(0, 17), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=25)
        )
        dtype = data.draw(st.sampled_from(["float32", "float64"]))
        rng = np.random.default_rng(0)
        args = [rng.standard_normal(shape).astype(dtype) for _ in range(2)]
        if len(shape) > 1 and data.draw(st.booleans()):
            args[0] = np.asfortranarray(args[0])
        check_program(choices, args)

    def test_views_of_what_is_broadcast_and_kept(self):
        """A view of a view, whose operand is computed anew in memory of its own, and whose axes go nowhere or backwards."""
        x = np.arange(6.0).reshape(2, 3)

        def function(x):
            y = ag.broadcast_to(x, (2, 2, 3))
            z = ag.broadcast_to(y, (2, 2, 2, 3))
            return y, z, ag.matrix_transpose(z), ag.matrix_transpose(ag.flip(z, axis=-1)), x + x

        check(function, x)


def test_one_right_side_of_several_matrices():
    a = np.random.default_rng(0).standard_normal((3, 2, 2)) + 3 * np.eye(2)
    run = native(lambda a, b: ag.linalg.solve(a, b), a, np.array([1.0, 2.0]))
    same(run(a, np.array([1.0, 2.0])), eager(lambda a, b: ag.linalg.solve(a, b), a, np.array([1.0, 2.0])))


def check_program(choices, args):
    def function(*values):
        known = list(values)
        for op, i, j in choices:
            x, y = known[i % len(known)], known[j % len(known)]
            try:
                known.append(step(op, x, y))
            except (ValueError, IndexError, TypeError, ZeroDivisionError):
                continue
        return tuple(known[-4:])

    with NUMPY.quiet():
        run = native(function, *args)
        for _ in range(2):
            same(run(*args), eager(function, *args))
            args = [a * np.asarray(1.25, a.dtype) for a in args]


def step(op, x, y):
    """Return what one step of a random program gives."""
    return [
        lambda: x + y,
        lambda: x * y - 0.5,
        lambda: x / (ag.abs(y) + 1.0),
        lambda: ag.where(x > y, x, y * 2.0),
        lambda: ag.sum(x, axis=0),
        lambda: ag.mean(x, axis=-1, keepdims=True),
        lambda: ag.sum(x * y),
        lambda: ag.matrix_transpose(x),
        lambda: x[1:],
        lambda: x[..., ::2],
        lambda: ag.sin(x),
        lambda: ag.matrix_transpose(x) @ y,
        lambda: ag.stack([x, y], axis=-1),
        lambda: ag.concat([x, y]),
        lambda: ag.reshape(x, (-1,)),
        lambda: ag.broadcast_to(x, (2, *x.shape)),
        lambda: ag.func.grad(lambda z: ag.sum(ag.tanh(z[0] * z)))(x),
        lambda: ag.sort(x, axis=-1),
    ][op]()


class TestThreads:
    def test_long_programs_let_others_run(self):
        """They run at the same time, each on memory of its own."""
        x = np.random.default_rng(0).standard_normal(100_000)
        function = lambda x: (ag.sum(ag.sin(x) * ag.exp(-x * x)), ag.cos(x * 2.0) + x)
        run = native(function, x, own=True)
        given = [x * (1.0 + i / 10) for i in range(16)]
        wanted = [run(one) for one in given]
        assert type(run._call).__name__ == "ConcurrentCalls"
        with ThreadPoolExecutor(4) as pool:
            for _ in range(3):
                for found, right in zip(pool.map(lambda one: run(one), given), wanted, strict=True):
                    same(found, right)
        assert 1 < len(run._call._free) <= 4

    def test_another_thread_runs_meanwhile(self):
        x = np.random.default_rng(0).standard_normal(6_000_000)
        run = native(lambda x: ag.sum(ag.sin(x) * ag.exp(-x * x) + ag.tanh(x)), x, own=True)
        run(x)
        counted, running = [0], [True]

        def count():
            while running[0]:
                counted[0] += 1

        other = threading.Thread(target=count)
        other.start()
        try:
            before = counted[0]
            run(x)
            assert counted[0] - before > 1000
        finally:
            running[0] = False
            other.join()

    def test_short_ones_at_the_same_time(self):
        x = np.random.default_rng(0).standard_normal((4, 4))
        run = native(lambda x: ag.sum(ag.tanh(x @ x), axis=0), x)
        given = [x * (1.0 + i / 10) for i in range(64)]
        wanted = [run(one) for one in given]
        with ThreadPoolExecutor(8) as pool:
            for found, right in zip(
                pool.map(lambda one: [run(one) for _ in range(50)][-1], given), wanted, strict=True
            ):
                same(found, right)


class TestSafety:
    def test_no_text_of_a_program_reaches_the_code(self):
        """What programs hold of the user's words is neither a name nor a comment of the code."""
        evil = 'ret void }\ndefine void @evil() { call void @abort() ret void }; "'

        def f(x):
            return ag.sum(ag.stack([x * 2.0, x + 1.0])) * 3.0

        from dataclasses import replace

        program = optimized(ag.func.capture(f)(np.arange(4.0)).without_detach())
        steps = tuple(replace(s, line=evil) for s in program.steps)
        program = program.replaced(steps=steps, names=dict.fromkeys(program.shapes, evil), device=None)
        run = NativeProgram(program, NUMPY, own=False)
        assert run(np.arange(4.0))[0] == f(ag.asarray(np.arange(4.0))).item()
        text = next(iter(run._natives.values())).text
        assert "evil" not in text
        words = set(re.findall(r"[A-Za-z_.]+", text))
        hostile = replace(program.steps[0], args=(program.steps[0].args[0], evil))
        with pytest.raises((Refused, TypeError, np.exceptions.DTypePromotionError)):
            NativeProgram(program.replaced(steps=(hostile, *program.steps[1:])), NUMPY, own=False)(np.arange(4.0))
        assert not {"evil", "abort"} & words

    @pytest.mark.parametrize("shaped", [((5,), "float64"), ((4,), "float32")])
    def test_programs_that_lie_about_shapes_are_refused(self, shaped):
        from agrad.program.program import Shaped

        program = optimized(ag.func.capture(lambda x: (x * 2.0)[1:] + 1.0)(np.arange(4.0)).without_detach())
        made = program.steps[0].made[0]
        lying = program.replaced(shapes={**program.shapes, made: Shaped(*shaped)})
        with pytest.raises(Refused):
            NativeProgram(lying, NUMPY, own=False)(np.arange(4.0))

    def test_indices_out_of_bounds_are_no_reads(self):
        from dataclasses import replace

        program = optimized(ag.func.capture(lambda x: x[1:3] * 2.0)(np.arange(40.0)).without_detach())
        first, *rest = program.steps
        wrong = program.replaced(steps=(replace(first, args=(first.args[0], 1000)), *rest))
        with pytest.raises((IndexError, Refused)):
            NativeProgram(wrong, NUMPY, own=False)(np.arange(40.0))

    def test_memory_stays_over_many_programs(self):
        resource = pytest.importorskip("resource")

        def one(i):
            run = native(lambda x: x * float(i) + ag.sum(x), np.arange(30.0))
            run(np.arange(30.0))

        for i in range(30):
            one(i)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(150):
            one(i)
        gc.collect()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # interrupts of finalizers
    def test_interrupts_leave_it_working(self):
        x = np.random.default_rng(0).standard_normal(200)
        function = lambda x: ag.sum(ag.sort(ag.sin(x)) * x)
        run = native(function, x)
        wanted = run(x)[0]

        calls = []

        def handler(*_):
            if calls and calls[-1]:
                calls[-1] = False
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, handler)
        try:
            for i in range(60):
                signal.setitimer(signal.ITIMER_REAL, 1e-5 * (i + 1))
                try:
                    calls.append(True)
                    for _ in range(200):
                        run(x)
                    time.sleep(0.01)
                    calls[-1] = False
                except KeyboardInterrupt:
                    pass
                assert run(x)[0] == wanted
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert len(calls) == 60

    def test_code_in_a_cycle_is_freed_before_its_context(self):
        """A collector finalises what is in a cycle in any order; LLVM reads the context when it frees code."""
        closed, made = [], jit.CompiledModule("define i64 @one() {\n  ret i64 1\n}\n", kept=False)
        for name in ("_context", "_engine"):
            part = getattr(made, name)
            part.close = lambda name=name, close=part.close: (name in closed or closed.append(name), close())
        made.itself = made
        del made, part
        gc.collect()
        assert closed == ["_engine", "_context"]

    def test_finalizers_may_call_the_same_program(self):
        """A collection of garbage within a call runs code of Python's, which may come by the same memory."""
        x, other = np.arange(6.0), np.full(6, -7.0)
        run = native(lambda x: tuple(x * float(i) for i in range(2, 42)), x)  # no tuple of so many is kept for reuse
        wanted, found = run(x), []

        class Loud:
            def __init__(self):
                self.own = self

            def __del__(self):
                found.append(run(other)[0][0] == -14.0)

        before = gc.get_threshold()
        try:
            for _ in range(300):
                gc.set_threshold(0)
                Loud()
                call = run._call
                gc.set_threshold(1)
                outs = call(x)
                gc.set_threshold(0)
                same(outs, wanted)
        finally:
            gc.set_threshold(*before)
        gc.collect()
        assert len(found) == 300
        assert all(found)

    def test_a_forked_child_goes_on(self):
        import os

        if not hasattr(os, "fork"):
            pytest.skip("no fork")
        x = np.arange(30.0)
        run = native(lambda x: ag.sum(ag.sin(x) * x), x)
        wanted = run(x)[0]
        busy = threading.Thread(target=lambda: [run(x) for _ in range(2000)])
        busy.start()
        child = os.fork()
        if not child:
            ok = run(x)[0] == wanted and native(lambda x: ag.cos(x) + 1.0, x)(x)[0].shape == x.shape
            os._exit(0 if ok else 1)
        _, status = os.waitpid(child, 0)
        busy.join()
        assert status == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 19)])
def test_additions_at_indices(dtype, shape):
    """The gradient of what is read at indices: an element that was read several times gets all of its parts."""
    indices = np.asarray([0, 3, 3, -1, 0, 0])
    rng = np.random.default_rng(5)
    x = rng.normal(size=shape).astype(dtype)
    weights = rng.normal(size=(6, *shape[1:])).astype(dtype)
    gradient = ag.func.grad(lambda x, w, at: ag.sum(x[at] * w))
    run = native(gradient, x, weights, indices, own=True)
    expected = np.zeros(shape, dtype)
    np.add.at(expected, indices, weights)
    np.testing.assert_allclose(run(x, weights, indices)[0], expected, rtol=1e-6)
    (made,) = run._natives.values()
    assert not made.python


def test_without_llvmlite_the_executor_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "llvmlite", None)
    ok, reason = NativeExecutor().availability()
    assert not ok
    assert 'pip install "agrad-numpy[native]"' in reason
    with pytest.raises(ag.BackendError, match=r"'native' is not available: .*agrad-numpy"):
        ag.compile(ag.sin, executor="native")


def test_bits_do_not_depend_on_how_wide_vectors_are(monkeypatch):
    """Processors take 32 or 64 bytes at a time."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((21, 40)).astype("float32"), rng.standard_normal((40, 37)).astype("float32")

    def function(x, w):
        y = ag.tanh(x @ w)
        return y, ag.sum(y * y, axis=0), ag.sum(y, axis=1), ag.exp(y @ w.T)

    found = []
    for size in (32, 64):
        for name, width in {"float32": size // 4, "float64": size // 8, "bool": size // 4}.items():
            monkeypatch.setitem(ir.WIDTHS, name, width)
        found.append(native(function, x, w, own=True)(x, w))
    same(*found)
