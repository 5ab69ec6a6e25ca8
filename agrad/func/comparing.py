"""Compare a replay with the function itself: arrays to the bit or to rounding, results and writes one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from agrad import tree
from agrad.core.backend import Backend
from agrad.core.tensor import Tensor
from agrad.func.guards import is_plain, same
from agrad.func.kept import Kept
from agrad.func.program import Given, Leaf, Number

#: How far results may be apart, relative to the largest: of the coarser dtypes, and of all others.
COARSE, FINE = {"float16": 1e-2, "float32": 1e-4, "complex64": 1e-4}, 1e-9

#: And what a call writes, in units in the last place of the largest number it writes: where terms cancel, as in the gradient
#: of a bias before a batch norm, what is left is their rounding.
CANCELLED = 64


def differences(
    kept: Kept, outs: Sequence[Any], returned: Any, targets: Sequence[Tensor], *, exact: bool
) -> Iterator[str]:
    """Return in what a replay differs from a call of the function, as words.

    Parameters
    ----------
    kept : Kept
        What was replayed.
    outs : sequence
        What it gave.
    returned : object
        What the function returned.
    targets : sequence of Tensor
        What the function wrote to, in the order of the program's writes.
    exact : bool
        Compare arrays to the bit.
    """
    backend, results = kept.backend, kept.program.results
    assert results is not None
    leaves, structure = tree.flatten(returned)
    if structure != results.treedef:
        yield f"the structure of what it returns, {structure}"
        return
    for path, (leaf, at), now in zip(structure.paths(), kept.leaves, leaves, strict=True):
        where = f"what it returns{f' at {path}' if path else ''}"
        if isinstance(leaf, Leaf):
            yield from _differing(backend, now._raw if isinstance(now, Tensor) else now, outs[at], where, exact)
        elif isinstance(leaf, Number):
            yield from _differing(backend, now, backend.item(outs[at]), where, exact)
        elif not isinstance(leaf, Given) and now is not leaf and not (is_plain(leaf) and same(now, leaf)):
            yield f"{where} ({now!r}, and {leaf!r} in the capture)"
    for (write, _, at), target in zip(kept.puts, targets, strict=True):
        now = target if write.what == "data" else target.grad
        if (now is None) != (write.number is None):
            yield f"whether {write.target} has a gradient"
        if at >= 0:
            assert now is not None
            what = f"what it writes to {write.target}.{write.what}"
            for difference in _differing(backend, now._raw, outs[at], what, exact):
                written = () if exact or backend.is_lazy else [outs[at] for _, _, at in kept.puts if at >= 0]
                if not (written and is_rounding(backend, now._raw, outs[at], written)):
                    yield difference


def _differing(backend: Backend, eager: Any, replayed: Any, what: str, exact: bool) -> Iterator[str]:
    """Return that two values differ, if they do."""
    if isinstance(eager, int | float | complex) and not hasattr(eager, "dtype"):
        if not same(eager, replayed) and not abs(eager - replayed) <= FINE * max(1.0, abs(eager)):
            yield f"{what}: {replayed!r}, and {eager!r} without compiling"
        return
    equal = equal_in_bits if exact else equal_to_rounding
    if not equal(backend, backend.as_array(eager), backend.as_array(replayed)):
        yield what


def equal_in_bits(backend: Backend, first: Any, second: Any) -> bool:
    """Return whether two arrays are equal; NaN is equal to NaN."""
    if tuple(first.shape) != tuple(second.shape) or first.dtype != second.dtype:
        return False
    xp = backend.xp
    equal = xp.equal(first, second)
    if backend.kind(first.dtype) in ("float", "complex"):
        equal = xp.logical_or(equal, xp.logical_and(xp.isnan(first), xp.isnan(second)))
    return bool(backend.truth(xp.all(equal)))


def equal_to_rounding(backend: Backend, first: Any, second: Any) -> bool:
    """Return whether two arrays are equal, but for rounding of other orders of sums."""
    if tuple(first.shape) != tuple(second.shape) or first.dtype != second.dtype:
        return False
    with backend.quiet():
        return _nearly_equal(backend, first, second)


def is_rounding(backend: Backend, first: Any, second: Any, beside: Sequence[Any]) -> bool:
    """Return whether two arrays are no further apart than the largest of others is rounded."""
    if tuple(first.shape) != tuple(second.shape) or backend.kind(first.dtype) not in ("float", "complex"):
        return False
    xp = backend.xp
    with backend.quiet():
        largest = max(
            float(backend.item(xp.max(xp.abs(each))))
            for each in beside
            if math.prod(each.shape) and backend.kind(each.dtype) in ("float", "complex")
        )
        apart = CANCELLED * float(backend.namespace().finfo(first.dtype).eps) * largest
        return math.isfinite(apart) and bool(backend.truth(xp.all(xp.less_equal(xp.abs(first - second), apart))))


def _nearly_equal(backend: Backend, first: Any, second: Any) -> bool:
    xp = backend.xp
    equal = xp.equal(first, second)
    if backend.kind(first.dtype) in ("float", "complex"):
        relative = COARSE.get(backend.dtype_name(first.dtype), FINE)
        scale = (
            xp.max(xp.abs(xp.where(xp.isfinite(first), first, xp.zeros_like(first)))) if math.prod(first.shape) else 0
        )
        near = xp.less_equal(xp.abs(first - second), relative * scale)
        both = xp.logical_and(xp.isnan(first), xp.isnan(second))
        equal = xp.logical_or(xp.logical_or(equal, near), both)
    return bool(backend.truth(xp.all(equal)))
