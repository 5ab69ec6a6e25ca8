"""Draw the pictures of programs' times as bars, from the tables in benchmarks/results.

docs/performance.svg is of programs.md: parts of others' times. docs/small_programs.svg is of native.md: others' times, beside
that of agrad's machine code, of programs of few milliseconds. What a table has not measured is not drawn.

python docs/make_plot.py [--check]
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS.parent / "benchmarks" / "results"

#: The picture, in pixels: the column of titles, that of the bars, the height of a bar, and of the head.
TITLES, BARS, BAR, HEAD = 270, 480, 9, 62
#: Programs that take longer than this, in ms, are not small.
SMALL = 2.0

#: A row of a picture: the program, and what is drawn of it, by series.
Row = tuple[str, Mapping[str, float]]


class Series(NamedTuple):
    """One bar of each row."""

    name: str  # the column of the table that it is made from
    legend: str
    colour: str


class Picture(NamedTuple):
    """A picture: its file, what it says to those who do not see it, its bars, and its axis."""

    file: str
    label: str
    series: Sequence[Series]
    named: Sequence[float]  # the axis ends at the first and the last of them
    unit: str = ""  # what stands at a bar's end, behind its number; no number if this is empty


PERFORMANCE = Picture(
    "performance.svg",
    "Times of programs beside PyTorch and beside NumPy by hand",
    (
        Series("agrad / torch", "eager agrad, of PyTorch's time", "#4063d8"),
        Series("compiled / hand", "compiled agrad, of the time of NumPy by hand", "#389826"),
    ),
    (0.125, 0.25, 0.5, 1.0, 2.0, 4.0),
)
PROGRAMS = Picture(
    "small_programs.svg",
    "Times of small programs in NumPy by hand, PyTorch and JAX, as multiples of agrad's",
    (
        Series("hand", "NumPy by hand", "#7a7a7a"),
        Series("torch", "PyTorch", "#d9642b"),
        Series("jax", "JAX (jit)", "#4063d8"),
    ),
    (0.1, 1, 10, 100, 1000),
    "×",
)


def tables(text: str) -> Iterator[list[dict[str, str]]]:
    """Yield the tables of a page: their rows, with the cells by the titles of their columns."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        yield [dict(zip(head, cells, strict=True)) for cells in lines]


def number(cell: str) -> float | None:
    """Return the number that a cell begins with, if it does."""
    found = re.match(r"\d+(\.\d+)?", cell)
    return float(found[0]) if found else None


def ratios(text: str) -> list[Row]:
    """Return what `PERFORMANCE` shows: the ratios of the first table."""
    found = []
    for cells in next(tables(text)):
        title, *_ = cells.values()
        numbers = {series.name: number(cells.get(series.name, "")) for series in PERFORMANCE.series}
        found.append((title, {name: value for name, value in numbers.items() if value is not None}))
    return found


def multiples(text: str) -> list[Row]:
    """Return what `PROGRAMS` shows: others' times in agrad's, largest first; of all tables, those later in the page win."""
    found: dict[str, dict[str, float]] = {}
    for table in tables(text):
        title = ""
        for cells in table:
            name, *_ = cells.values()
            title = f"{title}, in plain operations" if name == "the same, in plain operations" else name
            own = number(cells.get("native", ""))
            if own is None or own > SMALL:
                continue
            others = {series.name: number(cells.get(series.name, "")) for series in PROGRAMS.series}
            row = {name: value / own for name, value in others.items() if value is not None}
            found.setdefault(title.replace("the same on", "the same chain on"), {}).update(row)
    return sorted(found.items(), key=lambda row: -max(row[1].values(), default=0))


def picture(of: Picture, rows: Sequence[Row]) -> str:
    """Return a picture as SVG; the bars begin at 1, on a logarithmic axis."""
    least, most = of.named[0], of.named[-1]
    measured = [series for series in of.series if any(series.name in values for _, values in rows)]
    high = [(BAR + 2) * len(values) + 6 for _, values in rows]
    height, width = HEAD + sum(high) + 12, TITLES + BARS + 60

    def place(ratio: float) -> float:
        return TITLES + BARS * math.log(min(max(ratio, least), most) / least) / math.log(most / least)

    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
    parts = [
        f'{head} role="img" aria-label="{escape(of.label)}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    left = 10
    for series in measured:
        parts += [
            f'<rect x="{left}" y="10" width="14" height="10" fill="{series.colour}"/>',
            f'<text x="{left + 20}" y="19">{escape(series.legend)}</text>',
        ]
        left += 7 * len(series.legend) + 40
    if of.unit:
        parts.append(f'<text x="{left}" y="19" fill="#555">time of value and gradient; agrad, machine code: 1</text>')
    for ratio in of.named:
        x = place(ratio)
        colour = "#333" if ratio == 1 else "#ddd"
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD - 6}" y2="{height - 10}" stroke="{colour}"/>',
            f'<text x="{x:.1f}" y="{HEAD - 12}" text-anchor="middle" fill="#555">{ratio:g}</text>',
        ]
    top = HEAD
    for (title, values), own in zip(rows, high, strict=True):
        middle, text = top + own / 2, escape(title.replace("`", ""))
        parts.append(f'<text x="{TITLES - 12}" y="{middle:g}" text-anchor="end">{text}</text>')
        for k, series in enumerate(series for series in measured if series.name in values):
            value = values[series.name]
            start, end = sorted((place(1.0), place(value)))
            y = top + k * (BAR + 2)
            parts.append(
                f'<rect x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="{BAR}" fill="{series.colour}">'
                f"<title>{escape(series.name)}: {value:.3g}</title></rect>"
            )
            if of.unit:
                shown = f"{float(f'{value:.2g}'):g}{of.unit}"
                at = f'x="{end + 4:.1f}"' if value >= 1 else f'x="{start - 4:.1f}" text-anchor="end"'
                parts.append(f'<text {at} y="{y + BAR - 1}" font-size="9" fill="#555">{shown}</text>')
        top += own
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    drawn = {
        PERFORMANCE.file: picture(PERFORMANCE, ratios((RESULTS / "programs.md").read_text("utf-8"))),
        PROGRAMS.file: picture(PROGRAMS, multiples((RESULTS / "native.md").read_text("utf-8"))),
    }
    for name, text in drawn.items():
        if sys.argv[1:] == ["--check"]:
            if not (DOCS / name).exists() or (DOCS / name).read_text("utf-8") != text:
                sys.exit(f"docs/{name} is out of date: run docs/make_plot.py")
        else:
            (DOCS / name).write_text(text, "utf-8")
