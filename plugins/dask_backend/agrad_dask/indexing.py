"""Indexing of Dask arrays by every key of the standard, and its adjoint, block by block.

A key is applied in two steps: integers, slices and None first (``y = x[basic]``), then the arrays on the rest. The
adjoint reverses the two steps and returns the chunks of the operand. Index arrays made of data in memory are known
(`host_of`), so nothing is computed for them. A lazy one stays lazy if it is the only one in its key. If several must be
combined, or the shape of the result or the last of several assignments depends on them, their values are needed, and
computed in one pass (`values_of`): nothing else in this plugin computes without returning a value. Computed values are
remembered, so that the backward pass does not compute them again.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.array.core import normalize_chunks
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from agrad import UnsupportedOp
from agrad.plugin.backend import computing_anyway, is_mask, key_parts
from agrad_dask import computing, rooms
from agrad_dask.making import RESULT, makes
from agrad_dask.reductions import added_up

#: Data up to this size, in bytes, are kept next to the Dask array made of them, so that they can be read without
#: computing.
HOST_KEPT = 2**24

#: How many blocks one task adds.
_SUMMED = 4

_FULL = slice(None)

#: Marks an Ellipsis that took no axis: to NumPy it separates two index arrays.
_GAP = object()


# -- data in memory ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class UnknownSizes:
    """The layout of an array with chunks of unknown sizes, as after ``x[mask]``.

    Sizes are known block by block only, so the (lazy) array itself is kept: a cotangent is brought to its shape by
    looking at its blocks.
    """

    chunks: tuple[tuple[float, ...], ...]
    array: Any

    def __repr__(self) -> str:
        return repr(self.chunks)


def from_host(buffer: Any) -> Any:
    """Create a Dask array from data in memory, remembering small data."""
    host = np.asarray(buffer)
    made = da.from_array(host, chunks="auto" if host.size else -1)  # Dask divides by the size of a row
    if host.nbytes <= HOST_KEPT:
        _remember(made, host.copy())
    return made


def host_of(array: Any) -> Any:
    """Return the values of an array created from data in memory, None if computing would be needed."""
    if not isinstance(array, da.Array):
        return np.asarray(array)
    if 0 in array.shape:
        return np.empty(array.shape, array.dtype)
    name, host = getattr(array, "_agrad_host", (None, None))
    return host if name == array.name else None  # the user's x[i] = v gives a Dask array another name


def _remember(array: Any, host: Any) -> None:
    host.flags.writeable = False
    array._agrad_host = array.name, host


def values_of(*arrays: Any) -> list[Any]:
    """Return the values of index arrays; lazy ones are computed, in one pass, and remembered."""
    lazy = [array for array in arrays if host_of(array) is None]
    with computing_anyway(lazy):
        found = computing.values(*lazy)
    for array, value in zip(lazy, found, strict=True):
        _remember(array, np.array(value.get() if hasattr(value, "get") else value))
    return [host_of(array) for array in arrays]


# -- keys -------------------------------------------------------------------------------------------------------------


class ParsedKey(NamedTuple):
    """A key in two steps.

    Attributes
    ----------
    basic : tuple
        Integers, slices and None; full slices in place of arrays.
    arrays : list of (int, array)
        For each, its axis of ``x[basic]``: integer arrays of NumPy, or a single lazy integer array or mask.
    target : int
        The axis of the result at which the axes of the arrays begin.
    """

    basic: tuple[Any, ...]
    arrays: list[tuple[int, Any]]
    target: int


def _is_array(part: Any) -> bool:
    return hasattr(part, "shape")


def _consumes(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool | np.bool_):
        return 0
    return part.ndim if is_mask(part) else 1


def parse(shape: tuple[float, ...], key: Any) -> ParsedKey:
    """Take a key apart.

    Raises
    ------
    IndexError
        If it has more indices than the operand axes, or a mask another shape than its axes.
    """
    rank = len(shape)
    parts = list(key) if isinstance(key, tuple) else [key]
    arrays = [part for part in parts if _is_array(part)]
    several = len(arrays) + sum(isinstance(part, bool) for part in parts) > 1
    if several or any(is_mask(part) and not part.ndim for part in arrays):
        values_of(*arrays)
    used = sum(map(_consumes, parts))
    if used > rank:
        message = f"too many indices for tensor of dimension {rank}"
        raise IndexError(message)
    spot = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[spot : spot + 1] = [_FULL] * (rank - used) or [_GAP]
    _check_masks(parts, shape)
    parts = [known for part in parts for known in _known(part)]

    basic: list[Any] = []
    found: list[tuple[int, Any]] = []
    spots: list[int] = []
    axis = 0
    for i, part in enumerate(parts):
        if part is _GAP:
            continue
        if part is None or isinstance(part, slice):
            basic.append(part)
            axis += 1
        elif isinstance(part, bool | np.bool_):  # a new axis, of which one or no element is taken
            basic.append(None)
            found.append((axis, np.zeros(int(part), np.int64)))
            spots.append(i)
            axis += 1
        elif _is_array(part):
            found.append((axis, part))
            spots.append(i)
            basic.extend([_FULL] * _consumes(part))
            axis += _consumes(part)
        else:
            basic.append(part)
            spots.append(i)
    together = bool(spots) and spots == list(range(spots[0], spots[-1] + 1))
    return ParsedKey(tuple(basic), found, found[0][0] if found and together else 0)


def _check_masks(parts: list[Any], shape: tuple[float, ...]) -> None:
    axis = 0
    for part in parts:
        if is_mask(part):
            for i, (n, m) in enumerate(zip(part.shape, shape[axis:], strict=False)):
                if n != m and n == n and m == m:  # noqa: PLR0124 (nan: unknown)
                    message = (
                        f"The shape of the mask {list(part.shape)} at index {i} does not match the shape of the indexed"
                        f" tensor {list(shape)} at index {axis + i}"
                    )
                    raise IndexError(message)
        axis += 0 if part is _GAP else _consumes(part)


def _known(part: Any) -> tuple[Any, ...]:
    """A part of a key in known form: NumPy's integer arrays for masks, an int for a 0-d array."""
    if not _is_array(part):
        return (part,)
    host = host_of(part)
    if host is None:
        return (filled(part),)
    if host.dtype == np.bool_:
        return tuple(np.nonzero(host)) if host.ndim else (bool(host),)
    if host.dtype.kind not in "iu":
        message = "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are valid indices"
        raise IndexError(message)
    return (host,) if host.ndim else (int(host),)


