"""Entry points: the functions that users call, one per op, generated from its signature and rule. The only hot path.

The source is readable (``print(ag.multiply.source)``), compiled at the first call, and visible to tracebacks and debuggers.
It handles the common case: tensors of one backend, possibly with Python numbers, in the usual mode. It hands everything else
to `core.op.general`, which handles every case.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from types import FunctionType
from typing import Any

from agrad.core import errors
from agrad.core.backend import BACKENDS, numbers_of
from agrad.core.cpython import getframe
from agrad.core.mode import get_mode
from agrad.core.names import MISSING, unexpected
from agrad.core.node import Constants, next_seq
from agrad.core.once import FIRST_USE
from agrad.core.op import PAIR, Op, OpParameter, frozen, general, operate
from agrad.core.plan import compile_source
from agrad.core.rule import requests_of
from agrad.core.tensor import Tensor, bases, check_number, wrap


def make_entry(op: Op, stub: Callable[..., Any]) -> Callable[..., Any]:
    """Make the public function of an op. Its source is written and compiled at the first call, not at import."""
    entry = _lazy_function(Source(op))
    entry.__doc__ = stub.__doc__
    entry.__module__ = stub.__module__
    entry.__qualname__ = stub.__qualname__
    entry.__annotations__ = stub.__annotations__
    entry.__signature__ = op.public  # type: ignore[attr-defined]
    entry.__wrapped__ = stub  # type: ignore[attr-defined]  # what inspect.getsource and doctest are to find
    entry.op = op  # type: ignore[attr-defined]
    return entry


def make_operator(op: Op, name: str, *, reflected: bool = False) -> Callable[..., Any]:
    """Make the operator method of `Tensor`, as ``__mul__`` or (reflected) ``__rmul__``."""
    method = _lazy_function(Source(op, name, reflected=reflected))
    method.__qualname__ = f"Tensor.{name}"
    method.__signature__ = _OPERATOR_SIGNATURES[len(op.array_slots)]  # type: ignore[attr-defined]
    return method


#: Signatures of operators by the number of operands.
_OPERATOR_SIGNATURES = {
    1: inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]),
    2: inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in ("self", "other")]),
}


def make_whole(op: Op) -> Callable[..., Any]:
    """Make the function of a fused op that returns the residuals of its kernel too, as tensors without history."""
    return _lazy_function(Source(op, whole=True))


def _first_call(*args: Any, **kwargs: Any) -> Any:
    """Serve as a function until its first call, with its own globals; the code is copied because compiling takes longer."""
    become()  # type: ignore[name-defined]  # noqa: F821
    return function(*args, **kwargs)  # noqa: F821


def _lazy_function(source: Source) -> FunctionType:
    """Make a function that compiles itself from its source at its first call."""
    names: dict[str, Any] = {}
    waiting = _first_call.__code__.replace(co_name=source.name, co_qualname=source.name)
    function = FunctionType(waiting, names, source.name)

    def become() -> None:
        with FIRST_USE:
            if function.__code__ is waiting:  # several threads may make the first call
                built = source.compile(names)
                function.__defaults__, function.__kwdefaults__ = built.__defaults__, built.__kwdefaults__
                function.__code__ = built.__code__

    def again() -> None:
        with FIRST_USE:
            function.__code__ = waiting

    names["become"], names["function"] = become, function
    source.op.compiled.append(again)
    function.source = source  # type: ignore[attr-defined]
    return function


#: The possible bounds of a slice.
_BOUND = (int, type(None))


def is_plain(key: Any) -> bool:
    """Return whether an indexing key consists of slices, Python integers, None and Ellipsis: no arrays, no conversions."""
    for part in key if type(key) is tuple else (key,):
        if type(part) is slice:
            if type(part.start) not in _BOUND or type(part.stop) not in _BOUND or type(part.step) not in _BOUND:
                return False
        elif type(part) is not int and part is not None and part is not Ellipsis:
            return False
    return True


def instead(op: str, own: str, value: Any, default: Any, alias: str, other: Any) -> Any:
    """Return the value of an argument given under its other name; refuse both names at once."""
    if value is not default:
        raise TypeError(f"{op}() got {own}={value!r} and {alias}={other!r}, which are one argument{errors.called()}")
    return other


#: Names that generated code uses, in addition to the op, its node class, its defaults and its derivatives.
_NAMES: dict[str, Any] = {
    "BACKENDS": BACKENDS,
    "Constants": Constants,
    "Tensor": Tensor,
    "bases": bases,
    "check_number": check_number,
    "frozen": frozen,
    "general": general,
    "get_ident": get_ident,
    "get_mode": get_mode,
    "instead": instead,
    "getframe": getframe,
    "internal": errors.INTERNAL_FILES,
    "is_plain": is_plain,
    "missing": MISSING,
    "new": object.__new__,
    "next_seq": next_seq,
    "note_call": errors.note_call,
    "numbers_of": numbers_of,
    "operate": operate,
    "ref": weakref.ref,
    "unexpected": unexpected,
    "user_frame": errors.user_frame,
    "wrap": wrap,
}

#: Names that generated code uses: an op with an argument of such a name goes through `general`.
RESERVED = frozenset(
    {*_NAMES, "Node", "by_dim", "code", "frame", "kept", "mode", "node", "op", "same_spec", "r", "recording", "s", "t"}
)
RESERVED |= {"error", "unknown", "xp"}

#: The most arrays that generated code handles: it has one branch per pattern of needs.
WIDEST = 5

#: Annotations of parameters that are never lists.
_NO_LIST = ("bool", "bool | None", "float", "int", "int | None", "str")


class Source:
    """The source of an op's entry point, of an operator method of `Tensor`, or of `Op.whole`: print it to read it.

    The i-th array of the signature has the spec ``s<i>``, the raw array ``d<i>`` and the node ``n<i>``; the result
    is ``r``, and its Tensor ``t``.

    Examples
    --------
    >>> import agrad as ag
    >>> print(str(ag.exp.source).partition("    elif")[0].rstrip())
    def exp(x=missing, /, **unknown):
        if unknown:
            raise unexpected('exp', unknown)
        mode = get_mode()
        if mode is None:
            recording = True
    """

    __slots__ = ("method", "name", "op", "reflected", "whole")

    def __init__(self, op: Op, method: str = "", *, reflected: bool = False, whole: bool = False) -> None:
        self.op: Op = op
        self.method: str = method
        self.reflected: bool = reflected
        self.whole: bool = whole
        self.name: str = method or op.name.rpartition(".")[2]

    def __str__(self) -> str:
        if writable(self.op):
            return _Writer(self.op, self.method, reflected=self.reflected, whole=self.whole).text()
        lines, call = _outline(self.op, self.method, reflected=self.reflected, whole=self.whole)
        return "\n".join([*lines, f"    return {call}"]) + "\n"

    __repr__ = __str__

    def compile(self, names: dict[str, Any]) -> FunctionType:
        """Return the function, whose globals are `names`."""
        op = self.op
        names |= _NAMES
        names["Node"], names["op"], names["by_dim"] = op.node_class, op, op.by_dim
        for i, p in enumerate(op.public.parameters.values()):
            if p.default is not p.empty:
                names[f"default_{i}"] = p.default
        if writable(op):
            for needs in itertools.product((True, False), repeat=len(op.rule.operands)):
                for same_spec in (
                    (False, True) if op.rule.kind == "elementwise" and any(needs) else (False,) * any(needs)
                ):
                    op.plan(needs, same_spec=same_spec).use_in(names, _vjp_name(needs, same_spec=same_spec))
        used = names.get(self.name)
        file = f"<agrad Tensor.{self.method}>" if self.method else f"<agrad.{op.name}{' whole' * self.whole}>"
        function: FunctionType = compile_source(str(self), file, names)[self.name]
        if used is not None:  # the op is named like something else in its own code, as `op`
            names[self.name] = used
        return function


def writable(op: Op) -> bool:
    """Return whether generated code can handle an op: a few arrays, some perhaps optional, and one result.

    It must have one rule only: where a plugin supplies another for some backend, the general call finds it.
    """
    parameters = op.signature.parameters
    return (
        op.rule.outputs is None
        and not op.own
        and 0 < len(op.array_slots) <= WIDEST
        and all(a.kind in ("operand", "index", "key") for _, a in op.array_slots)
        and all(parameters[a.name].default in (None, inspect.Parameter.empty) for _, a in op.array_slots)
        and all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
        and not any(
            a.name in RESERVED or (a.name[0] in "sdn" and a.name[1:].isdigit()) or a.name.startswith("kept_")
            for a in op.arguments
        )
    )


def _signature_text(op: Op, *, unknown: bool) -> str:
    """Write the signature with defaults by name, as ``x=missing, /, *, axis=default_1, **unknown``.

    Where unknown keywords are taken, Python would first report the operand that one of them was meant for as missing: so
    operands have a default, which `general` refuses.
    """
    parts: list[str] = []
    kinds = inspect.Parameter
    previous: Any = None
    for i, p in enumerate(op.public.parameters.values()):
        if previous is kinds.POSITIONAL_ONLY and p.kind is not kinds.POSITIONAL_ONLY:
            parts.append("/")
        if p.kind is kinds.KEYWORD_ONLY and previous not in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL):
            parts.append("*")
        star = "*" if p.kind is kinds.VAR_POSITIONAL else ""
        default = "=missing" * (unknown and not star) if p.default is p.empty else f"=default_{i}"
        parts.append(f"{star}{p.name}{default}")
        previous = p.kind
    if previous is kinds.POSITIONAL_ONLY:
        parts.append("/")
    if unknown:
        parts.append("**unknown")
    return ", ".join(parts)


def _takes_unknown(op: Op) -> bool:
    """Return whether the function accepts unknown keywords, to raise an error that says what they are called here.

    Not where anything but an array is required: generated code would pass the default on to the kernel.
    """
    arrays = {argument.name for _, argument in op.array_slots if argument.kind != "sequence"}
    parameters = op.public.parameters
    if not parameters.keys().isdisjoint({"unexpected", "unknown"}):
        return False
    return all(p.default is not p.empty or p.kind is p.VAR_POSITIONAL or p.name in arrays for p in parameters.values())


def _outline(op: Op, method: str, *, reflected: bool, whole: bool) -> tuple[list[str], str]:
    """Return the first lines of a function, and the call that handles every case.

    Operators call `operate`, which may return NotImplemented; a reflected one has its Tensor second.
    """
    if method:
        names = [a.name for _, a in op.array_slots]
        parameters = names[::-1] if reflected else names
        return [f"def {method}({', '.join(parameters)}, /):"], f"operate(op, {_tuple(names)})"
    name, unknown = op.name.rpartition(".")[2], _takes_unknown(op) and not whole
    head = [f"def {name}({_signature_text(op, unknown=unknown)}):"]
    head += ["    if unknown:", f"        raise unexpected({name!r}, unknown)"] * unknown
    values = _tuple(a.name for a in op.arguments)
    return [*head, *_alias_lines(op)], f"general(op, {values}{', whole=True' if whole else ''})"


def _alias_lines(op: Op) -> list[str]:
    """Write how PyTorch's names of arguments map to the standard's."""
    lines, defaults = [], {name: f"default_{i}" for i, name in enumerate(op.public.parameters)}
    if op.by_dim is not None:
        x, _, *more = [p.name for p in op.public.parameters.values() if p.kind is not p.KEYWORD_ONLY]
        lines += [f"    if dim is not {defaults['dim']}:"]
        lines += [f"        instead({op.name!r}, 'axis', axis, {defaults['axis']}, 'dim', dim)"]
        lines += [f"        return by_dim({', '.join((x, 'dim', *more))})"]
    for alias, own in op.aliases.items():
        if alias == "dim" and op.by_dim is not None:
            continue
        lines += [f"    if {alias} is not {defaults[alias]}:"]
        lines += [f"        {own} = instead({op.name!r}, {own!r}, {own}, {defaults[own]}, {alias!r}, {alias})"]
    for own in {"axis", "axes"}.intersection(op.aliases.values()):
        lines += [f"    if {own}.__class__ is list:", f"        {own} = frozen({own})"]
    return lines


def _tuple(parts: Iterable[str]) -> str:
    """Write a tuple."""
    parts = list(parts)
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _vjp_name(needs: tuple[bool, ...], *, same_spec: bool = False) -> str:
    """Return the name of the derivative for a pattern of needs in generated code, as ``vjp_10``."""
    return f"vjp_{''.join(str(int(need)) for need in needs)}{'p' if same_spec else ''}"


class _Writer:
    """Write an entry point, piece by piece.

    Attributes
    ----------
    arrays : list of OpParameter
        The array arguments, in the caller's order: for a reflected operator the Tensor is the second.
    lead : str
        The one of them that is certain to be a Tensor where another is a number.
    rest : str
        The call that handles all other cases; operators return NotImplemented through `operate`.
    """

    def __init__(self, op: Op, method: str, *, reflected: bool, whole: bool) -> None:
        self.op, self.rule, self.method, self.whole = op, op.rule, method, whole
        self.names = [a.name for _, a in op.array_slots]
        self.number = {name: i + 1 for i, name in enumerate(self.names)}
        self.raw = [f"d{i}" for i in self.number.values()]
        self.arrays = [a for _, a in op.array_slots]
        if reflected:
            self.arrays.reverse()
        required = [a for a in self.arrays if not self._optional(a)]
        self.lead = next((a for a in required if a.kind == "operand"), required[0]).name
        self.elementwise = self.rule.kind == "elementwise"
        self.lines, self.rest = _outline(op, method, reflected=reflected, whole=whole)

    def text(self) -> str:
        """Return the source."""
        self._mode()
        self._operands()
        self._call()
        self._result()
        if self.rule.operands:
            self._record()
        else:
            self._add(1, "t._node = None")
        backend = f"s{self.number[self.lead]}.backend"
        kept = [f"kept_{name}" for name in self.rule.residuals * self.whole]
        residuals = [f"None if {name} is None else wrap({name}, {backend}.spec({name}))" for name in kept]
        self._add(1, f"return {', '.join(['t', *residuals])}")
        return "\n".join(self.lines) + "\n"

    def _add(self, depth: int, *lines: str) -> None:
        self.lines += [f"{'    ' * depth}{line}" for line in lines]

    def _optional(self, argument: OpParameter) -> bool:
        return self.op.signature.parameters[argument.name].default is None

    def _mode(self) -> None:
        """Write how the call decides whether to record; an unusual mode goes to the general call."""
        self._add(1, "mode = get_mode()", "if mode is None:", "    recording = True")
        self._add(1, "elif mode.simple_in == get_ident():", "    recording = mode.grad")
        self._add(1, "else:", f"    return {self.rest}")

    # -- operands -----------------------------------------------------------------------------------------------------

    def _operands(self) -> None:
        """Write how arrays are looked up. Where there are two alike, either may be a number."""
        others = [a for a in self.arrays if a.name != self.lead]
        if self.method:
            self._first(self.lead, 1)
        elif len(self.arrays) == 2 and not self._optional(others[0]) and len({a.kind for a in self.arrays}) == 1:
            (other,) = others
            self._add(1, f"if isinstance({self.lead}, Tensor):")
            self._first(self.lead, 2)
            self._other(other, self.lead, 2)
            self._add(1, f"elif isinstance({other.name}, Tensor):")
            self._first(other.name, 2)
            self._number(self.lead, other.name, 2)
            self._add(1, "else:", f"    return {self.rest}")
            return
        else:
            self._add(1, f"if not isinstance({self.lead}, Tensor):", f"    return {self.rest}")
            self._first(self.lead, 1)
        for argument in others:
            self._other(argument, self.lead, 1)

    def _look(self, name: str, depth: int) -> None:
        i = self.number[name]
        self._add(depth, f"s{i} = {name}._spec; d{i} = {name}._raw; n{i} = {name}._node")

    def _first(self, name: str, depth: int) -> None:
        """Write the look-up of the array that determines the kernels."""
        i = self.number[name]
        self._look(name, depth)
        self._add(depth, f"xp = s{i}.xp")
        if self.rule.real:
            self._add(depth, f"if not s{i}.is_float:", f"    return {self.rest}")

    def _other(self, argument: OpParameter, lead: str, depth: int) -> None:
        """Write the look-up of an array after the first one, or of a key without arrays."""
        name = argument.name
        i, j = self.number[name], self.number[lead]
        if argument.kind == "key":
            self._add(
                depth, f"if not is_plain({name}):", f"    return {self.rest}", f"d{i} = {name}; s{i} = n{i} = None"
            )
            return
        optional = self._optional(argument)
        if optional:
            self._add(depth, f"if {name} is None:", f"    s{i} = d{i} = n{i} = None")
        self._add(depth, f"{'el' if optional else ''}if isinstance({name}, Tensor):")
        self._look(name, depth + 1)
        unlike = f"(s{i}.xp is not xp or s{i}.is_complex)" if self.rule.real else f"s{i}.xp is not xp"
        self._add(depth + 1, f"if s{i} is not s{j} and {unlike}:", f"    return {self.rest}")
        self._add(depth, "else:")
        if argument.kind == "operand" or not self.rule.operands:
            self._number(name, lead, depth + 1)
        else:
            self._add(depth + 1, f"return {self.rest}")

    def _number(self, name: str, lead: str, depth: int) -> None:
        """Write the look-up of a Python number beside a tensor (a 0-d array that its spec keeps), or of an array of its library."""
        i, j = self.number[name], self.number[lead]
        self._add(depth, f"kept = s{j}.floats if type({name}) is float else s{j}.ints if type({name}) is int else None")
        self._add(depth, "if kept is not None:")
        self._add(depth + 1, f"d{i} = kept.get({name})", f"if d{i} is None:", f"    d{i} = s{j}.scalar({name})")
        # the tensor's spec serves, except for a derivative that requests the shape
        reads_specs = any(f"{name}_spec" in requests_of(derivative) for derivative in self.rule.vjp.values())
        own = f"s{j}.backend.spec(d{i}); n{i} = None"
        self._add(depth + 1, f"s{i} = {own}" if reads_specs else f"s{i} = s{j}; n{i} = None")
        self._add(depth, f"elif BACKENDS.get(type({name})) is s{j}.backend:")
        self._add(depth + 1, f"d{i} = numbers_of(s{j}.backend, {name}); s{i} = {own}")
        if self.rule.real:
            self._add(depth + 1, f"if s{i}.is_complex:", f"    return {self.rest}")
        self._add(depth, "else:", f"    return {self.rest}")

    # -- the kernel and its result ------------------------------------------------------------------------------------

    def _call(self) -> None:
        """Write the kernel call, which adds a note to errors, and the checks before it."""
        op, i = self.op, self.number[self.lead]
        for slot in op.number_slots:  # floats: not tensors that are being differentiated
            name = op.arguments[slot].name
            self._add(1, f"if {name}.__class__ is not float and isinstance({name}, Tensor):")
            self._add(2, f"check_number({op.name!r}, {name!r}, {name})")
        if op.dtype_slot is not None:
            self._add(1, "if dtype is not None:", f"    dtype = s{i}.backend.dtype(dtype)")
        values = {a.name: a.name for a in op.arguments} | dict(zip(self.names, self.raw, strict=True))
        call = ", ".join(f"{a.name}={values[a.name]}" if a.by_keyword else values[a.name] for a in op.arguments)
        results = ", ".join(["r", *(f"kept_{name}" for name in self.rule.residuals)])
        self._add(1, "try:", f"    {results} = xp.{op.name}({call})")
        self._add(
            1, "except Exception as error:", f"    note_call(error, {op.name!r}, {_tuple(self.raw)})", "    raise"
        )
        self._add(1, f"if type(r) is not type(d{i}):", f"    r = s{i}.backend.as_array(r)")

    def _result(self) -> None:
        """Write the Tensor of the result."""
        i = self.number[self.lead]
        same = " and ".join(f"s{i} is s{j}" for j in self.number.values() if j != i)
        self._add(1, "t = new(Tensor)", "t._raw = r")
        if self.op.writes_through:
            self._add(1, f"t._base = bases({self.lead}) if {self.lead}._base else (ref({self.lead}), None)")
        if self.rule.boolean:  # as many booleans as the operands have elements
            self._add(1, f"s = s{i}.booleans{f' if {same} else None' if same else ''}", "if s is None:")
            self._add(2, f"s = s{i}.backend.spec(r)", f"{f'if {same}: ' if same else ''}s{i}.booleans = s")
            self._add(1, "t._spec = s")
        elif self.elementwise:  # same_spec: all operands have the result's spec, which is real
            both = f"{same} and " if same else ""
            if self.op.kernel is not None:  # a user's kernel may still change the dtype
                self._add(1, f"t._spec = s = s{i}.backend.spec(r)", f"same_spec = {both}s is s{i} and s.is_float")
            else:
                self._add(
                    1, f"same_spec = {both}s{i}.is_float", f"t._spec = s = s{i} if same_spec else s{i}.backend.spec(r)"
                )
        else:
            self._add(1, f"t._spec = s = s{i}.backend.spec(r)")

    # -- the node -----------------------------------------------------------------------------------------------------

    def _record(self) -> None:
        """Write the node of a call: the parts that depend on which operands need a gradient, and the common parts."""
        op, numbers = self.op, [self.number[name] for name in self.rule.operands]
        some = " or ".join(f"n{i} is not None" for i in numbers)
        inexact = "(same_spec or s.inexact)" if self.elementwise else "s.inexact"
        self._add(1, f"if recording and {some if len(numbers) == 1 else f'({some})'} and {inexact}:")
        self._add(2, "t._node = node = Node()", "node.seq = next_seq()")
        self._needs((), 2)
        specs = f"node.specs = {_tuple(f's{i}' for i in numbers)}"
        self._add(2, "node.spec = s", f"if not same_spec: {specs}" if self.elementwise else specs)
        if op.param_slots:
            self._add(2, f"node.params = {_tuple(self._kept(slot) for slot in op.param_slots)}")
        self._add(2, "frame = getframe(1)", "node.code = code = frame.f_code", "if code.co_filename in internal:")
        self._add(3, "frame = user_frame(frame)", "node.code = frame.f_code")
        self._add(2, "node.lasti = frame.f_lasti", "node.hooks = None")
        self._add(1, "else:", "    t._node = None")

    def _needs(self, known: tuple[bool, ...], depth: int, otherwise: str = "") -> None:
        """Write one branch per pattern of needs that ends in `known`, from the last operand to the first."""
        names = self.rule.operands
        left = len(names) - len(known)
        if left == 1 and not any(known):  # one of them needs a gradient: it must be the first
            known, left = (True, *known), 0
        if left == 0:
            if otherwise:
                self._add(depth, "else:")
            self._pattern(known, depth + bool(otherwise))
            return
        self._add(depth, f"{otherwise}if n{self.number[names[left - 1]]} is None:")
        self._needs((False, *known), depth + 1)
        self._needs((True, *known), depth, "el")

    def _pattern(self, needs: tuple[bool, ...], depth: int) -> None:
        """Write where cotangents go, what is saved and which derivative runs, for one pattern of needs."""
        rule = self.rule
        edges = [f"n{self.number[name]}" for name, need in zip(rule.operands, needs, strict=True) if need]
        in_slots = len(edges) <= PAIR and not rule.in_tuple
        second = edges[1] if in_slots and len(edges) == PAIR else "None"
        self._add(depth, f"node.edges = {edges[0] if in_slots else _tuple(edges)}; node.second = {second}")
        values = dict(zip(self.names, self.raw, strict=True)) | {n: f"kept_{n}" for n in rule.residuals} | {"ans": "r"}
        saves = self.op.plan(needs).saves
        saved = _tuple(values[name] for name in saves)
        constants = saves and {a.name for a in self.arrays if a.kind == "key"}.issuperset(saves)
        self._add(depth, f"node.saved = {f'Constants({saved})' if constants else saved}")
        vjp = _vjp_name(needs)
        self._add(depth, f"node.vjp = {vjp}p if same_spec else {vjp}" if self.elementwise else f"node.vjp = {vjp}")

    def _kept(self, slot: int) -> str:
        """Write a parameter as a node keeps it: as a tuple where it may be a list."""
        name = self.op.arguments[slot].name
        kind = str(self.op.signature.parameters[name].annotation)
        if slot == self.op.dtype_slot or kind in _NO_LIST:
            return name
        if "tuple[Sequence" in kind:  # lists inside a tuple
            return f"frozen({name})"
        return f"{name} if {name}.__class__ is not list else frozen({name})"
