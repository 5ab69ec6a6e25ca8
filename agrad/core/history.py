"""Values with their history: saved values of nodes, and cotangents, as tensors that can be differentiated again."""

from __future__ import annotations

from typing import Any

from agrad.core.mode import recorder
from agrad.core.node import AccumulateGrad, Node, output_of
from agrad.core.operands import from_raw
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor, wrap


def fresh(g: Tensor, node: Node | None) -> Tensor:
    """Return the value of a tensor, tangents included, as a new tensor with another history."""
    made = wrap(g._raw, g._spec, node)
    made._tangents = g._tangents
    return made


def as_gradient(g: Any) -> Tensor:
    """Return a cotangent as a new Tensor: cotangents are shared, and hooks and users may change theirs."""
    if not isinstance(g, Tensor):
        return from_raw(g)
    if isinstance(g._node, AccumulateGrad):  # the user's own cotangent, passed through
        clone: Tensor = g._spec.backend.functions.positive(g)
        return clone
    return fresh(g, g._node)


def rebuilt(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the saved values of a node as tensors with their history, for rules that are themselves recorded.

    An operand is rebuilt from its saved value and its edge; the user's object is never used, since it may hold another value
    by now. Index operands stay raw.
    """
    plan = node.plan
    if plan is None:  # a Function keeps its own record of saved tensors
        return saved
    inputs = node.inputs
    result: list[Any] = []
    for value, place in zip(saved, plan.places, strict=True):
        if place is None:
            result.append(value)
        elif type(place) is int:
            result.append(restore(value, inputs[place] if place >= 0 else None))
        elif place == "ans":
            several = isinstance(value, tuple)
            result.append(
                tuple(restore(v, output_of(node, i)) for i, v in enumerate(value)) if several else restore(value, node)
            )
        else:
            result.append([restore(v, inputs[p] if p >= 0 else None) for v, p in zip(value, place, strict=True)])
    return tuple(result)


def restore(value: Any, node: Node | None) -> Any:
    """Make a Tensor from a saved value; Python scalars and missing operands stay unchanged."""
    if value is None:
        return None
    node = origin(node)
    if isinstance(value, Tensor):  # saved with its tangents
        return fresh(value, node)
    tensor = from_raw(value)
    tensor._node = node
    return tensor


def origin(node: Node | None) -> Node | None:
    """Return the node that made a value, skipping the nodes that lifted it into batches.

    A cotangent that leaves a batch is summed over it: if a value were lifted twice, the sum would count once per member.
    """
    while node is not None and node.lifts:
        (node,) = node.inputs
    return node


def laid_out(gs: Any, node: Node) -> Any:
    """Return recorded cotangents in the layouts of the operands; this is not an operation, so their nodes stay."""
    if not node.multi_input:
        return _in_layout(gs, node.inputs[0].spec)
    return type(gs)(_in_layout(g, edge.spec) for g, edge in zip(gs, node.inputs, strict=True))


def _in_layout(g: Tensor | None, spec: Spec) -> Tensor | None:
    if g is None or g._spec.backend is not spec.backend:
        return g
    raw = spec.backend.in_layout(g._raw, spec)
    if raw is g._raw:
        return g
    recording = recorder()
    if recording is not None:
        recording.alias(raw, g._raw)
    made = wrap(raw, spec.backend.spec(raw), g._node)
    made._tangents = g._tangents
    return made
