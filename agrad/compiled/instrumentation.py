"""The functions that instrumented code calls: they notify the tracker of this thread's capture, or do Python's own action without one.

Nothing here calls Python code of the standard library, which may itself be instrumented while a capture runs.
"""

import __future__

import operator
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agrad.core.cpython import getframe
from agrad.core.tensor import Tensor


def own_files(*names: str) -> frozenset[str]:
    """Return the paths of files beside this one."""
    return frozenset(f"{__file__.removesuffix('instrumentation.py')}{name}.py" for name in names)


#: The files of the hooks and the trackers, whose frames are between a function and its callees.
FILES = own_files("calling", "capturing", "instrumentation", "purity", "reading", "rewriting", "effects", "tracking")

FUTURE = 0
for _name in __future__.all_feature_names:
    FUTURE |= getattr(__future__, _name).compiler_flag


class CurrentCapture(threading.local):
    """The state of this thread."""

    tracker: Any = None


CURRENT = CurrentCapture()

#: Python's operators by the hooks' names for them.
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("and_", "or_", "xor", "lshift", "rshift"),
    )
}
INPLACE: dict[str, Callable[[Any, Any], Any]] = {name: getattr(operator, f"i{name.rstrip('_')}") for name in BINARY}
UNARY: dict[str, Callable[[Any], Any]] = {name: getattr(operator, name) for name in ("neg", "pos", "invert")}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "is_", "is_not")},
    "in": lambda l, r: l in r,
    "not_in": lambda l, r: l not in r,
}

#: Which elements of a target are themselves unpacked into several names, and the position of the starred one, or -1.
Pattern = tuple[tuple[Any, ...], int]


