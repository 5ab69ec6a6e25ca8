"""A loop in a program is one step with a body: what it gives, its derivatives and batches, and where it is unrolled."""

from __future__ import annotations

import copy
import pickle
import time

import numpy as np
import pytest

import agrad as ag
from agrad.func import scan

capture, Spec = ag.func.capture, ag.func.ShapeDtype

ROWS = np.random.default_rng(0).normal(size=(5, 3)) / 2
INIT = np.array([0.3, -0.2, 0.8])
W = np.random.default_rng(1).normal(size=(3, 3)) / 2
ARGS = INIT, ROWS, W
OTHER = 2 * INIT, ROWS[::-1].copy(), W.T.copy()


def close(a, b, **near):
    one, other = (np.asarray(x.detach() if isinstance(x, ag.Tensor) else x) for x in (a, b))
    np.testing.assert_allclose(one, other, **({"rtol": 1e-10, "atol": 1e-11} | near))


def all_close(found, wanted):
    for one, other in zip(*(ag.tree.flatten(part)[0] for part in (found, wanted)), strict=True):
        close(one, other)


def loops(program):
    return [step for step in program.steps if step.op == "func.scan"]


def looped(step, init, xs, length=None):
    """The plain loop, over one array."""
    carry, ys = init, []
    for i in range(len(xs) if length is None else length):
        carry, y = step(carry, None if xs is None else xs[i])
        ys.append(y)
    return carry, ag.tree.map(lambda *parts: ag.stack(parts), *ys)


def total(way):
    def function(init, xs, w):
        def step(h, x):
            h = ag.tanh(w @ h + x)
            return h, ag.sum(h * x)

        carry, ys = way(step, init, xs)
        return ag.sum(carry**2) + ag.sum(ag.sin(ys))

    return function


#: Transforms, and how many loops a program of them has.
TRANSFORMS = {
    "value": (lambda f: f, 1),
    "gradients": (lambda f: ag.func.value_and_grad(f, (0, 1, 2)), 2),
    "one gradient": (lambda f: ag.grad(f, 1), 2),
    "tangents": (lambda f: lambda *args: ag.jvp(f, args, tuple(x * 0.5 + 1 for x in args)), 2),
    "one tangent": (lambda f: lambda i, x, w: ag.jvp(lambda x: f(i, x, w), (x,), (x * 0.5 + 1,)), 2),
    "hessian": (lambda f: ag.hessian(f, (0, 2)), 4),
    "forward over reverse": (lambda f: ag.func.jacfwd(ag.grad(f, 2), 0), 3),
    "gradients twice": (
        lambda f: ag.grad(lambda *args: sum(ag.sum(g**2) for g in ag.grad(f, (0, 1, 2))(*args)), (0, 1, 2)),
        5,
    ),
    "a batch of rows": (lambda f: lambda i, x, w: ag.vmap(f, (None, 0, None))(i, ag.stack([x, 2 * x]), w), 1),
    "a batch of all": (lambda f: lambda i, x, w: ag.vmap(f)(*(ag.stack([a, 2 * a, a]) for a in (i, x, w))), 0),
    "gradients per example": (lambda f: lambda i, x, w: ag.vmap(ag.grad(f, (0, 1, 2)), (0, None, None))(x, x, w), 2),
    "gradients of a batch": (
        lambda f: ag.grad(lambda i, x, w: ag.sum(ag.vmap(f, (0, None, None))(x, x, w)), (0, 1, 2)),
        2,
    ),
    "linearized": (lambda f: lambda i, x, w: ag.func.linearize(lambda x: f(i, x, w), x)[1](x**2), 3),
}


