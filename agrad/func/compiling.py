"""``compile``: a function that is captured at its first call and replayed from then on, and means what it meant.

A kept program is found by the specs of all tensors, the other arguments, the modes, and its guards: what functions met in
the capture read of cells, globals and attributes. What no program can hold runs as it is, with one warning.
"""

from __future__ import annotations

import functools
import gc
import math
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from agrad import dtypes, tree
from agrad.core import errors, mode
from agrad.core.backend import PYTHONS_OWN, Backend, backend_of, joined
from agrad.core.buffers import assign_data
from agrad.core.engine import run as run_backward
from agrad.core.history import restore
from agrad.core.node import Freed, Node, ancestors, next_seq, output_of
from agrad.core.once import lock, once
from agrad.core.operands import from_raw
from agrad.core.spec import Spec, Specs
from agrad.core.tensor import Tensor
from agrad.func.arguments import NUMBERS, argument_of, bare, bare_all, is_raw, name_of
from agrad.func.capture import graph_of, hooks_left, introduced, program_of, results_of
from agrad.func.guards import (
    PLAIN,
    Entry,
    Link,
    Outside,
    Reading,
    State,
    at_place,
    changed,
    changed_between,
    guards_of,
    has_grad,
    hooks_at,
    is_no_state,
    is_plain,
    key_of,
    links_along,
    met_code,
    same,
    settings_of,
    state_of,
    tellers_in,
)
from agrad.func.origins import Argument, Found, Reach, target_of
from agrad.func.program import Given, Leaf, Number, Program, Structure
from agrad.func.recording import CaptureError, Hooked
from agrad.func.watching import Condition, Live, Watcher, Whole, backward_of
from agrad.plugin.manager import choice, default_backend
from agrad.random import noting

if TYPE_CHECKING:
    from agrad.func.hooks import Reads

F = TypeVar("F", bound=Callable[..., Any])

_new = object.__new__

#: How many programs are kept for one function, and how many of them may differ in guards alone.
KEPT, BRANCHES = 64, 8


class CompileWarning(UserWarning):
    """A compiled function runs as it is, because no program can hold what it does."""


class CompileError(RuntimeError):
    """What a compiled function replays is not what the function does, or no program holds what has to be one."""


# -- kept programs ------------------------------------------------------------------------------------------------------


