"""Kernels of the Dask backend that replace array-api-compat's functions if these are missing, wrong, or create bad chunks."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import array_api_compat
import array_api_compat.dask.array as xp
import dask.array as da
import numpy as np

from agrad.plugin.backend import OPS, WITHOUT_OP, facts_of, spec_of
from agrad.plugin.programs import infer
from agrad_dask import factors, indexing
from agrad_dask.image_kernels import IMAGE_KERNELS
from agrad_dask.indexing import UnknownSizes
from agrad_dask.making import RESULT, makes
from agrad_dask.reductions import folded, only, reduction
from agrad_dask.windows import WINDOW_KERNELS
from agrad_numpy.kernels import in_single

# -- shapes and chunks ------------------------------------------------------------------------------------------------


def broadcast_like(x: Any, spec: Any) -> Any:
    """Broadcast in the chunks of the operand; without them a cotangent would become one chunk of the whole shape."""
    if isinstance(spec.layout, UnknownSizes):
        return indexing.broadcast_in(da.asarray(x), spec.layout.array)
    if spec.layout is None:
        return _broadcast_to(x, spec.shape)
    return indexing.broadcast_chunks(da.asarray(x), spec.shape, spec.layout)


def _broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    x = da.asarray(x)
    shape = tuple(shape)
    new = len(shape) - x.ndim
    if new < 0 or any(n != n for n in x.shape):  # noqa: PLR0124 (nan: unknown)
        return da.broadcast_to(x, shape)
    kept: list[Any] = ["auto"] * new
    kept += [
        along if n == x.shape[i] else "auto" for i, (along, n) in enumerate(zip(x.chunks, shape[new:], strict=True))
    ]
    return da.broadcast_to(x, shape, chunks=indexing.chunks_like(tuple(kept), shape, x.dtype))


def _filled(name: str) -> Callable[..., Any]:
    """Wrap ``zeros`` or a similar function for shapes without elements, at which Dask divides by zero."""

    def kernel(shape: Any, *value: Any, dtype: Any = None, **kwargs: Any) -> Any:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if 0 in shape:
            kwargs["chunks"] = indexing.chunks_like(None, shape, np.float64 if dtype is None else dtype)
        return getattr(xp, name)(shape, *value, dtype=dtype, **kwargs)

    return kernel


def _eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None, chunks: Any = None
) -> Any:
    """Dask's own function omits blocks if there are more columns than rows in a chunk: cut out of a square instead."""
    columns = n_rows if n_cols is None else n_cols
    size = max(n_rows, columns)
    made = da.eye(size, k=k, dtype=dtype)[:n_rows, :columns]
    return made if chunks is None else made.rechunk(chunks)


def _reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not isinstance(x, da.Array):
        return np.reshape(x, shape)
    if any(n != n for n in x.shape):  # noqa: PLR0124 (nan: unknown)
        return _reshape_ones(x, shape)
    if 0 in x.shape:
        return indexing.empty_like(x, np.empty(x.shape, np.bool_).reshape(shape).shape)
    kept = sum(1 for _ in itertools.takewhile(lambda both: both[0] == both[1], zip(x.shape, shape, strict=False)))
    rest = x.shape[kept:]
    if kept and set(x.numblocks[kept:]) <= {1} and math.prod(shape[kept:]) == math.prod(rest):
        return _reshape_rest(x, kept, shape[kept:])
    try:
        return da.reshape(x, shape)
    except NotImplementedError:  # axes that neither merge nor split evenly
        return da.reshape(da.reshape(x, (-1,)), shape)


def _reshape_rest(x: Any, kept: int, rest: tuple[int, ...]) -> Any:
    """Reshape the axes after some, which are in one chunk each; Dask's own function makes a task for every block at once."""
    first, count = tuple(range(kept)), len(rest)
    new = dict(enumerate(rest, kept))
    return da.blockwise(
        _reshape_block,
        (*first, *range(kept, kept + count)),
        *(x, (*first, *range(kept + count, x.ndim + count))),
        *indexing.of_length_one(tuple(axis for axis, n in new.items() if n == 1)),
        new_axes={axis: n for axis, n in new.items() if n != 1},
        concatenate=False,
        token="reshape",  # noqa: S106 (what the tasks are called)
        dtype=x.dtype,
        meta=np.empty_like(x._meta, shape=(0,) * (kept + count)),
        kept=kept,
        rest=rest,
    )


