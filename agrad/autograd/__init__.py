"""PyTorch's ``torch.autograd``: backward, grad, Function and the grad modes under their public paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.autograd import function, graph
from agrad.autograd.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from agrad.autograd.backward import backward, grad
from agrad.core import names as _names

from agrad.autograd import forward_ad, functional  # isort: skip (they use backward)
from agrad.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from agrad.core.function import Function
from agrad.core.mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
