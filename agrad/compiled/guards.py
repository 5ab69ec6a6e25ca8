"""Guards: the state of Python for which a cached program holds, and the generated code that checks it at every call.

A guard is a `Link`: a value that the capture read, and the way to read it again. Plain values are compared by type and
value, everything else by identity.
"""

from __future__ import annotations

import itertools
import keyword
import math
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agrad.core import errors
from agrad.core.backend import BACKENDS, Backend
from agrad.core.node import AccumulateGrad
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.program.arguments import owner_of
from agrad.program.closures import ENTRIES, FOLLOW, AccessPath, Found, is_large, one_further, search
from agrad.program.program import same, spec_of_value
from agrad.program.recording import grad_of

#: The types of plain values, which are compared by type and value.
PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})


def is_plain(value: Any) -> bool:
    """Return whether a value is plain: a number, a text, bytes, None, or a short tuple or frozenset of these."""
    kind = type(value)
    return kind in PLAIN or (kind in (tuple, frozenset) and len(value) < ENTRIES and all(map(is_plain, value)))


class Link(NamedTuple):
    """A place that a capture read, such as one step on the path from the function to a value that it uses.

    Attributes
    ----------
    get : callable
        The getter: returns the current value at the place.
    key : object
        The argument of the getter.
    value : object
        The value that the capture read.
    name : str
        The path to the place as Python spells it, or a description.
    """

    get: Callable[[Any], Any]
    key: Any
    value: Any
    name: str

    @property
    def place(self) -> Any:
        """The key that distinguishes links to different places."""
        holder = getattr(self.get, "__self__", None)
        if isinstance(holder, types.MappingProxyType):  # the `__dict__` of a class: a new object at every access
            holder = self.value
        return id(holder), self.key if type(self.key) is int else id(self.key), self.name


class HasKey:
    """The getter that tells whether a dict has a key, ignoring a `__contains__` written in Python.

    Parameters
    ----------
    table : dict
        The dict.
    """

    __slots__ = ("table",)

    def __init__(self, table: Any) -> None:
        self.table: Any = table

    def __call__(self, key: Any) -> bool:
        return dict.__contains__(self.table, key)


#: By getter, an attribute of the key: while it is the value of the link, the getter need not run.
FIRST_COMPARED: dict[Callable[[Any], Any], str] = {}


def result_of(get: Callable[[], Any]) -> Any:
    """Return the result of a function without arguments: the getter of a link whose key is the function."""
    return get()


def link_of(holder: Any, step: tuple[str, Any], value: Any, name: str) -> Link:
    """Return the link for one step of a path."""
    kind, key = step
    if kind == "cell":
        return Link(operator.attrgetter("cell_contents"), holder.__closure__[key[0]], value, name)
    if kind == "global":
        return Link(holder.__globals__.__getitem__, key, value, name)
    if kind == "item":
        return Link(holder.__getitem__, key, value, name)
    if kind == "content":
        return Link(operator.attrgetter("cell_contents"), holder, value, name)
    if kind == "called":
        return Link(result_of, holder, value, name)
    if kind == "member":
        owner = next(each for each in holder.__mro__ if key in vars(each))
        return Link(vars(owner).__getitem__, key, value, name)
    own = getattr(holder, "__dict__", None)
    if kind == "attribute" and isinstance(own, dict) and key in own:
        return Link(own.__getitem__, key, value, name)
    if kind == "attribute":
        return Link(operator.attrgetter(key), holder, value, name)
    return Link(lambda key: FOLLOW[kind](holder, key), key, value, name)


def links_along(origin: AccessPath) -> list[Link]:
    """Return the links of a path."""
    holder, name, links = origin.root, "", []
    for step in origin.way:
        value, name = FOLLOW[step[0]](holder, step[1]), one_further(name, step)
        links.append(link_of(holder, step, value, name))
        holder = value
    return links


def at_place(place: int | Link, leaves: Sequence[Any]) -> Any:
    """Return the current value at a place: a position among the leaves of the arguments, or a link."""
    return leaves[place] if isinstance(place, int) else place.get(place.key)


def is_array(value: Any) -> bool:
    """Return whether a value is a tensor or an array of a library, and not a number of a library."""
    if isinstance(value, Tensor):
        return True
    backend = library_of(value)
    try:
        return backend is not None and backend.as_array(value) is value
    except TypeError:  # it holds more than numbers, such as a mask, and cannot be an operand
        return False