@makes(RESULT)  # where a block has to be copied; it lives no longer than the block that it else lies in
def _reshape_block(x: Any, *_: Any, kept: int, rest: tuple[int, ...]) -> Any:
    x = only(x)
    return x.reshape((*x.shape[:kept], *rest))


def _expand_dims(x: Any, /, axis: Any = 0) -> Any:
    axes = axis if isinstance(axis, tuple) else (axis,)
    rank = x.ndim + len(axes)
    new = {a % rank for a in axes if -rank <= a < rank}
    if len(new) < len(axes) or not isinstance(x, da.Array):
        return xp.expand_dims(x, axis=axis)
    return indexing.with_axes(x, tuple(sorted(new)))


def _reshape_ones(x: Any, shape: tuple[int, ...]) -> Any:
    """Add and remove axes of length 1: nothing else is possible while sizes are unknown."""
    rest = iter([n for n in x.shape if n != 1])
    for n in shape:
        if n != 1:
            m = next(rest, 1)
            if m != n and not (m != m and (n != n or n == -1)):  # noqa: PLR0124 (nan: unknown)
                break
    else:
        if next(rest, None) is None:
            squeezed = x[tuple(0 if n == 1 else slice(None) for n in x.shape)]
            return squeezed[tuple(None if n == 1 else slice(None) for n in shape)]
    message = "the array has chunks of unknown sizes; call compute_chunk_sizes() first"
    raise NotImplementedError(message)


def _repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    if axis is None or _is_of_number(x, axis):
        x, axis = _reshape(x, (-1,)), 0
    axis %= x.ndim
    if isinstance(repeats, int) and repeats and x.shape[axis]:
        return _repeat_each(x, repeats, axis)
    counts = repeats if isinstance(repeats, int) else indexing.values_of(repeats)[0]
    return indexing.take(x, np.repeat(np.arange(x.shape[axis]), counts), axis)


