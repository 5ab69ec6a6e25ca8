"""Let a lazy number that multiplies a whole gradient multiply its sum: then the number need not be known before.

The cotangent of ``total / count`` is one number, ``1 / count``, and every chunk of the backward pass is a multiple of
it. If `count` is a statistic of the data, the chunks would have to wait for it, or be read again once it is known. The
rules of agrad's own operations are linear in the cotangent, so each is also run on the cotangent without the number; a
gradient in a single chunk is the number times that result. Gradients in several chunks are computed as usual, and so is
a derivative of the user's own, which need not be linear.

Results equal those of the direct computation up to rounding (if the number is not finite, infinity may replace NaN). So
float16, whose sums would overflow without the divisor, is excluded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.blockwise import Blockwise

from agrad.plugin.backend import MaskedCotangents, internal
from agrad_dask import origins
from agrad_dask.fusing import Fold

#: Dtypes whose range is so large that the position of the number in a product does not matter.
WIDE = ("float32", "float64")

internal(__file__)


class Factored(NamedTuple):
    """A cotangent as a product.

    Attributes
    ----------
    name : str
        The graph of the cotangent: an assignment gives a Dask array another one.
    factor : dask.array.Array
        The number.
    rest : array
        What it multiplies.
    masked : bool
        Whether 0 in the cotangent means that it was not requested: 0 times anything is 0 there.
    """

    name: str
    factor: Any
    rest: Any
    masked: bool


def run_rule(rule: Callable[[Any], Any], g: Any, node: Any, vjp: Callable[..., Any]) -> Any:
    """Run a rule, and again without the number that its cotangent is a multiple of, if there is one.

    Parameters
    ----------
    rule : callable
        Takes a cotangent, returns those of the operands that need one.
    vjp : callable
        Which of the node's rules it is.
    """
    found = rule(g)
    plan = node.plan
    if plan is None or plan.rule.guarded or (known := _product(g)) is None:
        return found
    masked = known.masked or isinstance(found, MaskedCotangents) or vjp is plan.nan_safe_vjp
    rests = rule(known.rest)
    if not isinstance(found, tuple | list):
        return _of(found, known.factor, rests, masked=masked)
    made = [_of(part, known.factor, rest, masked=masked) for part, rest in zip(found, rests, strict=True)]
    return type(found)(made)


def added(a: Any, b: Any, total: Any) -> Any:
    """Return a sum, as a multiple if both terms are multiples of the same number."""
    one, other = _noted(a), _noted(b)
    if one is not None and other is not None and one.factor.name == other.factor.name:
        _note(total, one.factor, one.rest + other.rest, masked=one.masked and other.masked)
    return total


def _noted(array: Any) -> Factored | None:
    """Return a cotangent's known factorisation."""
    found: Factored | None = getattr(array, "_agrad_product", None)
    return found if found is not None and found.name == array.name else None


def _note(array: Any, factor: Any, rest: Any, *, masked: bool) -> None:
    array._agrad_product = Factored(array.name, factor, rest, masked)


def _product(g: Any) -> Factored | None:
    """Return a cotangent as a product; a single number computed from many chunks is itself a factor, of 1."""
    if not isinstance(g, da.Array):
        return None
    if g.size == 1 and g.dtype.name in WIDE and _is_of_many(g):
        return Factored(g.name, g.reshape(()), da.ones(g.shape, g.dtype, chunks=g.shape), masked=False)
    return _noted(g)


def _of(part: Any, factor: Any, rest: Any, *, masked: bool) -> Any:
    """Return a cotangent, as the product if it is one chunk computed from many."""
    if not isinstance(part, da.Array) or part.dtype.kind not in "fc" or part.dtype.name == "float16":
        return part
    if part.npartitions > 1 or not (isinstance(rest, da.Array) and rest.npartitions == 1 and _is_of_many(rest)):
        _note(part, factor, rest, masked=masked)
        return part
    made = da.core.elemwise(functools.partial(_times, masked=masked), factor, rest, dtype=part.dtype)
    origins.note("multiply", (factor, rest), made)
    return made


def _is_of_many(array: Any) -> bool:
    """Return whether an array is computed from one that has several chunks."""
    return any(map(_is_cut, array.dask.layers.values()))


def _is_cut(layer: Any) -> bool:
    if isinstance(layer, Blockwise):
        return any(n > 1 for n in layer.dims.values())
    return isinstance(layer, Fold) or len(layer) > 1


def _times(factor: Any, rest: Any, *, masked: bool) -> Any:
    """Multiply a number by a sum that was computed without it."""
    with np.errstate(all="ignore"):
        product = factor * rest
    if masked and not (np.isfinite(factor) and factor):
        product = np.where((rest == 0) | (factor == 0), 0, product)
    return product.astype(rest.dtype, copy=False)
