"""Python's containers, and questions about types, as HIPS autograd's programs write them.

Containers of tensors are Python's own; `isinstance` and `type` look at the value that a tensor holds.
"""

from __future__ import annotations

import builtins
from builtins import dict, list, tuple  # noqa: UP029 (public names of this module)
from builtins import dict as DictBox
from typing import Any

from agrad.core.tensor import Tensor

__all__ = ["DictBox", "dict", "isinstance", "list", "tuple", "type"]


def isinstance(x: Any, kind: Any) -> bool:
    """Return whether a value, or the array that it holds if it is a tensor, is of a type.

    >>> import agrad as ag
    >>> import numpy as np
    >>> isinstance(ag.ones(2), np.ndarray), isinstance(ag.ones(2), ag.Tensor), isinstance([], list)
    (True, True, True)
    """
    return builtins.isinstance(x, kind) or (builtins.isinstance(x, Tensor) and builtins.isinstance(x._raw, kind))


def type(x: Any) -> Any:
    """Return the type of a value, or of the array that it holds if it is a tensor."""
    return builtins.type(x._raw if builtins.isinstance(x, Tensor) else x)
