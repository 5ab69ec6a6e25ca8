"""The Dask backend: array-api-compat's namespace, with corrections, and chunks as the layout of a spec.

Nothing here computes except functions that return a value: `to_host`, `item`, `tolist`, and so a transfer to another
backend.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import array_api_compat.dask.array as xp
import dask
import dask.array as da
import numpy as np

from agrad import Tensor, UnsupportedOp
from agrad.plugin.backend import (
    OPS,
    Backend,
    Outlook,
    Spec,
    backend_of,
    in_dask,
    internal,
    is_followed,
    more_than_numbers,
)
from agrad_dask import computing, factors, indexing, kernels, origins, repeats, scipy_kernels, special_kernels
from agrad_dask.indexing import UnknownSizes
from agrad_dask.sampling import sample
from agrad_dask.sparse_rows import rows_of_matrix

internal(__file__)


class DaskBackend(Backend):
    """Dask arrays: lazy, in chunks, on the threads of one machine or on the workers of a cluster."""

    name = "dask"
    is_lazy = True
    is_chunked = True
    capabilities: Mapping[str, bool | str] = {"float16": True}

    def namespace(self) -> Any:
        return xp

    def availability(self) -> tuple[bool, str]:
        return True, str(dask.__version__)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        found: Any = kernels.KERNELS.get(op)
        if op.startswith("special."):
            found = special_kernels.kernel(op)
        elif op.startswith("scipy."):
            found = scipy_kernels.kernel(op)
        elif found is None:
            found = self.namespace()
            for part in op.split("."):
                found = getattr(found, part, None)
        if op in OPS and OPS[op].rule.kind == "elementwise" and callable(found):
            found = indexing.meeting(found)
        return _refusing(op, found) if callable(found) and not isinstance(found, type) else None

    def dtype(self, dtype: Any) -> Any:
        if self.dtype_name(dtype) == "float16":  # not an attribute of the namespace
            return np.float16
        return super().dtype(dtype)

    def spec(self, array: Any) -> Spec:
        shape = array.shape
        chunks: Any = getattr(array, "chunks", None)  # a scalar kept on the host has none
        if any(n != n for n in shape):  # noqa: PLR0124 (nan: unknown)
            # a single nan object, so that shapes of the same unknown axes compare equal
            shape, chunks = tuple(math.nan if n != n else n for n in shape), UnknownSizes(chunks, array)  # noqa: PLR0124
        return Spec(self, shape, array.dtype, self.name, chunks)

    def as_array(self, value: Any) -> Any:
        if not hasattr(value, "chunks"):
            return self.from_host(value, self.name)
        if hasattr(value._meta, "mask"):
            message = (
                "can't convert an array of masked chunks to a tensor: the mask would be lost.\n  Fill what is masked,"
                " dask.array.ma.filled(m, 0), and pass the mask on where it counts:"
                " ag.where(dask.array.ma.getmaskarray(m), 0, x)."
            )
            raise TypeError(message)
        if isinstance(value._meta, np.ndarray) and (error := more_than_numbers(value._meta)) is not None:
            raise error
        if isinstance(value._meta, Tensor) and is_followed(value._meta):
            raise in_dask()
        return indexing.filled(value)

    def taken(self, value: Any) -> Any:
        raw = self.as_array(value)
        return indexing.own(raw) if raw is value else raw

    def asarray(
        self, value: Any, *, dtype: Any = None, device: str | None = None, copy: bool | None = None, like: Any = None
    ) -> Any:
        if hasattr(value, "chunks"):
            made = self.as_array(super().asarray(value, dtype=dtype, copy=copy))
            known = getattr(value, "_agrad_host", None)
            if known is not None and made.name == value.name:  # its values are known: so are the copy's
                made._agrad_host = known
            return made
        if copy is False:
            message = "a Dask array of data in memory has to copy; copy=False cannot be met"
            raise ValueError(message)
        return self.from_host(np.asarray(value, dtype=None if dtype is None else self.dtype(dtype)), self.name)

    def scalar(self, value: complex, spec: Spec) -> Any:
        """Return a Python scalar as a 0-d NumPy array: Dask passes it to every task directly, without a task for it."""
        return np.asarray(value, dtype=self.scalar_dtype(value, spec))

    def lend(self, array: Any) -> Any:
        """Make the result of `scalar` read-only; a Dask array is a recipe, which cannot be written to."""
        return np.asarray(memoryview(array).toreadonly()) if isinstance(array, np.ndarray) else array

    # -- the primitives ------------------------------------------------------------------------------------------------

    def broadcast_like(self, array: Any, spec: Spec) -> Any:
        return kernels.broadcast_like(array, spec)

    def scatter_add(self, spec: Spec, key: Any, values: Any) -> Any:
        if values.dtype == "float16":  # added in float32, rounded once
            return indexing.scatter_add(spec, key, values.astype("float32")).astype("float16")
        return indexing.scatter_add(spec, key, values)

    def setitem(self, array: Any, key: Any, value: Any) -> Any:
        return indexing.setitem(array, key, value)

    def run_rule(self, vjp: Callable[..., Any], g: Any, saved: tuple[Any, ...], node: Any) -> Any:
        """Run a rule; its results get the chunks of the operands, whatever chunks the computation produced."""
        saved = _cut_alike(saved, node)

        def rule(g: Any) -> Any:
            found = vjp(node.spec.xp, g, saved, node)
            if not isinstance(found, tuple | list):
                return self.in_layout(found, node.edges.spec)
            made = [self.in_layout(part, n.spec) for n, part in zip(node.inputs, found, strict=True)]
            return type(found)(made)

        return origins.run_rule(factors.run_rule, rule, g, node, vjp)

    def _run_crossed(self, vjp: Callable[..., Any], g: Any, saved: tuple[Any, ...], node: Any) -> Any:
        return self._run_on(vjp, self.xp, g, saved, node)

    def _run_on(self, vjp: Callable[..., Any], xp: Any, g: Any, saved: tuple[Any, ...], node: Any) -> Any:
        return origins.run_rule(factors.run_rule, lambda g: vjp(xp, g, saved, node), g, node, vjp)

    def in_layout(self, array: Any, spec: Spec) -> Any:
        """Return a cotangent in the chunks of its operand, where both are known."""
        chunks = getattr(array, "chunks", None)
        if chunks is None or not isinstance(spec.layout, tuple) or chunks == spec.layout or array.shape != spec.shape:
            return array
        return array.rechunk(spec.layout)

    def rechunk(self, array: Any, chunks: Any) -> Any:
        made, host = array.rechunk(chunks), indexing.host_of(array)
        if host is not None:
            made._agrad_host = made.name, host  # its values are known: so are those in other chunks
        return made

    def nbytes(self, array: Any) -> int:
        """Return the bytes of the value once computed, 0 if the shape is unknown."""
        found = array.nbytes
        return int(found) if found == found else 0  # noqa: PLR0124 (nan: unknown)

    # -- borders -------------------------------------------------------------------------------------------------------

    def computed(self, array: Any) -> Any:
        """Compute an array: return one of the chunks' library."""
        host = indexing.host_of(array)
        return computing.values(array)[0] if host is None else host

    def _csr(self, values: Any, pattern: Any, rows: Any, known: dict[Any, Any], proof: Any = None) -> Any:
        return rows_of_matrix(values, pattern, rows, proof)

    def to_host(self, array: Any) -> Any:
        value = self.computed(array) if hasattr(array, "chunks") else array
        return np.asarray(value.get() if hasattr(value, "get") else value)

    def from_host(self, buffer: Any, device: str) -> Any:
        return indexing.from_host(buffer)

    def receive(self, source: Backend, array: Any, device: str) -> Any:
        if source is self:
            return array
        if source.is_duck_array and not isinstance(array, np.ndarray):  # stays on its device, such as a GPU, in chunks
            return da.from_array(array, asarray=False)
        return super().receive(source, array, device)

    def send(self, array: Any, target: Backend, device: str) -> Any:
        """Return the computed values, as arrays of the chunks' library."""
        if target.is_lazy:
            return super().send(array, target, device)
        value = self.computed(array)
        return target.receive(backend_of(value) or self, value, device)

    def join(self, others: Sequence[Backend]) -> Backend | None:
        """Accept arrays that can serve as chunks next to its own: that costs nothing."""
        return self if all(other.is_duck_array for other in others) else None

    def from_dlpack(self, x: Any, *, copy: bool | None = None) -> Any:
        return self.asarray(np.from_dlpack(x), copy=copy)

    def item(self, array: Any) -> Any:
        return self.to_host(array).item()

    def tolist(self, array: Any) -> Any:
        return self.to_host(array).tolist()

    def shows(self, array: Any) -> bool:
        """Show elements of single chunks, and of data in memory; others may take a pass over large data."""
        return getattr(array, "npartitions", 1) <= 1 or indexing.host_of(array) is not None or computing.is_held(array)

    def realize(
        self,
        *arrays: Any,
        keep: str = "host",
        max_memory: int | str | None = None,
        progress: bool | None = None,
    ) -> tuple[Any, ...]:
        """Compute arrays in one pass; they remain Dask arrays of the same chunks, with their values in memory.

        Parameters
        ----------
        *arrays : dask.array.Array
            Arrays.
        keep : {"host", "backend"}
            Whether to bring the values into this process, or leave them where they are computed: on a cluster, in its
            memory. Either way they are computed when this returns.
        max_memory : int or str, optional
            The memory limit of the computation, in bytes or as ``"1GiB"``; it is refused before it starts if it needs
            more.
        progress : bool, optional
            Show a progress bar; by default Dask's configuration ``agrad.progress`` decides.
        """
        return computing.realize(arrays, keep=keep, max_memory=max_memory, progress=progress)

    def outlook(self, *arrays: Any, max_memory: int | str | None = None) -> Outlook:
        return computing.outlook(arrays, max_memory=max_memory)

    def watch(self, array: Any) -> None:
        if hasattr(array, "dask"):
            repeats.watch(array)

    def _came_from(self, gradient: Any, losses: Sequence[Any]) -> None:
        # As above: arrays held by a recording, and scalars kept on the host, have no graph
        if hasattr(gradient, "dask"):
            repeats.came_from(gradient, [loss for loss in losses if hasattr(loss, "dask")])

    def _is_held(self, array: Any) -> bool:
        return not hasattr(array, "dask") or computing.is_held(array)

    def _handed_over(self, array: Any) -> Any:
        return array if self._is_held(array) else repeats.handed_over(array)

    def _writing(self, array: Any, target: Any) -> Any:
        from agrad_dask.writing import written  # noqa: PLC0415 (only where something is written)

        return written(self.taken(array), target)

    def random(
        self, kind: str, shape: tuple[int, ...], key: tuple[int, int], *, dtype: Any, device: str, **p: Any
    ) -> Any:
        return sample(kind, shape, key, dtype, p)


