"""Neural networks in PyTorch's way: `functional`, modules, `init` and `utils`. Each part loads when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agrad.nn import functional as functional
    from agrad.nn import init as init
    from agrad.nn import utils as utils
    from agrad.nn.modules import (
        ELU as ELU,
    )

_PARTS = ("functional", "init", "modules", "utils")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"agrad.nn.{name}")
    raise AttributeError(name)
