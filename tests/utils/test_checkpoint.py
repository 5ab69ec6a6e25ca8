"""Checkpointing: the same gradients, less kept, and an error where the function does something else the second time."""

import functools
import gc
import weakref

import numpy as np
import pytest

import agrad as ag
from agrad.autograd.graph import disable_saved_tensors_hooks, save_on, saved_tensors_hooks
from agrad.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def test_gradient_and_when_it_runs_again(backend):
    x = ag.asarray(np.array([0.5, 2.0]), device=backend, requires_grad=True)
    f = Counted(lambda x: ag.sin(ag.exp(x)) * x)
    y = ag.sum(checkpoint(f, x))
    assert f.calls == 1
    y.backward(retain_graph=True)
    assert f.calls == 2
    v = np.array([0.5, 2.0])
    expected = np.cos(np.exp(v)) * np.exp(v) * v + np.sin(np.exp(v))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)
    y.backward()
    assert f.calls == 3
    np.testing.assert_allclose(x.grad.numpy(), 2 * expected, rtol=1e-12)


def test_second_order():
    x = leaf(2.0)
    y = checkpoint(lambda x: x**3, x)
    (g,) = ag.grad(ag.sum(y), x, create_graph=True)
    (gg,) = ag.grad(ag.sum(g), x, create_graph=True)
    (ggg,) = ag.grad(ag.sum(gg), x)
    assert [g.item(), gg.item(), ggg.item()] == [12.0, 12.0, 6.0]


def test_keyword_arguments_containers_and_closures():
    x, w, b = leaf(2.0), leaf(3.0), leaf(1.0)

    def f(inputs, *, scale, flag):
        assert flag == "on"
        return {"y": ag.exp(inputs["x"] * w) * scale, "n": 3}

    out = checkpoint(f, {"x": x}, scale=b, flag="on")
    assert out["n"] == 3
    ag.sum(out["y"]).backward()
    e = np.exp(6.0)
    np.testing.assert_allclose([x.grad.item(), w.grad.item(), b.grad.item()], [3 * e, 2 * e, e])


def test_nothing_is_kept_but_the_inputs():
    x = leaf(*np.linspace(0, 1, 1000))
    kept = []
    with saved_tensors_hooks(lambda t: kept.append(t) or t.detach(), lambda t: t):
        y = ag.sum(checkpoint(lambda x: ag.exp(ag.sin(ag.exp(x))), x))
    assert len(kept) == 1  # what the outer hooks keep for it: the input
    y.backward()
    assert x.grad is not None


def test_values_of_the_first_run_are_free():
    x = leaf(0.5)
    alive = []

    def f(x):
        y = ag.exp(x)
        alive.append(weakref.ref(y._raw))
        return ag.sin(y)

    gc.disable()
    try:
        y = checkpoint(f, x)
        assert alive[0]() is None
        y.backward()
    finally:
        gc.enable()
    assert x.grad.item() == pytest.approx(np.cos(np.exp(0.5)) * np.exp(0.5))


@pytest.mark.parametrize("early", [True, False])
def test_early_stop(early):
    reached = []

    def f(x):
        y = ag.exp(x)
        z = y * 2.0  # saves a constant: the last value that is needed
        reached.append("end")
        return z + 1.0

    x = leaf(1.0)
    with set_checkpoint_early_stop(early):
        y = checkpoint(f, x)
    y.backward()
    assert reached == (["end"] if early else ["end", "end"])
    assert checkpoint(f, leaf(1.0), early_stop=early).requires_grad


