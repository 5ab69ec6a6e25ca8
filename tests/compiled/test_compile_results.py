"""Several results of a compiled function: each is differentiated as if the others were not there, alone or together."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import agrad as ag


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def point(*values):
    return ag.tensor(values or (0.5, -1.0), requires_grad=True)


def test_what_a_result_does_not_depend_on_gets_no_gradient():
    def train(wrap):
        ag.manual_seed(0)
        a, b = ag.nn.Linear(2, 1), ag.nn.Linear(2, 1)
        optimizer = ag.optim.AdamW([*a.parameters(), *b.parameters()], lr=0.1, weight_decay=0.1)
        both = wrap(lambda x: (a(x).sum(), b(x).sum()))
        for _ in range(8):
            optimizer.zero_grad()
            both(ag.asarray([1.0, 2.0]))[0].backward()
            optimizer.step()
        assert b.weight.grad is None
        return [p.detach().numpy() for p in (*a.parameters(), *b.parameters())]

    for found, expected in zip(train(ag.compile), train(lambda f: f), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_derivative_by_what_a_result_does_not_depend_on_is_an_error():
    f = ag.compile(lambda x, y: (x.sum(), (x * y).sum()), check=False)
    for _ in range(4):
        x, y = point(), point()
        a, b = f(x, y)
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            ag.autograd.grad(a, y, retain_graph=True)
        assert ag.autograd.grad(a, [x, y], allow_unused=True, retain_graph=True)[1] is None
        np.testing.assert_array_equal(ag.autograd.grad(b, y)[0].numpy(), [0.5, -1.0])


def test_results_that_share_nothing_are_differentiated_one_after_the_other():
    f = ag.compile(lambda x: (ag.exp(x).sum(), ag.sin(x).sum()), check=False)
    for _ in range(4):
        x = point()
        a, b = f(x)
        a.backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp([0.5, -1.0]))
        b.backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp([0.5, -1.0]) + np.cos([0.5, -1.0]))
        with pytest.raises(RuntimeError, match=r"second time(?s:.*)freed by the backward pass called at .*results\.py"):
            a.backward()
        with pytest.raises(RuntimeError, match="second time"):
            (a + b).backward()
    assert len(f.programs) == 1


def test_results_that_share_saved_values_need_a_retained_graph():
    def both(x):
        h = ag.exp(x)
        return (h * h).sum(), ag.sin(h).sum()

    f = ag.compile(both, check=False)
    for _ in range(4):
        x = point()
        h = np.exp([0.5, -1.0])
        a, b = f(x)
        a.backward(retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), 2 * h * h)
        b.backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * h * h + np.cos(h) * h)
        with pytest.raises(RuntimeError, match="second time"):
            a.backward()


def test_one_result_by_two_arguments_in_turn():
    f = ag.compile(lambda x, y: ag.exp(x).sum() + ag.sin(y).sum(), check=False)
    for _ in range(4):
        x, y = point(), point()
        result = f(x, y)
        np.testing.assert_allclose(ag.autograd.grad(result, x)[0].numpy(), np.exp([0.5, -1.0]))
        np.testing.assert_allclose(ag.autograd.grad(result, y)[0].numpy(), np.cos([0.5, -1.0]))
        with pytest.raises(RuntimeError, match="second time"):
            ag.autograd.grad(result, y)


def test_saved_values_go_with_the_last_result_that_needs_them():
    f = ag.compile(lambda x: (ag.exp(x).sum(), ag.sin(ag.cos(x)).sum()), check=False)
    f(point())
    for _ in range(3):
        a, b = f(point())
        node = a.grad_fn
        held = [sum(value is not None for value in node.saved)]
        a.backward()
        held.append(sum(value is not None for value in node.saved))
        b.backward()
        assert held[0] > held[1] > len(node.saved) == 0


def test_a_result_without_gradient_is_no_reason_for_a_nan():
    def both(x):
        return (x * 2).sum(), ag.sqrt(x).sum()  # the second has an infinite derivative at 0

    f = ag.compile(both, check=False)
    for _ in range(4):
        x = point(0.0, 4.0)
        f(x)[0].backward()
        np.testing.assert_array_equal(x.grad.numpy(), [2.0, 2.0])


def test_a_result_that_is_returned_twice():
    def twice(x):
        y = ag.exp(x)
        return y, y

    f = ag.compile(twice, check=False)
    for _ in range(4):
        x = point()
        a, b = f(x)
        (a.sum() + 2 * b.sum()).backward()
        np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp([0.5, -1.0]))


def test_many_cotangents_at_once():
    f = ag.compile(lambda x: (ag.exp(x), ag.sin(x) * x.sum()), check=False)
    v = np.asarray([0.5, -1.0])
    expected = np.diag(np.exp(v)), np.diag(np.cos(v) * v.sum()) + np.sin(v)[:, None]
    for _ in range(4):
        x = point()
        for result, jacobian in zip(f(x), expected, strict=True):
            (found,) = ag.autograd.grad(result, x, ag.eye(2), is_grads_batched=True, retain_graph=True)
            np.testing.assert_allclose(found.numpy(), jacobian, rtol=1e-12)


class Both(ag.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h


OPS = {
    "add": lambda a, b, hook: a + b,
    "mul": lambda a, b, hook: a * b,
    "exp": lambda a, b, hook: ag.exp(a * 0.1),
    "sum": lambda a, b, hook: a.sum() * ag.ones(4),
    "detach": lambda a, b, hook: a.detach() * b,
    "split": lambda a, b, hook: ag.concat([part * b[:2] for part in ag.split(a * 1.0, 2)][::-1]),
    "cat": lambda a, b, hook: ag.concat([a[:2], b[2:]]),
    "softmax": lambda a, b, hook: ag.nn.functional.softmax(a, 0) * b,
    "linear hook": lambda a, b, hook: hook(ag.sin(a), lambda g: g * 2.0),
    "affine hook": lambda a, b, hook: hook(ag.cos(a), lambda g: g + 1.0),
    "first of two": lambda a, b, hook: Both.apply(a, b)[0],
    "second of two": lambda a, b, hook: Both.apply(a, b)[1],
}


def hooked(value, hook):
    if value.requires_grad:
        value.register_hook(hook)
    return value


def a_function(chance):
    steps = [
        (chance.choice(list(OPS)), chance.randint(0, 2 + i), chance.randint(0, 2 + i))
        for i in range(chance.randint(4, 12))
    ]
    given = [chance.randint(3, 2 + len(steps)) for _ in range(chance.randint(2, 4))]

    def function(x, y, z):
        values = [x, y, z]
        for name, i, j in steps:
            values.append(OPS[name](values[i], values[j], hooked))
        return tuple(values[i] for i in given)

    return function, len(given), any("two" in name for name, *_ in steps)


def some_passes(chance, results, *, twice):
    kinds = ["backward", "grad", "all"] + ["create"] * twice
    return [
        (chance.choice(kinds), chance.sample(range(results), chance.randint(1, results)), chance.random() < 0.35)
        for _ in range(chance.randint(1, 4))
    ]


def seen_of(function, passes, seed):
    """Return what passes give, up to the first error and that."""
    drawn = np.random.default_rng(seed)
    xs = [ag.tensor(drawn.normal(size=4) + 0.5, requires_grad=True) for _ in range(3)]
    results = function(*xs)
    seen = []
    for kind, some, retain in passes:
        loss = sum((results[i] * (i + 1.0)).sum() for i in some)
        found = []
        try:
            if kind == "backward":
                loss.backward(retain_graph=retain)
            elif kind == "grad":
                found = ag.autograd.grad(loss, xs[some[0] % 3], retain_graph=retain)
            else:
                twice = kind == "create"
                kept = retain or twice
                found = ag.autograd.grad(loss, xs, retain_graph=kept, allow_unused=True, create_graph=twice)
            if kind == "create" and any(g is not None and g.requires_grad for g in found):
                total = sum(g.sum() for g in found if g is not None and g.requires_grad)
                found += ag.autograd.grad(total, xs, allow_unused=True, retain_graph=True)
        except RuntimeError as error:
            return [*seen, str(error)[:40]]
        seen += [None if g is None else g.detach().numpy() for g in (*found, *(x.grad for x in xs))]
    return seen


@pytest.mark.parametrize("seed", range(60))
def test_results_of_random_functions_in_random_passes(seed):
    chance = random.Random(seed)
    function, results, has_function = a_function(chance)
    compiled = ag.compile(function, check=False)
    passes = [some_passes(chance, results, twice=not has_function) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen_of(compiled, [], 0)
    for i, each in enumerate(passes):
        found, expected = (seen_of(run, each, i) for run in (compiled, function))
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            if a is None or isinstance(a, str):
                assert a == b
            else:
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mapped", [ag.vmap, lambda f: ag.vmap(ag.vmap(f))], ids=["a batch", "a batch of batches"])
def test_the_gradient_of_a_loss_passes_through_a_batch_that_is_returned_too(mapped):
    """From the loss alone the pass is derived from the one of both: its steps within the batch are those of the data."""
    weights = np.arange(1.0, 5.0).reshape(2, 2)

    def squares(row):
        made = row * 1.0
        made *= row
        return made

    def both(x):
        y = mapped(squares)(x)
        return y, ag.sum(y * weights)

    compiled = ag.compile(both)
    for i in range(5):
        x = ag.asarray(weights * 0.5 + i, requires_grad=True)
        y, loss = compiled(x)
        (of_loss,) = ag.grad(loss, x, retain_graph=True)
        (of_both,) = ag.grad((y, loss), x, (ag.ones((2, 2)), ag.asarray(1.0)))
        np.testing.assert_allclose(of_loss, 2 * x.detach().numpy() * weights, rtol=1e-14)
        np.testing.assert_allclose(of_both, 2 * x.detach().numpy() * (weights + 1), rtol=1e-14)
    assert len(compiled.programs) == 1
