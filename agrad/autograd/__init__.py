"""PyTorch's ``torch.autograd``: backward, grad, Function and the grad modes under their public paths."""

from __future__ import annotations

from agrad.autograd import function, graph
from agrad.autograd.backward import backward, grad
from agrad.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from agrad.core.function import Function
from agrad.core.mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "enable_grad",
    "function",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]
