"""Show the recorded graph, or a program: text, DOT, SVG, HTML, and the bytes a graph keeps.

All views are made from one list of `NodeRow`, newest node first. The picture needs no other program: nodes are placed in layers,
each as high as its predecessors allow, so that parameters are next to the operation that uses them. A graph is drawn
from its results down, as cotangents flow; a program from its inputs down, as values flow, forward and backward in one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from agrad.core.backend import backend_of
from agrad.core.errors import line_of
from agrad.core.node import AccumulateGrad, Freed, Node, Output
from agrad.core.saved import Packed
from agrad.core.tensor import Tensor
from agrad.ops.docs import complete as _complete
from agrad.program.program import Program, number_text
from agrad.tree import flatten
from agrad.view import notebook

__all__ = ["Graph", "Memory", "dot", "graph", "html", "memory", "svg", "text"]


@dataclass
class Saved:
    """One value that a node saves for backward.

    Attributes
    ----------
    name : str
        Its name in the rule: an operand's name, ``ans``...
    shape, dtype
        The array's shape and dtype.
    bytes : int
        Its size; 0 where saved-tensor hooks keep it elsewhere, or where the length of an axis is unknown.
    key : int
        Identifies the array, so that nodes that keep the same one can be found.
    packed : bool
        Whether saved-tensor hooks keep it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    key: int
    packed: bool = False

    @property
    def size(self) -> str:
        """The size as readable text."""
        if self.packed:
            return "packed"
        return _size(self.bytes) if math.prod(self.shape) >= 0 else "of unknown size"


@dataclass
class NodeRow:
    """One node.

    Attributes
    ----------
    number : int
        Its position in the list, from 1.
    name : str
        The node's name, as ``MultiplyBackward0``.
    shapes, dtypes
        Those of its results.
    line : str
        The user's line of the forward call; empty for a leaf.
    inputs : list of int
        The numbers of the nodes its cotangents go to.
    saved : list of Saved
        The values it saves.
    freed : bool
        Whether a backward pass has freed the saved values.
    leaf : bool
        Whether gradients are accumulated here; in a program: whether it is an input or a constant.
    backward : bool
        In a program: whether the step is part of a derivative.
    output : bool
        In a program: whether it returns a result.
    """

    number: int
    name: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    line: str
    inputs: list[int] = field(default_factory=list)
    saved: list[Saved] = field(default_factory=list)
    freed: bool = False
    leaf: bool = False
    backward: bool = False
    output: bool = False

    @property
    def result(self) -> str:
        """The results, as ``float64 (2, 3)``; several equal ones as ``3 x float64 (2, 3)``."""
        each = [f"{d} {s}" for d, s in zip(self.dtypes, self.shapes, strict=True)]
        runs = [(one, len(list(run))) for one, run in itertools.groupby(each)]
        return ", ".join(one if count == 1 else f"{count} x {one}" for one, count in runs)

    @property
    def bytes(self) -> int:
        """The bytes kept, counting an array that is kept twice once."""
        return _total(self.saved)


class Graph:
    """A viewable recorded graph or program.

    Made by `graph`. Notebooks show it as a picture, or a large one (500 nodes) as both ends of its table.

    Attributes
    ----------
    rows : list of NodeRow
        Its nodes, newest first; for a program its inputs, constants and steps, in order.
    note : str
        A summary.
    """

    def __init__(self, rows: list[NodeRow], note: str = "") -> None:
        self.rows = rows
        self.note: str = note or _kept(itertools.chain(*(row.saved for row in rows)))
        self._kind = "program" if note else "graph"

    def __str__(self) -> str:
        return _text(self.rows, self.note)

    def __repr__(self) -> str:
        said = (
            self.note
            if self._kind == "program"
            else f"{_size(_total(itertools.chain(*(row.saved for row in self.rows))))} kept"
        )
        return f"<{self._kind} of {len(self.rows)} nodes, {said}>"

    def _repr_svg_(self) -> str | None:
        return _svg(self.rows) if len(self.rows) <= _PICTURED else None

    def _repr_html_(self) -> str:
        picture = self._repr_svg_()
        if picture is not None:
            return _table(self.rows, self.note) + picture
        shown = _PICTURED // 5
        left_out = f"{len(self.rows) - 2 * shown} more nodes: agrad.view.html gives them all, with a picture"
        return _table(self.rows, self.note, shown, left_out)


