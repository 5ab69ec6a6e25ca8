"""xarray on tensors: importing this module makes xarray's methods that use SciPy, pandas or bottleneck accept tensors too.

Most of xarray works without it, because it calls NumPy's functions, which accept tensors: arithmetic, reductions,
groups, windows, calculus. This module is needed for `interp`, `ffill`, `bfill`, `first` and `last` of groups, choosing
points by arrays (``da.isel(time=points, place=points)``), `chunk`, which rechunks the tensor itself within the graph,
`chunks`, `compute`, `load` and `persist`, and writing files. xarray must be installed.

Each of these replaces a function within xarray; they are listed in one table, `REPLACED`. If a release of xarray does
not have one in its known form, the import works, and the methods that need it raise when they get a tensor.

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
import inspect
import itertools
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import xarray

import agrad as ag
import agrad.numpy as np
from agrad import tree
from agrad.core import errors
from agrad.core import names as _names
from agrad.core.backend import joined
from agrad.core.materialize import fill, pending_losses

__all__: list[str] = []

#: xarray's interface for extensions: here `agrad.chunk_manager`.
_MANAGERS = "xarray.namedarray.parallelcompat:ChunkManagerEntrypoint"

#: The releases of xarray with which this module was tested.
TESTED = ("2026.9.0",)

# -- interpolation: a linear map of the values, which xarray's own code tells of --------------------------------------------

#: Functions of xarray that this module calls.
_INTERPOLATOR, _TOGETHER = "xarray.core.missing:_get_interpolator", "xarray.core.variable:broadcast_variables"

#: Methods whose results are not a linear function of the values.
_NOT_LINEAR = ("akima", "makima", "pchip")


def _columns(
    of_arrays: Any, places: Any, wanted: Any, interpolator: Any, options: dict[str, Any], dims: Any
) -> tuple[Any, Any]:
    """Return the contribution of each value along one axis to each result, shape (n, ...), and the constant part of the results."""

    def run(values: Any) -> Any:
        return of_arrays(
            values, places, wanted, interp_func=interpolator, interp_kwargs=options, result_coord_core_dims=[dims]
        )

    identity = ag.eye(len(places), device="numpy").numpy()
    beside = ag.asarray(run(identity[:1] * 0))[0]
    columns = ag.asarray(run(identity)) - beside
    return ag.where(ag.isnan(columns), 0.0, columns), beside


def _nonzero(columns: Any) -> tuple[Any, Any]:
    """Return positions and values of the nonzero elements in each column, each of shape (p, k) for the largest count k."""
    rows = columns.T
    found = rows != 0
    count = max(int(ag.max(ag.sum(found, axis=1))), 1)
    places = ag.argsort(ag.astype(found, ag.int8), axis=1, descending=True, stable=True)[:, :count]
    chosen = ag.take_along_axis(found, places, axis=1)
    # Padding uses one of the column's own elements, times 0: a NaN elsewhere does not reach the result.
    return ag.where(chosen, places, places[:, :1]), ag.take_along_axis(rows, places, axis=1)


def _interpolation(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def interpolated(
        data: Any, *coords: Any, interp_func: Any, interp_kwargs: dict[str, Any], result_coord_core_dims: list[Any]
    ) -> Any:
        function = functools.partial(_of_tensors, of_arrays) if isinstance(data, ag.Tensor) else of_arrays
        return function(
            data, *coords, interp_func=interp_func, interp_kwargs=interp_kwargs,
            result_coord_core_dims=result_coord_core_dims,
        )  # fmt: skip

    return interpolated


def _of_tensors(
    of_arrays: Any, data: Any, *coords: Any, interp_func: Any, interp_kwargs: dict[str, Any],
    result_coord_core_dims: list[Any],
) -> Any:  # fmt: skip
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
        columns, beside = _columns(
            of_arrays, coords[0], coords[1], interp_func, interp_kwargs, result_coord_core_dims[0]
        )
        shape = columns.shape[1:]
        columns = ag.reshape(columns, (columns.shape[0], -1))
    else:
        data, columns, beside, shape = _of_several(of_arrays, data, coords, interp_kwargs, result_coord_core_dims)
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


def _of_several(
    of_arrays: Any, data: Any, coords: Any, options: dict[str, Any], dims: list[Any]
) -> tuple[Any, Any, Any, Any]:
    """The same along several axes at once: corners of cells, with the products of the weights along each axis."""
    interpolator, together = resolve_name(_INTERPOLATOR), resolve_name(_TOGETHER)
    count, method = len(coords) // 2, options["method"]
    if method not in ("linear", "nearest"):
        raise TypeError(
            f"interp(method={method!r}) of several dimensions at once is not defined for tensors; use 'linear' or"
            " 'nearest', or one dimension after the other."
        )
    fill = options.get("fill_value", float("nan"))
    one, own = interpolator(method, vectorizeable_only=True)
    if fill is None:
        own["fill_value"] = "extrapolate"
    wanted = together(*(xarray.Variable(d, c) for d, c in zip(dims, coords[count:], strict=True)))
    shape = wanted[0].shape
    corners, strides, outside = [], [], None
    for i, (places, new) in enumerate(zip(coords[:count], wanted, strict=True)):
        columns, beside = _columns(of_arrays, places, new.data.ravel(), one, own, ("point",))
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


def _filling(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def filled(array: Any, n: Any, axis: int, **options: Any) -> Any:
        if not isinstance(array, ag.Tensor):
            return of_arrays(array, n, axis, **options)
        axis %= array.ndim
        size = array.shape[axis]
        places = ag.reshape(ag.arange(size, device=array.device), (-1, *(1,) * (array.ndim - axis - 1)))
        last = np.maximum.accumulate(ag.where(ag.isnan(array), -1, places), axis=axis)
        found = ag.take_along_axis(array, ag.maximum(last, 0), axis=axis)
        return ag.where((last >= 0) & (places - last <= (size if n is None else n)), found, float("nan"))

    return filled


#: A class of xarray that this module calls.
_INDEXED = "xarray.core.nputils:NumpyVIndexAdapter"


def _points(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def points(self: Any, indexer: Any) -> Any:
        if not isinstance(self.array, ag.Tensor):
            return of_arrays(self, indexer)
        return resolve_name(_INDEXED)(self.array)[indexer.tuple]

    return points


# -- chunks -----------------------------------------------------------------------------------------------------------------


def _manager() -> Any:
    """Return the manager of tensors in chunks."""
    from agrad.chunk_manager import ChunkManager  # noqa: PLC0415 (which needs what stands in the table)

    return ChunkManager()


def _cutting(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def cut(self: Any, *args: Any, **options: Any) -> Any:
        if isinstance(self._data, ag.Tensor):
            options["chunked_array_type"] = _manager()
        return of_arrays(self, *args, **options)

    return cut


def _cutting_of_datasets(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def cut(name: Any, var: Any, *args: Any, **options: Any) -> Any:
        if isinstance(var._data, ag.Tensor):
            options["chunked_array_type"] = _manager()
        return of_arrays(name, var, *args, **options)

    return cut


def _lengths(variable: Any) -> Any:
    """Return the chunks of a variable that is a tensor, None if it is in one piece."""
    return variable._data.chunks if variable._data._spec.backend.is_chunked else None


def _sizes(variable: Any) -> dict[Any, Any]:
    return dict(zip(variable.dims, _lengths(variable) or (), strict=False))


def _chunks(of_arrays: Any) -> Any:
    return property(lambda self: _lengths(self) if isinstance(self._data, ag.Tensor) else of_arrays.fget(self))


def _chunksizes(of_arrays: Any) -> Any:
    return property(lambda self: _sizes(self) if isinstance(self._data, ag.Tensor) else of_arrays.fget(self))


def _all_chunksizes(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def of_all(variables: Any) -> Any:
        variables = list(variables)
        found = of_arrays([v for v in variables if not isinstance(v._data, ag.Tensor)])
        frozen, found = type(found), dict(found)
        for variable in variables:
            for dim, lengths in _sizes(variable).items() if isinstance(variable._data, ag.Tensor) else ():
                if found.setdefault(dim, lengths) != lengths:
                    raise ValueError(
                        f"Object has inconsistent chunks along dimension {dim}. This can be fixed by calling"
                        f" unify_chunks().{errors.called()}"
                    )
        return frozen(found)

    return of_all


def _managing(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def manager(*arrays: Any) -> Any:
        return _manager() if any(isinstance(x, ag.Tensor) for x in arrays) else of_arrays(*arrays)

    return manager


def _loading(method: Any) -> Any:
    return _of_tensors_too(method, ag.compute)


def _persisting(method: Any) -> Any:
    return _of_tensors_too(method, ag.persist)


def _of_tensors_too(method: Any, computing: Any) -> Any:
    """Return `load` or `persist` of a Dataset that also computes tensors, in one pass."""

    @functools.wraps(method)
    def of_both(self: Any, **options: Any) -> Any:
        computing(*(v._data for v in self.variables.values() if isinstance(v._data, ag.Tensor)))
        return method(self, **options)

    return of_both


# -- functions of labelled blocks --------------------------------------------------------------------------------------------


def _mapping(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def map_blocks(
        func: Any, obj: Any, args: Any = (), kwargs: dict[str, Any] | None = None, template: Any = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        given = (obj, *args, *kwargs.values())
        held = (_tensors(v) if _is_labelled(v) else tree.flatten(v)[0] for v in given)
        if any(isinstance(x, ag.Tensor) for x in itertools.chain.from_iterable(held)):
            return _of_blocks(func, obj, args, kwargs, template)
        return of_arrays(func, obj, args, kwargs, template)

    return map_blocks


#: Whether a caller requests that a function runs on blocks; functions that xarray calls itself get whole tensors, and
#: are recorded.
_ON_BLOCKS: ContextVar[bool] = ContextVar("agrad_on_blocks", default=False)


def _on_blocks(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def apply_ufunc(func: Any, *args: Any, **options: Any) -> Any:
        held = itertools.chain.from_iterable(map(_tensors, args))
        if options.get("dask") != "parallelized" or not any(t._spec.backend.is_chunked for t in held):
            return of_arrays(func, *args, **options)
        # xarray would check the chunks, of which a tensor shows none; they are checked where the function is called
        options["dask_gufunc_kwargs"] = {"allow_rechunk": False} | (options.get("dask_gufunc_kwargs") or {})
        token = _ON_BLOCKS.set(True)
        try:
            return of_arrays(func, *args, **options)
        finally:
            _ON_BLOCKS.reset(token)

    return apply_ufunc


def _is_cut(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def is_chunked_array(x: Any) -> bool:
        return x._spec.backend.is_chunked if _ON_BLOCKS.get() and isinstance(x, ag.Tensor) else bool(of_arrays(x))

    return is_chunked_array


def _is_labelled(value: Any) -> bool:
    return isinstance(value, xarray.DataArray | xarray.Dataset)


def _of_blocks(func: Any, obj: Any, args: Any, kwargs: dict[str, Any], template: Any) -> Any:
    """Call a function on each labelled block, and assemble its results by the labels; all of these are steps of the graph."""
    lengths: dict[Any, tuple[int, ...]] = {}
    for value in (obj, *args):
        for dim, found in value.chunksizes.items() if _is_labelled(value) else ():
            if lengths.setdefault(dim, found) != found:
                raise ValueError(
                    f"map_blocks: blocks along {dim!r} have lengths {lengths[dim]} and {found}: xarray.unify_chunks(...) before"
                    f"{errors.called()}"
                )
    dims = [dim for dim, along in lengths.items() if len(along) > 1]
    ends = {dim: list(itertools.accumulate(lengths[dim])) for dim in dims}

    def block(value: Any, places: tuple[int, ...]) -> Any:
        if not _is_labelled(value):
            return value
        at = {dim: slice(ends[dim][i] - lengths[dim][i], ends[dim][i]) for dim, i in zip(dims, places, strict=True)}
        return value.isel({dim: part for dim, part in at.items() if dim in value.dims})

    def together(places: tuple[int, ...]) -> Any:
        if len(places) < len(dims):
            dim = dims[len(places)]
            parts = [together((*places, i)) for i in range(len(ends[dim]))]
            how = {} if isinstance(parts[0], xarray.DataArray) else {"data_vars": "minimal"}
            return xarray.concat(parts, dim, coords="minimal", compat="override", join="exact", **how)
        made = func(block(obj, places), *(block(a, places) for a in args), **kwargs)
        if not _is_labelled(made):
            raise TypeError(
                f"map_blocks: the function must return a DataArray or a Dataset, got {type(made).__name__}{errors.called()}"
            )
        for variable in [made] if isinstance(made, xarray.DataArray) else made.data_vars.values():
            lost = [dim for dim in dims if dim not in variable.dims]
            if lost:
                raise ValueError(
                    f"map_blocks: the function's result has no dimension {lost[0]!r}, of which there are"
                    f" {len(ends[lost[0]])} blocks: chunk({{{lost[0]!r}: -1}}) puts them into one{errors.called()}"
                )
        return made

    made = together(())
    if template is not None and (type(made), made.sizes) != (type(template), template.sizes):
        raise ValueError(
            f"map_blocks: the function gives a {type(made).__name__} of sizes {dict(made.sizes)}, the template is a"
            f" {type(template).__name__} of sizes {dict(template.sizes)}{errors.called()}"
        )
    return made


# -- files ------------------------------------------------------------------------------------------------------------------


def _of_arrays(write: Any) -> Any:
    """A writer that receives arrays for tensors: Dask's for lazy ones, so that each chunk is written when it is computed."""

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
        tensors = {name: v for name, v in dataset.variables.items() if isinstance(v._data, ag.Tensor)}
        if not tensors:
            return write(dataset, *args, **options)
        token = _WRITING.set([v._data for v in tensors.values()])
        try:
            return write(dataset.assign({name: array(name, v) for name, v in tensors.items()}), *args, **options)
        finally:
            _WRITING.reset(token)

    return written


