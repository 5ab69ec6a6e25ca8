"""Interfaces of other libraries on top of agrad, for programs that were written for them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from agrad.core.names import MissingName as _MissingName

if TYPE_CHECKING:
    from agrad.compat import autograd as autograd

__all__ = ["autograd"]


if not TYPE_CHECKING:  # type checkers read the import above, and should report missing names

    def __getattr__(name: str) -> object:
        if name == "autograd":
            return importlib.import_module("agrad.compat.autograd")
        raise _MissingName("agrad.compat", name)

    def __dir__() -> list[str]:
        return __all__
