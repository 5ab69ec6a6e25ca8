"""Backends by name: ``from agrad.backends import numpy as xp``; called, ``agrad.backends()`` lists them."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from agrad.core.errors import BackendError
from agrad.ops.namespace import namespace as _namespace
from agrad.plugin.manager import BackendInfo
from agrad.plugin.manager import backends as _rows


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
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
