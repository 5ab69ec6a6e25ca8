"""Write the table in docs/numpy.md: what each public function of NumPy's is for tensors.

``python docs/make_numpy.py`` writes the page; with ``--check`` it only tells whether the page is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from agrad.core.tensor import Tensor
from agrad.numpy import _DTYPES
from agrad.numpy.table import CREATION, DIFFERENTIATED, EFFECT, LIBRARY, REFUSED, STEP, table

PAGE = Path(__file__).resolve().parent / "numpy.md"
MARK = "## Every name\n"

#: What each status means.
MEANING = {
    DIFFERENTIATED: "gradients pass",
    STEP: "the result has no derivative, or one that is 0",
    CREATION: "makes arrays of no operand that has a derivative",
    EFFECT: "holds for tensors and for plain arrays",
    LIBRARY: "settings, texts, questions about dtypes, and arrays of files: what the array library has under the name",
    REFUSED: "raises, and says what to write",
}

#: What is refused though it has a derivative.
WITH_DERIVATIVE = {"asmatrix", "bmat", "frompyfunc", "matrix", "nditer", "poly1d", "require"}

HEAD = f"""{MARK}
The public functions of NumPy {{version}}, made by `docs/make_numpy.py`. In *italics*: what NumPy does not ask its operands about
(`np.array`, `np.zeros`), so that it is `agrad.numpy`'s alone; NumPy's own raises or warns if it is given a tensor whose gradient is
followed. Dtypes ({{dtypes}}) are the current backend's.

Of {{all}} names that have a derivative {{done}} differentiate, {{part}} %, on NumPy and on Dask. Tests call each of them on both,
with every keyword that changes a result, and compare value, shape and dtype with NumPy's and the derivative with differences.
"""


def asks(name: str) -> bool:
    """Tell whether NumPy asks the operands of a function what it is for them."""
    found = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return isinstance(found, np.ufunc) or hasattr(found, "_implementation")


def shown(names: list[str]) -> str:
    """Give names as a list, those in italics that are agrad.numpy's alone."""
    return ", ".join(f"`{name}`" if asks(name) else f"*`{name}`*" for name in sorted(names, key=str.lower))


def rooms(names: list[str]) -> dict[str, list[str]]:
    """Give names by the room they are in."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition(".")[0] if "." in name else "", []).append(name)
    return dict(sorted(found.items()))


def methods() -> str:
    """Give what ndarray's attributes are on tensors."""
    mine, missing = [], []
    for name in dir(np.ndarray):
        if not name.startswith("__"):
            (mine if hasattr(Tensor, name) else missing).append(f"`{name}`")
    return (
        f"\nOf ndarray's attributes tensors have {', '.join(mine)}. They have no {', '.join(missing)}: most of these look"
        " at memory, which tensors do not show.\n"
    )


def generated() -> str:
    """Give the text of the generated part."""
    entries = table()
    done = sum(entry.status == DIFFERENTIATED for entry in entries.values())
    every = done + sum(entries[name].status == REFUSED for name in WITH_DERIVATIVE)
    parts = [
        HEAD.format(
            version=np.__version__.rpartition(".")[0],
            dtypes=", ".join(f"`{name}`" for name in _DTYPES),
            all=every,
            done=done,
            part=100 * done // every,
        )
    ]
    for status, meaning in MEANING.items():
        names = [name for name, entry in entries.items() if entry.status == status]
        parts.append(f"\n### {status.capitalize()}: {meaning} ({len(names)})\n")
        parts.extend(f"\n{f'**{room}** ' if room else ''}{shown(each)}\n" for room, each in rooms(names).items())
        if status == REFUSED:
            parts.append("\n| name | instead |\n|---|---|\n")
            text: dict[str, list[str]] = {}
            for name in names:
                text.setdefault(entries[name].function.__doc__.removeprefix("Raise TypeError: "), []).append(name)
            parts.extend(f"| {shown(each)} | {instead} |\n" for instead, each in text.items())
    parts.append("\n### Methods\n")
    parts.append(methods())
    return "".join(parts)


def main() -> int:
    """Write the page, or check it."""
    before = PAGE.read_text(encoding="utf-8")
    text = before.partition(MARK)[0] + generated()
    if "--check" in sys.argv[1:]:
        if before == text:
            return 0
        sys.stderr.write("docs/numpy.md is not up to date: run python docs/make_numpy.py\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