def _within(index: Any, size: int) -> Any:
    """An index array known on the host, counted from the front."""
    if index.size and (index.min() < -size or index.max() >= size):
        wrong = int(index.min() if index.min() < -size else index.max())
        message = f"index {wrong} is out of bounds for an axis of size {size}"
        raise IndexError(message)
    return np.where(index < 0, index + size, index)


def _is_trivial(basic: tuple[Any, ...]) -> bool:
    return all(isinstance(part, slice) and part == _FULL for part in basic)


def _move(x: Any, source: int, target: int, count: int) -> Any:
    """Move `count` adjacent axes."""
    if source == target or not count:
        return x
    return da.moveaxis(x, tuple(range(source, source + count)), tuple(range(target, target + count)))


def _forwards(basic: tuple[Any, ...], shape: tuple[float, ...]) -> tuple[tuple[Any, ...], list[int]]:
    """Return a basic key with tight slices of positive steps, and the axes of its result to flip.

    Dask misreads indices before the first element (``x[-9::-1]``), assigns along the wrong axis if a slice runs
    backwards next to an integer, and creates blocks without elements if a slice ends after its last position.
    """
    sizes = iter(shape)
    key: list[Any] = []
    flipped, at = [], 0
    for part in basic:
        size = None if part is None else next(sizes)
        if isinstance(part, slice) and size == size and part != _FULL:  # noqa: PLR0124 (nan: unknown)
            places = range(size)[part]
            if places.step < 0 and places:
                flipped.append(at)
                places = places[::-1]
            key.append(slice(places[0], places[-1] + 1, places.step) if places else slice(0, 0))
        else:
            key.append(part)
        at += part is None or isinstance(part, slice)
    return tuple(key), flipped


def _basic(x: Any, basic: tuple[Any, ...]) -> Any:
    """Return ``x[basic]`` for integers, slices and None."""
    if _is_trivial(basic):
        return x
    key, flipped = _forwards(basic, x.shape)
    taken = tuple(part for part in key if part is not None)
    y = x if _is_trivial(taken) else x[taken]
    left = [part for part in key if part is None or isinstance(part, slice)]
    if None in left:
        y = with_axes(y, tuple(axis for axis, part in enumerate(left) if part is None))
    return da.flip(y, flipped) if flipped else y


def with_axes(x: Any, new: tuple[int, ...]) -> Any:
    """Insert axes of length 1; Dask's own function makes a task for every block at once, none of which can be joined to a run."""
    rank = x.ndim + len(new)
    return da.blockwise(
        _with_axes,
        range(rank),
        *(x, tuple(i for i in range(rank) if i not in new)),
        *of_length_one(new),
        token="expand-dims",  # noqa: S106 (what the tasks are called)
        dtype=x.dtype,
        meta=np.empty_like(x._meta, shape=(0,) * rank),
        axis=new,
    )


def _with_axes(x: Any, *_: Any, axis: tuple[int, ...]) -> Any:
    return np.expand_dims(x, axis)


