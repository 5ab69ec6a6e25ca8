"""Ops declared by users, one of each kind: the machinery around a derivative, apart from any derivative of agrad's.

The references are closed forms.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent


@ag.elementwise(name="mine.cube", x=lambda x: 3 * x * x, kernel=lambda xp, x: x * x * x)
def cube(x, /):
    """Elementwise, from the value."""


@ag.elementwise(name="mine.saturate", x=lambda ans: 1 - ans * ans, kernel=lambda xp, x: xp.tanh(x))
def saturate(x, /):
    """Elementwise, from the result."""


@ag.elementwise(
    name="mine.blend",
    x1=lambda x2, power: x2**power,
    x2=lambda x1, x2, power: power * x1 * x2 ** (power - 1),
    kernel=lambda xp, x1, x2, *, power: x1 * x2**power,
)
def blend(x1, x2, /, *, power=2):
    """Elementwise, of two operands, with a parameter."""


@ag.linear(
    name="mine.second_difference",
    x=lambda xp, g: (
        xp.concat([g, xp.zeros_like(g[:2])])
        - 2 * xp.concat([xp.zeros_like(g[:1]), g, xp.zeros_like(g[:1])])
        + xp.concat([xp.zeros_like(g[:2]), g])
    ),
    kernel=lambda xp, x: x[2:] - 2 * x[1:-1] + x[:-2],
)
def second_difference(x, /):
    """Linear."""


@ag.linear(
    name="mine.weave",
    sequence="parts",
    parts=lambda xp, g, parts_spec: xp.unstack(xp.reshape(g, (-1, len(parts_spec))), axis=1),
    kernel=lambda xp, parts: xp.reshape(xp.stack(parts, axis=1), (-1,)),
)
def weave(parts, /):
    """Linear in a list of operands."""


@ag.multilinear(
    name="mine.quadratic",
    x=lambda xp, g, A, y: g * xp.matmul(A, y),
    A=lambda xp, g, x, y: g * x[:, None] * y[None, :],
    y=lambda xp, g, x, A: g * xp.matmul(x, A),
    kernel=lambda xp, x, A, y: xp.sum(x * xp.matmul(A, y)),
)
def quadratic(x, A, y, /):
    """Linear in each of three operands."""


@ag.custom(
    name="mine.polar",
    outputs=2,
    kernel=lambda xp, x, y: (xp.hypot(x, y), xp.atan2(y, x)),
    vjp={
        "x": lambda xp, g, ans, x, y: _sum(
            None if g[0] is None else g[0] * x / ans[0], None if g[1] is None else -g[1] * y / ans[0] ** 2
        ),
        "y": lambda xp, g, ans, x, y: _sum(
            None if g[0] is None else g[0] * y / ans[0], None if g[1] is None else g[1] * x / ans[0] ** 2
        ),
    },
    jvp=lambda xp, t_x, t_y, x, y, ans: (
        _sum(None if t_x is None else t_x * x / ans[0], None if t_y is None else t_y * y / ans[0]),
        _sum(None if t_x is None else -t_x * y / ans[0] ** 2, None if t_y is None else t_y * x / ans[0] ** 2),
    ),
)
def polar(x, y, /):
    """Custom, with two results."""


def _sum(a, b):
    return b if a is None else a if b is None else a + b


def _softmax(xp, x, scale):
    e = xp.exp(x * scale)
    return e / xp.sum(e)


@ag.fused(
    name="mine.softmax",
    define=_softmax,
    kernel=lambda xp, x, scale: (_softmax(xp, x, scale),) * 2,
    vjp={
        "x": lambda xp, g, p, scale: scale * p * (g - xp.sum(g * p)),
        "scale": lambda xp, g, p, x: xp.sum(g * p * (x - xp.sum(p * x))),
    },
    residuals=("p",),
)
def softmax(x, scale, /):
    """Fused; its kernel leaves the result as a residual, which a second derivative must not take for a constant."""


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


def close(got, expected):
    got = host(got)
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


X, Y = np.array([0.5, -1.25, 2.0]), np.array([1.5, 0.75, -0.5])


@pytest.mark.parametrize(
    ("function", "derivatives"),
    [
        (cube, (lambda x: x**3, lambda x: 3 * x**2, lambda x: 6 * x, lambda x: 6 + 0 * x)),
        (
            saturate,
            (
                np.tanh,
                lambda x: 1 / np.cosh(x) ** 2,
                lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2,
                lambda x: (4 * np.sinh(x) ** 2 - 2) / np.cosh(x) ** 4,
            ),
        ),
    ],
)
def test_elementwise_to_the_third_order(function, derivatives, backend):
    x = ag.asarray(X, device=backend, requires_grad=True)
    ones = ag.ones_like(x.detach())
    found = [function(x)]
    for _ in range(3):
        found.append(ag.autograd.grad(found[-1], x, ones, create_graph=True)[0])
    for got, exact in zip(found, derivatives, strict=True):
        close(got, exact(X))

    with level() as first, level() as second, level() as third:
        dual = x.detach()
        for at in (first, second, third):
            dual = with_tangent(dual, ones, at)
        result = function(dual)
        close(tangent_of(result, third), derivatives[1](X))
        close(tangent_of(tangent_of(result, third), second), derivatives[2](X))
        close(tangent_of(tangent_of(tangent_of(result, third), second), first), derivatives[3](X))

    with level() as outer, level() as inner:  # reverse over forward over forward
        result = function(with_tangent(with_tangent(x, ones, outer), ones, inner))
        twice = tangent_of(tangent_of(result, inner), outer)
        close(ag.autograd.grad(twice, x, ones)[0], derivatives[3](X))

    with level() as outer:  # reverse over forward over reverse
        (gradient,) = ag.autograd.grad(function(with_tangent(x, ones, outer)), x, ones, create_graph=True)
        pushed = tangent_of(gradient, outer)
        close(pushed, derivatives[2](X))
        close(ag.autograd.grad(pushed, x, ones)[0], derivatives[3](X))


def test_a_parameter_of_an_elementwise_op(backend):
    x, y = (ag.asarray(v, device=backend, requires_grad=True) for v in (X, Y))
    result = blend(x, y, power=3)
    close(result, X * Y**3)
    by_x, by_y = ag.autograd.grad(result.sum(), (x, y), create_graph=True)
    close(by_x, Y**3)
    close(by_y, 3 * X * Y**2)
    close(ag.autograd.grad(by_x.sum(), y)[0], 3 * Y**2)
    assert len(blend(x, y.detach()).grad_fn.saved) == 1


def test_linear(backend):
    x = ag.asarray(np.arange(5.0) ** 2, device=backend, requires_grad=True)
    close(second_difference(x), [2.0, 2.0, 2.0])
    g = ag.asarray(X, device=backend, requires_grad=True)
    (got,) = ag.autograd.grad(second_difference(x), x, g, create_graph=True)
    matrix = np.zeros((3, 5))
    for i in range(3):
        matrix[i, i : i + 3] = 1, -2, 1
    close(got, matrix.T @ X)
    close(ag.autograd.grad(got, g, ag.asarray(np.arange(5.0), device=backend))[0], matrix @ np.arange(5.0))


@pytest.mark.parametrize("needs", list(itertools.product([True, False], repeat=2))[:3])
def test_linear_in_a_list(needs, backend):
    parts = [ag.asarray(v, device=backend, requires_grad=need) for v, need in zip((X, Y), needs, strict=True)]
    result = weave(parts)
    close(result, np.stack([X, Y], axis=1).ravel())
    g = np.arange(6.0)
    result.backward(ag.asarray(g, device=backend))
    for i, (part, need) in enumerate(zip(parts, needs, strict=True)):
        if need:
            close(part.grad, g[i::2])
        else:
            assert part.grad is None
    with level() as at:
        duals = [
            with_tangent(p.detach(), ag.ones_like(p.detach()), at) if n else p
            for p, n in zip(parts, needs, strict=True)
        ]
        close(tangent_of(weave(duals), at), np.array([*map(float, needs)] * 3))


@pytest.mark.parametrize("needs", list(itertools.product([True, False], repeat=3))[:7])
def test_multilinear(needs, backend):
    A = np.arange(9.0).reshape(3, 3)
    operands = [ag.asarray(v, device=backend, requires_grad=n) for v, n in zip((X, A, Y), needs, strict=True)]
    result = quadratic(*operands)
    close(result, X @ A @ Y)
    wanted = (A @ Y, np.outer(X, Y), X @ A)
    leaves = [(o, w) for o, w, n in zip(operands, wanted, needs, strict=True) if n]
    for (_, w), got in zip(leaves, ag.autograd.grad(result, [o for o, _ in leaves]), strict=True):
        close(got, w)
    with level() as at:
        duals = [
            with_tangent(o.detach(), ag.ones_like(o.detach()), at) if n else o
            for o, n in zip(operands, needs, strict=True)
        ]
        close(tangent_of(quadratic(*duals), at), sum(w.sum() for w, n in zip(wanted, needs, strict=True) if n))


@pytest.mark.parametrize("defined", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_several_results(needs, defined, backend):
    x, y = (ag.asarray(v, device=backend, requires_grad=n) for v, n in zip((X, Y), needs, strict=True))
    results = polar(x, y)
    assert [r.output_nr for r in results] == [0, 1]
    assert results[0].grad_fn is results[1].grad_fn
    r2 = X**2 + Y**2
    jacobian = {0: (X / np.sqrt(r2), -Y / r2), 1: (Y / np.sqrt(r2), X / r2)}
    chosen = [(r, ag.asarray(g, device=backend)) for r, g, d in zip(results, (X, Y), defined, strict=True) if d]
    leaves = [(leaf, i) for i, (leaf, n) in enumerate(zip((x, y), needs, strict=True)) if n]
    got = ag.autograd.grad([r for r, _ in chosen], [leaf for leaf, _ in leaves], [g for _, g in chosen])
    for gradient, (_, i) in zip(got, leaves, strict=True):
        close(gradient, sum(g * j for g, j, d in zip((X, Y), jacobian[i], defined, strict=True) if d))
    with level() as at:
        duals = [
            with_tangent(o.detach(), ag.ones_like(o.detach()), at) if n else o
            for o, n in zip((x, y), needs, strict=True)
        ]
        for k, result in enumerate(polar(*duals)):
            close(tangent_of(result, at), sum(jacobian[i][k] for _, i in leaves))


def test_one_result_made_from_the_other(backend):
    """The cotangents of both results arrive, though one path is longer."""
    x, y = (ag.asarray(v, device=backend, requires_grad=True) for v in (X, Y))
    r, angle = polar(x, y)
    (r * ag.cos(angle) + (r * r) * 0.5).sum().backward()  # x + (x**2 + y**2) / 2
    close(x.grad, 1 + X)
    close(y.grad, Y)


def softmax_gradients(x, scale, g):
    p = np.exp(x * scale) / np.exp(x * scale).sum()
    return [scale * p * (g - p @ g), (p * (x - p @ x)) @ g]


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_fused(needs, backend):
    """First order by the kernel's own rule, higher orders and forward mode by the composition."""
    values, directions = [X, np.array(1.5)], [Y[::-1].copy(), np.array(2.0)]
    operands = [ag.asarray(v, device=backend, requires_grad=n) for v, n in zip(values, needs, strict=True)]
    chosen = [i for i, n in enumerate(needs) if n]
    leaves = [operands[i] for i in chosen]
    along = [ag.asarray(directions[i], device=backend) for i in chosen]
    g = ag.asarray(Y, device=backend)
    first = softmax_gradients(*values, Y)
    moved = [[v + s * 1e-5 * d * n for v, d, n in zip(values, directions, needs, strict=True)] for s in (1, -1)]
    ahead, behind = (softmax_gradients(*m, Y) for m in moved)
    second = [(a - b) / 2e-5 for a, b in zip(ahead, behind, strict=True)]

    result = softmax(*operands)
    close(result, np.exp(X * 1.5) / np.exp(X * 1.5).sum())
    for create_graph in (False, True):
        found = ag.autograd.grad(result, leaves, g, retain_graph=True, create_graph=create_graph)
        for got, i in zip(found, chosen, strict=True):
            close(got, first[i])
    for got, i in zip(ag.autograd.grad(found, leaves, along), chosen, strict=True):
        np.testing.assert_allclose(host(got), second[i], rtol=1e-8, atol=1e-9)

    with level() as at:
        duals = list(operands)
        for i, tangent in zip(chosen, along, strict=True):
            duals[i] = with_tangent(operands[i], tangent, at)
        result = softmax(*duals)
        pushed = tangent_of(result, at)
        np.testing.assert_allclose(host(pushed) @ Y, sum(np.sum(first[i] * directions[i]) for i in chosen), rtol=1e-12)
        forward_over_reverse = ag.autograd.grad(result, leaves, g)
        for got, i in zip(forward_over_reverse, chosen, strict=True):
            np.testing.assert_allclose(host(tangent_of(got, at)), second[i], rtol=1e-8, atol=1e-9)
        for got, i in zip(ag.autograd.grad(pushed, leaves, g), chosen, strict=True):
            np.testing.assert_allclose(host(got), second[i], rtol=1e-8, atol=1e-9)


