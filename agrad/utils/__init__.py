"""PyTorch's ``torch.utils``, as far as it concerns automatic differentiation."""

from __future__ import annotations

from agrad.utils import checkpoint

__all__ = ["checkpoint"]
