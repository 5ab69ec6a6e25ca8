"""Functions beyond the standard that users expect."""

from __future__ import annotations

__all__: list[str] = []
