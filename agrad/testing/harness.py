"""What the conformance kit does to a backend in that backend's own way: lazy and chunked arrays need it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from agrad.core.backend import Backend
from agrad.plugin import manager


class Harness:
    """How the kit makes arrays of a backend, and sees that nothing is computed.

    A plugin whose backend needs more than this gives a subclass by the hook ``agrad_harness``.

    Attributes
    ----------
    exact : bool
        Whether programs give, to the last bit, what the calls they were captured from give. False for a backend that
        compiles programs to something else; on lazy ones nobody asks.
    """

    exact: bool = True

    def specimen(self, backend: Backend, buffer: Any, device: str) -> Any:
        """Make an array as `Backend.from_host` does: in the form that is hardest, as in several chunks."""
        return backend.from_host(buffer, device)

    def missing(self, backend: Backend, buffer: Any, mask: Any, device: str) -> Any:
        """Make an array of which the elements are missing where a mask is True, on a backend where they may be."""
        return backend.namespace().asarray(buffer, mask=mask)

    def computing_nothing(self) -> AbstractContextManager[Any]:
        """Return a context in which computing a value of a lazy backend raises AssertionError."""
        return nullcontext()


class InexactHarness(Harness):
    """That of a backend in memory whose `Backend.compile` makes something else of several operations, and rounds otherwise."""

    exact = False


def harness_of(name: str) -> Harness:
    """Return the harness that plugins give for a backend, by its name."""
    path = manager.plugins().hook.agrad_harness(backend=name)
    return Harness() if path is None else manager.at_path(path)
