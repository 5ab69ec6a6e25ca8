"""Shared by the transforms: choosing arguments, flattening containers, and the form in which results are returned.

Raw in, raw out: a result is an array of its library, and a NumPy scalar where NumPy returns one, if every array or
number among the arguments was raw, and the result has no history and no transform runs around the call. Otherwise it is
a Tensor. A derivative with respect to an argument takes the form of that argument; the function's result depends on all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from agrad import tree
from agrad.core import mode
from agrad.core.backend import BACKENDS, Backend, backend_of
from agrad.core.cpython import ALONE, references
from agrad.core.errors import BackendError, called, inexact_only
from agrad.core.operands import tensor_of
from agrad.core.tensor import Tensor
from agrad.core.tree import LEAF, children_of
from agrad.ops.creation import asarray
from agrad.tree import TreeDef

Argnums = int | tuple[int, ...]

#: The types of Python numbers; NumPy's doubles are among them, its other scalars count as arrays of their backend.
NUMBERS = bool | int | float | complex

# -- checks -------------------------------------------------------------------------------------------------------------


def name_of(function: Any) -> str:
    """Return a function's name for a message."""
    return str(getattr(function, "__name__", function))


def argument_of(value: Any, what: str, where: str = "") -> Tensor:
    """Return an argument as a Tensor: arrays and numbers are converted."""
    if isinstance(value, Tensor):
        return value
    if _is_numeric(value):
        return asarray(value)
    hint = ""
    if hasattr(value, "to_numpy"):
        hint = "\n  Give its values: x.to_numpy()."
    elif hasattr(value, "data_vars"):
        hint = "\n  Give the values of its variables, and make the Dataset inside the function: x[name].to_numpy()."
    raise TypeError(f"{what}: Thing passed to transform API must be Tensor, got {type(value)}{where}{hint}{called()}")


def _is_numeric(value: Any) -> bool:
    return isinstance(value, NUMBERS) or backend_of(value) is not None


def _arguments(leaves: Sequence[Any], structure: TreeDef, what: str) -> list[Tensor]:
    """Return the leaves of a container as tensors; errors name the entry."""
    try:
        return [argument_of(leaf, what) for leaf in leaves]
    except TypeError:
        for i, leaf in enumerate(leaves):
            if (path := _path(structure, i)) and not isinstance(leaf, Tensor) and not _is_numeric(leaf):
                argument_of(leaf, what, f" at {path}\n  {_APART}")
        raise


#: The fix for an entry of a container that has no derivative.
_APART = "Keep what has no derivative in an argument of its own, or in a closure."


def _path(structure: TreeDef, i: int) -> str:
    """Return the position of a leaf among arguments; within a single argument, its path."""
    path = structure.paths()[i]
    return path.removeprefix("[0]") if structure.kind is tuple and len(structure.children) == 1 else path


def refuse_kind(tensor: Tensor, tensors: Sequence[Tensor], structure: TreeDef, primals: Sequence[Any]) -> NoReturn:
    """Refuse an argument that has no derivative, and name it."""
    i = next(i for i, t in enumerate(tensors) if t is tensor)
    value, path = tree.flatten(tuple(primals))[0][i], _path(structure, i)
    which = f"That at {path}" if path else "This one"
    cure = {"cure": f"write {value}.0"} if type(value) is int else {}
    raise inexact_only(tensor.dtype, which, **cure, more=_APART if path else "")


def tensors_of(container: Any, what: str) -> tuple[list[Tensor], TreeDef]:
    """Take a container of tensors apart."""
    leaves, treedef = tree.flatten(container)
    return _arguments(leaves, treedef, what), treedef


#: Why a function of tensors returns a number.
_LEFT = (
    "\n  It is computed from none of the arguments, or it left the graph: by float(), item(), or an array of NumPy's own that"
    " elements were written to."
)


def outputs_of(container: Any, what: str, expected: str = "") -> tuple[list[Tensor], TreeDef]:
    """Flatten a function's result, which must consist of tensors."""
    leaves, treedef = tree.flatten(container)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            expected = expected or "expected f(*primals) to return only tensors, got unsupported type"
            hint = _LEFT if _is_numeric(leaf) else ""
            if isinstance(getattr(leaf, "data", None), Tensor):
                hint = "\n  Return the tensor in it: result.data."
            raise TypeError(f"{what}: {expected} {type(leaf)}{hint}{called()}")
    return leaves, treedef


def split_aux(returned: Any, what: str) -> tuple[Any, Any]:
    """Return the result and auxiliary values of a function that returns both."""
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True{called()}"
        )
    return returned


def check_kind(argnums: Any) -> None:
    """Refuse invalid argnums when the function is created: the value may be the point to differentiate at."""
    if isinstance(argnums, bool) or not isinstance(argnums, int | tuple):
        hint = "\n  A transform returns a function: call that with the point." if isinstance(argnums, Tensor) else ""
        raise TypeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}{hint}{called()}")


def check_argnums(argnums: Any, count: int) -> tuple[int, ...]:
    """Return the chosen arguments as positions from the front."""
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


# -- raw in, raw out ----------------------------------------------------------------------------------------------------

#: Converts a result for the user: unchanged, or to an array of its library. The second argument says whether the tensor
#: was created only for this.
Give = Callable[[Tensor, bool], Any]


