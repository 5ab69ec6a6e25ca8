"""Reports of the conformance kit: as JSON to be kept, as text or HTML to be read, several as a Markdown table.

``python -m agrad.testing.report a.json b.json`` prints the table of backends; with one file, ``--text`` or ``--html``
prints that report.
"""

from __future__ import annotations

import argparse
import datetime as dt
import html
import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import agrad as ag
from agrad.core.requirements import REQUIREMENTS
from agrad.plugin import manager

__all__ = ["Record", "Report", "main", "make", "markdown", "summary", "to_html", "to_text", "write", "writer"]

#: How one test ended: area, test, op, dtype, id, outcome (ok, lacks, skipped, failed) and reason.
Record = dict[str, str]

#: What a JSON report holds.
Report = dict[str, Any]

#: Raised when readers of old reports would misread new ones.
FORMAT = 1

OUTCOMES = ("ok", "lacks", "skipped", "failed")
DTYPES = ("float32", "float64", "complex64", "complex128")
#: The columns of a report, as far as they have an order.
MODES = ("values", "reverse", "forward_mode", "second_order", "composition", "single_operands", "batches")

#: The columns of the table of backends: its head, and the areas it sums up.
COLUMNS = (
    ("rules", ("rules",)),
    ("indexing, creation", ("indexing", "creation", "namespace")),
    ("value semantics", ("in_place", "memory", "pickling", "threads")),
    ("transfers", ("transfers", "registration", "errors")),
    ("random", ("random",)),
    ("laziness", ("laziness",)),
)


def make(device: str, records: Sequence[Record]) -> Report:
    """Make a report of a run.

    Parameters
    ----------
    device : str
        The backend, or one of its devices.
    records : sequence of dict
        How each test ended.
    """
    name = device.partition(":")[0]
    row = next((row for row in manager.backends() if row.name == name), None)
    lacks: dict[str, str] = {}
    capabilities: dict[str, bool] = {}
    cannot: dict[str, str] = {}
    if row is not None and row.available:
        backend = manager.get(name)
        lacks = dict(backend.lacks)
        reasons = {each: backend.cannot(each, device) for each in REQUIREMENTS}
        capabilities = {each: not reason for each, reason in reasons.items()}
        cannot = {each: reason for each, reason in reasons.items() if reason and REQUIREMENTS[each].usual}
    return {
        "format": FORMAT,
        "agrad": ag.__version__,
        "contract": ag.CONTRACT,
        "backend": name,
        "device": device,
        "version": row.version if row else "",
        "available": bool(row and row.available),
        "reason": row.reason if row else "it is not installed",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "capabilities": capabilities,
        "cannot": cannot,
        "lacks": lacks,
        "results": sorted(records, key=lambda r: (r["area"], r["test"], r["op"], r["dtype"], r["id"])),
    }


def _counts(records: Sequence[Record]) -> Counter[str]:
    return Counter(record["outcome"] for record in records)


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]) or "nothing ran"


def _title(report: Report) -> str:
    version = f" {report['version']}" if report["version"] else ""
    return f"{report['device']}{version}, agrad {report['agrad']}, {report['date']}"


def summary(report: Report) -> str:
    """Return one line on a report."""
    state = "" if report["available"] else f" (unavailable: {report['reason']})"
    return f"{_title(report)}{state}: {_words(_counts(report['results']))}"


# -- the table of a report: op x mode, a cell per dtype ---------------------------------------------------------------


def _cells(report: Report) -> tuple[list[str], dict[str, dict[str, list[Record]]]]:
    """Return the modes, and by op and mode the records of each dtype."""
    table: dict[str, dict[str, list[Record]]] = {}
    modes: list[str] = []
    for record in report["results"]:
        if not record["op"]:
            continue
        if record["test"] not in modes:
            modes.append(record["test"])
        table.setdefault(record["op"], {}).setdefault(record["test"], []).append(record)
    modes.sort(key=lambda mode: MODES.index(mode) if mode in MODES else len(MODES))
    return modes, table


def _cell(records: Sequence[Record]) -> str:
    """Return a cell in words: ok if all are; else what each dtype is."""
    met = [r for r in records if r["outcome"] != "skipped"]
    if not met:
        return "-"
    outcomes = sorted({r["outcome"] for r in met})
    if len(outcomes) == 1:
        return outcomes[0]
    return "; ".join(
        f"{outcome}: {', '.join(r['dtype'] for r in met if r['outcome'] == outcome)}" for outcome in outcomes
    )