def graph(outputs: Any, names: Any = None) -> Graph:
    """Return the graph behind tensors, or a program, as an object to print or to show in a notebook.

    outputs : Tensor or container of them, or Program
        Tensors that require grad. A program shows the captured forward and backward passes in one picture, with arrows along
        the values; steps of derivatives have another colour.
    names : Module or dict of str to Tensor, optional
        The names of leaves, for example of a module's parameters.
    Returns: A `Graph` whose rows are the nodes.
    ValueError: If none of them requires grad: nothing was recorded.
    TypeError: If there is no tensor.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.view.graph(ag.sum(x * x))
    <graph of 3 nodes, 16 B kept>
    >>> ag.view.graph(ag.func.capture(ag.func.grad(lambda x: ag.sum(ag.sin(x))))(ag.ones(2)))
    <program of 5 nodes, 3 steps, 3 of them backward>
    """
    if not isinstance(outputs, Program):
        return Graph(_rows(outputs, names))
    backward = sum(step.is_backward for step in outputs.steps)
    return Graph(_rows(outputs), f"{len(outputs.steps)} steps, {backward} of them backward")


def text(outputs: Any, names: Any = None) -> str:
    """Return the graph behind tensors as text: a line per node, newest first.

    outputs : Tensor or container of them
        Tensors that require grad.
    names: As for `graph`.
    Returns: For each node: its number, the numbers of the nodes that its cotangents go to, the operation, its result, the
        values it keeps for backward, and the line of the forward call.
    ValueError: If none of them requires grad.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> print(ag.view.text(ag.sum(ag.exp(x))))
    1 -> 2  SumBackward0    float64 ()
    2 -> 3  ExpBackward0    float64 (2,)  keeps ans float64 (2,) 16 B
    3       AccumulateGrad  float64 (2,)
    kept for backward: 16 B
    >>> print(ag.view.text(ag.sum(ag.exp(x)), {"x": x}).splitlines()[2])
    3       x             float64 (2,)
    """
    return str(graph(outputs, names))


def dot(outputs: Any, names: Any = None) -> str:
    """Return the graph behind tensors in the DOT language of Graphviz.

    outputs : Tensor or container of them
        Tensors that require grad.
    names: As for `graph`.
    Returns: A ``digraph``; arrows follow the cotangents.
    ValueError: If none of them requires grad.

    >>> x = ag.tensor(1.0, requires_grad=True)
    >>> ag.view.dot(ag.exp(x)).splitlines()[0]
    'digraph agrad {'
    """
    rows = _rows(outputs, names)
    lines = ["digraph agrad {", '  node [shape=box, fontname="sans-serif", fontsize=10];']
    for row in rows:
        label = "\\n".join(part.replace("\\", "\\\\").replace('"', '\\"') for part in _label(row))
        lines.append(f'  n{row.number} [label="{label}"{", style=rounded" if row.leaf else ""}];')
    lines += [f"  n{row.number} -> n{i};" for row in rows for i in row.inputs]
    return "\n".join([*lines, "}"])


def svg(outputs: Any, names: Any = None) -> str:
    """Return a self-contained picture of the graph behind tensors.

    outputs : Tensor or container of them
        Tensors that require grad.
    names: As for `graph`.
    Returns: An ``<svg>`` element. Operations are above the nodes they lead to; hovering shows a node's whole row.
    ValueError: If none of them requires grad.

    >>> x = ag.tensor(1.0, requires_grad=True)
    >>> ag.view.svg(ag.exp(x)).startswith("<svg")
    True
    """
    return _svg(_rows(outputs, names))


