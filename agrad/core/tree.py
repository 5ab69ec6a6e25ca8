"""Containers of tensors: flatten and unflatten. ``agrad.tree`` is the public name.

A container is a dict, list, tuple, namedtuple, dataclass instance or None, nested to any depth; None holds nothing.
Everything else is a leaf.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType
from typing import Any

from agrad.core.tensor import Tensor


@dataclass(frozen=True, slots=True, repr=False)
class TreeDef:
    """The structure of a container without its leaves: immutable, comparable and hashable.

    Two structures are equal if the same list of leaves means the same in both: equal types, lengths and keys. The
    insertion order of dict keys does not matter, as leaves follow the sorted keys.

    Attributes
    ----------
    kind
        The container's type, or None for a leaf.
    keys
        The keys of a dict, sorted if possible, or the field names of a namedtuple or dataclass.
    children
        The structures inside, in the order of the leaves.
    num_leaves
        The number of leaves.

    Examples
    --------
    >>> leaves, treedef = flatten({"layers": [(1.0, 2.0), (3.0, None)], "bias": 4.0})
    >>> leaves
    [4.0, 1.0, 2.0, 3.0]
    >>> treedef
    TreeDef({'bias': *, 'layers': [(*, *), (*, None)]})
    >>> treedef.paths()
    ["['bias']", "['layers'][0][0]", "['layers'][0][1]", "['layers'][1][0]"]
    """

    kind: type[Any] | None
    keys: tuple[Any, ...] = ()
    children: tuple[TreeDef, ...] = ()
    num_leaves: int = field(default=1, compare=False)
    # What rebuilding a dict needs in addition to its keys: their insertion order, and the factory of a defaultdict.
    _order: tuple[Any, ...] = field(default=(), compare=False)
    _factory: Callable[[], Any] | None = field(default=None, compare=False)

    def paths(self) -> list[str]:
        """The path of each leaf, written as Python code: ``['layers'][0].weight``."""
        return list(self._paths(""))

    def _paths(self, path: str) -> Iterator[str]:
        if self.kind is None:
            yield path
        for step, child in zip(self._steps(), self.children, strict=True):
            yield from child._paths(path + step)

    def _steps(self) -> list[str]:
        """The path element of each child."""
        if self.kind is None:
            return []
        if issubclass(self.kind, dict):
            return [f"[{key!r}]" for key in self.keys]
        if self.keys:
            return [f".{name}" for name in self.keys]
        return [f"[{index}]" for index in range(len(self.children))]

    def _build(self, leaves: Iterator[Any]) -> Any:
        kind = self.kind
        if kind is None:
            return next(leaves)
        if kind is NoneType:
            return None
        children = [child._build(leaves) for child in self.children]
        if issubclass(kind, dict):
            found = dict(zip(self.keys, children, strict=True))
            items = {key: found[key] for key in self._order}
            return kind(self._factory, items) if issubclass(kind, defaultdict) else kind(items)
        if _is_namedtuple(kind):
            return kind._make(children)
        if issubclass(kind, (list, tuple)):
            return kind(children)
        # Not through __init__: that would run __post_init__ a second time on values it has already processed.
        made = object.__new__(kind)
        for name, child in zip(self.keys, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    def _flatten_up_to(self, tree: Any, path: str) -> Iterator[Any]:
        """Yield what `tree` has where this structure has its leaves."""
        if self.kind is None:
            yield tree
            return
        opened = _open(tree)
        if type(tree) is not self.kind or opened is None:
            raise ValueError(f"{_place(path)} {_described(type(tree))}, not {_described(self.kind)}")
        keys, children = opened
        if isinstance(tree, dict) and tree.keys() == set(self.keys):
            children = [tree[key] for key in self.keys]
        elif keys != self.keys:
            missing = [repr(key) for key in self.keys if key not in keys]
            surplus = [repr(key) for key in keys if key not in self.keys]
            parts = ["lacks " + ", ".join(missing)] * bool(missing) + ["also has " + ", ".join(surplus)] * bool(surplus)
            raise ValueError(f"{_place(path)} a {self.kind.__name__} that {' and '.join(parts)}")
        if len(children) != len(self.children):
            raise ValueError(
                f"{_place(path)} {_described(self.kind)} of length {len(children)}, not {len(self.children)}"
            )
        for step, structure, child in zip(self._steps(), self.children, children, strict=True):
            yield from structure._flatten_up_to(child, path + step)

    def __repr__(self) -> str:
        return f"TreeDef({self})"

    def __str__(self) -> str:
        """Return the container with a star for each leaf, as messages show it."""
        kind = self.kind
        if kind is None:
            return "*"
        if kind is NoneType:
            return "None"
        texts = [str(child) for child in self.children]
        if issubclass(kind, dict):
            text = "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(self.keys, texts, strict=True)) + "}"
            return text if kind is dict else f"{kind.__name__}({text})"
        if issubclass(kind, list):
            text = "[" + ", ".join(texts) + "]"
            return text if kind is list else f"{kind.__name__}({text})"
        if issubclass(kind, tuple) and not _is_namedtuple(kind):
            text = f"({texts[0]},)" if len(texts) == 1 else "(" + ", ".join(texts) + ")"
            return text if kind is tuple else f"{kind.__name__}({text})"
        named = ", ".join(f"{name}={child}" for name, child in zip(self.keys, texts, strict=True))
        return f"{kind.__name__}({named})"


TreeDef.__module__ = "agrad.tree"  # pickle looks for it there


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """Flatten a container.

    Parameters
    ----------
    tree
        A container or a single leaf.

    Returns
    -------
    leaves : list
        The leaves, depth first; those of a dict in the order of its sorted keys, so that dicts with equal keys return
        their leaves in the same order. Keys of several types are sorted type by type; keys that cannot be compared
        keep their insertion order.
    treedef : TreeDef
        The structure that `unflatten` needs to rebuild the container.

    Examples
    --------
    >>> flatten({"b": [1, 2], "a": None})
    ([1, 2], TreeDef({'a': None, 'b': [*, *]}))
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Put leaves into a structure; the inverse of `flatten`.

    Dicts get their keys in the original order. Dataclass instances are made without calling ``__init__`` and
    ``__post_init__``: only their fields are set.

    Parameters
    ----------
    treedef
        The structure that `flatten` returned.
    leaves
        As many leaves as the structure has.

    Raises
    ------
    ValueError
        If there are more or fewer leaves.

    Examples
    --------
    >>> leaves, treedef = flatten({"b": [1, 2], "a": None})
    >>> unflatten(treedef, [10, 20])
    {'b': [10, 20], 'a': None}
    """
    leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        raise ValueError(f"a structure of {treedef.num_leaves} leaves cannot be made of {len(leaves)}: {treedef!r}")
    return treedef._build(iter(leaves))


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to every leaf.

    Parameters
    ----------
    f
        Called with one leaf of `tree` and, for each of `rest`, its value at the same place.
    tree
        A container or a single leaf.
    *rest
        Containers of the same structure. At the place of a leaf of `tree` they may have anything, including a container.

    Returns
    -------
    Any
        A container like `tree` with the results.

    Raises
    ------
    ValueError
        If the structure of one of `rest` differs; the message says where.

    Examples
    --------
    >>> map(lambda w, g: w - g, {"w": 5, "b": [7]}, {"w": 1, "b": [2]})
    {'w': 4, 'b': [5]}
    >>> map(lambda w, g: w - g, {"w": 5, "b": [7]}, {"w": 1, "b": [2, 3]})
    Traceback (most recent call last):
    ValueError: argument 2 of tree.map differs from the first: at ['b'] there is a list of length 2, not 1
    """
    leaves, treedef = flatten(tree)
    columns: list[Sequence[Any]] = [leaves]
    for number, other in enumerate(rest, start=2):
        try:
            columns.append(list(treedef._flatten_up_to(other, "")))
        except ValueError as error:
            raise ValueError(f"argument {number} of tree.map differs from the first: {error}") from None
    return unflatten(treedef, [f(*items) for items in zip(*columns, strict=True)])


