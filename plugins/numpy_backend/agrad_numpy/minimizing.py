"""SciPy's minimisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def minimize() -> Callable[..., Any] | None:
    """Return ``scipy.optimize.minimize``, None where SciPy is not installed."""
    try:
        from scipy import optimize  # noqa: PLC0415 (most programs need none of it)
    except ModuleNotFoundError as error:
        if error.name != "scipy":
            raise
        return None
    found: Callable[..., Any] = optimize.minimize
    return found
