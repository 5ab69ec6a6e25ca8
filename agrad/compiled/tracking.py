"""The status of each object that instrumented code meets, the conditions for a program, and the changes that prevent one.

An object is *found* (it comes from outside: its state is a condition), an *argument* (the key of the call describes it),
or *fresh* (the call itself has created it). The origin of any other object is unknown, and a call that meets one has no
program.
"""

from __future__ import annotations

import enum
import functools
import operator
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from agrad.compiled.guards import (
    FIRST_COMPARED,
    PLAIN,
    GuardWriter,
    HasKey,
    Link,
    is_array,
    is_plain,
    library_of,
    link_of,
)
from agrad.compiled.instrumentation import CURRENT
from agrad.compiled.rewriting import instrumented, is_instrumented, plain_code
from agrad.compiled.tracing import Tracer
from agrad.core import errors
from agrad.core.backend import BACKENDS, Backend
from agrad.core.cpython import unprofiled, version_of
from agrad.core.tensor import Tensor
from agrad.plugin.manager import plugins
from agrad.program.closures import FUNCTIONAL_STATE, Found, is_library, members, one_further
from agrad.program.program import same
from agrad.program.recording import CaptureError, bases_of

#: Containers whose entries conditions compare one by one, or as a whole.
CONTAINERS: Final = (list, dict, tuple, set, frozenset, deque)

#: Containers that can be changed.
MUTABLE: Final = (list, dict, set, deque, bytearray)

#: The largest number of entries of a container, and of bytes of an array, that conditions compare.
MAX_ENTRIES, MAX_BYTES = 10_000, 1 << 20

#: Stands for a value that does not exist.
MISSING: Final = object()

#: The class of the members that read an object's slots.
SLOT: Final = types.MemberDescriptorType

#: The statuses of objects: see `Tracked`.
FOUND, ARGUMENT, FRESH, EARLIER = "found", "argument", "fresh", "earlier"


class Tracked:
    """The status of an object.

    Attributes
    ----------
    value : object
        The object, which is kept alive; of a generator, a weak reference.
    status : str
        "found", "argument" or "fresh"; "earlier" for a fresh object from before a loop, while the body of the loop is
        captured.
    at : Found or None
        The first path to it, if it was found.
    """

    __slots__ = ("at", "status", "value")

    def __init__(self, value: Any, status: str, at: Found | None = None) -> None:
        self.value: Any = value
        self.status: str = status
        self.at: Found | None = at


# -- the owners of code -------------------------------------------------------------------------------------------------

_NN = errors.PACKAGE + "nn" + errors.PACKAGE[-1]
_FUNCTIONAL = _NN + "functional" + errors.PACKAGE[-1]
_WHOSE: dict[str, Any] = {}
_PLACES: dict[str, tuple[str, ...]] = {"agrad": (), "arrays": (), "kernels": ()}


def whose(file: str) -> str:
    """Return the owner of a file's code: "user", "library", "modules" (`agrad.nn`), "agrad" or "arrays" (an array library)."""
    found: str | None = _WHOSE.get(file)
    if found is None:
        if file.startswith(_NN) and not file.startswith(_FUNCTIONAL):
            found = "modules"
        elif file.startswith((errors.PACKAGE, "<agrad", *_PLACES["agrad"])):
            found = "agrad"
        elif file.startswith(_PLACES["arrays"]):
            found = "arrays"
        else:
            found = "library" if is_library(file) else "user"
        _WHOSE[file] = found
    return found


def whose_module(module: Any) -> str:
    """Return the owner of a module: "user" or another of `whose`."""
    file = vars(module).get("__file__")
    if type(file) is str:
        return whose(file)
    name = str(vars(module).get("__name__")).partition(".")[0]
    return "library" if name in sys.stdlib_module_names else "user"


def refresh() -> None:
    """Find the files of backends and of array libraries, if some were added since the last call."""
    registered = plugins().get_plugins()
    count = len(BACKENDS), len(registered)
    if count == _WHOSE.get(""):
        return
    own = [type(each) for each in (*BACKENDS.values(), *registered)]
    own += [each for each in registered if isinstance(each, type)]
    arrays = [kind for kind in BACKENDS if not any(base in BACKENDS for base in kind.__mro__[1:])]
    places, libraries = {*map(_place_of, own)}, {*map(_place_of, arrays)}
    of_user = {place for place in places | libraries if not is_library(place)}
    places = places - of_user | {*map(_package_of, ("agrad_numpy", "agrad_dask", "agrad_cupy"))}
    libraries = libraries - of_user | {*map(_package_of, ("numpy", "dask", "cupy"))}
    _WHOSE.clear()
    for name, found in (("agrad", places), ("arrays", libraries), ("kernels", of_user)):
        _PLACES[name] = tuple(filter(None, found))
    _WHOSE[""] = count


def may_be_kernel(file: str) -> bool:
    """Return whether a user's file may contain kernels: a backend or its arrays are defined in it or in its package.

    A function in it counts as agrad's own if agrad calls it, and as the user's if a function of the user's calls it.
    """
    return file.startswith(_PLACES["kernels"])


def _place_of(kind: type) -> str:
    """Return where a class is defined: the folder of its package, or its file; "" if nobody can tell."""
    found = _package_of(kind.__module__)
    methods = (each for each in vars(kind).values() if type(each) is types.FunctionType)
    return found or next((each.__code__.co_filename for each in methods if kind.__module__ != "__main__"), "")


def _package_of(name: str) -> str:
    """Return the folder of the package that a module belongs to, or the file of a single module; "" for agrad, and without a file."""
    root = sys.modules.get(name.partition(".")[0])
    file = None if root is None else vars(root).get("__file__")
    if type(file) is not str or file.startswith(errors.PACKAGE) or name == "__main__":
        return ""
    return file.removesuffix("__init__.py") if file.endswith("__init__.py") else file


def whose_class(kind: type) -> str:
    """Return the owner of a class: "python" for one written in C, or one of `whose`."""
    module = kind.__module__
    if module == "__main__":
        return "user"
    if module == "builtins" or not kind.__flags__ & HEAP:
        name = str(module).partition(".")[0]
        return "arrays" if name == "numpy" or kind in BACKENDS else "python"
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not file.endswith(".py"):
        own = next((f for f in vars(kind).values() if type(f) is types.FunctionType), None)
        return "python" if own is None else whose(own.__code__.co_filename)
    return whose(file)


