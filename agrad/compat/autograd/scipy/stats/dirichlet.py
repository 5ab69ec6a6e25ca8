"""``autograd.scipy.stats.dirichlet``: the methods of `agrad.scipy.stats.dirichlet`."""

from __future__ import annotations

from typing import Any

from agrad.compat.autograd.plain import plain as _plain
from agrad.scipy.stats import dirichlet as _names


def __getattr__(name: str) -> Any:
    return _plain(getattr(_names, name))


def __dir__() -> list[str]:
    return dir(_names)
