"""Values of lazy tensors: computed together, in one pass, and written back into the tensors that requested them.

Every computation that agrad starts on a lazy backend ends in `Backend.realize`: here, or in `receive` and similar, where
a value is transferred to another library.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agrad.core.backend import backend_of
from agrad.core.node import AccumulateGrad, ancestors
from agrad.core.tensor import Tensor, compute

if TYPE_CHECKING:
    from agrad.core.node import Node


def is_lazy(array: Any) -> bool:
    """Return whether a raw array belongs to a lazy backend."""
    backend = backend_of(array)
    return backend is not None and backend.is_lazy


class _Queried(BaseException):
    """Ends a computation that is only queried for what it would compute."""


class Query:
    """What would be computed, one computation after another.

    Attributes
    ----------
    found : list
        For each computation its raw lazy arrays in a list, or the `Outlook` of one that no arrays stand for.
    goes_on : bool
        Whether the next computation is answered by values that stand for its own, and the code goes on with these.
    """

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.goes_on = False


#: Collects what would be computed, during a query.
_QUERY: ContextVar[Query | None] = ContextVar("agrad_asking", default=None)


@contextmanager
def querying() -> Iterator[list[Any]]:
    """Query instead of compute; gives the list of what would be computed, see `Query`.

    The block ends where the first value would be handed to code that may look at it.
    """
    query = Query()
    token = _QUERY.set(query)
    try:
        with suppress(_Queried):
            yield query.found
    finally:
        _QUERY.reset(token)


def is_querying() -> bool:
    """Return whether a query is active: nothing outside memory may change."""
    return _QUERY.get() is not None


@contextmanager
def going_on() -> Iterator[None]:
    """Let a query go on beyond what the block computes: only arithmetic follows, and no code looks at the values."""
    query = _QUERY.get()
    if query is None:
        yield
        return
    before, query.goes_on = query.goes_on, True
    try:
        yield
    finally:
        query.goes_on = before


def is_asked(arrays: Iterable[Any]) -> bool:
    """Return whether to answer with values that stand for those of arrays: a query notes these, and goes on, or ends here."""
    query = _QUERY.get()
    if query is None:
        return False
    query.found.append(list(arrays))
    if not query.goes_on:
        raise _Queried
    return True


@contextmanager
def computing_anyway(arrays: Iterable[Any]) -> Iterator[None]:
    """Compute arrays although a query is active, which notes them: what follows has shapes by their values."""
    query = _QUERY.get()
    if query is not None:
        query.found.append(list(arrays))
    token = _QUERY.set(None)
    try:
        yield
    finally:
        _QUERY.reset(token)


def told(make: Callable[[], Any]) -> None:
    """Report what would be computed, and compute nothing, if a query is active.

    Parameters
    ----------
    make : callable
        Returns an `Outlook`.
    """
    query = _QUERY.get()
    if query is not None:
        query.found.append(make())
        raise _Queried


def realised(arrays: Iterable[Any], **how: Any) -> dict[int, Any]:
    """Compute raw lazy arrays, those of each backend in one pass.

    Parameters
    ----------
    arrays : iterable of array
        Lazy arrays.
    **how
        Passed to `Backend.realize`.

    Returns
    -------
    dict
        By the ``id`` of each array, an array of the same backend that holds the values.
    """
    arrays = list(arrays)
    is_asked(arrays)  # its tensors keep what they are given: this is where a query ends
    groups: dict[Any, dict[int, Any]] = {}
    for array in arrays:
        groups.setdefault(backend_of(array), {})[id(array)] = array
    found: dict[int, Any] = {}
    for backend, group in groups.items():
        found.update(zip(group, backend.realize(*group.values(), **how), strict=True))
    return found


#: By ``id``, weakly, lazy tensors that change from call to call: the next pass over the data computes them too.
_carried: dict[int, weakref.ref[Tensor]] = {}


def carry(tensor: Tensor) -> None:
    """Compute a lazy tensor, whose recipe would grow with every call, together with the next computation."""
    key = id(tensor)
    _carried[key] = weakref.ref(tensor, functools.partial(_carried.pop, key))  # in C, where no signal is handled


def fill(tensors: Iterable[Tensor], beside: Iterable[Any] = (), **how: Any) -> None:
    """Compute the lazy ones among tensors in one pass, together with the losses that their gradients came from.

    If the computation fails every tensor is unchanged.

    Parameters
    ----------
    tensors : iterable of Tensor
        Tensors of any backend.
    beside : iterable of array
        Raw lazy arrays computed for a side effect, such as writing a result: computed in the same pass, and dropped.
    **how
        Passed to `Backend.realize`.
    """
    lazy_tensors = [t for t in tensors if t._spec.backend.is_lazy]
    if lazy_tensors and _carried:
        found = [reference() for reference in list(_carried.values())]
        lazy_tensors += [t for t in found if t is not None and t._spec.backend.is_lazy]
        _carried.clear()
    lazy = [*lazy_tensors, *(loss for t in lazy_tensors for loss in pending_losses(t))]
    arrays = {id(t._raw): t._raw for t in lazy}
    values = realised([*arrays.values(), *beside], **how)
    put_back(lazy, {key: (array, values[key]) for key, array in arrays.items()})
    for t in lazy_tensors:
        t.__dict__.pop("_losses", None)


compute.define(fill)


def put_back(tensors: Iterable[Tensor], values: dict[int, tuple[Any, Any]]) -> None:
    """Write computed values into their tensors, and into earlier nodes that saved the same lazy arrays.

    Parameters
    ----------
    tensors : iterable of Tensor
        Lazy tensors.
    values : dict
        By the ``id`` of a lazy array, that array and the one that holds its values.
    """
    roots: list[Node] = []
    for t in tensors:
        old, new = values.get(id(t._raw), (None, None))
        if old is not t._raw or new is old:  # another thread has set a new value, or the value was there already
            continue
        t._raw, t._spec = new, t._spec.backend.spec(new)
        if isinstance(t._node, AccumulateGrad):
            t._node.spec = t._spec
        elif t._node is not None:
            roots.append(t._node)
    for node in ancestors(roots):
        saved = node.saved
        if any(id(value._raw if isinstance(value, Tensor) else value) in values for value in saved):
            node.saved = type(saved)(_put_back(value, values) for value in saved)


def _put_back(value: Any, values: dict[int, tuple[Any, Any]]) -> Any:
    old, new = values.get(id(value._raw if isinstance(value, Tensor) else value), (None, None))
    if isinstance(value, Tensor):  # saved by a Function, in an object of the node's own
        if old is value._raw:
            value._raw, value._spec = new, value._spec.backend.spec(new)
        return value
    return new if old is value and old is not None else value


def remember_losses(gradient: Tensor, roots: Iterable[Tensor]) -> None:
    """Store in a lazy gradient, weakly, the losses it came from: whoever computes it computes them in the same pass."""
    earlier = gradient.__dict__.get("_losses", ())
    gradient.__dict__["_losses"] = [
        *(loss for loss in earlier if loss() is not None),
        *(weakref.ref(t) for t in roots if is_loss(t)),
    ]
    gradient._spec.backend._came_from(gradient._raw, [loss._raw for loss in pending_losses(gradient)])


def is_loss(root: Any) -> bool:
    """Return whether a root of a backward pass is lazy and has one element: worth computing together with gradients."""
    return isinstance(root, Tensor) and root._spec.backend.is_lazy and root.size == 1


def pending_losses(gradient: Tensor) -> list[Tensor]:
    """Return the losses of a lazy gradient that are still alive."""
    found = (reference() for reference in gradient.__dict__.get("_losses", ()))
    return [loss for loss in found if loss is not None]
