"""Neural networks in PyTorch's way: `functional`, modules, `init` and `utils`. Each part loads when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agrad.nn import functional as functional
    from agrad.nn import init as init
    from agrad.nn import utils as utils
    from agrad.nn.attention import *
    from agrad.nn.containers import *
    from agrad.nn.layers import *
    from agrad.nn.losses import *
    from agrad.nn.module import *
    from agrad.nn.parameter import *
    from agrad.nn.recurrent import *

#: The files of modules, in the order in which a name is looked for: each uses those before it.
_FILES = ("parameter", "module", "layers", "containers", "losses", "recurrent", "attention")
_PARTS = ("functional", "init", "utils", *_FILES)


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"agrad.nn.{name}")
    files = (importlib.import_module(f"agrad.nn.{file}") for file in _FILES)
    if name == "__all__":
        return sorted([public for file in files for public in file.__all__] + ["functional", "init", "utils"])
    if not name.startswith("_"):
        for file in files:
            if name in file.__all__:
                found = globals()[name] = getattr(file, name)
                return found
    raise AttributeError(f"module 'agrad.nn' has no attribute {name!r}")
