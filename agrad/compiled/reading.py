"""How instrumented code reads and writes: names, attributes, entries, containers, arrays and tensors."""

from __future__ import annotations

import builtins
import enum
import functools
import math
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from agrad.compiled.effects import method_effects
from agrad.compiled.guards import PLAIN, is_array, is_plain
from agrad.compiled.tracking import (
    ARGUMENT,
    CONSTANT,
    CONTAINERS,
    FOUND,
    FRESH,
    MISSING,
    SETTERS,
    SLOT,
    TEXTS,
    Knowledge,
    Tracked,
    contents_of,
    counter_of,
    equals,
    has_value,
    holder_of,
    instance_dict,
    is_array_or_scalar,
    is_python_class,
    may_view,
    member_of,
    reports_own_settings,
    slots_of,
    whose,
    whose_class,
    whose_module,
)
from agrad.core.node import Node
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.program.closures import FUNCTIONAL_STATE, Found, search
from agrad.random import Generator

#: The properties of a tensor besides its values; reading one makes them a condition.
FACTS: Final = frozenset(
    {
        "requires_grad",
        "is_leaf",
        "grad_fn",
        "grad_dtype",
        "output_nr",
        "retains_grad",
        "shape",
        "dtype",
        "ndim",
        "size",
        "device",
        "itemsize",
        "nbytes",
    }
)

#: The reason to decline if Python inspects nodes: other calls have other nodes, and a replay has a single one.
GRAPH: Final = "it inspects nodes of the graph (grad_fn)"

#: The properties of an array that its shape and dtype do not determine.
LAYOUT: Final = frozenset({"strides", "flags"})


