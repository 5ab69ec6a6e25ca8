"""xarray on tensors: once this module is imported, xarray's methods that ask SciPy, pandas or bottleneck take tensors too.

Most of xarray does so without it, as it calls NumPy's functions, which take tensors: arithmetic, reductions, groups, windows,
calculus. What needs this module are `interp`, `ffill`, `bfill`, `first` and `last` of groups, choosing points by arrays
(``da.isel(time=points, place=points)``), `chunk`, which cuts the tensor itself and stays part of the graph, `chunks`, `compute`,
`load` and `persist`, and writing files. xarray has to be installed.

Examples
--------
>>> import agrad as ag
>>> import agrad.xarray
>>> from xarray import DataArray
>>> x = ag.asarray([1.0, 3.0, 5.0], requires_grad=True)
>>> line = DataArray(x, dims="place", coords={"place": [0.0, 1.0, 2.0]})
>>> line.interp(place=[0.25, 1.5]).data
tensor([1.5000, 4.0000], grad_fn=<...>)
"""

from __future__ import annotations

import functools
import itertools
import os
from typing import TYPE_CHECKING, Any

import xarray
from xarray.backends import writers
from xarray.core import common, dataarray, dataset, duck_array_ops, indexing, missing, nputils
from xarray.core.dataset import Dataset
from xarray.core.utils import Frozen
from xarray.core.variable import Variable, broadcast_variables
from xarray.namedarray.core import NamedArray
from xarray.namedarray.daskmanager import DaskManager
from xarray.structure import chunks as structure_chunks

import agrad as ag
import agrad.numpy as np
from agrad.core import errors
from agrad.core import names as _names
from agrad.core.backend import joined

__all__: list[str] = []

# -- interpolation: a linear map of the values, which xarray's own code tells of --------------------------------------------

#: Methods whose results are no linear function of the values.
_NOT_LINEAR = ("akima", "makima", "pchip")

_interpnd = missing._interpnd


def _columns(places: Any, wanted: Any, interpolator: Any, options: dict[str, Any], dims: Any) -> tuple[Any, Any]:
    """What each value along one axis contributes to each result, shape (n, ...), and what results have beside."""

    def run(values: Any) -> Any:
        return _interpnd(
            values, places, wanted, interp_func=interpolator, interp_kwargs=options, result_coord_core_dims=[dims]
        )

    identity = ag.eye(len(places), device="numpy").numpy()
    beside = ag.asarray(run(identity[:1] * 0))[0]
    columns = ag.asarray(run(identity)) - beside
    return ag.where(ag.isnan(columns), 0.0, columns), beside


def _nonzero(columns: Any) -> tuple[Any, Any]:
    """Places and values of what is not 0 in each column, each of shape (p, k) for the largest count k."""
    rows = columns.T
    found = rows != 0
    count = max(int(ag.max(ag.sum(found, axis=1))), 1)
    places = ag.argsort(ag.astype(found, ag.int8), axis=1, descending=True, stable=True)[:, :count]
    chosen = ag.take_along_axis(found, places, axis=1)
    # What fills up is one of the column's own, times 0: a NaN elsewhere does not reach the result.
    return ag.where(chosen, places, places[:, :1]), ag.take_along_axis(rows, places, axis=1)


