"""Patterns of Jacobians: as tight as the dense ones where nothing is left out by values, and never too small."""

from __future__ import annotations

import ast
import subprocess
import sys

import numpy as np
import pytest
from sparse_functions import BAND, TIGHT, points

import agrad as ag
from agrad.core.facts import Facts
from agrad.core.op import OPS
from agrad.func import capture, jacobian_sparsity, jacrev

sp = pytest.importorskip("scipy.sparse")


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


def test_large_sets_are_taken_to_be_of_all(monkeypatch):
    """Too many entries: the pattern is larger then, and never smaller."""
    import agrad.program.sparsity as module

    f = lambda x: ag.cumulative_sum(x)[:3] * ag.flip(x, axis=0)[:3]
    x = points(4)
    dense, exact = jacrev(f)(x).numpy() != 0, jacobian_sparsity(f)(x).nnz
    for name in ("LARGE", "MOST", "PAIRS"):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 2)
            found = jacobian_sparsity(f)(x).toarray()
        assert not (dense & ~found).any()
        assert found.sum() > exact


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
    no_weight = lambda x, y: x + 0.0 * y  # as it is just now
    assert jacobian_sparsity(no_weight, argnums=-1)(points(2), points(2)).nnz == 2
    assert jacobian_sparsity(no_weight, argnums=-1, local=True)(points(2), points(2)).nnz == 0


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
    with pytest.raises(TypeError, match="needs the arguments"):
        program.sparsity(local=True)


def test_how_many_operations_have_no_rule_is_printed():
    def said(*arguments):  # in a process of its own: tests declare operations
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout

    printed = said("-m", "agrad", "sparsity")
    found = ast.literal_eval(said("-c", "from agrad.program.sparsity import ways; print(ways())"))
    assert f"{len(found['all on all']):4}  all on all" in printed
    assert "matmul" in found["rows by columns"]
    assert "sin" in found["element by element"]
    assert len(found["all on all"]) <= 5


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ag.BackendError, match="not installed: pip install scipy"):
        jacobian_sparsity(lambda x: x)(points(2))
