"""Memory of tensors: who owns an array, and how a tensor gets a new one.

An array may be written in place only while its tensor owns it, that is while nothing else holds it (`own`). In-place
methods end in `rebind`, unrecorded assignments in `assign_data`; `cpython.is_temporary` detects writes that would be lost.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat, starmap
from threading import get_ident
from typing import Any

from agrad.core import errors, mode
from agrad.core.cpython import assign_all
from agrad.core.node import AccumulateGrad, Node
from agrad.core.spec import Spec
from agrad.core.tensor import Storage, Tensor, array_slot, bases, history, is_moved, spec_slot, wrap


class _Owner:
    """Mixin for the class of a tensor that owns its array."""

    __slots__ = ()


#: The owner class for each tensor class.
_OWNERS: dict[Any, Any] = {}


def _owner_class(cls: type[Tensor]) -> Any:
    found = _OWNERS.get(cls)
    if found is not None:
        return found

    def release(self: Any) -> Any:
        self.__class__ = cls
        self.__dict__.pop("_buffer", None)
        return array_slot.__get__(self)

    def replace(self: Any, data: Any) -> None:
        release(self)
        array_slot.__set__(self, data)

    members = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    made = _OWNERS[cls] = type(cls.__name__, (cls, _Owner), members | {"_raw": property(release, replace)})
    return made


def own(tensor: Tensor, data: Any) -> None:
    """Set a tensor to a new array that nothing else holds.

    Until something reads ``_raw`` the tensor has a class on which that is a property: any reader (every operation, export
    or view) gets the array and ends the ownership. Only in-place methods look at ``_buffer`` and may write to it.
    Tensors that own nothing pay nothing for this.
    """
    cls = type(tensor)
    owner = cls if issubclass(cls, _Owner) else _owner_class(cls)
    held = tensor.__dict__
    # if interrupted anywhere here, the tensor has one value or the other and at worst owns nothing
    held.pop("_buffer", None)
    array_slot.__set__(tensor, data)
    tensor.__class__ = owner
    held["_buffer"] = data


def owned(tensor: Tensor) -> Any:
    """Return the array of a tensor that owns it, None otherwise."""
    return tensor.__dict__.get("_buffer")


def assign_data(
    tensors: Sequence[Tensor],
    arrays: Sequence[Any],
    specs: Sequence[Spec],
    grads: Sequence[Tensor | None] = (),
    dropped: Sequence[Tensor] = (),
) -> None:
    """Assign new values to several tensors, unrecorded: all or none, whenever a signal arrives.

    Parameters
    ----------
    tensors : sequence of Tensor
        Leaves, or results that do not need a gradient.
    arrays, specs : sequence
        The values, which fit, and their specs.
    grads : sequence of Tensor or None, optional
        Their new `.grad`; None keeps the old one.
    dropped : sequence of Tensor, optional
        Leaves that lose their `.grad`.
    """
    if mode.recorder() is not None:
        for tensor in tensors:
            mode.note_write(tensor)
    others: list[tuple[Any, Tensor | None]] = [(t._state(), None) for t in dropped]
    others += [(t._state(), g) for t, g in zip(tensors, grads, strict=False) if g is not None]
    before = [t._raw for t in tensors], [state.grad for state, _ in others]  # reading `_raw` ends an ownership
    states = [t._node if isinstance(t._node, AccumulateGrad) else t._leaf for t in tensors]
    moving = [(t, spec) for t, spec in zip(tensors, specs, strict=True) if t._spec is not spec]
    leaves = [(s, spec) for s, spec in zip(states, specs, strict=True) if s is not None and s.spec is not spec]
    for leaf, spec in leaves:
        if is_moved(leaf.spec, spec):
            leaf.moved = True  # setting it early is harmless: it only makes a pass check
    if not (moving or leaves or others):
        any(map(array_slot.__set__, tensors, arrays))  # as `assign_all` does
        return
    assign_all(
        map(array_slot.__set__, tensors, arrays),
        starmap(spec_slot.__set__, moving),
        map(setattr, [leaf for leaf, _ in leaves], repeat("spec"), [spec for _, spec in leaves]),
        map(setattr, [state for state, _ in others], repeat("grad"), [g for _, g in others]),
    )
    del before


def rebind(
    target: Tensor, result: Tensor, what: str, *, fresh: bool = False, write: Callable[[], Any] | None = None
) -> None:
    """Set `target` to the value and history of `result`: the last step of every in-place method.

    It gets both or neither: nothing is called between the assignments, so no signal handler can run.

    Parameters
    ----------
    target, result : Tensor
        The result must have the target's shape; its dtype is cast to the target's where that loses no kind.
    what : str
        The spelling, for messages.
    fresh : bool, optional
        The array of `result` is new and nothing else holds it, including saved values of nodes.
    write : callable, optional
        Writes to the array that the target owned and returns it as the value; `result` then has only the history.
    """
    mode.note_write(target)
    owner = None if target._base is None else _written_through(target, what)
    if result._spec is not target._spec:
        result = _fitting(target, result, what, target if owner is None else owner)
    node = target._node
    if mode.is_grad_enabled():
        if isinstance(node, AccumulateGrad):
            raise errors.leaf_in_place(target, what)
        if node is not result._node:
            if node is None:
                mode.check_write(target, what)
            node = result._node
    if target._base is not None:
        target._base = None
        if owner is not None:
            owner.data = wrap(result._raw, result._spec)
            target._base, fresh = Storage.of(bases(owner), result._raw, result._raw), False
    if write is not None:
        _write_owned(target, node, write)
        return
    tangents, array = result._tangents, result._raw
    if tangents is not None and target._tangents is None:
        mode.check_write(target, what)
    before = target._raw  # reading it ends its ownership, so that assigning to it calls nothing
    if target._retained is not None and node is not target._node:
        changes = [*history(target, node), (target, "_tangents", tangents), (target, "_raw", array)]
        assign_all(starmap(setattr, changes))
    # Plain assignments call nothing either, and nothing is called between them.
    target._node = node
    if tangents is not target._tangents:
        target._tangents = tangents
    target._raw = array
    target._spec = result._spec
    del before
    if fresh:
        own(target, array)


def _written_through(target: Tensor, what: str) -> Tensor | None:
    """Return the tensor that a view is ``.data`` of, and that receives its writes; warn if a write does not reach the base."""
    base = target._base
    assert base is not None
    owner = None
    if type(base) is Storage:
        owner = base.owner(target)
        base = base if owner is None else owner._base
    copied = False  # whether NumPy's function of that name copies, anywhere along the way
    while base is not None:
        copied = copied or len(base) > 2
        if base[0]() is not None:
            errors.warn_lost_write(what, numpy_copies=copied)
            break
        base = base[1]
    return owner


def _fitting(target: Tensor, result: Tensor, what: str, written: Tensor) -> Tensor:
    """Return a result that can replace a target's value, cast to its dtype; raise if it cannot.

    `written` receives the write, and a batch must not vary it: the target, or the tensor that the target is the ``.data`` of.
    """
    spec = target._spec
    if result.shape != spec.shape:
        raise RuntimeError(
            f"output with shape {list(spec.shape)} doesn't match the broadcast shape {list(result.shape)}"
            f"\n  {what} cannot change the shape of its target. Called at {errors.line_of(*errors.caller())}."
        )
    if result.dtype != spec.dtype:
        kinds, kind = ("bool", "int", "float", "complex"), spec.backend.kind
        if kinds.index(kind(result.dtype)) > kinds.index(kind(spec.dtype)):
            raise RuntimeError(
                f"result type {result.dtype} can't be cast to the desired output type {spec.dtype}"
                f"\n  {what} cannot change the dtype of its target. Called at {errors.line_of(*errors.caller())}."
            )
        result = result.type(spec.dtype)
    if result._spec.backend is not spec.backend and mode.batch_levels.get():
        mode.check_write(written, what, mapped=True)
    return result


def _write_owned(target: Tensor, node: Node | None, write: Callable[[], Any]) -> None:
    """Write to the array of the tensor that owns it, and give the tensor the result's history."""
    if node is target._node:
        array = write()
        if array is not owned(target):
            own(target, array)
        return
    held = target.__dict__
    held.pop("_buffer")  # the write may return another array: if interrupted, the target owns none
    written = map(array_slot.__set__, [target], map(operator.call, [write]))
    assign_all(written, starmap(setattr, history(target, node)))
    held["_buffer"] = array_slot.__get__(target)


def check_leaf(target: Tensor, what: str) -> None:
    """Refuse, before computing anything, to change a leaf that requires grad while recording."""
    if isinstance(target._node, AccumulateGrad) and mode.is_grad_enabled():
        raise errors.leaf_in_place(target, what)


def are_plain(tensors: Iterable[Tensor]) -> bool:
    """Return whether new arrays, computed by kernels, may be assigned to tensors as they are: nothing has to notice it.

    The tensors keep their specs and histories. Where this returns False, operations and `rebind` do the same.
    """
    now = mode.get_mode()
    if now is not None and now.simple_in != get_ident():
        return False
    for tensor in tensors:
        if tensor._base is not None or tensor._tangents is not None or tensor._spec.backend.is_lazy:
            return False
    return True


# -- assignments that would be lost ------------------------------------------------------------------------------------


def is_storage(target: Tensor) -> bool:
    """Return whether a write to a tensor goes to another tensor, of which it is the ``.data``."""
    base = target._base
    return type(base) is Storage and base.owner(target) is not None