def of_length_one(axes: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the operands of `dask.array.blockwise` that add axes of length 1 to the result.

    Its ``new_axes`` are only for longer ones: if Dask fuses layers, such an axis has one block in all of them, even if
    it was broadcast to several since.
    """
    return (_one(len(axes)), axes) if axes else ()


@functools.cache
def _one(rank: int) -> Any:
    return da.from_array(np.ones((1,) * rank), name=f"agrad-axes-{rank}")


def filled(x: Any) -> Any:
    """Drop the blocks without elements, as left by a mask, along axes that have some.

    Dask's functions fail on them; next to one of length 1 they repeat its element.
    """
    for axis, along in enumerate(x.chunks):
        if 0 in along and len(along) > 1:
            kept = [i for i, n in enumerate(along) if n] or [0]
            x = x.blocks[(_FULL,) * axis + (kept,)]
    return x


def own(array: Any) -> Any:
    """Return the current state of a Dask array: ``d[0] = 1`` puts another graph into the object `d`, and may happen at any time."""
    made = object.__new__(type(array))  # a fiftieth of the time of `copy`
    made.dask, made._name, made._chunks, made._meta = array.dask, array.name, array.chunks, array._meta
    plans_of(array)
    made.__dict__.update(array.__dict__)
    return made


def plans_of(array: Any) -> dict[Any, Any]:
    """Return the cache of plans for a Dask array, by the names of all arrays involved: shared by it and its copies."""
    return array.__dict__.setdefault("_agrad_plans", {})  # type: ignore[no-any-return]


# -- getitem ----------------------------------------------------------------------------------------------------------


def getitem(x: Any, key: Any, /) -> Any:
    """Return the elements at a key."""
    if not isinstance(x, da.Array):
        return x[key]
    basic, arrays, target = parse(x.shape, key)
    y = _basic(filled(x), basic)
    if arrays and 0 in y.shape:  # values do not determine the shape of an empty result either
        values_of(*(part for part in key_parts(key) if _is_array(part)))
        basic, arrays, target = parse(x.shape, key)
        y = _basic(filled(x), basic)
    if not arrays:
        return y
    axis, index = arrays[0]
    if is_mask(index):
        y, mask = _merged(y, axis, index.ndim), _flat(index)
        mask = mask.rechunk({0: y.chunks[axis]}) if not _has_nan(y.shape) else mask
        return _move(y[(_FULL,) * axis + (mask,)], axis, target, 1)
    shape = index.shape if len(arrays) == 1 else np.broadcast_shapes(*(array.shape for _, array in arrays))
    if 0 in (*y.shape, *shape) and not _has_nan((*y.shape, *shape)):
        for at, array in arrays:
            _within(array, y.shape[at])
        rest = np.delete(y.shape, [at for at, _ in arrays]).tolist()
        return empty_like(y, (*rest[:target], *shape, *rest[target:]))
    if len(arrays) == 1:
        chosen = _chosen(y, axis, index)
        return _move(_unflat(chosen, axis, index.shape), axis, target, index.ndim)
    full: list[Any] = [_FULL] * y.ndim
    for at, array in arrays:
        full[at] = np.broadcast_to(_within(array, y.shape[at]), shape)
    return _move(y.vindex[tuple(full)], 0, target, len(shape))


def _chosen(y: Any, axis: int, index: Any) -> Any:
    """Take positions along an axis; the index array may have any shape, and the result is flat."""
    if isinstance(index, da.Array) and not _has_nan(y.shape):
        return _take_at(y, axis, _flat(index))
    if isinstance(index, da.Array) or _has_nan((y.shape[axis],)):
        raise UnsupportedOp("getitem", "dask", "the axis has chunks of unknown sizes; call compute_chunk_sizes() first")
    return da.take(y, _within(index, y.shape[axis]).reshape(-1), axis=axis)


def _take_at(y: Any, axis: int, places: Any) -> Any:
    """Take at lazy positions: each block of y contributes to each block of positions, and a tree of sums joins these."""
    rank = y.ndim
    ends = np.cumsum([0, *y.chunks[axis]])
    lows = da.from_array(ends[:-1], chunks=1)
    parts = da.blockwise(
        _take_block,
        (*range(rank), rank),
        *(lows, (rank,), places, (axis,)),
        *(y, tuple(rank if i == axis else i for i in range(rank))),
        adjust_chunks={rank: (1,) * len(y.chunks[axis])},
        align_arrays=False,
        token="agrad-take",  # noqa: S106 (what the tasks are called)
        dtype=y.dtype,
        meta=meta_from_array(y._meta, ndim=rank + 1, dtype=y.dtype),
        axis=axis,
        size=int(ends[-1]),
    )
    return parts[..., 0] if parts.shape[-1] == 1 else added_up(parts, axis=rank, dtype=y.dtype)


def _take_block(low: Any, places: Any, y: Any, axis: int, size: int) -> Any:
    places = _within(places, size) - int(low[0])
    mine = np.flatnonzero((places >= 0) & (places < y.shape[axis]))
    made = np.zeros_like(y, shape=(*y.shape[:axis], places.size, *y.shape[axis + 1 :]))
    made[(_FULL,) * axis + (mine,)] = np.take(y, places[mine], axis=axis)
    return made[..., None]


def take(x: Any, indices: Any, axis: int) -> Any:
    """Return the elements at indices along an axis."""
    return getitem(x, (_FULL,) * (axis % x.ndim) + (indices,))


def _flat(x: Any) -> Any:
    return x if x.ndim == 1 else da.reshape(x, (-1,))


def _unflat(x: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Reshape an axis to the original shape of the index array."""
    if len(shape) == 1:
        return x
    return da.reshape(x, x.shape[:axis] + shape + x.shape[axis + 1 :])


def _merged(x: Any, axis: int, count: int) -> Any:
    """Merge several axes into one, in row-major order."""
    if count == 1:
        return x
    shape = (*x.shape[:axis], math.prod(x.shape[axis : axis + count]), *x.shape[axis + count :])
    return empty_like(x, shape) if 0 in x.shape else da.reshape(x, shape)


def meeting(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an elementwise kernel to give operands whose chunks begin a few elements apart, as slices have, the same ones.

    Dask cuts such operands where any of them ends: twice as many chunks, whose results have to be joined again for the
    gradient. Here one operand gets the other's chunks, and all work on a chunk remains one task.
    """

    @functools.wraps(kernel)
    def met(*args: Any, **kwargs: Any) -> Any:
        arrays = [arg for arg in args if getattr(arg, "npartitions", 1) > 1]
        if len(arrays) < 2 or all(each.chunks == arrays[0].chunks for each in arrays):
            return kernel(*args, **kwargs)
        return kernel(*_in_common_chunks(args, arrays), **kwargs)

    return met


def _in_common_chunks(args: tuple[Any, ...], arrays: list[Any]) -> list[Any]:
    wanted: dict[int, tuple[int, ...]] = {}  # by the axis from the right
    for axis in range(-max(each.ndim for each in arrays), 0):
        cuts = {each.chunks[axis] for each in arrays if each.ndim >= -axis and each.numblocks[axis] > 1}
        if len(cuts) > 1 and not _has_nan(tuple(map(sum, cuts))) and len(set(map(sum, cuts))) == 1:
            first = max(cuts)  # slices that begin where the array does: whatever meets later meets in these
            if all(_is_shifted(first, each) for each in cuts):
                wanted[axis] = first
    if not wanted:
        return list(args)
    return [
        arg.rechunk({axis: along for axis, along in wanted.items() if arg.ndim >= -axis and arg.shape[axis] > 1})
        if any(arg is each for each in arrays)
        else arg
        for arg in args
    ]


def _is_shifted(cut: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether chunks are others shifted by at most half of one."""
    ends = zip(itertools.accumulate(cut), itertools.accumulate(other), strict=False)
    return abs(len(cut) - len(other)) <= 1 and all(2 * abs(a - b) <= max(cut) for a, b in ends)


def _has_nan(shape: tuple[float, ...]) -> bool:
    return any(n != n for n in shape)  # noqa: PLR0124 (nan: unknown)


# -- its adjoint ------------------------------------------------------------------------------------------------------


def scatter_add(spec: Any, key: Any, values: Any) -> Any:
    """Return zeros of a spec with values added at a key, in the spec's chunks.

    Parameters
    ----------
    spec : Spec
        Those of the operand: its shape, and its chunks as layout.
    key : index
        As for `getitem`.
    values : dask.array.Array
        The values, of the shape of ``x[key]``.
    """
    values = filled(da.asarray(values))  # the cotangent that starts a pass is a scalar on the host
    basic, arrays, target = parse(spec.shape, key)
    if _has_nan(spec.shape):
        if arrays:
            raise UnsupportedOp("scatter_add", "dask", "chunks of unknown sizes; call compute_chunk_sizes() first")
        return _embed_unknown(values, basic, spec.shape)
    chunks = chunks_like(spec.layout, spec.shape, values.dtype)
    chunks = tuple(tuple(filter(None, along)) or (0,) for along in chunks)
    if arrays:
        like = da.empty(spec.shape, chunks=chunks, dtype=values.dtype)
        values = _scattered(_basic(like, basic), arrays, target, values)
    return _embed(values, basic, chunks)


def empty_like(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an array without elements, or zeros derived from one, which Dask's functions do not create from such an array."""
    return da.zeros_like(x, shape=shape, chunks=chunks_like(None, shape, x.dtype))


def chunks_like(layout: Any, shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, ...], ...]:
    """Return chunks in Dask's full form; of moderate size if they are None or ``"auto"``."""
    layout = ("auto",) * len(shape) if layout is None else layout
    # Dask's automatic sizes divide by zero where an axis is empty
    some = tuple(along if n else (1,) for along, n in zip(layout, shape, strict=True))
    made: tuple[tuple[int, ...], ...] = normalize_chunks(some, tuple(n or 1 for n in shape), dtype=dtype)
    return tuple(
        along if n else (0,) if layout[i] == "auto" else layout[i]
        for i, (along, n) in enumerate(zip(made, shape, strict=True))
    )


def _scattered(like: Any, arrays: list[tuple[int, Any]], target: int, g: Any) -> Any:
    """Undo the second step of a key: return an array with the shape and chunks of `like`, which is never computed."""
    axis, index = arrays[0]
    if is_mask(index):
        flat = _merged(like, axis, index.ndim)
        placed = _place_masked(flat.chunks, axis, _flat(index), _move(g, target, axis, 1))
        return da.reshape(placed, like.shape).rechunk(like.chunks)
    if len(arrays) == 1 and isinstance(index, da.Array):
        g = _merged(_move(g, target, axis, index.ndim), axis, index.ndim) if index.ndim else da.expand_dims(g, axis)
        return _add_at(like.chunks, axis, _flat(index), g)
    axes = tuple(at for at, _ in arrays)
    together = np.broadcast_arrays(*(_within(array, like.shape[at]) for at, array in arrays))
    g = _merged(_move(g, target, 0, together[0].ndim), 0, together[0].ndim)
    return _add_known(like.chunks, axes, [part.reshape(-1) for part in together], g)


def _add_known(chunks: tuple[Any, ...], axes: tuple[int, ...], places: list[Any], g: Any) -> Any:
    """Add the rows of g (along its first axis) at known positions of some axes.

    They are ordered by their destination blocks, and split where the block changes and so that no piece is longer than
    g's chunks: each piece goes to one block, and there are no more pieces than blocks of the result and of g.
    """
    others = [i for i in range(len(chunks)) if i not in axes]
    if not g.shape[0]:
        return da.zeros_like(g, shape=tuple(map(sum, chunks)), chunks=chunks)
    ends = [np.cumsum([0, *chunks[axis]]) for axis in axes]
    blocks = [np.searchsorted(end, place, side="right") - 1 for end, place in zip(ends, places, strict=True)]
    number = np.ravel_multi_index(blocks, [len(chunks[axis]) for axis in axes])
    order = np.argsort(number, kind="stable")
    longest = max(g.chunks[0])
    if np.any(number[1:] < number[:-1]):
        g, number = da.take(g, order, axis=0), number[order]
    marks = [0, *(int(i) + 1 for i in np.flatnonzero(np.diff(number))), g.shape[0]]
    cuts = [i for low, high in itertools.pairwise(marks) for i in range(low, high, longest)]
    g = g.rechunk({0: tuple(np.diff([*cuts, g.shape[0]]).tolist()), **{1 + k: chunks[i] for k, i in enumerate(others)}})
    within = [(p - end[b])[order] for p, end, b in zip(places, ends, blocks, strict=True)]
    pieces: dict[tuple[int, ...], list[int]] = {}
    for i, low in enumerate(cuts):
        pieces.setdefault(tuple(int(b[order[low]]) for b in blocks), []).append(i)

    name = f"agrad-scatter-add-{tokenize(g, chunks, axes, places)}"
    part = f"agrad-scatter-part-{tokenize(g, chunks, axes, places)}"
    tasks: dict[Any, Task] = {}
    for block in itertools.product(*(range(len(along)) for along in chunks)):
        shape = tuple(along[i] for along, i in zip(chunks, block, strict=True))
        beside = tuple(block[i] for i in others)
        mine = pieces.get(tuple(block[axis] for axis in axes), [])
        parts: list[Any] = []
        for k, i in enumerate(mine):
            key = (name, *block) if len(mine) == 1 else (part, *block, k)
            at = tuple(w[cuts[i] : cuts[i] + g.chunks[0][i]] for w in within)
            tasks[key] = Task(key, _added, TaskRef((g.name, i, *beside)), at, shape, axes)
            parts.append(TaskRef(key))
        if not mine:
            tasks[name, *block] = Task((name, *block), np.zeros_like, g._meta, shape=shape)
        while len(parts) > 1:  # a tree of sums
            groups = [parts[k : k + _SUMMED] for k in range(0, len(parts), _SUMMED)]
            keys = [(name, *block) if len(groups) == 1 else (part, *block, len(tasks) + k) for k in range(len(groups))]
            tasks |= {key: Task(key, _summed, *group) for key, group in zip(keys, groups, strict=True)}
            parts = [TaskRef(key) for key in keys]
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[g])
    return da.Array(graph, name, chunks, meta=meta_from_array(g._meta, ndim=len(chunks), dtype=g.dtype))


def _added(g: Any, places: tuple[Any, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    made = np.zeros_like(g, shape=shape)
    _add_into(np.moveaxis(made, axes, range(len(axes))), places, g)
    return made


def _summed(*parts: Any) -> Any:
    return functools.reduce(np.add, parts)


def _add_at(chunks: tuple[Any, ...], axis: int, places: Any, g: Any) -> Any:
    """Add the rows of g at positions along an axis: each of its blocks to each of the result's, then a tree of sums."""
    rank = len(chunks)
    g = g.rechunk({i: chunks[i] for i in range(rank) if i != axis})
    if max(places.chunks[0]) < max(g.chunks[axis]):  # such as a constant, in one piece
        g = g.rechunk({axis: places.chunks[0]})
    else:
        places = places.rechunk({0: g.chunks[axis]})
    ends = np.cumsum([0, *chunks[axis]])
    lows, highs = (da.from_array(part, chunks=1) for part in (ends[:-1], ends[1:]))
    parts = da.blockwise(
        _add_block,
        (*range(rank), rank),
        *(lows, (axis,), highs, (axis,), places, (rank,)),
        *(g, tuple(rank if i == axis else i for i in range(rank))),
        adjust_chunks={axis: chunks[axis], rank: (1,) * len(g.chunks[axis])},
        align_arrays=False,
        token="agrad-scatter-add",  # noqa: S106 (what the tasks are called)
        dtype=g.dtype,
        meta=meta_from_array(g._meta, ndim=rank + 1, dtype=g.dtype),
        axis=axis,
        size=int(ends[-1]),
    )
    return parts[..., 0] if parts.shape[-1] == 1 else added_up(parts, axis=rank, dtype=g.dtype)


def _add_block(low: Any, high: Any, places: Any, g: Any, axis: int, size: int) -> Any:
    start, stop = int(low[0]), int(high[0])
    places = _within(places, size)
    mine = np.flatnonzero((places >= start) & (places < stop))
    made = np.zeros_like(g, shape=(*g.shape[:axis], stop - start, *g.shape[axis + 1 :]))
    _add_into(made, (_FULL,) * axis + (places[mine] - start,), np.take(g, mine, axis=axis))
    return made[..., None]


def scatter_along(values: Any, indices: Any, spec: Any, axis: int, /) -> Any:
    """Add values at indices along an axis of zeros: the adjoint of ``take_along_axis``, which reads no index.

    Each block of the values goes to each of the result's blocks along the axis, then a tree of sums.
    """
    if values.dtype == np.float16:  # added in float32, rounded once
        return scatter_along(values.astype(np.float32), indices, spec, axis).astype(np.float16)
    rank = len(spec.shape)
    axis %= rank
    values, indices = da.asarray(values), da.asarray(indices)
    if _has_nan(spec.shape) or _has_nan(values.shape):
        raise UnsupportedOp("scatter_along", "dask", "chunks of unknown sizes; call compute_chunk_sizes() first")
    chunks = chunks_like(spec.layout, spec.shape, values.dtype)
    if 0 in values.shape or 0 in spec.shape:
        return da.zeros(spec.shape, chunks=chunks, dtype=values.dtype)
    repeated = [i for i in range(rank) if i != axis and spec.shape[i] != values.shape[i]]  # of length 1, broadcast
    own = {i: values.chunks[i] if i in repeated else chunks[i] for i in range(rank) if i != axis}
    values = values.rechunk(own)
    indices = broadcast_chunks(indices, values.shape, values.chunks)
    ends = np.cumsum([0, *chunks[axis]])
    lows, highs = (da.from_array(part, chunks=1) for part in (ends[:-1], ends[1:]))
    block = tuple(rank if i == axis else i for i in range(rank))
    parts = da.blockwise(
        _scatter_along_block,
        (*range(rank), rank),
        *(lows, (axis,), highs, (axis,), indices, block, values, block),
        adjust_chunks={axis: chunks[axis], rank: (1,) * values.numblocks[axis]},
        align_arrays=False,
        token="agrad-scatter-along",  # noqa: S106 (what the tasks are called)
        dtype=values.dtype,
        meta=meta_from_array(values._meta, ndim=rank + 1, dtype=values.dtype),
        axis=axis,
        size=int(ends[-1]),
    )
    made = parts[..., 0] if parts.shape[-1] == 1 else added_up(parts, axis=rank, dtype=values.dtype)
    return added_up(made, axis=tuple(repeated), keepdims=True, dtype=values.dtype) if repeated else made


def _scatter_along_block(low: Any, high: Any, places: Any, values: Any, axis: int, size: int) -> Any:
    start, stop = int(low[0]), int(high[0])
    places = _within(places, size)
    mine = list(((places >= start) & (places < stop)).nonzero())
    made = np.zeros_like(values, shape=(*values.shape[:axis], stop - start, *values.shape[axis + 1 :]))
    chosen = values[tuple(mine)]
    mine[axis] = places[tuple(mine)] - start
    _add_into(made, tuple(mine), chosen)
    return made[..., None]


def _add_into(made: Any, key: tuple[Any, ...], values: Any) -> None:
    if isinstance(made, np.ndarray):
        np.add.at(made, key, values)
    else:
        import cupyx  # noqa: PLC0415 (the chunks are CuPy's)

        cupyx.scatter_add(made, key, values)


def _place_masked(chunks: tuple[Any, ...], axis: int, mask: Any, g: Any) -> Any:
    """Put the rows of g at the true elements of a mask."""
    rank = len(chunks)
    mask = mask.rechunk({0: chunks[axis]})
    if not _has_nan((g.shape[axis],)):  # the row number for each position follows from the mask
        rows = da.cumsum(mask, axis=0, dtype=np.int64) - 1
        if not g.shape[axis]:
            g = da.zeros_like(g, shape=(*g.shape[:axis], 1, *g.shape[axis + 1 :]))
        there = mask[(*(None,) * axis, _FULL, *(None,) * (rank - axis - 1))]
        taken = _take_at(g, axis, da.where(mask, rows, 0))
        return da.where(there, taken, da.zeros_like(taken)).rechunk(chunks)
    if g.numblocks[axis] != mask.numblocks[0]:
        reason = "the rows that a lazy mask chose were rearranged: their blocks no longer match those of the mask"
        raise UnsupportedOp("scatter_add", "dask", reason)
    others = {i: chunks[i] for i in range(rank) if i != axis and g.chunks[i] != chunks[i]}
    return da.blockwise(
        _place_block,
        tuple(range(rank)),
        *(mask, (axis,), g.rechunk(others) if others else g, tuple(range(rank))),
        adjust_chunks={axis: chunks[axis]},
        align_arrays=False,
        token="agrad-place-masked",  # noqa: S106 (what the tasks are called)
        dtype=g.dtype,
        meta=g._meta,
        axis=axis,
    )


def _place_block(mask: Any, g: Any, axis: int) -> Any:
    if int(mask.sum()) != g.shape[axis]:
        message = f"{g.shape[axis]} rows of a cotangent for a block of a mask that chose {int(mask.sum())}"
        raise ValueError(message)
    made = np.zeros_like(g, shape=(*g.shape[:axis], mask.shape[0], *g.shape[axis + 1 :]))
    made[(_FULL,) * axis + (mask,)] = g
    return made


def _aligned(g: Any, basic: tuple[Any, ...]) -> Any:
    """Return g with the axes of the operand: drop those added by None, and restore those taken by an integer."""
    if not any(part is None or not isinstance(part, slice) for part in basic):
        return g
    return g[tuple(0 if part is None else _FULL if isinstance(part, slice) else None for part in basic)]


def _embed(g: Any, basic: tuple[Any, ...], chunks: tuple[Any, ...]) -> Any:
    """Undo the first step of a key: zeros around g."""
    g = _aligned(g, basic)
    shape = tuple(map(sum, chunks))
    if 0 in g.shape:
        return da.zeros_like(g, shape=shape, chunks=chunks)
    places = {}
    for axis, part in enumerate(part for part in basic if part is not None):
        size = shape[axis]
        if isinstance(part, slice):
            start, _, step = part.indices(size)
            if step < 0:
                g, start, step = da.flip(g, axis), start + (g.shape[axis] - 1) * step, -step
        else:
            start, step = part % size, 1
        if g.shape[axis] == size:
            g = g.rechunk({axis: chunks[axis]})
        else:
            places[axis] = start, step
    return _spread(g, chunks, places) if places else g


class _AmongZeros(NamedTuple):
    """Zeros with an array among them.

    Attributes
    ----------
    name : str
        The graph of the whole: an assignment gives a Dask array another one.
    within : dask.array.Array
        The array among them.
    moving : tuple
        By axis along which blocks differ, the first position of each block and its length, as operands of a layer.
    fixed : tuple of tuple
        By axis, the step; and where all blocks are alike, the first position and the length.
    """

    name: str
    within: Any
    moving: tuple[Any, ...]
    fixed: tuple[tuple[int, ...], ...]


def _spread(g: Any, chunks: tuple[Any, ...], places: dict[int, tuple[int, int]]) -> Any:
    """Put g at every step-th position from a start along some axes with these chunks, and zeros elsewhere."""
    busy: dict[int, Any] = {}
    sizes: dict[int, tuple[int, ...]] = {}
    moving, fixed = list[Any](), list[tuple[int, ...]]()
    for axis, (start, step) in places.items():
        ends = np.cumsum([0, *chunks[axis]])
        firsts = np.clip(
            -((start - ends) // step), 0, g.shape[axis]
        )  # for each chunk, the first of g that belongs there
        counts = np.diff(firsts)
        busy[axis] = counts > 0
        sizes[axis] = tuple(itertools.compress(chunks[axis], busy[axis]))
        lows = (start + firsts * step - ends)[:-1][busy[axis]]
        g = g.rechunk({axis: tuple(counts[busy[axis]].tolist())})
        if len(lows) > 1:
            moving += [
                da.from_array(lows, chunks=1),
                (axis,),
                da.from_array(np.asarray(sizes[axis]), chunks=1),
                (axis,),
            ]
        fixed.append((axis, step) if len(lows) > 1 else (axis, step, int(lows[0]), sizes[axis][0]))
    made = da.blockwise(
        _spread_block,
        tuple(range(g.ndim)),
        *(g, tuple(range(g.ndim))),
        *moving,
        adjust_chunks=sizes,
        align_arrays=False,
        token="agrad-embed",  # noqa: S106 (what the tasks are called)
        dtype=g.dtype,
        meta=g._meta,
        fixed=tuple(fixed),
    )
    if all(each.all() for each in busy.values()):
        made._agrad_spread = _AmongZeros(made.name, g, tuple(moving), tuple(fixed))
    for axis, each in busy.items():
        made = made if each.all() else _with_zeros(made, axis, chunks[axis], each)
    return made


def _with_zeros(made: Any, axis: int, chunks: tuple[int, ...], busy: Any) -> Any:
    """Return an array with zeros for the chunks along an axis that it does not have."""
    pieces, low = [], 0
    for full, run in itertools.groupby(zip(busy, chunks, strict=True), key=lambda pair: pair[0]):
        along = tuple(size for _, size in run)
        if full:
            high = low + sum(along)
            pieces.append(made[(_FULL,) * axis + (slice(low, high),)])
            low = high
        else:
            pieces.append(_zeros(made, axis, along))
    return da.concatenate(pieces, axis=axis)


@makes(RESULT)
def _spread_block(g: Any, *places: Any, fixed: tuple[tuple[int, ...], ...]) -> Any:
    key, shape = _place_in(g.shape, places, fixed)
    if shape == g.shape:
        return g
    dense = all(part.step == 1 for part in key)
    made = rooms.empty_like(g, shape) if dense else np.zeros_like(g, shape=shape)
    made[key] = g
    for around in _around(key) if dense else ():  # little as a rule
        made[around] = 0
    return made


def spread_onto(a: Any, b: Any) -> Any:
    """Return ``a + b``, where one of them is zeros with an array among them, without making these; None: neither is."""
    for x, other in ((b, a), (a, b)):
        known = getattr(x, "_agrad_spread", None)
        if (
            known is None
            or known.name != x.name
            or getattr(other, "chunks", None) != x.chunks
            or other.dtype != x.dtype
        ):
            continue
        labels = tuple(range(x.ndim))
        return da.blockwise(
            _add_onto_block,
            labels,
            *(other, labels),
            *(known.within, labels),
            *known.moving,
            align_arrays=False,
            token="add",  # noqa: S106 (what the tasks are called)
            dtype=x.dtype,
            meta=other._meta,
            fixed=known.fixed,
        )
    return None


@makes(RESULT)
def _add_onto_block(a: Any, g: Any, *places: Any, fixed: tuple[tuple[int, ...], ...]) -> Any:
    key, _ = _place_in(g.shape, places, fixed)
    if not all(part.step == 1 for part in key):
        made = a + 0
        made[key] = a[key] + g
        return made
    made = rooms.empty_like(a, a.shape)
    np.add(a[key], g, out=made[key])
    for around in _around(key):
        np.add(a[around], 0, out=made[around])  # which makes -0 a 0, as adding the zeros would
    return made


def _place_in(
    shape: tuple[int, ...], places: tuple[Any, ...], fixed: tuple[tuple[int, ...], ...]
) -> tuple[tuple[slice, ...], tuple[int, ...]]:
    """Return where an array with this shape is among zeros, and their shape."""
    key, whole, rest = [slice(0, n, 1) for n in shape], list(shape), iter(places)
    for axis, step, *known in fixed:
        low, whole[axis] = known or (int(next(rest)[0]), int(next(rest)[0]))
        key[axis] = slice(low, low + (shape[axis] - 1) * step + 1, step)
    return tuple(key), tuple(whole)


def _around(key: tuple[slice, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield keys of all that a key leaves out."""
    for axis, part in enumerate(key):
        yield (*key[:axis], slice(part.start))
        yield (*key[:axis], slice(part.stop, None))


def _zeros(g: Any, axis: int, along: tuple[int, ...]) -> Any:
    chunks = (*g.chunks[:axis], along, *g.chunks[axis + 1 :])
    return da.zeros_like(g, shape=tuple(map(sum, chunks)), chunks=chunks)


def _embed_unknown(g: Any, basic: tuple[Any, ...], shape: tuple[float, ...]) -> Any:
    """Like `_embed`, if some sizes are unknown: those axes are whole, the others have one chunk."""
    g = _aligned(g, basic)
    parts = [part for part in basic if part is not None]
    known = {i: int(n) for i, n in enumerate(shape) if n == n and parts[i] != _FULL}  # noqa: PLR0124 (nan)
    g = g.rechunk(dict.fromkeys(known, -1)) if known else g
    chunks = tuple((known[i],) if i in known else g.chunks[i] for i in range(g.ndim))
    key = tuple(slice(p, p + 1 or None) if not isinstance(p, slice) else p for p in parts)
    return da.map_blocks(
        _embed_block,
        g,
        token="agrad-embed",  # noqa: S106 (what the tasks are called)
        dtype=g.dtype,
        meta=g._meta,
        chunks=chunks,
        key=key,
        sizes=known,
    )


def _embed_block(g: Any, key: tuple[Any, ...], sizes: dict[int, int]) -> Any:
    made = np.zeros_like(g, shape=tuple(sizes.get(i, n) for i, n in enumerate(g.shape)))
    made[key] = g
    return made


# -- setitem ----------------------------------------------------------------------------------------------------------


def setitem(x: Any, key: Any, value: Any) -> Any:
    """Return x with the values at a key replaced; at positions written twice the last value counts."""
    x, value = (filled(da.asarray(part)) for part in (x, value))
    value = value.astype(x.dtype)
    chosen = getitem(x, key)
    extra = max(0, value.ndim - chosen.ndim)
    pairs = zip(value.shape[::-1], (*(1,) * extra, *chosen.shape)[::-1], strict=False)
    if any(n not in (1, m) and not _has_nan((n, m)) for n, m in pairs):
        message = f"shape mismatch: a value of shape {value.shape} for places of shape {chosen.shape}"
        raise ValueError(message)
    value = value[(0,) * extra]  # NumPy accepts a value with leading axes of length 1
    if 0 in chosen.shape:
        return x
    values_of(*(part for part in key_parts(key) if _is_array(part) and not is_mask(part)))
    basic, arrays, target = parse(x.shape, key)
    if x.ndim and not arrays and None not in basic:
        forward, flipped = _forwards(basic, x.shape)
        own_axes = [axis - chosen.ndim + value.ndim for axis in flipped]
        made = x.copy()
        made[forward] = da.flip(value, [axis for axis in own_axes if axis >= 0])
        return made
    own = target - chosen.ndim + value.ndim  # the value's axis for the rows of a lazy mask
    if _has_nan(chosen.shape) and own >= 0 and value.shape[own] != 1:
        value = da.broadcast_to(value, tuple(value.shape[own] if n != n else n for n in chosen.shape))  # noqa: PLR0124
    else:
        value = broadcast_in(value, chosen)
    like = da.empty(x.shape, chunks=x.chunks, dtype=x.dtype)
    like = _basic(like, basic)
    if arrays and not any(isinstance(index, da.Array) for _, index in arrays):
        arrays, value, target = _last(arrays, target, value, like.shape)
    there = da.ones_like(value, dtype=np.int8)
    if arrays:
        value, there = (_scattered(like, arrays, target, part) for part in (value, there))
    value, there = (_embed(part, basic, x.chunks) for part in (value, there))
    return da.where(there > 0, value, x)


def _last(
    arrays: list[tuple[int, Any]], target: int, value: Any, shape: tuple[int, ...]
) -> tuple[list[tuple[int, Any]], Any, int]:
    """Keep only the last of repeated positions in index arrays. The arrays are returned flat, with their axis first."""
    together = np.broadcast_arrays(*(_within(index, shape[axis]) for axis, index in arrays))
    count, rank = together[0].size, together[0].ndim
    value = _merged(_move(value, target, 0, rank), 0, rank)
    rows = np.stack([part.reshape(-1) for part in together], axis=1)[::-1]
    kept = np.sort(count - 1 - np.unique(rows, axis=0, return_index=True)[1])
    flat = [(axis, part.reshape(-1)[kept]) for (axis, _), part in zip(arrays, together, strict=True)]
    return flat, da.take(value, kept, axis=0), 0


def broadcast_in(x: Any, like: Any) -> Any:
    """Broadcast to the shape and chunks of an array, whose sizes may be unknown."""
    if _has_nan(like.shape):
        pairs = zip(x.shape[::-1], like.shape[::-1], strict=False)
        if any(m == m and m != 1 and n != n for m, n in pairs):  # noqa: PLR0124 (nan: unknown)
            raise UnsupportedOp("broadcast_to", "dask", "known and unknown sizes cannot be matched")
        return da.core.elemwise(_broadcast_block, like, x, dtype=x.dtype)
    return broadcast_chunks(x, like.shape, like.chunks)


def broadcast_chunks(x: Any, shape: tuple[int, ...], chunks: tuple[Any, ...]) -> Any:
    """Broadcast to a shape in chunks, which x takes on where it already has the size."""
    new = len(shape) - x.ndim
    own = {i: chunks[new + i] for i, n in enumerate(x.shape) if n == shape[new + i] and x.chunks[i] != chunks[new + i]}
    return da.broadcast_to(x.rechunk(own) if own else x, shape, chunks=chunks)


def _broadcast_block(like: Any, x: Any) -> Any:
    return np.broadcast_to(x, like.shape)
