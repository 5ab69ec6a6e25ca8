"""Programs: captured, printed, called on arrays, tensors and other backends; what cannot be captured says so."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from transformed import ROWS, TRANSFORMED, V, several, smooth

import agrad as ag
from agrad.program import recording

capture = ag.func.capture


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12, atol=1e-12)


def test_a_program_prints_as_the_text_that_runs():
    program = capture(lambda x, y: ag.sum(ag.sin(x) * y, axis=0))(np.ones((2, 3)), np.ones(3))
    text = str(program)
    assert "xp.sin(v0)" in text
    assert "float64[2, 3]" in text
    names: dict = {}
    exec(text, names)
    x, y = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])
    (out,) = names["program"](np, x, y)
    close(out, (np.sin(x) * y).sum(0))


def test_names_of_the_user_s_stay_within_comments_of_the_text():
    ran = []

    def function(**named):
        return ag.sin(named["x\n    ran()"])

    function.__code__ = function.__code__.replace(co_filename="x\n    ran()  #.py")
    names = {"ran": lambda: ran.append(1)}
    exec(str(ag.func.capture(function)(**{"x\n    ran()": np.ones(2)})), names)
    np.testing.assert_array_equal(names["program"](np, np.ones(2)), [np.sin(np.ones(2))])
    assert not ran


@pytest.mark.parametrize("dtype", ["float16", "longdouble"])
def test_dtypes_beside_the_standard_s(dtype):
    x = np.asarray([2.0, 1.5, -0.5], dtype)
    step = ag.compile(ag.func.grad(lambda x: ag.sum(x[1:] * x[1:])), check=False)
    for _ in range(3):  # the last of them are replayed
        np.testing.assert_array_equal(step(x), np.asarray([0.0, 3.0, -1.0], dtype), strict=True)


def test_raw_in_raw_out_and_tensors_otherwise():
    program = capture(lambda x: (x * 2, ag.sum(x)))(np.ones(3))
    doubled, total = program(np.array([1.0, 2.0, 3.0]))
    assert type(doubled) is np.ndarray
    assert type(total) is np.float64
    assert isinstance(program(ag.ones(3))[0], ag.Tensor)
    close(doubled, [2.0, 4.0, 6.0])


def test_the_backward_pass_is_part_of_it():
    def f(x):
        y = ag.sum(x**3)
        (g,) = ag.grad(y, x, create_graph=True)
        return y, g, ag.grad(ag.sum(g), x)[0]

    program = capture(f)(ag.ones(3, requires_grad=True))
    x = np.array([1.0, -2.0, 3.0])
    y, g, h = program(ag.tensor(x))
    close(y, (x**3).sum())
    close(g, 3 * x**2)
    close(h, 6 * x)


def test_a_program_is_differentiable_and_maps():
    program = capture(lambda x: ag.exp(x) * x)(ag.ones(2))
    x = np.array([0.3, -0.7])
    close(ag.func.jacrev(program)(x), np.diag(np.exp(x) * (1 + x)))
    rows = np.arange(6.0).reshape(3, 2) / 7
    close(ag.func.vmap(program)(rows), np.exp(rows) * rows)
    close(ag.func.vmap(ag.func.grad(lambda v: ag.sum(program(v))))(rows), np.exp(rows) * (1 + rows))


def test_detach_and_no_grad_hold_in_a_program():
    def f(x):
        with ag.no_grad():
            still = ag.sin(x)
        return x * still + x.detach() * x

    program = capture(f)(ag.ones(3))
    x = np.array([0.1, 0.2, 0.3])
    close(ag.func.grad(lambda v: ag.sum(program(v)))(x), np.sin(x) + x)


def test_a_fused_operation_is_differentiated_through_its_residuals():
    f = lambda x: ag.sum(ag.nn.functional.layer_norm(x, (4,)) * x)
    x = np.random.default_rng(0).normal(size=(3, 4))
    program = capture(f)(x)
    step, numeric = 1e-6, np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        numeric[at] = (program(up) - program(down)) / (2 * step)
    np.testing.assert_allclose(ag.func.grad(program)(x), numeric, rtol=1e-6, atol=1e-7)


def no_grad(f):
    """The function, under no_grad."""

    def quiet(x):
        with ag.no_grad():
            return f(x)

    return quiet


@pytest.mark.parametrize("asked", [False, True], ids=["arrays", "requires_grad"])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_gradients_in_a_program_have_derivatives(name, asked):
    f, x, step = TRANSFORMED[name], np.array([0.7, -0.4, 1.1]), 1e-6
    program = capture(f)(ag.asarray(x).requires_grad_() if asked else x)
    weights = np.cos(np.arange(f(ag.asarray(x)).size)).reshape(f(ag.asarray(x)).shape)
    if not asked:  # not a bit of it is another for that
        np.testing.assert_array_equal(program(x), f(ag.asarray(x)).numpy())
    expected = [
        ((f(ag.asarray(x + d)) - f(ag.asarray(x - d))).numpy() * weights).sum() / (2 * step) for d in step * np.eye(3)
    ]

    def total(x):
        return ag.sum(program(x) * ag.asarray(weights))

    near = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(ag.grad(total)(x), expected, **near)
    t = ag.asarray(x).requires_grad_()
    assert program(t).requires_grad
    total(t).backward()
    np.testing.assert_allclose(t.grad, expected, **near)
    np.testing.assert_allclose(ag.jvp(total, (x,), (V,))[1], V @ expected, **near)
    np.testing.assert_allclose(ag.vmap(ag.grad(total))(np.stack([x, x]))[1], expected, **near)


@pytest.mark.parametrize(
    "constant",
    [
        no_grad(ag.grad(smooth)),
        no_grad(lambda x: ag.value_and_grad(smooth)(x)[0]),
        no_grad(lambda x: ag.vjp(several, x)[0]),
        lambda x: no_grad(lambda x: ag.vjp(several, x))(x)[1](ag.ones(3))[0],
        no_grad(lambda x: ag.grad(lambda x: (smooth(x), ag.sum(x**2)), has_aux=True)(x)[1]),
        lambda x: ag.autograd.functional.vjp(several, x, ag.asarray(V))[0],
        lambda x: ag.autograd.functional.hvp(smooth, x, ag.asarray(V))[1],
        lambda x: ag.autograd.functional.jacobian(several, x),
    ],
    ids=["grad", "value", "vjp", "pull", "aux", "functional.vjp", "functional.hvp", "functional.jacobian"],
)
def test_what_a_function_cuts_off_is_cut_off_in_a_program(constant):
    x = np.array([0.7, -0.4, 1.1])
    fixed = constant(ag.asarray(x)).numpy()
    program = capture(lambda x: constant(x) * x)(x)
    close(ag.grad(lambda x: ag.sum(program(x)))(x), fixed.sum(0) if fixed.ndim == 2 else fixed * np.ones(3))


def test_a_program_that_gives_its_operand_gives_a_tensor_of_its_own():
    program = capture(lambda v: ag.vjp(lambda x: x, ag.zeros(3))[1](v)[0])(V)
    t = ag.ones(3)
    program(t).add_(1)
    close(t, np.ones(3))


def test_another_backend_runs_it():
    da = pytest.importorskip("dask.array")
    program = capture(lambda x: ag.sum(ag.tanh(x) @ ag.tanh(x).T))(np.ones((4, 3)))
    x = np.random.default_rng(1).normal(size=(4, 3))
    close(program(da.from_array(x, chunks=2)).compute(), (np.tanh(x) @ np.tanh(x).T).sum())


def test_draws_go_on_with_the_sequence():
    program = capture(lambda x: x + ag.randn(3))(np.zeros(3))
    ag.manual_seed(5)
    found = [program(np.zeros(3)) for _ in range(2)]
    ag.manual_seed(5)
    close(found[0], ag.randn(3).numpy())
    close(found[1], ag.randn(3).numpy())


def test_tensors_from_outside_are_found_again():
    w = ag.tensor([1.0, 2.0])
    program = capture(lambda x: x * w)(np.ones(2))
    close(program(np.ones(2)), [1.0, 2.0])
    w.data = ag.tensor([5.0, 6.0])
    close(program(np.ones(2)), [5.0, 6.0])
    w = ag.tensor([7.0, 8.0])
    close(program(np.ones(2)), [7.0, 8.0])
    w = ag.tensor([7.0])
    with pytest.raises(ValueError, match=r"captured for float64\[2\], and w is float64\[1\]"):
        program(np.ones(2))


def test_a_training_step_writes_what_it_wrote():
    w = ag.tensor([1.0, -2.0], requires_grad=True)

    def step(x):
        w.grad = None
        loss = ag.sum((w * x) ** 2)
        loss.backward()
        with ag.no_grad():
            w.sub_(0.1 * w.grad)
        return loss

    x, value = np.array([1.0, 0.5]), np.array([1.0, -2.0])
    program = capture(step)(x)
    for _ in range(3):
        value = value - 0.1 * 2 * value * x * x
        close(w.detach(), value)
        loss = program(x)
        close(loss, ((value * x) ** 2).sum())
        close(w.grad, 2 * value * x * x)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x if x[0] > 0 else -x, "a value is requested"),
        (lambda x: x * float(x[0]), "a value is requested"),
        (lambda x: x[x > 0], "by a mask depends on values"),
        (ag.nonzero, "the result of nonzero depends on values"),
        (lambda x: x.numpy() * 2, "a value is requested"),
    ],
)
def test_what_no_program_can_hold_is_refused(function, words):
    with pytest.raises(ag.func.CaptureError, match=words):
        capture(function)(ag.ones(3))


def test_a_tensor_that_is_kept_elsewhere_is_refused_and_stays_plain():
    kept = []

    def f(x):
        kept.append(x * 2)
        return x * 3

    with pytest.raises(ag.func.CaptureError, match="lives on"):
        capture(f)(ag.ones(2))
    close(kept[0] + 1, [3.0, 3.0])


def test_an_error_in_the_midst_leaves_what_eager_code_leaves():
    w, seen = ag.tensor([1.0, 2.0], requires_grad=True), []

    def f(x):
        with ag.no_grad():
            w.mul_(3.0)
        seen.append(w * x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        capture(f)(ag.ones(2))
    close(w.detach(), [3.0, 6.0])
    seen[0].sum().backward()
    close(w.grad, [1.0, 1.0])


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((np.ones(3), 2.0), ValueError, "captured for float64"),
        (
            (np.ones(2), 3.0),
            ValueError,
            r"part of the program.* or with an array, np\.asarray\(2\.0\), which is an input",
        ),
        ((np.ones(2),), TypeError, r"captured as program\(\*, \*\), but is called as program\(\*\)"),
        (([np.ones(2)], 2.0), TypeError, r"is called as program\(\[\*\], \*\)"),
        ((np.ones(2, "float32"), 2.0), ValueError, "float32"),
    ],
)
def test_other_arguments_are_refused(args, error, words):
    program = capture(lambda x, a: x * a)(np.ones(2), 2.0)
    with pytest.raises(error, match=words):
        program(*args)


def test_a_number_given_as_an_array_is_an_input():
    program = capture(lambda x, a: x * a)(np.ones(2), np.asarray(2.0))
    np.testing.assert_array_equal(program(np.ones(2), np.asarray(3.0)), [3.0, 3.0])
    with pytest.raises(ValueError, match=r"'mean' is part of the program.*: capture it anew\n"):
        capture(lambda x, how: getattr(ag, how)(x))(np.ones(2), "mean")(np.ones(2), "sum")


def test_a_thread_that_looks_at_frames_for_a_moment(monkeypatch):
    """As Dask's profiler does: it holds a frame, and with it what the function made, a little longer than the call."""
    main, asked, taken, waited = threading.get_ident(), *(threading.Event() for _ in range(3))

    def look():
        asked.wait()
        frame = sys._current_frames()[main]
        taken.set()
        waited.wait()
        del frame

    def function(x):
        made = ag.exp(x)
        asked.set()
        taken.wait()
        return ag.sum(made * 2)

    thread = threading.Thread(target=look)
    monkeypatch.setattr(recording, "time", SimpleNamespace(sleep=lambda _: (waited.set(), thread.join())))
    thread.start()
    try:
        program = capture(function)(np.zeros(3))
    finally:
        asked.set()
        waited.set()
        thread.join()
    assert program(np.zeros(3)).item() == 6.0