#: The tensors that are being written.
_WRITING: ContextVar[list[Any]] = ContextVar("agrad_writing", default=[])  # noqa: B039 (never written to)


def _storing(store: Any) -> Any:
    """Have Dask's arrays that were tensors computed as agrad computes, with the losses they came from."""

    @functools.wraps(store)
    def stored(self: Any, sources: Any, targets: Any, **options: Any) -> Any:
        tensors = _WRITING.get()
        if not tensors or not options.get("compute", True) or options.get("return_stored"):
            return store(self, sources, targets, **options)
        made = store(self, sources, targets, **(options | {"compute": False, "return_stored": False}))
        fill([loss for t in tensors for loss in pending_losses(t)], made if isinstance(made, list | tuple) else [made])
        return None

    return stored


# -- operands of several backends, and arrays beside tensors -----------------------------------------------------------------


def _namespaces(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def namespace(*values: Any) -> Any:
        backends = {v._spec.backend: v for v in values if isinstance(v, ag.Tensor)}
        if len(backends) > 1 and (where := joined(backends)) is not None:
            return backends[where].__array_namespace__()
        return of_arrays(*values)

    return namespace


def _products(of_arrays: Any) -> Any:
    @functools.wraps(of_arrays)
    def products(*operands: Any, **options: Any) -> Any:
        if any(isinstance(x, ag.Tensor) for x in operands):
            return np.einsum(*operands, **options)  # xarray asks the library of the first, which may be Dask
        return of_arrays(*operands, **options)

    return products


# -- what is replaced within xarray -----------------------------------------------------------------------------------------


def _tensors(value: Any) -> Iterator[Any]:
    """Return the tensors in an xarray object, or in the object that its groups belong to."""
    value = getattr(value, "_obj", value)
    for node in getattr(value, "subtree", (value,)):
        held = (
            [node.variable] if isinstance(node, xarray.DataArray) else getattr(node, "variables", {"": node}).values()
        )
        yield from (v._data for v in held if isinstance(getattr(v, "_data", None), ag.Tensor))


def _there(args: Any, options: Any) -> bool:  # noqa: ARG001 (as those below)
    """Return whether a method was called on tensors."""
    return any(True for _ in _tensors(args[0]))


def _in_chunks(args: Any, options: Any) -> bool:  # noqa: ARG001
    """Return whether a method was called on tensors in chunks."""
    return any(t._spec.backend.is_chunked for t in _tensors(args[0]))


def _unmanaged(args: Any, options: Any) -> bool:
    """Return whether tensors should be rechunked, and no chunk manager is named."""
    return _there(args, options) and options.get("chunked_array_type") is None


def _at_points(args: Any, options: Any) -> bool:
    """Return whether elements of tensors are chosen by arrays with dimensions of their own."""
    keys = [*options.values(), *(v for a in args[1:] if isinstance(a, dict) for v in a.values())]
    return _there(args, options) and sum(hasattr(key, "dims") for key in keys) > 1


def _of_several_backends(args: Any, options: Any) -> bool:
    """Return whether tensors of several backends are combined."""
    labelled = [value for value in (*args, *options.values()) if hasattr(value, "coords")]
    return len({t._spec.backend for value in labelled for t in _tensors(value)}) > 1


class Replaced(NamedTuple):
    """A function of xarray that is replaced by one that also accepts tensors.

    Attributes
    ----------
    place : str
        Its place in xarray: ``module:name``, or ``module:class.name``.
    takes : str
        Its first parameters, as far as they are used here.
    by : callable
        Creates the replacement from the original function.
    methods : str
        The methods that need it, of `DataArray`, `Dataset`, `DataTree` and groups.
    concerns : callable
        Whether a call of such a method depends on it, given its arguments.
    needs : tuple of str, optional
        Other xarray functions that it calls.
    """

    place: str
    takes: str
    by: Callable[[Any], Any]
    methods: str
    concerns: Callable[[Any, Any], bool] = _there
    needs: tuple[str, ...] = ()


_FILES, _TOGETHER_METHODS = "to_netcdf to_zarr", "where fillna combine_first clip dot"

#: All of them. Every replacement in xarray is made here, and nowhere else.
REPLACED = (
    Replaced("xarray.core.missing:_interpnd", "data coords interp_func interp_kwargs result_coord_core_dims", _interpolation,
             "interp interp_like", needs=(_INTERPOLATOR, _TOGETHER)),
    Replaced("xarray.core.missing:push", "array n axis", _filling, "ffill bfill"),
    Replaced("xarray.core.nputils:nanfirst", "values axis keepdims", functools.partial(_nan_end, last=False), "first"),
    Replaced("xarray.core.nputils:nanlast", "values axis keepdims", functools.partial(_nan_end, last=True), "last"),
    Replaced("xarray.core.indexing:ArrayApiIndexingAdapter._vindex_get", "self indexer", _points, "isel sel", _at_points,
             (_INDEXED,)),
    Replaced("xarray.core.variable:Variable.chunk", "self", _cutting, "chunk", _unmanaged, (_MANAGERS,)),
    Replaced("xarray.core.dataset:_maybe_chunk", "name var", _cutting_of_datasets, "chunk", _unmanaged, (_MANAGERS,)),
    Replaced("xarray.namedarray.core:NamedArray.chunks", "self", _chunks, "chunks", _in_chunks),
    Replaced("xarray.namedarray.core:NamedArray.chunksizes", "self", _chunksizes, "chunksizes", _in_chunks),
    Replaced("xarray.core.common:get_chunksizes", "variables", _all_chunksizes, "chunksizes", _in_chunks),
    Replaced("xarray.core.dataarray:get_chunksizes", "variables", _all_chunksizes, "chunksizes", _in_chunks),
    Replaced("xarray.core.dataset:get_chunksizes", "variables", _all_chunksizes, "chunks chunksizes", _in_chunks),
    Replaced("xarray.structure.chunks:get_chunked_array_type", "args", _managing, "unify_chunks", _in_chunks, (_MANAGERS,)),
    Replaced("xarray.computation.apply_ufunc:get_chunked_array_type", "args", _managing, "", _in_chunks, (_MANAGERS,)),
    Replaced("xarray.computation.apply_ufunc:is_chunked_array", "x", _is_cut, ""),
    Replaced("xarray:apply_ufunc", "func args", _on_blocks, ""),
    Replaced("xarray.core.parallel:map_blocks", "func obj args kwargs template", _mapping, "map_blocks"),
    Replaced("xarray:map_blocks", "func obj args kwargs template", _mapping, "map_blocks"),
    Replaced("xarray.core.duck_array_ops:get_array_namespace", "values", _namespaces, _TOGETHER_METHODS, _of_several_backends),
    Replaced("xarray.core.duck_array_ops:einsum", "args kwargs", _products, "dot", _of_several_backends),
    Replaced("xarray.core.dataset:Dataset.load", "self", _loading, "compute load"),
    Replaced("xarray.core.dataset:Dataset.persist", "self", _persisting, "persist"),
    Replaced("xarray.namedarray.daskmanager:DaskManager.store", "self sources targets", _storing, _FILES),
    Replaced("xarray.backends.writers:to_netcdf", "dataset", _of_arrays, _FILES),
    Replaced("xarray.backends.writers:to_zarr", "dataset", _of_arrays, _FILES),
    Replaced("xarray.backends.writers:dump_to_store", "dataset", _of_arrays, _FILES),
)  # fmt: skip


def _found(place: str) -> tuple[Any, str, Any]:
    """Return the module or class of an xarray function, its name there, and the function; raise AttributeError or ImportError if it is gone."""
    owner, _, name = place.rpartition("." if "." in place.partition(":")[2] else ":")
    holder = resolve_name(owner)
    return holder, name, getattr(holder, name)


def _lacks(part: Replaced) -> str:
    """Return the xarray functions that are not in their known form, "" if all are."""
    for place in (part.place, *part.needs):
        try:
            _, _, function = _found(place)
        except (AttributeError, ImportError):
            return f"has no {place.replace(':', '.')}"
    _, _, function = _found(part.place)
    wanted = part.takes.split()
    given = list(inspect.signature(_called(function)).parameters)
    if given[: len(wanted)] != wanted:
        return f"has {part.place.replace(':', '.')} with the parameters {', '.join(given)}"
    return ""


def _called(method: Any) -> Callable[..., Any]:
    found: Any = method.fget if isinstance(method, property) else method
    return found  # type: ignore[no-any-return] # xarray is not checked


def replace(part: Replaced) -> None:
    """Replace an xarray function; if it is not in its known form, make the methods that need it raise."""
    lacking = _lacks(part)
    if not lacking:
        holder, name, function = _found(part.place)
        setattr(holder, name, part.by(function))
        return
    for holder in (xarray.DataArray, xarray.Dataset, xarray.DataTree, *_groups()):
        for name in part.methods.split():
            if hasattr(holder, name):
                setattr(holder, name, _refusing(getattr(holder, name), name, part, lacking))


def _groups() -> tuple[type, ...]:
    """Return the class of groups, which has no public name: that of an array method's result."""
    groups = type(xarray.DataArray([0.0], dims="x", coords={"x": [0]}).groupby("x"))
    return tuple(cls for cls in groups.__mro__ if "first" in vars(cls))


def _refusing(method: Any, name: str, part: Replaced, lacking: str) -> Any:
    """Return a method, or property, that raises if it would need the missing function."""
    of = _called(method)

    @functools.wraps(of)
    def refusing(*args: Any, **options: Any) -> Any:
        if part.concerns(args, options):
            manager = '; or give chunked_array_type="agrad"' if name == "chunk" else ""
            raise NotImplementedError(
                f"{name} of tensors is not supported with xarray {xarray.__version__}, which {lacking}.\n  It was tested with"
                f" {', '.join(TESTED)}: pip install xarray=={TESTED[-1]}{manager}; or take the values,"
                f" a.copy(data=a.data.detach().numpy()).{errors.called()}"
            )
        return of(*args, **options)

    return property(refusing) if isinstance(method, property) else refusing


errors.INTERNAL_FILES.update(
    errors.sources(os.path.dirname(xarray.__file__))
)  # the user's line is the one that calls them
for _part in REPLACED:
    replace(_part)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
