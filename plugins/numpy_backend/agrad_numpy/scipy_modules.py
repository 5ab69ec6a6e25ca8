"""Modules of SciPy, for those functions of `agrad.scipy` that run SciPy's with NumPy's arrays."""

from __future__ import annotations

import importlib
from typing import Any


def module(name: str) -> Any:
    """Return a module of SciPy, None where SciPy is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "scipy":
            raise
        return None
