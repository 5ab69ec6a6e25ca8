"""PyTorch's ``torch.utils``, as far as it concerns automatic differentiation and training. `data` loads when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agrad.utils import checkpoint

if TYPE_CHECKING:
    from agrad.utils import data as data

__all__ = ["checkpoint", "data"]


def __getattr__(name: str) -> Any:
    if name == "data":
        return importlib.import_module("agrad.utils.data")
    raise AttributeError(f"module 'agrad.utils' has no attribute {name!r}")