#: The flag of classes created at run time: by a class statement, by `type`, or by some extensions.
HEAP: Final = 1 << 9


# -- code that is instrumented during a capture -------------------------------------------------------------------------


class Swaps:
    """The functions that currently run instrumented code, each with its own code and the number of captures that need it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._swapped: dict[int, list[Any]] = {}

    def put(self, function: types.FunctionType) -> bool:
        """Let a function run instrumented code until `take`; return whether its code can be instrumented."""
        with self._lock:
            entry = self._swapped.get(id(function))
            if entry is not None:
                entry[2] += 1
                return True
            code = function.__code__
            made = instrumented(code)
            if made is None:
                return False
            self._swapped[id(function)] = [function, code, 1]
            function.__code__ = made
            return True

    def take(self, function: types.FunctionType) -> None:
        """Restore a function's own code, unless another capture needs the instrumented one."""
        with self._lock:
            entry = self._swapped[id(function)]
            entry[2] -= 1
            if not entry[2]:
                del self._swapped[id(function)]
                if is_instrumented(function.__code__):  # otherwise somebody else has replaced it
                    function.__code__ = entry[1]

    def code_of(self, function: types.FunctionType) -> types.CodeType:
        """Return the function's own code."""
        entry = self._swapped.get(id(function))
        return function.__code__ if entry is None else entry[1]


SWAPS = Swaps()


def own_code(function: Any) -> types.CodeType:
    """Return the code that a function has outside of captures, which conditions compare."""
    return SWAPS.code_of(function)


FIRST_COMPARED[own_code] = "__code__"


def counter_of(container: Any) -> Callable[[Any], int]:
    """Return the function that counts the entries of a container, ignoring a `__len__` written in Python."""
    if type(member_of(type(container), "__len__")) is not types.FunctionType:
        return len
    return next(kind for kind in CONTAINERS if isinstance(container, kind)).__len__


# -- conditions on several values at once -------------------------------------------------------------------------------


class SameEntries:
    """Whether a container has the same entries as before: the same objects, or equal plain values, in the same order.

    Another tensor counts as the same: the program looks tensors up.
    """

    __slots__ = ("count", "keys", "size", "values")

    def __init__(self, container: Any) -> None:
        self.count: Any = counter_of(container)
        self.keys: list[Any] | None = list(container) if isinstance(container, dict) else None
        self.values: list[Any] = list(container.values()) if isinstance(container, dict) else list(container)
        self.size: int = len(self.values)

    def __call__(self, container: Any) -> bool:
        if self.count(container) != self.size:
            return False
        values: Any = container
        if self.keys is not None:
            if not all(map(operator.is_, container, self.keys)) and not all(map(_alike, container, self.keys)):
                return False
            values = container.values()
        return all(map(operator.is_, values, self.values)) or all(map(_alike, values, self.values))


def _alike(now: Any, before: Any) -> bool:
    return (
        now is before
        or (type(before) in PLAIN and same(now, before))
        or (_is_looked_up(before) and type(now) is type(before))
    )


def _is_looked_up(value: Any) -> bool:
    """Return whether a program looks a value up, and compares its spec, so that the value itself is no condition."""
    return isinstance(value, Tensor)


class SameMembers:
    """Whether a set has the same members as before, in the same order of iteration."""

    __slots__ = ("members",)

    def __init__(self, container: Any) -> None:
        self.members: list[Any] = list(container)

    def __call__(self, container: Any) -> bool:
        return len(container) == len(self.members) and all(
            now is before or (type(before) in PLAIN and same(now, before))
            for now, before in zip(container, self.members, strict=True)
        )


class SameClassMembers:
    """Whether a class has the same members as before.

    Attributes
    ----------
    known : int
        The version of the class at the last check that held; -1 if it is unknown. No version recurs.
    """

    __slots__ = ("_kind", "_version", "all", "known", "members")

    def __init__(self, kind: type) -> None:
        self._kind, self._version = kind, version_of(kind)
        self.known: int = -1
        self.all: tuple[tuple[str, ...], tuple[Any, ...]] = tuple(vars(kind)), tuple(vars(kind).values())
        self.members: dict[str, Any] = {k: v for k, v in vars(kind).items() if k not in IGNORED}

    def differs(self, writer: GuardWriter, key: Any) -> str:
        """Return the text of the opposite condition."""
        this = writer.name_of(self)
        slow = f"not {this}({writer.name_of(key)})"
        return slow if self._version is None else f"{writer.name_of(self._version)}.value != {this}.known and {slow}"

    def __call__(self, members: Any) -> bool:
        version = 0 if self._version is None else self._version.value
        if not self._holds(members):
            return False
        self.known = version or -1
        return True

    def _holds(self, members: Any) -> bool:
        names, values = self.all
        has_names = len(members) == len(names) and all(map(operator.is_, members, names))
        if has_names and all(map(operator.is_, members.values(), values)):
            return True
        before = self.members
        for name, value in members.items():
            if value is not before.get(name, MISSING) and name not in IGNORED:
                earlier = before.get(name, MISSING)
                if not (type(earlier) in PLAIN and same(value, earlier)) and not (
                    _is_looked_up(earlier) and type(value) is type(earlier)
                ):
                    return False
        return bool(before.keys() <= members.keys())


#: The entries that Python and agrad store in classes for their own use.
IGNORED: Final = frozenset(
    {
        "__abstractmethods__",
        "_abc_impl",
        "__weakref__",
        "__dict__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotations_cache__",
        "__slotnames__",
        "_node_class",
    }
)


def owner_of(array: Any) -> Any:
    """Return the object whose memory an array views: the array itself, or the last of its bases."""
    return next(reversed([array, *bases_of(array)]))


def holder_of(array: Any) -> Backend | None:
    """Return the backend of an array whose current value a program can hold; None for lazy arrays, and for arrays of objects."""
    backend = BACKENDS.get(type(array))
    can_hold = backend is not None and not backend.is_lazy and not backend.dtype_name(array.dtype).startswith("object")
    return backend if can_hold else None


def has_value(array: Any, value: Any) -> bool:
    """Return whether an array has the elements of an earlier copy of it; NaN is equal to NaN."""
    if hasattr(array, "tobytes"):
        return bool(bytes_of(array) == bytes_of(value))
    return array.shape == value.shape and bool(((array == value) | (array != array)).all())  # noqa: PLR0124 (NaN)


