"""Run tests without one optimisation: ``pytest --without=tiles tests/program``. Each may cost time, and changes no result.

`WITHOUT` lists them. Native code is left out where llvmlite is (``nox -s everything -- text``), and the kit compares fused
kernels with the compositions that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable


def entries() -> None:
    """Let every call go the general way, which entry points that are generated take in unusual cases alone."""
    from agrad.core import entry

    entry.WIDEST = 0  # operands that generated code may have


def passes() -> None:
    """Run programs as they were recorded."""
    from agrad.program import passes

    passes.PASSES = ()


def tiles() -> None:
    """Run the steps of programs on whole arrays, however large."""
    from agrad_numpy import tiles

    tiles.CUT_FROM = 2**62


#: By name: what switches it off, in a process that has made no tensor yet.
WITHOUT: dict[str, Callable[[], None]] = {one.__name__: one for one in (entries, passes, tiles)}
