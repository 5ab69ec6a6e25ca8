"""The recorded graph as something to look at: text, DOT, SVG, HTML, and the bytes it keeps.

All of them are made from one list of `Row`, newest node first. The picture needs no other program: nodes stand in layers
by their distance from the leaves, and each layer is ordered by the places of what it leads to.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from agrad.core.errors import line_of
from agrad.core.node import AccumulateGrad, Freed, Node, Output
from agrad.core.saved import Parcel
from agrad.core.spec import backend_of
from agrad.core.tensor import Tensor

__all__ = ["Graph", "Memory", "dot", "graph", "html", "memory", "svg", "text"]


@dataclass
class Saved:
    """One value that a node keeps for backward.

    Attributes
    ----------
    name : str
        What the rule calls it: an operand's name, ``ans``...
    shape, dtype
        Of the array.
    bytes : int
        Its size; 0 where saved-tensor hooks keep it elsewhere.
    key : int
        Tells whether two nodes keep the same array.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    key: int


@dataclass
class Row:
    """One node.

    Attributes
    ----------
    number : int
        Its place in the list, from 1.
    name : str
        As ``MultiplyBackward0``.
    shapes, dtypes
        Of its results.
    line : str
        The user's line of the forward call; empty for a leaf.
    inputs : list of int
        The numbers of the nodes its cotangents go to.
    saved : list of Saved
        What it keeps.
    freed : bool
        A backward pass has freed what it kept.
    leaf : bool
        Whether gradients are accumulated here.
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

    @property
    def result(self) -> str:
        """The results, as ``float64 (2, 3)``; several alike as ``3 x float64 (2, 3)``."""
        each = [f"{d} {s}" for d, s in zip(self.dtypes, self.shapes, strict=True)]
        runs = [(one, len(list(run))) for one, run in itertools.groupby(each)]
        return ", ".join(one if count == 1 else f"{count} x {one}" for one, count in runs)

    @property
    def bytes(self) -> int:
        """The bytes kept, an array that is kept twice counted once."""
        return sum({s.key: s.bytes for s in self.saved}.values())


class Graph:
    """A recorded graph, for looking at; notebooks show it as a picture.

    Made by `graph`.

    Attributes
    ----------
    rows : list of Row
        Its nodes, newest first.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def __str__(self) -> str:
        return _text(self.rows)

    def __repr__(self) -> str:
        return f"<graph of {len(self.rows)} nodes, {_size(_total(self.rows))} kept>"

    def _repr_svg_(self) -> str:
        return _svg(self.rows)

    def _repr_html_(self) -> str:
        return _table(self.rows) + _svg(self.rows)


def graph(outputs: Tensor | Sequence[Tensor]) -> Graph:
    """Give the graph behind tensors as an object to print, or to show in a notebook.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        They require grad.

    Returns
    -------
    Graph
        Its rows are its nodes.

    Raises
    ------
    ValueError
        If none of them requires grad: nothing was recorded.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.view.graph(ag.sum(x * x))
    <graph of 3 nodes, 16 B kept>
    """
    return Graph(_rows(outputs))


def text(outputs: Tensor | Sequence[Tensor]) -> str:
    """Give the graph behind tensors as text: a line per node, newest first.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        They require grad.

    Returns
    -------
    str
        Per node: its number, the numbers of the nodes that its cotangents go to, the operation, its result, what it
        keeps for backward, and the line of the forward call.

    Raises
    ------
    ValueError
        If none of them requires grad.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> print(ag.view.text(ag.sum(ag.exp(x))))
    1 -> 2  SumBackward0    float64 ()
    2 -> 3  ExpBackward0    float64 (2,)  keeps ans float64 (2,) 16 B
    3       AccumulateGrad  float64 (2,)
    kept for backward: 16 B
    """
    return str(graph(outputs))


def dot(outputs: Tensor | Sequence[Tensor]) -> str:
    """Give the graph behind tensors in Graphviz's language.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        They require grad.

    Returns
    -------
    str
        A ``digraph``; arrows go the way of the cotangents.

    Raises
    ------
    ValueError
        If none of them requires grad.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor(1.0, requires_grad=True)
    >>> ag.view.dot(ag.exp(x)).splitlines()[0]
    'digraph agrad {'
    """
    rows = _rows(outputs)
    lines = ["digraph agrad {", '  node [shape=box, fontname="sans-serif", fontsize=10];']
    for row in rows:
        label = "\\n".join(part.replace("\\", "\\\\").replace('"', '\\"') for part in _label(row))
        lines.append(f'  n{row.number} [label="{label}"{", style=rounded" if row.leaf else ""}];')
    lines += [f"  n{row.number} -> n{i};" for row in rows for i in row.inputs]
    return "\n".join([*lines, "}"])