class InstrumentationHooks:
    """The functions that instrumented code calls; `HOOKS` is among its constants.

    Each returns its value, unless stated otherwise. The tracker decides about errors: it is notified, and the error
    propagates.
    """

    __slots__ = ()

    slice = slice

    # -- names --------------------------------------------------------------------------------------------------------

    def load_global(self, name: str, value: Any) -> Any:
        tracker = CURRENT.tracker
        return value if tracker is None else tracker.load_global(getframe(1), name, value)

    def load_free(self, name: str, value: Any, reader: Any) -> Any:
        tracker = CURRENT.tracker
        return value if tracker is None else tracker.load_free(name, value, reader.__closure__[0])

    def load_name(self, name: str, value: Any, reader: Any = None) -> Any:
        """Load a name in the body of a class, from there if it is defined there."""
        tracker = CURRENT.tracker
        if tracker is None or name in getframe(1).f_locals:
            return value
        if reader is None:
            return tracker.load_global(getframe(1), name, value)
        return tracker.load_free(name, value, reader.__closure__[0])

    def before_store(self, name: str, kind: str, reader: Any) -> None:
        """Announce that a name, "global" or "nonlocal", is about to be bound or deleted."""
        tracker = CURRENT.tracker
        if tracker is not None:
            tracker.before_store(getframe(1), name, None if reader is None else reader.__closure__[0])

    # -- attributes and entries ---------------------------------------------------------------------------------------

    def attribute(self, o: Any, name: str) -> Any:
        """Return an attribute."""
        tracker = CURRENT.tracker
        if tracker is None:
            return getattr(o, name)
        try:
            return tracker.attribute(o, name)
        except Exception as e:
            tracker.failed(e)
            raise

    def history(self, o: Any) -> Any:
        """Return ``o.grad_fn`` if only its being None is used."""
        tracker = CURRENT.tracker
        if tracker is None:
            return o.grad_fn
        try:
            return tracker.attribute(o, "grad_fn", whole=False)
        except Exception as e:
            tracker.failed(e)
            raise

    def item(self, o: Any, key: Any) -> Any:
        """Return an entry."""
        tracker = CURRENT.tracker
        if tracker is None:
            return o[key]
        try:
            return tracker.item(o, key)
        except Exception as e:
            tracker.failed(e)
            raise

    def writing_attribute(self, o: Any, name: str) -> Any:
        tracker = CURRENT.tracker
        return o if tracker is None else tracker.writing_attribute(o, name)

    def deleting_attribute(self, o: Any, name: str) -> Any:
        tracker = CURRENT.tracker
        return o if tracker is None else tracker.deleting_attribute(o, name)

    def writing_item(self, o: Any) -> Any:
        tracker = CURRENT.tracker
        return o if tracker is None else tracker.writing_item(o)

    def hashed(self, key: Any) -> Any:
        """Announce a key by which an entry is about to be set or deleted, or a member of a set."""
        tracker = CURRENT.tracker
        if tracker is not None:
            tracker.hashed(key)
        return key

    def hashed_each(self, values: Iterable[Any]) -> Iterable[Any]:
        """Announce each of the values that go into a set."""
        return map(self.hashed, values)

    def augmenting_attribute(self, op: str, o: Any, name: str) -> Callable[[Any], None]:
        """Load an attribute, and return the function that takes the right side and sets it."""
        value = self.attribute(o, name)
        return lambda right: setattr(self.writing_attribute(o, name), name, self.inplace(op, value, right))

    def augmenting_item(self, op: str, o: Any, key: Any) -> Callable[[Any], None]:
        """Load an entry, and return the function that takes the right side and sets it."""
        value = self.item(o, key)
        if isinstance(o, Tensor) and isinstance(value, Tensor):
            value._base = None  # what `augment` sets reaches `o`: no write is lost

        def augment(right: Any) -> None:
            new = self.inplace(op, value, right)
            self.writing_item(o)[key] = new

        return augment

    def iterated(self, v: Any) -> Any:
        tracker = CURRENT.tracker
        return v if tracker is None else tracker.iterated(v)

    def unpacked(self, v: Any, pattern: Pattern) -> Any:
        """Return an object that unpacks like a value, and reports the unpacking within it."""
        return v if CURRENT.tracker is None else Unpacked(v, pattern)

    def unpacking(self, v: Any, pattern: Pattern) -> Any:
        """Return an object that iterates like a value, and reports the unpacking of its elements."""
        tracker = CURRENT.tracker
        return v if tracker is None else Unpacking(iter(tracker.iterated(v)), pattern)

    # -- calls and operators ------------------------------------------------------------------------------------------

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function."""
        if type(f) is types.BuiltinFunctionType and f in FRAMED and needs_frame(f, args):
            return of_frame(f, getframe(1), args, kwargs)
        if f is super and not args:
            return super_of(getframe(1))
        tracker = CURRENT.tracker
        if tracker is None:
            return f(*args, **kwargs)
        try:
            return tracker.call(f, args, kwargs)
        except Exception as e:
            tracker.failed(e)
            raise

    def binary(self, op: str, l: Any, r: Any) -> Any:
        """Return the result of an operator."""
        tracker = CURRENT.tracker
        if tracker is None:
            return BINARY[op](l, r)
        try:
            return tracker.binary(op, l, r)
        except Exception as e:
            tracker.failed(e)
            raise

    def inplace(self, op: str, l: Any, r: Any) -> Any:
        """Return the result of an in-place operator."""
        tracker = CURRENT.tracker
        if tracker is None:
            return INPLACE[op](l, r)
        try:
            return tracker.inplace(op, l, r)
        except Exception as e:
            tracker.failed(e)
            raise

    def unary(self, op: str, v: Any) -> Any:
        """Return the result of a unary operator."""
        tracker = CURRENT.tracker
        if tracker is None:
            return UNARY[op](v)
        try:
            return tracker.unary(op, v)
        except Exception as e:
            tracker.failed(e)
            raise

    def compare(self, op: str, l: Any, r: Any) -> Any:
        """Return the result of a comparison."""
        tracker = CURRENT.tracker
        if tracker is None:
            return COMPARE[op](l, r)
        try:
            return tracker.compare(op, l, r)
        except Exception as e:
            tracker.failed(e)
            raise

    def compared(self, v: Any, op: str | None, is_tested: bool) -> "ChainedOperand":
        """Return an operand of a chained comparison."""
        return ChainedOperand(v, op, is_tested)

    def truth(self, v: Any) -> Any:
        tracker = CURRENT.tracker
        return v if tracker is None else tracker.truth(v)

    def formatted(self, v: Any) -> Any:
        tracker = CURRENT.tracker
        return v if tracker is None else tracker.formatted(v)

    # -- statements ---------------------------------------------------------------------------------------------------

    def entering(self, manager: Any) -> Any:
        tracker = CURRENT.tracker
        return manager if tracker is None else tracker.entering(manager)

    def entered(self, v: Any) -> Any:
        tracker = CURRENT.tracker
        return v if tracker is None else tracker.entered(v)

    def importing(self, module: str, names: tuple[str, ...], level: int) -> None:
        """Announce that a module is about to be imported, and these names from it."""
        tracker = CURRENT.tracker
        if tracker is not None:
            tracker.importing(module, names, level)

    def caught(self, e: Any) -> None:
        """Report that an error is handled, None if it has no name."""
        tracker = CURRENT.tracker
        if tracker is not None:
            tracker.caught(e)

    def made(self, v: Any) -> Any:
        tracker = CURRENT.tracker
        return v if tracker is None else tracker.made(v)

    def decorating(self, decorator: Any) -> Any:
        """Return a function that calls a decorator."""
        return decorator if CURRENT.tracker is None else lambda f: self.call(decorator, f)

    def returned(self, v: Any) -> Any:
        tracker = CURRENT.tracker
        return v if tracker is None else tracker.returned(v)

    def matched(self, v: Any) -> Any:
        tracker = CURRENT.tracker
        return v if tracker is None else tracker.matched(v)

    def holding(self, v: Any) -> "PatternValue":
        """Return an object that has the value of a pattern as its attribute, because patterns are dotted names."""
        return PatternValue(v)

    def unmatched(self, kind: Any) -> bool:
        """Take the class of a pattern, which was loaded only to be reported, and match nothing."""
        return False


HOOKS = InstrumentationHooks()


class PatternValue:
    """The value that a pattern compares with."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value


