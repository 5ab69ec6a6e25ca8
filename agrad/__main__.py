"""``python -m agrad``: the table of backends; ``python -m agrad conformance NAME``: the conformance kit."""

from __future__ import annotations

import sys

import agrad
from agrad.plugin import manager
from agrad.testing import command


def main() -> None:
    """Print name, version, devices and availability of every backend, or run the conformance kit."""
    if sys.argv[1:2] == ["conformance"]:
        sys.exit(command.main(sys.argv[2:]))
    rows = [("backend", "version", "devices", "available")]
    rows += [
        (row.name, row.version or "-", ", ".join(row.devices) or "-", "yes" if row.available else f"no: {row.reason}")
        for row in manager.backends()
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    print(f"agrad {agrad.__version__}, version {agrad.CONTRACT} of the backend contract")
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)).rstrip())
    if len(rows) == 1:
        print(f"No backend is installed. Install one, for instance NumPy's: {manager.install('numpy')}")


if __name__ == "__main__":
    main()
