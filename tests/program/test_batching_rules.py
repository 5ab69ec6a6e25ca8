"""Every op under vmap against a loop over the batch: values and the gradients of every example, on every sample."""

from __future__ import annotations

import re

import numpy as np
import pytest

import agrad as ag
from agrad.core.facts import WITHOUT_OP
from agrad.core.op import OPS
from agrad.func import jvp, vjp, vmap
from agrad.ops.batch_rules import pointwise
from agrad.testing import calls
from agrad.testing.samples import SAMPLES

#: Of ops that act element by element, whose batching is one and the same, so many samples.
FEW = 2

#: What the examples of a batch differ by. Scaling keeps symmetry, order and the distance from kinks.
FACTORS = (1.0, 0.97, 1.02)

ALL = [
    sample
    for op, samples in SAMPLES.items()
    for sample in (samples[:FEW] if OPS[op].rule.kind == "elementwise" else samples)
]


class Call(calls.SampleCall):
    """A sample's call as a function of its inexact arrays, on a backend."""

    def __init__(self, sample, backend):
        super().__init__(sample)
        self.backend = backend

    def tensor(self, array):
        return ag.asarray(np.asarray(array), device=self.backend)

    def __call__(self, *tensors):
        return tuple(self.tensors(tensors, self.tensor))


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


def patterns(count):
    """Which operands carry the batch: all, then each alone."""
    yield (True,) * count
    if count > 1:
        yield from (tuple(i == k for i in range(count)) for k in range(min(count, 3)))


def close(got, expected):
    got, expected = host(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10 * scale)


def like(rng, array):
    made = rng.uniform(0.5, 1.5, array.shape)
    return made + 1j * rng.uniform(-1, 1, array.shape) if np.iscomplexobj(array) else made