def may_view(made: Any, array: Any) -> bool:
    """Return whether an object created by agrad's code may view the memory of an array."""
    kind = type(made)
    if kind in PLAIN:
        return False
    if isinstance(made, Tensor):
        if not hasattr(made._raw, "base"):
            return True  # its library does not say
        owner = owner_of(made._raw)
        return owner is owner_of(array) or not is_array(owner)
    if is_array(made):
        return False  # the tracker knows it as the call's own array, and not as a value of the program
    if isinstance(made, list | tuple):
        return any(may_view(part, array) for part in made)
    if isinstance(made, dict):
        return any(may_view(part, array) for part in made.values())
    return True


def bytes_of(array: Any) -> Any:
    """Return the dtype, the shape and the bytes of an array."""
    return array.dtype, array.shape, array.tobytes()


def is_array_or_scalar(value: Any) -> bool:
    """Return whether a value is a tensor, an array, or a library's number other than Python's."""
    return isinstance(value, Tensor) or (not isinstance(value, float | complex) and library_of(value) is not None)


def equals(get: Callable[[Any], Any], value: Any) -> Callable[[Any], bool]:
    """Return the condition that the result of a function equals a value."""
    return lambda key: bool(get(key) == value)


# -- the tracker --------------------------------------------------------------------------------------------------------