class ChainedOperand:
    """An operand of a chained comparison, which is rewritten to ``a < b < c`` whatever the operators are.

    So each operand is evaluated once, and none after a comparison that is false.
    """

    __slots__ = ("is_tested", "op", "value")

    def __init__(self, value: Any, op: str | None, is_tested: bool) -> None:
        self.value: Any = value
        #: The comparison with the next operand.
        self.op: str | None = op
        #: Whether the comparison of the previous operand with it decides a branch.
        self.is_tested: bool = is_tested

    def __lt__(self, other: "ChainedOperand") -> Any:
        assert self.op is not None
        made = HOOKS.compare(self.op, self.value, other.value)
        return HOOKS.truth(made) if other.is_tested else made


class Unpacked:
    """A value that is about to be unpacked, some of whose elements are unpacked too."""

    __slots__ = ("pattern", "value")

    def __init__(self, value: Any, pattern: Pattern) -> None:
        self.value: Any = value
        self.pattern: Pattern = pattern

    def __iter__(self) -> Iterator[Any]:
        value = self.value
        kind = type(value)
        if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
            raise TypeError(f"cannot unpack non-iterable {kind.__name__} object")
        value = HOOKS.iterated(value)
        nested, star = self.pattern
        if not any(nested):
            return iter(value)
        return _told(iter(value), nested, star)


def _told(values: Iterator[Any], nested: tuple[Any, ...], star: int) -> Iterator[Any]:
    """Go through values; wrap those that are unpacked themselves to report it."""
    before = nested if star < 0 else nested[:star]
    for pattern in before:
        for value in values:
            yield Unpacked(value, pattern) if pattern else value
            break
        else:
            return
    if star < 0:
        yield from values
        return
    rest = list(values)
    after = nested[star + 1 :]
    first = len(rest) - len(after)
    for i, value in enumerate(rest):
        pattern = after[i - first] if i >= first else None
        yield Unpacked(value, pattern) if pattern else value


