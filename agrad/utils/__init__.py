"""PyTorch's ``torch.utils``, as far as it concerns automatic differentiation and training. `data` loads when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from agrad.core.names import MissingName as _MissingName
from agrad.utils import checkpoint
from agrad.utils.schedules import checkpoint_sequence

if TYPE_CHECKING:
    from agrad.utils import data as data

__all__ = ["checkpoint", "checkpoint_sequence", "data"]


if not TYPE_CHECKING:  # a type checker reads the import above, and is to know what there is not

    def __getattr__(name: str) -> object:
        if name == "data":
            return importlib.import_module("agrad.utils.data")
        raise _MissingName("agrad.utils", name)

    def __dir__() -> list[str]:
        return __all__
