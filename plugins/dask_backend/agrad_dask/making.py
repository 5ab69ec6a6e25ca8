"""The memory that functions called by tasks allocate, declared where they are defined; `task_memory` adds it up.

For functions of array libraries it follows from the declarations of agrad's operations, see `task_memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: A part of what the function is given, or all of it; its result, and nothing beside it.
NOTHING, RESULT = "nothing", "result"
_DECLARED = "_agrad_makes"


def makes(what: str) -> Callable[[F], F]:
    """Declare what a function makes."""

    def declare(function: F) -> F:
        setattr(function, _DECLARED, what)
        return function

    return declare


def declared(function: Any) -> str | None:
    """Return what a function makes, None if that was not declared."""
    return getattr(function, _DECLARED, None)
