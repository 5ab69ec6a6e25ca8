"""The pictures of programs' times show what the tables say, and nothing that was not measured."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "make_plot.py"

TABLES = """
| ms | native | hand | native / hand |
|---|---|---|---|
| a filter | 0.5 | 50 | 0.01 [0.01, 0.01] (goal 1) |
| large | 30 | 60 | 0.5 |
| MLP | 1.0 | 0.5 | 2 |
| the same, in plain operations | 1.0 | 4.0 | 0.25 |

| ms | native | torch | jax |
|---|---|---|---|
| a filter | 0.25 | 0.5 | - |
"""


def loaded():
    spec = importlib.util.spec_from_file_location("make_plot", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_multiples_are_of_one_table_and_of_small_programs():
    assert loaded().multiples(TABLES) == [
        ("a filter", {"hand": 100.0, "torch": 2.0}),
        ("MLP, in plain operations", {"hand": 4.0}),
        ("MLP", {"hand": 0.5}),
    ]


def test_bars_lie_where_the_axis_says():
    script = loaded()
    drawn = script.picture(script.PROGRAMS, script.multiples(TABLES))
    bars = re.findall(
        r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)" height="9" fill="#7a7a7a"><title>hand: (.+)</title>', drawn
    )
    # the axis goes from 0.1 to 1000 over 480 pixels: 120 for a factor of ten, 1 at 390
    assert bars == [("390.0", "240.0", "100"), ("390.0", "72.2", "4"), ("353.9", "36.1", "0.5")]
    assert "JAX (jit)" not in drawn, "no table has a time of it"
    assert "2×" in drawn