@dataclass
class Kept:
    """A program that is kept for a compiled function, with what must hold for it.

    Attributes
    ----------
    program : Program
        What runs: its outputs are the results, the writes, the conditions, and what `backward` needs.
    backend : Backend
        Whose kernels it runs on.
    backward : Program or None
        From what `program` kept, and a cotangent per followed result, to gradients; None where none is wanted.
    links : list of Link
        What must be where it was; the ways to tensors from outside included.
    outside : list of Outside
        Tensors from outside, with the last link to each.
    alone : list of Outside
        Tensors that require a gradient, and whose values are not needed.
    again : list of (Link, Link)
        Another way to a tensor or array from outside that was read, and the one that the program takes.
    hooked : list of (int, tuple)
        Arguments that require a gradient: the place among the leaves, and the hooks on it.
    written : list of (int or Link)
        Per write its target: the place among the leaves of the arguments, or the last link to it.
    conditions : list of Condition
        Values it must compute as they were.
    prologue : list
        What is done before it runs.
    epilogue : list
        What is done when it has run.
    held : list of dict
        Whose entries these change.
    followed : tuple of int
        The numbers of the results that may be differentiated.
    targets : tuple of int
        The inputs that gradients go to.
    saved : tuple of int
        What `backward` needs of `program`.
    same : dict of int to Link
        Per result that is a tensor from outside, the very object, its place among the results, and where it is found.
    hooks : list of (int, callable)
        The hooks that `backward` holds: the number of the value on whose gradient each is, and the hook.
    reads : list of Reads
        What these depend on.
    late : list of Link
        What must be as it was when `backward` runs, too.
    keeps_zero : bool
        They give zeros for zeros, so that zeros may stand for the gradient of a result that nothing came from.
    options : mapping
        How both programs are to run.
    calls : int
        How often it has run.
    """

    program: Program
    backend: Backend
    backward: Program | None
    links: list[Link]
    outside: list[Outside]
    alone: list[Outside]
    again: list[tuple[Link, Link]]
    hooked: list[tuple[int, Any]]
    written: list[Any]
    conditions: list[Condition]
    prologue: list[tuple[Any, ...]]
    epilogue: list[tuple[int, Callable[[float], None]]]
    held: list[dict[Any, Any]]
    followed: tuple[int, ...]
    targets: tuple[int, ...]
    saved: tuple[int, ...]
    same: dict[int, Link]
    hooks: list[tuple[int, Callable[..., Any]]]
    reads: list[Reads]
    late: list[Link]
    keeps_zero: bool
    options: Mapping[str, Any]
    calls: int = 0

    def __post_init__(self) -> None:
        program = self.program
        assert program.arguments is not None
        assert program.results is not None
        place = {number: at for at, number in enumerate(program.inputs)}
        outs = {number: at for at, number in enumerate(program.outputs)}
        self.keys = [(place[number], number) for number in program.keys]
        self.settings = [(place[item[1]], item[2]) for item in self.prologue if item[0] == "setting"]
        self.afterwards = [(outs[number], do) for number, do in self.epilogue]
        self.asked = [(outs[c.number], c.value) for c in self.conditions]
        self.leaves = [
            (leaf, outs[leaf.number] if type(leaf) in (Leaf, Number) else -1) for leaf in program.results.leaves
        ]
        self.giving = [(self.same.get(i, leaf), at) for i, (leaf, at) in enumerate(self.leaves)]
        self.puts = [
            (write, link, -1 if write.number is None else outs[write.number])
            for write, link in zip(program.writes, self.written, strict=True)
        ]
        by_place: dict[Any, tuple[int | Link, dict[str, int]]] = {}
        for write, link, at in self.puts:
            by_place.setdefault(link if isinstance(link, int) else link.place, (link, {}))[1][write.what] = at
        #: Of each tensor that is written to: where it is, and the outputs that its value and its gradient are; -1 is none.
        self.assigned = [(link, puts.get("data"), puts.get("grad")) for link, puts in by_place.values()]
        self.kept_outs = [outs[number] for number in self.saved]
        self.followed_outs = [outs[number] for number in self.followed]
        leaves = program.arguments.leaves
        arguments = {leaf.number: at for at, leaf in enumerate(leaves) if type(leaf) is Leaf}
        #: Per input that is a tensor or array among the arguments, its place there.
        self.from_arguments = [(place[number], at) for number, at in arguments.items()]
        #: By number the place among the leaves of the arguments, of those that are Python floats.
        self.floats = {leaf.number: at for at, leaf in enumerate(leaves) if type(leaf) is Number}
        #: Whether each leaf is a tensor or array of its own.
        self.has_arrays_alone = len(arguments) == len(leaves)
        #: Whether a call is nothing but what it returns.
        self.only_computes = not (
            self.prologue or self.epilogue or self.held or program.keys or self.conditions or program.writes
        )
        places: dict[int, int | Link] = {**arguments}
        places |= {outside.number: outside.link for outside in self.outside}
        self.differentiated = [places[number] for number in self.targets]
        treedef = program.results.treedef
        flat = all(child.kind is None for child in treedef.children)
        self.one = treedef.kind is None
        #: What makes the results' container of a list of them; None if there is more to it.
        self.many = treedef.kind if treedef.kind in (tuple, list) and flat else None
        #: What runs where the results are differentiated by way of the steps: gives the values that have hooks, too.
        self.stepwise = program.replaced(outputs=(*program.outputs, *(number for number, _ in self.hooks)))
        self.vjp = _hooked_backward if self.late else _backward
        entry = Entry()
        for link in self.late:
            entry.guard(link)
        #: Of (): whether what hooks and `Function`s read is as it was; a list, or the name of what is not.
        self.enter_backward = entry.function(())
        self.silent = any(step.line.endswith("(backward)") for step in program.steps)
        self.specs: dict[int, Spec] = {}
        self._settings: dict[int, tuple[float, Any]] = {}
        #: Of a Python float: the input.
        self.number = numbers_on(self.backend, program)
        #: Of a call's leaves: the inputs, but for settings and keys, or the name of what is not as it was in the capture.
        self.enter = self.entry(place)

    def entry(self, place: Mapping[int, int]) -> Callable[[Sequence[Any]], list[Any] | str]:
        """Return what checks the guards, and gathers the inputs."""
        assert self.program.arguments is not None
        entry = Entry()
        values = ["None"] * len(place)
        for link in self.links:
            entry.guard(link)
        for outside in self.outside:
            values[place[outside.number]] = entry.tensor(outside)
        for other, link in self.again:
            entry.refuse(f"{entry.at(other)} is not {entry.at(link)}", other.name)
        for at, hooks in self.hooked:
            entry.hooks(f"leaves[{at}]", hooks, f"argument {at}")
        for write, link, _ in self.puts:
            if write.what == "grad" and write.had_grad is not None:
                target = f"leaves[{link}]" if isinstance(link, int) else entry.at(link)
                had = f"{entry.called(has_grad)}({target}) is not {write.had_grad}"
                entry.refuse(had, f"whether {write.target} has a gradient")
        for at, leaf in enumerate(self.program.arguments.leaves):
            if type(leaf) is Number:
                values[place[leaf.number]] = f"{entry.called(self.number)}(leaves[{at}])"
            elif type(leaf) is Leaf:
                values[place[leaf.number]] = f"leaves[{at}]{'' if leaf.raw else '._raw'}"
        apart = list(values)  # what was told apart in the capture is told apart
        if self.puts or self.alone or self.silent:
            targets = (f"leaves[{link}]" if isinstance(link, int) else entry.at(link) for _, link, _ in self.puts)
            apart += (*map(entry.tensor, self.alone), *(f"{target}._raw" for target in targets))
        else:
            apart = [array for array in apart if array.startswith("leaves")]
        apart = [array for array in dict.fromkeys(apart) if array.endswith("._raw")]
        if len(apart) > 1:
            ids = ", ".join(f"id({array})" for array in apart)
            entry.refuse(f"len({{{ids}}}) < {len(apart)}", "which tensors share one array")
        return entry.function(values)

    @once
    def runner(self) -> Callable[..., Sequence[Any]]:
        """What runs the program on raw values."""
        return self.program.runner(self.backend, **self.options)

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run the program on raw values."""
        try:
            return self.runner(*values)
        except Exception as error:
            self.program.explain(error, self.backend, values)
            raise

    def setting(self, at: int, value: float) -> Any:
        """Return the input that a setting is: the last call's where it has not changed."""
        last = self._settings.get(at)
        if last is None or last[0] is not value:
            last = self._settings[at] = value, self.number(value)
        return last[1]

    def gather(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the inputs, but for settings and keys, for a call for which the program holds."""
        values = self.enter(leaves)
        if isinstance(values, str):
            raise CaptureError(f"capture: {values} differs from what it was")
        return values

    def as_captured(self, outs: Sequence[Any]) -> bool:
        """Return whether the values that Python chose its way by are as they were in the capture."""
        return all(same(self.backend.item(outs[at]), value) for at, value in self.asked)

    def is_decided(self, leaves: Sequence[Any]) -> bool:
        """Return whether the numbers among the arguments that Python chose its way by are as they were in the capture."""
        return all(same(leaves[self.floats[c.number]], c.value) for c in self.conditions)

    def beside(self) -> str:
        """Return what it takes beside running the program to do what the function does; "" if nothing."""
        for condition in self.conditions:
            if condition.number not in self.floats:
                return f"capture: a value decides which way it goes ({condition.line})"
        if self.hooks:
            return "capture: it registers hooks on what it computes"
        if self.puts:
            return f"capture: it writes to {self.puts[0][0].target}"
        return "capture: it reads or changes the settings of an optimiser" if self.prologue or self.epilogue else ""

    def made(self, out: Any, at: int) -> Tensor:
        """Return a tensor of an output."""
        backend = self.backend
        spec = self.specs.get(at)
        if spec is None:
            out = backend.as_array(out)
            spec = backend.spec(out)
            if not backend.is_lazy:
                self.specs[at] = spec
        elif not spec.shape:
            out = backend.as_array(out)
        result: Tensor = _new(Tensor)
        result._raw, result._spec, result._node = out, spec, None
        return result

    def returned(
        self,
        outs: Sequence[Any],
        values: list[Any],
        leaves: Sequence[Any],
        *,
        whole: bool,
        made_of: dict[int, Tensor] | None = None,
    ) -> Any:
        """Return what the function would; `made_of` gets the tensors of outputs, by their places."""
        node = self.node(outs, values, leaves) if self.backward is not None else None
        made_of = {} if made_of is None else made_of
        results: list[Any] = []
        for leaf, at in self.giving:
            kind = type(leaf)
            if kind is Leaf:
                made = made_of.get(at)
                if made is None:
                    made = made_of[at] = self.made(outs[at], at)
                    if node is not None and leaf.number in self.followed:
                        place = self.followed.index(leaf.number)
                        made._node = output_of(node, place) if len(self.followed) > 1 else node
                    elif leaf.spent:
                        made._node = spent_node(made)
                results.append(made._raw if leaf.raw else bare(made) if whole else made)
            elif kind is Number:
                results.append(self.backend.item(outs[at]))
            elif kind is Given:
                given = leaves[leaf.place]
                if type(given) is not Tensor:
                    given = as_given(given)
                results.append(bare(given) if whole else given)
            elif kind is Link:
                found = leaf.get(leaf.key)  # its new value, if it gets one, is put there later
                results.append(found if not whole or found._node is not None else bare(self.made(outs[at], at)))
            else:
                results.append(leaf)
        if self.one:
            return results[0]
        assert self.program.results is not None
        return tree.unflatten(self.program.results.treedef, results) if self.many is None else self.many(results)

    def write(self, outs: Sequence[Any], leaves: Sequence[Any], made_of: Mapping[int, Tensor]) -> None:
        """Write what the function would, all or none; a gradient that it returned is that very tensor."""
        changed: list[Tensor] = []
        arrays, specs, grads = [], [], []
        others: list[tuple[Tensor, Tensor | None]] = []  # gradients alone: of what is no leaf, or gets none
        for place, data, grad in self.assigned:
            target: Tensor = leaves[place] if isinstance(place, int) else place.get(place.key)
            value = None
            if grad is not None and grad >= 0:
                value = made_of.get(grad)
                if value is None or value._node is not None:
                    value = self.made(outs[grad], grad)
            if grad is not None and (value is None or not target.is_leaf):
                others.append((target, value))
                value = None
            if data is None and value is None:
                continue
            changed.append(target)
            if data is None:
                arrays.append(target._raw)
                specs.append(target._spec)
            else:
                made = self.made(outs[data], data)
                arrays.append(made._raw)
                specs.append(made._spec)
            grads.append(value)
            if value is not None and value._spec is not specs[-1]:
                target._check_grad(value)
        dropped = [target for target, value in others if value is None and target.is_leaf]
        assign_data(changed, arrays, specs, grads, dropped)
        for target, value in others:
            if not target.is_leaf:
                target.grad = value

    def has_written(self, outs: Sequence[Any], leaves: Sequence[Any]) -> bool:
        """Return whether what the function would write is written."""
        if not outs:
            return False
        for write, link, at in self.puts:
            target = at_place(link, leaves)
            now = target if write.what == "data" else target.grad
            if at >= 0 and now is not None and now._raw is outs[at]:
                return True
        return False

    def node(self, outs: Sequence[Any], values: list[Any], leaves: Sequence[Any]) -> CompiledNode:
        """Return the node of a replay whose results are differentiated."""
        specs = [self.made(outs[at], at)._spec for at in self.followed_outs]
        node: CompiledNode = _new(CompiledNode)
        node.seq = next_seq()
        node.edges, node.second = tuple(at_place(place, leaves)._node for place in self.differentiated), None
        node.saved = tuple(outs[i] for i in self.kept_outs)
        node.vjp = self.vjp
        node.spec = Specs(specs) if len(specs) > 1 else specs[0]
        node.params = ()
        node.code, node.lasti = errors.caller()
        node.hooks = None
        node.kept = self
        node.given = tuple(values)
        return node


def as_number(value: float) -> Any:
    """Return a Python float as an input."""
    return default_backend().asarray(value, dtype="float64")


def numbers_on(backend: Backend, program: Program) -> Callable[[float], Any]:
    """Return what makes inputs of Python floats: arrays of the default backend, brought to one that does not take those."""
    default = default_backend()
    if joined({default, backend}) is backend:
        return as_number
    device = program.device_for((), backend)
    return lambda value: backend.receive(default, as_number(value), device)


# -- gradients of replays -----------------------------------------------------------------------------------------------


class CompiledNode(Node):
    """The call of a kept program whose results are differentiated: runs the captured backward pass."""

    __slots__ = ("given", "kept")
    title = "CompiledBackward0"

    kept: Kept
    given: tuple[Any, ...]


class SpentNode(Node):
    """Stands for a history that was freed."""

    __slots__ = ()
    title = "CompiledBackward0"


def _backward(xp: Any, g: Any, saved: tuple[Any, ...], node: Any) -> tuple[Any, ...]:
    """Return a cotangent per target of a kept program, from one per followed result."""
    kept: Kept = node.kept
    gs = g if isinstance(g, list) else [g]
    if xp is node.spec.backend.functions:
        return _recorded_backward(gs, saved, node)
    full = [
        xp.zeros(spec.shape, dtype=spec.dtype, **spec.backend.creation(spec.device)) if part is None else part
        for part, spec in zip(gs, node.out_specs, strict=True)
    ]
    assert kept.backward is not None
    backend = node.spec.backend
    if any(backend_of(part) is not backend for part in full):  # batched
        tensors = [from_raw(value) for value in (*saved, *full)]
        return tuple(t._raw for t in kept.backward.on_tensors(backend, tensors))
    if type(saved) is Freed:
        raise errors.second_time(node)
    return tuple(map(backend.as_array, kept.backward.run(backend, [*saved, *full], **kept.options)))


def _hooked_backward(xp: Any, g: Any, saved: tuple[Any, ...], node: Any) -> tuple[Any, ...]:
    """Return the same where hooks are part of the backward pass: as in the capture if what they read is as it was."""
    kept: Kept = node.kept
    gs = g if isinstance(g, list) else [g]
    other = kept.enter_backward(())
    as_it_was = isinstance(other, list) and (kept.keeps_zero or all(part is not None for part in gs))
    if as_it_was or xp is node.spec.backend.functions:
        return _backward(xp, g, saved, node)
    if kept.program.functions:
        raise RuntimeError(
            f"{other} is another than at the call of the compiled function, and its backward pass goes through the"
            f" Function {kept.program.functions[0]}, of which the program holds what it computes: do not change it in"
            f" between, or do not compile{errors.at(node)}"
        )
    return _recorded_backward([None if part is None else from_raw(part) for part in gs], saved, node)


def _recorded_backward(gs: list[Any], saved: tuple[Any, ...], node: Any) -> tuple[Any, ...]:
    """Return the same as tensors, recorded: by way of the program's own steps."""
    kept: Kept = node.kept
    if type(saved) is Freed:
        raise errors.second_time(node)
    if kept.program.functions:
        raise RuntimeError(
            f"the second derivative of a compiled function goes through the Function {kept.program.functions[0]}, of"
            f" which the program holds what it computes: call the function itself, not the compiled one{errors.at(node)}"
        )
    functions = node.spec.backend.functions
    edges = dict(zip(kept.targets, node.inputs, strict=True))
    before = mode.get_mode()
    recording = mode.is_grad_enabled()
    try:
        mode.push(grad=True)
        given: list[Any] = []
        targets = {}
        for number, value in zip(kept.program.inputs, node.given, strict=True):
            if number in kept.program.keys:
                given.append(value)
            elif number in edges:  # a node of its own: one may have been made from another
                given.append(functions.positive(restore(value, edges[number])))
                targets[number] = given[-1]._node
            else:
                given.append(from_raw(value))
        outs = kept.stepwise.on_tensors(node.spec.backend, given)
        by_number = dict(zip(kept.stepwise.outputs, outs, strict=True))
        for number, hook in kept.hooks:
            if by_number[number]._node is not None:
                by_number[number].register_hook(hook)
        roots = [(by_number[n]._node, g) for n, g in zip(kept.followed, gs, strict=True) if g is not None]
        nodes = [targets[number] for number in kept.targets]
        found = run_backward(
            [(node, g) for node, g in roots if node is not None],
            retain_graph=recording,
            create_graph=recording,
            targets=nodes,
            accumulate=False,
        )
    finally:
        mode.set_mode(before)
    return tuple(found.get(target) for target in nodes)


def spent_node(result: Tensor) -> Node:
    """Return the node of a result whose history a backward pass within the compiled function has freed."""
    node: Node = object.__new__(SpentNode)
    node.seq = next_seq()
    freed = Freed()
    freed.code, freed.lasti = node.code, node.lasti = errors.caller()
    node.edges, node.second, node.saved, node.vjp = (), None, freed, _spent
    node.spec, node.specs, node.params = result._spec, (), ()
    node.hooks = None
    return node


def _spent(_xp: Any, _g: Any, _saved: tuple[Any, ...], node: Node) -> NoReturn:
    raise errors.second_time(node)


# -- the compiled function ----------------------------------------------------------------------------------------------


class Compiled:
    """A function that is captured at its first call and replayed at later ones: see `compile`.

    Attributes
    ----------
    programs : list of Program
        What is kept.
    """

    _leads_to = ("function",)  # for a compiled function that calls this one

    def __init__(
        self, function: Callable[..., Any], check: Any, explain: bool, fullgraph: bool = False, **options: Any
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._check = check
        self._explain = explain
        self._fullgraph = fullgraph
        self._options = options
        self._kept: dict[Any, list[Kept]] = {}
        self._refused: dict[Any, int] = {}
        self._failures: dict[Any, str] = {}
        self._quick: dict[Any, list[tuple[Kept, Any]]] = {}
        self._lock = lock()

    @property
    def programs(self) -> list[Program]:
        """The programs that are kept."""
        return [kept.program for entry in list(self._kept.values()) for kept in entry]

    def clear(self) -> None:
        """Forget all programs, and give back what they hold."""
        with self._lock:
            self._kept.clear()
            self._quick.clear()
            self._refused.clear()
            self._failures.clear()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and mode.get_mode() is None and not mode.batch_levels.get():
            parts: list[Any] = []
            for argument in args:
                if type(argument) is not Tensor:
                    break
                parts += (argument._spec, argument._node is None)
            else:  # tensors alone, and nothing unusual is on
                for kept, defaults in self._quick.get(tuple(parts), ()):
                    if defaults == (dtypes.get_default_dtype(), choice()):
                        values = kept.enter(args)
                        if type(values) is list:
                            outcome = self._run(kept, values, args, None, whole=False)
                            if outcome is not MISSED:
                                return outcome
        if mode.recorder() is not None:  # part of another program
            return self.function(*args, **kwargs)
        now = mode.current()
        leaves, treedef = tree.flatten((args, kwargs))
        key = self._key(leaves, treedef, now)
        if key is None or mode.batch_levels.get() or (now is not None and (now.levels or now.saved or now.profiler)):
            return self._eager(leaves, treedef)
        differing = None
        for kept in self._kept.get(key, ()):
            difference = kept.enter(leaves)
            if isinstance(difference, list):
                outcome = self._run(kept, difference, leaves, treedef, whole=is_raw(leaves))
                if outcome is not MISSED:
                    return outcome
                difference = f"a value that decides ({', '.join(dict.fromkeys(c.line for c in kept.conditions))})"
            differing = differing or difference
        if self._refused.get(key, 0) >= REFUSALS:
            return self._eager(leaves, treedef)
        with self._lock:
            return self._capture(key, leaves, treedef, differing)

    def _key(self, leaves: list[Any], treedef: tree.TreeDef, now: Any) -> Any:
        """Return what programs are found by; None where none can be kept."""
        parts: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                if hasattr(leaf._spec.backend, "numbers"):
                    return None
                parts += (key_of(leaf._spec), leaf._node is not None)
            elif type(leaf) is float:
                parts.append(float)
            elif isinstance(leaf, float | complex):  # NumPy's are: repr tells -0.0 apart
                parts.append((type(leaf), repr(leaf)))
            elif type(leaf) in PLAIN:
                parts.append((type(leaf), leaf))
            else:
                owner = None if isinstance(leaf, NUMBERS) else backend_of(leaf)
                parts.append(Same(leaf) if owner is None else (key_of(owner.spec(leaf)), "raw"))
        ids = [id(leaf._raw if isinstance(leaf, Tensor) else leaf) for leaf in leaves if type(leaf) not in PLAIN]
        if len(set(ids)) < len(ids):  # one array in several places
            parts.append(tuple(ids.index(i) for i in ids))
        grad = now is None or now.grad
        inference = now is not None and now.inference
        return treedef, tuple(parts), grad, inference, dtypes.get_default_dtype(), default_backend().name

    def _eager(self, leaves: Sequence[Any], treedef: tree.TreeDef | None) -> Any:
        """Call the function as it is; without a structure, the leaves are its arguments."""
        if treedef is None:
            return self.function(*leaves)
        args, kwargs = tree.unflatten(treedef, [as_given(leaf) for leaf in leaves])
        returned = self.function(*args, **kwargs)
        return bare_all(returned) if is_raw(leaves) else returned

    # -- capture ------------------------------------------------------------------------------------------------------

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept | None:
        """Return the kept program for such a call, for those who run it themselves; None where there is none yet.

        Raises
        ------
        CaptureError
            If it is known that there can be none.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        key = self._key(leaves, treedef, mode.current())
        for kept in self._kept.get(key, ()):
            if isinstance(kept.enter(leaves), list) and kept.is_decided(leaves):
                return kept
        if key in self._failures:
            raise CaptureError(self._failures[key])
        return None

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        """Call the function for nothing but its program, which is kept for `find`.

        Raises
        ------
        CaptureError
            If no program can hold the call, or none that gives results of its inputs and does nothing else; or if it fails.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        key = self._key(leaves, treedef, mode.current())
        with self._lock:
            try:
                _, kept, watcher = self._recorded(leaves, treedef)
            except Exception as error:  # noqa: BLE001 (it is told by who asks for the program)
                kept, reason = None, f"capture: the call raises {type(error).__name__}: {error}"
            else:
                reason = str(watcher.failure) if kept is None else kept.beside()
            if kept is None or reason:
                while len(self._failures) > KEPT:
                    self._failures.pop(next(iter(self._failures)))
                self._failures[key] = reason
                raise CaptureError(reason)
            self._kept[key] = [kept, *self._kept.get(key, ())][:BRANCHES]
            while len(self._kept) > KEPT:
                self._forget(next(iter(self._kept)))
        return kept

    def compare(self, kept: Kept, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call the function, and check that a kept program gives the same.

        Raises
        ------
        CompileError
            If it does not.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        self._compare(kept, kept.gather(leaves), leaves, treedef)

    def _recorded(self, leaves: list[Any], treedef: tree.TreeDef) -> tuple[Any, Kept | None, Watcher]:
        """Call the function; return what it returned, the program of what it did, if one can hold that, and the recorder."""
        watcher = Watcher()
        given, values = introduced(watcher, leaves)
        args, kwargs = tree.unflatten(treedef, values)
        roots = [self.function, *(leaf for leaf in leaves if not isinstance(leaf, Tensor))]
        reach = Reach(roots, is_no_state)
        state = state_of(reach)
        watcher.tellers = tellers_in(reach)
        settings = settings_of(watcher.tellers)
        first = next_seq()
        before = mode.get_mode()
        try:
            with met_code() as met:
                mode.push(recorder=watcher)
                watcher.frame = sys._getframe()
                returned = self.function(*args, **kwargs)
        finally:
            mode.set_mode(before)
            watcher.is_open, watcher.frame, watcher.operands = False, None, {}
        if not met.is_whole:
            watcher.give_up(
                CaptureError(
                    "capture: a profiler and a debugger (or coverage) are at work together, or the function starts one of them:"
                    " Python does not tell which functions run, so what they read is not known"
                )
            )
        kept = None
        if watcher.failure is None:
            arguments = Structure(treedef, tuple(given))
            try:
                kept = self._made(watcher, arguments, values, returned, reach, state, settings, met, first)
            except CaptureError as error:
                watcher.give_up(error)
        returned = tree.map(as_python, returned)
        return returned, kept, watcher

    def _capture(self, key: Any, leaves: list[Any], treedef: tree.TreeDef, differing: str | None) -> Any:
        """Call the function, and keep the program of what it does."""
        returned, kept, watcher = self._recorded(leaves, treedef)
        if kept is not None:
            entry = self._kept.setdefault(key, [])
            if self._explain and entry:
                warnings.warn(f"captured again: {differing} differs", CompileWarning, stacklevel=3)
            if len(entry) >= BRANCHES:
                self._refused[key] = REFUSALS
                self._warn(
                    f"{name_of(self.function)} has {BRANCHES} programs that differ in {differing}: from now on it runs"
                    " as it is where none of them holds"
                )
            else:
                entry.insert(0, kept)
                if not treedef.children[1].children and all(type(leaf) is Tensor for leaf in leaves) and key[2]:
                    parts = tuple(part for t in leaves for part in (t._spec, t._node is None))
                    defaults = dtypes.get_default_dtype(), choice()
                    flat = all(child.kind is None for child in treedef.children[0].children)
                    if flat and kept.has_arrays_alone:
                        self._quick.setdefault(parts, []).insert(0, (kept, defaults))
                while len(self._kept) > KEPT:
                    self._forget(next(iter(self._kept)))
        elif watcher.failure is not None and not watcher.later:
            if self._fullgraph:
                reason = str(watcher.failure).removeprefix("capture: ")
                raise CompileError(f"{name_of(self.function)} is not one program: {reason}")
            while len(self._refused) > KEPT:
                self._refused.pop(next(iter(self._refused)))
            self._refused[key] = self._refused.get(key, 0) + 1
            reason = str(watcher.failure).removeprefix("capture: ")
            if self._refused[key] == 1:
                self._warn(f"{name_of(self.function)} runs as it is: {reason}")
        return bare_all(returned) if is_raw(leaves) else returned

    def _forget(self, key: Any) -> None:
        """Let go of the programs of one kind of call."""
        gone = {id(kept) for kept in self._kept.pop(key)}
        for parts, entries in list(self._quick.items()):
            left = [(kept, defaults) for kept, defaults in entries if id(kept) not in gone]
            if left:
                self._quick[parts] = left
            else:
                del self._quick[parts]

    def _warn(self, text: str) -> None:
        warnings.warn(text, CompileWarning, stacklevel=4)

    def _made(
        self,
        watcher: Watcher,
        arguments: Structure,
        values: list[Any],
        returned: Any,
        reach: Reach,
        state: list[State],
        settings: dict[Any, Found],
        met: set[types.CodeType],
        first: int,
    ) -> Kept:
        """Return the kept program of a call that was recorded."""
        from agrad.func.hooks import functions_on, keep_zero, reads_of  # noqa: PLC0415 (only where a call is captured)

        nodes = graph_of(returned, first)
        hooks = hooks_left(watcher, nodes)
        self._check_hooks(watcher, hooks)
        reads = [reads_of(hooked.hook) for hooked in hooks if hooked.hook is not None]
        single = sum(isinstance(leaf, Tensor) and leaf._node is not None for leaf in tree.flatten(returned)[0]) == 1
        late = [*reads, *functions_on(nodes, alone=single)]
        met.update(code for each in late for code in each.codes)
        keeps_zero = single or keep_zero(hooks)
        if watcher.functions and not keeps_zero:
            raise CaptureError(
                f"capture: hooks stand beside the Function {watcher.functions[0]}, and may run only where a gradient comes"
            )
        reading = Reading(met, state)
        reach.look_into(filter(reading.has, reach.data), reading.was_taken)
        other = changed(state, reading)
        if other is not None:
            raise CaptureError(f"capture: {other}: a program would not change it")
        for key, found in changed_between(settings, settings_of(watcher.tellers)).items():
            if key not in watcher.told:
                raise CaptureError(
                    f"capture: the setting {found.origin} is changed by the function itself: a program would not change it;"
                    " let a schedule do it, or change it between calls"
                )
        owner = {id(value._raw): -1 for value in values if isinstance(value, Tensor)}
        known = {id(array) for _, array in watcher.inputs.values()}
        for found in reach.looked_at():
            if not isinstance(found.value, Tensor) or id(found.value._raw) not in known:
                continue
            if (
                found.step == ("attribute", "grad") and id(found.value) not in watcher.met
            ):  # it was there before the call
                continue
            if owner.setdefault(id(found.value._raw), id(found.value)) != id(found.value):
                raise CaptureError(
                    f"capture: {found.origin} is found outside of the arguments and shares its array with an argument, or"
                    " with another tensor from outside: which of them a later call means no program can tell"
                )
        for live in watcher.lives:
            ways_out = [live, *(value for value, array in watcher.returned if array is live.array)]
            if not live.used and not any(leaf is out for leaf in tree.flatten(returned)[0] for out in ways_out):
                watcher.demand(watcher.number_of(live.array), float.__pos__(live))
        for value, array in watcher.returned:
            if not any(leaf is value for leaf in tree.flatten(returned)[0]):
                watcher.demand(watcher.number_of(array), value)
        if watcher.conditions and any(kind == "effect" for kind, *_ in watcher.prologue):
            raise CaptureError(
                f"capture: a value decides ({watcher.conditions[0].line}) in a call that changes an optimiser's state"
            )
        conditions = list(watcher.conditions)
        results = results_of(watcher, returned, values)
        given_back = list(zip(results.leaves, tree.flatten(returned)[0], strict=True))
        taken_in = {number for number, _ in watcher.inputs.values()}
        sought = {
            id(t)
            for leaf, t in given_back
            if isinstance(leaf, Leaf) and not leaf.raw and (leaf.number in taken_in or id(t) in watcher.met)
        }
        ways = {
            id(found.value): found.origin
            for found in reach.looked_at()
            if id(found.value) in sought
            and found.step != ("attribute", "grad")  # another tensor after every backward pass
        }
        new = [
            (leaf.number, tensor)
            for leaf, tensor in given_back
            if isinstance(leaf, Leaf) and leaf.followed and tensor._node is not None and id(tensor) not in ways
        ]
        followed = [(number, tensor) for number, tensor in new if not tensor.is_leaf]
        if len(followed) < len(new):
            raise CaptureError("capture: it returns a leaf that it makes itself, and that requires a gradient")
        backward, targets, saved = backward_of(watcher, [tensor for _, tensor in followed], first, hooks)
        watcher.also = [
            *(condition.number for condition in conditions),
            *(number for number, _ in watcher.epilogue),
            *saved,
        ]
        asked = [item[1] for item in watcher.prologue if item[0] == "setting"]
        program = program_of(watcher, results, arguments, values, reach, asked)
        if not {one.number for one in hooks} <= {number for step in program.steps for number in step.made}:
            raise CaptureError("capture: a hook is registered on a value that no result is computed from")
        tensors = [leaf for leaf in tree.flatten(returned)[0] if isinstance(leaf, Tensor)]
        tensors += [target_of(write.target, values) for write in program.writes]
        tensors += [t.grad for t in tensors if t.is_leaf and t.grad is not None]
        held = {watcher.number_of(array) for array in (*arrays_held(tensors), *watcher.held)}
        held |= {watcher.number_of(live.array) for live in watcher.lives}
        escaped = watcher.escaped({*program.outputs, *(number for number in held if number is not None)})
        if escaped is not None:
            raise CaptureError(
                f"capture: a tensor of shape {tuple(escaped.shape)} that the function made lives on, and is none of what it"
                " returned (a list or an attribute has it)"
            )
        links = list(guards_of(state, reading))
        for found in settings.values():
            if reading.by_hand(found):
                *way, last = links_along(found.origin)
                links += (*way, last._replace(value=found.value))
        the_same = {}
        for i, (_, tensor) in enumerate(given_back):
            if id(tensor) in ways:
                *way, the_same[i] = links_along(ways[id(tensor)])
                links += way
        outside = []
        before = dict(watcher.inputs.values())
        for number, origin in program.outside.items():
            *way, last = links_along(origin)
            links += way
            value = before[number] if origin.way[-1] == ("attribute", "grad") else last.value
            outside.append(Outside.of(number, last, value))
        hooked = [
            (at, hooks_at(value))
            for at, value in enumerate(values)
            if isinstance(value, Tensor) and value._node is not None
        ]
        targets_written: list[int | Link] = []
        for write in program.writes:
            if isinstance(write.target, Argument):
                targets_written.append(write.target.place)
            else:
                *way, last = links_along(write.target)
                links += way
                targets_written.append(last)
        written_grads = {id(target_of(w.target, values)) for w in program.writes if w.what == "grad"}
        looked_at = {
            key for key, what in watcher.grads.items() if what == "read" and key in watcher.met
        } - written_grads
        taken = {id(outside.link.value) for outside in outside}
        followed_alone = {key for key, (t, *_) in watcher.met.items() if t._node is not None and key not in taken}
        alone = []
        for found in reach.looked_at():
            if id(found.value) in followed_alone:
                way = links_along(found.origin)
                links += way[:-1]
                alone.append(Outside.of(-1, way[-1], found.value))
        taken_at = {
            id(link.value): link
            for link in (*(one.link for one in (*outside, *alone)), *targets_written)
            if isinstance(link, Link)
        }
        again = []
        for found, _ in state:
            link = taken_at.get(id(found.value))
            if (
                link is not None
                and found.before is not None
                and found.step != ("attribute", "grad")
                and reading.has(found)
            ):
                *way, last = links_along(found.origin)
                if last.place[:2] != link.place[:2]:
                    links += way
                    again.append((last, link))
        for found in reach.looked_at():
            if id(found.value) in looked_at:
                has = found.value.grad is not None
                links += links_along(found.origin)
                links.append(Link(has_grad, found.value, has, f"whether {found.origin} has a gradient"))
        return Kept(
            program,
            watcher.backend or default_backend(),
            backward,
            [*{link.place: link for link in links}.values(), *watcher.guards],
            outside,
            alone,
            again,
            hooked,
            targets_written,
            conditions,
            list(watcher.prologue),
            list(watcher.epilogue),
            [*{id(one): one for one in watcher.held_by_python}.values()],
            tuple(number for number, _ in followed),
            targets,
            tuple(saved),
            the_same,
            [(one.number, hook) for one in hooks if one.number is not None and (hook := one.hook) is not None],
            reads,
            [link for each in late for link in each.links],
            keeps_zero,
            self._options,
        )

    def _check_hooks(self, watcher: Watcher, left: Sequence[Hooked]) -> None:
        """Refuse hooks that no backward program can hold; `left` are those on what is differentiated outside."""
        outside = {id(tensor._node) for tensor, *_ in watcher.met.values()}
        if any(id(one.node) in outside and one.hook is not None for one in watcher.hooked):
            raise CaptureError(
                "capture: a hook is registered on a tensor that the function did not make: it is there once more after"
                " every call"
            )
        if any(one.handle() is not None for one in left):
            raise CaptureError("capture: the handle of a hook is kept, by which it may be taken away before it runs")
        if any(one.number is None for one in left):
            raise CaptureError("capture: a hook is registered on a tensor within vmap")

    # -- replay -------------------------------------------------------------------------------------------------------

    def _run(self, kept: Kept, values: list[Any], leaves: Sequence[Any], treedef: Any, *, whole: bool) -> Any:
        """Replay a kept program on inputs; give `MISSED` where a value decides otherwise than in the capture."""
        kept.calls = calls = kept.calls + 1
        if self._check and (calls == 1 if self._check == "first" else calls & (calls + 1) == 0):
            return self._compare(kept, values, leaves, treedef)
        if kept.only_computes:
            return kept.returned(self._outputs(kept, values), values, leaves, whole=whole)
        before = [held.copy() for held in kept.held]
        outs: Sequence[Any] = ()
        try:
            if kept.prologue:
                settings = iter(kept.settings)
                for item in kept.prologue:
                    if item[0] == "effect":
                        item[1]()
                    else:
                        at, get = next(settings)
                        values[at] = kept.setting(at, get())
            for at, number in kept.keys:
                seed, counter = kept.program.source_of(number).get_state()
                values[at] = seed, counter + 1  # what is to be given back if what follows is interrupted
                values[at] = kept.program.draw(number)
            outs = self._outputs(kept, values)
            if kept.asked and not kept.as_captured(outs):
                give_back(kept, values)
                return MISSED
            made: dict[int, Tensor] = {}
            returned = kept.returned(outs, values, leaves, whole=whole, made_of=made)
            for at, do in kept.afterwards:
                do(kept.backend.item(outs[at]))
            if kept.puts:  # last, in one go: a call has all of its effects, or none
                kept.write(outs, leaves, made)
        except BaseException:
            if not kept.has_written(outs, leaves):
                any(map(dict.update, kept.held, before))  # each gives None
                give_back(kept, values)
            raise
        return returned

    def _outputs(self, kept: Kept, values: list[Any]) -> Sequence[Any]:
        """Run the program on raw values."""
        if not kept.silent:
            return kept.run(values)
        with kept.backend.quiet():  # as a backward pass is
            return kept.run(values)

    def _compare(self, kept: Kept, values: list[Any], leaves: Sequence[Any], treedef: Any) -> Any:
        """Call the function as it is, and check that a replay gives the same."""
        targets = [at_place(link, leaves) for _, link, _ in kept.puts]
        keys: list[Any] = []
        settings: list[Any] = []
        first = next_seq()
        returned = mode.within(mode.SETTINGS, settings, noting, keys, self._eager, leaves, treedef)
        if len(keys) != len(kept.keys) or len(settings) != len(kept.settings):
            raise self._differs("how many random numbers it draws, or settings it reads")
        for (at, _), key in zip(kept.keys, keys, strict=True):
            values[at] = key
        for (at, _), value in zip(kept.settings, settings, strict=True):
            values[at] = kept.number(value)
        outs = self._outputs(kept, values)
        if not kept.as_captured(outs):
            return returned  # another program's call
        if kept.hooks:
            from agrad.func.hooks import are_alike, hooks_on  # noqa: PLC0415 (as above)

            if not are_alike(hooks_on(graph_of(returned, first)), kept.reads):
                raise self._differs("which hooks it registers, or what they read")
        backend, results = kept.backend, kept.program.results
        assert results is not None
        found, structure = tree.flatten(returned)
        if structure != results.treedef:
            raise self._differs(f"the structure of what it returns, {structure}")
        for path, (leaf, at), now in zip(structure.paths(), kept.leaves, found, strict=True):
            where = f"what it returns{f' at {path}' if path else ''}"
            if isinstance(leaf, Leaf):
                self._check_equal(backend, now._raw if isinstance(now, Tensor) else now, outs[at], where)
            elif isinstance(leaf, Number):
                self._check_equal(backend, now, backend.item(outs[at]), where)
            elif not isinstance(leaf, Given) and now is not leaf and not (is_plain(leaf) and same(now, leaf)):
                raise self._differs(f"{where} ({now!r}, and {leaf!r} in the capture)")
        for (write, _, at), target in zip(kept.puts, targets, strict=True):
            now = target if write.what == "data" else target.grad
            if (now is None) != (write.number is None):
                raise self._differs(f"whether {write.target} has a gradient")
            if at >= 0:
                self._check_equal(backend, now._raw, outs[at], f"what it writes to {write.target}.{write.what}")
        return returned

    def _check_equal(self, backend: Backend, eager: Any, replayed: Any, what: str) -> None:
        """Check that two values are equal to rounding."""
        if isinstance(eager, int | float | complex) and not hasattr(eager, "dtype"):
            if not same(eager, replayed) and not abs(eager - replayed) <= 1e-9 * max(1.0, abs(eager)):
                raise self._differs(f"{what}: {replayed!r}, and {eager!r} without compiling")
            return
        equal = equal_in_bits if self._options["exact"] else equal_to_rounding
        if not equal(backend, backend.as_array(eager), backend.as_array(replayed)):
            raise self._differs(what)

    def _differs(self, what: str) -> CompileError:
        return CompileError(
            f"compile: a replay of {name_of(self.function)} differs from the function in {what}. The call itself is done: its"
            " writes and draws are as without compiling.\n  The function depends on something that no program sees: Python"
            " state that changes between calls in a container or an object (a counter, a list), a number read by math.* of"
            " an argument or item(), the clock, a file. Give it as an argument, keep it in a tensor, or do not compile it"
            f"{errors.called()}"
        )


#: What a replay gives where another program is to run.
MISSED = object()

#: After so many refused captures of one kind of call, it runs as it is.
REFUSALS = 2

#: What PyTorch calls the ways of compiling. They are one here, but for "reduce-overhead" on a backend that knows it.
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class Same:
    """An argument that is no array and no plain value: found by identity, and kept alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


def as_python(leaf: Any) -> Any:
    """Return a number of the program's as Python has it."""
    return float(leaf) if isinstance(leaf, Live) else int(leaf) if isinstance(leaf, Whole) else leaf


def as_given(leaf: Any) -> Any:
    """Return an argument as the function gets it: an array of a library as a Tensor."""
    if isinstance(leaf, Tensor | NUMBERS) or backend_of(leaf) is None:
        return leaf
    return argument_of(leaf, "compile")


def arrays_held(tensors: Iterable[Tensor]) -> Iterator[Any]:
    """Return the arrays of tensors, and those that the graphs behind them keep, parcels of saved-tensor hooks included."""
    nodes: list[Node] = []
    for t in tensors:
        yield t._raw
        if t._node is not None:
            nodes.append(t._node)
    seen: set[int] = set()
    pending: list[Any] = [part for node in ancestors(nodes) for part in (node.saved, node.hooks)]
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, NOT_KEPT):
            continue
        seen.add(id(value))
        if type(value) not in PYTHONS_OWN and backend_of(value) is not None:
            yield value
        else:
            pending.extend(gc.get_referents(value))


#: What a graph refers to and does not keep values for.
NOT_KEPT = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType, str, int, float, Spec, Backend)


def equal_in_bits(backend: Backend, first: Any, second: Any) -> bool:
    """Return whether two arrays are equal; NaN is equal to NaN."""
    if tuple(first.shape) != tuple(second.shape) or first.dtype != second.dtype:
        return False
    xp = backend.xp
    equal = xp.equal(first, second)
    if backend.kind(first.dtype) in ("float", "complex"):
        equal = xp.logical_or(equal, xp.logical_and(xp.isnan(first), xp.isnan(second)))
    return bool(backend.truth(xp.all(equal)))


def equal_to_rounding(backend: Backend, first: Any, second: Any) -> bool:
    """Return whether two arrays are equal, but for rounding of other orders of sums."""
    if tuple(first.shape) != tuple(second.shape) or first.dtype != second.dtype:
        return False
    with backend.quiet():
        return _nearly_equal(backend, first, second)


def _nearly_equal(backend: Backend, first: Any, second: Any) -> bool:
    xp = backend.xp
    equal = xp.equal(first, second)
    if backend.kind(first.dtype) in ("float", "complex"):
        name = backend.dtype_name(first.dtype)
        relative = {"float16": 1e-2, "float32": 1e-4, "complex64": 1e-4}.get(name, 1e-9)
        scale = (
            xp.max(xp.abs(xp.where(xp.isfinite(first), first, xp.zeros_like(first)))) if math.prod(first.shape) else 0
        )
        near = xp.less_equal(xp.abs(first - second), relative * scale)
        both = xp.logical_and(xp.isnan(first), xp.isnan(second))
        equal = xp.logical_or(xp.logical_or(equal, near), both)
    return bool(backend.truth(xp.all(equal)))


def give_back(kept: Kept, values: list[Any]) -> None:
    """Let the generators draw again what a program drew in vain, unless others have drawn since."""
    for at, number in reversed(kept.keys):
        key = values[at]
        if key is None:  # not drawn yet
            continue
        source = kept.program.source_of(number)
        if source.get_state() == key:
            source.set_state((key[0], key[1] - 1))


@overload
def compile(
    function: F,
    *,
    check: Any = "doubling",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    mode: str | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> F: ...
@overload
def compile(
    function: None = None,
    *,
    check: Any = "doubling",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    mode: str | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable[[F], F]: ...
def compile(
    function: Any = None,
    *,
    check: Any = "doubling",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    mode: str | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,  # noqa: ARG001 (changes nothing)
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return a function that does what `function` does, from its second call on as a captured program.

    The first call with tensors of given shapes and dtypes runs the function and notes what it does (see
    `agrad.func.capture`); later calls replay that. Gradients of the results run a captured backward pass. It means what the
    function means: random draws go on with their sequence, tensors from outside are found again at every call, writes
    (updates of parameters, `.grad`, running statistics) happen at every call, and a branch by a value is followed: each way
    is captured when it is first taken. What no program can hold (shapes that depend on values, Python code that sees
    values) runs as it is, with one `CompileWarning` that says what and where.

    Parameters
    ----------
    function : callable, optional
        Takes tensors, arrays, numbers and containers of them; without it, a decorator.
    check : {"doubling", "first", False}, optional
        Which calls are compared with the function itself: the 2nd, 4th, 8th, 16th... of each program, the 2nd, or none.
        Such a call runs the function, whose results and effects count; a replay on the same inputs that gives anything
        else is a `CompileError`.
    explain : bool, optional
        Warn whenever something is captured again, and say why.
    exact : bool, optional
        Keep the order of sums, so that a replay gives the bits of the function, and compare for that; else the last bits of
        sums over many elements may differ.
    threads : int, optional
        How many threads may work on large arrays; default: what the environment allows.
    mode : {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}, optional
        As in PyTorch: ``"reduce-overhead"`` launches the kernels of a program as one CUDA graph where it runs on CuPy and a
        graph can hold them, else with one `CompileWarning`; it keeps the memory that they work on. Elsewhere it changes
        nothing, and the others do nowhere.
    fullgraph : bool, optional
        Raise a `CompileError`, after the call, where the function would run as it is with a warning.
    dynamic, backend, options : optional
        Taken for PyTorch's sake: each kind of call has a program of its own, there is one backend, "inductor", and what
        its options set is not there.
    disable : bool, optional
        Give the function as it is.

    Returns
    -------
    callable
        The compiled function; `programs` lists what it keeps, `clear()` forgets it.

    Raises
    ------
    CompileError
        From a compared call, where a replay gives something else; with `fullgraph`, where no program can hold the call.
    ValueError
        If `check`, `mode` or `backend` is not known.
    RuntimeError
        If there are both a mode and options.

    Examples
    --------
    >>> import agrad as ag
    >>> @ag.compile
    ... def energy(x):
    ...     return ag.sum(ag.sin(x) ** 2)
    >>> x = ag.tensor([0.5, 1.0], requires_grad=True)
    >>> for _ in range(3):
    ...     x.grad = None
    ...     energy(x).backward()
    >>> x.grad
    tensor([0.8415, 0.9093])
    >>> len(energy.programs)
    1
    """
    if function is None:
        return functools.partial(
            compile,
            check=check,
            explain=explain,
            exact=exact,
            threads=threads,
            mode=mode,
            fullgraph=fullgraph,
            backend=backend,
            options=options,
            disable=disable,
        )
    if check not in ("doubling", "first", False):
        raise ValueError(f"check must be 'doubling', 'first' or False, not {check!r}")
    if mode not in MODES:
        raise ValueError(f"mode must be {', '.join(map(repr, MODES[1:-1]))} or {MODES[-1]!r}, not {mode!r}")
    if backend != "inductor":
        raise ValueError(
            f"compile has no backend {backend!r}: leave the argument out; agrad.func.capture gives the program of a"
            f" call{errors.called()}"
        )
    if mode is not None and options is not None:
        raise RuntimeError(
            f"Either mode or options can be specified, but both can't be specified at the same time.{errors.called()}"
        )
    if not callable(function):
        raise TypeError(f"compile takes a function, not {type(function).__name__}{errors.called()}")
    if disable:
        return function
    more = {"mode": mode} if mode == "reduce-overhead" else {}
    return Compiled(function, check, explain, fullgraph, exact=exact, threads=threads, **more)
