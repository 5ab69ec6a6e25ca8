"""Backends by name: ``from agrad.backends import numpy as xp``; called, ``agrad.backends()`` lists them.

``agrad.backends.get("numpy")`` is the `Backend` itself, as plugins know it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from agrad.core.backend import Backend
from agrad.core.errors import BackendError
from agrad.ops.namespace import namespace as _namespace
from agrad.plugin.manager import BackendInfo
from agrad.plugin.manager import backends as _rows
from agrad.plugin.manager import get as _get


def get(name: str) -> Backend:
    """Return a backend as the contract for plugins has it: its kernels, how it makes arrays, what it cannot do.

    Parameters
    ----------
    name : str
        The backend's, or a device's, as ``"cupy:1"``.

    Returns
    -------
    Backend
        The one object of it.

    Raises
    ------
    BackendError
        If there is none of the name, or it is unusable here; the message says why and what to install.

    Examples
    --------
    >>> import agrad as ag
    >>> backend = ag.backends.get("numpy")
    >>> backend.devices(), backend.cannot("float64")
    (('numpy',), '')
    """
    return _get(name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in {"cudnn", "mps"}:
        return import_module(f"agrad.backends.{name}")
    try:
        return _namespace(name)
    except BackendError as error:
        raise AttributeError(str(error)) from error


class _Backends(ModuleType):
    """The module, callable: ``agrad.backends()`` gives a row per backend."""

    def __call__(self) -> tuple[BackendInfo, ...]:
        return _rows()


def __dir__() -> list[str]:
    return [row.name for row in _rows()]


sys.modules[__name__].__class__ = _Backends
