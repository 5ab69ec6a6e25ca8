"""The hooks a plugin may implement: marker and specifications. pluggy calls them, but never per operation."""

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

    The module of a path is imported when its backend is first used, so it may import the array library.
    """


@hookspec(firstresult=True)
def agrad_backend_of(array_type: type) -> str | None:
    """Return the name of the backend an array type belongs to; must not import the array library."""


@hookspec(firstresult=True)
def agrad_kernel(op: str, backend: Backend) -> Callable[..., Any] | None:
    """Return a kernel that replaces or adds one operation of a backend."""


@hookspec(firstresult=True)
def agrad_rule(op: str, backend: str) -> Mapping[str, Any] | None:
    """Return derivatives of one operation that replace agrad's on one backend.

    Keywords of `agrad.custom`: ``{"vjp": {"x": function}, "jvp": function}``. agrad calls this hook for every operation
    and backend, with or without the library, so it must not import the library.
    """


@hookspec(firstresult=True)
def agrad_harness(backend: str) -> str | None:
    """Return the path of the `agrad.testing.Harness` that the conformance kit uses to test the named backend."""


@hookspec
def agrad_executors() -> Mapping[str, str] | Sequence[Executor]:  # type: ignore[empty-body]
    """Return the executors of this plugin: paths by name, as ``{"mine": "agrad_mine.native:Native"}``, or objects.

    The module of a path is imported when its executor is first named.
    """
