"""Linear algebra: the standard's ``linalg`` extension."""

from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.ops.decompositions import *  # noqa: F403 (its __all__)
from agrad.ops.eigenvalues import *  # noqa: F403 (its __all__)
from agrad.ops.linalg import *  # noqa: F403 (its __all__)
from agrad.ops.solving import *  # noqa: F403 (its __all__)

if not TYPE_CHECKING:
    from agrad.ops.namespace import SUBNAMESPACES as _SUBNAMESPACES

    __all__ = [name for chapter in _SUBNAMESPACES["linalg"] for name in chapter.__all__]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
