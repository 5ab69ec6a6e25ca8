"""Gradients reach `.grad`: all sums and checks first, then one assignment of all, so that what fails has changed none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from agrad.core import errors
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

#: Accumulation into a leaf from several threads loses nothing. Reentrant: a finalizer may run in the midst of it.
ACCUMULATING = lock(waited_for=True)

#: The name of a slot, for each of any number of places.
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
        Per leaf its gradient, and whether that is a sum made by the pass, which may be added to in place. Gradients are
        taken out: each goes when its sum is made, so the peak is that of one sum more, not of all.
    retained : sequence of (weakref, gradient)
        The same for results.
    as_tensors, create_graph, values
        As in the pass.

    Returns
    -------
    list of (AccumulateGrad, Hooks, gradient)
        Those with hooks, which are to be run now.
    """
    places: list[Any] = []
    grads: list[Tensor] = []
    rest: list[AccumulateGrad] = []
    hooked: list[tuple[AccumulateGrad, Hooks, Any]] = []
    with ACCUMULATING:
        for leaf, total in leaves.items():
            spec = leaf.spec
            if leaf.grad is None and leaf.hooks is None and spec.accumulates and not (as_tensors or leaf.moved):
                if leaf.active:  # the first gradient is kept as it is: values are immutable, it may be shared
                    made = _new(Tensor)
                    made._raw, made._spec, made._node = total[0], spec, None
                    places.append(leaf)
                    grads.append(made)
            elif leaf.active:
                rest.append(leaf)
        if not rest and not retained:
            any(map(setattr, places, _GRAD, grads))  # as `assign_all` does; a call less on the way of every gradient
            return hooked
        sums = Sums(places, grads, recorded=create_graph)
        for leaf in rest:
            g, mine = total = leaves[leaf]
            spec, old = leaf.spec, leaf.grad
            simple = not (as_tensors or leaf.moved) and spec.accumulates
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
    """What a pass is going to assign: made while anything may fail, assigned when nothing can.

    Attributes
    ----------
    places, values : list
        Leaves and retained gradients with the Tensor that becomes their `.grad`.
    recorded : bool
        Sums have a history.
    changed : dict
        By ``id`` the Tensors that remain the `.grad` they are, with their new arrays.
    """

    def __init__(self, places: list[Any], values: list[Tensor], *, recorded: bool) -> None:
        self.places: list[Any] = places
        self.values: list[Tensor] = values
        self.recorded: bool = recorded
        self.changed: dict[int, tuple[Tensor, Any]] = {}

    def merge(self, place: Any, node: Any, new: Tensor) -> Tensor:
        """Add a gradient to what a leaf or result has; return the Tensor that will be its `.grad`.

        That remains the same Tensor, but for a first gradient, and for a sum that is to have a history.

        Parameters
        ----------
        place : AccumulateGrad or Retained
            What has a `.grad`.
        node : Node
            Of the leaf or result.
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
            if new.dtype != spec.dtype:  # the leaf's `grad_dtype` allows any
                new = spec.backend.functions.astype(new, spec.dtype)
        self.add(old, new._raw)
        return old

    def put(self, place: Any, value: Tensor) -> Tensor:
        """Let a Tensor become the `.grad` of a leaf or result."""
        self.places.append(place)
        self.values.append(value)
        return value

    def add(self, tensor: Tensor, g: Any, *, mine: bool = False) -> None:
        """Add an array to a `.grad` that stays the same Tensor.

        Parameters
        ----------
        tensor : Tensor
            Perhaps the `.grad` of several leaves.
        g : array
            Of its spec.
        mine : bool, optional
            Nothing else holds `g`: the sum may take its place in memory.
        """
        earlier = self.changed.get(id(tensor))
        array = tensor._raw if earlier is None else earlier[1]  # to read it ends the ownership of the array
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


def fitted(g: Tensor, leaf: AccumulateGrad) -> Tensor:
    """Return a gradient in the dtype and on the device of its leaf, whose data may have changed since it was used."""
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
    """Refuse a gradient whose shape is not that of its leaf, or of the gradient it is added to."""
    shape, expected = found.shape, wanted.shape
    if shape != expected and not any(n != n for n in (*shape, *expected)):  # noqa: PLR0124 (nan: unknown when lazy)
        error = errors.wrong_shape(node, 0, shape, expected)
        error.add_note("The tensor's .data or .grad has got another shape since the tensor was used.")
        raise error


def watch(leaf: AccumulateGrad) -> None:
    """Tell a lazy backend that gradients are wanted by a leaf."""
    tensor = leaf.variable
    if tensor is not None:
        leaf.spec.backend.watch(tensor._raw)
