"""``autograd.scipy.integrate``: the names of `agrad.scipy.integrate`."""

from __future__ import annotations

from typing import Any

import agrad.scipy.integrate as _names
from agrad.compat.autograd.plain import plain as _plain


def __getattr__(name: str) -> Any:
    return _plain(getattr(_names, name))


def __dir__() -> list[str]:
    return dir(_names)
