"""Manipulation functions of the standard: all of them linear, each with its adjoint."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agrad.core.declare import linear
from agrad.core.rule import device_of, unbroadcast

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor


@linear(x=lambda xp, g, x_spec: xp.reshape(g, x_spec.shape))
def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one entry may be -1."""


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(axes)
    for i, axis in enumerate(axes):
        inverse[axis] = i
    return tuple(inverse)


@linear(x=lambda xp, g, axes: xp.permute_dims(g, _inverse(axes)))
def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order."""


@linear(x=lambda xp, g: xp.matrix_transpose(g), kernel=lambda xp, x: x.mT)
def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged."""


@linear(x=lambda xp, g, source, destination: xp.moveaxis(g, destination, source))
def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Axes moved to other places."""


@linear(x=lambda xp, g, x_spec: xp.reshape(g, x_spec.shape))
def expand_dims(x: Any, /, *, axis: int | tuple[int, ...] = 0) -> Tensor:
    """A new axis of length 1."""


@linear(x=lambda xp, g, x_spec: xp.reshape(g, x_spec.shape))
def squeeze(x: Any, /, axis: int | tuple[int, ...]) -> Tensor:
    """Axes of length 1 removed."""


@linear(x=lambda xp, g, axis: xp.flip(g, axis=axis))
def flip(x: Any, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements in reverse order along axes, all by default."""


def _negated(shift: int | tuple[int, ...]) -> int | tuple[int, ...]:
    return tuple(-s for s in shift) if isinstance(shift, tuple | list) else -shift


@linear(x=lambda xp, g, shift, axis: xp.roll(g, _negated(shift), axis=axis))
def roll(x: Any, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements shifted along axes; those that fall off come back at the other end."""


@linear(x=lambda xp, g, x_spec: unbroadcast(xp, g, x_spec.shape))
def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Tensor:
    """Repeated along new axes and axes of length 1."""


@linear(x=lambda xp, g, x_spec: unbroadcast(xp, g, x_spec.shape))
def broadcast_like(x: Any, spec: Any, /) -> Tensor:
    """`broadcast_to` the shape of a spec, in its layout (a lazy backend takes over the chunks)."""


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    Raises
    ------
    ValueError
        If they do not broadcast.
    """
    result: list[int] = []
    for shape in shapes:
        result = [1] * (len(shape) - len(result)) + result
        for i in range(1, len(shape) + 1):
            n, m = operator.index(shape[-i]), result[-i]
            if n != m and 1 not in (n, m):
                message = f"shapes {', '.join(map(str, shapes))} cannot be broadcast together"
                raise ValueError(message)
            result[-i] = m if n == 1 else n
    return tuple(result)


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Each operand broadcast to their common shape."""
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return tuple(broadcast_to(a, shape) for a in arrays)


def _pieces(xp: Any, g: Any, arrays_spec: Sequence[Any], axis: int | None) -> list[Any]:
    """The part of a cotangent that belongs to each member of a concatenation."""
    parts, start = [], 0
    if axis is None:
        for spec in arrays_spec:
            parts.append(xp.reshape(g[start : start + spec.size], spec.shape))
            start += spec.size
        return parts
    axis = axis % g.ndim
    for spec in arrays_spec:
        stop = start + spec.shape[axis]
        parts.append(g[(slice(None),) * axis + (slice(start, stop), ...)])
        start = stop
    return parts


@linear(sequence="arrays", arrays=_pieces)
def concat(arrays: tuple[Any, ...] | list[Any], /, *, axis: int | None = 0) -> Tensor:
    """Joined along an axis; flattened first if `axis` is None."""


@linear(sequence="arrays", arrays=lambda xp, g, axis: xp.unstack(g, axis=axis))
def stack(arrays: tuple[Any, ...] | list[Any], /, *, axis: int = 0) -> Tensor:
    """Joined along a new axis."""


def _restack(xp: Any, g: tuple[Any, ...], axis: int) -> Any:
    like = next(part for part in g if part is not None)
    return xp.stack([xp.zeros_like(like) if part is None else part for part in g], axis=axis)


def _unstack_kernel(xp: Any, x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    moved = xp.moveaxis(x, axis, 0)
    return tuple(moved[i, ...] for i in range(moved.shape[0]))


@linear(outputs=0, x=_restack, kernel=_unstack_kernel)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, as a tuple."""


def _repeat_adjoint(xp: Any, g: Any, x_spec: Any, repeats: Any, axis: int | None) -> Any:
    shape = x_spec.shape
    if isinstance(repeats, int):
        if axis is None:
            return xp.reshape(xp.sum(xp.reshape(g, (x_spec.size, repeats)), axis=1), shape)
        axis = axis % len(shape)
        return xp.sum(xp.reshape(g, (*shape[: axis + 1], repeats, *shape[axis + 1 :])), axis=axis + 1)
    if not shape:
        return xp.sum(g)
    n = x_spec.size if axis is None else shape[axis]
    sources = xp.repeat(xp.arange(n, device=device_of(g)), xp.broadcast_to(repeats, (n,)))
    key = unravel(sources, shape) if axis is None else (slice(None),) * (axis % len(shape)) + (sources,)
    return xp.scatter_add(x_spec, key, g)


def unravel(places: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Places in row-major order as an index per axis."""
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return tuple((places // stride) % size for stride, size in zip(strides, shape, strict=True))


@linear(index=("repeats",), x=_repeat_adjoint)
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element repeated, a number of times or a number of times each."""


def _tile_adjoint(xp: Any, g: Any, x_spec: Any, repetitions: tuple[int, ...]) -> Any:
    repetitions = (repetitions,) if isinstance(repetitions, int) else repetitions
    rank = max(len(x_spec.shape), len(repetitions))
    shape = (1,) * (rank - len(x_spec.shape)) + tuple(x_spec.shape)
    counts = (1,) * (rank - len(repetitions)) + tuple(repetitions)
    split = tuple(k for pair in zip(counts, shape, strict=True) for k in pair)
    return xp.reshape(xp.sum(xp.reshape(g, split), axis=tuple(range(0, 2 * rank, 2))), x_spec.shape)


@linear(x=_tile_adjoint)
def tile(x: Any, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole repeated along each axis."""


@linear(x=lambda xp, g, k: xp.tril(g, k=k))
def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """The part of matrices on and below a diagonal."""


@linear(x=lambda xp, g, k: xp.triu(g, k=k))
def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """The part of matrices on and above a diagonal."""
