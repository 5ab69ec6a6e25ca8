"""Reports of the conformance kit: as JSON to keep, as text or HTML to read, several as a Markdown table.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agrad as ag
from agrad.core.requirements import REQUIREMENTS
from agrad.plugin import manager

__all__ = [
    "Cause",
    "Record",
    "Report",
    "causes",
    "judged",
    "main",
    "make",
    "markdown",
    "programs",
    "summary",
    "to_html",
    "to_text",
    "write",
    "writer",
]

#: The result of one test: area, test, op, dtype, id, outcome (of `OUTCOMES`) and reason. A failure also has error,
#: place (the line outside agrad that raised it, if any), cause (equal for failures that are probably the same) and
#: program (that reproduces it). A test that runs samples also has their numbers (of `COUNTED`).
Record = dict[str, str]

#: The contents of a JSON report.
Report = dict[str, Any]

#: Incremented when readers of old reports would misread new ones.
FORMAT = 2

#: The outcomes of judged tests: passed or failed; failures that the author expects (``--agrad-xfails``); operations
#: that the backend declares to lack, which are refused with a reason. And the reasons of omitted ones: the backend
#: lacks a requirement, it goes beyond the standard and has no kernel, it does not apply.
JUDGED = ("passed", "failed", "expected", "lacks")
LEFT_OUT = ("requires", "beyond", "skipped")
OUTCOMES = (*JUDGED, *LEFT_OUT)
WORDS = {
    "expected": "failed as expected",
    "lacks": "lacking",
    "requires": "by requirement",
    "beyond": "beyond the standard",
    "skipped": "that do not apply",
}

#: Of a test's samples: all, those that passed, and those refused because no program can hold them.
COUNTED = ("samples", "ran", "refused")

DTYPES = ("float64", "float32", "complex128", "complex64")
#: The columns of a report, as far as their order is fixed.
MODES = ("values", "reverse", "forward_mode", "second_order", "composition", "single_operands", "batches")

#: The columns of the table of backends: the heading, and the areas that it sums up.
COLUMNS = (
    ("rules", ("rules",)),
    ("programs", ("programs",)),
    ("indexing, creation", ("indexing", "creation", "namespace")),
    ("value semantics", ("in_place", "memory", "pickling", "threads")),
    ("transfers", ("basics", "transfers", "registration", "errors")),
    ("random", ("random",)),
    ("laziness", ("laziness",)),
)


def make(device: str, records: Sequence[Record]) -> Report:
    """Create a report of a run.

    Parameters
    ----------
    device : str
        The backend, or one of its devices.
    records : sequence of dict
        How each test ended.
    """
    name = device.partition(":")[0]
    row = manager.backend_info(name)
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


def _words(counts: Counter[str], outcomes: Sequence[str]) -> str:
    return ", ".join(f"{counts[outcome]:,} {WORDS.get(outcome, outcome)}" for outcome in outcomes if counts[outcome])


def _title(report: Report) -> str:
    version = f" {report['version']}" if report["version"] else ""
    return f"{report['device']}{version}, agrad {report['agrad']}, {report['date']}"


def summary(report: Report) -> str:
    """Return one line about a report: the outcomes of judged tests."""
    state = "" if report["available"] else f" (unavailable: {report['reason']})"
    return f"{_title(report)}{state}: {_words(_counts(report['results']), JUDGED) or 'nothing was judged'}"


def _required(report: Report) -> Counter[str]:
    """Return how many tests were omitted because of each requirement."""
    met = (r["reason"] for r in report["results"] if r["outcome"] == "requires")
    return Counter(reason.removeprefix("requires ").partition(":")[0] for reason in met)


def judged(report: Report) -> str:
    """Return one line about which part of the kit a report covers, and why the rest was omitted."""
    counts, required = _counts(report["results"]), _required(report)
    line = f"{sum(counts[o] for o in JUDGED):,} of {counts.total():,} tests judged"
    left_out = _words(counts, LEFT_OUT)
    if required:
        names = ", ".join(f"{name} {count:,}" for name, count in required.most_common())
        left_out = left_out.replace(WORDS["requires"], f"{WORDS['requires']} ({names})")
    return f"{line}; left out: {left_out}." if left_out else f"{line}."


# -- the causes of failures -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cause:
    """Failures that are probably the same: by an exception with the same words, or in the results of one operation.

    Attributes
    ----------
    error, place, program : str
        The simplest of them: the message, the line outside agrad that raised it, and a program that reproduces it.
    records : tuple of dict
        All of them.
    """

    error: str
    place: str
    program: str
    records: tuple[Record, ...]

    @property
    def whose(self) -> str:
        """The operations and the tests that fail by it, in words."""
        ops = list(dict.fromkeys(r["op"] for r in self.records if r["op"]))
        tests: dict[str, list[str]] = {}
        for r in self.records:
            if r["test"] not in tests.setdefault(r["area"], []):
                tests[r["area"]].append(r["test"])
        words = ", ".join(f"test_{area} ({_few(names)})" for area, names in tests.items())
        return f"{words}, of {_few(ops)}" if ops else words


def _few(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _plainness(record: Record) -> tuple[int, int]:
    """Return the sort key of a cause's records: values before derivatives, double precision before single."""
    test, dtype = record["test"], record["dtype"]
    return (
        MODES.index(test) if test in MODES else len(MODES),
        DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES),
    )


