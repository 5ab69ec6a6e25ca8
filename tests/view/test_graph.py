"""The graph as text, DOT and picture, the bytes it keeps, and the profiler."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import agrad as ag


def program():
    x = ag.asarray(np.ones((4, 3)), requires_grad=True)
    w = ag.asarray(np.ones((3, 2)), requires_grad=True)
    h = ag.tanh(x @ w)
    first, *_ = ag.unstack(h)
    return ag.sum(h * h) + ag.sum(first)


NAMES = [
    "AddBackward0",
    "SumBackward0",
    "SumBackward0",
    "MultiplyBackward0",
    "UnstackBackward0",
    "TanhBackward0",
    "MatmulBackward0",
    "AccumulateGrad",
    "AccumulateGrad",
]


def test_rows():
    graph = ag.view.graph(program())
    assert sorted(row.name for row in graph.rows) == sorted(NAMES)
    assert [row.number for row in graph.rows] == list(range(1, 10))
    by_name = {row.name: row for row in graph.rows}
    assert by_name["MatmulBackward0"].shapes == ((4, 2),)
    assert [(s.name, s.shape, s.bytes) for s in by_name["MatmulBackward0"].saved] == [
        ("x1", (4, 3), 96),
        ("x2", (3, 2), 48),
    ]
    assert by_name["UnstackBackward0"].result == "4 x float64 (2,)"
    assert re.search(r"test_graph\.py:\d+$", by_name["TanhBackward0"].line)
    for row in graph.rows:
        assert all(i > row.number for i in row.inputs)
    assert repr(graph) == "<graph of 9 nodes, 208 B kept>"  # x, w, and tanh's result, which multiply keeps too


def test_text():
    text = ag.view.text(program())
    lines = text.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("1 -> ")
    assert lines[-1] == "kept for backward: 208 B"
    assert "keeps ans float64 (4, 2) 64 B" in text


def test_several_outputs_and_what_was_freed():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    a, b = ag.exp(x), ag.sin(x)
    a.sum().backward()
    rows = {row.name: row for row in ag.view.graph([a, b]).rows}
    assert len(rows) == 3
    assert rows["ExpBackward0"].freed
    assert "freed by a backward pass" in ag.view.text(a)
    assert ag.view.memory([a, b]).total == 16


def test_packed_values_and_functions():
    class Twice(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = ag.tensor([1.0, 2.0], requires_grad=True)
    rows = {row.name: row for row in ag.view.graph(Twice.apply(x)).rows}
    assert [(s.name, s.bytes) for s in rows["TwiceBackward"].saved] == [("saved_tensors[0]", 16)]
    with ag.autograd.graph.save_on_disk():
        y = ag.exp(x)
    assert ag.view.memory(y).total == 0
    assert [name for _, name, *_ in ag.view.memory(y).rows] == ["ans"]


def test_memory_is_sorted_and_counts_shared_arrays_once():
    x = ag.ones((100,), requires_grad=True)
    y = ag.sin(x) * ag.cos(x)  # x twice; both factors
    found = ag.view.memory(y)
    assert found.total == 3 * 800
    assert len(found.rows) == 4
    assert str(found).splitlines()[-1] == "kept for backward: 2.3 KiB"


def test_nothing_recorded():
    with pytest.raises(ValueError, match="none requires grad"):
        ag.view.text(ag.tensor(1.0))


def test_dot():
    dot = ag.view.dot(program())
    assert dot.startswith("digraph agrad {")
    assert dot.count("->") == sum(len(row.inputs) for row in ag.view.graph(program()).rows)
    assert dot.count("[label=") == 9


def test_pictures_are_well_formed():
    y = program()
    picture = ET.fromstring(ag.view.svg(y))
    boxes = picture.findall(".//{*}g")
    assert len(boxes) == 9
    assert {box.find("{*}text").text for box in boxes} == set(NAMES)
    page = ag.view.html(y)
    assert page.startswith("<!DOCTYPE html>")
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing from elsewhere
    shown = ag.view.graph(y)
    assert shown._repr_svg_() in shown._repr_html_()


def test_a_million_nodes_need_no_recursion():
    y = ag.tensor(1.0, requires_grad=True)
    for _ in range(5000):
        y = y + 1.0
    assert len(ag.view.graph(y).rows) == 5001
    assert ag.view.svg(y).count("<g>") == 5001


# -- the profiler ------------------------------------------------------------------------------------------------------


def test_profile():
    x = ag.ones((1000,), requires_grad=True)
    with ag.profile() as p:
        for _ in range(3):
            ag.sum(ag.exp(x) * x).backward()
    assert {n: (e.calls, e.backward_calls) for n, e in p.entries.items()} == {
        "exp": (3, 3),
        "multiply": (3, 3),
        "sum": (3, 3),
    }
    assert p.entries["exp"].bytes == 3 * 8000
    assert p.entries["multiply"].backward_bytes == 3 * 16000
    assert all(e.seconds > 0 and e.backward_seconds > 0 for e in p.entries.values())
    table = p.table()
    assert table.splitlines()[0].split()[:2] == ["operation", "calls"]
    assert len(table.splitlines()) == 2 + 3 + 2
    assert p.table(sort_by="calls") != ""
    with pytest.raises(ValueError, match="sort_by must be one of"):
        p.table(sort_by="name")
    before = p.entries["exp"].calls
    ag.exp(x)
    assert p.entries["exp"].calls == before


def test_profile_of_functions_several_results_and_second_order(backend):
    class Twice(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = ag.asarray(np.array([[1.0, 2.0], [3.0, 4.0]]), device=backend, requires_grad=True)
    with ag.profile() as p:
        first, second = ag.unstack(Twice.apply(x) ** 3)
        (g,) = ag.grad(ag.sum(first * second), x, create_graph=True)
        (gg,) = ag.grad(ag.sum(g), x)
    # of 8 * 8 * a^3 b^3 in each column: gradient 192 a^2 b^3
    v = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(g.detach().numpy(), 192 * v * v * v[::-1] ** 3)
    np.testing.assert_allclose(gg.numpy(), 2 * 192 * v * v[::-1] ** 3 + 3 * 192 * v * v * v[::-1] ** 2)
    assert p.entries["TwiceBackward"].backward_calls == 2
    assert p.entries["unstack"].bytes == 32


def test_profile_without_recording():
    with ag.profile() as p, ag.no_grad():
        ag.exp(ag.ones((10,)))
    assert p.entries["exp"].calls == 1


# -- large, lazy, mapped and packed ------------------------------------------------------------------------------------


def test_notebooks_show_the_ends_of_a_large_graph():
    y = ag.tensor(1.0, requires_grad=True)
    for _ in range(600):
        y = y + 1.0
    graph = ag.view.graph(y)
    assert graph._repr_svg_() is None
    shown = ET.fromstring(f"<div>{graph._repr_html_()}</div>")
    assert len(shown.findall(".//tbody/tr")) == 201
    assert "401 more nodes" in graph._repr_html_()


def boxes_of(picture):
    """The left and upper corner of every box, by name."""
    return [
        (group.find("{*}text").text, float(group.find("{*}rect").get("x")), float(group.find("{*}rect").get("y")))
        for group in ET.fromstring(picture).findall(".//{*}g")
    ]


def test_boxes_stand_apart_and_parameters_beside_what_uses_them():
    x = ag.ones((2, 3))
    weights = [ag.ones((3, 3), requires_grad=True) for _ in range(4)]
    for w in weights:
        x = x + ag.tanh(x @ w)  # edges that pass layers
    boxes = boxes_of(ag.view.svg(ag.sum(x)))
    for i, (_, x1, y1) in enumerate(boxes):
        for _, x2, y2 in boxes[:i]:
            assert abs(x1 - x2) >= 200 or abs(y1 - y2) >= 46
    below = sorted(y for name, _, y in boxes if name == "AccumulateGrad")
    used = sorted(y for name, _, y in boxes if name == "MatmulBackward0")
    assert below == [y + 80 for y in used]


def test_several_outputs_in_containers():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    assert len(ag.view.graph({"a": ag.exp(x), "b": [ag.sin(x), None]}).rows) == 3
    with pytest.raises(TypeError, match="expected a Tensor or a container of tensors, not 3"):
        ag.view.text(3)


def test_packed_values_are_said_to_be():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    with ag.autograd.graph.save_on("numpy"):
        y = ag.exp(x)
    assert "keeps ans float64 (2,) packed" in ag.view.text(y)
    assert str(ag.view.memory(y)).endswith("kept for backward: 0 B, and 1 packed by saved-tensor hooks")


def test_lazy_graphs_are_shown_without_computing(never_computes):
    import dask.array as da

    x = ag.asarray(da.ones((4, 3), chunks=(2, 3)), requires_grad=True)
    chosen = x[x > 0.5]
    y = ag.sum(ag.exp(x)) + ag.sum(chosen * chosen)
    assert "float64 (nan,) of unknown size" in ag.view.text(y)
    assert ag.view.memory(y).total == 96 + 12  # what exp gives, and the mask
    ET.fromstring(ag.view.svg(y))
    assert "exp" in ag.view.html(y).lower()


def test_under_vmap():
    texts = []

    def f(x):
        y = ag.sum(ag.exp(x))
        texts.append(ag.view.text(y))
        ET.fromstring(ag.view.svg(y))
        return y

    ag.func.vmap(ag.func.grad(f))(ag.ones((3, 4)))
    assert "keeps ans float64 (4,) 96 B" in texts[0]  # of all three