@pytest.mark.parametrize("depth", [2, 3])
def test_nested(depth):
    innermost = Counted(lambda x: ag.sin(ag.exp(x)))

    def nest(level):
        if level == 0:
            return innermost
        inner = nest(level - 1)
        return lambda x: ag.exp(0.1 * checkpoint(inner, x * 1.5))

    def value(v):
        for _ in range(depth):
            v = v * 1.5
        v = np.sin(np.exp(v))
        for _ in range(depth):
            v = np.exp(0.1 * v)
        return v

    x = leaf(0.3)
    y = checkpoint(nest(depth), x)
    assert y.item() == pytest.approx(value(0.3))
    (g,) = ag.grad(y, x, create_graph=True)
    step = 1e-6
    assert g.item() == pytest.approx((value(0.3 + step) - value(0.3 - step)) / (2 * step), rel=1e-8)
    (gg,) = ag.grad(g, x)
    step = 1e-4
    assert gg.item() == pytest.approx((value(0.3 + step) - 2 * value(0.3) + value(0.3 - step)) / step**2, rel=1e-5)


def test_random_numbers_are_the_same_again():
    ag.manual_seed(3)
    x = ag.ones(1000, requires_grad=True)
    y = checkpoint(lambda x: ag.nn.functional.dropout(ag.exp(x), 0.5), x)
    following = ag.rand(3).tolist()
    ag.sum(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), y.detach().numpy())
    ag.manual_seed(3)
    ag.nn.functional.dropout(ag.ones(1000), 0.5)
    assert ag.rand(3).tolist() == following


def test_without_keeping_the_random_state():
    ag.manual_seed(3)
    x = ag.ones(1000, requires_grad=True)
    y = checkpoint(lambda x: ag.nn.functional.dropout(ag.exp(x), 0.5), x, preserve_rng_state=False)
    ag.sum(y).backward()
    assert not np.allclose(x.grad.numpy(), y.detach().numpy())


def test_function_whose_saved_tensors_are_read_twice():
    class Cube(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            (again,) = ctx.saved_tensors
            assert x.item() == again.item()
            return 3 * x**2 * g

    x = leaf(2.0)
    checkpoint(lambda x: Cube.apply(ag.exp(x)), x).backward()
    assert x.grad.item() == pytest.approx(3 * np.exp(6.0))


def test_inputs_without_gradient_and_no_grad():
    f = Counted(lambda x, k: ag.exp(x) * k)
    x = ag.tensor([1.0])
    assert not checkpoint(f, x, 2).requires_grad
    with ag.no_grad():
        assert not checkpoint(f, leaf(1.0), 2).requires_grad
    assert f.calls == 2


def test_a_parameter_changed_in_between_does_not_change_the_inputs():
    x = leaf(2.0)
    y = checkpoint(lambda x: x**3, x)
    with ag.no_grad():
        x.fill_(1.0)
    y.backward()
    assert x.grad.item() == 12.0


def test_offloaded_inputs(backend):
    x = ag.asarray(np.array([0.5]), device=backend, requires_grad=True)
    with save_on("numpy"):
        y = checkpoint(lambda x: ag.exp(x), ag.sin(x))
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(np.sin(0.5)) * np.cos(0.5))


# -- what raises -------------------------------------------------------------------------------------------------------


def changing(first, then):
    calls = []

    def f(x):
        calls.append(1)
        return (first if len(calls) == 1 else then)(x)

    return f


def test_fewer_values():
    x = leaf(1.0)
    y = checkpoint(changing(lambda x: ag.sin(ag.exp(ag.sin(x))), lambda x: ag.exp(ag.sin(x))), x)
    with pytest.raises(
        CheckpointError,
        match=r"(?s)A different number of tensors was saved.*forward: 3\n.*recomputation: 2\..*SinBackward0.*checkpoint\.py:\d+",
    ):
        y.backward()
    assert x.grad is None


def test_another_shape():
    x = leaf(1.0)
    y = checkpoint(changing(lambda x: ag.sum(ag.exp(ag.sin(x))), lambda x: ag.sum(ag.exp(ag.sin(x) * ag.ones(2)))), x)
    with pytest.raises(CheckpointError, match=r"(?s)have different metadata.*position 1.*saved by ExpBackward0"):
        y.backward()


def test_another_operation():
    y = checkpoint(changing(lambda x: ag.cos(ag.sin(x)), lambda x: ag.sin(ag.sin(x))), leaf(1.0))
    with pytest.raises(CheckpointError, match=r"(?s)In forward it was saved by CosBackward0.*now by SinBackward0"):
        y.backward()


