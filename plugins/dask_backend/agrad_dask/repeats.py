"""Warn if a lazy graph is computed a second time, and its data are read again.

Only an array of the graph counts that was computed before and not kept, and that depends on a parameter (an array in
one chunk that gradients are taken with respect to, see `watch`) *and* on data that are not in memory. Data prepared
lazily, which every step of a loop must read again, depend on no parameter; the next step's parameters make a graph of
their own. So a correct program is never warned about.

A loss also counts if its gradients are computed without it, or it without them: these may be with respect to data (an
array in many chunks), and share nothing else with the loss.

Arrays from `Tensor.to_dask_array` that Dask computes itself count as soon as it computes one of their blocks.

An array of the graph is one object of Dask, a layer, however many arrays are made from it. It is known by identity and
weakly: a forgotten layer cannot be computed again.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from typing import Any

from dask._task_spec import DataNode
from dask.highlevelgraph import MaterializedLayer

from agrad import RecomputeWarning
from agrad.plugin.backend import backend_of, getframe
from agrad_dask import origins
from agrad_dask.making import NOTHING

#: Layers by their ``id``: parameters, and those that were computed.
_PARAMETERS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_COMPUTED: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

#: Losses by the ``id`` of the layer of one of their gradients, with that layer.
_LOSSES: dict[int, tuple[weakref.ref[Any], weakref.WeakValueDictionary[int, Any]]] = {}
#: Losses whose gradients were computed without them, and gradients whose losses were: their layers are gone by then,
#: because a known value replaces its computation.
_LEFT: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

#: The lines already warned about. Python's own record is lost whenever a library changes the warning filters.
_TOLD: set[tuple[str, int]] = set()

#: The prefixes of the names of arrays that Dask creates without input.
_CONSTANTS = ("arange-", "empty_like-", "eye-", "full_like-", "linspace-", "ones_like-", "zeros_like-")


def watch(array: Any) -> None:
    """Remember an array that gradients are taken with respect to; one in many chunks counts as data."""
    if array.npartitions == 1:
        layer = array.dask.layers[array.name]
        _PARAMETERS[id(layer)] = layer


def came_from(gradient: Any, losses: list[Any]) -> None:
    """Remember the losses of a gradient, as long as it can be computed."""
    layer, key = gradient.dask.layers[gradient.name], id(gradient.dask.layers[gradient.name])
    of = {id(loss.dask.layers[loss.name]): loss.dask.layers[loss.name] for loss in losses}
    _LOSSES[key] = weakref.ref(layer, lambda _: _LOSSES.pop(key, None)), weakref.WeakValueDictionary(of)


def _gradients(layers: Iterable[Any]) -> list[weakref.WeakValueDictionary[int, Any]]:
    """Return for each gradient among some layers the losses that it came from, by `id`, those that are left."""
    found = ((layer, _LOSSES.get(id(layer))) for layer in layers)
    return [known[1] for layer, known in found if known is not None and known[0]() is layer]


def _losses_of(layers: Iterable[Any]) -> list[Any]:
    """Return the losses that gradients among some layers came from."""
    return [loss for losses in _gradients(layers) for loss in losses.values()]


def _apart(layers: dict[str, Any]) -> set[str]:
    """Return the losses among some layers whose gradients were computed before, and the gradients whose losses were."""
    computed = {id(layer) for layer in layers.values()}
    found = {name for name, layer in layers.items() if _LEFT.get(id(layer)) is layer}
    for name, layer in layers.items():
        if any(_COMPUTED.get(id(loss)) is loss and id(loss) not in computed for loss in _losses_of([layer])):
            found.add(name)
    return found


class _ReadMarker:
    """Called with each block that Dask computes of an array, and returns it; in another process it does nothing else."""

    def __init__(self, layers: dict[str, Any]) -> None:
        self.layers = weakref.WeakValueDictionary(layers)

    _agrad_makes = NOTHING

    def __call__(self, block: Any) -> Any:
        remember(dict(self.layers))
        return block

    def __dask_tokenize__(self) -> Any:
        return id(self)

    def __reduce__(self) -> Any:
        return _ReadMarker, ({},)


def handed_over(array: Any) -> Any:
    """Return an array in the form for Dask: if Dask computes values that depend on parameters and data, that counts."""
    layers = needed(array.dask, [array.name])
    if not _gradients(layers.values()) and _on_what(array.dask, [array.name])[array.name] != (True, True):
        return array
    warn(array.dask, layers)
    return array.map_blocks(_ReadMarker(layers), dtype=array.dtype, meta=array._meta)


def needed(written: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the layers that some arrays need whole, by name, the nearest to the arrays first.

    Parameters
    ----------
    written : HighLevelGraph
        The graph, before Dask fused tasks.
    names : iterable of str
        The arrays'.
    """
    names = list(names)
    found: dict[str, Any] = {}
    for name in names:  # grows
        layer = written.layers.get(name)
        if layer is None or name in found:
            continue
        found[name] = layer
        below = written.dependencies[name]
        if not (name.startswith("getitem-") and any(_count(written.layers[d]) > _count(layer) for d in below)):
            names.extend(below)
    return found