def library_of(value: Any) -> Backend | None:
    """Return the backend of an array, even of a class that no call has met before; None for any other object."""
    kind = type(value)
    # `hasattr` would run the code of a metaclass, such as an enumeration's
    return BACKENDS.get(kind) or (owner_of(value) if "__array_namespace__" in kind.__dict__ else None)


# -- settings of optimisers and schedules -------------------------------------------------------------------------------


def is_no_setting(value: Any) -> bool:
    """Return whether a value holds no settings: data, tensors, and code, which does not change."""
    if isinstance(value, float | int):  # not a plain one: a number that the program computes
        return True
    return is_large(value) or isinstance(value, Tensor | types.FunctionType | types.ModuleType | type)


def settings_of(owners: Sequence[Any]) -> dict[Any, Found]:
    """Return the plain values that optimisers and schedules hold, by their places; names that begin with _ are not settings."""
    return {
        (id(found.before.value), found.step): found
        for found in search(owners, is_plain, skip=is_no_setting)
        if found.before is not None and not str(found.step[1]).startswith("_")
    }


def changed_between(before: dict[Any, Found], after: dict[Any, Found]) -> dict[Any, Found]:
    """Return the settings that differ before and after, or exist at only one of the times."""
    return {
        key: after.get(key) or before[key]
        for key in before.keys() | after.keys()
        if key not in before or key not in after or not same(before[key].value, after[key].value)
    }


# -- tensors ------------------------------------------------------------------------------------------------------------


def has_grad(tensor: Tensor) -> bool:
    """Return whether a tensor has a gradient."""
    return grad_of(tensor) is not None


def hooks_at(tensor: Tensor) -> tuple[Any, ...] | None:
    """Return the hooks on a tensor: () if there are none, None if the tensor requires no gradient."""
    if tensor._node is None:
        return None
    hooks = tensor._node.hooks
    if hooks is None:
        return ()
    kinds = hooks.tensor, hooks.pre, hooks.post, hooks.accumulated
    return (*(tuple(kind.values()) for kind in kinds), hooks.grad_dtype)


def key_of(spec: Spec) -> Any:
    """Return the key that distinguishes specs: lazy backends make a new object for each array."""
    return (spec.backend, spec.shape, spec.dtype, spec.device, spec.layout) if spec.backend.is_lazy else spec


class OutsideArray(NamedTuple):
    """An outer tensor or array, as a program knows it.

    Attributes
    ----------
    number : int
        The number of the input; -1 if the program does not read its value.
    link : Link
        The last link on the path to it.
    spec : Spec
        Its spec.
    hooks : tuple or None
        The result of `hooks_at` for it; None for an array.
    """

    number: int
    link: Link
    spec: Spec
    hooks: tuple[Any, ...] | None

    @classmethod
    def of(cls, number: int, link: Link, value: Any) -> OutsideArray:
        """Return the one that describes a value."""
        if not isinstance(value, Tensor):
            return cls(number, link, spec_of_value(value), None)
        return cls(number, link, value._spec, hooks_at(value))


class SameFacts:
    """The getter that tells whether the object at a place is unchanged, except for its values.

    Parameters
    ----------
    get : callable
        The getter of the object.
    facts : object
        The result of `facts_of` for the object in the capture.
    """

    __slots__ = ("_facts", "_get")

    def __init__(self, get: Callable[[Any], Any], facts: Any) -> None:
        self._get, self._facts = get, facts

    def __call__(self, key: Any) -> bool:
        return bool(facts_of(self._get(key)) == self._facts)

    def differs(self, writer: GuardWriter, key: Any) -> str:
        """Return the text of the opposite condition, which checks the properties of usual tensors inline."""
        slow = f"not {writer.name_of(self)}({writer.name_of(key)})"
        if type(self._facts) is not tuple:
            return slow
        spec, kind, is_leaf, has_no_node, has, grad_dtype = self._facts
        if (
            kind is not Tensor
            or type(spec) is not Spec
            or not is_leaf
            or grad_dtype is not None
            or (has_no_node and has)
        ):
            return slow
        there = writer.at(Link(self._get, key, None, ""))
        others = [f"(now := {there})._spec is not {writer.name_of(spec)}", f"type(now) is not {writer.name_of(Tensor)}"]
        if has_no_node:
            others += [f"now.{name} is not None" for name in ("_node", "_leaf", "_retained")]
        else:
            others.append(f"type(now._node) is not {writer.name_of(AccumulateGrad)} or now._node.hooks is not None")
            others.append(f"now._node.grad is {'None' if has else 'not None'}")
        return f"({' or '.join(others)}) and {slow}"