def svg(outputs: Tensor | Sequence[Tensor]) -> str:
    """Give a picture of the graph behind tensors, self-contained.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        They require grad.

    Returns
    -------
    str
        An ``<svg>`` element. Operations stand above what they lead to; hovering shows a node's whole row.

    Raises
    ------
    ValueError
        If none of them requires grad.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor(1.0, requires_grad=True)
    >>> ag.view.svg(ag.exp(x)).startswith("<svg")
    True
    """
    return _svg(_rows(outputs))


def html(outputs: Tensor | Sequence[Tensor]) -> str:
    """Give a page with the picture and the table of the graph behind tensors, self-contained.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        They require grad.

    Returns
    -------
    str
        The text of an HTML file.

    Raises
    ------
    ValueError
        If none of them requires grad.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor(1.0, requires_grad=True)
    >>> "ExpBackward0" in ag.view.html(ag.exp(x))
    True
    """
    rows = _rows(outputs)
    body = f"<h1>Recorded graph</h1>\n{_svg(rows)}\n{_table(rows)}"
    return f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>agrad graph</title></head>\n<body>{body}</body></html>\n'


class Memory:
    """What a graph keeps for backward.

    Made by `memory`.

    Attributes
    ----------
    rows : list of tuple
        Per saved value: operation, name, shape, dtype, bytes, line; largest first.
    total : int
        Bytes, an array that is kept several times counted once.
    """

    def __init__(self, rows: list[tuple[str, str, tuple[int, ...], str, int, str]], total: int) -> None:
        self.rows = rows
        self.total = total

    def __str__(self) -> str:
        lines = [[op, name, f"{dtype} {shape}", _size(size), line] for op, name, shape, dtype, size, line in self.rows]
        return "\n".join([*_aligned(lines), f"kept for backward: {_size(self.total)}"])

    def __repr__(self) -> str:
        return f"<{len(self.rows)} values kept for backward, {_size(self.total)}>"


def memory(outputs: Tensor | Sequence[Tensor]) -> Memory:
    """List the values that the graph behind tensors keeps for backward.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        They require grad.

    Returns
    -------
    Memory
        Prints as a table, largest value first; ``.total`` is in bytes.

    Raises
    ------
    ValueError
        If none of them requires grad.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.ones((1000,), requires_grad=True)
    >>> ag.view.memory(ag.sum(ag.exp(ag.sin(x)))).total
    16000
    """
    rows = _rows(outputs)
    values = [(row.name, s.name, s.shape, s.dtype, s.bytes, row.line) for row in rows for s in row.saved]
    values.sort(key=lambda value: -value[4])
    return Memory(values, _total(rows))


# -- reading the graph ------------------------------------------------------------------------------------------------


def _rows(outputs: Tensor | Sequence[Tensor]) -> list[Row]:
    tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    roots = [t._node.address()[0] for t in tensors if t._node is not None]
    if not roots:
        message = "nothing was recorded for these tensors: none requires grad"
        raise ValueError(message)
    nodes: set[Node] = set()
    stack: list[Node] = list(roots)
    while stack:
        node = stack.pop()
        if node not in nodes:
            nodes.add(node)
            stack.extend(_ahead(node))
    ordered = sorted(nodes, key=lambda n: -n.seq)
    numbers = {node: i for i, node in enumerate(ordered, 1)}
    return [_row(node, numbers) for node in ordered]


def _ahead(node: Node) -> list[Node]:
    """The nodes that cotangents go to, results of one call taken together."""
    return [n.base if isinstance(n, Output) else n for n in node.inputs]


