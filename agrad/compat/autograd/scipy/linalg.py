"""``autograd.scipy.linalg``: the names of `agrad.scipy.linalg`."""

from __future__ import annotations

from typing import Any

import agrad.scipy.linalg as _names
from agrad.compat.autograd.plain import plain as _plain


def __getattr__(name: str) -> Any:
    return _plain(getattr(_names, name))


def __dir__() -> list[str]:
    return dir(_names)