def html(outputs: Any, names: Any = None) -> str:
    """Return a self-contained page with the picture and the table of the graph behind tensors.

    outputs : Tensor or container of them
        Tensors that require grad.
    names: As for `graph`.
    Returns: The text of an HTML file.
    ValueError: If none of them requires grad.

    >>> x = ag.tensor(1.0, requires_grad=True)
    >>> "ExpBackward0" in ag.view.html(ag.exp(x))
    True
    """
    shown = graph(outputs, names)
    head = f'<meta charset="utf-8"><title>agrad {shown._kind}</title><style>{_STYLE}</style>'
    title = "Recorded graph" if shown._kind == "graph" else "Captured program"
    body = f'<h1>{title}</h1>\n<div class="picture">{_svg(shown.rows)}</div>\n{_table(shown.rows, shown.note)}'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


class Memory:
    """The values that a graph keeps for backward.

    Made by `memory`.

    Attributes
    ----------
    rows : list of tuple
        For each saved value: operation, name, shape, dtype, bytes, line; largest first.
    total : int
        The bytes, counting an array that is kept several times once.
    """

    def __init__(self, saved: list[tuple[NodeRow, Saved]]) -> None:
        self._saved = sorted(saved, key=lambda pair: -pair[1].bytes)
        self.rows: list[Any] = [(row.name, s.name, s.shape, s.dtype, s.bytes, row.line) for row, s in self._saved]
        self.total: int = _total(s for _, s in saved)

    def __str__(self) -> str:
        lines = [[row.name, s.name, f"{s.dtype} {s.shape}", s.size, row.line] for row, s in self._saved]
        return "\n".join([*_aligned(lines), _kept(s for _, s in self._saved)])

    def __repr__(self) -> str:
        return f"<{len(self.rows)} values kept for backward, {_size(self.total)}>"

    def _repr_html_(self) -> str:
        lines = [(row.name, s.name, f"{s.dtype} {s.shape}", s.size, row.line) for row, s in self._saved]
        total = _kept(s for _, s in self._saved)
        return notebook.table(("operation", "value", "array", "size", "line"), lines) + notebook.text(total)


def memory(outputs: Any) -> Memory:
    """List the values that the graph behind tensors keeps for backward.

    outputs : Tensor or container of them
        Tensors that require grad.
    Returns: Prints as a table, largest value first; ``.total`` is in bytes.
    ValueError: If none of them requires grad.

    >>> x = ag.ones((1000,), requires_grad=True)
    >>> ag.view.memory(ag.sum(ag.exp(ag.sin(x)))).total
    16000
    """
    return Memory([(row, s) for row in _rows(outputs) for s in row.saved])


# -- reading the graph ------------------------------------------------------------------------------------------------


def _rows(outputs: Any, names: Any = None) -> list[NodeRow]:
    return _program_rows(outputs) if isinstance(outputs, Program) else _graph_rows(outputs, names)


def _program_rows(program: Program) -> list[NodeRow]:
    """Return the inputs, constants and steps of a program; each leads to the steps that take its values."""
    rows: list[NodeRow] = []
    maker: dict[int, NodeRow] = {}
    for number in (*program.inputs, *program.constants):
        key = number in program.keys
        name = program.names.get(number) or ("key" if key else "constant" if number in program.constants else "input")
        shape, dtype = ((), "key") if key else program.shapes[number]
        if number in program.constants and shape == ():
            name = number_text(program.constants[number])
        maker[number] = row = NodeRow(len(rows) + 1, name, (shape,), (dtype,), "", leaf=True)
        rows.append(row)
    for step in program.steps:
        made = [program.shapes[n] for n in step.made]
        row = NodeRow(len(rows) + 1, step.op, tuple(s.shape for s in made), tuple(s.dtype for s in made), step.line)
        row.backward = step.is_backward
        for taken in dict.fromkeys(maker[n].number for n in step.refs):
            rows[taken - 1].inputs.append(row.number)
        maker |= dict.fromkeys(step.made, row)
        rows.append(row)
    for number in program.outputs:
        maker[number].output = True
    return rows