def _of_tensors(
    data: Any, *coords: Any, interp_func: Any, interp_kwargs: dict[str, Any], result_coord_core_dims: list[Any]
) -> Any:
    if not isinstance(data, ag.Tensor):
        return _interpnd(
            data, *coords, interp_func=interp_func, interp_kwargs=interp_kwargs,
            result_coord_core_dims=result_coord_core_dims,
        )  # fmt: skip
    count = len(coords) // 2
    method = interp_kwargs.get("method", getattr(interp_func, "__name__", ""))
    if any(name in str(method).lower() for name in _NOT_LINEAR):
        raise TypeError(
            f"interp(method={method!r}) is not defined for tensors; use 'linear', 'nearest' or a spline, or take the value"
            f" with tensor.detach().numpy()."
        )
    if any(isinstance(c, ag.Tensor) for c in coords):
        raise TypeError(
            "interp takes NumPy's arrays as coordinates, not tensors: there would be no derivative by them. Use"
            " agrad.numpy.interp(x, xp, fp), or tensor.detach().numpy()."
        )
    if count == 1:
        columns, beside = _columns(coords[0], coords[1], interp_func, interp_kwargs, result_coord_core_dims[0])
        shape = columns.shape[1:]
        columns = ag.reshape(columns, (columns.shape[0], -1))
    else:
        data, columns, beside, shape = _of_several(data, coords, interp_kwargs, result_coord_core_dims)
    places, weights = _nonzero(columns) if isinstance(columns, ag.Tensor) else columns
    weights = ag.astype(weights, data.dtype if data._spec.inexact else ag.float64)
    if isinstance(columns, ag.Tensor) and places.shape[1] > 2:
        found = ag.matmul(data, ag.astype(columns, weights.dtype).to_device(data.device))
    else:
        taken = ag.take(data, ag.reshape(places, (-1,)).to_device(data.device), axis=-1)
        parts = ag.reshape(taken, (*data.shape[:-1], *places.shape))
        found = ag.sum(parts * weights.to_device(data.device), axis=-1)
    found = ag.reshape(found, (*data.shape[:-1], *shape))
    beside = ag.astype(ag.broadcast_to(beside, shape), weights.dtype).to_device(data.device)
    return ag.where(ag.isnan(beside), beside, found + beside) if bool(ag.any(beside != 0)) else found


def _of_several(data: Any, coords: Any, options: dict[str, Any], dims: list[Any]) -> tuple[Any, Any, Any, Any]:
    """The same by several axes at once: corners of cells, with the products of the weights along each axis."""
    count, method = len(coords) // 2, options["method"]
    if method not in ("linear", "nearest"):
        raise TypeError(
            f"interp(method={method!r}) of several dimensions at once is not defined for tensors; use 'linear' or"
            " 'nearest', or one dimension after the other."
        )
    fill = options.get("fill_value", float("nan"))
    one, own = missing._get_interpolator(method, vectorizeable_only=True)
    if fill is None:
        own["fill_value"] = "extrapolate"
    wanted = broadcast_variables(*(Variable(d, c) for d, c in zip(dims, coords[count:], strict=True)))
    shape = wanted[0].shape
    corners, strides, outside = [], [], None
    for i, (places, new) in enumerate(zip(coords[:count], wanted, strict=True)):
        columns, beside = _columns(places, new.data.ravel(), one, own, ("point",))
        corners.append(_nonzero(columns))
        strides.append(functools.reduce(lambda a, b: a * b, data.shape[data.ndim - count + i + 1 :], 1))
        out = ag.isnan(beside)
        outside = out if outside is None else outside | out
    choices = list(itertools.product(*(range(places.shape[1]) for places, _ in corners)))
    chosen = [[(p[:, j], w[:, j]) for (p, w), j in zip(corners, choice, strict=True)] for choice in choices]
    at = ag.stack([sum(p * s for (p, _), s in zip(each, strides, strict=True)) for each in chosen], axis=1)
    weights = ag.stack([functools.reduce(lambda a, b: a * b, (w for _, w in each)) for each in chosen], axis=1)
    flat = ag.reshape(data, (*data.shape[: data.ndim - count], -1))
    inside = ag.where(ag.expand_dims(outside, axis=1), 0.0, weights)
    beside = ag.where(outside, 0.0 if fill is None else fill, 0.0)
    return flat, (at, inside), ag.reshape(beside, shape), shape


# -- what pandas and bottleneck do for NumPy's arrays -----------------------------------------------------------------------


