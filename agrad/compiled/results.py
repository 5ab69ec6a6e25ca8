"""Generated code that builds the results of a replay from the outputs of its program, in the usual cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Any

from agrad.compiled.guards import Link
from agrad.core import errors
from agrad.core.backend import backend_of
from agrad.core.cpython import ALONE, references
from agrad.core.node import output_of
from agrad.core.tensor import Tensor
from agrad.program.program import Given, Leaf, Number
from agrad.tree import TreeDef

#: A function of outputs, the leaves of the arguments, and the node of the differentiated results: it returns the
#: function's result.
ResultMaker = Callable[[Sequence[Any], Sequence[Any], Any], Any]

FILE = "<agrad results>"
errors.INTERNAL_FILES.add(FILE)


def result_maker_of(cached: Any, raw: bool) -> ResultMaker | None:
    """Return the function that builds the results of a cached program whose outputs have been seen; None if `CachedProgram.returned` must do it.

    Parameters
    ----------
    cached : CachedProgram
        The program; its module imports this one.
    raw : bool
        Whether its results are returned as arrays of their library.
    """
    backend = cached.backend
    arguments, structure = cached.program.arguments, cached.program.results
    assert arguments is not None
    assert structure is not None
    if backend.is_lazy or len(cached.result_sources) > LARGEST:
        return None
    names: dict[str, Any] = {
        "Tensor": Tensor,
        "new": object.__new__,
        "as_array": backend.as_array,
        "item": backend.item,
    }
    names |= {"own": own, "copied": copied, "output_of": output_of}
    lines = []
    made: dict[int, str] = {}
    results = []
    for i, (leaf, at) in enumerate(cached.result_sources):
        kind = type(leaf)
        if kind is Number:
            results.append(f"item(outs[{at}])")
        elif kind is Given:
            given = arguments.leaves[leaf.place]
            if type(given) is not Leaf or given.raw is not raw:
                return None
            results.append(f"copied(as_array(leaves[{leaf.place}]))" if raw else f"leaves[{leaf.place}]")
        elif kind is Leaf and at in cached.specs and not leaf.spent:
            followed = cached.backward is not None and leaf.number in cached.followed
            shape = cached.specs[at].shape
            out = f"outs[{at}]" if shape else f"as_array(outs[{at}])"
            if leaf.raw:
                results.append(out)
            elif not raw or followed:
                first = cached.first_positions[i]
                if first not in made:
                    made[first] = f"t{first}"
                    names[f"s{at}"] = cached.specs[at]
                    place = cached.followed.index(leaf.number) if followed else 0
                    several = f"output_of(node, {place})" if len(cached.followed) > 1 else "node"
                    lines += [f"t{first} = new(Tensor)", f"t{first}._raw, t{first}._spec = {out}, s{at}"]
                    lines.append(f"t{first}._node = {several if followed else None}")
                results.append(made[first])
            else:
                results.append(f"own({out})" if shape else f"copied({out})")
        elif kind in (Leaf, Link):
            return None
        else:
            names[f"c{i}"] = leaf
            results.append(f"c{i}")
    returned = put_together(structure.treedef, iter(results))
    if returned is None:
        return None
    lines.append(f"return {returned}")
    text = "\n".join(["def give(outs, leaves, node):", *(f"    {line}" for line in lines), ""])
    exec(compile(text, FILE, "exec"), names)  # noqa: S102 (made of names of our own)
    return names.pop("give")  # type: ignore[no-any-return]


#: The largest number of results for which code is generated.
LARGEST = 1000


def put_together(structure: TreeDef, leaves: Iterator[str]) -> str | None:
    """Return the display that builds a container of these leaves; None for one that has none, or keys other than text."""
    kind = structure.kind
    if kind is None:
        return next(leaves)
    inside = [put_together(child, leaves) for child in structure.children]
    parts = [part for part in inside if part is not None]
    if len(parts) < len(inside):
        return None
    if kind is dict and all(type(key) is str for key in structure.keys):
        named = dict(zip(structure.keys, parts, strict=True))
        return f"{{{', '.join(f'{key!r}: {named[key]}' for key in structure._order)}}}"
    shown = {NoneType: "None", list: f"[{', '.join(parts)}]", tuple: f"({''.join(f'{part}, ' for part in parts)})"}
    return shown.get(kind)


def own(array: Any) -> Any:
    """Return an output as an array that belongs to the user: itself if only this call's outputs hold it, otherwise a copy."""
    if references(array) == ALONE + 1 and getattr(array, "base", array) is None:
        return array
    return copied(array)


def copied(array: Any) -> Any:
    """Return a copy of an array; for a 0-d one, its library's scalar, such as NumPy's."""
    if not array.shape:
        found = array[()]
        if type(found) is not type(array):
            return found
    backend = backend_of(array)
    assert backend is not None
    return backend.asarray(array, copy=True)
