"""Cotangents of another backend than their node's: a rule runs where its cotangent is, and lazy values stay lazy.

Lazy cotangents that arrive at non-lazy values are computed at the end of the pass, all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agrad.core.backend import Backend, backend_of, joined
from agrad.core.cotangents import fit
from agrad.core.materialize import is_lazy, is_loss, put_back, realised
from agrad.core.node import Node
from agrad.core.spec import Spec, Specs


def joined_with(spec: Spec, cotangents: Iterable[Any]) -> Backend:
    """Return the backend on which a node of this spec runs with raw cotangents, some perhaps None.

    If the two backends do not mix it is the cotangent's, to which the node's values are transferred.
    """
    found = [backend_of(g) for g in cotangents if g is not None]
    others = [backend for backend in found if backend is not None and backend is not spec.backend]
    return (joined([spec.backend, *others]) or others[0]) if others else spec.backend


def is_foreign(cotangent: Any, node: Node) -> bool:
    """Return whether a raw cotangent belongs to another backend than the node it goes to."""
    return cotangent is not None and backend_of(cotangent) is not node.spec.backend


class RelocatedNode:
    """A node as its rule sees it on the backend of a lazy cotangent: with specs of that backend."""

    def __init__(self, node: Node, backend: Backend) -> None:
        self.node = node
        specs = tuple(spec_on(backend, spec) for spec in node.out_specs)
        self.spec: Any = Specs(specs) if isinstance(node.spec, tuple) else specs[0]
        if hasattr(node, "specs"):
            self.specs: tuple[Any, ...] = tuple(None if spec is None else spec_on(backend, spec) for spec in node.specs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)


def spec_on(backend: Backend, spec: Spec) -> Spec:
    """Return the spec that an array of another backend has after its transfer to this one."""
    return Spec(backend, spec.shape, backend.dtype(spec.backend.dtype_name(spec.dtype)), backend.default_device())


def on_backend(value: Any, backend: Backend) -> Any:
    """Return a saved value or cotangent, or a tuple or list of them, with all arrays transferred to one backend."""
    if isinstance(value, list | tuple):
        return type(value)(on_backend(part, backend) for part in value)
    source = backend_of(value)
    if source is None or source is backend:
        return value
    return backend.receive(source, source.as_array(value), backend.default_device())


def transfer(source: Any, array: Any, spec: Spec) -> Any:
    """Transfer a cotangent from another backend to its operand's."""
    backend = spec.backend
    array = source.send(source.as_array(array), backend, spec.device)
    return fit((backend_of(array) or backend).xp, array, spec)


def computed(cotangents: Sequence[tuple[Any, Spec]], values: Iterable[Any]) -> list[Any]:
    """Compute, in one pass, the lazy cotangents of non-lazy values, and transfer them there.

    Parameters
    ----------
    cotangents : sequence of (array or None, Spec)
        Raw cotangents, with the specs of the values they belong to.
    values : iterable of Tensor
        The differentiated values: losses among them get their values too.
    """
    wanted = {id(g): g for g, spec in cotangents if is_lazy(g) and not spec.backend.is_lazy}
    if not wanted:
        return [g for g, _ in cotangents]
    losses = [t for t in values if is_loss(t)]
    lazy = {id(t._raw): t._raw for t in losses}
    found = realised([*wanted.values(), *lazy.values()])
    put_back(losses, {key: (array, found[key]) for key, array in lazy.items()})
    return [
        transfer(backend_of(g), found[id(g)], spec) if id(g) in wanted and not spec.backend.is_lazy else g
        for g, spec in cotangents
    ]
