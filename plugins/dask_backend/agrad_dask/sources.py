"""Data on disk as Dask tensors: zarr stores and NumPy's files, and advice about chunks.

May import Dask; imported when one of its functions is first used.
"""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

import dask.array as da
import numpy as np

import agrad as ag
from agrad import Tensor
from agrad.plugin.backend import called, getframe, internal, user_frame
from agrad_dask.workers import ChunkWarning

#: The memory of a larger chunk, in bytes, is mapped anew by glibc at every allocation (its threshold grows to this and
#: no further), and page faults then take most of the time.
LARGEST = 2**25
#: The default size of chunks: several of them, and results of their size, are in memory.
USUAL = 2**24

internal(__file__)


def from_zarr(store: Any, chunks: Any = None, *, path: str | None = None, **options: Any) -> Tensor:
    """Return an array in a zarr store as a lazy tensor.

    Parameters
    ----------
    store : str, path, zarr.Array or zarr store
        The store's location; any argument of `zarr.open_array`, or its result.
    chunks : int, tuple, dict or str, optional
        The chunks to read, as for `dask.array.from_array`; a dict is by axis, or by the names of dimensions if the
        store has them. Default: whole rows (everything but the first axis in one chunk) if the chunks of the store
        allow it, and about 16 MiB in multiples of the store's chunks.
    path : str, optional
        The name of the array if the store holds a group.
    **options
        For `zarr.open_array`, as ``storage_options``.

    Returns
    -------
    Tensor
        On the Dask backend. Nothing is read before something is computed. If a chunk is exactly one chunk of the store,
        its block is the array that zarr decoded, read-only, without the copy that slicing a zarr array makes.

    Raises
    ------
    ImportError
        If zarr is not installed.
    ValueError
        If the store holds a group, or `chunks` names an axis that does not exist.
    TypeError
        If an option is passed that is called `path` here: Dask's ``component``, xarray's ``group``.

    Warns
    -----
    ChunkWarning
        If `chunks` are above 32 MiB or not multiples of the store's, with a better choice.

    Notes
    -----
    Values are those in the store. For packed values, such as small integers with ``scale_factor``, ``add_offset`` and
    ``_FillValue``, use `xarray.open_zarr`, which unpacks them, and `from_xarray`.

    Examples
    --------
    >>> import agrad_dask, numpy as np, zarr
    >>> array = zarr.create_array({}, shape=(6, 2), chunks=(2, 2), dtype="float32")
    >>> array[:] = np.ones((6, 2))
    >>> float(agrad_dask.from_zarr(array).sum())
    12.0
    """
    try:
        import zarr  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise ImportError("from_zarr needs zarr: pip install zarr") from error
    for name in options.keys() & {"component", "group"}:
        raise TypeError(
            f"from_zarr() got an unexpected keyword argument {name!r}; the name of the array in the store is path="
            f"{options[name]!r} here{called()}"
        )
    if isinstance(store, zarr.Array):
        array = store
    else:
        array = zarr.open(_plain(store), path=path, mode="r", **options)
        if isinstance(array, zarr.Group):
            names = ", ".join(sorted(name for name, _ in array.arrays())) or "no arrays"
            message = f"{path or store} is a zarr group: name one of its arrays with path=. It has {names}."
            raise ValueError(message)  # noqa: TRY004 (the path is wrong)
    stored = getattr(array, "shards", None) or array.chunks  # for a sharded array a whole shard is opened
    from agrad_dask.zarr_reader import ZarrArray  # noqa: PLC0415 (imports zarr)

    if isinstance(chunks, dict):
        names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
        chunks = _by_axis(chunks, array.shape, names)
    return _tensor(ZarrArray(array), chunks, stored)


def _by_axis(chunks: dict[Any, Any], shape: tuple[int, ...], names: Any) -> dict[int, Any]:
    """Return chunks given by the names of dimensions as chunks by axis number."""
    names = tuple(names or ())
    axes = {name: axis for axis, name in enumerate(names) if name is not None}
    found: dict[int, Any] = {}
    for key, value in chunks.items():
        axis = axes.get(key, key)
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            there = f"dimensions {names}" if axes else "no names of dimensions"
            raise ValueError(
                f"chunks= names {key!r}, and the array of shape {shape} has {there}: give its axes by number, 0 to"
                f" {len(shape) - 1}{called()}"
            )
        found[axis % len(shape)] = value
    return found


def from_xarray(data: Any, chunks: Any = None, *, dims: Any = None) -> Tensor:
    """Return the values of an xarray object as a lazy tensor.

    Parameters
    ----------
    data : xarray.DataArray or xarray.Variable
        As returned by `xarray.open_zarr` and `xarray.open_dataset`; not read.
    chunks : int, tuple, dict or str, optional
        The chunks, by the names of dimensions or in their order. Default: its own; if it has none, Dask's choice.
    dims : sequence of str, optional
        The dimensions in the order of the tensor's axes. Default: unchanged.

    Returns
    -------
    Tensor
        On the Dask backend. Names of dimensions and coordinates are dropped: to keep them, use `agrad.xarray`.

    Raises
    ------
    TypeError
        If it is a Dataset, or not an xarray object.

    Examples
    --------
    >>> import agrad_dask, numpy as np, xarray
    >>> data = xarray.DataArray(np.ones((6, 2)), dims=("time", "place"))
    >>> agrad_dask.from_xarray(data, {"time": 3}, dims=("place", "time")).chunks
    ((2,), (3, 3))
    """
    if not hasattr(data, "transpose") or not hasattr(data, "dims") or hasattr(data, "data_vars"):
        raise TypeError(
            f"from_xarray() takes a DataArray or a Variable, not {type(data).__name__}"
            f'\n  Of a Dataset take a variable, ds["name"], or ds.to_dataarray().{called()}'
        )
    if dims is not None:
        data = data.transpose(*dims)
    if chunks is not None or data.chunks is None:
        by_name = isinstance(chunks, dict | int | str) or chunks is None
        data = data.chunk(
            ("auto" if chunks is None else chunks) if by_name else dict(zip(data.dims, chunks, strict=True))
        )
    return ag.asarray(data.data)


