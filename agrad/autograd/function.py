"""PyTorch's ``torch.autograd.function``."""

from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.core.function import Function, FunctionNode, once_differentiable

FunctionCtx = FunctionNode

__all__ = ["Function", "FunctionCtx", "once_differentiable"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
