"""vmap: turn a function of one example into a function of a batch."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agrad import tree
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.core.tree import LEAF, TreeDef
from agrad.ops.docs import complete as _complete
from agrad.ops.manipulation import concat
from agrad.program.arguments import argument_of, bare, is_raw
from agrad.program.batching import BatchLevel, in_batch, leave

RANDOMNESS = ("error", "different", "same")


R = TypeVar("R")


def vmap(
    func: Callable[..., R],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., R]:
    """Return the function that maps a function over an axis of its arguments, all at once.

    func : callable
        Takes tensors or containers of tensors (and any other arguments, which are not mapped over), returns tensors or
        containers of tensors. It is called once, on tensors that hide the axis.
    in_dims : int, None or container of them, optional
        The axis of every argument to map over, as a tuple with an entry per argument; an entry is an int, None for an
        argument that is not mapped over, or a container of these in the argument's structure. A single int applies to
        all.
    out_dims : int, None or container of them, optional
        The position of the axis in the results; None for a result that does not depend on it.
    randomness : str, optional
        The behaviour of random functions inside: ``"error"`` refuses them, ``"same"`` draws the same numbers for the
        whole batch, ``"different"`` draws different numbers for every example.
    chunk_size : int, optional
        The number of examples mapped over at a time; the results are joined. Default: all.
    Returns : callable
        Takes the arguments of `func`; keyword arguments are not mapped over.
    ValueError: When called: if the arguments do not fit `in_dims` or differ in the length of the axis, or results do not fit
        `out_dims`.
    RuntimeError: When called: if the function needs the value of a tensor, as in ``if x > 0``, or the shape of a result
        depends on values.
    UnsupportedOp: When called: if an operation has no batching rule; there is no fallback to a loop.
    vmap composes with itself and with all other transforms: ``vmap(grad(f))`` computes the gradient for every example.
    For arrays it returns arrays, like all transforms. An outer tensor that the function uses is the same for all
    examples. Assigning into it, or keeping an inner tensor beyond the call, is not supported.

    >>> a = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ag.func.vmap(lambda row: ag.vecdot(row, row))(a)
    tensor([ 5., 25.])
    >>> loss = lambda w, x: (w * x) ** 2
    >>> ag.func.vmap(ag.func.grad(loss), in_dims=(None, 0))(ag.tensor(3.0), ag.tensor([1.0, 2.0]))
    tensor([ 6., 24.])
    """
    check_randomness(randomness)
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size}){called()}")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        raw = is_raw(*args, *kwargs.values())
        leaves, structure, axes = _inputs(func, in_dims, args)
        size = _batch_size(leaves, axes)
        if chunk_size is None or size <= chunk_size:
            results, result_structure, places = _run(func, leaves, structure, axes, kwargs, out_dims, size, randomness)
        else:
            parts = []
            for start in range(0, size, chunk_size):
                stop = min(start + chunk_size, size)
                chunk = [
                    x if axis is None else x[(slice(None),) * axis + (slice(start, stop), ...)]
                    for x, axis in zip(leaves, axes, strict=True)
                ]
                part = _run(func, chunk, structure, axes, kwargs, out_dims, stop - start, randomness)
                parts.append(part[0])
                result_structure, places = part[1], part[2]
            results = [
                columns[0] if place is None else concat(columns, axis=place)
                for columns, place in zip(map(list, zip(*parts, strict=True)), places, strict=True)
            ]
        if raw:  # results that have the axis are new
            results = [
                bare(y, place is not None) if isinstance(y, Tensor) else y
                for y, place in zip(results, places, strict=True)
            ]
        return results[0] if result_structure is LEAF else tree.unflatten(result_structure, results)

    return mapped


def check_randomness(randomness: str) -> None:
    """Refuse any other word than the three."""
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}{called()}"
        )


def over_rows(
    function: Callable[..., list[Tensor]],
    tensors: Sequence[Tensor],
    chunk_size: int | None = None,
    randomness: str = "error",
) -> list[Tensor]:
    """Map a function of tensors, which returns a list of them, over their first axis: vmap without the checks of user arguments."""
    size = tensors[0].shape[0]
    if chunk_size is not None and size > chunk_size:
        parts = [
            over_rows(function, [t[start : min(start + chunk_size, size), ...] for t in tensors], None, randomness)
            for start in range(0, size, chunk_size)
        ]
        return [concat(column, axis=0) for column in zip(*parts, strict=True)]
    axes = [0] * len(tensors)
    return in_batch(tensors, axes, size, randomness, lambda level, rows: [leave(y, 0, level) for y in function(*rows)])


def _run(
    func: Callable[..., Any],
    leaves: Sequence[Any],
    structure: TreeDef,
    axes: Sequence[int | None],
    kwargs: dict[str, Any],
    out_dims: Any,
    size: int,
    randomness: str,
) -> tuple[list[Any], TreeDef, list[int | None]]:
    """Call the function once; return the leaves of its result, their structure, and the position of the axis in each."""

    def run(level: BatchLevel, inside: list[Any]) -> tuple[list[Any], TreeDef, list[int | None]]:
        flat = all(part is LEAF for part in structure.children)
        returned = func(*(inside if flat else tree.unflatten(structure, inside)), **kwargs)
        outputs, result_structure = ([returned], LEAF) if isinstance(returned, Tensor) else tree.flatten(returned)
        places = _places(func, out_dims, result_structure)
        results = []
        for i, (y, place) in enumerate(zip(outputs, places, strict=True)):
            result, places[i] = _result(func, y, place, level)
            results.append(result)
        return results, result_structure, places

    return in_batch(leaves, axes, size, randomness, run)


def _result(func: Callable[..., Any], y: Any, place: int | None, level: BatchLevel) -> tuple[Any, int | None]:
    """Return a result with the batch as an axis, at its position."""
    name = getattr(func, "__name__", func)
    if place is None:
        if isinstance(y, Tensor) and level.number in getattr(y._spec.backend, "numbers", ()):
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None{called()}"
            )
        return y, None
    if not isinstance(y, Tensor):
        raise ValueError(  # noqa: TRY004 (PyTorch's type)
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(y)}. Did you mean to set out_dims= to"
            f" None for output?{called()}"
        )
    rank = len(y._spec.shape) + 1
    if not -rank <= place < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {place}){called()}"
        )
    return leave(y, place % rank, level), place % rank


# -- axes by container --------------------------------------------------------------------------------------------------


def _inputs(func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], TreeDef, list[Any]]:
    """Take the arguments apart, and return the axis of each leaf."""
    name = getattr(func, "__name__", func)
    if not isinstance(in_dims, int | tuple | list) or isinstance(in_dims, bool):
        raise ValueError(  # noqa: TRY004 (PyTorch's type)
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested)"
            f" tuple matching the structure of inputs, got: {type(in_dims)}.{called()}"
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a"
            f" function with no inputs. The latter is unsupported.{called()}"
        )
    if all(isinstance(a, Tensor) for a in args):
        leaves, structure = list(args), TreeDef(tuple, (), (LEAF,) * len(args), len(args))
    else:
        leaves, structure = tree.flatten(args)
    axes = spread(in_dims, structure)
    if axes is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of `inputs`."
            f" in_dims has structure {_structure(in_dims)} but inputs has structure {structure}.{called()}"
        )
    found: list[int | None] = []
    for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is None:
            found.append(None)
            continue
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise ValueError(  # noqa: TRY004 (PyTorch's type)
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={axis} for an input but in_dim must be"
                f" either an integer dimension or None.{called()}"
            )
        if not isinstance(x, Tensor):
            try:
                if isinstance(x, bool | int | float | complex):
                    raise TypeError
                x = argument_of(x, "vmap")  # noqa: PLW2901 (a raw array)
            except TypeError:
                raise ValueError(
                    f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={axis} for an input but the input is of"
                    f" type {type(x)}. We cannot vmap over non-Tensor arguments, please use None as the respective"
                    f" in_dim{called()}"
                ) from None
            leaves[i] = x
        ndim = len(x._spec.shape)
        if not -ndim <= axis < ndim:
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={axis} for some input, but that input is a"
                f" Tensor of dimensionality {ndim} so expected in_dim to satisfy -{ndim} <= in_dim < {ndim}."
                f"{called()}"
            )
        found.append(axis % ndim)
    return leaves, structure, found


def _batch_size(leaves: Sequence[Any], axes: Sequence[int | None]) -> int:
    sizes = [x._spec.shape[axis] for x, axis in zip(leaves, axes, strict=True) if axis is not None]
    if not sizes:
        raise ValueError(f"vmap: at least one input must be mapped over, but every in_dim is None{called()}")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes"
            f" {sizes} for the mapped dimension{called()}"
        )
    return operator.index(sizes[0])


def _places(func: Callable[..., Any], out_dims: Any, structure: TreeDef) -> list[int | None]:
    """Return the position of the axis in each result."""
    name = getattr(func, "__name__", func)
    found = spread(out_dims, structure)
    if found is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        found = spread(out_dims[0], structure)  # PyTorch accepts a tuple of one for a single result
    if found is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of"
            f" `outputs`. out_dims has structure {_structure(out_dims)} but outputs has structure {structure}.{called()}"
        )
    for place in found:
        if place is not None and (isinstance(place, bool) or not isinstance(place, int)):
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints"
                f" representing where in the outputs the vmapped dimension should appear.{called()}"
            )
    return found


def spread(dims: Any, structure: TreeDef) -> list[Any] | None:
    """Return an entry of `dims` per leaf of a structure: one entry may apply to a whole part; None if they do not match."""
    if dims is None or isinstance(dims, int):
        return [dims] * structure.num_leaves
    if structure.kind is None:
        return None if isinstance(dims, tuple | list | dict) else [dims]
    by_place = issubclass(structure.kind, tuple | list)
    keys = tuple(range(len(structure.children))) if by_place else structure.keys
    entries = _entries(dims)
    if entries is None or entries.keys() != set(keys):
        return None
    found: list[Any] = []
    for key, part in zip(keys, structure.children, strict=True):
        below = spread(entries[key], part)
        if below is None:
            return None
        found += below
    return found


def _entries(dims: Any) -> dict[Any, Any] | None:
    """Return the entries of a container by key; None if it is not a container."""
    if isinstance(dims, dict):
        return dims
    if isinstance(dims, tuple | list):
        return dict(enumerate(dims))
    names = tree.flatten(dims)[1].keys  # of a dataclass
    return {name: getattr(dims, name) for name in names} if names else None


def _structure(dims: Any) -> str:
    return str(tree.flatten(tree.map(lambda _: 0, dims))[1])


_complete(globals(), {})
