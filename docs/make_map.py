"""Draw docs/map.svg, the map of the house, from the imports in the source and the layers in tests/test_house.py.

``python docs/make_map.py`` writes the picture; with ``--check`` it only tells whether the picture is up to date.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "map.svg"
sys.path.insert(0, str(ROOT / "tests"))

import test_house as house  # noqa: E402 (found by the line above)

WIDTH, BOX, HEIGHT, GAP, ROW = 1140, 94, 30, 9, 74
CROWDED = 5  # so many parts in a row: lines between them would hide the rest
FILL = {"core": "#dbe9f6", "user": "#e3f1df", "middle": "#fbeed3", "plugins": "#eee3f3"}
NOTES = """\
Blue: files of core/. Yellow: plugin/ and ops/. Green: what users import. Violet: backends.
A part imports those its lines lead down to, and may import all below these. Imports between parts of a crowded row
are not drawn. Dashed: imports that wait (UPWARD in tests/test_house.py)."""
STYLE = """\
<style>
  text { font: 13px sans-serif; text-anchor: middle; fill: #1b1b1b }
  .note { font-size: 12px; text-anchor: start; fill: #555 }
  rect { stroke: #777 }
  path { fill: none; stroke: #8a8a8a }
  .up { stroke: #c2410c; stroke-dasharray: 5 3 }
</style>"""


def part_of(module: str) -> str:
    """Return the part that a module belongs to: a file of the core, or else a package."""
    names = module.split(".")
    if names[0] != "agrad":
        return f"plugins/{names[0]}"
    if names[1:2] == ["core"]:
        return f"core/{names[2]}" if names[2:] else "agrad"
    return names[1] if names[1:] and not names[1].startswith("__") else "agrad"


def reduced(edges: dict[str, set[str]], rank: dict[str, int]) -> set[tuple[str, str]]:
    """Return the edges that follow from no others; those within a row are kept."""
    down = {part: {t for t in edges[part] if rank[t] < rank[part]} for part in rank}
    below: dict[str, set[str]] = {}
    for part in sorted(rank, key=lambda p: rank[p]):
        below[part] = down[part].union(*(below[t] for t in down[part]))
    kept = {(p, t) for p in rank for t in down[p] if not any(t in below[other] for other in down[p])}
    return kept | {(p, t) for p in rank for t in edges[p] if rank[t] == rank[p] and t != p}


def colour(part: str) -> str:
    """Return the fill of a part's box."""
    first = part.partition("/")[0]
    return FILL.get(first) or FILL["middle" if part in {"plugin", "ops"} else "user"]


def svg() -> str:
    """Return the picture."""
    rank: dict[str, int] = {}
    edges: dict[str, set[str]] = defaultdict(set)
    for module in house.SOURCES.keys() - {"agrad.core"}:  # which holds nothing
        part, own = part_of(module), house.rank_of(module)
        if module in house.FILES and own is not None:
            rank[part] = min(own, rank.get(part, own))
        else:
            rank[part] = len(house.LAYERS)
        now = {t for node in house.module_level(house.tree_of(module)) for t in house.targets(node, module)}
        edges[part] |= {part_of(target) for target in now if target in house.FILES and target != "agrad.core"}
    numbers = {number: place for place, number in enumerate(sorted(set(rank.values())))}
    rows: list[list[str]] = [[] for _ in numbers]
    for part in sorted(rank):
        rank[part] = numbers[rank[part]]
        rows[rank[part]].append(part)
    arrows = [(a, b) for a, b in sorted(reduced(edges, rank)) if rank[a] != rank[b] or len(rows[rank[a]]) < CROWDED]

    x = dict.fromkeys(rank, 0.0)
    for _ in range(8):  # order each row by where its neighbours stand
        for row in rows:
            near = {p: [x[t] for a, t in arrows if a == p] + [x[a] for a, t in arrows if t == p] for p in row}
            row.sort(key=lambda p: (sum(near[p]) / len(near[p]) if near[p] else 0.0, p))
            step = min(150, (WIDTH - 2 * GAP) / len(row))
            for place, part in enumerate(row):
                x[part] = WIDTH / 2 + (place - (len(row) - 1) / 2) * step
    y = {part: 20 + (len(rows) - 1 - rank[part]) * ROW for part in rank}
    for row in rows:
        if len(row) * (BOX + GAP) > WIDTH:  # in two lines, box by box
            for part in row[1::2]:
                y[part] += HEIGHT + 8

    def line(a: str, b: str, kind: str = "") -> str:
        if rank[a] == rank[b]:
            top = y[a] - 22
            return f'<path{kind} d="M{x[a]:.0f} {y[a]} C{x[a]:.0f} {top} {x[b]:.0f} {top} {x[b]:.0f} {y[b]}"/>'
        start, end = (y[a] + HEIGHT, y[b]) if rank[a] > rank[b] else (y[a], y[b] + HEIGHT)
        middle = (start + end) / 2
        return f'<path{kind} d="M{x[a]:.0f} {start} C{x[a]:.0f} {middle} {x[b]:.0f} {middle} {x[b]:.0f} {end}"/>'

    waiting = {(part_of(a), part_of(b)) for a, b in house.UPWARD}
    height = max(y.values()) + HEIGHT + 84
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">', STYLE]
    out.append(f'<rect width="{WIDTH}" height="{height}" fill="#fff" style="stroke: none"/>')
    out += [line(a, b) for a, b in arrows]
    out += [line(a, b, ' class="up"') for a, b in sorted(waiting)]
    for part in sorted(rank):
        name = part.removeprefix("plugins/").removeprefix("core/")
        left = x[part] - BOX / 2
        out.append(
            f'<rect x="{left:.0f}" y="{y[part]}" width="{BOX}" height="{HEIGHT}" rx="4" fill="{colour(part)}"/>'
            f'<text x="{x[part]:.0f}" y="{y[part] + 20}">{name}</text>'
        )
    for place, note in enumerate(NOTES.splitlines()):
        out.append(f'<text class="note" x="12" y="{height - 44 + 17 * place}">{note}</text>')
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(
            0 if PICTURE.read_text(encoding="utf-8") == svg() else "docs/map.svg is out of date: run docs/make_map.py"
        )
    PICTURE.write_text(svg(), encoding="utf-8")
