"""Cached programs: the replacement of a compiled function, the conditions under which it holds, and the construction of its results.

A `CachedProgram` is a program with its guards, its writes and draws, and the backward pass of its results; `CompiledNode`
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
    """A tensor that a replay writes to, as it was before.

    Attributes
    ----------
    tensor : Tensor
        The tensor.
    array : array
        Its value.
    grad : Tensor or None
        Its gradient.
    given : Tensor or None
        The tensor that becomes its gradient, if the function did not create it.
    """

    tensor: Tensor
    array: Any
    grad: Tensor | None
    given: Tensor | None

    @property
    def is_written(self) -> bool:
        """Whether its value or gradient has changed by now."""
        return self.tensor._raw is not self.array or grad_of(self.tensor) is not self.grad


@dataclass
class CachedProgram:
    """A program that is kept for a compiled function, with the conditions under which it holds.

    Attributes
    ----------
    program : Program
        The program; its outputs are the results, the writes, the conditions, and the values that only `backward` needs.
    backend : Backend
        The backend whose kernels it runs.
    backward : CapturedBackward or None
        From the values kept by `program`, and cotangents of followed results, to gradients; None if no gradients are
        wanted.
    links : list of Link
        The places that must be unchanged, including those on the ways to outer tensors.
    outside : list of OutsideArray
        Outer tensors, with the last link to each.
    alone : list of OutsideArray
        Tensors that require a gradient, and whose values are not needed.
    again : list of (Link, Link)
        Another way to an outer tensor or array that was read, and the way that the program uses.
    found_too : list of (Link, int)
        A way by which an argument was also found outside, and its position among the leaves.
    distinct : list of (Link, int)
        Ways to values that were compared with an argument, whose position follows, and differ from it.
    hooked : list of (int, tuple)
        Arguments that require a gradient: the position among the leaves, and the hooks on it.
    had_grad : list of (int, bool)
        Arguments whose gradient was looked for: the position among the leaves, and whether there was a gradient.
    written : list of (int or Link)
        The target of each write: the position among the leaves of the arguments, or the last link to it.
    given : list of (int, Link or None)
        For each write, where the gradient it assigns is found, if the function did not create it.
    conditions : list of Condition
        Values that must be the same as in the capture: the program stops at the first that differs. Floats among the
        arguments are checked before it runs.
    prologue : list
        Actions before it runs.
    epilogue : list
        Actions after it has run.
    held : list of dict
        The dicts whose entries these actions change.
    followed : tuple of int
        The numbers of the results that may be differentiated.
    targets : tuple of int
        The inputs that receive gradients.
    same : dict of int to Link
        For each result that is itself an outer tensor, its position among the results, and where it is found.
    firsts : list of int
        For each result, the position of the first one that is the same object: two tensors may share a value.
    hooks : list of (int, callable)
        The hooks that `backward` holds: the number of the value whose gradient each is on, and the hook.
    late : list of Link
        Further places that must be unchanged when `backward` runs.
    goes_on : bool
        Whether the function may continue after an error: then a replay that raises runs the function itself.
    function : callable
        The captured function. It runs again for the second derivative of a program with a `Function`, whose steps only
        know the first derivative; such a call changes nothing.
    options : mapping
        How to run both programs.
    calls : int
        The number of its runs.
    """

    program: Program
    backend: Backend
    backward: CapturedBackward | None
    links: list[Link]
    outside: list[OutsideArray]
    alone: list[OutsideArray]
    again: list[tuple[Link, Link]]
    found_too: list[tuple[Link, int]]
    distinct: list[tuple[Link, int]]
    hooked: list[tuple[int, Any]]
    had_grad: list[tuple[int, bool]]
    written: list[Any]
    given: list[Any]
    conditions: list[Condition]
    prologue: list[tuple[Any, ...]]
    epilogue: list[tuple[int, Callable[[float], None]]]
    held: list[dict[Any, Any]]
    followed: tuple[int, ...]
    targets: tuple[int, ...]
    same: dict[int, Link]
    firsts: list[int]
    hooks: list[tuple[int, Callable[..., Any]]]
    late: list[Link]
    goes_on: bool
    function: Callable[..., Any]
    options: Mapping[str, Any]
    calls: int = 0

    def __post_init__(self) -> None:
        program = self.program
        assert program.arguments is not None
        assert program.results is not None
        place = {number: at for at, number in enumerate(program.inputs)}
        outs = {number: at for at, number in enumerate(program.outputs)}
        self.keys: list[tuple[int, int]] = [(place[number], number) for number in program.keys]
        self.settings: list[Any] = [(place[item[1]], item[2]) for item in self.prologue if item[0] == "setting"]
        self.afterwards: list[Any] = [(outs[number], do) for number, do in self.epilogue]
        self.leaves: list[Any] = [
            (leaf, outs[leaf.number] if type(leaf) in (Leaf, Number) else -1) for leaf in program.results.leaves
        ]
        self.giving: list[Any] = [(self.same.get(i, leaf), at) for i, (leaf, at) in enumerate(self.leaves)]
        self.puts: list[Any] = [
            (write, link, -1 if write.number is None else outs[write.number])
            for write, link in zip(program.writes, self.written, strict=True)
        ]
        by_place: dict[Any, tuple[int | Link, dict[str, Any]]] = {}
        for (write, link, at), outer_gradient in zip(self.puts, self.given, strict=True):
            puts = by_place.setdefault(link if isinstance(link, int) else link.place, (link, {}))[1]
            puts |= {write.what: at, "given": outer_gradient} if write.what == "grad" else {write.what: at}
        #: For each tensor that is written to: its place, the outputs that hold its new value and gradient (-1: none),
        #: and the place of that gradient, if it is another outer tensor.
        self.assigned: list[tuple[Any, int | None, int | None, Any]] = [
            (link, puts.get("data"), puts.get("grad"), puts.get("given")) for link, puts in by_place.values()
        ]
        kept, others = (
            (0, ()) if self.backward is None else (self.backward.kept, self.backward.saved[self.backward.kept :])
        )
        #: The number of outputs before those that only the backward pass needs.
        self.whole: int = len(program.outputs) - kept
        #: The other values that the backward pass needs: whether each is an input, and its position there or among outputs.
        self.needs_too: list[tuple[bool, int]] = [
            (True, place[number]) if number in place else (False, outs[number]) for number in others
        ]
        self.followed_outs: list[Any] = [outs[number] for number in self.followed]
        leaves = program.arguments.leaves
        arguments = {leaf.number: at for at, leaf in enumerate(leaves) if type(leaf) is Leaf}
        #: For each input that is a tensor or array among the arguments, its position there.
        self.from_arguments: list[tuple[int, Any]] = [(place[number], at) for number, at in arguments.items()]
        tensors = [(at, i) for at, i in self.from_arguments if not leaves[i].raw]
        #: For each input that is a tensor: its position, and that among the arguments or the link to it outside.
        self.tensors: list[tuple[int, int | Link]] = [
            *tensors,
            *((place[one.number], one.link) for one in self.outside if isinstance(one.link.value, Tensor)),
        ]
        #: The positions of Python floats among the leaves of the arguments, by value number.
        self.floats: dict[int, int] = {leaf.number: at for at, leaf in enumerate(leaves) if type(leaf) is Number}
        #: Whether a call that takes the captured path does nothing but return its results.
        self.only_computes: bool = not (self.prologue or self.epilogue or self.held or program.keys or program.writes)
        places: dict[int, int | Link] = {**arguments}
        places |= {outside.number: outside.link for outside in self.outside}
        self.differentiated: list[Any] = [places[number] for number in self.targets]
        treedef = program.results.treedef
        flat = all(child.kind is None for child in treedef.children)
        self.one: bool = treedef.kind is None
        #: Builds the results' container from a list of them; None if more is needed.
        self.many: type | None = treedef.kind if treedef.kind in (tuple, list) and flat else None
        checked = [(c.number, c.value) for c in self.conditions if c.number not in self.floats]
        #: Runs `program`, and stops at the first value by which Python branched that differs from the capture's.
        self.stopping: Program = program.stopping(checked) if checked else program
        #: Runs step by step if the results are differentiated through the steps; also returns the values with hooks.
        self.stepwise: Program = program.replaced(outputs=(*program.outputs, *(number for number, _ in self.hooks)))
        entry = GuardWriter()
        for link in self.late:
            entry.guard(link)
        #: A function without parameters that checks everything that hooks and `Function`s read: it returns a list if
        #: nothing has changed, else the name of the first change.
        self.enter_backward: Callable[..., Any] = entry.function(())
        self.silent: bool = any(step.line.endswith("(backward)") for step in program.steps)
        self.specs: dict[int, Spec] = {}
        self._settings: dict[int, tuple[float, Any]] = {}
        self._result_makers: dict[bool, ResultMaker | None] = {}  # by whether all arguments are raw
        #: Makes the results' tensors if none of them is differentiated.
        self.gives: ResultMaker | None = None
        #: The fast path of a call that only computes and is no longer compared: `quick_run`, as of the last call off this
        #: path, and the maker of the results.
        self.quick: tuple[Callable[..., Any], ResultMaker] | None = None
        #: The default settings, which are the same at every call of this program: programs are looked up by them.
        self.defaults: tuple[Any, ...] = defaults()
        default = self.defaults[1]
        as_number = functools.partial(default.asarray, dtype="float64")
        #: Converts a number to an input; `of_float` does so for an instance of float itself.
        self.number: Callable[[float], Any] = brought_by(as_number, self.backend, program)
        self.of_float: Callable[[float], Any] = brought_by(default._of_float, self.backend, program)
        #: A function of a call's leaves that checks the guards: it returns the inputs, without settings and keys, or the
        #: name of the first thing that differs from the capture.
        self.enter: Callable[..., Any] = self.entry(place)

    def entry(self, place: Mapping[int, int]) -> Callable[[Sequence[Any]], list[Any] | str]:
        """Return the function that checks the guards, and gathers the inputs."""
        assert self.program.arguments is not None
        entry = GuardWriter(len(self.program.arguments.leaves))
        values = ["None"] * len(place)
        for link in (*self.links, *self.late):
            entry.guard(link)
        for outside in self.outside:
            values[place[outside.number]] = entry.tensor(outside)
        for other, link in self.again:
            entry.refuse(f"{entry.at(other)} is not {entry.at(link)}", other.name)
        for other, at in self.found_too:
            entry.refuse(f"{entry.at(other)} is not {entry.leaf(at)}", f"whether {other.name} is argument {at}")
        for other, at in self.distinct:
            entry.refuse(f"{entry.at(other)} is {entry.leaf(at)}", f"whether {other.name} is argument {at}")
        for at, hooks in self.hooked:
            entry.hooks(entry.leaf(at), hooks, f"argument {at}")
        for at, value in self.had_grad:
            has = f"{entry.called(has_grad)}({entry.leaf(at)})"
            entry.refuse(f"{has} is not {value}", f"whether argument {at} has a gradient")
        for number, value, line in self.conditions:
            if number in self.floats:
                entry.number(entry.leaf(self.floats[number]), value, f"a value that decides ({line})")
        for write, link, _ in self.puts:
            if write.what == "grad" and write.had_grad is not None:
                target = entry.leaf(link) if isinstance(link, int) else entry.at(link)
                had = f"{entry.called(has_grad)}({target}) is not {write.had_grad}"
                entry.refuse(had, f"whether {write.target} has a gradient")
        arrays = set()
        for at, leaf in enumerate(self.program.arguments.leaves):
            if type(leaf) is Number:
                values[place[leaf.number]] = f"{entry.called(self.of_float)}({entry.leaf(at)})"
            elif type(leaf) is Leaf:
                values[place[leaf.number]] = entry.leaf(at) if leaf.raw else entry.raw(at)
                arrays.add(values[place[leaf.number]])
        apart = list(values)  # objects that the capture found to differ must differ
        if self.puts or self.alone or self.silent:
            targets = (
                entry.raw(link) if isinstance(link, int) else f"{entry.at(link)}._raw" for _, link, _ in self.puts
            )
            apart += (*map(entry.tensor, self.alone), *targets)
        else:
            apart = [array for array in apart if array in arrays]
        entry.apart([array for array in dict.fromkeys(apart) if array in arrays or array.endswith("._raw")])
        return entry.function(values)

    @once
    def runner(self) -> Callable[..., Sequence[Any]]:
        """Runs the program on raw values; without floating-point warnings if it has a backward pass, since these give none."""
        kept = len(self.program.outputs) - self.whole
        return self.stopping.chosen(self.backend, quiet=self.silent, kept=kept, **self.options)

    def quick_run(self) -> Callable[..., Sequence[Any] | None]:
        """Return the most direct function that runs the program; it may return None, for a call that only `runner` can run."""
        run = self.runner
        return getattr(getattr(run, "__self__", run), "quick", None) or run

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run the program on raw values; raise `Stopped` at a value that would make Python branch another way."""
        try:
            return self.runner(*values)
        except Stopped:
            raise
        except Exception as error:
            self.explain(error, values)
            raise

    def explain(self, error: Exception, values: Sequence[Any]) -> None:
        """Add to an error the line that raised it, unless the function itself will raise it again."""
        if not self.goes_on:
            self.stopping.explain(error, self.backend, values)

    def setting(self, at: int, value: float) -> Any:
        """Return the input for a setting: the last call's array if the setting has not changed."""
        last = self._settings.get(at)
        if last is None or last[0] is not value:
            last = self._settings[at] = value, self.number(value)
        return last[1]

    def gather(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the inputs, without settings and keys, of a call whose guards hold."""
        values: list[Any] | str = self.enter(leaves)
        if isinstance(values, str):
            raise CaptureError(f"capture: {values} differs from what it was")
        return values

    def beside(self) -> str:
        """Return the actions needed besides running the program to do what the function does; "" if none."""
        for condition in self.conditions:
            if condition.number not in self.floats:
                return f"capture: a value decides which way it goes ({condition.line})"
        if self.hooks:
            return "capture: it registers hooks on what it computes"
        if self.puts:
            return f"capture: it writes to {self.puts[0][0].target}"
        return "capture: it reads or changes the settings of an optimiser" if self.prologue or self.epilogue else ""

    def made(self, out: Any, at: int) -> Tensor:
        """Return the tensor of an output."""
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
        """Return what the function would; `made_of` receives the tensors of outputs, by position."""
        node = self.node(outs, values, leaves) if self.backward is not None else None
        plain = made_of is None and (not whole or mode.transforming.get() is None)
        if plain and (give := self._result_makers.get(whole)) is not None:
            return give(outs, leaves, node)
        made_of = {} if made_of is None else made_of
        results: list[Any] = []
        tensors: dict[int, Tensor] = {}  # by the first place of each
        for first, (leaf, at) in zip(self.firsts, self.giving, strict=True):
            kind = type(leaf)
            if kind is Leaf:
                made = tensors.get(first)
                if made is None:
                    made = tensors[first] = self.made(outs[at], at)
                    made_of.setdefault(at, made)
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
                    given = as_passed(given)
                results.append(bare(given) if whole else given)
            elif kind is Link:
                found = leaf.get(leaf.key)  # its new value, if any, is assigned later
                is_own = not whole or not isinstance(found, Tensor) or found._node is not None
                results.append(found if is_own else bare(self.made(outs[at], at)))
            else:
                results.append(leaf)
        if plain and whole not in self._result_makers:  # by now the specs of what it makes are known
            self._result_makers[whole] = giver = result_maker_of(self, whole)
            if not whole and self.backward is None:
                self.gives = giver
        if self.one:
            return results[0]
        assert self.program.results is not None
        return tree.unflatten(self.program.results.treedef, results) if self.many is None else self.many(results)

    def writing(self, leaves: Sequence[Any]) -> list[WriteTarget]:
        """Return the targets of writes, looked up before any write: a gradient that is dropped may also get a value."""
        found = []
        for link, _, _, given in self.assigned:
            tensor = at_place(link, leaves)
            found.append(
                WriteTarget(tensor, tensor._raw, grad_of(tensor), None if given is None else at_place(given, leaves))
            )
        return found

    def write(self, outs: Sequence[Any], targets: Sequence[WriteTarget], made_of: Mapping[int, Tensor]) -> None:
        """Write what the function would, all or nothing; a gradient that it returned is the same tensor."""
        changed: list[Tensor] = []
        arrays, specs, grads = [], [], []
        others: list[tuple[Tensor, Tensor | None]] = []  # only gradients: of non-leaves, or of leaves without a value
        for (target, _, had, given), (_, data, grad, _) in zip(targets, self.assigned, strict=True):
            value = given
            if value is None and grad is not None and grad >= 0:
                value = made_of.get(grad)
                if value is None or value._node is not None:
                    value = self.made(outs[grad], grad)
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

    def node(self, outs: Sequence[Any], values: list[Any], leaves: Sequence[Any]) -> CompiledNode:
        """Return the node of a replay whose results are differentiated."""
        specs = [self.made(outs[at], at)._spec for at in self.followed_outs]
        node: CompiledNode = _new(CompiledNode)
        node.seq = next_seq()
        node.edges, node.second = tuple(at_place(place, leaves)._node for place in self.differentiated), None
        kept: Any = outs[-1]
        kept, node.layout = kept if type(kept) is KeptValues else (outs[self.whole :], None)
        others = [values[at] if given else outs[at] for given, at in self.needs_too]
        node.saved = Constants((*kept, *others))  # `release` frees them
        node.spent, node.freed = 0, None
        node.vjp = _backward
        node.spec = Specs(specs) if len(specs) > 1 else specs[0]
        node.params = ()
        node.code, node.lasti = errors.caller()
        node.hooks = None
        node.cached = self
        node.given = tuple(values)
        node.leaves = tuple(leaves) if self.program.functions else ()
        return node


def brought_by(make: Callable[[float], Any], backend: Backend, program: Program) -> Callable[[float], Any]:
    """Return the function that converts numbers to inputs: arrays of the default backend, transferred for a backend that does not accept these."""
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
    """Rewind the generators by what a program drew in vain, unless others have drawn since."""
    for at, number in reversed(cached.keys):
        key = values[at]
        if key is None:  # not drawn yet
            continue
        source = cached.program.source_of(number)
        if source.get_state() == key:
            source.set_state((key[0], key[1] - 1))


# -- gradients of replays -----------------------------------------------------------------------------------------------


class CompiledNode(Node):
    """One call of a cached program whose results are differentiated: runs the captured backward pass of the chosen results."""

    __slots__ = ("cached", "freed", "given", "layout", "leaves", "spent")
    title = "CompiledBackward0"

    cached: CachedProgram
    given: tuple[Any, ...]
    layout: Any  # of the `KeptValues` whose arrays are the first saved ones; None if these are the values
    leaves: tuple[Any, ...]  # of the arguments, if the function may run again
    spent: int  # the uses of saved values, as bits, that passes have freed
    freed: Freed | None  # knows of the last of these passes


class SpentNode(Node):
    """Replaces a history that was freed."""

    __slots__ = ()
    title = "CompiledBackward0"


def _backward(xp: Any, g: Any, saved: tuple[Any, ...], node: Any, *, masked: bool = False) -> tuple[Any, ...]:
    """Return a cotangent per target of a cached program, given those of followed results.

    If these come from an op that drops elements, the program's own steps are differentiated, as they would be outside
    of a program.
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
    some = None if on_tensors or masked or not _is_unchanged(node) else backward.of(results, targets)
    if some is None:
        given = gs if on_tensors else [None if p is None else from_raw(p) for p in gs]
        found = _recorded_backward(given, node, masked=masked)
    else:
        taken = [part for part in gs if part is not None]
        if any(backend_of(part) is not backend for part in taken):  # batched
            values = [*backward.values(some, saved, node.layout), *taken]
            made = [t._raw for t in some.program.on_tensors(backend, list(map(from_raw, values)))]
        else:
            made = list(map(backend.as_array, backward.run(some, saved, node.layout, taken, backend, cached.options)))
        found = tuple(None if at is None else made[at] for at in some.gradients)
    release(node, backward, visited)
    if task is not None:
        task.masked.update(node.edges[at] for at in backward.dropped if found[at] is not None)
    return found


CompiledNode.nan_safe_vjp = staticmethod(functools.partial(_backward, masked=True))


def _is_unchanged(node: Any) -> bool:
    """Return whether everything that hooks and `Function`s of a backward pass read is unchanged since the capture."""
    cached: CachedProgram = node.cached
    other = cached.enter_backward(()) if cached.late else []
    if isinstance(other, str) and cached.program.functions:
        raise _changed(other, node)
    return not isinstance(other, str)


def _recorded_backward(gs: list[Any], node: Any, *, masked: bool) -> tuple[Any, ...]:
    """Return the same as tensors, recorded: by the program's own steps, or by the function if these do not suffice."""
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
    """Run the steps of a program on tensors; return results by number, and the nodes of the tensors to differentiate with respect to."""
    cached: CachedProgram = node.cached
    functions = node.spec.backend.functions
    edges = dict(zip(cached.targets, node.inputs, strict=True))
    given: list[Any] = []
    targets = {}
    for number, value in zip(cached.program.inputs, node.given, strict=True):
        if number in cached.program.keys:
            given.append(value)
        elif number in edges:  # a separate node: one may have been computed from another
            given.append(functions.positive(restore(value, edges[number])))
            targets[number] = given[-1]._node
        else:
            given.append(from_raw(value))
    outs = cached.stepwise.on_tensors(node.spec.backend, given)
    by_number = dict(zip(cached.stepwise.outputs, outs, strict=True))
    for number, hook in cached.hooks:
        if by_number[number]._node is not None:
            by_number[number].register_hook(hook)
    return by_number, [targets[number] for number in cached.targets]


def _run_again(node: Any) -> tuple[Mapping[int, Tensor], Sequence[Node]]:
    """Run the function itself likewise: a `Function` in it has its own backward, unknown to the steps.

    Raises
    ------
    RuntimeError
        If something that it reads has changed since the call.
    """
    cached: CachedProgram = node.cached
    mode.not_recorded("a compiled function that was called before is differentiated twice, through a Function")
    found = cached.enter(node.leaves)
    if isinstance(found, str):
        raise _changed(found, node)
    if cached.defaults != defaults():
        raise _changed("the default dtype or backend", node)
    for at, place in cached.tensors:
        if found[at] is not node.given[at]:
            raise _changed(name_at(place), node)
    for place, edge in zip(cached.differentiated, node.inputs, strict=True):
        if at_place(place, node.leaves)._node is not edge:
            raise _changed(name_at(place), node)
    assert cached.program.arguments is not None
    args, kwargs = tree.unflatten(cached.program.arguments.treedef, map(as_passed, node.leaves))
    returned = again([node.given[at] for at, _ in cached.keys], cached.function, *args, **kwargs)
    results = zip(cached.leaves, tree.flatten(returned)[0], strict=True)
    return {leaf.number: result for (leaf, _), result in results if type(leaf) is Leaf}, node.inputs


def defaults() -> tuple[Any, ...]:
    """Return the settings that affect a call besides everything it reads."""
    return dtypes.get_default_dtype(), default_backend()


def name_at(place: int | Link) -> str:
    """Return the name of the object at a place."""
    return f"argument {place}" if isinstance(place, int) else place.name


def _changed(what: str, node: Any) -> RuntimeError:
    """Return the error for a derivative through a `Function` if something that the function reads has changed."""
    return RuntimeError(
        f"{what} is another than at the call of the compiled function, and its backward pass goes through the Function"
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
