"""CuPy as a backend of agrad, found through the entry point group ``agrad``. CuPy is loaded at first use."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING

import pluggy

from agrad import backends
from agrad.plugin.backend import MissingName

if TYPE_CHECKING:
    from agrad_cupy.backend import CupyBackend as CupyBackend
    from agrad_cupy.backend import Memory as Memory

__version__ = "0.1.0"

__all__ = ["CupyBackend", "Memory", "memory", "synchronous"]

hookimpl = pluggy.HookimplMarker("agrad")


@hookimpl
def agrad_backends() -> dict[str, str]:
    """Return the single backend of this plugin, by its path."""
    return {"cupy": "agrad_cupy.backend:CupyBackend"}


@hookimpl
def agrad_backend_of(array_type: type) -> str | None:
    """Claim CuPy's arrays, without importing CuPy."""
    cupy = any(t.__name__ == "ndarray" and t.__module__.partition(".")[0] == "cupy" for t in array_type.__mro__)
    return "cupy" if cupy else None


@hookimpl
def agrad_harness(backend: str) -> str | None:
    """Return how the conformance kit tests the backend: programs become kernels, which round otherwise than single steps."""
    return "agrad.testing:InexactHarness" if backend == "cupy" else None


def synchronous() -> AbstractContextManager[None]:
    """Wait for every kernel within a block, so that an error of the GPU is raised by the operation that caused it.

    CUDA reports a kernel's error at some later call. Within this block, or everywhere with the environment variable
    ``AGRAD_CUPY_SYNC=1``, agrad waits for each kernel: the error then names the operation and your line. This is slow,
    and applies to all threads.

    Returns
    -------
    context manager
        The block.
    """
    return _backend().synchronising()


def memory(device: str = "cupy") -> Memory:
    """Return the bytes that CuPy's memory pool uses and holds on a device, and what the device has.

    Freed arrays return to the pool, which reuses their memory without asking the device;
    ``cupy.get_default_memory_pool().free_all_blocks()`` releases it, ``set_limit`` bounds it.

    Parameters
    ----------
    device : str, optional
        As ``"cupy:1"``. Default: the current one.

    Returns
    -------
    Memory
        ``used``, ``held``, ``limit``, ``free`` and ``total``, in bytes.
    """
    return _backend().memory(device)


def _backend() -> CupyBackend:
    return backends.get("cupy")  # type: ignore[return-value]


if not TYPE_CHECKING:  # type checkers read the imports above, and should report missing names

    def __getattr__(name: str) -> object:
        if name not in ("CupyBackend", "Memory"):
            raise MissingName(__name__, name)
        return getattr(import_module(f"{__name__}.backend"), name)

    def __dir__() -> list[str]:  # with the hooks, which pluggy finds by it
        return [*__all__, *(name for name in globals() if name.startswith("agrad_"))]