def _count(layer: Any) -> int:
    """Return how many blocks a layer has."""
    return len(layer.get_output_keys())


def _on_what(written: Any, names: Iterable[str]) -> dict[str, tuple[bool, bool]]:
    """Return for arrays, and everything they are made from, whether each depends on a parameter, and whether on data."""
    known: dict[str, tuple[bool, bool]] = {}
    stack = list(names)
    while stack:
        name = stack[-1]
        layer = written.layers.get(name, ())
        if name in known:
            stack.pop()
        elif _PARAMETERS.get(id(layer)) is layer:
            known[name] = True, False
        elif below := [d for d in written.dependencies.get(name, ()) if d not in known]:
            stack.extend(below)
        else:
            parts = [known[d] for d in written.dependencies.get(name, ())]
            known[name] = (
                any(part[0] for part in parts),
                any(part[1] for part in parts) if parts else _reads(name, layer),
            )
    return known


def _reads(name: str, layer: Any) -> bool:
    """Return whether a layer without dependencies takes its values from outside memory."""
    if name.startswith(_CONSTANTS):
        return False
    if not isinstance(layer, MaterializedLayer):
        return True
    value = next(iter(layer.values()), None)
    return backend_of(value.value if isinstance(value, DataNode) else value) is None


def warn(written: Any, layers: dict[str, Any]) -> None:
    """Warn, once per user line, if one of these layers was computed before and should not be computed twice."""
    known = [name for name, layer in layers.items() if _COMPUTED.get(id(layer)) is layer]
    depends = _on_what(written, known)
    again = {name for name in known if depends[name] == (True, True)}
    if any(depends[name][1] for name in known):  # not the source's layer: a store opened twice has two with one name
        again |= _apart(layers)
    if not again:
        return
    first = [name for name in again if again.isdisjoint(written.dependencies[name])]  # where parameters meet the data
    what = min(str(origins.of((name,))[0] or name) for name in first)
    frame = origins.users_frame(getframe(1))
    place = frame.f_code.co_filename, frame.f_lineno
    if place in _TOLD:
        return
    _TOLD.add(place)
    warnings.warn_explicit(
        f"{what}: this is computed a second time, and the data it depends on are read again, because its value was not"
        " kept.\n  Ask for values together: ag.compute(loss, *gradients) is one pass over the data. Or read them after"
        " backward() (parameters in memory) or optimizer.step() (parameters on Dask), which compute the loss too. Beside what is written to a store: ag.to_zarr(step, path,"
        " together=loss).\n  If you read"
        " none (a second derivative, statistics of a layer), each crossing to what is in memory is a pass: have the parameters on"
        ' Dask, w.to_device("dask"), and it is one.',
        RecomputeWarning,
        *place,
    )


def remember(layers: dict[str, Any]) -> None:
    """Remember computed layers."""
    for layer in layers.values():
        _COMPUTED[id(layer)] = layer
    for loss in _losses_of(layers.values()):
        if _COMPUTED.get(id(loss)) is not loss:
            _LEFT[id(loss)] = loss
    for reference, losses in list(_LOSSES.values()):
        gradient, read = reference(), any(losses.get(id(layer)) is layer for layer in layers.values())
        if read and gradient is not None and _COMPUTED.get(id(gradient)) is not gradient:
            _LEFT[id(gradient)] = gradient
