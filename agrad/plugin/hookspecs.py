"""The hooks a plugin may implement. Marker and specifications; pluggy calls them, never per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pluggy

from agrad.core.backend import Backend
from agrad.core.executor import Executor

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker("agrad")
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("agrad")


@hookspec
def agrad_backends() -> Mapping[str, str] | Sequence[Backend]:  # type: ignore[empty-body]
    """Return the backends of this plugin: paths by name, as ``{"dask": "agrad_dask.backend:DaskBackend"}``, or objects.

    The module of a path is imported when its backend is first needed, so it may import the array library.
    """


@hookspec(firstresult=True)
def agrad_backend_of(array_type: type) -> str | None:
    """Return the name of the backend an array type belongs to; must not import the array library."""


@hookspec(firstresult=True)
def agrad_kernel(op: str, backend: Backend) -> Callable[..., Any] | None:
    """Return a kernel that replaces or adds one operation of a backend."""


@hookspec(firstresult=True)
def agrad_rule(op: str, backend: str) -> Mapping[str, Any] | None:
    """Return the derivatives of one operation on the backend of a name, which take the place of agrad's there.

    Keywords of `agrad.custom`: ``{"vjp": {"x": function}, "jvp": function}``. Asked of every operation and backend, without the
    library, so it must not import that.
    """


@hookspec(firstresult=True)
def agrad_harness(backend: str) -> str | None:
    """Return the path of the `agrad.testing.Harness` with which the conformance kit tests a backend of this name."""


@hookspec
def agrad_executors() -> Mapping[str, str] | Sequence[Executor]:  # type: ignore[empty-body]
    """Return the executors of this plugin: paths by name, as ``{"mine": "agrad_mine.native:Native"}``, or objects.

    The module of a path is imported when its executor is first named.
    """