def causes(report: Report) -> list[Cause]:
    """Return the causes of a report's failures, the most frequent first."""
    found: dict[str, list[Record]] = {}
    for record in report["results"]:
        if record["outcome"] == "failed":
            found.setdefault(record["cause"], []).append(record)
    made = []
    for records in found.values():
        records.sort(key=_plainness)
        first = records[0]
        made.append(Cause(first["error"], first["place"], first["program"], tuple(records)))
    return sorted(made, key=lambda cause: -len(cause.records))


def causes_text(report: Report, most: int = 10) -> str:
    """Return the causes of a report's failures as text, the first of them with a program each."""
    found = causes(report)
    blocks = []
    for k, cause in enumerate(found[:most], 1):
        lines = [f"{k}. {len(cause.records):,} failed: {cause.error}"]
        lines += [f"raised at {cause.place}"] if cause.place else []
        lines += [f"in {cause.whose}", "", *cause.program.splitlines(), ""]
        blocks.append("\n".join([lines[0], *(f"    {line}".rstrip() for line in lines[1:])]))
    if len(found) > most:
        blocks.append("The others, whose programs are in --html FILE (--agrad-report=FILE.html):\n")
        blocks += [f"{k}. {len(c.records):,} failed: {c.error}" for k, c in enumerate(found[most:], most + 1)]
    return "\n".join(blocks)


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
    """Return the text of a cell: passed if all passed; otherwise the outcome of each dtype."""
    met = [r for r in records if r["outcome"] in JUDGED]
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
    lines = [summary(report), judged(report), ""]
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
        *(f"{r['outcome']:9}{r['area']}: {r['id']}{' - ' + r['reason'] if r['reason'] else ''}" for r in others),
    ]
    reasons = [r for r in report["results"] if r["op"] and r["outcome"] in ("expected", "lacks", "failed")]
    lines += ["", *(f"{r['outcome']:9}{r['test']} of {r['op']}, {r['dtype']}: {r['reason']}" for r in reasons)]
    lines += ["", causes_text(report, len(reasons) + len(others))]
    return "\n".join(lines).rstrip() + "\n"


_STYLE = """:root{--page:#fff;--card:#f6f7f9;--line:#dfe3e8;--text:#1d2329;--dim:#5f6b76;--good:#1a7f43;--mild:#9a6a00;--bad:#c0182b;--none:#8a94a0}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--card:#1d2126;--line:#353c44;--text:#dde2e7;--dim:#98a3ae;--good:#57c785;--mild:#d9ad4a;--bad:#ff7b83;--none:#76808a}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;max-width:84rem;margin:0 auto;padding:2rem 1.5rem 4rem;color:var(--text);background:var(--page)}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}p{margin:.3rem 0}.dim{color:var(--dim)}
.bar{display:flex;height:.8rem;border-radius:.4rem;overflow:hidden;margin:1rem 0 .5rem;background:var(--line)}.bar i{min-width:2px}
.passed{--own:var(--good)}.expected,.lacks{--own:var(--mild)}.failed{--own:var(--bad)}.requires,.beyond,.skipped{--own:var(--none)}
.bar i,.key i{background:var(--own)}.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}.key i{display:inline-block;width:.7rem;height:.7rem;border-radius:50%;margin-right:.4rem}
details{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.5rem .9rem;margin:.5rem 0}summary{cursor:pointer}
summary b{color:var(--bad);margin-right:.5rem}pre{background:var(--page);border:1px solid var(--line);border-radius:.4rem;padding:.8rem;overflow:auto;font-size:13px}
table{border-collapse:collapse;width:100%;font-size:14px}th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{position:sticky;top:0;background:var(--page)}td span{color:var(--own);margin-right:.45rem;white-space:nowrap}td .failed{font-weight:700}td .expected,td .lacks{text-decoration:underline dotted}
input,button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:.4rem;padding:.25rem .6rem}button{float:right;font-size:13px}
"""

