"""Patterns of Jacobians: as tight as the dense ones where nothing is left out by values, and never too small."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import agrad as ag
from agrad.core.facts import Facts
from agrad.core.op import OPS
from agrad.func import capture, grad, jacobian_sparsity, jacrev
from agrad.program.sparsity import ways

sp = pytest.importorskip("scipy.sparse")
rng = np.random.default_rng(0)
BAND = np.triu(np.tril(rng.uniform(0.5, 1.5, (6, 6)), 1), -1)
BANDS, SQUARE = np.stack([BAND, BAND.T]), BAND + BAND.T
DIAGONAL = ag.asarray(np.diag(np.arange(1.0, 7.0)))
F = ag.nn.functional


def points(*shape):
    return ag.asarray(np.random.default_rng(3).uniform(0.5, 1.5, shape))


#: Functions with the shape of their argument: of these the pattern is that of the dense Jacobian at a point.
TIGHT = {
    "elementwise": (lambda x: ag.exp(x) * x + 1, (6,)),
    "broadcast": (lambda x: x[:, None] * x[None, :], (4,)),
    "differences": (lambda x: x[1:] - x[:-1] ** 2, (6,)),
    "steps": (lambda x: x[::2] * x[1::2], (6,)),
    "backwards": (lambda x: ag.flip(x, axis=0)[:3] + x[:3], (6,)),
    "rolled": (lambda x: ag.roll(x, 1, axis=0) * x - ag.roll(x, -2, axis=0), (6,)),
    "transposed": (lambda x: (x.T @ DIAGONAL[:3, :3]).reshape((-1,)), (3, 4)),
    "taken": (lambda x: ag.take(x, ag.asarray([3, 0, 3]), axis=0) * 2, (4,)),
    "along": (lambda x: ag.take_along_axis(x, ag.asarray([[1], [0]]), axis=1), (2, 3)),
    "by a mask": (lambda x: x[ag.asarray([True, False, True])] ** 2, (3,)),
    "by arrays": (lambda x: x[ag.asarray([0, 2]), ag.asarray([1, 1])], (3, 2)),
    "put": (lambda x: ag.setitem(x, (slice(0, 2),), 1.0), (4,)),
    "joined": (lambda x: ag.concat([x[2:] ** 2, x[:1], ag.ones(2)]), (4,)),
    "stacked": (lambda x: ag.stack([x, ag.sin(x)], axis=1), (3,)),
    "tiled": (lambda x: ag.tile(x, (2,)) * ag.repeat(x, 2, axis=0), (3,)),
    "triangle": (lambda x: ag.tril(x) * 3, (3, 3)),
    "diagonal": (lambda x: ag.linalg.diagonal(x, offset=1), (3, 4)),
    "trace": (lambda x: ag.linalg.trace(x), (3, 3)),
    "sum": (lambda x: ag.sum(x, axis=0), (3, 2)),
    "mean": (lambda x: ag.mean(x**2, axis=(0, 2), keepdims=True), (2, 3, 2)),
    "prod": (lambda x: ag.prod(x, axis=1), (2, 3)),
    "variance": (lambda x: ag.var(x, axis=1), (2, 3)),
    "norm": (lambda x: ag.linalg.vector_norm(x, axis=0), (2, 3)),
    "softmax": (lambda x: F.softmax(x, dim=1), (2, 3)),
    "normalized": (lambda x: x / ag.sum(x, axis=1, keepdims=True), (2, 3)),
    "cumulative": (lambda x: ag.cumulative_sum(x**2, axis=1), (2, 3)),
    "cumulative product": (lambda x: ag.cumulative_prod(x), (4,)),
    "from nothing on": (lambda x: ag.cumulative_sum(x, include_initial=True), (4,)),
    "diff": (lambda x: ag.diff(x, n=2), (6,)),
    "band from the left": (lambda x: ag.asarray(BAND) @ x, (6,)),
    "band from the right": (lambda x: x @ ag.asarray(BAND), (2, 6)),
    "band of columns": (lambda x: ag.asarray(BAND) @ x, (6, 2)),
    "stack of bands": (lambda x: ag.asarray(BANDS) @ x, (2, 6, 1)),
    "matmul": (lambda x: x[0] @ x[1], (2, 3, 3)),
    "vecdot": (lambda x: ag.vecdot(x, x[::-1], axis=0), (3, 2)),
    "outer": (lambda x: ag.linalg.outer(x, x**2), (3,)),
    "tensordot": (lambda x: ag.tensordot(x, ag.asarray(BAND), axes=((0,), (1,))), (6, 2)),
    "einsum": (lambda x: ag.extra.einsum("ij,kj->ik", x, ag.asarray(BAND)), (2, 6)),
    "quadratic form": (lambda x: grad(lambda y: y @ (ag.asarray(SQUARE) @ y))(x), (6,)),
    "by a mask of numbers": (lambda x: x * ag.asarray([1.0, 0.0, 2.0]) + x[::-1], (3,)),
    "linear layer": (lambda x: F.linear(x, ag.asarray(BAND)), (2, 6)),
    "convolution": (lambda x: F.conv2d(x[None, None], ag.ones((1, 1, 2, 2))), (4, 4)),
    "mean of windows": (lambda x: F.avg_pool2d(x[None, None], 2), (4, 4)),
    "inverses": (lambda x: ag.linalg.inv(x + 2 * ag.eye(2)), (2, 2, 2)),
    "relu": (lambda x: F.relu(x), (3,)),
    "floor": (lambda x: x * ag.floor(x[::-1] + 3), (4,)),
    "signs": (lambda x: ag.sign(x) + ag.abs(x) * x[0], (3,)),
    "detached": (lambda x: x.detach() * x[::-1], (4,)),
    "what has no derivative": (lambda x: x * (x > 0) + ag.argmax(x), (3,)),
    "gradient of a chain": (grad(lambda x: ag.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)), (6,)),
    "gradient of a separable sum": (grad(lambda x: ag.sum(ag.sin(x) * x)), (5,)),
    "gradient by parts": (grad(lambda x: ag.sum(ag.take(x, ag.asarray([0, 0, 2]), axis=0) ** 3)), (4,)),
    "gradient of a mean": (grad(lambda x: ag.mean(ag.exp(x @ ag.asarray(BAND)))), (6,)),
    "scan": (lambda x: ag.func.scan(lambda c, row: (row, c * row), x[0], x[1:])[1], (5, 2)),
    "sum by scan": (lambda x: ag.func.scan(lambda c, row: (c + row**2, c), ag.asarray(0.0), x)[1], (4,)),
    "mapped": (ag.func.vmap(lambda row: row * ag.sum(row)), (3, 2)),
    "image by fft": (lambda x: ag.real(ag.fft.ifft(ag.fft.fft(x, axis=1) * 2j, axis=1)), (2, 4)),
    "checkpointed": (lambda x: ag.utils.checkpoint.checkpoint(lambda y: ag.sin(y[1:]) * y[:-1], x), (4,)),
}


@pytest.mark.parametrize("name", TIGHT)
def test_as_the_dense_jacobian(name):
    f, shape = TIGHT[name]
    x = points(*shape)
    dense = jacrev(f)(x).numpy()
    dense = dense.reshape(-1, x.size)
    if name == "image by fft":  # of a line all places meet, and some derivatives cancel
        dense = np.kron(np.eye(2), np.ones((4, 4)))
    np.testing.assert_array_equal(jacobian_sparsity(f)(x).toarray(), dense != 0)


def test_large_and_banded():
    def f(x):
        y = ag.sin(x) * x
        return ag.concat([y[:1] - x[1:2], x[:-2] * y[1:-1] - x[2:], y[-1:]])

    n = 10**5
    found = jacobian_sparsity(f)(ag.ones(n))
    assert found.shape == (n, n)
    assert found.dtype == bool
    assert found.nnz == 3 * (n - 2) + 3


def test_what_is_dense_takes_no_memory_on_the_way():
    x = ag.ones(10**5)
    assert jacobian_sparsity(lambda x: ag.sum(x / ag.sum(x)))(x).nnz == 10**5
    with pytest.raises(ValueError, match="it is dense, with 10,000,000,000 entries"):
        jacobian_sparsity(lambda x: x / ag.sum(x))(x)


def test_both_sides_of_a_condition_or_one_run():
    f = lambda x: ag.where(x > 1, x[::-1], x)
    x = ag.tensor([0.0, 2.0, 3.0, 0.0])
    everywhere = np.eye(4) + np.eye(4)[::-1]
    np.testing.assert_array_equal(jacobian_sparsity(f)(x).toarray(), everywhere > 0)
    here = jacobian_sparsity(f, local=True)(x).toarray()
    np.testing.assert_array_equal(here, jacrev(f)(x).numpy() != 0)
    factor = jacobian_sparsity(lambda x: x * x[::-1], local=True)(ag.tensor([0.0, 1.0]))
    np.testing.assert_array_equal(factor.toarray(), [[True, False], [True, False]])


def test_arguments_and_what_is_outside():
    a = ag.asarray(BAND)
    of_argument = jacobian_sparsity(lambda x, a: a @ x)(points(6), a)  # of any values of a
    assert of_argument.toarray().all()
    np.testing.assert_array_equal(jacobian_sparsity(lambda x: a @ x)(points(6)).toarray(), BAND != 0)
    chosen = jacobian_sparsity(lambda x, k: ag.take(x, k, axis=0))(points(4), ag.asarray([2, 2]))
    np.testing.assert_array_equal(chosen.toarray(), np.eye(4)[[2, 2]] > 0)
    both = jacobian_sparsity(lambda x, b: {"u": x * b["k"], "v": b["l"]}, (0, 1))(
        points(2), {"k": points(), "l": points(2)}
    )
    expected = [[1, 0, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(both.toarray().astype(int), expected)
    twice = points(2)
    np.testing.assert_array_equal(
        jacobian_sparsity(lambda x, y: x * y, (0, 1))(twice, twice).toarray().astype(int), [[1, 0, 1, 0], [0, 1, 0, 1]]
    )
    assert (
        jacobian_sparsity(lambda x, y: x + 0 * y, argnums=-1)(points(2), points(2)).nnz == 0
    )  # 0 is part of the function


def test_places_that_depend_on_values_are_anywhere():
    x = ag.tensor([3.0, 1.0, 2.0])
    assert jacobian_sparsity(lambda x: ag.take(x, ag.argmax(x).reshape((1,)), axis=0))(x).toarray().all()
    assert jacobian_sparsity(lambda x: ag.sort(x))(x).toarray().all()
    here = jacobian_sparsity(lambda x: ag.take(x, ag.argmax(x).reshape((1,)), axis=0), local=True)(x)
    np.testing.assert_array_equal(here.toarray(), [[True, False, False]])


class Straight(ag.Function):
    """Rounds, and passes the gradient on as it is."""

    @staticmethod
    def forward(ctx, x):
        return ag.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


def test_a_function_counts_by_its_values():
    found = jacobian_sparsity(lambda x: Straight.apply(x) * 2)(points(3))
    np.testing.assert_array_equal(found.toarray(), np.eye(3) > 0)


def test_an_operation_of_the_users():
    """Its kernel may be of something else than its derivative: all on all, if it does not say more."""
    try:

        @ag.linear(name="mine.turned", x=lambda xp, g: xp.flip(g, axis=0), kernel=lambda xp, x: xp.flip(x, axis=0))
        def turned(x, /):
            """Turn."""

        assert jacobian_sparsity(lambda x: turned(x))(points(3)).toarray().all()
        OPS.pop("mine.turned")

        @ag.linear(
            name="mine.turned",
            x=lambda xp, g: xp.flip(g, axis=0),
            kernel=lambda xp, x: xp.flip(x, axis=0),
            facts=Facts(sparsity=lambda xp, x, /: xp.flip(x, axis=0)),
        )
        def turned_again(x, /):
            """Turn."""

        np.testing.assert_array_equal(
            jacobian_sparsity(lambda x: turned_again(x))(points(3)).toarray(), np.eye(3)[::-1] > 0
        )
    finally:
        OPS.pop("mine.turned", None)
    with pytest.raises(
        ag.errors.RuleError if hasattr(ag, "errors") else Exception, match="sparsity= is a function or one of"
    ):
        Facts(sparsity="somehow")


def test_the_program_itself():
    program = capture(lambda x, y: (x * y, ag.sum(y)))(points(2), points(2))
    expected = [[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]]
    np.testing.assert_array_equal(program.sparsity().toarray().astype(int), expected)
    np.testing.assert_array_equal(program.sparsity(argnums=1).toarray().astype(int), np.array(expected)[:, 2:])
    with pytest.raises(TypeError, match="takes the arguments"):
        program.sparsity(local=True)


def test_how_many_operations_have_no_rule_is_printed():
    printed = subprocess.run(
        [sys.executable, "-m", "agrad", "sparsity"], capture_output=True, text=True, check=True
    ).stdout
    found = ways()
    assert f"{len(found['all on all']):4}  all on all" in printed
    assert "matmul" in found["rows by columns"]
    assert "sin" in found["element by element"]
    assert len(found["all on all"]) <= 5


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ag.BackendError, match="not installed: pip install scipy"):
        jacobian_sparsity(lambda x: x)(points(2))
