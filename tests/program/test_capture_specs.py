"""Programs captured from shapes and dtypes: the steps are those of a capture from data, nothing is computed or changed."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest
from transformed import ROWS, TRANSFORMED

import agrad as ag
from agrad.core.blank import Blank, NeedsValuesError

capture, eval_shape, Spec = ag.func.capture, ag.func.eval_shape, ag.func.ShapeDtype
CaptureError = ag.func.CaptureError

X = np.array([0.7, -0.4, 1.1])


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12, atol=1e-12)


def specs_of(args):
    return [Spec(np.shape(a), np.asarray(a).dtype) if isinstance(a, np.ndarray) else a for a in args]


def same(function, *args, atol=0.0):
    """Capture a function from arrays and from their specs, compare the programs and what they give; return the second."""
    wanted, found = capture(function)(*args), capture(function)(*specs_of(args))
    assert found.text() == wanted.text()
    assert found.shapes == wanted.shapes
    assert found.device == wanted.device
    assert {n: np.asarray(c).tobytes() for n, c in found.constants.items()} == {
        n: np.asarray(c).tobytes() for n, c in wanted.constants.items()
    }
    for one, other in zip(*(ag.tree.flatten(p(*args))[0] for p in (found, wanted)), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=atol, atol=atol, strict=True)
    return found


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_are_captured_as_from_data(name):
    program = same(TRANSFORMED[name], X)
    np.testing.assert_array_equal(program(X), TRANSFORMED[name](ag.asarray(X)).numpy())


def test_means_and_bounds_of_booleans_and_integers():
    def function(x):
        whole, one = ag.astype(x * 4, ag.int64), ag.sum(x)
        means = ag.mean(x > 0), ag.var(x > 0, keepdims=True), ag.std(whole), ag.mean(whole, axis=0)
        return *means, ag.clip(whole, -1, 0.5), ag.clip(whole, -1, 2), ag.sum(one, axis=-1), ag.squeeze(one, axis=0)

    same(function, X)


def draws(x):
    return ag.nn.functional.dropout(x * ag.randn(3), 0.5) + ag.rand(3, generator=GENERATOR)


GENERATOR = ag.random.Generator(7)
OUTSIDE = ag.tensor([[0.5, -1.0, 2.0]])

#: Functions whose numbers, lists and constants count.
VALUED = {
    "numbers": lambda x: 3 * x**2 - x / 7,
    "an integer exponent": lambda x: ag.grad(lambda x: ag.sum(x**3))(x),
    "a list": lambda x: x * [1.0, 2.0, 3.0] + ag.asarray([4.0, 5.0, 6.0]),
    "a mask in a list": lambda x: x[[True, False, True]] * 2,
    "masks in lists": lambda x: ag.outer(x, x)[[True, False, True], :][:, [False, True, True]],
    "one truth value": lambda x: x[True] + x[None],
    "places in a list": lambda x: x[[2, 0, 0]],
    "repetitions": lambda x: ag.repeat(x, ag.asarray([2, 0, 1])),
    "one repetition": lambda x: ag.repeat(x, ag.asarray([2])),
    "written by a mask": lambda x: ag.where(ag.asarray([True, False, True]), x, 0.0),
    "made arrays": lambda x: ag.eye(3) @ x + ag.arange(3) + ag.linspace(0.0, 1.0, 3) + ag.full((3,), 2.0),
    "a tensor from outside": lambda x: ag.grad(lambda x: ag.sum((OUTSIDE @ ag.exp(x)) ** 2))(x) + OUTSIDE[0] * 2,
    "an array from outside": lambda x: x * ROWS,
    "its device": lambda x: x + ag.ones(3, device=x.device, dtype=x.dtype),
    "its shape": lambda x: x / x.shape[0] + x.size + len(x) + x.ndim,
    "written in place": lambda x: written(x),
    "rows": lambda x: ag.stack([row * 2 for row in ag.outer(x, x)]),
    "logpdf": lambda x: importlib.import_module("agrad.scipy.stats").norm.logpdf(x),
    "NumPy's names": lambda x: np.sin(x) + np.concatenate([x, x]).sum(),
    "decompositions": lambda x: ag.grad(lambda x: ag.sum(ag.linalg.svd(ag.asarray(ROWS) * x).S))(x),
    "eigenvalues": lambda x: ag.linalg.eigh(ag.outer(x, x)).eigenvalues,
    "expm": lambda x: importlib.import_module("agrad.scipy.linalg").expm(ag.outer(x, x)),
    "casts": lambda x: ag.astype(ag.astype(x, "float32") * 2, "float64") + ag.argmax(x),
    "complex": lambda x: ag.real(ag.fft.ifft(ag.fft.fft(x) * 1j)),
}


def written(x):
    y = x * 1.0
    y[1:] = x[:2] * 3
    y += x
    y[ag.asarray([0, 2])] *= 2.0
    return ag.grad(lambda x: ag.sum(x * y))(x) * y


@pytest.mark.parametrize("name", VALUED)
def test_numbers_and_constants_keep_their_values(name):
    same(VALUED[name], X)


def test_draws_go_on_with_the_sequence():
    ag.manual_seed(3)
    before = ag.get_rng_state(), GENERATOR.get_state()
    program = capture(draws)(Spec((3,)))
    assert (ag.get_rng_state(), GENERATOR.get_state()) == before  # a capture without data draws nothing
    assert program.text() == capture(draws)(X).text()
    ag.manual_seed(3)
    GENERATOR.set_state(before[1])
    wanted = draws(ag.asarray(X))
    ag.manual_seed(3)
    GENERATOR.set_state(before[1])
    np.testing.assert_array_equal(program(X), wanted.numpy())


def test_a_state_that_is_set_is_put_back():
    def seeded(x):
        ag.manual_seed(5)
        return x + ag.rand(3)

    ag.manual_seed(3)
    capture(seeded)(Spec((3,)))
    found = ag.rand(2).numpy()
    ag.manual_seed(3)
    np.testing.assert_array_equal(found, ag.rand(2).numpy())


REFUSED = {
    "a branch": (lambda x: x if ag.sum(x) > 0 else -x, "a value is requested"),
    "item": (lambda x: x * x[0].item(), "a value is requested"),
    "float": (lambda x: x * float(x[0]), "a value is requested"),
    "a shape by value": (lambda x: ag.zeros(int(ag.argmax(x))), "a value is requested"),
    "numpy": (lambda x: x.numpy() * 2, "a value is requested"),
    "tolist": (lambda x: x.tolist(), "a value is requested"),
    "a print": (lambda x: str(x), "a value is requested"),
    "a mask": (lambda x: x[x > 0], "by a mask depends on values"),
    "nonzero": (lambda x: ag.nonzero(x), "the result of nonzero depends on values"),
    "values of data": (lambda x: importlib.import_module("agrad.scipy.linalg").logm(ag.outer(x, x)), "scipy.logm"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("ask", [capture, eval_shape], ids=["capture", "eval_shape"])
def test_values_are_refused_by_the_line_that_asks(ask, name):
    function, words = REFUSED[name]
    with pytest.raises(CaptureError, match=words) as error:
        ask(function)(Spec((3,)))
    assert f"{__file__}:{function.__code__.co_firstlineno}" in str(error.value)


@ag.elementwise(name="captured.mantissa", x=1, kernel=lambda xp, x: np.frexp(x)[0])
def mantissa(x, /):
    """Give what NumPy alone has."""


@ag.elementwise(name="captured.halves", x=0.5, kernel=lambda xp, x: xp.multiply(x, 0.5))
def halves(x, /):
    """Give x / 2."""


def test_an_operation_of_ones_own():
    same(lambda x: ag.grad(lambda x: ag.sum(halves(x) ** 2))(x), X)
    with pytest.raises(CaptureError, match=r"what captured\.mantissa gives is not known without values"):
        capture(mantissa)(Spec((3,)))
    close(capture(mantissa)(X)(X), np.frexp(X)[0])


def test_nothing_is_computed_and_no_memory_used():
    def loss(w, x):
        return ag.mean(ag.tanh(x @ w) ** 2)

    w, x = Spec((10**6, 10**3), "float32"), Spec((10**9, 10**6), ag.float32)
    program = capture(ag.func.value_and_grad(loss))(w, x)
    assert program.shapes[program.outputs[1]] == ((10**6, 10**3), "float32")
    assert program.memory().peak > 10**15
    assert eval_shape(ag.func.value_and_grad(loss))(w, x) == (Spec((), "float32"), w)


def test_a_training_step_changes_nothing_when_it_is_captured():
    w = ag.tensor([1.0, -2.0], requires_grad=True)
    had = ag.tensor([5.0, 5.0])

    def step(x):
        w.grad = None
        loss = ag.sum((w * x) ** 2)
        loss.backward()
        with ag.no_grad():
            w.sub_(0.1 * w.grad)
        return loss

    for grad in (None, had):
        w.grad = grad
        program = capture(step)(Spec((2,)))
        assert w.grad is grad
        assert isinstance(w._raw, np.ndarray)
        close(w.detach(), [1.0, -2.0])
    x, value = np.array([1.0, 0.5]), np.array([1.0, -2.0])
    for _ in range(3):
        loss = program(x)
        close(loss, ((value * x) ** 2).sum())
        close(w.grad, 2 * value * x * x)
        value = value - 0.1 * 2 * value * x * x
        close(w.detach(), value)


def test_what_was_written_is_put_back_after_an_error():
    w, kept = ag.tensor([1.0, -2.0], requires_grad=True), []

    def function(x):
        with ag.no_grad():
            w.mul_(x)
        ag.sum(w * x).backward()
        kept.append(w * 2)
        return ag.sum(x).item()

    with pytest.raises(CaptureError, match="a value is requested"):
        capture(function)(Spec((2,)))
    close(w.detach(), [1.0, -2.0])
    assert w.grad is None
    w.backward(ag.ones(2))
    close(w.grad, [1.0, 1.0])
    assert repr(kept[0]) == "tensor(..., shape=(2,), dtype=float64)"
    for use in (lambda t: t + 1, lambda t: t.detach().numpy(), lambda t: t.tolist(), lambda t: 2 * t.detach()):
        with pytest.raises(NeedsValuesError, match="has no elements"):  # none of it is taken for a number
            use(kept[0])


def test_a_history_is_put_back():
    w, total = ag.tensor([1.0, -2.0], requires_grad=True), ag.zeros(2)
    program = capture(lambda x: total.add_(w * x).sum())(Spec((2,)))
    assert not total.requires_grad
    close(total, [0.0, 0.0])
    close(program(ag.ones(2)).detach(), -1.0)
    assert total.requires_grad


def test_modules_with_buffers():
    model = ag.nn.Sequential(ag.nn.Linear(3, 4), ag.nn.BatchNorm1d(4), ag.nn.ReLU(), ag.nn.Linear(4, 1))
    before = {name: t.detach().clone() for name, t in model.state_dict().items()}
    rows = np.random.default_rng(0).normal(size=(5, 3))
    model.requires_grad_(False)
    program = capture(lambda x: ag.mean(model(x) ** 2))(Spec((5, 3)))
    for name, t in model.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), before[name].numpy())
    found = program(rows)
    after = {name: t.detach().clone() for name, t in model.state_dict().items()}
    model.load_state_dict(before)
    close(found, ag.mean(model(ag.asarray(rows)) ** 2).detach())
    for name, t in model.state_dict().items():
        close(t, after[name])
    assert not np.array_equal(after["1.running_mean"].numpy(), before["1.running_mean"].numpy())


def test_arrays_and_containers_beside_specs():
    def function(params, x, scale, mode):
        return {"y": ag.tanh(x @ params["w"]) * scale + params["b"], "mode": mode}

    w, b, x = np.ones((3, 2)), np.array([1.0, -1.0]), np.arange(6.0).reshape(2, 3)
    program = capture(function)({"w": Spec((3, 2)), "b": b}, Spec((2, 3)), 0.5, mode="plain")
    wanted = function({"w": ag.asarray(w), "b": ag.asarray(b)}, ag.asarray(x), 0.5, "plain")
    found = program({"w": w, "b": b}, x, 0.5, mode="plain")
    assert found["mode"] == "plain"
    close(found["y"], wanted["y"])
    assert type(found["y"]) is np.ndarray
    assert isinstance(program({"w": ag.asarray(w), "b": b}, x, 0.5, mode="plain")["y"], ag.Tensor)
    with pytest.raises(ValueError, match="captured for"):
        program({"w": w, "b": b}, x[:1], 0.5, mode="plain")


def test_one_spec_twice_is_two_arrays():
    spec = Spec((3,))
    program = capture(lambda x, y: x - 2 * y)(spec, spec)
    close(program(X, 3 * X), X - 6 * X)


def test_an_argument_may_be_written_to():
    program = capture(lambda x: x.mul_(2))(Spec((3,)))
    t = ag.asarray(X.copy())
    program(t)
    close(t, 2 * X)


def test_the_program_is_one_like_any_other(tmp_path):
    program = capture(ag.func.grad(lambda x: ag.sum(ag.nn.functional.gelu(x) * [1.0, 2.0, 3.0])))(Spec((3,)))
    wanted = program(X)
    names: dict = {}
    exec(program.source(), names)
    np.testing.assert_allclose(names["program"](X), wanted, rtol=1e-12)
    ag.save(program, tmp_path / "program")
    np.testing.assert_array_equal(ag.load(tmp_path / "program")(X), wanted)
    close(ag.func.jacrev(program)(X), ag.func.jacfwd(program)(X))
    close(ag.func.vmap(program)(np.stack([X, 2 * X])), np.stack([wanted, program(2 * X)]))


def test_specs_of_a_backend():
    x = ag.zeros((2, 3), dtype="float32")
    program = capture(lambda x: ag.sum(x, axis=0))(x._spec)
    np.testing.assert_array_equal(program(np.ones((2, 3), "float32")), np.full(3, 2, "float32"), strict=True)


def test_lazy_arrays_are_given_as_they_are():
    pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="are lazy, and need no data"):
        capture(lambda x: x)(ag.zeros(3, device="dask")._spec)


def test_another_backend_runs_it():
    da = pytest.importorskip("dask.array")
    program = capture(lambda x: ag.sum(ag.tanh(x) @ ag.tanh(x).T))(Spec((4, 3)))
    x = np.random.default_rng(1).normal(size=(4, 3))
    close(program(da.from_array(x, chunks=2)).compute(), (np.tanh(x) @ np.tanh(x).T).sum())


# -- eval_shape -------------------------------------------------------------------------------------------------------


def test_eval_shape_gives_specs_in_the_containers_of_the_result():
    def function(params, x, *, keep):
        hidden = ag.tanh(x @ params["w"])
        return {"hidden": hidden, "rest": (ag.argmax(hidden, axis=0), [hidden[0] > 0, keep])}

    found = eval_shape(function)({"w": Spec((3, 4), "float32")}, Spec((5, 3), "float32"), keep="all")
    assert found == {
        "hidden": Spec((5, 4), "float32"),
        "rest": (Spec((4,), "int64"), [Spec((4,), "bool"), "all"]),
    }
    grads = eval_shape(ag.func.grad(lambda p, x: ag.mean(x @ p["w"])))({"w": Spec((3, 4))}, Spec((5, 3)))
    assert grads == {"w": Spec((3, 4))}


def test_eval_shape_takes_arrays_and_tensors_and_looks_at_no_value():
    w = ag.tensor(np.full((3, 2), math.nan), requires_grad=True)

    def function(w, x):
        loss = ag.sum((x @ w) ** 2)
        loss.backward()
        return loss, w.grad, w.requires_grad, x.requires_grad

    found = eval_shape(function)(w, np.ones((4, 3)))
    assert found == (Spec(()), Spec((3, 2)), True, False)
    assert w.grad is None


def test_a_shape_error_is_the_one_of_a_call():
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        eval_shape(lambda x, y: x @ y)(Spec((2, 3)), Spec((2, 3)))


def test_a_spec_is_a_value():
    assert Spec([2, 3], "float32") == Spec((2, 3), np.float32)
    assert Spec((2,)) != Spec((2,), "float32")
    assert Spec((2,)) != (2,)
    assert len({Spec((2,)), Spec((2,), "float64"), Spec((3,))}) == 2
    assert repr(Spec((2, 3), "int32")) == "ShapeDtype((2, 3), int32)"
    assert (Spec((2, 3)).ndim, Spec((2, 3)).size) == (2, 6)
    with pytest.raises(ValueError, match="no negative length"):
        Spec((2, -1))
    with pytest.raises(TypeError):
        Spec((2.5,))
    with pytest.raises(TypeError, match="no dtype float17"):
        capture(lambda x: x)(Spec((2,), "float17"))


def test_a_program_holds_no_array_without_elements():
    program = same(lambda x: ag.grad(lambda x: ag.sum(ag.nn.functional.layer_norm(x, (3,)) * OUTSIDE))(x), X)
    held = [*program.constants.values(), *program.tensors().values()]
    assert not any(isinstance(getattr(value, "_raw", value), Blank) for value in held)