def _row(node: Node, numbers: dict[Node, int]) -> Row:
    specs = [s for s in node.out_specs if s is not None]
    return Row(
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
    plan = getattr(node.vjp, "plan", None)
    values = () if type(node.saved) is Freed else node.saved
    names = plan.saves if plan is not None else tuple(f"saved_tensors[{i}]" for i in range(len(values)))
    found: list[Saved] = []
    for name, value in zip(names, values, strict=False):
        _collect(name, value, found)
    return found


def _collect(name: str, value: Any, found: list[Saved]) -> None:
    """Add the arrays in a saved value: itself, or those in a list of operands or a key."""
    if isinstance(value, Parcel):
        spec = value.spec
        found.append(Saved(name, spec.shape, spec.backend.dtype_name(spec.dtype), 0, id(value)))
        return
    if isinstance(value, list | tuple):
        for i, part in enumerate(value):
            _collect(f"{name}[{i}]", part, found)
        return
    raw = value._data if isinstance(value, Tensor) else value
    backend = backend_of(raw)
    if backend is not None:
        spec = backend.spec(raw)
        found.append(Saved(name, spec.shape, backend.dtype_name(spec.dtype), backend.nbytes(raw), id(raw)))


def _total(rows: list[Row]) -> int:
    return sum({s.key: s.bytes for row in rows for s in row.saved}.values())


# -- text -------------------------------------------------------------------------------------------------------------


def _size(count: int) -> str:
    """Write a number of bytes."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def _keeps(row: Row) -> str:
    if row.freed:
        return "freed by a backward pass"
    kept = ", ".join(f"{s.name} {s.dtype} {s.shape} {_size(s.bytes)}" for s in row.saved)
    return f"keeps {kept}" if kept else ""


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)] if table else []
    return ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table]


def _text(rows: list[Row]) -> str:
    table = []
    for row in rows:
        arrow = f"{row.number} -> {', '.join(map(str, row.inputs))}" if row.inputs else str(row.number)
        table.append([arrow, row.name, row.result, _keeps(row), _short(row.line)])
    return "\n".join([*_aligned(table), f"kept for backward: {_size(_total(rows))}"])


def _short(line: str) -> str:
    """Give a place in the user's code; what was typed in has none worth showing."""
    return "" if line.startswith("<") else line


# -- pictures ---------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 46, 26, 40, 12


def _label(row: Row) -> list[str]:
    """What stands in a node's box."""
    place = _short(row.line).replace("\\", "/").rpartition("/")[2]
    last = " ".join(part for part in (place, _size(row.bytes) if row.bytes else "") if part)
    return [part for part in (row.name, row.result, last) if part]


def _layers(rows: list[Row]) -> list[list[Row]]:
    """Put each node above all it leads to, and order each layer by the places of those."""
    depth: dict[int, int] = {}
    for row in reversed(rows):  # leaves first
        depth[row.number] = 1 + max((depth[i] for i in row.inputs), default=-1)
    layers: list[list[Row]] = [[] for _ in range(max(depth.values()) + 1)]
    for row in rows:
        layers[depth[row.number]].append(row)
    place: dict[int, float] = {}
    for layer in layers:
        layer.sort(key=lambda row: sum(place[i] for i in row.inputs) / len(row.inputs) if row.inputs else -row.number)
        for i, row in enumerate(layer):
            place[row.number] = (i + 0.5) / len(layer)
    return layers[::-1]


def _svg(rows: list[Row]) -> str:
    layers = _layers(rows)
    across = max(map(len, layers))
    width = across * (_WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    height = len(layers) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    spots: dict[int, tuple[float, float]] = {}
    for level, layer in enumerate(layers):
        start = (width - len(layer) * (_WIDTH + _GAP_X) + _GAP_X) / 2
        for i, row in enumerate(layer):
            spots[row.number] = start + i * (_WIDTH + _GAP_X), _MARGIN + level * (_HEIGHT + _GAP_Y)
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
    for row in rows:
        x, y = spots[row.number]
        for i in row.inputs:
            to_x, to_y = spots[i]
            x1, y1, x2, y2 = x + _WIDTH / 2, y + _HEIGHT, to_x + _WIDTH / 2, to_y
            bend = (y2 - y1) / 2
            path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
            parts.append(f'<path d="{path}" fill="none" stroke="#777" marker-end="url(#tip)"/>')
    for row in rows:
        x, y = spots[row.number]
        fill, radius = ("#e3f1e3", 14) if row.leaf else ("#eef2fb", 4)
        about = " | ".join(part for part in (row.name, row.result, _keeps(row), row.line) if part)
        parts.append(f"<g><title>{escape(about)}</title>")
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}" fill="{fill}"'
            ' stroke="#556"/>'
        )
        for i, line in enumerate(_label(row)):
            weight = ' font-weight="bold"' if i == 0 else ""
            shown = line if len(line) <= 32 else line[:31] + "…"
            parts.append(
                f'<text x="{x + _WIDTH / 2:.1f}" y="{y + 15 + 13 * i:.1f}" text-anchor="middle"{weight}>'
                f"{escape(shown)}</text>"
            )
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"])


def _table(rows: list[Row]) -> str:
    heads = ("", "operation", "result", "kept for backward", "bytes", "line", "leads to")
    lines = []
    for row in rows:
        kept = "freed" if row.freed else ", ".join(f"{s.name} {s.dtype} {s.shape}" for s in row.saved)
        cells = (row.number, row.name, row.result, kept, row.bytes or "", row.line, ", ".join(map(str, row.inputs)))
        lines.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{h}</th>" for h in heads)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{''.join(lines)}</tbody></table>\n<p>kept for backward: {_size(_total(rows))}</p>"
