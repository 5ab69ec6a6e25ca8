"""PyTorch's queries about accelerators: there is one kind here, the CUDA devices of the cupy backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import agrad.cuda as _cuda
from agrad.core import names as _names
from agrad.core.backend import Device as _Device

__all__ = ["current_accelerator", "device_count", "is_available"]


def is_available() -> bool:
    """Return whether there is an accelerator; see `agrad.cuda.is_available`.

    Returns
    -------
    bool
        Whether `current_accelerator` returns one.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.accelerator.is_available() == ag.cuda.is_available()
    True
    """
    return _cuda.is_available()


def device_count() -> int:
    """Return how many accelerators there are; see `agrad.cuda.device_count`.

    Returns
    -------
    int
        0 where `is_available` is False.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.accelerator.device_count() == ag.cuda.device_count()
    True
    """
    return _cuda.device_count()


def current_accelerator(check_available: bool = False) -> _Device | None:  # noqa: ARG001 (it has to be there in any case)
    """Return the device that computations are moved to, or None.

    Parameters
    ----------
    check_available : bool, optional
        Ignored: without a usable device there is none.

    Returns
    -------
    Device or None
        The first device of cupy's, if there is one.

    Examples
    --------
    >>> import agrad as ag
    >>> device = ag.accelerator.current_accelerator() or ag.device("cpu")
    >>> ag.zeros(2).to(device).device == device
    True
    """
    return _Device("cupy:0") if is_available() else None


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