class Knowledge:
    """The knowledge of one capture: the objects that it has met, and the conditions for a program.

    Attributes
    ----------
    tracer : Tracer
        The recorder, which is notified if there is no program.
    known : dict of int to Tracked
        The objects that were met, by ``id``.
    order : list of Found
        The values that were found, in the order in which they were read; one object may occur with several paths.
    links : dict
        The conditions, by place.
    native : str
        The kind of code without instrumentation that calls the current code and may use its result: "agrad", "c", or ""
        for none.
    native_depth : int
        The number of open calls of such code.
    raised : Exception or None
        The first error of an operation, which may depend on values: a function that handles it has no program.
    arguments : dict of int to Tensor
        The tensors among the leaves of the arguments, by ``id``.
    facts_used : dict of int to Found
        The outer tensors and arrays whose properties were read, by ``id``.
    identity_used : dict of int to Found
        The outer tensors and arrays whose identity was compared, by ``id``.
    optimizer_state : set of int
        The ``id`` of the paths to tensors in the state of an optimiser.
    filled_tables : list of (dict, str)
        The tables that an optimiser may fill in its first step, each with the name of the condition on its length.
    distinct : list of (object, Found)
        Arguments, each with an outer tensor that it was compared with and differs from.
    deferred : dict of int to code
        The code of methods that are instrumented only on demand, by ``id``.
    driven : dict of int to frame
        The frames of the generators that instrumented code iterates over, by ``id``.
    created_generators : list of weak references
        The generators that the call has created.
    tagged : dict of int to Tensor
        The tensors on which the call has set an attribute, by ``id``.
    shared : list of (array, array)
        The call's own arrays whose memory a tensor may share, each with a copy of its elements.
    parts : dict of int to (array, array)
        The parts of outer arrays that are steps, by ``id``, each with the array that it is a part of.
    views : dict of int to (object, sequence)
        Iterators and views, by ``id``, each with the objects that it reads.
    runs_kernels : bool
        Whether kernels of the user's may run unobserved as steps, which replays run as well.
    """

    runs_kernels = True

    def __init__(self, tracer: Tracer) -> None:
        refresh()
        self.tracer = tracer
        self.known: dict[int, Tracked] = {}
        self.order: list[Found] = []
        self.links: dict[Any, Link] = {}
        self.native = ""
        self.native_depth: int = 0
        self.raised: BaseException | None = None
        self.arguments: dict[int, Any] = {}
        self.facts_used: dict[int, Found] = {}
        self.identity_used: dict[int, Found] = {}
        self.optimizer_state: set[int] = set()
        self.filled_tables: list[tuple[Any, str]] = []
        self.distinct: list[tuple[Any, Found]] = []
        self.deferred: dict[int, types.CodeType] = {}
        self.driven: dict[int, Any] = {}
        self.created_generators: list[Any] = []
        self.tagged: dict[int, Any] = {}
        self.shared: list[tuple[Any, Any]] = []
        self.parts: dict[int, tuple[Any, Any]] = {}
        self.views: dict[int, tuple[Any, Sequence[Any]]] = {}
        self._seen: set[Any] = set()  # the places that `see` has recorded
        self._ensured: dict[int, Any] = {}  # the values whose code is instrumented, by id
        self._varying: dict[int, bool] = {}  # whether the result of a step varies, by its number
        self._examined_steps = 0  # the number of steps for which that is known
        self._searched: dict[int, Any] = {}  # agrad's own objects whose functions were inspected, by id
        self._swapped: list[types.FunctionType] = []  # the functions whose code `restore` restores
        self._made_functions: list[types.FunctionType] = []  # the functions that the call has created
        self._classes: set[type] = set()  # the classes whose special methods are instrumented
        #: By the ``id`` of a changed object: the object and its earlier content.
        self._contents_before: dict[int, tuple[Any, Any]] = {}
        self._owners: dict[int, Any] = {}  # by the id of a changed table of attributes: its object
        self._rebound: dict[
            tuple[int, Any], tuple[Any, str, Any]
        ] = {}  # globals that are bound anew, with the earlier value
        self._cells: dict[int, types.CellType] = {}  # the closure cells of found functions, by id
        #: By the ``id`` of an array that agrad's code has received: the array, and the copy that is a constant of the program.
        self._passed_arrays: dict[int, tuple[Any, Any]] = {}
        self._kept_alive: list[Any] = []  # objects whose ids are in use
        self._names: dict[int, str] = {}  # the text of a path, by the id of its `Found`
        self._whole: dict[int, Any] = {}  # the objects whose whole content is recorded, by id
        self._read: dict[int, Any] = {}  # the arrays whose values Python has read, by id

    def varies(self, number: int) -> bool:
        """Return whether a value of the program depends on an input, and not only on constants."""
        tracer, varying = self.tracer, self._varying
        for step in tracer.steps[self._examined_steps :]:
            for made in step.made:
                varying[made] = any(varying.get(ref, ref not in tracer.constants) for ref in step.refs)
        self._examined_steps = len(tracer.steps)
        return varying.get(number, number not in tracer.constants)

    # -- declining ----------------------------------------------------------------------------------------------------

    def decline(self, why: str) -> None:
        """Record why there will be no program; stop tracking."""
        if self.tracer.failure is None:
            self.tracer.decline(CaptureError(f"capture: {why}{errors.called()}"))
        if CURRENT.tracker is self:  # release the objects that the function releases
            CURRENT.tracker = None
            for table in (self.known, self.driven, self.views, self.tagged, self._whole, self._read):
                table.clear()
            self._ensured = {key: value for key, value in self._ensured.items() if type(value) is types.FunctionType}

    def name(self, found: Found | None, step: tuple[str, Any] | None = None) -> str:
        """Return the path to an object as Python spells it, one `step` further if there is one."""
        if found is None or found.before is None:
            text = ""
        else:
            text = self._names.get(id(found), "")
            if not text:
                text = self._names[id(found)] = self.name(found.before, found.step)
        return text if step is None else one_further(text, step)

    def called(self, value: Any) -> str:
        """Return the name of an object in messages."""
        tracked = self.known.get(id(value))
        text = self.name(tracked.at) if tracked is not None else ""
        return text or f"a {type(value).__name__}"

    # -- the statuses of objects --------------------------------------------------------------------------------------

    def fresh(self, value: Any) -> Any:
        """Treat an object as created by the call, unless it is known."""
        kind = type(value)
        if id(value) not in self.known and kind not in PLAIN:
            if (
                kind is types.GeneratorType
            ):  # a reference would delay its finalizer, which runs when the function releases it
                reference = weakref.ref(value, functools.partial(_forget, self.known, id(value)))
                self.known[id(value)] = Tracked(reference, FRESH)
                self.created_generators.append(reference)
                return value
            if type(getattr(kind, "__del__", None)) is types.FunctionType:
                self.decline(f"a {kind.__name__} is created, which has a __del__")
                return value
            self.known[id(value)] = Tracked(value, FRESH)
            if kind is types.FunctionType:
                self._made_functions.append(value)
        return value

    def fresh_all(self, value: Any, depth: int = 0) -> Any:
        """Treat an object, and the unknown objects in it, as created by the call."""
        kind = type(value)
        if kind in PLAIN or isinstance(value, Tensor) or id(value) in self.known:
            return value
        self.fresh(value)
        if isinstance(value, CONTAINERS) and depth < 8 and len(value) < MAX_ENTRIES:
            for inside in list(value.values()) if isinstance(value, dict) else list(value):
                self.fresh_all(inside, depth + 1)
        return value

    def root(self, value: Any) -> Found:
        """Return the path to an object that cannot be replaced: the first one found, or a new one that begins at it."""
        tracked = self.known.get(id(value))
        if tracked is None or tracked.at is None:
            at = Found(value)
            if tracked is None or tracked.status == FRESH:
                self.known[id(value)] = Tracked(value, FOUND, at)
                self.order.append(at)
                if type(value) is types.MethodType:
                    self.see(value.__self__, at, ("attribute", "__self__"), guard=False)
            return at
        return tracked.at

    def at(self, value: Any) -> Tracked:
        """Return the status of an object; if it is unknown, there is no program."""
        tracked = self.known.get(id(value))
        if tracked is None:
            tracked = self._recognised(value)
            if tracked is None:
                self.decline(f"the origin of a {type(value).__name__} is unknown")
                tracked = Tracked(value, FRESH)
            self.known[id(value)] = tracked
        return tracked

    def _recognised(self, value: Any) -> Tracked | None:
        """Return the status of an object that has not been met, if its class or its parts show it; otherwise None."""
        kind = type(value)
        if kind in PLAIN or isinstance(value, Tensor):
            return Tracked(value, FRESH)
        if kind is types.MethodType:
            inner = self.at(value.__self__)
            return Tracked(value, inner.status, None)
        if kind is types.BuiltinFunctionType or kind is types.MethodWrapperType:
            owner = value.__self__
            if owner is None or isinstance(owner, types.ModuleType | type):
                return Tracked(value, FRESH)
            return Tracked(value, self.at(owner).status) if type(owner) not in PLAIN else Tracked(value, FRESH)
        if isinstance(value, tuple | frozenset):
            return Tracked(value, FRESH) if all(self.is_known(inside) for inside in value) else None
        if kind in CONSTANT:
            return Tracked(value, FRESH)
        # A method of a class that is ensured, or library code
        if kind is types.FunctionType and (id(value) in self._ensured or whose(value.__code__.co_filename) != "user"):
            return Tracked(value, FOUND, Found(value))
        if isinstance(value, type | types.ModuleType | enum.Enum) or reports_own_settings(value):
            return Tracked(value, FOUND, Found(value))
        if whose_class(kind) == "agrad" or type(value).__module__.startswith("numpy.dtypes"):
            return Tracked(value, FRESH)
        return None

    def is_known(self, value: Any) -> bool:
        """Return whether the origin of an object is known."""
        return (
            type(value) in PLAIN
            or id(value) in self.known
            or isinstance(value, Tensor)
            or self._recognised(value) is not None
        )

    def is_outside(self, value: Any) -> bool:
        """Return whether an object comes from outside of the call: found, or an argument."""
        return type(value) not in PLAIN and self.at(value).status != FRESH

    def is_found(self, value: Any) -> bool:
        """Return whether the status of an object is found."""
        return type(value) not in PLAIN and self.at(value).status == FOUND

    # -- conditions ---------------------------------------------------------------------------------------------------

    def add(self, link: Link, place: Any = None) -> None:
        """Add a condition."""
        place = link.place if place is None else place
        if place not in self.links:
            self.links[place] = link
            self._kept_alive.append(link)

    def require(self, get: Callable[[Any], Any], key: Any, value: Any, name: str, place: Any) -> None:
        """Add the condition that a function of an object returns a value."""
        if place not in self.links:
            self.links[place] = Link(get, key, value, name)

    def missing(self, table: Any, key: Any, name: str) -> None:
        """Add the condition that a table lacks a key, unless the call has changed the table."""
        if id(table) not in self._contents_before:
            self._kept_alive.append(table)
            self.require(HasKey(table), key, False, name, ("absent", id(table), key))

    def see(self, value: Any, before: Found, step: tuple[str, Any], *, guard: bool = True) -> Any:
        """Record a value that was read from outside, and return it; with `guard`, the step to it is a condition."""
        holder = before.value
        if (self._contents_before or self._rebound) and self._is_new(holder, step, value):
            return value
        if guard and step[0] == "item" and ("whole", id(holder)) in self.links:
            guard = False  # the whole content of the container is a condition
        if is_plain(value):
            if self._is_advanced(holder):
                self._decline_advanced(self.name(before, step))
            elif guard:
                self._guard(holder, step, value, before)
            if type(value) not in PLAIN:
                self.fresh(value)
            return value
        place = id(holder), step[0], key_in(step)
        if place in self._seen:
            return value
        self._seen.add(place)
        found = Found(value, before, step)
        self.order.append(found)
        tracked = self.known.get(id(value))
        if tracked is None:
            self.known[id(value)] = Tracked(value, FOUND, found)
        elif tracked.status == FRESH:
            tracked.status, tracked.at = FOUND, found
        elif tracked.status == ARGUMENT and isinstance(value, MUTABLE):
            self.decline(
                f"{self.name(found)} is an argument, too: a program cannot tell whether a later call passes another object"
            )
        if guard and not isinstance(value, Tensor) and not is_array(value):
            self._guard(holder, step, value, before)
        self.ensure(value)
        if isinstance(value, Tensor):
            self.see_hooks(value, found)
        elif type(value) is types.MethodType or (type(value) is types.BuiltinFunctionType and not _is_function(value)):
            self.see(value.__self__, found, ("attribute", "__self__"), guard=False)
        return value

    def _is_advanced(self, holder: Any) -> bool:
        """Return whether a step of an optimiser or a schedule, which replays repeat, may have changed plain values in an object."""
        changed = self.tracer.held_by_python
        if not changed:
            return False
        held = holder if isinstance(holder, dict) else instance_dict(holder)
        return any(one is held for one in changed)

    def _decline_advanced(self, name: str) -> None:
        """Decline a read whose value no condition can hold: conditions are checked before the program changes anything."""
        self.decline(
            f"{name} is read after a step of an optimiser or a schedule, which may have changed it: read it before, or"
            " read rates by get_last_lr() of the schedule"
        )

    def _guard(self, holder: Any, step: tuple[str, Any], value: Any, before: Found) -> None:
        """Add the condition that a step leads to the same value; a member of a class is looked up in the class that defines it."""
        owner = holder
        if step[0] == "member":
            owner = next((each for each in holder.__mro__ if step[1] in vars(each)), holder)
        place = id(owner), step[0], key_in(step)
        if place not in self.links:
            self.add(link_of(holder, step, value, self.name(before, step)), place)

    def see_hooks(self, tensor: Tensor, at: Found) -> None:
        """Record the hooks on a tensor, which a backward pass runs; the check of the tensor itself compares them."""
        self.tracer.remember_history(tensor)
        hooks = None if tensor._node is None else tensor._node.hooks
        for table in () if hooks is None else ("tensor", "pre", "post", "accumulated"):
            for key, hook in list(getattr(hooks, table).items()):
                self.see(hook, at, ("hook", (table, key)), guard=False)

    def _is_new(self, holder: Any, step: tuple[str, Any], value: Any) -> bool:
        """Return whether the call itself has put a value at its place."""
        kind, key = step
        if type(key) is str and key == "__dict__":
            return False
        stored = self._rebound.get((id(holder), key)) if kind == "item" and type(key) is str else None
        if stored is not None:
            return stored[2] is not value
        changed = self._contents_before.get(id(holder))
        if kind == "attribute" and changed is None:
            held = instance_dict(holder)
            changed = self._contents_before.get(id(held)) if held is not None else None
        if changed is None:
            return False
        before = changed[1]
        if isinstance(before, dict):
            return before.get(key, MISSING) is not value
        if isinstance(before, list):
            return not (type(key) is int and -len(before) <= key < len(before) and before[key] is value)
        return before is not value

    # -- changes ------------------------------------------------------------------------------------------------------

    def changing(self, value: Any, what: str = "") -> None:
        """Save the content of an outer object before its first change; `what` names the object in a message."""
        if type(value) in PLAIN or id(value) in self._contents_before or isinstance(value, Tensor):
            return
        tracked = self.at(value)
        if tracked.status == FRESH:
            if self._passed_arrays and is_array(value):
                self.writing(value)
            return
        if isinstance(value, dict | list | deque | set) and not hasattr(value, "__dict__"):
            if tracked.status == FOUND and len(value) <= MAX_ENTRIES:
                self.whole(value)
            self._contents_before[id(value)] = (
                value,
                (dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else list(value)),
            )
            return
        if isinstance(value, type | types.ModuleType):
            self._contents_before[id(value)] = value, dict(vars(value))
            return
        held = instance_dict(value)
        if held is not None and not isinstance(value, (types.FunctionType, *CONTAINERS)):
            slots = slots_of(value)
            self._contents_before.setdefault(id(held), (held, dict(held)))
            self._owners[id(held)] = value
            if slots:
                self._contents_before[id(value)] = _Slots(value), slots
            return
        slots = slots_of(value)
        if slots is not None and is_python_class(type(value)):
            self._contents_before[id(value)] = _Slots(value), slots
            return
        self.decline(f"{what or self.called(value)} is changed")

    def writing(self, array: Any) -> None:
        """Decline a write to an outer array, or to one whose memory a tensor may share."""
        if self.at(array).status != FRESH:
            self.decline(f"{self.called(array)}, an array from outside, is written to")
            return
        owner = owner_of(array)
        if any(owner_of(held) is owner for held, _ in self.shared):
            self.decline(f"{self.called(array)}, whose memory a tensor may share, is written to")
        for held, _ in [*self._passed_arrays.values()]:
            if owner_of(held) is owner:  # the array gets another value
                self.tracer.forget(held)
                del self._passed_arrays[id(held)]

    def changing_cell(self, cell: types.CellType, value: Any) -> None:
        """Save the content of an outer cell before it is changed."""
        self._contents_before.setdefault(id(cell), (cell, value))

    def check_unchanged(self) -> None:
        """Decline if, at the end, an outer object or an array that agrad's code has received has another value than before."""
        for array, value in self._passed_arrays.values():
            if not has_value(array, value):
                self.decline(f"{self.called(array)}, whose memory a tensor may share, is written to")
        for names, name, before in self._rebound.values():
            now = names.get(name, MISSING)
            if not self._is_unchanged(now, before):
                self._decline_change(names, name, before, now)
        for held, before in self._contents_before.values():
            value = held.value if isinstance(held, _Slots) else held
            if isinstance(value, types.CellType):
                now = contents_of(value)
                if not self._is_unchanged(now, before):
                    self._decline_change(value, None, before, now)
                continue
            if isinstance(held, _Slots):
                after: Any = slots_of(value)
            elif isinstance(value, type | types.ModuleType):
                after = dict(vars(value))
            else:
                after = value
            if isinstance(before, set):
                if len(after) != len(before) or {id(x) for x in after} != {id(x) for x in before}:
                    self.decline(f"{self.called(value)} is changed: a program would not change it")
                continue
            if isinstance(before, dict):
                for key in [*before, *(key for key in after if key not in before)]:
                    was, now = before.get(key, MISSING), after.get(key, MISSING)
                    if not self._is_unchanged(now, was):
                        self._decline_change(value, key, was, now)
                if (
                    isinstance(after, dict)
                    and list(after) != list(before)
                    and not isinstance(value, type | types.ModuleType)
                ):
                    self._decline_change(value, None, before, after)
            elif len(after) != len(before) or not all(map(self._is_unchanged, after, before)):
                self._decline_change(value, None, before, after)

    def _is_unchanged(self, now: Any, before: Any) -> bool:
        """Return whether a place has its earlier value: the same object, or an equal plain value that the program does not compute."""
        return now is before or (type(before) in PLAIN and same(now, before) and id(now) not in self.tracer.numbers)

    def _decline_change(self, holder: Any, key: Any, was: Any, now: Any) -> None:
        owner = self._owners.get(id(holder))
        if was is MISSING and owner is not None and self._is_unchanged(now, member_of(type(owner), key)):
            why = f"capture: {key} of a {type(owner).__name__} is set for the first time{errors.called()}"
            self.tracer.decline(CaptureError(why), later=True)
            return
        tracked = self.known.get(id(holder)) or self.known.get(id(owner))
        text = self.name(tracked.at) if tracked is not None and tracked.at is not None else ""
        name = (
            one_further(
                text.removesuffix(".__dict__"),
                ("attribute" if isinstance(key, str) and not isinstance(holder, list) else "item", key),
            )
            if key is not None
            else text or f"a {type(holder).__name__}"
        )
        details = ""
        if is_plain(was) and is_plain(now):
            details = f", {was!r} before and {now!r} after the call"
        elif now is MISSING or was is MISSING:
            details = f", which does not exist {'before' if was is MISSING else 'after'} the call"
        self.decline(f"{name} is changed{details}: a program would not change it")

    # -- code that may run --------------------------------------------------------------------------------------------

    def ensure(self, value: Any) -> None:
        """Let the code that may run through a value be instrumented: a function's, or the methods of an object's class."""
        kind = type(value)
        if kind in PLAIN or kind in CONTAINERS or kind is Tensor or id(value) in self._ensured:
            return
        if kind is types.GeneratorType:  # `_ensured` would keep it alive
            return
        self._ensured[id(value)] = value
        if kind is types.FunctionType:
            self._ensure_function(value)
        elif kind is types.MethodType:
            self.ensure(value.__func__)
            owner = value.__self__
            self.ensure(owner)
            if self._is_searched(owner):
                tracked = self.known.get(id(owner))
                self._ensure_searched(owner, None if tracked is None else tracked.at)
        elif kind in (staticmethod, classmethod):
            self.ensure(value.__func__)
        elif kind is property:
            for part in (value.fget, value.fset, value.fdel):
                if part is not None:
                    self.ensure(part)
        elif kind is functools.partial:
            self.ensure(value.func)
        elif isinstance(value, type):
            self.ensure_class(value)
        elif not isinstance(value, types.ModuleType) and kind not in CONSTANT:
            wrapped = member_of(kind, "_transparent")
            if wrapped is not MISSING:
                self.ensure(getattr(value, wrapped))
            self.ensure_class(kind)
            tracked = self.known.get(id(value))
            if (
                tracked is not None
                and tracked.status == FOUND
                and is_python_class(kind)
                and not isinstance(value, enum.Enum)
            ):
                self.require(type, value, kind, f"the class of {self.name(tracked.at)}", ("class", id(value)))

    def _ensure_function(self, function: types.FunctionType) -> None:
        code = own_code(function)
        kind = whose(code.co_filename)
        if kind in ("agrad", "arrays"):
            self._ensure_closure(function)
            return
        if not is_instrumented(function.__code__) or SWAPS.code_of(function) is not function.__code__:
            if not self._put(function):
                if kind == "user" and (function.__defaults__ or function.__kwdefaults__):  # of a generated method
                    self._same_defaults(function)
                    self._same_named_defaults(function, Found(function), guard=True)
                return
            self._swapped.append(function)
        tracked = self.known.get(id(function))
        at = tracked.at if tracked is not None and tracked.at is not None else Found(function)
        if tracked is not None and tracked.status in (FRESH, EARLIER):
            return
        for cell in function.__closure__ or ():
            self._cells[id(cell)] = cell
        if kind == "user":
            name = function.__name__
            self.require(own_code, function, code, f"the code of {name}", ("code", id(function)))
        defaults = function.__defaults__
        if defaults:
            if kind == "user":
                self._same_defaults(function)
            inner = Found(defaults, at, ("attribute", "__defaults__"))
            for i, value in enumerate(defaults):
                self.see(value, inner, ("item", i), guard=False)
        self._same_named_defaults(function, at, guard=kind == "user")

    def _same_named_defaults(self, function: types.FunctionType, at: Found, *, guard: bool) -> None:
        """Record the defaults of parameters that are passed by name, as conditions with `guard`."""
        named = function.__kwdefaults__
        if guard:
            self.require(
                operator.attrgetter("__kwdefaults__"),
                function,
                named,
                f"the defaults of {function.__name__}",
                ("kwdefaults", id(function)),
            )
        if named:
            inner = Found(named, at, ("attribute", "__kwdefaults__"))
            for key, value in named.items():
                self.see(value, inner, ("item", key), guard=guard)

    def _same_defaults(self, function: types.FunctionType) -> None:
        self.require(
            operator.attrgetter("__defaults__"),
            function,
            function.__defaults__,
            f"the defaults of {function.__name__}",
            ("defaults", id(function)),
        )

    def _put(self, function: types.FunctionType) -> bool:
        """Let a function run instrumented code; the instrumenting itself is not observed, and calls no profile function."""
        before, CURRENT.tracker = CURRENT.tracker, None
        self.native_depth += 1
        try:
            with unprofiled():
                return SWAPS.put(function)
        finally:
            self.native_depth -= 1
            CURRENT.tracker = before

    def _ensure_closure(self, function: types.FunctionType) -> None:
        """Record the closure of a function of agrad: the functions and tensors that the user has passed to a transform."""
        tracked = self.known.get(id(function))
        is_new = tracked is not None and tracked.status == FRESH
        for i, cell in enumerate(function.__closure__ or ()):
            value, step = contents_of(cell), ("cell", (i, function.__code__.co_freevars[i]))
            kind = type(value)
            if kind in PLAIN or value is MISSING or isinstance(value, type | types.ModuleType):
                continue
            if self._is_searched(value):
                self._ensure_searched(value, None if is_new else Found(value, Found(function), step))
                continue
            if not is_new:
                self.see(value, self.root(function), step)
            elif not self.is_known(value):
                self.fresh_all(value)
            self.read_by_agrad(value)

    def _is_searched(self, value: Any) -> bool:
        """Return whether a value is an object of agrad's own that is to be searched for functions."""
        kind = type(value)
        if (
            kind in PLAIN
            or kind in CONTAINERS
            or kind is types.FunctionType
            or isinstance(value, Tensor | Backend | type)
        ):
            return False
        return (
            whose_class(kind) == "agrad"
            and member_of(kind, "_transparent") is MISSING
            and not reports_own_settings(value)
        )

    def _ensure_searched(self, value: Any, at: Found | None) -> None:
        """Record the functions that an object of agrad's own holds; `at` is the path to it, None if the call has created it."""
        if id(value) in self._searched:
            return
        self._searched[id(value)] = value
        for each, inside in members(value):
            kind = type(inside)
            if kind in (types.FunctionType, types.MethodType) or member_of(kind, "_transparent") is not MISSING:
                if at is not None:
                    self.see(inside, at, each, guard=False)
                elif not self.is_known(inside):
                    self.fresh_all(inside)
                self.read_by_agrad(inside)
            elif self._is_searched(inside):
                self._ensure_searched(inside, None if at is None else Found(inside, at, each))

    def read_by_agrad(self, value: Any) -> None:
        """Record everything that agrad's own code may read of a value: see `ReadingHooks`."""

    def ensure_class(self, kind: type) -> None:
        """Let the special methods of a class be instrumented, and make its members a condition, if it is not Python's."""
        if kind in self._classes:
            return
        self._classes.add(kind)
        own = False
        for each in kind.__mro__:
            if each.__module__ == "builtins":
                continue
            owner = whose_class(each)
            if owner in ("python", "arrays", "agrad"):
                continue
            if self.at(each).status != FRESH:
                own = True
                self.require_members(each)
            for name, member in list(vars(each).items()):
                if name in DEFERRED and type(member) is types.FunctionType and not issubclass(each, CREATED_BY_PYTHON):
                    self._defer(member)
                elif name[:2] == "__":
                    self.ensure(member)
            if (
                type(vars(each).get("__getattribute__")) is types.FunctionType
                or type(vars(each).get("__class__")) is property
            ):
                self.decline(f"a {kind.__name__} has a __getattribute__ or a __class__ of its own")
        if own:
            self.require(
                operator.attrgetter("__mro__"), kind, kind.__mro__, f"the bases of {kind.__name__}", ("mro", kind)
            )
        if type(kind) is not type:
            self.ensure_class(type(kind))

    def require_members(self, kind: type) -> None:
        """Make the members of a class a condition."""
        self.require(SameClassMembers(kind), vars(kind), True, f"the members of {kind.__name__}", ("class", kind))

    def _defer(self, function: types.FunctionType) -> None:
        """Leave a method without instrumentation until `ensure` reaches it: if it runs before, there is no program."""
        if id(function) not in self._ensured:
            if whose(function.__code__.co_filename) == "agrad":
                # All constructors share the code that explains their keywords
                function = getattr(function, "__wrapped__", function)
            code = own_code(function)
            self.deferred[id(code)] = code

    def ensure_special(self, kind: type, *names: str) -> None:
        """Let deferred special methods of a class be instrumented, including those that they override."""
        for each in kind.__mro__ if self.deferred else ():
            for name in names:
                member = vars(each).get(name)
                if type(member) is types.FunctionType and whose_class(each) not in ("python", "arrays", "agrad"):
                    self.ensure(member)

    def ensure_methods(self, kind: type) -> None:
        """Let all methods of a class be instrumented: code that is not instrumented may call any of them."""
        self.ensure_class(kind)
        for each in kind.__mro__:
            if whose_class(each) in ("user", "library", "modules"):
                for member in list(vars(each).values()):
                    if isinstance(member, types.FunctionType | property | staticmethod | classmethod):
                        self.ensure(member)

    def restore(self) -> None:
        """Restore the own code of all functions, including those that the call created; release the objects that it met."""
        for function in self._swapped:
            SWAPS.take(function)
        self._swapped.clear()
        for function in self._made_functions:
            plain = plain_code(function.__code__)
            if plain is not None:
                function.__code__ = plain
        self._made_functions.clear()
        self.known = {key: each for key, each in self.known.items() if each.status != FRESH}
        self._contents_before.clear()
        self._rebound.clear()
        self._owners.clear()
        self._ensured.clear()
        self._searched.clear()
        self._whole.clear()
        self._read.clear()
        self.views.clear()
        self.shared.clear()
        self._passed_arrays.clear()
        self.parts.clear()
        self.driven.clear()
        self.arguments.clear()

    # -- containers and arrays as a whole -----------------------------------------------------------------------------

    def whole(self, value: Any) -> None:
        """Make the whole content of a found container a condition."""
        tracked = self.at(value)
        if id(value) in self._contents_before:
            self._guard_earlier(value, tracked)
            return
        if tracked.status == FOUND and self._is_advanced(value):
            self._decline_advanced(self.name(tracked.at))
            return
        if id(value) in self._whole:
            return
        self._whole[id(value)] = value
        if tracked.status != FOUND or tracked.at is None:
            return
        if len(value) > MAX_ENTRIES:
            self.decline(f"{self.called(value)}, a container of {len(value)} entries, is read as a whole")
            return
        at, name = tracked.at, self.name(tracked.at)
        if isinstance(value, set | frozenset):
            self.require(SameMembers(value), value, True, f"the content of {name}", ("whole", id(value)))
            for inside in value:
                if type(inside) not in PLAIN and not self.is_known(inside):
                    self.root(inside)
                    self.ensure(inside)
            return
        if not isinstance(value, tuple) and id(value) not in _functional_tables():  # a tuple cannot change
            self.require(SameEntries(value), value, True, f"the content of {name}", ("whole", id(value)))
        if isinstance(value, dict):
            for key in value:
                if type(key) not in PLAIN and not self.is_known(key):
                    self.root(key)
                    self.ensure(key)
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            if not is_plain(inside):
                self.see(inside, at, ("item", key), guard=False)

    def _guard_earlier(self, value: Any, tracked: Tracked) -> None:
        """Make the earlier keys of a changed container a condition, and record the entries that remain."""
        before = self._contents_before[id(value)][1]
        if tracked.at is None or isinstance(value, set):
            return
        if isinstance(value, dict) and id(value) not in self._whole:
            keys = list(before)
            self.require(
                equals(list, keys), value, True, f"the content of {self.name(tracked.at)}", ("keys", id(value))
            )
        for key, inside in list(value.items()) if isinstance(value, dict) else enumerate(list(value)):
            if not is_plain(inside):
                self.see(inside, tracked.at, ("item", key), guard=id(value) not in self._whole)

    def array(self, value: Any) -> None:
        """Make the values of an outer array a condition, because Python reads them."""
        tracked = self.at(value)
        if tracked.status == FRESH or id(value) in self._read:
            return
        self._read[id(value)] = value
        if id(value) in self.parts:
            self.array(self.parts[id(value)][1])
            return
        if tracked.at is not None and tracked.at.before is None and isinstance(value, int | float | complex):
            return  # a NumPy number that is itself an argument: the key of the call has its value
        if tracked.status == ARGUMENT or tracked.at is None or tracked.at.before is None:
            self.decline(f"{self.called(value)}, an array among the arguments, is read by Python")
            return
        if not hasattr(value, "tobytes") or value.dtype.hasobject or value.nbytes > MAX_BYTES:
            self.decline(
                f"{self.called(value)}, an array of {getattr(value, 'nbytes', 'many')} bytes, is read by Python"
            )
            return
        self._itself(value, tracked.at)
        name = f"the values of {self.name(tracked.at)}"
        self.require(equals(bytes_of, bytes_of(value)), value, True, name, ("bytes", id(value)))

    def _itself(self, value: Any, found: Found) -> None:
        """Make it a condition that the same array or tensor is at the place where it was found."""
        assert found.before is not None
        holder, step = found.before.value, found.step
        self.add(link_of(holder, step, value, self.name(found)), (id(holder), step[0], key_in(step), "itself"))


