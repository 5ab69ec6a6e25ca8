"""Kernels of the Dask backend for images: convolution and pooling, by the kernels of the blocks' library.

Every block holds some whole images, and one task per block does the work; composed of one shifted array per position in
the window, like agrad's kernels for any backend, a window of 6 by 6 creates thousands of tasks. Images that are cut are
merged if a block of the operand has room for one. Larger ones stay cut, and the composition works on their parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.array.core import unify_chunks
from dask.array.utils import meta_from_array

from agrad.plugin.backend import OPS, Padding, Pair, backend_of, output_size
from agrad_dask.reductions import added_up
from agrad_dask.special_kernels import on_block
from agrad_numpy.kernels import in_single

_AXES = (0, 1, 2, 3)

#: The axes that are in one chunk: pooling does not mix channels.
_CONVOLVED, _POOLED = (1, 2, 3), (2, 3)

# -- images and blocks ------------------------------------------------------------------------------------------------


def _put_together(x: Any, axes: tuple[int, ...]) -> Any:
    """Return images with the axes in one chunk each, in blocks no larger than before; None if one image is larger."""
    if all(x.numblocks[a] == 1 for a in axes):
        return x
    chunks = dict.fromkeys(axes, -1)
    if x.size > 0:  # neither empty nor unknown (nan)
        room = math.prod(map(max, x.chunks)) // math.prod(x.shape[a] for a in axes)
        if not room:
            return None
        for a in reversed(range(axes[0])):
            chunks[a] = min(max(x.chunks[a]), room)
            room //= chunks[a]
    return x.rechunk(chunks)


def _whole(axes: tuple[int, ...], *images: Any) -> list[Any] | None:
    """Return images with the axes in one chunk each, and equal chunks along the others; None if not possible."""
    made = [_put_together(x, axes) for x in images]
    if any(x is None for x in made):
        return None
    labels = [tuple((i, a) if a in axes else a for a in _AXES) for i in range(len(made))]
    return list(unify_chunks(*itertools.chain.from_iterable(zip(made, labels, strict=True)))[1])


def _block(*blocks: Any, op: str, parameters: tuple[Any, ...]) -> Any:
    """Return the result of a block of images."""
    return on_block(op, *blocks, *parameters)


def _partial(*blocks: Any, op: str, parameters: tuple[Any, ...]) -> Any:
    """Return the part of a block's images in a sum over all, on a new axis."""
    return on_block(op, *blocks, *parameters)[None]


def _by_block(
    op: str,
    images: list[Any],
    filters: tuple[Any, ...],
    parameters: tuple[Any, ...],
    sizes: dict[int, int],
    dtype: Any,
    *,
    function: Callable[..., Any] = _block,
    rank: int = 4,
) -> Any:
    """Run an op on every block of images; `sizes` are the axes of a result block that differ from the images' own.

    Filters are in one chunk, which every block gets. If the result has rank 5, its last axis is new.
    """
    operands = [(x, _AXES) for x in images]
    operands += [(None, None) if w is None else (w.rechunk(-1), _AXES if w.ndim == 4 else (1,)) for w in filters]
    return da.blockwise(
        function,
        tuple(range(rank)),
        *itertools.chain.from_iterable(operands),
        adjust_chunks={a: n for a, n in sizes.items() if a in _AXES},
        new_axes={a: n for a, n in sizes.items() if a not in _AXES},
        align_arrays=False,  # the sizes of an axis in one chunk differ
        token=f"agrad-{op.removeprefix('nn.')}",
        dtype=dtype,
        meta=meta_from_array(images[0]._meta, ndim=rank, dtype=dtype),
        op=op,
        parameters=parameters,
    )


# -- the ops ----------------------------------------------------------------------------------------------------------


class Images(NamedTuple):
    """How an op on images runs by blocks.

    Attributes
    ----------
    whole : tuple of int
        The axes that are in one chunk.
    sizes : callable
        The sizes of a block of the result that differ from the images' own, by axis, from the op's arguments.
    images : int
        How many of the first arguments are images.
    filters : int
        How many of the following are filters, which every block gets whole.
    sums : bool
        The result is a sum over the images.
    inexact : bool
        Not every library's kernel takes integers.
    """

    whole: tuple[int, ...]
    sizes: Callable[..., dict[int, int]]
    images: int = 1
    filters: int = 0
    sums: bool = False
    inexact: bool = False


def _pooled(x: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair = (1, 1)) -> dict[int, int]:
    """Height and width of the result, by axis."""
    return {2 + a: output_size(x.shape[2 + a], window[a], stride[a], padding[a], dilation[a]) for a in (0, 1)}


#: By the op's name.
OPS_ON_IMAGES = {
    "nn.conv2d": Images(
        _CONVOLVED,
        lambda x, w, _, stride, padding, dilation, groups: (
            {1: w.shape[0]} | _pooled(x, w.shape[2:], stride, padding, dilation)
        ),
        filters=2,
    ),
    "nn.conv2d_input": Images(
        _CONVOLVED,
        lambda _, w, size, stride, padding, dilation, groups: {1: w.shape[1] * groups, 2: size[0], 3: size[1]},
        filters=1,
    ),
    "nn.conv2d_weight": Images(
        _CONVOLVED,
        lambda x, grad, window, stride, padding, dilation, groups: dict(
            enumerate((1, grad.shape[1], x.shape[1] // groups, *window))
        ),
        images=2,
        sums=True,
    ),
    "nn.avg_pool2d": Images(_POOLED, lambda x, *how: _pooled(x, *how[:3]), inexact=True),
    "nn.avg_pool2d_adjoint": Images(_POOLED, lambda _, size, *how: dict(zip(_POOLED, size, strict=True))),
    "nn.max_pool2d": Images(_POOLED, _pooled),
    "nn.max_pool2d_adjoint": Images(_POOLED, lambda _, x, *how: {a: x.shape[a] for a in _POOLED}, images=3),
    "nn.max_pool2d_tangent": Images(_POOLED, lambda _, x, best, *how: _pooled(x, *how), images=3),
}


def _kernel(op: str, how: Images) -> Callable[..., Any]:
    def kernel(*given: Any) -> Any:
        bound = OPS[op].signature.bind(*given)
        bound.apply_defaults()
        arguments = bound.args
        operands, parameters = arguments[: how.images + how.filters], arguments[how.images + how.filters :]
        images = _whole(how.whole, *operands[: how.images])
        first = operands[0]
        if images is None or (how.inexact and first.dtype.kind not in "fc"):
            composed = OPS[op].kernel  # agrad's own, on Dask's functions
            assert composed is not None
            return composed(backend_of(first).xp, *arguments)
        dtype = first.dtype if how.whole is _POOLED else np.result_type(*operands[:2])
        sizes = how.sizes(*arguments)
        if not how.sums:
            return _by_block(op, images, operands[how.images :], parameters, sizes, dtype)
        partials = _by_block(op, images, (), parameters, sizes, dtype, function=_partial, rank=5)
        return in_single(added_up)(partials, axis=0).astype(dtype, copy=False)  # sums of small integers grow

    return kernel


IMAGE_KERNELS = {op: _kernel(op, how) for op, how in OPS_ON_IMAGES.items()}
