"""Cached programs: programs that replace calls of a compiled function, the guards under which they hold, and their results.

A `CachedProgram` is a program with its guards, its writes and draws, and the backward pass of its results; a `CompiledNode`
represents one call of it in the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from agrad import dtypes, tree
from agrad.compiled.backward import BoundedPass, CapturedBackward, release
from agrad.compiled.guards import GuardWriter, Link, OutsideArray, at_place, has_grad
from agrad.compiled.results import ResultMaker, result_maker_of
from agrad.compiled.tracing import Condition
from agrad.core import errors, mode
from agrad.core.backend import Backend, backend_of, joined
from agrad.core.buffers import assign_data
from agrad.core.engine import run as run_backward
from agrad.core.engine import running
from agrad.core.executor import KeptValues
from agrad.core.history import restore
from agrad.core.node import Constants, Freed, Node, next_seq, output_of
from agrad.core.once import once
from agrad.core.operands import from_raw
from agrad.core.spec import Spec, Specs
from agrad.core.tensor import Tensor
from agrad.plugin.manager import default_backend
from agrad.program.arguments import NUMBERS, argument_of, bare, owner_of
from agrad.program.program import Given, Leaf, Number, Program, Stopped
from agrad.program.recording import CaptureError, grad_of
from agrad.random import again

_new = object.__new__


class WriteTarget(NamedTuple):
    """A tensor that a replay writes to, and its state before the write.

    Attributes
    ----------
    tensor : Tensor
        The tensor.
    array : array
        Its value.
    grad : Tensor or None
        Its gradient.
    outer_grad : Tensor or None
        The tensor that becomes its gradient, if the function did not create it.
    """

    tensor: Tensor
    array: Any
    grad: Tensor | None
    outer_grad: Tensor | None

    @property
    def is_written(self) -> bool:
        """Whether its value or gradient has changed since."""
        return self.tensor._raw is not self.array or grad_of(self.tensor) is not self.grad


@dataclass
class CachedProgram:
    """A program that replaces calls of a compiled function, with the conditions under which it holds.

    Attributes
    ----------
    program : Program
        The program; its outputs are the results, the writes, the conditions, and the values that only `backward` needs.
    backend : Backend
        The backend whose kernels it runs.
    backward : CapturedBackward or None
        From the values kept by `program`, and cotangents of followed results, to gradients; None if no result is
        followed.
    links : list of Link
        The places that must be unchanged, including those on the paths to outer tensors.
    outside : list of OutsideArray
        The outer tensors and arrays that are inputs, with the last link to each.
    unread : list of OutsideArray
        The outer tensors that require a gradient and whose values the program does not read.
    other_paths : list of (Link, Link)
        Another path to an outer tensor or array that was read, and the path that the program uses.
    outside_arguments : list of (Link, int)
        A path by which an argument was also found outside, and its position among the leaves.
    distinct : list of (Link, int)
        A path to a tensor that was compared with an argument and differs from it, and the argument's position.
    argument_hooks : list of (int, tuple or None)
        For each argument with a history, its position among the leaves and the hooks on it.
    had_grad : list of (int, bool)
        For each argument whose gradient was looked for, its position among the leaves and whether it had a gradient.
    written : list of (int or Link)
        The target of each write: the position among the leaves of the arguments, or the last link to it.
    outer_grads : list of (int, Link or None)
        For each write, where the gradient it assigns is found, if the function did not create it.
    conditions : list of Condition
        Values that must be the same as in the capture: the program stops at the first that differs. Floats among the
        arguments are checked before it runs.
    prologue : list
        Actions before it runs.
    epilogue : list
        Actions after it has run.
    held_by_python : list of dict
        The dicts whose entries these actions change.
    followed : tuple of int
        The numbers of the results that may be differentiated.
    targets : tuple of int
        The inputs that receive gradients.
    outside_results : dict of int to Link
        For each result that is itself an outer tensor, its position among the results, and where it is found.
    first_positions : list of int
        For each result, the position of the first one that is the same object: two tensors may share a value.
    hooks : list of (int, callable)
        The hooks that `backward` holds: the number of the value whose gradient each is on, and the hook.
    backward_links : list of Link
        Further places, which must be unchanged when the call is made and when `backward` runs.
    may_continue : bool
        Whether the function may continue after an error: then the function itself runs where a replay raises.
    function : callable
        The captured function. It runs again for the second derivative of a program with a `Function`, whose steps only
        know the first derivative; such a call changes nothing.
    options : mapping
        How to run both programs.
    calls : int
        The number of its replays.
    """

    program: Program
    backend: Backend
    backward: CapturedBackward | None
    links: list[Link]
    outside: list[OutsideArray]
    unread: list[OutsideArray]
    other_paths: list[tuple[Link, Link]]
    outside_arguments: list[tuple[Link, int]]
    distinct: list[tuple[Link, int]]
    argument_hooks: list[tuple[int, Any]]
    had_grad: list[tuple[int, bool]]
    written: list[Any]
    outer_grads: list[Any]
    conditions: list[Condition]
    prologue: list[tuple[Any, ...]]
    epilogue: list[tuple[int, Callable[[float], None]]]
    held_by_python: list[dict[Any, Any]]
    followed: tuple[int, ...]
    targets: tuple[int, ...]
    outside_results: dict[int, Link]
    first_positions: list[int]
    hooks: list[tuple[int, Callable[..., Any]]]
    backward_links: list[Link]
    may_continue: bool
    function: Callable[..., Any]
    options: Mapping[str, Any]
    calls: int = 0

    def __post_init__(self) -> None:
        program = self.program
        assert program.arguments is not None
        assert program.results is not None
        place = {number: at for at, number in enumerate(program.inputs)}
        outs = {number: at for at, number in enumerate(program.outputs)}
        #: For each random draw, the position of its key among the inputs, and the key's number.
        self.keys: list[tuple[int, int]] = [(place[number], number) for number in program.keys]
        #: For each setting that is read, the position of its input, and the function that reads it.
        self.settings: list[Any] = [(place[item[1]], item[2]) for item in self.prologue if item[0] == "setting"]
        #: For each action of the epilogue, the position of the output that it takes, and the action.
        self.epilogue_outputs: list[Any] = [(outs[number], do) for number, do in self.epilogue]
        #: The leaves of the result, each with the position of its output; -1 for one that has none.
        self.leaves: list[Any] = [
            (leaf, outs[leaf.number] if type(leaf) in (Leaf, Number) else -1) for leaf in program.results.leaves
        ]
        #: The same, with the link to an outer tensor in place of the leaf that is this tensor.
        self.result_sources: list[Any] = [
            (self.outside_results.get(i, leaf), at) for i, (leaf, at) in enumerate(self.leaves)
        ]
        #: The writes, each with its target and the position of its output; -1 for a gradient that is dropped.
        self.placed_writes: list[Any] = [
            (write, link, -1 if write.number is None else outs[write.number])
            for write, link in zip(program.writes, self.written, strict=True)
        ]
        by_place: dict[Any, tuple[int | Link, dict[str, Any]]] = {}
        for (write, link, at), outer_gradient in zip(self.placed_writes, self.outer_grads, strict=True):
            parts = by_place.setdefault(link if isinstance(link, int) else link.place, (link, {}))[1]
            parts |= {write.what: at, "outer": outer_gradient} if write.what == "grad" else {write.what: at}
        #: For each tensor that is written to: its place, the positions of the outputs that hold its new value and
        #: gradient (None: it keeps its own, -1: its gradient is dropped), and the place of that gradient, if it is an
        #: outer tensor.
        self.writes_by_tensor: list[tuple[Any, int | None, int | None, Any]] = [
            (link, parts.get("data"), parts.get("grad"), parts.get("outer")) for link, parts in by_place.values()
        ]
        #: Whether a result may also become a gradient, and has to be the same tensor.
        self.writes_gradients: bool = any(grad is not None and grad >= 0 for _, _, grad, _ in self.writes_by_tensor)
        kept, others = (
            (0, ()) if self.backward is None else (self.backward.kept, self.backward.saved[self.backward.kept :])
        )
        #: The number of outputs before those that are kept only for the backward pass.
        self.forward_outputs: int = len(program.outputs) - kept
        #: The other values that the backward pass needs: whether each is an input, and its position among the inputs or
        #: among the outputs.
        self.saved_elsewhere: list[tuple[bool, int]] = [
            (True, place[number]) if number in place else (False, outs[number]) for number in others
        ]
        self.followed_outs: list[Any] = [outs[number] for number in self.followed]
        leaves = program.arguments.leaves
        arguments = {leaf.number: at for at, leaf in enumerate(leaves) if type(leaf) is Leaf}
        #: For each input that is a tensor or an array among the arguments, its position, and that of the argument's leaf.
        self.from_arguments: list[tuple[int, Any]] = [(place[number], at) for number, at in arguments.items()]
        tensors = [(at, i) for at, i in self.from_arguments if not leaves[i].raw]
        #: For each input that is a tensor, its position, and that of the argument's leaf or the link to the outer tensor.
        self.tensors: list[tuple[int, int | Link]] = [
            *tensors,
            *((place[outer.number], outer.link) for outer in self.outside if isinstance(outer.link.value, Tensor)),
        ]
        #: The positions of Python floats among the leaves of the arguments, by value number.
        self.floats: dict[int, int] = {leaf.number: at for at, leaf in enumerate(leaves) if type(leaf) is Number}
        #: Whether a replay does nothing but return results.
        self.only_computes: bool = not (
            self.prologue or self.epilogue or self.held_by_python or program.keys or program.writes
        )
        places: dict[int, int | Link] = {**arguments}
        places |= {outside.number: outside.link for outside in self.outside}
        #: The place of each tensor that receives a gradient.
        self.differentiated: list[Any] = [places[number] for number in self.targets]
        treedef = program.results.treedef
        flat = all(child.kind is None for child in treedef.children)
        #: Whether the result is a single value, in no container.
        self.returns_one: bool = treedef.kind is None
        #: The class of the container, if it takes a list of the results; otherwise None.
        self.result_container: type | None = treedef.kind if treedef.kind in (tuple, list) and flat else None
        checked = [(c.number, c.value) for c in self.conditions if c.number not in self.floats]
        #: Runs `program`, and stops at the first value that differs from the one by which Python branched in the capture.
        self.stopping: Program = program.stopping(checked) if checked else program
        #: Runs on tensors where the derivative is that of the steps; it also returns the values with hooks.
        self.stepwise: Program = program.replaced(outputs=(*program.outputs, *(number for number, _ in self.hooks)))
        writer = GuardWriter()
        for link in self.backward_links:
            writer.guard(link)
        #: A function of no leaves that checks everything that hooks and `Function`s read: it returns an empty list, or
        #: the name of the first thing that has changed.
        self.check_backward_guards: Callable[..., Any] = writer.function(())
        #: Whether the function itself runs a backward pass.
        self.runs_backward: bool = any(step.line.endswith("(backward)") for step in program.steps)
        #: The specs of outputs, by position; those of a lazy backend are not kept.
        self.specs: dict[int, Spec] = {}
        self._settings: dict[int, tuple[float, Any]] = {}  # by position of the input: the last value, and its array
        self._result_makers: dict[bool, ResultMaker | None] = {}  # by whether all arguments are raw
        #: The result maker for tensors, if none is differentiated.
        self.result_maker: ResultMaker | None = None
        #: The fast path of a call that only computes and is no longer compared: `quick_run`, and the result maker.
        self.quick: tuple[Callable[..., Any], ResultMaker] | None = None
        #: The default dtype and backend, which are the same at every call: programs are looked up by them.
        self.defaults: tuple[Any, ...] = defaults()
        default = self.defaults[1]
        as_number = functools.partial(default.asarray, dtype="float64")
        #: Converts a number to an input; `from_float` does so for an instance of `float` itself.
        self.from_number: Callable[[float], Any] = number_converter(as_number, self.backend, program)
        self.from_float: Callable[[float], Any] = number_converter(default._of_float, self.backend, program)
        #: A function of the leaves of a call's arguments that checks the guards: it returns the inputs, without settings
        #: and keys, or the name of the first thing that differs from the capture.
        self.guarded_inputs: Callable[..., Any] = self.write_guards(place)

    def write_guards(self, place: Mapping[int, int]) -> Callable[[Sequence[Any]], list[Any] | str]:
        """Return the function that checks the guards and gathers the inputs; `place`: the position of each input, by number."""
        assert self.program.arguments is not None
        writer = GuardWriter(len(self.program.arguments.leaves))
        values = ["None"] * len(place)
        for link in (*self.links, *self.backward_links):
            writer.guard(link)
        for outside in self.outside:
            values[place[outside.number]] = writer.tensor(outside)
        for other, link in self.other_paths:
            writer.refuse(f"{writer.at(other)} is not {writer.at(link)}", other.name)
        for other, at in self.outside_arguments:
            writer.refuse(f"{writer.at(other)} is not {writer.leaf(at)}", f"whether {other.name} is argument {at}")
        for other, at in self.distinct:
            writer.refuse(f"{writer.at(other)} is {writer.leaf(at)}", f"whether {other.name} is argument {at}")
        for at, hooks in self.argument_hooks:
            writer.hooks(writer.leaf(at), hooks, f"argument {at}")
        for at, value in self.had_grad:
            has = f"{writer.name_of(has_grad)}({writer.leaf(at)})"
            writer.refuse(f"{has} is not {value}", f"whether argument {at} has a gradient")
        for number, value, line in self.conditions:
            if number in self.floats:
                writer.number(writer.leaf(self.floats[number]), value, f"a value that decides ({line})")
        for write, link, _ in self.placed_writes:
            if write.what == "grad" and write.had_grad is not None:
                target = writer.leaf(link) if isinstance(link, int) else writer.at(link)
                had = f"{writer.name_of(has_grad)}({target}) is not {write.had_grad}"
                writer.refuse(had, f"whether {write.target} has a gradient")
        arrays = set()
        for at, leaf in enumerate(self.program.arguments.leaves):
            if type(leaf) is Number:
                values[place[leaf.number]] = f"{writer.name_of(self.from_float)}({writer.leaf(at)})"
            elif type(leaf) is Leaf:
                values[place[leaf.number]] = writer.leaf(at) if leaf.raw else writer.raw(at)
                arrays.add(values[place[leaf.number]])
        distinct = list(values)  # arrays that were distinct in the capture must be distinct
        if self.placed_writes or self.unread or self.runs_backward:
            targets = (
                writer.raw(link) if isinstance(link, int) else f"{writer.at(link)}._raw"
                for _, link, _ in self.placed_writes
            )
            distinct += (*map(writer.tensor, self.unread), *targets)
        else:
            distinct = [array for array in distinct if array in arrays]
        writer.refuse_shared(
            [array for array in dict.fromkeys(distinct) if array in arrays or array.endswith("._raw")],
            written=any(write.what == "data" for write, _, _ in self.placed_writes),
        )
        return writer.function(values)

    @once
    def runner(self) -> Callable[..., Sequence[Any]]:
        """Runs the program on raw values, without floating-point warnings if it runs a backward pass, which emits none."""
        kept = len(self.program.outputs) - self.forward_outputs
        return self.stopping.chosen(self.backend, quiet=self.runs_backward, kept=kept, **self.options)

    def quick_run(self) -> Callable[..., Sequence[Any] | None]:
        """Return the most direct function that runs the program; it returns None for a call that only `runner` can run."""
        run = self.runner
        return getattr(getattr(run, "__self__", run), "quick", None) or run

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run the program on raw values; raise `Stopped` at a value by which Python would branch the other way."""
        try:
            return self.runner(*values)
        except Stopped:
            raise
        except Exception as error:
            self.explain(error, values)
            raise

    def explain(self, error: Exception, values: Sequence[Any]) -> None:
        """Add to an error the line that raised it, unless the function itself runs after it."""
        if not self.may_continue:
            self.stopping.explain(error, self.backend, values)

    def setting(self, at: int, value: float) -> Any:
        """Return the input for the setting at a position: the last call's array if the setting has not changed."""
        last = self._settings.get(at)
        if last is None or last[0] is not value:
            last = self._settings[at] = value, self.from_number(value)
        return last[1]

    def gather(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the inputs, without settings and keys, of a call whose guards hold."""
        values: list[Any] | str = self.guarded_inputs(leaves)
        if isinstance(values, str):
            raise CaptureError(f"capture: {values} has changed since the capture")
        return values

    def side_effect(self) -> str:
        """Return, as a message, what the function does besides computing its results from its inputs; "" if nothing."""
        for condition in self.conditions:
            if condition.number not in self.floats:
                return f"capture: the function branches on a value ({condition.line})"
        if self.hooks:
            return "capture: it registers hooks on what it computes"
        if self.placed_writes:
            return f"capture: it writes to {self.placed_writes[0][0].target}"
        return "capture: it reads or changes the settings of an optimiser" if self.prologue or self.epilogue else ""

    def tensor_of(self, out: Any, at: int) -> Tensor:
        """Return the tensor of the output at a position."""
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

    def build_results(
        self,
        outs: Sequence[Any],
        values: list[Any],
        leaves: Sequence[Any],
        *,
        raw: bool,
        tensors: dict[int, Tensor] | None = None,
    ) -> Any:
        """Return what the function would; `tensors` receives the tensors of outputs, by position."""
        node = self.node(outs, values, leaves) if self.backward is not None else None
        plain = tensors is None and (not raw or mode.transforming.get() is None)
        if plain and (make := self._result_makers.get(raw)) is not None:
            return make(outs, leaves, node)
        tensors = {} if tensors is None else tensors
        results: list[Any] = []
        by_position: dict[int, Tensor] = {}  # the position of each among the results, where it occurs first
        for first, (leaf, at) in zip(self.first_positions, self.result_sources, strict=True):
            kind = type(leaf)
            if kind is Leaf:
                made = by_position.get(first)
                if made is None:
                    made = by_position[first] = self.tensor_of(outs[at], at)
                    tensors.setdefault(at, made)
                    if node is not None and leaf.number in self.followed:
                        place = self.followed.index(leaf.number)
                        made._node = output_of(node, place) if len(self.followed) > 1 else node
                    elif leaf.spent:
                        made._node = spent_node(made)
                results.append(made._raw if leaf.raw else bare(made) if raw else made)
            elif kind is Number:
                results.append(self.backend.item(outs[at]))
            elif kind is Given:
                given = leaves[leaf.place]
                if type(given) is not Tensor:
                    given = as_passed(given)
                results.append(bare(given) if raw else given)
            elif kind is Link:
                found = leaf.get(leaf.key)  # a new value is assigned to it later
                is_own = not raw or not isinstance(found, Tensor) or found._node is not None
                results.append(found if is_own else bare(self.tensor_of(outs[at], at)))
            else:
                results.append(leaf)
        if plain and raw not in self._result_makers:  # `tensor_of` has found the specs that it needs
            self._result_makers[raw] = maker = result_maker_of(self, raw)
            if not raw and self.backward is None:
                self.result_maker = maker
        if self.returns_one:
            return results[0]
        assert self.program.results is not None
        container = self.result_container
        return tree.unflatten(self.program.results.treedef, results) if container is None else container(results)

    def write_targets(self, leaves: Sequence[Any]) -> list[WriteTarget]:
        """Return the targets of writes, all looked up before any write: a gradient that is dropped may also get a value."""
        found = []
        for link, _, _, outer in self.writes_by_tensor:
            tensor = at_place(link, leaves)
            outer_grad = None if outer is None else at_place(outer, leaves)
            found.append(WriteTarget(tensor, tensor._raw, grad_of(tensor), outer_grad))
        return found

    def write(self, outs: Sequence[Any], targets: Sequence[WriteTarget], tensors: Mapping[int, Tensor]) -> None:
        """Write what the function would, all or nothing; a gradient that it also returns is the same tensor, in `tensors`."""
        changed: list[Tensor] = []
        arrays, specs, grads = [], [], []
        others: list[tuple[Tensor, Tensor | None]] = []  # only gradients: of non-leaves, or of leaves without a value
        for (target, _, had, outer_grad), (_, data, grad, _) in zip(targets, self.writes_by_tensor, strict=True):
            value = outer_grad
            if value is None and grad is not None and grad >= 0:
                value = tensors.get(grad)
                if value is None or value._node is not None:
                    value = self.tensor_of(outs[grad], grad)
            if grad is not None and (value is None or not target.is_leaf):
                if value is not had:
                    others.append((target, value))
                value = None
            if data is None and value is None:
                continue
            changed.append(target)
            if data is None:
                arrays.append(target._raw)
                specs.append(target._spec)
            else:
                made = self.tensor_of(outs[data], data)
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

    def node(self, outs: Sequence[Any], values: list[Any], leaves: Sequence[Any]) -> CompiledNode:
        """Return the node of a replay whose results are differentiated."""
        specs = [self.tensor_of(outs[at], at)._spec for at in self.followed_outs]
        node: CompiledNode = _new(CompiledNode)
        node.seq = next_seq()
        node.edges, node.second = tuple(at_place(place, leaves)._node for place in self.differentiated), None
        kept: Any = outs[-1]
        kept, node.layout = kept if type(kept) is KeptValues else (outs[self.forward_outputs :], None)
        others = [values[at] if is_input else outs[at] for is_input, at in self.saved_elsewhere]
        node.saved = Constants((*kept, *others))  # `release` frees them
        node.spent, node.freed = 0, None
        node.vjp = _backward
        node.spec = Specs(specs) if len(specs) > 1 else specs[0]
        node.params = ()
        node.code, node.lasti = errors.caller()
        node.hooks = None
        node.cached = self
        node.input_values = tuple(values)
        node.leaves = tuple(leaves) if self.program.functions else ()
        return node


def number_converter(make: Callable[[float], Any], backend: Backend, program: Program) -> Callable[[float], Any]:
    """Return the function that converts numbers to inputs: arrays of the default backend, transferred to a backend that does not accept them."""
    default = default_backend()
    if joined({default, backend}) is backend:
        return make
    device = program.device_for((), backend)
    return lambda value: backend.receive(default, make(value), device)


def as_passed(leaf: Any) -> Any:
    """Return an argument as the function receives it: an array of a library as a Tensor."""
    if isinstance(leaf, Tensor | NUMBERS) or owner_of(leaf) is None:
        return leaf
    return argument_of(leaf, "compile")


def rewind_generators(cached: CachedProgram, values: list[Any]) -> None:
    """Rewind the generators by the draws of a replay that has no effect, unless others have drawn since."""
    for at, number in reversed(cached.keys):
        key = values[at]
        if key is None:  # the replay ended before this draw
            continue
        source = cached.program.source_of(number)
        if source.get_state() == key:
            source.set_state((key[0], key[1] - 1))


# -- gradients of replays -----------------------------------------------------------------------------------------------


class CompiledNode(Node):
    """One call of a cached program whose results are differentiated: it runs the captured backward pass of the chosen results."""

    __slots__ = ("cached", "freed", "input_values", "layout", "leaves", "spent")
    title = "CompiledBackward0"

    cached: CachedProgram
    input_values: tuple[Any, ...]
    layout: Any  # the layout of the `KeptValues` whose arrays come first in `saved`; None if `saved` has the values themselves
    leaves: tuple[Any, ...]  # the leaves of the arguments, if the function may run again
    spent: int  # the uses of saved values that passes have freed, as bits
    freed: Freed | None  # the record of the last of these passes


class SpentNode(Node):
    """The node of a result whose history has been freed."""

    __slots__ = ()
    title = "CompiledBackward0"


def _backward(xp: Any, g: Any, saved: tuple[Any, ...], node: Any, *, masked: bool = False) -> tuple[Any, ...]:
    """Return a cotangent per target of a cached program, for the cotangents of followed results.

    The captured pass takes raw cotangents, while its guards hold and unless an op that drops elements has `masked` them.
    Otherwise the program's own steps are differentiated, as they would be outside of a program.
    """
    cached: CachedProgram = node.cached
    backend, backward = node.spec.backend, cached.backward
    assert backward is not None
    gs = g if isinstance(g, list) else [g]
    results = sum(1 << i for i, part in enumerate(gs) if part is not None)
    task = running()
    needed = None if task is None else task.needed
    targets = -1 if needed is None else sum(1 << i for i, edge in enumerate(node.edges) if edge in needed)
    visited = backward.visited(results, targets)
    if node.spent & visited:
        raise errors.second_time(node, node.freed)
    on_tensors = xp is backend.functions
    if not node.edges:
        release(node, backward, visited)
        return ()
    captured = None if on_tensors or masked or not _is_unchanged(node) else backward.of(results, targets)
    if captured is None:
        cotangents = gs if on_tensors else [None if p is None else from_raw(p) for p in gs]
        found = _recorded_backward(cotangents, node, masked=masked)
    else:
        taken = [part for part in gs if part is not None]
        if any(backend_of(part) is not backend for part in taken):  # batched
            values = [*backward.values(captured, saved, node.layout), *taken]
            made = [t._raw for t in captured.program.on_tensors(backend, list(map(from_raw, values)))]
        else:
            made = list(
                map(backend.as_array, backward.run(captured, saved, node.layout, taken, backend, cached.options))
            )
        found = tuple(None if at is None else made[at] for at in captured.gradients)
    release(node, backward, visited)
    if task is not None:
        task.masked.update(node.edges[at] for at in backward.dropped if found[at] is not None)
    return found


CompiledNode.nan_safe_vjp = staticmethod(functools.partial(_backward, masked=True))


def _is_unchanged(node: Any) -> bool:
    """Return whether everything that hooks and `Function`s of a backward pass read is unchanged since the capture.

    Raises
    ------
    RuntimeError
        If it has changed and the program has a `Function`, whose backward the steps do not know.
    """
    cached: CachedProgram = node.cached
    change = cached.check_backward_guards(()) if cached.backward_links else []
    if isinstance(change, str) and cached.program.functions:
        raise _changed(change, node)
    return not isinstance(change, str)


def _recorded_backward(gs: list[Any], node: Any, *, masked: bool) -> tuple[Any, ...]:
    """Return the cotangents as tensors, recorded where recording is on: by the program's own steps, or by the function if it has a `Function`."""
    cached: CachedProgram = node.cached
    before = mode.get_mode()
    recording = mode.is_grad_enabled()
    try:
        mode.push(grad=True)
        by_number, nodes = (_run_again if cached.program.functions else _run_by_steps)(node)
        roots = [(by_number[n]._node, g) for n, g in zip(cached.followed, gs, strict=True) if g is not None]
        found = run_backward(
            [(node, g) for node, g in roots if node is not None],
            retain_graph=recording,
            create_graph=recording,
            targets=nodes,
            accumulate=False,
            masked=masked,
            kind=BoundedPass,
        )
    finally:
        mode.set_mode(before)
    return tuple(found.get(target) for target in nodes)


def _run_by_steps(node: Any) -> tuple[Mapping[int, Tensor], Sequence[Node]]:
    """Run the steps of a program on tensors; return its values by number, and the nodes of its targets."""
    cached: CachedProgram = node.cached
    functions = node.spec.backend.functions
    edges = dict(zip(cached.targets, node.inputs, strict=True))
    inputs: list[Any] = []
    targets = {}
    for number, value in zip(cached.program.inputs, node.input_values, strict=True):
        if number in cached.program.keys:
            inputs.append(value)
        elif number in edges:  # a node of its own: one target may have been computed from another
            inputs.append(functions.positive(restore(value, edges[number])))
            targets[number] = inputs[-1]._node
        else:
            inputs.append(from_raw(value))
    outs = cached.stepwise.on_tensors(node.spec.backend, inputs)
    by_number = dict(zip(cached.stepwise.outputs, outs, strict=True))
    for number, hook in cached.hooks:
        if by_number[number]._node is not None:
            by_number[number].register_hook(hook)
    return by_number, [targets[number] for number in cached.targets]


def _run_again(node: Any) -> tuple[Mapping[int, Tensor], Sequence[Node]]:
    """Run the function itself; return the same. A `Function` in it has its own backward, which the steps do not know.

    Raises
    ------
    RuntimeError
        If something that it reads has changed since the call.
    """
    cached: CachedProgram = node.cached
    mode.not_recorded("a compiled function that was called before is differentiated twice, through a Function")
    inputs = cached.guarded_inputs(node.leaves)
    if isinstance(inputs, str):
        raise _changed(inputs, node)
    if cached.defaults != defaults():
        raise _changed("the default dtype or backend", node)
    for at, place in cached.tensors:
        if inputs[at] is not node.input_values[at]:
            raise _changed(name_at(place), node)
    for place, edge in zip(cached.differentiated, node.inputs, strict=True):
        if at_place(place, node.leaves)._node is not edge:
            raise _changed(name_at(place), node)
    assert cached.program.arguments is not None
    args, kwargs = tree.unflatten(cached.program.arguments.treedef, map(as_passed, node.leaves))
    returned = again([node.input_values[at] for at, _ in cached.keys], cached.function, *args, **kwargs)
    results = zip(cached.leaves, tree.flatten(returned)[0], strict=True)
    return {leaf.number: result for (leaf, _), result in results if type(leaf) is Leaf}, node.inputs


def defaults() -> tuple[Any, ...]:
    """Return the default dtype and the default backend, which affect a call besides everything that it reads."""
    return dtypes.get_default_dtype(), default_backend()


def name_at(place: int | Link) -> str:
    """Return the name of the object at a place."""
    return f"argument {place}" if isinstance(place, int) else place.name


def _changed(what: str, node: Any) -> RuntimeError:
    """Return the error for a derivative through a `Function` after something that the function reads has changed."""
    return RuntimeError(
        f"{what} has changed since the call of the compiled function, whose backward pass goes through the Function"
        f" {node.cached.program.functions[0]}: do not change it in between, or do not compile{errors.at(node)}"
    )


def spent_node(result: Tensor) -> Node:
    """Return the node of a result whose history has been freed by a backward pass within the compiled function."""
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
