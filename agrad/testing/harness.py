"""The parts of the conformance kit that depend on the backend: lazy and chunked arrays need their own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from agrad.core.backend import Backend
from agrad.plugin import manager


class Harness:
    """How the kit creates arrays of a backend, and detects that nothing is computed.

    A plugin whose backend needs another one returns a subclass by the hook ``agrad_harness``.

    Attributes
    ----------
    exact : bool
        Whether programs give the same bits as the calls they were captured from. False for a backend that compiles
        programs to something else; ignored on lazy ones.
    """

    exact: bool = True

    def specimen(self, backend: Backend, buffer: Any, device: str) -> Any:
        """Create an array like `Backend.from_host`, in the most difficult form, for example in several chunks."""
        return backend.from_host(buffer, device)

    def missing(self, backend: Backend, buffer: Any, mask: Any, device: str) -> Any:
        """Create an array whose elements are missing where a mask is True, on a backend that supports it."""
        return backend.namespace().asarray(buffer, mask=mask)

    def computing_nothing(self) -> AbstractContextManager[Any]:
        """Return a context in which computing a value of a lazy backend raises AssertionError."""
        return nullcontext()


class InexactHarness(Harness):
    """The harness of a backend in memory whose `Backend.compile` combines operations, and rounds differently."""

    exact = False


def harness_of(name: str) -> Harness:
    """Return the harness that plugins provide for a backend, by name."""
    path = manager.plugins().hook.agrad_harness(backend=name)
    return Harness() if path is None else manager.at_path(path)
