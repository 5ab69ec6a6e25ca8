"""Special functions under the names and signatures of SciPy, by family.

Derivatives are written in special functions as well, so they have derivatives themselves; where the textbook's formula
cancels or overflows, another one replaces it. Kernels are the backend's own (SciPy's for NumPy); kernels that only need
the standard run on every backend. Ops used only by derivatives are not exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.ops.docs import complete as _complete
from agrad.ops.special.bessels import *
from agrad.ops.special.distributions import *
from agrad.ops.special.edges import *
from agrad.ops.special.elementary import *
from agrad.ops.special.entropies import *
from agrad.ops.special.errorfunctions import *
from agrad.ops.special.gammas import *
from agrad.ops.special.incomplete import *
from agrad.ops.special.integrals import *
from agrad.ops.special.logistic import *

if not TYPE_CHECKING:  # a type checker reads the imports
    _FAMILIES = (bessels, distributions, elementary, entropies, errorfunctions, gammas, incomplete, integrals, logistic)
    __all__ = [name for family in _FAMILIES for name in family.__all__]

_complete(
    globals(),
    {
        "lmbda": "Tensor\n    The exponent.",
        "p": "Tensor\n    The probability.",
        "v": "Tensor\n    The order.",
        "x": "Tensor\n    Real.",
        "z": "Tensor\n    Real or complex.",
    },
)
