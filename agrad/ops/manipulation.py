"""Manipulation functions of the standard: all are linear, each with its adjoint."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agrad.core.cotangents import beside, unbroadcast
from agrad.core.declare import linear, primitive
from agrad.core.facts import Facts
from agrad.core.operands import as_operands
from agrad.ops.batch_rules import BatchedCall, dynamic, matrices, place, places
from agrad.ops.docs import complete

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "broadcast_arrays", "broadcast_like", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip",
    "matrix_transpose", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tile", "tril",
    "triu", "unstack",
]  # fmt: skip


def _reshape_batch(b: BatchedCall, x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(map(operator.index, shape))
    known = math.prod(n for n in shape if n != -1)
    size = math.prod(x.shape)
    if -1 in shape:
        if shape.count(-1) > 1 or not known or size % known:
            raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
        shape = tuple(size // known if n == -1 else n for n in shape)
    elif known != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
    return b.kernel(b.data(x), (b.size, *shape)) if copy is None else b.kernel(b.data(x), (b.size, *shape), copy=copy)


@linear(
    memory="view",
    x=lambda xp, g, x_spec: xp.reshape(g, x_spec.shape),
    batch=_reshape_batch,
    facts=Facts(sparsity="moves", missing=True, in_order=True),
)
def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape.

    shape: The shape, with the same number of elements. One entry may be -1, which is inferred.
    copy : bool, optional
        True copies the memory, False raises if a copy is needed. Results never alias `x` either way.
    Returns: Of the shape and the dtype of `x`; elements in row-major order.
    ValueError: If the numbers of elements differ.
    Derivative: linear; the cotangent is reshaped back.

    >>> x = ag.tensor([1.0, 2.0, 3.0, 4.0])
    >>> ag.reshape(x, (2, -1))
    tensor([[1., 2.],
            [3., 4.]])
    """


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(axes)
    for i, axis in enumerate(axes):
        inverse[axis] = i
    return tuple(inverse)


def _permute_dims_batch(b: BatchedCall, x: Any, /, axes: Sequence[int]) -> Any:
    if len(axes) != x.ndim:
        raise ValueError(f"axes {tuple(axes)} do not match an array of {x.ndim} axes")
    return b.kernel(b.data(x), (0, *places(tuple(axes), x.ndim)))


