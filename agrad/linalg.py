"""Linear algebra: the standard's ``linalg`` extension."""

from agrad.ops.linalg import *  # noqa: F403 (its __all__)
from agrad.ops.linalg import __all__  # noqa: F401 (what the star gave)
