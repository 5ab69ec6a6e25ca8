"""Special functions of the Dask backend: those of the blocks' library, block by block over all operands."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import dask.array as da
from dask.base import tokenize

from agrad.core.op import OPS
from agrad.core.spec import backend_of


def kernel(op: str) -> Callable[..., Any] | None:
    """Give the kernel of an operation that acts element by element, None for any other."""
    known = OPS.get(op)
    if known is None or known.rule.kind not in ("elementwise", "none"):
        return None
    block = functools.partial(_block, op)

    def blockwise(*values: Any) -> Any:
        return da.core.elemwise(block, *values, name=f"agrad-{op}-{tokenize(op, *values)}")

    return blockwise


def _block(op: str, *values: Any) -> Any:
    """Run the kernel of the backend that the blocks are of."""
    backend = next(found for found in map(backend_of, values) if found is not None)
    return operator.attrgetter(op)(backend.xp)(*values)
