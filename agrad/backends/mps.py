"""PyTorch's questions about Apple's GPUs: no backend here uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.core import names as _names

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Return False.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> import agrad as ag
    >>> "mps" if ag.backends.mps.is_available() else "cpu"
    'cpu'
    """
    return False


def is_built() -> bool:
    """Return False.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.backends.mps.is_built()
    False
    """
    return False


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
