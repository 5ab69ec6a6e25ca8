"""How instrumented code calls and computes: Python functions, classes, C functions, agrad's own functions, operators and comparisons."""

from __future__ import annotations

import abc
import builtins
import dataclasses
import enum
import functools
import importlib
import operator
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from agrad.compiled.effects import ArgumentEffects, effects_of, method_effects, side_effect_of
from agrad.compiled.guards import PLAIN, HasKey, Link, is_array, is_plain
from agrad.compiled.instrumentation import BINARY, COMPARE, CURRENT, FILES
from agrad.compiled.reading import GRAPH, ReadingHooks
from agrad.compiled.rewriting import is_instrumented
from agrad.compiled.tracing import TracedFloat, TracedInt
from agrad.compiled.tracking import (
    ARGUMENT,
    CONTAINERS,
    FOUND,
    FRESH,
    HEAP,
    MISSING,
    MUTABLE,
    SETTERS,
    Tracked,
    instance_dict,
    is_array_or_scalar,
    is_python_class,
    member_of,
    reports_own_settings,
    slots_of,
    whose,
    whose_class,
    whose_module,
)
from agrad.core import mode
from agrad.core.cpython import getframe
from agrad.core.node import Node
from agrad.core.tensor import Tensor
from agrad.dtypes import float64
from agrad.program.closures import Found

#: The functions of `operator`, by name.
OPERATORS: Final = {name: getattr(operator, name) for name in dir(operator) if not name.startswith("_")}

#: Why no program can contain a call, by the beginning of the function's name.
REASONS: Final = {
    "builtins.print": "it prints, which a program would not",
    "numpy.errstate": "the function sets what happens at floating-point errors (np.errstate)",
    "numpy.seterr": "the function sets what happens at floating-point errors (np.seterr)",
    "numpy.random": "it draws NumPy's random numbers: draw by agrad.random, or pass them",
    "random.": "it draws Python's random numbers: draw by agrad.random, or pass them",
    "Random.": "it draws Python's random numbers: draw by agrad.random, or pass them",
    "None.Random.": "it draws Python's random numbers: draw by agrad.random, or pass them",
    "time.": "it reads the clock",
    "sys.setprofile": "the function starts a profiler: Python then does not report which functions run",
    "sys.settrace": "the function starts a debugger: Python then does not report which functions run",
    "_io.": "it reads or writes a file",
    "io.": "it reads or writes a file",
    "_warnings.warn": "it warns, which a program would not",
}

#: The function that `importlib.import_module` calls with a name, a package, and the number of packages to go up.
IMPORT: Final = importlib._bootstrap._gcd_import  # type: ignore[attr-defined]

#: Stands for the default of a field of a dataclass that has none.
MISSING_DEFAULT: Final = dataclasses.MISSING

#: Stands for an argument of a `functools.partial` that its call passes, from Python 3.14 on.
PLACEHOLDER: Final = getattr(functools, "Placeholder", MISSING)

#: Special methods in C that read all attributes of an object.
READING_ALL: Final = frozenset({"__reduce__", "__reduce_ex__", "__getstate__", "__dir__", "__sizeof__"})