def test_a_tensor_from_outside_is_found_again_within_vmap():
    rows = ag.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def function(x):
        return ag.vmap(ag.func.grad(lambda v, row: ag.sum(v * row) ** 2), in_dims=(None, 0))(x, rows)

    program = ag.func.capture(function)(ag.ones(2))
    for first in (1.0, -2.0):
        x = np.array([first, 0.5])
        expected = [2 * (x @ row) * row for row in rows.numpy()]
        np.testing.assert_allclose(program(ag.asarray(x)).numpy(), expected)


def classes(x, labels):
    return ag.grad(lambda x: ag.nn.functional.cross_entropy(x, labels, ignore_index=0))(x)


def power(x, e):
    return ag.jvp(lambda x: x**e, (x,), (ag.ones(3),))[1]


def power_twice(x, e):
    return ag.jvp(ag.grad(lambda x: ag.sum(x**e)), (x,), (ag.ones(3),))[1]


def left_out(x):
    return ag.grad(lambda y: ag.sum(ag.grad(lambda x: ag.sum(ag.where(x > 0, ag.sqrt(x), x)))(y)))(x)


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
@pytest.mark.parametrize(
    ("function", "first", "then"),
    [
        (classes, (ROWS, np.array([2, 1])), (ROWS, np.array([2, 0]))),  # the first has no label that is ignored
        (power, (np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])), (np.zeros(3), np.array([0.0, 1.0, 2.0]))),
        (power_twice, (np.array([0.5, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])), (np.zeros(3), np.array([0.0, 1.0, 2.0]))),
        (left_out, (np.array([1.0, 2.0]),), (np.array([0.0, 2.0]),)),
    ],
)
def test_values_of_the_capture_decide_nothing(function, first, then):
    wanted = np.asarray(function(*then))
    assert np.isfinite(wanted).all()
    close(capture(function)(*first)(*then), wanted)
    compiled = ag.compile(function, check=False)
    for _ in range(3):
        compiled(*first)
    close(compiled(*then), wanted)