#: Whether values of a type are arrays or numbers, Python's included.
_PYTHONS_OWN = {bool: True, int: True, float: True, complex: True, str: False, bytes: False, type(None): False}


def is_raw(*containers: Any) -> bool:
    """Return whether containers hold arrays or numbers, and no tensor.

    Constants may be large, contain themselves, or belong to a library whose backend does not load: that is no error
    here.
    """
    for c in containers:
        if isinstance(c, Tensor):
            return False
    found = False
    known = _PYTHONS_OWN.copy()
    seen: set[int] = set()
    pending = list(containers)
    while pending:
        x = pending.pop()
        kind = type(x)
        if issubclass(kind, Tensor):
            return False
        if kind in known:
            found = found or known[kind]
            continue
        if kind in BACKENDS or issubclass(kind, NUMBERS):
            found = known[kind] = True
            continue
        opened = children_of(x)
        if opened is None:
            known[kind] = owner_of(x) is not None
            found = found or known[kind]
        elif id(x) not in seen:
            seen.add(id(x))
            kinds = set(map(type, opened)) if len(opened) > 8 else None  # for many leaves, comparing types is faster
            if kinds is not None and kinds <= known.keys():  # no container among them, and no tensor
                found = found or any(known[kind] for kind in kinds)
            else:
                pending.extend(opened)
    return found


def owner_of(x: Any) -> Backend | None:
    """Return the backend of an array; None if it is not one, or its backend cannot be used."""
    try:
        return backend_of(x)
    except BackendError:  # the error is raised where the value is used, if at all
        return None


def givers(leaves: Sequence[Any], arguments: Sequence[TreeDef]) -> list[Give]:
    """Return, per leaf of the arguments, the form of derivatives with respect to it; nothing if all are tensors.

    An argument that has both tensors and raw leaves counts as tensors.
    """
    if all(isinstance(x, Tensor) for x in leaves):
        return []
    found: list[Give] = []
    for argument in arguments:
        own = leaves[len(found) : len(found) + argument.num_leaves]
        mixed = any(isinstance(x, Tensor) for x in own)
        found += [as_tensor if mixed else as_array if _is_array(x) else bare for x in own]
    return found


#: The structure of a single argument that is not a container.
ONE = TreeDef(tuple, (), (LEAF,), 1)


def arguments_of(container: tuple[Any, ...], what: str) -> tuple[list[Tensor], TreeDef, list[Give]]:
    """Flatten the arguments that a function is differentiated with respect to, and return the form of the derivatives."""
    if len(container) == 1:  # the usual case, without flattening a single leaf
        (only,) = container
        if type(only) in BACKENDS:
            made = tensor_of(only)
            return [made], ONE, [as_array if type(made._raw) is type(only) else bare]
        if type(only) is float:
            return [asarray(only)], ONE, [bare]
    leaves, structure = tree.flatten(container)
    gives = givers(leaves, structure.children)
    return _arguments(leaves, structure, what), structure, gives


def _is_array(x: Any) -> bool:
    """Return whether a raw value is an array: neither a number, nor a scalar of a library."""
    owner = None if isinstance(x, NUMBERS) else backend_of(x)
    return owner is not None and type(owner.as_array(x)) is type(x)


def as_tensor(result: Tensor, new: bool = False) -> Any:  # noqa: ARG001 (a `Give`)
    """Return a result unchanged."""
    return result


def as_array(result: Tensor, new: bool = False) -> Any:
    """Return a result as an array that belongs to the user; a result with a history, or within a transform, is returned unchanged."""
    if _stays(result):
        return result
    raw, backend = result._raw, result._spec.backend
    if backend.is_lazy or (new and references(raw) == ALONE + 1 and getattr(raw, "base", raw) is None):
        return raw
    return backend.asarray(raw, copy=True)


def bare(result: Tensor, new: bool = False) -> Any:
    """Return a result likewise; a 0-d one as its library's scalar, as NumPy does."""
    if not result._spec.shape and not _stays(result):
        found = result._raw[()]
        if type(found) is not type(result._raw):
            return found
    return as_array(result, new)


def give_all(gives: Sequence[Give], results: Iterable[Tensor]) -> list[Any]:
    """Return results, each in its form."""
    return [give(t, False) for give, t in zip(gives, results, strict=True)] if gives else list(results)


def bare_all(container: Any) -> Any:
    """Return a function's result, with its tensors converted by `bare`."""
    return tree.map(lambda x: bare(x) if isinstance(x, Tensor) else x, container)


def moves(arguments: Any) -> bool:
    """Return whether a tensor among arguments is being differentiated."""
    tensors = [t for t in tree.flatten(arguments)[0] if isinstance(t, Tensor)]
    return any(t._node is not None or t._tangents for t in tensors)


def is_transformed(tensor: Tensor) -> bool:
    """Return whether a transform around the call differentiates with respect to a tensor."""
    return tensor._is_followed() and bool(mode.transforming.get() or tensor._tangents)


def _stays(result: Tensor) -> bool:
    """Return whether a result stays a Tensor whatever the arguments were, because an outer transform may differentiate it."""
    if result._node is not None or result._spec.backend.is_batched:  # at a level of vmap
        return True
    now = mode.current()
    return mode.transforming.get() is not None or (now is not None and bool(now.levels))
