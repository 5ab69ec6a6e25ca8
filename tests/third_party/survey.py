"""Try functions of other libraries on agrad tensors: is the gradient right, is there an honest error, or is it wrong?

    python tests/third_party/survey.py                  try every call, print what is not differentiated and the counts
    python tests/third_party/survey.py --write          and write docs/third_party.md
    python tests/third_party/survey.py "scipy.signal"   only calls whose full name contains the text; several may be given

A call is written down once, in one of the ``calls_*.py`` beside this file, as a function of arrays and its operands. It
runs on NumPy arrays and on tensors that require gradients. The gradient of a weighted sum of all floating-point results
is compared with finite differences of the run on NumPy arrays, along directions that are drawn. The exit status is 1 if any call is WRONG or LOST, if
less than 60 % differentiate, or if a call's declaration does not hold.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import importlib.metadata
import importlib.util
import json
import linecache
import operator
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported
os.environ.setdefault(
    "DASK_SCHEDULER", "synchronous"
)  # chunks of a few elements: threads would only wait for one another

import array_api_strict as strict
import numpy as np
from calls import Call  # noqa: TC002 (a dataclass field)

import agrad as ag

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "third_party.md"
#: Where this project's own errors come from.
PACKAGES = tuple(
    os.path.join(Path(spec.origin).parent, "")
    for spec in map(importlib.util.find_spec, ("agrad", "agrad_numpy", "agrad_dask"))
    if spec is not None and spec.origin
)

TABLES = ("special", "stats", "signal", "scipy", "ndimage", "sklearn", "small", "xarray")
#: What the page states the version of.
DISTRIBUTIONS = (
    "numpy", "scipy", "scikit-learn", "einops", "opt_einsum", "array-api-compat", "array-api-extra", "xarray",
)  # fmt: skip

#: The outcomes, and what they mean.
OUTCOMES = {
    "differentiates": "values and gradients agree with NumPy and with finite differences",
    "piecewise constant": "so declared: ranks, labels, counts; finite differences and the gradient are zero",
    "raises": "an error while the graph is built or run through; nothing is computed",
    "warns": "a warning says what is lost: see the remark",
    "wrong in the library": "the value is not NumPy's, but that of array-api-strict, which has no gradients: a mistake there",
    "refused by the library": "the library itself raises for arrays that are not NumPy's",
    "WRONG": "a value or a gradient differs, silently",
    "LOST": "the result silently requires no gradient, though it depends on the operands",
    "MISDECLARED": "the call's line in the table does not hold",
}
#: What a warning of agrad's says.
ANNOUNCED = {
    ag.LeavesGraphWarning: "the library takes a Python number out of the graph (`LeavesGraphWarning`)",
    ag.LostWriteWarning: "the library writes to what NumPy makes a view (`LostWriteWarning`)",
}
GOOD = ("differentiates", "piecewise constant")
BAD = ("WRONG", "LOST", "MISDECLARED")
SHARE = 0.6
#: In so many directions is each operand moved.
DIRECTIONS = 2


@dataclasses.dataclass
class Row:
    """What came of a call."""

    call: Call
    outcome: str
    remark: str = ""


# -- results, as a flat list ------------------------------------------------------------------------------------------


def leaves(result: Any) -> Iterator[Any]:
    """Give the arrays and numbers in a result: in tuples, lists and dicts, in that order."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list | tuple):
        for part in result:
            yield from leaves(part)
    elif isinstance(
        result, ag.Tensor | type(strict.asarray(0)) | np.ndarray | np.generic | bool | int | float | complex
    ):
        yield result
    else:
        message = f"the call gives a {type(result).__name__}: let it give the arrays in it"
        raise TypeError(message)


def values(result: Any) -> list[Any]:
    """Give the results as NumPy arrays."""
    return [np.asarray(x.detach() if isinstance(x, ag.Tensor) else x) for x in leaves(result)]


def weights(like: Any) -> Any:
    """Give weights that no symmetry of a function cancels, of the shape and kind of a result; 0 where it is NaN."""
    n = np.arange(like.size, dtype=float)
    w = 0.7 + np.cos(1.3 * n + 0.4)
    w = (w + 1j * np.sin(0.9 * n + 0.2) if like.dtype.kind == "c" else w).reshape(like.shape)
    return np.where(np.isnan(like), 0, w) if np.any(np.isnan(like)) else w


def weighted(results: list[Any]) -> float:
    """Give the real number that is differentiated: the sum of Re(conj(w) * y) over the floating-point results."""
    return float(sum(np.nansum((weights(y).conj() * y).real) for y in results if y.dtype.kind in "fc"))


# -- the gradient, twice ----------------------------------------------------------------------------------------------


