"""Saved-tensor hooks: values that a node saves go out through the user's ``pack`` and return through ``unpack``.

Hooks are part of the mode. While some are on, calls take the general path and end in `pack_node`; ``hooks.packed`` marks a
node packed this way, and the engine sees it where it checks for hooks anyway. Programs without hooks pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from agrad.core import errors, mode
from agrad.core.backend import backend_of
from agrad.core.node import Constants, hooks_of
from agrad.core.tensor import Tensor, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agrad.core.node import Node


class Pair(NamedTuple):
    """One entered pair of hooks. `note`, if there is one, gets the node before each of its values is packed."""

    pack: Callable[[Tensor], Any]
    unpack: Callable[[Any], Tensor]
    note: Callable[[Node | None], None] | None = None


class Disabled(NamedTuple):
    """Marks in the mode that saved-tensor hooks may not be entered."""

    message: str


class Packed:
    """One saved value in packed form.

    Attributes
    ----------
    content : object
        The result of the outermost ``pack``.
    pairs : tuple of Pair
        The hooks that packed it, first to last.
    spec : Spec
        The spec of the value.
    """

    __slots__ = ("content", "pairs", "spec")

    def __init__(self, value: Tensor, pairs: Iterable[Pair], node: Node | None = None) -> None:
        """Pack a value of a node; inner hooks first, and outer ones as long as the result is a Tensor."""
        raw = value._raw
        content: Any = value
        passed = []
        for pair in pairs:
            if not isinstance(content, Tensor):
                break
            if pair.note is not None:
                pair.note(node)
            content = _apart(pair.pack, content)
            passed.append(pair)
        if value._raw is not raw:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot"
                " be modified by in-place operations as this can lead to unexpected side-effects."
                f"{errors.called()}"
            )
        self.spec: Any = value._spec
        # the user's own object may be given another value later
        self.content: Any = wrap(raw, value._spec) if content is value else content
        self.pairs: tuple[Any, ...] = tuple(passed)

    def unpack(self) -> Tensor:
        """Unpack the value."""
        content = self.content
        for pair in reversed(self.pairs):
            content = _apart(pair.unpack, content)
            if not isinstance(content, Tensor):
                raise TypeError(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type"
                    f" {type(content).__name__}"
                )
        shape = content._spec.shape
        if shape != self.spec.shape and self.spec.size == self.spec.size:  # nan: a length that is not known yet
            raise RuntimeError(
                f"Output of saved tensor unpack_hook has shape {shape}, where the value saved had {self.spec.shape};"
                " a derivative computed from it would be wrong"
            )
        if content._spec.backend is not self.spec.backend:
            content = _apart(content.to_device, self.spec.device)
        opened: Tensor = content
        return opened


def _apart(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function for a saved value: nothing is recorded, and tensors that it saves itself are not packed."""
    before = mode.get_mode()
    try:
        mode.push(grad=False, saved=())
        return function(*args)
    finally:
        mode.set_mode(before)


def around() -> tuple[Any, ...]:
    """Return the active pairs before another is entered, outermost first; raise where entering is disabled."""
    now = mode.current()
    entries = () if now is None else now.saved
    for entry in entries:
        if isinstance(entry, Disabled):
            raise RuntimeError(entry.message)  # noqa: TRY004 (PyTorch's type)
    return entries


def active() -> tuple[Pair, ...]:
    """Return the active hooks, innermost first."""
    now = mode.current()
    return tuple(pair for pair in reversed(now.saved) if isinstance(pair, Pair)) if now is not None else ()


def pack_node(node: Node, operands: list[Tensor | None]) -> None:
    """Pack the values that a node has just saved, if hooks are on.

    Parameters
    ----------
    node : Node
        The node of the call.
    operands : list of Tensor or None
        The operands of the call: hooks get the user's own tensors, such as a `Parameter`.
    """
    now = mode.get_mode()
    pairs = active() if now is not None and now.saved else ()
    if not pairs or not node.saved or type(node.saved) is Constants:
        return
    own = {id(t._raw): t for t in operands if t is not None}
    node.saved = tuple(_packed(value, own, pairs, node) for value in node.saved)
    hooks_of(node).packed = True


def _packed(value: Any, own: dict[int, Tensor], pairs: tuple[Pair, ...], node: Node) -> Any:
    """Pack the arrays in a saved value: the value itself, a list of operands or an indexing key."""
    if isinstance(value, list | tuple):
        return type(value)(_packed(part, own, pairs, node) for part in value)
    backend = backend_of(value)
    if backend is None:
        return value
    tensor = own.get(id(value))
    return Packed(wrap(value, backend.spec(value)) if tensor is None else tensor, pairs, node)


def unpacked(value: Any) -> Any:
    """Return a saved value, or a tuple or list of them, with every packed value unpacked: raw arrays."""
    if isinstance(value, Packed):
        return value.unpack()._raw
    if isinstance(value, list | tuple):
        return type(value)(map(unpacked, value))
    return value
