"""The API that plugins import from agrad, beside `agrad` itself: the contract, and the parts of the core that kernels and backends need.

These names belong to the contract and its version, like `agrad.plugin.programs`. docs/plugin.md describes each in one
sentence.
"""

from agrad.core.backend import CONTRACT, SPECS_KEPT, Backend, Device, Outlook, Place, backend_of, spec_of
from agrad.core.blank import Blank, NeedsValuesError
from agrad.core.cotangents import MaskedCotangents
from agrad.core.cpython import getframe, place_in, uncollected
from agrad.core.errors import (
    called,
    in_dask,
    inexact_only,
    internal,
    is_internal,
    line_of,
    more_than_numbers,
    user_frame,
)
from agrad.core.executor import Executor, KeptValues, Refused
from agrad.core.facts import WITHOUT_OP
from agrad.core.kernels import PRIMITIVES, SUBNAMESPACES, check_bounds, forget_kernels, is_mask, key_parts, visits_once
from agrad.core.materialize import computing_anyway, is_asked, told
from agrad.core.mode import not_recorded
from agrad.core.names import MissingName
from agrad.core.node import ancestors
from agrad.core.once import lock, once
from agrad.core.op import OPS, facts_of
from agrad.core.spec import Spec
from agrad.core.tensor import array_of, is_followed, node_of
from agrad.ops.nn import TAIL, TAIL_END, TAIL_K, Padding, Pair, output_size

__all__ = [
    "CONTRACT",
    "OPS",
    "PRIMITIVES",
    "SPECS_KEPT",
    "SUBNAMESPACES",
    "TAIL",
    "TAIL_END",
    "TAIL_K",
    "WITHOUT_OP",
    "Backend",
    "Blank",
    "Device",
    "Executor",
    "KeptValues",
    "MaskedCotangents",
    "MissingName",
    "NeedsValuesError",
    "Outlook",
    "Padding",
    "Pair",
    "Place",
    "Refused",
    "Spec",
    "ancestors",
    "array_of",
    "backend_of",
    "called",
    "check_bounds",
    "computing_anyway",
    "facts_of",
    "forget_kernels",
    "getframe",
    "in_dask",
    "inexact_only",
    "internal",
    "is_asked",
    "is_followed",
    "is_internal",
    "is_mask",
    "key_parts",
    "line_of",
    "lock",
    "more_than_numbers",
    "node_of",
    "not_recorded",
    "once",
    "output_size",
    "place_in",
    "spec_of",
    "told",
    "uncollected",
    "user_frame",
    "visits_once",
]
