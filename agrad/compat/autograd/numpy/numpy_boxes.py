"""The name that libraries import to test whether an array is being differentiated."""

from __future__ import annotations

from agrad.core.tensor import Tensor as ArrayBox

__all__ = ["ArrayBox"]
