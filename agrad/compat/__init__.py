"""Interfaces of other libraries over agrad, for programs that were written for them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from agrad.core.names import MissingName as _MissingName

if TYPE_CHECKING:
    from agrad.compat import autograd as autograd

__all__ = ["autograd"]


if not TYPE_CHECKING:  # a type checker reads the import above, and is to know what there is not

    def __getattr__(name: str) -> object:
        if name == "autograd":
            return importlib.import_module("agrad.compat.autograd")
        raise _MissingName("agrad.compat", name)

    def __dir__() -> list[str]:
        return __all__
