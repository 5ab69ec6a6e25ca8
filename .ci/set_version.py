"""Give all distributions of this repository one version, and close the changelog's open section.

    python .ci/set_version.py 0.2.0

The version stands in ``agrad/__init__.py``, in ``CITATION.cff``, in the projects' files and in the pins between them, because each of them must
be readable by itself; this is the one place that writes it.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def set_version(root: Path, new: str, day: dt.date) -> None:
    """Write `new` into every file that states the version. Nothing is written if any of them is not as expected.

    Parameters
    ----------
    root : Path
        The folder of the repository.
    new : str
        As ``1.2.3`` or ``1.2.3rc1``.
    day : datetime.date
        Of the release, for the changelog.

    Raises
    ------
    ValueError
        If `new` is no such version or is released already, a file does not state the present one, or the changelog has no
        open section or nothing in it.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", new):
        raise ValueError(f"{new!r} is no version such as 1.2.3 or 1.2.3rc1")
    (old,) = re.findall(
        r'^__version__ = "(.+)"$', (root / "agrad/__init__.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    if new == old and f"## [{old}]" in text:
        raise ValueError(f"{old} is released already")
    states = rf'(?<=^version = "){re.escape(old)}(?="$)|(?<=^version: ){re.escape(old)}$|(?<=^__version__ = "){re.escape(old)}(?="$)'
    pins = rf"(?<===){re.escape(old)}(?=\")"
    written = {}
    stating = ["agrad/__init__.py", "CITATION.cff", "pyproject.toml"]
    for file in (*(root / name for name in stating), *sorted(root.glob("plugins/*/pyproject.toml"))):
        stated, count = re.subn(states, new, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"{file.relative_to(root)} states the version {old} {count} times, not once")
        written[file] = re.sub(pins, new, stated)
    if not re.search(r"^## \[Unreleased\]\n\n###", text, re.MULTILINE):
        raise ValueError("CHANGELOG.md has no section [Unreleased] with something in it")
    written[changelog] = text.replace("## [Unreleased]\n", f"## [Unreleased]\n\n## [{new}] - {day.isoformat()}\n", 1)
    for file, text in written.items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        set_version(ROOT, sys.argv[1], dt.datetime.now(dt.UTC).date())
    except ValueError as error:
        sys.exit(f"set_version: {error}")
