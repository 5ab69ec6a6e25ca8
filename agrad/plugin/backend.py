"""The contract as plugins import it; it stands in ``agrad.core.backend``."""

from agrad.core.backend import CONTRACT, SPECS_KEPT, Backend, Device, Place
from agrad.core.blank import Blank
from agrad.core.kernels import PRIMITIVES, SUBNAMESPACES, check_bounds, forget_kernels, key_parts

__all__ = [
    "CONTRACT",
    "PRIMITIVES",
    "SPECS_KEPT",
    "SUBNAMESPACES",
    "Backend",
    "Blank",
    "Device",
    "Place",
    "check_bounds",
    "forget_kernels",
    "key_parts",
]
