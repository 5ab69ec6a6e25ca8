"""vmap: its arguments and errors, what it composes with, and that nothing depends on who else is in the batch."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.func import grad, jvp, vjp, vmap
from agrad.program.batching import _levels

X = np.arange(12.0).reshape(3, 4) / 7 + 0.3


def tensor(value, **options):
    return ag.asarray(np.asarray(value), **options)


# -- axes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_dim", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out_dim", [0, 1, 2, -1, -3])
def test_axes_in_and_out(in_dim, out_dim, close):
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    expected = np.moveaxis(np.moveaxis(x, in_dim, 0).transpose(0, 2, 1), 0, out_dim)
    close(vmap(lambda m: m.T * 1.0, in_dim, out_dim)(tensor(x)), expected)


def test_containers_of_axes(close):
    def f(p, pair):
        return {"s": p["a"] + pair[0], "t": pair[1] * 2}

    arguments = {"a": tensor(X)}, (tensor(1.0), tensor(np.ones(4)))
    found = vmap(f, ({"a": 1}, (None, 0)), {"s": 1, "t": 0})(*arguments)
    close(found["s"], X + 1)
    close(found["t"], 2 * np.ones(4))


def test_what_is_not_mapped(close):
    def f(x, n, *, scale):
        assert n == 2
        return x * scale

    close(vmap(f, (0, None))(tensor(X), 2, scale=tensor([1.0, 2.0, 3.0, 4.0])), X * [1.0, 2.0, 3.0, 4.0])
    close(vmap(lambda x: ag.ones(2))(tensor(X)), np.ones((3, 2)))
    y, z = vmap(lambda x: (x, 5), 0, (0, None))(tensor(X))
    assert z == 5
    close(y, X)


def test_arrays_of_a_library_are_taken(close):
    close(vmap(lambda x: x + 1)(X), X + 1)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 100])
def test_chunks(chunk_size, close):
    close(vmap(lambda x: x * ag.sum(x), out_dims=1, chunk_size=chunk_size)(tensor(X)), (X * X.sum(1, keepdims=True)).T)


def test_an_empty_batch():
    assert vmap(lambda x: ag.sum(x))(ag.zeros((0, 4))).shape == (0,)


@settings(max_examples=30, deadline=None)
@given(
    batch=st.integers(1, 3),
    first=st.lists(st.integers(1, 3), max_size=3),
    drop=st.lists(st.booleans(), min_size=3, max_size=3),
    lead=st.integers(0, 3),
)
def test_broadcasting_within_examples(batch, first, drop, lead):
    second = [1 if d else n for n, d in zip(first, drop, strict=False)][lead:]
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(batch, *first)), rng.normal(size=(batch, *second))
    expected = np.stack([p * q - p for p, q in zip(a, b, strict=True)])
    f = lambda p, q: p * q - p
    np.testing.assert_allclose(vmap(f)(tensor(a), tensor(b)).numpy(), expected)
    half = np.stack([a[0] * q - a[0] for q in b])
    np.testing.assert_allclose(vmap(f, (None, 0))(tensor(a[0]), tensor(b)).numpy(), half)


# -- composing ------------------------------------------------------------------------------------------------------------


def test_vmap_of_vmap(close):
    outer = vmap(lambda a: vmap(lambda b: a * b)(tensor([1.0, 2.0])))(tensor([1.0, 2.0, 3.0]))
    close(outer, np.outer([1.0, 2.0, 3.0], [1.0, 2.0]))
    x, y = np.random.default_rng(0).normal(size=(2, 3)), np.random.default_rng(1).normal(size=(4, 3))
    gram = vmap(vmap(lambda a, b: ag.vecdot(a, b), (None, 0)), (0, None))(tensor(x), tensor(y))
    close(gram, x @ y.T)
    crossed = vmap(vmap(lambda a, b: ag.matmul(a, b), (0, None)), (None, 0), 1)(tensor(x), tensor(y))
    close(crossed, x @ y.T)


def mlp(p, x, t):
    h = ag.tanh(ag.matmul(p["w1"], x) + p["b1"])
    return ((ag.matmul(p["w2"], h) - t) ** 2).sum()


def parameters(rng):
    shapes = {"w1": (5, 4), "b1": (5,), "w2": (2, 5)}
    return {name: tensor(rng.normal(size=shape)) for name, shape in shapes.items()}


def test_gradients_of_every_example(value):
    rng = np.random.default_rng(0)
    p, x, t = parameters(rng), rng.normal(size=(6, 4)), rng.normal(size=(6, 2))
    found = vmap(grad(mlp), (None, 0, 0))(p, tensor(x), tensor(t))
    for k in range(6):
        leaves = {name: v.detach().requires_grad_() for name, v in p.items()}
        mlp(leaves, tensor(x[k]), tensor(t[k])).backward()
        for name, leaf in leaves.items():
            np.testing.assert_allclose(value(found[name])[k], value(leaf.grad), rtol=1e-12, atol=1e-14)


def test_gradient_through_vmap(value):
    rng = np.random.default_rng(0)
    p, x, t = parameters(rng), rng.normal(size=(6, 4)), rng.normal(size=(6, 2))
    whole = grad(lambda p: vmap(mlp, (None, 0, 0))(p, tensor(x), tensor(t)).sum())(p)
    leaves = {name: v.detach().requires_grad_() for name, v in p.items()}
    vmap(lambda x, t: mlp(leaves, x, t))(tensor(x), tensor(t)).sum().backward()
    for name, leaf in leaves.items():
        total = sum(value(grad(lambda q, k=k: mlp(q, tensor(x[k]), tensor(t[k])))(p)[name]) for k in range(6))
        np.testing.assert_allclose(value(whole[name]), total, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(value(leaf.grad), total, rtol=1e-12, atol=1e-13)


def test_what_the_examples_share_gets_the_sum(close):
    w = tensor(2.0, requires_grad=True)
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = vmap(lambda x: w * x * x + w)(x)
    y.sum().backward()
    close(w.grad, 1 + 4 + 9 + 3)
    close(x.grad, [4.0, 8.0, 12.0])
    w.grad = None
    vmap(lambda x: w * 3.0)(x).sum().backward()  # no part of it depends on the example
    close(w.grad, 9.0)


def test_higher_orders_through_vmap(close):
    x = tensor([1.0, 2.0])
    w = tensor(3.0)
    # sum over examples of w^2 x^3: by w twice, by w and x
    f = lambda w, x: vmap(lambda e: w * w * e**3)(x).sum()
    close(grad(grad(f))(w, x), 2 * 9.0)
    close(grad(lambda x: grad(f)(w, x))(x), 2 * 3.0 * 3 * np.array([1.0, 4.0]))
    # the gradient of every example, differentiated from outside
    per = lambda w: (vmap(lambda e: grad(lambda v: v**2 * e**3)(w))(x) ** 2).sum()
    close(grad(per)(w), 8 * 3.0 * 65.0)


def test_forward_mode_inside_and_outside(close):
    x, t = tensor([1.0, 2.0, 3.0]), tensor([1.0, 10.0, 100.0])
    inside = vmap(lambda x, t: jvp(lambda x: x**3, (x,), (t,))[1])(x, t)
    close(inside, [3.0, 120.0, 2700.0])
    w = tensor(2.0)
    _, outside = jvp(lambda w, x: vmap(lambda x: w * x**3)(x), (w, x), (tensor(1.0), t))
    close(outside, np.array([1.0, 8.0, 27.0]) + 2 * np.array([3.0, 120.0, 2700.0]))
    _, basis = vjp(lambda x: x**2, x)
    close(vmap(lambda g: basis(g)[0])(ag.eye(3)), np.diag([2.0, 4.0, 6.0]))


def test_autograd_grad_inside_gives_a_gradient_per_example(close):
    w = tensor(2.0, requires_grad=True)
    found = vmap(lambda x: ag.autograd.grad(w * w * x, w)[0])(tensor([1.0, 2.0]))
    close(found, [4.0, 8.0])


def test_batched_cotangents(close):
    x = tensor([1.0, 2.0], requires_grad=True)
    w = tensor(1.0, requires_grad=True)
    y = x**3
    (found,) = ag.autograd.grad(y, x, ag.eye(2), is_grads_batched=True, retain_graph=True)
    close(found, np.diag([3.0, 12.0]))
    by_x, by_w = ag.autograd.grad(y, (x, w), ag.eye(2), is_grads_batched=True, allow_unused=True, retain_graph=True)
    close(by_x, np.diag([3.0, 12.0]))
    assert by_w is None
    _, zero = ag.autograd.grad(y, (x, w), ag.eye(2), is_grads_batched=True, materialize_grads=True, retain_graph=True)
    close(zero, [0.0, 0.0])
    (g,) = ag.autograd.grad(y, x, ag.eye(2), is_grads_batched=True, create_graph=True)
    close(ag.autograd.grad(g.sum(), x)[0], [6.0, 12.0])
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first dimension"):
        ag.autograd.grad(x * 1, x, ag.ones(2), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="to not have been used in the graph"):
        ag.autograd.grad(x * 1, w, ag.eye(2), is_grads_batched=True)


@pytest.mark.parametrize("batched", [(0, 0), (0, None), (None, 0)])
def test_pull_backs_in_place_of_a_loop(batched, close):
    a, b = np.random.default_rng(0).normal(size=(2, 3, 4))
    rows = lambda m, d: m if d == 0 else np.broadcast_to(m[0], m.shape)
    args = [tensor(m if d == 0 else m[0]) for m, d in zip((a, b), batched, strict=True)]
    by_a, by_b = vmap(grad(lambda p, q: (p * p * q).sum(), (0, 1)), batched)(*args)
    close(by_a, 2 * rows(a, batched[0]) * rows(b, batched[1]))
    close(by_b, rows(a, batched[0]) ** 2)


# -- indexing ---------------------------------------------------------------------------------------------------------------

I3 = np.array([2, 0, 3])
KEYS = {
    "one": lambda i: i,
    "behind a slice": lambda i: (slice(None), i),
    "apart": lambda i: (i, slice(None), i),
    "two": lambda i: (i, i),
    "with an int": lambda i: (slice(None), 1, i),
    "ellipsis": lambda i: (Ellipsis, i),
    "new axis": lambda i: (None, i),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("whole", [False, True], ids=["an array per example", "one array"])
def test_keys_that_differ_by_example(key, several, whole, close):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 4, 4)) if whole else rng.normal(size=(3, 4, 4, 4))
    i = np.stack([I3, (I3 + 1) % 4], axis=1) if several else I3  # (3, 2) or (3,)
    row = lambda k: x if whole else x[k]
    f = lambda x, i: x[key(i)]
    in_dims = (None if whole else 0, 0)
    expected = np.stack([row(k)[key(i[k])] for k in range(3)])
    close(vmap(f, in_dims)(tensor(x), tensor(i)), expected)
    g = rng.normal(size=expected.shape)
    adjoint = np.zeros((3, 4, 4, 4))
    for k in range(3):
        np.add.at(adjoint[k], key(i[k]), g[k])
    pulled = vmap(lambda x, i, g: vjp(lambda x: f(x, i), x)[1](g)[0], (*in_dims, 0))(tensor(x), tensor(i), tensor(g))
    close(pulled, adjoint, atol=1e-14)

    def put(x, i, v):
        x = x * 1.0
        x[key(i)] = v
        return x

    v = rng.normal(size=expected.shape)
    changed = np.stack([row(k).copy() for k in range(3)])
    for k in range(3):
        changed[k][key(i[k])] = v[k]
    close(vmap(put, (*in_dims, 0))(tensor(x), tensor(i), tensor(v)), changed)


def test_assignment_inside(close):
    def f(x, i):
        made = ag.zeros(4)
        made[i] = x[0]
        made[0] = x[1]
        made += 1
        return made

    expected = np.ones((3, 4))
    for k in range(3):
        expected[k, k + 1] += X[k, 0]
        expected[k, 0] += X[k, 1]
    close(vmap(f)(tensor(X), tensor([1, 2, 3])), expected)


def test_masks(close):
    mask = X > 1.0
    close(vmap(lambda x, m: ag.where(m, x, 0.0))(tensor(X), tensor(mask)), np.where(mask, X, 0.0))

    def fill(x, m):
        x = x * 1
        x[m] = -1.0
        return x

    close(vmap(fill)(tensor(X), tensor(mask)), np.where(mask, -1.0, X))
    close(vmap(lambda x: x[tensor([True, False, True, False])])(tensor(X)), X[:, [0, 2]])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_at_indices_of_the_example(axis, close):
    x, i = np.random.default_rng(0).normal(size=(3, 4, 5)), np.array([[0, 3], [2, 2], [1, 0]])
    expected = np.stack([np.take(x[k], i[k], axis=axis) for k in range(3)])
    close(vmap(lambda x, i: ag.take(x, i, axis=axis))(tensor(x), tensor(i)), expected)
    expected = np.stack([np.take(x[0], i[k], axis=axis) for k in range(3)])
    close(vmap(lambda x, i: ag.take(x, i, axis=axis), (None, 0))(tensor(x[0]), tensor(i)), expected)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searching(side, close):
    rng = np.random.default_rng(0)
    x, v = np.sort(rng.integers(0, 5, (3, 6)), axis=1), rng.integers(0, 5, (3, 2, 2))
    expected = np.stack([np.searchsorted(a, b, side=side) for a, b in zip(x, v, strict=True)])
    close(vmap(lambda x, v: ag.searchsorted(x, v, side=side))(tensor(x), tensor(v)), expected)
    close(vmap(lambda v: ag.searchsorted(tensor(x[0]), v, side=side))(tensor(v)), np.searchsorted(x[0], v, side=side))
    close(vmap(ag.isin)(tensor(x), tensor(v[:, 0])), np.stack([np.isin(a, b) for a, b in zip(x, v[:, 0], strict=True)]))
    close(vmap(lambda x: ag.argmax(x))(tensor(X)), [3, 3, 3])
    close(vmap(lambda x: ag.argmax(x, axis=0, keepdims=True))(tensor(X)), [[3], [3], [3]])


def test_axes_are_those_of_the_example():
    for f in (
        lambda x: ag.sum(x, axis=1),
        lambda x: ag.sort(x, axis=1),
        lambda x: ag.flip(x, axis=1),
        lambda x: ag.expand_dims(x, axis=3),
        lambda x: ag.concat([x, x], axis=-2),
    ):
        with pytest.raises((IndexError, ValueError)):
            vmap(f)(tensor(X))
    for f in (lambda x: ag.linalg.inv(x), lambda x: ag.matrix_transpose(x), lambda x: ag.linalg.solve(x, x)):
        with pytest.raises(ValueError):
            vmap(f)(tensor(np.eye(3)))
    with pytest.raises(ValueError, match="reshape"):
        vmap(lambda x: ag.reshape(x, (12,)))(tensor(X))


# -- layers -----------------------------------------------------------------------------------------------------------------

F = ag.nn.functional
IMAGES = np.random.default_rng(0).normal(size=(3, 2, 4, 6, 6))  # three examples of two images of four channels
FILTERS = np.random.default_rng(1).normal(size=(3, 6, 2, 3, 3))
LAYERS = {
    "conv2d": (lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=2), IMAGES, FILTERS),
    "conv2d with bias": (lambda x, w: F.conv2d(x, w, w[:, 0, 0, 0], groups=2), IMAGES, FILTERS),
    "max_pool2d": (lambda x, w: F.max_pool2d(x, 2) * w.sum(), IMAGES, FILTERS),
    "avg_pool2d": (lambda x, w: F.avg_pool2d(x, 3, stride=2, padding=1) * w.sum(), IMAGES, FILTERS),
    "linear": (lambda x, w: F.linear(x, w), IMAGES[:, 0, 0], FILTERS[:, :, 0, 0, :][:, :, [0, 1, 2, 0, 1, 2]]),
    "layer_norm": (lambda x, w: F.layer_norm(x, (6,), w, w * 2), IMAGES[:, 0, 0], FILTERS[:, :, 0, 0, 0]),
    "cross_entropy": (
        lambda x, w: F.cross_entropy(x * w, ag.tensor([0, 5, 2, 1, 1, 3])),
        IMAGES[:, 0, 0],
        FILTERS[:, :, 0, 0, 0],
    ),
    "softmax": (
        lambda x, w: F.softmax(x * w, dim=0) * F.log_softmax(x, dim=-1),
        IMAGES[:, 0, 0],
        FILTERS[:, :, 0, 0, 0],
    ),
    "gelu and pad": (lambda x, w: F.pad(F.gelu(x * w), (1, 2)), IMAGES[:, 0, 0], FILTERS[:, :, 0, 0, 0]),
    "mse_loss": (lambda x, w: F.mse_loss(x, w), IMAGES[:, 0, 0, 0], FILTERS[:, :, 0, 0, 0]),
}


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize(("f", "x", "w"), LAYERS.values(), ids=LAYERS)
def test_layers(f, x, w, in_dims, value):
    rows = [[tensor(m[k] if d == 0 else m[0]) for m, d in zip((x, w), in_dims, strict=True)] for k in range(3)]
    args = [tensor(m if d == 0 else m[0]) for m, d in zip((x, w), in_dims, strict=True)]
    np.testing.assert_allclose(
        value(vmap(f, in_dims)(*args)), np.stack([value(f(*row)) for row in rows]), rtol=1e-10, atol=1e-12
    )
    loss = lambda x, w: (f(x, w) ** 2).sum()
    found = vmap(grad(loss, (0, 1)), in_dims)(*args)
    expected = [grad(loss, (0, 1))(*row) for row in rows]
    for g, gs in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(value(g), np.stack([value(v) for v in gs]), rtol=1e-9, atol=1e-10)


def test_labels_of_the_example(value):
    logits, labels = np.random.default_rng(0).normal(size=(4, 5)), np.array([0, 4, 2, 2])
    found = vmap(grad(lambda x, t: F.cross_entropy(x, t)))(tensor(logits), tensor(labels))
    e = np.exp(logits)
    expected = e / e.sum(1, keepdims=True) - np.eye(5)[labels]
    np.testing.assert_allclose(value(found), expected, rtol=1e-10, atol=1e-12)
    table = np.random.default_rng(1).normal(size=(6, 3))
    rows = vmap(lambda i, w: F.embedding(i, w), (0, None))(tensor(labels), tensor(table))
    np.testing.assert_allclose(value(rows), table[labels])


# -- randomness -------------------------------------------------------------------------------------------------------------


def test_randomness():
    x = tensor(X)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(lambda x: x + ag.rand(4))(x)
    same = vmap(lambda x: ag.rand(4) + 0 * x, randomness="same")(x).numpy()
    assert (same == same[0]).all()
    different = vmap(lambda x: ag.randn(4) + 0 * x, randomness="different")(x).numpy()
    assert len(np.unique(different)) == 12
    orders = vmap(lambda x: ag.randperm(4), randomness="different")(ag.zeros((50,))).numpy()
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    assert len(np.unique(orders, axis=0)) > 1
    nested = vmap(vmap(lambda x: ag.rand(()) + x * 0, randomness="different"), randomness="same")(x).numpy()
    assert (nested == nested[0]).all()
    assert len(np.unique(nested)) == 4
    dropped = vmap(lambda x: F.dropout(x, 0.5), randomness="different")(ag.ones((20, 10))).numpy()
    assert len(np.unique(dropped, axis=0)) > 10
    with pytest.raises(
        RuntimeError, match=r"Only allowed values for randomness are 'error', 'different', or 'same'\. Got foo"
    ):
        vmap(lambda x: x, randomness="foo")


# -- Functions of the user's ---------------------------------------------------------------------------------------------------


class Scaled(ag.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 2 * x * w * g, x * x * g


class Outside(ag.Function):
    @staticmethod
    def forward(x):
        return ag.asarray(x.numpy() * 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def vmap(info, in_dims, x):
        assert (info.batch_size, info.randomness, in_dims) == (3, "error", (0,))
        return Outside.apply(x), 0


class Refused(ag.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def test_functions(close):
    w = tensor([1.0, 2.0, 3.0, 4.0])
    close(vmap(Scaled.apply, (0, None))(tensor(X), w), X * X * [1.0, 2.0, 3.0, 4.0])
    by_x, by_w = vmap(grad(lambda x, w: Scaled.apply(x, w).sum(), (0, 1)), (0, None))(tensor(X), w)
    close(by_x, 2 * X * [1.0, 2.0, 3.0, 4.0])
    close(by_w, X * X)
    close(grad(lambda w: vmap(Scaled.apply, (0, None))(tensor(X), w).sum())(w), (X * X).sum(0))
    close(vmap(Outside.apply)(tensor(X)), 2 * X)
    close(vmap(grad(lambda x: (Outside.apply(x) ** 2).sum()))(tensor(X)), 8 * X)
    close(grad(lambda x: (vmap(Outside.apply)(x) ** 2).sum())(tensor(X)), 8 * X)
    with pytest.raises(RuntimeError, match="You tried to vmap over Refused, but it does not have vmap support"):
        vmap(Refused.apply)(tensor(X))
    close(vmap(lambda x: x + Refused.apply(ag.ones(4)))(tensor(X)), X + 2)  # nothing in it is mapped over


# -- leaving, and errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "attempting to use a Tensor in some data-dependent control flow"),
        (lambda x: not x.sum(), "attempting to use a Tensor in some data-dependent control flow"),
        (lambda x: x * float(x[0]), "you're calling .item() on a Tensor"),
        (lambda x: x.sum().item(), "you're calling .item() on a Tensor"),
        (lambda x: x.numpy(), "numpy() of a Tensor that is being mapped over"),
        (lambda x: x.tolist(), "tolist() of a Tensor that is being mapped over"),
        (lambda x: x[x > 1], "Attempting to batch over indexing with a boolean mask"),
        (lambda x: ag.nonzero(x), "can output dynamic shape. Attempted to vmap over nonzero"),
        (lambda x: ag.unique_values(x), "can output dynamic shape"),
        (lambda x: ag.autograd.grad((X_LEAF * x).sum(), X_LEAF_SOURCE)[0], "to not have been used"),
    ],
)
def test_what_needs_a_value_is_refused(f, message):
    with pytest.raises(RuntimeError) as raised:
        vmap(f)(tensor(X))
    assert message in str(raised.value)


X_LEAF = tensor(X[0], requires_grad=True)
X_LEAF_SOURCE = tensor(X[0], requires_grad=True)


def test_differentiating_inside_by_the_whole_batch_is_refused():
    x = tensor(X, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot differentiate inside the mapped function by a Tensor whose axis"):
        vmap(lambda row: ag.autograd.grad(row.sum(), x)[0])(x)


@ag.linear(name="testing.lonely", x=lambda g: g)
def lonely(x, /):
    """An op without a kernel."""


def test_an_op_without_a_rule_is_named():
    with pytest.raises(ag.UnsupportedOp, match=r"testing.lonely is not supported by the vmap backend"):
        vmap(lonely)(tensor(X))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: vmap(lambda x: x, 1)(x[0]),
            ValueError,
            "Got in_dim=1 for some input, but that input is a Tensor of dimensionality 1 so expected in_dim to satisfy -1 <= in_dim < 1.",
        ),
        (
            lambda x: vmap(lambda x: x, None)(x),
            ValueError,
            "expected `in_dims` to be int or a (potentially nested) tuple",
        ),
        (lambda x: vmap(lambda x: x, "a")(x), ValueError, "expected `in_dims` to be int"),
        (
            lambda x: vmap(lambda x: x, (0, 0))(x),
            ValueError,
            "in_dims is not compatible with the structure of `inputs`",
        ),
        (lambda x: vmap(lambda x: x, ("a",))(x), ValueError, "in_dim must be either an integer dimension or None"),
        (lambda x: vmap(lambda x: x, (None,))(x), ValueError, "at least one input must be mapped over"),
        (lambda x: vmap(lambda x: x)(), ValueError, "got no inputs"),
        (lambda x: vmap(lambda x: x)(3.0), ValueError, "We cannot vmap over non-Tensor arguments"),
        (
            lambda x: vmap(lambda x, y: x)(x, x[:2]),
            ValueError,
            "Expected all tensors to have the same size in the mapped dimension, got sizes [3, 2]",
        ),
        (
            lambda x: vmap(lambda x: 3.0)(x),
            ValueError,
            "must only return Tensors, got type <class 'float'>. Did you mean to set out_dims= to None for output?",
        ),
        (
            lambda x: vmap(lambda x: x, out_dims=None)(x),
            ValueError,
            "can not return a BatchedTensor when out_dim is None",
        ),
        (
            lambda x: vmap(lambda x: x, out_dims=2)(x),
            IndexError,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
        ),
        (
            lambda x: vmap(lambda x: x, out_dims=(0, 0))(x),
            ValueError,
            "out_dims is not compatible with the structure of `outputs`",
        ),
        (
            lambda x: vmap(lambda x: x, out_dims="a")(x),
            ValueError,
            "`out_dims` must be an int, None or a python collection of ints",
        ),
        (
            lambda x: vmap(lambda x: x, chunk_size=0)(x),
            ValueError,
            "chunk_size should be None or greater than 0. (got 0)",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as raised:
        call(tensor(X))
    assert message in str(raised.value)


def test_printing_shows_all_examples():
    shown = []
    vmap(lambda x: shown.append(repr(x)) or x)(tensor([1.0, 2.0]))
    assert re.fullmatch(r"BatchedTensor\(lvl=\d+, value=tensor\(\[1\., 2\.\]\)\)", shown[0])


def test_nothing_is_left_behind():
    for _ in range(3):
        vmap(grad(lambda x: (x * x).sum()))(tensor(X))
        with pytest.raises(RuntimeError):
            vmap(lambda x: x.item())(tensor(X))
    gc.collect()
    assert not dict(_levels)


def test_on_every_backend(backend, make, close):
    xp = ag.namespace(backend)
    f = lambda w, x: xp.sum(xp.square(xp.tanh(xp.matmul(w, x))))
    w, x = np.random.default_rng(0).normal(size=(3, 4)), np.random.default_rng(1).normal(size=(5, 4))
    found = vmap(grad(f), (None, 0))(make(w), make(x))
    assert found.device == backend
    t = np.tanh(x @ w.T)
    close(found, (2 * t * (1 - t * t))[:, :, None] * x[:, None, :], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("backend", ["dask"], indirect=True)
def test_on_dask(backend, close):
    import dask.array as da

    x = np.random.default_rng(0).normal(size=(6, 4))
    xs = ag.asarray(da.from_array(x, chunks=(2, 4)))
    found = vmap(grad(lambda x: ag.sum(ag.sin(x) * x)))(xs)
    assert found.device == "dask"
    close(found, np.cos(x) * x + np.sin(x))


def test_lists_of_axes_and_the_name_at_the_top(close):
    close(ag.vmap(lambda a, b: a * b, [0, None])(tensor(X), tensor(2.0)), 2 * X)


# -- derivatives of higher orders, outside of the mapped function ----------------------------------------------------------


def mapped_jvp(x):
    """The value does not depend on the batch, its tangents do."""
    tangents = ag.asarray([1.0, 2.0])
    return ag.sum(ag.vmap(lambda v: ag.func.jvp(lambda y: ag.tanh(y * y), (x,), (v,))[1])(tangents))


def shared(x):
    """What all members share enters in several ways, by functions of its own too."""
    return ag.sum(ag.vmap(lambda v: v * ag.sin(x) / (1.0 + x * x) + ag.exp(-x * v))(ag.asarray([0.5, -1.2, 0.7])))


def by_jacfwd(x):
    return ag.sum(ag.func.jacfwd(lambda y: ag.tanh(ag.stack([y * y, ag.sin(y)])))(x))


def nested(x):
    inner = lambda u: ag.sum(ag.vmap(lambda v: ag.sin(u * x) * v + ag.cos(v * x))(ag.asarray([0.3, 0.9])))
    return ag.sum(ag.vmap(inner)(ag.asarray([1.0, -0.4, 0.2])))


class Cubed(ag.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, v):
        return x * x * x * v

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, v = ctx.saved_tensors
        return g * 3.0 * x * x * v, g * x * x * x


def of_the_users(x):
    return ag.sum(ag.vmap(lambda v: ag.sin(Cubed.apply(x, v)))(ag.asarray([0.5, -1.2, 0.7])))


@pytest.mark.parametrize("function", [mapped_jvp, shared, by_jacfwd, nested, of_the_users])
def test_second_and_third_derivatives_by_what_all_members_share(function):
    at, step = 0.7, 1e-5

    def derivatives(value):
        x = ag.tensor(value, dtype=ag.float64, requires_grad=True)
        orders = [function(x)]
        for _ in range(3):
            orders += ag.autograd.grad(orders[-1], x, create_graph=True)
        orders += ag.autograd.grad(orders[0] + orders[1] + orders[2], x)
        return np.array([order.item() for order in orders])

    here, above, below = derivatives(at), derivatives(at + step), derivatives(at - step)
    slopes = (above - below) / (2 * step)
    np.testing.assert_allclose(here[1:4], slopes[:3], rtol=1e-7, atol=1e-8)
    assert here[4] == pytest.approx(here[1:4].sum(), rel=1e-10)


@pytest.mark.parametrize("pool", [ag.nn.functional.avg_pool2d, ag.nn.functional.max_pool2d])
def test_an_empty_batch_of_pooled_images(pool):
    images = ag.zeros((0, 2, 3, 4, 4))
    assert ag.vmap(lambda x: pool(x, 2))(images).shape == (0, 2, 3, 2, 2)
    assert ag.vmap(ag.func.grad(lambda x: pool(x, 2).sum()))(images).shape == images.shape


@pytest.mark.parametrize("argnums", [0, 1])
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None)])
def test_an_empty_batch_of_convolved_images(argnums, in_dims):
    conv2d = ag.nn.functional.conv2d
    images, weights = ag.zeros((0, 2, 3, 5, 5)), ag.zeros((0, 4, 3, 2, 2))
    if in_dims[1] is None:
        weights = ag.zeros((4, 3, 2, 2))
    assert ag.vmap(conv2d, in_dims)(images, weights).shape == (0, 2, 4, 4, 4)
    gradient = ag.vmap(ag.func.grad(lambda x, w: conv2d(x, w).sum(), argnums), in_dims)(images, weights)
    assert gradient.shape == (0, *((2, 3, 5, 5) if argnums == 0 else (4, 3, 2, 2)))


def test_a_rule_with_several_gradients_where_operators_of_arrays_refuse_batches(strict_backend):
    a, b = ag.asarray([[1.0, 2.0], [3.0, 4.0]], device="strict"), ag.asarray([[1.0, 2.0], [3.0, 5.0]], device="strict")
    gradients = ag.vmap(ag.func.grad(lambda x, y: ag.sum(ag.concat([x, y]) ** 3), (0, 1)))(a, b)
    for found, x in zip(gradients, ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 5.0]]), strict=True):
        np.testing.assert_allclose(found.tolist(), 3 * np.square(x))