def _repeat_each(x: Any, repeats: int, axis: int) -> Any:
    """Repeat every element, in chunks no longer than the operand's; Dask's own function makes them longer by that factor."""
    longest = max(x.chunks[axis])
    x = x.rechunk({axis: max(1, longest // repeats)})
    shape = (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
    copies = da.core.normalize_chunks((min(repeats, longest),), (repeats,))
    chunks = (*x.chunks[: axis + 1], *copies, *x.chunks[axis + 1 :])
    return da.reshape(
        da.broadcast_to(x[(slice(None),) * (axis + 1) + (None,)], shape, chunks=chunks),
        (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]),
    )


def _tile(x: Any, repetitions: Any, /) -> Any:
    repetitions = (repetitions,) if isinstance(repetitions, int) else tuple(repetitions)
    if 0 not in repetitions and 0 not in x.shape:
        return da.tile(x, repetitions)
    rank = max(x.ndim, len(repetitions))
    sizes = ((1,) * (rank - x.ndim) + x.shape, (1,) * (rank - len(repetitions)) + repetitions)
    return indexing.empty_like(x, tuple(n * k for n, k in zip(*sizes, strict=True)))


def _roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """Roll in the chunks of the operand; Dask's own function adds one chunk each time, so the time steps of a stencil add ever more."""
    made = da.roll(x, shift, axis)
    return made.rechunk(x.chunks) if isinstance(x, da.Array) else made


def _triangle(x: Any, k: int, *, lower: bool) -> Any:
    rows, columns = (da.arange(n, chunks=along) for n, along in zip(x.shape[-2:], x.chunks[-2:], strict=True))
    inside = columns[None, :] - rows[:, None] <= k if lower else columns[None, :] - rows[:, None] >= k
    return da.where(inside, x, da.zeros_like(x))


def _extremum(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap max or min to reduce axes of an array in which another axis is empty: the result is then empty too."""

    def kernel(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        if 0 not in x.shape:
            return function(x, axis=axis, keepdims=keepdims)
        return indexing.empty_like(x, np.max(np.empty(x.shape), axis=axis, keepdims=keepdims).shape)

    return kernel


def _take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    if axis is None:
        x, axis = _reshape(x, (-1,)), 0
    return indexing.take(x, indices, axis)


def _diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    parts = [part for part in (prepend, x, append) if part is not None]
    return da.diff(da.concatenate(parts, axis=axis) if len(parts) > 1 else x, n=n, axis=axis)


def _mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    if x.dtype.kind not in "fc" or not x.size or math.isnan(x.size):
        return xp.mean(x, axis=axis, keepdims=keepdims)
    total = _sum(x, axis=axis, keepdims=keepdims)
    return da.true_divide(total, x.size // total.size)


def _tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        axes = range(x1.ndim - axes, x1.ndim), range(axes)
    both = [(some,) if isinstance(some, int) else some for some in axes]
    left, right = ([a % x.ndim for a in some] for x, some in zip((x1, x2), both, strict=True))
    over = _contracted(x1, x2, left, right)
    if over is not None:
        return over
    made = xp.tensordot(x1, x2, axes=(left, right))
    return made.astype(np.result_type(x1.dtype, x2.dtype), copy=False)  # sums of small integers have a larger dtype


def _contracted(x1: Any, x2: Any, left: Sequence[int], right: Sequence[int]) -> Any:
    """Return the sum over axes of which only one is in several blocks, and no other of either array; None otherwise."""
    several = {a for a, n in enumerate(x1.numblocks) if n > 1}, {a for a, n in enumerate(x2.numblocks) if n > 1}
    over = {i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a in several[0] or b in several[1]}
    if len(over) != 1 or 0 in x1.shape + x2.shape or max(map(len, several)) > 1:
        return None
    (at,) = over
    if several[0] - {left[at]} or several[1] - {right[at]} or x1.shape[left[at]] != x2.shape[right[at]]:
        return None
    labels = list(range(x1.ndim)), list(range(x1.ndim, x1.ndim + x2.ndim))
    for a, b in zip(left, right, strict=True):
        labels[1][b] = a
    free = [a for a in range(x1.ndim) if a not in left], [b for b in labels[1] if b >= x1.ndim]
    dtype = np.result_type(x1.dtype, x2.dtype)
    made = da.blockwise(
        _contract_block,
        (left[at], *free[0], *free[1]),
        *(x1, labels[0]),
        *(x2, labels[1]),
        adjust_chunks={left[at]: 1},
        concatenate=False,
        token="tensordot",  # noqa: S106 (what the tasks are called)
        dtype=dtype,
        meta=np.empty_like(x1._meta, dtype, shape=(0,) * (1 + len(free[0]) + len(free[1]))),
        axes=(tuple(left), tuple(right)),
    )
    return folded("sum", made, (0,), kept=False)


def _contract_block(x1: Any, x2: Any, axes: Any) -> Any:
    return np.tensordot(only(x1), only(x2), axes)[None]


_sum = reduction("sum", xp.sum)


def _is_of_number(x: Any, axis: Any) -> bool:
    """Return whether an axis is the one that NumPy lets reductions and `repeat` name for a 0-d array."""
    return not x.ndim and type(axis) is int and axis in (0, -1)


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a reduction to accept an axis of a 0-d array, as NumPy and PyTorch do."""

    def kernel(x: Any, /, *, axis: Any = None, **parameters: Any) -> Any:
        return function(x, axis=None if _is_of_number(x, axis) else axis, **parameters)

    return kernel


# -- elements ---------------------------------------------------------------------------------------------------------


def _clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    x = da.positive(x) if min is None else da.maximum(x, min)
    return x if max is None else da.minimum(x, max)


def _zeros_like(x: Any, /, **kwargs: Any) -> Any:
    return xp.zeros_like(x, **kwargs) if isinstance(x, da.Array) else np.zeros_like(x, **kwargs)


def _ones_like(x: Any, /, **kwargs: Any) -> Any:
    return xp.ones_like(x, **kwargs) if isinstance(x, da.Array) else np.ones_like(x, **kwargs)


def _take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    axis %= x.ndim
    labels = tuple(range(x.ndim))
    return da.blockwise(
        _take_along_block,
        labels,
        *(x.rechunk({axis: -1}), tuple(x.ndim if i == axis else i for i in labels)),
        *(da.asarray(indices), labels),
        token="agrad-take-along-axis",  # noqa: S106 (what the tasks are called)
        dtype=x.dtype,
        meta=x._meta,
        concatenate=True,
        axis=axis,
    )


def _take_along_block(x: Any, indices: Any, axis: int) -> Any:
    return np.take_along_axis(x, indices, axis=axis)


def _linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    endpoint: bool = True,
    chunks: Any = None,
    **kwargs: Any,
) -> Any:
    """NumPy's sums, so that the last element is `stop` itself; Dask's own is off by rounding."""
    made = np.result_type(start, stop, np.float64) if dtype is None else np.dtype(dtype)
    parts = num - 1 if endpoint else num
    chunks = indexing.chunks_like(None, (num,), made) if chunks is None else chunks
    places = da.arange(num, dtype=np.int64, chunks=chunks, **kwargs)
    values = places.astype(np.result_type(start, stop, np.float64)) * ((stop - start) / max(parts, 1)) + start
    return (da.where(places == parts, stop, values) if parts else values).astype(made)


def _searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Sum over the blocks of `x1`: how many of its elements come before each element."""
    x1 = x1 if sorter is None else indexing.take(x1, sorter, 0)
    x2 = da.asarray(x2)
    axes = tuple(range(x2.ndim))
    places = da.blockwise(
        _searchsorted_block,
        (*axes, x2.ndim),
        *(x1, (x2.ndim,)),
        *(x2, axes),
        adjust_chunks={x2.ndim: 1},
        align_arrays=False,
        token="agrad-searchsorted",  # noqa: S106 (what the tasks are called)
        dtype=np.int64,
        side=side,
    )
    return da.sum(places, axis=x2.ndim)


def _searchsorted_block(x1: Any, x2: Any, side: str) -> Any:
    return np.searchsorted(x1, np.reshape(x2, (*x2.shape, 1)), side=side)


def _known(name: str) -> Callable[..., Any]:
    """Wrap a function whose result size depends on values: for data in memory it is known."""

    def kernel(x: Any, /) -> Any:
        host = indexing.host_of(x)
        if host is None:
            return getattr(xp, name)(x)
        found = getattr(array_api_compat.array_namespace(host), name)(host)
        if not isinstance(found, tuple):
            return indexing.from_host(found)
        parts = map(indexing.from_host, found)
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)

    return kernel


# -- whole axes in one chunk ------------------------------------------------------------------------------------------


def _sorted(name: str) -> Callable[..., Any]:
    """Create ``sort`` or ``argsort``; Dask's functions would also merge the chunks of the other axes."""

    def kernel(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
        several = x.numblocks[axis] > 1
        made = da.map_blocks(
            _sort_block,
            x.rechunk({axis % x.ndim: -1}) if several else x,
            token=f"agrad-{name}",
            dtype=x.dtype if name == "sort" else np.int64,
            function=name,
            axis=axis,
            descending=descending,
            stable=stable,
        )
        return made.rechunk(x.chunks) if several else made

    return kernel


def _sort_block(x: Any, function: str, **parameters: Any) -> Any:
    return getattr(_library(x), function)(x, **parameters)


def _library(x: Any) -> Any:
    """The namespace of a block."""
    return array_api_compat.array_namespace(x)


def matched(signature: str, *arrays: Any) -> tuple[Any, ...]:
    """Broadcast arrays without elements, in one chunk each: ``apply_gufunc`` divides by lengths, and takes 0 for 1."""
    if all(a.size for a in arrays):
        return arrays
    ranks = [len(re.findall(r"\w", part)) for part in re.findall(r"\(.*?\)", signature.partition("->")[0])]
    cores = [a.shape[a.ndim - rank :] for a, rank in zip(arrays, ranks, strict=True)]
    lead = np.broadcast_shapes(*(a.shape[: a.ndim - rank] for a, rank in zip(arrays, ranks, strict=True)))
    return tuple(_broadcast_to(a, lead + core).rechunk(-1) for a, core in zip(arrays, cores, strict=True))


def _dtypes(name: str, arrays: Sequence[Any], parameters: dict[str, Any]) -> tuple[Any, ...]:
    """Return the dtypes of the results of a function of ``linalg``."""
    specs = infer(f"linalg.{name}", [spec_of(a) for a in arrays], parameters)
    assert specs is not None
    return tuple(spec.dtype for spec in specs)


def _stacked(name: str, signature: str) -> Callable[..., Any]:
    """Create a function of ``linalg`` for stacks of matrices that are in one chunk each (it rechunks them)."""

    def block(*blocks: Any, **parameters: Any) -> Any:
        result = getattr(_library(blocks[0]).linalg, name)(*blocks, **parameters)
        return tuple(result) if isinstance(result, tuple) else result

    block.__name__ = f"agrad_linalg_{name}"  # the name of the tasks in Dask, which splits names at dashes

    def kernel(*arrays: Any, sizes: dict[str, int] | None = None, signature: str = signature, **parameters: Any) -> Any:
        arrays = matched(signature, *map(da.asarray, arrays))
        # given dtypes, Dask would cast a complex array to a real result's, with a warning
        meta = tuple(np.empty_like(arrays[0]._meta, dtype, shape=(0,)) for dtype in _dtypes(name, arrays, parameters))
        return da.apply_gufunc(
            functools.partial(block, **parameters),
            signature,
            *arrays,
            meta=meta,
            output_sizes=sizes,
            allow_rechunk=all(a.size for a in arrays),
        )

    return kernel


_EIGH = _stacked("eigh", "(i,j)->(i),(i,j)")
_EIG = _stacked("eig", "(i,j)->(i),(i,j)")
_SLOGDET = _stacked("slogdet", "(i,j)->(),()")
_QR = _stacked("qr", "(i,j)->(i,k),(k,j)")
_SVD = _stacked("svd", "(i,j)->(i,k),(k),(k,j)")
_SVDVALS = _stacked("svdvals", "(i,j)->(k)")
_SOLVE = _stacked("solve", "(i,j),(j,k)->(i,k)")
_CROSS = _stacked("cross", "(i),(i)->(i)")


class EigResult(NamedTuple):
    """What ``linalg.eig`` gives."""

    eigenvalues: Any
    eigenvectors: Any


def _named(kind: Callable[..., Any], kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel whose results have the names of the decomposition."""

    def named(x: Any, /) -> Any:
        return kind(*kernel(x))

    return named


def _qr(x: Any, /, *, mode: str = "reduced") -> Any:
    m, n = x.shape[-2:]
    if mode == "complete":
        return xp.linalg.QRResult(*_QR(x, mode=mode, sizes={"k": m}))
    if _is_tall(x):  # block by block, with any number of rows
        return xp.linalg.QRResult(*da.linalg.qr(x))
    return xp.linalg.QRResult(*_QR(x, sizes={"k": min(m, n)}))


def _svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    m, n = x.shape[-2:]
    if full_matrices and m != n:
        signature = "(i,j)->(i,m),(k),(n,j)"
        parts = _SVD(x, full_matrices=True, signature=signature, sizes={"m": m, "k": min(m, n), "n": n})
        return xp.linalg.SVDResult(*parts)
    if not full_matrices and _is_tall(x):
        q, r = da.linalg.qr(x)  # block by block; da.linalg.svd does the same, but not for complex arrays
        u, s, vh = _SVD(r, full_matrices=False, sizes={"k": n})
        return xp.linalg.SVDResult(q @ u, s, vh)
    return xp.linalg.SVDResult(*_SVD(x, full_matrices=full_matrices, sizes={"k": min(m, n)}))


def _is_tall(x: Any) -> bool:
    """Return whether the rows of one matrix are in several chunks, and its columns in one."""
    return x.ndim == 2 and x.numblocks[0] > 1 and x.numblocks[1] == 1 and x.shape[0] >= x.shape[1]


def _with_tolerance(name: str, result: str) -> Callable[..., Any]:
    """Create a function of ``linalg`` with a relative tolerance, which may be an array: one per matrix."""

    def block(x: Any, rtol: Any) -> Any:
        return getattr(_library(x).linalg, name)(x, rtol=rtol)

    block.__name__ = f"agrad_linalg_{name}"

    plain = _stacked(name, f"(i,j)->{result}")

    def kernel(x: Any, /, *, rtol: Any = None) -> Any:
        if not hasattr(rtol, "dtype"):
            return plain(x, rtol=rtol)
        meta = np.empty_like(x._meta, *_dtypes(name, (x,), {}), shape=(0,))
        signature = f"(i,j),()->{result}"
        x, rtol = matched(signature, x, da.asarray(rtol))
        return da.apply_gufunc(block, signature, x, rtol, meta=meta, allow_rechunk=bool(x.size and rtol.size))

    return kernel


def _svdvals(x: Any, /) -> Any:
    return _SVDVALS(x, sizes={"k": min(x.shape[-2:])})


def _matmul(x1: Any, x2: Any, /) -> Any:
    """For shapes that do not fit, Dask's message is about chunks."""
    if x1.ndim and x2.ndim:
        inner, other = x1.shape[-1], x2.shape[max(-2, -x2.ndim)]
        if inner != other and not any(map(math.isnan, (inner, other))):
            raise ValueError(f"shapes {x1.shape} and {x2.shape} not aligned: {inner} != {other}")
        if (x1.ndim, x2.ndim) in {(2, 1), (2, 2)} and x1.numblocks[1] == x2.numblocks[0] == 1:
            return _whole_matmul(x1, x2)
        found = _contracted(x1, x2, [x1.ndim - 1], [0]) if x1.ndim <= 2 and x2.ndim <= 2 else None
        if found is not None:
            return found
    return xp.matmul(x1, x2)


def _whole_matmul(x1: Any, x2: Any) -> Any:
    """Multiply if no block of the product is a sum of several; Dask's own function adds a layer for that, and two for vectors."""
    return da.blockwise(
        _matmul_block,
        (0, 2)[: x2.ndim],
        *(x1, (0, 1)),
        *(x2, (1, 2)[: x2.ndim]),
        concatenate=False,
        align_arrays=False,
        token="matmul",  # noqa: S106 (what the tasks are called)
        dtype=np.result_type(x1.dtype, x2.dtype),
        meta=np.empty_like(x1._meta, np.result_type(x1.dtype, x2.dtype), shape=(0,) * x2.ndim),
    )


def _matmul_block(x1: list[Any], x2: list[Any]) -> Any:
    (left,), (right,) = x1, x2
    return left @ right if right.ndim > 1 else (left @ right[:, None])[:, 0]


def _solve(x1: Any, x2: Any, /) -> Any:
    return _SOLVE(x1, x2[:, None])[..., 0] if x2.ndim == 1 else _SOLVE(x1, x2)


def _cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return da.moveaxis(_CROSS(da.moveaxis(x1, axis, -1), da.moveaxis(x2, axis, -1)), -1, axis)


def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    if ord == math.inf and 0 in x.shape:  # the maximum of an empty set is 0, as in NumPy
        return xp.sum(xp.abs(x), axis=axis, keepdims=keepdims)
    return xp.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


def _fourier(name: str) -> Callable[..., Any]:
    """Create a function of ``fft``: the axes it transforms are rechunked into one chunk each."""
    several = name.endswith("n")

    def kernel(x: Any, /, **parameters: Any) -> Any:
        x = da.asarray(x)  # a NumPy scalar
        if several:
            lengths, axes = parameters.get("s"), parameters.get("axes")
            axes = range(x.ndim - len(lengths), x.ndim) if axes is None and lengths else axes
            axes = range(x.ndim) if axes is None else axes
            lengths = lengths or (None,) * len(axes)
            lengths = [x.shape[a] if n == -1 else n for a, n in zip(axes, lengths, strict=True)]
        else:
            axes, lengths = [parameters.get("axis", -1)], [parameters.get("n")]
        axes = [a % x.ndim for a in axes]
        chunks = list(x.rechunk(dict.fromkeys(axes, -1)).chunks)
        for axis, n in zip(axes, lengths, strict=True):
            last = axis == axes[-1]
            size = x.shape[axis] if n is None else n
            if last and name in {"rfft", "rfftn", "ihfft"}:
                size = size // 2 + 1
            elif last and name in {"irfft", "irfftn", "hfft"} and n is None:
                size = 2 * (size - 1)
            chunks[axis] = (size,)
        block = functools.partial(_fourier_block, name=name, parameters=parameters)
        dtype = getattr(np.fft, name)(np.ones((2,) * x.ndim, x.dtype)).dtype
        x = x.rechunk(dict.fromkeys(axes, -1))
        return da.map_blocks(block, x, token=f"agrad-fft-{name}", dtype=dtype, chunks=tuple(chunks))

    return kernel


def _fourier_block(x: Any, name: str, parameters: dict[str, Any]) -> Any:
    return getattr(_library(x).fft, name)(x, **parameters)


def _add(a: Any, b: Any, /) -> Any:
    total = indexing.spread_onto(a, b)
    return factors.added(a, b, xp.add(a, b) if total is None else total)


#: By the op's name.
KERNELS: dict[str, Callable[..., Any]] = {
    **IMAGE_KERNELS,
    **WINDOW_KERNELS,
    "add": _add,
    "argsort": _sorted("argsort"),
    "broadcast_like": broadcast_like,
    "broadcast_to": _broadcast_to,
    "clip": _clip,
    "diff": _diff,
    "extra.scatter_along": indexing.scatter_along,
    "expand_dims": _expand_dims,
    "eye": _eye,
    "getitem": indexing.getitem,
    "linspace": _linspace,
    "matmul": _matmul,
    "max": _of_numbers(reduction("max", _extremum(da.max))),
    "min": _of_numbers(reduction("min", _extremum(da.min))),
    "ones_like": _ones_like,
    "repeat": _repeat,
    "reshape": _reshape,
    "roll": _roll,
    "searchsorted": _searchsorted,
    "sort": _sorted("sort"),
    "take": _take,
    "take_along_axis": _take_along_axis,
    "tensordot": _tensordot,
    "tile": _tile,
    "tril": lambda x, /, *, k=0: _triangle(x, k, lower=True),
    "triu": lambda x, /, *, k=0: _triangle(x, k, lower=False),
    "zeros_like": _zeros_like,
    **{name: _known(name) for name in (*OPS, *WITHOUT_OP) if facts_of(name).dynamic is True},
    **{name: _filled(name) for name in ("empty", "full", "ones", "zeros")},
    **{name: in_single(getattr(xp, name)) for name in ("cumulative_prod", "cumulative_sum", "std", "var")},
    "mean": _of_numbers(in_single(_mean)),
    **{name: _of_numbers(in_single(reduction(name, getattr(xp, name)))) for name in ("prod", "sum")},
    **{name: _of_numbers(reduction(name, getattr(xp, name))) for name in ("all", "any")},
    **{name: _of_numbers(getattr(xp, name)) for name in ("argmax", "argmin", "count_nonzero")},
    **{f"fft.{name}": _fourier(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{name}": _fourier(name) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "linalg.cholesky": _stacked("cholesky", "(i,j)->(i,j)"),
    "linalg.cross": _cross,
    "linalg.det": _stacked("det", "(i,j)->()"),
    "linalg.eig": _named(EigResult, _EIG),
    "linalg.eigh": _named(xp.linalg.EighResult, _EIGH),
    "linalg.eigvals": _stacked("eigvals", "(i,j)->(i)"),
    "linalg.eigvalsh": _stacked("eigvalsh", "(i,j)->(i)"),
    "linalg.inv": _stacked("inv", "(i,j)->(i,j)"),
    "linalg.matrix_power": lambda x, n, /: _stacked("matrix_power", "(i,j)->(i,j)")(x, n=n),
    "linalg.matrix_rank": _with_tolerance("matrix_rank", "()"),
    "linalg.pinv": _with_tolerance("pinv", "(j,i)"),
    "linalg.qr": _qr,
    "linalg.slogdet": _named(xp.linalg.SlogdetResult, _SLOGDET),
    "linalg.solve": _solve,
    "linalg.svd": _svd,
    "linalg.svdvals": _svdvals,
    "linalg.vector_norm": _vector_norm,
    # a single lazy index array; the composition has two, whose values would be read
    "nn.embedding_adjoint": lambda grad, indices, spec, /: indexing.scatter_add(spec, (indices,), grad),
}
