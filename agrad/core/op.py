"""Op: from a user's call to a kernel and a node. The only hot path.

For every op an entry point is generated from its signature: readable source, compiled at the first call and visible to
tracebacks. It handles what nearly every call is (tensors of one backend, Python scalars, the usual mode) and hands the
rest to `general`, which handles everything.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import get_ident
from types import FunctionType
from typing import Any

from agrad.core import errors
from agrad.core.backend import Backend, backend_of, joined, numbers_of, plugins
from agrad.core.mode import current, get_mode
from agrad.core.node import Freed, Kept, Node, next_seq, output_of
from agrad.core.once import FIRST_USE, once
from agrad.core.rule import Plan, Rule, compile_source
from agrad.core.saved import pack_node, unpacked
from agrad.core.spec import Spec, Specs
from agrad.core.tensor import Tensor, bases, check_number, wrap

#: Every op by name.
OPS: dict[str, Op] = {}

#: Up to so many edges stand in slots of a node rather than in a tuple.
PAIR = 2

_new = object.__new__


@dataclass(frozen=True)
class Argument:
    """One name of an op's signature."""

    name: str
    kind: str  # operand, sequence, index, key or param
    by_keyword: bool


class Op:
    """One function of the namespace: its signature, rule and entry point.

    Attributes
    ----------
    name : str
        As ``"multiply"`` or ``"linalg.solve"``.
    signature : inspect.Signature
        What the user calls.
    rule : Rule
        Its derivative.
    kernel : callable or None
        ``kernel(xp, ...)`` in the standard's functions, for backends that have none of their own.
    batch : callable or None
        ``batch(b, ...)``: what it does under `vmap` (see `ops.batch_rules`); None where that follows from its kind or kernel.
    contracts : callable or None
        ``contracts(specs, *params)``: the axes that it sums products over, of its first and of its second operand.
    least_axes : int
        How many axes the standard asks of the first operand, where libraries take fewer, each in a way of its own.
    entry : callable
        The public function.
    """

    def __init__(
        self,
        name: str,
        stub: Callable[..., Any],
        signature: inspect.Signature,
        rule: Rule,
        *,
        kernel: Callable[..., Any] | None,
        keys: Sequence[str],
        batch: Callable[..., Any] | None = None,
        contracts: Callable[..., Any] | None = None,
        least_axes: int = 0,
    ) -> None:
        self.name = name
        self.rule = rule
        self.kernel = kernel
        self.batch = batch
        self.contracts = contracts
        self.least_axes = least_axes
        self.signature = signature
        words = name.removeprefix("nn.").replace(".", "_").split("_")
        self.title = "".join(word[:1].upper() + word[1:] for word in words) + "Backward0"
        arguments = []
        for p in self.signature.parameters.values():
            kind = "param"
            if p.name == rule.sequence:
                kind = "sequence"
            elif p.name in rule.operands:
                kind = "operand"
            elif p.name in rule.index:
                kind = "key" if p.name in keys else "index"
            arguments.append(Argument(p.name, kind, p.kind is p.KEYWORD_ONLY))
        self.arguments = tuple(arguments)
        self.array_slots = tuple((i, a) for i, a in enumerate(arguments) if a.kind != "param")
        self.operand_slots = tuple((i, a) for i, a in enumerate(arguments) if a.kind in ("operand", "sequence"))
        self.param_slots = tuple(i for i, a in enumerate(arguments) if a.kind == "param")
        self.number_slots = tuple(
            i for i in self.param_slots if "float" in str(self.signature.parameters[arguments[i].name].annotation)
        )
        self.dtype_slot = next((i for i, a in enumerate(arguments) if a.name == "dtype"), None)
        self.has_key = any(a.kind == "key" for a in arguments)
        self.kernel_of = operator.attrgetter(name)
        self.plans: dict[tuple[tuple[bool, ...], bool], Plan] = {}
        self._invoke: Callable[..., Any] | None = None
        self.entry = make_entry(self, stub)

    def __repr__(self) -> str:
        return f"<op {self.name}{self.signature}>"

    @once
    def node_class(self) -> type[Node]:
        """The class of this op's nodes. Made at the first use: there are hundreds of ops."""
        members: dict[str, Any] = {"__slots__": (), "op": self, "title": self.title}
        for name in self.rule.saveable:  # PyTorch's way to look at one saved value
            members[f"_saved_{name}"] = property(functools.partial(_saved_value, name=name))
        return type(self.title, (Node,), members)

    def plan(self, needs: tuple[bool, ...], *, plain: bool = False) -> Plan:
        """Return the plan for a pattern of needs, made once."""
        plan = self.plans.get((needs, plain))
        if plan is None:
            plan = self.plans.setdefault((needs, plain), Plan(self.rule, needs, plain=plain))
        return plan

    def invoke(self, kernel: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call a kernel with the values of all arguments, by position or keyword as the signature has them."""
        if self._invoke is None:
            names = [a.name for a in self.arguments]
            variadic = [p.name for p in self.signature.parameters.values() if p.kind is p.VAR_POSITIONAL]
            call = ", ".join(
                f"*{a.name}" if a.name in variadic else f"{a.name}={a.name}" if a.by_keyword else a.name
                for a in self.arguments
            )
            source = f"def invoke(_kernel, {', '.join(names)}):\n    return _kernel({call})\n"
            self._invoke = compile_source(source, f"<agrad call of {self.name}>", {})["invoke"]
        return self._invoke(kernel, *values)


def _saved_value(node: Any, *, name: str) -> Any:
    """Return what a node saved under a name as a Tensor without history; None where it did not save it."""
    if type(node.saved) is Freed:
        raise errors.second_time(node)
    plan = getattr(node.vjp, "plan", None)
    if plan is None or name not in plan.saves:
        return None
    return _as_tensors(unpacked(node.saved[plan.saves.index(name)]))


def _as_tensors(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_as_tensors, value))
    backend = backend_of(value)
    return value if backend is None else wrap(value, backend.spec(value))


# -- entry points -----------------------------------------------------------------------------------------------------


def make_entry(op: Op, stub: Callable[..., Any]) -> Callable[..., Any]:
    """Make the public function of an op. Its source is written and compiled at the first call, not at import."""

    def build(names: dict[str, Any]) -> FunctionType:
        return _compile_entry(op, _function_source(op), op.name.rpartition(".")[2], f"<agrad.{op.name}>", names)

    entry = _lazy_function(build, op.name.rpartition(".")[2])
    entry.__doc__ = stub.__doc__
    entry.__module__ = stub.__module__
    entry.__qualname__ = stub.__qualname__
    entry.__annotations__ = stub.__annotations__
    entry.__signature__ = op.signature  # type: ignore[attr-defined]
    entry.__wrapped__ = stub  # type: ignore[attr-defined]  # what inspect.getsource and doctest are to find
    entry.op = op  # type: ignore[attr-defined]
    return entry


def make_operator(op: Op, name: str, *, reflected: bool = False) -> Callable[..., Any]:
    """Make the method of `Tensor` for an operator, as ``__mul__`` or (reflected) ``__rmul__``."""

    def build(names: dict[str, Any]) -> FunctionType:
        source = _operator_source(op, name, reflected=reflected)
        return _compile_entry(op, source, name, f"<agrad Tensor.{name}>", names)

    method = _lazy_function(build, name)
    method.__qualname__ = f"Tensor.{name}"
    method.__signature__ = _OPERATOR_SIGNATURES[len(op.array_slots)]  # type: ignore[attr-defined]
    return method


#: Signatures of operators by the number of operands.
_OPERATOR_SIGNATURES = {
    1: inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]),
    2: inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in ("self", "other")]),
}


def _first_call(*args: Any, **kwargs: Any) -> Any:
    """Stand for a function until its first call, over names of its own; its code is copied, as compiling takes longer."""
    become()  # type: ignore[name-defined]  # noqa: F821
    return function(*args, **kwargs)  # noqa: F821


def _lazy_function(build: Callable[[dict[str, Any]], FunctionType], name: str) -> FunctionType:
    """Make a function that becomes what `build` gives when it is first called."""
    names: dict[str, Any] = {}
    waiting = _first_call.__code__.replace(co_name=name, co_qualname=name)
    function = FunctionType(waiting, names, name)

    def become() -> None:
        with FIRST_USE:
            if function.__code__ is waiting:  # several threads may have called it first
                built = build(names)
                function.__defaults__, function.__kwdefaults__ = built.__defaults__, built.__kwdefaults__
                function.__code__ = built.__code__

    names["become"], names["function"] = become, function
    return function


def _compile_entry(op: Op, source: str, name: str, filename: str, names: dict[str, Any]) -> FunctionType:
    names |= {
        "Node": op.node_class,
        "Tensor": Tensor,
        "bases": bases,
        "check_number": check_number,
        "frozen": frozen,
        "general": general,
        "get_ident": get_ident,
        "get_mode": get_mode,
        "getframe": sys._getframe,
        "internal": errors.INTERNAL_FILES,
        "new": _new,
        "note_call": errors.note_call,
        "next_seq": next_seq,
        "op": op,
        "ref": weakref.ref,
        "operate": operate,
        "user_frame": errors.user_frame,
    }
    for i, p in enumerate(op.signature.parameters.values()):
        if p.default is not p.empty:
            names[f"default_{i}"] = p.default
    if _is_fast(op) or _is_wide(op):
        for needs in itertools.product((True, False), repeat=len(op.rule.operands)):
            for plain in (False, True) if op.rule.kind == "elementwise" and any(needs) else (False,) * any(needs):
                tag = "".join(str(int(need)) for need in needs) + ("p" if plain else "")
                op.plan(needs, plain=plain).use_in(names, f"vjp_{tag}")
    used = names.get(name)
    function: FunctionType = compile_source(source, filename, names)[name]
    if used is not None:  # the op is called what its own code calls something else, as `op`
        names[name] = used
    return function


def _signature_text(op: Op) -> str:
    """Write the signature with defaults by name, as ``x, /, *, axis=default_1``."""
    parts: list[str] = []
    kinds = inspect.Parameter
    previous: Any = None
    for i, p in enumerate(op.signature.parameters.values()):
        if previous is kinds.POSITIONAL_ONLY and p.kind is not kinds.POSITIONAL_ONLY:
            parts.append("/")
        if p.kind is kinds.KEYWORD_ONLY and previous not in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL):
            parts.append("*")
        star = "*" if p.kind is kinds.VAR_POSITIONAL else ""
        parts.append(star + p.name + ("" if p.default is p.empty else f"=default_{i}"))
        previous = p.kind
    if previous is kinds.POSITIONAL_ONLY:
        parts.append("/")
    return ", ".join(parts)


#: Names that generated entry points use: an op with an argument of such a name goes through `general`.
RESERVED = frozenset(
    [
        "Node",
        "Tensor",
        "bases",
        "check_number",
        "code",
        "frame",
        "frozen",
        "general",
        "get_ident",
        "get_mode",
        "getframe",
        "internal",
        "kept",
        "mode",
        "new",
        "next_seq",
        "node",
        "op",
        "operate",
        "plain",
        "r",
        "recording",
        "ref",
        "s",
        "t",
        "user_frame",
        "xp",
    ]
)


def _clashes(op: Op) -> bool:
    """Return whether an argument has a name that the generated code uses itself, as ``mode`` or ``s1``."""
    return any(
        a.name in RESERVED or (a.name[0] in "sdn" and a.name[1:].isdigit()) or a.name.startswith("kept_")
        for a in op.arguments
    )


def _is_fast(op: Op) -> bool:
    """Return whether the generated code may handle an op itself: one result, one or two plain tensor operands."""
    rule = op.rule
    kinds = [a.kind for a in op.arguments if a.kind != "param"]
    optional = any(p.default is not p.empty for p in op.signature.parameters.values() if p.name in rule.operands)
    return (
        rule.kind in ("elementwise", "linear", "multilinear", "custom", "none")
        and rule.outputs is None
        and not optional
        and not _clashes(op)
        and kinds in (["operand"], ["operand", "operand"], ["index"], ["index", "index"])
    )


def _all_arguments(op: Op) -> str:
    return f"({''.join(a.name + ', ' for a in op.arguments)})"


def _function_source(op: Op) -> str:
    head = f"def {op.name.rpartition('.')[2]}({_signature_text(op)}):"
    everything = f"general(op, {_all_arguments(op)})"
    names = [a.name for a in op.arguments if a.kind != "param"]
    if _is_fast(op):
        return _fast_source(op, head, names, names, everything, first_is_tensor=False)
    if _is_wide(op):
        return _wide_source(op, head, everything)
    return f"{head}\n    return {everything}\n"


def _operator_source(op: Op, name: str, *, reflected: bool) -> str:
    names = [a.name for a in op.arguments if a.kind != "param"]
    head = f"def {name}({', '.join(reversed(names) if reflected else names)}, /):"
    return _fast_source(op, head, names, list(reversed(names)) if reflected else names, "", first_is_tensor=True)


def _fast_source(
    op: Op, head: str, names: list[str], order: list[str], everything: str, *, first_is_tensor: bool
) -> str:
    """Write an entry point.

    Parameters
    ----------
    names : list of str
        The one or two operands, in the order of the op.
    order : list of str
        The same in the order of the caller: for a reflected operator the Tensor is the second operand.
    everything : str
        The call that handles what this code does not; operators answer NotImplemented through `operate`.
    first_is_tensor : bool
        The caller's first operand is a Tensor for sure: this is a method.
    """
    rule = op.rule
    preserving = rule.kind == "elementwise"
    everything = everything or f"operate(op, ({''.join(n + ', ' for n in names)}))"
    lines = [head]
    add = lines.append
    number = {name: i + 1 for i, name in enumerate(names)}
    scalars = len(names) == 2 and not op.param_slots and op.name not in ("matmul", "vecdot")

    def unpack(name: str, indent: str) -> None:
        i = number[name]
        add(f"{indent}s{i} = {name}._spec; d{i} = {name}._raw; n{i} = {name}._node")

    def scalar(name: str, like: str, indent: str) -> None:
        i, j = number[name], number[like]
        if not scalars:
            add(f"{indent}return {everything}")
            return
        add(f"{indent}kept = s{j}.floats if type({name}) is float else s{j}.ints if type({name}) is int else None")
        add(f"{indent}if kept is None or not s{j}.inexact:")
        add(f"{indent}    return {everything}")
        add(f"{indent}d{i} = kept.get({name})")
        add(f"{indent}if d{i} is None:")
        add(f"{indent}    d{i} = s{j}.scalar({name})")
        add(f"{indent}s{i} = s{j}; n{i} = None")

    first, second = order[0], order[1] if len(order) == 2 else None
    if first_is_tensor:
        unpack(first, "    ")
        if second:
            add(f"    if isinstance({second}, Tensor):")
            unpack(second, "        ")
            add("    else:")
            scalar(second, first, "        ")
    else:
        add(f"    if isinstance({first}, Tensor):")
        unpack(first, "        ")
        if second:
            add(f"        if isinstance({second}, Tensor):")
            unpack(second, "            ")
            add("        else:")
            scalar(second, first, "            ")
            if scalars:
                add(f"    elif isinstance({second}, Tensor):")
                unpack(second, "        ")
                scalar(first, second, "        ")
        add("    else:")
        add(f"        return {everything}")
    _write_mode(add, everything)
    add("    xp = s1.xp")
    if second:
        add("    if s2 is not s1 and s2.xp is not xp:")
        add(f"        return {everything}")
    if rule.real:
        add(f"    if not s1.plain{' or not s2.plain' if second else ''}:")
        add(f"        return {everything}")
    _write_checks(add, op)
    if op.dtype_slot is not None:
        add("    if dtype is not None:")
        add("        dtype = s1.backend.dtype(dtype)")
    raw = {name: f"d{i}" for name, i in number.items()}
    call = ", ".join(
        f"{a.name}={raw.get(a.name, a.name)}" if a.by_keyword else raw.get(a.name, a.name) for a in op.arguments
    )
    _write_call(add, op, "r", call, raw)
    tensor_side = number[first]
    add(f"    if type(r) is not type(d{tensor_side}):")
    add(f"        r = s{tensor_side}.backend.as_array(r)")
    add("    t = new(Tensor)")
    add("    t._raw = r")
    if rule.views:
        add(f"    t._base = bases({first}) if {first}._base else (ref({first}), None)")
    if rule.boolean:
        # as many booleans as the operands have elements
        add(f"    s = s1.booleans{' if s1 is s2 else None' if second else ''}")
        add("    if s is None:")
        add("        s = s1.backend.spec(r)")
        add(f"        {'if s1 is s2: ' if second else ''}s1.booleans = s")
        add("    t._spec = s")
    elif preserving:
        # plain: all operands have the result's spec, and that is real
        if op.kernel is not None:  # a user's kernel may change the dtype after all
            add("    t._spec = s = s1.backend.spec(r)")
            add(f"    plain = {'s1 is s2 and ' if second else ''}s is s1 and s.plain")
        else:
            add(f"    plain = {'s1 is s2 and ' if second else ''}s1.plain")
            add("    t._spec = s = s1 if plain else s1.backend.spec(r)")
    else:
        add(f"    t._spec = s = s{tensor_side}.backend.spec(r)")
    if not rule.operands:
        add("    t._node = None")
        add("    return t")
        return "\n".join(lines) + "\n"
    some = "(n1 is not None or n2 is not None)" if second else "n1 is not None"
    add(f"    if recording and {some} and {'(plain or s.inexact)' if preserving else 's.inexact'}:")
    add("        t._node = node = new(Node)")
    add("        node.seq = next_seq()")
    if second:
        for condition, tag, edges in (("n2 is None", "10", "n1"), ("n1 is None", "01", "n2"), ("", "11", "n1")):
            add(f"        {'el' if tag == '01' else ''}{'if ' + condition if condition else 'else'}:")
            _record(add, op, tag, edges, raw, "            ", preserving=preserving)
    else:
        _record(add, op, "1", "n1", raw, "        ", preserving=preserving)
    add("        node.spec = s")
    specs = "(s1, s2)" if second else "(s1,)"
    add(f"        if not plain: node.specs = {specs}" if preserving else f"        node.specs = {specs}")
    _write_end(add, op)
    return "\n".join(lines) + "\n"


def _write_mode(add: Callable[[str], None], everything: str) -> None:
    """Write how an entry point finds out whether to record; an unusual mode is not its business."""
    add("    mode = get_mode()")
    add("    if mode is None:")
    add("        recording = True")
    add("    elif mode.simple_in == get_ident():")
    add("        recording = mode.grad")
    add("    else:")
    add(f"        return {everything}")


def _write_checks(add: Callable[[str], None], op: Op) -> None:
    """Write the check of parameters that may be floats: not tensors whose derivative is being taken."""
    for i in op.number_slots:
        name = op.arguments[i].name
        add(f"    if {name}.__class__ is not float and isinstance({name}, Tensor):")
        add(f"        check_number({op.name!r}, {name!r}, {name})")


def _write_call(add: Callable[[str], None], op: Op, target: str, call: str, raw: dict[str, str]) -> None:
    """Write the call of the kernel; an error it raises gets a note."""
    add("    try:")
    add(f"        {target} = xp.{op.name}({call})")
    add("    except Exception as error:")
    add(f"        note_call(error, {op.name!r}, ({''.join(d + ', ' for d in raw.values())}))")
    add("        raise")


def _as_kept(op: Op, slot: int) -> str:
    """Write a parameter as a node keeps it: a list, where one may be given, as a tuple."""
    name = op.arguments[slot].name
    kind = str(op.signature.parameters[name].annotation)
    if slot == op.dtype_slot or kind in _NO_LIST:
        return name
    if "tuple[Sequence" in kind:  # lists within a tuple
        return f"frozen({name})"
    return f"{name} if {name}.__class__ is not list else frozen({name})"


#: Annotations of parameters that are never lists.
_NO_LIST = ("bool", "bool | None", "float", "int", "int | None", "str")


def _write_end(add: Callable[[str], None], op: Op) -> None:
    """Write what every node gets, and the end of an entry point."""
    if op.param_slots:
        add(f"        node.params = ({''.join(_as_kept(op, i) + ', ' for i in op.param_slots)})")
    add("        frame = getframe(1)")
    add("        node.code = code = frame.f_code")
    add("        if code.co_filename in internal:")
    add("            frame = user_frame(frame)")
    add("            node.code = frame.f_code")
    add("        node.lasti = frame.f_lasti")
    add("        node.hooks = None")
    add("    else:")
    add("        t._node = None")
    add("    return t")


def _record(
    add: Callable[[str], None],
    op: Op,
    tag: str,
    edges: str,
    raw: dict[str, str],
    indent: str,
    *,
    preserving: bool,
) -> None:
    """Write where cotangents go, what is kept and which vjp runs, for one pattern of needs."""
    saves = op.plan(tuple(c == "1" for c in tag)).saves
    saved = "".join((raw.get(name) or {"ans": "r"}.get(name, name)) + ", " for name in saves)
    second = "n2" if tag == "11" else "None"
    if op.rule.in_tuple:
        edges, second = (f"({edges}, n2)" if tag == "11" else f"({edges},)"), "None"
    add(f"{indent}node.edges = {edges}; node.second = {second}")
    add(f"{indent}node.saved = ({saved})")
    add(f"{indent}node.vjp = vjp_{tag}p if plain else vjp_{tag}" if preserving else f"{indent}node.vjp = vjp_{tag}")


#: The most arrays an entry point of `_wide_source` takes: it has a branch per pattern of needs.
WIDEST = 5


def _is_wide(op: Op) -> bool:
    """Return whether `_wide_source` may write the entry point: one result, some operands and index operands."""
    parameters = op.signature.parameters
    kinds = [a.kind for a in op.arguments if a.kind != "param"]
    return (
        op.rule.kind != "none"
        and op.rule.outputs is None
        and not _clashes(op)
        and 0 < len(kinds) <= WIDEST
        and set(kinds) <= {"operand", "index"}
        and all(parameters[a.name].default in (None, inspect.Parameter.empty) for _, a in op.array_slots)
        and all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
    )


def _wide_source(op: Op, head: str, everything: str) -> str:
    """Write the entry point of an op of several operands, some perhaps optional or without derivative, or fused.

    It handles the call where every array is a Tensor of one backend (or None, where that is the default), and floating
    operands beside which other operands are Python numbers.
    """
    rule = op.rule
    lines = [head]
    add = lines.append
    number = {a.name: i + 1 for i, (_, a) in enumerate(op.array_slots)}
    required = [name for name in number if op.signature.parameters[name].default is inspect.Parameter.empty]
    first = next((name for name in required if name in rule.operands), required[0])
    lead = number[first]
    _write_mode(add, everything)
    for name in (first, *(name for name in number if name != first)):
        i = number[name]
        optional = op.signature.parameters[name].default is None
        if optional:
            add(f"    if {name} is None:")
            add(f"        s{i} = d{i} = n{i} = None")
        same = "" if name == first else f" and {name}._spec.xp is xp"
        if rule.real:
            same += f" and {name}._spec.plain" if name == first else f" and not {name}._spec.is_complex"
        add(f"    {'el' if optional else ''}if isinstance({name}, Tensor){same}:")
        add(f"        s{i} = {name}._spec; d{i} = {name}._raw; n{i} = {name}._node")
        add("    else:")
        if name != first and name in rule.operands:
            number_of = f"s{lead}.floats if type({name}) is float else s{lead}.ints if type({name}) is int else None"
            add(f"        kept = {number_of}")
            add(f"        if kept is None or not s{lead}.inexact:")
            add(f"            return {everything}")
            add(f"        d{i} = kept.get({name})")
            add(f"        if d{i} is None:")
            add(f"            d{i} = s{lead}.scalar({name})")
            add(f"        s{i} = s{lead}.backend.spec(d{i}); n{i} = None")
        else:
            add(f"        return {everything}")
        if name == first:
            add(f"    xp = s{i}.xp")
    _write_checks(add, op)
    if op.dtype_slot is not None:
        add("    if dtype is not None:")
        add(f"        dtype = s{lead}.backend.dtype(dtype)")
    raw = {name: f"d{i}" for name, i in number.items()}
    call = ", ".join(
        f"{a.name}={raw.get(a.name, a.name)}" if a.by_keyword else raw.get(a.name, a.name) for a in op.arguments
    )
    kept = {name: f"kept_{name}" for name in rule.residuals}
    _write_call(add, op, ", ".join(("r", *kept.values())), call, raw)
    add(f"    if type(r) is not type(d{lead}):")
    add(f"        r = s{lead}.backend.as_array(r)")
    add("    t = new(Tensor)")
    add("    t._raw = r")
    add(f"    t._spec = s = s{lead}.backend.spec(r)")
    some = " or ".join(f"n{number[name]} is not None" for name in rule.operands)
    add(f"    if recording and ({some}) and s.inexact:")
    add("        t._node = node = new(Node)")
    add("        node.seq = next_seq()")
    _branch(add, op, (), number, {**raw, **kept, "ans": "r"}, "        ")
    add("        node.spec = s")
    add(f"        node.specs = ({''.join(f's{number[name]}, ' for name in rule.operands)})")
    _write_end(add, op)
    return "\n".join(lines) + "\n"


def _branch(
    add: Callable[[str], None],
    op: Op,
    needs: tuple[bool, ...],
    number: dict[str, int],
    raw: dict[str, str],
    indent: str,
) -> None:
    """Write what a node gets for every pattern of needs that begins with `needs`, as nested branches."""
    operands = op.rule.operands
    if len(needs) < len(operands):
        add(f"{indent}if n{number[operands[len(needs)]]} is not None:")
        _branch(add, op, (*needs, True), number, raw, indent + "    ")
        if any(needs) or len(needs) + 1 < len(operands):
            add(f"{indent}else:")
            _branch(add, op, (*needs, False), number, raw, indent + "    ")
        return
    edges = [f"n{number[name]}" for name, need in zip(operands, needs, strict=True) if need]
    in_slots = len(edges) <= PAIR and not op.rule.in_tuple
    add(f"{indent}node.edges = {edges[0] if in_slots else '(' + ', '.join(edges) + ',)'}")
    add(f"{indent}node.second = {edges[1] if in_slots and len(edges) == PAIR else 'None'}")
    add(f"{indent}node.saved = ({''.join(raw[name] + ', ' for name in op.plan(needs).saves)})")
    add(f"{indent}node.vjp = vjp_{''.join(str(int(need)) for need in needs)}")


# -- the general call -------------------------------------------------------------------------------------------------


def operate(op: Op, values: tuple[Any, ...]) -> Any:
    """Call the op of an operator, NotImplemented where an operand is no array."""
    for value in values:
        if not isinstance(value, Tensor | bool | int | float | complex) and backend_of(value) is None:
            return NotImplemented
    return general(op, values)


def general(op: Op, values: tuple[Any, ...]) -> Any:
    """Call an op, whatever its operands are: any mix of tensors, raw arrays, scalars, lists, backends and modes.

    Parameters
    ----------
    op : Op
        What to call.
    values : tuple
        A value per argument of the signature.

    Raises
    ------
    BackendError
        If operands live on unrelated backends.
    TypeError
        If an operand is no array.
    """
    for i in op.number_slots:
        check_number(op.name, op.arguments[i].name, values[i])
    mode = current()
    if mode is not None and mode.levels and any(t._tangents for t in tensors_in(op, values)):
        return mode.levels[-1].push(op, values, mode)
    backend, spec = resolve_backend(op, values)
    operands: list[Tensor | None] = []  # flat: what a gradient may go to
    raw = list(values)
    for i, argument in op.array_slots:
        value = values[i]
        if value is None:
            if argument.kind != "key" and op.signature.parameters[argument.name].default is not None:
                raise errors.not_an_operand(op.name, argument.name, value)
            if argument.kind == "operand":
                operands.append(None)
        elif argument.kind == "sequence":
            members = [_operand(op, argument, v, backend, spec) for v in value]
            operands.extend(members)
            raw[i] = [m._raw for m in members]
        elif argument.kind == "operand":
            member = _operand(op, argument, value, backend, spec)
            operands.append(member)
            raw[i] = member._raw
        elif argument.kind == "key":
            raw[i] = _key(value, backend)
        else:
            raw[i] = _index(value, backend)
    if op.rule.real:
        specs = [t._spec for t in operands if t is not None]
        if any(s.is_complex for s in specs) or not any(s.plain for s in specs):
            raise errors.real_only(op.name, [s.dtype for s in specs])
    if op.dtype_slot is not None and raw[op.dtype_slot] is not None:
        raw[op.dtype_slot] = backend.dtype(raw[op.dtype_slot])
    kernel = op.kernel_of(backend.xp)
    if mode is not None and mode.profiler is not None:
        kernel = mode.profiler.around(op, backend, kernel)
    try:
        result = op.invoke(kernel, raw)
    except Exception as error:
        errors.note_call(error, op.name, tuple(raw[i] for i, _ in op.array_slots))
        raise
    residuals: tuple[Any, ...] = ()
    if op.rule.residuals:
        result, *rest = result
        residuals = tuple(rest)
    recording = mode.grad if mode is not None else True
    return finish(op, backend, result, operands, raw, residuals, recording=recording, given=values)


def finish(
    op: Op,
    backend: Backend,
    result: Any,
    operands: list[Tensor | None],
    raw: list[Any],
    residuals: tuple[Any, ...],
    *,
    recording: bool,
    given: Sequence[Any],
) -> Any:
    """Make tensors of a kernel's result, with a node where an operand needs one.

    `given` is the caller's values, of which `raw` was made: what the node keeps of them must not change with the caller's
    own arrays and lists.
    """
    rule = op.rule
    several = rule.outputs is not None
    results = [backend.as_array(r) for r in result] if several else [backend.as_array(result)]
    specs = [backend.spec(r) for r in results]
    needs = tuple(t is not None and t._node is not None for t in operands)
    node = None
    if recording and rule.kind != "none" and any(needs) and any(s.inexact for s in specs):
        plan = op.plan(needs)
        node = _new(op.node_class)
        node.seq = next_seq()
        edges = tuple(t._node for t in operands if t is not None and t._node is not None)
        in_slots = len(edges) <= PAIR and not rule.in_tuple
        node.edges = edges[0] if in_slots else edges
        node.second = edges[1] if in_slots and len(edges) == PAIR else None
        known = {a.name: raw[i] for i, a in op.array_slots}
        known["ans"] = tuple(results) if several else results[0]
        known.update(zip(rule.residuals, residuals, strict=True))
        saved = tuple(known[name] for name in plan.saves)
        if op.has_key and not any(map(_holds_array, saved)):
            saved = Kept(saved)
        elif rule.index:
            caller = {a.name: given[i] for i, a in op.array_slots if a.name in rule.index}
            saved = tuple(
                _own(caller[name], value, backend) if name in caller else value
                for name, value in zip(plan.saves, saved, strict=True)
            )
        node.saved = saved
        node.vjp = plan.vjp
        node.spec = Specs(specs) if several else specs[0]
        node.specs = tuple(t._spec if t is not None else None for t in operands)  # type: ignore[misc]
        node.params = tuple(frozen(raw[i]) for i in op.param_slots)
        node.code, node.lasti = errors.caller()
        node.hooks = None
        pack_node(node, operands)
    if not several:
        made_one = wrap(results[0], specs[0], node)
        if rule.views and not (op.has_key and _holds_array(raw[1])):
            made_one._base = bases(operands[0])  # type: ignore[arg-type]
        return made_one
    made = [
        wrap(r, s, output_of(node, i) if node is not None and s.inexact else None)
        for i, (r, s) in enumerate(zip(results, specs, strict=True))
    ]
    if rule.views:
        for view in made:
            view._base = bases(operands[0])  # type: ignore[arg-type]
    kind = type(result)
    return kind(*made) if hasattr(kind, "_fields") else made if kind is list else tuple(made)


def _holds_array(value: Any) -> bool:
    """Return whether a saved value is worth freeing: an array, or a key with one in it."""
    parts = value if isinstance(value, tuple) else (value,)
    return not all(part is None or part is Ellipsis or isinstance(part, slice | int) for part in parts)


def _own(given: Any, raw: Any, backend: Backend) -> Any:
    """Return an index operand, or the parts of a key, copied where the caller gave an array that may change."""
    if isinstance(given, tuple) and isinstance(raw, tuple):
        return tuple(_own(g, r, backend) for g, r in zip(given, raw, strict=True))
    if isinstance(given, Tensor) or not hasattr(raw, "__setitem__") or backend_of(given) is None:
        return raw
    return backend.asarray(raw, copy=True)


def frozen(value: Any) -> Any:
    """Return a parameter as it is now: lists, which the caller may change, as tuples."""
    return tuple(map(frozen, value)) if type(value) in (list, tuple) else value


def tensors_in(op: Op, values: tuple[Any, ...]) -> list[Tensor]:
    """Return the tensors among the operands of a call."""
    found: list[Tensor] = []
    for i, argument in op.operand_slots:
        members = values[i] if argument.kind == "sequence" else (values[i],)
        found.extend(m for m in members if isinstance(m, Tensor))
    return found


def resolve_backend(op: Op, values: tuple[Any, ...]) -> tuple[Backend, Spec | None]:
    """Return the backend a call runs on, and the spec that Python scalars among its operands follow."""
    backends: dict[str, Backend] = {}
    spec: Spec | None = None
    decided = False
    for i, argument in op.array_slots:
        value = values[i]
        if argument.kind == "sequence":
            if not isinstance(value, list | tuple):
                raise errors.not_an_operand(op.name, f"{argument.name} (a list or tuple of them)", value)
            members = value
        elif argument.kind == "key" and isinstance(value, tuple):
            members = value
        else:
            members = (value,)
        for member in members:
            if isinstance(member, Tensor):
                found = member._spec
            elif (
                member is None
                or member is Ellipsis
                or isinstance(member, bool | int | float | complex | list | tuple | slice | range)
            ):
                continue
            else:
                backend = backend_of(member)
                if backend is None:
                    continue
                found = backend.spec(member)
            backends[found.backend.name] = found.backend
            # operands decide what a Python scalar becomes, floating ones first; a condition only where it stands alone
            decides = argument.kind in ("operand", "sequence")
            if spec is None or (decides, found.inexact) > (decided, spec.inexact):
                spec, decided = found, decides
    if not backends:
        return plugins().default_backend(), None
    if len(backends) == 1:
        return next(iter(backends.values())), spec
    found_one = joined(backends.values())
    if found_one is not None:
        return found_one, spec
    raise errors.mixed_backends(op.name, list(backends))


def _operand(op: Op, argument: Argument, value: Any, backend: Backend, spec: Spec | None) -> Tensor:
    """Return an operand as a Tensor on the backend of the call; a crossing is recorded."""
    if isinstance(value, Tensor):
        return value if value._spec.backend is backend else backend.adopt(value)
    if isinstance(value, bool | int | float | complex) and backend_of(value) is None:
        if spec is None:
            raw = backend.asarray(value)
        else:
            raw = spec.number(value) if spec.backend is backend else backend.scalar(value, spec)
        return wrap(raw, backend.spec(raw))
    owner = backend_of(value)
    if owner is None:
        raise errors.not_an_operand(op.name, argument.name, value)
    raw = numbers_of(owner, value)
    made = wrap(raw, owner.spec(raw))
    return made if owner is backend else backend.adopt(made)


def _index(value: Any, backend: Backend) -> Any:
    """Return an index operand as a raw array of the call's backend; ints and the like pass through."""
    if isinstance(value, Tensor):
        return (value if value._spec.backend is backend else backend.adopt(value))._raw
    if isinstance(value, list | tuple | range):
        return backend.asarray(list(value))
    owner = backend_of(value)
    if owner is not None:
        numbers_of(owner, value)  # raises where it is no index; scalars of a library stay what they are
    return value if owner is None or owner is backend else backend.receive(owner, value, backend.default_device())


def _key(key: Any, backend: Backend) -> Any:
    """Return an indexing key with its arrays raw, on the call's backend."""
    if isinstance(key, tuple):
        return tuple(_key_part(part, backend) for part in key)
    return _key_part(key, backend)


def _key_part(part: Any, backend: Backend) -> Any:
    if part is None or part is Ellipsis or isinstance(part, int):
        return part
    if isinstance(part, slice):
        # a 0-d integer tensor is a bound like any other
        return slice(*(b if b is None else operator.index(b) for b in (part.start, part.stop, part.step)))
    return _index(part, backend)