def from_npy(path: str | os.PathLike[str], chunks: Any = None) -> Tensor:
    """Return an array in a ``.npy`` file as a lazy tensor; every chunk is a part of the file, mapped into memory.

    Parameters
    ----------
    path : str or path
        A file written by `numpy.save`. On a cluster all workers must be able to read it.
    chunks : int, tuple or str, optional
        As for `dask.array.from_array`. Default: whole rows, about 16 MiB of them.

    Returns
    -------
    Tensor
        On the Dask backend. Nothing is read before something is computed.

    Raises
    ------
    ValueError
        If the file does not hold such an array.

    Warns
    -----
    ChunkWarning
        If `chunks` are above 32 MiB.

    Examples
    --------
    >>> import agrad_dask, numpy as np, os, tempfile
    >>> name = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(name, np.arange(6.0).reshape(3, 2))
    >>> float(agrad_dask.from_npy(name).sum())
    15.0
    """
    return _tensor(NpyFile(_plain(path)), chunks, None)


def from_npy_stack(directory: str | os.PathLike[str]) -> Tensor:
    """Return an array that `dask.array.to_npy_stack` wrote as a lazy tensor: a chunk per file, mapped into memory.

    Parameters
    ----------
    directory : str or path
        The folder of the files. On a cluster all workers must be able to read them.

    Returns
    -------
    Tensor
        On the Dask backend. Nothing is read before something is computed.

    Warns
    -----
    ChunkWarning
        If a file is above 32 MiB.

    Examples
    --------
    >>> import agrad_dask, dask.array as da, tempfile
    >>> name = tempfile.mkdtemp()
    >>> da.to_npy_stack(name, da.ones((6, 2), chunks=(3, 2)))
    >>> float(agrad_dask.from_npy_stack(name).sum())
    12.0
    """
    stacked = da.from_npy_stack(os.fspath(directory))
    _advise(stacked, None)
    return ag.asarray(stacked)


class NpyFile:
    """A ``.npy`` file that can be sliced: it travels to other processes as its path, not as its contents."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        mapped = np.load(self.path, mmap_mode="r")
        if not isinstance(mapped, np.memmap):
            raise ValueError(  # noqa: TRY004 (the file is at fault, not a type)
                f"{path} holds several arrays, and can only be read whole; save each as .npy{called()}"
            )
        self.shape, self.dtype, self.ndim = mapped.shape, mapped.dtype, mapped.ndim
        self._written = os.stat(self.path).st_mtime_ns

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(np.load(self.path, mmap_mode="r")[key])

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self.path, self._written


def _tensor(source: Any, chunks: Any, stored: tuple[int, ...] | None) -> Tensor:
    if chunks is None:
        chunks = usual_chunks(source.shape, source.dtype, stored)
    elif isinstance(chunks, dict):
        chunks = _by_axis(chunks, source.shape, None)
    array = da.from_array(source, chunks=chunks)
    _advise(array, stored)
    return ag.asarray(array)


def usual_chunks(shape: tuple[int, ...], dtype: Any, stored: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Return chunks of about 16 MiB: multiples of those of the store, if possible whole along the later axes."""
    stored = stored or (1,) * len(shape)
    sizes = [min(chunk, n) for chunk, n in zip(stored, shape, strict=True)]

    def room(axis: int) -> int:
        """The factor by which the chunks may grow along an axis."""
        taken = dtype.itemsize * math.prod(sizes)
        return max(1, min(USUAL // max(taken, 1), -(-shape[axis] // max(sizes[axis], 1))))

    for axis in reversed(range(len(shape))):  # the axes that vary fastest first
        sizes[axis] = min(sizes[axis] * room(axis), shape[axis])
    return tuple(sizes)


def _advise(array: Any, stored: tuple[int, ...] | None) -> None:
    """Warn about chunks that make reading or computing slow."""
    largest = array.dtype.itemsize * math.prod(chunks_of(array))
    problems = []
    if largest > LARGEST:
        problems.append(
            f"they are {largest / 2**20:.0f} MiB large, above 32 MiB: memory for each is mapped anew whenever it is needed"
        )
    if stored is not None and any(
        chunk % own and along != (n,)
        for along, own, n in zip(array.chunks, stored, array.shape, strict=True)
        for chunk in along[:-1]
    ):
        problems.append(f"they are no multiples of the chunks of the store, {stored}: some of it is read several times")
    if not problems:
        return
    better = usual_chunks(array.shape, array.dtype, stored)
    if array.dtype.itemsize * math.prod(better) > LARGEST:
        fix = "The store's own chunks are above 32 MiB; write it anew with smaller ones."
    else:
        fix = f"Better: chunks={better}."
    frame = user_frame(getframe(1))
    warnings.warn_explicit(
        f"the chunks {chunks_of(array)}: {'; '.join(problems)}. {fix}",
        ChunkWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def chunks_of(array: Any) -> tuple[int, ...]:
    """Return the largest chunk along each axis, the form in which chunks are written."""
    return tuple(max(along, default=0) for along in array.chunks)


def _plain(path: Any) -> Any:
    return os.fspath(path) if isinstance(path, os.PathLike) else path
