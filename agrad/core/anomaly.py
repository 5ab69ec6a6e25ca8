"""Observe cotangents in a watched pass: log lines, and NaN checks."""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.backend import backend_of
from agrad.core.node import Node
from agrad.core.tensor import Tensor


def described(g: Any) -> str:
    """Return dtype and shape of a cotangent, or of several, for the log."""
    if isinstance(g, list | tuple):
        return ", ".join(map(described, g))
    return "None" if g is None else f"{g.dtype}{list(g.shape)}"


def without_nan(vjp: Any) -> Any:
    """Return a vjp that raises where a cotangent it returns contains NaN: anomaly detection."""

    def checked_vjp(xp: Any, g: Any, saved: tuple[Any, ...], node: Node) -> Any:
        gs = vjp(xp, g, saved, node)
        places = [i for i, (target, _) in enumerate(node.next_functions) if target is not None]
        for place, part in zip(places, node.per_input(gs), strict=True):
            if part is not None and holds_nan(part):
                raise errors.nan_found(node, place)
        return gs

    return checked_vjp


def holds_nan(part: Any) -> bool:
    """Return whether a cotangent, raw or a Tensor, contains NaN."""
    raw = part._raw if isinstance(part, Tensor) else part
    backend = backend_of(raw)
    assert backend is not None
    return backend.holds_nan(raw)