def test_unchecked():
    x = leaf(1.0)
    checkpoint(changing(ag.sin, ag.cos), x, determinism_check="none").backward()
    assert x.grad.item() == pytest.approx(np.cos(1.0))  # both save x


def test_more_values_without_early_stop():
    f = changing(lambda x: ag.exp(ag.sin(x)), lambda x: ag.sin(ag.exp(ag.sin(x))))
    y = checkpoint(f, leaf(1.0), early_stop=False)
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        y.backward()


def test_an_error_of_the_function_comes_out():
    def broken(x):
        raise ZeroDivisionError

    y = checkpoint(changing(ag.exp, broken), leaf(1.0))
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert ag.is_grad_enabled()


def test_arguments():
    with pytest.raises(ValueError, match="use_reentrant=True is not available"):
        checkpoint(ag.exp, leaf(1.0), use_reentrant=True)
    with pytest.raises(ValueError, match=r"determinism_check should be one of \['default', 'none'\], but got foo"):
        checkpoint(ag.exp, leaf(1.0), use_reentrant=False, determinism_check="foo")


# -- sequences and policies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequences(segments):
    steps = [Counted(f) for f in (ag.sin, ag.exp, ag.cos, ag.tanh, ag.exp)]
    x = leaf(0.4)
    y = checkpoint_sequential(steps, segments, x)
    y.backward()
    e = np.exp(np.sin(0.4))
    t = np.tanh(np.cos(e))
    by_hand = np.exp(t) * (1 - t * t) * -np.sin(e) * e * np.cos(0.4)
    assert x.grad.item() == pytest.approx(by_hand)
    assert steps[-1].calls == 1  # the last segment is not checkpointed
    assert steps[0].calls == (1 if segments == 1 else 2)


