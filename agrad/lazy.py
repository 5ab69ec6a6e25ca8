"""compute and persist: the values of lazy tensors, many in one pass; and the chunks of one."""

from __future__ import annotations

import functools
import itertools
import sys
from typing import Any, Self

from agrad import tree
from agrad.autograd.backward import grad
from agrad.core.backend import Outlook, backend_of
from agrad.core.cpython import getframe
from agrad.core.errors import BackendError, called, calling_frame, in_dask, in_expression, line_of, warn_at
from agrad.core.materialize import fill, is_lazy, is_querying, pending_losses, querying
from agrad.core.mode import recorder
from agrad.core.node import AccumulateGrad, Node, ancestors
from agrad.core.tensor import Tensor, attached
from agrad.ops.docs import complete as _complete
from agrad.ops.elementwise import positive

__all__ = ["compute", "explain", "persist", "to_zarr"]


def compute(*tensors: Any, max_memory: int | str | None = None, progress: bool | None = None) -> Any:
    """Compute the values of lazy tensors, all in one pass, and store them in the tensors.

    Reading the tensors afterwards, as by ``item()``, computes nothing. The loss of a gradient is computed in the same
    pass, so that its value is known too. If the graph of a tensor has saved a computed value, a later backward pass
    reads it.

    *tensors : Tensor, or dict, list, tuple, dataclass or None in any nesting
        The values to compute. Tensors of backends that are not lazy have their values, and other objects are ignored.
    max_memory : int or str, optional
        How much the computation may hold at a time beside what is in memory before, in bytes or as ``"2GiB"``. Default:
        the backend's own choice.
    progress : bool, optional
        Whether to show the progress. Default: the backend's own choice.
    Returns: The argument, or a tuple of all of them: the same objects.
    MemoryError: If `max_memory` is too little, before anything is computed.
    UserWarning: If `max_memory` limits nothing, and not all values are on a lazy backend: those on NumPy were computed where
        they were written, or by `backward`, as gradients of parameters in memory are.
    TypeError: If a lazy array is passed that is not a Tensor: it cannot store a value. A user's
        array is never changed: its tensor gets another array, of the same backend.

    >>> w = ag.tensor([1.0, 2.0], device="dask", requires_grad=True)
    >>> loss = (w * w).sum()
    >>> loss.backward()
    >>> _ = ag.compute(loss, w.grad)  # both at once
    >>> loss.item(), w.grad.tolist()
    (5.0, [2.0, 4.0])
    """
    return _realised("compute", tensors, keep="host", max_memory=max_memory, progress=progress)


def persist(*tensors: Any, max_memory: int | str | None = None, progress: bool | None = None) -> Any:
    """Compute the values of lazy tensors and keep them where the backend computes, as in the memory of a cluster.

    Like `compute`, for values that further computations use. Without a cluster both are the same.

    *tensors, max_memory, progress: As for `compute`.
    Returns: The argument, or a tuple of all of them: the same objects.
    TypeError: If a lazy array is passed that is not a Tensor.

    >>> x = ag.ones((4, 2), device="dask") * 3.0
    >>> x is ag.persist(x)
    True
    """
    return _realised("persist", tensors, keep="backend", max_memory=max_memory, progress=progress)


