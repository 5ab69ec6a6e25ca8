"""PyTorch's switches of cuDNN, which no array library here has: they can be set, and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.core import names as _names

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available"]

#: Switches, as they were set last.
benchmark = deterministic = allow_tf32 = False
enabled = True


def is_available() -> bool:
    """Return False: cuDNN is not used.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> import agrad.backends.cudnn as cudnn
    >>> cudnn.benchmark = True
    >>> cudnn.is_available()
    False
    """
    return False


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