def test_a_policy_keeps_what_costs_most():
    a = ag.asarray(np.array([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    products = []

    def f(a):
        products.append(1)
        p = a @ a
        return ag.sum(ag.exp(0.1 * p))

    keep = functools.partial(create_selective_checkpoint_contexts, ["matmul", "exp", "multiply"])
    checkpoint(f, a, context_fn=keep).backward()
    w = 0.1 * np.exp(0.1 * a.detach().numpy() @ a.detach().numpy())
    v = a.detach().numpy()
    np.testing.assert_allclose(a.grad.numpy(), w @ v.T + v.T @ w)
    assert len(products) == 2  # the operand of the product is no operation's result: it is asked for


def test_everything_kept_is_never_run_again():
    f = Counted(lambda x: ag.exp(ag.sin(x)))
    x = leaf(1.0)
    h = x * 1.0
    asked = []

    def policy(ctx, op):
        asked.append(op)
        return CheckpointPolicy.MUST_SAVE

    y = checkpoint(f, h, context_fn=functools.partial(create_selective_checkpoint_contexts, policy))
    assert asked == ["multiply", "exp"]
    y.backward()
    assert f.calls == 1
    assert x.grad.item() == pytest.approx(np.exp(np.sin(1.0)) * np.cos(1.0))


def test_numbers_of_a_generator_of_the_users_are_the_same_again():
    generator = ag.random.Generator(5)
    x = ag.ones(4, requires_grad=True)
    y = checkpoint(lambda x: ag.exp(x * 0.0) * ag.rand(4, generator=generator) * x, x)
    following = ag.rand(2, generator=generator).tolist()
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    again = ag.random.Generator(5)
    ag.rand(4, generator=again)
    assert following == ag.rand(2, generator=again).tolist()


def test_drawing_more_numbers_than_in_forward_is_refused():
    calls = []

    def function(x):
        calls.append(1)
        for _ in calls:
            x = x * ag.exp(ag.rand(1))
        return x * x

    y = checkpoint(function, ag.ones(1, requires_grad=True))
    with pytest.raises(RuntimeError, match="more random numbers when it is run again"):
        y.backward(ag.ones(1))


@pytest.mark.parametrize("early", [True, False])
def test_a_derivative_within_the_function(early):
    def f(x):
        z = ag.exp(x)
        (g,) = ag.grad(ag.sum(z), x, create_graph=True)
        return g * z

    x = leaf(2.0)
    checkpoint(f, x, early_stop=early).backward()
    assert x.grad.item() == pytest.approx(2 * np.exp(4.0))  # of exp(2 x)


def test_an_argument_changed_in_place():
    def f(h):
        h.mul_(2)
        return ag.exp(h)

    x = leaf(2.0)
    checkpoint(f, x * 1).backward()
    assert x.grad.item() == pytest.approx(2 * np.exp(4.0))


def test_on_dask(dask_backend):
    x = ag.asarray(np.array([0.5, 1.5]), device="dask", requires_grad=True)
    keep = functools.partial(create_selective_checkpoint_contexts, [ag.exp])

    def f(inputs):
        return {"y": checkpoint(lambda x: ag.exp(x * x), inputs["x"], context_fn=keep) * ag.sin(inputs["x"])}

    with save_on("numpy"):
        y = checkpoint(f, {"x": x})["y"]
    ag.sum(y).backward()
    v = np.array([0.5, 1.5])
    np.testing.assert_allclose(x.grad.numpy(), np.exp(v * v) * (2 * v * np.sin(v) + np.cos(v)), rtol=1e-12)


def test_where_hooks_are_disabled():
    with disable_saved_tensors_hooks("no hooks here"), pytest.raises(RuntimeError, match="no hooks here"):
        checkpoint(ag.exp, leaf(1.0))


def test_no_segments():
    with pytest.raises(ValueError, match="segments must be at least 1, not 0"):
        checkpoint_sequential([ag.sin], 0, leaf(1.0))


def test_a_policy_is_told_whether_the_function_runs_again():
    seen = []

    def policy(ctx, op):
        seen.append((op, ctx.is_recompute))
        return False

    x = leaf(1.0)
    checkpoint(
        lambda x: ag.exp(ag.sin(x)), x, context_fn=functools.partial(create_selective_checkpoint_contexts, policy)
    ).backward()
    assert seen == [("exp", False), ("exp", True)]  # what sin keeps is no operation's result
    assert x.grad.item() == pytest.approx(np.exp(np.sin(1.0)) * np.cos(1.0))


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        ("matmul", TypeError, "must be either a function or a list of ops"),
        (5, TypeError, "must be either a function or a list of ops"),
        (["matmool"], ValueError, "Expected op in `op_list` to be an operation but got: 'matmool'"),
        (lambda ctx, op: None, TypeError, "must give a CheckpointPolicy or a bool, not None, for 'exp'"),
    ],
)
def test_what_is_no_policy(policy, error, message):
    with pytest.raises(error, match=message):
        checkpoint(ag.exp, leaf(1.0), context_fn=functools.partial(create_selective_checkpoint_contexts, policy))


def difference(function, array, direction, step=1e-6):
    """Give the derivative along a direction by a central difference."""
    above, below = (function(ag.asarray(array + s * direction)).numpy() for s in (step, -step))
    return (above - below) / (2 * step)


ROWS = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])
ALONG = np.array([[1.0, 0.5, -0.7], [0.2, -1.3, 0.9]])


@pytest.mark.parametrize("nested", [False, True])
def test_a_batch_is_mapped_within_a_checkpoint(nested):
    def row(r):
        return ag.sum(ag.sin(ag.vmap(lambda v: v * r[0])(r))) if nested else ag.sum(ag.sin(r) * ag.max(r))

    def function(x):
        return ag.sum(ag.vmap(row)(x) ** 2)

    x = ag.asarray(ROWS, requires_grad=True)
    checkpoint(function, x).backward()
    assert np.vdot(x.grad.numpy(), ALONG) == pytest.approx(difference(function, ROWS, ALONG), rel=1e-7)