def _nan_end(of_arrays: Any, *, last: bool) -> Any:
    @functools.wraps(of_arrays)
    def end(values: Any, axis: Any, keepdims: bool = False) -> Any:
        if not isinstance(values, ag.Tensor):
            return of_arrays(values, axis, keepdims=keepdims)
        (axis,) = axis if isinstance(axis, tuple) else (axis,)
        there = ag.astype(~ag.isnan(values), ag.int8)
        place = ag.argmax(ag.flip(there, axis=axis) if last else there, axis=axis, keepdims=True)
        found = ag.take_along_axis(values, values.shape[axis] - 1 - place if last else place, axis=axis)
        return found if keepdims else ag.squeeze(found, axis=axis)

    return end


_push = missing.push


@functools.wraps(_push)
def _filled(array: Any, n: Any, axis: int, **options: Any) -> Any:
    if not isinstance(array, ag.Tensor):
        return _push(array, n, axis, **options)
    axis %= array.ndim
    size = array.shape[axis]
    places = ag.reshape(ag.arange(size, device=array.device), (-1, *(1,) * (array.ndim - axis - 1)))
    last = np.maximum.accumulate(ag.where(ag.isnan(array), -1, places), axis=axis)
    found = ag.take_along_axis(array, ag.maximum(last, 0), axis=axis)
    return ag.where((last >= 0) & (places - last <= (size if n is None else n)), found, float("nan"))


_refused = indexing.ArrayApiIndexingAdapter._vindex_get


def _points(self: Any, indexer: Any) -> Any:
    if not isinstance(self.array, ag.Tensor):
        return _refused(self, indexer)
    return nputils.NumpyVIndexAdapter(self.array)[indexer.tuple]


# -- chunks -----------------------------------------------------------------------------------------------------------------

_chunk, _maybe_chunk = Variable.chunk, dataset._maybe_chunk


@functools.wraps(_chunk)
def _in_chunks(self: Any, chunks: Any = {}, *args: Any, **options: Any) -> Any:  # noqa: B006 (xarray's)
    if not isinstance(self._data, ag.Tensor):
        return _chunk(self, chunks, *args, **options)
    if not chunks or isinstance(chunks, dict):
        wanted = dict(chunks or {}, **options)
        chunks = {axis: wanted[dim] for axis, dim in enumerate(self.dims) if dim in wanted}
    return self._replace(data=self._data.to_device("dask").rechunk(chunks))


@functools.wraps(_maybe_chunk)
def _of_dataset(name: Any, var: Any, chunks: Any, *args: Any, **options: Any) -> Any:
    if not isinstance(var._data, ag.Tensor):
        return _maybe_chunk(name, var, chunks, *args, **options)
    return var.chunk(chunks) if var.ndim else var


def _lengths(variable: Any) -> Any:
    """Return the chunks of a variable that is a tensor, None if that is in one piece."""
    return variable._data.chunks if variable._data._spec.backend.is_chunked else None


_chunks, _chunksizes, _all_chunksizes = NamedArray.chunks, NamedArray.chunksizes, common.get_chunksizes


@functools.wraps(_chunks.fget)
def _chunks_of(self: Any) -> Any:
    return _lengths(self) if isinstance(self._data, ag.Tensor) else _chunks.fget(self)


@functools.wraps(_chunksizes.fget)
def _chunksizes_of(self: Any) -> Any:
    if not isinstance(self._data, ag.Tensor):
        return _chunksizes.fget(self)
    return dict(zip(self.dims, _lengths(self) or (), strict=False))


@functools.wraps(_all_chunksizes)
def _chunksizes_of_all(variables: Any) -> Any:
    variables = list(variables)
    found = dict(_all_chunksizes([v for v in variables if not isinstance(v._data, ag.Tensor)]))
    for variable in variables:
        for dim, lengths in _chunksizes_of(variable).items() if isinstance(variable._data, ag.Tensor) else ():
            if found.setdefault(dim, lengths) != lengths:
                raise ValueError(
                    f"Object has inconsistent chunks along dimension {dim}. This can be fixed by calling unify_chunks()."
                    f"{errors.called()}"
                )
    return Frozen(found)


_manager, _unify = structure_chunks.get_chunked_array_type, DaskManager.unify_chunks


