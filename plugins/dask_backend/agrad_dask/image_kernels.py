"""Kernels of the Dask backend for images: convolution and pooling, by the kernels of the blocks' library.

Every block holds some whole images, and one task per block does the work; composed of one shifted array per place in the
window, as agrad's kernels for any backend are, a window of 6 by 6 makes thousands of tasks. Images that were cut are put
together where a block of the operand has room for one. Larger ones stay cut, and the composition works on their parts.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import unify_chunks
from dask.array.utils import meta_from_array

from agrad.core.backend import backend_of
from agrad.core.op import OPS
from agrad.ops.nn import Padding, Pair, output_size
from agrad_numpy.kernels import in_single

_AXES = (0, 1, 2, 3)

#: The axes that are in one chunk: pooling does not mix channels.
_CONVOLVED, _POOLED = (1, 2, 3), (2, 3)

# -- images and blocks ------------------------------------------------------------------------------------------------


def _put_together(x: Any, axes: tuple[int, ...]) -> Any:
    """Return images with the axes in one chunk each, blocks no larger than before; None where one image is larger."""
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


def _composed(op: str, *arguments: Any) -> Any:
    """Run agrad's own kernel, on Dask's functions."""
    kernel = OPS[op].kernel
    assert kernel is not None
    return kernel(backend_of(arguments[0]).xp, *arguments)


def _block(*blocks: Any, op: str, parameters: tuple[Any, ...]) -> Any:
    """Run the kernel of the backend that the blocks are of."""
    return operator.attrgetter(op)(backend_of(blocks[0]).xp)(*blocks, *parameters)


def _partial(*blocks: Any, op: str, parameters: tuple[Any, ...]) -> Any:
    """What the images of a block have in a sum over all, on a new axis."""
    return _block(*blocks, op=op, parameters=parameters)[None]


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
    """Run an op on every block of images; `sizes` of a block of the result are those that are not the images' own.

    Filters are in one chunk, which every block gets. The last axis of a result of rank 5 is new.
    """
    operands = [(x, _AXES) for x in images]
    operands += [(None, None) if w is None else (w.rechunk(-1), _AXES if w.ndim == 4 else (1,)) for w in filters]
    return da.blockwise(
        function,
        tuple(range(rank)),
        *itertools.chain.from_iterable(operands),
        adjust_chunks={a: n for a, n in sizes.items() if a in _AXES},
        new_axes={a: n for a, n in sizes.items() if a not in _AXES},
        align_arrays=False,  # of an axis in one chunk the sizes differ
        token=f"agrad-{op.removeprefix('nn.')}",
        dtype=dtype,
        meta=meta_from_array(images[0]._meta, ndim=rank, dtype=dtype),
        op=op,
        parameters=parameters,
    )


# -- convolution ------------------------------------------------------------------------------------------------------


def _conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = (1, 1),
    padding: Padding = ((0, 0), (0, 0)),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Any:
    parameters = stride, padding, dilation, groups
    images = _whole(_CONVOLVED, input)
    if images is None:
        return _composed("nn.conv2d", input, weight, bias, *parameters)
    height, width = (
        output_size(input.shape[2 + a], weight.shape[2 + a], stride[a], padding[a], dilation[a]) for a in (0, 1)
    )
    sizes = {1: weight.shape[0], 2: height, 3: width}
    return _by_block("nn.conv2d", images, (weight, bias), parameters, sizes, np.result_type(input, weight))


def _conv2d_input(
    grad: Any, weight: Any, size: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Any:
    parameters = size, stride, padding, dilation, groups
    images = _whole(_CONVOLVED, grad)
    if images is None:
        return _composed("nn.conv2d_input", grad, weight, *parameters)
    sizes = {1: weight.shape[1] * groups, 2: size[0], 3: size[1]}
    return _by_block("nn.conv2d_input", images, (weight,), parameters, sizes, np.result_type(grad, weight))


def _conv2d_weight(
    input: Any, grad: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Any:
    parameters = window, stride, padding, dilation, groups
    images = _whole(_CONVOLVED, input, grad)
    if images is None:
        return _composed("nn.conv2d_weight", input, grad, *parameters)
    sizes = {0: 1, 1: grad.shape[1], 2: input.shape[1] // groups, 3: window[0], 4: window[1]}
    dtype = np.result_type(input, grad)
    partials = _by_block("nn.conv2d_weight", images, (), parameters, sizes, dtype, function=_partial, rank=5)
    return in_single(da.sum)(partials, axis=0).astype(dtype, copy=False)  # sums of small integers have a larger dtype


# -- pooling ----------------------------------------------------------------------------------------------------------


def _pooled(x: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair) -> dict[int, int]:
    """Height and width of the result, by axis."""
    return {2 + a: output_size(x.shape[2 + a], window[a], stride[a], padding[a], dilation[a]) for a in (0, 1)}


def _avg_pool2d(x: Any, window: Pair, stride: Pair, padding: Padding, count_pad: bool, /) -> Any:
    parameters = window, stride, padding, count_pad
    images = _whole(_POOLED, x)
    if images is None or x.dtype.kind not in "fc":  # not every library's kernel gives means of integers
        return _composed("nn.avg_pool2d", x, *parameters)
    return _by_block("nn.avg_pool2d", images, (), parameters, _pooled(x, window, stride, padding, (1, 1)), x.dtype)


def _avg_pool2d_adjoint(grad: Any, size: Pair, window: Pair, stride: Pair, padding: Padding, count_pad: bool, /) -> Any:
    parameters = size, window, stride, padding, count_pad
    images = _whole(_POOLED, grad)
    if images is None:
        return _composed("nn.avg_pool2d_adjoint", grad, *parameters)
    return _by_block("nn.avg_pool2d_adjoint", images, (), parameters, {2: size[0], 3: size[1]}, grad.dtype)


def _max_pool2d(x: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /) -> Any:
    parameters = window, stride, padding, dilation
    images = _whole(_POOLED, x)
    if images is None:
        return _composed("nn.max_pool2d", x, *parameters)
    return _by_block("nn.max_pool2d", images, (), parameters, _pooled(x, *parameters), x.dtype)


def _max_pool2d_adjoint(
    grad: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /
) -> Any:
    parameters = window, stride, padding, dilation
    images = _whole(_POOLED, grad, x, best)
    if images is None:
        return _composed("nn.max_pool2d_adjoint", grad, x, best, *parameters)
    return _by_block("nn.max_pool2d_adjoint", images, (), parameters, {2: x.shape[2], 3: x.shape[3]}, grad.dtype)


def _max_pool2d_tangent(
    tangent: Any, x: Any, best: Any, window: Pair, stride: Pair, padding: Padding, dilation: Pair, /
) -> Any:
    parameters = window, stride, padding, dilation
    images = _whole(_POOLED, tangent, x, best)
    if images is None:
        return _composed("nn.max_pool2d_tangent", tangent, x, best, *parameters)
    return _by_block("nn.max_pool2d_tangent", images, (), parameters, _pooled(x, *parameters), tangent.dtype)


IMAGE_KERNELS: dict[str, Callable[..., Any]] = {
    "nn.avg_pool2d": _avg_pool2d,
    "nn.avg_pool2d_adjoint": _avg_pool2d_adjoint,
    "nn.conv2d": _conv2d,
    "nn.conv2d_input": _conv2d_input,
    "nn.conv2d_weight": _conv2d_weight,
    "nn.max_pool2d": _max_pool2d,
    "nn.max_pool2d_adjoint": _max_pool2d_adjoint,
    "nn.max_pool2d_tangent": _max_pool2d_tangent,
}