def _open(tree: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Return the keys and children of a container; None for a leaf."""
    # A GradientEdge, which is a namedtuple, declares itself; an object that answers for any attribute does not.
    if isinstance(tree, Tensor) or hasattr(type(tree), "_is_leaf"):
        return None
    if tree is None:
        return (), []
    if isinstance(tree, dict):
        keys = _sorted(tree)
        return keys, [tree[key] for key in keys]
    if isinstance(tree, (list, tuple)):
        return getattr(type(tree), "_fields", ()) if _is_namedtuple(type(tree)) else (), list(tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(one.name for one in fields(tree))
        return names, [getattr(tree, name) for name in names]
    return None


def children_of(tree: Any) -> Collection[Any] | None:
    """Return the children of a container, in any order; None for a leaf."""
    if type(tree) is list or type(tree) is tuple:
        return tree
    if type(tree) is dict:
        values: Collection[Any] = tree.values()
        return values
    opened = _open(tree)
    return None if opened is None else opened[1]


def _flatten(tree: Any, leaves: list[Any]) -> TreeDef:
    opened = None if isinstance(tree, Tensor) else _open(tree)
    if opened is None:
        leaves.append(tree)
        return LEAF
    keys, items = opened
    before = len(leaves)
    children = tuple(_flatten(item, leaves) for item in items)
    order = tuple(tree) if isinstance(tree, dict) else ()
    factory = tree.default_factory if isinstance(tree, defaultdict) else None
    return TreeDef(type(tree), keys, children, len(leaves) - before, order, factory)


#: The structure of a leaf.
LEAF = TreeDef(None)


def _sorted(keys: Iterable[Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(keys, key=lambda key: (type(key).__qualname__, key)))
    except TypeError:
        return tuple(keys)


def _is_namedtuple(kind: type[Any]) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_make")


def _described(kind: type[Any]) -> str:
    if kind is NoneType:
        return "None"
    return ("an " if kind.__name__[0] in "aeiouAEIOU" else "a ") + kind.__name__


def _place(path: str) -> str:
    return f"at {path or 'the top'} there is"
