"""HIPS autograd's interface over agrad: its names and meanings, for programs and libraries that were written for it.

Use ``from agrad.compat.autograd import grad`` in place of ``from autograd import grad``; or `install`, after which
``import autograd`` imports this package. docs/from_autograd.md lists the differences.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING

from agrad.compat.autograd.builtins import dict, isinstance, list, tuple, type
from agrad.compat.autograd.convention import complex_convention, set_complex_convention
from agrad.compat.autograd.differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from agrad.compat.autograd.installing import install, uninstall
from agrad.compat.autograd.primitives import defjvp, defvjp, defvjp_argnum, primitive
from agrad.core.names import MissingName as _MissingName

#: The elementwise derivative by the name that HIPS autograd's examples import it under.
egrad = elementwise_grad

__all__ = [
    "checkpoint",
    "complex_convention",
    "defjvp",
    "defvjp",
    "defvjp_argnum",
    "deriv",
    "dict",
    "egrad",
    "elementwise_grad",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "install",
    "isinstance",
    "jacobian",
    "list",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_vjp",
    "multigrad_dict",
    "primitive",
    "set_complex_convention",
    "tensor_jacobian_product",
    "tuple",
    "type",
    "uninstall",
    "value_and_grad",
    "vector_jacobian_product",
]

if not TYPE_CHECKING:
    #: The modules, imported at first use: NumPy's names would require the import of the whole table.
    _MODULES = ("builtins", "core", "extend", "misc", "numpy", "scipy", "test_util", "tracer")

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return _importlib.import_module(f"{__name__}.{name}")
        raise _MissingName(__name__, name)

    def __dir__() -> list[str]:
        return sorted([*__all__, *_MODULES])