@pytest.mark.parametrize("transform", [ag.func.jacfwd, ag.func.jacrev, ag.func.hessian])
def test_a_transform_within_a_checkpoint(transform):
    def function(x):
        return ag.sum(transform(lambda r: ag.sum(ag.sin(r) * r[::-1] * x[0, 0]))(x[1]) ** 2)

    x = ag.asarray(ROWS, requires_grad=True)
    checkpoint(function, x).backward()
    assert np.vdot(x.grad.numpy(), ALONG) == pytest.approx(difference(function, ROWS, ALONG), rel=1e-7)


def test_a_checkpoint_within_a_batch_draws_for_each_member_again():
    def noisy(row):
        return ag.sum(ag.sin(row) * ag.rand(3, dtype="float64"))

    gradients = []
    for function in (noisy, lambda row: checkpoint(noisy, row)):
        ag.manual_seed(1)
        x = ag.asarray(ROWS, requires_grad=True)
        ag.vmap(function, randomness="different")(x).sum().backward()
        gradients.append(x.grad.numpy())
    assert not np.allclose(gradients[0][0] / np.cos(ROWS[0]), gradients[0][1] / np.cos(ROWS[1]))
    np.testing.assert_array_equal(gradients[1], gradients[0])


def test_a_checkpoint_within_a_batch_that_differentiates_by_what_all_members_share():
    def function(x, w):
        def inner(row):
            return ag.sum(ag.func.grad(lambda v: ag.sum(ag.sin(v) * row))(w))

        return ag.sum(ag.vmap(lambda row: checkpoint(inner, row))(x) ** 2)

    x, w = ag.asarray(ROWS, requires_grad=True), ag.asarray(ROWS[0], requires_grad=True)
    function(x, w).backward()
    wanted = difference(lambda w: function(ag.asarray(ROWS), w), ROWS[0], ALONG[0])
    assert np.vdot(w.grad.numpy(), ALONG[0]) == pytest.approx(wanted, rel=1e-7)
    wanted = difference(lambda x: function(x, ag.asarray(ROWS[0])), ROWS, ALONG)
    assert np.vdot(x.grad.numpy(), ALONG) == pytest.approx(wanted, rel=1e-7)


def test_random_numbers_beside_a_checkpointed_transform():
    """The backward pass within the transform runs the function again, outside of the transform's batch."""

    def function(x):
        noise = ag.rand(3, dtype="float64")
        return ag.sum(ag.func.hessian(lambda r: ag.sum(ag.sin(r) * noise))(x * noise))

    gradients = []
    for run in (function, lambda x: checkpoint(function, x)):
        ag.manual_seed(3)
        x = ag.asarray(ROWS[0], requires_grad=True)
        run(x).backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(gradients[1], gradients[0])


def doubled_sine(x):
    return ag.sin(x * 2.0)


def assigned(x):
    made = x * 1.0
    made[..., 0] = ag.sin(x[..., 1])
    return made**2


@pytest.mark.parametrize("function", [doubled_sine, assigned])
def test_forward_over_reverse_through_a_checkpoint(function):
    def loss(x):
        return ag.sum(checkpoint(function, x) ** 2)

    x, v = ag.asarray(ROWS), ag.asarray(ALONG)
    _, pushed = ag.func.jvp(ag.func.grad(loss), (x,), (v,))
    wanted = difference(lambda x: ag.func.grad(lambda x: ag.sum(function(x) ** 2))(x), ROWS, ALONG)
    np.testing.assert_allclose(pushed.numpy(), wanted, rtol=1e-7, atol=1e-7)


def test_a_checkpoint_of_a_dual_tensor_is_differentiated_after_its_level():
    x = ag.asarray(ROWS, requires_grad=True)
    with ag.autograd.forward_ad.dual_level():
        y = checkpoint(doubled_sine, ag.autograd.forward_ad.make_dual(x, ag.asarray(ALONG)))
        primal = ag.autograd.forward_ad.unpack_dual(y).primal
    primal.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(2 * ROWS), rtol=1e-12)
