"""What the transforms share: taking containers of tensors apart, choosing arguments, checking what functions return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agrad import tree
from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.tree import TreeDef

Argnums = int | tuple[int, ...]


def name_of(function: Any) -> str:
    """Return a function's name for a message."""
    return str(getattr(function, "__name__", function))


def tensor_of(value: Any, what: str) -> Tensor:
    """Return an argument as a Tensor: arrays and numbers are converted."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, bool | int | float | complex) or backend_of(value) is not None:
        return asarray(value)
    raise TypeError(f"{what}: Thing passed to transform API must be Tensor, got {type(value)}{called()}")


def tensors_of(container: Any, what: str) -> tuple[list[Tensor], TreeDef]:
    """Take a container of tensors apart."""
    leaves, treedef = tree.flatten(container)
    return [tensor_of(leaf, what) for leaf in leaves], treedef


def outputs_of(container: Any, what: str, expected: str = "") -> tuple[list[Tensor], TreeDef]:
    """Take what a function returned apart: tensors only."""
    leaves, treedef = tree.flatten(container)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            expected = expected or "expected f(*primals) to return only tensors, got unsupported type"
            raise TypeError(f"{what}: {expected} {type(leaf)}{called()}")
    return leaves, treedef


def split_aux(returned: Any, what: str) -> tuple[Any, Any]:
    """Return result and auxiliary values of a function that returns both."""
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True{called()}"
        )
    return returned


def check_kind(argnums: Any) -> None:
    """Refuse what cannot be argnums, when the function is made: perhaps it is the point, beside the function."""
    if isinstance(argnums, bool) or not isinstance(argnums, int | tuple):
        hint = "\n  A transform gives a function: call that with the point." if isinstance(argnums, Tensor) else ""
        raise TypeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}{hint}{called()}")


def check_argnums(argnums: Any, count: int) -> tuple[int, ...]:
    """Return the chosen arguments as places from the front."""
    check_kind(argnums)
    if isinstance(argnums, tuple) and not argnums:
        raise RuntimeError(f"argnums must be non-empty{called()}")
    found = []
    for argnum in (argnums,) if isinstance(argnums, int) else argnums:
        if isinstance(argnum, bool) or not isinstance(argnum, int):
            raise TypeError(f"argnum must be int, got: {type(argnum)}{called()}")
        if not -count <= argnum < count:
            raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs{called()}")
        place = argnum % count
        if place in found:
            raise RuntimeError(f"argnums elements must be unique, got {argnums}{called()}")
        found.append(place)
    return tuple(found)


def of_chosen(
    function: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of the chosen arguments alone, and those arguments."""
    chosen = check_argnums(argnums, len(args))

    def of(*values: Any) -> Any:
        every = list(args)
        for place, value in zip(chosen, values, strict=True):
            every[place] = value
        return function(*every, **kwargs)

    return of, tuple(args[place] for place in chosen)
