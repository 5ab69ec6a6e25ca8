"""Op: one function of the namespace, and its general call: from any operands to a kernel, tensors and a node.

`core.entry` handles the common case with code generated for the op; `general` handles every case.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import get_ident
from typing import Any

from agrad.core import errors
from agrad.core.backend import Backend, backend_of, joined, numbers_of, plugins
from agrad.core.cpython import adds_in_place, getframe
from agrad.core.facts import UNKNOWN, WITHOUT_OP, Facts
from agrad.core.mode import get_mode, not_recorded, push, recorder, set_mode
from agrad.core.names import MISSING
from agrad.core.node import Constants, Freed, Node, next_seq, output_of
from agrad.core.once import once
from agrad.core.operands import listed
from agrad.core.plan import Plan, compile_source
from agrad.core.rule import Rule
from agrad.core.saved import pack_node, unpacked
from agrad.core.spec import Spec, Specs
from agrad.core.tensor import Tensor, bases, check_number, wrap

#: Every op by name.
OPS: dict[str, Op] = {}

#: PyTorch's argument names, and the standard's; both appear in the signature of a function that takes both.
ALIASES: dict[str, tuple[str, ...]] = {
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes"),
    "keepdim": ("keepdims",),
    "diagonal": ("k",),
}

#: Up to this many edges are in slots of a node rather than in a tuple.
PAIR = 2

_new = object.__new__


@dataclass(frozen=True)
class OpParameter:
    """One parameter of an op's signature."""

    name: str
    kind: str  # operand, sequence, index, key or param
    by_keyword: bool


def facts_of(name: str) -> Facts:
    """Return the facts about a kernel."""
    known = OPS.get(name) or WITHOUT_OP.get(name)
    return UNKNOWN if known is None else known.facts


def aliases_in(public: inspect.Signature) -> dict[str, str]:
    """Return the parameters that are PyTorch's names for others, each with the other."""
    names = public.parameters
    return {alias: own for alias in names if alias in ALIASES for own in ALIASES[alias] if own in names}


def without_aliases(public: inspect.Signature, *, by_dim: bool = False) -> inspect.Signature:
    """Return the standard's signature: without other names, and with keyword-only parameters where one has another name.

    For an op in which ``dim`` has a different meaning, every parameter but the operand is keyword-only.
    """
    aliases = aliases_in(public)
    if not aliases:
        return public
    kept = [p for p in public.parameters.values() if p.name not in aliases]
    by_name = [p.name for p in kept if p.kind is not p.POSITIONAL_ONLY] if by_dim else aliases.values()
    return public.replace(parameters=[p.replace(kind=p.KEYWORD_ONLY) if p.name in by_name else p for p in kept])


