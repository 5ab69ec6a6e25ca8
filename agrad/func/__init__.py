"""Transforms of functions, PyTorch's ``torch.func``: each takes a function and returns one; they compose in any order."""

from typing import TYPE_CHECKING

from agrad.compiled.compiling import CompileError, CompileWarning, compile
from agrad.core import names as _names
from agrad.func.cfunc import cfunc
from agrad.func.coloring import Coloring, coloring
from agrad.func.grad import deriv, elementwise_grad, grad, grad_and_value, hvp, jvp, linearize, value_and_grad, vjp
from agrad.func.implicit import ImplicitError, implicit
from agrad.func.jacobian import hessian, jacfwd, jacobian, jacrev
from agrad.func.scan import scan
from agrad.func.sparse import (
    SparseDerivative,
    gauss_newton_operator,
    hessian_operator,
    hessian_sparsity,
    jacobian_operator,
    jacobian_sparsity,
    propagate,
    sparse_hessian,
    sparse_jacobian,
)
from agrad.func.stateless import functional_call, stack_module_state
from agrad.func.vmap import vmap
from agrad.plugin.manager import use_executor
from agrad.program.blank_recording import ShapeDtype
from agrad.program.c_functions import CFunction, CFunctionError
from agrad.program.capture import capture, eval_shape
from agrad.program.memory import ProgramMemory as _Memory  # noqa: F401 (the file has methods of programs)
from agrad.program.passes import RunMethods as _Running  # noqa: F401 (a method of programs)
from agrad.program.program import Program
from agrad.program.recording import CaptureError
from agrad.program.saving import SavingMethods as _Keeps  # noqa: F401 (as above)
from agrad.program.source import SourceMethods as _Sources  # noqa: F401 (as above)
from agrad.program.sparsity import SparsityMethods as _Sparse  # noqa: F401 (as above)
from agrad.program.writing import TextMethods as _Texts  # noqa: F401 (as above)

__all__ = [
    "CFunction",
    "CFunctionError",
    "CaptureError",
    "Coloring",
    "CompileError",
    "CompileWarning",
    "ImplicitError",
    "Program",
    "ShapeDtype",
    "SparseDerivative",
    "capture",
    "cfunc",
    "coloring",
    "compile",
    "deriv",
    "elementwise_grad",
    "eval_shape",
    "functional_call",
    "gauss_newton_operator",
    "grad",
    "grad_and_value",
    "hessian",
    "hessian_operator",
    "hessian_sparsity",
    "hvp",
    "implicit",
    "jacfwd",
    "jacobian",
    "jacobian_operator",
    "jacobian_sparsity",
    "jacrev",
    "jvp",
    "linearize",
    "propagate",
    "scan",
    "sparse_hessian",
    "sparse_jacobian",
    "stack_module_state",
    "use_executor",
    "value_and_grad",
    "vjp",
    "vmap",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