def directions(x: Any) -> list[Any]:
    """Give the directions in which an operand is moved, drawn with elements of at most 1: along none is a mistake hidden."""
    rng = np.random.default_rng(x.size)
    drawn = rng.uniform(-1, 1, (DIRECTIONS, *x.shape))
    if x.dtype.kind == "c":
        drawn = (drawn + 1j * rng.uniform(-1, 1, drawn.shape)) / np.sqrt(2)
    return list(drawn) if x.dtype.kind in "fc" else []


def along(gradients: list[Any], operands: Sequence[Any]) -> list[Any]:
    """Give the derivatives in these directions that gradients tell, an array per operand."""
    return [
        np.asarray([np.sum((g.conj() * v).real) for v in directions(x)])
        for g, x in zip(gradients, operands, strict=True)
    ]


def finite_differences(call: Call) -> list[Any]:
    """Give the derivatives in these directions by central differences of fourth order, an array per operand."""

    def at(position: int, change: Any) -> float:
        operands = [x.copy() for x in call.operands]
        operands[position] += change
        return weighted(values(call.function(*operands)))

    found = []
    for position, x in enumerate(call.operands):
        slopes = []
        for v in directions(x):
            near, far = (at(position, k * call.step * v) - at(position, -k * call.step * v) for k in (1, 2))
            slopes.append((8 * near - far) / (12 * call.step))
        found.append(np.asarray(slopes))
    return found


#: The last call on NumPy arrays, and what came of it: the same call over chunks follows it.
_LAST: list[Any] = []


def expected_of(call: Call) -> tuple[list[Any], list[Any]]:
    """Give the values of a call on NumPy arrays and its finite differences, as `finite_differences` does."""
    if not (_LAST and _LAST[0] is call.function and all(map(operator.is_, _LAST[1], call.operands))):
        found = values(call.function(*(x.copy() for x in call.operands))), finite_differences(call)
        _LAST[:] = [call.function, call.operands, found]
    result: tuple[list[Any], list[Any]] = _LAST[2]
    return result


def held(x: Any, chunks: dict[int, tuple[int, ...]] | None) -> Any:
    """Give the array that a tensor holds: a copy, or Dask's chunks of it."""
    if chunks is None:
        return x.copy()
    import dask.array

    return dask.array.from_array(x, chunks[x.ndim])


def gradient(call: Call, expected: list[Any]) -> tuple[list[Any], list[Any], bool]:
    """Run a call on tensors; give its values, the gradients of the operands, and whether there was a graph.

    Where it gives values of other shapes than those expected, nothing is differentiated.
    """
    operands = [ag.asarray(held(x, call.chunks), requires_grad=x.dtype.kind in "fc") for x in call.operands]
    results = list(leaves(call.function(*operands)))
    none = [np.zeros_like(x) for x in call.operands]
    if [np.shape(y) for y in results] != [value.shape for value in expected]:
        return values(results), none, False
    followed = [
        (y, ag.asarray(weights(value.astype(np.result_type(value, y.dtype))), device=y.device))
        for y, value in zip(results, expected, strict=True)
        if isinstance(y, ag.Tensor) and y.requires_grad
    ]
    if not followed:
        return values(results), none, False
    inputs = [x for x in operands if x.requires_grad]
    outputs, cotangents = zip(*followed, strict=True)
    found = ag.grad(outputs, inputs, cotangents, allow_unused=True)
    ag.compute(results, found)  # both at once, where they are lazy
    grads = iter(found)
    given = [next(grads) if x.requires_grad else None for x in operands]
    return (
        values(results),
        [nothing if g is None else g.numpy() for nothing, g in zip(none, given, strict=True)],
        True,
    )


def agree(found: list[Any], expected: list[Any], tolerance: float) -> bool:
    """Tell whether arrays agree to `tolerance` of the largest of each."""
    return len(found) == len(expected) and all(
        f.shape == e.shape
        and np.allclose(f, e, rtol=tolerance, atol=tolerance * max(1e-3, np.max(np.abs(e), initial=0)), equal_nan=True)
        for f, e in zip(found, expected, strict=True)
    )


# -- one call ---------------------------------------------------------------------------------------------------------


