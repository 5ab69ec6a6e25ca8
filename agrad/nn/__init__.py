"""Neural networks in PyTorch's way: `functional`, modules, `init` and `utils`. Each part loads when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agrad.nn import functional, init, utils
    from agrad.nn.layers import (
        AvgPool2d,
        BCEWithLogitsLoss,
        Conv2d,
        CrossEntropyLoss,
        Dropout,
        Embedding,
        Flatten,
        GELU,
        Identity,
        L1Loss,
        LayerNorm,
        Linear,
        MSELoss,
        MaxPool2d,
        ReLU,
        SiLU,
        Sigmoid,
        Softmax,
        Tanh,
    )
    from agrad.nn.module import Module, Parameter, Sequential

_PARTS = ("functional", "init", "layers", "module", "utils")

__all__ = [
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GELU",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "functional",
    "init",
    "utils",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"agrad.nn.{name}")
    if name not in __all__:
        message = f"module 'agrad.nn' has no attribute {name!r}"
        raise AttributeError(message)
    for part in ("module", "layers"):
        found = getattr(importlib.import_module(f"agrad.nn.{part}"), name, None)
        if found is not None:
            globals()[name] = found
            return found
    raise AttributeError(name)
