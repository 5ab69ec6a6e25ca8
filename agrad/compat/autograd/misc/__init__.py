"""Flattening, optimisers and fixed points, as in HIPS autograd's ``autograd.misc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.compat.autograd.misc.flatten import flatten, flatten_func
from agrad.compat.autograd.misc.tracers import const_graph
from agrad.core import names as _names

__all__ = ["const_graph", "flatten", "flatten_func"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