def _cut_alike(saved: tuple[Any, ...], node: Any) -> tuple[Any, ...]:
    """Cut operands along the axes they were contracted over as finely as those they were contracted with.

    The gradient with respect to one operand has the other's chunks there: if that is in whole rows, the gradient would
    be created in whole rows, larger than any chunk of the operand.
    """
    contracts = None if node.op is None else node.op.contracts  # arrays recorded by a transform have no op
    if contracts is None or not all(isinstance(spec.layout, tuple) for spec in node.specs[:2]):
        return saved
    found = list(saved)
    params = node.params if node.op.param_slots else ()
    for pair in zip(*contracts(node.specs, *params), strict=True):
        chunks = [spec.layout[axis] for spec, axis in zip(node.specs, pair, strict=False)]
        coarse = min((0, 1), key=lambda k: len(chunks[k]))
        if len(chunks[0]) == len(chunks[1]):
            continue
        for k, value in enumerate(found):
            if getattr(value, "chunks", None) == node.specs[coarse].layout:
                found[k] = value.rechunk({pair[coarse] % value.ndim: chunks[1 - coarse]})
    return tuple(found)


def _refusing(op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a kernel's error about a limit of Dask to agrad's form: which operation, on which backend, and why.

    Record its results for the errors of the tasks it creates, which may fail later.
    """

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except UnsupportedOp:
            raise
        except (NotImplementedError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, ValueError) and "unknown" not in reason and "nan" not in reason:
                raise
            raise UnsupportedOp(op, "dask", reason) from error
        origins.note(op, (*args, *kwargs.values()), result)
        return result

    return kernel
