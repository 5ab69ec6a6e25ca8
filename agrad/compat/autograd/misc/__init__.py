"""Flattening, optimisers and fixed points, as in HIPS autograd's ``autograd.misc``."""

from __future__ import annotations

from agrad.compat.autograd.misc.flatten import flatten, flatten_func
from agrad.compat.autograd.misc.tracers import const_graph

__all__ = ["const_graph", "flatten", "flatten_func"]
