"""Functions whose graph does not depend on their arguments, as programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agrad import tree
from agrad.ops.creation import asarray
from agrad.program.arguments import bare_all, is_raw
from agrad.program.capture import capture

__all__ = ["const_graph"]


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Return a function that runs as Python code once, and then as the program of that run.

    `fun` must behave identically for all arguments of the same shapes; `args` are its first ones. When called, raises
    CaptureError, like `agrad.func.capture`.

    >>> import agrad as ag
    >>> runs = []
    >>> f = const_graph(lambda c, x: runs.append(1) or c * ag.sin(x), 3.0)
    >>> f(0.0), f(0.5).round(4), len(runs)
    (np.float64(0.0), np.float64(1.4383), 1)
    """
    program: list[Any] = []

    @functools.wraps(fun)
    def constant(*rest: Any) -> Any:
        tensors = tree.map(asarray, rest)
        if not program:
            program.append(capture(functools.partial(fun, *args, **kwargs))(*tensors))
        found = program[0](*tensors)
        return bare_all(found) if is_raw(*rest) else found

    return constant
