"""Draw docs/performance.svg, the times of programs as bars, from the table in benchmarks/results/programs.md.

python docs/make_plot.py [--check]
"""

from __future__ import annotations

import math
import re
import sys
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent
TABLE = DOCS.parent / "benchmarks" / "results" / "programs.md"
PICTURE = DOCS / "performance.svg"

#: What is drawn of a row: the column's title, what the legend says, and the colour of its bars.
SERIES = (
    ("agrad / torch", "eager agrad, of PyTorch's time", "#4063d8"),
    ("compiled / hand", "compiled agrad, of the time of NumPy by hand", "#389826"),
)
#: Ratios at the ends of the axis, and those that it names.
LEAST, MOST, NAMED = 0.125, 4.0, (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
#: The picture, in pixels: the column of titles, that of the bars, the height of a bar, of a row, and of the head.
TITLES, BARS, BAR, ROW, HEAD = 270, 480, 9, 28, 62


def rows(text: str) -> list[tuple[str, dict[str, float]]]:
    """Return what the table says: per program the ratios by the titles of their columns."""
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    head = [title.strip("| ") for title in lines[0]]
    found = []
    for cells in lines[2:]:
        named = dict(zip(head, cells, strict=True))
        ratios = {title: re.match(r"\d+(\.\d+)?", named.get(title, "")) for title, _, _ in SERIES}
        found.append((cells[0].strip("| "), {title: float(m[0]) for title, m in ratios.items() if m}))
    return found


def place(ratio: float) -> float:
    """Return where a ratio stands on the logarithmic axis, in pixels from the left."""
    part = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return TITLES + part * BARS


def picture(table: list[tuple[str, dict[str, float]]]) -> str:
    """Return the picture as SVG; the bars begin at 1, to the left is faster."""
    height = HEAD + ROW * len(table) + 12
    width = TITLES + BARS + 60
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
    parts = [
        head + ' role="img" aria-label="Times of programs beside PyTorch and beside NumPy by hand">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    measured = [series for series in SERIES if any(series[0] in ratios for _, ratios in table)]
    for i, (_, legend, colour) in enumerate(measured):
        x = 10 + i * 300
        parts += [
            f'<rect x="{x}" y="10" width="14" height="10" fill="{colour}"/>',
            f'<text x="{x + 20}" y="19">{escape(legend)}</text>',
        ]
    for ratio in NAMED:
        x = place(ratio)
        colour = "#333" if ratio == 1 else "#ddd"
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD - 6}" y2="{height - 10}" stroke="{colour}"/>',
            f'<text x="{x:.1f}" y="{HEAD - 12}" text-anchor="middle" fill="#555">{ratio:g}</text>',
        ]
    for i, (title, ratios) in enumerate(table):
        top = HEAD + i * ROW
        parts.append(
            f'<text x="{TITLES - 12}" y="{top + 14}" text-anchor="end">{escape(title.replace("`", ""))}</text>'
        )
        for k, (name, _, colour) in enumerate(measured):
            if name not in ratios:
                continue
            start, end = sorted((place(1.0), place(ratios[name])))
            y = top + k * (BAR + 2)
            parts.append(
                f'<rect x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="{BAR}" fill="{colour}">'
                f"<title>{escape(name)}: {ratios[name]:g}</title></rect>"
            )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    drawn = picture(rows(TABLE.read_text("utf-8")))
    if sys.argv[1:] == ["--check"]:
        same = PICTURE.exists() and PICTURE.read_text("utf-8") == drawn
        sys.exit(0 if same else "docs/performance.svg is out of date: run docs/make_plot.py")
    PICTURE.write_text(drawn, "utf-8")
