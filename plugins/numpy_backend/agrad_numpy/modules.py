"""NumPy and modules of SciPy: for those functions of `agrad.scipy` that run SciPy's, and for docstrings that refer to theirs."""

from __future__ import annotations

import importlib
from typing import Any


def module(name: str) -> Any:
    """Return a module, None where SciPy is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "scipy":
            raise
        return None