def _forget(known: dict[int, Tracked], key: int, reference: Any) -> None:
    """Forget the generator of a weak reference once it no longer exists."""
    if key in known and known[key].value is reference:
        del known[key]


class _Slots:
    """Stands for an object whose slots are changed."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _is_function(value: Any) -> bool:
    """Return whether a C function is no bound method of an object."""
    return value.__self__ is None or isinstance(value.__self__, types.ModuleType | type)


def member_of(kind: type, name: str) -> Any:
    """Return the member of a class, or of one of its bases, with a name; `MISSING` if there is none."""
    for each in kind.__mro__:
        held = vars(each)
        if name in held:
            return held[name]
    return MISSING


def reports_own_settings(value: Any) -> bool:
    """Return whether an object itself reports to the recorder when its settings are read or changed."""
    return member_of(type(value), "_tells_settings") is True


def instance_dict(o: Any) -> dict[str, Any] | None:
    """Return the `__dict__` of an object, without calling its own code; None if it has none."""
    try:
        held = object.__getattribute__(o, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict else None


def slots_of(value: Any) -> dict[str, Any] | None:
    """Return the content of the slots of an object, by name; None if its class has none."""
    found: dict[str, Any] | None = None
    for kind in type(value).__mro__:
        for name, member in vars(kind).items():
            if type(member) is SLOT and kind.__flags__ & HEAP:
                found = {} if found is None else found
                try:
                    found.setdefault(name, member.__get__(value))
                except AttributeError:
                    continue
    return found


def contents_of(cell: types.CellType) -> Any:
    """Return the content of a cell; `MISSING` if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def key_in(step: tuple[str, Any]) -> Any:
    """Return the key of a step, in a form that distinguishes keys of other types and other objects."""
    key = step[1]
    return (type(key), key) if type(key) in PLAIN or (type(key) is tuple and is_plain(key)) else id(key)