@linear(
    memory="view",
    x=lambda xp, g, axes: xp.permute_dims(g, _inverse(axes)),
    batch=_permute_dims_batch,
    facts=Facts(sparsity="moves", missing=True),
)
def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order.

    axes : tuple of int
        For each axis of the result, its number in `x`.
    Returns: Of the dtype of `x`, its axes permuted.
    ValueError: If `axes` is not a permutation of the axes of `x`.
    Derivative: linear; the cotangent's axes are permuted back.

    >>> ag.permute_dims(ag.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """


@linear(
    memory="view",
    x=lambda xp, g: xp.matrix_transpose(g),
    kernel=lambda xp, x: x.mT,
    batch=matrices,
    facts=Facts(sparsity="moves", missing=True),
)
def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged.

    x: Any dtype, at least 2 axes: matrices.
    Returns: Of the dtype of `x`; shape (..., n, m) for (..., m, n).
    ValueError: If `x` has fewer than 2 axes.
    Derivative: linear; the cotangent is transposed. A complex `x` is not conjugated: see `Tensor.H`.
    Source: array API 2025.12, linear algebra functions.

    >>> ag.matrix_transpose(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 3.],
            [2., 4.]])
    """


def _moveaxis_batch(b: BatchedCall, x: Any, source: Any, destination: Any, /) -> Any:
    return b.kernel(b.data(x), places(source, x.ndim), places(destination, x.ndim))


@linear(
    memory="view",
    x=lambda xp, g, source, destination: xp.moveaxis(g, destination, source),
    batch=_moveaxis_batch,
    facts=Facts(sparsity="moves", missing=True),
)
def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Move axes to other positions; the others keep their order.

    source : int or tuple of int
        The axes to move.
    destination : int or tuple of int
        For each, its position in the result.
    Returns: Of the dtype of `x`, its axes permuted.
    Derivative: linear; the cotangent's axes are moved back.

    >>> ag.moveaxis(ag.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """


def _expand_dims_batch(b: BatchedCall, x: Any, /, axis: Any) -> Any:
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    found = places(tuple(axes), x.ndim + len(axes))
    return b.kernel(b.data(x), axis=found if isinstance(axis, tuple | list) else found[0])


@linear(
    memory="view",
    x=lambda xp, g, x_spec: xp.reshape(g, x_spec.shape),
    batch=_expand_dims_batch,
    facts=Facts(sparsity="moves", missing=True),
)
def expand_dims(x: Any, /, axis: int | tuple[int, ...]) -> Tensor:
    """Insert axes of length 1.

    x: Any dtype, any shape.
    axis : int or tuple of int
        Their positions in the result.
    Returns: Of the dtype of `x`, with the new axes.
    IndexError: If a position is out of range; or the backend's `ValueError`.
    Derivative: linear; the cotangent is reshaped back.
    Source: array API 2025.12, manipulation functions.

    >>> ag.expand_dims(ag.tensor([1.0, 2.0]), axis=1)
    tensor([[1.],
            [2.]])
    """


def _squeeze_batch(b: BatchedCall, x: Any, /, axis: Any) -> Any:
    return b.kernel(b.data(x), axis=places(axis, x.ndim))


@linear(
    memory="view",
    x=lambda xp, g, x_spec: xp.reshape(g, x_spec.shape),
    batch=_squeeze_batch,
    facts=Facts(sparsity="moves", missing=True),
)
def squeeze(x: Any, /, axis: int | tuple[int, ...]) -> Tensor:
    """Axes of length 1 removed.

    axis : int or tuple of int
        The axes, each of length 1.
    Returns: Of the dtype of `x`, without these axes.
    ValueError: If one of them is longer than 1.
    Derivative: linear; the cotangent is reshaped back.

    >>> ag.squeeze(ag.zeros((2, 1, 3)), 1).shape
    (2, 3)
    """


def _flip_batch(b: BatchedCall, x: Any, /, *, axis: Any = None) -> Any:
    return b.kernel(b.data(x), axis=places(axis, x.ndim))


@linear(
    x=lambda xp, g, axis: xp.flip(g, axis=axis),
    batch=_flip_batch,
    memory="lent",
    facts=Facts(sparsity="moves", missing=True),
)
def flip(x: Any, /, axis: int | tuple[int, ...] | None = None, *, dims: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements in reverse order along axes.

    axis : int or tuple of int, optional
        The axes. Default: all.
    Returns: Of the shape and dtype of `x`.
    Derivative: linear; the cotangent is flipped.

    >>> x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> ag.flip(x).detach(), ag.grad(ag.flip(x), x, ag.tensor([10.0, 20.0, 30.0]))[0]
    (tensor([3., 2., 1.]), tensor([30., 20., 10.]))
    """


def _negated(shift: int | tuple[int, ...]) -> int | tuple[int, ...]:
    return tuple(-s for s in shift) if isinstance(shift, tuple | list) else -shift


def _roll_batch(b: BatchedCall, x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    data = b.data(x)
    if axis is None:
        return b.xp.reshape(b.kernel(b.flat(data), shift, axis=1), data.shape)
    found = places(axis, x.ndim)
    return b.kernel(data, shift, axis=found if isinstance(axis, tuple | list) else found[0])


@linear(
    x=lambda xp, g, shift, axis: xp.roll(g, _negated(shift), axis=axis),
    batch=_roll_batch,
    memory="fresh",
    facts=Facts(sparsity="moves", missing=True),
)
def roll(
    x: Any,
    /,
    shift: int | tuple[int, ...],
    axis: int | tuple[int, ...] | None = None,
    *,
    dims: int | tuple[int, ...] | None = None,
) -> Tensor:
    """Shift the elements along axes; those shifted out return at the other end.

    shift : int or tuple of int
        The number of positions, forward if positive. A tuple has one per axis.
    axis : int or tuple of int, optional
        The axes. Default: the flattened elements, reshaped to the shape of `x` again.
    Returns: Of the shape and dtype of `x`.
    Derivative: linear; the cotangent is shifted back.

    >>> x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> ag.roll(x, 1).detach(), ag.grad(ag.roll(x, 1), x, ag.tensor([10.0, 20.0, 30.0]))[0]
    (tensor([3., 1., 2.]), tensor([20., 30., 10.]))
    """


def _broadcast_to_batch(b: BatchedCall, x: Any, /, shape: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if x.ndim > len(shape):
        raise ValueError(f"shape {x.shape} cannot be broadcast to {shape}")
    return b.xp.broadcast_to(b.data(x, len(shape)), (b.size, *shape))


@linear(
    x=lambda xp, g, x_spec: unbroadcast(xp, g, x_spec.shape),
    batch=_broadcast_to_batch,
    memory="lent",
    facts=Facts(sparsity="moves", missing=True),
)
def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Tensor:
    """Repeated along new leading axes and along axes of length 1.

    shape: The shape, which `x` must broadcast to.
    Returns: Of the shape and the dtype of `x`.
    ValueError: If `x` does not broadcast to the shape.
    Derivative: linear; the cotangent is summed over the repeated axes.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> y = ag.broadcast_to(x, (3, 2))
    >>> y.shape
    (3, 2)
    >>> ag.grad(y.sum(), x)[0]
    tensor([3., 3.])
    """


def _broadcast_like_batch(b: BatchedCall, x: Any, spec: Any, /) -> Any:
    return _broadcast_to_batch(b, x, spec.shape)


@linear(
    x=lambda xp, g, x_spec: unbroadcast(xp, g, x_spec.shape),
    batch=_broadcast_like_batch,
    memory="lent",
    facts=Facts(sparsity="moves", missing=True),
)
def broadcast_like(x: Any, spec: Any, /) -> Tensor:
    """`broadcast_to` the shape of a spec, with its layout: a lazy backend takes over the chunks.

    spec : Spec
        As a derivative gets it under the name ``<operand>_spec``.
    Returns: Of the spec's shape and the dtype of `x`.
    Derivative: linear; the cotangent is summed over the repeated axes.
    Not in the standard: derivatives spread cotangents by it.
    Source: agrad's own; a backend implements it in addition to the standard.

    >>> @ag.linear(x=lambda xp, g, x_spec: xp.broadcast_like(g, x_spec), kernel=lambda xp, x: xp.sum(x))
    ... def total(x, /):
    ...     "The sum of all elements."
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.grad(total(x), x)[0]
    tensor([1., 1.])
    """


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    *shapes : tuple of int
        The shapes; without any, the result is ``()``.
    Returns : tuple of int
        The common shape.
    ValueError: If they do not broadcast.
    Source: array API 2025.12, manipulation functions.

    >>> ag.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    result: list[int] = []
    for shape in shapes:
        result = [1] * (len(shape) - len(result)) + result
        for i in range(1, len(shape) + 1):
            n, m = operator.index(shape[-i]), result[-i]
            if n != m and 1 not in (n, m):
                raise ValueError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast together")
            result[-i] = m if n == 1 else n
    return tuple(result)


@primitive("broadcast_arrays", facts=Facts(sparsity="moves"))
def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Each operand broadcast to their common shape.

    *arrays : Tensor, array or number
        Any dtypes, which are not changed; shapes that broadcast.
    Returns: One per operand.
    ValueError: If they do not broadcast.
    Derivative: as of `broadcast_to`.

    >>> a, b = ag.broadcast_arrays(ag.tensor([[1.0], [2.0]]), ag.tensor([3, 4, 5]))
    >>> a
    tensor([[1., 1., 1.],
            [2., 2., 2.]])
    >>> b.shape
    (2, 3)
    """
    arrays = as_operands(*arrays)
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return tuple(broadcast_to(a, shape) for a in arrays)


def _pieces(xp: Any, g: Any, arrays_spec: Sequence[Any], axis: int | None) -> list[Any]:
    """Return the part of a cotangent that belongs to each member of a concatenation."""
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


def _concat_batch(b: BatchedCall, arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    if axis is None:
        return b.kernel([b.flat(b.data(x)) for x in arrays], axis=1)
    return b.kernel([b.data(x) for x in arrays], axis=place(axis, _rank_of(arrays)))


def _rank_of(arrays: Sequence[Any]) -> int:
    ranks = {x.ndim for x in arrays}
    if len(ranks) != 1:
        raise ValueError(f"all arrays must have the same number of axes, got {sorted(ranks)}")
    return int(ranks.pop())


@linear(
    sequence="arrays", arrays=_pieces, batch=_concat_batch, memory="fresh", facts=Facts(sparsity="moves", missing=True)
)
def concat(arrays: tuple[Any, ...] | list[Any], /, axis: int | None = 0, *, dim: int | None = None) -> Tensor:
    """Joined along an axis they have.

    arrays: At least one; of one shape except along the axis. Dtypes promote.
    axis : int or None, optional
        The axis. None joins them as rows, whatever their shapes. Default: 0.
    Returns: Of the promoted dtype; the lengths along the axis add up.
    ValueError: If there is none, or shapes differ.
    Derivative: linear in all jointly; each gets its part of the cotangent.

    >>> a, b = ag.tensor([1.0], requires_grad=True), ag.tensor([2.0, 3.0], requires_grad=True)
    >>> ag.concat([a, b]).detach(), ag.grad(ag.concat([a, b]), (a, b), ag.tensor([10.0, 20.0, 30.0]))
    (tensor([1., 2., 3.]), (tensor([10.]), tensor([20., 30.])))
    """


def _stack_batch(b: BatchedCall, arrays: Sequence[Any], /, *, axis: int = 0) -> Any:
    return b.kernel([b.data(x) for x in arrays], axis=place(axis, _rank_of(arrays) + 1))


@linear(
    sequence="arrays",
    arrays=lambda xp, g, axis: xp.unstack(g, axis=axis),
    batch=_stack_batch,
    memory="fresh",
    facts=Facts(sparsity="moves", missing=True),
)
def stack(arrays: tuple[Any, ...] | list[Any], /, axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Joined along a new axis.

    arrays: At least one, of one shape. Dtypes promote.
    axis: The position of the new axis in the result. Default: the first.
    Returns: Of the promoted dtype, with an additional axis.
    ValueError: If there is none, or shapes differ.
    Derivative: linear in all jointly; each gets its slice of the cotangent.

    >>> ag.stack([ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0])], axis=1)
    tensor([[1., 3.],
            [2., 4.]])
    """


def _restack(xp: Any, g: tuple[Any, ...], axis: int) -> Any:
    like = next(part for part in g if part is not None)
    return xp.stack([xp.zeros_like(like) if part is None else part for part in g], axis=axis)


def _unstack_kernel(xp: Any, x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    moved = xp.moveaxis(x, axis, 0)
    return tuple(moved[i, ...] for i in range(moved.shape[0]))


def _unstack_batch(b: BatchedCall, x: Any, /, *, axis: int = 0) -> Any:
    return b.kernel(b.data(x), axis=place(axis, x.ndim))


@linear(
    memory="view",
    outputs=0,
    x=_restack,
    kernel=_unstack_kernel,
    batch=_unstack_batch,
    least_axes=1,
    facts=Facts(sparsity="moves", missing=True),
)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis.

    x: Any dtype, at least 1 axis.
    axis: The axis. Default: the first.
    Returns: The slices, of the dtype of `x`, without the axis.
    Derivative: linear; the cotangents are stacked, 0 for slices that are not used.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> top, bottom = ag.unstack(x)
    >>> ag.grad(bottom.sum(), x)[0]
    tensor([[0., 0.],
            [1., 1.]])
    """


def _repeat_adjoint(xp: Any, g: Any, x_spec: Any, repeats: Any, axis: int | None) -> Any:
    shape = x_spec.shape
    if not shape:  # libraries accept an axis of a 0-d array, too
        return xp.sum(g)
    if isinstance(repeats, int):
        if axis is None:
            return xp.reshape(xp.sum(xp.reshape(g, (x_spec.size, repeats)), axis=1), shape)
        axis = axis % len(shape)
        return xp.sum(xp.reshape(g, (*shape[: axis + 1], repeats, *shape[axis + 1 :])), axis=axis + 1)
    n = x_spec.size if axis is None else shape[axis]
    sources = xp.repeat(xp.arange(n, **beside(g)), xp.broadcast_to(repeats, (n,)))
    key = unravel(sources, shape) if axis is None else (*(slice(None),) * (axis % len(shape)), sources, ...)
    return xp.scatter_add(x_spec, key, g)


def unravel(places: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return positions in row-major order as an index per axis."""
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return tuple((places // stride) % size for stride, size in zip(strides, shape, strict=True))


def _repeat_batch(b: BatchedCall, x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    if b.has(repeats):
        return dynamic(b)
    data = b.data(x)
    if axis is None:
        return b.kernel(b.flat(data), repeats, axis=1)
    return b.kernel(data, repeats, axis=place(axis, x.ndim))


@linear(
    index=("repeats",),
    x=_repeat_adjoint,
    batch=_repeat_batch,
    memory="fresh",
    facts=Facts(dynamic="repeats", sparsity="moves"),
)
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element repeated.

    repeats : int, Tensor or array
        The numbers of copies: one number, or an integer vector with one for each position along the axis.
    axis: The axis. Default: the elements as one row.
    Returns: Of the dtype of `x`.
    Derivative: linear; each element gets the sum of the cotangents of its copies.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.repeat(x, ag.tensor([1, 3])).detach(), ag.grad(ag.repeat(x, ag.tensor([1, 3])).sum(), x)[0]
    (tensor([1., 2., 2., 2.]), tensor([1., 3.]))
    """


def _tile_adjoint(xp: Any, g: Any, x_spec: Any, repetitions: tuple[int, ...]) -> Any:
    repetitions = (repetitions,) if isinstance(repetitions, int) else repetitions
    rank = max(len(x_spec.shape), len(repetitions))
    shape = (1,) * (rank - len(x_spec.shape)) + tuple(x_spec.shape)
    counts = (1,) * (rank - len(repetitions)) + tuple(repetitions)
    split = tuple(k for pair in zip(counts, shape, strict=True) for k in pair)
    return xp.reshape(xp.sum(xp.reshape(g, split), axis=tuple(range(0, 2 * rank, 2))), x_spec.shape)


def _tile_batch(b: BatchedCall, x: Any, repetitions: Sequence[int], /) -> Any:
    repetitions = (repetitions,) if isinstance(repetitions, int) else tuple(repetitions)
    rank = max(len(repetitions), x.ndim)
    return b.kernel(b.data(x, rank), (*(1,) * (rank - len(repetitions) + 1), *repetitions))


@linear(x=_tile_adjoint, batch=_tile_batch, memory="fresh", facts=Facts(sparsity="moves"))
def tile(x: Any, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole repeated along each axis.

    repetitions : tuple of int
        The number of copies along each axis, from the last; the shorter of it and the shape is extended by 1 in front.
    Returns: Of the dtype of `x`.
    Derivative: linear; each element gets the sum of the cotangents of its copies.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.tile(x, (2,)).detach(), ag.grad(ag.tile(x, (2,)).sum(), x)[0]
    (tensor([1., 2., 1., 2.]), tensor([2., 2.]))
    """


@linear(x=lambda xp, g, k: xp.tril(g, k=k), batch=matrices, least_axes=2, memory="fresh", facts=Facts(sparsity="moves"))
def tril(x: Any, /, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """The part of matrices on and below a diagonal, 0 elsewhere.

    x: Any dtype, at least 2 axes: matrices.
    Returns: Of the shape and dtype of `x`.
    Derivative: linear; the same part of the cotangent.
    Source: array API 2025.12, creation functions.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = ag.tril(x)
    >>> y.detach()
    tensor([[1., 0.],
            [3., 4.]])
    >>> ag.grad(y.sum(), x)[0]
    tensor([[1., 0.],
            [1., 1.]])
    """


@linear(x=lambda xp, g, k: xp.triu(g, k=k), batch=matrices, least_axes=2, memory="fresh", facts=Facts(sparsity="moves"))
def triu(x: Any, /, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """The part of matrices on and above a diagonal, 0 elsewhere.

    x: Any dtype, at least 2 axes: matrices.
    Returns: Of the shape and dtype of `x`.
    Derivative: linear; the same part of the cotangent.
    Source: array API 2025.12, creation functions.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = ag.triu(x)
    >>> y.detach()
    tensor([[1., 2.],
            [0., 4.]])
    >>> ag.grad(y.sum(), x)[0]
    tensor([[1., 1.],
            [0., 1.]])
    """


complete(
    globals(),
    {
        "arrays": "tuple or list of Tensor or array",
        "axis": "int, optional",
        "k": "int, optional\n    The diagonal: 0 the main one, positive above it, negative below.",
        "shape": "tuple of int",
        "x": "Tensor or array\n    Any dtype, any shape.",
    },
    source="Source: array API 2025.12, manipulation functions.",
)