def _graph_rows(outputs: Any, names: Any) -> list[NodeRow]:
    tensors = [leaf for leaf in flatten(outputs)[0] if isinstance(leaf, Tensor)]
    if not tensors:
        raise TypeError(f"expected a Tensor or a container of tensors, not {outputs!r}")
    roots = [t._node.address()[0] for t in tensors if t._node is not None]
    if not roots:
        raise ValueError("nothing was recorded for these tensors: none requires grad")
    nodes: set[Node] = set()
    stack: list[Node] = list(roots)
    while stack:
        node = stack.pop()
        if node not in nodes:
            nodes.add(node)
            stack.extend(_ahead(node))
    ordered = sorted(nodes, key=lambda n: -n.seq)
    numbers = {node: i for i, node in enumerate(ordered, 1)}
    rows = [_row(node, numbers) for node in ordered]
    named = getattr(names, "named_parameters", getattr(names, "items", tuple))
    for name, tensor in named():
        if tensor._node in numbers:
            rows[numbers[tensor._node] - 1].name = name
    return rows


def _ahead(node: Node) -> list[Node]:
    """Return the nodes that cotangents go to, with results of one call merged."""
    return [n.base if isinstance(n, Output) else n for n in node.inputs]


def _row(node: Node, numbers: dict[Node, int]) -> NodeRow:
    specs = [s for s in node.out_specs if s is not None]
    return NodeRow(
        number=numbers[node],
        name=node.name(),
        shapes=tuple(s.shape for s in specs),
        dtypes=tuple(s.backend.dtype_name(s.dtype) for s in specs),
        line="" if node.code is None else line_of(node.code, node.lasti),
        inputs=[numbers[n] for n in _ahead(node)],
        saved=_saved(node),
        freed=type(node.saved) is Freed,
        leaf=isinstance(node, AccumulateGrad),
    )


def _saved(node: Node) -> list[Saved]:
    plan = node.plan
    values = () if type(node.saved) is Freed else node.saved
    names = plan.saves if plan is not None else tuple(f"saved_tensors[{i}]" for i in range(len(values)))
    found: list[Saved] = []
    for name, value in zip(names, values, strict=False):
        _collect(name, value, found)
    return found


def _collect(name: str, value: Any, found: list[Saved]) -> None:
    """Add the arrays in a saved value: the value itself, or those in a list of operands or a key."""
    if isinstance(value, Packed):
        spec = value.spec
        found.append(Saved(name, spec.shape, spec.backend.dtype_name(spec.dtype), 0, id(value), packed=True))
        return
    if isinstance(value, list | tuple):
        for i, part in enumerate(value):
            _collect(f"{name}[{i}]", part, found)
        return
    raw = value._raw if isinstance(value, Tensor) else value
    backend = backend_of(raw)
    if backend is not None:
        spec = backend.spec(raw)
        found.append(Saved(name, spec.shape, backend.dtype_name(spec.dtype), backend.nbytes(raw), id(raw)))


def _kept(saved: Iterable[Saved]) -> str:
    """Return the summary line."""
    saved = list(saved)
    packed = sum(s.packed for s in saved)
    note = f", and {packed} packed by saved-tensor hooks" if packed else ""
    return f"kept for backward: {_size(_total(saved))}{note}"


def _total(saved: Iterable[Saved]) -> int:
    """Return the bytes of values, counting an array that is kept several times once."""
    return sum({s.key: s.bytes for s in saved}.values())


# -- text -------------------------------------------------------------------------------------------------------------


def _size(count: int) -> str:
    """Format a number of bytes."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def _keeps(row: NodeRow) -> str:
    if row.freed:
        return "freed by a backward pass"
    kept = ", ".join(f"{s.name} {s.dtype} {s.shape} {s.size}" for s in row.saved)
    return f"keeps {kept}" if kept else ""


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)] if table else []
    return ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table]


def _text(rows: list[NodeRow], note: str) -> str:
    table = []
    for row in rows:
        arrow = f"{row.number} -> {', '.join(map(str, row.inputs))}" if row.inputs else str(row.number)
        table.append([arrow, row.name, row.result, _keeps(row), _short(row.line)])
    return "\n".join([*_aligned(table), note])


def _short(line: str) -> str:
    """Return a place in the user's code; interactive input has none worth showing."""
    return "" if line.startswith("<") else line


