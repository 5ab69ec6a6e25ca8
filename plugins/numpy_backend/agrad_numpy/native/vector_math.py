"""Functions of one float on vectors: their instructions, to at most 1.5 units in the last place."""

from __future__ import annotations

from collections.abc import Callable

from agrad_numpy.native.ir import Arithmetic

#: By operation.
FUNCTIONS: dict[str, Callable[[Arithmetic, str], str]] = {}


class Math:
    """The functions that the kernels of a module call.

    Attributes
    ----------
    texts : dict
        Of the functions, by name, dtype and width.
    declared : set of str
        What they declare.
    """

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str, int], str] = {}
        self.declared: set[str] = set()

    def call(self, e: Arithmetic, op: str, a: str) -> str:
        """Return a call."""
        raise NotImplementedError