class Tracker(ReadingHooks):
    """The tracker of a capture: it answers the hooks of instrumented code, and knows the objects that this code meets."""

    # -- values and statements ----------------------------------------------------------------------------------------

    def made(self, v: Any) -> Any:
        """Record an object that code creates itself: by a display, a comprehension or a definition, or for starred parameters."""
        kind = type(v)
        if kind not in PLAIN:
            self.fresh(v)
            if isinstance(v, type):
                self.ensure(v)
        return v

    def truth(self, v: Any) -> Any:
        """Record a value by which Python branches."""
        kind = type(v)
        if kind in PLAIN:
            self.condition(v)
        elif isinstance(v, Tensor):
            return v
        elif is_array_or_scalar(v):
            self.use(v)
        elif isinstance(v, CONTAINERS) and type(member_of(kind, "__bool__")) is not types.FunctionType:
            self.length(v)
        else:
            self.ensure(v)
            tracked = self.at(v)
            decides = member_of(kind, "__bool__") is not MISSING or member_of(kind, "__len__") is not MISSING
            if decides and tracked.status == FOUND and whose_class(kind) == "python":
                self.use(v)
            elif decides and whose_class(kind) == "agrad":
                self.read_by_agrad(v)
        return v

    def formatted(self, v: Any) -> Any:
        """Record a value that is converted to text."""
        if isinstance(v, Tensor):
            self.decline("a tensor is converted to text")
        return self.use(v)

    def returned(self, v: Any) -> Any:
        """Record the result of a function that code without instrumentation has called."""
        if self.native and type(v) not in (bool, str, type(None)):
            frame = getframe(2)
            if id(frame) not in self.driven:
                self._pass_out(v)
        return v

    def _pass_out(self, v: Any) -> None:
        if type(v) in PLAIN:
            self.condition(v)
        elif self.native == "c":  # which may compare it, or test its truth
            self.use(v)
        elif type(v) in (list, tuple):
            for inside in v:
                if type(inside) in PLAIN:
                    self.condition(inside)

    def matched(self, v: Any) -> Any:
        """Record the subject of a `match` statement, which its patterns read."""
        if isinstance(v, Tensor):
            self.facts(v)
            return v
        self.use(v)
        if type(v) not in PLAIN and not isinstance(v, CONTAINERS):
            self.read_unobserved(v)
        return v

    def caught(self, e: Any) -> None:
        """Record an error that is handled."""
        error = sys.exc_info()[1]
        if isinstance(error, NameError):
            self.decline("a name that does not exist is looked up")
        if e is not None:
            self.fresh(e)
            self.fresh_all(getattr(e, "args", ()))

    def failed(self, e: BaseException) -> None:
        """Record an error of an operation, which may depend on values."""
        if self.raised is None:
            last = e.__traceback__
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            file = "" if last is None else last.tb_frame.f_code.co_filename
            inside = whose(file) in ("agrad", "arrays") and file not in FILES
            if inside or isinstance(e, ArithmeticError) or type(e).__name__ == "LinAlgError":
                self.raised = e

    def entering(self, cm: Any) -> Any:
        """Record the context manager of a `with` statement."""
        kind = type(cm)
        if whose_class(kind) == "agrad":
            if not isinstance(cm, Tensor):
                self.at(cm)
            return cm
        if whose_class(kind) in ("python", "arrays"):
            self.decline(f"a with statement enters a {kind.__module__}.{kind.__qualname__}")
            return cm
        self.at(cm)
        self.ensure_methods(kind)
        return cm

    def entered(self, v: Any) -> Any:
        """Record the value that a context manager returns when it is entered."""
        return v if type(v) in PLAIN or self.is_known(v) else self.fresh_all(v)

    def importing(self, module: str, names: Sequence[str], level: int) -> None:
        """Record an import within a function."""
        frame = getframe(2)
        if level:
            package = frame.f_globals.get("__package__") or ""
            base = package.rsplit(".", level - 1)[0] if level > 1 else package
            module = f"{base}.{module}" if module else base
        found = sys.modules.get(module)
        if found is None or any(not hasattr(found, name) for name in names if name != "*"):
            self.decline(f"{module} is imported for the first time")
            return
        self._kept_alive.append(found)
        if whose_module(found) == "user":
            self.add(Link(sys.modules.__getitem__, module, found, f"the module {module}"), ("module", module))
        for name in names:
            if name != "*" and name in vars(found):
                self._of_module(found, name)

    # -- computing ----------------------------------------------------------------------------------------------------

    def out_of_agrad(self, value: Any) -> Any:
        """Return the result of agrad's code, with plain numbers in place of numbers of the program."""
        kind = type(value)
        if kind in TRACED:
            return self.tracer.plain_for_user(value)
        if kind is tuple or kind is list:
            if any(type(part) in TRACED for part in value):
                return kind(map(self.out_of_agrad, value))
        elif kind is dict and any(type(part) in TRACED for part in value.values()):
            return {key: self.out_of_agrad(part) for key, part in value.items()}
        return value

    def is_constant_number(self, v: Any) -> bool:
        """Return whether a value is a plain number that the program does not compute."""
        return type(v) in (bool, int, float, complex) and self.number_for_agrad(v) is v

    def binary(self, op: str, l: Any, r: Any) -> Any:
        """Return the result of an operator: a step if one side is a tensor or a number of the program."""
        return self._computed(OPERATORS[op], op, l, r)

    def inplace(self, op: str, l: Any, r: Any) -> Any:
        """Return the result of an in-place operator."""
        kind = type(l)
        if isinstance(l, MUTABLE):
            self.changing(l)
        elif not isinstance(l, Tensor) and kind not in PLAIN and is_array_or_scalar(l):
            self.writing(l)
            if isinstance(r, Tensor):  # the array may have other names, so no step can represent the write
                self.decline(f"{self.called(l)} is written to by values of a tensor")
                return OPERATORS[f"i{op.rstrip('_')}"](l, r)
        return self._computed(OPERATORS[f"i{op.rstrip('_')}"], op, l, r)

    def _computed(self, function: Any, op: str, l: Any, r: Any) -> Any:
        a, b = isinstance(l, Tensor), isinstance(r, Tensor)
        if a or b:
            for other in (r,) if a and not b else (l,) if b and not a else ():
                if type(other) not in PLAIN and not is_array(other):
                    self.read_by_agrad(other)
            return self._agrad_result(function, l, r)
        first, second = self.number_for_agrad(l), self.number_for_agrad(r)
        if first is not l or second is not r:
            if type(first) in NUMBERS and type(second) in NUMBERS:
                if op == "truediv" and second is not r:
                    self.tracer.require_nonzero(second)
                return self._agrad_result(function, first, second)
            self.condition(l)
            self.condition(r)
        if type(l) in PLAIN and type(r) in PLAIN:
            return function(l, r)
        for side in (l, r):
            if isinstance(side, CONTAINERS):
                if self.is_found(side):
                    self.whole(side)
                self.ensure(side)
            else:
                self.use(side)
        if op == "mod" and type(l) in (str, bytes):
            self.use(r)
        made = function(l, r)
        if type(made) not in PLAIN and not self.is_known(made):
            if is_array_or_scalar(made):
                return self.fresh(made)
            self.fresh_all(made)
        return made

    def _agrad_result(self, function: Any, *args: Any) -> Any:
        """Return the result of agrad's own code, or of an operator on tensors, as instrumented code receives it."""
        return self._receive(self.call_agrad(function, args, {}))

    def _receive(self, made: Any) -> Any:
        """Return the result of agrad's or C's code, as instrumented code receives it."""
        kind = type(made)
        if kind in PLAIN or isinstance(made, Tensor):
            return made
        made = self.out_of_agrad(made)
        if type(made) not in PLAIN and id(made) not in self.known:
            self._record_computed(made)
            self.fresh_all(made)
        return made

    def _record_computed(self, made: Any) -> None:
        """Treat arrays that agrad has computed as arguments, whose values Python may not read."""
        if isinstance(made, list | tuple | dict):
            for inside in made.values() if isinstance(made, dict) else made:
                if type(inside) not in PLAIN and not isinstance(inside, Tensor):
                    self._record_computed(inside)
        elif not (self.tracer.inputs or self.tracer.traced_numbers or self.tracer.draws):
            self.fresh(made)  # from constants only
        elif (is_array_or_scalar(made) or hasattr(type(made), "__array__")) and id(made) not in self.known:
            self.known[id(made)] = Tracked(made, ARGUMENT)

    def unary(self, op: str, v: Any) -> Any:
        """Return the result of a unary operator."""
        live = self.number_for_agrad(v)
        if live is not v and op in ("neg", "pos"):
            return self._agrad_result(operator.mul, live, -1.0) if op == "neg" else v
        self.use(v)
        if isinstance(v, Tensor):
            return self._agrad_result(OPERATORS[op], v)
        made = OPERATORS[op](v)
        return made if type(made) in PLAIN or self.is_known(made) else self.fresh(made)

    def compare(self, op: str, l: Any, r: Any) -> Any:
        """Return the result of a comparison."""
        function = COMPARE[op]
        if op in ("is_", "is_not"):
            for one, other in () if id(l) in self.arguments and id(r) in self.arguments else ((l, r), (r, l)):
                if isinstance(one, Tensor):
                    if other is None or type(other) in PLAIN:
                        self.facts(one)
                    elif (id(one) in self.arguments and self._guard_distinct(one, other)) or (
                        id(other) in self.arguments and self._guard_distinct(other, one)
                    ):
                        continue
                    else:
                        self.identity(one)
                elif type(one) not in PLAIN:
                    if self.at(one).status == ARGUMENT and other is not None and type(other) not in PLAIN:
                        self.decline("the identity of an argument decides")
                    if is_array(one) and self.is_found(one) and other is not None:
                        self.identity(one)
            return function(l, r)
        if op in ("in", "not_in"):
            self.refuse_nan(l)
        if isinstance(l, Tensor) or isinstance(r, Tensor):
            if op not in ("in", "not_in"):
                for other in (l, r):
                    if type(other) not in PLAIN and not isinstance(other, Tensor) and not is_array(other):
                        self.read_by_agrad(other)
                return self._agrad_result(function, self.number_for_agrad(l), self.number_for_agrad(r))
            self.identity(l) if isinstance(l, Tensor) else None
        if (
            op in ("in", "not_in")
            and isinstance(r, dict)
            and is_plain(l)
            and member_of(type(r), "__contains__") is dict.__contains__
        ):
            self.hashed(l)
            if self.is_found(r):
                at = self.at(r).at or self.root(r)
                if l in r:
                    if id(r) not in self._contents_before:
                        self.require(
                            HasKey(r),
                            l,
                            True,
                            self.name(at, ("item", l)),
                            ("holds", id(r), (type(l), l)),
                        )
                else:
                    self.missing(r, l, self.name(at, ("item", l)))
            return function(l, r)
        for side in (l, r):
            self.use(side)
            if isinstance(side, CONTAINERS):
                for inside in side:
                    if isinstance(inside, Tensor):
                        self.identity(inside)
        made = function(l, r)
        return made if type(made) in PLAIN or self.is_known(made) else self.fresh(made)

    def _guard_distinct(self, argument: Any, other: Any) -> bool:
        """Make it a condition whether an argument is a certain tensor; return False if that is impossible."""
        if argument is other:  # if it was found outside too, that is a condition already
            return any(found.value is other and found.before is not None for found in self.order)
        tracked = self.known.get(id(other))
        if not isinstance(other, Tensor) or tracked is None or tracked.at is None or tracked.at.before is None:
            return isinstance(other, Tensor) and tracked is None and id(other) not in self.arguments
        self.distinct.append((argument, tracked.at))
        return True

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an object, in the way that its class requires."""
        kind = type(f)
        if kind is types.FunctionType:
            return self._python(f, f, args, args, kwargs)
        if kind is types.MethodType:
            if type(f.__func__) is types.FunctionType:
                return self._python(f.__func__, f, (f.__self__, *args), args, kwargs)
            return self.call(f.__func__, (f.__self__, *args), kwargs)
        if isinstance(f, type):
            return self._make(f, args, kwargs)
        if kind is types.BuiltinFunctionType or kind is types.MethodWrapperType:
            return self._builtin(f, args, kwargs)
        if kind in (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType):
            if args and isinstance(args[0], f.__objclass__) and kind is not types.ClassMethodDescriptorType:
                return self._method(f.__name__, args[0], args[1:], kwargs, f.__get__(args[0]))
            return self._by_row(f, effects_of(f), args, kwargs)
        if isinstance(f, functools.partial) and type(member_of(kind, "__call__")) is not types.FunctionType:
            return self._partial(f, args, kwargs)
        if kind is functools._lru_cache_wrapper:
            return self._cached(f, args, kwargs)
        transparent = member_of(kind, "_transparent")
        if transparent is not MISSING:
            self.ensure(f)
            return self.call(getattr(f, transparent), args, kwargs)
        if kind is operator.attrgetter or kind is operator.itemgetter or kind is operator.methodcaller:
            return self._getter(f, args)
        owner = whose_class(kind)
        if owner == "arrays" or kind.__module__.partition(".")[0] == "numpy":
            return self._numpy(f, args, kwargs)
        if owner == "agrad":
            self.at(f)
            if isinstance(f, Node):
                self.decline(GRAPH)
            return self._agrad(f, (f, *args), args, kwargs)
        caller = member_of(kind, "__call__")
        if kind is weakref.ref:
            return self._dereference(f)
        if kind.__name__ == "cython_function_or_method":  # such as NumPy's functions that draw random numbers
            return self._unknown(f, args, kwargs)
        self.at(f)
        self.ensure(f)
        if type(caller) is types.FunctionType:
            return self._python(caller, f, (f, *args), args, kwargs)
        if is_python_class(kind) and caller is not MISSING:
            return self.call(self.attribute(f, "__call__"), args, kwargs)
        return self._unknown(f, args, kwargs)

    def _is_output(self, f: Any) -> bool:
        """Return whether a function writes output, and only captures shall write it."""
        if self.tracer.effects != "first":
            return False
        if f is print or str(getattr(f, "__module__", None)).partition(".")[0] in ("logging", "_warnings"):
            return True
        owner = getattr(f, "__self__", None)
        return type(owner).__module__ == "_io" and f.__name__ in ("write", "writelines", "flush")

    def _produce_output(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Write output at this capture, and at no replay: the values that it reads are not part of the program."""
        before = mode.get_mode()
        CURRENT.tracker = None
        mode.push(recorder=None)
        try:
            return self._call_c(f, args, kwargs)
        finally:
            mode.set_mode(before)
            if self.tracer.failure is None:
                CURRENT.tracker = self

    def _unknown(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function whose effects are unknown: there is no program, unless it only writes output."""
        if self._is_output(f):
            return self._produce_output(f, args, kwargs)
        module = getattr(f, "__module__", None)
        name = getattr(f, "__qualname__", None) or getattr(f, "__name__", type(f).__name__)
        for part, reason in REASONS.items():
            if f"{module}.{name}".startswith(part):
                self.decline(reason)
        self.decline(
            f"{f'{module}.' if module and module != 'builtins' else ''}{name} is called, and its effects are unknown"
        )
        return self._call_c(f, args, kwargs)

    def _call_c(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call C code."""
        return self._call_native("c", f, args, kwargs)

    def _python(self, function: types.FunctionType, f: Any, full: Sequence[Any], args: Any, kwargs: Any) -> Any:
        """Call a Python function: instrumented, agrad's own, an array library's, or generated by Python.

        Parameters
        ----------
        function : function
            The function.
        f : callable
            The object that was called: the function, a bound method of it, or an object whose class defines it.
        full : sequence
            The positional arguments that the function receives: `args`, perhaps after `self`.
        args, kwargs : tuple and dict
            The arguments of `f`.
        """
        if self.tracer.effects == "first" and self._is_output(function):
            return self._produce_output(f, args, kwargs)
        self.at(function)
        self.ensure(function)
        code = function.__code__
        if not is_instrumented(code):
            kind = whose(code.co_filename)
            if kind == "agrad":
                return self._agrad(f, full, args, kwargs)
            if kind == "arrays":
                return self._numpy(f, args, kwargs)
            if is_generated(code):
                return self._generated(f, full, args, kwargs)
            if function is IMPORT and len(args) == 3 and not args[2] and not kwargs:
                self.importing(args[0], (), 0)
            elif code.co_flags & 0x80:
                self.decline(f"{function.__qualname__} is a coroutine")
            else:
                self.decline(f"{function.__qualname__} is called, and its source is not available")
            return self._call_c(f, args, kwargs)
        native, self.native = self.native, ""
        try:
            made = f(*args, **kwargs)
        finally:
            self.native: Any = native
        if code.co_flags & 0x20:
            self.fresh(made)
        return made

    def _generated(self, f: Any, full: Sequence[Any], args: Any, kwargs: Any) -> Any:
        """Call a method generated by `dataclasses`, `namedtuple` or `enum`, which sets or compares fields."""
        name = f.__name__ if hasattr(f, "__name__") else ""
        if name not in ("__init__", "__new__", "<lambda>"):
            for part in (*full, *kwargs.values()):
                self.read_by_agrad(part)
                self.use(part)
        for part in full[:1]:
            self.ensure_special(type(part), *SETTERS)
        made = self._call_c(f, args, kwargs)
        if name == "__init__" and full:
            for inside in (instance_dict(full[0]) or {}).values():
                if not self.is_known(inside):
                    self.fresh_all(inside)
        return made if type(made) in PLAIN or self.is_known(made) else self.fresh_all(made)

    # -- agrad's own functions ----------------------------------------------------------------------------------------

    def _agrad(self, f: Any, full: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of agrad, whose computation is recorded; a callback in C code must be one that the table knows."""
        reason = side_effect_of(f)
        if reason is not None:
            self.decline(reason)
        is_registration = str(getattr(f, "__name__", "")).startswith("register_")  # calls the function later, if at all
        for part in (*full, *kwargs.values()):
            if type(part) not in PLAIN:
                self.read_by_agrad(part)
                if type(part) in (types.BuiltinFunctionType, functools.partial) and not is_registration:
                    self._check_callback(part)
        if type(f) is types.FunctionType and f.__closure__:
            self.ensure(f)
        if full and getattr(f, "__name__", "") == "step" and reports_own_settings(full[0]) and "state" in vars(full[0]):
            self.filled_tables.append((vars(full[0])["state"], f"how much state {self.called(full[0])} has"))
        return self._receive(self.call_agrad(f, args, kwargs))

    # -- classes ------------------------------------------------------------------------------------------------------

    def _make(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Create an object of a class."""
        if kind is float and len(args) == 1 and not kwargs:
            value = args[0]
            if type(value) is float:
                return value
            if isinstance(value, Tensor):
                return self._agrad_result(_as_float, value)
        if kind is int and len(args) == 1 and type(args[0]) is int:
            return args[0]
        if kind is type and len(args) == 1:
            return self._class_of(args[0])
        owner = whose_class(kind)
        if kind is type or (isinstance(kind, type) and issubclass(kind, type)):
            for a in (*args, *kwargs.values()):
                self.use(a)
            made = kind(*args, **kwargs)
            return self.fresh(made)
        if owner == "arrays":
            return self._numpy(kind, args, kwargs)
        if owner == "agrad":
            return self._agrad(kind, args, args, kwargs)
        if owner == "python" and issubclass(kind, BaseException):
            made = kind(*args, **kwargs)
            self.fresh_all(made.args)
            return self.fresh(made)
        if isinstance(kind, enum.EnumMeta):
            for a in (*args, *kwargs.values()):
                self.use(a)
            return self._call_native("agrad", kind, args, kwargs)
        row = effects_of(kind)
        if row is not None:
            return self._by_row(kind, row, args, kwargs)
        if owner == "python":
            return self._unknown(kind, args, kwargs)
        self.at(kind)
        self.ensure_class(kind)
        if type(member_of(kind, "__del__")) is types.FunctionType:
            self.decline(f"a {kind.__name__} is created, which has a __del__")
        if type(kind) is not type:
            caller = member_of(type(kind), "__call__")
            if type(caller) is types.FunctionType:
                self.ensure(caller)
        for name in ("__new__", "__init__"):
            member = member_of(kind, name)
            self.ensure(member)
            by_c = type(member_of(kind, "__new__")) is not staticmethod and type(member) is not types.FunctionType
            if name == "__init__" and member is not MISSING and by_c:
                base = next(
                    (each for each in kind.__mro__ if whose_class(each) in ("python", "arrays") and each is not object),
                    object,
                )
                if base is not object and (base_row := effects_of(base)) is not None:
                    self._read_by_row(base_row, args, kwargs)
        init = member_of(kind, "__init__")
        if type(init) is types.FunctionType and is_generated(init.__code__):
            self.ensure_special(kind, *SETTERS)
            self._record_fields(kind)
            native, self.native = self.native, "agrad"  # so the net takes the `self` of its methods for a new object
            try:
                made = kind(*args, **kwargs)
            finally:
                self.native = native
            self.fresh(made)
            for inside in [*(instance_dict(made) or {}).values(), *(slots_of(made) or {}).values()]:
                if not self.is_known(inside):
                    self.fresh_all(inside)
            return made
        native, self.native = self.native, "agrad"  # so the net takes the `self` of its methods for a new object
        try:
            made = kind(*args, **kwargs)
        finally:
            self.native = native
        if type(made) in PLAIN or isinstance(made, Tensor):
            return made
        if issubclass(kind, BaseException):
            self.fresh_all(made.args)
        return made if self.is_known(made) and id(made) in self.known else self.fresh(made)

    def _record_fields(self, kind: Any) -> None:
        """Record the defaults of a dataclass, and the functions called for them."""
        fields = member_of(kind, "__dataclass_fields__")
        for field in () if fields is MISSING else fields.values():
            if field.default is not MISSING_DEFAULT and not is_plain(field.default):
                self.root(field.default)
                self.ensure(field.default)
            if field.default_factory is not MISSING_DEFAULT:
                self.root(field.default_factory)
                self.ensure(field.default_factory)
                self._read_as("f", field.default_factory)

    def _class_of(self, value: Any) -> Any:
        """Return the class of an object, which is a condition for an outer one."""
        if isinstance(value, Tensor):
            self.facts(value)
            return type(value)
        kind = type(value)
        self._graph(value)
        if kind not in PLAIN and self.is_found(value) and not isinstance(value, type):
            self._is_instance(value, kind, None)
            self.ensure_class(kind)
        return kind

    def is_abc_instance(self, f: Any, value: Any, base: type) -> Any:
        """Return whether an abstract base class accepts an object or a class: a condition, as it may be registered later."""
        kind = self._class_of(value) if f is builtins.isinstance else value
        self.at(base)
        before, CURRENT.tracker = CURRENT.tracker, None
        self.native_depth += 1
        try:
            made = f(value, base)
            if isinstance(kind, type):
                accepts = functools.partial(_accepts, base)
                self.require(
                    accepts,
                    kind,
                    issubclass(kind, base),
                    f"which classes {base.__name__} accepts",
                    ("is", id(kind), id(base)),
                )
        finally:
            self.native_depth -= 1
            if self.tracer.failure is None:
                CURRENT.tracker = before
        return made

    # -- C functions --------------------------------------------------------------------------------------------------

    def _builtin(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function or a bound method written in C."""
        owner = f.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            special = SPECIAL.get(f)
            if special is not None:
                return special(self, f, args, kwargs)
            if str(f.__module__).partition(".")[0] == "numpy":
                return self._numpy(f, args, kwargs)
            return self._by_row(f, effects_of(f), args, kwargs)
        name = f.__name__
        if isinstance(owner, type):
            if name in {"__new__", "__init_subclass__", "__subclasshook__", "__prepare__"}:
                if name == "__new__" and args and isinstance(args[0], type):
                    row = effects_of(owner)
                    if row is not None:
                        self._read_by_row(row, args[1:], kwargs)
                    elif owner is not object and not issubclass(owner, BaseException | type):
                        return self._unknown(f, args, kwargs)
                made = f(*args, **kwargs)
                return made if type(made) in PLAIN or self.is_known(made) else self.fresh(made)
            return self._by_row(f, effects_of(f) or method_effects(owner, name), args, kwargs)
        return self._method(name, owner, args, kwargs, f)

    def _method(self, name: str, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], f: Any) -> Any:
        """Call a C method of an object."""
        kind = type(owner)
        if name in SETTERS:
            before = self.deleting_attribute if name == "__delattr__" else self.writing_attribute
            before(owner, str.__str__(args[0])) if args and isinstance(args[0], str) else None
            return f(*args, **kwargs)
        if name == "__get__" and kind is types.FunctionType:
            self.ensure(owner)
            return f(*args, **kwargs)
        if name == "__getattribute__" and args and isinstance(args[0], str):
            return self._read_past_getattribute(owner, str.__str__(args[0]), f)
        if name in ("__setitem__", "__delitem__") and isinstance(owner, MUTABLE):
            self.use(args[0])
            if self.is_outside(owner):
                self.changing(owner)
            return f(*args, **kwargs)
        if (
            name == "__getitem__"
            and isinstance(owner, CONTAINERS)
            and len(args) == 1
            and type(member_of(kind, "__getitem__")) is not types.FunctionType
        ):
            return self.item(owner, args[0])
        if (
            name == "get"
            and isinstance(owner, dict)
            and not kwargs
            and len(args) in (1, 2)
            and is_plain(args[0])
            and member_of(kind, "__getitem__") is dict.__getitem__
        ):
            self.hashed(args[0])
            if dict.__contains__(owner, args[0]):
                return self.item(owner, args[0])
            if self.is_found(owner):
                self.missing(owner, args[0], self.name(self.at(owner).at, ("item", args[0])))
            return args[1] if len(args) > 1 else None
        if name == "__contains__" and len(args) == 1 and type(member_of(kind, name)) is not types.FunctionType:
            return self.compare("in", args[0], owner)
        if name == "__len__" and isinstance(owner, CONTAINERS):
            self.length(owner)
            return f()
        if name == "__call__" and isinstance(owner, functools.partial):
            return self._partial(owner, args, kwargs)
        if (
            name in ("__init__", "__enter__", "__init_subclass__")
            and kind.__flags__ & HEAP
            and not isinstance(owner, CONTAINERS)
        ):
            for a in (*args, *kwargs.values()):
                self.use(a) if type(a) in PLAIN else self.at(a)
            return f(*args, **kwargs)
        if isinstance(owner, Tensor):
            return self._agrad(f, (owner, *args), args, kwargs)
        if is_array_or_scalar(owner):
            return self._numpy(f, (owner, *args), kwargs, bound=True)
        if (
            name in ("format", "format_map")
            and isinstance(owner, str)
            and not all(map(is_plain, (*args, *kwargs.values())))
        ):
            self.decline("an object is converted to text")  # its fields may name any attribute
        row = method_effects(kind, name)
        if name in READING_ALL:
            self.read_unobserved(owner)
            self.use(owner)
        if row is None:
            if whose_class(kind) == "agrad":
                return self._agrad(f, (owner, *args), args, kwargs)
            return self._unknown(f, args, kwargs)
        return self._by_row(f, row, args, kwargs, owner)

    def _read_past_getattribute(self, owner: Any, name: str, f: Any) -> Any:
        """Return an attribute for which a `__getattribute__` of the user's calls the one of `object`."""
        tracked = self.at(owner)
        held = instance_dict(owner)
        member = member_of(type(owner), name)
        if tracked.status == FOUND:
            self._is_instance(owner, type(owner), held)
            at = tracked.at or self.root(owner)
            if held is not None and name in held:
                return self.see(held[name], at, ("attribute", name))
            if held is not None and name != "__dict__":
                self.missing(held, name, self.name(at, ("attribute", name)))
            if name == "__dict__" and held is not None:
                self.known.setdefault(id(held), Tracked(held, FOUND, Found(held, at, ("attribute", "__dict__"))))
                return f(name)
        if type(member) in (types.FunctionType, property, staticmethod, classmethod):
            self.ensure(member)
        value = f(name)
        if type(value) not in PLAIN and not self.is_known(value):
            if tracked.status == FRESH:
                self.fresh(value)
            else:
                self.see(value, self.root(type(owner)), ("member", name), guard=False)
        return value

    def _read_by_row(self, row: ArgumentEffects, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Record the reads of a C function, which its row of the table describes."""
        letters = row.reads or "d"
        read = [(letters[min(i, len(letters) - 1)], a) for i, a in enumerate(args)]
        read += [(row.named.get(name, letters[-1]), a) for name, a in kwargs.items()]
        for letter, a in read:
            self._read_as(letter, a)
        if any(letter == "c" and type(a) not in PLAIN and not is_python(a) for letter, a in read):
            for letter, a in read:  # C code passes these to C code
                self.use(a) if letter != "c" else None

    def _read_as(self, letter: str, a: Any) -> None:
        """Record the reads of one argument, which a letter describes: see `ArgumentEffects`."""
        if letter == "f":
            if type(a) not in PLAIN:
                self.at(a)
                self._check_callback(a)
        elif letter == "d":
            self.use(a)
            if isinstance(a, Tensor):
                self.facts(a)
            elif isinstance(a, CONTAINERS):
                for inside in a:
                    if isinstance(inside, Tensor):
                        self.identity(inside)
        elif letter == "e":
            if type(a) not in PLAIN:
                self.iterated(a)
        elif letter == "m":
            self.iterated(a) if isinstance(a, dict) else self.use(a)
        elif letter == "-":
            self.decline("a C function is called with an argument that it may read or change in unknown ways")
        elif letter == "n":
            if isinstance(a, CONTAINERS):
                self.ensure(a)
                self.length(a)
            else:
                self.truth(a)
                if isinstance(a, Tensor):
                    self.facts(a)
        elif letter == "c":
            if type(a) not in PLAIN:
                self.at(a)
                self.read_by_agrad(a)
                self._check_callback(a)
        elif type(a) not in PLAIN:
            self.ensure(a)

    def _check_callback(self, f: Any) -> None:
        """Decline if C code would call back code whose effects are unknown."""
        kind = type(f)
        if kind is types.FunctionType or kind is types.MethodType or isinstance(f, functools.partial):
            inner = f.func if isinstance(f, functools.partial) else getattr(f, "__func__", f)
            if type(inner) is types.FunctionType:
                reason = side_effect_of(inner) if whose(inner.__code__.co_filename) == "agrad" else None
                if reason is not None:
                    self.decline(reason)
                return
            if isinstance(f, functools.partial):
                for a in (*f.args, *f.keywords.values()):
                    self.use(a)
            f = inner
        row = effects_of(f)
        if row is not None and row.changes:
            self.decline(f"{getattr(f, '__qualname__', f)} is called back, and changes its arguments")
            return
        if f is len or kind is operator.itemgetter:
            return
        if kind is types.BuiltinFunctionType and not isinstance(f.__self__, types.ModuleType | type(None)):
            row = method_effects(type(f.__self__), f.__name__)
            if row is None:
                self.decline(f"{f.__qualname__} is called back, and its effects are unknown")
            else:
                self._read_by_row(row, (f.__self__,), {})
                if row.changes:
                    self.changing(f.__self__)
            return
        if _is_hashable(f) and f in SPECIAL:
            self.decline(f"{f.__name__} is called back")
        elif (
            effects_of(f) is None
            and not isinstance(f, type)
            and type(member_of(type(f), "__call__")) is not types.FunctionType
        ):
            self.decline(f"{getattr(f, '__qualname__', type(f).__name__)} is called back, and its effects are unknown")
        elif isinstance(f, type) and effects_of(f) is None:
            self.ensure_methods(f)
            if whose_class(f) in ("python", "agrad", "arrays"):
                self.decline(f"{f.__name__} is called back, and its effects are unknown")

    def _by_row(
        self, f: Any, row: ArgumentEffects | None, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Any = MISSING
    ) -> Any:
        """Call a C function as its row of the table says; a function without a row is unknown."""
        if row is None:
            return self._unknown(f, args, kwargs)
        full = args if owner is MISSING else (owner, *args)
        self._read_by_row(row, full, kwargs)
        if row.changes and full:
            self.changing(full[0])
        if row.returns == "view":
            for a in full:
                if isinstance(a, CONTAINERS) and self.is_found(a):
                    self.whole(a)
            kind = type(owner)
            by_c = owner is not MISSING and whose_class(kind) == "python" and not isinstance(owner, CONTAINERS)
            if by_c and self.is_outside(owner):
                self.decline(f"a {kind.__name__} from outside is iterated over")
        made = self._call_c(f, args, kwargs)
        if row.returns == "view" and type(made) not in PLAIN and not is_array(made):
            self.views[id(made)] = made, full
        return self._record_result(row, made, full)

    def _record_result(self, row: ArgumentEffects, made: Any, full: Sequence[Any]) -> Any:
        """Record the result of a C function."""
        kind = type(made)
        if kind in TRACED:
            return self.tracer.plain_for_user(made)
        if kind in PLAIN or isinstance(made, Tensor):
            return made
        if row.returns == "view" and full:
            owner = next((a for a in full if type(a) not in PLAIN), None)
            status = FRESH if owner is None or isinstance(owner, Tensor) else self.at(owner).status
            if status != FRESH and id(made) not in self.known:
                if is_array(owner) and not isinstance(owner, Tensor):
                    return self._with_status(made, status)
                return self.fresh(made)
        if row.returns == "member":
            if not self.is_known(made):
                self.at(made)
            return made
        if not self.is_known(made) or id(made) not in self.known:
            self.fresh(made)
            if isinstance(made, CONTAINERS):
                for inside in made.values() if isinstance(made, dict) else made:
                    if type(inside) not in PLAIN and not self.is_known(inside):
                        self.fresh_all(inside)
        return made

    def _numpy(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, bound: bool = False) -> Any:
        """Call a function of an array library: with tensors it is agrad's, otherwise its row of the table describes it.

        The first argument of a `bound` method is its owner.
        """
        if any(isinstance(a, Tensor) or _holds_tensor(a) for a in (*args, *kwargs.values())):
            return self._agrad(f, args, args, kwargs)
        own_args = args[1:] if bound else args
        row = method_effects(type(args[0]), f.__name__) if bound else effects_of(f)
        if row is None or kwargs.get("out") is not None:
            if row is not None:
                self.decline(f"{getattr(f, '__name__', f)} writes to an array of out=")
            return self._unknown(f, own_args, kwargs)
        self._read_by_row(row, args, kwargs)
        if row.changes:
            self.writing(args[0])
        made = self._call_c(f, own_args, kwargs)
        return self._record_result(row, made, args)

    def _cached(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a cached function; it is a condition that the cache still returns this result."""
        self.at(f)
        inner = f.__wrapped__
        self.see(inner, self.root(f), ("attribute", "__wrapped__"))
        for a in (*args, *kwargs.values()):
            self.use(a)
            kind = type(a)
            by_identity = (
                member_of(kind, "__hash__") is vars(object)["__hash__"]
                and member_of(kind, "__eq__") is vars(object)["__eq__"]
            )
            if not is_plain(a) and not by_identity and not isinstance(a, type):
                self.decline(f"a cached function is called with a {type(a).__name__}")
        native, self.native = self.native, ""
        try:
            made = f(*args, **kwargs)
        finally:
            self.native = native
        if self.at(f).status != FRESH:
            place = "cache", id(f), repr((args, kwargs))
            get = functools.partial(_from_cache, args, kwargs)
            filled = functools.partial(_is_filled, f.cache_info().misses)
            self.require(filled, f, True, f"the cache of {inner.__qualname__}", ("filled", *place))
            found = Found(f)
            if type(made) not in PLAIN:
                at = self.known.get(id(made))
                if at is None or at.status == FRESH:
                    self.known.pop(id(made), None)
                    self.see(made, found, ("cached", (args, tuple(kwargs.items()))), guard=False)
            if isinstance(made, Tensor) or is_array(made):
                self.decline(f"{inner.__qualname__}, whose results are cached, returns a tensor")
            self.require(get, f, made, f"the cache of {inner.__qualname__}", place)
        return made

    def _partial(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a `functools.partial`."""
        self._of_partial(f)
        rest = list(args)
        if sum(a is PLACEHOLDER for a in f.args) > len(rest):
            return f(*args, **kwargs)  # its error
        filled = [rest.pop(0) if a is PLACEHOLDER else a for a in f.args]
        return self.call(f.func, (*filled, *rest), {**f.keywords, **kwargs})

    def _dereference(self, f: Any) -> Any:
        """Follow a weak reference."""
        tracked = self.at(f)
        made = f()
        if tracked.status != FRESH:
            if isinstance(made, Tensor):
                self.decline("a weak reference to a tensor is followed")
            elif made is not None:
                self.decline("a weak reference is followed: its object may be gone later")
            else:
                self.require(_follow, f, None, "the object of a weak reference", ("weak", id(f)))
        elif made is not None and not self.is_known(made):
            self.at(made)
        return made

    def _getter(self, f: Any, args: tuple[Any, ...]) -> Any:
        """Call an `operator.attrgetter` or a similar object."""
        maker, wanted = f.__reduce__()
        if len(args) != 1:
            return f(*args)
        target = args[0]
        if type(f) is operator.attrgetter:
            found = [functools.reduce(self.attribute, name.split("."), target) for name in wanted]
            return found[0] if len(found) == 1 else self.fresh(tuple(found))
        if type(f) is operator.itemgetter:
            found = [self.item(target, key) for key in wanted]
            return found[0] if len(found) == 1 else self.fresh(tuple(found))
        keywords: dict[str, Any] = {}
        if isinstance(maker, functools.partial):  # of a `methodcaller` with keywords
            wanted, keywords = (*maker.args, *wanted), maker.keywords
        return self.call(self.attribute(target, wanted[0]), wanted[1:], keywords)


# -- C functions with hooks of their own --------------------------------------------------------------------------------


def _getattr(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) < 2 or not isinstance(args[1], str):
        return f(*args, **kwargs)
    try:
        return t.attribute(args[0], str.__str__(args[1]))
    except AttributeError:
        if len(args) > 2:
            return args[2]
        raise


def _hasattr(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or not isinstance(args[1], str):
        return f(*args, **kwargs)
    try:
        t.attribute(args[0], str.__str__(args[1]))
    except AttributeError:
        return False
    return True


def _setattr(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) > 1 and isinstance(args[1], str):
        before = t.deleting_attribute if f is delattr else t.writing_attribute
        before(args[0], str.__str__(args[1]))
    return f(*args, **kwargs)


def _vars(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1:
        return t._unknown(f, args, kwargs)
    try:
        return t.attribute(args[0], "__dict__")
    except AttributeError:
        return f(*args)  # its error


def _len(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1:
        value = args[0]
        if isinstance(value, Tensor):
            t.facts(value)
        elif isinstance(value, CONTAINERS):
            t.ensure(value)
            t.length(value)
        elif type(value) not in PLAIN:
            t.use(value)
    return f(*args, **kwargs)


def _isinstance(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2:
        value = args[0]
        if type(args[1]) is abc.ABCMeta and not isinstance(value, Tensor) and _only_registers(args[1]):
            return t.is_abc_instance(f, value, args[1])
        if isinstance(value, Tensor):
            if any(issubclass(kind, Tensor) and kind is not Tensor for kind in _classes_in(args[1])):
                t.facts(value)
        elif f is builtins.isinstance:
            t._class_of(value)
        for kind in _classes_in(args[1]):
            t.ensure_class(type(kind))
            if type(kind) is not type:
                t.ensure_methods(type(kind))
                t.ensure_methods(kind)
    native, t.native = t.native, "c"
    try:
        return f(*args, **kwargs)
    finally:
        t.native = native


def _only_registers(base: Any) -> bool:
    """Return whether an abstract base class accepts classes by registration, and not by code of the user's."""
    hook = member_of(base, "__subclasshook__")
    function = getattr(hook, "__func__", None)
    return type(function) is not types.FunctionType or whose(function.__code__.co_filename) == "library"


def _classes_in(classes: Any) -> tuple[Any, ...]:
    """Return the classes in the second argument of `isinstance`."""
    if isinstance(classes, tuple):
        return tuple(kind for part in classes for kind in _classes_in(part))
    if isinstance(classes, types.UnionType):
        return classes.__args__
    return (classes,) if isinstance(classes, type) else ()


def _id(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1:
        value = args[0]
        if whose(getframe(4).f_code.co_filename) != "modules":  # `agrad.nn` only asks whether an object occurs twice
            if isinstance(value, Tensor):
                t.identity(value)
            elif type(value) not in PLAIN and t.at(value).status == ARGUMENT:
                t.decline("the identity of an argument decides")
    return f(*args, **kwargs)


def _callable_(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and type(args[0]) not in PLAIN and not isinstance(args[0], Tensor):
        t._class_of(args[0])
    return f(*args, **kwargs)


def _iter(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1:
        return t._unknown(f, args, kwargs)
    value = t.iterated(args[0])
    made = f(value)
    return made if t.is_known(made) and id(made) in t.known else t.fresh(made)


def _next(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    iterator = args[0] if args else None
    if t.is_outside(iterator):
        t.decline("an iterator from outside is advanced")
    t.ensure(iterator)
    if type(iterator) is types.GeneratorType:
        t.driven[id(iterator.gi_frame)] = iterator.gi_frame
    return f(*args, **kwargs)


def _sum(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args:
        return f(*args, **kwargs)
    values = t.iterated(args[0])
    total = args[1] if len(args) > 1 else kwargs.get("start", 0)
    if type(total) in (str, bytes, bytearray):
        return f(*args, **kwargs)
    constants: list[Any] = []  # the first values: a compensated sum of Python's, from 3.12 on
    is_constant = t.is_constant_number(total)
    for value in values:
        is_constant = is_constant and t.is_constant_number(value)
        if is_constant:
            constants.append(value)
            continue
        if constants:
            total, constants = f(constants, total), []
        total = t.binary("add", total, value)
    return f(constants, total) if constants else total


def _reduce(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs:  # `initial`, from Python 3.14 on
        return t._by_row(f, effects_of(f), args, kwargs)
    if len(args) not in (2, 3):
        return f(*args)
    values = iter(t.iterated(args[1]))
    total = args[2] if len(args) == 3 else next(values, MISSING)
    if total is MISSING:
        return f(*args)
    for value in values:
        total = t.call(args[0], (total, value), {})
    return total


def _extreme(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the minimum or the maximum: values decide which."""
    values = list(t.iterated(args[0])) if len(args) == 1 else list(args)
    for v in kwargs.values():
        t._read_as("c", v) if callable(v) else None
    if any(isinstance(v, Tensor) for v in values):
        for v in values:
            if isinstance(v, Tensor):
                continue
            t.use(v)
        own_args = (t.fresh(values),) if len(args) == 1 else args
        return t._receive(t._call_c(f, own_args, kwargs))
    for v in values:
        t.use(v)
    own_args = (values,) if len(args) == 1 else args
    return t._call_c(f, own_args, kwargs)


def _operator(t: Tracker, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs:
        return f(*args, **kwargs)
    name = f.__name__
    if name == "getitem":
        return t.item(*args)
    if name in ("setitem", "delitem"):
        return f(t.writing_item(args[0]), *args[1:])
    if name == "contains":
        return t.compare("in", args[1], args[0])
    if name in ("is_", "is_not", "eq", "ne", "lt", "le", "gt", "ge"):
        return t.compare(name, *args)
    if name in ("truth", "not_"):
        return f(t.truth(args[0]))
    if len(args) == 1:
        return t.unary(name, *args)
    if name in INPLACE:
        return t.inplace(INPLACE[name], *args)
    return t.binary(name, *args)


#: By the name of an in-place function of `operator`, the corresponding out-of-place one.
INPLACE: Final = {f"i{name.rstrip('_')}": name for name in (*BINARY, "concat")}

#: The hooks of C functions, by function.
SPECIAL: Final[dict[Any, Callable[..., Any]]] = {
    getattr: _getattr,
    hasattr: _hasattr,
    setattr: _setattr,
    delattr: _setattr,
    vars: _vars,
    len: _len,
    isinstance: _isinstance,
    issubclass: _isinstance,
    callable: _callable_,
    id: _id,
    iter: _iter,
    next: _next,
    sum: _sum,
    max: _extreme,
    min: _extreme,
    functools.reduce: _reduce,
    **{
        getattr(operator, name): _operator
        for name in (
            *INPLACE,
            *INPLACE.values(),
            *(
                "getitem",
                "setitem",
                "delitem",
                "contains",
                "is_",
                "is_not",
                "eq",
                "ne",
                "lt",
                "le",
                "gt",
                "ge",
                "truth",
                "not_",
            ),
            *("neg", "pos", "abs", "invert"),
        )
    },
}

#: The numbers on which an operator is a step, if one of them is a number of the program.
NUMBERS: Final = frozenset({bool, int, float, TracedFloat})

#: The numbers of the program, in the form for agrad's own functions.
TRACED: Final = frozenset({TracedFloat, TracedInt})


def is_generated(code: types.CodeType) -> bool:
    """Return whether the standard library has generated a method for a dataclass, a named tuple or an enumeration."""
    if code.co_filename == "<attrs>" or code.co_filename.startswith("<string"):
        return code.co_name in GENERATED or code.co_varnames[:1] == ("_cls",)
    return False


#: The names of generated methods.
GENERATED: Final = frozenset(
    {
        "__init__",
        "__eq__",
        "__repr__",
        "__hash__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__setattr__",
        "__delattr__",
        "__new__",
        "__replace__",
    }
)


def _as_float(t: Tensor) -> Any:
    """Return the float of a tensor, as a number that the program computes."""
    if t.size != 1 or t._spec.backend.kind(t.dtype) == "complex":
        return float(t)
    return t.item() if t._spec.backend.kind(t.dtype) == "float" else t.astype(float64).item()


def _follow(reference: Any) -> Any:
    return reference()


def _accepts(base: type, kind: type) -> bool:
    return issubclass(kind, base)


def _is_filled(misses: int, f: Any) -> bool:
    """Return whether a cache was not emptied since: reading it would call the user's function before its place."""
    now: int = f.cache_info().misses
    return now >= misses


def _from_cache(args: Any, kwargs: Any, f: Any) -> Any:
    return f(*args, **kwargs)


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(part, Tensor) or _holds_tensor(part) for part in value)


def is_python(f: Any) -> bool:
    """Return whether a callable is a Python function or a method of one, whose own code shows its reads."""
    inner = f.func if isinstance(f, functools.partial) else getattr(f, "__func__", f)
    return type(inner) is types.FunctionType


def _is_hashable(value: Any) -> bool:
    return type(value).__hash__ is not None and not isinstance(value, functools.partial)
