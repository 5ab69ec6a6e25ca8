"""The hooks a plugin may implement. Marker and specifications; pluggy calls them, never per operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from agrad.core.backend import Backend

hookspec = pluggy.HookspecMarker("agrad")
hookimpl = pluggy.HookimplMarker("agrad")


@hookspec
def agrad_backends() -> Sequence[Backend]:  # type: ignore[empty-body]
    """Return the backends of this plugin: objects that may exist where their array library does not."""


@hookspec(firstresult=True)
def agrad_backend_of(array_type: type) -> str | None:
    """Return the name of the backend an array type belongs to; must not import the array library."""


@hookspec(firstresult=True)
def agrad_kernel(op: str, backend: Backend) -> Callable[..., Any] | None:
    """Return a kernel that replaces or adds one operation of a backend."""