@pytest.mark.parametrize("given", ["data", "specs"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_in_a_program(name, given):
    transform, count = TRANSFORMS[name]
    wanted = transform(total(looped))(*map(ag.asarray, OTHER))
    program = capture(transform(total(scan)))(*(ARGS if given == "data" else [Spec(a.shape) for a in ARGS]))
    assert len(loops(program)) == count
    for _ in range(2):
        all_close(program(*OTHER), wanted)
    all_close(program(*map(ag.asarray, ARGS)), transform(total(looped))(*map(ag.asarray, ARGS)))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_a_program(name):
    transform, _ = TRANSFORMS[name]
    program = capture(total(scan))(*ARGS)
    all_close(transform(program)(*map(ag.asarray, OTHER)), transform(total(looped))(*map(ag.asarray, OTHER)))


def test_backward_passes():
    def function(x):
        w = ag.asarray(W).requires_grad_()
        loss = total(scan)(ag.asarray(INIT), x, w)
        (g,) = ag.autograd.grad(loss, w, create_graph=True)
        ag.sum(g**2).backward()
        return loss, g, w.grad

    all_close(capture(function)(ROWS)(OTHER[1]), function(ag.asarray(OTHER[1])))


def test_a_leaf_from_outside_gets_its_gradient():
    w = ag.tensor(W, requires_grad=True)

    def step(x):
        w.grad = None
        loss = total(scan)(ag.asarray(INIT), x, w)
        loss.backward()
        with ag.no_grad():
            w.sub_(0.1 * w.grad)
        return loss

    program = capture(step)(Spec((5, 3)))
    assert len(loops(program)) == 2
    value = ag.asarray(W)
    for _ in range(2):
        wanted, slope = ag.func.value_and_grad(total(looped), 2)(ag.asarray(INIT), ag.asarray(ROWS), value)
        close(program(ROWS), wanted)
        close(w.grad, slope)
        value = value - 0.1 * slope
        close(w, value)


KEPT = ag.tensor([0.5, 1.0, -1.0])

#: Other loops: step, first values, rows.
LOOPS = {
    "a count": (lambda c, x: ({"n": c["n"] + 1, "s": c["s"] + x * c["n"]}, c["n"] > 2), {"n": 0, "s": INIT}, ROWS),
    "nothing carried": (lambda c, x: (c, x**2 + KEPT), None, ROWS),
    "no rows": (lambda m, _: (ag.asarray(W) @ m, ag.sum(m)), W.copy(), None),
    "no results": (lambda c, x: (ag.maximum(c, x), None), INIT, ROWS),
    "what is carried goes out": (lambda c, x: (c, {"before": c, "row": x}), INIT, ROWS),
    "values change places": (lambda c, x: ((c[1], c[0] + x), c[0]), (INIT, 2 * INIT), ROWS),
    "rows of numbers": (lambda c, x: (c * x, c + x), 1.0, ROWS[:, 0]),
    "single precision": (lambda c, x: (c * 0.5 + x, x), INIT.astype("float32"), ROWS.astype("float32")),
    "whole rows": (lambda c, k: (c + KEPT[k], KEPT[k] * 2), 0.0, np.array([2, 0, 0, 1])),
    "a mask of a list": (lambda c, x: (c + ag.sum(x[[True, False, True]]), x), 0.0, ROWS),
    "without gradient": (lambda c, x: (ag.sin(c.detach()) + x, c * x), INIT, ROWS),
    "a loop inside": (lambda c, x: scan(lambda d, y: (ag.sin(d) * y, d + y), c, x), 0.5, ROWS),
    "complex numbers": (lambda c, x: (c * 1j + x, ag.abs(c)), INIT * (1 + 0j), ROWS),
    "a product": (lambda c, x: (c * x, ag.where(x > 0, c, x)), INIT, ROWS),
}


@pytest.mark.parametrize("given", ["data", "specs"])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_many_kinds(name, given):
    step, init, xs = LOOPS[name]
    args, length = (init, xs), 5 if xs is None else len(xs)

    def function(way):
        def run(init, xs):
            init, xs = ag.tree.map(ag.asarray, init), ag.tree.map(ag.asarray, xs)
            return way(step, init, xs, length)

        return run

    specs = [ag.tree.map(lambda a: Spec(np.shape(a), np.asarray(a).dtype), part) for part in args]
    arrays = [ag.tree.map(np.asarray, part) for part in args]
    program = capture(function(scan))(*(arrays if given == "data" else specs))
    assert len(loops(program)) == 1
    moved = [ag.tree.map(lambda a: a * 1.5 if a.dtype.kind in "fc" else a, part) for part in arrays]
    moved = [ag.tree.map(lambda a, b: np.asarray(a, b.dtype), *pair) for pair in zip(moved, arrays, strict=True)]
    wanted = function(scan)(*moved)
    all_close(program(*moved), wanted)

    def size(run):
        def sized(*args):
            parts = [ag.real(t) for t in ag.tree.flatten(run(*args))[0] if t.dtype.kind in "fc"]
            return sum(ag.sum(ag.astype(t, "float64") ** 2) for t in parts)

        return sized

    leaves, treedef = ag.tree.flatten(moved)
    places = [i for i, leaf in enumerate(leaves) if leaf.dtype.kind == "f"]
    for mode in (lambda f: ag.grad(f, tuple(places)), lambda f: lambda *a: ag.jvp(f, a, a)):
        if len(places) == len(leaves):
            found, wanted = (
                mode(lambda *a, run=run: size(run)(*ag.tree.unflatten(treedef, a)))(*map(ag.asarray, leaves))
                for run in (program, function(scan))
            )
            for one, other in zip(*(ag.tree.flatten(part)[0] for part in (found, wanted)), strict=True):
                close(one, other, **({"rtol": 1e-5} if name == "single precision" else {}))


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_what_where_leaves_out_stays_out():
    def function(x):
        found = scan(lambda c, _: (ag.sqrt(c), c), x, length=3)[0]
        return ag.sum(ag.where(x > 0, found, 0.0))

    x = np.array([0.0, 2.0])
    program = capture(ag.grad(function))(np.ones(2))
    assert len(loops(program)) == 2
    close(program(x), ag.grad(function)(x))
    assert program(x)[0] == 0.0
    close(ag.grad(capture(function)(np.ones(2)))(x), ag.grad(function)(x))


@ag.elementwise(name="scanned.masked", masked=lambda masked: 2 * masked, kernel=lambda xp, masked: masked * masked)
def squared(masked, /):
    """The square."""


def test_an_operand_may_be_called_masked():
    close(ag.grad(lambda x: ag.sum(squared(x)))(INIT), 2 * INIT)


def test_ten_thousand_calls_cost_those_of_one():
    function = ag.func.value_and_grad(lambda i, x, w: total(scan)(i, x, w), (0, 2))
    counts, times = [], []
    for length in (10, 10_000):
        began = time.perf_counter()
        program = capture(function)(Spec((3,)), Spec((length, 3)), Spec((3, 3)))
        times.append(time.perf_counter() - began)
        text = str(program)
        counts.append((len(program.steps), len(text.splitlines())))
    assert counts[0] == counts[1]
    assert times[1] < 20 * times[0] + 1.0  # it is about the same; a thousand times as much if it were unrolled
    rows = np.random.default_rng(2).normal(size=(10_000, 3))
    value, (slope, _) = program(INIT, rows, W)
    close(value, total(scan)(ag.asarray(INIT), ag.asarray(rows), ag.asarray(W)))
    close(slope, ag.grad(total(scan))(ag.asarray(INIT), ag.asarray(rows), ag.asarray(W)))
    assert program.memory().peak > rows.nbytes


def test_states_are_kept_only_for_a_derivative():
    value, slope = capture(total(scan))(*ARGS), capture(ag.grad(total(scan)))(*ARGS)
    assert [len(step.outs) for step in loops(value)] == [2]
    assert len(loops(slope)[0].outs) == 3
    linear = capture(ag.grad(lambda x: scan(lambda c, x: (2 * c + x, None), ag.zeros(3), x)[0].sum()))(ROWS)
    assert not loops(linear)[0].args[1].kept if len(loops(linear)) > 1 else len(loops(linear)) == 1
    close(linear(ROWS), np.repeat(2.0 ** np.arange(4, -1, -1)[:, None], 3, axis=1))


def test_results_of_booleans_and_integers():
    """Each result has the dtype of the operation: a mean of booleans is no boolean."""

    def function(xs):
        def step(c, x):
            whole = ag.astype(x * 4, ag.int64)
            return c + ag.mean(x > 0), (ag.mean(x > 0), ag.var(whole), ag.clip(whole, -1, 0.5), (x > 0) // (x < 9))

        return scan(step, 0.0, xs)

    compiled = ag.compile(function, check=False)
    whole = (ROWS * 4).astype(np.int64)
    wanted = (ROWS > 0).mean(), (ROWS > 0).mean(1), whole.var(1), np.clip(whole, -1, 0.5), (ROWS > 0) // (ROWS < 9)
    for _ in range(3):
        carry, found = compiled(ag.asarray(ROWS))
        close(carry, wanted[0] * len(ROWS))
        for one, other in zip(found, wanted[1:], strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12, strict=True)


def test_results_are_nobody_elses():
    program = capture(lambda c, x: scan(lambda c, x: (c, c + x), c, x))(INIT, ROWS)
    init = INIT.copy()
    first = program(init, ROWS)
    kept = [part.copy() for part in first]
    program(2 * INIT, 3 * ROWS)
    for one, other in zip(first, kept, strict=True):
        np.testing.assert_array_equal(one, other)
    first[0][:] = 7.0
    np.testing.assert_array_equal(init, INIT)
    outs = program.runner(ag.namespace("numpy")._backend)(init, ROWS)  # what was carried is given in memory of its own
    assert not np.shares_memory(outs[0], init)


# -- where it is unrolled -----------------------------------------------------------------------------------------------


class Scaled(ag.autograd.Function):
    """Twice its operand."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def drawing(c, x):
    return c + x * ag.rand(3), x


def counted():
    calls = []

    def step(c, x):
        calls.append(None)
        return c + len(calls) * x, x

    return step


UNROLLED = {
    "draws": lambda: drawing,
    "a Function": lambda: lambda c, x: (Scaled.apply(c) + x, x),
    "writes": lambda: lambda c, x: (c + x, NOTED.copy_(x)),
}
NOTED = ag.zeros(3)


@pytest.mark.parametrize("name", UNROLLED)
def test_what_no_body_can_hold_is_unrolled(name):
    step = UNROLLED[name]()
    program = capture(lambda x: scan(step, ag.zeros(3), x)[0])(ROWS)
    assert not loops(program)
    ag.manual_seed(4)
    found = program(OTHER[1])
    ag.manual_seed(4)
    close(found, scan(step, ag.zeros(3), ag.asarray(OTHER[1]))[0])


def test_calls_that_differ_by_python_s_state_are_unrolled():
    step = counted()
    program = capture(lambda x: scan(step, ag.zeros(3), x)[0])(ROWS)
    assert not loops(program)
    assert len({str(s.args) for s in program.steps if s.op == "multiply"}) == 5


def test_a_branch_by_value_is_refused_with_its_line():
    def step(c, x):
        return (c + x if x[0] > 0 else c), x

    with pytest.raises(ag.func.CaptureError, match="a value is requested") as error:
        capture(lambda x: scan(step, ag.zeros(3), x))(ROWS)
    assert f"{__file__}:{step.__code__.co_firstlineno + 1}" in str(error.value)


def test_errors_of_the_step_are_its_own():
    def step(c, x):
        return ag.asarray(W)[:2] @ c + x, x

    for given in (ROWS, Spec((5, 3))):
        with pytest.raises(ValueError, match="broadcast"):
            capture(lambda x: scan(step, ag.zeros(3), x))(given)


def test_compiled_functions_have_it():
    function = ag.func.value_and_grad(total(scan), (0, 1, 2))
    compiled = ag.compile(function)
    for k in range(4):
        all_close(compiled(INIT, k * ROWS, W), function(INIT, k * ROWS, W))
    assert len(loops(compiled.programs[0])) == 2


def test_arrays_of_the_function_s_own():
    for way in (capture, ag.compile):
        function = lambda x: scan(lambda c, r: (c + r, x * r), INIT, ROWS)[1] * x
        made = way(function)(INIT) if way is capture else way(function, check=False)
        for _ in range(3):
            close(made(2 * INIT), 4 * INIT**2 * ROWS)


def test_gradients_of_compiled_functions_around_it():
    program = capture(total(scan))(*ARGS)
    compiled = ag.compile(lambda *args: program(*args), check=False)
    for k in range(4):
        tensors = [ag.tensor(a * (1 + k), requires_grad=True) for a in ARGS]
        compiled(*tensors).backward()
        all_close([t.grad for t in tensors], ag.grad(total(looped), (0, 1, 2))(*(t.detach() for t in tensors)))


def test_a_program_with_a_loop_within_others():
    program = capture(ag.func.value_and_grad(total(scan), (0, 1, 2)))(*ARGS)
    outer = capture(lambda *args: [2 * ag.sum(g) for g in program(*args)[1]])(*ARGS)
    assert len(loops(outer)) == 2
    compiled = ag.compile(lambda *args: program(*args), check=False)
    wanted = ag.func.value_and_grad(total(looped), (0, 1, 2))(*map(ag.asarray, OTHER))
    all_close(outer(*OTHER), [2 * ag.sum(g) for g in wanted[1]])
    for _ in range(3):
        all_close(compiled(*OTHER), wanted)


# -- what else a program does ---------------------------------------------------------------------------------------------


@pytest.fixture
def program():
    return capture(ag.func.value_and_grad(total(scan), (0, 1, 2)))(*ARGS)


@pytest.fixture
def wanted():
    return ag.func.value_and_grad(total(looped), (0, 1, 2))(*map(ag.asarray, OTHER))


def test_its_text_shows_the_bodies(program):
    text = str(program)
    assert "def body_0(xp, v0, v1, v2):" in text
    assert "# body_0: 5 calls, each with 1 carried, 1 from rows" in text
    assert "# body_1: 5 calls from the last row on" in text
    assert "xp.func.scan([v0, v1, v2], body_0)" in text
    assert f"{__file__}:" in text
    assert "func.scan" in program.memory().table()
    assert "func.scan" in ag.view.text(program)


def module(program):
    names: dict = {}
    exec(program.source(), names)
    return names["program"]


def test_modules_have_a_loop_of_python_s(program, wanted):
    all_close(module(program)(*OTHER), wanted)
    text = program.source(notes=False)
    assert "for i1 in range(5):" in text
    assert "for i1 in reversed(range(5)):" in text
    longer = capture(ag.func.value_and_grad(total(scan), (0, 1, 2)))(Spec((3,)), Spec((10_000, 3)), Spec((3, 3)))
    assert longer.source(notes=False).count("\n") == text.count("\n")


@pytest.mark.parametrize("name", LOOPS)
def test_modules_of_loops_of_many_kinds(name):
    step, init, xs = LOOPS[name]
    length = 5 if xs is None else len(xs)

    def function(init, xs):
        return scan(step, ag.tree.map(ag.asarray, init), ag.tree.map(ag.asarray, xs), length)

    arrays = [ag.tree.map(np.asarray, part) for part in (init, xs)]
    program = capture(function)(*arrays)
    found, wanted = module(program)(*[a for a in arrays if a is not None], **program.arrays()), program(*arrays)
    for one, other in zip(*(ag.tree.flatten(part)[0] for part in (found, wanted)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_modules_of_loops_with_what_is_large_or_long():
    table = np.random.default_rng(5).normal(size=(40, 40))
    function = lambda c, xs: scan(lambda c, x: (ag.sin(c @ ag.asarray(table.tolist())) + x, ag.sum(c)), c, xs)
    args = table[0], table[:3]
    program = capture(function)(*args)
    assert len(program.arrays()) == 1
    for one, other in zip(module(program)(*args, **program.arrays()), program(*args), strict=True):
        np.testing.assert_array_equal(one, other)

    def long(c, xs):
        for _ in range(2100):
            c = ag.sin(c)
        c, ys = scan(lambda c, x: (c * x + xs[0], c), c, xs)
        for _ in range(2100):
            c = ag.sin(c)
        return c, ys

    program = capture(long)(INIT, ROWS)
    for one, other in zip(module(program)(INIT, ROWS), program(INIT, ROWS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_files_have_it(program, wanted, tmp_path):
    ag.save(program, tmp_path / "program")
    again = ag.load(tmp_path / "program")
    assert len(loops(again)) == 2
    all_close(again(*OTHER), wanted)


def test_copies(program, wanted):
    for made in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program), copy.copy(program)):
        assert len(loops(made)) == 2
        all_close(made(*OTHER), wanted)


def test_other_backends_run_it(program, wanted):
    da = pytest.importorskip("dask.array")
    found = program(*(da.from_array(a, chunks=a.shape) for a in OTHER))
    all_close(ag.tree.map(lambda a: a.compute(), found), wanted)


def test_an_error_of_a_run_tells_the_line_of_the_step():
    def step(c, x):
        return ag.linalg.inv(x) @ c, None

    program = capture(lambda c, xs: scan(step, c, xs)[0])(np.ones(2), np.stack([np.eye(2)] * 4))
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError) as error:
            program(np.ones(2), np.stack([np.eye(2), np.eye(2), np.zeros((2, 2)), np.eye(2)]))
        assert f"{__file__}:{step.__code__.co_firstlineno + 1}" in "".join(error.value.__notes__)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_few_rows(length):
    def function(c, xs):
        return scan(lambda c, x: ({"a": c["a"] + x}, (ag.sum(x), None)), {"a": c}, xs)

    xs = ROWS[:length]
    wanted = function(ag.asarray(INIT), ag.asarray(xs))
    for run in (capture(function)(INIT, xs), ag.compile(function, fullgraph=True)):
        for _ in range(3):
            found = run(INIT, xs)
            all_close(found, wanted)
            assert found[1][0].shape == (length,)


def test_a_leaf_that_changes_is_named():
    def function(c, xs):
        return scan(lambda c, x: ({"n": [c["n"][0] + x]}, None), c, xs)

    given = {"n": [ag.asarray(1)]}, ag.ones(3)
    for run in (function, capture(function), ag.compile(function)):
        with pytest.raises(
            TypeError, match=r"received the carried value int64\[\] at \['n'\]\[0\], and returned float64\[\]"
        ):
            run(*given)


def test_exact_runs_give_the_bits_of_the_loop():
    function = lambda x: scan(lambda c, x: (ag.sin(c) * 0.9 + x @ ag.asarray(W), ag.sum(c)), ag.zeros(3), x)
    found = capture(function)(ROWS)(OTHER[1])
    for one, other in zip(found, function(ag.asarray(OTHER[1])), strict=True):
        np.testing.assert_array_equal(one, other.numpy())