# -- pictures ---------------------------------------------------------------------------------------------------------

_PICTURED = 500  # the largest number of nodes that notebooks show as a picture
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 200, 46, 24, 34, 12
_LANE = 10  # the width of an edge that passes through a layer
_STYLE = (
    "body{font-family:sans-serif;font-size:13px;margin:1.5em}table{border-collapse:collapse;margin-top:1em}"
    "th,td{text-align:left;padding:2px 10px;border-bottom:1px solid #ddd;white-space:nowrap}"
    ".picture{overflow:auto;max-height:80vh;border:1px solid #ddd}"
)


_BOLD = ' stroke-width="2.5"'


def _fill(row: NodeRow) -> str:
    """Return the colour of an operation."""
    return "#fdf0dd" if row.backward else "#eee" if row.freed else "#eef2fb"


def _label(row: NodeRow) -> list[str]:
    """Return the lines of text in a node's box."""
    place = _short(row.line).replace("\\", "/").rpartition("/")[2]
    last = "  ".join(part for part in (place, "freed" if row.freed else _size(row.bytes) if row.bytes else "") if part)
    return [part for part in (row.name, row.result, last) if part]


_Spot: TypeAlias = int | tuple[int, int]  # a node by its number; or the edges to a node that pass a layer, and which


def _layout(rows: list[NodeRow]) -> tuple[list[dict[_Spot, float]], list[tuple[_Spot, _Spot]]]:
    """Place the nodes: the centre of each in each layer, from the top, and the connections to the next layer."""
    level, first = _levels(rows)
    above = _joined(rows, level, first)
    members: list[list[_Spot]] = [[] for _ in range(max(level.values()) + 1)]
    for spot in above:
        members[spot[1] if isinstance(spot, tuple) else level[spot]].append(spot)
    tops = (row.number for row in rows if not level[row.number])
    layers: list[dict[_Spot, float]] = [{number: i * (_WIDTH + _GAP_X) for i, number in enumerate(tops)}]
    leaves = {row.number for row in rows if row.leaf}
    for spots in members[1:]:
        upper = layers[-1]
        wanted = {spot: sum(upper[p] for p in above[spot]) / len(above[spot]) for spot in spots}
        spots.sort(key=lambda spot: (wanted[spot], spot in leaves))
        layers.append(dict(_spread(spots, wanted, leaves)))
    return layers, [(p, spot) for spot, parents in above.items() for p in parents]


def _levels(rows: list[NodeRow]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the layer of each node, the length of the longest path to it, and the highest layer that leads to it."""
    level = {row.number: 0 for row in rows}
    first: dict[int, int] = {}
    for row in rows:
        for i in row.inputs:
            level[i] = max(level[i], level[row.number] + 1)
            first[i] = min(first.get(i, level[row.number]), level[row.number])
    return level, first


def _joined(rows: list[NodeRow], level: dict[int, int], first: dict[int, int]) -> dict[_Spot, list[_Spot]]:
    """Return each spot's connections to the layer above: edges to one node pass through a layer together."""
    above: dict[_Spot, list[_Spot]] = {}
    for row in rows:
        for i in dict.fromkeys(row.inputs):
            down = level[row.number] + 1
            above.setdefault(i if down == level[i] else (i, down), []).append(row.number)
        if row.number not in first:
            continue
        end = level[row.number]
        for down in range(first[row.number] + 2, end):
            above.setdefault((row.number, down), []).append((row.number, down - 1))
        if end > first[row.number] + 1:
            above.setdefault(row.number, []).append((row.number, end - 1))
    return above


def _spread(spots: list[_Spot], wanted: dict[_Spot, float], leaves: set[int]) -> Iterable[tuple[_Spot, float]]:
    """Return positions in a layer, in this order and separated, as close as possible to the wanted ones; leaves yield to others.

    Least squares under an order: isotonic regression by pooling neighbours.
    """
    offsets: list[float] = []
    pools: list[list[float]] = []  # weight, weighted sum, length of each
    end = 0.0
    for spot in spots:
        half = (_LANE if isinstance(spot, tuple) else _WIDTH) / 2
        offsets.append(end + half)
        end += 2 * half + _GAP_X
        weight = 1e-3 if spot in leaves else 1.0
        pool = [weight, weight * (wanted[spot] - offsets[-1]), 1]
        while pools and pools[-1][1] / pools[-1][0] > pool[1] / pool[0]:
            pool = [a + b for a, b in zip(pools.pop(), pool, strict=True)]
        pools.append(pool)
    moved = [total / weight for weight, total, length in pools for _ in range(int(length))]
    return ((spot, offset + move) for spot, offset, move in zip(spots, offsets, moved, strict=True))


def _svg(rows: list[NodeRow]) -> str:
    layers, edges = _layout(rows)
    left = min(min(layer.values()) for layer in layers) - _WIDTH / 2 - _MARGIN
    width = max(max(layer.values()) for layer in layers) + _WIDTH / 2 + _MARGIN - left
    height = len(layers) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    middle: dict[_Spot, tuple[float, float]] = {}  # of the upper edge
    for number, layer in enumerate(layers):
        for spot, x in layer.items():
            middle[spot] = x - left, _MARGIN + number * (_HEIGHT + _GAP_Y)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="11">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>'
        ),
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>',
    ]
    parts += [_edge(middle[start], middle[end], passes=isinstance(end, tuple)) for start, end in edges]
    for row in rows:
        parts += _box(row, *middle[row.number])
    return "\n".join([*parts, "</svg>"])


