"""Commit gradients to `.grad`: first all sums and checks, then one assignment of all, so that a failure changes none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from agrad.core import errors
from agrad.core.backend import BACKENDS
from agrad.core.cotangents import fit
from agrad.core.cpython import assign_all
from agrad.core.history import as_gradient
from agrad.core.hooks import Hooks
from agrad.core.materialize import remember_losses
from agrad.core.mode import kernels_of
from agrad.core.node import AccumulateGrad, Node
from agrad.core.once import lock
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor, array_slot

#: Makes accumulation into a leaf from several threads safe. Reentrant: a finalizer may run in the middle of it.
ACCUMULATING = lock(waited_for=True)

#: The name of a slot, repeated for any number of places.
_GRAD = repeat("grad")

_new = object.__new__


def commit(
    leaves: Mapping[AccumulateGrad, list[Any]],
    retained: Sequence[tuple[Any, Any]],
    *,
    as_tensors: bool,
    create_graph: bool,
    values: Sequence[Any],
) -> list[tuple[AccumulateGrad, Hooks, Any]]:
    """Add complete gradients to leaves, and to results that retain theirs.

    Parameters
    ----------
    leaves : mapping
        The gradient of each leaf, and whether it is a sum made by the pass, which may be added to in place. Each gradient
        is removed once its sum is made, so the peak is one extra sum, not all of them.
    retained : sequence of (weakref, gradient)
        The same for results.
    as_tensors, create_graph, values
        As in the pass.

    Returns
    -------
    list of (AccumulateGrad, Hooks, gradient)
        Those with hooks, to be run now.
    """
    places: list[Any] = []
    grads: list[Tensor] = []
    rest: list[AccumulateGrad] = []
    hooked: list[tuple[AccumulateGrad, Hooks, Any]] = []
    with ACCUMULATING:
        for leaf, total in leaves.items():
            spec = leaf.spec
            simple = spec.accumulates and not as_tensors and (not leaf.moved or has_spec(total[0], spec))
            if simple and leaf.grad is None and leaf.hooks is None:
                if leaf.active:  # the first gradient is stored as is: values are immutable, so it may be shared
                    made = _new(Tensor)
                    made._raw, made._spec, made._node = total[0], spec, None
                    places.append(leaf)
                    grads.append(made)
            elif leaf.active:
                rest.append(leaf)
        if not rest and not retained:
            any(map(setattr, places, _GRAD, grads))  # as `assign_all` does; saves one call per gradient
            return hooked
        sums = Sums(places, grads, recorded=create_graph)
        for leaf in rest:
            g, mine = total = leaves[leaf]
            spec, old = leaf.spec, leaf.grad
            simple = spec.accumulates and not as_tensors and (not leaf.moved or has_spec(g, spec))
            if leaf.hooks is not None:
                hooked.append((leaf, leaf.hooks, g))
                simple = False
            else:
                total[0] = None
            if simple and old is not None and old._spec is spec and old._node is None:
                sums.add(old, g, mine=mine)
                continue
            grad = sums.merge(leaf, leaf, fitted(as_gradient(g), leaf))
            if spec.backend.is_lazy:
                remember_losses(grad, values)
                watch(leaf)
        for reference, g in retained:
            tensor = reference()
            if tensor is not None and tensor._retained is not None:
                sums.merge(tensor._retained, tensor._node, as_gradient(g))
        sums.assign()
    return hooked


class Sums:
    """What a pass will assign: prepared while anything may fail, assigned when nothing can.

    Attributes
    ----------
    places, values : list
        Leaves and retained gradients, with the Tensor that becomes their `.grad`.
    recorded : bool
        Whether the sums have a history.
    changed : dict
        By ``id``, the Tensors that stay as `.grad`, with their new arrays.
    """

    def __init__(self, places: list[Any], values: list[Tensor], *, recorded: bool) -> None:
        self.places: list[Any] = places
        self.values: list[Tensor] = values
        self.recorded: bool = recorded
        self.changed: dict[int, tuple[Tensor, Any]] = {}

    def merge(self, place: Any, node: Any, new: Tensor) -> Tensor:
        """Add a gradient to that of a leaf or result; return the Tensor that will be its `.grad`.

        This is the same Tensor as before, except for a first gradient and for a sum that needs a history.

        Parameters
        ----------
        place : AccumulateGrad or Retained
            The owner of the `.grad`.
        node : Node
            The node of the leaf or result.
        new : Tensor
            The gradient.
        """
        old: Tensor | None = place.grad
        if old is None:
            return self.put(place, new)
        spec = old._spec
        if new._spec is not spec:
            check_shape(node, new._spec, spec)
        if self.recorded or new._node is not None or old._node is not None or new._tangents:
            return self.put(place, spec.backend.functions.add(old, new))
        if new._spec is not spec:
            if new._spec.backend is not spec.backend:
                new = new.to_device(spec.device)
            if new.dtype != spec.dtype:  # the leaf's `grad_dtype` allows any dtype
                new = spec.backend.functions.astype(new, spec.dtype)
        self.add(old, new._raw)
        return old

    def put(self, place: Any, value: Tensor) -> Tensor:
        """Make a Tensor the `.grad` of a leaf or result."""
        self.places.append(place)
        self.values.append(value)
        return value

    def add(self, tensor: Tensor, g: Any, *, mine: bool = False) -> None:
        """Add an array to a `.grad` that stays the same Tensor.

        Parameters
        ----------
        tensor : Tensor
            The `.grad` of one or more leaves.
        g : array
            An array of the tensor's spec.
        mine : bool, optional
            Whether nothing else holds `g`, so that the sum may reuse its memory.
        """
        earlier = self.changed.get(id(tensor))
        array = tensor._raw if earlier is None else earlier[1]  # reading it ends the ownership of the array
        xp = kernels_of(tensor._spec)
        total = xp.add_into(g, array, g) if mine else xp.add(array, g)
        self.changed[id(tensor)] = tensor, tensor._spec.backend.as_array(total)

    def assign(self) -> None:
        """Assign everything, or nothing, whenever a signal arrives."""
        tensors, arrays = zip(*self.changed.values(), strict=True) if self.changed else ((), ())
        before = [place.grad for place in self.places], [tensor._raw for tensor in tensors]
        set_grads = map(setattr, self.places, _GRAD, self.values)
        assign_all(set_grads, map(array_slot.__set__, tensors, arrays))
        del before


def has_spec(g: Any, spec: Spec) -> bool:
    """Return whether an array is of a spec: that of a leaf whose data may have changed since it was used."""
    return BACKENDS.get(type(g)) is spec.backend and spec.backend.spec(g) is spec


def fitted(g: Tensor, leaf: AccumulateGrad) -> Tensor:
    """Return a gradient in its leaf's dtype and on its device, as the leaf's data may have changed since it was used."""
    spec = leaf.spec
    if g._spec is spec:
        return g
    check_shape(leaf, g._spec, spec)
    if g._spec.device != spec.device:
        g = g.to_device(spec.device)
    if g.dtype != spec.dtype and (leaf.hooks is None or leaf.hooks.grad_dtype is None):
        g = fit(spec.backend.functions, g, spec)
    return g


def check_shape(node: Node, found: Spec, wanted: Spec) -> None:
    """Refuse a gradient whose shape differs from that of its leaf, or of the gradient it is added to."""
    shape, expected = found.shape, wanted.shape
    if shape != expected and not any(n != n for n in (*shape, *expected)):  # noqa: PLR0124 (nan: unknown when lazy)
        error = errors.wrong_shape(node, 0, shape, expected)
        error.add_note("The tensor's .data or .grad has got another shape since the tensor was used.")
        raise error


def watch(leaf: AccumulateGrad) -> None:
    """Tell a lazy backend that the gradient of a leaf is wanted."""
    tensor = leaf.variable
    if tensor is not None:
        leaf.spec.backend.watch(tensor._raw)