def honest(error: Exception) -> Row:
    """Tell an error that the library raises on purpose from any other."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    on_purpose = line.startswith("raise") and not frame.filename.startswith(PACKAGES)
    text = str(error).strip().partition("\n")[0].replace("|", "\\|")
    text = text if len(text) <= 120 else text[:117] + "..."
    return Row(None, "refused by the library" if on_purpose else "raises", f"{type(error).__name__}: {text}")


def attempt(call: Call) -> Row:
    """Try one call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected_values, expected = expected_of(call)
        except Exception as error:  # noqa: BLE001 (a mistake in the table)
            return Row(call, "MISDECLARED", f"on NumPy arrays: {error!r}")
    constant = all(np.all(np.abs(e) < 1e-12) for e in expected)
    if constant != call.constant or not all(np.all(np.isfinite(e)) for e in expected):
        return Row(call, "MISDECLARED", f"finite differences on NumPy arrays: {expected}")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found_values, found, graph = gradient(call, expected_values)
        except Exception as error:  # noqa: BLE001 (any error is a row of the report)
            return dataclasses.replace(honest(error), call=call)
    said = {w.category for w in seen}.intersection(ANNOUNCED)
    slopes = along(found, call.operands)
    right_slopes = agree(slopes, expected, call.tolerance)
    right = agree(found_values, expected_values, 1e-9 if call.tolerance < 1e-4 else call.tolerance)
    if said and not (right and right_slopes):
        return Row(call, "warns", ", ".join(sorted(ANNOUNCED[category] for category in said)))
    if not right:
        if call.broken and agree(found_values, values(call.function(*map(strict.asarray, call.operands))), 1e-9):
            return Row(call, "wrong in the library")
        return Row(call, "WRONG", f"values {found_values} instead of {expected_values}")
    if right_slopes:
        remark = "; ".join(filter(None, [call.remark, *sorted("but " + ANNOUNCED[category] for category in said)]))
        return Row(call, "piecewise constant" if constant else "differentiates", remark)
    if not graph:
        return Row(call, "LOST")
    return Row(call, "WRONG", f"derivatives {slopes} instead of {expected}, gradients {found}")


# -- the report -------------------------------------------------------------------------------------------------------


def table(names: Sequence[str] = TABLES) -> list[Call]:
    """Give the calls of some tables, in their order."""
    found = [call for name in names for call in importlib.import_module(f"calls_{name}").CALLS]
    twice = [name for name, count in collections.Counter(call.full for call in found).items() if count > 1]
    if twice:
        message = f"in the tables twice: {twice}"
        raise ValueError(message)
    return found


def page(rows: list[Row]) -> str:
    """Give the text of the page."""
    counts = collections.Counter(row.outcome for row in rows)
    good = sum(counts[outcome] for outcome in GOOD)
    parts = [
        "# Other libraries on tensors\n",
        "What functions of other libraries do when they are handed tensors that require gradients. This page is written by",
        "`python tests/third_party/survey.py --write`, which tries each call below and compares its gradient with finite",
        "differences of the same call on NumPy arrays. SciPy dispatches with `SCIPY_ARRAY_API=1` in the environment before",
        "it is imported, scikit-learn within `sklearn.config_context(array_api_dispatch=True)`, and einops after",
        "`import agrad.einops`. xarray is on [a page of its own](xarray.md).\n",
        f"Of {len(rows)} calls {good} differentiate ({100 * good / len(rows):.0f} %), piecewise constant ones included.\n",
        "| result | calls | meaning |\n|---|---|---|",
        *(
            f"| {o} | {counts[o]} | {meaning} |"
            for o, meaning in OUTCOMES.items()
            if counts[o] or o in ("WRONG", "LOST")
        ),
        "\nMade with " + ", ".join(f"{d} {importlib.metadata.version(d)}" for d in DISTRIBUTIONS) + ".",
    ]
    by_library: dict[str, list[Row]] = {}
    for row in rows:
        by_library.setdefault(row.call.library, []).append(row)
    for library, group in by_library.items():
        good = sum(row.outcome in GOOD for row in group)
        parts.append(f"\n## {library}: {good} of {len(group)}\n\n| call | result | remark |\n|---|---|---|")
        parts += [f"| `{row.call.name}` | {row.outcome} | {row.remark} |" for row in group]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Try the calls and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only calls whose full name contains one of these")
    parser.add_argument("--tables", nargs="+", default=TABLES, help=f"only these of the tables {' '.join(TABLES)}")
    parser.add_argument("--write", action="store_true", help="write docs/third_party.md")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON; names must then match exactly")
    options = parser.parse_args()
    if options.write and (options.names or options.tables != TABLES):
        parser.error("--write tries every call")
    calls = [
        call
        for call in table(options.tables)
        if not options.names or any(n == call.full or (n in call.full and not options.json) for n in options.names)
    ]
    rows = [attempt(call) for call in calls]
    if options.json:
        print(json.dumps({row.call.full: [row.outcome, row.remark] for row in rows}))
        return 0
    for row in rows:
        if row.outcome not in GOOD or (options.names and len(rows) < 40):
            print(f"{row.call.full}: {row.outcome}  {row.remark}")
    counts = collections.Counter(row.outcome for row in rows)
    good = sum(counts[outcome] for outcome in GOOD)
    print(f"\n{len(rows)} calls: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    print(f"{good} differentiate: {100 * good / max(len(rows), 1):.1f} %")
    if options.write:
        PAGE.write_text(page(rows), encoding="utf-8")
    return int(any(counts[outcome] for outcome in BAD) or good < SHARE * len(rows))


if __name__ == "__main__":
    sys.exit(main())