_SCRIPT = """document.querySelectorAll("input").forEach(box=>box.oninput=()=>{const asked=box.value.toLowerCase()
box.nextElementSibling.querySelectorAll("tbody tr").forEach(row=>row.hidden=!row.textContent.toLowerCase().includes(asked))})
document.querySelectorAll("button").forEach(b=>b.onclick=()=>{navigator.clipboard.writeText(b.nextElementSibling.textContent);b.textContent="copied"})
"""


def to_html(report: Report) -> str:
    """Return a report as a self-contained page of HTML."""
    title = html.escape(_title(report))
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>",
        f'<p class="dim">Python {html.escape(report["python"])}, {html.escape(report["platform"])}, ',
        f"version {report['contract']} of the contract</p>",
        *_outcomes_html(report),
        *_causes_html(report),
        *_lacking_html(report),
        *_operations_html(report),
        *_others_html(report),
        f"<script>{_SCRIPT}</script></html>\n",
    ]
    return "".join(parts)


def _outcomes_html(report: Report) -> Iterator[str]:
    """Yield a bar of the outcomes, and the legend of its colours."""
    counts = _counts(report["results"])
    found = [outcome for outcome in OUTCOMES if counts[outcome]]
    yield '<div class="bar">'
    yield from (f'<i class="{o}" style="flex:{counts[o]}"></i>' for o in found)
    yield '</div><div class="key">'
    for o in found:
        left_out = "left out " if o in LEFT_OUT else ""
        yield f'<span class="{o}"><i></i>{counts[o]:,} {left_out}{WORDS.get(o, o)}</span>'
    yield f"</div><p>{html.escape(judged(report))}</p>"
    if not report["available"]:
        yield f"<p>Not available: {html.escape(report['reason'])}</p>"


def _causes_html(report: Report) -> Iterator[str]:
    """Yield the causes of failures, each with a program that reproduces it."""
    found, escape = causes(report), html.escape
    if found:
        yield "<h2>What failed, by cause</h2>"
    for cause in found:
        place = f'<p class="dim">raised at {escape(cause.place)}</p>' if cause.place else ""
        yield (
            f"<details><summary><b>{len(cause.records):,}</b>{escape(cause.error)}</summary>{place}"
            f'<p class="dim">{escape(cause.whose)}</p>'
            f"<button>copy</button><pre>{escape(cause.program)}</pre></details>"
        )


def _lacking_html(report: Report) -> Iterator[str]:
    """Yield the table of unsupported features."""
    required = _required(report)
    rows = [("has not", name, reason, f"{required.pop(name, 0):,} tests") for name, reason in report["cannot"].items()]
    rows += [("has not", name, "", f"{count:,} tests") for name, count in required.items()]
    rows += [("lacks", op, reason, "") for op, reason in report["lacks"].items()]
    if rows:
        yield "<h2>What it cannot do</h2>"
        yield _table(("", "", "", "left out"), [[*map(html.escape, row)] for row in rows])


def _operations_html(report: Report) -> Iterator[str]:
    """Yield the table of operations by mode."""
    modes, table = _cells(report)
    if table:
        heads = ("operation", *(mode.replace("_", " ") for mode in modes))
        rows = [
            [html.escape(op), *(_chips(found.get(mode, [])) for mode in modes)] for op, found in sorted(table.items())
        ]
        yield f'<h2>Operations</h2><input placeholder="filter">{_table(heads, rows)}'


def _others_html(report: Report) -> Iterator[str]:
    """Yield the table of the tests that do not belong to an operation."""
    escape = html.escape
    rows = [
        [
            escape(r["area"]),
            escape(r["id"]),
            f'<span class="{r["outcome"]}">{escape(WORDS.get(r["outcome"], r["outcome"]))}</span>',
            escape(r["reason"]),
        ]
        for r in report["results"]
        if not r["op"]
    ]
    if rows:
        yield f'<h2>All other tests</h2><input placeholder="filter">{_table(("area", "test", "", ""), rows)}'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells in HTML."""
    head = "".join(f"<th>{text}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _chips(records: Sequence[Record]) -> str:
    """Return the cell of an operation in a mode: its dtypes, coloured by outcome."""
    shown = []
    for r in sorted(records, key=_plainness):
        if r["outcome"] in JUDGED:
            tip = f' title="{html.escape(r["reason"])}"' if r["reason"] else ""
            text = r["dtype"] or "all"
            text = text if r["outcome"] == "passed" else f"{text}: {WORDS.get(r['outcome'], r['outcome'])}"
            shown.append(f'<span class="{r["outcome"]}"{tip}>{html.escape(text)}</span>')
    return " ".join(shown)


def to_json(report: Report) -> str:
    """Return a report as JSON."""
    return json.dumps(report, indent=1) + "\n"


def writer(path: str) -> Callable[[Report], str] | None:
    """Return the function that converts a report to a file with this suffix, None if there is none."""
    return {".json": to_json, ".html": to_html, ".txt": to_text}.get(Path(path).suffix)


def write(report: Report, path: str) -> None:
    """Write a report in the form that the file's suffix specifies."""
    form = writer(path)
    assert form is not None
    Path(path).write_text(form(report), encoding="utf-8")


