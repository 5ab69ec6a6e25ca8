"""Hooks on tensors and nodes: user functions that see or replace a gradient.

Order at one node: tensor hooks, then storing for `retain_grad`, then node pre-hooks, the node, node post-hooks. At a
leaf: tensor hooks, accumulator pre-hooks, accumulation, post-accumulate hooks, accumulator post-hooks. Within a kind,
in order of registration.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, Self

from agrad.core import errors

_next_key = itertools.count().__next__


class Handle:
    """Removes a hook: by `remove`, or on leaving the handle as a context manager."""

    def __init__(self, hooks: dict[int, Callable[..., Any]], key: int) -> None:
        self._hooks = weakref.ref(hooks) if isinstance(hooks, _HookTable) else None
        self._key = key

    def remove(self) -> None:
        """Remove the hook; doing so twice is not an error."""
        hooks = self._hooks() if self._hooks else None
        if hooks is not None:
            hooks.pop(self._key, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class _HookTable(dict[int, Callable[..., Any]]):
    """Hooks of one kind by key, in order of registration; can be referenced weakly."""

    __slots__ = ("__weakref__",)


class Hooks:
    """The hooks of one node.

    Attributes
    ----------
    tensor : dict
        On the gradient of the node's result.
    pre, post : dict
        Around the node.
    accumulated : dict
        After a leaf's `.grad` was updated.
    retained : list of weakref
        Results whose `.grad` is kept.
    packed : bool
        Whether the node's saved values went through saved-tensor hooks.
    grad_dtype : tuple of one, or None
        The value set as `Tensor.grad_dtype` of a leaf.
    """

    __slots__ = ("accumulated", "grad_dtype", "packed", "post", "pre", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: _HookTable = _HookTable()
        self.pre: _HookTable = _HookTable()
        self.post: _HookTable = _HookTable()
        self.accumulated: _HookTable = _HookTable()
        self.retained: list[weakref.ref[Any]] = []
        self.packed: bool = False
        self.grad_dtype: tuple[Any] | None = None

    def add(self, kind: str, hook: Callable[..., Any]) -> Handle:
        """Register a hook of a kind."""
        if not callable(hook):
            raise TypeError(f"a hook must be callable, not {type(hook).__name__}")
        key = _next_key()
        table: _HookTable = getattr(self, kind)
        table[key] = hook
        return Handle(table, key)

    def retain(self, tensor: Any) -> None:
        """Keep the gradient of a result."""
        self.retained.append(weakref.ref(tensor))

    def retained_too(self, tensor: Any) -> tuple[Hooks, str, list[weakref.ref[Any]]]:
        """Return the arguments of ``setattr`` that also keep the gradient of a result."""
        return self, "retained", [*self.retained, weakref.ref(tensor)]

    def unretained(self, tensor: Any) -> tuple[Hooks, str, list[weakref.ref[Any]]]:
        """Return the arguments that stop keeping it: the tensor becomes the result of another node."""
        return self, "retained", [r for r in self.retained if r() is not tensor]

    def run_tensor(self, g: Any, node: Any) -> Any:
        """Run the tensor hooks on a gradient."""
        for hook in list(self.tensor.values()):
            result = hook(g)
            if result is not None:
                g = checked(result, g, node, hook)
        return g


def name_of(hook: Callable[..., Any]) -> str:
    """Return the name of a hook for messages."""
    return str(getattr(hook, "__name__", type(hook).__name__))


def checked(result: Any, g: Any, node: Any, hook: Callable[..., Any]) -> Any:
    """Check that a hook's result can replace the gradient that the hook was given."""
    if not hasattr(result, "_spec"):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'{errors.at(node)}")
    if g is None:
        raise RuntimeError(f"can't replace a None gradient with a non-None value{errors.at(node)}")
    if result.shape != g.shape:
        raise RuntimeError(
            f"hook '{name_of(hook)}' has changed the size of value (was {list(g.shape)} got {list(result.shape)})"
            f"{errors.at(node)}"
        )
    if result.dtype != g.dtype:
        raise RuntimeError(
            f"hook '{name_of(hook)}' has changed the type of value (was {g.dtype} got {result.dtype}){errors.at(node)}"
        )
    if result._spec.device != g._spec.device:
        raise RuntimeError(
            f"hook '{name_of(hook)}' has changed the device of value (was {g._spec.device} got {result._spec.device})"
            f"{errors.at(node)}"
        )
    return result


def checked_all(results: Any, gs: tuple[Any, ...], node: Any, hook: Callable[..., Any]) -> tuple[Any, ...]:
    """Check the result of a hook on a node, a tuple with a gradient per position."""
    parts = tuple(results) if isinstance(results, tuple | list) else (results,)
    if len(parts) != len(gs):
        raise RuntimeError(
            f"hook '{name_of(hook)}' has returned an incorrect number of values (got {len(parts)}, but expected"
            f" {len(gs)}){errors.at(node)}"
        )
    return tuple(None if part is None else checked(part, g, node, hook) for part, g in zip(parts, gs, strict=True))
