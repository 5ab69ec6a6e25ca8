"""Special functions of the Dask backend: those of the blocks' library, block by block over all operands."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from agrad.plugin.backend import OPS, backend_of


def kernel(op: str) -> Callable[..., Any] | None:
    """Return the kernel of an elementwise operation, None for any other."""
    known = OPS.get(op)
    if known is None or known.rule.kind not in ("elementwise", "none"):
        return None
    block = functools.partial(on_block, op)

    def blockwise(*values: Any) -> Any:
        # Raises the library's own refusal: Dask would turn a TypeError into dtype object
        with np.errstate(all="ignore"):
            dtype = block(*map(_sample, values)).dtype
        return da.core.elemwise(block, *values, dtype=dtype, name=f"agrad-{op}-{tokenize(op, *values)}")

    return blockwise


def _sample(value: Any) -> Any:
    """Return one element of the dtype and library of an array."""
    return np.ones_like(value._meta, shape=(1,)) if isinstance(value, da.Array) else value


def on_block(op: str, *values: Any, **parameters: Any) -> Any:
    """Run the kernel of the blocks' backend."""
    backend = next(found for found in map(backend_of, values) if found is not None)
    return operator.attrgetter(op)(backend.xp)(*values, **parameters)
