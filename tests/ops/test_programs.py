"""Random programs, in which ops meet one another: values shared, overwritten, cut up and put together.

The same program runs on NumPy alone; its values give the reference, their finite differences the derivatives.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent

SHAPES = [(2, 3), (2, 3), (2, 3), (3,)]


def overwritten(a, b):
    made = a * 1.0
    made[..., 0] = b[..., 1] * 2.0
    return made


def grown(a, b):
    made = a * 1.0
    kept = made * made
    made += b
    return made * kept


STEPS = [
    lambda xp, a, b: a + b,
    lambda xp, a, b: a * b * 0.5,
    lambda xp, a, b: a - b,
    lambda xp, a, b: a / (b * b + 1.0),
    lambda xp, a, b: xp.sin(a),
    lambda xp, a, b: xp.exp(-a * a),
    lambda xp, a, b: xp.maximum(a, b),
    lambda xp, a, b: xp.sum(a, axis=-1, keepdims=True) * b,
    lambda xp, a, b: a[..., ::2] * 3.0,
    lambda xp, a, b: a @ b * 0.3,
    lambda xp, a, b: xp.matrix_transpose(a),
    lambda xp, a, b: overwritten(a, b),
    lambda xp, a, b: grown(a, b),
    lambda xp, a, b: xp.concat([a, b]),
    lambda xp, a, b: xp.where(a > b, a, b * 2.0),
    lambda xp, a, b: a[[0, -1, 0]],
    lambda xp, a, b: (a * a + 0.5) ** xp.tanh(b),
    lambda xp, a, b: 1.5 - a * 2.0,
    lambda xp, a, b: xp.clip(a, 0.3, 1.2),
    lambda xp, a, b: xp.mean(a) * b,
    lambda xp, a, b: xp.unstack(a)[0] * a,
    lambda xp, a, b: xp.sort(a, axis=-1) * b,
]


def run(xp, leaves, seed):
    """Run the program of a seed: each step takes two values made before; what does not fit is left out."""
    choose = random.Random(seed)
    pool = list(leaves)
    for _ in range(choose.randint(4, 14)):
        step, a, b = choose.choice(STEPS), choose.choice(pool), choose.choice(pool)
        try:
            made = step(xp, a, b)
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue
        if 0 < made.size <= 60:
            pool.append(made if xp.max(xp.abs(made)) < 4 else xp.tanh(made))
    return sum(xp.sum(xp.tanh(value)) for value in pool[-3:])


@pytest.mark.parametrize("seed", range(120))
def test_a_program(seed):
    rng = np.random.default_rng(seed)
    values = [rng.uniform(0.5, 1.5, shape) for shape in SHAPES]
    along = [rng.normal(size=shape) for shape in SHAPES]

    def shifted(step):
        return [x + step * v for x, v in zip(values, along, strict=True)]

    expected = run(np, values, seed)
    slope = (run(np, shifted(1e-6), seed) - run(np, shifted(-1e-6), seed)) / 2e-6
    bend = (run(np, shifted(1e-4), seed) - 2 * expected + run(np, shifted(-1e-4), seed)) / 1e-8
    scale = max(1.0, abs(slope), abs(bend))

    leaves = [ag.asarray(x, requires_grad=True) for x in values]
    directions = [ag.asarray(v) for v in along]
    loss = run(ag, leaves, seed)
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    assert [leaf.tolist() for leaf in leaves] == [x.tolist() for x in values]

    gradients = ag.autograd.grad(loss, leaves, create_graph=True, materialize_grads=True)
    against = sum((g * v).sum() for g, v in zip(gradients, directions, strict=True))
    assert against.item() == pytest.approx(slope, abs=1e-6 * scale)
    twice = ag.autograd.grad(against, leaves, materialize_grads=True, retain_graph=True)
    assert sum((g * v).sum().item() for g, v in zip(twice, directions, strict=True)) == pytest.approx(
        bend, abs=1e-4 * scale
    )

    with level() as outer, level() as inner:
        duals = [with_tangent(x.detach(), v, outer) for x, v in zip(leaves, directions, strict=True)]
        duals = [with_tangent(x, v, inner) for x, v in zip(duals, directions, strict=True)]
        pushed = tangent_of(run(ag, duals, seed), inner)
        assert pushed.item() == pytest.approx(against.item(), rel=1e-10, abs=1e-12)
        again = tangent_of(pushed, outer)
        assert (0.0 if again is None else again.item()) == pytest.approx(bend, abs=1e-4 * scale)

    for _ in range(2):
        loss.backward(retain_graph=True)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        if leaf.grad is not None:
            np.testing.assert_allclose(leaf.grad.numpy(), 2 * gradient.detach().numpy(), rtol=1e-12, atol=1e-15)
