"""The fast lookup of cached programs: generated code computes a key from a call's arguments.

Calls of one *form* have the same classes, containers and keys in the same places. `ProgramLookup` maps forms, and then
signatures (specs, plain values, modes), to the programs that the general lookup has found for such a call. Calls that
no form describes (lazy and batched arrays, objects, arrays that their backend would convert) use the general lookup.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from threading import get_ident
from types import NoneType
from typing import Any, Final

from agrad import dtypes
from agrad.compiled.cached import CachedProgram
from agrad.core import errors
from agrad.core.backend import BACKENDS
from agrad.core.mode import Mode, batch_levels, get_mode
from agrad.core.node import AccumulateGrad
from agrad.core.tensor import Tensor
from agrad.plugin import manager
from agrad.program.arguments import is_raw
from agrad.tree import TreeDef

#: The number of forms that are stored for calls with as many arguments and the same keywords, and of signatures of each
#: form.
FORMS, SIGNATURES = 8, 64

#: The largest number of arguments, including those in containers, for which a form is written.
LARGEST = 1000

#: Plain values that are part of a signature directly: equal ones of one class are the same.
BY_VALUE = frozenset({bool, int, str, bytes})

get_levels: Final = batch_levels.get  # looked up once

FILE = "<agrad forms of calls>"
errors.INTERNAL_FILES.add(FILE)


def following(node: Any) -> bool | None:
    """Return the gradient state of a tensor with a node: None if it requires none, otherwise whether it is a leaf."""
    return None if node is None else type(node) is AccumulateGrad


class ProgramLookup:
    """The forms of the calls of one function.

    Parameters
    ----------
    floats : bool
        Whether floats that are arguments themselves are inputs; otherwise programs belong to one value.
    """

    def __init__(self, *, floats: bool) -> None:
        self._floats = floats
        #: By the number of arguments, and the names of keywords if there are any.
        self._forms: dict[Any, list[CallForm]] = {}

    def clear(self) -> None:
        """Forget all."""
        self._forms.clear()

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the stored data about a call; () if there are none.

        Returns
        -------
        tuple
            The programs that the general lookup would consider, whose guards must still be checked; the leaves of the
            arguments and their structure; whether all arguments are raw.
        """
        now = get_mode()
        if (now is None or now.simple_in == get_ident()) and not get_levels():
            for form in self._forms.get((len(args), *kwargs) if kwargs else len(args), ()):
                found = form.find(args, kwargs, now)
                if found is not None:
                    return found
        return ()

    def learn(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: Sequence[Any],
        treedef: TreeDef,
        programs: list[CachedProgram],
    ) -> None:
        """Store the programs among which the general lookup has found one for a call."""
        now = get_mode()
        if (now is not None and now.simple_in != get_ident()) or batch_levels.get():
            return
        arrays = [leaf._raw if isinstance(leaf, Tensor) else leaf for leaf in leaves if type(leaf) not in BY_VALUE]
        if len(set(map(id, arrays))) < len(arrays):  # their programs do not check for repeated arrays
            return
        forms = self._forms.setdefault((len(args), *kwargs) if kwargs else len(args), [])
        for form in forms:
            if form.learn(args, kwargs, now, programs):
                return
        if len(forms) < FORMS and (made := CallForm.of(args, kwargs, leaves, treedef, floats=self._floats)) is not None:
            made.learn(args, kwargs, now, programs)
            forms.append(made)


class CallForm:
    """The common form of calls that only differ in specs and values.

    Attributes
    ----------
    find : callable
        Of positional arguments, those by keyword and the mode: the result of `ProgramLookup.find`, None for a call of another
        form.
    """

    find: Callable[[tuple[Any, ...], dict[str, Any], Mode | None], tuple[Any, ...] | None]

    def __init__(self, text: LookupWriter, treedef: TreeDef, raw: bool) -> None:
        self._known: dict[tuple[Any, ...], list[CachedProgram]] = {}
        self._last: list[Any] = [((), ())]  # comparing a signature is faster than hashing it
        text.names |= {"last": self._last, "other": functools.partial(_other, self._known, self._last)}
        text.names |= {"structure": treedef, "raw": raw}
        self.find, self._signature = text.functions()

    @classmethod
    def of(
        cls, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any], treedef: TreeDef, *, floats: bool
    ) -> CallForm | None:
        """Return the form of a call; None if it uses the general lookup."""
        text = LookupWriter(floats=floats)
        if len(leaves) > LARGEST or not text.add_call(args, kwargs, treedef):
            return None
        return cls(text, treedef, is_raw(leaves))

    def learn(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], now: Mode | None, programs: list[CachedProgram]
    ) -> bool:
        """Store the programs of a call; return whether it has this form."""
        signature = self._signature(args, kwargs, now)
        if signature is None:
            return False
        if len(self._known) >= SIGNATURES:
            self._known.clear()
        self._known[signature] = programs
        self._last[0] = signature, programs
        return True