# -- several reports --------------------------------------------------------------------------------------------------


def _column(report: Report, areas: Sequence[str]) -> str:
    counts = _counts([r for r in report["results"] if r["area"] in areas])
    met = sum(counts[outcome] for outcome in JUDGED)
    if not met:
        return "-"
    return "all" if counts["passed"] == met else f"{counts['passed']:,} of {met:,}"


def markdown(reports: Sequence[Report]) -> str:
    """Return the table of several backends in Markdown.

    Parameters
    ----------
    reports : sequence of dict
        As their JSON files hold them.

    Returns
    -------
    str
        A row per report: its date, how many tests of each kind passed, how many in total passed, were refused as
        declared by the backend, and failed, how much was judged, and the features that the backend lacks.
    """
    ends = ("passed", "lacks", "failed")
    heads = [
        "backend",
        "version",
        "date",
        *(head for head, _ in COLUMNS),
        "passed",
        "refused",
        "failed",
        "judged",
        "lacks",
    ]
    rows = [heads, ["---"] * len(heads)]
    for report in reports:
        if not report["available"]:
            rows.append([report["device"], f"not available: {report['reason']}", *["-"] * (len(heads) - 2)])
            continue
        lacks = ", ".join([*report["lacks"], *report["cannot"]])
        columns = [_column(report, areas) for _, areas in COLUMNS]
        counts = _counts(report["results"])
        numbers = [f"{counts[outcome]:,}" for outcome in ends]
        share = judged(report).partition(" tests")[0]
        rows.append(
            [report["device"], report["version"], report["date"], *columns, *numbers, share, lacks or "nothing"]
        )
    return _rows(rows)


#: The tests that capture and replay samples, and the part they capture.
REPLAYS = {
    "forward_and_backward": "gradients",
    "forward_mode": "forward mode",
    "second_order": "second order",
    "batches": "batches",
}


def programs(reports: Sequence[Report]) -> str:
    """Return the table of several backends' programs in Markdown.

    Parameters
    ----------
    reports : sequence of dict
        As their JSON files hold them.

    Returns
    -------
    str
        A row per report: how many samples were captured and replayed in each way, out of how many, how many are refused
        because shapes in them depend on values, and how many tests failed.
    """
    rows = [["backend", "version", *REPLAYS.values(), "refused", "failed"]]
    rows.append(["---"] * len(rows[0]))
    for report in reports:
        met = {test: Counter[str]() for test in REPLAYS}
        failed = 0
        for record in report["results"]:
            if record["area"] == "programs":
                failed += record["outcome"] == "failed"
                for name in COUNTED if record["test"] in met else ():
                    met[record["test"]][name] += int(record.get(name, 0))
        ways = [f"{counts['ran']:,} of {counts['samples']:,}" if counts["ran"] else "-" for counts in met.values()]
        refused = met["forward_and_backward"]["refused"]
        rows.append([report["device"], report["version"], *ways, f"{refused:,}", f"{failed:,}"])
    return _rows(rows)


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |\n" for row in rows)


def read(path: str) -> Report:
    """Read a JSON report.

    Raises
    ------
    ValueError
        If it is not a report, or has another format.
    """
    found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} is not a report of agrad's conformance kit in format {FORMAT}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print reports."""
    parser = argparse.ArgumentParser(prog="python -m agrad.testing.report", description="Print reports of the kit.")
    parser.add_argument("files", nargs="+", metavar="FILE.json", help="written by --agrad-report=FILE.json")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--text", action="store_true", help="each report as text, instead of one Markdown table")
    form.add_argument("--html", action="store_true", help="each report as a page of HTML")
    form.add_argument("--programs", action="store_true", help="the table of samples captured and replayed")
    given = parser.parse_args(arguments)
    reports = [read(path) for path in given.files]
    if given.text or given.html:
        sys.stdout.write("\n".join(map(to_text if given.text else to_html, reports)))
    else:
        sys.stdout.write((programs if given.programs else markdown)(reports))


if __name__ == "__main__":
    main()