def test_fused_where_one_operand_is_made_from_the_other(backend):
    """Recorded, each operand gets its own part only: the way between them is walked once."""
    x = ag.asarray(X, device=backend, requires_grad=True)
    g = ag.asarray(Y, device=backend)

    def total(x):
        scale = x @ x
        return softmax_gradients(x, scale, Y)[0] + softmax_gradients(x, scale, Y)[1] * 2 * x

    for create_graph in (False, True):
        (got,) = ag.autograd.grad(softmax(x, ag.matmul(x, x)), x, g, create_graph=create_graph)
        close(got, total(X))
    (twice,) = ag.autograd.grad(got.sum(), x)
    steps = np.eye(3) * 1e-6
    np.testing.assert_allclose(
        host(twice), [(total(X + e) - total(X - e)).sum() / 2e-6 for e in steps], rtol=1e-7, atol=1e-8
    )


def test_an_op_beyond_agrads_own_names():
    assert {n for n in ag.rules if n.startswith("mine.")} >= {"mine.cube", "mine.softmax"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", ["numpy", "dask"], indirect=True)  # array-api-strict mixes no integers with floats
def test_an_exponent_over_integers_gets_a_gradient_of_its_own_precision(make, close, dtype):
    base, exponent = make([2, 3, 0], dtype="int8"), make([3.0, 2.0, 1.0], dtype=dtype, requires_grad=True)
    (base**exponent).sum().backward()
    close(exponent.grad, np.asarray([8 * np.log(2), 9 * np.log(3), 0.0], dtype=dtype), rtol=1e-6)


def test_the_gradient_of_a_complex_exponent_takes_the_complex_logarithm(close):
    base, exponent = ag.tensor([-2.0, 2.0]), ag.tensor([2.0 + 0j, 1 + 1j], requires_grad=True)
    y = base**exponent
    y.backward(ag.ones_like(y.detach()))
    value = np.array([-2.0, 2.0], dtype=complex) ** np.array([2.0, 1 + 1j])
    close(exponent.grad, np.conj(value * np.array([np.log(2) + np.pi * 1j, np.log(2)])), rtol=1e-12)