def facts_of(value: Any) -> Any:
    """Return the properties of a tensor or an array that Python can query, without its values; for other objects, the class."""
    if not isinstance(value, Tensor):
        return spec_of_value(value) if is_array(value) else type(value)
    node = value._node
    grad_dtype = None if node is None or node.hooks is None else node.hooks.grad_dtype
    return key_of(value._spec), type(value), value.is_leaf, node is None, has_grad(value), grad_dtype


# -- text ---------------------------------------------------------------------------------------------------------------

#: The names that the text uses, besides those of values.
NAMES: dict[str, Any] = {
    "CHANGED": (LookupError, AttributeError, TypeError, ValueError, errors.BackendError),
    "differs": lambda now, value: not same(now, value),
    "hooks_at": hooks_at,
    "key_of": key_of,
    "spec_of_value": spec_of_value,
}

#: Up to this many arrays are compared in pairs, which is faster than a set of their ids.
MAX_PAIRWISE = 4

FILE = "<agrad guards>"
errors.INTERNAL_FILES.add(FILE)


def is_name(text: str) -> bool:
    """Return whether a text can be the name of an attribute in Python code."""
    return text.isidentifier() and not keyword.iskeyword(text)


class GuardWriter:
    """Writes the function that checks guards.

    The function takes the leaves of a call's arguments, and returns the inputs of a program, or the name of the first
    thing that has changed.

    Parameters
    ----------
    count : int
        The number of leaves.
    """

    def __init__(self, count: int = 0) -> None:
        self._count = count
        self._raws: dict[int, None] = {}  # the positions of the leaves whose arrays are needed, in order
        self._lines: list[str] = []
        self._names: dict[str, Any] = dict(NAMES)
        self._known: dict[int, str] = {}  # the names of objects, by id
        self._variables: dict[Any, str] = {}  # the names of variables that hold the value of a link, by its place

    def name_of(self, value: Any) -> str:
        """Return the name of an object in the text."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"o{len(self._known)}"
            self._names[name] = value
        return name

    def leaf(self, at: int) -> str:
        """Return the name of the leaf at a position in the text."""
        return f"leaf{at}"

    def raw(self, at: int) -> str:
        """Return the name in the text of the array of a leaf that is a tensor."""
        self._raws[at] = None
        return f"raw{at}"

    def refuse(self, condition: str, name: str) -> None:
        """Add a condition under which the program does not hold; `name` names the thing that has changed then."""
        self._lines.append(f"if {condition}: return {name!r}")

    def at(self, link: Link) -> str:
        """Return the expression for the current value of a link."""
        if link.place in self._variables:
            return self._variables[link.place]
        get, key = link.get, link.key
        holder = getattr(get, "__self__", None)
        if get is len:
            return f"len({self.name_of(key)})"
        if type(get) is operator.attrgetter and len(names := get.__reduce__()[1]) == 1 and is_name(names[0]):
            return f"{self.name_of(key)}.{names[0]}"
        if type(holder) in (dict, list, tuple, types.MappingProxyType):
            return f"{self.name_of(holder)}[{self.key(key)}]"
        if type(get) is HasKey and type(get.table) is dict:
            return f"({self.key(key)} in {self.name_of(get.table)})"
        return f"{self.name_of(get)}({self.name_of(key)})"

    def key(self, key: Any) -> str:
        """Return the expression for a key of a table."""
        return repr(key) if type(key) in (int, str) else self.name_of(key)

    def guard(self, link: Link) -> None:
        """Add the guard that the value of a link is unchanged."""
        if hasattr(type(link.get), "differs"):
            self.refuse(link.get.differs(self, link.key), link.name)  # type: ignore[attr-defined]
            return
        if link.get is has_grad and type(link.key._node) is AccumulateGrad:
            self.refuse(f"{self.name_of(link.key)}._node.grad is {'None' if link.value else 'not None'}", link.name)
            return
        there = self.at(link)
        if link.get is len:
            self.refuse(f"{there} != {link.value}", link.name)
            return
        if type(link.get) is HasKey and type(link.value) is bool:
            self.refuse(f"not {there}" if link.value else there, link.name)
            return
        value = self.name_of(link.value)
        if type(link.get) is types.FunctionType and link.get in FIRST_COMPARED:
            there = f"{self.name_of(link.key)}.{FIRST_COMPARED[link.get]} is not {value} and {there}"
        kind = type(link.value)
        # Equal values of these types are the same; NaN, zeros and containers need `differs`
        if kind in (int, str, bytes) or (kind is float and link.value and math.isfinite(link.value)):
            other = f"(type(now) is not {self.name_of(kind)} or now != {value})"
            self.refuse(f"(now := {there}) is not {value} and {other}", link.name)
        elif is_plain(link.value) and kind not in (bool, type(None)):
            self.refuse(f"(now := {there}) is not {value} and differs(now, {value})", link.name)
        else:
            self.refuse(f"{there} is not {value}", link.name)
            if isinstance(link.value, Tensor):  # the lines below know it
                self._variables.setdefault(link.place, value)

    def tensor(self, outside: OutsideArray) -> str:
        """Add the guards on an outer tensor or array; return the expression for its array."""
        name = outside.link.name
        found = self._variables.get(outside.link.place)
        if found is None:
            found = f"x{len(self._variables)}"
            self._lines.append(f"{found} = {self.at(outside.link)}")
            self._variables[outside.link.place] = found
        if not isinstance(outside.link.value, Tensor):
            self._refuse_other(f"spec_of_value({found})", outside.spec, name)
            return found
        self._refuse_other(f"{found}._spec", outside.spec, name)
        self.hooks(found, outside.hooks, name)
        return f"{found}._raw"

    def number(self, there: str, value: float, name: str) -> None:
        """Add the guard that a float is unchanged."""
        is_literal = value and math.isfinite(value)
        self.refuse(f"{there} != {value!r}" if is_literal else f"differs({there}, {self.name_of(value)})", name)

    def refuse_shared(self, arrays: Sequence[str], *, written: bool) -> None:
        """Add the guard that no two of these expressions are one array; `written`: the program writes to one of them.

        Tensors that are known to be those of the capture are as distinct as they were then, and what they share matters
        only to a write.
        """
        name = "which tensors share one array"
        if not written and {f"{known}._raw" for known in self._known.values()}.issuperset(arrays):
            return
        if len(arrays) > MAX_PAIRWISE:
            self._lines.append(f"arrays = [*map(id, ({', '.join(arrays)}))]")
            last = self.name_of([[]])  # the ids at the last call, which are distinct, whatever they identify now
            self.refuse(f"arrays != {last}[0] and len(set(arrays)) < {len(arrays)}", name)
            self._lines.append(f"{last}[0] = arrays")
        elif shared := " or ".join(f"{first} is {second}" for first, second in itertools.combinations(arrays, 2)):
            self.refuse(shared, name)

    def _refuse_other(self, there: str, spec: Spec, name: str) -> None:
        if spec.backend.is_lazy:
            self.refuse(f"key_of({there}) != {self.name_of(key_of(spec))}", name)
        else:
            self.refuse(f"{there} is not {self.name_of(spec)}", name)

    def hooks(self, found: str, hooks: tuple[Any, ...] | None, name: str) -> None:
        """Add the guards on whether a tensor has a node, and on its hooks."""
        self.refuse(f"(now := {found}._node) is {'not None' if hooks is None else 'None'}", name)
        if hooks == ():
            self.refuse("now.hooks is not None", f"the hooks on {name}")
        elif hooks is not None:
            self.refuse(f"hooks_at({found}) != {self.name_of(hooks)}", f"the hooks on {name}")

    def function(self, values: Sequence[str]) -> Callable[[Sequence[Any]], list[Any] | str]:
        """Return the function; `values` are the expressions for the inputs."""
        lines = ["def guards(leaves):"]
        if self._count:
            lines.append(f"    {', '.join(map(self.leaf, range(self._count)))}, = leaves")
        lines += [*(f"    {self.raw(at)} = {self.leaf(at)}._raw" for at in self._raws), "    try:"]
        lines += [f"        {line}" for line in (*self._lines, f"return [{', '.join(values)}]")]
        lines += ["    except CHANGED:", "        return 'a value from outside of the arguments'", ""]
        exec(compile("\n".join(lines), FILE, "exec"), self._names)  # noqa: S102 (made of names of our own)
        return self._names["guards"]  # type: ignore[no-any-return]
