"""The requirements of a sample, by the names of `agrad.core.requirements`."""

from __future__ import annotations

from typing import Any

from agrad.core.kernels import is_mask
from agrad.core.op import OPS, facts_of
from agrad.core.requirements import REQUIREMENTS
from agrad.testing.samples import Data, Sample

__all__ = ["of_dtype", "of_sample"]


def of_dtype(dtype: str) -> tuple[str, ...]:
    """Return the requirements of a dtype, by its name."""
    return (dtype,) if dtype in REQUIREMENTS else ()


def of_sample(sample: Sample) -> tuple[str, ...]:
    """Return the requirements of a sample, without that of the precision it runs in."""
    given = list(_flat([*sample.args, *sample.kwargs.values()]))
    arrays = [value for value in given if isinstance(value, Data)]
    found = [name for value in given if isinstance(value, str) for name in of_dtype(value)]
    is_complex = any(array.dtype.startswith("complex") for array in arrays)
    if is_complex:
        found.append("complex")
    needs = facts_of(sample.op).needs
    always = [name for name in needs if name != "zero-size reductions"]
    found += ["complex linalg" if name == "linalg" and is_complex else name for name in always]
    if sample.op in OPS and OPS[sample.op].has_key:
        found += ["boolean indexing" if is_mask(a) else "integer indexing" for a in arrays if not a.inexact]
    if any(0 in array.shape for array in arrays):
        found.append("zero-size reductions" if "zero-size reductions" in needs else "empty arrays")
    return tuple(dict.fromkeys(found))


def _flat(value: Any) -> Any:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    else:
        yield value
