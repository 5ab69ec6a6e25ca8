"""Functions that rearrange elements: axes, diagonals, padding."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from agrad.core.cotangents import beside
from agrad.core.declare import linear
from agrad.core.entry import instead
from agrad.core.errors import called
from agrad.core.operands import as_operand, as_operands
from agrad.core.tensor import Tensor
from agrad.ops import nn
from agrad.ops.batch_rules import BatchedCall, place
from agrad.ops.creation import asarray, zeros
from agrad.ops.data_type import astype
from agrad.ops.elementwise import positive
from agrad.ops.extra.common import along, checked_axis
from agrad.ops.manipulation import broadcast_to, concat, expand_dims, flip, moveaxis, permute_dims, reshape
from agrad.ops.searching import getitem, setitem

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "diag", "diag_embed", "diagflat", "fill_diagonal", "flatten", "pad",
    "ravel", "rot90", "swapaxes", "unflatten",
]  # fmt: skip

# -- axes -------------------------------------------------------------------------------------------------------------


def swapaxes(x: Any, axis1: int, axis2: int, /) -> Tensor:
    """Two axes exchanged.

    x: Any shape.
    axis1, axis2 : int
        The axes.
    Returns: The same elements.
    IndexError: If there is no such axis.
    As ``numpy.swapaxes``. Linear.

    >>> ag.extra.swapaxes(ag.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_operand(x)
    axes = list(range(x.ndim))
    i, j = checked_axis("swapaxes", axis1, x.ndim), checked_axis("swapaxes", axis2, x.ndim)
    axes[i], axes[j] = axes[j], axes[i]
    return permute_dims(x, tuple(axes))


def rot90(x: Any, /, *, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Rotated by quarter turns in the plane of two axes, from the first towards the second.

    x: At least two axes.
    k: Number of quarter turns; negative ones turn the other way.
    axes : tuple of int, optional
        The plane.
    Returns: The same elements.
    ValueError: If the axes are not two different ones.
    As ``numpy.rot90``. Linear.

    >>> ag.extra.rot90(ag.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    x = as_operand(x)
    if len(axes) != 2:
        raise ValueError(f"rot90(): expected total rotation dims == 2, but got dims = {len(axes)}{called()}")
    first, second = (checked_axis("rot90", a, x.ndim) for a in axes)
    if first == second:
        raise ValueError(f"rot90(): the two axes must be different, but got {axes}{called()}")
    turns = k % 4
    if turns == 0:
        return positive(x)
    if turns == 2:
        return flip(x, axis=(first, second))
    if turns == 1:
        return swapaxes(flip(x, axis=second), first, second)
    return flip(swapaxes(x, first, second), axis=second)


def ravel(x: Any, /) -> Tensor:
    """All elements along one axis, in row-major order.

    x: Any shape.
    Returns: One axis.
    As ``numpy.ravel``. Linear.

    >>> ag.extra.ravel(ag.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshape(as_operand(x), (-1,))


def flatten(x: Any, /, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge axes from one to another.

    x: Any shape; a 0-d operand gets an axis of length 1.
    start_dim, end_dim : int, optional
        The first and the last axis to merge.
    Returns: The same elements in the same order.
    RuntimeError: If the first axis comes after the last.
    As ``torch.flatten``. Linear.

    >>> ag.extra.flatten(ag.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    x = as_operand(x)
    rank = max(x.ndim, 1)
    start, end = checked_axis("flatten", start_dim, rank), checked_axis("flatten", end_dim, rank)
    if start > end:
        raise RuntimeError(f"flatten() has invalid args: start_dim cannot come after end_dim{called()}")
    shape = x.shape or (1,)
    return reshape(x, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def unflatten(x: Any, axis: int, sizes: Sequence[int], /) -> Tensor:
    """Split one axis into several.

    x: At least one axis.
    axis : int
        The axis to split.
    sizes : sequence of int
        Its new lengths; one may be -1.
    Returns: The same elements in the same order.
    RuntimeError: If the sizes do not multiply to the length of the axis.
    As ``torch.unflatten``. Linear.

    >>> ag.extra.unflatten(ag.zeros((2, 12)), 1, (3, -1)).shape
    (2, 3, 4)
    """
    x = as_operand(x)
    axis = checked_axis("unflatten", axis, x.ndim)
    n, sizes = x.shape[axis], tuple(map(operator.index, sizes))
    known = math.prod(s for s in sizes if s != -1)
    if sizes.count(-1) > 1 or (known != n if -1 not in sizes else not known or n % known):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({n}) in the input "
            f"tensor{called()}"
        )
    sizes = tuple(n // known if s == -1 else s for s in sizes)
    return reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


def _each(arrays: tuple[Any, ...], widened: Any) -> Any:
    made = tuple(widened(x) for x in as_operands(*arrays))
    return made[0] if len(made) == 1 else made


def atleast_1d(*arrays: Any) -> Tensor | tuple[Tensor, ...]:
    """Operands with at least one axis.

    *arrays : Tensor
        The operands.
    Returns: A tuple for several operands. A 0-d operand becomes a vector of one element; others are returned
        themselves.
    As ``numpy.atleast_1d``. Linear.

    >>> ag.extra.atleast_1d(2.0)
    tensor([2.])
    """
    found: Tensor | tuple[Tensor, ...] = _each(arrays, lambda x: x if x.ndim else reshape(x, (1,)))
    return found


def atleast_2d(*arrays: Any) -> Tensor | tuple[Tensor, ...]:
    """Operands with at least two axes; new ones are put in front.

    *arrays : Tensor
        The operands.
    Returns: A tuple for several operands. An operand with as many axes is returned unchanged. As ``numpy.atleast_2d``.
    Linear.

    >>> ag.extra.atleast_2d(ag.tensor([1, 2]))
    tensor([[1, 2]])
    """
    found: Tensor | tuple[Tensor, ...] = _each(
        arrays, lambda x: x if x.ndim > 1 else reshape(x, (1, *(x.shape or (1,))))
    )
    return found


def atleast_3d(*arrays: Any) -> Tensor | tuple[Tensor, ...]:
    """Operands with at least three axes: a vector of n becomes (1, n, 1), a matrix (m, n) becomes (m, n, 1).

    *arrays : Tensor
        The operands.
    Returns: A tuple for several operands. An operand with as many axes is returned unchanged. As ``numpy.atleast_3d``.
    Linear.

    >>> ag.extra.atleast_3d(ag.tensor([1, 2])).shape
    (1, 2, 1)
    """

    def widened(x: Tensor) -> Tensor:
        if x.ndim > 2:
            return x
        return reshape(x, (1, *(x.shape or (1,)), 1) if x.ndim < 2 else (*x.shape, 1))

    found: Tensor | tuple[Tensor, ...] = _each(arrays, widened)
    return found


# -- diagonals --------------------------------------------------------------------------------------------------------


def _diagonal(x: Tensor, k: int) -> Tensor:
    """Return a diagonal of a matrix: every (n + 1)-th element of its square part, row by row."""
    rows, columns = x.shape
    size = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    first, left = (max(-k, 0), max(k, 0)) if size else (0, 0)
    part = getitem(x, (slice(first, first + size), slice(left, left + size)))
    return getitem(reshape(part, (size * size,)), (slice(None, None, size + 1),))


def diag_embed(x: Any, /, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Matrices with the last axis as a diagonal, and zeros elsewhere.

    x: At least one axis.
    offset : int, optional
        Which diagonal: above (positive) or below the main one.
    axis1, axis2 : int, optional
        The positions of the axes of the matrices in the result.
    Returns: One axis more than `x`.
    RuntimeError: If the two axes are the same.
    As ``torch.diag_embed``. Linear.

    >>> ag.extra.diag_embed(ag.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    x = as_operand(x)
    if not x.ndim:
        raise ValueError(f"diag_embed() takes an operand of at least one axis{called()}")
    first, second = (checked_axis("diag_embed", a, x.ndim + 1) for a in (axis1, axis2))
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {axis1}, {axis2}{called()}")
    lead, m = x.shape[:-1], x.shape[-1]
    n = m + abs(offset)

    def nothing(*shape: int) -> Tensor:
        return zeros((*lead, *shape), dtype=x.dtype, device=x.device)

    # row after row, an element is n + 1 places from the next one: n zeros follow each
    start = offset if offset >= 0 else -offset * n
    spaced = reshape(concat([expand_dims(x, axis=-1), nothing(m, n)], axis=-1), (*lead, m * (n + 1)))
    rest = n * n - start - m * (n + 1)
    flat = concat([nothing(start), spaced, nothing(max(rest, 0))], axis=-1) if start or rest > 0 else spaced
    made = reshape(getitem(flat, (..., slice(0, n * n))) if rest < 0 else flat, (*lead, n, n))
    return moveaxis(made, (-2, -1), (first, second))


def diag(x: Any, /, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector as diagonal.

    x: A matrix or a vector.
    k: Which diagonal: above (positive) or below the main one.
    diagonal : int, optional
        PyTorch's name of `k`.
    Returns: A vector for a matrix, a matrix for a vector.
    RuntimeError: If `x` has neither one nor two axes.
    As ``numpy.diag``. Linear. For stacks of matrices see `diag_embed` and ``agrad.linalg.diagonal``.

    >>> ag.extra.diag(ag.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    >>> ag.extra.diag(ag.tensor([1, 2]), k=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    x = as_operand(x)
    if x.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {x.ndim}D{called()}")
    k = k if diagonal is None else instead("diag", "k", k, 0, "diagonal", diagonal)
    return diag_embed(x, k) if x.ndim == 1 else _diagonal(x, k)


def diagflat(x: Any, /, *, k: int = 0) -> Tensor:
    """Return a matrix with all elements of an operand as its diagonal.

    x: Any shape; it is flattened.
    k: Which diagonal.
    Returns: A matrix.
    As ``numpy.diagflat``. Linear.

    >>> ag.extra.diagflat(ag.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(ravel(x), k)


def fill_diagonal(x: Any, value: Any, /) -> Tensor:
    """A copy with the main diagonal set.

    x: A matrix, or an operand with more axes of one length, whose diagonal holds the elements with equal indices.
    value : Tensor or scalar
        A number, or a vector as long as the diagonal.
    Returns: Of the shape and dtype of `x`.
    ValueError: If `x` has fewer than two axes, or more than two of different lengths.
    As ``numpy.fill_diagonal``, but returns a copy. Linear: the diagonal of `x` gets the gradient 0, the rest goes to
    `value`.

    >>> ag.extra.fill_diagonal(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), 0.0)
    tensor([[0., 2.],
            [3., 0.]])
    """
    x = as_operand(x)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ValueError(
            f"fill_diagonal() takes a matrix, or more axes of one length, not a tensor of shape {x.shape}{called()}"
        )
    size = min(x.shape)
    step = sum(math.prod(x.shape[i + 1 :]) for i in range(x.ndim))
    if not size:
        return positive(x)
    value = astype(as_operand(value, x), x.dtype, copy=False)
    places = slice(0, (size - 1) * step + 1, step)
    return reshape(setitem(ravel(x), places, broadcast_to(value, (size,))), x.shape)


# -- padding ----------------------------------------------------------------------------------------------------------


def _widths(pad_width: Any, rank: int) -> tuple[tuple[int, int], ...]:
    """Return ``(before, after)`` for every axis, from the forms that NumPy accepts: a number, a pair, one of them per axis, or a mapping."""
    if isinstance(pad_width, dict):
        table = {checked_axis("pad", axis, rank): width for axis, width in pad_width.items()}
        rows = [table.get(i, 0) for i in range(rank)]
    elif isinstance(pad_width, int):
        rows = [pad_width] * rank
    else:
        given = list(pad_width)
        flat = all(isinstance(w, int) for w in given)
        rows = [given] * rank if flat and len(given) <= 2 else given * rank if len(given) == 1 else given
    pairs = []
    for row in rows:
        pair = (row, row) if isinstance(row, int) else tuple(row) * (2 if len(row) == 1 else 1)
        if len(pair) != 2 or len(rows) != rank:
            raise ValueError(f"pad(): widths {pad_width!r} do not fit a tensor of {rank} axes{called()}")
        if min(pair) < 0:
            raise ValueError(f"pad(): index can't contain negative values, got {pad_width!r}{called()}")
        pairs.append((operator.index(pair[0]), operator.index(pair[1])))
    return tuple(pairs)


def _repeated(x: Tensor, axis: int, start: int, stop: int, mode: str) -> list[Tensor]:
    """Return the elements from `start` to before `stop` of an axis extended beyond both ends, in pieces."""
    n = x.shape[axis]
    if mode == "edge" or (mode == "reflect" and n == 1):
        if stop == start:
            return []
        end = getitem(x, along(axis, slice(0, 1) if start < 0 else slice(n - 1, n)))
        return [broadcast_to(end, (*x.shape[:axis], stop - start, *x.shape[axis + 1 :]))]
    period = n - 1 if mode == "reflect" else n
    parts = []
    for block in range(start // period, -(-stop // period)):
        a, b = max(start, block * period) - block * period, min(stop, (block + 1) * period) - block * period
        if mode == "wrap" or block % 2 == 0:
            parts.append(getitem(x, along(axis, slice(a, b))))
        else:  # mirrored: from the far end
            last = n - 1
            parts.append(flip(getitem(x, along(axis, slice(last - b + 1, last - a + 1))), axis=axis))
    return parts


def pad(x: Any, pad_width: Any, /, mode: str = "constant", *, constant_values: float = 0) -> Tensor:
    """Pad an operand on all sides.

    x: Any shape.
    pad_width : int, pair of int, sequence of pairs, or dict
        The numbers of elements, ``(before, after)`` per axis; a number or one pair applies to every axis; a dict has
        them by axis.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, optional
        ``constant``: a number. ``edge``: the outermost element. ``reflect``: mirrored at the outermost element, which
        is not repeated. ``symmetric``: mirrored beyond the outermost element. ``wrap``: continued periodically.
    constant_values : number, optional
        The value of the mode ``constant``.
    Returns: Of the dtype of `x`.
    ValueError: If the mode is unknown, the widths do not fit, or an empty axis must be extended. As ``numpy.pad``.
    Linear in `x`: each element gets the sum of the gradients of its copies.

    >>> ag.extra.pad(ag.tensor([1, 2, 3]), (2, 1), "reflect")
    tensor([3, 2, 1, 2, 3, 2])
    """
    x = as_operand(x)
    widths = _widths(pad_width, x.ndim)
    if mode == "constant":
        if not isinstance(constant_values, bool | int | float):
            raise TypeError(f"pad(): constant_values must be one number, not {constant_values!r}{called()}")
        return nn.pad(x, widths, constant_values) if x._spec.inexact else _constant(x, widths, constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise ValueError(
            f"pad(): mode {mode!r} is not supported; it is constant, edge, reflect, symmetric or wrap{called()}"
        )
    made: Tensor = x
    for axis, (before, after) in enumerate(widths):
        n = made.shape[axis]
        if not n and (before or after):
            raise ValueError(
                f"pad(): can't extend empty axis {axis} using modes other than 'constant' or 'empty'{called()}"
            )
        made = concat(
            [*_repeated(made, axis, -before, 0, mode), made, *_repeated(made, axis, n, n + after, mode)], axis=axis
        )
    return made


def _constant(x: Tensor, widths: tuple[tuple[int, int], ...], value: float) -> Tensor:
    """Pad integers and booleans with a number."""
    shape = tuple(a + n + b for n, (a, b) in zip(x.shape, widths, strict=True))
    around = broadcast_to(asarray(value, dtype=x.dtype, device=x.device), shape)
    return setitem(around, tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths, strict=True)), x)


# -- windows ----------------------------------------------------------------------------------------------------------


def _windows_kernel(xp: Any, x: Any, /, size: int, *, axis: int) -> Any:
    axis %= x.ndim
    count = x.shape[axis] - size + 1
    if not size:
        return xp.reshape(x[along(axis, slice(0))], (*x.shape[:axis], count, *x.shape[axis + 1 :], 0))
    parts = [x[along(axis, slice(i, i + count))] for i in range(size)]
    return xp.moveaxis(xp.stack(parts, axis=axis + 1), axis + 1, -1)  # the axes that follow are copied in one piece


def _overlap_add_kernel(xp: Any, x: Any, /, *, axis: int) -> Any:
    axis %= x.ndim - 1
    count, size = x.shape[axis], x.shape[-1]
    rows = xp.moveaxis(xp.moveaxis(x, axis, 0), -1, 0)  # one for each position in the window
    rest = rows.shape[2:]
    rows = xp.concat([rows, xp.zeros((size, size, *rest), dtype=x.dtype, **beside(x))], axis=1)
    # rows of one element less: each begins one position later, below the element it is added to
    shifted = xp.reshape(rows, (size * (count + size), *rest))[along(0, slice(size * (count + size - 1)))]
    total = xp.sum(xp.reshape(shifted, (size, count + size - 1, *rest)), axis=0)
    total = xp.astype(total, x.dtype, copy=False)  # sums of small integers have a larger dtype
    return xp.moveaxis(total, 0, axis)


def _windows_batch(b: BatchedCall, x: Any, /, size: int, *, axis: int) -> Any:
    return b.kernel(b.data(x), size, axis=place(axis, x.ndim))


def _overlap_add_batch(b: BatchedCall, x: Any, /, *, axis: int) -> Any:
    return b.kernel(b.data(x), axis=place(axis, x.ndim - 1))


@linear(
    name="extra.windows",
    x=lambda xp, g, axis: xp.extra.overlap_add(g, axis=axis),
    kernel=_windows_kernel,
    batch=_windows_batch,
    least_axes=1,
    memory="fresh",
)
def windows(x: Any, /, size: int, *, axis: int) -> Tensor:
    """Return the windows of a size along an axis, each along a new last axis.

    x: At least one axis.
    size : int
        The number of elements of a window, at most one more than the axis has.
    axis : int
        The axis.
    Returns: Of the shape of `x` with ``n - size + 1`` in place of the axis's length ``n``, and `size` at the end.
    """


@linear(
    name="extra.overlap_add",
    x=lambda xp, g, x_spec, axis: xp.extra.windows(g, x_spec.shape[-1], axis=axis % (len(x_spec.shape) - 1)),
    kernel=_overlap_add_kernel,
    batch=_overlap_add_batch,
    least_axes=2,
    memory="fresh",
)
def overlap_add(x: Any, /, *, axis: int) -> Tensor:
    """Add up windows where they overlap: the adjoint of `windows`.

    x: The windows along the last axis, at least one axis before it.
    axis : int
        The axis along which windows follow each other, counted without the last.
    Returns: Of the shape of `x` without the last axis; the axis has ``count + size - 1`` elements.
    """
