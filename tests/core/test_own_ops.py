"""Ops that users declare outside agrad: their names, their kernels, and what a kernel may give."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck
from agrad.core.kernels import forget_kernels
from agrad.core.op import OPS


@pytest.fixture(autouse=True)
def _own_ops_are_removed():
    before = set(OPS)
    yield
    for name in set(OPS) - before:
        del OPS[name]
    forget_kernels(ag.default_backend())


def test_a_kernel_of_ones_own_is_not_the_librarys_function_of_that_name():
    assert np.sinc(1.0) == pytest.approx(0.0)  # NumPy's is sin(pi x) / (pi x)

    @ag.elementwise(x=lambda xp, x, ans: (xp.cos(x) - ans) / x, kernel=lambda xp, x: xp.sin(x) / x)
    def sinc(x, /):
        """sin(x) / x."""

    x = ag.tensor([1.0, 2.0], requires_grad=True)
    assert sinc(x).tolist() == [math.sin(1.0), math.sin(2.0) / 2]
    assert gradcheck(sinc, (x,), check_forward_ad=True)


def test_without_a_kernel_the_librarys_function_is_taken():
    @ag.elementwise(x=lambda ans: 1 / (3 * ans * ans))
    def cbrt(x, /):
        """Cube root."""

    x = ag.tensor([1.0, 8.0], requires_grad=True)
    assert cbrt(x).tolist() == pytest.approx([1.0, 2.0])
    assert gradgradcheck(cbrt, (x,))


def test_derivatives_use_ops_below_a_name_of_ones_own_to_any_order():
    @ag.elementwise(name="mine.third_power", x=lambda x: 3 * x * x, kernel=lambda xp, x: x * x * x)
    def third_power(x, /):
        """x^3."""

    @ag.elementwise(name="mine.quart", x=lambda xp, x: 4 * xp.mine.third_power(x), kernel=lambda xp, x: x**4)
    def quart(x, /):
        """x^4."""

    x = ag.tensor([0.5, 2.0], requires_grad=True)
    assert ag.grad(quart(x).sum(), x)[0].tolist() == [0.5, 32.0]
    (first,) = ag.grad(quart(x).sum(), x, create_graph=True)
    assert ag.grad(first.sum(), x)[0].tolist() == [3.0, 48.0]
    assert gradcheck(quart, (x,), check_forward_ad=True)
    assert ag.namespace("numpy").mine.third_power is third_power
    with pytest.raises(AttributeError, match="namespace 'mine' has no attribute 'square'"):
        ag.namespace("numpy").mine.square


def test_an_op_may_be_made_in_a_function():
    def power(n):
        @ag.elementwise(name=f"mine.power_{n}", x=lambda x: n * x ** (n - 1), kernel=lambda xp, x: x**n)
        def op(x, /):
            """x^n."""

        return op

    two, three = power(2), power(3)
    x = ag.tensor([2.0], requires_grad=True)
    assert (two(x).tolist(), three(x).tolist()) == ([4.0], [8.0])
    assert [ag.grad(op(x), x, ag.ones(1))[0].tolist() for op in (two, three)] == [[4.0], [12.0]]
    with pytest.raises(ag.RuleError, match=r"exists already; give yours .* name='mine\.power_2_2'"):
        power(2)


@pytest.mark.parametrize("name", ["mine.2", "my op", "mine."])
def test_names_are_identifiers(name):
    with pytest.raises(ag.RuleError, match="the name of an op is made of identifiers"):
        ag.elementwise(name=name, x=lambda x: x)(lambda x, /: None)
    assert name not in OPS


@pytest.mark.parametrize("name", ["op", "general", "new", "function", "become", "vjp_1p", "Tensor"])
def test_an_op_may_have_a_name_that_its_own_code_uses(name):
    op = ag.elementwise(name=f"mine.{name}", x=lambda x: 2 * x, kernel=lambda xp, x: x * x)(lambda x, /: None)
    x = ag.tensor([3.0], requires_grad=True)
    for _ in range(2):
        y = op(x)
        assert (y.tolist(), ag.grad(y, x, ag.ones(1))[0].tolist()) == ([9.0], [6.0])
    assert op(3.0).tolist() == 9.0


RESULTS = {
    "a tuple unannounced": ({}, lambda xp, x: (x, x), "gave 2 results, its declaration announces one result"),
    "one of two": ({"outputs": 2}, lambda xp, x: x, "gave one result, its declaration announces 2 results"),
    "three of two": ({"outputs": 2}, lambda xp, x: (x, x, x), "gave 3 results, its declaration announces 2 results"),
    "one of any number": ({"outputs": 0}, lambda xp, x: x, "gave one result, .* announces a tuple of results"),
}


@pytest.mark.parametrize(("options", "kernel", "message"), RESULTS.values(), ids=RESULTS)
def test_results_are_those_announced(options, kernel, message):
    op = ag.linear(name="mine.op", x=lambda g: g, kernel=kernel, **options)(lambda x, /: None)
    with pytest.raises(ag.RuleError, match=message):
        op(ag.tensor([1.0, 2.0]))


def test_residuals_are_those_announced():
    op = ag.fused(
        name="mine.op",
        define=lambda xp, x: x * x,
        kernel=lambda xp, x: x * x,
        vjp={"x": lambda g, s: g * s},
        residuals=("s",),
    )(lambda x, /: None)
    with pytest.raises(ag.RuleError, match="gave one result, its declaration announces 2 results"):
        op(ag.tensor([1.0, 2.0], requires_grad=True))


def test_rules_print_what_is_written():
    def slope(xp, ans):
        """Give 1 - y^2."""
        return 1 - ans * ans

    def long(xp, g, x):
        """Give the first of them."""
        total = g * x
        return total + 0

    ag.elementwise(name="mine.a", x=slope)(lambda x, /: None)
    ag.custom(name="mine.b", vjp={"x": long}, jvp=lambda xp, t_x: xp.sum(
        t_x,
    ))(lambda x, /: None)  # fmt: skip
    ag.fused(
        name="mine.c", define=lambda xp, x: x, kernel=None, vjp={"x": lambda g, s: g * s}, residuals=("s",), source="Me"
    )(lambda x, k, /: None)
    assert str(ag.rules["mine.a"]) == "mine.a  (elementwise)\n  by x: slope(xp, ans): 1 - ans * ans\n    saves ans"
    assert str(ag.rules["mine.b"]) == (
        "mine.b  (custom)\n  by x: long(xp, g, x)  # Give the first of them.\n    saves x\n"
        "  forward: lambda xp, t_x: xp.sum(t_x)"
    )
    assert str(ag.rules["mine.c"]) == (
        "mine.c  (fused)\n  by x: lambda g, s: g * s\n    saves x, s\n  stands for: lambda xp, x: x\n  source: Me"
    )
    assert str(ag.rules["argmax"]) == "argmax  (no derivative)"


PROGRAM = '''
    from typing import Any
    import agrad as ag

    @ag.elementwise(name="mine.f", x=lambda x: 2 * x, kernel=lambda xp, x: x * x)
    def f(x: Any, /, *, p: int = 1) -> ag.Tensor:
        """x^2."""
        raise NotImplementedError

    @ag.custom(vjp={"x": lambda g: g[0]}, jvp=None, kernel=lambda xp, x: (x, x), outputs=2)
    def two(x: Any, /) -> tuple[ag.Tensor, ag.Tensor]:
        """Twice."""
        raise NotImplementedError

    reveal_type(f(1.0, p=2))
    reveal_type(two(1.0))
    f(1.0, 2)
'''


def test_a_type_checker_sees_the_signature(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    notes = [line.partition('Revealed type is "')[2].rstrip('"') for line in done.stdout.splitlines() if "note" in line]
    assert notes == ["agrad.core.tensor.Tensor", "tuple[agrad.core.tensor.Tensor, agrad.core.tensor.Tensor]"]
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert "Too many" in errors[0]


def test_an_own_op_may_call_arguments_by_any_names():
    @ag.linear(
        name="mine.tiled_once",
        x=lambda xp, g, axis, dim: g * (axis + dim),
        kernel=lambda xp, x, axis, dim: x * (axis + dim),
    )
    def tiled_once(x, /, axis, *, dim): ...

    x = ag.ones(2, requires_grad=True)
    y = tiled_once(x, 2, dim=3)
    y.sum().backward()
    assert y.tolist() == x.grad.tolist() == [5.0, 5.0]
