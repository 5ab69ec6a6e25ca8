"""Flattening, optimisers and fixed points, as in HIPS autograd's ``autograd.misc``."""

from __future__ import annotations

from agrad.compat.autograd.misc.flatten import flatten, flatten_func

__all__ = ["flatten", "flatten_func"]
