"""PyTorch's ``torch.autograd.gradcheck``."""

from __future__ import annotations

from agrad.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
