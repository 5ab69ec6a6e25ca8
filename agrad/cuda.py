"""PyTorch's queries about CUDA: its devices are those of the cupy backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.plugin import manager as _manager
from agrad.random import manual_seed as _manual_seed

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    """Return whether there is a CUDA device: whether the cupy backend is installed and works here.

    Returns
    -------
    bool
        Then ``ag.device("cuda")`` can be computed on.

    Examples
    --------
    >>> import agrad as ag
    >>> device = ag.device("cuda" if ag.cuda.is_available() else "cpu")
    >>> ag.zeros(2).to(device).device == device
    True
    """
    return any(row.name == "cupy" and row.available for row in _manager.backends())


def device_count() -> int:
    """Return how many CUDA devices there are.

    Returns
    -------
    int
        0 where `is_available` is False.

    Examples
    --------
    >>> import agrad as ag
    >>> (ag.cuda.device_count() > 0) == ag.cuda.is_available()
    True
    """
    return len(_manager.usable("cupy").devices()) if is_available() else 0


def manual_seed(seed: int) -> None:
    """Seed the default generator, which all devices draw from; see `agrad.manual_seed`.

    Parameters
    ----------
    seed : int
        The seed.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.cuda.manual_seed(0)
    """
    _manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the default generator, which all devices draw from; see `agrad.manual_seed`.

    Parameters
    ----------
    seed : int
        The seed.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.cuda.manual_seed_all(0)
    """
    _manual_seed(seed)


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
