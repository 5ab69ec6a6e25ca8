"""PyTorch's ``torch.autograd.function``."""

from agrad.core.function import Function, FunctionNode, once_differentiable

FunctionCtx = FunctionNode

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
