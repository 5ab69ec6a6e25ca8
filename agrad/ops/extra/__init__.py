"""Functions beyond the standard that users of NumPy, SciPy and PyTorch expect, under their own names.

Where two libraries differ, a function follows the one it is named after, as its docstring says. Arguments have the
standard's names (``axis``, ``keepdims``), in the order of that library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.ops.docs import complete as _complete
from agrad.ops.extra.activations import *
from agrad.ops.extra.einstein import *
from agrad.ops.extra.joining import *
from agrad.ops.extra.missing import *
from agrad.ops.extra.numerics import *
from agrad.ops.extra.products import *
from agrad.ops.extra.running import *
from agrad.ops.extra.selecting import *
from agrad.ops.extra.shaping import *
from agrad.ops.extra.statistics import *

if not TYPE_CHECKING:  # a type checker reads the imports
    _FAMILIES = (activations, einstein, joining, missing, numerics, products, running, selecting, shaping, statistics)
    __all__ = [name for family in _FAMILIES for name in family.__all__]

_complete(
    globals(),
    {
        "arrays": "sequence of Tensor",
        "axis": "int or tuple of int, optional\n    The axes; all by default.",
        "correction": "float, optional",
        "dim": "optional",
        "input": "Tensor\n    Any shape, real.",
        "k": "int, optional",
        "keepdims": "bool, optional\n    Keep the axes at length 1.",
    },
)
