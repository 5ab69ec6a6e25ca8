"""Programs on NumPy: the bits of the plain text, on buffers that nobody else ever sees."""

from __future__ import annotations

import importlib.util
import math
import sys
import threading
import weakref
from pathlib import Path

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.core.backend import backend_of
from agrad.program.passes import optimized
from agrad.program.program import DType, Program, Ref, Shaped, Step
from agrad_numpy import executor, tiles

NUMPY = backend_of(np.ones(1))
PASSES = Path(__file__).parents[1] / "program" / "test_passes.py"
_spec = importlib.util.spec_from_file_location("passes_cases", PASSES)
cases = sys.modules["passes_cases"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def plain(program, values):
    with np.errstate(all="ignore"):
        return program.function(NUMPY)(*values)


def compiled(program, values, run):
    with np.errstate(all="ignore"):
        return run(*values)


def with_keys(program, values, seed=0):
    given, keys = iter(values), iter(range(seed, seed + 100))
    return [(7, next(keys)) if number in program.keys else next(given) for number in program.inputs]


def captured(case):
    function, *args = cases.CASES[case]
    return cases.capture(function, *args).without_detach()


def same(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        cases.same_bits(np.asarray(a), np.asarray(b))


def close(found, wanted):
    for a, b in zip(map(np.asarray, found), map(np.asarray, wanted), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        size = max(
            1, np.max(np.abs(b), initial=0)
        )  # of a block of a transformer, softmax and all: last bits become more
        np.testing.assert_allclose(a, b, rtol=0, atol=(1e-2 if a.dtype == np.float32 else 1e-9) * size)


def transposed(x):
    return np.ascontiguousarray(x.T).T


def reversed_(x):
    return x[::-1][..., ::-1] if x.ndim > 1 else x[::-1]


def sparse(x):
    return np.repeat(x, 2, -1)[..., ::2] if x.ndim else x


def locked(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("case", cases.CASES)
def test_the_bits_of_the_plain_text(case, exact):
    program = captured(case)
    for made in (program, optimized(program)):
        run = NUMPY.compile(made, exact=exact, threads=1)
        for seed in range(4):
            values = with_keys(program, cases.given_values(program), seed)
            (same if exact else close)(compiled(made, values, run), plain(made, values))


@pytest.mark.parametrize("case", ["mse", "powers", "transformer block", "copies", "views", "pieces", "rnn"])
def test_inputs_in_other_layouts(case):
    program = optimized(captured(case))
    run = NUMPY.compile(program, exact=True, threads=1)
    for layout in (np.copy, transposed, reversed_, sparse, locked, transposed, np.copy):
        values = [layout(x) for x in cases.given_values(program)]
        before = [x.copy() for x in values]
        for _ in range(2):
            same(compiled(program, values, run), plain(program, values))
        same(values, before)


def test_more_layouts_than_are_kept():
    program = optimized(captured("powers"))
    run = NUMPY.compile(program, exact=True)
    for step in range(1, executor.LAYOUTS + 4):
        x = cases.normal(3 * step, 4 * step)[::step, ::step]
        same(compiled(program, [x], run), plain(program, [x]))


def test_one_array_as_two_inputs():
    program = optimized(
        ag.func.capture(lambda x, y: (x * y + x.T, (y + 1) @ x))(cases.normal(3, 3), cases.normal(3, 3))
    )
    run = NUMPY.compile(program)
    x = cases.normal(4, 3)
    for a, b in ((x[:3], x[:3]), (x[:3], x[1:]), (x[:3], x[:3].T)):
        for _ in range(3):
            same(run(a, b), plain(program, [a, b]))


@pytest.mark.parametrize("case", ["mse", "transformer block", "one as two results", "views", "copies", "rnn"])
def test_results_stay_as_they_are(case):
    program = optimized(captured(case))
    run = NUMPY.compile(program)
    calls = [with_keys(program, cases.given_values(program)) for _ in range(4)]
    results = [run(*values) for values in calls]
    for values, outs in zip(calls, results, strict=True):
        same(outs, plain(program, values))
        assert cases.sharing(outs, values) <= cases.sharing(plain(program, values), values)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
def test_a_view_of_a_sum_is_not_written_over(shape):
    def function(x):
        total = ag.sum(x)
        views = ag.reshape(total, (1,)), ag.broadcast_to(total, (2,)), ag.real(total)
        squares = 1 + ag.sin(x).sum() ** 2 + 3 * ag.cos(x).sum()
        return sum(ag.sum(view * (ag.tanh(squares) + 1)) for view in views)

    x = np.linspace(0.1, 1.7, math.prod(shape)).reshape(shape) * (1 + 0.5j)
    factor = np.tanh(1 + np.sin(x).sum() ** 2 + 3 * np.cos(x).sum()) + 1
    wanted = x.sum() * factor * 3 + x.sum().real * factor
    program = optimized(cases.capture(function, x).without_detach())
    run = NUMPY.compile(program)
    for _ in range(3):
        np.testing.assert_allclose(run(x)[0], wanted, rtol=1e-13)


def test_a_kernel_may_give_memory_that_is_no_arrays(monkeypatch):
    def sort(x, /, **options):
        return np.frombuffer(bytearray(np.sort(x, axis=-1).tobytes()), x.dtype).reshape(x.shape)

    monkeypatch.setattr(NUMPY.xp, "sort", sort)
    about = Shaped((4,), "float64")
    square = Step("multiply", (Ref(0), Ref(0)), {}, (1,), False, "here", 0)
    sorted_ = Step("sort", (Ref(1),), {}, (2,), False, "here", 0)
    total = Step("add", (Ref(2), Ref(1)), {}, (3,), False, "here", 0)
    run = NUMPY.compile(Program((0,), (square, sorted_, total), (3,), dict.fromkeys(range(4), about), {}, ()))
    x = np.array([3.0, -1.0, 2.0, 0.5])
    for _ in range(3):
        np.testing.assert_array_equal(run(x)[0], np.sort(x**2) + x**2)


def test_calls_at_the_same_time_have_buffers_of_their_own():
    program = optimized(captured("transformer block"))
    run = NUMPY.compile(program)
    calls = [cases.given_values(program) for _ in range(6)]
    wanted = [plain(program, values) for values in calls]
    wrong = []

    def work(i):
        for _ in range(30):
            found = run(*calls[i])
            if not all(np.array_equal(a, b) for a, b in zip(found, wanted[i], strict=True)):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_error_names_the_operation_and_the_line():
    program = ag.func.capture(lambda a, b: ag.linalg.cholesky(a + b) * 2)(np.eye(3), np.eye(3))
    run = NUMPY.compile(program)
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            run(np.eye(3), -np.eye(3))
        assert "Raised by linalg.cholesky on shapes (3, 3)" in caught.value.__notes__[-1]
        assert "test_numpy_executor.py" in caught.value.__notes__[-1]
        same(run(np.eye(3), np.eye(3)), plain(program, [np.eye(3), np.eye(3)]))


def test_nothing_of_a_call_is_held():
    program = optimized(captured("mse"))
    run = NUMPY.compile(program)
    for _ in range(3):
        values = with_keys(program, cases.given_values(program))
        outs = run(*values)
        alive = [weakref.ref(x) for x in (*values, *(out for out in outs if isinstance(out, np.ndarray)))]
        del values, outs
        assert not any(ref() is not None for ref in alive)


def test_buffers_are_shared_bounded_and_given_back():
    shape = (100, 100)
    steps = tuple(
        Step("sin" if i % 2 else "add", (Ref(i),) if i % 2 else (Ref(i), Ref(i)), {}, (i + 1,)) for i in range(50)
    )
    program = Program((0,), steps, (50,), dict.fromkeys(range(51), Shaped(shape, "float64")))
    run = NUMPY.compile(program, exact=True, threads=1)
    x = np.ones(shape)
    for _ in range(3):
        run(x)
    assert run.nbytes <= 3 * x.nbytes
    run.clear()
    assert run.nbytes == 0
    same(run(x), plain(program, [x]))


def test_a_text_of_many_steps():
    count = 5000
    kinds = ("sin", "add", "tanh", "multiply", "mean")
    steps, shapes = [], {0: Shaped((3, 4), "float64"), 1: Shaped((4,), "float64")}
    last = 0
    for i in range(count):
        op = kinds[i % 5]
        refs = (Ref(last),) if op in ("sin", "tanh", "mean") else (Ref(last), Ref(1))
        options = {"axis": 0, "keepdims": False} if op == "mean" else {}
        shapes[i + 2] = Shaped((4,) if op == "mean" else (3, 4), "float64")
        if op == "mean":
            steps.append(Step(op, refs, options, (i + 2,)))
        else:
            steps.append(Step(op, refs, {}, (i + 2,)))
            last = i + 2
    program = Program((0, 1), tuple(steps), (last, 6, count + 1), shapes)
    run = NUMPY.compile(program, exact=True)
    values = [np.linspace(0, 1, 12).reshape(3, 4), np.linspace(0.5, 1.5, 4)]
    for _ in range(3):
        same(run(*values), plain(program, values))


OPERATIONS = (
    "add",
    "multiply",
    "subtract",
    "divide",
    "maximum",
    "where",
    "sum",
    "T",
    "reshape",
    "row",
    "matmul",
    "sin",
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=25),
    arrays.arrays(np.float64, (3, 3), elements=st.floats(-2, 2)),
    st.data(),
)
def test_random_programs(plan, x, data):
    """Values of one shape, views of each other and of buffers, in any order of use."""
    steps, numbers = [], [0, 1]
    new = iter(range(2, 1000))

    def step(op, *args, **kwargs):
        steps.append(Step(op, args, kwargs, (next(new),)))
        return steps[-1].outs[0]

    for op, i, j in plan:
        a, b = Ref(numbers[i % len(numbers)]), Ref(numbers[j % len(numbers)])
        if op == "T":
            made = step("matrix_transpose", a)
        elif op == "reshape":
            made = step("reshape", Ref(step("reshape", a, (9,))), (3, 3))
        elif op == "row":
            row = step("getitem", a, (1, slice(None, None, -1)))
            made = step("broadcast_to", Ref(row), (3, 3))
        elif op == "sum":
            made = step("add", Ref(step("sum", a, axis=(0,))), b)
        elif op == "where":
            made = step("where", Ref(step("less", a, b)), a, b)
        elif op == "sin":
            made = step("sin", a)
        else:
            made = step(op, a, b)
        numbers.append(made)
    outputs = data.draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=4))
    program = Program((0, 1), tuple(steps), tuple(outputs), _shapes(steps)).needed()
    run = NUMPY.compile(program, exact=True)
    y = np.asarray(x[::-1] * 0.5 + 0.25)
    before, executor.PASSED_ON_FROM = executor.PASSED_ON_FROM, data.draw(st.sampled_from([16, 2**17]))
    try:
        for values in ([x, y], [x, y], [y, x.T], [y, x.T]):
            same(compiled(program, values, run), plain(program, values))
    finally:
        executor.PASSED_ON_FROM = before


def test_an_update_of_a_large_array_is_made_in_the_array_that_goes_out():
    program = optimized(ag.func.capture(lambda w, g, rate: w - rate * g)(*np.ones((2, 300, 200)), np.asarray(0.5)))
    run = NUMPY.compile(program)
    for i in range(1, 4):
        w, g = np.full((300, 200), 2.0 * i), np.full((300, 200), 4.0)
        (out,) = run(w, g, np.asarray(0.5))
        same((out, w, g), (np.full((300, 200), 2.0 * i - 2), np.full((300, 200), 2.0 * i), np.full((300, 200), 4.0)))
        assert run.nbytes < w.nbytes


def _shapes(steps):
    shapes = {0: Shaped((3, 3), "float64"), 1: Shaped((3, 3), "float64")}
    for step in steps:
        shape = {"sum": (3,), "getitem": (3,)}.get(step.op, (3, 3))
        shape = step.args[1] if step.op == "reshape" else shape
        shapes[step.outs[0]] = Shaped(shape, "bool" if step.op == "less" else "float64")
    return shapes


def test_a_product_that_is_transposed_is_taken_so():
    program = ag.func.capture(lambda x, g: ((x.mT @ g).mT - 1, (x @ g.mT).mT, x))(
        cases.normal(5, 5), cases.normal(5, 5)
    )
    values = [cases.normal(5, 5), cases.normal(5, 5)]
    for _ in range(3):
        same(NUMPY.compile(program, exact=True)(*values), plain(program, values))
        close(NUMPY.compile(program)(*values), plain(program, values))
    made = executor.turned(program)
    assert [step.op for step in made.steps].count("matmul") == 2
    close(plain(made, values), plain(program, values))
    assert plain(made, values)[1].flags.c_contiguous


# -- tiles ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def small_tiles(request, monkeypatch):
    """Tiles of a few elements, so that small arrays are cut, on one thread or several."""
    monkeypatch.setattr(tiles, "CUT_FROM", 1)
    monkeypatch.setattr(tiles, "CUT_TWO_FROM", 1)
    monkeypatch.setattr(tiles, "SPREAD_FROM", 1)
    monkeypatch.setattr(tiles, "TILE", 64)
    return request.param


@pytest.mark.parametrize("case", cases.CASES)
def test_tiles_keep_every_bit_but_those_of_sums(case, small_tiles):
    program = captured(case)
    for made in (program, optimized(program)):
        exact = NUMPY.compile(made, exact=True, threads=small_tiles)
        run = NUMPY.compile(made, threads=small_tiles)
        for seed in range(3):
            values = with_keys(program, cases.given_values(program), seed)
            wanted = plain(made, values)
            same(compiled(made, values, exact), wanted)
            close(compiled(made, values, run), wanted)
            assert cases.sharing(run(*values), values) <= cases.sharing(wanted, values)


def test_rows_columns_and_single_elements(small_tiles):
    def f(x, row, column, one, block):
        y = ag.tanh(x * row + column) * one - row
        z = ag.where(y > column, y * block, y + ag.reshape(one, ()))
        return y, ag.sum(z), ag.sum(z * y, axis=(0, 1)), ag.mean(z, axis=0), ag.sum(ag.sin(z), axis=-1, keepdims=True)

    shapes = ((6, 5, 4), (4,), (6, 5, 1), (1, 1, 1), (5, 4))
    program = optimized(ag.func.capture(f)(*(cases.normal(*shape) for shape in shapes)))
    exact, run = (NUMPY.compile(program, exact=e, threads=small_tiles) for e in (True, False))
    for _ in range(4):
        values = [cases.normal(*shape) for shape in shapes]
        same(exact(*values), plain(program, values))
        close(run(*values), plain(program, values))


def test_sums_of_tiles_are_those_of_numpy(small_tiles):
    f = lambda x, w: (
        ag.sum(x * w),
        ag.mean(x * w),
        ag.sum(x * w + 1, axis=0),
        ag.mean(ag.exp(x), axis=(0,), keepdims=True),
    )
    program = optimized(ag.func.capture(f)(np.ones((50, 3)), np.ones(3)))
    run = NUMPY.compile(program, threads=small_tiles)
    for _ in range(3):
        x, w = cases.normal(50, 3, dtype=np.float64), cases.normal(3, dtype=np.float64)
        wanted = (x * w).sum(), (x * w).mean(), (x * w + 1).sum(0), np.exp(x).mean(0, keepdims=True)
        for a, b in zip(run(x, w), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
            assert np.shape(a) == np.shape(b)


def test_large_arrays_on_two_threads():
    program = optimized(ag.func.capture(ag.func.grad(lambda x: ag.sum(ag.tanh(x * 1.5) * ag.sin(x) / 3)))(np.ones(10)))
    program = program.without_detach()
    shapes = {n: Shaped((400_003,), "float64") if s.shape else s for n, s in program.shapes.items()}
    program = program.replaced(shapes=shapes)
    x = cases.normal(400_003, dtype=np.float64)
    for threads in (1, 2):
        run = NUMPY.compile(program, threads=threads)
        for _ in range(2):
            same(run(x), plain(program, [x]))


def test_an_error_in_a_tile_reaches_the_caller(small_tiles):
    program = optimized(ag.func.capture(lambda x: ag.sqrt(x) * 2 + 1)(np.ones(1000)))
    run = NUMPY.compile(program, threads=small_tiles)
    run(np.ones(1000))
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        run(np.full(1000, -1.0))
    same(run(np.ones(1000)), (np.full(1000, 3.0),))


ELEMENTWISE = (
    "add",
    "multiply",
    "subtract",
    "maximum",
    "where",
    "sin",
    "tanh",
    "row",
    "column",
    "sum",
    "astype",
    "total",
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(ELEMENTWISE), st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=30),
    st.integers(1, 3),
    st.data(),
)
def test_random_runs(plan, threads, data):
    """Elementwise steps on full arrays, rows, columns and 0-d values, in any order of use, with what breaks a run."""
    shapes = {0: Shaped((9, 4), "float64"), 1: Shaped((9, 4), "float64"), 2: Shaped((4,), "float64")}
    steps, full, others = [], [0, 1], [2]

    def step(op, *args, shape=(9, 4), dtype="float64", **kwargs):
        number = len(shapes)
        shapes[number] = Shaped(shape, dtype)
        steps.append(Step(op, args, kwargs, (number,)))
        return Ref(number)

    for op, i, j in plan:
        a, b = Ref(full[i % len(full)]), Ref([*full, *others][j % (len(full) + len(others))])
        if op in ("row", "column", "total", "sum"):
            axis, shape = {"row": (0, (4,)), "column": (1, (9, 1)), "total": (None, ()), "sum": ((0,), (1, 4))}[op]
            made = step("sum", a, shape=shape, axis=axis, keepdims=op in ("column", "sum"))
            others.append(made.number)
            continue
        if op == "where":
            made = step("where", step("less", a, b, dtype="bool"), a, b)
        elif op == "astype":
            made = step("multiply", a, step("astype", step("less", a, b, dtype="bool"), DType("float64")))
        else:
            made = step(op, a) if op in ("sin", "tanh") else step(op, a, b)
        full.append(made.number)
    outputs = data.draw(st.lists(st.sampled_from([*full, *others]), min_size=1, max_size=4))
    program = Program((0, 1, 2), tuple(steps), tuple(outputs), shapes).needed()
    before = tiles.CUT_FROM, tiles.CUT_TWO_FROM, tiles.TILE, tiles.SPREAD_FROM, executor.PASSED_ON_FROM
    cut_two_from = data.draw(st.sampled_from([1, 2**20]))  # before anything is set: a draw may end the example
    tiles.CUT_FROM, tiles.TILE, tiles.SPREAD_FROM, executor.PASSED_ON_FROM = 1, 256, 1, 16
    tiles.CUT_TWO_FROM = cut_two_from
    try:
        exact, run = (NUMPY.compile(program, exact=e, threads=threads) for e in (True, False))
        for seed in range(3):
            draw = np.random.default_rng(seed).standard_normal
            values = [draw((9, 4)), draw((9, 4)), draw(4)]
            wanted = plain(program, values)
            same(compiled(program, values, exact), wanted)
            for a, b in zip(compiled(program, values, run), wanted, strict=True):
                assert np.shape(a) == np.shape(b)
                if np.isfinite(b).all() and np.max(np.abs(b), initial=0) < 1e6:
                    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    finally:
        tiles.CUT_FROM, tiles.CUT_TWO_FROM, tiles.TILE, tiles.SPREAD_FROM, executor.PASSED_ON_FROM = before


def test_views_of_single_numbers_are_not_written_over():
    """NumPy gives scalars where arrays have no axes; in a buffer they are arrays, which views share memory with."""

    def counted(n, x):
        return ag.broadcast_to(n + 1, ()), ag.mean(x * 2.0)

    program = ag.func.capture(counted)(np.asarray(1), np.ones(3))
    for n in range(4):
        count, mean = program(np.asarray(n), np.full(3, float(n)))
        assert (int(count), float(mean)) == (n + 1, 2.0 * n)


# -- operations of others ---------------------------------------------------------------------------------------------


def given_or_new(xp, x):
    """The operand where its first element is positive, else what is not that."""
    return x if float(x.ravel()[0]) > 0 else x * -0.5


FOREIGN = {
    "linear": ag.linear(name="tests.reversal", x=lambda g: -g, kernel=lambda xp, x: x),
    "elementwise": ag.elementwise(name="tests.straight", x=lambda xp, x: 1.0, kernel=lambda xp, x: x),
    "part": ag.linear(name="tests.turned", x=lambda xp, g: xp.flip(g), kernel=lambda xp, x: x[::-1]),
    "by value": ag.custom(name="tests.chosen", vjp={"x": lambda g: g}, jvp=None, kernel=given_or_new),
    "copy": ag.linear(name="tests.copied", x=lambda g: g, kernel=lambda xp, x: xp.asarray(x, copy=True)),
    "cast": ag.linear(name="tests.cast", x=lambda g: g, kernel=lambda xp, x: xp.astype(x, x.dtype, copy=False)),
}


def stub(x, /):
    """Return x."""


FOREIGN = {name: declare(stub) for name, declare in FOREIGN.items()}

AROUND = {
    "alone": lambda op, x: op(x),
    "neutral": lambda op, x: op(x) * 1.0,
    "cast": lambda op, x: ag.astype(op(x), x.dtype, copy=False) * 1.0,
    "chain": lambda op, x: ag.exp(op(ag.sin(x)) * 2.0) + 1.0,
    "beside its operand": lambda op, x: [(y := ag.sin(x)), op(y) - y, op(y) + y.flip(0), ag.sum(y * op(y))],
    "later": lambda op, x: [ag.cos(z := op(y := x + 1.0)) * 3.0, ag.sqrt(y * y + 2.0), z - 1.0],
    "view": lambda op, x: ag.sum(op(x + 1.0).reshape((-1,)) * 2.0) + ag.exp(-op(x)[1:]) * 3.0,
    "twice": lambda op, x: op(op(x * 2.0)) + op(x),
    "gradient": lambda op, x: ag.grad(lambda x: ag.sum(ag.sin(op(x * x))))(x),
}


@pytest.mark.parametrize("shape", [(3,), (6, 5), (40, 30)])
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", FOREIGN)
def test_a_users_kernel_may_give_its_operand(name, around, shape, small_tiles):
    op, f = FOREIGN[name], AROUND[around]
    x = np.abs(np.random.default_rng(0).normal(size=shape)) + 0.1
    program = ag.func.capture(lambda x: f(op, x))(x)
    run = NUMPY.compile(optimized(program.without_detach()), exact=True, threads=small_tiles)
    kept = []
    for factor in (1.0, 2.0, -1.0, 0.5, -2.0, 3.0):
        values = factor * x
        wanted = plain(program, [values])
        found = run(values)
        same(found, wanted)
        if around not in ("alone", "twice"):  # there it is what the kernel gave
            assert not any(np.may_share_memory(one, values) for one in found)
        kept.append(([*found, values], [one.copy() for one in (*found, factor * x)]))
        for now, then in kept:  # no call has written to what it was given, nor to what another one gave
            same(now, then)
