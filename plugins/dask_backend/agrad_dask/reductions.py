"""Reductions over chunks: a layer of blocks within each, and one more layer over all of them, however many there are.

Dask's own reductions make a task for every block and every fourth sum while the loss is recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from agrad_dask.fusing import Adder, Fold, Folded
from agrad_dask.making import NOTHING, RESULT, makes

#: For each reduction, the function that reduces two values to one.
OF_TWO = {
    "all": np.logical_and,
    "any": np.logical_or,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
    "sum": np.add,
}


class Pairs:
    """Reduces neighbours, then pairs of them, and so on: to the same bits however many of them share a task."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function
        #: The values that wait for a neighbour, and the number of values in each.
        self.held: list[tuple[int, Any]] = []

    def add(self, _: range, values: Sequence[Any]) -> None:
        """Go on with some values."""
        for value in values:
            count = 1
            while self.held and self.held[-1][0] == count:
                value = self.function(self.held.pop()[1], value)  # noqa: PLW2901 (what waits is older)
                count *= 2
            self.held.append((count, value))

    def result(self) -> Any:
        """Return the reduction of all."""
        return functools.reduce(lambda late, early: self.function(early, late), (v for _, v in reversed(self.held)))


class ByPairs(Adder):
    """Reduces blocks of length 1 along some axes, which may be kept."""

    def __init__(self, function: Callable[[Any, Any], Any], axes: tuple[int, ...]) -> None:
        self.function, self.axes = function, axes

    def begin(self, numbers: range, *shared: Any) -> Any:
        return nullcontext(Pairs(self.function))

    def combine(self, parts: Sequence[Any], *shared: Any) -> Any:
        total = Pairs(self.function)
        total.add(range(len(parts)), parts)
        return total.result()

    def finish(self, part: Any) -> Any:
        return part.squeeze(self.axes) if self.axes else part


def folded(name: str, x: Any, axes: tuple[int, ...], *, kept: bool) -> Any:
    """Reduce an array along axes along which its blocks have length 1; it has several blocks along one of them, no other.

    Parameters
    ----------
    name : str
        A key of `OF_TWO`.
    kept : bool
        Keep the axes.
    """
    own = f"{name}-{tokenize(x.name, axes, kept)}"
    chunks = tuple((1,) if i in axes else along for i, along in enumerate(x.chunks))
    chunks = chunks if kept else tuple(along for i, along in enumerate(chunks) if i not in axes)
    adder = ByPairs(OF_TWO[name], () if kept else axes)
    layer = Fold(Folded((own, *(0,) * len(chunks)), [(x.name, x.numblocks)], adder))
    graph = HighLevelGraph.from_collections(own, layer, dependencies=[x])
    return da.Array(graph, own, chunks, meta=np.empty_like(x._meta, shape=(0,) * len(chunks)), dtype=x.dtype)


def reduction(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Create a reduction of axes that are in one chunk each, or of which only one is not, if no other axis is in several."""

    def kernel(x: Any, /, *, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
        axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        reduced = {a % x.ndim for a in axes if -x.ndim <= a < x.ndim}
        several = {a for a, n in enumerate(getattr(x, "numblocks", ())) if n > 1}
        over = bool(several & reduced)
        if (
            (not reduced or len(reduced) < len(axes) or 0 in x.shape)
            or (over and (len(several) > 1 or several - reduced))
            # An empty reduction has no result
            or (name in ("max", "min") and any(not n > 0 for a in reduced for n in x.chunks[a]))
        ):
            return function(x, axis=axis, keepdims=keepdims, **options)
        kept = keepdims or over
        labels = tuple(range(x.ndim))
        result = labels if kept else tuple(i for i in labels if i not in reduced)
        dtype = getattr(np, name)(np.ones((1,), x.dtype), **options).dtype
        made = da.blockwise(
            _reduce_block,
            result,
            *(x, labels),
            adjust_chunks=dict.fromkeys(reduced, 1) if kept else None,
            concatenate=False,
            token=name,
            dtype=dtype,
            meta=np.empty_like(x._meta, dtype, shape=(0,) * len(result)),
            function=functools.partial(getattr(np, name), **options),
            axes=tuple(sorted(reduced)),
            kept=kept,
        )
        return folded(name, made, tuple(sorted(reduced)), kept=keepdims) if over else made

    return kernel


@makes(RESULT)
def _reduce_block(x: Any, function: Callable[..., Any], axes: tuple[int, ...], kept: bool) -> Any:
    return function(only(x), axis=axes, keepdims=kept)


@makes(NOTHING)
def only(block: Any) -> Any:
    """Return the block inside nested lists, one for each axis that the result lacks."""
    while type(block) is list:
        (block,) = block
    return block


#: The sum; `dtype` is the dtype in which it adds.
added_up = reduction("sum", da.sum)
