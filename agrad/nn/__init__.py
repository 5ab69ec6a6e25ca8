"""Neural networks in PyTorch's way: `functional`, modules, `init` and `utils`. Each part loads when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agrad.nn import functional, init, utils
    from agrad.nn.containers import ModuleDict, ModuleList, Sequential
    from agrad.nn.layers import (
        ELU,
        GELU,
        AvgPool2d,
        Conv2d,
        Dropout,
        Embedding,
        Flatten,
        Identity,
        LayerNorm,
        LeakyReLU,
        Linear,
        LogSoftmax,
        MaxPool2d,
        ReLU,
        Sigmoid,
        SiLU,
        Softmax,
        Softplus,
        Tanh,
    )
    from agrad.nn.losses import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
    from agrad.nn.module import Module
    from agrad.nn.parameter import Parameter

#: Which file each module is in.
_HOMES = {
    "containers": ["ModuleDict", "ModuleList", "Sequential"],
    "layers": [
        "AvgPool2d",
        "Conv2d",
        "Dropout",
        "ELU",
        "Embedding",
        "Flatten",
        "GELU",
        "Identity",
        "LayerNorm",
        "LeakyReLU",
        "Linear",
        "LogSoftmax",
        "MaxPool2d",
        "ReLU",
        "SiLU",
        "Sigmoid",
        "Softmax",
        "Softplus",
        "Tanh",
    ],
    "losses": ["BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "L1Loss", "MSELoss", "NLLLoss"],
    "module": ["Module"],
    "parameter": ["Parameter"],
}
_PARTS = ("functional", "init", "utils", *_HOMES)

__all__ = [
    "ELU",
    "GELU",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "functional",
    "init",
    "utils",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"agrad.nn.{name}")
    for part, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(f"agrad.nn.{part}"), name)
            return found
    message = f"module 'agrad.nn' has no attribute {name!r}"
    raise AttributeError(message)
