"""Texts of programs: what `Program.text`, NumPy's executor and the exported module have in common."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.plugin import manager
from agrad.program.program import Program, Ref, Shaped, Step
from agrad.program.writing import STEPS_PER_FUNCTION, ProgramText

NUMPY = manager.get("numpy")


def as_text(program):
    return program.function(NUMPY)


def by_executor(program):
    run = NUMPY.compile(program, exact=True)

    def written(*values):
        run(*values)  # the first call runs step by step
        return run(*values)

    return written


def as_module(program):
    names: dict = {}
    exec(program.source(), names)
    return names["program"]


KINDS = pytest.mark.parametrize("kind", [as_text, by_executor, as_module])


@KINDS
@pytest.mark.parametrize(
    ("op", "number"), [("pow", -2.0), ("subtract", -2.0), ("multiply", -3), ("pow", complex(0, -1))]
)
def test_numbers_with_a_sign_beside_symbols(kind, op, number):
    dtype = np.result_type(np.float64, number).name
    shapes = {0: Shaped((3,), "float64"), 1: Shaped((3,), dtype), 2: Shaped((3,), dtype)}
    steps = (Step(op, (number, Ref(0)), {}, (1,)), Step(op, (Ref(0), number), {}, (2,)))
    program = Program((0,), steps, (1, 2), shapes)
    x = np.array([2.0, 3.0, 4.0])
    of_numbers = {"pow": lambda a, b: a**b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b}[op]
    first, second = kind(program)(x)
    np.testing.assert_allclose(first, [of_numbers(number, b) for b in x.tolist()])
    np.testing.assert_allclose(second, [of_numbers(a, number) for a in x.tolist()])


def test_a_derivative_with_a_negative_base():
    @ag.elementwise(name="tests.negative_base", x=lambda x: (-2.0) ** x, kernel=lambda xp, x: x * 1.0)
    def f(x, /):
        """Its derivative is taken as it is declared."""

    program = ag.func.capture(ag.func.grad(lambda x: ag.sum(f(x))))(np.ones(2))
    for _ in range(3):
        np.testing.assert_array_equal(program(np.array([2.0, 3.0])), [4.0, -8.0])


@KINDS
def test_values_cross_the_parts_of_a_long_text(kind):
    """An input, a constant and values of every part are needed in every part, and by the outputs."""
    count = 2 * STEPS_PER_FUNCTION + 10
    offset = np.array([0.25, -0.5, 1.0])
    steps, shapes = [], dict.fromkeys(range(count + 2), Shaped((3,), "float64"))
    for at in range(count):
        far = at + 2 - STEPS_PER_FUNCTION
        args = (Ref(at + 1 if at else 0), Ref(1) if at % 3 else Ref(max(far, 0)))
        steps.append(Step("subtract" if at % 2 else "maximum", args, {}, (at + 2,)))
    outputs = (0, 1, 2, STEPS_PER_FUNCTION, count + 1)
    program = Program((0,), tuple(steps), outputs, shapes, {1: offset})
    x = np.array([0.5, -1.5, 2.0])
    values = [x, offset]
    for step in steps:
        left, right = (values[ref.number] for ref in step.args)
        values.append(left - right if step.op == "subtract" else np.maximum(left, right))
    for found, number in zip(kind(program)(x), outputs, strict=True):
        np.testing.assert_array_equal(found, values[number])


def test_a_long_module_gives_draws_writes_and_arguments():
    w = ag.tensor(np.ones(3))
    table = np.linspace(0.0, 1.0, 1200)

    def f(x, y):
        large = ag.asarray(table.tolist())
        z = y
        for i in range(STEPS_PER_FUNCTION):
            z = z * w + (ag.rand(3) if i % 900 == 0 else ag.sum(large) if i % 700 == 0 else 0.5)
        with ag.no_grad():
            w.add_(1e-6 * z)
        return {"z": z, "x": x, "again": (y, ag.sum(large))}

    x, y = np.arange(3.0), np.array([1.0, -1.0, 0.5])
    program = ag.func.capture(f)(x, y)
    assert "def part_2000(held, key):" in program.source()
    ag.manual_seed(3)
    given = program.arrays()
    result, written = as_module(program)(x, y, **given, key=(3, 0))
    wanted = f(x, y)
    np.testing.assert_allclose(result["z"], wanted["z"], rtol=1e-12)
    assert result["x"] is x
    np.testing.assert_array_equal(result["again"][0], y)
    np.testing.assert_allclose(result["again"][1], table.sum())
    np.testing.assert_allclose(written["w"], w.numpy(), rtol=1e-12)


def test_a_step_of_several_lines():
    class Doubling(ProgramText):
        """Writes one step as a loop."""

        def statements(self, at, step):
            if step.op != "double_thrice":
                yield from super().statements(at, step)
                return
            target = self.target(step)
            yield f"{target} = {self.part(step.args[0])}"
            yield "for _ in range(3):"
            yield f"    {target} = {target} + {target}"

    steps = (Step("double_thrice", (Ref(0),), {}, (1,)), Step("negative", (Ref(1),), {}, (2,)))
    program = Program((0,), steps, (2,), dict.fromkeys(range(3), Shaped((2,), "float64")))
    names: dict = {}
    exec("\n".join(Doubling(program).functions()), names)
    np.testing.assert_array_equal(names["program"](np, np.array([1.0, -2.0]))[0], [-8.0, 16.0])