@functools.wraps(_manager)
def _manager_of(*arrays: Any) -> Any:
    return DaskManager() if any(isinstance(x, ag.Tensor) for x in arrays) else _manager(*arrays)


@functools.wraps(_unify)
def _unified(self: Any, *args: Any, **options: Any) -> Any:
    plain = [x.detach()._raw if isinstance(x, ag.Tensor) else x for x in args]
    chunks, arrays = _unify(self, *plain, **options)
    pairs = zip(args[::2], arrays, strict=True)
    return chunks, [x.rechunk(found.chunks) if isinstance(x, ag.Tensor) else found for x, found in pairs]


def _of_tensors_too(method: Any, computing: Any) -> Any:
    """Return `load` or `persist` of a Dataset which computes tensors too, in one pass."""

    @functools.wraps(method)
    def of_both(self: Any, **options: Any) -> Any:
        computing(*(v._data for v in self.variables.values() if isinstance(v._data, ag.Tensor)))
        return method(self, **options)

    return of_both


# -- files ------------------------------------------------------------------------------------------------------------------


def _of_arrays(write: Any) -> Any:
    """A writer that is given arrays for tensors: Dask's for what is lazy, so that each chunk is written when it is computed."""

    def array(name: Any, variable: Any) -> Any:
        tensor = variable._data
        if tensor._is_followed():
            raise RuntimeError(
                f"Can't call {write.__name__}() on Tensor that requires grad. Use a.copy(data=a.data.detach()) instead."
                f"\n  It is the variable {name!r}; nothing was written.{errors.called()}"
            )
        return variable._replace(data=tensor.to_dask_array() if hasattr(tensor._raw, "dask") else tensor.numpy())

    @functools.wraps(write)
    def written(dataset: Any, *args: Any, **options: Any) -> Any:
        arrays = {name: array(name, v) for name, v in dataset.variables.items() if isinstance(v._data, ag.Tensor)}
        return write(dataset.assign(arrays) if arrays else dataset, *args, **options)

    return written


# -- operands of several backends, and arrays beside tensors -----------------------------------------------------------------

_namespace_of, _einsum = duck_array_ops.get_array_namespace, duck_array_ops.einsum


@functools.wraps(_namespace_of)
def _namespace(*values: Any) -> Any:
    backends = {v._spec.backend: v for v in values if isinstance(v, ag.Tensor)}
    if len(backends) > 1 and (where := joined(backends)) is not None:
        return backends[where].__array_namespace__()
    return _namespace_of(*values)


@functools.wraps(_einsum)
def _products(*operands: Any, **options: Any) -> Any:
    if any(isinstance(x, ag.Tensor) for x in operands):
        return np.einsum(*operands, **options)  # xarray asks the library of the first, which may be Dask
    return _einsum(*operands, **options)


errors.INTERNAL_FILES.update(
    errors.sources(os.path.dirname(xarray.__file__))
)  # the user's line is the one that calls them
missing._interpnd = _of_tensors
missing.push = _filled
nputils.nanfirst = _nan_end(nputils.nanfirst, last=False)
nputils.nanlast = _nan_end(nputils.nanlast, last=True)
indexing.ArrayApiIndexingAdapter._vindex_get = _points
structure_chunks.get_chunked_array_type = _manager_of
DaskManager.unify_chunks = _unified
NamedArray.chunks = property(_chunks_of)
NamedArray.chunksizes = property(_chunksizes_of)
for _module in (common, dataarray, dataset):
    _module.get_chunksizes = _chunksizes_of_all
Variable.chunk = _in_chunks
dataset._maybe_chunk = _of_dataset
duck_array_ops.get_array_namespace = _namespace
duck_array_ops.einsum = _products
Dataset.load = _of_tensors_too(Dataset.load, ag.compute)
Dataset.persist = _of_tensors_too(Dataset.persist, ag.persist)
for _name in ("to_netcdf", "to_zarr", "dump_to_store"):
    setattr(writers, _name, _of_arrays(getattr(writers, _name)))

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
