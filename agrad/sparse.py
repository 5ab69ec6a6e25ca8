"""Sparse matrices in the graph: products with constant ones, and matrices whose stored values are a tensor."""

from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.ops.sparse import *  # noqa: F403 (its __all__)

if not TYPE_CHECKING:
    from agrad.ops.sparse import __all__  # noqa: F401 (what the star gave)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
