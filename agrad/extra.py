"""Functions beyond the standard that users expect, under their names in NumPy and PyTorch."""

from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.ops.extra import *  # noqa: F403 (its __all__)

if not TYPE_CHECKING:
    from agrad.ops.extra import __all__  # noqa: F401 (what the star gave)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
