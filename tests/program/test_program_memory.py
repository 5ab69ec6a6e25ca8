"""What a program holds by step, and what it looks like: text, picture, notebook."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np

import agrad as ag

capture = ag.func.capture


def test_bytes_by_step_are_those_of_the_text_that_runs():
    program = capture(lambda x: ag.sum(ag.exp(ag.sin(x)) * x))(np.ones(1000, "float32"))
    # x | x sin | x sin exp, then sin goes | x exp mul, then exp goes | x mul sum
    assert [row.live for row in program.memory().rows] == [8000, 12000, 12000, 8004]
    assert [row.op for row in program.memory().rows] == ["sin", "exp", "multiply", "sum"]
    assert program.memory().peak == 12000
    assert program.memory().inputs == 4000
    assert program.memory().outputs == 4


def test_views_count_as_what_they_are_views_of():
    def f(x):
        y = ag.reshape(x * 2, (10, 100))
        return y[2:4], ag.sum(y.T), y[ag.asarray([0, 0])]

    memory = capture(f)(np.ones(1000)).memory()
    by_op = {row.op: row.made for row in memory.rows}
    assert (by_op["multiply"], by_op["reshape"], by_op["matrix_transpose"], by_op["sum"]) == (8000, 0, 0, 8)
    assert sorted(row.made for row in memory.rows if row.op == "getitem") == [0, 1600]
    assert memory.outputs == 8000 + 8 + 1600  # a view keeps all of what it is a view of
    assert memory.rows[-1].live == 8000 + memory.constants + memory.outputs


def test_a_program_without_steps():
    memory = capture(lambda x: x)(np.ones(3)).memory()
    assert (memory.peak, memory.rows) == (24, ())
    assert str(memory).splitlines()[-1].startswith("0 steps, peak 0.024 kB")


def test_the_table_has_a_line_per_step_or_the_largest():
    program = capture(lambda x: ag.sum(ag.exp(ag.sin(x))))(np.ones(1000))
    lines = str(program.memory()).splitlines()
    assert lines[0].split() == ["step", "operation", "made", "kB", "held", "kB", "line"]
    assert re.match(r"\s+1  exp\s+8\.000   24\.000  .*test_program_memory\.py:\d+$", lines[2])
    assert [line.split()[1] for line in program.memory().table(1).splitlines()[1:-1]] == ["exp"]


def test_sizes_are_shown_in_a_unit_that_suits_them():
    shown = {n: repr(capture(lambda x: x + x)(np.ones(n)).memory()) for n in (10, 10**6)}
    assert shown == {
        10: "<1 steps, peak 0.160 kB: inputs 0.080, constants 0.000, outputs 0.080>",
        10**6: "<1 steps, peak 16.000 MB: inputs 8.000, constants 0.000, outputs 8.000>",
    }


def test_a_program_is_short_where_its_value_is_shown():
    program = capture(lambda x, y: (x * y, ag.sin(x)))(np.ones(3), np.ones(3))
    assert repr(program) == "<Program of 2 steps: 2 inputs, 2 outputs; print() shows its text>"


def test_the_graph_has_forward_and_backward_in_one():
    w = ag.tensor(np.ones((4, 3)))
    program = capture(ag.func.value_and_grad(lambda x: ag.sum(ag.tanh(x @ w))))(np.ones((5, 4)))
    shown = ag.view.graph(program)
    assert [row.name for row in shown.rows[:2]] == ["x", "w"]
    forward = [row.name for row in shown.rows if not row.leaf and not row.backward]
    assert forward[:3] == ["matmul", "tanh", "sum"]
    assert any(row.backward and row.name == "matmul" for row in shown.rows)
    tanh = next(row for row in shown.rows if row.name == "tanh")
    taking = [shown.rows[i - 1] for i in tanh.inputs]
    assert any(row.name == "sum" for row in taking)
    assert any(row.backward for row in taking)  # the derivative takes the result
    assert sum(row.output for row in shown.rows) == 2
    assert "of them backward" in str(shown)


def test_the_graph_has_the_numbers_that_are_part_of_the_program():
    program = capture(lambda x: x * ag.asarray(2.5))(np.ones(3))
    shown = ag.view.graph(program.replaced(names={}))
    assert [row.name for row in shown.rows] == ["input", "2.5", "multiply"]


def test_the_picture_is_well_formed_and_has_every_step():
    program = capture(ag.func.grad(lambda x: ag.sum(ag.sin(x) * x)))(np.ones(3))
    root = ET.fromstring(ag.view.svg(program))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"sin", "cos", "x"} <= set(texts)
    assert ag.view.svg(program).count("#fdf0dd") == sum(step.is_backward for step in program.steps)
    assert ag.view.dot(program).startswith("digraph agrad {")
    assert "Captured program" in ag.view.html(program)


def test_notebooks_show_the_text_escaped():
    program = capture(lambda x: x["<b>"] * 2)({"<b>": np.ones(3)})
    html = program._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "float64[3]" in html

    def long(x):
        for _ in range(600):
            x = x * 2
        return x

    assert "more lines" in capture(long)(np.ones(1))._repr_html_()


def test_draws_have_no_bytes_of_their_own():
    program = capture(lambda x: x + ag.randn(4))(np.ones(4))
    assert program.memory().inputs == 32
    assert "key" in [row.name for row in ag.view.graph(program).rows]
