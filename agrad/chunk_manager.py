"""xarray's interface to arrays in chunks, for tensors: ``a.chunk(time=100, chunked_array_type="agrad")``.

xarray finds it by the entry point ``xarray.chunkmanagers``. `agrad.xarray`, once imported, makes it the default manager
of tensors.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from xarray.namedarray.parallelcompat import ChunkManagerEntrypoint, guess_chunkmanager

import agrad as ag
from agrad.core.once import once

__all__ = ["ChunkManager"]


class ChunkManager(ChunkManagerEntrypoint[Any]):  # type: ignore[misc] # Any, where xarray is not installed
    """The chunk manager of tensors: rechunking is a step of the graph; other values become tensors, on Dask.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.chunk_manager import ChunkManager
    >>> from xarray import DataArray
    >>> x = ag.asarray([1.0, 2.0, 3.0], requires_grad=True)
    >>> DataArray(x, dims="t").chunk(t=2, chunked_array_type=ChunkManager()).data.chunks
    ((2, 1),)
    """

    array_cls: type[Any] = ag.Tensor
    available: bool = all(importlib.util.find_spec(name) for name in ("dask", "agrad_dask"))

    def __init__(self) -> None:
        """Create the manager: in the base class this is abstract, and raises."""

    @once
    def _dask(self) -> Any:
        """Manager of Dask's arrays in xarray: looked up late, because xarray creates all managers before it knows any."""
        return guess_chunkmanager("dask")

    def is_chunked_array(self, data: Any) -> bool:
        """Return whether a value is a tensor in chunks."""
        return isinstance(data, ag.Tensor) and data._spec.backend.is_chunked

    def chunks(self, data: Any) -> Any:
        """Return the lengths of a tensor's chunks."""
        return data.chunks

    def normalize_chunks(self, *args: Any, **options: Any) -> Any:
        """Return chunks as lengths along each axis, as Dask has it."""
        return self._dask.normalize_chunks(*args, **options)

    def from_array(self, data: Any, chunks: Any, **options: Any) -> Any:
        """Return a tensor in chunks: for a tensor in the same graph, for anything else by Dask's function of this name."""
        if isinstance(data, ag.Tensor):
            return data.to_device("dask").rechunk(chunks)
        return ag.asarray(self._dask.from_array(data, chunks, **options))

    def rechunk(self, data: Any, chunks: Any, **options: Any) -> Any:
        """Return a tensor in other chunks, in the same graph."""
        return data.rechunk(chunks)

    def compute(self, *data: Any, **options: Any) -> Any:
        """Compute tensors, which keep their history; the rest is passed through."""
        ag.compute(*(x for x in data if isinstance(x, ag.Tensor)))
        return data

    def persist(self, *data: Any, **options: Any) -> Any:
        """Compute tensors, which keep their values on Dask."""
        ag.persist(*(x for x in data if isinstance(x, ag.Tensor)))
        return data

    def unify_chunks(self, *args: Any, **options: Any) -> Any:
        """Return common chunks of tensors and Dask arrays, and these rechunked to them."""
        plain = [x.detach()._raw if isinstance(x, ag.Tensor) else x for x in args]
        chunks, arrays = self._dask.unify_chunks(*plain, **options)
        pairs = zip(args[::2], arrays, strict=True)
        return chunks, [x.rechunk(found.chunks) if isinstance(x, ag.Tensor) else found for x, found in pairs]

    @property
    def array_api(self) -> Any:
        """NumPy's names for tensors."""
        return ag.numpy

    def apply_gufunc(self, function: Any, signature: str, *args: Any, **options: Any) -> Any:
        """Call a function on blocks of tensors, as a step of the graph: it is captured as a program of agrad's functions."""
        found = importlib.import_module("agrad_dask").apply_gufunc(function, signature, *args, **options)
        return tuple(found) if isinstance(found, list) else found
