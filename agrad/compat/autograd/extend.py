"""The functions with which HIPS autograd's programs declare their own operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.compat.autograd.core import VSpace, vspace
from agrad.compat.autograd.primitives import (
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    notrace_primitive,
    primitive,
)
from agrad.compat.autograd.tracer import Box
from agrad.core import names as _names

__all__ = [
    "Box",
    "VSpace",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "notrace_primitive",
    "primitive",
    "vspace",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