def to_zarr(
    tensor: Tensor,
    store: Any,
    *,
    path: str | None = None,
    together: Any = None,
    max_memory: int | str | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Any:
    """Write a tensor to a zarr array: a lazy one by chunks, each in the task that computes it, and never held whole.

    The loss of a gradient is computed in the same pass, as in `compute`.

    tensor : Tensor
        The tensor to write; it stays lazy.
    store : str, path, zarr.Array or zarr store
        The target. A `zarr.Array` of that shape is written to; anything else is created, as by `zarr.create_array`.
    path : str, optional
        The name of the array if the store holds a group.
    together : Tensor, or dict, list, tuple, dataclass or None in any nesting, optional
        Further values to compute in the same pass, such as the loss for a parameter's next value.
    max_memory, progress: As for `compute`.
    **options : Any
        For `zarr.create_array`, as ``overwrite=True`` or ``compressors=None``. Default of ``chunks``: those of the tensor.
    Returns: The `zarr.Array`.
    ImportError: If zarr is not installed.
    RuntimeError: If the tensor requires grad and recording is on.
    ValueError: If a `zarr.Array` has another shape.
    MemoryError: If `max_memory` is too little, before anything is written.
    If a task fails, the chunks that were written stay, and no value changes.

    >>> w = ag.ones((4, 2), device="dask", chunks=(2, 2), requires_grad=True)
    >>> loss = (w * w).sum()
    >>> loss.backward()
    >>> ag.to_zarr(w.grad, {})[:2].tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    >>> loss.item()  # it came along
    8.0
    """
    try:
        import zarr  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise ImportError("to_zarr needs zarr: pip install zarr") from error
    if tensor._is_followed():
        raise RuntimeError(
            f"Can't write a Tensor that requires grad. Use ag.to_zarr(tensor.detach(), ...) instead.{called()}"
        )
    backend, raw = tensor._spec.backend, tensor._raw
    if isinstance(store, zarr.Array):
        target = store
        if tuple(target.shape) != tuple(tensor.shape):
            raise ValueError(
                f"to_zarr() of a tensor of shape {tensor.shape} to an array of shape {target.shape}{called()}"
            )
    else:
        chunks = [max(1, *along) for along in getattr(raw, "chunks", ())]
        made = {"shape": tensor.shape, "dtype": str(tensor.dtype), **({"chunks": tuple(chunks)} if chunks else {})}
        # Where it is only explained, nothing is created on disk
        target = zarr.create_array({} if is_querying() else store, name=path, **(made | options))
    writing = None if is_querying() and not backend.is_lazy else backend._writing(raw, target)
    beside = [leaf for leaf in tree.flatten(together)[0] if isinstance(leaf, Tensor)]
    if writing is not None:
        fill([*beside, *pending_losses(tensor)], [writing], max_memory=max_memory, progress=progress)
    else:
        _warn_without_limit("to_zarr", [tensor, *beside], max_memory)
        fill(beside, max_memory=max_memory, progress=progress)
    return target


def explain(*tensors: Any, max_memory: int | str | None = None, backward: bool = False) -> Outlook:
    """Return how much computing lazy tensors will read and hold, before anything is computed.

    *tensors : Tensor, DataArray, Dataset, or dict, list, tuple, dataclass or None in any nesting; or a function and its arguments
        Lazy tensors or arrays of one backend, as a loss, or a loss and gradients by parameters on Dask. Those of backends
        that are not lazy have their values. A function, as in ``explain(agrad_dask.value_and_grad(loss), w, X)``, is called up to
        where it would get a value that Python code may look at; a backward pass inside of another goes on beyond.
    max_memory : int or str, optional
        As for `compute`, which then takes more passes, or fewer tasks at a time.
    backward : bool, optional
        Include the backward pass from tensors that require grad to all their leaves: if these are in memory,
        ``backward()`` computes it when it ends. The graph is kept, and no `.grad` changes.
    Returns: Prints as text; its attributes are the numbers. `peak` bounds the growth of the process, `stored` the same
        if the results are written to a store instead of kept, see `to_zarr`, as zarr compresses by default;
        ``explain(ag.to_zarr, x, store)`` says it of that store, and ``explain(lambda: ag.to_zarr(x, store,
        compressors=None))`` of one with these options. Nothing is written, nor is the store created.
    MemoryError: If `max_memory` is too little, as `compute` would raise it.
    TypeError: If a Dask object is passed that is not an array, such as a bag.
    RuntimeError: If hooks prevent a backward pass: it would call them.

    >>> x = ag.ones((1000, 10), device="dask", chunks=(100, 10))
    >>> seen = ag.explain(ag.sum(x * x))
    >>> seen.passes, seen.chunks, seen.read, seen.result  # nothing is read: what are ones is known
    (1, 0, 0, 8)
    >>> w = ag.zeros(10, requires_grad=True)
    >>> ag.explain(ag.sum(x @ w), backward=True).result  # the loss, and the gradient
    88
    >>> ag.explain(ag.ones(3))
    nothing is to be computed: everything is in memory
    """
    before: list[Any] = []
    if tensors and callable(tensors[0]) and not _is_data(tensors[0]):
        with querying() as asked:
            tensors = (tensors[0](*tensors[1:]),)
            asked.append([])  # what it returns is computed last
        *before, last = asked
        if isinstance(last, Outlook):
            before.append(last)
            tensors = ()
        elif last:
            tensors = tuple(last)
    arrays, followed = [], []
    for leaf in tree.flatten(tensors)[0]:
        for value in _held_by(leaf):
            if isinstance(value, Tensor):
                arrays.append(value._raw)
                followed += [value] if value._node is not None else []
            elif backend_of(value) is not None:
                arrays.append(value)
            elif hasattr(value, "__dask_graph__"):
                raise TypeError(
                    f"explain() takes tensors, arrays and what has labels on them, got a {type(value).__name__}{called()}"
                )
    nodes = list(ancestors([t._node for t in followed if t._node is not None]))
    if backward:
        arrays += _of_backward(followed, nodes)
    each = [_outlook(asked, max_memory) for asked in (*before, arrays)]
    found = functools.reduce(Outlook.followed_by, [one for one in each if one.passes] or each[:1])
    found.kept, found.keeper = _kept_in_memory(nodes)
    return found


def _outlook(arrays: Any, max_memory: int | str | None) -> Outlook:
    """Return what one computation will read and hold."""
    if isinstance(arrays, Outlook):
        return arrays
    lazy = {id(array): array for array in arrays if is_lazy(array)}
    backends = {backend_of(array) for array in lazy.values()}
    if len(backends) > 1:
        names = " and ".join(sorted(backend.name for backend in backends if backend is not None))
        raise BackendError(f"explain() takes tensors of one lazy backend, not of {names}{called()}")
    backend = backends.pop() if backends else None
    return Outlook() if backend is None else backend.outlook(*lazy.values(), max_memory=max_memory)


def _is_data(value: Any) -> bool:
    """Return whether an object is a tensor, an array, or a labelled array."""
    return isinstance(value, Tensor) or backend_of(value) is not None or hasattr(value, "data_vars")


def _held_by(leaf: Any) -> list[Any]:
    """Return the tensors and arrays that a leaf is, or that it has labels on: a Dataset has several."""
    if type(leaf).__module__.partition(".")[0] != "xarray":
        return [leaf]
    if not hasattr(leaf, "data_vars"):
        return [getattr(leaf, "variable", leaf)._data]
    return [variable._data for variable in leaf.variables.values()]


def _of_backward(outputs: list[Tensor], nodes: list[Node]) -> list[Any]:
    """Return the raw arrays that a backward pass of outputs computes, or gives."""
    if any(node.hooks is not None for node in nodes):
        raise RuntimeError(
            f"explain(backward=True) would call the hooks of these tensors: pass their results{called()}"
        )
    leaves = [leaf for node in nodes if isinstance(node, AccumulateGrad) and (leaf := node.tensor()) is not None]
    if not leaves:
        return []
    with querying() as asked:
        gradients = grad(outputs, leaves, retain_graph=True, allow_unused=True)
        asked.append([g._raw for g in gradients if g is not None])
    return list(itertools.chain.from_iterable(asked))


def _kept_in_memory(nodes: list[Node]) -> tuple[int, str]:
    """Return the bytes that nodes keep in arrays which are in memory, and which node keeps most."""
    found: dict[int, int] = {}
    most = 0, ""

    def own(value: Any) -> int:
        if isinstance(value, list | tuple):
            return sum(map(own, value))
        array = value._raw if isinstance(value, Tensor) else value
        backend = backend_of(array)
        if backend is None or backend.is_lazy:
            return 0
        found[id(array)] = nbytes = backend.nbytes(array)
        return nbytes

    for node in nodes:
        most = max(most, (own(node.saved), f"{node.name()}, recorded at {line_of(node.code, node.lasti)}"))
    return sum(found.values()), most[1]


def _realised(function: str, arguments: tuple[Any, ...], **how: Any) -> Any:
    leaves, _ = tree.flatten(arguments)
    for leaf in leaves:
        if not isinstance(leaf, Tensor) and is_lazy(leaf):
            raise TypeError(
                f"{function}() puts values into tensors, but got {type(leaf).__module__}.{type(leaf).__name__}"
                "\n  Wrap it with ag.asarray(), or compute it with its own library."
            )
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    _warn_without_limit(function, tensors, how["max_memory"])
    fill(tensors, **how)
    return arguments[0] if len(arguments) == 1 else arguments


def _warn_without_limit(function: str, tensors: list[Tensor], max_memory: int | str | None) -> None:
    """Warn of a limit for values that were all computed without it."""
    if max_memory is None or all(t._spec.backend.is_lazy for t in tensors):
        return
    if all(t._spec.backend._is_held(t._raw) for t in tensors):
        warn_at(
            calling_frame(),
            f"max_memory= of {function}() limits nothing: the values are in memory already. What is on NumPy is computed where it"
            " is written, and backward() computes the gradients of parameters in memory.\n  Data in chunks is computed under a"
            ' limit, as agrad_dask.from_zarr(path) or x.to_device("dask"), and dask.config.set({"agrad.max_memory": "1GiB"})'
            " limits backward() too.",
            UserWarning,
        )


@attached
class InChunks:
    """The members of tensors that this file defines, including those of backends that hold arrays whole."""

    @property
    def chunks(self: Any) -> tuple[tuple[int, ...], ...]:
        """The lengths of the chunks along each axis; backends that hold arrays whole have none."""
        backend, asking = self._spec.backend, getframe(1)
        module = asking.f_globals.get("__name__", "")
        if module.startswith("blosc2.") and self._is_followed():  # an expression of its arrays takes any operand
            raise in_expression("blosc2")
        is_xarray = module.startswith("xarray.")
        # For its own objects: those that have some are passed to a manager of their own
        if is_xarray and asking.f_code.co_name == "chunks":
            return None  # type: ignore[return-value]
        if is_xarray or not backend.is_chunked:
            raise AttributeError(
                f'a tensor on {backend.name} has no chunks: its array is whole. x.to_device("dask") has some.'
            )
        return getattr(self._raw, "chunks", ())  # a number that is kept on the host has none

    def rechunk(self: Any, chunks: Any) -> Tensor:
        """The same values in other chunks; on a backend that holds arrays whole, this tensor.

        chunks : int, tuple, dict or str
            As the library takes them: ``1000`` for every axis, ``(1000, -1)`` for whole rows, ``{0: 1000}``, ``"auto"``.
        Returns: Part of the graph: its gradient comes back in the chunks of this tensor.

        >>> x = ag.ones((6, 2), device="dask")
        >>> x.rechunk({0: 2}).chunks
        ((2, 2, 2), (2,))
        """
        backend = self._spec.backend
        if not backend.is_chunked or recorder() is not None:  # a program says nothing of chunks
            return self  # type: ignore[no-any-return]
        made = positive(self)
        raw = backend.rechunk(made._raw, chunks)
        made._raw, made._spec = raw, backend.spec(raw)
        return made

    def to_dask_array(self: Any) -> Any:
        """The value as a Dask array, for Dask's own functions; it has no history.

        Writing to it, as ``d[0] = 1``, does not change this tensor.

        Returns: dask.array.Array, lazy if this tensor is lazy; the values of other backends are one chunk.
        RuntimeError: While a gradient is required and recording is on, or a tangent in forward mode.

        >>> ag.ones(3, device="dask").to_dask_array().compute()
        array([1., 1., 1.])
        """
        if self._is_followed():
            raise in_dask()
        made = self.detach().to_device("dask")
        backend = made._spec.backend
        return backend._handed_over(backend.taken(made._raw))

    def __dask_tokenize__(self: Any) -> Any:
        """The key of a Dask task that takes this tensor."""
        if self._is_followed():
            raise in_dask()
        return sys.modules["dask.base"].normalize_token((type(self), self.__reduce__()))  # Dask calls this: it exists

    def compute(self, *, max_memory: int | str | None = None, progress: bool | None = None) -> Self:
        """Compute the value, and store it in this tensor; do nothing if it is known.

        max_memory, progress: As for `agrad.compute`, which computes several in one pass.
        Returns: This tensor.

        >>> x = ag.ones(3, device="dask") * 2.0
        >>> x.compute() is x
        True
        """
        return _realised("compute", (self,), keep="host", max_memory=max_memory, progress=progress)  # type: ignore[no-any-return]

    def persist(self, *, max_memory: int | str | None = None, progress: bool | None = None) -> Self:
        """Compute the value and keep it where the backend computes, as in the memory of a cluster.

        max_memory, progress: As for `agrad.compute`.
        Returns: This tensor.

        >>> x = ag.ones(3, device="dask") * 2.0
        >>> x.persist() is x
        True
        """
        return _realised("persist", (self,), keep="backend", max_memory=max_memory, progress=progress)  # type: ignore[no-any-return]


_complete(globals(), {})
_complete(vars(InChunks), {}, methods=True)
