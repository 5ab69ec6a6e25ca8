"""``python -m agrad``: the tables of backends and executors; ``python -m agrad conformance NAME``: the conformance kit."""

from __future__ import annotations

import sys

import agrad
from agrad.plugin import manager
from agrad.testing import command


def main() -> None:
    """Print name, version, devices and availability of every backend and executor, or run the conformance kit."""
    if sys.argv[1:2] == ["conformance"]:
        sys.exit(command.main(sys.argv[2:]))
    rows = [("backend", "version", "devices", "available")]
    rows += [
        (row.name, row.version or "-", ", ".join(row.devices) or "-", "yes" if row.available else f"no: {row.reason}")
        for row in manager.backends()
    ]
    print(f"agrad {agrad.__version__}, version {agrad.CONTRACT} of the backend contract")
    show(rows)
    if len(rows) == 1:
        print(f"No backend is installed. Install one, for instance NumPy's: {manager.install('numpy')}")
    executors = [
        (row.name, row.version or "-", ", ".join(row.backends) or "-", "yes" if row.available else f"no: {row.reason}")
        for row in manager.executors()
    ]
    if executors:
        print()
        show([("executor", "version", "backends", "available"), *executors])


def show(rows: list[tuple[str, str, str, str]]) -> None:
    """Print a table."""
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)).rstrip())


if __name__ == "__main__":
    main()
