"""PyTorch's ``torch.utils``, as far as it concerns differentiation and training. `data` is loaded at first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from agrad.core.names import MissingName as _MissingName
from agrad.utils import checkpoint
from agrad.utils.schedules import checkpoint_sequence

if TYPE_CHECKING:
    from agrad.utils import data as data

__all__ = ["checkpoint", "checkpoint_sequence", "data"]


if not TYPE_CHECKING:  # type checkers read the import above, and should report missing names

    def __getattr__(name: str) -> object:
        if name == "data":
            return importlib.import_module("agrad.utils.data")
        raise _MissingName("agrad.utils", name)

    def __dir__() -> list[str]:
        return __all__