def is_python_class(kind: type) -> bool:
    """Return whether a class is written in Python."""
    return bool(kind.__flags__ & HEAP) and whose_class(kind) in ("user", "library", "modules")


def _functional_tables() -> set[int]:
    """Return the ids of the tables in which modules hold the tensors of a running `functional_call`."""
    return {id(table) for state in list(FUNCTIONAL_STATE.values()) for table, _ in state.places.values()}


#: Special methods that hooks reach before they run: those that initialise objects, set attributes, and create texts.
DEFERRED: Final = frozenset({"__init__", "__setattr__", "__delattr__", "__repr__", "__str__", "__dir__"})

#: The special methods that create texts, and those that set attributes.
TEXTS: Final = ("__repr__", "__str__", "__dir__")
SETTERS: Final = ("__setattr__", "__delattr__")

#: The classes whose instances Python's own statements create, so that no hook precedes their special methods.
CREATED_BY_PYTHON: Final = (type, BaseException)

#: Classes whose instances are constant.
CONSTANT: Final = frozenset(
    {
        *(range, slice, type(...), type(NotImplemented), types.GetSetDescriptorType, types.MemberDescriptorType),
        *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
    }
)

__all__ = ["ARGUMENT", "FOUND", "FRESH", "Knowledge", "Tracked"]
