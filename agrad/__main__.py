"""``python -m agrad``: the tables of backends and executors; ``conformance NAME``: the kit; ``new-backend NAME``: a new one.

``python -m agrad sparsity``: the operations by their effect on the pattern of a Jacobian.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import agrad
from agrad.plugin import manager
from agrad.program.sparsity import WAYS, ways
from agrad.testing import command, new_backend


def main() -> int:
    """Print name, version, devices and availability of every backend and executor, or run the conformance kit.

    Returns
    -------
    int
        The exit status: 1 if a plugin failed, or a name in ``--strict`` is not available.
    """
    if sys.argv[1:2] == ["conformance"]:
        return command.main(sys.argv[2:])
    if sys.argv[1:2] == ["sparsity"]:
        show_sparsity()
        return 0
    if sys.argv[1:2] == ["new-backend"]:
        return new_backend.main(sys.argv[2:])
    parser = argparse.ArgumentParser(
        prog="python -m agrad",
        description="List backends and executors; the exit status is 1 where a plugin failed.",
        epilog="Also: python -m agrad conformance --help, the kit for backends; python -m agrad new-backend --help, a new one.",
    )
    strict = "exit with 1 unless this backend or executor is available; may be given several times"
    parser.add_argument("--strict", metavar="NAME", action="append", default=[], help=strict)
    given = parser.parse_args()
    with warnings.catch_warnings():  # the table shows the failures
        warnings.filterwarnings("ignore", "the agrad plugin", RuntimeWarning)
        backends, ways = manager.backends(), manager.executors()
    rows = [("backend", "version", "devices", "available")]
    rows += [
        (row.name, row.version or "-", ", ".join(row.devices) or "-", "yes" if row.available else f"no: {row.reason}")
        for row in backends
    ]
    print(f"agrad {agrad.__version__}, version {agrad.CONTRACT} of the backend contract")
    show(rows)
    if len(rows) == 1:
        print(f"No backend is installed. Install one, for instance NumPy's: {manager.install('numpy')}")
    executors = [
        (row.name, row.version or "-", ", ".join(row.backends) or "-", "yes" if row.available else f"no: {row.reason}")
        for row in ways
    ]
    if executors:
        print()
        show([("executor", "version", "backends", "available"), *executors])
    usable = {row.name for row in backends if row.available} | {row.name for row in ways if row.available}
    missing = [name for name in given.strict if name not in usable]
    if missing:
        print(f"Not available: {', '.join(missing)}")
    return int(bool(missing) or any(row.failed for row in backends) or any(row.failed for row in ways))


def show_sparsity() -> None:
    """Print how many operations there are of each kind of pattern, and the names of those without a rule."""
    from agrad.ops.scipy import linalg, signal  # noqa: F401, PLC0415 (what they declare; nothing else here needs them)

    by_way = ways()
    total = sum(map(len, by_way.values()))
    for way, names in by_way.items():
        print(f"{len(names):4}  {way}" + (f": {', '.join(names)}" if way == WAYS["dense"] and names else ""))
    print(f"{total - len(by_way[WAYS['dense']])} of {total} operations with a derivative have a rule")


def show(rows: list[tuple[str, str, str, str]]) -> None:
    """Print a table."""
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
