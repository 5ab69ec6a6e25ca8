"""What the transforms share: choosing arguments, taking containers apart, and in which form results come back.

Raw in, raw out: a result is an array of its library, and a NumPy scalar where NumPy gives one, if every array or number
among the arguments was raw, and the result has no history and no transform runs around the call. Else it is a Tensor. A
derivative by an argument follows that argument; what the function returned follows all of them.
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

#: What a Python number is; NumPy's doubles are among them, its other scalars are arrays to their backend.
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
    hint = "\n  Give its values: x.to_numpy()." if hasattr(value, "to_numpy") else ""
    raise TypeError(f"{what}: Thing passed to transform API must be Tensor, got {type(value)}{where}{hint}{called()}")


def _is_numeric(value: Any) -> bool:
    return isinstance(value, NUMBERS) or backend_of(value) is not None


def _arguments(leaves: Sequence[Any], structure: TreeDef, what: str) -> list[Tensor]:
    """Return the leaves of a container as tensors; an error names the entry."""
    try:
        return [argument_of(leaf, what) for leaf in leaves]
    except TypeError:
        for i, leaf in enumerate(leaves):
            if (path := _path(structure, i)) and not isinstance(leaf, Tensor) and not _is_numeric(leaf):
                argument_of(leaf, what, f" at {path}\n  {_APART}")
        raise


#: What to do with an entry of a container that has no derivative.
_APART = "Keep what has no derivative in an argument of its own, or in a closure."


def _path(structure: TreeDef, i: int) -> str:
    """Return where a leaf stands among arguments; of one argument, where within it."""
    path = structure.paths()[i]
    return path.removeprefix("[0]") if structure.kind is tuple and len(structure.children) == 1 else path


def refuse_kind(tensor: Tensor, tensors: Sequence[Tensor], structure: TreeDef, primals: Sequence[Any]) -> NoReturn:
    """Refuse an argument that has no derivative, and say which it is."""
    i = next(i for i, t in enumerate(tensors) if t is tensor)
    value, path = tree.flatten(tuple(primals))[0][i], _path(structure, i)
    which = f"That at {path}" if path else "This one"
    cure = {"cure": f"write {value}.0"} if type(value) is int else {}
    raise inexact_only(tensor.dtype, which, **cure, more=_APART if path else "")


def tensors_of(container: Any, what: str) -> tuple[list[Tensor], TreeDef]:
    """Take a container of tensors apart."""
    leaves, treedef = tree.flatten(container)
    return _arguments(leaves, treedef, what), treedef


#: Why a function of tensors gives a number.
_LEFT = (
    "\n  It is computed from none of the arguments, or it left the graph: by float(), item(), or an array of NumPy's own that"
    " elements were written to."
)


def outputs_of(container: Any, what: str, expected: str = "") -> tuple[list[Tensor], TreeDef]:
    """Take what a function returned apart: tensors only."""
    leaves, treedef = tree.flatten(container)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            expected = expected or "expected f(*primals) to return only tensors, got unsupported type"
            raise TypeError(f"{what}: {expected} {type(leaf)}{_LEFT if _is_numeric(leaf) else ''}{called()}")
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


# -- raw in, raw out ----------------------------------------------------------------------------------------------------

#: Gives a user a result: as it is, or as its library has it. Told whether the tensor was made for this alone.
Give = Callable[[Tensor, bool], Any]


#: Whether what is of a type is an array or number, of Python's types.
_PYTHONS_OWN = {bool: True, int: True, float: True, complex: True, str: False, bytes: False, type(None): False}


def is_raw(*containers: Any) -> bool:
    """Return whether arrays or numbers are in containers, and no tensor.

    Constants may be large, hold themselves, or be of a library whose backend does not load: that is no error here.
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
            kinds = set(map(type, opened)) if len(opened) > 8 else None  # of many, the types tell faster
            if kinds is not None and kinds <= known.keys():  # no container among them, nor a tensor
                found = found or any(known[kind] for kind in kinds)
            else:
                pending.extend(opened)
    return found


def owner_of(x: Any) -> Backend | None:
    """Return the backend of an array, None where it is none, or that of a backend which cannot be used."""
    try:
        return backend_of(x)
    except BackendError:  # it is raised where the value is used, if it is
        return None


def givers(leaves: Sequence[Any], arguments: Sequence[TreeDef]) -> list[Give]:
    """Return per leaf of arguments in which form derivatives by it come back; none if all do as tensors.

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


#: The structure of one argument that is no container.
ONE = TreeDef(tuple, (), (LEAF,), 1)


def arguments_of(container: tuple[Any, ...], what: str) -> tuple[list[Tensor], TreeDef, list[Give]]:
    """Take arguments apart that a function is differentiated by, and tell in which form derivatives come back."""
    if len(container) == 1:  # the usual case, without taking apart what is no container
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
    """Return whether something raw is an array: no number, and no scalar of a library."""
    owner = None if isinstance(x, NUMBERS) else backend_of(x)
    return owner is not None and type(owner.as_array(x)) is type(x)


def as_tensor(result: Tensor, new: bool = False) -> Any:  # noqa: ARG001 (a `Give`)
    """Return a result as it is."""
    return result


def as_array(result: Tensor, new: bool = False) -> Any:
    """Return a result as an array that is the user's own; one with a history, or within a transform, as it is."""
    if _stays(result):
        return result
    raw, backend = result._raw, result._spec.backend
    if backend.is_lazy or (new and references(raw) == ALONE + 1 and getattr(raw, "base", raw) is None):
        return raw
    return backend.asarray(raw, copy=True)


def bare(result: Tensor, new: bool = False) -> Any:
    """Return a result likewise; a 0-d one as what its library gives for such: a NumPy scalar."""
    if not result._spec.shape and not _stays(result):
        found = result._raw[()]
        if type(found) is not type(result._raw):
            return found
    return as_array(result, new)


def give_all(gives: Sequence[Give], results: Iterable[Tensor]) -> list[Any]:
    """Return results in the form each is to have."""
    return [give(t, False) for give, t in zip(gives, results, strict=True)] if gives else list(results)


def bare_all(container: Any) -> Any:
    """Return what a function returned, its tensors by `bare`."""
    return tree.map(lambda x: bare(x) if isinstance(x, Tensor) else x, container)


def moves(arguments: Any) -> bool:
    """Return whether a tensor among arguments is being differentiated."""
    tensors = [t for t in tree.flatten(arguments)[0] if isinstance(t, Tensor)]
    return any(t._node is not None or t._tangents for t in tensors)


def is_transformed(tensor: Tensor) -> bool:
    """Return whether a transform around the call differentiates by a tensor."""
    return tensor._is_followed() and bool(mode.transforming.get() or tensor._tangents)


def _stays(result: Tensor) -> bool:
    """Return whether a result stays a Tensor whatever the arguments were: a transform outside may differentiate it."""
    if result._node is not None or result._spec.backend.is_batched:  # of a level of vmap
        return True
    now = mode.current()
    return mode.transforming.get() is not None or (now is not None and bool(now.levels))