class ReadingHooks(Knowledge):
    """The hooks that instrumented code calls to read and write, and what they record."""

    # -- names --------------------------------------------------------------------------------------------------------

    def load_global(self, frame: types.FrameType, name: str, value: Any) -> Any:
        """Record the read of a global name, or of a built-in one."""
        names = frame.f_globals
        kind = whose(frame.f_code.co_filename)
        if name not in names:
            if kind == "user":
                self.missing(names, name, name)
            at = self.root(vars(builtins))
            return self.see(value, at, ("item", name), guard=kind == "user")
        constant = kind != "user" and isinstance(
            value, type | types.FunctionType | types.ModuleType | types.BuiltinFunctionType
        )
        at = self.root(names)
        return self.see(value, at, ("item", name), guard=not constant)

    def load_free(self, name: str, value: Any, cell: types.CellType) -> Any:
        """Record the read of a closure's cell, if the cell existed before the call."""
        if id(cell) not in self._cells:
            return value
        if id(cell) in self._contents_before and self._contents_before[id(cell)][1] is not value:
            return value
        return self.see(value, self.root(cell), ("content", name))

    def before_store(self, frame: types.FrameType, name: str, cell: types.CellType | None) -> None:
        """Save the value of a global or nonlocal name before the name is bound or deleted."""
        if cell is None:
            names = frame.f_globals
            at = self.root(names)
            if (id(names), name) not in self._rebound:
                self._require_current(names, at, ("item", name), names.get(name, MISSING))
                self._rebound[id(names), name] = names, name, names.get(name, MISSING)
        elif id(cell) in self._cells:
            value = contents_of(cell)
            if id(cell) not in self._contents_before and value is MISSING:
                self.require(is_empty, cell, True, f"the variable {name}", ("empty", id(cell)))
            elif id(cell) not in self._contents_before:
                self.see(value, self.root(cell), ("content", name))
            self.changing_cell(cell, value)

    def _require_current(self, table: Any, at: Found, step: tuple[str, Any], value: Any) -> None:
        """Make the current value of a place that the call writes to a condition: the call may write the same value back."""
        if value is not MISSING:
            self.see(value, at, step)
        else:
            self.missing(table, step[1], self.name(at, step))

    # -- attributes ---------------------------------------------------------------------------------------------------

    def attribute(self, o: Any, name: str, *, whole: bool = True) -> Any:
        """Return an attribute; its value is a condition if the object is from outside.

        Without `whole`, the caller only tests whether the attribute is None.
        """
        kind = type(o)
        if kind in PLAIN:
            # A method reads the value only when it is called; a missing attribute depends on no value
            if not callable(getattr(kind, name, len)):
                self.use(o)
            return getattr(o, name)
        if isinstance(o, Tensor):
            value = self._of_tensor(o, name)
            if (name == "grad_fn" and value is not None and whole) or (name == "output_nr" and not o.is_leaf):
                self.decline(GRAPH)
            return value
        if kind is types.ModuleType or isinstance(o, types.ModuleType):
            return self._of_module(o, name)
        if isinstance(o, type):
            return self._of_class(o, name)
        if kind is super:
            return self._of_super(o, name)
        if is_array_or_scalar(o):
            return self._of_array(o, name)
        if kind in CONSTANT or kind is types.CodeType:
            return getattr(o, name)
        if kind is types.FunctionType:
            return self._of_function(o, name)
        if kind is types.MethodType:
            self.at(o)
            if name in ("__self__", "__func__"):
                return getattr(o, name)
            return self.attribute(o.__func__, name)
        whose_kind = whose_class(kind)
        if whose_kind == "agrad":
            return self._of_agrad_object(o, name)
        return self._of_object(o, name)

    def _of_tensor(self, t: Tensor, name: str) -> Any:
        if type(t) is not Tensor and is_python_class(type(t)):
            self.ensure_class(type(t))
            member = member_of(type(t), name)
            if type(member) is property:
                self.ensure(member)
        if name in FACTS or name == "__class__":
            self.facts(t)
        elif name == "__dict__":
            self.decline("the __dict__ of a tensor is read")
        tracked, held = self.known.get(id(t)), instance_dict(t)
        if held is not None and (name in held or not hasattr(type(t), name)):
            if tracked is not None or id(t) in self.arguments:
                return self._added_attribute(t, None if tracked is None else tracked.at, held, name)
            if not self._is_of_call(t):
                self.decline(f"the attribute {name} of a tensor is read")
        value = self.call_uninstrumented(getattr, t, name)
        if type(value) is types.MethodType:
            self.require_members(Tensor)
        if name == "grad_fn" and value is not None and (tracked is not None or id(t) in self.arguments):
            self.known.setdefault(id(value), Tracked(value, ARGUMENT))
        if name == "grad" and value is not None and id(value) not in self.known:
            found = self.known.get(id(t))
            if found is not None and found.at is not None and not self._is_of_call(value):
                self.order.append(Found(value, found.at, ("attribute", "grad")))
        if isinstance(value, tuple | list) or name in FACTS:  # a dtype is an object, too
            self.fresh_all(value)
        return value

    def _graph(self, o: Any, name: str = "") -> None:
        """Decline if Python inspects a node, unless it reads what a `Function` has stored on its ctx."""
        if isinstance(o, Node) and (self.at(o).status != FRESH or hasattr(Node, name)):
            self.decline(GRAPH)

    def _is_of_call(self, tensor: Tensor) -> bool:
        """Return whether the call has created a tensor."""
        tracer = self.tracer
        is_from_outside = id(tensor) in tracer.met or id(tensor._raw) in tracer.inputs
        return tracer.number_of(tensor._raw) is not None and not is_from_outside

    def facts(self, t: Tensor) -> None:
        """Make the properties of an outer tensor a condition, but not its values."""
        tracked = self.known.get(id(t))
        if tracked is not None and tracked.at is not None and tracked.at.before is not None:
            self.facts_used.setdefault(id(t), tracked.at)

    def identity(self, t: Any) -> None:
        """Make the identity of an outer tensor a condition.

        The identity of an argument cannot be one, unless the argument is also found outside: that both are the same is
        always a condition.
        """
        tracked = self.known.get(id(t))
        found = None if tracked is None else tracked.at
        if found is None or found.before is None or (id(t) in self.arguments and found.step == ("attribute", "grad")):
            if id(t) in self.arguments:
                self.decline("the identity of an argument decides")
        else:
            self.identity_used.setdefault(id(t), found)

    def call_uninstrumented(self, function: Any, *args: Any) -> Any:
        """Call Python code of agrad or a library, which is not instrumented."""
        return self._call_native("agrad", function, args, {})

    def _call_native(self, native: str, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function that is not instrumented: agrad's ("agrad") or one written in C ("c"), as `native` says."""
        before, self.native = self.native, native
        self.native_depth += 1
        try:
            return function(*args, **kwargs)
        finally:
            self.native: Any = before
            self.native_depth -= 1

    def number_for_agrad(self, v: Any) -> Any:
        """Return a number as agrad's own functions get it: traced, so that their computations become steps."""
        if type(v) is float or type(v) is int:
            traced = self.tracer.traced_of(v)
            return v if traced is None else traced
        return v

    def for_agrad(self, v: Any) -> Any:
        """Return a value as agrad's own functions get it; an array that the call has created becomes a constant."""
        if type(v) in PLAIN:
            return self.number_for_agrad(v)
        if self.tracer.failure is not None:
            return v
        if not isinstance(v, Tensor) and is_array(v) and self._is_constant(v):
            backend = holder_of(v)
            if backend is not None:
                if id(v) not in self._passed_arrays or not has_value(*self._passed_arrays[id(v)]):
                    value = backend.asarray(v, copy=True)  # the call may change the array later
                    self.tracer.alias(v, self.tracer.constant(value))
                    self._passed_arrays[id(v)] = v, value
                return v
        if (
            not isinstance(v, Tensor)
            and id(v) in self.known
            and self.known[id(v)].status == ARGUMENT
            and isinstance(v, float | complex | int)
        ):
            self.decline("it uses a computed number of the array library")
        return v

    def _is_constant(self, array: Any) -> bool:
        """Return whether the call has created an array without tensors, or took it from one whose values are a condition."""
        tracked = self.known.get(id(array))
        if tracked is None or id(array) in self.parts:
            return False
        return tracked.status == FRESH or (tracked.status == FOUND and tracked.at is None and id(array) in self._read)

    def call_agrad(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call agrad's own code, and check whether it changes or keeps arrays that the call has created."""
        args, kwargs = [*map(self.for_agrad, args)], {name: self.for_agrad(a) for name, a in kwargs.items()}
        passed = [self._passed_arrays[id(a)] for a in (*args, *kwargs.values()) if id(a) in self._passed_arrays]
        made = self._call_native("agrad", function, args, kwargs)
        for array, value in passed:
            if not has_value(array, value):
                self.decline(f"{self.called(array)} is written to by values of a tensor")
            elif may_view(made, array):
                self.shared.append((array, value))
        return made

    def _of_module(self, module: types.ModuleType, name: str) -> Any:
        held = vars(module)
        kind = whose_module(module)
        if name == "__dict__":
            self.root(held)
            return held
        if name not in held:
            if "__getattr__" in held and kind not in ("agrad", "arrays", "modules"):
                self.decline(f"the module {module.__name__} computes its attribute {name} (__getattr__)")
            if kind == "user":
                self.missing(held, name, f"{module.__name__}.{name}")
            value = self.call_uninstrumented(getattr, module, name)
            if not isinstance(value, type | types.FunctionType | types.ModuleType):
                self.fresh(value)
            return value
        value = held[name]
        if module is sys and name in ("stdout", "stderr") and self.tracer.effects == "first":
            self.root(value)
            return value
        if (module is sys or module.__name__ == "os") and (
            not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType)
            and name not in UNCHANGING
        ):
            self.decline(f"{module.__name__}.{name} is read")
        return self.see(value, self.root(held), ("item", name))

    def _of_class(self, kind: type, name: str) -> Any:
        tracked = self.at(kind)
        self.ensure(kind)
        if isinstance(kind, enum.EnumMeta):
            value = self.call_uninstrumented(getattr, kind, name)
            if isinstance(value, kind):
                return value
        if name in ("__name__", "__qualname__", "__module__", "__mro__", "__bases__", "__doc__"):
            value = getattr(kind, name)
            if name in ("__name__", "__qualname__") and tracked.status != FRESH and whose_class(kind) == "user":
                self.require(
                    operator.attrgetter(name), kind, value, self.name(tracked.at, ("attribute", name)), (name, id(kind))
                )
            return self.fresh_all(value) if isinstance(value, tuple) else value
        if (
            type(kind) is not type
            and type(member_of(type(kind), "__getattribute__")) is not types.WrapperDescriptorType
        ):
            return getattr(kind, name)
        owner = next((each for each in kind.__mro__ if name in vars(each)), None)
        meta = member_of(type(kind), name)
        if owner is None:
            if meta is MISSING or hasattr(type(meta), "__get__"):
                self.ensure(meta)
                value = getattr(kind, name)
                return value if self.is_known(value) else self.fresh(value)
            return self.see(meta, self.root(type(kind)), ("member", name))
        member = vars(owner)[name]
        if name == "__dict__":
            if whose_class(kind) == "user":
                self.decline(f"the members of {kind.__name__} are read as a whole")
            return self.fresh(getattr(kind, name))
        steady = whose_class(owner) != "user"
        if type(member) in (types.FunctionType, staticmethod, classmethod, property):
            self.ensure(member)
        elif tracked.status != FRESH:
            guard = not steady or (
                not isinstance(member, type | types.BuiltinFunctionType) and type(member) not in CONSTANT
            )
            self.see(member, self.root(kind), ("member", name), guard=guard)
            if not hasattr(type(member), "__get__"):
                return member
        value = getattr(kind, name)
        if type(member) is types.FunctionType or value is member:
            if value is member and type(member) is types.FunctionType and id(member) not in self.known:
                self.see(member, self.root(kind), ("member", name), guard=False)
            return value
        if not self.is_known(value):
            self.fresh(value)
        return value

    def _of_super(self, o: Any, name: str) -> Any:
        this, kind = o.__self__, o.__self_class__
        mro = list(kind.__mro__)
        behind = mro[mro.index(o.__thisclass__) + 1 :]
        member = next((vars(each)[name] for each in behind if name in vars(each)), MISSING)
        if member is not MISSING:
            self.ensure(member)
            if not isinstance(
                member,
                types.FunctionType
                | property
                | staticmethod
                | classmethod
                | types.WrapperDescriptorType
                | types.MethodDescriptorType
                | types.BuiltinFunctionType,
            ):
                owner = next(each for each in behind if name in vars(each))
                if not isinstance(this, type) or whose_class(owner) == "user":
                    self.see(member, self.root(owner), ("member", name))
        value = getattr(o, name)
        if type(value) in (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodType):
            self.fresh(value)
        return value

    def _of_array(self, array: Any, name: str) -> Any:
        tracked = self.at(array)
        if name in LAYOUT:
            value = getattr(array, name)
            if tracked.status != FRESH:
                self.layout(array, tracked.at)
            return self.fresh_all(value)
        held = instance_dict(array)
        if held is not None and tracked.status != FRESH and (name in held or not hasattr(type(array), name)):
            return self._added_attribute(array, tracked.at, held, name)
        if name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
            if tracked.status == FOUND and tracked.at is not None and tracked.at.before is not None:
                self.facts_used.setdefault(id(array), tracked.at)
            value = getattr(array, name)
            return self.fresh_all(value)
        if name == "T":
            return self._part(array, getattr, name)
        value = getattr(array, name)
        return value if callable(value) else self._read_values(array, value)

    def _read_values(self, array: Any, made: Any) -> Any:
        """Make the values of an outer array a condition; return the object `made` of them."""
        status = self.at(array).status
        if status != FRESH:
            self.array(array)
        return self._with_status(made, status)

    def _part(self, array: Any, take: Callable[[Any, Any], Any], key: Any) -> Any:
        """Return a part of an array. A part of an outer array is a step: only further reads make its values a condition."""
        made = take(array, key)
        owner = self.parts[id(array)][1] if id(array) in self.parts else array
        found = self.at(owner).at if self.at(array).status == FOUND and id(array) not in self._read else None
        is_array_too = type(made) is type(array) and holder_of(array) is not None
        if found is not None and found.before is not None and is_array_too and self.tracer.failure is None:
            step = self.call_agrad(take, (as_operand(array), key), {})
            if self.tracer.failure is None:
                self.tracer.alias(made, step._raw)
                self.facts_used.setdefault(id(owner), found)
                self.at(self.fresh(made)).status = FOUND
                self.parts[id(made)] = made, owner
                return made
        return self._read_values(array, made)

    def layout(self, array: Any, at: Found | None) -> None:
        """Make the memory layout and the flags of an outer array a condition."""
        if at is None or at.before is None or not hasattr(array, "flags"):
            self.decline(f"the memory layout of {self.called(array)}, an array among the arguments, is read")
            return
        self._itself(array, at)
        self.require(
            equals(layout_of, layout_of(array)), array, True, f"the layout of {self.name(at)}", ("layout", id(array))
        )

    def _added_attribute(self, holder: Any, at: Found | None, held: dict[str, Any], name: str) -> Any:
        """Return an attribute that was set on an outer array or tensor; raise if there is none."""
        if at is None or at.before is None:
            self.decline(f"the attribute {name} of an array among the arguments is read")
            return getattr(holder, name)
        self._itself(holder, at)
        if name in held:
            return self.see(held[name], at, ("attribute", name))
        self.missing(held, name, self.name(at, ("attribute", name)))
        return getattr(holder, name)

    def _with_status(self, value: Any, status: str) -> Any:
        """Give an object that views another one the status of that one."""
        if type(value) not in PLAIN and id(value) not in self.known:
            tracked = self.at(self.fresh(value))
            tracked.status = status
            self._read[id(value)] = value
        return value

    def _of_function(self, function: types.FunctionType, name: str) -> Any:
        tracked = self.at(function)
        held = vars(function)
        if name in held:
            if tracked.status == FRESH:
                return held[name]
            if whose(function.__code__.co_filename) in ("agrad", "arrays"):
                value = held[name]
                return self.see(value, tracked.at or self.root(function), ("attribute", name), guard=False)
            return self.see(held[name], tracked.at or self.root(function), ("attribute", name))
        value = getattr(function, name, MISSING)
        if value is MISSING:
            if tracked.status != FRESH:
                self.missing(held, name, f"{function.__name__}.{name}")
            return getattr(function, name)
        if name == "__dict__":
            return self.see(value, tracked.at or self.root(function), ("attribute", name))
        if name in ("__globals__", "__closure__"):
            self.decline(f"{name} of a function is read")
            return value
        if tracked.status != FRESH and name not in ("__get__", "__call__"):
            if name == "__code__":
                self.decline("the code of a function is read")
            return self.see(value, tracked.at or self.root(function), ("attribute", name))
        return value

    def _of_agrad_object(self, o: Any, name: str) -> Any:
        if reports_own_settings(o):
            tracked = self.at(o)
            member = member_of(type(o), name)
            if not isinstance(member, types.FunctionType | property):
                self.see_settings(o)
                if tracked.at is not None:
                    value = getattr(o, name)
                    return self.see(value, tracked.at, ("attribute", name))
            elif type(member) is types.FunctionType:
                self.ensure(member)
                if name == "get_lr" and whose(member.__code__.co_filename) == "agrad":
                    self.decline(
                        "it calls get_lr(), whose reads are not recorded: get_last_lr() gives the present rates"
                    )
                if tracked.status == FOUND:
                    self.missing(vars(o), name, f"{type(o).__name__}.{name}")
                    self.require(
                        operator.attrgetter(name),
                        type(o),
                        member,
                        f"{type(o).__name__}.{name}",
                        ("method", type(o), name),
                    )
            value = self.call_uninstrumented(getattr, o, name)
            return value if self.is_known(value) else self.fresh_all(value)
        tracked = self.at(o)
        self._graph(o, name)
        held = getattr(o, "__dict__", None)
        if type(held) is dict and name in held and tracked.status == FOUND:
            return self.see(held[name], tracked.at or self.root(o), ("attribute", name))
        value = self.out_of_agrad(self.call_uninstrumented(getattr, o, name))
        return value if self.is_known(value) else self.fresh_all(value)

    def call(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an object (`Tracker` implements this)."""
        raise NotImplementedError

    def out_of_agrad(self, value: Any) -> Any:
        """Return a result of agrad's code with plain numbers in place of traced ones (`Tracker` implements this)."""
        return value

    def _of_object(self, o: Any, name: str) -> Any:
        """Return an attribute of an object whose class is not agrad's."""
        kind, tracked = type(o), self.at(o)
        self.ensure(o)
        if isinstance(o, enum.Enum) and name in ("name", "value", "_name_", "_value_"):
            value = self.call_uninstrumented(getattr, o, name)
            held = instance_dict(o)
            name = f"_{name.strip('_')}_"
            if held is None or held.get(name, MISSING) is not value:
                return self.fresh_all(value)
            return self.see(value, tracked.at or self.root(o), ("attribute", name))
        getter = member_of(kind, "__getattribute__")
        if (
            getter is not object.__getattribute__
            and kind is not types.SimpleNamespace
            and not issubclass(kind, BaseException | tuple)
        ):
            if type(getter) is types.FunctionType:
                self.ensure(getter)
                return getattr(o, name)
            if not isinstance(o, CONTAINERS) and method_effects(kind, name) is None and tracked.status != FRESH:
                self.decline(f"an attribute of a {kind.__name__} is read")
                return getattr(o, name)
        member = member_of(kind, name)
        of_python = whose_class(kind) == "python"
        outside = tracked.status == FOUND
        held = instance_dict(o)
        if tracked.status == ARGUMENT and held is not None and name in held:
            fields = member_of(kind, "__dataclass_fields__")  # the key of the call contains only these
            if fields is MISSING or name not in fields:
                self.decline(f"an attribute of {self.called(o)}, a container among the arguments, is read")
        if member is not MISSING and is_data(member):
            return self._by_descriptor(o, name, member, outside, tracked.at)
        if outside:
            self._is_instance(o, kind, held)
        at = tracked.at
        if held is not None and name in held:
            value = held[name]
            if outside and not self._is_substituted(value):
                return self.see(value, at or self.root(o), ("attribute", name))
            if not self.is_known(value):
                self.at(value)
            return value
        if held is not None and outside:
            self.missing(held, name, self.name(at, ("attribute", name)))
        if member is MISSING:
            if of_python and tracked.status == FOUND:
                self.decline(f"an attribute of a {kind.__name__} is read")
            answers = member_of(kind, "__getattr__")
            if answers is not MISSING and type(answers) is not types.FunctionType:
                return self.call(answers, (o, name), {})
            return getattr(o, name)  # calls `__getattr__`, or raises an AttributeError
        if type(member) in (types.FunctionType, staticmethod, classmethod):
            self.ensure(member)
            return getattr(o, name)
        if type(member) in (
            types.MethodDescriptorType,
            types.WrapperDescriptorType,
            types.ClassMethodDescriptorType,
            types.BuiltinFunctionType,
        ):
            return getattr(o, name)
        if hasattr(type(member), "__get__"):
            self._descriptor(kind, name, member)
            if whose_class(type(member)) == "python" and type(member) is not functools._lru_cache_wrapper:
                self.decline(f"a {type(member).__name__} computes the attribute {name}")
            return getattr(o, name)
        owner = next(each for each in kind.__mro__ if name in vars(each))
        if self.at(owner).status == FRESH:
            return member
        if tracked.status == ARGUMENT and held is not None:
            self.decline(f"an attribute of the class of {self.called(o)}, a container among the arguments, is read")
        return self.see(
            member, self.root(kind), ("member", name), guard=whose_class(owner) == "user" or not callable(member)
        )

    def _descriptor(self, kind: type, name: str, member: Any) -> None:
        """Record a descriptor that a class holds under a name, and let its methods be instrumented."""
        owner = next(each for each in kind.__mro__ if name in vars(each))
        if self.at(owner).status == FRESH:
            self.fresh(member)
        else:
            self.see(member, self.root(kind), ("member", name), guard=False)
        self.ensure(member)
        self.ensure_methods(type(member))

    def _by_descriptor(self, o: Any, name: str, member: Any, outside: bool, at: Found | None) -> Any:
        if type(member) is property:
            self.ensure(member)
            if whose_class(type(o)) == "python":
                self.decline(f"an attribute of a {type(o).__name__} is read")
            return getattr(o, name)
        if type(member) is SLOT and is_python_class(next(c for c in type(o).__mro__ if name in vars(c))):
            try:
                value = member.__get__(o)
            except AttributeError:
                if outside:
                    self._require_absent(o, name, at)
                return getattr(o, name)
            if not outside:
                return value
            self._is_instance(o, type(o), None)
            return self.see(value, at or self.root(o), ("attribute", name))
        if whose_class(type(member)) in ("user", "library", "modules"):
            self._descriptor(type(o), name, member)
            return getattr(o, name)
        value = getattr(o, name)
        if name == "__class__":
            if outside:
                self._is_instance(o, type(o), None)
            return value
        if name == "__dict__":
            if not outside:
                return self.fresh(value)
            found = at or self.root(o)
            self.see(value, found, ("attribute", name))
            return value
        if isinstance(member, types.GetSetDescriptorType | SLOT):
            if outside and not is_plain(value):
                self.decline(f"{name} of a {type(o).__name__} is read")
            if outside:
                return self.see(value, at or self.root(o), ("attribute", name))
            return value if self.is_known(value) else self.fresh(value)
        if type(member).__name__ == "_tuplegetter":
            return self.see(value, at or self.root(o), ("attribute", name), guard=False) if outside else value
        if type(member).__module__ == "enum" or type(member) is types.DynamicClassAttribute:
            return value if self.is_known(value) else self.fresh(value)
        self.decline(f"a {type(member).__name__} computes the attribute {name}")
        return value

    def _require_absent(self, o: Any, name: str, at: Found | None) -> None:
        """Make it a condition that an outer object has no attribute of a name."""
        text = self.name(at, ("attribute", name))
        self.require(functools.partial(_lacks, name), o, True, text, ("lacks", id(o), name))

    def _is_instance(self, o: Any, kind: type, held: Any) -> None:
        """Make an object's class, and the identity of its ``__dict__``, a condition."""
        if kind in CONTAINERS:
            return
        tracked = self.at(o)
        self._kept_alive.append(o)
        self.require(type, o, kind, f"the class of {self.name(tracked.at)}", ("class", id(o)))
        if held is not None and id(held) not in self._contents_before:
            name = f"the attributes of {self.name(tracked.at)}"
            self.require(operator.attrgetter("__dict__"), o, held, name, ("table", id(o)))

    def _is_substituted(self, value: Any) -> bool:
        """Return whether a tensor is in its module only during a call of `functional_call`."""
        return bool(FUNCTIONAL_STATE) and any(
            value is one for lent in list(FUNCTIONAL_STATE.values()) for one in lent.values.values()
        )

    def writing_attribute(self, o: Any, name: str) -> Any:
        """Save the attributes of an outer object before one of them is set or deleted."""
        if isinstance(o, Tensor):
            if not hasattr(type(o), name):
                if id(o) in self.known or id(o) in self.arguments or not self._is_of_call(o):
                    self.decline(f"the attribute {name} of a tensor is set")
                self.tagged[id(o)] = o
            elif name not in ("data", "grad", "requires_grad") and id(o) in self.known:
                self.decline(f"the attribute {name} of a tensor is set")
            return o
        kind = type(o)
        if is_array_or_scalar(o) and whose_class(kind) == "arrays":
            self.decline(f"the attribute {name} of an array is set")
            return o
        if whose_class(kind) == "agrad" and not isinstance(o, type | types.FunctionType):
            tracked = self.at(o)
            if tracked.status != FRESH:
                self.decline(f"the attribute {name} of a {kind.__name__} is set")
            return o
        tracked = self.at(o)
        self.ensure(o)
        self.ensure_special(kind, *SETTERS)
        member = member_of(kind, name)
        if type(member) is property:
            self.ensure(member)
            return o
        if member is not MISSING and is_data(member) and is_python_class(type(member)):
            self.ensure_methods(type(member))
            return o
        if tracked.status != FRESH and is_kept_by_c(kind, name, member):
            self.decline(f"{name} of {self.called(o)} is set")
            return o
        self._before_writing(o, name, tracked)
        if tracked.status == FOUND and type(o) is types.FunctionType:
            self.changing(vars(o))
            self._contents_before.setdefault(id(vars(o)), (vars(o), dict(vars(o))))
            return o
        self.changing(o, f"the attribute {name} of {self.called(o)}")
        return o

    def deleting_attribute(self, o: Any, name: str) -> Any:
        """Save the attributes of an outer object before one is deleted.

        The function may set it again, which puts it last; so names and order of the attributes become a condition.
        """
        self.writing_attribute(o, name)
        held = o if isinstance(o, type | types.ModuleType) else instance_dict(o)
        _, names = self._contents_before.get(id(held), (held, ()))
        if name in names:
            if held is o:
                self.decline(f"the attribute {name} of {self.called(o)} is deleted")
            else:
                text = f"which attributes {self.called(o)} has"
                self.require(equals(list, list(names)), held, True, text, ("names", id(held)))
        return o

    def _before_writing(self, o: Any, name: str, tracked: Tracked) -> None:
        """Make the value of an attribute a condition before it is set or deleted."""
        held = vars(o) if isinstance(o, types.ModuleType) else instance_dict(o)
        if tracked.status == ARGUMENT and held is not None and name in held:
            fields = member_of(type(o), "__dataclass_fields__")
            if fields is MISSING or name not in fields:
                self.decline(f"the attribute {name} of {self.called(o)}, a container among the arguments, is set")
        if tracked.status != FOUND or isinstance(o, type):
            return
        if isinstance(o, types.ModuleType):
            self._require_current(held, self.root(held), ("item", name), vars(o).get(name, MISSING))
            return
        at = tracked.at or self.root(o)
        member = member_of(type(o), name)
        if type(member) is SLOT:
            self._is_instance(o, type(o), None)
            slots = slots_of(o) or {}
            if name in slots:
                self.see(slots[name], at, ("attribute", name))
            else:
                self._require_absent(o, name, at)
        elif held is not None:
            self._is_instance(o, type(o), held)
            self._require_current(held, at, ("attribute", name), held.get(name, MISSING))

    # -- entries ------------------------------------------------------------------------------------------------------

    def item(self, o: Any, key: Any) -> Any:
        """Return an entry; its value is a condition if the container is from outside."""
        kind = type(o)
        if kind in (str, bytes, range):
            self.use(key)
            return o[key]
        if isinstance(o, Tensor):
            self.read_by_agrad(key)
            self.facts(o)
            return self.call_uninstrumented(operator.getitem, o, key)
        if is_array_or_scalar(o):
            tracked = self.at(o)
            self.use(key)
            if isinstance(key, Tensor):
                return self.out_of_agrad(self.call_uninstrumented(operator.getitem, o, key))
            return self._part(o, operator.getitem, key) if is_basic(key) else self._read_values(o, o[key])
        if isinstance(o, type):
            self.use(key)
            if isinstance(o, enum.EnumMeta):
                return self.call_uninstrumented(operator.getitem, o, key)
            return self.fresh(operator.getitem(o, key))  # type: ignore[call-overload]
        tracked = self.at(o)
        getter = member_of(kind, "__getitem__")
        if type(getter) is types.FunctionType:
            self.ensure(o)
            if whose_class(kind) == "agrad":
                self.read_by_agrad(o)
                self.read_by_agrad(key)
                return self.fresh_all(self.out_of_agrad(self.call_uninstrumented(operator.getitem, o, key)))
            return o[key]
        if isinstance(o, CONTAINERS):
            self.ensure(o)
        if not isinstance(o, list | dict | tuple | deque):
            if tracked.status != FRESH or method_effects(kind, "__getitem__") is None:
                self.decline(f"an entry of a {kind.__name__} is read")
                return o[key]
            self.use(key)
            value = o[key]
            return value if self.is_known(value) else self.fresh(value)
        if isinstance(key, float | complex):
            self.use(key)
            self.refuse_nan(key)
        if isinstance(key, Tensor):
            self.identity(key)
        elif type(key) is slice:
            self.use(key)
        else:
            self.hashed(key)
        if tracked.status != FOUND:
            value = o[key]
            if type(value) is kind and type(key) is slice:
                self.fresh(value)
            elif not self.is_known(value):
                if isinstance(o, dict) and member_of(kind, "__missing__") is not MISSING:
                    self.fresh(value)
                else:
                    self.at(value)
            return value
        at = tracked.at or self.root(o)
        if isinstance(o, dict) and not isinstance(key, Tensor):
            value = dict.get(o, key, MISSING)  # only once: a key may count the calls of its `__hash__`
            if value is MISSING:
                makes = member_of(kind, "__missing__")
                if type(makes) not in (type(MISSING), types.FunctionType):
                    self.decline(f"{self.name(at)} creates a missing entry")
                if type(member_of(type(key), "__hash__")) is types.FunctionType:
                    self.decline(
                        f"{self.name(at)} has no entry for a {type(key).__name__}, whose class defines __hash__"
                    )
                else:
                    self.missing(o, key, self.name(at, ("item", key)))
                if makes is MISSING:
                    raise KeyError(key)
                return makes(o, key)
            if self._is_substituted(value):
                return value
            if is_plain(key) or self.is_known(key):
                return self.see(value, at, ("item", key))
        if type(key) is int and isinstance(o, list | tuple):
            if key < 0 and not isinstance(o, tuple):
                self.length(o)
            if -len(o) <= key < len(o):
                return self.see(o[key], at, ("item", key), guard=not isinstance(o, tuple))
            self.length(o)
            return o[key]
        self.whole(o)
        value = o[key]
        if type(key) is slice:
            return self.fresh(value)
        return value

    def length(self, o: Any) -> None:
        """Make the number of entries of an outer container a condition."""
        tracked = self.at(o)
        if (
            tracked.status == FOUND
            and not isinstance(o, tuple | frozenset)
            and id(o) not in self._contents_before
            and id(o) not in self._whole
        ):
            count = counter_of(o)
            self.require(count, o, count(o), f"how many entries {self.called(o)} has", ("len", id(o)))

    def writing_item(self, o: Any) -> Any:
        """Save the content of an outer container before an entry is set or deleted; return the object to do that on."""
        if isinstance(o, Tensor):
            return o
        kind = type(o)
        if is_array_or_scalar(o):
            self.writing(o)
            return IndexProbe(self, o)
        tracked = self.at(o)
        setter = member_of(kind, "__setitem__")
        if type(setter) is types.FunctionType:
            self.ensure(o)
            return o
        if tracked.status != FRESH:
            if tracked.status == ARGUMENT or isinstance(o, dict | list):
                self.changing(o)
            else:
                self.decline(f"an entry of {self.called(o)} is set")
        elif whose_class(kind) == "arrays" or (
            not isinstance(o, list | dict | bytearray)
            and whose_class(kind) == "python"
            and method_effects(kind, "__setitem__") is None
        ):
            self.decline(f"an entry of a {kind.__name__} is set")
        return IndexProbe(self, o) if isinstance(o, list | bytearray) else o

    def iterated(self, v: Any) -> Any:
        """Record a value that is iterated over."""
        kind = type(v)
        if kind in (range, str, bytes):
            return v
        if isinstance(v, Tensor):
            self.facts(v)
            return self.fresh(self.call_uninstrumented(list, v))
        if is_array_or_scalar(v):
            if self.at(v).status != FRESH:
                self.array(v)
            return [self._with_status(x, self.at(v).status) for x in v] if self.at(v).status != FRESH else v
        tracked = self.at(v)
        if isinstance(v, CONTAINERS):
            self.ensure(v)
            if type(member_of(kind, "__iter__")) is types.FunctionType:
                return v
            if tracked.status == FOUND:
                self.whole(v)
            return v
        if kind is types.GeneratorType:
            if tracked.status != FRESH:
                self.decline("a generator from outside is resumed")
            self.driven[id(v.gi_frame)] = v.gi_frame
            return v
        self.ensure(v)
        if tracked.status == FOUND and whose_class(kind) == "python":
            self.decline(f"a {kind.__name__} from outside is iterated over")
        if whose_class(kind) == "agrad":
            self.read_by_agrad(v)
            return self.fresh_all(list(v))
        return v

    # -- reads as a whole: by C, by agrad, or for a text --------------------------------------------------------------

    def use(self, v: Any, depth: int = 0) -> Any:
        """Record that a value is read with everything it holds."""
        kind = type(v)
        if kind is float or kind is int:
            self.condition(v)
            return v
        if kind in PLAIN:
            return v
        if kind is slice:
            for bound in (v.start, v.stop, v.step):
                self.use(bound)
            return v
        if isinstance(v, Tensor):
            return v
        if is_array_or_scalar(v):
            if self.at(v).status != FRESH:
                self.array(v)
            return v
        if isinstance(v, CONTAINERS):
            tracked = self.at(v)
            self.ensure(v)
            self.ensure_special(kind, *TEXTS)
            if tracked.status == FOUND:
                self.whole(v)
            if depth < 8 and len(v) <= 10_000:
                for inside in (*v, *v.values()) if isinstance(v, dict) else tuple(v):
                    self.use(inside, depth + 1)
            return v
        if isinstance(v, type | types.ModuleType) or kind in CONSTANT:
            self.ensure(v)
            return v
        tracked = self.at(v)
        self._graph(v)
        if id(v) in self.views and depth < 8:
            for inside in self.views[id(v)][1]:
                self.use(inside, depth + 1)
        self.ensure(v)
        self.ensure_special(kind, *TEXTS)
        if is_dataclass(kind):
            self.read_unobserved(v, depth)
        if tracked.status == FOUND and whose_class(kind) == "python" and not callable(v):
            self.decline(f"a {kind.__name__} from outside is read")
        return v

    def refuse_nan(self, key: Any) -> None:
        """Decline if a NaN is searched for: its identity decides, and cannot be a condition."""
        if isinstance(key, float) and math.isnan(key):
            self.decline("a container is searched for a NaN")

    def hashed(self, key: Any) -> None:
        """Record an object that becomes a key, or a member of a set: Python calls its ``__hash__`` and ``__eq__``."""
        kind = type(key)
        if kind in PLAIN:
            self.condition(key)
        if kind in PLAIN or isinstance(key, Tensor | type | types.FunctionType | slice):
            return
        if kind is tuple or kind is frozenset:
            for inside in key:
                self.hashed(inside)
            return
        self.ensure(key)
        if is_dataclass(kind):
            self.read_unobserved(key)

    def condition(self, number: Any) -> None:
        """Make the value of a number a condition if the program receives or computes the number."""
        traced = self.tracer.traced_of(number)
        if traced is not None:
            self.tracer.condition(traced)

    def read_by_agrad(self, value: Any, depth: int = 0) -> None:
        """Record everything that agrad's own code may read of an argument."""
        kind = type(value)
        if kind is int or kind is slice:
            for part in (value.start, value.stop, value.step) if kind is slice else (value,):
                self.condition(part)
        if kind in PLAIN or is_array_or_scalar(value) or depth > 12:
            return
        if isinstance(value, CONTAINERS):
            tracked = self.at(value)
            if tracked.status == FOUND:
                self.whole(value)
            for inside in (*value, *value.values()) if isinstance(value, dict) else tuple(value):
                if type(inside) is float or type(inside) is int:
                    self.condition(inside)
                else:
                    self.read_by_agrad(inside, depth + 1)
            return
        if reports_own_settings(value):
            self.see_settings(value)
            return
        if isinstance(value, type | types.ModuleType | Generator) or kind in CONSTANT:
            if isinstance(value, type):
                self.ensure_methods(value)
            return
        self.ensure(value)
        if kind is types.FunctionType:
            return
        if kind is types.MethodType:
            self.ensure_methods(type(value.__self__))
            return
        if isinstance(value, functools.partial):
            self._of_partial(value)
            return
        if id(value) in self._whole:
            return
        tracked = self.at(value)
        self._whole[id(value)] = value
        where = whose_class(kind)
        if where in ("user", "library", "modules"):
            self.ensure_methods(kind)
            if tracked.status == FOUND and not callable(value):
                self._all_of(value, tracked.at or self.root(value), depth)
        elif where == "agrad":
            leads = getattr(kind, "_leads_to", ())
            for name in leads:
                inner = getattr(value, name)
                if tracked.status == FOUND:
                    self.see(inner, tracked.at or self.root(value), ("attribute", name))
                self.read_by_agrad(inner, depth + 1)

    def read_unobserved(self, o: Any, depth: int = 0) -> None:
        """Record everything that a pattern, or Python code without instrumentation, may read of an object: any attribute."""
        self.read_by_agrad(o)
        held = instance_dict(o)
        status = self.at(o).status
        if status == FRESH and depth < 8:
            for inside in [*(held or {}).values(), *(slots_of(o) or {}).values()]:
                self.use(inside, depth + 1)
        if status == ARGUMENT and held is not None:
            fields = member_of(type(o), "__dataclass_fields__")  # the key of the call contains only these
            for name in held:
                if fields is MISSING or name not in fields:
                    self.decline(f"an attribute of {self.called(o)}, a container among the arguments, is read")

    def _all_of(self, o: Any, at: Found, depth: int) -> None:
        """Make all attributes of an outer object conditions."""
        held = instance_dict(o)
        self._is_instance(o, type(o), held)
        if held is not None:
            self.length(self.see(held, at, ("attribute", "__dict__")))
        slots = slots_of(o)
        for name, inside in [*(held or {}).items(), *(slots or {}).items()]:
            self.see(inside, at, ("attribute", name))
            self.read_by_agrad(inside, depth + 1)
        if slots is not None:
            self.require(count_of_slots, o, len(slots), f"the slots of {self.name(at)}", ("slots", id(o)))

    def _of_partial(self, f: Any) -> None:
        """Record the content of a `functools.partial`."""
        tracked = self.at(f)
        if tracked.status == FOUND and id(f) not in self._whole:
            self._whole[id(f)] = f
            at = tracked.at or self.root(f)
            self.see(f.func, at, ("attribute", "func"))
            for name in ("args", "keywords"):
                inside = getattr(f, name)
                self.see(inside, at, ("attribute", name))
                self.whole(inside)
        self.ensure(f.func)

    # -- optimisers ---------------------------------------------------------------------------------------------------

    def see_settings(self, o: Any) -> None:
        """Record the paths to the tensors of an optimiser or a schedule; it reports all its other reads to the recorder."""
        if id(o) in self._whole:
            return
        self._whole[id(o)] = o
        self.tracer.watch_settings(o)
        tracked = self.at(o)
        if tracked.status == FRESH and tracked.at is None:
            return
        at = tracked.at or self.root(o)
        kind = type(o)
        self.require(type, o, kind, f"the class of {self.name(at)}", ("class", id(o)))
        self.ensure_methods(kind)
        for name, value in list(vars(o).items()):
            parts = value if isinstance(value, list | tuple) else [value]
            if name in ("optimizer", "optimizers") or any(reports_own_settings(part) for part in parts):
                self.see(value, at, ("attribute", name))
                inner = Found(value, at, ("attribute", name))
                for i, part in enumerate(parts):
                    if reports_own_settings(part):
                        if isinstance(value, list | tuple):
                            self.see(part, inner, ("item", i))
                        self.see_settings(part)
            elif any(isinstance(part, types.FunctionType | types.MethodType) for part in parts):
                if value is not parts:
                    self.see(value, at, ("attribute", name))
                for part in parts:
                    self.read_by_agrad(part)
        groups = vars(o).get("param_groups")
        if groups is not None:
            self.see(groups, at, ("attribute", "param_groups"))
            self.length(groups)
            inner = Found(groups, at, ("attribute", "param_groups"))
            for i, group in enumerate(groups):
                self.see(group, inner, ("item", i))
                deeper = Found(group, inner, ("item", i))
                tensors = group["params"]
                self.see(tensors, deeper, ("item", "params"))
                self.whole(tensors)
                for t in tensors:
                    self.identity(t)
        state = vars(o).get("state")
        if state is not None:
            self.see(state, at, ("attribute", "state"))
            inner = Found(state, at, ("attribute", "state"))
            for found in search([state], lambda x: isinstance(x, Tensor)):
                before = inner
                chain = found.chain()
                for step in chain[:-1]:
                    before = Found(step.value, before, step.step)
                if chain:
                    count = len(self.order)
                    self.see(found.value, before, chain[-1].step, guard=False)
                    self.optimizer_state.update(map(id, self.order[count:]))


#: Members of `sys` and `os` that are constant within a process.
UNCHANGING: Final = frozenset(
    {
        "version_info",
        "platform",
        "maxsize",
        "byteorder",
        "float_info",
        "version",
        "name",
        "sep",
        "linesep",
        "implementation",
        "hexversion",
    }
)


class IndexProbe:
    """Stands for an array or a list whose entry is set or deleted, and records what that reads of key and value."""

    __slots__ = ("_of", "_tracker")

    def __init__(self, tracker: ReadingHooks, of: Any) -> None:
        self._tracker, self._of = tracker, of

    def __setitem__(self, key: Any, value: Any) -> None:
        self._tracker.use(key)
        if not isinstance(self._of, list):
            self._tracker.use(value)
        elif type(key) is slice:
            value = self._tracker.iterated(value)
        self._of[key] = value

    def __delitem__(self, key: Any) -> None:
        self._tracker.use(key)
        del self._of[key]


def is_basic(key: Any) -> bool:
    """Return whether an array's key selects elements regardless of their values: numbers, slices, an array of integers."""
    if isinstance(key, tuple):
        return all(type(part) in (int, slice, type(None), type(...)) for part in key)
    return type(key) in (int, slice, type(None), type(...)) or (
        is_array_or_scalar(key) and str(key.dtype).startswith(("int", "uint"))
    )


def is_data(member: Any) -> bool:
    """Return whether a member of a class takes precedence over the instance's attribute of the same name."""
    kind = type(member)
    return kind is property or hasattr(kind, "__set__") or hasattr(kind, "__delete__")


def is_kept_by_c(kind: type, name: str, member: Any) -> bool:
    """Return whether C keeps an attribute of instances beside their ``__dict__`` and slots, as `__class__` or `args` of errors."""
    if type(member) is SLOT:
        return not is_python_class(next(each for each in kind.__mro__ if name in vars(each)))
    return type(member) is types.GetSetDescriptorType


def is_empty(cell: types.CellType) -> bool:
    """Return whether a cell has no content."""
    return contents_of(cell) is MISSING


def is_dataclass(kind: type) -> bool:
    """Return whether a class is a dataclass: its generated methods, which have no source, read instances unobserved."""
    return member_of(kind, "__dataclass_fields__") is not MISSING


def count_of_slots(o: Any) -> int:
    """Return the number of an object's slots that hold a value."""
    return len(slots_of(o) or ())


def layout_of(array: Any) -> Any:
    """Return the shape, strides and flags of an array."""
    return array.shape, array.strides, array.flags.num


def _lacks(name: str, o: Any) -> bool:
    """Return whether an object has no attribute of a name."""
    return not hasattr(o, name)