def _other(
    known: dict[Any, list[CachedProgram]], last: list[Any], signature: tuple[Any, ...]
) -> Sequence[CachedProgram]:
    """Return the programs for a signature that is not the last call's."""
    programs = known.get(signature, ())
    last[0] = signature, programs
    return programs


class LookupWriter:
    """The text of a form: reads each argument once.

    Attributes
    ----------
    names : dict
        The names that the text uses.
    """

    def __init__(self, *, floats: bool) -> None:
        self._floats = floats
        self.names: dict[str, Any] = {"dtypes": dtypes, "manager": manager, "chosen": manager._chosen.get}
        self.names["following"] = following
        self._known: dict[int, str] = {}
        self._lines: list[str] = []
        self._leaves: list[str] = []
        modes = "now is None or now.grad", "now is not None and now.inference"
        self._parts = ["dtypes._default.name", "chosen()", "manager._default", *modes]
        self._containers: list[str] = []
        self._count = 0

    def add_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], treedef: TreeDef) -> bool:
        """Add the arguments of a call; return whether a form can describe each."""
        positional, named = treedef.children
        described = self._unpacked("args", tuple, args, positional, top=True)
        described = described and self._unpacked("kwargs", dict, kwargs, named, top=True)
        if len(self._containers) > 1:  # a repeated one is recognised as such
            ids = ", ".join(f"id({name})" for name in self._containers)
            self._refuse(f"len({{{ids}}}) < {len(self._containers)}")
        return described

    def _refuse(self, condition: str) -> None:
        self._lines.append(f"if {condition}: return None")

    def _called(self, value: Any) -> str:
        """Return the name of an object in the text."""
        name = self._known.setdefault(id(value), f"o{len(self._known)}")
        self.names[name] = value
        return name

    def _unpacked(self, name: str, kind: type, value: Any, structure: TreeDef, *, top: bool) -> bool:
        """Add the entries of a container."""
        inside = [f"v{self._count + i}" for i in range(len(value))]
        self._count += len(inside)
        if inside:
            self._lines.append(f"{', '.join(inside)}, = {name}{'.values()' if kind is dict else ''}")
        if kind is dict:
            named = dict(zip(value, inside, strict=True))
            places = [(named[key], value[key]) for key in structure.keys]
        else:
            places = list(zip(inside, value, strict=True))
        pairs = zip(places, structure.children, strict=True)
        return all(self._add(place, each, child, top=top) for (place, each), child in pairs)

    def _add(self, name: str, value: Any, structure: TreeDef, *, top: bool) -> bool:
        """Add an argument, or an entry of a container."""
        kind = type(value)
        if structure.kind is NoneType:
            self._refuse(f"{name} is not None")
            return True
        self._refuse(f"type({name}) is not {self._called(kind)}")
        if structure.kind is None:
            self._leaves.append(name)
            return self._add_leaf(name, value, top=top)
        if kind is dict and all(type(key) is str for key in value):
            self._refuse(f"(*{name},) != {self._called(tuple(value))}")
        elif kind in (list, tuple):
            self._refuse(f"len({name}) != {len(value)}")
        else:
            return False
        if value or kind is not tuple:
            self._containers.append(name)
        return self._unpacked(name, kind, value, structure, top=False)

    def _add_leaf(self, name: str, value: Any, *, top: bool) -> bool:
        kind = type(value)
        if isinstance(value, Tensor):
            self._parts += (f"{name}._spec", f"following({name}._node)")
            return not value._spec.backend.is_lazy
        if kind in BY_VALUE:
            self._parts.append(name)
            return True
        if kind is float:
            if not (top and self._floats):
                self._parts.append(f"repr({name})")
            return True
        backend = BACKENDS.get(kind)
        if backend is None or backend.is_lazy or backend.as_array(value) is not value:
            return False
        told = [f"{name}.{part}" for part in backend._spec_parts]
        self._parts += told or [f"{self._called(backend)}.spec({name})"]
        return True

    def functions(self) -> Iterator[Callable[..., Any]]:
        """Return the function that finds the programs of a call, and the one that returns its signature."""
        signature = f"({', '.join(self._parts)})"
        found = f"programs if known == signature else other(signature), [{', '.join(self._leaves)}], structure, raw"
        finding = [*self._lines, f"signature = {signature}", "known, programs = last[0]", f"return {found}"]
        for name, inside in (("find", finding), ("sign", [*self._lines, f"return {signature}"])):
            lines = [f"def {name}(args, kwargs, now):", *(f"    {line}" for line in inside), ""]
            exec(compile("\n".join(lines), FILE, "exec"), self.names)  # noqa: S102 (made of names of our own)
            yield self.names.pop(name)  # which would contain itself