def stacked(rows):
    """Give the columns of a table of tensors, each as one array."""
    return [np.stack([host(v) for v in column]) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("sample", ALL, ids=[f"{i}-{s}" for i, s in enumerate(ALL)])
def test_every_sample_agrees_with_a_loop(sample, backend):
    if backend != "numpy" and sample.beyond:
        pytest.skip(sample.beyond)
    if backend != "numpy" and OPS[sample.op].batch in (None, pointwise):
        pytest.skip("no rule of its own, so nothing that a backend could lack")
    call = Call(sample, backend)
    if not call.operands:
        pytest.skip("no operand to map over")
    rng = np.random.default_rng(3)
    every = patterns(len(call.operands)) if backend == "numpy" else [(True,) * len(call.operands)]
    for pattern in every:
        rows = [
            [call.tensor(a * f if mapped else a) for a, mapped in zip(call.arrays, pattern, strict=True)]
            for f in FACTORS
        ]
        columns = [
            call.tensor(np.stack([host(row[i]) for row in rows])) if mapped else rows[0][i]
            for i, mapped in enumerate(pattern)
        ]
        in_dims = tuple(0 if mapped else None for mapped in pattern)
        expected = [call(*row) for row in rows]
        got = vmap(call, in_dims)(*columns)
        for y, value in zip(got, stacked(expected), strict=True):
            close(y, value)
        if backend != "numpy" or not any(y._spec.inexact for y in expected[0]):
            continue
        cotangents = [like(rng, host(y)) for y in got]

        def gradients(gs, *xs):
            return vjp(call, *xs)[1](tuple(gs))

        one_by_one = [gradients([call.tensor(g[k]) for g in cotangents], *row) for k, row in enumerate(rows)]
        of_examples = stacked(one_by_one)
        cotangents = [call.tensor(g) for g in cotangents]
        for g, value in zip(vmap(gradients, (0, *in_dims))(cotangents, *columns), of_examples, strict=True):
            close(g, value)
        # differentiated from outside, what all examples share gets the sum
        outside = vjp(lambda *xs: vmap(call, in_dims)(*xs), *columns)[1](tuple(cotangents))  # noqa: B023 (run at once)
        for g, value, mapped in zip(outside, of_examples, pattern, strict=True):
            close(g, value if mapped else value.sum(axis=0))
        if not all(pattern) or (call.op.rule.jvp is None and call.op.rule.kind == "custom"):
            continue
        directions = [like(rng, host(x)) for x in columns]

        def tangents(xs, ts):
            return jvp(call, tuple(xs), tuple(ts))[1]

        pushed = [
            tangents(row, [call.tensor(t[k] if mapped else t) for t, mapped in zip(directions, pattern, strict=True)])
            for k, row in enumerate(rows)
        ]
        mapped_tangents = vmap(tangents, (in_dims, in_dims))(tuple(columns), tuple(map(call.tensor, directions)))
        for t, value in zip(mapped_tangents, stacked(pushed), strict=True):
            close(t, value)


def test_there_are_samples():
    assert len(ALL) > 500
    assert list(patterns(2)) == [(True, True), (True, False), (False, True)]


def test_every_op_has_a_rule_or_a_reason():
    own = {name: op for name, op in OPS.items() if op.entry.__module__.startswith("agrad.")}
    without = {
        name
        for name, op in own.items()
        if op.batch is None
        and op.kernel is None
        and not op.facts.dynamic
        and op.rule.kind != "elementwise"
        and not op.rule.boolean
    }
    assert not without
    assert not OPS.keys() & WITHOUT_OP


X = np.random.default_rng(0).normal(size=(3, 4, 5))
Y = np.random.default_rng(1).normal(size=(3, 4, 5))
CALLS = {
    "median": lambda x, y: ag.extra.median(x, axis=0) + ag.extra.median(y),
    "quantile": lambda x, y: ag.extra.quantile(x * y, 0.3, axis=1),
    "topk": lambda x, y: ag.extra.topk(x + y, 2)[0],
    "einsum": lambda x, y: ag.einsum("ij,kj->ki", x, y),
    "einsum of three": lambda x, y: ag.einsum("ij,kj,k->i", x, y, x[:, 0]),
    "convolve": lambda x, y: ag.extra.convolve(x[0], y[0, :3], "same"),
    "kron": lambda x, y: ag.extra.kron(x, y),
    "cov": lambda x, y: ag.extra.cov(x - y),
    "trapezoid": lambda x, y: ag.extra.trapezoid(x, dx=0.5, axis=0) * y[0],
    "logsumexp": lambda x, y: ag.special.logsumexp(x * y, axis=1),
    "gammaln": lambda x, y: ag.special.gammaln(ag.abs(x) + 1) * y,
    "l1_loss": lambda x, y: ag.nn.functional.l1_loss(x, y),
    "mse_loss": lambda x, y: ag.nn.functional.mse_loss(x, y, reduction="sum"),
    "bce": lambda x, y: ag.nn.functional.binary_cross_entropy_with_logits(x, ag.nn.functional.sigmoid(y)),
    "nll_loss": lambda x, y: ag.nn.functional.nll_loss(x * y, ag.tensor([0, 1, 4, 4])),
    "norms": lambda x, y: ag.linalg.vector_norm(x, ord=3) * ag.linalg.matrix_norm(y),
    "pinv": lambda x, y: ag.matmul(ag.linalg.pinv(x), y),
    "diff and cumulative": lambda x, y: (
        ag.cumulative_sum(ag.diff(x, axis=0), axis=1) * ag.cumulative_prod(y, axis=1)[1:]
    ),
    "meshgrid": lambda x, y: ag.meshgrid(x[0], y[:, 0])[1] * x,
    "broadcast_arrays": lambda x, y: ag.broadcast_arrays(x, y[0])[1] * 2,
    "tensordot": lambda x, y: ag.tensordot(x, y, axes=((0, 1), (0, 1))),
    "outer": lambda x, y: ag.linalg.outer(x[0], y[:, 0]),
}


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("f", CALLS.values(), ids=CALLS)
def test_compositions_agree_with_a_loop(f, in_dims):
    rows = [[ag.asarray(m[k] if d == 0 else m[0]) for m, d in zip((X, Y), in_dims, strict=True)] for k in range(3)]
    args = [ag.asarray(m if d == 0 else m[0]) for m, d in zip((X, Y), in_dims, strict=True)]
    close(vmap(f, in_dims)(*args), np.stack([host(f(*row)) for row in rows]))
    loss = lambda x, y: (f(x, y) ** 2).sum()
    found = vmap(lambda x, y: vjp(loss, x, y)[1](ag.tensor(1.0)), in_dims)(*args)
    expected = [vjp(loss, *row)[1](ag.tensor(1.0)) for row in rows]
    for g, value in zip(found, stacked(expected), strict=True):
        np.testing.assert_allclose(host(g), value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("number", "gives"), list(enumerate(["shape ()", "shape (2, 3)", "NoneType"])))
def test_a_rule_without_the_batch_in_front_is_refused_in_words(number, gives):
    def rule(b, x, /):
        return [b.xp.sum(b.data(x)), b.xp.permute_dims(b.data(x), (1, 0)), None][number]

    @ag.custom(
        name=f"mine.misplaced_{number}", vjp={"x": lambda g: g}, jvp=None, kernel=lambda xp, x: xp.exp(x), batch=rule
    )
    def misplaced(x, /):
        """Anything."""

    with pytest.raises(
        ag.RuleError, match=re.escape(f"mine.misplaced_{number}: its batch rule returned {gives}; it must")
    ):
        ag.vmap(misplaced)(ag.ones((3, 2)))


def test_a_rule_is_a_function():
    with pytest.raises(ag.RuleError, match=r"batch= takes a function.*got 'pointwise'"):
        ag.custom(vjp={"x": lambda g: g}, jvp=None, name="mine.worded", batch="pointwise")(lambda x, /: None)
