"""Neural networks with PyTorch's API: `functional`, modules, `init` and `utils`. Each part is loaded at first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from agrad.core.names import MissingName as _MissingName
from agrad.core.names import explain_made as _explain_made

if TYPE_CHECKING:
    from agrad.nn import functional as functional
    from agrad.nn import init as init
    from agrad.nn import utils as utils
    from agrad.nn.activations import *
    from agrad.nn.attention import *
    from agrad.nn.containers import *
    from agrad.nn.convolution import *
    from agrad.nn.layers import *
    from agrad.nn.losses import *
    from agrad.nn.module import *
    from agrad.nn.normalization import *
    from agrad.nn.padding import *
    from agrad.nn.parallel import *
    from agrad.nn.parameter import *
    from agrad.nn.pooling import *
    from agrad.nn.recurrent import *

#: The files of modules, in the order in which a name is looked up: each uses those before it.
_FILES = (
    "parameter",
    "module",
    "layers",
    "activations",
    "normalization",
    "convolution",
    "padding",
    "pooling",
    "containers",
    "losses",
    "recurrent",
    "attention",
    "parallel",
)
_PARTS = ("backward_hooks", "functional", "init", "utils", *_FILES)


if not TYPE_CHECKING:  # type checkers read the imports above, and should report missing names

    def __getattr__(name: str) -> object:
        if name in _PARTS:
            return importlib.import_module(f"agrad.nn.{name}")
        files = (
            [importlib.import_module(f"agrad.nn.{file}") for file in _FILES]
            if name[0] != "_" or name == "__all__"
            else []
        )
        if name == "__all__":
            return sorted([public for file in files for public in file.__all__] + ["functional", "init", "utils"])
        for file in files:
            if name in file.__all__:
                found = globals()[name] = _explain_made(getattr(file, name))
                return found
        raise _MissingName("agrad.nn", name)

    def __dir__() -> list[str]:
        return __getattr__("__all__")
