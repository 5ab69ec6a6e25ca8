"""Which operation and which user line each Dask array comes from, for the errors of its tasks.

Stored by the array's name, outside the graph: tasks are pickled, fused and shared, and names remain.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any, NamedTuple

import array_api_compat
import dask
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from agrad.plugin.backend import Spec, getframe, is_internal, line_of, lock, place_in
from agrad_dask.staging import name_of

#: The number of arrays remembered, the latest ones.
MAX_ORIGINS = 2**15

#: Between the user's line and an array are frames of agrad, this plugin, the namespace and Dask.
_FOLDERS = tuple(os.path.dirname(str(m.__file__)) + os.sep for m in (array_api_compat, dask, sys.modules["agrad_dask"]))


class Origin(NamedTuple):
    """The origin of an array: an op called at an instruction, or the backward of a node recorded there."""

    op: str
    code: CodeType | None
    lasti: int
    backward: str | None

    def __str__(self) -> str:
        line = line_of(self.code, self.lasti)
        if self.backward is None:
            return f"{self.op}, called at {line}"
        return f"{self.op} in backward of {self.backward}, recorded at {line}"


_ORIGINS: OrderedDict[str, Origin] = OrderedDict()
_LOCK = lock()


def note(op: str, operands: tuple[Any, ...], result: Any) -> None:
    """Remember the origin of a kernel's result, and of the intermediate arrays between it and the operands."""
    results = [r for r in (result if isinstance(result, tuple) else (result,)) if hasattr(r, "dask")]
    given = set(_names(operands))
    made: list[str] = []
    for r in results:
        graph, names = r.dask, [r.name]
        while names:
            name = names.pop()
            if name not in given:
                given.add(name)
                made.append(name)
                names.extend(graph.dependencies.get(name, ()))
    if not made:
        return
    origin = _here(op)
    with _LOCK:
        for name in made:
            _ORIGINS[name] = origin
            _ORIGINS.move_to_end(name)
        while len(_ORIGINS) > MAX_ORIGINS:
            _ORIGINS.popitem(last=False)


def _names(operands: Any) -> Iterator[str]:
    for operand in operands:
        if hasattr(operand, "dask"):
            yield operand.name
        elif isinstance(operand, list | tuple):
            yield from _names(operand)
        elif isinstance(operand, Spec) and hasattr(operand.layout, "array"):  # of unknown size
            yield operand.layout.array.name
        elif isinstance(operand, str):
            yield operand


def run_rule(run: Callable[..., Any], rule: Any, g: Any, node: Any, vjp: Any) -> Any:
    """Run the rule of a node: arrays it creates come from there, unless a user line that it calls creates them."""
    token = _NODE.set(node)
    try:
        return run(rule, g, node, vjp)
    finally:
        _NODE.reset(token)


#: The node whose rule runs.
_NODE: ContextVar[Any] = ContextVar("node", default=None)


def _here(op: str) -> Origin:
    node, frame = _NODE.get(), getframe(2)
    found = users_frame(frame, within=None if node is None else run_rule.__code__)
    if found.f_code is run_rule.__code__:
        return Origin(op, node.code, node.lasti, node.name())
    return Origin(op, *place_in(found), None)


def _is_users(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return not is_internal(name) and not name.startswith(_FOLDERS)


def users_frame(frame: FrameType, within: CodeType | None = None) -> FrameType:
    """Return the first user frame, counting outwards; the outermost if there is none, or one that runs some code."""
    while frame.f_back is not None and frame.f_code is not within and not _is_users(frame):
        frame = frame.f_back
    return frame


def array_of(key: Any) -> str:
    """Return the name of the array that a key is a block of; in a fused task the keys carry the block at their end."""
    return name_of(key).partition("_.")[0].rstrip("_")


def of(key: Any, graph: Any = None) -> tuple[Origin | None, bool]:
    """Return the origin of the array that a key is a block of; if it is unknown, the first origin of arrays made from it.

    Parameters
    ----------
    key : key
        Of a task; those inside a fused task have keys too.
    graph : HighLevelGraph, optional
        The user's line.

    Returns
    -------
    origin : Origin or None
    exact : bool
        Whether it is the origin of that array itself.
    """
    name = array_of(key)
    if name in _ORIGINS or graph is None:
        return _ORIGINS.get(name), True
    users = graph.dependents
    near, seen = [name], {name}
    for at in near:  # grows
        if at in _ORIGINS:
            return _ORIGINS[at], False
        near.extend(user for user in users.get(at, ()) if user not in seen)
        seen.update(users.get(at, ()))
    return None, False


# -- values persisted on a cluster ------------------------------------------------------------------------------------


def persisted(graph: HighLevelGraph) -> dict[Any, tuple[Any, Any]]:
    """Return the futures in a graph, each with its key, by their names on the cluster."""
    layers = (layer for layer in graph.layers.values() if isinstance(layer, MaterializedLayer))
    return {v.key: (key, v) for layer in layers for key, v in layer.items() if hasattr(v, "cancelled")}


def gone(name: Any, graph: HighLevelGraph) -> RuntimeError:
    """Create the error for a value that was persisted on a cluster and cannot be fetched from it."""
    key, _ = persisted(graph).get(name, (name, None))
    origin, exact = of(key, graph)
    what = origin if origin and exact else f"{array_of(key)}, made outside agrad,"
    return RuntimeError(
        f"the value of {what} was persisted on a cluster whose client is closed, or not the active one."
        "\n  Compute while that client is active (with client.as_current(): ...). What a closed cluster held is lost: make"
        " the tensor again from its data, or use ag.compute, which fetches values to the client, instead of ag.persist."
    )