def to_text(report: Report) -> str:
    """Return a report as plain text."""
    lines = [summary(report), ""]
    lines += [f"lacks {op}: {reason}" for op, reason in report["lacks"].items()]
    lines += [f"requires {name}: {reason}" for name, reason in report["cannot"].items()]
    modes, table = _cells(report)
    rows = [["", *(mode.replace("_", " ") for mode in modes)]]
    rows += [
        [op, *(_cell(found[mode]) if mode in found else "" for mode in modes)] for op, found in sorted(table.items())
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines += ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    others = [r for r in report["results"] if not r["op"]]
    lines += [
        "",
        *(f"{r['outcome']:8}{r['area']}: {r['id']}{' - ' + r['reason'] if r['reason'] else ''}" for r in others),
    ]
    reasons = [r for r in report["results"] if r["op"] and r["outcome"] in ("lacks", "failed")]
    lines += ["", *(f"{r['outcome']:8}{r['test']} of {r['op']}, {r['dtype']}: {r['reason']}" for r in reasons)]
    return "\n".join(lines).rstrip() + "\n"


_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2em;color:#222;background:#fff}
table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:left}
th{position:sticky;top:0;background:#fff}.ok{color:#176b2c}.lacks,.skipped{color:#80590a}.failed{color:#b00020;font-weight:600}
@media(prefers-color-scheme:dark){body,th{color:#ddd;background:#181818}th,td{border-color:#444}.ok{color:#6fcf86}.lacks,.skipped{color:#e0b25a}.failed{color:#ff8a80}}
"""


def to_html(report: Report) -> str:
    """Return a report as a page of HTML that needs nothing else."""
    escape = html.escape
    modes, table = _cells(report)
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(_title(report))}</title>',
        f"<style>{_STYLE}</style><h1>{escape(_title(report))}</h1>",
        f"<p>{escape(summary(report))}. Python {escape(report['python'])}, {escape(report['platform'])}.</p>",
    ]
    cannot = [f"requires {name}: {reason}" for name, reason in report["cannot"].items()]
    cannot += [f"lacks {op}: {reason}" for op, reason in report["lacks"].items()]
    parts.extend(f"<p>{escape(line)}</p>" for line in cannot)
    head = "".join(f"<th>{escape(mode.replace('_', ' '))}</th>" for mode in modes)
    parts.append(f"<table><thead><tr><th>operation</th>{head}</tr></thead>")
    for op, found in sorted(table.items()):
        cells = []
        for mode in modes:
            shown = []
            for r in sorted(found.get(mode, []), key=lambda r: DTYPES.index(r["dtype"]) if r["dtype"] in DTYPES else 9):
                if r["outcome"] != "skipped":
                    tip = f' title="{escape(r["reason"])}"' if r["reason"] else ""
                    text = r["dtype"] if r["outcome"] == "ok" else f"{r['dtype']}: {r['outcome']}"
                    shown.append(f'<span class="{r["outcome"]}"{tip}>{escape(text)}</span>')
            cells.append(f"<td>{' '.join(shown)}</td>")
        parts.append(f"<tr><td>{escape(op)}</td>{''.join(cells)}</tr>")
    parts.append("</table><table><thead><tr><th>area</th><th>test</th><th></th><th></th></tr></thead>")
    parts.extend(
        f'<tr><td>{escape(r["area"])}</td><td>{escape(r["id"])}</td><td class="{r["outcome"]}">{r["outcome"]}</td>'
        f"<td>{escape(r['reason'])}</td></tr>"
        for r in report["results"]
        if not r["op"]
    )
    return "".join([*parts, "</table></html>\n"])


def to_json(report: Report) -> str:
    """Return a report as JSON."""
    return json.dumps(report, indent=1) + "\n"


def writer(path: str) -> Callable[[Report], str] | None:
    """Return what turns a report into a file of this suffix, None if nothing does."""
    return {".json": to_json, ".html": to_html, ".txt": to_text}.get(Path(path).suffix)


def write(report: Report, path: str) -> None:
    """Write a report in the form that the file's suffix says."""
    form = writer(path)
    assert form is not None
    Path(path).write_text(form(report), encoding="utf-8")


# -- several reports --------------------------------------------------------------------------------------------------


def _column(report: Report, areas: Sequence[str]) -> str:
    counts = _counts([r for r in report["results"] if r["area"] in areas])
    met = counts["ok"] + counts["lacks"] + counts["failed"]
    if not met:
        return "-"
    return "all" if counts["ok"] == met else f"{counts['ok']} of {met}"


def markdown(reports: Sequence[Report]) -> str:
    """Return the table of several backends in Markdown.

    Parameters
    ----------
    reports : sequence of dict
        As their JSON files hold them.

    Returns
    -------
    str
        A row per report: how many of the tests of each kind passed, and what the backend lacks.
    """
    heads = ["backend", "version", *(head for head, _ in COLUMNS), "lacks"]
    rows = [heads, ["---"] * len(heads)]
    for report in reports:
        if not report["available"]:
            rows.append([report["device"], f"not available: {report['reason']}", *["-"] * (len(COLUMNS) + 1)])
            continue
        lacks = ", ".join([*report["lacks"], *report["cannot"]])
        rows.append(
            [report["device"], report["version"], *(_column(report, areas) for _, areas in COLUMNS), lacks or "nothing"]
        )
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |\n" for row in rows)


def read(path: str) -> Report:
    """Read a JSON report.

    Raises
    ------
    ValueError
        If it is none, or of another format.
    """
    found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} is no report of agrad's conformance kit in format {FORMAT}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print reports."""
    parser = argparse.ArgumentParser(prog="python -m agrad.testing.report", description="Print reports of the kit.")
    parser.add_argument("files", nargs="+", metavar="FILE.json", help="written by --agrad-report=FILE.json")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--text", action="store_true", help="each report as text, instead of one Markdown table")
    form.add_argument("--html", action="store_true", help="each report as a page of HTML")
    given = parser.parse_args(arguments)
    reports = [read(path) for path in given.files]
    if given.text or given.html:
        sys.stdout.write("\n".join(map(to_text if given.text else to_html, reports)))
    else:
        sys.stdout.write(markdown(reports))


if __name__ == "__main__":
    main()