class Unpacking:
    """An iterator over values that are unpacked one by one."""

    __slots__ = ("pattern", "values")

    def __init__(self, values: Iterator[Any], pattern: Pattern) -> None:
        self.values: Iterator[Any] = values
        self.pattern: Pattern = pattern

    def __iter__(self) -> "Unpacking":
        return self

    def __next__(self) -> Unpacked:
        return Unpacked(next(self.values), self.pattern)


# -- functions that ask for their caller's frame ------------------------------------------------------------------------

#: The number of arguments with which these functions need the caller's frame.
FRAMED: dict[Any, int] = {
    globals: 1,
    locals: 1,
    vars: 1,
    dir: 1,
    eval: 99,
    exec: 99,
    compile: 99,
    sys._getframe: 99,
    warnings.warn: 99,
}


def needs_frame(f: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call needs the frame that it is made in."""
    return len(args) < FRAMED[f]


def names_in(frame: types.FrameType) -> Any:
    """Return the result of ``locals()`` in a frame."""
    names = frame.f_locals
    return names if sys.version_info < (3, 13) or type(names) is dict else dict(names)


def is_shown(frame: types.FrameType) -> bool:
    """Whether a frame also exists without instrumentation."""
    return frame.f_code.co_filename not in FILES


def of_frame(f: Any, frame: types.FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function as if a frame did."""
    if CURRENT.tracker is not None:
        CURRENT.tracker.decline(f"{f.__name__}() is called")
    if f is sys._getframe:
        return _frame(frame, *args, **kwargs)
    if f is warnings.warn:
        return _warn(*args, **kwargs)
    if f is compile:
        return _compile(frame, *args, **kwargs)
    if f is eval or f is exec:
        return _run(f, frame, *args, **kwargs)
    if args or kwargs:
        return f(*args, **kwargs)
    if f is globals:
        return frame.f_globals
    return sorted(frame.f_locals) if f is dir else names_in(frame)


def _frame(frame: types.FrameType, depth: int = 0, /) -> types.FrameType:
    found: types.FrameType | None = frame
    while found is not None and (depth > 0 or not is_shown(found)):
        depth -= is_shown(found)
        found = found.f_back
    if found is None:
        raise ValueError("call stack is not deep enough")
    return found


def _warn(message: Any, category: Any = None, stacklevel: int = 1, *rest: Any, **more: Any) -> None:
    level, shown, at = 1, 0, getframe(0)
    while True:
        shown += is_shown(at)
        if shown >= max(stacklevel, 1) or at.f_back is None:
            break
        level, at = level + 1, at.f_back
    warnings.warn(message, category, level, *rest, **more)


def _compile(
    frame: types.FrameType,
    source: Any,
    filename: Any,
    mode: str,
    flags: int = 0,
    dont_inherit: bool = False,
    optimize: int = -1,
    **more: Any,
) -> Any:
    flags |= 0 if dont_inherit else frame.f_code.co_flags & FUTURE
    return compile(source, filename, mode, flags, True, optimize, **more)


def _run(f: Any, frame: types.FrameType, source: Any, globals: Any = None, locals: Any = None, /, **more: Any) -> Any:
    globals, locals = more.pop("globals", globals), more.pop("locals", locals)
    if locals is None:
        locals = names_in(frame) if globals is None else globals
    if globals is None:
        globals = frame.f_globals
    # Otherwise it would have this file's future statements, not the caller's
    if not isinstance(source, types.CodeType):
        if f is eval and isinstance(source, str | bytes):
            source = source.lstrip(" \t" if isinstance(source, str) else b" \t")  # type: ignore[arg-type]
        source = _compile(frame, source, "<string>", f.__name__)
    return f(source, globals, locals, **more)


def super_of(frame: types.FrameType) -> Any:
    """Return the result of ``super()`` in a frame, under whatever name it is called."""
    names, first = frame.f_locals, frame.f_code.co_varnames[: frame.f_code.co_argcount]
    if "__class__" not in frame.f_code.co_freevars or not first or first[0] not in names:
        return super()
    return super(names["__class__"], names[first[0]])