def _edge(start: tuple[float, float], end: tuple[float, float], *, passes: bool) -> str:
    """Draw the line from one spot to another in the next layer, where it ends with an arrow or passes through."""
    (x1, y1), (x2, y2) = start, end
    y1 += _HEIGHT
    bend = (y2 - y1) / 2
    path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    tip = f'V{y2 + _HEIGHT:.1f}"' if passes else '" marker-end="url(#tip)"'
    return f'<path d="{path}{tip} fill="none" stroke="#777"/>'


def _box(row: NodeRow, x: float, y: float) -> list[str]:
    """Draw a node, given the middle of its upper edge."""
    fill, radius = ("#e3f1e3", 14) if row.leaf else (_fill(row), 4)
    about = " | ".join(part for part in (row.name, row.result, _keeps(row), row.line) if part)
    parts = [
        f"<g><title>{escape(about)}</title>",
        (
            f'<rect x="{x - _WIDTH / 2:.1f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}"'
            f' fill="{fill}" stroke="#556"{_BOLD if row.output else ""}/>'
        ),
    ]
    lines = _label(row)
    for i, line in enumerate(lines):
        weight = ' font-weight="bold"' if i == 0 else ""
        shown = line if len(line) <= 30 else line[:29] + "…"
        down = y + _HEIGHT / 2 + 4 + 14 * (i - (len(lines) - 1) / 2)
        parts.append(f'<text x="{x:.1f}" y="{down:.1f}" text-anchor="middle"{weight}>{escape(shown)}</text>')
    return [*parts, "</g>"]


def _table(rows: list[NodeRow], note: str, ends: int = 0, left_out: str = "") -> str:
    """Return the rows as a table; with `ends`, only this many at either end, and a remark about the others."""
    heads = ("", "operation", "result", "kept for backward", "bytes", "line", "leads to")
    shown = [*rows[:ends], *rows[-ends:]] if ends else rows
    lines = []
    for row in shown:
        kept = "freed" if row.freed else ", ".join(f"{s.name} {s.dtype} {s.shape}" for s in row.saved)
        size = row.bytes or ("packed" if any(s.packed for s in row.saved) else "")
        cells = (row.number, row.name, row.result, kept, size, row.line, ", ".join(map(str, row.inputs)))
        lines.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    if ends:
        lines.insert(ends, f'<tr><td colspan="{len(heads)}">… {escape(left_out)}</td></tr>')
    head = "".join(f"<th>{h}</th>" for h in heads)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{''.join(lines)}</tbody></table>\n<p>{escape(note)}</p>"


_complete(globals(), {})