class Op:
    """One function of the namespace: its signature, rule and entry point.

    Attributes
    ----------
    name : str
        As ``"multiply"`` or ``"linalg.solve"``.
    public : inspect.Signature
        The signature for users.
    signature : inspect.Signature
        The standard's signature, as passed to kernels: without PyTorch's argument names.
    aliases : mapping of str to str
        The parameters that are PyTorch's names for others.
    rule : Rule
        The op's derivative.
    kernel : callable or None
        ``kernel(xp, ...)`` in the standard's functions, for backends without their own.
    batch : callable or None
        ``batch(b, ...)``: the op under `vmap` (see `ops.batch_rules`); None where its kind or kernel determines that.
    contracts : callable or None
        ``contracts(specs, *params)``: the axes of its first and second operand over which it sums products.
    least_axes : int
        The least number of axes of the first operand in the standard, where libraries accept fewer and disagree on the meaning.
    shapes : callable or None
        ``shapes(x1_shape, x2_shape, ...)`` refuses shapes that libraries accept but interpret differently.
    by_dim : callable or None
        The function for calls with PyTorch's ``dim``, where it is a different one: ``by_dim(x, dim, ...)``, with the other
        arguments that may be positional.
    others : callable or None
        ``others(x1, x2)``: the operator's result beside an operand that is no array of any backend, or NotImplemented.
    facts : Facts
        Further facts about it.
    writes_through : bool
        Whether in other libraries the result shares memory with the first operand, so that writing to it changes both. Here it
        does not: such a write warns while the operand is alive (see `core.buffers.rebind`).
    entry : callable
        The public function, made by `core.entry.make_entry`.
    whole : callable
        Of a fused op, the function that returns the residuals of its kernel too, without history: ``(result, *residuals)``.
    """

    entry: Callable[..., Any]
    whole: Callable[..., Any]

    _leads_to = ()  # for a search of what a function uses: everything in here is agrad's

    def __init__(
        self,
        name: str,
        public: inspect.Signature,
        rule: Rule,
        *,
        aliases: Mapping[str, str],
        kernel: Callable[..., Any] | None,
        keys: Sequence[str],
        batch: Callable[..., Any] | None = None,
        contracts: Callable[..., Any] | None = None,
        least_axes: int = 0,
        shapes: Callable[..., None] | None = None,
        by_dim: Callable[..., Any] | None = None,
        others: Callable[..., Any] | None = None,
        facts: Facts = UNKNOWN,
    ) -> None:
        self.name = name
        self.facts = facts
        self.writes_through: bool = facts.memory == "view"
        self.rule = rule
        self.kernel = kernel
        self.batch = batch
        self.contracts = contracts
        self.least_axes = least_axes
        self.shapes = shapes
        self.by_dim = by_dim
        self.others = others
        self.public = public
        self.aliases = aliases
        self.signature: inspect.Signature = without_aliases(public, by_dim=by_dim is not None) if aliases else public
        words = name.removeprefix("nn.").replace(".", "_").split("_")
        self.title: str = "".join(word[:1].upper() + word[1:] for word in words) + "Backward0"
        arguments: list[OpParameter] = []
        for p in self.signature.parameters.values():
            kind = "param"
            if p.name == rule.sequence:
                kind = "sequence"
            elif p.name in rule.operands:
                kind = "operand"
            elif p.name in rule.index:
                kind = "key" if p.name in keys else "index"
            arguments.append(OpParameter(p.name, kind, p.kind is p.KEYWORD_ONLY))
        self.arguments: tuple[OpParameter, ...] = tuple(arguments)
        self.array_slots: tuple[tuple[int, OpParameter], ...] = tuple(
            (i, a) for i, a in enumerate(arguments) if a.kind != "param"
        )
        self.operand_slots: tuple[tuple[int, OpParameter], ...] = tuple(
            (i, a) for i, a in enumerate(arguments) if a.kind in ("operand", "sequence")
        )
        self.param_slots: tuple[int, ...] = tuple(i for i, a in enumerate(arguments) if a.kind == "param")
        self.number_slots: tuple[int, ...] = tuple(
            i for i in self.param_slots if "float" in str(self.signature.parameters[arguments[i].name].annotation)
        )
        self.dtype_slot: int | None = next((i for i, a in enumerate(arguments) if a.name == "dtype"), None)
        self.has_key: bool = any(a.kind == "key" for a in arguments)
        self.kernel_of: Callable[[Any], Any] = operator.attrgetter(name)
        self.plans: dict[tuple[tuple[bool, ...], bool, type[Plan]], Plan] = {}
        self.plan_of: dict[Any, Plan] = {}
        self._invoke: Callable[..., Any] | None = None
        self._own: dict[str, Rule] | None = None
        self.compiled: list[Callable[[], None]] = []  # each recompiles a function of generated code

    def __repr__(self) -> str:
        return f"<op {self.name}{self.signature}>"

    @once
    def node_class(self) -> type[Node]:
        """The class of this op's nodes. Made at the first use: there are hundreds of ops."""
        members: dict[str, Any] = {"__slots__": (), "op": self, "title": self.title}
        for name in self.rule.saveable:  # PyTorch's way to inspect one saved value
            members[f"_saved_{name}"] = property(functools.partial(_saved_value, name=name))
        return type(self.title, (Node,), members)

    @once
    def positional(self) -> bool:
        """Whether kernels get all arguments by position, each separately."""
        return all(p.kind <= p.POSITIONAL_OR_KEYWORD for p in self.signature.parameters.values())

    @property
    def own(self) -> dict[str, Rule]:
        """The rules that plugins provide for single backends, by backend name."""
        if self._own is None:
            by_backend = plugins().own_rules(self.name)
            self._own = {name: self.rule_of(**derivatives) for name, derivatives in by_backend.items()}
        return self._own

    def rule_of(self, vjp: Mapping[str, Any], jvp: Callable[..., Any] | None = None) -> Rule:
        """Return the rule with other derivatives, as `agrad.custom` takes them.

        Raises
        ------
        RuleError
            If they do not fit the signature.
        """
        missing = [name for name in self.rule.operands if name not in vjp]
        if missing:
            raise errors.RuleError(f"{self.name}: no derivative is given by {', '.join(missing)}")
        return replace(self.rule, kind="custom", vjp=dict(vjp), jvp=jvp, define=None, joint=(), guarded=True)

    def rule_on(self, backend: Backend) -> Rule:
        """Return the rule of calls on a backend: the plugin's rule for that backend, or the op's."""
        if not self.own:
            return self.rule
        while backend._of is not None:
            backend = backend._of
        return self.own.get(backend.name, self.rule)

    def forget_rules(self) -> None:
        """Query plugins again, and regenerate the code, which knows only the op's own rule."""
        before, self._own = self._own, None
        if bool(before) != bool(self.own):
            for again in self.compiled:
                again()

    def plan(
        self, needs: tuple[bool, ...], *, same_spec: bool = False, kind: type[Plan] = Plan, rule: Rule | None = None
    ) -> Plan:
        """Return the plan for a pattern of needs, made once; for a backend's own rule, if one is given."""
        rule = self.rule if rule is None else rule
        plans = self.plans if rule is self.rule else rule.plans
        key = needs, same_spec, kind
        plan = plans.get(key)
        if plan is None:
            plan = plans.setdefault(key, kind(rule, needs, self.plan_of, same_spec=same_spec))
        return plan

    def invoke(self, kernel: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call a kernel with the values of all arguments, by position or keyword according to the signature."""
        if self.positional:
            return kernel(*values)
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
    """Return the value that a node saved under a name, as a Tensor without history; None if it did not save one."""
    if type(node.saved) is Freed:
        raise errors.second_time(node)
    plan = node.plan
    if plan is None or name not in plan.saves:
        return None
    return _as_tensors(unpacked(node.saved[plan.saves.index(name)]))


def _as_tensors(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_as_tensors, value))
    backend = backend_of(value)
    return value if backend is None else wrap(value, backend.spec(value))


# -- the general call -------------------------------------------------------------------------------------------------


def operate(op: Op, values: tuple[Any, ...]) -> Any:
    """Call the op of an operator; return NotImplemented where an operand is neither an array nor a list of numbers."""
    for value in values:
        if not isinstance(value, Tensor | bool | int | float | complex) and backend_of(value) is None:
            if hasattr(type(value), "__pandas_priority__"):
                raise errors.pandas_operand(op.name, value)
            made = NotImplemented if op.others is None else op.others(*values)
            return _beside_a_list(op, values) if made is NotImplemented else made
    return general(op, values)


def _beside_a_list(op: Op, values: tuple[Any, ...]) -> Any:
    """Call the op of an operator on a tensor and a list or tuple, as NumPy does; NotImplemented if it holds no numbers.

    Python's own meanings take precedence: a list repeated by an integer, and extended by ``+=``.
    """
    tensor = next(value for value in values if isinstance(value, Tensor))
    if op.name == "multiply" and tensor.size == 1 and tensor._spec.backend.kind(tensor.dtype) == "int":
        return NotImplemented
    if op.name == "add" and type(values[0]) is list and adds_in_place(errors.user_frame(getframe(1))):
        return NotImplemented
    operands = tuple(value if value is tensor else listed(value, tensor) for value in values)
    return NotImplemented if any(operand is None for operand in operands) else general(op, operands)


def general(op: Op, values: tuple[Any, ...], *, whole: bool = False) -> Any:
    """Call an op, whatever its operands are: any mix of tensors, raw arrays, scalars, lists, backends and modes.

    Parameters
    ----------
    op : Op
        The op to call.
    values : tuple
        One value per argument of the signature.
    whole : bool, optional
        Whether to return a fused kernel's residuals too, without history: ``(result, *residuals)``.

    Raises
    ------
    BackendError
        If operands belong to unrelated backends.
    TypeError
        If an operand is not an array.
    """
    if op.others is not None and not all(isinstance(value, Tensor) for value in values):
        made = op.others(*values)
        if made is not NotImplemented:
            return made
    for i in op.number_slots:
        check_number(op.name, op.arguments[i].name, values[i])
    mode = get_mode()
    if mode is not None and mode.thread != get_ident():
        mode = None  # another thread's mode
    if mode is not None and mode.levels and any(t._tangents for t in tensors_in(op, values)):
        made = mode.levels[-1].push(op, values, mode)
        if not whole:
            return made
        bare = tuple(wrap(value._raw, value._spec) if isinstance(value, Tensor) else value for value in values)
        return (made, *general(op, bare, whole=True)[1:])
    backends, spec = _backends_in(op, values)
    if len(backends) > 1:
        mixed = _mixed_kernel(op, backends)
        if mixed is not None:
            return _call_mixed(op, values, mixed, mode)
    backend = _one_of(op, backends)
    operands: list[Tensor | None] = []  # flat: all values that a gradient may go to
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
            raw[i] = _key(value, backend, spec)
        else:
            raw[i] = _index(value, backend, spec)
    if op.rule.real:
        specs = [t._spec for t in operands if t is not None]
        if any(s.is_complex for s in specs) or not any(s.is_float for s in specs):
            raise errors.real_only(op.name, [s.dtype for s in specs])
    if op.dtype_slot is not None and raw[op.dtype_slot] is not None:
        raw[op.dtype_slot] = backend.dtype(raw[op.dtype_slot])
    kernel = op.kernel_of(backend.xp)
    if mode is not None and mode.recorder is not None:
        kernel = mode.recorder.around(op, backend, kernel, values, raw)
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
    made = finish(op, backend, result, operands, raw, residuals, recording=recording, given=values)
    return (made, *(None if part is None else wrap(part, backend.spec(part)) for part in residuals)) if whole else made


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
    kind: type[Plan] = Plan,
) -> Any:
    """Make tensors of a kernel's result, with a node where an operand needs one.

    `given` holds the caller's values, from which `raw` was made: the values that the node keeps must not change with the
    caller's own arrays and lists.
    """
    rule = op.rule_on(backend)
    multi_output = rule.outputs is not None
    if multi_output:
        results = [backend.as_array(r) for r in result]
        specs = [backend.spec(r) for r in results]
    else:
        results = [backend.as_array(result)]
        specs = [backend.spec(results[0])]
    needs = tuple([t is not None and t._node is not None for t in operands])  # half the time of a generator
    node = None
    follows = [s.inexact for s in specs]
    if rule.follows is not None and recording and any(needs):
        moving = rule.follows(needs, *(raw[i] for i in op.param_slots))
        follows = [s.inexact and moves for s, moves in zip(specs, moving, strict=True)]
    if recording and rule.kind != "none" and any(needs) and any(follows):
        plan = op.plan(needs, kind=kind, rule=rule)
        node = _new(op.node_class)
        node.seq = next_seq()
        edges = tuple([t._node for t in operands if t is not None and t._node is not None])
        in_slots = len(edges) <= PAIR and not rule.in_tuple
        node.edges = edges[0] if in_slots else edges
        node.second = edges[1] if in_slots and len(edges) == PAIR else None
        known = {a.name: raw[i] for i, a in op.array_slots}
        known["ans"] = tuple(results) if multi_output else results[0]
        known.update(zip(rule.residuals, residuals, strict=True))
        saved = tuple([known[name] for name in plan.saves])
        if op.has_key and not any(map(_holds_array, saved)):
            saved = Constants(saved)
        elif rule.index:
            caller = {a.name: given[i] for i, a in op.array_slots if a.name in rule.index}
            saved = tuple(
                _own(caller[name], value, backend) if name in caller else value
                for name, value in zip(plan.saves, saved, strict=True)
            )
        node.saved = saved
        node.vjp = plan.vjp
        node.spec = Specs(specs) if multi_output else specs[0]
        node.specs = tuple([t._spec if t is not None else None for t in operands])  # type: ignore[misc]
        node.params = tuple([frozen(raw[i]) for i in op.param_slots])
        node.code, node.lasti = errors.caller()
        node.hooks = None
        pack_node(node, operands)
    if not multi_output:
        made_one = wrap(results[0], specs[0], node)
        if op.writes_through and not (op.has_key and _holds_array(raw[1])):
            made_one._base = bases(operands[0])  # type: ignore[arg-type]
        return made_one
    made = [
        wrap(r, s, output_of(node, i) if node is not None and follows[i] else None)
        for i, (r, s) in enumerate(zip(results, specs, strict=True))
    ]
    if op.writes_through:
        for view in made:
            view._base = bases(operands[0])  # type: ignore[arg-type]
    kind = type(result)
    return kind(*made) if hasattr(kind, "_fields") else made if kind is list else tuple(made)


def _holds_array(value: Any) -> bool:
    """Return whether a saved value is worth freeing: an array, or a key that contains one."""
    parts = value if isinstance(value, tuple) else (value,)
    return not all(part is None or part is Ellipsis or isinstance(part, slice | int) for part in parts)


def _own(given: Any, raw: Any, backend: Backend) -> Any:
    """Return an index operand, or the parts of a key, copied where the caller passed an array that may change."""
    if isinstance(given, tuple) and isinstance(raw, tuple):
        return tuple(_own(g, r, backend) for g, r in zip(given, raw, strict=True))
    if isinstance(given, Tensor) or not hasattr(raw, "__setitem__") or backend_of(given) is None:
        return raw
    made = backend.asarray(raw, copy=True)
    recording = recorder()
    if recording is not None:
        recording.alias(made, raw)
    return made


def frozen(value: Any) -> Any:
    """Return a snapshot of a parameter: lists, which the caller may change, become tuples."""
    return tuple(map(frozen, value)) if type(value) in (list, tuple) else value


def tensors_in(op: Op, values: tuple[Any, ...]) -> list[Tensor]:
    """Return the tensors among the operands of a call."""
    found: list[Tensor] = []
    for i, argument in op.operand_slots:
        members = values[i] if argument.kind == "sequence" else (values[i],)
        found.extend(m for m in members if isinstance(m, Tensor))
    return found


def resolve_backend(op: Op, values: tuple[Any, ...]) -> tuple[Backend, Spec | None]:
    """Return the backend that a call runs on, and the spec that Python scalars among its operands follow."""
    backends, spec = _backends_in(op, values)
    return _one_of(op, backends), spec


def _one_of(op: Op, backends: Mapping[str, Backend]) -> Backend:
    """Return the common backend of a call with operands of these backends."""
    if not backends:
        return plugins().default_backend()
    if len(backends) == 1:
        return next(iter(backends.values()))
    found = joined(backends.values())
    if found is None:
        raise errors.mixed_backends(op.name, list(backends))
    return found


def _backends_in(op: Op, values: tuple[Any, ...]) -> tuple[dict[str, Backend], Spec | None]:
    """Return the backends of the operands by name, and the spec that Python scalars among them follow."""
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
                    if member is MISSING:
                        raise errors.not_an_operand(op.name, argument.name, member)
                    continue
                found = backend.spec(member)
            backends[found.backend.name] = found.backend
            # operands determine the dtype of a Python scalar, floating ones first; a condition only where it is the only array
            decides = argument.kind in ("operand", "sequence")
            if spec is None or (decides, found.inexact) > (decided, spec.inexact):
                spec, decided = found, decides
    return backends, spec


def _mixed_kernel(op: Op, backends: Mapping[str, Backend]) -> Callable[..., Any] | None:
    """Return the kernel of a backend that takes operands of these backends unconverted, None if there is none."""
    simple = op.rule.outputs is None and not op.rule.residuals and all(a.kind == "operand" for _, a in op.array_slots)
    for one in [one for one in backends.values() if type(one).mixed is not Backend.mixed] if simple else ():
        kernel = one.mixed(op.name, [other for other in backends.values() if other is not one])
        if kernel is not None:
            return kernel
    return None


def _call_mixed(op: Op, values: tuple[Any, ...], kernel: Callable[..., Any], mode: Any) -> Any:
    """Call a kernel on operands of several backends (`Backend.mixed`); the result belongs to the backend of its array."""
    not_recorded(f"{op.name} takes operands of several backends")
    operands: list[Tensor | None] = []
    raw = list(values)
    for i, argument in op.operand_slots:
        owner = None if isinstance(values[i], Tensor) else backend_of(values[i])
        if owner is not None:
            taken = numbers_of(owner, values[i])
            operands.append(wrap(taken, owner.spec(taken)))
        elif isinstance(values[i], Tensor):
            operands.append(values[i])
        else:
            raise errors.not_an_operand(op.name, argument.name, values[i])
        raw[i] = operands[-1]._raw  # type: ignore[union-attr]
    try:
        result = op.invoke(kernel, raw)
    except Exception as error:
        errors.note_call(error, op.name, tuple(raw[i] for i, _ in op.array_slots))
        raise
    backend = backend_of(result)
    if backend is None:
        raise errors.BackendError(
            f"the kernel of {op.name} on several backends gave a {type(result).__name__}, no array of any"
        )
    recording = mode.grad if mode is not None else True
    return finish(op, backend, result, operands, raw, (), recording=recording, given=values, kind=MixedPlan)


class MixedPlan(Plan):
    """Run a rule on tensors, whose functions find each call's backend, and transfer cotangents to their operands' backends."""

    def _compiled(self) -> tuple[Callable[..., Any], str]:
        run, source = super()._compiled()

        def vjp(_xp: Any, g: Any, saved: tuple[Any, ...], node: Node) -> Any:
            functions, specs = node.spec.backend.functions, node.specs
            wanted = [spec for spec, need in zip(specs, self.needs, strict=True) if need]
            if isinstance(g, Tensor):
                found = run(functions, g, saved, node)
            else:
                before = get_mode()
                try:
                    push(grad=False)
                    tensors = tuple(_as_tensors(value) for value in saved)
                    found = run(functions, _as_tensors(g), tensors, node)
                finally:
                    set_mode(before)
            several = isinstance(found, tuple)
            made = [
                gradient if gradient._spec.backend is spec.backend else gradient.to_device(spec.device)
                for gradient, spec in zip(found if several else (found,), wanted, strict=True)
            ]
            made = made if isinstance(g, Tensor) else [gradient._raw for gradient in made]
            return tuple(made) if several else made[0]

        return vjp, source


def _operand(op: Op, argument: OpParameter, value: Any, backend: Backend, spec: Spec | None) -> Tensor:
    """Return an operand as a Tensor on the backend of the call; a transfer is recorded."""
    if isinstance(value, Tensor):
        return value if value._spec.backend is backend else backend.adopt(value)
    if isinstance(value, bool | int | float | complex) and backend_of(value) is None:
        mere = value
        if isinstance(value, float) and type(value) is not float:
            mere = float.__pos__(value)  # a subclass may note who reads it
        if spec is None:
            raw = backend.asarray(mere)
        elif mere is not value:  # a recording knows it by its array, so no other number shares that
            raw = backend.scalar(mere, spec)
        else:
            raw = spec.number(value) if spec.backend is backend else backend.scalar(value, spec)
        return wrap(raw, backend.spec(raw))
    owner = backend_of(value)
    if owner is None:
        raise errors.not_an_operand(op.name, argument.name, value)
    raw = numbers_of(owner, value)
    made = wrap(raw, owner.spec(raw))
    return made if owner is backend else backend.adopt(made)


def _index(value: Any, backend: Backend, spec: Spec | None) -> Any:
    """Return an index operand as a raw array of the call's backend; pass ints and similar through.

    A list becomes an array beside the operand that has the spec.
    """
    if isinstance(value, Tensor):
        return (value if value._spec.backend is backend else backend.adopt(value))._raw
    if isinstance(value, list | tuple | range):
        where = spec.device if spec is not None and spec.backend is backend else None
        return backend.asarray(list(value), device=where)
    owner = backend_of(value)
    if owner is not None:
        numbers_of(owner, value)  # raises where it is not an index; a library's scalars stay unchanged
    return value if owner is None or owner is backend else backend.receive(owner, value, backend.default_device())


def _key(key: Any, backend: Backend, spec: Spec | None) -> Any:
    """Return an indexing key with its arrays raw, on the call's backend."""
    if isinstance(key, tuple):
        return tuple(_key_part(part, backend, spec) for part in key)
    return _key_part(key, backend, spec)


def _key_part(part: Any, backend: Backend, spec: Spec | None) -> Any:
    if part is None or part is Ellipsis or isinstance(part, int):
        return part
    if isinstance(part, slice):
        # a 0-d integer tensor is an ordinary bound
        return slice(*(b if b is None else operator.index(b) for b in (part.start, part.stop, part.step)))
    return _index(part, backend, spec)
